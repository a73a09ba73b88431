"""An alarm is not lost: neither while nothing can be read, nor where replicas are put together, in whichever order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from synthetic_detectors import GAIN

from roadworthy.analysis.risk.cells import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows


def ar(n: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    return lfilter([1.0], [1.0, -rho], math.sqrt(1 - rho**2) * rng.normal(size=n))


def feed(
    monitor: Monitor, scores: np.ndarray, *, first: int = 0, step: int = 1, name: str = "e", call: int = 50
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
    assert monitor.alarm and [a.kind for a in monitor.alarms] == ["raised", "cannot tell", "can tell"]


@pytest.mark.parametrize("silent_from", [2000, 1500, 1950])
def test_an_alarm_of_a_replica_whose_scores_stopped_is_carried_over_in_any_order(watchful, silent_from):
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
def test_the_time_of_replicas_is_not_read_from_what_is_alarmed_and_does_not_depend_on_who_takes_in_whom(watchful, seed):
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
        {"energy": rng.normal(np.repeat([0.0, 3.0], 5))}, np.repeat(["clean", "fog"], 5), np.arange(10) < 5
    )
    bundle = Bundle.compile(rows, accuracy_tree(), subject="s", tolerable=0.12, windows=Windows((100,)))
    assert not bundle.watch.separation.enough
    monitor = Monitor(bundle)
    feed(monitor, rng.normal(3.0, size=700))
    assert {a.kind for a in monitor.alarms} == {"cannot tell"} and not monitor.alarm
