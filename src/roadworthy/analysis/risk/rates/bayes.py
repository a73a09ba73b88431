"""The posterior of the rate given alarms, with Beta posteriors of TPR and FPR.

p(rate | k) is proportional to the prior of Jeffreys times the integral of
Binomial(k; n, TPR rate + FPR (1 - rate)) over TPR and FPR: Gauss-Jacobi quadrature in both (Golub
and Welsch 1969), the rate in cells. TPR is a draw for a new kind of shift, its Beta matched by
moments. A table over the count k serves all windows of one size.

>>> calibrated = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})
>>> rate = bayes_rate([55, 45], calibrated)
>>> round(float(rate.value), 2), round(float(rate.low), 2), round(float(rate.high), 2)
(0.55, 0.29, 0.93)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register
from roadworthy.statistics.arguments import check_confidence

from . import grid
from .base import BIN_PRIOR, NO_EVENTS, WEAK, Calibrated, Floats, Rates, alarms_and_events

CHUNK = 2_000_000


@register("estimators", "bayes", reads="verdicts", title="Bayes over verdicts")
def bayes_rate(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """The posterior mean of the rate given alarms, over what TPR and FPR may be."""
    calibrated.check_verdicts()
    check_confidence(confidence)
    k, n = alarms_and_events(counts)
    if (n != n.round()).any() or (k != k.round()).any():
        raise ValueError("bayes needs whole numbers of events; decayed counts are not supported")
    ends = np.empty((3, *n.shape))
    # Windows hold fewer events if some have no score: a table for each size.
    for size in np.unique(n).astype(int).tolist():
        cells, on = grid.cells_for(size), n == size
        mass = grid.normalised(_likelihood(size, calibrated, cells))
        table = mass @ grid.middles(cells), *grid.densest(mass, confidence)
        ends[:, on] = np.stack(table)[:, k[on].astype(int)]
    return Rates.of(ends, confidence, {WEAK: calibrated.weak, NO_EVENTS: n == 0.0})


def beta_nodes(a: float, b: float, nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights that integrate polynomials up to degree 2 nodes - 1 against Beta(a, b)."""
    j = np.arange(nodes, dtype=np.float64)
    # Jacobi's weight (1-x)^alpha (1+x)^beta on (-1, 1), x = 2 share - 1
    alpha, beta = b - 1.0, a - 1.0
    total = 2.0 * j + alpha + beta
    with np.errstate(divide="ignore", invalid="ignore"):
        diagonal = (beta**2 - alpha**2) / (total * (total + 2.0))
        below = total**2 * (total**2 - 1.0)
        square = 4.0 * j * (j + alpha) * (j + beta) * (j + alpha + beta) / below
    both = alpha + beta
    diagonal[0] = (beta - alpha) / (both + 2.0)
    if nodes > 1:  # the general term is 0/0 if alpha + beta is -1
        square[1] = 4.0 * (1.0 + alpha) * (1.0 + beta) / ((2.0 + both) ** 2 * (3.0 + both))
    off = np.sqrt(square[1:])
    points, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return np.clip((points + 1.0) / 2.0, 1e-12, 1.0 - 1e-12), vectors[0] ** 2


def _likelihood(n: int, calibrated: Calibrated, cells: int) -> Floats:
    """Alarms x cells, up to a factor for each count of alarms."""
    chances = int(400 + 40.0 * math.sqrt(n))
    share = _chances(n, calibrated, cells, chances)
    # Never 0 or 1: the ends take part through their neighbours, and n log(0) counts for nothing.
    places = np.clip(np.arange(chances) / (chances - 1), 1e-6, 1.0 - 1e-6)
    yes, no = np.log(grid.at_angle(places)), np.log1p(-grid.at_angle(places))
    result = np.empty((n + 1, cells))
    step = max(1, CHUNK // chances)
    for start in range(0, n + 1, step):
        k = np.arange(start, min(start + step, n + 1), dtype=np.float64)[:, None]
        log = k * yes + (n - k) * no
        result[start : start + step] = np.exp(log - log.max(axis=1, keepdims=True)) @ share.T
    return result


def _chances(n: int, calibrated: Calibrated, cells: int, chances: int) -> Floats:
    """By cell of the rate, the distribution of the chance of an alarm over a grid even in angle.

    The likelihood depends on rate, TPR and FPR through that chance alone: it is then needed at the
    grid, and not at every node.
    """
    cleared, alarmed = calibrated.clean + BIN_PRIOR
    mean = float(calibrated.shifted_shares[1])
    # A Beta is never wider than its mean allows; a little less keeps both parameters positive.
    most = mean * (1.0 - mean)
    size = most / min(calibrated.tpr_variance, 0.95 * most) - 1.0
    (tpr, weight), (fpr, other) = (
        beta_nodes(a, b, int(min(8.0 + 5.0 * math.sqrt(1.0 + n / (a + b)), 96.0)))
        for a, b in ((mean * size, (1.0 - mean) * size), (float(alarmed), float(cleared)))
    )
    weights = np.outer(weight, other).ravel()
    share = np.empty((cells, chances))
    for i, rate in enumerate(grid.middles(cells)):
        chance = (rate * tpr[:, None] + (1.0 - rate) * fpr).ravel()
        place = grid.angle(chance) * (chances - 1)
        below = np.minimum(place.astype(np.intp), chances - 2)
        part = place - below
        share[i] = np.bincount(below, weights * (1.0 - part), chances)
        share[i] += np.bincount(below + 1, weights * part, chances)
    return share
