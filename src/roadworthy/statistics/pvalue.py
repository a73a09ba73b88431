"""One-sided p-values that say the same as the bounds: p < 1 - confidence exactly where the bound clears.

The p-value is the smallest error probability at which the one-sided bound still clears the limit, found by
bisection; Holm's correction can then be applied to claims that are judged by their bounds.

>>> p = proportion_p_value([1] * 58 + [0] * 2, 0.9, alternative="greater")
>>> round(p, 3)
0.043
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from numpy.typing import ArrayLike

from .arguments import binary_values, check_choice
from .clusters import clustered_proportion
from .proportion import ProportionMethod

Alternative = Literal["greater", "less"]

# 1 - p must stay apart from 1 in double precision.
_SMALLEST = 1e-15


def p_value_from_bound(
    bound_at: Callable[[float], float], limit: float, *, alternative: Alternative = "greater"
) -> float:
    """The p-value of `quantity <= limit` (greater) or `>= limit` (less) from a one-sided bound.

    `bound_at(confidence)` is the lower bound for "greater", the upper one for "less". Never below 1e-15.
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


def proportion_p_value(
    outcomes: ArrayLike,
    limit: float,
    groups: ArrayLike | None = None,
    *,
    alternative: Alternative = "greater",
    method: ProportionMethod = "wilson",
) -> float:
    """The p-value against "the proportion is not above (greater) / not below (less) the limit"."""
    values = binary_values(outcomes, "outcomes")
    if not 0.0 <= limit <= 1.0:
        raise ValueError(f"limit must be a proportion between 0 and 1, found {limit!r}")

    def bound_at(confidence: float) -> float:
        sided: Literal["lower", "upper"] = "lower" if alternative == "greater" else "upper"
        interval = clustered_proportion(
            values, groups, confidence=confidence, sided=sided, method=method
        )
        return interval.low if alternative == "greater" else interval.high

    return p_value_from_bound(bound_at, limit, alternative=alternative)
