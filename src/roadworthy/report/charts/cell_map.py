"""Maps of a plane cut into cells: a shade a cell, side by side on the same axes, with marks at single points.

Neighbours of one shade are drawn as one, which keeps the picture small.

>>> panel = MapPanel("profile", ((0.0, 0.9), (None, 0.2)), "ramp", ("rare", "common"))
>>> drawn = map_chart([panel], title="Where inputs lie", across=("x", 0.0, 1.0), up=("y", 0.0, 1.0))
>>> drawn.count('class="ramp7"'), "common" in drawn
(2, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from .palette import STEPS
from .rows import NARROW
from .svg import (
    SMALL,
    LinearScale,
    Svg,
    axis,
    chart,
    element,
    group,
    label,
    line,
    rectangle,
    text_width,
)

LEFT, GAP, TOP, BELOW = 46.0, 40.0, 30.0, 62.0
LARGEST = 360.0
SWATCH = 14.0


@dataclass(frozen=True)
class MapPanel:
    """One map: rows from the bottom up, values from 0 to 1, None for a cell of which nothing is known."""

    name: str
    values: tuple[tuple[float | None, ...], ...]
    ramp: str
    ends: tuple[str, str]
    marks: tuple[tuple[float, float, str], ...] = ()
    """Points that stand out: two coordinates and a tooltip."""
    marked: str = ""
    """What the marks are."""


def map_chart(
    panels: Sequence[MapPanel],
    *,
    title: str,
    across: tuple[str, float, float],
    up: tuple[str, float, float],
    width: float = 920,
) -> str:
    """The picture: side by side, or under each other on a phone; axes are a name and its range."""
    columns = 1 if width < NARROW else min(len(panels), 3)
    side = min((width - columns * LEFT - GAP * (columns - 1)) / columns, LARGEST)
    body, tall = [], TOP + side + BELOW
    for i, panel in enumerate(panels):
        left = LEFT + (i % columns) * (side + LEFT + GAP)
        top = TOP + (i // columns) * tall
        x = LinearScale(across[1], across[2], left, left + side)
        y = LinearScale(up[1], up[2], top + side, top)
        body += [
            label(panel.name, left, top - 12, width=side, class_="strong"),
            group(*_cells(panel, left, top, side)),
            axis(x, top, top + side, "plain"),
            axis(y, left, left + side, "plain", vertical=True),
            line(left, top + side, left + side, top + side, "edge"),
            label(
                f"→ {across[0]}",
                left + side,
                top + side + 30,
                anchor="end",
                class_="muted",
                font=SMALL,
            ),
            label(f"↑ {up[0]}", left + side, top - 12, anchor="end", class_="muted", font=SMALL),
            *(_mark(x(a), y(b), words) for a, b, words in panel.marks),
            _legend(panel, left, top + side + 38),
        ]
    return chart(
        body,
        name="map",
        title=title,
        description="; ".join(f"{p.name}: from {p.ends[0]} to {p.ends[1]}" for p in panels) + ".",
        width=columns * (side + LEFT) + GAP * (columns - 1) + 10,
        height=tall * -(-len(panels) // columns),
        grow=1.4 if width < NARROW else 1,
    )


def _cells(panel: MapPanel, left: float, top: float, side: float) -> list[Svg]:
    rows, parts = len(panel.values), []
    high = side / max(rows, 1)
    for i, row in enumerate(panel.values):
        broad, at = side / max(len(row), 1), 0
        steps = [None if v is None else min(int(v * STEPS), STEPS - 1) for v in row]
        for step, run in groupby(steps):
            count = len(list(run))
            if step is not None:
                place = (left + at * broad, top + side - (i + 1) * high, count * broad, high)
                parts.append(rectangle(*place, class_=f"{panel.ramp}{step}"))
            at += count
    return parts


def _mark(x: float, y: float, words: str) -> Svg:
    """A cross: its shape tells it from the shades."""
    d = f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"
    return group(element("path", d=d, class_="cross"), title=words)


def _legend(panel: MapPanel, left: float, top: float) -> Svg:
    low, high = panel.ends
    start = left + text_width(low, SMALL) + 6
    parts = [label(low, left, top + 10, class_="muted", font=SMALL)]
    parts += [
        rectangle(start + SWATCH * i, top + 1, SWATCH, 10, class_=f"{panel.ramp}{i}")
        for i in range(STEPS)
    ]
    after = start + SWATCH * STEPS + 6
    parts.append(label(high, after, top + 10, class_="muted", font=SMALL))
    if panel.marked:
        at = after + text_width(high, SMALL) + 14
        parts += [_mark(at, top + 6, ""), label(panel.marked, at + 8, top + 10, font=SMALL)]
    return group(*parts, class_="legend")
