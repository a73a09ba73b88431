"""Distances: 0 between equal values, the same both ways, never negative, values never changed.

A distance between kinds of which no two values can be made up here is tried on equal values alone.

>>> from roadworthy.registry import get
>>> list(the_same_both_ways(get("distances", "iou")))
[]
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from roadworthy.conformance import items
from roadworthy.conformance.rule import Rule
from roadworthy.data.values import KINDS
from roadworthy.registry import REQUIRED, Component, components
from roadworthy.subject.passes import looped

PAIRED = (
    "class_scores label",
    "vector vector",
    "boxes boxes",
    "tracks tracks",
    "text text",
    "episode goal",
)
"""Kinds of which some cases can be made up: of outputs, and of targets."""
TOLERANCE = 1e-9


def declares_what_it_compares(component: Component) -> Iterator[str]:
    """`register("distances", name, of=("boxes",), bounded=True)`; it can be named alone."""
    of, default = component.traits.get("of", ()), component.traits.get("default", ())
    if not isinstance(of, tuple) or not of or any(kind not in KINDS for kind in of):
        yield f"it is of {of!r}; a tuple of kinds was expected, of: {', '.join(KINDS)}"
        return
    if not isinstance(default, tuple) or not set(default) <= set(of):
        yield f"it is the default of {default!r}, which must be a tuple of kinds that it compares: {', '.join(of)}"
    for other in components("distances").values():
        shared = set(default) & set(other.traits.get("default", ()))
        if other.name != component.name and shared:
            yield f"it and {other.name} are both the default between {' and '.join(sorted(shared))}; one can be"
    if component.traits.get("mean", "plain") not in ("plain", "quadratic"):
        yield f"its mean is {component.traits['mean']!r}; plain or quadratic was expected"
    required = [name for name, p in component.parameters.items() if p.default is REQUIRED]
    if required:
        yield f"{' and '.join(required)} has no default; a distance can be named alone"


def equal_values_are_at_distance_zero(component: Component) -> Iterator[str]:
    """Of a value and a copy of it."""
    distance = component.bind()
    for kind, value in _values(component):
        found = distance(value, copy.deepcopy(value))
        if not abs(found) <= TOLERANCE:
            yield f"two equal {kind} are {found!r} apart"
            return


def the_same_both_ways(component: Component) -> Iterator[str]:
    """A distance has no first and second."""
    for distance, kind, one, other in _pairs(component):
        there, back = distance(one, other), distance(other, one)
        if not abs(there - back) <= TOLERANCE:
            yield f"two {kind} are {there:g} apart one way and {back:g} the other"
            return


def gives_a_number_that_is_never_negative(component: Component) -> Iterator[str]:
    """A float, finite, and within [0, 1] where `bounded` says so."""
    bounded = bool(component.traits.get("bounded", False))
    for distance, kind, one, other in _pairs(component):
        found = distance(one, other)
        if not isinstance(found, float) or not np.isfinite(found) or found < 0:
            yield f"two {kind} are {found!r} apart; a finite float, 0 or more, was expected"
            return
        if bounded and found > 1:
            yield f"it is bounded, but two {kind} are {found:g} apart; 1 is the most"
            return


def tells_different_values_apart(component: Component) -> Iterator[str]:
    """Of values that were drawn, some pair of every kind is apart."""
    apart: dict[str, bool] = {}
    for distance, kind, one, other in _pairs(component):
        apart[kind] = apart.get(kind, False) or distance(one, other) > TOLERANCE
    for kind in (kind for kind, some in apart.items() if not some):
        yield f"no two {kind} are apart; larger must be farther"


def values_are_never_changed(component: Component) -> Iterator[str]:
    """Other distances read them too."""
    for distance, kind, one, other in _pairs(component):
        before = copy.deepcopy((one, other))
        distance(one, other)
        if not _same(before, (one, other)):
            yield f"it changed the {kind} that it was given"
            return


def its_closed_form_equals_the_mean_over_pairs(component: Component) -> Iterator[str]:
    """What `closed_form` gave it, of (passes, answer), is what the distances between all of them average to."""
    ratios: Callable[..., np.ndarray] | None = getattr(component.build, "ratios", None)
    rng = np.random.default_rng(5)
    for count, width in itertools.product((1, 2, 7) if ratios else (), (2, 5)):
        passes, answer = rng.normal(size=(count, 9, width)), rng.normal(size=(9, width))
        passes[:, 0], passes[0, 1], answer[0] = 0.0, 0.0, 0.0
        assert ratios is not None
        closed = ratios(passes, answer)
        pairs = looped(component, list(answer), [list(one) for one in passes])
        if closed.shape != (9, 2) or not np.allclose(closed, pairs, rtol=1e-9, atol=1e-9):
            yield f"of {count} passes, its closed form and the mean over pairs differ"


def _values(component: Component) -> Iterator[tuple[str, Any]]:
    """Items of every kind that it compares, those made up for other checks included."""
    for kind in component.traits.get("of", ()):
        for value in (*items.of_kind(kind), *_drawn(kind)):
            yield kind, value


def _pairs(component: Component) -> Iterator[tuple[Callable[..., Any], str, Any, Any]]:
    distance = component.bind()
    for kind in component.traits.get("of", ()):
        for one, other in itertools.combinations(_drawn(kind), 2):
            yield distance, kind, one, other


def _drawn(kind: str) -> list[Any]:
    """Some values of a kind, of one shape where it has any; none of kinds that no case has."""
    for pair in PAIRED:
        output, target = pair.split()
        cases = items.drawn_answers(output, target, seed=0)
        if cases is not None and kind in (output, target):
            return cases.outputs if kind == output else cases.targets
    return []


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, np.ndarray):
        return np.array_equal(before, after)
    if isinstance(before, tuple | list):
        return len(before) == len(after) and all(map(_same, before, after))
    if hasattr(before, "__dataclass_fields__"):
        return _same([*vars(before).values()], [*vars(after).values()])
    return bool(before == after)


RULES: tuple[Rule, ...] = (
    declares_what_it_compares,
    equal_values_are_at_distance_zero,
    the_same_both_ways,
    gives_a_number_that_is_never_negative,
    tells_different_values_apart,
    values_are_never_changed,
    its_closed_form_equals_the_mean_over_pairs,
)
