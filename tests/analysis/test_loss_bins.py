"""Bins of loss cost what their rows do, and classes of loss together what the tree does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_event_trees import trees, values

from roadworthy.analysis.risk.expected_cost import (
    BINS,
    CountedCases,
    assess_risk,
    loss_bins,
    outcome_classes,
    score_classes,
)
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    base_tree,
    detector_tree,
    several_events,
)
from roadworthy.analysis.risk.tree import endings, evaluate

rows = st.lists(st.tuples(st.integers(0, 9), st.floats(0, 50)), min_size=1, max_size=60)


def binned(cells, losses, *, weights=None, edges=()):
    weights = np.ones(len(cells)) if weights is None else weights
    return loss_bins(np.asarray(cells), np.asarray(losses, dtype=float), np.asarray(weights), edges)


@given(rows)
def test_bins_cost_together_the_mean_loss_of_their_rows(table):
    cells, losses = (np.array(column) for column in zip(*table, strict=True))
    cells = np.unique(cells, return_inverse=True)[1]
    _, classes = binned(cells, losses)
    assert math.fsum(c.adds for c in classes) == pytest.approx(losses.mean(), rel=1e-9, abs=1e-12)
    assert len(classes) <= BINS


def test_cells_of_similar_expected_loss_share_a_bin_of_about_equal_rows():
    rng = np.random.default_rng(0)
    cells = np.repeat(np.arange(20), 50)
    losses = rng.exponential(1.0 + (cells * 7) % 20)
    bin_of_cell, classes = binned(cells, losses)
    expected = np.array([losses[cells == c].mean() for c in range(20)])
    ranges = [expected[bin_of_cell == b] for b in range(BINS)]
    assert all(a.max() < b.min() for a, b in itertools.pairwise(ranges))
    assert [len(r) for r in ranges] == [4] * BINS
    assert [c.expected_loss for c in classes] == pytest.approx(
        [losses[np.isin(cells, np.flatnonzero(bin_of_cell == b))].mean() for b in range(BINS)]
    )


def test_losses_that_differ_by_rounding_alone_share_a_bin():
    losses, weights = [0.3, 0.1 + 0.2, 20.0, 30.0, 40.0, 50.0], [1.0, 1.0, 9.0, 9.0, 9.0, 9.0]
    assert binned(np.arange(6), losses, weights=weights)[0].tolist()[:2] == [0, 0]


edges = st.lists(st.integers(-50, 150), max_size=4, unique=True).map(sorted)


@given(trees, values, edges)
def test_classes_of_outcomes_are_the_tree_and_lie_between_their_edges(tree, parameters, between):
    found, whole = outcome_classes(tree, parameters, between), evaluate(tree, parameters)
    assert math.fsum(c.probability for c in found) == pytest.approx(1.0)
    assert math.fsum(c.adds for c in found) == pytest.approx(whole.expectation, abs=1e-6)
    costs = {(*path, leaf.outcome): leaf.cost for path, leaf in endings(tree)}
    ends = [[(*end["path"], end["outcome"]) for end in c.leaves] for c in found]
    assert sorted(itertools.chain(*ends)) == sorted(costs)
    for one, inside in zip(found, ends, strict=True):
        assert {one.low, one.high} <= {-math.inf, math.inf, *between} or not between
        assert all(
            one.low <= costs[end] and (costs[end] < one.high or not between) for end in inside
        )
        assert one.adds == pytest.approx(one.probability * one.expected_loss, abs=1e-6)


def test_an_outcome_that_never_happens_stands_in_the_class_of_its_cost():
    found = outcome_classes(
        base_tree(POLYP_COSTS), {"p_shift": 0.0, "accuracy_clean": 1.0, "accuracy_shifted": 0.5}
    )
    assert [(c.low, c.high, c.probability, c.expected_loss) for c in found] == [
        (635, 635, 1, 635),
        (6735, 6735, 0, 6735),
    ]
    assert [len(c.leaves) for c in found] == [2, 2]


def kinds(n: int = 600) -> list[CountedCases]:
    """The score tells wrong answers from right ones, on clean and on shifted cases."""
    rng = np.random.default_rng(0)
    made = []
    for name, p, failing in (("clean", 0.7, 0.05), ("fog", 0.3, 0.4)):
        wrong = rng.random(n) < failing
        score = rng.normal(2.0 * wrong)
        score[:40] = np.nan
        made.append(CountedCases(name, p, wrong, score > 1.0, score=score))
    return made


@pytest.mark.parametrize(
    "tree", [base_tree(POLYP_COSTS), detector_tree(POLYP_COSTS)], ids=["base", "detector"]
)
@pytest.mark.parametrize("between", [(), (1000.0, 2500.0)])
def test_classes_of_scores_cost_together_what_the_cases_do(tree, between):
    rows = kinds()
    whole = assess_risk(tree, rows[0], rows[1:])
    found = score_classes(tree, whole.values, whole.kinds, between)
    assert math.fsum(c.probability for c in found) == pytest.approx(1.0)
    assert math.fsum(c.adds for c in found) == pytest.approx(whole.value)
    wrong = sum(k.probability * k.wrong.mean() for k in rows)
    assert math.fsum(c.probability * c.wrong for c in found) == pytest.approx(wrong)
    assert len(found) > 1 and [c.expected_loss for c in found] == sorted(
        c.expected_loss for c in found
    )
    assert all(c.low - 1e-6 <= c.expected_loss <= c.high + 1e-6 for c in found)
    if tree == base_tree(POLYP_COSTS):
        assert found[-1].wrong > 3 * found[0].wrong, "the score tells them apart"


def test_there_are_no_classes_of_scores_where_they_would_say_something_else():
    rows, tree = kinds(), base_tree(POLYP_COSTS)
    known = assess_risk(tree, rows[0], rows[1:]).values
    plain = [CountedCases(k.name, k.probability, k.wrong) for k in rows]
    assert score_classes(tree, known, plain) == [], "no scores"
    few = [CountedCases(k.name, k.probability, k.wrong[:20], score=k.score[:20]) for k in rows]
    assert score_classes(tree, assess_risk(tree, few[0], few[1:]).values, few) == [], (
        "too few cases"
    )
    events, given_ = (
        several_events(["shift", "adversarial"]),
        {"p_adversarial": 0.2, "accuracy_adversarial": 0.1},
    )
    both = assess_risk(events, rows[0], rows[1:], constants=given_)
    assert score_classes(events, both.values, both.kinds) == [], (
        "a case does not tell whether it is adversarial"
    )


def test_weights_count_rows_as_often_as_they_say():
    cells, losses, weights = [0, 0, 1, 1], [0.0, 4.0, 10.0, 20.0], [3.0, 1.0, 1.0, 1.0]
    _, classes = binned(cells, losses, weights=weights)
    assert [c.expected_loss for c in classes] == pytest.approx([1.0, 15.0])
    assert math.fsum(c.adds for c in classes) == pytest.approx(np.average(losses, weights=weights))
    _, between = binned(cells, losses, edges=[5])
    assert [(c.low, c.high) for c in between] == [(-math.inf, 5.0), (5.0, math.inf)]
