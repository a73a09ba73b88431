"""Labels that contradict the scores: they are said to, and what they prove is an alarm."""

from __future__ import annotations

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


@pytest.mark.parametrize("by", ["other labels", "events that push theirs out"])
def test_it_is_cleared_where_labels_no_longer_say_so(watchful, by):
    monitor = blind(watchful)
    if by == "other labels":
        for i in range(N - 120, N):
            monitor.label(i, True, 1.0, look=False)
        monitor.look_at_labels()
    else:
        rng = np.random.default_rng(5)
        numbers = np.arange(N, N + 3000)
        monitor.update(Events(numbers, numbers.astype(float), columns={"energy": rng.normal(size=3000)}))
    assert not monitor.alarm and kinds(monitor) == [("raised", True), ("cleared", True)]
    assert [alarm.by_labels for alarm in monitor.alarms] == [1, 2]


def test_it_stays_as_long_as_its_labels_are_in_a_window_however_events_come(watchful):
    monitor = blind(watchful)
    for i in range(N, N + 20):
        monitor.update_one(i, float(i), {"energy": 0.0})
    assert monitor.alarm and kinds(monitor) == [("raised", True)]


def test_an_alarm_by_the_scores_that_ends_does_not_clear_what_labels_prove(watchful):
    monitor, rng = Monitor(watchful), np.random.default_rng(7)
    scores = np.concatenate([rng.normal(size=600), rng.normal(3.0, size=150)])
    monitor.update(Events(np.arange(750), np.arange(750.0), columns={"energy": scores}))
    for i in range(690, 750):
        monitor.label(i, i % 3 == 0, 1.0)
    assert kinds(monitor) == [("raised", False), ("raised", True)]
    for start, stop in ((750, 900), (900, 4000)):
        numbers = np.arange(start, stop)
        scores = rng.normal(size=len(numbers))
        monitor.update(Events(numbers, numbers.astype(float), columns={"energy": scores}))
        if stop == 900:
            assert not monitor._watching.active and monitor.alarm, "the scores are quiet again, labels are not"
            assert kinds(monitor) == [("raised", False), ("raised", True)]
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
