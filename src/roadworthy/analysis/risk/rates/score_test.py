"""The rates of shift that the score test does not reject: the interval of `likelihood_rate`.

At a rate p the score of a window is S = sum_b n_b (q_b - c_b) / m_b(p), with m(p) = p q + (1 - p) c. It is compared with what is to
be expected at p over all that clean and shifted shares may be. A window is asked about at the same places whatever others are asked
about with it; where few of them are not rejected it is asked again, in between.

>>> clean, shifted = np.array([0.9, 0.1]), np.array([0.2, 0.8])
>>> window = np.array([[550_000.0, 450_000.0]])
>>> low, high = score_interval(window, np.array([0.5]), (clean, shifted), (clean[None], shifted[None]), 0.025)
>>> round(float(low[0]), 4), round(float(high[0]), 4)   # 0.5 -+ 1.96 sqrt(0.45 * 0.55 / 10^6) / 0.7
(0.4986, 0.5014)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .answer import Floats

Shares = tuple[Floats, Floats]
"""Of clean and of shifted events in the bins; or draws of both."""

CHUNK = 2_000_000
PLACES = 201
"""Rates at which the test is made; between them the ends are interpolated."""
FEW = 10
"""Places that are not rejected, below which there are too few to interpolate between."""
ZOOMS = 6


def score_interval(
    rows: Floats, likeliest: Floats, shares: Shares, possible: Shares, tail: float
) -> tuple[Floats, Floats]:
    """The lowest and the highest rate that is not rejected, window by window; where all are, the least rejected one."""
    rate = np.linspace(0.0, 1.0, PLACES)
    low, high, inside = np.empty(len(rows)), np.empty(len(rows)), np.empty((len(rows), PLACES), dtype=bool)
    step = max(1, CHUNK // (PLACES * len(possible[0])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        excess = tail - _least_tail(rows[some], shares, possible, rate)
        inside[some] = excess <= 0.0
        low[some], high[some] = _ends(excess, rate)
    for i in np.flatnonzero(inside.sum(axis=1) < FEW):
        low[i], high[i] = _between(rows[i : i + 1], float(likeliest[i]), inside[i], shares, possible, tail)
    return low, high


def _between(
    row: Floats, likeliest: float, inside: NDArray[np.bool_], shares: Shares, possible: Shares, tail: float
) -> tuple[float, float]:
    """The ends for one window, at places nearer and nearer to those not rejected: around the likeliest rate where all are."""
    rate, excess = np.linspace(0.0, 1.0, PLACES), np.zeros((1, PLACES))
    for _ in range(ZOOMS):
        kept, step = np.flatnonzero(inside), rate[1] - rate[0]
        least, most = (rate[kept[0]], rate[kept[-1]]) if len(kept) else (likeliest, likeliest)
        rate = np.linspace(max(least - step, 0.0), min(most + step, 1.0), PLACES)
        excess = tail - _least_tail(row, shares, possible, rate)
        inside = excess[0] <= 0.0
        if inside.sum() >= FEW:
            break
    low, high = _ends(excess, rate)
    return float(low[0]), float(high[0])


def _ends(excess: Floats, rate: Floats) -> tuple[Floats, Floats]:
    excess = excess - np.maximum(excess.min(axis=1, keepdims=True), 0.0)
    inside = excess <= 0.0
    first, last = inside.argmax(axis=1), PLACES - 1 - inside[:, ::-1].argmax(axis=1)
    return _crossing(excess, rate, first, -1), _crossing(excess, rate, last, 1)


def _least_tail(rows: Floats, shares: Shares, possible: Shares, rate: Floats) -> Floats:
    """Windows x rates: the smaller of the chances of a score as high, or as low, as that seen, over all that is possible."""
    from scipy.special import ndtr

    difference = shares[1] - shares[0]
    part = difference / (shares[0] + rate[:, None] * difference)
    clean, shifted = ((1.0 - rate)[:, None], possible[0].T), (rate[:, None], possible[1].T)
    expected, square = (sum(weight * (x @ drawn) for weight, drawn in (clean, shifted)) for x in (part, part**2))
    n = rows.sum(axis=1)[:, None, None]
    deviation = np.sqrt(np.maximum(n * (square - expected**2), 1e-300))
    below = ndtr(((rows @ part.T)[:, :, None] - n * expected) / deviation).mean(axis=2)
    return np.minimum(below, 1.0 - below)


def _crossing(excess: Floats, rate: Floats, at: np.ndarray, step: int) -> Floats:
    """Where the excess becomes positive between a place inside and its neighbour outside."""
    every = np.arange(len(excess))
    beyond = np.clip(at + step, 0, PLACES - 1)
    inside, outside = excess[every, at], excess[every, beyond]
    part = np.where(outside > inside, -inside / np.maximum(outside - inside, 1e-300), 0.0)
    result: Floats = rate[at] + np.clip(part, 0.0, 1.0) * (rate[beyond] - rate[at])
    return result
