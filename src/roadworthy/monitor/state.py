"""All that a monitor remembers: counts by time bucket and cell, the last events, and labels.

What is held depends on the events alone, not on their order of arrival. An event that is older than
the newest one by more than the lateness horizon is refused and counted as late; so is one that is
older than every event whose id is still known, since it may have been counted before. Every id is
therefore counted at most once, however often it is sent.

>>> state = State(cells=2, capacity=3, lateness=60.0)
>>> state.add(np.array([5.0, 4.0]), np.array([0, 1], dtype=np.int16), ["a", "b"])
Taken(accepted=2, repeated=0, late=0, unscored=0, ahead=0)
>>> [state.add_one(time, 1, name) for time, name in ((4.5, "c"), (6.0, "d"), (6.0, "d"), (-60.0, "e"))]
[0, 0, 1, 2]
>>> state.recent.time.tolist(), state.recent.cell.tolist(), state.recent.ids
([4.5, 5.0, 6.0], [1, 0, 1], ['c', 'a', 'd'])

Replicas that each counted a part of one stream are merged into a fresh state: counts, windows and
risk are then those of one monitor that saw all events. An event that two replicas saw is counted
once, as long as both still hold its id.

>>> a, b = (State(cells=2, capacity=10, lateness=60.0, name=name) for name in "ab")
>>> _ = a.add(np.array([1.0, 2.0]), np.array([0, 1], dtype=np.int16), ["x", "y"])
>>> _ = b.add(np.array([2.0, 3.0]), np.array([1, 1], dtype=np.int16), ["y", "z"])
>>> whole = State(cells=2, capacity=10, lateness=60.0)
>>> merge_states(whole, [a, b])
>>> whole.taken, whole.buckets.total().tolist(), whole.recent.ids
(Taken(accepted=3, repeated=1, late=0, unscored=0, ahead=0), [1, 2, 0], ['x', 'y', 'z'])
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import secrets
import zipfile
from bisect import bisect_left
from collections.abc import KeysView, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.alarm import Alarm
from roadworthy.monitor.buckets import Buckets
from roadworthy.monitor.events import Cells, EventError, Floats, Id, Taken, id_order
from roadworthy.monitor.labels import LabelledEvent, Labels

ACCEPTED, REPEATED, LATE, UNSCORED = range(4)
AHEAD = 60.0
"""Seconds by which a client's clock may be ahead: as much is taken from the lateness that others are allowed."""
EDGE, COMMON = 100, 0.1
"""Of so many of the oldest events that a state holds this share must be another's, too, for the two
to have a common past: a retry that reached two replicas is none."""
MAGIC = b"roadworthy state 5\n"


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
        found: list[Id] = self._id[self._start + place : self._stop].tolist()
        return found

    def leaves_out(self, time: float, id: Id) -> bool:
        """Whether an event is older than everything that is held, and no more is held."""
        oldest = float(self._time[self._start]), id_order(self._id[self._start])
        return len(self) >= self.capacity and (time, id_order(id)) < oldest

    def claim(self, time: Floats, ids: Sequence[Id]) -> bool:
        """Take ids for events to be put next; nothing is taken if one is held, or comes twice."""
        known = self._known
        if not known.keys().isdisjoint(ids):
            return False
        before = len(known)
        known.update(zip(ids, time.tolist(), strict=True))
        if len(known) == before + len(ids):
            return True
        for id in ids:
            known.pop(id, None)
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
        if len(time) > self.capacity:
            for id in ids[: -self.capacity]:
                del self._known[id]
            time, cell = time[-self.capacity :], cell[-self.capacity :]
            ids = ids[-self.capacity :]
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
        self.taken = Taken(0, 0, 0, 0)

    @property
    def shape(self) -> tuple[int, int, float, float]:
        """What states must have in common to be merged."""
        return self.cells, self.recent.capacity, self.lateness, self.buckets.width

    @property
    def ahead(self) -> float:
        """Seconds by which an event may be ahead of the clock it is compared with."""
        return min(self.lateness, AHEAD)

    @property
    def counted(self) -> int:
        """Events that were counted, scored or not."""
        return self.taken.accepted + self.taken.unscored

    @property
    def names(self) -> set[str]:
        """The replicas whose events are counted here."""
        return self.replicas | ({self.name} if self.taken.total else set())

    def add_one(self, time: float, cell: int, id: Id) -> int:
        """Count one event; says what became of it."""
        recent = self.recent
        if id in recent.known:
            return self._tally(REPEATED)
        if time <= self.newest:
            if time < self.newest - self.lateness or recent.leaves_out(time, id):
                return self._tally(LATE)
        else:
            self.newest = time
        recent.put_one(time, cell, id)
        self.buckets.add_one(time, cell)
        return self._tally(ACCEPTED if cell >= 0 else UNSCORED)

    def add(self, time: Floats, cell: Cells, ids: Sequence[Id]) -> Taken:
        """Count events in the order in which they arrived: the same as one after the other."""
        if len(time) and self._claimed(time, ids):
            self.newest = max(self.newest, float(time.max()))
            self.recent.put(time, cell, ids)
            self.buckets.add(time, cell)
            unscored = int(np.count_nonzero(cell < 0))
            counted = Taken(len(time) - unscored, 0, 0, unscored)
            self.taken = self.taken + counted
            return counted
        before = self.taken
        for event in zip(time.tolist(), cell.tolist(), ids, strict=True):
            self.add_one(*event)
        return Taken(*(now - then for now, then in zip(self.taken, before, strict=True)))

    def _claimed(self, time: Floats, ids: Sequence[Id]) -> bool:
        """Whether every event is sure to be counted: none is repeated, late, or pushed out by those it comes with."""
        rising = bool((time[1:] >= time[:-1]).all()) and time[0] >= self.newest - self.lateness
        if not rising and time.min() < max(self.newest, float(time.max())) - self.lateness:
            return False
        held = self.recent.time
        over = len(held) + len(time) - self.recent.capacity
        if over > 0 and (over >= len(held) or bool((time <= held[over]).any())):
            return False
        return self.recent.claim(time, ids)

    def _tally(self, what: int) -> int:
        numbers = list(self.taken)
        numbers[what] += 1
        self.taken = Taken(*numbers)
        return what


def merge_states(into: State, others: Sequence[State]) -> None:
    """Take over what other states hold: all of them, or none if one is refused."""
    states = [into, *others]
    for i, other in enumerate(others, start=1):
        if into.shape != other.shape:
            raise EventError("States of different bundles cannot be merged.")
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
        into.taken = into.taken + other.taken + Taken(unscored - twice, twice, 0, -unscored)
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
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise StateError(f"This state cannot be read: {error}.") from error
