"""log Σ_i exp(-|q - p_i|²/2) over many points, by matrix products in chunks of queries.

The exponents are q·p - |p|²/2, but for a constant of the query: one matrix product. Points in float32 are multiplied in float32,
and the error that this leaves in the answer is bounded row by row. The largest exponent of a row is worked out again from
the differences in float64, so that only the share s of the other points in the sum counts. Each exponent is wrong by
δ = (d + 3) u |p| (|q| + |p|/2) at most, u half of eps (a dot product of d + 1 terms, and roundings before it; Higham, Accuracy
and Stability, eq. 3.5), and the logarithm of the sum by s (exp(2δ) - 1). Rows where that exceeds `TOLERANCE` are done again in
float64. Only points that count need a bound: one farther from q than √(D² + 60), D the distance of the leading one, adds less
than e⁻³⁰.

>>> points = KernelPoints(np.array([[0.0, 0.0], [3.0, 4.0]]))
>>> points.log_sums(np.array([[0.0, 0.0], [300.0, 400.0]])).round(6).tolist()
[4e-06, -122512.5]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .candidates import chunk_rows
from .row_blocks import in_blocks

TOLERANCE = 0.01
"""What float32 may change in the logarithm at worst: a hundredth of a density, which kernels do not know so well. What is found
is about a thousandth of that (see the tests)."""
BLOCK, CACHED = 2**21, 2**17
"""Exponents held at once, and worked on at once, in numbers: more would leave a processor's cache."""
NEGLIGIBLE = 60.0
"""Squared distance beyond the leading point's from which a point adds less than e⁻³⁰."""
FAR = 1e15
"""Queries farther out are left to float64, where their squares are numbers."""


class KernelPoints:
    """Points made ready once, for many sums."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = points
        self._squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
        self._largest = float(np.sqrt(self._squares.max(initial=0.0)))
        self._operands: dict[type[np.floating[Any]], np.ndarray] = {}
        # Where float32 would fail for a query like the points, it is not tried: few rows would not have to be done again.
        typical = np.sqrt(np.median(self._squares)) if len(points) else 0.0
        reach = min(self._largest, 3 * typical)
        self._single = (
            points.dtype == np.float32 and 2 * float(self._error(typical, reach)) <= TOLERANCE
        )

    def log_sums(self, queries: np.ndarray, *, memory_mb: int = 512) -> np.ndarray:
        """One float64 a query."""
        sums = np.empty(len(queries))
        norms = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        single = np.zeros(len(queries), dtype=bool)
        if self._single:
            single = (norms <= FAR) & (
                2 * self._error(norms, np.minimum(self._largest, norms)) <= 1
            )
        doubtful = [np.flatnonzero(~single)]
        for dtype in (np.float32, np.float64):
            rows = np.flatnonzero(single) if dtype is np.float32 else np.concatenate(doubtful)
            if len(rows):
                asked = queries if len(rows) == len(queries) else queries[rows]
                sums[rows], error = self._summed(asked, norms[rows], dtype, memory_mb)
                doubtful.append(rows[error > TOLERANCE])
        return sums

    def _summed(
        self, queries: np.ndarray, norms: np.ndarray, dtype: type[np.floating[Any]], memory_mb: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sums' logarithms in this precision, and how far they can be from those of float64."""
        n, operand = len(self.points), self._operand(dtype)
        sums, shares, gaps = np.empty(len(queries)), np.empty(len(queries)), np.empty(len(queries))
        size = min(
            chunk_rows(n, memory_mb, bytes_each=operand.itemsize), max(64, BLOCK // n), len(queries)
        )
        # Chunks of one size: a small one at the end is a slow product.
        size = -(-len(queries) // -(-len(queries) // size))
        room = np.empty((size, n), dtype=dtype)
        with_one = np.ones((size, operand.shape[1]), dtype=dtype)
        for start in range(0, len(queries), size):
            part = queries[start : start + size]
            with_one[: len(part), :-1] = part
            exponents = np.matmul(with_one[: len(part)], operand.T, out=room[: len(part)])

            def add_up(rows: slice, start: int = start, exponents: np.ndarray = exponents) -> None:
                block, here = exponents[rows], slice(start + rows.start, start + rows.stop)
                leading = block.argmax(axis=1)
                block -= block[np.arange(len(block)), leading][:, None]
                np.exp(block, out=block)
                total = block.sum(axis=1).astype(np.float64)
                difference = queries[here] - self.points[leading].astype(np.float64)
                gaps[here] = np.einsum("ij,ij->i", difference, difference)
                shares[here] = 1 - 1 / total
                sums[here] = np.log(total) - 0.5 * gaps[here]

            in_blocks(add_up, len(part), size=max(1, CACHED // n), numbers=exponents.size)
        if dtype is np.float64:
            return sums, np.zeros(len(queries))
        error = self._error(norms, np.minimum(self._largest, norms + np.sqrt(gaps + NEGLIGIBLE)))
        # Beyond 1/2 a bound says nothing of which points count.
        return sums, np.where(error <= 0.5, shares * np.expm1(2 * np.minimum(error, 0.5)), np.inf)

    def _operand(self, dtype: type[np.floating[Any]]) -> np.ndarray:
        """The points with -|p|²/2 as one more column: times (q, 1) it is the exponent, in one product."""
        if dtype not in self._operands:
            operand = np.empty((len(self.points), self.points.shape[1] + 1), dtype=dtype)
            operand[:, :-1] = self.points
            operand[:, -1] = -0.5 * self._squares
            self._operands[dtype] = operand
        return self._operands[dtype]

    def _error(self, norms: Any, reach: Any) -> Any:
        """How far an exponent of float32 can be from the true one, for queries of these norms and points of norms up to `reach`."""
        unit = float(np.finfo(np.float32).eps) / 2
        return (self.points.shape[1] + 3) * unit * reach * (norms + reach / 2)
