"""That most of what came is not in the figures: the alarm that says so, and what it said before a restart."""

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


class Told(NamedTuple):
    """What was said last, while it holds."""

    late: str = ""
    skipped: str = ""


def last_told(alarms: Sequence[Mapping[str, Any]]) -> Told:
    """What alarms, oldest first, said last of what was not counted.

    >>> said = {"kind": "cannot tell", "late": True, "event": 40, "reason": "most answers were not counted"}
    >>> last_told([said]).late == last_told([{**said, "skipped": True}]).skipped == said["reason"]
    True
    >>> last_told([said, {"kind": "raised"}, {"kind": "can tell", "late": True}])
    Told(late='', skipped='')
    """
    last = next((alarm for alarm in reversed(alarms) if alarm.get(LATE)), None)
    if last is None or last["kind"] != "cannot tell":
        return Told()
    kind = "skipped" if last.get(SKIPPED) else "late"
    return Told(**{kind: last["reason"]})


def uncounted_alarm(reason: str, monitor: Monitor, *, now: float, replica: str, skipped: bool) -> dict[str, Any]:
    """The alarm that most of what comes is not counted, where there is a reason, or that it is again; `skipped`: of answers."""
    state, kind = monitor.state, "cannot tell" if reason else "can tell"
    alarm = Alarm(now, state.counted, kind, math.nan, math.nan, reason=reason)
    view = views.alarm_view(alarm, monitor.bundle, replica=replica)
    marks = {LATE: True, **({SKIPPED: True} if reason and skipped else {})}
    return {**view, "key": f"{view['key']}-late-{state.taken.total}", **marks}
