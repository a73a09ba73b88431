"""Bounds for the mean of independent values between 0 and 1 that hold at any fixed n.

For independent values in [0, 1] with mean m and sum S, the expectation of every convex function of
S is at most that of a binomial count B of n trials with probability m (Hoeffding 1963). Taking
(t - S)+, P(S <= s) is at most the minimum over t of E(t - B)+ / (t - s) (Bentkus 2004). The upper
bound is the largest m for which this exceeds the tail. It needs no variance, and the values need
not have one distribution. With S = 0 it is Clopper and Pearson's; for 0/1 values at most 7% wider.

>>> round(bounded_mean_upper(1.5, 50, tail=0.025), 3)     # failing shares of 50 groups, their sum
0.123
>>> round(bounded_mean_upper(0.0, 50, tail=0.025), 4)     # 1 - 0.025 ** (1 / 50)
0.0711
"""

from __future__ import annotations

import math

import numpy as np


def bounded_mean_upper(total: float, n: int, tail: float) -> float:
    """The upper bound from the sum of n values; the lower one is 1 - upper(n - total)."""
    from scipy.optimize import brentq

    total = max(total, 0.0)  # n - total may be a rounding error below 0
    if total >= n:
        return 1.0
    # At the mean of the values the tail bound is 1 or more (Jensen), at 1 it is 0.
    root = brentq(lambda m: _tail_bound(total, n, m) - tail, total / n, 1.0, xtol=1e-18)
    return float(root)


def _tail_bound(total: float, n: int, mean: float) -> float:
    """At least P(S <= total) if the mean is this one."""
    from scipy.special import betaincc

    # Between whole numbers the quotient is monotone in t: the minimum is at one of them. Far ones
    # cannot be the minimum near the bound, and leaving any out is cautious.
    first = math.floor(total) + 1
    t = np.arange(first, min(n, first + 20 + int(8.0 * math.sqrt(first))) + 1, dtype=np.float64)
    # P(B <= t - 1) of n trials, and P(B <= t - 2) of one less: E(B; B < t) is n mean times that.
    below = np.where(t > 1.0, betaincc(np.maximum(t - 1.0, 1.0), n + 1.0 - t, mean), 0.0)
    expected = t * betaincc(t, n + 1.0 - t, mean) - n * mean * below
    return float((expected / (t - total)).min())
