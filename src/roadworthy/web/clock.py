"""The service's clock: the machine's, but it never goes back and does not follow a leap at once.

An event stamped by a clock a day ahead would make everyone else late for a day, and a clock that
goes back would make late what has just come. The machine's clock is therefore compared with its
monotonic count of seconds. It is followed while it moves by up to 5 s at once. After a larger leap,
time goes on by the monotonic count until the clock has kept its new time for 5 minutes (or for as
long as a smaller leap ahead was). A new time ahead is then taken over; one further back is
approached at half the pace, so that no moment comes twice. After a restart time goes on from where
it was.

>>> wall, steady = iter([100.0, 101.0, 86_502.0, 103.0]), iter([0.0, 1.0, 2.0, 3.0])
>>> clock = Clock(wall=lambda: next(wall), steady=lambda: next(steady))
>>> [clock.now() for _ in range(4)]
[100.0, 101.0, 102.0, 103.0]
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from roadworthy.web.log import ThrottledLog

LEAP_S = 5.0
"""By how much a clock may be set at once; more is a leap."""
PACE = 0.1
"""Seconds by which a clock may drift in each second; NTP daemons slew by a twelfth at most."""
KEPT_S = 0.5
"""By how much a steady clock may seem off: both clocks are not read at the same instant."""
SETTLE_S = 300.0
"""How long a clock keeps a new time before it is accepted; at most as long as a leap ahead."""
_SECONDS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts the time in which the machine sleeps, too: waking up is no leap."""


def _wall() -> float:
    return time.time()


def _steady() -> float:
    return time.clock_gettime(_SECONDS)


class Clock:
    """Seconds since 1970 that never go back; any thread may ask."""

    def __init__(
        self,
        *,
        wall: Callable[[], float] = _wall,
        steady: Callable[[], float] = _steady,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._wall, self._steady, self._warn = wall, steady, warn or ThrottledLog()
        self._lock = threading.Lock()
        self._shown: float | None = None
        self._counted = 0.0
        self._offset: float | None = None
        """The machine's clock less its count of seconds, while the clock is not followed."""
        self._since = 0.0

    def now(self) -> float:
        """What it shows."""
        with self._lock:
            wall, counted = self._wall(), self._steady()
            if self._shown is None:
                self._shown, self._counted = wall, counted
                return wall
            passed, self._counted = max(0.0, counted - self._counted), counted
            apart = wall - self._shown - passed
            if -LEAP_S <= apart <= LEAP_S:
                self._offset = None
                self._shown = max(wall, self._shown)
            else:
                self._shown = self._doubted(wall, counted, passed, apart)
            return self._shown

    def go_on_from(self, shown: float) -> None:
        """It showed this before a restart; if the machine's clock is behind, it was set back."""
        with self._lock:
            wall, counted = self._wall(), self._steady()
            now = wall if self._shown is None else self._shown
            if shown <= now:
                return
            self._shown, self._counted = shown, counted
            if shown - now > LEAP_S:
                self._offset, self._since = wall - counted, counted
                self._warn(
                    f"The clock is {shown - now:,.0f} s behind the last use of this state file. "
                    "Time goes on from there, slower, until the clock has caught up."
                )

    def _doubted(self, wall: float, counted: float, passed: float, apart: float) -> float:
        """What is shown while the machine's clock says something else."""
        assert self._shown is not None
        offset, settled = wall - counted, min(SETTLE_S, apart) if apart > 0 else SETTLE_S
        kept = KEPT_S + PACE * (counted - self._since)
        if self._offset is None or abs(offset - self._offset) > kept:
            self._offset, self._since = offset, counted
            self._warn(
                f"The clock leapt {'ahead' if apart > 0 else 'back'} by {abs(apart):,.0f} s. Time "
                f"goes on without it until it has kept its new time for {settled:.0f} s."
            )
        if counted - self._since < settled:
            return self._shown + passed
        return wall if apart > 0 else self._shown + passed / 2.0
