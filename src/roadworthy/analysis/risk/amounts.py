"""A cost in words, the same wherever it is read."""

from __future__ import annotations

import math

TINY, TINIEST = 0.00995, 1e-6
"""Three decimals would leave one digit or none below the first; below the second it is nothing."""


def amount(value: float) -> str:
    """A cost in three or more digits, in two if it is tiny, never in powers of ten.

    >>> [amount(value) for value in (0.0812, 1925.4, 12.25, 1234567.0, 0.000472, 0.0, 1e-9)]
    ['0.081', '1,925', '12.2', '1,234,567', '0.00047', '0.000', '0.000']
    """
    size = abs(value)
    if TINIEST <= size < TINY:
        return f"{value:.{1 - math.floor(math.log10(size))}f}"
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3f}"


def priced(value: float, unit: str) -> str:
    """A cost with its unit.

    >>> priced(1925, "EUR per patient"), priced(2.5, "cost per case")
    ('1,925 EUR per patient', '2.500 per case')
    """
    return f"{amount(value)} {unit.removeprefix('cost').strip()}"
