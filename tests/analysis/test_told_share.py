"""The one share that is told of a posterior: the median where it is narrow, the mean where it is not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.analysis.risk.weighted import VAGUE, WELL_TOLD, told

POINTS = np.linspace(0.0, 1.0, 1001)


def posterior(mean: float, deviation: float) -> np.ndarray:
    return np.exp(-0.5 * ((POINTS - mean) / deviation) ** 2)[None, :]


@given(st.floats(0.2, 0.8), st.floats(0.01, 0.03))
def test_one_narrow_peak_is_told_at_its_middle(mean: float, deviation: float) -> None:
    assert abs(told(posterior(mean, deviation), POINTS)[0] - mean) < 0.001


def test_a_narrow_skewed_posterior_is_told_at_its_median() -> None:
    weights = np.exp(-POINTS / 0.02)[None, :]
    assert abs(told(weights, POINTS)[0] - 0.02 * np.log(2.0)) < 0.001


def test_a_wide_posterior_is_told_at_its_mean() -> None:
    weights = np.exp(-POINTS / 0.2)[None, :]
    assert abs(told(weights, POINTS)[0] - (weights @ POINTS / weights.sum())[0]) < 1e-9


def test_a_posterior_at_either_end_is_told_there() -> None:
    ends = np.zeros((2, len(POINTS)))
    ends[0, [0, 20]], ends[1, [-1, -20]] = (0.8, 0.2), (0.8, 0.2)
    assert told(ends, POINTS).tolist() == [0.0, 1.0]


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40).filter(lambda w: sum(w) > 0.01))
def test_it_lies_among_the_points_and_turns_with_them(weights: list[float]) -> None:
    points = np.linspace(0.0, 1.0, len(weights))
    there = told(np.array([weights]), points)[0]
    back = told(np.array([weights[::-1]]), points)[0]
    assert 0.0 <= there <= 1.0
    low, high = sorted([there, 1.0 - back])
    assert (
        high - low < 1e-6 or np.isclose(np.cumsum(weights) / np.sum(weights), 0.5, atol=1e-9).any()
    )


def test_between_narrow_and_wide_it_goes_over_without_a_jump() -> None:
    deviations = np.linspace(WELL_TOLD / 2, 2 * VAGUE, 200)
    found = [told(np.exp(-POINTS / d)[None, :], POINTS)[0] for d in deviations]
    assert np.abs(np.diff(found)).max() < 0.003
