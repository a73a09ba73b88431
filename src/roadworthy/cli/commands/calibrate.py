"""``roadworthy calibrate scores.parquet``: from scores with known outcomes to a bundle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from roadworthy.cli import output
from roadworthy.cli.options import Json
from roadworthy.cli.output import bundle_notes, coverage_of, many, percent
from roadworthy.cli.progress import open_progress

if TYPE_CHECKING:
    from roadworthy.data.scores import ScoreTable
    from roadworthy.monitor import Bundle
    from roadworthy.monitor.compile import KindSummary

LONGEST = 100_000
"""Events of a window: setting the alarm for a longer one would take an hour."""
LEAST, MOST = 1e-3, 1e12
"""Events a day: one in three years, and more than any service takes."""
MOST_ODDS = math.log(1e9)
FEW = 300
"""Clean rows below which the rate of false alarms is not promised."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("calibrate")(_calibrate)


def _calibrate(
    scores: Annotated[Path, Argument(help="CSV, CSV.gz or Parquet: kind, correct, and scores.")],
    out: Annotated[Path | None, Option(help="The bundle to write (SCORES.bundle.json).")] = None,
    cost: Annotated[list[str] | None, Option(help="right=635, wrong=6735 (repeat it).")] = None,
    unit: Annotated[str | None, Option(help='Unit of costs: "EUR per patient".')] = None,
    tree: Annotated[Path | None, Option(help="An event tree in YAML, instead of --cost.")] = None,
    detector: Annotated[str | None, Option(help="The score whose alarms call a person.")] = None,
    threshold: Annotated[float | None, Option(help="The score above which it does.")] = None,
    tolerable: Annotated[float | None, Option(help="Cost per event that raises the alarm.")] = None,
    window: Annotated[int, Option(min=10, max=LONGEST, help="Events of the alarm's window.")] = 100,
    half_life: Annotated[
        float | None, Option(help="Adds a window in which events lose half their weight so often.")
    ] = None,
    adaptive: Annotated[
        bool, Option("--adaptive", help="Adds a window of all events since the last change.")
    ] = False,
    prior: Annotated[float | None, Option(help="Share of shifted events that you expect.")] = None,
    false_alarms: Annotated[str, Option(help="Acceptable without shift.")] = "1 per month",
    events_per_day: Annotated[
        float | None, Option(help="From the table's times, else 10,000.")
    ] = None,
    clean: Annotated[list[str] | None, Option(help="Kinds without shift (clean).")] = None,
    kind: Annotated[str | None, Option(help="Column of the kind of shift (kind).")] = None,
    correct: Annotated[str | None, Option(help="Column of right and wrong (correct).")] = None,
    group: Annotated[
        str | None, Option(help="Column of what belongs together, such as a patient; or none.")
    ] = None,
    time: Annotated[str | None, Option(help="Column of the time (time).")] = None,
    id: Annotated[str | None, Option(help="Column of the case's id (id).")] = None,
    score: Annotated[
        list[str] | None, Option(help="Column of a score (every other numeric column).")
    ] = None,
    subject: Annotated[str | None, Option(help="The model's name and version.")] = None,
    json: Json = False,
) -> None:
    """Learn from scores how shift looks and how often answers are then right, and set the alarm.

    The table has one row a case: the kind of shift (clean without any), whether the answer was
    right, and the scores of one or more supervisors.
    """
    from roadworthy.cli.options import chosen_tree, refuse_no_folder, refuse_own_input
    from roadworthy.data.samples import DataError
    from roadworthy.data.scores import read_scores
    from roadworthy.monitor.compile import NEEDS, calibrate, pace, stem, summarise

    chosen, constants, assumed = chosen_tree(cost or [], unit, tree)
    if events_per_day is not None and not LEAST <= events_per_day <= MOST:
        raise DataError(f"--events-per-day {events_per_day:g}: expected {LEAST:g} to {MOST:g}")
    if scores.suffix.lower() == ".json":
        raise DataError(f"{scores}: expected a table of scores, CSV or Parquet")
    target = out or scores.parent / f"{stem(scores)}.bundle.json"
    refuse_no_folder("--out", target)
    refuse_own_input("--out", target, scores, tree)
    if target.suffix.lower() != ".json":
        raise DataError(f"--out {target}: the name of a bundle must end in .json")
    table = read_scores(
        scores,
        needs=NEEDS,
        kind=kind,
        correct=correct,
        clean=clean or None,
        group=group,
        time=time,
        id=id,
        columns=score or None,
    )
    with open_progress(quiet=json) as progress:
        try:
            bundle = calibrate(
                table,
                tree=chosen,
                constants=constants,
                tolerable=tolerable,
                detector=detector,
                threshold=threshold,
                window=window,
                half_life=half_life,
                adaptive=adaptive,
                prior=prior,
                false_alarms=false_alarms,
                events_per_day=events_per_day,
                subject=subject,
                progress=lambda stage: progress.stage(stage, 0),
            )
        except ValueError as error:
            raise error if isinstance(error, DataError) else DataError(str(error)) from error
    bundle.save(target)
    notes = [*assumed, *_notes(bundle, paced=bool(events_per_day or pace(table)))]
    kinds = summarise(bundle, table)
    if json:
        output.print_json(_content(scores, target, bundle, kinds, notes))
    else:
        _print(scores, target, table, bundle, kinds, notes)


def _notes(bundle: Bundle, *, paced: bool) -> list[str]:
    """Notes of the bundle, with the option that changes a default."""
    options = {"No tolerable": "--tolerable", "No detector": "--detector"}
    notes = [
        next((f"{note} Set {o}." for start, o in options.items() if note.startswith(start)), note)
        for note in bundle_notes(bundle)
    ]
    if bundle.alarm is not None and not paced:
        pace = f"{bundle.alarm.events_per_day:,.0f}"
        notes.append(f"Events a day unknown. Using {pace}. Set --events-per-day.")
    return notes


def alarm_in_words(bundle: Bundle) -> str:
    """The rule of the alarm."""
    from roadworthy.analysis.risk.tree import priced

    rule, calibration = bundle.alarm, bundle.calibration
    assert rule is not None and bundle.tolerable is not None, "calibrate sets a limit"
    if not bundle.estimator.separation.enough:
        return "Alarm: none will be raised, because the scores do not separate shifted from clean."
    on, off = (1.0 / (1.0 + math.exp(-log_odds)) for log_odds in (rule.on, rule.off))
    budget = f"{rule.false_alarms} at {rule.events_per_day:,.0f} events a day"
    evidence = ""
    if rule.burden > math.log(2.0):
        odds = f"{float(f'{math.exp(min(rule.burden, MOST_ODDS)):.2g}'):,.0f}"
        evidence = (
            f" and the evidence for shift exceeds {odds}:1 (from your false-alarm budget: {budget})"
        )
    said = (
        f"Alarm: checked every {rule.stride:,} events on the last {rule.window:,}. Raised when "
        f"P(cost > {priced(bundle.tolerable, bundle.unit)}) > {on:.0%}{evidence}. "
        f"Cleared when the probability falls below {off:.0%}."
    )
    rows = calibration.rows(calibration.kinds[0])
    if rows < FEW:
        said += f" {many(rows, 'clean row')}: too few to promise this rate of false alarms."
    return said


def _detected(bundle: Bundle) -> dict[str, str]:
    """By kind, how often a step to 30% of it raises the alarm within two windows."""
    rule = bundle.alarm
    assert rule is not None
    if not bundle.estimator.separation.enough:
        return dict.fromkeys(dict(rule.detects), "no estimate")
    return {k: "tolerable" if k in rule.not_due else percent(p) for k, p in rule.detects}


def _next(target: Path, scores: Path) -> str:
    return f"roadworthy replay {target} today{''.join(scores.suffixes[-1:])}"


def _print(
    scores: Path,
    target: Path,
    table: ScoreTable,
    bundle: Bundle,
    kinds: Sequence[KindSummary],
    notes: Sequence[str],
) -> None:
    names, detected = bundle.calibration.names, _detected(bundle)
    head = f"{scores}: {many(table.n, 'row')}, {many(len(names), 'score')}: {', '.join(names)}"
    output.print_lines([head, *(f"warning: {warning}" for warning in bundle.warnings)])
    output.print_table(
        ("Kind", "Rows", "Accuracy", "95% interval", "AUC vs clean", "Detected at 30%"),
        [
            (
                k.kind,
                f"{k.rows:,}",
                percent(k.accuracy),
                f"{percent(k.low)} to {percent(k.high)}",
                "" if k.auc is None else f"{k.auc:.3f}",
                detected.get(k.kind, ""),
            )
            for k in kinds
        ],
        left=("Kind",),
    )
    output.print_lines(
        [
            alarm_in_words(bundle),
            *_forecast(bundle),
            coverage_of(bundle),
            *(f"note: {note}" for note in notes),
            f"Wrote {target} (bundle {bundle.id}). Next, with a stream that has the same scores:",
            f"  {_next(target, scores)}",
        ]
    )


def _forecast(bundle: Bundle) -> list[str]:
    """The cost to expect, if somebody said how much shift to expect."""
    from roadworthy.analysis.risk.tree import priced
    from roadworthy.numbers import amount

    found = bundle.forecast
    if found is None or not found.rate:
        return []
    above = found.risk > (bundle.tolerable or math.inf)
    return [
        f"Forecast with {percent(found.rate)} of events shifted: {priced(found.risk, bundle.unit)} "
        f"({amount(found.low)} to {amount(found.high)})"
        f"{', above the tolerable limit: expect many alarms' if above else ''}."
    ]


def _content(
    scores: Path, target: Path, bundle: Bundle, kinds: Sequence[KindSummary], notes: Sequence[str]
) -> dict[str, Any]:
    from roadworthy.web.views import prior_view, windows_of

    rule = bundle.alarm
    assert rule is not None
    return {
        "scores": str(scores),
        "bundle": str(target),
        "bundle_id": bundle.id,
        "names": list(bundle.calibration.names),
        "kinds": [
            {**k._asdict(), "noticed": dict(rule.detects).get(k.kind)}
            | ({} if k.auc is None else {"due": k.kind not in rule.not_due})
            for k in kinds
        ],
        "unit": bundle.unit,
        "tolerable": bundle.tolerable,
        "windows": windows_of(bundle),
        "prior": prior_view(bundle),
        "forecast": bundle.forecast and asdict(bundle.forecast),
        "alarm": {
            "window": rule.window,
            "stride": rule.stride,
            "on_log_odds": rule.on,
            "off_log_odds": rule.off,
            "burden": rule.burden if math.isfinite(rule.burden) else None,
            "false_alarms": rule.false_alarms,
            "events_per_day": rule.events_per_day,
            "in_words": alarm_in_words(bundle),
        },
        "coverage_on_kinds_left_out": None if bundle.coverage is None else asdict(bundle.coverage),
        "warnings": list(bundle.warnings),
        "notes": list(notes),
        "next": _next(target, scores),
    }
