"""That most of what came is not in the figures: what was said of it before a restart, and after which events it held.

Points of the charts are worked out a while after their events were counted. Each is told as it would have been then.

>>> untold = Untold()
>>> untold.say("most were late", after=40)
>>> untold.say("", after=90)
>>> [untold.at(event) for event in (40, 41, 90, 91)]
['', 'most were late', 'most were late', '']
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roadworthy.monitor import Alarm, Monitor
from roadworthy.web import views

LATE = "late"
"""Marks alarms about what was not counted (late, ahead, or in answers nobody could read): of the service, not of the monitor."""
SKIPPED = "skipped"
"""Marks those of them that are about answers of a server of models: events that are counted do not end these."""
MOST = 10_000
"""Changes that are held; there are as many only where no reading can be kept."""


class Told(NamedTuple):
    """What was said last, while it holds."""

    late: str = ""
    skipped: str = ""
    event: int = 0
    """How many events were counted then."""


def last_told(alarms: Sequence[Mapping[str, Any]]) -> Told:
    """What alarms, oldest first, said last of what was not counted.

    >>> said = {"kind": "cannot tell", "late": True, "event": 40, "reason": "most answers were not counted"}
    >>> last_told([said]).late == last_told([{**said, "skipped": True}]).skipped == said["reason"]
    True
    >>> last_told([said, {"kind": "raised"}, {"kind": "can tell", "late": True}])
    Told(late='', skipped='', event=0)
    """
    last = next((alarm for alarm in reversed(alarms) if alarm.get(LATE)), None)
    if last is None or last["kind"] != "cannot tell":
        return Told()
    kind = "skipped" if last.get(SKIPPED) else "late"
    return Told(event=last["event"], **{kind: last["reason"]})


def uncounted_alarm(
    reason: str, monitor: Monitor, *, now: float, replica: str, skipped: bool
) -> dict[str, Any]:
    """The alarm that most of what comes is not counted, where there is a reason, or that it is again; `skipped`: of answers."""
    state, kind = monitor.state, "cannot tell" if reason else "can tell"
    alarm = Alarm(now, state.counted, kind, math.nan, math.nan, reason=reason)
    view = views.alarm_view(alarm, monitor.bundle, replica=replica)
    marks = {LATE: True, **({SKIPPED: True} if reason and skipped else {})}
    return {**view, "key": f"{view['key']}-late-{state.taken.total}", **marks}


class Untold:
    """Why nobody could tell, by the number of events that were counted."""

    def __init__(self) -> None:
        self._said: list[tuple[int, str]] = []

    def say(self, reason: str, *, after: int) -> None:
        """From the event after this one on nobody can tell, for this reason, or one can."""
        before, said = self._said[-1] if self._said else (-1, "")
        if reason == said:
            return
        if before == after:
            self._said.pop()
        self._said.append((after, reason))
        del self._said[:-MOST]

    def at(self, event: int) -> str:
        """Why nobody could tell after this event; empty where one could."""
        return next((reason for after, reason in reversed(self._said) if after < event), "")

    def forget(self, upto: int) -> None:
        """Nobody asks for this event again, nor for those before it."""
        past = sum(after <= upto for after, _ in self._said)
        del self._said[: max(0, past - 1)]
