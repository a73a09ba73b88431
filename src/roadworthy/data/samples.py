"""Samples, data sets, and the roles that rows play.

A `Dataset` is a table of samples: ids, inputs (an array, or anything that reads lazily by slice),
targets, metadata columns and groups. A group is what is independent of what (a patient, a drive, a
speaker); it never spans two roles.

>>> import numpy as np
>>> from roadworthy.data import values
>>> data = Dataset("toy", values.IMAGE, np.zeros((3, 8, 8), np.uint8), values.LABEL, np.array([0, 1, 1]), classes=("a", "b"))
>>> data.take([2]).ids.tolist()
['2']
>>> data.where({"label": "b"}).tolist()
[False, True, True]
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from roadworthy import registry
from roadworthy.data.seeds import generator
from roadworthy.data.values import DISTRIBUTION, LABEL, SUM_SLACK, Kind, Unreadable
from roadworthy.registry import did_you_mean

UNLABELLED = -1
"""The label of a row that has none; operational data may have such rows."""
DRAWN = "Labels are drawn from the samples' label probabilities, one draw a sample"


class DataError(ValueError):
    """Data that cannot be used as it is; the message says which file or row, and what to do."""


class Inputs(Protocol):
    """Inputs by slice: an array, a list, or a reader that opens files when asked; its `pick(rows)`
    leaves them unread. A broken one is an `Unreadable`."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Any: ...


class Sample(NamedTuple):
    """One input with its target, metadata and group."""

    id: str
    input: Any
    target: Any
    metadata: Mapping[str, Any]
    group: str


@dataclass(frozen=True)
class Dataset:
    """A table of samples of one kind."""

    name: str
    input_kind: Kind
    inputs: Inputs
    target_kind: Kind | None = None
    targets: Sequence[Any] | np.ndarray | None = None
    ids: np.ndarray = None  # type: ignore[assignment]
    metadata: Mapping[str, np.ndarray] = field(default_factory=dict)
    groups: np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    source: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()
    """How it was read, where that was a choice."""
    probabilities: np.ndarray | None = None
    """The truth as a distribution over classes (rows, classes). `targets` stay hard labels; without
    any, each is drawn from its row."""

    def __post_init__(self) -> None:
        n = len(self.inputs)
        if self.ids is None:
            object.__setattr__(self, "ids", np.array([str(i) for i in range(n)], dtype=object))
        lengths = {"ids": len(self.ids)}
        if self.targets is not None:
            lengths["targets"] = len(self.targets)
        if self.groups is not None:
            lengths["groups"] = len(self.groups)
        if self.probabilities is not None:
            lengths["probabilities"] = len(self.probabilities)
        lengths.update({f"metadata {k!r}": len(v) for k, v in self.metadata.items()})
        for what, length in lengths.items():
            if length != n:
                raise DataError(
                    f"data set {self.name!r}: {n} inputs but {length} {what}; there must be one each"
                )
        _refuse_repeated_ids(self.name, self.ids)
        if self.probabilities is not None:
            self._take_probabilities(np.asarray(self.probabilities, dtype=np.float64))
        self._check_labels()

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[Sample]:
        return (self.sample(row) for row in range(len(self)))

    def sample(self, row: int) -> Sample:
        """One sample, read now."""
        return Sample(
            str(self.ids[row]),
            self.inputs[row : row + 1][0],
            None if self.targets is None else self.targets[row],
            {k: v[row] for k, v in self.metadata.items()},
            str(self.ids[row] if self.groups is None else self.groups[row]),
        )

    def take(self, rows: Sequence[int] | np.ndarray) -> Dataset:
        """Some of the rows, in the order given."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return replace(
            self,
            inputs=_picked(self.inputs, rows),
            targets=None if self.targets is None else _picked(self.targets, rows),
            ids=self.ids[rows],
            metadata={k: np.asarray(v)[rows] for k, v in self.metadata.items()},
            groups=None if self.groups is None else self.groups[rows],
            probabilities=None if self.probabilities is None else self.probabilities[rows],
        )

    def column(self, name: str) -> np.ndarray:
        """A metadata column; ``label`` (and ``class``) stand for the target's class name."""
        if name in self.metadata:
            return np.asarray(self.metadata[name])
        if name in ("label", "class") and self.target_kind is LABEL and self.targets is not None:
            labels = np.asarray(self.targets)
            return (
                np.asarray(self.classes, dtype=object)[labels]
                if self.classes
                else labels.astype(str)
            )
        known = [*self.metadata, *(["label"] if self.target_kind is LABEL else [])]
        raise DataError(
            f"data set {self.name!r} has no metadata {name!r}{did_you_mean(name, known)}; "
            f"it has: {', '.join(known) or 'none'}"
        )

    def has_column(self, name: str) -> bool:
        """Whether `column` would find it."""
        return name in self.metadata or (name in ("label", "class") and self.target_kind is LABEL)

    def where(self, conditions: Mapping[str, Any]) -> np.ndarray:
        """Which rows meet all conditions: a value, a list of values, or ``{min: , max: }``."""
        keep = np.ones(len(self), dtype=bool)
        for name, wanted in conditions.items():
            keep &= _meets(self.column(name), wanted, name)
        return keep

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the content: inputs, targets, ids, groups and metadata."""
        return _digest([self.input_fingerprint.encode(), *self._judged()])

    @functools.cached_property
    def input_fingerprint(self) -> str:
        """A hash of what a subject is asked: ids and inputs."""
        return _digest(self._asked())

    @functools.cached_property
    def contents(self) -> list[bytes | None] | None:
        """A hash of each input, None for one that cannot be read; None where a reader does not say
        them row by row."""
        return _contents(self.inputs)

    def _asked(self) -> Iterator[bytes]:
        yield _item_bytes([self.input_kind.name, len(self)])
        yield _item_bytes(list(self.ids))
        yield from _bytes_of(self.inputs)

    def _judged(self) -> Iterator[bytes]:
        yield _item_bytes([self.classes])
        if self.targets is not None:
            yield from _bytes_of(self.targets)
        for name in sorted(self.metadata):
            yield _item_bytes(["metadata", name, *self.metadata[name]])
        if self.groups is not None:
            yield _item_bytes(["groups", *self.groups])
        if self.probabilities is not None:
            yield _item_bytes("probabilities")
            yield from _bytes_of(self.probabilities)

    def _take_probabilities(self, table: np.ndarray) -> None:
        """Check the label probabilities, and draw labels if there are none."""
        wrong = table.ndim != 2 or (
            self.classes is not None and table.shape[1] != len(self.classes)
        )
        if wrong or self.target_kind not in (LABEL, None):
            known = "" if self.classes is None else f" ({len(self.classes)} classes)"
            raise DataError(
                f"data set {self.name!r}: label probabilities have the shape {table.shape}; one column "
                f"a class was expected{known}, beside class labels or none"
            )
        off = ~(np.abs(table.sum(axis=1) - 1) <= SUM_SLACK)  # NaN is off as well
        for row in np.flatnonzero((table < 0).any(axis=1) | off)[:1]:
            raise DataError(
                f"data set {self.name!r}: the label probability of sample {self.ids[row]!r} "
                f"{DISTRIBUTION.problem(table[row])}"
            )
        object.__setattr__(self, "probabilities", table)
        if self.targets is None:
            chances = np.array([generator(0, str(i), "label").random() for i in self.ids])
            object.__setattr__(self, "targets", drawn_labels(table, chances))
            object.__setattr__(self, "target_kind", LABEL)
            object.__setattr__(self, "notes", (*self.notes, DRAWN))

    def _check_labels(self) -> None:
        if (
            self.target_kind is not LABEL
            or self.targets is None
            or self.classes is None
            or len(self) == 0
        ):
            return
        labels = np.asarray(self.targets)
        bad = np.flatnonzero((labels < UNLABELLED) | (labels >= len(self.classes)))
        if bad.size:
            row = int(bad[0])
            raise DataError(
                f"data set {self.name!r}: sample {self.ids[row]!r} has the label {labels[row]}, outside the "
                f"{len(self.classes)} classes (0 to {len(self.classes) - 1}); {bad.size} such row(s). "
                "Correct the label file, or name all classes under data: classes"
            )


def drawn_labels(probabilities: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """A class for each row of a distribution, from a number between 0 and 1 for each.

    >>> drawn_labels(np.array([[0.3, 0.7], [0.3, 0.7]]), np.array([0.2, 0.4])).tolist()
    [0, 1]
    """
    below: np.ndarray = (chances[:, None] >= probabilities.cumsum(axis=1)).sum(axis=1)
    # A sum that rounding leaves below 1 must not lead beyond the last class that is possible.
    last = probabilities.shape[1] - 1 - (probabilities[:, ::-1] > 0).argmax(axis=1)
    return np.minimum(below, last)


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # the length first, so that no two contents run together into the same bytes
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _contents(inputs: Inputs) -> list[bytes | None] | None:
    own = getattr(inputs, "contents", None)
    if own is not None:
        return list(own())
    if hasattr(inputs, "fingerprint"):
        return None  # it would have to read everything a second time
    if isinstance(inputs, np.ndarray) and inputs.dtype != object:
        rows = np.ascontiguousarray(inputs).reshape(len(inputs), -1)
        kind = rows.dtype.str.encode()
        return [hashlib.blake2b(row.data, digest_size=16, key=kind).digest() for row in rows]
    items = (item for start in range(0, len(inputs), 64) for item in inputs[start : start + 64])
    return [
        None
        if isinstance(i, Unreadable)
        else hashlib.blake2b(_item_bytes(i), digest_size=16).digest()
        for i in items
    ]


def _picked(inputs: Any, rows: np.ndarray) -> Any:
    """Some of the inputs or targets, unread where the reader has a `pick`."""
    if isinstance(inputs, np.ndarray):
        return inputs[rows]
    if hasattr(inputs, "pick"):
        return inputs.pick(rows)
    return [inputs[int(i)] for i in rows]


def _refuse_repeated_ids(name: str, ids: np.ndarray) -> None:
    seen: set[str] = set()
    for i in ids:
        if i in seen:
            raise DataError(f"data set {name!r}: the id {i!r} occurs twice; ids must be unique")
        seen.add(i)


def _meets(column: np.ndarray, wanted: Any, name: str) -> np.ndarray:
    if isinstance(wanted, Mapping):
        unknown = set(wanted) - {"min", "max"}
        if unknown:
            raise DataError(
                f"condition on {name!r}: {sorted(unknown)} is not known; a range takes min and max"
            )
        try:
            numbers = column.astype(float)
        except ValueError as error:
            raise DataError(
                f"condition on {name!r}: min and max need numbers, but {error}"
            ) from error
        return (numbers >= wanted.get("min", -np.inf)) & (numbers <= wanted.get("max", np.inf))
    options = wanted if isinstance(wanted, list | tuple) else [wanted]
    if column.dtype.kind in "iuf":
        # 61 and 61.0 are one value: a column of whole numbers with an empty cell is read as real numbers
        numbers_wanted = [float(o) for o in options if _is_number(o)]
        return np.isin(column.astype(float), numbers_wanted)
    # a file says true where YAML reads a boolean, which prints as True
    words = [str(o).lower() if isinstance(o, bool) else str(o) for o in options]
    truths = any(isinstance(o, bool) for o in options)
    return np.isin(np.char.lower(column.astype(str)) if truths else column.astype(str), words)


def _is_number(option: Any) -> bool:
    try:
        float(option)
    except (TypeError, ValueError):
        return False
    return True


def _bytes_of(items: Any) -> Iterator[bytes]:
    own = getattr(items, "fingerprint", None)
    if own is not None:
        yield str(own() if callable(own) else own).encode()
        return
    if isinstance(items, np.ndarray) and items.dtype != object:
        yield f"{items.dtype}{items.shape}".encode()
        yield np.ascontiguousarray(items).tobytes()
        return
    for start in range(0, len(items), 64):
        for item in items[start : start + 64]:
            yield _item_bytes(item)


def _item_bytes(item: Any) -> bytes:
    """An item as bytes: no two items that differ, in type or in content, have the same."""
    if isinstance(item, np.ndarray) and item.dtype != object:
        return f"{item.dtype}{item.shape}".encode() + np.ascontiguousarray(item).tobytes()
    if hasattr(item, "__dataclass_fields__"):
        parts = [_item_bytes(getattr(item, f)) for f in item.__dataclass_fields__]
        return type(item).__name__.encode() + b"".join(map(_sized, parts))
    if isinstance(item, list | tuple | np.ndarray):
        return b"list" + b"".join(_sized(_item_bytes(i)) for i in item)
    if isinstance(item, Mapping):
        pairs = sorted((_item_bytes(k), _item_bytes(v)) for k, v in item.items())
        return b"mapping" + b"".join(_sized(k) + _sized(v) for k, v in pairs)
    return _word(item).encode(errors="surrogatepass")


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + content


def _word(value: Any) -> str:
    """4 and "4" are not one word; 4 of numpy and 4 of Python are."""
    if isinstance(value, str):
        return f"text {value}"
    if isinstance(value, bool | np.bool_):
        return f"truth {value}"
    if isinstance(value, int | float | np.number):
        return f"number {value}"
    return f"{type(value).__name__} {value!r}"


def load(spec: Mapping[str, Any], *, base: Path, name: str) -> Dataset:
    """The data set that `spec` describes, as in ``{idx: images.gz, labels: labels.gz}``; paths are
    relative to `base`.

    The one key that names a loader carries its main path, the others are the loader's parameters.

    >>> load({"bundled": "fashion-mnist", "split": "calibration", "n": 5}, base=Path(), name="calibration").name
    'calibration'
    >>> load({"cocoo": "a.json"}, base=Path(), name="test")
    Traceback (most recent call last):
    roadworthy.data.samples.DataError: data 'test': no key names a loader, found: cocoo (did you mean 'coco'?); one of audio,
    bundled, coco, csv, dialogue, frames, idx, image_folder, npz, predictions, voc, yolo is
    needed
    """
    loaders = registry.components("loaders")
    named = [key for key in spec if key in loaders]
    if len(named) != 1:
        raise DataError(f"data {name!r}: {_which(spec, named, list(loaders))}")
    component = loaders[named[0]]
    given = {key: value for key, value in spec.items() if key != named[0]}
    reserved = [key for key in ("path", "base") if key in given]
    if reserved:
        raise DataError(
            f"data {name!r}: write the path as {named[0]}: PATH; the key {reserved[0]!r} is not known here"
        )
    try:
        parameters = component.check({"path": spec[named[0]], "name": name, **given, "base": base})
    except ValueError as error:
        raise DataError(f"data {name!r}: {_reason(error)}") from error
    try:
        data: Dataset = component.build(**parameters)
    except DataError as error:
        raise DataError(f"data {name!r}: {error}") from error
    except OSError as error:
        raise DataError(
            f"data {name!r}: {error.filename or spec[named[0]]} cannot be read ({error.strerror})"
        ) from error
    return data


def _which(spec: Mapping[str, Any], named: list[str], loaders: list[str]) -> str:
    if named:
        return f"the keys {' and '.join(named)} both name a loader; one data set is read by one of them"
    found = ", ".join(f"{key}{registry.did_you_mean(key, loaders)}" for key in spec) or "nothing"
    return f"no key names a loader, found: {found}; one of {', '.join(loaders)} is needed"


def _reason(error: ValueError) -> str:
    """What pydantic found, in one line."""
    details = getattr(error, "errors", None)
    if details is None:
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, e['loc']))}: {e['msg']} (found {e['input']!r})" for e in details()
    )
