"""How well a score ranks: the area under the ROC curve (AUC), average precision (AUPR), and the
false-positive rate at a true-positive rate.

The variance is DeLong's (1988), by midranks (Sun and Xu 2014), and with groups Obuchowski's (1997).
The interval is Wilson's with the effective size A (1 - A) / variance, discounted by (z / t)^2 as
for clustered proportions: it stays inside [0, 1] and has width at A = 1. There the effective size
is the smaller class (its groups, if given), since no distribution has a larger variance than A (1 -
A) / min(m, n) (Birnbaum and Klose 1957).

A few failures show too little of their spread: with 15 of them a bound just below its limit was met
in 9 to 22% of simulated studies instead of 5%. A bound is therefore never tighter than the one with
the variance of exponential scores at the bound itself (Hanley and McNeil 1982), the smaller class
having the longer tail. With fewer than five cases in a class the smaller class alone counts. Higher
scores are riskier; `positive` marks the failures; ties count one half.

>>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
0.75
>>> interval = delong([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1])
>>> round(interval.low, 3), interval.high
(0.439, 1.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics.arguments import (
    Codes,
    Floats,
    Sided,
    binary_values,
    group_codes,
    open_sides,
    real_values,
    same_length,
    tail_probability,
)
from roadworthy.statistics.clusters import (
    cluster_design,
    clustered_proportion,
    discounted_size,
    group_sums,
    grouped_freedom,
    kurtosis_freedom,
    occupied,
)
from roadworthy.statistics.interval import Interval
from roadworthy.statistics.paired import correlation_of, two_sided_level
from roadworthy.statistics.planning import POWER, smallest_number
from roadworthy.statistics.proportion import wilson_bounds

FEWEST = 5
"""Cases in each class (groups, if given) from which the variance of their scores is estimated."""


@dataclass(frozen=True)
class _Cases:
    """Which cases are positive and which belong together."""

    positive: NDArray[np.bool_]
    codes: Codes
    count: int

    @property
    def units(self) -> tuple[int, int]:
        """Groups that hold a positive, and groups that hold a negative."""
        return occupied(self.codes[self.positive], self.count), occupied(
            self.codes[~self.positive], self.count
        )

    @property
    def distinct(self) -> bool:
        return self.count == len(self.codes)


@dataclass(frozen=True)
class _Components:
    """DeLong's structural components, summed by group and centred."""

    area: float
    above: Floats
    below: Floats


def _placements(scores: Floats, positive: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Share of negatives below each positive, and of positives above each negative, ties half; from
    one sorting."""
    order = np.argsort(scores)
    ordered, marks = scores[order], positive[order]
    tie = np.cumsum(np.r_[0, ordered[1:] != ordered[:-1]])
    ups = np.bincount(tie, weights=marks)
    downs = np.bincount(tie) - ups
    lower = np.cumsum(downs) - downs / 2.0
    higher = ups.sum() - np.cumsum(ups) + ups / 2.0
    placed = np.empty(len(scores))
    placed[order] = np.where(marks, lower[tie] / downs.sum(), higher[tie] / ups.sum())
    return placed[positive], placed[~positive]


def _columns(scores: ArrayLike, positive: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    values, marks = real_values(scores, "scores"), binary_values(positive, "positive").astype(bool)
    same_length(values, marks, "scores and positive")
    if marks.all() or not marks.any():
        raise ValueError(
            "a ranking needs a positive and a negative case; `positive` marks only one kind"
        )
    return values, marks


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """The probability that a positive scores above a negative, ties counting one half."""
    values, marks = _columns(scores, positive)
    return float(_placements(values, marks)[0].mean())


def _components(scores: Floats, cases: _Cases) -> _Components:
    above, below = _placements(scores, cases.positive)
    area = float(above.mean())
    return _Components(
        area,
        group_sums(above - area, cases.codes[cases.positive], cases.count),
        group_sums(below - area, cases.codes[~cases.positive], cases.count),
    )


def _covariance(a: _Components, b: _Components, cases: _Cases) -> float:
    """Obuchowski's covariance of two areas; DeLong's where every case is a group of its own."""
    m, n = int(cases.positive.sum()), int((~cases.positive).sum())
    with_positive, with_negative = cases.units
    up = float(a.above @ b.above) * with_positive / (with_positive - 1) / m**2
    down = float(a.below @ b.below) * with_negative / (with_negative - 1) / n**2
    cross = float(a.above @ b.below + b.above @ a.below) * cases.count / (cases.count - 1) / (m * n)
    return up + down + cross


def _freedom(part: _Components, cases: _Cases) -> float:
    """Degrees of freedom of the variance: Satterthwaite over the two classes, or over the groups."""
    m, n = int(cases.positive.sum()), int((~cases.positive).sum())
    if not cases.distinct:
        influence = part.above / m + part.below / n
        return min(kurtosis_freedom(influence), float(min(cases.units) - 1))
    # Components are held by group, so a case is found by its code, not by its place.
    up, down = part.above[cases.codes[cases.positive]], part.below[cases.codes[~cases.positive]]
    u, d = float(up @ up) / (m * (m - 1)), float(down @ down) / (n * (n - 1))
    if u + d == 0.0:
        return float(min(m, n) - 1)
    return (u + d) ** 2 / (u**2 / kurtosis_freedom(up) + d**2 / kurtosis_freedom(down))


def _area_interval(part: _Components, cases: _Cases, confidence: float, sided: Sided) -> Interval:
    tail = tail_probability(confidence, sided)
    kind = "delong" if cases.distinct else f"obuchowski, {cases.count} groups"
    fewest = min(cases.units)
    if fewest < 2:
        return Interval(
            0.0, 1.0, float(confidence), f"{kind}, fewer than two units in a class: no bound"
        )
    variance, spread = _covariance(part, part, cases), part.area * (1.0 - part.area)
    if fewest < FEWEST or spread <= 1e-12 or variance <= 1e-12 * spread:
        why = f"fewer than {FEWEST}" if fewest < FEWEST else "no variance seen"
        size = float(fewest)
        label = f"{kind}, {why}: wilson with the smaller class, {fewest}"
    else:
        freedom = max(1.0, _freedom(part, cases))
        effective = min(spread / variance, float(len(cases.codes)))
        size = discounted_size(effective, freedom, tail)
        label = f"{kind}, wilson with effective n {effective:.1f}, t with {freedom:.1f} df"
    area = min(max(part.area, 0.0), 1.0)
    own = wilson_bounds(area * size, size, confidence=confidence, sided=sided)
    counts = int(cases.positive.sum()), int((~cases.positive).sum())
    low = min(float(own[0]), _least_area(area, *counts, tail))
    high = max(float(own[1]), 1.0 - _least_area(1.0 - area, *counts, tail))
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    return Interval(low, high, float(confidence), f"{label}, at least exponential scores")


def exponential_variance(area: float, m: int, n: int) -> float:
    """The variance of an area if scores are exponential (Hanley and McNeil 1982, eq. 2), the smaller of the
    classes (m, n cases) with the longer tail.

    >>> round(exponential_variance(0.97, 15, 1000) ** 0.5, 4)
    0.0309
    """
    tails = area**2 * (1.0 - area) / (1.0 + area), area * (1.0 - area) ** 2 / (2.0 - area)
    spread = (max(m, n) - 1) * max(tails) + (min(m, n) - 1) * min(tails)
    return (area * (1.0 - area) + spread) / (m * n)


def _least_area(area: float, m: int, n: int, tail: float) -> float:
    """The area from which this one is z standard errors away, the errors of exponential scores."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    z = -float(ndtri(tail))
    if area <= 0.0 or z <= 0.0:
        return area

    def beyond(least: float) -> float:
        return area - least - z * math.sqrt(exponential_variance(least, m, n))

    return float(brentq(beyond, 0.0, area, xtol=1e-9)) if beyond(area) < 0.0 else area


def cases_to_settle_area(
    scores: ArrayLike,
    positive: ArrayLike,
    limit: float,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    power: float = POWER,
) -> int | None:
    """The total number of cases at which a one-sided bound of the AUC clears the limit with `power`.

    Cases are as these, more of them: each class, and the groups, keep their shares. None if the area is at the limit.
    """
    from scipy.special import ndtri

    values, marks = _columns(scores, positive)
    cases = _Cases(marks, *group_codes(groups, len(marks)))
    part, n, fewest = _components(values, cases), len(marks), min(cases.units)
    gap, tail = abs(part.area - limit), 1.0 - confidence
    if gap == 0.0 or fewest < 2:
        return None
    z, up, down = -float(ndtri(tail)), int(marks.sum()), int((~marks).sum())
    variance = max(_covariance(part, part, cases), 1e-12)
    freedom = max(1.0, _freedom(part, cases))

    def settles(total: int) -> bool:
        more = total / n
        left = gap - float(ndtri(power)) * math.sqrt(variance / more)
        spread = part.area * (1.0 - part.area)
        size = more * (spread / variance if spread > 1e-12 else fewest)
        own = limit * (1.0 - limit) / discounted_size(size, more * freedom, tail)
        least = exponential_variance(limit, round(up * more), round(down * more))
        return left > 0.0 and left >= z * math.sqrt(max(own, least))

    return smallest_number(settles, n + 1)


def delong(
    scores: ArrayLike,
    positive: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for the AUC of one score."""
    values, marks = _columns(scores, positive)
    cases = _Cases(marks, *group_codes(groups, len(marks)))
    return _area_interval(_components(values, cases), cases, confidence, sided)


@dataclass(frozen=True)
class _Precision:
    """The average precision, and how each case moves it."""

    value: float
    influence: Floats
    bias: float
    """How much too high it is: a positive is always among the cases that score at least as high as
    itself."""


def _precision(values: Floats, marks: NDArray[np.bool_]) -> _Precision:
    """From one sorting: tied cases are one threshold."""
    order = np.argsort(values)
    ordered = values[order]
    tie = np.cumsum(np.r_[0, ordered[1:] != ordered[:-1]])
    ups, every = np.bincount(tie, weights=marks[order]), np.bincount(tie).astype(np.float64)
    positives, n = ups.sum(), len(values)
    true, above = positives - np.cumsum(ups) + ups, n - np.cumsum(every) + every
    share = true / above
    value = float(ups @ share / positives)
    gain, loss = np.cumsum(ups / above), np.cumsum(ups * share / above)
    influence = np.empty(n)
    influence[order] = n / positives * (marks[order] * (share + gain - value)[tie] - loss[tie])
    return _Precision(value, influence, float(ups @ ((1.0 - share) / above) / positives))


def average_precision(scores: ArrayLike, positive: ArrayLike) -> float:
    """The mean precision at the scores of the positives, from all cases that score at least as
    high."""
    return _precision(*_columns(scores, positive)).value


def average_precision_interval(
    scores: ArrayLike,
    positive: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    fixed: bool = False,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for the average precision; `fixed` where the share of positives was chosen, not
    observed.

    AP is the mean, over the positives, of the precision at their score: #positives / #cases with at
    least this score. With shares A of positives and H of all cases at or above t, and Q the
    distribution of positive scores times their share p, it is T = (1/p) ∫ A/H dQ, and a case with
    score x and mark y moves it by

    (1/p) [ y (A/H(x) + B(x) - T) - C(x) ],  B(x) = ∫_{t <= x} dQ/H,  C(x) = ∫_{t <= x} A/H^2 dQ,

    the derivative of T (delta method). Sums of this by group give the variance; where the design
    fixes how many positives there are, the mean of each class is taken out first. The interval is
    Wilson's with the effective size T (1 - T) / variance, discounted by (z / t)^2, as for the AUC;
    where no variance is seen (a perfect ranking), the smaller class counts. The lower end starts
    from T less its bias, the mean of (1 - precision) / #cases at or above a positive: each positive
    is among the cases that score at least as high as itself. What remains open: with 30 to 40
    positives the lower end of a 95% interval misses 4% instead of 2.5%. Higher scores are riskier;
    tied cases come in together.

    >>> average_precision([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.8333333333333333
    >>> found = average_precision_interval([0.1, 0.4, 0.35, 0.8, 0.2, 0.9], [0, 0, 1, 1, 0, 1])
    >>> bool(found.low < 0.9166 < found.high)
    True
    """
    tail = tail_probability(confidence, sided)
    values, marks = _columns(scores, positive)
    codes, count = group_codes(groups, len(values))
    fewest = min(occupied(codes[marks], count), occupied(codes[~marks], count))
    kind = "delta method" if count == len(values) else f"delta method, {count} groups"
    if fewest < 2:
        return Interval(
            0.0, 1.0, float(confidence), f"{kind}, fewer than two units in a class: no bound"
        )
    found = _precision(values, marks)
    influence = found.influence
    if fixed:
        influence = influence - np.where(marks, influence[marks].mean(), influence[~marks].mean())
    sums = group_sums(influence, codes, count)
    variance = float(sums @ sums) / len(values) ** 2 * count / (count - 1)
    spread = found.value * (1.0 - found.value)
    if spread <= 1e-12 or variance <= 1e-12 * spread:
        size, label = (
            float(fewest),
            f"{kind}, no variance seen: wilson with the smaller class, {fewest}",
        )
    else:
        sizes = np.bincount(codes, minlength=count).astype(np.float64)
        known = kurtosis_freedom(sums) if count == len(values) else grouped_freedom(sums, sizes)
        freedom = max(1.0, min(known, fewest - 1.0))
        effective = min(spread / variance, float(len(values)))
        size = discounted_size(effective, freedom, tail)
        label = f"{kind}, wilson with effective n {effective:.1f}, t with {freedom:.1f} df"
    value = min(max(found.value, 0.0), 1.0)
    low = wilson_bounds(
        max(0.0, value - found.bias) * size, size, confidence=confidence, sided=sided
    )[0]
    high = wilson_bounds(value * size, size, confidence=confidence, sided=sided)[1]
    return Interval(float(low), float(high), float(confidence), label)


def _at_rate(
    scores: ArrayLike, positive: ArrayLike, rate: float
) -> tuple[Floats, NDArray[np.bool_]]:
    if not 0.0 < rate < 1.0:
        raise ValueError(
            f"the true-positive rate must lie between 0 and 1, found {rate!r}; write 0.95 for 95%"
        )
    return _columns(scores, positive)


def _rate_from(ordered: Floats, threshold: float) -> float:
    """The share of these scores that reach the threshold."""
    return float(len(ordered) - np.searchsorted(ordered, threshold, "left")) / len(ordered)


def _missed(n: float, rate: float) -> int:
    """How many of n positives may lie below the threshold."""
    return math.floor((1.0 - rate) * n + 1e-9)


def fpr_at_tpr(scores: ArrayLike, positive: ArrayLike, *, rate: float = 0.95) -> float:
    """The share of negatives at or above the largest threshold that this share of the positives
    reaches."""
    values, marks = _at_rate(scores, positive, rate)
    ups = np.sort(values[marks])
    return _rate_from(np.sort(values[~marks]), float(ups[_missed(len(ups), rate)]))


def _quantile_ranks(n: int, effective: float, missed: float, tail: float) -> tuple[int, int]:
    """Positions (from 0) of order statistics between which the quantile lies, -1 and n where there
    is none."""
    from scipy.special import bdtr

    counts = np.arange(math.ceil(effective) + 1, dtype=np.float64)
    cumulated = bdtr(counts, math.ceil(effective), missed)
    low = int(np.searchsorted(cumulated, tail, "right")) - 1
    high = int(np.searchsorted(cumulated, 1.0 - tail, "left")) + 1
    scale = n / math.ceil(effective)
    return (math.floor(low * scale) if low >= 0 else -1), min(math.ceil(high * scale), n)


def fpr_at_tpr_interval(
    scores: ArrayLike,
    positive: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    rate: float = 0.95,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for the false-positive rate at this true-positive rate (FPR@95TPR).

    The threshold is the largest score that at least 95% of the positives reach. It is a sample
    quantile: the true one lies between two order statistics of the positives, by the binomial
    distribution (Clopper and Pearson 1934), whatever that of the scores. The false-positive rate at
    these two, and the interval of the rate at the threshold itself, are combined as MOVER does (Zou
    2008), with the correlation of the two kinds of error where groups hold cases of both. No
    density is estimated. With fewer than 72 positives nothing bounds a 5% quantile from below with
    97.5%, and the rate may be 1. Higher scores are riskier.

    >>> fpr_at_tpr([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 0, 1])
    0.25
    >>> found = fpr_at_tpr_interval(np.arange(400.0) % 173, np.arange(400) % 2)
    >>> bool(found.low < fpr_at_tpr(np.arange(400.0) % 173, np.arange(400) % 2) < found.high)
    True
    """
    level = two_sided_level(confidence, sided)
    tail = (1.0 - level) / 2.0
    values, marks = _at_rate(scores, positive, rate)
    codes, count = group_codes(groups, len(values))
    kind = "order statistics and wilson (MOVER)" + (
        "" if count == len(values) else f", {count} groups"
    )
    ups, downs = np.sort(values[marks]), np.sort(values[~marks])
    threshold = float(ups[_missed(len(ups), rate)])
    below, alarms = values[marks] < threshold, values[~marks] >= threshold
    effective = _effective(below, codes[marks], tail) if count < len(values) else float(len(ups))
    if effective < 1.0 or min(occupied(codes[marks], count), occupied(codes[~marks], count)) < 2:
        return Interval(
            0.0, 1.0, float(confidence), f"{kind}, fewer than two units in a class: no bound"
        )
    at = _rate_from(downs, threshold)
    first, last = _quantile_ranks(len(ups), effective, 1.0 - rate, tail)
    most = 1.0 if first < 0 else _rate_from(downs, float(ups[first]))
    least = 0.0 if last >= len(ups) else _rate_from(downs, float(ups[last]))
    own = clustered_proportion(alarms, codes[~marks], confidence=level, combined=True)
    together = _correlation(below, alarms, marks, codes, count)
    low = at - _joined(at - own.low, at - least, together)
    high = at + _joined(own.high - at, most - at, together)
    low, high = open_sides(max(0.0, low), min(1.0, high), sided, least=0.0, most=1.0)
    ends = (
        "the lowest score" if first < 0 else first + 1,
        "the highest" if last >= len(ups) else last + 1,
    )
    label = f"{kind}, threshold between {ends[0]} and {ends[1]} of {len(ups)} positives"
    return Interval(low, high, float(confidence), label)


def _joined(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(0.0, first**2 + second**2 + 2.0 * correlation * first * second))


def _effective(below: NDArray[np.bool_], codes: Codes, tail: float) -> float:
    """How many independent positives these are worth, where the threshold is chosen."""
    kinds, own = np.unique(codes, return_inverse=True)
    if len(kinds) < 2:
        return 0.0
    design = cluster_design(below.astype(np.float64), own.ravel(), len(kinds))
    if design.distinct or design.constant:
        return design.effective_n
    return discounted_size(design.effective_n, design.freedom, tail)


def _correlation(
    below: NDArray[np.bool_],
    alarms: NDArray[np.bool_],
    marks: NDArray[np.bool_],
    codes: Codes,
    count: int,
) -> float:
    """Of the threshold's error and the rate's: more positives below the threshold pull it down, and
    the rate up."""
    if count == len(marks):
        return 0.0
    lost = group_sums(below - below.mean(), codes[marks], count)
    raised = group_sums(alarms - alarms.mean(), codes[~marks], count)
    return correlation_of(lost, raised)
