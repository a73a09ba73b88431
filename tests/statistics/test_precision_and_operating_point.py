"""Average precision and FPR@TPR against loops over thresholds, jackknives and closed forms; their coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from roadworthy.statistics import (
    Interval,
    average_precision,
    average_precision_interval,
    fpr_at_tpr,
    fpr_at_tpr_interval,
    wilson,
)
from roadworthy.statistics.ranking import _precision

scored = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=4, max_size=60).filter(
    lambda cases: 2 <= sum(mark for _, mark in cases) <= len(cases) - 2
)


def columns(cases) -> tuple[np.ndarray, np.ndarray]:
    scores, marks = zip(*cases, strict=True)
    return np.array(scores, dtype=float), np.array(marks)


def step_area(scores: np.ndarray, positive: np.ndarray) -> float:
    """Precision at every distinct threshold, weighted by the recall it adds."""
    area, before = 0.0, 0.0
    for t in sorted(set(scores.tolist()), reverse=True):
        above = scores >= t
        recall = (above & positive).sum() / positive.sum()
        area += (recall - before) * (above & positive).sum() / above.sum()
        before = recall
    return float(area)


def lowest_rate(scores: np.ndarray, positive: np.ndarray, rate: float) -> float:
    """The smallest false-positive rate among thresholds that enough positives reach."""
    found = []
    for t in set(scores.tolist()):
        if (scores[positive] >= t).sum() >= rate * positive.sum() - 1e-9:
            found.append((scores[~positive] >= t).mean())
    return float(min(found))


@given(scored)
def test_average_precision_is_the_step_area_under_the_curve(cases) -> None:
    scores, positive = columns(cases)
    assert average_precision(scores, positive) == pytest.approx(step_area(scores, positive))


@given(scored, st.sampled_from([0.5, 0.8, 0.95]))
def test_the_rate_is_the_lowest_among_thresholds_that_enough_positives_reach(cases, rate) -> None:
    scores, positive = columns(cases)
    assert fpr_at_tpr(scores, positive, rate=rate) == pytest.approx(
        lowest_rate(scores, positive, rate)
    )


def test_a_small_example_counted_by_hand() -> None:
    scores = np.array([0.1, 0.4, 0.35, 0.8, 0.65, 0.9, 0.4, 0.3])
    positive = np.array([0, 0, 1, 1, 0, 1, 1, 0], bool)
    assert average_precision(scores, positive) == pytest.approx((1 + 1 + 3 / 5 + 4 / 6) / 4)
    assert fpr_at_tpr(scores, positive) == 0.5


def test_influences_are_those_of_leaving_a_case_out() -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(400) < 0.3
    scores = rng.normal(size=400) + positive
    found = _precision(scores, positive)
    rest = np.arange(400)
    left_out = np.array(
        [average_precision(scores[rest != i], positive[rest != i]) for i in range(400)]
    )
    jackknife = 399 * (left_out.mean() - left_out)
    assert np.corrcoef(found.influence, jackknife)[0, 1] > 0.995
    assert found.influence.std() == pytest.approx(jackknife.std(), rel=0.05)
    assert abs(found.influence.mean()) < 1e-12


def test_bias_is_that_of_small_samples() -> None:
    rng = np.random.default_rng(1)
    shift, share = 1.0, 0.2
    positive = rng.random(400_000) < share
    truth = average_precision(rng.normal(size=400_000) + shift * positive, positive)
    values, biases = [], []
    for _ in range(1500):
        marks = rng.random(100) < share
        if 2 <= marks.sum() <= 98:
            found = _precision(rng.normal(size=100) + shift * marks, marks)
            values.append(found.value)
            biases.append(found.bias)
    assert np.mean(values) - truth == pytest.approx(np.mean(biases), abs=0.01)


@settings(deadline=None)
@given(scored, st.randoms(use_true_random=False))
def test_intervals_hold_their_values_and_only_ranks_matter(cases, random) -> None:
    scores, positive = columns(cases)
    order = list(range(len(cases)))
    random.shuffle(order)
    for value, interval in (
        (average_precision, average_precision_interval),
        (fpr_at_tpr, fpr_at_tpr_interval),
    ):
        found = interval(scores, positive)
        assert found.low - 1e-12 <= value(scores, positive) <= found.high + 1e-12
        assert 0 <= found.low <= found.high <= 1
        again = interval(np.exp(scores[order]), positive[order], groups=[f"c{i}" for i in order])
        assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-9)
        wide = interval(scores, positive, confidence=0.99)
        assert wide.low <= found.low + 1e-12 and found.high <= wide.high + 1e-12
        lower, upper = (
            interval(scores, positive, confidence=0.975, sided=s) for s in ("lower", "upper")
        )
        assert (lower.low, upper.high) == pytest.approx((found.low, found.high))
        assert lower.high == 1.0 and upper.low == 0.0


def test_a_perfect_ranking_is_bounded_by_the_smaller_class() -> None:
    found = average_precision_interval(np.arange(60.0), np.arange(60) >= 40)
    assert (found.low, found.high) == (pytest.approx(wilson(20, 20).low), 1.0)
    assert "no variance seen" in found.method


def test_few_positives_do_not_bound_the_rate_from_above() -> None:
    rng = np.random.default_rng(2)
    for positives, bounded in ((71, False), (72, True)):
        positive = np.arange(2000) < positives
        scores = np.where(positive, 9.0, 0.0) + rng.random(2000)
        found = fpr_at_tpr_interval(scores, positive)
        assert found.low == 0.0 and (found.high < 0.01) == bounded, found


def test_groups_widen_where_cases_of_a_group_are_alike() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(40), 20)
    positive = groups % 2 == 0
    scores = rng.normal(size=40)[groups] + 0.2 * rng.normal(size=800) + positive
    for interval in (average_precision_interval, fpr_at_tpr_interval):
        assert interval(scores, positive, groups).width > 1.5 * interval(scores, positive).width


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: average_precision([1, 2], [1, 1]), "a positive and a negative"),
        (lambda: fpr_at_tpr([1, 2], [0, 0]), "a positive and a negative"),
        (lambda: average_precision([1, math.nan], [1, 0]), "scores has 1 NaN"),
        (lambda: fpr_at_tpr([1, 2, 3], [1, 0]), "3 and 2"),
        (lambda: fpr_at_tpr([1, 2], [1, 0], rate=95), "write 0.95 for 95%"),
        (
            lambda: average_precision_interval([1, 2, 3, 4], [0, 0, 1, 1], confidence=1.2),
            "confidence",
        ),
    ],
)
def test_bad_input_is_refused_with_what_to_do(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_one_positive_bounds_nothing_and_says_so() -> None:
    for interval in (average_precision_interval, fpr_at_tpr_interval):
        found = interval([1, 2, 3], [0, 0, 1])
        assert (found.low, found.high) == (0.0, 1.0) and "fewer than two" in found.method


def is_nominal(covered: int, runs: int) -> bool:
    """Whether so few covered is no rarer than 1% under 95%."""
    return bool(binom.cdf(covered, runs, 0.95) > 0.01)


def failures(rng, n: int, share: float, shift: float):
    positive = rng.random(n) < share
    return rng.normal(size=n) + shift * positive, positive, None


def shifts(rng, n: int, shift: float, correlation: float):
    clean = rng.normal(size=n)
    here = correlation * clean + math.sqrt(1 - correlation**2) * rng.normal(size=n) + shift
    return np.r_[here, clean], np.arange(2 * n) < n, np.tile(np.arange(n), 2)


def grouped(rng, count: int, size: int, share: float, shift: float, correlation: float = 0.3):
    groups = np.repeat(np.arange(count), size)
    own, other = (rng.normal(size=count)[groups] * math.sqrt(correlation) for _ in range(2))
    rest = math.sqrt(1 - correlation)
    positive = other + rest * rng.normal(size=len(groups)) < norm.ppf(share)
    return own + rest * rng.normal(size=len(groups)) + shift * positive, positive, groups


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw, small, large, fixed",
    [
        (failures, (2000, 0.09, 1.5), (2_000_000, 0.09, 1.5), False),
        (failures, (2000, 0.09, 0.2), (2_000_000, 0.09, 0.2), False),
        (failures, (2000, 0.5, 1.0), (2_000_000, 0.5, 1.0), False),
        (failures, (2000, 0.09, 3.5), (2_000_000, 0.09, 3.5), False),
        (failures, (300, 0.3, 2.5), (2_000_000, 0.3, 2.5), False),
        (failures, (1000, 0.9, 1.5), (2_000_000, 0.9, 1.5), False),
        (shifts, (2000, 0.5, 0.8), (1_000_000, 0.5, 0.8), True),
        (shifts, (200, 2.5, 0.5), (1_000_000, 2.5, 0.5), True),
        (shifts, (200, 0.2, -0.5), (1_000_000, 0.2, -0.5), True),
        (grouped, (50, 20, 0.2, 1.0), (100_000, 20, 0.2, 1.0), False),
        (grouped, (100, 5, 0.1, 2.0), (100_000, 20, 0.1, 2.0), False),
    ],
)
def test_intervals_cover_the_population(draw, small, large, fixed) -> None:
    scores, positive, _ = draw(np.random.default_rng(1), *large)
    truths = average_precision(scores, positive), fpr_at_tpr(scores, positive)
    rng, runs, held = np.random.default_rng(5), 1000, [0, 0]
    for _ in range(runs):
        scores, positive, groups = draw(rng, *small)
        found: list[Interval] = [
            average_precision_interval(scores, positive, groups, fixed=fixed),
            fpr_at_tpr_interval(scores, positive, groups),
        ]
        for i, (interval, truth) in enumerate(zip(found, truths, strict=True)):
            held[i] += interval.contains(truth)
    assert all(is_nominal(covered, runs) for covered in held), held
