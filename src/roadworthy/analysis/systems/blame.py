"""Which module a system's error is due to: its input is held clean, and the error that goes away is its blame.

Players are the modules that read the corrupted value itself. The error of a case with the inputs of some of them held clean is
known for every subset; Shapley's value (1953) shares what the corruption costs among them, case by case, so that the shares
add up to the error under the corruption less the clean error. Holding the input of a later module repairs all that came
before it: such repairs are shown one by one and not added up.

>>> errors = {frozenset(): [1.0], frozenset("a"): [0.4], frozenset("b"): [0.8], frozenset("ab"): [0.0]}
>>> {name: float(blame[0].round(3)) for name, blame in shapley(errors).items()}
{'a': 0.7, 'b': 0.3}
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from roadworthy.statistics import Interval, bootstrap
from roadworthy.statistics import mean as mean_interval
from roadworthy.statistics.arguments import Floats, group_codes

MOST_PLAYERS = 4
"""Modules among which blame is shared exactly: 14 runs a condition."""
FEW_GROUPS = 2000
"""Groups up to which an interval is a bootstrap; with more, the mean is normal enough for Student's t."""
RESAMPLES = 1000


class Blame(NamedTuple):
    """What one module is blamed for."""

    value: float
    """Mean over the cases, in units of the case's error."""
    share: float
    """Of what the corruption costs; NaN unless it costs something."""
    interval: Interval
    """Of the value."""


def coalitions(players: Collection[str]) -> list[frozenset[str]]:
    """The sets of players whose inputs must be held in a run of its own: neither none nor all.

    >>> [sorted(c) for c in coalitions(["a", "b", "c"])]
    [['a'], ['b'], ['c'], ['a', 'b'], ['a', 'c'], ['b', 'c']]
    """
    sizes = range(1, len(players))
    return [frozenset(chosen) for size in sizes for chosen in combinations(players, size)]


def shapley(errors: Mapping[frozenset[str], Any]) -> dict[str, Floats]:
    """The blame of each player, case by case, from the errors with each set of players held clean."""
    players = sorted(frozenset().union(*errors))
    n = len(players)
    missing = 2**n - len(errors)
    if missing:
        raise ValueError(
            f"{missing} of the {2**n} subsets of {', '.join(players)} have no errors; run them all"
        )
    found = {}
    for player in players:
        others = [p for p in players if p != player]
        total = np.zeros(len(errors[frozenset()]))
        for size in range(n):
            weight = 1 / (n * math.comb(n - 1, size))
            for chosen in combinations(others, size):
                held = frozenset(chosen)
                with_it = np.asarray(errors[held | {player}], dtype=np.float64)
                total += weight * (np.asarray(errors[held], dtype=np.float64) - with_it)
        found[player] = total
    return found


def blamed(
    blame: Floats,
    cost: Floats,
    groups: np.ndarray | None = None,
    *,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Blame:
    """Blame over the cases with its interval; `cost` is what the corruption costs each case."""
    value, lost = float(np.mean(blame)), float(np.mean(cost))
    _, count = group_codes(groups, len(blame))
    if count > FEW_GROUPS:
        interval = mean_interval(blame, groups, confidence=confidence)
    else:

        def weighted(weights: np.ndarray) -> float:
            return float(weights @ blame / weights.sum())

        options: dict[str, Any] = {"confidence": confidence, "resamples": RESAMPLES, "rng": rng}
        interval = bootstrap(weighted, len(blame), groups, **options)
    return Blame(value, value / lost if lost > 0 else math.nan, interval)
