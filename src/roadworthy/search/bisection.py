"""The smallest strength at which a case fails: a coarse scan, then bisection in the first failing gap.

Whether a case fails need not be monotone in the strength: a picture may be recognised again under
more blur. So `scan` strengths are tried in order up to the first that fails, and only the gap before it
is halved, `refine` times. What is found fails, and lies within the resolution of a strength that
does not; a failure between two scanned strengths that both pass is not seen.

>>> thresholds = np.array([0.3, 0.0, 2.0])
>>> found = smallest_crossing(lambda strengths, rows: strengths >= thresholds[rows], 3)
>>> found.strength.round(3).tolist(), found.found.tolist(), found.at_zero.tolist()
([0.301, 0.0, nan], [True, False, False], [False, True, False])
>>> found.resolution == 1 / 512
True
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from roadworthy.search.gradient import checked, wrong
from roadworthy.search.query import Query, Tensor

Fails = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""``fails(strengths, rows) -> bool array``: which of these rows fail, each at its strength."""


class Crossing(NamedTuple):
    """Where each of n cases begins to fail."""

    strength: np.ndarray
    """The smallest failing strength found; 0 if it fails at 0, NaN if it never fails."""
    found: np.ndarray
    """Whether a failing strength above 0 was found."""
    at_zero: np.ndarray
    """Whether it fails at strength 0; such a case is not searched."""
    resolution: float
    """Between `strength` and a lower strength at which the case passes."""


def smallest_crossing(
    fails: Fails, n: int, *, highest: float = 1.0, scan: int = 8, refine: int = 6
) -> Crossing:
    """The smallest strength up to `highest` at which each of n cases fails.

    Each call of `fails` gets the rows that still need it: all at strength 0, then those that have
    passed so far, then those that are refined.
    """
    if not (0 < highest < np.inf and scan >= 1 and refine >= 0):
        raise ValueError(
            f"highest is {highest}, scan {scan} and refine {refine}; above 0, at least 1 and at least 0 "
            "were expected"
        )
    cells = 2**refine  # in a gap of the scan; places are counted in cells, so that none is rounded
    resolution = highest / (scan * cells)

    def failing(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return np.zeros(0, dtype=bool)
        found = np.asarray(fails(places * resolution, rows))
        if found.shape != rows.shape or found.dtype != bool:
            raise ValueError(
                f"`fails` gave {found.dtype} of shape {found.shape} for {len(rows)} rows; one bool a row "
                "was expected"
            )
        return found

    every = np.arange(n)
    at_zero = failing(np.zeros(n), every)
    upper, open_rows = np.zeros(n), every[~at_zero]
    for point in range(1, scan + 1):
        now = failing(np.full(len(open_rows), float(point * cells)), open_rows)
        upper[open_rows[now]] = point * cells
        open_rows = open_rows[~now]
    rows = every[upper > 0]
    half = cells / 2
    for _ in range(refine):
        middle = upper[rows] - half
        upper[rows] = np.where(failing(middle, rows), middle, upper[rows])
        half /= 2
    found = upper > 0
    strength = np.where(found | at_zero, upper * resolution, np.nan)
    return Crossing(strength, found, at_zero, resolution)


def smallest_epsilon(
    attack: Callable[..., Tensor],
    images: Tensor,
    labels: Any,
    query: Query,
    rngs: Sequence[np.random.Generator],
    *,
    largest: float,
    steps: int = 6,
    scan: int = 8,
) -> Crossing:
    """The smallest epsilon up to `largest` with which an attack succeeds on each image.

    `attack` takes ``epsilon=`` as a tensor with one number for each row, as the registered ones do. Each
    epsilon begins with the same random draws; `rngs` are left as they are.
    """
    import torch

    truth = checked(images, labels, epsilon=largest)

    def fails(strengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        chosen = torch.from_numpy(rows).to(images.device)
        made, of = images[chosen], truth[chosen]
        if strengths.any():
            shape = (-1, *[1] * (images.ndim - 1))
            epsilon = torch.from_numpy(strengths).to(images).reshape(shape)
            again = [copy.deepcopy(rngs[row]) for row in rows]
            made = attack(made, of, query, again, epsilon=epsilon)
        return wrong(made, of, query)

    return smallest_crossing(fails, len(images), highest=largest, scan=scan, refine=steps)
