"""P-values, multiplicity and planning: what claims are judged and planned with."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, false_discovery_control, norm, ttest_1samp

import roadworthy.statistics as room
from roadworthy.statistics import (
    cases_to_settle,
    cases_to_settle_mean,
    clustered_proportion,
    holm,
    mean,
    p_value_from_bound,
    simultaneous,
)

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(p_values)
def test_holm_rejects_what_the_step_down_procedure_rejects(p) -> None:
    rejected = np.zeros(len(p), dtype=bool)
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] > 0.05 / (len(p) - rank):
            break
        rejected[i] = True
    near = np.isclose(np.sort(p) * np.arange(len(p), 0, -1), 0.05, rtol=1e-9).any()
    assume(not near)
    assert ((holm(p) <= 0.05) == rejected).all()
    assert (holm(p) >= np.array(p)).all()
    assert (holm(p) >= false_discovery_control(p) - 1e-12).all()


def test_bonferroni_shares_the_error() -> None:
    assert simultaneous(0.95, 1) == 0.95
    assert 20 * (1 - simultaneous(0.9, 20)) == pytest.approx(0.1)


def proportion_p_value(outcomes, limit, groups=None, *, alternative="greater", method="wilson"):
    def bound_at(confidence):
        sided = "lower" if alternative == "greater" else "upper"
        found = clustered_proportion(
            outcomes, groups, confidence=confidence, sided=sided, method=method
        )
        return found.low if alternative == "greater" else found.high

    return p_value_from_bound(bound_at, limit, alternative=alternative)


@given(st.integers(1, 200), st.floats(0.05, 0.95), st.data())
@settings(max_examples=50)
def test_exact_p_value_is_the_binomial_test(n, limit, data) -> None:
    successes = data.draw(st.integers(0, n))
    outcomes = np.arange(n) < successes
    for alternative in ("greater", "less"):
        expected = binomtest(successes, n, limit, alternative=alternative).pvalue
        assume(expected > 1e-12)
        found = proportion_p_value(
            outcomes, limit, alternative=alternative, method="clopper_pearson"
        )
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_wilson_p_value_is_the_score_test() -> None:
    z = (0.96 - 0.9) / math.sqrt(0.9 * 0.1 / 100)
    found = proportion_p_value([1] * 96 + [0] * 4, 0.9)
    assert found == pytest.approx(norm.sf(z), rel=1e-6)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=4, max_size=80),
    st.floats(0.05, 0.95),
)
@settings(max_examples=50)
def test_p_value_is_below_the_error_exactly_where_the_bound_clears(cases, limit) -> None:
    outcomes, groups = zip(*cases, strict=True)
    for alternative, sided in (("greater", "lower"), ("less", "upper")):
        p = proportion_p_value(outcomes, limit, groups, alternative=alternative)
        for confidence in (0.3, 0.5, 0.8, 0.95, 0.99):
            if abs(p - (1 - confidence)) < 1e-6:
                continue
            bound = clustered_proportion(outcomes, groups, confidence=confidence, sided=sided)
            clears = bound.low > limit if alternative == "greater" else bound.high < limit
            assert (p < 1 - confidence) == clears


def test_one_group_proves_nothing() -> None:
    assert proportion_p_value([1, 1, 1], 0.1, ["a", "a", "a"]) == 1.0


def test_p_value_from_a_bound_of_a_mean_is_the_t_test() -> None:
    values = np.random.default_rng(0).normal(0.5, 1.0, 30)
    found = p_value_from_bound(lambda c: mean(values, confidence=c, sided="lower").low, 0.1)
    assert found == pytest.approx(ttest_1samp(values, 0.1, alternative="greater").pvalue, rel=1e-6)
    less = p_value_from_bound(
        lambda c: mean(values, confidence=c, sided="upper").high, 0.8, alternative="less"
    )
    assert less == pytest.approx(ttest_1samp(values, 0.8, alternative="less").pvalue, rel=1e-6)


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.floats(1.5, 20))
def test_a_plan_has_the_power_of_the_normal_approximation(value, limit, effect) -> None:
    assume(abs(value - limit) > 0.02)
    found = cases_to_settle(
        value, limit, n=10, effective_n=10 / effect, confidence=0.975, method="wilson"
    )
    errors = norm.ppf(0.975) * math.sqrt(limit * (1 - limit)) + norm.ppf(0.8) * math.sqrt(
        value * (1 - value)
    )
    needed = effect * (errors / (value - limit)) ** 2
    # Half a success for the correction for continuity shifts the effective number by about 1 / |value - limit|.
    slack = effect * (1 / abs(value - limit) + 1) + 1
    assert found is not None and max(11, needed - slack) <= found + 1e-9 <= max(
        11.5, needed + slack
    )


@pytest.mark.parametrize("method", ["wilson", "clopper_pearson", "jeffreys"])
@pytest.mark.parametrize("value, limit", [(0.02, 0.05), (0.95, 0.92), (0.7, 0.6), (0.99, 0.97)])
def test_a_planned_number_settles_four_times_in_five(value, limit, method) -> None:
    from roadworthy.statistics.proportion import proportion_bounds

    found = cases_to_settle(value, limit, n=20, confidence=0.95, method=method)
    assert found is not None
    counts = np.arange(found + 1)
    sided = "lower" if value > limit else "upper"
    low, high = proportion_bounds(counts, found, confidence=0.95, sided=sided, method=method)
    settled = low >= limit if value > limit else high <= limit
    power = float(binom.pmf(counts, found, value)[settled].sum())
    # Whole successes leave a saw-tooth, so the last step may lie a little above what was asked.
    assert 0.8 <= power < 0.9


def test_more_power_more_confidence_and_fewer_groups_need_more_cases() -> None:
    plan = {"n": 200, "confidence": 0.95, "method": "clopper_pearson"}
    base = cases_to_settle(0.95, 0.92, **plan)
    assert cases_to_settle(0.95, 0.92, **plan, power=0.9) > base
    assert cases_to_settle(0.95, 0.92, **{**plan, "confidence": 0.99}) > base
    grouped = cases_to_settle(0.95, 0.92, **plan, effective_n=100)
    assert grouped > 1.8 * base
    assert cases_to_settle(0.95, 0.92, **plan, effective_n=100, groups=4) > grouped


def test_no_number_of_cases_settles_a_value_at_its_limit() -> None:
    assert cases_to_settle(0.9, 0.9, n=50, confidence=0.95, method="wilson") is None
    assert cases_to_settle_mean(2.0, 2.0, 0.3, 50) is None
    assert cases_to_settle_mean(1.0, 2.0, math.inf, 50) is None


def test_a_plan_always_asks_for_more_than_there_is() -> None:
    assert cases_to_settle(0.99, 0.9, n=1000, confidence=0.95, method="wilson") == 1001
    assert cases_to_settle_mean(1.0, 2.0, 0.5, 100) == 101


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.995])
def test_a_plan_for_a_mean_is_that_of_the_z_test(confidence) -> None:
    # sigma 3, n 50: the half width is z sigma / sqrt(n); the textbook number is ((z + z_power) sigma / gap)^2.
    z = norm.ppf(confidence)
    found = cases_to_settle_mean(1.0, 1.5, z * 3 / math.sqrt(50), 50, confidence=confidence)
    assert found == math.ceil(((z + norm.ppf(0.8)) * 3 / 0.5) ** 2 - 1e-9)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: holm([0.1, 1.2]), "between 0 and 1"),
        (lambda: holm([]), "empty"),
        (lambda: holm([math.nan]), "NaN"),
        (lambda: simultaneous(0.95, 0), "at least one"),
        (lambda: simultaneous(95, 3), "0.95 for 95%"),
        (lambda: p_value_from_bound(lambda c: 0.5, 0.5, alternative="both"), "alternative"),
        (lambda: cases_to_settle(1.5, 0.5, n=10, confidence=0.9, method="wilson"), "proportions"),
        (
            lambda: cases_to_settle(
                0.6, 0.5, n=10, effective_n=20, confidence=0.9, method="wilson"
            ),
            "effective_n",
        ),
        (lambda: cases_to_settle_mean(math.nan, 0.5, 0.1, 10), "finite"),
        (lambda: cases_to_settle_mean(0.1, 0.5, -0.1, 10), "half_width"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_every_public_name_exists_and_stays_a_function() -> None:
    import roadworthy.statistics.paired  # noqa: F401  imports the files `mean` and `clusters`

    for name in room.__all__:
        assert callable(getattr(room, name)), name
    with pytest.raises(AttributeError, match="no attribute"):
        room.no_such_name  # noqa: B018


def test_import_leaves_scipy_alone() -> None:
    code = "import sys, roadworthy.statistics; print([m for m in sys.modules if m.startswith('scipy')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
