"""Tests of a mean that stay valid however often one looks: bets on the mean being above a limit (test martingales).

Each observation x of a mean m bets on m > limit: a stake s becomes s (1 + rate (x - limit)). As long as m <= limit the factor
has expectation 1 at most, whatever came before, so that the product is a supermartingale and reaches 1 / alpha with probability
alpha at most, over all looks together (Ville 1939; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", 2024). Several rates bet at once, and their mean counts. An observation that was drawn with probability p stands for
1 / p others: give 1 / p as its weight. To test for a mean below the limit, change the sign of values, limit and bounds.

For a proportion, bets of all sizes at once have a closed form: the likelihood ratio of p against
the limit, averaged over Jeffreys' prior of p cut off at the limit (Robbins 1970). The limits against
which it stays below 1 / alpha at a look are a confidence sequence: all of them hold together.

Looking for a change, evidence is taken from the best start so far (a CUSUM of the logarithms); it then reaches 1 / alpha less
than once in 1 / alpha observations (Shin, Ramdas and Rinaldo, "E-detectors", 2023).

>>> wrong = np.arange(60) % 2 == 0
>>> factors = log_factors(wrong.astype(float), limit=0.1, least=0.0, most=1.0)
>>> evidence = martingale(factors)
>>> int(np.argmax(evidence >= np.log(1000))), bool(martingale(log_factors(0.05 * wrong, limit=0.1, least=0.0, most=1.0)).max() < 0)
(14, True)
>>> round(proportion_sequence(2, 1000, confidence=0.975, sided="upper").high, 4)  # at every look
0.0098
>>> quiet_first = np.concatenate([np.zeros(500), wrong])
>>> found = cusum(log_factors(quiet_first, limit=0.1, least=0.0, most=1.0))
>>> bool(found.evidence[-1] > np.log(1000)), 500 <= int(found.starts[-1]) <= 502
(True, True)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arguments import Sided, open_sides, tail_probability
from .interval import Interval

Floats = NDArray[np.float64]

STAKES, GREATEST, SMALLEST = 8, 0.9, 0.03
"""Rates that bet at once: the largest possible loss takes from the greatest to the smallest of these shares of a stake."""
SMALL = 0.3
"""If gains are many times as large as losses, the smallest share is so much of what suits a mean just above the limit."""
_LARGEST_ODDS = 1e3
"""If nothing could be lost, a stake gains so much at most."""
_NEARLY_ALL = 1.0 - 1e-9


def log_factors(
    values: ArrayLike,
    *,
    limit: float,
    least: ArrayLike,
    most: ArrayLike,
    weights: ArrayLike | None = None,
    missed: ArrayLike = 0.0,
) -> Floats:
    """Stakes x observations: the logarithm of what becomes of each stake on a mean above the limit.

    Every value lies between `least` and `most` (each a number, or one an observation). `missed` is what is lost before each
    observation by others that none stands for: 0 if all of them had a chance to be drawn.
    """
    weight = np.ones(np.shape(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    gains, worst, best = (
        weight * (np.asarray(x, dtype=np.float64) - limit) for x in (values, least, most)
    )
    if not gains.size:
        return np.zeros((STAKES, 0))
    gain = float(best.max())
    loss = max(-float(worst.min()), gain / _LARGEST_ODDS, 1e-300)
    smallest = min(SMALLEST, SMALL * loss / gain) if gain > 0.0 else SMALLEST
    rates = np.geomspace(GREATEST, smallest, STAKES)[:, None] / loss
    charged = np.log1p(np.maximum(-rates * np.asarray(missed, dtype=np.float64), -_NEARLY_ALL))
    result: Floats = np.log1p(rates * gains) + charged
    return result


def martingale(factors: Floats) -> Floats:
    """After each observation, the logarithm of the evidence that the mean is above the limit.

    If it is not, log(1 / alpha) is reached with probability alpha at most, over all looks together.
    """
    return _mean(np.cumsum(factors, axis=1))


def evidence_below(successes: ArrayLike, n: ArrayLike, limit: ArrayLike) -> Floats:
    """The logarithm of the evidence that a proportion is below the limit, elementwise.

    If it is not, log(1 / alpha) is reached with probability alpha at most, over all looks together.
    Evidence that it is above the limit is `evidence_below(n - successes, n, 1 - limit)`.
    """
    from scipy.special import betainc, betaln, xlog1py, xlogy

    k, size, p = (np.asarray(x, dtype=np.float64) for x in (successes, n, limit))
    a = 0.5
    with np.errstate(divide="ignore"):
        # So far below the share seen that no bet was won: the logarithm of 0.
        inside = np.log(betainc(k + a, size - k + a, p)) - np.log(betainc(a, a, p))
    result: Floats = (
        betaln(k + a, size - k + a) - betaln(a, a) + inside - xlogy(k, p) - xlog1py(size - k, -p)
    )
    return result


def proportion_sequence(
    successes: float, n: float, *, confidence: float = 0.95, sided: Sided = "two"
) -> Interval:
    """The interval for a proportion at one of any number of looks; all of them hold together."""
    tail = tail_probability(confidence, sided)
    low = 1.0 - _upper_at_look(n - successes, n, tail)
    high = _upper_at_look(successes, n, tail)
    low, high = open_sides(low, high, sided, least=0.0, most=1.0)
    return Interval(low, high, float(confidence), "confidence sequence, beta mixture")


def _upper_at_look(successes: float, n: float, tail: float) -> float:
    from scipy.optimize import brentq

    def beyond(limit: float) -> float:
        return float(evidence_below(successes, n, limit) + np.log(tail))

    # At the share seen no other proportion is likelier: the evidence is at most 0.
    least, most = max(successes / n if n else 0.0, 1e-300), 1.0 - 1e-15
    if successes >= n or beyond(most) <= 0.0:
        return 1.0
    return float(brentq(beyond, least, most, xtol=1e-18))


class Cusum(NamedTuple):
    """After each observation, what was gathered from the best start so far."""

    evidence: Floats
    """The logarithm of the evidence over all stakes."""
    starts: NDArray[np.intp]
    """The start of the stake that gained most."""
    gathered: Floats
    """Stakes x observations."""


def cusum(factors: Floats, before: ArrayLike = 0.0) -> Cusum:
    """Evidence of a change at any time, if so much was gathered `before` by each stake."""
    total = np.cumsum(factors, axis=1)
    earlier = np.concatenate([np.zeros((len(factors), 1)), total[:, :-1]], axis=1)
    held = np.broadcast_to(np.asarray(before, dtype=np.float64), (len(factors),))
    lowest = np.minimum(np.minimum.accumulate(earlier, axis=1), -held[:, None])
    gathered = total - lowest
    places = np.arange(factors.shape[1])
    starts = np.maximum.accumulate(np.where(earlier <= lowest, places, 0), axis=1)
    return Cusum(_mean(gathered), starts[gathered.argmax(axis=0), places], gathered)


def _mean(logs: Floats) -> Floats:
    """The logarithm of the mean over stakes."""
    top = logs.max(axis=0, initial=-np.inf)
    result: Floats = top + np.log(np.exp(logs - top).mean(axis=0))
    return result
