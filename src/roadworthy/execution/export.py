"""Cases written out as files, to be answered elsewhere: on the target hardware, by another team, by a system that cannot be loaded.

What is written is what the subject would get in a run here: every condition of the plan, transformed with the same seeds,
under the same case ids. The subject itself is not needed. Answers come back as a file of predictions
(`subject: {predictions: FILE}`), and give the findings of a run with the subject here; a case without an answer counts as failed.
"""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from roadworthy.cases.circumstance import Condition
from roadworthy.data.samples import DataError
from roadworthy.data.values import FRAMES, GOAL, Kind, Unreadable
from roadworthy.execution.export_files import Pack, writer_of
from roadworthy.execution.export_readme import readme
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
    return resolve(reduced, subject=single(_Elsewhere(spec.task.output), spec.task.input))


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
