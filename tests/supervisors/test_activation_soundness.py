"""Activations on which formulas lose their digits, on numpy and on torch: the scores are those of exact arithmetic all the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from roadworthy.data.values import CLASS_SCORES
from roadworthy.registry import get
from roadworthy.subject.trace import ModuleTrace

BY_CLASS = ("lsa", "mdsa", "dsa")
EVERY = (*BY_CLASS, "mahalanobis", "kde", "knn")
every = pytest.mark.parametrize("name", EVERY)
on_both = pytest.mark.parametrize("device", ["cpu", "cpu:0"])


def trace(activations: np.ndarray, classes: np.ndarray, *, of: int = 3) -> ModuleTrace:
    n = np.arange(len(activations))
    none = np.full(len(n), None, dtype=object)
    return ModuleTrace(
        n,
        n,
        none,
        n,
        CLASS_SCORES,
        np.eye(of)[classes],
        {"layer.penultimate": np.asarray(activations)},
    )


def scores(name, training, classes, queries, predicted, *, device="cpu", **parameters):
    if device != "cpu":
        pytest.importorskip("torch")
    parameters = {"normalise": False, "k": 5} | parameters if name == "knn" else parameters
    supervisor = get("supervisors", name).bind(device=device, **parameters)
    supervisor.fit(trace(training, classes), None)
    return supervisor.score(trace(queries, predicted)), supervisor.notes


def rows(n=300, width=6, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n)
    centres = np.random.default_rng(99).normal(0, 2, (3, width))
    return centres[classes] + rng.normal(size=(n, width)), classes


TRAINING, CLASSES = rows()
QUERIES, PREDICTED = rows(40, seed=1)


@on_both
@every
def test_float16_is_read_as_the_numbers_it_stands_for(name, device):
    half, asked = TRAINING.astype(np.float16), QUERIES.astype(np.float16)
    found, _ = scores(name, half, CLASSES, asked, PREDICTED, device=device)
    wanted, _ = scores(name, half.astype(np.float64), CLASSES, asked.astype(np.float64), PREDICTED)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@on_both
@every
def test_a_common_offset_of_ten_thousand_costs_no_digits(name, device):
    training, asked = (TRAINING + 1e4).astype(np.float32), (QUERIES + 1e4).astype(np.float32)
    found, _ = scores(name, training, CLASSES, asked, PREDICTED, device=device)
    wanted, _ = scores(
        name, training.astype(np.float64) - 1e4, CLASSES, asked.astype(np.float64) - 1e4, PREDICTED
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@on_both
@every
def test_constant_activations_change_no_distance_and_leave_the_others_finite(name, device):
    training, asked = (
        np.concatenate([a, np.full((len(a), 3), 7.0)], axis=1) for a in (TRAINING, QUERIES)
    )
    found, notes = scores(name, training, CLASSES, asked, PREDICTED, device=device)
    assert np.isfinite(found).all()
    wanted = scores(name, TRAINING, CLASSES, QUERIES, PREDICTED)[0]
    if name in ("lsa", "kde"):
        # A density over more dimensions: the same constants for every row of a class.
        for label in np.unique(PREDICTED) if name == "lsa" else [None]:
            rows = slice(None) if label is None else label == PREDICTED
            assert np.ptp((found - wanted)[rows]) < 1e-6
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert not notes


@on_both
def test_a_class_of_one_is_measured_in_the_covariance_within_all_classes(device):
    classes = np.where(np.arange(300) == 17, 2, CLASSES % 2)
    found, notes = scores("mdsa", TRAINING, classes, QUERIES, np.full(40, 2), device=device)
    means = np.stack([TRAINING[classes == c].mean(axis=0) for c in range(3)])
    within = TRAINING - means[classes]
    wanted = cdist(
        QUERIES, TRAINING[17:18], "mahalanobis", VI=np.linalg.inv(within.T @ within / 300)
    )[:, 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert notes == ["class 2: rows without spread; the covariance is that within all classes"]
    alone = np.linalg.norm(QUERIES - TRAINING[17], axis=1)
    to_others = np.delete(cdist(TRAINING[17:18], TRAINING)[0], 17).min()
    dsa, _ = scores("dsa", TRAINING, classes, QUERIES, np.full(40, 2), device=device)
    np.testing.assert_allclose(dsa, alone / to_others, rtol=1e-9)


@on_both
@pytest.mark.parametrize("copies", [3, 40])
def test_equal_rows_count_as_often_as_they_stand(device, copies):
    training, classes = (
        np.repeat(TRAINING, copies, axis=0).astype(np.float32),
        np.repeat(CLASSES, copies),
    )
    asked = np.concatenate([QUERIES.astype(np.float32), training[::400]])
    predicted = np.zeros(len(asked), dtype=int)
    distances = np.sort(cdist(asked.astype(np.float64), training.astype(np.float64)), axis=1)
    for k in (1, copies, copies + 1):
        found, _ = scores("knn", training, classes, asked, predicted, device=device, k=k)
        np.testing.assert_allclose(found, distances[:, k - 1], rtol=1e-12)
    once, _ = scores("dsa", TRAINING.astype(np.float32), CLASSES, asked, predicted)
    np.testing.assert_allclose(
        scores("dsa", training, classes, asked, predicted, device=device)[0], once, rtol=1e-12
    )


@on_both
def test_one_activation_a_row_follows_the_formulas_of_one_dimension(device):
    training, asked = TRAINING[:, :1], QUERIES[:, :1]
    means = np.array([training[c == CLASSES].mean() for c in range(3)])
    spreads = np.array([training[c == CLASSES].std() for c in range(3)])
    within = (training[:, 0] - means[CLASSES]).std()
    apart = np.abs(asked - training.T)
    nearest = np.array(
        [
            np.where(c == CLASSES, row, np.inf).argmin()
            for c, row in zip(PREDICTED, apart, strict=True)
        ]
    )
    others = np.abs(training - training.T) + np.where(CLASSES[:, None] == CLASSES, np.inf, 0.0)
    density = {c: stats.gaussian_kde(training[c == CLASSES].T) for c in range(3)}
    wanted = {
        "mahalanobis": (np.abs(asked - means) / within).min(axis=1),
        "mdsa": np.abs(asked[:, 0] - means[PREDICTED]) / spreads[PREDICTED],
        "knn": np.sort(apart, axis=1)[:, 4],
        "kde": -stats.gaussian_kde(training.T).logpdf(asked.T),
        "lsa": np.array([-density[c].logpdf(x)[0] for x, c in zip(asked, PREDICTED, strict=True)]),
        "dsa": apart[np.arange(40), nearest] / others.min(axis=1)[nearest],
    }
    for name in EVERY:
        found, _ = scores(name, training, CLASSES, asked, PREDICTED, device=device)
        np.testing.assert_allclose(found, wanted[name], rtol=1e-8, err_msg=name)


@on_both
@every
@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e-41), (np.float64, 1e-310)])
def test_denormal_numbers_give_numbers(name, device, dtype, unit):
    training, asked = (TRAINING * unit).astype(dtype), (QUERIES * unit).astype(dtype)
    found, _ = scores(name, training, CLASSES, asked, PREDICTED, device=device)
    assert np.isfinite(found).all()
    ordinary, _ = scores(name, training, CLASSES, QUERIES.astype(dtype), PREDICTED, device=device)
    assert np.isfinite(ordinary).all()


@on_both
@every
def test_broken_reference_rows_are_left_out_and_broken_queries_have_no_score(name, device):
    training, asked = TRAINING.astype(np.float32), QUERIES.astype(np.float32)
    training[[3, 5]], training[9, 2] = np.nan, np.inf
    found, notes = scores(name, training, CLASSES, asked, PREDICTED, device=device)
    kept = ~np.isin(np.arange(len(training)), [3, 5, 9])
    without, _ = scores(name, training[kept], CLASSES[kept], asked, PREDICTED, device=device)
    np.testing.assert_allclose(found, without, rtol=1e-6)
    assert any("3 of 300 reference rows" in note for note in notes)
    asked[4], asked[6, 1], asked[8, 0] = np.nan, -np.inf, np.inf
    found, _ = scores(name, TRAINING.astype(np.float32), CLASSES, asked, PREDICTED, device=device)
    assert np.flatnonzero(np.isnan(found)).tolist() == [4, 6, 8]


@every
def test_what_was_learned_is_not_the_callers_memory(name):
    training = TRAINING.astype(np.float32)
    parameters = {"normalise": False, "k": 5} if name == "knn" else {}
    supervisor = get("supervisors", name).bind(**parameters)
    supervisor.fit(trace(training, CLASSES), None)
    training[:] = 1e9
    wanted, _ = scores(name, TRAINING.astype(np.float32), CLASSES, QUERIES, PREDICTED)
    np.testing.assert_array_equal(supervisor.score(trace(QUERIES, PREDICTED)), wanted)
