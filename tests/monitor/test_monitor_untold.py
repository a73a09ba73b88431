"""What cannot be told has no figures, and never stops a stream from being counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from roadworthy.monitor import Bundle, Events, Monitor
from roadworthy.monitor.state import State


@pytest.mark.parametrize("scored_every", [50, 10_000, 6, 3])
@pytest.mark.parametrize("call", [1, 200, 3000])
def test_a_stream_with_few_scores_or_none_is_counted_and_said_to_be_untold(
    watchful, call, scored_every
):
    scores = np.full(3000, np.nan)
    scores[::scored_every] = 0.1
    monitor = Monitor(watchful)
    for start in range(0, 3000, call):
        part = scores[start : start + call]
        if call == 1:
            monitor.update_one(None, float(start), {"energy": float(part[0])})
        else:
            monitor.update(Events(None, None, columns={"energy": part}))
    assert monitor.state.counted == 3000
    assert [alarm.kind for alarm in monitor.alarms] == ["cannot tell"] and monitor.cannot_tell
    assert " of 100 events " in monitor.alarms[0].reason
    assert monitor.risk().cannot_tell is not None
    assert monitor.alarms[0].risk is None and monitor.alarms[0].exceedance is None


def test_scores_that_stop_and_come_again_are_told_again(watchful, scores_at):
    monitor = Monitor(watchful)
    for part in (np.full(700, np.nan), scores_at(1500, 0.0)):
        monitor.update(Events(None, None, columns={"energy": part}))
    assert [alarm.kind for alarm in monitor.alarms] == ["cannot tell", "can tell"]
    assert monitor.alarms[1].risk == pytest.approx(0.06, abs=0.05)


def test_an_alarm_over_events_unlike_anything_calibrated_says_why_and_no_figure(
    watchful, scores_at
):
    monitor = Monitor(watchful)
    strange = np.where(np.arange(600) % 2 == 0, 40.0, scores_at(600, 0.3))
    monitor.update(Events(None, None, columns={"energy": scores_at(1000, 0.0)}))
    monitor.update(Events(None, None, columns={"energy": strange}))
    raised = next(alarm for alarm in monitor.alarms if alarm.kind == "raised")
    assert (raised.exceedance, raised.risk, raised.log_odds) == (None, None, None)
    assert "have a score that no calibration row had" in raised.reason
    told = [alarm for alarm in monitor.alarms if alarm.kind == "cannot tell"]
    assert told and told[0].risk is None and told[0].reason
    again = Monitor.from_bytes(watchful, monitor.to_bytes())
    assert again.alarms == monitor.alarms
    json.dumps([vars(alarm) for alarm in again.alarms], allow_nan=False)


def test_an_alarm_that_can_be_told_has_figures_and_no_reason(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(
        Events(
            None,
            None,
            columns={"energy": np.concatenate([scores_at(1000, 0.0), scores_at(400, 0.5)])},
        )
    )
    raised = next(alarm for alarm in monitor.alarms if alarm.kind == "raised")
    assert raised.reason == "" and raised.risk > 0.0 and 0.0 <= raised.exceedance <= 1.0


def test_an_event_too_old_for_the_ids_held_is_told_from_one_with_a_wrong_clock(bundle: Bundle):
    monitor = Monitor(bundle)
    n = monitor.state.recent.capacity + 1000
    time = 1e9 + np.arange(n) / 50_000
    monitor.update(Events(np.arange(n), time, cells=np.zeros(n, dtype=int)))
    assert monitor.update(Events([-1], [time[-1] - 3.0], cells=[0])).late == 1
    held, reach = monitor.state.recent.capacity, monitor.state.recent.capacity / 50_000
    assert monitor.state.reach == pytest.approx(reach, rel=0.01)
    late = [note for note in monitor.risk("50").notes if "as late" in note]
    assert len(late) == 1 and "clocks" not in late[0]
    assert (
        f"within the lateness of 600 s: the {held:,} ids that are held reach back {reach:.2g} s"
        in late[0]
    )
    monitor.update_one(-2, time[-1] - 700.0, cell=0)
    again = Monitor.from_bytes(bundle, monitor.to_bytes())
    late = [note for note in again.risk("50").notes if "as late" in note]
    assert (
        len(late) == 2
        and late[0] == "1 event was refused as late, the latest by 700 s: look at the clocks"
    )


def test_replicas_put_together_add_up_what_outran_their_ids():
    def replica(name: str) -> State:
        state = State(cells=1, capacity=3, lateness=100.0, name=name)
        for i in range(6):
            state.add_one(float(i), None, 0, f"{name} {i}")
        state.add_one(0.5, None, 0, f"{name} late")
        return state

    both, a, b = State(cells=1, capacity=3, lateness=100.0), replica("a"), replica("b")
    for one in (a, b, a):
        both.take_over(one)
    assert (both.outrun, both.taken.late) == (2, 2)
    a.add_one(1.5, None, 0, "a later")
    both.take_over(a)
    assert (both.outrun, both.taken.late) == (3, 3)


def test_an_alarm_between_windows_that_cannot_be_told_says_that_this_one_can(watchful):
    """So many events lack a score that a window has too few of them now and then: none that rings stands among 'cannot tell'."""
    rng, n = np.random.default_rng(4), 6000
    scores = rng.normal(3.0 * ((np.arange(n) >= 2000) & (rng.random(n) < 0.6)))
    scores[(np.arange(n) >= 500) & (rng.random(n) < 0.25)] = np.nan
    monitor = Monitor(watchful)
    monitor.update(Events(np.arange(n), np.arange(float(n)), columns={"energy": scores}))
    untold = False
    raised = 0
    for alarm in monitor.alarms:
        if alarm.kind in ("cannot tell", "can tell"):
            untold = alarm.kind == "cannot tell"
        elif alarm.kind == "raised" and not alarm.reason:
            raised += 1
            assert not untold, f"figures stand at event {alarm.event}, of which none can be told"
    kinds = [alarm.kind for alarm in monitor.alarms]
    assert raised and "cannot tell" in kinds[kinds.index("raised") :], (
        "and it is said again that nobody can tell"
    )


def test_the_figures_with_which_it_can_be_told_again_do_not_depend_on_calls(watchful):
    """What comes in the same call after it is no part of them, though it is more alike."""
    rng = np.random.default_rng(5)
    scores = np.concatenate(
        [
            rng.normal(size=1000),
            np.full(400, np.nan),
            rng.normal(size=300),
            np.repeat(rng.normal(size=80), 20),
        ]
    )
    found = []
    for call in (50, 700, 4000):
        monitor = Monitor(watchful)
        for start in range(0, len(scores), call):
            monitor.update(Events(None, None, columns={"energy": scores[start : start + call]}))
        told = [(a.event, a.risk, a.exceedance) for a in monitor.alarms if a.kind == "can tell"]
        assert told
        found.append(told)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("more", [0, 50])
def test_a_centre_cannot_tell_while_its_replicas_cannot_however_many_events_it_holds(
    watchful, scores_at, more
):
    """It is asked at every merge, though none falls on the first look of a window."""
    replica, other, centre = (Monitor(watchful, replica=name) for name in ("a", "b", "c"))
    other.update(Events(None, np.arange(float(more)), columns={"energy": scores_at(more, 0.0)}))
    centre.merge(other)
    mute = []
    for start in range(0, 6000, 500):
        scores = np.full(500, np.nan) if 2000 <= start < 4000 else scores_at(500, 0.0, seed=start)
        replica.update(Events(None, np.arange(start, start + 500.0), columns={"energy": scores}))
        centre.merge(replica)
        mute.append(centre.cannot_tell)
    assert mute == 5 * [False] + 3 * [True] + 4 * [False]


def test_a_replica_that_ends_earlier_does_not_make_what_came_last_told(watchful, scores_at):
    """Its own last window can be told; those of now have no scores."""
    mute, other = Monitor(watchful, replica="a"), Monitor(watchful, replica="b")
    scores = np.concatenate([scores_at(1000, 0.0), np.full(600, np.nan)])
    for name, monitor, n in (("a", mute, 1600), ("b", other, 1000)):
        for start in range(0, n, 100):
            ids, time = (
                [f"{name}{i}" for i in range(start, start + 100)],
                np.arange(start, start + 100.0),
            )
            monitor.update(Events(ids, time, columns={"energy": scores[start : start + 100]}))
    assert mute.cannot_tell and not other.cannot_tell
    mute.merge(other)
    assert mute.cannot_tell and [alarm.kind for alarm in mute.alarms] == ["cannot tell"]
