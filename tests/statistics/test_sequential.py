"""Bets on a mean above a limit: false alarms over all looks together are as rare as stated, whatever the values and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, binom

from roadworthy.statistics.proportion import clopper_pearson_bounds
from roadworthy.statistics.sequential import (
    STAKES,
    cusum,
    evidence_below,
    log_factors,
    martingale,
    proportion_sequence,
)


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


@pytest.mark.parametrize(("k", "n", "limit"), [(0, 50, 0.1), (3, 200, 0.05), (20, 40, 0.6)])
def test_evidence_about_a_proportion_is_the_mean_likelihood_ratio_under_the_cut_prior(k, n, limit):
    def weighted(q):
        return beta.pdf(q, 0.5, 0.5) * (q / limit) ** k * ((1 - q) / (1 - limit)) ** (n - k)

    ratio = quad(weighted, 0, limit, limit=500)[0] / beta.cdf(limit, 0.5, 0.5)
    assert float(evidence_below(k, n, limit)) == pytest.approx(np.log(ratio), abs=1e-5)


def test_looking_every_hundred_at_a_confidence_sequence_claims_falsely_less_often_than_stated():
    rng, looks, runs = np.random.default_rng(0), np.arange(100, 5001, 100), 4000
    for p in (0.003, 0.03, 0.2):
        k = rng.binomial(100, p, (runs, len(looks))).cumsum(axis=1)
        below = (evidence_below(k, looks, p) >= np.log(40)).any(axis=1).sum()
        above = (evidence_below(looks - k, looks, 1 - p) >= np.log(40)).any(axis=1).sum()
        assert max(below, above) <= binom.ppf(0.99, runs, 0.025)
    plain = clopper_pearson_bounds(k, looks, confidence=0.975, sided="upper")[1] <= p
    assert 0.11 < plain.any(axis=1).mean() < 0.16, "what a plain bound would do: 13.6% is known"


@given(st.integers(0, 60), st.integers(60, 4000))
@settings(max_examples=60)
def test_the_ends_of_a_confidence_sequence_are_where_the_evidence_reaches_its_limit(k, n):
    found = proportion_sequence(k, n, confidence=0.975, sided="upper")
    exact = float(clopper_pearson_bounds(k, n, confidence=0.975, sided="upper")[1])
    assert exact <= found.high <= 1 and found.low == 0
    if found.high < 1:
        assert float(evidence_below(k, n, found.high)) == pytest.approx(np.log(40), abs=1e-6)
        beyond = evidence_below(k, n, np.linspace(found.high, (found.high + 1) / 2, 200))
        assert (np.diff(beyond) > -1e-9).all(), "no larger limit is held after a smaller one is not"
    mirrored = proportion_sequence(n - k, n, confidence=0.975, sided="lower")
    assert mirrored.low == pytest.approx(1 - found.high, abs=1e-12)
