"""Differences between two systems: on the same cases (paired) and on different ones.

Paired 0/1 outcomes use Tango's score interval (Statistics in Medicine 1998), which stays sensible without a
single discordant pair; with groups its counts shrink to their effective size. Unpaired proportions combine
two Wilson intervals (Newcombe 1998, method 10); means use Welch's t. `difference` takes its two samples as
independent: groups with the same label on both sides are different groups.

>>> same = [True] * 40
>>> interval = paired_difference(same, same)
>>> round(interval.low, 3), round(interval.high, 3)
(-0.088, 0.088)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .arguments import (
    Floats,
    Sided,
    group_codes,
    is_binary,
    open_sides,
    real_values,
    same_length,
    tail_probability,
)
from .clusters import cluster_design, clustered_proportion, discounted_size
from .interval import Interval
from .mean import mean, mean_variance, student_interval, whole_line


def _tango_statistic(delta: float, gain: float, loss: float, n: float) -> float:
    """Tango's z for P(first only) - P(second only) = delta, given the discordant counts."""
    b = -gain - loss + (2.0 * n - gain + loss) * delta
    c = -loss * delta * (1.0 - delta)
    nuisance = (math.sqrt(max(b * b - 8.0 * n * c, 0.0)) - b) / (4.0 * n)
    variance = n * (2.0 * nuisance + delta * (1.0 - delta))
    distance = gain - loss - n * delta
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _tango_end(z: float, gain: float, loss: float, n: float) -> float:
    """The delta whose statistic is z; the statistic falls as delta grows."""
    low, high = -1.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if _tango_statistic(middle, gain, loss, n) > z:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _tango(gain: float, loss: float, n: float, tail: float, sided: Sided) -> tuple[float, float]:
    from scipy.special import ndtri

    z = float(-ndtri(tail))
    low = -1.0 if sided == "upper" else _tango_end(z, gain, loss, n)
    # Swapping the systems mirrors the interval exactly, rounding included.
    high = 1.0 if sided == "lower" else -_tango_end(z, loss, gain, n)
    return low, high


def _paired_binary(
    first: Floats, second: Floats, groups: ArrayLike | None, confidence: float, sided: Sided
) -> Interval:
    tail = tail_probability(confidence, sided)
    change = first - second
    codes, count = group_codes(groups, len(change))
    if count == 1 and len(change) > 1:
        return Interval(-1.0, 1.0, float(confidence), "tango, one group: no bound without a second group")
    design = cluster_design(change, codes, count)
    size, label = design.effective_n, "tango"
    if not design.distinct and not design.constant:
        size = discounted_size(size, design.freedom, tail)
        label = f"tango, {count} groups, effective n {design.effective_n:.1f}, t with {design.freedom:.1f} df"
    elif not design.distinct:
        label = f"tango, {count} groups, equal differences: each group counts as one case"
    gain, loss = float(np.mean(change > 0)) * size, float(np.mean(change < 0)) * size
    low, high = _tango(gain, loss, size, tail, sided)
    return Interval(low, high, float(confidence), label)


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for the mean of first - second over the same cases."""
    ours, theirs = real_values(first, "first"), real_values(second, "second")
    same_length(ours, theirs, "first and second")
    if is_binary(ours) and is_binary(theirs):
        return _paired_binary(ours, theirs, groups, confidence, sided)
    interval = mean(ours - theirs, groups, confidence=confidence, sided=sided)
    return Interval(interval.low, interval.high, interval.confidence, f"paired, {interval.method}")


def mover(
    estimates: tuple[float, float], first: Interval, second: Interval, *, correlation: float = 0.0
) -> tuple[float, float]:
    """Ends of a difference from the ends of its parts (method of variance estimates recovery, Zou 2008)."""
    a, b = estimates
    down, up = (a - first.low, second.high - b), (first.high - a, b - second.low)

    def reach(x: float, y: float) -> float:
        return math.sqrt(max(x * x - 2.0 * correlation * x * y + y * y, 0.0))

    return max(-1.0, a - b - reach(*down)), min(1.0, a - b + reach(*up))


def two_sided_level(confidence: float, sided: Sided) -> float:
    """The two-sided confidence whose tails are those of the sided interval."""
    level = 1.0 - 2.0 * tail_probability(confidence, sided)
    if level <= 0.0:
        raise ValueError(f"a one-sided bound on a difference needs confidence > 0.5, found {confidence!r}")
    return level


def _proportions(
    first: Floats,
    second: Floats,
    groups: tuple[ArrayLike | None, ArrayLike | None],
    confidence: float,
    sided: Sided,
) -> Interval:
    level = two_sided_level(confidence, sided)
    parts = [
        clustered_proportion(values, group, confidence=level)
        for values, group in zip((first, second), groups, strict=True)
    ]
    low, high = mover((float(first.mean()), float(second.mean())), parts[0], parts[1])
    low, high = open_sides(low, high, sided, least=-1.0, most=1.0)
    return Interval(low, high, float(confidence), f"newcombe ({parts[0].method}; {parts[1].method})")


def difference(
    first: ArrayLike,
    second: ArrayLike,
    first_groups: ArrayLike | None = None,
    second_groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for mean(first) - mean(second) over different cases."""
    tail_probability(confidence, sided)
    ours, theirs = real_values(first, "first"), real_values(second, "second")
    if is_binary(ours) and is_binary(theirs):
        return _proportions(ours, theirs, (first_groups, second_groups), confidence, sided)
    parts = [mean_variance(ours, first_groups), mean_variance(theirs, second_groups)]
    if any(math.isnan(variance) for variance, _, _ in parts):
        return whole_line(confidence, "welch t, one group or equal values on a side: the variance is unknown")
    variance = sum(part[0] for part in parts)
    freedom = variance**2 / sum(part[0] ** 2 / part[1] for part in parts)
    method = f"welch t, {parts[0][2]} and {parts[1][2]} groups, {freedom:.1f} df"
    return student_interval(
        float(ours.mean() - theirs.mean()),
        variance,
        freedom,
        confidence=confidence,
        sided=sided,
        method=method,
    )
