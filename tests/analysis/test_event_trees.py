"""Event trees against enumeration of every path, finite differences, closed forms and a large simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.prototypes import known_probability
from roadworthy.analysis.risk.tree import (
    Tree,
    derivatives,
    endings,
    evaluate,
    expectation,
    worth,
)


def leaf(cost, outcome="end"):
    return {"outcome": outcome, "cost": cost}


def split(p, then, otherwise, event="event"):
    return {"event": event, "branches": {"yes": {"p": p, "then": then}, "no": {"then": otherwise}}}


@st.composite
def tree_dicts(draw, depth=3):
    """Random trees: one to four branches, numbers and names for p, names shared between nodes."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return leaf(draw(st.floats(-1e3, 1e4)), draw(st.sampled_from("abc")))
    count = draw(st.integers(1, 4))
    rest = draw(st.integers(0, count - 1))
    branches = {}
    for i in range(count):
        branch = {"then": draw(tree_dicts(depth=depth - 1))}
        if i != rest:
            # Up to three named shares of at most 0.3 each leave something for the rest.
            branch["p"] = draw(
                st.one_of(st.sampled_from(["u", "v", "w", "x"]), st.floats(0.0, 0.3))
            )
        branches[f"b{i}"] = branch
    return {"event": f"e{depth}", "branches": branches}


trees = tree_dicts().filter(lambda t: "event" in t).map(Tree.from_dict)
values = st.fixed_dictionaries({name: st.floats(0.0, 0.3) for name in "uvwx"})


def by_paths(content, parameters, reach=1.0):
    """Every path's probability and cost, walked over the plain data."""
    if "outcome" in content:
        return [(reach, content["cost"])]
    found = []
    given_p = [parameters.get(b["p"], b["p"]) for b in content["branches"].values() if "p" in b]
    for branch in content["branches"].values():
        p = parameters.get(branch["p"], branch["p"]) if "p" in branch else 1.0 - math.fsum(given_p)
        found += by_paths(branch["then"], parameters, reach * p)
    return found


@given(trees, values)
@settings(max_examples=40)
def test_the_expectation_is_the_sum_over_all_paths(tree, parameters):
    paths = by_paths(tree.to_dict(), parameters)
    assert expectation(tree, parameters) == pytest.approx(
        math.fsum(p * c for p, c in paths), rel=1e-12, abs=1e-9
    )
    found = evaluate(tree, parameters)
    assert [leaf.probability for leaf in found.leaves] == pytest.approx(
        [p for p, _ in paths], abs=1e-12
    )
    assert math.fsum(leaf.probability for leaf in found.leaves) == pytest.approx(1.0, abs=1e-12)
    assert math.fsum(leaf.contribution for leaf in found.leaves) == pytest.approx(
        found.expectation, abs=1e-8
    )
    assert [leaf.path for leaf in found.leaves] == [path for path, _ in endings(tree)]


@given(trees, values)
@settings(max_examples=30)
def test_derivatives_are_those_of_finite_differences(tree, parameters):
    slopes = derivatives(tree, parameters)
    assert set(slopes) == set(tree.parameters)
    h, size = 1e-6, max(map(abs, tree.costs)) + 1.0
    for name in tree.parameters:
        inner = min(max(parameters[name], h), 0.3 - h)
        at = {**parameters, name: inner}
        ahead, behind = (expectation(tree, {**at, name: inner + d}) for d in (h, -h))
        assert derivatives(tree, at)[name] == pytest.approx(
            (ahead - behind) / (2 * h), abs=1e-6 * size
        )


@given(trees)
@settings(max_examples=30)
def test_a_tree_survives_plain_data(tree):
    assert Tree.from_dict(tree.to_dict()) == tree


@given(trees, st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_arrays_broadcast_to_what_single_numbers_give(tree, seed):
    rng = np.random.default_rng(seed)
    arrays = {
        "u": rng.uniform(0, 0.3, (2, 1, 3)),
        "v": rng.uniform(0, 0.3, (4, 1)),
        "w": 0.1,
        "x": rng.uniform(0, 0.3, 3),
    }
    shapes = [np.shape(arrays[n]) for n in tree.parameters]
    found, slopes = np.asarray(expectation(tree, arrays)), derivatives(tree, arrays)
    if not any(shapes):
        return
    shape = np.broadcast_shapes(*shapes)
    full = {n: np.broadcast_to(arrays[n], shape) for n in tree.parameters}
    # A branch of probability number 0 or a leaf right away may make a parameter drop out of the numbers, not of the shape.
    assert np.broadcast_shapes(found.shape, shape) == shape and found.dtype == np.float64
    for at in itertools.product(*map(range, shape)):
        single = {n: float(full[n][at]) for n in full}
        assert np.broadcast_to(found, shape)[at] == pytest.approx(
            expectation(tree, single), rel=1e-12, abs=1e-9
        )
        for name, slope in derivatives(tree, single).items():
            assert np.broadcast_to(slopes[name], shape)[at] == pytest.approx(
                slope, rel=1e-9, abs=1e-8
            )


def test_one_parameter_at_several_nodes_of_one_path_has_the_derivative_of_its_power():
    # cost = 80 p^3 + 10 (1 - p): the derivative is 240 p^2 - 10
    tree = Tree.from_dict(split("p", split("p", split("p", leaf(80), leaf(0)), leaf(0)), leaf(10)))
    assert expectation(tree, {"p": 0.3}) == pytest.approx(80 * 0.027 + 7)
    assert derivatives(tree, {"p": 0.3})["p"] == pytest.approx(240 * 0.09 - 10)


def test_a_node_with_several_branches_takes_from_the_rest():
    content = {
        "event": "kind",
        "branches": {
            "a": {"p": "pa", "then": leaf(100)},
            "b": {"p": 0.2, "then": leaf(10)},
            "c": {"p": "pc", "then": leaf(1)},
            "none": {"then": leaf(0)},
        },
    }
    tree = Tree.from_dict(content, unit="EUR per case")
    assert tree.parameters == ("pa", "pc") and tree.costs == (0, 100)
    assert expectation(tree, {"pa": 0.1, "pc": 0.5}) == pytest.approx(10 + 2 + 0.5)
    assert derivatives(tree, {"pa": 0.1, "pc": 0.5}) == pytest.approx({"pa": 100, "pc": 1})


def test_a_point_of_one_parameter_in_points_of_another():
    tree = Tree.from_dict(split("a", leaf(0), split("b", leaf(0), leaf(100))), unit="EUR")
    found = worth(tree, {"a": 0.5, "b": 0.8}, ["a"], ["b"], ["a", "b"])
    assert found == pytest.approx((0.2, 0.5, 0.7))


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="from 0 to 1"):
        known_probability("p_rain", (3, 2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"p": 0.5},
            r"in the tree at yes > inner > yes: the parameter 'q' has no value; given are p",
        ),
        (
            {"p": 1.2, "q": 0.5},
            r"in the tree at outer > yes: p must lie between 0 and 1, found 1.2",
        ),
        ({"p": [0.1, -0.3], "q": 0.5}, r"at outer > yes: p must lie between 0 and 1, found"),
        (
            {"p": [0.1, math.nan], "q": 0.5},
            r"at outer > yes: p must lie between 0 and 1, found",
        ),
    ],
)
def test_values_that_are_no_probabilities_are_refused_with_their_place(parameters, message):
    tree = Tree.from_dict(split("p", split("q", leaf(1), leaf(0), "inner"), leaf(0), "outer"))
    with pytest.raises(ValueError, match=message):
        expectation(tree, parameters)


def test_branches_that_do_not_add_up_are_refused_with_their_place():
    both = {
        "event": "kind",
        "branches": {"a": {"p": "pa", "then": leaf(1)}, "b": {"p": "pb", "then": leaf(0)}},
    }
    tree = Tree.from_dict(split(0.5, both, leaf(0)))
    assert expectation(tree, {"pa": 0.3, "pb": 0.7}) == pytest.approx(0.15)
    with pytest.raises(ValueError, match=r"at yes > kind: pa, pb add up to 0.9"):
        expectation(tree, {"pa": [0.3, 0.2], "pb": 0.7})
    with pytest.raises(ValueError, match=r"add up to 1.1"):
        expectation(tree, {"pa": 0.4, "pb": 0.7})


def test_rounding_is_no_mistake():
    tree = Tree.from_dict(split("p", leaf(1), leaf(0)))
    assert expectation(tree, {"p": -1e-17}) == pytest.approx(0.0) and expectation(
        tree, {"p": 1 + 1e-15}
    ) == pytest.approx(1)


BRANCH = {"then": leaf(0)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"event": "e", "branches": {"a": {**BRANCH, "prob": 1}}},
            r"tree.branches.a: expected then, found then, prob",
        ),
        ({"event": "e", "leaves": {}}, r"tree: expected event and branches"),
        ({"event": "e"}, r"tree: expected event and branches"),
        ({"event": "e", "branches": {}}, r"tree: the event 'e' needs branches"),
        ({"event": "e", "branches": [BRANCH]}, r"tree.branches: expected a mapping"),
        ({"event": "e", "branches": {True: BRANCH}}, r"put yes, no, on, off and null in quotes"),
        ({"event": "e", "branches": {"a": {"p": 0.5}}}, r"tree.branches.a: expected then"),
        (
            {"event": "e", "branches": {"a": BRANCH, "b": BRANCH}},
            r"leaves out p, found a, b",
        ),
        (
            {"event": "e", "branches": {"a": {**BRANCH, "p": 1.5}, "b": BRANCH}},
            r"from 0 to 1 .* found 1.5",
        ),
        (
            {"event": "e", "branches": {"a": {**BRANCH, "p": "0.5"}, "b": BRANCH}},
            r"or a parameter's name",
        ),
        (
            {"event": "e", "branches": {"a": {**BRANCH, "p": True}, "b": BRANCH}},
            r"from 0 to 1 .* found True",
        ),
        (
            {"event": "e", "branches": {"a": {**BRANCH, "p": 0.5}}},
            r"add up to 0.5; leave out",
        ),
        (
            {"event": "e", "branches": {"a": {"then": {"outcome": "x"}}}},
            r"tree.branches.a.then: expected outcome and cost",
        ),
        (
            {"event": "e", "branches": {"a": {"then": leaf("dear")}}},
            r"a.then: the cost of 'end' must be a finite number",
        ),
        (
            {"event": "e", "branches": {"a": {"then": leaf(math.inf)}}},
            r"must be a finite number, found inf",
        ),
        (
            {"event": "e", "branches": {"a": {"then": None}}},
            r"tree.branches.a.then: expected .* found None",
        ),
        (leaf(3), r"expected an event with branches at the start, found an outcome"),
        ("a tree", r"tree: expected a mapping"),
    ],
)
def test_a_tree_that_is_not_one_is_refused_with_the_place(content, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_dict(content)


def test_the_unit_is_said_once():
    content = {"unit": "EUR", "event": "e", "branches": {"a": BRANCH}}
    assert Tree.from_dict(content, unit="EUR").unit == "EUR"
    with pytest.raises(ValueError, match="given twice"):
        Tree.from_dict(content, unit="USD")


SEVERAL = {
    "event": "event",
    "branches": {
        "shifted": {"p": "p_shift", "then": leaf(10.0)},
        "attacked": {"p": "p_attack", "then": leaf(100.0)},
        "broken": {"p": 0.05, "then": leaf(1000.0)},
        "clean": {"then": leaf(0.0)},
    },
}


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), st.floats(0.0, 0.95))
def test_a_live_probability_is_at_most_what_the_other_branches_leave(rates, attack):
    tree, rate = Tree.from_dict(SEVERAL), np.array(rates)
    for given_attack in (attack, np.full((3, 1), attack)):
        found = expectation(tree, {"p_shift": rate, "p_attack": given_attack})
        wanted = 10.0 * np.minimum(rate, 0.95 - attack) + 100.0 * attack + 50.0
        assert found == pytest.approx(np.broadcast_to(wanted, found.shape), abs=1e-9)
        valued = evaluate(tree, {"p_shift": rate, "p_attack": given_attack})
        assert sum(v.probability for v in valued.leaves) == pytest.approx(np.ones(found.shape))
        assert all((v.probability > -1e-12).all() for v in valued.leaves if np.ndim(v.probability))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"p_shift": 0.97, "p_attack": 0.05},
            "p_shift, p_attack, 0.05 add up to 1.07",
        ),
        (
            {"p_shift": 1.2, "p_attack": 0.0},
            "p_shift must lie between 0 and 1",
        ),
        (
            {"p_shift": [0.5, 1.2], "p_attack": 0.0},
            "p_shift must lie between 0 and 1",
        ),
        ({"p_shift": [0.0, 0.5], "p_attack": 0.97}, "add up to 1.02"),
    ],
)
def test_what_is_no_probability_by_itself_or_among_numbers_is_still_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        expectation(Tree.from_dict(SEVERAL), parameters)


def test_a_sum_above_one_of_parameters_that_no_stream_tells_is_still_refused():
    other = {
        **SEVERAL,
        "branches": {**SEVERAL["branches"], "shifted": {"p": "p_rain", "then": leaf(10.0)}},
    }
    with pytest.raises(ValueError, match=r"p_rain, p_attack, 0.05 add up to 1.1"):
        expectation(Tree.from_dict(other), {"p_rain": [0.2, 0.95], "p_attack": 0.1})
