"""Performance against level: small multiples on one scale, a panel for each circumstance.

The dashed line is the clean value.

>>> fog = LevelPanel("fog", (LevelPoint(1, 0.88, 0.86, 0.90), LevelPoint(2, 0.71, 0.69, 0.73)))
>>> drawn = levels_chart([fog], title="Accuracy against level", clean=0.91)
>>> drawn.count("<circle"), "fog" in drawn
(2, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from roadworthy import numbers

from .rows import NARROW, known
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
    points_text,
    text_width,
)

MARGIN, GAP, HEIGHT = 46.0, 22.0, 186.0
TOP, INSET = 24.0, 16.0
BROADEST = 420.0
"""Of a panel: one or two at a desk would be stretched out of shape."""


@dataclass(frozen=True)
class LevelPoint:
    """Performance at one level."""

    level: float
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class LevelPanel:
    """One circumstance."""

    name: str
    points: tuple[LevelPoint, ...]


def levels_chart(
    panels: Sequence[LevelPanel],
    *,
    title: str,
    clean: float | None = None,
    style: numbers.Style = "percent",
    better: str = "higher",
    width: float = 920,
) -> str:
    """The picture: panels in the order given, left to right."""
    rows = -(-len(panels) // (2 if width < NARROW else 4))
    columns = -(-len(panels) // rows) if rows else 1
    broad = min((width - MARGIN - GAP * (columns - 1)) / columns, BROADEST)
    everything = [v for p in panels for q in p.points for v in (q.value, q.low, q.high)] + [clean]
    low, high = domain(everything, bounded=style == "percent")
    body = [_legend(clean, style, better)]
    for i, panel in enumerate(panels):
        column, row = i % columns, i // columns
        x, y = MARGIN + column * (broad + GAP), TOP + row * HEIGHT
        scale = LinearScale(low, high, y + HEIGHT - 38, y + 26)
        parts = [
            label(panel.name, x, y + 16, width=broad, class_="strong"),
            axis(scale, x, x + broad, style, vertical=True, numbered=column == 0),
            line(x, scale.start, x + broad, scale.start, "edge"),
        ]
        if clean is not None and known(clean):
            parts.append(line(x, scale(clean), x + broad, scale(clean), "reference"))
        body.append(group(*parts, *_curve(panel.points, x, broad, scale)))
    return chart(
        body,
        name="levels",
        title=title,
        description=f"{len(panels)} panels on one scale, performance against level with its "
        f"interval; the dashed line is the clean value {numbers.value(clean, style)}; {better} is "
        "better.",
        width=width,
        height=TOP + rows * HEIGHT,
        grow=1.4 if width < NARROW else 1,
    )


def _legend(clean: float | None, style: numbers.Style, better: str) -> Svg:
    words = f"clean {numbers.value(clean, style)}" if known(clean) else ""
    direction = f"{'↑ higher' if better == 'higher' else '↓ lower'} is better"
    parts = [line(MARGIN, 9, MARGIN + 22, 9, "reference")] if words else []
    start = MARGIN + 28 if words else MARGIN
    said = label(f"{words}   {direction}".strip(), start, 13, class_="muted num", font=SMALL)
    return group(*parts, said)


def _curve(points: Sequence[LevelPoint], x: float, width: float, scale: LinearScale) -> list[Svg]:
    """The points with their band, and the names of the levels below them.

    Levels are names of strengths, not measures of it: equal steps, whatever the numbers. A curve is
    not drawn across a level that gave no value.
    """
    step = (width - 2 * INSET) / max(len(points) - 1, 1)
    first = width / 2 if len(points) == 1 else INSET
    placed = [(x + first + i * step, point) for i, point in enumerate(points)]
    parts: list[Svg] = []
    for there, run in groupby(placed, lambda p: known(p[1].low) and known(p[1].high)):
        ends = [(at, scale(p.low or 0.0), scale(p.high or 0.0)) for at, p in run] if there else []
        outline = [(at, high) for at, _, high in ends] + [(at, low) for at, low, _ in ends[::-1]]
        if len(ends) == 1:
            parts.append(line(*outline[0], *outline[1], "whisker"))
        elif ends:
            parts.append(element("polygon", points=points_text(outline), class_="band"))
    for there, run in groupby(placed, lambda p: known(p[1].value)):
        dots = [(at, scale(p.value or 0.0), p) for at, p in run] if there else []
        if len(dots) > 1:
            line_of = points_text((at, y) for at, y, _ in dots)
            parts.append(element("polyline", points=line_of, class_="curve"))
        for at, y, p in dots:
            note = element("title", p.note or numbers.value(p.value))
            parts.append(element("circle", note, cx=at, cy=y, r=4, class_="dot"))
    names = [numbers.level(p.level) for p in points]
    widest = max((text_width(name, SMALL) for name in names), default=0) + 6
    every = max(1, -(-int(widest) // max(int(step), 1))) if len(points) > 1 else 1
    for (at, _), name in [*zip(placed, names, strict=True)][::every]:
        base = scale.start + 16
        parts.append(label(name, at, base, anchor="middle", class_="muted num", font=SMALL))
    return parts
