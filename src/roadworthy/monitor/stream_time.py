"""How many events of one stream say as much as one, read again as the stream goes on; and how many are held for that.

The autocorrelation time is read from the last events, without those of the last two windows: a step that is just happening must
not make itself look like correlation. While an alarm is on, the time by which it is judged stays what it was (one that is but an
upper limit, until more is known), and what was alarmed is left out of it afterwards (`roadworthy.monitor.alarmed`). It is read
seldom, and of the last events once more before an alarm is raised: a stream may have become more alike since. The time by which
figures are told is a function of the events that are held alone, so that replicas put together tell what one would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.monitor.autocorrelation import FEW, FIRST, integrated_time

if TYPE_CHECKING:
    from roadworthy.monitor.alarmed import Alarmed
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.cell_scores import CellScores
    from roadworthy.monitor.events import Cells, Floats
    from roadworthy.monitor.state import State

HISTORY = 32_768
"""Events from which the autocorrelation time is read."""
OFTEN, SELDOM = 64, 16_384
"""It is read again after a quarter more events, but not before so many and not later."""
LAST = (1024, 4096, 16_384)
"""The last events of which it is read before an alarm is raised."""
CLEARLY = 3.0
"""By how many standard errors their time must be longer than what was known: chance must not put an alarm off."""
CHUNK = 4096
"""Events that are taken in one go, and looked at afterwards."""


def capacity_for(bundle: Bundle) -> int:
    """How many events must be held: the ids to know again, the windows, and a history for the autocorrelation time."""
    window = bundle.alarm.window if bundle.alarm else 0
    return max(bundle.id_horizon, bundle.windows.longest, 2 * window + SELDOM) + CHUNK


def arrivals_for(bundle: Bundle) -> int:
    """How many events must be held in the order of arrival: those from which the autocorrelation time is read."""
    window = bundle.alarm.window if bundle.alarm else 0
    return min(HISTORY + 2 * window + CHUNK, capacity_for(bundle))


class StreamTime:
    """The time of one stream, by which its alarm is judged."""

    def __init__(self, bundle: Bundle, scores: CellScores) -> None:
        self._scores, rule = scores, bundle.alarm
        self._window, self._spare = (
            (rule.window, 2 * rule.window) if rule else (min(bundle.windows.lengths), 0)
        )
        self.history = arrivals_for(bundle) - CHUNK
        """Events that are read at most: as many are held before each, however they come in calls."""
        self.value = 1.0
        self.first = max(rule.window, FIRST) if rule else FIRST
        """Events before which nobody can tell."""
        self.next = self.first
        """After how many events it is read again."""
        self.limit: int | None = 0
        """After how many events it was read from so few that it is but an upper limit; None where it is more than that."""
        self._held = (0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"time": self.value, "next_time": self.next, "limit": self.limit}

    def restore(self, record: dict[str, Any]) -> None:
        """The inverse of `to_dict`."""
        self.value, self.next, self.limit = (
            float(record["time"]),
            int(record["next_time"]),
            record.get("limit"),
        )
        looked = int(record["looked"])
        if "limit" not in record and math.isinf(self.value) and looked:
            # From before it was known how soon it is to be read again where nobody can tell.
            self.limit, self.next = looked, min(self.next, looked + OFTEN)

    def of_held(self, state: State) -> float:
        """The time by which figures are told: that of all events that are held, by their own times."""
        if self._held[0] != state.counted:
            self._held = (state.counted, self._of(state.recent.cell[-self.history :]))
        return self._held[1]

    def of_arrived(self, state: State, end: int) -> float:
        """The same of the events that were held when the first so many of those that are had arrived."""
        return self._of(state.arrivals.cell[:end][-self.history :])

    def read(self, state: State, counted: int, alarmed: Alarmed, *, keep: bool) -> None:
        """Read it as it was when so many events had been counted; or `keep` it, unless it is an upper limit and more is known."""
        self._read_after(counted)
        cells = self._upto(state, counted)
        if keep:
            # Not a whole span later because an alarm is on just now: it may be on for a time that is wrong.
            self.next = min(self.next, counted + FEW)
            if self.limit is None:
                return
            cells = cells[max(len(cells) - (counted - self.limit), 0) :]
        elif alarmed.spans:
            cells = cells[alarmed.quiet(counted, len(cells))]
        if (keep or alarmed.spans) and _scored(cells) < FEW:
            return  # too little is left to know better than before
        self._take(self._of(cells, sure=True), counted, firm=_scored(cells) >= FEW)

    def before_alarm(self, state: State, counted: int, alarmed: Alarmed) -> float:
        """The time when so many events had been counted, or that of the last ones, where these are clearly more alike.

        A stream whose events become alike is otherwise judged for long as if they were not.
        """
        cells = self._upto(state, counted)
        cells = cells[alarmed.quiet(counted, len(cells))]
        cells = cells[: max(len(cells) - self._spare, 0)]
        longest = self.value
        for n in LAST:
            last = cells[-n:]
            if _scored(last) >= FEW:
                found = self._of_all(last, sure=True)
                if found > self.value * (1.0 + CLEARLY * math.sqrt(20.0 * self.value / len(last))):
                    longest = max(longest, found)
        return longest

    def lengthened(self, state: State, counted: int, alarmed: Alarmed, *, now: int) -> bool:
        """Whether the last events are more alike than was known; from `now` on it is, until it is soon read again."""
        known, self.value = self.value, self.before_alarm(state, counted, alarmed)
        if self.value <= known:
            return False
        # They may be so for a short while only, and what comes after would be judged by it for a whole span.
        self.next = min(self.next, now + FEW)
        return True

    def shrink(self, time: float | None = None) -> float:
        """Independent events over counted ones; where nobody can tell, an estimator is not asked for less than nothing."""
        return 1.0 / min(self.value if time is None else time, float(HISTORY))

    def read_of_all(self, others: Sequence[StreamTime], state: State, alarmed: Alarmed) -> None:
        """Read it from what replicas hold together, without what was alarmed in one of them or is still.

        Where too little is left, the longest time that one of them knows stands, whichever of them takes in the others; what one
        that has just begun knows is but an upper limit, and stands where none knows more.
        """
        read = [one for one in (self, *others) if one.next > one.first]
        firm = [one.value for one in read if one.firm]
        known = firm or [one.value for one in read]
        self._read_after(state.counted)
        cells = state.arrivals.cell[-self.history :]
        quiet = alarmed.quiet(state.counted, len(cells))
        if alarmed.since is not None:
            quiet[max(alarmed.since - 1 - (state.counted - len(cells)), 0) :] = False
        cells = cells[quiet]
        if quiet.all() or _scored(cells) >= FEW or not known:
            self._take(self._of(cells, sure=True), state.counted, firm=_scored(cells) >= FEW)
        else:
            self._take(max(known), state.counted, firm=bool(firm))

    @property
    def firm(self) -> bool:
        """Whether it was read from enough events to be more than an upper limit."""
        return self.limit is None

    def _take(self, value: float, counted: int, *, firm: bool) -> None:
        self.value = value
        self.limit = None if firm and math.isfinite(value) else counted
        if self.limit is not None:  # as soon as somebody can tell, or tell more
            self.next = min(self.next, counted + (FEW if math.isfinite(value) else OFTEN))

    def _upto(self, state: State, counted: int) -> Cells:
        """The events that are read when so many had been counted."""
        held = state.arrivals.cell
        return held[: max(len(held) - (state.counted - counted), 0)][-self.history :]

    def _read_after(self, counted: int) -> None:
        self.next = counted + min(SELDOM, max(OFTEN, counted // 4))

    def _of(self, cells: Cells, *, sure: bool = False) -> float:
        """That of all but the last two windows."""
        return self._of_all(
            cells[: len(cells) - self._spare] if len(cells) > 4 * self._spare else cells, sure=sure
        )

    def _of_all(self, cells: Cells, *, sure: bool) -> float:
        scores = self._shift_or_gap.take(
            cells
        )  # the cell -1 of an event without a score is the last
        return integrated_time(
            scores, window=self._window, variance=self._scores.variance, sure=sure
        )

    @cached_property
    def _shift_or_gap(self) -> Floats:
        return np.append(self._scores.shift, np.nan)


def _scored(cells: Cells) -> int:
    return int(np.count_nonzero(cells >= 0))
