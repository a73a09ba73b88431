"""Performance against level: small multiples on one scale, one panel a circumstance, the clean value as a dashed line.

>>> fog = LevelPanel("fog", (LevelPoint(1, 0.88, 0.86, 0.90), LevelPoint(2, 0.71, 0.69, 0.73)))
>>> drawn = levels_chart([fog], title="Accuracy against level", clean=0.91)
>>> drawn.count("<circle"), "fog" in drawn
(2, True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import numbers
from .rows import NARROW, known
from .svg import (
    SMALL,
    Scale,
    Svg,
    chart,
    domain,
    element,
    group,
    joined,
    label,
    line,
    text_width,
    vertical_axis,
)

MARGIN = 46.0
GAP = 22.0
HEIGHT = 186.0


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
    # One or two panels at a desk would be stretched out of shape: they keep the size that four have at least half.
    broad = min((width - MARGIN - GAP * (columns - 1)) / columns, 420.0)
    everything = [v for p in panels for q in p.points for v in (q.value, q.low, q.high)] + [clean]
    low, high = domain(everything, bounded=style == "percent")
    top = 24.0
    body = [_legend(clean, style, better)]
    for i, panel in enumerate(panels):
        x = MARGIN + (i % columns) * (broad + GAP)
        y = top + (i // columns) * HEIGHT
        scale = Scale(low, high, y + HEIGHT - 38, y + 26)
        body.append(_panel(panel, x, broad, y, scale, clean, style, first=i % columns == 0))
    return chart(
        body,
        name="levels",
        title=title,
        description=f"{len(panels)} panels on one scale, performance against level with its interval; "
        f"the dashed line is the clean value {numbers.value(clean, style)}; {better} is better.",
        width=width,
        height=top + rows * HEIGHT,
        grow=1.4 if width < NARROW else 1,
    )


def _legend(clean: float | None, style: numbers.Style, better: str) -> Svg:
    words = f"clean {numbers.value(clean, style)}" if known(clean) else ""
    direction = f"{'↑ higher' if better == 'higher' else '↓ lower'} is better"
    parts = [line(MARGIN, 9, MARGIN + 22, 9, "reference")] if words else []
    start = MARGIN + 28 if words else MARGIN
    return group(
        *parts, label(f"{words}   {direction}".strip(), start, 13, class_="muted num", font=SMALL)
    )


def _panel(
    panel: LevelPanel,
    x: float,
    width: float,
    y: float,
    scale: Scale,
    clean: float | None,
    style: numbers.Style,
    *,
    first: bool,
) -> Svg:
    base, right = scale.start, x + width
    inset = 16.0
    count = len(panel.points)
    step = (width - 2 * inset) / max(count - 1, 1)
    # Levels are names of strengths, not measures of it: equal steps, whatever the numbers.
    places = [x + (width / 2 if count == 1 else inset + i * step) for i in range(count)]
    parts = [
        label(panel.name, x, y + 16, width=width, class_="strong"),
        vertical_axis(scale, x, right, style, numbers=first),
        line(x, base, right, base, "edge"),
    ]
    if known(clean) and clean is not None:
        parts.append(line(x, scale(clean), right, scale(clean), "reference"))
    parts += _curve(panel.points, places, scale)
    parts += _level_names(panel.points, places, base, step)
    return group(*parts)


def _curve(points: Sequence[LevelPoint], places: Sequence[float], scale: Scale) -> list[Svg]:
    parts: list[Svg] = []
    for run in _runs(points, lambda p: known(p.low) and known(p.high)):
        above = [(places[i], scale(points[i].high or 0.0)) for i in run]
        below = [(places[i], scale(points[i].low or 0.0)) for i in reversed(run)]
        if len(run) == 1:
            parts.append(line(*above[0], *below[0], "whisker"))
        else:
            parts.append(element("polygon", points=joined(above + below), class_="band"))
    for run in _runs(points, lambda p: known(p.value)):
        drawn = [(places[i], scale(points[i].value or 0.0)) for i in run]
        if len(run) > 1:
            parts.append(element("polyline", points=joined(drawn), class_="curve"))
        for i, (px, py) in zip(run, drawn, strict=True):
            note = element("title", points[i].note or numbers.value(points[i].value))
            parts.append(element("circle", note, cx=px, cy=py, r=4, class_="dot"))
    return parts


def _runs(points: Sequence[LevelPoint], has: Callable[[LevelPoint], bool]) -> list[list[int]]:
    """Stretches without a gap: a curve is not drawn across a level that gave no value."""
    runs: list[list[int]] = [[]]
    for i, point in enumerate(points):
        if has(point):
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    return [r for r in runs if r]


def _level_names(
    points: Sequence[LevelPoint], places: Sequence[float], base: float, step: float
) -> list[Svg]:
    names = [numbers.level(p.level) for p in points]
    widest = max((text_width(n, SMALL) for n in names), default=0) + 6
    every = max(1, -(-int(widest) // max(int(step), 1))) if len(points) > 1 else 1
    return [
        label(n, x, base + 16, anchor="middle", class_="muted num", font=SMALL)
        for i, (n, x) in enumerate(zip(names, places, strict=True))
        if i % every == 0
    ]
