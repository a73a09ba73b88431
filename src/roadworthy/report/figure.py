"""A figure: one chart, drawn once for a desk and once for a phone, with its caption.

>>> Figure("figure-x", "A caption.", "<svg>wide</svg>", "<svg>narrow</svg>").id
'figure-x'
>>> place_name("fog", 2.0), place_name("", None)
('fog @ 2', 'clean')
"""

from __future__ import annotations

from dataclasses import dataclass

from . import numbers

WIDE, NARROW = 920.0, 336.0
MOST_ROWS = 60
"""A chart with more rows is no longer looked at; the worst are drawn, the table has the rest."""


@dataclass(frozen=True)
class Figure:
    """A chart with its caption, in two widths."""

    id: str
    caption: str
    wide: str
    narrow: str


def place_name(circumstance: str, level: float | None) -> str:
    """A circumstance at a level, as charts and tables write it."""
    if not circumstance:
        return "clean"
    return circumstance if level is None else f"{circumstance} @ {numbers.level(level)}"
