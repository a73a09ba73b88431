"""What a stream costs by its kind and share of shift, and which limit on the cost makes sense.

A stream in which a share of events is of one kind of shift costs the tree's expectation at the
shares that the calibration counted: right answers among clean rows and among those of the kind,
with and without an alarm, as far as the tree asks for them.

>>> from roadworthy.analysis.risk.calibration import fit_calibration
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.analysis.risk.estimator import Estimator
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog", "rain"], 400)
>>> right = np.tile(np.arange(400) % 10, 3) < np.repeat([9, 5, 8], 400)
>>> calibration = fit_calibration({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, right)
>>> estimator = Estimator(calibration, accuracy_tree(), tolerable=0.15)
>>> {kind: round(cost, 3) for kind, cost in costs_of(estimator, 0.3).items()}
{'fog': 0.22, 'rain': 0.13}
>>> refuse_out_of_reach(accuracy_tree(), 15)
Traceback (most recent call last):
ValueError: tolerable must lie between 0 and 1 wrong answers per case, what outcomes cost; found 15
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .calibration import Calibration
from .refusal import rows_by_alarm
from .tree import Tree, expectation

if TYPE_CHECKING:
    from .estimator import Estimator

Floats = NDArray[np.float64]
TINY = 1e-300


def refuse_out_of_reach(tree: Tree, tolerable: float) -> None:
    """Refuse a limit that no event can exceed, or that every event exceeds."""
    least, most = tree.costs
    if not least < tolerable < most:  # nan, too
        raise ValueError(
            f"tolerable must lie between {least:g} and {most:g} {tree.unit}, what outcomes cost; "
            f"found {tolerable:g}"
        )


def costs_of(estimator: Estimator, rate: float) -> dict[str, float]:
    """By kind of shift, what an event costs in a stream with this share of the kind."""
    clean, *shifted = shares_of_kinds(estimator.calibration)
    return {
        kind: cost_at(estimator.tree, estimator.parameters_of(clean, rows, rate))
        for kind, rows in zip(estimator.calibration.kinds[1:], shifted, strict=True)
    }


def cost_at(tree: Tree, parameters: Mapping[str, float]) -> float:
    """What an event costs; a rate of shift is capped at what other events of its node leave."""
    found = expectation(tree, {name: np.array([value]) for name, value in parameters.items()})
    return float(np.ravel(found)[0])


def cells_of_kinds(calibration: Calibration) -> Floats:
    """Where events of clean and of each kind fall: shares of cells."""
    cells = calibration.table.sum(axis=1) + 1e-9
    return np.asarray(cells / cells.sum(axis=1, keepdims=True))


def shares_of_kinds(calibration: Calibration, *, added: float = 0.0) -> Floats:
    """By clean and kind, shares of rows in (right, wrong) x (no alarm, alarm).

    So many right and wrong answers are `added` to the independent rows: what was not seen yet is
    not impossible.
    """
    rows = rows_by_alarm(calibration) * calibration.worth[:, None, None]
    whole = np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY)
    rows += added * rows.sum(axis=1, keepdims=True) / whole
    return np.asarray(rows / np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY))
