"""The alarm by labels: what was found out afterwards proves that the risk is not tolerable, whatever the scores say.

Scores may be blind to what goes wrong. Where the labels of events that are still held prove a risk above the tolerable, an alarm
is raised: by evidence that healthy streams reach half as often as false alarms are accepted, however often one looks
(`roadworthy.monitor.evidence`; the other half are the scores'). It is judged up to the last event that has a label, so that labels
may come as late as they do. It is cleared where labels prove the opposite, or where those that raised it are taken back; not
because no more come.

>>> from roadworthy.monitor.labels import Audited
>>> audited = Audited(0.69, 0.62, 0.76, 15.5, 12.1, 18.8, labels=200, covered=1.0, carried=False)
>>> contradiction(audited, (0.93, 0.91, 0.95))
'labels say 69.0% right (62.0% to 76.0%), the scores say 93.0% (91.0% to 95.0%): the scores do not see what goes wrong'
>>> contradiction(audited, (0.74, 0.70, 0.79)) is None
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.alarms import Alarm, AlarmRule
from roadworthy.monitor.audit import LAST, slope
from roadworthy.monitor.evidence import CLEARED, Bets, Costs, Stretch, Walked, bets_on, time_of, walk
from roadworthy.monitor.labels import Audited, Weighed

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State


HOLDS = CLEARED
"""The evidence by which an alarm stays on where labels were corrected, or come for events before others."""


class Held(NamedTuple):
    """Labels of events that are held, and their places among these."""

    labels: list[Weighed]
    at: NDArray[np.int64]


@dataclass
class ByLabels:
    """Whether the alarm by labels is on, since when, and how often it was raised or cleared."""

    on: bool = False
    said: int = 0
    since: float = math.nan
    """When the first event was whose label is part of the proof."""
    after: float = -math.inf
    """Labels of events up to then have been taken back, and prove nothing any more."""

    def look(
        self, state: State, bundle: Bundle, *, time: float, scores_alarm: bool, warned: bool = False
    ) -> Alarm | None:
        """What is to be said now; nothing is cleared while the scores' own alarm is on.

        Where a replica's alarm is on (`warned`), as much raises it here as would keep it on there.
        """
        rule, was_on = bundle.alarm, self.on
        held = _held(state, self.after)
        if rule is None or bundle.tolerable is None or not held.labels:
            return None
        judged, bets = _judged(held, state, bundle, shrink=1.0 / time)
        # Evidence of which a part has left stays what it was; else labels that were corrected would not count.
        left = self.on and self.since < held.labels[0].time
        alike = time_of(judged, bets, held=time)
        # How alike labels are is known better and better: that alone takes nothing back.
        found = walk(bets, time=alike, raised=HOLDS if self.on or warned else _proven(rule, state), on=left)
        self.on = found.on
        if self.on and not left:
            self.since = held.labels[found.first].time
        if self.on == was_on:
            return None
        self.said += 1
        if self.on:
            return self._raised(judged, bets, found, bundle, state)
        if found.last >= 0:  # by labels that prove the opposite; those that were corrected may be corrected again
            self.after = held.labels[-1].time
        if scores_alarm:
            return None
        reason = "by labels: they no longer say so"
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def meet(self, others: Sequence[ByLabels]) -> bool:
        """Whether the alarm of one of several replicas is on; what they have taken back is taken back, but for who has not."""
        everyone = (self, *others)
        on = [one for one in everyone if one.on]
        self.after = min(one.after for one in on) if on else max(one.after for one in everyone)
        return bool(on)

    def join(self, others: Sequence[ByLabels], state: State) -> None:
        """What labels proved to a replica, and can prove to nobody any more since they have left, stays proven."""
        held = _held(state, -math.inf).labels
        first = held[0].time if held else math.inf
        left = [other for other in others if other.on and other.since < first]
        if left and not self.on:
            self.on, self.since = True, min(other.since for other in left)

    def _raised(self, judged: Stretch, bets: Bets, found: Walked, bundle: Bundle, state: State) -> Alarm:
        """What the labels that prove it say in figures."""
        tolerable, whole = float(bundle.tolerable or 0.0), float(bets.gains[found.first :].sum()) > 0.0
        part = slice(found.first, None if whole else found.last + 1)
        at, wrong = judged.at[part], int((~judged.correct[part]).sum())
        labels, events = len(at), int(at[-1] - at[0]) + 1
        risk = tolerable + float(bets.gains[part].sum()) / max(float(judged.stands[part].sum()), events)
        reason = (
            f"by labels: of {labels:,} answers to {events:,} events {wrong:,} are wrong, a risk of {risk:.4g} {bundle.unit}, "
            f"and {tolerable:.4g} is tolerable"
        )
        return Alarm(state.newest, state.counted, "raised", risk=risk, reason=reason, read=events, by_labels=self.said)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        since, after = (at if math.isfinite(at) else None for at in (self.since, self.after))
        return {"on": self.on, "said": self.said, "since": since, "after": after}

    @classmethod
    def from_dict(cls, record: dict[str, Any] | None) -> ByLabels:
        """The inverse of `to_dict`; None of a state of before there was such an alarm."""
        if not record:
            return cls()
        since, after = record.get("since"), record.get("after")
        return cls(
            bool(record["on"]),
            int(record["said"]),
            math.nan if since is None else float(since),
            -math.inf if after is None else float(after),
        )


def _held(state: State, after: float) -> Held:
    """The last labels of events that are held, of later ones than `after`."""
    recent = state.recent
    keys = [key for key in state.labels.latest(LAST) if key[0] > after]
    times = np.array([time for time, _ in keys])
    at, upto = (np.searchsorted(recent.time, times, side=side) for side in ("left", "right"))  # type: ignore[call-overload]
    known = upto > at
    for j in np.flatnonzero(upto - at > 1).tolist():  # of one instant, they are held by their marks
        same, mark = recent.mark[at[j] : upto[j]], np.uint64(keys[j][1])
        place = int(np.searchsorted(same, mark))
        known[j] = place < len(same) and same[place] == mark
        at[j] += place
    return Held([state.labels.weighed(keys[j][1]) for j in np.flatnonzero(known).tolist()], at[known])


def _proven(rule: AlarmRule, state: State) -> float:
    """The evidence that is reached half as often as false alarms are accepted, as often as labels come."""
    labels = max(int(state.labels.counts.sum()), len(state.labels.given))
    return max(HOLDS, math.log(2.0 * min(labels / max(state.counted, 1), 1.0) / rule.per_event))


def _judged(held: Held, state: State, bundle: Bundle, *, shrink: float) -> tuple[Stretch, Bets]:
    """The labels among the events that are held: from a window before the last of them, or from the first one."""
    recent, (labels, at) = state.recent, held
    first = max(0, min(int(at[0]), int(at[-1]) + 1 - min(bundle.windows.lengths)))
    cells = recent.cell[first : int(at[-1]) + 1]
    scored = cells >= 0
    counts = np.bincount(cells[scored], minlength=state.cells)[None, :].astype(np.float64)
    rate, accuracy, risk = (float(figure[0]) for figure in bundle.estimator.points(counts, shrink=shrink))
    right = bundle.estimator.believe(counts, shrink=shrink).right
    expected = np.where(scored, right[np.maximum(cells, 0)], accuracy)
    # A label stands for its own event and for such as have none: a probability that says more is none by which it was drawn.
    unlabelled = max(len(cells) - len(labels), 0)
    stands = 1.0 / np.maximum([label.probability for label in labels], 1.0 / (1.0 + unlabelled))
    judged = Stretch(at - first, np.array([label.correct for label in labels]), stands, expected)
    costs = Costs(risk, accuracy, slope(bundle, rate), float(bundle.tolerable or 0.0))
    return judged, bets_on(judged, costs)


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
