"""Measures of class scores against a label: accuracy, error rate, top k, balanced accuracy.

The answer is the class of the highest score, the first of them where several are equal (as ``argmax``). A
case without answer (None, or a row with NaN) is wrong.

>>> scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [np.nan, np.nan]])
>>> accuracy(scores, np.array([0, 1, 1, 0])).value()
0.5
>>> balanced_accuracy(scores, np.array([0, 1, 1, 1])).value()
0.6666666666666666
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.measures.scored import AnsweredRows, Scored, rows_of, same_cases
from roadworthy.registry import register


@dataclass(frozen=True)
class OverClasses(Scored):
    """A free measure that is a mean over classes, and what each class rests on (see `statistics.strata`)."""

    strata: np.ndarray | None = None
    """The class of each case, where the measure is the mean of the classes' shares of cases without error."""
    support: tuple[np.ndarray, ...] | None = None
    """The rows of each class's cases, where a case can belong to several."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset is None:
            raise ValueError(
                "a measure over classes needs `subset`, since some rows need not hold all classes"
            )


def predicted(outputs: Sequence[Any] | np.ndarray) -> np.ndarray:
    """The class of the highest score, -1 where there is no answer."""
    scores = rows_of(outputs, what="class scores")
    return _argmax(scores)


@register("measures", "accuracy", of=("class_scores", "label"), better="higher", range=(0, 1))
def accuracy(outputs: Sequence[Any] | np.ndarray, targets: Sequence[int] | np.ndarray) -> Scored:
    """Share of cases whose highest score is that of the true class."""
    labels, scores = labels_and_scores(outputs, targets)
    return Scored.proportion(_argmax(scores) == labels)


@register("measures", "error_rate", of=("class_scores", "label"), better="lower", range=(0, 1))
def error_rate(outputs: Sequence[Any] | np.ndarray, targets: Sequence[int] | np.ndarray) -> Scored:
    """Share of cases whose highest score is not that of the true class."""
    labels, scores = labels_and_scores(outputs, targets)
    return Scored.proportion(_argmax(scores) == labels, better="lower")


@register("measures", "top_k", of=("class_scores", "label"), better="higher", range=(0, 1))
def top_k(
    outputs: Sequence[Any] | np.ndarray, targets: Sequence[int] | np.ndarray, *, k: int = 5
) -> Scored:
    """Share of cases whose true class is among the k highest scores; of equal scores the lower class comes first."""
    if k < 1:
        raise ValueError(f"k is {k}; the number of highest scores that count must be at least 1")
    labels, scores = labels_and_scores(outputs, targets)
    if scores.values.shape[1] == 0:
        return Scored.proportion(np.zeros(len(labels)))
    own = np.take_along_axis(scores.values, labels[:, None], axis=1)
    ahead = np.count_nonzero(scores.values > own, axis=1)
    before = np.arange(scores.values.shape[1])[None, :] < labels[:, None]
    ahead += np.count_nonzero((scores.values == own) & before, axis=1)
    return Scored.proportion((ahead < k) & scores.answered)


@register(
    "measures", "balanced_accuracy", of=("class_scores", "label"), better="higher", range=(0, 1)
)
def balanced_accuracy(
    outputs: Sequence[Any] | np.ndarray, targets: Sequence[int] | np.ndarray
) -> Scored:
    """Mean over the classes of the share of their cases that is right; classes without cases do not count."""
    labels, scores = labels_and_scores(outputs, targets)
    return _balanced(_argmax(scores) == labels, labels)


def _balanced(right: np.ndarray, labels: np.ndarray) -> Scored:
    def weighted(weights: np.ndarray) -> float:
        total = np.bincount(labels, weights=weights)
        hits = np.bincount(labels, weights=weights * right)
        present = total > 0
        return float(np.mean(hits[present] / total[present])) if present.any() else float("nan")

    def subset(rows: np.ndarray) -> Scored:
        return _balanced(right[rows], labels[rows])

    return OverClasses(
        1.0 - right, ~right, "free", weighted, "higher", subset=subset, strata=labels
    )


def _argmax(scores: AnsweredRows) -> np.ndarray:
    if scores.values.shape[1] == 0:
        return np.full(len(scores.values), -1, dtype=np.int64)
    best = np.argmax(scores.values, axis=1)
    best[~scores.answered] = -1
    return best


def labels_and_scores(
    outputs: Sequence[Any] | np.ndarray, targets: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, AnsweredRows]:
    """Class indices and scores that go together, a row a case; a class without a score is refused."""
    same_cases(outputs, targets)
    scores = rows_of(outputs, what="class scores")
    labels = (
        np.array([-1 if t is None else t for t in targets])
        if isinstance(targets, list)
        else np.asarray(targets)
    )
    labels = labels.astype(np.int64)
    width = scores.values.shape[1]
    bad = (labels < 0) | (labels >= width) if width else labels < 0
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"the target of row {row} is {labels[row]}, but the outputs have scores for the classes 0 to {width - 1}; "
            f"{int(bad.sum())} such row(s). Leave cases without truth out, or name the classes in the order of the scores"
        )
    return labels, scores
