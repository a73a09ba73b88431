"""Dissector against its definition with perceptrons found another way, and on data that leave something out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from roadworthy.conformance import check
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.registry import get
from roadworthy.subject.needs import EARLY, LATE, MIDDLE, PENULTIMATE, Layer, Output
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.dissector import Dissector, depth_weights, support_values
from roadworthy.supervisors.perceptron import Perceptron

CLASSES, LAYERS = 4, ("conv1", "fc1")


def rows(scores, *layers, failed=()):
    n = np.arange(len(scores))
    error = np.full(len(n), None, dtype=object)
    error[list(failed)] = "broke"
    columns = {f"layer.{name}": a for name, a in zip(LAYERS, layers, strict=True)}
    return ModuleTrace(n, n, error, n, CLASS_SCORES, np.asarray(scores), columns)


def drawn(n, seed):
    """Labels, class scores that mostly agree with them, and two layers, the second one clearer."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    shown = np.where(rng.random(n) < 0.15, rng.integers(0, CLASSES, n), labels)
    scores = 3 * np.eye(CLASSES)[shown] + rng.normal(0, 0.3, (n, CLASSES))
    turn = np.random.default_rng(99).normal(size=(CLASSES, 6))
    first = (turn[labels] * 0.7 + rng.normal(0, 1, (n, 6)) + 5).astype(np.float32)
    second = (turn[labels] * 2 + rng.normal(0, 0.7, (n, 6))).astype(np.float32)
    return labels, scores, first, second


LABELS, SCORES, FIRST, SECOND = drawn(300, 0)
REFERENCE = rows(SCORES, FIRST, SECOND)
_, ASKED, ASKED_FIRST, ASKED_SECOND = drawn(40, 1)
QUERIES = rows(ASKED, ASKED_FIRST, ASKED_SECOND)


def fitted(reference=REFERENCE, truth=LABELS, **parameters):
    supervisor = Dissector(layers=LAYERS, **parameters)
    supervisor.fit(reference, truth)
    return supervisor


def perceptron_by_newton(x, y, l2):
    """The same penalised likelihood on standardised activations, by full Newton steps on all parameters at once."""
    mean, spread = x.mean(axis=0, dtype=float), x.std(axis=0, dtype=float)
    design = np.column_stack([(x - mean) / spread, np.ones(len(x))])
    truth, theta = np.eye(CLASSES)[y], np.zeros((design.shape[1], CLASSES))
    penalty = np.full(theta.shape, l2)
    penalty[-1] = 1e-9  # the bias is free; a constant on all of them changes nothing
    for _ in range(30):
        p = softmax(design @ theta, axis=1)
        slope = design.T @ (p - truth) + penalty * theta
        curvature = np.einsum(
            "ni,nj,nk,nkl->ikjl", design, design, p, np.eye(CLASSES) - p[:, None, :]
        )
        flat = curvature.reshape(theta.size, theta.size) + np.diag(penalty.ravel())
        theta = theta - np.linalg.solve(flat, slope.ravel()).reshape(theta.shape)
    return lambda a: softmax(
        np.column_stack([(a - mean) / spread, np.ones(len(a))]) @ theta, axis=1
    )


def support_by_definition(p, label):
    order = np.argsort(p)[::-1]
    if order[0] == label:
        return p[label] / (p[label] + p[order[1]])
    return 1 - p[order[0]] / (p[order[0]] + p[label])


@pytest.mark.parametrize("growth", ["linear", "logarithmic", "exponential"])
@pytest.mark.parametrize("l2", [1.0, 0.05])
def test_the_risk_is_what_the_definition_gives_with_other_perceptrons(growth, l2):
    found = fitted(growth=growth, l2=l2).score(QUERIES)
    grown = {"linear": [1, 2], "logarithmic": np.log([2, 3]), "exponential": np.exp([1, 2])}[growth]
    wanted = np.zeros(40)
    for x, asked, weight in zip((FIRST, SECOND), (ASKED_FIRST, ASKED_SECOND), grown, strict=True):
        p = perceptron_by_newton(x, LABELS, l2)(asked)
        support = [
            support_by_definition(row, c) for row, c in zip(p, ASKED.argmax(axis=1), strict=True)
        ]
        wanted += weight * np.array(support) / np.sum(grown)
    np.testing.assert_allclose(found, 1 - wanted, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, 5, elements=st.floats(-30, 30)), st.integers(0, 4))
def test_support_values_follow_their_two_cases_and_stay_between_0_and_1(logits, label):
    found = support_values(logits[None], np.arange(5), np.array([label]))[0]
    assert found == pytest.approx(support_by_definition(softmax(logits), label), abs=1e-9)
    assert 0 <= found <= 1
    moved = support_values(logits[None] + 11, np.arange(5), np.array([label]))[0]
    assert moved == pytest.approx(found, abs=1e-9)


def test_weights_grow_with_depth_and_sum_to_one():
    for growth in ("linear", "logarithmic", "exponential"):
        weights = depth_weights(5, growth)
        assert (np.diff(weights) > 0).all()
        assert weights.sum() == pytest.approx(1.0)
    with pytest.raises(
        ValueError, match="growth is 'steep'; one of linear, logarithmic, exponential"
    ):
        depth_weights(2, "steep")


def test_answers_that_the_layers_contradict_are_riskier():
    labels, _, first, second = drawn(200, 5)
    right, wrong = np.eye(CLASSES)[labels], np.eye(CLASSES)[(labels + 1) % CLASSES]
    supervisor = fitted()
    risks = [supervisor.score(rows(s, first, second)) for s in (right, wrong)]
    assert (risks[1] > risks[0]).mean() > 0.97


def test_a_shift_and_scale_of_every_activation_change_nothing():
    def moved(a):
        return (a * np.array([1, 3, 0.1, 7, 2, 5]) + 4).astype(np.float64)

    again = fitted(rows(SCORES, moved(FIRST), moved(SECOND))).score(
        rows(ASKED, moved(ASKED_FIRST), moved(ASKED_SECOND))
    )
    np.testing.assert_allclose(again, fitted().score(QUERIES), atol=1e-5)


def test_the_order_of_reference_rows_memory_and_device_change_nothing():
    pytest.importorskip("torch")
    wanted = fitted().score(QUERIES)
    order = np.random.default_rng(3).permutation(300)
    again = fitted(rows(SCORES[order], FIRST[order], SECOND[order]), LABELS[order]).score(QUERIES)
    np.testing.assert_allclose(again, wanted, atol=1e-5)
    np.testing.assert_allclose(fitted(device="cpu:0").score(QUERIES), wanted, atol=1e-6)
    # More rows than fit into a megabyte at once; forty times the rows and the penalty are the same problem.
    many = [np.tile(a, (40, 1)) for a in (SCORES, FIRST, SECOND)]
    again = fitted(rows(*many), np.tile(LABELS, 40), l2=40.0, memory_mb=1).score(QUERIES)
    np.testing.assert_allclose(again, wanted, atol=1e-5)


def test_truth_that_is_no_label_a_row_leaves_the_predicted_classes():
    by_prediction = fitted(truth=["a"] * 300)
    assert "learned the predicted classes" in by_prediction.notes[0]
    np.testing.assert_array_equal(
        by_prediction.score(QUERIES), fitted(truth=SCORES.argmax(axis=1)).score(QUERIES)
    )
    assert fitted().notes == []


def test_a_class_that_no_reference_row_has_is_not_supported_and_named():
    keep = LABELS != 2
    supervisor = fitted(rows(SCORES[keep], FIRST[keep], SECOND[keep]), LABELS[keep])
    assert supervisor.notes == ["no reference row is of class 2; such an answer is not supported"]
    scores = supervisor.score(rows(np.eye(CLASSES)[np.full(40, 2)], ASKED_FIRST, ASKED_SECOND))
    np.testing.assert_array_equal(scores, 1.0)
    unknown = fitted(truth=np.where(np.arange(300) < 7, -1, LABELS))
    assert unknown.notes == ["7 rows have no class that the module answers; they are left out"]
    with pytest.raises(
        ValueError, match="the 300 reference rows are of 1; give reference data of more classes"
    ):
        fitted(truth=np.zeros(300, dtype=int))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: np.concatenate([a, np.full((len(a), 2), 0.1, a.dtype)], axis=1),
        lambda a: np.concatenate([a, a], axis=1),
        lambda a: a.astype(np.float16),
        lambda a: a.reshape(len(a), 2, 3),
        lambda a: np.repeat(a, 80, axis=1),
        lambda a: a * np.float32(1e6),
        lambda a: np.zeros_like(a),
    ],
    ids=["constant", "copied", "float16", "spatial", "wide", "large", "all_constant"],
)
def test_awkward_activations_give_finite_scores(spoil):
    supervisor = fitted(rows(SCORES, spoil(FIRST), spoil(SECOND)))
    scores = supervisor.score(rows(ASKED, spoil(ASKED_FIRST), spoil(ASKED_SECOND)))
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_perceptron_ignores_an_activation_that_was_constant():
    x = np.column_stack([FIRST, np.full(300, 0.1, np.float32)])
    found = Perceptron.fit(x, LABELS)
    assert (found.weights[-1] == 0).all()
    np.testing.assert_allclose(found.weights[:-1], Perceptron.fit(FIRST, LABELS).weights, atol=1e-4)


def test_rows_that_failed_or_have_no_numbers_have_no_score():
    broken = ASKED_SECOND.copy()
    broken[2, 1] = np.nan
    scores = fitted().score(rows(ASKED, ASKED_FIRST, broken, failed=(0,)))
    assert np.flatnonzero(np.isnan(scores)).tolist() == [0, 2]
    nobody = rows(np.full((2, 0), np.nan), np.zeros((2, 0)), np.zeros((2, 0)), failed=(0, 1))
    assert np.isnan(fitted().score(nobody)).all()


def test_misuse_is_answered_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="has not been fitted"):
        Dissector(layers=LAYERS).score(QUERIES)
    with pytest.raises(
        ValueError, match=r"reads 'layer.early', and the trace has layer.conv1, layer.fc1"
    ):
        Dissector().fit(REFERENCE, LABELS)
    broken = FIRST.copy()
    broken[5] = np.inf
    with pytest.raises(
        ValueError, match="layer 'conv1' has NaN or infinite activations in 1 of 300 rows"
    ):
        fitted(rows(SCORES, broken, SECOND))
    with pytest.raises(ValueError, match="none of the 300 has one"):
        fitted(rows(SCORES, FIRST, SECOND, failed=range(300)))
    with pytest.raises(
        ValueError, match="fitted on 6 activations of the layer 'fc1', and 5 were found"
    ):
        fitted().score(rows(ASKED, ASKED_FIRST, ASKED_SECOND[:, :5]))
    with pytest.raises(ValueError, match="fitted on 4 classes, and 3 were found"):
        fitted().score(rows(ASKED[:, :3], ASKED_FIRST, ASKED_SECOND))
    for parameters, says in (
        ({"l2": 0}, "l2 is 0"),
        ({"layers": ()}, "one or more"),
        ({"memory_mb": 0}, "memory_mb is 0"),
    ):
        with pytest.raises(ValueError, match=says):
            Dissector(**parameters)
    fitted().save(tmp_path)
    with pytest.raises(ValueError, match="'growth': 'linear'"):
        Dissector(layers=LAYERS, growth="exponential").load(tmp_path)


def test_contract_needs_and_what_does_not_apply():
    assert check("supervisors", "dissector") == []
    wanted = (Output(), *(Layer(name) for name in (EARLY, MIDDLE, LATE, PENULTIMATE)))
    assert get("supervisors", "dissector").bind().needs == wanted
    assert (
        Dissector().applies_to(KINDS["boxes"]) == "it supports a class, and the module gives boxes"
    )
    assert get("supervisors", "dissector").bind(layers=["a", "b"], pool="none").needs[1] == Layer(
        "a", "none"
    )
