"""Counts, shares, times and lines of bars, as a terminal shows them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from roadworthy.monitor import Bundle

WIDTH = 60
"""Columns of a line."""
BARS = "▁▂▃▄▅▆▇█"
MOST_DIGITS = 6
"""Decimals of a share in a hundred."""
LONG_AGO = 1e8
"""Seconds below which a time counts from the start of something, not from 1970."""
LAST = 2.5e11
"""Seconds, shortly before the year 10,000: no calendar goes further."""


def many(n: int, noun: str) -> str:
    """A number of things.

    >>> many(1, "event"), many(2000, "window"), many(0, "row")
    ('1 event', '2,000 windows', '0 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def percent(share: float) -> str:
    """A share without decimals, unless it would then read as all or nothing.

    >>> percent(0.984), percent(1.0), percent(199 / 200), percent(1 / 300), percent(0.0)
    ('98%', '100%', '99.5%', '0.3%', '0%')
    """
    digits = 0
    while (
        0.0 < share < 1.0
        and float(f"{100 * share:.{digits}f}") in (0.0, 100.0)
        and digits < MOST_DIGITS
    ):
        digits += 1
    return f"{share:.{digits}%}"


def cost_of(unit: str) -> str:
    """The title of a column of costs.

    >>> cost_of("EUR per patient"), cost_of("cost per case")
    ('Expected cost (EUR per patient)', 'Expected cost per case')
    """
    return f"Expected {unit}" if unit.startswith("cost") else f"Expected cost ({unit})"


def is_date(seconds: float) -> bool:
    """Whether a time counts from 1970."""
    return LONG_AGO <= seconds < LAST


def moment(seconds: float, *, zone: bool = True) -> str:
    """A time as people read it.

    >>> moment(1772409600.0), moment(12.5), moment(float("nan")), moment(1e13)
    ('2026-03-02 00:00 UTC', '12.5 s', '', '1e+13 s')
    """
    if seconds != seconds:
        return ""
    if not is_date(seconds):
        return f"{seconds:g} s"
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime(
        f"%Y-%m-%d %H:%M{' UTC' if zone else ''}"
    )


def bars(values: np.ndarray, told: np.ndarray, width: int = WIDTH) -> str:
    """Values from 0 to 1 as a line of bars; ? for those that are not `told`.

    >>> import numpy as np
    >>> bars(np.array([1.0, 0.9, 0.5, 0.0]), np.array([True, True, True, False]))
    '██▅?'
    """
    import numpy as np

    parts = np.array_split(np.arange(len(values)), min(width, len(values)))
    return "".join(
        BARS[min(int(float(values[p].mean()) * len(BARS)), len(BARS) - 1)] if told[p].all() else "?"
        for p in parts
    )


def coverage_of(bundle: Bundle) -> str:
    """How often the intervals of a bundle held the truth of kinds that were left out."""
    found = bundle.coverage
    if found is None:
        return f"Coverage of {bundle.confidence:.0%} intervals on unseen kinds of shift: unknown."
    rate = "" if found.rate is None else f", of the share shifted {percent(found.rate)}"
    return (
        f"Coverage of {found.nominal:.0%} intervals on kinds left out in turn "
        f"({many(found.windows, 'window')}): of the accuracy {percent(found.observed)}{rate}."
    )
