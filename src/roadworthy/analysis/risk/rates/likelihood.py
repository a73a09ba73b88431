"""The rate of shift from score bins: maximum likelihood, with an interval that inverts the score test.

A window's events fall into the bins with probabilities m(p) = p q + (1 - p) c, clean c and shifted q
from calibration. The log-likelihood sum_b n_b log m_b(p) is concave in p. The interval holds every p
at which S = sum_b n_b (q_b - c_b) / m_b(p) is neither higher nor lower than 2.5% of the scores to
expect there: normal for given shares, and a mixture over draws of what c and q may be, q of a new
kind of shift.

>>> calibrated = Calibrated.from_table({"clean": [100, 60, 30, 10], "fog": [10, 30, 60, 100]})
>>> windows = [[48, 30, 16, 6], [28, 22, 22, 28], [5, 14, 32, 49]]
>>> likelihood_rate(windows, calibrated).value.round(2).tolist()
[0.02, 0.5, 1.0]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register
from roadworthy.statistics.arguments import tail_probability

from .base import Calibrated, Floats, Rates, bin_counts

Shares = tuple[Floats, Floats]
"""How clean and shifted events fall into the bins; or draws of both."""
DRAWS, SEED = 100, 0
CHUNK = 2_000_000
PLACES = 201
"""Rates at which the score test is made; between them the ends are interpolated."""


@register("estimators", "likelihood", reads="bins", title="maximum likelihood, bins")
def likelihood_rate(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """The rate that makes the score bins of each window (in the last axis) most likely."""
    if calibrated.bins == 2:
        calibrated.check_verdicts()
    table = bin_counts(counts, calibrated.bins)
    rows, shape = table.reshape(-1, calibrated.bins), table.shape[:-1]
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
    possible = calibrated.draw_shares(DRAWS, SEED)
    rate = np.linspace(0.0, 1.0, PLACES)
    low, high = np.empty(len(rows)), np.empty(len(rows))
    step = max(1, CHUNK // (PLACES * DRAWS))
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
