"""Sums over the cells of a window: events by bin, and how many of them are clean, and right, by draw and rate.

>>> float(share_of(np.array([1.0]), np.array([4.0]))[0]), float(share_of(np.array([0.0]), np.array([0.0]))[0])
(0.25, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.cells import Calibration

Floats = NDArray[np.float64]

TINY = 1e-12


class Window:
    """Counts of several windows, and the sums over cells that the estimates need.

    An empty window is read as what is expected of one event `before` it came: zero counts would say that no answer is right.
    """

    def __init__(self, calibration: Calibration, table: Floats, before: Floats) -> None:
        self.n = table.sum(axis=1)
        self.empty = self.n <= TINY
        folded = calibration.folded(np.where(self.empty[:, None], before, table) if self.empty.any() else table)
        # Products with ones: sums over short axes are four times as slow.
        outside = folded[..., 1]
        inner = folded[..., 0] + outside
        self.clean, self.shifted = inner @ np.ones(inner.shape[3]), inner.sum(axis=2)
        self.by_shift = self.clean @ np.ones(inner.shape[2])
        self.outside = outside.reshape(len(table), -1).sum(axis=1)


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

    def moved(self, right_shifted: Floats, swing: Floats | None) -> Known:
        """With other right answers to shifted events, and all accuracies higher by a swing."""
        if swing is None:
            return replace(self, right_shifted=right_shifted)
        clean = np.clip(self.right_clean + self.clean * swing, 0.0, self.clean)
        shifted = np.clip(right_shifted + self.shifted * swing, 0.0, self.shifted)
        return replace(self, right_clean=clean, right_shifted=shifted)


def share_of(part: Floats, whole: Floats) -> Floats:
    """A part of a whole; 0 of what is not there."""
    whole = np.broadcast_to(whole, part.shape)
    return np.clip(np.divide(part, whole, out=np.zeros_like(part), where=whole > TINY), 0.0, 1.0)
