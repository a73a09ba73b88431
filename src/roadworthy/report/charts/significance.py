"""Significance against loss: how much a circumstance matters (exposure x likelihood x severity, 1 to 125) and how much it takes.

What lies at the upper right is where to work first. Labels never overlap: where there is no room the dot keeps its tooltip.

>>> drawn = significance_chart([SignificancePoint("fog", 60, 0.34)], title="Where to work first")
>>> "fog" in drawn
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .. import numbers
from .rows import NARROW, dot, known
from .svg import (
    SMALL,
    Scale,
    Svg,
    chart,
    domain,
    fit,
    group,
    horizontal_axis,
    label,
    line,
    text_width,
    vertical_axis,
)

HIGHEST = 125.0


@dataclass(frozen=True)
class SignificancePoint:
    """One circumstance; `loss` is the relative drop at its worst level."""

    name: str
    significance: float | None
    loss: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Box(NamedTuple):
    """Left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def significance_chart(
    points: Sequence[SignificancePoint], *, title: str, width: float = 920
) -> str:
    """The picture; points without a significance or a loss are left to the table."""
    drawn = sorted(
        (p for p in points if known(p.significance) and known(p.loss)),
        key=lambda p: -(p.significance or 0) * max(p.loss or 0, 0.001),
    )
    narrow = width < NARROW
    left, right, top, bottom = 46.0, width - 4, 30.0, (300.0 if narrow else 330.0)
    low, high = domain(
        [v for p in drawn for v in (p.loss, p.low, p.high)] + [0.0], bounded=False, pad=0.08
    )
    across, up = Scale(0, HIGHEST, left, right), Scale(low, high, bottom, top)
    body = [
        horizontal_axis(across, top, bottom, "plain"),
        vertical_axis(up, left, right, "percent", count=6),
        line(left, up(0), right, up(0), "edge"),
        label("Relative loss at the worst level", 0, 14, class_="muted", font=SMALL),
        label(
            "Significance" if narrow else "Significance (exposure × likelihood × severity)",
            right,
            bottom + 36,
            anchor="end",
            class_="muted",
            font=SMALL,
        ),
    ]
    places = [(across(p.significance or 0), up(p.loss or 0)) for p in drawn]
    spans = [_span(p, up, y) for p, (_, y) in zip(drawn, places, strict=True)]
    names = _names(drawn, places, spans, Box(left, top - 6, right, bottom))
    for point, (x, y), (above, below), name in zip(drawn, places, spans, names, strict=True):
        bar = [line(x, above, x, below, "whisker thin")] if below > above else []
        body.append(
            group(*bar, dot(x, y), *([name] if name else []), title=point.note or _note(point))
        )
    silent = sum(n is None for n in names)
    return chart(
        body,
        name="significance",
        title=title,
        description=f"{len(drawn)} circumstances, significance against relative loss"
        + (
            f"; {silent} dots are too close to others to be labelled, the table names them"
            if silent
            else ""
        )
        + ".",
        width=width,
        height=bottom + 44,
        grow=1.4 if narrow else 1,
    )


def _note(point: SignificancePoint) -> str:
    return f"{point.name}: significance {point.significance:g}, relative loss {numbers.value(point.loss, 'percent')}"


def _span(point: SignificancePoint, up: Scale, y: float) -> tuple[float, float]:
    """From where to where the interval reaches, top first."""
    if point.low is None or point.high is None or not (known(point.low) and known(point.high)):
        return y, y
    return up(point.high), up(point.low)


def _names(
    points: Sequence[SignificancePoint],
    places: Sequence[tuple[float, float]],
    spans: Sequence[tuple[float, float]],
    frame: Box,
) -> list[Svg | None]:
    """A label for each dot that has room for one, the weightiest first."""
    taken = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    taken += [
        Box(x - 2, above, x + 2, below)
        for (x, _), (above, below) in zip(places, spans, strict=True)
    ]
    names: list[Svg | None] = []
    for point, (x, y) in zip(points, places, strict=True):
        text = fit(point.name, 150, SMALL)
        wide = text_width(text, SMALL)
        choices = [
            ("start", x + 9, y + 4),
            ("end", x - 9, y + 4),
            ("middle", x, y - 10),
            ("middle", x, y + 18),
            ("start", x + 8, y - 8),
            ("start", x + 8, y + 16),
            ("end", x - 8, y - 8),
            ("end", x - 8, y + 16),
        ]
        name = None
        for anchor, tx, ty in choices:
            start = tx - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
            box = Box(start - 2, ty - 11, start + wide + 2, ty + 4)
            inside = (
                box.left >= frame.left
                and box.right <= frame.right
                and box.top >= frame.top
                and box.bottom <= frame.bottom
            )
            if inside and not any(box.meets(t) for t in taken):
                taken.append(box)
                name = label(point.name, tx, ty, width=150, anchor=anchor, font=SMALL)
                break
        names.append(name)
    return names
