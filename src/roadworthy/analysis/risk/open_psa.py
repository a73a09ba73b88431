"""An event tree in the Open-PSA Model Exchange Format, for tools of probabilistic risk assessment.

Forks and paths as in the format's event trees, and one sequence for every leaf, with its outcome,
cost and unit as attributes. The format's basic events are independent, so that a node of m branches
has m - 1 of its own: the k-th is the probability of the k-th branch given that none before it was
taken, and the path to a branch is "not the first, not the second, …, this one". Names become
identifiers; the originals stand in the labels.

>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> known = {"p_shift": 0.2, "accuracy_clean": 0.9, "accuracy_shifted": 0.5}
>>> text = to_open_psa(accuracy_tree(), known)
>>> text.count("<define-sequence"), text.count("<define-basic-event"), "p_shift" in text
(4, 3, True)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as Xml

from numpy.typing import ArrayLike

from .tree import Leaf, Node, Tree, evaluate, nodes


def to_open_psa(tree: Tree, parameters: Mapping[str, ArrayLike], *, name: str = "risk") -> str:
    """The tree with these numbers in it, as an XML document."""
    shares = {b.path: float(b.share) for b in evaluate(tree, parameters).branches}
    return _Writer(name, tree, shares).text()


class _Writer:
    """Names once given are kept, so that a document is made in one walk."""

    def __init__(self, name: str, tree: Tree, shares: Mapping[tuple[str, ...], float]) -> None:
        self.tree, self.shares, self.taken = tree, shares, set[str]()
        self.document = Xml.Element("opsa-mef")
        title = self.identifier(name)
        start = Xml.SubElement(
            self.document, "define-initiating-event", name=self.identifier("case")
        )
        start.set("event-tree", title)
        self.event_tree = Xml.SubElement(self.document, "define-event-tree", name=title)
        _label(self.event_tree, f"expected cost in {tree.unit}")
        # One by event and depth: the format wants them in the same order on every path.
        found = sorted({(len(path), node.event) for path, node in nodes(tree)})
        self.functional = {key: self.identifier(key[1]) for key in found}
        for (_, event), name in self.functional.items():
            _label(Xml.SubElement(self.event_tree, "define-functional-event", name=name), event)
        self.sequences: list[tuple[str, Leaf, tuple[str, ...]]] = []
        self.events: list[tuple[str, float, str]] = []

    def text(self) -> str:
        """The document; sequences are defined before they are used."""
        state = Xml.Element("initial-state")
        self.fork(self.tree.root, state, ())
        for name, leaf, path in self.sequences:
            sequence = Xml.SubElement(self.event_tree, "define-sequence", name=name)
            _label(sequence, " > ".join(path))
            group = Xml.SubElement(sequence, "attributes")
            cost, unit = repr(float(leaf.cost)), self.tree.unit
            for key, value in (("outcome", leaf.outcome), ("cost", cost), ("unit", unit)):
                Xml.SubElement(group, "attribute", name=key, value=value)
        self.event_tree.append(state)
        data = Xml.SubElement(self.document, "model-data")
        for name, p, what in self.events:
            event = Xml.SubElement(data, "define-basic-event", name=name)
            _label(event, what)
            Xml.SubElement(event, "float", value=repr(p))
        Xml.indent(self.document)
        header = '<?xml version="1.0" encoding="UTF-8"?>\n'
        return header + Xml.tostring(self.document, encoding="unicode") + "\n"

    def fork(self, node: Node, parent: Xml.Element, path: tuple[str, ...]) -> None:
        fork = Xml.SubElement(parent, "fork")
        fork.set("functional-event", self.functional[len(path), node.event])
        formula: list[Xml.Element] = []
        left, states = 1.0, set[str]()
        for i, branch in enumerate(node.branches):
            here = (*path, branch.name)
            state = Xml.SubElement(fork, "path", state=_distinct(_identifier(branch.name), states))
            taken = list(formula)
            if i < len(node.branches) - 1:
                event, share = self.identifier("-".join(here)), self.shares[here]
                conditional = min(max(share / left, 0.0), 1.0) if left > 0.0 else 0.0
                self.events.append((event, conditional, _meaning(node, i, here)))
                left = max(left - share, 0.0)
                taken.append(Xml.Element("basic-event", name=event))
                formula.append(Xml.Element("not"))
                Xml.SubElement(formula[-1], "basic-event", name=event)
            if taken:  # a node's only branch is always taken
                collect = Xml.SubElement(state, "collect-formula")
                (Xml.SubElement(collect, "and") if len(taken) > 1 else collect).extend(taken)
            if isinstance(branch.then, Node):
                self.fork(branch.then, state, here)
            else:
                sequence = self.identifier(f"S{len(self.sequences) + 1}")
                self.sequences.append((sequence, branch.then, here))
                Xml.SubElement(state, "sequence", name=sequence)

    def identifier(self, text: str) -> str:
        return _distinct(_identifier(text), self.taken)


def _meaning(node: Node, i: int, here: tuple[str, ...]) -> str:
    p, before = node.branches[i].p, [b.name for b in node.branches[:i]]
    given = f", given none of {', '.join(before)}" if before else ""
    return f"{' > '.join(here)}: {'the rest' if p is None else p}{given}"


def _identifier(text: str) -> str:
    """Letters, digits and single hyphens, a letter first: what the format calls an identifier."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-_") or "unnamed"
    return plain if plain[0].isalpha() else f"n{plain}"


def _distinct(name: str, taken: set[str]) -> str:
    found, number = name, 2
    # Tools compare names without regard to case.
    while found.lower() in taken:
        found, number = f"{name}-{number}", number + 1
    taken.add(found.lower())
    return found


def _label(element: Xml.Element, text: str) -> None:
    Xml.SubElement(element, "label").text = text
