"""Verdicts against closed forms: exact bounds, Holm for breaches, intersection-union for what is met, error rates by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from roadworthy.analysis import performance
from roadworthy.analysis.observed import Observed
from roadworthy.claims import Claim, Judgement, judge, overall
from roadworthy.finding import About, Evidence
from roadworthy.measures.scored import Scored
from roadworthy.statistics import Interval


def observed(
    right: int, n: int, *, groups: np.ndarray | None = None, slices: np.ndarray | None = None
) -> Observed:
    """n cases of which the first `right` are right."""
    outcomes = (np.arange(n) < right).astype(float)
    return of_outcomes(outcomes, groups, slices)


def of_outcomes(
    outcomes: np.ndarray, groups: np.ndarray | None = None, slices: np.ndarray | None = None
) -> Observed:
    n = len(outcomes)
    scored = Scored.proportion(outcomes)
    columns = {} if slices is None else {"site": slices}
    samples = np.array([str(i) for i in range(n)], dtype=object)
    return Observed(
        "", None, samples, groups, scored, scored.failure, np.zeros(n, bool), {}, columns
    )


def accuracy(right: int, n: int) -> Evidence:
    return performance.measured(observed(right, n), "accuracy")


def claim(limit: float, direction: str = "min", confidence: float = 0.95) -> Claim:
    return Claim("C", "accuracy", limit, direction, confidence)  # type: ignore[arg-type]


def p_below(right: int, n: int, limit: float) -> float:
    """The exact p-value against "at least the limit"."""
    return float(stats.binom.cdf(right, n, limit))


def p_above(right: int, n: int, limit: float) -> float:
    """The exact p-value against "at most the limit"."""
    return float(stats.binom.sf(right - 1, n, limit))


@pytest.mark.parametrize("n", [10, 50, 400])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.975])
@pytest.mark.parametrize("limit", [0.5, 0.9, 0.99])
def test_a_single_claim_is_decided_by_the_exact_binomial_test(n, confidence, limit):
    for right in range(0, n + 1, max(1, n // 40)):
        status = judge(claim(limit, confidence=confidence), [accuracy(right, n)]).status
        alpha = 1 - confidence
        expected = (
            "breached"
            if p_below(right, n, limit) < alpha
            else "met"
            if p_above(right, n, limit) <= alpha
            else "inconclusive"
        )
        assert status == expected, (right, n, limit)


def test_an_upper_limit_mirrors_a_lower_one():
    for right in range(0, 61, 3):
        low = judge(claim(0.7), [accuracy(right, 60)]).status
        wrong = performance.failure_rate(observed(right, 60))
        assert judge(claim(0.3, "max"), [wrong]).status == low


PLACES = [(96, 100), (78, 100), (88, 100), (81, 100), (395, 400), (70, 100), (84, 100)]


def test_a_claim_over_places_is_breached_by_holm():
    limit, alpha = 0.9, 0.05
    p = np.array([p_below(k, n, limit) for k, n in PLACES])
    order = np.argsort(p)
    breached = set()
    for step, i in enumerate(order):
        if p[i] >= alpha / (len(p) - step):
            break
        breached.add(int(i))
    judged = judge(claim(limit), [accuracy(k, n) for k, n in PLACES])
    assert {i for i, m in enumerate(judged.members) if m.status == "breached"} == breached
    assert 0 < len(breached) < len(PLACES)
    assert judged.status == "breached"
    assert "Holm" in judged.corrected
    # the last place would be breached alone, and is not among many
    alone = [judge(claim(limit), [accuracy(k, n)]).status == "breached" for k, n in PLACES]
    assert sum(alone) > len(breached)


def test_a_claim_over_places_is_met_when_each_is_met_alone():
    good = [(97, 100), (390, 400), (96, 100)]
    each = [judge(claim(0.9), [accuracy(k, n)]).status for k, n in good]
    assert each == ["met"] * 3
    assert judge(claim(0.9), [accuracy(k, n) for k, n in good]).status == "met"
    assert (
        judge(claim(0.9), [accuracy(k, n) for k, n in [*good, (92, 100)]]).status == "inconclusive"
    )


def test_the_interval_shown_ends_at_the_bound_that_decided():
    one = judge(claim(0.9), [accuracy(380, 400)]).members[0]
    assert one.interval is not None
    assert one.bound == one.interval.low
    assert one.bound == pytest.approx(stats.beta.ppf(0.05, 380, 21))
    assert one.interval.high == pytest.approx(stats.beta.ppf(0.95, 381, 20))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 80), min_size=1, max_size=6),
    st.floats(0.05, 0.95),
    st.sampled_from(["min", "max"]),
)
def test_every_interval_shown_says_the_same_as_the_verdict(rights, limit, direction):
    judged = judge(claim(limit, direction), [accuracy(k, 80) for k in rights])
    for member in judged.members:
        assert member.interval is not None and member.interval.confidence == 0.95
        low, high = member.interval.low, member.interval.high
        keeps = low >= limit if direction == "min" else high <= limit
        breaks = high < limit if direction == "min" else low > limit
        expected = "met" if keeps else "breached" if breaks else "inconclusive"
        assert member.status == expected
        lower_end = (direction == "min") != (member.status == "breached")
        assert member.bound == (low if lower_end else high)


def test_what_would_settle_a_claim_on_groups_is_a_number_of_groups():
    groups = np.repeat(np.arange(60), 5).astype(str)
    outcomes = (np.random.default_rng(2).random(300) < 0.93).astype(float)
    evidence = performance.measured(of_outcomes(outcomes, groups), "accuracy")
    member = judge(claim(0.9), [evidence]).members[0]
    assert (member.status, member.n, member.groups) == ("inconclusive", 300, 60)
    assert member.cases_to_settle is not None
    assert member.groups_to_settle == math.ceil(member.cases_to_settle / 5) > 60
    alone = judge(claim(0.9), [performance.measured(of_outcomes(outcomes), "accuracy")]).members[0]
    assert alone.groups is None and alone.groups_to_settle is None


def test_a_place_that_cannot_be_judged_leaves_the_claim_open_and_says_why():
    small = Evidence(
        "accuracy", About(slice="site=C"), 1.0, 3, "higher", nothing, reason="the slice has 3 cases"
    )
    undefined = Evidence(
        "ap50", About(slice="site=D"), math.nan, 40, "higher", nothing, proportion=False
    )
    for other, why in (
        (small, "the slice has 3 cases"),
        (undefined, "the quantity is not defined on these cases"),
    ):
        judged = judge(claim(0.0), [accuracy(99, 100), other])
        assert judged.status == "inconclusive"
        assert [m.status for m in judged.members] == ["met", "inconclusive"]
        assert judged.members[1].why == why
    assert judge(claim(0.5), []).status == "inconclusive"


def nothing(confidence: float, sided: str) -> Interval:
    return Interval(math.nan, math.nan, confidence, "none")


def test_the_worst_verdict_is_the_assessments():
    met, breached, open_ = (judge(claim(limit), [accuracy(80, 100)]) for limit in (0.5, 0.99, 0.8))
    assert overall([met]) == "met"
    assert overall([met, open_]) == "inconclusive"
    assert overall([met, open_, breached]) == "breached"
    assert overall([]) == "no claims"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.data(),
    st.floats(0.01, 0.99),
    st.floats(0.51, 0.999),
    st.sampled_from(["min", "max"]),
)
def test_no_claim_is_met_and_breached_and_a_harder_limit_is_never_judged_better(
    n, data, limit, confidence, direction
):
    right = data.draw(st.integers(0, n))
    easier = (
        data.draw(st.floats(0.0, limit)) if direction == "min" else data.draw(st.floats(limit, 1.0))
    )
    evidence = accuracy(right, n)
    hard, easy = (
        judge(claim(x, direction, confidence), [evidence]).status for x in (limit, easier)
    )
    rank = {"breached": 0, "inconclusive": 1, "met": 2}
    assert rank[hard] <= rank[easy]
    if hard == "breached":
        assert (
            judge(
                claim(limit, "max" if direction == "min" else "min", confidence), [evidence]
            ).status
            == "met"
        )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.floats(0.05, 0.95))
def test_one_more_place_never_turns_a_claim_from_open_or_breached_to_met(rights, limit):
    evidence = [accuracy(k, 60) for k in rights]
    before = judge(claim(limit), evidence).status
    after = judge(claim(limit), [*evidence, accuracy(60, 60)]).status
    assert after != "met" or before == "met"


@pytest.mark.parametrize(("right", "n", "limit"), [(46, 50, 0.9), (88, 100, 0.9), (49, 50, 0.95)])
def test_the_number_of_cases_that_settles_does_so_four_times_in_five(right, n, limit):
    judged = judge(claim(limit), [accuracy(right, n)])
    assert judged.status == "inconclusive"
    needed = judged.members[0].cases_to_settle
    assert needed is not None and needed > n
    share, wanted = right / n, "met" if right / n > limit else "breached"
    settled = {
        size: sum(
            stats.binom.pmf(k, size, share)
            for k in range(size + 1)
            if stats.binom.pmf(k, size, share) > 1e-9
            and judge(claim(limit), [accuracy(k, size)]).status == wanted
        )
        for size in (needed, needed // 2)
    }
    assert settled[needed] > 0.75 > settled[needed // 2]


def test_at_the_limit_no_number_of_cases_settles():
    member = judge(claim(0.9), [accuracy(90, 100)]).members[0]
    assert member.cases_to_settle is None


def test_twice_the_number_that_settles_settles_most_repetitions():
    rng = np.random.default_rng(3)
    needed = judge(claim(0.9), [accuracy(93, 100)]).members[0].cases_to_settle
    assert needed is not None
    drawn = rng.binomial(2 * needed, 0.93, size=200)
    settled = np.mean(
        [judge(claim(0.9), [accuracy(int(k), 2 * needed)]).status == "met" for k in drawn]
    )
    assert settled > 0.65


def test_groups_make_a_claim_harder_to_meet():
    groups = np.repeat(np.arange(40), 10).astype(str)
    outcomes = np.repeat((np.arange(40) % 20 != 0).astype(float), 10)
    alone, grouped = (
        judge(claim(0.9), [performance.measured(of_outcomes(outcomes, g), "accuracy")]).status
        for g in (None, groups)
    )
    assert (alone, grouped) == ("met", "inconclusive")


def over_slices(outcomes: np.ndarray, sites: np.ndarray, limit: float) -> Judgement:
    places = performance.slices(
        of_outcomes(outcomes, slices=sites), "site", smallest=30, quantity="accuracy"
    )
    return judge(claim(limit), places)


def error_rate_is_kept(errors: int, repetitions: int, alpha: float) -> bool:
    """Not above alpha by a one-sided binomial test at 1%."""
    return float(stats.binom.sf(errors - 1, repetitions, alpha)) > 0.01


def test_twenty_slices_at_the_limit_are_seldom_called_breached():
    rng = np.random.default_rng(5)
    sites = np.repeat([f"s{i:02}" for i in range(20)], 100)
    outcomes = (rng.random((60, 2000)) < 0.9).astype(float)
    assert error_rate_is_kept(
        sum(over_slices(o, sites, 0.9).status == "breached" for o in outcomes), 60, 0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0.5, 0.9, 0.98])
def test_false_breaches_over_twenty_slices_stay_at_or_below_alpha(limit):
    rng = np.random.default_rng(7)
    sites = np.repeat([f"s{i:02}" for i in range(20)], 100)
    repetitions = 1000
    breached = sum(
        over_slices((rng.random(2000) < limit).astype(float), sites, limit).status == "breached"
        for _ in range(repetitions)
    )
    assert error_rate_is_kept(breached, repetitions, 0.05), breached / repetitions


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0.5, 0.9, 0.98])
def test_false_mets_and_false_breaches_of_one_claim_stay_at_or_below_alpha(limit):
    rng = np.random.default_rng(9)
    statuses = [
        judge(claim(limit), [accuracy(int(k), 150)]).status
        for k in rng.binomial(150, limit, size=3000)
    ]
    for wrong in ("met", "breached"):
        assert error_rate_is_kept(statuses.count(wrong), 3000, 0.05), wrong
