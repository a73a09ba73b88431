"""In which cells an alarm calls a person, and how many calibration rows had one.

It is the alarm of the deployed supervisor, where a calibration knows one. Else it is that of the shift score, the combination of
all supervisors, cut where it tells shifted rows from clean ones best: what a fail-safe could be, and not what somebody runs.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.deployed import Deployed
>>> kind, right = np.repeat(["clean", "fog"], 200), np.tile([True, True, True, False], 100)
>>> scores = np.concatenate([np.arange(200.0), np.arange(100.0, 300.0)])
>>> calibration = calibrate({"knn": scores}, kind, right, deployed=Deployed("knn", 179.0))
>>> rows_by_alarm(calibration).sum(axis=1).tolist()
[[180.0, 20.0], [80.0, 120.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.refusal import separation

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.deployed import Deployed

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
