"""One look of the alarm: the log-odds of the windows that end at given places of a stream, passing over those that are quiet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.transfer import Estimator

LEAST_SCORED = 0.5
"""The share of a window's events that must have a score: what the others were, nobody knows."""


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
        scored = cells >= 0
        safe = np.where(scored, cells, 0)
        totals = [
            np.concatenate([[0.0], np.cumsum(np.where(scored, column[safe], 0.0))])
            for column in (self.scores.shift, self.scores.error, np.ones_like(self.scores.shift))
        ]
        shift, error, n = (total[ends] - total[np.maximum(ends - length, 0)] for total in totals)
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
