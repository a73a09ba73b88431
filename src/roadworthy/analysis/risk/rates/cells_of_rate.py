"""A distribution of the rate over equal cells of [0, 1]: prior masses, mean and interval.

>>> mass = prior_mass((1.0, 1.0), 4)
>>> mass.tolist(), float(mean(mass))
([0.25, 0.25, 0.25, 0.25], 0.5)
>>> [float(end) for end in densest(np.array([0.6, 0.3, 0.06, 0.04]), 0.8)]
[0.0, 0.5]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .answer import Floats

JEFFREYS = (0.5, 0.5)
"""The prior of a share that favours none, with all clean and all shifted windows as common as any."""


def middles(cells: int) -> Floats:
    """The rate in the middle of each cell."""
    result: Floats = (np.arange(cells) + 0.5) / cells
    return result


def prior_mass(prior: tuple[ArrayLike, ArrayLike], cells: int) -> Floats:
    """The mass of a Beta prior in each cell; parameters may be given window by window."""
    from scipy.special import betainc

    a, b = (np.asarray(p, dtype=np.float64)[..., None] for p in prior)
    if not ((a > 0.0).all() and (b > 0.0).all()):
        raise ValueError(f"a Beta prior has two positive parameters, found {prior!r}; (0.5, 0.5) favours none")
    result: Floats = np.diff(betainc(a, b, np.linspace(0.0, 1.0, cells + 1)), axis=-1)
    return result


def normalised(mass: Floats) -> Floats:
    """Masses that add up to one, in the last axis."""
    result: Floats = mass / mass.sum(axis=-1, keepdims=True)
    return result


def mean(mass: Floats) -> Floats:
    """The mean rate."""
    result: Floats = mass @ middles(mass.shape[-1])
    return result


def densest(mass: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The ends of the densest cells that hold this much of the mass; density is against Jeffreys' prior.

    Equal tails would leave out the rates 0 and 1 even where they are the likeliest, and streams without any shift are common.
    Against the bare rate, that prior's own peaks at 0 and 1 would be held where the events speak against them.
    """
    cells = mass.shape[-1]
    # Where nothing was seen all cells are as dense: those around the mean come first.
    off = np.abs(middles(cells) - mean(mass)[..., None])
    density = mass / prior_mass(JEFFREYS, cells) * (1.0 - 1e-9 * off)
    order = np.argsort(-density, axis=-1, kind="stable")
    ranked = np.take_along_axis(mass, order, axis=-1)
    before = np.cumsum(ranked, axis=-1) - ranked
    held = np.empty(mass.shape, dtype=bool)
    np.put_along_axis(held, order, before < confidence * ranked.sum(axis=-1, keepdims=True), axis=-1)
    return held.argmax(axis=-1) / cells, 1.0 - held[..., ::-1].argmax(axis=-1) / cells
