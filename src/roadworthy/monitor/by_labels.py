"""The alarm by labels: what was found out afterwards proves that the risk is not tolerable, whatever the scores say.

Scores may be blind to what goes wrong. Where labels of a window's own events say that its risk is above the tolerable, at 97.5%
(one-sided) and by more than their own chance, and that more goes wrong than the scores say, that is an alarm: raised when labels
come, cleared when none of the windows says so any longer, because further labels say otherwise or because the labelled events have
left. Labels that are carried over from earlier events correct figures, but they raise no alarm: their events are no longer among
those that are watched.

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

from roadworthy.monitor.alarms import Alarm
from roadworthy.monitor.audit import audit, labelled
from roadworthy.monitor.labels import Audited
from roadworthy.monitor.windows import Reading

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State

SURE = 0.95
"""Of the two-sided interval whose lower end must be above the tolerable: one-sided 97.5%."""
ENOUGH = 30
"""Labels of a window from which on they may raise an alarm."""
CHANCE = 3.3
"""Standard errors of the labelled answers' own chance between risk and tolerable: labels are looked at again and again."""


class Proof(NamedTuple):
    """A window whose labels say that its risk is above the tolerable."""

    events: int
    audited: Audited


@dataclass
class ByLabels:
    """Whether the alarm by labels is on, how many were raised or cleared, and up to which event it was looked at."""

    on: bool = False
    said: int = 0
    looked: int = 0

    def due(self, counted: int, stride: int) -> bool:
        """Whether so many events more have come that labels may have left their window."""
        return self.on and counted // stride > self.looked // stride

    def look(self, proof: Proof | None, bundle: Bundle, state: State, *, scores_alarm: bool) -> Alarm | None:
        """What is to be said now; nothing is cleared while the scores' own alarm is on."""
        self.looked = state.counted
        if (proof is not None) == self.on:
            return None
        self.on, self.said = proof is not None, self.said + 1
        if proof is not None:
            said = proof.audited
            reason = (
                f"by labels: {said.labels:,} of them say a risk of {said.risk:.4g} ({said.risk_low:.4g} to "
                f"{said.risk_high:.4g}) {bundle.unit}, and {bundle.tolerable:.4g} is tolerable"
            )
            when, number, read = state.newest, state.counted, proof.events
            return Alarm(when, number, "raised", risk=said.risk, reason=reason, read=read, by_labels=self.said)
        if scores_alarm:
            return None
        reason = "by labels: those of the windows no longer say so"
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any] | None) -> ByLabels:
        """The inverse of `to_dict`; None of a state of before there was such an alarm."""
        return cls(**record) if record else cls()


def proof(bundle: Bundle, state: State, readings: list[Reading], *, shrink: float) -> Proof | None:
    """The first of these windows whose own labels say that the risk is above the tolerable; None where none does."""
    if bundle.tolerable is None:
        return None
    for reading in readings:
        if labelled(state, reading) < ENOUGH:
            continue
        found = audit(bundle, state, reading, shrink=shrink, confidence=SURE)
        if found is None or found.carried or not found.risk_low > bundle.tolerable:
            continue
        if _by_themselves(bundle, found) and _worse_than_told(bundle, reading, found, shrink):
            return Proof(reading.first, found)
    return None


def _by_themselves(bundle: Bundle, found: Audited) -> bool:
    """Whether the risk is above the tolerable by more than the chance of so many answers, all of them labelled or not."""
    least, greatest = bundle.tree.costs
    chance = (greatest - least) * math.sqrt(max(found.accuracy * (1.0 - found.accuracy), 0.0) / found.labels)
    return found.risk - CHANCE * chance > bundle.tolerable  # type: ignore[operator]


def _worse_than_told(bundle: Bundle, reading: Reading, found: Audited, shrink: float) -> bool:
    """Whether labels make the accuracy lower than the scores do: what the scores say alone is the other alarm's."""
    told = bundle.estimator.estimate(reading.counts, shrink=min(1.0, max(shrink, 1e-6)))
    return found.accuracy < float(told.accuracy[0])


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
