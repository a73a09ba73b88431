"""Exact nearest neighbours by matrix products, in chunks of a given memory.

Squared distances come from |q|² - 2 q·p + |p|², which is one matrix product and loses digits where points lie close together
and far from the origin. So the product, in float32 and around the points' centre, only proposes: every point that the rounding
error of the product leaves a chance is kept, and its distance is computed from the differences in float64. The answer is that of
a loop over all pairs, whatever the chunks; equal distances are ordered by index.

>>> queries, points = np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([[3.0, 4.0], [0.0, 1.0], [5.0, 6.0]])
>>> nearest(queries, points, k=2).distances.round(3).tolist()
[[1.0, 5.0], [1.0, 2.236]]
>>> nearest(queries, points).indices.tolist()
[[1], [2]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

GROUPS = 4
"""Smallest number of groups of points for every neighbour sought; their minima bound the k-th distance."""
CROWD = 64
"""So many candidates beyond 8 k are a sign that float32 cannot tell the points of a row apart."""
PAIRS_AT_ONCE = 2**18
"""Differences refined at once, in numbers: as many as a processor's cache holds."""
BLOCK = 2**23
"""Products held at once, in numbers, where the memory allows more: fewer stay in the cache, far fewer slow the product down."""
LARGEST = 1e150
"""Squares of larger numbers are no float64."""
FAR = 1e15
"""Queries this much farther out than the points are compared in float64 alone, where their squares are numbers."""


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

    `device` is numpy's processor or a torch device for the products. With `exclude_self` the queries are the points themselves,
    and none is its own neighbour. `memory_mb` bounds the products held at once, not the answer.
    """
    return Points(points, device=device, memory_mb=memory_mb).nearest(queries, k=k, exclude_self=exclude_self)


class Points:
    """Points made ready once, for many searches: among all of them, or among a slice.

    >>> points = Points(np.array([[0.0], [1.0], [5.0], [6.0]]))
    >>> points.nearest(np.array([[0.9]]), start=2).indices.tolist()
    [[2]]
    """

    def __init__(self, points: np.ndarray, *, device: str = "cpu", memory_mb: int = 512) -> None:
        self._points = _checked(points, "points")
        self._device, self._memory_mb = device, memory_mb
        self._torch = None if device == "cpu" else _torch_on(device)
        chunk_rows(1, memory_mb)
        # A power of two is exact, and around 1 no square of float32 overflows or vanishes.
        # Vanishing points are not magnified without limit, or ordinary queries would overflow beside them.
        least, most = (-40, 120) if self._points.dtype == np.float32 else (-400, 1000)
        self._scale = 2.0 ** -np.clip(np.ceil(np.log2(2 * _extent(self._points) or 1.0)), least, most)
        # Any centre will do, as queries are moved along; one that is a float32 makes the difference of two float32 exact enough.
        mean = self._points.mean(axis=0, dtype=np.float64) if len(self._points) else np.zeros(self._points.shape[1])
        self._centre = (mean * self._scale).astype(np.float32)
        self._operand = self._there(self._with_squares(self._points, np.float32))

    def __len__(self) -> int:
        return len(self._points)

    def nearest(
        self,
        queries: np.ndarray,
        *,
        k: int = 1,
        start: int = 0,
        stop: int | None = None,
        exclude_self: bool = False,
    ) -> Neighbours:
        """The k nearest of the points from `start` to `stop`; indices count from the first point of all."""
        queries = _checked(queries, "queries")
        stop = len(self) if stop is None else stop
        available = stop - start - exclude_self
        if queries.shape[1] != self._points.shape[1]:
            raise ValueError(
                f"queries have {queries.shape[1]} columns and points {self._points.shape[1]}; "
                "the same number was expected"
            )
        if exclude_self and (len(queries) != len(self) or available < len(self) - 1):
            raise ValueError(
                f"exclude_self takes the points as queries, but there are {len(queries)} and {stop - start} of them"
            )
        if not 1 <= k <= available:
            raise ValueError(
                f"k is {k}; from 1 to {available} was expected, as many as there are points to choose from"
            )
        found = Neighbours(np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64))
        if not len(queries):
            return found
        far = np.abs(queries).max(axis=1) * self._scale > FAR
        crowded = self._search(found, queries, np.flatnonzero(~far), slice(start, stop), exclude_self, np.float32)
        again = np.sort(np.append(crowded, np.flatnonzero(far)))
        if len(again):
            self._search(found, queries, again, slice(start, stop), exclude_self, np.float64)
        return found

    def _search(
        self,
        found: Neighbours,
        queries: np.ndarray,
        rows: np.ndarray,
        among: slice,
        exclude_self: bool,
        dtype: type[np.floating[Any]],
    ) -> np.ndarray:
        """Fill in the answer of these rows; gives back those that this precision cannot tell."""
        k, width = found.indices.shape[1], among.stop - among.start
        product = self._product(among, dtype)
        size = chunk_rows(width, self._memory_mb, bytes_each=np.dtype(dtype).itemsize)
        if self._torch is None:
            size = min(size, max(64, BLOCK // width), max(len(rows), 1))
            product.values = np.empty((size, width), dtype=dtype)
        crowded = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(rows), size):
            chunk = rows[start : start + size]
            picked, columns = product.candidates(self._ready(queries[chunk], dtype), k, chunk if exclude_self else None)
            count = np.bincount(picked, minlength=len(chunk))
            if dtype is np.float32 and count.max() > 8 * k + CROWD:
                usable = count <= 8 * k + CROWD
                crowded.append(chunk[~usable])
                picked, columns = picked[usable[picked]], columns[usable[picked]]
            _refine(found, queries, self._points, chunk[picked], columns + among.start)
        return np.concatenate(crowded)

    def _product(self, among: slice, dtype: type[np.floating[Any]]) -> _Product:
        if dtype is np.float32:
            return _Product(self._operand[among], dtype, self)
        return _Product(self._there(self._with_squares(self._points[among], dtype)), dtype, self)

    def _with_squares(self, points: np.ndarray, dtype: type[np.floating[Any]]) -> np.ndarray:
        """Points with their squared norm as one more column: times (-2 q, 1) it is |p|² - 2 q·p, in one product."""
        operand = np.empty((len(points), points.shape[1] + 1), dtype=dtype)
        for start in range(0, len(points), 1024):
            block = self._ready(points[start : start + 1024], dtype)
            operand[start : start + 1024, :-1] = block
            operand[start : start + 1024, -1] = np.einsum("ij,ij->i", block, block)
        return operand

    def _ready(self, values: np.ndarray, dtype: type[np.floating[Any]]) -> np.ndarray:
        """Scaled and moved in the precision of the values, then as `dtype`."""
        moved = values * values.dtype.type(self._scale)
        moved -= self._centre
        return moved.astype(dtype, copy=False)

    def _there(self, values: np.ndarray) -> Any:
        return values if self._torch is None else self._torch.from_numpy(values).to(self._device)


def chunk_rows(width: int, memory_mb: int, *, bytes_each: int = 4) -> int:
    """How many rows of `width` numbers fit into the budget, with as much again for what is made from them; at least one.

    >>> chunk_rows(1_000_000, 16), chunk_rows(10**9, 1)
    (2, 1)
    """
    if memory_mb < 1:
        raise ValueError(f"memory_mb is {memory_mb}; at least 1 was expected")
    return max(1, memory_mb * 2**20 // (2 * bytes_each * max(width, 1)))


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"{name} have the shape {values.shape}; one row each was expected: (n, columns)")
    if values.dtype != np.float32:
        values = values.astype(np.float32 if values.dtype == np.float16 else np.float64, copy=False)
    if not _extent(values) < LARGEST:
        broken = int((~np.isfinite(values).all(axis=1)).sum())
        found = f"NaN or infinite values in {broken} rows" if broken else f"values above {LARGEST:g}"
        raise ValueError(f"{name} hold {found}; finite numbers whose squares are finite were expected")
    return values


def _extent(values: np.ndarray) -> float:
    """The largest absolute value; NaN where there is one."""
    return float(max(values.max(initial=0.0), -values.min(initial=0.0))) if not np.isnan(values.sum()) else np.nan


class _Product:
    """Points for products in one precision, and how far such a product can be wrong."""

    def __init__(self, operand: Any, dtype: type[np.floating[Any]], owner: Points) -> None:
        self.operand = operand
        self.values = np.zeros((0, 0))
        """Room for numpy's products, taken once for all chunks."""
        self.torch, self.there = owner._torch, owner._there
        # A dot product of d terms is wrong by d u |q||p| at most (Higham, Accuracy and Stability, eq. 3.5), u half of eps: with
        # |p|² - 2 q·p, and |p|² itself rounded so, by d eps |p|(|p| + |q|). The second part is for moving and casting the values.
        self.eps, self.terms = float(np.finfo(dtype).eps), operand.shape[1] + 1
        self.smallest = 4 * operand.shape[1] * float(np.finfo(dtype).tiny)
        self.largest = float(operand[:, -1].max()) ** 0.5

    def candidates(self, queries: np.ndarray, k: int, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of all pairs that may be among the k nearest of their query, in the order of the queries.

        `own` are columns that a query must not find.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        reach = norms + self.largest
        error = self.eps * (self.terms * self.largest * reach + 4 * reach**2) + self.smallest
        # Twice: the bound may be too low by it, and a candidate too high.
        slack = 2 * error
        doubled = np.ones((len(queries), queries.shape[1] + 1), dtype=queries.dtype)
        np.multiply(queries, -2, out=doubled[:, :-1])
        pick = _pick_numpy if self.torch is None else _pick_torch
        return pick(self, doubled, slack.astype(queries.dtype), k, own)


def _pick_numpy(
    product: _Product, queries: np.ndarray, slack: np.ndarray, k: int, own: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    values = np.matmul(queries, product.operand.T, out=product.values[: len(queries)])
    if own is not None:
        values[np.arange(len(own)), own] = np.inf
    n = values.shape[1]
    groups = _groups(n, k)
    if groups:
        # The k smallest of the groups' minima are k different points: the largest of them bounds the k-th distance from above.
        per = n // groups
        minima = values[:, : per * groups].reshape(len(values), per, groups).min(axis=1)
        bound = np.partition(minima, k - 1, axis=1)[:, k - 1] if k > 1 else minima.min(axis=1)
    else:
        bound = np.partition(values, k - 1, axis=1)[:, k - 1] if k > 1 else values.min(axis=1)
    chosen = np.flatnonzero(values <= (bound + slack)[:, None])
    return np.divmod(chosen, n)


def _pick_torch(
    product: _Product, queries: np.ndarray, slack: np.ndarray, k: int, own: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    torch: Any = product.torch
    values = product.there(queries) @ product.operand.T
    if own is not None:
        values[product.there(np.arange(len(own))), product.there(own)] = torch.inf
    n = values.shape[1]
    groups = _groups(n, k)
    if groups:
        per = n // groups
        values_of_groups = values[:, : per * groups].reshape(len(values), per, groups).amin(dim=1)
    else:
        values_of_groups = values
    bound = torch.kthvalue(values_of_groups, k, dim=1).values
    chosen = torch.nonzero(values <= (bound + product.there(slack))[:, None]).cpu().numpy()
    return chosen[:, 0], chosen[:, 1]


def _groups(n: int, k: int) -> int:
    """Into how many groups n points are split, 0 where that saves nothing."""
    groups = max(GROUPS * k, 256)
    return groups if n >= 4 * groups else 0


def _refine(found: Neighbours, queries: np.ndarray, points: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Distances of the candidates from their differences in float64; the k best of each row, equal ones by index."""
    if not len(rows):
        return
    k = found.indices.shape[1]
    squared = np.empty(len(rows))
    step = max(1, PAIRS_AT_ONCE // max(points.shape[1], 1))
    for start in range(0, len(squared), step):
        part = slice(start, start + step)
        difference = points[columns[part]].astype(np.float64)
        difference -= queries[rows[part]]
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    order = np.lexsort((columns, squared, rows))
    answered, first = np.unique(rows, return_index=True)
    best = order[first[:, None] + np.arange(k)]
    found.distances[answered] = np.sqrt(squared[best])
    found.indices[answered] = columns[best]


def _torch_on(device: str) -> Any:
    """Torch, for another device than numpy's; its float32 products must be what they say."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device {device!r} needs torch, which is not installed; use device='cpu'") from error
    if torch.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "torch.set_float32_matmul_precision lets float32 products be rounded to fewer digits, so that neighbours are missed; "
            "set it to 'highest', or use device='cpu'"
        )
    return torch
