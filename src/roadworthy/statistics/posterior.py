"""Intervals of posteriors on a grid: quantiles of weighted values, row by row, and densest cells.

>>> points, weights = np.linspace(0.0, 1.0, 1001), np.full((1, 1001), 1 / 1001)
>>> low, high = quantiles(weights, points, 0.95)
>>> round(float(low[0]), 3), round(float(high[0]), 3)
(0.025, 0.975)
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESOLUTION = 400
"""Steps of a histogram between the least and the greatest value."""
EXACT = 400
"""Up to so many events every number of right answers is weighed; beyond, the normal distribution."""


def quantiles(weights: Floats, points: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The central interval of weights (rows x points), linear between points.

    If the first or the last point holds the tail, the interval ends there: "no shift" must be
    within reach.
    """
    tail = (1.0 - confidence) / 2.0
    ends = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])
    upto = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    upto /= upto[:, -1:]
    low = np.where(upto[:, 1] >= tail, points[0], _crossing(upto, ends, tail))
    high = np.where(1.0 - upto[:, -2] >= tail, points[-1], _crossing(upto, ends, 1.0 - tail))
    return low, high


def _crossing(upto: Floats, ends: Floats, level: float) -> Floats:
    """Where each distribution function reaches a level."""
    at = np.clip((upto >= level).argmax(axis=1), 1, len(ends) - 1)
    rows = np.arange(len(upto))
    before, after = upto[rows, at - 1], upto[rows, at]
    part = np.divide(level - before, after - before, out=np.ones_like(before), where=after > before)
    result: Floats = ends[at - 1] + np.clip(part, 0.0, 1.0) * (ends[at] - ends[at - 1])
    return result


def histogram(values: Floats, weights: Floats) -> Floats:
    """The weight near each of RESOLUTION + 1 points from 0 to 1, of values (windows x grid).

    A value is shared between the two points beside it. `weights` are windows x grid.

    >>> histogram(np.array([[0.5, 1.0]]), np.array([[0.25, 0.75]]))[0, [200, 400]].tolist()
    [0.25, 0.75]
    """
    windows = weights.shape[0]
    place = np.clip(values, 0.0, 1.0) * RESOLUTION
    below = np.minimum(place.astype(np.intp), RESOLUTION - 1)
    upper = (place - below) * weights
    at = (below + (np.arange(windows) * (RESOLUTION + 1))[:, None]).ravel()
    size = windows * (RESOLUTION + 1)
    total = np.zeros(size)
    total += np.bincount(at, (weights - upper).ravel(), minlength=size)
    total += np.bincount(at + 1, upper.ravel(), minlength=size)
    return total.reshape(windows, RESOLUTION + 1)


def spanned(values: Floats, weights: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The central interval of values (windows x values) between the least and greatest likely."""
    some = weights > 1e-7
    least = np.where(some, values, np.inf).min(axis=1)
    width = np.maximum(np.where(some, values, -np.inf).max(axis=1) - least, 1e-300)
    part = histogram((values - least[:, None]) / width[:, None], weights)
    low, high = quantiles(part, np.linspace(0.0, 1.0, part.shape[1]), confidence)
    return least + low * width, least + high * width


def with_chance(weights: Floats, n: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The central interval of the share of right answers among n events.

    The share is binomial, with a probability that the histogram `weights` describes.
    """
    tail = (1.0 - confidence) / 2.0
    total = weights / weights.sum(axis=1, keepdims=True)
    low, high = np.zeros(len(n)), np.ones(len(n))
    whole = np.maximum(np.rint(n), 1.0).astype(int)
    for size in np.unique(whole):
        rows = whole == size
        shares, upto = _binomial(int(size))
        mixed = total[rows] @ upto
        low[rows] = shares[(mixed > tail).argmax(axis=1)]
        high[rows] = shares[(mixed >= 1.0 - tail - 1e-12).argmax(axis=1)]
    return low, high


@lru_cache(maxsize=32)
def _binomial(n: int) -> tuple[Floats, Floats]:
    """Shares of right answers, and for every probability on the grid P(share <= this one)."""
    from scipy.special import bdtr, ndtr

    probability = np.linspace(0.0, 1.0, RESOLUTION + 1)[:, None]
    if n <= EXACT:
        k = np.arange(n + 1)
        return k / n, bdtr(k[None, :].astype(float), n, probability)
    shares = np.linspace(0.0, 1.0, 4 * EXACT + 1)
    deviation = np.sqrt(np.maximum(probability * (1.0 - probability) / n, 1e-12))
    upto = ndtr((shares[None, :] - probability) / deviation)
    upto[:, -1] = 1.0
    return shares, upto


def densest(mass: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The ends of the heaviest cells (even in angle) that hold this much of the mass.

    Equal tails would leave out the rates 0 and 1 even if they are the likeliest, and streams without
    any shift are common.

    >>> [round(float(end), 3) for end in densest(np.array([0.6, 0.3, 0.06, 0.04]), 0.8)]
    [0.0, 0.5]
    """
    cells = mass.shape[-1]
    order = np.argsort(-mass, axis=-1, kind="stable")
    ranked = np.take_along_axis(mass, order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked
    inside = before < confidence * ranked.sum(axis=-1, keepdims=True)
    held = np.empty(mass.shape, dtype=bool)
    np.put_along_axis(held, order, inside, axis=-1)
    first, last = held.argmax(axis=-1), cells - held[..., ::-1].argmax(axis=-1)
    return at_angle(first / cells), at_angle(last / cells)


def at_angle(part: ArrayLike) -> Floats:
    """The share at this part of the way from 0 to 1 in angle, on which Jeffreys' prior is even."""
    return np.asarray(np.sin(np.asarray(part, dtype=np.float64) * (math.pi / 2.0)) ** 2)
