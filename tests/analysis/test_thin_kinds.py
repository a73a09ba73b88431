"""A kind of shift with hardly any rows does not decide how sure the figures of the others are."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration, of_firm_kinds
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.risk.refusal import separation

GAP = {"clean": 0.0, "fog": 2.0, "rain": 1.6, "snow": 1.8}
RIGHT = {"clean": 0.95, "fog": 0.6, "rain": 0.7, "snow": 0.5}


def calibrated(**rows: int) -> Calibration:
    rng = np.random.default_rng(7)
    kind = np.repeat(list(rows), list(rows.values()))
    scores = rng.normal([GAP[k] for k in kind])
    return fit_calibration(
        {"energy": scores}, kind, rng.random(len(kind)) < [RIGHT[k] for k in kind]
    )


def window(calibration: Calibration, rate: float, *, n: int = 400, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = rng.normal(GAP["fog"] * (rng.random(n) < rate))
    return np.bincount(calibration.place({"energy": scores}), minlength=calibration.cells)


def test_windows_are_told_although_one_kind_has_three_rows() -> None:
    with_thin, without = (
        calibrated(clean=600, fog=400, rain=400, snow=3),
        calibrated(clean=600, fog=400, rain=400),
    )
    for rate in (0.0, 0.3, 0.8):
        found = Estimator(with_thin, accuracy_tree()).estimate(window(with_thin, rate))
        known = Estimator(without, accuracy_tree()).estimate(window(without, rate))
        assert found.no_estimate == known.no_estimate == (None,)
        assert found.rate_low[0] - 0.02 <= rate <= found.rate_high[0] + 0.02
        width, other = (
            found.rate_high[0] - found.rate_low[0],
            known.rate_high[0] - known.rate_low[0],
        )
        assert width < 1.5 * other + 0.02
        assert found.accuracy[0] == pytest.approx(known.accuracy[0], abs=0.05)


def test_where_every_kind_is_thin_all_of_them_count() -> None:
    calibration = calibrated(clean=600, fog=5, rain=4)
    assert of_firm_kinds(calibration).kinds == ("clean", "fog", "rain")


def test_the_error_of_the_area_is_that_of_a_mean_over_kinds() -> None:
    """Against the spread of the areas of scores that tell nothing, which is the least that is taken."""
    rng = np.random.default_rng(3)
    rows, areas = {"clean": 400, "fog": 20, "rain": 150}, []
    for _ in range(400):
        clean = np.sort(rng.normal(size=rows["clean"]))
        by_kind = [
            np.searchsorted(clean, rng.normal(size=rows[k])).mean() / len(clean)
            for k in ("fog", "rain")
        ]
        areas.append(np.mean(by_kind))
    assert separation(calibrated(**rows)).error == pytest.approx(np.std(areas), rel=0.15)


def test_unheard_of_scores_are_still_strange_beside_a_thin_kind() -> None:
    calibration = calibrated(clean=600, fog=400, snow=3)
    scores = np.concatenate([np.random.default_rng(5).normal(size=270), np.full(30, 40.0)])
    counts = np.bincount(calibration.place({"energy": scores}), minlength=calibration.cells)
    assert Estimator(calibration, accuracy_tree()).estimate(counts).no_estimate[0] is not None
