"""A heat table: circumstance by supervisor, the number in each cell; the shade runs by lightness alone, so grey print keeps it.

Many columns have their names upright, and are broken into bands under each other only where even that is not enough; on a
phone the table is turned over where it is shorter so. What is chosen has a star and a frame: never colour alone.

>>> drawn = heat(["clean"], ["max_softmax"], {("clean", "max_softmax"): HeatCell(0.91)}, title="AUC")
>>> "0.91" in drawn
True
>>> cells = {("fog @ 3", "knn"): HeatCell(0.004)}
>>> missed = heat(["fog @ 3"], ["knn"], cells, title="Missed", ramp=MISSED, starred=["knn"])
>>> "&lt;1%" in missed, "★ knn" in missed
(True, True)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .palette import STEPS
from .rows import NARROW, known
from .svg import FONT, SMALL, Svg, chart, element, group, label, text_width

ROW = 26.0
HEAD_LINES = 3
UPRIGHT = 170.0
"""The most that an upright name gets; a longer one has its whole in the tooltip."""
SLIM = 27.0
"""The least width of a cell: a number of two digits in readable type."""
LEGEND = 34.0
STAR = "★ "
BENEATH = "loss2"
CORNER = 7.0


@dataclass(frozen=True)
class Ramp:
    """What the shades mean: the values of the palest and the strongest, and the words at both ends."""

    name: str
    lowest: float
    highest: float
    ends: tuple[str, str]
    share: bool = False
    below: str = ""
    """What a value under the lowest means, where that is another matter: it has a tint and a corner of its own."""

    def step(self, value: float) -> int:
        """Which shade; beyond the ends as at the ends, and the number says so.

        >>> RANKING.step(0.2), RANKING.step(0.5), RANKING.step(1.0), MISSED.step(0.5)
        (0, 0, 7, 4)
        """
        return min(
            max(int((value - self.lowest) / (self.highest - self.lowest) * STEPS), 0), STEPS - 1
        )

    def beneath(self, value: float) -> bool:
        """Whether the value, as it is written, lies under the lowest, and that has a meaning.

        >>> RANKING.beneath(0.36), RANKING.beneath(0.498), MISSED.beneath(0.0)
        (True, False, False)
        """
        return bool(self.below) and round(value, 2) < self.lowest

    def shade(self, value: float) -> str:
        """The class of a cell."""
        return BENEATH if self.beneath(value) else f"{self.name}{self.step(value)}"

    def text(self, value: float, *, unit: bool) -> str:
        """The number in a cell; never rounded to all or none.

        >>> RANKING.text(0.9996, unit=True), MISSED.text(0.9996, unit=True), MISSED.text(0.314, unit=False)
        ('>.99', '>99%', '31')
        """
        if not self.share:
            return ">.99" if 0.995 <= value < 1 else f"{value:.2f}"
        shown = "<1" if 0 < value < 0.005 else ">99" if 0.995 <= value < 1 else f"{100 * value:.0f}"
        return shown + ("%" if unit else "")


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
class _Side:
    """Rows or columns: their names, and which are chosen."""

    names: Sequence[str]
    starred: Collection[str]

    def shown(self, name: str) -> str:
        return STAR + name if name in self.starred else name


@dataclass(frozen=True)
class _Table:
    """The table as it is laid out at a width: everything in the chart's own units, worked out once for all its cells."""

    rows: _Side
    columns: _Side
    width: float
    turned: bool

    @property
    def font(self) -> float:
        """Of the rows' names."""
        return SMALL if self.width < NARROW else FONT

    @cached_property
    def left(self) -> float:
        longest = max(
            (text_width(self.rows.shown(r), self.font) for r in self.rows.names), default=0.0
        )
        return min(longest + 14, 126.0 if self.width < NARROW else 220.0)

    @cached_property
    def flat(self) -> bool:
        """Whether the names of the columns can lie; else they stand upright."""
        roomy = 52 if self.width < NARROW else 76
        return len(self.columns.names) * roomy <= self.width - self.left

    @cached_property
    def per_band(self) -> int:
        n = len(self.columns.names)
        most = n if self.flat else max(1, int((self.width - self.left) // SLIM))
        bands = -(-n // most) if n else 0
        return -(-n // bands) if bands else 1

    @cached_property
    def cell(self) -> float:
        return min((self.width - self.left) / self.per_band, 170.0 if self.flat else 64.0)

    @cached_property
    def bands(self) -> list[Sequence[str]]:
        return [
            self.columns.names[i : i + self.per_band]
            for i in range(0, len(self.columns.names), self.per_band)
        ]

    def lines(self, name: str) -> list[str]:
        """A column's name as it stands in the head, line by line."""
        whole = self.columns.shown(name)
        return _wrapped(whole, self.cell - 6) if self.flat else [whole]

    def head(self, band: Sequence[str]) -> float:
        """Height of a band's head."""
        if self.flat:
            return max(len(self.lines(name)) for name in band) * 14 + 8
        return min(max(text_width(self.columns.shown(name), SMALL) for name in band), UPRIGHT) + 12

    @cached_property
    def height(self) -> float:
        return sum(self.head(band) + len(self.rows.names) * ROW + 14 for band in self.bands)


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    *,
    title: str,
    width: float = 920,
    ramp: Ramp = RANKING,
    starred: Collection[str] = (),
) -> str:
    """The picture; a missing cell is a dash, and the columns in `starred` are marked as chosen."""
    table = _Table(_Side(rows, ()), _Side(columns, starred), width, False)
    if width < NARROW:
        turned = _Table(_Side(columns, starred), _Side(rows, ()), width, True)
        table = min(table, turned, key=lambda t: t.height)
    body: list[Svg] = []
    top = 0.0
    for band in table.bands:
        first = top + table.head(band)
        body += _head(table, band, first)
        body += [
            _row(table, r, band, cells, ramp, first + i * ROW)
            for i, r in enumerate(table.rows.names)
        ]
        body += _frames(table, band, first)
        top = first + len(table.rows.names) * ROW + 14
    if table.bands and rows:
        body.append(_legend(ramp, table, top))
        top += LEGEND
        if any(known(c.value) and ramp.beneath(c.value or 0.0) for c in cells.values()):
            body.append(_legend_below(ramp, table, top - 8))
            top += LEGEND - 12
    return chart(
        body,
        name="heat",
        title=title,
        description=f"{len(rows)} rows by {len(columns)} columns; darker (in dark mode: lighter) is nearer to "
        f"{ramp.highest:g}." + (f" Chosen: {', '.join(starred)}." if starred else ""),
        width=width,
        height=max(top - 8, 1),
        grow=1.4 if width < NARROW else 1,
    )


def _head(table: _Table, band: Sequence[str], bottom: float) -> list[Svg]:
    found = []
    for i, name in enumerate(band):
        middle = table.left + (i + 0.5) * table.cell
        ink = "strong" if name in table.columns.starred else "muted"
        if table.flat:
            lines = table.lines(name)
            parts = [
                label(
                    part,
                    middle,
                    bottom - 8 - 14 * (len(lines) - 1 - j),
                    width=table.cell - 4,
                    anchor="middle",
                    class_=ink,
                    font=SMALL,
                )
                for j, part in enumerate(lines)
            ]
            found.append(group(*parts, title=name))
        else:
            upright = label(table.columns.shown(name), 0, 0, width=UPRIGHT, class_=ink, font=SMALL)
            turn = f"translate({middle + 4:.1f} {bottom - 6:.1f}) rotate(-90)"
            found.append(group(upright, title=name, transform=turn))
    return found


def _row(
    table: _Table,
    row: str,
    band: Sequence[str],
    cells: Mapping[tuple[str, str], HeatCell],
    ramp: Ramp,
    top: float,
) -> Svg:
    ink = "strong" if row in table.rows.starred else "ink"
    parts = [
        label(
            table.rows.shown(row), 0, top + 17, width=table.left - 12, class_=ink, font=table.font
        )
    ]
    for i, column in enumerate(band):
        found = cells.get(
            (column, row) if table.turned else (row, column), HeatCell(None, "not measured here")
        )
        parts.append(
            _cell(found, f"{row}, {column}", table.left + i * table.cell, top, table.cell, ramp)
        )
    return group(*parts)


def _cell(found: HeatCell, place: str, x: float, top: float, cell: float, ramp: Ramp) -> Svg:
    value = found.value if known(found.value) else None
    shade = "blank" if value is None else ramp.shade(value)
    shown = "–" if value is None else ramp.text(value, unit=cell >= 40)
    ink = "muted" if value is None else f"num {shade}-ink" + (" strong" if found.picked else "")
    frame = f"M{x + 3:.1f} {top + 3:.1f}h{cell - 6:.1f}v{ROW - 6:.1f}h{6 - cell:.1f}z"
    return group(
        element("rect", x=x + 1, y=top + 1, width=cell - 2, height=ROW - 2, rx=3, class_=shade),
        *([_corner(x + 1, top + 1, shade)] if value is not None and ramp.beneath(value) else []),
        *(
            [element("path", d=frame, class_=f"picked {shade}-line")]
            if found.picked and value is not None
            else []
        ),
        label(
            shown,
            x + cell / 2,
            top + 17,
            anchor="middle",
            class_=ink,
            font=FONT if cell >= 40 else SMALL,
        ),
        title=found.note or f"{place}: {shown}",
    )


def _corner(x: float, y: float, shade: str) -> Svg:
    """The mark of a value that is worse than the scale's lowest: colour does not say it alone."""
    return element(
        "path",
        d=f"M{x:.1f} {y:.1f}h{CORNER:.1f}l{-CORNER:.1f} {CORNER:.1f}z",
        class_=f"{shade}-ink",
    )


def _frames(table: _Table, band: Sequence[str], top: float) -> list[Svg]:
    """A frame around each chosen column, or row where the table is turned."""
    wide, high = table.cell * len(band), ROW * len(table.rows.names)
    places = [
        (table.left + i * table.cell, top, table.cell, high)
        for i, c in enumerate(band)
        if c in table.columns.starred
    ]
    places += [
        (table.left, top + i * ROW, wide, ROW)
        for i, r in enumerate(table.rows.names)
        if r in table.rows.starred
    ]
    return [
        element("path", d=f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z", class_="chosen")
        for x, y, w, h in places
    ]


def _legend(ramp: Ramp, table: _Table, top: float) -> Svg:
    """The shades from end to end, with what they mean; under the cells, or further left where it would not fit."""
    low, high = ramp.ends
    before = text_width(low, SMALL) + 8
    left = max(
        min(table.left, table.width - before - 16 * STEPS - 8 - text_width(high, SMALL)), 0.0
    )
    start = left + before
    swatches = [
        element(
            "path", d=f"M{start + 16 * i:.1f} {top + 5:.1f}h16v11h-16z", class_=f"{ramp.name}{i}"
        )
        for i in range(STEPS)
    ]
    return group(
        label(low, left, top + 15, class_="muted", font=SMALL),
        *swatches,
        label(high, start + 16 * STEPS + 8, top + 15, class_="muted", font=SMALL),
        class_="legend",
    )


def _legend_below(ramp: Ramp, table: _Table, top: float) -> Svg:
    left = max(min(table.left, table.width - 24 - text_width(ramp.below, SMALL)), 0.0)
    return group(
        element("path", d=f"M{left:.1f} {top + 4:.1f}h16v13h-16z", class_=BENEATH),
        _corner(left, top + 4, BENEATH),
        label(ramp.below, left + 24, top + 15, class_="muted", font=SMALL),
        class_="legend",
    )


def _wrapped(name: str, width: float) -> list[str]:
    """The name in up to three lines, broken after underscores and blanks."""
    pieces = name.replace("_", "_\n").replace(" ", " \n").replace("(", "\n(").split("\n")
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if (
            text_width(lines[-1] + piece, SMALL) <= width
            or len(lines) == HEAD_LINES
            or lines[-1] == STAR
        ):
            lines[-1] += piece
        else:
            lines.append(piece)
    return [part.strip() for part in lines]
