"""Kernel densities and Mahalanobis distances against scipy, and covariances that would have no inverse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from roadworthy.statistics import Covariance, KernelDensity, mahalanobis_squared
from roadworthy.statistics.density import ledoit_wolf, log_kernel_sums, scott

ORACLE = np.load(Path(__file__).parents[1] / "supervisors" / "oracle" / "surprise.npz")


def mixed(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d))) + 5


@pytest.mark.parametrize(("n", "d"), [(30, 1), (200, 5), (300, 40)])
def test_log_density_is_that_of_scipy(n, d):
    points, queries = mixed(n, d), mixed(25, d, seed=1)
    wanted = stats.gaussian_kde(points.T).logpdf(queries.T)
    np.testing.assert_allclose(KernelDensity.fit(points).log_density(queries), wanted, rtol=1e-9)


def test_a_density_below_the_smallest_float_has_a_logarithm():
    points = mixed(400, 300)
    far = points[:3] + 500
    kernels = stats.gaussian_kde(points.T)
    assert (kernels.pdf(far.T) == 0).all()
    found = KernelDensity.fit(points).log_density(far)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, kernels.logpdf(far.T), rtol=1e-6)


def test_diagonal_kernels_are_a_mean_of_products_of_normals():
    points, queries = mixed(50, 3), mixed(8, 3, seed=2)
    widths = points.std(axis=0, ddof=1) * scott(50, 3)
    each = stats.norm.pdf(queries[:, None], points[None], widths).prod(axis=2)
    found = KernelDensity.fit(points, covariance="diagonal").log_density(queries)
    np.testing.assert_allclose(found, np.log(each.mean(axis=1)), rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="constant"):
        KernelDensity.fit(points * [1, 0, 1], covariance="diagonal")


def test_chunks_and_torch_change_nothing():
    pytest.importorskip("torch")
    points, queries = mixed(3000, 4), mixed(200, 4, seed=3)
    kernels = KernelDensity.fit(points)
    whole = kernels.log_density(queries)
    np.testing.assert_allclose(kernels.log_density(queries, memory_mb=1), whole, rtol=1e-12)
    np.testing.assert_allclose(
        kernels.log_density(queries, memory_mb=1, device="cpu:0"), whole, rtol=1e-10
    )


def test_mahalanobis_distance_is_that_of_scipy():
    points, queries = mixed(200, 7), mixed(20, 7, seed=4)
    fitted = Covariance.fit(points, ddof=1)
    centre = points.mean(axis=0)
    wanted = cdist(queries, centre[None], "mahalanobis", VI=np.linalg.inv(np.cov(points.T)))[:, 0]
    assert fitted.shrinkage == 0
    np.testing.assert_allclose(fitted.factor @ fitted.factor.T, np.cov(points.T), rtol=1e-10)
    np.testing.assert_allclose(
        np.sqrt(mahalanobis_squared(queries, centre, fitted.factor)), wanted, rtol=1e-9
    )


def test_a_singular_covariance_is_shrunk_and_says_by_how_much():
    points = mixed(500, 4)
    dependent = np.concatenate([points, points[:, :1] + points[:, 1:2]], axis=1)
    fitted = Covariance.fit(dependent)
    assert 1 / 500 <= fitted.shrinkage < 0.1
    matrix = fitted.factor @ fitted.factor.T
    biased = np.cov(dependent.T, ddof=0)
    target = np.trace(biased) / 5 * np.eye(5)
    np.testing.assert_allclose(
        matrix, (1 - fitted.shrinkage) * biased + fitted.shrinkage * target, rtol=1e-10, atol=1e-12
    )
    wide = Covariance.fit(mixed(10, 50))
    assert wide.shrinkage >= 0.1
    assert np.linalg.eigvalsh(wide.factor @ wide.factor.T).min() > 0


def test_two_points_are_shrunk_by_half():
    assert Covariance.fit(np.array([[0.0, 0.0], [2.0, 1.0]])).shrinkage == pytest.approx(0.5)


def test_constant_columns_leave_the_covariance_of_the_others_as_it_is():
    points = mixed(500, 4)
    fitted = Covariance.fit(np.insert(points, 2, 7.0, axis=1))
    assert (fitted.shrinkage, fitted.constant) == (0.0, 1)
    matrix, others = fitted.factor @ fitted.factor.T, [0, 1, 3, 4]
    biased = np.cov(points.T, ddof=0)
    np.testing.assert_allclose(matrix[np.ix_(others, others)], biased, rtol=1e-10)
    assert matrix[2, 2] == pytest.approx(np.trace(biased) / 4) and not matrix[2, others].any()


def test_shrinkage_is_that_of_scikit_learn():
    few = ORACLE["few"]
    centred = few - few.mean(axis=0)
    found = ledoit_wolf((centred**2).sum(axis=1), centred.T @ centred / len(few))
    assert found == pytest.approx(float(ORACLE["ledoit_wolf_of_few"]), rel=1e-9)


def test_points_without_spread_have_no_covariance():
    with pytest.raises(np.linalg.LinAlgError, match="all the same"):
        Covariance.fit(np.ones((5, 3)))


def test_a_covariance_around_several_means_is_that_of_the_rows_less_their_own_in_any_number_of_blocks(
    monkeypatch,
):
    rng = np.random.default_rng(5)
    points, means, which = rng.normal(size=(57, 4)), rng.normal(size=(3, 4)), rng.integers(0, 3, 57)
    moved = points - means[which]
    for block in (4, 40, 10**6):
        monkeypatch.setattr("roadworthy.statistics.density.BLOCK", block)
        factor = Covariance.fit(points, centre=means, which=which).factor
        np.testing.assert_allclose(factor @ factor.T, moved.T @ moved / 57, rtol=1e-12, atol=1e-14)


def heavy_tailed(n, d, seed):
    """White on the whole, with some rows far out, as activations are."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.exp(0.4 * rng.normal(size=(n, 1)))


def kernel_sums(queries, points, size=64):
    return log_kernel_sums(queries, points, 0.5 * (points**2).sum(axis=1), size)


@pytest.mark.parametrize("scale", [1, 1e3, 1e8, 1e20, 1e39])
def test_sums_of_kernels_are_those_of_scipy_however_far_the_queries(scale):
    points, queries = heavy_tailed(500, 6, 2), scale * heavy_tailed(100, 6, 3)
    wanted = logsumexp(-0.5 * cdist(queries, points, "sqeuclidean"), axis=1)
    np.testing.assert_allclose(kernel_sums(queries, points), wanted, rtol=1e-12)
    np.testing.assert_allclose(kernel_sums(queries, points, 1), wanted, rtol=1e-12)


def test_two_points_far_out_and_close_together_keep_their_digits():
    points = np.concatenate([heavy_tailed(200, 4, 4), [[3e4, 0, 0, 0], [3e4, 1, 0, 0]]])
    queries = np.array([[3e4, 0.4, 0, 0], [0.1, 0, 0, 0]])
    wanted = logsumexp(-0.5 * cdist(queries, points, "sqeuclidean"), axis=1)
    np.testing.assert_allclose(kernel_sums(queries, points), wanted, rtol=1e-6)


def test_a_density_of_float32_points_is_kept_in_float32_and_agrees_with_that_of_float64():
    points, queries = heavy_tailed(2000, 40, 7).astype(np.float32), heavy_tailed(100, 40, 8)
    coarse, exact = KernelDensity.fit(points), KernelDensity.fit(points.astype(np.float64))
    assert (coarse.points.dtype, exact.points.dtype) == (np.float32, np.float64)
    wanted = exact.log_density(queries)
    np.testing.assert_allclose(coarse.log_density(queries, memory_mb=1), wanted, atol=1e-4)
