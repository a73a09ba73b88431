"""Estimates from a drawn sample: priority sampling, and the difference estimator.

*Priority sampling* (Duffield, Lund and Thorup 2007): item i with weight w_i has a number u_i in
(0, 1], the n items of the highest w_i / u_i are drawn, and with the next highest one t each was
included with probability min(1, w_i / t).

*The difference estimator* (Saerndal, Swensson and Wretman 1992, chapter 6): the mean of what a model
expects of all items, plus the mean over all of (found - expected) / probability for the drawn ones.
It is unbiased whatever the model, if every item had a chance.

>>> priority_sample(np.array([1.0, 1.0, 4.0]), np.array([0.5, 0.2, 0.5]), 1)
(array([2]), array([0.2, 0.2, 0.8]))
>>> expected, drawn = np.full(1000, 0.9), np.arange(100)
>>> estimate = difference_estimate(expected, drawn, drawn % 2 == 0, np.full(100, 0.1))
>>> round(estimate.value, 3), round(estimate.covered, 3), bool(estimate.low < 0.5 < estimate.high)
(0.5, 1.0, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def priority_sample(
    weights: Floats, uniform: Floats, n: int, *, among: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.intp], Floats]:
    """Places of the n items drawn `among` some, and the probability that each of all has."""
    priority = weights / uniform
    places = np.arange(len(weights)) if among is None else np.flatnonzero(among)
    order = places[np.argsort(-priority[places], kind="stable")]
    threshold = float(priority[order[n]]) if len(order) > n else 0.0
    probability = np.minimum(1.0, weights / threshold) if threshold > 0 else np.ones(len(weights))
    return order[:n], probability


@dataclass(frozen=True)
class Corrected:
    """A mean, corrected by a sample."""

    value: float
    low: float
    high: float
    covered: float
    """The share of all items that the sample stands for; the rest is the model's."""

    def wider(self, below: float, above: float) -> Corrected:
        """With the half-widths of another, independent interval added."""
        low = math.hypot(self.value - self.low, below)
        high = math.hypot(self.high - self.value, above)
        return replace(self, low=self.value - low, high=self.value + high)

    def scaled(self, lowest: float, span: float) -> Corrected:
        """On a scale from `lowest`, of this length."""
        value, low, high = (lowest + span * end for end in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)


def difference_estimate(
    expected: Floats,
    at: NDArray[np.int64],
    found: NDArray[Any],
    probability: Floats,
    *,
    confidence: float = 0.95,
    weights: Floats | None = None,
) -> Corrected:
    """The mean of a quantity from 0 to 1: `expected` of all items, and `found` of those at `at`.

    The variance is that of Poisson sampling, sum (1 - p) / p^2 w^2 r^2, and that of items that are
    added, half of them 1: few that happen to be alike say nothing about the rest (Agresti and Coull
    1998). Degrees of freedom are those of the factors (Satterthwaite 1946). An item that was drawn
    stands for itself and for such as were not. No result is given that the sample rules out: the
    others are all 1 at most, or all 0.
    """
    from scipy.stats import t

    n, drawn = len(expected), len(at)
    all_of = np.ones(n) if weights is None else weights
    probability = np.maximum(probability, 1.0 / (1 + n - drawn))
    total, own = float(all_of.sum()), all_of[at]
    residual, stands = found - expected[at], own / probability
    value = float(all_of @ expected + stands @ residual) / total
    # Items that were certain to be drawn say nothing about the spread of the others.
    factor = stands * (stands - own)
    # What an added item stands for is typical of those that stand for much.
    weight, each = (float(stands**2 @ of / (stands**2).sum()) for of in (stands, own))
    added = added_items(confidence)
    mean = float(np.clip(np.average(expected[at], weights=own), 0, 1))
    spread = added / 2.0 * weight * (weight - each) * (mean**2 + (1.0 - mean) ** 2)
    variance = float(factor @ residual**2) + spread
    freedom = float(factor.sum() ** 2 / max((factor**2).sum(), 1e-300)) - 1.0 + added
    quantile = float(t.ppf(0.5 + confidence / 2, max(freedom, 1.0)))
    half = quantile * math.sqrt(max(variance, 0.0)) / total
    least = float(own @ found) / total
    most = least + max(1.0 - float(own.sum()) / total, 0.0)
    value = min(max(value, least), most)
    covered = min(1.0, float(stands.sum()) / total)
    return Corrected(value, max(value - half, least), min(value + half, most), covered)


def added_items(confidence: float) -> float:
    """Items that are added to those drawn: z^2."""
    from scipy.stats import norm

    return float(norm.ppf(0.5 + confidence / 2)) ** 2
