from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from roadworthy.statistics import bootstrap
from roadworthy.statistics.bootstrap import BootstrapDraws, _acceleration, _widened, resampled

SKEWED = np.random.default_rng(0).lognormal(size=80)


def weighted_mean(weights) -> float:
    return float(weights @ SKEWED / weights.sum())


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_equals_scipy_at_the_widened_confidence(method) -> None:
    # One end of 8000 resamples wanders by up to 0.06 standard errors in either program; ten runs by 0.02.
    level = 1 - 2 * _widened(0.025, 80)
    name = "BCa" if method == "bca" else "percentile"
    ours, theirs = [], []
    for seed in range(10):
        found = bootstrap(
            weighted_mean, 80, method=method, resamples=8000, rng=np.random.default_rng(50 + seed)
        )
        oracle = stats.bootstrap(
            (SKEWED,),
            np.mean,
            n_resamples=8000,
            method=name,
            confidence_level=level,
            rng=np.random.default_rng(seed),
        ).confidence_interval
        ours.append((found.low, found.high))
        theirs.append((oracle.low, oracle.high))
    error = np.std(SKEWED) / math.sqrt(80)
    np.testing.assert_allclose(np.mean(ours, axis=0), np.mean(theirs, axis=0), atol=0.1 * error)


def test_widened_tail_gives_a_normal_mean_students_width() -> None:
    tail = _widened(0.025, 10)
    # A bootstrapped mean spreads by s sqrt((G - 1) / G) / sqrt(G): its quantile times that is t s / sqrt(G).
    assert stats.norm.ppf(tail) * math.sqrt(9 / 10) == pytest.approx(stats.t.ppf(0.025, 9))


def test_one_sided_bounds_are_open_on_the_other_side() -> None:
    lower = bootstrap(weighted_mean, 80, sided="lower", rng=np.random.default_rng(3))
    upper = bootstrap(weighted_mean, 80, sided="upper", rng=np.random.default_rng(3))
    assert lower.high == math.inf and upper.low == -math.inf
    assert lower.low < weighted_mean(np.ones(80)) < upper.high


def test_the_same_seed_gives_the_same_interval_and_groups_can_be_renamed() -> None:
    groups = np.arange(80) // 4
    names = np.array([f"{g:03d}" for g in groups])
    first = bootstrap(weighted_mean, 80, groups, rng=np.random.default_rng(4), resamples=200)
    assert first == bootstrap(weighted_mean, 80, names, rng=np.random.default_rng(4), resamples=200)


def test_whole_groups_are_drawn_as_integer_counts() -> None:
    groups = np.arange(80) // 4
    seen = []

    def statistic(weights) -> float:
        seen.append(weights)
        return weighted_mean(weights)

    bootstrap(statistic, 80, groups, resamples=50, rng=np.random.default_rng(5))
    assert all(weights.dtype.kind == "i" for weights in seen)
    assert all(np.ptp(weights.reshape(20, 4), axis=1).max() == 0 for weights in seen)
    assert all(weights.sum() == 80 for weights in seen[1:51])


def test_groups_widen_the_interval() -> None:
    values = np.repeat(np.random.default_rng(6).normal(size=20), 10)
    alone, together = (
        bootstrap(lambda w: float(w @ values / w.sum()), 200, g, rng=np.random.default_rng(7))
        for g in (None, np.repeat(np.arange(20), 10))
    )
    assert together.width > 2.5 * alone.width


def test_acceleration_over_blocks_agrees_with_that_over_cases() -> None:
    values = np.random.default_rng(8).exponential(size=4000)

    def statistic(weights) -> float:
        return float(weights @ values / weights.sum())

    blocks = _acceleration(statistic, np.arange(4000), 4000, np.random.default_rng(9))
    assert blocks == pytest.approx(stats.skew(values) / (6 * math.sqrt(4000)), rel=0.6)
    small = _acceleration(
        lambda w: float(w[:300] @ values[:300]) / w[:300].sum(), np.arange(300), 300, None
    )
    assert small == pytest.approx(stats.skew(values[:300]) / (6 * math.sqrt(300)), rel=0.02)


def test_a_statistic_that_does_not_vary_claims_nothing_and_says_so() -> None:
    found = bootstrap(lambda w: 0.0, 30, rng=np.random.default_rng(0), resamples=50)
    assert (found.low, found.high) == (-math.inf, math.inf) and "does not vary" in found.method
    one = bootstrap(weighted_mean, 80, np.zeros(80), rng=np.random.default_rng(0))
    assert math.isinf(one.width) and "one group" in one.method
    undefined = bootstrap(lambda w: math.nan, 30, rng=np.random.default_rng(0))
    assert math.isinf(undefined.width) and "undefined on the cases" in undefined.method


def test_undefined_resamples_widen_and_are_counted() -> None:
    # Recall of a class seen in 3 of 40 cases is undefined where none of the three is drawn (4.6%).
    member, hit = np.arange(40) < 3, np.arange(40) < 2

    def recall(weights) -> float:
        return float(weights @ hit / (weights @ member)) if weights @ member else math.nan

    found = bootstrap(recall, 40, method="percentile", rng=np.random.default_rng(1), resamples=1000)
    assert "undefined, counted beyond both ends" in found.method
    assert (found.low, found.high) == (-math.inf, math.inf)
    rare = bootstrap(
        lambda w: math.nan if w[0] > 5 else weighted_mean(w),
        80,
        rng=np.random.default_rng(1),
        resamples=2000,
    )
    assert math.isfinite(rare.width)


def test_an_end_that_the_resamples_cannot_reach_is_open_and_says_so() -> None:
    found = bootstrap(
        weighted_mean,
        80,
        confidence=0.9999,
        method="percentile",
        resamples=500,
        rng=np.random.default_rng(0),
    )
    assert (found.low, found.high) == (-math.inf, math.inf) and "draw more" in found.method


def test_bad_input_is_refused_with_what_to_do() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="resamples >= 10"):
        bootstrap(weighted_mean, 80, resamples=2, rng=rng)
    with pytest.raises(ValueError, match="method must be one of"):
        bootstrap(weighted_mean, 80, method="basic", rng=rng)
    with pytest.raises(ValueError, match="one label per case"):
        bootstrap(weighted_mean, 80, [1, 2], rng=rng)


def test_an_end_that_would_be_the_estimate_is_open_and_says_so() -> None:
    hit = np.zeros(400)
    hit[:3] = 1

    def loss(weights) -> float:
        """Differs from 0 only where the three cases are drawn nine times or more: in 1 or 2 of 100 resamples."""
        return -max(float(weights @ hit) - 8.0, 0.0)

    found = bootstrap(loss, 400, confidence=0.9, rng=np.random.default_rng(1))
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert "too few resamples differ from the estimate" in found.method
    upper = bootstrap(loss, 400, sided="upper", rng=np.random.default_rng(1))
    assert upper.high == math.inf


def test_draws_are_made_once_for_all_confidences_and_change_no_number() -> None:
    calls = []

    def statistic(weights) -> float:
        calls.append(1)
        return weighted_mean(weights)

    draws, groups = BootstrapDraws(), np.arange(80) // 4

    def kept(seed: int, confidence: float):
        rng = np.random.Generator(np.random.Philox(seed))
        made = draws.of(
            (groups, 300), rng, lambda: resampled(statistic, 80, groups, resamples=300, rng=rng)
        )
        return made.interval(confidence=confidence), rng.random()

    first, again = kept(1, 0.95), kept(1, 0.9)
    once = len(calls)
    rng = np.random.Generator(np.random.Philox(1))
    assert again[0] == bootstrap(weighted_mean, 80, groups, confidence=0.9, resamples=300, rng=rng)
    assert first[1] == again[1] == rng.random()
    assert kept(2, 0.95)[0] != first[0] and len(calls) == 2 * once
    groups = groups.copy()
    kept(1, 0.95)
    assert len(calls) == 3 * once
