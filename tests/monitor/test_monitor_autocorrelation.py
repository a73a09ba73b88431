"""How many events say as much as one, against processes for which it is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from roadworthy.monitor import Events, Monitor
from roadworthy.monitor.autocorrelation import _time_of_series, _turns, integrated_time


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


def test_a_monitor_scales_its_window_by_what_it_found(bundle, scores_at):
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": np.repeat(scores_at(2000, 0.1), 10)}))
    plain = Monitor(bundle)
    plain.update(Events(None, None, columns={"energy": scores_at(20_000, 0.1)}))
    assert 9.0 < monitor.autocorrelation_time < 14.0 and plain.autocorrelation_time < 1.1
    assert monitor.risk().effective_n == pytest.approx(50 / monitor.autocorrelation_time)
    assert any("say as much as one" in note for note in monitor.risk().notes)
    found = monitor.risk(200)
    counts = np.bincount(monitor.state.recent.last_cells(200), minlength=bundle.calibration.cells)
    alone = bundle.estimator.estimate(counts)
    assert found.rate_high - found.rate_low > 1.2 * (alone.rate_high - alone.rate_low)[0]


def in_turns(n: int, sources: int, rho: float, seed: int) -> np.ndarray:
    return np.stack([ar(n // sources, rho, 100 * seed + i) for i in range(sources)], axis=1).ravel()


@pytest.mark.parametrize("missing", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("sources", [2, 4, 8])
def test_sources_that_take_turns_are_found_though_some_events_have_no_score(sources, missing):
    """Each is an autoregression whose time is 39; what is missing leaves a little less of it."""
    times = []
    for seed in range(3):
        scores = in_turns(30_000, sources, 0.95, seed)
        scores[np.random.default_rng(seed).random(len(scores)) < missing] = np.nan
        times.append(integrated_time(scores, window=100, variance=1.0, sure=True))
    assert 30.0 < np.median(times) < 62.0


@pytest.mark.parametrize("sources", [4, 8])
def test_of_sources_with_few_events_each_nobody_says_that_they_are_independent(sources):
    for n in (25 * sources, 100 * sources, 200 * sources):
        times = [
            integrated_time(in_turns(n, sources, 0.95, s), window=100, variance=1.0, sure=True)
            for s in range(8)
        ]
        assert np.median(times) > 10.0, n


def test_four_sources_are_not_taken_for_two():
    """Every second event is alike by chance, and every fourth is more so."""
    scores = in_turns(2000, 4, 0.98, 3).reshape(-1, 4)
    scores[:, 2] = 0.5 * scores[:, 0] + 0.9 * scores[:, 2]
    scores[:, 3] = 0.5 * scores[:, 1] + 0.9 * scores[:, 3]
    assert (
        _turns(_time_of_series((scores.ravel(),), window=100, variance=1.0, sure=True)[1], 2000)
        == 4
    )


def test_scores_that_were_missing_for_long_make_no_sources_of_independent_ones():
    for seed in range(20):
        scores = np.full(32_768, np.nan)
        scores[-300:] = np.random.default_rng(seed).normal(size=300)
        assert integrated_time(scores, window=100, variance=1.0, sure=True) < 6.0
