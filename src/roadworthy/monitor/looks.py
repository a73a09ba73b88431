"""One look of the alarm: the odds of the windows that end at given places of a stream, passing over those that are quiet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.estimator import Odds
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.estimator import Estimator

LEAST_SCORED = 0.8
"""The share of a window's events that must have a place: what the others were, nobody knows, and it may be just the shifted ones
on which a supervisor fails. The same for the alarm, for what a monitor says and for a replay."""
NOTHING_QUIET = (-math.inf, -math.inf)
"""Levels below which no window lies."""
NO_ODDS = Odds(np.zeros(0), np.zeros(0))
Ends = Sequence[int] | NDArray[np.intp]
"""Where windows end, of so many events each: rising, and a range where they are evenly spaced."""


def too_few(
    calibration: Calibration, scored: int, events: int, *, lacking: Sequence[str] | None = None
) -> str | None:
    """Why a window has no figures of which so many events have a place; None where they are enough.

    `lacking` are the scores that the others lack, where that is known.
    """
    gone = events - scored
    if not gone or scored >= LEAST_SCORED * events:
        return None
    return f"{gone:,} of {events:,} events {calibration.why_nowhere(gone, lacking=lacking)}"


def windows_before(cells: np.ndarray, ends: Sequence[int], length: int) -> np.ndarray:
    """The windows of so many events before each of these ends, one a row; a view where each begins where another ends.

    >>> windows_before(np.arange(9), [4, 7], 3).tolist(), windows_before(np.arange(9), [4, 6], 3).tolist()
    ([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [3, 4, 5]])
    """
    if list(ends) == list(range(ends[0], ends[-1] + 1, length)):
        return cells[ends[0] - length : ends[-1]].reshape(-1, length)
    return cells.take(np.asarray(ends)[:, None] + np.arange(-length, 0))


def asked_at(positions: Sequence[int], window: int, stride: int) -> list[int]:
    """Which looks are the first of a window: there it is asked whether its figures can be relied on.

    >>> asked_at([50, 100, 150, 200], 100, 50)
    [1, 3]
    """
    return [i for i, position in enumerate(positions) if position % window < stride]


@dataclass(frozen=True)
class Watched:
    """What is watched, and how: everything about an alarm but what it has to prove."""

    estimator: Estimator
    scores: CellScores
    window: int
    stride: int
    quiet: tuple[float, float] = NOTHING_QUIET

    def loud(
        self, cells: np.ndarray, ends: Ends, *, length: int, shrink: float = 1.0
    ) -> tuple[NDArray[np.intp], Odds]:
        """Which of these windows are not passed over, and their odds."""
        loud = self._loud(cells, ends, length)
        if not len(loud):
            return loud, NO_ODDS
        return loud, self.estimator.odds(self._counts(cells, ends, loud, length), shrink=shrink)

    def odds_of(
        self, streams: Sequence[np.ndarray], ends: Ends, *, length: int, shrink: float = 1.0
    ) -> Odds:
        """The odds of all windows of several streams, streams x ends, worked out together; minus infinity where passed over."""
        found = np.full((2, len(streams), len(ends)), -math.inf)
        loud = [self._loud(cells, ends, length) for cells in streams]
        parts = [
            self._counts(cells, ends, at, length)
            for cells, at in zip(streams, loud, strict=True)
            if len(at)
        ]
        if parts:
            which = np.repeat(np.arange(len(streams)), [len(at) for at in loud])
            found[:, which, np.concatenate(loud)] = self.estimator.odds(
                np.concatenate(parts), shrink=shrink
            )
        return Odds(*found)

    def _loud(self, cells: np.ndarray, ends: Ends, length: int) -> NDArray[np.intp]:
        """Which windows are not passed over."""
        if not len(ends):
            return np.zeros(0, dtype=np.intp)
        means = _Means(cells, ends, length)
        loud = means.of(self._shift) >= self.quiet[0]
        if self.quiet[1] <= self._most_error:
            loud |= means.of(self._error) >= self.quiet[1]
        if not means.whole:
            loud &= means.scored >= LEAST_SCORED * length
        return loud.nonzero()[0]

    def _counts(self, cells: np.ndarray, ends: Ends, some: NDArray[np.intp], length: int) -> Floats:
        """Of some of the windows."""
        size = len(self.scores.shift)
        counts = np.empty((len(some), size))
        for row, at in zip(counts, some.tolist(), strict=True):
            end = int(ends[at])
            part = cells[max(end - length, 0) : end]
            row[:] = np.bincount(part[part >= 0], minlength=size)
        return counts

    def means(self, cells: np.ndarray, ends: Ends, *, length: int) -> tuple[Floats, Floats]:
        """Mean shift score and mean expected error of each of these windows, of the events that have a score."""
        means = _Means(cells, ends, length)
        return means.of(self._shift), means.of(self._error)

    @cached_property
    def _shift(self) -> Floats:
        """What a cell adds to the shift score; one without a score (cell -1), nothing."""
        return np.append(self.scores.shift, 0.0)

    @cached_property
    def _error(self) -> Floats:
        return np.append(self.scores.error, 0.0)

    @cached_property
    def _most_error(self) -> float:
        return float(self.scores.error.max())


class _Means:
    """Means over the windows of so many events before each of these ends, which rise, of a stream of cells."""

    def __init__(self, cells: np.ndarray, ends: Ends, length: int) -> None:
        first = max(int(ends[0]) - length, 0)
        self._cells = cells[first : int(ends[-1])]
        self._starts: slice | NDArray[np.intp]
        self._ends: slice | NDArray[np.intp]
        if isinstance(ends, range) and ends[0] >= length:
            self._starts, self._ends = slice(0, -length, ends.step), slice(length, None, ends.step)
        else:
            upto = np.asarray(ends)
            self._starts, self._ends = np.maximum(upto - length, 0) - first, upto - first
        self.whole = bool(ends[0] >= length and self._cells.min() >= 0)
        """Whether all windows have so many events, and all of these a score."""
        self.scored: Floats | float = (
            float(length) if self.whole else self._between(self._cells >= 0)
        )
        """How many have one."""
        self._some = self.scored if self.whole else np.maximum(self.scored, 1.0)

    def of(self, values: Floats) -> Floats:
        """Of the values of their cells; that of a cell without a score (-1) is 0."""
        found: Floats = self._between(values.take(self._cells)) / self._some
        return found

    def _between(self, numbers: np.ndarray) -> Floats:
        upto = np.zeros(len(numbers) + 1)
        numbers.cumsum(out=upto[1:])
        found: Floats = upto[self._ends] - upto[self._starts]
        return found
