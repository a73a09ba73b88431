"""Awareness, propagation, blame and rejection against loops, scipy and published cells."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from roadworthy.analysis.systems import awareness, blame, propagation, rejection
from roadworthy.measures.regression import rmse
from roadworthy.measures.scored import Scored, complement
from roadworthy.measures.speech import wer

few_values = st.integers(0, 4).map(float)


def pairs(least=2, most=25, values=few_values):
    both = st.tuples(values, values)
    return st.lists(both, min_size=least, max_size=most).map(lambda rows: np.array(rows).T)


@given(pairs(least=1))
def test_signed_rank_by_all_signs(columns):
    """The normal approximation is scipy's; the exact p-value is that of all 2^n signs."""
    here, clean = columns
    found = awareness.signed_rank(here, clean)
    assert found.strict == np.mean(here > clean)
    assert found.effect == pytest.approx(np.mean((here > clean) + 0.5 * (here == clean)))
    moved = (here - clean)[here != clean]
    if not len(moved):
        assert found.p == 1.0
    elif len(np.unique(np.abs(moved))) < len(moved):
        ranks = stats.rankdata(np.abs(moved))
        n, ties = len(moved), np.unique(ranks, return_counts=True)[1]
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24 - (ties**3 - ties).sum() / 48)
        z = (ranks[moved > 0].sum() - n * (n + 1) / 4) / spread
        assert found.p == pytest.approx(stats.norm.sf(z))


@pytest.mark.parametrize("n", [3, 6, 9])
def test_few_pairs_without_ties_have_the_exact_p_value(n):
    rng = np.random.default_rng(n)
    change = rng.normal(0.3, 1, n)
    ranks = stats.rankdata(np.abs(change))
    sums = [np.dot(s, ranks) for s in itertools.product((0, 1), repeat=n)]
    exact = np.mean(np.array(sums) >= ranks[change > 0].sum() - 1e-9)
    assert awareness.signed_rank(change, np.zeros(n)).p == pytest.approx(exact)


def test_groups_change_their_sign_as_a_whole():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(6), 4)
    change = rng.normal(0.4, 1, 24)
    ranks = np.sign(change) * stats.rankdata(np.abs(change))
    sums = [ranks[groups == g].sum() for g in range(6)]
    flipped = [np.dot(s, sums) for s in itertools.product((-1, 1), repeat=6)]
    found = awareness.signed_rank(change, np.zeros(24), groups)
    assert found.p == pytest.approx(np.mean(np.array(flipped) >= sum(sums) - 1e-9))


@pytest.mark.parametrize("count", [10, 40])
def test_p_values_hold_their_level_for_frames_of_a_video(count):
    """Frames of one sequence share most of their change; of 400 draws without effect 5% may be significant."""
    rng = np.random.default_rng(count)
    groups = np.repeat(np.arange(count), 10)
    reached = np.zeros((400, 4))
    for i in range(400):
        x, y = (
            rng.normal(size=count)[groups] + 0.5 * rng.normal(size=10 * count) for _ in range(2)
        )
        reached[i, 0] = awareness.signed_rank(x, 0 * x, groups).p
        reached[i, 1] = awareness.spearman(x, y, groups).p
        reached[i, 2] = propagation.kendall(x, y, groups).p
        reached[i, 3] = awareness.signed_rank(x, 0 * x).p
    shares = (reached <= 0.05).mean(axis=0)
    assert (shares[:3] <= 0.083).all(), shares  # 5% and three standard errors
    assert shares[3] > 0.15, "taking frames as independent must fail here"


def test_missing_scores_are_counted_in_tests_and_riskiest_in_rankings():
    here, clean = np.array([1.0, np.nan, 3.0, np.inf]), np.array([0.0, 1.0, np.nan, np.inf])
    found = awareness.signed_rank(here, clean)
    assert (found.pairs, found.missing, found.effect) == (2, 2, 0.75)
    assert awareness.top_overlap(here, np.array([0.0, 9.0, 0.0, 1.0]), 0.25).share == 0.5
    assert rejection.rejection_ranks(here).tolist() == [4, 1, 3, 2]


@settings(max_examples=30)
@given(pairs(least=4, most=7), st.sampled_from([0.25, 0.5, 0.9]))
def test_overlap_is_the_mean_over_all_orders_of_ties(columns, share):
    a, b = columns
    size = awareness.top_size(len(a), share)

    def tops(scores):
        orders = itertools.permutations(range(len(scores)))
        return [
            set(o[:size])
            for o in orders
            if all(scores[i] >= scores[j] for i, j in itertools.pairwise(o))
        ]

    both = [len(x & y) for x in tops(a) for y in tops(b)]
    found = awareness.top_overlap(a, b, share)
    if size:
        assert found.share == pytest.approx(np.mean(both) / size)
        assert found.chance == size / len(a)
    else:
        assert math.isnan(found.share)


def test_sizes_of_the_top_are_those_published():
    assert [awareness.top_size(2620, s) for s in (0.01, 0.05, 0.1)] == [26, 131, 262]
    assert [awareness.top_size(2617, s) for s in (0.01, 0.05, 0.1)] == [26, 130, 261]
    assert [awareness.top_size(2650, s) for s in (0.01, 0.05, 0.1)] == [26, 132, 265]


@given(pairs(most=40))
def test_concordances_are_counted_as_in_a_loop(columns):
    x, y = columns
    signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    assert propagation.concordances(x, y).tolist() == signs.sum(axis=1).tolist()


@given(pairs(most=30), st.booleans())
def test_associations_are_scipys(columns, missing):
    x, y = columns
    if missing:
        x = np.where(np.arange(len(x)) == 0, np.nan, x)
    known = ~np.isnan(x)
    for ours, theirs in (
        (propagation.kendall, stats.kendalltau),
        (awareness.spearman, stats.spearmanr),
    ):
        found = ours(x, y)
        if known.sum() < 2 or np.ptp(x[known]) == 0 or np.ptp(y[known]) == 0:
            assert math.isnan(found.value) and found.interval is None
            continue
        expected = theirs(x[known], y[known])
        assert found.value == pytest.approx(expected.statistic, abs=1e-12)
        assert found.missing == int(missing)
        assert found.interval.low <= found.value <= found.interval.high


@pytest.mark.slow
@pytest.mark.parametrize("ours", [propagation.kendall, awareness.spearman])
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("repeats", [1, 3])
def test_intervals_of_associations_cover(ours, rounded, repeats):
    """With groups of equal cases as without; nominal 95%."""
    rng = np.random.default_rng(1)

    def draw(n):
        x = rng.normal(size=n)
        y = x + rng.normal(size=n)
        return (np.round(x), np.round(y)) if rounded else (x, y)

    truth = ours(*draw(200_000)).value
    groups = np.repeat(np.arange(100), repeats)
    hits = 0
    for _ in range(600):
        x, y = (np.repeat(v, repeats) for v in draw(100))
        hits += ours(x, y, groups).interval.contains(truth)
    assert 0.91 <= hits / 600 <= 0.985


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_shapley_is_the_mean_over_all_orders(players, seed):
    rng, names = np.random.default_rng(seed), "abcd"[:players]
    errors = {
        frozenset(c): rng.random(3)
        for k in range(players + 1)
        for c in itertools.combinations(names, k)
    }
    found = blame.shapley(errors)
    for player in names:
        gains = []
        for order in itertools.permutations(names):
            before = frozenset(order[: order.index(player)])
            gains.append(errors[before] - errors[before | {player}])
        np.testing.assert_allclose(found[player], np.mean(gains, axis=0))
    total = sum(found.values())
    np.testing.assert_allclose(total, errors[frozenset()] - errors[frozenset(names)])


def test_a_subset_that_was_not_run_is_refused():
    with pytest.raises(ValueError, match="1 of the 4 subsets of a, b"):
        blame.shapley({frozenset(): [1.0], frozenset("a"): [0.5], frozenset("ab"): [0.0]})


def test_blame_has_the_interval_of_its_groups():
    rng = np.random.default_rng(0)
    values = np.repeat(rng.random(40), 5)
    groups = np.repeat(np.arange(40), 5)
    alone, grouped = (
        blame.blamed(values, 2 * values, g, rng=np.random.default_rng(1)) for g in (None, groups)
    )
    assert alone.share == grouped.share == pytest.approx(0.5)
    assert grouped.interval.width > 1.8 * alone.interval.width


def by_definition(first, second, n):
    """The first half of n by one order, and of the rest the other half by the other."""
    chosen = list(first[: math.ceil(n / 2)])
    rest = [row for row in second if row not in chosen]
    return set(chosen) | set(rest[: n // 2])


def walked_down(u, o, n):
    """Both rankings walked down until n inputs are in both; the last step may bring two of them."""
    for depth in range(1, len(u) + 1):
        common = set(u[:depth]) & set(o[:depth])
        if len(common) >= n:
            return common
    raise AssertionError


@given(st.integers(1, 20).flatmap(lambda n: st.tuples(*[st.permutations(range(n))] * 2)))
def test_strategies_reject_what_their_definitions_say(orders):
    by_u, by_o = orders
    n = len(by_u)
    u, o = (np.empty(n) for _ in range(2))
    u[list(by_u)], o[list(by_o)] = -np.arange(n), -np.arange(n)
    found = rejection.strategies(u, o)
    for k in range(n + 1):
        assert set(found["S1"][:k]) == set(by_u[:k]) and set(found["S2"][:k]) == set(by_o[:k])
        assert set(found["S3"][:k]) == by_definition(by_u, by_o, k)
        assert set(found["S4"][:k]) == by_definition(by_o, by_u, k)
        if k:
            common = walked_down(by_u, by_o, k)
            assert set(found["S5"][:k]) <= common and len(common) <= k + 1


def test_ties_go_by_one_order_for_all_strategies():
    ties = np.random.default_rng(0).permutation(30)
    same = rejection.strategies(np.zeros(30), np.zeros(30), ties)
    assert all(order.tolist() == np.argsort(ties).tolist() for order in same.values())


def scored_words(n, seed, silent=()):
    rng = np.random.default_rng(seed)
    said = [" ".join(rng.choice(list("abcd"), rng.integers(1, 6))) for _ in range(n)]
    heard = [" ".join(rng.choice(list("abcd"), rng.integers(1, 6))) for _ in range(n)]
    return wer([None if i in silent else h for i, h in enumerate(heard)], said)


@pytest.mark.parametrize("seed", range(4))
def test_the_oracle_of_a_ratio_beats_every_subset(seed):
    scored = scored_words(9, seed, silent=(2,))
    above, below = scored.numerator, scored.denominator
    for k in range(9):
        left = [
            above[list(c)].sum() / below[list(c)].sum()
            for c in itertools.combinations(range(9), 9 - k)
        ]
        order = rejection.oracle_orders(scored, [k])[0]
        assert rejection.curve(scored, order, [k])[0] == pytest.approx(min(left))
    turned = Scored.ratio(
        above, below, error=scored.error, failure=scored.failure, better="higher", scale=complement
    )
    order = rejection.oracle_orders(turned, [3])[0]
    assert rejection.curve(turned, order, [3])[0] == pytest.approx(
        1 - rejection.curve(scored, rejection.oracle_orders(scored, [3])[0], [3])[0]
    )


def test_the_curve_charges_silence_as_in_the_whole_condition():
    scored = scored_words(12, 0, silent=(5,))
    order = np.argsort(-scored.error, kind="stable")
    found = rejection.curve(scored, order)
    for k in range(12):
        kept = order[k:]
        assert found[k] == pytest.approx(
            scored.numerator[kept].sum() / scored.denominator[kept].sum()
        )
    assert rejection.area(found) == pytest.approx(found.mean())


def test_a_measure_that_is_no_ratio_of_sums_is_weighted():
    right = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    plain = Scored.proportion(right)
    free = Scored(plain.error, plain.failure, "free", plain.weighted)
    order = np.array([1, 0, 3, 2, 4])
    np.testing.assert_allclose(rejection.curve(free, order), rejection.curve(plain, order))


def test_rejections_against_a_bootstrap_by_rows():
    """Intervals of the value are those of drawing rows and rejecting among them."""
    rng = np.random.default_rng(3)
    risk = rng.random(300)
    wrong = (rng.random(300) < 0.1 + 0.6 * risk**3).astype(float)
    scored = Scored.proportion(1 - wrong, better="lower")
    order = np.argsort(-risk)
    found = rejection.rejections(
        scored, {"S1": order}, budgets=[0.05, 0.001], rng=np.random.default_rng(0), resamples=1000
    )
    at = {(r.strategy, r.budget): r for r in found.at}
    drawn = []
    for _ in range(1000):
        rows = rng.integers(0, 300, 300)
        kept = rows[np.argsort(-risk[rows], kind="stable")[15:]]
        drawn.append(wrong[kept].mean())
    low, high = np.quantile(drawn, [0.025, 0.975])
    interval = at["S1", 0.05].interval
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.012)
    assert at["S1", 0.05].value == pytest.approx(wrong[order[15:]].mean())
    assert at["oracle", 0.05].value == pytest.approx((wrong.sum() - 15) / 285)
    expected = (wrong.mean() - wrong[order[15:]].mean()) / (wrong.mean() - (wrong.sum() - 15) / 285)
    assert at["S1", 0.05].of_oracle == pytest.approx(expected)
    assert at["S1", 0.05].of_oracle_interval.contains(expected)
    assert at["S1", 0.001].size == 0 and math.isnan(at["S1", 0.001].value)
    areas = {c.strategy: c.area for c in found.curves}
    assert areas["oracle"] < areas["S1"] < areas["random"]


def test_a_learned_combination_scores_each_case_by_others():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=400)
    wrong = hidden + rng.normal(size=400) > 1
    columns = {
        "good": hidden,
        "noise": rng.normal(size=400),
        "half": np.where(rng.random(400) < 0.5, np.nan, hidden),
    }
    scores = rejection.learned_scores(
        columns, wrong, np.arange(400) // 2, rng=np.random.default_rng(1)
    )
    right_pairs = stats.mannwhitneyu(scores[wrong], scores[~wrong]).statistic / (
        wrong.sum() * (~wrong).sum()
    )
    assert right_pairs > 0.75
    assert np.isnan(rejection.learned_scores(columns, wrong, np.zeros(400), rng=rng)).all()
    # With labels that are noise, scores of held-out cases know nothing.
    coin = rng.random(400) < 0.5
    blind = rejection.learned_scores(columns, coin, np.arange(400), rng=rng)
    assert stats.mannwhitneyu(blind[coin], blind[~coin]).pvalue > 0.001


@pytest.mark.parametrize(
    "table, part, original, value, printed",
    [
        (4, "Module 1", 0.065, 0.071, 9.2),
        (4, "System", 0.045, 0.049, 8.9),
        (7, "Configuration 2", 0.035, 0.560, 1500.0),
    ],
)
def test_relative_changes_are_those_published(table, part, original, value, printed):
    """Wang et al. 2022, tables 4 and 7."""
    assert round(100 * propagation.relative_change(value, original, "lower"), 1) == printed


def test_relative_change_of_nothing_is_not_defined():
    assert math.isnan(propagation.relative_change(0.2, 0.0, "lower"))
    assert math.isnan(propagation.relative_change(0.2, -0.1, "higher"))


def test_distance_to_the_clean_output_of_answers_that_fail():
    from roadworthy.registry import get

    found = propagation.distances_to_clean(
        get("distances", "bleu"), ["go left", "stop", None], ["go left", None, "x"]
    )
    assert found[:2].tolist() == [0.0, 1.0] and math.isnan(found[2])


def test_a_root_of_what_is_left_is_never_of_less_than_nothing():
    """Sums of squares less all of them are not always 0."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 5, 60).astype(float)
        said = truth + np.where(rng.random(60) < 0.3, rng.normal(0, 1, 60), 0.0)
        order = np.argsort(-np.abs(said - truth))
        found = rejection.rejections(rmse(said, truth), {"S1": order}, budgets=[0.4], rng=rng)
        assert found.at[0].value == 0.0 <= found.at[0].interval.high


def balanced(right, labels):
    """The mean over classes of the share that is right: no ratio of sums."""

    def weighted(weights):
        shares = [np.average(right[rows], weights=weights[rows]) for rows in rows_of_classes
                  if weights[rows].sum() > 0]  # fmt: skip
        return float(np.mean(shares)) if shares else math.nan

    rows_of_classes = [labels == c for c in np.unique(labels)]
    return Scored(1.0 - right, right < 0.5, "free", weighted)


def test_a_measure_whose_oracle_is_not_known_has_no_share_of_it():
    rng = np.random.default_rng(4)
    scored = balanced((rng.random(30) < 0.6).astype(float), (rng.random(30) < 0.15).astype(int))
    orders = {"S1": rng.permutation(30), "S2": rng.permutation(30)}
    found = rejection.rejections(scored, orders, budgets=[0.1], rng=rng, resamples=10)
    assert {r.strategy for r in found.at} == {"S1", "S2"}
    assert all(math.isnan(r.of_oracle) for r in found.at)
    assert {c.strategy for c in found.curves} == {"S1", "S2", "random"}
    most = max(found.at, key=lambda r: r.value)
    assert found.best(0.1) == (most if most.value > found.whole + 1e-12 else None)


def test_an_oracle_that_loses_is_no_yardstick_and_no_gain_has_no_best():
    assert math.isnan(rejection._share(0.8, 0.7, 0.75, "higher"))
    assert rejection._share(0.8, 0.85, 0.9, "higher") == pytest.approx(0.5)
    right = Scored.proportion(np.ones(40))
    found = rejection.rejections(
        right, {"S1": np.arange(40)}, budgets=[0.1], rng=np.random.default_rng(0), resamples=5
    )
    assert found.best(0.1) is None


def test_one_failure_is_not_found_by_the_combination_that_was_not_learned():
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(100), "b": rng.random(100)}
    marks = np.arange(100) == 17
    assert np.isnan(rejection.learned_scores(columns, marks, np.arange(100), rng=rng)).all()


@pytest.mark.parametrize("ours", [propagation.kendall, awareness.spearman])
@pytest.mark.parametrize("count", [5, 25, 50, 100])
def test_a_perfect_correlation_has_the_p_value_of_the_order_of_groups(ours, count):
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=count), 4)
    found = ours(x, 2 * x + 1, np.arange(4 * count) // 4)
    assert found.value == pytest.approx(1.0)
    assert found.p == pytest.approx(2 / math.factorial(count), rel=1e-6, abs=0)
    assert found.interval.low < found.value - 0.01
    one = np.arange(count) == 3  # equal groups may change places: 1 in `count`, in two directions
    assert ours(one, one, np.arange(count)).p == pytest.approx(min(1, 2 / count))


@pytest.mark.parametrize("ours", [propagation.kendall, awareness.spearman])
def test_two_neighbours_that_change_places_do_not_hide_a_correlation(ours):
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=100)
        y, pair = x.copy(), np.argsort(x)[seed : seed + 2]
        y[pair] = y[pair[::-1]]
        found = ours(x, y, np.arange(100) // 2)
        assert found.p < 1e-6 and found.interval.low > 0.5


@pytest.mark.parametrize("noise", [0.05, 1, 5])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_influence_of_cases_gives_the_standard_error_of_a_jackknife(noise, rounded):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + noise * rng.normal(size=200)
    x, y = (np.round(x), np.round(y)) if rounded else (x, y)
    every = np.arange(200)
    left = [stats.spearmanr(x[every != i], y[every != i]).statistic for i in every]
    error = math.sqrt(199 * np.var(left)) / (1 - stats.spearmanr(x, y).statistic ** 2)
    ends = awareness.spearman(x, y).interval
    spread = (math.atanh(ends.high) - math.atanh(ends.low)) / 2
    assert spread == pytest.approx(stats.t.ppf(0.975, 199) * error, rel=0.1)


def test_the_oracle_rejects_among_all_that_are_drawn():
    """Without the one bad video the worst cases are far down in the order."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(10), 400)
    errors = rng.binomial(5, 0.1, 4000).astype(float)
    errors[groups == 0] = rng.integers(4, 8, 400)
    scored = Scored.ratio(
        errors, np.full(4000, 5.0), error=errors / 5, failure=errors > 2, better="lower"
    )
    order = rejection.oracle_orders(scored, [40])[0]
    weights = np.where(groups == 0, 0.0, np.where(groups == 1, 2.0, 1.0))
    (value,) = rejection._Resampling(scored, order, [0.01]).values(weights)[1]
    left = np.sort(np.repeat(errors, weights.astype(int)))[: 4000 - 40]
    assert value == pytest.approx(left.sum() / (5 * len(left)))


def test_the_area_of_a_draw_is_that_of_its_rows_however_many():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(8), [5, 5, 5, 5, 5, 5, 5, 165])
    risk = rng.random(200)
    wrong = (rng.random(200) < risk).astype(float)
    scored, order = Scored.proportion(1 - wrong, better="lower"), np.argsort(-risk)
    made = rejection._Resampling(scored, order, [0.05], rejection.grid_sizes(200))
    for many in (0, 3):  # draws with the large group, and without it
        weights = np.where(groups == 7, many, 1).astype(float)
        rows = np.repeat(order, weights[order].astype(int))
        exact = np.mean([wrong[rows[k:]].mean() for k in range(len(rows))])
        assert made.values(weights)[0] == pytest.approx(exact, abs=0.012)
