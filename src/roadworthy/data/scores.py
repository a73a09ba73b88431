"""Tables of scores: one row per event, with the scores of supervisors and, if known, the kind of
shift and the outcome.

Columns are found by name (`NAMES`, in any case): `kind`, `correct`, `group`, `time`, `id`. Every
other numeric column is a score, except labels, losses and ids (`NO_SCORES`, `ID_WORDS`). An option
of the command, or a keyword here, points at a column of another name. A file is read whole
(`read_scores`) or piece by piece (`open_scores`), so that a stream of any length fits into memory.
An empty cell is a missing score.

Columns of a CSV file (also .gz) are separated by commas, those of a TSV file by tabs; decimals have
a point. What cannot be read is refused with the row, the column and what was expected.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text("kind,correct,energy,knn\\nind,1,0.5,2\\nind,yes,,3\\nfog,0,0.9,7\\n")
>>> table = read_scores(file)
>>> table.kind.tolist(), table.correct.tolist(), table.columns["energy"].tolist()
(['clean', 'clean', 'fog'], [True, True, False], [0.5, nan, 0.9])
>>> read_scores(file, kind="fo")
Traceback (most recent call last):
roadworthy.data.scores.ColumnError: a.csv has no column 'fo'; columns: kind, correct, energy, knn (choose with --kind COLUMN)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

CLEAN = "clean"
"""The kind of rows without shift."""
NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("kind", "role", "shift", "fold", "condition"),
    "correct": ("correct", "is_correct"),
    "group": ("group", "patient", "patient_id", "session", "session_id"),
    "time": ("time", "timestamp"),
    "id": ("id", "event_id", "sample_id"),
}
"""What is in a column -> the names under which it is found; the first that is there is taken."""
MEANING = {
    "kind": f"the kind of shift ({CLEAN!r} if there is none)",
    "correct": "whether the answer was right",
    "group": "which rows belong together",
    "time": "when it happened",
    "id": "the name of the event",
}
CLEAN_NAMES = frozenset({CLEAN, "ind", "ind_val", "ind_test", "in_distribution", "nominal", "none"})
"""What tables call rows without shift, in small letters."""
TRAINING_NAMES = frozenset({"train", "training"})
"""Rows that the model was trained on: they are neither clean nor shifted, but too good to be true.
"""
NO_SCORES = frozenset(
    {"label", "target", "y_true", "y_pred", "prediction", "predicted", "predicted_class", "class"}
    | {"loss", "index", "row"}
)
"""Numeric columns that are scores only if they are named: a label or a loss is not known in use."""
ID_WORDS = frozenset({"id", "uuid", "key", "idx", "index", "no", "number"})
"""The last word of a column's name by which it is an id."""
NO_GROUPS = "none"
"""Given in place of a column of groups if rows are independent; a column of that name is one all
the same."""
ENOUGH = 20
"""Rows of each kind from which on a pattern is not chance."""
ROWS = 65_536
"""Of one piece."""


class ColumnError(DataError):
    """A refusal that an option of the command would lift."""

    def __init__(self, what: str, option: str) -> None:
        super().__init__(f"{what} ({option})")


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Rows of a table by what they mean; what the table does not have is None."""

    columns: dict[str, np.ndarray]
    """Scores by name, float64; NaN where one is missing."""
    kind: np.ndarray | None
    correct: np.ndarray | None
    group: np.ndarray | None
    time: np.ndarray | None
    """Seconds, since 1970 if the table has dates."""
    id: np.ndarray | None
    source: str
    n: int
    notes: tuple[str, ...] = ()
    labelled: np.ndarray | None = None
    """Which rows have an outcome, if not all of them do."""

    def take(self, rows: np.ndarray) -> ScoreTable:
        """Some of the rows, by mask or index."""
        parts: dict[str, Any] = {
            k: None if (v := getattr(self, k)) is None else v[rows] for k in (*NAMES, "labelled")
        }
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, columns=columns, n=len(np.arange(self.n)[rows]), **parts)


@dataclass(frozen=True)
class ScoreFile:
    """A table that is open: what its columns are, before any row is used."""

    path: Path
    found: Mapping[str, str]
    """What is in a column -> the column."""
    scores: Mapping[str, str]
    """Name of a score -> the column."""
    notes: tuple[str, ...]
    opened: Opened = field(repr=False)
    clean: tuple[str, ...] = ()

    def pieces(self, *, rows: int = ROWS) -> Iterator[ScoreTable]:
        """The rows in the order of the file, so many at a time."""
        start, scores = 0, set(self.scores.values())
        for piece in self.opened.pieces([*self.found.values(), *scores], scores, rows):
            if len(piece):
                yield self._table(piece, start)
                start += len(piece)

    def whole(self) -> ScoreTable:
        """All rows at once."""
        parts = list(self.pieces())
        columns = {name: np.concatenate([p.columns[name] for p in parts]) for name in self.scores}
        more = {k: np.concatenate([getattr(p, k) for p in parts]) for k in self.found}
        known = [np.ones(p.n, dtype=bool) if p.labelled is None else p.labelled for p in parts]
        labelled = np.concatenate(known)
        gone = [(name, int(np.isnan(column).sum())) for name, column in columns.items()]
        n = sum(p.n for p in parts)
        notes = [f"score {name} is missing in {k:,} of {n:,} rows" for name, k in gone if k]
        return ScoreTable(
            columns,
            **{**dict.fromkeys(NAMES), **more},
            source=self.path.name,
            n=n,
            notes=(*self.notes, *notes),
            labelled=None if labelled.all() else labelled,
        )

    def _table(self, piece: pa.Table, start: int) -> ScoreTable:
        place = RowPlace(self.path.name, start)
        columns = {name: score_values(piece[c], c, place) for name, c in self.scores.items()}
        given: dict[str, Any] = dict.fromkeys(NAMES)
        labelled = None
        for role, column in self.found.items():
            cells = piece[column]
            if role == "correct":
                given[role], known = outcomes(cells, column, place)
                labelled = None if known.all() else known
            elif role == "time":
                given[role] = times(cells, column, place)
            elif role == "id":
                given[role] = ids(cells)
            elif role == "kind":
                given[role] = _kinds(texts(cells), column, self.clean, place)
            else:
                given[role] = texts(cells)
        return ScoreTable(columns, **given, source=self.path.name, n=len(piece), labelled=labelled)


class ColumnNames(TypedDict, total=False):
    """Columns of a table that have other names than those in `NAMES`."""

    kind: str | None
    correct: str | None
    group: str | None
    """"none" stands for no groups, unless a column is called so."""
    time: str | None
    id: str | None


def open_scores(
    path: Path | str,
    *,
    clean: str | Sequence[str] | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    skips: Sequence[str] = (),
    **names: Unpack[ColumnNames],
) -> ScoreFile:
    """Open a table and find its columns; what it `needs` must be there, what it `skips` is not
    read.

    `clean` names the kinds without shift. `columns` names the scores to read; a mapping says under
    which column each is found, and an empty list means none.
    """
    opened = open_table(Path(path))
    if names.get("group") == NO_GROUPS and NO_GROUPS not in opened.header:
        names["group"], skips = None, (*skips, "group")
    found, notes = _found(opened, {role: names.get(role) for role in NAMES}, needs, skips)  # type: ignore[misc]
    scores, more = _scores_of(opened, columns, found)
    cleans = () if clean is None else (clean,) if isinstance(clean, str) else tuple(clean)
    return ScoreFile(opened.path, found, scores, (*notes, *more), opened, cleans)


def read_scores(
    path: Path | str,
    *,
    clean: str | Sequence[str] | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    skips: Sequence[str] = (),
    **names: Unpack[ColumnNames],
) -> ScoreTable:
    """A whole table; see `open_scores`. Rows of training data, and those without a needed outcome,
    are left out and noted."""
    file = open_scores(path, clean=clean, columns=columns, needs=needs, skips=skips, **names)
    table = _without_constants(file.whole(), named=columns is not None)
    if "correct" in needs and table.labelled is not None:
        gone = int((~table.labelled).sum())
        if gone == table.n:
            raise ColumnError(
                f"{table.source}: {file.found['correct']} is empty in all {gone:,} rows; expected 1 or 0",
                "choose another column with --correct COLUMN",
            )
        notes = (*table.notes, f"{gone:,} of {table.n:,} rows have no outcome and are left out")
        table = replace(table.take(table.labelled), labelled=None, notes=notes)
    if table.kind is not None:
        table = checked_kinds(table, clean)
    if "kind" in needs and table.group is not None:
        _refuse_one_group(table, file.found["group"])
    return table


def checked_kinds(table: ScoreTable, clean: str | Sequence[str] | None = None) -> ScoreTable:
    """Without rows of training data; a table without clean rows is refused."""
    assert table.kind is not None
    kinds, counts = np.unique(table.kind, return_counts=True)
    training = [k for k in kinds.tolist() if k.lower() in TRAINING_NAMES]
    rest = [k for k in kinds.tolist() if k not in training]
    if CLEAN not in rest:
        names = [] if clean is None else [clean] if isinstance(clean, str) else list(clean)
        asked = f" ({' or '.join(map(repr, names))})" if names else ""
        raise ColumnError(
            f"{table.source} has no clean rows{asked}; its kinds are: {', '.join(map(repr, rest))}",
            "name the kind without shift with --clean NAME",
        )
    if not training:
        return table
    notes = [
        f"{n:,} rows of kind {k!r} are left out: the model was trained on them"
        for k, n in zip(kinds.tolist(), counts.tolist(), strict=True)
        if k in training
    ]
    kept = table.take(~np.isin(table.kind, training))
    return replace(kept, notes=(*table.notes, *notes))


def is_id(column: str) -> bool:
    """Whether a column is an id by its name: such numbers tell rows apart, and mean nothing in use.

    >>> [is_id(c) for c in ("TransactionID", "txnId", "order-no", "Unnamed: 0", "centroid", "energy")]
    [True, True, True, True, False, False]
    """
    if not column.strip() or column.startswith("Unnamed:"):
        return True  # the row numbers that pandas writes beside a table
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", column)
    return bool(parts) and parts[-1].lower() in ID_WORDS


def _named(header: Sequence[str], role: str) -> str | None:
    lower = {h.lower(): h for h in reversed(header)}
    return next((lower[n] for n in NAMES[role] if n in lower), None)


def _found(
    opened: Opened, given: Mapping[str, str | None], needs: Sequence[str], skips: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """What is in a column -> the column, and notes on those that were taken by another name."""
    found, notes, header = dict[str, str](), [], opened.header
    for role, asked in given.items():
        chosen = asked if asked is not None else _named(header, role)
        if asked is not None and asked not in header:
            raise _absent(opened, asked, f"--{role} COLUMN")
        if chosen is None and role in needs:
            near = did_you_mean(role, header)
            raise ColumnError(
                f"{opened.path.name} has no column {role!r} (or {', '.join(NAMES[role][1:])}) for {MEANING[role]}{near}; "
                f"columns: {', '.join(header)}",
                f"choose with --{role} COLUMN",
            )
        if chosen is not None and (role not in skips or asked is not None):
            found[role] = chosen
            if asked is None and chosen.lower() not in (role, "role", "shift", "fold"):
                notes.append(f"column {chosen!r} is read as {role}")
    return found, notes


def _scores_of(
    opened: Opened, columns: Sequence[str] | Mapping[str, str] | None, found: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Which columns are scores, and notes on the others."""
    if columns is not None:
        return _asked_scores(opened, columns, found), []
    # What is skipped is no score either.
    taken = {c for role in NAMES for c in (found.get(role) or _named(opened.header, role),)}
    scores, notes = {}, []
    for column in opened.header:
        if column in taken:
            continue
        if opened.numeric(column) is None:
            raise DataError(opened.why_no_score(column))
        if not opened.numeric(column):
            notes.append(f"column {column!r} is not numeric and is not used")
        elif column.strip().lower() in NO_SCORES or is_id(column):
            notes.append(
                f"column {column!r} is not used as a score; name it with --score {column!r} if it is one"
            )
        else:
            scores[column] = column
    if not scores:
        raise ColumnError(
            f"{opened.path.name} has no column of scores; columns: {', '.join(opened.header)}",
            "choose with --score COLUMN",
        )
    return scores, notes


def _asked_scores(
    opened: Opened, columns: Sequence[str] | Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    """The scores that were named, each under the column where it stands."""
    mapped = isinstance(columns, Mapping)
    asked = dict(columns) if isinstance(columns, Mapping) else {c: c for c in columns}
    roles = {column: role for role, column in found.items()}
    for name, column in asked.items():
        if column not in opened.header:
            raise _absent(opened, column, f"--score {name}=COLUMN" if mapped else "--score COLUMN")
        if column in roles and not mapped:
            role = roles[column]
            raise ColumnError(
                f"{opened.path.name}: {column!r} is read as {role}, {MEANING[role]}, and cannot be a score",
                f"leave out --score {column}, or choose another column with --{role} COLUMN",
            )
        if list(asked.values()).count(column) > 1:
            raise ColumnError(
                f"{opened.path.name}: the column {column!r} is named for more than one score",
                "name a column for each with --score NAME=COLUMN",
            )
        # A stream may begin without a score.
        silent = mapped and opened.empty(column)
        if opened.numeric(column) is not True and not silent:
            raise DataError(opened.why_no_score(column))
    return asked


def _absent(opened: Opened, column: str, option: str) -> ColumnError:
    near = did_you_mean(column, opened.header)
    what = f"{opened.path.name} has no column {column!r}{near}; columns: {', '.join(opened.header)}"
    return ColumnError(what, f"choose with {option}")


def _kinds(kinds: np.ndarray, column: str, clean: tuple[str, ...], place: RowPlace) -> np.ndarray:
    """The kinds, with one name for those without shift."""
    names, first, at = np.unique(kinds, return_index=True, return_inverse=True)
    for name, row in zip(names.tolist(), first.tolist(), strict=True):
        if not name.strip() and name not in clean:
            raise ColumnError(
                f"{place.row(row)}: {column} is empty; expected a kind of shift, or {CLEAN!r}",
                "or --clean '' if empty means no shift",
            )
        if clean and name == CLEAN and CLEAN not in clean:
            raise ColumnError(
                f"{place.row(row)}: {column} is {CLEAN!r}, and {' and '.join(map(repr, clean))} is named as clean; rename one",
                f"or add --clean {CLEAN}",
            )
    known = clean or CLEAN_NAMES
    same = [CLEAN if (k if clean else k.strip().lower()) in known else k for k in names.tolist()]
    return np.array(same, dtype=str)[at]


def _refuse_one_group(table: ScoreTable, column: str) -> None:
    """Rows of one group count as one, so that nothing could be learned from a table of one group."""
    assert table.group is not None
    if table.n >= ENOUGH and len(np.unique(table.group)) == 1:
        raise ColumnError(
            f"{table.source}: all {table.n:,} rows belong to one group ({column} is {str(table.group[0])!r})",
            f"choose another column with --group COLUMN, or --group {NO_GROUPS} if rows are independent",
        )


def _without_constants(table: ScoreTable, *, named: bool) -> ScoreTable:
    """Without scores that are the same in every row: they say nothing."""
    constant = [
        name
        for name, column in table.columns.items()
        if np.isfinite(column).sum() >= ENOUGH and np.nanmin(column) == np.nanmax(column)
    ]
    if not constant:
        return table
    if named or len(constant) == len(table.columns):
        raise ColumnError(
            f"{table.source}: {constant[0]} has the same value in every row, and cannot be a score",
            "choose other columns with --score COLUMN",
        )
    columns = {name: column for name, column in table.columns.items() if name not in constant}
    notes = [
        f"column {name!r} has the same value in every row and is not used" for name in constant
    ]
    return replace(table, columns=columns, notes=(*table.notes, *notes))


TEXT = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
"""Endings of text files, and what separates their columns."""
PARQUET = (".parquet", ".pq")
BLOCK = 4 << 20
"""Bytes of a piece of a text file."""
FIRST_ROWS = 20_000
"""Rows of a Parquet file that are read to tell text from numbers."""
NOTHING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "none"]
"""Cells of a text file that are empty."""
RIGHT = frozenset({"1", "1.0", "true", "t", "yes", "y", "right", "correct", "ok", "pass", "passed"})
WRONG = frozenset({"0", "0.0", "false", "f", "no", "n", "wrong", "incorrect", "fail", "failed"})
UNKNOWN = frozenset({"", "nan", "na", "n/a", "none", "null"})
LATEST = 1e11
"""Seconds, in the year 5138: a greater number is one of milliseconds, which are refused."""


class RowPlace(NamedTuple):
    """Which file, and how many rows come before these."""

    file: str
    start: int

    def row(self, index: int) -> str:
        """A row as people count them: the first after the column names is 1.

        >>> RowPlace("today.csv", 1000).row(1)
        'today.csv, row 1,002'
        """
        return f"{self.file}, row {self.start + index + 1:,}"


@dataclass(frozen=True)
class Opened:
    """A table whose first rows have been read."""

    path: Path
    header: tuple[str, ...]
    first: pa.Table = field(repr=False)

    @property
    def rows(self) -> int | None:
        """How many rows there are, if that is known without reading them all."""
        return _parquet(self.path).metadata.num_rows if _is_parquet(self.path) else None

    def pieces(self, columns: Sequence[str], scores: set[str], rows: int) -> Iterator[pa.Table]:
        """These columns, at most so many rows at a time; those of a text file are as large as a
        block."""
        wanted = list(dict.fromkeys(columns))
        if _is_parquet(self.path):
            yield from _parquet_pieces(self.path, wanted, rows)
            return
        import pyarrow as pa

        # The types of a text file are those of its first block: what begins with whole numbers may go
        # on with fractions, so that scores are read as numbers to the end, and all else as text.
        types = {
            c: pa.float64() if c in scores else pa.string()
            for c in wanted
            if not pa.types.is_boolean(self.first.schema.field(c).type)
        }
        try:
            yield from _text_pieces(self.path, wanted, types)
        except pa.ArrowInvalid as error:
            if "conversion error" in str(error):
                self._refuse_word(sorted(scores & set(wanted)))
            raise _text_error(self.path, error) from error

    def numeric(self, column: str) -> bool | None:
        """Whether a column holds numbers; None if most of its cells do, which is a mistake in the
        table."""
        import pyarrow as pa

        kind = self.first.schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
            return pa.types.is_boolean(kind) or any(check(kind) for check in number)
        cells = [_is_number(text) for _, text in self._words(column)]
        share = sum(cells) / len(cells) if cells else 0.0
        return True if share == 1 else None if share > 0.5 else False

    def empty(self, column: str) -> bool:
        """Whether a column is empty in the first rows."""
        return next(self._words(column), None) is None

    def why_no_score(self, column: str) -> str:
        """The message that refuses a column as a score."""
        for row, text in self._words(column):
            if not _is_number(text):
                return f"{RowPlace(self.path.name, 0).row(row)}: {column} {_no_number(text)}"
        return f"{self.path.name}: {column} is empty; a score needs numbers"

    def _words(self, column: str) -> Iterator[tuple[int, str]]:
        cells = enumerate(self.first[column].to_pylist())
        return ((r, str(c)) for r, c in cells if c is not None and str(c).strip() not in NOTHING)

    def _refuse_word(self, columns: Sequence[str]) -> None:
        """Read scores as text, to name the row of the cell that is no number."""
        import pyarrow as pa

        start = 0
        for piece in _text_pieces(self.path, columns, dict.fromkeys(columns, pa.string())):
            for column in columns:
                score_values(piece[column], column, RowPlace(self.path.name, start))
            start += len(piece)


def open_table(path: Path) -> Opened:
    """Read the header and the first rows."""
    if not path.exists():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        raise DataError(f"{path} does not exist{did_you_mean(path.name, [p.name for p in beside])}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or Parquet file")
    if not _is_parquet(path) and _delimiter(path) is None:
        raise DataError(f"{path.name}: a table of scores ends in {', '.join([*TEXT, *PARQUET])}")
    first = _parquet_first(path) if _is_parquet(path) else _text_first(path)
    header = tuple(first.column_names)
    twice = sorted({h for h in header if header.count(h) > 1})
    if twice:
        raise DataError(f"{path.name} has two columns named {twice[0]!r}; rename one")
    if len(header) == 1 and re.search(r"[;\t|]", header[0]):
        raise DataError(
            f"{path.name} has one column, {header[0]!r}; separate columns by commas (.csv) or tabs (.tsv)"
        )
    if not len(first):
        raise DataError(f"{path.name} has no rows; one row per event was expected")
    return Opened(path, header, first)


def score_values(cells: pa.ChunkedArray, column: str, place: RowPlace) -> np.ndarray:
    """Scores as float64, NaN where a cell is empty; an infinite one is refused."""
    import pyarrow as pa

    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    text = _stripped(cells)
    try:
        values = np.asarray(text.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid:
        row = _first_unlike(text, pa.float64())
        raise DataError(f"{place.row(row)}: {column} {_no_number(text[row].as_py())}") from None
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        found = f"{place.row(int(infinite[0]))}: {column} is {values[infinite[0]]}"
        raise DataError(f"{found}; a score must be finite, or empty")
    return values


def outcomes(cells: pa.ChunkedArray, column: str, place: RowPlace) -> tuple[np.ndarray, np.ndarray]:
    """Which answers were right, and for which rows that is known."""
    values, at = _encoded(cells)
    meaning = np.full(len(values) + 1, -1)
    for i, value in enumerate(values):
        word = str(value).strip().lower()
        if word not in RIGHT | WRONG | UNKNOWN:
            row = place.row(int(np.argmax(at == i)))
            raise DataError(
                f"{row}: {column} is {value!r}; expected 1 or 0, true or false, yes or no, right or wrong, pass or fail"
            )
        meaning[i] = 1 if word in RIGHT else 0 if word in WRONG else -1
    found = meaning[at]
    return found == 1, found >= 0


def texts(cells: pa.ChunkedArray) -> np.ndarray:
    """Text; an empty cell is an empty text."""
    values, at = _encoded(cells)
    return np.array(["" if v is None else str(v) for v in values] + [""])[at]


def ids(cells: pa.ChunkedArray) -> np.ndarray:
    """Names of events; an empty text if a cell has none.

    >>> import pyarrow as pa
    >>> ids(pa.chunked_array([["a7", "", "nan", None]])).tolist()
    ['a7', '', '', '']
    """
    read = texts(cells)
    empty = np.isin(np.char.lower(np.char.strip(read)), sorted(UNKNOWN))
    return np.where(empty, "", read)


def times(cells: pa.ChunkedArray, column: str, place: RowPlace) -> np.ndarray:
    """Times in seconds; dates as seconds since 1970, in UTC unless they name a time zone; NaN where
    a cell is empty."""
    import pyarrow as pa

    text = _stripped(cells)
    tried: Sequence[Any] = (pa.float64(), pa.timestamp("us", "UTC"), pa.timestamp("us"))
    if pa.types.is_timestamp(text.type) or pa.types.is_date(text.type):
        tried = (pa.timestamp("us", getattr(text.type, "tz", None)),)
    elif pa.types.is_boolean(text.type):
        tried = ()
    # All are written as the first of them is: the row that differs is the one to be named.
    first = next((cell for cell in text if cell.is_valid), None)
    kinds = [kind for kind in tried if first is None or len(tried) == 1 or _casts(first, kind)]
    try:
        read = text.cast(kinds[0], safe=False)
    except (IndexError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = _first_unlike(text, kinds[0] if kinds else pa.null())
        raise DataError(
            f"{place.row(row)}: {column} is {str(text[row].as_py())!r}; expected seconds, or dates such as "
            "2026-03-02T08:30:00Z, written alike in all rows"
        ) from None
    if kinds[0] == pa.float64():
        seconds = np.asarray(read.to_numpy(), dtype=np.float64)
    else:
        seconds = np.asarray(read.cast(pa.int64()).to_numpy(), dtype=np.float64) / 1e6
    beyond = np.flatnonzero(np.abs(seconds) > LATEST)
    if beyond.size:
        found = f"{place.row(int(beyond[0]))}: {column} is {seconds[beyond[0]]:.0f}"
        raise DataError(f"{found}; expected seconds since 1970")
    return seconds


def _casts(cell: Any, kind: Any) -> bool:
    import pyarrow as pa

    try:
        cell.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _first_unlike(cells: pa.ChunkedArray, kind: Any) -> int:
    """The first row whose cell cannot be read as this type."""
    return next(row for row, cell in enumerate(cells) if cell.is_valid and not _casts(cell, kind))


def _encoded(cells: pa.ChunkedArray) -> tuple[list[Any], np.ndarray]:
    """The different values, and which of them stands in each row; -1 for none."""
    import pyarrow as pa

    whole = cells.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    whole = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    at = np.asarray(whole.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return whole.dictionary.to_pylist(), at


def _stripped(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without spaces around it, and empty text as nothing; other cells as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells
    plain = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(pc.utf8_lower(plain), pa.array(sorted(UNKNOWN))), None, plain)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000 as a number, a table does not


def _no_number(text: str) -> str:
    return f"is {text[:40]!r}; expected a number such as 0.97, or an empty cell"


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET


def _delimiter(path: Path) -> str | None:
    name = path.name.lower()
    return next((mark for ending, mark in TEXT.items() if name.endswith(ending)), None)


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path.name} is not a whole Parquet file: {_sentence(error)}") from error


def _parquet_first(path: Path) -> pa.Table:
    import pyarrow as pa

    file = _parquet(path)
    rows = next(file.iter_batches(batch_size=FIRST_ROWS), None)
    return file.schema_arrow.empty_table() if rows is None else pa.Table.from_batches([rows])


def _parquet_pieces(path: Path, columns: list[str], rows: int) -> Iterator[pa.Table]:
    import pyarrow as pa

    try:
        for batch in _parquet(path).iter_batches(batch_size=rows, columns=columns):
            yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path.name} cannot be read to its end: {_sentence(error)}") from error


def _text_first(path: Path) -> pa.Table:
    import pyarrow as pa

    try:
        with _reader(path) as reader:
            batch = next(iter(reader), None)
            table = reader.schema.empty_table() if batch is None else pa.Table.from_batches([batch])
        # Names that are not UTF-8 are noticed when they are used.
        return table.rename_columns(table.column_names)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise _text_error(path, error) from error


def _text_pieces(path: Path, columns: Sequence[str], types: dict[str, Any]) -> Iterator[pa.Table]:
    import pyarrow as pa

    try:
        with _reader(path, columns=columns, types=types) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except (OSError, UnicodeDecodeError) as error:
        raise _text_error(path, error) from error


def _reader(path: Path, *, columns: Sequence[str] = (), types: dict[str, Any] | None = None) -> Any:
    from pyarrow import csv as pc

    convert = pc.ConvertOptions(
        column_types=types or {},
        include_columns=list(columns) or None,
        null_values=NOTHING,
        strings_can_be_null=False,
    )
    return pc.open_csv(
        path,
        read_options=pc.ReadOptions(block_size=BLOCK),
        parse_options=pc.ParseOptions(delimiter=_delimiter(path)),
        convert_options=convert,
    )


def _text_error(path: Path, error: Exception) -> DataError:
    said = _sentence(error)
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in said:
        return DataError(f"{path.name} is not UTF-8; save it as UTF-8")
    if "Empty CSV" in said:
        return DataError(
            f"{path.name} is empty; a line of column names and one row per event were expected"
        )
    hint = "; separate columns by commas (.csv) or tabs (.tsv)" if " 1 columns, got" in said else ""
    return DataError(f"{path.name} cannot be read as a table: {said}{hint}")


def _sentence(error: Exception) -> str:
    return str(error).split("\n")[0].strip()
