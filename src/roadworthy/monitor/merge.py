"""Replicas put together: each counted a part of one stream, and a fresh state takes over what all of them hold.

Counts, windows and risk are then those of one monitor that saw all events. An event that two replicas saw is counted once, as
long as both still hold its id. A replica whose events are counted already is refused, and so are replicas whose common events
reach back further than the ids they hold, since these cannot be told apart. To merge again, begin with a fresh state.

>>> a, b = (State(cells=2, capacity=10, lateness=60.0, name=name) for name in "ab")
>>> _ = a.add(np.array([1.0, 2.0]), np.array([0, 1], dtype=np.int16), ["x", "y"])
>>> _ = b.add(np.array([2.0, 3.0]), np.array([1, 1], dtype=np.int16), ["y", "z"])
>>> whole = State(cells=2, capacity=10, lateness=60.0)
>>> merge(whole, [a, b])
>>> whole.taken, whole.buckets.total().tolist(), whole.recent.ids
(Taken(accepted=3, repeated=1, late=0, unscored=0, ahead=0), [1, 2, 0], ['x', 'y', 'z'])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.monitor.events import EventError, Taken
from roadworthy.monitor.state import State

EDGE = 100
"""The oldest events that a state holds, by which it is judged whether common events reach back further."""
COMMON = 0.1
"""The share of them that must be common: a retry that reached two replicas is no common past."""


def merge(into: State, others: Sequence[State]) -> None:
    """Take over what other states hold: all of them, or none if one is refused."""
    states = [into, *others]
    for i, other in enumerate(others, start=1):
        if (into.cells, into.recent.capacity, into.lateness, into.buckets.width) != (
            other.cells,
            other.recent.capacity,
            other.lateness,
            other.buckets.width,
        ):
            raise EventError("States of different bundles cannot be merged.")
        for before in states[:i]:
            known = _names(before) & _names(other)
            if known:
                raise EventError(
                    f"Replica {min(known)!r} was merged before. Merge each replica once, into a new state."
                )
            if _common_past(before, other):
                raise EventError(
                    f"Replicas {before.name!r} and {other.name!r} have counted the same events, further back than the "
                    f"{into.recent.capacity:,} ids they hold. Merge states that saw different events."
                )
    for other in others:
        _take_over(into, other)


def _take_over(into: State, other: State) -> None:
    mine, theirs = into.recent, other.recent
    common = np.array([id in mine.known for id in theirs.ids], dtype=bool)
    into.buckets.merge(other.buckets, without=(theirs.time[common], theirs.cell[common]))
    ids = [id for id, known in zip(theirs.ids, common.tolist(), strict=True) if not known]
    mine.claim(theirs.time[~common], ids)
    mine.put(theirs.time[~common], theirs.cell[~common], ids)
    into.labels.merge(other.labels)
    into.newest = max(into.newest, other.newest)
    into.furthest = max(into.furthest, other.furthest)
    into.outrun += other.outrun
    twice, unscored = int(common.sum()), int((theirs.cell[common] < 0).sum())
    into.taken = into.taken + other.taken + Taken(unscored - twice, twice, 0, -unscored)
    into.replicas |= _names(other)


def _names(state: State) -> set[str]:
    """The replicas whose events a state has counted."""
    own = {state.name} if state.taken.total > 0 else set()
    return own | state.replicas


def _common_past(a: State, b: State) -> bool:
    """Whether two states share events up to the oldest that one of them holds, and it counted older ones."""
    for one, other in ((a, b), (b, a)):
        if not one.whole:
            edge = one.recent.ids[:EDGE]
            if sum(id in other.recent.known for id in edge) > COMMON * len(edge):
                return True
    return False
