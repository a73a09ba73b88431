"""Is this AI system fit for the road, and is it still?

>>> import roadworthy
>>> roadworthy.Interval.__name__
'Interval'

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roadworthy.assessment.assess import Run, assess
    from roadworthy.data.items import Audio, Boxes, Episode, Tracks
    from roadworthy.data.load import load
    from roadworthy.data.samples import DataError, Dataset
    from roadworthy.data.values import (
        AUDIO,
        BOXES,
        CLASS_SCORES,
        EPISODE,
        FRAMES,
        GOAL,
        IMAGE,
        LABEL,
        TEXT,
        TRACKS,
        VECTOR,
    )
    from roadworthy.execution.work import Unfinished
    from roadworthy.finding import Finding
    from roadworthy.registry import register
    from roadworthy.spec import SpecError
    from roadworthy.statistics.interval import Interval
    from roadworthy.subject.module import SubjectError, function_module
    from roadworthy.subject.system import System

__version__ = "0.1.0"

_HOME = {
    "AUDIO": "data.values",
    "BOXES": "data.values",
    "CLASS_SCORES": "data.values",
    "EPISODE": "data.values",
    "FRAMES": "data.values",
    "GOAL": "data.values",
    "IMAGE": "data.values",
    "LABEL": "data.values",
    "TEXT": "data.values",
    "TRACKS": "data.values",
    "VECTOR": "data.values",
    "Audio": "data.items",
    "Boxes": "data.items",
    "DataError": "data.samples",
    "Dataset": "data.samples",
    "Episode": "data.items",
    "Finding": "finding",
    "Interval": "statistics.interval",
    "Run": "assessment.assess",
    "SpecError": "spec",
    "SubjectError": "subject.module",
    "System": "subject.system",
    "Tracks": "data.items",
    "Unfinished": "execution.work",
    "assess": "assessment.assess",
    "function_module": "subject.module",
    "load": "data.load",
    "register": "registry",
}
"""Public name -> the module in which it lives."""

__all__ = [
    "AUDIO",
    "BOXES",
    "CLASS_SCORES",
    "EPISODE",
    "FRAMES",
    "GOAL",
    "IMAGE",
    "LABEL",
    "TEXT",
    "TRACKS",
    "VECTOR",
    "Audio",
    "Boxes",
    "DataError",
    "Dataset",
    "Episode",
    "Finding",
    "Interval",
    "Run",
    "SpecError",
    "SubjectError",
    "System",
    "Tracks",
    "Unfinished",
    "__version__",
    "assess",
    "function_module",
    "load",
    "register",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
