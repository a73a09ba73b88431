"""Labelling the riskiest first: every number against brute force over all orders, closed forms or peers."""

from __future__ import annotations

import math
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import somersd

from roadworthy.analysis.prioritisation import LabellingOrder

CASES = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6)


def every_order(scores: list[int]) -> list[tuple[int, ...]]:
    """All orders that put a higher score first."""
    orders = permutations(range(len(scores)))
    return [o for o in orders if all(scores[a] >= scores[b] for a, b in pairwise(o))]


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_with_ties_all_numbers_are_means_over_all_orders(cases: list) -> None:
    scores, failed, wasted = map(list, zip(*cases, strict=True))
    counted = [f and not w for f, w in zip(failed, wasted, strict=True)]
    n, m = len(cases), sum(counted)
    order = LabellingOrder(scores, failed, wasted=wasted)
    orders = every_order(scores)
    for k in range(1, n + 1):
        spent = np.mean([sum(wasted[i] for i in o[:k]) / k for o in orders])
        assert order.wasted_labels(k) == pytest.approx(spent)
        if m:
            share = np.mean([sum(counted[i] for i in o[:k]) / m for o in orders])
            assert order.found(k) == pytest.approx(share)
    if not m:
        assert order.reason == "no case failed" and math.isnan(order.labels_for(0.5))
        assert np.isnan(order.found([0, n])).all() and math.isnan(order.area)
        return
    places = [[at for at, i in enumerate(o, 1) if counted[i]] for o in orders]
    apfd = np.mean([1 - sum(p) / (n * m) + 1 / (2 * n) for p in places])
    assert order.apfd == pytest.approx(apfd)
    for share in (0.5, 0.9, 1.0):
        wanted = math.ceil(share * m)
        assert order.labels_for(share) == pytest.approx(np.mean([p[wanted - 1] for p in places]))
        assert LabellingOrder(counted, failed, wasted=wasted).labels_for(share) == wanted


@pytest.mark.parametrize(("n", "m"), [(5, 1), (6, 3), (7, 5)])
def test_a_random_order_has_the_mean_over_all_permutations(n: int, m: int) -> None:
    failed = [i < m for i in range(n)]
    tied = LabellingOrder(np.zeros(n), failed)
    places = [[at for at, i in enumerate(o, 1) if failed[i]] for o in permutations(range(n))]
    for share in (0.5, 0.9):
        wanted = math.ceil(share * m)
        assert tied.labels_for(share) == pytest.approx(np.mean([p[wanted - 1] for p in places]))
        assert tied.labels_for(share) == pytest.approx(wanted * (n + 1) / (m + 1))
    assert tied.area == pytest.approx(0.0, abs=1e-12) and tied.apfd == pytest.approx(0.5)


def test_the_ideal_order_has_one_and_the_reverse_minus_one() -> None:
    failed = np.arange(20) < 6
    best, worst = (LabellingOrder(sign * -np.arange(20), failed) for sign in (1, -1))
    assert best.apfd == pytest.approx(1 - 6 / 40)
    assert best.area == pytest.approx(1.0) and worst.area == pytest.approx(-1.0)
    assert best.labels_for(0.5) == 3
    assert worst.labels_for(0.5) == 14 + 3
    assert best.found([3, 6, 20]).tolist() == [0.5, 1.0, 1.0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 200), st.sampled_from([2, 5, 10**6]))
def test_the_area_is_somers_d_of_scipy(seed: int, n: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    scores, failed = rng.integers(0, values, n), rng.random(n) < 0.3
    failed[:2], scores[-1] = [True, False], values  # scipy wants two scores that differ
    known = somersd(failed.astype(int), scores).statistic
    assert LabellingOrder(scores, failed).area == pytest.approx(known, abs=1e-12)


def test_apfd_is_that_of_dnn_tip_and_the_area_linear_in_the_auc_of_scikit_learn() -> None:
    kept = np.load(Path(__file__).parent / "oracle" / "apfd.npz")
    for i, (scores, failed) in enumerate(zip(kept["scores"], kept["failed"], strict=True)):
        order, tied = (LabellingOrder(s, failed) for s in (scores, np.round(scores)))
        assert order.apfd == pytest.approx(kept["apfd"][i])
        assert order.area == pytest.approx(2 * kept["auc"][i] - 1)
        assert tied.area == pytest.approx(2 * kept["tied_auc"][i] - 1)
        best = 1 - failed.mean() / 2
        worst = 1 - best
        assert (order.apfd - worst) / (best - worst) == pytest.approx(kept["auc"][i])


def test_wasted_cases_stay_in_the_order_but_their_failures_do_not_count() -> None:
    order = LabellingOrder(
        [6, 5, 4, 3, 2, 1],
        failed=[True, True, True, False, True, False],
        wasted=[True, True, False, False, False, False],
    )
    assert order.failures == 2
    assert order.found([2, 3, 5]).tolist() == [0.0, 0.5, 1.0]
    assert order.wasted_labels(2) == 1.0 and order.wasted_labels(4) == 0.5
    assert order.labels_for(0.5) == 3


def test_a_missing_score_counts_against_the_supervisor() -> None:
    order = LabellingOrder([math.nan, math.inf, 0.1, math.nan], [True, True, False, False])
    # The right case without a score shares the first place with the infinite one.
    assert order.labels_for(1.0) == 4
    assert order.found([2, 3]).tolist() == [0.5, 0.5]


def clustered(rng: np.random.Generator, groups: int, size: int) -> tuple[np.ndarray, ...]:
    """Groups that differ in how often they fail and in how high they score."""
    failing, level = (np.repeat(column, size) for column in rng.normal(size=(2, groups)))
    failed = 3 * failing + rng.normal(size=groups * size) > 2
    scores = failed + 2 * level + rng.normal(size=groups * size)
    return scores, failed, np.repeat(np.arange(groups), size)


def test_intervals_respect_groups_and_the_two_methods_agree() -> None:
    from roadworthy.statistics import bootstrap

    scores, failed, groups = clustered(np.random.default_rng(3), 60, 10)
    grouped, single = LabellingOrder(scores, failed, groups), LabellingOrder(scores, failed)
    for finding in (
        lambda o: o.area_finding(0.95),
        lambda o: o.found_finding(60, 0.95, seed=0),
    ):
        wide, narrow = finding(grouped), finding(single)
        assert wide.value == narrow.value and wide.interval.contains(wide.value)
        assert wide.interval.high - wide.interval.low > narrow.interval.high - narrow.interval.low

    def area(weights: np.ndarray) -> float:
        rows = np.repeat(np.arange(600), weights)
        return LabellingOrder(grouped.scores[rows], grouped.failed[rows]).area

    drawn = bootstrap(area, 600, grouped.groups, resamples=2000, rng=np.random.default_rng(1))
    known = grouped.area_finding(0.95).interval
    assert drawn.low == pytest.approx(known.low, abs=0.03)
    assert drawn.high == pytest.approx(known.high, abs=0.03)


def test_the_share_found_is_covered_as_often_as_promised() -> None:
    rng = np.random.default_rng(8)
    scores, failed, _ = clustered(rng, 40_000, 5)
    truth = float(LabellingOrder(scores, failed).found(0.1 * len(scores)))
    hits = 0
    for trial in range(150):
        order = LabellingOrder(*clustered(rng, 80, 5))
        hits += order.found_finding(40, 0.9, seed=trial).interval.contains(truth)
    # Not below 90% by a one-sided binomial test at 1%.
    assert hits >= 126


@pytest.mark.parametrize(
    ("failed", "reason"), [([False] * 3, "no case failed"), ([True] * 3, "all cases failed")]
)
def test_without_two_kinds_of_cases_findings_say_why_there_is_nothing(failed, reason) -> None:
    order = LabellingOrder([1.0, 2.0, 3.0], failed)
    area, found = order.area_finding(0.95), order.found_finding(2, 0.95, seed=0)
    assert area.reason == found.reason == reason and area.interval is found.interval is None
    assert math.isnan(area.value)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="scores and failed"):
        LabellingOrder([1.0, 2.0], [True])
