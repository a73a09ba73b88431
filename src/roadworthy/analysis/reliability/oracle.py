"""What the right answer to an input without a label is, and how much of operation rests on which
evidence.

If labels are r-separated (Zhao et al. 2021, remark 2), an input takes the label of a labelled row
nearer than r; an input without such a row is unknown and counts as failing. The paper lets the
model's own answers vote instead (assumption 5).

>>> from roadworthy.statistics.partition import label_separation
>>> labelled, labels = np.array([[0.1, 0.1], [0.2, 0.3], [0.6, 0.3]]), np.array([0, 0, 1])
>>> known = label_separation(labelled, labels)
>>> reached = reach(np.array([[0.2, 0.2], [0.5, 0.3], [0.9, 0.9]]), labelled, labels, known)
>>> reached.labels.tolist(), reached.rows.tolist()
([0, 1, -1], [1, 2, -1])
>>> evidence_breakdown(np.array([0, 0, 0]), reached).counts
{'agrees': 1, 'fails': 1, 'contradicted': 0, 'no_label': 1, 'outside': 0}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadworthy.statistics.partition import LabelSeparation, nearest_within

KINDS = ("agrees", "fails", "contradicted", "no_label", "outside")
"""An input's answer is that of its label, is not, its own label is not the one that reaches it, it
has no label, it lies outside the domain."""


class Reached(NamedTuple):
    """By input, the nearest labelled row closer than r."""

    labels: np.ndarray
    """-1 if none is."""
    distances: np.ndarray
    """Infinite if none is."""
    rows: np.ndarray
    """Of the labelled rows; -1 if none is."""


def reach(
    points: np.ndarray, labelled: np.ndarray, labels: np.ndarray, separation: LabelSeparation
) -> Reached:
    """The label that reaches every point, by the separation's own norm and r."""
    rows = np.flatnonzero(labels >= 0)
    near, at = nearest_within(points, labelled[rows], radius=separation.r, norm=separation.norm)
    found = np.where(at >= 0, rows[at], -1)
    return Reached(np.where(found >= 0, labels[found], -1), near, found)


@dataclass(frozen=True)
class Breakdown:
    """How much of operation rests on which evidence."""

    kinds: np.ndarray
    """By input, a number of KINDS."""
    counts: dict[str, int]
    shares: dict[str, float]
    """By weight; their sum is 1."""

    @property
    def failing(self) -> np.ndarray:
        """By input: all but those whose answer agrees with their label count as failing."""
        return np.not_equal(self.kinds, KINDS.index("agrees"))


def evidence_breakdown(
    answers: np.ndarray,
    reached: Reached,
    *,
    labels: np.ndarray | None = None,
    inside: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Breakdown:
    """Sorts every operational input by its evidence.

    `labels` are inputs' own (-1: none), which go before those that reach them; the two disagreeing
    contradicts r-separation. `inside` says which inputs lie in the domain.
    """
    own = np.full(len(answers), -1) if labels is None else labels
    truth = np.where(own >= 0, own, reached.labels)
    conditions = [
        np.zeros(len(answers), dtype=bool) if inside is None else ~inside,
        (own >= 0) & (reached.labels >= 0) & (own != reached.labels),
        truth < 0,
        answers == truth,
    ]
    order = [KINDS.index(kind) for kind in ("outside", "contradicted", "no_label", "agrees")]
    kinds = np.select(conditions, order, default=KINDS.index("fails"))
    counts = np.bincount(kinds, minlength=len(KINDS))
    sums = np.bincount(kinds, weights=weights, minlength=len(KINDS))
    shares = sums / sums.sum()
    return Breakdown(
        kinds,
        dict(zip(KINDS, counts.tolist(), strict=True)),
        dict(zip(KINDS, shares.tolist(), strict=True)),
    )


def majority_vote(cells: np.ndarray, answers: np.ndarray, number: int) -> np.ndarray:
    """By cell, the class most of its answers name, equal votes the lowest; -1 in cells without any
    and for inputs outside (cell -1).

    >>> majority_vote(np.array([0, 0, 0, 2, 2, -1]), np.array([1, 0, 1, 1, 0, 1]), 3).tolist()
    [1, -1, 0]
    """
    inside = cells >= 0
    classes, at = np.unique(answers[inside], return_inverse=True)
    pairs, votes = np.unique(cells[inside] * len(classes) + at, return_counts=True)
    place, named = np.divmod(pairs, max(len(classes), 1))
    order = np.lexsort((-named, votes, place))
    result = np.full(number, -1)
    # The last of a cell wins: most votes, then the lowest class.
    result[place[order]] = classes[named[order]]
    return result
