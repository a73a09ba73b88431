"""Windows that nothing calibrated explains: their accuracy leans towards what confidence says, where confidence says something.

A kind of shift that nobody calibrated may be answered far better, or worse, than the one that was, and with one kind alone nothing
but confidence says by how much: the share of events above the threshold that as many clean rows exceed as were right (ATC, Garg
et al. 2022; `confidence.Atc`), here by bins of the model of being right if clean. It is believed as far as two things hold:

- among clean rows it tells right from wrong (area under the curve, `TELLING`). On the published scores of seed 003 it does not:
  there it would mislead by .15, and is not asked;
- the window is unlike what was calibrated. Its counts by shift score and look are compared with those of clean events and one
  kind at the window's rate; the part of Pearson's chi-square that chance does not explain is the weight (as in `misfit`).

Found on the twelve kinds of shift of `studies/runtime-risk`: with one kind calibrated the error of the accuracy falls from .069 to
.062, and where the kind that streams was calibrated nothing changes. Twelve other kinds gained as much, when the
form stood; the constants were then settled with both in view.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> sure, night = rng.normal(size=4000), np.repeat([0, 1], 2000)
>>> right = rng.random(4000) < 1 / (1 + np.exp(-3 - 4 * sure + 6 * night))
>>> kind = np.where(night, "night", "clean")
>>> calibration = calibrate({"unsure": -sure, "dark": rng.normal(3 * night)}, kind, right)
>>> def window(surer: float) -> Window:
...     scores = {"unsure": rng.normal(-surer, size=200), "dark": rng.normal(3.0, size=200)}
...     return Window(calibration, np.bincount(calibration.place(scores), minlength=calibration.cells)[None, :], np.zeros(0))
>>> unlike, one = Unlike.of(calibration), np.ones(1)
>>> unlike.lean(window(0.0), one, one, 0.3 * one) is None  # a night as it was calibrated
True
>>> bool(unlike.lean(window(2.0), one, one, 0.6 * one)[0] > 0.5)  # dark, and yet all answers are sure: another kind of dark
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.firm_kinds import firm
from roadworthy.analysis.risk.sums import TINY, Known, Window

Floats = NDArray[np.float64]

TELLING = (0.75, 0.85)
"""The area under the curve of clean confidence, less its error by chance, up to which it is not believed, and from which on it
is: between that of the published scores (at most .74), which confidence misleads, and that of the study's own (.87)."""
STRETCH = 1.5
"""How much further accuracy falls than bins say: unsure events of a new kind lie deeper in the lowest bin than clean ones do."""
EITHER = (0.25, 0.75)
"""Probabilities of shift between which a bin of the shift score says neither. Finer parts would show what the folds' models differ
in: scores above all clean ones are as good as tied, and fall into the highest bins by their models' noise."""
BEYOND = 2.0
"""Standard deviations of chi-square that are chance."""
ENOUGH = 200.0
"""Events that a window counts for at most: in a longer one the chance of the bins' edges would show."""
ROWS = 0.1
"""Rows added to every bin, as in the draws."""
SPARSE = 0.5
"""Added to the variance of every count: one event where none is expected proves nothing."""


@dataclass(frozen=True, eq=False)
class Unlike:
    """What tells how unlike a window is, and how accurate by its confidence; from the calibration's counts alone."""

    parts: Floats
    """Which bins of the shift score look clean, which could be either, and which look shifted."""
    clean: tuple[Floats, Floats]
    """How clean events fall into these parts and the bins of a look: of being right if clean, and of being right if shifted."""
    shifted: tuple[Floats, Floats]
    """The same of each kind with rows enough, kinds first, and of all of them evenly."""
    rows_clean: float
    rows_shifted: Floats
    accuracy: float
    """Of clean rows."""
    sure: Floats
    """Of the bins of being right if clean, the share of events above the threshold."""
    trust: float
    """How far confidence is believed, from 0 to 1."""

    @classmethod
    def of(cls, calibration: Calibration) -> Unlike:
        """From the counts alone."""
        kept = firm(calibration)
        table = calibration.folded(calibration.table)[kept].astype(np.float64).sum(axis=5)
        rows = np.maximum(calibration.effective[kept], 1.0)
        parts = _parts(table.sum(axis=(1, 3, 4)))
        first, second = (_shares(parts @ table.sum(axis=(1, other))) for other in (4, 3))
        evenly = (len(rows) - 1) ** 2 / (1.0 / rows[1:]).sum()
        # Where alarms are told apart, the bins of being right stand twice, each time from the least sure to the surest.
        twice = table.shape[3] // calibration.right_clean.bins
        right, wrong = table[0].sum(axis=(1, 3)).reshape(2, twice, -1).sum(axis=1)
        worth = float(calibration.worth[0])
        telling = area(right, wrong) - _by_chance(right.sum() * worth, wrong.sum() * worth)
        accuracy = float(right.sum() / max(right.sum() + wrong.sum(), 1.0))
        return cls(
            parts,
            (first[0], second[0]),
            (first[1], second[1]),
            float(rows[0]),
            np.append(rows[1:], evenly),
            accuracy,
            np.tile(above_threshold(right + wrong, accuracy), twice),
            float(np.clip((telling - TELLING[0]) / (TELLING[1] - TELLING[0]), 0.0, 1.0)),
        )

    def lean(self, window: Window, rate: Floats, shrink: Floats, accuracy: Floats) -> Floats | None:
        """Which part of the wrong answers of each window is right after all (above 0), or of the right ones wrong; None: no part.

        `accuracy` is the estimate without it, at this rate of shift.
        """
        if self.trust == 0.0:
            return None
        weight = np.where(window.empty, 0.0, self.trust * self.weight(window, rate, shrink))
        if not weight.any():
            return None
        more = self.told(window) - accuracy
        room = np.where(more > 0.0, 1.0 - accuracy, accuracy)
        return np.clip(weight * more / np.maximum(room, TINY), -1.0, 1.0)

    def told(self, window: Window) -> Floats:
        """The accuracy of each window by confidence alone."""
        events = window.clean.sum(axis=1)
        share = events @ self.sure / np.maximum(events.sum(axis=1), TINY)
        return np.clip(self.accuracy + STRETCH * (share - self.accuracy), 0.0, 1.0)

    def weight(self, window: Window, rate: Floats, shrink: Floats) -> Floats:
        """Of each window, the part of its distance from everything calibrated that chance does not explain, at this rate of shift.

        What one calibrated kind explains, or all of them evenly, needs no other explanation.
        """
        n, shifted = window.by_shift.sum(axis=1), rate[:, None]
        counted = np.minimum(shrink, ENOUGH / np.maximum(n, TINY))[:, None]
        rows = 1.0 / ((1.0 - shifted) ** 2 / self.rows_clean + shifted**2 / self.rows_shifted)
        chance = (1.0 + n[:, None] * counted / rows) / counted
        distance, usual = np.zeros(rows.shape), np.zeros(rows.shape)
        for counts, clean, kinds in zip(
            (window.clean, window.shifted), self.clean, self.shifted, strict=True
        ):
            seen = (self.parts @ counts).reshape(len(n), 1, -1)
            expected = n[:, None, None] * (
                (1.0 - shifted)[..., None] * clean + shifted[..., None] * kinds
            )
            variance = expected * chance[..., None]
            distance += ((seen - expected) ** 2 / (variance + SPARSE)).sum(axis=2)
            mean = (variance / (variance + SPARSE)).sum(axis=2)
            usual += mean + BEYOND * np.sqrt(2.0 * mean)
        found: Floats = np.maximum(1.0 - usual / np.maximum(distance, TINY), 0.0).min(axis=1)
        return found


def leant(known: Known, lean: Floats | None) -> Known:
    """With such a part of each window's wrong answers right, or of its right ones wrong, of clean and of shifted events alike."""
    if lean is None:
        return known
    up, left, before = (
        np.maximum(lean, 0.0)[:, None],
        1.0 + np.minimum(lean, 0.0)[:, None],
        known.way,
    )
    return replace(
        known,
        right_clean=(known.right_clean + up * (known.clean - known.right_clean)) * left,
        right_shifted=(known.right_shifted + up * (known.shifted - known.right_shifted)) * left,
        way=lambda part: leant(part if before is None else before(part), lean),
    )


def area(right: Floats, wrong: Floats) -> float:
    """How often a right answer lies in a higher bin than a wrong one, ties by halves.

    >>> area(np.array([1.0, 3.0]), np.array([2.0, 0.0]))
    0.875
    """
    below = np.cumsum(wrong) - 0.5 * wrong
    return float(right @ below / max(right.sum() * wrong.sum(), TINY))


def above_threshold(rows: Floats, share: float) -> Floats:
    """Of each bin, what part lies above the threshold that such a share of all rows exceeds; rows lie evenly within their bin.

    >>> above_threshold(np.array([2.0, 4.0, 4.0]), 0.7).tolist()
    [0.0, 0.75, 1.0]
    """
    upto = np.cumsum(rows)
    below = upto - rows
    inside = (upto - (1.0 - share) * rows.sum()) / np.maximum(upto - below, TINY)
    return np.clip(np.round(inside, 12), 0.0, 1.0)


def _by_chance(right: float, wrong: float) -> float:
    """The standard error of the area under the curve of scores that tell nothing."""
    return float(np.sqrt((right + wrong + 1.0) / max(12.0 * right * wrong, TINY)))


def _parts(rows: Floats) -> Floats:
    """Parts x bins of the shift score, 1 where a bin belongs to a part; from rows by kind and bin, kinds of shift even."""
    shares = (rows + ROWS) / (rows + ROWS).sum(axis=1, keepdims=True)
    shifted = shares[1:].mean(axis=0)
    part = np.searchsorted(EITHER, shifted / (shifted + shares[0]))
    return (part == np.arange(len(EITHER) + 1)[:, None]).astype(np.float64)


def _shares(table: Floats) -> tuple[Floats, Floats]:
    """From counts, kinds x parts x bins: how clean events fall, and how those of each kind and of all kinds evenly do."""
    rows = table.reshape(len(table), -1) + ROWS
    shares = rows / rows.sum(axis=1, keepdims=True)
    return shares[0], np.vstack([shares[1:], shares[1:].mean(axis=0)])
