"""What the score test says of windows that few rates explain, or none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from roadworthy.analysis.risk.rates import Calibrated, likelihood_rate, posterior_rate
from roadworthy.analysis.risk.rates.answer import REJECTED
from roadworthy.analysis.risk.rates.score_test import score_interval

SURE = Calibrated.from_table(
    {"clean": [900_000_000, 100_000_000], "fog": [200_000_000, 800_000_000]}
)
CLEAN, SHIFTED = np.array([0.9, 0.1]), np.array([0.2, 0.8])


def log_tail(alarms: float, n: float, rate: np.ndarray) -> np.ndarray:
    """Of two bins the score is that of the share of alarms, which is normal around its expectation."""
    share = 0.1 + 0.7 * rate
    z = (alarms - n * share) / np.sqrt(n * share * (1 - share))
    return np.minimum(norm.logcdf(z), norm.logsf(z))


@pytest.mark.parametrize(("alarms", "end"), [(9_000, 0.0), (82_000, 1.0)])
def test_where_every_rate_is_rejected_the_least_rejected_one_keeps_a_width_and_it_is_said(
    alarms, end
) -> None:
    n = 100_000
    rate = np.linspace(0.0, 1.0, 200_001)
    tails = log_tail(alarms, n, rate)
    assert tails.max() < np.log(0.025) and rate[tails.argmax()] == end
    kept = rate[tails >= tails.max() + np.log(0.05)]
    found = likelihood_rate([n - alarms, alarms], SURE, kinds="seen", draws=5)[()]
    width = kept[-1] - kept[0]
    assert width > 1e-4
    assert [found.interval.low, found.interval.high] == pytest.approx(
        [kept[0], kept[-1]], abs=0.1 * width
    )
    assert REJECTED in found.flags
    assert REJECTED in posterior_rate([n - alarms, alarms], SURE, kinds="seen", draws=5)[()].flags


def test_a_window_that_some_rate_explains_is_not_said_to_be_rejected() -> None:
    windows = [[90_000, 10_000], [55_000, 45_000], [0, 0], [91_000, 9_000]]
    for estimate in (likelihood_rate, posterior_rate):
        found = estimate(windows, SURE, kinds="seen", draws=5)
        assert found.flagged(REJECTED).tolist() == [False, False, False, True]


def test_the_least_rejected_rate_is_found_where_all_tails_are_next_to_nothing() -> None:
    low, high, rejected = score_interval(
        np.array([[1e6, 0.0], [0.0, 1e6]]), (CLEAN, SHIFTED), (CLEAN[None], SHIFTED[None]), 0.025
    )
    assert rejected.all() and (low[0], high[1]) == (0.0, 1.0)
    assert 0.0 < high[0] < 1e-3 and 1.0 - 1e-3 < low[1] < 1.0


@pytest.mark.parametrize("rate", [0.0093, 0.3333, 0.9871])
def test_few_rates_that_are_not_rejected_are_found_away_from_the_likeliest(rate) -> None:
    # What is possible is not what the shares say: the rates that fit lie off the likeliest, between two places of the scan.
    n, clean, shifted = 10**8, np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
    drawn = np.array([0.61, 0.27, 0.12]), np.array([0.11, 0.31, 0.58])
    window = n * (rate * drawn[1] + (1 - rate) * drawn[0])
    low, high, rejected = score_interval(
        window[None], (clean, shifted), (drawn[0][None], drawn[1][None]), 0.025
    )
    part = (shifted - clean) / (clean + rate * (shifted - clean))
    mixed = window / n
    deviation = np.sqrt((mixed @ part**2 - (mixed @ part) ** 2) / n) / float(
        (drawn[1] - drawn[0]) @ part
    )
    assert not rejected[0]
    assert [low[0], high[0]] == pytest.approx(
        [rate - 1.96 * deviation, rate + 1.96 * deviation], abs=0.1 * deviation
    )


def test_a_rejected_window_says_the_same_beside_any_other() -> None:
    windows = np.array([[91_000, 9_000], [55_000, 45_000], [18_000, 82_000]])
    together = likelihood_rate(windows, SURE, kinds="seen", draws=5)
    for i, window in enumerate(windows):
        alone = likelihood_rate(window, SURE, kinds="seen", draws=5)
        assert (float(alone.low), float(alone.high)) == pytest.approx(
            (together.low[i], together.high[i]), abs=1e-12
        )
