"""Evidence by labels: what it reaches on healthy streams, by simulation, and how soon it proves what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from roadworthy.monitor import evidence
from roadworthy.monitor.evidence import ROWS, Start, Stretch, bets_on, time_of, walk

SELDOM = 1 / 500
"""Of a label: false alarms that are accepted here."""
BAR = math.log(600_000)


def of(at: np.ndarray, wrong: np.ndarray, stands: np.ndarray) -> Stretch:
    """Labels at these places, where a wrong answer costs 1 and a right one nothing."""
    n = len(at)
    return Stretch.of(
        at,
        right=~wrong,
        stands=stands,
        prices=np.tile([1.0, 0.0], (n, 1)),
        expected=np.full(n, 0.95),
    )


def drawn(wrong: np.ndarray, probability: np.ndarray, rng: np.random.Generator) -> Stretch:
    at = np.flatnonzero(rng.random(len(wrong)) < probability)
    return of(at, wrong[at], 1.0 / probability[at])


def proven(judged: Stretch, tolerable: float, bar: float = BAR) -> bool:
    return walk(
        bets_on(judged, tolerable=tolerable, costs=(0.0, 1.0)), Start(), time=1.0, raised=bar
    ).on


def raised(judged: Stretch, tolerable: float, bar: float, *, on: str = "above") -> int:
    """How often the evidence of a risk above the tolerable, or below, reaches the bar, begun anew each time."""
    bets = getattr(bets_on(judged, tolerable=tolerable, costs=(0.0, 1.0)), on)
    at = found = 0
    while at < len(judged):
        reached = np.flatnonzero(evidence._gathered(bets[:, at:], np.zeros(ROWS))[0] >= bar)
        if not len(reached):
            break
        at, found = at + int(reached[0]) + 1, found + 1
    return found


@pytest.mark.parametrize("tolerable", [0.003, 0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(
    "sample",
    [
        "all",
        "one in five",
        "what looks risky",
        "what looks risky alone",
        "what looks safe alone",
        "few or nearly all",
    ],
)
@pytest.mark.parametrize("on", ["above", "below"])
def test_at_the_very_limit_it_is_reached_no_more_often_than_is_accepted(tolerable, sample, on):
    """Neither is it proven that the risk is above, nor, once it was, that it is below."""
    rng = np.random.default_rng([int(1000 * tolerable), len(sample)])
    n = 40_000
    risky = rng.random(n) < 0.2
    expected = np.where(risky, min(3.0 * tolerable, 0.9), 0.0)
    expected = np.where(risky, expected, (tolerable - 0.2 * expected.max()) / 0.8)
    probability = {
        "all": np.ones(n),
        "one in five": np.full(n, 0.2),
        "what looks risky": np.where(risky, 1.0, 0.1),
        "what looks risky alone": np.where(risky, 1.0, 0.0),
        "what looks safe alone": np.where(risky, 0.0, 1.0),
        "few or nearly all": np.where(rng.random(n) < 0.5, 0.1, 0.9),
    }[sample]
    with np.errstate(divide="ignore"):
        judged = drawn(rng.random(n) < expected, probability, rng)
    accepted = SELDOM * len(judged)
    assert poisson.sf(raised(judged, tolerable, math.log(1 / SELDOM), on=on) - 1, accepted) > 0.01


@pytest.mark.parametrize("on", ["above", "below"])
@pytest.mark.parametrize("tolerable", [0.05, 0.12, 0.4])
def test_at_the_very_limit_no_stake_gains_on_average(tolerable, on):
    """Each stake by itself, the second set too, which takes labels that stand for many events to stand for fewer."""
    rng = np.random.default_rng(int(1000 * tolerable))
    wealth = []
    for _ in range(600):
        probability = np.where(rng.random(400) < 0.5, 0.1, 0.9)
        bets = bets_on(
            drawn(rng.random(400) < tolerable, probability, rng),
            tolerable=tolerable,
            costs=(0.0, 1.0),
        )
        wealth.append(np.exp(getattr(bets, on).sum(axis=1)))
    error = np.std(wealth, axis=0) / math.sqrt(len(wealth))
    assert (np.mean(wealth, axis=0) <= 1.0 + 3.0 * error).all()


def test_labels_whose_probabilities_differ_make_no_false_proof():
    rng = np.random.default_rng(3)
    risky = rng.random(60_000) < 0.3
    true = np.where(risky, 0.05, 0.12)  # 9.9% on average
    judged = drawn(rng.random(60_000) < true, np.where(risky, 0.6, 0.1), rng)
    accepted = SELDOM * len(judged)
    assert poisson.sf(raised(judged, 0.1, math.log(1 / SELDOM)) - 1, accepted) > 0.01


@pytest.mark.parametrize(
    ("wrong", "tolerable", "labels"),
    [(0.4, 0.1, 70), (0.22, 0.1, 330), (0.17, 0.1, 900), (0.009, 0.003, 6500)],
)
def test_what_is_wrong_is_proven_by_little_more_labels_than_it_takes(wrong, tolerable, labels):
    """The best test of one alternative takes about log(1 / a) over the divergence."""
    rng = np.random.default_rng(5)
    divergence = wrong * math.log(wrong / tolerable) + (1 - wrong) * math.log(
        (1 - wrong) / (1 - tolerable)
    )
    assert labels < 2.2 * BAR / divergence
    noticed = sum(
        proven(of(np.arange(labels), rng.random(labels) < wrong, np.ones(labels)), tolerable)
        for _ in range(60)
    )
    assert noticed >= 48


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.6), st.floats(0.0, 1.0))
def test_no_bet_gains_where_the_risk_is_tolerable(seed, tolerable, share):
    """The expected factor of every stake, over labels drawn by their probabilities, is 1 at most."""
    rng = np.random.default_rng(seed)
    n = 64
    probability = rng.uniform(0.05, 1.0, n)
    true = rng.random(n) * 2 * tolerable * share
    true *= min(1.0, tolerable / max(float(true.mean()), 1e-12))
    # All events are labelled here, and each counts as often as it is drawn: as in a long stream. The second set of stakes needs
    # the gaps between those that are drawn, and is simulated above.
    right, wrong = (
        np.exp(
            bets_on(
                of(np.arange(n), np.full(n, outcome), 1.0 / probability),
                tolerable=tolerable,
                costs=(0.0, 1.0),
            ).above
        )
        for outcome in (False, True)
    )
    right, wrong = right[: ROWS // 2], wrong[: ROWS // 2]
    factor = true * wrong + (1.0 - true) * right
    assert (np.average(factor, weights=probability, axis=1) <= 1.0 + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.02, 0.6))
def test_no_bet_on_the_opposite_gains_where_the_risk_is_above(seed, tolerable):
    rng = np.random.default_rng(seed)
    n = 64
    probability = rng.uniform(0.05, 1.0, n)
    true = np.minimum(rng.random(n), 1.0)
    true = true + (tolerable - true) * (true.mean() < tolerable)
    right, wrong = (
        np.exp(
            bets_on(
                of(np.arange(n), np.full(n, outcome), 1.0 / probability),
                tolerable=tolerable,
                costs=(0.0, 1.0),
            ).below
        )
        for outcome in (False, True)
    )
    right, wrong = right[: ROWS // 2], wrong[: ROWS // 2]  # the others need the gaps, as above
    factor = true * wrong + (1.0 - true) * right
    assert (np.average(factor, weights=probability, axis=1) <= 1.0 + 1e-9).all()


def test_one_label_that_stands_for_hundreds_leaves_the_others_their_say():
    rng = np.random.default_rng(9)
    stands, wrong = np.ones(1000), rng.random(1000) < 0.5
    stands[300], wrong[300] = 300.0, False
    assert proven(of(np.arange(0, 2000, 2), wrong, stands), 0.12)


def test_what_no_answer_can_be_is_proven_by_any():
    """Even a right one costs more than is tolerable."""
    n = 40
    prices = np.tile([2.0, 1.0], (n, 1))
    judged = Stretch.of(
        np.arange(n),
        right=np.ones(n, dtype=bool),
        stands=np.ones(n),
        prices=prices,
        expected=np.ones(n),
    )
    bets = bets_on(judged, tolerable=0.5, costs=(1.0, 2.0))
    assert np.isfinite(bets.above).all() and walk(bets, Start(), time=1.0, raised=BAR).on
    never = bets_on(judged, tolerable=3.0, costs=(1.0, 2.0))
    assert (never.above <= 0.0).all() and (never.below >= 0.0).all()


@pytest.mark.parametrize("gap", [1, 500, 20_000])
def test_events_without_labels_count_against_it_before_their_label_and_no_longer(gap):
    """What is proven after a gap is proven by the labels after it."""
    at = np.concatenate([np.arange(100), 100 + gap + np.arange(80)])
    judged = of(at, np.arange(180) >= 100, np.ones(180))
    assert proven(judged, 0.12)
    assert not proven(judged.part(slice(0, 101)), 0.12)


def test_events_that_no_label_stands_for_cost_the_least_there_is():
    """One event in ten is labelled without a probability, and half of those are wrong: 5% at least, and 12% are tolerable."""
    wrong = np.arange(500) % 2 == 0
    assert not proven(of(10 * np.arange(500), wrong, np.ones(500)), 0.12)
    assert proven(of(10 * np.arange(500), wrong, np.ones(500)), 0.02)
    assert proven(of(10 * np.arange(500), wrong, np.full(500, 10.0)), 0.12)


@given(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=30), st.floats(0.0, 3.0))
def test_evidence_is_that_of_the_best_start(logs, before):
    found, starts, _ = evidence._gathered(np.array([logs]), np.array([before]))
    for t in range(len(logs)):
        sums = [math.fsum(logs[s : t + 1]) + (before if s == 0 else 0.0) for s in range(t + 1)]
        assert found[t] == pytest.approx(max(sums), abs=1e-9)
        assert sums[starts[t]] == pytest.approx(max(sums), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 299), st.sampled_from([1.0, 0.2]))
def test_labels_gone_through_in_two_parts_say_what_they_say_at_once(seed, cut, probability):
    rng = np.random.default_rng(seed)
    n = 300
    wrong = rng.random(n) < np.where((np.arange(n) // 100) == 1, 0.6, 0.03)
    judged = of(np.cumsum(rng.geometric(probability, n)), wrong, np.full(n, 1.0 / probability))
    bets = bets_on(judged, tolerable=0.12, costs=(0.0, 1.0))
    whole = walk(bets, Start(), time=1.0, raised=6.0, cleared=4.0)
    first, rest = bets.part(slice(0, cut)), bets.part(slice(cut, None))
    half = walk(first, Start(), time=1.0, raised=6.0, cleared=4.0)
    found = walk(rest, Start(half.on, half.evidence, 0.0), time=1.0, raised=6.0, cleared=4.0)
    assert found.on == whole.on and found.evidence == pytest.approx(whole.evidence, abs=1e-9)
    tail = bets_on(
        judged.part(slice(cut, None)),
        tolerable=0.12,
        costs=(0.0, 1.0),
        ahead=float(bets.ahead[cut - 1]),
    )
    assert tail.above == pytest.approx(rest.above) and tail.ahead == pytest.approx(rest.ahead)


def test_labels_whose_errors_come_together_say_as_much_as_their_drives():
    rng = np.random.default_rng(7)
    wrong = np.repeat(rng.random(100) < 0.1, 20)
    judged = of(np.arange(2000), wrong, np.ones(2000))
    bets = bets_on(judged, tolerable=0.1, costs=(0.0, 1.0))
    assert 15.0 < time_of(judged, bets, held=1.0) < 45.0
    alone = of(np.arange(2000), rng.random(2000) < 0.1, np.ones(2000))
    bets = bets_on(alone, tolerable=0.1, costs=(0.0, 1.0))
    assert time_of(alone, bets, held=1.0) < 1.3
    assert time_of(alone, bets, held=80.0) < 1.3, (
        "how alike scores are says nothing of errors that are known"
    )
    few = alone.part(slice(0, 40))
    assert time_of(few, bets_on(few, tolerable=0.1, costs=(0.0, 1.0)), held=20.0) == 20.0
    assert time_of(alone, bets, held=1.0, together=100.0) == 100.0


def test_a_step_is_no_correlation():
    rng = np.random.default_rng(8)
    wrong = np.concatenate([rng.random(300) < 0.05, rng.random(150) < 0.5])
    judged = of(np.arange(450), wrong, np.ones(450))
    assert time_of(judged, bets_on(judged, tolerable=0.1, costs=(0.0, 1.0)), held=1.0) < 2.0
