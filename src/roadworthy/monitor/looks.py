"""One look of the alarm: the log-odds of the windows that end at given places of a stream, passing over those that are quiet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
        found = np.full(len(ends), -math.inf)
        loud = self._loud(cells, ends, length)
        if len(loud):
            found[loud] = self.estimator.log_odds(self._counts(cells, ends[loud], length), shrink=shrink)
        return found

    def log_odds_of(self, streams: Sequence[np.ndarray], ends: np.ndarray, *, length: int) -> Floats:
        """The same of several streams, streams x ends, worked out together."""
        found = np.full((len(streams), len(ends)), -math.inf)
        loud = [self._loud(cells, ends, length) for cells in streams]
        parts = [self._counts(cells, ends[at], length) for cells, at in zip(streams, loud, strict=True) if len(at)]
        if parts:
            which = np.repeat(np.arange(len(streams)), [len(at) for at in loud])
            found[which, np.concatenate(loud)] = self.estimator.log_odds(np.concatenate(parts))
        return found

    def _loud(self, cells: np.ndarray, ends: np.ndarray, length: int) -> NDArray[np.intp]:
        """Which windows are not passed over."""
        shift, error, n = self.means(cells, ends, length=length)
        enough = n >= LEAST_SCORED * length
        return np.flatnonzero(enough & ((shift >= self.quiet[0]) | (error >= self.quiet[1])))

    def _counts(self, cells: np.ndarray, ends: np.ndarray, length: int) -> Floats:
        size = len(self.scores.shift)
        counts = np.empty((len(ends), size))
        for row, end in zip(counts, ends.tolist(), strict=True):
            part = cells[max(end - length, 0) : end]
            row[:] = np.bincount(part[part >= 0], minlength=size)
        return counts

    def means(self, cells: np.ndarray, ends: np.ndarray, *, length: int) -> tuple[Floats, Floats, Floats]:
        """Mean shift score, mean expected error and number of the events with a score of each of these windows."""
        starts = np.maximum(ends - length, 0)
        first, last = int(starts.min()), int(ends.max())
        upto = np.zeros((3, last - first + 1))
        np.cumsum(self._table.take(cells[first:last], axis=1), axis=1, out=upto[:, 1:])
        shift, error, n = upto.take(ends - first, axis=1) - upto.take(starts - first, axis=1)
        some = np.maximum(n, 1.0)
        return shift / some, error / some, n

    @cached_property
    def _table(self) -> Floats:
        """What a cell adds to the shift score, the error and the number of events; one without a score (cell -1), nothing."""
        shift, error = self.scores.shift, self.scores.error
        return np.pad(np.stack([shift, error, np.ones_like(shift)]), ((0, 0), (0, 1)))
