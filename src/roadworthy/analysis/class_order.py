"""Whether answers are read in the wrong order of classes.

A model that gives (malignant, benign) and is read as (benign, malignant) looks useless: nearly every answer
is called wrong. The order that explains the answers best is an assignment of output positions to classes
(Kuhn 1955), chosen on one half of the cases and judged on the other, and the other way round: chosen and
judged on the same cases, a model at chance with 40 classes would seem to be read wrongly.

>>> rng = np.random.default_rng(0)
>>> truth = rng.integers(0, 3, 300)
>>> answered = np.where(rng.random(300) < 0.9, np.array([2, 0, 1])[truth], rng.integers(0, 3, 300))
>>> found = suspected_order(answered, truth, 3)
>>> found.classes, round(found.accuracy, 2), round(found.suspected, 2), found.clear
((1, 2, 0), 0.04, 0.91, True)
>>> suspected_order(truth, truth, 3)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics import paired_difference
from roadworthy.statistics.arguments import group_codes

FEWEST_CASES = 100
CONFIDENCE, LEAST_GAIN = 0.99, 0.10
"""The paired gain of another order is above this with this confidence, one-sided."""

Labels = NDArray[np.int64]


class OrderSuspicion(NamedTuple):
    """Another order that explains the answers clearly better."""

    classes: tuple[int, ...]
    """For each output position the class that it seems to stand for."""
    accuracy: float
    """As the answers are read now."""
    suspected: float
    """By the other order, on cases that did not choose it."""
    clear: bool
    """Whether that is also a useful accuracy: twice that of chance, or half-way from chance to 1."""


def suspected_order(
    answered: ArrayLike, truth: ArrayLike, count: int, groups: ArrayLike | None = None
) -> OrderSuspicion | None:
    """The order that explains answers clearly better than the one they are read in; None if there is none.

    `answered` and `truth` are class indices below `count`, one a case; -1 stands for no answer.
    """
    given, labels = np.asarray(answered, dtype=np.int64), np.asarray(truth, dtype=np.int64)
    sound = (given >= 0) & (labels >= 0) & (labels < count)
    if sound.sum() < FEWEST_CASES or len(np.unique(given[sound])) < 2:
        return None
    codes, units = group_codes(groups, len(given))
    given, labels, codes = given[sound], labels[sound], codes[sound]
    first = np.random.default_rng(0).permutation(units)[codes] < units // 2
    if first.all() or not first.any():
        return None
    meant = np.empty_like(given)
    for half in (first, ~first):
        meant[half] = _assignment(given[~half], labels[~half], count)[given[half]]
    now, other = (given == labels).astype(float), (meant == labels).astype(float)
    whole = _assignment(given, labels, count)
    interval = paired_difference(other, now, codes, confidence=CONFIDENCE, sided="lower")
    if interval.low <= LEAST_GAIN or (whole == np.arange(count)).all():
        return None
    chance = float(_shares(meant, count) @ _shares(labels, count))
    useful = min(2.0 * chance, (1.0 + chance) / 2.0)
    suspected = float(other.mean())
    return OrderSuspicion(
        tuple(whole.tolist()), float(now.mean()), suspected, bool(suspected >= useful)
    )


def _assignment(answered: Labels, truth: Labels, count: int) -> Labels:
    """Output position to class, such that most cases are right."""
    from scipy.optimize import linear_sum_assignment

    together = np.bincount(answered * count + truth, minlength=count * count).reshape(count, count)
    # A position that is never answered, or that fits two classes alike, keeps its own.
    found: tuple[Any, Labels] = linear_sum_assignment(together + 0.5 * np.eye(count), maximize=True)
    return found[1]


def _shares(classes: Labels, count: int) -> NDArray[np.float64]:
    return np.bincount(classes, minlength=count) / len(classes)
