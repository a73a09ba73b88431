"""Loss against distance, with the tolerated loss drawn in (Wozniak et al. 2024, task 7).

What lies above the line epsilon breaks the relation. Epsilon may jump; beyond its last piece it says
nothing, and the line ends. Labels never overlap: a dot without space for one keeps its tooltip.

>>> drawn = relation_chart([LossPoint("fog @ 2", 0.3, 0.2, status="met")], [(1.0, 0.5, 0.1)], title="AP")
>>> "fog @ 2" in drawn, drawn.count("<polyline")
(True, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .priority import Box, placed_label
from .rows import NARROW, dot, known
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
)


@dataclass(frozen=True)
class LossPoint:
    """One condition; `status` gives its shape."""

    name: str
    d: float
    loss: float
    low: float | None = None
    high: float | None = None
    status: str = ""
    note: str = ""


def relation_chart(
    points: Sequence[LossPoint],
    epsilon: Sequence[tuple[float, float, float]],
    *,
    title: str,
    width: float = 920,
) -> str:
    """The picture; `epsilon` holds (up to, slope, intercept) of each piece."""
    shown = [p for p in points if known(p.d) and known(p.loss)]
    narrow = width < NARROW
    frame = Box(52.0, 24.0, width - 8, 300.0 if narrow else 360.0)
    # Pieces may end far from all points: the picture is of the points.
    farthest = max(1.15 * max((p.d for p in shown), default=1.0), 1e-6)
    tolerated = [y for piece in _pieces(epsilon, farthest) for _, y in piece]
    losses = [v for p in shown for v in (p.loss, p.low, p.high)]
    across = LinearScale(0, farthest, frame.left, frame.right)
    up = LinearScale(
        *domain([*losses, *tolerated, 0.0], bounded=False), frame.bottom, frame.top + 6
    )
    body = [
        axis(across, frame.top + 6, frame.bottom, "plain"),
        axis(up, frame.left, frame.right, "plain", vertical=True, count=6),
        line(frame.left, up(0), frame.right, up(0), "edge"),
        label("Loss", 0, 14, class_="muted", font=SMALL),
        label("Distance", frame.right, frame.bottom + 34, anchor="end", class_="muted", font=SMALL),
    ]
    taken = [Box(across(p.d) - 7, up(p.loss) - 7, across(p.d) + 7, up(p.loss) + 7) for p in shown]
    for piece in _pieces(epsilon, farthest):
        at = [(across(x), up(y)) for x, y in piece]
        body.append(element("polyline", points=points_text(at), class_="curve"))
        taken.append(Box(at[0][0], min(y for _, y in at) - 3, at[1][0], max(y for _, y in at) + 3))
    if epsilon:
        (x, y), _ = _pieces(epsilon, farthest)[-1]
        words = label("epsilon", across(x) + 6, up(y) - 8, class_="muted", font=SMALL)
        body.append(words)
        taken.append(Box(across(x), up(y) - 20, across(x) + 54, up(y) - 4))
    body += [_point(p, across, up, taken, frame) for p in sorted(shown, key=lambda p: -p.loss)]
    return chart(
        body,
        name="relation",
        title=title,
        description=f"{len(shown)} conditions, loss against distance.",
        width=width,
        height=frame.bottom + 42,
        grow=1.4 if narrow else 1,
    )


def _point(p: LossPoint, across: LinearScale, up: LinearScale, taken: list[Box], frame: Box) -> Svg:
    x, y = across(p.d), up(p.loss)
    parts = []
    if p.low is not None and p.high is not None and known(p.low) and known(p.high):
        parts.append(line(x, up(p.high), x, up(p.low), f"whisker thin {p.status}".strip()))
    name = placed_label(p.name, x, y, taken, frame)
    parts += [dot(x, y, p.status), *([name] if name else [])]
    return group(*parts, title=p.note or p.name)


def _pieces(
    epsilon: Sequence[tuple[float, float, float]], farthest: float
) -> list[list[tuple[float, float]]]:
    """The two ends of each piece that begins within the picture."""
    found, start = [], 0.0
    for up_to, slope, intercept in epsilon:
        end = min(up_to, farthest)
        if start < farthest:
            found.append([(x, slope * x + intercept) for x in (start, end)])
        start = up_to
    return found
