"""CSV, TSV (also .gz) and Parquet as one thing: a header, what is in each column, and rows in pieces.

Types of a CSV file are those of its first piece; scores are then read as numbers to the end, so that a column that begins with
whole numbers may go on with fractions, and a word among them is refused by its row.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roadworthy.data.samples import DataError
from roadworthy.data.score_cells import Where
from roadworthy.data.score_forms import (
    TEXT,
    Form,
    form_of,
    is_number,
    lines_of,
    no_number,
    plain_number,
    usual_delimiter,
    why_no_text,
)
from roadworthy.registry import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
BLOCK = 4 << 20
"""Bytes of a piece of a text file."""
PEEKED = 20_000
"""Rows of a Parquet file that are looked at to tell text from numbers written as text."""
NOTHING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "NULL", "null", "None", "none"]
"""Cells of a text file that are missing scores."""


@dataclass(frozen=True)
class Opened:
    """A table whose first rows have been looked at."""

    path: Path
    header: tuple[str, ...]
    """Names of columns, without spaces around them."""
    first: pa.Table = field(repr=False)
    form: Form = field(default_factory=Form)
    spaced: Mapping[str, str] = field(default_factory=dict)
    """Names that have spaces around them in the file, by what they are without."""

    def pieces(self, columns: Sequence[str], scores: set[str], rows: int) -> Iterator[pa.Table]:
        """These columns, so many rows at a time."""
        wanted = list(dict.fromkeys(columns))
        there = [self.spaced.get(c, c) for c in wanted]
        for piece in self._pieces(wanted, there, scores, rows):
            yield piece.rename_columns(wanted) if there != wanted else piece

    def _pieces(
        self, wanted: list[str], there: list[str], scores: set[str], rows: int
    ) -> Iterator[pa.Table]:
        """The same, by the names that stand in the file."""
        if self.path.suffix.lower() in PARQUET:
            return _parquet_pieces(self.path, there, rows)
        import pyarrow as pa

        kinds = {
            name: pa.float64() if c in scores else pa.string()
            for c, name in zip(wanted, there, strict=True)
            if not pa.types.is_boolean(self.first.schema.field(c).type)
        }
        return _text_pieces(self.path, self.form, there, kinds)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as one would expect of such a file."""
        said = ", ".join(map(repr, self.spaced.values()))
        spaces = (
            (f"names of columns are read without the spaces around them: {said}",) if said else ()
        )
        return (*self.form.notes(self.path.name), *spaces)

    def line_of(self, row: int) -> int | None:
        """The line of a text file on which a row ends; the file is read once more, for one that is refused anyway."""
        if self.path.suffix.lower() in PARQUET:
            return None
        return next(
            (line for number, line, _ in _rows(self.path, self.form) if number == row), None
        )

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known without reading them all."""
        return (
            int(_parquet(self.path).metadata.num_rows)
            if self.path.suffix.lower() in PARQUET
            else None
        )

    def numeric(self, column: str) -> bool | None:
        """Whether a column holds numbers; None if it nearly does, which is a mistake in the table."""
        import pyarrow as pa

        kind = self.first.schema.field(column).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            words = self._words(column)
            share = sum(map(is_number, words)) / len(words) if words else 0.0
            meant = sum(is_number(w) or plain_number(w) is not None for w in words) / max(
                len(words), 1
            )
            return True if share == 1 else None if meant > 0.5 else False
        checks = (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_decimal,
        )
        return any(check(kind) for check in checks)

    def with_points(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Text whose numbers have a point in their decimals, as ours have."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.form.decimal == "." or not pa.types.is_string(cells.type):
            return cells
        return pc.replace_substring_regex(cells, r"^\s*([+-]?\d+),(\d+)\s*$", r"\1.\2")

    def content(self, column: str) -> str:
        """What is in a column that is no score, as the end of a sentence."""
        words = [c for c in self.first[column].slice(0, 100).to_pylist() if c not in (None, "")]
        return (
            f"it holds {str(words[0])[:40]!r}"
            if words
            else f"it is empty {self._how_far_empty(column)}"
        )

    def why_no_score(self, column: str) -> str:
        """The sentence that refuses it."""
        for row, cell in enumerate(self.first[column].to_pylist()):
            if cell is not None and str(cell).strip() not in NOTHING and not is_number(str(cell)):
                return f"{Where(self.path.name, 0, self.line_of).row(row)}: {column} {no_number(str(cell))}"
        return f"{self.path.name}: {column} is empty {self._how_far_empty(column)}, so that it cannot be a score"

    def empty(self, column: str) -> bool:
        """Whether nothing stands in it where the table begins."""
        return not self._words(column)

    def _how_far_empty(self, column: str) -> str:
        """Of a column with nothing where the table begins; the file is read once more, to say no less than is so."""
        with contextlib.suppress(DataError):  # what else is wrong with the file is no matter here
            for piece in self.pieces([column], set(), PEEKED):
                if any(
                    c is not None and str(c).strip() not in NOTHING
                    for c in piece[column].to_pylist()
                ):
                    return "where the table begins"
            return "in all rows"
        return "where the table begins"

    def _words(self, column: str) -> list[str]:
        return [
            str(c)
            for c in self.first[column].to_pylist()
            if c is not None and str(c).strip() not in NOTHING
        ]


def open_table(path: Path) -> Opened:
    """Look at the header and the first rows."""
    if not path.exists():
        raise DataError(f"{path}: there is no such file{_beside(path)}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or Parquet file")
    if path.suffix.lower() in PARQUET:
        form, first = Form(), _parquet_first(path)
    elif usual_delimiter(path) is not None:
        if wrong := why_no_text(path):
            raise DataError(wrong)
        form = form_of(path)
        first = _text_first(path, form)
    else:
        known = ", ".join([*TEXT, *(f"{t}.gz" for t in TEXT), *PARQUET])
        raise DataError(
            f"{path.name}: tables of scores end in {known}; rename it, or save it as one of them"
        )
    header = tuple(name.strip() for name in first.column_names)
    twice = sorted({h for h in header if header.count(h) > 1})
    if twice:
        raise DataError(
            f"{path.name} names the column {', '.join(map(repr, twice))} twice; every column needs a name of its own "
            f"(found: {', '.join(header)})"
        )
    if not len(first):
        raise DataError(f"{path.name} has column names but no rows; one row an event was expected")
    spaced = {h: name for h, name in zip(header, first.column_names, strict=True) if h != name}
    return Opened(path, header, first.rename_columns(list(header)), form, spaced)


def _parquet_first(path: Path) -> pa.Table:
    import pyarrow as pa

    file = _parquet(path)
    rows = next(file.iter_batches(batch_size=PEEKED), None)
    return file.schema_arrow.empty_table() if rows is None else pa.Table.from_batches([rows])


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{path.name} is no Parquet file, or not all of one: {_advice(path)} ({_sentence(error)})"
        ) from error


def _advice(path: Path) -> str:
    """What to do with a file that is not what its name says."""
    with path.open("rb") as file:
        begins = file.read(64)
    text = begins.isascii() and b"\0" not in begins and b"PAR1" not in begins
    return "it begins like text, so name it .csv" if begins and text else "write or copy it again"


def _beside(path: Path) -> str:
    """A file of its folder that may be meant."""
    try:
        return did_you_mean(path.name, (p.name for p in path.parent.iterdir() if p.is_file()))
    except OSError:
        return f"; there is no folder {path.parent} either"


def _parquet_pieces(path: Path, columns: list[str], rows: int) -> Iterator[pa.Table]:
    import pyarrow as pa

    file = _parquet(path)
    try:
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path.name} cannot be read to its end: {_sentence(error)}") from error


def _text_first(path: Path, form: Form) -> pa.Table:
    import pyarrow as pa

    try:
        with _reader(path, form) as reader:
            batch = next(iter(reader), None)
            table = reader.schema.empty_table() if batch is None else pa.Table.from_batches([batch])
            return table.rename_columns(
                table.column_names
            )  # names that are no UTF-8 are noticed when they are looked at
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise _text_error(path, form, error) from error


def _text_pieces(
    path: Path, form: Form, columns: list[str], kinds: dict[str, Any]
) -> Iterator[pa.Table]:
    """The pieces of a text file are as large as its blocks."""
    import pyarrow as pa

    try:
        with _reader(path, form, columns=columns, kinds=kinds) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise _text_error(path, form, error, columns=columns) from error


def _reader(
    path: Path, form: Form, *, columns: Sequence[str] = (), kinds: dict[str, Any] | None = None
) -> Any:
    from pyarrow import csv as pc

    convert = pc.ConvertOptions(
        column_types=kinds or {},
        include_columns=list(columns) or None,
        null_values=NOTHING,
        strings_can_be_null=False,
        decimal_point=form.decimal,
    )
    return pc.open_csv(
        path,
        read_options=pc.ReadOptions(block_size=BLOCK),
        parse_options=pc.ParseOptions(delimiter=form.delimiter),
        convert_options=convert,
    )


def _text_error(
    path: Path, form: Form, error: Exception, *, columns: Sequence[str] = ()
) -> DataError:
    said = _sentence(error)
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in said:
        return DataError(f"{path.name} is not UTF-8: save it as UTF-8")
    if "Empty CSV" in said:
        return DataError(
            f"{path.name} is empty; a first line of column names and one line an event were expected"
        )
    conversion = re.search(r"invalid value '(.*)'", said)
    if conversion:
        found = _where_cell(path, form, conversion[1], columns)
        place = f"row {found.row:,} (line {found.line:,}): {found.column}" if found else "a score"
        return DataError(f"{path.name}, {place} {no_number(conversion[1])}")
    if re.search(r"Expected \d+ columns, got \d+", said):
        return DataError(_ragged(path, form) or f"{path.name}: {said}")
    return DataError(f"{path.name} cannot be read as a table: {said}")


def _ragged(path: Path, form: Form) -> str | None:
    """The first row that has more or fewer cells than the header."""
    width = 0
    for number, line, cells in _rows(path, form):
        width = width or len(cells)
        if len(cells) != width:
            return (
                f"{path.name}, row {number:,} (line {line:,}) has {len(cells)} cells, the header has {width}; "
                "fill or quote the cells of that line"
            )
    return None


class _Cell(NamedTuple):
    row: int
    line: int
    column: str


def _where_cell(path: Path, form: Form, text: str, columns: Sequence[str]) -> _Cell | None:
    """The first cell of these columns that has this text."""
    header: list[str] = []
    for number, line, cells in _rows(path, form):
        header = header or cells
        for name, cell in zip(header, cells, strict=False):
            if number and cell == text and name in columns:
                return _Cell(number, line, name.strip())
    return None


def _rows(path: Path, form: Form) -> Iterator[tuple[int, int, list[str]]]:
    """Rows of a text file, the header as row 0, with the line each ends on; an empty line is none, as it is none in the table."""
    with lines_of(path) as lines, contextlib.suppress(csv.Error):
        reader, number = csv.reader(lines, delimiter=form.delimiter), 0
        for cells in reader:
            if cells:
                yield number, reader.line_num, cells
                number += 1


def _sentence(error: Exception) -> str:
    return str(error).split("\n")[0].strip()
