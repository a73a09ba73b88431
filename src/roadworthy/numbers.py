"""How a number is written, wherever a person reads it: report, terminal, sentences of claims, monitor.

A share has one decimal (more where one would read as none or all), a difference of shares is in
percentage points with its sign, AUC and ECE have three decimals, counts have thousands separators. A
number in its own unit has three digits, and at most three decimals unless it is tiny. The text depends
on the number alone, so that one number reads the same everywhere; JSON has all digits.

>>> value(0.9124, "percent"), value(0.9996, "percent"), value(-0.123, "points"), value(0.9142, "decimal")
('91.2%', '99.96%', '−12.3 pp', '0.914')
>>> value(0.9285, "percent"), limit(0.9, "percent"), bound(0.8996, 0.9, "percent")
('92.9%', '90%', '89.96%')
>>> from roadworthy.statistics import Interval
>>> shown = estimate(0.9125, Interval(0.898, 0.9241, 0.95, "wilson"), 2000, "percent")
>>> shown.value, shown.interval, shown.confidence, shown.n
('91.3%', '89.8 to 92.4%', '95%', '2,000')
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from roadworthy.statistics.interval import Interval

Style = Literal["percent", "points", "decimal", "plain", "change"]
"""A share (0.91 is 91%), a difference of shares (in percentage points), a number from 0 to 1 that is no share (AUC), a
number in its own unit, a difference of such."""

MINUS = "−"
NONE = "–"
"""What stands where there is no number."""
MOST = 3
"""Decimals of a percentage; what is nearer to none or all is "<0.001%"."""


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
    return NONE if x is None or math.isnan(x) else _with_unit(_shown(x, style), style)


def amount(x: float) -> str:
    """A number in its own unit, such as a cost.

    >>> [amount(x) for x in (0.0812, 1925.4, 12.25, 2.5, 1234567.0, 0.000472, 0.0, 1e-9)]
    ['0.081', '1,925', '12.3', '2.50', '1,234,567', '0.00047', '0.000', '0.000']
    """
    return value(x, "plain")


def limit(x: float | None, style: Style = "plain") -> str:
    """The limit of a claim: as exact as it was set, up to six decimals.

    >>> limit(0.9255, "percent"), limit(0.85), limit(1925.0), limit(-0.01, "points")
    ('92.55%', '0.85', '1,925', '−1 pp')
    """
    if x is None or not math.isfinite(x):
        return value(x, style)
    exact = round(Decimal(repr(float(x))) * _scale(style), 6).normalize()
    return _with_unit(_digits(x, style, max(0, -int(exact.as_tuple().exponent))), style)


def bound(x: float | None, against: float | None, style: Style = "plain") -> str:
    """The bound that decided, with enough decimals to differ from the limit: 89.96%, not 90%."""
    if x is None or against is None or not (math.isfinite(x) and math.isfinite(against)):
        return value(x, style)
    places = _decimals(x, style)
    if x == against or _digits(x, style, places) != _digits(against, style, places):
        return value(x, style)
    while places < 8 and _digits(x, style, places) == _digits(against, style, places):
        places += 1
    return _with_unit(_digits(x, style, places), style)


def interval(found: Interval | None, style: Style = "plain") -> str:
    """Both ends, the unit once.

    >>> interval(Interval(0.86928, 0.9999, 0.95, "bootstrap"), "percent")
    '86.9 to 99.99%'
    >>> interval(Interval(0.0004, 0.0035, 0.95, "wilson"), "percent")
    '0.04 to 0.4%'
    """
    if found is None:
        return NONE
    return _with_unit(f"{_shown(found.low, style)} to {_shown(found.high, style)}", style)


def estimate(
    x: float | None,
    found: Interval | None,
    n: int | None,
    style: Style = "plain",
    *,
    ends: str = "interval",
) -> ShownNumber:
    """A value with its interval (or what its `ends` are), confidence and number of cases."""
    shown, both, cases = value(x, style), interval(found, style), count(n)
    sure = confidence(found.confidence) if found else ""
    said = f"{sure} {ends} {both} ({found.method})" if found else "no interval"
    return ShownNumber(shown, both, sure, cases, f"{shown}, {said}, n = {cases}")


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


def plural(n: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "claim"), plural(1200, "case"), plural(60, "study"), plural(3, "series")
    ('1 claim', '1,200 cases', '60 studies', '3 series')
    """
    several = re.sub(r"(?<![aeiou])y$", "ie", noun) + ("" if noun.endswith("s") else "s")
    return f"{n:,} {noun if n == 1 else several}"


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


def _scale(style: Style) -> int:
    return 100 if style in ("percent", "points") else 1


def _decimals(x: float, style: Style) -> int:
    """How many decimals a number gets."""
    if style == "points":
        return 1
    if style == "percent":
        places = 1
        while (
            places < MOST
            and 0 < abs(x) < 1
            and float(_digits(abs(x), style, places)) in (0.0, 100.0)
        ):
            places += 1
        return places
    size = abs(x)
    if style == "decimal" or size < 1e-6:
        return 3
    exponent = math.floor(math.log10(size))
    # Three decimals would leave one digit or none of a number below 0.00995.
    return 1 - exponent if size < 0.00995 else min(3, max(0, 2 - exponent))


def _shown(x: float, style: Style) -> str:
    """A number without its unit; a share is never rounded to none or all.

    >>> [_shown(x, "percent") for x in (0.86928, 0.9996, 0.9999999, 1.0, 0.0002, 1e-7, 1.324)]
    ['86.9', '99.96', '>99.999', '100.0', '0.02', '<0.001', '132.4']
    """
    if not math.isfinite(x):
        return ("" if x > 0 else MINUS) + "∞"
    text = _digits(x, style, _decimals(x, style))
    if style == "percent" and 0 < x < 1 and text in ("0.000", "100.000"):
        return "<0.001" if x < 0.5 else ">99.999"
    return text


def _digits(x: float, style: Style, places: int) -> str:
    # The shortest decimal that names the float is rounded half up: 0.9285 is 92.9%, though its binary value lies below.
    scaled = Decimal(repr(float(x))) * _scale(style)
    far = abs(scaled) >= Decimal(10) ** 15
    text = f"{abs(scaled) if far else abs(scaled).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,.{places}f}"
    negative = scaled < 0 and float(text.replace(",", "")) != 0
    return (
        MINUS if negative else "+" if style in ("points", "change") and scaled > 0 else ""
    ) + text


def _with_unit(text: str, style: Style) -> str:
    return text + {"percent": "%", "points": " pp"}.get(style, "")
