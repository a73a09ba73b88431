"""What an event tree is made of: events with branches, outcomes with costs; read from and written to plain data.

A node names an event and its branches. A branch has a probability (a number, or the name of a parameter whose value comes
later); one branch of a node may leave it out and takes the rest. A leaf names an outcome and its cost.

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
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1e-9
"""How far a computed probability may lie outside 0..1, or the branches' sum from 1: rounding, not a mistake."""
DEEPEST = 64
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


@dataclass(frozen=True)
class Leaf:
    """An outcome and what one such case costs; a gain is a negative cost."""

    outcome: str
    cost: float

    def __post_init__(self) -> None:
        if (
            isinstance(self.cost, bool)
            or not isinstance(self.cost, int | float)
            or not math.isfinite(self.cost)
        ):
            raise ValueError(
                f"the cost of {self.outcome!r} must be a finite number, found {self.cost!r}"
            )


@dataclass(frozen=True)
class Branch:
    """One way an event turns out: its probability is a number, a parameter's name, or None for what the others leave."""

    name: str
    p: str | float | None
    then: Node | Leaf


@dataclass(frozen=True)
class Node:
    """An event and its branches, of which exactly one happens."""

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
                f"{'not to 1' if whole else 'more than 1'}; leave out p at the branch that takes the rest"
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
        """The tree that a dictionary describes; unknown keys are refused, and the message says where."""
        if not isinstance(content, Mapping):
            raise ValueError(
                f"tree: expected a mapping with event and branches, found {_kind(content)}"
            )
        found = content.get("unit", unit)
        if unit is not None and found != unit:
            raise ValueError(
                f"the tree's unit is {found!r}, but {unit!r} was given beside it; say it once"
            )
        root = _read({k: v for k, v in content.items() if k != "unit"}, "tree", 1)
        if isinstance(root, Leaf):
            raise ValueError("tree: expected an event with branches at the start, found an outcome")
        return cls(root) if found is None else cls(root, found)


def nodes(tree: Tree) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every node with the names of the branches that lead to it, parents before children."""
    return ((path, place) for path, place in _places(tree) if isinstance(place, Node))


def leaves(tree: Tree) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Every leaf with the names of the branches that lead to it, in the order in which they are written."""
    return ((path, place) for path, place in _places(tree) if isinstance(place, Leaf))


def _places(tree: Tree) -> Iterator[tuple[tuple[str, ...], Node | Leaf]]:
    waiting: list[tuple[tuple[str, ...], Node | Leaf]] = [((), tree.root)]
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
            f"{where}: expected event and branches, or outcome and cost, found {_kind(content)}"
        )
    if "outcome" in content or "cost" in content:
        _keys(content, ("outcome", "cost"), where)
        return _placed(where, Leaf, str(content["outcome"]), content["cost"])
    _keys(content, ("event", "branches"), where)
    if not isinstance(content["branches"], Mapping):
        raise ValueError(
            f"{where}.branches: expected a mapping of names to branches, found {_kind(content['branches'])}"
        )
    branches = tuple(
        _branch(name, branch, f"{where}.branches.{name}", depth)
        for name, branch in content["branches"].items()
    )
    return _placed(where, Node, str(content["event"]), branches)


def _branch(name: Any, content: Any, where: str, depth: int) -> Branch:
    if isinstance(name, bool) or name is None:
        raise ValueError(
            f"{where}: this name was read as {name!r}; put yes, no, on, off and null in quotes"
        )
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: expected p and then, found {_kind(content)}")
    _keys(content, ("then",), where, optional=("p",))
    return Branch(str(name), content.get("p"), _read(content["then"], f"{where}.then", depth + 1))


def _keys(
    content: Mapping[str, Any], needed: tuple[str, ...], where: str, optional: tuple[str, ...] = ()
) -> None:
    known = " and ".join((*needed, *(f"{name} (may be left out)" for name in optional)))
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


def _kind(content: Any) -> str:
    return "nothing" if content is None else f"{type(content).__name__} {content!r:.40}"
