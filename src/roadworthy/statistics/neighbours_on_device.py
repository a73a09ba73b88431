"""Exact nearest neighbours on a torch device, without a word to the host between the chunks.

The scheme is that of `candidates`, in shapes known beforehand: the k + EXTRA smallest products of a row are found through the
minima of groups, all of them get their distance from differences in float64, and the row is proved if the last of them lies
beyond the k-th by more than the product's error, so that no point outside has a chance. Rows that are not proved (many equal
points) are left to the caller.

>>> points = np.arange(40.0)[:, None]
>>> there = PointsOnDevice(points, Frame.of(points), device="cpu:0", memory_mb=1)
>>> distances, indices, proved = there.nearest(np.array([[4.2]]), 2, slice(0, 40), None)
>>> indices.tolist(), proved.tolist()
([[4, 5]], [True])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .candidates import Frame, chunk_rows, groups_of, hide
from .on_device import to_device, torch_on

EXTRA = 14
"""Candidates beyond k: as many as rounding or ties may confuse with the k-th before a row is left to the slower way."""


class PointsOnDevice:
    """Points moved once: as they are for the differences, and as float32 in the frame of the products."""

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
        """The k nearest of these columns by their differences in float64; equal ones by index, hidden ones last."""
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
