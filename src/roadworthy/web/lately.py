"""Whether most of what came lately was refused as late or as ahead: the figures are then of another time, however calm they look.

A clock that was ahead makes everything after it late, and to one that is behind everything is ahead. Nothing in the events that
are still counted shows it.

>>> lately = Lately()
>>> lately.add(Taken(90, 0, 10, 0)); lately.share
0.1
>>> lately.add(Taken(5, 0, 50, 0, ahead=40)); round(lately.share, 2), lately.mostly_refused
(0.51, True)
>>> lately.add(Taken(100, 0, 0, 0)); lately.mostly_refused
False
"""

from __future__ import annotations

import time
from collections import deque

from roadworthy.monitor import Taken

RECENT = 100
"""Events that are looked back on, at least, where there are as many."""
LEAST = 20
"""Events of which one can say what most of them are."""


class Lately:
    """What became of the last events; those sent again say nothing."""

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
    def share(self) -> float:
        """The share of the last events that was refused, as late or as ahead."""
        return (self.late + self.ahead) / self.judged if self.judged else 0.0

    @property
    def mostly_refused(self) -> bool:
        """Whether that are most of them."""
        return self.judged >= LEAST and self.share > 0.5

    @property
    def known(self) -> bool:
        """Whether enough has come to say so, one way or the other."""
        return self.judged >= LEAST

    def trouble(self, newest: float, clock: float) -> str:
        """Why nobody can tell, as the end of a sentence; empty where one can.

        `newest` is the time of the latest event that was counted, and `clock` what events are held against.
        """
        if not self.mostly_refused:
            return ""
        ahead = "ahead of this machine's clock"
        if self.late and self.ahead:
            refused = f"refused, {self.late:,} as late and {self.ahead:,} as {ahead},"
        else:
            refused = "refused as " + ("late" if self.late else ahead)
        counted = (
            f"the newest event that was counted has the time {utc(newest)}, "
            if newest > float("-inf")
            else ""
        )
        # Who tries the service sends one event of this moment, and then a file of last week's.
        older = (
            "; to try the service with older data, start it with a new --state" if self.late else ""
        )
        return (
            f"{self.late + self.ahead:,} of the last {self.judged:,} events were {refused} and are not in these figures; "
            f"{counted}and this machine's clock is taken to show {utc(clock)}: look at the clocks of this machine and of "
            f"those that post{older}"
        )


def utc(seconds: float) -> str:
    """A time as people read it anywhere."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s"
