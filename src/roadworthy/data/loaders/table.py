"""Tables in CSV or TSV files, as text by column; the first line names the columns.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "cases.csv"
>>> _ = file.write_text("image,site,age\\na.png,B,61\\nb.png,A,\\n")
>>> table = Table.read(file)
>>> table["site"], typed(table["age"]).tolist()
(['B', 'A'], [61.0, nan])
>>> table["sites"]
Traceback (most recent call last):
roadworthy.data.samples.DataError: cases.csv has no column 'sites' (did you mean 'site'?); it has: image, site, age
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[-+]?\d+)?|nan", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """The cells of a file as text, by column, and the line each row ends on."""

    file: Path
    columns: Mapping[str, list[str]]
    lines: tuple[int, ...]

    @classmethod
    def read(cls, file: Path) -> Table:
        """A CSV file (or TSV, by its name); every row must have a cell for each column."""
        try:
            with file.open(encoding="utf-8-sig", newline="") as stream:
                return cls._parsed(
                    file,
                    csv.reader(
                        stream, delimiter="\t" if file.suffix == ".tsv" else ",", strict=True
                    ),
                )
        except UnicodeDecodeError as error:
            raise DataError(
                f"{file}: is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
            ) from error

    @classmethod
    def _parsed(cls, file: Path, reader: csv._reader) -> Table:  # type: ignore[name-defined]
        rows, lines, header = [], [], None
        try:
            for row in reader:
                if header is None:
                    header = [cell.strip() for cell in row]
                    _refuse_bad_header(file, header)
                elif row:
                    if len(row) != len(header):
                        raise DataError(
                            f"{file}, line {reader.line_num}: has {len(row)} cells for {len(header)} columns; "
                            "fill or quote the cells of that line"
                        )
                    rows.append(row)
                    lines.append(reader.line_num)
        except csv.Error as error:
            raise DataError(
                f"{file}, line {reader.line_num}: {error}; correct the quotes of that line"
            ) from error
        if header is None or not rows:
            raise DataError(
                f"{file}: has no rows; a first line of column names and one line a sample were expected"
            )
        cells = zip(*rows, strict=True)
        return cls(
            file,
            {name: list(column) for name, column in zip(header, cells, strict=True)},
            tuple(lines),
        )

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> list[str]:
        if name not in self.columns:
            raise DataError(
                f"{self.file.name} has no column {name!r}{did_you_mean(name, self.columns)}; "
                f"it has: {', '.join(self.columns)}"
            )
        return self.columns[name]

    def without(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The other columns."""
        return {name: column for name, column in self.columns.items() if name not in names}

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """Some columns as float64 (rows, columns); a cell that is no finite number is refused by line and column."""
        values = np.empty((len(self), len(names)))
        for at, name in enumerate(names):
            for row, cell in enumerate(self[name]):
                try:
                    values[row, at] = float(cell)
                except ValueError:
                    values[row, at] = np.nan
                if not np.isfinite(values[row, at]):
                    raise DataError(
                        f"{self.file}, line {self.lines[row]}: column {name!r} holds {cell!r}, not a finite number; "
                        "fill the cell or leave the row out"
                    )
        return values


def typed(cells: Sequence[str]) -> np.ndarray:
    """A column as numbers where every cell is one (an empty cell is NaN), else as text; '007' stays text."""
    if all(WHOLE.fullmatch(cell) for cell in cells):
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    numeric = all(cell == "" or NUMBER.fullmatch(cell) for cell in cells)
    if numeric and any(cells):
        return np.array([float(cell) if cell else np.nan for cell in cells])
    return np.array(cells, dtype=object)


def _refuse_bad_header(file: Path, header: list[str]) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice or "" in header:
        raise DataError(
            f"{file}: the first line names {', '.join(map(repr, twice)) or 'a column'} "
            f"{'twice' if twice else 'with nothing'}; every column needs a name of its own (found: {', '.join(header)})"
        )
