"""Rate, accuracy and risk of windows by one of several estimators, from the same counts over cells.

`event_tree` is the estimator of this package. The others (`roadworthy list estimators`) read the
same cells as verdicts (the shift score against its best cut), as its bins, or as batches of these,
give a rate, and carry it through the tree with the accuracies and detection rates that were counted
in calibration. `cbpe` reads the classifier's confidence and gives no rate. If the scores separate
shifted from clean rows no better than chance, there is no estimate.

>>> from roadworthy.analysis.risk.calibration import fit_calibration
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([False, True], 500)
>>> right = rng.random(1000) < np.where(shifted, 0.5, 0.9)
>>> calibration = fit_calibration({"verdict": shifted}, np.where(shifted, "fog", "clean"), right)
>>> estimators = Estimators(Estimator(calibration, accuracy_tree()))
>>> cells = calibration.place({"verdict": np.repeat([0.0, 1.0], [80, 20])})
>>> windows = StreamWindows(np.bincount(cells, minlength=calibration.cells)[None])
>>> found = estimators.estimate("rogan_gladen", windows)
>>> round(float(found["rate"].value[0]), 2), round(float(found["accuracy"].value[0]), 2)
(0.2, 0.81)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import live_parameters
from roadworthy.analysis.risk.rates import Calibrated, CannotTell, Rates
from roadworthy.analysis.risk.refusal import shares_of_kinds, unseparated
from roadworthy.analysis.risk.tree import expectation
from roadworthy.registry import get

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
QUANTITIES = ("rate", "accuracy", "risk")
OF_ANOTHER_KIND = {
    "event_tree": "Rate, accuracy and cost from all scores, as the monitor estimates them.",
    "cbpe": "Accuracy from the classifier's confidence (`confidence_from`); no rate.",
}
"""Estimators that give more than a rate, or none: they are no registered components."""


@dataclass(frozen=True, eq=False)
class Estimated:
    """Estimates of windows, NaN if there is none, and their intervals, if any."""

    value: Floats
    low: Floats | None = None
    high: Floats | None = None
    outside: Bools | bool = False
    """In which windows the share of alarms is outside [FPR, TPR]."""
    reason: str | None = None
    """Why there is no estimate for any window."""


@dataclass(frozen=True)
class Cbpe:
    """Confidence-based performance estimation: the mean probability of being right.

    The probability is learned from the confidence on clean rows, by isotonic regression.
    """

    knots: tuple[float, ...]
    """Confidences between which the probability is interpolated."""
    levels: tuple[float, ...]
    """The probability of being right at each knot."""

    @classmethod
    def fit(cls, confidence: ArrayLike, correct: ArrayLike) -> Cbpe:
        """Learn the probability of being right from clean rows."""
        from scipy.optimize import isotonic_regression

        x, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        if x.ndim != 1 or x.shape != right.shape or not len(x) or not np.isfinite(x).all():
            raise ValueError("needs a finite confidence and an outcome a row, and at least one row")
        values, code, weight = np.unique(x, return_inverse=True, return_counts=True)
        means = np.bincount(code.ravel(), weights=right, minlength=len(values)) / weight
        levels = isotonic_regression(means, weights=weight).x
        return cls(tuple(values.tolist()), tuple(levels.tolist()))

    def probability(self, confidence: ArrayLike) -> Floats:
        """Of being right, case by case; NaN without a confidence."""
        return np.interp(np.asarray(confidence, dtype=np.float64), self.knots, self.levels)

    def estimate(self, confidences: ArrayLike) -> Floats:
        """The accuracy to expect of the cases along the last axis; NaN cases are left out."""
        right = self.probability(confidences)
        given = ~np.isnan(right)
        count = given.sum(axis=-1)
        total = np.where(given, right, 0.0).sum(axis=-1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class StreamWindows(NamedTuple):
    """What estimators read of the windows of a stream."""

    counts: NDArray[Any]
    """Windows x cells."""
    shrink: ArrayLike = 1.0
    """Independent events that one counts for; `event_tree` alone reads it."""
    confidences: Floats | None = None
    """Windows x events, for cbpe."""
    batches: NDArray[Any] | None = None
    """Windows x batches x bins of the shift score, for estimators that read batches."""


@dataclass(frozen=True, eq=False)
class Estimators:
    """All estimators on one calibration and one tree."""

    estimator: Estimator
    cbpe: Cbpe | None = None
    confidence: float = 0.95

    @cached_property
    def parameters(self) -> dict[str, float]:
        """Detection rates and accuracies as calibrated, every kind of shift with equal weight."""
        clean, *shifted = shares_of_kinds(self.estimator.calibration)
        return live_parameters(clean, np.mean(shifted, axis=0))

    def estimate(self, name: str, windows: StreamWindows) -> dict[str, Estimated]:
        """Rate, accuracy and risk of each window; NaN if there is no estimate."""
        if name == "event_tree":
            return self._event_tree(windows)
        if name == "cbpe":
            return self._cbpe(windows)
        try:
            rates = self._rates(name, windows)
        except CannotTell as error:
            nothing = np.full(len(windows.counts), np.nan)
            return dict.fromkeys(QUANTITIES, Estimated(nothing, reason=str(error)))
        ends = rates.value, rates.low, rates.high
        return {
            "rate": Estimated(*ends, rates.outside),
            "accuracy": _carried(self._accuracy, *ends),
            "risk": _carried(self._risk, *ends),
        }

    def _event_tree(self, windows: StreamWindows) -> dict[str, Estimated]:
        table = np.asarray(windows.counts, dtype=np.float64)
        found = self.estimator.estimate(table, shrink=windows.shrink, confidence=self.confidence)
        known = np.array([reason is None for reason in found.no_estimate])
        reason = unseparated(self.estimator.separation)

        def column(name: str) -> Floats:
            return np.where(known, getattr(found, name), np.nan)

        return {
            q: Estimated(column(q), column(f"{q}_low"), column(f"{q}_high"), reason=reason)
            for q in QUANTITIES
        }

    def _cbpe(self, windows: StreamWindows) -> dict[str, Estimated]:
        assert self.cbpe is not None and windows.confidences is not None
        accuracy = self.cbpe.estimate(windows.confidences)
        nothing = Estimated(np.full(len(accuracy), np.nan))
        given: dict[str, ArrayLike] = {**self.estimator.constants, "p_shift": 0.0}
        given |= {"accuracy_clean": accuracy, "accuracy_shifted": accuracy}
        tree, risk = self.estimator.tree, nothing
        if set(tree.parameters) <= set(given):
            risk = Estimated(expectation(tree, given))
        return {"rate": nothing, "accuracy": Estimated(accuracy), "risk": risk}

    def _rates(self, name: str, windows: StreamWindows) -> Rates:
        """The rate by a registered estimator, from what it reads."""
        if (reason := unseparated(self.estimator.separation)) is not None:
            raise CannotTell(reason)
        component = get("estimators", name)
        reads, known = component.traits.get("reads", "bins"), self._bins
        given = self.estimator.calibration.by_bin(windows.counts)
        if reads == "verdicts":
            known, given = self._verdicts, self._cut(given)
        elif reads == "batches":
            given = np.asarray(windows.batches, dtype=np.float64)
        rates: Rates = component.build(given, known, confidence=self.confidence)
        return rates

    def _cut(self, bins: Floats) -> Floats:
        """Bins of the shift score as verdicts: cleared and alarmed."""
        cut = self.estimator.separation.cut
        return np.stack([bins[..., :cut].sum(axis=-1), bins[..., cut:].sum(axis=-1)], axis=-1)

    @cached_property
    def _bins(self) -> Calibrated:
        calibration = self.estimator.calibration
        rows = calibration.by_bin(calibration.table.sum(axis=1))
        return Calibrated.from_table(dict(zip(calibration.kinds, rows, strict=True)))

    @cached_property
    def _verdicts(self) -> Calibrated:
        return Calibrated(
            self._cut(self._bins.clean), self._cut(self._bins.shifted), self._bins.kinds
        )

    def _accuracy(self, rate: Floats) -> Floats:
        clean, shifted = (self.parameters[f"accuracy_{side}"] for side in ("clean", "shifted"))
        return clean + rate * (shifted - clean)

    def _risk(self, rate: Floats) -> Floats:
        known: dict[str, ArrayLike] = {**self.parameters, **self.estimator.constants}
        known["p_shift"] = rate
        found = np.asarray(expectation(self.estimator.tree, known), dtype=np.float64)
        return np.broadcast_to(found, rate.shape)


def _carried(
    through: Callable[[Floats], Floats], rate: Floats, low: Floats, high: Floats
) -> Estimated:
    """A rate with its interval, taken through a function that rises or falls with it."""
    found = through(rate), through(low), through(high)
    return Estimated(found[0], np.minimum.reduce(found), np.maximum.reduce(found))
