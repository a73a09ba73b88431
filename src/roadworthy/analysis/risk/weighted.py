"""Intervals of weighted values: what a posterior over draws and rates says about a quantity, window by window.

>>> values, weights = np.linspace(0.0, 1.0, 1001).reshape(-1, 1, 1), np.full((1001, 1, 1), 1 / 1001)
>>> low, high = among(values, weights, 0.0, 1.0).interval(0.95)
>>> round(float(low[0]), 3), round(float(high[0]), 3)
(0.025, 0.975)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interval = Callable[[Floats, Floats, NDArray[np.bool_]], tuple[Floats, Floats]]
"""Of values and weights of some windows, the interval of each."""

RESOLUTION = 400
"""Steps between the least and the greatest value: finer than any interval that a window can give."""
MATTERS = 1e-9
"""The weight from which on a value widens the span of its window."""
WELL_TOLD, VAGUE = 0.04, 0.08
"""Standard deviations of a share up to which its median is told, and from which on its mean."""
EXACT = 400
"""Events up to which every number of right answers is weighed; beyond, shares on a grid of as many steps."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Of each window, the weight of values near each point from the least to the greatest."""

    points: Floats
    weights: Floats
    """Windows x points."""

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """The central interval of each window."""
        return quantiles(self.weights, self.points, confidence)


def among(values: Floats, weights: Floats, least: float, greatest: float) -> Histogram:
    """The histogram of values (draws x windows x rates), each shared between the two points beside it."""
    windows = weights.shape[1]
    points = np.linspace(least, greatest, RESOLUTION + 1)
    if greatest <= least:
        return Histogram(np.array([least, least]), np.full((windows, 2), 0.5))
    place = (np.broadcast_to(values, weights.shape) - least) * (RESOLUTION / (greatest - least))
    place = np.clip(place, 0.0, RESOLUTION)
    below = np.minimum(place.astype(np.intp), RESOLUTION - 1)
    upper = (place - below) * weights
    at = (below + (np.arange(windows) * (RESOLUTION + 1))[:, None]).ravel()
    size = windows * (RESOLUTION + 1)
    total = np.zeros(size)
    total += np.bincount(at, (weights - upper).ravel(), minlength=size)
    total += np.bincount(at + 1, upper.ravel(), minlength=size)
    return Histogram(points, total.reshape(windows, RESOLUTION + 1))


def spanned(values: Floats, weights: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The central interval of each window's values (draws x windows x rates), between the least and the greatest that matter.

    A leaf that costs a million and hardly ever happens does not coarsen the interval of costs around ten.

    >>> values, weights = np.linspace(5.0, 6.0, 1001).reshape(-1, 1, 1), np.full((1001, 1, 1), 1 / 1001)
    >>> values[0], weights[0] = 1e9, 1e-30
    >>> [round(float(end[0]), 2) for end in spanned(values, weights, 0.95)]
    [5.03, 5.98]
    """
    some = weights > MATTERS
    least = np.where(some, values, np.inf).min(axis=(0, 2))
    greatest = np.where(some, values, -np.inf).max(axis=(0, 2))
    width = np.maximum(greatest - least, np.abs(greatest) * 1e-12 + 1e-300)[:, None]
    low, high = among((values - least[:, None]) / width, weights, 0.0, 1.0).interval(confidence)
    return least + low * width[:, 0], least + high * width[:, 0]


def quantiles(weights: Floats, points: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The central interval of weights (windows x points), each point standing for its neighbourhood; linear within.

    An end at the first or last point, whose neighbourhood holds the tail, is that point: "no shift" must be within reach.
    """
    tail = (1.0 - confidence) / 2.0
    upto, ends = _distribution(weights, points)
    low = np.where(upto[:, 1] >= tail, points[0], _crossing(upto, ends, tail))
    return low, np.where(1.0 - upto[:, -2] >= tail, points[-1], _crossing(upto, ends, 1.0 - tail))


def told(weights: Floats, points: Floats, *, vague: Floats | None = None) -> Floats:
    """One share for each window's weights (windows x points): the median, or the mean where weights are far apart.

    The median errs least where there is one peak; between two peaks, none and half of all say, it jumps from one to the other.
    How far apart they are may be told by other weights.

    >>> points = np.linspace(0.0, 1.0, 101)
    >>> peaks = np.array([np.isin(points, [0.0, 0.5]) * 0.5, np.isin(points, [0.0, 0.03]) * 0.5]) + np.eye(101)[:1] * 0.02
    >>> [round(float(share), 3) for share in told(peaks, points)]
    [0.245, 0.0]
    """
    weights = weights / weights.sum(axis=1, keepdims=True)
    mean = weights @ points
    apart = weights if vague is None else vague / vague.sum(axis=1, keepdims=True)
    deviation = np.sqrt(np.maximum(apart @ points**2 - (apart @ points) ** 2, 0.0))
    low, high = quantiles(weights, points, 0.0)
    median = np.where(
        low == points[0], low, high
    )  # either end is one where half of the weight lies on it
    towards = np.clip((deviation - WELL_TOLD) / (VAGUE - WELL_TOLD), 0.0, 1.0)
    result: Floats = median + towards * (mean - median)
    return result


def divided(above: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats]:
    """Of each window, the weight of the values that are above something, and that of the others."""
    return np.where(above, weights, 0.0).sum(axis=(0, 2)), np.where(above, 0.0, weights).sum(
        axis=(0, 2)
    )


def with_chance(histogram: Histogram, n: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The central interval of a window's own share of right answers: binomial with a probability that the histogram weighs."""
    tail = (1.0 - confidence) / 2.0
    low, high = np.zeros(len(n)), np.ones(len(n))
    whole = np.maximum(np.rint(n), 1.0).astype(int)
    for size in np.unique(whole):
        rows = whole == size
        shares, upto = _binomial(int(size), len(histogram.points))
        mixed = histogram.weights[rows] @ upto
        low[rows] = shares[(mixed > tail).argmax(axis=1)]
        high[rows] = shares[(mixed >= 1.0 - tail - 1e-12).argmax(axis=1)]
    return low, high


@lru_cache(maxsize=32)
def _binomial(n: int, points: int) -> tuple[Floats, Floats]:
    """Shares of right answers, and for every probability on the grid how likely no greater share is."""
    from scipy.special import bdtr, ndtr

    probability = np.linspace(0.0, 1.0, points)[:, None]
    if n <= EXACT:
        k = np.arange(n + 1)
        return k / n, bdtr(k[None, :].astype(float), n, probability)
    shares = np.linspace(0.0, 1.0, 4 * EXACT + 1)
    deviation = np.sqrt(np.maximum(probability * (1.0 - probability) / n, 1e-12))
    upto = ndtr((shares[None, :] - probability) / deviation)
    upto[:, -1] = 1.0
    return shares, upto


def _distribution(weights: Floats, points: Floats) -> tuple[Floats, Floats]:
    """How much weight lies below each end of the points' neighbourhoods, and the ends."""
    ends = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])
    upto = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    return upto / upto[:, -1:], ends


def _crossing(upto: Floats, ends: Floats, level: float) -> Floats:
    """Where the distribution function reaches a level."""
    at = np.clip((upto >= level).argmax(axis=1), 1, len(ends) - 1)
    rows = np.arange(len(upto))
    before, after = upto[rows, at - 1], upto[rows, at]
    part = np.divide(level - before, after - before, out=np.ones_like(before), where=after > before)
    result: Floats = ends[at - 1] + np.clip(part, 0.0, 1.0) * (ends[at] - ends[at - 1])
    return result


def reaching(
    values: Floats,
    weights: Floats,
    ends: Sequence[tuple[NDArray[np.bool_], slice]],
    interval: Interval,
) -> tuple[Floats, Floats]:
    """The intervals of values (draws x windows x rates), stretched over those at an end of the rates that a window's rate reaches.

    A rate that is not told from 0 may be 0, and then the values are those there: a central interval of a density leaves them out.
    """
    everywhere = np.ones(weights.shape[1], dtype=bool)
    low, high = interval(np.broadcast_to(values, weights.shape), weights, everywhere)
    for windows, at in ends:
        there = weights[:, windows, at]
        there = there / np.maximum(there.sum(axis=(0, 2)), 1e-300)[:, None]
        least, most = interval(
            np.broadcast_to(values, weights.shape)[:, windows, at], there, windows
        )
        low[windows], high[windows] = (
            np.minimum(low[windows], least),
            np.maximum(high[windows], most),
        )
    return low, high


def beta_on(rates: Floats, prior: tuple[float, float], *, ends: float = 0.0) -> Floats:
    """A Beta prior's probability of the neighbourhood of each rate, with so much at 0 and at 1 beside it.

    >>> beta_on(np.linspace(0.0, 1.0, 5), (1.0, 1.0)).tolist()
    [0.125, 0.25, 0.25, 0.25, 0.125]
    """
    from scipy.special import betainc

    a, b = prior
    if not (a > 0 and b > 0):
        raise ValueError(
            f"the prior of the rate is a Beta with two positive numbers, found {prior}"
        )
    middle = (rates[1:] + rates[:-1]) / 2
    below = np.concatenate([[0.0], betainc(a, b, middle), [1.0]])
    found = np.diff(below) * (1.0 - 2.0 * ends)
    found[[0, -1]] += ends
    return np.maximum(found, 1e-12)


def span_of(likely: NDArray[np.bool_]) -> slice:
    """From the first to the last that is likely.

    >>> span_of(np.array([False, True, False, True, False]))
    slice(1, 4, None)
    """
    found = np.flatnonzero(likely)
    return slice(int(found[0]), int(found[-1]) + 1)


def check_confidence(confidence: float) -> None:
    """Refuse what is no confidence."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence lies between 0 and 1, found {confidence}")
