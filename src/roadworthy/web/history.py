"""Points of the charts: what the watched window said, in the time of events, taken while they are
counted.

A stream that is posted in a second shows the same curve as one that took an hour: a large batch is
counted in slices with a point after each. Points may take a twentieth of the time, in bursts of up
to `BURST_S`: if events come faster than that, there are fewer points.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from roadworthy.web import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roadworthy.monitor import Monitor
    from roadworthy.web.events import Batch

SHARE = 0.05
"""Of the time that points may take."""
BURST_S = 0.25
MOST_COST_S = BURST_S / 16
"""What one point is charged at most: the first one, or one on a busy machine, takes far longer."""
MOST_SLICES = 64
LOOKS_A_WINDOW = 10
"""Points a window's length if there is no alarm whose looks would say."""
MOST_UNKEPT = 5000


class Curve:
    """How far the points of a stream have come, and what more of them may cost.

    `upto` is the event up to which there are points.
    """

    def __init__(self, upto: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.upto = upto
        self.unkept: list[dict[str, Any]] = []
        """Points that are not in the state file yet."""
        self._clock, self._then = clock, clock()
        self._saved, self._cost = BURST_S, 0.002

    def affordable(self) -> int:
        """How many points may be taken now."""
        now = self._clock()
        self._saved = min(BURST_S, self._saved + SHARE * (now - self._then))
        self._then = now
        return max(0, min(MOST_SLICES, int(self._saved / self._cost)))

    def slices(self, batch: Batch, monitor: Monitor) -> Iterator[Batch]:
        """A batch in parts after which a point is worth its cost."""
        n = len(batch)
        parts = max(1, min(self.affordable(), n // stride_of(monitor)))
        size = math.ceil(n / parts)
        return (batch.part(first, first + size) for first in range(0, n, size))

    def follow(self, monitor: Monitor, *, now: float, no_estimate: str) -> None:
        """Take a point if the alarm has looked again since the last one, and it may cost that."""
        due = monitor.state.counted - self.upto >= stride_of(monitor)
        if due and self.affordable():
            self.take(monitor, now=now, no_estimate=no_estimate)

    def take(self, monitor: Monitor, *, now: float, no_estimate: str) -> None:
        """Take a point, unless nothing was counted since the last one.

        None is later than `now`: an event whose clock is ahead would hold all points there.
        """
        counted = monitor.state.counted
        if counted == self.upto:
            return
        began = self._clock()
        point = views.reading_view(monitor, no_estimate=no_estimate or None)
        self.upto = counted
        if point["time"] is not None:
            self.unkept.append({**point, "time": min(point["time"], now)})
            del self.unkept[:-MOST_UNKEPT]
        took = min(self._clock() - began, MOST_COST_S)
        self._cost = max(1e-4, 0.5 * (self._cost + took))
        self._saved -= took


def stride_of(monitor: Monitor) -> int:
    """Events between two looks of the alarm."""
    rule = monitor.bundle.alarm
    if rule is not None:
        return rule.stride
    return max(1, min(monitor.bundle.windows.lengths) // LOOKS_A_WINDOW)
