"""Where an alarm is decided: the rule with its burden of proof, and what is raised and cleared.

An alarm is raised if the risk is more likely than not above the tolerable, even if no shift at all is
taken to be exp(burden) times likelier beforehand (`roadworthy.monitor.threshold` sets the burden).
While an alarm is on the burden is lifted: it is cleared if the risk is likely tolerable.

If events are autocorrelated, tau of them say as much as one: the alarm then reads more events than its
window, and takes its burden from a table over tau. While there is no estimate, an alarm that is on is
not cleared; if that lasts for a whole window, it is an alarm of its own ("no estimate").

>>> table = ((1.0, 100, 9.0), (4.0, 100, 5.0), (400.0, 10_000, 6.0))
>>> rule = AlarmRule(100, 50, "1 per month", 1000.0, table)
>>> round(1 / rule.per_event), rule.on, rule.off, f"{math.exp(rule.burden):,.0f} to 1"
(30437, 0.0, -1.0, '8,103 to 1')
>>> [rule.at(time) for time in (1.0, 2.0, 40.0, 500.0)]
[Reads(length=100, burden=9.0), Reads(length=100, burden=7.0), Reads(length=1000, burden=5.5), None]
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.estimator import Estimator, Odds
from roadworthy.monitor import messages
from roadworthy.monitor.events import Cells, Floats
from roadworthy.monitor.messages import LEAST_SCORED
from roadworthy.monitor.windows import CellScores
from roadworthy.statistics.autocorrelation import FEW, FIRST

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State

Ends = Sequence[int] | NDArray[Any]
DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.436875, "year": 365.2425}
LIKELIER = 0.0
"""The log-odds from which on an alarm is raised: the risk is more likely than not above the limit."""
GAP = 1.0
"""An alarm is cleared so much below where it is raised, unless clean windows seldom get there."""
LONGEST = 16_384
"""Events that are read at most, however alike they are: as many are always held."""
KEPT = 10_000
"""Alarms that are remembered."""
HISTORY = 32_768
"""Events from which the autocorrelation time of a stream is read."""
OFTEN, SELDOM = 64, 16_384
"""It is read again after a quarter more events, but not before and not later than this."""
LAST, CLEARLY = 1024, 3.0
"""The last events of which it is read before an alarm is raised, and the standard errors by which
their time must then be longer than the known one: chance must not delay an alarm."""
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
        raise ValueError(f"Write false alarms as '1 per month' or '2 per day', found {text!r}.")
    return float(found[1]) / DAYS[found[2].lower()]


class Reads(NamedTuple):
    """So many events are read, and an alarm has this burden of proof."""

    length: int
    burden: float


@dataclass(frozen=True)
class AlarmRule:
    """Which window is watched, how often, and what proof an alarm needs."""

    window: int
    stride: int
    """Events between two looks."""
    false_alarms: str
    events_per_day: float
    table: tuple[tuple[float, int, float], ...]
    """(autocorrelation time, events that are read, burden of proof): from time 1, the window, to the
    time beyond which nothing that can be read says enough. The burden is the logarithm of how many
    times likelier no shift is taken to be beforehand."""
    on: float = LIKELIER
    """The log-odds from which on an alarm is raised, with the burden."""
    off: float = LIKELIER - GAP
    """The log-odds, without any burden, below which it is cleared."""
    detects: tuple[tuple[str, float], ...] = ()
    """(kind of shift, probability of an alarm within two windows of a step from none to 30% of it)"""
    not_due: tuple[str, ...] = ()
    """Kinds of which 30% is still tolerable: no alarm is due for such a step."""
    notes: tuple[str, ...] = ()

    @property
    def per_event(self) -> float:
        """False alarms an event that are accepted."""
        return alarms_per_day(self.false_alarms) / self.events_per_day

    @property
    def burden(self) -> float:
        """The burden of proof if events are independent."""
        return self.table[0][2]

    def at(self, time: float) -> Reads | None:
        """What is read of a stream of which `time` events say as much as one; None: too little."""
        times, lengths, burdens = np.array(self.table).T
        if not time <= _SLACK * times[-1]:
            return None
        at = math.log(time), np.log(times)
        length = math.ceil(math.exp(np.interp(*at, np.log(lengths))) - 1e-6)
        return Reads(length, float(np.interp(*at, burdens)))


@dataclass(frozen=True)
class Alarm:
    """An alarm raised or cleared; or that there was no estimate for a whole window, and is again."""

    time: float
    event: int
    """How many events had been counted."""
    kind: str
    """raised, cleared, no estimate or estimates again"""
    exceedance: float | None = None
    """P(risk > tolerable) of the events that were read; None if they allow no estimate."""
    risk: float | None = None
    log_odds: float | None = None
    """Of the same."""
    reason: str = ""
    """Why there is no estimate; or what labels say, if they raised it."""
    read: int = 0
    """Events whose figures these are: the last window, or more if events are autocorrelated."""
    by_labels: int = 0
    """Which of the alarms by labels it is, 1 the first; 0: an alarm by the scores."""
    alarm_log_odds: float | None = None
    """What the alarm watched: the log-odds with its burden of proof if it was not on, else without."""


def counts_before(cells: NDArray[Any], ends: Ends, length: int, size: int) -> Floats:
    """Counts by cell of the windows of so many events before each of these ends.

    Events without a score (-1) are left out.

    >>> counts_before(np.array([0, 1, 1, -1, 0]), [2, 5], 3, 2).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    upto = np.asarray(ends)
    since = np.maximum(upto - length, 0)
    # Windows overlap: each stretch between two edges is counted once.
    edges = np.unique(np.concatenate([since, upto]))
    part = cells[edges[0] : edges[-1]].astype(np.int64)
    rows = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    counted = np.bincount((rows * size + part)[part >= 0], minlength=(len(edges) - 1) * size)
    total = np.zeros((len(edges), size))
    np.cumsum(counted.reshape(-1, size), axis=0, out=total[1:])
    return total[edges.searchsorted(upto)] - total[edges.searchsorted(since)]


def bins_before(
    calibration: Calibration, cells: NDArray[Any], ends: Ends, length: int
) -> tuple[Floats, Floats]:
    """The same by bin of the shift score alone, and how many lie beyond the calibrated range."""
    bins, upto = calibration.shift.bins, np.asarray(ends)
    first = max(int(upto.min()) - length, 0)
    part = cells[first : upto.max()]
    places = part // (calibration.cells // bins) * 2 + part % 2
    counts = counts_before(places, upto - first, length, 2 * bins).reshape(-1, bins, 2)
    return counts.sum(axis=2), counts[:, :, 1].sum(axis=1)


def odds_before(
    estimator: Estimator,
    cells: NDArray[Any],
    ends: Ends,
    length: int,
    shrink: float = 1.0,
    least: float = -math.inf,
) -> Odds:
    """The odds of the windows of so many events before each of these ends.

    They are minus infinity for windows in which too few events have a score, and for those whose
    evidence cannot be `least`: to work out all of them would cost more than to count the events.
    """
    bins, _ = bins_before(estimator.calibration, cells, ends, length)
    near = bins.sum(axis=1) >= LEAST_SCORED * length
    if least > 0.0:
        near &= estimator.most_evidence(bins, shrink=shrink) >= least
    found = np.full((2, len(ends)), -math.inf)
    if near.any():
        some = counts_before(cells, np.asarray(ends)[near], length, estimator.calibration.cells)
        found[:, near] = estimator.odds(some, shrink=shrink)
    return Odds(*found)


def stream_time(scores: CellScores, cells: Cells, window: int, *, sure: bool = False) -> float:
    """The autocorrelation time of a stream's last events.

    The last two of the alarm's windows are left out: a step that is just happening must not look
    like correlation.
    """
    spare = 2 * window
    cells = cells[-HISTORY - spare :]
    return scores.time(cells[:-spare] if len(cells) > 4 * spare else cells, window, sure=sure)


@dataclass
class Watch:
    """The alarm of one stream by its scores: what is on, and what to say next."""

    bundle: Bundle
    rule: AlarmRule
    scores: CellScores
    active: bool = False
    """Whether an alarm is on."""
    no_estimate: bool = False
    """Whether there has been no estimate for so long that it is an alarm."""
    doubted: int | None = None
    """The event since which there is no estimate; None if there is one."""
    looked: int = 0
    """How many events had been counted at the last look."""
    time: float = 1.0
    """The autocorrelation time by which the alarm is judged."""
    known: bool = False
    """Whether it is an estimate, not just an upper limit."""
    next: int = 0
    """After how many events it is read again."""
    said: list[Alarm] = field(default_factory=list)
    """What is to be said of the last look."""

    def __post_init__(self) -> None:
        self.first = max(self.rule.window, FIRST)
        """Events before which nothing is known of their correlation."""
        self.next = self.next or self.first

    @property
    def memory(self) -> list[Any]:
        """What another watch of the same stream goes on from: plain JSON values."""
        return [getattr(self, part.name) for part in fields(self)[3:-1]]

    def due(self, counted: int) -> bool:
        """Whether there is something to look at."""
        stride = self.rule.stride
        return counted >= min((self.looked // stride + 1) * stride, self.next)

    def look(self, state: State) -> list[Alarm]:
        """Evaluate the windows that have become due since the last look; what is to be said."""
        self.said = []
        # Windows due before the time is read are judged by what was known then, however events come.
        self._evaluate(state)
        while self.next <= state.counted:
            # While an alarm is on, the shift itself must not look like correlation.
            keep = self.active and self.known and self._reads is not None
            self._read_time(self._held(state, self.next), self.next, keep=keep)
            self._evaluate(state)
        return self.said

    def look_again(self, state: State) -> list[Alarm]:
        """Begin anew with what a state holds, after a merge: one look at its last window."""
        self.active, self.doubted, self.no_estimate = False, None, False
        self.looked, self.said = state.counted, []
        self._read_time(state.recent.cell, state.counted, keep=False)
        if len(state.recent) >= self.rule.window and state.counted >= self.first:
            while not self._walk(state, range(state.counted, state.counted + 1)):
                pass  # events are more alike than was read: looked at again by the longer time
        return self.said

    def watched_now(self, state: State) -> float | None:
        """The log-odds that the alarm watches after the last event; None if it can read nothing."""
        if len(state.recent) < self.rule.window:
            return None
        watched = float(self._log_odds(state, [len(state.recent)], whole=True)[0])
        return watched if math.isfinite(watched) else None

    @property
    def _reads(self) -> Reads | None:
        return self.rule.at(self.time)

    @property
    def _shrink(self) -> float:
        """Independent events over counted ones."""
        return 1.0 / min(self.time, float(HISTORY))

    def _held(self, state: State, counted: int) -> NDArray[np.int16]:
        """The events that were held when so many had been counted."""
        return state.recent.cell[: max(counted - state.gone, 0)]

    def _read_time(self, cells: Cells, counted: int, *, keep: bool) -> None:
        """Read the autocorrelation time from the cells up to an event, or `keep` what is known."""
        self.next = counted + min(SELDOM, max(OFTEN, counted // 4))
        if keep:
            self.next = min(self.next, counted + FEW)
            return
        self.time = stream_time(self.scores, cells, self.rule.window, sure=True)
        self.known = bool(np.count_nonzero(cells >= 0) >= FEW)

    def _lengthened(self, cells: Cells, now: int) -> bool:
        """Whether the last events are clearly more alike than was known; the time is then theirs.

        Asked before an alarm is raised: a stream whose events have become alike would else raise
        false alarms until the next reading.
        """
        spare, known = 2 * self.rule.window, self.time
        last = cells[-LAST - spare : -spare]
        enough = np.count_nonzero(last >= 0) >= FEW
        found = self.scores.time(last, self.rule.window, sure=True) if enough else 1.0
        if found <= known * (1.0 + CLEARLY * math.sqrt(20.0 * known / LAST)):
            return False
        self.time, self.next = found, min(self.next, now + FEW)
        return True

    def _evaluate(self, state: State) -> None:
        """Look at every window that is due before the time is read again."""
        stride = self.rule.stride
        # A window must still be held.
        first = max(self.looked + 1, self.first, state.gone + self.rule.window)
        first = -(-first // stride) * stride
        while positions := range(first, min(state.counted, self.next - 1) + 1, stride):
            first = positions[0] + self._walk(state, positions) * stride
        self.looked = max(self.looked, min(state.counted, self.next - 1))

    def _walk(self, state: State, positions: range) -> int:
        """Look at one window after the other, until an alarm is raised or cleared.

        What is read changes then. Returns how many were looked at.
        """
        rule, ends = self.rule, np.array(positions) - state.gone
        values = self._log_odds(state, ends, whole=self.active).tolist()
        # Once a window it is asked whether there is an estimate.
        asked = [i for i, p in enumerate(positions) if p % rule.window < rule.stride]
        doubts = dict(zip(asked, self._doubts(state, ends[asked]), strict=True))
        for i, value in enumerate(values):
            position, end = positions[i], int(ends[i])
            raised = not self.active and value >= rule.on
            if raised and self._lengthened(self._held(state, position), position):
                return i  # looked at again, by the time that is known now
            if i in doubts:
                self._note_doubt(state, end, doubts[i])
            if raised:
                self._say(state, end, "raised")
                return i + 1
            if self.active and -math.inf < value < rule.off and not self._doubts(state, [end])[0]:
                self._say(state, end, "cleared")
                return i + 1
        return len(positions)

    def _log_odds(self, state: State, ends: Ends, *, whole: bool) -> Floats:
        """What the alarm watches at each of these ends: minus infinity if there is too little.

        The `whole` stream is worked out, or what cannot raise an alarm is passed over.
        """
        reads, upto, cells = self._reads, np.asarray(ends), state.recent.cell
        if reads is None or not self.bundle.estimator.separation.enough:
            return np.full(len(upto), -math.inf)
        length, burden = reads
        least = -math.inf if whole else burden
        odds = odds_before(self.bundle.estimator, cells, upto, length, self._shrink, least)
        return np.where(upto < length, -math.inf, odds.judged(-math.inf if self.active else burden))

    def _doubts(self, state: State, ends: Ends) -> list[str | None]:
        """Why there is no estimate of the events read up to each of these ends; None if there is."""
        if not len(ends):
            return []
        reads, estimator = self._reads, self.bundle.estimator
        length = reads.length if reads else self.rule.window
        bins, outside = bins_before(estimator.calibration, state.recent.cell, ends, length)
        read = zip(bins.sum(axis=1), np.minimum(ends, length), strict=True)
        few = [messages.too_few_scored(estimator.calibration, int(n), int(of)) for n, of in read]
        if reads is not None:
            reasons = estimator.doubt(bins, outside, shrink=self._shrink)
        else:
            # At the start of a stream nothing can be said yet, and that is no alarm.
            since = FEW if math.isfinite(self.time) else 2 * (FEW + self.rule.window)
            why = messages.too_alike(self.rule, self.time)
            reasons = tuple(why if end + state.gone >= since else None for end in ends)
        return [none or reason for none, reason in zip(few, reasons, strict=True)]

    def _note_doubt(self, state: State, end: int, reason: str | None) -> None:
        """If there has been no estimate for a whole window, that is said; and if there is again."""
        position = end + state.gone
        if reason is None:
            self.doubted = None
            if self.no_estimate:
                self._say(state, end, "estimates again")
        elif self.doubted is None:
            self.doubted = position
        elif not self.no_estimate and position - self.doubted >= self.rule.window:
            self._say(state, end, "no estimate", reason)

    def _say(self, state: State, end: int, kind: str, reason: str = "") -> None:
        """Note an alarm with the figures of the events that were read."""
        length, burden = self._reads or Reads(self.rule.window, math.inf)
        when = float(state.recent.time[end - 1]), end + state.gone, kind
        if doubt := reason or self._doubts(state, [end])[0]:
            # That scores match no calibrated condition is why it is raised; the cost is unknown.
            shown = doubt if kind in ("raised", "no estimate") else ""
            self.said.append(Alarm(*when, reason=shown, read=length))
        else:
            estimator, cells = self.bundle.estimator, state.recent.cell
            # There may be an estimate before there is an upper limit of the time.
            known = self._reads is not None
            time = self.time if known else stream_time(self.scores, cells[:end], self.rule.window)
            counts = counts_before(cells, [end], length, estimator.calibration.cells)
            odds = estimator.odds(counts, shrink=1.0 / time)
            above = float(odds.above[0])
            risk = float(estimator.estimate(counts, shrink=1.0 / time).risk[0])
            judged = float(odds.judged(-math.inf if self.active else burden)[0])
            watched = judged if math.isfinite(judged) else None
            figures = float(expit(above)), risk, above
            self.said.append(Alarm(*when, *figures, read=length, alarm_log_odds=watched))
        if kind in ("raised", "cleared"):
            self.active = kind == "raised"
        else:
            self.no_estimate = kind == "no estimate"
