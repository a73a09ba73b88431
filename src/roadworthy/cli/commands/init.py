"""``roadworthy init``: write a first assessment file from what is there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from roadworthy.cli.discovery import Discovery

CHECK = "   # please check"
TRANSFORMS = ("gaussian_noise", "motion_blur", "contrast", "background_noise", "swap_characters")
"""Circumstances of a first file, as far as they suit the input."""
LIMITS: dict[str, tuple[str, float, float]] = {
    "accuracy": ("min", 0.9, 0.7),
    "rmse": ("max", 0.2, 0.4),
    "ap50": ("min", 0.6, 0.4),
    "mota": ("min", 0.6, 0.4),
    "wer": ("max", 0.1, 0.3),
    "success_rate": ("min", 0.8, 0.6),
}
"""Examples of claims: the side, on clean data, and under circumstances."""


def add_to(app: typer.Typer) -> None:
    """Make it a command."""
    app.command("init")(_init)


def _init(
    file: Annotated[
        Path, Argument(help="The file to write, or a table of answers to write one for.")
    ] = Path("assessment.yaml"),
    subject: Annotated[
        str | None, Option(help="A .py file, .onnx, weights, an http:// address, or predictions.")
    ] = None,
    data: Annotated[
        str | None, Option(help="A folder or file of test data, or fashion-mnist.")
    ] = None,
    target: Annotated[
        str | None, Option(help="The column of a table, or array of an .npz, to predict.")
    ] = None,
    workbook: Annotated[
        bool, Option("--workbook", help="Write a workbook to fill in, by default workbook.xlsx.")
    ] = False,
) -> None:
    """Write a commented assessment file, valid as it stands, for a subject and data.

    With --workbook, or if FILE ends in .xlsx, it is an empty workbook of three tabs and a checklist.

    Without options it looks at the folder of the file. What is a guess is marked `# please check`.
    """
    from roadworthy.cli import discovery
    from roadworthy.spec import Assessment, SpecError
    from roadworthy.spec.answers import is_table
    from roadworthy.spec.document import WORKBOOK

    if file.is_file() and is_table(file):
        _init_answers(file)
        return
    if workbook and file == Path("assessment.yaml"):
        file = Path("workbook.xlsx")
    if file.exists():
        raise SpecError(f"{file} exists; remove it, or name another file")
    base = file.resolve().parent
    if not base.is_dir():
        raise SpecError(f"{file}: there is no folder {base}; make it first")
    subjects, sets = discovery.candidates(base, target=target)
    if workbook or file.suffix.lower() == WORKBOOK:
        _init_workbook(file, subject or _only(subjects), data or _only(sets), target)
        return
    chosen_subject = _chosen(subject, subjects, base, "subject")
    chosen_data = _chosen(data, sets, base, "data")
    what = discovery.subject_at(chosen_subject, base)
    held = discovery.data_at(chosen_data, base, target=target)
    text = draft(file.name, base.name or "assessment", what, held, base)
    Assessment.parse(text, file)
    file.write_text(text, encoding="utf-8")
    print(f"wrote {file}: {held.task}, subject {chosen_subject}, data {chosen_data}")
    if CHECK in text:
        print("lines marked `# please check` are a guess")
    if what.absent:
        print(f"next: roadworthy cases export {file} --out cases   (to make {chosen_subject})")
    else:
        print(f"next: roadworthy assess {file}")


def _only(found: list[str]) -> str:
    return found[0] if len(found) == 1 else ""


def _init_workbook(file: Path, subject: str, data: str, target: str | None) -> None:
    """Write an empty workbook; subject and data are filled in as far as they are known."""
    from roadworthy.cli.discovery import data_at, subject_at
    from roadworthy.report.workbook import empty_workbook
    from roadworthy.spec import SpecError
    from roadworthy.spec.document import WORKBOOK

    if file.suffix.lower() != WORKBOOK:
        raise SpecError(f"{file}: a workbook ends in {WORKBOOK}")
    base = file.resolve().parent
    what = subject_at(_seen_from(base, subject), base).keys if subject else {}
    held = data_at(_seen_from(base, data), base, target=target) if data else None
    if what and held:
        what = {"task": held.task, **what}
    file.write_bytes(empty_workbook(_flow(what) * bool(what), _flow(held.keys) if held else ""))
    print(f"wrote {file}: subject {subject or 'to be named'}, data {data or 'to be named'}")
    print(f"next: fill in its tabs, then roadworthy assess {file}")


def _init_answers(table: Path) -> None:
    """Write the assessment file of a table of answers beside it."""
    from roadworthy.data.answers import read_answers
    from roadworthy.spec import SpecError
    from roadworthy.spec.answers import FILE, text_of_answers

    file = table.parent / FILE
    if file.exists():
        raise SpecError(f"{file} exists; remove it first")
    text, found = text_of_answers(table), read_answers(table)
    said = [f"# {note}" for note in found.notes]
    order = (
        f"# Classes: {', '.join(found.classes)}" if found.classes else "# Numbers are predicted."
    )
    lines = [*said, order, text, "# Examples; set your own limits.", "claims:"]
    file.write_text(
        "\n".join([*lines, *_claims(found.task, active=False)]) + "\n", encoding="utf-8"
    )
    print(f"wrote {file}: {found.task}, {len(found.ids):,} answers of {table.name}")
    print(f"next: roadworthy assess {file}")


def _chosen(given: str | None, found: list[str], base: Path, what: str) -> str:
    """The path as the file will say it: seen from the file's folder, though typed from here."""
    if given is not None:
        return _seen_from(base, given)
    if len(found) == 1:
        return found[0]
    several = f"several could be the {what}: {', '.join(found)}" if found else f"no {what} found"
    raise typer.BadParameter(
        f"{several} in {base}; name it with --{what} PATH", param_hint=f"--{what}"
    )


def _seen_from(base: Path, given: str) -> str:
    from roadworthy.cli.discovery import BUNDLED

    place, colon, name = given.rpartition(":") if ".py:" in given else (given, "", "")
    path = Path(place)
    named = given.startswith(("http://", "https://")) or given.removeprefix("bundled:") == BUNDLED
    outside = path.is_absolute() and not path.resolve().is_relative_to(base)
    inside = not path.is_absolute() and not path.exists() and (base / path).exists()
    if named or outside or inside:
        return given
    return f"{Path(os.path.relpath(path.resolve(), base)).as_posix()}{colon}{name}"


def draft(file: str, name: str, subject: Discovery, data: Discovery, base: Path) -> str:
    """The text of the file."""
    from roadworthy.cli.discovery import preparation_at
    from roadworthy.data.values import CLASS_SCORES, IMAGE, TASKS

    task = data.task
    scored = TASKS[task].output is CLASS_SCORES
    found = {} if data.vectors else _circumstances(task)
    # Predictions that are there answer the clean cases alone.
    active = bool(found) and ("predictions" not in subject.keys or subject.absent)
    loader = next(iter(data.keys))
    mark = "" if active else "# "
    lines = [
        "# What is assessed, on what, under which circumstances, and what must hold.",
        f"# Run it:  roadworthy assess {file}",
        f"name: {_plain(name)}",
        "intended_use: >",
        "  Who uses the system, for what, and where; it is printed at the head of the report.",
        "",
        f"subject:{CHECK * subject.guessed}",
        f"  task: {task}",
        *(f"  {key}: {_plain(content)}" for key, content in subject.keys.items()),
        *(
            [
                f"  # classes: {_plain([*data.classes])}   # outputs, in their order; assumed from the labels"
            ]
            * bool(data.classes)
        ),
        *_prepared(
            *preparation_at(subject, base),
            asked=TASKS[task].input is IMAGE and not data.vectors,
            keys=subject.keys,
        ),
        '  # version: "1.0"',
        "",
        "data:",
        f"  test: {_flow(data.keys)}{CHECK * data.guessed}",
        f"  # reference: {{{loader}: …}}     # training data, for supervisors that are fitted",
        f"  # calibration: {{{loader}: …}}   # for alarm thresholds; cases used nowhere else",
        "  # group: patient_id      # the column of what belongs together, for honest intervals",
        "",
        "# Conditions of use; `roadworthy list transforms` shows more.",
        *([] if active else [f"# Answers needed: roadworthy cases export {file} --out cases"]),
        f"{mark}circumstances:",
        *(f"{mark}  {key}: {_flow(content)}" for key, content in found.items()),
        f"{'' if active else '#'}  # site_b: {{where: {{site: B}}}}",
        "",
        "slices: [label]            # label, or columns of metadata" if scored else "# slices: []",
        "",
        "# Scores beside the system that show when it is wrong: docs/supervisors.md",
        "supervisors: [max_softmax]" if scored else "# supervisors: all",
        "# verdicts: {rule: conformal, rate: 0.05}   # needs calibration data",
        "",
        "# Examples; set your own limits.",
        "claims:",
        *_claims(task, active=active),
    ]
    return "\n".join(lines) + "\n"


def _prepared(
    content: Mapping[str, Any], stated: bool, *, asked: bool, keys: Mapping[str, Any]
) -> list[str]:
    """The line that says how images become the model's input."""
    if not asked or not {"torch", "onnx", "server"} & set(keys):
        return []
    return [f"  input: {_flow(content)}{'' if stated else '   # assumed'}"]


def _circumstances(task: str) -> dict[str, dict[str, Any]]:
    from roadworthy import registry
    from roadworthy.data.values import FRAMES, IMAGE, TASKS

    given = TASKS[task].input
    kind = (IMAGE if given is FRAMES else given).name
    known = registry.components("transforms")
    return {
        name: {"transform": name, "levels": [1, 2, 3]}
        for name in TRANSFORMS
        if name in known and known[name].traits.get("of") == kind
    }


def _claims(task: str, *, active: bool) -> list[str]:
    from roadworthy.data.values import TASKS

    measure = TASKS[task].measure
    side, clean, under = LIMITS.get(measure, ("min", 0.9, 0.7))
    claims = [f"  - {{id: C-1, {measure}: {{{side}: {clean}}}}}{CHECK}"]
    if active:
        claims.append(
            f"  - {{id: C-2, {measure}: {{{side}: {under}}}, every: circumstances}}{CHECK}"
        )
    return claims


def _flow(content: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in content.items()) + "}"


def _plain(value: Any) -> str:
    """A YAML value in one line; JSON is YAML, and plain words need no quotes.

    >>> _plain("model.py"), _plain("yes"), _plain(["a", 1])
    ('model.py', '"yes"', '[a, 1]')
    """
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    words = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    text = value if isinstance(value, str) and value.lower() not in words else ""
    if text[:1].isalpha() and text[-1:].isalnum() and re.fullmatch(r"[\w/.-]+", text):
        return text
    return json.dumps(value, ensure_ascii=False)
