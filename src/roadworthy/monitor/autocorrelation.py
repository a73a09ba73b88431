"""How many events of a stream say as much as one independent event: the integrated autocorrelation time.

tau = 1 + 2 sum_k rho_k. Frames of a video, visits of one patient: a window of n such events says what n / tau independent ones
would. Autocovariances are taken within blocks, each around its own mean, so that a change of level is not mistaken for
correlation; the blocks of the largest times, in which a change may have fallen, are left out. The mean that is taken out of a
block of length B carries the variance v = (gamma_0 + 2 sum_k (1 - k/B) gamma_k) / B, by which all autocovariances are too low;
it is added again. The sum ends with the first pair of neighbours that is negative (Geyer 1992, initial positive sequence).

>>> rng = np.random.default_rng(0)
>>> round(integrated_time(rng.normal(size=20_000)), 1), round(integrated_time(np.repeat(rng.normal(size=3_000), 10)), 0)
(1.0, 11.0)
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Cells, Floats

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.windows import CellScores

BLOCK, LEAST_BLOCK = 2048, 64
KEEP = 0.75
"""The share of blocks that is used: those of the largest times may hold a change."""
VARIED = 0.85
"""If a window varies less than this share of what independent events do, its events resemble each other over longer stretches."""
LEAST = 256
"""Scores below which the time is taken to be 1."""
FIRST, FEW = 64, 512
"""Scores below which not even an upper limit is known; below which the time is an upper limit."""
SURE = 1.645
"""Standard errors of the correlation of neighbours up to that limit."""
CAUTION = 1.1
"""The time beyond 1 is taken so much larger, against leaving out the largest blocks, and by its standard error more."""
HISTORY = 32_768
"""Events from which the time of a stream is read."""
OFTEN, SELDOM = 64, 16_384
"""It is read again after a quarter more events, but not before and not later than this."""
LAST = (1024, 4096, 16_384)
"""The last events of which it is read before an alarm is raised."""
CLEARLY = 3.0
"""Standard errors by which their time must be longer than the known one: chance must not delay an alarm."""


def integrated_time(
    scores: Floats, *, window: int = BLOCK, variance: float = math.inf, sure: bool = False
) -> float:
    """Events per independent event, at least 1; with too few scores 1, or infinity if an upper limit (`sure`) is wanted.

    If the events of a window vary as much among themselves as independent ones do (whose `variance` is given), only their own
    correlation matters: what changes from window to window, such as shift in bursts, is what is to be noticed.
    """
    n = len(scores)
    if n < (FIRST if sure else LEAST):
        return math.inf if sure else 1.0
    whole = min(BLOCK, n // 4)
    length = max(LEAST_BLOCK, min(window, whole))
    blocks = _centred(scores, length)
    if length < whole and np.median((blocks**2).sum(axis=1)) < VARIED * variance * length:
        length = max(LEAST_BLOCK, whole)
        blocks = _centred(scores, length)
    # Short blocks are judged together: which of them has the largest time would be chance.
    covariances = _autocovariances(blocks, together=max(1, whole // length))
    covariances = covariances[covariances[:, 0] > 1e-12]
    if not len(covariances):
        return math.inf if sure and n < LEAST else 1.0
    if len(covariances) >= 4:
        order = _times(covariances, length).argsort()
        covariances = covariances[order[: max(1, math.ceil(KEEP * len(covariances)))]]
    return _cautious(covariances.mean(axis=0), length, n, sure=sure)


def time_of_steady(scores: Floats) -> float:
    """The same for one series whose level does not change: nothing is left out; infinity if the scores do not vary.

    >>> rng = np.random.default_rng(0)
    >>> once = np.where(np.arange(1000) // 20 == 25, 1.0, 0.1 * rng.normal(size=1000))
    >>> bool(time_of_steady(once) > 10.0), bool(time_of_steady(rng.normal(size=1000)) < 1.3)
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
    found = 1.0 + (CAUTION + math.sqrt(20.0 * time / n)) * (time - 1.0)
    return max(found, time * _upper_limit(covariance, n)) if sure and n < FEW else found


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
    power = spectrum.real**2
    power += spectrum.imag**2
    power = power[count % together :].reshape(-1, together, power.shape[1]).mean(axis=1)
    result: Floats = np.fft.irfft(power, size, axis=1)[:, : len(pairs)] / pairs
    return result


@lru_cache(maxsize=64)
def _lags(length: int) -> tuple[Floats, Floats]:
    """At lags 0 to a quarter of a block's length: the weight in the sum over all pairs, and the number of pairs."""
    lags = np.arange(length // 4 + 1)
    weights = 2.0 * (1.0 - lags / length)
    weights[0] = 1.0
    return weights, (length - lags).astype(np.float64)


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


def _upper_limit(covariance: Floats, n: int) -> float:
    """How many times longer the time of an autoregression may be, by the correlation of neighbours among so many events."""
    if len(covariance) < 2:
        return 1.0
    # The mean of a few events that are alike takes out most of what they share.
    found = min(max(float(covariance[1] / covariance[0]), 0.0), 0.99)
    upper = min(found + (1.0 + 3.0 * found) / n + SURE * math.sqrt((1.0 - found**2) / n), 0.999)
    return (1.0 + upper) / (1.0 - upper) * (1.0 - found) / (1.0 + found)


def _last_lags(covariances: Floats) -> NDArray[np.intp]:
    """The last lag before two neighbours add up to nothing; the last of all if none do."""
    last = covariances.shape[1] - 1
    pairs = covariances[:, 1 : 2 * (last // 2) + 1].reshape(len(covariances), -1, 2).sum(axis=2)
    ended = pairs <= 0
    return np.where(ended.any(axis=1), 2 * ended.argmax(axis=1), last)


class StreamTime:
    """The autocorrelation time of one stream, read again as the stream goes on.

    It is read from the last events without the last two windows: a step that is just happening must not look like correlation.
    """

    def __init__(self, bundle: Bundle, scores: CellScores) -> None:
        self._shift, self._variance, rule = scores.shift, scores.variance, bundle.alarm
        self._window = rule.window if rule else min(bundle.windows.lengths)
        self._spare = 2 * rule.window if rule else 0
        self.history = HISTORY + self._spare
        """Events from which it is read at most."""
        self.value = 1.0
        """The time by which the alarm is judged."""
        self.first = max(rule.window, FIRST) if rule else FIRST
        """Events before which nothing is known."""
        self.next = self.first
        """After how many events it is read again."""
        self.limit: int | None = 0
        """After how many events it was read if it is but an upper limit; None if it is an estimate."""

    def of(self, cells: Cells, *, sure: bool = False) -> float:
        """The time of a stream's last events."""
        cells = cells[-self.history :]
        if len(cells) > 4 * self._spare:
            cells = cells[: len(cells) - self._spare]
        return self._of_all(cells, sure=sure)

    def read(self, cells: Cells, counted: int, *, keep: bool, partial: bool) -> None:
        """Read it from the cells up to the event `counted`, of which some may have been left out (`partial`).

        While an alarm is on (`keep`), the time stays what it was, unless it is but an upper limit and more is known now.
        """
        self.next = counted + min(SELDOM, max(OFTEN, counted // 4))
        if keep:
            self.next = min(self.next, counted + FEW)
            if self.limit is None:
                return
            cells = cells[max(len(cells) - (counted - self.limit), 0) :]
        enough = np.count_nonzero(cells >= 0) >= FEW
        if (keep or partial) and not enough:
            return  # too little is left to know better than before
        self.value = self.of(cells, sure=True)
        self.limit = None if enough and math.isfinite(self.value) else counted
        if self.limit is not None:
            self.next = min(self.next, counted + (FEW if math.isfinite(self.value) else OFTEN))

    def lengthened(self, cells: Cells, now: int) -> bool:
        """Whether the last events are clearly more alike than was known; from `now` on the time is theirs.

        Asked before an alarm is raised: a stream whose events have become alike would else raise false alarms until the
        next reading. They may be so for a short while only, so it is read again soon.
        """
        cells = cells[: max(len(cells) - self._spare, 0)]
        known = self.value
        for n in LAST:
            last = cells[-n:]
            if np.count_nonzero(last >= 0) >= FEW:
                found = self._of_all(last, sure=True)
                if found > known * (1.0 + CLEARLY * math.sqrt(20.0 * known / len(last))):
                    self.value = max(self.value, found)
        if self.value <= known:
            return False
        self.next = min(self.next, now + FEW)
        return True

    def shrink(self, time: float | None = None) -> float:
        """Independent events over counted ones."""
        return 1.0 / min(self.value if time is None else time, float(HISTORY))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"time": self.value, "next_time": self.next, "limit": self.limit}

    def restore(self, record: dict[str, Any]) -> None:
        """The inverse of `to_dict`."""
        self.value, self.limit = float(record["time"]), record["limit"]
        self.next = int(record["next_time"])

    def _of_all(self, cells: Cells, *, sure: bool) -> float:
        scores = self._shift[cells[cells >= 0]]
        return integrated_time(scores, window=self._window, variance=self._variance, sure=sure)
