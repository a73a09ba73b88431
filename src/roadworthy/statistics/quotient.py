"""How much of a rate is kept: one rate over another, on the same cases and on different ones.

On the same 0/1 cases, here / before = 1 - loss + gain, with loss the share of those right before that are wrong
here, and gain the newly right per case right before. Given which cases were right before, losses are binomial;
among those and the gains, so are the gains; and the two estimates are uncorrelated. Each is bounded as Clopper
and Pearson (1934) do, which needs no event, and the bounds are combined by MOVER (Zou 2008). Groups shrink the
counts to their effective size, taken from the linearised quotient.

Rates that count many trials a case (words, objects) on the same exposure are compared by what each case gained
and lost, both bounded as in `rates`. Independent rates combine their intervals on the log scale.

>>> right = [1] * 95 + [0] * 5
>>> kept = kept_share(right, right)
>>> round(kept.low, 3), round(kept.high, 3)
(0.962, 1.04)
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .arguments import (
    Floats,
    Sided,
    binary_values,
    group_codes,
    open_sides,
    same_length,
    tail_probability,
)
from .clusters import cluster_design, discounted_size, kish_size
from .interval import Interval
from .mean import ratio_design
from .paired import correlation_of, mover, two_sided_level
from .proportion import clopper_pearson
from .rates import count_interval, share_interval


def kept_share(
    here: ArrayLike,
    before: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for mean(here) / mean(before) of 0/1 outcomes of the same cases; `before` has a 1."""
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
    """The interval for (sum(here) - sum(before)) / sum(exposure) of the same cases with the same exposure."""
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


def quotient(
    estimates: tuple[float, float], first: Interval, second: Interval, *, correlation: float = 0.0
) -> tuple[float, float]:
    """Ends of first / second from those of its parts, second above 0: MOVER on the log scale, corners elsewhere."""
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
    """The least and the greatest of end / x for x between the ends of `second`; infinite where x may be 0."""
    least = end / second.low if second.low > 0.0 else math.copysign(math.inf, end) if end else 0.0
    most = end / second.high if math.isfinite(second.high) else 0.0
    return min(least, most), max(least, most)


def _log(x: float) -> float:
    return math.log(x) if math.isfinite(x) else x


def _odds(share: float) -> float:
    return math.inf if share >= 1.0 else share / (1.0 - share)
