"""A distribution of the rate over equal cells of [0, 1]: prior masses, mean and quantiles.

>>> mass = prior_mass((1.0, 1.0), 4)
>>> mass.tolist(), float(mean(mass)), quantile(mass, 0.3).tolist()
([0.25, 0.25, 0.25, 0.25], 0.5, 0.3)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .answer import Floats


def middles(cells: int) -> Floats:
    """The rate in the middle of each cell."""
    result: Floats = (np.arange(cells) + 0.5) / cells
    return result


def prior_mass(prior: tuple[ArrayLike, ArrayLike], cells: int) -> Floats:
    """The mass of a Beta prior in each cell; parameters may be given window by window."""
    from scipy.special import betainc

    a, b = (np.asarray(p, dtype=np.float64)[..., None] for p in prior)
    if not ((a > 0.0).all() and (b > 0.0).all()):
        raise ValueError(f"a Beta prior has two positive parameters, found {prior!r}; (1, 1) favours no rate")
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


def quantile(mass: Floats, level: float) -> Floats:
    """The rate below which this much of the mass lies, evenly spread within a cell."""
    upto = np.cumsum(mass, axis=-1)
    cells = mass.shape[-1]
    at = np.minimum((upto < level * upto[..., -1:]).sum(axis=-1), cells - 1)[..., None]
    within = np.take_along_axis(mass, at, axis=-1)
    before = np.take_along_axis(upto, at, axis=-1) - within
    part = (level * upto[..., -1:] - before) / np.maximum(within, 1e-300)
    result: Floats = ((at + np.clip(part, 0.0, 1.0)) / cells)[..., 0]
    return result
