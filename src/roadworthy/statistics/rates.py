"""Bounds on rates that hold with few events and with none: shares (recall) and counts (word error
rate).

Student's t misses such rates too often: nothing seen says nothing of the variance. A share is
bounded as Clopper and Pearson (1934) bound a proportion, with the effective size p (1 - p) /
variance (Korn and Graubard 1998); a count as Garwood (1936) bounds a Poisson rate, with the
effective number of events R^2 / variance. The variance is the jackknife's over groups or Kish's,
the larger (`mean.ratio_design`), and both sizes are discounted by (z / t)^2. A case holds many
trials (the words of an utterance), so the degrees of freedom follow from the moments of the cases
even where no groups are given; in groups they are also at most Kish's number of groups with events,
less one.

Where nothing varies, a group counts as one trial, as in `clusters`: zero errors in 500 utterances
bound the rate as zero in 500 do, never as zero in 5,000 words. For counts this takes the rate of a
group that fails to be at most `worst` (1: every word wrong). What remains open: strong correlation
in few groups (0.15 within 6 groups of 200 words at a rate of 0.1) leaves an upper 95% bound on a
rare event at about 94%.

>>> import numpy as np
>>> round(count_interval(np.zeros(500), np.full(500, 10.0), None, confidence=0.95, sided="upper").high, 4)
0.006
>>> found = share_interval(np.r_[np.full(98, 2.0), 1.0, 1.0], np.full(100, 2.0), None, confidence=0.95, sided="lower")
>>> round(found.low, 3)
0.953

How much of a rate is kept: one rate over another, on the same cases and on different ones.

On the same 0/1 cases, here / before = 1 - loss + gain, with loss the share of those right before
that are wrong here, and gain the newly right per case right before. Given which cases were right
before, losses are binomial; among those and the gains, so are the gains; and the two estimates are
uncorrelated. Each is bounded as Clopper and Pearson (1934) do, which needs no event, and the bounds
are combined by MOVER (Zou 2008). Groups shrink the counts to their effective size, taken from the
linearised quotient.

Rates that count many trials a case (words, objects) on the same exposure are compared by what each
case gained and lost, both bounded as in `rates`. Independent rates combine their intervals on the
log scale.

>>> right = [1] * 95 + [0] * 5
>>> kept = kept_share(right, right)
>>> round(kept.low, 3), round(kept.high, 3)
(0.962, 1.04)

How far answers agree with a class: precision, and F1 = 2 J / (1 + J) with J the share of right answers among
the cases that are of the class or answered with it. Given how many such cases there are, both counts are
binomial. In groups, those with most false answers may be missing from the sample: an end is then the wider one
of that share over groups, and of the hit rate and the false-answer rate combined by MOVER.
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.statistics.arguments import (
    Floats,
    Sided,
    binary_values,
    check_choice,
    group_codes,
    open_sides,
    same_length,
    tail_probability,
)
from roadworthy.statistics.clusters import (
    cluster_design,
    clustered_proportion,
    discounted_size,
    group_sums,
    grouped_freedom,
    kish_size,
)
from roadworthy.statistics.interval import Interval
from roadworthy.statistics.mean import RatioDesign, ratio_design
from roadworthy.statistics.paired import correlation_of, mover, two_sided_level
from roadworthy.statistics.proportion import clopper_pearson


def share_interval(
    parts: Floats, wholes: Floats, groups: ArrayLike | None, *, confidence: float, sided: Sided
) -> Interval:
    """The interval for sum(parts) / sum(wholes) where 0 <= part <= whole in every case."""
    tail = tail_probability(confidence, sided)
    if np.any(parts < 0.0) or np.any(parts > wholes * (1.0 + 1e-9)):
        raise ValueError(
            "the parts of a share lie between 0 and their whole; use kind='count' for other ratios"
        )
    design = ratio_design(parts, wholes, groups)
    if design is None:
        return Interval(
            0.0,
            1.0,
            float(confidence),
            "share, one group with exposure: no bound without a second group",
        )
    p = min(max(design.estimate, 0.0), 1.0)
    if design.variance == 0.0 or p in (0.0, 1.0):
        size = kish_size(design.sums)
        label = f"share that does not vary, each of {_units(design)} as one trial: clopper_pearson"
    elif design.distinct and _one_trial_each(parts, wholes):
        size, label = float(len(parts)), "share, one trial a case: clopper_pearson"
    else:
        rare = parts if p <= 0.5 else wholes - parts
        freedom = _freedom(design, rare, groups)
        effective = min(p * (1.0 - p) / design.variance, float(wholes.sum()))
        # Whatever the correlation, a group is worth a trial: the discount must not say less.
        size = max(
            discounted_size(effective, freedom, tail), min(effective, kish_size(design.sums))
        )
        label = f"share, {_units(design)}, clopper_pearson with effective n {effective:.1f}, t with {freedom:.1f} df"
    found = clopper_pearson(p * size, size, confidence=confidence, sided=sided)
    return Interval(found.low, found.high, float(confidence), label)


def count_interval(
    events: Floats,
    exposure: Floats,
    groups: ArrayLike | None,
    *,
    confidence: float,
    sided: Sided,
    worst: float = 1.0,
) -> Interval:
    """The interval for sum(events) / sum(exposure), events not below 0."""
    from scipy.special import gammaincinv

    tail = tail_probability(confidence, sided)
    if np.any(events < 0.0):
        raise ValueError("counts must not be negative; use kind='real' for other numbers")
    design = ratio_design(events, exposure, groups)
    if design is None:
        return Interval(
            0.0, math.inf, float(confidence), "count, one group with exposure: no bound"
        )
    if not events.any():
        share = clopper_pearson(0.0, kish_size(design.sums), confidence=confidence, sided=sided)
        high = math.inf if sided == "lower" else worst * share.high
        label = f"no event, each of {_units(design)} as one trial of rate at most {worst:g}: clopper_pearson"
        return Interval(0.0, high, float(confidence), label)
    if design.variance == 0.0:
        return Interval(
            0.0,
            math.inf,
            float(confidence),
            "count, equal ratios in all cases: the variance is unknown",
        )
    rate, freedom = design.estimate, _freedom(design, events, groups)
    effective = rate**2 / design.variance
    # Events that come all together, a group's every trial at once, are still worth rate * groups / worst.
    least = min(effective, rate / worst * kish_size(design.sums))
    size = max(discounted_size(effective, freedom, tail), least)
    low = rate * float(gammaincinv(size, tail)) / size
    high = rate * float(gammaincinv(size + 1.0, 1.0 - tail)) / size
    low, high = open_sides(low, high, sided, least=0.0, most=math.inf)
    label = f"count, {_units(design)}, garwood with {effective:.1f} effective events, t with {freedom:.1f} df"
    return Interval(low, high, float(confidence), label)


def effective_events(events: Floats, groups: ArrayLike | None) -> float:
    """How many equal events these are worth (Kish), those of one group taken together; 0 where
    there are none."""
    sums = group_sums(np.abs(events), *group_codes(groups, len(events)))
    return kish_size(sums) if sums.any() else 0.0


def _freedom(design: RatioDesign, events: Floats, groups: ArrayLike | None) -> float:
    known = grouped_freedom(design.influences, design.sums)
    if design.distinct:
        return known
    return max(1.0, min(known, effective_events(events, groups) - 1.0))


def _one_trial_each(parts: Floats, wholes: Floats) -> bool:
    return bool(np.all(wholes == wholes[0]) and np.all((parts == 0.0) | (parts == wholes)))


def _units(design: RatioDesign) -> str:
    return f"{design.groups} {'cases' if design.distinct else 'groups'}"


def kept_share(
    here: ArrayLike,
    before: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for mean(here) / mean(before) of 0/1 outcomes of the same cases; `before` has a
    1."""
    tail = tail_probability(confidence, sided)
    level = two_sided_level(confidence, sided)
    now, then = binary_values(here, "here"), binary_values(before, "before")
    same_length(now, then, "here and before")
    right = float(then.sum())
    if right == 0.0:
        raise ValueError(
            "nothing was right before, so no share of it can be kept; the quotient is not defined"
        )
    kept = float(now.sum()) / right
    codes, count = group_codes(groups, len(now))
    if count == 1 and len(now) > 1:
        return Interval(0.0, math.inf, float(confidence), "quotient of pairs, one group: no bound")
    design = cluster_design(now - kept * then, codes, count)
    size, label = float(len(now)), "quotient of pairs, clopper_pearson on losses and gains (MOVER)"
    if not design.distinct:
        size = design.effective_n
        if not design.constant:
            whole = min(size, kish_size(np.bincount(codes, minlength=count).astype(np.float64)))
            size = max(discounted_size(size, design.freedom, tail), whole)
        label += f", {count} groups, effective n {design.effective_n:.1f}"
    shrink = size / len(now)
    lost, gained = float(np.sum((then == 1) & (now == 0))), float(np.sum((then == 0) & (now == 1)))
    loss = clopper_pearson(lost * shrink, right * shrink, confidence=level)
    share = clopper_pearson(gained * shrink, (gained + right) * shrink, confidence=level)
    gain = Interval(_odds(share.low), _odds(share.high), level, share.method)
    low, high = mover((gained / right, lost / right), gain, loss)
    low, high = open_sides(max(0.0, 1.0 + low), 1.0 + high, sided, least=0.0, most=math.inf)
    return Interval(low, high, float(confidence), label)


def paired_rate_difference(
    here: Floats,
    before: Floats,
    exposure: Floats,
    groups: ArrayLike | None = None,
    *,
    kind: Literal["count", "share"],
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for (sum(here) - sum(before)) / sum(exposure) of the same cases with the same
    exposure."""
    level = two_sided_level(confidence, sided)
    change = here - before
    gained, lost = np.maximum(change, 0.0), np.maximum(-change, 0.0)
    bounds = share_interval if kind == "share" else count_interval
    parts = [
        bounds(events, exposure, groups, confidence=level, sided="two") for events in (gained, lost)
    ]
    designs = [ratio_design(events, exposure, groups) for events in (gained, lost)]
    correlation = 0.0
    if designs[0] is not None and designs[1] is not None:
        # Only what widens is believed: gains and losses that shun each other's groups.
        correlation = min(0.0, correlation_of(designs[0].influences, designs[1].influences))
    total = float(exposure.sum())
    estimates = (float(gained.sum()) / total, float(lost.sum()) / total)
    low, high = mover(estimates, parts[0], parts[1], correlation=correlation)
    least, most = (-1.0, 1.0) if kind == "share" else (-math.inf, math.inf)
    low, high = open_sides(max(low, least), min(high, most), sided, least=least, most=most)
    return Interval(
        low, high, float(confidence), f"gains ({parts[0].method}) less losses ({parts[1].method})"
    )


def agreement_interval(
    truth: ArrayLike,
    answered: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    of: str,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for precision or f1 of a class: which cases are of it, and which are answered with it."""
    check_choice("of", of, ("precision", "f1"))
    true, said = (binary_values(x, "truth and answers") == 1.0 for x in (truth, answered))
    codes, count = group_codes(groups, len(true))
    level = two_sided_level(confidence, sided)
    exact = functools.partial(clustered_proportion, confidence=level, method="clopper_pearson")
    among = said if of == "precision" else true | said
    found = exact((true & said)[among], codes[among])
    low, high, label = found.low, found.high, found.method
    if count < len(true) and 0 < true.sum() < len(true):
        hits, false = exact(said[true], codes[true]), exact(said[~true], codes[~true])
        hit, alarm, odds = said[true].mean(), said[~true].mean(), (~true).sum() / true.sum()

        def share(hit: float, alarm: float) -> float:
            whole = alarm * odds + (hit if of == "precision" else 1.0)
            return float(hit / whole) if whole > 0.0 else 0.0

        value, label = share(hit, alarm), f"{label}, or hits and false answers combined (MOVER)"
        down = math.hypot(value - share(hits.low, alarm), value - share(hit, false.high))
        up = math.hypot(value - share(hits.high, alarm), value - share(hit, false.low))
        low, high = max(min(low, value - down), 0.0), min(max(high, value + up), 1.0)
    if of == "f1":
        low, high = 2.0 * low / (1.0 + low), 2.0 * high / (1.0 + high)
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    return Interval(low, high, float(confidence), label)


def rate_quotient(
    estimates: tuple[float, float], first: Interval, second: Interval, *, correlation: float = 0.0
) -> tuple[float, float]:
    """Ends of first / second from those of its parts, second above 0: MOVER on the log scale,
    corners elsewhere."""
    a, b = estimates
    if b <= 0.0:
        raise ValueError(
            f"a quotient needs a denominator above 0, found {b!r}; the quotient is not defined"
        )
    if min(a, first.low, second.low) > 0.0:
        logs = [
            Interval(_log(i.low), _log(i.high), i.confidence, i.method) for i in (first, second)
        ]
        low, high = mover((math.log(a), math.log(b)), logs[0], logs[1], correlation=correlation)
        return math.exp(low), math.exp(high)
    return over(first.low, second)[0], over(first.high, second)[1]


def over(end: float, second: Interval) -> tuple[float, float]:
    """The least and the greatest of end / x for x between the ends of `second`; infinite where x
    may be 0."""
    least = end / second.low if second.low > 0.0 else math.copysign(math.inf, end) if end else 0.0
    most = end / second.high if math.isfinite(second.high) else 0.0
    return min(least, most), max(least, most)


def _log(x: float) -> float:
    return math.log(x) if math.isfinite(x) else x


def _odds(share: float) -> float:
    return math.inf if share >= 1.0 else share / (1.0 - share)
