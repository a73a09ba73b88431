"""Open-PSA export: every sequence's probability, computed from the XML alone, is that of its leaf."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from test_event_trees import trees, values

from roadworthy.analysis.risk.open_psa import to_open_psa
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    POLYP_PARAMETERS,
    Costs,
    detector_tree,
    several_events,
)
from roadworthy.analysis.risk.tree import Tree, evaluate, expectation


def probability(formula, events):
    """Of a formula over independent basic events."""
    if formula.tag == "basic-event":
        return events[formula.get("name")]
    if formula.tag == "not":
        return 1.0 - probability(formula[0], events)
    assert formula.tag == "and", formula.tag
    return math.prod(probability(part, events) for part in formula)


def sequences(text):
    """Name of every sequence -> (probability, cost), read as another tool would."""
    document = Xml.fromstring(text)
    basic = document.findall("model-data/define-basic-event")
    events = {e.get("name"): float(e.find("float").get("value")) for e in basic}
    assert len(events) == len(basic) and all(0.0 <= p <= 1.0 for p in events.values())
    order = [e.get("name") for e in document.findall("define-event-tree/define-functional-event")]
    costs = {
        s.get("name"): float(s.find("attributes/attribute[@name='cost']").get("value"))
        for s in document.findall("define-event-tree/define-sequence")
    }
    found = {}

    def walk(place, reach, used):
        for fork in place.findall("fork"):
            name = fork.get("functional-event")
            assert not used or order.index(name) > order.index(used[-1]), (
                "functional events keep their order"
            )
            for path in fork.findall("path"):
                collected = path.find("collect-formula")
                p = 1.0 if collected is None else probability(collected[0], events)
                walk(path, reach * p, [*used, name])
        for end in place.findall("sequence"):
            assert end.get("name") not in found
            found[end.get("name")] = (reach, costs[end.get("name")])

    walk(document.find("define-event-tree/initial-state"), 1.0, [])
    assert set(found) == set(costs)
    return found


def check(tree, parameters):
    text = to_open_psa(tree, parameters)
    found, wanted = sequences(text), evaluate(tree, parameters)
    assert [p for p, _ in found.values()] == pytest.approx(
        [leaf.probability for leaf in wanted.leaves], abs=1e-9
    )
    assert math.fsum(p * c for p, c in found.values()) == pytest.approx(
        wanted.expectation, abs=1e-5
    )
    for name in re.findall(r'(?:name|functional-event|event-tree|state)="([^"]*)"', text):
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*", name), name


@given(trees, values)
def test_sequences_have_the_probabilities_of_their_leaves(tree, parameters):
    check(tree, parameters)


def test_the_polyp_tree_and_several_events():
    check(detector_tree(POLYP_COSTS, unit="USD per patient"), {**POLYP_PARAMETERS, "p_shift": 0.3})
    tree = several_events(("shift", "adversarial", "ambiguous"), Costs(wrong=9.0))
    check(tree, {name: 0.2 if name.startswith("p_") else 0.7 for name in tree.parameters})


def test_a_sum_that_leaves_nothing_for_the_last_branches():
    end = {"outcome": "x", "cost": 1}
    content = {
        "event": "e",
        "branches": {
            "a": {"p": "a", "then": end},
            "b": {"p": "b", "then": end},
            "c": {"then": end},
        },
    }
    check(Tree.from_dict(content), {"a": 1.0, "b": 0.0})
    check(Tree.from_dict(content), {"a": 0.7, "b": 0.3})


def test_any_name_is_escaped_and_stays_readable():
    end = {"outcome": '5 < 6 & "worse"', "cost": 2}
    content = {
        "event": "<shift> & fog",
        "branches": {"ja/nein": {"p": 0.5, "then": end}, "JA nein": {"then": end}},
    }
    text = to_open_psa(Tree.from_dict(content, unit="€ per <case>"), {}, name="7 risks & more")
    document = Xml.fromstring(text)
    assert document.find("define-event-tree/define-functional-event/label").text == "<shift> & fog"
    attributes = document.findall("define-event-tree/define-sequence/attributes/attribute")
    assert '5 < 6 & "worse"' in {a.get("value") for a in attributes} and "€ per <case>" in {
        a.get("value") for a in attributes
    }
    assert sequences(text).keys() == {"S1", "S2"}
    states = [p.get("state") for p in document.iter("path")]
    assert len({s.lower() for s in states}) == 2


def test_only_numbers_can_be_written():
    tree = several_events(("shift",))
    with pytest.raises(ValueError, match="the parameter 'p_shift' has no value"):
        to_open_psa(tree, {})
    assert (
        expectation(tree, {"p_shift": 0.1, "accuracy_clean": 1.0, "accuracy_shifted": 1.0}) == 0.0
    )
