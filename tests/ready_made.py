"""Alarms whose burden of proof nobody had to find by simulation, which takes seconds: for tests of all the rest."""

from __future__ import annotations

from typing import Any

from roadworthy.monitor import AlarmRule


def alarm_rule(**changes: Any) -> AlarmRule:
    """A window of 100 events, looked at every 50: 8,100 to 1 against an alarm, less where events are alike."""
    usual = {
        "window": 100,
        "stride": 50,
        "false_alarms": "1 per month",
        "events_per_day": 10_000.0,
        "table": ((1.0, 100, 9.0), (30.0, 100, 4.0)),
    }
    return AlarmRule(**{**usual, **changes})
