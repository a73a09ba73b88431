"""Claims at a glance: one row a claim, its value and deciding bound against the tick of its limit.

The thick bar runs from the value to the one-sided bound that decided, the thin one from the lower to the upper bound.
Claims of different quantities share no scale, so each quantity has a panel. The arrow at the limit
points to where it holds.

>>> row = ClaimRow("A-1", "accuracy at least 85%", "accuracy", 0.91, 0.90, 0.92, 0.85, "min", "met")
>>> "A-1" in claims_chart([row], title="Claims")
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roadworthy import numbers

from .rows import Layout, dot, known, whisker
from .svg import (
    SMALL,
    LinearScale,
    Svg,
    axis,
    chart,
    domain,
    element,
    group,
    label,
    line,
)

MARKS = {"met": "✓", "breached": "✗", "inconclusive": "?"}


@dataclass(frozen=True)
class ClaimRow:
    """One claim; `members` are the values of an ``every`` claim, drawn as small rings."""

    id: str
    text: str
    quantity: str
    value: float | None
    low: float | None
    high: float | None
    limit: float | None
    direction: str
    status: str
    style: numbers.Style = "percent"
    members: tuple[float, ...] = ()
    note: str = ""
    bound: float | None = None


def claims_chart(rows: Sequence[ClaimRow], *, title: str, width: float = 920) -> str:
    """The picture, in the order of the claims, quantities together."""
    layout = Layout.of(width, label=0.34, number=0.28, stacked_number=0.7)
    body: list[Svg] = []
    top = 2.0
    for quantity in dict.fromkeys(r.quantity for r in rows):
        panel = [r for r in rows if r.quantity == quantity]
        body.append(_panel(panel, layout, top))
        top += 26 + layout.row * len(panel) + 34
    counts = ", ".join(f"{sum(r.status == s for r in rows)} {s}" for s in MARKS)
    each = "Each a value with the bound that decided against its limit."
    return chart(
        body,
        name="claims",
        title=title,
        description=f"{len(rows)} claims: {counts}. {each}",
        width=width,
        height=top,
        grow=1.4 if layout.stacked else 1,
    )


def _panel(panel: Sequence[ClaimRow], layout: Layout, top: float) -> Svg:
    style, name = panel[0].style, panel[0].quantity.replace("_", " ")
    everything = [v for r in panel for v in (r.value, r.low, r.high, r.bound, r.limit, *r.members)]
    low, high = domain(everything, bounded=style == "percent", pad=0.1)
    scale = LinearScale(low, high, layout.left, layout.right)
    start = top + 26
    space = layout.right - layout.left
    return group(
        label(name, layout.left, top + 16, class_="muted strong", width=space, font=SMALL),
        axis(scale, start, start + layout.row * len(panel) + 2, style),
        *(_row(r, layout, scale, start + i * layout.row) for i, r in enumerate(panel)),
    )


def _row(row: ClaimRow, layout: Layout, scale: LinearScale, top: float) -> Svg:
    y = layout.mark_at(top)
    marks: list[Svg] = []
    if row.limit is not None and known(row.limit):
        marks.append(_limit(scale(row.limit), y, row.direction))
    marks += [
        element("circle", cx=scale(m), cy=y, r=3, class_="member") for m in row.members if known(m)
    ]
    shown = numbers.value(row.value, row.style)
    decided = known(row.bound) and known(row.value)
    marks += whisker(scale, y, row.low, row.high, "interval" if decided else row.status)
    if decided and row.bound is not None and row.value is not None:
        x = scale(row.bound)
        marks += whisker(scale, y, min(row.value, row.bound), max(row.value, row.bound), row.status)
        marks.append(line(x, y - 5, x, y + 5, f"whisker {row.status}"))
        shown += f", bound {numbers.bound(row.bound, row.limit, row.style)}"
    if row.value is not None and known(row.value):
        marks.append(dot(scale(row.value), y, row.status))
    shown += f"  {MARKS.get(row.status, '')} {row.status}"
    name = row.id if layout.stacked else f"{row.id}  {row.text}"
    class_ = f"strong num {row.status}"
    note = row.note or f"{row.id}: {shown}"
    return layout.drawn(top, name, marks, shown, class_=class_, note=note)


def _limit(x: float, y: float, direction: str) -> Svg:
    way = 1 if direction == "min" else -1
    arrow = f"M{x:.1f} {y - 9:.1f}h{6 * way}m0 0l{-3 * way}-2.5m{3 * way} 2.5l{-3 * way} 2.5"
    return group(
        line(x, y - 9, x, y + 9, "limit"),
        element("path", d=arrow, class_="edge", style="stroke:var(--rw-ink)"),
    )
