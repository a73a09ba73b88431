"""The rate of shift from verdicts on batches of 1, 8, 16, 32 or 64 events, uniform or mixed.

Where every batch is all clean or all shifted, the batch is the event: Rogan-Gladen over batches, with the batches' own TPR and FPR
(`tallies` counts them). Where batches are mixed, an alarm is not linear in the share of shifted events: `AlarmCurve` measures it on
calibration rows and inverts it. The paper finds batches worse than single events then (seed 003, appendix A), so `uniformity`
looks at the verdicts on single events within each batch: if all are shifted or none, they bunch.

>>> calibrated = Calibrated.from_table({"clean": [95, 5], "fog": [10, 90]})     # batches cleared and alarmed
>>> rate = batch_rate(30, 60, calibrated, size=16)[()]
>>> round(rate.value, 2), rate.flags
(0.53, ('every batch is taken to be all clean or all shifted',))
>>> rows = Calibrated.from_table({"clean": [80, 20], "fog": [30, 70]})
>>> float(uniformity([3, 11, 12, 4, 2, 10], 16, rows)) > 0, float(uniformity([7, 8, 6, 7, 8, 7], 16, rows)) > 0
(True, False)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.calibration import BatchThreshold
from roadworthy.statistics.arguments import check_confidence

from . import cells_of_rate
from .answer import DOUBTFUL, NO_EVENTS, UNIFORM, Floats, Rates, answered, window_counts
from .calibrated import Calibrated, Kinds
from .verdicts import rogan_gladen

CELLS = 200


def batch_rate(
    alarmed: ArrayLike,
    batches: ArrayLike,
    calibrated: Calibrated,
    *,
    size: int,
    even: ArrayLike | None = None,
    kinds: Kinds = "new",
    confidence: float = 0.95,
) -> Rates:
    """The share of shifted batches, and so of events where batches are uniform; `even` is what `uniformity` says of each window."""
    if size < 1:
        raise ValueError(f"size is the number of events in a batch, found {size!r}")
    rates = rogan_gladen(alarmed, batches, calibrated, kinds=kinds, confidence=confidence)
    if size == 1:
        return rates
    doubtful = np.zeros(rates.value.shape, dtype=bool) if even is None else np.asarray(even, dtype=np.float64) <= 0.0
    flags = {**rates.flags, UNIFORM: ~doubtful, DOUBTFUL: doubtful}
    return answered((rates.value, rates.low, rates.high), confidence, f"{rates.method}; batches of {size}", flags)


def uniformity(alarms: ArrayLike, size: int, rows: Calibrated) -> Floats:
    """By window, the log-likelihood of uniform batches minus that of mixed ones, each at its best rate.

    `alarms` counts the alarms on single events in each batch (last axis); `rows` is the calibration of these verdicts.
    Positive speaks for batches that are all clean or all shifted.
    """
    from scipy.special import logsumexp

    rows.check_verdicts()
    k, _ = window_counts(alarms, size)
    rate = np.linspace(0.0, 1.0, CELLS + 1)[:, None]
    fpr, tpr = float(rows.clean_shares[1]), float(rows.shifted_shares[1])
    clean, shifted = (k * math.log(t) + (size - k) * math.log1p(-t) for t in (fpr, tpr))
    with np.errstate(divide="ignore"):
        ends = np.stack(
            np.broadcast_arrays(np.log(rate) + shifted[..., None, :], np.log1p(-rate) + clean[..., None, :])
        )
    uniform = np.asarray(logsumexp(ends, axis=0)).sum(axis=-1).max(axis=-1)
    chance = tpr * rate[:, 0] + fpr * (1.0 - rate[:, 0])
    total = k.sum(axis=-1)[..., None]
    mixed = (total * np.log(chance) + (size * k.shape[-1] - total) * np.log1p(-chance)).max(axis=-1)
    return np.asarray(uniform - mixed)


@dataclass(frozen=True, eq=False)
class AlarmCurve:
    """How often a batch alarms, by the share of shifted events from which its rows are drawn."""

    rates: Floats
    alarmed: Floats
    """Of `draws` batches at each rate, how many alarm."""
    draws: int
    size: int

    @classmethod
    def measure(
        cls,
        threshold: BatchThreshold,
        clean: ArrayLike,
        shifted: ArrayLike,
        *,
        points: int = 21,
        draws: int = 1000,
        seed: int = 0,
    ) -> AlarmCurve:
        """Draw mixed batches from calibration scores, clean and shifted, and count how many the threshold alarms at."""
        rng = np.random.default_rng(seed)
        rates = np.linspace(0.0, 1.0, points)
        scores = [np.asarray(rows, dtype=np.float64) for rows in (clean, shifted)]
        alarmed = np.empty(points)
        for i, rate in enumerate(rates):
            moved = rng.random(draws * threshold.size) < rate
            drawn = [rows[rng.integers(len(rows), size=len(moved))] for rows in scores]
            alarmed[i] = threshold.verdict(np.where(moved, drawn[1], drawn[0])).sum()
        return cls(rates, alarmed, draws, threshold.size)

    def rate(
        self,
        alarmed: ArrayLike,
        batches: ArrayLike,
        *,
        prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS,
        confidence: float = 0.95,
    ) -> Rates:
        """The posterior of the share of shifted events, given alarms in a window of mixed batches."""
        check_confidence(confidence)
        k, n = window_counts(alarmed, batches)
        measured = np.maximum.accumulate((self.alarmed + 0.5) / (self.draws + 1.0))
        chance = np.interp(cells_of_rate.middles(CELLS), self.rates, measured)
        log = k[..., None] * np.log(chance) + (n - k)[..., None] * np.log1p(-chance)
        likelihood = np.exp(log - log.max(axis=-1, keepdims=True))
        mass = cells_of_rate.normalised(likelihood * cells_of_rate.prior_mass(prior, CELLS))
        low, high = cells_of_rate.densest(mass, confidence)
        method = f"posterior over the alarm curve of mixed batches of {self.size}"
        return answered((cells_of_rate.mean(mass), low, high), confidence, method, {NO_EVENTS: n == 0.0})
