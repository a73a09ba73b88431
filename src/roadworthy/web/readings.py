"""Points of the charts: what the watched window said at every look of the alarm since the last point, in the time of events.

A stream that is replayed in a second then shows the same curve as one that took an hour. A few points are worked out at a time, so
that posts do not wait for them: a curve is complete some seconds after a burst. Where events come faster than points can be worked
out, looks are left out, evenly, but never one at which an alarm changed, nor the last: the curve is coarser then, and not behind.

>>> due(0, 70, stride=20), due(40, 40, stride=20), due(0, 1, stride=20)
([20, 40, 60, 70], [], [1])
>>> due(0, 1000, stride=10, kept={330}, every=25)
[250, 330, 500, 750, 1000]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roadworthy.monitor.estimate import Span, states_of
from roadworthy.monitor.windows import read
from roadworthy.web import views

if TYPE_CHECKING:
    from roadworthy.monitor import Monitor

MOST = 500
"""Points that may be due; more looks than that are thinned. Each takes a millisecond or two."""
AT_ONCE = 8
"""Points that are worked out at once, while posts wait: of sixteen, at 50,000 events a second, for 50 ms."""
IN_A_HURRY = 32
"""Points of events that are about to leave: there is no later for them."""
LOOKS_A_WINDOW = 10
"""Points a window's length where there is no alarm whose looks would say."""
CHANGES = 64
"""Alarms, the last ones, at which there is a point for certain."""


def due(
    before: int, counted: int, *, stride: int, kept: Collection[int] = (), every: int = 1
) -> list[int]:
    """The numbers of events after which points are due, once `counted` were counted and there are points up to `before`."""
    if counted <= before:
        return []
    step = stride * every
    shown = range((before // step + 1) * step, counted + 1, step)
    return sorted({*shown, *(n for n in kept if before < n <= counted), counted})


def thinned(looks: int, most: int) -> int:
    """Of how many looks one is shown, so that there are no more points than these.

    >>> [thinned(looks, 500) for looks in (0, 500, 501, 2500)]
    [1, 1, 2, 5]
    """
    return max(1, -(-looks // most))


class Curve:
    """How far the points of a stream have come."""

    def __init__(self, upto: int) -> None:
        self.upto = upto
        """The event up to which there are points."""
        self._then: int | None = None
        """How many events were counted at the last points, where more were due."""
        self._every = 1
        """Of how many looks one is shown until no more are due."""

    def next_points(
        self,
        monitor: Monitor,
        *,
        now: float,
        hurry: bool = False,
        untold: Callable[[int], str] = lambda event: "",
    ) -> list[dict[str, Any]]:
        """The next points of those that are due; in a hurry all of them at once, and fewer.

        Where as many looks have come since the last points as are worked out at once, these would never catch up: the rest is
        thinned to what can be worked out now.
        """
        counted, stride = monitor.state.counted, stride_of(monitor)
        looks = counted // stride - self.upto // stride
        if hurry:
            self._every = thinned(looks, IN_A_HURRY)
        elif self._then is None:
            self._every = thinned(looks, MOST)
        elif (counted - self._then) // stride >= AT_ONCE:
            self._every = thinned(looks, AT_ONCE)
        at_once = 2 * IN_A_HURRY if hurry else AT_ONCE
        return readings(
            monitor, self.upto, every=self._every, at_once=at_once, now=now, untold=untold
        )

    def kept(self, points: list[dict[str, Any]], *, counted: int) -> bool:
        """These points are kept; whether more are due."""
        self.upto = points[-1]["event"] if points else counted
        self._then = counted if self.upto < counted else None
        return self._then is not None

    def would_lose(self, monitor: Monitor, more: int) -> bool:
        """Whether so many more events would push some out of which no points were worked out yet."""
        return monitor.state.counted - self.upto + more > monitor.state.recent.capacity


def readings(
    monitor: Monitor,
    before: int,
    *,
    at_once: int = AT_ONCE,
    every: int = 1,
    now: float = math.inf,
    untold: Callable[[int], str] = lambda event: "",
) -> list[dict[str, Any]]:
    """The next points since event `before`, as far as the events that they are made of are still held.

    None is later than `now`: an event whose clock is ahead would hold all points of its window there. `untold` says why nobody
    could tell after an event, where most of what came then was not counted.
    """
    state, rule = monitor.state, monitor.bundle.alarm
    changes = {
        alarm.event: alarm
        for alarm in sorted(monitor.alarms[-CHANGES:], key=lambda alarm: -alarm.by_labels)
    }
    gone = state.counted - len(state.recent)
    # Of a window that has lost events there is no point: it would be told by the few that are left.
    first = gone + min(int(monitor.bundle.watched), len(state.recent)) - 1 if gone else 0
    ends_untold = {last for _, last in monitor.alarmed.spans[-CHANGES:]}
    kept, stride = changes.keys() | ends_untold, stride_of(monitor)
    wanted = due(max(before, first), state.counted, stride=stride, kept=kept, every=every)[:at_once]
    ends = [len(state.recent) - (state.counted - number) for number in wanted]
    if not ends:
        return []
    name, time = monitor.bundle.watched, monitor.autocorrelation_time
    cells, times, groups = state.recent.cell, state.recent.time, monitor.scores.group
    spoken = []
    for end in ends:
        reading = read(cells[:end], monitor.bundle.windows, name, groups, shrink=1.0 / time)
        spoken.append(Span(reading, float(times[end - reading.first]), float(times[end - 1]), None))
    states = states_of(monitor.bundle, spoken, state=state, time=time, alarm=monitor.alarm)
    found: list[dict[str, Any]] = []
    for number, said in zip(wanted, states, strict=True):
        by_scores = _on_by_scores(monitor, number)
        watched = monitor.alarm_log_odds_at(number, on=by_scores)
        said, change = replace(said, alarm_log_odds=watched), changes.get(number)
        if change is not None and change.log_odds is not None:
            # As the alarm saw it, by what was known then of how much events resemble each other.
            figures = {
                name: getattr(change, name) for name in ("exceedance", "log_odds", "alarm_log_odds")
            }
            said = replace(said, **figures)
        on = rule is not None and _on(monitor, number)
        why = untold(number) or None
        point = views.reading_view(
            said, event=number, alarm=on, by_scores=by_scores, cannot_tell=why
        )
        found.append({**point, "time": min(point["time"], now)})
    return found


def stride_of(monitor: Monitor) -> int:
    """Events between two looks."""
    rule = monitor.bundle.alarm
    return (
        rule.stride
        if rule is not None
        else max(1, min(monitor.bundle.windows.lengths) // LOOKS_A_WINDOW)
    )


def _on(monitor: Monitor, event: int) -> bool:
    """Whether an alarm was on after so many events, by the scores or by labels: none is said to be cleared before all are."""
    said = [
        alarm.kind
        for alarm in monitor.alarms
        if alarm.event <= event and alarm.kind in ("raised", "cleared")
    ]
    return said[-1:] == ["raised"]


def _on_by_scores(monitor: Monitor, event: int) -> bool:
    """Whether the scores' own alarm was on after so many events.

    While labels keep an alarm on its end is not told; but where it ended is known of all events that are held.
    """
    raised = [
        a.event
        for a in monitor.alarms
        if a.kind == "raised" and not a.by_labels and a.event <= event
    ]
    if not raised:
        return False
    told = [alarm.event for alarm in monitor.alarms if alarm.kind == "cleared"]
    return not any(
        raised[-1] < end <= event for end in (*told, *(last for _, last in monitor.alarmed.spans))
    )
