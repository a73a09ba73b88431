"""Event trees: events with branches, outcomes with costs; the expected cost and its derivatives.

A node names an event and its branches. The probability of a branch is a number or the name of a
parameter; one branch of a node may leave it out and takes the rest. A leaf names an outcome and its
cost. The expected cost is the sum over leaves of cost times the product of the probabilities on the
way (Torpmann-Hagen et al. 2025, equation 2 and section 3.2). Parameters may be arrays: they
broadcast, and the result has their common shape. The same parameter may stand at several nodes.

>>> tree = Tree.from_dict(
...     {
...         "event": "shift",
...         "branches": {
...             "shifted": {"p": "p_shift", "then": {"outcome": "wrong", "cost": 100}},
...             "clean": {"then": {"outcome": "right", "cost": 0}},
...         },
...     },
...     unit="EUR per case",
... )
>>> tree.parameters, Tree.from_dict(tree.to_dict()) == tree
(('p_shift',), True)
>>> expectation(tree, {"p_shift": 0.25}), expectation(tree, {"p_shift": [0.0, 0.5]}).tolist()
(25.0, [0.0, 50.0])
>>> derivatives(tree, {"p_shift": 0.25})
{'p_shift': 100.0}
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

LIVE_PARAMETERS = (
    "p_shift",
    "tpr",
    "tnr",
    "accuracy_clean",
    "accuracy_shifted",
    "accuracy_clean_detected",
    "accuracy_clean_undetected",
    "accuracy_shifted_detected",
    "accuracy_shifted_undetected",
)
"""What a monitor estimates; a tree's other parameters must be given as numbers or counts."""
TOLERANCE = 1e-9
"""How far a probability may lie outside 0..1, or a sum from 1, by rounding."""
DEEPEST = 64
TINY = 1e-300
Value = Any
"""A float, or a float64 array if a parameter is one."""
Path = tuple[str, ...]
"""Names of the branches that lead to a place."""
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


@dataclass(frozen=True)
class Leaf:
    """An outcome and what one such case costs; a gain is a negative cost."""

    outcome: str
    cost: float

    def __post_init__(self) -> None:
        number = isinstance(self.cost, int | float) and not isinstance(self.cost, bool)
        if not number or not math.isfinite(self.cost):
            raise ValueError(
                f"the cost of {self.outcome!r} must be a finite number, found {self.cost!r}"
            )


@dataclass(frozen=True)
class Branch:
    """One way an event turns out; `p` is a number, a parameter's name, or None for the rest."""

    name: str
    p: str | float | None
    then: Node | Leaf


@dataclass(frozen=True)
class Node:
    """An event and its branches, exactly one of which happens."""

    event: str
    branches: tuple[Branch, ...]

    def __post_init__(self) -> None:
        names = [b.name for b in self.branches]
        if not names:
            raise ValueError(f"the event {self.event!r} has no branches; give at least one")
        if len(set(names)) < len(names):
            raise ValueError(
                f"two branches of the event {self.event!r} have the same name: {', '.join(names)}"
            )
        rest = [b.name for b in self.branches if b.p is None]
        if len(rest) > 1:
            raise ValueError(
                f"one branch of the event {self.event!r} may leave out p, found {', '.join(rest)}"
            )
        for branch in self.branches:
            _check_p(self.event, branch)
        fixed = [float(b.p) for b in self.branches if isinstance(b.p, float | int)]
        total, whole = math.fsum(fixed), len(fixed) == len(self.branches)
        if total > 1.0 + TOLERANCE or (whole and total < 1.0 - TOLERANCE):
            raise ValueError(
                f"the probabilities of the event {self.event!r} add up to {total:.10g}, "
                f"{'not to 1' if whole else 'more than 1'}; leave out p at the branch that takes "
                "the rest"
            )


@dataclass(frozen=True)
class Tree:
    """A whole event tree and the unit of its costs."""

    root: Node
    unit: str = "cost per case"

    def __post_init__(self) -> None:
        if not isinstance(self.root, Node):
            raise TypeError(
                f"a tree starts with an event and its branches, found {type(self.root).__name__}"
            )
        if not isinstance(self.unit, str) or not self.unit.strip():
            raise ValueError("a tree needs the unit of its costs, such as 'EUR per patient'")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the probabilities that are not fixed, in order of appearance."""
        names = (b.p for _, node in nodes(self) for b in node.branches if isinstance(b.p, str))
        return tuple(dict.fromkeys(names))

    @property
    def costs(self) -> tuple[float, float]:
        """The least and the greatest cost of an outcome: the expectation lies between them."""
        found = [leaf.cost for _, leaf in leaves(self)]
        return min(found), max(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the root node, with the unit beside it."""
        return {"unit": self.unit, **_plain(self.root)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, unit: str | None = None) -> Tree:
        """The tree that a dictionary describes; a mistake is reported with its place."""
        if not isinstance(content, Mapping):
            raise ValueError(
                f"tree: expected a mapping with event and branches, found {_type(content)}"
            )
        found = content.get("unit", unit)
        if unit is not None and found != unit:
            raise ValueError(f"the unit is given twice, as {found!r} in the tree and as {unit!r}")
        root = _read({k: v for k, v in content.items() if k != "unit"}, "tree", 1)
        if isinstance(root, Leaf):
            raise ValueError("tree: expected an event with branches at the start, found an outcome")
        return cls(root) if found is None else cls(root, found)


def nodes(tree: Tree) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, parents before children."""
    return ((path, place) for path, place in _places(tree) if isinstance(place, Node))


def leaves(tree: Tree) -> Iterator[tuple[Path, Leaf]]:
    """Every leaf with its path, in the order in which they are written."""
    return ((path, place) for path, place in _places(tree) if isinstance(place, Leaf))


def _places(tree: Tree) -> Iterator[tuple[Path, Node | Leaf]]:
    waiting: list[tuple[Path, Node | Leaf]] = [((), tree.root)]
    while waiting:
        path, place = waiting.pop()
        yield path, place
        if isinstance(place, Node):
            waiting.extend(((*path, b.name), b.then) for b in reversed(place.branches))


def _check_p(event: str, branch: Branch) -> None:
    p, where = branch.p, f"the probability of {branch.name!r} (event {event!r})"
    if isinstance(p, str):
        if not _NAME.fullmatch(p):
            raise ValueError(
                f"{where} must be a number or a parameter's name such as p_shift, found {p!r}"
            )
    elif isinstance(p, bool) or not (p is None or (isinstance(p, int | float) and 0.0 <= p <= 1.0)):
        raise ValueError(f"{where} must lie between 0 and 1, found {p!r}")


# Reading and writing


def _plain(place: Node | Leaf) -> dict[str, Any]:
    if isinstance(place, Leaf):
        return {"outcome": place.outcome, "cost": place.cost}
    branches = {
        b.name: {**({} if b.p is None else {"p": b.p}), "then": _plain(b.then)}
        for b in place.branches
    }
    return {"event": place.event, "branches": branches}


def _read(content: Any, where: str, depth: int) -> Node | Leaf:
    if depth > DEEPEST:
        raise ValueError(f"{where}: the tree is more than {DEEPEST} events deep")
    if not isinstance(content, Mapping):
        raise ValueError(
            f"{where}: expected event and branches, or outcome and cost, found {_type(content)}"
        )
    if "outcome" in content or "cost" in content:
        _keys(content, ("outcome", "cost"), where)
        return _placed(where, Leaf, str(content["outcome"]), content["cost"])
    _keys(content, ("event", "branches"), where)
    found = content["branches"]
    if not isinstance(found, Mapping):
        raise ValueError(f"{where}.branches: expected a mapping of branches, found {_type(found)}")
    branches = tuple(
        _branch(name, branch, f"{where}.branches.{name}", depth) for name, branch in found.items()
    )
    return _placed(where, Node, str(content["event"]), branches)


def _branch(name: Any, content: Any, where: str, depth: int) -> Branch:
    if isinstance(name, bool) or name is None:
        raise ValueError(
            f"{where}: this name was read as {name!r}; put yes, no, on, off and null in quotes"
        )
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: expected p and then, found {_type(content)}")
    _keys(content, ("then",), where, optional=("p",))
    return Branch(str(name), content.get("p"), _read(content["then"], f"{where}.then", depth + 1))


def _keys(
    content: Mapping[str, Any], needed: tuple[str, ...], where: str, optional: tuple[str, ...] = ()
) -> None:
    known = " and ".join((*needed, *(f"{name} (optional)" for name in optional)))
    for key in content:
        if key not in (*needed, *optional):
            raise ValueError(f"{where}: unknown key {key!r}; expected {known}")
    for key in needed:
        if key not in content:
            raise ValueError(f"{where}: {key} is missing; expected {known}")


def _placed(where: str, make: Any, *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except ValueError as mistake:
        raise ValueError(f"{where}: {mistake}") from None


def _type(content: Any) -> str:
    return "nothing" if content is None else f"{type(content).__name__} {content!r:.40}"


# Numbers


@dataclass(frozen=True)
class LeafValue:
    """One outcome at the end of one path: its probability, cost, and part of the expectation."""

    path: Path
    outcome: str
    probability: Value
    cost: float
    contribution: Value


@dataclass(frozen=True)
class BranchValue:
    """One branch: its probability at its node, and that of being reached at all."""

    path: Path
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
    """The expected cost; arrays of parameters broadcast."""
    return _fold(tree.root, checked(tree, parameters, capped=True))


def evaluate(tree: Tree, parameters: Mapping[str, ArrayLike]) -> Valuation:
    """The expected cost, the probability of every branch and leaf, and what each leaf adds."""
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

    At a node, more of one branch is less of the branch that takes the rest; the chain rule adds up
    the nodes at which a parameter stands.
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
    """What a point (0.01) of one parameter is worth in cost and in points of another (figure 12)."""

    a: str
    b: str
    saved_by_a: float
    """By how much one more point of a lowers the expected cost; negative if it raises it."""
    saved_by_b: float
    unit: str

    @property
    def points(self) -> float:
        """How many points of b save as much as one point of a; infinite if b saves nothing."""
        if self.saved_by_b == 0.0:
            return math.nan if self.saved_by_a == 0.0 else math.copysign(math.inf, self.saved_by_a)
        return self.saved_by_a / self.saved_by_b


def worth(
    tree: Tree, parameters: Mapping[str, ArrayLike], a: str | Sequence[str], b: str | Sequence[str]
) -> Worth:
    """One point of a against one point of b; the parameters of a group move together."""
    slopes = derivatives(tree, parameters)
    sides = [(side,) if isinstance(side, str) else tuple(side) for side in (a, b)]
    for name in (*sides[0], *sides[1]):
        if name not in slopes:
            raise ValueError(
                f"{name!r} is not a parameter of the tree; it has {', '.join(slopes) or 'none'}"
            )
    saved = [-0.01 * math.fsum(float(slopes[name]) for name in side) for side in sides]
    return Worth(" and ".join(sides[0]), " and ".join(sides[1]), saved[0], saved[1], tree.unit)


def checked(
    tree: Tree, parameters: Mapping[str, ArrayLike], *, capped: bool = False
) -> dict[str, Value]:
    """The tree's parameters as numbers; a missing or impossible one is refused with its place.

    If `capped`, a live probability in an array may be more than the other branches of its node
    leave: a grid of rates of shift up to 1 goes through a tree of several events.
    """
    values: dict[str, Value] = {}
    for path, node in nodes(tree):
        for branch in node.branches:
            if isinstance(branch.p, str) and branch.p not in values:
                where = _where((*path, node.event, branch.name))
                values[branch.p] = _probability(branch.p, parameters, where)
        _check_sum(_where((*path, node.event)), node, values, capped)
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
            raise ValueError(f"{where}: {name} must lie between 0 and 1, found {wrong}")
    return float(found) if found.ndim == 0 else found


def _check_sum(where: str, node: Node, values: Mapping[str, Value], capped: bool) -> None:
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
        raise ValueError(f"{where}: the probabilities {summands} add up to {found:.10g}, {wanted}")


def _where(path: Path) -> str:
    return f"in the tree at {' > '.join(path)}"


def _given(branch: Branch, values: Mapping[str, Value]) -> Value:
    return values[branch.p] if isinstance(branch.p, str) else float(branch.p or 0.0)


def _left_by_others(node: Node, values: Mapping[str, Value]) -> list[Value]:
    """The probability given at every branch, 0 at the rest; live arrays capped at what is left."""
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
    node: Node, path: Path, reach: Value, values: Mapping[str, Value]
) -> Iterator[BranchValue]:
    for branch, share in zip(node.branches, _shares(node, values), strict=True):
        here = BranchValue((*path, branch.name), share, reach * share)
        yield here
        if isinstance(branch.then, Node):
            yield from _branch_values(branch.then, here.path, here.reach, values)
