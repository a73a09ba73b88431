"""A small set of supervisors that covers all circumstances: under each of them one member is about as good as the best single one.

"About" is a tolerance, by circumstance. The size of a set is the number of supervisors that it makes run: one that fuses the
scores of others is as large as they are, and nothing that single ones must match (unless no single one has a rate there).
All sets of up to three names are searched, and beyond them sets are grown greedily. Of sets of one size the cheapest is taken,
then that of fewest names, then that with the higher rates, then the first.

>>> rates = {"softmax": {"clean": 0.8, "fog": 0.3}, "knn": {"clean": 0.5, "fog": 0.9}, "dsa": {"clean": 0.6, "fog": 0.89}}
>>> found = cover(rates, tolerance=0.02, cost={"softmax": 1.0, "knn": 9.0, "dsa": 3.0})
>>> found.supervisors, found.by["fog"], found.rates["fog"]
(('softmax', 'dsa'), 'dsa', 0.89)
>>> every = rates | {"fused": {"clean": 0.8, "fog": 0.9}}
>>> cover(every, runs={"fused": ["softmax", "knn", "dsa"]}).supervisors
('softmax', 'knn')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class _Choice:
    """Who covers what, at which rate, and what each makes run at which price."""

    covers: np.ndarray
    table: np.ndarray
    runs: np.ndarray
    """Names by the supervisors that they make run."""
    price: np.ndarray
    """Of what is run."""

    def first(self, sets: np.ndarray) -> list[int]:
        """The smallest of sets of one length; of equals the cheapest, that with the higher rates, the first."""
        used = self.runs[sets].any(axis=1)
        mean = (
            self.table[sets].max(axis=1).mean(axis=1)
            if self.table.shape[1]
            else np.zeros(len(sets))
        )
        # lexsort takes its first key last.
        order = np.lexsort(
            (np.arange(len(sets)), -mean.round(9), used @ self.price, used.sum(axis=1))
        )
        return [int(i) for i in sets[order[0]]]

    def rank(self, chosen: Sequence[int]) -> tuple[int, float, int, float]:
        """What makes one set better than another of any length."""
        used = self.runs[list(chosen)].any(axis=0)
        mean = self.table[list(chosen)].max(axis=0).mean() if self.table.shape[1] else 0.0
        return int(used.sum()), float(used @ self.price), len(chosen), -round(float(mean), 9)


def cover(
    rates: Mapping[str, Mapping[str, float]],
    *,
    tolerance: float | Mapping[str, float] = 0.02,
    cost: Mapping[str, float] | None = None,
    runs: Mapping[str, Sequence[str]] | None = None,
) -> Covering:
    """The smallest set of supervisors, from the rate of each under each circumstance (NaN where it has none).

    `runs` says which supervisors one makes run in place of itself. Circumstances under which nobody has a rate need no cover.
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
    slack = np.array(
        [tolerance if isinstance(tolerance, float | int) else tolerance[p] for p in places]
    )
    single = np.array([not (runs or {}).get(n) for n in names])
    best_single = table[single].max(axis=0, initial=-np.inf)
    goal = np.where(np.isneginf(best_single), table.max(axis=0, initial=-np.inf), best_single)
    covers = table >= goal - slack - 1e-12
    makes = {n: tuple((runs or {}).get(n, ())) or (n,) for n in names}
    parts = list(dict.fromkeys(part for each in makes.values() for part in each))
    used = np.array([[part in makes[n] for part in parts] for n in names])
    price = np.array([0.0 if cost is None else cost.get(part, 0.0) for part in parts])
    chosen = _smallest(_Choice(covers, table, used, price))
    best = [max(chosen, key=lambda i: (table[i, j], -i)) for j in range(len(places))]
    by = {p: names[i] for p, i in zip(places, best, strict=True)}
    return Covering(
        tuple(names[i] for i in chosen),
        by,
        {p: float(table[i, j]) for j, (p, i) in enumerate(zip(places, best, strict=True))},
    )


def _smallest(choice: _Choice) -> list[int]:
    n, found = len(choice.covers), []
    for size in range(1, min(LARGEST_SEARCHED, n) + 1):
        sets = np.array(list(combinations(range(n), size)))
        whole = sets[choice.covers[sets].any(axis=1).all(axis=1)]
        if len(whole):
            found.append(choice.first(whole))
    found += [_greedy(choice, by_size=True), _greedy(choice, by_size=False)]
    return min(found, key=choice.rank)


def _greedy(choice: _Choice, *, by_size: bool) -> list[int]:
    """One after the other, who covers most of what is left (for what it adds to the set's size), the cheaper first.

    Then those go that the others make needless.
    """
    covers, left, chosen = choice.covers, np.ones(choice.covers.shape[1], dtype=bool), []
    used = np.zeros(len(choice.price), dtype=bool)
    while left.any():
        gain, new = (covers & left).sum(axis=1), choice.runs & ~used
        worth = gain / np.maximum(new.sum(axis=1), 0.5) if by_size else gain
        best = int(np.lexsort((np.arange(len(gain)), new @ choice.price, -worth))[0])
        chosen.append(best)
        left &= ~covers[best]
        used |= choice.runs[best]
    for one in sorted(chosen, key=lambda i: -float(choice.runs[i] @ choice.price)):
        others = [i for i in chosen if i != one]
        if others and covers[others].any(axis=0).all():
            chosen = others
    return sorted(chosen) or [0]
