"""One-sided p-values that say the same as the bounds: p < 1 - confidence exactly where the bound
clears.

The p-value is the smallest error probability at which the one-sided bound still clears the limit,
found by bisection; Holm's correction can then be applied to claims that are judged by their bounds.

>>> from roadworthy.statistics.proportion import wilson
>>> p = p_value_from_bound(lambda confidence: wilson(58, 60, confidence=confidence, sided="lower").low, 0.9)
>>> round(p, 3)
0.043

Corrections for looking at many things at once: Holm (1979), Benjamini-Hochberg (1995), Bonferroni.

>>> holm([0.01, 0.04, 0.03]).tolist()
[0.03, 0.06, 0.06]
>>> simultaneous(0.95, 10)
0.995
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.statistics.arguments import (
    Floats,
    check_choice,
    check_confidence,
    real_values,
)

Alternative = Literal["greater", "less"]

# 1 - p must stay apart from 1 in double precision.
_SMALLEST = 1e-15


def p_value_from_bound(
    bound_at: Callable[[float], float], limit: float, *, alternative: Alternative = "greater"
) -> float:
    """The p-value of `quantity <= limit` (greater) or `>= limit` (less) from a one-sided bound.

    `bound_at(confidence)` is the lower bound for "greater", the upper one for "less". Never below
    1e-15.
    """
    check_choice("alternative", alternative, ("greater", "less"))

    def clears(p: float) -> bool:
        bound = bound_at(1.0 - p)
        return bound > limit if alternative == "greater" else bound < limit

    # In log-odds of p, so that small p-values and those near 1 are found equally well.
    low, high = math.log(_SMALLEST), -math.log(1e-9)
    if clears(_SMALLEST):
        return _SMALLEST
    if not clears(_logistic(high)):
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if clears(_logistic(middle)):
            high = middle
        else:
            low = middle
    return _logistic(high)


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _p_values(p: ArrayLike) -> Floats:
    values = real_values(p, "p")
    if np.any((values < 0.0) | (values > 1.0)):
        raise ValueError("p-values must lie between 0 and 1; these look like test statistics")
    return values


def holm(p: ArrayLike) -> Floats:
    """Adjusted p-values that control the chance of any false rejection, whatever the dependence."""
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def simultaneous(confidence: float, m: int) -> float:
    """The confidence each of m intervals needs so that all hold together with `confidence`
    (Bonferroni)."""
    level = check_confidence(confidence)
    if m < 1:
        raise ValueError(f"m must count at least one interval, found {m!r}")
    return 1.0 - (1.0 - level) / m
