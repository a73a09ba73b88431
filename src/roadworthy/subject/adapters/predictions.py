"""A subject of which only the predictions are there: files by case id, made on the target hardware or by another team.

Every reader gives a `Part`: ids, what was predicted, and which cases failed where the predictions
were made. What cannot be read is refused with the file and the line.

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

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import CsvTable, read_json
from roadworthy.data.samples import DataError
from roadworthy.data.values import (
    BOXES,
    CLASS_SCORES,
    EPISODE,
    TEXT,
    TRACKS,
    Boxes,
    Episode,
    Kind,
    Task,
)
from roadworthy.registry import register
from roadworthy.subject.adapters.loading import digest_of, existing_file
from roadworthy.subject.module import Answers, Context, SubjectError
from roadworthy.subject.needs import Input, Output, Request
from roadworthy.subject.system import System, single

KEYS: dict[str, tuple[str, ...]] = {
    "class_scores": ("scores",),
    "vector": ("vector",),
    "boxes": ("boxes", "labels", "scores"),
    "tracks": ("tracks",),
    "text": ("text",),
    "episode": ("episode",),
}
"""The fields of a row that hold a prediction, by the kind of value."""
LABEL, ERROR = "label", "error"
LAST_NUMBER = re.compile(r"\d+$")


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
    kind, files = task.output, _files(path, base)
    how = _reading(kind, classes, annotations, base)
    parts = [_read_part(file, how) for file in files]
    module = PredictionsModule(
        kind,
        Path(path).name,
        _index(parts),
        _items(parts, kind),
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

    @property
    def outputs(self) -> Mapping[str, Kind]:
        """The predictions."""
        return {"output": self.kind}

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


@dataclass(frozen=True)
class Part:
    """The predictions of one file, in its order."""

    file: Path
    ids: list[str]
    items: Sequence[Any] | np.ndarray
    """None, or a NaN row, where there is no answer."""
    errors: Mapping[str, str] = field(default_factory=dict)
    absent_is_empty: bool = False
    """Whether a case that is not listed has an empty answer, as in COCO results."""


@dataclass(frozen=True)
class ReadingOptions:
    """What a reader must know besides the file."""

    kind: Kind
    classes: int | None = None
    """How many classes there are, where files hold bare labels."""
    images: Mapping[Any, str] | None = None
    """COCO's image ids and the cases they are."""
    categories: Mapping[Any, int] | None = None
    """COCO's category ids and the classes they are."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields of a row that hold a prediction."""
        return KEYS[self.kind.name]


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
    kind: Kind, classes: int | None, annotations: str | None, base: Path
) -> ReadingOptions:
    if kind.name not in KEYS:
        raise SubjectError(f"predictions hold {', '.join(KEYS)}; {kind.name} is none of them")
    if annotations is None:
        return ReadingOptions(kind, classes)
    if kind is not BOXES:
        raise SubjectError(
            f"annotations belong to COCO results, which hold boxes; this task answers {kind.name}"
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
    return ReadingOptions(kind, classes, images, {c: at for at, c in enumerate(order)})


def _read_part(file: Path, how: ReadingOptions) -> Part:
    """The predictions in a file, by the ending of its name."""
    try:
        part = READERS[file.suffix.lower()](file, how)
    except DataError as error:
        raise SubjectError(str(error)) from error
    if not part.ids and not part.absent_is_empty:
        raise SubjectError(f"{file} holds no predictions; one row a case was expected")
    return part


def _index(parts: Sequence[Part]) -> dict[str, int]:
    """Where each case stands in the parts, one after the other; a case may stand only once."""
    files: dict[str, Path] = {}
    for part in parts:
        for case in part.ids:
            if case in files:
                places = " and ".join(dict.fromkeys([files[case].name, part.file.name]))
                raise SubjectError(f"the case {case!r} has two predictions in {places}; keep one")
            files[case] = part.file
    return {case: at for at, case in enumerate(files)}


def _items(parts: Sequence[Part], kind: Kind) -> Sequence[Any] | np.ndarray:
    if not kind.dense:
        return [item for part in parts for item in part.items]
    tables = [np.asarray(part.items) for part in parts]
    # Of a file with nothing but failures the width is not known.
    answering = [at for at, p in enumerate(parts) if len(p.errors) < len(p.ids)] or [0]
    width = tables[answering[0]].shape[1]
    for at, table in enumerate(tables):
        if at not in answering:
            tables[at] = np.full((len(table), width), np.nan, dtype=np.float32)
        elif table.shape[1] != width:
            raise SubjectError(
                f"{parts[at].file.name} has {table.shape[1]} numbers a case and "
                f"{parts[answering[0]].file.name} {width}; all files need the same (where they "
                "hold bare labels, set classes)"
            )
    return np.concatenate(tables)


def _rows(file: Path, rows: Iterable[tuple[str, Any]], how: ReadingOptions) -> Part:
    """Rows of fields, each with its place: of JSON lines, of a JSON list, of a Parquet table."""
    ids: list[str] = []
    items: list[tuple[str, Any]] = []
    errors: dict[str, str] = {}
    for place, row in rows:
        where = f"{file.name}, {place}"
        if not isinstance(row, Mapping) or row.get("id") is None:
            raise SubjectError(f"{where} has no id; every row needs the id of its case")
        ids.append(str(row["id"]))
        if row.get(ERROR) is not None:
            errors.setdefault(ids[-1], str(row[ERROR]))
            items.append((where, None))
        else:
            items.append((where, _item(where, row, how)))
    found = _dense(items, how) if how.kind.dense else [item for _, item in items]
    return Part(file, ids, found, errors)


def _item(where: str, row: Mapping[str, Any], how: ReadingOptions) -> Any:
    kind, (key, *_) = how.kind, how.keys
    item: Any
    if kind is CLASS_SCORES and key not in row and LABEL in row:
        return _class_index(where, row[LABEL])
    missing = [k for k in how.keys if row.get(k) is None]
    if missing:
        raise SubjectError(
            f"{where} has no {missing[0]!r}; {kind.name} need {', '.join(how.keys)} beside the id, "
            f"and it has: {', '.join(map(str, row))}"
        )
    if kind.dense:
        try:
            item = np.asarray(row[key], dtype=np.float64)
        except (TypeError, ValueError):
            raise SubjectError(f"{where} holds {key} that are not numbers") from None
        if item.ndim != 1 or item.size == 0:
            raise SubjectError(f"{where} holds {key} of shape {item.shape}, not a row of numbers")
        return item
    item = kind.read({k: row[k] for k in how.keys} if kind is BOXES else row[key])
    if kind is EPISODE:
        item = _episode(where, item)
    if kind is TRACKS and any(np.size(one) != 6 for one in row[key]):
        raise SubjectError(f"{where} holds tracks that are not rows of step, id, x1, y1, x2, y2")
    problem = kind.problem(item)
    if problem:
        raise SubjectError(f"{where}: the {kind.name} {problem}")
    return item


def _episode(where: str, given: Any) -> Episode:
    given = json.loads(given) if isinstance(given, str) else given
    sound = isinstance(given, Mapping) and isinstance(given.get("turns"), list)
    if not sound or "outcome" not in given:
        raise SubjectError(f"{where} holds an episode without a list of turns and an outcome")
    return Episode(tuple(given["turns"]), given["outcome"])


def _class_index(where: str, label: Any) -> int:
    try:
        if int(label) == float(label) and int(label) >= 0:
            return int(label)
    except (TypeError, ValueError):
        pass
    raise SubjectError(
        f"{where} has the label {label!r}; the index of a class (0, 1, …) was expected"
    )


def _dense(items: Sequence[tuple[str, Any]], how: ReadingOptions) -> np.ndarray:
    """Rows of one width, NaN where there is none; bare labels become one-hot."""
    known = [(at, where, item) for at, (where, item) in enumerate(items) if item is not None]
    labels = [item for _, _, item in known if isinstance(item, int)]
    if labels and len(labels) == len(known):
        width = how.classes or max(labels) + 1
        values = np.full((len(items), width), np.nan)
        for at, where, label in known:
            if label >= width:
                raise SubjectError(
                    f"{where} has the label {label}; with {width} classes it is below {width}"
                )
            values[at] = np.arange(width) == label
        return values.astype(np.float32)
    width = next((len(item) for _, _, item in known if not isinstance(item, int)), 1)
    values = np.full((len(items), width), np.nan)
    for at, where, item in known:
        if isinstance(item, int) or len(item) != width:
            found = "a bare label" if isinstance(item, int) else f"{len(item)} numbers"
            raise SubjectError(f"{where} has {found}; the rows before it have {width} numbers")
        values[at] = item
    return narrow(values)


def narrow(values: np.ndarray) -> np.ndarray:
    """The same numbers as float32 where that loses nothing, else as float64: text does not say which they were."""
    if values.dtype == np.float32:
        return values
    wide = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        small = wide.astype(np.float32)
    return small if np.array_equal(small, wide, equal_nan=True) else wide


def _json_lines(file: Path, how: ReadingOptions) -> Part:
    rows = []
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                rows.append((f"line {number}", json.loads(line)))
            except ValueError as error:
                raise SubjectError(f"{file.name}, line {number}: is not JSON ({error})") from error
    return _rows(file, rows, how)


def _json(file: Path, how: ReadingOptions) -> Part:
    document = read_json(file)
    if not isinstance(document, list):
        raise SubjectError(
            f"{file.name} is {type(document).__name__}; a list of predictions was expected"
        )
    if how.kind is BOXES and all(isinstance(d, Mapping) and "image_id" in d for d in document):
        return _coco_results(file, document, how)
    return _rows(file, _numbered(document), how)


def _numbered(rows: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    return ((f"row {at}", row) for at, row in enumerate(rows))


def _coco_results(file: Path, document: Sequence[Mapping[str, Any]], how: ReadingOptions) -> Part:
    """One entry a box, as x, y, width, height; images without an entry have no boxes, for the format has no other way."""
    found: dict[str, list[tuple[list[float], int, float]]] = {}
    if how.images is not None:
        found = {case: [] for case in how.images.values()}
    for at, entry in enumerate(document):
        where = f"{file.name}, entry {at}"
        try:
            x, y, width, height = (float(v) for v in entry["bbox"])
            image, category, score = entry["image_id"], entry["category_id"], float(entry["score"])
        except (KeyError, TypeError, ValueError) as error:
            raise SubjectError(
                f"{where} cannot be read ({error!r}); image_id, category_id, bbox [x, y, width, height] and score were expected"
            ) from error
        case = str(image) if how.images is None else how.images.get(image)
        label = category if how.categories is None else how.categories.get(category)
        if case is None or label is None:
            unknown = f"image {image!r}" if case is None else f"category {category!r}"
            raise SubjectError(f"{where} is of the {unknown}, which the annotations do not list")
        corners = [x, y, x + width, y + height]
        found.setdefault(case, []).append((corners, _class_index(where, label), score))
    boxes = [
        Boxes.of([b for b, _, _ in rows], [n for _, n, _ in rows], [s for _, _, s in rows])
        for rows in found.values()
    ]
    return Part(file, list(found), boxes, absent_is_empty=how.images is None)


def _csv(file: Path, how: ReadingOptions) -> Part:
    if not how.kind.dense and how.kind is not TEXT:
        raise SubjectError(
            f"{file.name}: CSV holds class scores, vectors or text; write {how.kind.name} as JSON lines"
        )
    table = CsvTable.read(file)
    ids = table["id"]
    errors = {i: e for i, e in zip(ids, table[ERROR], strict=True) if e} if ERROR in table else {}
    if how.kind is TEXT:
        texts = [None if i in errors else text for i, text in zip(ids, table["text"], strict=True)]
        return Part(file, ids, texts, errors)
    names = _in_order([n for n in table.columns if n not in ("id", ERROR)])
    if not names:
        raise SubjectError(
            f"{file.name} has no columns beside the id; one column a number was expected"
        )
    places = [f"{file.name}, line {line}" for line in table.lines]
    if names == [LABEL] and how.kind is CLASS_SCORES:
        labels = [
            (where, None if case in errors else _class_index(where, cell))
            for where, case, cell in zip(places, ids, table[LABEL], strict=True)
        ]
        return Part(file, ids, _dense(labels, how), errors)
    values = np.full((len(ids), len(names)), np.nan)
    for column, name in enumerate(names):
        for row, cell in enumerate(table[name]):
            if ids[row] not in errors:
                values[row, column] = _number(places[row], name, cell)
    return Part(file, ids, narrow(values), errors)


def _number(where: str, column: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise SubjectError(
            f"{where} has {cell!r} in the column {column!r}; a number was expected"
        ) from None


def _in_order(names: list[str]) -> list[str]:
    """Columns that end in 0, 1, 2, … (or 1, 2, …) by that number, since tools sort them as text; others as they stand."""
    ends = [LAST_NUMBER.search(n) for n in names]
    if not all(ends):
        return names
    numbers = [int(e.group()) for e in ends if e]
    counted = sorted(numbers) in (list(range(len(names))), list(range(1, len(names) + 1)))
    return [n for _, n in sorted(zip(numbers, names, strict=True))] if counted else names


def _parquet(file: Path, how: ReadingOptions) -> Part:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise SubjectError(f"{file.name} cannot be read as Parquet: {error}") from error
    columns, (key, *_) = table.column_names, how.keys
    cells: Any = table[key].combine_chunks() if key in columns else None
    whole = cells is not None and not cells.null_count and "id" in columns
    lists = whole and (pa.types.is_list(cells.type) or pa.types.is_fixed_size_list(cells.type))
    if how.kind.dense and lists and len(set(cells.value_lengths().to_pylist())) == 1:
        values = cells.flatten().to_numpy(zero_copy_only=False).reshape(len(cells), -1)
        said = table[ERROR].to_pylist() if ERROR in columns else []
        return _columns(file, table["id"].to_pylist(), values, said)
    return _rows(file, _numbered(table.to_pylist()), how)


def _npz(file: Path, how: ReadingOptions) -> Part:
    if not how.kind.dense:
        raise SubjectError(
            f"{file.name}: npz holds class scores or vectors; write {how.kind.name} as JSON lines"
        )
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SubjectError(f"{file.name} cannot be read as npz: {error}") from error
    missing = [k for k in ("id", how.keys[0]) if k not in arrays]
    if missing:
        raise SubjectError(f"{file.name} has no array {missing[0]!r}; it has: {', '.join(arrays)}")
    values = arrays[how.keys[0]]
    values = values[:, None] if values.ndim == 1 else values
    if len(values) != len(arrays["id"]) or values.ndim != 2:
        raise SubjectError(
            f"{file.name} has {len(arrays['id'])} ids and {len(values)} predictions; one row an id was expected"
        )
    return _columns(file, arrays["id"], values, [str(e) for e in arrays.get(ERROR, [])])


def _columns(file: Path, ids: Iterable[Any], values: np.ndarray, said: Sequence[Any]) -> Part:
    """Predictions that come as one table of numbers."""
    names = [str(i) for i in ids]
    errors = {i: e for i, e in zip(names, said, strict=False) if e}
    floats = values.dtype in (np.float32, np.float64)
    return Part(file, names, values if floats else narrow(values), errors)


READERS: dict[str, Callable[[Path, ReadingOptions], Part]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".npz": _npz,
}
"""Readers by the ending of a file's name."""
