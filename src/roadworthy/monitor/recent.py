"""The last events by (time, mark), in that order whatever the order of arrival, and the names they are known by.

Arrays of twice the capacity hold them: an event that comes in order is appended, one that comes late is put in its place, and
the oldest leave. What is held is a function of the events alone, so that the last events of two replicas, put together and cut
again, are the last events of all. Marks are worked out when they are asked for, or when events of one instant must be ordered:
in the array, 0 stands for one that is not known yet.

>>> recent = Recent(3)
>>> recent.put(np.array([5.0, 4.0]), np.array([1, 2], dtype=np.uint64), np.array([7, 8], dtype=np.int16), ["a", "b"])
>>> recent.put_one(4.5, 3, 9, "c")
>>> recent.put_one(6.0, 4, 9, "d")
>>> recent.time.tolist(), recent.cell.tolist(), recent.names
([4.5, 5.0, 6.0], [9, 7, 9], {3: 'c', 1: 'a', 4: 'd'})
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Cells, Floats, Marks, Name, given_name, mark, marks

GONE = 8192
"""Names that have left and still take room: so many are thrown away together."""
WARY = 100
"""Calls for which names are looked up before they are taken, after one that brought names again: where one does, others follow."""

LEFT = 1.5
"""Names among which events are searched, as a multiple of those held, before those that have left are thrown away."""


class Recent:
    """At most `capacity` events, the latest there were."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        size = 2 * capacity
        self._time = np.empty(size, dtype=np.float64)
        self._mark = np.empty(size, dtype=np.uint64)
        self._cell = np.empty(size, dtype=np.int16)
        self._start = self._stop = 0
        self._names: list[Name] = []
        self._gone = 0
        self.known: set[Name] = set()
        """The names of all that are held."""
        self._wary = 0
        self._times: dict[Name, float] | None = None
        """By name, from the first search on; the names of events that have left stay until it is made anew."""

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def time(self) -> Floats:
        """Times, oldest first (a view)."""
        return self._time[self._start : self._stop]

    @property
    def mark(self) -> Marks:
        """Marks in the same order (a view)."""
        self._fill(self._start, self._stop)
        return self._mark[self._start : self._stop]

    @property
    def cell(self) -> Cells:
        """Cells in the same order (a view)."""
        return self._cell[self._start : self._stop]

    @property
    def names(self) -> dict[int, Any]:
        """Mark -> the id as it was given, oldest first."""
        return dict(
            zip(self.mark.tolist(), map(given_name, self.first_names(len(self))), strict=True)
        )

    @property
    def full(self) -> bool:
        """Whether the next event pushes one out."""
        return len(self) >= self.capacity

    def first_names(self, count: int) -> list[Name]:
        """The names of so many of the oldest events."""
        return self._names[self._gone : self._gone + count]

    def name_at(self, place: int) -> Name:
        """The name of the event that stands at a place, the oldest at 0."""
        return self._names[self._gone + place]

    def last_cells(self, length: int) -> Cells:
        """The cells of the last so many events (a view)."""
        return self._cell[max(self._start, self._stop - length) : self._stop]

    def before_all(self, time: float, key: int | None, name: Name) -> bool:
        """Whether an event is older than everything that is held."""
        first = self._start
        held = self._time[first]
        if time != held:
            return bool(time < held)
        self._fill(first, first + 1)
        return (mark(name) if key is None else key) < int(self._mark[first])

    def put_one(self, time: float, key: int | None, cell: int, name: Name) -> None:
        """Add one event whose name is not held; its mark may be left to be worked out."""
        if self._stop == len(self._time):
            self._move_to_front()
        at = self._stop
        if at > self._start and time <= self._time[at - 1]:
            at = self._place(time, key, name)
            for array in (self._time, self._mark, self._cell):
                array[at + 1 : self._stop + 1] = array[at : self._stop]
            self._names.insert(self._gone + at - self._start, name)
        else:
            self._names.append(name)
        self._time[at], self._mark[at], self._cell[at] = time, key or 0, cell
        self._stop += 1
        self.known.add(name)
        if self._times is not None:
            self._note((name,), (float(time),))
        if self._stop - self._start > self.capacity:
            self.known.discard(self._names[self._gone])
            self._leave(1)

    def claim(self, names: Sequence[Name]) -> bool:
        """Take names for events to be put next; where one of them is held, or comes twice, nothing is taken, and that is said.

        To add all and see by how many there are more takes half as long as to look for each before, but to take them back is slow.
        """
        known, before = self.known, len(self.known)
        if self._wary:
            self._wary -= 1
            if not known.isdisjoint(names) or len(set(names)) < len(names):
                self._wary = WARY
                return False
        known.update(names)
        if len(known) == before + len(names):
            return True
        added = set(names)
        added.difference_update(self.first_names(len(self)))
        known.difference_update(added)
        self._wary = WARY
        return False

    def put(
        self,
        time: Floats,
        key: Marks | None,
        cell: Cells,
        names: Sequence[Name],
        *,
        claimed: bool = False,
        rising: bool | None = None,
    ) -> None:
        """Add events whose names are distinct and not held, or `claimed`; their marks may be left to be worked out.

        `rising`: whether each is later than the one before, where that is known.
        """
        if not len(time):
            return
        if not claimed:
            self.known.update(names)
        if self._times is not None:
            self._note(names, time.tolist())
        if rising is None:
            rising = bool((time[1:] > time[:-1]).all())
        if not rising or (self._stop > self._start and time[0] <= self._time[self._stop - 1]):
            time, key, cell, names = self._in_order(
                _Added.of(time, key, cell, names), rising=rising
            )
        self._drop(len(self) + len(time) - self.capacity)
        if len(time) > self.capacity:
            self.known.difference_update(names[: -self.capacity])
            time, cell, names = (
                time[-self.capacity :],
                cell[-self.capacity :],
                names[-self.capacity :],
            )
            key = None if key is None else key[-self.capacity :]
        if self._stop + len(time) > len(self._time):
            self._move_to_front()
        part = slice(self._stop, self._stop + len(time))
        self._time[part], self._mark[part], self._cell[part] = time, 0 if key is None else key, cell
        self._names.extend(names)
        self._stop = part.stop

    def _in_order(self, added: _Added, *, rising: bool) -> _Added:
        """Events on their way in, by their times; those that are held and later than the first of them come along."""
        if not rising:
            added = added.ordered()
        if self._stop > self._start and added.time[0] <= self._time[self._stop - 1]:
            at = int(np.searchsorted(self.time, added.time[0]))
            added = added.behind(self, at).ordered()
            self._stop = self._start + at
            del self._names[self._gone + at :]
        return added

    def find(self, name: Name) -> int | None:
        """Where the event with a name stands."""
        place = int(self.find_all([name])[0])
        return place if place >= 0 else None

    def find_all(self, names: Sequence[Name]) -> NDArray[np.intp]:
        """Where the events with these names stand; -1 for one that is not held.

        They are looked for by their times, which stay what they are wherever later ones are put.
        """
        found = np.full(len(names), -1, dtype=np.intp)
        held = [i for i, name in enumerate(names) if name in self.known]
        if not held:
            return found
        if self._times is None:
            self._times = dict(zip(self.first_names(len(self)), self.time.tolist(), strict=True))
        time = np.array([self._times[names[i]] for i in held])
        low, high = np.searchsorted(self.time, time), np.searchsorted(self.time, time, side="right")
        found[held] = low
        for i in np.flatnonzero(high - low > 1).tolist():
            found[held[i]] = self._place(float(time[i]), None, names[held[i]]) - self._start
        return found

    def held(self, names: Sequence[Name]) -> list[tuple[float, int] | None]:
        """Time and cell of the events with these names; None for one that is not held."""
        places = self.find_all(names)
        at = places[places >= 0]
        found = iter(zip(self.time[at].tolist(), self.cell[at].tolist(), strict=True))
        return [next(found) if place >= 0 else None for place in places.tolist()]

    def _note(self, names: Sequence[Name], times: Sequence[float]) -> None:
        """Know the times of events that are put; where nobody has searched for long, no more."""
        assert self._times is not None
        self._times.update(zip(names, times, strict=True))
        if len(self._times) > LEFT * self.capacity:
            self._times = None

    def _fill(self, start: int, stop: int) -> None:
        """Work out the marks that are not known yet."""
        lacking = np.flatnonzero(self._mark[start:stop] == 0) + start
        if len(lacking):
            names, first = self._names, self._gone - self._start
            self._mark[lacking] = marks([names[first + i] for i in lacking.tolist()])

    def _place(self, time: float, key: int | None, name: Name) -> int:
        """Where an event belongs."""
        low, high = (
            self._start + int(np.searchsorted(self.time, time, side)) for side in ("left", "right")
        )  # type: ignore[call-overload]
        if low == high:
            return low
        self._fill(low, high)
        return low + int(
            np.searchsorted(self._mark[low:high], np.uint64(mark(name) if key is None else key))
        )

    def _drop(self, count: int) -> None:
        count = min(count, len(self))
        if count > 0:
            self.known.difference_update(self.first_names(count))
            self._leave(count)

    def _leave(self, count: int) -> None:
        self._start += count
        self._gone += count
        if self._gone > GONE:
            del self._names[: self._gone]
            self._gone = 0

    def _move_to_front(self) -> None:
        n = len(self)
        for array in (self._time, self._mark, self._cell):
            array[:n] = array[self._start : self._stop].copy()
        self._start, self._stop = 0, n


class _Added(NamedTuple):
    """Events on their way in."""

    time: Floats
    mark: Marks
    cell: Cells
    names: Sequence[Name]

    @classmethod
    def of(cls, time: Floats, key: Marks | None, cell: Cells, names: Sequence[Name]) -> _Added:
        """With 0 for marks that are not known yet."""
        return cls(time, np.zeros(len(time), dtype=np.uint64) if key is None else key, cell, names)

    def behind(self, recent: Recent, at: int) -> _Added:
        """Together with those that are held from a place on."""
        part = slice(recent._start + at, recent._stop)
        return _Added(
            np.concatenate([recent._time[part], self.time]),
            np.concatenate([recent._mark[part], self.mark]),
            np.concatenate([recent._cell[part], self.cell]),
            [*recent._names[recent._gone + at :], *self.names],
        )

    def ordered(self) -> _Added:
        """By time, and by mark where times are the same."""
        order, key = np.argsort(self.time, kind="stable"), self.mark
        same = self.time[order[1:]] == self.time[order[:-1]]
        if same.any():
            tied = np.zeros(len(order), dtype=bool)
            tied[order[1:]] |= same
            tied[order[:-1]] |= same
            lacking = np.flatnonzero(tied & (key == 0))
            if len(lacking):
                key = key.copy()
                key[lacking] = marks([self.names[i] for i in lacking.tolist()])
            order = np.lexsort((key, self.time))
        return _Added(
            self.time[order], key[order], self.cell[order], [self.names[i] for i in order.tolist()]
        )
