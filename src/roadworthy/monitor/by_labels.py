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
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.monitor.alarms import Alarm, AlarmRule
from roadworthy.monitor.audit import LAST, slope
from roadworthy.monitor.evidence import CLEARED, Costs, Gains, Stretch, gains_of, time_of, walk
from roadworthy.monitor.labels import Audited, Weighed

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State


HOLDS = CLEARED
"""The evidence by which an alarm stays on where labels were corrected, or come for events before others."""


class Proof(NamedTuple):
    """Labels that prove a risk above the tolerable."""

    labels: int
    wrong: int
    events: int
    """Among which they lie."""
    risk: float
    """What these cost by their labels, and by the model where there are none."""
    since: float
    """When the first of these events was."""


@dataclass
class ByLabels:
    """Whether the alarm by labels is on, since when, and how often it was raised or cleared."""

    on: bool = False
    said: int = 0
    since: float = math.nan
    """When the first event was whose label is part of the proof."""

    def look(self, state: State, bundle: Bundle, *, time: float, scores_alarm: bool) -> Alarm | None:
        """What is to be said now; nothing is cleared while the scores' own alarm is on."""
        rule, was_on = bundle.alarm, self.on
        oldest = float(state.recent.time[0]) if len(state.recent) else math.inf
        labels = [label for label in state.labels.last(LAST) if label.time >= oldest]
        if rule is None or bundle.tolerable is None or not labels:
            return None
        proven = _proven(rule, state)
        judged, gains = _judged(labels, state, bundle, shrink=1.0 / time)
        # Evidence of which a part has left stays what it was; else labels that were corrected would not count.
        left = self.on and self.since < labels[0].time
        alike = time_of(judged, gains, held=time)
        # How alike labels are is known better and better: that alone takes nothing back.
        raised = HOLDS if self.on else proven
        found = walk(gains, time=alike, raised=raised, on=left)
        self.on = found.on
        if self.on and not left:
            self.since = labels[found.first].time
        if self.on == was_on:
            return None
        self.said += 1
        if self.on:
            return self._raised(
                _proof(labels[found.first :], judged, gains, found.first, bundle.tolerable), bundle, state
            )
        if scores_alarm:
            return None
        reason = "by labels: they no longer say so"
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def _raised(self, proof: Proof, bundle: Bundle, state: State) -> Alarm:
        reason = (
            f"by labels: of {proof.labels:,} answers to {proof.events:,} events {proof.wrong:,} are wrong, a risk of "
            f"{proof.risk:.4g} {bundle.unit}, and {bundle.tolerable:.4g} is tolerable"
        )
        when, number = state.newest, state.counted
        return Alarm(when, number, "raised", risk=proof.risk, reason=reason, read=proof.events, by_labels=self.said)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "since": self.since if self.on else None}

    @classmethod
    def from_dict(cls, record: dict[str, Any] | None) -> ByLabels:
        """The inverse of `to_dict`; None of a state of before there was such an alarm."""
        if not record:
            return cls()
        since = record.get("since")
        return cls(bool(record["on"]), int(record["said"]), math.nan if since is None else float(since))


def _proven(rule: AlarmRule, state: State) -> float:
    """The evidence that is reached half as often as false alarms are accepted, as often as labels come."""
    labels = max(int(state.labels.counts.sum()), len(state.labels.given))
    return max(HOLDS, math.log(2.0 * min(labels / max(state.counted, 1), 1.0) / rule.per_event))


def _judged(labels: list[Weighed], state: State, bundle: Bundle, *, shrink: float) -> tuple[Stretch, Gains]:
    """The labels among the events that are held: from a window before the last of them, or from the first one."""
    recent = state.recent
    at = np.searchsorted(recent.time, np.array([label.time for label in labels]), side="right") - 1
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
    return judged, gains_of(judged, costs)


def _proof(labels: list[Weighed], judged: Stretch, gains: Gains, first: int, tolerable: float) -> Proof:
    """What the labels that prove it say in figures."""
    wrong = sum(not label.correct for label in labels)
    events = int(judged.at[-1] - judged.at[first]) + 1
    stands = float(np.maximum(judged.stands[first:].sum(), events))
    risk = tolerable + float(gains.found[first:].sum()) / stands
    return Proof(len(labels), wrong, events, risk, labels[0].time)


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
