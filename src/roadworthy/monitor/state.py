"""All that a monitor remembers: counts by time bucket and cell, the last events by (time, mark), labels, and how many it refused.

What is held depends on the events alone, not on their order of arrival, nor on how they were cut into calls; beside it the order of
arrival is kept for the alarm (`roadworthy.monitor.arrivals`). An event that is older than the newest one by more than the lateness
horizon is refused and counted as late; so is one that is older than all events whose ids are still known, since nobody could tell
whether it was counted before: the smaller of the two is what an event may be late by. Every id is therefore counted once at most,
however often it is sent, and two replicas put together hold what one would that had seen all: exactly, as long as what both
have seen is among the last events of both. A replica that was merged before and has seen more since brings what is new
(`roadworthy.monitor.replicas`).

>>> from roadworthy.monitor.events import marks
>>> a, b = State(cells=2, capacity=10, lateness=60.0), State(cells=2, capacity=10, lateness=60.0)
>>> names = ["x", "y", "z"]
>>> a.add(np.array([1.0, 2.0]), marks(names[:2]), np.array([0, 1], dtype=np.int16), names[:2])
Taken(accepted=2, repeated=0, late=0, unscored=0, ahead=0)
>>> b.add(np.array([2.0, 3.0]), marks(names[1:]), np.array([1, 1], dtype=np.int16), names[1:])
Taken(accepted=2, repeated=0, late=0, unscored=0, ahead=0)
>>> _ = a.take_over(b)
>>> a.taken, a.buckets.total().tolist()
(Taken(accepted=3, repeated=1, late=0, unscored=0, ahead=0), [1, 2, 0])
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.arrivals import Arrivals, Arrived, order_of_arrival
from roadworthy.monitor.buckets import Buckets
from roadworthy.monitor.events import Cells, EventError, Floats, Marks, Name, Taken
from roadworthy.monitor.labels import Labels
from roadworthy.monitor.recent import Recent
from roadworthy.monitor.replicas import Before, past_of, random_name

ACCEPTED, REPEATED, LATE, UNSCORED = range(4)
AHEAD = 60.0
"""Seconds by which a client's clock may be ahead: each of them is taken from the patience with all others."""


class State:
    """The counts of one stream, or of a part of it."""

    def __init__(
        self,
        *,
        cells: int,
        capacity: int,
        lateness: float,
        bucket: float = 60.0,
        keep: int = 256,
        name: str | None = None,
        arrivals: int | None = None,
    ) -> None:
        self.cells, self.lateness = cells, float(lateness)
        self.name = name or random_name()
        """Of the replica, by which it is known when it is merged again."""
        self.former: set[str] = set()
        """Names under which it counted before."""
        self.merged: dict[str, Before] = {}
        """Other replicas as they were when they were merged last."""
        self.recent = Recent(capacity)
        self.arrivals = Arrivals(arrivals or capacity)
        """The same events in the order in which they came."""
        self.buckets = Buckets(cells=cells, width=bucket, keep=keep)
        self.labels = Labels(cells)
        self.newest = -np.inf
        self.newest_own = -np.inf
        """Of the events that it counted itself."""
        self.taken = Taken(0, 0, 0, 0)
        self.furthest = 0.0
        """Seconds by which the latest of the late events was late, of those beyond the lateness horizon."""
        self.outrun = 0
        """Late events that were refused within the lateness horizon: too many events have come since for their ids to be known."""

    @property
    def ahead(self) -> float:
        """Seconds by which an event may be ahead of the clock it is held against."""
        return min(self.lateness, AHEAD)

    @property
    def reach(self) -> float:
        """Seconds that the ids held reach back; infinity while all of them are held."""
        return self.newest - float(self.recent.time[0]) if self.recent.full else np.inf

    @property
    def counted(self) -> int:
        """Events that were counted, scored or not."""
        return self.taken.accepted + self.taken.unscored

    def counted_between(self, first: float, last: float) -> float:
        """Events from one time to another; of those that are no longer held one by one, about so many, by their buckets."""
        times = self.recent.time
        held = float(np.searchsorted(times, last, side="right") - np.searchsorted(times, first))
        if not len(times) or first >= times[0]:
            return held
        until = min(last, float(times[0]))
        gone = 0.0
        for (start, end), counts in self.buckets.spans():
            within = min(end, until) - max(start, first)
            gone += float(counts.sum()) * max(within, 0.0) / (end - start)
        return held + gone

    @property
    def names(self) -> frozenset[str]:
        """The replicas whose events were counted."""
        return frozenset(
            {self.name, *self.former}.union(*(before.names for before in self.merged.values()))
        )

    @property
    def seen_by(self) -> dict[str, float]:
        """Up to which time each replica has seen events, by its name: others as they were when they were merged last.

        A state that has counted none itself has seen what they have, and no more.
        """
        own = {self.name: self.newest_own} if self.newest_own > -np.inf else {}
        found: dict[str, float] = {}
        for seen in (own, *(before.seen for before in self.merged.values())):
            found |= {name: max(time, found.get(name, time)) for name, time in seen.items()}
        return found

    def seen_since(self, time: float) -> dict[str, float]:
        """The same of those that have seen events of this time or newer ones."""
        return {name: seen for name, seen in self.seen_by.items() if seen >= time}

    @property
    def horizon(self) -> float:
        """The oldest time that an event may still have: one that ended before has no more to come of what others have seen."""
        return self.newest - self.lateness

    def ends(self, before: Arrived | None, *, window: int, ringing: Set[str]) -> list[float]:
        """The times up to which replicas have seen events, rising.

        Of those that were looked at when all had come that had `before`, only where a window now holds other events, and those
        of `ringing` replicas.
        """
        return sorted(
            time
            for name, time in self.seen_since(self.horizon).items()
            if before is None
            or name in ringing
            or self.arrivals.reads_anew(before, window, upto=time)
        )

    @property
    def whole(self) -> bool:
        """Whether every event that was counted is still held."""
        return len(self.recent) == self.counted

    def add_one(self, time: float, mark: int | None, cell: int, name: Name) -> int:
        """Count one event; says what became of it. A mark that is None is worked out where it is needed."""
        recent = self.recent
        if name in recent.known:
            return self._tally(REPEATED)
        if time <= self.newest:
            if time < self.newest - self.lateness:
                self.furthest = max(self.furthest, self.newest - time)
                return self._tally(LATE)
            if recent.full and recent.before_all(time, mark, name):
                self.outrun += 1
                return self._tally(LATE)
        if time > self.newest_own:
            self.newest_own = time
            self.newest = max(self.newest, time)
        recent.put_one(time, mark, cell, name)
        self.arrivals.add_one(time, cell)
        self.buckets.add_one(time, cell)
        return self._tally(ACCEPTED if cell >= 0 else UNSCORED)

    def add(self, time: Floats, mark: Marks | None, cell: Cells, names: Sequence[Name]) -> Taken:
        """Count events in the order in which they arrived: the same as one after the other."""
        batch = _Batch(time, mark, cell, names)
        if len(time) > self.recent.capacity:
            return self._one_by_one(batch)
        rising = bool((time[1:] > time[:-1]).all())
        in_time = batch.all_in_time(self.newest, self.lateness, rising=rising)
        if in_time and not self._near_the_end(time) and self.recent.claim(names):
            return self._counted(batch, claimed=True, rising=rising)
        if batch.repeats_itself():
            return self._one_by_one(batch)
        new = batch.unknown(self.recent.known)
        if len(new.time) < len(time) and self._forgets(batch, len(new.time)):
            return self._one_by_one(batch)
        kept, furthest = new.in_time(self.newest, self.lateness)
        refused = Taken(0, len(time) - len(new.time), len(new.time) - len(kept.time), 0)
        self.taken, self.furthest = self.taken + refused, max(self.furthest, furthest)
        if self._near_the_end(kept.time):
            return refused + self._one_by_one(kept)
        return refused + self._counted(kept)

    def line_up(self, replicas: Sequence[Arrived]) -> None:
        """What is held in the order in which it came to the replicas from which it was taken over."""
        time, cell = self.recent.time, self.recent.cell
        order = order_of_arrival(time, cell, replicas)
        self.arrivals.restart(time[order], cell[order])

    def take_over(self, other: State) -> Arrived | None:
        """Take over what another state holds, but for the order of arrival; an event that both hold is counted once.

        Whoever takes over several lines up once what they hold together. Gives back what it brought before and is still held:
        when that came, the other one knows. None where it brings nothing.
        """
        if (self.cells, self.recent.capacity, self.lateness) != (
            other.cells,
            other.recent.capacity,
            other.lateness,
        ):
            raise EventError("states of different bundles cannot be put together")
        before = past_of(other, self)
        if before is None:
            return None
        mine, theirs = self.recent, other.recent
        known, brought = np.isin(theirs.mark, mine.mark), np.isin(theirs.mark, before.brought)
        fresh = ~np.isin(theirs.mark, before.mark)
        again = Arrived(theirs.time[known & brought], theirs.cell[known & brought])
        # What was taken over before and has left since is neither new nor seen twice.
        new, both = fresh & ~known, fresh & known
        self.buckets.merge(other.buckets)
        self.buckets.merge(before.buckets.like(self.buckets), by=-1)
        for time, cell in zip(theirs.time[both].tolist(), theirs.cell[both].tolist(), strict=True):
            self.buckets.change(time, cell, -1)
        names = [theirs.name_at(place) for place in np.flatnonzero(new).tolist()]
        mine.put(theirs.time[new], theirs.mark[new], theirs.cell[new], names)
        self.labels.merge(other.labels, before=before.given, counts=before.label_counts)
        self.newest = max(self.newest, other.newest)
        self.furthest = max(self.furthest, other.furthest)
        self.outrun += other.outrun - before.outrun
        twice, unscored = int(both.sum()), int((theirs.cell[both] < 0).sum())
        since = Taken(*(now - then for now, then in zip(other.taken, before.taken, strict=True)))
        self.taken = self.taken + since + Taken(unscored - twice, twice, 0, -unscored)
        self.merged[other.name] = Before.of(other, theirs.mark[new | brought])
        if mine.full:
            self.merged = {
                name: one.since(float(mine.time[0])) for name, one in self.merged.items()
            }
        return again

    def _tally(self, what: int) -> int:
        numbers = list(self.taken)
        numbers[what] += 1
        self.taken = Taken(*numbers)
        return what

    def _counted(
        self, batch: _Batch, *, claimed: bool = False, rising: bool | None = None
    ) -> Taken:
        """Count events of which all are new and in time."""
        if len(batch.time):
            self.newest_own = max(
                self.newest_own, float(batch.time[-1] if rising else batch.time.max())
            )
            self.newest = max(self.newest, self.newest_own)
            self.recent.put(*batch, claimed=claimed, rising=rising)
            self.arrivals.add(batch.time, batch.cell)
            self.buckets.add(batch.time, batch.cell)
        unscored = int(np.count_nonzero(batch.cell < 0))
        counted = Taken(len(batch.time) - unscored, 0, 0, unscored)
        self.taken = self.taken + counted
        return counted

    def _one_by_one(self, batch: _Batch) -> Taken:
        before = self.taken
        keys = [None] * len(batch.time) if batch.mark is None else batch.mark.tolist()
        for event in zip(batch.time.tolist(), keys, batch.cell.tolist(), batch.names, strict=True):
            self.add_one(*event)
        return Taken(*(now - then for now, then in zip(self.taken, before, strict=True)))

    def _forgets(self, batch: _Batch, new: int) -> bool:
        """Whether an id that comes again may be pushed out by the new events that come with it: then their order decides."""
        over = len(self.recent) + new - self.recent.capacity
        return over > 0 and not set(self.recent.first_names(over)).isdisjoint(batch.names)

    def _near_the_end(self, time: Floats) -> bool:
        """Whether an event is so old that it may be pushed out by those that come with it: then their order decides."""
        recent = self.recent
        over = len(recent) + len(time) - recent.capacity
        if over < 0 or not len(time):
            return False
        return bool((time <= recent.time[over]).any()) if over < len(recent) else True


class _Batch(NamedTuple):
    """Events that arrive together."""

    time: Floats
    mark: Marks | None
    cell: Cells
    names: Sequence[Name]

    def repeats_itself(self) -> bool:
        return len(set(self.names)) < len(self.names)

    def unknown(self, known: set[Name]) -> _Batch:
        """Those whose names are not among these."""
        if known.isdisjoint(self.names):
            return self
        return self._only(np.array([name not in known for name in self.names]))

    def all_in_time(self, newest: float, lateness: float, *, rising: bool) -> bool:
        """Whether none is too late, whichever came before it: they rise, or lie near enough to each other."""
        time = self.time
        if not len(time) or time[0] < newest - lateness:
            return not len(time)
        return rising or bool(
            (time[1:] >= time[:-1]).all() or time.min() >= max(newest, time.max()) - lateness
        )

    def in_time(self, newest: float, lateness: float) -> tuple[_Batch, float]:
        """Those that are not too late when they arrive, and by how much the latest of the others is."""
        if not len(self.time):
            return self, 0.0
        reach = np.maximum.accumulate(np.concatenate([[newest], self.time]))[:-1]
        kept = self.time >= reach - lateness
        if kept.all():
            return self, 0.0
        return self._only(kept), float((reach - self.time)[~kept].max())

    def _only(self, which: NDArray[np.bool_]) -> _Batch:
        names = [name for name, kept in zip(self.names, which.tolist(), strict=True) if kept]
        mark = None if self.mark is None else self.mark[which]
        return _Batch(self.time[which], mark, self.cell[which], names)
