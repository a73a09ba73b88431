"""The autocorrelation time against series whose time is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from roadworthy.statistics.autocorrelation import integrated_time


def ar(n: int, rho: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=n) * np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.97])
def test_it_is_that_of_an_autoregression_with_some_caution(rho):
    true = (1 + rho) / (1 - rho)
    found = np.median([integrated_time(ar(30_000, rho, seed)) for seed in range(9)])
    assert 0.95 * true <= found <= 1 + 1.3 * (true - 1) + 0.05


@pytest.mark.parametrize("times", [2, 10, 25])
def test_it_is_the_number_of_repetitions(times):
    values = np.repeat(np.random.default_rng(times).normal(size=30_000 // times), times)
    assert 0.95 * times <= integrated_time(values) <= 1 + 1.4 * (times - 1)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_a_step_is_not_correlation(rho):
    plain = ar(30_000, rho, 3)
    stepped = plain + 3.0 * (np.arange(30_000) > 21_234)
    assert integrated_time(stepped) == pytest.approx(integrated_time(plain), rel=0.15)


def test_little_or_constant_history_says_nothing():
    assert integrated_time(np.zeros(10_000)) == 1.0
    assert integrated_time(np.arange(100.0)) == 1.0
