"""Parts of a replay: windows of counts, outcomes by id, ids that were seen, and the clock of a stream.

>>> taken = Counts(cells=3, window=4, every=None, most=2)
>>> taken.add(np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]), np.ones(12, bool), np.arange(12.0))
>>> taken.every, taken.ends, [row.tolist() for row in taken.rows()]
(8, [8], [[0.0, 4.0, 0.0]])
>>> taken.close()
>>> taken.ends
[8, 12]
>>> Known(least=10).fresh(np.array(["a", "b", "a", "", ""])).tolist()
[True, True, False, True, True]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.cli.amounts import many

if TYPE_CHECKING:
    from roadworthy.data.scores import ScoreTable

MOST = 1000
"""Windows that are estimated where nobody says how many."""
FEWEST = 10
"""Events of a window whose outcome must be known before their share of right answers is told."""


class Counts:
    """Counts over cells of windows of a stream, with the events they end on, their time and their true accuracy.

    That is the share of right answers among the events whose outcome is known, where these are not too few.

    Windows end at even distances; `close` adds one that ends on the last event, unless the last of them does.
    """

    def __init__(self, *, cells: int, window: int, every: int | None, most: int = MOST) -> None:
        self.cells, self.window, self.every = cells, window, every or window
        self._most = most if every is None else None
        self._last: list[np.ndarray] = [np.zeros(0, dtype=np.int16), np.zeros(0), np.zeros(0)]
        self._seen = 0
        self._rows: list[np.ndarray] = []
        self.ends: list[int] = []
        self.times: list[float] = []
        self.truth: list[float] = []
        self.known: list[int] = []
        """Events of each window whose outcome is known."""
        self.right: list[int] = []
        """Of these, the ones whose answer was right."""
        self.shrink: list[float] = []

    def add(
        self,
        cell: np.ndarray,
        right: np.ndarray | None,
        time: np.ndarray | None,
        *,
        shrink: float = 1.0,
    ) -> None:
        """The next events; `right` is 1, 0, or NaN where nobody knows, `shrink` the independent events that one counts for."""
        n = len(cell)
        known = np.full(n, np.nan) if right is None else right.astype(np.float64)
        when = np.full(n, np.nan) if time is None else time
        held = len(self._last[0])
        cells, rights, times = (
            np.concatenate([old, new])
            for old, new in zip(self._last, (cell, known, when), strict=True)
        )
        start = self._seen - held
        first = max(self.window, self.every)
        at = -(-max(first, self._seen + 1) // self.every) * self.every
        while at <= self._seen + n:
            part = slice(at - self.window - start, at - start)
            self._take(at, cells[part], rights[part], float(times[part.stop - 1]), shrink)
            at = (at // self.every + 1) * self.every  # the distance may have doubled
        self._seen += n
        self._last = [part[max(len(part) - self.window, 0) :] for part in (cells, rights, times)]

    def close(self, *, shrink: float = 1.0) -> None:
        """No more events: the last window ends on the last of them, so that none is left out at the end."""
        if self._seen < self.window or (self.ends and self.ends[-1] == self._seen):
            return
        self._most = None  # this one is kept, wherever it ends
        cells, rights, times = self._last
        self._take(self._seen, cells, rights, float(times[-1]), shrink)

    def rows(self) -> Iterator[np.ndarray]:
        """The counts of each window."""
        for row in self._rows:
            yield row.astype(np.float64)

    def table(self) -> np.ndarray:
        """The counts of all windows."""
        return np.array(list(self.rows())).reshape(-1, self.cells)

    def _take(
        self, end: int, cells: np.ndarray, rights: np.ndarray, time: float, shrink: float
    ) -> None:
        self._rows.append(np.bincount(cells[cells >= 0], minlength=self.cells).astype(np.uint32))
        self.ends.append(end)
        self.times.append(time)
        right = rights[rights == rights]
        self.known.append(len(right))
        self.right.append(int(right.sum()))
        self.truth.append(
            float(right.mean()) if len(right) >= min(FEWEST, self.window) else math.nan
        )
        self.shrink.append(shrink)
        if self._most is not None and len(self.ends) > self._most:
            self.every *= 2
            kept = [i for i, e in enumerate(self.ends) if e % self.every == 0]
            for name in ("_rows", "ends", "times", "truth", "known", "right", "shrink"):
                values = getattr(self, name)
                setattr(self, name, [values[i] for i in kept])


class Truth:
    """Outcomes by id, from a table of their own."""

    def __init__(self, table: ScoreTable) -> None:
        assert table.id is not None and table.correct is not None
        self.source = table.source
        self._order = np.argsort(table.id, kind="stable")
        self._ids = table.id[self._order]
        known = np.ones(table.n, dtype=bool) if table.labelled is None else table.labelled
        self._right = np.where(known, table.correct, np.nan)[self._order]
        self.notes: list[str] = []
        """A word where ids come more than once."""
        self._settle()
        self.found = 0
        """Events that were found here up to now."""

    def of(self, ids: np.ndarray) -> np.ndarray:
        """1, 0, or NaN for ids that have no outcome, and for events without an id."""
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        here = (self._ids[at] == ids) & (ids != "")
        self.found += int(here.sum())
        return np.where(here, self._right[at], np.nan)

    @property
    def some_id(self) -> str:
        """An id of the table, to be shown."""
        return str(next(iter(self._ids[self._ids != ""]), ""))

    def _settle(self) -> None:
        """Of ids that come more than once, those whose outcomes differ are known by none."""
        again = np.flatnonzero((self._ids[1:] == self._ids[:-1]) & (self._ids[1:] != "")) + 1
        if not len(again):
            return
        first = np.searchsorted(self._ids, self._ids[again])
        differ = np.unique(first[self._right[again] != self._right[first]])
        self._right[differ] = np.nan
        names = len(np.unique(first))
        self.notes.append(
            f"{many(names, 'id')} of {self.source} {'comes' if names == 1 else 'come'} more than once; "
            f"{f'{len(differ):,} of them' if len(differ) else 'none'} with outcomes that differ"
            f"{', which are then not known' if len(differ) else ''}"
        )


class Known:
    """Ids of the last events, so many at least, so that a repeated one is counted once; an empty id is none."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._before, self._now = set[str](), set[str]()

    def fresh(self, ids: np.ndarray) -> np.ndarray:
        """Which of these have not been seen before."""
        listed = ids.tolist()
        distinct = set(listed)
        found = np.ones(len(listed), dtype=bool)
        if len(distinct) < len(listed) or not (
            distinct.isdisjoint(self._now) and distinct.isdisjoint(self._before)
        ):
            found[:] = [not name or self._first(name) for name in listed]
        else:
            self._now |= distinct - {""}
        if len(self._now) >= self._least:
            self._before, self._now = self._now, set()
        return found

    def _first(self, name: str) -> bool:
        if name in self._now or name in self._before:
            return False
        self._now.add(name)
        return True


class Clock:
    """The times of a stream: where they go back, and what they span."""

    def __init__(self) -> None:
        self._first = self._last = self._newest = math.nan
        self._back, self._where = 0, 0

    def see(self, times: np.ndarray | None, before: int) -> None:
        """The times of the next events, `before` of which have come."""
        if times is None or not len(times):
            return
        steps = np.diff(np.concatenate([[self._last], times]))
        back = np.flatnonzero(steps < 0)
        if len(back) and not self._back:
            self._where = before + int(back[0]) + 1
        self._back += len(back)
        self._last = float(times[-1])
        # The file may be in any order, and some of its events may have no time.
        self._first = float(np.fmin(self._first, np.fmin.reduce(times)))
        self._newest = float(np.fmax(self._newest, np.fmax.reduce(times)))

    @property
    def notes(self) -> list[str]:
        """A word where they go back: events are taken in the order of the file."""
        if not self._back:
            return []
        return [
            f"the time goes back {many(self._back, 'time')}, first at event {self._where:,}; events are taken in the order of the "
            "file, so sort it by time if that is not theirs"
        ]

    @property
    def span(self) -> float | None:
        """Seconds from the first event to the latest; None where they have no times."""
        return None if math.isnan(self._newest) else self._newest - self._first
