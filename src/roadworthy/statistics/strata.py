"""Bounds on averages over classes, where the smallest class decides how much is known.

990 cases of one class and 10 of another, all right, say of the mean over the classes only what 10 cases say of the
second: u of them may be wrong, and u / 2 of the mean. Each class gets its exact interval, and the distances from
the estimates to the ends are combined as independent ones are (MOVER, Zou 2008): sqrt(sum of squares) / classes.
Classes that share groups are not independent. The influences of the groups on each class then say how the distances
add up, where that is more; the groups of a class that does not vary count by their sizes, as if a group that fails
failed in all its classes.

>>> import numpy as np
>>> label = np.r_[np.zeros(990, int), np.ones(10, int)]
>>> found = mean_of_proportions(np.ones(1000), label, confidence=0.95, sided="lower")
>>> round(found.low, 3), round(1 - (1 - 0.05 ** (1 / 10)) / 2, 3)
(0.871, 0.871)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .arguments import (
    Codes,
    Floats,
    Sided,
    binary_values,
    group_codes,
    open_sides,
    same_length,
    tail_probability,
)
from .clusters import clustered_proportion, group_sums, jackknife_influences
from .interval import Interval


def mean_of_proportions(
    outcomes: ArrayLike,
    strata: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
) -> Interval:
    """The interval for the mean over the strata of the proportion of 1 in each."""
    tail_probability(confidence, sided)
    values = binary_values(outcomes, "outcomes")
    kinds, stratum = np.unique(np.asarray(strata), return_inverse=True)
    same_length(values, stratum, "outcomes and strata")
    codes, count = group_codes(groups, len(values))
    members = _members(stratum, len(kinds))
    means = np.array([values[rows].mean() for rows in members])
    parts = [
        clustered_proportion(
            values[rows],
            codes[rows],
            confidence=confidence,
            sided=sided,
            method="clopper_pearson",
            combined=True,
        )
        for rows in members
    ]
    shared = None if count == len(values) else _directions(values, members, codes, count)
    # Below the median a bound lies beyond the estimate, where distances do not combine: the estimate is cautious.
    down = np.maximum(means - np.array([part.low for part in parts]), 0.0)
    up = np.maximum(np.array([part.high for part in parts]) - means, 0.0)
    centre = float(means.mean())
    low, high = (
        max(centre - _reach(down, shared) / len(kinds), 0.0),
        min(centre + _reach(up, shared) / len(kinds), 1.0),
    )
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    where = "" if shared is None else f", {count} groups"
    return Interval(
        low,
        high,
        float(confidence),
        f"mean of {len(kinds)} proportions, clopper_pearson (MOVER){where}",
    )


def extreme_interval(
    highest: bool,
    support: Sequence[Codes],
    groups: ArrayLike | None = None,
    *,
    confidence: float,
    sided: Sided,
) -> Interval:
    """The interval of a measure between 0 and 1 that is 1 (`highest`) or 0 on all cases, a mean over classes.

    `support` has the rows of each class's cases. The share u of them unlike all those seen is bounded as zero events
    in as many (groups of) cases are. Such a case can cost its own objects and as many false ones again, so that the
    measure of its class moves by a factor of (1 - u)^2 at the most. Averaging the classes' bounds at the full
    confidence is cautious: were the mean of their true shares larger, the smallest class alone would have shown an
    event with more than that confidence.
    """
    labels = None if groups is None else np.asarray(groups)
    unlike = [
        _unseen(len(rows), None if labels is None else labels[rows], confidence, sided)
        for rows in support
    ]
    kept = float(np.mean(np.square(1.0 - np.array(unlike))))
    cases = (
        "the cases"
        if len(support) == 1
        else f"a class's cases, {np.mean(unlike):.3g} on average over {len(support)},"
    )
    method = f"no variation: at most {max(unlike):.3g} of {cases} are unlike those seen"
    low, high = (kept, 1.0) if highest else (0.0, 1.0 - kept)
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    return Interval(low, high, float(confidence), method)


def _unseen(n: int, groups: ArrayLike | None, confidence: float, sided: Sided) -> float:
    side: Sided = "two" if sided == "two" else "upper"
    return clustered_proportion(
        np.zeros(n), groups, confidence=confidence, sided=side, method="clopper_pearson"
    ).high


def _members(stratum: Codes, count: int) -> list[Codes]:
    order = np.argsort(stratum, kind="stable")
    return np.split(order, np.cumsum(np.bincount(stratum, minlength=count))[:-1])


def _directions(values: Floats, members: list[Codes], codes: Codes, count: int) -> Floats:
    """A unit vector a stratum: how far each group moves its proportion, apart from those of strata that do not vary.

    What a group does to a stratum that varies says nothing of how it would move one that does not.
    """
    rows = np.zeros((len(members), 2 * count))
    for row, own in zip(rows, members, strict=True):
        part, sizes = values[own], group_sums(np.ones(len(own)), codes[own], count)
        if part.min() < part.max() and np.count_nonzero(sizes) > 1:
            row[:count] = jackknife_influences(
                group_sums(part - part.mean(), codes[own], count), sizes
            )
        else:
            row[count:] = sizes
        length = math.sqrt(float(row @ row))
        row /= length if length > 0.0 else 1.0
    return rows


def _reach(distances: Floats, shared: Floats | None) -> float:
    """How far the sum may lie: as for independent parts, or farther where their groups move together."""
    apart = float(distances @ distances)
    if shared is not None:
        together = distances @ shared
        apart = max(apart, float(together @ together))
    return math.sqrt(apart)
