"""Files of predictions by case id: JSON lines, CSV, Parquet, npz and COCO results.

A `Form` says how one prediction stands in a row, by the kind of value. Every reader gives a `Part`: ids, what was predicted,
which cases failed where the predictions were made, and how to name a row in a message. What cannot be read is refused with
the file and the line.

>>> FORMS["text"].decode({"id": "a", "text": "hello"})
'hello'
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import Table, read_json
from roadworthy.data.samples import DataError
from roadworthy.data.values import (
    BOXES,
    CLASS_SCORES,
    EPISODE,
    TEXT,
    TRACKS,
    VECTOR,
    Boxes,
    Episode,
    Kind,
    Tracks,
)
from roadworthy.subject.module import SubjectError


@dataclass(frozen=True)
class Form:
    """A kind of value as the fields of a row. `decode` raises ValueError with the end of a sentence."""

    kind: Kind
    keys: tuple[str, ...]
    decode: Callable[[Mapping[str, Any]], Any]


def form_of(kind: Kind) -> Form:
    """The form of a kind; kinds that no task answers with have none."""
    if kind.name not in FORMS:
        raise SubjectError(f"predictions hold {', '.join(FORMS)}; {kind.name} is none of them")
    return FORMS[kind.name]


def _matrix(values: Any, width: int, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"holds {what} that are not rows of {width} numbers") from None
    if array.size == 0:
        return np.zeros((0, width))
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(
            f"holds {what} of shape {array.shape}; rows of {width} numbers were expected"
        )
    return array


def _row(key: str) -> Callable[[Mapping[str, Any]], np.ndarray]:
    def decode(row: Mapping[str, Any]) -> np.ndarray:
        try:
            array = np.asarray(row[key], dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"holds {key} that are not numbers: {str(row[key])[:60]}") from None
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"holds {key} of shape {array.shape}; one row of numbers was expected")
        return array

    return decode


def _decode_boxes(row: Mapping[str, Any]) -> Boxes:
    corners = _matrix(row["boxes"], 4, "boxes")
    try:
        boxes = Boxes.of(corners, row["labels"], row["scores"])
    except (TypeError, ValueError):
        raise ValueError(
            "holds labels that are not whole numbers, or scores that are not numbers"
        ) from None
    if not len(boxes.xyxy) == len(boxes.labels) == len(boxes.scores):
        raise ValueError(
            f"has {len(boxes.xyxy)} boxes, {len(boxes.labels)} labels and {len(boxes.scores)} scores"
        )
    return boxes


def _decode_tracks(row: Mapping[str, Any]) -> Tracks:
    table = _matrix(row["tracks"], 6, "tracks")
    return Tracks.of(table[:, 0], table[:, 1], table[:, 2:])


def _decode_text(row: Mapping[str, Any]) -> str:
    if not isinstance(row["text"], str):
        raise ValueError(f"holds text that is {type(row['text']).__name__}")
    return row["text"]


def _decode_episode(row: Mapping[str, Any]) -> Episode:
    given = row["episode"]
    given = json.loads(given) if isinstance(given, str) else given
    if (
        not isinstance(given, Mapping)
        or not isinstance(given.get("turns"), list)
        or "outcome" not in given
    ):
        raise ValueError("holds an episode without a list of turns and an outcome")
    return Episode(tuple(given["turns"]), given["outcome"])


FORMS: dict[str, Form] = {
    form.kind.name: form
    for form in (
        Form(CLASS_SCORES, ("scores",), _row("scores")),
        Form(VECTOR, ("vector",), _row("vector")),
        Form(BOXES, ("boxes", "labels", "scores"), _decode_boxes),
        Form(TRACKS, ("tracks",), _decode_tracks),
        Form(TEXT, ("text",), _decode_text),
        Form(EPISODE, ("episode",), _decode_episode),
    )
}
"""Forms by the name of the kind."""


def one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    """Class scores of bare labels: 1 for the class that was named.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    scores = np.zeros((len(labels), classes), dtype=np.float32)
    scores[np.arange(len(labels)), labels] = 1.0
    return scores


def narrow(values: np.ndarray) -> np.ndarray:
    """The same numbers as float32 where that loses nothing, else as float64: text does not say which they were."""
    if values.dtype == np.float32:
        return values
    wide = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        small = wide.astype(np.float32)
    return small if np.array_equal(small, wide, equal_nan=True) else wide


LABEL = "label"
ERROR = "error"
LAST_NUMBER = re.compile(r"\d+$")


@dataclass(frozen=True)
class Part:
    """The predictions of one file, in its order."""

    file: Path
    ids: list[str]
    items: Sequence[Any] | np.ndarray
    """None, or a NaN row, where there is no answer."""
    errors: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[int] = ()
    """The line of each row; empty where the file has none."""
    absent_is_empty: bool = False
    """Whether a case that is not listed has an empty answer, as in COCO results."""

    def place(self, row: int) -> str:
        """A row's place, for a sentence."""
        return (
            f"{self.file.name}, line {self.lines[row]}"
            if self.lines
            else f"{self.file.name}, row {row}"
        )


@dataclass(frozen=True)
class ReadingOptions:
    """What a reader must know besides the file."""

    form: Form
    classes: int | None = None
    """How many classes there are, where files hold bare labels."""
    images: Mapping[Any, str] | None = None
    """COCO's image ids and the cases they are."""
    categories: Mapping[Any, int] | None = None
    """COCO's category ids and the classes they are."""


def read_part(file: Path, how: ReadingOptions) -> Part:
    """The predictions in a file, by the ending of its name."""
    try:
        part = READERS[file.suffix.lower()](file, how)
    except DataError as error:
        raise SubjectError(str(error)) from error
    if not part.ids and not part.absent_is_empty:
        raise SubjectError(f"{file} holds no predictions; one row a case was expected")
    return part


def _rows(file: Path, rows: Sequence[tuple[int, Any]], how: ReadingOptions) -> Part:
    """Rows of fields: of JSON lines, of a JSON list, of a Parquet table."""
    part = Part(file, [], [], {}, [line for line, _ in rows])
    ids: list[str] = []
    items: list[Any] = []
    errors: dict[str, str] = {}
    for at, (_, row) in enumerate(rows):
        where = part.place(at)
        if not isinstance(row, Mapping) or row.get("id") is None:
            raise SubjectError(f"{where} has no id; every row needs the id of its case")
        name = str(row["id"])
        ids.append(name)
        if row.get(ERROR) is not None:
            errors.setdefault(name, str(row[ERROR]))
            items.append(None)
            continue
        items.append(_item(where, row, how.form))
    dense = how.form.kind.dense
    return Part(file, ids, _dense(part, items, how) if dense else items, errors, part.lines)


def _item(where: str, row: Mapping[str, Any], form: Form) -> Any:
    if form.kind is CLASS_SCORES and "scores" not in row and LABEL in row:
        return _index(where, row[LABEL])
    missing = [k for k in form.keys if row.get(k) is None]
    if missing:
        raise SubjectError(
            f"{where} has no {missing[0]!r}; {form.kind.name} need {', '.join(form.keys)} beside the id, "
            f"and it has: {', '.join(map(str, row))}"
        )
    try:
        return form.decode(row)
    except ValueError as problem:
        raise SubjectError(f"{where} {problem}") from problem


def _index(where: str, label: Any) -> int:
    try:
        if int(label) == float(label) and int(label) >= 0:
            return int(label)
    except (TypeError, ValueError):
        pass
    raise SubjectError(
        f"{where} has the label {label!r}; the index of a class (0, 1, …) was expected"
    )


def _dense(part: Part, items: Sequence[Any], how: ReadingOptions) -> np.ndarray:
    """Rows of one width, NaN where there is none; bare labels become one-hot."""
    known = [(at, item) for at, item in enumerate(items) if item is not None]
    if known and all(isinstance(item, int) for _, item in known):
        return _from_labels(part, known, len(items), how)
    first = next((len(i) for _, i in known if not isinstance(i, int)), 1)
    values = np.full((len(items), first), np.nan)
    for at, item in known:
        if isinstance(item, int) or len(item) != first:
            found = "a bare label" if isinstance(item, int) else f"{len(item)} numbers"
            raise SubjectError(
                f"{part.place(at)} has {found}; the rows before it have {first} numbers"
            )
        values[at] = item
    return narrow(values)


def _from_labels(
    part: Part, known: Sequence[tuple[int, int]], n: int, how: ReadingOptions
) -> np.ndarray:
    labels = np.array([label for _, label in known])
    classes = how.classes or int(labels.max()) + 1
    if labels.max() >= classes:
        at = known[int(labels.argmax())][0]
        raise SubjectError(
            f"{part.place(at)} has the label {labels.max()}; with {classes} classes it is below {classes}"
        )
    values = np.full((n, classes), np.nan, dtype=np.float32)
    values[[at for at, _ in known]] = one_hot(labels, classes)
    return values


def _json_lines(file: Path, how: ReadingOptions) -> Part:
    rows = []
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                rows.append((number, json.loads(line)))
            except ValueError as error:
                raise SubjectError(
                    f"{file.name}, line {number}: is not JSON ({error}); correct it there"
                ) from error
    return _rows(file, rows, how)


def _json(file: Path, how: ReadingOptions) -> Part:
    document = read_json(file)
    if not isinstance(document, list):
        raise SubjectError(
            f"{file.name} is {type(document).__name__}; a list of predictions was expected"
        )
    coco = how.form.kind is BOXES and all(
        isinstance(d, Mapping) and "image_id" in d for d in document
    )
    if coco:
        return _coco_results(file, document, how)
    part = _rows(file, list(enumerate(document)), how)
    return Part(file, part.ids, part.items, part.errors)


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
        found.setdefault(case, []).append(
            ([x, y, x + width, y + height], _index(where, label), score)
        )
    boxes = [
        Boxes.of([b for b, _, _ in rows], [n for _, n, _ in rows], [s for _, _, s in rows])
        for rows in found.values()
    ]
    return Part(file, list(found), boxes, absent_is_empty=how.images is None)


def _csv(file: Path, how: ReadingOptions) -> Part:
    if not how.form.kind.dense and how.form.kind is not TEXT:
        raise SubjectError(
            f"{file.name}: CSV holds class scores, vectors or text; write {how.form.kind.name} as JSON lines"
        )
    table = Table.read(file)
    ids = table["id"]
    errors = {i: e for i, e in zip(ids, table[ERROR], strict=True) if e} if ERROR in table else {}
    part = Part(file, ids, [], errors, table.lines)
    if how.form.kind is TEXT:
        texts = [None if i in errors else text for i, text in zip(ids, table["text"], strict=True)]
        return Part(file, ids, texts, errors, table.lines)
    names = _in_order([n for n in table.columns if n not in ("id", ERROR)])
    if not names:
        raise SubjectError(
            f"{file.name} has no columns beside the id; one column a number was expected"
        )
    if names == [LABEL] and how.form.kind is CLASS_SCORES:
        cells = enumerate(table[LABEL])
        labels = [None if ids[at] in errors else _index(part.place(at), cell) for at, cell in cells]
        return Part(file, ids, _dense(part, labels, how), errors, table.lines)
    values = np.full((len(ids), len(names)), np.nan)
    for column, name in enumerate(names):
        for row, cell in enumerate(table[name]):
            if ids[row] not in errors:
                values[row, column] = _number(part.place(row), name, cell)
    return Part(file, ids, narrow(values), errors, table.lines)


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
    (key, *_) = how.form.keys
    if not how.form.kind.dense or key not in table.column_names:
        rows = _rows(file, list(enumerate(table.to_pylist())), how)
        return Part(file, rows.ids, rows.items, rows.errors)
    if "id" not in table.column_names:
        raise SubjectError(
            f"{file.name} has no column 'id'; it has: {', '.join(table.column_names)}"
        )
    ids = [str(i) for i in table["id"].to_pylist()]
    said = table[ERROR].to_pylist() if ERROR in table.column_names else []
    errors = {i: e for i, e in zip(ids, said, strict=False) if e}
    column = table[key].combine_chunks()
    if not pa.types.is_list(column.type) and not pa.types.is_fixed_size_list(column.type):
        raise SubjectError(
            f"{file.name}: the column {key!r} holds {column.type}; a list of numbers a row was expected"
        )
    widths = set(column.value_lengths().drop_null().to_pylist())
    if len(widths) > 1 or column.null_count:
        rows = _rows(file, list(enumerate(table.to_pylist())), how)
        return Part(file, rows.ids, rows.items, rows.errors)
    values = column.flatten().to_numpy(zero_copy_only=False).reshape(len(ids), -1)
    return Part(file, ids, _floats(values), errors)


def _npz(file: Path, how: ReadingOptions) -> Part:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SubjectError(f"{file.name} cannot be read as npz: {error}") from error
    (key, *_) = how.form.keys
    if not how.form.kind.dense:
        raise SubjectError(
            f"{file.name}: npz holds class scores or vectors; write {how.form.kind.name} as JSON lines"
        )
    missing = [k for k in ("id", key) if k not in arrays]
    if missing:
        raise SubjectError(f"{file.name} has no array {missing[0]!r}; it has: {', '.join(arrays)}")
    ids = [str(i) for i in arrays["id"]]
    said = [str(e) for e in arrays.get(ERROR, [])]
    errors = {i: e for i, e in zip(ids, said, strict=False) if e}
    values = arrays[key][:, None] if arrays[key].ndim == 1 else arrays[key]
    if len(values) != len(ids) or values.ndim != 2:
        raise SubjectError(
            f"{file.name} has {len(ids)} ids and {len(values)} predictions; one row an id was expected"
        )
    return Part(file, ids, _floats(values), errors)


def _floats(values: np.ndarray) -> np.ndarray:
    return values if values.dtype in (np.float32, np.float64) else narrow(values)


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
