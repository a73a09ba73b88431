"""What charts of one row an item share: where label, plot and number stand, and how a row is drawn.

>>> Layout.of(920).stacked, Layout.of(380).stacked
(False, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .svg import LinearScale, Svg, element, group, label, line, strip

NARROW = 560.0
"""Below this width a row's label stands above its plot instead of left of it."""


@dataclass(frozen=True)
class Layout:
    """The places of a chart of rows."""

    width: float
    stacked: bool
    left: float
    right: float
    row: float
    number_share: float = 0.46
    """Of the width on a phone."""

    @classmethod
    def of(
        cls,
        width: float,
        *,
        label: float = 0.26,
        number: float = 0.22,
        stacked_number: float = 0.46,
    ) -> Layout:
        """For a width; `label` and `number` are the shares of it that these get at a desk."""
        if width < NARROW:
            return cls(width, True, 14, width - 14, 46, stacked_number)
        return cls(width, False, round(width * label), round(width * (1 - number)), 28)

    def mark_at(self, top: float) -> float:
        """Where the row's dot lies."""
        return top + (31 if self.stacked else 14)

    def drawn(
        self, top: float, name: str, marks: Iterable[Svg], shown: str, *, class_: str, note: str
    ) -> Svg:
        """A row: its name, its marks on the scale, its number at the right, and a tooltip."""
        base = top + (15 if self.stacked else 18)
        space = self.width * (0.96 - self.number_share) if self.stacked else self.left - 16
        number = self.width * self.number_share if self.stacked else self.width - self.right - 10
        return group(
            strip(0, top, self.width, self.row),
            label(name, 0, base, width=space),
            *marks,
            label(shown, self.width, base, anchor="end", class_=class_, width=number),
            title=note,
        )


def whisker(
    scale: LinearScale, y: float, low: float | None, high: float | None, status: str = ""
) -> list[Svg]:
    """The interval as a bar; nothing if there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return []
    return [line(scale(low), y, scale(high), y, f"whisker {status}".strip())]


def dot(x: float, y: float, status: str = "") -> Svg:
    """A status has its own shape: met a disc, breached a diamond, inconclusive a ring."""
    if status == "breached":
        diamond = f"M{x:.1f} {y - 6.5:.1f}l6.5 6.5l-6.5 6.5l-6.5-6.5z"
        return element("path", d=diamond, class_="dot breached")
    if status == "inconclusive":
        return element("circle", cx=x, cy=y, r=4.75, class_="hollow")
    return element("circle", cx=x, cy=y, r=5, class_=f"dot {status}".strip())


def known(x: float | None) -> bool:
    """Whether there is a number to draw."""
    return x is not None and math.isfinite(x)
