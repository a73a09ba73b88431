"""Exact nearest neighbours by matrix products, in chunks of a given memory.

The product |p|² - 2 q·p, in float32 and around the points' centre, gives squared distances but for a
constant of the query, and loses digits where points lie close together. So it only proposes. With e
the bound of its error, the k-th smallest product lies within e of the k-th smallest true value: a
point is among the k nearest only if its product is at most 2 e above. All such candidates get their
distance from the differences in float64. The answer is that of a loop over all pairs, whatever the
chunks; equal distances are ordered by index.

>>> queries, points = np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([[3.0, 4.0], [0.0, 1.0], [5.0, 6.0]])
>>> nearest(queries, points, k=2).distances.round(3).tolist()
[[1.0, 5.0], [1.0, 2.236]]
>>> nearest(queries, points).indices.tolist()
[[1], [2]]
>>> Points(points).kth_distances(queries, k=2).round(3).tolist()
[5.0, 2.236]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from roadworthy.statistics.row_blocks import in_blocks, to_device, torch_on

GROUPS = 4
"""Smallest number of groups of points per neighbour; their minima bound the k-th distance."""
FEW = 32
"""Groups per neighbour from which on only those that can hold a neighbour are searched."""
PAIRS_AT_ONCE = 2**18
"""Differences computed at once, in numbers: as many as a processor's cache holds."""
ROWS_AT_ONCE = 512
"""Rows moved and squared at once, for the same reason."""
CROWD = 64
"""So many candidates beyond 8 k are a sign that float32 cannot tell the points of a row apart."""
BLOCK = 2**25
"""Products held at once, in numbers: fewer slow the product down, more leave the cache."""
LARGEST = 1e150
"""Squares of larger numbers are no float64."""
ORDINARY = 1e15
"""Values above this, or points below its inverse, are compared in float64 alone."""
EXTRA = 14
"""Candidates beyond k on a device: as many as rounding or ties may confuse with the k-th."""


class Neighbours(NamedTuple):
    """For every query, its k nearest points, nearest first."""

    distances: np.ndarray
    """float64, (queries, k)."""
    indices: np.ndarray
    """int64, (queries, k)."""


def nearest(
    queries: np.ndarray,
    points: np.ndarray,
    *,
    k: int = 1,
    device: str = "cpu",
    memory_mb: int = 512,
    exclude_self: bool = False,
) -> Neighbours:
    """The `k` nearest `points` of every query by Euclidean distance.

    `device` is numpy's processor or a torch device. With `exclude_self` the queries are the points
    themselves, and none is its own neighbour. `memory_mb` bounds the products held at once, not the
    answer.
    """
    ready = Points(points, device=device, memory_mb=memory_mb)
    if not exclude_self:
        return ready.nearest(queries, k=k)
    if len(queries) != len(ready):
        raise ValueError(
            f"exclude_self takes the points as queries, but there are {len(queries)} and {len(ready)} of them"
        )
    own = np.arange(len(ready))
    return ready.nearest(queries, k=k, without=np.stack([own, own + 1], axis=1))


class Points:
    """Points made ready once, for many searches: among all of them, among a slice, or without one.

    >>> points = Points(np.array([[0.0], [1.0], [5.0], [6.0]]))
    >>> points.nearest(np.array([[0.9]]), start=2).indices.tolist()
    [[2]]
    >>> points.nearest(np.array([[0.9], [0.9]]), without=np.array([[0, 2], [1, 2]])).indices.tolist()
    [[2], [0]]
    """

    def __init__(self, points: np.ndarray, *, device: str = "cpu", memory_mb: int = 512) -> None:
        self._points = _checked(points, "points")
        self._memory_mb = memory_mb
        chunk_rows(1, memory_mb)
        self._extent = _extent(self._points)
        self._centre = self._points.sum(axis=0, dtype=np.float64) / max(len(self._points), 1)
        self._single: np.ndarray | None = None
        self._there: PointsOnDevice | None = None
        if device != "cpu":
            self._there = PointsOnDevice(
                self._points, self._centre, device=device, memory_mb=memory_mb
            )

    def __len__(self) -> int:
        return len(self._points)

    def nearest(
        self,
        queries: np.ndarray,
        *,
        k: int = 1,
        start: int = 0,
        stop: int | None = None,
        without: np.ndarray | None = None,
    ) -> Neighbours:
        """The k nearest of the points from `start` to `stop`; indices count from the first point of
        all.

        `without` has a row for every query: the first point that it must not find, and the one
        behind the last.
        """
        among = slice(start, len(self) if stop is None else stop)
        queries = self._asked(queries, k, among, without)
        found = Neighbours(np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64))
        rows = np.arange(len(queries))
        ordinary = max(self._extent, _extent(queries)) <= ORDINARY and (
            self._extent == 0 or self._extent >= 1 / ORDINARY
        )
        if ordinary and len(rows) and self._there is not None:
            *answer, proved = self._there.nearest(queries, k, among, without)
            found = Neighbours(*answer)
            rows = np.flatnonzero(~proved)
        elif ordinary:
            rows = self._in_chunks(found, queries, rows, among, without, np.float32)
        self._in_chunks(found, queries, rows, among, without, np.float64)
        return found

    def kth_distances(self, queries: np.ndarray, *, k: int) -> np.ndarray:
        """The distance to the k-th nearest point alone."""
        return self.nearest(queries, k=k).distances[:, -1]

    def _asked(
        self, queries: np.ndarray, k: int, among: slice, without: np.ndarray | None
    ) -> np.ndarray:
        queries = _checked(queries, "queries")
        if queries.shape[1] != self._points.shape[1]:
            raise ValueError(
                f"queries have {queries.shape[1]} columns and points {self._points.shape[1]}; "
                "the same number was expected"
            )
        available = among.stop - among.start
        if without is not None and len(queries):
            if without.shape != (len(queries), 2):
                raise ValueError(
                    f"without has the shape {without.shape}; ({len(queries)}, 2) was expected"
                )
            inside = np.clip(without, among.start, among.stop)
            available -= int(np.maximum(inside[:, 1] - inside[:, 0], 0).max())
        if not 1 <= k <= available:
            raise ValueError(
                f"k is {k}; from 1 to {available} was expected, as many as there are points to choose from"
            )
        return queries

    def _in_chunks(
        self,
        found: Neighbours,
        queries: np.ndarray,
        rows: np.ndarray,
        among: slice,
        without: np.ndarray | None,
        dtype: type[np.floating[Any]],
    ) -> np.ndarray:
        """Fill in the answer of these rows; gives back those that this precision cannot tell."""
        crowded = [np.zeros(0, dtype=np.int64)]
        if not len(rows):
            return crowded[0]
        k, width = found.indices.shape[1], among.stop - among.start
        points, operand = self._points[among], self._operand(among, dtype)
        size = chunk_rows(width, self._memory_mb, bytes_each=np.dtype(dtype).itemsize)
        size = min(size, max(64, BLOCK // width), len(rows))
        # Chunks of one size: a small one at the end is a slow product.
        size = -(-len(rows) // -(-len(rows) // size))
        room = np.empty((size, width), dtype=dtype)
        for start in range(0, len(rows), size):
            chunk = rows[start : start + size]
            asked = queries[chunk]
            hidden = None if without is None else without[chunk] - among.start
            counts, columns = self._candidates(asked, operand, k, hidden, room)
            of = np.repeat(np.arange(len(chunk)), counts)
            if dtype is np.float32 and counts.max() > 8 * k + CROWD:
                usable = counts <= 8 * k + CROWD
                crowded.append(chunk[~usable])
                columns, of = columns[usable[of]], of[usable[of]]
            squared = _squared_distances(asked, points, of, columns)
            order = np.lexsort((columns, squared, of))
            answered, first = np.unique(of, return_index=True)
            best = order[first[:, None] + np.arange(k)]
            found.distances[chunk[answered]] = np.sqrt(squared[best])
            found.indices[chunk[answered]] = columns[best] + among.start
        return np.concatenate(crowded)

    def _candidates(
        self,
        queries: np.ndarray,
        operand: np.ndarray,
        k: int,
        hidden: np.ndarray | None,
        room: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """How many points may be among the k nearest of each query, and which; `room` takes the
        products."""
        dtype = operand.dtype.type
        doubled = _with_squares(queries, self._centre, dtype)
        norms = np.sqrt(doubled[:, -1], dtype=np.float64)
        doubled *= -2
        doubled[:, -1] = 1
        largest = float(operand[:, -1].max()) ** 0.5
        # Twice: the bound may be too low by it, and a candidate too high.
        slack = (2 * _error(norms, largest, queries.shape[1], dtype)).astype(dtype)
        products = np.matmul(doubled, operand.T, out=room[: len(queries)])
        if hidden is not None:
            _hide(products, hidden)
        picked = in_blocks(
            lambda rows: _picked(products[rows], slack[rows], k),
            len(products),
            size=max(16, -(-len(products) // 8)),
            numbers=products.size,
        )
        counts, columns = (np.concatenate([part[i] for part in picked]) for i in (0, 1))
        return counts, columns

    def _operand(self, among: slice, dtype: type[np.floating[Any]]) -> np.ndarray:
        if dtype is np.float64:
            return _with_squares(self._points[among], self._centre, dtype)
        if self._single is None:
            self._single = _with_squares(self._points, self._centre, dtype)
        return self._single[among]


def _with_squares(
    values: np.ndarray, centre: np.ndarray, dtype: type[np.floating[Any]]
) -> np.ndarray:
    """Values around the centre with their squared norm as one more column: times (-2 q, 1) it is
    |p|² - 2 q·p."""
    operand = np.empty((len(values), values.shape[1] + 1), dtype=dtype)

    def fill(rows: slice) -> None:
        block = operand[rows]
        block[:, :-1] = np.subtract(values[rows], centre, dtype=np.float64)
        block[:, -1] = np.einsum("ij,ij->i", block[:, :-1], block[:, :-1])

    in_blocks(fill, len(values), size=ROWS_AT_ONCE, numbers=operand.size)
    return operand


def _error(norms: Any, largest: Any, width: int, dtype: type[np.floating[Any]]) -> Any:
    """How far |p|² - 2 q·p, computed in `dtype`, can be from its true value, for queries of these
    norms.

    A dot product of d terms is wrong by d u |q||p| at most (Higham, Accuracy and Stability, eq.
    3.5), u half of eps: with |p|² - 2 q·p, and |p|² itself rounded so, by d eps |p|(|p| + |q|). The
    second part is for moving and casting the values.
    """
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    reach = norms + largest
    return eps * ((width + 2) * largest * reach + 4 * reach**2) + 4 * (width + 1) * tiny


def _hide(products: Any, without: np.ndarray) -> None:
    """Products that no query may find, of a numpy or a torch matrix, are infinite."""
    bounds = np.clip(without, 0, products.shape[1])
    if (bounds[:, 1] - bounds[:, 0] == 1).all():
        products[np.arange(len(bounds)), bounds[:, 0]] = np.inf
        return
    # Queries of one class stand together, so that a few blocks hide all.
    starts = np.flatnonzero(np.append(True, (bounds[1:] != bounds[:-1]).any(axis=1)))
    for first, last in zip(starts, np.append(starts[1:], len(bounds)), strict=True):
        products[first:last, bounds[first, 0] : bounds[first, 1]] = np.inf


def _groups_of(n: int, *, at_least: int) -> tuple[int, int]:
    """Into how many groups of how many points n points are split, the rest smaller than a group; (0, 0) if that saves nothing.

    >>> _groups_of(20_000, at_least=256), _groups_of(500, at_least=256)
    ((256, 78), (0, 0))
    """
    if n < 4 * at_least:
        return 0, 0
    size = n // at_least
    return n // size, size


def _picked(products: np.ndarray, slack: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For every row, how many columns may be among its k smallest; then these columns, row by row."""
    n = products.shape[1]
    groups, size = _groups_of(n, at_least=max(GROUPS * k, 256))
    # The k smallest of the groups' minima are k different points: the largest of them bounds the k-th distance from above.
    minima = products
    if groups:
        minima = products[:, : size * groups].reshape(len(products), size, groups).min(axis=1)
        rest = n - size * groups
        np.minimum(minima[:, :rest], products[:, n - rest :], out=minima[:, :rest])
    bound = np.partition(minima, k - 1, axis=1)[:, k - 1] if k > 1 else minima.min(axis=1)
    # What is hidden is infinite, and so is the bound where whole groups are.
    limit = np.minimum(bound + slack, np.finfo(products.dtype).max)
    if groups >= FEW * k:
        chosen = _in_groups(products, minima, limit)
    else:
        chosen = np.flatnonzero(products <= limit[:, None])
    rows = chosen // n
    return np.bincount(rows, minlength=len(products)), chosen - rows * n


def _in_groups(products: np.ndarray, minima: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Positions of the products up to their row's limit, from the groups alone whose minimum is; row by row."""
    n, groups = products.shape[1], minima.shape[1]
    row, group = np.nonzero(minima <= limit[:, None])
    columns = group[:, None] + np.arange(0, n, groups)
    # Only the first groups have a member in the last, shorter round.
    positions = (row * n)[:, None] + np.minimum(columns, n - 1)
    small = (products.reshape(-1)[positions] <= limit[row][:, None]) & (columns < n)
    found: np.ndarray = positions[small]
    return found


def _squared_distances(
    queries: np.ndarray, points: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Of these pairs, from their differences in float64."""
    squared = np.empty(len(rows))
    step = max(1, PAIRS_AT_ONCE // max(points.shape[1], 1))
    for start in range(0, len(squared), step):
        part = slice(start, start + step)
        difference = points[columns[part]].astype(np.float64)
        difference -= queries[rows[part]]
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    return squared


def chunk_rows(width: int, memory_mb: int, *, bytes_each: int = 4) -> int:
    """How many rows of `width` numbers fit into the budget, with as much again for what is made from them; at least one.

    >>> chunk_rows(1_000_000, 16), chunk_rows(10**9, 1)
    (2, 1)
    """
    if memory_mb < 1:
        raise ValueError(f"memory_mb is {memory_mb}; at least 1 was expected")
    return max(1, memory_mb * 2**20 // (2 * bytes_each * max(width, 1)))


def _extent(values: np.ndarray) -> float:
    """The largest absolute value; NaN where there is one."""
    return float(np.maximum(values.max(initial=0.0), -values.min(initial=0.0)))


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(
            f"{name} have the shape {values.shape}; one row each was expected: (n, columns)"
        )
    if values.dtype != np.float32:
        values = values.astype(np.float32 if values.dtype == np.float16 else np.float64, copy=False)
    if not _extent(values) < LARGEST:
        broken = int((~np.isfinite(values).all(axis=1)).sum())
        found = (
            f"NaN or infinite values in {broken} rows" if broken else f"values above {LARGEST:g}"
        )
        raise ValueError(
            f"{name} hold {found}; finite numbers whose squares are finite were expected"
        )
    return values


class PointsOnDevice:
    """Points on a torch device, searched without a word to the host between the chunks.

    The k + EXTRA smallest products of a row are found through the minima of groups, all of them get
    their distance from differences in float64, and the row is proved if the last of them lies
    beyond the k-th by more than the product's error, so that no point outside has a chance. Rows
    that are not proved (many equal points) are left to the caller.

    >>> points = np.arange(40.0)[:, None]
    >>> there = PointsOnDevice(points, np.zeros(1), device="cpu:0", memory_mb=1)
    >>> distances, indices, proved = there.nearest(np.array([[4.2]]), 2, slice(0, 40), None)
    >>> indices.tolist(), proved.tolist()
    ([[4, 5]], [True])
    """

    def __init__(
        self, points: np.ndarray, centre: np.ndarray, *, device: str, memory_mb: int
    ) -> None:
        self._torch, self._device = torch_on(device), device
        self._memory_mb = memory_mb
        self._centre = to_device(centre, device)
        self._points = to_device(points, device)
        self._operand = self._moved(self._points)
        self._squares = self._operand.square().sum(dim=1)

    def nearest(
        self, queries: np.ndarray, k: int, among: slice, without: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distances, indices and whether they are proved, for every query."""
        torch = self._torch
        width, n = self._points.shape[1], among.stop - among.start
        there = to_device(queries, self._device)
        distances = torch.empty((len(queries), k), dtype=torch.float64, device=self._device)
        indices = torch.empty((len(queries), k), dtype=torch.int64, device=self._device)
        proved = torch.empty(len(queries), dtype=torch.bool, device=self._device)
        largest = self._squares[among].max().sqrt().double()
        size = chunk_rows(n, self._memory_mb)
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            moved = self._moved(there[part])
            norms = moved.double().square().sum(dim=1).sqrt()
            slack = 2 * _error(norms, largest, width, np.float32)
            products = torch.addmm(self._squares[among], moved, self._operand[among].T, alpha=-2)
            if without is not None:
                _hide(products, without[part] - among.start)
            smallest, columns = self._smallest(products, min(k + EXTRA, n))
            proved[part] = smallest[:, -1] > smallest[:, k - 1] + slack if k + EXTRA < n else True
            distances[part], indices[part] = self._refined(
                there[part], columns + among.start, smallest, k
            )
        return distances.cpu().numpy(), indices.cpu().numpy(), proved.cpu().numpy()

    def _moved(self, values: Any) -> Any:
        return (values.double() - self._centre).float()

    def _smallest(self, products: Any, count: int) -> tuple[Any, Any]:
        """The smallest products of every row, ascending, and their columns."""
        torch = self._torch
        n = products.shape[1]
        # As many minima to sort through as products of the groups that they choose.
        groups, size = _groups_of(n, at_least=max(int((n * count) ** 0.5), 2 * count))
        if not groups:
            found = torch.topk(products, count, dim=1, largest=False)
            return found.values, found.indices
        # The groups of the `count` smallest minima hold `count` products as small as any.
        minima = products[:, : groups * size].reshape(len(products), size, groups).amin(dim=1)
        best = torch.topk(minima, count, dim=1, largest=False, sorted=False).indices
        steps = groups * torch.arange(size, device=self._device)
        rest = torch.arange(groups * size, n, device=self._device).expand(len(products), -1)
        columns = torch.cat([(best[:, :, None] + steps).flatten(1), rest], dim=1)
        found = torch.topk(products.gather(1, columns), count, dim=1, largest=False)
        return found.values, columns.gather(1, found.indices)

    def _refined(self, queries: Any, columns: Any, products: Any, k: int) -> tuple[Any, Any]:
        """The k nearest of these columns by their differences in float64; equal ones by index,
        hidden ones last."""
        torch = self._torch
        columns, order = columns.sort(dim=1)
        squared = torch.empty(columns.shape, dtype=torch.float64, device=self._device)
        size = chunk_rows(columns.shape[1] * queries.shape[1], self._memory_mb, bytes_each=16)
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            difference = self._points[columns[part]].double() - queries[part, None]
            squared[part] = difference.square_().sum(dim=2)
        squared.masked_fill_(products.gather(1, order).isinf(), torch.inf)
        nearest = squared.sort(dim=1, stable=True)
        return nearest.values[:, :k].sqrt(), columns.gather(1, nearest.indices[:, :k])
