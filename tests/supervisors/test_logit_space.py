"""ViM and ReAct against their formulas with the true weights of a torch layer, and on data that do not determine them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_softmax, logsumexp

from roadworthy.conformance import check
from roadworthy.data.values import CLASS_SCORES, KINDS
from roadworthy.registry import get
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.logit_space import LinearLayer, RectifiedActivations, VirtualLogit

torch = pytest.importorskip("torch")
WIDTH, CLASSES = 24, 5
both = pytest.mark.parametrize("name", ["vim", "react"])


def rows(scores, activations, failed=()):
    n = np.arange(len(scores))
    error = np.full(len(n), None, dtype=object)
    error[list(failed)] = "broke"
    return ModuleTrace(n, n, error, n, CLASS_SCORES, scores, {"layer.penultimate": activations})


@pytest.fixture(scope="module")
def network():
    """A ReLU layer and a linear one; reference activations, queries, and the last layer's weights."""
    torch.manual_seed(1)
    body = torch.nn.Sequential(torch.nn.Linear(10, WIDTH), torch.nn.ReLU())
    last = torch.nn.Linear(WIDTH, CLASSES)
    with torch.no_grad():
        reference, queries = body(torch.randn(600, 10)), body(3 * torch.randn(50, 10))
        parts = [
            t.numpy()
            for t in (reference, last(reference), queries, last(queries), last.weight, last.bias)
        ]
    return dict(zip(("f", "z", "queries", "answers", "weights", "bias"), parts, strict=True))


def fitted(supervisor, network, **parts):
    known = {**network, **parts}
    supervisor.fit(rows(known["z"], known["f"]), None)
    return supervisor


def vim_by_hand(f, z, queries, answers, weights, bias, dimension):
    f, queries, weights = (a.astype(np.float64) for a in (f, queries, weights))
    origin = -np.linalg.pinv(weights) @ bias
    _, _, directions = np.linalg.svd(f - origin, full_matrices=True)
    residual = directions[dimension:].T
    alpha = z.max(axis=1).mean() / np.linalg.norm((f - origin) @ residual, axis=1).mean()
    virtual = alpha * np.linalg.norm((queries - origin) @ residual, axis=1)
    joined = np.concatenate([answers, virtual[:, None]], axis=1)
    return np.exp(virtual - logsumexp(joined, axis=1))


@pytest.mark.parametrize("dimension", [None, 5, 23])
def test_vim_is_the_probability_of_the_virtual_logit(network, dimension):
    supervisor = fitted(VirtualLogit(dimension=dimension), network)
    found = supervisor.score(rows(network["answers"], network["queries"]))
    wanted = vim_by_hand(**network, dimension=dimension or WIDTH // 2)
    np.testing.assert_allclose(expit(found), wanted, rtol=1e-5)
    assert supervisor.notes == []


@pytest.mark.parametrize("percentile", [90.0, 60.0, 100.0])
def test_react_is_the_energy_of_cut_activations(network, percentile):
    supervisor = fitted(RectifiedActivations(percentile=percentile), network)
    found = supervisor.score(rows(network["answers"], network["queries"]))
    cut = np.minimum(network["queries"], np.percentile(network["f"].astype(np.float64), percentile))
    wanted = -logsumexp(cut @ network["weights"].T.astype(np.float64) + network["bias"], axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_react_that_cuts_nothing_is_the_energy(network):
    supervisor = fitted(RectifiedActivations(percentile=100, temperature=2.0), network)
    found = supervisor.score(rows(network["z"], network["f"]))
    np.testing.assert_allclose(
        found, -2 * logsumexp(network["z"] / 2, axis=1), rtol=1e-5, atol=1e-5
    )


@both
def test_probabilities_are_read_as_logits_of_mean_zero(network, name):
    centred = {k: network[k] - network[k].mean(axis=1, keepdims=True) for k in ("z", "answers")}
    supervisor = fitted(get("supervisors", name).bind(), network, z=centred["z"])
    wanted = supervisor.score(rows(centred["answers"], network["queries"]))
    p = {k: np.exp(log_softmax(network[k].astype(np.float64), axis=1)) for k in ("z", "answers")}
    again = fitted(get("supervisors", name).bind(), network, z=p["z"])
    np.testing.assert_allclose(
        again.score(rows(p["answers"], network["queries"])), wanted, rtol=1e-4, atol=1e-4
    )


@both
def test_memory_and_device_change_nothing(network, name):
    queries = rows(network["answers"], network["queries"])
    wanted = fitted(get("supervisors", name).bind(), network).score(queries)
    wide = {k: np.tile(network[k], (40, 1)) for k in ("f", "z")}
    for options in ({"memory_mb": 1}, {"memory_mb": 1, "device": "cpu:0"}):
        found = fitted(get("supervisors", name).bind(**options), network, **wide).score(queries)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(2, 4), st.integers(2, 60))
def test_a_linear_layer_is_recovered_where_rows_determine_it_and_predicts_where_they_do_not(
    seed, width, classes, n
):
    rng = np.random.default_rng(seed)
    f, weights, bias = (
        rng.normal(size=(n, width)),
        rng.normal(size=(classes, width)),
        rng.normal(size=classes),
    )
    found = LinearLayer.fit(f, f @ weights.T + bias)
    np.testing.assert_allclose(f @ found.weights.T + found.bias, f @ weights.T + bias, atol=1e-5)
    if n > width + 3:
        np.testing.assert_allclose(found.weights, weights, atol=1e-5)
    moved = np.linalg.pinv(f - f.mean(axis=0)) @ (f - f.mean(axis=0)) @ weights.T  # of least norm
    np.testing.assert_allclose(found.weights, moved.T, atol=1e-4)
    assert found.residual < 1e-5


@both
def test_scores_ignore_rotations_of_the_activations_or_scale_that_the_layer_undoes(network, name):
    """ReAct cuts single activations, so it keeps its scores under a common scale; ViM under rotations too."""
    queries = rows(network["answers"], network["queries"])
    wanted = fitted(get("supervisors", name).bind(), network).score(queries)
    turn = (
        7 * np.linalg.qr(np.random.default_rng(0).normal(size=(WIDTH, WIDTH)))[0]
        if name == "vim"
        else 7.0
    )
    change = (lambda a: a @ turn) if name == "vim" else (lambda a: a * turn)
    moved = fitted(
        get("supervisors", name).bind(), network, f=change(network["f"].astype(np.float64))
    )
    found = moved.score(rows(network["answers"], change(network["queries"].astype(np.float64))))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@both
@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: np.concatenate([f, np.ones((len(f), 2), f.dtype)], axis=1),
        lambda f: np.concatenate([f, f], axis=1),
        lambda f: f.astype(np.float16),
        lambda f: f.reshape(len(f), 4, -1),
    ],
    ids=["constant", "copied", "float16", "spatial"],
)
def test_awkward_activations_give_finite_scores(network, name, spoil):
    supervisor = fitted(get("supervisors", name).bind(), network, f=spoil(network["f"]))
    assert np.isfinite(supervisor.score(rows(network["answers"], spoil(network["queries"])))).all()


@both
def test_few_rows_and_outputs_that_are_not_linear_are_said_or_refused(network, name):
    few = fitted(get("supervisors", name).bind(), network, f=network["f"][:15], z=network["z"][:15])
    assert "15 reference rows vary in 14 of 24 directions" in few.notes[0]
    dead = np.concatenate([network["f"], np.ones((len(network["f"]), 1))], axis=1)
    assert (
        "24 of 25 directions" in fitted(get("supervisors", name).bind(), network, f=dead).notes[0]
    )
    assert np.isfinite(few.score(rows(network["answers"], network["queries"]))).all()
    noise = np.random.default_rng(0).normal(size=network["z"].shape)
    bent = fitted(get("supervisors", name).bind(), network, z=network["z"] + 0.01 * noise)
    assert "not linear in the layer 'penultimate'" in bent.notes[0]
    with pytest.raises(
        ValueError,
        match=r"spread is not linear in the layer 'penultimate'; name the layer whose output",
    ):
        fitted(get("supervisors", name).bind(), network, z=noise)


def test_vim_without_a_residual_or_with_logits_below_zero_says_so(network):
    flat = np.concatenate([network["f"], np.zeros_like(network["f"])], axis=1)
    supervisor = fitted(VirtualLogit(dimension=30), network, f=flat)
    assert any("lie in 30 directions" in note for note in supervisor.notes)
    moved = flat + np.eye(48)[40] * 3
    still, far = (supervisor.score(rows(network["z"], a)) for a in (flat, moved))
    assert (far > still).all()
    below = fitted(VirtualLogit(), network, z=network["z"] - 100)
    assert "below zero" in below.notes[0]
    assert below._learned["alpha"] > 0


@both
def test_contract_misuse_and_what_does_not_apply(network, name):
    assert check("supervisors", name) == []
    assert "it reads class scores, and the module gives boxes" in get(
        "supervisors", name
    ).bind().applies_to(KINDS["boxes"])
    broken = network["f"].copy()
    broken[3, 2] = np.inf
    left = fitted(get("supervisors", name).bind(), network, f=broken)
    assert any("1 of 600 reference rows" in note for note in left.notes)
    with pytest.raises(ValueError, match="fitted on 24 activations a row"):
        fitted(get("supervisors", name).bind(), network).score(
            rows(network["answers"], network["queries"][:, :9])
        )


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("vim", {"dimension": 0}, "dimension is 0"),
        ("react", {"percentile": 0}, "percentile is 0"),
        ("react", {"temperature": -1}, "temperature is -1"),
    ],
)
def test_parameters_out_of_range_are_refused(name, parameters, says):
    with pytest.raises(ValueError, match=says):
        get("supervisors", name).bind(**parameters)


def test_vim_refuses_a_layer_that_is_not_wider_than_its_main_directions(network):
    with pytest.raises(ValueError, match="give a dimension below 24, or name a wider layer"):
        fitted(VirtualLogit(dimension=24), network)
