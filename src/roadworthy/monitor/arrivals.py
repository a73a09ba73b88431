"""The last events in the order in which they arrived: what the alarm watches.

Figures are read by the time of events, and an event that comes late is put in its place there: behind the last window, where no
alarm would ever look at it. A source whose events all come five minutes late would be watched by nobody. Every event arrives
once, and so the alarm reads each of them, as soon as it is known.

>>> arrivals = Arrivals(3)
>>> for time, cell in ((1.0, 5), (4.0, 6), (2.0, 7), (3.0, 8)):
...     arrivals.add_one(time, cell)
>>> arrivals.cell.tolist(), arrivals.time.tolist(), arrivals.newest(2)
([6, 7, 8], [4.0, 2.0, 3.0], 4.0)

What replicas hold together stands in the order in which one of them would have seen it: an event came when the newest that its
replica had seen was of this time.

>>> time, cell = np.array([1.0, 2.0, 3.0, 4.0, 4.5]), np.array([5, 7, 8, 6, 9], dtype=np.int16)
>>> one = Arrived(np.array([1.0, 4.0, 2.0, 3.0]), cell[[0, 3, 1, 2]])
>>> order_of_arrival(time, cell, [one, Arrived(time[4:], cell[4:])]).tolist()
[0, 3, 1, 2, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Cells, Floats


class Arrived(NamedTuple):
    """Times and cells of events in the order in which they came to one replica."""

    time: Floats
    cell: Cells

    def without(self, taken: Arrived) -> Arrived:
        """Those that are not among these: of one time and one cell as many fewer, the first of them."""
        if not len(taken.time):
            return self
        same = _numbered(
            np.concatenate([self.time, taken.time]), np.concatenate([self.cell, taken.cell])
        )
        came, gone = (
            same[: len(self.time)],
            np.bincount(same[len(self.time) :], minlength=len(same)),
        )
        order = came.argsort(kind="stable")
        kept = np.empty(len(came), dtype=bool)
        kept[order] = (
            np.arange(len(came)) - np.searchsorted(came[order], came[order]) >= gone[came[order]]
        )
        return Arrived(self.time[kept], self.cell[kept])

    def last(self, n: int, *, upto: float) -> Arrived:
        """The last so many that had come when one of a time newer than this did."""
        end = int(np.searchsorted(np.maximum.accumulate(self.time), upto, side="right"))
        return Arrived(self.time[max(end - n, 0) : end], self.cell[max(end - n, 0) : end])


class Arrivals:
    """At most `capacity` events, the last that came."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._time = np.empty(2 * capacity, dtype=np.float64)
        self._cell = np.empty(2 * capacity, dtype=np.int16)
        self._stop = 0

    def __len__(self) -> int:
        return min(self._stop, self.capacity)

    @property
    def cell(self) -> Cells:
        """Cells, the first to arrive first (a view)."""
        return self._cell[max(self._stop - self.capacity, 0) : self._stop]

    @property
    def time(self) -> Floats:
        """Times of the same events, as they were sent (a view)."""
        return self._time[max(self._stop - self.capacity, 0) : self._stop]

    @property
    def copied(self) -> Arrived:
        """Both as they are now."""
        return Arrived(self.time.copy(), self.cell.copy())

    def newest(self, upto: int) -> float:
        """The latest time of the first so many of them."""
        return float(self.time[:upto].max())

    def ends(self, times: Sequence[float], *, least: int, apart: int) -> list[int]:
        """How many had come until each of these times, which rise, and how many have: so many at least, and so many apart."""
        found = [len(self)]
        for end in reversed(
            np.searchsorted(np.maximum.accumulate(self.time), times, side="right").tolist()
        ):
            if least <= end <= found[0] - apart:
                found.insert(0, end)
        return found

    def reads_anew(self, before: Arrived, n: int, *, upto: float) -> bool:
        """Whether the last so many that had come until this time are not those of before, in whatever order."""
        now, then = Arrived(self.time, self.cell).last(n, upto=upto), before.last(n, upto=upto)
        return len(now.time) != len(then.time) or len(now.without(then).time) > 0

    def add_one(self, time: float, cell: int) -> None:
        """One more event."""
        if self._stop == len(self._time):
            self._to_front(1)
        self._time[self._stop], self._cell[self._stop] = time, cell
        self._stop += 1

    def add(self, time: Floats, cell: Cells) -> None:
        """More events, in the order in which they arrived."""
        time, cell = time[-self.capacity :], cell[-self.capacity :]
        if self._stop + len(time) > len(self._time):
            self._to_front(len(time))
        part = slice(self._stop, self._stop + len(time))
        self._time[part], self._cell[part] = time, cell
        self._stop = part.stop

    def restart(self, time: Floats, cell: Cells) -> None:
        """As if these had arrived, and nothing else."""
        self._stop = 0
        self.add(time, cell)

    def _to_front(self, room: int) -> None:
        keep = min(len(self), len(self._time) - room)
        for array in (self._time, self._cell):
            array[:keep] = array[self._stop - keep : self._stop].copy()
        self._stop = keep


def order_of_arrival(time: Floats, cell: Cells, replicas: Sequence[Arrived]) -> NDArray[np.intp]:
    """In which order one replica would have seen the events, sorted by their times, that several hold together.

    Those that came to a replica before its next newer one keep their order, and mix evenly with those that came to another
    meanwhile. One that came to two of them came first to the first; and of one of which no replica knows any more when it came,
    its own time stands.
    """
    # Of one time and one cell, events are the same to whoever watches.
    same = _numbered(
        np.concatenate([time, *(r.time for r in replicas)]),
        np.concatenate([cell, *(r.cell for r in replicas)]),
    )
    held, came = same[: len(time)], same[len(time) :]
    reach, share = (
        np.concatenate(parts) for parts in zip(*(_arrival(r.time) for r in replicas), strict=True)
    )
    first = np.lexsort((share, reach, came))
    order = held.argsort(kind="stable")
    place = (
        np.searchsorted(came[first], held[order])
        + np.arange(len(held))
        - np.searchsorted(held[order], held[order])
    )
    known = place < np.searchsorted(came[first], held[order], side="right")
    when, then = time.copy(), np.zeros(len(time))
    when[order[known]], then[order[known]] = reach[first[place[known]]], share[first[place[known]]]
    return np.lexsort((then, when))


def _arrival(time: Floats) -> tuple[Floats, Floats]:
    """The newest time when each event came, and its place among all that came while that was the newest, from 0 to 1."""
    reach: Floats = np.maximum.accumulate(time)
    first, after = np.searchsorted(reach, reach), np.searchsorted(reach, reach, side="right")
    return reach, (np.arange(len(time)) - first) / (after - first)


def _numbered(time: Floats, cell: Cells) -> NDArray[np.intp]:
    """A number for each event, the same for those of one time and one cell."""
    order = np.lexsort((cell, time))
    new = (np.diff(time[order]) != 0) | (np.diff(cell[order]) != 0)
    found = np.empty(len(time), dtype=np.intp)
    found[order] = np.concatenate([[0], np.cumsum(new)])[: len(time)]
    return found
