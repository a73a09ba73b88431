"""The posterior of the rate given alarms, with Beta posteriors of TPR and FPR: a table over the count, so O(1) a window.

p(rate | k) is proportional to the prior times the integral of Binomial(k; n, TPR rate + FPR (1 - rate)) over TPR and FPR. The
integral is Gauss-Jacobi quadrature in both (Golub and Welsch 1969), with nodes enough for the length of the window; the rate lies
in cells. TPR is a draw for a new kind of shift, its Beta matched by moments, unless `kinds` says otherwise.

>>> calibrated = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})
>>> table = BayesTable.build(100, calibrated)
>>> rate = table.rate(45)[()]
>>> round(rate.value, 2), round(rate.interval.low, 2), round(rate.interval.high, 2), round(float(table.exceedance(45, 0.3)), 2)
(0.55, 0.29, 0.93, 0.99)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register
from roadworthy.statistics.arguments import check_confidence

from . import cells_of_rate
from .answer import MIXTURE, NO_EVENTS, WEAK, Floats, Rates, answered, verdict_counts
from .calibrated import BIN_PRIOR, Calibrated, Kinds, check_kinds, spoken_of

CHUNK = 2_000_000


@dataclass(frozen=True, eq=False)
class BayesTable:
    """The posterior of the rate for every number of alarms 0..n in windows of n events."""

    n: int
    mass: Floats
    """Alarms x cells of the rate."""
    value: Floats
    low: Floats
    high: Floats
    confidence: float
    method: str
    weak: bool
    mixture: bool = False

    @classmethod
    def build(
        cls,
        n: int,
        calibrated: Calibrated,
        *,
        kinds: Kinds = "new",
        prior: tuple[float, float] = cells_of_rate.JEFFREYS,
        confidence: float = 0.95,
    ) -> BayesTable:
        """Integrate once for all counts; `prior` is the Beta prior of the rate (`Prior.beta` while the window fills)."""
        check_kinds(kinds)
        if n < 0 or n != int(n):
            raise ValueError(f"n is the number of events in a window, found {n!r}")
        calibrated.check_verdicts()
        check_confidence(confidence)
        cells = cells_of_rate.cells_for(n)
        likelihood = _likelihood(int(n), calibrated, kinds, cells)
        mass = cells_of_rate.normalised(likelihood * cells_of_rate.prior_mass(prior, cells))
        low, high = cells_of_rate.densest(mass, confidence)
        method = f"Bayes over TPR and FPR, {spoken_of(kinds)}"
        doubts = calibrated.weak(kinds), calibrated.mixture(kinds)
        return cls(int(n), mass, cells_of_rate.mean(mass), low, high, confidence, method, *doubts)

    def rate(self, alarms: ArrayLike) -> Rates:
        """The posterior mean and the densest interval for these counts."""
        k = self._at(alarms)
        standing = {WEAK: self.weak, NO_EVENTS: self.n == 0, MIXTURE: self.mixture}
        flags = {flag: np.full(k.shape, stands) for flag, stands in standing.items()}
        return answered(
            (self.value[k], self.low[k], self.high[k]), self.confidence, self.method, flags
        )

    def exceedance(self, alarms: ArrayLike, rate: float) -> Floats:
        """The posterior probability that the rate is higher than this."""
        return cells_of_rate.above(self.mass[self._at(alarms)], rate)

    def _at(self, alarms: ArrayLike) -> np.ndarray:
        k = np.asarray(alarms)
        whole = k.astype(np.intp)
        if (whole != k).any() or (whole < 0).any() or (whole > self.n).any():
            raise ValueError(
                f"this table holds whole counts of alarms from 0 to {self.n}; others need a table of their own"
            )
        return whole


@register("estimators", "bayes", reads="verdicts", title="Bayes over verdicts")
def by_bayes(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """The posterior mean of the rate given alarms, over what TPR and FPR may be; a table for each size of window."""
    alarms, n = verdict_counts(counts)
    if (n != n.round()).any():
        raise ValueError(
            "bayes keeps tables for whole numbers of events; counts that fade have none"
        )
    # Of events that have no score a window holds fewer.
    sizes = np.unique(n) if n.size else np.zeros(1)
    some = [
        (n == size, BayesTable.build(int(size), calibrated, confidence=confidence))
        for size in sizes.tolist()
    ]
    if len(some) == 1:
        return some[0][1].rate(alarms.astype(np.int64))
    ends, flags = np.empty((3, *n.shape)), dict[str, np.ndarray]()
    for on, table in some:
        found = table.rate(alarms[on].astype(np.int64))
        ends[:, on] = found.value, found.low, found.high
        for flag, where in found.flags.items():
            flags.setdefault(flag, np.zeros(n.shape, dtype=bool))[on] = where
    return answered(ends, confidence, some[0][1].method, flags)


def beta_nodes(a: float, b: float, nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights that integrate polynomials against Beta(a, b), exact up to degree 2 nodes - 1."""
    j = np.arange(nodes, dtype=np.float64)
    alpha, beta = (
        b - 1.0,
        a - 1.0,
    )  # Jacobi's weight (1-x)^alpha (1+x)^beta on (-1, 1), x = 2 share - 1
    total = 2.0 * j + alpha + beta
    with np.errstate(divide="ignore", invalid="ignore"):
        diagonal = (beta**2 - alpha**2) / (total * (total + 2.0))
        square = (
            4.0 * j * (j + alpha) * (j + beta) * (j + alpha + beta) / (total**2 * (total**2 - 1.0))
        )
    diagonal[0] = (beta - alpha) / (alpha + beta + 2.0)
    if nodes > 1:  # the general term is 0/0 where alpha + beta is -1
        square[1] = (
            4.0 * (1.0 + alpha) * (1.0 + beta) / ((2.0 + alpha + beta) ** 2 * (3.0 + alpha + beta))
        )
    off = np.sqrt(square[1:])
    points, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return np.clip((points + 1.0) / 2.0, 1e-12, 1.0 - 1e-12), vectors[0] ** 2


def _moments_to_beta(mean: float, variance: float) -> tuple[float, float]:
    # A Beta is never wider than its mean allows; a little less keeps both parameters positive.
    size = mean * (1.0 - mean) / min(variance, 0.95 * mean * (1.0 - mean)) - 1.0
    return mean * size, (1.0 - mean) * size


def _nodes(n: int, a: float, b: float) -> int:
    """So many that their distance is below the width of the likelihood of n events, as far as that is feasible."""
    return int(min(8.0 + 5.0 * math.sqrt(1.0 + n / (a + b)), 96.0))


def _likelihood(n: int, calibrated: Calibrated, kinds: Kinds, cells: int) -> Floats:
    """Alarms x cells, up to a factor for each count of alarms."""
    chances = int(400 + 40.0 * math.sqrt(n))
    share = _chances(n, calibrated, kinds, cells, chances)
    # Never 0 or 1: the ends take part through their neighbours, and count n log(0) for nothing else.
    grid = cells_of_rate.at_angle(np.clip(np.arange(chances) / (chances - 1), 1e-6, 1.0 - 1e-6))
    yes, no = np.log(grid), np.log1p(-grid)
    result = np.empty((n + 1, cells))
    step = max(1, CHUNK // chances)
    for start in range(0, n + 1, step):
        k = np.arange(start, min(start + step, n + 1), dtype=np.float64)[:, None]
        log = k * yes + (n - k) * no
        result[start : start + step] = np.exp(log - log.max(axis=1, keepdims=True)) @ share.T
    return result


def _chances(n: int, calibrated: Calibrated, kinds: Kinds, cells: int, chances: int) -> Floats:
    """By cell of the rate, how the chance of an alarm is distributed over a grid that is even in angle.

    The likelihood depends on rate, TPR and FPR through that chance alone: it is then needed at the grid, and not at every node.
    """
    cleared, alarmed = calibrated.clean + BIN_PRIOR
    shapes = (
        _moments_to_beta(float(calibrated.shifted_shares[1]), calibrated.tpr_variance(kinds)),
        (alarmed, cleared),
    )
    (tpr, weight), (fpr, other) = (
        beta_nodes(float(a), float(b), _nodes(n, a, b)) for a, b in shapes
    )
    weights = np.outer(weight, other).ravel()
    share = np.empty((cells, chances))
    for i, rate in enumerate(cells_of_rate.middles(cells)):
        chance = (rate * tpr[:, None] + (1.0 - rate) * fpr).ravel()
        place = cells_of_rate.angle(chance) * (chances - 1)
        below = np.minimum(place.astype(np.intp), chances - 2)
        part = place - below
        share[i] = np.bincount(below, weights * (1.0 - part), chances) + np.bincount(
            below + 1, weights * part, chances
        )
    return share
