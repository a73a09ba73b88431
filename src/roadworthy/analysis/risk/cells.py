"""What a cell means: whether its events raise an alarm, and how shifted they look.

The alarm is that of the deployed supervisor if the calibration knows one; else that of the shift
score, cut where it separates shifted from clean rows best: what a fail-safe could be.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.deployed import Deployed
>>> kind, right = np.repeat(["clean", "fog"], 200), np.tile([True, True, True, False], 100)
>>> scores = np.concatenate([np.arange(200.0), np.arange(100.0, 300.0)])
>>> calibration = calibrate({"knn": scores}, kind, right, deployed=Deployed("knn", 179.0))
>>> rows_by_alarm(calibration).sum(axis=1).tolist()
[[180.0, 20.0], [80.0, 120.0]]
>>> shift = shift_scores(calibration).cells
>>> bool(shift[0] < 0 < shift[-1]), shift.shape == (calibration.cells,)
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.refusal import separation

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.deployed import Deployed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TAKEN_TO_BE = "alarms are taken to be those of the supervisors' scores combined, cut where these tell shift from clean best"
"""What is to be known of costs where a tree asks for alarms, and those at work are not known."""
NOBODY_SAID_WHOSE = f"whose alarms call a person nobody said: {TAKEN_TO_BE}"


def alarms_in_words(deployed: Deployed) -> str:
    """Whose alarms call a person."""
    return f"the alarms that call a person are those of {deployed}"


def alarmed_cells(calibration: Calibration) -> NDArray[np.bool_]:
    """Of every cell, whether its events raise an alarm."""
    cells = np.arange(calibration.cells)
    if calibration.deployed is not None:
        return calibration.alarmed(cells)
    return np.asarray(calibration.shift_bin(cells) >= separation(calibration).cut)


def alarms_of_rows(
    calibration: Calibration, columns: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.bool_]:
    """Which rows raise an alarm: by the deployed supervisor one without its score, too; by all combined, none without a place."""
    if calibration.deployed is not None:
        return calibration.deployed.raised(
            np.asarray(columns[calibration.deployed.name], dtype=np.float64)
        )
    cells = calibration.place(columns)
    return np.asarray((cells >= 0) & alarmed_cells(calibration)[np.maximum(cells, 0)])


def rows_by_alarm(calibration: Calibration) -> NDArray[np.float64]:
    """Calibration rows: kinds x (right, wrong) x (no alarm, alarm)."""
    on = alarmed_cells(calibration)
    return np.stack(
        [calibration.table[..., ~on].sum(axis=2), calibration.table[..., on].sum(axis=2)], axis=2
    ).astype(float)


def alarm_rates(calibration: Calibration) -> tuple[float, float]:
    """Of shifted rows, kinds even, the share with an alarm; of clean rows the share without."""
    rows = rows_by_alarm(calibration).sum(axis=1)
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    return float(shares[1:, 1].mean()), float(shares[0, 0])


_PRIOR = 0.5


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
    table = calibration.table.astype(np.float64)
    by_bin = np.stack(
        [np.bincount(bins, row, minlength=calibration.shift.bins) for row in table.sum(axis=1)]
    )
    shares = (by_bin + _PRIOR) / (by_bin + _PRIOR).sum(axis=1, keepdims=True)
    ratio = (
        np.log(shares[1:].mean(axis=0) / shares[0])
        if len(shares) > 1
        else np.zeros(shares.shape[1])
    )
    return ShiftScores(ratio[bins], bins, ratio, shares[0])
