"""Rates with few events, and how much of a rate is kept: against exact formulas, brute force and simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, chi2, multinomial

from roadworthy.statistics import (
    Interval,
    clopper_pearson,
    difference,
    intraclass_correlation,
    paired_difference,
    ratio,
)
from roadworthy.statistics.mean import ratio_design
from roadworthy.statistics.paired import mover
from roadworthy.statistics.rates import kept_share, paired_rate_difference, rate_quotient

counts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40)


def test_a_share_of_one_trial_a_case_is_clopper_pearsons() -> None:
    found = ratio([1.0] * 97 + [0.0] * 3, np.ones(100), kind="share", sided="lower")
    assert found.low == pytest.approx(clopper_pearson(97, 100, sided="lower").low)


def test_many_events_one_a_case_are_garwoods_poisson_bounds() -> None:
    events = np.zeros(200_000)
    events[:400] = 1
    found = ratio(events, np.ones(200_000), kind="count")
    exact = chi2.ppf(0.025, 800) / 2 / 200_000, chi2.ppf(0.975, 802) / 2 / 200_000
    assert (found.low, found.high) == pytest.approx(exact, rel=0.02)


def test_no_event_counts_cases_or_groups_as_trials() -> None:
    alone = ratio(np.zeros(60), np.full(60, 8.0), kind="count", sided="upper")
    grouped = ratio(np.zeros(60), np.full(60, 8.0), np.arange(60) // 5, kind="share", sided="upper")
    assert alone.high == pytest.approx(1 - 0.05 ** (1 / 60))
    assert grouped.high == pytest.approx(1 - 0.05 ** (1 / 12))
    assert ratio(np.zeros(60), np.full(60, 8.0), kind="count", sided="lower").high == math.inf


@given(counts, st.sampled_from(["count", "share"]))
def test_rates_hold_their_estimate_and_stay_in_range(pairs, kind) -> None:
    above = np.array([min(a, b) for a, b in pairs], float)
    below = np.array([max(a, b) for a, b in pairs], float)
    if below.sum() == 0:
        return
    found = ratio(above, below, kind=kind)
    assert 0 <= found.low <= above.sum() / below.sum() + 1e-12 <= found.high + 1e-9
    assert kind == "count" or found.high <= 1
    both = [
        ratio(above, below, kind=kind, confidence=0.975, sided=sided)
        for sided in ("lower", "upper")
    ]
    assert (found.low, found.high) == pytest.approx((both[0].low, both[1].high))


def test_the_difference_of_two_intervals_is_not_clipped() -> None:
    parts = Interval(13.0, 14.5, 0.95, ""), Interval(3.5, 4.2, 0.95, "")
    assert mover((13.76, 3.86), *parts) == pytest.approx(
        (9.9 - math.hypot(0.76, 0.34), 9.9 + math.hypot(0.74, 0.36))
    )


def test_losses_alone_are_bounded_exactly_among_those_right_before() -> None:
    before = np.r_[np.ones(180), np.zeros(20)]
    here = before.copy()
    here[:4] = 0
    low = kept_share(here, before, sided="lower").low
    gain = clopper_pearson(0, 180, sided="upper")
    loss = clopper_pearson(4, 180, sided="upper").high
    assert low == pytest.approx(1 - loss)
    assert gain.high < kept_share(here, before, sided="upper").high
    same = kept_share(before, before, sided="lower")
    assert same.low == pytest.approx(0.05 ** (1 / 180))


def test_a_quotient_of_independent_parts_is_movers_on_the_log_scale() -> None:
    first, second = Interval(0.6, 0.8, 0.95, ""), Interval(0.85, 0.95, 0.95, "")
    low, high = rate_quotient((0.7, 0.9), first, second)
    assert low == pytest.approx(7 / 9 * math.exp(-math.hypot(math.log(7 / 6), math.log(95 / 90))))
    assert high == pytest.approx(7 / 9 * math.exp(math.hypot(math.log(8 / 7), math.log(90 / 85))))
    assert rate_quotient((0.0, 0.9), Interval(0.0, 0.1, 0.95, ""), second) == pytest.approx(
        (0.0, 0.1 / 0.85)
    )
    with pytest.raises(ValueError, match="above 0"):
        rate_quotient((0.5, 0.0), first, second)


def exact_miss(n: int, gain: float, loss: float, confidence: float, sided: str) -> float:
    """The probability that the one-sided bound of a paired difference misses, by enumeration."""
    missed, most = 0.0, int(n * max(gain, loss) + 7 * math.sqrt(n * max(gain, loss) + 1))
    for up in range(min(most, n) + 1):
        for down in range(min(most, n - up) + 1):
            p = multinomial.pmf([up, down, n - up - down], n, [gain, loss, 1 - gain - loss])
            if p < 1e-7:
                continue
            first, second = (
                np.repeat(v, [up, down, n - up - down]) for v in ([1.0, 0, 1], [0.0, 1, 1])
            )
            found = paired_difference(first, second, confidence=confidence, sided=sided)  # type: ignore[arg-type]
            missed += p * (not found.low <= gain - loss <= found.high)
    return missed


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.95, 0.975])
@pytest.mark.parametrize("sided", ["lower", "upper"])
@pytest.mark.parametrize(
    "n, gain, loss", [(300, 0.0, 0.01), (300, 0.01, 0.02), (60, 0.05, 0.1), (100, 0.2, 0.05)]
)
def test_one_sided_bounds_of_paired_outcomes_never_miss_more_than_they_say(
    n, gain, loss, sided, confidence
) -> None:
    assert exact_miss(n, gain, loss, confidence, sided) <= 1 - confidence + 1e-6


def nominal(miss: int, runs: int, confidence: float) -> bool:
    return bool(binom.sf(miss - 1, runs, 1 - confidence) > 0.01)


def missed(
    draw: Callable[[np.random.Generator, str], tuple[Interval, float]],
    confidence: float,
    runs: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    miss = {"lower": 0, "upper": 0}
    for _ in range(runs):
        for sided in miss:
            found, truth = draw(rng, sided)
            miss[sided] += not found.contains(truth)
    assert all(nominal(k, runs, confidence) for k in miss.values()), {
        k: v / runs for k, v in miss.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.95, 0.975])
@pytest.mark.parametrize("clumped", [False, True])
@pytest.mark.parametrize("groups", [None, 30])
@pytest.mark.parametrize(
    "kind, rate", [("count", 0.005), ("count", 0.05), ("share", 0.97), ("share", 0.995)]
)
def test_rates_cover_one_sided_with_few_and_with_many_events(
    kind, rate, groups, clumped, confidence
) -> None:
    def draw(rng: np.random.Generator, sided: str) -> tuple[Interval, float]:
        sizes = rng.integers(1, 4, 300) if kind == "share" else rng.integers(5, 15, 300)
        rare = min(rate, 1 - rate)
        # A case that goes wrong goes wrong in most of its trials.
        p = (rng.random(300) < rare / 0.6) * 0.6 if clumped else np.full(300, rare)
        wrong = rng.binomial(sizes, p)
        labels = None if groups is None else np.arange(300) % groups
        parts = sizes - wrong if rate > 0.5 else wrong
        return ratio(parts, sizes, labels, kind=kind, confidence=confidence, sided=sided), rate  # type: ignore[arg-type]

    missed(draw, confidence, 1000, 21)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.95, 0.975])
@pytest.mark.parametrize("n, right, loss, gain", [
    (200, 0.95, 0.015, 0.0), (500, 0.9, 0.006, 0.02), (1000, 0.95, 0.05, 0.1), (300, 0.05, 0.2, 0.02)
])  # fmt: skip
def test_the_kept_share_covers_one_sided(n, right, loss, gain, confidence) -> None:
    truth = 1 - loss + gain * (1 - right) / right

    def draw(rng: np.random.Generator, sided: str) -> tuple[Interval, float]:
        before = rng.random(n) < right
        here = np.where(before, rng.random(n) >= loss, rng.random(n) < gain)
        return kept_share(here, before, confidence=confidence, sided=sided), truth  # type: ignore[arg-type]

    missed(draw, confidence, 1500, 22)


@pytest.mark.slow
@pytest.mark.parametrize("loss, gain", [(0.02, 0.02), (0.1, 0.1)])
def test_the_kept_share_covers_where_cases_share_groups(loss, gain) -> None:
    truth = 1 - loss + gain / 9

    def draw(rng: np.random.Generator, sided: str) -> tuple[Interval, float]:
        groups = np.repeat(np.arange(30), 20)
        before = rng.random(600) < rng.beta(8.1, 0.9, 30)[groups]
        lost = rng.random(600) < rng.beta(loss * 9, (1 - loss) * 9, 30)[groups]
        here = np.where(before, ~lost, rng.random(600) < gain)
        return kept_share(here, before, groups, sided=sided), truth  # type: ignore[arg-type]

    missed(draw, 0.95, 1200, 23)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.95, 0.975])
@pytest.mark.parametrize("new, gone", [(0.003, 0.0), (0.004, 0.002), (0.03, 0.02)])
def test_a_paired_change_of_counts_covers_one_sided(new, gone, confidence) -> None:
    def draw(rng: np.random.Generator, sided: str) -> tuple[Interval, float]:
        words = rng.integers(5, 15, 300).astype(float)
        up, down = (rng.binomial(words.astype(int), p).astype(float) for p in (new, gone))
        base = rng.binomial(words.astype(int), 0.05) + down
        found = paired_rate_difference(
            base + up - down, base, words, kind="count", confidence=confidence, sided=sided  # type: ignore[arg-type]
        )  # fmt: skip
        return found, new - gone

    missed(draw, confidence, 1200, 24)


def shared_groups(rng: np.random.Generator) -> tuple[NDArray, NDArray, NDArray]:
    groups = np.repeat(np.arange(25), 16)
    ease = 1.5 + rng.normal(0, 1.2, 25)[groups]
    return rng.random(400) < 1 / (1 + np.exp(-ease)), rng.random(400) < 0.5, groups


def test_groups_on_both_sides_of_a_filter_narrow_its_difference() -> None:
    right, inside, groups = shared_groups(np.random.default_rng(4))
    sides = (
        right[inside].astype(float),
        right[~inside].astype(float),
        groups[inside],
        groups[~inside],
    )
    joined, apart = difference(*sides, joined=True), difference(*sides)
    assert joined.width < 0.85 * apart.width and "joined groups" in joined.method
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(2000):
        weight = np.bincount(rng.integers(0, 25, 25), minlength=25)[groups]
        drawn.append(
            np.average(right[inside], weights=weight[inside])
            - np.average(right[~inside], weights=weight[~inside])
        )
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert joined.width == pytest.approx(high - low, rel=0.35)
    with pytest.raises(ValueError, match="labels on both sides"):
        difference(sides[0], sides[1], joined=True)


@pytest.mark.slow
def test_the_difference_over_joined_groups_covers() -> None:
    rng = np.random.default_rng(25)
    held = 0
    for _ in range(1500):
        right, inside, groups = shared_groups(rng)
        held += difference(
            right[inside], right[~inside], groups[inside], groups[~inside], joined=True
        ).contains(0.0)
    assert nominal(1500 - held, 1500, 0.95), held / 1500


UNEQUAL = [
    [60] * 8 + [2] * 40,
    [40] * 10 + [5] * 20,
    [80, 60, 40, 30, 20, 15, 10, 8, 6, 5, 4, 3, 2, 2, 1, 1],
]


def test_small_groups_show_the_correlation_that_large_ones_hide() -> None:
    groups = np.repeat(np.arange(48), UNEQUAL[0])
    events = np.zeros(len(groups))
    events[:4] = 1
    # Both cases of four small groups: a correlation the jackknife, ruled by eight large groups, hardly sees.
    events[480:488] = 1
    n = len(groups)
    rate, sizes = events.mean(), np.array(UNEQUAL[0], float)
    kish = 1 + intraclass_correlation(events, groups) * (np.square(sizes).sum() / n - 1)
    design = ratio_design(events * 3, np.full(n, 3.0), groups)
    assert design is not None and kish > 1.5
    assert design.variance == pytest.approx(rate * (1 - rate) / n * kish, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["share", "count"])
@pytest.mark.parametrize("sizes", UNEQUAL)
@pytest.mark.parametrize("rate, icc", [(0.05, 0.3), (0.05, 0.1), (0.1, 0.2)])
def test_rates_cover_in_groups_of_unequal_size(sizes, rate, icc, kind) -> None:
    rng = np.random.default_rng(26)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    trials = np.full(len(groups), 3.0)
    miss = 0
    for _ in range(1000):
        p = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), len(sizes))[groups]
        miss += ratio(rng.binomial(3, p), trials, groups, kind=kind, sided="upper").high < rate
    assert nominal(miss, 1000, 0.95), miss / 1000


@pytest.mark.slow
def test_a_paired_change_covers_in_groups_of_unequal_size() -> None:
    rng = np.random.default_rng(27)
    groups = np.repeat(np.arange(48), UNEQUAL[0])
    words = np.full(len(groups), 3.0)
    miss = 0
    for _ in range(1000):
        new = rng.binomial(3, rng.beta(0.05 / 0.3 * 0.7, 0.95 / 0.3 * 0.7, 48)[groups]).astype(
            float
        )
        found = paired_rate_difference(
            new, np.zeros(len(groups)), words, groups, kind="count", sided="upper"
        )
        miss += found.high < 0.05
    assert nominal(miss, 1000, 0.95), miss / 1000
