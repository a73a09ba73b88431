"""A distribution of the rate over cells of [0, 1] that are equally likely under Jeffreys' prior: masses, mean and interval.

The cells are equal in the angle of the rate, p = sin^2(pi u / 2): the chance error of a share is the same in each of them, and
near 0 and 1, where most streams are, they are the finest. A span, from one angle to another, has cells for itself where the
rates outside it are not worth any: all between is as fine as a long window asks for.

>>> mass = prior_mass(JEFFREYS, 4)
>>> mass.round(6).tolist(), round(float(mean(mass)), 6)
([0.25, 0.25, 0.25, 0.25], 0.5)
>>> [round(float(end), 3) for end in densest(np.array([0.6, 0.3, 0.06, 0.04]), 0.8)]
[0.0, 0.5]
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .answer import Floats

JEFFREYS = (0.5, 0.5)
"""The prior of a share that favours none, with all clean and all shifted windows as common as any."""
Span = tuple[float, float]
WHOLE: Span = (0.0, 1.0)
FEWEST, MOST = 160, 800
"""Cells of the shortest windows, and of those of 10,000 events and more."""


def cells_for(n: float) -> int:
    """So many cells that the chance error of n events spans several."""
    return int(min(max(float(FEWEST), 8.0 * math.sqrt(n)), float(MOST)))


def middles(cells: int, span: Span = WHOLE) -> Floats:
    """The rate in the middle of each cell."""
    return at_angle(_angles(np.arange(cells) + 0.5, cells, span))


def at_angle(part: ArrayLike) -> Floats:
    """The share at this part of the way from 0 to 1 in angle."""
    result: Floats = np.sin(np.asarray(part, dtype=np.float64) * (math.pi / 2.0)) ** 2
    return result


def angle(share: ArrayLike) -> Floats:
    """The inverse of `at_angle`."""
    result: Floats = np.arcsin(np.sqrt(np.asarray(share, dtype=np.float64))) * (2.0 / math.pi)
    return result


def _angles(place: ArrayLike, cells: int, span: Span) -> Floats:
    return span[0] + np.asarray(place, dtype=np.float64) / cells * (span[1] - span[0])


def prior_mass(prior: tuple[ArrayLike, ArrayLike], cells: int, span: Span = WHOLE) -> Floats:
    """The mass of a Beta prior in each cell; parameters may be given window by window."""
    from scipy.special import betainc

    a, b = (np.asarray(p, dtype=np.float64)[..., None] for p in prior)
    if not ((a > 0.0).all() and (b > 0.0).all()):
        raise ValueError(
            f"a Beta prior has two positive parameters, found {prior!r}; (0.5, 0.5) favours none"
        )
    result: Floats = np.diff(
        betainc(a, b, at_angle(_angles(np.arange(cells + 1.0), cells, span))), axis=-1
    )
    return result


def normalised(mass: Floats) -> Floats:
    """Masses that add up to one, in the last axis."""
    result: Floats = mass / mass.sum(axis=-1, keepdims=True)
    return result


def mean(mass: Floats, span: Span = WHOLE) -> Floats:
    """The mean rate."""
    result: Floats = mass @ middles(mass.shape[-1], span)
    return result


def above(mass: Floats, rate: float) -> Floats:
    """The mass of higher rates."""
    cells = mass.shape[-1]
    result: Floats = mass @ np.clip(np.arange(1, cells + 1) - float(angle(rate)) * cells, 0.0, 1.0)
    return result


def densest(mass: Floats, confidence: float, span: Span = WHOLE) -> tuple[Floats, Floats]:
    """The ends of the heaviest cells that hold this much of the mass.

    Equal tails would leave out the rates 0 and 1 even where they are the likeliest, and streams without any shift are common.
    """
    cells = mass.shape[-1]
    # Where nothing was seen all cells are as heavy: those around the mean come first.
    off = np.abs(middles(cells, span) - mean(mass, span)[..., None])
    order = np.argsort(-mass * (1.0 - 1e-9 * off), axis=-1, kind="stable")
    ranked = np.take_along_axis(mass, order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked
    held = np.empty(mass.shape, dtype=bool)
    np.put_along_axis(
        held, order, before < confidence * ranked.sum(axis=-1, keepdims=True), axis=-1
    )
    first, last = held.argmax(axis=-1), cells - held[..., ::-1].argmax(axis=-1)
    return at_angle(_angles(first, cells, span)), at_angle(_angles(last, cells, span))
