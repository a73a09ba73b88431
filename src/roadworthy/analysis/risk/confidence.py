"""Accuracy without labels from the subject's own confidence: what most tools offer. A shift that leaves it confident deceives it.

`Cbpe` (confidence-based performance estimation, as NannyML does it) turns confidence into the probability of being right, learned
on clean rows, and averages it. `Atc` (average thresholded confidence, Garg et al. 2022) counts the cases above the threshold that
as many clean rows exceed as were right. `Doc` (difference of confidences, Guillory et al. 2021) takes the drop in mean confidence
off the clean accuracy. Each is fitted once and estimates any number of windows at a time.

>>> confidence, correct = [0.5, 0.6, 0.7, 0.8, 0.9], [False, True, False, True, True]
>>> window = [0.5, 0.55, 0.75, 0.9]
>>> [round(float(way.fit(confidence, correct).estimate(window)), 3) for way in (Cbpe, Atc, Doc)]
[0.5, 0.5, 0.575]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics.arguments import check_choice
from roadworthy.statistics.fusion import fit_logistic

Floats = NDArray[np.float64]
How = Literal["isotonic", "platt"]

NEVER_SURE = 1e-6
"""Confidence is kept this far from 0 and 1 before its log-odds are taken."""
RIDGE = 1e-3
"""Just enough for a finite slope where confidence tells right from wrong without error."""


@dataclass(frozen=True)
class Cbpe:
    """Mean probability of being right, given confidence."""

    how: How
    knots: tuple[float, ...]
    """Isotonic: confidences between which the probability is interpolated. Platt: intercept and slope on the log-odds."""
    levels: tuple[float, ...] = ()
    """Isotonic: the probability of being right at each knot."""

    @classmethod
    def fit(cls, confidence: ArrayLike, correct: ArrayLike, *, how: How = "isotonic") -> Cbpe:
        """Learn the probability of being right from clean rows."""
        check_choice("how", how, ("isotonic", "platt"))
        x, right = _rows(confidence, correct)
        if how == "isotonic":
            knots, levels = isotonic(x, right)
            return cls(how, tuple(map(float, knots)), tuple(map(float, levels)))
        if right.min() == right.max():  # no slope to learn: everything is right, or nothing
            return cls("isotonic", (0.5,), (float(right[0]),))
        return cls(how, tuple(map(float, fit_logistic(_log_odds(x)[:, None], right, ridge=RIDGE))))

    def probability(self, confidence: ArrayLike) -> Floats:
        """Of being right, case by case; NaN where there is no confidence."""
        x = np.asarray(confidence, dtype=np.float64)
        if self.how == "isotonic":
            return np.asarray(np.interp(x, self.knots, self.levels))
        intercept, slope = self.knots
        return 0.5 * (1.0 + np.tanh(0.5 * (intercept + slope * _log_odds(x))))

    def estimate(self, confidences: ArrayLike, axis: int = -1) -> Floats:
        """The accuracy to expect of the cases along the axis."""
        return _mean(self.probability(confidences), confidences, axis)


@dataclass(frozen=True)
class Atc:
    """Share of cases more confident than a threshold, which clean rows exceed as often as they are right."""

    threshold: float

    @classmethod
    def fit(cls, confidence: ArrayLike, correct: ArrayLike) -> Atc:
        """Choose the threshold; of tied rows, the one whose share is nearest, the higher if two are."""
        x, right = _rows(confidence, correct)
        candidates = np.r_[np.nextafter(x.min(), -np.inf), np.unique(x)]
        above = len(x) - np.searchsorted(np.sort(x), candidates, side="right")
        miss = np.abs(above - right.sum())
        return cls(float(candidates[miss == miss.min()][-1]))

    def estimate(self, confidences: ArrayLike, axis: int = -1) -> Floats:
        """The accuracy to expect of the cases along the axis."""
        return _mean(
            (np.asarray(confidences, dtype=np.float64) > self.threshold).astype(np.float64),
            confidences,
            axis,
        )


@dataclass(frozen=True)
class Doc:
    """Clean accuracy less the drop in mean confidence."""

    accuracy: float
    confidence: float

    @classmethod
    def fit(cls, confidence: ArrayLike, correct: ArrayLike) -> Doc:
        """Accuracy and mean confidence of the clean rows."""
        x, right = _rows(confidence, correct)
        return cls(float(right.mean()), float(x.mean()))

    def estimate(self, confidences: ArrayLike, axis: int = -1) -> Floats:
        """The accuracy to expect of the cases along the axis."""
        x = np.asarray(confidences, dtype=np.float64)
        return np.clip(self.accuracy + _mean(x, x, axis) - self.confidence, 0.0, 1.0)


def isotonic(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """The least-squares rising fit of y on x, by pooling adjacent violators: knots, and its level at each.

    Cases of equal x count together; levels between knots are interpolated, and level off beyond the first and the last.
    """
    values, code, weight = np.unique(
        np.asarray(x, dtype=np.float64), return_inverse=True, return_counts=True
    )
    sums = np.bincount(code.ravel(), weights=np.asarray(y, dtype=np.float64), minlength=len(values))
    blocks: list[tuple[float, int, int]] = []  # sum, cases, distinct values
    for total, cases in zip(sums.tolist(), weight.tolist(), strict=True):
        distinct = 1
        while blocks and blocks[-1][0] * cases >= total * blocks[-1][1]:
            before = blocks.pop()
            total, cases, distinct = total + before[0], cases + before[1], distinct + before[2]
        blocks.append((total, cases, distinct))
    levels = np.repeat(
        [total / cases for total, cases, _ in blocks], [distinct for _, _, distinct in blocks]
    )
    # Only the two ends of a level are needed.
    kept = np.r_[True, levels[1:] != levels[:-1]] | np.r_[levels[1:] != levels[:-1], True]
    return values[kept], levels[kept]


def _rows(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    x, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct).astype(np.float64)
    if x.ndim != 1 or x.shape != right.shape or not len(x):
        raise ValueError(
            f"fit needs one confidence and one outcome a row, at least one row, found shapes {x.shape} and {right.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError(
            f"{int((~np.isfinite(x)).sum())} confidences are NaN or infinite; leave these rows out"
        )
    if not np.isin(right, (0.0, 1.0)).all():
        raise ValueError("correct must be 0/1 or booleans, one a row")
    return x, right


def _log_odds(confidence: Floats) -> Floats:
    x = np.clip(confidence, NEVER_SURE, 1.0 - NEVER_SURE)
    result: Floats = np.log(x) - np.log1p(-x)
    return result


def _mean(each: Floats, confidences: ArrayLike, axis: int) -> Floats:
    """Over the cases that have a confidence; NaN where none has."""
    given = ~np.isnan(np.asarray(confidences, dtype=np.float64))
    count = given.sum(axis=axis)
    total = np.where(given, each, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
