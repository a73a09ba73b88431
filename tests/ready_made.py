"""Alarms whose thresholds nobody had to find by simulation, which takes seconds: for tests of all the rest."""

from __future__ import annotations

from typing import Any

from roadworthy.monitor import AlarmRule


def alarm_rule(**changes: Any) -> AlarmRule:
    """A window of 100 events, looked at every 50: raised at log-odds 3, at more where events are alike, cleared below 0."""
    usual = {
        "window": 100,
        "stride": 50,
        "on": 3.0,
        "off": 0.0,
        "false_alarms": "1 per month",
        "events_per_day": 10_000.0,
        "by_time": ((1.0, 3.0), (30.0, 4.0)),
    }
    return AlarmRule(**{**usual, **changes})
