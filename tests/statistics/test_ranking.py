from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm

from roadworthy.statistics import auc, cases_to_settle_area, delong, wilson
from roadworthy.statistics.ranking import _Cases, _components, _covariance, exponential_variance

scored = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=4, max_size=60).filter(
    lambda cases: 2 <= sum(mark for _, mark in cases) <= len(cases) - 2
)


def kernel(scores, positive) -> np.ndarray:
    """1 where the positive (row) scores above the negative (column), one half for a tie."""
    up, down = scores[positive][:, None], scores[~positive][None, :]
    return (up > down) + 0.5 * (up == down)


def columns(cases) -> tuple[np.ndarray, np.ndarray]:
    scores, marks = zip(*cases, strict=True)
    return np.array(scores, dtype=float), np.array(marks)


def variance(first, second, positive, groups=None) -> float:
    codes = np.arange(len(first)) if groups is None else groups
    cases = _Cases(positive, codes, int(codes.max()) + 1)
    return _covariance(_components(first, cases), _components(second, cases), cases)


@given(scored)
def test_auc_counts_pairs_with_ties_half(cases) -> None:
    scores, positive = columns(cases)
    assert auc(scores, positive) == pytest.approx(kernel(scores, positive).mean())
    u = mannwhitneyu(scores[positive], scores[~positive]).statistic
    assert auc(scores, positive) == pytest.approx(u / positive.sum() / (~positive).sum())


@given(scored)
def test_variance_is_delongs_by_brute_force(cases) -> None:
    scores, positive = columns(cases)
    other = (scores * 7) % 5
    a, b = kernel(scores, positive), kernel(other, positive)
    m, n = a.shape
    expected = (
        np.cov(a.mean(axis=1), b.mean(axis=1))[0, 1] / m
        + np.cov(a.mean(axis=0), b.mean(axis=0))[0, 1] / n
    )
    assert variance(scores, other, positive) == pytest.approx(expected, abs=1e-12)


def test_variance_in_groups_is_obuchowskis_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 5)
    positive = rng.random(60) < 0.4
    scores = np.round(rng.normal(size=12)[groups] + rng.normal(size=60) + positive, 1)
    pairs = kernel(scores, positive)
    m, n = pairs.shape
    area = pairs.mean()
    above, below = pairs.mean(axis=1), pairs.mean(axis=0)
    ups = [above[groups[positive] == g] for g in range(12)]
    downs = [below[groups[~positive] == g] for g in range(12)]
    i10, i01 = sum(len(x) > 0 for x in ups), sum(len(y) > 0 for y in downs)
    s10 = i10 / ((i10 - 1) * m) * sum((x.sum() - len(x) * area) ** 2 for x in ups)
    s01 = i01 / ((i01 - 1) * n) * sum((y.sum() - len(y) * area) ** 2 for y in downs)
    s11 = (
        12
        / 11
        * sum(
            (x.sum() - len(x) * area) * (y.sum() - len(y) * area)
            for x, y in zip(ups, downs, strict=True)
        )
    )
    expected = s10 / m + s01 / n + 2 * s11 / (m * n)
    assert variance(scores, scores, positive, groups) == pytest.approx(expected)


@given(scored, st.randoms(use_true_random=False))
def test_interval_holds_the_area_and_only_ranks_matter(cases, random) -> None:
    scores, positive = columns(cases)
    found = delong(scores, positive)
    assert found.low - 1e-12 <= auc(scores, positive) <= found.high + 1e-12
    assert found.width > 0
    order = list(range(len(cases)))
    random.shuffle(order)
    again = delong(np.exp(scores[order]), positive[order], groups=[f"c{i}" for i in order])
    assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-9)
    mirrored = delong(-scores, positive)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high), abs=1e-9)
    wide = delong(scores, positive, confidence=0.99)
    assert wide.low <= found.low + 1e-12 and found.high <= wide.high + 1e-12


def test_perfect_ranking_is_bounded_by_the_smaller_class() -> None:
    found = delong(np.arange(60.0), np.arange(60) >= 40)
    assert (found.low, found.high) == (pytest.approx(wilson(20, 20).low), 1.0)
    assert "no variance seen" in found.method
    groups = np.repeat(np.arange(12), 5)
    grouped = delong(np.arange(60.0), np.arange(60) >= 40, groups)
    assert grouped.low == pytest.approx(wilson(4, 4).low)


def test_groups_widen_the_interval_where_they_share_their_class() -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 10)
    positive = groups % 2 == 0
    scores = rng.normal(size=30)[groups] + 0.2 * rng.normal(size=300) + positive
    assert delong(scores, positive, groups).width > 2 * delong(scores, positive).width


def test_one_positive_bounds_nothing_and_says_so() -> None:
    found = delong([1, 2, 3], [0, 0, 1])
    assert (found.low, found.high) == (0.0, 1.0) and "fewer than two" in found.method


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: auc([1, 2], [1, 1]), "a positive and a negative"),
        (lambda: auc([1, math.nan], [1, 0]), "scores has 1 NaN"),
        (lambda: auc([1, 2, 3], [1, 0]), "3 and 2"),
        (lambda: delong([], []), "empty"),
        (lambda: delong([1, 2], [2, 0]), "0/1"),
        (lambda: delong([1, 2, 3, 4], [0, 0, 1, 1], confidence=1.2), "confidence"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_variance_of_exponential_scores_is_that_of_a_simulation() -> None:
    rng = np.random.default_rng(0)
    for area, m, n in ((0.8, 12, 60), (0.97, 15, 300), (0.7, 40, 10)):
        # The smaller class has the longer tail.
        failing, right = (area / (1 - area), 1.0) if m < n else (1.0, area / (1 - area))
        sign = 1 if m < n else -1
        areas = [
            auc(
                sign * np.r_[rng.exponential(failing, m), rng.exponential(right, n)],
                np.repeat([1, 0], [m, n]),
            )
            for _ in range(4000)
        ]
        assert np.mean(areas) == pytest.approx(area, abs=0.005)
        assert np.var(areas) == pytest.approx(exponential_variance(area, m, n), rel=0.1)


def test_a_bound_with_few_failures_is_that_of_exponential_scores() -> None:
    quantiles = norm.ppf((np.arange(15) + 0.5) / 15)
    scores = np.r_[2.66 + 0.2 * quantiles, norm.ppf((np.arange(1000) + 0.5) / 1000)]
    marks = np.repeat([1, 0], [15, 1000])
    found = delong(scores, marks, sided="lower").low
    distance = auc(scores, marks) - found
    assert distance == pytest.approx(1.645 * exponential_variance(found, 15, 1000) ** 0.5, rel=1e-3)


@pytest.mark.parametrize(("area", "limit", "failures"), [(0.9, 0.8, 10), (0.85, 0.8, 30)])
def test_the_planned_number_of_cases_settles_an_area(area, limit, failures) -> None:
    distance, n = np.sqrt(2) * norm.ppf(area), 300
    up, down = (norm.ppf((np.arange(k) + 0.5) / k) for k in (failures, n))
    marks = np.repeat([1, 0], [failures, n])
    scores = np.r_[distance + up, down]
    planned = cases_to_settle_area(scores, marks, limit)
    assert planned is not None
    rng, met = np.random.default_rng(1), 0
    more = planned / len(marks)
    marks = np.repeat([1, 0], [round(failures * more), round(n * more)])
    for _ in range(150):
        met += delong(rng.normal(distance * marks), marks, sided="lower").low >= limit
    assert 0.6 < met / 150 < 0.95
    assert cases_to_settle_area(scores, np.repeat([1, 0], [failures, n]), limit - 0.05) < planned
