"""How many events of a stream say as much as one independent event: the integrated autocorrelation time.

tau = 1 + 2 sum_k rho_k. Frames of a video, visits of one patient: a window of n such events says what n / tau independent ones
would. Autocovariances are taken within blocks, each around its own mean, so that a change of level is not mistaken for
correlation; the blocks in which a change may have fallen, those of the largest times, are left out. The mean that is taken out
of a block of length B carries the variance v = (gamma_0 + 2 sum_k (1 - k/B) gamma_k) / B, by which all autocovariances are too
low; it is added again. The sum ends with the first pair of neighbours that is negative (Geyer 1992, initial positive sequence).

Of a hundred events nobody can tell how much they are alike, but how much they may be: whoever must be sure takes the time by as
much larger as an autoregression's would be whose correlation of neighbours lies at the upper end of its interval.

>>> rng = np.random.default_rng(0)
>>> round(integrated_time(rng.normal(size=20_000)), 1), round(integrated_time(np.repeat(rng.normal(size=3_000), 10)), 0)
(1.0, 11.0)
>>> two = np.stack([np.repeat(rng.normal(size=1_500), 10) for _ in range(2)], axis=1).ravel()  # they take turns
>>> bool(9.0 < integrated_time(two) < 14.0)
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Floats

BLOCK, LEAST_BLOCK = 2048, 64
KEEP = 0.75
"""Blocks that are used: those of the largest times may hold a change."""
VARIED = 0.85
"""The share of the variance of independent events that those of a window must have: with less they resemble each other over so many
events that the window does not hold all of it."""
LEAST = 256
"""Scores below which nothing is said."""
FIRST, FEW = 64, 512
"""Scores below which not even an upper limit is known; below which there is an upper limit apart from the estimate."""
SURE = 1.645
"""Standard errors of the correlation of neighbours up to that limit."""
SOURCES, STANDS_OUT = 8, 5.0
"""Sources that may take turns in a stream; and by how many standard errors a lag must stand out from all before it to be theirs."""
CAUTION = 1.1
"""The time beyond 1 is taken so much larger, against leaving out the largest blocks, and by its standard error more."""


def integrated_time(
    scores: Floats, *, window: int = BLOCK, variance: float = math.inf, sure: bool = False
) -> float:
    """Events per independent event, at least 1; 1 where there is too little to tell, or infinity to who must be `sure`.

    A score that is not a number is a gap: an event without one, which still has its place.

    Where the events of a window vary as much among themselves as independent ones do (whose `variance` is given), only their own
    correlation matters: what goes up and down from window to window, such as shift that comes in bursts, is what is to be told.
    """
    x = np.asarray(scores, dtype=np.float64)
    missing = np.isnan(x)
    gaps = bool(missing.any())
    found, covariance = _time_of_series(
        (x[~missing] if gaps else x,), window=window, variance=variance, sure=sure
    )
    if gaps:
        covariance = _with_gaps(x, len(covariance))
    turns = _turns(
        covariance, int(np.count_nonzero(~missing))
    )  # gaps that lie together tell nothing
    if turns == 1:
        return found
    rows = x[len(x) % turns :].reshape(-1, turns)
    each = [row[~np.isnan(row)] for row in rows.T]
    most = max(map(len, each))
    each = [
        row for row in each if 2 * len(row) >= most
    ]  # a source that seldom has a score tells nothing of the others
    least = min(map(len, each))
    return max(
        found,
        _time_of_series([row[-least:] for row in each], window=BLOCK, variance=variance, sure=sure)[
            0
        ],
    )


def _time_of_series(
    series: Sequence[Floats], *, window: int, variance: float, sure: bool
) -> tuple[float, Floats]:
    """The time of one series, or of several alike of one length, and their autocovariances (none where there is too little)."""
    n = len(series[0])
    if n < (FIRST if sure else LEAST):
        return math.inf if sure else 1.0, np.zeros(1)
    whole = min(BLOCK, n // 4)
    length = max(LEAST_BLOCK, min(window, whole))
    blocks = _centred(series, length)
    if (
        length < whole
        and _median(np.einsum("ij,ij->i", blocks, blocks)) < VARIED * variance * length
    ):
        length = max(LEAST_BLOCK, whole)
        blocks = _centred(series, length)
    # Short blocks are judged together: which of them has the largest time would be chance.
    covariances = _autocovariances(blocks, together=max(1, whole // length))
    covariances = covariances[covariances[:, 0] > 1e-12]
    if not len(covariances):
        return math.inf if sure and n < LEAST else 1.0, np.zeros(1)
    if len(covariances) >= 4:
        order = _times(covariances, length).argsort()
        covariances = covariances[order[: max(1, math.ceil(KEEP * len(covariances)))]]
    pooled: Floats = covariances.mean(axis=0)
    return _cautious(pooled, length, n, sure=sure), pooled


def _with_gaps(x: Floats, lags: int) -> Floats:
    """The autocovariances of a series in which some are missing, by their places: which source comes next is seen by these."""
    if lags < 2:
        return np.zeros(1)
    length = 4 * (lags - 1)
    blocks = x[len(x) % length :].reshape(-1, length)
    known = ~np.isnan(blocks)
    means = np.where(known, blocks, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    result: Floats = _autocovariances(
        np.where(known, blocks - means[:, None], 0.0), together=1
    ).mean(axis=0)
    return result


def time_of_all(scores: Floats) -> float:
    """The same of one series whose level does not change: nothing is left out, so that what comes once together counts.

    At most as many scores as a block holds are read; infinity where they do not vary.

    >>> rng = np.random.default_rng(0)
    >>> once = np.where(np.arange(1000) // 20 == 25, 1.0, 0.1 * rng.normal(size=1000))
    >>> bool(time_of_all(once) > 10.0), bool(time_of_all(rng.normal(size=1000)) < 1.3)
    (True, True)
    """
    x = np.asarray(scores, dtype=np.float64)[-BLOCK:]
    covariance = _autocovariances((x - x.mean())[None, :], together=1)
    if covariance[0, 0] <= 1e-12:
        return math.inf
    return _cautious(covariance[0], len(x), len(x), sure=True)


def _cautious(covariance: Floats, length: int, n: int, *, sure: bool) -> float:
    """The time of autocovariances of blocks of a length, and as much more as so many scores leave open."""
    time = max(1.0, float(_times(covariance[None, :], length)[0]))
    # The relative variance of a sum over 5 tau lags is near 2 (2 * 5 tau + 1) / n (Sokal 1997).
    found = 1.0 + (CAUTION + float(np.sqrt(20.0 * time / n))) * (time - 1.0)
    return max(found, time * _doubt(covariance, n)) if sure and n < FEW else found


def _turns(covariance: Floats, n: int) -> int:
    """How many sources take turns: neighbours are then of different ones, and alike is who is so many events apart.

    A sum that ends where neighbours are not alike would take such events for independent ones.
    """
    first, *others = covariance[: SOURCES + 1].tolist()
    found, before = 1, 0.0
    for lag, value in enumerate(others, start=1):
        if lag > 1 and value - before > STANDS_OUT * first / math.sqrt(n):
            found = lag  # of eight sources every fourth event may be alike by chance, and every eighth is more so
        before = max(before, value)
    return found


def _median(numbers: Floats) -> float:
    ordered = np.sort(numbers)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0


def _centred(series: Sequence[Floats], length: int) -> Floats:
    """The last blocks of a length of each series, each around its own mean."""
    blocks = np.concatenate([x[len(x) % length :].reshape(-1, length) for x in series])
    result: Floats = blocks - blocks.mean(axis=1, keepdims=True)
    return result


def _autocovariances(blocks: Floats, *, together: int) -> Floats:
    """Of so many blocks together, at lags 0 to a quarter of their length: none beyond is summed."""
    count, length = blocks.shape
    _, pairs = _lags(length)
    # As long as the last lag needs to reach around, and a length that is quick to transform.
    size = 2 ** math.ceil(math.log2(length + len(pairs)))
    spectrum = np.fft.rfft(blocks, size, axis=1)
    power = spectrum.real**2
    power += spectrum.imag**2
    power = power[count % together :].reshape(-1, together, power.shape[1]).mean(axis=1)
    result: Floats = np.fft.irfft(power, size, axis=1)[:, : len(pairs)] / pairs
    return result


@lru_cache(maxsize=64)
def _lags(length: int) -> tuple[Floats, Floats]:
    """At lags 0 to a quarter of the length of a block: what each counts for in the sum over all pairs, and pairs so far apart."""
    lags = np.arange(length // 4 + 1)
    counts = 2.0 * (1.0 - lags / length)
    counts[0] = 1.0
    return counts, (length - lags).astype(np.float64)


def _times(covariances: Floats, length: int) -> Floats:
    """The time of each row of autocovariances."""
    summed = np.arange(covariances.shape[1]) <= _last_lags(covariances)[:, None]
    shape = np.where(summed, _lags(length)[0], 0.0)
    # gamma_k = c_k + v for the lags that are summed, and v is the same sum of gamma_k over the length.
    v = (shape * covariances).sum(axis=1) / length / (1.0 - shape.sum(axis=1) / length)
    gamma = np.where(summed, covariances + v[:, None], 0.0)
    first = gamma[:, 0]
    return np.where(
        first > 0, (2.0 * gamma.sum(axis=1) - first) / np.where(first > 0, first, 1.0), 1.0
    )


def _doubt(covariance: Floats, n: int) -> float:
    """How many times longer the time of an autoregression may be, by the correlation of neighbours among so many events."""
    if len(covariance) < 2:
        return 1.0
    # What was taken out with the mean of a few events, times of which are alike, is missed most where all are alike.
    found = min(max(float(covariance[1] / covariance[0]), 0.0), 0.99)
    upper = min(found + (1.0 + 3.0 * found) / n + SURE * math.sqrt((1.0 - found**2) / n), 0.999)
    return (1.0 + upper) / (1.0 - upper) * (1.0 - found) / (1.0 + found)


def _last_lags(covariances: Floats) -> NDArray[np.intp]:
    """The last lag before two neighbours add up to nothing; the last of all where none do."""
    last = covariances.shape[1] - 1
    pairs = covariances[:, 1 : 2 * (last // 2) + 1].reshape(len(covariances), -1, 2).sum(axis=2)
    ended = pairs <= 0
    return np.where(ended.any(axis=1), 2 * ended.argmax(axis=1), last)
