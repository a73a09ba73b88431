"""How a subject answers cases whose label is a distribution over classes.

A label is split if no class has more than 75% of it; an answer is confident from 90% on. The calibration error compares, in 10
bins of the highest probability of an answer, the mean of that probability with the mean that the label gives the same class.

>>> sure, true = np.array([0.95, 0.95, 0.55]), np.array([0.5, 0.6, 0.5])
>>> [(round(b.answer, 2), round(b.label, 2), b.n) for b in calibration_bins(sure, true)]
[(0.55, 0.5, 1), (0.95, 0.55, 2)]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from roadworthy.analysis.classification import confidences, no_confidence
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.performance import evidence_of
from roadworthy.finding import Evidence
from roadworthy.measures.classification import top_k
from roadworthy.measures.scored import Scored
from roadworthy.registry import get

SPLIT = 0.75
"""No class of a split label has more."""
CONFIDENT = 0.9
"""The highest probability of a confident answer is this or more."""
BINS = 10
OVERCONFIDENT = "overconfident"
OF_DISTRIBUTIONS = ("top_pair", "expected_accuracy", "answer_entropy", "label_distance")
"""Measures that compare with the label's distribution; `top_1` and `top_2` compare with the hard label."""


class CalibrationBin(NamedTuple):
    """Answers of about one confidence."""

    answer: float
    """Their mean highest probability."""
    label: float
    """The mean probability that labels give the same classes."""
    n: int


@dataclass(frozen=True)
class SplitLabels:
    """Cases of one condition whose labels are distributions."""

    here: Observed

    @property
    def labels(self) -> np.ndarray:
        """The distributions, a row a case."""
        assert self.here.label_probabilities is not None
        return self.here.label_probabilities

    @property
    def split(self) -> np.ndarray:
        """Which labels are split."""
        found: np.ndarray = self.labels.max(axis=1) <= SPLIT
        return found

    def evidence(self, quantity: str, *, seed: int = 0) -> Evidence:
        """A measure of labels or distributions, or the share of confident answers to split labels."""
        found = self._evidence(quantity, seed)
        hard = quantity not in ("top_1", "expected_accuracy") and no_confidence(self.confidences)
        if not hard or found.reason:
            return found
        return replace(found, value=math.nan, reason=hard)

    @property
    def confidences(self) -> np.ndarray:
        """The highest probability of each answer; NaN without one."""
        return confidences(self.here.outputs, self.here.predicted)

    def _evidence(self, quantity: str, seed: int) -> Evidence:
        here = self.here
        assert here.outputs is not None and here.predicted is not None and here.truth is not None
        if quantity != OVERCONFIDENT:
            outputs = np.where((here.predicted >= 0)[:, None], here.outputs, np.nan)
            if quantity == "top_pair":
                return self._top_pair(outputs, seed)
            if quantity in OF_DISTRIBUTIONS:
                scored = get("measures", quantity).build(outputs, self.labels)
            else:
                scored = top_k(outputs, here.truth, k={"top_1": 1, "top_2": 2}[quantity])
            return evidence_of(scored, here.groups, quantity, here.about, seed=seed)
        # Silence improves no figure. Scores are kept in single precision, in which 0.9 is a little less.
        sure = ~(self.confidences[self.split] < CONFIDENT - 1e-6)
        groups = None if here.groups is None else here.groups[self.split]
        found = evidence_of(
            Scored.proportion(1.0 - sure, better="lower"), groups, quantity, here.about, seed=seed
        )
        return found if len(sure) else replace(found, reason="no label is split")

    def _top_pair(self, outputs: np.ndarray, seed: int) -> Evidence:
        """Among labels of two classes or more: one class has no pair."""
        here, two = self.here, np.sort(self.labels, axis=1)[:, -2] > 0
        scored = get("measures", "top_pair").build(outputs[two], self.labels[two])
        groups = None if here.groups is None else here.groups[two]
        found = evidence_of(scored, groups, "top_pair", here.about, seed=seed)
        return found if two.any() else replace(found, reason="every label is of one class")

    def calibration(self) -> tuple[list[CalibrationBin], float]:
        """Answer and label probability by bin, and the calibration error; no answer has an error of 1."""
        sure = self.confidences
        known = np.flatnonzero(~np.isnan(sure))
        true = self.labels[known, np.asarray(self.here.predicted)[known]]
        bins = calibration_bins(sure[known], true)
        gaps = sum(b.n * abs(b.answer - b.label) for b in bins) + len(sure) - len(known)
        return bins, float(gaps / len(sure))


def calibration_bins(sure: np.ndarray, true: np.ndarray) -> list[CalibrationBin]:
    """Bins of equal width that hold any answer."""
    at = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [
        CalibrationBin(
            float(sure[at == k].mean()), float(true[at == k].mean()), int((at == k).sum())
        )
        for k in np.unique(at)
    ]
