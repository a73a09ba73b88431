"""The six assumptions of Zhao et al. 2021, each with a check and a verdict.

A verdict is *contradicted* (by rows that are counted), *not contradicted* (with the rate below
which violations go unseen) or *not testable here*; data never confirm an assumption.

>>> truth, reached = np.zeros(1000, int), np.where(np.arange(1000) < 800, 0, -1)
>>> check = separation_check(truth, reached)[1]
>>> check.number, check.verdict, check.n, round(check.limit, 4)     # 3.7 / 800
(4, 'not contradicted', 800, 0.0046)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.reliability.assembly import CONFIDENCE, NO_LABEL
from roadworthy.statistics.arguments import Floats, same_length
from roadworthy.statistics.proportion import clopper_pearson_bounds

Verdict = Literal["contradicted", "not contradicted", "not testable here"]
ASSUMED = {
    0: "operational inputs do not drift",
    1: "cells' failure rates and probabilities are independent",
    2: "labels are r-separated, and r is known well enough",
    3: "the reference rows are drawn like operation",
    4: "all inputs within r of each other share one label",
    5: "the model's majority answer in a cell is its label",
    6: "inputs inside a cell are spread evenly",
}
"""By their number in the paper; 0 is what every count of inputs assumes besides."""
LEVEL = 0.01
"""Tests contradict an assumption below this p-value."""
PERMUTATIONS, ROWS = 999, 1000
"""Of the two-sample test; rows drawn of each sample, since distances of all pairs are held."""


@dataclass(frozen=True)
class AssumptionCheck:
    """What the data say against one assumption."""

    number: int
    verdict: Verdict
    against: float = 0
    """Rows that contradict it; the ratio of deviations for assumption 1."""
    n: int = 0
    """Rows that could have."""
    limit: float = 1.0
    """Upper bound of the rate of violations."""
    p: float = math.nan
    """Of the test, where the check is one."""

    @property
    def assumed(self) -> str:
        """In words."""
        return ASSUMED[self.number]


def independence_check(full: float | None, independent: float | None) -> AssumptionCheck:
    """1: ratio of the deviation with covariances to that of independent cells.

    Always contradicted: probabilities that add up to 1 are not independent.
    """
    ratio = full / independent if full is not None and independent else math.nan
    return AssumptionCheck(1, "contradicted", against=ratio)


def separation_check(
    labels: ArrayLike, reached_labels: ArrayLike, *, confidence: float = CONFIDENCE
) -> tuple[AssumptionCheck, AssumptionCheck]:
    """2 and 4: labelled operational rows against the labels that reach them from reference rows.

    r must be that of the reference rows (or given): an r from all labelled rows is half of their
    smallest distance, so that none of them can contradict it.
    """
    check = _counted(2, labels, reached_labels, confidence)
    return check, replace(check, number=4)


def vote_check(
    cell_labels: ArrayLike, cell_votes: ArrayLike, *, confidence: float = CONFIDENCE
) -> AssumptionCheck:
    """5: in cells with a label, the majority of the model's answers against it."""
    return _counted(5, cell_labels, cell_votes, confidence)


def _counted(
    number: int, labels: ArrayLike, found: ArrayLike, confidence: float
) -> AssumptionCheck:
    truth, other = np.asarray(labels), np.asarray(found)
    same_length(truth, other, "labels and those they are compared with")
    known = (truth != NO_LABEL) & (other != NO_LABEL)
    n, against = int(known.sum()), int((known & (truth != other)).sum())
    if not n:
        return AssumptionCheck(number, "not testable here")
    limit = clopper_pearson_bounds(against, n, confidence=confidence, sided="upper")[1]
    verdict: Verdict = "contradicted" if against else "not contradicted"
    return AssumptionCheck(number, verdict, against, n, float(limit))


def representative_check(
    reference: Floats, operational: Floats, *, seed: int = 0
) -> AssumptionCheck:
    """3: two-sample test of reference against operational inputs."""
    return _compared(3, reference, operational, seed)


def drift_check(points: Floats, times: ArrayLike, *, seed: int = 0) -> AssumptionCheck:
    """The earlier half of the operational inputs against the later one."""
    order = np.argsort(np.asarray(times), kind="stable")
    same_length(points, order, "points and times")
    early, late = np.array_split(np.asarray(points)[order], 2)
    return _compared(0, early, late, seed)


def _compared(number: int, first: Floats, second: Floats, seed: int) -> AssumptionCheck:
    n = min(len(first), len(second), ROWS)
    # With fewer rows no split of them is rarer than the level.
    if n < 6:
        return AssumptionCheck(number, "not testable here", n=n)
    p = energy_test(first, second, seed=seed)
    return AssumptionCheck(number, "contradicted" if p < LEVEL else "not contradicted", n=n, p=p)


def energy_test(first: Floats, second: Floats, *, seed: int = 0) -> float:
    """p-value of two samples being alike: permuted energy distance (Székely and Rizzo 2004).

    Features are divided by their deviation over both samples; at most 1,000 rows of each are drawn.
    """
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(seed)
    parts = [np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in (first, second)]
    parts = [x[rng.permutation(len(x))[:ROWS]] for x in parts]
    both = np.concatenate(parts)
    deviation = both.std(axis=0)
    both = both / np.where(deviation > 0, deviation, 1.0)
    signs = np.concatenate(
        [np.full(len(x), s / len(x)) for x, s in zip(parts, (1, -1), strict=True)]
    )
    drawn = np.tile(signs[:, None], 1 + PERMUTATIONS)
    drawn[:, 1:] = rng.permuted(drawn[:, 1:], axis=0)
    # 2 E|x - y| - E|x - x'| - E|y - y'| is minus this quadratic form in the signs.
    energy = -np.einsum("ij,ij->j", drawn, cdist(both, both) @ drawn)
    as_large = int((energy[1:] >= energy[0] * (1.0 - 1e-12)).sum())
    return (1.0 + as_large) / (1.0 + PERMUTATIONS)


def even_check(failed: ArrayLike, failed_in_cell: ArrayLike) -> AssumptionCheck:
    """6: failures by the cell's label, at operational inputs and at even draws in the same cells."""
    from scipy.stats import binomtest

    here, there = np.asarray(failed, dtype=bool), np.asarray(failed_in_cell, dtype=bool)
    same_length(here, there, "failures at inputs and in their cells")
    only, other = int((here & ~there).sum()), int((there & ~here).sum())
    if not len(here):
        return AssumptionCheck(6, "not testable here")
    p = float(binomtest(only, only + other).pvalue) if only + other else 1.0
    verdict: Verdict = "contradicted" if p < LEVEL else "not contradicted"
    limit = clopper_pearson_bounds(only + other, len(here), confidence=CONFIDENCE, sided="upper")[1]
    return AssumptionCheck(6, verdict, only + other, len(here), float(limit), p)


def check_deterministic(first: ArrayLike, second: ArrayLike, rows: ArrayLike | None = None) -> None:
    """Refuse a subject that answered the same inputs differently the second time."""
    one, two = np.asarray(first), np.asarray(second)
    same_length(one, two, "both rounds of answers")
    changed = np.flatnonzero(one != two)
    if len(changed):
        at = int(changed[0])
        name = at if rows is None else np.asarray(rows)[at]
        raise ValueError(
            f"the subject is not deterministic: {len(changed)} of {len(one)} answers changed when "
            f"asked again, first input {name} ({one[at]}, {two[at]}); fix its seed or set `passes:`"
        )
