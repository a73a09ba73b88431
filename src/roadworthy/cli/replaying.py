"""A stream in a file, window by window: cells of its events, counts of its windows, estimates, alarms, and the truth where known.

A window is the last `window` events, read every `every` events and at the end of the stream. Where nobody says how often, so many
windows are kept as fit (`MOST`): each time there are more, every second is dropped and the distance doubled. Memory is that of the
windows, however long the stream is. Alarms are those of the monitor itself, which sees every event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.cli.amounts import many
from roadworthy.cli.out_of_reach import OutOfReach
from roadworthy.cli.stream_parts import MOST, Clock, Counts, Known, Truth
from roadworthy.data.samples import DataError

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimator import Estimates
    from roadworthy.data.scores import ScoreFile, ScoreTable
    from roadworthy.monitor.alarm import Alarm
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.estimate import RiskState

MOSTLY = 0.9
"""The share of a window's outcomes that must be known before its interval is held against them."""
SURE = 0.975
"""The probability that a cost is above the tolerable from which on silence is no good news."""
SHORTEST = 10
"""Events of a window, at least, as the option --window has it."""
STEP = 8192
"""Events after which the monitor is asked how many of them say as much as one."""


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
    nameless: int
    """Events without an id, in a stream that has ids: nobody can tell whether one of them came twice."""
    window: int
    every: int
    ends: np.ndarray
    """The number of the event that each window ends on; the first is 1."""
    times: np.ndarray
    """Its time in seconds; NaN where there is none."""
    truth: np.ndarray
    """The share of right answers in each window, among those whose outcome is known; NaN where these are too few."""
    known: np.ndarray
    """How many these are."""
    estimates: Estimates
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]
    alarm_times: Mapping[int, float]
    """Event at which an alarm was raised or cleared -> its time."""
    right: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Of the known outcomes of each window, how many answers were right."""
    outcomes: tuple[int, int] = (0, 0)
    """Of the whole stream, how many outcomes are known, and how many of these answers were right."""
    at_end: tuple[RiskState, ...] = ()
    """What every window of the bundle says at the end of the stream."""
    out_of_reach: tuple[str, ...] = ()
    """Scores of which many are such as no calibration row had, with both ranges."""
    effective: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """For how many independent events each window counts."""

    def time_of(self, event: int) -> float:
        """When an alarm was; NaN where the stream has no times."""
        return self.alarm_times.get(event, math.nan)

    @property
    def told(self) -> np.ndarray:
        """Which windows have an answer that can be relied on."""
        return np.array([reason is None for reason in self.estimates.cannot_tell], dtype=bool)

    @property
    def alarmed(self) -> bool:
        """Whether an alarm was raised."""
        return any(alarm.kind == "raised" for alarm in self.alarms)

    @property
    def above(self) -> float | None:
        """With which probability the last window that can be told costs more than is tolerable, where that is all but sure."""
        told = np.flatnonzero(self.told)
        last = float(self.estimates.exceedance[told[-1]]) if len(told) else math.nan
        return last if last > SURE else None

    @property
    def seemed_above(self) -> bool:
        """Whether the cost of any window is more likely than not above the tolerable."""
        return bool((self.estimates.exceedance[self.told] > 0.5).any())

    @property
    def whole(self) -> bool:
        """Whether figures stand for all of the stream: every window has some, and the monitor never said that it cannot tell."""
        return bool(self.told.all()) and not any(
            alarm.kind == "cannot tell" for alarm in self.alarms
        )

    @property
    def mostly(self) -> float:
        """How many outcomes of a window must be known before its interval is held against them."""
        return MOSTLY * self.window

    @property
    def revealed(self) -> np.ndarray:
        """Which of these can be held against the truth: an interval is of all events of a window, so that most must be known."""
        return self.told & np.isfinite(self.truth) & (self.known >= self.mostly)

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
        """One window as plain JSON values; no figure where it cannot be told, since a program believes any number it reads."""
        found = self.estimates
        reason = found.cannot_tell[at]
        return {
            "first_event": int(self.ends[at]) - self.window + 1,
            "last_event": int(self.ends[at]),
            "time": _plain(self.times[at]),
            "n": _plain(found.n[at]),
            "effective_n": _plain(self.effective[at]),
            **{
                name: None if reason is not None else _plain(getattr(found, name)[at])
                for name in FIGURES
            },
            "strangeness": _plain(found.strangeness[at]),
            "cannot_tell": reason,
            "truth": _plain(self.truth[at]),
            "truth_known": int(self.known[at]),
        }


FIGURES = (
    "rate",
    "rate_low",
    "rate_high",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "risk",
    "risk_low",
    "risk_high",
    "exceedance",
)
"""Of which none is given where a window cannot be told."""


def replay(
    bundle: Bundle,
    file: ScoreFile,
    *,
    window: int,
    every: int | None = None,
    truth: Truth | None = None,
    most: int = MOST,
    advance: Callable[[int], None] = lambda n: None,
) -> Replayed:
    """Run a stream through the bundle's estimator and monitor, in the order of the file; `advance` hears of what is done."""
    from roadworthy.monitor.events import Events
    from roadworthy.monitor.messages import too_few_scored
    from roadworthy.monitor.monitor import Monitor

    calibration = bundle.calibration
    counts = Counts(cells=calibration.cells, window=window, every=every, most=most)
    monitor, known, clock = Monitor(bundle), Known(bundle.id_horizon), Clock()
    outside = OutOfReach(
        dict(zip(calibration.names, calibration.reach, strict=True)), window=window
    )
    events = unscored = repeated = nameless = outcomes = rights = 0
    lacked: dict[str, int] = {}
    some_id, when = "", dict[int, float]()
    missing = dict.fromkeys(file.scores, 0)
    for piece in file.pieces():
        right = _right(piece, truth)
        if piece.id is not None:
            nameless += int((piece.id == "").sum())
            some_id = some_id or str(piece.id[0])
            fresh = known.fresh(piece.id)
            if not fresh.all():
                repeated += int((~fresh).sum())
                piece, right = piece.take(fresh), None if right is None else right[fresh]
        clock.see(piece.time, events)
        missing = {
            name: n + int(np.isnan(piece.columns[name]).sum()) for name, n in missing.items()
        }
        cell = calibration.place(piece.columns)
        if (cell < 0).any():
            for name, n in calibration.lacks(piece.columns).items():
                lacked[name] = lacked.get(name, 0) + n
        outside.add(piece.columns)
        if right is not None:
            outcomes, rights = (
                outcomes + int((right == right).sum()),
                rights + int(np.nansum(right)),
            )
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
            when |= {
                a.event: float(piece.time[a.event - events - 1])
                for a in monitor.alarms
                if a.event > events
            }
        events, unscored = events + piece.n, unscored + int((cell < 0).sum())
        advance(piece.n)
    counts.close(shrink=1.0 / monitor.autocorrelation_time)
    if not counts.ends:
        advice = (
            "choose a shorter one with --window"
            if events >= SHORTEST
            else f"the shortest is {SHORTEST}: wait for more"
        )
        raise DataError(
            f"{file.path.name} has {many(events, 'event')}, and a window is {window:,} of them; {advice}"
        )
    if truth is not None and not truth.found:
        raise DataError(
            f"--truth {truth.source}: none of its ids is one of {file.path.name}, so that no outcome can be told (it has "
            f"{truth.some_id!r}, the stream {some_id!r}); give the table of this stream, or choose the column with --id"
        )
    table, shrink = counts.table(), np.array(counts.shrink)
    estimates = bundle.estimator.estimate(table, shrink=shrink, confidence=bundle.confidence)
    reasons = zip(estimates.cannot_tell, table.sum(axis=1).astype(int).tolist(), strict=True)
    gone = _gone(bundle, unscored, lacked)
    told = tuple(
        too_few_scored(calibration, n, window, lacking=gone) or reason for reason, n in reasons
    )
    estimates = replace(estimates, cannot_tell=told)
    lacking = [
        f"score {name} is missing in {n:,} of {many(events, 'event')}"
        for name, n in missing.items()
        if n
    ]
    return Replayed(
        events,
        unscored,
        repeated,
        nameless,
        window,
        counts.every,
        np.array(counts.ends),
        np.array(counts.times),
        np.array(counts.truth),
        np.array(counts.known),
        estimates,
        tuple(monitor.alarms),
        (
            *file.notes,
            *lacking,
            *_nowhere(bundle, unscored, list(lacked) if gone is None else gone),
            *([] if truth is None else truth.notes),
            *_outcomes(outcomes, events, asked=truth is not None),
            *clock.notes,
            *_stream_notes(bundle, monitor.autocorrelation_time, events, clock.span),
        ),
        when,
        np.array(counts.right),
        (outcomes, rights),
        tuple(monitor.risk(name) for name in bundle.windows.names),
        tuple(outside.notes),
        estimates.n * shrink,
    )


def _gone(bundle: Bundle, unscored: int, lacked: Mapping[str, int]) -> list[str] | None:
    """The one score that all events without a place lack, none where they lack all; None where they differ."""
    if set(lacked) == set(bundle.calibration.names) and set(lacked.values()) == {unscored}:
        return []
    return list(lacked) if len(lacked) == 1 else None


def _nowhere(bundle: Bundle, unscored: int, lacked: list[str]) -> list[str]:
    """How many events say nothing, and which scores they lack."""
    if not unscored:
        return []
    says = "says nothing, since it" if unscored == 1 else "say nothing, since they"
    return [
        f"{many(unscored, 'event')} {says} {bundle.calibration.why_nowhere(unscored, lacking=lacked)}"
    ]


def _outcomes(known: int, events: int, *, asked: bool) -> list[str]:
    """Of how many events the truth is known, where that is not all; nothing where nobody asked, and nobody knows."""
    if known == events or not (known or asked):
        return []
    return [f"the truth is known for {known:,} of {many(events, 'event')}"]


def _stream_notes(bundle: Bundle, time: float, events: int, span: float | None) -> list[str]:
    """What the monitor would say about a stream that remembers, or that is faster than it was told."""
    from roadworthy.monitor.messages import (
        alarm_note,
        other_than_set,
        per_day,
    )

    notes, rule = [], bundle.alarm
    if time > 1.05:
        notes.append(f"events resemble the ones before them: {time:.1f} say as much as one")
    remark = None if rule is None else alarm_note(rule, time)
    if remark is not None:
        notes.append(remark)
    if rule is not None and span is not None:
        pace = per_day(events, span)
        said = None if pace is None else other_than_set(rule, pace)
        notes += [said] if said else []
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
    return (
        piece.correct if piece.labelled is None else np.where(piece.labelled, piece.correct, np.nan)
    )


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
