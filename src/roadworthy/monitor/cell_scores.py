"""What a cell says at a glance: its shift score, the error to expect in it, and the group it belongs to.

The shift score is the log likelihood ratio of shifted (kinds even) against clean rows by bin. It is the one number of an event
whose autocorrelation matters, and by which a window that looks cleaner than clean ones do is passed over without an evaluation.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog"], 400)
>>> calibration = calibrate({"energy": rng.normal(np.repeat([0.0, 2.0], 400))}, kind, rng.random(800) < 0.8)
>>> scores = CellScores.of(calibration)
>>> bool(scores.shift[0] < 0 < scores.shift[-1]), scores.group[[0, -1]].tolist()
(True, [0, 3])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.scores_of_cells import expected_errors, shift_scores
from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration

Ints = NDArray[np.int64]

GROUPS = 4
"""Groups of cells in which the adaptive window looks for a change: few, so that a change shows soon."""
_ENDS = (0.5, 0.8, 0.95)
"""Shares of clean rows below which the groups end."""


@dataclass(frozen=True, eq=False)
class CellScores:
    """One entry a cell."""

    shift: Floats
    error: Floats
    """The share of wrong answers among calibration rows of its bins, clean and shifted ones weighed nine to one."""
    group: Ints
    variance: float
    """Of the shift score among clean rows."""

    @classmethod
    def of(cls, calibration: Calibration) -> CellScores:
        """From the counts of a calibration."""
        scores = shift_scores(calibration)
        clean, ratio = scores.clean, scores.ratio
        upto = np.cumsum(clean) - clean / 2
        variance = float(clean @ ratio**2 - (clean @ ratio) ** 2)
        return cls(
            scores.cells,
            expected_errors(calibration),
            np.searchsorted(_ENDS, upto)[scores.bins],
            variance,
        )
