"""Differences between two systems: on the same cases (paired) and on different ones.

Paired 0/1 outcomes use Tango's score interval (Statistics in Medicine 1998), which stays sensible without a
single discordant pair; with groups its counts shrink to their effective size. Its one-sided bounds miss up to
8% instead of 5% where discordant pairs are few, so these combine exact bounds on the gains and on the losses
(Clopper and Pearson 1934, by MOVER). Unpaired proportions combine two Wilson intervals (Newcombe 1998, method
10), one-sided two exact ones; means use Welch's t. `difference` takes its two samples as independent: groups
with the same label on both sides are different groups, unless they are `joined`.

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
from .clusters import (
    cluster_design,
    clustered_proportion,
    discounted_size,
    group_sums,
    jackknife_influences,
    kish_size,
)
from .interval import Interval
from .mean import mean, mean_variance, student_interval, whole_line
from .proportion import ProportionMethod, clopper_pearson


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


def _exact(gain: float, loss: float, n: float, tail: float, sided: Sided) -> tuple[float, float]:
    """One-sided ends from exact bounds on the shares of gains and of losses."""
    parts = [clopper_pearson(count, n, confidence=1.0 - 2.0 * tail) for count in (gain, loss)]
    p, q = gain / n, loss / n
    # A pair that is a gain is no loss: the two shares of a multinomial shun each other.
    correlation = -math.sqrt(p * q / ((1.0 - p) * (1.0 - q))) if p < 1.0 and q < 1.0 else 0.0
    low, high = mover((p, q), parts[0], parts[1], correlation=correlation)
    return open_sides(max(low, -1.0), min(high, 1.0), sided, least=-1.0, most=1.0)


def _paired_binary(
    first: Floats, second: Floats, groups: ArrayLike | None, confidence: float, sided: Sided
) -> Interval:
    tail = tail_probability(confidence, sided)
    change = first - second
    codes, count = group_codes(groups, len(change))
    if count == 1 and len(change) > 1:
        return Interval(
            -1.0, 1.0, float(confidence), "tango, one group: no bound without a second group"
        )
    design = cluster_design(change, codes, count)
    # Beyond the median a bound lies on the other side of the estimate, where exact bounds do not combine.
    exact = sided != "two" and tail < 0.5
    size, label = design.effective_n, "exact gains and losses (MOVER)" if exact else "tango"
    if not design.distinct and not design.constant:
        # A group is worth a case, whatever its correlation: the discount must not say less.
        whole = min(size, kish_size(np.bincount(codes, minlength=count).astype(np.float64)))
        size = max(discounted_size(size, design.freedom, tail), whole)
        label += f", {count} groups, effective n {design.effective_n:.1f}, t with {design.freedom:.1f} df"
    elif not design.distinct:
        label += f", {count} groups, equal differences: each group counts as one case"
    gain, loss = float(np.mean(change > 0)) * size, float(np.mean(change < 0)) * size
    low, high = (_exact if exact else _tango)(gain, loss, size, tail, sided)
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
    """Ends of a difference from the ends of its parts (method of variance estimates recovery, Zou 2008).

    Nothing is clipped: who knows the range of the quantity, clips.
    """
    a, b = estimates
    down, up = (a - first.low, second.high - b), (first.high - a, b - second.low)

    def reach(x: float, y: float) -> float:
        if math.isinf(x) or math.isinf(y):
            return math.inf
        return math.sqrt(max(x * x - 2.0 * correlation * x * y + y * y, 0.0))

    return a - b - reach(*down), a - b + reach(*up)


def two_sided_level(confidence: float, sided: Sided) -> float:
    """The two-sided confidence whose tails are those of the sided interval."""
    level = 1.0 - 2.0 * tail_probability(confidence, sided)
    if level <= 0.0:
        raise ValueError(
            f"a one-sided bound on a difference needs confidence > 0.5, found {confidence!r}"
        )
    return level


def _proportions(
    first: Floats,
    second: Floats,
    groups: tuple[ArrayLike | None, ArrayLike | None],
    confidence: float,
    sided: Sided,
    correlation: float,
) -> Interval:
    level = two_sided_level(confidence, sided)
    method: ProportionMethod = "wilson" if sided == "two" else "clopper_pearson"
    parts = [
        clustered_proportion(values, group, confidence=level, method=method, combined=True)
        for values, group in zip((first, second), groups, strict=True)
    ]
    low, high = mover(
        (float(first.mean()), float(second.mean())), parts[0], parts[1], correlation=correlation
    )
    low, high = open_sides(max(low, -1.0), min(high, 1.0), sided, least=-1.0, most=1.0)
    shared = f", joined groups, correlation {correlation:.2f}" if correlation else ""
    return Interval(
        low, high, float(confidence), f"newcombe ({parts[0].method}; {parts[1].method}){shared}"
    )


def joined_correlation(
    first: Floats,
    second: Floats,
    first_groups: ArrayLike,
    second_groups: ArrayLike,
    *,
    exposures: tuple[Floats, Floats] | None = None,
) -> float:
    """The correlation of two means, or of two ratios to `exposures`, whose cases share groups.

    It follows from the influences of the joined groups.
    """
    labels = np.concatenate(
        [np.asarray(first_groups).astype(str), np.asarray(second_groups).astype(str)]
    )
    codes, count = group_codes(labels, len(first) + len(second))
    split = len(first)
    weights = exposures or (np.ones(len(first)), np.ones(len(second)))
    influences = []
    for values, exposure, part in (
        (first, weights[0], codes[:split]),
        (second, weights[1], codes[split:]),
    ):
        sizes = group_sums(exposure, part, count)
        if np.count_nonzero(sizes) < 2:
            return 0.0
        residuals = values - values.sum() / exposure.sum() * exposure
        influences.append(jackknife_influences(group_sums(residuals, part, count), sizes))
    return correlation_of(influences[0], influences[1])


def correlation_of(first: Floats, second: Floats) -> float:
    """The correlation of two estimates from their influences, group by group; 0 where one does not vary."""
    scale = math.sqrt(float(first @ first) * float(second @ second))
    return 0.0 if scale <= 1e-300 else float(np.clip(float(first @ second) / scale, -1.0, 1.0))


def difference(
    first: ArrayLike,
    second: ArrayLike,
    first_groups: ArrayLike | None = None,
    second_groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
    joined: bool = False,
) -> Interval:
    """The interval for mean(first) - mean(second) over different cases.

    With `joined`, groups of one label on both sides are one group (a patient inside and outside of a filter).
    """
    tail_probability(confidence, sided)
    ours, theirs = real_values(first, "first"), real_values(second, "second")
    correlation = 0.0
    if joined:
        if first_groups is None or second_groups is None:
            raise ValueError(
                "joined groups need labels on both sides; give first_groups and second_groups"
            )
        correlation = joined_correlation(ours, theirs, first_groups, second_groups)
    if is_binary(ours) and is_binary(theirs):
        return _proportions(
            ours, theirs, (first_groups, second_groups), confidence, sided, correlation
        )
    parts = [mean_variance(ours, first_groups), mean_variance(theirs, second_groups)]
    if any(math.isnan(variance) for variance, _, _ in parts):
        return whole_line(
            confidence, "welch t, one group or equal values on a side: the variance is unknown"
        )
    apart = sum(part[0] for part in parts)
    freedom = apart**2 / sum(part[0] ** 2 / part[1] for part in parts)
    variance = apart - 2.0 * correlation * math.sqrt(parts[0][0] * parts[1][0])
    method = f"welch t, {parts[0][2]} and {parts[1][2]} groups, {freedom:.1f} df"
    return student_interval(
        float(ours.mean() - theirs.mean()),
        variance,
        freedom,
        confidence=confidence,
        sided=sided,
        method=method,
    )
