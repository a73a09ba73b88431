"""Transforms: kind, type and shape are kept, the input is never changed, and chance comes from the generator alone.

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
from roadworthy.conformance.items import of_kind
from roadworthy.conformance.rule import Rule
from roadworthy.data.values import KINDS, Audio
from roadworthy.registry import REQUIRED, Component


def declares_kind_tables_and_draw(component: Component) -> Iterator[str]:
    """What `transform(name, of=…, tables=…, draw=…)` sets."""
    if component.traits.get("of") not in KINDS:
        yield f"it is of {component.traits.get('of')!r}; one of {', '.join(KINDS)} was expected"
    if component.traits.get("draw") not in ("step", "case"):
        yield f"draw is {component.traits.get('draw')!r}; step or case was expected"
    if not component.traits.get("tables") and _required(component):
        yield f"it has no table of levels, and {' and '.join(_required(component))} has no default: nothing can be tried"


def every_level_of_every_table_is_valid(component: Component) -> Iterator[str]:
    """Each row of a table gives its parameters, all of them, within their types."""
    for table, rows in component.traits.get("tables", {}).items():
        for level, row in enumerate(rows, start=1):
            try:
                component.check(row)
            except ValueError as error:
                yield f"level {level} of the table {table!r}: {str(error).splitlines()[0]}"


def level_0_is_the_identity(component: Component) -> Iterator[str]:
    """Nothing is done, whatever the table."""
    still = at_level(component.name, 0)
    for item in _items(component):
        if not _same(still.value(item, _generator()), item):
            yield f"level 0 changed {_described(item)}"


def kind_type_and_shape_are_kept(component: Component) -> Iterator[str]:
    """A subject takes what comes out as it takes what went in."""
    kind = KINDS[component.traits["of"]]
    for transform, item in _tries(component):
        made = transform.value(item, _generator())
        problem = "is missing" if made is None else kind.problem(made)
        if problem:
            yield f"{_at(transform)} on {_described(item)}: what it made {problem}"
        elif _described(made) != _described(item):
            yield f"{_at(transform)} turned {_described(item)} into {_described(made)}"


def values_stay_in_range(component: Component) -> Iterator[str]:
    """Float images in [0, 1], waves in [-1, 1]."""
    for transform, item in _tries(component):
        made = transform.value(item, _generator())
        low, high, values = 0.0, 1.0, made
        if isinstance(made, Audio):
            low, values = -1.0, made.wave
        floats = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.size > 0
        if (
            component.traits["of"] in ("image", "audio")
            and floats
            and not (low <= values.min() <= values.max() <= high)
        ):
            yield f"{_at(transform)}: values from {values.min():g} to {values.max():g}; {low:g} to {high:g} was expected"


def input_is_never_changed(component: Component) -> Iterator[str]:
    """The clean case is still needed."""
    for transform, item in _tries(component):
        given = copy.deepcopy(item)
        transform.value(given, _generator())
        if not _same(given, item):
            yield f"{_at(transform)} changed its input, {_described(item)}, in place"


def chance_comes_from_the_generator_alone(component: Component) -> Iterator[str]:
    """The same generator gives the same case, on any worker and in any order."""
    for transform, item in _tries(component):
        first = transform.value(item, _generator())
        np.random.default_rng().random()  # an unrelated draw in between
        if not _same(first, transform.value(item, _generator())):
            yield f"{_at(transform)} on {_described(item)} gave two results with one generator"


def another_generator_gives_another_case(component: Component) -> Iterator[str]:
    """Unless nothing is drawn at all: then it is deterministic."""
    drew = differed = False
    for transform, item in _tries(component):
        results = []
        for seed in range(6):
            rng = _generator(seed)
            before = rng.bit_generator.state
            results.append(transform.value(item, rng))
            drew |= not _same(_flat(before), _flat(rng.bit_generator.state))
        differed |= not all(_same(results[0], r) for r in results[1:])
    if drew and not differed:
        yield "it draws from its generator, and yet six generators gave the same results everywhere"


def _tries(component: Component) -> Iterator[tuple[Transform, Any]]:
    """Every level of every table (or the defaults) on every item."""
    tables = component.traits.get("tables", {})
    settings = [
        at_level(component.name, i + 1, table=t)
        for t, rows in tables.items()
        for i in range(len(rows))
    ]
    if not tables and not _required(component):
        settings = [Transform(component.name)]
    for transform in settings:
        for item in _items(component):
            yield transform, item


def _items(component: Component) -> tuple[Any, ...]:
    return of_kind(component.traits["of"])


def _required(component: Component) -> list[str]:
    return [name for name, p in component.parameters.items() if p.default is REQUIRED]


def _generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def _at(transform: Transform) -> str:
    return (
        f"level {transform.level:g} of {transform.table!r}"
        if transform.level is not None
        else "with its defaults"
    )


def _described(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"{item.dtype} of shape {item.shape}"
    if isinstance(item, Audio):
        return f"{item.wave.dtype} wave of {len(item.wave)} samples at {item.rate} Hz"
    if isinstance(item, list):
        return f"frames: {', '.join(_described(i) for i in item)}"
    return type(item).__name__


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and np.array_equal(a, b)
        )
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(_same, a, b))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(
            _same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__
        )
    return bool(a == b)


def _flat(state: Any) -> list[Any]:
    return [
        v
        for value in state.values()
        for v in (_flat(value) if isinstance(value, dict) else [value])
    ]


RULES: tuple[Rule, ...] = (
    declares_kind_tables_and_draw,
    every_level_of_every_table_is_valid,
    level_0_is_the_identity,
    kind_type_and_shape_are_kept,
    values_stay_in_range,
    input_is_never_changed,
    chance_comes_from_the_generator_alone,
    another_generator_gives_another_case,
)
