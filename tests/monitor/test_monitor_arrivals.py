"""What the alarm watches: every event once, in the order in which they arrive, and nothing of a shift that is over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_detectors import GAIN

from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.alarmed import Alarmed
from roadworthy.monitor.arrivals import Arrivals


def kinds(monitor: Monitor) -> list[str]:
    return [alarm.kind for alarm in monitor.alarms]


@given(st.lists(st.lists(st.integers(-1, 9), max_size=9), max_size=20), st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_the_last_arrivals_are_held_however_they_come(calls, capacity):
    many, single, everything = Arrivals(capacity), Arrivals(capacity), []
    for call in calls:
        everything += call
        many.add(np.array(call, dtype=float), np.array(call, dtype=np.int16))
        for cell in call:
            single.add_one(float(cell), cell)
        assert many.cell.tolist() == single.cell.tolist() == everything[-capacity:]
        assert many.time.tolist() == single.time.tolist() == everything[-capacity:]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20), st.integers(1, 20)), max_size=5),
    st.integers(1, 80),
)
@settings(max_examples=100, deadline=None)
def test_events_of_alarms_that_are_over_are_left_out(alarms, count):
    alarmed, out = Alarmed(), set()
    for raised, lasted, reach in alarms:
        alarmed.begin(raised, reach=reach)
        alarmed.end(raised + lasted)
        out |= set(range(max(raised - reach + 1, 1), raised + lasted + 1))
    last = 80
    assert alarmed.quiet(last, count).tolist() == [
        number not in out for number in range(last - count + 1, last + 1)
    ]
    alarmed.forget(last - count)
    assert alarmed.quiet(last, count).tolist() == [
        number not in out for number in range(last - count + 1, last + 1)
    ]


@pytest.mark.parametrize("every", [1, 50])
@pytest.mark.parametrize("delay", [0.0, 300.0, 500.0])
def test_a_shifted_source_rings_however_late_its_events_come_within_the_horizon(
    watchful, scores_at, delay, every
):
    """Two sources, one event a second each, in turn: half of what arrives is shifted."""
    monitor, rng = Monitor(watchful), np.random.default_rng(3)
    for start in range(0, 1500, every):
        mine = np.arange(start, start + every, dtype=float)
        theirs = mine - delay + 0.5
        time = np.stack([mine, theirs], axis=1).ravel()
        scores = np.stack(
            [rng.normal(size=every), rng.normal(GAIN[0.9] + 2.0, size=every)], axis=1
        ).ravel()
        kept = time >= 0
        monitor.update(Events(None, time[kept], columns={"energy": scores[kept]}))
    assert not monitor.state.taken.late
    raised = [alarm for alarm in monitor.alarms if alarm.kind == "raised" and alarm.event > delay]
    assert raised and raised[0].event <= delay + 4 * watchful.alarm.window
    # As many events as one source brought alone, then two an instant: the moment is that of the newest.
    assert raised[0].time == pytest.approx(delay + (raised[0].event - delay) / 2, abs=2.0)


def test_figures_stay_by_time_and_say_that_the_alarm_saw_others(watchful):
    late, sorted_ = Monitor(watchful, replica="a"), Monitor(watchful, replica="a")
    rng = np.random.default_rng(4)
    time = np.stack([np.arange(2000.0), np.arange(2000.0) - 300.5], axis=1).ravel()
    scores = np.stack([rng.normal(size=2000), rng.normal(4.0, size=2000)], axis=1).ravel()
    names = np.arange(4000)
    order = np.argsort(time, kind="stable")
    late.update(Events(names, time, columns={"energy": scores}))
    sorted_.update(Events(names[order], time[order], columns={"energy": scores[order]}))
    mine, theirs = late.risk(), sorted_.risk()
    assert (mine.risk, mine.rate, mine.n) == (theirs.risk, theirs.rate, theirs.n) and late.alarm
    window = watchful.alarm.window
    said = f"the alarm watches events as they arrive, and {window // 2} of the last {window} to arrive are older than its window"
    assert any(
        note.startswith(said) and "or all events in spans of time (/v1/history?every=60)" in note
        for note in mine.notes
    )
    assert not any("as they arrive" in note for note in Monitor(watchful).risk().notes)


def test_the_order_of_arrival_survives_keeping(watchful, scores_at):
    time = np.stack([np.arange(800.0), np.arange(800.0) - 100.5], axis=1).ravel()
    scores = np.stack([scores_at(800, 0.0), scores_at(800, 0.6)], axis=1).ravel()
    whole, kept = Monitor(watchful, replica="a"), Monitor(watchful, replica="a")
    for start in range(0, 1600, 130):
        part = slice(start, start + 130)
        for monitor in (whole, kept):
            monitor.update(Events(None, time[part], columns={"energy": scores[part]}))
        kept = Monitor.from_bytes(watchful, kept.to_bytes())
    assert whole.alarms == kept.alarms and whole.alarms
    assert whole.state.arrivals.cell.tolist() == kept.state.arrivals.cell.tolist()


def test_events_that_come_in_order_are_kept_once(watchful, scores_at):
    from roadworthy.monitor.keeping import _arrays

    monitor = Monitor(watchful)
    monitor.update(Events(None, None, columns={"energy": scores_at(500, 0.0)}))
    assert not any(name.startswith("arrived_") for name in _arrays(monitor.to_bytes()))
    again = Monitor.from_bytes(watchful, monitor.to_bytes())
    assert again.state.arrivals.cell.tolist() == monitor.state.arrivals.cell.tolist()
    assert again.state.arrivals.time.tolist() == monitor.state.arrivals.time.tolist()
    monitor.update_one(None, 400.5, {"energy": 0.1})
    again = Monitor.from_bytes(watchful, monitor.to_bytes())
    assert again.state.arrivals.time.tolist()[-2:] == [500.0, 400.5]


def test_replicas_put_together_see_the_one_whose_events_come_late(watchful, scores_at):
    now, late = Monitor(watchful, replica="a"), Monitor(watchful, replica="b")
    now.update(Events(None, np.arange(0.0, 2000.0), columns={"energy": scores_at(2000, 0.0)}))
    late.update(Events(None, np.arange(0.5, 1700.0), columns={"energy": scores_at(1700, 0.0)}))
    late.update(
        Events(None, 1700.0 + np.arange(0.5, 100.0), columns={"energy": scores_at(100, 1.0)})
    )
    for one, other in ((now, late), (late, now)):
        both = Monitor.from_bytes(watchful, one.to_bytes())
        both.merge(other)
        assert both.alarm
        assert one is late or both.alarms[-1].event == 3800


@pytest.fixture(scope="module")
def separating() -> Bundle:
    """By scores that tell shift from none nearly without fail; one false alarm a month is accepted."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "snow"], 800)
    shifted = kind != "clean"
    right = rng.random(len(kind)) < np.where(shifted, 0.4, 0.92)
    calibration = calibrate({"energy": rng.normal(6.0 * shifted)}, kind, right)
    return Bundle.compile(
        calibration, accuracy_tree(), subject="s", tolerable=0.2, windows=Windows((100,))
    )


def shift_that_ends(seed: int) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=4000)
    scores[1000:1505] += 6.0
    return scores


def test_a_shift_that_has_ended_rings_once(separating):
    """What it was is neither correlation nor part of a longer stretch, after a merge and another day neither."""
    for seed in range(4):
        monitor = Monitor(separating, replica="a")
        for start in range(0, 4000, 250):
            monitor.update(
                Events(None, None, columns={"energy": shift_that_ends(seed)[start : start + 250]})
            )
            monitor = Monitor.from_bytes(separating, monitor.to_bytes())
        assert kinds(monitor) == ["raised", "cleared"]
        assert monitor._watching.time < 3.0


def test_replicas_whose_shift_has_ended_do_not_ring_when_they_are_put_together(separating):
    for seed in range(4):
        replicas = [Monitor(separating, replica=name) for name in "ab"]
        for upto in range(1, 9):
            part = slice(500 * (upto - 1), 500 * upto)
            for i, monitor in enumerate(replicas):
                scores = shift_that_ends(2 * seed + i)[part]
                time = np.arange(part.start, part.stop) + i / 2
                monitor.update(Events(None, time, columns={"energy": scores}))
            both = Monitor(separating, replica="both")
            for monitor in replicas:
                both.merge(monitor)
            assert both.alarm == (upto == 3 and replicas[0].alarm), (seed, upto, both.alarms)
