"""Whether a module's score sees a corruption, and whether two modules' scores flag the same cases (Wang et al. 2022, RQ1 and RQ2).

The Wilcoxon signed-rank test is one-sided: the score is greater under the corruption. Zero differences are dropped and ties have
mid-ranks; the p-value is exact for at most 50 pairs without ties, else by the normal approximation without continuity correction.
Rows of one group (frames of a video) are not independent: with groups, whole groups change sign
(Rosner, Glynn and Lee 2006), all of their signs for at most 12 groups, else by the normal approximation.
The effect size is the share of pairs in which the score rose; `effect` counts equal pairs half, `strict` (as published) as not
risen. Pairs with a missing score are left out and counted.

>>> signed_rank(np.array([2.0, 3.0, 5.0, 5.0, 1.0]), np.array([1.0, 1.0, 1.0, 5.0, np.nan]))
SignedRank(effect=0.875, strict=0.75, p=0.125, pairs=4, missing=1)

The overlap of the riskiest n% has the overlap of two random sets beside it. Cases that are tied at the cut are in the set with the
probability that a random order would give them; a missing score is the riskiest.

>>> top_overlap(np.array([9.0, 8.0, 1.0, 2.0]), np.array([7.0, 0.0, 7.0, 1.0]), 0.5)
Overlap(share=0.5, chance=0.5, size=2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from roadworthy.statistics import Interval, holm
from roadworthy.statistics import mean as mean_interval
from roadworthy.statistics.arguments import Floats, group_codes, tail_probability

FEW_GROUPS = 50
"""Groups up to which a standard error is a jackknife: with ten, influence alone is too small."""
EXACT_GROUPS = 12
"""Groups up to which all signs are counted."""
PERFECT = 1 - 1e-12
"""A correlation above it is 1 but for rounding."""
EXACT = 50
"""Pairs up to which the p-value of the signed-rank test is exact, unless some are tied."""


class SignedRank(NamedTuple):
    """A paired comparison of scores."""

    effect: float
    """The share of pairs that rose, equal ones half; NaN without pairs."""
    strict: float
    """The same with equal pairs as not risen (the effect size D of Wang et al. 2022)."""
    p: float
    """One-sided; 1 if all pairs are equal, NaN without pairs."""
    pairs: int
    missing: int


class Overlap(NamedTuple):
    """How much of two sets of the riskiest cases is the same."""

    share: float
    """NaN if the share of all cases is less than one case."""
    chance: float
    """What two random sets of this size share on average."""
    size: int


class Association(NamedTuple):
    """A rank correlation of two columns."""

    value: float
    """NaN with fewer than two pairs, or where a column does not vary."""
    p: float
    """Two-sided, against no association; with groups, from the interval's standard error."""
    interval: Interval | None
    """None where the value is not defined."""
    pairs: int
    missing: int


def signed_rank(corrupted: Floats, clean: Floats, groups: Floats | None = None) -> SignedRank:
    """Whether a score is greater under a corruption than on the same clean cases."""
    from scipy.stats import wilcoxon

    with np.errstate(invalid="ignore"):
        change = np.asarray(corrupted, dtype=np.float64) - np.asarray(clean, dtype=np.float64)
    # Infinite on both sides: the score is the same.
    change = np.where(corrupted == clean, 0.0, change)
    known = change[~np.isnan(change)]
    missing = len(change) - len(known)
    if not len(known):
        return SignedRank(math.nan, math.nan, math.nan, 0, missing)
    strict = float(np.mean(known > 0))
    effect = strict + float(np.mean(known == 0)) / 2
    moved = known[known != 0]
    if not len(moved):
        return SignedRank(effect, strict, 1.0, len(known), missing)
    if groups is not None:
        own = np.asarray(groups)[~np.isnan(change)][known != 0]
        return SignedRank(effect, strict, _signs_of_groups(moved, own), len(known), missing)
    few = len(moved) <= EXACT and len(np.unique(np.abs(moved))) == len(moved)
    method = "exact" if few else "approx"
    found = wilcoxon(moved, alternative="greater", correction=False, method=method)
    return SignedRank(effect, strict, float(found.pvalue), len(known), missing)


def _signs_of_groups(moved: Floats, groups: Floats) -> float:
    """The one-sided p-value of the sum of signed ranks if the signs of whole groups are exchangeable."""
    from scipy.stats import norm, rankdata

    codes, count = group_codes(groups, len(moved))
    sums = np.bincount(codes, weights=np.sign(moved) * rankdata(np.abs(moved)), minlength=count)
    if count > EXACT_GROUPS:
        return float(norm.sf(sums.sum() / math.sqrt(float(sums @ sums))))
    signs = 1 - 2 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
    return float(np.mean(signs @ sums >= sums.sum() - 1e-9 * np.abs(sums).sum()))


def effect_interval(
    corrupted: Floats, clean: Floats, groups: Floats | None = None, *, confidence: float = 0.95
) -> Interval:
    """The interval of the effect size, over whole groups."""
    known = ~(np.isnan(corrupted) | np.isnan(clean))
    rose = (corrupted > clean)[known] + (corrupted == clean)[known] / 2.0
    if not len(rose):
        return Interval(0.0, 1.0, confidence, "no pairs")
    found = mean_interval(rose, None if groups is None else groups[known], confidence=confidence)
    return Interval(max(found.low, 0.0), min(found.high, 1.0), confidence, found.method)


def top_size(n: int, share: float) -> int:
    """How many cases the riskiest share of n is: rounded down (0.29 of 100 is 29, whatever binary fractions say).

    >>> top_size(2620, 0.01), top_size(50, 0.01), top_size(100, 0.29)
    (26, 0, 29)
    """
    return math.floor(share * n + 1e-9)


def top_overlap(first: Floats, second: Floats, share: float) -> Overlap:
    """The expected share that the riskiest cases of two scores have in common."""
    if len(first) != len(second):
        raise ValueError(f"both scores need the same cases, found {len(first)} and {len(second)}")
    size, n = top_size(len(first), share), len(first)
    if size == 0:
        return Overlap(math.nan, math.nan, 0)
    common = float(np.dot(_membership(first, size), _membership(second, size)))
    return Overlap(common / size, size / n, size)


def _membership(scores: Floats, size: int) -> Floats:
    """The probability of each case to be among the `size` riskiest if ties are ordered at random."""
    risk = np.where(np.isnan(scores), np.inf, scores)
    cut = np.partition(risk, len(risk) - size)[len(risk) - size]
    above, tied = risk > cut, risk == cut
    return np.where(above, 1.0, np.where(tied, (size - above.sum()) / tied.sum(), 0.0))


def spearman(
    first: Floats, second: Floats, groups: Floats | None = None, *, confidence: float = 0.95
) -> Association:
    """Spearman's rank correlation over the pairs that both know.

    The influence of a case counts that ranks are estimated, too.
    """
    from scipy.stats import rankdata, spearmanr

    x, y, own, missing = pairwise(first, second, groups)
    if len(x) < 2 or _constant(x) or _constant(y):
        return Association(math.nan, math.nan, None, len(x), missing)
    found = spearmanr(x, y)
    value = float(found.statistic)
    n = len(x)
    ranks = [(rankdata(v) - 0.5) / n for v in (x, y)]
    a, b = ((r - 0.5) / r.std() for r in ranks)
    # A case moves the ranks of others, which moves the covariance and both variances.
    from_ranks = _above(x, b - value * a) / ranks[0].std()
    from_ranks += _above(y, a - value * b) / ranks[1].std()
    influence = a * b + from_ranks - value / 2 * (a**2 + b**2)

    def without(rows: np.ndarray) -> float:
        return float(spearmanr(x[rows], y[rows]).statistic)

    interval, p = correlation_test(value, x, influence, own, confidence, without)
    return Association(value, _p(found.pvalue) if own is None else p, interval, n, missing)


def _above(x: Floats, b: Floats) -> Floats:
    """For each case the mean over all of b where x is larger, half of it where x is equal."""
    values, place = np.unique(x, return_inverse=True)
    at = np.bincount(place, weights=b, minlength=len(values))
    upto = np.cumsum(at)
    found: Floats = ((upto[-1] - upto) + at / 2)[place] / len(x)
    return found


def pairwise(
    first: Floats, second: Floats, groups: Floats | None
) -> tuple[Floats, Floats, Floats | None, int]:
    """Both columns where both are known, with the groups, and how many cases are left out."""
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    known = ~(np.isnan(x) | np.isnan(y))
    own = None if groups is None else np.asarray(groups)[known]
    return x[known], y[known], own, int((~known).sum())


def correlation_test(
    value: float,
    x: Floats,
    influence: Floats,
    groups: Floats | None,
    confidence: float,
    without: Callable[[np.ndarray], float],
) -> tuple[Interval, float]:
    """The interval of a correlation, Student's t on Fisher's scale, and its two-sided p-value.

    The standard error comes from leaving out one group at a time (`without` computes the correlation
    of some rows), or, if there are many groups, from the influence of each case. A perfect
    correlation has none: its p-value is that of the order of the groups, and its interval is unknown.
    """
    from scipy.special import stdtr, stdtrit

    codes, count = group_codes(groups, len(x))
    if count < 3 or abs(value) > PERFECT:
        unknown = f"fisher, {count} groups: the variance is unknown"
        p = _same_order(x, codes) if count >= 3 else 1.0
        return Interval(-1.0, 1.0, confidence, unknown), p
    few = groups is not None and count <= FEW_GROUPS
    error = _jackknife(codes, count, without) if few else math.nan
    method = f"fisher, {count} groups left out in turn"
    if not math.isfinite(error):
        sums = np.bincount(codes, weights=influence - influence.mean(), minlength=count)
        # The scale of a jackknife over groups: n / (n - 1) for groups of one case.
        error = math.sqrt(count / (count - 1) * float(sums @ sums)) / len(influence)
        error /= 1 - value**2
        method = f"fisher, influence of {count} groups"
    spread = stdtrit(count - 1, 1 - tail_probability(confidence, "two")) * error
    middle = math.atanh(value)
    low, high = math.tanh(middle - spread), math.tanh(middle + spread)
    p = 2 * float(stdtr(count - 1, -abs(middle) / error)) if error > 0 else 1.0
    return Interval(low, high, confidence, method), p


def _jackknife(codes: np.ndarray, count: int, without: Callable[[np.ndarray], float]) -> float:
    """The standard error on Fisher's scale; NaN if a correlation is undefined or 1."""
    left = np.array([without(codes != g) for g in range(count)])
    if not (np.abs(left) <= PERFECT).all():
        return math.nan
    return float(np.sqrt((count - 1) * np.arctanh(left).var()))


def _same_order(x: Floats, codes: np.ndarray) -> float:
    """How likely groups in random order correlate perfectly, in either direction: equal groups may change places."""
    from scipy.special import gammaln
    from scipy.stats import rankdata

    means = np.bincount(codes, weights=rankdata(x)) / np.bincount(codes)
    _, equal = np.unique(means.round(9), return_counts=True)
    return min(1.0, 2 * math.exp(gammaln(equal + 1).sum() - gammaln(len(means) + 1)))


def _constant(x: Floats) -> bool:
    return bool((x == x[0]).all())


def _p(p: float) -> float:
    """Two points have no p-value in scipy; they are evidence of nothing."""
    return 1.0 if math.isnan(p) else float(p)


def holm_adjusted(p_values: Mapping[str, float] | Sequence[float]) -> list[float]:
    """p-values of one family after Holm; NaN stays NaN and counts for nothing.

    >>> holm_adjusted([0.01, math.nan, 0.04])
    [0.02, nan, 0.04]
    """
    given = np.asarray(
        list(p_values.values() if isinstance(p_values, Mapping) else p_values), dtype=np.float64
    )
    known = ~np.isnan(given)
    if known.any():
        given[known] = holm(given[known])
    return [float(p) for p in given]
