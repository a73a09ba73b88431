"""What is tolerated where nobody says what is tolerable."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor.compile import tolerated


@pytest.mark.parametrize("expected_rate", [0.0, 0.25])
def test_what_one_event_in_five_costs_is_counted_with_kinds_even_however_unlike_they_are(
    expected_rate,
):
    rng, kind = np.random.default_rng(0), np.repeat(["clean", "rain", "fog", "snow"], 1000)
    right = rng.random(4000) < np.repeat([0.95, 0.9, 0.5, 0.1], 1000)
    calibration = fit_calibration(
        {"energy": rng.normal(np.repeat([0.0, 0.8, 2.0, 4.0], 1000))}, kind, right
    )
    clean, *shifted = (1.0 - calibration.accuracy(name) for name in calibration.kinds)
    rate = expected_rate + 0.2 * (1.0 - expected_rate)
    by_hand = (1.0 - rate) * clean + rate * np.mean(shifted)
    assert tolerated(
        calibration, accuracy_tree(), {}, expected_rate=expected_rate
    ) == pytest.approx(by_hand, abs=0.001)
