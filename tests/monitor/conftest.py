"""Bundles made of synthetic detectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from synthetic_detectors import GAIN, synthetic

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Windows


@pytest.fixture(scope="session")
def calibration() -> Calibration:
    return synthetic(0.9)


@pytest.fixture(scope="session")
def bundle(calibration) -> Bundle:
    """Nothing is called tolerable, so there is no alarm: quick to make."""
    return Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="lesion-2.3.1",
        windows=Windows((50, 200)),
        id_horizon=5000,
        lateness=600.0,
    )


@pytest.fixture(scope="session")
def watchful(calibration) -> Bundle:
    """With an alarm: two false ones a day are accepted, at 10,000 events a day."""
    return Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="lesion-2.3.1",
        tolerable=0.12,
        windows=Windows((100, 300), half_life=50.0, adaptive=True),
        false_alarms="2 per day",
        events_per_day=10_000.0,
    )


@pytest.fixture(scope="session")
def scores_at() -> Callable[..., np.ndarray]:
    """Scores of the AUC 0.9 detector at a rate of shift."""

    def draw(n: int, rate: float, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng([seed, n])
        return rng.normal(GAIN[0.9] * (rng.random(n) < rate))

    return draw
