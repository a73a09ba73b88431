"""The event trees of the paper, ready to use, and the costs of its polyp study.

Figure 1: does a shift occur, is the answer right. Figure 2: does a shift occur, does the detector
raise an alarm (then a person takes over), is the answer right. An alarm on an answer that would
have been wrong is a necessary intervention, one on an answer that would have been right an
unnecessary one (Torpmann-Hagen et al. 2025, section 5.3, table 6).

>>> from roadworthy.analysis.risk.tree import expectation
>>> known = {"p_shift": 0.4, "accuracy_clean": 0.9, "accuracy_shifted": 0.62}
>>> expectation(base_tree(POLYP_COSTS), known)
1928.2
>>> expectation(accuracy_tree(), {**known, "p_shift": 0.5})
0.24
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.registry import did_you_mean

from .tree import LIVE_PARAMETERS, Branch, Leaf, Node, Tree, expectation

ADJECTIVES = {"shift": "shifted", "module_failure": "module_failed"}
"""What a case is called that an event happened to, if it is not the event's own name."""
OF_EVENTS = ("p_shift", "accuracy_clean", "accuracy_shifted")
"""What a monitor estimates in a tree of several events."""
OUTCOME_ALIASES = {
    "missed": "wrong",
    "referred": "necessary",
    "false_alarm": "unnecessary",
}
"""Other names of the outcomes: a failure without an alarm was missed, one with an alarm referred."""


@dataclass(frozen=True)
class Costs:
    """What one case costs by its outcome."""

    right: float = 0.0
    wrong: float = 1.0
    necessary: float = 0.0
    """An alarm on an answer that would have been wrong."""
    unnecessary: float = 0.0
    """An alarm on an answer that would have been right."""


Constant = float | tuple[float, float]
"""A probability, or (successes, trials)."""
RIGHT_OR_WRONG = Costs()
"""A right answer costs nothing, a wrong one 1."""
POLYP_COSTS = Costs(right=635.0, wrong=6735.0, necessary=1905.0, unnecessary=1955.0)
"""Table 6, in USD: endoscopy 635, a missed polyp 6,100 more, a clinician's look 1,905 or 1,955."""
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
"""The paper prints no polyp accuracies. These agree with figure 11 and table 3: the base tree
becomes intolerable at a rate of 0.4, the tree with a detector at 0.9, and the detector's balanced
accuracy is 0.75. They do not settle figure 12, whose rate and numbers the paper does not print."""


def asks_for_alarms(tree: Tree) -> bool:
    """Whether what a case costs depends on whether an alarm was raised for it."""
    of_alarms = set(LIVE_PARAMETERS) - set(OF_EVENTS)
    return not of_alarms.isdisjoint(tree.parameters)


def known_probability(name: str, value: ArrayLike) -> float:
    """A constant as a probability; of (successes, trials) the posterior mean, Jeffreys' prior."""
    given = np.asarray(value, dtype=np.float64)
    found = float((given[0] + 0.5) / (given[1] + 1.0)) if given.shape == (2,) else float(given)
    if not 0.0 <= found <= 1.0 or (given.size == 2 and not 0.0 <= given[0] <= given[1]):
        raise ValueError(
            f"the constant {name} must be a number from 0 to 1, or (successes, trials), "
            f"found {value!r:.60}"
        )
    return found


def refuse_live_constants(names: Iterable[str], *, but: Collection[str] = ()) -> None:
    """Refuse a constant with the name of a live parameter; before release `p_shift` may be given."""
    given = set(names) - set(but)
    live = [name for name in LIVE_PARAMETERS if name in given]
    if live:
        raise ValueError(
            f"{', '.join(live)} {'is' if len(live) == 1 else 'are'} counted, on cases and in the "
            "stream, and cannot be a constant; leave it out, or rename the parameter"
        )


def constants_told(names: Iterable[str]) -> list[str]:
    """A note on parameters that are taken as given; none if there are none."""
    given = [name for name in names if name not in LIVE_PARAMETERS]
    return [f"Not measured, used as given: {', '.join(given)}."] if given else []


def named_outcomes(record: Mapping[str, Any]) -> dict[str, float]:
    """Costs by the names of `Costs`; unknown and repeated outcomes are refused."""
    names = [f.name for f in fields(Costs)]
    known, found = [*names, *OUTCOME_ALIASES], dict[str, float]()
    for name, cost in record.items():
        outcome = OUTCOME_ALIASES.get(name, name)
        if outcome not in names:
            near = did_you_mean(name, known)
            raise ValueError(f"unknown outcome {name!r}{near}; outcomes are {', '.join(known)}")
        if outcome in found:
            raise ValueError(f"{name!r} is another word for an outcome that is there already")
        found[outcome] = float(cost)
    return found


def base_tree(costs: Costs = RIGHT_OR_WRONG, *, unit: str = "cost per case") -> Tree:
    """Figure 1: shift, then right or wrong."""
    return _of_shift(_answer("accuracy_shifted", costs), _answer("accuracy_clean", costs), unit)


def accuracy_tree() -> Tree:
    """Figure 1 with costs 0 and 1: the expectation is the share of wrong answers."""
    return base_tree(RIGHT_OR_WRONG, unit="wrong answers per case")


def detector_tree(costs: Costs, *, unit: str = "cost per case") -> Tree:
    """Figure 2: shift, then alarm or none, then right or wrong; an alarm calls a person."""
    clean = _verdict(None, "tnr", "clean", costs)
    return _of_shift(_verdict("tpr", None, "shifted", costs), clean, unit)


def cost_tree(costs: Mapping[str, Any], *, unit: str = "cost per case") -> Tree:
    """Figure 2 if an intervention has a cost, else figure 1; one such cost stands for both."""
    named = named_outcomes(costs)
    called = [named[name] for name in ("necessary", "unnecessary") if name in named]
    if not called:
        return base_tree(Costs(**named), unit=unit)
    both = {"necessary": called[0], "unnecessary": called[0]}
    return detector_tree(Costs(**both | named), unit=unit)


def answer_costs(tree: Tree) -> tuple[float, float] | None:
    """The costs of a right and of a wrong answer if a tree has the form of figure 1, else None."""
    if set(tree.parameters) != set(OF_EVENTS):
        return None
    # Figure 1 costs right a + wrong (1 - a), a = p a_shifted + (1 - p) a_clean, at every corner and
    # at odd points in between.
    p, clean, shifted = np.array([*np.ndindex(2, 2, 2), (0.3, 0.6, 0.2), (0.9, 0.1, 0.7)]).T
    cost = np.asarray(expectation(tree, dict(zip(OF_EVENTS, (p, clean, shifted), strict=True))))
    wrong, right = float(cost[0]), float(cost[2])
    accuracy = p * shifted + (1.0 - p) * clean
    same = np.allclose(cost, wrong + (right - wrong) * accuracy, rtol=1e-12)
    return (right, wrong) if same else None


def several_events(
    events: Sequence[str],
    costs: Costs = RIGHT_OR_WRONG,
    *,
    successive: bool = False,
    unit: str = "cost per case",
) -> Tree:
    """A tree for several events: shift, adversarial, ambiguous, module_failure, or any others.

    By default at most one happens to a case: one node, ``p_<event>`` each, and
    ``accuracy_<event>``, which is ``accuracy_shifted`` for shift and ``accuracy_module_failed`` for
    module_failure. If `successive`, each event has a node of its own and they may meet:
    ``accuracy_<event>_<event>``.
    """
    names = tuple(events)
    if not names or len(set(names)) < len(names) or "clean" in names:
        raise ValueError(f"give one or more distinct events, none called clean, found {names}")
    if successive:
        root, accuracies = _meeting(names, (), costs), 2 ** len(names)
    else:
        answers = [(e, _answer(_accuracy_after((e,)), costs)) for e in names]
        branches = [Branch(ADJECTIVES.get(e, e), f"p_{e}", answer) for e, answer in answers]
        rest = Branch("clean", None, _answer(_accuracy_after(()), costs))
        root, accuracies = Node("event", (*branches, rest)), len(names) + 1
    tree = Tree(root, unit)
    if len(tree.parameters) < len(names) + accuracies or asks_for_alarms(tree):
        raise ValueError(
            f"the events {', '.join(names)} make a parameter that has another meaning already; "
            "rename one"
        )
    return tree


def live_parameters(clean: ArrayLike, shifted: ArrayLike) -> dict[str, Any]:
    """Every live parameter but p_shift from rows: (right, wrong) x (no alarm, alarm), last axes.

    A condition without a row has probability zero (section 3.2.3): its accuracy does not matter and
    is set to that of the clean or of the shifted rows, whatever the verdict.
    """
    found: dict[str, Any] = {}
    for kind, counts in (("clean", clean), ("shifted", shifted)):
        table = np.asarray(counts, dtype=np.float64)
        right, verdicts = table[..., 0, :], table.sum(axis=-2)
        whole, column = verdicts.sum(axis=-1), 0 if kind == "clean" else 1
        found["tnr" if kind == "clean" else "tpr"] = _share(verdicts[..., column], whole)
        usual = found[f"accuracy_{kind}"] = _share(right.sum(axis=-1), whole)
        for i, end in enumerate(("undetected", "detected")):
            found[f"accuracy_{kind}_{end}"] = _share(right[..., i], verdicts[..., i], usual)
    return found


def _share(part: Any, whole: Any, otherwise: Any = 0.0) -> Any:
    found = np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)
    return found if np.ndim(found) else float(found)


def _of_shift(shifted: Node, clean: Node, unit: str) -> Tree:
    branches = Branch("shifted", "p_shift", shifted), Branch("clean", None, clean)
    return Tree(Node("shift", branches), unit)


def _answer(accuracy: str, costs: Costs, *, alarm: bool = False) -> Node:
    right, wrong = Leaf("right answer", costs.right), Leaf("wrong answer", costs.wrong)
    if alarm:
        right = Leaf("unnecessary intervention", costs.unnecessary)
        wrong = Leaf("necessary intervention", costs.necessary)
    return Node("answer", (Branch("right", accuracy, right), Branch("wrong", None, wrong)))


def _verdict(detected: str | None, undetected: str | None, kind: str, costs: Costs) -> Node:
    alarm = _answer(f"accuracy_{kind}_detected", costs, alarm=True)
    none = _answer(f"accuracy_{kind}_undetected", costs)
    branches = Branch("detected", detected, alarm), Branch("undetected", undetected, none)
    return Node("verdict", branches)


def _meeting(left: tuple[str, ...], happened: tuple[str, ...], costs: Costs) -> Node:
    if not left:
        return _answer(_accuracy_after(happened), costs)
    event, word = left[0], ADJECTIVES.get(left[0], left[0])
    happens = Branch(word, f"p_{event}", _meeting(left[1:], (*happened, event), costs))
    not_so = Branch(f"not {word}", None, _meeting(left[1:], happened, costs))
    return Node(event, (happens, not_so))


def _accuracy_after(happened: tuple[str, ...]) -> str:
    return "_".join(
        ("accuracy", *((ADJECTIVES.get(e, e) for e in happened) if happened else ("clean",)))
    )
