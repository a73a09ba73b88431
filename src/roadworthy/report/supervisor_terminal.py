"""The table of supervisors for the command line: as many columns as the terminal has room for, the most telling first.

>>> written([_Column("AUC", 1, ["0.912\\n0.890 to 0.934"]), _Column("AUPR", 2, ["0.4"])], 32)
['AUC']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roadworthy.finding import Finding

from . import numbers
from .figure import place_name
from .run_view import RunView
from .supervisor_parts import Supervisor
from .supervisor_tables import confidences, widened
from .supervisor_wording import (
    inapplicable,
    not_recommended,
    noted,
    on_top,
    recommended,
    recommended_because,
    recommended_rates,
    verdicts,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

NAME = 15
"""Columns that the name gets at the least; a longer one is folded beside the two lines of the numbers."""
GAP = 2
STAR = "★ "
LONGEST = 160
MISSED, WHERE = "Missed\nat worst", "where"
"""The second belongs to the first, and stands only beside it."""


@dataclass(frozen=True)
class _Column:
    """A column that may have to go: the lower its rank, the longer it stays."""

    head: str
    rank: int
    cells: Sequence[str]

    @property
    def width(self) -> int:
        return max(len(line) for text in (self.head, *self.cells) for line in text.split("\n"))


def supervisors_table(view: RunView, width: int) -> Table:
    """Every applicable supervisor, the best AUC for failures on the clean data first, in at most `width` columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    judged = [s for s in view.supervisors if s.applicable]
    columns = _columns(view, judged)
    kept = written(columns, width)
    table = Table(
        title="Supervisors",
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
    )
    room = width - sum(c.width + GAP for c in columns if c.head in kept)
    table.add_column("Supervisor", overflow="fold", min_width=NAME)
    for column in columns:
        if column.head in kept:
            table.add_column(
                column.head,
                justify="left" if column.head == WHERE else "right",
                no_wrap=True,
                vertical="top",
            )
    for i, s in enumerate(judged):
        cells = [_cell(column.cells[i]) for column in columns if column.head in kept]
        table.add_row(
            Text(_folded((STAR if _starred(view, s) else "") + s.label, room), style="bold"), *cells
        )
    table.caption = _caption(view, columns, kept)
    return table


def supervisors_words(view: RunView) -> list[RenderableType]:
    """What stands under the table: the recommended set, how verdicts came about, who could not be asked, remarks."""
    from rich.text import Text

    lines: list[RenderableType] = []
    if view.recommended is not None:
        more = [text for text in (recommended_because(view), recommended_rates(view)) if text]
        lines.append(
            Text.assemble((STAR + recommended(view), "bold"), *(f" {text}" for text in more))
        )
    lines += [Text(not_recommended(view), style="bold")] if not_recommended(view) else []
    lines += [Text(_cut(verdicts(view), 400))] if verdicts(view) else []
    lines += [
        Text(f"Not applicable: {', '.join(who)} ({_cut(reason)})")
        for reason, who in inapplicable(view)
    ]
    remarks = noted([s for s in view.supervisors if s.applicable])
    lines += [Text(f"{', '.join(who)}: {_cut(remark)}", style="dim") for remark, who in remarks]
    return lines


def written(columns: Sequence[_Column], width: int) -> list[str]:
    """The heads of the columns that fit beside the name, the most telling first."""
    left = width - NAME
    kept = []
    for column in sorted(columns, key=lambda c: c.rank):
        if column.head == WHERE and MISSED not in kept:
            continue
        if column.width + GAP <= left:
            kept.append(column.head)
            left -= column.width + GAP
    return kept


def _folded(name: str, room: int) -> str:
    """A name that is too long, broken where its parts meet.

    >>> _folded("★ fused(how=logistic)", 15)
    '★ fused(how=\\nlogistic)'
    """
    lines = [""]
    for part in re.split(r"(?<=[_(,=])", name):
        if lines[-1] and len(lines[-1]) + len(part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _columns(view: RunView, judged: Sequence[Supervisor]) -> list[_Column]:
    """All columns that the run has numbers for, in the order in which they stand."""

    def found(of: Callable[[Supervisor], Finding | None]) -> list[str]:
        return [_found(view, of(s)) for s in judged]

    columns = [
        _Column("AUC", 0, found(lambda s: s.at("auc_failure"))),
        _Column("AUPR", 6, found(lambda s: s.at("aupr_failure"))),
        _Column("FPR@95", 2, found(lambda s: s.at("fpr95_failure"))),
        _Column(MISSED, 1, found(lambda s: s.worst_miss)),
        _Column(WHERE, 8, [_where(s.worst_miss) for s in judged]),
        _Column("False\nalarms", 7, found(lambda s: s.at("false_alarm_rate"))),
        _Column("Fit\ns", 4, [_amount(s.fit_seconds) for s in judged]),
        _Column("Score\ns", 3, [_amount(s.score_seconds) for s in judged]),
        _Column(
            "Kept\nMB",
            5,
            [_amount(None if s.kept_bytes is None else s.kept_bytes / 1e6) for s in judged],
        ),
    ]
    told = [
        c for c in columns if c.rank == 0 or any(text not in ("", numbers.NONE) for text in c.cells)
    ]
    return [c for c in told if c.head != WHERE or any(other.head == MISSED for other in told)]


def _caption(view: RunView, columns: Sequence[_Column], kept: Sequence[str]) -> str:
    heads = " ".join(kept)
    sentences = ["On the clean test data, the best AUC for failures first"]
    if "Missed" in heads:
        sentences[0] += "; missed: the failures without an alarm, where they are most"
    gone = [
        c.head.replace("\n", " ").removesuffix(" s").removesuffix(" MB")
        for c in columns
        if c.head not in kept
    ]
    gone = ["where most is missed" if g == WHERE else g for g in gone]
    said = [g.lower() if not g.isupper() and "@" not in g else g for g in gone]
    sure = confidences(view.supervisors)
    if sure:
        sentences.append(f"Intervals at {sure}")
    if "Missed" in heads and widened(view.supervisors):
        sentences.append(widened(view.supervisors))
    if "Score" in heads and on_top(view):
        sentences.append(on_top(view))
    if said:
        sentences.append(f"In a wider terminal and in the report: {', '.join(said)}")
    return ". ".join(sentences) + "."


def _found(view: RunView, finding: Finding | None) -> str:
    if finding is None:
        return numbers.NONE
    shown = numbers.estimate(
        finding.value, finding.interval, finding.n, view.style_of(finding.quantity)
    )
    return f"{shown.value}\n{shown.interval}" if finding.interval else shown.value


def _where(finding: Finding | None) -> str:
    return "" if finding is None else place_name(finding.about.circumstance, finding.about.level)


def _amount(x: float | None) -> str:
    """
    >>> _amount(0.00042), _amount(0.0421), _amount(12.34), _amount(1234.5), _amount(0), _amount(None)
    ('<.01', '0.04', '12.3', '1234', '0', '–')
    """
    if x is None:
        return numbers.NONE
    if x == 0:
        return "0"
    return "<.01" if x < 0.005 else f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def _cell(text: str) -> RenderableType:
    from rich.text import Text

    value, gap, ends = text.partition("\n")
    return Text.assemble(value, gap, (ends, "dim"))


def _starred(view: RunView, s: Supervisor) -> bool:
    return view.recommended is not None and s.name in view.recommended.names


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
