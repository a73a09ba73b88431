"""The mean corrected by a sample, and the sample itself, against repeated draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.statistics.survey import difference_estimate, priority_sample


def not_below(hits: int, trials: int, nominal: float) -> bool:
    """A one-sided binomial test at 1%."""
    return binom.cdf(hits, trials, nominal) > 0.01


@pytest.mark.parametrize("design", ["even", "by deviation", "alarmed and a few others"])
def test_the_correction_is_unbiased_where_the_model_is_not_and_its_interval_holds(design):
    rng = np.random.default_rng(0)
    n, trials = 1000, 1500
    risky = rng.random(n) < 0.2
    expected = np.where(risky, 0.7, 0.95)
    right = rng.random(n) < np.where(risky, 0.35, 0.85)
    truth = right.mean()
    probability = {
        "even": np.full(n, 0.1),
        "by deviation": np.minimum(1.0, 0.3 * np.sqrt(expected * (1 - expected))),
        "alarmed and a few others": np.where(risky, 1.0, 0.05),
    }[design]
    values, inside = [], 0
    for _ in range(trials):
        at = np.flatnonzero(rng.random(n) < probability)
        found = difference_estimate(expected, at, right[at], probability[at], confidence=0.95)
        values.append(found.value)
        inside += found.low <= truth <= found.high
    error = np.std(values) / np.sqrt(trials)
    assert abs(expected.mean() - truth) > 0.1, "the model alone is wrong"
    assert abs(np.mean(values) - truth) < 4 * error
    assert not_below(inside, trials, 0.95)


@pytest.mark.parametrize("share", [0.98, 0.8])
def test_with_few_labels_the_interval_still_holds(share):
    rng = np.random.default_rng(1)
    n, trials = 500, 1500
    expected = np.full(n, 0.9)
    inside = 0
    for _ in range(trials):
        right = rng.random(n) < share
        at = np.flatnonzero(rng.random(n) < 0.03)
        if len(at) < 5:
            at = np.arange(5)
        inside += (
            (
                found := difference_estimate(
                    expected, at, right[at], np.full(len(at), 0.03), confidence=0.95
                )
            ).low
            <= right.mean()
            <= found.high
        )
    assert not_below(inside, trials, 0.95)


def test_labels_of_alarmed_events_alone_correct_their_share_and_say_how_large_it_is():
    rng = np.random.default_rng(2)
    n = 2000
    alarmed = rng.random(n) < 0.3
    right = rng.random(n) < np.where(alarmed, 0.4, 0.9)
    expected = np.where(alarmed, 0.8, 0.9)
    at = np.flatnonzero(alarmed)
    found = difference_estimate(expected, at, right[at], np.ones(len(at)), confidence=0.95)
    assert found.value == pytest.approx((right[alarmed].sum() + 0.9 * (~alarmed).sum()) / n)
    assert found.covered == pytest.approx(alarmed.mean())
    assert abs(found.value - right.mean()) < 0.02 < abs(expected.mean() - right.mean())


def test_when_every_event_is_labelled_nothing_is_uncertain():
    right = np.arange(10) % 3 == 0
    found = difference_estimate(
        np.full(10, 0.9), np.arange(10), right, np.ones(10), confidence=0.95
    )
    assert found.value == found.low == found.high == pytest.approx(right.mean())


def test_weighted_labels_are_unbiased_and_their_intervals_hold():
    rng = np.random.default_rng(0)
    n, trials = 1000, 1500
    weights = 0.5 ** (np.arange(n)[::-1] / 150.0)
    expected = np.full(n, 0.9)
    right = rng.random(n) < np.linspace(0.95, 0.5, n)
    truth = weights @ right / weights.sum()
    probability = np.full(n, 0.15)
    values, inside = [], 0
    for _ in range(trials):
        at = np.flatnonzero(rng.random(n) < probability)
        found = difference_estimate(
            expected, at, right[at], probability[at], confidence=0.95, weights=weights
        )
        values.append(found.value)
        inside += found.low <= truth <= found.high
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(trials)
    assert not_below(inside, trials, 0.95)


def test_priority_samples_estimate_every_total_without_bias():
    rng = np.random.default_rng(4)
    n, weights = 300, np.random.default_rng(5).uniform(0.1, 0.5, 300)
    values = rng.uniform(0.5, 1.5, n)
    found = []
    for _ in range(1000):
        drawn, probability = priority_sample(weights, 1.0 - rng.random(n), 25)
        assert len(drawn) == 25
        found.append((values[drawn] / probability[drawn]).sum())
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(values.sum(), abs=4 * error)
