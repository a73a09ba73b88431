"""Sources of invalid inputs: shape, type and range are kept, and nothing else is read of an image.

>>> from roadworthy.registry import get
>>> list(draws_from_the_generator_alone(get("sources", "blank")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.conformance.items import of_kind, same
from roadworthy.conformance.rule import Rule, declares_valid_levels
from roadworthy.data.values import IMAGE
from roadworthy.registry import Component


def shape_type_and_range_are_kept(component: Component) -> Iterator[str]:
    """A subject takes what comes out as it takes its own images."""
    for like in _likes(component):
        made = _drawn(component, like)
        if IMAGE.problem(made):
            yield f"what it made {IMAGE.problem(made)}"
        elif made.shape != like.shape or made.dtype != like.dtype:
            yield f"like {like.dtype} {like.shape} it made {made.dtype} {made.shape}"
        elif made.dtype.kind == "f" and not (made.min() >= 0 and made.max() <= 1):
            yield f"pixels from {made.min():g} to {made.max():g}; 0 to 1 was expected"


def draws_from_the_generator_alone(component: Component) -> Iterator[str]:
    """The same generator gives the same image; no pixel comes from a valid one, or is changed in it."""
    for like in _likes(component):
        given = like.copy()
        made = _drawn(component, given)
        if not same(given, like):
            yield "it changed its argument in place"
        if not same(made, _drawn(component, like)):
            yield "it made two images with one generator"
        if not same(made, _drawn(component, np.zeros_like(like))):
            yield "what it makes depends on the pixels of its argument"


def _likes(component: Component) -> tuple[Any, ...]:
    # One that learns draws a data set, which is checked as any data.
    return () if "learned_from" in component.traits else of_kind("image")


def _drawn(component: Component, like: np.ndarray) -> Any:
    return component.bind()(like, np.random.Generator(np.random.Philox(0)))


RULES: tuple[Rule, ...] = (
    declares_valid_levels,
    shape_type_and_range_are_kept,
    draws_from_the_generator_alone,
)
