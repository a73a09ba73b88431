"""Logistic combinations of supervisors' ranks, their out-of-fold scores, and the bins these are cut into.

A combination learns from rows that are then not counted by it: `held_out` gives every row the score of a model that was fitted
without the row's fold, and folds hold whole groups. The model that is kept is fitted on all rows.

>>> rng = np.random.default_rng(0)
>>> marks = np.repeat([0.0, 1.0], 200)
>>> table = rng.random((400, 1)) / 2 + marks[:, None] / 2
>>> coefficients = fitted(table, marks, np.ones(400), ridge=1.0)
>>> bool(scored(coefficients, table)[marks == 1].min() > scored(coefficients, table)[marks == 0].max())
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.statistics.fusion import features, fit_logistic

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

POWERS = (1, 2, 6)
"""Of the ranks: the square bends, the sixth power sees only the top of the range."""
FOLDS = 5
FEWEST = 10
"""Rows that a bin beyond a score which many rows share must have: fewer say nothing but chance."""


@dataclass(frozen=True)
class Combination:
    """A logistic combination of ranks, cut into bins: intercept, then the coefficients power by power; edges between the bins."""

    coefficients: tuple[float, ...]
    edges: tuple[float, ...]

    @property
    def bins(self) -> int:
        """How many bins the edges make."""
        return len(self.edges) + 1

    def terms(self, member: int, members: int, ranks: Floats) -> Floats:
        """What one member's ranks add to the score."""
        return _terms(self.coefficients[1 + member :: members], ranks)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"coefficients": list(self.coefficients), "edges": list(self.edges)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Combination:
        """The inverse of `to_dict`."""
        return cls(tuple(map(float, record["coefficients"])), tuple(map(float, record["edges"])))


def fitted(ranks: Floats, marks: Floats, weights: Floats, *, ridge: float) -> Floats:
    """Coefficients, intercept first; where all marks are the same there is nothing to learn, and every score is 0."""
    if not (weights[marks == 1].sum() > 0 and weights[marks == 0].sum() > 0):
        return np.zeros(1 + len(POWERS) * ranks.shape[1])
    return fit_logistic(features(ranks, POWERS), marks, weights=weights, ridge=ridge)


def spread(coefficients: Floats, members: Sequence[int], of: int) -> tuple[float, ...]:
    """The coefficients of some members as those of all, of which the others add nothing.

    >>> spread(np.array([9.0, 1.0, 2.0, 6.0]), [1], 2)
    (9.0, 0.0, 1.0, 0.0, 2.0, 0.0, 6.0)
    """
    slopes = np.zeros((len(POWERS), of))
    slopes[:, members] = coefficients[1:].reshape(len(POWERS), -1)
    return (float(coefficients[0]), *slopes.ravel().tolist())


def scored(coefficients: Floats, ranks: Floats) -> Floats:
    """The log-odds that the coefficients give each row, added up in the order in which events are placed.

    A product of matrices may round equal rows differently, and an edge between the two would tear them apart.
    """
    members = ranks.shape[1]
    result = np.full(len(ranks), coefficients[0])
    for member in range(members):
        result += _terms(coefficients[1 + member :: members], ranks[:, member])
    return result


def _terms(slopes: Sequence[float] | Floats, ranks: Floats) -> Floats:
    square = ranks * ranks
    result: Floats = slopes[0] * ranks + slopes[1] * square + slopes[2] * (square * square * square)
    return result


def held_out(ranks: Floats, marks: Floats, weights: Floats, folds: Ints, *, ridge: float) -> Floats:
    """Every row's score by a model that was fitted without its fold."""
    scores = np.zeros(len(marks))
    for fold in np.unique(folds):
        out = folds == fold
        scores[out] = scored(
            fitted(ranks[~out], marks[~out], weights[~out], ridge=ridge), ranks[out]
        )
    return scores


def folds_of(groups: NDArray[Any], kinds: Ints, rng: np.random.Generator) -> Ints:
    """A fold for each row, whole groups together, rows of every kind spread over all folds where groups allow."""
    names, code = np.unique(groups, return_inverse=True)
    first = np.full(len(names), -1)
    first[code[::-1]] = kinds[::-1]
    order = np.lexsort((rng.random(len(names)), first))
    fold = np.empty(len(names), dtype=np.int64)
    fold[order] = np.arange(len(names)) % FOLDS
    return fold[code]


def edges_between(scores: Floats, weights: Floats, bins: int, *, kept: Floats) -> tuple[float, ...]:
    """Edges that give every bin the same weight of rows, as near as ties allow; fewer where scores repeat.

    Every edge lies midway between two scores that the kept model gives, so that scores which are one for it (a verdict has two)
    are not torn apart by what the models of the folds differ in. A score that fills bins by itself has one to itself, so that
    a rare one beyond it, such as an alarm, is still told from it.

    >>> verdicts = np.repeat([0.0, 1.0], [95, 5 + FEWEST])
    >>> edges_between(verdicts, np.ones(len(verdicts)), 5, kept=verdicts)
    (0.5,)
    """
    order = np.argsort(scores, kind="stable")
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, total[-1] * np.arange(1, bins) / bins)
    chosen = scores[order][np.minimum(at, len(scores) - 1)]
    values = np.unique(kept)
    above, times = np.unique(np.searchsorted(values, chosen), return_counts=True)
    filling = above[(times > 1) & (above < len(values))]
    beyond = [at + 1 for at in filling.tolist() if np.count_nonzero(kept > values[at]) >= FEWEST]
    above = np.union1d(above[(above > 0) & (above < len(values))], np.array(beyond, dtype=np.int64))
    return tuple(float(e) for e in (values[above - 1] + values[above]) / 2.0)


def even(kinds: Ints) -> Floats:
    """Weights that give clean rows (kind 0) one half of the rows, and every kind of shift the same part of the other half."""
    count = np.bincount(kinds)
    shifted = int((count[1:] > 0).sum())
    share = np.full(len(count), 0.5 / max(shifted, 1))
    share[0] = 0.5
    return (share / np.maximum(count, 1))[kinds] * len(kinds)


def rank_steps(reference: Floats) -> tuple[Floats, Floats]:
    """The distinct reference scores, and the mid-rank below each, at each, and above all (see `fusion.ranks`).

    >>> values, steps = rank_steps(np.array([1.0, 2.0, 2.0]))
    >>> values.tolist(), steps.tolist()
    ([1.0, 2.0], [0.125, 0.25, 0.375, 0.625, 0.875])
    """
    values, counts = np.unique(reference, return_counts=True)
    upto = np.concatenate([[0], np.cumsum(counts)])
    steps = np.empty(2 * len(values) + 1)
    steps[0::2] = upto
    steps[1::2] = 0.5 * (upto[:-1] + upto[1:])
    return values, (steps + 0.5) / (len(reference) + 1.0)


def completed(table: Floats) -> Floats:
    """Missing ranks replaced by the mean of the row's others; 0 where there is none, for a row that has no place."""
    seen = ~np.isnan(table)
    mean = np.where(seen, table, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    return np.where(seen, table, mean[:, None])
