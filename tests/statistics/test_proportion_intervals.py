from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from roadworthy.statistics import (
    Interval,
    clopper_pearson,
    clopper_pearson_bounds,
    jeffreys,
    jeffreys_bounds,
    wilson,
    wilson_bounds,
)

SCIPY_SIDE = {"two": "two-sided", "lower": "greater", "upper": "less"}
METHODS = [wilson, clopper_pearson, jeffreys]
counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize("sided", ["two", "lower", "upper"])
@pytest.mark.parametrize("ours, theirs", [(wilson, "wilson"), (clopper_pearson, "exact")])
@given(counts, st.sampled_from([0.8, 0.9, 0.95, 0.975, 0.999]))
def test_equals_scipy(ours, theirs, sided, count, confidence) -> None:
    successes, n = count
    expected = binomtest(successes, n, alternative=SCIPY_SIDE[sided]).proportion_ci(
        confidence, method=theirs
    )
    found = ours(successes, n, confidence=confidence, sided=sided)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(counts)
def test_jeffreys_is_the_beta_quantile_with_the_ends_kept(count) -> None:
    successes, n = count
    posterior = beta(successes + 0.5, n - successes + 0.5)
    found = jeffreys(successes, n)
    assert found.low == pytest.approx(posterior.ppf(0.025) if successes else 0.0, abs=1e-9)
    assert found.high == pytest.approx(posterior.ppf(0.975) if successes < n else 1.0, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
@given(counts, st.floats(0.8, 0.999))
def test_holds_the_estimate_and_mirrors_when_success_and_failure_swap(
    method, count, confidence
) -> None:
    successes, n = count
    interval = method(successes, n, confidence=confidence)
    mirrored = method(n - successes, n, confidence=confidence)
    assert interval.low <= successes / n + 1e-12 and successes / n <= interval.high + 1e-12
    assert (interval.low, interval.high) == pytest.approx(
        (1 - mirrored.high, 1 - mirrored.low), abs=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sided", ["two", "lower", "upper"])
@given(counts, st.floats(0.01, 0.98), st.floats(0.001, 0.019))
def test_more_confidence_never_narrows(method, sided, count, confidence, more) -> None:
    narrow = method(*count, confidence=confidence, sided=sided)
    wide = method(*count, confidence=confidence + more, sided=sided)
    assert wide.low <= narrow.low + 1e-9 and narrow.high <= wide.high + 1e-9


@pytest.mark.parametrize("method", METHODS)
@given(counts)
def test_one_sided_bounds_are_the_ends_of_the_two_sided_interval_of_half_the_error(
    method, count
) -> None:
    two = method(*count, confidence=0.9)
    assert method(*count, confidence=0.95, sided="lower").low == pytest.approx(two.low, abs=1e-12)
    assert method(*count, confidence=0.95, sided="upper").high == pytest.approx(two.high, abs=1e-12)


def test_open_side_of_a_proportion_is_zero_or_one() -> None:
    for method in METHODS:
        assert method(3, 10, sided="lower").high == 1.0
        assert method(3, 10, sided="upper").low == 0.0
        no_cases = method(0, 0)
        assert (no_cases.low, no_cases.high) == (0.0, 1.0)


def test_array_forms_equal_the_scalar_ones() -> None:
    successes, n = np.array([0, 1, 7, 10, 0]), np.array([10, 10, 10, 10, 0])
    pairs = [
        (wilson_bounds, wilson),
        (clopper_pearson_bounds, clopper_pearson),
        (jeffreys_bounds, jeffreys),
    ]
    for bounds, single in pairs:
        low, high = bounds(successes, n, confidence=0.9, sided="two")
        expected = [single(x, m, confidence=0.9) for x, m in zip(successes, n, strict=True)]
        np.testing.assert_allclose(low, [interval.low for interval in expected])
        np.testing.assert_allclose(high, [interval.high for interval in expected])


def test_wilson_takes_effective_counts() -> None:
    between = wilson(2.5, 10.5)
    assert wilson(2, 10.5).low < between.low < wilson(3, 10.5).low


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: wilson(11, 10), "successes exceed n"),
        (lambda: wilson(-1, 10), "negative"),
        (lambda: clopper_pearson(math.nan, 10), "finite"),
        (lambda: jeffreys(1, 10, confidence=1.0), "0.95 for 95%"),
        (lambda: jeffreys(1, 10, confidence=95), "0.95 for 95%"),
        (lambda: wilson(1, 10, sided="both"), "sided must be one of"),
    ],
)
def test_bad_counts_are_refused_with_what_to_do(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(0.01, 0.99))
def test_interval_survives_json(a, b, confidence) -> None:
    import json

    interval = Interval(min(a, b), max(a, b), confidence, "some method")
    text = json.dumps(interval.to_dict())
    assert "Infinity" not in text
    # An end at the wrong infinity cannot occur: nothing is bounded below by +inf.
    if interval.low != math.inf and interval.high != -math.inf:
        assert Interval.from_dict(json.loads(text)) == interval


def test_interval_refuses_crossed_or_missing_ends() -> None:
    with pytest.raises(ValueError, match="low <= high"):
        Interval(0.5, 0.4, 0.95, "")
    with pytest.raises(ValueError, match="low <= high"):
        Interval(math.nan, 0.4, 0.95, "")
    with pytest.raises(ValueError, match="missing \\['high'"):
        Interval.from_dict({"low": 0.1, "confidence": 0.9, "method": "x"})
