"""The detectors of Torpmann-Hagen et al. 2025 against torch, brute force, and the direction they claim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from scipy.special import softmax

from roadworthy.conformance import check
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.registry import get
from roadworthy.subject.needs import Gradient, Layer, Output
from roadworthy.subject.trace import ModuleTrace

torch = pytest.importorskip("torch")
NAMES = ("dlpra_grad_norm", "dlpra_grad_entropy", "dlpra_entropy", "dlpra_knn")


def rows(scores, **columns):
    n = np.arange(len(scores))
    return ModuleTrace(n, n, np.full(len(n), None), n, CLASS_SCORES, scores, columns)


def made(name, **parameters):
    return get("supervisors", name).bind(**parameters)


@pytest.mark.parametrize("name", NAMES)
def test_each_keeps_the_contract(name):
    assert check("supervisors", name) == []


def test_entropy_is_minus_torchs_cross_entropy_with_ones():
    z = np.random.default_rng(0).normal(0, 4, (20, 6))
    wanted = torch.nn.functional.cross_entropy(
        torch.from_numpy(z), torch.ones(20, 6), reduction="none"
    ).numpy()
    np.testing.assert_allclose(made("dlpra_entropy").score(rows(z)), -wanted, rtol=1e-6)
    np.testing.assert_allclose(
        made("dlpra_entropy").score(rows(softmax(z, axis=1))), -wanted, rtol=1e-6
    )


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, (3, 4), elements=st.floats(-20, 20)), st.floats(-50, 50))
def test_entropy_ignores_a_constant_and_is_highest_where_nothing_is_known(z, constant):
    z = z + np.array([40, 0, 0, 0])  # logits that are no distribution, whatever the constant
    found = made("dlpra_entropy").score(rows(z))
    np.testing.assert_allclose(
        made("dlpra_entropy").score(rows(z + constant)), found, rtol=1e-6, atol=1e-6
    )
    assert (found <= made("dlpra_entropy").score(rows(np.zeros((1, 4))))).all()
    certain = made("dlpra_entropy").score(rows(np.array([[1.0, 0.0, 0.0]])))
    assert np.isfinite(certain).all()


def test_the_nearest_neighbour_is_that_of_a_loop():
    rng = np.random.default_rng(1)
    training, queries = rng.normal(size=(200, 7)) * 3, rng.normal(size=(30, 7)) * 3
    supervisor = made("dlpra_knn")
    supervisor.fit(rows(np.eye(3)[np.arange(200) % 3], **{"layer.penultimate": training}), None)
    found = supervisor.score(rows(np.eye(3)[np.arange(30) % 3], **{"layer.penultimate": queries}))
    np.testing.assert_allclose(found, cdist(queries, training).min(axis=1), rtol=1e-9)
    assert supervisor.needs == (Output(), Layer("penultimate"))


def test_a_saved_neighbour_is_not_that_of_knn(tmp_path):
    supervisor = made("dlpra_knn")
    supervisor.fit(rows(np.eye(3), **{"layer.penultimate": np.eye(3)}), None)
    supervisor.save(tmp_path)
    with pytest.raises(ValueError, match="holds the supervisor 'dlpra_knn', not 'knn'"):
        made("knn", k=1, normalise=False).load(tmp_path)


def gradient_norms(z):
    """By the logits, where both docstrings argue: of the cross-entropy to ones, and of the entropy."""
    z = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    logarithms = torch.log_softmax(z, dim=0)
    ones = torch.autograd.grad(-logarithms.sum(), z, retain_graph=True)[0]
    entropy = torch.autograd.grad(-(logarithms.exp() * logarithms).sum(), z)[0]
    return float(ones.norm()), float(entropy.norm())


def test_gradients_are_turned_as_their_docstrings_argue():
    sure, doubtful, undecided = (
        gradient_norms(z) for z in ([12.0, 0, 0, 0], [1.5, 0, 0, 0], [0.0, 0, 0, 0])
    )
    columns = {"gradient.ones_input": 0, "gradient.entropy_parameters": 1}
    trace = rows(
        np.ones((3, 4)),
        **{c: np.array([sure[i], doubtful[i], undecided[i]]) for c, i in columns.items()},
    )
    by_input, by_parameters = (made(name).score(trace) for name in NAMES[:2])
    assert by_input[0] < by_input[1] < by_input[2]
    assert by_parameters[0] < by_parameters[1]
    assert by_parameters[2] == pytest.approx(0.0, abs=1e-12)


def test_needs_and_what_does_not_apply():
    assert made("dlpra_grad_norm").needs == (Gradient("ones_input"),)
    assert made("dlpra_grad_entropy").needs == (Gradient("entropy_parameters"),)
    for name in NAMES[:2]:
        assert made(name).applies_to(KINDS["boxes"]) == (
            "it takes the gradient of a loss of class scores, and the module gives boxes"
        )
    with pytest.raises(
        ValueError, match=r"'gradient.ones_input' is needed, and the trace has no columns"
    ):
        made("dlpra_grad_norm").score(rows(np.eye(2)))
