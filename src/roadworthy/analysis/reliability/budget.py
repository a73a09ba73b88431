"""Where tests and labels are worth most, and when to stop.

Two budgets. *Queries* of the model over strata (cells) of known probability: a pilot, then Neyman's
allocation, in proportion to probability times deviation (Neyman 1934); the pilot does not enter the
bound. *Labels*: a confidence sequence says at every look whether the claim is met, or cannot be.

>>> plan = neyman(np.array([0.5, 0.3, 0.2]), failures=[0, 5, 0], tests=[10, 10, 10], total=100)
>>> plan.tolist()
[37, 48, 15]
>>> label_decision(0, 1600, limit=0.003).decision, label_decision(20, 1000, limit=0.003).decision
('met', 'cannot')
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.reliability.assembly import CONFIDENCE, NO_LABEL
from roadworthy.statistics.arguments import Floats, check_confidence, same_length
from roadworthy.statistics.bounded_mean import bounded_mean_upper
from roadworthy.statistics.sequential import proportion_sequence

LEAST = 0.1
"""Part of the tests that goes by probability alone: strata without a failure in the pilot keep
some, and no test weighs more than ten."""
REST = 0.1
"""Cells left out may hold this part of the claim's limit."""


def neyman(
    mass: ArrayLike, *, failures: ArrayLike, tests: ArrayLike, total: int, least: float = LEAST
) -> NDArray[np.int64]:
    """Tests of each stratum after a pilot with `failures` among `tests`; they add up to `total`."""
    share, k, m = (np.asarray(x, dtype=np.float64) for x in (mass, failures, tests))
    if not share.shape == k.shape == m.shape or (k > m).any():
        raise ValueError("expected mass, failures and tests by stratum, failures at most tests")
    needed = int((share > 0).sum())
    if total < needed:
        raise ValueError(
            f"{total} tests cannot reach {needed} strata; merge strata or raise the budget"
        )
    rate = (k + 0.5) / (m + 1.0)
    wanted = share * np.sqrt(rate * (1.0 - rate))
    wanted = (1.0 - least) * wanted / wanted.sum() + least * share / share.sum()
    # One test each, the rest by largest remainder: ties go to the lower number.
    exact = (total - needed) * wanted
    counts = np.floor(exact).astype(np.int64) + (share > 0)
    left = total - int(counts.sum())
    counts[np.argsort(-(exact - np.floor(exact)), kind="stable")[:left]] += 1
    return counts


class Stratified(NamedTuple):
    """A failure rate over strata of known probability."""

    estimate: float
    variance: float
    """Unbiased where every stratum has two tests; one with a single test counts at 1/4."""
    upper: float
    largest_weight: float
    untested: float
    """Probability of strata without tests; counted as failing."""


def stratified(
    mass: ArrayLike, failures: ArrayLike, tests: ArrayLike, *, confidence: float = CONFIDENCE
) -> Stratified:
    """The weighted estimate with a bound that holds: every test counts mass / tests of its stratum.

    Tests are independent but not alike, for which the bound of a bounded mean holds as well.
    """
    share, k, m = (np.asarray(x, dtype=np.float64) for x in (mass, failures, tests))
    tail = 1.0 - check_confidence(confidence)
    tested = m > 0
    untested = float(share[~tested].sum())
    if not tested.any():
        return Stratified(untested, 0.0, 1.0, 1.0, untested)
    w, k, m = share[tested], k[tested], m[tested]
    rate, n = k / m, int(m.sum())
    spread = np.where(m > 1, rate * (1.0 - rate) / np.maximum(m - 1.0, 1.0), 0.25)
    weight = float((w / m).max() * n)
    high = weight * bounded_mean_upper(float(w @ rate) * n / weight, n, tail)
    estimate, variance = float(w @ rate) + untested, float(w**2 @ spread)
    return Stratified(estimate, variance, min(high + untested, 1.0), weight, untested)


class Decision(NamedTuple):
    """Whether to go on labelling, at one of any number of looks."""

    decision: Literal["met", "cannot", "go on"]
    lower: float
    upper: float


def label_decision(k: int, n: int, *, limit: float, confidence: float = CONFIDENCE) -> Decision:
    """After k failures among n labels; false at any look with probability alpha at most.

    For (b), give the inputs without a label within r as k: "cannot" then says that these alone
    exceed the limit; "met" is no statement about pmi.
    """
    high = proportion_sequence(k, n, confidence=confidence, sided="upper").high
    low = proportion_sequence(k, n, confidence=confidence, sided="lower").low
    return Decision("met" if high <= limit else "cannot" if low > limit else "go on", low, high)


class TopCells(NamedTuple):
    """The most probable cells, and what they leave out."""

    cells: NDArray[np.int64]
    uncovered: float
    """Probability outside these cells; counted as failing."""


def top_cells(mass: ArrayLike, limit: float) -> TopCells:
    """The fewest cells that hold 1 - limit / 10 of the probability; ties go to the lower number."""
    share = np.asarray(mass, dtype=np.float64)
    order = np.argsort(-share, kind="stable")
    covered, wanted, held = np.cumsum(share[order]), 1.0 - REST * limit, float(share.sum())
    if held < wanted - 1e-12:
        raise ValueError(
            f"cells hold {held:.4%} of operation, a limit of {limit:g} needs {wanted:.4%}; "
            "add cells for the rest, or raise the limit"
        )
    cells = order[: int(np.searchsorted(covered, wanted - 2e-12)) + 1]
    return TopCells(cells, max(1.0 - float(share[cells].sum()), 0.0))


class Region(NamedTuple):
    """A cell where labels would tighten (b), and rows to label there."""

    cell: int
    mass: float
    """Share of operational inputs that lie in it and have no label within r."""
    rows: NDArray[np.int64]


def label_next(
    points: Floats, cells: ArrayLike, reached_labels: ArrayLike, *, count: int, each: int = 1
) -> list[Region]:
    """The `count` cells with most inputs that no label reaches, `each` with central rows to label.

    Rows that are labelled on this advice are chosen, not random: their labels may reach others, and
    they never count in an operational test.
    """
    inputs, cell = np.asarray(points, dtype=np.float64), np.asarray(cells)
    reached = np.asarray(reached_labels)
    same_length(inputs, cell, "points and cells")
    same_length(inputs, reached, "points and reached labels")
    bare = np.flatnonzero(reached == NO_LABEL)
    names, sizes = np.unique(cell[bare], return_counts=True)
    regions = []
    for at in np.argsort(-sizes, kind="stable")[:count]:
        own = bare[cell[bare] == names[at]]
        away = np.abs(inputs[own] - np.median(inputs[own], axis=0)).max(axis=1)
        rows = own[np.argsort(away, kind="stable")[:each]]
        regions.append(Region(int(names[at]), float(sizes[at]) / len(inputs), rows))
    return regions
