"""The rate of shift from verdicts on whole batches, of 8, 16, 32 or 64 events.

A batch alarms if the mean evidence of its events, log(shifted / clean) of their score bins, is above
the cut of best TPR + TNR between drawn batches (Torpmann-Hagen et al. 2025, section 4.5).
`batch_rate` takes every batch as all clean or all shifted: the batch is the event, and the rate is
Rogan-Gladen's over batches. `mixed_batch_rate` takes every event as clean or shifted by itself: how
often a batch alarms is then not linear in the share of shifted events; it is measured on drawn
batches and read backwards. Verdicts on single events say more than either (appendix A).

>>> calibrated = Calibrated.from_table({"clean": [80, 20], "fog": [30, 70]})
>>> windows = [[[13, 3]] * 9 + [[5, 11]] * 3, [[10, 6]] * 12]  # 12 batches of 16 events each
>>> found = batch_rate(windows, calibrated)
>>> found.value.round(2).tolist(), found.flags[MIXED].tolist()
([0.25, 0.0], [False, True])
>>> mixed_batch_rate(windows, calibrated).value.round(1).tolist()
[0.4, 0.0]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.calibration import Threshold, at_balanced_accuracy
from roadworthy.registry import register

from . import grid
from .base import (
    MIXED,
    NO_EVENTS,
    Bools,
    Calibrated,
    CannotTell,
    Floats,
    Rates,
    alarms_and_events,
    bin_counts,
    verdict_counts,
)
from .rogan_gladen import rogan_gladen

DRAWS = 2000
"""Batches drawn of each side to choose the cut, and of each kind to count alarms."""
CELLS = 200
POINTS, POSSIBLE, EACH = 21, 40, 200
"""Rates at which the curve of mixed batches is measured, draws of the bins' shares, batches each."""
DOUBT = 1.92
"""By how much mixed batches must be the likelier reading before a window is flagged: half of
chi-square's 95% point, since the two readings are the same without shift."""


@register("estimators", "batches", reads="batches", title="Rogan-Gladen over batches")
def batch_rate(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """Rogan-Gladen over verdicts on batches, each taken as all clean or all shifted."""
    table = bin_counts(counts, calibrated.bins)
    verdict = BatchVerdict.choose(calibrated, _size(table))
    known = verdict.counted(calibrated)
    rates = rogan_gladen(verdict.verdicts(table), known, confidence=confidence)
    doubted = uniformity(table, calibrated) <= -DOUBT if verdict.size > 1 else False
    ends = rates.value, rates.low, rates.high
    return Rates.of(ends, confidence, {**rates.flags, MIXED: doubted})


@register("estimators", "mixed_batches", reads="batches", title="verdicts on mixed batches")
def mixed_batch_rate(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """The rate at which batches of events that are each clean or shifted alarm as often."""
    table = bin_counts(counts, calibrated.bins)
    verdict = BatchVerdict.choose(calibrated, _size(table))
    k, n = alarms_and_events(verdict.verdicts(table))
    rng = np.random.default_rng([0, 2])
    sides = calibrated.clean_shares, calibrated.shifted_shares
    likeliest = _alarm_curve(verdict, *sides, POSSIBLE * EACH // 4, rng)
    possible = zip(*calibrated.draw_shares(POSSIBLE, 0, added=0.5), strict=True)
    curves = [_alarm_curve(verdict, *drawn, EACH, rng) for drawn in possible]
    points, middles = np.linspace(0.0, 1.0, POINTS), grid.middles(CELLS)
    # The interval is that of a posterior averaged over what the bins' shares may be.
    chance = np.stack([np.interp(middles, points, curve) for curve in curves])
    # Windows of as many batches and alarms say the same: each pair is worked out once.
    pairs, which = np.unique(np.stack([k.ravel(), n.ravel()]), axis=1, return_inverse=True)
    log = [a * np.log(chance) + (m - a) * np.log1p(-chance) for a, m in pairs.T]
    mass = grid.normalised(np.stack([np.exp(one - one.max()).sum(axis=0) for one in log]))
    ends = grid.densest(mass[which.ravel()].reshape(*k.shape, CELLS), confidence)
    # A little slope makes a curve rise even if it is flat.
    value = np.interp(k / np.maximum(n, 1.0), likeliest + 1e-9 * points, points)
    return Rates.of((value, *ends), confidence, {NO_EVENTS: n == 0.0})


@dataclass(frozen=True, eq=False)
class BatchVerdict:
    """Which batches of one size are called shifted."""

    size: int
    evidence: Floats
    """What an event of each bin adds."""
    threshold: Threshold

    @classmethod
    def choose(cls, calibrated: Calibrated, size: int) -> BatchVerdict:
        """The cut of best TPR + TNR; kinds of shift weigh the same."""
        rng, evidence = np.random.default_rng(0), calibrated.log_ratio
        clean, shifted = (
            rng.multinomial(size, shares, DRAWS) @ evidence / size
            for shares in (calibrated.clean_shares, calibrated.shifted_shares)
        )
        return cls(size, evidence, at_balanced_accuracy(clean, shifted))

    def alarmed(self, counts: ArrayLike) -> Bools:
        """Which batches (events by bin in the last axis) are called shifted; an empty one is not."""
        table = np.asarray(counts, dtype=np.float64)
        n = table.sum(axis=-1)
        score = table @ self.evidence / np.maximum(n, 1.0)
        result: Bools = self.threshold.verdict(score) & (n > 0.0)
        return result

    def verdicts(self, table: Floats) -> Floats:
        """By window, the batches that are cleared and alarmed; one without events is neither."""
        alarmed, some = self.alarmed(table), table.sum(axis=-1) > 0.0
        return verdict_counts(alarmed.sum(axis=-1), some.sum(axis=-1))

    def counted(self, calibrated: Calibrated) -> Calibrated:
        """Batches cleared and alarmed by kind: as many as the rows fill, shares by drawing many."""
        rng, rows = np.random.default_rng([0, 1]), [calibrated.clean, *calibrated.shifted]
        table = []
        for kind, row in zip(("clean", *calibrated.kinds), rows, strict=True):
            batches = row.sum() / self.size
            if batches < 1.0:
                raise CannotTell(
                    f"the {row.sum():,.0f} calibration rows of {kind} fill no batch of {self.size}"
                )
            share = self.alarmed(rng.multinomial(self.size, row / row.sum(), DRAWS)).mean()
            table.append([(1.0 - share) * batches, share * batches])
        return Calibrated(np.array(table[0]), np.array(table[1:]), calibrated.kinds)


def uniformity(table: Floats, calibrated: Calibrated) -> Floats:
    """By window, the log-likelihood of uniform batches minus that of mixed ones, at best rates.

    It reads verdicts on single events within each batch, which bunch if all events of a batch are
    shifted or none. Positive speaks for batches that are all clean or all shifted.
    """
    from scipy.special import logsumexp

    signs = calibrated.log_ratio > 0.0
    rows = [
        np.stack([r[..., ~signs].sum(axis=-1), r[..., signs].sum(axis=-1)], axis=-1)
        for r in (calibrated.clean, calibrated.shifted)
    ]
    single = Calibrated(rows[0], rows[1], calibrated.kinds)
    single.check_verdicts()
    k, n = table[..., signs].sum(axis=-1), table.sum(axis=-1)
    rate = np.linspace(0.0, 1.0, CELLS + 1)[:, None]
    fpr, tpr = float(single.clean_shares[1]), float(single.shifted_shares[1])
    clean, shifted = (k * np.log(t) + (n - k) * np.log1p(-t) for t in (fpr, tpr))
    with np.errstate(divide="ignore"):
        sides = np.log(rate) + shifted[..., None, :], np.log1p(-rate) + clean[..., None, :]
    uniform = np.asarray(logsumexp(np.stack(sides), axis=0)).sum(axis=-1).max(axis=-1)
    chance = tpr * rate[:, 0] + fpr * (1.0 - rate[:, 0])
    total, events = k.sum(axis=-1)[..., None], n.sum(axis=-1)[..., None]
    mixed = (total * np.log(chance) + (events - total) * np.log1p(-chance)).max(axis=-1)
    return np.asarray(uniform - mixed)


def _size(table: Floats) -> int:
    return int(table.sum(axis=-1).max(initial=1.0))


def _alarm_curve(
    verdict: BatchVerdict, clean: Floats, shifted: Floats, batches: int, rng: np.random.Generator
) -> Floats:
    """The share of mixed batches that alarm, rate by rate; what falls between rates is chance."""
    rate = np.linspace(0.0, 1.0, POINTS)[:, None]
    mixed = grid.normalised(rate * shifted + (1.0 - rate) * clean)
    drawn = rng.multinomial(verdict.size, mixed[:, None, :], (POINTS, batches))
    alarmed = verdict.alarmed(drawn).sum(axis=1)
    result: Floats = np.maximum.accumulate((alarmed + 0.5) / (batches + 1.0))
    return result
