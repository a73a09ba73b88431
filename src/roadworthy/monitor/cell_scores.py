"""What a cell says at a glance: its shift score, the error to expect in it, and the group it belongs to.

The shift score is the log likelihood ratio of shifted (kinds even) against clean rows by bin. It is the one number of an event
whose autocorrelation matters, and by which a window that looks cleaner than clean ones do is passed over without an evaluation.

>>> from roadworthy.analysis.risk.cells import calibrate
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

from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.cells import Calibration

Ints = NDArray[np.int64]

GROUPS = 4
"""Groups of cells in which the adaptive window looks for a change: few, so that a change shows soon."""
_ENDS = (0.5, 0.8, 0.95)
"""Shares of clean rows below which the groups end."""
_PRIOR = 0.5


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
        bins = calibration.shift_bin(np.arange(calibration.cells))
        table = calibration.table.astype(np.float64)
        by_bin = np.stack([np.bincount(bins, row, minlength=calibration.shift.bins) for row in table.sum(axis=1)])
        shares = (by_bin + _PRIOR) / (by_bin + _PRIOR).sum(axis=1, keepdims=True)
        ratio = np.log(shares[1:].mean(axis=0) / shares[0]) if len(shares) > 1 else np.zeros(shares.shape[1])
        upto = np.cumsum(shares[0]) - shares[0] / 2
        variance = float(shares[0] @ ratio**2 - (shares[0] @ ratio) ** 2)
        return cls(ratio[bins], _errors(calibration), np.searchsorted(_ENDS, upto)[bins], variance)


def _errors(calibration: Calibration) -> Floats:
    """Wrong answers by the bins of being right: of the clean model among clean rows, of the other among shifted ones."""
    folded = calibration.folded(calibration.table).astype(np.float64)
    clean = _wrong(folded[0].sum(axis=(1, 3, 4)))[None, :, None, None]
    shifted = _wrong(folded[1:].sum(axis=(0, 2, 3, 5)))[None, None, :, None]
    return np.broadcast_to(0.9 * clean + 0.1 * shifted, calibration.shape).ravel().copy()


def _wrong(rows: Floats) -> Floats:
    """The share of wrong answers bin by bin, each bin with a few rows of the mean."""
    mean = (rows[1].sum() + _PRIOR) / (rows.sum() + 2 * _PRIOR)
    result: Floats = (rows[1] + 4.0 * mean) / (rows.sum(axis=0) + 4.0)
    return result
