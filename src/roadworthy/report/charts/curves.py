"""Lines over a common axis: bounds against labels, errors against what is rejected, losses against distance.

Lines differ by colour and dashes, and may have a band; a legend names them, or their ends do.

>>> bound = CurveLine("upper bound", ((100, 0.04), (200, 0.02), (400, 0.01)))
>>> drawn = curves_chart([bound], title="Bound against labels", across="labels", up="pmi", limit=0.02)
>>> drawn.count("<polyline"), "upper bound" in drawn, "limit 2%" in drawn
(2, True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, repeat

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

LEFT, RIGHT, HEIGHT, TOP = 58.0, 14.0, 260.0, 12.0
LEADER, STEP = 28.0, 15.0  # from the end of a line to its name, and from name to name
SHADES = ("curve", "curve second", "curve third", "curve fourth", "curve fifth", "curve sixth")
"""Lines differ by colour and by their dashes."""


@dataclass(frozen=True)
class CurveLine:
    """Points from left to right; a band has a low and a high end for each of them."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] = ()
    dots: bool = False
    """Marks without a line between them."""
    notes: tuple[str, ...] = ()
    """A tooltip for each dot."""
    aside: bool = False
    """What the others are compared with: thin and grey, solid if it is the first such line."""


def curves_chart(
    lines: Sequence[CurveLine],
    *,
    title: str,
    across: str,
    up: str,
    style: numbers.Style = "percent",
    across_style: numbers.Style = "plain",
    limit: float | None = None,
    mark: tuple[float, str] | None = None,
    named_at_end: bool = False,
    width: float = 920,
) -> str:
    """The picture; `limit` is a dashed line across, `mark` one upwards. A phone has space for a legend only."""
    lines = [_known_part(one) for one in lines]
    width = min(width, 640.0) if width > NARROW else width
    right, named_at_end = width - RIGHT, named_at_end and width > NARROW
    if named_at_end:
        lines = [one for one in lines if one.points]
        right = width - LEADER - max([0.0, *(text_width(one.name, SMALL) for one in lines)])
    heights = [y for one in lines for _, y in one.points] + [
        end for one in lines for ends in one.band for end in ends
    ]
    x = LinearScale(
        *domain([p for one in lines for p, _ in one.points], bounded=False, pad=0.02),
        LEFT,
        right,
    )
    y = LinearScale(
        *domain([*heights, limit, 0.0], bounded=style == "percent"), TOP + HEIGHT, TOP + 8
    )
    body = [
        axis(y, LEFT, right, style, vertical=True),
        axis(x, TOP + 8, TOP + HEIGHT, across_style),
        line(LEFT, TOP + HEIGHT, right, TOP + HEIGHT, "edge"),
        label(across, right, TOP + HEIGHT + 32, anchor="end", class_="muted", font=SMALL),
        label(up, LEFT, TOP, class_="muted", font=SMALL),
    ]
    if limit is not None:
        body.append(line(LEFT, y(limit), right, y(limit), "reference"))
        words = f"limit {numbers.limit(limit, style)}"
        body.append(label(words, LEFT + 6, y(limit) - 5, class_="muted", font=SMALL))
    if mark is not None:
        body.append(line(x(mark[0]), TOP + 8, x(mark[0]), TOP + HEIGHT, "reference"))
        body.append(label(mark[1], x(mark[0]) + 6, TOP + HEIGHT - 8, class_="muted", font=SMALL))
    shades = _shades(lines)
    body += [_drawn(one, shade, x, y) for one, shade in zip(lines, shades, strict=True)]
    legend, rows = _legend(lines, shades, width, TOP + HEIGHT + 52)
    if named_at_end:
        legend, rows = _end_names(lines, shades, x, y), 0
    return chart(
        [*body, legend],
        name="curves",
        title=title,
        description=f"{up} against {across}: {', '.join(one.name for one in lines)}.",
        width=width,
        height=TOP + HEIGHT + 50 + 18 * rows,
        grow=1.4 if width < NARROW else 1,
    )


def _shades(lines: Sequence[CurveLine]) -> list[str]:
    own, aside = cycle(SHADES), chain(["curve aside"], repeat("reference"))
    return [next(aside if one.aside else own) for one in lines]


def _known_part(one: CurveLine) -> CurveLine:
    """Without points that are no numbers."""
    kept = [i for i, (x, y) in enumerate(one.points) if known(x) and known(y)]
    return replace(
        one,
        points=tuple(one.points[i] for i in kept),
        band=tuple(one.band[i] for i in kept) if one.band else (),
        notes=tuple(one.notes[i] for i in kept) if one.notes else (),
    )


def _drawn(one: CurveLine, shade: str, x: LinearScale, y: LinearScale) -> Svg:
    parts: list[Svg] = []
    at = [(x(a), y(b)) for a, b in one.points]
    if one.band:
        ends = list(zip(at, one.band, strict=True))
        outline = [(p, y(high)) for (p, _), (_, high) in ends]
        outline += [(p, y(low)) for (p, _), (low, _) in ends[::-1]]
        parts.append(element("polygon", points=points_text(outline), class_="band"))
    if at and not one.dots:
        parts.append(element("polyline", points=points_text(at), class_=shade))
    for i, (a, b) in enumerate(at if one.dots or len(at) == 1 else ()):
        note = element("title", one.notes[i]) if one.notes else Svg("")
        parts.append(element("circle", note, cx=a, cy=b, r=4, class_="dot"))
    return group(*parts, title=one.name)


def _end_names(
    lines: Sequence[CurveLine], shades: Sequence[str], x: LinearScale, y: LinearScale
) -> Svg:
    """The names beside the ends of the lines, moved apart where they would overlap."""
    parts: list[Svg] = []
    place, ends = -STEP, [(y(one.points[-1][1]), x(one.points[-1][0])) for one in lines]
    for i, which in enumerate(sorted(range(len(lines)), key=lambda j: ends[j])):
        (height, end), lowest = ends[which], TOP + HEIGHT - STEP * (len(lines) - 1 - i)
        place = min(max(height, place + STEP), lowest)
        leader = points_text([(end, height), (end + LEADER - 4, place)])
        parts.append(element("polyline", points=leader, class_=shades[which]))
        parts.append(label(lines[which].name, end + LEADER, place + 4, font=SMALL))
    return group(*parts, class_="legend")


def _legend(
    lines: Sequence[CurveLine], shades: Sequence[str], width: float, top: float
) -> tuple[Svg, int]:
    parts: list[Svg] = []
    at, row = LEFT, 0
    for one, shade in zip(lines, shades, strict=True):
        needed = 34 + text_width(one.name, SMALL) + 16
        if at + needed > width and at > LEFT:
            at, row = LEFT, row + 1
        y = top + 18 * row
        mark = [(at, y - 4), (at + 24, y - 4)]
        if one.dots:
            parts.append(element("circle", cx=at + 12, cy=y - 4, r=4, class_="dot"))
        else:
            parts.append(element("polyline", points=points_text(mark), class_=shade))
        parts.append(label(one.name, at + 30, y, class_="muted", font=SMALL))
        at += needed
    return group(*parts, class_="legend"), row + 1
