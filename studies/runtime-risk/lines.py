"""Lines against a measured quantity: small multiples on one scale, several lines a panel, a band about any of them.

Lines differ by dash and mark as well as by colour. The first line is the one the picture is about: it is drawn last and thickest.

>>> ours = Line("ours", ((0.0, 0.02), (0.5, 0.03), (1.0, 0.04)), low=(0.01, 0.02, 0.03), high=(0.03, 0.04, 0.05))
>>> panel = LinePanel("CCT", (ours, Line("baseline", ((0.0, 0.02), (1.0, 0.6)))))
>>> drawn = lines_chart([panel], title="Error", x="rate of shift", y="error")
>>> drawn.count("<polyline"), drawn.count("<polygon"), "baseline" in drawn  # a line and its sample in the legend
(4, 1, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from roadworthy.report.charts.svg import (
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

MARGIN, GAP, HEIGHT, LEGEND = 52.0, 26.0, 252.0, 20.0
LOOKS = (
    ("accent", None, "circle"),
    ("breached", "7 4", "square"),
    ("met", "2 3", "diamond"),
    ("inconclusive", "9 3 2 3", "triangle"),
    ("muted", "4 3", "circle"),
    ("ink", "1 4", "square"),
)
"""Colour, dash and mark of each line, in order; after the last they begin again."""


@dataclass(frozen=True)
class Line:
    """A line through points (x, y), and the band about it."""

    name: str
    points: tuple[tuple[float, float], ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class LinePanel:
    """Lines on one pair of axes; a `limit` is a dashed horizontal line."""

    name: str
    lines: tuple[Line, ...]
    limit: float | None = None


def lines_chart(
    panels: Sequence[LinePanel],
    *,
    title: str,
    x: str,
    y: str,
    limit: str = "",
    style: str = "plain",
    columns: int = 3,
    at: Mapping[float, str] | None = None,
    width: float = 920,
) -> str:
    """The picture: panels in the order given, left to right; every name has one look in all of them.

    `at` names places on the horizontal axis, where these are no plain numbers.
    """
    names = list(dict.fromkeys(n.name for p in panels for n in p.lines))
    columns = min(columns, max(len(panels), 1))
    broad = (width - MARGIN - GAP * (columns - 1)) / columns
    xs = [px for p in panels for n in p.lines for px, _ in n.points]
    ys = chain.from_iterable(
        [*(v for _, v in n.points), *n.low, *n.high] for p in panels for n in p.lines
    )
    across = domain(xs, bounded=False, pad=0.03)
    low, high = domain([0.0, *ys, *(p.limit for p in panels)], bounded=False, pad=0.05)
    upward = max(low, 0.0), high
    legend, top = _legend(names, width, limit if any(p.limit is not None for p in panels) else "")
    body = [legend, label(y, 0, top + 6, class_="muted", font=SMALL)]
    top += 8
    for i, panel in enumerate(panels):
        left, above = MARGIN + (i % columns) * (broad + GAP), top + (i // columns) * HEIGHT
        scales = (
            LinearScale(*across, left, left + broad),
            LinearScale(*upward, above + HEIGHT - 50, above + 30),
        )
        body.append(_panel(panel, names, *scales, style=style, x=x, first=i % columns == 0, at=at))
    rows = -(-len(panels) // columns)
    return chart(
        body,
        name="lines",
        title=title,
        description=f"{len(panels)} panels on one scale: {y} against {x}, of {', '.join(names)}.",
        width=width,
        height=top + rows * HEIGHT,
    )


def _panel(
    panel: LinePanel,
    names: Sequence[str],
    across: LinearScale,
    upward: LinearScale,
    *,
    style: str,
    x: str,
    first: bool,
    at: Mapping[float, str] | None,
) -> Svg:
    left, right, base, ceiling = across.start, across.stop, upward.start, upward.stop
    parts = [
        label(panel.name, left, ceiling - 14, width=right - left, class_="strong"),
        axis(upward, left, right, style, vertical=True, numbered=first),
        axis(across, ceiling, base, "plain")
        if at is None
        else _named_axis(across, ceiling, base, at),
        line(left, base, right, base, "edge"),
        label(x, (left + right) / 2, base + 33, anchor="middle", class_="muted", font=SMALL),
    ]
    if panel.limit is not None:
        parts.append(line(left, upward(panel.limit), right, upward(panel.limit), "reference"))
    for one in sorted(panel.lines, key=lambda n: names.index(n.name), reverse=True):
        parts += _drawn(one, names.index(one.name), across, upward)
    return group(*parts)


def _named_axis(scale: LinearScale, top: float, bottom: float, at: Mapping[float, str]) -> Svg:
    grid = [line(scale(p), top, scale(p), bottom, "grid") for p in at]
    names = [
        label(t, scale(p), bottom + 16, anchor="middle", class_="muted num", font=SMALL)
        for p, t in at.items()
    ]
    return group(*grid, *names)


def _drawn(one: Line, look: int, across: LinearScale, upward: LinearScale) -> list[Svg]:
    colour, dash, mark = LOOKS[look % len(LOOKS)]
    places = [(across(px), upward(py)) for px, py in one.points]
    parts: list[Svg] = []
    if one.low and one.high:
        above = [(px, upward(v)) for (px, _), v in zip(places, one.high, strict=True)]
        below = [(px, upward(v)) for (px, _), v in zip(places, one.low, strict=True)]
        band = {"fill": f"var(--rw-{colour})", "fill_opacity": "0.14"}
        parts.append(element("polygon", points=points_text(above + below[::-1]), **band))
    thick = 2.6 if look == 0 else 1.7
    line_of = {
        "stroke": f"var(--rw-{colour})",
        "stroke_dasharray": dash,
        "fill": "none",
        "stroke_linejoin": "round",
    }
    parts.append(element("polyline", points=points_text(places), stroke_width=thick, **line_of))
    parts += [_mark(mark, px, py, colour, 3.4 if look == 0 else 2.6) for px, py in places]
    return [group(*parts, title=one.name)]


def _mark(mark: str, x: float, y: float, colour: str, r: float) -> Svg:
    fill = f"var(--rw-{colour})"
    if mark == "circle":
        return element("circle", cx=x, cy=y, r=r, fill=fill)
    if mark == "square":
        return element("rect", x=x - r, y=y - r, width=2 * r, height=2 * r, fill=fill)
    up, down = (x, y - 1.3 * r), (x, y + 1.3 * r)
    corners = [up, (x + 1.3 * r, y), down, (x - 1.3 * r, y)]
    if mark == "triangle":
        corners = [up, (x + 1.2 * r, y + r), (x - 1.2 * r, y + r)]
    return element("polygon", points=points_text(corners), fill=fill)


def _legend(names: Sequence[str], width: float, limit: str) -> tuple[Svg, float]:
    """Names with their looks, in as many rows as they need, and the height that takes."""
    parts: list[Svg] = []
    x, y = MARGIN, 14.0
    for i, name in enumerate([*names, *([limit] if limit else [])]):
        needed = 38 + text_width(name, SMALL) + 18
        if x > MARGIN and x + needed > width:
            x, y = MARGIN, y + LEGEND
        if i == len(names):
            parts.append(line(x, y - 4, x + 28, y - 4, "reference"))
        else:
            parts += _drawn(
                Line(name, ((0.0, 0.0), (1.0, 0.0))),
                i,
                LinearScale(0, 1, x, x + 28),
                LinearScale(0, 1, y - 4, y - 5),
            )
        parts.append(label(name, x + 38, y, font=SMALL))
        x += needed
    return group(*parts), y + 20.0
