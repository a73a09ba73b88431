"""Risk priority against loss: how much a circumstance matters, and how much it takes.

Risk priority is exposure x likelihood x severity, 1 to 125. What lies at the upper right is where to
work first. Labels never overlap: a dot without space for one keeps its tooltip.

>>> drawn = priority_chart([PriorityPoint("fog", 60, 0.34)], title="Where to work first")
>>> "fog" in drawn
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .rows import NARROW, dot, known
from .svg import (
    SMALL,
    LinearScale,
    Svg,
    axis,
    chart,
    domain,
    fit,
    group,
    label,
    line,
    text_width,
)

HIGHEST = 125.0
LONGEST = 150.0
"""Width of a label, at most."""
AROUND = (
    *(("start", 9, 4), ("end", -9, 4), ("middle", 0, -10), ("middle", 0, 18)),
    *(("start", 8, -8), ("start", 8, 16), ("end", -8, -8), ("end", -8, 16)),
)
"""Where a label may stand beside its dot, the best place first."""


@dataclass(frozen=True)
class PriorityPoint:
    """One circumstance; `loss` is the relative drop at its worst level."""

    name: str
    priority: float | None
    loss: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Box(NamedTuple):
    """A rectangle that something takes up."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def within(self, other: Box) -> bool:
        """Whether the other holds it."""
        across = self.left >= other.left and self.right <= other.right
        return across and self.top >= other.top and self.bottom <= other.bottom


def priority_chart(points: Sequence[PriorityPoint], *, title: str, width: float = 920) -> str:
    """The picture; points without a priority or a loss are left to the table."""
    drawn = sorted(
        (p for p in points if known(p.priority) and known(p.loss)),
        key=lambda p: -(p.priority or 0) * max(p.loss or 0, 0.001),
    )
    narrow = width < NARROW
    frame = Box(46.0, 24.0, width - 4, 300.0 if narrow else 330.0)
    losses = [v for p in drawn for v in (p.loss, p.low, p.high)]
    low, high = domain([*losses, 0.0], bounded=False, pad=0.08)
    across = LinearScale(0, HIGHEST, frame.left, frame.right)
    up = LinearScale(low, high, frame.bottom, frame.top + 6)
    below = "Risk priority" + ("" if narrow else " (exposure × likelihood × severity)")
    body = [
        axis(across, frame.top + 6, frame.bottom, "plain"),
        axis(up, frame.left, frame.right, "percent", vertical=True, count=6),
        line(frame.left, up(0), frame.right, up(0), "edge"),
        label("Relative loss at the worst level", 0, 14, class_="muted", font=SMALL),
        label(below, frame.right, frame.bottom + 36, anchor="end", class_="muted", font=SMALL),
    ]
    places = [(across(p.priority or 0), up(p.loss or 0)) for p in drawn]
    bars = [_bar(p, x, up) for p, (x, _) in zip(drawn, places, strict=True)]
    taken = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in places] + [b for b in bars if b]
    unnamed = 0
    for point, (x, y), bar in zip(drawn, places, bars, strict=True):
        parts = [line(x, bar.top, x, bar.bottom, "whisker thin")] if bar else []
        name = placed_label(point.name, x, y, taken, frame)
        unnamed += name is None
        parts += [dot(x, y), *([name] if name else [])]
        body.append(group(*parts, title=point.note or point.name))
    without = f"; {unnamed} dots are too close to others to be labelled, the table names them"
    return chart(
        body,
        name="priority",
        title=title,
        description=f"{len(drawn)} circumstances, risk priority against relative loss"
        f"{without if unnamed else ''}.",
        width=width,
        height=frame.bottom + 44,
        grow=1.4 if narrow else 1,
    )


def _bar(point: PriorityPoint, x: float, up: LinearScale) -> Box | None:
    """Where the interval is drawn; None if there is none."""
    if point.low is None or point.high is None or not (known(point.low) and known(point.high)):
        return None
    return Box(x - 2, up(point.high), x + 2, up(point.low))


def placed_label(name: str, x: float, y: float, taken: list[Box], frame: Box) -> Svg | None:
    """The label of a dot at the first free place, which is then taken; None if there is none."""
    wide = text_width(fit(name, LONGEST, SMALL), SMALL)
    for anchor, right, down in AROUND:
        start = x + right - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        box = Box(start - 2, y + down - 11, start + wide + 2, y + down + 4)
        if box.within(frame) and not any(box.meets(t) for t in taken):
            taken.append(box)
            return label(name, x + right, y + down, width=LONGEST, anchor=anchor, font=SMALL)
    return None
