"""A subject of which only the predictions are there: files by case id, made on the target hardware or by another team.

Every reader gives rows: a case, what was predicted or why not, and where it stands. What cannot be
read is refused with the file and the line.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.answers import SUFFIXES as TABLES
from roadworthy.data.answers import has_both, read_answers
from roadworthy.data.loaders.files import SUFFIXES, CsvTable, Files, image_files, read_json
from roadworthy.data.loaders.masks import read_answer
from roadworthy.data.samples import DataError
from roadworthy.data.values import (
    BOXES,
    CLASS_SCORES,
    EPISODE,
    MASK,
    TEXT,
    TRACKS,
    VECTOR,
    Boxes,
    Episode,
    Kind,
    Task,
)
from roadworthy.registry import register
from roadworthy.subject.adapters.loading import digest_of, existing_file
from roadworthy.subject.module import Answers, ClassNames, Context, SubjectError, no_query
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
ENDINGS = re.compile(rf"({'|'.join(map(re.escape, SUFFIXES))})+(?=~|$)", re.IGNORECASE)
LAST_NUMBER = re.compile(r"\d+$")
BEFORE_CLASS = re.compile(r"^(p|prob|score)_")
"""What may stand before the name of a class in a header."""


@register("adapters", "predictions")
def predictions(
    *,
    path: str,
    base: Path,
    task: Task,
    version: str = "",
    classes: int | list[str | int] | None = None,
    annotations: str | None = None,
) -> System:
    """A file, or a folder of files, of predictions by case id: JSON lines, CSV, Parquet, npz or COCO results; masks as PNG.

    `classes` says how many there are (or names them) where files hold bare labels; `annotations` is the COCO file whose
    image and category ids the COCO results use.
    """
    kind = task.output
    if kind is MASK:
        return single(_masks(base / Path(path).expanduser()), task.input, version=version)
    files = _files(path, base)
    if len(files) == 1 and kind in (CLASS_SCORES, VECTOR) and _has_truth(files[0]):
        return single(_answered(files[0], task), task.input, version=version)
    classes = len(classes) if isinstance(classes, list) else classes
    how = _reading(kind, classes, annotations, base)
    parts = [_read(file, how) for file in files]
    rows = [row for part in parts for row in part.rows]
    module = PredictionsModule(
        kind,
        Path(path).name,
        _index(rows),
        _dense(rows, how) if kind.dense else [row.item for row in rows],
        {row.case: row.error for row in rows if row.error},
        absent=Boxes.of([]) if any(part.absent_is_empty for part in parts) else None,
        mark=f"{classes} {annotations and existing_file(annotations, base, what='COCO file').read_text()}",
        files=files,
        classes=_classes(parts),
        places=[row.where for row in rows] if kind is BOXES else (),
    )
    return single(module, task.input, version=version)


def _has_truth(file: Path) -> bool:
    """Whether a file is a table of answers beside the truth, not of answers alone."""
    if file.suffix.lower() not in TABLES:
        return False
    try:
        return has_both(file) or bool(read_answers(file).ids)
    except DataError:
        return False


def _answered(file: Path, task: Task) -> PredictionsModule:
    """The answers of a table that has the truth beside them."""
    try:
        found = read_answers(file, task=task.name, drop_unlabelled=True)
    except DataError as error:
        raise SubjectError(str(error)) from error
    rows = found.answers[:, None].astype(np.float64)
    if found.classes:
        given = np.eye(len(found.classes))[np.maximum(found.answers, 0)]
        rows = given if found.scores is None else found.scores
    empty = found.answers < 0 if found.classes else np.zeros(len(rows), dtype=bool)
    return PredictionsModule(
        task.output,
        file.name,
        {case: at for at, case in enumerate(found.ids)},
        rows,
        {found.ids[i]: f"no prediction in {file.name}" for i in np.flatnonzero(empty).tolist()},
        files=(file,),
        classes=ClassNames(found.classes, f"the table {file.name}") if found.classes else None,
    )


def _masks(folder: Path) -> PredictionsModule:
    """A PNG a case, named after its id, with or without the ending in it: a~snow@2.png is of a.jpg~snow@2."""
    files = tuple(image_files(folder)) if folder.is_dir() else ()
    if not files:
        raise SubjectError(
            f"{folder} holds no masks; expected a folder with a PNG of class indices for each case id"
        )
    key = partial(ENDINGS.sub, "")
    names = [key(f.relative_to(folder).as_posix()) for f in files]
    index = {name: at for at, name in enumerate(names)}
    items: Any = Files(files, read_answer)
    return PredictionsModule(
        MASK, folder.name, index, items, {}, mark=" ".join(names), files=files, key=key
    )


def _classes(parts: Sequence[Part]) -> ClassNames | None:
    """The classes that the headers name; files that name others are refused."""
    named = list(dict.fromkeys(part.classes for part in parts if part.classes))
    if len(named) > 1:
        raise SubjectError(
            f"the files have the classes {', '.join(named[0])} and {', '.join(named[1])}; give all files one header"
        )
    return ClassNames(named[0], "the header of the predictions") if named else None


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
    classes: ClassNames | None = None
    key: Callable[[str], str] = str
    """Under which name `index` has a case."""
    places: Sequence[str] = ()
    """Where each of the items stands in the files, if they are boxes."""
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

    offers_query = no_query

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
            rows.append(self.index.get(self.key(case), -1))
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
        known = set(map(self.key, ids))
        return [case for case in self.index if case not in known]

    def label_beyond(self, classes: Sequence[str]) -> str:
        """Says which box first has a label that is none of the classes; empty if none has."""
        for where, boxes in zip(self.places, self.items, strict=False):
            labels = [] if boxes is None else boxes.labels.tolist()
            for label in (n for n in labels if not 0 <= n < len(classes)):
                known = f"the {len(classes)} classes are numbered 0 to {len(classes) - 1}"
                hint = "; name the COCO file of its category ids under annotations"
                # Only COCO results read without that file have an answer for images they do not list.
                return f"{where} has the label {label}; {known}{hint * (self.absent is not None)}"
        return ""


class Row(NamedTuple):
    """One prediction, and where it stands."""

    where: str
    case: str
    item: Any
    """None if there is no answer."""
    error: str = ""


class Part(NamedTuple):
    """The predictions of one file, in its order."""

    rows: list[Row]
    absent_is_empty: bool = False
    """Whether a case that is not listed has an empty answer, as in COCO results."""
    classes: tuple[str, ...] = ()
    """The classes that its columns of scores are named after, in their order."""


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


def _read(file: Path, how: ReadingOptions) -> Part:
    """The predictions in a file, by the ending of its name."""
    try:
        part = READERS[file.suffix.lower()](file, how)
    except DataError as error:
        raise SubjectError(str(error)) from error
    if not part.rows and not part.absent_is_empty:
        raise SubjectError(f"{file} holds no predictions; one row a case was expected")
    return part


def _index(rows: Sequence[Row]) -> dict[str, int]:
    """Which row a case has; it may have only one."""
    index: dict[str, int] = {}
    for at, row in enumerate(rows):
        if row.case in index:
            places = f"{rows[index[row.case]].where} and {row.where}"
            raise SubjectError(f"the case {row.case!r} has two predictions: {places}; keep one")
        index[row.case] = at
    return index


def _rows(file: Path, rows: Iterable[tuple[str, Any]], how: ReadingOptions) -> Part:
    """Rows of fields, each with its place in the file."""
    found = []
    for place, row in rows:
        where = f"{file.name}, {place}"
        if not isinstance(row, Mapping) or row.get("id") is None:
            raise SubjectError(f"{where} has no id; every row needs the id of its case")
        error = str(row.get(ERROR) or "")
        found.append(Row(where, str(row["id"]), None if error else _item(where, row, how), error))
    return Part(found)


def _numbered(columns: Mapping[str, Iterable[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a table."""
    for at, cells in enumerate(zip(*columns.values(), strict=True)):
        yield f"row {at}", dict(zip(columns, cells, strict=True))


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
        except (TypeError, ValueError) as error:
            raise SubjectError(f"{where} holds {key} that are not numbers ({error})") from None
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


def _dense(rows: Sequence[Row], how: ReadingOptions) -> np.ndarray:
    """Rows of one width, NaN where there is none; bare labels become one-hot."""
    known = [(at, row) for at, row in enumerate(rows) if row.item is not None]
    labels = [row.item for _, row in known if isinstance(row.item, int)]
    bare = bool(labels) and len(labels) == len(known)
    width = next((len(row.item) for _, row in known if not isinstance(row.item, int)), 1)
    width = (how.classes or max(labels) + 1) if bare else width
    values = np.full((len(rows), width), np.nan)
    for at, (where, _, item, _) in known:
        if bare and item >= width:
            raise SubjectError(
                f"{where} has the label {item}; with {width} classes it is below {width}"
            )
        if not bare and (isinstance(item, int) or len(item) != width):
            found = "a bare label" if isinstance(item, int) else f"{len(item)} numbers"
            raise SubjectError(f"{where} has {found}; the rows before it have {width} numbers")
        values[at] = np.arange(width) == item if bare else item
    # float32 where that loses nothing: text does not say which they were.
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    return small if np.array_equal(small, values, equal_nan=True) else values


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
    return _rows(file, ((f"row {at}", row) for at, row in enumerate(document)), how)


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
        problem = BOXES.problem(Boxes.of([corners], scores=[score]))
        if problem:
            raise SubjectError(f"{where} {problem}; it is of the image {image!r}, correct it there")
        found.setdefault(case, []).append((corners, _class_index(where, label), score))
    rows = [
        Row(
            f"{file.name}, image {case}",
            case,
            Boxes.of(*(zip(*boxes, strict=True) if boxes else [[]])),
        )
        for case, boxes in found.items()
    ]
    return Part(rows, absent_is_empty=how.images is None)


def _csv(file: Path, how: ReadingOptions) -> Part:
    if not how.kind.dense and how.kind is not TEXT:
        raise SubjectError(
            f"{file.name}: CSV holds class scores, vectors or text; write {how.kind.name} as JSON lines"
        )
    table = CsvTable.read(file)
    names = _in_order([n for n in table.columns if n not in ("id", ERROR)])
    if not names:
        raise SubjectError(
            f"{file.name} has no columns beside the id; one column a number was expected"
        )
    key = LABEL if names == [LABEL] and how.kind is CLASS_SCORES else how.keys[0]
    cells = zip(*(table[name] for name in names), strict=True)
    alone = how.kind is TEXT or key == LABEL
    columns = {"id": table["id"], key: table[key] if alone else cells}
    columns |= {ERROR: table[ERROR]} if ERROR in table else {}
    rows = zip(table.lines, (row for _, row in _numbered(columns)), strict=True)
    part = _rows(file, ((f"line {line}", row) for line, row in rows), how)
    if alone or how.kind is not CLASS_SCORES or all(map(LAST_NUMBER.search, names)):
        return part
    return part._replace(classes=tuple(BEFORE_CLASS.sub("", name) for name in names))


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
    # Lists of numbers become arrays; a list of lists stays as it is.
    columns = {name: table[name] for name in table.column_names}
    read = {k: c.to_numpy() if how.kind.dense else c.to_pylist() for k, c in columns.items()}
    return _rows(file, _numbered(read), how)


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
    arrays[how.keys[0]] = values
    read = {name: arrays[name] for name in ("id", how.keys[0], ERROR) if name in arrays}
    return _rows(file, _numbered(read), how)


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
