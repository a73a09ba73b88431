"""Whole-number counts by time bucket and cell: all that is kept of events that are no longer among the last ones.

A bucket is `width` seconds wide while it is young. Where the newest event is `keep` buckets ahead, two neighbours become one of
twice the width, and so on: a year takes some twelve doublings, and memory grows with the logarithm of the time. Which bucket an
instant lies in depends on the newest time alone, not on how it came about, so that the buckets of two replicas add up exactly.
For the same reason events can wait until some thousands are counted together, or until somebody asks.

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
Key = tuple[int, int]
"""Level (the width is doubled so many times) and number of a bucket."""

LEVELS = 50
GATHERED = 65_536
"""Events that are counted together: those of buckets that are joined soon are counted once, where they then belong."""
WIDE = 64
"""Counts are added up in one table where it has at most so many entries an event."""


class Buckets:
    """Counts of events by bucket; the last column counts those without a score."""

    def __init__(self, *, cells: int, width: float = 60.0, keep: int = 256) -> None:
        if not (width > 0 and keep >= 2):
            raise ValueError(
                f"buckets need a width above 0 s and at least 2 to keep, found {width} and {keep}"
            )
        self.cells, self.width, self.keep = cells, float(width), keep
        self._rows: dict[Key, Ints] = {}
        self._newest: int | None = None
        self._edges = [0] * LEVELS
        self._time = np.empty(GATHERED)
        self._cell = np.empty(GATHERED, dtype=np.int16)
        self._waiting = 0

    def __len__(self) -> int:
        self._settle()
        return len(self._rows)

    def add(self, time: Floats, cell: Cells | Ints) -> None:
        """Count events; -1 stands for no score."""
        for at in range(0, len(time), GATHERED):
            some, cells = time[at : at + GATHERED], cell[at : at + GATHERED]
            if self._waiting + len(some) > GATHERED:
                self._settle()
            part = slice(self._waiting, self._waiting + len(some))
            self._time[part], self._cell[part] = some, cells
            self._waiting = part.stop

    def add_one(self, time: float, cell: int) -> None:
        """Count one event."""
        at = self._waiting
        if at == GATHERED:
            self._settle()
            at = 0
        self._time[at], self._cell[at] = time, cell
        self._waiting = at + 1

    def change(self, time: float, cell: int, by: int) -> None:
        """Count one event, or take it back."""
        self._settle()
        number = math.floor(time / self.width)
        self._advance(number)
        level = 0 if number >= self._edges[0] else int(self._levels(np.array([number]))[0])
        self._row((level, number >> level))[cell] += by

    def spans(self) -> list[tuple[tuple[float, float], Ints]]:
        """Every bucket with its first and last second, oldest first."""
        self._settle()
        found = [((i << k) * self.width, ((i + 1) << k) * self.width) for k, i in self._rows]
        return sorted(zip(found, self._rows.values(), strict=True), key=lambda pair: pair[0])

    @property
    def start(self) -> float:
        """The first second of the oldest bucket; infinity where there is none."""
        self._settle()
        return min((i << k for k, i in self._rows), default=math.inf) * self.width

    def total(self) -> Ints:
        """Counts of all time."""
        self._settle()
        return (
            np.sum(list(self._rows.values()), axis=0, dtype=np.int64)
            if self._rows
            else self._blank()
        )

    def empty(self) -> Buckets:
        """One of the same widths that has counted nothing."""
        return Buckets(cells=self.cells, width=self.width, keep=self.keep)

    def copy(self) -> Buckets:
        """One that changes by itself."""
        found = self.empty()
        found.restore(*self.arrays())
        return found

    def merge(self, other: Buckets, *, by: int = 1) -> None:
        """Add the counts of another, or take them away."""
        if (self.cells, self.width, self.keep) != (other.cells, other.width, other.keep):
            raise ValueError("buckets of different widths or cells cannot be added up")
        self._settle()
        other._settle()
        if other._newest is not None:
            self._advance(other._newest)
        for (level, number), row in other._rows.items():
            self._row(self._home(level, number))[:] += by * row

    def arrays(self) -> tuple[Ints, Ints, int | None]:
        """Keys, rows and the newest bucket, for keeping."""
        self._settle()
        keys = np.array(list(self._rows), dtype=np.int64).reshape(-1, 2)
        rows = np.array(list(self._rows.values()), dtype=np.int64).reshape(-1, self.cells + 1)
        return keys, rows, self._newest

    def restore(self, keys: Ints, rows: NDArray[np.integer], newest: int | None) -> None:
        """The inverse of `arrays`."""
        self._rows, self._newest, self._waiting = {}, None, 0
        if newest is not None:
            self._advance(newest)
        for (level, number), row in zip(keys.tolist(), rows, strict=True):
            self._rows[(level, number)] = row.astype(np.int64)

    def _settle(self) -> None:
        """Count the events that wait."""
        if not self._waiting:
            return
        numbers = np.floor(self._time[: self._waiting] / self.width).astype(np.int64)
        columns = self._cell[: self._waiting].astype(np.int64)
        if columns.min() < 0:
            columns[columns < 0] = self.cells  # without a score
        self._waiting = 0
        self._advance(int(numbers.max()))
        if (numbers[1:] < numbers[:-1]).any():
            order = numbers.argsort(kind="stable")
            numbers, columns = numbers[order], columns[order]
        upto = len(numbers)
        for level, edge in enumerate(self._edges):  # the older, the higher the level
            first = int(numbers.searchsorted(edge << level)) if level < LEVELS - 1 else 0
            if first < upto:
                self._count(level, numbers[first:upto] >> level, columns[first:upto])
            upto = first
            if not upto:
                return

    def _count(self, level: int, numbers: Ints, columns: Ints) -> None:
        """Events in buckets of one level, which rise: in one table where these are near each other, else bucket by bucket."""
        wide, first, last = self.cells + 1, int(numbers[0]), int(numbers[-1])
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        if (last - first + 1) * wide > WIDE * len(numbers):
            ends = [*starts[1:].tolist(), len(columns)]
            for number, start, end in zip(
                numbers[starts].tolist(), starts.tolist(), ends, strict=True
            ):
                np.add.at(self._row((level, number)), columns[start:end], 1)
            return
        table = np.bincount((numbers - first) * wide + columns, minlength=(last - first + 1) * wide)
        for number in numbers[starts].tolist():
            at = (number - first) * wide
            self._add((level, number), table[at : at + wide].copy())

    def _blank(self) -> Ints:
        return np.zeros(self.cells + 1, dtype=np.int64)

    def _row(self, key: Key) -> Ints:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._blank()
        return row

    def _add(self, key: Key, row: Ints) -> None:
        """Add counts to a bucket; where it has none, the row becomes its own."""
        held = self._rows.setdefault(key, row)
        if held is not row:
            held += row

    def _edge(self, level: int, newest: int) -> int:
        """The first bucket of a level that is not yet joined with its neighbour: pairs move together."""
        return ((newest >> (level + 1)) - self.keep // 2 + 1) << 1

    def _levels(self, numbers: Ints) -> Ints:
        levels = np.zeros(len(numbers), dtype=np.int64)
        for k in range(LEVELS - 1):
            old = (levels == k) & ((numbers >> k) < self._edges[k])
            if not old.any():
                break
            levels[old] = k + 1
        return levels

    def _home(self, level: int, number: int) -> Key:
        while level < LEVELS - 1 and number < self._edges[level]:
            level, number = level + 1, number >> 1
        return level, number

    def _advance(self, newest: int) -> None:
        """Join what has become old."""
        if self._newest is not None and newest <= self._newest:
            return
        before, self._newest = self._newest, newest
        if before is not None and newest >> 1 == before >> 1:
            return
        old = self._edges
        self._edges = [self._edge(k, newest) for k in range(LEVELS)]
        for k in range(LEVELS - 1):
            if before is not None and old[k] == self._edges[k]:
                break
            for number in self._left(k, old[k], before):
                self._add(self._home(k, number), self._rows.pop((k, number)))

    def _left(self, level: int, edge: int, before: int | None) -> list[int]:
        """Numbers of the buckets that no longer belong to a level."""
        now = self._edges[level]
        if before is not None and now - edge <= len(self._rows):
            return [i for i in range(edge, now) if (level, i) in self._rows]
        return [i for k, i in self._rows if k == level and i < now]
