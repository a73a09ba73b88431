"""The bound of a mean in [0, 1] holds at every n, whatever the distribution, and costs little."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.statistics.bounded_mean import bounded_mean_upper
from roadworthy.statistics.proportion import clopper_pearson_bounds

TAIL = 0.025


@pytest.mark.parametrize("n", [1, 6, 50, 10_000])
def test_without_any_failure_it_is_the_bound_of_clopper_and_pearson(n):
    assert bounded_mean_upper(0.0, n, TAIL) == pytest.approx(1 - TAIL ** (1 / n), rel=1e-9)


@pytest.mark.parametrize("n", [6, 50, 1000])
def test_for_zeros_and_ones_it_is_at_most_seven_per_cent_wider_than_the_exact_one(n):
    k = np.arange(0, n, max(1, n // 60))
    exact = clopper_pearson_bounds(k, n, confidence=1 - TAIL, sided="upper")[1]
    ratio = np.array([bounded_mean_upper(float(x), n, TAIL) for x in k]) / exact
    assert ratio.min() > 1 - 1e-9
    assert ratio.max() < 1.07


@pytest.mark.parametrize(("total", "n"), [(0.4, 6), (2.0, 20), (3.7, 50)])
def test_it_is_the_root_of_the_convex_bound_searched_over_a_fine_grid(total, n):
    upper = bounded_mean_upper(total, n, TAIL)
    t = np.linspace(total + 1e-3, n, 20_001)
    count = np.arange(n + 1)
    excess = np.maximum(t[:, None] - count, 0.0) @ binom.pmf(count, n, upper)
    assert (excess / (t - total)).min() == pytest.approx(TAIL, rel=1e-3)


@pytest.mark.parametrize("n", [6, 11, 40])
def test_its_exact_coverage_of_zeros_and_ones_is_never_below_nominal(n):
    k = np.arange(n + 1)
    upper = np.array([bounded_mean_upper(float(x), n, TAIL) for x in k])
    for p in np.linspace(0.001, 0.999, 333):
        assert binom.pmf(k, n, p) @ (upper >= p) >= 1 - TAIL


@pytest.mark.parametrize("shares", [(0.9, 0.08, 0.02), (0.5, 0.4, 0.1), (0.2, 0.2, 0.6)])
def test_its_exact_coverage_of_three_values_is_never_below_nominal(shares):
    values, n, covered = np.array([0.0, 0.3, 1.0]), 6, 0.0
    mean = float(values @ shares)
    for drawn in combinations_with_replacement(range(3), n):
        counts = np.bincount(drawn, minlength=3)
        chance = factorial(n) / np.prod([factorial(c) for c in counts]) * np.prod(shares**counts)
        covered += chance * (bounded_mean_upper(float(counts @ values), n, TAIL) >= mean)
    assert covered >= 1 - TAIL


@given(st.floats(0, 1), st.integers(1, 200), st.floats(0.005, 0.3))
@settings(max_examples=80)
def test_it_rises_with_the_sum_and_falls_with_the_tail(share, n, tail):
    at = bounded_mean_upper(share * n, n, tail)
    assert share <= at <= 1
    assert bounded_mean_upper(min(share * n + 0.1, n), n, tail) >= at - 1e-9
    assert bounded_mean_upper(share * n, n, tail / 2) >= at - 1e-9
    assert bounded_mean_upper(share * n, 2 * n, tail) <= at + 1e-9


DRAWS = {
    "beta": (lambda rng, shape: rng.beta(0.5, 4.5, shape), 0.1),
    "narrow": (lambda rng, shape: rng.beta(20, 180, shape), 0.1),
    "often 0": (lambda rng, s: np.where(rng.random(s) < 0.1, rng.beta(2, 2, s), 0.0), 0.05),
    "rarely 1": (lambda rng, s: np.where(rng.random(s) < 0.02, 1.0, 0.1 * rng.random(s)), 0.069),
}


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 20, 100])
@pytest.mark.parametrize("name", DRAWS)
def test_it_covers_shares_of_groups_by_simulation(name, n):
    draw, mean = DRAWS[name]
    sums = draw(np.random.default_rng(n), (2000, n)).sum(axis=1)
    covered = sum(bounded_mean_upper(float(s), n, TAIL) >= mean for s in sums)
    assert binom.cdf(covered, 2000, 1 - TAIL) > 0.01
