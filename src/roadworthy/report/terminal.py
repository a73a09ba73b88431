"""Tables for the command line, readable at 80 columns: status with colour and a mark, never colour alone.

>>> from rich.table import Table
>>> isinstance(_table("Claims", ["Claim"]), Table)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.finding import Finding

from . import numbers
from .run_parts import Claim
from .run_view import RunView
from .wording import MARKS, intervals_at, settle

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

COLOURS = {"met": "green", "breached": "red", "inconclusive": "yellow"}


def claims_table(view: RunView) -> Table:
    """Every claim: id and text, what would settle an open one, status, value with interval, deciding bound, limit."""
    table = _table("Claims", ["Claim"], ["Status", "Value", "Bound", "Limit"])
    levels = {
        numbers.confidence(claim.interval.confidence) for claim in view.claims if claim.interval
    }
    for claim in view.claims:
        style = view.style_of(claim.quantity)
        shown = numbers.estimate(claim.value, claim.interval, claim.n, style)
        limit = f"{'≥' if claim.direction == 'min' else '≤'} {numbers.limit(claim.limit, style)}"
        cells = [_two_lines(shown, level=len(levels) > 1), _bound(claim, style), _plain(limit)]
        table.add_row(_claim_text(view, claim), _status(claim), *cells)
    at = f", at {levels.pop()}" if len(levels) == 1 else ""
    several = ", over several places simultaneous, so wider than the bound that decides"
    table.caption = (
        f"Bound: one-sided at the claim's confidence; it decides. Under the value: its interval{at}"
        f"{several if any(len(c.members) > 1 for c in view.claims) else ''}."
    )
    return table


def circumstances_table(view: RunView) -> Table:
    """Every circumstance at its worst level, by significance where it has one."""
    weighed = any(c.significance is not None for c in view.circumstances)
    heads = [*(["Signif."] if weighed else []), view.measure, "Difference", "n"]
    table = _table("Circumstances at their worst level", ["Circumstance"], heads)
    for c in view.circumstances:
        place = c.name if c.worst_level is None else f"{c.name} @ {numbers.level(c.worst_level)}"
        significance = numbers.NONE if c.significance is None else f"{c.significance:g}"
        n = "" if c.worst is None else numbers.count(c.worst.n)
        if c.worst is not None and c.worst.failed:
            n += f"\n{c.worst.failed:,} failed"
        cells = [_found(view, c.worst), _found(view, c.difference.get(c.worst_level))]
        table.add_row(_plain(place), *([significance] if weighed else []), *cells, n)
    table.caption = intervals_at(view).strip()
    return table


def slices_table(view: RunView, *, most: int = 30) -> Table:
    """The worst slices first; those with too few cases last."""
    table = _table("Slices", ["Slice"], [view.measure, "n", "Remark"])
    for s in view.slices[:most]:
        remark = "too few cases" if s.too_small else ""
        table.add_row(_plain(s.name), _found(view, s.performance), numbers.count(s.n), remark)
    table.caption = intervals_at(view).strip()
    if len(view.slices) > most:
        table.caption = f"The worst {most} of {len(view.slices)}. {table.caption}"
    return table


def _table(title: str, texts: list[str], figures: list[str] | None = None) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_lines=False,
        padding=(0, 1),
    )
    for name in texts:
        table.add_column(name, overflow="fold", ratio=1)
    for name in figures or []:
        table.add_column(
            name, justify="left" if name in ("Status", "Remark") else "right", no_wrap=True
        )
    return table


def _claim_text(view: RunView, claim: Claim) -> Text:
    from rich.text import Text

    needs = f"\n{settle(view, claim)}" if claim.status == "inconclusive" else ""
    return Text.assemble((claim.id, "bold"), " ", claim.text, (needs, "dim"))


def _bound(claim: Claim, style: numbers.Style) -> Text:
    from rich.text import Text

    if claim.bound is None:
        return _plain(numbers.NONE)
    at = f"at {numbers.confidence(claim.confidence)}"
    return Text.assemble(
        (numbers.bound(claim.bound, claim.limit, style), "bold"), "\n", (at, "dim")
    )


def _status(claim: Claim) -> Text:
    from rich.text import Text

    return Text(
        f"{MARKS.get(claim.status, '-')} {claim.status}", style=COLOURS.get(claim.status, "")
    )


def _found(view: RunView, finding: Finding | None) -> Text:
    if finding is None:
        return _plain(numbers.NONE)
    style = view.style_of(finding.quantity)
    return _two_lines(numbers.estimate(finding.value, finding.interval, finding.n, style))


def _two_lines(shown: numbers.Shown, *, level: bool = False) -> Text:
    """The value with its interval under it; the table's caption says at which confidence, or the interval its own `level`."""
    from rich.text import Text

    ends = (
        shown.interval + (f" at {shown.confidence}" if level else "")
        if shown.confidence
        else "no interval"
    )
    return Text.assemble(shown.value, "\n", (ends, "dim"))


def _plain(text: str) -> Text:
    """Names are shown as they are: a bracket in one is no markup."""
    from rich.text import Text

    return Text(text)
