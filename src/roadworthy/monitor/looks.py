"""One look of the alarm: the log-odds of the windows that end at given places of a stream, passing over those that are quiet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.cells import Calibration
    from roadworthy.analysis.risk.transfer import Estimator

LEAST_SCORED = 0.8
"""The share of a window's events that must have a place: what the others were, nobody knows, and it may be just the shifted ones
on which a supervisor fails. The same for the alarm, for what a monitor says and for a replay."""


def too_few(calibration: Calibration, scored: int, events: int, *, lacking: Sequence[str] | None = None) -> str | None:
    """Why a window has no figures of which so many events have a place; None where they are enough.

    `lacking` are the scores that the others lack, where that is known.
    """
    gone = events - scored
    if not gone or scored >= LEAST_SCORED * events:
        return None
    return f"{gone:,} of {events:,} events {calibration.why_nowhere(gone, lacking=lacking)}"


@dataclass(frozen=True)
class Watched:
    """What is watched, and how: everything about an alarm but its thresholds."""

    estimator: Estimator
    scores: CellScores
    window: int
    stride: int
    quiet: tuple[float, float] = (-math.inf, -math.inf)

    def log_odds(self, cells: np.ndarray, ends: np.ndarray, *, length: int, shrink: float = 1.0) -> Floats:
        """The log-odds of the windows of so many events before each of these ends.

        Minus infinity where all is quiet, and where too few events have a score to say anything.
        """
        if not len(ends):
            return np.zeros(0)
        before = np.maximum(ends - length, 0)
        shift, error, n, _ = self._sums(cells, before, ends).T
        enough = n >= LEAST_SCORED * length
        n = np.maximum(n, 1.0)
        found = np.full(len(ends), -math.inf)
        loud = np.flatnonzero(enough & ((shift / n >= self.quiet[0]) | (error / n >= self.quiet[1])))
        if len(loud):
            size = len(self.scores.shift)
            counts = np.empty((len(loud), size))
            for row, end in zip(counts, ends[loud].tolist(), strict=True):
                part = cells[max(end - length, 0) : end]
                row[:] = np.bincount(part[part >= 0], minlength=size)
            found[loud] = self.estimator.log_odds(counts, shrink=shrink)
        return found

    @cached_property
    def _table(self) -> Floats:
        """What a cell adds to the shift score, the error and the number of events; one without a score (cell -1), nothing."""
        shift, error = self.scores.shift, self.scores.error
        # Rows of four numbers are copied faster than those of three.
        rows = np.stack([shift, error, np.ones_like(shift), np.zeros_like(shift)], axis=1)
        return np.vstack([rows, np.zeros(4)])

    def _sums(self, cells: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Floats:
        """What the cells between each start and its end add up to."""
        bounds = np.unique(np.concatenate([starts, ends]))
        first, last = int(bounds[0]), int(bounds[-1])
        rows = self._table.take(cells[first:last], axis=0)
        upto = np.zeros((len(bounds), 4))
        np.cumsum(np.add.reduceat(rows, bounds[:-1] - first, axis=0), axis=0, out=upto[1:])
        found: Floats = upto[np.searchsorted(bounds, ends)] - upto[np.searchsorted(bounds, starts)]
        return found
