"""``roadworthy simulate FILE``: estimates against a truth that is known, on a stream with any schedule of shift."""

from __future__ import annotations

import csv
import json as json_format
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.analysis.risk.amounts import priced
from roadworthy.cli import showing
from roadworthy.cli.amounts import cost_of, many

if TYPE_CHECKING:
    from rich.console import Console

    from roadworthy.analysis.simulation.against_truth import AlarmRecord, Error
    from roadworthy.execution.simulating import Case, Simulated

NAMES = {"event_tree": "event tree (roadworthy)", "cbpe": "confidence (CBPE)"}
"""Of the estimators that stand beside the room's; those of the room have titles."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("simulate")(simulate)


def simulate(
    file: Annotated[Path, typer.Argument(help="The simulation file; examples/runtime has some.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder for result.json, and windows.csv with every window of the first stream."
        ),
    ] = None,
) -> None:
    """Draw streams whose truth is known, estimate without looking at it, and show how far off every estimator is."""
    from roadworthy.execution.simulating import simulate as run
    from roadworthy.spec.simulation import Simulation

    with showing.shown(quiet=json) as progress:
        simulated = run(Simulation.read(file), progress=progress)
    content = _content(simulated)
    if out is not None:
        _write(out, simulated, content)
    if json:
        showing.print_json(content)
    else:
        _print(simulated, showing.console())
        if out is not None:
            showing.console().print(
                f"Written: {out / 'result.json'} and {out / 'windows.csv'}", soft_wrap=True
            )


def _content(simulated: Simulated) -> dict[str, Any]:
    return {
        "name": simulated.title,
        "events": simulated.events,
        "window": simulated.window,
        "repeats": simulated.repeats,
        "unit": simulated.unit,
        "tolerable": simulated.tolerable,
        "alarm_window": simulated.alarm_window,
        "calibrated_on": dict(simulated.calibrated_on),
        "streamed": list(simulated.streamed),
        "notes": list(simulated.notes),
        "flags": {flag: _meaning(flag) for flag in _standing(simulated.cases)},
        "cases": [_case(case) for case in simulated.cases],
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "source": case.label,
        "tpr": case.tpr,
        "tnr": case.tnr,
        "errors": {name: {q: _error(e) for q, e in by.items()} for name, by in case.errors.items()},
        "flags": {name: dict(by) for name, by in case.flags.items() if by},
        "cannot_tell": dict(case.cannot_tell),
        "alarms": None if case.alarms is None else _alarms(case.alarms),
    }


def _error(error: Error) -> dict[str, float | int | None]:
    return {name: _or_none(value) for name, value in vars(error).items()}


def _alarms(record: AlarmRecord) -> dict[str, Any]:
    return {
        "due": record.due,
        "missed": record.missed,
        "missed_shorter_than_window": record.missed_brief,
        "delays": list(record.delays),
        "false": record.false,
        "quiet_events": record.quiet,
        "under_tolerable_shift": record.early,
        "tolerable_shift_events": record.tolerable,
    }


def _or_none(value: float) -> float | int | None:
    return None if isinstance(value, float) and math.isnan(value) else value


def _write(folder: Path, simulated: Simulated, content: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(
        json_format.dumps(content, indent=1) + "\n", encoding="utf-8"
    )
    with (folder / "windows.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [{"source": case.label, **row} for case in simulated.cases for row in case.windows]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _print(simulated: Simulated, out: Console) -> None:
    from rich.markup import escape

    out.print(f"[bold]{escape(simulated.title)}[/bold]", soft_wrap=True)
    rows = ", ".join(f"{kind} {n:,}" for kind, n in simulated.calibrated_on.items())
    out.print(
        f"Calibrated on {escape(rows)} rows; shifted events are {escape(', '.join(simulated.streamed))}.",
        soft_wrap=True,
    )
    streams = "1 stream" if simulated.repeats == 1 else f"{simulated.repeats} streams"
    out.print(
        f"{streams} of {simulated.events:,} events, estimated window by window of {simulated.window}.",
        soft_wrap=True,
    )
    for note in simulated.notes:
        out.print(f"note: {escape(note)}", soft_wrap=True)
    if len(simulated.cases) > 1:
        _by_detector(simulated.cases, out)
    else:
        _by_estimator(simulated, out)
    _footnotes(simulated.cases, out)
    record = _together(simulated.cases)
    if record is not None:
        out.print(_said(record, simulated), soft_wrap=True)


def _by_estimator(simulated: Simulated, out: Console) -> None:
    (case,) = simulated.cases
    marks = _standing(simulated.cases)
    header = [
        "",
        "Rate",
        "Accuracy",
        cost_of(simulated.unit),
        "Told",
        *(["Flagged"] if marks else []),
    ]
    rows = [
        [_title(name), *(_cell(by[q], q) for q in ("rate", "accuracy", "risk")), _told(by)]
        + (
            [", ".join(f"{marks[f]} {share:.0%}" for f, share in case.flags[name].items())]
            if marks
            else []
        )
        for name, by in case.errors.items()
    ]
    _table(
        out,
        "Mean absolute error · share of intervals that hold the truth, and their width",
        header,
        rows,
    )
    for reason in dict.fromkeys(case.cannot_tell.values()):
        names = "; ".join(_title(name) for name, why in case.cannot_tell.items() if why == reason)
        out.print(f"Cannot tell: {reason}. That holds for {names}.", soft_wrap=True, markup=False)


def _title(name: str) -> str:
    """An estimator in words."""
    from roadworthy.registry import components

    known = components("estimators")
    return str(known[name].traits.get("title", name)) if name in known else NAMES.get(name, name)


def _standing(cases: Sequence[Case]) -> dict[str, str]:
    """The flags that stand anywhere, each with a letter."""
    flags = dict.fromkeys(flag for case in cases for by in case.flags.values() for flag in by)
    return dict(zip(flags, "abcdefghijklmnopqrstuvwxyz", strict=False))


def _meaning(flag: str) -> str:
    from roadworthy.analysis.risk.rates.base import MEANING

    return MEANING.get(flag, "")


def _footnotes(cases: Sequence[Case], out: Console) -> None:
    """What estimators bid one beware of, in how many of their windows, and what it means."""
    for flag, letter in _standing(cases).items():
        shares = {
            name: [case.flags[name].get(flag, 0.0) for case in cases] for name in cases[0].flags
        }
        where = ", ".join(
            f"{_title(n)} {sum(by) / len(by):.0%}" for n, by in shares.items() if any(by)
        )
        means = f": {_meaning(flag)}" if _meaning(flag) else ""
        out.print(
            f"{letter}  {flag} ({where} of windows){means}.",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )


def _told(by: Mapping[str, Error]) -> str:
    return f"{by['accuracy'].told:.0%}"


def _cell(error: Error, quantity: str) -> str:
    if math.isnan(error.mean_absolute):
        return "–"
    digits = "{:.3f}" if quantity != "risk" else "{:.3g}"
    value = digits.format(error.mean_absolute)
    if math.isnan(error.coverage):
        return f"{value} · no interval"
    return f"{value} · {error.coverage:.0%} of {digits.format(error.width)}"


def _by_detector(cases: Sequence[Case], out: Console) -> None:
    """Errors by balanced accuracy, as figures 3 and 8 of the paper show them."""
    levels: dict[float, list[Case]] = {}
    for case in cases:
        levels.setdefault(round((case.tpr + case.tnr) / 2, 6), []).append(case)
    names = list(cases[0].errors)
    for quantity in ("rate", "accuracy"):
        rows = []
        for level in sorted(levels):
            cells = [
                _mean([c.errors[n][quantity].mean_absolute for c in levels[level]]) for n in names
            ]
            rows.append([f"{level:.2f}", str(len(levels[level])), *cells])
        header = ["Balanced accuracy", "Detectors", *(_title(n) for n in names)]
        _table(
            out,
            f"Mean absolute error of the {quantity}, by the detector's balanced accuracy",
            header,
            rows,
        )


def _mean(values: Sequence[float]) -> str:
    told = [v for v in values if not math.isnan(v)]
    if not told:
        return "cannot tell"
    left = f" ({len(values) - len(told)} cannot tell)" if len(told) < len(values) else ""
    return f"{sum(told) / len(told):.3f}{left}"


def _together(cases: Sequence[Case]) -> AlarmRecord | None:
    record = None
    for case in cases:
        if case.alarms is not None:
            record = case.alarms if record is None else record + case.alarms
    return record


def _said(record: AlarmRecord, simulated: Simulated) -> str:
    """The alarms in one or two sentences."""
    limit = f"above {priced(simulated.tolerable or 0.0, simulated.unit)}"
    if not record.due:
        came = f"Alarms: never due (the expected cost is never {limit})"
    elif not record.delays:
        came = f"Alarms: due in {stretches(record.due)} {limit}, and raised in none"
    else:
        late = sorted(record.delays)
        came = (
            f"Alarms: due in {stretches(record.due)} {limit}; raised in {len(late)}, after a median of "
            f"{late[len(late) // 2]:,} events (at most {late[-1]:,}); {record.missed} missed"
        )
    return f"{came}.{_brief(record, simulated)} {_undue(record)}"


def _undue(record: AlarmRecord) -> str:
    """Alarms where none was due: false ones, of which a rate is accepted, apart from those under a shift that is tolerable."""
    if record.quiet:
        said = f"Without shift: {record.false} false in {many(record.quiet, 'event')}."
    else:
        said = "No window is without shift, so that nothing is said of false alarms."
    if not record.tolerable:
        return said
    return (
        f"{said} Under shift that is still tolerable: {record.early} in {many(record.tolerable, 'event')}; the rate of false "
        "alarms that is accepted is one of streams without shift."
    )


def _brief(record: AlarmRecord, simulated: Simulated) -> str:
    """Which of the missed stretches could hardly have been noticed, and why."""
    if not record.missed_brief or simulated.alarm_window is None:
        return ""
    return (
        f" Of the missed, {record.missed_brief} {'was' if record.missed_brief == 1 else 'were'} shorter than the alarm's window "
        f"of {simulated.alarm_window:,} events, which then held clean events too and on average cost less; "
        f"{record.missed_long} lasted a window or longer."
    )


def stretches(n: int) -> str:
    """
    >>> stretches(1), stretches(30)
    ('1 stretch', '30 stretches')
    """
    return f"{n:,} stretch" if n == 1 else f"{n:,} stretches"


def _table(out: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in header:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)
