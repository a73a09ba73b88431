"""Measures of an episode against its goal: success rate (Wang et al. 2022, eq. 4) and number of turns.

An episode succeeds when its outcome meets every constraint of the goal. A constraint is a value, a list of
values of which one will do, a range ``{min: , max: }``, or names and values again (``{hotel: {area:
north}}``); words are compared without regard to case, and ``dontcare`` is met by anything.

>>> from roadworthy.data.values import Episode
>>> booked = Episode(({"user": "north please"}, {"user": "yes"}), {"hotel": {"area": "North", "stars": 4}})
>>> success_rate([booked, None], [{"hotel": {"area": "north", "stars": {"min": 3}}}, {}]).value()
0.5
>>> turns([booked], [{}]).value()
2.0
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.data.values import Episode
from roadworthy.measures.scored import (
    Scored,
    answered,
    of_ratio,
    refuse_unknown_truth,
    same_cases,
    silent_mean,
)
from roadworthy.registry import register


@register("measures", "success_rate", of=("episode", "goal"), better="higher", range=(0, 1))
def success_rate(outputs: Sequence[Any], targets: Sequence[Any]) -> Scored:
    """Share of episodes whose outcome meets every constraint of the goal (Wang et al. 2022, eq. 4)."""
    same_cases(outputs, targets)
    refuse_unknown_truth(targets)
    met = [
        e is not None and meets(_outcome(e), goal) for e, goal in zip(outputs, targets, strict=True)
    ]
    return Scored.proportion(np.array(met, dtype=np.float64))


@register("measures", "turns", of=("episode", "goal"), better="lower", range=(0, math.inf))
def turns(outputs: Sequence[Any], targets: Sequence[Any], *, limit: int | None = None) -> Scored:
    """Mean number of turns; more than `limit` is a failure, and no answer costs as much as the longest episode."""
    same_cases(outputs, targets)
    has_answer = answered(outputs)
    length = np.array([0 if e is None else len(_turns(e)) for e in outputs], dtype=np.float64)
    least = np.full(len(length), float(limit or 1))
    tolerance = math.inf if limit is None else float(limit)
    return of_ratio((length, least), has_answer, silent_mean, better="lower", tolerance=tolerance)


def meets(found: Any, wanted: Any) -> bool:
    """Whether what was found meets one constraint.

    >>> meets("cheap", ["cheap", "moderate"]), meets(2, {"min": 3}), meets(None, "dontcare")
    (True, False, True)
    """
    if isinstance(wanted, Mapping):
        if wanted and set(wanted) <= {"min", "max"}:
            return _within(found, wanted)
        known = found if isinstance(found, Mapping) else {}
        return all(meets(known.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return any(meets(found, option) for option in wanted)
    if _folded(wanted) == "dontcare":
        return True
    return found is not None and bool(_folded(found) == _folded(wanted))


def _within(found: Any, wanted: Mapping[str, Any]) -> bool:
    try:
        number = float(found)
    except (TypeError, ValueError):
        return False
    return float(wanted.get("min", -np.inf)) <= number <= float(wanted.get("max", np.inf))


def _folded(value: Any) -> Any:
    # A data base says 4 where a goal read from a file says "4"; true and 1 stay apart.
    return " ".join(str(value).casefold().split())


def _outcome(episode: Any) -> Mapping[str, Any]:
    return episode.outcome if isinstance(episode, Episode) else episode.get("outcome", {})


def _turns(episode: Any) -> Sequence[Any]:
    return episode.turns if isinstance(episode, Episode) else episode.get("turns", ())
