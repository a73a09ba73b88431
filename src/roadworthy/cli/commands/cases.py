"""``roadworthy cases export``: write the cases of an assessment to be answered elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Option

from roadworthy.cli.options import AssessmentFile
from roadworthy.cli.progress import open_progress


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    group = typer.Typer(help="The cases of an assessment: export them.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command("export")(_export)
    app.add_typer(group, name="cases")


def _export(
    file: AssessmentFile,
    out: Annotated[Path, Option(help="A new folder.")],
    format: Annotated[
        Literal["png", "npz"], Option(help="png: one file a case; npz: one file for all.")
    ] = "png",
) -> None:
    """Write every case as a file, to be answered on other hardware or by another team.

    The subject is not needed. README.txt in the folder says how the answers come back.
    """
    with open_progress(quiet=False) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.export import export as write
        from roadworthy.spec import Assessment

        done = write(Assessment.read(file), out, format=format, progress=progress)
    readme = done.folder / "README.txt"
    print(f"{done.cases:,} cases in {done.folder}; {readme} says what to send back")
    if done.failed:
        first, why = next(iter(done.failed.items()))
        print(f"note: {len(done.failed):,} cases could not be made, the first is {first}: {why}")
