"""What a cell means: whether its events raise an alarm, and how shifted they look.

The alarm is that of the deployed supervisor if the calibration knows one; else that of the shift
score, cut where it separates shifted from clean rows best: what a fail-safe could be.

>>> from roadworthy.analysis.risk.calibration import Deployed, fit_calibration
>>> kind, right = np.repeat(["clean", "fog"], 200), np.tile([True, True, True, False], 100)
>>> scores = np.concatenate([np.arange(200.0), np.arange(100.0, 300.0)])
>>> calibration = fit_calibration({"knn": scores}, kind, right, deployed=Deployed("knn", 179.0))
>>> rows_by_alarm(calibration).sum(axis=1).tolist()
[[180.0, 20.0], [80.0, 120.0]]
>>> shift = shift_scores(calibration).cells
>>> bool(shift[0] < 0 < shift[-1]), shift.shape == (calibration.cells,)
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.refusal import separation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TAKEN_TO_BE = (
    "alarms are taken to be those of the supervisors' scores combined, at the threshold that "
    "separates shifted from clean rows best"
)
"""The note on costs of alarms if no supervisor at work is named."""
_PRIOR = 0.5


def alarmed_cells(calibration: Calibration) -> Bools:
    """By cell, whether its events raise an alarm."""
    cells = np.arange(calibration.cells)
    if calibration.deployed is None:
        return np.asarray(calibration.shift_bin(cells) >= separation(calibration).cut)
    _, clean, _, _ = calibration.shape
    return np.asarray(np.unravel_index(cells, calibration.shape)[1] >= clean // 2)


def alarms_of_rows(calibration: Calibration, columns: Mapping[str, Floats]) -> Bools:
    """Which rows raise an alarm; one without the deployed supervisor's score does."""
    if (deployed := calibration.deployed) is not None:
        return deployed.raised(np.asarray(columns[deployed.name], dtype=np.float64))
    cells = calibration.place(columns)
    return np.asarray((cells >= 0) & alarmed_cells(calibration)[np.maximum(cells, 0)])


def rows_by_alarm(calibration: Calibration) -> Floats:
    """Calibration rows: kinds x (right, wrong) x (no alarm, alarm)."""
    on = alarmed_cells(calibration)
    sides = [calibration.table[..., side].sum(axis=2) for side in (~on, on)]
    return np.stack(sides, axis=2).astype(np.float64)


class ShiftScores(NamedTuple):
    """The log likelihood ratio of shifted (kinds even) against clean rows by bin of the shift score."""

    cells: Floats
    bins: Ints
    """The bin of each cell."""
    ratio: Floats
    """By bin."""
    clean: Floats
    """The share of clean rows in each bin."""


def shift_scores(calibration: Calibration) -> ShiftScores:
    """From the counts of a calibration."""
    bins = calibration.shift_bin(np.arange(calibration.cells))
    by_bin = calibration.folded(calibration.table).sum(axis=(1, 3, 4, 5)) + _PRIOR
    shares = by_bin / by_bin.sum(axis=1, keepdims=True)
    ratio = np.log(shares[1:].mean(axis=0) / shares[0])
    return ShiftScores(ratio[bins], bins, ratio, shares[0])
