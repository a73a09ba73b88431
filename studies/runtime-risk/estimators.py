"""Everyone who estimates, on the windows of a setting: the paper's estimators, the simple ones, those from confidences, and ours.

The verdict of a detector is its score against the threshold (either way round) with the highest TPR + TNR on the calibration rows;
of several detectors, the verdict of their logistic combination. Accuracy follows from the rate as in equation 2 of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from protocol import Setting

from roadworthy.analysis.risk.cells import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.risk.transfer import Estimator
from roadworthy.statistics.fusion import features, fit_logistic, ranks


@dataclass(frozen=True)
class Estimate:
    """What one estimator says of each window; no rate where it gives none."""

    accuracy: np.ndarray
    rate: np.ndarray | None = None
    accuracy_interval: tuple[np.ndarray, np.ndarray] | None = None
    rate_interval: tuple[np.ndarray, np.ndarray] | None = None


def from_rate(setting: Setting, rate: np.ndarray) -> Estimate:
    """Equation 2: the accuracies of the clean and of the shifted calibration rows, weighed by the rate."""
    clean, shifted = (setting.data.correct[rows].mean() for rows in (setting.clean, setting.shifted))
    return Estimate((1 - rate) * clean + rate * shifted, rate)


def ours(setting: Setting) -> Estimate:
    """The estimator of this package."""
    rows = setting.calibration
    calibration = calibrate(
        {n: c[rows] for n, c in setting.data.columns.items()}, setting.kind_of_row, setting.data.correct[rows]
    )
    cells = calibration.place(setting.data.columns)
    counts = np.stack([np.bincount(cells[w], minlength=calibration.cells) for w in setting.windows])
    e = Estimator(calibration, accuracy_tree()).estimate(counts)
    return Estimate(e.accuracy, e.rate, (e.accuracy_low, e.accuracy_high), (e.rate_low, e.rate_high))
