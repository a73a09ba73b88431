"""Bounds on the probability of misclassification per input (pmi), from labels and answers.

Zhao et al. 2021 add up cells (equations 4-7); their bound does not hold. Here inputs are counted,
each an independent draw from operation. (d) `operational_test`: failures among inputs labelled at
random, no further assumption. (b) `propagated`: every operational input takes the label of a
neighbour within r, or counts as failing; if labels are r-separated no failure is overlooked,
whichever inputs were labelled. Two lines are printed (`printed_bounds`): (d) at the full alpha, and
the smaller of (d) at 0.9 alpha and (b) at 0.1 alpha, a split fixed before the data are seen.

>>> tested = operational_test(np.arange(1000) < 2)
>>> tested.k, tested.n, tested.point, round(tested.upper, 5)
(2.0, 1000, 0.002, 0.00721)
>>> answers = np.zeros(20_000, int)
>>> reached = np.where(np.arange(20_000) < 40, -1, 0)     # 0.2% of operation has no label within r
>>> lines = printed_bounds(np.arange(1000) < 2, reached, answers)
>>> round(lines.if_separated.upper, 5), lines.if_separated.method, round(lines.gain, 2)
(0.00306, 'labels within r, Clopper-Pearson', 2.35)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics.arguments import (
    Floats,
    binary_values,
    check_confidence,
    group_codes,
    real_values,
    same_length,
)
from roadworthy.statistics.bounded_mean import bounded_mean_upper
from roadworthy.statistics.clusters import kish_size
from roadworthy.statistics.planning import smallest_number
from roadworthy.statistics.proportion import clopper_pearson_bounds
from roadworthy.statistics.pvalue import holm, p_value_from_bound

CONFIDENCE = 0.975
SPLIT = 0.9
"""Part of alpha spent on (d) in the second line; (b) has the rest. At zero failures this costs 2.8%
where (b) does not help, half each would cost 19%."""
VACUOUS = 0.5
"""If more of operation than this has no label within r, (b) is no bound worth printing."""
NO_LABEL = -1

Pairs = Sequence[tuple[int, int]]
"""True and predicted class."""


@dataclass(frozen=True)
class PmiBound:
    """An estimate of pmi with a lower and an upper bound, each one-sided at the confidence."""

    point: float
    """NaN if there is nothing to estimate it from."""
    lower: float
    upper: float
    n: int
    """Independent units: inputs, or groups."""
    k: float
    """Failures; failing shares of groups, or weights of failures, summed."""
    confidence: float
    method: str
    effective_n: float
    exact: bool = True
    """Clopper-Pearson; otherwise the bound of a bounded mean."""
    largest: float = 1.0
    """The most one unit can add to k."""

    def upper_after(self, further: int) -> float:
        """The upper bound after so many further units without a failure."""
        n, level = self.n + further, self.confidence
        if self.exact:
            return float(clopper_pearson_bounds(self.k, n, confidence=level, sided="upper")[1])
        return self.largest * bounded_mean_upper(self.k / self.largest, n, 1.0 - level)


def operational_test(
    failed: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    largest_weight: float | None = None,
    confidence: float = CONFIDENCE,
) -> PmiBound:
    """(d): plain operational testing over inputs that were labelled at random.

    With `groups` the units are groups, and pmi is that of an input of a group drawn at random.
    `weights` turn the profile that was drawn from into the claimed one: ratios of probabilities,
    fixed beforehand, 1 on average, none above `largest_weight`.
    """
    check_confidence(confidence)
    wrong = binary_values(failed, "failed") if np.size(failed) else np.zeros(0)
    if not len(wrong):
        return PmiBound(math.nan, 0.0, 1.0, 0, 0, confidence, "no labelled inputs", 0.0)
    if weights is not None:
        if groups is not None:
            raise ValueError("weights with groups are not supported; give one of them")
        values, largest = _weighted(wrong, weights, largest_weight)
        found = _bound(values, confidence, "weighted, bounded mean", largest=largest)
        effective = kish_size(np.asarray(weights, dtype=np.float64))
        return replace(found, upper=min(found.upper, 1.0), effective_n=effective)
    codes, count = group_codes(groups, len(wrong))
    if count == len(wrong):
        return _bound(wrong, confidence, "Clopper-Pearson", exact=True)
    shares = np.bincount(codes, wrong, count) / np.bincount(codes, minlength=count)
    return _bound(shares, confidence, "groups, bounded mean")


def _weighted(wrong: Floats, weights: ArrayLike, largest: float | None) -> tuple[Floats, float]:
    """Weights of the failing inputs, and the largest weight."""
    factor = real_values(weights, "weights")
    same_length(wrong, factor, "failed and weights")
    if largest is None or factor.min() < 0.0 or factor.max() > largest:
        raise ValueError(
            f"weights must lie between 0 and largest_weight, found {factor.min():g} to "
            f"{factor.max():g} and {largest}; give the largest weight any input can have"
        )
    if abs(float(factor.mean()) - 1.0) > 5.0 * largest / math.sqrt(len(factor)):
        raise ValueError(
            f"weights must be 1 on average over the inputs as drawn, found {factor.mean():g}; "
            "divide the claimed probability of each input by the one it was drawn with"
        )
    return wrong * factor, float(largest)


def _bound(
    values: Floats, confidence: float, method: str, *, exact: bool = False, largest: float = 1.0
) -> PmiBound:
    n, k = len(values), float(values.sum())
    if exact:
        low = float(clopper_pearson_bounds(k, n, confidence=confidence, sided="lower")[0])
    else:
        low = largest * (1.0 - bounded_mean_upper(n - k / largest, n, 1.0 - confidence))
    found = PmiBound(k / n, low, 1.0, n, k, confidence, method, float(n), exact, largest)
    return replace(found, upper=found.upper_after(0))


@dataclass(frozen=True)
class Propagated:
    """(b), and what it rests on."""

    bound: PmiBound
    failing: float
    """Share of inputs that fail by the label that reaches them."""
    without_label: float
    """Share of inputs that no label reaches; counted as failing."""

    @property
    def says_nothing(self) -> bool:
        """Too little of operation is near a label: the number is not to be shown as a bound."""
        return not self.bound.n or self.without_label > VACUOUS

    def __str__(self) -> str:
        share = f"{self.without_label:.1%} of operation has no label within r"
        if self.says_nothing:
            return f"(b) says nothing: {share}"
        return f"(b) at most {self.bound.upper:.3g}; {share}"


def propagated(
    reached_labels: ArrayLike,
    answers: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> Propagated:
    """(b): each operational input is judged by the label that reaches it (-1: none, it fails).

    An input with a label of its own is reached by that. If labels are r-separated, no failure is
    overlooked, however the labelled inputs were chosen.
    """
    labels, given = np.asarray(reached_labels), np.asarray(answers)
    same_length(labels, given, "reached_labels and answers")
    without, wrong = labels == NO_LABEL, labels != given
    bound = operational_test(without | wrong, groups=groups, confidence=confidence)
    shares = (float(x.mean()) if len(x) else math.nan for x in (wrong & ~without, without))
    return Propagated(replace(bound, method=f"labels within r, {bound.method}"), *shares)


@dataclass(frozen=True)
class PrintedBounds:
    """The two lines of a report, and what they were made from."""

    without_assumptions: PmiBound
    """(d) at the full alpha."""
    if_separated: PmiBound
    """The smaller of (d) and (b), alpha split between them."""
    tested: PmiBound
    """(d) at its part of alpha."""
    propagated: Propagated
    """(b) at its part."""
    split: float
    contradicted: int
    """Labelled inputs that contradict r-separation: then the second line is struck out."""

    @property
    def gain(self) -> float:
        """The first line over the second; above 1, labels within r helped."""
        return self.without_assumptions.upper / self.if_separated.upper

    @property
    def holds(self) -> bool:
        """No label contradicts the second line, nor does the plain test's lower bound."""
        return not self.contradicted and self.if_separated.lower <= self.if_separated.upper

    def judged(self, assume_separation: bool) -> PmiBound:
        """What a claim is judged by: the second line if it is assumed and not contradicted."""
        if assume_separation and self.holds:
            return self.if_separated
        return self.without_assumptions


def printed_bounds(
    failed: ArrayLike,
    reached_labels: ArrayLike,
    answers: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    all_groups: ArrayLike | None = None,
    split: float = SPLIT,
    contradicted: int = 0,
    confidence: float = CONFIDENCE,
) -> PrintedBounds:
    """Both lines: `failed` over inputs labelled at random, the others over all operational inputs.

    `groups` are those of `failed`, `all_groups` those of all operational inputs.
    """
    if not 0.0 < split < 1.0:
        raise ValueError(f"split must lie between 0 and 1, found {split!r}; 0.9 leaves 0.1 to (b)")
    alpha = 1.0 - check_confidence(confidence)
    plain = operational_test(failed, groups=groups, confidence=confidence)
    tested = operational_test(failed, groups=groups, confidence=1.0 - split * alpha)
    by_label = propagated(
        reached_labels, answers, groups=all_groups, confidence=1.0 - (1.0 - split) * alpha
    )
    smaller = tested if tested.upper <= by_label.bound.upper else by_label.bound
    point = smaller.point if math.isnan(plain.point) else plain.point
    joint = replace(smaller, point=point, lower=plain.lower, confidence=confidence)
    return PrintedBounds(plain, joint, tested, by_label, split, contradicted)


def corrected(
    guess_failed: ArrayLike,
    failed: ArrayLike,
    labelled_guess: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    labelled_groups: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> PmiBound:
    """P(f) <= P(f' = 1) + P(f = 1, f' = 0), half alpha each: unlabelled inputs without assumptions.

    f' is any guess whether an input fails. `guess_failed` has it for unlabelled inputs,
    `labelled_guess` for those of `failed`; no label of the latter may have entered the guess.
    """
    guess, wrong, own = (np.asarray(x, dtype=bool) for x in (guess_failed, failed, labelled_guess))
    same_length(wrong, own, "failed and labelled_guess")
    half = (1.0 + check_confidence(confidence)) / 2.0
    guessed = operational_test(guess, groups=groups, confidence=half)
    missed = operational_test(wrong & ~own, groups=labelled_groups, confidence=half)
    excess = operational_test(own & ~wrong, groups=labelled_groups, confidence=half)
    return PmiBound(
        point=min(max(guessed.point + missed.point - excess.point, 0.0), 1.0),
        lower=max(guessed.lower - excess.upper, 0.0),
        upper=min(guessed.upper + missed.upper, 1.0),
        n=missed.n,
        k=float(wrong.sum()),
        confidence=confidence,
        method=f"corrected, {guessed.n} unlabelled",
        effective_n=float(missed.n),
    )


def credible(
    inputs: ArrayLike, tests: ArrayLike, failures: ArrayLike, *, confidence: float = CONFIDENCE
) -> PmiBound:
    """(c): Bayesian assembly over cells, from operational `inputs`, `tests` and `failures` of each.

    Dirichlet weights (total 1 over the seen cells and one unseen cell that fails) times
    Beta(1/2, 1/2) cells; a cell without tests fails. Mean and variance of the sum are exact, its
    quantiles those of the beta distribution with the same two. No coverage is claimed.
    """
    from scipy.special import betaincinv

    n, m, k = (np.asarray(x, dtype=np.float64) for x in (inputs, tests, failures))
    if not (n.shape == m.shape == k.shape and n.ndim == 1) or (k > m).any() or (k < 0).any():
        raise ValueError(
            f"expected counts by cell, failures <= tests; found {n.shape}, {m.shape}, {k.shape}"
        )
    a = np.append(n, 0.0) + 1.0 / (len(n) + 1)
    rate = np.append(np.where(m > 0, (k + 0.5) / (m + 1.0), 1.0), 1.0)
    spread = np.append(np.where(m > 0, rate[:-1] * (1.0 - rate[:-1]) / (m + 2.0), 0.0), 0.0)
    total = float(a.sum())
    mean = float(a @ rate) / total
    square = float((a @ rate) ** 2 + a @ rate**2 + (a * a + a) @ spread) / (total * (total + 1.0))
    size = mean * (1.0 - mean) / max(square - mean * mean, 1e-300) - 1.0
    low, high = 1.0, 1.0  # no cell was tested
    if m.any():
        ends = (1.0 - check_confidence(confidence), confidence)
        low, high = betaincinv(mean * size, (1.0 - mean) * size, ends).tolist()
    method = f"credible, {len(n)} cells and one unseen"
    return PmiBound(
        mean, low, high, int(m.sum()), float(k.sum()), confidence, method, size, exact=False
    )


def conservative_bound(
    n: int, *, below: float, belief: float, confidence: float = CONFIDENCE
) -> float:
    """Conservative Bayesian inference after n tests without a failure (Bishop et al. 2011).

    P(pmi <= bound) >= confidence for every prior with P(pmi <= below) >= belief; the worst one has
    `belief` at `below` and the rest just above the bound (Strigini and Povyakalo 2013).

    >>> round(conservative_bound(1000, below=1e-4, belief=0.9), 6)
    0.001565
    """
    if not (0.0 <= below < 1.0 and 0.0 < belief < 1.0):
        raise ValueError(
            f"expected 0 <= below < 1 and 0 < belief < 1, found below={below!r}, belief={belief!r}"
        )
    odds = belief * (1.0 - check_confidence(confidence)) / (confidence * (1.0 - belief))
    if odds >= 1.0:
        return below
    return 1.0 - (1.0 - below) * odds ** (1.0 / n) if n else 1.0


Status = Literal["met", "breached", "inconclusive"]


class ClaimStatus(NamedTuple):
    """A claim `pmi: {max: limit}` against a bound."""

    status: Status
    further: int | None
    """Further failure-free labels (groups) that would settle it, if any would."""


def claim_status(bound: PmiBound, limit: float, *, tested: PmiBound | None = None) -> ClaimStatus:
    """Met if the upper bound is at most the limit, breached if the lower one is above.

    If `bound` is the second line, give its `tested`: further labels add to that.
    """
    status = _status(bound.upper <= limit, bound.lower > limit)
    if status != "inconclusive" or limit <= 0.0:
        return ClaimStatus(status, None)
    more = tested or bound
    return ClaimStatus(status, smallest_number(lambda m: more.upper_after(m) <= limit, 1))


class Subtype(NamedTuple):
    """Failures of one sub-type, such as red taken for green."""

    name: str
    bound: PmiBound
    limit: float | None
    p_adjusted: float | None
    """Of "at least the limit", after Holm over all sub-types that have a limit."""
    status: Status | None


def subtypes(
    labels: ArrayLike,
    answers: ArrayLike,
    pairs: Mapping[str, Pairs],
    *,
    limits: Mapping[str, float] | None = None,
    groups: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> list[Subtype]:
    """pmi by sub-type, each a set of (true, predicted) pairs; estimates add up, bounds do not."""
    limits = limits or {}
    if unknown := set(limits) - set(pairs):
        raise ValueError(f"limits for unknown sub-types {sorted(unknown)}; known: {sorted(pairs)}")
    failed = {name: _of_pairs(labels, answers, wanted) for name, wanted in pairs.items()}

    def bound_at(name: str, level: float) -> PmiBound:
        return operational_test(failed[name], groups=groups, confidence=level)

    def p_value(name: str) -> float:
        return p_value_from_bound(
            lambda level: bound_at(name, level).upper, limits[name], alternative="less"
        )

    adjusted = dict(zip(limits, holm([p_value(x) for x in limits]), strict=True)) if limits else {}
    alpha = 1.0 - check_confidence(confidence)
    result = []
    for name in pairs:
        p, status = adjusted.get(name), None
        if p is not None:
            low = bound_at(name, 1.0 - alpha / len(limits)).lower
            status = _status(p <= alpha, low > limits[name])
        result.append(Subtype(name, bound_at(name, confidence), limits.get(name), p, status))
    return result


def _status(met: bool, breached: bool) -> Status:
    return "met" if met else "breached" if breached else "inconclusive"


def cost_of_failures(
    labels: ArrayLike,
    answers: ArrayLike,
    pairs: Mapping[str, Pairs],
    costs: Mapping[str, float],
    *,
    groups: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
) -> PmiBound:
    """Mean cost per input; a failure of several sub-types costs the most of them."""
    largest = max(costs.values(), default=0.0)
    if largest <= 0.0 or min(costs.values()) < 0.0:
        raise ValueError(f"costs must not be negative, and one above 0; found {dict(costs)}")
    cost = np.zeros(len(np.asarray(labels)))
    for name, each in costs.items():
        cost = np.maximum(cost, each * _of_pairs(labels, answers, pairs[name]))
    codes, count = group_codes(groups, len(cost))
    values = np.bincount(codes, cost, count) / np.bincount(codes, minlength=count)
    check_confidence(confidence)
    return _bound(values, confidence, "cost, bounded mean", largest=largest)


def _of_pairs(labels: ArrayLike, answers: ArrayLike, pairs: Pairs) -> NDArray[np.bool_]:
    truth, given = np.asarray(labels), np.asarray(answers)
    same_length(truth, given, "labels and answers")
    chosen = np.zeros(len(truth), dtype=bool)
    for true, predicted in pairs:
        if true == predicted:
            raise ValueError(f"({true}, {predicted}) is no failure; name two different classes")
        chosen |= (truth == true) & (given == predicted)
    return chosen


class HeldOut(NamedTuple):
    """Held-out tests against a bound they did not enter."""

    n: int
    k: int
    p: float
    """P(at least k failures) if pmi is at the bound."""
    contradicted: bool
    detects: float
    """Smaller rates may show in none of the n inputs."""


def held_out_check(
    failed: ArrayLike, upper: float, *, level: float = 0.01, confidence: float = CONFIDENCE
) -> HeldOut:
    """Whether the failures of the role `test` contradict an upper bound."""
    from scipy.stats import binom

    wrong = np.asarray(failed, dtype=bool)
    n, k = len(wrong), int(wrong.sum())
    p = float(binom.sf(k - 1, n, upper)) if n else 1.0
    return HeldOut(n, k, p, p < level, detection_limit(n, confidence=confidence))


def detection_limit(n: int, *, confidence: float = CONFIDENCE) -> float:
    """The rate that shows at least once in n cases with this confidence: about 3.7 / n at 97.5%.

    >>> round(detection_limit(1000), 5)
    0.00368
    """
    return 1.0 - (1.0 - check_confidence(confidence)) ** (1.0 / n) if n else 1.0
