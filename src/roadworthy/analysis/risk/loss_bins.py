"""Trees whose leaves are bins of expected loss instead of right and wrong answers.

The loss of a case is unknown in operation, but cases of one score lose about as much on average:
cells of the score with similar mean loss make a bin, and the bin costs the mean loss of its rows
(Torpmann-Hagen et al. 2025, section 6, leave this as future work). `outcome_classes` and
`score_classes` are the tables of a report: outcomes by their cost, and cases by the loss that their
score lets expect; the classes of either cost together what the tree does.

>>> from roadworthy.analysis.risk.tree import expectation
>>> made = loss_tree([0, 0, 1, 1], [0.0, 0.2, 1.0, 0.6], bins=2)
>>> made.tree.parameters, made.values
(('loss_bin_1',), {'loss_bin_1': 0.5})
>>> round(expectation(made.tree, made.values), 3)
0.45
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .tree import LIVE_PARAMETERS, Branch, Leaf, Node, Tree, evaluate, expectation

if TYPE_CHECKING:
    from .expected_cost import CountedCases

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_CELLS, LEAST_CASES = 20, 30
"""Score cells that cases fall into, and cases of each: fewer say little about their loss."""


@dataclass(frozen=True, eq=False)
class LossTree:
    """A tree over bins of expected loss, lowest first."""

    tree: Tree
    values: Mapping[str, float]
    """The tree's parameters on the calibration rows."""
    bin_of_cell: Ints
    ranges: tuple[tuple[float, float], ...]
    """Expected losses of each bin: from edge to edge if edges were given, an open end infinite."""


def loss_tree(
    cells: ArrayLike,
    losses: ArrayLike,
    *,
    bins: int = 5,
    edges: Sequence[float] = (),
    weights: ArrayLike | None = None,
    unit: str = "loss per case",
) -> LossTree:
    """The tree of calibration rows, given the cell (0, 1, …, none empty) and the loss of each.

    Its expectation on these rows is their mean loss. Bins hold about as many rows each, or lie
    between rising `edges`; `weights` are how much rows count.
    """
    cell, loss = np.asarray(cells, dtype=np.int64), np.asarray(losses, dtype=np.float64)
    weight = np.ones(len(loss)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(cell) == len(loss) == len(weight) > 0 or not np.isfinite(loss).all():
        raise ValueError("every row needs a cell, a finite loss and a weight")
    if not (np.diff(edges) > 0.0).all():
        raise ValueError(f"edges must rise, such as 100, 1000; found {list(edges)}")
    means = _means(cell, loss, weight)
    # Cells that expect the same loss stay together: they share a level.
    levels, level_of = np.unique(means, return_inverse=True)
    if len(edges):
        places = np.searchsorted(edges, levels, side="right")
        ends = [-math.inf, *map(float, edges), math.inf]
        ranges = [(ends[place], ends[place + 1]) for place in np.unique(places)]
    else:
        each = np.bincount(level_of, weights=np.bincount(cell, weights=weight))
        middle = (np.cumsum(each) - each / 2) / each.sum()
        even = np.minimum((middle * bins).astype(np.int64), bins - 1)
        places = even if len(levels) > bins else np.arange(len(levels))
        members = [levels[places == place] for place in np.unique(places)]
        ranges = [(float(b.min()), float(b.max())) for b in members]
    bin_of_cell = np.unique(places, return_inverse=True)[1][level_of].astype(np.int64)
    bin_of_row, last = bin_of_cell[cell], len(ranges) - 1
    costs = _means(bin_of_row, loss, weight).tolist()
    shares = np.bincount(bin_of_row, weights=weight) / weight.sum()
    values = {f"loss_bin_{i + 1}": float(share) for i, share in enumerate(shares[:last])}
    probabilities = [*values, None]
    branches = tuple(
        Branch(f"bin {i + 1}", probabilities[i], Leaf(f"expected loss {i + 1}", cost))
        for i, cost in enumerate(costs)
    )
    return LossTree(Tree(Node("expected loss", branches), unit), values, bin_of_cell, tuple(ranges))


def _means(place: Ints, loss: Floats, weight: Floats) -> Floats:
    """The mean loss of each place; if its rows all weigh nothing, as if they weighed alike."""
    weight = np.where(np.bincount(place, weights=weight)[place] > 0.0, weight, 1.0)
    means = np.bincount(place, weights=loss * weight) / np.bincount(place, weights=weight)
    # Rows of equal loss have that mean to the last digit: cells are told apart by their means.
    least, most = np.full(len(means), np.inf), np.full(len(means), -np.inf)
    np.minimum.at(least, place, loss)
    np.maximum.at(most, place, loss)
    return np.clip(means, least, most)


@dataclass(frozen=True)
class LossClass:
    """Cases whose expected loss lies in a range; an end that is open is infinite."""

    low: float
    high: float
    probability: float
    expected_loss: float
    adds: float
    """To the expected cost."""
    leaves: tuple[tuple[str, ...], ...] = ()
    """For classes of outcomes: paths and outcomes that end here."""
    wrong: float | None = None
    """For classes of scores: the share of wrong answers."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an open end is null."""
        shown = {k: None if v in (math.inf, -math.inf) else v for k, v in vars(self).items()}
        shown["leaves"] = [{"path": list(path), "outcome": end} for *path, end in self.leaves]
        del shown["leaves" if self.wrong is not None else "wrong"]
        return shown


def outcome_classes(
    tree: Tree, parameters: Mapping[str, float], edges: Sequence[float] = ()
) -> list[LossClass]:
    """The leaves of a tree by their cost, in classes between edges, or in five at most."""
    leaves = evaluate(tree, parameters).leaves
    weights, costs = [leaf.probability for leaf in leaves], [leaf.cost for leaf in leaves]
    made = loss_tree(np.arange(len(leaves)), costs, weights=weights, edges=edges)
    ends: list[list[tuple[str, ...]]] = [[] for _ in made.ranges]
    for leaf, place in zip(leaves, made.bin_of_cell, strict=True):
        ends[place].append((*leaf.path, leaf.outcome))
    return [LossClass(*f, leaves=tuple(e)) for f, e in zip(_figures(made), ends, strict=True)]


def score_classes(
    tree: Tree,
    parameters: Mapping[str, float],
    kinds: Sequence[CountedCases],
    edges: Sequence[float] = (),
) -> list[LossClass]:
    """Test cases by the loss that their score lets expect; none if scores or cases are too few.

    `kinds` are clean cases and those of each circumstance. There are no classes either if cases,
    weighted by how often their circumstance occurs, do not cost what the tree expects.
    """
    scores = [k.score for k in kinds if k.score is not None]
    if len(scores) < len(kinds):
        return []
    score, wrong = np.concatenate(scores), np.concatenate([k.wrong for k in kinds])
    weight = np.repeat(
        [k.probability / max(len(k.wrong), 1) for k in kinds], [len(k.wrong) for k in kinds]
    )
    loss = np.concatenate(
        [_costs(tree, parameters, shifted=at > 0)[kind.cell] for at, kind in enumerate(kinds)]
    )
    expected = float(expectation(tree, parameters))
    whole = math.isclose(float(weight @ loss), expected, rel_tol=1e-6, abs_tol=1e-12)
    count, known = min(MOST_CELLS, len(score) // LEAST_CASES), np.isfinite(score)
    if not whole or count < 2 or not weight.sum() > 0.0:
        return []
    # Cells of about as many cases each; cases without a score have one of their own.
    inner = np.quantile(score[known], np.arange(1, count) / count) if known.any() else np.zeros(0)
    cells = np.where(known, np.searchsorted(inner, score, side="right"), count)
    cells = np.unique(cells, return_inverse=True)[1]
    made = loss_tree(cells, loss, weights=weight, edges=edges)
    failed = _means(made.bin_of_cell[cells], wrong.astype(np.float64), weight).tolist()
    return [LossClass(*f, wrong=share) for f, share in zip(_figures(made), failed, strict=True)]


def _figures(made: LossTree) -> list[tuple[float, float, float, float, float]]:
    leaves = evaluate(made.tree, made.values).leaves
    return [
        (low, high, float(leaf.probability), leaf.cost, float(leaf.contribution))
        for (low, high), leaf in zip(made.ranges, leaves, strict=True)
    ]


def _costs(tree: Tree, parameters: Mapping[str, float], *, shifted: bool) -> Floats:
    """What a case costs by its cell (`CountedCases.cell`): live probabilities are then 0 or 1."""
    alarm, right = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0])
    decided = {
        **dict.fromkeys(LIVE_PARAMETERS, right),
        "p_shift": np.full(4, float(shifted)),
        "tpr": alarm,
        "tnr": 1.0 - alarm,
    }
    given = {name: decided.get(name, value) for name, value in parameters.items()}
    return np.broadcast_to(np.asarray(expectation(tree, given), dtype=np.float64), (4,))
