"""A heat table: circumstance by supervisor, the number in each cell; shades differ by lightness.

Many columns have their names upright, and are broken into bands under each other if even that is
not enough; on a phone the table is turned over if it is shorter so. What is chosen has a star and a
frame: never colour alone.

>>> drawn = heat(["clean"], ["max_softmax"], {("clean", "max_softmax"): HeatCell(0.91)}, title="AUC")
>>> "0.910" in drawn
True
>>> cells = {("fog @ 3", "knn"): HeatCell(0.0004)}
>>> missed = heat(["fog @ 3"], ["knn"], cells, title="Missed", ramp=MISSED, starred=["knn"])
>>> "0.04%" in missed, "★ knn" in missed
(True, True)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from roadworthy import numbers

from .palette import STEPS
from .rows import NARROW, known
from .svg import FONT, SMALL, Svg, chart, element, group, label, rectangle, text_width, wrapped

ROW = 26.0
HEAD_LINES = 3
UPRIGHT = 170.0
"""The most that an upright name gets; a longer one has its whole in the tooltip."""
SLIM = 27.0
"""The least width of a cell: a number of two digits in readable type."""
WIDE_CELL = 48.0
"""From this width on a cell has its number in full."""
LEGEND, SWATCH = 34.0, 16.0
STAR, BENEATH = "★ ", "loss2"


@dataclass(frozen=True)
class Ramp:
    """What the shades mean: values of the palest and the strongest, and the words at both ends."""

    name: str
    lowest: float
    highest: float
    ends: tuple[str, str]
    share: bool = False
    below: str = ""
    """What a value under the lowest means, if that is another matter: it has a tint and a corner."""
    counts: bool = False
    """Whether values are whole numbers."""

    def beneath(self, value: float) -> bool:
        """Whether the value, as it is written, lies under the lowest, and that has a meaning.

        >>> RANKING.beneath(0.36), RANKING.beneath(0.4998), MISSED.beneath(0.0)
        (True, False, False)
        """
        return bool(self.below) and round(value, 3) < self.lowest

    def step(self, value: float) -> int:
        """Which shade; beyond the ends as at the ends, and the number says so.

        >>> RANKING.step(0.2), RANKING.step(0.5), RANKING.step(1.0), MISSED.step(0.5)
        (0, 0, 7, 4)
        """
        step = int((value - self.lowest) / (self.highest - self.lowest) * STEPS)
        return min(max(step, 0), STEPS - 1)

    def text(self, value: float, *, wide: bool) -> str:
        """The number in a cell, in two digits if there is no room for more; never rounded to all or none.

        >>> RANKING.text(0.9142, wide=True), MISSED.text(0.9142, wide=True), MISSED.text(0.9996, wide=False)
        ('0.914', '91.4%', '>99')
        """
        if self.counts:
            return f"{value:.0f}"
        if wide:
            return numbers.value(value, "percent" if self.share else "decimal")
        if not self.share:
            return ">.99" if 0.995 <= value < 1 else f"{value:.2f}"
        return "<1" if 0 < value < 0.005 else ">99" if 0.995 <= value < 1 else f"{100 * value:.0f}"


RANKING = Ramp(
    "ramp", 0.5, 1.0, ("0.5, chance", "1, perfect"), below="below 0.5, worse than chance"
)
MISSED = Ramp("loss", 0.0, 1.0, ("none missed", "all missed"), share=True)
ALARMED = Ramp("loss", 0.0, 1.0, ("no false alarms", "always an alarm"), share=True)


@dataclass(frozen=True)
class HeatCell:
    """One number; a picked one has a frame."""

    value: float | None
    note: str = ""
    picked: bool = False


@dataclass(frozen=True)
class _Grid:
    """The table as it is laid out at a width."""

    rows: Sequence[str]
    columns: Sequence[str]
    starred: Collection[str]
    width: float
    turned: bool = False

    def shown(self, name: str, *, column: bool) -> str:
        """A name, with a star if it is a chosen column (or row, if the table is turned)."""
        return STAR + name if self.chosen(name, column=column) else name

    def chosen(self, name: str, *, column: bool) -> bool:
        """Whether it is chosen."""
        return column is not self.turned and name in self.starred

    @property
    def font(self) -> float:
        """Of the rows' names."""
        return SMALL if self.width < NARROW else FONT

    @cached_property
    def left(self) -> float:
        names = [self.shown(row, column=False) for row in self.rows]
        longest = max((text_width(name, self.font) for name in names), default=0.0)
        return min(longest + 14, 126.0 if self.width < NARROW else 220.0)

    @cached_property
    def flat(self) -> bool:
        """Whether the names of the columns can lie; else they stand upright."""
        needed = 52 if self.width < NARROW else 76
        return len(self.columns) * needed <= self.width - self.left

    @cached_property
    def bands(self) -> list[Sequence[str]]:
        n = len(self.columns)
        most = n if self.flat else max(1, int((self.width - self.left) // SLIM))
        size = -(-n // -(-n // most)) if n else 1
        return [self.columns[i : i + size] for i in range(0, n, size)]

    @cached_property
    def cell(self) -> float:
        widest = max(map(len, self.bands), default=1)
        return min((self.width - self.left) / widest, 170.0 if self.flat else 64.0)

    def lines(self, name: str) -> list[str]:
        """A column's name as it stands in the head, line by line."""
        if not self.flat:
            return [self.shown(name, column=True)]
        first, *rest = wrapped(name, self.cell - 6, SMALL, most=HEAD_LINES)
        return [STAR + first if self.chosen(name, column=True) else first, *rest]

    def head(self, band: Sequence[str]) -> float:
        """Height of a band's head."""
        if self.flat:
            return max(len(self.lines(name)) for name in band) * 14 + 8
        return min(max(text_width(self.lines(name)[0], SMALL) for name in band), UPRIGHT) + 12

    @cached_property
    def height(self) -> float:
        return sum(self.head(band) + len(self.rows) * ROW + 14 for band in self.bands)


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    *,
    title: str,
    width: float = 920,
    ramp: Ramp = RANKING,
    starred: Collection[str] = (),
    turns: bool = True,
) -> str:
    """The picture; a missing cell is a dash, and columns in `starred` are chosen; a phone may turn it."""
    grid = _Grid(rows, columns, starred, width)
    if width < NARROW and turns:
        turned = _Grid(columns, rows, starred, width, turned=True)
        grid = min(grid, turned, key=lambda g: g.height)
    body: list[Svg] = []
    top = 0.0
    for band in grid.bands:
        first = top + grid.head(band)
        body += _head(grid, band, first)
        body += [_row(grid, r, band, cells, ramp, first + i * ROW) for i, r in enumerate(grid.rows)]
        body += _frames(grid, band, first)
        top = first + len(grid.rows) * ROW + 14
    if grid.bands and rows:
        below = any(known(c.value) and ramp.beneath(c.value or 0.0) for c in cells.values())
        body.append(_legend(ramp, grid, top, below=below))
        top += LEGEND + 22 * below
    chosen = f" Chosen: {', '.join(starred)}." if starred else ""
    return chart(
        body,
        name="heat",
        title=title,
        description=f"{len(rows)} rows by {len(columns)} columns; darker (in dark mode: lighter) "
        f"is nearer to {ramp.highest:g}.{chosen}",
        width=width,
        height=max(top - 8, 1),
        grow=1.4 if width < NARROW else 1,
    )


def _head(grid: _Grid, band: Sequence[str], bottom: float) -> Iterator[Svg]:
    for i, name in enumerate(band):
        middle, lines = grid.left + (i + 0.5) * grid.cell, grid.lines(name)
        ink = "strong" if grid.chosen(name, column=True) else "muted"
        if grid.flat:
            place = {"width": grid.cell - 4, "font": SMALL}
            first = bottom - 8 - 14 * (len(lines) - 1)
            parts = [
                label(part, middle, first + 14 * j, anchor="middle", class_=ink, **place)
                for j, part in enumerate(lines)
            ]
            yield group(*parts, title=name)
        else:
            upright = label(lines[0], 0, 0, width=UPRIGHT, class_=ink, font=SMALL)
            turn = f"translate({middle + 4:.1f} {bottom - 6:.1f}) rotate(-90)"
            yield group(upright, title=name, transform=turn)


def _row(
    grid: _Grid,
    row: str,
    band: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    ramp: Ramp,
    top: float,
) -> Svg:
    ink = "strong" if grid.chosen(row, column=False) else "ink"
    name, space = grid.shown(row, column=False), grid.left - 12
    parts = [label(name, 0, top + 17, width=space, class_=ink, font=grid.font)]
    for i, column in enumerate(band):
        key = (column, row) if grid.turned else (row, column)
        found = cells.get(key, HeatCell(None, "not measured here"))
        x = grid.left + i * grid.cell
        parts.append(_cell(found, f"{row}, {column}", x, top, grid.cell, ramp))
    return group(*parts)


def _cell(found: HeatCell, place: str, x: float, top: float, cell: float, ramp: Ramp) -> Svg:
    value = found.value if known(found.value) else None
    shown, shade, ink, below = "–", "blank", "muted", False
    if value is not None:
        below, shown = ramp.beneath(value), ramp.text(value, wide=cell >= WIDE_CELL)
        shade = BENEATH if below else f"{ramp.name}{ramp.step(value)}"
        ink = f"num {shade}-ink" + (" strong" if found.picked else "")
    parts = [rectangle(x + 1, top + 1, cell - 2, ROW - 2, rx=3, class_=shade)]
    parts += [_corner(x + 1, top + 1)] if below else []
    if found.picked and value is not None:
        parts.append(_frame(x + 3, top + 3, cell - 6, ROW - 6, f"picked {shade}-line"))
    font = FONT if cell >= WIDE_CELL else SMALL
    parts.append(label(shown, x + cell / 2, top + 17, anchor="middle", class_=ink, font=font))
    return group(*parts, title=found.note or f"{place}: {shown}")


def _corner(x: float, y: float) -> Svg:
    """The mark of a value under the lowest: colour is not its only sign."""
    return element("path", d=f"M{x:.1f} {y:.1f}h7l-7 7z", class_=f"{BENEATH}-ink")


def _frames(grid: _Grid, band: Sequence[str], top: float) -> Iterator[Svg]:
    """A frame around each chosen column, or row if the table is turned."""
    for i, name in enumerate(band):
        if grid.chosen(name, column=True):
            x = grid.left + i * grid.cell
            yield _frame(x, top, grid.cell, ROW * len(grid.rows), "chosen")
    for i, name in enumerate(grid.rows):
        if grid.chosen(name, column=False):
            yield _frame(grid.left, top + i * ROW, grid.cell * len(band), ROW, "chosen")


def _frame(x: float, y: float, width: float, height: float, class_: str) -> Svg:
    d = f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"
    return element("path", d=d, class_=class_)


def _legend(ramp: Ramp, grid: _Grid, top: float, *, below: bool) -> Svg:
    """The shades from end to end, with what they mean; further left if they would not fit."""
    low, high = ramp.ends
    before, swatches = text_width(low, SMALL) + 8, SWATCH * STEPS
    left = max(min(grid.left, grid.width - before - swatches - 8 - text_width(high, SMALL)), 0.0)
    start = left + before
    parts = [
        rectangle(start + SWATCH * i, top + 5, SWATCH, 11, class_=f"{ramp.name}{i}")
        for i in range(STEPS)
    ]
    parts += [
        label(low, left, top + 15, class_="muted", font=SMALL),
        label(high, start + swatches + 8, top + 15, class_="muted", font=SMALL),
    ]
    if below:
        parts += [
            rectangle(left, top + 30, SWATCH, 13, class_=BENEATH),
            _corner(left, top + 30),
            label(ramp.below, left + SWATCH + 8, top + 41, class_="muted", font=SMALL),
        ]
    return group(*parts, class_="legend")
