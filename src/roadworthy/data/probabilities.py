"""Class scores as probabilities: which rows are distributions, rounded ones included, and what the others stand for.

Whether a row is a distribution is decided by that row alone, so that no score depends on what else is in its chunk. A row is one if

- nothing in it is below 0 and it sums to 1 within `NEARLY`: it is kept as it is, bit for bit;
- or it is what rounding leaves of one: all its entries are multiples of one of the `STEPS`, and some distribution has been
  rounded (or cut off) to it. An entry rounded up gains half a step at most, one that was cut off has lost less than a whole one.
  The nearest distribution takes its place (Euclidean projection to the simplex), none of whose entries is further away than that.

Any other row is read as logits. Logits of full precision are multiples of no step, so that a wide tolerance for the sum of rounded
probabilities costs them nothing.

>>> thirds = np.array([[0.333, 0.333, 0.333], [0.335, 0.335, 0.329], [0.3351, 0.3351, 0.3271]])
>>> distributions(thirds).tolist()
[True, True, False]
>>> probabilities(np.array([[0.97, 0.01, 0.01]])).round(4).tolist()
[[0.9733, 0.0133, 0.0133]]
"""

from __future__ import annotations

import numpy as np

NEARLY = 1e-3
"""How far the sum may be from 1, whatever the entries: float16 leaves up to half of it."""
STEPS = (1e-2, 1 / 255, 1 / 256, 1e-3, 1e-4, 1e-5)
"""Resolutions of rounded probabilities: two to five decimals, and 8 bits by either convention."""
BFLOAT16 = 2.0**-8
"""How far the sum may be from 1 where the entries are bfloat16: its relative precision."""
SLACK = 1e-6
"""What float32 and a sum in another order change: a multiple of a step is one within it, and 0 may be as far below 0."""


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Class probabilities from rows of scores: a distribution is kept, a rounded one made whole, any other row read as logits.

    >>> probabilities(np.array([[0.25, 0.75], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    scores = np.asarray(scores, dtype=np.float64)
    whole = _whole(scores)
    if whole.all():
        return scores
    rounded = distributions(scores) & ~whole
    result = np.where(whole[:, None], scores, 0.0)
    if rounded.any():
        result[rounded] = _nearest(scores[rounded])
    others = scores[~(whole | rounded)]
    if len(others):
        shifted = np.exp(others - others.max(axis=1, keepdims=True))
        result[~(whole | rounded)] = shifted / shifted.sum(axis=1, keepdims=True)
    return result


def distributions(scores: np.ndarray) -> np.ndarray:
    """Which rows are distributions, as they are or rounded.

    >>> distributions(np.array([[0.5, 0.5], [0.51, 0.5], [0.52, 0.5], [2.0, -1.0]])).tolist()
    [True, True, False, False]
    """
    scores = np.asarray(scores, dtype=np.float64)
    found = _whole(scores)
    # Nearly all logits have an entry outside, so that the rest costs nothing for them.
    within = ~found & ((scores >= -SLACK) & (scores <= 1 + SLACK)).all(axis=1)
    if within.any():
        found[within] = _rounded(scores[within])
    return found


def entropies(p: np.ndarray) -> np.ndarray:
    """The entropy of each row of probabilities, in nats; 0 log 0 is 0.

    >>> entropies(np.array([[0.5, 0.5], [1.0, 0.0]])).round(4).tolist()
    [0.6931, 0.0]
    """
    found: np.ndarray = -np.einsum("ij,ij->i", p, np.log(np.where(p > 0, p, 1.0)))
    return np.where(np.isnan(p).any(axis=1), np.nan, found + 0.0)


def _whole(scores: np.ndarray) -> np.ndarray:
    whole: np.ndarray = (scores >= 0).all(axis=1) & (np.abs(scores.sum(axis=1) - 1) < NEARLY)
    return whole


def _rounded(rows: np.ndarray) -> np.ndarray:
    """Which rows, all entries from 0 to 1, are what rounding or cutting off leaves of a distribution."""
    excess = rows.sum(axis=1) - 1
    found: np.ndarray = np.abs(excess) < NEARLY
    short = (rows.astype(np.float32).astype(np.float64) == rows) & (
        rows.astype(np.float32).view(np.uint32) % 2**16 == 0
    )
    found |= short.all(axis=1) & (np.abs(excess) <= BFLOAT16)
    for step in STEPS:
        multiples = np.rint(rows / step)
        on_grid = (np.abs(rows - multiples * step) <= SLACK).all(axis=1)
        # What is 0 was not rounded up.
        gained, lost = (multiples > 0).sum(axis=1) * step / 2, rows.shape[1] * step
        found |= on_grid & (excess <= gained + SLACK) & (-excess <= lost + SLACK)
    return found


def _nearest(rows: np.ndarray) -> np.ndarray:
    """The distribution nearest to each row: a constant is taken from all entries, and none falls below 0."""
    ordered = -np.sort(-rows, axis=1)
    surplus = np.cumsum(ordered, axis=1) - 1
    count = np.arange(1, rows.shape[1] + 1)
    positive = (ordered * count > surplus).sum(axis=1)
    constant = surplus[np.arange(len(rows)), positive - 1] / positive
    return np.maximum(rows - constant[:, None], 0.0)
