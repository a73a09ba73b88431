"""Labels of earlier events: intervals hold however unequal the probabilities, and no label stands for more than there is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from roadworthy.monitor import Events, Monitor
from roadworthy.monitor.labels import carried, difference, plausible

DESIGNS = {
    "all alike": (0.2, 0.2, 0.0, 0.1, 2000),
    "a tenth sure, the rest 3%": (0.2, 0.2, 0.1, 0.03, 1000),
    "a tenth sure, the rest 1%": (0.2, 0.2, 0.1, 0.01, 1000),
    "a tenth sure, the rest 0.3%": (0.2, 0.2, 0.1, 0.003, 3000),
    "a tenth sure, the rest 0.5%, few errors": (0.1, 0.1, 0.1, 0.005, 2000),
    "the model is wrong": (0.4, 0.05, 0.1, 0.01, 1000),
    "the model is wrong, few labels": (0.4, 0.05, 0.05, 0.003, 3000),
    "hardly any errors": (0.02, 0.02, 0.1, 0.02, 2000),
}
"""Share of errors, and that of the model; share of events that are sure to be labelled; probability of the rest; events."""


def covers(design: str, *, trials: int) -> tuple[int, int, int]:
    """How often the interval holds the truth, how often it makes the risk too small, of how many."""
    errors, told, sure, p, n = DESIGNS[design]
    rng = np.random.default_rng([7, *design.encode()])
    inside = understated = all_of = 0
    for _ in range(trials):
        probability = np.where(rng.random(n) < sure, 1.0, p)
        drawn = rng.random(n) < probability
        if drawn.sum() < 5:
            continue
        right = rng.random(n) >= errors
        found = carried(
            np.full(50, 1 - told),
            np.ones(50, bool),
            right[drawn] - (1 - told),
            probability[drawn],
            confidence=0.95,
        )
        all_of += 1
        inside += found.low <= 1 - errors <= found.high
        understated += found.low > 1 - errors
    return inside, understated, all_of


def not_below(hits: int, trials: int, nominal: float) -> bool:
    """A one-sided binomial test at 1%."""
    return bool(binom.cdf(hits, trials, nominal) > 0.01)


@pytest.mark.parametrize(
    "design", ["a tenth sure, the rest 1%", "a tenth sure, the rest 0.5%, few errors"]
)
def test_a_few_labels_that_stand_for_nearly_all_events_are_taken_as_few(design):
    inside, understated, trials = covers(design, trials=400)
    assert not_below(inside, trials, 0.95) and not_below(trials - understated, trials, 0.975)


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_carried_over_hold_and_seldom_make_the_risk_too_small(design):
    inside, understated, trials = covers(design, trials=4000)
    assert not_below(inside, trials, 0.95) and not_below(trials - understated, trials, 0.975)


@pytest.mark.parametrize(("right", "n"), [(9, 9), (18, 20), (150, 200), (0, 30)])
def test_labels_all_alike_say_what_as_many_answers_say(right, n):
    """Against Clopper and Pearson, whatever the model expected."""
    answers = np.arange(n) < right
    low, high = beta.ppf(0.025, right, n - right + 1), beta.ppf(0.975, right + 1, n - right)
    for told in (0.95, 0.5):
        found = carried(
            np.full(9, told), np.ones(9, bool), answers - told, np.full(n, 0.01), confidence=0.95
        )
        assert found.value == pytest.approx(right / n)
        assert max(0.0, found.low) == pytest.approx(np.nan_to_num(low), abs=0.05)
        assert min(1.0, found.high) == pytest.approx(1.0 if right == n else high, abs=0.05)


def test_one_label_of_a_tiny_probability_makes_the_others_say_little_but_nothing_certain():
    right = np.arange(1000) % 2 == 0
    probability = np.where(np.arange(1000) == 0, 1e-4, 1.0)
    found = carried(
        np.full(100, 0.9), np.ones(100, bool), right - 0.9, probability, confidence=0.95
    )
    assert found.low < 0.5 and found.high > 1.0


def test_what_labels_were_told_decides_how_far_answers_may_lie_not_what_the_window_is():
    """All nine right where the model was sure says as little of a doubtful window."""
    nine, reached = np.full(9, 0.05), np.ones(50, bool)
    sure, doubtful = (
        carried(np.full(50, e), reached, nine, np.ones(9), confidence=0.95, told=np.full(9, 0.95))
        for e in (0.95, 0.6)
    )
    assert doubtful.high - doubtful.low == pytest.approx(sure.high - sure.low)
    assert doubtful.value == pytest.approx(0.65)


def test_no_label_stands_for_more_events_than_there_are():
    found, overstated = plausible(np.array([1.0, 0.5, 1e-320]), 50)
    assert found.tolist() == [1.0, 0.5, 1 / 50] and 50 < overstated < np.inf
    fine = np.array([1.0, 0.5, 1 / 50])
    assert plausible(fine, 50)[0].tolist() == fine.tolist() and plausible(fine, 50)[1] == 1.0


probabilities = st.one_of(
    st.floats(0.0, 1.0, exclude_min=True, allow_subnormal=True),
    st.sampled_from([5e-324, 1e-308, 1e-4, 0.1, 1.0]),
)


@given(
    st.lists(st.tuples(probabilities, st.booleans()), min_size=5, max_size=40),
    st.floats(0.01, 0.99),
)
@settings(max_examples=150, deadline=None)
def test_values_are_finite_and_lie_within_their_intervals_whatever_the_probabilities(labels, told):
    probability, right = (np.array(part) for part in zip(*labels, strict=True))
    expected = np.full(60, told)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        own = difference(expected, np.arange(len(labels)), right, probability, confidence=0.95)
        earlier = carried(expected, np.ones(60, bool), right - told, probability, confidence=0.95)
    for found in (own, earlier):
        assert np.isfinite([*vars(found).values()]).all()
        assert found.low <= found.value <= found.high
    assert own.overstated > 1.0 or (probability >= 0.999 / 60).all()
    least = right.sum() / 60
    assert least - 1e-9 <= own.low and own.high <= least + 1 - len(labels) / 60 + 1e-9, (
        "no more than labels allow for"
    )


@pytest.mark.parametrize("p", [1e-320, 1e-12, 1e-4])
def test_one_label_with_a_probability_that_cannot_be_is_noted_and_proves_nothing(bundle, p):
    monitor, rng, n = Monitor(bundle), np.random.default_rng(8), 200
    monitor.update(
        Events(np.arange(n), np.arange(float(n)), columns={"energy": rng.normal(size=n)})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(n):
            monitor.label(i, i % 2 == 0, p if i == 0 else None, look=False)
        monitor.look_at_labels()
        for earlier in (False, True):
            if earlier:
                numbers = np.arange(n, 3 * n)
                monitor.update(
                    Events(
                        numbers, numbers.astype(float), columns={"energy": rng.normal(size=2 * n)}
                    )
                )
            risk = monitor.risk(200)
            audited = risk.audited
            assert (
                audited.carried == earlier
                and np.isfinite(audited.overstated)
                and audited.overstated > 1.0
            )
            assert audited.risk_low <= audited.risk <= audited.risk_high
            assert any(
                note.startswith("by the probabilities given, the labels stand for")
                for note in risk.notes
            )
            if not earlier:  # every event has its label: none stands for another
                assert (
                    audited.accuracy
                    == audited.accuracy_low
                    == audited.accuracy_high
                    == pytest.approx(0.5)
                )
            else:
                assert (
                    0.0
                    <= audited.accuracy_low
                    < 0.5
                    < audited.accuracy
                    <= audited.accuracy_high
                    == 1.0
                )
                assert not any(note.startswith("labels say") for note in risk.notes)


def test_where_all_events_have_labels_those_that_were_drawn_stand_for_themselves(bundle):
    """Who drew some for labelling, and then had all labelled, knows what is right."""
    monitor, rng, n = Monitor(bundle), np.random.default_rng(9), 1000
    monitor.update(
        Events(np.arange(n), np.arange(float(n)), columns={"energy": rng.normal(size=n)})
    )
    right = rng.random(n) < 0.9
    assert max(question.probability for question in monitor.queue(3)) < 0.2
    monitor.label_all([(i, bool(right[i]), None, None, None) for i in range(n)])
    for window in (50, 200):
        audited = monitor.risk(window).audited
        truth = right[-window:].mean()
        assert (
            audited.accuracy
            == audited.accuracy_low
            == audited.accuracy_high
            == pytest.approx(truth)
        )


def test_labels_of_the_window_s_first_events_are_carried_on_whatever_their_probabilities(bundle):
    monitor, rng = Monitor(bundle), np.random.default_rng(8)
    monitor.update(
        Events(np.arange(200), np.arange(200.0), columns={"energy": rng.normal(size=200)})
    )
    for i in range(40):
        monitor.label(i, i % 2 == 0, 5e-324 if i == 0 else None, look=False)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        audited = monitor.risk(200).audited
    assert (
        not audited.carried
        and 0.0 <= audited.accuracy_low <= audited.accuracy <= audited.accuracy_high <= 1.0
    )


def unnamed(monitor: Monitor, number: int) -> None:
    for _ in range(number):
        monitor.label(None, False, cell=-1, time=50.0, look=False)
        monitor.label(None, True, cell=3, time=50.0, look=False)


def test_labels_of_events_that_nobody_can_name_are_all_kept(bundle):
    one, two = Monitor(bundle, replica="one"), Monitor(bundle, replica="two")
    for monitor in (one, two):
        monitor.update(Events(None, np.arange(100.0), cells=np.full(100, 3)))
        unnamed(monitor, 25)
        assert len(monitor.state.labels.given) == 50
    again = Monitor.from_bytes(bundle, one.to_bytes())
    unnamed(again, 25)
    assert len(again.state.labels.given) == 100, "numbered on"
    again.merge(two)
    unnamed(again, 5)
    unnamed(two, 5)
    again.merge(two)
    assert len(again.state.labels.given) == 100 + 50 + 10 + 10
    assert again.state.labels.counts.sum() == (100 + 50 + 10 + 10) / 2


@pytest.mark.parametrize("complaints", [5, 40])
def test_complaints_say_nothing_of_the_events_they_are_not_about(watchful, complaints):
    """Wrong answers that somebody reported, of events before the window: 90% and more are right."""
    rng = np.random.default_rng(complaints)
    monitor = Monitor(watchful)
    monitor.update(
        Events(np.arange(6000), np.arange(6000.0), columns={"energy": rng.normal(size=6000)})
    )
    for i in rng.choice(5800, complaints, replace=False).tolist():
        monitor.label(i, False, look=False)
    monitor.look_at_labels()
    assert monitor.risk(100).audited is None
    assert not any("labels say" in note for note in monitor.risk(100).notes)


@pytest.mark.parametrize("way", ["all", "sample", "queue"])
def test_labels_of_all_events_or_of_a_sample_speak_for_those_after_them(watchful, way):
    rng = np.random.default_rng(7)
    monitor = Monitor(watchful)
    monitor.update(
        Events(np.arange(1000), np.arange(1000.0), columns={"energy": rng.normal(size=1000)})
    )
    if way == "queue":
        asked = [question.id for question in monitor.queue(100, 300)]
    else:
        asked = range(1000) if way == "all" else np.flatnonzero(rng.random(1000) < 0.2).tolist()
    for i in asked:
        monitor.label(i, bool(rng.random() < 0.5), 0.2 if way == "sample" else None, look=False)
    numbers = np.arange(1000, 1200)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=200)}))
    audited = monitor.risk(100).audited
    assert (
        audited.carried
        and audited.accuracy_low < 0.55 < 0.45 + audited.accuracy_high
        and audited.accuracy < 0.7
    )


def test_earlier_labels_say_nothing_of_what_is_unlike_all_that_was_calibrated(watchful):
    rng = np.random.default_rng(8)
    monitor = Monitor(watchful)
    monitor.update(
        Events(np.arange(1000), np.arange(1000.0), columns={"energy": rng.normal(size=1000)})
    )
    monitor.label_all([(i, True, None, None, None) for i in range(1000)])
    numbers = np.arange(1000, 1300)
    monitor.update(
        Events(numbers, numbers.astype(float), columns={"energy": rng.normal(400.0, size=300)})
    )
    risk = monitor.risk(100)
    assert risk.cannot_tell and risk.audited is None


def test_events_are_counted_between_two_times_though_they_have_left(watchful):
    monitor = Monitor(watchful)
    n = 130_000
    for start in range(0, n, 10_000):
        numbers = np.arange(start, start + 10_000)
        monitor.update(Events(numbers, numbers.astype(float), columns={"energy": np.zeros(10_000)}))
    state = monitor.state
    assert len(state.recent) < n
    assert state.counted_between(129_000.0, 129_999.0) == 1000.0
    assert state.counted_between(5000.0, 129_999.0) == pytest.approx(125_000, rel=0.05)


def test_complaints_beside_a_sample_say_nothing_of_other_events_either(watchful):
    """A tenth is drawn, and of the others every wrong answer is reported: the figures are those of the sample alone."""
    rng = np.random.default_rng(9)
    wrong, lot, scores = rng.random(8000) < 0.08, rng.random(8000) < 0.1, rng.normal(size=8000)
    lot[-300:] = wrong[-300:] = False
    found = []
    for labelled in (lot, lot | wrong):
        monitor = Monitor(watchful)
        monitor.update(Events(np.arange(8000), np.arange(8000.0), columns={"energy": scores}))
        for i in np.flatnonzero(labelled).tolist():
            monitor.label(i, not wrong[i], 0.1 if lot[i] else None, look=False)
        found.append(monitor.risk(100).audited)
    assert found[0].carried and found[0] == found[1]
