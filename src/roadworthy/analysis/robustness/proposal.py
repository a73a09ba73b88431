"""Proposals for epsilon, and the level at which the relation breaks (Wozniak et al. 2024, 7.2.1).

Practitioners find it hard to state epsilon and test under rising load instead. Two proposals come
from measured points (distance, loss and its upper bound). From a load test of the subject: flat up
to the knee of the curve, the point farthest below the chord from no change to the last level, then
linear through the upper bounds. From a reference (another model, annotators): through its upper
bounds. Neither falls. A proposal describes what was measured, not what is tolerable; it is not used
unless a person adopts it.

>>> rows = [(1, 0.1, 0.01, 0.02), (2, 0.2, 0.02, 0.03), (3, 0.4, 0.3, 0.35)]
>>> found = from_load_test([LoadPoint(*row) for row in rows])
>>> found.knee.level, found.epsilon(0.15), round(found.epsilon(0.3), 3), found.epsilon(0.5)
(2, 0.03, 0.19, None)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from roadworthy.analysis.robustness.relation import TOLERANCE, Epsilon


class LoadPoint(NamedTuple):
    """What was measured at one level."""

    level: float
    d: float
    loss: float
    high: float
    """The upper bound of the loss."""


class EpsilonProposal(NamedTuple):
    """An epsilon that a person may adopt; never in force by itself."""

    epsilon: Epsilon
    basis: str
    """In words: which measurements it is made of."""
    knee: LoadPoint | None


def from_load_test(points: Sequence[LoadPoint]) -> EpsilonProposal:
    """Flat up to the knee at the upper bound there, then linear through the upper bounds."""
    curve = _by_distance(points)
    bend = _knee(curve)
    basis = f"proposal from a load test of {len(curve)} levels"
    if bend is None:
        return EpsilonProposal(_through(curve), f"{basis}, without a knee", None)
    basis += f", knee at level {curve[bend].level:g}"
    return EpsilonProposal(_through(curve[bend:], curve[:bend]), basis, curve[bend])


def from_reference(points: Sequence[LoadPoint], name: str) -> EpsilonProposal:
    """Through the upper bounds of the loss of a reference model, or of annotators."""
    curve = _by_distance(points)
    basis = f"proposal from the upper bounds of {name} at {len(curve)} levels"
    return EpsilonProposal(_through(curve), basis, None)


def _by_distance(points: Sequence[LoadPoint]) -> list[LoadPoint]:
    """By rising distance; of points at the same distance the one with the higher bound."""
    for point in points:
        if not (point.d >= 0 and math.isfinite(point.d) and math.isfinite(point.high)):
            raise ValueError(
                f"level {point.level:g} has distance {point.d} and upper bound {point.high}; "
                "expected finite numbers: leave the level out, or draw more resamples"
            )
    highest = {p.d: p for p in sorted(points, key=lambda p: p.high) if p.d > 0}
    if not highest:
        raise ValueError("no level has a distance above 0; a proposal needs at least one")
    return [highest[d] for d in sorted(highest)]


def _knee(curve: Sequence[LoadPoint]) -> int | None:
    """The point farthest below the chord, which begins at no distance and no loss."""
    last = curve[-1]
    # Distances to the chord are in the ratio of heights below it.
    below = [last.loss * p.d / last.d - p.loss for p in curve[:-1]]
    best = max(range(len(below)), key=below.__getitem__, default=None)
    return best if best is not None and below[best] > 1e-9 else None


def _through(curve: Sequence[LoadPoint], before: Sequence[LoadPoint] = ()) -> Epsilon:
    """Flat up to the first point, then from point to point; it never falls and is never below 0."""
    height = max(0.0, *(p.high for p in [*before, curve[0]]))
    rows, at = [(curve[0].d, 0.0, height)], curve[0].d
    for point in curve[1:]:
        higher = max(height, point.high)
        slope = (higher - height) / (point.d - at)
        rows.append((point.d, slope, height - slope * at))
        at, height = point.d, higher
    return Epsilon.of(rows)


class BreakingLevel(NamedTuple):
    """Between which levels the relation begins to break."""

    holds: float
    """The highest level below `breaks` that was tried and holds; 0 if the first one breaks."""
    breaks: float | None
    """The lowest level that was tried and breaks; None if none does where epsilon is covered."""


def crossing(margins: Mapping[float, float]) -> BreakingLevel:
    """Where the margin epsilon(d) - loss first falls below 0, of the levels tried.

    NaN (not covered by epsilon) ends the scan. A break between two levels that hold is not seen.

    >>> crossing({1: 0.2, 3: -0.1, 2: 0.1})
    BreakingLevel(holds=2.0, breaks=3.0)
    """
    holds = 0.0
    for level in sorted(margins):
        if math.isnan(margins[level]):
            break
        if margins[level] < -TOLERANCE:
            return BreakingLevel(holds, float(level))
        holds = float(level)
    return BreakingLevel(holds, None)


def smallest_breaking(
    levels: Sequence[float], margin: Callable[[float], float], *, halvings: int = 4
) -> BreakingLevel:
    """Try all levels, then halve the gap before the first that breaks.

    >>> smallest_breaking([1, 2, 3], lambda level: 2.3 - level)
    BreakingLevel(holds=2.25, breaks=2.3125)
    """
    if not levels or min(levels) <= 0:
        raise ValueError("expected levels above 0")
    margins = {float(level): margin(level) for level in levels}
    for _ in range(halvings):
        found = crossing(margins)
        if found.breaks is None:
            break
        middle = (found.holds + found.breaks) / 2
        margins[middle] = margin(middle)
    return crossing(margins)
