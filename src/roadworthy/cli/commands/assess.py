"""``roadworthy assess FILE``: run an assessment and judge its claims."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from roadworthy.cli import exits, output
from roadworthy.cli.options import AssessmentFile, Json
from roadworthy.cli.progress import open_progress

if TYPE_CHECKING:
    from roadworthy.store.record import Record


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("assess")(_assess)


def _assess(
    file: AssessmentFile = Path("assessment.yaml"),
    runs: Annotated[
        str | None,
        Option(help="Folder or store URL where runs are kept; by default runs/ beside the file."),
    ] = None,
    workers: Annotated[
        int | None, Option(min=1, help="Processes; by default one for small work.")
    ] = None,
    executor: Annotated[
        str | None, Option(help="`ray` for a Ray cluster; by default this machine.")
    ] = None,
    address: Annotated[
        str | None, Option(help="Of the Ray cluster, or `auto`; by default one is started here.")
    ] = None,
    index: Annotated[
        str | None, Option(help="Data base that lists runs: postgresql://… or sqlite:///FILE.")
    ] = None,
    fresh: Annotated[
        bool, Option("--fresh", help="Compute everything again, whatever is kept.")
    ] = False,
    group: Annotated[str | None, Option(help="For a table of answers: the group column.")] = None,
    task: Annotated[
        str | None, Option(help="For a table of answers: classification or regression.")
    ] = None,
    drop_unlabelled: Annotated[
        bool,
        Option("--drop-unlabelled", help="For a table of answers: leave out rows without truth."),
    ] = False,
    in_place: Annotated[
        bool, Option("--in-place", help="For a workbook: write results into the file itself, too.")
    ] = False,
    json: Json = False,
) -> int:
    """Run an assessment: the exit code is the verdict (0 met, 1 breached, 3 inconclusive).

    FILE is an assessment file, a workbook (.xlsx; `roadworthy init --workbook` writes one), or a
    table of answers (CSV, Parquet, JSON lines) with the columns label and prediction; its other
    columns are inferred and listed.

    What is done is kept: after an interruption, or a change of claims, the same command goes on
    from there. Cases that failed because a server did not answer are computed again.
    """
    with open_progress(quiet=json) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.assess import assess
        from roadworthy.execution.memory import keep_freed_memory
        from roadworthy.spec import SpecError
        from roadworthy.spec.answers import assessment_of_answers, is_table
        from roadworthy.spec.document import WORKBOOK

        keep_freed_memory()
        table = is_table(file)
        options = {"group": group, "task": task, "drop_unlabelled": drop_unlabelled}
        if any(options.values()) and not table:
            raise SpecError("--group, --task and --drop-unlabelled are for a table of answers")
        if in_place and file.suffix.lower() != WORKBOOK:
            raise SpecError(f"--in-place is for a workbook ({WORKBOOK})")
        asked = {"executor": executor, "address": address, "index": index}
        run = assess(
            assessment_of_answers(file, **options) if table else file,  # type: ignore[arg-type]
            runs=runs,
            workers=workers,
            progress=progress,
            command=_command(file, runs, workers),
            fresh=fresh,
            execution={k: v for k, v in asked.items() if v is not None},
        )
        if in_place:
            from roadworthy.report.workbook import results_written

            file.write_bytes(results_written(file.read_bytes(), run.record))
    # A reader who has seen enough (`| head`) does not change the verdict.
    with contextlib.suppress(BrokenPipeError, SystemExit):
        if json:
            from roadworthy import registry

            print(registry.get("reports", "json").bind()(run.record), end="")
        else:
            _print(run.record)
            if table and not run.claims:
                output.print_lines([_without_claims(file, run.record.measure.name)])
    return exits.VERDICTS[run.verdict]


def _command(file: Path, runs: str | None, workers: int | None) -> str:
    """What a reader of the record types to get the same run."""
    words = ["roadworthy", "assess", file.name]
    if runs is not None:
        words += ["--runs", runs if "://" in runs else Path(runs).name]
    words += ["--workers", str(workers)] if workers is not None else []
    return shlex.join(words)


def _without_claims(file: Path, measure: str) -> str:
    from roadworthy.cli.commands.init import LIMITS

    side, limit, _ = LIMITS.get(measure, ("min", 0.9, 0.7))
    claim = f"claims: [{{id: C-1, {measure}: {{{side}: {limit}}}}}]"
    return f"No claims. `roadworthy init {file.name}` writes an assessment file; add for example {claim}"


def _print(run: Record) -> None:
    from roadworthy.report.terminal import summary

    out = output.console()
    for part in summary(run, out.width):
        out.print(part)
    lines = [f"Report: {_shown(run.folder / 'report.html')}"]
    if (run.folder / "workbook.xlsx").is_file():
        lines.append(f"Workbook: {_shown(run.folder / 'workbook.xlsx')}")
    monitor = run.sections.get("monitor")
    if monitor and monitor.bundle:
        bundle = shlex.quote(_shown(run.folder / monitor.bundle))
        lines.append(f"Monitor: roadworthy monitor {bundle}")
        lines.append(f"         roadworthy replay {bundle} today.parquet")
        lines += [f"         {note}" for note in monitor.chosen]
    output.print_lines(lines)


def _shown(path: Path) -> str:
    """A path as it can be typed from here."""
    here, whole = Path.cwd().resolve(), path.resolve()
    near = whole.is_relative_to(here) and here != Path(here.anchor)
    return str(whole.relative_to(here) if near else whole)
