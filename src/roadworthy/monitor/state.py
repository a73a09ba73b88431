"""All that a monitor remembers: counts by time bucket and cell, the last events, and labels.

What is held depends on the events alone, not on their order of arrival. An event that is older than
the newest one by more than the lateness horizon is refused and counted as late; so is one that is
older than every event whose id is still known, since it may have been counted before. Every id is
therefore counted at most once, however often it is sent.

Replicas that each counted a part of one stream are merged into a fresh state: counts, windows and
risk are then those of one monitor that saw all events. An event that two replicas saw is counted
once, as long as both still hold its id.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import secrets
from bisect import bisect_left
from collections import deque
from collections.abc import KeysView, Sequence
from dataclasses import astuple
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.alarm import Alarm
from roadworthy.monitor.events import Cells, EventError, Floats, Id, Taken, id_order
from roadworthy.monitor.labels import LabelledEvent, Labels

ACCEPTED, REPEATED, LATE, UNSCORED, AHEAD = (Taken(*one) for one in np.eye(5, dtype=int).tolist())
"""What becomes of one event."""
NONE = Taken(0, 0, 0, 0)
CLOCK = 60.0
"""Seconds by which a client's clock may be ahead: as much is taken from the lateness of others."""
EDGE, COMMON = 100, 0.1
"""Of so many of the oldest events that a state holds this share must be another's, too, for the two
to have a common past: a retry that reached two replicas is none."""
GATHERED = 65_536
"""Events that buckets count together, which is much faster than call by call."""
MAGIC = b"roadworthy state 5\n"
Ints = NDArray[np.int64]


class StateError(EventError):
    """Bytes that are not a state of this bundle."""


class Recent:
    """The latest events by (time, id), at most `capacity` of them, in arrays of twice that size."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._time = np.empty(2 * capacity, dtype=np.float64)
        self._cell = np.empty(2 * capacity, dtype=np.int16)
        self._id = np.empty(2 * capacity, dtype=object)
        self._start = self._stop = 0
        self._known: dict[Id, float] = {}
        """The ids of all that are held, with their times."""

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def time(self) -> Floats:
        """Times, oldest first (a view)."""
        return self._time[self._start : self._stop]

    @property
    def cell(self) -> Cells:
        """Cells in the same order (a view)."""
        return self._cell[self._start : self._stop]

    @property
    def ids(self) -> list[Id]:
        """Ids in the same order."""
        return self.ids_from(0)

    @property
    def known(self) -> KeysView[Id]:
        """The ids of all that are held."""
        return self._known.keys()

    def ids_from(self, place: int) -> list[Id]:
        """Ids of the events from a place on."""
        return self._id[self._start + place : self._stop].tolist()

    def leaves_out(self, time: float, id: Id) -> bool:
        """Whether an event is older than everything that is held, and no more is held."""
        oldest = float(self._time[self._start]), id_order(self._id[self._start])
        return len(self) >= self.capacity and (time, id_order(id)) < oldest

    def claim(self, time: Floats, ids: Sequence[Id]) -> bool:
        """Take ids for events to be put next; nothing is taken if one is held, or comes twice."""
        known, before = self._known, len(self._known)
        deque(map(known.setdefault, ids, time.tolist()), maxlen=0)  # one look-up an id
        if len(known) == before + len(ids):
            return True
        while len(known) > before:
            known.popitem()  # a dict gives back last what came last
        return False

    def put_one(self, time: float, cell: int, id: Id) -> None:
        """Add one event whose id is not held."""
        self._known[id] = time
        if len(self) and time <= self._time[self._stop - 1]:
            self.put(np.array([time]), np.array([cell], dtype=np.int16), [id])
            return
        at = self._room_for(1)
        self._time[at], self._cell[at], self._id[at] = time, cell, id
        self._drop(len(self) - self.capacity)

    def put(self, time: Floats, cell: Cells, ids: Sequence[Id]) -> None:
        """Add events whose ids were claimed."""
        if not len(time):
            return
        if not (time[1:] > time[:-1]).all() or (len(self) and time[0] <= self.time[-1]):
            at = self._start + int(np.searchsorted(self.time, time.min()))
            later, self._stop = slice(at, self._stop), at
            time = np.concatenate([self._time[later], time])
            cell = np.concatenate([self._cell[later], cell])
            ids = [*self._id[later].tolist(), *ids]
            order = _order(time, ids)
            time, cell, ids = time[order], cell[order], [ids[i] for i in order.tolist()]
        at = self._room_for(len(time))
        part = slice(at, self._stop)
        self._time[part], self._cell[part], self._id[part] = time, cell, ids
        self._drop(len(self) - self.capacity)

    def places(self, ids: Sequence[Id]) -> NDArray[np.intp]:
        """The places of the events with these ids; -1 for one that is not held."""
        time = np.array([self._known.get(id, math.nan) for id in ids], dtype=np.float64)
        low, high = (np.searchsorted(self.time, time, side) for side in ("left", "right"))  # type: ignore[call-overload]
        found: NDArray[np.intp] = np.where(np.isnan(time), -1, low)
        held = self._id[self._start : self._stop]
        for i in np.flatnonzero((high - low > 1) & (found >= 0)).tolist():
            found[i] = bisect_left(held, id_order(ids[i]), low[i], high[i], key=id_order)
        return found

    def _room_for(self, n: int) -> int:
        """The place at which so many events are written next."""
        if self._stop + n > len(self._time):
            for array in (self._time, self._cell, self._id):
                array[: len(self)] = array[self._start : self._stop].copy()
            self._start, self._stop = 0, len(self)
        self._stop += n
        return self._stop - n

    def _drop(self, count: int) -> None:
        if count > 0:
            for id in self._id[self._start : self._start + count].tolist():
                del self._known[id]
            self._start += count


def _order(time: Floats, ids: Sequence[Id]) -> NDArray[np.intp]:
    """The order by time, and by id for events of the same time."""
    order = np.argsort(time, kind="stable")
    new = np.flatnonzero(np.diff(time[order], prepend=np.nan) != 0)
    ends = np.append(new[1:], len(order))
    for start, end in np.stack([new, ends], axis=1)[ends - new > 1].tolist():
        order[start:end] = sorted(order[start:end].tolist(), key=lambda i: id_order(ids[i]))
    return order


class Buckets:
    """Whole-number counts by time bucket and cell; the last column counts events without a score.

    A bucket is `width` seconds wide at first. Once the newest event is `keep` buckets ahead, two
    neighbours become one of twice the width, and so on: memory grows with the logarithm of the time.
    Which bucket an instant lies in depends on the newest time alone, so that the buckets of two
    replicas add up exactly.

    >>> buckets = Buckets(cells=2, width=60.0, keep=4)
    >>> buckets.add(np.array([0.0, 10.0, 70.0]), np.array([0, 1, -1]))
    >>> buckets.add(np.array([300.0]), np.array([1]))
    >>> [(span, counts.tolist()) for span, counts in buckets.spans()]
    [((0.0, 120.0), [1, 1, 1]), ((300.0, 360.0), [0, 1, 0])]
    """

    def __init__(self, *, cells: int, width: float = 60.0, keep: int = 256) -> None:
        self.cells, self.width, self.keep = cells, float(width), keep
        self._rows: dict[tuple[int, int], Ints] = {}
        """By level (how often the width was doubled) and number."""
        self._newest: int | None = None
        self._time = np.empty(GATHERED)
        self._cell = np.empty(GATHERED, dtype=np.int16)
        self._waiting = 0

    def add(self, time: Floats, cell: Cells | Ints) -> None:
        """Count events; -1 stands for no score."""
        for at in range(0, len(time), GATHERED):
            some = time[at : at + GATHERED]
            if self._waiting + len(some) > GATHERED:
                self._settled()
            part = slice(self._waiting, self._waiting + len(some))
            self._time[part], self._cell[part] = some, cell[at : at + GATHERED]
            self._waiting = part.stop

    def add_one(self, time: float, cell: int) -> None:
        """Count one event."""
        if self._waiting == GATHERED:
            self._settled()
        self._time[self._waiting], self._cell[self._waiting] = time, cell
        self._waiting += 1

    def spans(self) -> list[tuple[tuple[float, float], Ints]]:
        """Every bucket with its first and last second, oldest first."""
        rows = self._settled()
        found = [((i << k) * self.width, ((i + 1) << k) * self.width) for k, i in rows]
        return sorted(zip(found, rows.values(), strict=True), key=lambda pair: pair[0])

    def total(self) -> Ints:
        """Counts of all time."""
        return sum(self._settled().values(), np.zeros(self.cells + 1, dtype=np.int64))

    def merge(self, other: Buckets, *, without: tuple[Floats, Cells]) -> None:
        """Add the counts of another, but for those of its events at these times and in these cells."""
        self._settled()
        theirs = other._settled()
        if other._newest is not None:
            self._advance(other._newest)
        for key, row in theirs.items():
            self._row(*key)[:] += row
        for time, cell in zip(without[0].tolist(), without[1].tolist(), strict=True):
            self._row(0, math.floor(time / self.width))[cell] -= 1

    def arrays(self) -> tuple[Ints, Ints, int | None]:
        """Keys, rows and the newest bucket, for storage."""
        kept = sorted(self._settled().items())  # the same whenever they were counted
        keys = np.array([key for key, _ in kept], dtype=np.int64).reshape(-1, 2)
        rows = np.array([row for _, row in kept], dtype=np.int64).reshape(-1, self.cells + 1)
        return keys, rows, self._newest

    def restore(self, keys: Ints, rows: NDArray[np.integer], newest: int | None) -> None:
        """The inverse of `arrays`."""
        self._newest, self._waiting = newest, 0
        self._rows = {
            (k, i): row.astype(np.int64) for (k, i), row in zip(keys.tolist(), rows, strict=True)
        }

    def _settled(self) -> dict[tuple[int, int], Ints]:
        """The rows, with the events that wait."""
        if not self._waiting:
            return self._rows
        numbers = np.floor(self._time[: self._waiting] / self.width).astype(np.int64)
        columns = self._cell[: self._waiting].astype(np.int64)
        columns[columns < 0] = self.cells
        self._waiting = 0
        self._advance(int(numbers.max()))
        order = numbers.argsort(kind="stable")
        numbers, columns = numbers[order], columns[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)).tolist()
        for start, end in pairwise([*starts, len(numbers)]):
            row = self._row(0, int(numbers[start]))
            row += np.bincount(columns[start:end], minlength=self.cells + 1)
        return self._rows

    def _row(self, level: int, number: int) -> Ints:
        """The row that a bucket is counted in."""
        home = self._home(level, number)
        return self._rows.setdefault(home, np.zeros(self.cells + 1, dtype=np.int64))

    def _edge(self, level: int) -> int:
        """The first bucket of a level that is not yet joined with its neighbour: pairs move together."""
        assert self._newest is not None
        return ((self._newest >> (level + 1)) - self.keep // 2 + 1) << 1

    def _home(self, level: int, number: int) -> tuple[int, int]:
        while number < self._edge(level):
            level, number = level + 1, number >> 1
        return level, number

    def _advance(self, newest: int) -> None:
        """Join what has become old."""
        if self._newest is not None and newest <= self._newest:
            return
        self._newest = newest
        for key in [key for key in self._rows if self._home(*key) != key]:
            row = self._rows.pop(key)
            self._row(*key)[:] += row


class State:
    """The counts of one stream, or of one replica's part of it."""

    def __init__(
        self,
        *,
        cells: int,
        capacity: int,
        lateness: float,
        bucket: float = 60.0,
        keep: int = 256,
        name: str | None = None,
    ) -> None:
        self.cells, self.lateness = cells, float(lateness)
        self.name = name or secrets.token_hex(8)
        """The name of the replica."""
        self.replicas: set[str] = set()
        """Names of other replicas whose events are counted here."""
        self.recent = Recent(capacity)
        self.buckets = Buckets(cells=cells, width=bucket, keep=keep)
        self.labels = Labels()
        self.newest = -math.inf
        self.taken = NONE

    @property
    def ahead(self) -> float:
        """Seconds by which an event may be ahead of the clock it is compared with."""
        return min(self.lateness, CLOCK)

    @property
    def counted(self) -> int:
        """Events that were counted, scored or not."""
        return self.taken.accepted + self.taken.unscored

    @property
    def gone(self) -> int:
        """How many of them are no longer held."""
        return self.counted - len(self.recent)

    @property
    def names(self) -> set[str]:
        """The replicas whose events are counted here."""
        return self.replicas | ({self.name} if self.taken.total else set())

    def add_one(self, time: float, cell: int, id: Id) -> Taken:
        """Count one event; says what became of it."""
        recent, late = self.recent, time < self.newest - self.lateness
        if id in recent.known:
            return self.tally(REPEATED)
        if late or (time <= self.newest and recent.leaves_out(time, id)):
            return self.tally(LATE)
        self.newest = max(self.newest, time)
        recent.put_one(time, cell, id)
        self.buckets.add_one(time, cell)
        return self.tally(ACCEPTED if cell >= 0 else UNSCORED)

    def add(self, time: Floats, cell: Cells, ids: Sequence[Id]) -> Taken:
        """Count events in the order in which they arrived: the same as one after the other."""
        if len(time) and self._claimed(time, ids):
            self.newest = max(self.newest, float(time.max()))
            self.recent.put(time, cell, ids)
            self.buckets.add(time, cell)
            unscored = int(np.count_nonzero(cell < 0))
            return self.tally(Taken(len(time) - unscored, 0, 0, unscored))
        each = zip(time.tolist(), cell.tolist(), ids, strict=True)
        return sum((self.add_one(*event) for event in each), NONE)

    def _claimed(self, time: Floats, ids: Sequence[Id]) -> bool:
        """Whether all are sure to be counted: none repeated, late, or pushed out by the others."""
        rising = bool((time[1:] >= time[:-1]).all()) and time[0] >= self.newest - self.lateness
        if not rising and time.min() < max(self.newest, float(time.max())) - self.lateness:
            return False
        held = self.recent.time
        over = len(held) + len(time) - self.recent.capacity
        if over > 0 and (over >= len(held) or bool((time <= held[over]).any())):
            return False
        return self.recent.claim(time, ids)

    def tally(self, what: Taken) -> Taken:
        """Add to what became of all events."""
        self.taken = self.taken + what
        return what


def merge_states(into: State, others: Sequence[State]) -> None:
    """Take over what other states hold: all of them, or none if one is refused."""
    states = [into, *others]
    for i, other in enumerate(others, start=1):
        for before in states[:i]:
            if known := before.names & other.names:
                raise EventError(
                    f"Replica {min(known)!r} was merged before. Merge each replica once, into a new "
                    "state."
                )
            if _common_past(before, other) or _common_past(other, before):
                raise EventError(
                    f"Replicas {before.name!r} and {other.name!r} have counted the same events, "
                    f"further back than the {into.recent.capacity:,} ids they hold. Merge states "
                    "that saw different events."
                )
    for other in others:
        mine, theirs = into.recent, other.recent
        common = np.array([id in mine.known for id in theirs.ids], dtype=bool)
        into.buckets.merge(other.buckets, without=(theirs.time[common], theirs.cell[common]))
        ids = [id for id, known in zip(theirs.ids, common.tolist(), strict=True) if not known]
        mine.claim(theirs.time[~common], ids)
        mine.put(theirs.time[~common], theirs.cell[~common], ids)
        into.labels.merge(other.labels)
        into.newest = max(into.newest, other.newest)
        twice, unscored = int(common.sum()), int((theirs.cell[common] < 0).sum())
        into.tally(other.taken + Taken(unscored - twice, twice, 0, -unscored))
        into.replicas |= other.names


def _common_past(one: State, other: State) -> bool:
    """Whether events that another counted are the oldest that one still holds of more."""
    edge = one.recent.ids[:EDGE]
    held = sum(id in other.recent.known for id in edge)
    return len(one.recent) < one.counted and held > COMMON * len(edge)


def packed(state: State, *, bundle: str, memory: dict[str, Any], alarms: list[Alarm]) -> bytes:
    """A state as bytes, without pickle: a version, a checksum, arrays, and the rest as JSON."""
    recent, labels = state.recent, state.labels
    keys, rows, newest = state.buckets.arrays()
    head = {
        "bundle": bundle,
        "replica": state.name,
        "replicas": sorted(state.replicas),
        "taken": list(state.taken),
        "newest": None if math.isinf(state.newest) else state.newest,
        "newest_bucket": newest,
        "ids": recent.ids,
        "labels": [(id, *label) for id, label in labels.given.items()],
        "asked": list(labels.asked.items()),
        "labelled": labels.counted,
        "memory": memory,
        "alarms": [astuple(alarm) for alarm in alarms],
    }
    arrays = {
        "head": np.frombuffer(json.dumps(head, ensure_ascii=True).encode(), dtype=np.uint8),
        "time": recent.time,
        "cell": recent.cell,
        "bucket_keys": keys,
        "bucket_rows": rows,
    }
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    content = body.getvalue()
    return MAGIC + hashlib.sha256(content).digest() + content


def unpack(data: bytes, state: State, *, bundle: str) -> tuple[dict[str, Any], list[Alarm]]:
    """Fill an empty state; gives back the alarm's memory and the alarms that were stored with it."""
    arrays = _arrays(data)
    head = json.loads(arrays["head"].tobytes())
    if head["bundle"] != bundle:
        raise StateError(
            f"This state belongs to bundle {head['bundle']}, not to {bundle}. Start a new state."
        )
    state.name, state.replicas = head["replica"], set(head["replicas"])
    state.taken = Taken(*head["taken"])
    state.newest = -math.inf if head["newest"] is None else float(head["newest"])
    state.buckets.restore(arrays["bucket_keys"], arrays["bucket_rows"], head["newest_bucket"])
    state.recent.claim(arrays["time"], head["ids"])
    state.recent.put(arrays["time"], arrays["cell"], head["ids"])
    state.labels.given = {id: LabelledEvent(*label) for id, *label in head["labels"]}
    state.labels.counted = head["labelled"]
    state.labels.asked = {id: float(p) for id, p in head["asked"]}
    return head["memory"], [Alarm(*entry) for entry in head["alarms"]]


def _arrays(data: bytes) -> dict[str, Any]:
    if not data.startswith(MAGIC):
        raise StateError(
            f"These {len(data)} bytes are not a state of this version, which starts with {MAGIC!r}."
        )
    start = len(MAGIC) + 32
    content = data[start:]
    if hashlib.sha256(content).digest() != data[len(MAGIC) : start]:
        raise StateError("This state is cut off or was changed. Use an earlier copy.")
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
