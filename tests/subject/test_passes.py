"""Passes with dropout against loops over explicit masks, and their summary against numpy and scipy."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sample_nets import (
    NETS,
    SEED,
    Counted,
    N,
    Nested,
    TokensFirst,
    Twice,
    Windows,
    ask,
    explicit,
    flat_net,
    made,
    module_of,
    prepared,
)
from scipy import stats
from scipy.special import softmax
from torch import nn

from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES, TASKS, VECTOR
from roadworthy.registry import get
from roadworthy.subject.adapters.image_models import InputPreparation, by_depth
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.adapters.torch_passes import Dropout, Site, sites
from roadworthy.subject.needs import Input, Layer, Passes
from roadworthy.subject.passes import Summary, reduced, variation
from roadworthy.subject.system import Cases

TRIED = [3, 1, 1, 1]
"""The sizes of the batches by which it is tried whether cases may be passed together."""
FASHION = Path(__file__).parents[2] / "examples" / "fashion"


@pytest.mark.parametrize("build", NETS)
def test_passes_are_those_of_a_loop_over_explicit_masks(build):
    model = made(build)
    axis, each = {TokensFirst: (1, 1), Windows: (0, 4)}.get(build, (0, 1))
    dropout = Dropout(model, sites(model, None, None))
    alone = build in (TokensFirst, Windows)
    assert dropout.together(prepared()) is not alone
    batches = prepared().split(1) if alone else [prepared()]
    parts = [list(dropout.passes(b, N, seed=SEED, module="model")) for b in batches]
    found = np.concatenate(
        [np.stack([(r["logits"] if isinstance(r, dict) else r).numpy() for r in p]) for p in parts],
        axis=1,
    )
    expected = explicit(model, prepared(), N, axis, each)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.abs(found - found[:1]).max() > 1e-3


@pytest.mark.parametrize("build", NETS)
def test_asking_for_passes_changes_neither_answers_nor_model(build):
    model = made(build)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    plain = ask(module_of(model)).outputs["output"]
    asked = ask(module_of(model), Passes("dropout", 3), Passes("dropout", 3, 0.1), Input())
    np.testing.assert_array_equal(asked.outputs["output"], plain)
    np.testing.assert_array_equal(ask(module_of(model)).outputs["output"], plain)
    np.testing.assert_array_equal(asked.extras[Input()], prepared().numpy())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not any(m.training or "forward" in vars(m) for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("build", [flat_net, Nested, TokensFirst, Windows])
def test_neither_batches_nor_order_nor_company_change_a_row(build):
    model, request = made(build), Passes("dropout", N)
    whole = ask(module_of(model), request, n=12).extras[request]
    order = np.random.default_rng(0).permutation(12)
    pieces = ask(module_of(model, batch_size=5), request, rows=order, n=12).extras[request]
    np.testing.assert_allclose(pieces, whole[order], atol=1e-6)
    alone = ask(module_of(model), request, rows=slice(3, 4), n=12).extras[request]
    np.testing.assert_allclose(alone, whole[3:4], atol=1e-6)


def test_masks_follow_the_seed_the_module_and_the_pass():
    model, request = made(flat_net), Passes("dropout", N)
    module = module_of(model)
    first = ask(module, request).extras[request]
    np.testing.assert_array_equal(ask(module, request).extras[request], first)
    assert np.abs(ask(module, request, seed=SEED + 1).extras[request] - first).max() > 1e-3
    dropout = Dropout(model, sites(model, None, None))
    runs = [
        list(dropout.passes(prepared(), n, seed=SEED, module=m))
        for n, m in ((3, "model"), (5, "model"), (3, "b"))
    ]
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=False)), (
        "more passes begin with the same ones"
    )
    assert not torch.equal(runs[0][0], runs[2][0])


def test_a_rate_that_is_given_replaces_the_layers_own():
    model, request = made(Twice), Passes("dropout", N, 0.2)
    expected = copy.deepcopy(model)
    expected.drop.p = 0.2
    probabilities = softmax(explicit(expected, prepared(), N).astype(np.float64), axis=2)
    np.testing.assert_allclose(
        ask(module_of(model), request).extras[request], Summary.of(probabilities).pack(), atol=1e-6
    )


def test_a_model_without_dropout_gets_it_before_its_last_layer():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = Counted(1, 4, 3)
            self.head = nn.Linear(144, 3)

        def forward(self, x):
            return self.head(input=self.conv(x).flatten(1))

    model, request = made(Plain), Passes("dropout", N, 0.1)
    module = module_of(model)
    found = ask(module, request)
    features = ask(module, Layer("conv", "none")).extras[Layer("conv", "none")]
    w, b = model.head.weight.detach().numpy(), model.head.bias.detach().numpy()
    masks = [
        generator(SEED, "model", "dropout", t, "head", 0).random((1, 144), dtype=np.float32) >= 0.1
        for t in range(N)
    ]
    logits = np.stack([(features * mask / 0.9) @ w.T + b for mask in masks])
    np.testing.assert_allclose(
        found.extras[request], Summary.of(softmax(logits, axis=2)).pack(), atol=1e-6
    )
    np.testing.assert_allclose(found.outputs["output"], features @ w.T + b, atol=1e-5)
    model.conv.runs.clear()
    ask(module, request)
    assert model.conv.runs == [5, *TRIED, 5]


def test_dropout_keeps_the_mean():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(1, 400_000)).astype(np.float32))
    kept = rng.random((1, 400_000)) >= 0.3
    usual = Site("drop", None, 0.3).dropped(values + 1, kept)
    assert usual.mean().item() == pytest.approx(1, abs=0.01)
    assert (usual == 0).float().mean().item() == pytest.approx(0.3, abs=0.005)


def test_offers_say_what_is_missing_and_what_to_do():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            return self.head(nn.functional.dropout(x.flatten(1), 0.5, self.training))

    without = module_of(made(Functional))
    assert "no dropout layer" in without.offers(Passes("dropout", 10))
    assert "give a rate, such as 0.1" in without.offers(Passes("dropout", 10))
    assert without.offers(Passes("dropout", 10, 0.1)) is None
    silent = module_of(made(lambda: nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(64, 3))))
    assert "no dropout layer that drops anything" in silent.offers(Passes("dropout", 10))
    assert silent.offers(Passes("dropout", 10, 0.5)) is None
    bare = module_of(made(lambda: nn.Sequential(nn.Flatten())))
    assert "the model has no layer with weights" in bare.offers(Passes("dropout", 10, 0.1))
    assert "ensemble was asked for" in without.offers(Passes("ensemble", 0))
    assert "one at least" in without.offers(Passes("dropout", 0, 0.1))
    assert "between 0 and 1" in without.offers(Passes("dropout", 10, 1.5))
    steering = TorchModule(made(flat_net), VECTOR, InputPreparation())
    assert "ask with a distance" in steering.offers(Passes("dropout", 10))
    assert steering.offers(Passes("dropout", 10, distance="auto")) is None
    assert "nonsense" in steering.offers(Passes("dropout", 10, distance="nonsense"))


def test_dropout_that_the_model_never_calls_says_nothing_about_a_case():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            return self.head(x.flatten(1))

    module, request = module_of(made(Unused)), Passes("dropout", 3)
    assert "does not call drop in its forward pass" in module.offers(request)
    with pytest.warns(UserWarning, match="does not call drop in its forward pass"):
        answers = ask(module, request)
    assert np.isnan(answers.extras[request]).all() and answers.extras[request].shape == (5, 7)
    np.testing.assert_array_equal(answers.outputs["output"], ask(module).outputs["output"])


@pytest.mark.parametrize("kind", [CLASS_SCORES, VECTOR])
def test_with_a_distance_the_passes_are_compared(kind):
    model = made(Twice)
    module = TorchModule(model, kind, InputPreparation())
    request = Passes("dropout", N, distance="auto")
    requests = [request, *([Passes("dropout", N)] if kind is CLASS_SCORES else [])]
    found = ask(module, *requests)
    raw = explicit(model, prepared(), N)
    np.testing.assert_allclose(
        found.extras[request],
        variation("auto", kind, found.outputs["output"], list(raw)),
        atol=1e-5,
    )
    for other in requests[1:]:
        np.testing.assert_allclose(found.extras[other], reduced(other, kind, None, raw), atol=1e-6)


def test_a_broken_comparison_leaves_the_model_as_it_was(monkeypatch):
    model, request = made(flat_net), Passes("dropout", N)
    module = module_of(model)
    plain = ask(module, request).outputs["output"]

    def broken(*arguments):
        next(iter(arguments[3]))
        raise ValueError("broken")

    monkeypatch.setattr("roadworthy.subject.adapters.torch_model.reduced", broken)
    with pytest.warns(UserWarning, match="broken"):
        assert np.isnan(ask(module, request).extras[request]).all()
    assert not any("forward" in vars(m) or m._forward_hooks for m in model.modules())
    np.testing.assert_array_equal(ask(module).outputs["output"], plain)


def test_layers_by_depth_are_the_outputs_of_layers_with_weights():
    model = made(flat_net)
    module = module_of(model)
    asked = [Layer("early"), Layer("middle"), Layer("late")]
    found = ask(module, *asked).extras
    with torch.no_grad():
        first = model[0](prepared())
        middle = model[5](model[3](model[2](torch.relu(first))))
        last = model[8](torch.relu(middle))
    # The layers after the first and after the middle one work in place on what these gave.
    for request, expected in zip(asked, (first.mean((2, 3)), middle, last), strict=True):
        np.testing.assert_allclose(found[request], expected.numpy(), atol=1e-6)
    own = module_of(nn.Sequential(nn.Flatten(), nn.ModuleDict({"early": nn.Linear(2, 2)})["early"]))
    assert own.depths == {"early": "1", "middle": "1", "late": "1"}

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.early = nn.Linear(64, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.early(self.first(x.flatten(1)))

    named = module_of(made(Named))
    answers = ask(named, Layer("early"), Layer("late"))
    np.testing.assert_array_equal(answers.extras[Layer("early")], answers.outputs["output"])
    assert named.depths == {"middle": "first", "late": "early"}


@pytest.mark.parametrize(
    ("k", "places"),
    [(0, None), (1, (0, 0, 0)), (2, (0, 0, 1)), (3, (0, 1, 2)), (4, (0, 1, 2)), (16, (3, 7, 11))],
)
def test_depths_are_a_quarter_a_half_and_three_quarters_of_the_way(k, places):
    names = [f"layer{i}" for i in range(k)]
    assert tuple(by_depth(names).values()) == (
        () if places is None else tuple(names[i] for i in places)
    )


@settings(max_examples=50, deadline=None)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(2, 5)),
        elements=st.floats(-30, 30).map(lambda x: round(x, 3)),
    )
)
def test_a_summary_is_what_numpy_says_of_all_passes_at_once(logits):
    p = softmax(logits, axis=2)
    summary = Summary.of(iter(p))
    np.testing.assert_allclose(summary.mean_probability, p.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        summary.mean_entropy, stats.entropy(p, axis=2).mean(axis=0), atol=1e-12
    )
    votes = np.stack([np.bincount(row, minlength=p.shape[2]) for row in p.argmax(axis=2).T])
    np.testing.assert_array_equal(summary.votes, votes)
    again = Summary.unpack(summary.pack())
    for name in ("mean_probability", "mean_entropy", "votes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(summary, name))


def test_a_row_that_fails_in_one_pass_has_no_summary():
    passes = [
        np.array([[2.0, 0.0], [0.0, 1.0]]),
        np.array([[np.nan, 0.0], [0.0, np.inf]]),
        np.zeros((2, 2)),
    ]
    assert np.isnan(reduced(Passes("own", 3), CLASS_SCORES, None, passes)).all()
    whole = reduced(Passes("own", 1), CLASS_SCORES, None, passes[:1])
    np.testing.assert_allclose(whole[:, :2], [[0.880797, 0.119203], [0.0, 1.0]], atol=1e-6)


def test_what_cannot_be_summarised_is_refused_by_a_sentence():
    with pytest.raises(ValueError, match="without a pass"):
        Summary.of([])
    with pytest.raises(ValueError, match="shape"):
        Summary.of([np.ones((1, 2)), np.ones((1, 3))])
    with pytest.raises(ValueError, match="ask for them with a distance"):
        reduced(Passes("own", 2), VECTOR, None, [])


def test_passes_of_the_fashion_classifier_are_those_of_masks_on_its_last_layer():
    bind = get("adapters", "torch").bind
    system = bind(
        path="model.py:build",
        base=FASHION,
        task=TASKS["classification"],
        weights="weights.safetensors",
        batch=7,
    )()
    pictures = np.random.default_rng(5).integers(0, 255, (20, 28, 28), dtype=np.uint8)
    request, layer = Passes("dropout", 30), Layer("relu4")
    cases = Cases([f"c{i}" for i in range(20)], pictures, seed=4)
    columns = system.run(cases, {"model": frozenset({request, layer})})["model"].columns
    head = system.modules["model"].model.logits
    masks = [
        generator(4, "model", "dropout", t, "dropout", 0).random((1, 80), dtype=np.float32) >= 0.3
        for t in range(30)
    ]
    w, b = head.weight.detach().numpy(), head.bias.detach().numpy()
    logits = np.stack([(columns[layer.column] * mask / 0.7) @ w.T + b for mask in masks])
    expected = Summary.of(softmax(logits.astype(np.float64), axis=2))
    found = Summary.unpack(columns[request.column])
    np.testing.assert_allclose(found.mean_probability, expected.mean_probability, atol=1e-6)
    np.testing.assert_allclose(found.mean_entropy, expected.mean_entropy, atol=1e-5)
    np.testing.assert_array_equal(found.votes, expected.votes)


def test_listing_components_does_not_load_torch():
    code = "import sys; from roadworthy.registry import components; components('adapters'); print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
