"""How good the output is: one file a task, every measure a registered function that gives a `Scored`.

>>> for_values("boxes", "boxes")
['ap50', 'precision', 'recall']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roadworthy.data.values import Kind

    from .failure import CriterionError, failures
    from .interval import Difference, measure_difference, measure_interval
    from .scored import Scored

_HOME = {
    "CriterionError": "failure",
    "Difference": "interval",
    "Scored": "scored",
    "failures": "failure",
    "measure_difference": "interval",
    "measure_interval": "interval",
}

__all__ = [
    "CriterionError",
    "Difference",
    "Scored",
    "failures",
    "for_values",
    "measure_difference",
    "measure_interval",
]


def for_values(output: Kind | str, target: Kind | str) -> list[str]:
    """Names of the measures that compare an output of one kind with a target of another (kinds or their names)."""
    from roadworthy.registry import components

    wanted = str(output), str(target)
    return [
        name
        for name, c in components("measures").items()
        if tuple(c.traits.get("of", ())) == wanted
    ]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
