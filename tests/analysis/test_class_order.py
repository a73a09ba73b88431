"""Which orders of classes are suspected, and which are not: false suspicion stops somebody's release."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.class_order import suspected_order


def answers(rng, truth, count, accuracy, order):
    """Answers that are right so often, read at positions that are permuted."""
    meant = np.where(rng.random(len(truth)) < accuracy, truth, rng.integers(0, count, len(truth)))
    position_of = np.argsort(order)
    return position_of[meant]


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (2, (1, 0)),
        (3, (2, 0, 1)),
        (10, (*range(1, 10), 0)),
        (12, (0, 1, 10, 11, *range(2, 10))),
    ],
    ids=["reversed", "cycle", "shifted by one", "sorted as text"],
)
def test_a_permuted_order_is_found_position_by_position(count, order):
    rng = np.random.default_rng(count)
    truth = rng.integers(0, count, 600)
    found = suspected_order(answers(rng, truth, count, 0.8, order), truth, count)
    assert found is not None and found.classes == order and found.clear
    assert found.suspected > 0.7 > found.accuracy


@pytest.mark.parametrize("count", [2, 3, 10, 40])
@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9])
def test_a_poor_or_good_model_in_the_right_order_is_seldom_suspected(count, accuracy):
    rng = np.random.default_rng([count, int(10 * accuracy)])
    suspected = 0
    for _ in range(100):
        truth = rng.integers(0, count, 120)
        suspected += (
            suspected_order(answers(rng, truth, count, accuracy, np.arange(count)), truth, count)
            is not None
        )
    assert suspected <= 1


def test_few_cases_and_one_answer_for_all_are_no_evidence():
    truth = np.arange(400) % 2
    assert suspected_order(1 - truth[:99], truth[:99], 2) is None
    assert (
        suspected_order(np.zeros(400, int), np.r_[np.zeros(40, int), np.ones(360, int)], 2) is None
    )
    assert suspected_order(np.full(400, -1), truth, 2) is None


def test_a_poor_order_that_is_somewhat_better_is_no_clear_one():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 4000)
    found = suspected_order(answers(rng, truth, 2, 0.3, (1, 0)), truth, 2)
    assert found is not None and not found.clear and found.suspected < 0.7


def test_groups_are_judged_as_a_whole():
    rng = np.random.default_rng(6)
    truth, groups = np.repeat([0, 1] * 3, 50), np.repeat(np.arange(6), 50)
    flipped = rng.random(6) < 0.5
    answered = np.where(flipped[groups], 1 - truth, truth)
    assert suspected_order(answered, truth, 2, groups) is None
