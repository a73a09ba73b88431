"""What labels say about a window: corrected by its own labels, or by those of the events before it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.monitor.labels import LEAST, Audited, Corrected, carried, difference

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State
    from roadworthy.monitor.windows import Reading

LAST = 2000
"""Labels that are carried over at most."""


def audit(
    bundle: Bundle, state: State, reading: Reading, *, shrink: float, confidence: float | None = None
) -> Audited | None:
    """The window's accuracy and risk as labels correct them; None where there are too few to say anything.

    Intervals have the confidence of the bundle where none is given.
    """
    confidence = bundle.confidence if confidence is None else confidence
    recent = state.recent
    if not reading.first:
        return None
    cells = recent.cell[len(recent) - reading.first :]
    marks = recent.mark[len(recent) - reading.first :]
    model = bundle.estimator.estimate(reading.counts, shrink=shrink, confidence=confidence)
    right = bundle.estimator.believe(reading.counts, shrink=shrink).right
    accuracy = float(model.accuracy[0])
    expected = np.where(cells >= 0, right[np.maximum(cells, 0)], accuracy)
    found = _own(state, marks, expected, reading.weights, confidence)
    is_carried = found is None
    if found is None:
        found = _carried(bundle, state, cells, expected, reading.weights, confidence)
    if found is None:
        return None
    # What no label reached is the model's, with the model's interval.
    rest = (1.0 - found.covered) * (float(model.accuracy_high[0]) - float(model.accuracy_low[0])) / 2.0
    half = math.hypot((found.high - found.low) / 2.0, rest)
    low, high = (min(1.0, max(0.0, end)) for end in (found.value - half, found.value + half))
    steep = slope(bundle, float(model.rate[0]))
    risk = float(model.risk[0])
    costs = sorted(
        min(max(risk + steep * (a - accuracy), bundle.tree.costs[0]), bundle.tree.costs[1]) for a in (low, high)
    )
    value = min(1.0, max(0.0, found.value))
    at = min(max(risk + steep * (value - accuracy), bundle.tree.costs[0]), bundle.tree.costs[1])
    return Audited(value, low, high, at, costs[0], costs[1], found.labels, found.covered, is_carried, found.overstated)


def _labelled(state: State, marks: np.ndarray) -> np.ndarray:
    given = state.labels.given
    return np.isin(marks, np.fromiter(given, dtype=np.uint64, count=len(given)))


def _own(
    state: State, marks: np.ndarray, expected: np.ndarray, weights: np.ndarray, confidence: float
) -> Corrected | None:
    at = np.flatnonzero(_labelled(state, marks))
    if len(at) < LEAST:
        return None
    labels = [state.labels.weighed(mark) for mark in marks[at].tolist()]
    correct = np.array([label.correct for label in labels])
    probability = np.array([label.probability for label in labels])
    return difference(expected, at, correct, probability, confidence=confidence, weights=weights)


def _carried(
    bundle: Bundle, state: State, cells: np.ndarray, expected: np.ndarray, importance: np.ndarray, confidence: float
) -> Corrected | None:
    """By the last labels: residuals against what the model expects of events like them, weighed by how they were drawn."""
    labels = [label for label in state.labels.last(LAST) if label.cell >= 0]
    if len(labels) < LEAST:
        return None
    where = np.array([label.cell for label in labels])
    correct = np.array([label.correct for label in labels], dtype=np.float64)
    probability = np.array([label.probability for label in labels])
    weights = np.bincount(where, 1.0 / probability, minlength=state.cells)
    weights *= len(labels) / weights.sum()
    right = bundle.estimator.believe(weights).right
    calibration = bundle.calibration
    reached = np.isin(calibration.shift_bin(np.maximum(cells, 0)), calibration.shift_bin(where)) & (cells >= 0)
    residual = correct - right[where]
    return carried(expected, reached, residual, probability, confidence=confidence, weights=importance)


def slope(bundle: Bundle, rate: float) -> float:
    """How the risk changes with the accuracy, all conditional accuracies moving together: the tree is linear in them."""
    from roadworthy.analysis.risk.tree import expectation

    separation = bundle.estimator.separation
    known: dict[str, Any] = {"p_shift": np.array([rate]), "tpr": separation.tpr, "tnr": separation.tnr}
    for name, value in bundle.constants.items():
        known[name] = value[0] / value[1] if isinstance(value, tuple) else float(value)
    ends = []
    for accuracy in (0.0, 1.0):
        given = {name: known.get(name, accuracy) for name in bundle.tree.parameters}
        ends.append(float(np.asarray(expectation(bundle.tree, given)).item()))
    return ends[1] - ends[0]
