"""How degradation passes through a system (Wang et al. 2022, RQ0 and RQ3): Kendall's tau-b between changes of modules' scores, and
between the change of a module's score and the change of the system's error on the same case.

A change is the difference to the clean case. tau-b is computed in n log n by scipy; its interval takes the concordance of each case
with all others, counted by merging, so that whole groups can be taken together.

>>> found = kendall(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1.0, 3.0, 2.0, 5.0, 4.0]))
>>> round(found.value, 3), found.pairs
(0.6, 5)

A module in series has no truth of its own: its degradation is the distance to its own clean output.

>>> from roadworthy.registry import get
>>> distances_to_clean(get("distances", "disagreement"), np.array([[0.9, 0.1]] * 2), np.array([[0.8, 0.2], [0.3, 0.7]])).tolist()
[0.0, 1.0]
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis.systems.awareness import Association, correlation_test, pairwise
from roadworthy.measures.scored import answered
from roadworthy.registry import Component
from roadworthy.statistics.arguments import Floats


class Redundancy(NamedTuple):
    """Two modules, or two systems, that answer the same cases."""

    first: float
    second: float
    """Their mean errors."""
    better_of_both: float
    """The mean error if the better answer of each case were known: what no choice can beat."""
    both_fail: float
    """The share of cases on which both fail."""
    if_independent: float
    """The share on which both would fail if their failures had nothing to do with each other."""
    chosen: float
    """The mean error if the answer with the lower score (rank among its own scores) is taken; NaN without scores."""


def case_change(here: Floats, clean: Floats) -> Floats:
    """The difference of each case to the same case under clean conditions; 0 where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(here, dtype=np.float64) - np.asarray(clean, dtype=np.float64)
    return np.where(np.asarray(here) == np.asarray(clean), 0.0, found)


def kendall(
    first: Floats, second: Floats, groups: Floats | None = None, *, confidence: float = 0.95
) -> Association:
    """Kendall's tau-b with its two-sided p-value, over the pairs that both know."""
    from scipy.stats import kendalltau

    x, y, own, missing = pairwise(first, second, groups)
    n = len(x)
    if n < 2 or (x == x[0]).all() or (y == y[0]).all():
        return Association(math.nan, math.nan, None, n, missing)
    found = kendalltau(x, y, variant="b")
    value = float(found.statistic)
    concordance = concordances(x, y)
    apart = [n - _equal(v) for v in (x, y)]
    scale = math.sqrt(apart[0].mean() * apart[1].mean())
    shares = sum(a / a.mean() for a in apart)
    influence = 2 * concordance / scale - value * shares

    def without(rows: np.ndarray) -> float:
        return float(kendalltau(x[rows], y[rows], variant="b").statistic)

    interval, p = correlation_test(value, x, influence, own, confidence, without)
    return Association(value, float(found.pvalue) if own is None else p, interval, n, missing)


def concordances(x: Floats, y: Floats) -> Floats:
    """For each case how many others lie in the same direction in both columns, less those that lie in opposite ones.

    >>> concordances(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    n = len(x)
    p, q = (np.unique(v, return_inverse=True)[1] for v in (x, y))
    below_x, below_y = _below(p), _below(q)
    both_below = _dominated(p, q)
    # Cases that are equal in one column and below in the other, and those that are equal in both.
    below_in_x, equal = _below_among_equal(q, p)
    below_in_y, _ = _below_among_equal(p, q)
    opposite = (below_x - both_below - below_in_x) + (below_y - both_below - below_in_y)
    tied = (_equal(p) - 1) + (_equal(q) - 1) - (equal - 1)
    both_above = n - 1 - both_below - opposite - tied
    return (both_below + both_above - opposite).astype(np.float64)


def _below(x: np.ndarray) -> np.ndarray:
    """How many values are smaller; x counts from 0 without gaps."""
    counts = np.bincount(x)
    found: np.ndarray = (np.cumsum(counts) - counts)[x]
    return found


def _equal(x: np.ndarray) -> np.ndarray:
    """How many values are equal, the value itself included."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    found: np.ndarray = counts[place]
    return found


def _below_among_equal(same: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the cases that are equal in `same`, how many are smaller in x; and how many are equal in x, itself included."""
    width = int(x.max()) + 1
    joint = same.astype(np.int64) * width + x
    values, place, counts = np.unique(joint, return_inverse=True, return_counts=True)
    starts = np.cumsum(counts) - counts
    first = np.searchsorted(values, (values // width) * width)
    return (starts - starts[first])[place], counts[place]


def _dominated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many cases are smaller in both columns: merge sort, level by level, all blocks of a level at once."""
    order = np.lexsort((-y, x))  # among equal x the larger y first, so that it is never counted
    rows = y[order]
    n, width = len(rows), int(y.max()) + 1
    position = np.arange(n)
    counts = np.zeros(n, dtype=np.int64)
    half = 1
    while half < n:
        block, right = position // (2 * half), (position // half) % 2 == 1
        keys = block * width + rows
        left = np.sort(keys[~right])
        before = np.searchsorted(left, keys[right], "left")
        counts[right] += before - np.searchsorted(left, block[right] * width, "left")
        half *= 2
    found = np.empty(n, dtype=np.int64)
    found[order] = counts
    return found


def distances_to_clean(distance: Component, clean: Any, here: Any) -> Floats:
    """How far each answer of a module lies from its own answer to the clean case; columns of answers, None or NaN without one.

    An answer that is missing under the corruption is as far as can be (1) if the distance is bounded, else unknown (NaN); so is
    one whose clean answer is missing.
    """
    compare, bounded = distance.bind(), bool(distance.traits.get("bounded", False))
    known, given = answered(clean), answered(here)
    found = np.full(len(known), np.nan)
    found[known & ~given] = 1.0 if bounded else np.nan
    for row in np.flatnonzero(known & given).tolist():
        one, other = clean[row], here[row]
        if np.shape(one) == np.shape(other) or not isinstance(one, np.ndarray):
            found[row] = compare(one, other)
    return found


def relative_change(here: float, clean: float, better: str) -> float:
    """How much worse, relative to clean (Wang et al. 2022, tables 4 to 7); NaN unless clean is above 0.

    >>> round(relative_change(0.071, 0.065, "lower"), 3), round(relative_change(0.3, 0.6, "higher"), 3)
    (0.092, 0.5)
    """
    if not clean > 0:
        return math.nan
    return here / clean - 1 if better == "lower" else 1 - here / clean


def redundancy(
    errors: tuple[Floats, Floats],
    failures: tuple[np.ndarray, np.ndarray],
    scores: tuple[Floats, Floats] | None = None,
) -> Redundancy:
    """What a second module, or a second configuration, of the same cases gains (Wang et al. 2022, section 5.1).

    >>> wrong = (np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0]))
    >>> found = redundancy(wrong, tuple(w > 0 for w in wrong), wrong)
    >>> found.better_of_both, found.both_fail, found.chosen
    (0.25, 0.25, 0.25)
    """
    first, second = errors
    fails = [np.asarray(f, dtype=bool) for f in failures]
    chosen = math.nan
    if scores is not None:
        risk = [_risk_ranks(s) for s in scores]
        chosen = float(np.where(risk[0] <= risk[1], first, second).mean())
    return Redundancy(
        float(np.mean(first)),
        float(np.mean(second)),
        float(np.minimum(first, second).mean()),
        float((fails[0] & fails[1]).mean()),
        float(fails[0].mean() * fails[1].mean()),
        chosen,
    )


def _risk_ranks(scores: Floats) -> Floats:
    """Ranks of a score among its own, a missing one the riskiest."""
    from scipy.stats import rankdata

    ranks: Floats = rankdata(np.where(np.isnan(scores), np.inf, scores))
    return ranks
