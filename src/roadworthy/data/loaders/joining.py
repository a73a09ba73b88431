"""What all loaders end with: labels become class indices, metadata and annotators' votes are joined by id, one column
becomes the group.

>>> label_indices(["cat", "dog", "cat"], ("cat", "dog"), where=lambda row: f"row {row}").tolist()
[0, 1, 0]
>>> label_indices(["cat", "dgo"], ("cat", "dog"), where=lambda row: f"row {row}")
Traceback (most recent call last):
roadworthy.data.samples.DataError: row 1: the label 'dgo' is none of the 2 classes (did you mean 'dog'?); correct the
label, or name it under classes
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.loaders.files import WHOLE, CsvTable, located, typed
from roadworthy.data.samples import UNLABELLED, DataError, Dataset, Inputs
from roadworthy.data.values import LABEL, Kind
from roadworthy.registry import did_you_mean

Columns = Mapping[str, "Sequence[Any] | np.ndarray"]


@dataclass(frozen=True)
class Samples:
    """What a loader has read, before metadata are joined and rows are counted off."""

    source: Path | str
    input_kind: Kind
    inputs: Inputs
    target_kind: Kind | None = None
    targets: Any = None
    ids: Sequence[str] | None = None
    columns: Columns = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    group: str | None = None
    name: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()
    probabilities: np.ndarray | None = None


def _common(
    *,
    base: Path = Path(),
    metadata: str | None = None,
    votes: str | None = None,
    group: str | None = None,
    classes: list[str | int] | None = None,
    limit: int | None = None,
    unlabelled: bool = False,
    name: str = "",
) -> None:
    """What every loader takes besides its own parameters."""


def reads(read: Callable[..., Samples]) -> Callable[..., Dataset]:
    """A loader from a function that reads samples: it also takes what `_common` does.

    The metadata file and the votes are joined, the group column becomes the group, and `limit` rows are kept. The
    function gets `base`, and `classes` as checked names and `group` if it asks for them.
    """
    own, shared = inspect.signature(read), inspect.signature(_common).parameters

    def load(**given: Any) -> Dataset:
        common = {name: given.pop(name, p.default) for name, p in shared.items()}
        base, limit, names = common["base"], common["limit"], class_names(common["classes"])
        if "classes" in own.parameters:
            given["classes"] = names
        if "group" in own.parameters:
            given["group"] = common["group"]
        found = read(base=base, **given)
        if found.classes is None and names and found.target_kind is LABEL and _whole(names):
            # Classes that are numbers name the labels; otherwise whole numbers are positions.
            words = ["" if label == UNLABELLED else str(label) for label in found.targets]
            where = lambda row: f"{found.source}, row {row}"  # noqa: E731
            found = replace(found, targets=label_indices(words, names, where=where))
        found = replace(found, name=common["name"] or found.name, classes=found.classes or names)
        if not common["unlabelled"]:
            _refuse_unlabelled(found)
        ids = [str(i) for i in (range(len(found.inputs)) if found.ids is None else found.ids)]
        if common["votes"] is not None:
            table = CsvTable.read(located(common["votes"], base=base, what="votes"))
            found = _voted(found, ids, table)
        data = _assembled(found, ids, base, common["metadata"], common["group"])
        if limit is not None and limit < 1:
            raise DataError(f"{found.source}: limit is {limit}; a positive number was expected")
        return data if limit is None or limit >= len(data) else data.take(range(limit))

    functools.update_wrapper(load, read)
    kept = [p for n, p in own.parameters.items() if n not in shared]
    load.__signature__ = own.replace(parameters=[*kept, *shared.values()])  # type: ignore[attr-defined]
    load.__annotations__ = {p.name: p.annotation for p in [*kept, *shared.values()]}
    return load


def _assembled(
    found: Samples, ids: Sequence[str], base: Path, metadata: str | None, group: str | None
) -> Dataset:
    source, targets = found.source, found.targets
    if len(found.inputs) == 0:
        raise DataError(f"{source}: holds no samples; at least one is needed")
    columns = dict(found.columns)
    if metadata is not None:
        columns = _joined(
            columns, ids, CsvTable.read(located(metadata, base=base, what="metadata"))
        )
    group = group or found.group
    return Dataset(
        found.name or str(source),
        found.input_kind,
        found.inputs,
        found.target_kind,
        targets,
        ids=np.array(ids, dtype=object),
        metadata={k: v if isinstance(v, np.ndarray) else typed(v) for k, v in columns.items()},
        groups=None if group is None else _groups(columns, group, ids, source),
        classes=found.classes,
        source=str(source),
        licence=found.licence,
        notes=found.notes,
        probabilities=found.probabilities,
    )


def _voted(found: Samples, ids: Sequence[str], table: CsvTable) -> Samples:
    """With the shares of annotators' votes as label probabilities; votes on samples of other data are
    passed over."""
    if found.target_kind not in (LABEL, None) or found.probabilities is not None:
        raise DataError(f"{table.file}: votes go with class labels that have no probabilities")
    of, place_of = table["id"], {i: at for at, i in enumerate(ids)}
    labels = 0 if found.targets is None else int(np.max(found.targets)) + 1
    votes, known = _votes(table, found.classes, labels)
    if found.classes is None and known and found.targets is not None:
        raise DataError(
            f"{table.file}: votes have names and labels numbers; name the classes under classes"
        )
    counts = np.zeros((len(ids), votes.shape[1]))
    for row, i in enumerate(of):
        if i in place_of:
            counts[place_of[i]] += votes[row]
    total = counts.sum(axis=1)
    for none in (ids[at] for at in np.flatnonzero(total == 0).tolist()):
        if none in of:
            raise DataError(f"{_line(table, of.index(none))}: the votes for {none!r} sum to 0")
        raise DataError(
            f"{table.file}: no row has votes for sample {none!r}; every sample needs one"
        )
    said = f"Label probabilities are shares of {total.min():g} to {total.max():g} votes a sample"
    return replace(
        found,
        probabilities=counts / total[:, None],
        classes=found.classes or known,
        notes=(*found.notes, f"{said} ({table.file.name})"),
    )


def _votes(
    table: CsvTable, classes: tuple[str, ...] | None, labels: int
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The votes by row and class, and the classes: of a table with a row a vote (id, annotator,
    label), or with a column a class that counts them. There are at least `labels` classes."""
    single = {"annotator", "label"} <= set(table.columns)
    first: dict[tuple[str, ...], int] = {}
    who = [table["id"], table["annotator"], table["label"]] if single else [table["id"]]
    for row, vote in enumerate(zip(*who, strict=True)):
        if vote in first:
            before, by = table.lines[first[vote]], f" by {vote[1]!r}" if single else ""
            raise DataError(
                f"{_line(table, row)}: votes on {vote[0]!r}{by} stand in line {before} already"
            )
        first[vote] = row
    words = table["label"] if single else list(table.without(["id"]))
    if single and "" in words:
        raise DataError(f"{_line(table, words.index(''))}: the label is empty; leave the row out")
    places, known = labelled(
        words,
        classes,
        where=lambda at: _line(table, at) if single else f"{table.file}, column {at + 2}",
    )
    votes = np.zeros((len(table), len(known) if known else max(int(places.max()) + 1, labels)))
    missing = [] if single else sorted(set(range(votes.shape[1])) - set(places.tolist()))
    if missing:
        name = known[missing[0]] if known else missing[0]
        raise DataError(f"{table.file}: no column counts the votes for class {name}; add it")
    if single:
        votes[np.arange(len(table)), places] = 1
    else:
        counted = [[_count(table, row, word) for word in words] for row in range(len(table))]
        votes[:, places] = counted
    return votes, known


def _line(table: CsvTable, row: int) -> str:
    return f"{table.file}, line {table.lines[row]}"


def _count(table: CsvTable, row: int, word: str) -> int:
    """The votes for a class in a cell; pandas writes 3 as 3.0 in a column that had empty cells."""
    cell = table[word][row]
    if not re.fullmatch(r"\d+(\.0*)?", cell):
        raise DataError(
            f"{_line(table, row)}: {cell!r} votes for {word!r}; a whole number, 0 or more, was expected"
        )
    return int(float(cell))


def _refuse_unlabelled(found: Samples) -> None:
    """Rows without a label belong to the role `operational` alone."""
    if found.target_kind is not LABEL or found.targets is None:
        return
    bad = np.flatnonzero(np.asarray(found.targets) < 0)
    if bad.size:
        named = bad[0] if found.ids is None else repr(str(found.ids[bad[0]]))
        raise DataError(
            f"{found.source}: sample {named} has no label ({bad.size} such row(s)); leave them out: "
            "only data.operational may have rows without a label"
        )


def class_names(classes: Sequence[str | int] | None) -> tuple[str, ...] | None:
    """The classes as text; a name given twice is refused."""
    if classes is None:
        return None
    names = tuple(str(c) for c in classes)
    twice = sorted({c for c in names if names.count(c) > 1})
    if twice or not names:
        raise DataError(
            f"classes: {f'{twice[0]!r} stands twice' if twice else 'is empty'}; name every class once"
        )
    return names


def labelled(
    words: Sequence[str], classes: tuple[str, ...] | None, *, where: Callable[[int], str]
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Class indices of label words, and the classes: those given, else the numbers as they are, else the words in order.

    >>> labelled(["b", "a"], None, where=str)
    (array([1, 0]), ('a', 'b'))
    >>> labelled(["10", "9"], None, where=str)
    (array([10,  9]), None)
    """
    whole = all(not w or (WHOLE.fullmatch(w) and int(w) >= 0) for w in words)
    if classes is None and whole and any(words):
        return np.array([int(w) if w else UNLABELLED for w in words], dtype=np.int64), None
    known = in_order({w for w in words if w}) if classes is None else classes
    return label_indices(words, known, where=where), known


def _whole(names: Iterable[str]) -> bool:
    return all(name.lstrip("-").isdecimal() for name in names)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Class names in their order: whole numbers by value, others as text.

    >>> in_order({"10", "9", "2"}), in_order({"10", "9", "other"})
    (('2', '9', '10'), ('10', '9', 'other'))
    """
    found = set(names)
    if not _whole(found):
        return tuple(sorted(found))
    ordered = tuple(sorted(found, key=lambda name: (int(name), name)))
    for one, other in pairwise(ordered):
        if int(one) == int(other):
            raise DataError(
                f"the labels {one!r} and {other!r} are one number; write it in one way, or name the classes under classes"
            )
    return ordered


def label_indices(
    words: Sequence[str], classes: Sequence[str], *, where: Callable[[int], str]
) -> np.ndarray:
    """The class index of each word, and -1 for none; a word that is no class is read as an index if it is one."""
    index = {c: i for i, c in enumerate(classes)}
    indices = np.empty(len(words), dtype=np.int64)
    for row, word in enumerate(words):
        if word in index:
            indices[row] = index[word]
        elif WHOLE.fullmatch(word) and 0 <= int(word) < len(classes):
            indices[row] = int(word)
        elif not word:
            indices[row] = UNLABELLED
        else:
            raise DataError(
                f"{where(row)}: the label {word!r} is none of the {len(classes)} classes{did_you_mean(word, classes)}; "
                "correct the label, or name it under classes"
            )
    return indices


def _joined(columns: dict[str, Any], ids: Sequence[str], table: CsvTable) -> dict[str, Any]:
    """The table's columns in the order of the ids; both must name the same samples."""
    row_of: dict[str, int] = {}
    for row, i in enumerate(table["id"]):
        if i in row_of:
            raise DataError(
                f"{table.file}, line {table.lines[row]}: the id {i!r} occurs twice; one row a sample is expected"
            )
        row_of[i] = row
    missing = [i for i in ids if i not in row_of]
    extra = sorted(set(row_of) - set(ids))
    if missing or extra:
        raise DataError(
            f"{table.file}: "
            + "; ".join(
                f"{len(rows)} {what}: {', '.join(map(repr, rows[:3]))}{', …' * (len(rows) > 3)}"
                for what, rows in (
                    ("sample(s) have no row", missing),
                    ("row(s) belong to no sample", extra),
                )
                if rows
            )
            + ". The column 'id' must name every sample once, and no other"
        )
    both = sorted(set(columns) & set(table.columns) - {"id"})
    if both:
        raise DataError(
            f"{table.file}: the column {both[0]!r} is in the data already; leave it out of one of the two"
        )
    order = [row_of[i] for i in ids]
    return columns | {k: [cells[r] for r in order] for k, cells in table.without(["id"]).items()}


def _groups(columns: Columns, group: str, ids: Sequence[str], source: Path | str) -> np.ndarray:
    if group not in columns:
        raise DataError(
            f"{source}: no metadata column {group!r} to group by{did_you_mean(group, columns)}; "
            f"there is: {', '.join(columns) or 'none'}"
        )
    groups = np.array([str(g) for g in columns[group]], dtype=object)
    empty = np.flatnonzero(groups == "")
    if empty.size:
        raise DataError(
            f"{source}: sample {ids[empty[0]]!r} has no {group!r} ({empty.size} such row(s)); every sample belongs to a "
            "group: fill the cell"
        )
    return groups
