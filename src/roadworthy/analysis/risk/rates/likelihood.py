"""The rate of shift from score bins: maximum likelihood and posterior mean of a mixture.

A window's events fall into the bins with probabilities m(p) = p q + (1 - p) c, clean c and shifted q
from calibration. The log-likelihood sum_b n_b log m_b(p) is concave in p. `posterior_rate` averages
the likelihood over draws of c and q, q of a new kind of shift; it is the better estimate if little
is known. The interval of both inverts the score test: it holds every p at which
S = sum_b n_b (q_b - c_b) / m_b(p) is neither higher nor lower than 2.5% of the scores to expect
there, normal for given shares, and a mixture over the draws.

>>> calibrated = Calibrated.from_table({"clean": [100, 60, 30, 10], "fog": [10, 30, 60, 100]})
>>> windows = [[48, 30, 16, 6], [28, 22, 22, 28], [5, 14, 32, 49]]
>>> likelihood_rate(windows, calibrated).value.round(2).tolist()
[0.02, 0.5, 1.0]
>>> posterior_rate(windows, calibrated).value.round(2).tolist()
[0.05, 0.53, 0.96]
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register
from roadworthy.statistics.arguments import tail_probability

from . import grid
from .base import NO_EVENTS, REJECTED, Bools, Calibrated, Floats, Rates, bin_counts

Shares = tuple[Floats, Floats]
"""How clean and shifted events fall into the bins; or draws of both."""
DRAWS, SEED = 100, 0
CHUNK = 2_000_000
PLACES = 201
"""Rates at which the score test is made; between them the ends are interpolated."""
FEW = 10
"""Fewer places than this inside an interval are too few to interpolate between."""
ZOOMS = 6
HALF = math.log(0.5)
"""The greatest value of the smaller of two tails: the score is just what was to be expected."""


@register("estimators", "likelihood", reads="bins", title="maximum likelihood, bins")
def likelihood_rate(
    counts: ArrayLike, calibrated: Calibrated, *, draws: int = DRAWS, confidence: float = 0.95
) -> Rates:
    """The rate that makes the score bins of each window (in the last axis) most likely."""
    rows, shape = _rows(counts, calibrated)
    value = np.where(rows.any(axis=1), _most_likely(rows, calibrated), 0.0)
    return _rates(value, rows, shape, calibrated, draws, confidence)


@register("estimators", "posterior", reads="bins", title="posterior mean, bins")
def posterior_rate(
    counts: ArrayLike, calibrated: Calibrated, *, draws: int = DRAWS, confidence: float = 0.95
) -> Rates:
    """The posterior mean of the rate given the score bins of each window, Jeffreys' prior."""
    rows, shape = _rows(counts, calibrated)
    value = _posterior_mean(rows, calibrated.draw_shares(draws, SEED, added=0.5))
    return _rates(value, rows, shape, calibrated, draws, confidence)


def _rows(counts: ArrayLike, calibrated: Calibrated) -> tuple[Floats, tuple[int, ...]]:
    """Windows x bins, and the shape of the windows."""
    if calibrated.bins == 2:
        calibrated.check_verdicts()
    table = bin_counts(counts, calibrated.bins)
    return table.reshape(-1, calibrated.bins), table.shape[:-1]


def _rates(
    value: Floats,
    rows: Floats,
    shape: tuple[int, ...],
    calibrated: Calibrated,
    draws: int,
    confidence: float,
) -> Rates:
    """With the interval of the score test, over draws of what the shares may be."""
    shares, tail = (
        (calibrated.clean_shares, calibrated.shifted_shares),
        tail_probability(confidence, "two"),
    )
    low, high, rejected = score_interval(rows, shares, calibrated.draw_shares(draws, SEED), tail)
    empty = ~rows.any(axis=1)
    ends = value, np.where(empty, 0.0, low), np.where(empty, 1.0, high)
    flags = {NO_EVENTS: empty.reshape(shape), REJECTED: (rejected & ~empty).reshape(shape)}
    return Rates.of((end.reshape(shape) for end in ends), confidence, flags)


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


def _posterior_mean(rows: Floats, drawn: Shares) -> Floats:
    """By window, over cells as fine as its own length asks for, whatever other windows there are."""
    step = grid.FEWEST
    cells = np.array([step * math.ceil(grid.cells_for(n) / step) for n in rows.sum(axis=1)])
    found = np.empty(len(rows))
    for count in np.unique(cells).tolist():
        rate = grid.middles(count)
        mixed = rate[:, None, None] * drawn[1] + (1.0 - rate)[:, None, None] * drawn[0]
        log = np.log(mixed).reshape(-1, rows.shape[1]).T
        at = np.flatnonzero(cells == count)
        for some in np.array_split(at, max(1, len(at) * log.shape[1] // CHUNK)):
            part = rows[some] @ log
            part = np.exp(part - part.max(axis=1, keepdims=True))
            mass = grid.normalised(part.reshape(len(some), count, -1).sum(axis=2))
            found[some] = mass @ rate
    return found


def score_interval(
    rows: Floats, shares: Shares, possible: Shares, tail: float
) -> tuple[Floats, Floats, Bools]:
    """By window, the lowest and highest rate that is not rejected, and whether every rate is.

    If few places are not rejected, the test is made again in between. If every rate is rejected,
    the interval holds those rejected little more than the least rejected one.

    >>> clean, shifted = np.array([0.9, 0.1]), np.array([0.2, 0.8])
    >>> sure = (clean, shifted), (clean[None], shifted[None])
    >>> low, high, _ = score_interval(np.array([[550_000.0, 450_000.0]]), *sure, 0.025)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)   # 0.5 -+ 1.96 sqrt(.45 .55 / 10^6) / 0.7
    (0.4986, 0.5014)
    """
    from scipy.special import ndtr

    rate = np.linspace(0.0, 1.0, PLACES)
    low, high, few = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), dtype=bool)
    rejected = np.zeros(len(rows), dtype=bool)
    step = max(1, CHUNK // (PLACES * len(possible[0])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        below = ndtr(_deviations(rows[some], shares, possible, rate)).mean(axis=2)
        excess = tail - np.minimum(below, 1.0 - below)
        few[some] = (excess <= 0.0).sum(axis=1) < FEW
        low[some], high[some] = _ends(excess, excess <= 0.0, rate)
    for i in np.flatnonzero(few):
        low[i], high[i], rejected[i] = _zoomed(rows[i : i + 1], shares, possible, math.log(tail))
    return low, high, rejected


def _zoomed(
    row: Floats, shares: Shares, possible: Shares, log_tail: float
) -> tuple[float, float, bool]:
    """The ends for one window, at places ever nearer to those not rejected; and if all are."""
    from scipy.special import log_ndtr, logsumexp

    first, last, best = 0.0, 1.0, -math.inf
    for _ in range(ZOOMS + 1):
        rate = np.linspace(first, last, PLACES)
        off = _deviations(row, shares, possible, rate)[0]
        # Logarithms: one of two tails that are next to nothing is still the smaller.
        below, above = (
            logsumexp(log_ndtr(sign * off), axis=1) - math.log(off.shape[1]) for sign in (1.0, -1.0)
        )
        least = np.minimum(below, above)
        crossed = np.flatnonzero(np.diff(below > above))
        # Between these places the score is what was to be expected: a rate there is not rejected.
        best = max(best, HALF if len(crossed) else float(least.max()))
        wanted = log_tail if best >= log_tail else best + log_tail - HALF
        inside = least >= wanted
        if inside.sum() >= FEW:
            break
        inside[crossed] = inside[crossed + 1] = True
        inside[least.argmax()] |= not inside.any()
        kept, step = np.flatnonzero(inside), rate[1] - rate[0]
        first, last = max(float(rate[kept[0]] - step), 0.0), min(float(rate[kept[-1]] + step), 1.0)
    low, high = _ends((wanted - least)[None], inside[None], rate)
    return float(low[0]), float(high[0]), best < log_tail


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


def _ends(excess: Floats, inside: Bools, rate: Floats) -> tuple[Floats, Floats]:
    first, last = inside.argmax(axis=1), PLACES - 1 - inside[:, ::-1].argmax(axis=1)
    return _crossing(excess, rate, first, -1), _crossing(excess, rate, last, 1)


def _crossing(excess: Floats, rate: Floats, at: np.ndarray, step: int) -> Floats:
    """Where the excess becomes positive between a place inside and its neighbour outside."""
    every = np.arange(len(excess))
    beyond = np.clip(at + step, 0, PLACES - 1)
    inside, outside = excess[every, at], excess[every, beyond]
    part = np.where(outside > inside, -inside / np.maximum(outside - inside, 1e-300), 0.0)
    result: Floats = rate[at] + np.clip(part, 0.0, 1.0) * (rate[beyond] - rate[at])
    return result
