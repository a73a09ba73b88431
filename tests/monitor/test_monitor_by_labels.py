"""Labels that contradict the scores: they are said to, and what they prove is an alarm."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pytest

from roadworthy.monitor import Bundle, Events, Monitor

N = 400


def blind(bundle: Bundle, *, right: float = 0.5, labels: int = 120, first: int = 0, monitor=None) -> Monitor:
    """Clean scores, and answers of which only this share is right; labels of the last events, all of them sure to be given."""
    rng = np.random.default_rng([first, labels])
    monitor = monitor or Monitor(bundle)
    numbers = np.arange(first, first + N)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=N)}))
    for i in numbers[N - labels :].tolist():
        monitor.label(i, bool(rng.random() < right), 1.0, look=False)
    monitor.look_at_labels()
    return monitor


def kinds(monitor: Monitor) -> list[tuple[str, bool]]:
    return [(alarm.kind, bool(alarm.by_labels)) for alarm in monitor.alarms]


def test_what_labels_prove_and_the_scores_do_not_see_is_an_alarm_and_is_said(watchful):
    monitor = blind(watchful)
    risk = monitor.risk(100)
    assert risk.risk < watchful.tolerable < risk.audited.risk_low
    assert risk.audited.accuracy_high < risk.accuracy_low
    assert risk.notes[0].startswith(f"labels say {risk.audited.accuracy:.1%} right")
    assert f"the scores say {risk.accuracy:.1%}" in risk.notes[0] and "do not see what goes wrong" in risk.notes[0]
    assert monitor.alarm and risk.alarm and kinds(monitor) == [("raised", True)]
    assert monitor.alarms[0].reason.startswith("by labels: ") and "0.12 is tolerable" in monitor.alarms[0].reason
    assert monitor.alarms[0].risk > watchful.tolerable and monitor.alarms[0].log_odds is None


def test_labels_as_good_as_the_scores_say_raise_nothing(watchful):
    monitor = blind(watchful, right=0.97)
    assert not monitor.alarm and not monitor.alarms
    assert not any("labels say" in note for note in monitor.risk(100).notes)


@pytest.mark.parametrize("by", ["other labels", "labels of later events"])
def test_it_is_cleared_where_labels_say_otherwise(watchful, by):
    monitor = blind(watchful)
    if by == "other labels":
        for i in range(N - 120, N):
            monitor.label(i, True, 1.0, look=False)
        monitor.look_at_labels()
    else:
        blind(watchful, right=0.98, labels=N, first=N, monitor=monitor)
    assert not monitor.alarm and kinds(monitor) == [("raised", True), ("cleared", True)]
    assert [alarm.by_labels for alarm in monitor.alarms] == [1, 2]


def test_labels_that_stop_coming_clear_nothing(watchful):
    monitor, rng = blind(watchful), np.random.default_rng(5)
    numbers = np.arange(N, N + 150_000)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))}))
    monitor.look_at_labels()
    assert len(monitor.state.recent) < len(numbers), "the labelled events have left"
    assert monitor.alarm_by_labels and [kind for kind in kinds(monitor) if kind[1]] == [("raised", True)]
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    numbers = np.arange(N + 150_000, N + 150_300)
    kept.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))}))
    for i in numbers.tolist():
        kept.label(i, True, look=False)
    kept.look_at_labels()
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
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))}))
    assert not monitor._watching.active and monitor.alarm, "the scores are quiet again, labels are not"
    assert kinds(monitor) == [("raised", False), ("raised", True)]
    for i in numbers.tolist():
        monitor.label(i, True, look=False)
    monitor.look_at_labels()
    assert not monitor.alarm and kinds(monitor)[-1] == ("cleared", True)


def test_it_is_kept_with_the_state_and_looked_at_again_where_replicas_are_merged(watchful):
    monitor = blind(watchful)
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    assert kept.alarm and kept.alarms == monitor.alarms and kept._watching.by_labels == monitor._watching.by_labels
    whole = Monitor(watchful)
    whole.merge(kept)
    assert whole.alarm and kinds(whole) == [("raised", True)]


def test_without_anything_tolerable_labels_raise_no_alarm(bundle):
    monitor = blind(bundle)
    assert not monitor.alarm and not monitor.alarms
    assert "do not see what goes wrong" in monitor.risk(50).notes[0]


def test_a_healthy_stream_that_is_labelled_whole_raises_nothing_by_labels(watchful):
    """Windows err by chance, and are looked at again and again; and a window at the very limit is not above it."""
    monitor, rng = Monitor(watchful), np.random.default_rng(11)
    for start in range(0, 6000, 20):
        numbers = np.arange(start, start + 20)
        monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=20)}))
        for i in numbers.tolist():
            monitor.label(i, bool(rng.random() < 0.94), look=False)
        monitor.look_at_labels()
    assert not any(alarm.by_labels for alarm in monitor.alarms)


def test_labels_that_are_all_right_raise_nothing(watchful):
    monitor, rng = Monitor(watchful), np.random.default_rng(12)
    scores = np.concatenate([rng.normal(size=1000), rng.normal(3.0, size=250), rng.normal(size=40)])
    monitor.update(Events(np.arange(len(scores)), np.arange(float(len(scores))), columns={"energy": scores}))
    for i in range(len(scores) - 40, len(scores)):
        monitor.label(i, True)
    assert not any(alarm.by_labels for alarm in monitor.alarms)


def stream(bundle: Bundle, wrong: np.ndarray, scores: np.ndarray, label, *, lag: int = 0, at_once: int = 50) -> Monitor:
    """Events in order, so many at once; those that `label(i)` gives a probability are labelled by it, `lag` events later."""
    monitor, labelled = Monitor(bundle), 0
    for start in range(0, len(scores), at_once):
        numbers = np.arange(start, min(start + at_once, len(scores)))
        monitor.update(Events(numbers, numbers.astype(float), columns={"energy": scores[numbers]}))
        while labelled < numbers[-1] + 1 - lag:
            probability = label(labelled)
            if probability:
                monitor.label(labelled, not wrong[labelled], probability, look=False)
            labelled += 1
        monitor.look_at_labels()
    return monitor


@pytest.mark.parametrize("lag", [0, 150, 290, 1500])
def test_labels_may_come_as_late_as_they_do(watchful, lag):
    rng = np.random.default_rng(lag)
    monitor = stream(watchful, rng.random(2500) < 0.4, rng.normal(size=2500), lambda _: 1.0, lag=lag)
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


@pytest.mark.parametrize(("share", "rings"), [(0.06, False), (0.4, True)])
def test_labels_of_complaints_alone_prove_what_they_stand_for(watchful, share, rings):
    """Every wrong answer is reported and no right one: the rest is what the model says."""
    rng = np.random.default_rng(4)
    wrong = rng.random(3000) < share
    monitor = stream(watchful, wrong, rng.normal(size=3000), lambda i: 1.0 if wrong[i] else None)
    assert monitor.alarm_by_labels == rings


def test_labels_of_what_looks_risky_alone_prove_nothing_about_the_rest(watchful):
    rng = np.random.default_rng(5)
    shifted = rng.random(4000) < 0.1
    scores = rng.normal(1.8 * shifted)
    wrong = rng.random(4000) < np.where(shifted, 0.5, 0.04)
    monitor = stream(
        watchful, wrong, scores, lambda i: 1.0 if scores[i] > 1.6 else (0.03 if rng.random() < 0.03 else None)
    )
    assert wrong[scores > 1.6].mean() > 0.25 and not monitor.alarm_by_labels


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
    monitor = stream(watchful, rng.random(3000) < 0.2, rng.normal(size=3000), lambda _: 1.0, at_once=10)
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
    monitor.update(Events(names, (names // at_once).astype(float), columns={"energy": rng.normal(size=1000)}))
    for i in names.tolist():
        monitor.label(i, bool(rng.random() < 0.96), look=False)
    monitor.look_at_labels()
    assert not monitor.alarm_by_labels
    for i in names[500:].tolist():
        monitor.label(i, i % 2 == 0, look=False)
    monitor.look_at_labels()
    found = re.search(r"of (\d+) answers to (\d+) events", monitor.alarms[-1].reason)
    assert monitor.alarm_by_labels and 490 < int(found[1]) <= int(found[2]) < 560


def test_what_was_cleared_is_not_raised_again_by_the_same_labels(watchful):
    rng = np.random.default_rng(12)
    wrong = np.concatenate([rng.random(300) < 0.4, rng.random(2200) < 0.09])
    monitor = stream(watchful, wrong, rng.normal(size=2500), lambda _: 1.0, at_once=25)
    assert [kind for kind, by_labels in kinds(monitor) if by_labels] == ["raised", "cleared"]
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    kept.look_at_labels()
    assert not kept.alarm_by_labels


@pytest.mark.parametrize("like", [0.0, 0.6])
def test_a_hard_drive_is_no_proof_wherever_it_comes(watchful, like):
    """Drives of twenty frames, one in thirty of them hard, whether or not their scores are alike."""
    rng, rung = np.random.default_rng(13), 0
    for _ in range(6):
        drives = np.repeat(np.arange(60), 20)
        hard = np.arange(60) % 30 == rng.integers(30)
        wrong = rng.random(len(drives)) < np.where(hard, 0.8, 0.02)[drives]
        scores = like * rng.normal(size=60)[drives] + np.sqrt(1 - like**2) * rng.normal(size=len(drives))
        monitor = stream(watchful, wrong, scores, lambda _: 1.0, at_once=100)
        rung += sum(alarm.by_labels > 0 for alarm in monitor.alarms)
    assert rung == 0


def test_what_labels_proved_to_a_replica_and_have_left_is_carried_over(watchful):
    rng = np.random.default_rng(14)
    monitor = blind(watchful)
    numbers = np.arange(N, N + 150_000)
    monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=len(numbers))}))
    assert monitor.alarm_by_labels
    for first, second in ((Monitor(watchful), monitor), (monitor, Monitor(watchful))):
        first.merge(second)
        assert first.alarm_by_labels


@pytest.mark.parametrize("seed", range(12))
def test_whether_labels_prove_it_to_all_together_does_not_depend_on_their_order(watchful, seed):
    """One replica is as good as blind, one healthy, one in between; some were cleared before."""
    rng, replicas = np.random.default_rng(seed), []
    for number, share in enumerate((0.35, 0.05, 0.14)):
        monitor = Monitor(watchful, replica=f"r{number}")
        numbers = np.arange(int(rng.integers(100, 500)))
        names = [f"{number} {i}" for i in numbers]
        monitor.update(Events(names, numbers * 3.0 + number, columns={"energy": rng.normal(size=len(numbers))}))
        for name in names:
            monitor.label(name, bool(rng.random() >= share), look=False)
        monitor.look_at_labels()
        replicas.append(monitor.to_bytes())
    found = set()
    for order in permutations(range(3)):
        first, *others = (Monitor.from_bytes(watchful, replicas[i]) for i in order)
        first.merge(*others)
        found.add((first.alarm_by_labels, round(first.risk(100).audited.accuracy, 9)))
    assert len(found) == 1
