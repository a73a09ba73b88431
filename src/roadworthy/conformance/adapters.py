"""Adapters: ways in for a subject. They take the path that the file names, the file's folder and the task.

>>> from roadworthy.registry import get
>>> list(takes_path_base_and_task(get("adapters", "python")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator

from roadworthy.conformance.rule import Rule
from roadworthy.registry import REQUIRED, Component

GIVEN = ("path", "base", "task")


def takes_path_base_and_task(component: Component) -> Iterator[str]:
    """Execution hands in exactly these; whatever else is required, the file must be able to give."""
    missing = [name for name in GIVEN if name not in component.parameters]
    if missing:
        yield f"it does not take {' and '.join(missing)}; an adapter is build(*, path, base, task, …) -> System"
    for name in ("base", "task"):
        if name in component.parameters and component.parameters[name].default is not REQUIRED:
            yield f"{name} has a default; execution always gives it"


RULES: tuple[Rule, ...] = (takes_path_base_and_task,)
