"""How a subject answers cases whose label is a distribution over classes.

A label is split if no class has more than 75% of it; an answer is confident from 90% on. The calibration error compares, in 10
bins of the highest probability of an answer, the mean of that probability with the mean that the label gives the same class.

>>> sure, true = np.array([0.95, 0.95, 0.55]), np.array([0.5, 0.6, 0.5])
>>> [(round(b.answer, 2), round(b.label, 2), b.n) for b in calibration_bins(sure, true)]
[(0.55, 0.5, 1), (0.95, 0.55, 2)]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from roadworthy.analysis.classification import confidences
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.performance import evidence_of
from roadworthy.finding import Evidence
from roadworthy.measures import ambiguity
from roadworthy.measures.classification import accuracy, top_k
from roadworthy.measures.scored import Scored

SPLIT = 0.75
"""No class of a split label has more."""
CONFIDENT = 0.9
"""The highest probability of a confident answer is this or more."""
BINS = 10
OVERCONFIDENT = "overconfident"
OF_LABELS: dict[str, Callable[..., Scored]] = {
    "top_1": accuracy,
    "top_2": functools.partial(top_k, k=2),
}
"""Compared with the hard label."""
OF_DISTRIBUTIONS: dict[str, Callable[..., Scored]] = {
    "top_pair": ambiguity.top_pair,
    "expected_accuracy": ambiguity.expected_accuracy,
    "answer_entropy": ambiguity.answer_entropy,
    "label_distance": ambiguity.label_distance,
}


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
        here, scored = self.here, None
        assert here.outputs is not None and here.predicted is not None
        outputs = np.where((here.predicted >= 0)[:, None], here.outputs, np.nan)
        if quantity in OF_LABELS:
            scored = OF_LABELS[quantity](outputs, here.truth)
        elif quantity in OF_DISTRIBUTIONS:
            scored = OF_DISTRIBUTIONS[quantity](outputs, self.labels)
        if scored is not None:
            return evidence_of(scored, here.groups, quantity, here.about, seed=seed)
        sure = confidences(here.outputs, here.predicted)[self.split] >= CONFIDENT
        groups = None if here.groups is None else here.groups[self.split]
        found = evidence_of(
            Scored.proportion(1.0 - sure, better="lower"), groups, quantity, here.about, seed=seed
        )
        return found if len(sure) else replace(found, reason="no label is split")

    def calibration(self) -> tuple[list[CalibrationBin], float]:
        """Answer and label probability by bin, and the calibration error; no answer has an error of 1."""
        sure = confidences(self.here.outputs, self.here.predicted)
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
