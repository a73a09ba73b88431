"""GradNorm in closed form against torch's gradients of a real model, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from roadworthy.conformance import check
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.module import Context
from roadworthy.subject.needs import Gradient, Layer, Output
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.gradients import GradNorm

torch = pytest.importorskip("torch")

from roadworthy.subject.adapters.torch_model import TorchModule  # noqa: E402


def rows(scores, activations, column="layer.penultimate"):
    n = np.arange(len(scores))
    return ModuleTrace(n, n, np.full(len(n), None), n, CLASS_SCORES, scores, {column: activations})


@pytest.mark.parametrize("temperature", [1.0, 0.5, 10.0])
def test_it_is_minus_the_norm_that_autograd_finds(temperature):
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU())
    last = torch.nn.Linear(20, 7)
    inputs = torch.randn(25, 12) * 3
    norms, seen, answers = [], [], []
    for x in inputs:
        features = body(x[None])
        z = last(features)
        last.zero_grad()
        # KL(uniform || p) is the cross-entropy with the uniform distribution, but for a constant.
        loss = -(torch.log_softmax(z / temperature, dim=1) / 7).sum()
        loss.backward()
        norms.append(float(last.weight.grad.abs().sum()))
        seen.append(features.detach().numpy()[0])
        answers.append(z.detach().numpy()[0])
    supervisor = GradNorm(temperature=temperature)
    found = supervisor.score(rows(np.array(answers), np.array(seen)))
    np.testing.assert_allclose(found, -np.array(norms), rtol=2e-5)
    probabilities = softmax(np.array(answers, dtype=np.float64), axis=1)
    np.testing.assert_allclose(
        supervisor.score(rows(probabilities, np.array(seen))), found, rtol=1e-5
    )


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, (3, 4), elements=st.floats(-30, 30)),
    arrays(np.float64, (3, 5), elements=st.floats(-10, 10)),
    st.floats(-20, 20),
    st.floats(0.1, 10),
)
def test_a_constant_on_the_logits_changes_nothing_and_a_scale_on_the_activations_scales(
    z, f, constant, scale
):
    z = z + np.array([40, 0, 0, 0])  # logits that are no distribution, whatever the constant
    wanted = GradNorm().score(rows(z, f))
    np.testing.assert_allclose(
        GradNorm().score(rows(z + constant, f)), wanted, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        GradNorm().score(rows(z, scale * f)), scale * wanted, rtol=1e-9, atol=1e-12
    )
    assert (wanted <= 0).all()


def test_an_undecided_row_is_riskiest():
    sure, torn = GradNorm().score(rows(np.array([[9.0, 0, 0], [2, 2, 2]]), np.ones((2, 4))))
    assert torn == pytest.approx(0.0)
    assert sure < torn


def test_contract_needs_and_messages():
    assert check("supervisors", "grad_norm") == []
    assert GradNorm(layer="fc1", pool="none").needs == (Output(), Layer("fc1", "none"))
    assert (
        GradNorm().applies_to(KINDS["vector"])
        == "it reads class scores, and the module gives vector"
    )
    with pytest.raises(ValueError, match="temperature is 0"):
        GradNorm(temperature=0)
    with pytest.raises(
        ValueError, match=r"'layer.penultimate' is needed, and the trace has layer.fc1"
    ):
        GradNorm().score(rows(np.eye(2), np.eye(2), "layer.fc1"))


def test_rows_without_an_answer_or_with_broken_activations_have_no_score():
    trace = rows(np.eye(3), np.array([[1.0, 2], [np.nan, 1], [1, 1]]))
    trace.error[2] = "broke"
    assert np.isfinite(GradNorm().score(trace)).tolist() == [True, False, False]
    trace.error[:] = "broke"
    assert np.isnan(GradNorm().score(trace)).all()


def network(*last, hidden=20):
    torch.manual_seed(0)
    body = [torch.nn.Flatten(), torch.nn.Linear(28 * 28, hidden), torch.nn.ReLU()]
    return TorchModule(torch.nn.Sequential(*body, *last).eval(), CLASS_SCORES, InputPreparation())


def test_the_closed_form_is_the_gradient_of_a_linear_head():
    images = np.random.default_rng(0).random((6, 28, 28)).astype(np.float32)
    module = network(torch.nn.Linear(20, 7, bias=False))
    gradient, layer = Gradient("uniform_last_layer"), Layer("penultimate")
    answers = module.batch({"image": images}, Context([""] * 6, frozenset({gradient, layer})))
    found = GradNorm().score(rows(np.asarray(answers.outputs["output"]), answers.extras[layer]))
    np.testing.assert_allclose(-found, answers.extras[gradient].ravel(), rtol=1e-4)
