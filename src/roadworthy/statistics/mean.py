"""Intervals for a mean and for a ratio of sums, with whole groups as the independent units.

The mean uses Student's t with the design effect of `clusters`; the ratio (Cochran 1977, section 6) uses the
delete-one-group jackknife of sum(numerators) / sum(denominators), and Kish's design effect where that says more:
a few large groups hide the correlation that the small ones show. Neither variance is taken below that of
independent cases. Where nothing varies there is no t interval: the answer is the whole line, not a point
(counts and shares, which `rates` bounds, still have an end).

>>> interval = mean([1.0, 2.0, 3.0, 4.0])
>>> round(interval.low, 3), round(interval.high, 3)
(0.446, 4.554)
>>> interval = ratio([1, 0, 2, 1], [10, 8, 12, 10])
>>> interval.contains(4 / 40)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .arguments import (
    Codes,
    Floats,
    Sided,
    check_choice,
    group_codes,
    open_sides,
    real_values,
    same_length,
    tail_probability,
)
from .clusters import (
    anova_correlation,
    cluster_design,
    group_sums,
    grouped_freedom,
    jackknife_influences,
    jackknife_variance,
    kish_size,
)
from .interval import Interval

RatioKind = Literal["real", "count", "share", "bounded"]


def whole_line(confidence: float, method: str) -> Interval:
    """The interval that claims nothing, with the reason in its method."""
    return Interval(-math.inf, math.inf, float(confidence), method)


def student_interval(
    estimate: float,
    variance: float,
    freedom: float,
    *,
    confidence: float,
    sided: Sided,
    method: str,
) -> Interval:
    """estimate -/+ t sqrt(variance), open on the side that was not asked for."""
    from scipy.special import stdtrit

    tail = tail_probability(confidence, sided)
    half = -float(stdtrit(freedom, tail)) * math.sqrt(variance)
    low, high = open_sides(estimate - half, estimate + half, sided, least=-math.inf, most=math.inf)
    return Interval(low, high, float(confidence), method)


def mean_variance(values: Floats, groups: ArrayLike | None) -> tuple[float, float, int]:
    """Variance of the mean (NaN where it is unknown), its degrees of freedom, number of groups."""
    design = cluster_design(values, *group_codes(groups, len(values)))
    if design.groups < 2 or design.constant:
        return math.nan, 0.0, design.groups
    variance = float(np.var(values, ddof=1)) / design.effective_n
    return variance, design.freedom, design.groups


def mean(
    values: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for a mean."""
    tail_probability(confidence, sided)
    numbers = real_values(values, "values")
    variance, freedom, count = mean_variance(numbers, groups)
    if math.isnan(variance):
        reason = "one group" if count < 2 else "equal values"
        return whole_line(confidence, f"student t, {reason}: the variance is unknown")
    kind = "student t" if count == len(numbers) else f"clustered t, {count} groups"
    method = f"{kind}, {freedom:.1f} df"
    return student_interval(
        float(numbers.mean()), variance, freedom, confidence=confidence, sided=sided, method=method
    )


@dataclass(frozen=True)
class RatioDesign:
    """A ratio of sums, and how well its groups know it."""

    estimate: float
    variance: float
    """0 where the ratio is the same in all cases."""
    freedom: float
    groups: int
    distinct: bool
    """Every case is a group of its own."""
    influences: Floats
    sums: Floats
    """Denominators by group."""


def ratio_design(above: Floats, below: Floats, groups: ArrayLike | None) -> RatioDesign | None:
    """Estimate, jackknife variance and degrees of freedom; None where a single group has all the exposure."""
    same_length(above, below, "numerators and denominators")
    if np.any(below < 0.0) or below.sum() <= 0.0:
        raise ValueError(
            "denominators must not be negative and must not all be 0; they count exposure"
        )
    codes, count = group_codes(groups, len(above))
    sizes = group_sums(below, codes, count)
    if np.count_nonzero(sizes) < 2:
        return None
    estimate = float(above.sum() / below.sum())
    residuals = above - estimate * below
    influences = jackknife_influences(group_sums(residuals, codes, count), sizes)
    distinct = count == len(above)
    if np.abs(residuals).max() <= 1e-12 * max(float(np.abs(above).max()), 1e-300):
        return RatioDesign(estimate, 0.0, math.inf, count, distinct, influences, sizes)
    # Groups that happen to balance each other do not make the cases better than independent ones.
    single = np.where(below < below.sum(), below, 0.0)
    alone = jackknife_variance(jackknife_influences(residuals, single))
    variance = max(jackknife_variance(influences), alone * _kish_effect(residuals, below, codes))
    freedom = float(count - 1) if distinct else grouped_freedom(influences, sizes)
    return RatioDesign(estimate, variance, freedom, count, distinct, influences, sizes)


def _kish_effect(residuals: Floats, below: Floats, codes: Codes) -> float:
    """1 + icc (sum m^2 / n - 1) for cases of unequal exposure b, M of them in a group; at least 1.

    With icc the mean covariance of two residuals of a group over their mean variance, the variance of their sum is
    that of independent cases times 1 + icc n (sum M^2 - sum b^2) / (sum b)^2.
    """
    counted = (below > 0.0) | (residuals != 0.0)
    kinds, own = np.unique(codes[counted], return_inverse=True)
    n, count = len(own), len(kinds)
    if count in (1, n):
        return 1.0
    correlation = max(0.0, anova_correlation(residuals[counted], own, count))
    exposure = below[counted]
    return 1.0 + correlation * n * (
        1.0 / kish_size(group_sums(exposure, own, count)) - 1.0 / kish_size(exposure)
    )


def ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
    kind: RatioKind = "real",
) -> Interval:
    """The interval for sum(numerators) / sum(denominators).

    `kind` says what is summed: real numbers (Student's t), counts of events, a share of the denominators that
    counts trials, or any number between 0 and its denominator (bounded); the bounds of the last three hold with few
    events and with none.
    """
    from .rates import count_interval, share_interval

    tail_probability(confidence, sided)
    check_choice("kind", kind, ("real", "count", "share", "bounded"))
    above = real_values(numerators, "numerators")
    below = real_values(denominators, "denominators")
    if kind == "share":
        return share_interval(above, below, groups, confidence=confidence, sided=sided)
    if kind == "count":
        return count_interval(above, below, groups, confidence=confidence, sided=sided)
    if kind == "bounded":
        return _bounded(above, below, groups, confidence=confidence, sided=sided)
    design = ratio_design(above, below, groups)
    if design is None:
        return whole_line(confidence, "ratio, one group with exposure: the variance is unknown")
    if design.variance == 0.0:
        return whole_line(confidence, "ratio, equal ratios in all cases: the variance is unknown")
    method = f"ratio, jackknife over {design.groups} groups, t with {design.freedom:.1f} df"
    return student_interval(
        design.estimate,
        design.variance,
        design.freedom,
        confidence=confidence,
        sided=sided,
        method=method,
    )


def _bounded(
    parts: Floats, wholes: Floats, groups: ArrayLike | None, *, confidence: float, sided: Sided
) -> Interval:
    """The interval for sum(parts) / sum(wholes), each part between 0 and its whole (overlap of masks).

    Student's t misses such a mean if rare cases are near 0 and none was seen. So each bound takes one more group
    that is as far off as can be, and is a quantile of the mean under Dirichlet weights (Gaffke 2005; Learned-Miller
    and Thomas 2020), here of the beta distribution with the same mean and variance. For parts that are all 0 or whole
    this is the interval of Clopper and Pearson, but for the n - 1 in the variance.
    """
    from scipy.special import betaincinv

    tail = tail_probability(confidence, sided)
    design = ratio_design(parts, wholes, groups)
    if design is None:
        return Interval(0.0, 1.0, float(confidence), "bounded mean, one group: no bound")
    n = kish_size(design.sums)

    def bound(estimate: float) -> float:
        """The lower one: n groups, and one more at 0."""
        mean = estimate * n / (n + 1.0)
        spread = n * n * design.variance + estimate**2 * n / (n + 1.0)
        size = max(mean * (1.0 - mean) * (n + 1.0) * (n + 2.0) / max(spread, 1e-300) - 1.0, 1e-6)
        return float(betaincinv(mean * size, (1.0 - mean) * size, tail)) if estimate > 0 else 0.0

    low, high = bound(design.estimate), 1.0 - bound(1.0 - design.estimate)
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    unit = "cases" if design.distinct else "groups"
    method = f"bounded mean, {design.groups} {unit} and one as far off as can be, beta"
    return Interval(low, high, float(confidence), method)
