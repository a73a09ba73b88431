"""One number a cell: how shifted it looks, and how many errors are to be expected in it.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog"], 400)
>>> calibration = calibrate({"energy": rng.normal(np.repeat([0.0, 2.0], 400))}, kind, rng.random(800) < 0.8)
>>> shift, error = shift_scores(calibration).cells, expected_errors(calibration)
>>> bool(shift[0] < 0 < shift[-1]), shift.shape == error.shape == (calibration.cells,)
(True, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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


def expected_errors(calibration: Calibration) -> Floats:
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
