"""Blocks for the command line: as many columns of a table as fit, status with colour and a mark.

>>> table = Table([Column("Slice", number=False), Column("n")], [["label=Shirt", "200"]], brief=5)
>>> [column.header for column in rendered([table], 40)[0].columns]
['Slice', 'n']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from roadworthy.report import wording
from roadworthy.report.blocks import Block, Cell, Column, Table, Text
from roadworthy.report.page import claim_blocks, section_blocks
from roadworthy.store.record import Record

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

COLOURS = {"met": "green", "breached": "red", "inconclusive": "yellow"}
FIRST = 24
"""Characters that the first column gets at the least; longer names are folded."""
GAP = 2
LONGEST = 400


def summary(run: Record, width: int) -> list[RenderableType]:
    """What the terminal shows of a run: warnings, claims, brief parts of sections, notes, verdict."""
    from rich.text import Text as RichText

    cases, verdict = run.cases, wording.verdict(run)
    counts = (
        f"{cases.total:,} cases: {cases.computed:,} computed, {cases.from_cache:,} from the cache"
    )
    head = (f"{verdict.mark} {verdict.word}.", "bold")
    return [
        *(RichText(f"warning: {w}") for w in wording.brief_notes(run.warnings)),
        RichText(f"Clean test data: {wording.main_measure(run) or 'no finding'}"),
        *rendered([*claim_blocks(run), *section_blocks(run)], width),
        *(RichText(f"note: {note}") for note in wording.brief_notes(run.notes)),
        counts,
        RichText.assemble(head, f" {verdict.reason}"),
    ]


def rendered(blocks: Iterable[Block], width: int) -> list[RenderableType]:
    """The blocks that are marked as brief."""
    from rich.text import Text as RichText

    found: list[RenderableType] = []
    for block in blocks:
        if isinstance(block, Table) and block.brief and block.rows:
            found.append(_table(block, width))
        elif isinstance(block, Text) and block.brief:
            bold = f"{block.bold} " if block.bold else ""
            lines = [wording.cut(line, LONGEST) for line in block.lines() if line]
            if block.style == "callout":
                lines = [" ".join(lines)]
            found += [
                RichText.assemble((bold if i == 0 else "", "bold"), line)
                for i, line in enumerate(lines or [""])
            ]
    return found


def _table(block: Table, width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable

    rows = block.cells()[: block.brief]
    shown = [
        [_texts(block, c, cell) for c, cell in zip(block.columns, r, strict=True)] for r in rows
    ]
    kept = _kept(block.columns, shown, width)
    table = RichTable(
        title=block.name,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, GAP // 2),
    )
    for i in kept:
        column = block.columns[i]
        if i == 0:
            table.add_column(column.head, overflow="fold", ratio=1 if not column.number else None)
        else:
            table.add_column(
                column.head, justify="right" if column.number else "left", no_wrap=True
            )
    for n, row in enumerate(rows):
        star = "★ " if n in block.chosen else ""
        table.add_row(*(_rich(row[i], shown[n][i], star if i == 0 else "") for i in kept))
    captions = [block.caption]
    if len(block.rows) > block.brief:
        captions.append(f"The first {block.brief} of {len(block.rows):,}; the report has all.")
    gone = [c.head for i, c in enumerate(block.columns) if i not in kept and c.rank is not None]
    if gone:
        captions.append(f"In a wider terminal and in the report: {', '.join(gone)}.")
    table.caption = " ".join(c for c in captions if c) or None
    return table


def _kept(columns: Sequence[Column], shown: Sequence[Sequence[list[str]]], width: int) -> list[int]:
    """The columns that fit beside the first, those of low rank before others."""
    left, kept = width - FIRST - GAP, [0]
    ranked = [(c.rank, i) for i, c in enumerate(columns) if i and c.rank is not None]
    for _, i in sorted(ranked):
        lines = [columns[i].head, *(line for row in shown for line in row[i])]
        needed = max(map(len, lines)) + GAP
        if needed <= left:
            kept.append(i)
            left -= needed
    return sorted(kept)


def _texts(block: Table, column: Column, cell: Cell) -> list[str]:
    """A cell's lines: its text, and under a number the first of its small lines."""
    text = f"{wording.MARKS[cell.status]} {cell.text}" if cell.status else cell.text
    under = cell.lines()[:1] if column.number else [cell.brief]
    if " at " in block.caption:
        under = [re.sub(r" at [\d.]+%$", "", line) for line in under]
    return [text, *(line for line in under if line)]


def _rich(cell: Cell, lines: Sequence[str], star: str) -> RichText:
    """Names are shown as they are: a bracket in one is no markup."""
    from rich.text import Text as RichText

    style = COLOURS.get(cell.status, "bold" if cell.strong or star else "")
    lead = (f"{cell.lead} " if cell.lead else star, "bold")
    under = "".join(f"\n{line}" for line in lines[1:])
    return RichText.assemble(lead, (lines[0], style), (under, "dim"))
