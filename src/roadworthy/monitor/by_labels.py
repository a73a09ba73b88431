"""The alarm by labels: what was found out afterwards proves that the risk is not tolerable, whatever the scores say.

Scores may be blind to what goes wrong. Where labels prove a risk above the tolerable, an alarm is raised: by evidence that healthy
streams reach half as often as false alarms are accepted, however often one looks (`roadworthy.monitor.evidence`; the other half
are the scores'). It is judged up to the last event that has a label, so that labels may come as late as they do. It is cleared
where labels prove the opposite, or where those that raised it are taken back; not because no more come.

Labels of the last events are gone through again at every look, since others may come in between and each may be corrected. What
labels of older ones have said is kept as a `Reached`, and they are not asked again: beyond so many labels, where their events are
about to leave, and where it was cleared by what came after them.

>>> from roadworthy.monitor.labels import Audited
>>> audited = Audited(0.69, 0.62, 0.76, 15.5, 12.1, 18.8, labels=200, covered=1.0, carried=False)
>>> contradiction(audited, (0.93, 0.91, 0.95))
'labels say 69.0% right (62.0% to 76.0%), the scores say 93.0% (91.0% to 95.0%): the scores do not see what goes wrong'
>>> contradiction(audited, (0.74, 0.70, 0.79)) is None
True
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.alarm import Alarm, AlarmRule
from roadworthy.monitor.audit import LAST
from roadworthy.monitor.evidence import ROWS, Bets, Change, Start, Stretch, bets_on, time_of, walk
from roadworthy.monitor.labels import KEPT, Audited, Weighed
from roadworthy.monitor.prices import Tariff

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.recent import Recent
    from roadworthy.monitor.state import State


HOLDS = math.log(200.0)
"""The evidence by which an alarm stays on where labels were corrected, or come for events before others."""
SPARE = 500
AT_ONCE = LAST + SPARE
"""Labels that are gone through at once: where there are more, the oldest are no longer, so many of them together."""
ABOUT_TO_LEAVE = 4
"""Labels of so small a part of all events that are held, the oldest, are gone through a last time."""

Key = tuple[float, int]
"""When the event of a label was, and its mark."""
BEGINNING: Key = (-math.inf, 0)


class Held(NamedTuple):
    """Labels of events that are held, and their places among these."""

    keys: list[Key]
    labels: list[Weighed]
    at: NDArray[np.int64]

    def part(self, first: int, end: int | None = None) -> Held:
        """Some of them."""
        where = slice(first, end)
        return Held(self.keys[where], self.labels[where], self.at[where])


class Reached(NamedTuple):
    """What labels up to one of them have said."""

    key: Key = BEGINNING
    start: Start = Start()


NOTHING = Reached()
_NONE = Stretch(np.zeros(0), np.zeros(0, dtype=bool), np.zeros(0), np.zeros((0, 2)), np.zeros(0))
_NO_BETS = Bets(np.zeros((ROWS, 0)), np.zeros((ROWS, 0)), np.zeros(0), np.zeros(0))


@dataclass
class ByLabels:
    """Whether the alarm by labels is on, and how often it was raised or cleared."""

    on: bool = False
    said: int = 0
    time: float = math.inf
    """How many labels say as much as one, by which it was raised: that this is known better and better takes nothing back."""
    settled: Reached = NOTHING
    """What labels that are not gone through again have said."""
    latest: Reached = NOTHING
    """What all labels had said at the last look."""
    oldest: float = math.inf
    """When the first event was whose label was gone through then."""

    def look(
        self,
        state: State,
        bundle: Bundle,
        *,
        time: float,
        scores_alarm: bool,
        merged: bool = False,
        warned: bool = False,
    ) -> list[Alarm]:
        """What is to be said now; nothing is called cleared while the scores' own alarm is on.

        Where replicas were `merged`, only whether it is on afterwards and was not before, or the reverse: labels that raised
        and cleared it are gone through again. Where the alarm of one of them is on (`warned`), as much raises it here as would keep
        it on there.
        """
        if bundle.alarm is None or bundle.tolerable is None:
            return []
        if len(state.recent) and self.oldest < state.recent.time[0]:
            # Labels that were gone through have left: it goes on from where the last look had come to.
            self.settled, self.oldest = self.latest, math.inf
        was_on, number = self.on, self.said
        keys, said, more = state.labels.latest(KEPT), list[Alarm](), True
        # With those before them, by which to know how errors come together.
        held = _held(state, keys[max(bisect_right(keys, self.settled.key) - LAST, 0) :])
        while more:  # so many at a time, the oldest first
            new = bisect_right(held.keys, self.settled.key)
            end = min(new + AT_ONCE, len(held.keys))
            more = end < len(held.keys)
            looked = _Looked(
                state, bundle, held.part(max(end - AT_ONCE, 0), end), self.settled, time
            )
            said += self._go_through(
                looked, scores_alarm=scores_alarm, warned=warned, settle=LAST if more else 0
            )
        if not merged:
            return said
        self.said = number + (self.on != was_on)
        last = [
            alarm
            for alarm in said[-1:]
            if self.on != was_on and (alarm.kind == "raised") == self.on
        ]
        return [replace(alarm, by_labels=self.said) for alarm in last]

    def _go_through(
        self, looked: _Looked, *, scores_alarm: bool, warned: bool, settle: int
    ) -> list[Alarm]:
        """Judge labels, and let the first so many have said what they have to say; or those that are about to leave."""
        was_on, held = self.on, looked.held
        judged_by = min(looked.alike, self.time) if was_on else looked.alike
        how = {
            "time": judged_by,
            "raised": looked.proven,
            "held": HOLDS if was_on or warned else math.inf,
        }
        found = walk(looked.bets, self.settled.start, **how)
        changes = list(found.changes)
        if was_on != self.settled.start.on:
            # The first has been said, or was never: what was proven before, and what a replica had proven that is taken back. Where
            # there is none, labels were corrected, or have left that replica.
            changes = changes[1:] or ([] if changes else [Change(found.on, 0, -1)])
        said = [
            alarm
            for change in changes
            if (alarm := self._told(change, looked, scores_alarm=scores_alarm))
        ]
        self.on = found.on
        self.time = judged_by if found.on else math.inf
        if held.labels:
            self.latest = Reached(
                held.keys[-1], Start(found.on, found.evidence, float(looked.bets.ahead[-1]))
            )
            self.oldest = held.labels[0].time
            cleared = [change.last + 1 for change in found.changes if not change.on]
            # What was taken back by labels that came after it proves nothing any more, whatever is known later of these.
            count = max(
                settle, looked.leaving, *cleared, SPARE if len(held.labels) >= AT_ONCE else 0
            )
            self._settle(looked, min(count, len(held.labels)), **how)
        return said

    def _settle(self, looked: _Looked, count: int, **how: float) -> None:
        """Let the first so many have said what they have to say."""
        if count:
            bets, held = looked.bets.part(slice(0, count)), looked.held
            found = walk(bets, self.settled.start, **how)
            self.settled = Reached(
                held.keys[count - 1], Start(found.on, found.evidence, float(bets.ahead[-1]))
            )
            self.oldest = held.labels[count].time if count < len(held.labels) else math.inf

    def meet(self, others: Sequence[ByLabels], state: State) -> bool:
        """Begin where one of the replicas that were merged has come to; whether the alarm of one of them is on.

        Labels of all of them after that are gone through again. It is one to which it is proven, where it is to any, and that with
        the fewest labels behind it, so that no label of a proof is passed over; else the one that is nearest to a proof.
        """
        everyone = (self, *others)
        first = float(state.recent.time[0]) if len(state.recent) else math.inf
        # Of those whose labels have left, what they had said last.
        reached = [(one, one.latest if one.oldest < first else one.settled) for one in everyone]
        proven = [start for one, start in reached if one.on]
        if proven:
            self.settled = min(proven, key=lambda start: (start.key, start.start))
        else:
            self.settled = max(
                reached, key=lambda r: (max(r[0].latest.start.evidence), r[1].key, r[1].start)
            )[1]
        self.latest, self.oldest = self.settled, math.inf
        self.time = min(one.time for one in everyone)
        return bool(proven)

    def _told(self, change: Change, looked: _Looked, *, scores_alarm: bool) -> Alarm | None:
        """What is to be said of a change."""
        self.said += 1
        state = looked.state
        if change.on:
            return self._raised(change, looked)
        if scores_alarm:
            return None
        reason = "by labels: they no longer say so"
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def _raised(self, change: Change, looked: _Looked) -> Alarm:
        """What the labels that prove it say in figures."""
        state, bundle, bets = looked.state, looked.bundle, looked.bets
        if change.last < 0:
            reason = "by labels: they proved it to a replica, and have left since"
            return Alarm(state.newest, state.counted, "raised", reason=reason, by_labels=self.said)
        tolerable, whole = (
            float(bundle.tolerable or 0.0),
            float(bets.gains[change.first :].sum()) > 0.0,
        )
        part = slice(change.first, None if whole else change.last + 1)
        some = looked.stretch.part(part)
        events, wrong = int(some.gaps[1:].sum()) + 1, int((~some.right).sum())
        risk = tolerable + float(bets.gains[part].sum()) / max(float(some.stands.sum()), events)
        reason = (
            f"by labels: of {len(some):,} answers to {events:,} events {wrong:,} are wrong, a risk of {risk:.4g} {bundle.unit}, "
            f"and {tolerable:.4g} is tolerable"
        )
        return Alarm(
            state.newest,
            state.counted,
            "raised",
            risk=risk,
            reason=reason,
            read=events,
            by_labels=self.said,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "on": self.on,
            "said": self.said,
            "time": _finite(self.time),
            "oldest": _finite(self.oldest),
            "settled": _record(self.settled),
            "latest": _record(self.latest),
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any] | None) -> ByLabels:
        """The inverse of `to_dict`; None of a state of before there was such an alarm."""
        if not record:
            return cls()
        time, oldest = (
            math.inf if record.get(name) is None else float(record[name])
            for name in ("time", "oldest")
        )
        settled, latest = (
            _reached(record[name]) if name in record else NOTHING for name in ("settled", "latest")
        )
        return cls(bool(record["on"]), int(record["said"]), time, settled, latest, oldest)


class _Looked:
    """Labels as they are at a look: those that have settled show how errors come together, and the others are gone through."""

    def __init__(
        self, state: State, bundle: Bundle, everything: Held, settled: Reached, time: float
    ) -> None:
        self.state, self.bundle = state, bundle
        count = bisect_right(everything.keys, settled.key)
        self.held = everything.part(count)
        assert bundle.alarm is not None
        if not everything.labels:
            self.stretch, self.bets, self.alike, self.proven, self.leaving = (
                _NONE,
                _NO_BETS,
                1.0,
                HOLDS,
                0,
            )
            return
        whole = _stretch(everything, state, bundle, shrink=1.0 / time)
        self.stretch = whole.part(slice(count, None))
        self.bets = (
            _bets(self.stretch, bundle, settled.start.ahead) if self.held.labels else _NO_BETS
        )
        all_bets = _bets(whole, bundle, 0.0) if count else self.bets
        self.alike = time_of(whole, all_bets, held=time, together=bundle.alarm.group_events)
        self.proven = _proven(bundle.alarm, state, whole)
        old = len(state.recent) // ABOUT_TO_LEAVE if state.recent.full else 0
        self.leaving = int(np.searchsorted(self.held.at, old))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _record(reached: Reached) -> dict[str, Any]:
    (time, mark), (on, evidence, ahead) = reached
    return {
        "time": _finite(time),
        "mark": mark,
        "on": on,
        "evidence": list(evidence),
        "ahead": ahead,
    }


def _reached(record: dict[str, Any]) -> Reached:
    time = -math.inf if record["time"] is None else float(record["time"])
    start = Start(bool(record["on"]), tuple(map(float, record["evidence"])), float(record["ahead"]))
    return Reached((time, int(record["mark"])), start)


def _held(state: State, keys: Sequence[Key]) -> Held:
    """Those of these labels whose events are held."""
    at, known = _places(state.recent, keys)
    found = [keys[j] for j in np.flatnonzero(known).tolist()]
    return Held(found, [state.labels.weighed(mark) for _, mark in found], at[known])


def _places(recent: Recent, keys: Sequence[Key]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where events stand or would stand, and whether they are held: else they were counted elsewhere."""
    times, marks = (
        np.array([time for time, _ in keys]),
        np.array([mark for _, mark in keys], dtype=np.uint64),
    )
    at, upto = (np.searchsorted(recent.time, times, side=side) for side in ("left", "right"))  # type: ignore[call-overload]
    of_events = recent.mark
    for j in np.flatnonzero(
        upto - at > 1
    ).tolist():  # of one instant, they are in the order of their marks
        at[j] += int(np.searchsorted(of_events[at[j] : upto[j]], marks[j]))
    known = at < upto
    known[known] = of_events[at[known]] == marks[known]
    return at, known


def _proven(rule: AlarmRule, state: State, stretch: Stretch) -> float:
    """The evidence that is reached half as often as false alarms are accepted, as often as labels come: now, or ever."""
    ever = max(int(state.labels.counts.sum()), len(state.labels.given)) / max(state.counted, 1)
    often = min(max(ever, len(stretch) / max(stretch.events, 1.0)), 1.0)
    return max(HOLDS, math.log(2.0 * often / rule.per_event))


def _stretch(held: Held, state: State, bundle: Bundle, *, shrink: float) -> Stretch:
    """The labels among the events that are held."""
    recent, (_, labels, at) = state.recent, held
    first = max(0, min(int(at[0]), int(at[-1]) + 1 - min(bundle.windows.lengths)))
    cells = recent.cell[first : int(at[-1]) + 1]
    scored = cells >= 0
    counts = np.bincount(cells[scored], minlength=state.cells)[None, :].astype(np.float64)
    rate, accuracy, _ = bundle.estimator.points(counts, shrink=shrink)
    right = bundle.estimator.believe(counts, shrink=shrink).right
    own = recent.cell[at]
    # A label stands for its own event and for such as have none: a probability that says more is none by which it was drawn.
    unlabelled = max(len(cells) - len(labels), 0)
    return Stretch.of(
        at,
        right=np.array([label.correct for label in labels]),
        stands=1.0 / np.maximum([label.probability for label in labels], 1.0 / (1.0 + unlabelled)),
        prices=Tariff.of(bundle).prices(bundle, rate).at(own),
        expected=np.where(own >= 0, right[np.maximum(own, 0)], accuracy),
    )


def _bets(stretch: Stretch, bundle: Bundle, ahead: float) -> Bets:
    return bets_on(
        stretch, tolerable=float(bundle.tolerable or 0.0), costs=bundle.tree.costs, ahead=ahead
    )


def contradiction(audited: Audited, estimate: tuple[float, float, float]) -> str | None:
    """What is to be said where labels and the estimate of the accuracy (value, low, high) lie apart; None where they do not."""
    value, low, high = estimate
    if audited.accuracy_low <= high and audited.accuracy_high >= low:
        return None
    what = (
        "the scores do not see what goes wrong"
        if audited.accuracy < value
        else "less goes wrong than the scores say"
    )
    return (
        f"labels say {audited.accuracy:.1%} right ({audited.accuracy_low:.1%} to {audited.accuracy_high:.1%}), "
        f"the scores say {value:.1%} ({low:.1%} to {high:.1%}): {what}"
    )
