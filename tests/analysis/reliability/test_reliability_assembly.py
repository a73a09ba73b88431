"""Bounds on pmi against exact enumeration, scipy, conjugate posteriors and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from roadworthy.analysis.reliability.assembly import (
    claim_status,
    conservative_bound,
    corrected,
    cost_of_failures,
    credible,
    detection_limit,
    held_out_check,
    operational_test,
    printed_bounds,
    propagated,
    subtypes,
)


def failures(k: int, n: int) -> np.ndarray:
    return np.arange(n) < k


# (d): plain operational testing


@pytest.mark.parametrize(("k", "n"), [(0, 50), (3, 400), (50, 50), (7, 9)])
def test_independent_inputs_have_the_bounds_of_scipy(k, n):
    found = operational_test(failures(k, n))
    both = binomtest(k, n).proportion_ci(0.95, method="exact")
    assert (found.lower, found.upper) == pytest.approx((both.low, both.high), abs=1e-12)
    assert (found.k, found.n, found.point) == (k, n, k / n)


def test_its_exact_coverage_is_never_below_nominal():
    n, k = 60, np.arange(61)
    bounds = [operational_test(failures(int(x), n)) for x in k]
    for p in np.linspace(0.002, 0.998, 250):
        chance = binom.pmf(k, n, p)
        assert chance @ np.array([b.upper >= p for b in bounds]) >= 0.975
        assert chance @ np.array([b.lower <= p for b in bounds]) >= 0.975


def test_a_group_counts_once_by_its_failing_share():
    groups = np.repeat(np.arange(50), 30)
    failed = (groups < 2) & (np.arange(1500) % 2 == 0)
    found = operational_test(failed, groups=groups)
    assert (found.n, found.k) == (50, 1.0)
    assert found.point == pytest.approx(0.02)
    assert found.upper > 2 * operational_test(failed).upper
    each_its_own = operational_test(failed, groups=np.arange(1500))
    assert each_its_own == operational_test(failed)


def test_weights_turn_one_profile_into_another_and_cover_it():
    # Drawn half and half, claimed 90% of the class that fails at 2% and 10% of the one at 10%.
    rates, claimed = np.array([0.02, 0.1]), np.array([0.9, 0.1])
    rng, held, points = np.random.default_rng(0), 0, []
    for _ in range(300):
        kind = rng.integers(0, 2, 400)
        weights = (claimed / 0.5)[kind]
        found = operational_test(rng.random(400) < rates[kind], weights=weights, largest_weight=1.8)
        held += found.lower <= claimed @ rates <= found.upper
        points.append(found.point)
        assert found.effective_n == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert binom.cdf(held, 300, 0.95) > 0.01
    assert np.mean(points) == pytest.approx(claimed @ rates, abs=0.002)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"weights": np.ones(20)}, "largest weight"),
        ({"weights": np.full(20, 2.0), "largest_weight": 1.5}, "largest weight"),
        ({"weights": np.full(2000, 0.5), "largest_weight": 1.0}, "1 on average"),
        ({"weights": np.ones(20), "groups": np.arange(20)}, "not supported"),
    ],
)
def test_weights_that_cannot_give_a_bound_are_refused(more, said):
    with pytest.raises(ValueError, match=said):
        operational_test(np.zeros(len(more["weights"])), **more)


def test_without_labelled_inputs_nothing_is_known():
    found = operational_test([])
    assert (found.n, found.lower, found.upper) == (0, 0.0, 1.0)
    assert math.isnan(found.point)


@given(st.integers(0, 80), st.integers(80, 600), st.floats(0.6, 0.995))
@settings(max_examples=60)
def test_bounds_rise_with_failures_and_widen_with_confidence(k, n, confidence):
    fewer, more = (
        operational_test(failures(x, n), confidence=confidence) for x in (k, min(k + 1, n))
    )
    assert fewer.lower <= fewer.point <= fewer.upper
    assert fewer.upper <= more.upper and fewer.lower <= more.lower
    assert operational_test(failures(k, n), confidence=0.999).upper >= fewer.upper


# (b) and the two lines


def test_an_input_without_a_label_within_r_counts_as_failing():
    reached = np.array([0, 0, 1, -1, -1, 1, 0, 0, 0, 0])
    found = propagated(reached, np.zeros(10, int))
    assert (found.failing, found.without_label, found.bound.k) == (0.2, 0.2, 4)
    assert found.bound.upper == pytest.approx(binomtest(4, 10).proportion_ci(0.95).high)
    assert not found.says_nothing


def test_far_from_all_labels_it_says_nothing():
    found = propagated(np.full(200, -1), np.zeros(200, int))
    assert found.says_nothing
    assert str(found) == "(b) says nothing: 100.0% of operation has no label within r"


@given(st.integers(0, 20), st.integers(20, 400), st.integers(0, 200), st.floats(0.05, 0.95))
@settings(max_examples=80)
def test_the_second_line_is_the_smaller_of_both_at_their_parts_of_alpha(k, n, without, split):
    reached = np.where(np.arange(3000) < without, -1, 0)
    lines = printed_bounds(failures(k, n), reached, np.zeros(3000, int), split=split)
    by_hand = [
        operational_test(failures(k, n), confidence=1 - split * 0.025).upper,
        operational_test(failures(without, 3000), confidence=1 - (1 - split) * 0.025).upper,
    ]
    assert lines.if_separated.upper == pytest.approx(min(by_hand))
    assert lines.without_assumptions == operational_test(failures(k, n))
    assert lines.if_separated.lower == lines.without_assumptions.lower
    assert lines.gain == pytest.approx(lines.without_assumptions.upper / min(by_hand))


def test_where_labels_nearby_do_not_help_the_split_costs_under_three_per_cent():
    lines = printed_bounds(failures(0, 1000), np.full(100, -1), np.zeros(100, int))
    assert 0.97 < lines.gain < 0.973


def test_a_claim_is_judged_by_the_first_line_unless_separation_is_assumed_and_stands():
    given_ = failures(2, 500), np.zeros(9000, int), np.zeros(9000, int)
    stands, contradicted = printed_bounds(*given_), printed_bounds(*given_, contradicted=1)
    assert stands.judged(True) is stands.if_separated
    assert stands.judged(False) is stands.without_assumptions
    assert contradicted.judged(True) is contradicted.without_assumptions


# Corrected, Bayesian, conservative


def test_the_corrected_bound_adds_two_exact_ones_at_half_alpha():
    guess, failed, own = failures(150, 4000), failures(12, 400), failures(20, 400)
    failed = np.roll(failed, 14)  # 6 of the 12 failures are guessed, 14 guesses are wrong
    found = corrected(guess, failed, own)
    missed, excess = int((failed & ~own).sum()), int((own & ~failed).sum())
    assert (missed, excess) == (6, 14)
    ends = [
        binomtest(k, n).proportion_ci(0.975) for k, n in ((150, 4000), (missed, 400), (excess, 400))
    ]
    assert found.upper == pytest.approx(ends[0].high + ends[1].high)
    assert found.lower == max(ends[0].low - ends[2].high, 0)
    assert found.point == pytest.approx(150 / 4000 + 6 / 400 - 14 / 400)


def test_the_credible_bound_is_the_quantile_of_the_sum_by_draws():
    inputs = np.array([400, 300, 200, 80, 20])
    tests, failed = np.array([60, 50, 20, 10, 0]), np.array([0, 3, 1, 5, 0])
    found = credible(inputs, tests, failed)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.append(inputs, 0) + 1 / 6, 200_000)
    rates = rng.beta(failed[:4] + 0.5, tests[:4] - failed[:4] + 0.5, (200_000, 4))
    total = (weights[:, :4] * rates).sum(axis=1) + weights[:, 4:].sum(axis=1)
    assert found.point == pytest.approx(total.mean(), rel=2e-3)
    assert (found.lower, found.upper) == pytest.approx(np.quantile(total, [0.025, 0.975]), rel=0.01)


def test_with_one_tested_cell_that_is_nearly_all_it_is_the_conjugate_posterior():
    found = credible([10**9], [200], [3])
    assert found.upper == pytest.approx(beta.ppf(0.975, 3.5, 197.5), rel=1e-6)
    untested = credible([100, 50], [0, 0], [0, 0])
    assert (untested.point, untested.upper) == (1.0, 1.0)


def test_the_conservative_bound_is_reached_by_the_worst_prior_and_no_other_is_worse():
    n, below, belief, confidence = 800, 2e-4, 0.7, 0.975
    bound = conservative_bound(n, below=below, belief=belief, confidence=confidence)

    def posterior(places: np.ndarray, mass: np.ndarray) -> float:
        likelihood = mass * (1 - places) ** n
        return float(likelihood[places <= bound].sum() / likelihood.sum())

    worst = posterior(np.array([below, bound * (1 + 1e-9)]), np.array([belief, 1 - belief]))
    assert worst == pytest.approx(confidence, abs=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(500):
        places = np.concatenate([rng.uniform(0, below, 3), rng.uniform(0, 0.02, 5)])
        mass = np.concatenate(
            [rng.dirichlet(np.ones(3)) * belief, rng.dirichlet(np.ones(5)) * (1 - belief)]
        )
        assert posterior(places, mass) >= confidence - 1e-5
    assert conservative_bound(0, below=1e-4, belief=0.99) == 1e-4
    assert conservative_bound(0, below=1e-4, belief=0.5) == 1.0


# Claims, sub-types, held-out tests


def test_an_inconclusive_claim_says_how_many_failure_free_labels_settle_it():
    bound = operational_test(failures(1, 500))
    found = claim_status(bound, 0.003)
    assert found.status == "inconclusive"
    uppers = [operational_test(failures(1, 500 + found.further + i)).upper for i in (-1, 0)]
    assert uppers[0] > 0.003 >= uppers[1]
    assert claim_status(operational_test(failures(0, 2000)), 0.003).status == "met"
    assert claim_status(operational_test(failures(30, 2000)), 0.003).status == "breached"
    by_group = operational_test(np.zeros(300), groups=np.arange(300) // 3)
    further = claim_status(by_group, 0.01).further
    assert 1 - 0.025 ** (1 / (100 + further)) <= 0.01 < 1 - 0.025 ** (1 / (99 + further))


def test_sub_types_add_up_and_claims_on_several_are_corrected_by_holm():
    labels = np.zeros(2000, int)
    answers = np.where(np.arange(2000) < 2, 1, np.where(np.arange(2000) < 6, 2, 0))
    pairs = {"critical": [(0, 1)], "other": [(0, 2), (1, 0)]}
    critical, other = subtypes(labels, answers, pairs, limits={"critical": 0.004, "other": 0.006})
    assert critical.bound.point + other.bound.point == (labels != answers).mean()
    raw = [binom.cdf(2, 2000, 0.004), binom.cdf(4, 2000, 0.006)]
    assert critical.p_adjusted == pytest.approx(max(2 * min(raw), max(raw)), rel=1e-6)
    assert other.p_adjusted == pytest.approx(2 * min(raw), rel=1e-6)
    assert (critical.status, other.status) == ("met", "met")
    alone, unclaimed = subtypes(labels, answers, pairs, limits={"critical": 0.0005})
    assert alone.status == "inconclusive" and unclaimed.status is None
    with pytest.raises(ValueError, match="no failure"):
        subtypes(labels, answers, {"right": [(1, 1)]})
    with pytest.raises(ValueError, match="unknown sub-types"):
        subtypes(labels, answers, pairs, limits={"none": 0.1})


def test_the_mean_cost_is_bounded_by_the_costs_of_the_sub_types():
    rng, held = np.random.default_rng(1), 0
    pairs, costs = {"critical": [(0, 1)], "other": [(0, 2)]}, {"critical": 100.0, "other": 1.0}
    for _ in range(200):
        answers = rng.choice(3, p=[0.94, 0.01, 0.05], size=500)
        found = cost_of_failures(np.zeros(500, int), answers, pairs, costs)
        assert found.point == pytest.approx(((answers == 1) * 100 + (answers == 2)).mean())
        held += found.lower <= 1.05 <= found.upper
    assert binom.cdf(held, 200, 0.95) > 0.01


def test_held_out_failures_contradict_a_bound_only_if_they_are_too_many_for_it():
    found = held_out_check(failures(12, 1000), 0.004)
    assert found.p == pytest.approx(binomtest(12, 1000, 0.004, alternative="greater").pvalue)
    assert found.contradicted and not held_out_check(failures(7, 1000), 0.004).contradicted
    assert (1 - detection_limit(1000)) ** 1000 == pytest.approx(0.025)
    assert found.detects == pytest.approx(3.7 / 1000, rel=0.01)
    assert not held_out_check([], 0.004).contradicted
