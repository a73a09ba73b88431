"""Whether most of what came lately was refused as late: the figures are then those of another time, however calm they look.

A clock that was ahead makes everything after it late, and nothing in the events that are still counted shows it.

>>> lately = Lately()
>>> lately.add(Taken(90, 0, 10, 0)); lately.share
0.1
>>> lately.add(Taken(5, 0, 90, 0)); round(lately.share, 2), lately.mostly_late
(0.51, True)
>>> lately.add(Taken(100, 0, 0, 0)); lately.mostly_late
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
        self._calls: deque[tuple[int, int]] = deque()
        self.judged = self.late = 0

    def add(self, taken: Taken) -> None:
        """What became of the events of a call."""
        late, judged = taken.late, taken.accepted + taken.unscored + taken.late
        if not judged:
            return
        self._calls.append((judged, late))
        self.judged, self.late = self.judged + judged, self.late + late
        while self.judged - self._calls[0][0] >= RECENT:
            judged, late = self._calls.popleft()
            self.judged, self.late = self.judged - judged, self.late - late

    @property
    def share(self) -> float:
        """The share of the last events that was late."""
        return self.late / self.judged if self.judged else 0.0

    @property
    def mostly_late(self) -> bool:
        """Whether that are most of them."""
        return self.judged >= LEAST and self.share > 0.5

    @property
    def known(self) -> bool:
        """Whether enough has come to say so, one way or the other."""
        return self.judged >= LEAST

    def trouble(self, newest: float) -> str:
        """Why nobody can tell, as the end of a sentence; empty where one can. `newest` is the time of the latest event."""
        if not self.mostly_late:
            return ""
        return (
            f"{self.late:,} of the last {self.judged:,} events were refused as late and are not in these figures; the newest "
            f"event that was counted has the time {_utc(newest)}: look at the clocks of this machine and of those that post"
        )


def _utc(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s"
