"""Synthetic detectors whose area under the curve is known, and their calibration."""

from __future__ import annotations

import numpy as np

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration

GAIN = {0.9: 1.8124, 0.75: 0.9539}
"""AUC of one detector -> distance between the means of clean and shifted scores of deviation 1: sqrt(2) z(AUC)."""


def synthetic(
    auc: float, *, rows: int = 1000, seed: int = 0, right: tuple[float, float] = (0.95, 0.5)
) -> Calibration:
    """One detector with normal scores, two kinds of shift; right answers with these probabilities, clean and shifted."""
    rng = np.random.default_rng([seed, rows])
    kind = np.repeat(["clean", "blur", "fog"], rows)
    shifted = kind != "clean"
    return fit_calibration(
        {"energy": rng.normal(GAIN[auc] * shifted)},
        kind,
        rng.random(len(kind)) < np.where(shifted, right[1], right[0]),
    )
