"""The rates of shift that the score test does not reject: the interval of `likelihood_rate`.

At a rate p the score of a window is S = sum_b n_b (q_b - c_b) / m_b(p), with m(p) = p q + (1 - p) c. It is compared with what is to
be expected at p over all that clean and shifted shares may be. A window is asked about at the same places whatever others are asked
about with it; where few of them are not rejected it is asked again, in between: around these, and around those between which the
score goes from too high to too low. Where every rate is rejected, no rate explains the window: what is given are then the rates
that are rejected little more than the least rejected one, by the same part as others are against one that fits, and that it is so.

>>> clean, shifted = np.array([0.9, 0.1]), np.array([0.2, 0.8])
>>> window = np.array([[550_000.0, 450_000.0]])
>>> low, high, rejected = score_interval(window, (clean, shifted), (clean[None], shifted[None]), 0.025)
>>> round(float(low[0]), 4), round(float(high[0]), 4)   # 0.5 -+ 1.96 sqrt(0.45 * 0.55 / 10^6) / 0.7
(0.4986, 0.5014)
>>> few = np.array([[1009.0, 1.0]])   # in the second bin: fewer than at any rate
>>> low, high, rejected = score_interval(few, (clean, shifted), (clean[None], shifted[None]), 0.025)
>>> float(low[0]), round(float(high[0]), 3), bool(rejected[0])
(0.0, 0.007, True)
"""

from __future__ import annotations

import math

import numpy as np

from .answer import Bools, Floats

Shares = tuple[Floats, Floats]
"""Of clean and of shifted events in the bins; or draws of both."""

CHUNK = 2_000_000
PLACES = 201
"""Rates at which the test is made; between them the ends are interpolated."""
FEW = 10
"""Places that are not rejected, below which there are too few to interpolate between."""
ZOOMS = 6
HALF = math.log(0.5)
"""The greatest that the smaller of two tails can be: of a score that is just what was to be expected."""


def score_interval(
    rows: Floats, shares: Shares, possible: Shares, tail: float
) -> tuple[Floats, Floats, Bools]:
    """The lowest and the highest rate that is not rejected, window by window, and in which windows every rate is."""
    rate = np.linspace(0.0, 1.0, PLACES)
    low, high, few = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), dtype=bool)
    rejected = np.zeros(len(rows), dtype=bool)
    step = max(1, CHUNK // (PLACES * len(possible[0])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        excess = tail - _least_tail(rows[some], shares, possible, rate)
        few[some] = (excess <= 0.0).sum(axis=1) < FEW
        low[some], high[some] = _ends(excess, excess <= 0.0, rate)
    for i in np.flatnonzero(few):
        low[i], high[i], rejected[i] = _between(rows[i : i + 1], shares, possible, math.log(tail))
    return low, high, rejected


def _between(
    row: Floats, shares: Shares, possible: Shares, log_tail: float
) -> tuple[float, float, bool]:
    """The ends for one window, at places nearer and nearer to those that are not rejected; and whether all are."""
    first, last = 0.0, 1.0
    best = -math.inf
    for _ in range(ZOOMS + 1):
        rate = np.linspace(first, last, PLACES)
        below, above = _log_tails(row, shares, possible, rate)
        least = np.minimum(below, above)
        crossed = np.flatnonzero(np.diff(below > above))
        # Between these two places the score is what was to be expected: a rate there is not rejected, however narrow.
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


def _ends(excess: Floats, inside: Bools, rate: Floats) -> tuple[Floats, Floats]:
    first, last = inside.argmax(axis=1), PLACES - 1 - inside[:, ::-1].argmax(axis=1)
    return _crossing(excess, rate, first, -1), _crossing(excess, rate, last, 1)


def _least_tail(rows: Floats, shares: Shares, possible: Shares, rate: Floats) -> Floats:
    """Windows x rates: the smaller of the chances of a score as high, or as low, as that seen, over all that is possible."""
    from scipy.special import ndtr

    below = ndtr(_deviations(rows, shares, possible, rate)).mean(axis=2)
    return np.minimum(below, 1.0 - below)


def _log_tails(
    row: Floats, shares: Shares, possible: Shares, rate: Floats
) -> tuple[Floats, Floats]:
    """For one window at each rate, the logarithms of both chances: of two that are next to nothing one is still the smaller."""
    from scipy.special import log_ndtr, logsumexp

    deviations = _deviations(row, shares, possible, rate)[0]
    draws = math.log(deviations.shape[1])
    below, above = (logsumexp(log_ndtr(sign * deviations), axis=1) - draws for sign in (1.0, -1.0))
    return below, above


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
