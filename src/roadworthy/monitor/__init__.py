"""The monitor: a bundle compiled before release, and the risk of a stream while the subject runs; numpy and scipy alone.

>>> from roadworthy.monitor import Windows
>>> Windows((100, 1000), half_life=200).names
('100', '1000', 'decay')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .alarm import Alarm, AlarmRule
    from .bundle import Bundle, BundleError
    from .estimate import Coverage, Forecast, RiskState
    from .events import EventError, Events, Taken
    from .labels import Audited, Question
    from .monitor import Monitor
    from .state import StateError
    from .windows import Windows

_HOME = {
    "alarm": ("Alarm", "AlarmRule"),
    "bundle": ("Bundle", "BundleError"),
    "estimate": ("Coverage", "Forecast", "RiskState"),
    "events": ("EventError", "Events", "Taken"),
    "labels": ("Audited", "Question"),
    "monitor": ("Monitor",),
    "state": ("StateError",),
    "windows": ("Windows",),
}

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


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
