"""Averages over classes: against closed forms, and by simulation where classes share groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from roadworthy.statistics.strata import extreme_interval, mean_of_proportions


def test_the_distances_of_the_classes_are_combined_as_independent_ones() -> None:
    right = np.r_[np.ones(45), np.zeros(5), np.ones(12), np.zeros(8)]
    label = np.repeat(["a", "b"], [50, 20])
    found = mean_of_proportions(right, label, confidence=0.9)
    lows = beta.ppf(0.05, [45, 12], [6, 9])
    highs = beta.ppf(0.95, [46, 13], [5, 8])
    assert found.low == pytest.approx(0.75 - math.hypot(0.9 - lows[0], 0.6 - lows[1]) / 2)
    assert found.high == pytest.approx(0.75 + math.hypot(highs[0] - 0.9, highs[1] - 0.6) / 2)


def test_the_smallest_class_decides_where_all_are_right() -> None:
    label = np.repeat([0, 1], [990, 10])
    found = mean_of_proportions(np.ones(1000), label, sided="lower")
    assert found.low == pytest.approx(1 - (1 - 0.05 ** (1 / 10)) / 2, abs=1e-4)
    assert found.low < 0.88 and found.high == 1.0


def test_classes_in_the_same_groups_are_not_taken_as_independent() -> None:
    label, group = np.tile(np.arange(4), 20), np.repeat(np.arange(20), 4)
    found = mean_of_proportions(np.ones(80), label, group, sided="lower")
    assert found.low == pytest.approx(0.05 ** (1 / 20))
    failing = (group != 3).astype(float)
    whole = mean_of_proportions(failing, label, group, sided="lower")
    assert whole.low == pytest.approx(beta.ppf(0.05, 19, 2), abs=1e-6)


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=40
    ),
    st.booleans(),
)
def test_the_interval_holds_its_estimate_and_mirrors(rows, grouped) -> None:
    right, label, group = (np.array(column) for column in zip(*rows, strict=True))
    groups = group if grouped else None
    estimate = np.mean([right[label == kind].mean() for kind in np.unique(label)])
    found = mean_of_proportions(right, label, groups)
    assert 0 <= found.low <= estimate + 1e-12 and estimate - 1e-12 <= found.high <= 1
    other = mean_of_proportions(~right, label, groups)
    assert (other.low, other.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-9)


def test_an_extreme_mean_over_classes_averages_what_each_class_keeps() -> None:
    support = (np.arange(495), np.arange(495, 500))
    found = extreme_interval(True, support, confidence=0.95, sided="lower")
    assert found.low == pytest.approx((0.05 ** (2 / 495) + 0.05 ** (2 / 5)) / 2)
    nothing = extreme_interval(False, support, confidence=0.95, sided="upper")
    assert (nothing.low, nothing.high) == pytest.approx((0.0, 1 - found.low))
    grouped = extreme_interval(True, support, np.arange(500) // 2, confidence=0.95, sided="lower")
    assert grouped.low < found.low


@pytest.mark.slow
@pytest.mark.parametrize("groups, size, classes, rate, icc", [
    (30, 10, 5, 0.95, 0.3), (30, 10, 5, 0.8, 0.3), (15, 20, 2, 0.9, 0.5), (300, 1, 4, 0.95, 0.01)
])  # fmt: skip
def test_the_mean_over_classes_covers_where_classes_share_groups(
    groups, size, classes, rate, icc
) -> None:
    rng = np.random.default_rng(31)
    group = np.repeat(np.arange(groups), size)
    miss = {"lower": 0, "upper": 0}
    for _ in range(600):
        p = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), groups)[group]
        right, label = rng.random(len(group)) < p, rng.integers(0, classes, len(group))
        for sided in miss:
            miss[sided] += not mean_of_proportions(right, label, group, sided=sided).contains(rate)  # type: ignore[arg-type]
    assert all(binom.sf(k - 1, 600, 0.05) > 0.01 for k in miss.values()), miss
