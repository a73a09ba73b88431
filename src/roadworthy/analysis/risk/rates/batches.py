"""The rate of shift from verdicts on whole batches, of 8, 16, 32 or 64 events.

A batch alarms if the mean evidence of its events, log(shifted / clean) of their score bins, is above
the cut of best TPR + TNR between drawn batches (Torpmann-Hagen et al. 2025, section 4.5).
`batch_rate` takes every batch as all clean or all shifted: the batch is the event, and the rate is
Rogan-Gladen's over batches. `mixed_batch_rate` takes every event as clean or shifted by itself: how
often a batch alarms is then not linear in the share of shifted events; it is measured on drawn
batches and read backwards. Verdicts on single events say more than either (appendix A).

>>> calibrated = Calibrated.from_table({"clean": [80, 20], "fog": [30, 70]})
>>> windows = [[[13, 3]] * 9 + [[5, 11]] * 3, [[10, 6]] * 12]  # 12 batches of 16 events each
>>> batch_rate(windows, calibrated).value.round(2).tolist()
[0.25, 0.0]
>>> mixed_batch_rate(windows, calibrated).value.round(1).tolist()
[0.4, 0.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.calibration import at_balanced_accuracy
from roadworthy.registry import register
from roadworthy.statistics.posterior import at_angle, densest

from . import Bools, Calibrated, CannotTell, Floats, Rates, alarm_counts
from .rogan_gladen import rogan_gladen

DRAWS = 2000
"""Batches drawn of each side to choose the cut, and of each kind to count alarms."""
CELLS = 200
POINTS, POSSIBLE, EACH = 21, 40, 200
"""Rates at which the curve of mixed batches is measured, draws of the bins' shares, batches each."""


class _Verdict:
    """Calls batches shifted: those of the size of `counts`, windows x batches x bins."""

    def __init__(self, counts: ArrayLike, calibrated: Calibrated) -> None:
        self.table, self.evidence = np.asarray(counts, np.float64), calibrated.log_ratio
        self.size = int(self.table.sum(axis=-1).max(initial=1.0))
        rng = np.random.default_rng(0)
        clean, shifted = (
            rng.multinomial(self.size, shares, DRAWS) @ self.evidence / self.size
            for shares in (calibrated.clean_shares, calibrated.shifted_shares)
        )
        self.threshold = at_balanced_accuracy(clean, shifted)

    def __call__(self, table: NDArray[Any]) -> Bools:
        """Which batches (events by bin in the last axis) alarm; an empty one does not."""
        n = table.sum(axis=-1)
        score = table @ self.evidence / np.maximum(n, 1.0)
        return np.asarray(self.threshold.verdict(score) & (n > 0.0))

    def alarms(self) -> tuple[Floats, Floats]:
        """By window, the batches that alarm, and those that hold an event."""
        some = (self.table.sum(axis=-1) > 0.0).sum(axis=-1)
        return self(self.table).sum(axis=-1).astype(float), some.astype(float)

    def curve(
        self, clean: Floats, shifted: Floats, batches: int, rng: np.random.Generator
    ) -> Floats:
        """The share of mixed batches that alarm, by rate; what falls between rates is chance."""
        rate = np.linspace(0.0, 1.0, POINTS)[:, None]
        mixed = _normalised(rate * shifted + (1.0 - rate) * clean)
        drawn = rng.multinomial(self.size, mixed[:, None, :], (POINTS, batches))
        return np.maximum.accumulate((self(drawn).sum(axis=1) + 0.5) / (batches + 1.0))


@register("estimators", "batches", reads="batches", title="Rogan-Gladen over batches")
def batch_rate(counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95) -> Rates:
    """Rogan-Gladen over verdicts on batches, each taken as all clean or all shifted."""
    verdict, rng, rows = _Verdict(counts, calibrated), np.random.default_rng([0, 1]), []
    # As many batches as the rows of a kind fill; shares by drawing many.
    for kind, row in zip(
        ("clean", *calibrated.kinds), (calibrated.clean, *calibrated.shifted), strict=True
    ):
        batches = row.sum() / verdict.size
        if batches < 1.0:
            raise CannotTell(
                f"the {row.sum():,.0f} calibration rows of {kind} fill no batch of {verdict.size}"
            )
        share = verdict(rng.multinomial(verdict.size, row / row.sum(), DRAWS)).mean()
        rows.append([(1.0 - share) * batches, share * batches])
    known = Calibrated(np.array(rows[0]), np.array(rows[1:]), calibrated.kinds)
    return rogan_gladen(alarm_counts(*verdict.alarms()), known, confidence=confidence)


@register("estimators", "mixed_batches", reads="batches", title="verdicts on mixed batches")
def mixed_batch_rate(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """The rate at which batches of events that are each clean or shifted alarm as often."""
    verdict, rng = _Verdict(counts, calibrated), np.random.default_rng([0, 2])
    k, n = verdict.alarms()
    sides = calibrated.clean_shares, calibrated.shifted_shares
    likeliest = verdict.curve(*sides, POSSIBLE * EACH // 4, rng)
    possible = zip(*calibrated.draw_shares(POSSIBLE, 0, added=0.5), strict=True)
    curves = [verdict.curve(*drawn, EACH, rng) for drawn in possible]
    points, middles = np.linspace(0.0, 1.0, POINTS), at_angle((np.arange(CELLS) + 0.5) / CELLS)
    # The interval is that of a posterior averaged over what the bins' shares may be.
    chance = np.stack([np.interp(middles, points, curve) for curve in curves])
    # Windows of as many batches and alarms say the same: each pair is worked out once.
    pairs, which = np.unique(np.stack([k.ravel(), n.ravel()]), axis=1, return_inverse=True)
    log = [a * np.log(chance) + (m - a) * np.log1p(-chance) for a, m in pairs.T]
    mass = _normalised(np.stack([np.exp(one - one.max()).sum(axis=0) for one in log]))
    ends = densest(mass[which.ravel()].reshape(*k.shape, CELLS), confidence)
    # A little slope makes a curve rise even if it is flat.
    value = np.interp(k / np.maximum(n, 1.0), likeliest + 1e-9 * points, points)
    return Rates.of((value, *ends), confidence)


def _normalised(mass: Floats) -> Floats:
    return np.asarray(mass / mass.sum(axis=-1, keepdims=True))
