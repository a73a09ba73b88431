"""Tables of scores on disk: CSV and TSV (also .gz) or Parquet, read in pieces, and cells as arrays.

Columns of a CSV file are separated by commas, those of a TSV file by tabs; decimals have a point.
What cannot be read is refused with the row, the column and what was expected.

>>> import pyarrow as pa
>>> place = RowPlace("today.csv", 0)
>>> outcomes(pa.chunked_array([["yes", "0", ""]]), "correct", place)[0].tolist()
[True, False, False]
>>> float(times(pa.chunked_array([["1970-01-01T00:01:00+00:00"]]), "time", place)[0])
60.0
>>> score_values(pa.chunked_array([[0.5, float("inf")]]), "knn", place)
Traceback (most recent call last):
roadworthy.data.samples.DataError: today.csv, row 2: knn is inf; a score must be finite, or empty
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

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
    _refuse_other_separators(path, header)
    if not len(first):
        raise DataError(f"{path.name} has no rows; one row per event was expected")
    return Opened(path, header, first)


def _refuse_other_separators(path: Path, header: Sequence[str]) -> None:
    if len(header) == 1 and re.search(r"[;\t|]", header[0]):
        raise DataError(
            f"{path.name} has one column, {header[0]!r}; separate columns by commas (.csv) or tabs (.tsv)"
        )


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


def without_zone(cells: pa.ChunkedArray) -> bool:
    """Whether these are dates without a time zone, which are read as UTC.

    >>> import pyarrow as pa
    >>> without_zone(pa.chunked_array([["2026-03-02"]])), without_zone(pa.chunked_array([[60.0]]))
    (True, False)
    """
    try:
        return not _times(cells, "", RowPlace("", 0)).zoned
    except DataError:
        return False  # it is refused when it is read


def times(cells: pa.ChunkedArray, column: str, place: RowPlace) -> np.ndarray:
    """Times in seconds, dates as seconds since 1970; NaN where a cell is empty."""
    read = _times(cells, column, place).values
    beyond = np.flatnonzero(np.abs(read) > LATEST)
    if beyond.size:
        found = f"{place.row(int(beyond[0]))}: {column} is {read[beyond[0]]:.0f}"
        raise DataError(f"{found}; expected seconds since 1970")
    return read


class _Times(NamedTuple):
    values: np.ndarray
    zoned: bool = True


def _times(cells: pa.ChunkedArray, column: str, place: RowPlace) -> _Times:
    import pyarrow as pa

    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        return _dates(cells)
    text = _stripped(cells)
    zoned, plain = pa.timestamp("us", "UTC"), pa.timestamp("us")
    tried = () if pa.types.is_boolean(text.type) else (pa.float64(), zoned, plain)
    for kind in tried:
        try:
            read = text.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        if kind == pa.float64():
            return _Times(np.asarray(read.to_numpy(), dtype=np.float64))
        return _dates(read)
    valid = [row for row, cell in enumerate(text) if cell.is_valid]
    if not valid:
        return _Times(np.full(len(text), np.nan))
    # Times are written as the first of them is: the row that differs is the one to be named.
    kinds = [k for k in tried if _casts(text[valid[0]], k)]
    row = _first_unlike(text, kinds[0]) if kinds else valid[0]
    raise DataError(
        f"{place.row(row)}: {column} is {str(text[row].as_py())!r}; expected seconds, or dates such as "
        "2026-03-02T08:30:00Z, written alike in all rows"
    )


def _dates(cells: pa.ChunkedArray) -> _Times:
    import pyarrow as pa

    zone = getattr(cells.type, "tz", None)
    micro = cells.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return _Times(np.asarray(micro.to_numpy(), dtype=np.float64) / 1e6, zone is not None)


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
    if "columns, got" in said and (ragged := _ragged(path)):
        return DataError(ragged)
    return DataError(f"{path.name} cannot be read as a table: {said}")


def _ragged(path: Path) -> str | None:
    """The message that names the first row with more or fewer cells than the header."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        rows = (cells for cells in csv.reader(lines, delimiter=_delimiter(path) or ",") if cells)
        header = next(rows, [])
        _refuse_other_separators(path, header)
        for number, cells in enumerate(rows):
            if len(cells) != len(header):
                found = f"{RowPlace(path.name, 0).row(number)} has {len(cells)} cells"
                return f"{found}, the header has {len(header)}; fill or quote the cells of that row"
    return None


def _sentence(error: Exception) -> str:
    return str(error).split("\n")[0].strip()
