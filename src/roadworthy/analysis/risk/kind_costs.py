"""What a stream costs in which a share of events is of one kind of shift, by the calibration's counts.

No alarm is due for a share that is tolerable: one that stays silent about it does what it should, and a longer window makes it
only more silent. What a mixture costs is the tree's expectation at the shares that the calibration counted: of right answers among
clean rows and among those of the kind, with and without an alarm, as far as the tree asks for them.

>>> from roadworthy.analysis.risk.cells import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> from roadworthy.analysis.risk.transfer import Estimator
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog", "rain"], 400)
>>> right = np.tile(np.arange(400) % 10, 3) < np.repeat([9, 5, 8], 400)
>>> calibration = calibrate({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, right)
>>> estimator = Estimator(calibration, accuracy_tree(), tolerable=0.15, draws=8)
>>> {kind: round(cost, 3) for kind, cost in costs_of(estimator, 0.3).items()}
{'fog': 0.22, 'rain': 0.13}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.sums import TINY

if TYPE_CHECKING:
    from roadworthy.analysis.risk.transfer import Estimator

Floats = NDArray[np.float64]


def costs_of(estimator: Estimator, rate: float, *, added: float = 0.0) -> dict[str, float]:
    """What an event costs of a stream in which such a share is of a kind, kind by kind.

    So many right answers, and as many wrong ones, are `added` to the independent rows of clean and of each kind: what nobody has
    seen yet is not impossible.
    """
    from roadworthy.analysis.risk.alarmed_cells import rows_by_alarm
    from roadworthy.analysis.risk.tree import expectation

    calibration = estimator.calibration
    rows = rows_by_alarm(calibration)
    constants = {name: float(np.mean(np.asarray(value))) for name, value in estimator.constants.items()}
    rows = rows * calibration.worth[:, None, None]
    rows += added * rows.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=(1, 2), keepdims=True), TINY)
    found = {}
    for kind, shifted in zip(calibration.kinds[1:], rows[1:], strict=True):
        live = {
            "p_shift": rate,
            "tpr": _share(shifted[:, 1].sum(), shifted.sum()),
            "tnr": _share(rows[0, :, 0].sum(), rows[0].sum()),
            **_accuracies("accuracy_clean", rows[0]),
            **_accuracies("accuracy_shifted", shifted),
        }
        given = {**constants, **live}
        cost = expectation(estimator.tree, {name: np.array([given[name]]) for name in estimator.tree.parameters})
        found[kind] = float(np.asarray(cost).ravel()[0])
    return found


def _accuracies(name: str, rows: Floats) -> dict[str, float]:
    """Shares of right answers of rows (right and wrong, without and with an alarm): of all, and of each."""
    parts = {"": slice(None), "_detected": slice(1, 2), "_undetected": slice(0, 1)}
    return {f"{name}{end}": _share(rows[0, some].sum(), rows[:, some].sum()) for end, some in parts.items()}


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0
