"""Bad input gets a sentence that names the event, and changes nothing; late, repeated and unordered events are taken as stated."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.monitor import EventError, Events, Monitor, Taken
from roadworthy.monitor.events import mark, marks


def test_an_infinite_score_is_refused_with_its_event_and_nothing_of_the_call_is_counted(bundle):
    monitor = Monitor(bundle)
    with pytest.raises(EventError, match="event 'b' has an infinite energy; send NaN"):
        monitor.update(Events(["a", "b"], [1.0, 2.0], columns={"energy": [0.0, np.inf]}))
    with pytest.raises(EventError, match=r"event 'c'.*infinite"):
        monitor.update_one("c", 1.0, {"energy": -np.inf})
    assert monitor.state.counted == 0 and not monitor.state.taken.total


def test_an_event_without_a_score_is_counted_and_says_nothing(bundle):
    monitor = Monitor(bundle)
    assert monitor.update(
        Events(["a", "b"], [1.0, 2.0], columns={"energy": [0.0, np.nan]})
    ) == Taken(1, 0, 0, 1)
    assert monitor.update_one("c", 3.0, {"energy": np.nan}) == Taken(0, 0, 0, 1)
    assert monitor.update_one("d", 3.0, {}) == Taken(0, 0, 0, 1)
    risk = monitor.risk()
    assert (risk.n, risk.unscored) == (1, 3)
    assert (
        "3 of 4 events say nothing, since they lack a score that every calibration row had: energy"
        in risk.notes
    )


def test_when_all_detectors_fall_silent_the_window_forgets_what_they_said(bundle, scores_at):
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": scores_at(200, 1.0)}))
    assert monitor.risk().rate > 0.7
    monitor.update(Events(None, None, columns={"energy": np.full(200, np.nan)}))
    assert monitor.risk().n == 0 and monitor.risk().cannot_tell is not None


@pytest.mark.parametrize("time", [np.nan, np.inf, 1e20])
def test_a_time_that_no_clock_shows_is_refused_with_its_event(bundle, time):
    monitor = Monitor(bundle)
    with pytest.raises(EventError, match="event 'b' has the time"):
        monitor.update(Events(["a", "b"], [1.0, time], cells=[0, 0]))
    assert monitor.state.counted == 0


def test_events_of_another_subject_are_refused(bundle):
    monitor = Monitor(bundle)
    with pytest.raises(
        EventError, match=r"of 'lesion-2\.4'; this monitor watches 'lesion-2\.3\.1'"
    ):
        monitor.update(Events(["a"], [1.0], cells=[0]), subject="lesion-2.4")
    with pytest.raises(EventError, match="watches"):
        monitor.update_one("a", 1.0, {"energy": 0.0}, subject="lesion-2.4")
    assert monitor.update(Events(["a"], [1.0], cells=[0]), subject="lesion-2.3.1").accepted == 1


def test_a_missing_column_is_named(bundle):
    with pytest.raises(EventError, match="'energy' is missing"):
        Monitor(bundle).update(Events(["a"], [1.0], columns={"knn": [0.0]}))


def test_cells_times_and_ids_must_fit(bundle):
    monitor = Monitor(bundle)
    cells = bundle.calibration.cells
    with pytest.raises(EventError, match=f"event 'a' has cell {cells}"):
        monitor.update(Events(["a"], [1.0], cells=[cells]))
    with pytest.raises(EventError, match="cell -2"):
        monitor.update_one("a", 1.0, cell=-2)
    with pytest.raises(EventError, match="2 events need 2 ids, found 1"):
        monitor.update(Events(["a"], [1.0, 2.0], cells=[0, 0]))
    with pytest.raises(EventError, match="2 events need 2 times"):
        monitor.update(Events(["a", "b"], [1.0], cells=[0, 0]))
    with pytest.raises(EventError, match="either columns of scores or cells"):
        Events(["a"], [1.0])
    with pytest.raises(EventError, match="a text or a whole number, found float"):
        monitor.update(Events([1.5], [1.0], cells=[0]))


def test_a_clock_that_goes_back_makes_events_late_and_says_so(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events(["a", "b"], [5000.0, 5001.0], cells=[0, 0]))
    assert monitor.update(Events(["c", "d"], [4500.0, 1000.0], cells=[1, 1])) == Taken(1, 0, 1, 0)
    assert monitor.state.recent.time.tolist() == [4500.0, 5000.0, 5001.0]
    assert (
        "1 event was refused as late, the latest by 4,001 s: look at the clocks"
        in monitor.risk().notes
    )


def test_one_clock_ahead_does_not_make_all_others_late(bundle):
    monitor = Monitor(bundle)
    ahead = Events(["a", "b"], [1000.0, 9e9], cells=[0, 0])
    assert monitor.update(ahead, now=1000.0) == Taken(1, 0, 0, 0, 1)
    assert monitor.update_one("c", 9e9, cell=0, now=1001.0) == Taken(0, 0, 0, 0, 1)
    assert monitor.update_one("d", 1001.0, cell=0, now=1001.0).accepted == 1
    assert any("ahead of the clock" in note for note in monitor.risk().notes)


def test_unnamed_events_are_never_repeated_and_can_be_labelled_by_number(bundle):
    monitor = Monitor(bundle)
    assert monitor.update(Events(None, None, cells=[0, 1])).accepted == 2
    assert monitor.update(Events(None, None, cells=[0, 1])).accepted == 2
    assert monitor.update_one(None, 10.0, cell=2).accepted == 1
    monitor.label(4, True)
    assert monitor.state.labels.counts[0, 2] == 1


def test_unnamed_events_of_two_replicas_are_different_events(bundle):
    a, b = Monitor(bundle, replica="a"), Monitor(bundle, replica="b")
    for one in (a, b):
        one.update(Events(None, [1.0, 2.0], cells=[0, 1]))
    a.label(1, False)
    a.merge(b)
    assert a.state.taken.accepted == 4 and a.state.labels.counts[1, 1] == 1


def test_marks_are_the_same_on_every_machine():
    assert mark("event 1") == 7621582374952075504 == int(marks(["event 1"])[0])
    assert mark(1) == int(marks([1])[0]) == int(marks(np.array([1]))[0]) != mark("1")
    assert len(set(marks(np.arange(100_000)).tolist())) == 100_000
    assert marks(["a", "\udcff"]).tolist() == [mark("a"), mark("\udcff")]


def test_single_events_and_calls_lead_to_the_same_state(bundle, scores_at):
    one, many = Monitor(bundle), Monitor(bundle)
    scores = scores_at(300, 0.2)
    names, times = [f"e{i}" for i in range(300)], np.arange(300.0)
    many.update(Events(names, times, columns={"energy": scores}))
    for name, time, score in zip(names, times.tolist(), scores.tolist(), strict=True):
        one.update_one(name, time, {"energy": score})
    assert one.state.recent.cell.tolist() == many.state.recent.cell.tolist()
    assert one.risk() == many.risk()


def test_a_clock_a_little_ahead_takes_little_of_the_patience_with_others(bundle):
    monitor = Monitor(bundle)
    ahead = Events(["a"], [1000.0 + bundle.lateness - 1.0], cells=[0])
    assert monitor.update(ahead, now=1000.0) == Taken(0, 0, 0, 0, 1)
    assert monitor.update_one("b", 1059.0, cell=0, now=1000.0) == Taken(1, 0, 0, 0)
    others = Events([f"c{i}" for i in range(50)], [995.0] * 50, cells=[0] * 50)
    assert monitor.update(others, now=1000.0).accepted == 50


@pytest.mark.parametrize("time", [1.79e12, -1.79e12, 1.79e15])
def test_milliseconds_are_no_seconds(bundle, time):
    with pytest.raises(EventError, match="seconds"):
        Monitor(bundle).update(Events(["a"], [time], cells=[0]))
    with pytest.raises(EventError, match="seconds"):
        Monitor(bundle).update_one("a", time, cell=0)
