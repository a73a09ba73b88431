"""What a report is made of: headings, texts, tables, charts, facts and galleries.

A section's `view` gives a list of these, and so does the frame of the report (`roadworthy.report.page`). Renderers know blocks and
no section: the page shows all of them, the terminal those that are marked `brief`.

>>> table = Table([Column("Slice", number=False), Column("n")], [["label=Shirt", "200"]], name="Slices")
>>> [cell.text for cell in table.cells()[0]]
['label=Shirt', '200']
>>> place_name("fog", 2.0), place_name("", None)
('fog @ 2', 'clean')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roadworthy import numbers
from roadworthy.finding import Finding
from roadworthy.store.record import Pair

WIDE, NARROW = 920.0, 336.0
"""Widths in which a chart is drawn: for a desk and for a phone."""
MOST_ROWS = 60
"""Rows of a chart; the table has the rest."""
Status = Literal["", "met", "breached", "inconclusive"]


class ReportError(ValueError):
    """A run that cannot be reported on; says which file and what to do."""


@dataclass(frozen=True)
class Heading:
    """Begins a part of the page (level 2, with an entry in the contents) or of such a part (level 3)."""

    text: str
    id: str = ""
    short: str = ""
    """The entry in the contents, if it is another."""

    @property
    def level(self) -> int:
        """2 with an id, else 3."""
        return 2 if self.id else 3


@dataclass(frozen=True)
class Text:
    """A paragraph, or a list with an item for each of several texts."""

    words: str | Sequence[str]
    style: Literal[
        "lead", "prose", "small", "empty", "callout", "alert", "code", "list", "notes"
    ] = "prose"
    bold: str = ""
    """What stands in bold before it."""
    id: str = ""
    fold: str = ""
    """The line under which it is folded away."""
    brief: bool = False
    """Whether the terminal shows it."""

    def lines(self) -> list[str]:
        """Its paragraphs or items."""
        return [self.words] if isinstance(self.words, str) else list(self.words)


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    sub: str | Sequence[str] = ()
    """Small lines under it."""
    title: str = ""
    """A tooltip."""
    lead: str = ""
    """What stands in bold before it."""
    brief: str = ""
    """A small line under it in the terminal, if its column holds texts."""
    strong: bool = False
    status: Status = ""
    code: bool = False
    marks: Sequence[int] = ()
    """Numbers of footnotes."""
    bad: bool = False

    def lines(self) -> list[str]:
        """The small lines."""
        return [self.sub] if isinstance(self.sub, str) else list(self.sub)


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    head: str
    number: bool = True
    title: str = ""
    sub: str = ""
    rank: int | None = 0
    """The terminal leaves out columns of high rank if it is too narrow, and those of rank None always."""


@dataclass(frozen=True)
class Table:
    """A table; cells are `Cell` or plain texts."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    name: str = ""
    """Its title in the terminal."""
    id: str = ""
    fold: str = ""
    """The line under which it is folded away."""
    caption: str = ""
    """Under it in the terminal; the page says it before."""
    css: str = ""
    chosen: Sequence[int] = ()
    """Rows that stand out."""
    most: int = 200
    """Rows in the page."""
    brief: int = 0
    """Rows in the terminal."""
    rest: str = "findings.json has all"

    def cells(self) -> list[list[Cell]]:
        """All cells."""
        return [[c if isinstance(c, Cell) else Cell(c) for c in row] for row in self.rows]


@dataclass(frozen=True)
class Chart:
    """A picture with its caption; `draw` gives SVG for a width."""

    id: str
    caption: str
    draw: Callable[[float], str]

    @property
    def wide(self) -> str:
        """For a desk."""
        return self.draw(WIDE)

    @property
    def narrow(self) -> str:
        """For a phone."""
        return self.draw(NARROW)


@dataclass(frozen=True)
class Facts:
    """Names with values."""

    pairs: Mapping[str, str]
    code: Sequence[str] = ()
    """Names whose values are hashes."""


@dataclass(frozen=True)
class Pictures:
    """Cases to look at: originals beside what was made of them."""

    pairs: Sequence[Pair]
    lead: str
    none: str
    filter: bool = False
    """Whether the reader may choose a circumstance."""


Block = Heading | Text | Table | Chart | Facts | Pictures


def place_name(circumstance: str, level: float | None) -> str:
    """A circumstance at a level, as charts and tables write it."""
    if not circumstance:
        return "clean"
    return circumstance if level is None else f"{circumstance} @ {numbers.level(level)}"


def found_cell(
    found: Finding | None, style: numbers.Style, *, level: bool = True, more: str = ""
) -> Cell:
    """A finding as a cell: its value, and under it the interval (with its confidence if `level`) or why there is none."""
    if found is None:
        return Cell(numbers.NONE)
    shown = numbers.estimate(found.value, found.interval, found.n, style)
    under = found.reason
    if found.interval:
        under = f"{shown.interval} at {shown.confidence}" if level else shown.interval
    title = f"{shown.title}; {found.reason}" if found.reason else shown.title
    return Cell(shown.value, [line for line in (under, more) if line], title)


def plain_view(name: str, content: Any) -> list[Block]:
    """The record of a section that is not installed here, as it was written: values as facts, lists of objects as tables."""
    blocks: list[Block] = [Heading(name.replace("_", " ").capitalize(), id=name)]
    blocks.append(
        Text(f"The section `{name}` is not installed here; its record is shown as it is.", "small")
    )
    if not isinstance(content, Mapping):
        return [*blocks, Text(_short(content))]
    facts = {}
    for key, value in content.items():
        rows = [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []
        if rows and len(rows) == len(value):
            heads = list(dict.fromkeys(k for row in rows for k in row))
            blocks.append(Heading(str(key).replace("_", " ").capitalize()))
            cells = [[_short(row.get(h)) for h in heads] for row in rows]
            blocks.append(Table([Column(str(h), number=False) for h in heads], cells))
        else:
            facts[str(key)] = _short(value)
    return [*blocks[:2], Facts(facts), *blocks[2:]] if facts else blocks


def _short(content: Any) -> str:
    if content is None:
        return numbers.NONE
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, float):
        return numbers.value(content)
    text = str(content)
    return text if len(text) <= 300 else text[:299] + "…"
