"""What a stream costs in which a share of events is of one kind of shift, by the calibration's counts.

No alarm is due for a share that is tolerable: one that stays silent about it does what it should, and a longer window makes it
only more silent. What a mixture costs is the tree's expectation at the shares that the calibration counted: of right answers among
clean rows and among those of the kind, with and without an alarm, as far as the tree asks for them.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.analysis.risk.estimator import Estimator
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog", "rain"], 400)
>>> right = np.tile(np.arange(400) % 10, 3) < np.repeat([9, 5, 8], 400)
>>> calibration = calibrate({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, right)
>>> estimator = Estimator(calibration, accuracy_tree(), tolerable=0.15)
>>> {kind: round(cost, 3) for kind, cost in costs_of(estimator, 0.3).items()}
{'fog': 0.22, 'rain': 0.13}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.analysis.risk.nodes import Tree

Floats = NDArray[np.float64]

TINY = 1e-12


def costs_of(estimator: Estimator, rate: float) -> dict[str, float]:
    """What an event costs of a stream in which such a share is of a kind, kind by kind."""
    clean, *shifted = shares_of_kinds(estimator.calibration)
    found = {}
    for kind, rows in zip(estimator.calibration.kinds[1:], shifted, strict=True):
        found[kind] = cost_at(estimator.tree, _given(estimator, _live(clean, rows, rate)))
    return found


def cost_at(tree: Tree, parameters: Mapping[str, float]) -> float:
    """What an event costs; a rate of shift that leaves no room for other events at its node takes theirs in proportion."""
    from roadworthy.analysis.risk.tree import expectation

    found = expectation(tree, {name: np.array([value]) for name, value in parameters.items()})
    return float(np.asarray(found).ravel()[0])


def parameters_at(estimator: Estimator, rate: float, *, added: float = 0.0) -> dict[str, float]:
    """The tree's parameters at a rate of shift, kinds even.

    So many right answers, and as many wrong ones, are `added` to the independent rows of clean and of each kind: what nobody has
    seen yet is not impossible.
    """
    clean, *shifted = shares_of_kinds(estimator.calibration, added=added)
    return _given(estimator, _live(clean, np.mean(shifted, axis=0), rate))


def cells_at(calibration: Calibration, rate: float) -> Floats:
    """Where an event falls at a rate of shift, kinds even."""
    clean, *shifted = cells_of_kinds(calibration)
    result: Floats = rate * np.mean(shifted, axis=0) + (1.0 - rate) * clean
    return result


def cells_of_kinds(calibration: Calibration) -> Floats:
    """Where events of clean and of each kind fall: shares of cells."""
    cells = calibration.table.sum(axis=1) + 1e-9
    shares: Floats = cells / cells.sum(axis=1, keepdims=True)
    return shares


def shares_of_kinds(calibration: Calibration, *, added: float = 0.0) -> Floats:
    """Of the rows of clean and of each kind: shares of (right, wrong) x (no alarm, alarm), with so many of each outcome `added`."""
    from roadworthy.analysis.risk.alarmed_cells import rows_by_alarm

    rows = rows_by_alarm(calibration) * calibration.worth[:, None, None]
    rows += (
        added
        * rows.sum(axis=1, keepdims=True)
        / np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY)
    )
    shares: Floats = rows / np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY)
    return shares


def constants_of(estimator: Estimator) -> dict[str, float]:
    """What a tree asks for that no stream gives; of counts, the mean of what they allow."""
    return {name: float(np.mean(np.asarray(value))) for name, value in estimator.constants.items()}


def _live(clean: Floats, shifted: Floats, rate: float) -> dict[str, float]:
    return {
        "p_shift": float(rate),
        "tpr": _share(shifted[:, 1].sum(), shifted.sum()),
        "tnr": _share(clean[:, 0].sum(), clean.sum()),
        **_accuracies("accuracy_clean", clean),
        **_accuracies("accuracy_shifted", shifted),
    }


def _given(estimator: Estimator, live: dict[str, float]) -> dict[str, float]:
    given = {**constants_of(estimator), **live}
    return {name: given[name] for name in estimator.tree.parameters}


def _accuracies(name: str, rows: Floats) -> dict[str, float]:
    """Shares of right answers of rows (right and wrong, without and with an alarm): of all, and of each."""
    parts = {"": slice(None), "_detected": slice(1, 2), "_undetected": slice(0, 1)}
    return {
        f"{name}{end}": _share(rows[0, some].sum(), rows[:, some].sum())
        for end, some in parts.items()
    }


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0
