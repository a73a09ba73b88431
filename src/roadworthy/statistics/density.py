"""Covariances that can be inverted, Mahalanobis distances by Cholesky, and Gaussian kernel
densities in logarithms.

A density in hundreds of dimensions is far below the smallest float, so only its logarithm is ever
computed: log f(x) = logsumexp_i(-|L⁻¹(x - x_i)|²/2) - log n - log|L| - d/2 log 2π, where L Lᵀ is
the kernel's covariance. The distances are one matrix product of whitened points (`kernel_sums`),
kept in the points' own precision. Scott's bandwidth n^(-1/(d+4)) scales the points' covariance, as
in scipy's `gaussian_kde`.

>>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
>>> kernels = KernelDensity.fit(points)
>>> kernels.log_density(np.array([[0.5, 0.5], [50.0, 0.0]])).round(3).tolist()
[-1.867, -6245.132]
>>> gaussian = Covariance.fit(points)
>>> gaussian.shrinkage, mahalanobis_squared(np.array([[0.5, 0.75]]), points.mean(axis=0), gaussian.factor).tolist()
(0.0, [0.0])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from roadworthy.statistics.candidates import chunk_rows
from roadworthy.statistics.row_blocks import in_blocks

SINGULAR = 1e-10
"""A pivot of the Cholesky factor of this share of the largest variance, or less, is rounding error
and no variance."""
VANISHING = 1e-140
"""Points that differ by less have no variance: the squares of their differences are no float64, or
few of its digits."""
BLOCK = 2**18
"""Numbers moved or whitened at once, in float64: so much stays in a processor's cache, and all
would be a copy of the points."""
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Covariance:
    """A covariance as its lower Cholesky factor, and how much it was shrunk to have one."""

    factor: np.ndarray
    shrinkage: float
    """0: as estimated; above: the share of the mean variance times the identity (Ledoit and Wolf).
    """

    @classmethod
    def fit(
        cls,
        points: np.ndarray,
        *,
        ddof: int = 0,
        centre: np.ndarray | None = None,
        which: np.ndarray | None = None,
        device: str = "cpu",
    ) -> Covariance:
        """The covariance of the points; one that is singular is shrunk by Ledoit and Wolf's rule,
        at least by 1/n, and only then.

        Where the points have several means these are the rows of `centre`, and `which` says each
        point's; `ddof` as in `np.cov`. The product of the points is taken on `device`; here it is
        taken block by block.
        """
        n, d = points.shape
        centre = points.mean(axis=0, dtype=np.float64) if centre is None else centre
        if device == "cpu":
            product = sum(
                (moved.T @ moved for moved in _moved(points, centre, which)), np.zeros((d, d))
            )
        else:
            from roadworthy.statistics.row_blocks import gram_on

            product = gram_on(points, centre if which is None else centre[which], device)
        if n > d:
            factor = cholesky(product / max(n - ddof, 1))
            if factor is not None:
                return cls(factor, 0.0)
        biased = product / n
        squares = np.concatenate(
            [np.einsum("ij,ij->i", moved, moved) for moved in _moved(points, centre, which)]
        )
        # As if one more point spoke for it: of two points Ledoit and Wolf's estimate is 0, whatever the dimension.
        share = max(ledoit_wolf(squares, biased), 1 / n)
        mean_variance = float(np.trace(biased)) / d
        if mean_variance <= np.finfo(np.float64).tiny:
            raise np.linalg.LinAlgError(f"the {n} points are all the same and have no covariance")
        scale = n / max(n - ddof, 1)
        shrunk = scale * ((1 - share) * biased + share * mean_variance * np.eye(d))
        return cls(np.linalg.cholesky(shrunk), share)


def _moved(
    points: np.ndarray, centre: np.ndarray, which: np.ndarray | None
) -> Iterator[np.ndarray]:
    """The points around their centres in float64, some at a time: all at once they would take twice
    the points' memory."""
    for rows in _blocks(points):
        yield points[rows] - (centre if which is None else centre[which[rows]])


def _blocks(points: np.ndarray) -> Iterator[slice]:
    size = max(1, BLOCK // max(points.shape[1], 1))
    return (slice(start, start + size) for start in range(0, len(points), size))


def has_spread(points: np.ndarray) -> bool:
    """Whether there are two points that differ enough to have a covariance.

    >>> has_spread(np.ones((3, 2))), has_spread(np.array([[1.0, 2.0]])), has_spread(np.array([[1.0, 2.0], [1.0, 3.0]]))
    (False, False, True)
    """
    return len(points) > 1 and float(np.ptp(points, axis=0).max(initial=0.0)) > VANISHING


def cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """The lower factor, or None where the matrix is singular to working precision."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(factor) ** 2
    return factor if pivots.min() > SINGULAR * np.diagonal(matrix).max() else None


def ledoit_wolf(squares: np.ndarray, covariance: np.ndarray) -> float:
    """The share of shrinkage towards the mean variance (Ledoit and Wolf 2004, lemma 3.2 to 3.4).

    `squares` are the squared lengths of the centred points.

    >>> centred = np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> ledoit_wolf((centred**2).sum(axis=1), centred.T @ centred / 2)
    0.0
    """
    n, d = len(squares), len(covariance)
    norm = float((covariance**2).sum())
    spread = norm - float(np.trace(covariance)) ** 2 / d
    if spread <= 0:
        return 1.0
    # The squared distances of the points' own outer products from their mean.
    noise = (float((squares**2).sum()) / n - norm) / n
    return float(np.clip(noise / spread, 0.0, 1.0))


def whitened(
    points: np.ndarray, centre: np.ndarray, factor: np.ndarray, *, device: str = "cpu"
) -> np.ndarray:
    """L⁻¹(x - centre), one row a point: in these coordinates the Mahalanobis distance is the
    Euclidean one."""
    if device != "cpu":
        from roadworthy.statistics.row_blocks import whitened_on

        there: np.ndarray = whitened_on(points, centre, factor, device).cpu().numpy()
        return there
    from scipy.linalg import solve_triangular

    moved = np.subtract(points, centre, dtype=np.float64)
    solved: np.ndarray = solve_triangular(
        factor, moved.T, lower=True, check_finite=False, overwrite_b=True
    ).T
    return solved


def mahalanobis_squared(
    points: np.ndarray, centre: np.ndarray, factor: np.ndarray, *, device: str = "cpu"
) -> np.ndarray:
    """(x - centre)ᵀ (L Lᵀ)⁻¹ (x - centre), one number a point, from the Cholesky factor L."""
    if device != "cpu":
        from roadworthy.statistics.row_blocks import whitened_on

        there: np.ndarray = (
            whitened_on(points, centre, factor, device).square().sum(dim=1).cpu().numpy()
        )
        return there
    white = whitened(points, centre, factor)
    squares: np.ndarray = np.einsum("ij,ij->i", white, white)
    return squares


@dataclass(frozen=True)
class KernelDensity:
    """A Gaussian kernel on every point, with the points' covariance times the squared bandwidth."""

    points: np.ndarray
    """Whitened by `factor` around `centre`; float32 where the points were."""
    centre: np.ndarray
    factor: np.ndarray
    """Cholesky factor of the kernel's covariance."""
    shrinkage: float = 0.0
    _there: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By device: the points made ready (here) or the points and half their squares (there), when
    first asked for."""

    @classmethod
    def fit(
        cls,
        points: np.ndarray,
        *,
        covariance: Literal["full", "diagonal"] = "full",
        factor: np.ndarray | None = None,
        device: str = "cpu",
    ) -> KernelDensity:
        """Kernels with Scott's bandwidth; `factor` replaces the points' own covariance where they
        are too few to have one."""
        n, d = points.shape
        share = 0.0
        if factor is None and covariance == "diagonal":
            variances = points.var(axis=0, ddof=min(1, n - 1), dtype=np.float64)
            if variances.min() <= SINGULAR * variances.max():
                raise np.linalg.LinAlgError(
                    "a column is constant; leave it out, or use the full covariance"
                )
            factor = np.diag(np.sqrt(variances))
        elif factor is None:
            fitted = Covariance.fit(points, ddof=1, device=device)
            factor, share = fitted.factor, fitted.shrinkage
        centre = points.mean(axis=0, dtype=np.float64)
        kernel = factor * scott(n, d)
        white = np.empty((n, d), dtype=np.float32 if points.dtype == np.float32 else np.float64)
        for rows in _blocks(points):
            white[rows] = whitened(points[rows], centre, kernel, device=device)
        return cls(white, centre, kernel, share)

    def log_density(
        self, queries: np.ndarray, *, memory_mb: int = 512, device: str = "cpu"
    ) -> np.ndarray:
        """log f, one float64 a query."""
        n, d = self.points.shape
        constant = np.log(n) + float(np.log(np.diagonal(self.factor)).sum()) + d / 2 * LOG_2PI
        if device == "cpu":
            if device not in self._there:
                self._there[device] = KernelPoints(self.points)
            white = whitened(queries, self.centre, self.factor)
            sums: np.ndarray = self._there[device].log_sums(white, memory_mb=memory_mb)
            return sums - constant
        from roadworthy.statistics.row_blocks import log_kernel_sums_on, to_device, whitened_on

        if device not in self._there:
            points = to_device(self.points, device).double()
            self._there[device] = points, 0.5 * points.square().sum(dim=1)
        white = whitened_on(queries, self.centre, self.factor, device)
        points, halves = self._there[device]
        return (
            log_kernel_sums_on(white, points, halves, chunk_rows(n, memory_mb, bytes_each=8))
            - constant
        )


def scott(n: int, d: int) -> float:
    """Scott's bandwidth, in standard deviations.

    >>> round(scott(100, 1), 6)
    0.398107
    """
    return float(n) ** (-1 / (d + 4))


TOLERANCE = 0.01
"""What float32 may change in the logarithm at worst: a hundredth of a density, which kernels do not
know so well. What is found is about a thousandth of that (see the tests)."""
EXPONENTS, CACHED = 2**21, 2**17
"""Exponents held at once, and worked on at once, in numbers: more would leave a processor's cache.
"""
NEGLIGIBLE = 60.0
"""Squared distance beyond the leading point's from which a point adds less than e⁻³⁰."""
FAR = 1e15
"""Queries farther out are left to float64, where their squares are numbers."""


class KernelPoints:
    """Points made ready once, for many sums.

    log Σ_i exp(-|q - p_i|²/2) over many points, by matrix products in chunks of queries.

    The exponents are q·p - |p|²/2, but for a constant of the query: one matrix product. Points in
    float32 are multiplied in float32, and the error that this leaves in the answer is bounded row
    by row. The largest exponent of a row is worked out again from the differences in float64, so
    that only the share s of the other points in the sum counts. Each exponent is wrong by δ = (d +
    3) u |p| (|q| + |p|/2) at most, u half of eps (a dot product of d + 1 terms, and roundings
    before it; Higham, Accuracy and Stability, eq. 3.5), and the logarithm of the sum by s (exp(2δ)
    - 1). Rows where that exceeds `TOLERANCE` are done again in float64. Only points that count need
    a bound: one farther from q than √(D² + 60), D the distance of the leading one, adds less than
    e⁻³⁰.

    >>> points = KernelPoints(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> points.log_sums(np.array([[0.0, 0.0], [300.0, 400.0]])).round(6).tolist()
    [4e-06, -122512.5]
    """

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
            chunk_rows(n, memory_mb, bytes_each=operand.itemsize),
            max(64, EXPONENTS // n),
            len(queries),
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
        """The points with -|p|²/2 as one more column: times (q, 1) it is the exponent, in one
        product."""
        if dtype not in self._operands:
            operand = np.empty((len(self.points), self.points.shape[1] + 1), dtype=dtype)
            operand[:, :-1] = self.points
            operand[:, -1] = -0.5 * self._squares
            self._operands[dtype] = operand
        return self._operands[dtype]

    def _error(self, norms: Any, reach: Any) -> Any:
        """How far an exponent of float32 can be from the true one, for queries of these norms and
        points of norms up to `reach`."""
        unit = float(np.finfo(np.float32).eps) / 2
        return (self.points.shape[1] + 3) * unit * reach * (norms + reach / 2)
