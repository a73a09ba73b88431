"""Which limits a claim can have: what its quantity can be at all, so that 90 is not taken for 0.9.

Quantities are those of the sections, each of which declares its own, and the measures.

>>> check_limit("accuracy", "min", 90, measure="accuracy")
Traceback (most recent call last):
ValueError: accuracy lies between 0 and 1, but the limit is 90 (did you mean 0.9?)
"""

from __future__ import annotations

import math
from typing import Any

from roadworthy import registry
from roadworthy.claims import Quantity
from roadworthy.numbers import Style


def installed_sections() -> dict[str, Any]:
    """The sections of the assessment file by name, ours and those of other packages, as classes."""
    return {name: c.build for name, c in registry.components("sections").items()}


def quantities() -> dict[str, Quantity]:
    """What claims may name besides measures."""
    return {q.name: q for section in installed_sections().values() for q in section.quantities}


def measure_quantity(name: str) -> Quantity:
    """A measure as a quantity; its trait `range` says what it can be."""
    component = registry.components("measures").get(name)
    traits = component.traits if component else {}
    low, high = map(float, traits.get("range", (-math.inf, math.inf)))
    better = "lower" if traits.get("better") == "lower" else "higher"
    return Quantity(name, "", better, low, high, "plain")  # type: ignore[arg-type]


def quantity_of(name: str, measure: str = "") -> Quantity:
    """The quantity of that name: the file's measure, of a section, else any measure."""
    own = None if name == measure else quantities().get(name)
    return own or measure_quantity(name)


def number_style(quantity: str, measure: str, shape: str) -> Style:
    """How a quantity is written: shares as percentages, their differences in points.

    >>> number_style("difference", "accuracy", "proportion"), number_style("wer", "wer", "ratio")
    ('points', 'plain')
    """
    share, known = shape == "proportion", quantities().get(quantity)
    if quantity == measure or known is None:
        return "percent" if share and quantity == measure else "plain"
    if known.style == "difference":
        return "points" if share else "change"
    return known.style


def check_limit(name: str, side: str, limit: float, *, measure: str) -> None:
    """Refuse a limit that cannot be kept, or cannot be broken."""
    quantity = quantity_of(name, measure)
    if quantity.one_way and side != quantity.side:
        shown = abs(limit) if quantity.low < 0 else limit
        way = "above" if quantity.side == "max" else "below"
        raise ValueError(
            f"{quantity.better} values of {name} are better, so a claim limits it from {way}: "
            f"{name}: {{{quantity.side}: {shown:g}}}"
        )
    low, high = _range(quantity, measure)
    if low <= limit <= high:
        return
    where = f"lies between {low:g} and {high:g}"
    if math.isinf(high):
        where = f"is {low:g} or more"
    elif math.isinf(low):
        where = f"is {high:g} or less"
    percent = limit / 100
    likely = high == 1 and 1 < abs(limit) <= 100 and low <= percent
    meant = f" (did you mean {percent:g}?)" if likely else ""
    raise ValueError(f"{name} {where}, but the limit is {limit:g}{meant}")


def _range(quantity: Quantity, measure: str) -> tuple[float, float]:
    """What it can be; differences and drops depend on the measure that they are of."""
    share = (measure_quantity(measure).low, measure_quantity(measure).high) == (0.0, 1.0)
    if quantity.name == "difference" and share:
        return -1.0, 1.0
    if quantity.name == "relative_drop" and share and measure_quantity(measure).better == "higher":
        return -math.inf, 1.0
    return quantity.low, quantity.high
