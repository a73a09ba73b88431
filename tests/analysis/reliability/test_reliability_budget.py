"""Budgets: allocation against brute force, bounds that hold, stopping that does not cheat."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from roadworthy.analysis.reliability.budget import (
    label_decision,
    label_next,
    neyman,
    stratified,
    top_cells,
)


def test_without_a_least_share_the_allocation_has_the_smallest_variance_of_all():
    mass = np.array([0.6, 0.3, 0.1])
    failed, tests, total = np.array([1, 6, 0]), np.array([20, 20, 20]), 60
    rate = (failed + 0.5) / (tests + 1.0)

    def variance(counts: np.ndarray) -> float:
        return float((mass**2 * rate * (1 - rate) / counts).sum())

    found = neyman(mass, failures=failed, tests=tests, total=total, least=0.0)
    best = min(
        variance(np.array([a, b, total - a - b]))
        for a, b in product(range(1, total), repeat=2)
        if a + b < total
    )
    # One test goes to each stratum first: that costs a little.
    assert variance(found) <= 1.02 * best


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(100, 2000),
)
@settings(max_examples=80)
def test_allocations_add_up_reach_every_stratum_and_keep_weights_below_about_ten(cells, total):
    size, failed = np.array(cells).T
    if not size.any():
        size = size + 1
    mass = size / size.sum()
    found = neyman(mass, failures=failed, tests=np.full(len(mass), 9), total=total)
    assert found.sum() == total
    assert (found[mass > 0] >= 1).all() and (found[mass == 0] == 0).all()
    assert (mass * total / np.maximum(found, 1)).max() <= 10 * total / (total - len(mass)) + 1e-9


def test_too_few_tests_for_the_strata_are_refused():
    with pytest.raises(ValueError, match="merge strata"):
        neyman(np.full(10, 0.1), failures=np.zeros(10), tests=np.ones(10), total=9)


def test_the_stratified_estimate_is_unbiased_and_its_bound_holds():
    mass, rates = np.array([0.7, 0.2, 0.1]), np.array([0.002, 0.03, 0.2])
    truth, rng = float(mass @ rates), np.random.default_rng(0)
    points, variances, held = [], [], 0
    for _ in range(400):
        pilot = rng.binomial(20, rates)
        tests = neyman(mass, failures=pilot, tests=np.full(3, 20), total=600)
        found = stratified(mass, rng.binomial(tests, rates), tests)
        points.append(found.estimate)
        variances.append(found.variance)
        held += found.upper >= truth
    assert np.mean(points) == pytest.approx(truth, abs=4 * np.std(points) / 20)
    assert np.mean(variances) == pytest.approx(np.var(points), rel=0.25)
    assert binom.cdf(held, 400, 0.975) > 0.01
    plain = truth * (1 - truth) / 600
    assert np.var(points) < 0.8 * plain, "allocation must beat drawing by the profile"


def test_strata_without_tests_count_as_failing():
    found = stratified([0.8, 0.2], [0, 0], [100, 0])
    assert (found.estimate, found.untested) == (0.2, 0.2)
    assert found.upper == pytest.approx(0.2 + 0.8 * (1 - 0.025 ** (1 / 100)))
    assert stratified([1.0], [0], [0]).upper == 1.0


def test_labels_stop_when_the_claim_is_met_or_cannot_be():
    assert label_decision(0, 0, limit=0.01).decision == "go on"
    assert label_decision(0, 1000, limit=0.01).decision == "met"
    assert label_decision(60, 1000, limit=0.01).decision == "cannot"
    assert label_decision(12, 1000, limit=0.01).decision == "go on"


def test_stopping_at_the_first_look_that_says_so_is_false_less_often_than_stated():
    rng, false, runs = np.random.default_rng(5), 0, 50
    for _ in range(runs):
        k = rng.binomial(100, 0.02, 30).cumsum()
        looks = (label_decision(int(x), 100 * (i + 1), limit=0.02 - 1e-9) for i, x in enumerate(k))
        false += any(look.decision == "met" for look in looks)
    assert false <= binom.ppf(0.99, runs, 0.025)


def test_the_cells_to_cover_follow_the_claim_and_ties_go_to_the_lower_number():
    mass = np.array([0.2, 0.3, 0.2, 0.29, 0.0099, 0.0001])
    found = top_cells(mass, 0.01)
    assert found.cells.tolist() == [1, 3, 0, 2, 4]
    assert found.uncovered == pytest.approx(0.0001)
    assert top_cells(mass, 0.2).cells.tolist() == [1, 3, 0, 2]
    with pytest.raises(ValueError, match="add cells"):
        top_cells(mass * 0.99, 0.01)


def test_the_next_labels_are_asked_for_where_most_inputs_have_none():
    points = np.array([[0.1], [0.2], [0.3], [0.9], [0.95], [0.5], [0.31], [0.6]])
    cells = np.array([0, 0, 0, 2, 2, 1, 0, 1])
    reached = np.array([-1, -1, -1, -1, -1, 0, 1, -1])
    first, second = label_next(points, cells, reached, count=2)
    assert (first.cell, first.mass, first.rows.tolist()) == (0, 3 / 8, [1])
    assert (second.cell, second.mass) == (2, 2 / 8)
    assert label_next(points, cells, np.zeros(8, int), count=2) == []
