"""The expected calibration error (ECE): how far confidence and accuracy are apart, bin by bin.

It is the mean over the cases of |accuracy - confidence| of their bin, in 15 bins of equal counts (equal
confidences share one; Naeini et al. 2015), and biased upward: noise in a bin counts as an error. Two facts
about the mean of s (correct - confidence), with a sign s for each bin, give bounds that allow for that:

- With the true signs it has the error as its expectation, and the estimate is its maximum over all signs.
  So the estimate plus the reach of such a mean is an upper bound.
- With signs that other cases chose, its expectation is at most the error. Each half of the cases (of the
  groups) takes them from the other half; the lower bound is the mean of both halves' bounds.

The reach is that of Student's t over groups, and never below that of the exact bounds on the accuracy: a few
errors show too little of their spread. Without confidence (NaN) a case has an error of 1.

>>> sure, right = np.full(200, 0.9), np.arange(200) % 10 > 1
>>> found = calibration_error_interval(sure, right)
>>> round(calibration_error(sure, right), 3), round(found.low, 3), round(found.high, 3)
(0.1, 0.008, 0.162)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arguments import Floats, Sided, binary_values, group_codes, open_sides, same_length
from .clusters import clustered_proportion
from .interval import Interval
from .mean import mean
from .paired import two_sided_level

BINS = 15


def calibration_error(sure: ArrayLike, right: ArrayLike) -> float:
    """The error of confidences (0 to 1, NaN for none) of answers that are right (1) or wrong (0)."""
    gaps, bins, _ = _columns(sure, right)
    return float(np.abs(np.bincount(bins, weights=gaps)).sum() / len(gaps))


def calibration_error_interval(
    sure: ArrayLike,
    right: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for the error."""
    level = two_sided_level(confidence, sided)
    gaps, bins, outcomes = _columns(sure, right)
    codes, count = group_codes(groups, len(gaps))
    kind = f"{BINS} bins of equal counts" + ("" if count == len(gaps) else f", {count} groups")
    if count < 4:  # each half needs two
        return Interval(0.0, 1.0, float(confidence), f"{kind}: too few, no bound")
    signed = _signs(gaps, bins)[bins] * gaps
    high = min(float(signed.mean()) + _reach(signed, outcomes, codes, level), 1.0)
    half, lows = np.random.default_rng(0).permutation(count)[codes] < count // 2, []
    for own in (half, ~half):
        signed = _signs(gaps[~own], bins[~own])[bins[own]] * gaps[own]
        lows.append(float(signed.mean()) - _reach(signed, outcomes[own], codes[own], level))
    low, high = open_sides(max(sum(lows) / 2, 0.0), high, sided, least=0.0, most=1.0)
    return Interval(low, high, float(confidence), f"{kind}, signed differences")


def _columns(sure: ArrayLike, right: ArrayLike) -> tuple[Floats, NDArray[np.intp], Floats]:
    """By case: accuracy less confidence, its bin, and whether it is right."""
    outcomes, given = binary_values(right, "right"), np.asarray(sure, dtype=np.float64)
    same_length(given, outcomes, "confidences and outcomes")
    known = ~np.isnan(given)
    bins = np.full(len(given), BINS, dtype=np.intp)
    if known.any():
        edges = np.unique(np.quantile(given[known], np.arange(1, BINS) / BINS))
        bins[known] = np.searchsorted(edges, given[known])
    return np.where(known, outcomes - given, -1.0), bins, outcomes


def _signs(gaps: Floats, bins: NDArray[np.intp]) -> Floats:
    return np.asarray(np.sign(np.bincount(bins, weights=gaps, minlength=BINS + 1)))


def _reach(signed: Floats, outcomes: Floats, codes: NDArray[np.intp], level: float) -> float:
    """How far the mean of signed differences may lie from its estimate, at a two-sided level."""
    by_spread = mean(signed, codes, confidence=level).high - float(signed.mean())
    share = clustered_proportion(outcomes, codes, confidence=level, method="clopper_pearson")
    exact = max(share.high - float(outcomes.mean()), float(outcomes.mean()) - share.low)
    # Differences that are all equal have no spread that a t interval could use.
    return max(exact, by_spread if math.isfinite(by_spread) else 0.0)
