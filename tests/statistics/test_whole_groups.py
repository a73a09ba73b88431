"""A group never counts for less than one case: failures in few groups leave the interval useful, and it keeps its coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from roadworthy.statistics import clopper_pearson, clustered_proportion


def test_one_failing_patient_of_25_is_bounded_as_one_failure_in_25_is() -> None:
    outcomes, patient = np.ones(300), np.repeat(np.arange(25), 12)
    outcomes[:12] = 0
    found, exact = clustered_proportion(outcomes, patient), clopper_pearson(24, 25)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    assert "25.0 whole groups" in found.method


@pytest.mark.slow
@pytest.mark.parametrize("sided", ["two", "lower", "upper"])
@pytest.mark.parametrize(("rate", "within"), [(0.04, 0.9), (0.05, 1.0), (0.1, 0.5)])
@pytest.mark.parametrize("groups", [8, 25, 50])
def test_coverage_where_few_groups_hold_all_failures(
    groups: int, rate: float, within: float, sided: str
) -> None:
    rng = np.random.default_rng([groups, int(100 * rate), int(10 * within)])
    covered, runs, patient = 0, 800, np.repeat(np.arange(groups), 12)
    for _ in range(runs):
        bad = rng.random(groups) < rate / within
        outcomes = (rng.random(12 * groups) < np.repeat(bad * within, 12)).astype(float)
        method = "wilson" if sided == "two" else "clopper_pearson"
        covered += clustered_proportion(outcomes, patient, sided=sided, method=method).contains(
            rate
        )
    assert binomtest(covered, runs, 0.95, alternative="less").pvalue > 0.01, covered / runs
