"""What is settled at a glance is what the estimator says: no window that it doubts is passed over."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor.reliance import Reliance


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "blur"], 400)
    columns = {
        f"d{i}": rng.normal(1.5 * (kind != "clean") + 0.5 * i * (kind == "fog")) for i in range(2)
    }
    return Estimator(
        calibrate(columns, kind, rng.random(1200) < 0.8), accuracy_tree(), tolerable=0.2, draws=60
    )


def windows_of(estimator: Estimator, length: int) -> np.ndarray:
    """Windows from quite usual to quite strange ones, some with events that have no score."""
    rng = np.random.default_rng(length)
    found = []
    for _ in range(400):
        spread, far = rng.choice([0.0, 0.3, 1.0, 2.0]), rng.choice([0.0, 0.0, 0.02, 0.1, 0.6])
        shifted = rng.random(length) < rng.random()
        columns = {
            f"d{i}": (1.0 - 0.4 * spread) * rng.normal(1.5 * shifted) + spread for i in range(2)
        }
        columns["d1"][rng.random(length) < far] = 50.0
        nothing = rng.random(length) < rng.choice([0.0, 0.1, 0.7])
        found.append(np.where(nothing, -1, estimator.calibration.place(columns)))
    return np.array(found, dtype=np.int16)


@pytest.mark.parametrize("length", [30, 100, 1000])
@pytest.mark.parametrize("shrink", [1.0, 0.21])
def test_no_window_that_is_doubted_is_settled(estimator, length, shrink):
    windows = windows_of(estimator, length)
    settled = Reliance(estimator).settled(windows, shrink=shrink, least=0.5 * length)
    counts = np.stack(
        [np.bincount(w[w >= 0], minlength=estimator.calibration.cells) for w in windows]
    )
    doubted = np.array([reason is not None for reason in estimator.doubt(counts, shrink=shrink)])
    few = counts.sum(axis=1) < 0.5 * length
    assert not (settled & (doubted | few)).any()
    assert doubted.sum() > 40 and settled.sum() > 40
    assert settled.sum() > 0.8 * (~doubted & ~few).sum(), "else nothing would be saved"


def test_nothing_is_settled_where_scores_do_not_separate():
    rng = np.random.default_rng(1)
    kind = np.repeat(["clean", "fog"], 300)
    blind = Estimator(
        calibrate({"d": rng.normal(size=600)}, kind, rng.random(600) < 0.8),
        accuracy_tree(),
        draws=20,
    )
    assert (
        not Reliance(blind)
        .settled(np.zeros((3, 100), dtype=np.int16), shrink=1.0, least=50.0)
        .any()
    )
