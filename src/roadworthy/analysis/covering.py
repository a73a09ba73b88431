"""A small set of supervisors that covers all circumstances: under each of them one member is about as good as the best single one.

"About" is a tolerance, by circumstance. Sets of one, two and three are searched exhaustively; beyond three a set is grown
greedily. Of sets of one size the cheapest is taken, of equally cheap ones that with the higher rates, then the first.

>>> rates = {"softmax": {"clean": 0.8, "fog": 0.3}, "knn": {"clean": 0.5, "fog": 0.9}, "dsa": {"clean": 0.6, "fog": 0.89}}
>>> found = cover(rates, tolerance=0.02, cost={"softmax": 1.0, "knn": 9.0, "dsa": 3.0})
>>> found.supervisors, found.by["fog"], found.rates["fog"]
(('softmax', 'dsa'), 'dsa', 0.89)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

LARGEST_SEARCHED = 3


@dataclass(frozen=True)
class Covering:
    """The set, and under each circumstance its best member with its rate."""

    supervisors: tuple[str, ...]
    by: Mapping[str, str]
    rates: Mapping[str, float]


def cover(
    rates: Mapping[str, Mapping[str, float]],
    *,
    tolerance: float | Mapping[str, float] = 0.02,
    cost: Mapping[str, float] | None = None,
) -> Covering:
    """The smallest set of supervisors, from the rate of each under each circumstance (NaN where it has none).

    Circumstances under which nobody has a rate need no cover.
    """
    names = list(rates)
    if not names:
        raise ValueError("there are no supervisors to choose from; name some")
    places = list(dict.fromkeys(place for by_place in rates.values() for place in by_place))
    table = np.array([[rates[n].get(p, np.nan) for p in places] for n in names], dtype=np.float64)
    table = table.reshape(len(names), len(places))
    known: np.ndarray = ~np.all(np.isnan(table), axis=0)
    places, table = [p for p, k in zip(places, known.tolist(), strict=True) if k], table[:, known]
    table = np.where(np.isnan(table), -np.inf, table)
    slack = np.array([tolerance if isinstance(tolerance, float | int) else tolerance[p] for p in places])
    covers = table >= table.max(axis=0, initial=-np.inf) - slack - 1e-12
    price = np.array([0.0 if cost is None else cost.get(n, 0.0) for n in names])
    chosen = _smallest(covers, table, price)
    best = [max(chosen, key=lambda i: (table[i, j], -i)) for j in range(len(places))]
    by = {p: names[i] for p, i in zip(places, best, strict=True)}
    return Covering(
        tuple(names[i] for i in chosen),
        by,
        {p: float(table[i, j]) for j, (p, i) in enumerate(zip(places, best, strict=True))},
    )


def _smallest(covers: np.ndarray, table: np.ndarray, price: np.ndarray) -> list[int]:
    n = len(covers)
    for size in range(1, min(LARGEST_SEARCHED, n) + 1):
        sets = np.array(list(combinations(range(n), size)))
        whole = sets[covers[sets].any(axis=1).all(axis=1)]
        if len(whole):
            # lexsort takes its first key last: price, then the mean of the best rates, then the order of the file.
            mean = table[whole].max(axis=1).mean(axis=1) if table.shape[1] else np.zeros(len(whole))
            first = np.lexsort((np.arange(len(whole)), -mean.round(9), price[whole].sum(axis=1)))[0]
            return [int(i) for i in whole[first]]
    return _greedy(covers, price)


def _greedy(covers: np.ndarray, price: np.ndarray) -> list[int]:
    """One after the other, who covers most of what is left, the cheaper first; then those go that the others make needless."""
    left, chosen = np.ones(covers.shape[1], dtype=bool), []
    while left.any():
        gain = (covers & left).sum(axis=1)
        best = int(np.lexsort((np.arange(len(price)), price, -gain))[0])
        chosen.append(best)
        left &= ~covers[best]
    for one in sorted(chosen, key=lambda i: -price[i]):
        others = [i for i in chosen if i != one]
        if covers[others].any(axis=0).all():
            chosen = others
    return sorted(chosen)
