"""Events that are refused as late or as ahead: why, and whether most of them are.

A clock that was ahead makes everything after it late, and to one that is behind everything is
ahead. If most events that came last were refused, the figures are out of date, however calm they
look.

>>> lately = Lateness()
>>> lately.add(Taken(90, 0, 10, 0)); lately.mostly_refused
False
>>> lately.add(Taken(5, 0, 50, 0, ahead=40)); lately.mostly_refused
True
>>> lately.add(Taken(100, 0, 0, 0)); lately.mostly_refused
False
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from roadworthy.monitor import Taken

if TYPE_CHECKING:
    from roadworthy.monitor.state import State

RECENT = 100
"""Events that are looked back on, at least."""
LEAST = 20
"""Events below which nothing is said."""


class LateTaken(Taken):
    """What became of events of which some were late or ahead, and why."""

    why: Mapping[str, str]
    """By the name of the field of the answer."""


def with_reasons(taken: Taken, state: State, *, now: float) -> LateTaken:
    """The reasons beside the counts; `now` is the clock when the events came.

    >>> from roadworthy.monitor.state import State
    >>> state = State(cells=2, capacity=10, lateness=3600.0)
    >>> state.newest = 1_700_000_000.0
    >>> with_reasons(Taken(0, 0, 1, 0), state, now=1_700_000_005.0).why["why_late"]
    'More than 3,600 s older than the newest event (2023-11-14 22:13:20 UTC), or all known ids.'
    """
    found, why = LateTaken(*taken), dict[str, str]()
    if taken.late:
        why["why_late"] = (
            f"More than {state.lateness:,.0f} s older than the newest event ({utc(state.newest)}), "
            "or all known ids."
        )
    if taken.ahead:
        why["why_ahead"] = (
            f"More than {state.ahead:,.0f} s ahead of this service's clock ({utc(now)})."
        )
    found.why = why
    return found


class Lateness:
    """What became of the last events; those sent again do not count."""

    def __init__(self) -> None:
        self._calls: deque[tuple[int, int, int]] = deque()
        self.judged = self.late = self.ahead = 0

    def add(self, taken: Taken) -> None:
        """What became of the events of a call."""
        judged = taken.total - taken.repeated
        if not judged:
            return
        self._calls.append((judged, taken.late, taken.ahead))
        self._move(1, self._calls[-1])
        while self.judged - self._calls[0][0] >= RECENT:
            self._move(-1, self._calls.popleft())

    def _move(self, sign: int, call: tuple[int, int, int]) -> None:
        judged, late, ahead = call
        self.judged += sign * judged
        self.late += sign * late
        self.ahead += sign * ahead

    @property
    def mostly_refused(self) -> bool:
        """Whether most of the last events were refused."""
        return self.judged >= LEAST and self.late + self.ahead > 0.5 * self.judged

    def reason(self, newest: float, clock: float) -> str:
        """Why there is no estimate; empty if there is one.

        `newest` is the time of the latest event that was counted, `clock` that of the service.
        """
        if not self.mostly_refused:
            return ""
        counted = f" The newest counted event is from {utc(newest)}." if newest > -1e300 else ""
        return (
            f"{self.late + self.ahead:,} of the last {self.judged:,} events were refused "
            f"({self.late:,} late, {self.ahead:,} ahead) and are not counted.{counted} The clock "
            f"shows {utc(clock)}. Check the clocks; to replay old data, start with a new --state."
        )


def utc(seconds: float) -> str:
    """A time in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s"
