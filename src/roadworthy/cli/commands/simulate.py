"""``roadworthy simulate FILE``: how far every estimator is off on streams whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import output
from roadworthy.cli.options import Json
from roadworthy.cli.output import cost_of, many, percent, print_lines, print_table
from roadworthy.cli.progress import open_progress

if TYPE_CHECKING:
    import numpy as np

    from roadworthy.analysis.simulation.experiment import (
        AlarmRecord,
        Case,
        Error,
        Simulated,
        Source,
        Watch,
        WatchedStream,
    )
    from roadworthy.spec.simulation import Simulation

NAMES = {"event_tree": "event tree (roadworthy)", "cbpe": "confidence (CBPE)"}
"""Estimators that are no registered components; those have titles."""
OUTSIDE = "a share of alarms outside [FPR, TPR]"
MEANING = (
    "The estimate is then 0 or 1; without shift, chance alone does this in half of the windows."
)
ARRIVING = 50
"""Events that a monitor gets at a time, so that it knows no more of what comes than in use."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("simulate")(simulate)


def simulate(
    file: Annotated[Path, typer.Argument(help="The simulation file; examples/runtime has some.")],
    json: Json = False,
) -> None:
    """Draw streams whose truth is known, estimate without it, and show how far off estimates are."""
    from roadworthy.analysis.simulation import experiment
    from roadworthy.spec.simulation import Simulation

    spec = Simulation.read(file)
    with open_progress(quiet=json) as progress:
        total = max(len(spec.detectors), 1) * spec.repeats * spec.experiment.events
        progress.stage("estimating streams", total)
        try:
            simulated = experiment.run_experiment(
                spec.experiment,
                spec.sources(),
                monitor=lambda source: _monitor(spec, source),
                advance=progress.advance,
            )
        except experiment.ExperimentError as error:
            raise spec.error(error.place, str(error)) from error
    if json:
        output.print_json({"name": spec.title, **simulated.to_dict()})
    else:
        _print(spec.title, simulated)


def _monitor(spec: Simulation, source: Source) -> Watch | None:
    """The monitor that watches a source; independent verdicts without a limit need none."""
    from roadworthy.monitor import Bundle, Windows

    estimator = source.estimators.estimator
    if estimator.tolerable is None and spec.stream.detector is not None:
        return None
    try:
        bundle = Bundle.compile(
            estimator.calibration,
            estimator.tree,
            subject=spec.title,
            constants=spec.risk.constants,
            tolerable=estimator.tolerable,
            windows=Windows((spec.window,)),
            alarm_window=spec.window,
            false_alarms=spec.alarm.false_alarms,
            events_per_day=spec.alarm.events_per_day,
            seed=spec.seed,
        )
    except ValueError as error:
        raise spec.error(("alarm",), str(error)) from error
    return lambda cells: _watched(bundle, cells, spec.window)


def _watched(bundle: Any, cells: np.ndarray, window: int) -> WatchedStream:
    """Hand a monitor the events as they come."""
    import numpy as np

    from roadworthy.analysis.simulation.experiment import WatchedStream
    from roadworthy.monitor import Events, Monitor

    monitor, times = Monitor(bundle), []
    for start in range(0, len(cells), window):
        stop = min(start + window, len(cells))
        for first in range(start, stop, ARRIVING):
            monitor.update(Events(cells=cells[first : min(first + ARRIVING, stop)]))
        times.append(monitor.autocorrelation_time)
    raised, cleared = (
        [alarm.event - 1 for alarm in monitor.alarms if alarm.kind == kind]
        for kind in ("raised", "cleared")
    )
    looks_back = None if bundle.alarm is None else bundle.alarm.window
    return WatchedStream(np.array(times), raised, cleared, looks_back)


def _print(title: str, simulated: Simulated) -> None:
    made = simulated.experiment
    rows = ", ".join(f"{kind} {n:,}" for kind, n in simulated.calibrated_on.items())
    print_lines(
        [
            title,
            f"Calibration rows: {rows}. Shifted events: {', '.join(simulated.streamed)}.",
            f"Streams: {made.repeats} of {made.events:,} events, in windows of {made.window} events.",
            *(f"note: {note}" for note in simulated.notes),
        ]
    )
    (_by_detector if len(simulated.cases) > 1 else _by_estimator)(simulated)
    print_lines(_outside(simulated))
    records = [case.alarms for case in simulated.cases if case.alarms is not None]
    if records:
        print_lines([_alarms(sum(records[1:], records[0]), simulated)])


def _by_estimator(simulated: Simulated) -> None:
    """One row an estimator, for one source."""
    (case,) = simulated.cases
    header = ["", "Rate", "Accuracy", cost_of(simulated.experiment.tree.unit), "Estimated"]
    rows = [
        [
            _title(name),
            *(_cell(by[quantity], quantity) for quantity in ("rate", "accuracy", "risk")),
            percent(by["accuracy"].estimated),
        ]
        for name, by in case.errors.items()
    ]
    level = f"{simulated.experiment.confidence:.0%}"
    title = f"Mean absolute error (coverage of {level} intervals, their mean width)"
    print_table(header, rows, left=header, title=title)
    for reason in dict.fromkeys(case.no_estimate.values()):
        names = "; ".join(_title(n) for n, why in case.no_estimate.items() if why == reason)
        print_lines([f"No estimate by {names}: {reason}."])


def _cell(error: Error, quantity: str) -> str:
    if math.isnan(error.mean_absolute):
        return "–"
    digits = "{:.3f}" if quantity != "risk" else "{:.3g}"
    value = digits.format(error.mean_absolute)
    if math.isnan(error.coverage):
        return f"{value} (no interval)"
    return f"{value} ({percent(error.coverage)}, {digits.format(error.width)})"


def _by_detector(simulated: Simulated) -> None:
    """Errors by balanced accuracy, as figures 3 and 8 of the paper show them."""
    levels: dict[float, list[Case]] = {}
    for case in simulated.cases:
        levels.setdefault(round((case.tpr + case.tnr) / 2, 6), []).append(case)
    names = list(simulated.cases[0].errors)
    header = ["Balanced accuracy", "Detectors", *map(_title, names)]
    for quantity in ("rate", "accuracy"):
        rows = []
        for level, some in sorted(levels.items()):
            errors = [[c.errors[n][quantity].mean_absolute for c in some] for n in names]
            rows.append([f"{level:.2f}", str(len(some)), *map(_mean, errors)])
        title = f"Mean absolute error of the {quantity}, by the detector's balanced accuracy"
        print_table(header, rows, left=header, title=title)


def _mean(values: Sequence[float]) -> str:
    known = [v for v in values if not math.isnan(v)]
    return f"{sum(known) / len(known):.3f}" if known else "no estimate"


def _title(name: str) -> str:
    from roadworthy.registry import components

    known = components("estimators")
    return str(known[name].traits.get("title", name)) if name in known else NAMES.get(name, name)


def _outside(simulated: Simulated) -> list[str]:
    """By estimator, in how many windows alarms are fewer or more than any rate explains."""
    cases = simulated.cases
    shares = {
        name: sum(case.outside.get(name, 0.0) for case in cases) / len(cases)
        for name in cases[0].errors
    }
    where = ", ".join(
        f"{percent(share)} ({_title(name)})" for name, share in shares.items() if share
    )
    return [f"note: Windows with {OUTSIDE}: {where}. {MEANING}"] if where else []


def _alarms(record: AlarmRecord, simulated: Simulated) -> str:
    """How late alarms were, how many were missed, and how many were raised without need."""
    from roadworthy.analysis.risk.tree import priced

    made = simulated.experiment
    limit = f"above {priced(made.tolerable or 0.0, made.tree.unit)}"
    said = [f"Alarms: due in {record.due:,} stretches {limit}."]
    if record.delays:
        late = sorted(record.delays)
        median, most = late[len(late) // 2], late[-1]
        said.append(f"Raised in {len(late)}, after {median:,} events (median; at most {most:,}).")
    if record.missed:
        said.append(f"Missed: {record.missed}.")
    said.append(
        f"False alarms: {record.false} in {many(record.quiet_events, 'event')} without shift."
    )
    if record.tolerable_shift_events:
        events = many(record.tolerable_shift_events, "event")
        said.append(
            f"Under tolerable shift: {many(record.under_tolerable_shift, 'alarm')} in {events}."
        )
    return " ".join(said)
