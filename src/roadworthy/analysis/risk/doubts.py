"""When a monitor must say that it cannot tell: scores that do not separate, and windows unlike anything that was calibrated.

Scores separate when TPR and TNR of the best cut add up to more than 1 beyond chance (seed 003, section 3.2.1). A window is strange
when no mixture of what was calibrated explains how its events fall into the bins, or when more events than calibration rows
would lead one to expect have a score that no calibration row had.

>>> verdict = Separation(auc=0.52, error=0.03, tpr=0.5, tnr=0.52, cut=3)
>>> verdict.enough, verdict.too_few
(False, False)
>>> Separation(auc=1.0, error=0.17, tpr=1.0, tnr=1.0, cut=3).too_few
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.firm_kinds import firm, firm_rows

Floats = NDArray[np.float64]

STRANGE = 1e-6
"""The p-value below which a window is called unlike anything calibrated: once in a million windows at most by chance."""
UNLIKELY, ROUNDS = 0.01, 300
"""The p-value below which the mixture of kinds that explains a window best is looked for, and for how long."""
BIN_PRIOR = 0.5
MOSTLY, FEWEST = 0.5, 10.0
"""The share of events beyond everything calibrated, of so many events at least, that is strange without a test."""
BEYOND = 3.0
"""Standard errors by which the area under the curve must exceed one half."""


@dataclass(frozen=True)
class Separation:
    """How well the shift score tells shifted (kinds even) from clean rows, and the bin from which on it calls an event shifted."""

    auc: float
    error: float
    tpr: float
    tnr: float
    cut: int

    @property
    def enough(self) -> bool:
        """Whether it separates beyond chance."""
        return self.auc - BEYOND * self.error > 0.5 and self.tpr + self.tnr > 1.0

    @property
    def too_few(self) -> bool:
        """Whether so few rows were counted that it may be anything, from guessing to perfect."""
        return self.auc - BEYOND * self.error <= 0.5 and self.auc + BEYOND * self.error >= 1.0


def separation(calibration: Calibration) -> Separation:
    """From the counts alone; the error is Hanley and McNeil's, with as many shifted rows as tell the mean over kinds equally well,
    and no less than that of scores which tell nothing. Kinds of too few rows are left out."""
    bins = (
        calibration.folded(calibration.table)
        .sum(axis=(1, 3, 4, 5))
        .astype(np.float64)[firm(calibration)]
    )
    shares = bins / np.maximum(bins.sum(axis=1, keepdims=True), 1.0)
    clean, shifted = shares[0], shares[1:].mean(axis=0)
    below = np.concatenate([[0.0], np.cumsum(clean)[:-1]])
    auc = float(shifted @ (below + 0.5 * clean))
    rows = np.maximum(firm_rows(calibration), 1.0)
    n0, n1 = rows[0], (len(rows) - 1) ** 2 / (1.0 / rows[1:]).sum()
    q1, q2 = auc / (2.0 - auc), 2.0 * auc * auc / (1.0 + auc)
    spread = auc * (1.0 - auc) + (n1 - 1.0) * (q1 - auc * auc) + (n0 - 1.0) * (q2 - auc * auc)
    youden = np.cumsum(clean)[:-1] - np.cumsum(shifted)[:-1] if len(clean) > 1 else np.zeros(1)
    cut = int(youden.argmax()) + 1
    # Of scores that tell nothing the area varies by this much, however large it happens to be in few rows.
    by_chance = (n0 + n1 + 1.0) / (12.0 * n0 * n1)
    error = float(np.sqrt(max(spread / (n0 * n1), by_chance)))
    return Separation(auc, error, float(shifted[cut:].sum()), float(clean[:cut].sum()), cut)


def unseparated(separation: Separation) -> str | None:
    """Why nothing can be told by these scores, in words; None where they separate.

    >>> unseparated(Separation(auc=0.52, error=0.03, tpr=0.5, tnr=0.52, cut=3))
    'the scores do not tell shift from none (AUC 0.52 ± 0.09, TPR + TNR = 1.02)'
    """
    if separation.enough:
        return None
    if separation.too_few:
        return (
            "there are too few calibration rows to say whether the scores tell shift from none "
            f"(AUC {separation.auc:.2f} ± {BEYOND * separation.error:.2f})"
        )
    return (
        f"the scores do not tell shift from none (AUC {separation.auc:.2f} ± {BEYOND * separation.error:.2f}, "
        f"TPR + TNR = {separation.tpr + separation.tnr:.2f})"
    )


@dataclass(frozen=True, eq=False)
class Doubts:
    """Of each window: how likely its bins and its unheard-of scores are, if the calibration holds."""

    bins: Floats
    outside: Floats
    share_outside: Floats

    @property
    def p_value(self) -> Floats:
        """Of the stranger of the two, both considered."""
        return np.minimum(1.0, 2.0 * np.minimum(self.bins, self.outside))

    def reasons(self, separation: Separation, n: Floats) -> tuple[str | None, ...]:
        """In words, why a window's figures should not be relied on."""
        return tuple(self._reason(i, separation, float(n[i])) for i in range(len(n)))

    def _reason(self, i: int, separation: Separation, n: float) -> str | None:
        if (reason := unseparated(separation)) is not None:
            return reason
        if n <= 0:
            return "no event with a score has come yet"
        # However alike events are, a window of which most is unheard of is no window of what was calibrated.
        if 2.0 * self.outside[i] < STRANGE or (self.share_outside[i] > MOSTLY and n >= FEWEST):
            return f"{self.share_outside[i]:.0%} of the events have a score that no calibration row had"
        if 2.0 * self.bins[i] < STRANGE:
            return "no mixture of what was calibrated explains how the scores fall"
        return None


def doubts(
    by_shift: Floats,
    outside: Floats,
    log_likelihood: Floats,
    shrink: Floats,
    calibration: Calibration,
) -> Doubts:
    """How strange each window is; `log_likelihood` holds draws x windows x rates."""
    from scipy.special import chdtrc

    n = by_shift.sum(axis=1)
    effective = n * shrink
    shares = by_shift / np.maximum(n, 1e-12)[:, None]
    best = (by_shift * np.log(np.maximum(shares, 1e-300))).sum(axis=1)
    rows = firm_rows(calibration)
    # A window differs from a draw by its own chance, by the draw's, and by that of the calibration rows.
    scale = 2.0 * shrink / (1.0 + 2.0 * effective / max(float(rows.min()), 1.0))
    freedom = max(calibration.shift.bins - 1, 1)
    by_bins = chdtrc(freedom, np.maximum(best - log_likelihood.max(axis=(0, 2)), 0.0) * scale)
    # Draws are few: of many kinds, none may lie near the one of this window.
    again = np.flatnonzero(by_bins < UNLIKELY)
    if len(again):
        gap = np.maximum(best[again] - _mixed(by_shift[again], calibration), 0.0)
        by_bins[again] = np.maximum(by_bins[again], chdtrc(freedom, gap * scale[again]))
    k = np.floor(outside * shrink)
    above = beyond(
        k, np.maximum(np.ceil(effective), k), 2.0 * len(calibration.names), float(rows.min())
    )
    return Doubts(by_bins, above, outside / np.maximum(n, 1e-12))


def _mixed(by_shift: Floats, calibration: Calibration) -> Floats:
    """The log-likelihood of each window under the mixture of calibrated kinds, clean among them, that explains it best (EM)."""
    bins = calibration.folded(calibration.table).sum(axis=(1, 3, 4, 5)) + BIN_PRIOR
    shares = bins / bins.sum(axis=1, keepdims=True)
    n = np.maximum(by_shift.sum(axis=1, keepdims=True), 1e-12)
    weights = np.full((len(by_shift), len(shares)), 1.0 / len(shares))
    for _ in range(ROUNDS):
        weights = weights * ((by_shift / (weights @ shares)) @ shares.T) / n
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    result: Floats = (by_shift * np.log(np.maximum(weights @ shares, 1e-300))).sum(axis=1)
    return result


def beyond(k: Floats, n: Floats, ends: float, rows: float) -> Floats:
    """How likely k or more of n events lie beyond the calibrated rows at one of the ends of the scores.

    The share of events that lies beyond so many ends of so many rows is itself unknown, and Beta(ends, rows + 1 - ends): one
    calibration in a hundred has five times the mean beyond its ends. The number is therefore beta-binomial, here by a sum over
    shares, since windows may be long.
    """
    from scipy.special import bdtrc

    some = np.flatnonzero(k > 0)
    if not len(some):
        return np.ones(len(k))
    above, share = _shares_beyond(min(ends, (rows + 1.0) / 2.0), rows)
    chance = bdtrc(k[some, None] - 1.0, n[some, None].astype(int), share)
    found = np.ones(len(k))
    found[some] = np.minimum(((chance[:, 1:] + chance[:, :-1]) / 2.0) @ np.diff(above), 1.0)
    return found


@lru_cache(maxsize=64)
def _shares_beyond(ends: float, rows: float) -> tuple[Floats, Floats]:
    """Probabilities, and the share of events beyond that is exceeded with each."""
    from scipy.special import betainccinv

    above = np.concatenate([[0.0], np.logspace(-14.0, -1.0, 240), np.linspace(0.1, 1.0, 60)[1:]])
    return above, np.concatenate([[1.0], betainccinv(ends, rows + 1.0 - ends, above[1:])])
