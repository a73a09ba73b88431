"""Distances: 0 between equal values, the same both ways, never negative, values never changed.

A distance between kinds of which no two values can be made up is tried on equal values alone. A
distance between data sets gives a `SetDistance`: sets that moved apart are farther than 0.

>>> from roadworthy.registry import get
>>> list(keeps_the_laws_of_a_distance(get("distances", "iou")))
[]
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.conformance.items import PAIRS, drawn_answers, of_kind, same
from roadworthy.conformance.rule import Rule, required_parameters
from roadworthy.data.values import KINDS
from roadworthy.distances.sets import SetDistance
from roadworthy.registry import Component, components

TOLERANCE = 1e-9
SIDE = 161
"""Pixels of a side that every distance between images must accept (five scales of windows of 11)."""


def declares_what_it_compares(component: Component) -> Iterator[str]:
    """`register("distances", name, of=("boxes",), bounded=True)`; it can be named alone."""
    of, default = component.traits.get("of", ()), component.traits.get("default", ())
    if not isinstance(of, tuple) or not of or any(kind not in KINDS for kind in of):
        yield f"it is of {of!r}; a tuple of kinds was expected, of: {', '.join(KINDS)}"
        return
    if not isinstance(default, tuple) or not set(default) <= set(of):
        yield f"it is the default of {default!r}; some of what it compares was expected: {of!r}"
    for other in components("distances").values():
        shared = set(default) & set(other.traits.get("default", ()))
        if other.name != component.name and shared:
            yield f"{other.name} is the default of {' and '.join(sorted(shared))} already"
    if component.traits.get("mean", "plain") not in ("plain", "quadratic"):
        yield f"its mean is {component.traits['mean']!r}; plain or quadratic was expected"
    if required_parameters(component):
        yield f"{required_parameters(component)} has no default; a distance can be named alone"


def equal_values_are_at_distance_zero(component: Component) -> Iterator[str]:
    """A value and a copy of it."""
    distance = component.bind()
    for kind in component.traits.get("of", ()):
        for value in (*map(_large, of_kind(kind)), *_drawn(kind)):
            found = distance(value, copy.deepcopy(value))
            if not abs(found) <= TOLERANCE:
                yield f"two equal {kind} are {found!r} apart"
                return


def keeps_the_laws_of_a_distance(component: Component) -> Iterator[str]:
    """A finite float, 0 or more, at most 1 if `bounded`, the same both ways; values stay as they are."""
    distance, bounded = component.bind(), bool(component.traits.get("bounded", False))
    for kind, one, other in _pairs(component):
        before = copy.deepcopy((one, other))
        found, back = distance(one, other), distance(other, one)
        if not isinstance(found, float) or not np.isfinite(found) or found < 0:
            yield f"two {kind} are {found!r} apart; a finite float, 0 or more, was expected"
            return
        if bounded and found > 1:
            yield f"it is bounded, but two {kind} are {found:g} apart; 1 is the most"
            return
        if not abs(found - back) <= TOLERANCE:
            yield f"two {kind} are {found:g} apart one way and {back:g} the other"
            return
        if not same(before, (one, other)):
            yield f"it changed the {kind} that it was given"
            return


def separates_different_values(component: Component) -> Iterator[str]:
    """Some pair of values of every kind is apart."""
    distance, apart = component.bind(), dict[str, bool]()
    for kind, one, other in _pairs(component):
        apart[kind] = apart.get(kind, False) or distance(one, other) > TOLERANCE
    for kind in (kind for kind, some in apart.items() if not some):
        yield f"no two {kind} are apart; larger must be farther"


def _pairs(component: Component) -> Iterator[tuple[str, Any, Any]]:
    for kind in component.traits.get("of", ()):
        for one, other in itertools.combinations(_drawn(kind), 2):
            yield kind, one, other


def _drawn(kind: str) -> list[Any]:
    """Some values of a kind, of one shape if it has any; none of kinds that no case has."""
    if kind == "image":
        rng = np.random.default_rng(0)
        return [rng.integers(0, top, (SIDE, SIDE), dtype=np.uint8) for top in (90, 180, 255)]
    for output, target in PAIRS:
        cases = drawn_answers(output, target, seed=0)
        if cases is not None and kind in (output, target):
            return cases.outputs if kind == output else cases.targets
    return []


def _large(value: Any) -> Any:
    """An image repeated until it is large enough; other values as they are."""
    if not isinstance(value, np.ndarray) or value.ndim < 2:
        return value
    times = [-(-SIDE // side) for side in value.shape[:2]]
    return np.tile(value, (*times, 1)[: value.ndim])


def keeps_the_laws_of_a_set_distance(component: Component) -> Iterator[str]:
    """A finite float, 0 or more; it says whether it needs pairs; features stay as they are."""
    if not isinstance(component.traits.get("paired"), bool):
        yield "it does not say paired=True or paired=False"
    rng = np.random.default_rng(0)
    source = rng.normal(size=(12, 3))
    target = 2 + rng.normal(size=(12, 3))
    before = source.copy(), target.copy()
    found = component.bind()(source, target)
    if not isinstance(found, SetDistance) or not isinstance(found.value, float):
        yield f"it gave {found!r}; a SetDistance with a float was expected"
    elif not (np.isfinite(found.value) and found.value > 0):
        yield f"two different sets are {found.value!r} apart; a finite number above 0 was expected"
    if not same(before, (source, target)):
        yield "it changed the features that it was given"


SET_RULES: tuple[Rule, ...] = (keeps_the_laws_of_a_set_distance,)
RULES: tuple[Rule, ...] = (
    declares_what_it_compares,
    equal_values_are_at_distance_zero,
    keeps_the_laws_of_a_distance,
    separates_different_values,
)
