"""Means of numbers between 0 and 1 (the overlap of masks): bounds that hold although rare zeros were not seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom

from roadworthy.measures.interval import kind_of, measure_difference, measure_interval
from roadworthy.measures.scored import Scored
from roadworthy.statistics import clopper_pearson, ratio


def bounded(values, groups=None, **options):
    return ratio(values, np.ones(len(values)), groups, kind="bounded", **options)


@pytest.mark.parametrize("right", [0, 3, 97, 100])
def test_parts_that_are_0_or_1_have_the_interval_of_clopper_and_pearson(right: int) -> None:
    values = np.arange(100) < right
    found, exact = bounded(values.astype(float)), clopper_pearson(right, 100)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=5e-4)


def test_the_lower_bound_is_the_quantile_under_dirichlet_weights_with_one_more_case_at_0() -> None:
    rng = np.random.default_rng(0)
    values = rng.beta(8, 2, 60)
    weights = rng.dirichlet(np.ones(61), 400_000)
    drawn = np.quantile(weights @ np.append(values, 0.0), 0.05)
    assert bounded(values, sided="lower").low == pytest.approx(drawn, abs=2e-3)


def test_equal_values_are_bounded_as_that_many_trials() -> None:
    assert bounded(np.ones(50), sided="lower").low == pytest.approx(0.05 ** (1 / 50))
    grouped = bounded(np.ones(50), np.arange(50) // 5, sided="lower")
    assert grouped.low == pytest.approx(0.05 ** (1 / 10))


def test_one_group_has_no_bound() -> None:
    found = bounded(np.array([0.5, 0.7]), ["a", "a"])
    assert (found.low, found.high) == (0.0, 1.0) and "one group" in found.method


def scored(values: NDArray) -> Scored:
    return Scored.ratio(
        values,
        np.ones(len(values)),
        error=1 - values,
        failure=values < 0.5,
        better="higher",
        limits=(0.0, 1.0),
    )


def test_a_measure_within_0_and_1_that_counts_no_trials_gets_it() -> None:
    values = np.random.default_rng(1).beta(8, 2, 40)
    assert kind_of(scored(values)) == "bounded" and kind_of(scored(np.ones(3))) == "share"
    found = measure_interval(scored(values), sided="lower")
    assert found.low == bounded(values, sided="lower").low


def zeros(share: float, a: float, b: float) -> tuple[Callable, float]:
    """Betas, some of which are 0."""

    def draw(rng: np.random.Generator, n: int) -> NDArray:
        return np.where(rng.random(n) < share, 0.0, rng.beta(a, b, n))

    return draw, (1 - share) * float(beta(a, b).mean())


def is_nominal(covered: int, runs: int) -> bool:
    return bool(binom.cdf(covered, runs, 0.95) > 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 30, 100, 300])
@pytest.mark.parametrize(
    "kind",
    [zeros(0, 8, 2), zeros(0.03, 20, 3), zeros(0.1, 20, 3), zeros(0, 0.5, 0.2)],
    ids=["plain", "3% zeros", "10% zeros", "two heaps"],
)
def test_the_mean_is_covered(kind: tuple[Callable, float], n: int) -> None:
    draw, truth = kind
    rng, runs, held = np.random.default_rng(n), 1500, {"two": 0, "lower": 0, "upper": 0}
    for _ in range(runs):
        values = draw(rng, n)
        for sided in held:
            held[sided] += bounded(values, sided=sided).contains(truth)
    assert all(is_nominal(covered, runs) for covered in held.values()), held


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(3, 20), (6, 20), (12, 20), (50, 4)])
@pytest.mark.parametrize("bad", [0.0, 0.1])
def test_the_mean_is_covered_where_cases_share_groups(groups: int, size: int, bad: float) -> None:
    """A group has a level of its own; with `bad`, so many of them fail as a whole."""
    rng, runs, held = np.random.default_rng([groups, size]), 1500, {"two": 0, "lower": 0}
    truth = (1 - bad) * 0.8 + bad * 0.1
    own = np.repeat(np.arange(groups), size)
    for _ in range(runs):
        level = np.where(rng.random(groups) < bad, 0.1, rng.beta(8, 2, groups))
        values = rng.beta(10 * level[own] + 1e-6, 10 * (1 - level[own]) + 1e-6)
        for sided in held:
            held[sided] += bounded(values, own, sided=sided).contains(truth)
    assert all(is_nominal(covered, runs) for covered in held.values()), held


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 100])
def test_the_drop_of_the_same_cases_is_covered(n: int) -> None:
    rng, runs, covered = np.random.default_rng(n), 300, 0
    for _ in range(runs):
        clean = rng.beta(20, 3, n)
        lost = np.where(rng.random(n) < 0.3, 1.0, rng.beta(2, 18, n))
        here = clean * (1 - lost)
        truth = -(20 / 23) * (0.3 + 0.7 * 0.1)
        found = measure_difference(scored(here), scored(clean), paired=True, rng=rng, resamples=500)
        covered += found.interval.contains(truth)
    assert is_nominal(covered, runs), covered / runs
