"""Where events look more or less often right than their shift scores lead one to expect: the mark of a kind nobody calibrated.

A kind of shift unlike the calibrated ones can look clean to the shift score and still be answered badly. What gives it away is the
look of its answers: the bins of the two models of being right. Of a window, the mean accuracy of these bins is compared with what
clean and calibrated events of the same shift scores have. The part of the difference that chance does not explain (a positive-part
shrinkage, `BEYOND` standard errors) is an accuracy: `BELIEVED` of it moves the estimate, and `DOUBTED` of it is the standard
deviation of a doubt. Windows that fit have none, so that their intervals stay as they are.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> confidence, blur = rng.normal(size=4000), rng.normal(3.0 * np.repeat([0, 1], 2000))
>>> right = rng.random(4000) < 1 / (1 + np.exp(-2 - 2 * confidence))
>>> calibration = calibrate({"unsure": -confidence, "blur": blur}, np.repeat(["clean", "fog"], 2000), right)
>>> def window(less_sure: float) -> Window:
...     scores = {"unsure": rng.normal(less_sure, size=200), "blur": rng.normal(size=200)}
...     return Window(calibration, np.bincount(calibration.place(scores), minlength=calibration.cells)[None, :], np.zeros(0))
>>> looks, none = Looks.of(calibration), np.zeros(1)
>>> float(looks.excess(window(0.0), none, np.ones(1))[0]), bool(looks.excess(window(2.0), none, np.ones(1))[0] < -0.15)
(0.0, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.firm_kinds import firm_rows
from roadworthy.analysis.risk.sums import TINY, Known, Places, Window

Floats = NDArray[np.float64]

BEYOND = 3.0
"""Standard errors up to which a difference is chance."""
BELIEVED, DOUBTED = 0.5, 2.0
"""Of a difference that is not chance; set with the study's own shifts in view. Few windows of the published ones have any."""
BORROWED = 1.0
"""Rows of a kind's own looks that are added to every bin of its shift score."""
ROWS = 0.1
"""Rows added to every bin of the shift score, as in the draws."""


@dataclass(frozen=True, eq=False)
class Look:
    """One model of being right: the accuracy of its bins, and its mean and mean square by bin of the shift score."""

    accuracy: Floats
    clean: Floats
    """(mean, mean square) x bins of the shift score."""
    shifted: Floats
    """The same of each kind of shift, kinds first."""


@dataclass(frozen=True, eq=False)
class Looks:
    """What events of every shift score look like, by the calibration's counts, kinds of shift even."""

    looks: tuple[Look, Look]
    """By the model for clean events, and by the one for shifted events."""
    share_clean: Floats
    share_shifted: Floats
    """How clean events, and those of each kind of shift, fall into the bins of the shift score."""
    rows_clean: float
    rows_shifted: float

    @classmethod
    def of(cls, calibration: Calibration) -> Looks:
        """From the counts alone."""
        table = calibration.folded(calibration.table).astype(np.float64).sum(axis=5)
        rows = table.sum(axis=(1, 3, 4)) + ROWS
        shares = rows / rows.sum(axis=1, keepdims=True)
        independent = np.maximum(firm_rows(calibration), 1.0)
        looks = _look(table.sum(axis=4)), _look(table.sum(axis=3))
        return cls(
            looks, shares[0], shares[1:], float(independent[0]), float(independent[1:].min())
        )

    def excess(self, window: Window, rate: Floats, shrink: Floats) -> Floats:
        """Of each window, by how much its events look more often right than expected at this rate; 0 where chance may be it.

        What one calibrated kind explains needs no other explanation: the kind that leaves least counts.
        """
        left = self._beside(window, rate, shrink)
        if left is None:
            return np.zeros(len(rate))
        found: Floats = left[np.abs(left).argmin(axis=0), np.arange(len(rate))]
        return found

    def _beside(self, window: Window, rate: Floats, shrink: Floats) -> Floats | None:
        """The excess over a mixture of clean events and those of one kind (kinds x windows), by the look that shows more of it.

        None where chance may be all of it.
        """
        by_shift, n = window.by_shift, np.maximum(window.by_shift.sum(axis=1), TINY)
        clean = (1.0 - rate)[:, None] * self.share_clean
        clean = clean / (clean + rate[:, None] * self.share_shifted[:, None])
        shifted = 1.0 - clean
        rows = 1.0 / ((1.0 - rate) ** 2 / self.rows_clean + rate**2 / self.rows_shifted)
        chance = (1.0 + n * shrink / rows) / shrink / n**2
        of_clean, of_shifted = self._moments
        mean, square = (
            of_clean * clean + of_shifted * shifted
        )  # looks x kinds x windows x bins of the shift score
        first, second = self.looks
        seen = np.stack(
            [
                window.clean.sum(axis=1) @ first.accuracy,
                window.shifted.sum(axis=1) @ second.accuracy,
            ]
        )
        more = (seen[:, None] - (by_shift * mean).sum(axis=3)) / n
        variance = (by_shift * np.maximum(square - mean**2, 0.0)).sum(axis=3) * chance
        squared = more**2 / np.maximum(variance, TINY)
        if squared.max(initial=0.0) <= BEYOND**2:
            return None
        found, furthest = np.zeros(clean.shape[:2]), np.full(clean.shape[:2], BEYOND**2)
        for by, times in zip(more, squared, strict=True):
            found = np.where(
                times > furthest, by * (1.0 - BEYOND**2 / np.maximum(times, TINY)), found
            )
            furthest = np.maximum(furthest, times)
        return found

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """(mean, mean square) x looks x kinds x windows x bins of the shift score: of clean events, and of shifted ones."""
        clean = np.stack([look.clean for look in self.looks], axis=1)
        shifted = np.stack([look.shifted.transpose(1, 0, 2) for look in self.looks], axis=1)
        return clean[:, :, None, None], shifted[:, :, :, None]


@dataclass(frozen=True, eq=False)
class Swing:
    """What is added to the accuracies of windows, by draw, window and rate."""

    believed: Floats
    doubted: Floats
    """The same with the doubt, which is spread as a normal and moves nothing on average."""

    @property
    def windows(self) -> Places:
        """Those of which anything is moved."""
        return np.flatnonzero(self.doubted[0].any(axis=1))

    def only(self, on: Places) -> Swing:
        """Of some of the windows."""
        return Swing(self.believed[on], self.doubted[:, on])


def swing_of(excess: Floats, ways: Floats, weights: Floats) -> Swing:
    """From the excess of each window, a normal number for every draw and rate, and the weight of these in each window."""
    believed = BELIEVED * excess[:, None]
    middle = np.einsum("bwg,bg->w", weights, ways)
    return Swing(
        believed,
        believed + DOUBTED * np.abs(excess)[:, None] * (ways[:, None, :] - middle[:, None]),
    )


def believed_of(known: Known, swing: Swing | None) -> Known:
    """With what is believed of a swing."""
    if swing is None:
        return known
    return known.moved(known.right_shifted, swing.believed, lambda part: believed_of(part, swing))


def _look(table: Floats) -> Look:
    """From counts: kinds x (right, wrong) x bins of the shift score x bins of the look."""
    even = np.full(len(table), 0.5 / max(len(table) - 1, 1))
    even[0] = 0.5
    outcomes = (
        table.sum(axis=2) * (even / np.maximum(table.sum(axis=(1, 2, 3)), 1.0))[:, None, None]
    )
    right, wrong = outcomes.sum(axis=0)
    accuracy = (right + 0.01) / (right + wrong + 0.02)
    rows = table.sum(axis=1)
    own = rows.sum(axis=1) / np.maximum(rows.sum(axis=(1, 2)), 1.0)[:, None]
    share = (rows + BORROWED * own[:, None]) / (rows.sum(axis=2, keepdims=True) + BORROWED)
    moments = np.stack([share @ accuracy, share @ accuracy**2], axis=1)
    return Look(accuracy, moments[0], moments[1:])
