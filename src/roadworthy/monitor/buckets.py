"""Whole-number counts by time bucket and cell: what is kept of events no longer held one by one.

A bucket is `width` seconds wide at first. Once the newest event is `keep` buckets ahead, two
neighbours become one of twice the width, and so on: memory grows with the logarithm of the time.
Which bucket an instant lies in depends on the newest time alone, so that the buckets of two replicas
add up exactly.

>>> buckets = Buckets(cells=2, width=60.0, keep=4)
>>> buckets.add(np.array([0.0, 10.0, 70.0]), np.array([0, 1, -1]))
>>> [(span, counts.tolist()) for span, counts in buckets.spans()]
[((0.0, 60.0), [1, 1, 0]), ((60.0, 120.0), [0, 0, 1])]
>>> buckets.add(np.array([300.0]), np.array([1]))
>>> [(span, counts.tolist()) for span, counts in buckets.spans()]
[((0.0, 120.0), [1, 1, 1]), ((300.0, 360.0), [0, 1, 0])]
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Cells, Floats

Ints = NDArray[np.int64]

LEVELS = 50
"""Doublings of the width: more than any clock can fill."""
GATHERED = 65_536
"""Events that are counted together, which is much faster than call by call."""


class Buckets:
    """Counts of events by bucket; the last column counts those without a score."""

    def __init__(self, *, cells: int, width: float = 60.0, keep: int = 256) -> None:
        self.cells, self.width, self.keep = cells, float(width), keep
        self._rows: dict[tuple[int, int], Ints] = {}
        """By level (how often the width was doubled) and number."""
        self._newest: int | None = None
        self._time = np.empty(GATHERED)
        self._cell = np.empty(GATHERED, dtype=np.int16)
        self._waiting = 0

    def __len__(self) -> int:
        self._settle()
        return len(self._rows)

    def add(self, time: Floats, cell: Cells | Ints) -> None:
        """Count events; -1 stands for no score."""
        for at in range(0, len(time), GATHERED):
            some = time[at : at + GATHERED]
            if self._waiting + len(some) > GATHERED:
                self._settle()
            part = slice(self._waiting, self._waiting + len(some))
            self._time[part], self._cell[part] = some, cell[at : at + GATHERED]
            self._waiting = part.stop

    def add_one(self, time: float, cell: int) -> None:
        """Count one event."""
        if self._waiting == GATHERED:
            self._settle()
        self._time[self._waiting], self._cell[self._waiting] = time, cell
        self._waiting += 1

    def spans(self) -> list[tuple[tuple[float, float], Ints]]:
        """Every bucket with its first and last second, oldest first."""
        self._settle()
        found = [((i << k) * self.width, ((i + 1) << k) * self.width) for k, i in self._rows]
        return sorted(zip(found, self._rows.values(), strict=True), key=lambda pair: pair[0])

    @property
    def start(self) -> float:
        """The first second of the oldest bucket; infinity if there is none."""
        self._settle()
        return min((i << k for k, i in self._rows), default=math.inf) * self.width

    def total(self) -> Ints:
        """Counts of all time."""
        self._settle()
        found: Ints = np.zeros(self.cells + 1, dtype=np.int64)
        for row in self._rows.values():
            found += row
        return found

    def merge(self, other: Buckets, *, without: tuple[Floats, Cells]) -> None:
        """Add the counts of another, but for those of its events at these times and in these cells."""
        self._settle()
        other._settle()
        if other._newest is not None:
            self._advance(other._newest)
        for (level, number), row in other._rows.items():
            self._row(*self._home(level, number))[:] += row
        for time, cell in zip(without[0].tolist(), without[1].tolist(), strict=True):
            self._row(*self._home(0, math.floor(time / self.width)))[cell] -= 1

    def arrays(self) -> tuple[Ints, Ints, int | None]:
        """Keys, rows and the newest bucket, for storage."""
        self._settle()
        keys = np.array(list(self._rows), dtype=np.int64).reshape(-1, 2)
        rows = np.array(list(self._rows.values()), dtype=np.int64).reshape(-1, self.cells + 1)
        return keys, rows, self._newest

    def restore(self, keys: Ints, rows: NDArray[np.integer], newest: int | None) -> None:
        """The inverse of `arrays`."""
        self._newest, self._waiting = newest, 0
        self._rows = {
            (k, i): row.astype(np.int64) for (k, i), row in zip(keys.tolist(), rows, strict=True)
        }

    def _settle(self) -> None:
        """Count the events that wait."""
        if not self._waiting:
            return
        numbers = np.floor(self._time[: self._waiting] / self.width).astype(np.int64)
        columns = self._cell[: self._waiting].astype(np.int64)
        columns[columns < 0] = self.cells
        self._waiting = 0
        self._advance(int(numbers.max()))
        order = numbers.argsort(kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        for number, part in zip(found.tolist(), np.split(columns[order], starts[1:]), strict=True):
            row = self._row(*self._home(0, number))
            row += np.bincount(part, minlength=self.cells + 1)

    def _row(self, level: int, number: int) -> Ints:
        return self._rows.setdefault((level, number), np.zeros(self.cells + 1, dtype=np.int64))

    def _edge(self, level: int) -> int:
        """The first bucket of a level that is not yet joined with its neighbour: pairs move together."""
        assert self._newest is not None
        return ((self._newest >> (level + 1)) - self.keep // 2 + 1) << 1

    def _home(self, level: int, number: int) -> tuple[int, int]:
        while level < LEVELS - 1 and number < self._edge(level):
            level, number = level + 1, number >> 1
        return level, number

    def _advance(self, newest: int) -> None:
        """Join what has become old."""
        if self._newest is not None and newest <= self._newest:
            return
        self._newest = newest
        for (level, number), row in list(self._rows.items()):
            home = self._home(level, number)
            if home != (level, number):
                del self._rows[level, number]
                self._row(*home)[:] += row
