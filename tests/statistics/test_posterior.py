"""Quantiles of weighted values against values written out, and binomial mixtures against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.statistics.posterior import RESOLUTION, histogram, quantiles, with_chance


@given(
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=30).filter(lambda w: sum(w) > 0.1),
    st.floats(0.5, 0.99),
)
def test_quantiles_are_those_of_many_values_drawn_as_weighted(weights, confidence):
    points = np.linspace(0.0, 1.0, len(weights))
    table = np.array([weights])
    low, high = quantiles(table, points, confidence)
    upto = np.cumsum(table[0]) / table.sum()
    tail, step = (1.0 - confidence) / 2.0, points[1]
    assert points[np.searchsorted(upto, tail)] == pytest.approx(low[0], abs=step)
    assert low[0] <= high[0]


def test_an_end_that_holds_the_tail_is_reached():
    low, high = quantiles(np.array([[0.03, 0.94, 0.03]]), np.array([0.0, 0.5, 1.0]), 0.95)
    assert (low[0], high[0]) == (0.0, 1.0)


def test_a_histogram_keeps_weight_and_mean():
    rng = np.random.default_rng(0)
    values, weights = rng.random((3, 50)), rng.random((3, 50))
    found, points = histogram(values, weights), np.linspace(0.0, 1.0, RESOLUTION + 1)
    assert found.sum(axis=1) == pytest.approx(weights.sum(axis=1))
    assert found @ points == pytest.approx((values * weights).sum(axis=1))


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_the_share_of_right_answers_is_a_binomial_mixture(n):
    weights = np.zeros((1, RESOLUTION + 1))
    weights[0, [200, 320]] = 0.4, 0.6  # 0.5 and 0.8
    low, high = with_chance(weights, np.array([float(n)]), 0.95)
    upto = 0.4 * binom.cdf(np.arange(n + 1), n, 0.5) + 0.6 * binom.cdf(np.arange(n + 1), n, 0.8)
    assert low[0] == pytest.approx(np.searchsorted(upto, 0.025) / n, abs=1.5 / n)
    assert high[0] == pytest.approx(np.searchsorted(upto, 0.975) / n, abs=1.5 / n)
