"""Rounded class probabilities are probabilities, exact ones stay as they are, and logits stay logits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax

from roadworthy.data.probabilities import distributions, probabilities

CLASSES = pytest.mark.parametrize("classes", [2, 3, 10, 100, 1000])
HALF_STEP = {
    "2 decimals": 0.005,
    "3 decimals": 0.0005,
    "5 decimals": 5e-6,
    "8 bits": 0.5 / 255,
    "8 bits of 256": 0.5 / 256,
}


def drawn(classes: int, rows: int = 400, spread: float = 3.0) -> np.ndarray:
    return softmax(spread * np.random.default_rng(classes).normal(size=(rows, classes)), axis=1)


def rounded(p: np.ndarray, how: str) -> np.ndarray:
    half = HALF_STEP[how]
    return np.rint(p / (2 * half)) * (2 * half)


@CLASSES
@pytest.mark.parametrize("how", HALF_STEP)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounded_probabilities_are_made_whole_within_the_rounding(classes, how, dtype):
    p = drawn(classes)
    scores = rounded(p, how).astype(dtype)
    assert distributions(scores).all()
    found = probabilities(scores)
    assert (found >= 0).all()
    assert np.abs(found - scores).max() <= HALF_STEP[how] + 1e-5
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1.1e-3)
    assert np.abs(found - p).max() <= 2 * HALF_STEP[how] + 1e-5


@CLASSES
def test_probabilities_that_were_cut_off_to_8_bits_are_probabilities(classes):
    scores = np.floor(drawn(classes) * 255).astype(np.uint8) / 255
    assert distributions(scores).all()


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_half_precision_leaves_probabilities(classes):
    torch = pytest.importorskip("torch")
    p = torch.tensor(drawn(classes, rows=2000))
    for kind in (torch.float16, torch.bfloat16):
        assert distributions(p.to(kind).float().numpy()).all()


def test_the_nearest_distribution_takes_the_place_of_a_rounded_row():
    scores = np.array(
        [0.62, 0.30, 0.10, 0.01, 0.0]
    )  # excess 0.03, which 4 entries rounded up by half a step cannot make
    assert not distributions(scores[None]).any()
    scores[0] = 0.61
    (found,) = probabilities(scores[None])
    bounds, whole = [(0, 1)] * 5, {"type": "eq", "fun": lambda q: q.sum() - 1}
    best = minimize(
        lambda q: ((q - scores) ** 2).sum(),
        np.full(5, 0.2),
        bounds=bounds,
        constraints=whole,
        tol=1e-14,
    )
    np.testing.assert_allclose(found, best.x, atol=1e-6)


@CLASSES
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_distributions_of_any_precision_are_kept_bit_for_bit(classes, dtype):
    scores = drawn(classes).astype(dtype)
    np.testing.assert_array_equal(probabilities(scores), scores.astype(np.float64))
    among_others = np.concatenate(
        [scores.astype(np.float64), np.full((1, classes), 7.0), rounded(drawn(classes), "8 bits")]
    )
    np.testing.assert_array_equal(
        probabilities(among_others)[: len(scores)], scores.astype(np.float64)
    )


def test_what_float_arithmetic_leaves_below_zero_is_zero():
    (found,) = probabilities(np.array([[1.0 + 1e-9, -1e-9, 0.0]]))
    np.testing.assert_allclose(found, [1, 0, 0], atol=1e-8)
    assert (found >= 0).all()
    assert not distributions(np.array([[1.01, -0.01, 0.0]])).any()


@pytest.mark.parametrize(("classes", "at_most"), [(2, 5e-4), (3, 2e-4), (10, 0.0)])
def test_logits_are_almost_never_taken_for_probabilities(classes, at_most):
    """Two normal logits lie in [0, 1] with a sum within 0.001 of 1 by chance: 2.5 in 10,000, as many as ever."""
    logits = np.random.default_rng(0).normal(size=(100_000, classes))
    assert distributions(logits).mean() <= at_most
    assert distributions(logits.astype(np.float32)).mean() <= at_most


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([0.3, 3.0]))
def test_a_row_is_read_alike_whatever_stands_beside_it(seed, classes, spread):
    rng = np.random.default_rng(seed)
    z = spread * rng.normal(size=(12, classes))
    rows = np.concatenate(
        [
            z,
            softmax(z, axis=1),
            softmax(z, axis=1).round(2),
            softmax(z, axis=1).round(3),
            z.round(2),
        ]
    )
    rows = rng.permutation(rows)
    np.testing.assert_array_equal(
        probabilities(rows), np.concatenate([probabilities(r[None]) for r in rows])
    )
