"""Corrections for looking at many things at once: Holm (1979), Benjamini-Hochberg (1995), Bonferroni.

>>> holm([0.01, 0.04, 0.03]).tolist()
[0.03, 0.06, 0.06]
>>> simultaneous(0.95, 10)
0.995
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .arguments import Floats, check_confidence, real_values


def _p_values(p: ArrayLike) -> Floats:
    values = real_values(p, "p")
    if np.any((values < 0.0) | (values > 1.0)):
        raise ValueError("p-values must lie between 0 and 1; these look like test statistics")
    return values


def holm(p: ArrayLike) -> Floats:
    """Adjusted p-values that control the chance of any false rejection, whatever the dependence."""
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """Adjusted p-values that control the expected share of false rejections, for independent tests."""
    values = _p_values(p)
    order = np.argsort(values, kind="stable")[::-1]
    steps = values[order] * len(values) / np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps), 1.0)
    return adjusted


def simultaneous(confidence: float, m: int) -> float:
    """The confidence each of m intervals needs so that all hold together with `confidence` (Bonferroni)."""
    level = check_confidence(confidence)
    if m < 1:
        raise ValueError(f"m must count at least one interval, found {m!r}")
    return 1.0 - (1.0 - level) / m
