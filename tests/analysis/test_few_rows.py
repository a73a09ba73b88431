"""Calibrations of few rows: what they do not know is in the interval of the rate, also where nothing is shifted."""

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree

CALIBRATIONS, EVENTS = 40, 500


@pytest.mark.parametrize("rows", [50, 100, 200])
def test_intervals_of_the_rate_hold_though_few_rows_calibrated(rows):
    rng = np.random.default_rng(rows)
    shifted = np.repeat([False, True], rows)
    held, off = [], []
    for i in range(CALIBRATIONS):
        apart = 0.8 if i % 2 else 1.5
        right = rng.random(2 * rows) < np.where(shifted, 0.5, 0.9)
        calibration = fit_calibration(
            {"knn": rng.normal(apart * shifted)}, np.where(shifted, "fog", "clean"), right
        )
        estimator = Estimator(calibration, accuracy_tree())
        for rate in (0.0, 0.02, 0.3):
            scores = rng.normal(apart * (rng.random(EVENTS) < rate))
            found = estimator.estimate(
                np.bincount(calibration.place({"knn": scores}), minlength=calibration.cells)
            )
            if found.no_estimate[0] is None:
                held.append(found.rate_low[0] <= rate <= found.rate_high[0])
                off.append(abs(found.rate[0] - rate))
    assert len(held) > 2 * CALIBRATIONS
    # Windows of one calibration fail together: a third of them are independent.
    assert sum(held) / 3 >= binom.ppf(0.01, len(held) // 3, 0.95)
    assert np.mean(off) < 0.15
