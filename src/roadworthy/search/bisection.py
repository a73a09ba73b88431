"""The smallest strength at which a case fails: a coarse scan, then bisection in the first failing gap.

A case may fail, and pass again at a higher strength. So `scan` strengths are tried up to the first that
fails, and the gap before it is halved `refine` times. What is found fails, and one resolution below it the
case passes; a failure between two scanned strengths that pass is not seen.

>>> limits = np.array([0.3, 0.0, 2.0])
>>> found = smallest_crossing(lambda strengths, rows: strengths >= limits[rows], 3)
>>> found.strength.round(3).tolist(), found.found.tolist(), found.at_zero.tolist()
([0.301, 0.0, nan], [True, False, False], [False, True, False])
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from roadworthy.search.gradient import answered_right, checked_labels
from roadworthy.search.query import Query, Rngs, Tensor


class Crossing(NamedTuple):
    """Where each of n cases begins to fail."""

    strength: np.ndarray
    """The smallest failing strength; 0 if it fails at 0, NaN if no failing strength was found."""
    found: np.ndarray  # whether a failing strength above 0 was found
    at_zero: np.ndarray  # whether it fails at strength 0; such a case is not searched
    resolution: float


def smallest_crossing(
    fails: Callable[..., Any], n: int, *, highest: float = 1.0, scan: int = 8, refine: int = 6
) -> Crossing:
    """The smallest strength up to `highest` at which each of n cases fails.

    ``fails(strengths, rows)`` says which fail; it is asked for the rows that still need it.
    """
    if not (0 < highest < np.inf and scan >= 1 and refine >= 0):
        raise ValueError(f"highest {highest}, scan {scan}, refine {refine}: above 0, >= 1, >= 0")
    cells = 2**refine  # between two scanned strengths; places are counted in cells
    resolution = highest / (scan * cells)

    def failing(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.asarray(fails(places * resolution, rows)) if len(rows) else rows > 0

    at_zero = failing(np.zeros(n), np.arange(n))
    upper, rows = np.zeros(n), np.flatnonzero(~at_zero)
    for point in range(1, scan + 1):
        now = failing(np.full(len(rows), float(point * cells)), rows)
        upper[rows[now]], rows = point * cells, rows[~now]
    rows = np.flatnonzero(upper)
    for halving in range(1, refine + 1):
        middle = upper[rows] - cells / 2**halving
        upper[rows] = np.where(failing(middle, rows), middle, upper[rows])
    strength = np.where((upper > 0) | at_zero, upper * resolution, np.nan)
    return Crossing(strength, upper > 0, at_zero, resolution)


def smallest_epsilon(
    attack: Callable[..., Tensor],
    images: Tensor,
    labels: Tensor,
    query: Query,
    rngs: Rngs,
    *,
    largest: float,
    steps: int = 6,
) -> Crossing:
    """The smallest epsilon up to `largest` with which an attack succeeds on each image.

    `attack` is given ``epsilon`` as a tensor with one number for each row. Every epsilon begins with the
    same random draws; `rngs` are left as they are. `steps` is how often the gap is halved.
    """
    import torch

    truth = checked_labels(images, labels, "linf", largest)

    def fails(strengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        some = torch.from_numpy(rows).to(images.device)
        made = images[some]
        if strengths.any():
            epsilon = torch.from_numpy(strengths).to(images).reshape(-1, *[1] * (images.ndim - 1))
            again = [copy.deepcopy(rngs[row]) for row in rows]
            made = attack(made, truth[some], query, again, epsilon=epsilon)
        return (~answered_right(made, truth[some], query)).cpu().numpy()

    return smallest_crossing(fails, len(images), highest=largest, refine=steps)
