"""Rate, accuracy and risk of windows by one of several estimators, from the same counts over cells: what a simulation compares.

`event_tree` is the estimator of this package. The others (`roadworthy list estimators`) read the same cells as verdicts (the shift
score against its best cut), as bins of the shift score or as batches of these, give a rate, and carry it through the tree with the
accuracies and detection rates that were counted in calibration, kinds even; their intervals are those of the rate. Which way round
the score is, and its cut, are chosen on the rows that are counted, so that TPR + TNR > 1 there of any detector: where that is not
beyond chance, none of them tells a rate. `cbpe` reads the classifier's confidence and knows no rate.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted = np.repeat([False, True], 500)
>>> right = rng.random(1000) < np.where(shifted, 0.5, 0.9)
>>> calibration = calibrate({"verdict": shifted}, np.where(shifted, "fog", "clean"), right)
>>> teller = Teller(Estimator(calibration, accuracy_tree()))
>>> cells = calibration.place({"verdict": np.repeat([0.0, 1.0], [80, 20])})
>>> told = teller.tell("rogan_gladen", np.bincount(cells, minlength=calibration.cells)[None])
>>> round(float(told["rate"].value[0]), 2), round(float(told["accuracy"].value[0]), 2)
(0.2, 0.81)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.alarmed_cells import rows_by_alarm
from roadworthy.analysis.risk.confidence import Cbpe
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import refuse_live_constants
from roadworthy.analysis.risk.rates import Calibrated, CannotTell, Rates
from roadworthy.analysis.risk.refusal import unseparated
from roadworthy.analysis.risk.tree import expectation
from roadworthy.analysis.simulation.against_truth import Told
from roadworthy.registry import Component, get

Floats = NDArray[np.float64]

QUANTITIES = ("rate", "accuracy", "risk")
OF_ANOTHER_KIND = {
    "event_tree": "Rate, accuracy and cost by all scores, as a monitor tells them.",
    "cbpe": "The accuracy that confidence means on clean rows, and no rate; reads the score that confidence_from names.",
}
"""Estimators that are more than a rate, or none: they stand beside those of the room `estimators`."""
Carrier = Callable[[Floats], Floats]
WITHIN = 65
"""Rates of an interval, ends included, at which what follows from them is worked out."""


@dataclass(frozen=True, eq=False)
class Teller:
    """Estimators on one calibration and one tree."""

    estimator: Estimator
    confidence: float = 0.95

    def __post_init__(self) -> None:
        refuse_live_constants(self.estimator.constants)

    @property
    def cut(self) -> int:
        """The bin of the shift score from which on a verdict is an alarm."""
        return self.estimator.separation.cut

    @cached_property
    def parameters(self) -> dict[str, float]:
        """What calibration counted: detection rates and accuracies, every kind of shift with the same weight."""
        counts = rows_by_alarm(self.estimator.calibration)
        shares = counts / counts.sum(axis=(1, 2), keepdims=True)
        clean, shifted = shares[0], shares[1:].mean(axis=0)
        found = {"tpr": float(shifted[:, 1].sum()), "tnr": float(clean[:, 0].sum())}
        for name, side in (("clean", clean), ("shifted", shifted)):
            found[f"accuracy_{name}"] = float(side[0].sum())
            for column, verdict in ((1, "detected"), (0, "undetected")):
                found[f"accuracy_{name}_{verdict}"] = float(
                    side[0, column] / max(side[:, column].sum(), 1e-12)
                )
        return found

    def tell(
        self,
        name: str,
        counts: ArrayLike,
        *,
        shrink: ArrayLike = 1.0,
        confidences: tuple[Cbpe, Floats] | None = None,
        batches: ArrayLike | None = None,
    ) -> dict[str, Told]:
        """Rate, accuracy and risk of each window (row of counts); NaN where the estimator cannot tell.

        `shrink` is the effective number of events over the counted one, for each window or for all; `event_tree` alone reads it.
        `batches` are the same events by batch and bin of the shift score (windows x batches x bins), for estimators that judge
        whole batches.
        """
        table = np.asarray(counts, dtype=np.float64)
        if name == "event_tree":
            return self._event_tree(table, shrink)
        if name == "cbpe":
            return self._confidence(table, confidences)
        try:
            rates = self._rates(get("estimators", name), table, batches)
        except CannotTell as error:
            return dict.fromkeys(QUANTITIES, _nothing(len(table), error.reason))
        ends = rates.value, rates.low, rates.high
        return {
            "rate": Told(*ends, flags=rates.flags),
            "accuracy": self._carried(self._accuracy, ends),
            "risk": self._carried(self._risk, ends),
        }

    def _event_tree(self, table: Floats, shrink: ArrayLike) -> dict[str, Told]:
        found = self.estimator.estimate(table, shrink=shrink, confidence=self.confidence)
        known = np.array([reason is None for reason in found.cannot_tell])
        reason = unseparated(self.estimator.separation)
        return {
            name: Told(
                *(
                    np.where(known, getattr(found, name + end), np.nan)
                    for end in ("", "_low", "_high")
                ),
                reason=reason,
            )
            for name in QUANTITIES
        }

    def _rates(self, component: Component, table: Floats, batches: ArrayLike | None) -> Rates:
        """What an estimator says of the windows, as it reads them."""
        if (reason := unseparated(self.estimator.separation)) is not None:
            raise CannotTell(reason)
        bins = self.estimator.calibration.folded(table).sum(axis=(2, 3, 4))
        reads, known = component.traits.get("reads", "bins"), self._bins
        given: ArrayLike = bins
        if reads == "verdicts":
            given = np.stack(
                [bins[:, : self.cut].sum(axis=1), bins[:, self.cut :].sum(axis=1)], axis=1
            )
            known = self._verdicts
        elif reads == "batches":
            if batches is None:
                raise ValueError(
                    f"{component.name} judges whole batches, and was not given the events by batch"
                )
            given = batches
        rates: Rates = component.build(given, known, confidence=self.confidence)
        return rates

    @cached_property
    def _bins(self) -> Calibrated:
        calibration = self.estimator.calibration
        rows = calibration.folded(calibration.table).sum(axis=(1, 3, 4, 5))
        if rows.shape[1] < 2:
            raise CannotTell(
                "all calibrated scores lie in one bin, so that clean and shifted rows look the same"
            )
        return Calibrated.from_table(dict(zip(calibration.kinds, rows, strict=True)))

    @cached_property
    def _verdicts(self) -> Calibrated:
        bins = self._bins
        rows = dict(zip(("clean", *bins.kinds), (bins.clean, *bins.shifted), strict=True))
        return Calibrated.from_table(
            {k: [r[: self.cut].sum(), r[self.cut :].sum()] for k, r in rows.items()}
        )

    def _accuracy(self, rate: Floats) -> Floats:
        known = self.parameters
        return known["accuracy_clean"] + rate * (
            known["accuracy_shifted"] - known["accuracy_clean"]
        )

    def _risk(self, rate: Floats) -> Floats:
        tree = self.estimator.tree
        given: dict[str, ArrayLike] = {**self.parameters, **self._constants, "p_shift": rate}
        found = expectation(tree, {name: given[name] for name in tree.parameters})
        return np.broadcast_to(np.asarray(found, dtype=np.float64), rate.shape)

    @cached_property
    def _constants(self) -> dict[str, float]:
        """The tree's constants as numbers: what is only known by counts has its mean."""
        return {
            name: float(np.mean(np.asarray(value)))
            for name, value in self.estimator.constants.items()
        }

    @staticmethod
    def _carried(through: Carrier, ends: tuple[Floats, Floats, Floats]) -> Told:
        """A rate with its interval, taken through a function that may rise and fall between the ends."""
        rate, low, high = ends
        within = low + (high - low) * np.linspace(0.0, 1.0, WITHIN)[:, None]
        value, there = through(rate), through(within)
        return Told(
            value, np.minimum(value, there.min(axis=0)), np.maximum(value, there.max(axis=0))
        )

    def _confidence(
        self, table: Floats, confidences: tuple[Cbpe, Floats] | None
    ) -> dict[str, Told]:
        if confidences is None:
            raise ValueError(
                "cbpe needs the confidence of every event, window by window, and what was fitted to it"
            )
        model, values = confidences
        accuracy = np.asarray(model.estimate(values), dtype=np.float64)
        nothing = _nothing(len(table))
        plain = {"p_shift", "accuracy_clean", "accuracy_shifted", *self.estimator.constants}
        risk = nothing
        if set(self.estimator.tree.parameters) <= plain:
            same: dict[str, ArrayLike] = {
                **self._constants,
                "p_shift": 0.0,
                "accuracy_clean": accuracy,
                "accuracy_shifted": accuracy,
            }
            risk = Told(
                expectation(
                    self.estimator.tree, {n: same[n] for n in self.estimator.tree.parameters}
                )
            )
        return {"rate": nothing, "accuracy": Told(accuracy), "risk": risk}


def _nothing(windows: int, reason: str | None = None) -> Told:
    return Told(np.full(windows, np.nan), reason=reason)
