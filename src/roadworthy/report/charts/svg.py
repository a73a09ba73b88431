"""A tiny builder of SVG: elements with escaping, text that fits its place, scales and round axis ticks.

Plain strings are escaped; only what the builder itself made (`Svg`) goes in as markup.

>>> element("text", "a < b", x=1.5, class_="muted")
'<text x="1.5" class="muted">a &lt; b</text>'
>>> ticks(0.62, 0.98, 4)
[0.7, 0.8, 0.9]
>>> fit("a very long circumstance name", 60), wrapped("a very long circumstance name", 90)
('a very l…', ['a very long', 'circumstance', 'name'])
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import pairwise

FONT = 12.0
"""Size of a chart's text in its own units; a chart is laid out so that one unit is about one pixel."""
SMALL = 11.0


class Svg(str):
    """Markup made here, safe to nest."""


def element(name: str, *children: str, **attributes: str | float | None) -> Svg:
    """One element; ``class_`` is class and ``stroke_width`` is stroke-width; None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(v) if isinstance(v, int | float) else v)}"'
        for key, v in attributes.items()
        if v is not None
    )
    inside = "".join(c if isinstance(c, Svg) else escape(_printable(c)) for c in children)
    return Svg(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")


def group(*children: str, title: str = "", **attributes: str | float | None) -> Svg:
    """A group, with a tooltip if it has a title."""
    return element("g", *([element("title", title)] if title else []), *children, **attributes)


def chart(
    body: Iterable[Svg],
    *,
    name: str,
    title: str,
    description: str,
    width: float,
    height: float,
    grow: float = 1.0,
) -> Svg:
    """The whole picture; it shrinks with its place, and grows to `grow` times its own width."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        class_=f"rw-chart rw-{name}",
        role="img",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        style=f"max-width:{_number(width * grow)}px",
    )


def text_width(text: str, font: float = FONT) -> float:
    """About how wide a text is, rather too wide than too narrow: fonts differ from machine to machine."""
    return font * sum(
        0.33 if c in "ijltfI.,:;|!'()[] " else 0.9 if c in "mwMW@%—" else 0.6 for c in text
    )


def fit(text: str, width: float, font: float = FONT) -> str:
    """The text, shortened to the width."""
    if text_width(text, font) <= width:
        return text
    while text and text_width(text + "…", font) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def wrapped(text: str, width: float, font: float = FONT, *, most: float = math.inf) -> list[str]:
    """The text in as many lines as it takes, broken at blanks, after underscores and at brackets."""
    first, *pieces = re.findall(r"\(?[^\s_(]*_?\s?", text)
    lines = [first]
    for piece in pieces:
        fits = text_width((lines[-1] + piece).rstrip(), font) <= width
        if fits or not piece or len(lines) >= most:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [part.strip() for part in lines]


def label(
    text: str,
    x: float,
    y: float,
    *,
    width: float = math.inf,
    anchor: str = "start",
    class_: str = "ink",
    font: float = FONT,
) -> Svg:
    """A text that fits its place; what had to be shortened has the whole in a tooltip."""
    short = fit(text, width, font)
    whole = [element("title", text)] if short != text else []
    return element(
        "text",
        short,
        *whole,
        x=x,
        y=y,
        class_=class_,
        text_anchor=None if anchor == "start" else anchor,
        font_size=font,
    )


def rectangle(
    x: float, y: float, width: float, height: float, **attributes: str | float | None
) -> Svg:
    """A rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, **attributes)


def strip(x: float, y: float, width: float, height: float) -> Svg:
    """What makes a whole row answer to the pointer, not only its marks."""
    return rectangle(x, y, width, height, fill="transparent")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Svg:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


@dataclass(frozen=True)
class LinearScale:
    """A straight map from values to places; a value beyond the end stays at the end."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, x: float) -> float:
        share = (min(max(x, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


def domain(
    values: Iterable[float | None], *, bounded: bool, pad: float = 0.06
) -> tuple[float, float]:
    """The range of the finite values with some air; `bounded` values are shares and stay within 0 and 1.

    >>> domain([0.5, 0.9, None, math.nan], bounded=True, pad=0.1)
    (0.46, 0.94)
    """
    finite = [v for v in values if v is not None and math.isfinite(v)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    flat = high - low <= 1e-9 * max(1.0, abs(high))
    air = max(abs(high) * 0.1, 0.05) if flat else pad * (high - low)
    floor = 0.0 if bounded and low >= 0 else -math.inf
    ceiling = 1.0 if bounded and high <= 1 else math.inf
    low, high = max(low - air, floor), min(high + air, ceiling)
    return round(low, 12), round(high, 12)


def ticks(low: float, high: float, count: int) -> list[float]:
    """At most about `count` round numbers (steps of 1, 2 or 5) inside the range."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]


def tick_text(places: list[float], style: str) -> list[str]:
    """The ticks as text, all with as many decimals as the finest needs."""
    shown = [100 * p if style in ("percent", "points") else p for p in places]
    step = min((b - a for a, b in pairwise(shown)), default=abs(shown[0]) if shown else 1) or 1
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    unit = "%" if style == "percent" else ""
    return [f"{v:,.{decimals}f}".replace("-", "−") + unit for v in shown]


def axis(
    scale: LinearScale,
    start: float,
    stop: float,
    style: str,
    *,
    vertical: bool = False,
    numbered: bool = True,
    count: int = 5,
) -> Svg:
    """Grid lines from start to stop, and the numbers below them, or left of them if `vertical`."""
    if not vertical:
        count = max(2, int((scale.stop - scale.start) / 72))
    places = ticks(scale.low, scale.high, count)
    parts = []
    for at, words in zip(map(scale, places), tick_text(places, style), strict=True):
        ends = (start, at, stop, at) if vertical else (at, start, at, stop)
        parts.append(line(*ends, "grid"))
        if numbered:
            x, y, anchor = (start - 6, at + 4, "end") if vertical else (at, stop + 16, "middle")
            parts.append(label(words, x, y, anchor=anchor, class_="muted num", font=SMALL))
    return group(*parts)


def points_text(points: Iterable[tuple[float, float]]) -> str:
    """Points as the attribute of a polygon or polyline."""
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(x: float) -> str:
    return f"{x:.2f}".rstrip("0").rstrip(".") if isinstance(x, float) else str(x)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
