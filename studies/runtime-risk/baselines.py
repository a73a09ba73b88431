"""Baselines of the study that the package does not offer: over bins, over verdicts, ATC and DoC.

Maximum likelihood: events fall into the bins with probabilities m(p) = p q + (1 - p) c; its interval inverts the score test.

Bayes over verdicts averages over Beta posteriors of TPR and FPR by Gauss-Jacobi quadrature (Golub and Welsch 1969). The posterior
mean over bins averages the likelihood over draws of the bins' shares. ATC (Garg et al. 2022) and DoC (Guillory et al. 2021) read
confidences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.rates import BIN_PRIOR, Calibrated, Rates, alarms_and_events
from roadworthy.statistics.arguments import tail_probability
from roadworthy.statistics.posterior import densest

Floats = NDArray[np.float64]
CHUNK = 2_000_000
Shares = tuple[Floats, Floats]
"""How clean and shifted events fall into the bins; or draws of both."""
PLACES = 201
"""Rates at which the score test is made; between them the ends are interpolated."""
FEWEST_CELLS, MOST_CELLS = 160, 800
"""Cells of the shortest windows, and of those of 10,000 events and more."""


def likelihood_rate(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """The rate that makes the score bins of each window (in the last axis) most likely."""
    if len(calibrated.clean) == 2:
        calibrated.check_verdicts()
    table = np.asarray(counts, dtype=np.float64)
    rows, shape = table.reshape(-1, len(calibrated.clean)), table.shape[:-1]
    tail, some = tail_probability(confidence, "two"), rows.any(axis=1)
    low, high = score_interval(rows, calibrated, tail)
    ends = (
        np.where(some, _most_likely(rows, calibrated), 0.0),
        np.where(some, low, 0.0),
        np.where(some, high, 1.0),
    )
    return Rates.of((end.reshape(shape) for end in ends), confidence)


def _most_likely(rows: Floats, calibrated: Calibrated) -> Floats:
    """Newton's method on the concave log-likelihood, in a bracket that halves if Newton leaves it."""
    c, d = calibrated.clean_shares, calibrated.shifted_shares - calibrated.clean_shares
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    rate = np.full(len(rows), 0.5)
    at_zero, at_one = rows @ (d / c) <= 0.0, rows @ (d / (c + d)) >= 0.0
    for _ in range(60):
        part = d / (c + rate[:, None] * d)
        slope = (rows * part).sum(axis=1)
        curvature = (rows * part**2).sum(axis=1)
        low, high = np.where(slope > 0.0, rate, low), np.where(slope > 0.0, high, rate)
        newton = rate + slope / np.maximum(curvature, 1e-300)
        following = np.where((newton > low) & (newton < high), newton, (low + high) / 2.0)
        settled = np.abs(following - rate).max(initial=0.0) < 1e-12
        rate = following
        if settled:
            break
    return np.where(at_zero, 0.0, np.where(at_one, 1.0, rate))


def score_interval(rows: Floats, calibrated: Calibrated, tail: float) -> tuple[Floats, Floats]:
    """By window (row), the lowest and the highest rate that the score test does not reject.

    If it rejects every rate, those that are rejected little more than the least rejected one.
    """
    from scipy.special import ndtr

    shares = calibrated.clean_shares, calibrated.shifted_shares
    possible = calibrated.draw_shares(100, 0)
    rate = np.linspace(0.0, 1.0, PLACES)
    low, high = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, CHUNK // (PLACES * 100))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        off = _deviations(rows[some], shares, possible, rate)
        # Both tails are summed, since one minus the other would lose the small one.
        least = np.minimum(ndtr(off).mean(axis=2), ndtr(-off).mean(axis=2))
        best = least.max(axis=1, keepdims=True)
        excess = np.where(best >= tail, tail, 2.0 * tail * best) - least
        inside = excess <= 0.0
        first, last = inside.argmax(axis=1), PLACES - 1 - inside[:, ::-1].argmax(axis=1)
        low[some], high[some] = _crossing(excess, rate, first, -1), _crossing(excess, rate, last, 1)
    return low, high


def _deviations(rows: Floats, shares: Shares, possible: Shares, rate: Floats) -> Floats:
    """Windows x rates x draws: the score less that to be expected, in standard deviations."""
    difference = shares[1] - shares[0]
    part = difference / (shares[0] + rate[:, None] * difference)
    clean, shifted = ((1.0 - rate)[:, None], possible[0].T), (rate[:, None], possible[1].T)
    expected, square = (
        sum(weight * (x @ drawn) for weight, drawn in (clean, shifted)) for x in (part, part**2)
    )
    n = rows.sum(axis=1)[:, None, None]
    deviation = np.sqrt(np.maximum(n * (square - expected**2), 1e-300))
    found: Floats = ((rows @ part.T)[:, :, None] - n * expected) / deviation
    return found


def _crossing(excess: Floats, rate: Floats, at: np.ndarray, step: int) -> Floats:
    """Where the excess becomes positive between a place inside and its neighbour outside."""
    every = np.arange(len(excess))
    beyond = np.clip(at + step, 0, PLACES - 1)
    inside, outside = excess[every, at], excess[every, beyond]
    part = np.where(outside > inside, -inside / np.maximum(outside - inside, 1e-300), 0.0)
    result: Floats = rate[at] + np.clip(part, 0.0, 1.0) * (rate[beyond] - rate[at])
    return result


def posterior_rate(counts: np.ndarray, calibrated: Calibrated) -> Rates:
    """The posterior mean of the rate given the score bins of each window, Jeffreys' prior; the interval of the likelihood."""
    rows = np.asarray(counts, dtype=np.float64)
    found = likelihood_rate(rows, calibrated)
    value = _posterior_mean(rows, calibrated.draw_shares(100, 0, added=0.5))
    return Rates.of((value, found.low, found.high), found.confidence)


def _posterior_mean(rows: Floats, drawn: tuple[Floats, Floats]) -> Floats:
    """By window, over cells as fine as its own length asks for, whatever other windows there are."""
    step = FEWEST_CELLS
    cells = np.array([step * math.ceil(cells_for(n) / step) for n in rows.sum(axis=1)])
    found = np.empty(len(rows))
    for count in np.unique(cells).tolist():
        rate = middles(count)
        mixed = rate[:, None, None] * drawn[1] + (1.0 - rate)[:, None, None] * drawn[0]
        log = np.log(mixed).reshape(-1, rows.shape[1]).T
        at = np.flatnonzero(cells == count)
        for some in np.array_split(at, max(1, len(at) * log.shape[1] // CHUNK)):
            part = rows[some] @ log
            part = np.exp(part - part.max(axis=1, keepdims=True))
            mass = normalised(part.reshape(len(some), count, -1).sum(axis=2))
            found[some] = mass @ rate
    return found


def bayes_rate(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """The posterior mean of the rate given alarms, over what TPR and FPR may be."""
    calibrated.check_verdicts()
    k, n = alarms_and_events(counts)
    if (n != n.round()).any() or (k != k.round()).any():
        raise ValueError("bayes needs whole numbers of events; decayed counts are not supported")
    ends = np.empty((3, *n.shape))
    # Windows hold fewer events if some have no score: a table for each size.
    for size in np.unique(n).astype(int).tolist():
        cells, on = cells_for(size), n == size
        mass = normalised(_likelihood(size, calibrated, cells))
        table = mass @ middles(cells), *densest(mass, confidence)
        ends[:, on] = np.stack(table)[:, k[on].astype(int)]
    return Rates.of(ends, confidence)


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
    yes, no = np.log(at_angle(places)), np.log1p(-at_angle(places))
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
    for i, rate in enumerate(middles(cells)):
        chance = (rate * tpr[:, None] + (1.0 - rate) * fpr).ravel()
        place = angle(chance) * (chances - 1)
        below = np.minimum(place.astype(np.intp), chances - 2)
        part = place - below
        share[i] = np.bincount(below, weights * (1.0 - part), chances)
        share[i] += np.bincount(below + 1, weights * part, chances)
    return share


def cells_for(n: float) -> int:
    """So many cells that the chance error of n events spans several."""
    return int(min(max(float(FEWEST_CELLS), 8.0 * math.sqrt(n)), float(MOST_CELLS)))


def middles(cells: int) -> Floats:
    """The rate in the middle of each cell."""
    return at_angle((np.arange(cells) + 0.5) / cells)


def at_angle(part: ArrayLike) -> Floats:
    """The share at this part of the way from 0 to 1 in angle."""
    result: Floats = np.sin(np.asarray(part, dtype=np.float64) * (math.pi / 2.0)) ** 2
    return result


def angle(share: ArrayLike) -> Floats:
    """The inverse of `at_angle`."""
    result: Floats = np.arcsin(np.sqrt(np.asarray(share, dtype=np.float64))) * (2.0 / math.pi)
    return result


def normalised(mass: Floats) -> Floats:
    """Masses that add up to one, in the last axis."""
    result: Floats = mass / mass.sum(axis=-1, keepdims=True)
    return result


@dataclass(frozen=True)
class Atc:
    """Share of cases more confident than a threshold, which clean rows exceed as often as they are right."""

    threshold: float

    @classmethod
    def fit(cls, confidence: ArrayLike, correct: ArrayLike) -> Atc:
        """Choose the threshold; of tied rows, the one whose share is nearest, the higher if two are."""
        x, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        candidates = np.r_[np.nextafter(x.min(), -np.inf), np.unique(x)]
        above = len(x) - np.searchsorted(np.sort(x), candidates, side="right")
        miss = np.abs(above - right.sum())
        return cls(float(candidates[miss == miss.min()][-1]))

    def estimate(self, confidences: ArrayLike, axis: int = -1) -> Floats:
        """The accuracy to expect of the cases along the axis."""
        return _mean(
            (np.asarray(confidences, dtype=np.float64) > self.threshold).astype(np.float64),
            confidences,
            axis,
        )


@dataclass(frozen=True)
class Doc:
    """Clean accuracy less the drop in mean confidence."""

    accuracy: float
    confidence: float

    @classmethod
    def fit(cls, confidence: ArrayLike, correct: ArrayLike) -> Doc:
        """Accuracy and mean confidence of the clean rows."""
        x, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        return cls(float(right.mean()), float(x.mean()))

    def estimate(self, confidences: ArrayLike, axis: int = -1) -> Floats:
        """The accuracy to expect of the cases along the axis."""
        x = np.asarray(confidences, dtype=np.float64)
        return np.clip(self.accuracy + _mean(x, x, axis) - self.confidence, 0.0, 1.0)


def _mean(each: Floats, confidences: ArrayLike, axis: int) -> Floats:
    """Over the cases that have a confidence; NaN where none has."""
    given = ~np.isnan(np.asarray(confidences, dtype=np.float64))
    count = given.sum(axis=axis)
    total = np.where(given, each, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
