"""Rules for estimators of a cell's failure probability: a known answer, and a subject that never fails.

>>> from roadworthy.registry import get
>>> list(finds_nothing_where_nothing_fails(get("failure_estimators", "monte_carlo")))
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.conformance.rule import Rule, required_parameters
from roadworthy.registry import Component
from roadworthy.search.failures import CellEstimates
from roadworthy.search.laws import UniformBox

CELLS, TRUTH = 40, 0.02
ENOUGH = 30  # of 40 intervals: fewer hold the truth by chance 3 times in a million


def can_be_named_alone(component: Component) -> Iterator[str]:
    """It needs no further parameter, and takes a confidence."""
    if required_parameters(component):
        yield f"{required_parameters(component)} has no default"
    if "confidence" not in component.parameters:
        yield "it takes no confidence; expected (margin, law, rng, *, confidence) -> CellEstimates"


def finds_a_known_probability(component: Component) -> Iterator[str]:
    """A half-space of 2%, the same in 40 cells; the generator alone decides what is drawn."""
    found, same, other, surer = (
        _estimates(component, lambda x, cells: x[..., 0] - (1 - TRUTH), confidence, seed)
        for confidence, seed in ((0.95, 0), (0.95, 0), (0.95, 1), (0.99, 0))
    )
    yield from _errors(found)
    inside = int(((found.low <= TRUTH) & (found.high >= TRUTH)).sum())
    if inside < ENOUGH:
        yield f"{inside} of {CELLS} intervals of 95% hold the truth {TRUTH}; expected {ENOUGH}"
    if not found.found.any() or not (found.high[found.found] < 1).all():
        yield "it finds no failures, or nothing about how often they come"
    if not (surer.high - surer.low).mean() > (found.high - found.low).mean():
        yield "intervals of 99% are not wider than those of 95%"
    if not np.array_equal(found.probability, same.probability):
        yield "two calls with the same generator differ"
    if np.array_equal(found.probability, other.probability):
        yield "two calls with different generators are the same; draw from `rng`"


def finds_nothing_where_nothing_fails(component: Component) -> Iterator[str]:
    """An upper bound takes the place of the estimate; neither it nor the variance is 0."""
    for curved in (1, 0):
        found = _estimates(component, lambda x, cells, a=curved: -1 - a * x[..., 0] ** 2, 0.95, 0)
        yield from _errors(found)
        if found.found.any():
            yield "it finds failures of a subject that never fails"
        elif not (found.probability == found.high).all() or found.low.any():
            yield "it found no failure; expected 0 as `low`, and the upper bound as `probability`"


def _errors(found: CellEstimates) -> Iterator[str]:
    """What is wrong with estimates whatever the truth is."""
    if not isinstance(found, CellEstimates) or any(np.shape(c) != (CELLS,) for c in found[:6]):
        yield f"it gave {type(found).__name__}; expected CellEstimates of {CELLS} entries each"
        return
    value, low, high = found[:3]
    if not ((low >= 0) & (low <= value) & (value <= high) & (high <= 1)).all():
        yield "a probability lies outside its interval, or the interval outside [0, 1]"
    if not ((found.variance > 0) & (high > 0) & (found.queries > 0)).all():
        yield "a variance, an upper bound or a number of queries is 0"


def _estimates(component: Component, margin: Any, confidence: float, seed: int) -> Any:
    import torch

    law = UniformBox(torch.zeros(CELLS, 2), torch.ones(CELLS, 2))
    return component.build(margin, law, np.random.default_rng(seed), confidence=confidence)


RULES: tuple[Rule, ...] = (
    can_be_named_alone,
    finds_a_known_probability,
    finds_nothing_where_nothing_fails,
)
