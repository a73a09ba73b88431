"""Rejecting the riskiest predictions (Wang et al. 2022, RQ4): which to reject first, and the error of those that are left.

A strategy is an order of the cases, the first to be rejected first. It is made of the ranks of an
uncertainty score and an out-of-distribution (OOD) score. Rank 1 is the riskiest, a missing score is
the riskiest, and ties are broken by one random order for all strategies.

- S1, S2: by uncertainty; by OOD score.
- S3, S4: of n, half by uncertainty and then half of the remainder by OOD score (an odd one to the
  first); the other way around.
- S5: those that both rankings have in common when both are walked down until n are: the smallest
  larger rank; then the smallest sum of ranks, then the smallest rank of uncertainty.

>>> ranked = strategies(np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 3.0, 4.0, 2.0]))
>>> {name: order.tolist() for name, order in ranked.items()}["S5"]
[1, 2, 0, 3]

The measure is that of the cases left, where silence costs what it costs among all cases. The area
is the mean over 0 to N - 1 rejected cases. The oracle knows the errors: for a ratio of sums (word
error rate, MOTA) it removes the cases that Dinkelbach's method (1967) finds.

>>> from roadworthy.measures.scored import Scored
>>> scored = Scored.proportion(np.array([0.0, 1.0, 1.0, 0.0]))
>>> curve(scored, np.array([3, 0, 1, 2])).tolist()
[0.5, 0.6666666666666666, 1.0, 1.0]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from roadworthy.analysis.systems.awareness import top_size
from roadworthy.measures.scored import Scored
from roadworthy.statistics import Interval
from roadworthy.statistics.arguments import Floats, group_codes
from roadworthy.statistics.bootstrap import Resampled
from roadworthy.statistics.fusion import LogisticFusion

Order = np.ndarray
STRATEGIES = ("S1", "S2", "S3", "S4", "S5")
LEARNED, ORACLE, RANDOM = "learned", "oracle", "random"
RESAMPLES = 300
FOLDS = 5
MOST_FITTED = 20_000
"""Rows on which a combination is learned; more change nothing that could be seen."""
GRID = 64
"""Sizes at which the oracle of a ratio is computed, and a measure that is no ratio of sums."""


def rejection_ranks(scores: Floats, tiebreak: np.ndarray | None = None) -> np.ndarray:
    """1 for the riskiest; a missing score is the riskiest, and ties go by `tiebreak`, a random number a case.

    >>> rejection_ranks(np.array([0.5, np.nan, 0.9, 0.5])).tolist()
    [3, 1, 2, 4]
    """
    risk = np.where(np.isnan(scores), np.inf, np.asarray(scores, dtype=np.float64))
    # Infinite and missing scores must not be tied with each other.
    missing = ~np.isnan(scores)
    among = np.arange(len(risk)) if tiebreak is None else tiebreak
    order = np.lexsort((among, missing, -risk))
    ranks = np.empty(len(risk), dtype=np.int64)
    ranks[order] = np.arange(1, len(risk) + 1)
    return ranks


def strategies(
    uncertainty: Floats, ood: Floats, tiebreak: np.ndarray | None = None
) -> dict[str, Order]:
    """The orders of S1 to S5."""
    u, o = rejection_ranks(uncertainty, tiebreak), rejection_ranks(ood, tiebreak)
    by_u, by_o = np.argsort(u), np.argsort(o)
    return {
        "S1": by_u,
        "S2": by_o,
        "S3": _half_each(by_u, by_o),
        "S4": _half_each(by_o, by_u),
        "S5": np.lexsort((u, u + o, np.maximum(u, o))),
    }


def _half_each(first: Order, second: Order) -> Order:
    """For every n: the first ceil(n / 2) of one order, and of the rest the first floor(n / 2) of the other.

    The sets of n and n + 1 cases differ by one case: the next of the first order, or, if the second had taken that already,
    the next of the second.
    """
    taken = np.zeros(len(first), dtype=bool)
    order: list[int] = []
    ours, theirs = iter(first.tolist()), iter(second.tolist())

    def following(rows: Iterator[int]) -> int:
        return next(row for row in rows if not taken[row])

    while len(order) < len(first):
        row = next(ours) if len(order) % 2 == 0 else following(theirs)
        if taken[row]:
            row = following(theirs)
        taken[row] = True
        order.append(row)
    return np.array(order, dtype=np.int64)


def _parts(scored: Scored) -> tuple[Floats, Floats] | None:
    """The parts of a proportion or a ratio, silence charged as among all cases; None for a free measure."""
    if scored.numerator is None or scored.denominator is None:
        return None
    return scored.numerator, scored.denominator


def _value(scored: Scored, above: Floats, below: Floats) -> Floats:
    """From sums of both parts to values of the measure; NaN where nothing is left to count."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(below > 0, above / below, np.nan)
    if scored.scale is None:
        return ratio
    return np.array([scored.scale(float(r)) if not math.isnan(r) else math.nan for r in ratio])


def curve(scored: Scored, order: Order, sizes: Sequence[int] | None = None) -> Floats:
    """The measure of what is left after rejecting the first k cases, for every k below N, or for these sizes."""
    n = len(order)
    wanted = np.arange(n) if sizes is None else np.asarray(sizes, dtype=np.int64)
    parts = _parts(scored)
    if parts is None:
        weights = np.ones((len(wanted), n))
        for row, k in enumerate(wanted):
            weights[row, order[:k]] = 0.0
        return np.array([scored.weighted(w) for w in weights])
    # From the last to the first, so that what is left is a sum of few numbers and not a difference of many.
    left = [np.cumsum(p[order][::-1])[::-1][wanted] for p in parts]
    return _value(scored, left[0], left[1])


def oracle_orders(scored: Scored, sizes: Sequence[int]) -> list[Order]:
    """For each size an order whose first so many cases are the best to reject; none for a free measure.

    With equal denominators one order serves all sizes. Else Dinkelbach: with the ratio r of what is
    left, the cases that lift it most are those with the largest numerator - r x denominator;
    rejecting these gives the next r.
    """
    parts = _parts(scored)
    if parts is None:
        return []
    above, below = parts
    sign = 1.0 if _larger_is_worse(scored) else -1.0
    if len(above) and (below == below[0]).all():
        return [np.argsort(-sign * above, kind="stable")] * len(sizes)
    ratios = _best_ratios(above, below, sizes, sign)
    return [np.argsort(-sign * (above - r * below), kind="stable") for r in ratios]


def oracle_values(scored: Scored, sizes: Sequence[int]) -> Floats:
    """The measure of what is left after the best rejection of each size."""
    parts = _parts(scored)
    assert parts is not None, "a free measure has no oracle"
    if len(scored) and (parts[1] == parts[1][0]).all():
        return curve(scored, oracle_orders(scored, [0])[0], sizes)
    sign = 1.0 if _larger_is_worse(scored) else -1.0
    ratios = _best_ratios(*parts, sizes, sign)
    return _value(scored, np.array(ratios), np.ones(len(ratios)))


def _best_ratios(above: Floats, below: Floats, sizes: Sequence[int], sign: float) -> list[float]:
    """The best ratio of sums that is left for each size, by Dinkelbach; NaN if nothing is left to count."""
    total = float(below.sum())
    ratio = float(above.sum()) / total if total > 0 else 0.0
    found = []
    for size in sizes:
        for _ in range(100):
            worth = sign * (above - ratio * below)
            kept = np.argpartition(worth, len(worth) - size - 1)[: len(worth) - size]
            held = float(below[kept].sum())
            following = float(above[kept].sum()) / held if held > 0 else math.nan
            if not abs(following - ratio) > 1e-15 * max(1.0, abs(ratio)):
                break
            ratio = following
        found.append(following)
    return found


def _larger_is_worse(scored: Scored) -> bool:
    """Whether a larger ratio, before the scale, is worse."""
    falling = scored.scale is not None and scored.scale(0.0) > scored.scale(1.0)
    return (scored.better == "lower") != falling


def grid_sizes(n: int) -> list[int]:
    """Sizes from 0 to n - 1 at which what is costly is computed."""
    if n <= GRID:
        return list(range(n))
    return sorted({round(k) for k in np.linspace(0, n - 1, GRID)})


def area(values: Floats, sizes: Sequence[int] | None = None) -> float:
    """The mean of a curve over all numbers of rejected cases; between the sizes it is taken as straight.

    >>> area(np.array([0.5, 0.25, 0.0])), area(np.array([0.5, 0.0]), [0, 2])
    (0.25, 0.25)
    """
    if sizes is None or len(sizes) < 2:
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else math.nan
    steps = np.diff(sizes)
    # All sizes from one place to the next, with a straight line between: an end counts in one stretch only.
    inner = steps * (values[:-1] + values[1:]) / 2
    known = ~np.isnan(inner)
    ends = values[0] / 2 + values[np.r_[True, known]][-1] / 2
    return float((inner[known].sum() + ends) / (steps[known].sum() + 1))


class Rejected(NamedTuple):
    """What rejecting a share of the cases does."""

    strategy: str
    budget: float
    size: int
    value: float
    """The measure of what is left; NaN if the budget is less than one case."""
    gain: float
    """Relative to the measure of all, positive is better; NaN if that is not above 0."""
    of_oracle: float
    """How much of what the oracle gains it gains; NaN if the oracle gains nothing or is not known."""
    interval: Interval
    """Of the value."""
    of_oracle_interval: Interval


class RejectionCurve(NamedTuple):
    """The measure against the number of rejected cases."""

    strategy: str
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    area: float
    interval: Interval | None
    """Of the area; None for the oracle and for random rejection."""


@dataclass(frozen=True)
class Rejections:
    """All strategies on the cases of one condition."""

    at: Sequence[Rejected]
    curves: Sequence[RejectionCurve]
    whole: float
    """The measure of all cases."""
    better: str

    def best(self, budget: float) -> Rejected | None:
        """The strategy that gains most at a budget; of equals the first. It is chosen on these cases, which flatters it."""
        sign = 1.0 if self.better == "higher" else -1.0
        known = [r for r in self.at if r.budget == budget and r.strategy != ORACLE]
        gaining = [r for r in known if sign * (r.value - self.whole) > 1e-12]
        return max(gaining, key=lambda r: sign * r.value, default=None)


def rejections(
    scored: Scored,
    orders: Mapping[str, Order],
    *,
    budgets: Sequence[float],
    groups: np.ndarray | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Rejections:
    """Values at the budgets and curves of all strategies, with the oracle and random rejection, and intervals.

    Resamples draw whole groups; the order of the cases stays, and so many are rejected as the budget allows of those drawn.
    """
    n, whole = len(scored), scored.value()
    sizes = [top_size(n, b) for b in budgets]
    grid = sorted({*grid_sizes(n), *sizes} - {n})
    codes, count = group_codes(groups, n)
    best = oracle_orders(scored, sizes)
    made = {name: _Resampling(scored, order, budgets, grid) for name, order in orders.items()}
    top = [_Resampling(scored, order, [b]) for b, order in zip(budgets, best, strict=False)]
    drawn: list[tuple[float, dict[str, tuple[float, Floats]]]] = []
    for _ in range(resamples if count > 1 else 0):
        draw = np.bincount(rng.integers(0, count, count), minlength=count)
        weights = draw[codes].astype(np.float64)
        found = {name: m.values(weights) for name, m in made.items()}
        known = [m.values(weights)[1] for m in top] or [np.full(len(sizes), math.nan)]
        found[ORACLE] = (math.nan, np.concatenate(known))
        drawn.append((_whole(scored, weights), found))

    def between(estimate: float, values: Iterable[float]) -> Interval:
        known = np.array([v for v in values if math.isfinite(v)])
        lost = len(drawn) - len(known)
        return Resampled(estimate, known, lost, count, None).interval(confidence=confidence)

    at, curves = [], []
    best_values = [float(curve(scored, o, [k])[0]) for o, k in zip(best, sizes, strict=False)]
    best_values = best_values or [math.nan] * len(sizes)
    for name in (*orders, ORACLE) if best else orders:
        for i, (budget, size) in enumerate(zip(budgets, sizes, strict=True)):
            own = (
                best_values[i] if name == ORACLE else float(curve(scored, orders[name], [size])[0])
            )
            value = own if size else math.nan
            share = _share(whole, value, best_values[i], scored.better)
            shares = (_share(w, f[name][1][i], f[ORACLE][1][i], scored.better) for w, f in drawn)
            interval = between(value, (f[name][1][i] for _, f in drawn))
            of_oracle = between(share, shares)
            gain = _gain(whole, value, scored.better)
            at.append(Rejected(name, budget, size, value, gain, share, interval, of_oracle))
    for name, order in orders.items():
        shown = curve(scored, order, grid)
        exact = area(shown, grid) if _parts(scored) is None else area(curve(scored, order))
        interval = between(exact, (f[name][0] for _, f in drawn))
        curves.append(RejectionCurve(name, tuple(grid), tuple(shown.tolist()), exact, interval))
    if best:
        least = oracle_values(scored, grid)
        curves.append(
            RejectionCurve(ORACLE, tuple(grid), tuple(least.tolist()), area(least, grid), None)
        )
    curves.append(RejectionCurve(RANDOM, tuple(grid), (whole,) * len(grid), whole, None))
    return Rejections(at, curves, whole, scored.better)


def _whole(scored: Scored, weights: np.ndarray) -> float:
    """The measure of all cases drawn, silence charged as among all."""
    parts = _parts(scored)
    if parts is None:
        return scored.value(weights)
    sums = [np.array([weights @ part]) for part in parts]
    return float(_value(scored, sums[0], sums[1])[0])


@dataclass(frozen=True)
class _Resampling:
    """The cases in an order of rejection, for any number of times that each is drawn."""

    scored: Scored
    order: Order
    budgets: Sequence[float]
    grid: Sequence[int] = ()
    """Sizes over which an area is taken; without any, only the first cases of the order are read."""

    @cached_property
    def _ordered(self) -> list[Floats]:
        return [part[self.order] for part in _parts(self.scored) or ()]

    @cached_property
    def _reach(self) -> int:
        """Cases of the order among which all that is rejected will mostly be: a few times the largest budget."""
        n = len(self.order)
        return n if self.grid else min(n, 4 * top_size(n, max(self.budgets)) + 100)

    def values(self, weights: np.ndarray) -> tuple[float, Floats]:
        """The area, and the values at the budgets."""
        n, total = len(self.order), int(weights.sum())
        # Groups differ in size: of more cases more are rejected.
        sizes = np.array(
            [top_size(total, b) for b in self.budgets] + [k * total // n for k in self.grid]
        )
        for reach in (self._reach, n):
            drawn = weights[self.order[:reach]]
            upto = np.cumsum(drawn)
            if upto[-1] >= sizes.max():
                break
        # A case that is drawn twice may be rejected once.
        places = np.minimum(np.searchsorted(upto, sizes, "left"), len(upto) - 1)
        partly = sizes - upto[places] + drawn[places]
        if not self._ordered:
            found = np.array(
                [self._free(weights, p, r) for p, r in zip(places, partly, strict=True)]
            )
        else:
            parts = _parts(self.scored) or ()
            # Sums up to some places only: a tenth of the time of running sums.
            edges, at = np.unique(np.r_[0, places], return_inverse=True)
            left = []
            for part, ordered in zip(parts, self._ordered, strict=True):
                counted = drawn * ordered[: len(drawn)]
                upto_edges = np.r_[0.0, np.cumsum(np.add.reduceat(counted, edges)[:-1])]
                gone = upto_edges[at[1:]] + partly * ordered[places]
                # Rounding must not leave less than nothing.
                left.append(np.maximum(float(weights @ part) - gone, 0.0))
            found = _value(self.scored, left[0], left[1])
        k = len(self.budgets)
        return area(found[k:], self.grid) if self.grid else math.nan, found[:k]

    def _free(self, weights: np.ndarray, place: int, partly: int) -> float:
        left = np.array(weights, dtype=np.float64)
        left[self.order[:place]] = 0.0
        left[self.order[place]] -= partly
        return self.scored.weighted(left)


def _share(whole: float, value: float, best: float, better: str) -> float:
    gained = best - whole
    if not (gained if better == "higher" else -gained) > 1e-12:
        return math.nan
    return (value - whole) / gained


def _gain(whole: float, value: float, better: str) -> float:
    if not whole > 0:
        return math.nan
    return (whole - value) / whole if better == "lower" else (value - whole) / whole


def failure_marks(error: Floats, failure: np.ndarray) -> np.ndarray:
    """What a combination learns to see: failures, or where all or none fail, errors above the median."""
    marks = np.asarray(failure, dtype=bool)
    return marks if marks.any() and not marks.all() else np.asarray(error > np.median(error))


def learned_scores(
    columns: Mapping[str, Floats],
    marks: np.ndarray,
    clusters: np.ndarray,
    *,
    rng: np.random.Generator,
) -> Floats:
    """A combination of scores for every case, learned on other groups of cases (cross-fitting).

    NaN if the cases to learn one of the combinations from are all of one sort: only some cases
    without a score, which is the riskiest, would say where the failures are.
    """
    codes, count = group_codes(clusters, len(marks))
    folds = min(FOLDS, count)
    if folds < 2:
        return np.full(len(marks), np.nan)
    fold = rng.permutation(count)[codes] % folds
    found = np.full(len(marks), np.nan)
    for i in range(folds):
        fusion = fitted_fusion(columns, marks, fold != i, rng=rng)
        if fusion is None:
            return np.full(len(marks), np.nan)
        rows = fold == i
        found[rows] = fusion.score({m: c[rows] for m, c in columns.items()})
    return found


def fitted_fusion(
    columns: Mapping[str, Floats], marks: np.ndarray, rows: np.ndarray, *, rng: np.random.Generator
) -> LogisticFusion | None:
    """The logistic combination of scores that tells marked rows from others; None if there are not both."""
    chosen = np.flatnonzero(rows & ~np.isnan(np.vstack(list(columns.values()))).all(axis=0))
    if len(chosen) > MOST_FITTED:
        chosen = rng.choice(chosen, MOST_FITTED, replace=False)
    own = marks[chosen]
    if not own.any() or own.all():
        return None
    known = {m: c[chosen] for m, c in columns.items() if not np.isnan(c[chosen][~own]).all()}
    try:
        return LogisticFusion.fit(known, own) if known else None
    except ValueError:  # the fit did not settle: nothing is learned
        return None
