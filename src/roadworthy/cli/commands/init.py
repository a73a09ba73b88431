"""``roadworthy init``: write a first assessment file from what is there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from roadworthy.cli.guessing import Guess


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("init")(init)


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("assessment.yaml"),
    task: Annotated[
        str | None, typer.Option(help="classification, regression, detection, tracking, speech, …")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="A .py file, .onnx, weights, an http:// address, or predictions."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A folder or file of test data, or fashion-mnist.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The column of a table, or array of an .npz, that is to be predicted."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing; infer what is not said.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented assessment file, valid as it stands, from a subject and data."""
    from roadworthy.cli import drafting, guessing
    from roadworthy.data.values import TASKS
    from roadworthy.spec import Assessment, SpecError

    if file.exists() and not force:
        raise SpecError(f"{file}: is there already; name another file, or replace it with --force")
    if task is not None and task not in TASKS:
        raise typer.BadParameter(
            f"the task is {task!r}; it is one of {', '.join(TASKS)}", param_hint="--task"
        )
    ask = not yes and sys.stdin.isatty()
    base = file.resolve().parent
    if not base.is_dir():
        raise SpecError(f"{file}: there is no folder {base}; make it first")
    found_subject, found_data = guessing.candidates(base)
    chosen_subject = _chosen(subject, found_subject, base, "subject", ask=ask)
    chosen_data = _chosen(data, found_data, base, "data", ask=ask)
    what = guessing.subject_at(chosen_subject, base)
    held = _held(chosen_data, base, target, task, given=data is not None)
    chosen_task = task or _task(held, ask=ask)
    draft = drafting.Draft(file.name, base.name or "assessment", chosen_task, what, held)
    text = drafting.text(draft)
    Assessment.parse(text, file)
    file.write_text(text, encoding="utf-8")
    print(
        f"wrote {file}: {chosen_task}, {next(iter(what.keys))} {chosen_subject}, data {chosen_data}"
    )
    if what.absent:
        print(
            f"next: roadworthy cases export {file} --out cases   ({chosen_subject} is not there yet)"
        )
    else:
        print(f"next: roadworthy assess {file}")


def _held(path: str, base: Path, target: str | None, task: str | None, *, given: bool) -> Guess:
    from roadworthy.cli import guessing
    from roadworthy.data.samples import DataError

    try:
        held = guessing.data_at(path, base, target=target, task=task)
        if target is not None and target not in held.keys.values():
            raise DataError(
                f"--target names a column of a table or an array of an .npz file; {path} has no such thing"
            )
    except DataError as error:
        if given:
            raise
        raise DataError(
            f"{error}. {path} was taken for the data; name others with --data PATH"
        ) from error
    return guessing.with_metadata(held, path, base)


def _chosen(given: str | None, found: str | None, base: Path, what: str, *, ask: bool) -> str:
    """The path as the file will say it: seen from the file's folder, though it was typed from here."""
    if given is None and ask:
        given = str(typer.prompt(f"Where is the {what}?", default=found, err=True))
    if given is None and found is None:
        raise typer.BadParameter(
            f"no {what} was recognised in {base}; say where it is with --{what} PATH",
            param_hint=f"--{what}",
        )
    return str(found) if given is None or given == found else _seen_from(base, given)


def _seen_from(base: Path, given: str) -> str:
    from roadworthy.cli.guessing import BUNDLED

    place, colon, name = given.rpartition(":") if ".py:" in given else (given, "", "")
    named = given.startswith(("http://", "https://")) or given.removeprefix("bundled:") == BUNDLED
    outside = Path(place).is_absolute() and not Path(place).resolve().is_relative_to(base)
    if (
        named
        or outside
        or (not Path(place).exists() and (base / place).exists() and not Path(place).is_absolute())
    ):
        return given
    return f"{Path(os.path.relpath(Path(place).resolve(), base)).as_posix()}{colon}{name}"


def _task(held: Guess, *, ask: bool) -> str:
    if not ask:
        return held.task
    return str(typer.prompt("What is the task?", default=held.task, err=True))
