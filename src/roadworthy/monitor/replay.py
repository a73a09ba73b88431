"""What a monitor would have said of a stream in a table, window by window: `roadworthy.replay`.

The monitor itself takes the events, in the order of the table; nothing is estimated here. Outcomes,
if they are known, are put beside its estimates and are never shown to it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis.risk.prototypes import answer_costs
from roadworthy.data.samples import DataError
from roadworthy.data.scores import ScoreFile, ScoreTable, open_scores, read_scores
from roadworthy.monitor import Alarm, Bundle, Events, Monitor, RiskState, messages
from roadworthy.monitor.monitor import FIGURES

MOST = 200
"""Windows that are read if `every` is not given: with more, every second one is dropped."""
MOSTLY = 0.9
"""The share of a window's outcomes that must be known to compare its interval with them."""
FEWEST = 10
"""Known outcomes of a window below which no share of right answers is given; its least length."""
SURE = 0.975
"""P(cost > limit) of the last window from which on it is reported although no alarm was raised."""
OUTSIDE = 0.2
"""The share of events outside the calibrated range of a score that is worth a note."""


class ReplayedWindow(NamedTuple):
    """One window of a stream: what the monitor said, and the truth if it is known."""

    last: int
    """The number of the event that it ends on; the first event is 1."""
    time: float
    """Of that event, in seconds; NaN if it has none."""
    state: RiskState
    known: int
    """Events whose outcome is known."""
    right: int
    """Right answers among them."""
    length: int

    @property
    def first(self) -> int:
        """The number of the event that it begins with."""
        return self.last - self.length + 1

    @property
    def told(self) -> bool:
        """Whether it has an estimate."""
        return self.state.no_estimate is None

    @property
    def truth(self) -> float:
        """The share of right answers; NaN if too few outcomes are known."""
        return self.right / self.known if self.known >= FEWEST else math.nan

    @property
    def revealed(self) -> bool:
        """Whether its interval can be compared with the truth: most outcomes must be known."""
        return self.told and self.known >= MOSTLY * self.length

    def record(self) -> dict[str, Any]:
        """Plain JSON values; figures are null without an estimate."""
        state, names = self.state, (*FIGURES, "exceedance", "strangeness")
        return {
            "first_event": self.first,
            "last_event": self.last,
            "time": _plain(self.time),
            "n": float(state.n),
            "effective_n": state.effective_n,
            **{name: _plain(getattr(state, name)) for name in names},
            "no_estimate": state.no_estimate,
            "truth": _plain(self.truth),
            "truth_known": self.known,
        }


class Compared(NamedTuple):
    """Estimates of accuracy against the truth."""

    windows: int
    covered: int
    mean_absolute_error: float
    above_tolerable_without_alarm: int | None
    """Windows that truly cost more than the limit; None if outcomes do not say what they cost."""


@dataclass
class Replay:
    """What a monitor said of a stream."""

    bundle: Bundle
    source: str
    window: int
    every: int
    events: int = 0
    unscored: int = 0
    """Events with too few scores to be placed."""
    repeated: int = 0
    """Events whose id came before; they are counted once."""
    without_id: int = 0
    windows: tuple[ReplayedWindow, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    """With the times of the table; NaN if it has none."""
    at_end: tuple[RiskState, ...] = ()
    """What every window of the bundle says at the end of the stream."""
    outcomes: tuple[int, int] = (0, 0)
    """Known outcomes of the whole stream, and right answers among them."""
    notes: tuple[str, ...] = ()

    @property
    def alarmed(self) -> bool:
        """Whether an alarm was raised."""
        return any(alarm.kind == "raised" for alarm in self.alarms)

    @property
    def complete(self) -> bool:
        """Whether every part of the stream has an estimate."""
        silent = any(alarm.kind == "no estimate" for alarm in self.alarms)
        return all(w.told for w in self.windows) and not silent

    @property
    def above(self) -> float | None:
        """P(cost > limit) of the last window with an estimate, if that is nearly certain."""
        last = next((w.state.exceedance or 0.0 for w in self.windows[::-1] if w.told), 0.0)
        return last if last > SURE else None

    def to_arrow(self) -> Any:
        """The windows as an Arrow table; `.to_pandas()` makes a data frame of it."""
        import pyarrow as pa

        return pa.Table.from_pylist([window.record() for window in self.windows])

    @property
    def compared(self) -> Compared | None:
        """The intervals against the truth; None if it is not known."""
        found = [w for w in self.windows if w.revealed]
        if not found:
            return None
        held = [w.state.accuracy_low <= w.truth <= w.state.accuracy_high for w in found]
        errors = [abs(w.state.accuracy - w.truth) for w in found]
        missed, costs, limit = None, answer_costs(self.bundle.tree), self.bundle.tolerable
        if costs is not None and limit is not None:
            right, wrong = costs
            dear = [w for w in found if right * w.truth + wrong * (1.0 - w.truth) > limit]
            missed = sum(not w.state.alarm for w in dear)
        return Compared(len(found), sum(held), float(np.mean(errors)), missed)


def replay(
    bundle: Bundle | str | os.PathLike[str],
    table: ScoreTable | ScoreFile | str | os.PathLike[str],
    *,
    window: int | None = None,
    every: int | None = None,
    truth: ScoreTable | str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] = lambda events: None,
) -> Replay:
    """Feed a table of scores to the bundle's monitor and read its windows and alarms.

    `window` is a number of events, by default that of the alarm; `every`, how many events lie
    between two windows, by default as many as a window, or more in a long stream. `truth` has the
    columns `id` and `correct`. `progress` is called with the number of events that were taken.
    """
    bundle = bundle if isinstance(bundle, Bundle) else Bundle.load(bundle)
    size = int(window or bundle.watched)
    if size < FEWEST:
        raise DataError(f"a window has at least {FEWEST} events, found {size}")
    if isinstance(table, str | os.PathLike):
        columns = {name: name for name in bundle.calibration.names}
        table = open_scores(Path(table), columns=columns, skips=("kind", "group"))
    if isinstance(table, ScoreTable):
        source, rows, pieces = table.source, table.n, iter((table,))
    else:
        source, rows, pieces = table.path.name, table.opened.rows or 0, table.pieces()
    known = None if truth is None else _outcomes_by_id(truth)
    run = _Run(Replay(bundle, source, size, every or size), thinned=every is None, known=known)
    while run.thinned and rows // run.found.every > MOST:
        run.found.every *= 2  # windows that would be dropped later are not read
    for piece in pieces:
        run.take(piece)
        progress(piece.n)
    found = run.end()
    if known is not None and not found.outcomes[0]:
        raise DataError(f"--truth: no id of it is in {source}")
    found.notes = (*table.notes, *found.notes)
    return found


class _Run:
    """A monitor, what was found of the stream up to now, and what is remembered of its last events."""

    def __init__(self, found: Replay, *, thinned: bool, known: dict[str, float] | None) -> None:
        self.found, self.thinned, self.known = found, thinned, known
        bundle, lengths = found.bundle, found.bundle.windows.lengths
        if found.window not in lengths:
            windows = replace(bundle.windows, lengths=tuple(sorted((*lengths, found.window))))
            bundle = replace(bundle, windows=windows)
        self.monitor = Monitor(bundle)
        self.recent = np.zeros(0)
        """Outcomes of the last events: 1, 0, or NaN if unknown."""
        self.windows: list[ReplayedWindow] = []
        self.alarm_times: dict[int, float] = {}
        self.missing, self.outside = np.zeros((2, len(bundle.calibration.names)), dtype=int)
        self.went_back = 0
        self.last = self.first_time = self.last_time = math.nan

    def take(self, piece: ScoreTable) -> None:
        """Feed the next rows, up to the end of each window in turn."""
        found, (piece, names) = self.found, self._new(piece)
        right = self._outcomes(piece)
        time = np.full(piece.n, np.nan) if piece.time is None else piece.time
        self._look_at(piece, time)
        begun, at = found.events, 0
        while at < piece.n:
            number = max(found.events // found.every + 1, -(-found.window // found.every))
            upto = min(piece.n, at + number * found.every - found.events)
            part = slice(at, upto)
            columns = {name: piece.columns[name][part] for name in found.bundle.calibration.names}
            events = Events(None if names is None else names[part], columns=columns)
            found.unscored += self.monitor.update(events).unscored
            self.recent = np.concatenate([self.recent, right[part]])[-found.window :]
            found.events, at = begun + upto, upto
            self.last = float(time[upto - 1])
            if found.events >= found.window and found.events % found.every == 0:
                self._read()
        for alarm in self.monitor.alarms[::-1]:
            if alarm.event <= begun:
                break
            self.alarm_times[alarm.event] = float(time[alarm.event - begun - 1])

    def end(self) -> Replay:
        """Read the last window, which ends with the stream."""
        found = self.found
        if found.events < found.window:
            raise DataError(
                f"{found.source} has {found.events:,} events, fewer than a window of "
                f"{found.window:,}. Choose a shorter window (at least {FEWEST}) or a longer stream"
            )
        if not self.windows or self.windows[-1].last < found.events:
            self.thinned = False  # this one is kept wherever it ends
            self._read()
        found.windows = tuple(self.windows)
        times, alarms = self.alarm_times, self.monitor.alarms
        found.alarms = tuple(replace(a, time=times.get(a.event, math.nan)) for a in alarms)
        found.at_end = tuple(self.monitor.risk(name) for name in found.bundle.windows.names)
        found.notes = tuple(self._notes())
        return found

    def _read(self) -> None:
        found, known = self.found, self.recent[~np.isnan(self.recent)]
        # The monitor was given no times: the only one that is known is that of the last event.
        state = replace(self.monitor.risk(found.window), start=None, end=_plain(self.last))
        counts = len(known), int(known.sum()), found.window
        self.windows.append(ReplayedWindow(found.events, self.last, state, *counts))
        if self.thinned and len(self.windows) > MOST:
            found.every *= 2
            self.windows = [w for w in self.windows if w.last % found.every == 0]

    def _new(self, piece: ScoreTable) -> tuple[ScoreTable, list[str] | None]:
        """The rows whose ids the monitor does not hold, and names for them: so each keeps its outcome."""
        if piece.id is None:
            return piece, None
        found, known, names = self.found, self.monitor.state.recent.known, piece.id.tolist()
        if len(set(names) - {""}) == len(names) and known.isdisjoint(names):
            return piece, names
        first = dict[str, int]()  # of rows with the same id the first one counts
        for i, id in enumerate(names):
            found.without_id += not id
            name = id or f"without id {found.without_id}"
            if name not in known:
                first.setdefault(name, i)
        found.repeated += piece.n - len(first)
        if len(first) < piece.n:
            piece = piece.take(np.array([*first.values()], dtype=np.intp))
        return piece, [*first]

    def _outcomes(self, piece: ScoreTable) -> np.ndarray:
        """1, 0, or NaN if unknown."""
        right = np.full(piece.n, np.nan)
        if self.known is not None:
            if piece.id is None:
                raise DataError(f"{piece.source} has no column 'id', by which outcomes are found")
            right[:] = [self.known.get(id, math.nan) for id in piece.id.tolist()]
        elif piece.correct is not None:
            right[:] = np.where(piece.labelled is None or piece.labelled, piece.correct, np.nan)
        known, correct = self.found.outcomes
        known += int((~np.isnan(right)).sum())
        self.found.outcomes = known, correct + int(np.nansum(right))
        return right

    def _look_at(self, piece: ScoreTable, time: np.ndarray) -> None:
        """Count what is worth a note: missing scores, scores out of range, times that go back."""
        calibration = self.found.bundle.calibration
        for i, (low, high) in enumerate(calibration.reach):
            column = piece.columns[calibration.names[i]]
            self.missing[i] += np.isnan(column).sum()
            self.outside[i] += ((column < low) | (column > high)).sum()
        timed = time[np.isfinite(time)]
        if len(timed):
            self.went_back += int((np.diff(timed, prepend=self.last_time) < 0).sum())
            self.first_time = float(np.fmin(self.first_time, timed.min()))
            self.last_time = float(timed[-1])

    def _notes(self) -> list[str]:
        """What a reader should know about this stream."""
        found, notes = self.found, list[str]()
        calibration, known, events = found.bundle.calibration, found.outcomes[0], found.events
        parts = zip(calibration.names, calibration.reach, self.missing, self.outside, strict=True)
        for name, (low, high), missing, outside in parts:
            if missing:
                notes.append(f"Score {name} is missing in {missing:,} of {events:,} events.")
            if outside > OUTSIDE * events:
                notes.append(
                    f"Score {name}: {outside:,} of {events:,} events lie outside the calibrated "
                    f"range, {low:.4g} to {high:.4g}. Check its unit."
                )
        if (known or self.known is not None) and known < events:
            notes.append(f"The outcome is known for {known:,} of {events:,} events.")
        if self.went_back:
            order = (
                "Events are taken in the order of the table; sort it by time if that is not theirs."
            )
            notes.append(f"The time goes back {self.went_back:,} times. {order}")
        time, rule = self.monitor.autocorrelation_time, found.bundle.alarm
        if time > messages.ALIKE:
            notes.append(messages.note("alike", time=time))
        if rule and (said := messages.other_pace(rule, events, self.last_time - self.first_time)):
            notes.append(said)
        return notes


def _outcomes_by_id(table: ScoreTable | str | os.PathLike[str]) -> dict[str, float]:
    """1 or 0 for each id of a table of outcomes."""
    if not isinstance(table, ScoreTable):
        skips = ("kind", "group", "time")
        table = read_scores(Path(table), columns=[], needs=("id", "correct"), skips=skips)
    assert table.id is not None and table.correct is not None
    found = dict[str, float]()
    for id, right in zip(table.id.tolist(), table.correct.tolist(), strict=True):
        if id and found.setdefault(id, float(right)) != right:
            raise DataError(f"{table.source}: id {id!r} stands for a right and a wrong answer")
    return found


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
