"""Passes with dropout against loops over explicit masks, and their summary against numpy and scipy."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import softmax
from torch import nn

from roadworthy.data.seeds import generator
from roadworthy.data.values import CLASS_SCORES, TASKS, VECTOR
from roadworthy.registry import get
from roadworthy.subject.adapters.depths import by_depth
from roadworthy.subject.adapters.preparation import InputPreparation
from roadworthy.subject.adapters.torch_front import Front
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.adapters.torch_passes import Dropout, Site, sites
from roadworthy.subject.module import Context, SubjectError
from roadworthy.subject.needs import Input, Layer, Passes
from roadworthy.subject.passes import Summary, reduced
from roadworthy.subject.system import Cases
from roadworthy.subject.variation import variation

FASHION = Path(__file__).parents[2] / "examples" / "fashion"
SEED, N = 11, 7


class Counted(nn.Conv2d):
    """A convolution that counts how often it is run, and on how many images."""

    def forward(self, x):
        runs = self.__dict__.setdefault("runs", [])
        runs.append(len(x))
        return super().forward(x)


def flat_net():
    return nn.Sequential(
        Counted(1, 4, 3),
        nn.ReLU(inplace=True),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(144, 8),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(8, 3),
    )


class Residual(nn.Module):
    """Blocks of which each changes what the other gave in place; functions between them; dropout at the end."""

    def __init__(self):
        super().__init__()
        self.conv = Counted(1, 4, 3, padding=1)
        self.block = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(inplace=True), Counted(4, 4, 3, padding=1))
        self.drop = nn.Dropout(0.4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = self.conv(x)
        doubled = y * 2
        nn.functional.relu(y, inplace=True)
        z = self.block(y)
        z += y
        z[:, 0] = doubled[:, 0]
        return self.head(self.drop(torch.relu(z).mean((2, 3))))


class Twice(nn.Module):
    """One layer called before and after the dropout, which is called twice itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.mix = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = self.mix(self.first(x.flatten(1)))
        h = self.mix(self.drop(h.tanh()))
        return self.head(self.drop(h))


class Nested(nn.Module):
    """Dropout of whole channels inside a block, after one that holds none; an answer with a name."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before = nn.Sequential(Counted(4, 4, 3), nn.ReLU(inplace=True))
            self.inner = nn.ModuleDict({"drop": nn.Dropout2d(0.5)})
            self.after = nn.Conv2d(4, 4, 3)

        def forward(self, x):
            return self.after(self.inner["drop"](self.before(x))) + x[:, :, 2:-2, 2:-2]

    def __init__(self):
        super().__init__()
        self.stem = Counted(1, 4, 3)
        self.block = Nested.Block()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return {"logits": self.head(self.block(self.stem(x).relu_()).amax((2, 3)))}


class InputChanged(nn.Module):
    """It centres the images in place, and drops in place."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5, inplace=True)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        x.sub_(0.5)
        flat = x.flatten(1)
        self.drop(flat)
        return self.head(flat)


class Collecting(nn.Module):
    """Its front leaves something behind in another place than its answer."""

    class Leaving(nn.Module):
        def forward(self, x):
            self.left = getattr(self, "left", [])
            self.left.append(x.flatten(1))
            return x.flatten(1) * 2

    def __init__(self):
        super().__init__()
        self.front = Collecting.Leaving()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        h = self.front(x)
        left = self.front.left
        self.front.left = []
        return self.head(self.drop(h) + left[0])


class Windows(nn.Module):
    """Four windows of each image are rows of their own while values are dropped."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        windows = x.unfold(2, 4, 4).unfold(3, 4, 4).reshape(-1, 16)
        return self.head(self.drop(windows)).unflatten(0, (-1, 4)).mean(1)


class TokensFirst(nn.Module):
    """The cases lie along the second axis, as torch's transformers have it by default."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x[:, 0].transpose(0, 1)).mean(0))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = Counted(1, 4, 3)
        self.alpha = nn.AlphaDropout(0.3)
        self.features = nn.FeatureAlphaDropout(0.3)
        self.head = nn.Linear(144, 3)

    def forward(self, x):
        return self.head(self.features(self.alpha(torch.selu(self.conv(x)))).flatten(1))


class ChangedLater(nn.Module):
    """After the dropout it changes what came before, by way of a view of it, and uses it again."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(inplace=True))
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = self.front(x)
        part = h[:, :4]
        dropped = self.drop(h)
        part.mul_(2)
        h += 1
        return self.head(dropped + h)


NETS = (flat_net, Residual, Twice, Nested, InputChanged, Collecting, Windows, TokensFirst, Scaled, ChangedLater)


class Masked(nn.Module):
    """An explicit mask in the place of a layer of dropout: the oracle."""

    def __init__(self, name, layer, number, axis, each):
        super().__init__()
        self.name, self.layer, self.number, self.axis, self.each, self.calls = name, layer, number, axis, each, 0

    def forward(self, x):
        rng = generator(SEED, "model", "dropout", self.number, self.name, self.calls)
        self.calls += 1
        rows = [x.shape[i] if i != self.axis else self.each for i in range(x.ndim)]
        if type(self.layer).__name__ in ("Dropout2d", "FeatureAlphaDropout"):
            rows[2:] = [1] * (len(rows) - 2)
        keep = torch.from_numpy(rng.random(rows, dtype=np.float32) >= self.layer.p)
        repeats = [x.shape[self.axis] // self.each if i == self.axis else 1 for i in range(x.ndim)]
        keep = keep.repeat(repeats).expand_as(x)
        if "Alpha" in type(self.layer).__name__:
            low, p = -1.7580993408473766, self.layer.p
            a = ((1 - p) * (1 + p * low**2)) ** -0.5
            return torch.where(keep, x, torch.full_like(x, low)) * a - a * p * low
        dropped = torch.where(keep, x / (1 - self.layer.p), torch.zeros_like(x))
        return x.copy_(dropped) if self.layer.inplace else dropped


def explicit(model, images, n, axis=0, each=1):
    """Whole passes, each by a copy of the model with masks in the place of its dropout."""
    outputs = []
    for number in range(n):
        changed = copy.deepcopy(model)
        for name, layer in list(changed.named_modules()):
            if isinstance(layer, nn.modules.dropout._DropoutNd):
                parent, _, own = name.rpartition(".")
                holder = changed.get_submodule(parent)
                masked = Masked(name, layer, number, axis, each)
                holder.__setitem__(own, masked) if isinstance(holder, nn.ModuleDict) else setattr(holder, own, masked)
        with torch.no_grad():
            raw = changed(images.clone())
        outputs.append((raw["logits"] if isinstance(raw, dict) else raw).numpy())
    return np.stack(outputs)


def made(build):
    torch.manual_seed(3)
    model = build().eval()
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
    return model


def images(n=5):
    return np.random.default_rng(1).integers(0, 250, (n, 8, 8), dtype=np.uint8)


def prepared(n=5):
    return torch.from_numpy(images(n)[:, None].astype(np.float32) / np.float32(255))


def module_of(model, **more):
    return TorchModule(model, CLASS_SCORES, InputPreparation(), **more)


def ask(module, *requests, rows=slice(None), seed=SEED, n=5):
    taken = images(n)[rows]
    return module.batch(
        {"image": taken}, Context(list(map(str, range(len(taken)))), frozenset(requests), seed, "model")
    )


@pytest.mark.parametrize("build", NETS)
def test_passes_are_those_of_a_loop_over_explicit_masks(build):
    model = made(build)
    axis, each = {TokensFirst: (1, 1), Windows: (0, 4)}.get(build, (0, 1))
    found = list(Dropout(model, sites(model, None, None)).passes(prepared(), N, seed=SEED, module="model"))
    found = np.stack([(raw["logits"] if isinstance(raw, dict) else raw).numpy() for raw in found])
    expected = explicit(model, prepared(), N, axis, each)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.abs(found - found[:1]).max() > 1e-3


@pytest.mark.parametrize("build", NETS)
def test_the_front_is_remembered_wherever_that_changes_nothing(build):
    model = made(build)
    dropout = Dropout(model, sites(model, None, None))
    list(dropout.passes(prepared(), 2, seed=SEED, module="model"))
    ((_, front),) = dropout._known.values()
    assert (front is None) == (build is Collecting)


class Program(nn.Module):
    """Steps that read, make and change tensors, in any order: what a person could write in a `forward`."""

    def __init__(self, steps):
        super().__init__()
        torch.manual_seed(0)
        self.steps = steps
        self.linear = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))])
        self.change = nn.ReLU(inplace=True)
        self.same = nn.Identity()
        self.drop = nn.Dropout(0.5)
        self.chain = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))

    def forward(self, x):
        seen = [x]
        for name, i, j in self.steps:
            one, other = seen[i % len(seen)], seen[j % len(seen)]
            step = {
                "linear": lambda one, other, j: self.linear[j % 2](one),
                "relu": lambda one, other, j: self.change(one),
                "same": lambda one, other, j: self.same(one),
                "drop": lambda one, other, j: self.drop(one),
                "chain": lambda one, other, j: self.chain(one),
                "sum": lambda one, other, j: one + other,
                "add": lambda one, other, j: one.add_(other.tanh()),
                "view": lambda one, other, j: one[:, :],
                "part": lambda one, other, j: (one[:, : 1 + j % 4].mul_(0.5), one)[1],
                "tanh": lambda one, other, j: torch.tanh(one),
            }[name]
            seen.append(step(one, other, j))
        return self.drop(torch.stack(seen)).sum(0)


STEPS = st.sampled_from(["linear", "relu", "same", "drop", "chain", "sum", "add", "view", "part", "tanh"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_remembering_the_front_is_running_it_whatever_the_model_does(steps):
    model = Program(steps).eval()
    dropout = Dropout(model, sites(model, None, None))
    batch = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32))
    front = Front(model, [site.layer for site in dropout.sites])
    rows = dropout._rows(batch)
    for start in (0, 10):
        whole = list(dropout._passes(batch, range(start, start + 5), rows, None, seed=1, module="m"))
        again = list(dropout._passes(batch, range(start, start + 5), rows, front, seed=1, module="m"))
        for one, other in zip(whole, again, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("build", "after"), [(flat_net, "5"), (Residual, "head"), (Nested, "block.after"), (Scaled, "head")]
)
def test_what_comes_before_the_first_dropout_is_run_once(build, after):
    model = made(build)
    module, request = module_of(model), Passes("dropout", N)
    ask(module, request)
    counts = Counter()
    layer = model.get_submodule(after)
    layer.register_forward_hook(lambda *_: counts.update(["after"]))
    front = [m for m in model.modules() if isinstance(m, Counted)]
    for m in front:
        m.runs.clear()
    ask(module, request)
    assert all(m.runs == [5, 5] for m in front), "once for the answer, once for all passes"
    assert counts["after"] == 1 + N


def test_functions_between_the_layers_are_not_run_again_either(monkeypatch):
    model = made(Residual)
    dropout = Dropout(model, sites(model, None, None))
    list(dropout.passes(prepared(), 1, seed=SEED, module="model"))
    run = []
    real = torch.relu
    monkeypatch.setattr(torch, "relu", lambda x: run.append(1) or real(x))
    list(dropout.passes(prepared(), N, seed=SEED, module="model"))
    assert len(run) == N, "the model's own code is run in each pass"
    run.clear()

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            run.append(func)
            return func(*args, **(kwargs or {}))

    with Seen():
        list(dropout.passes(prepared(), N, seed=SEED, module="model"))
    assert run.count(real) == 1, "but what it calls is computed once"


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
    runs = [list(dropout.passes(prepared(), n, seed=SEED, module=m)) for n, m in ((3, "model"), (5, "model"), (3, "b"))]
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
        generator(SEED, "model", "dropout", t, "head", 0).random((1, 144), dtype=np.float32) >= 0.1 for t in range(N)
    ]
    logits = np.stack([(features * mask / 0.9) @ w.T + b for mask in masks])
    np.testing.assert_allclose(found.extras[request], Summary.of(softmax(logits, axis=2)).pack(), atol=1e-6)
    np.testing.assert_allclose(found.outputs["output"], features @ w.T + b, atol=1e-5)
    model.conv.runs.clear()
    ask(module, request)
    assert model.conv.runs == [5, 5]


def test_dropout_keeps_the_mean_and_alpha_dropout_the_variance_too():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(1, 400_000)).astype(np.float32))
    kept = rng.random((1, 400_000)) >= 0.3
    usual = Site("drop", None, 0.3).dropped(values + 1, kept)
    assert usual.mean().item() == pytest.approx(1, abs=0.01)
    assert (usual == 0).float().mean().item() == pytest.approx(0.3, abs=0.005)
    scaled = Site("drop", None, 0.3, alpha=True).dropped(values, kept)
    assert scaled.mean().item() == pytest.approx(0, abs=0.01) and scaled.var().item() == pytest.approx(1, abs=0.01)


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
    assert "nor a layer with weights" in bare.offers(Passes("dropout", 10, 0.1))
    assert "ensemble was asked for" in without.offers(Passes("ensemble", 0))
    assert "one at least" in without.offers(Passes("dropout", 0, 0.1))
    assert "between 0 and 1" in without.offers(Passes("dropout", 10, 1.5))
    steering = TorchModule(made(flat_net), VECTOR, InputPreparation())
    assert "ask with a distance" in steering.offers(Passes("dropout", 10))
    assert steering.offers(Passes("dropout", 10, distance="auto")) is None
    assert "nonsense" in steering.offers(Passes("dropout", 10, distance="nonsense"))


def test_dropout_that_the_model_never_calls_is_an_error():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            return self.head(x.flatten(1))

    with pytest.raises(SubjectError, match="does not call drop in its forward pass"):
        ask(module_of(made(Unused)), Passes("dropout", 3))


@pytest.mark.parametrize("kind", [CLASS_SCORES, VECTOR])
def test_with_a_distance_the_passes_are_compared(kind):
    model = made(Twice)
    module = TorchModule(model, kind, InputPreparation())
    request = Passes("dropout", N, distance="auto")
    requests = [request, *([Passes("dropout", N)] if kind is CLASS_SCORES else [])]
    found = ask(module, *requests)
    raw = explicit(model, prepared(), N)
    np.testing.assert_allclose(
        found.extras[request], variation("auto", kind, found.outputs["output"], list(raw)), atol=1e-5
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
    with pytest.raises(ValueError, match="broken") as kept:
        ask(module, request)
    assert not any("forward" in vars(m) or m._forward_hooks for m in model.modules()), kept
    np.testing.assert_array_equal(ask(module).outputs["output"], plain)


def test_layers_by_depth_are_the_outputs_of_layers_with_weights():
    model = made(flat_net)
    module = module_of(model)
    asked = [Layer("early"), Layer("middle"), Layer("late"), Layer("penultimate")]
    found = ask(module, *asked, Layer("0"), Layer("5"), Layer("8")).extras
    np.testing.assert_array_equal(found[asked[0]], found[Layer("0")])
    np.testing.assert_array_equal(found[asked[2]], found[Layer("8")])
    # The layer after the fifth works in place on what it gives.
    np.testing.assert_array_equal(found[asked[1]], found[Layer("5")])
    assert found[asked[0]].shape == (5, 4)
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
    ("k", "places"), [(0, None), (1, (0, 0, 0)), (2, (0, 0, 1)), (3, (0, 1, 2)), (4, (0, 1, 2)), (16, (3, 7, 11))]
)
def test_depths_are_a_quarter_a_half_and_three_quarters_of_the_way(k, places):
    names = [f"layer{i}" for i in range(k)]
    assert tuple(by_depth(names).values()) == (() if places is None else tuple(names[i] for i in places))


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
    np.testing.assert_allclose(summary.mean_entropy, stats.entropy(p, axis=2).mean(axis=0), atol=1e-12)
    votes = np.stack([np.bincount(row, minlength=p.shape[2]) for row in p.argmax(axis=2).T])
    np.testing.assert_array_equal(summary.votes, votes)
    again = Summary.unpack(summary.pack())
    for name in ("mean_probability", "mean_entropy", "votes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(summary, name))


def test_a_row_that_fails_in_one_pass_has_no_summary():
    passes = [np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[np.nan, 0.0], [0.0, np.inf]]), np.zeros((2, 2))]
    assert np.isnan(reduced(Passes("own", 3), CLASS_SCORES, None, passes)).all()
    whole = reduced(Passes("own", 1), CLASS_SCORES, None, passes[:1])
    np.testing.assert_allclose(whole[:, :2], [[0.880797, 0.119203], [0.0, 1.0]], atol=1e-6)


def test_what_cannot_be_summarised_is_refused_by_a_sentence():
    with pytest.raises(ValueError, match="without a pass"):
        Summary.of([])
    with pytest.raises(ValueError, match=r"shape \(1, 3\); \(1, 2\) was expected"):
        Summary.of([np.ones((1, 2)), np.ones((1, 3))])
    with pytest.raises(ValueError, match=r"\(n, 2C \+ 1\)"):
        Summary.unpack(np.ones((2, 4)))
    with pytest.raises(ValueError, match="ask for them with a distance"):
        reduced(Passes("own", 2), VECTOR, None, [])


def test_passes_of_the_fashion_classifier_are_those_of_masks_on_its_last_layer():
    bind = get("adapters", "torch").bind
    system = bind(
        path="model.py:build", base=FASHION, task=TASKS["classification"], weights="weights.safetensors", batch=7
    )()
    pictures = np.random.default_rng(5).integers(0, 255, (20, 28, 28), dtype=np.uint8)
    request, layer = Passes("dropout", 30), Layer("relu4")
    cases = Cases([f"c{i}" for i in range(20)], pictures, seed=4)
    columns = system.run(cases, {"model": frozenset({request, layer})})["model"].columns
    head = system.modules["model"].model.logits
    masks = [
        generator(4, "model", "dropout", t, "dropout", 0).random((1, 80), dtype=np.float32) >= 0.3 for t in range(30)
    ]
    w, b = head.weight.detach().numpy(), head.bias.detach().numpy()
    logits = np.stack([(columns[layer.column] * mask / 0.7) @ w.T + b for mask in masks])
    expected = Summary.of(softmax(logits.astype(np.float64), axis=2))
    found = Summary.unpack(columns[request.column])
    np.testing.assert_allclose(found.mean_probability, expected.mean_probability, atol=1e-6)
    np.testing.assert_allclose(found.mean_entropy, expected.mean_entropy, atol=1e-5)
    np.testing.assert_array_equal(found.votes, expected.votes)


def test_listing_components_does_not_load_torch():
    import subprocess

    code = (
        "import sys; from roadworthy.registry import components; components('adapters'); print('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
