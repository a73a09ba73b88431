"""Scores of a stream that no calibration row had: which they are, and how far both lie apart, so that a unit is told from a shift.

All that is claimed is what the bundle keeps: of every score its lowest and its highest value among all calibration rows.

>>> seen = OutOfReach({"energy": (-12.0, 1.0), "knn": (0.1, 0.9)}, window=4)
>>> seen.add({"energy": np.array([-300.0, -1080.0, -5.0, -700.0]), "knn": np.array([0.2, 0.5, np.nan, 0.4])})
>>> [said.partition(", ")[0] for said in seen.notes]
['score energy: 3 of 4 events lie outside what any calibration row had']
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roadworthy.analysis.risk.amounts import amount
from roadworthy.cli.amounts import many

MANY = 0.2
"""The share of a window's events from which on it is said that a score lies outside."""


class OutOfReach:
    """Counts, score by score, the events that lie outside, and keeps the range of these."""

    def __init__(self, reach: Mapping[str, tuple[float, float]], *, window: int) -> None:
        self._reach, self._window, self._seen = dict(reach), window, 0
        self._outside = dict.fromkeys(reach, 0)
        self._range = dict.fromkeys(reach, (np.inf, -np.inf))
        self._open = dict.fromkeys(reach, 0)
        """Events outside in the window that has begun; windows lie side by side."""
        self._most = dict.fromkeys(reach, 0)
        """Of the windows that are whole, the most events outside."""

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """The next events."""
        n, begun = len(next(iter(columns.values()))), self._seen % self._window
        whole = (begun + n) // self._window
        for name, (low, high) in self._reach.items():
            column = columns[name]
            outside = np.flatnonzero((column < low) | (column > high))
            found = np.bincount((begun + outside) // self._window, minlength=whole + 1)
            found[0] += self._open[name]
            self._open[name] = int(found[whole])
            self._most[name] = max(self._most[name], int(found[:whole].max(initial=0)))
            if len(outside):
                self._outside[name] += len(outside)
                least, most = self._range[name]
                self._range[name] = (
                    min(least, float(column[outside].min())),
                    max(most, float(column[outside].max())),
                )
        self._seen += n

    @property
    def notes(self) -> list[str]:
        """A sentence for every score of which many of one window lie outside."""
        return [self._note(name) for name in self._reach if self._most[name] > MANY * self._window]

    def _note(self, name: str) -> str:
        n = self._outside[name]
        return (
            f"score {name}: {n:,} of {many(self._seen, 'event')} {'lies' if n == 1 else 'lie'} outside what any calibration row "
            f"had, {_span(*self._range[name])} where those have {_span(*self._reach[name])}: another unit, or a shift unlike any "
            "calibrated?"
        )


def _span(low: float, high: float) -> str:
    return amount(low) if low == high else f"{amount(low)} to {amount(high)}"
