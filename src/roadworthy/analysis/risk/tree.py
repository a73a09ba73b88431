"""The numbers of an event tree: expected cost, what each outcome adds, exact derivatives, and what a point is worth.

The expected cost is the sum over leaves of cost times the product of the probabilities on the way (seed 003, equation 2 and
section 3.2). Parameters may be arrays: they broadcast, and the answer has their common shape. The same parameter may stand
at several nodes. Among arrays a live probability (one that a stream tells) is at most what the other branches of its node
leave, so that a grid of rates of shift up to 1 goes through a tree of several events; among plain numbers this is a mistake.

>>> tree = Tree.from_dict(
...     {
...         "event": "shift",
...         "branches": {
...             "shifted": {"p": "p_shift", "then": {"outcome": "wrong", "cost": 100}},
...             "clean": {"then": {"outcome": "right", "cost": 0}},
...         },
...     }
... )
>>> expectation(tree, {"p_shift": 0.25}), expectation(tree, {"p_shift": [0.0, 0.5]}).tolist()
(25.0, [0.0, 50.0])
>>> derivatives(tree, {"p_shift": 0.25})
{'p_shift': 100.0}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .nodes import TOLERANCE, Branch, Leaf, Node, Tree, leaves, nodes
from .posteriors import Beta, Dirichlet, Spread, draw_parameters, means_and_covariance
from .prototypes import LIVE_PARAMETERS

__all__ = [
    "Beta",
    "Branch",
    "BranchValue",
    "Dirichlet",
    "Leaf",
    "LeafValue",
    "Node",
    "Spread",
    "Tree",
    "Valuation",
    "Worth",
    "checked",
    "derivatives",
    "evaluate",
    "expectation",
    "leaves",
    "nodes",
    "spread",
    "worth",
]

TINY = 1e-300
Value = Any
"""A float, or a float64 array where a parameter is one."""


@dataclass(frozen=True)
class LeafValue:
    """One outcome at the end of one path: how likely, what it costs, and its part of the expectation."""

    path: tuple[str, ...]
    outcome: str
    probability: Value
    cost: float
    contribution: Value


@dataclass(frozen=True)
class BranchValue:
    """One branch at the end of its path: how likely at its node, and how likely to be reached at all."""

    path: tuple[str, ...]
    share: Value
    reach: Value


@dataclass(frozen=True)
class Valuation:
    """A tree with numbers in it; leaves and branches in the order in which they are written."""

    expectation: Value
    leaves: tuple[LeafValue, ...]
    branches: tuple[BranchValue, ...]
    unit: str

    def by_outcome(self) -> dict[str, tuple[Value, Value]]:
        """Probability and contribution of every outcome, over all paths that end in it."""
        found: dict[str, tuple[Value, Value]] = {}
        for leaf in self.leaves:
            p, part = found.get(leaf.outcome, (0.0, 0.0))
            found[leaf.outcome] = (p + leaf.probability, part + leaf.contribution)
        return found


def expectation(tree: Tree, parameters: Mapping[str, ArrayLike]) -> Value:
    """The expected cost; arrays of parameters broadcast, and the answer has their common shape."""
    return _fold(tree.root, checked(tree, parameters, capped=True))


def evaluate(tree: Tree, parameters: Mapping[str, ArrayLike]) -> Valuation:
    """The expected cost, and the probability of every branch and leaf with what it adds to the cost."""
    values = checked(tree, parameters, capped=True)
    ends = dict(leaves(tree))
    branches = tuple(_branch_values(tree.root, (), 1.0, values))
    found = tuple(
        LeafValue(b.path, leaf.outcome, b.reach, float(leaf.cost), b.reach * leaf.cost)
        for b in branches
        if (leaf := ends.get(b.path)) is not None
    )
    return Valuation(_fold(tree.root, values), found, branches, tree.unit)


def derivatives(tree: Tree, parameters: Mapping[str, ArrayLike]) -> dict[str, Any]:
    """The exact derivative of the expected cost by every parameter, the others held.

    At a node, one more of a branch is one less of the branch that takes the rest. The chain rule adds up the nodes at which a
    parameter stands.
    """
    values = checked(tree, parameters)
    found: dict[str, Value] = dict.fromkeys(tree.parameters, 0.0)

    def descend(place: Node | Leaf, reach: Value) -> Value:
        if isinstance(place, Leaf):
            return float(place.cost)
        shares = _shares(place, values)
        below = [descend(b.then, reach * s) for b, s in zip(place.branches, shares, strict=True)]
        rest = next((v for b, v in zip(place.branches, below, strict=True) if b.p is None), 0.0)
        for branch, value in zip(place.branches, below, strict=True):
            if isinstance(branch.p, str):
                found[branch.p] = found[branch.p] + reach * (value - rest)
        return _dot(shares, below)

    descend(tree.root, 1.0)
    return found


@dataclass(frozen=True)
class Worth:
    """What a point (0.01) of one parameter is worth, in cost and in points of another (figure 12)."""

    a: str
    b: str
    saved_by_a: float
    """By how much one more point of a lowers the expected cost; negative where it raises it."""
    saved_by_b: float
    unit: str

    @property
    def points(self) -> float:
        """How many points of b save as much as one point of a; infinite where b saves nothing."""
        if self.saved_by_b == 0.0:
            return math.nan if self.saved_by_a == 0.0 else math.copysign(math.inf, self.saved_by_a)
        return self.saved_by_a / self.saved_by_b

    def __str__(self) -> str:
        return (
            f"one point of {self.a} saves {self.saved_by_a:.4g} {self.unit}, one of {self.b} {self.saved_by_b:.4g}: "
            f"it is worth {self.points:.3g} points of {self.b}"
        )


def worth(
    tree: Tree, parameters: Mapping[str, ArrayLike], a: str | Sequence[str], b: str | Sequence[str]
) -> Worth:
    """What one point of a is worth against one point of b; the parameters of a group move together."""
    slopes = derivatives(tree, parameters)
    sides = [(side,) if isinstance(side, str) else tuple(side) for side in (a, b)]
    for name in (*sides[0], *sides[1]):
        if name not in slopes:
            raise ValueError(
                f"{name!r} is not a parameter of the tree; it has {', '.join(slopes) or 'none'}"
            )
    saved = [-0.01 * math.fsum(float(slopes[name]) for name in side) for side in sides]
    return Worth(" and ".join(sides[0]), " and ".join(sides[1]), saved[0], saved[1], tree.unit)


def spread(
    tree: Tree,
    posteriors: Mapping[Any, Beta | Dirichlet | float],
    *,
    draws: int = 10_000,
    seed: int = 0,
) -> Spread:
    """How far the expected cost may lie from its best guess, as far as the parameters are known only from counts.

    A parameter is a number (certain), a `Beta`, or one of several shares that add up to at most 1: then a tuple of names
    has a `Dirichlet`. Posteriors of different keys are taken as independent, which those of nested conditions are.
    """
    names = tree.parameters
    means, covariance = means_and_covariance(posteriors, names)
    slopes = derivatives(tree, means)
    gradient = np.array([slopes[name] for name in names], dtype=np.float64)
    sampled = draw_parameters(posteriors, names, draws, np.random.default_rng(seed))
    costs = np.broadcast_to(np.asarray(expectation(tree, sampled)), (draws,))
    return Spread(
        float(expectation(tree, means)),
        float(gradient @ covariance @ gradient),
        np.sort(costs),
        tree.unit,
    )


def checked(
    tree: Tree, parameters: Mapping[str, ArrayLike], *, capped: bool = False
) -> dict[str, Value]:
    """The tree's parameters as numbers, refused with the place in the tree where one is missing or no probability.

    With `capped`, and among arrays, a live one may be more than the other branches of its node leave.
    """
    values: dict[str, Value] = {}
    for path, node in nodes(tree):
        for branch in node.branches:
            if isinstance(branch.p, str) and branch.p not in values:
                values[branch.p] = _probability(branch.p, parameters, _where(path, node, branch))
        _check_sum(path, node, values, capped)
    return values


def _probability(name: str, parameters: Mapping[str, ArrayLike], where: str) -> Value:
    if name not in parameters:
        given = ", ".join(sorted(map(str, parameters))) or "none"
        raise ValueError(f"{where}: the parameter {name!r} has no value; given are {given}")
    try:
        found = np.asarray(parameters[name], dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: {name} must be a number, found {parameters[name]!r}") from None
    if found.size:
        low, high = float(found.min()), float(found.max())
        if not (low >= -TOLERANCE and high <= 1.0 + TOLERANCE):
            wrong = "not a number" if math.isnan(low) else f"{low if low < 0.0 else high:.10g}"
            raise ValueError(
                f"{where}: {name} must be a probability, between 0 and 1, found {wrong}"
            )
    return float(found) if found.ndim == 0 else found


def _check_sum(
    path: tuple[str, ...], node: Node, values: Mapping[str, Value], capped: bool
) -> None:
    given = [b for b in node.branches if b.p is not None]
    whole = len(given) == len(node.branches)
    if len(given) == 1 and not whole:
        return
    parts = _left_by_others(node, values) if capped else [_given(b, values) for b in node.branches]
    total = np.asarray(sum(parts, start=0.0))
    if not total.size:
        return
    low, high = float(total.min()), float(total.max())
    if high > 1.0 + TOLERANCE or (whole and low < 1.0 - TOLERANCE):
        found, wanted = (high, "more than 1") if high > 1.0 + TOLERANCE else (low, "not to 1")
        summands = ", ".join(str(b.p) for b in given)
        raise ValueError(
            f"{_where(path, node)}: the probabilities {summands} add up to {found:.10g}, {wanted}"
        )


def _where(path: tuple[str, ...], node: Node, branch: Branch | None = None) -> str:
    return "in the tree at " + " > ".join((*path, node.event, *((branch.name,) if branch else ())))


def _given(branch: Branch, values: Mapping[str, Value]) -> Value:
    return values[branch.p] if isinstance(branch.p, str) else float(branch.p or 0.0)


def _left_by_others(node: Node, values: Mapping[str, Value]) -> list[Value]:
    """The probability given at every branch, 0 at the rest; among arrays live ones are at most what the others leave."""
    given = [_given(b, values) for b in node.branches]
    live = [i for i, b in enumerate(node.branches) if b.p in LIVE_PARAMETERS]
    some_left = len(node.branches) > 2 and any(b.p is None for b in node.branches)
    if live and some_left and any(map(np.ndim, given)):
        others = sum((p for i, p in enumerate(given) if i not in live), start=0.0)
        wanted = sum((given[i] for i in live), start=0.0)
        part = np.minimum(np.maximum(1.0 - others, 0.0) / np.maximum(wanted, TINY), 1.0)
        given = [p * part if i in live else p for i, p in enumerate(given)]
    return given


def _shares(node: Node, values: Mapping[str, Value]) -> list[Value]:
    given = _left_by_others(node, values)
    rest = 1.0 - sum(given, start=0.0)
    return [rest if b.p is None else p for b, p in zip(node.branches, given, strict=True)]


def _dot(shares: Sequence[Value], below: Sequence[Value]) -> Value:
    return sum((s * v for s, v in zip(shares, below, strict=True)), start=0.0)


def _fold(place: Node | Leaf, values: Mapping[str, Value]) -> Value:
    if isinstance(place, Leaf):
        return float(place.cost)
    return _dot(_shares(place, values), [_fold(b.then, values) for b in place.branches])


def _branch_values(
    node: Node, path: tuple[str, ...], reach: Value, values: Mapping[str, Value]
) -> Iterator[BranchValue]:
    for branch, share in zip(node.branches, _shares(node, values), strict=True):
        here = BranchValue((*path, branch.name), share, reach * share)
        yield here
        if isinstance(branch.then, Node):
            yield from _branch_values(branch.then, here.path, here.reach, values)
