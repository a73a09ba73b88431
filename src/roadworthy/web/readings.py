"""Points of the charts: what the watched window said at every look of the alarm since the last point, in the time of events.

A stream that is replayed in a second then shows the same curve as one that took an hour. A few points are worked out at a time, so
that posts do not wait for them: a curve is complete some seconds after a burst. Where events come faster than points can be worked
out, some looks are left out, but never one at which an alarm changed, nor the last; the curve is then a few seconds behind.

>>> due(0, 70, stride=20), due(40, 40, stride=20), due(0, 1, stride=20)
([20, 40, 60, 70], [], [1])
>>> due(0, 1000, stride=10, kept={330}, most=4)
[250, 330, 500, 750, 1000]
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roadworthy.monitor.speaking import Spoken, states_of
from roadworthy.monitor.windows import read
from roadworthy.web import views

if TYPE_CHECKING:
    from roadworthy.monitor import Monitor

MOST = 64
"""Points that may be due; more looks than that are thinned."""
AT_ONCE = 16
"""Points that are worked out at once: some ten milliseconds, once a second."""
LOOKS_A_WINDOW = 10
"""Points a window's length where there is no alarm whose looks would say."""


def due(before: int, counted: int, *, stride: int, kept: Collection[int] = (), most: int = MOST) -> list[int]:
    """The numbers of events after which points are due, once `counted` were counted and there are points up to `before`."""
    if counted <= before:
        return []
    looks = range((before // stride + 1) * stride, counted + 1, stride)
    every = max(1, -(-len(looks) // most))
    shown = {n for n in looks if (n // stride) % every == 0}
    return sorted(shown | {n for n in kept if before < n <= counted} | {counted})


def readings(monitor: Monitor, before: int, *, at_once: int = AT_ONCE, now: float = math.inf) -> list[dict[str, Any]]:
    """The next points since event `before`, as far as the events that they are made of are still held.

    None is later than `now`: an event whose clock is ahead would hold all points of its window there.
    """
    state, rule = monitor.state, monitor.bundle.alarm
    changes = {alarm.event: alarm for alarm in sorted(monitor.alarms[-MOST:], key=lambda alarm: -alarm.by_labels)}
    held = state.counted - len(state.recent)
    wanted = due(max(before, held), state.counted, stride=_stride(monitor), kept=changes)[:at_once]
    ends = [len(state.recent) - (state.counted - number) for number in wanted]
    if not ends:
        return []
    name, time = monitor.bundle.watched, monitor.autocorrelation_time
    cells, times, groups = state.recent.cell, state.recent.time, monitor.scores.group
    spoken = []
    for end in ends:
        reading = read(cells[:end], monitor.bundle.windows, name, groups, shrink=1.0 / time)
        spoken.append(Spoken(reading, float(times[end - reading.first]), float(times[end - 1]), None))
    states = states_of(monitor.bundle, spoken, state=state, time=time, alarm=monitor.alarm)
    found: list[dict[str, Any]] = []
    for number, said in zip(wanted, states, strict=True):
        watched = monitor.alarm_log_odds_at(number, on=_on(monitor, number, by_labels=False))
        said, change = replace(said, alarm_log_odds=watched), changes.get(number)
        if change is not None and change.log_odds is not None:
            # As the alarm saw it, by what was known then of how much events resemble each other.
            figures = {name: getattr(change, name) for name in ("exceedance", "log_odds", "alarm_log_odds")}
            said = replace(said, **figures)
        point = views.reading_view(said, event=number, alarm=rule is not None and _on(monitor, number))
        found.append({**point, "time": min(point["time"], now)})
    return found


def _stride(monitor: Monitor) -> int:
    rule = monitor.bundle.alarm
    return rule.stride if rule is not None else max(1, min(monitor.bundle.windows.lengths) // LOOKS_A_WINDOW)


def _on(monitor: Monitor, event: int, *, by_labels: bool = True) -> bool:
    """Whether an alarm was on after so many events; without those by labels, one by the scores.

    None is said to be cleared before all are, so that what clears one clears the others.
    """
    since: list[bool] = []
    for alarm in monitor.alarms:
        if alarm.event <= event and alarm.kind in ("raised", "cleared"):
            since = [*since, by_labels or not alarm.by_labels] if alarm.kind == "raised" else []
    return any(since)
