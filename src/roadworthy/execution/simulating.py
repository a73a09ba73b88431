"""A simulation at work: draw streams whose truth is known, estimate without looking at it, and compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.analysis.risk.alarmed_cells import alarmed_cells
from roadworthy.analysis.simulation.against_truth import (
    AlarmRecord,
    Error,
    Floats,
    Told,
    Truth,
    alarm_record,
    error_of,
    truth_of,
    window_counts,
    windowed,
)
from roadworthy.analysis.simulation.estimators import OF_ANOTHER_KIND, QUANTITIES
from roadworthy.analysis.simulation.schedules import draw_shift
from roadworthy.execution.progress import Progress, Silent
from roadworthy.execution.simulated_sources import Source, how_many, sources
from roadworthy.monitor import Events, Monitor
from roadworthy.spec.simulation import Simulation

ARRIVING = 50
"""Events that a monitor gets at a time, so that it knows no more of what comes than in use."""


@dataclass(frozen=True)
class Case:
    """One source of events: a table, or a synthetic detector; all streams together."""

    label: str
    tpr: float
    tnr: float
    """Of the verdicts that the simple estimators read: as calibrated, or the synthetic detector's own."""
    errors: Mapping[str, Mapping[str, Error]]
    """By estimator and quantity."""
    flags: Mapping[str, Mapping[str, float]]
    """By estimator, what it bids one beware of, and in which share of the windows."""
    cannot_tell: Mapping[str, str]
    """By estimator, why it tells nothing of any window."""
    alarms: AlarmRecord | None
    windows: tuple[dict[str, Any], ...] = field(repr=False)
    """Estimates and truth of every window of the first stream."""


@dataclass(frozen=True)
class Simulated:
    """What a simulation found."""

    title: str
    events: int
    window: int
    repeats: int
    unit: str
    tolerable: float | None
    calibrated_on: Mapping[str, int]
    """Rows by kind."""
    streamed: tuple[str, ...]
    """Kinds of the shifted events."""
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()
    alarm_window: int | None = None
    """Events that the alarm looks back on; None where there is no alarm."""


def simulate(spec: Simulation, *, progress: Progress | None = None) -> Simulated:
    """Run a simulation; the same file and seed give the same answer."""
    show = progress or Silent()
    cases: list[Case] = []
    source: Source | None = None
    show.stage("calibrating", 0)
    for number, source in enumerate(sources(spec)):
        if not number:
            show.stage(
                "estimating streams", how_many(spec) * spec.repeats * (spec.stream.events or 0)
            )
        cases.append(_case(spec, source, number, show))
    if source is None:
        raise spec.error(("stream", "detector"), "describes no detector")
    estimator = source.teller.estimator
    return Simulated(
        spec.title,
        spec.stream.events or 0,
        spec.window,
        spec.repeats,
        estimator.tree.unit,
        estimator.tolerable,
        {kind: estimator.calibration.rows(kind) for kind in estimator.calibration.kinds},
        source.kinds,
        tuple(cases),
        tuple(dict.fromkeys((*source.notes, *estimator.calibration.notes))),
        source.bundle.alarm.window
        if source.bundle is not None and source.bundle.alarm is not None
        else None,
    )


def _case(spec: Simulation, source: Source, number: int, show: Progress) -> Case:
    told: dict[str, list[dict[str, Told]]] = {name: [] for name in spec.estimators}
    truths: list[Truth] = []
    record: AlarmRecord | None = None
    # A stream is watched and then told by each estimator, which takes about as long.
    part, rest = divmod(spec.stream.events or 0, 1 + len(spec.estimators))
    tell = source.teller.tell
    for repeat in range(spec.repeats):
        rng = np.random.default_rng([spec.seed, number, repeat])
        shift = draw_shift(
            spec.stream.schedule, spec.stream.events or 0, batches=spec.stream.batches, rng=rng
        )
        try:
            stream = source.draw(spec, shift, rng)
        except ValueError as error:
            raise spec.error(("stream",), str(error)) from error
        estimator, calibration = source.teller.estimator, source.teller.estimator.calibration
        cells = calibration.place(stream.columns)
        truths.append(
            truth_of(
                stream,
                spec.window,
                estimator.tree,
                source.parameters,
                detected=(cells >= 0) & alarmed_cells(calibration)[np.maximum(cells, 0)],
                chance=source.chances(stream),
                tolerable=estimator.tolerable,
            )
        )
        counts = window_counts(cells, spec.window, calibration.cells)
        confidences = None
        if source.cbpe is not None:
            confidences = (
                source.cbpe,
                windowed(1.0 - stream.columns[spec.confidence_from], spec.window),
            )
        batches = None
        if spec.batch is not None:
            bins = calibration.shift.bins
            each = window_counts(calibration.shift_bin(cells), spec.batch, bins)
            per = spec.window // spec.batch
            batches = each[: len(counts) * per].reshape(len(counts), per, bins)
        shrink: Floats = np.ones(len(counts))
        if source.bundle is not None:
            monitor = Monitor(source.bundle)
            shrink = 1.0 / np.array(list(_watched(monitor, cells, spec.window)))[: len(counts)]
            if source.bundle.alarm is not None:
                found = _alarms(
                    monitor, source.bundle.alarm.window, truths[-1], stream.shift.rate > 0
                )
                record = found if record is None else record + found
        show.advance(part + rest)
        for name in spec.estimators:
            told[name].append(
                tell(name, counts, shrink=shrink, confidences=confidences, batches=batches)
            )
            show.advance(part)
    errors = {name: _errors(told[name], truths) for name in spec.estimators}
    flags = {name: _flagged([t["rate"] for t in told[name]]) for name in spec.estimators}
    untold = {
        name: reason
        for name in spec.estimators
        if (reason := told[name][0]["rate"].reason) is not None
    }
    verdicts = source.detector or source.teller.estimator.separation
    first = tuple(_rows({name: told[name][0] for name in spec.estimators}, truths[0], spec.window))
    return Case(source.label, verdicts.tpr, verdicts.tnr, errors, flags, untold, record, first)


def _errors(told: list[dict[str, Told]], truths: list[Truth]) -> dict[str, Error]:
    found = {}
    for name in QUANTITIES:
        parts = [[getattr(t[name], end) for t in told] for end in ("value", "low", "high")]
        together = Told(*(np.concatenate(part) for part in parts))
        found[name] = error_of(together, np.concatenate([getattr(truth, name) for truth in truths]))
    return found


def _flagged(rates: list[Told]) -> dict[str, float]:
    """By flag, the share of the windows of all streams where it stands."""
    windows = sum(len(told.value) for told in rates)
    flags = dict.fromkeys(flag for told in rates for flag in told.flags)
    return {
        flag: sum(int(told.flags[flag].sum()) for told in rates if flag in told.flags) / windows
        for flag in flags
    }


def _rows(
    told: Mapping[str, Mapping[str, Told]], truth: Truth, window: int
) -> Iterator[dict[str, Any]]:
    for i in range(len(truth.rate)):
        row: dict[str, Any] = {"event": (i + 1) * window}
        for quantity in QUANTITIES:
            row[f"true_{quantity}"] = float(getattr(truth, quantity)[i])
            for name, by in told.items():
                for end in ("value", "low", "high"):
                    number = float(getattr(by[quantity], end)[i])
                    suffix = "" if end == "value" else f"_{end}"
                    row[f"{name}_{quantity}{suffix}"] = None if np.isnan(number) else number
        for name in (name for name in told if name not in OF_ANOTHER_KIND):
            row[f"{name}_flags"] = "; ".join(
                flag for flag, where in told[name]["rate"].flags.items() if where[i]
            )
        yield row


def _watched(monitor: Monitor, cells: np.ndarray, window: int) -> Iterator[float]:
    """Hand a monitor the events as they come; after each window, how many of them say as much as one independent event."""
    for start in range(0, len(cells), window):
        stop = min(start + window, len(cells))
        for first in range(start, stop, ARRIVING):
            monitor.update(Events(cells=cells[first : min(first + ARRIVING, stop)]))
        yield monitor.autocorrelation_time


def _alarms(monitor: Monitor, window: int, truth: Truth, shifted: np.ndarray) -> AlarmRecord:
    raised, cleared = (
        [a.event - 1 for a in monitor.alarms if a.kind == kind] for kind in ("raised", "cleared")
    )
    return alarm_record(raised, cleared, truth.due, window=window, shifted=shifted)
