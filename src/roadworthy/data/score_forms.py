"""How a text file writes its table: what stands between cells, and whether decimals have a point or a comma.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "scores.csv"
>>> _ = file.write_text("kind;energy\\nclean;0,52\\nfog;1,7\\n")
>>> form = form_of(file)
>>> form.delimiter, form.decimal
(';', ',')
>>> form.notes("scores.csv")
("scores.csv has ';' between its cells and commas in its decimals, and is read so",)
>>> plain_number("96.6%"), plain_number("0,96"), plain_number("Oslo")
('0.966', '0.96', None)
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TEXT = {".csv": ",", ".tsv": "\t"}
"""Endings of text files, and what usually stands between their cells."""
MARKS = {",": "','", ";": "';'", "\t": "a tab", "|": "'|'"}
"""What may stand between cells, in words."""
PEEKED = 200
"""Lines that are looked at."""
OTHERS = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"PK\x03\x04": "a spreadsheet or an archive: save it as CSV",
    b"\x1f\x8b": "packed: add .gz to its name",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}
"""What files that are no text begin with, and what to do with them."""
_COMMA = re.compile(r"[+-]?\d+,(\d+)(?:[eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
THOUSANDS = 3
"""Digits behind a comma that may as well be thousands."""


@dataclass(frozen=True)
class Form:
    """How cells and decimals are written."""

    delimiter: str = ","
    decimal: str = "."
    usual: str = ","

    def notes(self, name: str) -> tuple[str, ...]:
        """What is not as the name of the file says."""
        said = []
        if self.delimiter != self.usual:
            said.append(f"{MARKS[self.delimiter]} between its cells")
        if self.decimal != ".":
            said.append("commas in its decimals")
        return (f"{name} has {' and '.join(said)}, and is read so",) if said else ()


def usual_delimiter(path: Path) -> str | None:
    """What the ending of a file promises; None where it is no text file."""
    name = path.name.lower().removesuffix(".gz")
    return next((mark for end, mark in TEXT.items() if name.endswith(end)), None)


def form_of(path: Path) -> Form:
    """What the first lines show: the mark that makes most columns of the header, and commas in numbers that have no points."""
    usual = usual_delimiter(path) or ","
    try:
        with lines_of(path) as lines:
            first = list(itertools.islice(lines, PEEKED))
    except (OSError, EOFError):  # refused with a sentence by whoever reads it
        return Form(usual, usual=usual)
    header = next((line for line in first if line.strip()), "")
    columns = {
        mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in (usual, *MARKS)
    }
    mark = max(columns, key=lambda m: (columns[m], m == usual))
    cells = [cell.strip() for row in csv.reader(first[1:], delimiter=mark) for cell in row]
    commas = [found for cell in cells if (found := _COMMA.fullmatch(cell))]
    sure = mark != "," or any(len(found[1]) != THOUSANDS for found in commas)
    points = any(_POINT.fullmatch(cell) for cell in cells)
    return Form(mark, "," if commas and sure and not points else ".", usual)


def lines_of(path: Path) -> IO[str]:
    """A text file, packed or not, to look at: what is no UTF-8 in it is refused by whoever reads the table."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def why_no_text(path: Path) -> str | None:
    """The sentence that refuses a file whose first bytes are those of something else; None where they may be text.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "today.csv"
    >>> _ = file.write_bytes("kind,energy".encode("utf-16"))
    >>> why_no_text(file)
    'today.csv is UTF-16: save it as UTF-8'
    """
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            begins = file.read(64)
    except gzip.BadGzipFile:
        return (
            f"{path.name} is not packed, whatever its name says: take .gz off its name, or pack it"
        )
    except (OSError, EOFError):  # refused with a sentence by whoever reads it
        return None
    return next(
        (f"{path.name} is {what}" for mark, what in OTHERS.items() if begins.startswith(mark)), None
    ) or (f"{path.name} is UTF-16: save it as UTF-8" if b"\0" in begins else None)


def is_number(text: str) -> bool:
    """Whether a table would call it one."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000 as a number, a table does not


def plain_number(text: str) -> str | None:
    """A percentage, or a number with a comma, as a table should have it; None where it is neither."""
    plain = text.strip().replace(",", ".", 1) if "." not in text else text.strip()
    if plain.endswith("%") and is_number(plain[:-1].strip()):
        return f"{float(plain[:-1]) / 100:.10g}"
    return plain if plain != text.strip() and is_number(plain) else None


def no_number(text: str) -> str:
    """The end of the sentence that refuses a cell."""
    plain = plain_number(text)
    advice = "leave the cell empty where there is no score" if plain is None else f"write {plain}"
    return f"is {text[:40]!r}, which is no number; {advice}"
