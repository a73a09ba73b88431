"""Is this AI system fit for the road, and is it still?

`assess` runs an assessment file, and `Supervised` answers live inputs as its run did. `calibrate`
compiles a table of scores into a bundle, `replay` runs a stream through its monitor, and `Monitor`
takes events or answers one batch at a time.

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
    from roadworthy.assessment.supervised import Supervised
    from roadworthy.cases.maite import MaiteAugmentation
    from roadworthy.data.maite import MaiteDataset
    from roadworthy.data.samples import DataError, Dataset, load
    from roadworthy.data.values import (
        AUDIO,
        BOXES,
        CLASS_SCORES,
        EPISODE,
        FRAMES,
        GOAL,
        IMAGE,
        IMAGES,
        LABEL,
        MASK,
        TEXT,
        TRACKS,
        VECTOR,
        Audio,
        Boxes,
        Episode,
        Tracks,
    )
    from roadworthy.execution.work import Unfinished
    from roadworthy.finding import Finding
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.compile import calibrate
    from roadworthy.monitor.events import Events
    from roadworthy.monitor.monitor import Monitor
    from roadworthy.monitor.replay import Replay, replay
    from roadworthy.registry import register
    from roadworthy.spec import SpecError
    from roadworthy.statistics.interval import Interval
    from roadworthy.subject.module import SubjectError, function_module
    from roadworthy.subject.system import System

__version__ = "0.1.0"

_HOME = {
    "assessment.assess": ("Run", "assess"),
    "assessment.supervised": ("Supervised",),
    "cases.maite": ("MaiteAugmentation",),
    "data.maite": ("MaiteDataset",),
    "data.samples": ("DataError", "Dataset", "load"),
    "data.values": (
        *(
            "AUDIO",
            "BOXES",
            "CLASS_SCORES",
            "EPISODE",
            "FRAMES",
            "GOAL",
            "IMAGE",
            "IMAGES",
            "LABEL",
        ),
        *("MASK", "TEXT", "TRACKS", "VECTOR", "Audio", "Boxes", "Episode", "Tracks"),
    ),
    "execution.work": ("Unfinished",),
    "finding": ("Finding",),
    "monitor.bundle": ("Bundle",),
    "monitor.compile": ("calibrate",),
    "monitor.events": ("Events",),
    "monitor.monitor": ("Monitor",),
    "monitor.replay": ("Replay", "replay"),
    "registry": ("register",),
    "spec": ("SpecError",),
    "statistics.interval": ("Interval",),
    "subject.module": ("SubjectError", "function_module"),
    "subject.system": ("System",),
}
"""Module -> the public names that live in it."""

__all__ = [
    "AUDIO",
    "BOXES",
    "CLASS_SCORES",
    "EPISODE",
    "FRAMES",
    "GOAL",
    "IMAGE",
    "IMAGES",
    "LABEL",
    "MASK",
    "TEXT",
    "TRACKS",
    "VECTOR",
    "Audio",
    "Boxes",
    "Bundle",
    "DataError",
    "Dataset",
    "Episode",
    "Events",
    "Finding",
    "Interval",
    "MaiteAugmentation",
    "MaiteDataset",
    "Monitor",
    "Replay",
    "Run",
    "SpecError",
    "SubjectError",
    "Supervised",
    "System",
    "Tracks",
    "Unfinished",
    "__version__",
    "assess",
    "calibrate",
    "function_module",
    "load",
    "register",
    "replay",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
