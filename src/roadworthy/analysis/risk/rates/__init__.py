"""The rate of shift without labels, from verdicts or score bins and how they fell in calibration.

Every estimator takes counts of one window or of many and gives `Rates` (Torpmann-Hagen et al. 2025,
section 3.2.1): a value and an interval for each window. If no rate can be estimated,
`CannotTell` says why. A verdict is a score in two bins: cleared and alarmed. Kinds of shift weigh
the same, whatever their number of rows. A kind k is placed by its tilt: q_k is proportional to
q exp(theta_k l), where q is the mean over kinds and l = log(q / clean). Intervals are for a new
kind, a draw of theta.

>>> from roadworthy.analysis.risk.rates.rogan_gladen import rogan_gladen
>>> one = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})
>>> one.fpr, one.tpr, one.spread, round(one.tpr_variance**0.5, 3)
(0.1, 0.8, 0.22, 0.128)
>>> windows = rogan_gladen(alarm_counts(alarms=[5, 45, 90], n=100), one)
>>> windows.value.round(3).tolist(), windows.outside.tolist()
([0.0, 0.5, 1.0], [True, False, True])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SPREAD = 0.22
"""Standard deviation of the tilt of a new kind if one kind is known: chosen on the paper's published
scores, where 0.15 to 0.25 differ little in error, and less covers unseen kinds too seldom."""
BIN_PRIOR = 1.0
"""Rows added to every bin. With the half row of Jeffreys a bin that few clean rows reached by chance
speaks too loudly for shift: intervals at a rate of zero miss it in 7% of windows instead of 4%."""


class CannotTell(ValueError):
    """No rate can be estimated from this calibration, whatever the stream is."""


@dataclass(frozen=True, eq=False)
class Rates:
    """The rate of shift in each window."""

    value: Floats
    low: Floats
    high: Floats
    confidence: float
    outside: Bools | bool = False
    """Where the share of alarms is outside [FPR, TPR], so that the value is 0 or 1 or uncorrected."""

    @classmethod
    def of(
        cls, ends: Iterable[ArrayLike], confidence: float, *, outside: Bools | bool = False
    ) -> Rates:
        """From value, low and high, clipped to [0, 1] and the value within its interval."""
        point, least, most = (np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0) for x in ends)
        low, high = np.minimum(least, point), np.maximum(most, point)
        return cls(point, low, high, float(confidence), outside)


def alarm_counts(alarms: ArrayLike, n: ArrayLike) -> Floats:
    """Counts of windows x (cleared, alarmed), from alarms and events of the windows."""
    k, size = np.broadcast_arrays(np.asarray(alarms, np.float64), np.asarray(n, np.float64))
    return np.stack([size - k, k], axis=-1)


def alarms_and_events(counts: ArrayLike) -> tuple[Floats, Floats]:
    """Alarms and events of the windows, from those cleared and alarmed in the last axis."""
    table = np.asarray(counts, dtype=np.float64)
    return table[..., 1], table.sum(axis=-1)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Calibration rows by score bin (or verdict: cleared, alarmed), clean and of each kind."""

    clean: Floats
    shifted: Floats
    """Kinds x bins."""
    kinds: tuple[str, ...] = ("shifted",)

    @classmethod
    def from_table(cls, rows: Mapping[str, ArrayLike]) -> Calibrated:
        """From rows by bin of "clean" and of every kind."""
        table = {kind: np.asarray(counts, dtype=np.float64) for kind, counts in rows.items()}
        clean = table.pop("clean")
        return cls(clean, np.array(list(table.values())), tuple(table))

    @property
    def fpr(self) -> float:
        """Share of clean rows in the last bin: for verdicts, false alarms."""
        return float(self.clean[-1] / self.clean.sum())

    @property
    def tpr(self) -> float:
        """Share of shifted rows in the last bin, kinds even: for verdicts, shifts detected."""
        return float(np.mean(self.shifted[:, -1] / self.shifted.sum(axis=1)))

    @cached_property
    def clean_shares(self) -> Floats:
        """The share of clean cases in each bin, none of them zero."""
        return _shares(self.clean)

    @cached_property
    def shifted_shares(self) -> Floats:
        """The share of shifted cases in each bin, none of them zero; mean over the kinds."""
        return np.asarray(_shares(self.shifted).mean(axis=0))

    @cached_property
    def log_ratio(self) -> Floats:
        """By bin, log(shifted / clean): the direction in which kinds of shift differ."""
        return np.log(self.shifted_shares / self.clean_shares)

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the tilt of a new kind.

        Its variance is that of the calibrated kinds less what sampling explains, times 1 + 1/K
        since their mean is uncertain too, with one more kind at the default `SPREAD`.
        """
        q, ratio = self.shifted_shares, self.log_ratio
        variance = float(q @ (ratio - q @ ratio) ** 2)
        if len(self.kinds) == 1 or variance == 0.0:
            return SPREAD
        tilts = (_shares(self.shifted) - q) @ ratio / variance
        chance = float(np.mean(1.0 / (self.shifted.sum(axis=1) * variance)))
        between = max(float(np.var(tilts, ddof=1)) - chance, 0.0) * (1.0 + 1.0 / len(tilts))
        total = SPREAD**2 + (len(tilts) - 1) * between
        return min(math.sqrt(total / len(tilts)), 1.0)

    def draw_shares(
        self, draws: int, seed: int, *, added: float = BIN_PRIOR
    ) -> tuple[Floats, Floats]:
        """Draws of how clean events, and events of a new kind of shift, fall into the bins."""
        from scipy.special import ndtri, stdtrit

        rng = np.random.default_rng(seed)
        clean = rng.dirichlet(self.clean + added, draws)
        shifted = np.mean([rng.dirichlet(rows + added, draws) for rows in self.shifted], axis=0)
        # One tilt in each of equally likely parts: a hundred then say what a thousand independent
        # ones do. Student's if few kinds had to tell the spread.
        level, known = (np.arange(draws) + 0.5) / draws, len(self.kinds)
        part = ndtri(level) if known == 1 else stdtrit(known + 1.0, level)
        tilts = rng.permutation(self.spread * np.asarray(part))
        moved = shifted * np.exp(tilts[:, None] * self.log_ratio)
        moved /= moved.sum(axis=1, keepdims=True)
        return np.maximum(clean, 1e-12), np.maximum(moved, 1e-12)

    @property
    def tpr_variance(self) -> float:
        """Of the true-positive rate of a new kind of shift."""
        seen = sum(share_variance(rows) for rows in self.shifted) / len(self.kinds) ** 2
        alarmed = float(self.shifted_shares[1])
        ratio = float(self.log_ratio[1] - self.log_ratio[0])
        return float(seen + (self.spread * ratio * alarmed * (1.0 - alarmed)) ** 2)

    def check_verdicts(self) -> None:
        """Refuse a detector that says nothing of shift."""
        # The rows that are added to every bin may turn the order round if there are few.
        gain = min(self.tpr - self.fpr, float(self.shifted_shares[1] - self.clean_shares[1]))
        if gain <= 0.0:
            raise CannotTell(
                f"TPR + TNR = {1.0 + gain:.3f} <= 1: shifted cases raise no more alarms than clean "
                "ones, or too few rows say so"
            )


def _shares(rows: Floats) -> Floats:
    smooth = rows + BIN_PRIOR
    return np.asarray(smooth / smooth.sum(axis=-1, keepdims=True))


def share_variance(rows: Floats) -> float:
    """Of the share in the second of two bins, by its Beta posterior: not zero if none was seen."""
    b, a = rows + BIN_PRIOR
    return float(a * b / ((a + b) ** 2 * (a + b + 1.0)))
