"""How many events of a stream say as much as one independent event: the autocorrelation time.

tau = 1 + 2 sum_k rho_k. Frames of a video, visits of one patient: n such events say what n / tau
independent ones would. Autocovariances are taken within blocks, each around its own mean, so that a
change of level is not mistaken for correlation; the quarter of the blocks with the largest times, in
which a change may have fallen, is left out. The mean that is taken out of a block of length B has the
variance v = (gamma_0 + 2 sum_k (1 - k/B) gamma_k) / B, by which all autocovariances are too low; it
is added again. The sum ends with the first negative pair of neighbours (Geyer 1992).

>>> rng = np.random.default_rng(0)
>>> alike = np.repeat(rng.normal(size=3_000), 10)
>>> round(integrated_time(rng.normal(size=20_000)), 1), round(integrated_time(alike), 0)
(1.0, 11.0)
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK, LEAST_BLOCK = 2048, 64
KEEP = 0.75
"""The share of blocks that is used."""
VARIED = 0.85
"""If a window varies less than this share of what independent events do, its events resemble each
other over longer stretches, and blocks are longer."""
LEAST = 256
"""Scores below which the time is taken to be 1."""
FIRST, FEW = 64, 512
"""Scores below which not even an upper limit is known; below which an alarm uses an upper limit."""
SURE = 1.645
"""Standard errors of the correlation of neighbours up to that limit."""
CAUTION = 1.1
"""The time beyond 1 is taken so much larger, against leaving out the largest blocks."""


def integrated_time(
    scores: Floats, *, window: int = BLOCK, variance: float = math.inf, sure: bool = False
) -> float:
    """Events per independent event, at least 1; with few scores 1, or an upper limit if `sure`.

    If the events of a window vary as much among themselves as independent ones do (whose `variance`
    is given), only their own correlation matters: what changes from window to window, such as shift
    in bursts, is what is to be noticed.
    """
    n = len(scores)
    if n < (FIRST if sure else LEAST):
        return math.inf if sure else 1.0
    whole = min(BLOCK, n // 4)
    length = max(LEAST_BLOCK, min(window, whole))
    blocks = _centred(scores, length)
    if length < whole and np.median((blocks**2).sum(axis=1)) < VARIED * variance * length:
        length = whole
        blocks = _centred(scores, length)
    # Short blocks are judged together: which of them has the largest time would be chance.
    covariances = _autocovariances(blocks, together=max(1, whole // length))
    covariances = covariances[covariances[:, 0] > 1e-12]
    if not len(covariances):
        return math.inf if sure and n < LEAST else 1.0
    if len(covariances) >= 4:
        order = _times(covariances, length).argsort()
        covariances = covariances[order[: math.ceil(KEEP * len(covariances))]]
    return _cautious(covariances.mean(axis=0), length, n, sure=sure)


def steady_time(scores: Floats) -> float:
    """The same for one series whose level does not change: nothing is left out.

    Infinity if the scores do not vary.

    >>> rng = np.random.default_rng(0)
    >>> once = np.where(np.arange(1000) // 20 == 25, 1.0, 0.1 * rng.normal(size=1000))
    >>> bool(steady_time(once) > 10.0), bool(steady_time(rng.normal(size=1000)) < 1.3)
    (True, True)
    """
    x = np.asarray(scores, dtype=np.float64)[-BLOCK:]
    covariance = _autocovariances((x - x.mean())[None, :], together=1)[0]
    return _cautious(covariance, len(x), len(x), sure=True) if covariance[0] > 1e-12 else math.inf


def _cautious(covariance: Floats, length: int, n: int, *, sure: bool) -> float:
    """The time of blocks of a length, and as much more as so many scores leave open."""
    time = max(1.0, float(_times(covariance[None, :], length)[0]))
    # The relative variance of a sum over 5 tau lags is near 2 (2 * 5 tau + 1) / n (Sokal 1997).
    found = 1.0 + (CAUTION + math.sqrt(20.0 * time / n)) * (time - 1.0)
    if not sure or n >= FEW:
        return found
    # How many times longer the time of an autoregression may be, by the correlation of neighbours.
    # The mean of a few events that are alike takes out most of what they share.
    rho = min(max(float(covariance[1] / covariance[0]), 0.0), 0.99)
    upper = min(rho + (1.0 + 3.0 * rho) / n + SURE * math.sqrt((1.0 - rho**2) / n), 0.999)
    return max(found, time * (1.0 + upper) / (1.0 - upper) * (1.0 - rho) / (1.0 + rho))


def _centred(x: Floats, length: int) -> Floats:
    """The last blocks of a length, each around its own mean."""
    blocks = x[len(x) % length :].reshape(-1, length)
    result: Floats = blocks - blocks.mean(axis=1, keepdims=True)
    return result


def _autocovariances(blocks: Floats, *, together: int) -> Floats:
    """Of so many blocks together, at lags 0 to a quarter of their length: none beyond is summed."""
    count, length = blocks.shape
    _, pairs = _lags(length)
    # As long as the last lag needs to reach around, and a length that is quick to transform.
    size = 2 ** math.ceil(math.log2(length + len(pairs)))
    spectrum = np.fft.rfft(blocks, size, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    power = power[count % together :].reshape(-1, together, power.shape[1]).mean(axis=1)
    result: Floats = np.fft.irfft(power, size, axis=1)[:, : len(pairs)] / pairs
    return result


@lru_cache(maxsize=64)
def _lags(length: int) -> tuple[Floats, Floats]:
    """At lags 0 to a quarter of a block: the weight in the sum over all pairs, and their number."""
    lags = np.arange(length // 4 + 1)
    weights = 2.0 * (1.0 - lags / length)
    weights[0] = 1.0
    return weights, (length - lags).astype(np.float64)


def _times(covariances: Floats, length: int) -> Floats:
    """The time of each row of autocovariances."""
    summed = np.arange(covariances.shape[1]) <= _last_lags(covariances)[:, None]
    shape = np.where(summed, _lags(length)[0], 0.0)
    # gamma_k = c_k + v for the lags that are summed, and v is the same sum of gamma_k over B.
    v = (shape * covariances).sum(axis=1) / length / (1.0 - shape.sum(axis=1) / length)
    gamma = np.where(summed, covariances + v[:, None], 0.0)
    first = np.maximum(gamma[:, 0], 1e-300)
    return (2.0 * gamma.sum(axis=1) - first) / first


def _last_lags(covariances: Floats) -> NDArray[np.intp]:
    """The last lag before two neighbours add up to nothing; the last of all if none do."""
    last = covariances.shape[1] - 1
    pairs = covariances[:, 1 : 2 * (last // 2) + 1].reshape(len(covariances), -1, 2).sum(axis=2)
    ended = pairs <= 0
    return np.where(ended.any(axis=1), 2 * ended.argmax(axis=1), last)
