"""Cases written out as files, to be answered elsewhere: on the target hardware, by another team, by a system that cannot be loaded.

What is written is what the subject would get in a run here: every condition of the plan, transformed with the same seeds,
under the same case ids. The subject itself is not needed. Answers come back as a file of predictions
(`subject: {predictions: FILE}`), and give the findings of a run with the subject here; a case without an answer counts as failed.
Images are written as PNG without loss (floats as .npy), frames as a folder of them, recordings as float32 wav, texts, goals and
vectors as JSON lines, or all of them as arrays of one npz.

>>> from roadworthy.data.values import TEXT
>>> folder = Path(tempfile.mkdtemp())
>>> with writer_of(TEXT, folder) as store:
...     store.write("inputs/00-clean/000000", "a~typos@1", "a cheap hotle")
'inputs.jsonl'
>>> (folder / "inputs.jsonl").read_text()
'{"id": "a~typos@1", "text": "a cheap hotle"}\\n'
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import zipfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from roadworthy.assessment.section import with_wants
from roadworthy.cases.circumstance import Condition
from roadworthy.data.png import encode_png
from roadworthy.data.samples import DataError
from roadworthy.data.values import AUDIO, FRAMES, GOAL, IMAGE, TEXT, VECTOR, Kind, Unreadable
from roadworthy.execution.plan import Plan, resolve
from roadworthy.execution.progress import Progress, Silent
from roadworthy.spec import Assessment, supervisor_parameters
from roadworthy.subject.module import Answers, Context, SubjectError
from roadworthy.subject.needs import Input, Output, Request
from roadworthy.subject.running import error_sentence
from roadworthy.subject.system import INPUT, single

COLUMNS = ("id", "file", "sample", "circumstance", "level", "group")
BLOCK = 64
"""Inputs read at a time."""
Format = Literal["png", "npz"]


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    cases: int
    failed: Mapping[str, str] = field(default_factory=dict)
    """Cases that could not be made, and why; they count as failed in a run here as well."""


@dataclass(frozen=True)
class Made:
    """One case: who it is, and the input that the subject would get."""

    id: str
    sample: str
    group: str
    condition: Condition
    row: int
    input: Any
    problem: str = ""


def planned(spec: Assessment) -> Plan:
    """The plan of an assessment whose subject is not loaded: a stand-in that answers nothing takes its place.

    Circumstances at inner ports are left out (`inner_ports` names them), and so are supervisors of inner modules.
    """
    kept = {name: c for name, c in spec.circumstances.items() if c.port == INPUT}
    outer = [s for s in spec.supervisors if "module" not in supervisor_parameters(s)]
    reduced = spec.model_copy(update={"circumstances": kept, "supervisors": outer})
    subject = single(_Elsewhere(spec.task.output), spec.task.input)
    return with_wants(resolve(reduced, subject=subject))


def inner_ports(spec: Assessment) -> dict[str, str]:
    """The circumstances that act inside the subject, and where: their cases have no input that could be written out."""
    return {name: c.port for name, c in spec.circumstances.items() if c.port != INPUT}


def export(
    spec: Assessment, out: Path, *, format: Format = "png", progress: Progress | None = None
) -> Exported:
    """Write every case of an assessment into a new folder: the inputs, ``cases.csv`` and ``README.txt``."""
    show = progress or Silent()
    _refuse(spec, out, format)
    show.stage("loading data", 0)
    plan = planned(spec)
    kind = plan.data["test"].input_kind
    if kind is GOAL and any(c.transform for c in plan.conditions):
        name = next(c.circumstance for c in plan.conditions if c.transform)
        raise spec.error(
            ("circumstances", name),
            "changes a goal at every turn, which no file can hold; leave it out",
        )
    show.stage("writing cases", sum(len(plan.data[c.role]) for c in plan.conditions))
    failed: dict[str, str] = {}
    written = 0
    with _whole(out) as folder:
        store = Pack(folder, kind) if format == "npz" else writer_of(kind, folder)
        with (folder / "cases.csv").open("w", encoding="utf-8", newline="") as stream, store:
            table = csv.writer(stream)
            table.writerow(COLUMNS)
            order = {(c.role, c.name): at for at, c in enumerate(plan.conditions)}
            for case in made(plan):
                if case.problem:
                    failed[case.id] = case.problem
                else:
                    place = _place(order[case.condition.role, case.condition.name], case)
                    file = store.write(place, case.id, case.input)
                    level = "" if case.condition.level is None else f"{case.condition.level:g}"
                    table.writerow(
                        [case.id, file, case.sample, case.condition.circumstance, level, case.group]
                    )
                    written += 1
                show.advance(1)
        text = readme(spec, kind, format=format, cases=written, failed=failed)
        (folder / "README.txt").write_text(text, encoding="utf-8")
    return Exported(out, written, failed)


def made(plan: Plan) -> Iterator[Made]:
    """Every case of a plan, in the plan's order, with the input that the subject would get."""
    for condition in plan.conditions:
        data = plan.data[condition.role]
        for start in range(0, len(data), BLOCK):
            inputs = data.inputs[start : start + BLOCK]
            for row, item in enumerate(inputs, start=start):
                sample = str(data.ids[row])
                group = "" if data.groups is None else str(data.groups[row])
                case = condition.case_id(sample)
                problem = ""
                try:
                    item = _arriving(plan, condition, case, item)
                except _Unmade as error:
                    problem = str(error)
                yield Made(case, sample, group, condition, row, item, problem)


@dataclass(frozen=True)
class _Elsewhere:
    """Stands for a subject that is not here: it has the task's ports, and is never asked."""

    kind: Kind
    inputs: tuple[str, ...] = (INPUT,)
    batched: bool = True
    whole_case: bool = True
    fingerprint: str = "elsewhere"

    @property
    def outputs(self) -> Mapping[str, Kind]:
        return {"output": self.kind}

    def offers(self, request: Request) -> str | None:
        """What a file of predictions offers: with it, the run that follows plans the same cases."""
        return None if isinstance(request, Output | Input) else "only its answers come back"

    def step(
        self, inputs: Mapping[str, Any], state: Any, rng: Any
    ) -> tuple[Mapping[str, Any], Any]:
        raise SubjectError("the subject is elsewhere and cannot be asked")

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        raise SubjectError("the subject is elsewhere and cannot be asked")


class _Unmade(Exception):
    """A case whose input cannot be read or transformed."""


def _arriving(plan: Plan, condition: Condition, case: str, item: Any) -> Any:
    """What arrives at the subject's input: a value, or the frames of a case one after the other."""
    if isinstance(item, Unreadable):
        raise _Unmade(item.reason)
    if plan.data[condition.role].input_kind is FRAMES:
        return [_changed(plan, condition, case, step, frame) for step, frame in enumerate(item)]
    return _changed(plan, condition, case, 0, item)


def _changed(plan: Plan, condition: Condition, case: str, step: int, item: Any) -> Any:
    if isinstance(item, Unreadable):
        raise _Unmade(item.reason)
    if condition.transform is None:
        return item
    try:
        return condition.transform.at_step(item, plan.spec.seed, case, step)
    except Exception as error:
        raise _Unmade(f"the transform failed: {error_sentence(error)}") from error


def _refuse(spec: Assessment, out: Path, format: str) -> None:
    for name, port in inner_ports(spec).items():
        raise spec.error(
            ("circumstances", name, "port"),
            f"the circumstance {name!r} acts at the inner port {port!r}, whose values arise only while the subject runs; "
            "they cannot be exported. Leave it out, or run the subject here",
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is there already and not empty; name a new folder")
    if format not in ("png", "npz"):
        raise DataError(
            f"the format is {format!r}; it is png (one file a case) or npz (one file for all)"
        )


def _place(at: int, case: Made) -> str:
    """Where a case's file lies, without its ending; ids may hold what a file's name may not."""
    condition = case.condition
    shown = condition.name or ("clean" if condition.role == "test" else condition.role)
    if condition.name and condition.role == "calibration":
        shown = f"calibration-{shown}"
    safe = "".join(c if c.isalnum() or c in "-_.@" else "-" for c in shown)
    return f"inputs/{at:02d}-{safe}/{case.row:06d}"


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A folder that is there whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}-"))
    try:
        yield partial
        partial.chmod(0o755)
        os.replace(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class Store(AbstractContextManager["Store"]):
    """Takes the cases one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def write(self, place: str, case: str, item: Any) -> str:
        """Write one input; the name of its file, seen from the folder."""

    def close(self) -> None:
        """All cases are there."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()

    def _new(self, name: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


class Images(Store):
    """One file an image."""

    def write(self, place: str, case: str, item: Any) -> str:
        """8 and 16 bit as PNG; floats, which PNG would round, as .npy."""
        pixels = np.asarray(item)
        if pixels.dtype in (np.uint8, np.uint16):
            name = f"{place}.png"
            self._new(name).write_bytes(encode_png(pixels))
        else:
            name = f"{place}.npy"
            np.save(self._new(name), pixels, allow_pickle=False)
        return name


class FrameFolders(Images):
    """One folder a case, one file a frame."""

    def write(self, place: str, case: str, item: Any) -> str:
        """The frames by number, in their order."""
        for step, frame in enumerate(item):
            super().write(f"{place}/{step:06d}", case, frame)
        return place


class Recordings(Store):
    """One wav a recording."""

    def write(self, place: str, case: str, item: Any) -> str:
        """float32, so that what is read again is what was written."""
        from scipy.io import wavfile

        name = f"{place}.wav"
        wavfile.write(self._new(name), item.rate, np.asarray(item.wave, dtype=np.float32))
        return name


class JsonLines(Store):
    """All cases in one file of JSON lines."""

    name = "inputs.jsonl"

    def __init__(self, folder: Path, key: str) -> None:
        super().__init__(folder)
        self._key = key
        self._stream = self._new(self.name).open("w", encoding="utf-8")

    def write(self, place: str, case: str, item: Any) -> str:
        """One line a case."""
        plain = item.tolist() if isinstance(item, np.ndarray) else item
        self._stream.write(json.dumps({"id": case, self._key: plain}, ensure_ascii=False) + "\n")
        return self.name

    def __exit__(self, *ending: Any) -> None:
        self._stream.close()


class Pack(Store):
    """All cases in ``cases.npz``: arrays ``id`` and ``input``, row by row. Rows go to disk as they come."""

    name = "cases.npz"

    def __init__(self, folder: Path, kind: Kind) -> None:
        super().__init__(folder)
        if kind not in (IMAGE, VECTOR):
            raise DataError(
                f"npz holds images and vectors of one shape; {kind.name} are exported with --format png"
            )
        self._rows = self._new(".rows").open("wb")
        self._ids: list[str] = []
        self._shape: tuple[Any, ...] | None = None

    def write(self, place: str, case: str, item: Any) -> str:
        """One row a case."""
        array = np.ascontiguousarray(item)
        self._shape = self._shape or (array.shape, array.dtype)
        if (array.shape, array.dtype) != self._shape:
            raise DataError(
                f"the case {case!r} has {array.dtype} of shape {array.shape}, the cases before it {self._shape[1]} of shape "
                f"{self._shape[0]}; npz needs one shape. Use --format png, one file a case"
            )
        self._rows.write(array.tobytes())
        self._ids.append(case)
        return self.name

    def close(self) -> None:
        """The rows behind a header that says how many there are, and the ids."""
        self._rows.close()
        shape, dtype = self._shape or ((), np.dtype(np.uint8))
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (len(self._ids), *shape),
        }
        rows = self.folder / ".rows"
        with zipfile.ZipFile(
            self.folder / self.name, "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive:
            with (
                archive.open("input.npy", "w", force_zip64=True) as stream,
                rows.open("rb") as source,
            ):
                np.lib.format.write_array_header_1_0(stream, header)
                shutil.copyfileobj(source, stream)
            with archive.open("id.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(
                    stream, np.array(self._ids, dtype=str), allow_pickle=False
                )
        rows.unlink()

    def __exit__(self, *ending: Any) -> None:
        super().__exit__(*ending)
        self._rows.close()


def writer_of(kind: Kind, folder: Path) -> Store:
    """The store for one kind of input."""
    if kind is IMAGE:
        return Images(folder)
    if kind is FRAMES:
        return FrameFolders(folder)
    if kind is AUDIO:
        return Recordings(folder)
    if kind in (TEXT, GOAL, VECTOR):
        return JsonLines(folder, kind.name)
    raise DataError(f"inputs of kind {kind.name} cannot be exported")


INPUTS = {
    "image": "one image a case: PNG without loss, or .npy where pixels are floating-point numbers",
    "frames": "one folder a case, its frames numbered from 000000",
    "audio": "one mono recording a case: wav, 32-bit float",
    "text": "inputs.jsonl: one line a case, {id, text}",
    "goal": "inputs.jsonl: one line a case, {id, goal}",
    "vector": "inputs.jsonl: one line a case, {id, vector}",
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
    spec: Assessment, kind: Kind, *, format: str, cases: int, failed: Mapping[str, str]
) -> str:
    """The text of README.txt."""
    output = spec.task.output.name
    example = json.dumps({"id": "CASE ID", **ANSWERS[output]})
    inputs = (
        "cases.npz: arrays id and input, one row a case" if format == "npz" else INPUTS[kind.name]
    )
    lines = [
        f"{cases} cases of the assessment {spec.title!r} ({spec.task.name}). Answer each of them and send one file back.",
        f"Inputs: {inputs}.",
        "cases.csv lists them: id, file, sample, circumstance (empty: unchanged), level, group. Use the ids exactly as they stand.",
        f"Answer as JSON lines (answers.jsonl), one line a case: {example}",
        f"  {MEANING[output]}.",
        f"  No answer: {json.dumps({'id': 'CASE ID', 'error': 'why'})}; a case that is left out counts as failed too.",
        _table(output),
        _npz(output),
        "Inputs are as the system would get them: do not augment, select or reorder by label; preprocess as in use.",
        f"Then name the file in {spec.document.path.name}, subject: {{task: {spec.task.name}, predictions: answers.jsonl}}, "
        f"and run: roadworthy assess {spec.document.path.name}",
    ]
    if failed:
        first = next(iter(failed))
        lines.append(
            f"{len(failed)} cases could not be made and count as failed, the first is {first}: {failed[first]}"
        )
    return "\n".join(lines) + "\n"


def _table(output: str) -> str:
    if output in ("class_scores", "vector"):
        key = next(iter(ANSWERS[output]))
        return f"Or as CSV with a header: id,{key}_0,{key}_1,…"
    if output == "text":
        return "Or as CSV with a header: id,text"
    return "Or as Parquet with the same fields as columns."


def _npz(output: str) -> str:
    if output in ("class_scores", "vector"):
        key = next(iter(ANSWERS[output]))
        return f"Or as npz: id (n) text, {key} (n, k) float32; np.savez('answers.npz', id=ids, {key}={key})"
    return "Or as several such files in one folder, each case in one of them."
