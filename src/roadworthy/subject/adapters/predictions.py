"""A subject of which only the predictions are there: files by case id, made on the target hardware or by another team.

>>> import tempfile
>>> from roadworthy.data.values import TASKS
>>> from roadworthy.subject.system import Cases
>>> folder = Path(tempfile.mkdtemp())
>>> rows = ['{"id": "a", "scores": [0.25, 0.75]}', '{"id": "b", "scores": [1.0, 0.0]}']
>>> _ = (folder / "preds.jsonl").write_text("\\n".join(rows))
>>> system = predictions(path="preds.jsonl", base=folder, task=TASKS["classification"])
>>> trace = system.run(Cases(["b", "c"], np.zeros((2, 4, 4))))["system"]
>>> trace.output[0].tolist(), trace.error.tolist()
([1.0, 0.0], [None, 'no prediction for this case in preds.jsonl'])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import read_json
from roadworthy.data.values import BOXES, Boxes, Kind, Task
from roadworthy.registry import register
from roadworthy.subject.adapters.loading import digest_of, existing_file
from roadworthy.subject.adapters.prediction_files import (
    READERS,
    Form,
    Part,
    ReadingOptions,
    form_of,
    read_part,
)
from roadworthy.subject.module import Answers, Context, SubjectError
from roadworthy.subject.needs import Input, Output, Request
from roadworthy.subject.system import System, single


@register("adapters", "predictions")
def predictions(
    *,
    path: str,
    base: Path,
    task: Task,
    version: str = "",
    classes: int | None = None,
    annotations: str | None = None,
) -> System:
    """A file, or a folder of files, of predictions by case id: JSON lines, CSV, Parquet, npz or COCO results.

    `classes` says how many there are where files hold bare labels; `annotations` is the COCO file whose image and
    category ids the COCO results use.
    """
    form = form_of(task.output)
    files = _files(path, base)
    how = _reading(form, classes, annotations, base)
    parts = [read_part(file, how) for file in files]
    module = PredictionsModule(
        task.output,
        Path(path).name,
        _index(parts),
        _items(parts, form),
        {case: why for part in parts for case, why in part.errors.items()},
        absent=Boxes.of([]) if any(p.absent_is_empty for p in parts) else None,
        mark=f"{classes} {annotations and existing_file(annotations, base, what='COCO file').read_text()}",
        files=files,
    )
    return single(module, task.input, version=version)


@dataclass(frozen=True)
class PredictionsModule:
    """Answers that were given elsewhere, by case id; the inputs are not looked at."""

    kind: Kind
    name: str
    index: Mapping[str, int]
    items: Sequence[Any] | np.ndarray
    failed: Mapping[str, str]
    """Why a case failed where the predictions were made."""
    absent: Any = None
    """The answer for a case that is not listed, where the format says what that means."""
    mark: str = ""
    files: tuple[Path, ...] = ()
    inputs: tuple[str, ...] = ("input",)
    batched: bool = True
    whole_case: bool = True
    """A case with steps is answered at once: a file knows cases, not steps."""
    outputs: Mapping[str, Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outputs", {"output": self.kind})

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files, wherever they lie."""
        return digest_of(self.kind.name, self.mark, *(f.read_bytes() for f in self.files))

    def offers(self, request: Request) -> str | None:
        """The predictions, and the inputs they belong to."""
        if isinstance(request, Output | Input):
            return None
        return f"a file of predictions shows no {type(request).__name__.lower()}"

    def step(
        self, inputs: Mapping[str, Any], state: Any, rng: Any
    ) -> tuple[Mapping[str, Any], Any]:
        """Refused: a step does not say which case it is of."""
        raise SubjectError(
            f"the predictions in {self.name} are by case; they cannot be asked step by step"
        )

    def batch(self, inputs: Mapping[str, Sequence[Any]], context: Context) -> Answers:
        """The predictions of these cases; one that is missing, or failed where it was made, is an error."""
        errors: dict[int, str] = {}
        rows: list[int] = []
        for at, case in enumerate(context.ids):
            rows.append(self.index.get(case, -1))
            if case in self.failed:
                errors[at] = self.failed[case]
            elif rows[-1] < 0 and self.absent is None:
                errors[at] = f"no prediction for this case in {self.name}"
        column: Any
        if isinstance(self.items, np.ndarray):
            column = self.items[rows]
            column[list(errors)] = np.nan
        else:
            column = [
                None if i in errors else self.absent if row < 0 else self.items[row]
                for i, row in enumerate(rows)
            ]
        return Answers({"output": column}, errors=errors)

    def unused(self, ids: Iterable[str]) -> list[str]:
        """The ids in the files that none of these cases has, in the files' order."""
        known = set(ids)
        return [case for case in self.index if case not in known]


def _files(path: str, base: Path) -> tuple[Path, ...]:
    place = base / Path(path).expanduser()
    if place.is_dir():
        found = sorted(
            p for p in place.iterdir() if p.suffix.lower() in READERS and not p.name.startswith(".")
        )
        if not found:
            raise SubjectError(
                f"the folder {place} holds no predictions; files of {', '.join(READERS)} were expected"
            )
        return tuple(found)
    file = existing_file(path, base, what="file or folder of predictions")
    if file.suffix.lower() not in READERS:
        raise SubjectError(
            f"{file.name} is no file of predictions; {', '.join(READERS)} can be read"
        )
    return (file,)


def _reading(
    form: Form, classes: int | None, annotations: str | None, base: Path
) -> ReadingOptions:
    if annotations is None:
        return ReadingOptions(form, classes)
    if form.kind is not BOXES:
        raise SubjectError(
            f"annotations belong to COCO results, which hold boxes; this task answers {form.kind.name}"
        )
    file = existing_file(annotations, base, what="COCO file")
    try:
        document = read_json(file)
        images = {i["id"]: str(i["file_name"]) for i in document["images"]}
        order = sorted(c["id"] for c in document["categories"])
    except (KeyError, TypeError, ValueError) as error:
        raise SubjectError(
            f"{file.name} is no COCO file with images and categories: {error!r}"
        ) from error
    return ReadingOptions(
        form, classes, images, {category: at for at, category in enumerate(order)}
    )


def _index(parts: Sequence[Part]) -> dict[str, int]:
    """Where each case stands in the parts, one after the other; a case may stand only once."""
    places: dict[str, tuple[Part, int]] = {}
    for part in parts:
        for row, case in enumerate(part.ids):
            if case in places:
                other, first = places[case]
                raise SubjectError(
                    f"the case {case!r} has two predictions: {other.place(first)} and {part.place(row)}; keep one"
                )
            places[case] = (part, row)
    return {case: at for at, case in enumerate(places)}


def _items(parts: Sequence[Part], form: Form) -> Sequence[Any] | np.ndarray:
    if not form.kind.dense:
        return [item for part in parts for item in part.items]
    tables = [np.asarray(part.items) for part in parts]
    answering = [at for at, p in enumerate(parts) if len(p.errors) < len(p.ids)] or [0]
    width = tables[answering[0]].shape[1]
    for at in answering:
        if tables[at].shape[1] != width:
            raise SubjectError(
                f"{parts[at].file.name} has {tables[at].shape[1]} numbers a case and {parts[answering[0]].file.name} {width}; "
                "all files need the same (where they hold bare labels, set classes)"
            )
    for at in set(range(len(parts))) - set(
        answering
    ):  # nothing but failures: their width was never told
        tables[at] = np.full((len(tables[at]), width), np.nan, dtype=np.float32)
    return np.concatenate(tables)
