"""``roadworthy calibrate scores.parquet``: a table of scores with known outcomes becomes the bundle that a monitor runs from."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import showing
from roadworthy.cli.alarm_words import alarm_in_words, noticed, rule_of
from roadworthy.cli.amounts import many, percent
from roadworthy.cli.resting_on import stem

if TYPE_CHECKING:
    from rich.console import Console

    from roadworthy.cli.learnt import KindLearnt
    from roadworthy.data.scores import ScoreTable
    from roadworthy.monitor.bundle import Bundle


LONGEST = 100_000
"""Events of a window: a longer one is read no better, and setting an alarm for it would take an hour."""
LONG = 5000
"""Events of a window from which on setting an alarm takes a minute or more."""


@dataclass(frozen=True)
class Calibrated:
    """What a table became, and what is said of it."""

    scores: Path
    target: Path
    bundle: Bundle
    kinds: Sequence[KindLearnt]
    notes: Sequence[str]
    warnings: Sequence[str]


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("calibrate")(calibrate)


def calibrate(
    scores: Annotated[
        Path, typer.Argument(help="CSV, CSV.gz or Parquet: kind of shift, correct, and scores.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The bundle to write (SCORES.bundle.json).")
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(help="What an outcome costs: right=635, wrong=6735 (repeat it)."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help='What costs are counted in: "EUR per patient".')
    ] = None,
    tree: Annotated[
        Path | None, typer.Option(help="A YAML file with an event tree, instead of --cost.")
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The score whose alarms call a person, where a cost depends on one.",
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="The score above which it raises an alarm.")
    ] = None,
    tolerable: Annotated[
        float | None, typer.Option(help="The cost of an event above which to raise the alarm.")
    ] = None,
    window: Annotated[
        int, typer.Option(min=10, max=LONGEST, help="Events that the alarm looks back on.")
    ] = 100,
    half_life: Annotated[
        float | None,
        typer.Option(help="A further window: events count for half after so many others."),
    ] = None,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive", help="A further window: all events since the stream last changed."
        ),
    ] = False,
    prior: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="How much shift to expect, before a window is full and in the forecast: 0.05.",
        ),
    ] = None,
    prior_events: Annotated[
        float | None, typer.Option(help="How many events that is worth (20).")
    ] = None,
    false_alarms: Annotated[
        str, typer.Option(help="How many are acceptable without shift: 1 per month.")
    ] = "1 per month",
    events_per_day: Annotated[
        float | None, typer.Option(help="How many events come in a day.")
    ] = None,
    group_events: Annotated[
        int | None,
        typer.Option(
            help="Events of one group that come in a row on the stream: of a drive, a patient, an hour."
        ),
    ] = None,
    clean: Annotated[
        list[str] | None, typer.Option(help="What the table calls rows without shift (clean).")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The kind of shift (kind, role, shift).")
    ] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Whether the answer was right (correct).")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What belongs together, such as a patient; none: rows are independent.",
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="When it happened (time).")
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The name of the case (id), which is no score."),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A score (every other numeric column)."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="The model's name and version (the name of the table).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over what another table made.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Learn from a table of scores how shift looks, how often answers are then right, and when to raise the alarm.

    The table has one row a case: which kind of shift it is under (clean where none), whether the answer was right, and the
    scores of one or several supervisors.
    """
    from roadworthy.analysis.risk.prototypes import constants_told
    from roadworthy.analysis.risk.tolerable import nobody_said, refuse_out_of_reach
    from roadworthy.cli.alarms_at_work import alarms_at_work, looks_reversed, whose
    from roadworthy.cli.cautions import notes_of, refuse_unreachable, warnings_of
    from roadworthy.cli.learnt import chosen_tree, costs_unsaid, learnt
    from roadworthy.cli.options import refuse_no_folder, refuse_own_input, refuse_unlike_a_count
    from roadworthy.cli.other_way_round import costs_reversed, outcomes_reversed
    from roadworthy.cli.windows_asked import prior_asked, windows_asked
    from roadworthy.data.samples import DataError
    from roadworthy.data.scores import read_scores
    from roadworthy.monitor.alarm import alarms_per_day
    from roadworthy.monitor.before_release import LabelledRows, left_out, tolerated
    from roadworthy.monitor.bundle import Bundle

    tree_used, constants = chosen_tree(cost or [], unit, tree)
    unsaid = costs_unsaid(cost or [])
    if tolerable is not None:
        try:
            refuse_out_of_reach(tree_used, tolerable)
        except ValueError as error:
            raise DataError(f"--tolerable: {error}") from error
    try:
        alarms_per_day(false_alarms)
    except ValueError as error:
        raise DataError(f"--false-alarms: {error}") from error
    if events_per_day is not None:
        refuse_unlike_a_count("--events-per-day", events_per_day)
    if group_events is not None and group_events < 1:
        raise DataError(
            f"--group-events: of one group 1 event or more come in a row, found {group_events}"
        )
    windows, before_events = (
        windows_asked(window, half_life, adaptive=adaptive),
        prior_asked(prior, prior_events),
    )
    _refuse_bundle(scores)
    # A folder such as `.` has no name to change: it is refused when it is read.
    target = out or scores.parent / f"{stem(scores)}.bundle.json"
    if out is not None:
        refuse_no_folder("--out", out)
    refuse_own_input("--out", target, scores, tree)
    before = _written_before(target, scores, force=force)
    table = read_scores(
        scores,
        kind=kind,
        correct=correct,
        clean=clean or None,
        group=group,
        time=time,
        id=id,
        columns=score or None,
        needs=("kind", "correct"),
    )
    assert table.kind is not None and table.correct is not None
    _refuse_without_shift(table)
    if group_events is not None:
        _refuse_without_groups(table)
    alarms = alarms_at_work(table, tree_used, detector, threshold)
    rate, rate_from = _events_per_day(table) if events_per_day is None else (events_per_day, None)
    rows = LabelledRows(table.columns, table.kind, table.correct, table.group, table.time)
    with showing.shown(quiet=json) as progress:
        try:
            progress.stage("learning how shift looks", 0)
            calibration = rows.calibrated(deployed=alarms)
            limit = tolerated(calibration, tree_used, constants) if tolerable is None else tolerable
            chosen = whose(tree_used, alarms)
            chosen += [nobody_said(limit, tree_used.unit)] if tolerable is None else []
            reversed_ones = (
                outcomes_reversed(table),
                costs_reversed(tree_used),
                looks_reversed(table, alarms),
            )
            swapped = [said for said in reversed_ones if said]
            progress.stage("leaving out one kind after the other", 0)
            coverage = left_out(rows)
            patience = f", which takes minutes for a window of {window:,}" if window >= LONG else ""
            progress.stage(f"setting the alarm on simulated streams without shift{patience}", 0)
            bundle = Bundle.compile(
                calibration,
                tree_used,
                constants=constants,
                tolerable=limit,
                subject=subject or stem(scores),
                prior=before_events,
                windows=windows,
                alarm_window=window,
                false_alarms=false_alarms,
                events_per_day=rate,
                expected_rate=prior or 0.0,
                coverage=coverage,
                made={
                    "source": scores.name,
                    "notes": [*table.notes, *unsaid, *constants_told(constants), *chosen],
                    "warnings": swapped,
                },
                made_at=_now(),
            )
            if tolerable is not None:
                refuse_unreachable(bundle)
        except ValueError as error:
            # What a tree lacks is known when the rows are, and is no fault of theirs.
            at_fault = tree if tree is not None and "the tree " in str(error) else scores.name
            raise DataError(f"{at_fault}: {error}") from error
    bundle.save(target)
    kinds = learnt(calibration, table.kind, table.correct, table.group)
    notes = [*whose(tree_used, alarms), *unsaid]
    notes += notes_of(table, bundle, chosen_limit=tolerable is None, rate_from=rate_from)
    if before not in (None, bundle.id):
        notes.append(
            f"the bundle {before} that was there is replaced. The state of a service belongs to the bundle it began with: begin "
            "another --state with this one, or keep both with --out"
        )
    made = Calibrated(scores, target, bundle, kinds, notes, warnings_of(bundle))
    if json:
        showing.print_json(_content(made))
    else:
        _print(made, showing.console())


def _refuse_bundle(scores: Path) -> None:
    from roadworthy.data.samples import DataError

    if scores.suffix.lower() == ".json":
        raise DataError(
            f"{scores}: a table of scores was expected, CSV or Parquet; what is made of one, a bundle, is run by "
            f"`roadworthy replay {scores} STREAM`"
        )


def _written_before(target: Path, scores: Path, *, force: bool) -> str | None:
    """The id of a bundle that will be written over; what is none, or was made from another table, is so by force only."""
    import json

    from roadworthy.data.samples import DataError

    if not target.exists():
        return None
    try:
        content = json.loads(target.read_text(encoding="utf-8"))
        before, source = str(content["id"]), str(content["made"]["source"])
    except (OSError, ValueError, KeyError, TypeError):
        if force:
            return None
        raise DataError(
            f"{target} is there already and is no bundle; choose another with --out, or --force"
        ) from None
    if source != scores.name and not force:
        raise DataError(
            f"{target} is there already and was made from {source}; choose another with --out, or write over it with --force"
        )
    return before


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _refuse_without_shift(table: ScoreTable) -> None:
    from roadworthy.data.samples import DataError

    assert table.kind is not None
    if (table.kind == "clean").all():
        raise DataError(
            f"{table.source}: all {table.n:,} rows are clean, so that nothing says what shift looks like, nor how often "
            "answers are right under it. Add rows of shifted data with the name of what shifted them as their kind, or let "
            "`roadworthy assess` make some from clean data: name circumstances in the assessment file"
        )


def _refuse_without_groups(table: ScoreTable) -> None:
    from roadworthy.data.samples import DataError

    if table.group is None and table.time is None:
        raise DataError(
            f"--group-events: {table.source} has neither groups nor times, so that nothing says how far groups differ; name the "
            "column with --group or --time, or leave the option out"
        )


def _events_per_day(table: ScoreTable) -> tuple[float, str]:
    """From the times of the table, where they span enough to say it; and from where it is."""
    import numpy as np

    from roadworthy.monitor.before_release import EVENTS_PER_DAY
    from roadworthy.monitor.messages import DAY, HOUR, lasting

    timed = None if table.time is None else table.time[table.time == table.time]
    if timed is None or not len(timed):
        return EVENTS_PER_DAY, "for want of a better number"
    span = float(np.ptp(timed))
    if span < HOUR:
        return EVENTS_PER_DAY, f"since the times of the table span no more than {lasting(span)}"
    return table.n / span * DAY, "from the times of the table"


def _stream(scores: Path) -> str:
    """A stream as the user would have it: of the same kind as the table."""
    text = scores.name.lower().removesuffix(".gz")
    return f"today{next((end for end in ('.csv', '.tsv') if text.endswith(end)), '.parquet')}"


def _print(made: Calibrated, out: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from roadworthy.cli.cautions import coverage_warning
    from roadworthy.cli.windows_besides import read_besides

    bundle, names = made.bundle, made.bundle.calibration.names
    rows = sum(k.rows for k in made.kinds)
    out.print(
        Text(
            f"{made.scores}: {many(rows, 'row')}, {many(len(names), 'score')}: {', '.join(names)}"
        ),
        soft_wrap=True,
    )
    for said in made.warnings:
        out.print(Text(f"warning: {said}"), soft_wrap=True)
    rings = noticed(bundle)
    table = Table(box=box.SIMPLE_HEAD)
    for header in ("Kind", "Rows", "Right", "95% interval", "Told from clean", "Noticed at 30%"):
        table.add_column(header, justify="left" if header == "Kind" else "right", overflow="fold")
    for k in made.kinds:
        seen = rings.get(k.kind, "")
        told = "" if k.auc is None else f"{k.auc:.3f}"
        table.add_row(
            *map(
                Text,
                (
                    k.kind,
                    f"{k.rows:,}",
                    f"{k.accuracy:.1%}",
                    f"{k.low:.1%} to {k.high:.1%}",
                    told,
                    seen,
                ),
            )
        )
    out.print(table)
    out.print(Text(alarm_in_words(bundle)), soft_wrap=True)
    for said in read_besides(bundle):
        out.print(Text(said), soft_wrap=True)
    if bundle.coverage is not None:
        rate = bundle.coverage.rate
        rates = (
            "" if rate is None else f", and those of the share that is shifted in {percent(rate)}"
        )
        out.print(
            Text(
                f"Intervals of accuracy, of kinds left out in turn, held the truth in {percent(bundle.coverage.observed)} of "
                f"{many(bundle.coverage.windows, 'window')} that could be told{rates} (nominal 95%)."
            ),
            soft_wrap=True,
        )
    warning = coverage_warning(bundle)
    if warning:
        out.print(Text(f"warning: {warning}"), soft_wrap=True)
    for note in made.notes:
        out.print(Text(f"note: {note}"), soft_wrap=True)
    out.print(
        Text(
            f"Wrote {made.target} (bundle {bundle.id}). Next, with a stream that has the same scores and no labels:"
        ),
        soft_wrap=True,
    )
    out.print(Text(f"  roadworthy replay {made.target} {_stream(made.scores)}"), soft_wrap=True)


def _content(made: Calibrated) -> dict[str, Any]:
    from roadworthy.cli.cautions import coverage_warning
    from roadworthy.web.views import prior_view, windows_of

    bundle, rule = made.bundle, rule_of(made.bundle)
    return {
        "scores": str(made.scores),
        "bundle": str(made.target),
        "bundle_id": bundle.id,
        "names": list(bundle.calibration.names),
        "kinds": [
            {**k.to_dict(), "noticed": dict(rule.detects).get(k.kind)}
            # Clean is told from nothing, and no alarm is ever due for it.
            | ({} if k.auc is None else {"due": k.kind not in rule.not_due})
            for k in made.kinds
        ],
        "unit": bundle.tree.unit,
        "tolerable": bundle.tolerable,
        "windows": windows_of(bundle),
        "prior": prior_view(bundle),
        "forecast": None if bundle.forecast is None else asdict(bundle.forecast),
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
        "coverage_on_kinds_left_out": None
        if bundle.coverage is None
        else bundle.coverage.to_dict(),
        "warnings": [*made.warnings, *(w for w in (coverage_warning(bundle),) if w)],
        "notes": list(made.notes),
        "next": f"roadworthy replay {made.target} {_stream(made.scores)}",
    }
