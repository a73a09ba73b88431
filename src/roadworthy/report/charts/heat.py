"""A heat table: circumstance by supervisor, the number in each cell; the shade runs by lightness alone, so grey print keeps it.

Many supervisors are broken into bands under each other rather than squeezed.

>>> drawn = heat(["clean"], ["max_softmax"], {("clean", "max_softmax"): HeatCell(0.91)}, title="AUC")
>>> "0.91" in drawn
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .palette import STEPS
from .rows import NARROW, known
from .svg import SMALL, Svg, chart, element, group, label, text_width

LOWEST, HIGHEST = 0.5, 1.0
"""The shade runs from chance to perfect; below chance a cell is as pale as at chance, and its number says so."""
ROW = 26.0
HEAD_LINES = 3


@dataclass(frozen=True)
class HeatCell:
    """One number."""

    value: float | None
    note: str = ""


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    *,
    title: str,
    width: float = 920,
) -> str:
    """The picture; a missing cell is a dash."""
    narrow = width < NARROW
    left = 126.0 if narrow else 220.0
    most = max(1, int((width - left) // (52 if narrow else 76)))
    bands = -(-len(columns) // most)
    per_band = -(-len(columns) // bands) if bands else 0
    cell = min((width - left) / max(per_band, 1), 170.0)
    body: list[Svg] = []
    top = 0.0
    for start in range(0, len(columns), per_band or 1):
        band = columns[start : start + per_band]
        names = [_wrapped(c, cell - 6) for c in band]
        head = max(len(n) for n in names) * 14 + 8
        body += _head(names, band, left, cell, top, head)
        body += [_row(r, band, cells, left, cell, top + head + i * ROW) for i, r in enumerate(rows)]
        top += head + len(rows) * ROW + 14
    return chart(
        body,
        name="heat",
        title=title,
        description=f"{len(rows)} rows by {len(columns)} columns; darker (in dark mode: lighter) is nearer to 1.",
        width=width,
        height=max(top - 8, 1),
        grow=1.4 if narrow else 1,
    )


def step(value: float) -> int:
    """Which shade of the ramp.

    >>> step(0.2), step(0.5), step(1.0)
    (0, 0, 7)
    """
    share = (value - LOWEST) / (HIGHEST - LOWEST)
    return min(max(int(share * STEPS), 0), STEPS - 1)


def _head(
    names: Sequence[list[str]], band: Sequence[str], left: float, cell: float, top: float, head: float
) -> list[Svg]:
    return [
        group(
            *(
                label(
                    part,
                    left + (i + 0.5) * cell,
                    top + head - 8 - 14 * (len(lines) - 1 - j),
                    width=cell - 4,
                    anchor="middle",
                    class_="muted",
                    font=SMALL,
                )
                for j, part in enumerate(lines)
            ),
            title=whole,
        )
        for i, (lines, whole) in enumerate(zip(names, band, strict=True))
    ]


def _row(
    row: str, band: Sequence[str], cells: Mapping[tuple[str, str], HeatCell], left: float, cell: float, top: float
) -> Svg:
    parts = [label(row, 0, top + 17, width=left - 16)]
    for i, column in enumerate(band):
        found = cells.get((row, column), HeatCell(None, "not measured here"))
        x = left + i * cell
        has = known(found.value) and found.value is not None
        shade = f"ramp{step(found.value)}" if has and found.value is not None else "blank"
        shown = f"{found.value:.2f}" if has and found.value is not None else "–"
        parts.append(
            group(
                element("rect", x=x + 1, y=top + 1, width=cell - 2, height=ROW - 2, rx=3, class_=shade),
                label(
                    shown,
                    x + cell / 2,
                    top + 17,
                    anchor="middle",
                    class_=f"num {shade}-ink" if has else "muted",
                ),
                title=found.note or f"{row}, {column}: {shown}",
            )
        )
    return group(*parts)


def _wrapped(name: str, width: float) -> list[str]:
    """The name in up to three lines, broken after underscores and blanks."""
    pieces = name.replace("_", "_\n").replace(" ", " \n").split("\n")
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if text_width(lines[-1] + piece, SMALL) <= width or len(lines) == HEAD_LINES:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [part.strip() for part in lines]
