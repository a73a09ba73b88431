"""An alarm is not lost: neither while nothing can be read, nor where replicas are put together, in whichever order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from synthetic_detectors import GAIN

from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows


def ar(n: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    return lfilter([1.0], [1.0, -rho], math.sqrt(1 - rho**2) * rng.normal(size=n))


def feed(
    monitor: Monitor,
    scores: np.ndarray,
    *,
    first: int = 0,
    step: int = 1,
    name: str = "e",
    call: int = 50,
) -> None:
    """Scores of the events first, first + step, ... whose times are their numbers."""
    at = first + step * np.arange(len(scores))
    for i in range(0, len(scores), call):
        part = slice(i, i + call)
        ids = [f"{name}{j}" for j in at[part].tolist()]
        monitor.update(Events(ids, at[part].astype(float), columns={"energy": scores[part]}))


def copy_of(bundle: Bundle, monitor: Monitor) -> Monitor:
    return Monitor.from_bytes(bundle, monitor.to_bytes())


def merged_ways(bundle: Bundle, one: Monitor, other: Monitor) -> dict[str, Monitor]:
    """The same two put together, whoever takes in whom."""
    ways = {"new": Monitor(bundle), "one": copy_of(bundle, one), "other": copy_of(bundle, other)}
    ways["new"].merge(copy_of(bundle, one), copy_of(bundle, other))
    ways["one"].merge(copy_of(bundle, other))
    ways["other"].merge(copy_of(bundle, one))
    return ways


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_a_stretch_that_lost_its_scores_for_a_while_clears_nothing(watchful, seed):
    """Frames in runs of 20, of which a longer stretch alone is read; the shift goes on while a supervisor is out, and after."""
    rng = np.random.default_rng(seed)
    scores = np.repeat(rng.normal(size=700), 20)
    scores[8000:] += 2 * GAIN[0.9]
    monitor = Monitor(watchful)
    feed(monitor, scores[:9000])
    assert monitor.alarm
    scores[9000:9600] = np.nan
    feed(monitor, scores[9000:], first=9000)
    assert monitor.alarm and [a.kind for a in monitor.alarms] == [
        "raised",
        "cannot tell",
        "can tell",
    ]


@pytest.mark.parametrize("silent_from", [2000, 1500, 1950])
def test_an_alarm_of_a_replica_whose_scores_stopped_is_carried_over_in_any_order(
    watchful, silent_from
):
    rng = np.random.default_rng(0)

    def replica(name: str, first: int, shifted: bool) -> Monitor:
        shift = (np.arange(2000) >= 1000) & (rng.random(2000) < 0.6) & shifted
        scores = np.where(np.arange(2000) < silent_from, rng.normal(GAIN[0.9] * shift), np.nan)
        monitor = Monitor(watchful, replica=name)
        feed(monitor, scores, first=first, step=2, name=name)
        return monitor

    one, other = replica("a", 0, True), replica("b", 1, False)
    assert one.alarm and not other.alarm
    assert {way: m.alarm for way, m in merged_ways(watchful, one, other).items()} == dict.fromkeys(
        ("new", "one", "other"), True
    )
    alone = Monitor(watchful)
    alone.merge(copy_of(watchful, one))
    assert alone.alarm


@pytest.mark.parametrize("seed", [2, 4, 8])
def test_the_time_of_replicas_is_not_read_from_what_is_alarmed_and_does_not_depend_on_who_takes_in_whom(
    watchful, seed
):
    """Two cameras, 90% of whose last events are shifted: what is alarmed is alike, and no sign of how alike others are."""
    rng = np.random.default_rng(seed)
    scores = np.stack([ar(1200, 0.9, rng) for _ in range(2)], axis=1).ravel()
    scores[1400:] += GAIN[0.9] * np.repeat(rng.random(100) < 0.9, 10)
    one, other = Monitor(watchful, replica="r0"), Monitor(watchful, replica="r1")
    for first, monitor in enumerate((one, other)):
        feed(monitor, scores[first::2], first=first, step=2)
    assert one.alarm or other.alarm
    ways = merged_ways(watchful, one, other)
    assert all(m.alarm for m in ways.values())
    times = {round(m._watching.time, 6) for m in ways.values()}
    assert times == {round(max(one._watching.time, other._watching.time), 6)}


def test_a_new_state_that_takes_in_a_replica_judges_by_the_time_that_it_knows(watchful):
    """Nearly all that is held was alarmed."""
    rng = np.random.default_rng(13)
    scores = np.repeat(rng.normal(size=400), 10)
    scores[300:2000] += 2 * GAIN[0.9]
    replica = Monitor(watchful, replica="a")
    at = 0
    while at < len(scores) and not any(a.kind == "cleared" for a in replica.alarms):
        feed(replica, scores[at : at + 50], first=at)
        at += 50
    assert not replica.alarm and replica._watching.alarmed.spans
    new = Monitor(watchful)
    new.merge(copy_of(watchful, replica))
    assert new._watching.time == replica._watching.time > 5.0 and new.rings == replica.rings


def test_what_a_long_stretch_reads_around_an_alarm_that_is_over_does_not_depend_on_calls(watchful):
    """Frames in runs of 150: more is read than is held beside a long alarm that is over."""
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.normal(size=360), 150)
    scores[40_000:] += np.repeat(GAIN[0.9] * (rng.random(360) < 0.9), 150)[40_000:]
    found = []
    for call in (50, 4096):
        monitor, first = Monitor(watchful), 9 * 4096
        feed(monitor, scores[:first], call=4096)
        monitor._watching.alarmed.spans = [(14_000, 34_000)]
        said = len(monitor.alarms)
        feed(monitor, scores[first:], first=first, call=call)
        found.append([(a.kind, a.event, a.read) for a in monitor.alarms[said:]])
    assert found[0] == found[1] != []


def test_scores_that_do_not_tell_shift_from_none_ring_no_alarm():
    """As `calibrate` says: every window is one of which it cannot be told."""
    rng = np.random.default_rng(0)
    rows = calibrate(
        {"energy": rng.normal(np.repeat([0.0, 3.0], 5))},
        np.repeat(["clean", "fog"], 5),
        np.arange(10) < 5,
    )
    bundle = Bundle.compile(
        rows, accuracy_tree(), subject="s", tolerable=0.12, windows=Windows((100,))
    )
    assert not bundle.watch.separation.enough
    monitor = Monitor(bundle)
    feed(monitor, rng.normal(3.0, size=700))
    assert {a.kind for a in monitor.alarms} == {"cannot tell"} and not monitor.alarm


@pytest.mark.parametrize("begun", ["few scores", "frames in runs"])
def test_an_alarm_carried_over_beside_a_replica_that_has_just_begun_is_cleared_in_the_end(
    watchful, begun
):
    """Of its few events nobody can tell how alike they are: that must not stay the time of all together."""
    rng = np.random.default_rng(0)
    one, other = Monitor(watchful, replica="a"), Monitor(watchful, replica="b")
    scores = rng.normal(size=600)
    scores[300:] += GAIN[0.9]
    feed(one, scores, step=2, name="a")
    young = rng.normal(size=100)
    young[::2][:45] = np.nan
    feed(
        other,
        young if begun == "few scores" else np.repeat(rng.normal(size=15), 10),
        first=1001,
        step=2,
        name="b",
    )
    assert one.alarm
    for monitor in merged_ways(watchful, one, other).values():
        assert monitor.alarm
        feed(monitor, rng.normal(size=3000), first=5000, name="z", call=500)
        assert not monitor.alarm and monitor.alarms[-1].kind == "cleared"


@pytest.mark.parametrize("events", [300, 450, 600])
def test_an_alarm_carried_over_between_two_replicas_that_have_just_begun_is_cleared_soon(
    watchful, events
):
    """How alike a few frames in runs may be is an upper limit, by which thousands of events would be read."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        one, other = Monitor(watchful, replica="a"), Monitor(watchful, replica="b")
        feed(
            one,
            rng.normal(1.2 * GAIN[0.9] * (np.arange(events) >= events - 150)),
            step=2,
            name="a",
            call=events,
        )
        feed(
            other,
            np.repeat(rng.normal(size=15), 10),
            first=2 * events - 299,
            step=2,
            name="b",
            call=150,
        )
        assert one.alarm
        for monitor in merged_ways(watchful, one, other).values():
            carried = monitor.state.counted
            assert monitor.alarm
            kept = copy_of(watchful, monitor)
            for each in (monitor, kept):
                feed(
                    each,
                    np.random.default_rng(seed).normal(size=1500),
                    first=5000,
                    name="z",
                    call=500,
                )
                assert [a.event - carried < 1200 for a in each.alarms if a.kind == "cleared"] == [
                    True
                ]


def test_an_alarm_that_is_carried_over_because_nothing_can_be_read_says_so_and_no_figure(watchful):
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.normal(size=700), 20)
    scores[8000:8900] += 2 * GAIN[0.9]
    scores[8900:9500] = np.nan
    replica, new = Monitor(watchful, replica="a"), Monitor(watchful)
    feed(replica, scores[:9700])
    new.merge(copy_of(watchful, replica))
    assert replica.alarm and new.alarm
    said = new.alarms[-1]
    assert said.kind == "raised" and said.exceedance is None and said.risk is None
    assert said.reason.startswith("it is carried over from another replica, and the last ")


@pytest.mark.parametrize("out", [34_000, 40_000])
def test_after_a_long_outage_a_step_is_noticed_as_soon_as_before(watchful, out):
    rng = np.random.default_rng(1)
    monitor = Monitor(watchful)
    back = 5000 + out
    feed(monitor, np.concatenate([rng.normal(size=5000), np.full(out, np.nan)]), call=4096)
    feed(
        monitor,
        np.concatenate([rng.normal(size=1000), rng.normal(GAIN[0.9], size=500)]),
        first=back,
    )
    assert [a.event - back for a in monitor.alarms if a.kind == "raised"] in (
        [1050],
        [1100],
        [1150],
    )


@pytest.mark.parametrize("young", [False, True])
def test_after_a_merge_within_a_long_outage_a_step_is_noticed_soon(watchful, young):
    """Of what is held nobody can tell how alike events are; a replica that has just begun brings some scores."""
    rng, n = np.random.default_rng(1), 40_000
    out, other = Monitor(watchful, replica="a"), Monitor(watchful, replica="b")
    feed(out, np.full(n, np.nan), call=4096)
    feed(other, rng.normal(size=50 * young), first=n - 100, name="b")
    new = Monitor(watchful)
    new.merge(out, other)
    assert math.isinf(new._watching.time)
    back = new.state.counted
    feed(new, np.concatenate([rng.normal(size=1000), rng.normal(GAIN[0.9], size=500)]), first=n)
    assert [a.event - back for a in new.alarms if a.kind == "raised"] in ([1050], [1100], [1150])


@pytest.mark.parametrize("camera", [0, 5])
def test_a_camera_in_turn_that_has_no_supervisor_hides_no_shift(watchful, camera):
    """A sixth of the scores is missing, and windows can be told."""
    rng = np.random.default_rng(3)
    scores = np.stack([ar(1000, 0.9, rng) for _ in range(6)], axis=1)
    scores[500:] += GAIN[0.9]
    scores[:, camera] = np.nan
    monitor = Monitor(watchful)
    feed(monitor, scores.ravel())
    raised = [a.event for a in monitor.alarms if a.kind == "raised"]
    assert raised and 3000 < raised[0] <= 3400
