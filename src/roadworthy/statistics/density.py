"""Covariances that can be inverted, Mahalanobis distances by Cholesky, and Gaussian kernel densities in logarithms.

A density in hundreds of dimensions is far below the smallest float, so only its logarithm is ever computed:
log f(x) = logsumexp_i(-|L⁻¹(x - x_i)|²/2) - log n - log|L| - d/2 log 2π, where L Lᵀ is the kernel's covariance. The distances are
one matrix product of whitened points. Scott's bandwidth n^(-1/(d+4)) scales the points' covariance, as in scipy's `gaussian_kde`.

>>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
>>> kernels = KernelDensity.fit(points)
>>> kernels.log_density(np.array([[0.5, 0.5], [50.0, 0.0]])).round(3).tolist()
[-1.867, -6245.132]
>>> gaussian = Covariance.fit(points)
>>> gaussian.shrinkage, mahalanobis_squared(np.array([[0.5, 0.75]]), points.mean(axis=0), gaussian.factor).tolist()
(0.0, [0.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .neighbours import chunk_rows

SINGULAR = 1e-10
"""A pivot of the Cholesky factor of this share of the largest variance, or less, is rounding error and no variance."""
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Covariance:
    """A covariance as its lower Cholesky factor, and how much it was shrunk to have one."""

    factor: np.ndarray
    shrinkage: float
    """0: as estimated; above: the share of the mean variance times the identity (Ledoit and Wolf)."""

    @classmethod
    def fit(cls, points: np.ndarray, *, ddof: int = 0, centre: np.ndarray | None = None) -> Covariance:
        """The covariance of the points; one that is singular is shrunk by Ledoit and Wolf's rule, at least by 1/n, and only then.

        `centre` is one row for every point (or one for all) where the points have several means; `ddof` as in `np.cov`.
        """
        points = np.asarray(points, dtype=np.float64)
        moved = points - (points.mean(axis=0) if centre is None else centre)
        n, d = moved.shape
        product = moved.T @ moved
        if n > d:
            factor = cholesky(product / max(n - ddof, 1))
            if factor is not None:
                return cls(factor, 0.0)
        biased = product / n
        # As if one more point spoke for it: of two points Ledoit and Wolf's estimate is 0, whatever the dimension.
        share = max(ledoit_wolf(moved, biased), 1 / n)
        mean_variance = float(np.trace(biased)) / d
        if mean_variance <= np.finfo(np.float64).tiny:
            raise np.linalg.LinAlgError(f"the {n} points are all the same and have no covariance")
        scale = n / max(n - ddof, 1)
        shrunk = scale * ((1 - share) * biased + share * mean_variance * np.eye(d))
        return cls(np.linalg.cholesky(shrunk), share)


def cholesky(matrix: np.ndarray) -> np.ndarray | None:
    """The lower factor, or None where the matrix is singular to working precision."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    pivots = np.diagonal(factor) ** 2
    return factor if pivots.min() > SINGULAR * np.diagonal(matrix).max() else None


def ledoit_wolf(centred: np.ndarray, covariance: np.ndarray) -> float:
    """The share of shrinkage towards the mean variance (Ledoit and Wolf 2004, lemma 3.2 to 3.4), from centred points.

    >>> centred = np.array([[1.0, 0.0], [-1.0, 0.0]])
    >>> ledoit_wolf(centred, centred.T @ centred / 2)
    0.0
    """
    n, d = centred.shape
    squares = np.einsum("ij,ij->i", centred, centred)
    norm = float((covariance**2).sum())
    spread = norm - float(np.trace(covariance)) ** 2 / d
    if spread <= 0:
        return 1.0
    # The squared distances of the points' own outer products from their mean.
    noise = (float((squares**2).sum()) / n - norm) / n
    return float(np.clip(noise / spread, 0.0, 1.0))


def whitened(points: np.ndarray, centre: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """L⁻¹(x - centre), one row a point: in these coordinates the Mahalanobis distance is the Euclidean one."""
    from scipy.linalg import solve_triangular

    moved = np.asarray(points, dtype=np.float64) - centre
    solved: np.ndarray = solve_triangular(factor, moved.T, lower=True, check_finite=False, overwrite_b=True).T
    return solved


def mahalanobis_squared(points: np.ndarray, centre: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """(x - centre)ᵀ (L Lᵀ)⁻¹ (x - centre), one number a point, from the Cholesky factor L."""
    white = whitened(points, centre, factor)
    squares: np.ndarray = np.einsum("ij,ij->i", white, white)
    return squares


@dataclass(frozen=True)
class KernelDensity:
    """A Gaussian kernel on every point, with the points' covariance times the squared bandwidth."""

    points: np.ndarray
    """Whitened by `factor` around `centre`; float64."""
    centre: np.ndarray
    factor: np.ndarray
    """Cholesky factor of the kernel's covariance."""
    shrinkage: float = 0.0

    @classmethod
    def fit(
        cls,
        points: np.ndarray,
        *,
        covariance: Literal["full", "diagonal"] = "full",
        factor: np.ndarray | None = None,
    ) -> KernelDensity:
        """Kernels with Scott's bandwidth; `factor` replaces the points' own covariance where they are too few to have one."""
        points = np.asarray(points, dtype=np.float64)
        n, d = points.shape
        share = 0.0
        if factor is None and covariance == "diagonal":
            variances = points.var(axis=0, ddof=min(1, n - 1))
            if variances.min() <= SINGULAR * variances.max():
                raise np.linalg.LinAlgError("a column is constant; leave it out, or use the full covariance")
            factor = np.diag(np.sqrt(variances))
        elif factor is None:
            fitted = Covariance.fit(points, ddof=1)
            factor, share = fitted.factor, fitted.shrinkage
        centre = points.mean(axis=0)
        kernel = factor * scott(n, d)
        return cls(whitened(points, centre, kernel), centre, kernel, share)

    def log_density(self, queries: np.ndarray, *, memory_mb: int = 512, device: str = "cpu") -> np.ndarray:
        """log f, one float64 a query."""
        white = whitened(queries, self.centre, self.factor)
        n, d = self.points.shape
        constant = np.log(n) + float(np.log(np.diagonal(self.factor)).sum()) + d / 2 * LOG_2PI
        return log_kernel_sums(white, self.points, memory_mb=memory_mb, device=device) - constant


def scott(n: int, d: int) -> float:
    """Scott's bandwidth, in standard deviations.

    >>> round(scott(100, 1), 6)
    0.398107
    """
    return float(n) ** (-1 / (d + 4))


def log_kernel_sums(
    queries: np.ndarray, points: np.ndarray, *, memory_mb: int = 512, device: str = "cpu"
) -> np.ndarray:
    """log Σ_i exp(-|q - p_i|²/2), one number a query, by matrix products in chunks of queries."""
    if device != "cpu":
        return _log_kernel_sums_torch(queries, points, memory_mb, device)
    sums = np.empty(len(queries))
    halves = 0.5 * np.einsum("ij,ij->i", points, points)
    size = chunk_rows(len(points), memory_mb, bytes_each=8)
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        exponents = part @ points.T
        exponents -= halves
        largest = exponents.max(axis=1)
        exponents -= largest[:, None]
        np.exp(exponents, out=exponents)
        sums[start : start + size] = largest + np.log(exponents.sum(axis=1)) - 0.5 * np.einsum("ij,ij->i", part, part)
    return sums


def _log_kernel_sums_torch(queries: np.ndarray, points: np.ndarray, memory_mb: int, device: str) -> np.ndarray:
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device {device!r} needs torch, which is not installed; use device='cpu'") from error

    there = torch.from_numpy(np.ascontiguousarray(points)).to(device)
    halves = 0.5 * (there * there).sum(dim=1)
    sums = np.empty(len(queries))
    size = chunk_rows(len(points), memory_mb, bytes_each=8)
    for start in range(0, len(queries), size):
        part = torch.from_numpy(np.ascontiguousarray(queries[start : start + size])).to(device)
        exponents = torch.addmm(-halves[None, :], part, there.T)
        of_part = torch.logsumexp(exponents, dim=1) - 0.5 * (part * part).sum(dim=1)
        sums[start : start + size] = of_part.cpu().numpy()
    return sums
