"""How few of the facts of two goals (names and values) are shared: what a dialogue's understander or tracker heard.

A fact is a name and its value; names inside names are read as one (``hotel.area``). The distance is one minus the facts that both
have over those that either has (Jaccard), which is a metric.

>>> jaccard({"hotel": {"area": "north", "stars": 4}}, {"hotel": {"area": "north"}, "price": "cheap"})
0.6666666666666667
>>> facts({"hotel": {"area": "north", "stars": 4}})
[('hotel.area', 'north'), ('hotel.stars', '4')]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roadworthy.registry import register


@register("distances", "jaccard", of=("goal",), default=("goal",), bounded=True)
def jaccard(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """One minus the share of names with values that both have."""
    one, other = set(facts(first)), set(facts(second))
    return 1.0 - len(one & other) / len(one | other) if one | other else 0.0


def facts(content: Mapping[str, Any], within: str = "") -> list[tuple[str, str]]:
    """Names and values in the order of the names, the values as text."""
    found: list[tuple[str, str]] = []
    for name, value in sorted(content.items(), key=lambda item: str(item[0])):
        place = f"{within}.{name}" if within else str(name)
        if isinstance(value, Mapping) and value:
            found += facts(value, place)
        else:
            found.append((place, value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)))
    return found
