from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm, ttest_ind, ttest_rel

from roadworthy.statistics import difference, paired_difference, wilson


def outcomes(both: int, gain: int, loss: int, neither: int) -> tuple[list[int], list[int]]:
    counts = [both, gain, loss, neither]
    return list(np.repeat([1, 1, 0, 0], counts)), list(np.repeat([1, 0, 1, 0], counts))


tables = st.tuples(*[st.integers(0, 25)] * 4).filter(lambda table: sum(table) > 0)


def profile_score(delta: float, gain: int, loss: int, n: int) -> float:
    """The score statistic with its nuisance found by maximising the likelihood numerically."""

    def cost(q: float) -> float:
        terms = [(gain, q + delta), (loss, q), (n - gain - loss, 1 - 2 * q - delta)]
        return -sum(k * math.log(max(p, 1e-300)) for k, p in terms if k)

    low, high = max(0.0, -delta), (1 - delta) / 2
    q = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return (gain - loss - n * delta) / math.sqrt(n * (2 * q + delta - delta**2))


@pytest.mark.parametrize("gain, loss, n", [(9, 3, 50), (1, 12, 40), (5, 5, 100)])
def test_paired_binary_inverts_the_score_test(gain: int, loss: int, n: int) -> None:
    found = paired_difference(*outcomes(n - gain - loss, gain, loss, 0))
    z = norm.ppf(0.975)
    estimate = (gain - loss) / n
    low = brentq(lambda d: profile_score(d, gain, loss, n) - z, -0.95, estimate)
    high = brentq(lambda d: profile_score(d, gain, loss, n) + z, estimate, 0.95)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_paired_binary_without_discordant_pairs_has_its_closed_form() -> None:
    found = paired_difference(*outcomes(40, 0, 0, 0))
    z2 = norm.ppf(0.975) ** 2
    assert (found.low, found.high) == pytest.approx((-z2 / (40 + z2), z2 / (40 + z2)), abs=1e-9)


@given(tables, st.sampled_from(["two", "lower", "upper"]))
def test_paired_binary_holds_its_estimate_and_mirrors_when_the_systems_swap(table, sided) -> None:
    first, second = outcomes(*table)
    found = paired_difference(first, second, sided=sided)
    other = paired_difference(
        second, first, sided={"lower": "upper", "upper": "lower"}.get(sided, "two")
    )
    assert found.low - 1e-9 <= np.mean(first) - np.mean(second) <= found.high + 1e-9
    assert (found.low, found.high) == pytest.approx((-other.high, -other.low), abs=1e-9)
    assert -1.0 <= found.low < found.high <= 1.0


@given(tables.filter(lambda table: sum(table) > 3))
def test_groups_never_narrow_a_paired_difference(table) -> None:
    first, second = outcomes(*table)
    groups = np.arange(len(first)) // 3
    clustered, plain = paired_difference(first, second, groups), paired_difference(first, second)
    assert clustered.width >= plain.width - 1e-9


def test_no_discordant_pair_in_groups_counts_groups() -> None:
    ones, groups = np.ones(300), np.repeat(np.arange(20), 15)
    found = paired_difference(ones, ones, groups)
    z2 = norm.ppf(0.975) ** 2
    assert found.high == pytest.approx(z2 / (20 + z2), abs=1e-9)
    assert "each group counts as one case" in found.method
    alone = paired_difference([1, 0, 1], [1, 1, 1], ["a", "a", "a"])
    assert (alone.low, alone.high) == (-1.0, 1.0) and "one group" in alone.method


def test_paired_numbers_are_the_paired_t_interval() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=25)
    second = first + rng.normal(0.3, 0.5, 25)
    expected = ttest_rel(first, second).confidence_interval(0.95)
    found = paired_difference(first, second)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_paired_numbers_that_never_differ_claim_nothing() -> None:
    values = np.linspace(0.0, 2.0, 30)
    found = paired_difference(values, values, np.arange(30) // 3)
    assert (
        math.isinf(found.low) and math.isinf(found.high) and "variance is unknown" in found.method
    )


def test_unpaired_proportions_are_newcombes_hybrid() -> None:
    # Newcombe 1998, table II, example (a): 56/70 against 48/80, method 10 gives 0.0524 to 0.3339.
    found = difference([1] * 56 + [0] * 14, [1] * 48 + [0] * 32)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    one, two = wilson(56, 70), wilson(48, 80)
    low = 0.2 - math.hypot(0.8 - one.low, two.high - 0.6)
    assert found.low == pytest.approx(low)


def test_unpaired_zero_against_zero_has_width() -> None:
    found = difference([0] * 10, [0] * 20)
    assert (found.low, found.high) == pytest.approx((-wilson(0, 20).high, wilson(0, 10).high))


def test_unpaired_means_are_welchs_interval() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=12), rng.normal(1, 4, size=30)
    expected = ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
    found = difference(first, second, confidence=0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_groups_widen_an_unpaired_difference() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(10), 10)
    first = (rng.normal(size=10)[groups] > 0).astype(float)
    assert difference(first, first, groups, groups).width > 2 * difference(first, first).width
    numbers = rng.normal(size=10)[groups] + rng.normal(size=100)
    assert (
        difference(numbers, numbers, groups, groups).width
        > 1.5 * difference(numbers, numbers).width
    )


def test_open_side_of_a_difference_of_proportions_is_one() -> None:
    assert difference([0, 1, 1], [0, 1, 0], sided="lower").high == 1.0
    assert paired_difference([0, 1, 1], [0, 1, 0], sided="upper").low == -1.0
    assert difference([0.5, 1, 1], [0, 1, 0], sided="lower").high == math.inf


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: paired_difference([1, 0], [1]), "2 and 1"),
        (lambda: paired_difference([], []), "empty"),
        (lambda: paired_difference([1, math.nan], [1, 0]), "first has 1 NaN"),
        (lambda: difference([1, 0], [1, math.nan]), "second has 1 NaN"),
        (lambda: difference([1, 0], [1, 0], [1]), "one label per case"),
        (lambda: difference([1, 0], [1, 0], confidence=0.4, sided="lower"), "confidence > 0.5"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
