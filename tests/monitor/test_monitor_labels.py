"""Labels that come later: which to ask for, and that their answers make a biased estimate right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.analysis.risk.prototypes import POLYP_COSTS, accuracy_tree, detector_tree
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Windows
from roadworthy.monitor.labels import LabelledEvent, Labels, Prices, ask_next


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
    assert audited.labels == 80
    assert audited.accuracy_low <= right.mean() <= audited.accuracy_high < risk.accuracy
    assert audited.risk == pytest.approx(1 - audited.accuracy, abs=0.01), (
        "the tree's cost is the share of wrong answers"
    )
    assert audited.risk_low <= audited.risk <= audited.risk_high
    later = bundle.calibration.place({"energy": rng.normal(size=200)})
    monitor.update(Events(None, np.arange(200.0, 400.0), cells=later))
    assert monitor.risk(200).audited is None, "labels of earlier events correct nothing"


def test_a_label_that_cannot_be_counted_is_refused(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events(["a"], [1.0], cells=[3]))
    with pytest.raises(EventError, match="'b' is not among the last 1 events"):
        monitor.label("b", True)
    with pytest.raises(EventError, match="id"):
        monitor.label(None, True)
    with pytest.raises(EventError, match="probability"):
        monitor.label("a", True, 0.0)
    with pytest.raises(EventError, match=r"are of 'lesion-2\.4\.0'; this monitor watches"):
        monitor.label("a", False, subject="lesion-2.4.0")
    monitor.label("a", False, subject="lesion-2.3.1")
    assert monitor.state.labels.counted == 1


def test_the_bundle_learns_nothing_from_labels(bundle):
    before, table = bundle.id, bundle.calibration.table.copy()
    monitor = Monitor(bundle)
    monitor.update(Events(["a"], [1.0], cells=[3]))
    monitor.label("a", False)
    assert bundle.id == before and (bundle.calibration.table == table).all()


def test_a_second_answer_takes_the_place_of_the_first_and_of_two_replicas_the_wrong_one_stands():
    one, two = Labels(), Labels()
    one.add_all([(1, LabelledEvent(0.0, 2, True, 1.0)), (1, LabelledEvent(0.0, 2, False, 1.0))])
    assert one.counted == 1 and not one.given[1].correct
    two.add_all([(1, LabelledEvent(0.0, 2, True, 1.0)), (2, LabelledEvent(1.0, 3, True, 0.5))])
    one.merge(two)
    assert one.counted == 2 and not one.given[1].correct and one.given[2].probability == 0.5


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
    assert binom.cdf(inside, trials, 0.95) > 0.01
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(trials)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_asking_twice_is_the_same_as_asking_for_more(first, second, seed):
    ids, right = [f"{seed} {i}" for i in range(60)], np.random.default_rng(seed).uniform(0.5, 1, 60)
    twice, once = Labels(), Labels()
    one, two = (ask_next(twice, ids, right, n) for n in (first, second))
    both = ask_next(once, ids, right, first + second)
    assert {i for i, _ in (*one, *two)} == {i for i, _ in both} and twice.asked == once.asked
    assert not {i for i, _ in one} & {i for i, _ in two}


def test_no_event_is_without_a_chance_and_doubtful_ones_have_more():
    right = np.repeat([0.5, 0.999, 1.0], 500)
    chosen = ask_next(Labels(), [*range(1500)], right, 300)
    by_right = {share: [p for i, p in chosen if right[i] == share] for share in (0.5, 0.999, 1.0)}
    assert all(by_right.values()) and min(by_right[0.5]) > 4 * max(by_right[1.0])


def test_a_price_is_what_the_tree_costs_by_verdict_and_outcome(calibration):
    bundle = Bundle.compile(
        calibration, detector_tree(POLYP_COSTS), subject="s", windows=Windows((50,))
    )
    costs = POLYP_COSTS
    wanted = [[costs.wrong, costs.right], [costs.necessary, costs.unnecessary]]
    for rate in (0.0, 0.3):
        assert Prices.of(bundle, rate).table == pytest.approx(np.array(wanted), rel=1e-6)


@pytest.fixture(scope="module")
def fading(calibration) -> Bundle:
    return Bundle.compile(
        calibration, accuracy_tree(), subject="s", windows=Windows((100,), half_life=40.0)
    )


def test_a_window_that_fades_out_is_corrected_by_the_weights_it_is_read_with(fading):
    """Every event is labelled, so that the truth of the window is known: the weighted share of right answers."""
    rng = np.random.default_rng(1)
    n = 600
    shifted = np.arange(n) >= n - 80
    right = rng.random(n) < np.where(shifted, 0.4, 0.95)
    monitor = Monitor(fading)
    monitor.update(
        Events(np.arange(n), np.arange(float(n)), columns={"energy": rng.normal(1.8 * shifted)})
    )
    for i in range(n):
        monitor.label(i, bool(right[i]), 1.0)
    weights = 0.5 ** (np.arange(n)[::-1] / 40.0)
    truth = weights @ right / weights.sum()
    audited = monitor.risk("decay").audited
    assert abs(truth - right.mean()) > 0.2
    assert audited.accuracy == audited.accuracy_low == audited.accuracy_high == pytest.approx(truth)
    assert audited.risk == pytest.approx(1.0 - truth, abs=0.01)
    assert monitor.risk("100").audited.accuracy == pytest.approx(right[-100:].mean())


@pytest.mark.parametrize("share", [0.95, 0.6, "detected"])
def test_intervals_hold_what_the_windows_own_events_cost_though_some_have_no_label(
    calibration, share
):
    """Nothing is shifted, and the model is right about it: what is left is the chance of the answers that nobody has labelled."""
    bundle = Bundle.compile(
        calibration, detector_tree(POLYP_COSTS), subject="s", windows=Windows((200,))
    )
    rng, n, trials, inside = np.random.default_rng(4), 200, 60, np.zeros(2, dtype=int)
    for _ in range(trials):
        cells = bundle.calibration.place({"energy": rng.normal(size=n)})
        right, alarm = (
            rng.random(n) < 0.95,
            calibration.shift_bin(cells) >= bundle.estimator.separation.cut,
        )
        monitor = Monitor(bundle)
        monitor.update(Events(np.arange(n), np.arange(float(n)), cells=cells))
        labelled = alarm if share == "detected" else rng.random(n) < share
        monitor.label_all([(int(i), bool(right[i]), 1.0) for i in np.flatnonzero(labelled)])
        costs = POLYP_COSTS
        answered = np.where(right, costs.right, costs.wrong)
        cost = np.where(alarm, np.where(right, costs.unnecessary, costs.necessary), answered).mean()
        found = monitor.risk("200").audited
        inside += (
            found.accuracy_low <= right.mean() <= found.accuracy_high,
            found.risk_low <= cost <= found.risk_high,
        )
    assert all(binom.cdf(hits, trials, 0.95) > 0.01 for hits in inside), inside


def test_what_fully_labelled_events_cost_is_not_in_doubt(fading):
    monitor = Monitor(fading)
    right = np.arange(100) % 4 > 0
    monitor.update(Events(np.arange(100), np.arange(100.0), columns={"energy": np.zeros(100)}))
    monitor.label_all([(i, bool(right[i]), 1.0) for i in range(100)])
    found = monitor.risk("100").audited
    assert found.risk_low == found.risk == found.risk_high == pytest.approx(0.25)
    monitor = Monitor(fading)
    monitor.update(Events(np.arange(100), np.arange(100.0), columns={"energy": np.zeros(100)}))
    monitor.label_all([(i, bool(right[i]), 1.0) for i in range(100) if i % 10])
    found = monitor.risk("100").audited
    assert (
        found.risk_high - found.risk_low
        == pytest.approx(found.accuracy_high - found.accuracy_low, rel=0.05)
        != 0.0
    )


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_interval_lies_between_none_and_all_and_around_its_value(bundle, share):
    monitor = Monitor(bundle)
    monitor.update(Events(np.arange(200), np.arange(200.0), columns={"energy": np.zeros(200)}))
    for i in range(0, 200, 13):
        monitor.label(i, bool(share), 0.05)
    audited = monitor.risk(200).audited
    assert 0.0 <= audited.accuracy_low <= audited.accuracy <= audited.accuracy_high <= 1.0
    assert audited.risk_low <= audited.risk <= audited.risk_high


def asked_and_told(monitor: Monitor, right: dict[str, bool], n: int) -> None:
    for question in monitor.queue(n):
        monitor.label(question.id, right[question.id])


@pytest.mark.slow
def test_labels_of_several_rounds_are_as_unbiased_as_those_of_one(bundle):
    errors, inside, trials = [], 0, 60
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        names = [f"{seed}-{i}" for i in range(200)]
        right = dict(zip(names, (rng.random(200) < 0.6).tolist(), strict=True))
        monitor = Monitor(bundle)
        monitor.update(Events(names, np.arange(200.0), columns={"energy": rng.normal(size=200)}))
        for _ in range(4):
            asked_and_told(monitor, right, 15)
        found, truth = monitor.risk(200).audited, np.mean(list(right.values()))
        errors.append(found.accuracy - truth)
        inside += found.accuracy_low <= truth <= found.accuracy_high
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(trials) < 0.06
    assert inside >= 0.85 * trials


@pytest.mark.slow
def test_labels_of_windows_that_slide_are_unbiased(bundle):
    errors, trials = [], 60
    for seed in range(trials):
        rng = np.random.default_rng([1, seed])
        monitor, right = Monitor(bundle), {}
        for part in range(6):
            # Rounds of different sizes over windows that share three quarters: thresholds rise and fall.
            names = [f"{seed}-{part}-{i}" for i in range(200 if part == 0 else 50)]
            right |= dict(zip(names, (rng.random(len(names)) < 0.6).tolist(), strict=True))
            times = len(right) - len(names) + np.arange(len(names))
            monitor.update(Events(names, times, columns={"energy": rng.normal(size=len(names))}))
            asked_and_told(monitor, right, (30, 5, 20)[part % 3])
        errors.append(monitor.risk(200).audited.accuracy - np.mean(list(right.values())[-200:]))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(trials) < 0.08


def test_a_probability_that_was_given_stays_and_that_of_the_queue_follows_the_questions(
    bundle, scores_at
):
    monitor = Monitor(bundle)
    monitor.update(
        Events(
            [f"e{i}" for i in range(200)], np.arange(200.0), columns={"energy": scores_at(200, 0.3)}
        )
    )
    first, second, *_ = (q for q in monitor.queue(10) if q.probability < 0.5)
    labels = monitor.state.labels
    monitor.label(first.id, True)
    monitor.label(second.id, True, 0.25)
    monitor.queue(100)
    again = Monitor.from_bytes(bundle, monitor.to_bytes()).state.labels
    for found in (labels, again):
        told = [found.weighed(mark).probability for mark in found.given]
        assert max(told) > first.probability and min(told) == 0.25 and len(told) == 2


def test_unnamed_events_are_no_numbers_that_somebody_gave(bundle):
    monitor = Monitor(bundle)
    assert monitor.update(Events([0, 1, 2], [1.0, 2.0, 3.0], cells=[0, 0, 0])).accepted == 3
    assert monitor.update(Events(None, None, cells=[1, 1, 1])).accepted == 3
    assert monitor.update(Events([3, 4, 5], [7.0, 8.0, 9.0], cells=[2, 2, 2])).accepted == 3
    for question in monitor.queue(9):
        monitor.label(question.id, True)
    cells = sorted(label.cell for label in monitor.state.labels.given.values())
    assert cells == [0, 0, 0, 1, 1, 1, 2, 2, 2], "each label went to the event that was asked for"
