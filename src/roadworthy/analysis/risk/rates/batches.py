"""The rate of shift from verdicts on batches of 8, 16, 32 or 64 events that are all clean or all shifted.

The batch is then the event: Rogan-Gladen over batches, with the batches' own TPR and FPR. Where batches are mixed, an alarm is not
linear in the share of shifted events, and the rate is wrong (`mixed_batches` reads those): `uniformity` looks at the verdicts on
single events within each batch, which bunch if all are shifted or none, and windows whose batches look mixed are flagged.

>>> calibrated = Calibrated.from_table({"clean": [95, 5], "fog": [10, 90]})     # batches cleared and alarmed
>>> rate = batch_rate(30, 60, calibrated, size=16)[()]
>>> round(rate.value, 2), rate.flags
(0.53, ('every batch is taken to be all clean or all shifted',))
>>> rows = Calibrated.from_table({"clean": [80, 20], "fog": [30, 70]})
>>> float(uniformity([3, 11, 12, 4, 2, 10], 16, rows)) > 0, float(uniformity([7, 8, 6, 7, 8, 7], 16, rows)) > 0
(True, False)
>>> windows = [[[13, 3]] * 9 + [[5, 11]] * 3, [[10, 6]] * 12]                      # 12 batches of 16 events each
>>> by_batches(windows, rows).value.round(2).tolist(), by_batches(windows, rows)[1].flags[-1]
([0.25, 0.0], 'batches look mixed: it is doubtful that each is all clean or all shifted')
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register

from .answer import DOUBTFUL, UNIFORM, Floats, Rates, answered, bin_counts, window_counts
from .batch_verdicts import BatchVerdict
from .calibrated import Calibrated, Kinds
from .verdicts import rogan_gladen

CELLS = 200
MIXED = 1.92
"""By how much mixed batches must be the likelier explanation before windows are doubted (half of chi-square's 95% point): without
shift, or with nothing else, the two are the same."""


@register("estimators", "batches", reads="batches", title="Rogan-Gladen over batches")
def by_batches(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """Rogan-Gladen over verdicts on batches, each taken to be all clean or all shifted; flagged where they look mixed."""
    table = bin_counts(counts, calibrated.bins)
    n = table.sum(axis=-1)
    size = int(n.max(initial=1.0))
    verdict = BatchVerdict.choose(calibrated, size)
    even = None
    if size > 1:
        signs = calibrated.log_ratio > 0.0  # the verdict on a single event
        even = uniformity(table[..., signs].sum(axis=-1), n, _verdicts(calibrated, signs))
    alarmed, batches = verdict.alarmed(table).sum(axis=-1), (n > 0.0).sum(axis=-1)
    return batch_rate(
        alarmed, batches, verdict.counted(calibrated), size=size, even=even, confidence=confidence
    )


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
    doubtful = (
        np.zeros(rates.value.shape, dtype=bool)
        if even is None
        else np.asarray(even, dtype=np.float64) <= -MIXED
    )
    flags = {**rates.flags, UNIFORM: ~doubtful, DOUBTFUL: doubtful}
    return answered(
        (rates.value, rates.low, rates.high),
        confidence,
        f"{rates.method}; batches of {size}",
        flags,
    )


def uniformity(alarms: ArrayLike, size: ArrayLike, rows: Calibrated) -> Floats:
    """By window, the log-likelihood of uniform batches minus that of mixed ones, each at its best rate.

    `alarms` counts the alarms on single events in each batch (last axis); `rows` is the calibration of these verdicts.
    Positive speaks for batches that are all clean or all shifted.
    """
    from scipy.special import logsumexp

    rows.check_verdicts()
    k, n = window_counts(alarms, size)
    rate = np.linspace(0.0, 1.0, CELLS + 1)[:, None]
    fpr, tpr = float(rows.clean_shares[1]), float(rows.shifted_shares[1])
    clean, shifted = (k * math.log(t) + (n - k) * math.log1p(-t) for t in (fpr, tpr))
    with np.errstate(divide="ignore"):
        ends = np.stack(
            np.broadcast_arrays(
                np.log(rate) + shifted[..., None, :], np.log1p(-rate) + clean[..., None, :]
            )
        )
    uniform = np.asarray(logsumexp(ends, axis=0)).sum(axis=-1).max(axis=-1)
    chance = tpr * rate[:, 0] + fpr * (1.0 - rate[:, 0])
    total, events = k.sum(axis=-1)[..., None], n.sum(axis=-1)[..., None]
    mixed = (total * np.log(chance) + (events - total) * np.log1p(-chance)).max(axis=-1)
    return np.asarray(uniform - mixed)


def _verdicts(calibrated: Calibrated, signs: np.ndarray) -> Calibrated:
    """The calibration of single events: cleared, and alarmed where their bin is one of these."""
    clean, shifted = (
        np.stack([rows[..., ~signs].sum(axis=-1), rows[..., signs].sum(axis=-1)], axis=-1)
        for rows in (calibrated.clean, calibrated.shifted)
    )
    return Calibrated(clean, shifted, calibrated.kinds)
