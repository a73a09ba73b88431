"""The rate of shift from alarms: their mean, corrected by Rogan and Gladen (1978), and as the authors of seed 003 code it.

At a rate p an event alarms with probability t(p) = TPR p + FPR (1 - p); solved for p, and clipped to [0, 1]. The interval holds
every p that the alarms do not contradict: (k/n - t(p))^2 <= z^2 [t(p)(1 - t(p))/n + p^2 Var TPR + (1 - p)^2 Var FPR], a quadratic
in p. It is Wilson's where TPR = 1 and FPR = 0 are certain, and Fieller's where the window is long. `delta` is the textbook's
[t(1 - t)/n + p^2 Var TPR + (1 - p)^2 Var FPR] / (TPR - FPR)^2, which says nothing is uncertain where no alarm is seen.

>>> calibrated = Calibrated.from_table({"clean": [1800, 200], "fog": [400, 1600]})
>>> for kinds in ("seen", "new"):
...     rate = rogan_gladen(45, 100, calibrated, kinds=kinds)[()]
...     print(round(rate.interval.low, 2), round(rate.interval.high, 2))
0.37 0.64
0.32 0.82
>>> mean_rate(45, 100)[()].value, round(float(paper_forward_rate(45, 100, calibrated).value), 3)
(0.45, 0.415)
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.registry import register
from roadworthy.statistics import wilson_bounds
from roadworthy.statistics.arguments import check_choice, tail_probability

from .answer import (
    BEYOND_CHANCE,
    MIXTURE,
    NO_EVENTS,
    OUTSIDE,
    WEAK,
    Rates,
    answered,
    verdict_counts,
    window_counts,
)
from .calibrated import Calibrated, Kinds, check_kinds, spoken_of

Floats = NDArray[np.float64]


def mean_rate(alarms: ArrayLike, n: ArrayLike, *, confidence: float = 0.95) -> Rates:
    """The share of alarms, as if every verdict were right, with Wilson's interval."""
    k, size = window_counts(alarms, n)
    low, high = wilson_bounds(k, size, confidence=confidence)
    return answered(
        (_share(k, size), low, high), confidence, "mean of verdicts", {NO_EVENTS: size == 0.0}
    )


@register("estimators", "mean", reads="verdicts", title="mean of verdicts")
def by_mean(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """The share of alarms, as if every verdict were right."""
    return mean_rate(*verdict_counts(counts), confidence=confidence)


def rogan_gladen(
    alarms: ArrayLike,
    n: ArrayLike,
    calibrated: Calibrated,
    *,
    kinds: Kinds = "new",
    interval: Literal["score", "delta"] = "score",
    confidence: float = 0.95,
) -> Rates:
    """The share of alarms corrected for false alarms and misses, clipped to [0, 1]; the interval knows calibration and transfer."""
    from scipy.special import ndtri

    check_kinds(kinds)
    check_choice("interval", interval, ("score", "delta"))
    calibrated.check_verdicts()
    k, size = window_counts(alarms, n)
    z = float(-ndtri(tail_probability(confidence, "two")))
    of_tpr, of_fpr = calibrated.tpr_variance(kinds), calibrated.fpr_variance
    trace = _share(k, size)
    value = np.clip((trace - calibrated.fpr) / (calibrated.tpr - calibrated.fpr), 0.0, 1.0)
    variance = (
        trace * (1.0 - trace) / np.where(size > 0.0, size, 1.0)
        + value**2 * of_tpr
        + (1.0 - value) ** 2 * of_fpr
    )
    half = z * np.sqrt(variance) / (calibrated.tpr - calibrated.fpr)
    low, high = value - half, value + half
    if interval == "score":
        low, high = _score_interval(trace, size, calibrated, of_tpr, of_fpr, z, low, high)
    unknown = size == 0.0
    flags = {
        NO_EVENTS: unknown,
        WEAK: np.full(value.shape, calibrated.weak(kinds)),
        MIXTURE: np.full(value.shape, calibrated.mixture(kinds)),
        **_outside(trace, size, calibrated, kinds, z),
    }
    method = f"Rogan-Gladen, clipped; {interval} interval, {spoken_of(kinds)}"
    where_known = (
        np.where(unknown, 0.0, value),
        np.where(unknown, 0.0, low),
        np.where(unknown, 1.0, high),
    )
    return answered(where_known, confidence, method, flags)


@register("estimators", "rogan_gladen", reads="verdicts", title="Rogan-Gladen")
def by_rogan_gladen(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """The share of alarms corrected for false alarms and misses, clipped to [0, 1]."""
    return rogan_gladen(*verdict_counts(counts), calibrated, confidence=confidence)


def paper_fallback_rate(
    alarms: ArrayLike, n: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """Paper mode: Rogan-Gladen, but the bare mean where that lies outside [FPR, TPR]. The interval is the verdicts' alone."""
    calibrated.check_verdicts()
    k, size = window_counts(alarms, n)
    trace = _share(k, size)
    outside = (trace < calibrated.fpr) | (trace > calibrated.tpr)
    ends = [trace, *wilson_bounds(k, size, confidence=confidence)]
    corrected = [
        np.where(outside, x, (x - calibrated.fpr) / (calibrated.tpr - calibrated.fpr)) for x in ends
    ]
    flags = {OUTSIDE: outside & (size > 0.0), NO_EVENTS: size == 0.0}
    return answered(
        corrected, confidence, "Rogan-Gladen with the mean outside [FPR, TPR] (paper mode)", flags
    )


@register(
    "estimators", "paper_fallback", reads="verdicts", title="Rogan-Gladen, else the mean (paper)"
)
def by_paper_fallback(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """Paper mode: Rogan-Gladen, but the bare mean where that lies outside [FPR, TPR]."""
    return paper_fallback_rate(*verdict_counts(counts), calibrated, confidence=confidence)


def paper_forward_rate(
    alarms: ArrayLike, n: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """Paper mode: the map of section 3.2.1 taken from rate to alarms instead of back, as one branch of the authors' code does."""
    calibrated.check_verdicts()
    k, size = window_counts(alarms, n)
    ends = [_share(k, size), *wilson_bounds(k, size, confidence=confidence)]
    mapped = [calibrated.tpr * x + calibrated.fpr * (1.0 - x) for x in ends]
    return answered(
        mapped, confidence, "TPR t + FPR (1 - t) (paper mode)", {NO_EVENTS: size == 0.0}
    )


@register("estimators", "paper_forward", reads="verdicts", title="from rate to alarms (paper)")
def by_paper_forward(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """Paper mode: the map from rate to alarms where the one back was meant, as one branch of the authors' code does."""
    return paper_forward_rate(*verdict_counts(counts), calibrated, confidence=confidence)


def _share(k: Floats, size: Floats) -> Floats:
    result: Floats = k / np.where(size > 0.0, size, 1.0)
    return result


def _outside(
    trace: Floats, size: Floats, calibrated: Calibrated, kinds: Kinds, z: float
) -> dict[str, NDArray[np.bool_]]:
    """Where the trace lies outside what any rate explains, and where not even chance does."""
    fpr, tpr, n = calibrated.fpr, calibrated.tpr, np.maximum(size, 1.0)
    nearest = np.clip(trace, fpr, tpr)
    of_end = np.where(trace < fpr, calibrated.fpr_variance, calibrated.tpr_variance(kinds))
    beyond = np.abs(trace - nearest) > z * np.sqrt(nearest * (1.0 - nearest) / n + of_end)
    some = size > 0.0
    return {OUTSIDE: (trace != nearest) & some, BEYOND_CHANCE: beyond & some}


def _score_interval(
    trace: Floats,
    size: Floats,
    calibrated: Calibrated,
    of_tpr: float,
    of_fpr: float,
    z: float,
    low: Floats,
    high: Floats,
) -> tuple[Floats, Floats]:
    """All p in [0, 1] between the roots of the quadratic; the delta interval where the alarms contradict every p."""
    fpr, slope, square = calibrated.fpr, calibrated.tpr - calibrated.fpr, z * z
    n = np.where(size > 0.0, size, 1.0)
    a = slope**2 * (1.0 + square / n) - square * (of_tpr + of_fpr)
    b = -2.0 * (trace - fpr) * slope - square * (slope * (1.0 - 2.0 * fpr) / n - 2.0 * of_fpr)
    c = (trace - fpr) ** 2 - square * (fpr * (1.0 - fpr) / n + of_fpr)
    inner = b * b - 4.0 * a * c
    root = np.sqrt(np.maximum(inner, 0.0))
    # a <= 0: the calibration does not tell TPR from FPR, and no rate is excluded.
    bounded = a > 0.0
    divisor = np.where(bounded, 2.0 * a, 1.0)
    least, most = (
        np.where(bounded, (-b - root) / divisor, 0.0),
        np.where(bounded, (-b + root) / divisor, 1.0),
    )
    contradicted = (inner < 0.0) & bounded | (least > 1.0) | (most < 0.0)
    return np.where(contradicted, low, least), np.where(contradicted, high, most)
