"""The event trees of the paper, ready to use: base tree, tree with a shift detector, several events; and the polyp costs.

Figure 1: does a shift occur, is the answer right. Figure 2: does a shift occur, does the detector raise an alarm (then a
person takes over), is the answer right. An alarm on an answer that would have been wrong is a necessary intervention, one
on an answer that would have been right an unnecessary one (seed 003, section 5.3, table 6).

>>> from roadworthy.analysis.risk.tree import expectation
>>> expectation(base_tree(POLYP_COSTS), {"p_shift": 0.4, "accuracy_clean": 0.9, "accuracy_shifted": 0.62})
1928.2
>>> expectation(accuracy_tree(), {"p_shift": 0.5, "accuracy_clean": 0.75, "accuracy_shifted": 0.25})
0.5
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import did_you_mean

from .nodes import Branch, Leaf, Node, Tree
from .posteriors import JEFFREYS, Beta

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
"""What a monitor knows by itself; a tree's other parameters must be given as numbers or counts."""


def of_alarms(parameter: str) -> bool:
    """Whether a parameter of a tree says what an alarm does.

    >>> [name for name in LIVE_PARAMETERS if not of_alarms(name)]
    ['p_shift', 'accuracy_clean', 'accuracy_shifted']
    """
    return parameter in ("tpr", "tnr") or parameter.endswith(("_detected", "_undetected"))


def asks_for_alarms(tree: Tree) -> bool:
    """Whether what a case costs depends on whether an alarm was raised for it."""
    return any(of_alarms(name) for name in tree.parameters if name in LIVE_PARAMETERS)


def refuse_live_constants(names: Iterable[str], *, but: Collection[str] = ()) -> None:
    """Refuse a constant that carries the name of what is counted: it would mean one thing before release and another in use.

    Before release the rate of shift may be stated: `but=("p_shift",)`.

    >>> refuse_live_constants(["p_noticed"])
    >>> refuse_live_constants(["p_noticed", "tpr"])
    Traceback (most recent call last):
    ValueError: tpr is counted, on cases and in the stream, and cannot be a constant; leave it out, or rename the parameter
    """
    given = set(names) - set(but)
    live = [name for name in LIVE_PARAMETERS if name in given]
    if live:
        verb = "is" if len(live) == 1 else "are"
        raise ValueError(
            f"{', '.join(live)} {verb} counted, on cases and in the stream, and cannot be a constant; leave it out, or "
            "rename the parameter"
        )


def constants_told(names: Iterable[str]) -> list[str]:
    """That a tree's constants stay what they are, for those who read its figures; nothing where there are none.

    >>> constants_told(["p_adversarial", "accuracy_adversarial", "p_shift"]), constants_told(["p_shift"])
    (['neither cases nor a stream tell p_adversarial, accuracy_adversarial: what was given stands'], [])
    """
    given = [name for name in names if name not in LIVE_PARAMETERS]
    return (
        [f"neither cases nor a stream tell {', '.join(given)}: what was given stands"]
        if given
        else []
    )


ADJECTIVES = {"shift": "shifted", "module_failure": "module_failed"}
"""How a case is called to which an event happened, where it is not the event's own name."""
OF_EVENTS = ("p_shift", "accuracy_clean", "accuracy_shifted")
"""What a monitor counts of the event shift, among several."""


@dataclass(frozen=True)
class Costs:
    """What one case costs by its outcome; an intervention costs what it costs whether the answer was right or not."""

    right: float = 0.0
    wrong: float = 1.0
    necessary: float = 0.0
    """An alarm on an answer that would have been wrong."""
    unnecessary: float = 0.0
    """An alarm on an answer that would have been right."""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Costs:
        """From a mapping with these names, or with what others call them (`OUTCOME_ALIASES`); others are refused."""
        return cls(**named_outcomes(record))


OUTCOME_ALIASES = {
    "correct": "right",
    "failed": "wrong",
    "missed": "wrong",
    "referred": "necessary",
    "false_alarm": "unnecessary",
}
"""What others call the outcomes: a failure that raised no alarm was missed, one that raised one was referred."""


def named_outcomes(record: Mapping[str, Any]) -> dict[str, float]:
    """Costs by our own names of the outcomes."""
    known, found = [f.name for f in fields(Costs)], dict[str, float]()
    for name, cost in record.items():
        outcome = OUTCOME_ALIASES.get(name, name)
        if outcome not in known:
            near = did_you_mean(name, [*known, *OUTCOME_ALIASES])
            raise ValueError(
                f"unknown outcome {name!r}{near}; expected some of {', '.join([*known, *OUTCOME_ALIASES])}"
            )
        if outcome in found:
            raise ValueError(
                f"{name!r} is another word for an outcome that is there already; give each once"
            )
        found[outcome] = float(cost)
    return found


RIGHT_OR_WRONG = Costs()
"""A right answer costs nothing, a wrong one 1."""
POLYP_COSTS = Costs(right=635.0, wrong=6735.0, necessary=1905.0, unnecessary=1955.0)
"""Table 6, in dollars a patient: endoscopy 635, a missed polyp 6,100 more, a clinician's look 1,905 or 1,955."""
TOLERABLE_POLYP = 1925.0
"""Section 5.3: what always asking a clinician costs."""
POLYP_UNIT = "USD per patient"
POLYP_PARAMETERS = {
    "accuracy_clean": 0.9,
    "accuracy_shifted": 0.62,
    "tpr": 0.96,
    "tnr": 0.54,
    "accuracy_clean_detected": 0.9,
    "accuracy_clean_undetected": 0.9,
    "accuracy_shifted_detected": 0.62,
    "accuracy_shifted_undetected": 0.62,
}
"""The paper prints no polyp accuracies. These agree with figure 11 and table 3: the base tree becomes intolerable at a rate of
0.4, the tree with a detector at 0.9, and the detector's balanced accuracy is 0.75. They do not settle figure 12, of which the
paper prints neither the rate nor the numbers: there a point of the detector saves more than one of the classifier. Here that
holds for the TPR against the accuracy under shift, at every rate; for TPR and TNR together against all accuracies only where the
rate is above 0.76 (at 0.5 a point of the detector is worth half a point of the classifier)."""


def base_tree(
    costs: Costs | Mapping[str, Any] = RIGHT_OR_WRONG, *, unit: str = "cost per case"
) -> Tree:
    """Figure 1: shift, then right or wrong."""
    c = _costs(costs)
    shifted, clean = _answer("accuracy_shifted", c), _answer("accuracy_clean", c)
    return Tree(
        Node("shift", (Branch("shifted", "p_shift", shifted), Branch("clean", None, clean))), unit
    )


def accuracy_tree() -> Tree:
    """Figure 1 with a right answer at 0 and a wrong one at 1: the expectation is the share of wrong answers."""
    return base_tree(RIGHT_OR_WRONG, unit="wrong answers per case")


def detector_tree(costs: Costs | Mapping[str, Any], *, unit: str = "cost per case") -> Tree:
    """Figure 2: shift, then alarm or none, then right or wrong; an alarm calls a person."""
    c = _costs(costs)
    shifted = _verdict("tpr", None, "shifted", c)
    clean = _verdict(None, "tnr", "clean", c)
    return Tree(
        Node("shift", (Branch("shifted", "p_shift", shifted), Branch("clean", None, clean))), unit
    )


def cost_tree(costs: Mapping[str, Any], *, unit: str = "cost per case") -> Tree:
    """Figure 2 where an intervention costs something, else figure 1.

    An intervention costs the same whether the answer was right or not, unless both are given.
    """
    named = named_outcomes(costs)
    called = [named[name] for name in ("necessary", "unnecessary") if name in named]
    if not called:
        return base_tree(Costs(**named), unit=unit)
    return detector_tree(
        Costs(**{"necessary": called[0], "unnecessary": called[0]} | named), unit=unit
    )


def answer_costs(tree: Tree) -> tuple[float, float] | None:
    """The costs of a right and of a wrong answer where a tree has the form of figure 1 and asks for nothing else.

    >>> answer_costs(base_tree(POLYP_COSTS)), answer_costs(detector_tree(POLYP_COSTS))
    ((635.0, 6735.0), None)
    """
    kinds = _two_ways(tree.root)
    found = set()
    for kind, accuracy in (("p_shift", "accuracy_shifted"), (None, "accuracy_clean")):
        leaves = _two_ways(kinds.get(kind))
        right, wrong = leaves.get(accuracy), leaves.get(None)
        if not (isinstance(right, Leaf) and isinstance(wrong, Leaf)):
            return None
        found.add((float(right.cost), float(wrong.cost)))
    return found.pop() if len(found) == 1 else None


def _two_ways(place: Node | Leaf | None) -> dict[str | float | None, Node | Leaf]:
    """What follows by probability, at a node of two branches; nothing elsewhere, where two might have the same."""
    return (
        {b.p: b.then for b in place.branches}
        if isinstance(place, Node) and len(place.branches) == 2
        else {}
    )


def several_events(
    events: Sequence[str],
    costs: Costs | Mapping[str, Any] = RIGHT_OR_WRONG,
    *,
    successive: bool = False,
    dependent: bool = False,
    unit: str = "cost per case",
) -> Tree:
    """A tree for several events: shift, adversarial, ambiguous, module_failure, or any others.

    By default at most one happens to a case: one node, ``p_<event>`` each, and ``accuracy_<event>``, which is ``accuracy_shifted``
    of shift and ``accuracy_module_failed`` of module_failure. With `successive` each event has a node of its own and they may
    meet: ``accuracy_<event>_<event>``. With `dependent` the probability of a later event depends on the earlier ones:
    ``p_<event>_given_<event>``.
    """
    names = tuple(events)
    if not names or len(set(names)) < len(names) or "clean" in names:
        raise ValueError(f"give one or more distinct events, none called clean, found {names}")
    c = _costs(costs)
    if successive:
        if len(names) > 6:
            raise ValueError(
                f"successive events have 2^n combinations; at most 6 events, found {len(names)}"
            )
        _refuse_ambiguous(names, dependent, together=len(names))
        return Tree(_meeting(names, (), c, dependent), unit)
    if dependent:
        raise ValueError(
            "events that exclude each other have no conditional probabilities; add successive=True"
        )
    _refuse_ambiguous(names, dependent, together=1)
    branches = [
        Branch(_adjective(e), _chance_of(e, (), False), _answer(_accuracy_after((e,)), c))
        for e in names
    ]
    return Tree(
        Node("event", (*branches, Branch("clean", None, _answer(_accuracy_after(()), c)))), unit
    )


@dataclass(frozen=True)
class Measured:
    """A tree's parameters as counted before release: values, posteriors, and what was not seen."""

    values: Mapping[str, float]
    posteriors: Mapping[str, Beta]
    notes: tuple[str, ...] = field(default=())


def measured(
    clean: ArrayLike, shifted: ArrayLike, *, prior: tuple[float, float] = (JEFFREYS, JEFFREYS)
) -> Measured:
    """Every live parameter but p_shift from counts (right, wrong) x (no alarm, alarm) of clean and of shifted rows.

    A condition without a row has probability zero (section 3.2.3): its accuracy is set to 0, it does not matter, and a note
    says so. Its posterior is the prior.
    """
    tables = {"clean": _table(clean, "clean"), "shifted": _table(shifted, "shifted")}
    found: dict[str, tuple[int, int]] = {}
    notes: list[str] = []
    for kind, table in tables.items():
        found["tnr" if kind == "clean" else "tpr"] = (
            int(table[:, 0 if kind == "clean" else 1].sum()),
            int(table.sum()),
        )
        found[f"accuracy_{kind}"] = (int(table[0].sum()), int(table.sum()))
        for column, verdict in ((1, "detected"), (0, "undetected")):
            found[f"accuracy_{kind}_{verdict}"] = (
                int(table[0, column].sum()),
                int(table[:, column].sum()),
            )
            if not table[:, column].any():
                notes.append(
                    f"no calibration row was {kind} and {verdict}: this is given probability zero"
                )
    values = {name: right / n if n else 0.0 for name, (right, n) in found.items()}
    return Measured(
        values,
        {n: Beta.from_counts(k, m, prior=prior) for n, (k, m) in found.items()},
        tuple(notes),
    )


def _costs(costs: Costs | Mapping[str, Any]) -> Costs:
    return costs if isinstance(costs, Costs) else Costs.from_dict(costs)


def _answer(accuracy: str, costs: Costs) -> Node:
    right, wrong = Leaf("right answer", costs.right), Leaf("wrong answer", costs.wrong)
    return Node("answer", (Branch("right", accuracy, right), Branch("wrong", None, wrong)))


def _intervention(accuracy: str, costs: Costs) -> Node:
    right, wrong = (
        Leaf("unnecessary intervention", costs.unnecessary),
        Leaf("necessary intervention", costs.necessary),
    )
    return Node("answer", (Branch("right", accuracy, right), Branch("wrong", None, wrong)))


def _verdict(detected: str | None, undetected: str | None, kind: str, costs: Costs) -> Node:
    alarm = Branch("detected", detected, _intervention(f"accuracy_{kind}_detected", costs))
    return Node(
        "verdict",
        (alarm, Branch("undetected", undetected, _answer(f"accuracy_{kind}_undetected", costs))),
    )


def _meeting(
    left: tuple[str, ...], happened: tuple[str, ...], costs: Costs, dependent: bool
) -> Node:
    if not left:
        return _answer(_accuracy_after(happened), costs)
    event, *later = left
    happens = _meeting(tuple(later), (*happened, event), costs, dependent)
    not_so = _meeting(tuple(later), happened, costs, dependent)
    word, chance = _adjective(event), _chance_of(event, happened, dependent)
    return Node(event, (Branch(word, chance, happens), Branch(f"not {word}", None, not_so)))


def _accuracy_after(happened: tuple[str, ...]) -> str:
    return "_".join(("accuracy", *(map(_adjective, happened) if happened else ("clean",))))


def _chance_of(event: str, happened: tuple[str, ...], dependent: bool) -> str:
    return f"p_{event}" + (
        f"_given_{'_'.join(map(_adjective, happened)) or 'none'}" if dependent else ""
    )


def _refuse_ambiguous(events: tuple[str, ...], dependent: bool, *, together: int) -> None:
    """Refuse events whose names run together, so that one parameter would stand for two things or for what a monitor counts."""
    meant: dict[str, tuple[str, ...]] = {}

    def means(parameter: str, *meaning: str) -> None:
        counted = parameter in LIVE_PARAMETERS and parameter not in OF_EVENTS
        if counted or meant.setdefault(parameter, meaning) != meaning:
            clash = "a monitor counts by itself" if counted else "stands for two things"
            raise ValueError(
                f"the events {', '.join(events)} make the parameter {parameter}, which {clash}; rename one"
            )

    for size in range(together + 1):
        for happened in combinations(events, size):
            means(_accuracy_after(happened), "accuracy", *happened)
    for at, event in enumerate(events):
        for size in range(at + 1 if dependent else 1):
            for happened in combinations(events[:at], size):
                means(_chance_of(event, happened, dependent), "chance", event, *happened)


def _adjective(event: str) -> str:
    return ADJECTIVES.get(event, event)


def _table(counts: ArrayLike, kind: str) -> np.ndarray:
    table = np.asarray(counts)
    if table.shape != (2, 2) or table.dtype.kind not in "iu" or (table < 0).any():
        raise ValueError(
            f"{kind}: expected counts (right, wrong) x (no alarm, alarm), 2 x 2 whole numbers, found {counts!r}"
        )
    return table
