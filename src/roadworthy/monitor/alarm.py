"""When a monitor speaks up: the burden of proof that an alarm has to carry, and what false alarms it costs.

An alarm rings where the risk is more likely than not above the tolerable, even if no shift at all is taken to be so many times
likelier beforehand. How many times is the *burden* (its logarithm), found before release such that clean streams ring as seldom
as stated. The probability alone would not do: how dear an unseen kind of shift is stays in doubt however plain the shift is, and
a level that chance seldom reaches is then one that shift seldom reaches as well (`docs/decisions/0012`).

Once it rings the burden is lifted: an alarm is cleared where the risk is likely tolerable, and not before (hysteresis, so that a
value near even odds does not ring again and again). Where events are autocorrelated (tau of them say as much as one), a
window holds fewer independent events; the burden that keeps the stated rate is then another one, from a table. Where a window
says too little, a longer stretch is read beside it, one that holds as many independent events as it takes to notice a step; and
where even the longest says too little, no alarm is raised, and that is said.

While a window's figures cannot be relied on, an alarm that is on is not cleared; and where that lasts for a whole window, it is
itself an alarm ("cannot tell", until one "can tell" again).

>>> rule = AlarmRule(window=100, stride=50, burden=9.0, false_alarms="1 per month", events_per_day=1000.0)
>>> round(1 / rule.per_event), rule.on, rule.off, f"{math.exp(rule.burden):,.0f} to 1"
(30437, 0.0, -1.0, '8,103 to 1')
>>> from dataclasses import replace
>>> alike = replace(rule, by_time=((1.0, 9.0), (10.0, 4.0)), stretch=60, by_stretch=((1.0, 8.0), (100.0, 6.0)))
>>> [alike.passes(time) for time in (1.0, 10.0)]
[(Pass(length=100, burden=9.0),), (Pass(length=100, burden=4.0), Pass(length=600, burden=7.0))]
>>> walk([-3.0, 2.5, 1.0, -1.0, 3.0], 2.0, 0.0, active=False)
([(1, True), (3, False), (4, True)], True)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.436875, "year": 365.2425}
LIKELIER = 0.0
"""The log-odds from which on an alarm rings: it means that the risk is more likely than not above the tolerable."""
GAP = 1.0
"""An alarm is cleared so much below where it is raised, unless clean windows seldom get there."""
LONGEST = 16_384
"""Events that are read at most, however alike they are: as many are always held."""
LONGER = 2
"""How many times as long as the window a stretch must be to be read beside it: each then gets half of the false alarms, by which a
window that says nearly enough would lose more than it gains. Of detectors that fail in different ways, a window of half as many
independent events reaches by chance what no shift ever does: there nothing but the stretch rings."""

_SLACK = 1.0001
"""A time that was tabled is not beyond the table by rounding."""
_RATE = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(?:per|a|an|/)\s*(hour|day|week|month|year)\s*", re.IGNORECASE
)


def alarms_per_day(text: str) -> float:
    """A rate in words as a number.

    >>> alarms_per_day("2 per day"), alarms_per_day("1 per week")
    (2.0, 0.14285714285714285)
    """
    found = _RATE.fullmatch(str(text))
    if not found or float(found[1]) <= 0:
        raise ValueError(f"false alarms are given as '1 per month' or '2 per day', found {text!r}")
    return float(found[1]) / DAYS[found[2].lower()]


class Pass(NamedTuple):
    """So many events are read, and an alarm has this burden of proof."""

    length: int
    burden: float


def carried_over(passes: Sequence[Pass]) -> str:
    """Why an alarm of another replica is on where nothing that is read can be told."""
    longest = max((p.length for p in passes), default=0)
    read = (
        f"the last {longest:,} events, which the alarm reads,"
        if longest
        else "what the alarm reads"
    )
    return f"it is carried over from another replica, and {read} cannot be told"


@dataclass(frozen=True)
class AlarmRule:
    """Which window is watched, how often, and what proof an alarm needs."""

    window: int
    stride: int
    """Events between two looks."""
    burden: float
    """The logarithm of how many times likelier no shift is taken to be beforehand, where events are independent."""
    false_alarms: str
    events_per_day: float
    on: float = LIKELIER
    """The log-odds from which on it then rings."""
    off: float = LIKELIER - GAP
    """The log-odds, without any burden, below which it is cleared."""
    by_time: tuple[tuple[float, float], ...] = ()
    """(autocorrelation time, burden) for streams whose events are not independent. Beyond the last one a window says too little to
    raise an alarm."""
    quiet: tuple[float, float] = (-math.inf, -math.inf)
    """Mean shift score and mean expected error: a window below both is passed over, since it cannot come near an alarm."""
    detects: tuple[tuple[str, float], ...] = ()
    """(kind of shift, probability of an alarm within two windows of a step from none to 30% of it), by simulation."""
    notes: tuple[str, ...] = ()
    stretch: int = 0
    """Independent events that notice such a step: where a window holds fewer, a longer stretch is read that holds as many."""
    by_stretch: tuple[tuple[float, float], ...] = ()
    """(autocorrelation time, burden) for that stretch. Beyond the last one nothing that can be read says enough."""
    not_due: tuple[str, ...] = ()
    """Kinds of which 30% is still tolerable: an alarm that does not notice such a step does what it should."""
    group_events: int = 0
    """Events of one group that come in a row, as somebody said; 0: nobody did."""
    sure: float = math.inf
    """The log-odds from which on it rings with nothing proven, where clean data may cost as much as is tolerable; else infinity."""

    def __post_init__(self) -> None:
        alarms_per_day(self.false_alarms)
        if not (self.window >= 2 and self.stride >= 1):
            raise ValueError(
                f"an alarm needs a window of 2 events and a stride of 1 at least, found {self.window}, {self.stride}"
            )
        if math.isnan(self.burden) or self.burden == math.inf:
            raise ValueError(
                f"no alarm carries a burden of proof of {self.burden}: a finite one, or minus infinity for none"
            )
        if not self.events_per_day > 0:
            raise ValueError(f"events per day must be positive, found {self.events_per_day}")
        if not self.off <= self.on:
            raise ValueError(
                f"an alarm is cleared no higher than it is raised, found off {self.off}, on {self.on}"
            )
        if self.group_events < 0:
            raise ValueError(f"events of a group are 0 or more, found {self.group_events}")

    @property
    def per_event(self) -> float:
        """False alarms an event that are accepted."""
        return alarms_per_day(self.false_alarms) / self.events_per_day

    @property
    def keeps_rate(self) -> bool:
        """Whether it rings falsely no more often than is accepted: not one that need not prove it, for clean data cost too much."""
        return self.burden > -math.inf and self.sure == math.inf

    @property
    def noticed(self) -> dict[str, float | None]:
        """By kind of shift, how often a step to 30% of it is noticed within two windows; None where no alarm is due for it."""
        return {kind: None if kind in self.not_due else share for kind, share in self.detects}

    def burden_at(self, time: float) -> float:
        """The burden of the window for a stream of which `time` events say as much as one; infinity: it says too little."""
        points = self.by_time or ((1.0, self.burden),)
        return math.inf if time > _SLACK * points[-1][0] else _between(points, time)

    def reach(self, time: float) -> int:
        """Events of the longer stretch that is read; 0 where the window is about as long, or where none is long enough."""
        if not self.by_stretch or time > _SLACK * self.by_stretch[-1][0]:
            return 0
        if time * _SLACK < self.by_stretch[0][0]:
            return 0
        length = min(math.ceil(self.stretch * time), LONGEST)
        return length if length * _SLACK >= LONGER * self.window else 0

    def passes(self, time: float) -> tuple[Pass, ...]:
        """What is read of a stream of which `time` events say as much as one; nothing where nothing says enough."""
        burden, length = self.burden_at(time), self.reach(time)
        found = [Pass(self.window, burden)] if burden < math.inf or self.sure < math.inf else []
        if length:
            found.append(Pass(length, _between(self.by_stretch, time)))
        return tuple(found)

    def beyond(self, time: float) -> bool:
        """Whether events resemble each other so much that no alarm can be raised."""
        return not self.passes(time)

    def why_not(self, time: float) -> str:
        """Why no alarm can be raised for a stream whose events are so alike."""
        if not math.isfinite(time):
            return "of so few events nobody can tell how much they resemble each other"
        most = max(self.window, LONGEST if self.by_stretch else 0)
        return (
            f"events resemble each other so much that {most:,} of them say as much as {most / time:.0f} independent ones, "
            "too few to tell a shift from chance"
        )

    def remark(self, time: float) -> str | None:
        """What is to be known about the alarm of a stream whose events are alike; None where they hardly are."""
        if self.beyond(time):
            return f"no alarm is raised: {self.why_not(time)}; watch a longer window, or send fewer of the events that are alike"
        length, proven = self.reach(time), self.burden_at(time) < math.inf
        if not length and not proven:
            return f"the alarm rings only where it is sure that the cost is above: {self.why_not(time)}"
        if not length:
            return None
        alone = "" if proven else ", too few for an alarm of its own"
        return (
            f"the alarm's window of {self.window:,} events says as much as {self.window / time:.1f} independent ones{alone}: "
            f"the last {length:,} are read as well, and a step to 30% shift may take {2 * length:,} events to be noticed"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; a level that is not used, and no burden at all, is null."""
        record = asdict(self)
        record["quiet"], record["burden"] = [*map(_given, self.quiet)], _given(self.burden)
        for name in ("by_time", "by_stretch"):
            record[name] = [[time, _given(burden)] for time, burden in record[name]]
        if not self.by_stretch:  # a rule of before there were stretches stays what it was
            del record["stretch"], record["by_stretch"]
        for name in ("not_due", "group_events", "sure"):
            if record[name] in ((), 0, math.inf):
                del record[name]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> AlarmRule:
        """The inverse of `to_dict`."""
        found = dict(record)
        found["quiet"], found["burden"] = (
            tuple(map(_taken, record["quiet"])),
            _taken(record["burden"]),
        )
        for name in ("by_time", "by_stretch"):
            found[name] = tuple(
                (float(time), _taken(burden)) for time, burden in record.get(name, ())
            )
        found["detects"] = tuple((str(kind), float(p)) for kind, p in record["detects"])
        for name in ("notes", "not_due"):
            found[name] = tuple(map(str, record.get(name, ())))
        return cls(**found)


@dataclass(frozen=True)
class Alarm:
    """An alarm raised or cleared; or that figures could not be relied on for a whole window, and can be again."""

    time: float
    event: int
    """How many events had been counted."""
    kind: str
    """raised, cleared, cannot tell or can tell"""
    exceedance: float | None = None
    """P(risk > tolerable) of the events that were read; no figure stands where they cannot be told."""
    risk: float | None = None
    log_odds: float | None = None
    """Of the same."""
    reason: str = ""
    """Why figures cannot be relied on; or what labels say, where they raised it."""
    read: int = 0
    """Events whose figures these are, the last that had arrived: those of the window, or of a longer stretch where events are
    alike."""
    by_labels: int = 0
    """Which of the alarms by labels it is, 1 the first; 0: an alarm by the scores."""
    alarm_log_odds: float | None = None
    """What the alarm watched: the log-odds with its burden of proof where it was not on, without where it was."""


def _between(points: tuple[tuple[float, float], ...], time: float) -> float:
    """The burden at a time, by the logarithm of it between two that are tabled."""
    found = points[0][1]
    for (t0, a), (t1, b) in pairwise(points):
        if t0 <= time:
            found = b if a == b else a + (b - a) * min(1.0, math.log(time / t0) / math.log(t1 / t0))
    return found


def _given(value: float) -> float | None:
    return None if value == -math.inf else value


def _taken(value: float | None) -> float:
    return -math.inf if value is None else float(value)


def walk(
    log_odds: Iterable[float], on: float, off: float, *, active: bool
) -> tuple[list[tuple[int, bool]], bool]:
    """Where alarms are raised (True) and cleared along a series, and whether one is on at its end."""
    changes = []
    for i, value in enumerate(log_odds):
        if (value >= on) if not active else (value < off):
            active = not active
            changes.append((i, active))
    return changes, active
