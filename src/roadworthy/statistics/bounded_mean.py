"""Bounds for the mean of independent values between 0 and 1 that hold at any fixed n.

For independent values in [0, 1] with mean m and sum S, the expectation of every convex function of S is at
most that of a binomial count B of n trials with probability m (Hoeffding 1963). With (t - S)+, so that
P(S <= s) <= min over t of E(t - B)+ / (t - s) (Bentkus 2004, whose constant e bounds this minimum). The upper
bound is the largest m for which this exceeds the tail. It needs no variance, and values need not have
the same distribution. With S = 0 it is the bound of Clopper and Pearson; for 0/1 values at most 7% wider.

>>> shares = np.r_[np.zeros(45), 0.2, 0.4, 0.1, 0.5, 0.3]    # failing shares of 50 groups
>>> round(bounded_mean(shares, confidence=0.975, sided="upper").high, 3)
0.123
>>> round(bounded_mean(np.zeros(50), confidence=0.975, sided="upper").high, 4)   # 1 - 0.025 ** (1 / 50)
0.0711
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .arguments import Sided, open_sides, real_values, tail_probability
from .interval import Interval


def bounded_mean(values: ArrayLike, *, confidence: float = 0.95, sided: Sided = "two") -> Interval:
    """The interval for the mean of independent values between 0 and 1."""
    tail = tail_probability(confidence, sided)
    numbers = real_values(values, "values")
    if numbers.min() < 0.0 or numbers.max() > 1.0:
        raise ValueError(
            f"values must lie between 0 and 1, found {numbers.min():g} to {numbers.max():g}; "
            "divide them by their largest possible value"
        )
    n, total = len(numbers), float(numbers.sum())
    low, high = 1.0 - bounded_mean_upper(n - total, n, tail), bounded_mean_upper(total, n, tail)
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    return Interval(low, high, float(confidence), f"bounded mean, {n} values")


def bounded_mean_upper(total: float, n: int, tail: float) -> float:
    """The upper bound from the sum of n values alone."""
    if total >= n:
        return 1.0
    low, high = max(total, 0.0) / n, 1.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        if _tail_bound(max(total, 0.0), n, middle) > tail:
            low = middle
        else:
            high = middle
    return high


def _tail_bound(total: float, n: int, mean: float) -> float:
    """At least P(S <= total) if the mean is this one."""
    from scipy.special import bdtr

    # Between whole numbers the quotient is monotone in t: the minimum is at one of them. Far ones
    # cannot be the minimum near the bound, and leaving any out is cautious.
    first = math.floor(total) + 1
    t = np.arange(first, min(n, first + 20 + int(8.0 * math.sqrt(first))) + 1, dtype=np.float64)
    below = np.where(t >= 2.0, bdtr(np.maximum(t - 2.0, 0.0), max(n - 1, 1), mean), 0.0)
    expected = t * bdtr(t - 1.0, n, mean) - n * mean * below
    return float((expected / (t - total)).min())
