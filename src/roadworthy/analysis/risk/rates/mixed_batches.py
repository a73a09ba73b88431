"""The rate of shift from verdicts on batches whose events are clean or shifted each by itself.

How often such a batch alarms is not linear in the share of shifted events: `AlarmCurve` measures it on batches drawn from the
calibrated bins, and the window's alarms are read off it backwards. The interval is that of a posterior averaged over what the bins'
shares may be, a new kind of shift among it. Curves are steep around one rate and flat elsewhere, the more so the larger the batch:
there a verdict says little, and the interval is wide. Verdicts on single events say more (seed 003, appendix A).

>>> calibrated = Calibrated.from_table({"clean": [700, 300], "fog": [300, 700]})
>>> curve = AlarmCurve.measure(calibrated, size=16)
>>> windows = curve.rate([5, 50, 95], 100)
>>> windows.value.round(1).tolist(), bool((windows.low < windows.value).all())
([0.1, 0.6, 1.0], True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import register
from roadworthy.statistics.arguments import check_confidence

from . import cells_of_rate
from .answer import ALIKE, NO_EVENTS, Floats, Rates, answered, bin_counts, window_counts
from .batch_verdicts import BatchVerdict
from .bins import BinPosterior
from .calibrated import Calibrated, Kinds, spoken_of

CELLS = 200
POINTS = 21
"""Rates at which a curve is measured."""


@register("estimators", "mixed_batches", reads="batches", title="verdicts on mixed batches")
def by_mixed_batches(
    counts: ArrayLike, calibrated: Calibrated, *, confidence: float = 0.95
) -> Rates:
    """The rate at which batches of events that are clean or shifted each by itself alarm as often as they do."""
    table = bin_counts(counts, calibrated.bins)
    n = table.sum(axis=-1)
    curve = AlarmCurve.measure(calibrated, size=int(n.max(initial=1.0)))
    alarmed, batches = curve.verdict.alarmed(table).sum(axis=-1), (n > 0.0).sum(axis=-1)
    return curve.rate(alarmed, batches, confidence=confidence)


@dataclass(frozen=True, eq=False)
class AlarmCurve:
    """How often a batch alarms, by the share of shifted events from which its rows are drawn."""

    verdict: BatchVerdict
    chance: Floats
    """Of an alarm, at rates from 0 to 1."""
    possible: Floats
    """The same for every draw of what the bins' shares may be."""
    method: str
    alike: bool = False

    @classmethod
    def measure(
        cls,
        calibrated: Calibrated,
        *,
        size: int,
        kinds: Kinds = "new",
        draws: int = 40,
        batches: int = 200,
        seed: int = 0,
    ) -> AlarmCurve:
        """Draw so many mixed batches at every rate, for every draw of the shares, and count how many alarm."""
        verdict = BatchVerdict.choose(calibrated, size, seed=seed)
        possible = BinPosterior.build(calibrated, kinds=kinds, draws=draws, seed=seed)
        rng = np.random.default_rng([seed, 2])
        likeliest = _curve(
            verdict, calibrated.clean_shares, calibrated.shifted_shares, draws * batches // 4, rng
        )
        sides = zip(possible.clean, possible.shifted, strict=True)
        curves = np.stack(
            [_curve(verdict, clean, shifted, batches, rng) for clean, shifted in sides]
        )
        method = f"alarm curve of mixed batches of {size}; credible interval, {spoken_of(kinds)}"
        return cls(verdict, likeliest, curves, method, calibrated.alike)

    def rate(
        self,
        alarmed: ArrayLike,
        batches: ArrayLike,
        *,
        prior: tuple[ArrayLike, ArrayLike] = cells_of_rate.JEFFREYS,
        confidence: float = 0.95,
    ) -> Rates:
        """The share of shifted events at which mixed batches alarm so often; the interval is the densest of its posterior."""
        check_confidence(confidence)
        k, n = window_counts(alarmed, batches)
        # Windows of as many batches and alarms say the same: each pair is worked out once.
        pairs, which = np.unique(np.stack([k.ravel(), n.ravel()]), axis=1, return_inverse=True)
        middles, points = cells_of_rate.middles(CELLS), np.linspace(0.0, 1.0, POINTS)
        chance = np.stack([np.interp(middles, points, curve) for curve in self.possible])
        likelihood = np.stack([_likelihood(chance, *pair) for pair in pairs.T])[
            which.ravel()
        ].reshape(*k.shape, CELLS)
        mass = cells_of_rate.normalised(likelihood * cells_of_rate.prior_mass(prior, CELLS))
        low, high = cells_of_rate.densest(mass, confidence)
        flags = {NO_EVENTS: n == 0.0, ALIKE: np.full(n.shape, self.alike)}
        value = np.interp(
            k / np.maximum(n, 1.0), self.chance + 1e-9 * points, points
        )  # where it is flat, too, it rises
        return answered((value, low, high), confidence, self.method, flags)


def _curve(
    verdict: BatchVerdict, clean: Floats, shifted: Floats, batches: int, rng: np.random.Generator
) -> Floats:
    """The share of mixed batches that alarm, rate by rate; more shift makes no fewer alarms, and what falls is chance."""
    rate = np.linspace(0.0, 1.0, POINTS)[:, None]
    mixed = rate * shifted + (1.0 - rate) * clean
    drawn = rng.multinomial(
        verdict.size, (mixed / mixed.sum(axis=1, keepdims=True))[:, None, :], (POINTS, batches)
    )
    alarmed = verdict.alarmed(drawn).sum(axis=1)
    result: Floats = np.maximum.accumulate((alarmed + 0.5) / (batches + 1.0))
    return result


def _likelihood(chance: Floats, k: float, n: float) -> Floats:
    """By cell of the rate, summed over the draws."""
    log = k * np.log(chance) + (n - k) * np.log1p(-chance)
    result: Floats = np.exp(log - log.max()).sum(axis=0)
    return result
