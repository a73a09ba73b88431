"""What one event costs, right or wrong, by its verdict: a wrong answer that was handed to a person is not a wrong answer given.

A label says whether an answer was right, and not whether its event was shifted, of which the cost may depend. The tree is read for
clean and for shifted events apart (`Tariff`), with every verdict and outcome as a label says it. How likely a labelled event was
shifted follows by Bayes from the rate of shift, and from how often clean and shifted events of the calibration, kinds even, have
such a verdict *and* such an outcome: of wrong answers far more are shifted than of right ones. Other events of a tree are weighed
alike, by its constants: a wrong answer is the likelier an adversarial one the more of these are wrong.

A price is what such events cost on average, and `Prices.variance` how far single ones lie from it. It is as good as the
calibration: where shifted events of a stream go wrong more or less often than the kinds that were calibrated, or clean ones do,
errors belong to shift more or less often than it says, and no label tells. A tree whose costs do not depend on shift has one price
whatever the rate:

>>> from roadworthy.analysis.risk.prototypes import detector_tree
>>> tree = detector_tree({"right": 0.0, "wrong": 10.0, "necessary": 1.0, "unnecessary": 2.0})
>>> clean, shifted = np.array([[0.76, 0.18], [0.04, 0.02]]), np.array([[0.06, 0.34], [0.04, 0.56]])
>>> tariff(tree, {}, clean, shifted).table(0.3)  # undetected and detected, each wrong and right
array([[10.,  0.],
       [ 1.,  2.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.risk.estimator import TINY
from roadworthy.monitor.events import Floats

if TYPE_CHECKING:
    from roadworthy.analysis.risk.nodes import Tree
    from roadworthy.monitor.bundle import Bundle


ACCURACY = "accuracy"
"""What a tree calls shares of right answers: a label decides all of them, those that are constants too."""
ROUNDING, SPREAD = 1e-12, 1e-7
"""Parts of the dearest cost, and of its square, that are none: `NEVER` leaves so much of what cannot be."""
NEVER = 1e-9
"""What nobody has seen, or a constant calls impossible, is this likely: where a label says so, it was."""


@dataclass(frozen=True, eq=False)
class Prices:
    """What events of one bundle cost at a rate of shift, by verdict and outcome."""

    detected: np.ndarray
    """Of every cell, whether an alarm is raised for its events."""
    table: Floats
    """(undetected, detected) x (wrong, right)."""
    variance: Floats
    """The same of what single events cost, shifted or not."""

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

    @property
    def variances(self) -> Prices:
        """The variance in place of the price."""
        return Prices(self.detected, self.variance, np.zeros_like(self.variance))


@dataclass(frozen=True, eq=False)
class Tariff:
    """What events cost by kind, verdict and outcome: (clean, shifted) x (undetected, detected) x (wrong, right)."""

    costs: Floats
    variance: Floats
    """The same of what single events cost, where other nodes than shift lead to several costs."""
    likely: Floats
    """Of clean and of shifted events, how many have the verdict and the outcome."""
    room: float = 1.0
    """How much shift there can be: what other events leave, where a tree takes one of them alone."""

    @classmethod
    def of(cls, bundle: Bundle) -> Tariff:
        """The tree's, by the calibration's counts."""
        from roadworthy.analysis.risk.kind_costs import constants_of, shares_of_kinds
        from roadworthy.analysis.risk.prototypes import asks_for_alarms

        clean, *shifted = shares_of_kinds(bundle.calibration, added=0.5)
        constants, both = constants_of(bundle.estimator), [clean, np.mean(shifted, axis=0)]
        if _room(bundle.tree, constants) < 1.0 and not asks_for_alarms(bundle.tree):
            # What alarms other events raise nobody knows: where none is asked for, outcomes alone are weighed.
            both = [np.repeat(some.mean(axis=1, keepdims=True), 2, axis=1) for some in both]
        return tariff(bundle.tree, constants, *both)

    @property
    def settled(self) -> bool:
        """Whether verdict and outcome settle what an event costs."""
        return np.array_equal(*self.costs) and not self.variance.any()

    def shifted(self, rate: float) -> Floats:
        """How likely a labelled event was shifted, by verdict and outcome."""
        rate = min(rate / max(self.room, TINY), 1.0)
        clean, shifted = (1.0 - rate) * self.likely[0], rate * self.likely[1]
        result: Floats = shifted / np.maximum(clean + shifted, TINY)
        return result

    def table(self, rate: float) -> Floats:
        """What events cost at a rate of shift, by verdict and outcome."""
        clean, shifted = self.costs
        result: Floats = clean + self.shifted(rate) * (shifted - clean)
        return result

    def prices(self, bundle: Bundle, rate: float) -> Prices:
        """The same for the bundle's events."""
        from roadworthy.analysis.risk.alarmed_cells import alarmed_cells

        share, apart = self.shifted(rate), self.costs[1] - self.costs[0]
        within = self.variance[0] + share * (self.variance[1] - self.variance[0])
        return Prices(
            alarmed_cells(bundle.calibration),
            self.table(rate),
            within + share * (1.0 - share) * apart**2,
        )


def tariff(tree: Tree, constants: Mapping[str, float], clean: Floats, shifted: Floats) -> Tariff:
    """A tree's, where clean and shifted events have these shares of (right, wrong) x (no alarm, alarm)."""
    from roadworthy.analysis.risk.nodes import nodes
    from roadworthy.analysis.risk.tree import evaluate

    # kinds x verdicts x (wrong, right)
    seen = np.stack([clean, shifted]).transpose(0, 2, 1)[..., ::-1] + NEVER
    answers = seen / seen.sum(axis=2, keepdims=True)
    decided = {path: {b.name: _right(b.p) for b in node.branches} for path, node in nodes(tree)}
    decided = {path: names for path, names in decided.items() if any(names.values())}
    likely, costs, squares = np.zeros((3, 2, 2, 2))
    for leaf in evaluate(tree, _parameters(tree, constants, answers[..., 1])).leaves:
        found = [
            decided[leaf.path[:at]][name]
            for at, name in enumerate(leaf.path)
            if leaf.path[:at] in decided
        ]
        for right in (0, 1):
            # An outcome of which nobody asked whether the answer was right is as likely whether it was or not.
            part = leaf.probability * (
                answers[..., right] if not found else float(found[0] == right)
            )
            likely[..., right] += part
            costs[..., right] += part * leaf.cost
            squares[..., right] += part * leaf.cost**2
    costs, squares = (summed / np.maximum(likely, TINY) for summed in (costs, squares))
    dearest = np.abs(tree.costs).max()
    alike = np.abs(costs[1] - costs[0]) <= ROUNDING * dearest
    costs[1] = np.where(alike, costs[0], costs[1])
    variance = np.where(squares - costs**2 > SPREAD * dearest**2, squares - costs**2, 0.0)
    return Tariff(costs, variance, likely * seen.sum(axis=2, keepdims=True), _room(tree, constants))


def _room(tree: Tree, constants: Mapping[str, float]) -> float:
    """The share that other events leave to shift, where they stand beside it."""
    from roadworthy.analysis.risk.nodes import nodes

    beside = [
        [b.p for b in node.branches]
        for _, node in nodes(tree)
        if any(b.p == "p_shift" for b in node.branches)
    ]
    taken = (
        sum(float(constants.get(p, 0.0) if isinstance(p, str) else p or 0.0) for p in ps)
        for ps in beside
    )
    return 1.0 - max(taken, default=0.0)


def _parameters(tree: Tree, constants: Mapping[str, float], right: Floats) -> dict[str, ArrayLike]:
    """Of clean and of shifted events, undetected and detected, of which such shares are right."""
    known: dict[str, ArrayLike] = {
        "p_shift": [[0.0], [1.0]],
        "tpr": [[0.0, 1.0]],
        "tnr": [[1.0, 0.0]],
        **constants,
    }
    for kind, of_kind in zip(("clean", "shifted"), right, strict=True):
        known |= {
            f"{ACCURACY}_{kind}{verdict}": of_kind[None, :]
            for verdict in ("", "_detected", "_undetected")
        }
    return {
        name: np.clip(known[name], NEVER, 1.0 - NEVER) if _right(name) else known[name]
        for name in tree.parameters
    }


def _right(p: str | float | None) -> bool:
    return isinstance(p, str) and p.startswith(ACCURACY)
