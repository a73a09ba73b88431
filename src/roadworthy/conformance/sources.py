"""Sources of invalid inputs: shape, type and range are kept, and nothing else is read of an image.

>>> from roadworthy.registry import get
>>> list(pixels_of_like_are_not_read(get("sources", "blank")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from roadworthy.conformance.items import of_kind, same
from roadworthy.conformance.rule import Rule, required_parameters
from roadworthy.data.values import IMAGE
from roadworthy.registry import Component


def has_defaults(component: Component) -> Iterator[str]:
    """A source is named without parameters."""
    if required_parameters(component):
        yield f"{required_parameters(component)} has no default"


def shape_type_and_range_are_kept(component: Component) -> Iterator[str]:
    """A subject takes what comes out as it takes its own images."""
    for like in of_kind("image"):
        made = component.bind()(like, _generator())
        problem = "is missing" if made is None else IMAGE.problem(made)
        if problem:
            yield f"what it made {problem}"
        elif made.shape != like.shape or made.dtype != like.dtype:
            yield f"like {_described(like)} it made {_described(made)}"
        elif made.dtype.kind == "f" and not (made.min() >= 0 and made.max() <= 1):
            yield f"pixels from {made.min():g} to {made.max():g}; 0 to 1 was expected"


def draws_from_the_generator_alone(component: Component) -> Iterator[str]:
    """The same generator gives the same image, on any worker and in any order."""
    for like in of_kind("image"):
        source = component.bind()
        if not same(source(like, _generator()), source(like, _generator())):
            yield f"like {_described(like)} it made two images with one generator"


def pixels_of_like_are_not_read(component: Component) -> Iterator[str]:
    """Content must not come from a valid image, which must not be changed either."""
    for like in of_kind("image"):
        source, given = component.bind(), like.copy()
        made = source(given, _generator())
        if not same(given, like):
            yield f"it changed its argument, {_described(like)}, in place"
        if not same(made, source(np.zeros_like(like), _generator())):
            yield f"what it makes depends on the pixels of {_described(like)}"


def _generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(0))


def _described(image: np.ndarray) -> str:
    return f"{image.dtype} of shape {image.shape}"


RULES: tuple[Rule, ...] = (
    has_defaults,
    shape_type_and_range_are_kept,
    draws_from_the_generator_alone,
    pixels_of_like_are_not_read,
)
