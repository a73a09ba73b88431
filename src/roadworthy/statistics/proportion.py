"""Intervals for a proportion of independent cases: Wilson (1927), Clopper-Pearson (1934), Jeffreys.

Wilson inverts the score test; Clopper-Pearson never covers less than it says; Jeffreys is the equal-tailed
posterior under Beta(1/2, 1/2), with the ends 0 and 1 kept where no success, or no failure, was seen
(Brown, Cai and DasGupta 2001). Counts may be fractional: effective counts of clustered cases.

>>> interval = wilson(45, 50)
>>> round(interval.low, 4), round(interval.high, 4)
(0.7864, 0.9565)
>>> round(clopper_pearson(0, 100, sided="upper").high, 4)   # the rule of three
0.0295
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .arguments import Floats, Sided, check_choice, tail_probability
from .interval import Interval

ProportionMethod = Literal["wilson", "clopper_pearson", "jeffreys"]
Bounds = tuple[Floats, Floats]


def _counts(successes: ArrayLike, n: ArrayLike) -> Bounds:
    x, size = np.broadcast_arrays(
        np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(size))):
        raise ValueError("successes and n must be finite numbers; drop the undefined counts")
    if np.any(size < 0.0) or np.any(x < 0.0):
        raise ValueError("successes and n must not be negative; check how they were counted")
    # Effective counts come out of divisions: a relative rounding error is not a miscount.
    if np.any(x > size * (1.0 + 1e-9)):
        raise ValueError("successes exceed n; check that both count the same cases")
    return np.minimum(x, size), size


def _finish(low: Floats, high: Floats, size: Floats, sided: str) -> Bounds:
    unknown = size == 0.0
    low = np.where(unknown | (sided == "upper"), 0.0, np.clip(low, 0.0, 1.0))
    high = np.where(unknown | (sided == "lower"), 1.0, np.clip(high, 0.0, 1.0))
    return low, high


def wilson_bounds(
    successes: ArrayLike, n: ArrayLike, *, confidence: float = 0.95, sided: Sided = "two"
) -> Bounds:
    """Lower and upper Wilson bounds, elementwise."""
    from scipy.special import ndtri

    tail = tail_probability(confidence, sided)
    x, size = _counts(successes, n)
    z = float(-ndtri(tail))
    total = np.where(size > 0.0, size, 1.0)
    centre = (x + z * z / 2.0) / (total + z * z)
    half = z * np.sqrt(x * (total - x) / total + z * z / 4.0) / (total + z * z)
    # Rounding must not move the ends off 0 and 1 where the formula gives exactly these.
    low = np.where((x == 0.0) & (z >= 0.0), 0.0, centre - half)
    high = np.where((x == size) & (z >= 0.0), 1.0, centre + half)
    return _finish(low, high, size, sided)


def _beta_bounds(x: Floats, size: Floats, tail: float, more: float, less: float) -> Bounds:
    from scipy.special import betaincinv

    inside_low, inside_high = x > 0.0, x < size
    low = betaincinv(np.where(inside_low, x + less, 1.0), size - x + more, tail)
    high = betaincinv(x + more, np.where(inside_high, size - x + less, 1.0), 1.0 - tail)
    return np.where(inside_low, low, 0.0), np.where(inside_high, high, 1.0)


def clopper_pearson_bounds(
    successes: ArrayLike, n: ArrayLike, *, confidence: float = 0.95, sided: Sided = "two"
) -> Bounds:
    """Lower and upper exact bounds, elementwise."""
    tail = tail_probability(confidence, sided)
    x, size = _counts(successes, n)
    return _finish(*_beta_bounds(x, size, tail, more=1.0, less=0.0), size, sided)


def jeffreys_bounds(
    successes: ArrayLike, n: ArrayLike, *, confidence: float = 0.95, sided: Sided = "two"
) -> Bounds:
    """Lower and upper Jeffreys bounds, elementwise."""
    tail = tail_probability(confidence, sided)
    x, size = _counts(successes, n)
    return _finish(*_beta_bounds(x, size, tail, more=0.5, less=0.5), size, sided)


_BOUNDS: dict[str, Callable[..., Bounds]] = {
    "wilson": wilson_bounds,
    "clopper_pearson": clopper_pearson_bounds,
    "jeffreys": jeffreys_bounds,
}


def proportion_bounds(
    successes: ArrayLike, n: ArrayLike, *, confidence: float, sided: Sided, method: ProportionMethod
) -> Bounds:
    """The bounds of the named method."""
    check_choice("method", method, tuple(_BOUNDS))
    return _BOUNDS[method](successes, n, confidence=confidence, sided=sided)


def _interval(
    method: ProportionMethod, successes: float, n: float, confidence: float, sided: Sided
) -> Interval:
    low, high = proportion_bounds(successes, n, confidence=confidence, sided=sided, method=method)
    return Interval(float(low), float(high), float(confidence), method)


def wilson(
    successes: float, n: float, *, confidence: float = 0.95, sided: Sided = "two"
) -> Interval:
    """The score interval; close to nominal on average over p, below it at some p."""
    return _interval("wilson", successes, n, confidence, sided)


def clopper_pearson(
    successes: float, n: float, *, confidence: float = 0.95, sided: Sided = "two"
) -> Interval:
    """The exact interval; covers at least `confidence` at every p."""
    return _interval("clopper_pearson", successes, n, confidence, sided)


def jeffreys(
    successes: float, n: float, *, confidence: float = 0.95, sided: Sided = "two"
) -> Interval:
    """The Bayesian interval under Beta(1/2, 1/2); close to nominal on average over p."""
    return _interval("jeffreys", successes, n, confidence, sided)
