"""Where an alarm is decided: the rule with its burden of proof, the looks at a stream, and what is raised and cleared.

An alarm is raised if the risk is more likely than not above the tolerable, even if no shift at all is taken to be exp(burden)
times likelier beforehand. The burden is set before release by simulation such that clean streams raise an alarm as seldom as
stated (`roadworthy.monitor.threshold`, `docs/decisions/0012`). While an alarm is on the burden is lifted: it is cleared if
the risk is likely tolerable (hysteresis). If events are autocorrelated, tau of them say as much as one: the burden is then taken
from a table, and a longer stretch is read beside the window. If even the longest says too little, no alarm is raised.

While a window's figures cannot be relied on, an alarm that is on is not cleared; if that lasts for a whole window, it is an
alarm of its own ("cannot tell", until "can tell" again).

>>> rule = AlarmRule(window=100, stride=50, burden=9.0, false_alarms="1 per month", events_per_day=1000.0)
>>> round(1 / rule.per_event), rule.on, rule.off, f"{math.exp(rule.burden):,.0f} to 1"
(30437, 0.0, -1.0, '8,103 to 1')
>>> from dataclasses import replace
>>> alike = replace(rule, by_time=((1.0, 9.0), (10.0, 4.0)), stretch=60, by_stretch=((1.0, 8.0), (100.0, 6.0)))
>>> [alike.passes(time) for time in (1.0, 10.0)]
[(Pass(length=100, burden=9.0),), (Pass(length=100, burden=4.0), Pass(length=600, burden=7.0))]
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.estimator import Odds
from roadworthy.monitor import messages
from roadworthy.monitor.autocorrelation import FEW, StreamTime
from roadworthy.monitor.events import Cells, Floats
from roadworthy.monitor.messages import LEAST_SCORED
from roadworthy.monitor.windows import CellScores

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State

DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.436875, "year": 365.2425}
LIKELIER = 0.0
"""The log-odds from which on an alarm is raised: the risk is more likely than not above the tolerable."""
GAP = 1.0
"""An alarm is cleared so much below where it is raised, unless clean windows seldom get there."""
LONGEST = 16_384
"""Events that are read at most, however alike they are: as many are always held."""
LONGER = 2
"""How many times as long as the window a stretch must be to be read beside it: each then gets half of the false alarms."""
KEPT, SPANS_KEPT = 10_000, 1000
"""Alarms, and spans of past alarms, that are remembered."""
NOTHING_QUIET = (-math.inf, -math.inf)
"""Levels below which no window lies."""
_SLACK = 1.0001
"""A time that was tabled is not beyond the table by rounding."""
_RATE = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(?:per|a|an|/)\s*(hour|day|week|month|year)\s*", re.IGNORECASE
)
Ends = Sequence[int] | NDArray[np.intp]
"""Places in a stream before which windows end, rising; a range if they are evenly spaced."""


def alarms_per_day(text: str) -> float:
    """A rate in words as a number.

    >>> alarms_per_day("2 per day"), alarms_per_day("1 per week")
    (2.0, 0.14285714285714285)
    """
    found = _RATE.fullmatch(str(text))
    if not found or float(found[1]) <= 0:
        raise ValueError(f"Write false alarms as '1 per month' or '2 per day', found {text!r}.")
    return float(found[1]) / DAYS[found[2].lower()]


def odds_to_probability(log_odds: float) -> float:
    """Without overflow.

    >>> odds_to_probability(0.0), odds_to_probability(-1000.0)
    (0.5, 0.0)
    """
    small = math.exp(-abs(log_odds))
    return 1.0 / (1.0 + small) if log_odds >= 0 else small / (1.0 + small)


class Pass(NamedTuple):
    """So many events are read, and an alarm has this burden of proof."""

    length: int
    burden: float


@dataclass(frozen=True)
class AlarmRule:
    """Which window is watched, how often, and what proof an alarm needs."""

    window: int
    stride: int
    """Events between two looks."""
    burden: float
    """The logarithm of how many times likelier no shift is taken to be beforehand, if events are independent."""
    false_alarms: str
    events_per_day: float
    on: float = LIKELIER
    """The log-odds from which on an alarm is then raised."""
    off: float = LIKELIER - GAP
    """The log-odds, without any burden, below which it is cleared."""
    by_time: tuple[tuple[float, float], ...] = ()
    """(autocorrelation time, burden) for streams whose events are alike. Beyond the last one a window says too little."""
    quiet: tuple[float, float] = NOTHING_QUIET
    """Mean shift score and mean expected error: a window below both is passed over, since it cannot come near an alarm."""
    detects: tuple[tuple[str, float], ...] = ()
    """(kind of shift, probability of an alarm within two windows of a step from none to 30% of it), by simulation."""
    notes: tuple[str, ...] = ()
    stretch: int = 0
    """Independent events that notice such a step: if a window holds fewer, a longer stretch is read that holds as many."""
    by_stretch: tuple[tuple[float, float], ...] = ()
    """(autocorrelation time, burden) for that stretch. Beyond the last one nothing that can be read says enough."""
    not_due: tuple[str, ...] = ()
    """Kinds of which 30% is still tolerable: no alarm is due for such a step."""
    sure: float = math.inf
    """The log-odds from which on nothing is to be proven, if clean data may cost as much as is tolerable; else infinity."""

    def __post_init__(self) -> None:
        alarms_per_day(self.false_alarms)
        if not (self.window >= 2 and self.stride >= 1):
            raise ValueError(
                f"An alarm needs a window of at least 2 events and a stride of at least 1, "
                f"found {self.window}, {self.stride}."
            )
        if math.isnan(self.burden) or self.burden == math.inf:
            raise ValueError(
                f"A burden of proof is finite, or minus infinity, found {self.burden}."
            )
        if not self.events_per_day > 0:
            raise ValueError(f"Events per day must be positive, found {self.events_per_day}.")
        if not self.off <= self.on:
            raise ValueError(f"An alarm needs off <= on, found off {self.off}, on {self.on}.")

    @property
    def per_event(self) -> float:
        """False alarms an event that are accepted."""
        return alarms_per_day(self.false_alarms) / self.events_per_day

    @property
    def keeps_rate(self) -> bool:
        """Whether it keeps the stated rate of false alarms: not if clean data cost about as much as is tolerable."""
        return self.burden > -math.inf and self.sure == math.inf

    def burden_at(self, time: float) -> float:
        """The burden of the window for a stream of which `time` events say as much as one; infinity: it says too little."""
        points = self.by_time or ((1.0, self.burden),)
        return math.inf if time > _SLACK * points[-1][0] else _between(points, time)

    def reach(self, time: float) -> int:
        """Events of the longer stretch that is read; 0 if the window is about as long, or if none is long enough."""
        if not self.by_stretch or time > _SLACK * self.by_stretch[-1][0]:
            return 0
        if time * _SLACK < self.by_stretch[0][0]:
            return 0
        length = min(math.ceil(self.stretch * time), LONGEST)
        return length if length * _SLACK >= LONGER * self.window else 0

    def passes(self, time: float) -> tuple[Pass, ...]:
        """What is read of a stream of which `time` events say as much as one; nothing if nothing says enough."""
        burden, length = self.burden_at(time), self.reach(time)
        found = [Pass(self.window, burden)] if burden < math.inf or self.sure < math.inf else []
        if length:
            found.append(Pass(length, _between(self.by_stretch, time)))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is null."""
        record = asdict(self)
        for name in ("burden", "sure"):
            record[name] = _finite(record[name])
        record["quiet"] = [*map(_finite, self.quiet)]
        for name in ("by_time", "by_stretch"):
            record[name] = [[time, _finite(burden)] for time, burden in record[name]]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> AlarmRule:
        """The inverse of `to_dict`."""
        found = dict(record)
        found["burden"] = _or_infinite(record["burden"])
        found["sure"] = math.inf if record["sure"] is None else float(record["sure"])
        found["quiet"] = tuple(map(_or_infinite, record["quiet"]))
        for name in ("by_time", "by_stretch"):
            found[name] = tuple((float(t), _or_infinite(burden)) for t, burden in record[name])
        found["detects"] = tuple((str(kind), float(p)) for kind, p in record["detects"])
        for name in ("notes", "not_due"):
            found[name] = tuple(map(str, record[name]))
        return cls(**found)


def _between(points: tuple[tuple[float, float], ...], time: float) -> float:
    """The burden at a time, by the logarithm of it between two that are tabled."""
    found = points[0][1]
    for (t0, a), (t1, b) in pairwise(points):
        if t0 <= time:
            found = b if a == b else a + (b - a) * min(1.0, math.log(time / t0) / math.log(t1 / t0))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_infinite(value: float | None) -> float:
    return -math.inf if value is None else float(value)


@dataclass(frozen=True)
class Alarm:
    """An alarm raised or cleared; or that figures could not be relied on for a whole window, and can be again."""

    time: float
    event: int
    """How many events had been counted."""
    kind: str
    """raised, cleared, cannot tell or can tell"""
    exceedance: float | None = None
    """P(risk > tolerable) of the events that were read; None if they allow no estimate."""
    risk: float | None = None
    log_odds: float | None = None
    """Of the same."""
    reason: str = ""
    """Why there is no estimate; or what labels say, if they raised it."""
    read: int = 0
    """Events whose figures these are: the last window, or a longer stretch if events are alike."""
    by_labels: int = 0
    """Which of the alarms by labels it is, 1 the first; 0: an alarm by the scores."""
    alarm_log_odds: float | None = None
    """What the alarm watched: the log-odds with its burden of proof if it was not on, without if it was."""


@dataclass
class Alarmed:
    """The first and the last event of every alarm that is over, and where the one that is on began; 1 is the first event.

    A shift that has ended is no sign of a new one, nor of how much events resemble each other: it is left out of both.

    >>> Alarmed([(5, 8)]).quiet(10, 6).tolist()
    [False, False, False, False, True, True]
    """

    spans: list[tuple[int, int]] = field(default_factory=list)
    since: int | None = None

    def end(self, event: int) -> None:
        """The alarm is cleared."""
        if self.since is not None:
            self.spans = [*self.spans, (self.since, event)][-SPANS_KEPT:]
        self.since = None

    def quiet(self, last: int, count: int) -> NDArray[np.bool_]:
        """Which of so many events up to the one with the number `last` belong to no alarm that is over."""
        found, before = np.ones(count, dtype=bool), last - count
        for start, stop in self.spans:
            found[max(start - 1 - before, 0) : max(stop - before, 0)] = False
        return found


@dataclass(frozen=True)
class Watched:
    """What is watched, and how: everything about an alarm but its burden of proof."""

    estimator: Estimator
    scores: CellScores
    window: int
    stride: int
    quiet: tuple[float, float] = NOTHING_QUIET

    def odds_of(
        self, streams: Sequence[np.ndarray], ends: Ends, *, length: int, shrink: float = 1.0
    ) -> Odds:
        """The odds of all windows of several streams, streams x ends; minus infinity for those that are passed over."""
        found = np.full((2, len(streams), len(ends)), -math.inf)
        loud = [self._loud(cells, ends, length) for cells in streams]
        if any(len(at) for at in loud):
            counts = np.concatenate(
                [
                    counts_before(cells, [int(ends[i]) for i in at.tolist()], length, self.cells)
                    for cells, at in zip(streams, loud, strict=True)
                ]
            )
            which = np.repeat(np.arange(len(streams)), [len(at) for at in loud])
            odds = self.estimator.odds(counts, shrink=shrink)
            found[:, which, np.concatenate(loud)] = odds
        return Odds(*found)

    def means(self, cells: np.ndarray, ends: Ends, *, length: int) -> tuple[Floats, Floats]:
        """Mean shift score and mean expected error of each of these windows, of the events that have a score."""
        scored = np.maximum(_sums(cells, ends, length, self._ones), 1.0)
        shift, error = (_sums(cells, ends, length, by) for by in (self._shift, self._error))
        return shift / scored, error / scored

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.scores.shift)

    def _loud(self, cells: np.ndarray, ends: Ends, length: int) -> NDArray[np.intp]:
        """Which windows are not passed over."""
        if not len(ends):
            return np.zeros(0, dtype=np.intp)
        scored = _sums(cells, ends, length, self._ones)
        some = np.maximum(scored, 1.0)
        loud = _sums(cells, ends, length, self._shift) >= self.quiet[0] * some
        if self.quiet[1] <= 1.0:  # no mean error is larger
            loud |= _sums(cells, ends, length, self._error) >= self.quiet[1] * some
        loud &= scored >= LEAST_SCORED * length
        return loud.nonzero()[0]

    @cached_property
    def _shift(self) -> Floats:
        """What a cell adds to the shift score; one without a score (cell -1, the last) adds nothing."""
        return np.append(self.scores.shift, 0.0)

    @cached_property
    def _error(self) -> Floats:
        return np.append(self.scores.error, 0.0)

    @cached_property
    def _ones(self) -> Floats:
        return np.append(np.ones(self.cells), 0.0)


def _sums(cells: np.ndarray, ends: Ends, length: int, values: Floats) -> Floats:
    """Sums of the values of the cells over the windows of so many events before each of these ends."""
    upto = np.asarray(ends)
    starts = np.maximum(upto - length, 0)
    first = int(starts[0])
    total = np.concatenate([[0.0], np.cumsum(values.take(cells[first : int(upto[-1])]))])
    found: Floats = total[upto - first] - total[starts - first]
    return found


def counts_before(cells: np.ndarray, ends: Ends, length: int, size: int) -> Floats:
    """Counts by cell of the windows of so many events before each of these ends; events without a score are left out."""
    counts = np.empty((len(ends), size))
    for row, end in zip(counts, ends, strict=True):
        part = cells[max(int(end) - length, 0) : int(end)]
        row[:] = np.bincount(part[part >= 0], minlength=size)
    return counts


class Watch:
    """The alarm of one stream by its scores: what is on, since when, and what to say next."""

    def __init__(self, bundle: Bundle, scores: CellScores) -> None:
        self.bundle, self.scores, self.rule = bundle, scores, bundle.alarm
        self.active = False
        """Whether an alarm is on."""
        self.cannot_tell = False
        """Whether figures cannot be relied on for so long that it is an alarm."""
        self.doubted: int | None = None
        """The event since which figures cannot be relied on; None if they can."""
        self.alarmed = Alarmed()
        self.time = StreamTime(bundle, scores)
        self._passes_by: tuple[float, tuple[Pass, ...]] = (math.nan, ())
        self._looked = 0
        self._said: list[Alarm] = []

    def due(self, counted: int) -> bool:
        """Whether there is something to look at."""
        if (
            self.rule is not None
            and counted >= (self._looked // self.rule.stride + 1) * self.rule.stride
        ):
            return True
        return counted >= self.time.next

    def look(self, state: State) -> list[Alarm]:
        """Evaluate the windows that have become due since the last look; what is to be said of them."""
        counted, self._said = state.counted, []
        if not self.due(counted):
            return []
        # Windows that were due before the time is read are judged by what was known then, however events come in calls.
        self._evaluate(state, min(counted, self.time.next - 1))
        while self.time.next <= counted:
            # An alarm whose time lets nothing be read would never be cleared.
            keep = self.active and bool(self._passes())
            self._read_time(state, self.time.next, keep=keep)
            self._evaluate(state, min(counted, self.time.next - 1))
        return self._said

    def look_again(self, state: State) -> list[Alarm]:
        """Begin anew with what a state holds, after a merge: one look at its last window."""
        self.active, self.doubted, self.cannot_tell, self.alarmed = False, None, False, Alarmed()
        self._looked, self._said = state.counted, []
        self._read_time(state, state.counted, keep=False)
        if self.rule and len(state.recent) >= self.rule.window and state.counted >= self.time.first:
            self._walk(state, range(state.counted, state.counted + 1))
        return self._said

    def watched_at(self, state: State, position: int, *, on: bool) -> float | None:
        """The log-odds that the alarm watched after so many events, if it was on or not; None if it could read nothing."""
        end = position - (state.counted - len(state.recent))
        if self.rule is None or end < self.rule.window:
            return None
        _, values = self._passed(state, [end], on=on, whole=True)
        highest = float(values.max(initial=-math.inf))
        return highest if math.isfinite(highest) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "active": self.active,
            "cannot_tell": self.cannot_tell,
            "doubted": self.doubted,
            "looked": self._looked,
            "spans": [list(span) for span in self.alarmed.spans],
            "since": self.alarmed.since,
            **self.time.to_dict(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        """The inverse of `to_dict`."""
        self.active, self.cannot_tell = bool(record["active"]), bool(record["cannot_tell"])
        self.doubted, self._looked = record["doubted"], int(record["looked"])
        self.alarmed = Alarmed([(int(a), int(b)) for a, b in record["spans"]], record["since"])
        self.time.restore(record)

    def _read_time(self, state: State, counted: int, *, keep: bool) -> None:
        cells = self._upto(state, counted)
        partial = bool(self.alarmed.spans) and not keep
        if partial:
            cells = cells[self.alarmed.quiet(counted, len(cells))]
        self.time.read(cells, counted, keep=keep, partial=partial)

    def _upto(self, state: State, counted: int) -> Cells:
        """The events from which the time is read when so many had been counted."""
        held = state.recent.cell
        return held[: max(len(held) - (state.counted - counted), 0)][-self.time.history :]

    def _evaluate(self, state: State, upto: int) -> None:
        """Look at every window that is due until so many events were counted, or until the time is read again."""
        rule = self.rule
        if rule is None or upto <= self._looked:
            return
        gone = state.counted - len(state.recent)
        # Before so many events nothing is known of how much they resemble each other; and a window must still be held.
        first = max(self._looked + 1, self.time.first, gone + rule.window)
        positions = range(-(-first // rule.stride) * rule.stride, upto + 1, rule.stride)
        while positions:
            done = self._walk(state, positions)
            positions = positions[done : bisect_left(positions, self.time.next)]
        self._looked = min(upto, self.time.next - 1)

    def _walk(self, state: State, positions: range) -> int:
        """Look at one window after the other, up to one at which an alarm is raised or cleared: what is read then changes.

        Returns how many were looked at.
        """
        assert self.rule is not None
        on, off, gone = self.rule.on, self.rule.off, state.counted - len(state.recent)
        ends = range(positions[0] - gone, positions[-1] - gone + 1, positions.step)
        passes, values = self._passed(state, ends, on=self.active, whole=self.active)
        # Once a window it is asked whether its figures can be relied on.
        asked = [i for i, p in enumerate(positions) if p % self.rule.window < self.rule.stride]
        doubts = dict(zip(asked, self._doubts(state, [ends[i] for i in asked]), strict=True))
        calm = not (self.active or self.doubted is not None or any(doubts.values()))
        if calm and (values < on).all():
            return len(positions)
        highest = values.max(axis=0, initial=-math.inf).tolist()
        for i, (position, end) in enumerate(zip(positions, ends, strict=True)):
            above = highest[i] >= on
            if above and not self.active and self._lengthened(state, position):
                return i  # looked at again, by the time that is known now
            if i in doubts:
                self._reliable(state, position, end, doubts[i])
            if not self.active and above:
                if self.cannot_tell and self._doubts(state, [end])[0] is None:
                    self._reliable(state, position, end, None)
                at = next(p for p, v in zip(passes, values[:, i], strict=True) if v >= on)
                self._say(state, position, end, "raised", at)
                return i + 1
            if self.active and highest[i] < off and not self._unreadable(state, end, highest[i]):
                at = passes[int(values[:, i].argmax())]
                self._say(state, position, end, "cleared", at._replace(burden=-math.inf))
                return i + 1
        return len(positions)

    def _lengthened(self, state: State, position: int) -> bool:
        cells = self._upto(state, position)
        return self.time.lengthened(cells[self.alarmed.quiet(position, len(cells))], position)

    def _passed(
        self, state: State, ends: Ends, *, on: bool, whole: bool
    ) -> tuple[tuple[Pass, ...], Floats]:
        """What is read, and the log-odds (passes x ends) that it gives: minus infinity for too few events.

        The burden is lifted for an alarm that is `on`; the `whole` stream is looked at, or what is quiet passed over.
        """
        assert self.rule is not None
        passes = self._passes() if self.bundle.estimator.separation.enough else ()
        watched = replace(self._watched, quiet=NOTHING_QUIET) if whole else self._watched
        values = np.full((len(passes), len(ends)), -math.inf)
        for value, (length, burden) in zip(values, passes, strict=True):
            cells, upto, held = self._read(state, ends, length)
            enough = np.asarray(held) >= length
            if enough.any():
                some = upto if enough.all() else np.asarray(upto)[enough]
                odds = watched.odds_of([cells], some, length=length, shrink=self.time.shrink())
                value[enough] = odds.judged(-math.inf if on else burden, self.rule.sure)[0]
        return passes, values

    def _passes(self) -> tuple[Pass, ...]:
        assert self.rule is not None
        if self._passes_by[0] != self.time.value:
            self._passes_by = self.time.value, self.rule.passes(self.time.value)
        return self._passes_by[1]

    def _read(self, state: State, ends: Ends, length: int) -> tuple[Cells, Ends, Ends]:
        """The events of which so many are read, where they end, and how many there are up to there.

        Beyond the window they are those outside past alarms.
        """
        assert self.rule is not None
        cells = state.recent.cell
        if length <= self.rule.window or not self.alarmed.spans:
            return cells, ends, ends
        quiet = self.alarmed.quiet(state.counted, len(cells))
        before = np.concatenate([[0], np.cumsum(quiet)])
        upto = before[np.asarray(ends)]
        reach = before[np.maximum(np.asarray(ends) - self.time.history, 0)]
        return cells[quiet], upto, upto - reach

    def _unreadable(self, state: State, end: int, highest: float) -> bool:
        """Whether it is unknown if the risk up to there is tolerable: nothing was read, or nothing that can be relied on."""
        if highest == -math.inf or self._doubts(state, [end])[0] is not None:
            return True
        for length, _ in self._passes():
            cells, (last,), (held,) = self._read(state, [end], length)
            part = cells[max(int(last) - length, 0) : int(last)]
            if held >= length and np.count_nonzero(part >= 0) < LEAST_SCORED * length:
                return True
        return False

    def _doubts(self, state: State, ends: Sequence[int]) -> list[str | None]:
        """Why the figures of windows cannot be relied on; None if they can."""
        assert self.rule is not None
        if not ends:
            return []
        window, time = self.rule.window, self.time.value
        counts = counts_before(state.recent.cell, ends, window, self._watched.cells)
        few = [
            messages.too_few_scored(self.bundle.calibration, int(n), window)
            for n in counts.sum(axis=1)
        ]
        if self._passes():
            reasons: Sequence[str | None] = self.bundle.estimator.doubt(
                counts, shrink=self.time.shrink()
            )
        else:
            # At the start of a stream nothing can be said yet, and that is no alarm.
            since = FEW if math.isfinite(time) else 2 * (FEW + window)
            gone = state.counted - len(state.recent)
            why = messages.too_alike(self.rule, time)
            reasons = [why if gone + end >= since else None for end in ends]
        return [none or reason for none, reason in zip(few, reasons, strict=True)]

    @cached_property
    def _watched(self) -> Watched:
        rule = self.rule
        assert rule is not None
        return Watched(self.bundle.estimator, self.scores, rule.window, rule.stride, rule.quiet)

    def _reliable(self, state: State, position: int, end: int, reason: str | None) -> None:
        """Whether figures can be relied on now; if they cannot for a whole window, that is said."""
        assert self.rule is not None
        if reason is None:
            self.doubted = None
            if self.cannot_tell:
                self._say(state, position, end, "can tell")
        elif self.doubted is None:
            self.doubted = position
        elif not self.cannot_tell and position - self.doubted >= self.rule.window:
            self._say(state, position, end, "cannot tell", reason=reason)

    def _say(
        self,
        state: State,
        position: int,
        end: int,
        kind: str,
        at: Pass | None = None,
        reason: str = "",
    ) -> None:
        """Note an alarm with the figures of the events that were read."""
        assert self.rule is not None
        alone = -math.inf if self.active else self.rule.burden_at(self.time.value)
        length, burden = at or Pass(self.rule.window, alone)
        when = float(state.recent.time[end - 1])
        if kind == "cannot tell":
            self.cannot_tell = True
            self._said.append(Alarm(when, position, kind, reason=reason, read=length))
            return
        cells, (last,), _ = self._read(state, [end], length)
        counts = counts_before(cells, [int(last)], length, self._watched.cells)
        time = self.time.of(state.recent.cell[:end]) if kind == "can tell" else None
        shrink = self.time.shrink(time)
        found = self.bundle.estimator.estimate(counts, shrink=shrink)
        few = messages.too_few_scored(self.bundle.calibration, int(counts.sum()), length)
        doubt = few or found.cannot_tell[0]
        if doubt:
            # That scores match no calibrated condition is why it is raised; what it costs is unknown.
            reason = doubt if kind == "raised" else ""
            self._said.append(Alarm(when, position, kind, reason=reason, read=length))
        else:
            odds = self.bundle.estimator.odds(counts, shrink=shrink)
            above, judged = float(odds.above[0]), float(odds.judged(burden, self.rule.sure)[0])
            figures = odds_to_probability(above), float(found.risk[0]), above
            judged_or_none = _finite(judged)
            self._said.append(
                Alarm(when, position, kind, *figures, read=length, alarm_log_odds=judged_or_none)
            )
        if kind == "can tell":
            self.cannot_tell = False
        elif kind == "raised":
            self.active = True
            # Within two windows of a step it should have been noticed: they hold what raised the alarm.
            self.alarmed.since = max(position - max(length, 2 * self.rule.window) + 1, 1)
        else:
            self.active = False
            self.alarmed.end(position)
