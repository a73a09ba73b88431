"""What was answered, class by class: the confusion matrix, and how well one class is told from the others.

A class is answered if its score is the largest, or with a `threshold` if its probability is at least that. A case
without an answer is wrong for sensitivity and specificity, ranks against the class for AUROC, and has a calibration
error of 1; it is no answer with the class, so precision leaves it out.

>>> confusion(np.array([0, 0, 1, 1]), np.array([0, 1, 1, -1]), 2).tolist()
[[1, 1, 0], [0, 1, 1]]
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.analysis.performance import evidence_of, finding_of
from roadworthy.analysis.supervision import detects_failure
from roadworthy.data.values import probabilities
from roadworthy.finding import Evidence, Finding
from roadworthy.measures.scored import Scored
from roadworthy.statistics.calibration_error import calibration_error, calibration_error_interval
from roadworthy.statistics.rates import agreement_interval

TABLED = ("sensitivity", "precision", "f1")


@dataclass(frozen=True)
class OperatingPoint:
    """A class, and from which probability on it is answered."""

    index: int
    name: str
    threshold: float | None = None
    """None: where its score is the largest."""


def confusion(truth: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """Cases by true class (rows) and answer (columns); a last column for no answer, if there is such a case."""
    columns = count + int((predicted < 0).any())
    answered = np.where(predicted < 0, count, predicted)
    cells = np.bincount(truth * columns + answered, minlength=count * columns)
    return cells.reshape(count, columns)


def class_evidence(
    observed: Observed, quantity: str, point: OperatingPoint, *, seed: int = 0
) -> Evidence:
    """Sensitivity, specificity, precision, F1 or AUROC of a class under one condition."""
    true = _of_class(observed, point)
    if quantity == "auroc":
        return _ranked(observed, point, true)
    said = _said(observed, point)
    right, among = {
        "sensitivity": (said, true),
        "specificity": (~said & _answered(observed), ~true),
        "precision": (true, said),
        "f1": (true & said, true | said),
    }[quantity]
    groups = None if observed.groups is None else observed.groups[among]
    shared = Scored.proportion(right[among])
    found = evidence_of(shared, groups, quantity, observed.about, seed=seed)
    if not among.any():
        return replace(found, reason=_nothing(quantity, point.name))
    if quantity == "f1":
        # F1 is that share on another scale, so it is settled by its width.
        value = 2 * found.value / (1 + found.value)
        found = replace(found, value=value, proportion=False, effective_n=None)
    if quantity in ("sensitivity", "specificity"):
        return found
    bounds = functools.partial(agreement_interval, true, said, observed.groups, of=quantity)
    return replace(found, interval=lambda c, sided: bounds(confidence=c, sided=sided))


def calibrated(observed: Observed) -> Evidence:
    """The expected calibration error of the confidence in the answer."""
    chances = _probabilities(observed)
    sure = np.where(_answered(observed), chances.max(axis=1, initial=0.0), np.nan)
    right = np.asarray(observed.predicted == observed.truth)
    bounds = functools.partial(calibration_error_interval, sure, right, observed.groups)
    return Evidence(
        "ece",
        observed.about,
        calibration_error(sure, right),
        len(observed),
        "lower",
        lambda c, sided: bounds(confidence=c, sided=sided),
        proportion=False,
        reason=_without_probabilities(chances),
    )


def class_findings(
    observed: Observed, names: Sequence[str], *, confidence: float
) -> list[dict[str, Finding]]:
    """By class: its sensitivity, precision and F1."""
    points = [OperatingPoint(i, name) for i, name in enumerate(names)]
    return [
        {q: finding_of(class_evidence(observed, q, p), observed, confidence) for q in TABLED}
        for p in points
    ]


def _of_class(observed: Observed, point: OperatingPoint) -> np.ndarray:
    return np.asarray(observed.truth == point.index)


def _answered(observed: Observed) -> np.ndarray:
    assert observed.predicted is not None
    return observed.predicted >= 0


def _said(observed: Observed, point: OperatingPoint) -> np.ndarray:
    """Which cases are answered with the class."""
    if point.threshold is None:
        return np.asarray(observed.predicted == point.index)
    return _chance(_probabilities(observed), point) >= point.threshold


def _probabilities(observed: Observed) -> np.ndarray:
    """By case and class; NaN without an answer."""
    assert observed.outputs is not None
    known = _answered(observed)
    chances = np.full(observed.outputs.shape, np.nan)
    chances[known] = probabilities(observed.outputs[known])
    return chances


def _chance(chances: np.ndarray, point: OperatingPoint) -> np.ndarray:
    """The probability of the class; 0 for one that the subject does not know."""
    if point.index >= chances.shape[1]:
        return np.zeros(len(chances))
    return chances[:, point.index]


def _ranked(observed: Observed, point: OperatingPoint, true: np.ndarray) -> Evidence:
    """How well the probability of the class ranks its cases above the others: as a supervisor ranks failures."""
    chances = _probabilities(observed)
    ranked = replace(observed, failure=true, scores={"": _chance(chances, point)})
    found = replace(detects_failure(ranked, ""), quantity="auroc", about=observed.about)
    if true.all() or not true.any():
        which = "specificity" if true.any() else "sensitivity"
        return replace(found, reason=_nothing(which, point.name))
    return replace(found, reason=_without_probabilities(chances))


def _without_probabilities(chances: np.ndarray) -> str:
    known = chances[~np.isnan(chances).any(axis=1)]
    hard = len(known) and bool(((known == 0) | (known == 1)).all())
    return "the answers are classes without probabilities" if hard else ""


def _nothing(quantity: str, name: str) -> str:
    return {
        "sensitivity": f"no case is of class {name}",
        "specificity": f"every case is of class {name}",
        "precision": f"no case is answered with {name}",
    }.get(quantity, f"no case is of class {name} or answered with it")
