"""Bounds on rates that hold with few events and with none: shares (recall) and counts (word error rate).

Student's t misses such rates too often: nothing seen says nothing of the variance. A share is bounded as
Clopper and Pearson (1934) bound a proportion, with the effective size p (1 - p) / variance (Korn and Graubard
1998); a count as Garwood (1936) bounds a Poisson rate, with the effective number of events R^2 / variance. The
variance is the jackknife's over groups or Kish's, the larger (`mean.ratio_design`), and both sizes are discounted
by (z / t)^2. A case holds many trials (the words of an utterance), so the degrees of freedom follow from the
moments of the cases even where no groups are given; in groups they are also at most Kish's number of groups with
events, less one.

Where nothing varies, a group counts as one trial, as in `clusters`: zero errors in 500 utterances bound the rate
as zero in 500 do, never as zero in 5,000 words. For counts this takes the rate of a group that fails to be at
most `worst` (1: every word wrong). What remains open: strong correlation in few groups (0.15 within 6 groups of
200 words at a rate of 0.1) leaves an upper 95% bound on a rare event at about 94%.

>>> import numpy as np
>>> round(count_interval(np.zeros(500), np.full(500, 10.0), None, confidence=0.95, sided="upper").high, 4)
0.006
>>> found = share_interval(np.r_[np.full(98, 2.0), 1.0, 1.0], np.full(100, 2.0), None, confidence=0.95, sided="lower")
>>> round(found.low, 3)
0.953
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .arguments import Floats, Sided, group_codes, open_sides, tail_probability
from .clusters import discounted_size, group_sums, grouped_freedom, kish_size
from .interval import Interval
from .mean import RatioDesign, ratio_design
from .proportion import clopper_pearson


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
    """How many equal events these are worth (Kish), those of one group taken together; 0 where there are none."""
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
