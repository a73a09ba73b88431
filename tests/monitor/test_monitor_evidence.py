"""Evidence by labels: what it reaches on healthy streams, by simulation, and how soon it proves what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from roadworthy.monitor import evidence
from roadworthy.monitor.evidence import Costs, Stretch, bets_on, time_of, walk

SELDOM = 1 / 500
"""Of a label: false alarms that are accepted here."""


def stretch(wrong: np.ndarray, expected: np.ndarray, probability: np.ndarray, rng: np.random.Generator) -> Stretch:
    at = np.flatnonzero(rng.random(len(wrong)) < probability)
    return Stretch(at, ~wrong[at], 1.0 / probability[at], 1.0 - expected)


def costs_of(judged: Stretch, tolerable: float) -> Costs:
    accuracy = float(judged.expected.mean())
    return Costs(1.0 - accuracy, accuracy, -1.0, tolerable)


def raised(judged: Stretch, tolerable: float, bar: float) -> int:
    """How often the evidence reaches the bar, begun anew each time."""
    bets = bets_on(judged, costs_of(judged, tolerable))
    at = found = 0
    while at < len(judged.at):
        reached = np.flatnonzero(evidence._gathered(bets.above[:, at:])[0] >= bar)
        if not len(reached):
            break
        at, found = at + int(reached[0]) + 1, found + 1
    return found


@pytest.mark.parametrize("tolerable", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("drawn", ["all", "one in five", "what looks risky"])
def test_at_the_very_limit_it_is_reached_no_more_often_than_is_accepted(tolerable, drawn):
    rng = np.random.default_rng([int(100 * tolerable), len(drawn)])
    n = 40_000
    risky = rng.random(n) < 0.2
    expected = np.where(risky, min(3.0 * tolerable, 0.9), 0.0)
    expected = np.where(risky, expected, (tolerable - 0.2 * expected.max()) / 0.8)
    probability = {"all": np.ones(n), "one in five": np.full(n, 0.2), "what looks risky": np.where(risky, 1.0, 0.1)}[
        drawn
    ]
    wrong = rng.random(n) < expected
    judged = stretch(wrong, expected, probability, rng)
    accepted = SELDOM * len(judged.at)
    assert poisson.sf(raised(judged, tolerable, math.log(1 / SELDOM)) - 1, accepted) > 0.01


def test_a_model_that_is_wrong_about_what_looks_risky_makes_no_false_proof():
    """It expects errors elsewhere; what is drawn is weighed by its probability, so that the risk is the true one."""
    rng = np.random.default_rng(3)
    risky = rng.random(60_000) < 0.3
    expected, true = np.where(risky, 0.3, 0.01), np.where(risky, 0.05, 0.12)  # 9.7% and 9.9% on average
    judged = stretch(rng.random(60_000) < true, expected, np.where(risky, 0.6, 0.1), rng)
    accepted = SELDOM * len(judged.at)
    assert poisson.sf(raised(judged, 0.1, math.log(1 / SELDOM)) - 1, accepted) > 0.01


@pytest.mark.parametrize(("wrong", "labels"), [(0.4, 70), (0.22, 330), (0.17, 900)])
def test_what_is_wrong_is_proven_by_little_more_labels_than_it_takes(wrong, labels):
    """The best test of one alternative takes about log(1 / a) over the divergence."""
    rng = np.random.default_rng(5)
    bar = math.log(600_000)
    divergence = wrong * math.log(wrong / 0.1) + (1 - wrong) * math.log((1 - wrong) / 0.9)
    assert labels < 2.2 * bar / divergence
    noticed = 0
    for _ in range(60):
        judged = stretch(rng.random(labels) < wrong, np.full(labels, 0.05), np.ones(labels), rng)
        bets = bets_on(judged, costs_of(judged, 0.1))
        noticed += walk(bets, time=1.0, raised=bar, on=False).on
    assert noticed >= 51


def test_it_is_taken_back_by_labels_that_say_so_and_by_nothing_less():
    rng = np.random.default_rng(6)
    for risk, back in ((0.03, True), (0.1, False), (0.15, False)):
        cleared = 0
        for _ in range(40):
            judged = stretch(rng.random(400) < risk, np.full(400, 0.05), np.ones(400), rng)
            bets = bets_on(judged, costs_of(judged, 0.1))
            cleared += not walk(bets, time=1.0, raised=50.0, on=True).on
        assert cleared >= 36 if back else cleared <= 6, (risk, cleared)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.6), st.floats(0.0, 1.0))
def test_no_bet_gains_where_the_risk_is_tolerable(seed, tolerable, share):
    """The expected factor of every stake, over labels drawn by their probabilities, is 1 at most, whatever the model."""
    rng = np.random.default_rng(seed)
    n = 64
    expected, probability = rng.random(n), rng.uniform(0.05, 1.0, n)
    true = rng.random(n) * 2 * tolerable * share
    true *= min(1.0, tolerable / max(float(true.mean()), 1e-12))
    judged = Stretch(np.arange(n), np.ones(n, dtype=bool), 1.0 / probability, 1.0 - expected)
    # All events are labelled here, and each counts as often as it is drawn: as in a long stream.
    right, wrong = (
        np.exp(bets_on(Stretch(judged.at, outcome, judged.stands, judged.expected), costs_of(judged, tolerable)).above)
        for outcome in (np.ones(n, dtype=bool), np.zeros(n, dtype=bool))
    )
    factor = true * wrong + (1.0 - true) * right
    assert (np.average(factor, weights=probability, axis=1) <= 1.0 + 1e-9).all()


def test_one_label_that_stands_for_hundreds_leaves_the_sure_ones_their_say():
    rng = np.random.default_rng(9)
    at = np.arange(0, 2000, 2)
    stands = np.ones(1000)
    stands[300] = 300.0
    wrong = rng.random(1000) < 0.5
    wrong[300] = False
    judged = Stretch(at, ~wrong, stands, np.full(1999, 0.95))
    assert walk(bets_on(judged, costs_of(judged, 0.12)), time=1.0, raised=math.log(600_000), on=False).on


def test_where_no_answer_could_lose_nothing_is_staked():
    judged = Stretch(np.arange(40), np.ones(40, dtype=bool), np.ones(40), np.full(40, 0.9))
    bets = bets_on(judged, Costs(risk=2.0, accuracy=0.9, slope=-1.0, tolerable=0.5))
    assert not bets.above.any()


@given(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=30))
def test_evidence_is_that_of_the_best_start(logs):
    found, starts = evidence._gathered(np.array([logs]))
    for t in range(len(logs)):
        sums = [math.fsum(logs[s : t + 1]) for s in range(t + 1)]
        assert found[t] == pytest.approx(max(sums), abs=1e-9)
        assert sums[starts[t]] == pytest.approx(max(sums), abs=1e-9)


def test_labels_whose_errors_come_together_say_as_much_as_their_drives():
    rng = np.random.default_rng(7)
    wrong = np.repeat(rng.random(100) < 0.1, 20)
    judged = stretch(wrong, np.full(2000, 0.05), np.ones(2000), rng)
    bets = bets_on(judged, costs_of(judged, 0.1))
    assert 15.0 < time_of(judged, bets, held=1.0) < 45.0
    alone = stretch(rng.random(2000) < 0.1, np.full(2000, 0.05), np.ones(2000), rng)
    assert time_of(alone, bets_on(alone, costs_of(alone, 0.1)), held=1.0) < 1.3
    assert time_of(alone, bets_on(alone, costs_of(alone, 0.1)), held=8.0) == 8.0


def test_a_step_is_no_correlation():
    rng = np.random.default_rng(8)
    wrong = np.concatenate([rng.random(300) < 0.05, rng.random(150) < 0.5])
    judged = stretch(wrong, np.full(450, 0.05), np.ones(450), rng)
    assert time_of(judged, bets_on(judged, costs_of(judged, 0.1)), held=1.0) < 2.0
