"""What was answered, class by class: the confusion matrix, and how well one class is told from the others.

A case without an answer is wrong for sensitivity and specificity, ranks against the class for AUROC, and has a
calibration error of 1; it is no answer with the class, so precision leaves it out.

>>> confusion(np.array([0, 0, 1, 1]), np.array([0, 1, 1, -1]), 2).tolist()
[[1, 1, 0], [0, 1, 1]]
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.analysis.performance import evidence_of
from roadworthy.analysis.supervision import detects_failure
from roadworthy.data.values import probabilities
from roadworthy.finding import Evidence
from roadworthy.measures.scored import Scored
from roadworthy.statistics.calibration_error import calibration_error, calibration_error_interval
from roadworthy.statistics.rates import agreement_interval


def confusion(truth: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """Cases by true class (rows) and answer (columns); a last column for no answer, if there is such a case."""
    columns = count + int((predicted < 0).any())
    cells = truth * columns + np.where(predicted < 0, count, predicted)
    return np.bincount(cells, minlength=count * columns).reshape(count, columns)


def class_evidence(
    observed: Observed, quantity: str, place: int, name: str, threshold: float | None = None
) -> Evidence:
    """Sensitivity, specificity, precision, F1 or AUROC of the class at a place in the outputs.

    It is answered if its probability is at least the threshold; without one, if its score is the largest.
    """
    true, answered = np.asarray(observed.truth == place), np.asarray(observed.predicted) >= 0
    if quantity == "auroc":
        return _ranked(observed, true, place, name)
    said = np.asarray(observed.predicted == place)
    if threshold is not None:
        said = _chance(observed, place) >= threshold
    right, among, none = {
        "sensitivity": (said, true, f"no case is of class {name}"),
        "specificity": (~said & answered, ~true, f"every case is of class {name}"),
        "precision": (true, said, f"no case is answered with {name}"),
        "f1": (true & said, true | said, f"no case is of class {name} or answered with it"),
    }[quantity]
    groups = None if observed.groups is None else observed.groups[among]
    found = evidence_of(Scored.proportion(right[among]), groups, quantity, observed.about)
    if not among.any():
        return replace(found, reason=none)
    if quantity in ("sensitivity", "specificity"):
        return found
    bounds = functools.partial(agreement_interval, true, said, observed.groups, of=quantity)
    if quantity == "f1":
        # The same share on another scale: a claim is settled by the width of its interval.
        found = replace(found, value=2 * found.value / (1 + found.value), proportion=False)
    return replace(found, interval=lambda c, sided: bounds(confidence=c, sided=sided))


def calibrated(observed: Observed) -> Evidence:
    """The expected calibration error of the confidence in the answer."""
    sure, right = (
        confidences(observed.outputs, observed.predicted),
        np.asarray(observed.predicted == observed.truth),
    )
    bounds = functools.partial(calibration_error_interval, sure, right, observed.groups)
    value, n, reason = calibration_error(sure, right), len(observed), no_confidence(sure)
    found = Evidence(
        "ece", observed.about, value, n, "lower", lambda c, s: bounds(confidence=c, sided=s)
    )
    return replace(found, proportion=False, reason=reason)


def confidences(outputs: np.ndarray | None, predicted: np.ndarray | None) -> np.ndarray:
    """The probability of the class that was answered; NaN without an answer (-1)."""
    chances = _probabilities(outputs, predicted)
    return chances.max(axis=1) if chances.shape[1] else np.full(len(chances), np.nan)


def _probabilities(outputs: np.ndarray | None, predicted: np.ndarray | None) -> np.ndarray:
    """By case and class; NaN without an answer."""
    assert outputs is not None and predicted is not None
    chances, known = np.full(outputs.shape, np.nan), predicted >= 0
    chances[known] = probabilities(outputs[known])
    return chances


def _chance(observed: Observed, place: int) -> np.ndarray:
    """The probability of the class; 0 for one that the subject does not know."""
    chances = _probabilities(observed.outputs, observed.predicted)
    return chances[:, place] if place < chances.shape[1] else np.zeros(len(chances))


def _ranked(observed: Observed, true: np.ndarray, place: int, name: str) -> Evidence:
    """How well the probability of the class ranks its cases above the others: as a supervisor ranks failures."""
    ranked = replace(observed, failure=true, scores={"": _chance(observed, place)})
    found = replace(detects_failure(ranked, ""), quantity="auroc", about=observed.about)
    none = f"{'every' if true.any() else 'no'} case is of class {name}"
    return replace(
        found,
        reason=none
        if found.reason
        else no_confidence(confidences(observed.outputs, observed.predicted)),
    )


def no_confidence(sure: np.ndarray) -> str:
    """Why nothing can be said of answers that are classes alone."""
    hard = (sure == 1).any() and not (sure < 1).any()
    return "the answers are classes without probabilities" if hard else ""
