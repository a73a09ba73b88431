"""A stream in a file, window by window: cells of its events, counts of its windows, estimates, alarms, and the truth where known.

A window is the last `window` events, read every `every` events. Where nobody says how often, so many windows are kept as fit
(`MOST`): each time there are more, every second is dropped and the distance doubled. Memory is that of the windows, however long
the stream is. Alarms are those of the monitor itself, which sees every event.

>>> taken = Counts(cells=3, window=4, every=None, most=2)
>>> taken.add(np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]), np.ones(12, bool), np.arange(12.0))
>>> taken.every, taken.ends, [row.tolist() for row in taken.rows()]
(8, [8], [[0.0, 4.0, 0.0]])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.data.samples import DataError

if TYPE_CHECKING:
    from roadworthy.analysis.risk.transfer import Estimates
    from roadworthy.data.score_tables import ScoreFile, ScoreTable
    from roadworthy.monitor.alarms import Alarm
    from roadworthy.monitor.bundle import Bundle

MOST = 1000
"""Windows that are estimated where nobody says how many."""
STEP = 8192
"""Events after which the monitor is asked how many of them say as much as one."""
DAY, ENOUGH = 86_400.0, 1000
"""Seconds, and events from which on it is said how fast they come."""
REMEMBERED = 1_000_000
"""Events whose ids are remembered, so that one that is repeated is counted once."""


class Counts:
    """Counts over cells of windows of a stream, with the events they end on, their time and their true accuracy."""

    def __init__(self, *, cells: int, window: int, every: int | None, most: int = MOST) -> None:
        self.cells, self.window, self.every = cells, window, every or window
        self._most = most if every is None else None
        self._last: list[np.ndarray] = [np.zeros(0, dtype=np.int16), np.zeros(0), np.zeros(0)]
        self._seen = 0
        self._rows: list[np.ndarray] = []
        self.ends: list[int] = []
        self.times: list[float] = []
        self.truth: list[float] = []
        self.shrink: list[float] = []

    def add(self, cell: np.ndarray, right: np.ndarray | None, time: np.ndarray | None, *, shrink: float = 1.0) -> None:
        """The next events; `right` is 1, 0, or NaN where nobody knows, `shrink` the independent events that one counts for."""
        n = len(cell)
        known = np.full(n, np.nan) if right is None else right.astype(np.float64)
        when = np.full(n, np.nan) if time is None else time
        held = len(self._last[0])
        cells, rights, times = (
            np.concatenate([old, new]) for old, new in zip(self._last, (cell, known, when), strict=True)
        )
        start = self._seen - held
        first = max(self.window, self.every)
        at = -(-max(first, self._seen + 1) // self.every) * self.every
        while at <= self._seen + n:
            part = slice(at - self.window - start, at - start)
            self._take(at, cells[part], rights[part], float(times[part.stop - 1]), shrink)
            at = (at // self.every + 1) * self.every  # the distance may have doubled
        self._seen += n
        self._last = [part[max(len(part) - self.window + 1, 0) :] for part in (cells, rights, times)]

    def rows(self) -> Iterator[np.ndarray]:
        """The counts of each window."""
        for row in self._rows:
            yield row.astype(np.float64)

    def table(self) -> np.ndarray:
        """The counts of all windows."""
        return np.array(list(self.rows())).reshape(-1, self.cells)

    def _take(self, end: int, cells: np.ndarray, rights: np.ndarray, time: float, shrink: float) -> None:
        self._rows.append(np.bincount(cells[cells >= 0], minlength=self.cells).astype(np.uint32))
        self.ends.append(end)
        self.times.append(time)
        self.truth.append(float(rights.mean()))
        self.shrink.append(shrink)
        if self._most is not None and len(self.ends) > self._most:
            self.every *= 2
            kept = [i for i, e in enumerate(self.ends) if e % self.every == 0]
            for name in ("_rows", "ends", "times", "truth", "shrink"):
                values = getattr(self, name)
                setattr(self, name, [values[i] for i in kept])


class Compared(NamedTuple):
    """Estimates of accuracy against the truth."""

    windows: int
    covered: int
    mean_absolute_error: float


@dataclass(frozen=True)
class Replayed:
    """What a stream turned out to be."""

    events: int
    unscored: int
    repeated: int
    window: int
    every: int
    ends: np.ndarray
    """The number of the event that each window ends on; the first is 1."""
    times: np.ndarray
    """Its time in seconds; NaN where there is none."""
    truth: np.ndarray
    """The share of right answers in each window; NaN where nobody knows."""
    estimates: Estimates
    exceedance: np.ndarray
    """The probability that the cost is above the tolerable, as the alarm watches it; NaN where nothing is called tolerable."""
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]
    alarm_times: Mapping[int, float]
    """Event at which an alarm was raised or cleared -> its time."""

    def time_of(self, event: int) -> float:
        """When an alarm was; NaN where the stream has no times."""
        return self.alarm_times.get(event, math.nan)

    @property
    def told(self) -> np.ndarray:
        """Which windows have an answer that can be relied on."""
        return np.array([reason is None for reason in self.estimates.cannot_tell], dtype=bool)

    @property
    def revealed(self) -> np.ndarray:
        """Which of these can be held against the truth."""
        return self.told & np.isfinite(self.truth)

    @property
    def compared(self) -> Compared | None:
        """The intervals against the truth, where it is known."""
        rows, found = self.revealed, self.estimates
        if not rows.any():
            return None
        inside = (found.accuracy_low <= self.truth) & (self.truth <= found.accuracy_high)
        error = float(np.abs(found.accuracy - self.truth)[rows].mean())
        return Compared(int(rows.sum()), int(inside[rows].sum()), error)

    def record(self, at: int) -> dict[str, Any]:
        """One window as plain JSON values."""
        found = self.estimates
        reason = found.cannot_tell[at]
        plain = {name: _plain(getattr(found, name)[at]) for name in FIGURES}
        return {
            "first_event": int(self.ends[at]) - self.window + 1,
            "last_event": int(self.ends[at]),
            "time": _plain(self.times[at]),
            **plain,
            "exceedance": _plain(self.exceedance[at]),
            "cannot_tell": reason,
            "truth": _plain(self.truth[at]),
        }


FIGURES = (
    "n",
    "rate",
    "rate_low",
    "rate_high",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "risk",
    "risk_low",
    "risk_high",
    "strangeness",
)


class Truth:
    """Outcomes by id, from a table of their own."""

    def __init__(self, table: ScoreTable) -> None:
        assert table.id is not None and table.correct is not None
        self.source = table.source
        self._order = np.argsort(table.id, kind="stable")
        self._ids = table.id[self._order]
        known = np.ones(table.n, dtype=bool) if table.labelled is None else table.labelled
        self._right = np.where(known, table.correct, np.nan)[self._order]

    def of(self, ids: np.ndarray) -> np.ndarray:
        """1, 0, or NaN for ids that have no outcome."""
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[at] == ids, self._right[at], np.nan)


class Known:
    """Ids of the last events, so that a repeated one is counted once."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._before, self._now = set[str](), set[str]()

    def fresh(self, ids: np.ndarray) -> np.ndarray:
        """Which of these have not been seen before."""
        listed = ids.tolist()
        distinct = set(listed)
        found = np.ones(len(listed), dtype=bool)
        if len(distinct) < len(listed) or not (distinct.isdisjoint(self._now) and distinct.isdisjoint(self._before)):
            found[:] = [self._first(name) for name in listed]
        else:
            self._now |= distinct
        if len(self._now) >= self._most:
            self._before, self._now = self._now, set()
        return found

    def _first(self, name: str) -> bool:
        if name in self._now or name in self._before:
            return False
        self._now.add(name)
        return True


def replay(
    bundle: Bundle,
    file: ScoreFile,
    *,
    window: int,
    every: int | None = None,
    truth: Truth | None = None,
    most: int = MOST,
) -> Replayed:
    """Run a stream through the bundle's estimator and monitor, in the order of the file."""
    from roadworthy.monitor.events import Events
    from roadworthy.monitor.monitor import Monitor

    calibration = bundle.calibration
    counts = Counts(cells=calibration.cells, window=window, every=every, most=most)
    monitor, known, clock = Monitor(bundle), Known(), Clock()
    events = unscored = repeated = 0
    when: dict[int, float] = {}
    for piece in file.pieces():
        right = _right(piece, truth)
        if piece.id is not None:
            fresh = known.fresh(piece.id)
            if not fresh.all():
                repeated += int((~fresh).sum())
                piece, right = piece.take(fresh), None if right is None else right[fresh]
        clock.see(piece.time, events)
        cell = calibration.place(piece.columns)
        for at in range(0, len(cell), STEP):
            part = slice(at, at + STEP)
            monitor.update(Events(cells=cell[part]))
            counts.add(
                cell[part],
                None if right is None else right[part],
                None if piece.time is None else piece.time[part],
                shrink=1.0 / monitor.autocorrelation_time,
            )
        if piece.time is not None:
            when |= {a.event: float(piece.time[a.event - events - 1]) for a in monitor.alarms if a.event > events}
        events, unscored = events + piece.n, unscored + int((cell < 0).sum())
    if not counts.ends:
        raise DataError(
            f"{file.path.name} has {events:,} events, and a window is {window:,} of them; choose a shorter one with --window"
        )
    table, shrink = counts.table(), np.array(counts.shrink)
    estimates = bundle.estimator.estimate(table, shrink=shrink, confidence=bundle.confidence)
    exceedance = np.full(len(table), np.nan)
    if bundle.tolerable is not None:
        exceedance = 1.0 / (1.0 + np.exp(-np.clip(bundle.watch.log_odds(table, shrink=shrink), -700, 700)))
    return Replayed(
        events,
        unscored,
        repeated,
        window,
        counts.every,
        np.array(counts.ends),
        np.array(counts.times),
        np.array(counts.truth),
        estimates,
        exceedance,
        tuple(monitor.alarms),
        (*file.notes, *clock.notes, *_stream_notes(bundle, monitor.autocorrelation_time, clock.events_per_day(events))),
        when,
    )


class Clock:
    """The times of a stream: where they go back, and how fast events come."""

    def __init__(self) -> None:
        self._first = self._last = math.nan
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
        self._first = float(times[0]) if math.isnan(self._first) else self._first
        self._last = float(times[-1])

    @property
    def notes(self) -> list[str]:
        """A word where they go back: events are taken in the order of the file."""
        if not self._back:
            return []
        return [
            f"the time goes back {self._back:,} times, first at event {self._where:,}; events are taken in the order of the "
            "file, so sort it by time if that is not theirs"
        ]

    def events_per_day(self, events: int) -> float | None:
        """How fast they come; None where nobody can say."""
        span = self._last - self._first
        return (events - 1) / span * DAY if span > 0 and events >= ENOUGH else None


def _stream_notes(bundle: Bundle, time: float, pace: float | None) -> list[str]:
    """What the monitor would say about a stream that remembers, or that is faster than it was told."""
    notes, rule = [], bundle.alarm
    if time > 1.05:
        notes.append(f"events resemble the ones before them: {time:.1f} say as much as one")
    if rule is not None and math.isinf(rule.at(time)[0]):
        notes.append(f"no alarm can be given: {rule.window:,} such events say as much as {rule.window / time:.1f}")
    if rule is not None and pace is not None and pace > 2 * rule.events_per_day:
        notes.append(
            f"the stream brings {pace:,.0f} events a day, and the alarm was set for {rule.events_per_day:,.0f}: expect "
            f"{pace / rule.events_per_day:.1f} times as many false alarms as {rule.false_alarms}"
        )
    return notes


def _right(piece: ScoreTable, truth: Truth | None) -> np.ndarray | None:
    if truth is not None:
        if piece.id is None:
            raise DataError(
                f"{piece.source} has no column 'id' by which outcomes could be found (choose with --id COLUMN)"
            )
        return truth.of(piece.id)
    if piece.correct is None:
        return None
    return piece.correct if piece.labelled is None else np.where(piece.labelled, piece.correct, np.nan)


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
