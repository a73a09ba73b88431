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

from roadworthy.cases.transform import Transform, at_level, every_level
from roadworthy.conformance.items import of_kind, same
from roadworthy.conformance.rule import Rule, declares_valid_levels, required_parameters
from roadworthy.data.values import BOXES, IMAGE, KINDS, TRACKS, Audio
from roadworthy.registry import Component


def declares_kind_tables_and_draw(component: Component) -> Iterator[str]:
    """What `transform(name, of=…, tables=…, draw=…)` sets; each row of a table is valid."""
    if component.traits.get("of") not in KINDS:
        yield f"it is of {component.traits.get('of')!r}; one of {', '.join(KINDS)} was expected"
    if component.traits.get("draw") not in ("step", "case"):
        yield f"draw is {component.traits.get('draw')!r}; step or case was expected"
    yield from declares_valid_levels(component)
    if "identity" in component.traits:
        try:
            component.check(component.traits["identity"])
        except ValueError as error:
            yield f"the identity: {str(error).splitlines()[0]}"


def level_0_is_the_identity(component: Component) -> Iterator[str]:
    """Nothing is done, whatever the table."""
    still = at_level(component.name, 0)
    for item in of_kind(component.traits["of"]):
        if not same(still.value(item, _generator()), item):
            yield f"level 0 changed {_described(item)}"
        if "identity" in component.traits:
            made = Transform(component.name, component.traits["identity"]).value(item, _generator())
            if not _alike(made, item):
                yield f"its identity {component.traits['identity']} changed {_described(item)}"


def kind_type_and_shape_are_kept(component: Component) -> Iterator[str]:
    """A subject takes what comes out as it takes what went in: float images in [0, 1], waves in
    [-1, 1]. With the trait `changes_shape` the length is free; with `gives_nan` values of a vector
    may be missing."""
    kind = KINDS[component.traits["of"]]
    free, gaps = (bool(component.traits.get(t)) for t in ("changes_shape", "gives_nan"))
    for transform, item in _tries(component):
        made = transform.value(item, _generator())
        known = np.nan_to_num(made) if gaps and made is not None else made
        problem = "is missing" if made is None else kind.problem(known)
        if problem:
            yield f"{_at(transform)} on {_described(item)}: what it made {problem}"
            continue
        if _described(made, free) != _described(item, free):
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


def targets_move_only_with_the_picture(component: Component) -> Iterator[str]:
    """Boxes, tracks and masks keep their kind and number, and are never changed in place."""
    if component.traits["of"] != IMAGE.name:
        return
    shape = (24, 33)
    targets = [*of_kind("boxes"), *of_kind("tracks"), np.arange(24 * 33).reshape(shape)]
    for transform in _settings(component):
        for target in targets:
            given = copy.deepcopy(target)
            moved = transform.carried(given, shape, 0, "case")
            if not same(given, target):
                yield f"{_at(transform)} changed {_described(target)} in place"
            if not component.traits.get("geometry") and not same(moved, target):
                yield f"{_at(transform)} moved {_described(target)}, but declares no geometry"
            kind = {"Boxes": BOXES, "Tracks": TRACKS}.get(type(target).__name__)
            problem = kind.problem(moved) if kind else None
            if problem or _described(moved) != _described(target):
                yield f"{_at(transform)} turned {_described(target)} into {_described(moved)}, which {problem}"
            elif kind is BOXES and len(moved) != len(target):
                yield f"{_at(transform)} turned {len(target)} boxes into {len(moved)}"


def _settings(component: Component) -> list[Transform]:
    lacking = not component.traits.get("tables") and required_parameters(component)
    return [] if lacking else every_level(component.name)


def _tries(component: Component) -> Iterator[tuple[Transform, Any]]:
    """Every setting on every item."""
    for transform in _settings(component):
        for item in of_kind(component.traits["of"]):
            yield transform, item


def _alike(made: Any, item: Any) -> bool:
    """Equal, or pixels apart by less than half a grey level of 255."""
    if not isinstance(item, np.ndarray) or item.shape != made.shape:
        return same(made, item)
    apart = np.abs(made.astype(float) - item).max()
    return bool(apart * 510 < (1 if item.dtype.kind == "f" else np.iinfo(item.dtype).max))


def _generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(0))


def _at(transform: Transform) -> str:
    if transform.level is None:
        return "with its defaults"
    return f"level {transform.level:g} of {transform.table!r}"


def _described(item: Any, any_length: bool = False) -> str:
    if isinstance(item, np.ndarray):
        return f"{item.dtype} of shape {item.shape[any_length:]}"
    if isinstance(item, Audio):
        return f"wave at {item.rate} Hz, {_described(item.wave, any_length)}"
    if isinstance(item, list):
        return f"frames: {', '.join(_described(i) for i in item)}"
    return type(item).__name__


RULES: tuple[Rule, ...] = (
    declares_kind_tables_and_draw,
    level_0_is_the_identity,
    kind_type_and_shape_are_kept,
    input_is_never_changed,
    chance_comes_from_the_generator_alone,
    targets_move_only_with_the_picture,
)
