"""Measures of class scores against a label that may be split between classes (Weiss et al. 2023, section VI).

A label is a distribution over the classes: that of an ambiguous picture, or the shares of annotators' votes. A
class index is taken for a label that is certain. Scores may be probabilities or logits. A case without an
answer has the worst value.

>>> label = np.array([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]])
>>> answer = np.array([[0.5, 0.4, 0.1], [0.9, 0.0, 0.1]])
>>> top_pair(answer, label).value(), expected_accuracy(answer, label).value()
(0.5, 0.45)
>>> round(label_distance(answer, label).value(), 3), round(answer_entropy(answer, label).value(), 3)
(0.35, 0.915)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from roadworthy.data.probabilities import entropies, probabilities
from roadworthy.measures.classification import labels_and_scores
from roadworthy.measures.scored import Scored, rows_of, same_cases
from roadworthy.registry import register

Rows = Sequence[Any] | np.ndarray
KINDS = ("class_scores", "distribution")
SAME = 1e-9
"""Label probabilities that are equal but for rounding."""


@register("measures", "top_pair", of=KINDS, better="higher", range=(0, 1))
def top_pair(outputs: Rows, targets: Rows) -> Scored:
    """Share of cases whose two highest scores are the two most probable classes of the label.

    Of equal scores the lower class comes first. Of equally probable classes either may be there, so that a
    label that is certain only asks for its class among the two.
    """
    found = _compared(outputs, targets)
    first = np.argsort(-found.scores, axis=1, kind="stable")[:, :2]
    held = np.take_along_axis(found.labels, first, axis=1).sum(axis=1)
    most = np.sort(found.labels, axis=1)[:, -2:].sum(axis=1)
    return Scored.proportion((held >= most - SAME) & found.answered)


@register("measures", "expected_accuracy", of=KINDS, better="higher", range=(0, 1))
def expected_accuracy(outputs: Rows, targets: Rows) -> Scored:
    """Mean probability that the label gives the class of the highest score.

    A case fails if another class is more probable.
    """
    found = _compared(outputs, targets)
    first = np.argmax(found.scores, axis=1)[:, None]
    chance = np.take_along_axis(found.labels, first, axis=1)[:, 0] * found.answered
    error = np.where(found.answered, found.labels.max(axis=1) - chance, 1.0)
    return _mean(chance, error, error > SAME, "higher")


@register("measures", "label_distance", of=KINDS, better="lower", range=(0, 1))
def label_distance(outputs: Rows, targets: Rows, *, tolerance: float | None = None) -> Scored:
    """Mean total variation distance between answer and label: 0 is equal, 1 has no class in common.

    A case fails if its distance is above `tolerance`.
    """
    found = _compared(outputs, targets)
    apart = np.abs(probabilities(found.scores) - found.labels).sum(axis=1) / 2
    distance = np.where(found.answered, np.minimum(apart, 1.0), 1.0)
    failure = (distance > (math.inf if tolerance is None else tolerance)) | ~found.answered
    return _mean(distance, distance, failure, "lower")


@register(
    "measures", "answer_entropy", of=KINDS, better="higher", range=(0, math.inf), compares=False
)
def answer_entropy(outputs: Rows, targets: Rows) -> Scored:
    """Mean entropy of the answers in bits; a label split evenly between two classes has 1 bit.

    It describes answers and compares them with no label: higher is better only where labels are split.
    """
    found = _compared(outputs, targets)
    most = math.log2(found.labels.shape[1])
    bits = entropy_bits(probabilities(found.scores)) * found.answered
    return _mean(bits, most - bits, ~found.answered, "higher", most)


def entropy_bits(chances: np.ndarray) -> np.ndarray:
    """The entropy of each row of probabilities, in bits."""
    return entropies(chances) / math.log(2)


class _Compared(NamedTuple):
    """Scores and labels, a row a case and a column a class; scores are 0 without an answer."""

    scores: np.ndarray
    answered: np.ndarray
    labels: np.ndarray


def _compared(outputs: Rows, targets: Rows) -> _Compared:
    same_cases(outputs, targets)
    labels, scores = np.asarray(targets), rows_of(outputs, what="class scores")
    width = scores.values.shape[1]
    if labels.ndim == 1:
        places, _ = labels_and_scores(outputs, targets)
        labels = np.eye(width or int(places.max(initial=0)) + 1)[places]
    if not scores.answered.any():
        return _Compared(np.zeros(labels.shape), scores.answered, labels)
    known = np.where(scores.answered[:, None], scores.values, 0.0).astype(np.float64)
    if width < labels.shape[1]:  # a class that the subject does not know has no probability
        lacking = np.zeros((len(known), labels.shape[1] - width))
        return _Compared(
            np.hstack([probabilities(known), lacking]) * scores.answered[:, None],
            scores.answered,
            labels,
        )
    if width > labels.shape[1]:
        raise ValueError(
            f"labels are distributions over {labels.shape[1]} classes, and outputs have {width} scores; "
            "name all classes, in their order, under classes"
        )
    return _Compared(known, scores.answered, labels)


def _mean(
    values: np.ndarray,
    error: np.ndarray,
    failure: np.ndarray,
    better: Literal["higher", "lower"],
    most: float = 1.0,
) -> Scored:
    """The mean of values from 0 to `most`."""
    each, limits = np.ones(len(values)), (0.0, most)
    return Scored.ratio(values, each, error=error, failure=failure, better=better, limits=limits)
