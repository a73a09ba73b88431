"""A distribution of the rate over cells of [0, 1] that are equally likely under Jeffreys' prior.

The cells are equal in the angle of the rate, p = sin^2(pi u / 2): the chance error of a share is the
same in each of them, and they are finest near 0 and 1, where most streams are.

>>> [round(float(end), 3) for end in densest(np.array([0.6, 0.3, 0.06, 0.04]), 0.8)]
[0.0, 0.5]
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .base import Floats

FEWEST, MOST = 160, 800
"""Cells of the shortest windows, and of those of 10,000 events and more."""


def cells_for(n: float) -> int:
    """So many cells that the chance error of n events spans several."""
    return int(min(max(float(FEWEST), 8.0 * math.sqrt(n)), float(MOST)))


def middles(cells: int) -> Floats:
    """The rate in the middle of each cell."""
    return at_angle((np.arange(cells) + 0.5) / cells)


def at_angle(part: ArrayLike) -> Floats:
    """The share at this part of the way from 0 to 1 in angle."""
    result: Floats = np.sin(np.asarray(part, dtype=np.float64) * (math.pi / 2.0)) ** 2
    return result


def angle(share: ArrayLike) -> Floats:
    """The inverse of `at_angle`."""
    result: Floats = np.arcsin(np.sqrt(np.asarray(share, dtype=np.float64))) * (2.0 / math.pi)
    return result


def normalised(mass: Floats) -> Floats:
    """Masses that add up to one, in the last axis."""
    result: Floats = mass / mass.sum(axis=-1, keepdims=True)
    return result


def densest(mass: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The ends of the heaviest cells that hold this much of the mass.

    Equal tails would leave out the rates 0 and 1 even if they are the likeliest, and streams without
    any shift are common.
    """
    cells, rate = mass.shape[-1], middles(mass.shape[-1])
    # If nothing was seen all cells are as heavy: those around the mean come first.
    off = np.abs(rate - (mass @ rate)[..., None])
    order = np.argsort(-mass * (1.0 - 1e-9 * off), axis=-1, kind="stable")
    ranked = np.take_along_axis(mass, order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked
    inside = before < confidence * ranked.sum(axis=-1, keepdims=True)
    held = np.empty(mass.shape, dtype=bool)
    np.put_along_axis(held, order, inside, axis=-1)
    first, last = held.argmax(axis=-1), cells - held[..., ::-1].argmax(axis=-1)
    return at_angle(first / cells), at_angle(last / cells)
