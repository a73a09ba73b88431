"""How few of the facts of two goals (names and values) are shared: what a dialogue's understander or tracker heard.

A fact is a name and its value; names inside names are read as one (``hotel.area``). Values are equal where Python says so (4 and
4.0 are, 4 and "4" are not, nor None and "null"). The distance is one minus the facts that both have over those that either has
(Jaccard), which is a metric.

>>> jaccard({"hotel": {"area": "north", "stars": 4}}, {"hotel": {"area": "north"}, "price": "cheap"})
0.6666666666666667
>>> facts({"hotel": {"area": "north", "stars": 4}})
[('hotel.area', 'north'), ('hotel.stars', 4)]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from roadworthy.registry import register


@register("distances", "jaccard", of=("goal",), default=("goal",), bounded=True)
def jaccard(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """One minus the share of names with values that both have."""
    one, other = (
        {(name, _comparable(value)) for name, value in facts(goal)} for goal in (first, second)
    )
    return 1.0 - len(one & other) / len(one | other) if one | other else 0.0


def facts(content: Mapping[str, Any], within: str = "") -> list[tuple[str, Any]]:
    """Names and values in the order of the names."""
    found: list[tuple[str, Any]] = []
    for name, value in sorted(content.items(), key=lambda item: str(item[0])):
        place = f"{within}.{name}" if within else str(name)
        if isinstance(value, Mapping) and value:
            found += facts(value, place)
        else:
            found.append((place, value))
    return found


def _comparable(value: Any) -> Hashable:
    """A value that can stand in a set and equals those that the value equals; a list equals a tuple, as JSON has it."""
    if isinstance(value, Mapping):
        return "mapping", frozenset((name, _comparable(item)) for name, item in value.items())
    if isinstance(value, set | frozenset):
        return "set", frozenset(_comparable(item) for item in value)
    if isinstance(value, list | tuple):
        return "list", tuple(_comparable(item) for item in value)
    # NaN equals nothing, and yet a goal equals itself.
    if (isinstance(value, float) and value != value) or not isinstance(value, Hashable):
        return "told", repr(value)
    return value
