"""Precision, F1 and the calibration error: values against loops, and how often their bounds err."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv
from scipy.stats import beta, binom

from roadworthy.statistics.calibration_error import (
    BINS,
    calibration_error,
    calibration_error_interval,
)
from roadworthy.statistics.rates import agreement_interval

GROUPS, CORRELATION = 12, 0.3


def binned_by_hand(sure: list[float], right: list[int]) -> float:
    """The definition as a loop: edges at the quantiles, a confidence on an edge belongs below it."""
    edges = sorted({float(np.quantile(sure, k / BINS)) for k in range(1, BINS)})
    inside: dict[int, list[tuple[float, int]]] = {}
    for p, c in zip(sure, right, strict=True):
        inside.setdefault(sum(edge < p for edge in edges), []).append((p, c))
    gaps = [
        len(cases)
        * abs(sum(c for _, c in cases) / len(cases) - sum(p for p, _ in cases) / len(cases))
        for cases in inside.values()
    ]
    return sum(gaps) / len(sure)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_the_calibration_error_is_that_of_a_loop_and_inside_its_interval(cases):
    sure, right = [p for p, _ in cases], [int(c) for _, c in cases]
    value = calibration_error(sure, right)
    assert value == pytest.approx(binned_by_hand(sure, right), abs=1e-12)
    found = calibration_error_interval(sure, right)
    assert 0.0 <= found.low <= value + 1e-12 and value - 1e-12 <= found.high <= 1.0


def test_bins_hold_equal_counts_and_equal_confidences_share_one():
    sure = np.linspace(0.0, 1.0, 150)
    right = (np.arange(150) // 10 % 2).astype(int)  # bins are wrong and right in turn
    assert calibration_error(sure, right) == pytest.approx(
        np.mean([abs(i % 2 - sure[10 * i : 10 * i + 10].mean()) for i in range(15)])
    )
    order = np.random.default_rng(0).permutation(150)
    ties = np.repeat([0.6, 0.9], 75)
    assert calibration_error(ties, right) == pytest.approx(
        calibration_error(ties[order], right[order])
    )


def test_a_case_without_confidence_costs_all():
    sure = np.r_[np.full(90, 0.8), np.full(10, np.nan)]
    right = np.r_[np.arange(90) % 5 > 0, np.zeros(10)]
    assert calibration_error(sure, right) == pytest.approx(0.1)


def test_no_bound_with_three_groups():
    found = calibration_error_interval(np.full(90, 0.8), np.ones(90), np.arange(90) % 3)
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize("of", ["precision", "f1"])
def test_without_groups_the_bounds_are_those_of_a_binomial(of):
    truth = np.r_[np.ones(30), np.zeros(170)]
    answered = np.r_[np.ones(25), np.zeros(5), np.ones(4), np.zeros(166)]
    right, whole = 25, 29 if of == "precision" else 34
    share = beta.ppf(0.05, right, whole - right + 1)
    low = share if of == "precision" else 2 * share / (1 + share)
    found = agreement_interval(truth, answered, of=of, sided="lower")
    assert found.low == pytest.approx(low) and found.high == 1.0


@given(st.integers(0, 2**32 - 1), st.sampled_from(["precision", "f1"]))
def test_an_interval_of_groups_holds_the_value(seed, of):
    rng = np.random.default_rng(seed)
    truth, answered = rng.random((2, 60)) < rng.random((2, 1))
    groups = rng.integers(0, rng.integers(1, 12), 60)
    if not answered.any():
        return
    right, false, missed = (
        (truth & answered).sum(),
        (~truth & answered).sum(),
        (truth & ~answered).sum(),
    )
    value = (
        right / (right + false) if of == "precision" else 2 * right / (2 * right + false + missed)
    )
    found = agreement_interval(truth, answered, groups, of=of)
    assert found.low <= value + 1e-12 and value - 1e-12 <= found.high


def shared(rng: np.random.Generator, p, groups: np.ndarray) -> np.ndarray:
    """Rates of cases around p: one uniform number a group, so that outcomes have the correlation."""
    spread = (1 - CORRELATION) / CORRELATION
    p = np.clip(np.broadcast_to(p, groups.shape), 1e-9, 1 - 1e-9)
    return betaincinv(p * spread, (1 - p) * spread, rng.random(GROUPS)[groups])


def errors_of_agreement(
    of: str, n: int, prevalence: float, grouped: bool, rates, draws: int, seed=0
):
    """Share of draws whose one-sided lower and upper 95% bounds are on the wrong side of the truth."""
    hit, false = rates
    right = hit * prevalence
    wrong = false * (1 - prevalence)
    truth = (
        right / (right + wrong) if of == "precision" else 2 * right / (right + wrong + prevalence)
    )
    rng, groups = np.random.default_rng(seed), np.arange(n) % GROUPS
    above = below = 0
    for _ in range(draws):
        true = rng.random(n) < prevalence
        rate = np.where(true, hit, false)
        if grouped:
            rate = np.where(true, shared(rng, hit, groups), shared(rng, false, groups))
        said = rng.random(n) < rate
        if not (true | said).any() or (of == "precision" and not said.any()):
            continue  # inconclusive
        given = groups if grouped else None
        above += agreement_interval(true, said, given, of=of, sided="lower").low > truth
        below += agreement_interval(true, said, given, of=of, sided="upper").high < truth
    return above / draws, below / draws


CURVES = {
    "calibrated": lambda p: p,
    "sure by 0.05": lambda p: np.clip(p - 0.05, 0.0, 1.0),
    "squared": lambda p: p**2,
    "unsure": lambda p: p + 0.3 * (1 - p),
    "waves": lambda p: np.clip(p + 0.06 * np.sin(20 * p), 0.0, 1.0),
    "errors of the sure": lambda p: np.full_like(p, 0.97),
}
"""By confidence: how often the answer is right."""


def drawn_confidences(rng: np.random.Generator, wrong: float, n: int) -> np.ndarray:
    """Confidences of a model that is wrong (if calibrated) this often."""
    return rng.beta(2, 2, n) if wrong == 0.5 else rng.beta(10 * (1 - wrong), 10 * wrong, n)


def errors_of_calibration(curve: str, n: int, wrong: float, grouped: bool, draws: int, seed=0):
    """As above, for the calibration error of 15 bins between the quantiles of all confidences."""
    between = (np.arange(60_000) + 0.5) / 60_000
    many = beta.ppf(between, *((2, 2) if wrong == 0.5 else (10 * (1 - wrong), 10 * wrong)))
    gaps = (CURVES[curve](many) - many).reshape(BINS, -1)
    truth = float(np.abs(gaps.mean(axis=1)).mean())
    rng, groups = np.random.default_rng(seed), np.arange(n) % GROUPS
    above = below = 0
    for _ in range(draws):
        sure = drawn_confidences(rng, wrong, n)
        rate = CURVES[curve](sure)
        right = rng.random(n) < (shared(rng, rate, groups) if grouped else rate)
        given = groups if grouped else None
        above += calibration_error_interval(sure, right, given, sided="lower").low > truth + 1e-9
        below += calibration_error_interval(sure, right, given, sided="upper").high < truth
    return above / draws, below / draws


def is_nominal(share: float, draws: int) -> bool:
    """Whether so many errors are no rarer than 1% at a rate of 5%."""
    return bool(binom.sf(math.ceil(share * draws) - 1, draws, 0.05) > 0.01)


DRAWS = 800


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("prevalence", [0.05, 0.5])
@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("of", ["precision", "f1"])
def test_bounds_of_precision_and_f1_err_as_seldom_as_they_say(of, n, prevalence, grouped):
    for rates in ((0.9, 0.05), (0.7, 0.01), (0.98, 0.002)):
        found = errors_of_agreement(of, n, prevalence, grouped, rates, DRAWS)
        assert all(is_nominal(share, DRAWS) for share in found), (rates, found)


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("wrong", [0.05, 0.5])
@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("curve", CURVES)
def test_bounds_of_the_calibration_error_err_as_seldom_as_they_say(curve, n, wrong, grouped):
    found = errors_of_calibration(curve, n, wrong, grouped, DRAWS)
    assert all(is_nominal(share, DRAWS) for share in found), found
