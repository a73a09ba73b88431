"""Losses in classes, for those who read a risk: outcomes by what they cost, and cases by the loss that their score lets expect.

The second are the leaves that seed 003 leaves as future work (section 6): of a case the score is seen and the loss is not, but
cases of one score lose about as much on average. Together the classes of either cost what the tree does.

>>> from roadworthy.analysis.risk.prototypes import POLYP_COSTS, POLYP_PARAMETERS, detector_tree
>>> tree, known = detector_tree(POLYP_COSTS), {**POLYP_PARAMETERS, "p_shift": 0.3}
>>> [(c.low, c.high, round(c.probability, 3), round(c.adds), len(c.leaves)) for c in outcome_classes(tree, known, [1000, 5000])]
[(-inf, 1000.0, 0.348, 221, 2), (1000.0, 5000.0, 0.61, 1185, 4), (5000.0, inf, 0.042, 285, 2)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .loss_bins import LossTree, loss_tree
from .nodes import Tree
from .prototypes import LIVE_PARAMETERS
from .tree import evaluate, expectation

if TYPE_CHECKING:
    from .assessed import Rows

Floats = NDArray[np.float64]
MOST_CELLS, LEAST_CASES = 20, 30
"""Score bins that cases fall into, and cases of each: fewer say little of what such a case loses."""
RIGHT, ALARM = (1.0, 1.0, 0.0, 0.0), (0.0, 1.0, 0.0, 1.0)
"""Of the four cells of `Rows`."""


@dataclass(frozen=True)
class LossClass:
    """Cases whose expected loss lies in a range: how many they are, what one costs, and what they add to the expected cost."""

    low: float
    high: float
    """An end that is open is infinite."""
    probability: float
    expected_loss: float
    adds: float
    leaves: tuple[tuple[str, ...], ...] = ()
    """Paths and outcomes that end here."""
    wrong: float | None = None
    """Of cases by score: the share of wrong answers."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an open end is null."""
        content = {"low": self.low, "high": self.high}
        shown: dict[str, Any] = {
            name: end if math.isfinite(end) else None for name, end in content.items()
        }
        shown |= {
            "probability": self.probability,
            "expected_loss": self.expected_loss,
            "adds": self.adds,
        }
        if self.wrong is not None:
            return {**shown, "wrong": self.wrong}
        return {
            **shown,
            "leaves": [{"path": list(path), "outcome": outcome} for *path, outcome in self.leaves],
        }


def outcome_classes(
    tree: Tree, parameters: Mapping[str, float], edges: Sequence[float] = ()
) -> list[LossClass]:
    """The leaves of a tree by their cost, in classes between edges, or in five at most."""
    leaves = evaluate(tree, parameters).leaves
    weights = np.array([leaf.probability for leaf in leaves])
    made = loss_tree(
        np.arange(len(leaves)), [leaf.cost for leaf in leaves], weights=weights, edges=edges
    )
    ends = [
        tuple(
            (*leaf.path, leaf.outcome)
            for leaf, of in zip(leaves, made.bin_of_cell, strict=True)
            if of == b
        )
        for b in range(len(made.names))
    ]
    return [
        LossClass(*figures, leaves=found)
        for figures, found in zip(_figures(made), ends, strict=True)
    ]


def score_classes(
    tree: Tree, parameters: Mapping[str, float], kinds: Sequence[Rows], edges: Sequence[float] = ()
) -> list[LossClass]:
    """Cases by the loss that their score lets expect; none where they are too few to say, or where the tree asks for more than
    whether a case is shifted, detected and answered rightly, so that its cases do not cost what it does."""
    if any(kind.score is None for kind in kinds):
        return []
    score = np.concatenate([np.asarray(kind.score, dtype=np.float64) for kind in kinds])
    weight = np.concatenate(
        [np.full(len(k.wrong), k.probability / max(len(k.wrong), 1)) for k in kinds]
    )
    cost = [_costs(tree, parameters, shifted=at > 0) for at in range(len(kinds))]
    loss = np.concatenate([c[kind.cell] for c, kind in zip(cost, kinds, strict=True)])
    whole = math.isclose(
        float(weight @ loss), float(expectation(tree, parameters)), rel_tol=1e-6, abs_tol=1e-12
    )
    count = min(MOST_CELLS, len(score) // LEAST_CASES)
    if not whole or count < 2 or not weight.sum() > 0.0:
        return []
    cells = _cells(score, count)
    made = loss_tree(cells, loss, weights=weight, edges=edges)
    wrong = np.concatenate([kind.wrong for kind in kinds]).astype(np.float64)
    place = made.bin_of_cell[cells]
    failed = np.bincount(place, weights=wrong * weight) / np.maximum(
        np.bincount(place, weights=weight), 1e-300
    )
    return [
        LossClass(*figures, wrong=float(f))
        for figures, f in zip(_figures(made), failed, strict=True)
    ]


def _figures(made: LossTree) -> list[tuple[float, float, float, float, float]]:
    leaves = evaluate(made.tree, made.values).leaves
    return [
        (low, high, float(leaf.probability), leaf.cost, float(leaf.contribution))
        for (low, high), leaf in zip(made.ranges, leaves, strict=True)
    ]


def _costs(tree: Tree, parameters: Mapping[str, float], *, shifted: bool) -> Floats:
    """What a case costs by its cell: every probability that it decides is what it is."""
    told = {
        "p_shift": np.full(4, float(shifted)),
        "tpr": np.array(ALARM),
        "tnr": 1.0 - np.array(ALARM),
    }
    right = dict.fromkeys((name for name in LIVE_PARAMETERS if name not in told), np.array(RIGHT))
    given = {name: {**told, **right}.get(name, value) for name, value in parameters.items()}
    return np.broadcast_to(np.asarray(expectation(tree, given), dtype=np.float64), (4,))


def _cells(score: Floats, count: int) -> NDArray[np.int64]:
    """Bins of about as many cases each; cases without a score have one of their own."""
    known = np.isfinite(score)
    inner = (
        np.unique(np.quantile(score[known], np.arange(1, count) / count))
        if known.any()
        else np.zeros(0)
    )
    found = np.searchsorted(inner, score, side="right").astype(np.int64)
    found[~known] = len(inner) + 1
    return np.unique(found, return_inverse=True)[1].astype(np.int64)
