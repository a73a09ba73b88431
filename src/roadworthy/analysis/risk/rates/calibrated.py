"""How verdicts or score bins fell in calibration, by kind of shift, and how far a new kind may lie from those seen.

A verdict is a score in two bins: cleared and alarmed. Kinds weigh the same, whatever their number of rows, which is an accident
of collecting. A kind k is placed by its tilt: q_k is proportional to q exp(theta_k l), where q is the mean over kinds and
l = log(q / clean); to first order theta_k = sum_b (q_kb - q_b) l_b / Var_q(l). A new kind is a draw of theta. Its variance is that
of the calibrated kinds less what sampling explains, times 1 + 1/K since their mean is uncertain too; one more kind, at the default
`SPREAD`, keeps a few kinds that happen to agree from promising too much, and stands alone where there is only one. With two bins
theta is a multiple of the difference in TPR, so that the Beta is matched to the spread of the kinds by moments (FIELD.md, 2).

``kinds="new"`` (the default everywhere) speaks of a draw of theta: of a kind never seen, and of any one of those calibrated.
``kinds="seen"`` speaks of streams whose shifted events are the calibrated kinds in even parts, and of nothing else: where only one
of several kinds streams, its intervals miss the rate often (TPRs of 0.6 and 0.95: half of the time), and a flag says so.

>>> one = Calibrated.from_table({"clean": [180, 20], "fog": [40, 160]})
>>> one.fpr, one.tpr, round(one.spread, 2), round(one.tpr_variance("seen") ** 0.5, 3), round(one.tpr_variance("new") ** 0.5, 3)
(0.1, 0.8, 0.22, 0.028, 0.128)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.counts import Counts

from .answer import CannotTell

Floats = NDArray[np.float64]
Kinds = Literal["new", "seen"]
"""Of which shift an interval speaks: of a kind like those calibrated, or of all of these in even parts."""

SPREAD = 0.22
"""Standard deviation of the tilt of a new kind, where one kind is known: chosen on the published scores of seed 003, where 0.15
to 0.25 differ little in error, and less covers unseen kinds too seldom."""
BIN_PRIOR = 1.0
"""A row added to every bin. With the half row of Jeffreys a bin that few clean rows reached by chance speaks too loudly for shift,
and intervals at a rate of zero miss it in 7% of windows instead of 4%."""


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Calibration rows by score bin (or verdict: cleared, alarmed), of clean cases and of each kind of shift."""

    clean: Floats
    """Rows by bin."""
    shifted: Floats
    """Rows by kind and bin."""
    kinds: tuple[str, ...] = ("shifted",)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bins = self.clean.shape[-1]
        if self.clean.ndim != 1 or bins < 2 or self.shifted.shape != (len(self.kinds), bins):
            raise ValueError(
                f"rows must be counted in two bins or more, the same for clean cases and every kind of {self.kinds}; "
                f"found shapes {self.clean.shape} and {self.shifted.shape}"
            )
        for table in (self.clean, self.shifted):
            if not np.isfinite(table).all() or (table < 0.0).any():
                raise ValueError(
                    "calibration counts must be finite and not negative; check how they were counted"
                )
        if not self.clean.sum() > 0.0:
            raise CannotTell(
                "no clean calibration rows: nothing says how often an unshifted case alarms"
            )
        if not len(self.kinds) or not (self.shifted.sum(axis=1) > 0.0).all():
            raise CannotTell(
                "no calibration rows of any shift: nothing says how often a shifted case alarms"
            )

    @classmethod
    def from_table(cls, rows: Mapping[str, ArrayLike], *, clean: str = "clean") -> Calibrated:
        """From rows by bin of every kind; kinds without rows are left out, and noted."""
        table = {kind: np.asarray(counts, dtype=np.float64) for kind, counts in rows.items()}
        if clean not in table:
            raise CannotTell(
                f"no clean calibration rows: expected a kind called {clean!r} among {sorted(table)}"
            )
        kinds = tuple(
            kind for kind, counts in table.items() if kind != clean and counts.sum() > 0.0
        )
        if not kinds:
            raise CannotTell(
                "no calibration rows of any shift: nothing says how often a shifted case alarms"
            )
        empty = [kind for kind in table if kind not in kinds and kind != clean]
        notes = tuple(f"{kind} has no calibration rows and is left out" for kind in empty)
        return cls(table[clean], np.stack([table[kind] for kind in kinds]), kinds, notes)

    @classmethod
    def from_counts(cls, counts: Counts, *, clean: str = "clean") -> Calibrated:
        """From the counts of an assessment, right and wrong answers together."""
        return cls.from_table(
            dict(zip(counts.kinds, counts.table.sum(axis=1), strict=True)), clean=clean
        )

    @property
    def bins(self) -> int:
        """How many bins there are; two for verdicts."""
        return len(self.clean)

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
    def kind_shares(self) -> Floats:
        """The share of each kind's cases in each bin, none of them zero."""
        return _shares(self.shifted)

    @cached_property
    def shifted_shares(self) -> Floats:
        """The mean of `kind_shares` over the kinds."""
        result: Floats = self.kind_shares.mean(axis=0)
        return result

    @cached_property
    def log_ratio(self) -> Floats:
        """By bin, log(shifted / clean): the direction in which kinds of shift differ."""
        result: Floats = np.log(self.shifted_shares / self.clean_shares)
        return result

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the tilt of a new kind."""
        q, ratio = self.shifted_shares, self.log_ratio
        variance = float(q @ (ratio - q @ ratio) ** 2)
        if len(self.kinds) == 1 or variance == 0.0:
            return SPREAD
        tilts = (self.kind_shares - q) @ ratio / variance
        chance = float(np.mean(1.0 / (self.shifted.sum(axis=1) * variance)))
        between = max(float(np.var(tilts, ddof=1)) - chance, 0.0) * (1.0 + 1.0 / len(tilts))
        return min(math.sqrt((SPREAD**2 + (len(tilts) - 1) * between) / len(tilts)), 1.0)

    def tilts(self, count: int) -> Floats:
        """So many equally likely tilts of a new kind, in order.

        Normal where one kind is known and the spread is the default; Student's where few kinds had to tell the spread.
        """
        from scipy.special import ndtri, stdtrit

        level = (np.arange(count) + 0.5) / count
        known = len(self.kinds)
        return self.spread * np.asarray(ndtri(level) if known == 1 else stdtrit(known + 1.0, level))

    def tilted(self, tilts: Floats, shares: Floats) -> Floats:
        """Shares in the bins moved along the log ratio, one row for each tilt; positive is farther from clean."""
        moved = shares * np.exp(tilts[:, None] * self.log_ratio)
        result: Floats = moved / moved.sum(axis=1, keepdims=True)
        return result

    @property
    def fpr_variance(self) -> float:
        """Of the false-positive rate, by its Beta posterior: not zero where no alarm was seen."""
        return _variance(self.clean)

    def tpr_variance(self, kinds: Kinds = "new") -> float:
        """Of the true-positive rate: of the even mixture of the kinds seen, or of a new one."""
        self.check_verdicts()
        seen = sum(_variance(rows) for rows in self.shifted) / len(self.kinds) ** 2
        if kinds == "seen":
            return float(seen)
        alarmed = float(self.shifted_shares[1])
        moved = (
            self.spread * float(self.log_ratio[1] - self.log_ratio[0]) * alarmed * (1.0 - alarmed)
        )
        return float(seen + moved**2)

    def check_verdicts(self) -> None:
        """Refuse bins where verdicts are needed, and a detector that says nothing of shift."""
        if self.bins != 2:
            raise ValueError(
                f"this estimator reads verdicts, two bins (cleared, alarmed), found {self.bins} bins"
            )
        if self.tpr - self.fpr <= 0.0:
            raise CannotTell(
                f"TPR + TNR = {self.tpr + 1.0 - self.fpr:.3f} <= 1: shifted cases alarm no more often than clean ones"
            )
        # What the estimators read: of few rows the added one may turn the order round, and rates would fall with alarms.
        smooth = float(self.shifted_shares[1] - self.clean_shares[1])
        if smooth <= 0.0:
            raise CannotTell(
                f"TPR + TNR = {smooth + 1.0:.3f} <= 1 with the row that is added to every bin: too few rows say that "
                "shifted cases alarm more often than clean ones"
            )

    def mixture(self, kinds: Kinds) -> bool:
        """Whether what is said holds of several kinds in even parts, and not of each."""
        return kinds == "seen" and len(self.kinds) > 1

    def weak(self, kinds: Kinds = "new") -> bool:
        """Whether TPR + TNR <= 1 lies within the one-sided 95% bound."""
        deviation = math.sqrt(self.tpr_variance(kinds) + self.fpr_variance)
        return self.tpr - self.fpr <= 1.6449 * deviation

    @cached_property
    def alike(self) -> bool:
        """Whether clean and shifted rows could have fallen into the bins alike (G test at 5%)."""
        from scipy.special import chdtrc, xlogy

        rows = np.stack([self.clean, self.shifted.sum(axis=0)])
        expected = rows.sum(axis=1, keepdims=True) * rows.sum(axis=0) / rows.sum()
        used = int((rows.sum(axis=0) > 0.0).sum())
        statistic = 2.0 * float((xlogy(rows, rows) - xlogy(rows, expected)).sum())
        return used < 2 or bool(chdtrc(used - 1, max(statistic, 0.0)) > 0.05)


def check_kinds(kinds: str) -> None:
    """Refuse what is neither."""
    if kinds not in ("new", "seen"):
        raise ValueError(f"kinds must be 'new' or 'seen', found {kinds!r}")


def spoken_of(kinds: Kinds) -> str:
    """The shift of which an interval speaks, in the words of a method."""
    return (
        "shift of a new kind" if kinds == "new" else "shift of the calibrated kinds in even parts"
    )


def _shares(rows: Floats) -> Floats:
    smooth = rows + BIN_PRIOR
    result: Floats = smooth / smooth.sum(axis=-1, keepdims=True)
    return result


def _variance(rows: Floats) -> float:
    """Of the share in the second of two bins, by its Beta posterior."""
    b, a = rows + BIN_PRIOR
    return float(a * b / ((a + b) ** 2 * (a + b + 1.0)))
