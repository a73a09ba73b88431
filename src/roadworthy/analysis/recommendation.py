"""Which supervisors to run: a small set, under each circumstance about as good as the best single one.

Supervisors are compared by the informedness of their alarms (Youden 1950, "Index for rating diagnostic tests"): the share of
failures with an alarm less that of right answers with one. An alarm on everything catches all failures and has an informedness of
0. Each level of a circumstance is compared with itself, weighed by its failures: otherwise telling strong levels from mild ones
would pass for telling wrong answers from right ones. A supervisor counts for a circumstance only if its informedness is clearly
above 0: the lower end of an exact interval, corrected for the number of supervisors. Without thresholds they are compared by the
AUC for failures.

"About as good" is a tolerance, by circumstance. The size of a set is the number of supervisors that it makes run: one that fuses
the scores of others is as large as they are, and nothing that single ones must match (unless no single one has a rate there).
All sets of up to three names are searched, and beyond them sets are grown greedily. Of sets of one size the cheapest is taken,
then that of fewest names, then that with the higher rates, then the first.

>>> failed = np.array([True, True, True, True, False, False, False, False])
>>> found = informedness([Alarms(np.array([1, 1, 1, 0, 1, 0, 0, 0], bool), failed, np.arange(8))], confidence=0.95)
>>> found.value, found.caught, found.false_alarms, found.low < 0
(0.5, 0.75, 0.25, True)
>>> rates = {"softmax": {"clean": 0.8, "fog": 0.3}, "knn": {"clean": 0.5, "fog": 0.9}, "dsa": {"clean": 0.6, "fog": 0.89}}
>>> best = cover(rates, tolerance=0.02, cost={"softmax": 1.0, "knn": 9.0, "dsa": 3.0})
>>> best.supervisors, best.by["fog"], best.rates["fog"]
(('softmax', 'dsa'), 'dsa', 0.89)
>>> every = rates | {"fused": {"clean": 0.8, "fog": 0.9}}
>>> cover(every, runs={"fused": ["softmax", "knn", "dsa"]}).supervisors
('softmax', 'knn')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from roadworthy.analysis import supervision, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.statistics import clustered_proportion, simultaneous

LARGEST_SEARCHED = 3
COMMON_RATE = 0.05
"""False alarms at which supervisors are compared if the rule of the verdicts keeps no rate."""
TOLERANCE = 0.02
CHANCE = 0.5
Rates = dict[str, dict[str, float]]
"""By supervisor and place; NaN where it is not clearly better than chance."""


class Alarms(NamedTuple):
    """The cases of one level: on which an alarm was raised, which failed, and what each belongs to."""

    raised: np.ndarray
    failed: np.ndarray
    clusters: np.ndarray


class Informedness(NamedTuple):
    """What alarms are worth at a place; NaN where no level has both failures and right answers."""

    value: float
    caught: float
    false_alarms: float
    low: float
    """Its lower end: exact ends of every share, at a confidence at which they hold together."""
    standard_error: float


def informedness(levels: Sequence[Alarms], *, confidence: float) -> Informedness:
    """The informedness of alarms over the levels of a circumstance, with its lower end."""
    told = [a for a in levels if a.failed.any() and not a.failed.all()]
    if not told:
        return Informedness(math.nan, math.nan, math.nan, -math.inf, math.nan)
    failures = np.array([a.failed.sum() for a in told], dtype=np.float64)
    weights = failures / failures.sum()
    false = np.array([a.raised[~a.failed].mean() for a in told])
    caught = np.concatenate([a.raised[a.failed] for a in told])
    # Cases of one sample occur at several levels, so the ends hold together by Bonferroni and not by independence.
    sure = simultaneous(confidence, 1 + len(told))
    least = clustered_proportion(
        caught,
        np.concatenate([a.clusters[a.failed] for a in told]),
        confidence=sure,
        sided="lower",
        method="clopper_pearson",
    ).low
    most = [
        clustered_proportion(
            a.raised[~a.failed],
            a.clusters[~a.failed],
            confidence=sure,
            sided="upper",
            method="clopper_pearson",
        ).high
        for a in told
    ]
    share, right = float(caught.mean()), np.array([(~a.failed).sum() for a in told])
    variance = share * (1 - share) / len(caught) + float(
        (weights**2 * false * (1 - false) / right).sum()
    )
    alarms = float(weights @ false)
    return Informedness(
        share - alarms, share, alarms, float(least - weights @ np.array(most)), math.sqrt(variance)
    )


class ComparedSupervisors(NamedTuple):
    """What supervisors are worth at the places, and why nothing can be said of others."""

    rates: Rates
    slack: Mapping[str, float]
    silent: Mapping[str, str]
    told: Mapping[tuple[str, str], Informedness] = MappingProxyType({})
    """By supervisor and place, if alarms are compared."""


def common_rate(rule: VerdictRule) -> float:
    """The rate of false alarms at which supervisors are compared."""
    return rule.rate if rule.rule in verdicts.RATED else COMMON_RATE


def by_informedness(
    labels: Sequence[str],
    conditions: Sequence[Observed],
    thresholds: Mapping[str, Threshold],
    rule: VerdictRule,
    *,
    left: Mapping[str, np.ndarray],
    confidence: float,
) -> ComparedSupervisors:
    """Supervisors compared on calibration cases (clean first), at a common rate of false alarms.

    `left` are, for supervisors that some samples fitted, the samples that did not.
    """
    clean, places = conditions[0], _by_place(conditions)
    limits = {
        label: limit
        for label, limit in _limits(clean, thresholds, rule, left).items()
        if label in labels
    }
    sure = simultaneous(confidence, max(len(limits), 1))
    told = {
        (label, place): informedness(
            [_alarms(label, limit, clean, left.get(label), o) for o in here], confidence=sure
        )
        for label, limit in limits.items()
        for place, here in places.items()
    }
    rates: Rates = {
        label: {p: told[label, p].value if told[label, p].low > 0 else math.nan for p in places}
        for label in limits
    }
    errors = {
        p: [told[s, p].standard_error for s, r in rates.items() if r[p] == best_of(rates, p)]
        for p in places
    }
    slack = {p: max([TOLERANCE, *errors[p]]) for p in places}
    mute = [why for limit in limits.values() if (why := verdicts.mute(limit, rule))]
    nobody = (
        f"no supervisor ever raises an alarm: {mute[0]}; add calibration data, or set a higher `verdicts: {{rate: …}}`"
        if mute and len(mute) == len(limits)
        else "no supervisor has a detection rate clearly above its false-alarm rate; add calibration cases or supervisors"
    )
    silent = {
        place: _unheard(here, "calibration") or nobody
        for place, here in places.items()
        if math.isnan(best_of(rates, place))
    }
    return ComparedSupervisors(rates, slack, silent, told)


def _limits(
    clean: Observed,
    thresholds: Mapping[str, Threshold],
    rule: VerdictRule,
    left: Mapping[str, np.ndarray],
) -> dict[str, Threshold]:
    """Thresholds at the common rate; none for a supervisor that missing scores keep from it."""
    found = dict(thresholds)
    if rule.rule not in verdicts.RATED:
        common, found = VerdictRule("false_positive_rate", rate=common_rate(rule)), {}
        for label in thresholds:
            try:
                found[label] = verdicts.choose(common, clean, [], label, left.get(label))
            except ValueError:  # too few rows for this rate
                continue
    return {label: limit for label, limit in found.items() if not limit.overrun}


def _alarms(
    label: str, limit: Threshold, clean: Observed, rows: np.ndarray | None, here: Observed
) -> Alarms:
    """On which cases an alarm is raised, which failed, and what each belongs to; without the samples that fitted the supervisor."""
    own = here.clusters.astype(str)
    keep = (
        np.ones(len(here), bool) if rows is None else np.isin(own, clean.clusters[rows].astype(str))
    )
    return Alarms(verdicts.alarms(limit, here, label)[keep], here.failure[keep], own[keep])


def by_ranking(
    labels: Sequence[str], clean: Observed, others: Sequence[Observed], confidence: float
) -> ComparedSupervisors:
    """Without verdicts: by the area for failures on the test cases themselves, the mean over the levels that have one."""
    places = _by_place([clean, *others])
    rates: Rates = {label: {} for label in labels}
    for place, conditions in places.items():
        sure = simultaneous(confidence, len(labels) * len(conditions))
        for label in labels:
            known = [
                e for o in conditions if not (e := supervision.detects_failure(o, label)).reason
            ]
            mean = float(np.mean([e.value for e in known])) if known else math.nan
            clear = mean > CHANCE and any(e.interval(sure, "lower").low > CHANCE for e in known)
            rates[label][place] = mean if clear else math.nan
    silent = {
        place: _unheard(conditions, "test")
        or "no supervisor ranks failures clearly above right answers; add cases or supervisors"
        for place, conditions in places.items()
        if math.isnan(best_of(rates, place))
    }
    return ComparedSupervisors(rates, dict.fromkeys(places, TOLERANCE), silent)


def _unheard(conditions: Sequence[Observed], role: str) -> str:
    """Why the cases of a place cannot tell supervisors apart, and what to do; empty where they can."""
    n = sum(len(o) for o in conditions)
    if not n:
        return f"no {role} case meets its filter; add some that do"
    if not any(o.failure.any() for o in conditions):
        return f"none of the {n} {role} cases fails there; add harder cases or a higher level"
    if all(o.failure.all() or not o.failure.any() for o in conditions):
        return f"no level has both failures and right answers among its {role} cases; add a milder level"
    return ""


def covered(rates: Rates) -> list[str]:
    """The places at which some supervisor has a rate."""
    places = dict.fromkeys(p for by_place in rates.values() for p in by_place)
    return [p for p in places if not math.isnan(best_of(rates, p))]


def best_of(rates: Rates, place: str) -> float:
    """The highest rate at a place; NaN if there is none."""
    return max((r[place] for r in rates.values() if not math.isnan(r[place])), default=math.nan)


def _by_place(observed: Sequence[Observed]) -> dict[str, list[Observed]]:
    found: dict[str, list[Observed]] = {}
    for o in observed:
        found.setdefault(o.circumstance or "clean", []).append(o)
    return found


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
        sets = combinations(range(n), size)
        found += [list(s) for s in sets if choice.covers[list(s)].any(axis=0).all()]
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
