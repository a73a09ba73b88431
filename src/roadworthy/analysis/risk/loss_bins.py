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
>>> round(expectation(made.tree, made.shares([30, 10])), 3)
0.275
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
    from .expected_cost import Rows

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

    def shares(self, counts: ArrayLike) -> dict[str, float]:
        """The tree's parameters for counts of cells seen in operation."""
        seen = np.asarray(counts, dtype=np.float64)
        if seen.shape != self.bin_of_cell.shape or not np.all(seen >= 0.0) or not seen.sum() > 0.0:
            raise ValueError(
                f"expected a count for each of {len(self.bin_of_cell)} cells, not all zero, "
                f"found {counts!r}"
            )
        return _shares(self.bin_of_cell, seen, self.tree.parameters)


def loss_tree(
    cells: ArrayLike,
    losses: ArrayLike,
    *,
    bins: int = 5,
    edges: Sequence[float] = (),
    weights: ArrayLike | None = None,
    unit: str = "loss per case",
) -> LossTree:
    """The tree of calibration rows, given the cell and the loss of each.

    Its expectation on these rows is their mean loss. Bins hold about as many rows each, or lie
    between `edges`; `weights` are how much rows count. A cell without rows is in the highest bin.
    """
    cell, loss = np.asarray(cells), np.asarray(losses, dtype=np.float64)
    weight = np.ones(loss.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    _check_rows(cell, loss, weight)
    bin_of_cell, ranges = _bins(cell.astype(np.int64), loss, weight, bins, _checked_edges(edges))
    place, last = bin_of_cell[cell], len(ranges) - 1
    parameters = tuple(f"loss_bin_{i + 1}" for i in range(last))
    leaves = [
        Leaf(f"expected loss {i + 1}", cost)
        for i, cost in enumerate(_means(place, loss, weight).tolist())
    ]
    branches = tuple(
        Branch(f"bin {i + 1}", parameters[i] if i < last else None, leaf)
        for i, leaf in enumerate(leaves)
    )
    tree = Tree(Node("expected loss", branches), unit)
    return LossTree(tree, _shares(place, weight, parameters), bin_of_cell, tuple(ranges))


def _check_rows(cell: NDArray[Any], loss: Floats, weight: Floats) -> None:
    if cell.ndim != 1 or cell.dtype.kind not in "iu" or not len(cell) or cell.min() < 0:
        raise ValueError("every calibration row needs a cell, a whole number from 0 on")
    if loss.shape != cell.shape or not np.isfinite(loss).all():
        raise ValueError("every calibration row needs a finite loss")
    good = weight.shape == cell.shape and np.isfinite(weight).all() and (weight >= 0.0).all()
    if not good or not weight.sum() > 0.0:
        raise ValueError("every calibration row needs a weight, none below 0 and not all 0")


def _checked_edges(edges: Sequence[float]) -> Floats:
    found = np.asarray(edges, dtype=np.float64)
    if not np.isfinite(found).all() or not (np.diff(found) > 0.0).all():
        raise ValueError(f"edges must rise, such as 100, 1000; found {list(edges)}")
    return found


def _shares(place: Ints, weight: Floats, parameters: tuple[str, ...]) -> dict[str, float]:
    each = np.bincount(place, weights=weight, minlength=len(parameters) + 1)
    return dict(zip(parameters, (each / each.sum())[:-1].tolist(), strict=True))


def _means(place: Ints, loss: Floats, weight: Floats) -> Floats:
    """The mean loss of each place; if its rows all weigh nothing, as if they weighed alike."""
    weighed, rows = np.bincount(place, weights=weight), np.bincount(place)
    plain = np.bincount(place, weights=loss) / np.maximum(rows, 1)
    sums = np.bincount(place, weights=loss * weight)
    means = np.where(weighed > 0.0, sums / np.where(weighed > 0.0, weighed, 1.0), plain)
    # Rows of equal loss have that mean to the last digit: cells are told apart by their means.
    least, most = np.full(len(means), np.inf), np.full(len(means), -np.inf)
    np.minimum.at(least, place, loss)
    np.maximum.at(most, place, loss)
    return np.where(rows > 0, np.clip(means, least, np.maximum(least, most)), 0.0)


def _bins(
    cell: Ints, loss: Floats, weight: Floats, bins: int, edges: Floats
) -> tuple[Ints, list[tuple[float, float]]]:
    """The bin of every cell, and the range of expected losses in every bin, in rising order."""
    seen = np.bincount(cell) > 0
    # Cells that expect the same loss stay together: they share a level.
    levels, level_of = np.unique(_means(cell, loss, weight)[seen], return_inverse=True)
    if len(edges):
        held, bin_of_level = np.unique(
            np.searchsorted(edges, levels, side="right"), return_inverse=True
        )
        ends = np.concatenate([[-np.inf], edges, [np.inf]])
        ranges = [(float(ends[c]), float(ends[c + 1])) for c in held]
    else:
        bin_of_level = np.arange(len(levels))
        if len(levels) > bins:
            each = np.bincount(level_of, weights=np.bincount(cell, weights=weight)[seen])
            middle = (np.cumsum(each) - each / 2) / each.sum()
            even = np.minimum((middle * bins).astype(np.int64), bins - 1)
            bin_of_level = np.unique(even, return_inverse=True)[1]
        members = [levels[bin_of_level == b] for b in range(int(bin_of_level.max()) + 1)]
        ranges = [(float(b.min()), float(b.max())) for b in members]
    bin_of_cell = np.full(len(seen), bin_of_level.max(), dtype=np.int64)
    bin_of_cell[seen] = bin_of_level[level_of]
    return bin_of_cell, ranges


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
        shown: dict[str, Any] = {
            "low": self.low if math.isfinite(self.low) else None,
            "high": self.high if math.isfinite(self.high) else None,
            "probability": self.probability,
            "expected_loss": self.expected_loss,
            "adds": self.adds,
        }
        if self.wrong is not None:
            return {**shown, "wrong": self.wrong}
        ends = [{"path": list(path), "outcome": outcome} for *path, outcome in self.leaves]
        return {**shown, "leaves": ends}


def outcome_classes(
    tree: Tree, parameters: Mapping[str, float], edges: Sequence[float] = ()
) -> list[LossClass]:
    """The leaves of a tree by their cost, in classes between edges, or in five at most."""
    leaves = evaluate(tree, parameters).leaves
    weights, costs = [leaf.probability for leaf in leaves], [leaf.cost for leaf in leaves]
    made = loss_tree(np.arange(len(leaves)), costs, weights=weights, edges=edges)
    ends: list[list[tuple[str, ...]]] = [[] for _ in made.ranges]
    for leaf, place in zip(leaves, made.bin_of_cell.tolist(), strict=True):
        ends[place].append((*leaf.path, leaf.outcome))
    return [
        LossClass(*figures, leaves=tuple(here))
        for figures, here in zip(_figures(made), ends, strict=True)
    ]


def score_classes(
    tree: Tree, parameters: Mapping[str, float], kinds: Sequence[Rows], edges: Sequence[float] = ()
) -> list[LossClass]:
    """Cases by the loss that their score lets expect.

    None if they are too few, or if the tree asks for more than whether a case is shifted, detected
    and answered rightly, so that its cases do not cost what it does.
    """
    if any(kind.score is None for kind in kinds):
        return []
    score = np.concatenate([np.asarray(kind.score, dtype=np.float64) for kind in kinds])
    weight = np.concatenate(
        [np.full(len(k.wrong), k.probability / max(len(k.wrong), 1)) for k in kinds]
    )
    cost = [_costs(tree, parameters, shifted=at > 0) for at in range(len(kinds))]
    loss = np.concatenate([c[kind.cell] for c, kind in zip(cost, kinds, strict=True)])
    expected = float(expectation(tree, parameters))
    whole = math.isclose(float(weight @ loss), expected, rel_tol=1e-6, abs_tol=1e-12)
    count = min(MOST_CELLS, len(score) // LEAST_CASES)
    if not whole or count < 2 or not weight.sum() > 0.0:
        return []
    cells = _score_cells(score, count)
    made = loss_tree(cells, loss, weights=weight, edges=edges)
    wrong = np.concatenate([kind.wrong for kind in kinds]).astype(np.float64)
    place = made.bin_of_cell[cells]
    total = np.maximum(np.bincount(place, weights=weight), 1e-300)
    failed = (np.bincount(place, weights=wrong * weight) / total).tolist()
    return [LossClass(*f, wrong=share) for f, share in zip(_figures(made), failed, strict=True)]


def _figures(made: LossTree) -> list[tuple[float, float, float, float, float]]:
    leaves = evaluate(made.tree, made.values).leaves
    return [
        (low, high, float(leaf.probability), leaf.cost, float(leaf.contribution))
        for (low, high), leaf in zip(made.ranges, leaves, strict=True)
    ]


def _costs(tree: Tree, parameters: Mapping[str, float], *, shifted: bool) -> Floats:
    """What a case costs by its cell (`Rows.cell`): every live probability is then 0 or 1."""
    alarm, right = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0])
    decided = {
        **dict.fromkeys(LIVE_PARAMETERS, right),
        "p_shift": np.full(4, float(shifted)),
        "tpr": alarm,
        "tnr": 1.0 - alarm,
    }
    given = {name: decided.get(name, value) for name, value in parameters.items()}
    return np.broadcast_to(np.asarray(expectation(tree, given), dtype=np.float64), (4,))


def _score_cells(score: Floats, count: int) -> Ints:
    """Cells of about as many cases each; cases without a score have one of their own."""
    known = np.isfinite(score)
    levels = np.arange(1, count) / count
    inner = np.unique(np.quantile(score[known], levels)) if known.any() else np.zeros(0)
    found = np.searchsorted(inner, score, side="right").astype(np.int64)
    found[~known] = len(inner) + 1
    return np.unique(found, return_inverse=True)[1].astype(np.int64)
