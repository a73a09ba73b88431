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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.alarms import Alarm, AlarmRule
from roadworthy.monitor.audit import LAST
from roadworthy.monitor.evidence import ROWS, Bets, Start, Stretch, Walked, bets_on, time_of, walk
from roadworthy.monitor.labels import Audited, Weighed
from roadworthy.monitor.prices import Prices

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.recent import Recent
    from roadworthy.monitor.state import State


HOLDS = math.log(200.0)
"""The evidence by which an alarm stays on where labels were corrected, or come for events before others."""
SPARE = 500
"""Labels beyond the last `LAST` that are gone through before the oldest are no longer."""
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

    def after(self, count: int) -> Held:
        """Without the first so many."""
        return Held(self.keys[count:], self.labels[count:], self.at[count:])


class Reached(NamedTuple):
    """What labels up to one of them have said."""

    key: Key = BEGINNING
    start: Start = Start()


NOTHING = Reached()


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
        self, state: State, bundle: Bundle, *, time: float, scores_alarm: bool, warned: bool = False
    ) -> Alarm | None:
        """What is to be said now; nothing is cleared while the scores' own alarm is on.

        Where a replica's alarm is on (`warned`), as much raises it here as would keep it on there.
        """
        rule, was_on = bundle.alarm, self.on
        if rule is None or bundle.tolerable is None:
            return None
        self._let_go(state)
        everything = _held(state)
        settled = bisect_right(everything.keys, self.settled.key)
        held = everything.after(settled)
        if not held.labels:
            return self._told(None, state, bundle, was_on, scores_alarm, Walked(self.settled.start.on, 0, -1, ()))
        whole = _stretch(everything, state, bundle, shrink=1.0 / time)
        stretch = whole.part(slice(settled, None))
        bets = _bets(stretch, bundle, self.settled.start.ahead)
        # That errors come together, those show as well that have been settled.
        all_bets = _bets(whole, bundle, 0.0) if settled else bets
        alike = time_of(whole, all_bets, held=time, together=rule.group_events)
        judged_by = min(alike, self.time) if was_on else alike
        raised, holds = _proven(rule, state, stretch), HOLDS if was_on or warned else math.inf
        found = walk(bets, self.settled.start, time=judged_by, raised=raised, held=holds)
        self.latest = Reached(held.keys[-1], Start(found.on, found.evidence, float(bets.ahead[-1])))
        self.oldest = held.labels[0].time
        self.time = judged_by if found.on else math.inf
        said = self._told(_Judged(stretch, bets), state, bundle, was_on, scores_alarm, found)
        if found.last >= 0 and not found.on:
            # What was taken back by labels that came after it proves nothing any more, whatever is known later of these.
            self._settle(held, bets, found.last + 1, Walked(False, 0, -1, (0.0,) * ROWS))
        else:
            self._settle_oldest(held, bets, state, time=judged_by, raised=raised, holds=holds)
        return said

    def meet(self, others: Sequence[ByLabels], state: State) -> bool:
        """Begin where replicas that were merged have come to; whether the alarm of one of them is on.

        Where it is proven to one, it goes on from there, so that later labels of all of them may take it back.
        """
        everyone = (self, *others)
        first = float(state.recent.time[0]) if len(state.recent) else math.inf
        # Of those whose labels have left, what they had said last.
        reached = [one.latest if one.oldest < first else one.settled for one in everyone]
        proven = [one for one in reached if one.start.on]
        evidence = np.array([one.start.evidence for one in proven or reached])
        ends = evidence.min(axis=0) if proven else evidence.max(axis=0)
        key = min(one.key for one in proven) if proven else max(one.key for one in reached)
        ahead = min(one.start.ahead for one in proven or reached)
        self.settled = Reached(key, Start(bool(proven), tuple(ends.tolist()), ahead))
        self.latest, self.oldest = self.settled, math.inf
        self.time = min(one.time for one in everyone)
        return any(one.on for one in everyone)

    def _let_go(self, state: State) -> None:
        """Where labels that were gone through have left, go on from where the last look had come to."""
        if len(state.recent) and self.oldest < state.recent.time[0]:
            self.settled, self.oldest = self.latest, math.inf

    def _settle_oldest(self, held: Held, bets: Bets, state: State, *, time: float, raised: float, holds: float) -> None:
        """Let those have said what they have to say that are too many, or whose events are about to leave."""
        leaving = 0
        if state.recent.full:
            leaving = int(np.searchsorted(held.at, len(state.recent) // ABOUT_TO_LEAVE))
        count = max(leaving, SPARE if len(held.labels) >= LAST + SPARE else 0)
        if count:
            some = Bets(bets.above[:, :count], bets.below[:, :count], bets.gains[:count], bets.ahead[:count])
            self._settle(held, bets, count, walk(some, self.settled.start, time=time, raised=raised, held=holds))

    def _settle(self, held: Held, bets: Bets, count: int, found: Walked) -> None:
        start = Start(found.on, found.evidence, float(bets.ahead[count - 1]))
        self.settled = Reached(held.keys[count - 1], start)
        self.oldest = held.labels[count].time if count < len(held.labels) else math.inf

    def _told(
        self,
        judged: _Judged | None,
        state: State,
        bundle: Bundle,
        was_on: bool,
        scores_alarm: bool,
        found: Walked,
    ) -> Alarm | None:
        """What is to be said of what was found."""
        self.on = found.on
        if self.on == was_on:
            return None
        self.said += 1
        if self.on:
            return self._raised(judged, found, bundle, state)
        if scores_alarm:
            return None
        reason = "by labels: they no longer say so"
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def _raised(self, judged: _Judged | None, found: Walked, bundle: Bundle, state: State) -> Alarm:
        """What the labels that prove it say in figures."""
        if judged is None or found.last < 0:
            reason = "by labels: they proved it to a replica, and have left since"
            return Alarm(state.newest, state.counted, "raised", reason=reason, by_labels=self.said)
        stretch, bets = judged
        tolerable, whole = float(bundle.tolerable or 0.0), float(bets.gains[found.first :].sum()) > 0.0
        part = slice(found.first, None if whole else found.last + 1)
        some = stretch.part(part)
        events, wrong = int(stretch.gaps[part][1:].sum()) + 1, int((~some.right).sum())
        risk = tolerable + float(bets.gains[part].sum()) / max(float(some.stands.sum()), events)
        reason = (
            f"by labels: of {len(some):,} answers to {events:,} events {wrong:,} are wrong, a risk of {risk:.4g} {bundle.unit}, "
            f"and {tolerable:.4g} is tolerable"
        )
        return Alarm(state.newest, state.counted, "raised", risk=risk, reason=reason, read=events, by_labels=self.said)

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
        time, oldest = (math.inf if record[name] is None else float(record[name]) for name in ("time", "oldest"))
        settled, latest = (_reached(record[name]) for name in ("settled", "latest"))
        return cls(bool(record["on"]), int(record["said"]), time, settled, latest, oldest)


class _Judged(NamedTuple):
    stretch: Stretch
    bets: Bets


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _record(reached: Reached) -> dict[str, Any]:
    (time, mark), (on, evidence, ahead) = reached
    return {"time": _finite(time), "mark": mark, "on": on, "evidence": list(evidence), "ahead": ahead}


def _reached(record: dict[str, Any]) -> Reached:
    time = -math.inf if record["time"] is None else float(record["time"])
    start = Start(bool(record["on"]), tuple(map(float, record["evidence"])), float(record["ahead"]))
    return Reached((time, int(record["mark"])), start)


def _held(state: State) -> Held:
    """The last labels of events that are held."""
    keys = state.labels.latest(LAST + SPARE)
    at, known = _places(state.recent, keys)
    found = [keys[j] for j in np.flatnonzero(known).tolist()]
    return Held(found, [state.labels.weighed(mark) for _, mark in found], at[known])


def _places(recent: Recent, keys: Sequence[Key]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where events stand or would stand, and whether they are held: else they were counted elsewhere."""
    times, marks = np.array([time for time, _ in keys]), np.array([mark for _, mark in keys], dtype=np.uint64)
    at, upto = (np.searchsorted(recent.time, times, side=side) for side in ("left", "right"))  # type: ignore[call-overload]
    of_events = recent.mark
    for j in np.flatnonzero(upto - at > 1).tolist():  # of one instant, they are in the order of their marks
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
    rate, accuracy, _ = (float(figure[0]) for figure in bundle.estimator.points(counts, shrink=shrink))
    right = bundle.estimator.believe(counts, shrink=shrink).right
    own = recent.cell[at]
    # A label stands for its own event and for such as have none: a probability that says more is none by which it was drawn.
    unlabelled = max(len(cells) - len(labels), 0)
    return Stretch.of(
        at,
        right=np.array([label.correct for label in labels]),
        stands=1.0 / np.maximum([label.probability for label in labels], 1.0 / (1.0 + unlabelled)),
        prices=Prices.of(bundle, rate).at(own),
        expected=np.where(own >= 0, right[np.maximum(own, 0)], accuracy),
    )


def _bets(stretch: Stretch, bundle: Bundle, ahead: float) -> Bets:
    return bets_on(stretch, tolerable=float(bundle.tolerable or 0.0), least=bundle.tree.costs[0], ahead=ahead)


def contradiction(audited: Audited, estimate: tuple[float, float, float]) -> str | None:
    """What is to be said where labels and the estimate of the accuracy (value, low, high) lie apart; None where they do not."""
    value, low, high = estimate
    if audited.accuracy_low <= high and audited.accuracy_high >= low:
        return None
    what = (
        "the scores do not see what goes wrong" if audited.accuracy < value else "less goes wrong than the scores say"
    )
    return (
        f"labels say {audited.accuracy:.1%} right ({audited.accuracy_low:.1%} to {audited.accuracy_high:.1%}), "
        f"the scores say {value:.1%} ({low:.1%} to {high:.1%}): {what}"
    )
