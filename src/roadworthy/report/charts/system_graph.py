"""A system as a graph: modules as boxes, wires as lines, a panel a condition; each box is shaded by what is known of its module.

A box has a cell for each number: the stronger its shade, the worse. Modules stand from left to right as
the data flows; on a phone, from top to bottom.

>>> boxes = (ModuleBox("detector", (GraphCell("blame", "82%", 0.82),)), ModuleBox("tracker", ()))
>>> wires = (("input", "detector"), ("detector", "tracker"))
>>> drawn = system_graph([GraphPanel("fog @ 2", boxes)], wires, title="Blame")
>>> drawn.count("<rect"), "82%" in drawn
(3, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .palette import STEPS
from .rows import NARROW
from .svg import SMALL, Svg, chart, element, group, label, line, rectangle

INPUT = "input"
HEAD, CELL, GAP, BETWEEN, TITLE = 24.0, 20.0, 14.0, 34.0, 26.0
WIDEST = 210.0


@dataclass(frozen=True)
class GraphCell:
    """One number of a module; `shade` from 0 (as on clean data) to 1, None for not known."""

    name: str
    text: str
    shade: float | None = None
    note: str = ""


@dataclass(frozen=True)
class ModuleBox:
    """A module under one condition."""

    name: str
    cells: tuple[GraphCell, ...]


@dataclass(frozen=True)
class GraphPanel:
    """All modules under one condition."""

    name: str
    boxes: tuple[ModuleBox, ...]


def system_graph(
    panels: Sequence[GraphPanel],
    wires: Sequence[tuple[str, str]],
    *,
    title: str,
    width: float = 920,
) -> str:
    """The picture; wires lead from a module (or the input) to a module."""
    names = [box.name for box in panels[0].boxes]
    depth = depths(names, wires)
    down = width <= NARROW
    steps = max(depth.values()) + 1
    most = max(list(depth.values()).count(d) for d in range(steps))
    height = HEAD + CELL * max(len(b.cells) for p in panels for b in p.boxes) + 6
    slots = most if down else steps
    space = GAP if down else BETWEEN
    own = min((width - 2 - space * slots) / slots, WIDEST)
    body: list[Svg] = []
    top = 0.0
    for panel in panels:
        places: dict[str, tuple[float, float]] = {}
        for name in names:
            beside = [n for n in names if depth[n] == depth[name]].index(name)
            column, row = (beside, depth[name]) if down else (depth[name], beside)
            x = space * (0.5 if down else 1) + column * (own + space)
            places[name] = (x, top + TITLE + 16 + row * (height + (BETWEEN if down else GAP)))
        body.append(label(panel.name, 0, top + 16, class_="strong"))
        body += _wires(places, wires, own, height, top, down)
        body += [_box(box, *places[box.name], own, height) for box in panel.boxes]
        top = max(y for _, y in places.values()) + height + 20
    described = f"{len(names)} modules: {', '.join(names)}. {len(panels)} conditions."
    return chart(
        body, name="graph", title=title, description=described, width=width, height=top + 4
    )


def depths(names: Sequence[str], wires: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many modules stand before each; wires that lead back (to the next step) do not count.

    >>> depths(["a", "b", "c"], [("input", "a"), ("a", "b"), ("b", "c"), ("c", "a")])
    {'a': 0, 'b': 1, 'c': 2}
    """
    found: dict[str, int] = {}
    for name in names:
        before = [found[s] + 1 for s, t in wires if t == name and s in found]
        found[name] = max(before, default=0)
    return found


def _wires(
    places: Mapping[str, tuple[float, float]],
    wires: Sequence[tuple[str, str]],
    width: float,
    height: float,
    top: float,
    down: bool,
) -> list[Svg]:
    parts: list[Svg] = []
    for source, target in dict.fromkeys(wires):
        x, y = places[target]
        if source == INPUT:
            ends = (x + width / 2, y - 12, x + width / 2, y)
            if not down:
                ends = (x - BETWEEN + 6, y + height / 2, x, y + height / 2)
            parts.append(line(*ends, "reference"))
            continue
        a, b = places[source]
        forward = (b < y) if down else (a < x)
        if down:
            ends = (a + width / 2, b + height, x + width / 2, y)
        else:
            ends = (a + width, b + height / 2, x, y + height / 2)
        between = [p for n, p in places.items() if n not in (source, target)]
        if forward and any(_crossed(ends, p, width, height) for p in between):
            # Around the boxes that stand in the way: above them, on a phone to their left.
            over = min(a, x) - 7 if down else min(b, y) - 8
            path = f"M{a + 12:.1f} {b:.1f}V{over:.1f}H{x + 12:.1f}V{y:.1f}"
            if down:
                path = f"M{a:.1f} {b + 12:.1f}H{over:.1f}V{y + 12:.1f}H{x:.1f}"
            parts.append(element("path", d=path, class_="edge", fill="none"))
        elif forward:
            parts.append(line(*ends, "edge"))
        elif down:  # back to the next step: around the boxes
            side = max(a, x) + width + 7
            path = f"M{a + width:.1f} {b + 12:.1f}H{side:.1f}V{y + 12:.1f}H{x + width:.1f}"
            parts.append(element("path", d=path, class_="reference"))
        else:
            low = max(b, y) + height + 7
            path = f"M{a + 12:.1f} {b + height:.1f}V{low:.1f}H{x + 12:.1f}V{y + height:.1f}"
            parts.append(element("path", d=path, class_="reference"))
    return parts


def _crossed(
    ends: tuple[float, float, float, float], box: tuple[float, float], width: float, height: float
) -> bool:
    """Whether a straight wire runs through a box, at the middle of the box."""
    x1, y1, x2, y2 = ends
    left, top = box
    across, up = left + width / 2, top + height / 2
    if x1 < across < x2:
        return abs(y1 + (y2 - y1) * (across - x1) / (x2 - x1) - up) < height / 2
    return y1 < up < y2 and abs(x1 + (x2 - x1) * (up - y1) / (y2 - y1) - across) < width / 2


def _box(box: ModuleBox, x: float, y: float, width: float, height: float) -> Svg:
    parts = [
        rectangle(x, y, width, height, rx=4, class_="edge", fill="none"),
        label(box.name, x + 8, y + 16, class_="strong", width=width - 16),
    ]
    for i, cell in enumerate(box.cells):
        at = y + HEAD + CELL * i
        row = [label(cell.name, x + 8, at + 13, class_="muted", font=SMALL, width=width * 0.5 - 8)]
        ink = "num"
        if cell.shade is not None:
            shade = f"loss{min(max(int(cell.shade * STEPS), 0), STEPS - 1)}"
            ink, left = f"{shade}-ink", x + width * 0.5
            row.append(rectangle(left, at + 1, x + width - 6 - left, CELL - 3, rx=2, class_=shade))
        row.append(label(cell.text, x + width - 10, at + 14, anchor="end", class_=ink, font=SMALL))
        parts.append(group(*row, title=cell.note))
    return group(*parts)
