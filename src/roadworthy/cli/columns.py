"""What the columns of a table are: the input, what is to be predicted, and whether that is a class or a number.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "homes.csv"
>>> _ = file.write_text("id,rooms,area,price\\n1,2,50.5,199.9\\n2,3,71.0,250.0\\n")
>>> found = read(file)
>>> found.features, found.target, found.numeric
(['rooms', 'area'], 'price', True)
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

CLASSES = ("label", "class", "category")
"""Names of columns that hold classes, also where they are numbers."""
EITHER = ("target", "y")
"""Names of columns that hold what is to be predicted, a class or a number."""
IMAGE = ("image", "file", "filename", "path")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
IDS = ("id", "index", "")
LOOKED_AT = 2000
"""Rows that are looked at."""
FEW = 20
"""Whole numbers of so many different values are taken for classes."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what they are for."""

    header: list[str]
    image: str | None = None
    features: tuple[str, ...] | list[str] = ()
    target: str | None = None
    numeric: bool = False
    """Whether the target is a number to predict, not a class."""
    named: bool = False
    """Whether the target goes by a name that says so (or by yours), not by its place."""
    speech: bool = False

    @property
    def whole(self) -> bool:
        """Whether the table names its inputs and what is to be said of them."""
        return self.speech or (self.image is not None and self.target is not None and self.named)


def read(file: Path, *, target: str | None = None, task: str | None = None) -> Columns:
    """The columns of a CSV or TSV file; `target` names the one to predict, `task` says what it is."""
    cells = _cells(file)
    header = list(cells)
    if target is not None and target not in header:
        raise DataError(
            f"{file.name} has no column {target!r}{did_you_mean(target, header)}; it has: {', '.join(header)}"
        )
    if {"audio", "transcript"} <= set(header):
        return Columns(header, speech=True)
    image = _first(header, IMAGE) or next((h for h in header if _pictures(cells[h])), None)
    numbers = [
        h
        for h in header
        if h not in (image, target) and h.lower() not in IDS and _numbers(cells[h])
    ]
    named = target or _first(header, CLASSES) or _first(header, EITHER)
    # By place: beside an image the first number is what was measured; in a table of features the last is the outcome.
    chosen = named or next(
        iter(numbers if image else numbers[::-1] if len(numbers) > 1 else []), None
    )
    features = [] if image else [h for h in numbers if h != chosen]
    numeric = chosen is not None and _to_predict(chosen, cells[chosen], task)
    return Columns(header, image, features, chosen, numeric, named is not None)


def _cells(file: Path) -> dict[str, list[str]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t" if file.suffix.lower() == ".tsv" else ",")
        header = [cell.strip() for cell in next(reader, [])]
        rows = [row for row in itertools.islice(reader, LOOKED_AT) if len(row) == len(header)]
    return {h: [row[at] for row in rows] for at, h in enumerate(header)}


def _to_predict(name: str, cells: list[str], task: str | None) -> bool:
    """Whether a column holds numbers to predict: fractions, or many different ones."""
    if not _numbers(cells):
        return False
    if task is not None:
        from roadworthy.data.values import TASKS, VECTOR

        return TASKS[task].target is VECTOR
    if name.lower() in CLASSES:
        return False
    known = {float(c) for c in cells}
    return any(not v.is_integer() or v < 0 for v in known) or len(known) > FEW


def _first(header: list[str], wanted: tuple[str, ...]) -> str | None:
    return next((h for w in wanted for h in header if h.lower() == w), None)


def _pictures(cells: list[str]) -> bool:
    return bool(cells) and all(c.lower().endswith(PICTURES) for c in cells)


def _numbers(cells: list[str]) -> bool:
    try:
        return bool(cells) and all(float(c) == float(c) for c in cells)
    except ValueError:
        return False
