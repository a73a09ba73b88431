"""What was taken over from another replica, so that the same replica can be merged again when it has seen more.

A replica has a name. Of each that was merged, a state remembers how it was then: its counts, its last events and its labels. When
it comes again, only what it has counted since is added. Events that are older than all that the state itself holds are not
remembered: it could not hold one of them twice. One that went on from an older state than was merged is refused. Where two states
hold parts of a third, or the past of one of them, nobody could tell which counts are in both, unless every event that was counted
is still held; such a merge is refused.

>>> from roadworthy.monitor.state import State
>>> from roadworthy.monitor.events import marks
>>> centre, replica = State(cells=1, capacity=2, lateness=60.0), State(cells=1, capacity=2, lateness=60.0)
>>> for i in range(5):
...     _ = replica.add_one(float(i), int(marks([i])[0]), 0, i)
...     _ = centre.take_over(replica)
>>> centre.counted, centre.buckets.total().tolist()
(5, [5, 0])
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.monitor.buckets import Buckets, Ints
from roadworthy.monitor.events import EventError, Floats, Marks, Taken
from roadworthy.monitor.labels import Label

if TYPE_CHECKING:
    from roadworthy.monitor.state import State


PARTS = "keys", "rows", "time", "mark", "brought", "label_marks", "labels", "label_counts"
"""Arrays that are kept of every replica; where it had no labels, not the last."""


def random_name() -> str:
    """A name that no other replica has.

    >>> len(random_name()), random_name() == random_name()
    (16, False)
    """
    return secrets.token_hex(8)


class Counts(NamedTuple):
    """What buckets count, in as little room as the numbers take: every replica that was ever merged is remembered."""

    keys: Ints
    rows: np.ndarray
    newest: int | None

    @classmethod
    def of(cls, buckets: Buckets) -> Counts:
        """A copy."""
        keys, rows, newest = buckets.arrays()
        return cls(keys, rows.astype(np.min_scalar_type(int(rows.max(initial=0)))), newest)

    def like(self, other: Buckets) -> Buckets:
        """In buckets of the same widths."""
        found = other.empty()
        found.restore(*self)
        return found


@dataclass(frozen=True, eq=False)
class Before:
    """A replica as it was when it was merged last."""

    names: frozenset[str]
    """Its own name, and those of the replicas that it had merged itself."""
    taken: Taken
    buckets: Counts
    time: Floats
    """Of its last events."""
    mark: Marks
    given: dict[int, Label]
    label_counts: np.ndarray | None
    """None where it had no labels."""
    seen: dict[str, float]
    """Up to which time it had seen events itself, and each replica that it had merged, by their names."""
    brought: Marks
    """Of its last events those that it brought: others had been seen before it came."""
    outrun: int = 0
    """Late events that it refused since it no longer knew ids so old."""

    @classmethod
    def of(cls, state: State, brought: Marks) -> Before:
        """A copy of what a state holds, of which it brought these."""
        recent, labels = state.recent, state.labels
        return cls(
            state.names,
            state.taken,
            Counts.of(state.buckets),
            recent.time.copy(),
            recent.mark.copy(),
            dict(labels.given),
            labels.counts.copy() if labels.counts.any() else None,
            state.seen_by,
            brought,
            state.outrun,
        )

    @classmethod
    def nothing(cls, state: State) -> Before:
        """A replica like this state that had seen nothing."""
        none = np.zeros(0, dtype=np.uint64)
        counts = Counts.of(state.buckets.empty())
        return cls(frozenset(), Taken(0, 0, 0, 0), counts, np.zeros(0), none, {}, None, {}, none)

    @classmethod
    def shared(cls, state: State, into: State) -> Before:
        """What of a state another one holds already, where both hold every event that they have counted.

        Of what they refused nobody knows what is the same: it counts as often as the one has that knows of more.
        """
        recent, before = state.recent, into.merged.get(state.name)
        both = np.isin(recent.mark, into.recent.mark)
        nothing, buckets = cls.nothing(into), into.buckets.empty()
        buckets.add(recent.time[both], recent.cell[both])
        refused = Taken(*map(min, state.taken, into.taken))
        unscored = int(np.count_nonzero(recent.cell[both] < 0))
        return replace(
            nothing,
            taken=refused._replace(accepted=int(both.sum()) - unscored, unscored=unscored),
            buckets=Counts.of(buckets),
            time=recent.time[both],
            mark=recent.mark[both],
            brought=nothing.brought if before is None else before.brought,
            outrun=min(state.outrun, into.outrun),
        )

    def continued_by(self, state: State) -> bool:
        """Whether a state holds what this one held and it has not let go: otherwise it has another past."""
        recent = state.recent
        old = recent.time[0] if recent.full else -np.inf
        held = np.isin(self.mark[self.time > old], recent.mark).all()
        return bool(held) and _within(self.buckets.like(state.buckets), state.buckets)

    def continues(self, state: State) -> bool:
        """Whether this one held all that a state holds: it is the same, or an older one that has counted nothing else since."""
        recent = state.recent
        held = np.isin(recent.mark[recent.time > self._complete_after], self.mark).all()
        return bool(held) and _within(state.buckets, self.buckets.like(state.buckets))

    def since(self, first: float) -> Before:
        """Without its events before this time, where most of it are: to who holds none so old they are all the same.

        When it comes again, counts alone say of them that they were taken over before. The last one stays: a replica that went on
        from an older state does not have it.
        """
        gone = min(int(np.searchsorted(self.time, first)), len(self.time) - 1)
        if gone < 1 or 2 * gone < len(self.time):
            return self
        mark = self.mark[gone:].copy()
        return replace(
            self,
            time=self.time[gone:].copy(),
            mark=mark,
            brought=self.brought[np.isin(self.brought, mark)],
        )

    @property
    def _complete_after(self) -> float:
        """The time after which it knows the marks of all its events."""
        if len(self.mark) == self.taken.accepted + self.taken.unscored:
            return -np.inf
        return float(self.time[0]) if len(self.time) else np.inf


def _within(some: Buckets, everything: Buckets) -> bool:
    """Whether no bucket has more of a cell than it has among all."""
    rest = everything.copy()
    rest.merge(some, by=-1)
    return all((row >= 0).all() for _, row in rest.spans())


def past_of(other: State, into: State) -> Before | None:
    """What of another state is counted already; None where it brings nothing new. Refused where nobody can tell."""
    before = into.merged.get(other.name)
    mine = {into.name, *into.former}.union(
        *(b.names for name, b in into.merged.items() if name != other.name)
    )
    shared = sorted(mine & other.names)
    if shared:
        if not (into.whole and other.whole):
            raise EventError(
                f"both states hold counts of replica {shared[0]!r}, and events that they no longer know one by one: nobody can "
                "tell which were counted twice; merge each replica as it is, under a name of its own, into a new state"
            )
        both = Before.shared(other, into)
        all_known = (
            both.taken == other.taken and both.outrun == other.outrun and other.names <= into.names
        )
        return None if all_known and not _labelled(other, into, into.labels.given) else both
    if before is None:
        return Before.nothing(into)
    labelled = _labelled(other, into, before.given)
    if other.taken.total <= before.taken.total and not labelled and before.continues(other):
        return None
    if not before.continued_by(other):
        raise EventError(
            f"replica {other.name!r} was merged before with events that it no longer has: it started again from an older state; "
            "give it another name, and merge all replicas into a new state"
        )
    return before


def _labelled(other: State, into: State, given: dict[int, Label]) -> bool:
    """Whether it brings labels other than those given before, or has asked for more."""
    known = into.labels.asked
    asked = any(
        probability > known.get(mark, 0.0) for mark, probability in other.labels.asked.items()
    )
    return asked or not other.labels.given.items() <= given.items()


def to_arrays(merged: dict[str, Before]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """For keeping: what is JSON, and what are arrays."""
    from roadworthy.monitor.keeping import label_rows

    heads, arrays = [], {}
    for i, (name, before) in enumerate(sorted(merged.items())):
        keys, rows, newest = before.buckets
        given = sorted(before.given.items())
        head = {
            "name": name,
            "names": sorted(before.names),
            "taken": list(before.taken),
            "newest": newest,
        }
        heads.append({**head, "outrun": before.outrun, "seen": before.seen})
        parts = {
            "keys": keys,
            "rows": rows,
            "time": before.time,
            "mark": before.mark,
            "brought": before.brought,
            "label_marks": np.array([mark for mark, _ in given], dtype=np.uint64),
            "labels": label_rows([label for _, label in given]),
            "label_counts": before.label_counts,
        }
        arrays.update(
            {f"merged_{i}_{part}": array for part, array in parts.items() if array is not None}
        )
    return heads, arrays


def from_arrays(
    state: State, heads: list[dict[str, Any]], arrays: dict[str, Any]
) -> dict[str, Before]:
    """The inverse of `to_arrays`."""
    from roadworthy.monitor.keeping import labels_of

    found = {}
    for i, head in enumerate(heads):
        part = {name: arrays[key] for name in PARTS if (key := f"merged_{i}_{name}") in arrays}
        given = dict(zip(part["label_marks"].tolist(), labels_of(part["labels"]), strict=True))
        # Before it was known what it had seen itself, its end was that of all it held.
        newest = {head["name"]: float(part["time"][-1])} if len(part["time"]) else {}
        found[head["name"]] = Before(
            frozenset(head["names"]),
            Taken(*head["taken"]),
            Counts(part["keys"], part["rows"], head["newest"]),
            part["time"],
            part["mark"],
            given,
            part.get("label_counts"),
            head.get("seen", newest),
            part.get("brought", part["mark"]),
            int(head.get("outrun", 0)),
        )
    return found
