"""How a report writes numbers: three significant digits, percentages where they are natural, never a rounded-up 100%.

>>> value(0.9124, "percent"), value(0.9996, "percent"), value(-0.123, "points"), value(12.3456, "plain")
('91.2%', '99.96%', '−12.3 pp', '12.3')
>>> value(0.9285, "percent"), limit(0.9, "percent"), bound(0.8996, 0.9, "percent")
('92.9%', '90%', '89.96%')
>>> from roadworthy.statistics import Interval
>>> shown = estimate(0.9125, Interval(0.898, 0.9241, 0.95, "wilson"), 2000, "percent")
>>> shown.value, shown.interval, shown.confidence, shown.n
('91.25%', '89.8 to 92.4%', '95%', '2,000')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from roadworthy.statistics.interval import Interval

Style = Literal["percent", "points", "plain", "change"]
"""A share (0.91 is 91%), a difference of shares (in percentage points), a number in its own unit, a difference of such."""

MINUS = "−"
NONE = "–"
"""What stands where there is no number."""
MANY = 1000
"""From so many cases on, a share of them has two decimals: it and its complement then add up to 100%."""


@dataclass(frozen=True)
class ShownNumber:
    """A number as the reader sees it; each field is ready text."""

    value: str
    interval: str
    confidence: str
    n: str
    title: str
    """All of it in one line, for a tooltip."""


def value(x: float | None, style: Style = "plain") -> str:
    """One number."""
    if x is None or math.isnan(x):
        return NONE
    if math.isinf(x):
        return ("" if x > 0 else MINUS) + "∞"
    return _with_unit(_digits(x, style, _places([x], style)), style)


def limit(x: float | None, style: Style = "plain") -> str:
    """The limit of a claim: as exact as it was set, up to six decimals.

    >>> limit(0.9255, "percent"), limit(0.85), limit(1925.0), limit(-0.01, "points")
    ('92.55%', '0.85', '1,925', '−1 pp')
    """
    if x is None or not math.isfinite(x):
        return value(x, style)
    exact = round(
        Decimal(repr(float(x))) * (100 if style in ("percent", "points") else 1), 6
    ).normalize()
    return _with_unit(_digits(x, style, max(0, -int(exact.as_tuple().exponent))), style)


def bound(x: float | None, against: float | None, style: Style = "plain") -> str:
    """The bound that decided, with enough decimals to differ from the limit: 89.96%, not 90%."""
    if x is None or against is None or not (math.isfinite(x) and math.isfinite(against)):
        return value(x, style)
    places = _places([x], style)
    while (
        x != against and places < 8 and _digits(x, style, places) == _digits(against, style, places)
    ):
        places += 1
    return _with_unit(_digits(x, style, places), style)


def interval(found: Interval | None, style: Style = "plain") -> str:
    """Both ends with the same number of decimals, the unit once.

    >>> interval(Interval(0.86928, 0.99999, 0.95, "bootstrap"), "percent")
    '86.9 to >99.9%'
    >>> interval(Interval(0.0011, 0.0035, 0.95, "wilson"), "percent")
    '0.11 to 0.35%'
    """
    if found is None:
        return NONE
    ends = found.low, found.high
    if style == "percent" and all(0 <= end <= 1 for end in ends) and not _together(*ends):
        return _with_unit(" to ".join(_share(end) for end in ends), style)
    return _interval(found, style, _places([found.low, found.high], style))


def _interval(found: Interval, style: Style, places: int) -> str:
    ends = [_digits(end, style, places) for end in (found.low, found.high)]
    return _with_unit(f"{ends[0]} to {ends[1]}", style)


def _together(low: float, high: float) -> bool:
    """Whether both ends lie so near to none or to all that one decimal is too few."""
    return high < 0.01 or low > 0.99


def _share(end: float) -> str:
    """An end of a wide interval: one decimal, and never none or all where it is neither.

    >>> _share(0.86928), _share(0.99999), _share(1.0), _share(0.0002)
    ('86.9', '>99.9', '100.0', '<0.1')
    """
    text = _digits(end, "percent", 1)
    return "<0.1" if text == "0.0" and end > 0 else ">99.9" if text == "100.0" and end < 1 else text


def estimate(
    x: float | None, found: Interval | None, n: int | None, style: Style = "plain"
) -> ShownNumber:
    """A value with its interval, confidence and number of cases."""
    shown, ends, cases = value(x, style), interval(found, style), count(n)
    if style == "percent" and x is not None and n is not None and n >= MANY and _is_count(x, n):
        shown = _with_unit(_digits(x, style, max(2, _decimals(x, style))), style)
    if found and x is not None and math.isfinite(x) and style in ("plain", "change"):
        # A number in its own unit and its interval are read together: as many decimals, from the largest of them.
        places = _places([x, found.low, found.high], style)
        shown, ends = _digits(x, style, places), _interval(found, style, places)
    sure = confidence(found.confidence) if found else ""
    parts = [
        shown,
        f"{sure} interval {ends} ({found.method})" if found else "no interval",
        f"n = {cases}",
    ]
    return ShownNumber(shown, ends, sure, cases, ", ".join(parts))


def confidence(level: float | None) -> str:
    """
    >>> confidence(0.95), confidence(0.975)
    ('95%', '97.5%')
    """
    return NONE if level is None else f"{100 * level:.4g}%"


def count(n: float | None) -> str:
    """
    >>> count(32000)
    '32,000'
    """
    return NONE if n is None else f"{n:,.0f}"


def level(x: float | None) -> str:
    """
    >>> level(3.0), level(0.25), level(None)
    ('3', '0.25', '')
    """
    return "" if x is None or math.isnan(x) else f"{x:g}".replace("-", MINUS)


def size(n: float | None) -> str:
    """
    >>> size(812), size(1_640_000)
    ('812 B', '1.64 MB')
    """
    if n is None:
        return NONE
    n = round(n)
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= step:
            return f"{n / step:.3g} {unit}"
    return f"{n} B"


def seconds(x: float) -> str:
    """
    >>> seconds(0.42), seconds(12.0), seconds(4000), seconds(0.00124)
    ('0.42 s', '12 s', '1 h 7 min', '1.2 ms')
    """
    if 0 < x < 0.1:
        return f"{max(1000 * x, 0.01):.2g} ms"
    if x >= 3600:
        return f"{int(x // 3600)} h {round(x % 3600 / 60)} min"
    return f"{int(x // 60)} min {round(x % 60)} s" if x >= 100 else f"{x:.3g} s"


def p_value(p: float | None) -> str:
    """
    >>> p_value(0.03), p_value(1e-9), p_value(None)
    ('0.030', '< 0.001', '–')
    """
    if p is None or math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def moment(iso: str) -> str:
    """
    >>> moment("2026-03-01T14:05:09+00:00"), moment("yesterday")
    ('1 March 2026, 14:05 UTC', 'yesterday')
    """
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = when.tzname()
    return f"{when.day} {when:%B %Y, %H:%M}" + (f" {zone}" if zone else "")


def _is_count(x: float, n: int) -> bool:
    """Whether a value is a share of n cases, and neither none nor all of them."""
    return 0 < x < 1 and abs(x * n - round(x * n)) < 1e-6


def _places(together: list[float], style: Style) -> int:
    """How many decimals numbers get that stand together: three significant digits of the largest, or what shares need."""
    finite = [x for x in together if math.isfinite(x)]
    if style in ("plain", "change"):
        return _decimals(max(finite, key=abs, default=0.0), style)
    return max((_decimals(x, style) for x in finite), default=0)


def _decimals(x: float, style: Style) -> int:
    if not math.isfinite(x):
        return 0
    if style == "points":
        return 1
    if style == "percent":
        # A share near 0 or 1 needs more places, or 99.96% would read as 100%.
        small, rest = abs(x), abs(1 - x)
        if small > 1:
            return 0
        if min(small, rest) < 1e-12 or (small >= 0.01 and rest > 0.00051):
            return 1
        return 2 if small >= 0.0001 and rest > 0.000051 else 3
    return 0 if abs(x) >= 100 or x == 0 else min(6, max(0, 2 - math.floor(math.log10(abs(x)))))


def _digits(x: float, style: Style, places: int) -> str:
    if not math.isfinite(x):
        return ("" if x > 0 else MINUS) + "∞"
    # The shortest decimal that names the float is rounded half up: 0.9285 is 92.9%, though its binary value lies below.
    scaled = Decimal(repr(float(x))) * (100 if style in ("percent", "points") else 1)
    far = abs(scaled) >= Decimal(10) ** 15
    text = f"{abs(scaled) if far else abs(scaled).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,.{places}f}"
    negative = scaled < 0 and float(text.replace(",", "")) != 0
    return (
        MINUS if negative else "+" if style in ("points", "change") and scaled > 0 else ""
    ) + text


def _with_unit(text: str, style: Style) -> str:
    return text + {"percent": "%", "points": " pp"}.get(style, "")
