"""The false-positive rate at a given true-positive rate (FPR@95TPR), and an interval that knows the threshold is a guess.

The threshold is the largest score that at least 95% of the positives reach. It is a sample quantile: the true one lies
between two order statistics of the positives, by the binomial distribution (Clopper and Pearson 1934), whatever that of
the scores. The false-positive rate at these two, and the interval of the rate at the threshold itself, are combined as
MOVER does (Zou 2008), with the correlation of the two kinds of error where groups hold cases of both. No density is
estimated. With fewer than 72 positives nothing bounds a 5% quantile from below with 97.5%, and the rate may be 1.
Higher scores are riskier.

>>> fpr_at_tpr([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 0, 1])
0.25
>>> found = fpr_at_tpr_interval(np.arange(400.0) % 173, np.arange(400) % 2)
>>> bool(found.low < fpr_at_tpr(np.arange(400.0) % 173, np.arange(400) % 2) < found.high)
True
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arguments import (
    Codes,
    Floats,
    Sided,
    binary_values,
    group_codes,
    open_sides,
    real_values,
    same_length,
)
from .clusters import cluster_design, clustered_proportion, discounted_size, group_sums, occupied
from .interval import Interval
from .paired import correlation_of, two_sided_level


def _columns(
    scores: ArrayLike, positive: ArrayLike, rate: float
) -> tuple[Floats, NDArray[np.bool_]]:
    if not 0.0 < rate < 1.0:
        raise ValueError(
            f"the true-positive rate must lie between 0 and 1, found {rate!r}; write 0.95 for 95%"
        )
    values, marks = real_values(scores, "scores"), binary_values(positive, "positive").astype(bool)
    same_length(values, marks, "scores and positive")
    if marks.all() or not marks.any():
        raise ValueError(
            "a false-positive rate needs a positive and a negative case; `positive` marks only one kind"
        )
    return values, marks


def _rate_from(ordered: Floats, threshold: float) -> float:
    """The share of these scores that reach the threshold."""
    return float(len(ordered) - np.searchsorted(ordered, threshold, "left")) / len(ordered)


def _missed(n: float, rate: float) -> int:
    """How many of n positives may lie below the threshold."""
    return math.floor((1.0 - rate) * n + 1e-9)


def fpr_at_tpr(scores: ArrayLike, positive: ArrayLike, *, rate: float = 0.95) -> float:
    """The share of negatives at or above the largest threshold that this share of the positives reaches."""
    values, marks = _columns(scores, positive, rate)
    ups = np.sort(values[marks])
    return _rate_from(np.sort(values[~marks]), float(ups[_missed(len(ups), rate)]))


def _quantile_ranks(n: int, effective: float, missed: float, tail: float) -> tuple[int, int]:
    """Positions (from 0) of order statistics between which the quantile lies, -1 and n where there is none."""
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
    """The interval for the false-positive rate at this true-positive rate."""
    level = two_sided_level(confidence, sided)
    tail = (1.0 - level) / 2.0
    values, marks = _columns(scores, positive, rate)
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
    own = clustered_proportion(alarms, codes[~marks], confidence=level)
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
    """Of the threshold's error and the rate's: more positives below the threshold pull it down, and the rate up."""
    if count == len(marks):
        return 0.0
    lost = group_sums(below - below.mean(), codes[marks], count)
    raised = group_sums(alarms - alarms.mean(), codes[~marks], count)
    return correlation_of(lost, raised)
