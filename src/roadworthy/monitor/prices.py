"""What one event costs, right or wrong, by its verdict: a wrong answer that was handed to a person is not a wrong answer given.

The tree is read with every probability that a label decides set to what it says: detected or not, right or wrong. Whether it was
shifted stays a probability, by the rate of shift and the verdict (Bayes); what else the tree asks for are its constants.

>>> from roadworthy.analysis.risk.prototypes import detector_tree
>>> tree = detector_tree({"right": 0.0, "wrong": 10.0, "necessary": 1.0, "unnecessary": 2.0})
>>> priced(tree, {}, rate=0.3, tpr=0.9, tnr=0.8)  # undetected and detected, each wrong and right
array([[10.,  0.],
       [ 1.,  2.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.nodes import Tree
    from roadworthy.monitor.bundle import Bundle


ACCURACY = "accuracy"
"""What a tree calls shares of right answers: a label decides all of them, those that are constants too."""


@dataclass(frozen=True, eq=False)
class Prices:
    """What events of one bundle cost at a rate of shift, by verdict and outcome."""

    detected: np.ndarray
    """Of every cell, whether an alarm is raised for its events."""
    table: Floats
    """(undetected, detected) x (wrong, right)."""

    @classmethod
    def of(cls, bundle: Bundle, rate: float) -> Prices:
        """The tree's."""
        from roadworthy.analysis.risk.alarmed_cells import alarm_rates, alarmed_cells

        tpr, tnr = alarm_rates(bundle.calibration)
        constants = {
            name: value[0] / value[1] if isinstance(value, tuple) else float(value)
            for name, value in bundle.constants.items()
        }
        table = priced(bundle.tree, constants, rate=rate, tpr=tpr, tnr=tnr)
        return cls(alarmed_cells(bundle.calibration), table)

    def at(self, cells: np.ndarray) -> Floats:
        """Events x (wrong, right). One without a score raised no alarm of its own: its answer was given."""
        detected = (cells >= 0) & self.detected[np.maximum(cells, 0)]
        result: Floats = self.table[detected.astype(np.intp)]
        return result

    @property
    def span(self) -> tuple[float, float]:
        """The lowest, and how far the highest lies above it."""
        lowest = float(self.table.min())
        return lowest, float(self.table.max()) - lowest

    def share(self, cells: np.ndarray, right: np.ndarray) -> Floats:
        """Where between lowest and highest lies what events cost that are right with these probabilities, or are right or not."""
        lowest, span = self.span
        wrong, answered = self.at(cells).T
        result: Floats = (wrong + right * (answered - wrong) - lowest) / (span or 1.0)
        return result


def priced(tree: Tree, constants: Mapping[str, Any], *, rate: float, tpr: float, tnr: float) -> Floats:
    """(undetected, detected) x (wrong, right)."""
    from roadworthy.analysis.risk.tree import expectation

    table = np.empty((2, 2))
    for detected in (0, 1):
        shifted, clean = (
            (rate * tpr, (1.0 - rate) * (1.0 - tnr)) if detected else (rate * (1.0 - tpr), (1.0 - rate) * tnr)
        )
        share = shifted / (shifted + clean) if shifted + clean > 0.0 else rate
        known = {"p_shift": share, "tpr": float(detected), "tnr": 1.0 - detected, **constants}
        known = {name: value for name, value in known.items() if not name.startswith(ACCURACY)}
        for right in (0, 1):
            given = {name: np.array([known.get(name, float(right))]) for name in tree.parameters}
            table[detected, right] = float(np.asarray(expectation(tree, given)).ravel()[0])
    return table
