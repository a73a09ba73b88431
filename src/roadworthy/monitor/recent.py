"""The last events by (time, mark), in that order whatever the order of arrival, and the ids they are known by.

Arrays of twice the capacity hold them: an event that comes in order is appended, one that comes late is put in its place, and
the oldest leave. What is held is a function of the events alone, so that the last events of two replicas, put together and cut
again, are the last events of all.

>>> recent = Recent(3)
>>> recent.put(np.array([5.0, 4.0]), np.array([1, 2], dtype=np.uint64), np.array([7, 8], dtype=np.int16), ["a", "b"])
>>> recent.put_one(4.5, 3, 9, "c")
>>> recent.put_one(6.0, 4, 9, "d")
>>> recent.time.tolist(), recent.cell.tolist(), recent.names
([4.5, 5.0, 6.0], [9, 7, 9], {1: 'a', 3: 'c', 4: 'd'})
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.monitor.events import Cells, Floats, Marks


class Recent:
    """At most `capacity` events, the latest there were."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        size = 2 * capacity
        self._time = np.empty(size, dtype=np.float64)
        self._mark = np.empty(size, dtype=np.uint64)
        self._cell = np.empty(size, dtype=np.int16)
        self._start = self._stop = 0
        self.names: dict[int, Any] = {}
        """Mark -> the id as it was given."""

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def time(self) -> Floats:
        """Times, oldest first (a view)."""
        return self._time[self._start : self._stop]

    @property
    def mark(self) -> Marks:
        """Marks in the same order (a view)."""
        return self._mark[self._start : self._stop]

    @property
    def cell(self) -> Cells:
        """Cells in the same order (a view)."""
        return self._cell[self._start : self._stop]

    @property
    def full(self) -> bool:
        """Whether the next event pushes one out."""
        return len(self) >= self.capacity

    def last_cells(self, length: int) -> Cells:
        """The cells of the last so many events (a view)."""
        return self._cell[max(self._start, self._stop - length) : self._stop]

    def before_all(self, time: float, mark: int) -> bool:
        """Whether an event is older than everything that is held."""
        first = self._start
        held = self._time[first]
        return bool(time < held or (time == held and mark < int(self._mark[first])))

    def put_one(self, time: float, mark: int, cell: int, name: Any) -> None:
        """Add one event whose mark is not held."""
        if self._stop == len(self._time):
            self._move_to_front()
        at = self._stop
        if at > self._start and (time, mark) < (self._time[at - 1], self._mark[at - 1]):
            at = self._place(time, mark)
            for array in (self._time, self._mark, self._cell):
                array[at + 1 : self._stop + 1] = array[at : self._stop]
        self._time[at], self._mark[at], self._cell[at] = time, mark, cell
        self._stop += 1
        self.names[mark] = name
        if self._stop - self._start > self.capacity:
            del self.names[int(self._mark[self._start])]
            self._start += 1

    def put(self, time: Floats, mark: Marks, cell: Cells, names: Sequence[Any]) -> None:
        """Add events whose marks are distinct and not held."""
        self.names.update(zip(mark.tolist(), names, strict=True))
        if len(time) > 1 and not _ordered(time, mark):
            order = np.lexsort((mark, time))
            time, mark, cell = time[order], mark[order], cell[order]
        if len(time) and len(self) and (time[0], mark[0]) < (self._time[self._stop - 1], self._mark[self._stop - 1]):
            at = self._place(float(time[0]), int(mark[0]))
            time = np.concatenate([self._time[at : self._stop], time])
            mark = np.concatenate([self._mark[at : self._stop], mark])
            cell = np.concatenate([self._cell[at : self._stop], cell])
            order = np.lexsort((mark, time))
            time, mark, cell = time[order], mark[order], cell[order]
            self._stop = at
        self._drop(len(self) + len(time) - self.capacity)
        if len(time) > self.capacity:
            self._forget(mark[: -self.capacity])
            time, mark, cell = time[-self.capacity :], mark[-self.capacity :], cell[-self.capacity :]
        if self._stop + len(time) > len(self._time):
            self._move_to_front()
        end = self._stop + len(time)
        self._time[self._stop : end], self._mark[self._stop : end], self._cell[self._stop : end] = time, mark, cell
        self._stop = end

    def find(self, mark: int) -> int | None:
        """Where the event with a mark stands."""
        if mark not in self.names:
            return None
        return int(np.flatnonzero(self.mark == np.uint64(mark))[0])

    def _place(self, time: float, mark: int) -> int:
        """Where (time, mark) belongs."""
        times = self.time
        low, high = np.searchsorted(times, time, "left"), np.searchsorted(times, time, "right")
        inside = np.searchsorted(self.mark[low:high], np.uint64(mark))
        return int(self._start + low + inside)

    def _drop(self, count: int) -> None:
        count = min(count, len(self))
        if count > 0:
            self._forget(self._mark[self._start : self._start + count])
            self._start += count

    def _forget(self, marks: Marks) -> None:
        names = self.names
        for mark in marks.tolist():
            del names[mark]

    def _move_to_front(self) -> None:
        n = len(self)
        for array in (self._time, self._mark, self._cell):
            array[:n] = array[self._start : self._stop].copy()
        self._start, self._stop = 0, n


def _ordered(time: Floats, mark: Marks) -> bool:
    later, same = time[1:] > time[:-1], time[1:] == time[:-1]
    return bool((later | (same & (mark[1:] > mark[:-1]))).all())
