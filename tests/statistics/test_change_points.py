from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binomtest, multivariate_hypergeom, norm

from roadworthy.statistics.change_points import change_evidence, since_change

tables = st.integers(2, 4).flatmap(
    lambda bins: st.lists(
        st.lists(st.integers(0, 6), min_size=bins, max_size=bins), min_size=2, max_size=6
    )
)


def two_normals(bins: int, distance: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Equally likely bins of a normal score, and where the same score moved by a distance falls."""
    edges = norm.ppf(np.linspace(0.0, 1.0, bins + 1))
    return np.diff(norm.cdf(edges)), np.diff(norm.cdf(edges - distance))


def log_marginal(counts) -> float:
    """Of a sequence with these counts under a uniform Dirichlet prior, one predictive probability at a time."""
    seen, total = np.ones(len(counts)), 0.0
    for bin_, count in enumerate(counts):
        for _ in range(int(count)):
            total += math.log(seen[bin_] / seen.sum())
            seen[bin_] += 1.0
    return total


def by_hand(table: np.ndarray) -> float:
    """The weighted e-value, place by place, in whole numbers."""
    bins, whole, logs = table.shape[1], table.sum(axis=0), []
    for place in range(1, len(table)):
        left, right = table[:place].sum(axis=0), table[place:].sum(axis=0)
        before, after = int(left.sum()), int(right.sum())
        ways = [math.comb(n + bins - 1, bins - 1) for n in (before, after, before + after)]
        others = np.sort(whole)[:-1]
        possible = math.prod(1 + min(int(n), before, after) for n in others)
        bound = min(ways[0], ways[1], possible) * ways[2] / (ways[0] * ways[1])
        factor = log_marginal(left) + log_marginal(right) - log_marginal(whole)
        logs.append(factor - math.log(bound) - math.log(len(table) - place))
    return float(logsumexp(logs)) - math.log(sum(1 / d for d in range(1, len(table))))


@given(tables)
def test_the_evidence_is_the_bayes_factor_over_its_bound(rows) -> None:
    assert change_evidence(rows) == pytest.approx(by_hand(np.array(rows)), abs=1e-9)


@pytest.mark.parametrize("whole", [(5, 4), (9, 1), (3, 3, 3), (8, 1, 1), (2, 2, 2, 2)])
def test_without_a_change_the_evidence_has_expectation_at_most_one(whole) -> None:
    for before in range(1, sum(whole)):
        lefts = [left for left in product(*(range(n + 1) for n in whole)) if sum(left) == before]
        chance = multivariate_hypergeom.pmf(lefts, whole, before)
        evidence = [math.exp(change_evidence([left, np.subtract(whole, left)])) for left in lefts]
        assert chance.sum() == pytest.approx(1.0)
        assert chance @ evidence <= 1.0 + 1e-9


@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_bins_does_not_matter(rows, random) -> None:
    table = np.array(rows)
    order = list(range(table.shape[1]))
    random.shuffle(order)
    assert change_evidence(table[:, order]) == pytest.approx(change_evidence(table), abs=1e-9)


def test_a_step_is_placed_where_it_happened_and_the_last_of_two_is_given() -> None:
    rng = np.random.default_rng(0)
    clean, shifted = two_normals(10)
    table = np.concatenate([rng.multinomial(20, p, size=40) for p in (clean, shifted, clean)])
    assert since_change(table[:40]) == 0
    assert abs(since_change(table[:80]) - 40) <= 1
    assert abs(since_change(table) - 80) <= 1


def test_empty_buckets_and_short_streams_show_no_change() -> None:
    assert (
        since_change(np.zeros((5, 3)))
        == since_change(np.zeros((0, 3)))
        == since_change([[4, 4]])
        == 0
    )
    assert change_evidence([[4, 4]]) == 0.0


def test_dependent_events_count_less() -> None:
    table = [[9, 1]] * 30 + [[4, 6]] * 10
    assert since_change(table) == 30
    assert since_change(table, shrink=0.05) == 0


@pytest.mark.parametrize("bad", [[1, 2], [[1], [2]], [[1, -1]], [[1, float("nan")]]])
def test_what_are_no_counts_is_refused(bad) -> None:
    with pytest.raises(ValueError, match="counts must be"):
        since_change(bad)


def test_alpha_and_shrink_are_shares() -> None:
    with pytest.raises(ValueError, match="alpha"):
        since_change([[1, 1]], 1.0)
    with pytest.raises(ValueError, match="shrink"):
        since_change([[1, 1]], shrink=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("bins", [2, 5, 15])
@pytest.mark.parametrize("spread", [0.05, 1.0, 100.0])
def test_false_alarms_stay_below_alpha_whatever_the_bins(bins, spread) -> None:
    rng = np.random.default_rng(bins)
    alarms, looks, alpha = 0, 1000, 0.05
    for _ in range(looks):
        shares = rng.dirichlet(np.full(bins, spread))
        alarms += since_change(rng.multinomial(10, shares, size=50), alpha) > 0
    assert binomtest(alarms, looks, alpha, alternative="greater").pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("bins", [2, 10])
def test_looking_after_every_bucket_still_alarms_at_less_than_alpha_a_look(bins) -> None:
    rng = np.random.default_rng(1)
    clean, _ = two_normals(bins)
    alarms = looks = 0
    for _ in range(10):
        stream, start = rng.multinomial(10, clean, size=400), 0
        for end in range(2, 400):
            found = since_change(stream[max(start, end - 100) : end], 0.01)
            start = max(start, end - 100) + found if found else start
            alarms, looks = alarms + (found > 0), looks + 1
    assert alarms <= 0.01 * looks


@pytest.mark.slow
@pytest.mark.parametrize("rate, events", [(0.3, 300), (1.0, 40)])
def test_a_step_is_seen_soon_and_the_window_is_cut_near_it(rate, events) -> None:
    rng = np.random.default_rng(2)
    clean, shifted = two_normals(10)
    delays, off = [], []
    for _ in range(60):
        stream = np.concatenate(
            [
                rng.multinomial(10, p, size=100)
                for p in (clean, (1 - rate) * clean + rate * shifted, shifted)
            ]
        )
        end, found = 101, since_change(stream[1:101])
        while not found:
            end += 1
            found = since_change(stream[end - 100 : end])
        delays.append(10 * (end - 100))
        off.append(abs(end - 100 + found - 100))
    assert np.median(delays) <= events
    assert np.median(off) <= 3
