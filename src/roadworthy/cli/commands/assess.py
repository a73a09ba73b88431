"""``roadworthy assess FILE``: run an assessment and judge its claims."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from roadworthy.cli import exits, showing

if TYPE_CHECKING:
    from rich.console import Console

    from roadworthy.store.record import Record


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("assess")(assess)


def assess(
    file: Annotated[Path, Argument(help="The assessment file.")] = Path("assessment.yaml"),
    runs: Annotated[
        Path | None, Option(help="Where runs are kept; by default runs/ beside the file.")
    ] = None,
    workers: Annotated[
        int | None, Option(min=1, help="Processes; by default one for small work.")
    ] = None,
    fresh: Annotated[
        bool, Option("--fresh", help="Compute everything again, whatever is kept.")
    ] = False,
    json: Annotated[
        bool, Option("--json", help="Print the report as JSON and nothing else.")
    ] = False,
    quiet: Annotated[
        bool,
        Option("--quiet", help="Show no progress, and only the claims and what went unanswered."),
    ] = False,
) -> int:
    """Run an assessment: the exit code is the verdict (0 met, 1 breached, 3 inconclusive).

    What is done is kept: after an interruption, or a change of claims, the same command goes on from there. Cases that failed
    for a reason that may pass, such as a server that did not answer, are computed again the next time.
    """
    with showing.shown(quiet=quiet or json) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.assess import assess as run_assessment
        from roadworthy.execution.memory import keep_freed_memory

        keep_freed_memory()
        run = run_assessment(
            file,
            runs=runs,
            workers=workers,
            progress=progress,
            command=_command(file, runs, workers),
            fresh=fresh,
        )
    # A reader who has seen enough (`| head`) does not change the verdict.
    with contextlib.suppress(BrokenPipeError, SystemExit):
        if json:
            from roadworthy import registry

            print(registry.get("reports", "json").bind()(run.record), end="")
        else:
            _print(run.record, showing.console(), quiet=quiet)
    return exits.VERDICTS[run.verdict]


def _command(file: Path, runs: Path | None, workers: int | None) -> str:
    """What a reader of the record types to get the same run."""
    words = ["roadworthy", "assess", file.name]
    words += ["--runs", runs.name] if runs is not None else []
    words += ["--workers", str(workers)] if workers is not None else []
    return shlex.join(words)


def _print(run: Record, out: Console, *, quiet: bool) -> None:
    from rich.markup import escape

    from roadworthy.report.terminal import summary

    for part in summary(run, out.width, quiet=quiet):
        out.print(part)
    out.print(f"Report: {escape(_shown(run.folder / 'report.html'))}", soft_wrap=True)
    monitor = run.sections.get("monitor")
    if monitor and monitor.bundle:
        bundle = shlex.quote(_shown(run.folder / monitor.bundle))
        out.print(f"Monitor: roadworthy monitor {escape(bundle)}", soft_wrap=True)
        out.print(f"         roadworthy replay {escape(bundle)} today.parquet", soft_wrap=True)
        for note in () if quiet else monitor.chosen:
            out.print(f"         {escape(note)}", soft_wrap=True)


def _shown(path: Path) -> str:
    """A path as short as it can be typed from here; from the root it keeps its slash, so that it holds anywhere."""
    here = Path.cwd().resolve()
    whole = path.resolve()
    near = whole.is_relative_to(here) and here != Path(here.anchor)
    return str(whole.relative_to(here)) if near else str(whole)
