"""Labels that come later: which to ask for, and that their answers make a biased estimate right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.monitor import EventError, Events, Monitor
from roadworthy.monitor.events import mixed
from roadworthy.monitor.labels import Label, Labels, carried, choose, deviations, difference


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
        found = difference(expected, at, right[at], probability[at], confidence=0.95)
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
                found := difference(
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
    found = difference(expected, at, right[at], np.ones(len(at)), confidence=0.95)
    assert found.value == pytest.approx((right[alarmed].sum() + 0.9 * (~alarmed).sum()) / n)
    assert found.covered == pytest.approx(alarmed.mean())
    assert abs(found.value - right.mean()) < 0.02 < abs(expected.mean() - right.mean())


def test_when_every_event_is_labelled_nothing_is_uncertain():
    right = np.arange(10) % 3 == 0
    found = difference(np.full(10, 0.9), np.arange(10), right, np.ones(10), confidence=0.95)
    assert found.value == found.low == found.high == pytest.approx(right.mean())


def test_earlier_labels_are_carried_over_without_bias():
    rng = np.random.default_rng(3)
    trials, values, inside = 1000, [], 0
    for _ in range(trials):
        residual = (rng.random(150) < 0.7) - 0.9
        found = carried(
            np.full(400, 0.9),
            np.ones(400, dtype=bool),
            residual,
            np.full(150, 0.2),
            confidence=0.95,
        )
        values.append(found.value)
        inside += found.low <= 0.7 <= found.high
    assert np.mean(values) == pytest.approx(0.7, abs=0.005)
    assert not_below(inside, trials, 0.95)
    half = carried(
        np.full(400, 0.9), np.arange(400) < 200, residual, np.full(150, 0.2), confidence=0.95
    )
    assert half.value == pytest.approx(0.9 + 0.5 * residual.mean()) and half.covered == 0.5


def test_priority_samples_estimate_every_total_without_bias():
    rng = np.random.default_rng(4)
    n, weights = 300, np.random.default_rng(5).uniform(0.1, 1.0, 300)
    values = weights * rng.uniform(0.5, 1.5, n)
    found, sizes = [], set()
    for trial in range(4000):
        keys = mixed(np.arange(n, dtype=np.uint64) + np.uint64(trial * n))
        places, probability = choose(keys, weights, {}, 25)
        sizes.add(len(places))
        found.append((values[places] / probability[places]).sum())
    assert sizes == {25}
    assert np.mean(found) == pytest.approx(
        values.sum(), abs=4 * np.std(found) / np.sqrt(len(found))
    )


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_asking_twice_is_the_same_as_asking_for_more(first, second, seed):
    rng = np.random.default_rng(seed)
    keys, weights = (
        mixed(np.arange(60, dtype=np.uint64) + np.uint64(seed)),
        rng.uniform(0.1, 1.0, 60),
    )
    one, before = choose(keys, weights, {}, first)
    two, after = choose(keys, weights, {int(keys[i]): before[i] for i in one}, second)
    both, together = choose(keys, weights, {}, first + second)
    assert {*one, *two} == {*both} and not {*one} & {*two}
    assert after == pytest.approx(together) and (after >= before - 1e-12).all()


def test_no_event_is_without_a_chance_and_doubtful_ones_have_more():
    right = np.array([0.5, 0.999, 1.0])
    weights = deviations(right, np.array([0, 1, 2, -1]))
    assert weights[0] == weights[3] == 0.5 and (weights >= 0.1).all()


def test_a_queue_gives_ids_and_probabilities_which_labels_then_use(bundle, scores_at):
    monitor = Monitor(bundle)
    names = [f"case {i}" for i in range(200)]
    monitor.update(Events(names, np.arange(200.0), columns={"energy": scores_at(200, 0.3)}))
    asked = monitor.queue(20)
    assert len(asked) == 20 and all(q.id in names and 0 < q.probability <= 1 for q in asked)
    assert not {q.id for q in asked} & {q.id for q in monitor.queue(20)}, "asked once"
    again = Monitor.from_bytes(bundle, monitor.to_bytes())
    first = next(q for q in asked if q.probability < 1)
    for one in (monitor, again):
        one.label(first.id, True)
        label = one.state.labels.weighed(next(iter(one.state.labels.given)))
        assert label.probability >= first.probability and (label.time, label.cell) == (
            first.time,
            first.cell,
        )
    assert len(monitor.queue(1000)) == 160 and monitor.queue(5) == []
    assert Monitor(bundle).queue(5) == []


def test_labels_correct_what_the_state_says(bundle):
    rng = np.random.default_rng(6)
    cells = bundle.calibration.place({"energy": rng.normal(size=200)})
    names = [f"case {i}" for i in range(200)]
    right = rng.random(200) < 0.6
    monitor = Monitor(bundle)
    monitor.update(Events(names, np.arange(200.0), cells=cells))
    assert monitor.risk(200).audited is None
    truth = dict(zip(names, right.tolist(), strict=True))
    for question in monitor.queue(80):
        monitor.label(question.id, truth[question.id])
    risk = monitor.risk(200)
    audited = risk.audited
    assert risk.accuracy > 0.85, "scores look clean, so the model expects right answers"
    assert audited.labels == 80 and not audited.carried
    assert audited.accuracy_low <= right.mean() <= audited.accuracy_high < risk.accuracy
    assert audited.risk == pytest.approx(1 - audited.accuracy, abs=0.01), (
        "the tree's cost is the share of wrong answers"
    )
    assert audited.risk_low <= audited.risk <= audited.risk_high
    later = bundle.calibration.place({"energy": rng.normal(size=200)})
    monitor.update(Events(None, np.arange(200.0, 400.0), cells=later))
    after = monitor.risk(200).audited
    assert (
        after.carried
        and after.labels == 80
        and after.accuracy == pytest.approx(audited.accuracy, abs=0.06)
    )
    assert "corrected by 80 labels of earlier events" in monitor.risk(200).notes


def test_a_label_of_an_event_long_gone_needs_its_cell_and_time(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events(["a"], [1.0], cells=[3]))
    with pytest.raises(
        EventError, match="'b' is not among the last 1 events; give its cell and its time"
    ):
        monitor.label("b", True)
    monitor.label("b", False, 0.5, cell=7, time=-100.0)
    monitor.label(None, True, cell=7, time=-50.0)
    monitor.label(None, True, cell=7, time=-50.0)
    assert monitor.state.labels.counts[:, 7].tolist() == [2, 1]
    with pytest.raises(EventError, match="probability of being labelled"):
        monitor.label("a", True, 0.0)
    with pytest.raises(EventError, match="cell"):
        monitor.label("c", True, cell=99_999, time=1.0)


def test_a_label_of_an_event_outside_the_stream_or_of_another_subject_is_refused(bundle):
    monitor = Monitor(bundle)
    monitor.label("before there was anything to hold it against", True, cell=3, time=5.0)
    monitor.update(Events(["a", "b"], [1e6, 1e6 + 60.0], cells=[3, 4]))
    ends = monitor.state.buckets.start - bundle.lateness, 1e6 + 60.0 + bundle.lateness
    for i, time in enumerate(ends):
        monitor.label(f"old {i}", True, cell=3, time=time)
    for time, says in (
        (ends[0] - 1.0, "before the first one"),
        (ends[1] + 1.0, "after the last one"),
        (np.nan, "finite"),
        (np.inf, "finite"),
    ):
        with pytest.raises(EventError, match=says):
            monitor.label("c", True, cell=3, time=time)
    monitor.label("a", True, cell=3, time=-1e9)  # an event that is held says itself when it was
    with pytest.raises(EventError, match=r"are of 'lesion-2\.4\.0'; this monitor watches"):
        monitor.label("a", False, subject="lesion-2.4.0")
    monitor.label("b", False, subject="lesion-2.3.1")
    assert monitor.state.labels.counts.sum() == 5 and monitor.state.labels.counts[1].sum() == 1


def test_the_bundle_learns_nothing_from_labels(bundle):
    before, table = bundle.id, bundle.calibration.table.copy()
    monitor = Monitor(bundle)
    monitor.update(Events(["a"], [1.0], cells=[3]))
    monitor.label("a", False)
    assert bundle.id == before and (bundle.calibration.table == table).all()


def test_a_second_answer_takes_the_place_of_the_first_and_of_two_replicas_the_wrong_one_stands():
    one, two = Labels(cells=4), Labels(cells=4)
    one.add(1, Label(0.0, 2, True, 1.0))
    one.add(1, Label(0.0, 2, False, 1.0))
    assert one.counts[:, 2].tolist() == [0, 1]
    two.add(1, Label(0.0, 2, True, 1.0))
    two.add(2, Label(1.0, 3, True, 0.5))
    one.merge(two)
    assert one.counts[:, 2].tolist() == [0, 1] and one.counts[:, 3].tolist() == [1, 0]
    assert not one.given[1].correct and one.given[2].probability == 0.5


@pytest.mark.slow
def test_queued_labels_cover_the_windows_own_accuracy_through_the_whole_monitor(bundle):
    rng = np.random.default_rng(7)
    trials, inside, values = 150, 0, []
    for _ in range(trials):
        cells = bundle.calibration.place({"energy": rng.normal(1.8124 * (rng.random(200) < 0.2))})
        right = rng.random(200) < 0.7
        monitor = Monitor(bundle)
        names = [f"{rng.integers(2**60)}" for _ in range(200)]
        monitor.update(Events(names, np.arange(200.0), cells=cells))
        truth = dict(zip(names, right.tolist(), strict=True))
        for question in monitor.queue(40):
            monitor.label(question.id, truth[question.id])
        found = monitor.risk(200).audited
        inside += found.accuracy_low <= right.mean() <= found.accuracy_high
        values.append(found.accuracy - right.mean())
    assert not_below(inside, trials, 0.95)
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(trials)
