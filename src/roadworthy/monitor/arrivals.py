"""The last events in the order in which they arrived: what the alarm watches.

Figures are read by the time of events, and an event that comes late is put in its place there: behind the last window, where no
alarm would ever look at it. A source whose events all come five minutes late would be watched by nobody. Every event arrives
once, and so the alarm reads each of them, as soon as it is known.

>>> arrivals = Arrivals(3)
>>> for time, cell in ((1.0, 5), (4.0, 6), (2.0, 7), (3.0, 8)):
...     arrivals.add_one(time, cell)
>>> arrivals.cell.tolist(), arrivals.time.tolist(), arrivals.newest(2)
([6, 7, 8], [4.0, 2.0, 3.0], 4.0)
"""

from __future__ import annotations

import numpy as np

from roadworthy.monitor.events import Cells, Floats


class Arrivals:
    """At most `capacity` events, the last that came."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._time = np.empty(2 * capacity, dtype=np.float64)
        self._cell = np.empty(2 * capacity, dtype=np.int16)
        self._stop = 0

    def __len__(self) -> int:
        return min(self._stop, self.capacity)

    @property
    def cell(self) -> Cells:
        """Cells, the first to arrive first (a view)."""
        return self._cell[max(self._stop - self.capacity, 0) : self._stop]

    @property
    def time(self) -> Floats:
        """Times of the same events, as they were sent (a view)."""
        return self._time[max(self._stop - self.capacity, 0) : self._stop]

    def newest(self, upto: int) -> float:
        """The latest time of the first so many of them."""
        return float(self.time[:upto].max())

    def add_one(self, time: float, cell: int) -> None:
        """One more event."""
        if self._stop == len(self._time):
            self._to_front(1)
        self._time[self._stop], self._cell[self._stop] = time, cell
        self._stop += 1

    def add(self, time: Floats, cell: Cells) -> None:
        """More events, in the order in which they arrived."""
        time, cell = time[-self.capacity :], cell[-self.capacity :]
        if self._stop + len(time) > len(self._time):
            self._to_front(len(time))
        part = slice(self._stop, self._stop + len(time))
        self._time[part], self._cell[part] = time, cell
        self._stop = part.stop

    def restart(self, time: Floats, cell: Cells) -> None:
        """As if these had arrived, and nothing else."""
        self._stop = 0
        self.add(time, cell)

    def _to_front(self, room: int) -> None:
        keep = min(len(self), len(self._time) - room)
        for array in (self._time, self._cell):
            array[:keep] = array[self._stop - keep : self._stop].copy()
        self._stop = keep
