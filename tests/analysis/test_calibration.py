"""Thresholds against brute force, guarantees by simulation, batch distances against scipy, counts that add up."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.calibration import (
    BATCH_SIZES,
    Threshold,
    at_balanced_accuracy,
    at_cost,
    at_false_positive_rate,
    batch_threshold,
    conformal,
    ks_distances,
    per_class,
    separate,
)

tied = st.integers(0, 8).map(float) | st.sampled_from([np.inf, -np.inf])
many = st.lists(tied, min_size=10, max_size=40)


def grid(*samples) -> list[float]:
    return [-np.inf, *sorted({v for s in samples for v in s})]


@settings(max_examples=100, deadline=None)
@given(many, st.sampled_from([0.1, 0.2, 0.29, 0.5]))
def test_the_threshold_is_the_smallest_that_keeps_the_rate(rows, rate):
    found = at_false_positive_rate(rows, rate=rate)
    keeps = [t for t in grid(rows) if np.mean(np.array(rows) > t) <= rate + 1e-9]
    assert found.value == min(keeps)
    assert found.chosen_on == len(rows)
    assert found.verdict(rows).mean() <= rate + 1e-9


def test_rounding_does_not_cost_a_false_alarm():
    rows = np.arange(100.0)
    assert at_false_positive_rate(rows, rate=0.29).verdict(rows).sum() == 29
    assert at_false_positive_rate(rows, rate=0.07).expected_rate == pytest.approx(8 / 101)


def test_too_few_rows_and_missing_scores_are_refused():
    with pytest.raises(ValueError, match="needs at least 20 clean rows, found 19"):
        at_false_positive_rate(np.arange(19.0), rate=0.05)
    assert at_false_positive_rate(np.arange(20.0), rate=0.05).value == 18.0
    with pytest.raises(ValueError, match="risky needs one score a row and at least 10"):
        at_balanced_accuracy(np.arange(10.0), np.arange(9.0))
    with pytest.raises(ValueError, match="rate must lie between 0 and 1"):
        at_false_positive_rate(np.arange(30.0), rate=5)
    with pytest.raises(ValueError, match="costs must be positive"):
        at_cost(np.arange(30.0), np.arange(30.0), miss=-1, false_alarm=1, prevalence=0.5)


@settings(max_examples=80, deadline=None)
@given(many, many)
def test_balanced_accuracy_is_the_best_there_is(clean, bad):
    value = at_balanced_accuracy(clean, bad).value
    accuracy = {
        t: (np.mean(np.array(bad) > t) + np.mean(np.array(clean) <= t)) / 2
        for t in grid(clean, bad)
    }
    best = max(accuracy.values())
    assert value == max(t for t, a in accuracy.items() if a >= best - 1e-12)


@settings(max_examples=80, deadline=None)
@given(many, many, st.sampled_from([0.01, 0.3]), st.sampled_from([1.0, 7.0, 500.0]))
def test_cost_is_the_least_there_is(clean, bad, prevalence, miss):
    found = at_cost(clean, bad, miss=miss, false_alarm=2.0, prevalence=prevalence)

    def cost(t: float) -> float:
        missed, alarms = np.mean(np.array(bad) <= t), np.mean(np.array(clean) > t)
        return prevalence * miss * missed + (1 - prevalence) * 2.0 * alarms

    assert cost(found.value) == pytest.approx(min(map(cost, grid(clean, bad))), rel=1e-9)
    assert found.chosen_on == len(clean) + len(bad)


def test_equal_costs_at_equal_shares_are_balanced_accuracy():
    rng = np.random.default_rng(0)
    clean, bad = rng.normal(size=60), rng.normal(1, 1, 90)
    even = at_cost(clean, bad, miss=3.0, false_alarm=3.0, prevalence=0.5)
    assert even.value == at_balanced_accuracy(clean, bad).value


@given(st.integers(1, 200), st.sampled_from([0.01, 0.05, 0.1, 0.25]))
def test_a_conformal_threshold_is_its_order_statistic(n, alpha):
    rows = np.random.default_rng(n).permutation(n).astype(float)
    k = math.ceil(round((n + 1) * (1 - alpha), 9))
    found = conformal(rows, alpha=alpha)
    assert found.value == (k - 1 if k <= n else math.inf)
    assert found.expected_rate <= alpha + 1e-9


def exceeded(n: int, alpha: float, trials: int, seed: int, *, rounded: bool) -> int:
    """How often a fresh row lies above the conformal threshold of n others."""
    rows = np.random.default_rng(seed).lognormal(size=(trials, n + 1))
    rows = rows.round(1) if rounded else rows
    return sum(bool(conformal(r[:-1], alpha=alpha).verdict(r[-1:])[0]) for r in rows)


@pytest.mark.parametrize(
    ("n", "alpha", "trials"),
    [
        (39, 0.1, 4000),
        *(
            pytest.param(n, a, 40_000, marks=pytest.mark.slow)
            for n in (19, 57, 200)
            for a in (0.05, 0.2)
        ),
    ],
)
def test_conformal_false_alarms_keep_the_guarantee(n, alpha, trials):
    from scipy.stats import binom

    expected = conformal(np.arange(float(n)), alpha=alpha).expected_rate
    seen = exceeded(n, alpha, trials, 1, rounded=False)
    assert binom.ppf(0.001, trials, expected) <= seen <= binom.ppf(0.999, trials, expected)
    assert exceeded(n, alpha, trials, 2, rounded=True) <= binom.ppf(0.99, trials, alpha)


def test_false_positives_on_fresh_rows_are_as_expected():
    from scipy.stats import binom

    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(400):
        threshold = at_false_positive_rate(rng.normal(size=99), rate=0.05)
        seen += int(threshold.verdict(rng.normal(size=5)).sum())
    # 4 of 99 may lie above, so that a further one does with chance 5 / 100; rows that share a threshold vary together
    assert threshold.expected_rate == pytest.approx(0.05)
    assert binom.ppf(0.0005, 2000, 0.05) <= seen <= binom.ppf(0.9995, 2000, 0.05)


def test_a_case_without_a_score_is_risky_even_where_nothing_else_is():
    assert conformal([1.0], alpha=0.1).verdict([np.inf, np.nan, 3.0]).tolist() == [
        False,
        True,
        False,
    ]


@settings(max_examples=80, deadline=None)
@given(many, st.integers(0, 6), st.sampled_from([0.1, 0.2, 0.3, 0.5]))
def test_rows_without_a_score_are_alarms_that_every_rule_counts(rows, missing, rate):
    column = np.r_[rows, np.full(missing, np.nan)]
    n = len(column)

    def raised(t: float) -> int:
        return missing + int((np.array(rows) > t).sum())

    for found, keeps in (
        (
            at_false_positive_rate(column, rate=rate),
            [t for t in sorted(rows) if raised(t) <= rate * n + 1e-9],
        ),
        (
            conformal(column, alpha=rate),
            [t for t in sorted(rows) if raised(t) + 1 <= rate * (n + 1) + 1e-9],
        ),
    ):
        assert found.value == (keeps[0] if keeps else math.inf)
        assert found.missing == missing and found.chosen_on == n
        assert found.expected_rate == (
            0.0
            if found.value == math.inf and not missing
            else pytest.approx((raised(found.value) + 1) / (n + 1))
        )


def test_a_rate_that_missing_scores_overrun_is_not_called_zero():
    found = conformal(np.r_[np.arange(90.0), np.full(10, np.nan)], alpha=0.05)
    assert found.value == math.inf and found.overrun
    assert found.expected_rate == pytest.approx(11 / 101)
    few = conformal(np.arange(10.0), alpha=0.05)
    assert few.value == math.inf and not few.overrun and few.expected_rate == 0.0


def test_the_best_threshold_counts_missing_scores_as_alarms():
    rng = np.random.default_rng(8)
    clean, bad = np.r_[rng.normal(size=60), [np.nan] * 5], np.r_[rng.normal(1, 1, 40), [np.nan] * 9]
    found = at_cost(clean, bad, miss=9.0, false_alarm=1.0, prevalence=0.2)

    def cost(t: float) -> float:
        return 0.2 * 9 * (bad <= t).mean() + 0.8 * (~(clean <= t)).mean()

    assert math.isfinite(found.value) and cost(found.value) == pytest.approx(
        min(map(cost, np.r_[clean, bad, -np.inf]))
    )
    assert found.expected_rate == pytest.approx(((~(clean <= found.value)).sum() + 1) / 66)
    with pytest.raises(ValueError, match="none of the 12 nominal rows has a score"):
        at_balanced_accuracy(np.full(12, np.nan), np.arange(12.0))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), min_size=1, max_size=60),
    st.sampled_from([0.2, 0.4]),
)
def test_with_groups_each_group_weighs_the_same(rows, alpha):
    scores, groups = (np.array(c) for c in zip(*rows, strict=True))
    names = sorted(set(groups.tolist()))

    def rate(t: float) -> float:
        return (sum(float((scores[groups == g] > t).mean()) for g in names) + 1) / (len(names) + 1)

    keeps = [t for t in sorted(set(scores.tolist())) if rate(t) <= alpha + 1e-9]
    found = conformal(scores, alpha=alpha, groups=groups)
    assert found.value == (keeps[0] if keeps else math.inf) and found.groups == len(names)
    assert found.expected_rate == (pytest.approx(rate(found.value)) if keeps else 0.0)


@pytest.mark.parametrize("n", [19, 40, 333])
def test_groups_of_one_are_rows(n):
    rows = np.random.default_rng(n).normal(size=n).round(1)
    alone, grouped = conformal(rows, alpha=0.05), conformal(rows, alpha=0.05, groups=np.arange(n))
    assert (alone.value, alone.expected_rate) == (grouped.value, grouped.expected_rate)


def in_a_new_group(groups: int, trials: int, seed: int, *, alpha: float) -> int:
    """How often a case of a new group exceeds the threshold of groups of 20 whose cases correlate by one half."""
    rng, seen = np.random.default_rng(seed), 0
    for _ in range(trials):
        scores = rng.normal(size=(groups + 1, 1)) + rng.normal(size=(groups + 1, 20))
        names = np.repeat(np.arange(groups), 20)
        seen += int(
            conformal(scores[:-1].ravel(), alpha=alpha, groups=names).verdict(scores[-1, :1])[0]
        )
    return seen


@pytest.mark.parametrize(
    ("groups", "trials"),
    [(20, 1500), *(pytest.param(g, 20_000, marks=pytest.mark.slow) for g in (5, 10, 20, 50))],
)
def test_conformal_false_alarms_keep_the_rate_in_a_new_group(groups, trials):
    from scipy.stats import binom

    assert in_a_new_group(groups, trials, groups, alpha=0.05) <= binom.ppf(0.99, trials, 0.05)
    # with too few groups for 5% nothing is ever raised; at a rate that they can keep, they keep it
    alpha = max(0.05, 1.5 / (groups + 1))
    assert in_a_new_group(groups, trials, groups + 1, alpha=alpha) <= binom.ppf(0.99, trials, alpha)


def test_each_class_has_its_threshold_and_strangers_that_of_all():
    rng = np.random.default_rng(4)
    classes = np.repeat(["cat", "dog"], [60, 40])
    rows = rng.normal(size=100) + 5 * (classes == "dog")
    found = per_class(at_false_positive_rate, rows, classes, rate=0.1)
    for name, n in (("cat", 60), ("dog", 40)):
        assert found.per_class[name] == at_false_positive_rate(rows[classes == name], rate=0.1)
        assert found.per_class[name].chosen_on == n
    assert found.value == at_false_positive_rate(rows, rate=0.1).value
    assert found.verdict([4.0, 4.0, 4.0], ["cat", "dog", "cow"]).tolist() == [
        True,
        False,
        found.value < 4.0,
    ]
    assert found.expected_rate == pytest.approx(0.6 * 7 / 61 + 0.4 * 5 / 41)
    with pytest.raises(ValueError, match="class dog: a false-positive rate"):
        per_class(at_false_positive_rate, rows[:65], classes[:65], rate=0.1)
    with pytest.raises(ValueError, match="chosen per class"):
        found.verdict([1.0])


def test_rules_for_two_kinds_work_per_class_too():
    rng = np.random.default_rng(5)
    classes = np.repeat([0, 1], 50)
    clean, bad = rng.normal(size=100) + 5 * classes, rng.normal(2, 1, 100) + 5 * classes
    found = per_class(at_balanced_accuracy, clean, classes, risky=(bad, classes))
    assert found.per_class["1"] == at_balanced_accuracy(clean[50:], bad[50:])


def test_thresholds_come_back_exactly_from_their_record():
    rng = np.random.default_rng(6)
    found = per_class(conformal, rng.normal(size=60), np.repeat([0, 1], [57, 3]), alpha=0.05)
    assert found.per_class["1"].value == math.inf
    assert Threshold.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found


def test_rows_that_chose_the_threshold_are_not_judged():
    with pytest.raises(ValueError, match="1 of the rows to be judged, such as c, also chose"):
        separate(["a", "b", "c"], ["c", "d"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(tied, min_size=5, max_size=5), min_size=1, max_size=6),
    st.lists(tied, min_size=1, max_size=25),
)
def test_batch_distances_are_those_of_scipy(batches, reference):
    from scipy.stats import ks_2samp

    finite = [np.clip(b, -100, 100) for b in batches]  # the same order, in numbers that scipy takes
    expected = [
        ks_2samp(b, np.clip(reference, -100, 100), method="asymp").statistic for b in finite
    ]
    np.testing.assert_allclose(ks_distances(batches, reference), expected, atol=1e-12)


def alarms(how: str, size: int, n: int, repeats: int, batches: int, seed: int) -> float:
    """Share of fresh clean batches found risky, over many reference sets."""
    rng = np.random.default_rng(seed)
    found = [
        batch_threshold(rng.normal(size=n), size=size, how=how, rate=0.05, rng=rng)
        .verdict(rng.normal(size=size * batches))
        .mean()
        for _ in range(repeats)
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("how", ["mean", "ks"])
@pytest.mark.parametrize("size", [1, 16])
def test_clean_batches_raise_no_more_false_alarms_than_asked_for(how, size):
    # 60 reference sets x 100 batches; the spread between sets (about 0.02) over 60 sets gives a deviation of 0.003
    assert alarms(how, size, 600, 60, 100, 8) <= 0.05 + 0.012


@pytest.mark.slow
@pytest.mark.parametrize("how", ["mean", "ks"])
@pytest.mark.parametrize("size", BATCH_SIZES)
@pytest.mark.parametrize("n", [272, 1664])
def test_clean_batches_of_every_size_keep_the_rate(how, size, n):
    found = alarms(how, size, n, 300, 100, 9)
    assert found <= 0.05 + 0.006
    if how == "mean":
        assert found >= 0.05 - 0.006


@pytest.mark.parametrize("how", ["mean", "ks"])
def test_shifted_batches_are_found_and_the_more_so_the_larger(how):
    rng = np.random.default_rng(10)
    reference, shifted = rng.normal(size=1000), rng.normal(0.7, 1, 6400)
    power = [
        batch_threshold(reference, size=s, how=how, rate=0.05, rng=rng).verdict(shifted).mean()
        for s in (1, 8, 64)
    ]
    assert power[0] < power[1] < power[2]
    assert power[2] > 0.95


def test_a_wider_spread_around_the_same_mean_is_seen_by_the_distance():
    rng = np.random.default_rng(11)
    reference, wide = rng.normal(size=2000), rng.normal(0, 3, 6400)
    seen = {
        how: batch_threshold(reference, size=64, how=how, rate=0.05, rng=rng).verdict(wide).mean()
        for how in ("mean", "ks")
    }
    assert seen["mean"] < 0.5 < 0.9 < seen["ks"]


def test_batch_thresholds_say_what_they_stand_on():
    rng = np.random.default_rng(12)
    found = batch_threshold(rng.normal(size=300), size=8, how="ks", rate=0.1, rng=rng)
    assert (found.threshold.chosen_on, found.threshold.rule, len(found.reference)) == (
        300,
        "batch_ks",
        150,
    )
    assert len(found.verdict(rng.normal(size=23))) == 2
    assert found.verdict(np.full(8, np.nan)).tolist() == [True]
    same = [
        batch_threshold(np.arange(99.0), size=8, rate=0.1, rng=np.random.default_rng(1))
        for _ in "ab"
    ]
    assert same[0] == same[1]
    with pytest.raises(
        ValueError, match=r"batches of 64 at a rate of 0\.05 need 64 rows to draw from, found 50"
    ):
        batch_threshold(np.arange(100.0), size=64, how="ks", rate=0.05, rng=rng)
    with pytest.raises(ValueError, match="how must be 'mean' or 'ks'"):
        batch_threshold(np.arange(100.0), size=8, how="median", rate=0.05, rng=rng)
