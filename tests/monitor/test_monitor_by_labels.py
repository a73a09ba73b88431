"""Labels that contradict the scores: the state says so, and what they prove is an alarm."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from ready_made import alarm_rule
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows

N = 400


def blind(
    bundle: Bundle, *, right: float = 0.5, labels: int = 120, first: int = 0, monitor=None
) -> Monitor:
    """Clean scores, and answers of which only this share is right; labels of the last events, all of them sure to be given."""
    rng = np.random.default_rng([first, labels])
    monitor = monitor or Monitor(bundle)
    numbers = np.arange(first, first + N)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=N)}))
    monitor.label_all(
        [(i, bool(rng.random() < right), 1.0) for i in numbers[N - labels :].tolist()]
    )
    return monitor


def kinds(monitor: Monitor) -> list[tuple[str, bool]]:
    return [(alarm.kind, bool(alarm.by_labels)) for alarm in monitor.alarms]


def test_what_labels_prove_and_the_scores_do_not_see_is_an_alarm_and_is_said(watchful):
    monitor = blind(watchful)
    risk = monitor.risk(100)
    assert risk.risk < watchful.tolerable < risk.audited.risk_low
    assert risk.audited.accuracy_high < risk.accuracy_low
    assert risk.notes[0].code == "contradiction"
    assert monitor.alarm and risk.alarm and kinds(monitor) == [("raised", True)]
    assert "answers are wrong" in monitor.alarms[0].reason
    assert monitor.alarms[0].risk > watchful.tolerable and monitor.alarms[0].log_odds is None


def test_labels_as_good_as_the_scores_say_raise_nothing(watchful):
    monitor = blind(watchful, right=0.97)
    assert not monitor.alarm and not monitor.alarms
    assert "contradiction" not in {note.code for note in monitor.risk(100).notes}


@pytest.mark.parametrize("by", ["other labels", "labels of later events"])
def test_it_is_cleared_where_labels_say_otherwise(watchful, by):
    monitor = blind(watchful)
    if by == "other labels":
        monitor.label_all([(i, True, 1.0) for i in range(N - 120, N)])
    else:
        blind(watchful, right=0.98, labels=N, first=N, monitor=monitor)
    assert not monitor.alarm and kinds(monitor) == [("raised", True), ("cleared", True)]
    assert [alarm.by_labels for alarm in monitor.alarms] == [1, 2]


def test_labels_that_stop_coming_clear_nothing(watchful):
    monitor, rng = blind(watchful), np.random.default_rng(5)
    numbers = np.arange(N, N + 150_000)
    monitor.update(
        Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))})
    )
    monitor.label_all([])
    assert len(monitor.state.recent) < len(numbers), "the labelled events have left"
    assert monitor.alarm_by_labels and [kind for kind in kinds(monitor) if kind[1]] == [
        ("raised", True)
    ]
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    numbers = np.arange(N + 150_000, N + 150_300)
    kept.update(
        Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))})
    )
    kept.label_all([(i, True, None) for i in numbers.tolist()])
    assert not kept.alarm_by_labels


def test_it_stays_however_events_come(watchful):
    monitor = blind(watchful)
    for i in range(N, N + 20):
        monitor.update_one(i, float(i), {"energy": 0.0})
    assert monitor.alarm and kinds(monitor) == [("raised", True)]


def test_an_alarm_by_the_scores_that_ends_does_not_clear_what_labels_prove(watchful):
    monitor, rng = Monitor(watchful), np.random.default_rng(7)
    scores = np.concatenate([rng.normal(size=600), rng.normal(3.0, size=150)])
    monitor.update(Events(np.arange(750), np.arange(750.0), columns={"energy": scores}))
    for i in range(620, 750):
        monitor.label(i, i % 3 == 0, 1.0)
    assert kinds(monitor) == [("raised", False), ("raised", True)]
    numbers = np.arange(750, 1200)
    monitor.update(
        Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))})
    )
    assert not monitor._watch.active and monitor.alarm, "the scores are quiet again, labels are not"
    assert kinds(monitor) == [("raised", False), ("raised", True)]
    monitor.label_all([(i, True, None) for i in numbers.tolist()])
    assert not monitor.alarm and kinds(monitor)[-1] == ("cleared", True)


def test_it_is_kept_with_the_state_and_looked_at_again_where_replicas_are_merged(watchful):
    monitor = blind(watchful)
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    assert kept.alarm and kept.alarms == monitor.alarms and kept.to_bytes() == monitor.to_bytes()
    whole = Monitor(watchful)
    whole.merge(kept)
    assert whole.alarm and kinds(whole) == [("raised", True)]


def test_without_anything_tolerable_labels_raise_no_alarm(bundle):
    monitor = blind(bundle)
    assert not monitor.alarm and not monitor.alarms
    assert monitor.risk(50).notes[0].code == "contradiction"


@pytest.mark.slow
def test_a_healthy_stream_that_is_labelled_whole_raises_nothing_by_labels(watchful):
    """Windows err by chance, and are looked at again and again; and a window at the very limit is not above it."""
    monitor, rng = Monitor(watchful), np.random.default_rng(11)
    for start in range(0, 6000, 20):
        numbers = np.arange(start, start + 20)
        monitor.update(
            Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=20)})
        )
        monitor.label_all([(i, bool(rng.random() < 0.94), None) for i in numbers.tolist()])
    assert not any(alarm.by_labels for alarm in monitor.alarms)


def test_labels_that_are_all_right_raise_nothing(watchful):
    monitor, rng = Monitor(watchful), np.random.default_rng(12)
    scores = np.concatenate([rng.normal(size=1000), rng.normal(3.0, size=250), rng.normal(size=40)])
    monitor.update(
        Events(np.arange(len(scores)), np.arange(float(len(scores))), columns={"energy": scores})
    )
    for i in range(len(scores) - 40, len(scores)):
        monitor.label(i, True)
    assert not any(alarm.by_labels for alarm in monitor.alarms)


def stream(
    bundle: Bundle, wrong: np.ndarray, scores: np.ndarray, label, *, lag: int = 0, at_once: int = 50
) -> Monitor:
    """Events in order, so many at once; those that `label(i)` gives a probability are labelled by it, `lag` events later."""
    monitor, labelled = Monitor(bundle), 0
    for start in range(0, len(scores), at_once):
        numbers = np.arange(start, min(start + at_once, len(scores)))
        monitor.update(Events(numbers, numbers.astype(float), columns={"energy": scores[numbers]}))
        upto = max(labelled, int(numbers[-1]) + 1 - lag)
        drawn = [(i, label(i)) for i in range(labelled, upto)]
        monitor.label_all([(i, not wrong[i], p) for i, p in drawn if p])
        labelled = upto
    return monitor


@pytest.mark.parametrize("lag", [0, 150, 290, 1500])
def test_labels_may_come_as_late_as_they_do(watchful, lag):
    rng = np.random.default_rng(lag)
    monitor = stream(
        watchful, rng.random(2500) < 0.4, rng.normal(size=2500), lambda _: 1.0, lag=lag
    )
    raised = [alarm.event for alarm in monitor.alarms if alarm.by_labels]
    assert monitor.alarm_by_labels and len(raised) == 1 and raised[0] <= lag + 250


def test_what_labels_prove_is_an_alarm_though_the_scores_say_as_much_and_are_not_sure(watchful):
    rng = np.random.default_rng(2)
    shifted = rng.random(3000) < 0.2
    wrong = rng.random(3000) < np.where(shifted, 0.55, 0.07)
    monitor = stream(watchful, wrong, rng.normal(1.8 * shifted), lambda _: 1.0)
    assert monitor.alarm_by_labels


def test_events_without_a_score_are_judged_by_their_labels(watchful):
    rng = np.random.default_rng(3)
    monitor = stream(watchful, rng.random(600) < 0.3, np.full(600, np.nan), lambda _: 1.0)
    assert monitor.alarm_by_labels


@pytest.mark.parametrize(("share", "raised"), [(0.06, False), (0.4, True)])
def test_labels_of_complaints_alone_prove_what_they_stand_for(watchful, share, raised):
    """Every wrong answer is reported and no right one: the rest is what the model says."""
    rng = np.random.default_rng(4)
    wrong = rng.random(3000) < share
    monitor = stream(watchful, wrong, rng.normal(size=3000), lambda i: 1.0 if wrong[i] else None)
    assert monitor.alarm_by_labels == raised


def test_labels_of_what_looks_risky_alone_prove_nothing_about_the_rest(watchful):
    rng = np.random.default_rng(5)
    shifted = rng.random(4000) < 0.1
    scores = rng.normal(1.8 * shifted)
    wrong = rng.random(4000) < np.where(shifted, 0.5, 0.04)
    monitor = stream(
        watchful,
        wrong,
        scores,
        lambda i: 1.0 if scores[i] > 1.6 else (0.03 if rng.random() < 0.03 else None),
    )
    assert wrong[scores > 1.6].mean() > 0.25 and not monitor.alarm_by_labels


@pytest.mark.slow
def test_errors_that_come_together_are_no_proof(watchful):
    """Drives of twenty frames, each of which is easy or hard; 8% wrong, and 12% are tolerable."""
    rng = np.random.default_rng(6)
    drives = np.repeat(np.arange(600), 20)
    hard = rng.random(600) < 0.1
    wrong = rng.random(len(drives)) < np.where(hard, 0.62, 0.02)[drives]
    scores = 0.6 * rng.normal(size=600)[drives] + 0.8 * rng.normal(size=len(drives))
    monitor = stream(watchful, wrong, scores, lambda _: 1.0, at_once=200)
    assert not any(alarm.by_labels for alarm in monitor.alarms)


def test_it_does_not_flap(watchful):
    rng = np.random.default_rng(8)
    monitor = stream(
        watchful, rng.random(3000) < 0.2, rng.normal(size=3000), lambda _: 1.0, at_once=10
    )
    assert [kind for kind, by_labels in kinds(monitor) if by_labels] == ["raised"]


def test_one_probability_that_cannot_be_does_not_silence_what_all_others_prove(watchful):
    rng = np.random.default_rng(9)
    wrong = rng.random(600) < 0.5
    wrong[300] = False
    monitor = stream(watchful, wrong, rng.normal(size=600), lambda i: 1e-4 if i == 300 else 1.0)
    assert monitor.alarm_by_labels


@pytest.mark.parametrize("at_once", [1, 100, 500])
def test_events_of_one_instant_are_each_judged_by_their_own_label(watchful, at_once):
    """A post without times gives all its events that of its coming."""
    rng = np.random.default_rng(10)
    monitor, names = Monitor(watchful), np.arange(1000)
    monitor.update(
        Events(names, (names // at_once).astype(float), columns={"energy": rng.normal(size=1000)})
    )
    monitor.label_all([(i, bool(rng.random() < 0.96), None) for i in names.tolist()])
    assert not monitor.alarm_by_labels
    monitor.label_all([(i, i % 2 == 0, None) for i in names[500:].tolist()])
    assert monitor.alarm_by_labels and monitor.alarms[-1].risk > 0.3


def test_what_was_cleared_is_not_raised_again_by_the_same_labels(watchful):
    rng = np.random.default_rng(12)
    wrong = np.concatenate([rng.random(300) < 0.4, rng.random(2200) < 0.06])
    monitor = stream(watchful, wrong, rng.normal(size=2500), lambda _: 1.0, at_once=25)
    assert [kind for kind, by_labels in kinds(monitor) if by_labels] == ["raised", "cleared"]
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    kept.label_all([])
    assert not kept.alarm_by_labels


@pytest.mark.slow
@pytest.mark.parametrize("like", [0.0, 0.6])
def test_a_hard_drive_is_no_proof_wherever_it_comes(watchful, like):
    """Drives of twenty frames, one in thirty of them hard, whether or not their scores are alike."""
    rng, rung = np.random.default_rng(13), 0
    for _ in range(6):
        drives = np.repeat(np.arange(60), 20)
        hard = np.arange(60) % 30 == rng.integers(30)
        wrong = rng.random(len(drives)) < np.where(hard, 0.8, 0.02)[drives]
        scores = like * rng.normal(size=60)[drives] + np.sqrt(1 - like**2) * rng.normal(
            size=len(drives)
        )
        monitor = stream(watchful, wrong, scores, lambda _: 1.0, at_once=100)
        rung += sum(alarm.by_labels > 0 for alarm in monitor.alarms)
    assert rung == 0


@pytest.mark.parametrize("gap", [500, 5000])
def test_events_without_labels_clear_nothing(watchful, gap):
    """However good the scores find them: it was raised since they are blind."""
    monitor, rng = blind(watchful), np.random.default_rng(gap)
    numbers = np.arange(N, N + gap)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=gap)}))
    monitor.label_all([(i, False, None) for i in numbers[-10:].tolist()])
    assert monitor.alarm_by_labels
    monitor.label(int(numbers[-11]), True)
    assert monitor.alarm_by_labels


def test_a_breach_after_a_long_time_without_labels_is_proven(watchful):
    monitor, rng = Monitor(watchful), np.random.default_rng(1)
    numbers = np.arange(10_000)
    monitor.update(
        Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=10_000)})
    )
    monitor.label_all([(i, i < 120, 1.0) for i in [*range(120), *range(9_700, 10_000)]])
    assert monitor.alarm_by_labels


@pytest.mark.slow
def test_an_error_that_gets_rarer_but_not_rare_enough_clears_nothing(watchful):
    """Half wrong, then a quarter, where 12% are tolerable: that level changes is no reason to doubt it."""
    for seed in range(4):
        rng = np.random.default_rng([15, seed])
        wrong = np.concatenate(
            [rng.random(600) < 0.03, rng.random(300) < 0.5, rng.random(2500) < 0.25]
        )
        monitor = stream(watchful, wrong, rng.normal(size=len(wrong)), lambda _: 1.0, at_once=100)
        assert [kind for kind, by_labels in kinds(monitor) if by_labels] == ["raised"]


def test_labels_that_come_late_count_though_a_later_event_was_labelled_before_it_was_cleared(
    watchful,
):
    rng = np.random.default_rng(16)
    monitor, numbers = Monitor(watchful), np.arange(3000)
    monitor.update(
        Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=3000)})
    )
    answers = [(i, bool(rng.random() < 0.5), None) for i in range(300)]
    monitor.label_all(answers)
    assert monitor.alarm_by_labels
    monitor.label(2999, True)
    monitor.label_all([(i, True, None) for i in range(300, 600)])
    assert not monitor.alarm_by_labels
    monitor.label_all([(i, False, None) for i in range(600, 2999)])
    assert monitor.alarm_by_labels


@pytest.mark.slow
def test_a_risk_a_little_above_a_small_one_is_proven_by_more_labels_than_are_held_one_by_one(
    calibration,
):
    strict = Bundle.compile(
        calibration, accuracy_tree(), subject="s", tolerable=0.01, windows=Windows((100,))
    )
    rng = np.random.default_rng(17)
    for risk, raised in ((0.02, True), (0.008, False)):
        monitor = stream(
            strict, rng.random(12_000) < risk, rng.normal(size=12_000), lambda _: 1.0, at_once=500
        )
        assert monitor.alarm_by_labels == raised


@pytest.fixture(scope="module")
def priced(calibration) -> Bundle:
    """An answer that raised an alarm goes to a person, which costs 1; a wrong one that did not costs 10."""
    from roadworthy.analysis.risk.prototypes import Costs, detector_tree
    from roadworthy.monitor import Windows

    tree = detector_tree(Costs(wrong=10.0, necessary=1.0, unnecessary=1.0))
    made = Bundle.compile(calibration, tree, subject="s", windows=Windows((300,)))
    rule = alarm_rule(window=300, stride=60, table=((1.0, 300, 9.0), (30.0, 300, 9.0)))
    return replace(made, tolerable=1.0, alarm=rule)


@pytest.mark.parametrize(
    ("detected", "undetected", "raised"), [(0.9, 0.02, False), (0.0, 0.3, True)]
)
def test_a_wrong_answer_that_a_person_took_over_costs_what_that_costs(
    calibration, priced, detected, undetected, raised
):
    """Every event is labelled, so that the cost is known to the last digit."""
    rng = np.random.default_rng(19)
    scores = rng.normal(1.8 * (rng.random(1500) < 0.1))
    over = (
        calibration.shift_bin(calibration.place({"energy": scores}))
        >= priced.estimator.separation.cut
    )
    wrong = rng.random(1500) < np.where(over, detected, undetected)
    monitor = stream(priced, wrong, scores, lambda _: 1.0)
    truth = np.where(over, 1.0, np.where(wrong, 10.0, 0.0))[-300:].mean()
    audited = monitor.risk(300).audited
    assert (
        audited.risk
        == pytest.approx(truth)
        == pytest.approx(audited.risk_low)
        == pytest.approx(audited.risk_high)
    )
    assert monitor.alarm_by_labels == raised


def test_all_that_looks_risky_and_a_tenth_of_the_rest_make_no_false_proof(watchful):
    """Scores drift without harm: what the model thinks of the rest is none of the labels' business."""
    rng = np.random.default_rng(20)
    scores = rng.normal(1.0, size=12_000)
    wrong, lot = rng.random(12_000) < 0.085, rng.random(12_000) < 0.1
    monitor = stream(
        watchful,
        wrong,
        scores,
        lambda i: 1.0 if scores[i] > 1.8 else (0.1 if lot[i] else None),
        at_once=200,
    )
    assert not any(alarm.by_labels for alarm in monitor.alarms)


@pytest.mark.parametrize("answer", [float("nan"), "false", None, 2])
def test_an_answer_that_is_neither_right_nor_wrong_is_refused(watchful, answer):
    from roadworthy.monitor.events import EventError

    monitor = Monitor(watchful)
    monitor.update(Events(["a"], [1.0], columns={"energy": [0.0]}))
    with pytest.raises(EventError, match="True or False"):
        monitor.label("a", answer)
    monitor.label("a", np.True_)


@pytest.mark.parametrize(
    ("later", "held_back", "proven"),
    [(200, 0, True), (500, 0, True), (3000, 0, True), (6000, 0, True), (6000, 6000, True)],
)
def test_wrong_answers_that_are_confirmed_later_than_right_ones_are_proven(
    watchful, later, held_back, proven
):
    """What is right is known at once: until the others come, its labels are of what is easy alone."""
    rng = np.random.default_rng(later)
    n, step = later + 2500, 50
    wrong, monitor = rng.random(n) < 0.4, Monitor(watchful)
    for start in range(0, n, step):
        numbers = np.arange(start, start + step)
        monitor.update(
            Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=step)})
        )
        due = [i for i in (numbers - held_back).tolist() if i >= 0 and not wrong[i]]
        due += [i for i in (numbers - later).tolist() if i >= 0 and wrong[i]]
        monitor.label_all([(i, not wrong[i], None) for i in due])
    assert [kind for kind, by_labels in kinds(monitor) if by_labels] == ["raised"] * proven


def test_labels_of_what_is_easy_alone_clear_nothing(watchful):
    rng = np.random.default_rng(24)
    scores = rng.normal(size=2000)
    wrong = rng.random(2000) < np.where(scores < -1.0, 0.02, 0.5)
    monitor = stream(
        watchful, wrong, scores, lambda i: 1.0 if i < 500 or scores[i] < -1.0 else None
    )
    assert monitor.alarm_by_labels and [
        kind for kind, by_labels in kinds(monitor) if by_labels
    ] == ["raised"]


def test_a_replica_whose_alarm_is_over_does_not_take_back_anothers(watchful):
    rng = np.random.default_rng(25)
    recovered = stream(
        watchful,
        rng.random(1400) < np.repeat([0.4, 0.02], 700),
        rng.normal(size=1400),
        lambda _: 1.0,
    )
    assert not recovered.alarm_by_labels
    bad, numbers = Monitor(watchful), np.arange(700)
    bad.update(
        Events([f"b{i}" for i in numbers], 2.0 * numbers, columns={"energy": rng.normal(size=700)})
    )
    bad.label_all([(f"b{i}", bool(rng.random() < 0.6), None) for i in numbers])
    assert bad.alarm_by_labels
    for order in permutations((recovered, bad)):
        centre = Monitor(watchful)
        centre.merge(*order)
        assert centre.alarm_by_labels
    bad.merge(recovered)
    assert bad.alarm_by_labels and kinds(bad)[-1] == ("raised", True)


def test_scores_that_vary_slowly_do_not_mute_labels_whose_errors_do_not(watchful):
    rng = np.random.default_rng(26)
    n = 6000
    scores = 0.7 * rng.normal(size=n) + np.sin(np.arange(n) * 2 * np.pi / 2000)
    wrong = rng.random(n) < np.where(np.arange(n) < 5000, 0.03, 0.6)
    monitor = stream(watchful, wrong, scores, lambda _: 1.0, at_once=100)
    assert monitor.alarm_by_labels


def test_all_of_a_stratum_beside_a_sample_of_the_rest_prove_no_less_than_the_sample(watchful):
    rng = np.random.default_rng(27)
    n = 30_000
    scores, lot = rng.normal(size=n), rng.random(n) < 0.02
    monitor = stream(
        watchful,
        rng.random(n) < 0.3,
        scores,
        lambda i: 1.0 if scores[i] > 1.3 else (0.02 if lot[i] else None),
        at_once=1000,
    )
    assert monitor.alarm_by_labels


def test_labels_say_the_same_however_many_come_at_once(watchful):
    """Also that it was proven once, and is no longer."""
    rng = np.random.default_rng(28)
    wrong = rng.random(10_000) < np.repeat([0.4, 0.02], [7000, 3000])
    scores = rng.normal(size=10_000)
    said = []
    for at_once in (250, 10_000):
        monitor = stream(watchful, wrong, scores, lambda _: 1.0, at_once=at_once)
        said.append([kind for kind, by_labels in kinds(monitor) if by_labels])
    assert said == [["raised", "cleared"]] * 2
