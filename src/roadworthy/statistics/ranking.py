"""How well a score ranks: the area under the ROC curve (AUC), its interval, and the difference of two.

The variance is DeLong's (1988), by midranks (Sun and Xu 2014), and with groups Obuchowski's (1997). The
interval is Wilson's with the effective size A (1 - A) / variance, discounted by (z / t)^2 as for clustered
proportions: it stays inside [0, 1] and has width at A = 1. There the effective size is the smaller class
(its groups, if given), since no distribution has a larger variance than A (1 - A) / min(m, n)
(Birnbaum and Klose 1957). Differences combine two such intervals with DeLong's correlation (Zou 2008).
Higher scores are riskier; `positive` marks the failures; ties count one half.

>>> auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
0.75
>>> interval = delong([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1])
>>> round(interval.low, 3), interval.high
(0.439, 1.0)
"""

from __future__ import annotations

from dataclasses import dataclass

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
    tail_probability,
)
from .clusters import discounted_size, group_sums, kurtosis_freedom, occupied
from .interval import Interval
from .paired import mover, two_sided_level
from .proportion import wilson_bounds


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
    """Share of negatives below each positive, and of positives above each negative, ties half; from one sorting."""
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
            "an AUC needs a positive and a negative case; `positive` marks only one kind"
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
    if spread <= 1e-12 or variance <= 1e-12 * spread:
        size, label = (
            float(fewest),
            f"{kind}, no variance seen: wilson with the smaller class, {fewest}",
        )
    else:
        freedom = max(1.0, _freedom(part, cases))
        effective = min(spread / variance, float(len(cases.codes)))
        size = discounted_size(effective, freedom, tail)
        label = f"{kind}, wilson with effective n {effective:.1f}, t with {freedom:.1f} df"
    area = min(max(part.area, 0.0), 1.0)
    low, high = wilson_bounds(area * size, size, confidence=confidence, sided=sided)
    return Interval(float(low), float(high), float(confidence), label)


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


def delong_difference(
    first: ArrayLike,
    second: ArrayLike,
    positive: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for AUC(first) - AUC(second) of two scores on the same cases."""
    from scipy.special import ndtri

    level = two_sided_level(confidence, sided)
    ours, marks = _columns(first, positive)
    theirs, _ = _columns(second, positive)
    cases = _Cases(marks, *group_codes(groups, len(marks)))
    fewest = min(cases.units)
    if fewest < 2:
        return Interval(
            -1.0, 1.0, float(confidence), "delong, fewer than two units in a class: no bound"
        )
    a, b = _components(ours, cases), _components(theirs, cases)
    if np.allclose(a.above, b.above, atol=1e-12) and np.allclose(a.below, b.below, atol=1e-12):
        # Equal rankings on every case: bounded as Tango bounds a sample without discordant pairs.
        z = float(-ndtri((1.0 - level) / 2.0))
        reach = z * z / (fewest + z * z)
        low, high = a.area - b.area - reach, a.area - b.area + reach
        label = "delong difference, equal rankings: score bound from the smaller class"
    else:
        va, vb, both = _covariance(a, a, cases), _covariance(b, b, cases), _covariance(a, b, cases)
        correlation = (
            float(np.clip(both / np.sqrt(va * vb), -1.0, 1.0)) if min(va, vb) > 1e-15 else 0.0
        )
        parts = [_area_interval(part, cases, level, "two") for part in (a, b)]
        low, high = mover((a.area, b.area), parts[0], parts[1], correlation=correlation)
        label = f"delong difference, correlation {correlation:.2f}"
    low, high = open_sides(max(-1.0, low), min(1.0, high), sided, least=-1.0, most=1.0)
    return Interval(low, high, float(confidence), label)
