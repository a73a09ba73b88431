"""Do the intervals cover what they promise? Not below nominal by a one-sided binomial test at 1%."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from roadworthy.statistics import (
    Interval,
    bootstrap,
    clopper_pearson_bounds,
    clustered_proportion,
    delong,
    difference,
    jeffreys_bounds,
    mean,
    paired_difference,
    ratio,
    wilson,
    wilson_bounds,
)
from roadworthy.statistics.proportion import ProportionMethod

pytestmark = pytest.mark.slow

EQUAL = np.full(50, 30)
UNEQUAL = np.concatenate([np.full(25, 5), np.full(15, 30), np.full(10, 92)])


def coverage(
    draw: Callable[[np.random.Generator], Interval], truth: float, runs: int, seed: int
) -> int:
    """How many of the simulated intervals hold the truth."""
    rng = np.random.default_rng(seed)
    return sum(draw(rng).contains(truth) for _ in range(runs))


def is_nominal(covered: int, runs: int, confidence: float = 0.95) -> bool:
    """Whether so few covered is no rarer than 1% under the nominal confidence."""
    return bool(binom.cdf(covered, runs, confidence) > 0.01)


def beta_binomial(
    rng: np.random.Generator, p: float, sizes: NDArray[np.int_], correlation: float = 0.3
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Outcomes by case, and the group of each case."""
    spread = (1 - correlation) / correlation
    groups = np.repeat(np.arange(len(sizes)), sizes)
    rates = rng.beta(p * spread, (1 - p) * spread, len(sizes))
    return (rng.random(len(groups)) < rates[groups]).astype(float), groups


@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("method", ["wilson", "clopper_pearson", "jeffreys"])
def test_clustered_proportion_covers_where_cases_share_groups(
    method: ProportionMethod, p: float, sizes: NDArray[np.int_]
) -> None:
    rng = np.random.default_rng(11)
    held = {"two": 0, "lower": 0, "upper": 0}
    runs = 2000 if method == "wilson" else 600
    for _ in range(runs):
        outcomes, groups = beta_binomial(rng, p, sizes)
        for sided in held:
            held[sided] += clustered_proportion(
                outcomes, groups, sided=sided, method=method
            ).contains(p)
    assert all(is_nominal(covered, runs) for covered in held.values()), held


@pytest.mark.parametrize("groups", [4, 12])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_clustered_proportion_covers_with_few_groups(p: float, groups: int) -> None:
    covered = coverage(
        lambda rng: clustered_proportion(*beta_binomial(rng, p, np.full(groups, 20))), p, 2000, 21
    )
    assert is_nominal(covered, 2000), covered / 2000


def test_plain_wilson_on_clustered_cases_covers_less_than_half() -> None:
    def draw(rng: np.random.Generator) -> Interval:
        outcomes, _ = beta_binomial(rng, 0.2, EQUAL)
        return wilson(outcomes.sum(), len(outcomes))

    share = coverage(draw, 0.2, 2000, 3) / 2000
    assert 0.42 < share < 0.50


@pytest.mark.parametrize("sided", ["two", "lower", "upper"])
@pytest.mark.parametrize("n", [10, 37, 200])
def test_clopper_pearson_never_covers_less_than_it_says(n: int, sided: str) -> None:
    p = np.linspace(0.001, 0.999, 999)[:, None]
    counts = np.arange(n + 1)
    low, high = clopper_pearson_bounds(counts, n, confidence=0.95, sided=sided)
    exact = (binom.pmf(counts, n, p) * ((low <= p) & (p <= high))).sum(axis=1)
    assert exact.min() >= 0.95 - 1e-12


@pytest.mark.parametrize("bounds", [wilson_bounds, jeffreys_bounds])
@pytest.mark.parametrize("n", [20, 50, 200])
def test_wilson_and_jeffreys_are_nominal_on_average_over_p_but_not_at_each(
    bounds: Callable, n: int
) -> None:
    p = np.linspace(0.0005, 0.9995, 2000)[:, None]
    counts = np.arange(n + 1)
    low, high = bounds(counts, n, confidence=0.95, sided="two")
    exact = (binom.pmf(counts, n, p) * ((low <= p) & (p <= high))).sum(axis=1)
    assert abs(exact.mean() - 0.95) < 0.006
    assert exact.min() < 0.95


def shared(
    rng: np.random.Generator, sizes: NDArray[np.int_]
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Numbers with mean 1 and an intraclass correlation of one half."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return 1.0 + rng.normal(size=len(sizes))[groups] + rng.normal(size=len(groups)), groups


@pytest.mark.parametrize("sided", ["two", "lower", "upper"])
@pytest.mark.parametrize(
    "sizes", [EQUAL, UNEQUAL, np.full(6, 10)], ids=["equal", "unequal", "six groups"]
)
def test_mean_of_clustered_numbers_covers(sizes: NDArray[np.int_], sided: str) -> None:
    covered = coverage(lambda rng: mean(*shared(rng, sizes), sided=sided), 1.0, 2000, 5)
    assert is_nominal(covered, 2000), covered / 2000


@pytest.mark.parametrize("clustered", [False, True])
def test_ratio_of_sums_covers(clustered: bool) -> None:
    def draw(rng: np.random.Generator) -> Interval:
        groups = np.repeat(np.arange(40), 10) if clustered else np.arange(60)
        rate = rng.gamma(4.0, 0.25 * 0.3, 40)[groups] if clustered else 0.3
        exposure = rng.uniform(2.0, 20.0, len(groups))
        return ratio(rng.poisson(rate * exposure), exposure, groups if clustered else None)

    covered = coverage(draw, 0.3, 2000, 6)
    assert is_nominal(covered, 2000), covered / 2000


def test_paired_binary_covers_on_average_over_discordance() -> None:
    # Tango's interval is a score interval: nominal on average, not at each point.
    rng = np.random.default_rng(7)
    covered = runs = 0
    for gain in (0.02, 0.05, 0.1, 0.2):
        for loss in (0.02, 0.05, 0.1, 0.2):
            draws = rng.multinomial(80, [gain, loss, 1 - gain - loss], 200)
            for up, down, same in draws:
                first = np.repeat([1.0, 0.0, 1.0], [up, down, same])
                second = np.repeat([0.0, 1.0, 1.0], [up, down, same])
                covered += paired_difference(first, second).contains(gain - loss)
                runs += 1
    assert is_nominal(covered, runs), covered / runs


def test_paired_binary_in_groups_covers() -> None:
    def draw(rng: np.random.Generator) -> Interval:
        first, groups = beta_binomial(rng, 0.9, np.full(40, 15))
        second, _ = beta_binomial(rng, 0.8, np.full(40, 15))
        return paired_difference(first, second, groups)

    covered = coverage(draw, 0.1, 2000, 8)
    assert is_nominal(covered, 2000), covered / 2000


@pytest.mark.parametrize("clustered", [False, True])
def test_paired_numbers_cover(clustered: bool) -> None:
    def draw(rng: np.random.Generator) -> Interval:
        values, groups = shared(rng, np.full(30, 8))
        base = rng.normal(size=len(values))
        if clustered:
            return paired_difference(base + values, base, groups)
        case = rng.normal(size=40)
        return paired_difference(case + 1.0 + rng.normal(size=40), case)

    covered = coverage(draw, 1.0, 2000, 9)
    assert is_nominal(covered, 2000), covered / 2000


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("kind", ["proportions", "means"])
def test_difference_of_two_samples_covers(kind: str, clustered: bool) -> None:
    def draw(rng: np.random.Generator) -> Interval:
        if kind == "proportions" and clustered:
            first, ours = beta_binomial(rng, 0.8, np.full(40, 15))
            second, theirs = beta_binomial(rng, 0.6, np.full(30, 20))
            return difference(first, second, ours, theirs)
        if kind == "proportions":
            return difference(rng.random(60) < 0.8, rng.random(90) < 0.6)
        if clustered:
            first, ours = shared(rng, np.full(12, 10))
            second, theirs = shared(rng, np.full(30, 5))
            return difference(first + 0.2, 2.0 * second - 1.0, ours, theirs)
        return difference(rng.normal(1.2, 1.0, 12), rng.normal(1.0, 3.0, 30))

    covered = coverage(draw, 0.2, 2000, 10)
    assert is_nominal(covered, 2000), covered / 2000


@pytest.mark.parametrize("clustered", [False, True])
def test_bootstrap_bca_covers_a_ratio_of_two_means(clustered: bool) -> None:
    def draw(rng: np.random.Generator) -> Interval:
        sizes = np.full(40, 5) if clustered else np.full(40, 1)
        noise, groups = shared(rng, sizes)
        above = 4.0 + noise + rng.normal(size=len(groups))
        below = rng.uniform(5.0, 15.0, len(groups))
        return bootstrap(
            lambda w: float(w @ above / (w @ below)), len(groups), groups, resamples=600, rng=rng
        )

    covered = coverage(draw, 0.5, 600, 12)
    assert is_nominal(covered, 600), covered / 600


def binormal(rng: np.random.Generator, area: float, m: int, n: int) -> tuple[NDArray, NDArray]:
    positive = np.arange(m + n) < m
    return rng.normal(size=m + n) + positive * np.sqrt(2.0) * norm.ppf(area), positive


@pytest.mark.parametrize("sided", ["two", "lower", "upper"])
@pytest.mark.parametrize("area", [0.5, 0.7, 0.9, 0.97])
def test_delong_covers_with_50_positives_and_100_negatives(area: float, sided: str) -> None:
    covered = coverage(
        lambda rng: delong(*binormal(rng, area, 50, 100), sided=sided), area, 2000, 13
    )
    assert is_nominal(covered, 2000), covered / 2000


@pytest.mark.parametrize("area", [0.7, 0.9])
@pytest.mark.parametrize(
    "mixed", [True, False], ids=["classes mixed in groups", "groups of one class"]
)
def test_obuchowski_covers_for_scores_in_groups(area: float, mixed: bool) -> None:
    def draw(rng: np.random.Generator) -> Interval:
        groups = np.repeat(np.arange(40), 8)
        positive = rng.random(320) < 0.4 if mixed else groups % 2 == 0
        shift = np.sqrt(2.0) * norm.ppf(area)
        scores = np.sqrt(0.4) * rng.normal(size=40)[groups] + np.sqrt(0.6) * rng.normal(size=320)
        return delong(scores + shift * positive, positive, groups)

    # Mixed groups compare mostly across groups: the population area is that of two independent groups.
    covered = coverage(draw, area, 2000, 14)
    assert is_nominal(covered, 2000), covered / 2000


def scores_of(
    rng: np.random.Generator, shape: str, area: float, failures: int, n: int
) -> NDArray[np.float64]:
    """Scores of failures, then of right answers, whose AUC is `area`."""
    if shape == "exponential":
        means = np.repeat([area / (1 - area), 1.0], [failures, n])
        return rng.exponential(means)
    centres = np.repeat([np.sqrt(2) * norm.ppf(area), 0.0], [failures, n])
    drawn = rng.normal(centres)
    return np.floor(1.5 * drawn) if shape == "tied" else drawn


def area_of_tied(area: float) -> float:
    """The AUC of the scores above in steps of 1 / 1.5, ties counting one half."""
    edges = np.arange(-20, 31) / 1.5
    ups, downs = (np.diff(norm.cdf(edges - c)) for c in (np.sqrt(2) * norm.ppf(area), 0.0))
    return float(ups @ (np.cumsum(downs) - downs / 2))


@pytest.mark.parametrize("failures", [3, 5, 8, 15, 30, 100])
@pytest.mark.parametrize("area", [0.6, 0.8, 0.9, 0.97, 0.99])
@pytest.mark.parametrize("shape", ["normal", "exponential", "tied"])
def test_a_bound_of_the_auc_holds_with_few_failures(shape, area, failures) -> None:
    truth = area_of_tied(area) if shape == "tied" else area
    rng, runs, n = np.random.default_rng([failures, int(100 * area)]), 1500, 400
    marks = np.repeat([1, 0], [failures, n])
    missed = {"lower": 0, "upper": 0}
    for _ in range(runs):
        scores = scores_of(rng, shape, area, failures, n)
        missed["lower"] += delong(scores, marks, sided="lower").low > truth
        missed["upper"] += delong(scores, marks, sided="upper").high < truth
    # 5.5% of very many draws: what is allowed, and no more than chance above it here.
    assert max(missed.values()) <= binom.ppf(0.99, runs, 0.055), missed


@pytest.mark.parametrize("correlation", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(("groups", "size"), [(3, 100), (6, 50), (8, 100), (12, 100), (50, 100)])
@pytest.mark.parametrize("p", [0.8, 0.9, 0.95, 0.99])
def test_a_claim_on_few_correlated_groups_is_seldom_met_wrongly(
    p, groups, size, correlation
) -> None:
    rng, runs = np.random.default_rng([groups, int(100 * p)]), 800
    met = 0
    for _ in range(runs):
        outcomes, group = beta_binomial(rng, p, np.full(groups, size), correlation)
        met += clustered_proportion(outcomes, group, sided="lower").low > p
    assert met <= binom.ppf(0.99, runs, 0.055), met / runs
