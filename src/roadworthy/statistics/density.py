"""Covariances that can be inverted, Mahalanobis distances by Cholesky, and Gaussian kernel
densities in logarithms.

A density in hundreds of dimensions is far below the smallest float, so only its logarithm is ever
computed: log f(x) = logsumexp_i(-|L⁻¹(x - x_i)|²/2) - log n - log|L| - d/2 log 2π, where L Lᵀ is
the kernel's covariance. The distances are one matrix product of whitened points. Scott's bandwidth
n^(-1/(d+4)) scales the points' covariance, as in scipy's `gaussian_kde`.

>>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
>>> kernels = KernelDensity.fit(points)
>>> kernels.log_density(np.array([[0.5, 0.5], [50.0, 0.0]])).round(3).tolist()
[-1.867, -6245.132]
>>> gaussian = Covariance.fit(points)
>>> gaussian.shrinkage, mahalanobis_squared(np.array([[0.5, 0.75]]), points.mean(axis=0), gaussian.factor).tolist()
(0.0, [0.0])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from roadworthy.statistics.neighbours import chunk_rows

SINGULAR = 1e-10
"""A pivot of the Cholesky factor of this share of the largest variance, or less, is rounding error
and no variance."""
VANISHING = 1e-140
"""Points that differ by less have no variance: the squares of their differences are no float64, or
few of its digits."""
BLOCK = 2**18
"""Numbers moved or whitened at once, in float64: so much stays in a processor's cache, and all
would be a copy of the points."""
EXPONENTS = 2**21
"""Exponents held at once, in numbers: more would leave a processor's cache."""
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Covariance:
    """A covariance as its lower Cholesky factor, and how much it was shrunk to have one."""

    factor: np.ndarray
    shrinkage: float
    """0: as estimated; above: the share of the mean variance times the identity (Ledoit and Wolf).
    """
    constant: int = 0
    """Columns that do not vary: they have the mean variance of the others, and no part in shrinking."""

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
        at least by 1/n, and only then. Columns that do not vary are set aside first.

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
        variances = np.diagonal(product)
        varying = np.flatnonzero(variances > SINGULAR * variances.max(initial=0.0))
        if not len(varying) or variances.sum() / n / d <= np.finfo(np.float64).tiny:
            raise np.linalg.LinAlgError(f"the {n} points are all the same and have no covariance")
        squares = (np.einsum("ij,ij->i", m, m) for m in _moved(points, centre, which))
        factor, share = _factor_of(product[np.ix_(varying, varying)], n, ddof, squares)
        if len(varying) == d:
            return cls(factor, share)
        whole = np.diag(np.full(d, np.sqrt(variances[varying].mean() / max(n - ddof, 1))))
        whole[np.ix_(varying, varying)] = factor
        return cls(whole, share, d - len(varying))


def _factor_of(
    product: np.ndarray, n: int, ddof: int, squares: Iterator[np.ndarray]
) -> tuple[np.ndarray, float]:
    """The lower factor of product / (n - ddof), and how much it was shrunk."""
    d = len(product)
    if n > d:
        factor = cholesky(product / max(n - ddof, 1))
        if factor is not None:
            return factor, 0.0
    biased = product / n
    # As if one more point spoke for it: of two points Ledoit and Wolf's estimate is 0, whatever the dimension.
    share = max(ledoit_wolf(np.concatenate(list(squares)), biased), 1 / n)
    mean_variance = float(np.trace(biased)) / d
    scale = n / max(n - ddof, 1)
    shrunk = scale * ((1 - share) * biased + share * mean_variance * np.eye(d))
    return np.linalg.cholesky(shrunk), share


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
    """By device: the points in float64 and half their squares, when first asked for."""

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
        share, varying = 0.0, d
        if factor is None and covariance == "diagonal":
            variances = points.var(axis=0, ddof=min(1, n - 1), dtype=np.float64)
            if variances.min() <= SINGULAR * variances.max():
                raise np.linalg.LinAlgError(
                    "a column is constant; leave it out, or use the full covariance"
                )
            factor = np.diag(np.sqrt(variances))
        elif factor is None:
            fitted = Covariance.fit(points, ddof=1, device=device)
            factor, share, varying = fitted.factor, fitted.shrinkage, d - fitted.constant
        centre = points.mean(axis=0, dtype=np.float64)
        kernel = factor * scott(n, varying)
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
        size = chunk_rows(n, memory_mb, bytes_each=8)
        if device == "cpu":
            if device not in self._there:
                points = self.points.astype(np.float64)
                self._there[device] = points, 0.5 * np.einsum("ij,ij->i", points, points)
            white = whitened(queries, self.centre, self.factor)
            size = min(size, max(64, EXPONENTS // n))
            points, halves = self._there[device]
            return log_kernel_sums(white, points, halves, size) - constant
        from roadworthy.statistics.row_blocks import log_kernel_sums_on, to_device, whitened_on

        if device not in self._there:
            points = to_device(self.points, device).double()
            self._there[device] = points, 0.5 * points.square().sum(dim=1)
        white = whitened_on(queries, self.centre, self.factor, device)
        points, halves = self._there[device]
        return log_kernel_sums_on(white, points, halves, size) - constant


def scott(n: int, d: int) -> float:
    """Scott's bandwidth, in standard deviations.

    >>> round(scott(100, 1), 6)
    0.398107
    """
    return float(n) ** (-1 / (d + 4))


def log_kernel_sums(
    queries: np.ndarray,
    points: np.ndarray,
    halves: np.ndarray,
    size: int,
    *,
    adjust: Callable[[slice, np.ndarray], None] | None = None,
) -> np.ndarray:
    """log Σ_i exp(-|q - p_i|²/2), `size` queries at once; `halves` are |p_i|²/2.

    `adjust` may add to the exponents of some queries, (queries, points), in place: weights,
    reflections, minus infinity for points left out.

    The exponents q·p - |p|²/2 are one matrix product. The largest of a row is worked out again from
    the differences, since far from the centre the product loses its digits.

    >>> points = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> log_kernel_sums(np.array([[0.0, 0.0], [300.0, 400.0]]), points, np.array([0.0, 12.5]), 64).round(6).tolist()
    [4e-06, -122512.5]
    """
    sums = np.empty(len(queries))
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        exponents = part @ points.T
        exponents -= halves
        if adjust is not None:
            adjust(slice(start, start + size), exponents)
        leading = exponents.argmax(axis=1)
        largest = exponents[np.arange(len(part)), leading]
        exponents -= largest[:, None]
        np.exp(exponents, out=exponents)
        if adjust is None:
            difference = part - points[leading]
            largest = -0.5 * np.einsum("ij,ij->i", difference, difference)
        else:
            largest -= 0.5 * np.einsum("ij,ij->i", part, part)
        sums[start : start + size] = np.log(exponents.sum(axis=1)) + largest
    return sums
