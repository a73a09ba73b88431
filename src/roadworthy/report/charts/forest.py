"""A forest plot: one row a slice or circumstance, value with interval; a dashed line is the overall
value. Rows stand worst first, or as given.

>>> row = ForestRow("Shirt", 0.71, 0.64, 0.77, "n = 200")
>>> drawn = forest([row], title="Accuracy by class", reference=0.91)
>>> 'role="img"' in drawn and "Shirt" in drawn
True
"""

from __future__ import annotations

import math
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
    label,
    line,
    text_width,
)


@dataclass(frozen=True)
class ForestRow:
    """One row; `note` stands in the tooltip, `shown` at the right (the value by default)."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    shown: str = ""


def forest(
    rows: Sequence[ForestRow],
    *,
    title: str,
    reference: float | None = None,
    reference_label: str = "clean",
    style: numbers.Style = "percent",
    better: str = "higher",
    order: str = "worst first",
    width: float = 920,
) -> str:
    """The picture, worst row first, or in the order of the rows if `order` names another one."""
    ordered = (
        sorted(rows, key=lambda r: _badness(r.value, better))
        if order == "worst first"
        else list(rows)
    )
    layout = Layout.of(width)
    everything = [v for r in ordered for v in (r.value, r.low, r.high)] + [reference]
    low, high = domain(everything, bounded=style == "percent")
    scale = LinearScale(low, high, layout.left, layout.right)
    top = 26.0
    bottom = top + layout.row * len(ordered) + 4
    body = [axis(scale, top, bottom, style)]
    if reference is not None and known(reference):
        words = f"{reference_label} {numbers.value(reference, style)}"
        body += _reference(scale, reference, words, layout, top, len(ordered))
    body += [_row(r, layout, scale, top + i * layout.row, style) for i, r in enumerate(ordered)]
    direction = f"{'Higher' if better == 'higher' else 'Lower'} is better."
    lowest = min(ordered, key=lambda r: _badness(r.value, better), default=None)
    worst = f" Worst: {lowest.label}, {numbers.value(lowest.value, style)}." if lowest else ""
    return chart(
        body,
        name="forest",
        title=title,
        description=f"{len(ordered)} rows, {order}, each a value with its interval. {direction}{worst}",
        width=width,
        height=bottom + 24,
        grow=1.4 if layout.stacked else 1,
    )


def _badness(value: float | None, better: str) -> float:
    if value is None or math.isnan(value):
        return math.inf
    return value if better == "higher" else -value


def _reference(
    scale: LinearScale, at: float, text: str, layout: Layout, top: float, rows: int
) -> list[Svg]:
    x = scale(at)
    pieces = [(top - 4, top + rows * layout.row + 4)]
    if layout.stacked:  # the number stands above the bar, and a whole line would cross it
        marks = [layout.mark_at(top + i * layout.row) for i in range(rows)]
        pieces = [(y - 9, y + 9) for y in marks]
    half = text_width(text, SMALL) / 2
    centre = min(max(x, scale.start + half), scale.stop - half)
    return [
        *(line(x, start, x, stop, "reference") for start, stop in pieces),
        label(text, centre, top - 10, anchor="middle", class_="muted num", font=SMALL),
    ]


def _row(
    row: ForestRow, layout: Layout, scale: LinearScale, top: float, style: numbers.Style
) -> Svg:
    y, there = layout.mark_at(top), row.value is not None and known(row.value)
    shown = row.shown or (numbers.value(row.value, style) if there else "no value")
    marks = whisker(scale, y, row.low, row.high)
    if row.value is not None and there:
        marks.append(dot(scale(row.value), y))
    class_ = "ink num" if there else "muted"
    note = row.note or f"{row.label}: {shown}"
    return layout.drawn(top, row.label, marks, shown, class_=class_, note=note)
