"""Trials of transfer: nothing that calibrates streams, and everyone sees the same windows."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.analysis.simulation.trials import RATES, Scores, trials

KINDS = ("fog", "snow", "night")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    fold = np.repeat(["train", "ind_val", "ind_test", *KINDS], [50, 200, 200, 120, 121, 122])
    columns = {"energy": rng.normal(size=len(fold)), "knn": rng.normal(size=len(fold))}
    return Scores("small", fold, rng.random(len(fold)) < 0.7, columns)


def test_rows_that_calibrate_never_stream(data):
    for trial in trials(data, per=2, left_out=True):
        assert not set(trial.windows.ravel()) & set(trial.calibration)
        assert set(data.fold[trial.clean]) == {"ind_val"}
        assert set(data.fold[trial.windows].ravel()) <= {"ind_test", trial.streamed}
        assert set(trial.kind_of_row) == {"clean", *trial.calibrated}


def test_every_ordered_pair_of_kinds_is_calibrated_and_streamed_once(data):
    found = [(t.kind, t.calibrated, t.streamed) for t in trials(data, per=1)]
    expected = [("same", (a,), a) for a in KINDS] + [
        ("unseen", (a,), b) for a in KINDS for b in KINDS if a != b
    ]
    assert sorted(found) == sorted(expected)


def test_all_kinds_but_one_calibrate_where_one_is_left_out(data):
    found = {
        t.streamed: t.calibrated for t in trials(data, per=1, left_out=True) if t.kind == "left out"
    }
    assert found == {k: tuple(o for o in KINDS if o != k) for k in KINDS}


def test_windows_are_the_same_for_everyone_who_asks(data):
    one, two = (list(trials(data, per=2)) for _ in range(2))
    assert all(np.array_equal(a.windows, b.windows) for a, b in zip(one, two, strict=True))
    alone = one[0].on(("knn",))
    assert np.array_equal(alone.windows, one[0].windows) and list(alone.data.columns) == ["knn"]
    assert not np.array_equal(one[0].windows, next(trials(data, per=2, seed=1)).windows)


def test_the_truth_of_a_window_is_its_own(data):
    trial = next(trials(data, per=50))
    assert np.array_equal(np.unique(trial.nominal), RATES)
    assert np.allclose(
        trial.accuracy, [np.mean([data.correct[r] for r in window]) for window in trial.windows]
    )
    assert np.allclose(trial.drawn, (data.fold[trial.windows] == trial.streamed).mean(axis=1))
    deviation = np.sqrt(trial.nominal * (1 - trial.nominal) / 100)
    assert (np.abs(trial.drawn - trial.nominal) <= 5 * deviation + 1e-12).all()
