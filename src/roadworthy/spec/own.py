"""A user's own transform, measure or supervisor, named in the assessment file as ``mine.py:name``: no package is needed.

The file is read from the folder of the assessment file. A function that is decorated (`register`, `transform`) says by
itself what it is for; a plain one is a transform of images, or a measure of which higher is better that gives one
outcome a case: true or false.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "mine.py").write_text("def darken(image, rng, *, by: float): return image * by")
>>> own_component("transforms", "mine.py:darken", folder).traits["of"]
'image'
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy import registry
from roadworthy.measures.scored import Scored, answered
from roadworthy.registry import Component, RegistryError
from roadworthy.subject.adapters.loading import resolve_path

PLAIN: dict[str, dict[str, Any]] = {
    "transforms": {"of": "image", "tables": {}, "draw": "step"},
    "measures": {"better": "higher", "range": (0, 1)},
    "supervisors": {},
    "failure_estimators": {},
}
"""By type of component: what one says that is not decorated."""


def is_own(name: str) -> bool:
    """Whether a name is that of a file's own component.

    >>> is_own("mine.py:darken"), is_own("contrast")
    (True, False)
    """
    return ".py:" in name


def own_component(room: str, name: str, base: Path) -> Component:
    """Load a component from a file, and make it known by its path and name as `registry.get` finds it."""
    found = resolve_path(name, base)
    known = registry.components(room)
    declared = next((c for c in known.values() if c.build is found.target and c.name != name), None)
    traits = PLAIN[room] if declared is None else declared.traits
    build = found.target if declared or room != "measures" else _counted(found.target)
    own = Component(room, name, build, dict(traits), origin=name.rpartition(":")[0])
    registry.remove(room, name)
    registry.add(own)
    if room == "measures" and declared is None:
        taken = known.get(found.name)
        if taken is not None and not taken.origin.endswith(".py"):
            raise RegistryError(
                f"a measure is called {found.name!r} already; rename yours in {name}"
            )
        registry.remove(room, found.name)
        registry.add(Component(room, found.name, build, dict(traits), own.origin))
    return own


def _counted(function: Callable[..., Any]) -> Callable[..., Scored]:
    """A measure of a function that gives one outcome a case; it is not asked about cases without an answer."""

    def measure(outputs: Any, targets: Any) -> Scored:
        right = np.zeros(len(outputs))  # no answer is wrong
        there = np.flatnonzero(answered(outputs) & bool(getattr(outputs, "size", 1)))
        if len(there):
            given = (
                v[there] if isinstance(v, np.ndarray) else [v[i] for i in there]
                for v in (outputs, targets)
            )
            right[there] = function(*given)
        return Scored.proportion(right)

    measure.__doc__ = function.__doc__ or f"Share of cases for which {function.__name__} is true."
    measure.__module__ = function.__module__
    return measure
