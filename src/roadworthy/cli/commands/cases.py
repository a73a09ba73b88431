"""``roadworthy cases``: write the cases of an assessment, to be answered elsewhere or as they are met in use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from roadworthy.cli.options import AssessmentFile
from roadworthy.cli.progress import open_progress


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    group = typer.Typer(
        help="The cases of an assessment: export them, or make a set as it is met in use.",
        no_args_is_help=True,
    )
    group.callback()(lambda: None)
    group.command("export")(_export)
    group.command("make")(_make)
    app.add_typer(group, name="cases")


def _export(
    file: AssessmentFile,
    out: Annotated[Path, Option(help="A new folder.")],
) -> None:
    """Write every case as a file, to be answered on other hardware or by another team.

    The subject is not needed. README.txt in the folder says how the answers come back.
    """
    with open_progress(quiet=False) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.export import export as write
        from roadworthy.spec import Assessment

        done = write(Assessment.read(file), out, progress=progress)
    print(
        f"{done.cases:,} cases in {done.folder}; {done.folder / 'README.txt'} says what to send back"
    )
    if done.failed:
        first, why = next(iter(done.failed.items()))
        print(f"note: {len(done.failed):,} cases could not be made, the first is {first}: {why}")


def _make(
    file: AssessmentFile,
    out: Annotated[Path, Option(help="A new folder.")],
    n: Annotated[int, Option("--n", min=1, help="How many images.")] = 1000,
    only_changed: Annotated[
        bool, Option("--only-changed", help="Leave out images that meet no circumstance.")
    ] = False,
    workers: Annotated[int, Option(min=1, help="Threads.")] = 2,
) -> None:
    """Write a set of images as they are met in use, by the probabilities of the circumstances.

    Labels become folders, boxes a COCO file. The frequencies wanted and achieved are printed.
    """
    with open_progress(quiet=False) as progress:
        progress.stage("starting", 0)
        from roadworthy.assessment.follow_up import make_follow_up
        from roadworthy.spec import Assessment

        spec = Assessment.read(file)
        done = make_follow_up(
            spec, out, n=n, only_changed=only_changed, workers=workers, progress=progress
        )
    print(f"{done.cases:,} images in {done.folder}")
    for f in done.frequencies:
        print(f"  {f.circumstance}: {f.achieved:.1%} (wanted {f.wanted:.1%})")
    if done.failed:
        print(f"note: {done.failed:,} images could not be made")
