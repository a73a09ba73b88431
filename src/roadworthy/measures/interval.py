"""The interval of a measure, and of the difference of two: the method follows from the measure's shape.

A proportion gets the interval of a proportion, a ratio the jackknife over groups (mapped through its scale,
so the ends of MOTA and RMSE are those of the ratio under it), a free measure the BCa bootstrap over groups.
The interval's method says which. Where a ratio of parts to a whole does not vary at all (every object found),
its cases are counted as one trial each.

>>> from roadworthy.measures.regression import rmse
>>> scored = rmse(np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 2.0, 2.0, 3.0]))
>>> found = interval(scored)
>>> found.contains(scored.value()), found.low
(True, 0.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.measures.scored import Scored
from roadworthy.statistics import Interval

if TYPE_CHECKING:
    from roadworthy.statistics.arguments import Sided

RESAMPLES = 2000
_MIRRORED: dict[str, Sided] = {"two": "two", "lower": "upper", "upper": "lower"}


class Difference(NamedTuple):
    """First minus second, and its interval."""

    value: float
    interval: Interval


def interval(
    scored: Scored,
    groups: Any = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """The interval of a measure's value; `groups` has one label a case, and `rng` is used by a bootstrap alone."""
    from roadworthy import statistics

    if np.isnan(scored.value()):
        return Interval(*scored.limits, confidence, "none: the measure is not defined on these cases")
    if scored.shape == "proportion":
        return statistics.clustered_proportion(_counted(scored), groups, confidence=confidence, sided=sided)
    if scored.shape == "ratio":
        return _of_ratio(scored, groups, confidence, sided)
    found = statistics.bootstrap(
        scored.value,
        len(scored),
        groups,
        confidence=confidence,
        sided=sided,
        resamples=resamples,
        rng=_needed(rng),
    )
    return _within(found, scored.limits)


def difference(
    first: Scored,
    second: Scored,
    groups: Any = None,
    *,
    paired: bool,
    second_groups: Any = None,
    confidence: float = 0.95,
    sided: Sided = "two",
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
) -> Difference:
    """First minus second with its interval: on the same cases in the same order (`paired`), or on different ones.

    >>> right = np.array([1.0, 1.0, 1.0, 0.0])
    >>> difference(Scored.proportion(right), Scored.proportion(right[::-1]), paired=True).value
    0.0
    """
    from roadworthy import statistics

    _check_alike(first, second, paired)
    value = first.value() - second.value()
    limits = (first.limits[0] - second.limits[1], first.limits[1] - second.limits[0])
    if np.isnan(value):
        return Difference(value, Interval(*limits, confidence, "none: a measure is not defined on its cases"))
    options: dict[str, Any] = {"confidence": confidence, "sided": sided}
    if first.shape == "proportion":
        parts = _counted(first), _counted(second)
        found = (
            statistics.paired_difference(*parts, groups, **options)
            if paired
            else statistics.difference(*parts, groups, second_groups, **options)
        )
        return Difference(value, found)
    options |= {"resamples": resamples, "rng": _needed(rng)}
    if paired:
        found = statistics.bootstrap(lambda w: first.value(w) - second.value(w), len(first), groups, **options)
        return Difference(value, _within(_renamed(found, f"paired {found.method}"), limits))
    split = len(first)
    found = statistics.bootstrap(
        lambda w: first.value(w[:split]) - second.value(w[split:]),
        split + len(second),
        _apart(first, groups, second, second_groups),
        **options,
    )
    return Difference(value, _within(_renamed(found, f"two samples, {found.method}"), limits))


def _counted(scored: Scored) -> np.ndarray:
    """The 0/1 outcomes whose mean a proportion is."""
    assert scored.numerator is not None
    return scored.numerator


def _of_ratio(scored: Scored, groups: Any, confidence: float, sided: Sided) -> Interval:
    from roadworthy import statistics

    above, below = scored.numerator, scored.denominator
    assert above is not None and below is not None
    is_share = scored.scale is None and scored.limits == (0.0, 1.0)
    if is_share and ((above == below).all() or not above.any()):
        exposed = below > 0
        labels = None if groups is None else np.asarray(groups)[exposed]
        outcomes = (above[exposed] > 0).astype(np.float64)
        found = statistics.clustered_proportion(outcomes, labels, confidence=confidence, sided=sided)
        return _renamed(found, f"ratio that does not vary, each case as one trial: {found.method}")
    falling = scored.scale is not None and scored.scale(1.0) < scored.scale(0.25)
    inner = _MIRRORED[sided] if falling else sided
    found = statistics.ratio(above, below, groups, confidence=confidence, sided=inner)
    return _within(_scaled(found, scored, falling), scored.limits)


def _scaled(found: Interval, scored: Scored, falling: bool) -> Interval:
    if scored.scale is None:
        return found
    # Numerators and denominators are not below 0, so no ratio is.
    ends = scored.scale(max(found.low, 0.0)), scored.scale(max(found.high, 0.0))
    low, high = reversed(ends) if falling else ends
    return Interval(low, high, found.confidence, f"{found.method}, mapped to the measure")


def _within(found: Interval, limits: tuple[float, float]) -> Interval:
    low, high = (min(max(end, limits[0]), limits[1]) for end in (found.low, found.high))
    return Interval(low, high, found.confidence, found.method)


def _renamed(found: Interval, method: str) -> Interval:
    return Interval(found.low, found.high, found.confidence, method)


def _apart(first: Scored, groups: Any, second: Scored, second_groups: Any) -> np.ndarray:
    """Group labels of both samples, told apart: the samples are independent of each other."""
    columns = [
        (mark, np.arange(len(scored)) if labels is None else np.asarray(labels))
        for mark, scored, labels in (("1", first, groups), ("2", second, second_groups))
    ]
    return np.array([f"{mark}:{label}" for mark, labels in columns for label in labels])


def _needed(rng: np.random.Generator | None) -> np.random.Generator:
    if rng is None:
        raise ValueError(
            "this interval is a bootstrap and needs rng, a numpy Generator made from the run's seed, "
            "for example np.random.default_rng(seed)"
        )
    return rng


def _check_alike(first: Scored, second: Scored, paired: bool) -> None:
    if (first.shape, first.better) != (second.shape, second.better):
        raise ValueError(
            f"a difference needs one measure on both sides, but the first is a {first.shape} ({first.better} is better) "
            f"and the second a {second.shape} ({second.better} is better)"
        )
    if paired and len(first) != len(second):
        raise ValueError(
            f"a paired difference needs the same cases on both sides, but there are {len(first)} and {len(second)}; "
            "take the common cases, or say paired=False"
        )
