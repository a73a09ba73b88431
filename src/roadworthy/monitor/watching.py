"""The alarm's memory: whether it is on, what it said, and how many events of this stream say as much as one.

The autocorrelation time is read from the last events, without those of the last two windows: a step that is just happening
must not make itself look like correlation. While an alarm is on it stays what it was.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.monitor.alarms import Alarm, walk
from roadworthy.monitor.autocorrelation import LEAST, integrated_time
from roadworthy.monitor.looks import Watched
from roadworthy.monitor.risk_state import odds_to_probability

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.cell_scores import CellScores
    from roadworthy.monitor.state import State

HISTORY = 32_768
"""Events from which the autocorrelation time is read."""
OFTEN, SELDOM = 512, 16_384
"""It is read again after a quarter more events, but not before so many and not later."""
KEPT = 10_000
CHUNK = 4096
"""Events that are taken in one go, and looked at afterwards."""


def capacity_for(bundle: Bundle) -> int:
    """How many events must be held: the ids to know again, the windows, and a history for the autocorrelation time."""
    window = bundle.alarm.window if bundle.alarm else 0
    return max(bundle.id_horizon, bundle.windows.longest, 2 * window + SELDOM) + CHUNK


class Watching:
    """What is known about the alarm of one stream."""

    def __init__(self, bundle: Bundle, scores: CellScores) -> None:
        self.bundle, self.scores, self.rule = bundle, scores, bundle.alarm
        self.active = False
        self.alarms: list[Alarm] = []
        self.time = 1.0
        self._looked = 0
        self._first = max(bundle.alarm.window, LEAST) if bundle.alarm else OFTEN
        self._next_time = min(OFTEN, self._first)
        self._next_look: float = bundle.alarm.stride if bundle.alarm else math.inf

    def due(self, counted: int) -> bool:
        """Whether there is something to look at."""
        return counted >= self._next_look or counted >= self._next_time

    def look(self, state: State) -> None:
        """Evaluate the windows that have become due since the last look, and raise or clear the alarm."""
        counted = state.counted
        if not self.due(counted):
            return
        while self._next_time <= counted:
            # Windows that were due before are judged by the time that was known then, however events come in calls.
            self._evaluate(state, self._next_time - 1)
            self._read_time(state, self._next_time)
        self._evaluate(state, counted)

    def _evaluate(self, state: State, upto: int) -> None:
        """Look at every window that is due until so many events were counted."""
        rule, before = self.rule, self._looked
        if rule is None or upto <= before:
            return
        self._looked = upto
        self._next_look = (upto // rule.stride + 1) * rule.stride
        positions = np.arange((before // rule.stride + 1) * rule.stride, upto + 1, rule.stride)
        ends = len(state.recent) - (state.counted - positions)
        # Before so many events nobody can tell how much they resemble each other.
        ready = (ends >= rule.window) & (positions >= self._first)
        positions, ends = positions[ready], ends[ready]
        if len(ends):
            self._walk(state, positions, ends)

    def merge(self, other: Watching, state: State) -> None:
        """Join what two replicas said, and look at what they hold together."""
        self.alarms = sorted({*self.alarms, *other.alarms})[-KEPT:]
        self._read_time(state, state.counted)
        self._looked = state.counted
        if self.rule is not None:
            self._next_look = (state.counted // self.rule.stride + 1) * self.rule.stride
            held = len(state.recent)
            self.active = self.active or other.active
            if held >= self.rule.window:
                self._walk(state, np.array([state.counted]), np.array([held]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"active": self.active, "time": self.time, "looked": self._looked, "next_time": self._next_time}

    def restore(self, record: dict[str, Any], alarms: list[Alarm]) -> None:
        """The inverse of `to_dict`."""
        self.active, self.time = bool(record["active"]), float(record["time"])
        self._looked, self._next_time = int(record["looked"]), int(record["next_time"])
        if self.rule is not None:
            self._next_look = (self._looked // self.rule.stride + 1) * self.rule.stride
        self.alarms = alarms

    def _read_time(self, state: State, counted: int) -> None:
        """Read the autocorrelation time as it was when so many events had been counted."""
        self._next_time = counted + min(SELDOM, max(OFTEN, counted // 4))
        if self.active:
            return
        spare = 2 * (self.rule.window if self.rule else 0)
        end = max(len(state.recent) - (state.counted - counted), 0)
        cells = state.recent.cell[max(0, end - min(HISTORY + spare, state.recent.capacity - CHUNK)) : end]
        if len(cells) > 4 * spare:
            cells = cells[: len(cells) - spare]
        self.time = integrated_time(self.scores.shift[cells[cells >= 0]])

    def _walk(self, state: State, positions: np.ndarray, ends: np.ndarray) -> None:
        rule = self.rule
        assert rule is not None
        on, off = rule.at(self.time)
        if math.isinf(on) and not self.active:
            return
        first = int(ends[0]) - rule.window
        cells = state.recent.cell[first:]
        watched = Watched(self.bundle.watch, self.scores, rule.window, rule.stride, rule.quiet)
        values = watched.log_odds(cells, ends - first, length=rule.window, shrink=1.0 / self.time)
        changes, self.active = walk(values.tolist(), on, off, active=self.active)
        for i, raised in changes:
            self.alarms.append(self._said(state, int(positions[i]), int(ends[i]), raised))
        del self.alarms[:-KEPT]

    def _said(self, state: State, position: int, end: int, raised: bool) -> Alarm:
        assert self.rule is not None
        part = state.recent.cell[end - self.rule.window : end]
        counts = np.bincount(part[part >= 0], minlength=len(self.scores.shift))
        shrink = 1.0 / self.time
        log_odds = float(self.bundle.watch.log_odds(counts, shrink=shrink)[0])
        risk = float(self.bundle.estimator.estimate(counts, shrink=shrink).risk[0])
        when = float(state.recent.time[end - 1])
        return Alarm(when, position, "raised" if raised else "cleared", odds_to_probability(log_odds), risk, log_odds)
