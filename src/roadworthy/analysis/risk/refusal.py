"""How well scores separate shifted from clean events, and when there is no estimate.

Scores separate if TPR and TNR of the best cut add up to more than 1 beyond chance (Torpmann-Hagen
et al. 2025, section 3.2.1). A window is strange if no mixture of what was calibrated explains how
its events fall into the bins (chi-square), or if more events than calibration rows lead one to
expect have a score that no calibration row had.

An event raises an alarm if the deployed supervisor does; if the calibration knows none, if its shift
score is at or above the cut that separates best: what a fail-safe could be.

>>> from roadworthy.analysis.risk.calibration import fit_calibration
>>> from roadworthy.analysis.risk.placement import Deployed
>>> kind, right = np.repeat(["clean", "fog"], 200), np.tile([True, True, True, False], 100)
>>> scores = np.concatenate([np.arange(200.0), np.arange(100.0, 300.0)])
>>> calibration = fit_calibration({"knn": scores}, kind, right, deployed=Deployed("knn", 179.0))
>>> shares_of_kinds(calibration).sum(axis=1).tolist()
[[0.9, 0.1], [0.4, 0.6]]
>>> separation(calibration).enough, round(separation(calibration).auc, 2)
(True, 0.87)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration, of_firm_kinds

Floats = NDArray[np.float64]

STRANGE = 1e-6
"""The p-value below which a window is unlike anything calibrated."""
UNLIKELY, ROUNDS = 0.01, 300
"""The p-value below which the best mixture of several kinds is looked for, and for how long."""
MOSTLY, FEWEST = 0.5, 10.0
"""The share of events beyond everything calibrated, of so many at least, that needs no test."""
BEYOND = 3.0
"""Standard errors by which the area under the curve must exceed one half."""
TINY = 1e-300


@dataclass(frozen=True)
class Separation:
    """How well the shift score tells shifted rows (kinds even) from clean ones."""

    auc: float
    error: float
    tpr: float
    tnr: float
    cut: int
    """The bin from which on an event is called shifted."""

    @property
    def enough(self) -> bool:
        """Whether it separates beyond chance."""
        return self.auc - BEYOND * self.error > 0.5 and self.tpr + self.tnr > 1.0

    @property
    def too_few(self) -> bool:
        """Whether there are so few rows that it may be anything, from guessing to perfect."""
        return self.auc - BEYOND * self.error <= 0.5 and self.auc + BEYOND * self.error >= 1.0


def separation(calibration: Calibration) -> Separation:
    """From the counts alone, with Hanley and McNeil's error of the area, kinds even.

    The error is no less than that of scores which separate nothing.
    """
    calibration = of_firm_kinds(calibration)
    bins = calibration.by_bin(calibration.table.sum(axis=1))
    shares = bins / np.maximum(bins.sum(axis=1, keepdims=True), 1.0)
    clean, shifted = shares[0], shares[1:].mean(axis=0)
    below = np.concatenate([[0.0], np.cumsum(clean)[:-1]])
    auc = float(shifted @ (below + 0.5 * clean))
    rows = np.maximum(calibration.effective, 1.0)
    n0, n1 = rows[0], (len(rows) - 1) ** 2 / (1.0 / rows[1:]).sum()
    q1, q2 = auc / (2.0 - auc), 2.0 * auc * auc / (1.0 + auc)
    spread = auc * (1.0 - auc) + (n1 - 1.0) * (q1 - auc * auc) + (n0 - 1.0) * (q2 - auc * auc)
    youden = np.cumsum(clean)[:-1] - np.cumsum(shifted)[:-1] if len(clean) > 1 else np.zeros(1)
    cut = int(youden.argmax()) + 1
    by_chance = (n0 + n1 + 1.0) / (12.0 * n0 * n1)
    error = float(np.sqrt(max(spread / (n0 * n1), by_chance)))
    return Separation(auc, error, float(shifted[cut:].sum()), float(clean[:cut].sum()), cut)


def alarmed_cells(calibration: Calibration) -> NDArray[np.bool_]:
    """By cell, whether its events raise an alarm."""
    shift, clean, _, _ = np.unravel_index(np.arange(calibration.cells), calibration.shape)
    if calibration.deployed is None:
        return np.asarray(shift >= separation(calibration).cut)
    return np.asarray(clean >= calibration.shape[1] // 2)


def shares_of_kinds(calibration: Calibration, *, added: float = 0.0) -> Floats:
    """By clean and kind, shares of rows in (right, wrong) x (no alarm, alarm).

    So many right and wrong answers are `added` to the independent rows: what was not seen yet is
    not impossible.
    """
    on = alarmed_cells(calibration)
    sides = [calibration.table[..., side].sum(axis=2) for side in (~on, on)]
    rows = np.stack(sides, axis=2) * calibration.worth[:, None, None]
    whole = np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY)
    rows += added * rows.sum(axis=1, keepdims=True) / whole
    return np.asarray(rows / np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY))


def unseparated(separation: Separation) -> str | None:
    """Why these scores allow no estimate; None if they do."""
    if separation.enough:
        return None
    auc = f"AUC {separation.auc:.2f} ± {BEYOND * separation.error:.2f}"
    if separation.too_few:
        return f"too few calibration rows to say whether the scores separate anything ({auc})"
    both = f"TPR + TNR = {separation.tpr + separation.tnr:.2f}"
    return f"the scores do not separate shifted from clean cases ({auc}, {both})"


class Refusal:
    """Tells strange windows; `bins` are the histograms of the shift score, clean first."""

    def __init__(self, calibration: Calibration, found: Separation, bins: Floats) -> None:
        from scipy.special import betainccinv

        self._bins = bins
        self._unseparated = unseparated(found)
        self._rows = max(float(calibration.effective.min()), 1.0)
        # The share of events beyond so many ends of so many rows is Beta(ends, rows + 1 - ends).
        ends = min(2.0 * len(calibration.names), (self._rows + 1.0) / 2.0)
        self._above = np.concatenate([np.logspace(-14.0, -1.0, 240), np.linspace(0.1, 1.0, 60)[1:]])
        self._share = betainccinv(ends, self._rows + 1.0 - ends, self._above)

    def of(
        self, by_bin: Floats, outside: Floats, likelihood: Floats, shrink: Floats
    ) -> tuple[Floats, tuple[str | None, ...]]:
        """How strange windows are (a p-value), and why there is no estimate of them.

        `outside` are events beyond the calibrated range, `likelihood` is the log-likelihood of each
        window under the best point of the grid.
        """
        n = by_bin.sum(axis=1)
        share = outside / np.maximum(n, 1e-12)
        beyond = self._chance_beyond(np.floor(outside * shrink), np.ceil(n * shrink))
        bins = self._misfit(by_bin, likelihood, shrink)
        strange = (beyond < STRANGE / 2.0) | ((share > MOSTLY) & (n >= FEWEST))
        reasons: list[str | None] = [self._unseparated] * len(n)
        for i in range(len(n)) if self._unseparated is None else ():
            if n[i] <= 0:
                reasons[i] = "no event with a score so far"
            elif strange[i]:
                reasons[i] = (
                    f"{share[i]:.1%} of the events have a score outside the calibrated range"
                )
            elif bins[i] < STRANGE / 2.0:
                reasons[i] = "current scores match no calibrated condition"
        return np.minimum(1.0, 2.0 * np.minimum(bins, beyond)), tuple(reasons)

    def _chance_beyond(self, k: Floats, n: Floats) -> Floats:
        """P(k or more of n events beyond the calibrated range): beta-binomial, by a sum."""
        from scipy.special import bdtrc

        found, some = np.ones(len(k)), np.flatnonzero(k > 0)
        if len(some):
            events = np.maximum(n[some], k[some]).astype(int)[:, None]
            chance = bdtrc(k[some, None] - 1.0, events, self._share)
            middle = (chance[:, 1:] + chance[:, :-1]) / 2.0
            found[some] = np.minimum(middle @ np.diff(self._above), 1.0)
        return found

    def _misfit(self, by_bin: Floats, likelihood: Floats, shrink: Floats) -> Floats:
        """The p-value of a likelihood-ratio test of the bins against the best mixture."""
        from scipy.special import chdtrc

        n = by_bin.sum(axis=1)
        shares = by_bin / np.maximum(n, 1e-12)[:, None]
        best = (by_bin * np.log(np.maximum(shares, TINY))).sum(axis=1)
        # A window differs by its own chance, and by that of the rows on both sides of the mixture.
        scale = 2.0 * shrink / (1.0 + 2.0 * n * shrink / self._rows)
        freedom = max(by_bin.shape[1] - 1, 1)
        p = chdtrc(freedom, np.maximum(best - likelihood, 0.0) * scale)
        again = np.flatnonzero(p < UNLIKELY)
        if len(again) and len(self._bins) > 2:
            gap = np.maximum(best[again] - self._mixed(by_bin[again]), 0.0)
            p[again] = np.maximum(p[again], chdtrc(freedom, gap * scale[again]))
        return np.asarray(p)

    def _mixed(self, by_bin: Floats) -> Floats:
        """The log-likelihood of windows under the best mixture of all kinds, clean too (EM)."""
        n = np.maximum(by_bin.sum(axis=1, keepdims=True), 1e-12)
        weights = np.full((len(by_bin), len(self._bins)), 1.0 / len(self._bins))
        for _ in range(ROUNDS):
            weights = weights * ((by_bin / (weights @ self._bins)) @ self._bins.T) / n
            weights /= np.maximum(weights.sum(axis=1, keepdims=True), TINY)
        return np.asarray((by_bin * np.log(np.maximum(weights @ self._bins, TINY))).sum(axis=1))
