"""Exact nearest neighbours by matrix products, in chunks of a given memory.

Squared distances come from |q|² - 2 q·p + |p|², which is one matrix product and loses digits where
points lie close together and far from the origin. So the product, in float32 and around the points'
centre, only proposes: every point that the rounding error of the product leaves a chance is kept,
and its distance is computed from the differences in float64. The answer is that of a loop over all
pairs, whatever the chunks; equal distances are ordered by index.

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

from roadworthy.statistics.candidates import (
    Frame,
    Product,
    chunk_rows,
    extent_of,
    groups_of,
    hide,
    refine,
    refine_kth,
)
from roadworthy.statistics.row_blocks import to_device, torch_on

CROWD = 64
"""So many candidates beyond 8 k are a sign that float32 cannot tell the points of a row apart."""
BLOCK = 2**25
"""Products held at once, in numbers, where the memory allows more: fewer slow the product down,
more leave the cache."""
LARGEST = 1e150
"""Squares of larger numbers are no float64."""
FAR = 1e15
"""Queries this much farther out than the points are compared in float64 alone, where their squares
are numbers."""


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
        self._frame = Frame.of(self._points)
        self._operand: np.ndarray | None = None
        self._radius = 0.0
        self._there: Any = None
        if device != "cpu":
            self._there = PointsOnDevice(
                self._points, self._frame, device=device, memory_mb=memory_mb
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
        queries, among = self._asked(
            queries, k, slice(start, len(self) if stop is None else stop), without
        )
        found = Neighbours(np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64))
        if len(queries):
            self._search(found, queries, among, without)
        return found

    def kth_distances(self, queries: np.ndarray, *, k: int) -> np.ndarray:
        """The distance to the k-th nearest point alone, which takes far fewer differences in
        float64 than all k."""
        queries, among = self._asked(queries, k, slice(0, len(self)), None)
        if self._there is not None:
            return self.nearest(queries, k=k).distances[:, -1]
        distances = np.empty(len(queries))
        if len(queries):
            self._search_here(distances, queries, np.arange(len(queries)), among, None, k)
        return distances

    def _asked(
        self, queries: np.ndarray, k: int, among: slice, without: np.ndarray | None
    ) -> tuple[np.ndarray, slice]:
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
        return queries, among

    def _search(
        self, found: Neighbours, queries: np.ndarray, among: slice, without: np.ndarray | None
    ) -> None:
        rows, k = np.arange(len(queries)), found.indices.shape[1]
        if self._there is None:
            self._search_here(found, queries, rows, among, without, k)
            return
        sound = np.flatnonzero(~self._far(queries))
        part = queries if len(sound) == len(rows) else queries[sound]
        excluded = without if without is None else without[sound]
        distances, indices, proved = self._there.nearest(part, k, among, excluded)
        settled = sound[proved]
        found.distances[settled], found.indices[settled] = distances[proved], indices[proved]
        rest = np.setdiff1d(rows, settled, assume_unique=True)
        self._search_here(found, queries, rest, among, without, k)

    def _search_here(
        self,
        found: Neighbours | np.ndarray,
        queries: np.ndarray,
        rows: np.ndarray,
        among: slice,
        without: np.ndarray | None,
        k: int,
    ) -> None:
        """Fill in the answer of these rows: in float32 where that can tell the points apart, else
        in float64."""
        far = self._far(queries[rows]) if len(rows) < len(queries) else self._far(queries)
        again = [rows[far]]
        for dtype in (np.float32, np.float64):
            asked = rows[~far] if dtype is np.float32 else np.sort(np.concatenate(again))
            if len(asked):
                again.append(self._in_chunks(found, queries, asked, among, without, k, dtype))

    def _in_chunks(
        self,
        found: Neighbours | np.ndarray,
        queries: np.ndarray,
        rows: np.ndarray,
        among: slice,
        without: np.ndarray | None,
        k: int,
        dtype: type[np.floating[Any]],
    ) -> np.ndarray:
        """Gives back the rows that this precision cannot tell."""
        width = among.stop - among.start
        product = self._product(among, dtype)
        size = chunk_rows(width, self._memory_mb, bytes_each=np.dtype(dtype).itemsize)
        size = min(size, max(64, BLOCK // width), len(rows))
        # Chunks of one size: a small one at the end is a slow product.
        size = -(-len(rows) // -(-len(rows) // size))
        room = np.empty((size, width), dtype=dtype)
        crowded = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(rows), size):
            chunk = rows[start : start + size]
            # A run of rows is a view of the queries; rows picked one by one are a copy.
            whole = chunk[-1] - chunk[0] + 1 == len(chunk)
            asked = queries[chunk[0] : chunk[-1] + 1] if whole else queries[chunk]
            excluded = None if without is None else without[chunk] - among.start
            proposed = product.candidates(asked, k, excluded, room)
            if dtype is np.float32:
                count = np.bincount(proposed.rows, minlength=len(chunk))
                if count.max() > 8 * k + CROWD:
                    usable = count <= 8 * k + CROWD
                    crowded.append(chunk[~usable])
                    proposed = proposed.of(usable)
            if not len(proposed.rows):
                continue
            points = self._points[among]
            if isinstance(found, Neighbours):
                answered, distances, indices = refine(proposed, asked, points, k)
                found.distances[chunk[answered]] = distances
                found.indices[chunk[answered]] = indices + among.start
            else:
                answered, distances = refine_kth(proposed, asked, points, k)
                found[chunk[answered]] = distances
        return np.concatenate(crowded)

    def _product(self, among: slice, dtype: type[np.floating[Any]]) -> Product:
        if dtype is np.float64:
            return Product(self._frame.with_squares(self._points[among], dtype), self._frame)
        if self._operand is None:
            self._radius = self._frame.sphere(self._points) if self._points.dtype == dtype else 0.0
            self._operand = (
                self._points if self._radius else self._frame.with_squares(self._points, dtype)
            )
        return Product(self._operand[among], self._frame, radius=self._radius)

    def _far(self, queries: np.ndarray) -> np.ndarray:
        limit = FAR / self._frame.scale
        if extent_of(queries) <= limit:
            return np.zeros(len(queries), dtype=bool)
        far: np.ndarray = np.abs(queries).max(axis=1).astype(np.float64) > limit
        return far


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(
            f"{name} have the shape {values.shape}; one row each was expected: (n, columns)"
        )
    if values.dtype != np.float32:
        values = values.astype(np.float32 if values.dtype == np.float16 else np.float64, copy=False)
    if not extent_of(values) < LARGEST:
        broken = int((~np.isfinite(values).all(axis=1)).sum())
        found = (
            f"NaN or infinite values in {broken} rows" if broken else f"values above {LARGEST:g}"
        )
        raise ValueError(
            f"{name} hold {found}; finite numbers whose squares are finite were expected"
        )
    return values


EXTRA = 14
"""Candidates beyond k: as many as rounding or ties may confuse with the k-th before a row is left
to the slower way."""


class PointsOnDevice:
    """Points moved once: as they are for the differences, and as float32 in the frame of the
    products.

    Exact nearest neighbours on a torch device, without a word to the host between the chunks.

    The scheme is that of `candidates`, in shapes known beforehand: the k + EXTRA smallest products
    of a row are found through the minima of groups, all of them get their distance from differences
    in float64, and the row is proved if the last of them lies beyond the k-th by more than the
    product's error, so that no point outside has a chance. Rows that are not proved (many equal
    points) are left to the caller.

    >>> points = np.arange(40.0)[:, None]
    >>> there = PointsOnDevice(points, Frame.of(points), device="cpu:0", memory_mb=1)
    >>> distances, indices, proved = there.nearest(np.array([[4.2]]), 2, slice(0, 40), None)
    >>> indices.tolist(), proved.tolist()
    ([[4, 5]], [True])
    """

    def __init__(self, points: np.ndarray, frame: Frame, *, device: str, memory_mb: int) -> None:
        self._torch, self._device = torch_on(device), device
        self._frame, self._memory_mb = frame, memory_mb
        self._centre = to_device(frame.centre, device)
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
            slack = 2 * self._frame.error(norms, largest, width=width, dtype=np.float32)
            products = torch.addmm(self._squares[among], moved, self._operand[among].T, alpha=-2)
            if without is not None:
                hide(products, without[part] - among.start)
            smallest, columns = self._smallest(products, min(k + EXTRA, n))
            proved[part] = smallest[:, -1] > smallest[:, k - 1] + slack if k + EXTRA < n else True
            distances[part], indices[part] = self._refined(
                there[part], columns + among.start, smallest, k
            )
        return distances.cpu().numpy(), indices.cpu().numpy(), proved.cpu().numpy()

    def _moved(self, values: Any) -> Any:
        """Scaled and moved in the precision of the values, then as float32."""
        return (values * self._frame.scale - self._centre).float()

    def _smallest(self, products: Any, count: int) -> tuple[Any, Any]:
        """The smallest products of every row, ascending, and their columns."""
        torch = self._torch
        n = products.shape[1]
        # As many minima to sort through as products of the groups that they choose.
        groups, size = groups_of(n, at_least=max(int((n * count) ** 0.5), 2 * count))
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
