"""Cases written out as files, to be answered elsewhere: on the target hardware, by another team.

What is written is what the subject would get in a run here: every condition of the plan, transformed
with the same seeds, under the same case ids. The subject itself is not needed. Answers come back as
a file of predictions (`subject: {predictions: FILE}`), and give the findings of a run with the
subject here; a case without an answer counts as failed. Images are written as PNG without loss
(floats as .npy), frames as a folder of them, recordings as float32 wav, and texts, goals and vectors
as JSON lines.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> write_input(folder, TEXT, "inputs/00-clean/000000", "a~typos@1", "a cheap hotle")
'inputs.jsonl'
>>> (folder / "inputs.jsonl").read_text()
'{"id": "a~typos@1", "text": "a cheap hotle"}\\n'
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.assessment.section import with_wants
from roadworthy.cases.circumstance import Condition
from roadworthy.data.png import encode_png
from roadworthy.data.samples import DataError, Dataset
from roadworthy.data.values import (
    AUDIO,
    CLASS_SCORES,
    FRAMES,
    GOAL,
    IMAGE,
    TEXT,
    VECTOR,
    Kind,
    Unreadable,
)
from roadworthy.execution.plan import Plan, resolve
from roadworthy.execution.progress import Progress, Silent
from roadworthy.spec import Assessment, supervisor_parameters
from roadworthy.subject.adapters.predictions import PredictionsModule
from roadworthy.subject.system import INPUT, single
from roadworthy.subject.trace import whole_folder

COLUMNS = ("id", "file", "sample", "circumstance", "level", "group")
BLOCK = 64
"""Inputs read at a time."""
LINES = "inputs.jsonl"


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    cases: int
    failed: Mapping[str, str] = field(default_factory=dict)
    """Cases that could not be made, and why; they count as failed in a run here as well."""


def planned(spec: Assessment, progress: Progress | None = None) -> Plan:
    """The plan of an assessment whose subject is not loaded: predictions that are not there yet take its place.

    So the run that follows, with a file of predictions, plans the same cases. Supervisors of inner modules are left out.
    """
    outer = [s for s in spec.supervisors if "module" not in supervisor_parameters(s)]
    reduced = spec.model_copy(update={"supervisors": outer})
    subject = single(PredictionsModule(spec.task.output, "elsewhere", {}, [], {}), spec.task.input)
    return with_wants(resolve(reduced, subject=subject, progress=progress))


def export(spec: Assessment, out: Path, *, progress: Progress | None = None) -> Exported:
    """Write every case of an assessment into a new folder: the inputs, ``cases.csv`` and ``README.txt``."""
    show = progress or Silent()
    _refuse(spec, out)
    show.stage("loading data", 0)
    plan = planned(spec, show)
    kind = plan.data["test"].input_kind
    if kind is GOAL and any(c.transform for c in plan.conditions):
        name = next(c.circumstance for c in plan.conditions if c.transform)
        raise spec.error(
            ("circumstances", name),
            "changes a goal at every turn, which no file can hold; leave it out",
        )
    conditions = [c for c in plan.conditions if c.search is None and not c.held]
    show.stage("writing cases", sum(len(plan.data[c.role]) for c in conditions))
    failed: dict[str, str] = {}
    written = 0
    with whole_folder(out) as folder:
        with (folder / "cases.csv").open("w", encoding="utf-8", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(COLUMNS)
            for at, condition in enumerate(conditions):
                data, place = plan.data[condition.role], _place(at, condition)
                level = "" if condition.level is None else f"{condition.level:g}"
                groups = [""] * len(data) if data.groups is None else data.groups
                for row, item in _each(data):
                    case = condition.case_id(data.ids[row])
                    made = plan.arriving(condition, case, item)
                    if isinstance(made, Unreadable):
                        failed[case] = made.reason
                    else:
                        file = write_input(folder, kind, f"{place}/{row:06d}", case, made)
                        about = (data.ids[row], condition.circumstance, level, groups[row])
                        table.writerow([case, file, *about])
                        written += 1
                    show.advance(1)
        classes = plan.data["test"].classes if spec.task.output is CLASS_SCORES else None
        text = readme(spec, kind, cases=written, failed=failed, classes=classes)
        (folder / "README.txt").write_text(text, encoding="utf-8")
    return Exported(out, written, failed)


def _each(data: Dataset) -> Iterator[tuple[int, Any]]:
    """The rows and their inputs, read a block at a time."""
    for start in range(0, len(data), BLOCK):
        yield from enumerate(data.inputs[start : start + BLOCK], start=start)


def _refuse(spec: Assessment, out: Path) -> None:
    for name, circumstance in spec.circumstances.items():
        if circumstance.port != INPUT:
            raise spec.error(
                ("circumstances", name, "port"),
                f"the circumstance {name!r} acts at the inner port {circumstance.port!r}, whose values arise only while the "
                "subject runs; they cannot be exported. Leave it out, or run the subject here",
            )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is there already and not empty; name a new folder")


def _place(at: int, condition: Condition) -> str:
    """The folder of a condition's files; names may hold what a file's name may not."""
    shown = condition.name or ("clean" if condition.role == "test" else condition.role)
    if condition.name and condition.role == "calibration":
        shown = f"calibration-{shown}"
    safe = "".join(c if c.isalnum() or c in "-_.@" else "-" for c in shown)
    return f"inputs/{at:02d}-{safe}"


def write_input(folder: Path, kind: Kind, place: str, case: str, item: Any) -> str:
    """Write one input under `place` (a path without ending); the name of its file in the folder."""
    if kind in (TEXT, GOAL, VECTOR):
        plain = item
        if isinstance(item, np.ndarray):  # JSON has no NaN: a value that is missing is null
            plain = [None if value != value else value for value in item.tolist()]
        with (folder / LINES).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"id": case, kind.name: plain}, ensure_ascii=False) + "\n")
        return LINES
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind is IMAGE:
        return _write_image(folder, place, np.asarray(item))
    if kind is FRAMES:
        file.mkdir()
        for step, frame in enumerate(item):
            _write_image(folder, f"{place}/{step:06d}", np.asarray(frame))
        return place
    if kind is AUDIO:
        from scipy.io import wavfile

        # float32, so that what is read again is what was written.
        wavfile.write(f"{file}.wav", item.rate, np.asarray(item.wave, dtype=np.float32))
        return f"{place}.wav"
    raise DataError(f"inputs of kind {kind.name} cannot be exported")


def _write_image(folder: Path, place: str, pixels: np.ndarray) -> str:
    """8 and 16 bit as PNG; floats, which PNG would round, as .npy."""
    if pixels.dtype in (np.uint8, np.uint16):
        (folder / f"{place}.png").write_bytes(encode_png(pixels))
        return f"{place}.png"
    np.save(folder / f"{place}.npy", pixels, allow_pickle=False)
    return f"{place}.npy"


INPUTS = {
    "image": "one image a case: PNG without loss, or .npy where pixels are floating-point numbers",
    "frames": "one folder a case, its frames numbered from 000000",
    "audio": "one recording a case: wav, 32-bit float",
    "text": "inputs.jsonl: one line a case, {id, text}",
    "goal": "inputs.jsonl: one line a case, {id, goal}",
    "vector": "inputs.jsonl: one line a case, {id, vector}; null is a missing value",
}
"""Kind of input -> how it was written."""

ANSWERS: dict[str, dict[str, Any]] = {
    "class_scores": {"scores": [0.1, 0.7, 0.2]},
    "vector": {"vector": [0.25]},
    "boxes": {"boxes": [[10, 20, 50, 80]], "labels": [0], "scores": [0.9]},
    "tracks": {"tracks": [[0, 1, 10, 20, 50, 80]]},
    "text": {"text": "what was said"},
    "episode": {"episode": {"turns": [], "outcome": {"success": True}}},
}
"""Kind of output -> an answer, as a line of the file that comes back holds it."""

MEANING = {
    "class_scores": "scores: one number a class, in the order of the classes (probabilities or logits)",
    "vector": "vector: the numbers that were predicted",
    "boxes": "boxes: corners x1 y1 x2 y2 in pixels; labels: class index; scores: confidence",
    "tracks": "tracks: one row an object and frame: frame, track number, x1, y1, x2, y2",
    "text": "text: the transcript",
    "episode": "episode: the turns, and the outcome that the goal is compared with",
}


def readme(
    spec: Assessment,
    kind: Kind,
    *,
    cases: int,
    failed: Mapping[str, str],
    classes: Sequence[str] | None = None,
) -> str:
    """The text of README.txt; `classes` are those of the data, in their order."""
    output, file, place = spec.task.output.name, spec.document.path.name, "answers.jsonl"
    answer = ANSWERS.get(output, {"": None})
    key, example = next(iter(answer)), json.dumps({"id": "CASE ID", **answer})
    table = {"text": "CSV with the header id,text"}.get(output, "Parquet with these fields")
    if output in ("class_scores", "vector"):
        table = f"CSV with the header id,{key}_0,{key}_1,…, or npz with the arrays id and {key}"
    how = [
        f"Answer as JSON lines (answers.jsonl), one line a case: {example}",
        f"  {MEANING.get(output)}.",
        f"  No answer: {json.dumps({'id': 'CASE ID', 'error': 'why'})}; a case that is left out counts as failed too.",
        f"Or as {table}.",
    ]
    if output not in ANSWERS:
        place, how = "masks/", ["Answer with PNG files of class indices: masks/CASE ID.png."]
    listed = spec.data.classes or spec.data.test.get("classes")
    order = "from `data.classes`" if listed else "inferred from the labels of the test data"
    order = "from `classes` under `subject`" if spec.classes else order
    lines = [
        f"{cases} cases of the assessment {spec.title!r} ({spec.task.name}). Answer each of them and send the answers back.",
        f"Inputs: {INPUTS[kind.name]}.",
        "cases.csv lists them: id, file, sample, circumstance (empty: unchanged), level, group. Use the ids exactly as they stand.",
        *how,
        *(
            [
                f"Classes, in the order of scores ({order}): {', '.join(spec.classes or classes or ())}."
            ]
            * bool(classes)
        ),
        "Inputs are as the system would get them: do not augment, select or reorder by label; preprocess as in use.",
        f"Then name the answers in {file}, subject: {{task: {spec.task.name}, predictions: {place}}}, "
        f"and run: roadworthy assess {file}",
    ]
    if failed:
        first = next(iter(failed))
        lines.append(
            f"{len(failed)} cases could not be made and count as failed, the first is {first}: {failed[first]}"
        )
    return "\n".join(lines) + "\n"
