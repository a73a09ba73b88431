from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t, ttest_1samp

from roadworthy.statistics import (
    clopper_pearson,
    clustered_proportion,
    design_effect,
    effective_size,
    intraclass_correlation,
    jeffreys,
    mean,
    ratio,
    wilson,
)
from roadworthy.statistics.clusters import discounted_size

PLAIN = {"wilson": wilson, "clopper_pearson": clopper_pearson, "jeffreys": jeffreys}
grouped = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6)), min_size=2, max_size=60)


@pytest.mark.parametrize("method", PLAIN)
@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_without_groups_or_with_a_group_per_case_it_is_the_plain_interval(method, outcomes) -> None:
    expected = PLAIN[method](sum(outcomes), len(outcomes))
    for groups in (None, list(range(len(outcomes)))):
        found = clustered_proportion(outcomes, groups, method=method)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("method", PLAIN)
@given(grouped)
@settings(max_examples=60)
def test_groups_never_narrow_and_names_and_order_do_not_matter(method, cases) -> None:
    outcomes, groups = (np.array(column) for column in zip(*cases, strict=True))
    found = clustered_proportion(outcomes, groups, method=method, confidence=0.9)
    plain = clustered_proportion(outcomes, method=method, confidence=0.9)
    order = np.random.default_rng(len(cases)).permutation(len(cases))
    renamed = clustered_proportion(
        outcomes[order], [f"patient {7 - g}" for g in groups[order]], method=method, confidence=0.9
    )
    mirrored = clustered_proportion(1 - outcomes, groups, method=method, confidence=0.9)
    assert (renamed.low, renamed.high) == pytest.approx((found.low, found.high), abs=1e-9)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high), abs=1e-9)
    if method != "jeffreys":
        assert found.low - 1e-9 <= outcomes.mean() <= found.high + 1e-9
    assert found.width >= plain.width - 1e-9
    assert 0 < effective_size(outcomes, groups) <= len(cases)


@given(grouped, st.floats(0.05, 0.95), st.floats(0.005, 0.04))
def test_more_confidence_never_narrows_a_clustered_interval(cases, confidence, more) -> None:
    outcomes, groups = (np.array(column) for column in zip(*cases, strict=True))
    for sided in ("two", "lower", "upper"):
        narrow = clustered_proportion(outcomes, groups, confidence=confidence, sided=sided)
        wide = clustered_proportion(outcomes, groups, confidence=confidence + more, sided=sided)
        assert wide.low <= narrow.low + 1e-9 and narrow.high <= wide.high + 1e-9


def test_copies_of_a_case_add_no_information() -> None:
    rng = np.random.default_rng(0)
    outcomes = rng.random(60) < 0.5
    groups = np.repeat(np.arange(60), 20)
    assert effective_size(np.repeat(outcomes, 20), groups) == pytest.approx(60, rel=0.03)
    assert intraclass_correlation(np.repeat(outcomes, 20), groups) == pytest.approx(1.0)
    assert design_effect(np.repeat(outcomes, 20), groups) == pytest.approx(20, rel=0.03)


def test_independent_cases_keep_nearly_their_number() -> None:
    rng = np.random.default_rng(1)
    values, groups = rng.normal(size=20000), np.repeat(np.arange(400), 50)
    assert effective_size(values, groups) > 15000
    assert abs(intraclass_correlation(values, groups)) < 0.01


def test_intraclass_correlation_is_the_analysis_of_variance_estimate() -> None:
    # By hand: means 2, 5; between = 2 * (1.5^2 + 1.5^2) / 1 = 9; within = (2 + 2) / 2 = 2; (9 - 2) / (9 + 2).
    assert intraclass_correlation([1, 3, 4, 6], ["a", "a", "b", "b"]) == pytest.approx(7 / 11)


def test_zero_failures_in_groups_count_groups_not_cases() -> None:
    groups = np.repeat(np.arange(50), 30)
    found = clustered_proportion(np.zeros(1500), groups, sided="upper")
    assert found.high == pytest.approx(wilson(0, 50, sided="upper").high)
    assert "each group counts as one case" in found.method
    assert found.high > 20 * wilson(0, 1500, sided="upper").high
    unequal = np.repeat([0, 1, 2], [1000, 10, 10])
    assert effective_size(np.ones(1020), unequal) == pytest.approx(1020**2 / (1000**2 + 200))


def test_failures_in_a_single_group_are_not_taken_as_well_known() -> None:
    groups = np.repeat(np.arange(50), 30)
    outcomes = np.zeros(1500)
    outcomes[0] = 1.0
    assert (
        clustered_proportion(outcomes, groups, sided="upper").high
        > 4 * wilson(1, 1500, sided="upper").high
    )


def test_one_group_bounds_nothing_and_says_so() -> None:
    found = clustered_proportion([0, 1, 1], ["a", "a", "a"])
    assert (found.low, found.high) == (0.0, 1.0) and "one group" in found.method
    assert effective_size([0.1, 0.2], [1, 1]) == 1.0
    line = mean([0.1, 0.2], [1, 1])
    assert (line.low, line.high) == (-math.inf, math.inf) and "one group" in line.method


def test_groups_that_balance_do_not_beat_independent_cases() -> None:
    outcomes, groups = [0, 1] * 20, np.repeat(np.arange(20), 2)
    assert effective_size(outcomes, groups) == 40
    assert mean(np.array(outcomes) + 0.0, groups).width >= mean(outcomes).width


@pytest.mark.parametrize("freedom", [3.0, 49.0])
@pytest.mark.parametrize("confidence", [0.6, 0.95])
def test_discount_is_the_squared_ratio_of_normal_and_t_quantiles(freedom, confidence) -> None:
    expected = 100 * (norm.ppf(confidence) / t.ppf(confidence, freedom)) ** 2
    assert discounted_size(100.0, freedom, 1 - confidence) == pytest.approx(expected)
    assert discounted_size(100.0, freedom, 0.5) == pytest.approx(
        100 * (t.pdf(0, freedom) / norm.pdf(0)) ** 2, rel=1e-3
    )


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40).filter(lambda v: np.ptp(v) > 1e-3))
def test_mean_without_groups_is_students_interval(values) -> None:
    expected = ttest_1samp(values, 0.0).confidence_interval(0.9)
    found = mean(values, confidence=0.9)
    assert (found.low, found.high) == pytest.approx(
        (expected.low, expected.high), rel=1e-6, abs=1e-6
    )


def test_mean_of_equal_groups_is_students_interval_of_the_group_means() -> None:
    rng = np.random.default_rng(2)
    centres = np.linspace(
        -1, 1, 12
    )  # flat: neither kurtosis nor skewness takes degrees of freedom away
    values = centres[:, None] + 0.01 * rng.normal(size=(12, 5))
    expected = ttest_1samp(values.mean(axis=1), 0.0).confidence_interval(0.95)
    found = mean(values.ravel(), np.repeat(np.arange(12), 5))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=2e-3)


def test_mean_of_equal_values_claims_nothing() -> None:
    found = mean([0.1] * 30)
    assert (found.low, found.high) == (-math.inf, math.inf) and "equal values" in found.method


def test_ratio_is_the_explicit_jackknife() -> None:
    rng = np.random.default_rng(3)
    above, below, groups = rng.poisson(3, 60), rng.uniform(1, 5, 60), np.arange(60)
    whole = above.sum() / below.sum()
    left_out = np.array([np.delete(above, i).sum() / np.delete(below, i).sum() for i in range(60)])
    error = math.sqrt(59 / 60 * np.sum((whole - left_out) ** 2))
    found = ratio(above, below, groups)
    assert found.high == pytest.approx(whole + t.ppf(0.975, 59) * error)
    assert found.low == pytest.approx(whole - t.ppf(0.975, 59) * error)


@given(st.lists(st.integers(0, 30), min_size=3, max_size=30).filter(lambda v: len(set(v)) > 1))
def test_ratio_to_equal_denominators_is_the_mean(values) -> None:
    found, expected = ratio(values, np.full(len(values), 2.0)), mean(np.array(values) / 2.0)
    assert (found.low, found.high) == pytest.approx(
        (expected.low, expected.high), rel=1e-9, abs=1e-9
    )


def test_ratio_with_exposure_in_one_group_only_claims_nothing() -> None:
    found = ratio([1, 2, 0], [3, 4, 0], ["a", "a", "b"])
    assert math.isinf(found.low) and "one group" in found.method


def test_open_side_of_a_mean_is_infinite() -> None:
    assert mean([1, 2, 4], sided="lower").high == math.inf
    assert mean([1, 2, 4], sided="upper").low == -math.inf


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: clustered_proportion([]), "empty"),
        (lambda: clustered_proportion([0, 1, math.nan]), "NaN"),
        (lambda: clustered_proportion([0, 0.5]), "0/1"),
        (lambda: clustered_proportion([0, 1], [1]), "one label per case"),
        (lambda: clustered_proportion([0, 1], [1, math.nan]), "missing labels"),
        (lambda: clustered_proportion([0, 1], ["a", None]), "missing labels"),
        (lambda: clustered_proportion([0, 1], method="wald"), "method must be one of"),
        (lambda: clustered_proportion(["yes", "no"]), "numbers or booleans"),
        (lambda: clustered_proportion([[0, 1]]), "one-dimensional"),
        (lambda: mean([1, math.inf]), "infinite"),
        (lambda: mean([1, 2], confidence=0.0), "confidence"),
        (lambda: ratio([1, 2], [1]), "2 and 1"),
        (lambda: ratio([1, 2], [1, -1]), "negative"),
        (lambda: ratio([1, 2], [0, 0]), "all be 0"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
