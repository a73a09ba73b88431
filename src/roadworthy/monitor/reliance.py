"""Windows whose figures can surely be relied on, told at a glance, so that only the others are worked out.

A window is strange where no draw at no rate explains how its events fall into the bins. A few draws and rates that explain it well
enough therefore settle that it is not; and how likely so many scores beyond the calibrated ones are is the same for all
windows with as many of them. What is not settled here is asked of the estimator (`Estimator.doubt`), whose answer this never
contradicts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Cells

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimator

DRAWS, RATES = 6, 26
"""How many of the estimator's draws and rates are tried."""
SAFELY = 0.99
"""The share of what is allowed that a window may use up: rounding must not decide."""


class Reliance:
    """What settles that the windows of an estimator can be relied on."""

    def __init__(self, estimator: Estimator) -> None:
        from scipy.special import chdtri, xlogy

        from roadworthy.analysis.risk.doubts import MOSTLY, STRANGE
        from roadworthy.analysis.risk.firm_kinds import firm_rows

        calibration = estimator.calibration
        self.enough, self._xlogy = estimator.separation.enough, xlogy
        self._bins = calibration.shift.bins
        self._rows, self._ends = float(firm_rows(calibration).min()), 2.0 * len(calibration.names)
        self._mostly = MOSTLY
        self._allowed = SAFELY * float(chdtri(max(self._bins - 1, 1), STRANGE / 2.0))
        draws, rates = estimator.draws, _spread(len(estimator.rates), RATES)
        which, rate = _spread(len(draws.clean), DRAWS), estimator.rates[rates]
        mixed = draws.clean[which, :, None] * (1.0 - rate) + draws.shifted[which, :, None] * rate
        by_bin = np.log(mixed).transpose(1, 0, 2).reshape(self._bins, -1)
        # The bin of each cell, in a second row outside what was calibrated; an event without a score (cell -1) comes last.
        cells = np.arange(calibration.cells)
        self._code = np.append(
            calibration.shift_bin(cells) + self._bins * (cells % 2), 2 * self._bins
        )
        # What one event of each code adds to the log-likelihoods, to the events outside, and to all that have a score.
        inside = np.column_stack([by_bin, np.zeros(self._bins), np.ones(self._bins)])
        outside = np.column_stack([by_bin, np.ones(self._bins), np.ones(self._bins)])
        self._adds = np.vstack([inside, outside, np.zeros(inside.shape[1])])
        self._told: dict[tuple[int, int], bool] = {}

    def settled(self, windows: Cells, *, shrink: float, least: float) -> NDArray[np.bool_]:
        """Which windows (rows of cells) can surely be relied on, given that so many events at least must have a score."""
        if not self.enough:
            return np.zeros(len(windows), dtype=bool)
        wide, bins = 2 * self._bins + 1, self._bins
        codes = self._code.take(windows)
        codes += np.arange(0, wide * len(windows), wide)[:, None]
        table = (
            np.bincount(codes.ravel(), minlength=wide * len(windows))
            .reshape(-1, wide)
            .astype(np.float64)
        )
        summed, by_shift = table @ self._adds, table[:, :bins] + table[:, bins:-1]
        outside, scored, length = summed[:, -2], summed[:, -1], float(windows.shape[1])
        whole = length >= least and windows.min() >= 0
        n = length if whole else scored
        best = self._xlogy(by_shift, by_shift).sum(axis=1) - self._xlogy(n, n)
        # Twice what is lacking to the best, shrunk by the chance of the window and of the calibration's rows, is chi-squared.
        lacking = best - summed[:, :-2].max(axis=1)
        found: NDArray[np.bool_] = lacking <= self._allowed * (
            0.5 / shrink + n / max(self._rows, 1.0)
        )
        if not whole:
            found &= scored >= max(least, 1.0)
        for i in outside.nonzero()[0].tolist():
            found[i] = found[i] and self._usual(float(outside[i]), float(scored[i]), shrink)
        return found

    def _usual(self, outside: float, n: float, shrink: float) -> bool:
        """Whether so many events beyond what was calibrated are nothing strange."""
        k = math.floor(outside * shrink)
        of = max(math.ceil(n * shrink), k)
        if (k, of) not in self._told:
            self._told[k, of] = self._likely(k, of)
        return self._told[k, of] and outside <= self._mostly * n

    def _likely(self, k: int, n: int) -> bool:
        """Whether k of n independent events may well lie beyond what was calibrated."""
        from roadworthy.analysis.risk.doubts import STRANGE, beyond

        if len(self._told) >= 10_000:
            self._told.clear()
        chance = beyond(np.array([float(k)]), np.array([float(n)]), self._ends, self._rows)
        return bool(2.0 * chance[0] * SAFELY >= STRANGE)


def _spread(n: int, wanted: int) -> NDArray[np.intp]:
    """So many places among n, both ends among them."""
    return np.unique(np.linspace(0, n - 1, min(wanted, n)).round().astype(np.intp))
