"""Sums over the cells of a window: events by bin, and how many of them are clean, and right, by draw and rate.

>>> float(share_of(np.array([1.0]), np.array([4.0]))[0]), float(share_of(np.array([0.0]), np.array([0.0]))[0])
(0.25, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

TINY = 1e-12


class Window:
    """Counts of several windows, and the sums over cells that the estimates need.

    An empty window is read as what is expected of one event `before` it came: zero counts would say that no answer is right.
    `filled` is how much of a full window each is, one number for all or one a window.
    """

    def __init__(
        self, calibration: Calibration, table: Floats, before: Floats, filled: float | Floats = 1.0
    ) -> None:
        self.n, self.filled = table.sum(axis=1), filled
        self.empty = self.n <= TINY
        folded = calibration.folded(
            np.where(self.empty[:, None], before, table) if self.empty.any() else table
        )
        # Products with ones: sums over short axes are four times as slow.
        self._outside = folded[..., 1]
        inner = folded[..., 0] + self._outside
        self.clean, self.shifted = inner @ np.ones(inner.shape[3]), inner.sum(axis=2)
        self.by_shift = self.clean @ np.ones(inner.shape[2])
        self._calibration = calibration

    @cached_property
    def outside(self) -> Floats:
        """Events with a score that no calibration row had."""
        found: Floats = self._outside.reshape(len(self.n), -1).sum(axis=1)
        return found

    def part(self, cut: int, *, detected: bool) -> Window:
        """The events for which an alarm was raised, or for which none was.

        The alarm is the deployed supervisor's, where one is known; else that of the shift score, from the bin `cut` on.
        """
        some, calibration = copy(self), self._calibration
        if calibration.deployed is None:
            bins = np.arange(self.by_shift.shape[1]) >= cut
            on = (bins == detected).astype(np.float64)
            some.clean, some.shifted = self.clean * on[:, None], self.shifted * on[:, None]
        else:
            clean, shifted = (
                ((np.arange(m * 2) >= m) == detected).astype(np.float64)
                for m in (calibration.right_clean.bins, calibration.right_shifted.bins)
            )
            some.clean, some.shifted = self.clean * clean, self.shifted * shifted
        some.by_shift = some.clean @ np.ones(some.clean.shape[2])
        return some

    def only(self, on: Places) -> Window:
        """Some of the windows."""
        some = copy(self)
        some.filled = np.broadcast_to(self.filled, self.n.shape)[on]
        for name in ("n", "empty", "clean", "shifted", "by_shift", "outside", "_outside"):
            setattr(some, name, getattr(self, name)[on])
        return some


@dataclass(frozen=True, eq=False)
class Known:
    """Of some bins of a window: events, clean ones, and right ones among the clean and the shifted, by draw and rate."""

    window: Window
    clean_share: Floats
    total: Floats
    clean: Floats
    right_clean: Floats
    right_shifted: Floats
    way: Callable[[Known], Known] | None = None
    """How accuracies were moved away from the calibrated ones, for the parts of the same window; None where they were not."""

    @property
    def shifted(self) -> Floats:
        return np.maximum(self.total - self.clean, 0.0)

    @property
    def right(self) -> Floats:
        return self.right_clean + self.right_shifted

    def moved(
        self, right_shifted: Floats, swing: Floats | None, way: Callable[[Known], Known]
    ) -> Known:
        """With other right answers to shifted events, and all accuracies higher by a swing."""
        if swing is None:
            return replace(self, right_shifted=right_shifted, way=way)
        clean = np.clip(self.right_clean + self.clean * swing, 0.0, self.clean)
        shifted = np.clip(right_shifted + self.shifted * swing, 0.0, self.shifted)
        return replace(self, right_clean=clean, right_shifted=shifted, way=way)

    def only(self, on: Places) -> Known:
        """Of some of the windows; accuracies that nothing has moved."""
        return replace(
            self,
            window=self.window.only(on),
            total=self.total[on],
            clean=self.clean[:, on],
            right_clean=self.right_clean[:, on],
            right_shifted=self.right_shifted[:, on],
        )


@dataclass(frozen=True, eq=False)
class Weighed:
    """What is known of windows, and how likely each draw and rate is."""

    known: Known
    rates: slice
    """Which rates these are."""
    weights: Floats
    ends: list[tuple[NDArray[np.bool_], slice]]
    """Which windows' rates are not told from an end of the rates, and that end."""
    events: Floats
    """Independent events."""

    def only(self, on: Places) -> Weighed:
        """Some of the windows."""
        ends = [(windows[on], at) for windows, at in self.ends if windows[on].any()]
        return Weighed(self.known.only(on), self.rates, self.weights[:, on], ends, self.events[on])


def share_of(part: Floats, whole: Floats) -> Floats:
    """A part of a whole; 0 of what is not there."""
    whole = np.broadcast_to(whole, part.shape)
    return np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > TINY), 0.0, 1.0)
