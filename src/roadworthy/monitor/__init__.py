"""The monitor: a bundle compiled before release, and the risk of a stream while the subject runs.

It needs numpy and scipy alone.

>>> Windows((100, 1000), half_life=200).names
('100', '1000', 'decay')
"""

from roadworthy.monitor.alarm import Alarm, AlarmRule
from roadworthy.monitor.bundle import Bundle, BundleError, Coverage, Forecast
from roadworthy.monitor.events import EventError, Events, Taken
from roadworthy.monitor.labels import Audited, Question
from roadworthy.monitor.monitor import Monitor, RiskState
from roadworthy.monitor.state import StateError
from roadworthy.monitor.windows import Windows

__all__ = [
    "Alarm",
    "AlarmRule",
    "Audited",
    "Bundle",
    "BundleError",
    "Coverage",
    "EventError",
    "Events",
    "Forecast",
    "Monitor",
    "Question",
    "RiskState",
    "StateError",
    "Taken",
    "Windows",
]
