"""Supervisors of class scores against their definitions, and how scores of steps become a case's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import softmax

from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.registry import components
from roadworthy.statistics import auc
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.outputs import Energy, MaxLogit
from roadworthy.supervisors.softmax import (
    DeepGini,
    MaxSoftmax,
    PredictionConfidence,
    SoftmaxEntropy,
)
from roadworthy.supervisors.supervisor import reduce_steps

OF_SCORES = (MaxSoftmax, PredictionConfidence, DeepGini, SoftmaxEntropy)


def trace(
    output: np.ndarray, failed: tuple[int, ...] = (), case: list[str] | None = None
) -> ModuleTrace:
    n = len(output)
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "broke"
    ids = np.array(case or [f"c{i}" for i in range(n)], dtype=object)
    return ModuleTrace(ids, np.zeros(n, np.int32), error, np.zeros(n), CLASS_SCORES, output)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(2, 6)), elements=st.floats(-20, 20))
)
def test_scores_follow_their_definitions_on_logits(logits):
    p = softmax(logits, axis=1)
    first, second = np.sort(p, axis=1)[:, -1], np.sort(p, axis=1)[:, -2]
    wanted = [1 - first, 1 - (first - second), 1 - (p**2).sum(axis=1), stats.entropy(p, axis=1)]
    distributions = ((logits >= -1e-6) & (logits <= 1.001)).all(axis=1)  # or could be
    for supervisor, expected in zip(OF_SCORES, wanted, strict=True):
        found = supervisor().score(trace(logits))
        np.testing.assert_allclose(found[~distributions], expected[~distributions], atol=1e-9)


def test_probabilities_are_taken_as_they_are():
    p = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    assert MaxSoftmax().score(trace(p)).tolist() == pytest.approx([0.3, 0.0])
    assert SoftmaxEntropy().score(trace(p))[1] == 0.0


@pytest.mark.parametrize("supervisor", OF_SCORES)
def test_a_row_without_an_answer_has_no_score(supervisor):
    scores = supervisor().score(
        trace(np.array([[0.6, 0.4], [np.nan, np.nan], [0.5, 0.5]]), failed=(1,))
    )
    assert np.isnan(scores).tolist() == [False, True, False]
    assert np.isnan(supervisor().score(trace(np.full((2, 2), np.nan), failed=(0, 1)))).all()


@pytest.mark.parametrize("supervisor", OF_SCORES)
def test_huge_logits_do_not_overflow(supervisor):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        scores = supervisor().score(trace(np.array([[1e4, -1e4], [1e4, 1e4]])))
    assert scores[0] == pytest.approx(0.0)
    assert scores[1] > scores[0]


def test_supervisors_of_class_scores_say_why_they_do_not_apply_elsewhere():
    for supervisor in OF_SCORES:
        reasons = {name: supervisor().applies_to(kind) for name, kind in KINDS.items()}
        assert reasons.pop("class_scores") is None
        assert reasons["boxes"] == "it reads class scores, and the module gives boxes"
        assert all(reasons.values())
    assert {"max_softmax", "pcs", "deep_gini", "softmax_entropy"} <= set(components("supervisors"))


def test_a_case_is_as_risky_as_its_riskiest_step_or_their_mean():
    rows = trace(np.zeros((5, 2)), case=["a", "a", "b", "c", "c"])
    scores = np.array([0.1, 0.7, 0.2, np.nan, np.nan])
    cases = np.array(["b", "a", "c", "d"], dtype=object)
    np.testing.assert_array_equal(reduce_steps(rows, scores, cases), [0.2, 0.7, np.nan, np.nan])
    np.testing.assert_allclose(
        reduce_steps(rows, scores, cases, "mean"), [0.2, 0.4, np.nan, np.nan]
    )


@pytest.mark.parametrize(
    ("how", "loss"),
    [
        (lambda p: p.round(2), 0.005),
        (lambda p: p.round(3), 0.002),
        (lambda p: np.rint(p * 255) / 255, 0.003),
    ],
)
@pytest.mark.parametrize("supervisor", [*OF_SCORES, MaxLogit, Energy])
def test_rounding_of_probabilities_costs_little(supervisor, how, loss):
    rng = np.random.default_rng(0)
    p = softmax(3 * rng.normal(size=(3000, 10)), axis=1)
    failed = p.argmax(axis=1) != (p.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    exact, rounded = (auc(supervisor().score(trace(s)), failed) for s in (p, how(p)))
    # The energy sees less where smaller probabilities are gone.
    assert rounded > exact - (0.04 if supervisor is Energy else loss)


def test_of_rounded_probabilities_the_largest_logit_is_the_logarithm_of_the_largest():
    scores = np.array([[0.97, 0.01, 0.01], [0.98, 0.01, 0.01], [0.6, 0.3, 0.1], [0.34, 0.33, 0.34]])
    largest = 1 - MaxSoftmax().score(trace(scores))
    np.testing.assert_allclose(MaxLogit().score(trace(scores)), -np.log(largest), rtol=1e-12)
    assert MaxLogit().score(trace(scores)).argsort().tolist() == [1, 0, 2, 3]


def test_the_surest_row_has_the_lowest_energy_at_any_resolution():
    """1 and zeros lies on every grid: a floor by what a row shows would make it the riskiest."""
    for finer in ([0.999, 0.001, 0, 0], [0.9, 0.1, 0, 0], [0.996, 0.002, 0.002, 0]):
        scores = Energy().score(trace(np.array([[1.0, 0, 0, 0], finer])))
        assert scores[0] < scores[1]
