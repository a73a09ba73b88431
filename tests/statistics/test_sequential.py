"""Bets on a mean above a limit: false alarms over all looks together are as rare as stated, whatever the values and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.statistics.sequential import STAKES, cusum, log_factors, martingale


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.05, 0.95))
@settings(max_examples=80, deadline=None)
def test_the_martingale_is_the_mean_of_products(values, limit):
    factors = log_factors(values, limit=limit, least=0.0, most=1.0)
    assert factors.shape == (STAKES, len(values)) and np.isfinite(factors).all()
    products = np.exp(factors).cumprod(axis=1)
    assert np.exp(martingale(factors)) == pytest.approx(products.mean(axis=0), rel=1e-6)


@given(st.floats(0.05, 0.95), st.floats(0.2, 5.0))
@settings(max_examples=80, deadline=None)
def test_at_the_limit_every_factor_has_the_expectation_one(limit, weight):
    right, wrong = (
        np.exp(log_factors([x], limit=limit, least=0.0, most=1.0, weights=[weight]))
        for x in (0.0, 1.0)
    )
    assert (1 - limit) * right + limit * wrong == pytest.approx(np.ones((STAKES, 1)), rel=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.integers(1, 39))
@settings(max_examples=80, deadline=None)
def test_evidence_of_a_change_can_be_gathered_part_by_part(values, cut):
    factors = log_factors(values, limit=0.1, least=-1.0, most=1.0)
    whole = cusum(factors)
    first = cusum(factors[:, :cut])
    if cut < len(values):
        later = cusum(factors[:, cut:], np.maximum(first.gathered[:, -1], 0.0))
        assert later.evidence[-1] == pytest.approx(whole.evidence[-1], abs=1e-9)
    by_hand = np.zeros(STAKES)
    for column in factors.T:
        by_hand = np.maximum(by_hand, 0.0) + column
    assert whole.gathered[:, -1] == pytest.approx(by_hand, abs=1e-9)


def test_nothing_says_nothing_and_what_no_observation_stands_for_takes_evidence_away():
    assert log_factors([], limit=0.1, least=0.0, most=1.0).shape == (STAKES, 0)
    plain, charged = (
        martingale(log_factors(np.ones(20), limit=0.1, least=0.0, most=1.0, missed=missed))[-1]
        for missed in (0.0, 0.5)
    )
    assert charged < plain


@pytest.mark.slow
@pytest.mark.parametrize("design", ["all", "one in five", "by value"])
@pytest.mark.parametrize("limit", [0.02, 0.2])
def test_a_mean_at_the_limit_raises_a_false_alarm_at_any_look_as_seldom_as_stated(design, limit):
    rng, trials, alpha, alarms = np.random.default_rng([1, len(design)]), 2000, 0.05, 0
    for _ in range(trials):
        easy = rng.random(1500) < 0.5
        wrong = rng.random(1500) < np.where(easy, 0.5 * limit, 1.5 * limit)
        p = {"all": 1.0, "one in five": 0.2, "by value": np.where(easy, 0.1, 0.5)}[design]
        p = np.broadcast_to(p, (1500,))
        drawn = rng.random(1500) < p
        values, weights = wrong[drawn].astype(float), 1.0 / p[drawn]
        found = log_factors(values, limit=limit, least=0.0, most=1.0, weights=weights)
        alarms += martingale(found).max() >= np.log(1 / alpha)
    assert alarms <= alpha * trials + 3 * np.sqrt(alpha * trials)


@pytest.mark.slow
def test_evidence_of_a_change_comes_falsely_less_than_once_in_so_many_observations():
    rng, alarms, observations, level = np.random.default_rng(2), 0, 400_000, 1000.0
    values = (rng.random(observations) < 0.1).astype(float)
    factors, at = log_factors(values, limit=0.1, least=0.0, most=1.0), 0
    while at < observations:
        reached = cusum(factors[:, at : at + 50_000]).evidence >= np.log(level)
        alarms += bool(reached.any())
        at += int(reached.argmax()) + 1 if reached.any() else 50_000
    assert alarms <= observations / level
