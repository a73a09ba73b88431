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

    from roadworthy.report.run_view import RunView


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
        from roadworthy.execution.assess import assess as run_assessment
        from roadworthy.execution.memory import keep_freed_memory
        from roadworthy.report.run_view import RunView

        keep_freed_memory()
        run = run_assessment(
            file,
            runs=runs,
            workers=workers,
            progress=progress,
            command=_command(file, runs, workers),
            fresh=fresh,
        )
    view = RunView.open(run.folder)
    # A reader who has seen enough (`| head`) does not change the verdict.
    with contextlib.suppress(BrokenPipeError, SystemExit):
        if json:
            from roadworthy import registry

            print(registry.get("reports", "json").bind()(view), end="")
        else:
            _print(view, showing.console(), quiet=quiet)
    return exits.VERDICTS[run.verdict]


def _command(file: Path, runs: Path | None, workers: int | None) -> str:
    """What a reader of the record types to get the same run."""
    words = ["roadworthy", "assess", file.name]
    words += ["--runs", runs.name] if runs is not None else []
    words += ["--workers", str(workers)] if workers is not None else []
    return shlex.join(words)


def _print(view: RunView, out: Console, *, quiet: bool) -> None:
    from rich.markup import escape

    from roadworthy.execution.failing import NEVER_WRONG
    from roadworthy.execution.recording import UNANSWERED, UNUSED
    from roadworthy.report import notes, supervisor_terminal, supervisor_wording, terminal, wording

    said = supervisor_wording.other_notes(view)
    for note in (n for n in said if NEVER_WRONG in n):
        # What follows can only be read with it.
        out.print(f"note: {escape(note)}")
    if view.claims:
        out.print(terminal.claims_table(view))
    if not quiet:
        if view.circumstances:
            out.print(terminal.circumstances_table(view))
        if view.slices:
            out.print(terminal.slices_table(view, most=8))
        if any(s.applicable for s in view.supervisors):
            out.print(supervisor_terminal.supervisors_table(view, out.width))
        for words in supervisor_terminal.supervisors_words(view):
            out.print(words)
    for note in notes.brief(n for n in said if NEVER_WRONG not in n):
        if not quiet or UNANSWERED in note or UNUSED in note:
            out.print(f"note: {escape(note)}")
    if not quiet:
        cases = view.run["cases"]
        out.print(
            f"{cases['total']:,} cases: {cases['computed']:,} computed, {cases['from_cache']:,} from the cache"
        )
    verdict = wording.verdict(view)
    # On a page the verdict stands over the numbers, here under them.
    reason = verdict.reason.replace("the numbers below", "the numbers above")
    out.print(f"[bold]{verdict.mark} {escape(verdict.word)}.[/bold] {escape(reason)}")
    out.print(f"Report: {escape(_shown(view.folder / 'report.html'))}", soft_wrap=True)
    if view.monitor and not view.monitor.because:
        serve, replay = view.monitor.commands(
            shlex.quote(_shown(view.folder / view.monitor.bundle))
        )
        out.print(f"Monitor: {escape(serve)}", soft_wrap=True)
        out.print(f"         {escape(replay)}", soft_wrap=True)
        for note in () if quiet else view.monitor.chosen:
            out.print(f"         {escape(note)}", soft_wrap=True)


def _shown(path: Path) -> str:
    """A path as short as it can be typed from here; from the root it keeps its slash, so that it holds anywhere."""
    here = Path.cwd().resolve()
    whole = path.resolve()
    near = whole.is_relative_to(here) and here != Path(here.anchor)
    return str(whole.relative_to(here)) if near else str(whole)
