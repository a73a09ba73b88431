"""How likely every draw and every rate is, in the light of a window; and what that says of its rate alone.

The weights of draws and rates tell accuracies and costs. A rate is told by looks alone, so that a kind which looks unlike all
others misleads it most: beside the draws, which lie about the calibrated kinds, it asks *strangers* that lie as far from them as a
shift may (`draws.FAR`). Its interval is theirs. Its point is that of a kind like the calibrated ones, nine times in ten, and of a
stranger else: where a window fits a calibrated kind the first tells it, elsewhere the second does. How often strangers come nobody
knows, so that any rate of theirs is as likely as another.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.draws import STRANGER, Draws
from roadworthy.analysis.risk.firm_kinds import firm_rows, rows_at
from roadworthy.analysis.risk.sums import TINY, Window
from roadworthy.analysis.risk.weighted import beta_on

Floats = NDArray[np.float64]

PRIOR = (0.5, 0.5)
"""Jeffreys' prior of the rate: most streams are clean, or shifted, for long. Full windows know no other."""
ENDS = 0.1
"""The probability of no shift at all, and of nothing but shift, beside that prior: both are common; a density leaves them out."""
EVENLY = 0.15
"""How far the point of a rate goes from that prior to an even one, which is what strangers have, where one kind was calibrated:
many others look nearly clean then, and had been told as none at all. The more kinds, the fewer: it is divided by their number.
Chosen on the published scores and those of elsewhere (`studies/runtime-risk`)."""
MOST = 2000.0
"""Events that a window counts for at most: beyond, what is not known about the distributions outweighs chance."""
WORLDS = 200.0
"""Events that tell which draw it is, at most: the kind on the road is none of them, and a long window would choose one anyway."""


class Rates(NamedTuple):
    """How likely each rate is, windows x rates."""

    alike: Floats
    """If the shift is nearly of a kind that was calibrated. How vague a point is these say: strangers make any vague."""
    told: Floats
    """Where the point is read."""
    priced: Floats
    """Where it is read if nothing leans to an even prior: accuracies and costs do not, and what shift costs is split by it."""
    allowed: Floats
    """Where the interval is."""


class LikelyWorlds:
    """What the draws of a calibration say of windows."""

    def __init__(
        self, calibration: Calibration, draws: Draws, rates: Floats, prior: tuple[float, float]
    ) -> None:
        self.draws, self.rates = draws, rates
        mixed, self.clean_share = self.mixture(rates)
        self.log_mixed = np.log(mixed)
        rows = firm_rows(calibration)
        self._rows = rows_at(rates, rows)
        self._log_prior = np.log(beta_on(rates, PRIOR, ends=ENDS))
        self._evenly = EVENLY / (len(rows) - 1)
        self._even = np.log(beta_on(rates, (1.0, 1.0))) - self._log_prior
        self._chosen = (
            None if tuple(prior) == PRIOR else np.log(beta_on(rates, prior)) - self._log_prior
        )

    def mixture(self, rates: Floats) -> tuple[Floats, Floats]:
        """For draws x bins x rates: the probability of a bin, and the share of clean events in it."""
        clean = self.draws.clean[:, :, None] * (1.0 - rates)
        mixed = clean + self.draws.shifted[:, :, None] * rates
        return mixed, clean / mixed

    @cached_property
    def _log_strange(self) -> Floats:
        clean = self.draws.clean[:, :, None] * (1.0 - self.rates)
        found: Floats = np.log(clean + self.draws.strange[:, :, None] * self.rates)
        return found

    def log_likelihood(self, window: Window) -> Floats:
        """Draws x windows x rates."""
        result: Floats = np.matmul(window.by_shift, self.log_mixed)
        return result

    def weights(self, likelihood: Floats, window: Window, shrink: Floats) -> Floats:
        """The weight of every draw and rate, draws x windows x rates; each window's add up to 1."""
        log = self._log_weights(likelihood, window, self._counted(likelihood, window, shrink))
        log -= log.max(axis=0).max(axis=1)[:, None]
        weights = np.exp(log, out=log)
        weights /= weights.sum(axis=(0, 2))[:, None]
        return weights

    def of_rates(self, likelihood: Floats, window: Window, shrink: Floats) -> Rates:
        """How likely each rate is if the shift is nearly of a kind that was calibrated, or a stranger; and if it is one."""
        counted = self._counted(likelihood, window, shrink)
        near = self._log_weights(likelihood, window, counted)
        far = self._log_weights(np.matmul(window.by_shift, self._log_strange), window, counted)
        top = np.maximum(near.max(axis=0).max(axis=1), far.max(axis=0).max(axis=1))[:, None]
        strange = np.exp(far - top).sum(axis=0)
        alike = np.tensordot(self.draws.alike, np.exp(near - top), 1)
        even = (1.0 - self._unfilled(window))[:, None] * self._even
        told = (1.0 - STRANGER) * alike * np.exp(self._evenly * even) + STRANGER * strange * np.exp(
            even
        )
        priced = (1.0 - STRANGER) * alike + STRANGER * strange
        return Rates(
            alike, *(found / found.sum(axis=1, keepdims=True) for found in (told, priced, strange))
        )

    def _counted(self, likelihood: Floats, window: Window, shrink: Floats) -> Floats:
        """The part of each window's events that counts.

        The chance of the calibration's rows weakens what a window says, by as much as they tell at its likeliest rate.
        """
        counted = np.where(window.empty, 0.0, np.minimum(shrink, MOST / np.maximum(window.n, TINY)))
        likeliest = likelihood.max(axis=0).argmax(axis=1)
        result: Floats = counted / (1.0 + counted * window.n / self._rows[likeliest])
        return result

    def _log_weights(self, likelihood: Floats, window: Window, counted: Floats) -> Floats:
        log: Floats = likelihood * counted[:, None] + self._believed(window)
        events = counted * window.n
        if (events > WORLDS).any():
            log -= (log.max(axis=2) * (1.0 - WORLDS / np.maximum(events, WORLDS)))[:, :, None]
        return log

    def _believed(self, window: Window) -> Floats:
        """The logarithm of the prior: of the rates, or windows x rates where one was chosen.

        A prior that was chosen speaks alone of an empty window, and a full one by itself; between them its parameters lie between
        those of the two: exponents of a Beta, so that logarithms are blended.
        """
        if self._chosen is None:
            return self._log_prior
        result: Floats = self._log_prior + self._unfilled(window)[:, None] * self._chosen
        return result

    @staticmethod
    def _unfilled(window: Window) -> Floats:
        """The part of each window that is still the prior's."""
        result: Floats = np.where(window.empty, 1.0, 1.0 - np.asarray(window.filled))
        return result
