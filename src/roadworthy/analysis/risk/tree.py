"""Event trees: events with branches, outcomes with costs; the expected cost and its derivatives.

A node names an event and its branches. The probability of a branch is a number or the name of a
parameter; one branch of a node may leave it out and takes the rest. A leaf names an outcome and its
cost. The expected cost is the sum over leaves of cost times the product of the probabilities on the
way (Torpmann-Hagen et al. 2025, equation 2 and section 3.2). Parameters may be arrays: they
broadcast. The same parameter may stand at several nodes.

>>> right, wrong = {"outcome": "right", "cost": 0}, {"outcome": "wrong", "cost": 100}
>>> branches = {"shifted": {"p": "p_shift", "then": wrong}, "clean": {"then": right}}
>>> tree = Tree.from_dict({"event": "shift", "branches": branches}, unit="EUR per case")
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.numbers import amount

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
        rest = [b.name for b in self.branches if b.p is None]
        fixed = [float(b.p) for b in self.branches if isinstance(b.p, float | int)]
        total, wrong = math.fsum(fixed), None
        if not names or len(set(names)) < len(names):
            wrong = f"needs branches with distinct names, found {', '.join(names) or 'none'}"
        elif len(rest) > 1:
            wrong = f"has one branch at most that leaves out p, found {', '.join(rest)}"
        elif bad := [b for b in self.branches if not _is_probability(b.p)]:
            wrong = (
                f"needs p of {bad[0].name!r} to be a number from 0 to 1 or a parameter's name such "
                f"as p_shift, found {bad[0].p!r}"
            )
        elif total > 1.0 + TOLERANCE or (len(fixed) == len(names) and total < 1.0 - TOLERANCE):
            wrong = f"has probabilities that add up to {total:.10g}; leave out one p for the rest"
        if wrong is not None:
            raise ValueError(f"the event {self.event!r} {wrong}")


@dataclass(frozen=True)
class Tree:
    """A whole event tree and the unit of its costs."""

    root: Node
    unit: str = "cost per case"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the probabilities that are not fixed, in order of appearance."""
        names = (b.p for _, node in nodes(self) for b in node.branches if isinstance(b.p, str))
        return tuple(dict.fromkeys(names))

    @property
    def costs(self) -> tuple[float, float]:
        """The least and the greatest cost of an outcome: the expectation lies between them."""
        found = [leaf.cost for _, leaf in endings(self)]
        return min(found), max(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the root node, with the unit beside it."""
        return {"unit": self.unit, **_plain(self.root)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, unit: str | None = None) -> Tree:
        """The tree that a dictionary describes; a mistake is reported with its place."""
        found = _mapping(content, "tree").get("unit", unit)
        if unit is not None and found != unit:
            raise ValueError(f"the unit is given twice, as {found!r} in the tree and as {unit!r}")
        root = _read({k: v for k, v in content.items() if k != "unit"}, "tree")
        if isinstance(root, Leaf):
            raise ValueError("tree: expected an event with branches at the start, found an outcome")
        return cls(root) if found is None else cls(root, str(found))


def nodes(tree: Tree) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, parents before children."""
    return ((path, place) for path, place in _places(tree.root) if isinstance(place, Node))


def endings(tree: Tree) -> Iterator[tuple[Path, Leaf]]:
    """Every leaf with its path, in the order in which they are written."""
    return ((path, place) for path, place in _places(tree.root) if isinstance(place, Leaf))


def _places(place: Node | Leaf, path: Path = ()) -> Iterator[tuple[Path, Node | Leaf]]:
    yield path, place
    if isinstance(place, Node):
        for branch in place.branches:
            yield from _places(branch.then, (*path, branch.name))


def _is_probability(p: Any) -> bool:
    if isinstance(p, str):
        return _NAME.fullmatch(p) is not None
    return p is None or (isinstance(p, int | float) and p is not True and 0.0 <= p <= 1.0)


def _plain(place: Node | Leaf) -> dict[str, Any]:
    if isinstance(place, Leaf):
        return {"outcome": place.outcome, "cost": place.cost}
    branches = {
        b.name: {**({} if b.p is None else {"p": b.p}), "then": _plain(b.then)}
        for b in place.branches
    }
    return {"event": place.event, "branches": branches}


def _read(content: Any, where: str) -> Node | Leaf:
    if isinstance(content, Mapping) and not {"outcome", "cost"}.isdisjoint(content):
        outcome, cost = _values(content, where, "outcome", "cost")
        make: Callable[[], Node | Leaf] = partial(Leaf, str(outcome), cost)
    else:
        event, ways = _values(content, where, "event", "branches")
        branches = []
        for name, branch in _mapping(ways, f"{where}.branches").items():
            here = f"{where}.branches.{name}"
            if isinstance(name, bool) or name is None:
                raise ValueError(f"{here}: put yes, no, on, off and null in quotes")
            rest = {key: value for key, value in _mapping(branch, here).items() if key != "p"}
            (then,) = _values(rest, here, "then")
            branches.append(Branch(str(name), branch.get("p"), _read(then, f"{here}.then")))
        make = partial(Node, str(event), tuple(branches))
    try:
        return make()
    except ValueError as mistake:
        raise ValueError(f"{where}: {mistake}") from None


def _mapping(content: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: expected a mapping, found {content!r:.40}")
    return content


def _values(content: Any, where: str, *keys: str) -> list[Any]:
    """What stands at these keys, and at no other."""
    if set(_mapping(content, where)) != set(keys):
        found = ", ".join(map(str, content))
        raise ValueError(f"{where}: expected {' and '.join(keys)}, found {found}")
    return [content[key] for key in keys]


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


def expectation(tree: Tree, parameters: Mapping[str, ArrayLike]) -> Value:
    """The expected cost; arrays of parameters broadcast."""
    return _fold(tree.root, checked(tree, parameters))


def evaluate(tree: Tree, parameters: Mapping[str, ArrayLike]) -> Valuation:
    """The expected cost, the probability of every branch and leaf, and what each leaf adds."""
    values = checked(tree, parameters)
    branches: list[BranchValue] = []
    ends: list[LeafValue] = []

    def descend(node: Node, path: Path, reach: Value) -> None:
        for branch, share in zip(node.branches, _shares(node, values), strict=True):
            here, then, p = (*path, branch.name), branch.then, reach * share
            branches.append(BranchValue(here, share, p))
            if isinstance(then, Node):
                descend(then, here, p)
            else:
                ends.append(LeafValue(here, then.outcome, p, float(then.cost), p * then.cost))

    descend(tree.root, (), 1.0)
    return Valuation(_fold(tree.root, values), tuple(ends), tuple(branches))


def derivatives(tree: Tree, parameters: Mapping[str, ArrayLike]) -> dict[str, Any]:
    """The exact derivative of the expected cost by every parameter, the others held.

    At a node, more of one branch is less of the branch that takes the rest; the chain rule adds up
    the nodes at which a parameter stands.
    """
    values = checked(tree, parameters)
    found: dict[str, Value] = dict.fromkeys(tree.parameters, 0.0)
    reach = {(): 1.0, **{b.path: b.reach for b in evaluate(tree, parameters).branches}}
    for path, node in nodes(tree):
        below = {b: _fold(b.then, values) for b in node.branches}
        rest = next((cost for b, cost in below.items() if b.p is None), 0.0)
        for branch, cost in below.items():
            if isinstance(branch.p, str):
                found[branch.p] = found[branch.p] + reach[path] * (cost - rest)
    return found


def worth(
    tree: Tree, parameters: Mapping[str, ArrayLike], *groups: Sequence[str]
) -> tuple[float, ...]:
    """By how much one more point (0.01) of each group of parameters lowers the cost (figure 12)."""
    slopes = derivatives(tree, parameters)
    return tuple(-0.01 * math.fsum(float(slopes[name]) for name in group) for group in groups)


def checked(tree: Tree, parameters: Mapping[str, ArrayLike]) -> dict[str, Value]:
    """The tree's parameters as numbers; a missing or impossible one is refused with its place.

    A live probability in an array may be more than the other branches of its node leave: a grid of
    rates of shift up to 1 goes through a tree of several events.
    """
    values: dict[str, Value] = {}
    for path, node in nodes(tree):
        where = f"in the tree at {' > '.join((*path, node.event))}"
        for branch in node.branches:
            if isinstance(branch.p, str) and branch.p not in values:
                values[branch.p] = _probability(branch.p, parameters, f"{where} > {branch.name}")
        total = np.asarray(sum(_given(node, values), start=0.0))
        whole = all(b.p is not None for b in node.branches)
        off = (total > 1.0 + TOLERANCE) | (whole & (total < 1.0 - TOLERANCE))
        if off.any():
            names = ", ".join(str(b.p) for b in node.branches if b.p is not None)
            wanted = f"{float(total[off][0]):.10g}, and should to {'1' if whole else 'at most 1'}"
            raise ValueError(f"{where}: {names} add up to {wanted}")
    return values


def _probability(name: str, parameters: Mapping[str, ArrayLike], where: str) -> Value:
    if name not in parameters:
        given = ", ".join(sorted(map(str, parameters))) or "none"
        raise ValueError(f"{where}: the parameter {name!r} has no value; given are {given}")
    found = np.asarray(parameters[name], dtype=np.float64)
    if not (found >= -TOLERANCE).all() or not (found <= 1.0 + TOLERANCE).all():
        raise ValueError(
            f"{where}: {name} must lie between 0 and 1, found {parameters[name]!r:.60}"
        )
    return float(found) if found.ndim == 0 else found


def _given(node: Node, values: Mapping[str, Value]) -> list[Value]:
    """The probability given at every branch, 0 at the rest; live arrays capped at what is left."""
    given = [values[b.p] if isinstance(b.p, str) else float(b.p or 0.0) for b in node.branches]
    live = [i for i, b in enumerate(node.branches) if b.p in LIVE_PARAMETERS]
    some_left = len(node.branches) > 2 and any(b.p is None for b in node.branches)
    if live and some_left and any(map(np.ndim, given)):
        others = sum((p for i, p in enumerate(given) if i not in live), start=0.0)
        wanted = sum((given[i] for i in live), start=0.0)
        part = np.minimum(np.maximum(1.0 - others, 0.0) / np.maximum(wanted, TINY), 1.0)
        given = [p * part if i in live else p for i, p in enumerate(given)]
    return given


def _shares(node: Node, values: Mapping[str, Value]) -> list[Value]:
    given = _given(node, values)
    rest = 1.0 - sum(given, start=0.0)
    return [rest if b.p is None else p for b, p in zip(node.branches, given, strict=True)]


def _fold(place: Node | Leaf, values: Mapping[str, Value]) -> Value:
    if isinstance(place, Leaf):
        return float(place.cost)
    parts = zip(_shares(place, values), place.branches, strict=True)
    return sum((share * _fold(b.then, values) for share, b in parts), start=0.0)


def refuse_out_of_reach(tree: Tree, tolerable: float) -> None:
    """Refuse a limit that no event can exceed, or that every event exceeds."""
    least, most = tree.costs
    if not least < tolerable < most:  # nan, too
        raise ValueError(
            f"tolerable must lie between {least:g} and {most:g} {tree.unit}, what outcomes cost; "
            f"found {tolerable:g}"
        )


def priced(value: float, unit: str) -> str:
    """A cost with its unit.

    >>> priced(1925, "EUR per patient"), priced(2.5, "cost per case")
    ('1,925 EUR per patient', '2.50 per case')
    """
    return f"{amount(value)} {unit.removeprefix('cost').strip()}"
