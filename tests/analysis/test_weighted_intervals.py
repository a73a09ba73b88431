"""Intervals of weighted values, against sums and quantiles that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.analysis.risk import weighted
from roadworthy.analysis.risk.weighted import Histogram, among, quantiles, with_chance

GRID = np.linspace(0.0, 1.0, weighted.RESOLUTION + 1)


def spread_out(weights: np.ndarray, points: np.ndarray, parts: int = 1000) -> np.ndarray:
    """Many values that are distributed as the weights say, each point even over its neighbourhood."""
    ends = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])
    inside = (np.arange(parts) + 0.5) / parts
    values = ends[:-1, None] + inside * np.diff(ends)[:, None]
    return np.sort(np.repeat(values, weights.astype(int), axis=0).ravel())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=3, max_size=15).filter(lambda w: sum(w) > 0),
    st.floats(0.5, 0.99),
)
def test_quantiles_are_those_of_values_written_out(weights, confidence):
    table, points = np.array([weights], dtype=float), np.linspace(2.0, 5.0, len(weights))
    low, high = quantiles(table, points, confidence)
    values, tail = spread_out(table[0], points), (1.0 - confidence) / 2.0
    share = table[0] / table[0].sum()
    # An end whose own point holds the tail is that point; others are within a neighbourhood's part of the quantile.
    expected_low = (
        points[0] if share[0] >= tail else np.quantile(values, tail, method="inverted_cdf")
    )
    expected_high = (
        points[-1] if share[-1] >= tail else np.quantile(values, 1.0 - tail, method="inverted_cdf")
    )
    assert low[0] == pytest.approx(expected_low, abs=2e-3) and high[0] == pytest.approx(
        expected_high, abs=2e-3
    )


def test_quantiles_of_many_windows_are_those_of_each():
    weights = np.random.default_rng(0).random((7, 21))
    points = np.linspace(0.0, 1.0, 21)
    low, high = quantiles(weights, points, 0.9)
    for i in range(7):
        one = quantiles(weights[i : i + 1], points, 0.9)
        assert (one[0][0], one[1][0]) == (low[i], high[i])


@settings(max_examples=50)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=5, max_size=20),
    st.floats(0.05, 0.9),
    st.floats(0.01, 0.09),
)
def test_more_confidence_means_a_wider_interval(weights, confidence, more):
    table, points = np.array([weights]) + 1e-3, np.linspace(0.0, 1.0, len(weights))
    inner, outer = quantiles(table, points, confidence), quantiles(table, points, confidence + more)
    assert outer[0][0] <= inner[0][0] <= inner[1][0] <= outer[1][0]


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_a_histogram_keeps_weight_and_mean(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(10.0, 3.0, (6, 3, 5)), rng.random((6, 3, 5))
    values = np.clip(values, 2.0, 18.0)
    made = among(values, weights, 2.0, 18.0)
    assert made.weights.sum(axis=1) == pytest.approx(weights.sum(axis=(0, 2)), abs=1e-9)
    assert made.weights @ made.points == pytest.approx(
        (weights * values).sum(axis=(0, 2)), abs=1e-9
    )


def test_the_interval_of_a_histogram_is_within_a_step_of_the_weighted_quantile():
    rng = np.random.default_rng(1)
    values, counts = rng.beta(4.0, 2.0, (40, 2, 30)) * 100.0, rng.integers(1, 9, (40, 2, 30))
    low, high = among(values, counts / counts.sum(axis=(0, 2))[:, None], 0.0, 100.0).interval(0.9)
    for window in range(2):
        written = np.repeat(values[:, window].ravel(), counts[:, window].ravel())
        expected = np.quantile(written, [0.05, 0.95])
        assert [low[window], high[window]] == pytest.approx(
            expected, abs=1.5 * 100.0 / weighted.RESOLUTION
        )


def test_values_at_and_beyond_the_ends_stay_within():
    made = among(np.array([[[-1.0, 0.0, 1.0, 2.0]]]), np.full((1, 1, 4), 0.25), 0.0, 1.0)
    assert made.weights[0, 0] == made.weights[0, -1] == 0.5
    assert made.interval(0.95) == (np.array([0.0]), np.array([1.0]))


def test_a_quantity_that_cannot_vary_has_no_width():
    low, high = among(np.full((3, 2, 4), 7.0), np.full((3, 2, 4), 1 / 12), 7.0, 7.0).interval(0.95)
    assert low.tolist() == high.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("costs", [(0.0, 1e300), (-1e300, 1e300), (1e-300, 2e-300), (-5.0, 1e-9)])
def test_extreme_costs_stay_in_order(costs):
    least, greatest = costs
    values = least + np.linspace(0.0, 1.0, 101).reshape(1, 1, -1) * (greatest - least)
    low, high = among(values, np.full((1, 1, 101), 1 / 101), least, greatest).interval(0.9)
    assert least <= low[0] < high[0] <= greatest
    assert (high[0] - low[0]) / (greatest - least) == pytest.approx(0.9, abs=0.02)


def mixture(n: int, weights: np.ndarray, confidence: float) -> tuple[float, float]:
    """The interval of a share of right answers by a direct sum over probabilities and numbers."""
    k = np.arange(n + 1)
    probability = weights @ binom.pmf(k, n, GRID[:, None])
    upto, tail = np.cumsum(probability), (1.0 - confidence) / 2.0
    low = next(i for i in k if upto[i] > tail)
    high = next(i for i in k if upto[i] >= 1.0 - tail - 1e-12)
    return low / n, high / n


def posterior(rng: np.random.Generator, centre: float, width: float) -> np.ndarray:
    weights = np.exp(-0.5 * ((GRID - centre) / width) ** 2) * rng.uniform(0.5, 1.5, len(GRID))
    return weights / weights.sum()


@pytest.mark.parametrize("n", [1, 2, 7, 100, 399, 400])
def test_the_share_of_right_answers_is_a_binomial_mixture(n):
    rng = np.random.default_rng(n)
    weights = np.stack(
        [posterior(rng, c, w) for c, w in ((0.9, 0.05), (0.99, 0.01), (0.5, 0.2), (0.02, 0.03))]
    )
    low, high = with_chance(Histogram(GRID, weights), np.full(4, float(n)), 0.95)
    for i in range(4):
        assert (low[i], high[i]) == pytest.approx(mixture(n, weights[i], 0.95), abs=1e-12)


@pytest.mark.parametrize("n", [401, 1000])
def test_beyond_the_exact_sizes_the_share_is_near(n):
    rng = np.random.default_rng(n)
    weights = np.stack([posterior(rng, c, w) for c, w in ((0.9, 0.03), (0.6, 0.05))])
    low, high = with_chance(Histogram(GRID, weights), np.full(2, float(n)), 0.95)
    for i in range(2):
        assert (low[i], high[i]) == pytest.approx(
            mixture(n, weights[i], 0.95), abs=1.5 / (4 * weighted.EXACT) + 1 / n
        )


def test_windows_of_several_sizes_are_read_as_each_alone():
    rng = np.random.default_rng(0)
    weights = np.stack([posterior(rng, 0.8, 0.05)] * 5)
    sizes = np.array([100.0, 0.3, 1000.0, 100.4, 1e7])
    low, high = with_chance(Histogram(GRID, weights), sizes, 0.95)
    for i in range(5):
        one = with_chance(Histogram(GRID, weights[i : i + 1]), sizes[i : i + 1], 0.95)
        assert (one[0][0], one[1][0]) == (low[i], high[i])
    assert (
        low[0] == low[3] and (low[1], high[1]) == (0.0, 1.0) and high[4] - low[4] < high[0] - low[0]
    )


def test_answers_that_are_surely_right_or_wrong():
    weights = np.zeros((2, len(GRID)))
    weights[0, 0] = weights[1, -1] = 1.0
    for n in (10.0, 1000.0):
        low, high = with_chance(Histogram(GRID, weights), np.full(2, n), 0.95)
        assert low.tolist() == [0.0, 1.0] and high == pytest.approx(
            [0.0, 1.0], abs=1 / (4 * weighted.EXACT)
        )
