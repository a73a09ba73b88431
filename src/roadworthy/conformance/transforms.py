"""Transforms: kind, type and shape are kept, inputs never changed, chance is the generator's alone.

>>> from roadworthy.registry import get
>>> list(input_is_never_changed(get("transforms", "gaussian_noise")))
[]
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.cases.transform import Transform, at_level
from roadworthy.conformance.items import of_kind, same
from roadworthy.conformance.rule import Rule, declares_valid_levels, required_parameters
from roadworthy.data.values import KINDS, Audio
from roadworthy.registry import Component


def declares_kind_tables_and_draw(component: Component) -> Iterator[str]:
    """What `transform(name, of=…, tables=…, draw=…)` sets; each row of a table is valid."""
    if component.traits.get("of") not in KINDS:
        yield f"it is of {component.traits.get('of')!r}; one of {', '.join(KINDS)} was expected"
    if component.traits.get("draw") not in ("step", "case"):
        yield f"draw is {component.traits.get('draw')!r}; step or case was expected"
    yield from declares_valid_levels(component)


def level_0_is_the_identity(component: Component) -> Iterator[str]:
    """Nothing is done, whatever the table."""
    still = at_level(component.name, 0)
    for item in of_kind(component.traits["of"]):
        if not same(still.value(item, _generator()), item):
            yield f"level 0 changed {_described(item)}"


def kind_type_and_shape_are_kept(component: Component) -> Iterator[str]:
    """A subject takes what comes out as it takes what went in: float images in [0, 1], waves in
    [-1, 1]."""
    kind = KINDS[component.traits["of"]]
    for transform, item in _tries(component):
        made = transform.value(item, _generator())
        problem = "is missing" if made is None else kind.problem(made)
        if problem:
            yield f"{_at(transform)} on {_described(item)}: what it made {problem}"
            continue
        if _described(made) != _described(item):
            yield f"{_at(transform)} turned {_described(item)} into {_described(made)}"
        values, low = (made.wave, -1.0) if isinstance(made, Audio) else (made, 0.0)
        floats = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.size
        if kind.name in ("image", "audio") and floats:
            least, most = float(values.min()), float(values.max())
            if least < low or most > 1:
                yield f"{_at(transform)}: values from {least:g} to {most:g}, beyond {low:g} to 1"


def input_is_never_changed(component: Component) -> Iterator[str]:
    """The clean case is still needed."""
    for transform, item in _tries(component):
        given = copy.deepcopy(item)
        transform.value(given, _generator())
        if not same(given, item):
            yield f"{_at(transform)} changed its input, {_described(item)}, in place"


def chance_comes_from_the_generator_alone(component: Component) -> Iterator[str]:
    """The same generator gives the same case, on any worker and in any order."""
    for transform, item in _tries(component):
        first = transform.value(item, _generator())
        np.random.default_rng().random()  # an unrelated draw in between
        if not same(first, transform.value(item, _generator())):
            yield f"{_at(transform)} on {_described(item)} gave two results with one generator"


def _tries(component: Component) -> Iterator[tuple[Transform, Any]]:
    """Every level of every table (or the defaults) on every item."""
    tables = component.traits.get("tables", {})
    settings = [
        at_level(component.name, level, table=table)
        for table, rows in tables.items()
        for level in range(1, len(rows) + 1)
    ]
    if not tables and not required_parameters(component):
        settings = [Transform(component.name)]
    for transform in settings:
        for item in of_kind(component.traits["of"]):
            yield transform, item


def _generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(0))


def _at(transform: Transform) -> str:
    if transform.level is None:
        return "with its defaults"
    return f"level {transform.level:g} of {transform.table!r}"


def _described(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"{item.dtype} of shape {item.shape}"
    if isinstance(item, Audio):
        return f"{item.wave.dtype} wave of {len(item.wave)} samples at {item.rate} Hz"
    if isinstance(item, list):
        return f"frames: {', '.join(_described(i) for i in item)}"
    return type(item).__name__


RULES: tuple[Rule, ...] = (
    declares_kind_tables_and_draw,
    level_0_is_the_identity,
    kind_type_and_shape_are_kept,
    input_is_never_changed,
    chance_comes_from_the_generator_alone,
)
