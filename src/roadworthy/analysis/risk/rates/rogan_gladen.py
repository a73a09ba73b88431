"""The rate of shift from alarms: their mean, corrected by Rogan and Gladen (1978), and the paper's.

At a rate p an event alarms with probability t(p) = TPR p + FPR (1 - p); solved for p, and clipped to
[0, 1]. The interval holds every p that the alarms do not contradict:
(k/n - t(p))^2 <= z^2 [t(p)(1 - t(p))/n + p^2 Var TPR + (1 - p)^2 Var FPR], a quadratic in p. It is
Wilson's if TPR = 1 and FPR = 0 are certain, and Fieller's if the window is long. If the alarms
contradict every p, it is the textbook's delta interval,
Var p = [t(1 - t)/n + p^2 Var TPR + (1 - p)^2 Var FPR] / (TPR - FPR)^2.

>>> calibrated = Calibrated.from_table({"clean": [1800, 200], "fog": [400, 1600]})
>>> rate = rogan_gladen([55, 45], calibrated)  # 55 events cleared, 45 alarmed
>>> round(float(rate.value), 2), round(float(rate.low), 2), round(float(rate.high), 2)
(0.5, 0.32, 0.82)
>>> float(mean_rate([55, 45], calibrated).value)
0.45
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register
from roadworthy.statistics import wilson_bounds
from roadworthy.statistics.arguments import tail_probability

from . import Calibrated, Floats, Rates, alarms_and_events, share_variance


@register("estimators", "mean", reads="verdicts", title="mean of verdicts")
def mean_rate(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """The share of alarms, as if every verdict were right."""
    k, size = alarms_and_events(counts)
    ends = _share(k, size), *wilson_bounds(k, size, confidence=confidence)
    return Rates.of(ends, confidence)


@register("estimators", "rogan_gladen", reads="verdicts", title="Rogan-Gladen")
def rogan_gladen(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """The share of alarms corrected for false alarms and misses, clipped to [0, 1].

    The interval includes the uncertainty of TPR and FPR, for a new kind of shift.
    """
    from scipy.special import ndtri

    calibrated.check_verdicts()
    k, size = alarms_and_events(counts)
    z = float(-ndtri(tail_probability(confidence, "two")))
    of_tpr, of_fpr = calibrated.tpr_variance, share_variance(calibrated.clean)
    fpr, slope = calibrated.fpr, calibrated.tpr - calibrated.fpr
    trace, some = _share(k, size), size > 0.0
    events = np.where(some, size, 1.0)
    value = np.clip((trace - fpr) / slope, 0.0, 1.0)
    variance = trace * (1.0 - trace) / events + value**2 * of_tpr + (1.0 - value) ** 2 * of_fpr
    half = z * np.sqrt(variance) / slope
    # The quadratic a p^2 + b p + c <= 0; if a <= 0, TPR and FPR may be the same: no p is excluded.
    square = z * z
    a = slope**2 * (1.0 + square / events) - square * (of_tpr + of_fpr)
    b = -2.0 * (trace - fpr) * slope - square * (slope * (1.0 - 2.0 * fpr) / events - 2.0 * of_fpr)
    c = (trace - fpr) ** 2 - square * (fpr * (1.0 - fpr) / events + of_fpr)
    inner, bounded = b * b - 4.0 * a * c, a > 0.0
    root, divisor = np.sqrt(np.maximum(inner, 0.0)), np.where(bounded, 2.0 * a, 1.0)
    least = np.where(bounded, (-b - root) / divisor, 0.0)
    most = np.where(bounded, (-b + root) / divisor, 1.0)
    contradicted = (inner < 0.0) & bounded | (least > 1.0) | (most < 0.0)
    low = np.where(contradicted, value - half, least)
    high = np.where(contradicted, value + half, most)
    ends = np.where(some, value, 0.0), np.where(some, low, 0.0), np.where(some, high, 1.0)
    return Rates.of(ends, confidence, outside=_outside(trace, calibrated) & some)


@register(
    "estimators", "paper_fallback", reads="verdicts", title="Rogan-Gladen, else the mean (paper)"
)
def paper_fallback_rate(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """Paper mode: Rogan-Gladen, but the bare mean outside [FPR, TPR]; the verdicts' interval."""
    calibrated.check_verdicts()
    k, size = alarms_and_events(counts)
    trace = _share(k, size)
    outside = _outside(trace, calibrated)
    ends = [trace, *wilson_bounds(k, size, confidence=confidence)]
    slope = calibrated.tpr - calibrated.fpr
    corrected = [np.where(outside, x, (x - calibrated.fpr) / slope) for x in ends]
    return Rates.of(corrected, confidence, outside=outside & (size > 0.0))


def _outside(trace: Floats, calibrated: Calibrated) -> np.ndarray:
    return (trace < calibrated.fpr) | (trace > calibrated.tpr)


def _share(k: Floats, size: Floats) -> Floats:
    return np.asarray(k / np.where(size > 0.0, size, 1.0))
