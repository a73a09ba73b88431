"""Sums of Gaussian kernels in float32: within the bound that is stated, against scipy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from roadworthy.statistics import KernelDensity
from roadworthy.statistics.density import TOLERANCE, KernelPoints


def by_scipy(queries, points):
    return logsumexp(-0.5 * cdist(queries, points.astype(np.float64), "sqeuclidean"), axis=1)


def heavy_tailed(n, d, seed):
    """White on the whole, with some rows far out, as activations are."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.exp(0.4 * rng.normal(size=(n, 1)))


def test_float32_changes_the_logarithm_by_less_than_a_ten_thousandth():
    points, queries = heavy_tailed(3000, 80, 0).astype(np.float32), heavy_tailed(400, 80, 1)
    ready, wanted = KernelPoints(points), by_scipy(queries, points)
    assert ready._single
    found = ready.log_sums(queries)
    assert np.abs(found - wanted).max() < 1e-4


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(0.01, 30), st.floats(0.0, 200), st.integers(0, 2**20))
def test_no_row_is_farther_from_scipy_than_its_bound(d, spread, away, seed):
    rng = np.random.default_rng(seed)
    points = (spread * rng.standard_normal((50, d))).astype(np.float32)
    queries = np.concatenate([points[:5].astype(np.float64), away * rng.standard_normal((10, d))])
    ready, wanted = KernelPoints(points), by_scipy(queries, points)
    norms = np.linalg.norm(queries, axis=1)
    found, bound = ready._summed(queries, norms, np.float32, 512)
    # Beside the bound, the exponential and the sum of float32, and the rounding of the leading distance.
    rounding = 1e-5 + 1e-12 * np.abs(wanted)
    assert (np.abs(found - wanted) <= bound + rounding).all()
    assert (np.abs(ready.log_sums(queries) - wanted) <= TOLERANCE + rounding).all()


@pytest.mark.parametrize("scale", [1e3, 1e8, 1e20, 1e39])
def test_queries_too_far_for_float32_have_the_sums_of_float64(scale):
    points = heavy_tailed(500, 6, 2).astype(np.float32)
    queries = scale * heavy_tailed(20, 6, 3)
    np.testing.assert_allclose(
        KernelPoints(points).log_sums(queries), by_scipy(queries, points), rtol=1e-12
    )
    at_the_centre = KernelPoints(np.zeros((3, 6), dtype=np.float32)).log_sums(queries)
    np.testing.assert_allclose(
        at_the_centre, np.log(3) - 0.5 * (queries**2).sum(axis=1), rtol=1e-12
    )


def test_rows_that_float32_cannot_tell_are_done_again():
    # Two points far out and close together: which one leads is below the rounding of their products.
    points = np.concatenate([heavy_tailed(200, 4, 4), [[3e4, 0, 0, 0], [3e4, 1, 0, 0]]]).astype(
        np.float32
    )
    queries = np.array([[3e4, 0.4, 0, 0], [0.1, 0, 0, 0]])
    ready = KernelPoints(points)
    _, bound = ready._summed(queries, np.linalg.norm(queries, axis=1), np.float32, 512)
    assert bound[0] > TOLERANCE > bound[1]
    np.testing.assert_allclose(ready.log_sums(queries), by_scipy(queries, points), atol=1e-4)


def test_points_of_which_float32_would_say_too_little_are_multiplied_in_float64():
    points = (40 * heavy_tailed(100, 300, 5)).astype(np.float32)
    ready, queries = KernelPoints(points), 40 * heavy_tailed(10, 300, 6)
    assert not ready._single
    np.testing.assert_allclose(ready.log_sums(queries), by_scipy(queries, points), rtol=1e-12)


def test_a_density_of_float32_points_is_kept_in_float32_and_agrees_with_that_of_float64():
    points, queries = heavy_tailed(2000, 40, 7), heavy_tailed(100, 40, 8)
    coarse = KernelDensity.fit(points.astype(np.float32))
    assert coarse.points.dtype == np.float32
    exact = KernelDensity.fit(points.astype(np.float32).astype(np.float64))
    assert exact.points.dtype == np.float64
    wanted = exact.log_density(queries)
    np.testing.assert_allclose(coarse.log_density(queries), wanted, atol=1e-4)
    np.testing.assert_allclose(coarse.log_density(queries, memory_mb=1), wanted, atol=1e-4)


def test_sums_do_not_depend_on_the_other_queries():
    points, queries = heavy_tailed(1500, 30, 9).astype(np.float32), heavy_tailed(60, 30, 10)
    ready = KernelPoints(points)
    whole = ready.log_sums(queries)
    one_by_one = np.concatenate([ready.log_sums(q[None]) for q in queries])
    np.testing.assert_allclose(one_by_one, whole, atol=2e-5)
    assert len(ready.log_sums(queries[:0])) == 0
