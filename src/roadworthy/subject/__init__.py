"""Subjects: AI systems under assessment, as graphs of modules, and the traces they leave.

>>> from roadworthy.subject import System
>>> System.__name__
'System'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .module import Module, SubjectError, function_module
    from .system import Cases, System, single
    from .trace import Trace

_HOME = {
    "Cases": "system",
    "Module": "module",
    "SubjectError": "module",
    "System": "system",
    "Trace": "trace",
    "function_module": "module",
    "single": "system",
}

__all__ = ["Cases", "Module", "SubjectError", "System", "Trace", "function_module", "single"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
