"""Norms of gradients against closed forms and against autograd, one case after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from roadworthy.data.values import BOXES, CLASS_SCORES, TASKS, VECTOR
from roadworthy.registry import get
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_gradients import DEFINITIONS, Gradients
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.module import Context
from roadworthy.subject.needs import Gradient, Input, Output
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import ModuleTrace

FASHION = Path(__file__).parents[2] / "examples" / "fashion"
NAMES = tuple(DEFINITIONS)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(144, 3),
    )


class Deciding(nn.Module):
    """What it computes depends on the numbers, which cannot be vectorised; it works in place on its input."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(64, 6), nn.Linear(64, 6), nn.Linear(6, 3)

    def forward(self, x):
        x -= 0.5
        x = x.flatten(1)
        hidden = torch.stack([self.left(r) if r.sum().item() > 0 else self.right(r) for r in x])
        return {"logits": self.head(hidden.tanh())}


class Probabilities(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = conv_net()

    def forward(self, x):
        return self.body(x).softmax(1), x


NETS = (conv_net, Deciding, Probabilities)


def made(build):
    torch.manual_seed(5)
    return build().eval()


def images(n=6):
    return np.random.default_rng(2).integers(0, 255, (n, 8, 8), dtype=np.uint8)


def module_of(model, kind=CLASS_SCORES, **more):
    return TorchModule(model, kind, InputPreparation(), **more)


def ask(module, *requests, n=6):
    return module.batch(
        {"image": images(n)}, Context([str(i) for i in range(n)], frozenset(requests))
    )


def loop(model, name, last):
    """Autograd, one case after the other, with losses as torch and the papers write them."""
    found = []
    for picture in images():
        x = torch.from_numpy(picture[None, None] / np.float32(255)).requires_grad_()
        raw = model(x + 0)
        raw = raw["logits"] if isinstance(raw, dict) else raw
        p = raw[0] if isinstance(raw, tuple) else raw.softmax(1)
        if name == "entropy_parameters":
            loss = torch.distributions.Categorical(probs=p).entropy().sum()
            grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
            found.append(
                np.sqrt(sum(float((g.double() ** 2).sum()) for g in grads if g is not None))
            )
        elif name == "ones_input":
            loss = nn.functional.cross_entropy(p.log(), torch.ones_like(p))
            found.append(float(torch.autograd.grad(loss, x)[0].double().norm()))
        else:
            uniform = torch.full_like(p, 1 / p.shape[1])
            loss = nn.functional.kl_div(p.log(), uniform, reduction="sum")
            found.append(
                float(torch.autograd.grad(loss, last(model).weight)[0].double().abs().sum())
            )
    return np.array(found)


def last_of(model):
    return [m for m in model.modules() if isinstance(m, nn.Linear)][-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("build", NETS)
def test_norms_are_those_of_autograd_case_by_case(build, name):
    model = made(build)
    module = module_of(model)
    found = ask(module, Gradient(name)).extras[Gradient(name)]
    assert found.dtype == np.float64 and found.shape == (6,)
    np.testing.assert_allclose(found, loop(model, name, last_of), rtol=2e-4)
    assert module.gradients.vectorised == (build is not Deciding or name == "ones_input")


@pytest.mark.parametrize("name", ["entropy_parameters", "uniform_last_layer"])
@pytest.mark.parametrize("build", [conv_net, Probabilities])
def test_vectorised_or_one_by_one_in_chunks_or_not_the_numbers_are_the_same(build, name):
    model = made(build)
    batch = torch.from_numpy(images()[:, None] / np.float32(255))
    head = next(n for n, p in model.named_parameters() if p is last_of(model).weight)
    whole = Gradients(model, head).norms(name, batch)
    chunked = Gradients(model, head, memory_mb=0).norms(name, batch)
    single = Gradients(model, head, vectorised=False).norms(name, batch)
    np.testing.assert_allclose(chunked, whole, rtol=1e-5)
    np.testing.assert_allclose(single, whole, rtol=1e-5)


def test_a_linear_model_has_closed_forms():
    model = made(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))
    requests = [Gradient(name) for name in NAMES]
    found = ask(module_of(model), *requests).extras
    f = images().reshape(6, -1) / 255
    w, b = (t.detach().numpy().astype(np.float64) for t in (model[1].weight, model[1].bias))
    p = softmax(f @ w.T + b, axis=1)
    entropy = -(p * np.log(p)).sum(axis=1, keepdims=True)
    by_logits = -p * (np.log(p) + entropy)
    expected = {
        "entropy_parameters": np.linalg.norm(by_logits, axis=1) * np.sqrt((f**2).sum(axis=1) + 1),
        "ones_input": np.linalg.norm((4 * p - 1) @ w, axis=1),
        "uniform_last_layer": np.abs(p - 1 / 4).sum(axis=1) * np.abs(f).sum(axis=1),
    }
    for request in requests:
        np.testing.assert_allclose(found[request], expected[request.definition], rtol=1e-4)


@pytest.mark.parametrize("build", NETS)
def test_asking_for_gradients_changes_neither_answers_nor_model(build):
    model = made(build)
    for p in model.parameters():
        p.requires_grad_(False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    plain = ask(module_of(model)).outputs["output"]
    asked = ask(module_of(model), Input(), *map(Gradient, NAMES))
    np.testing.assert_array_equal(asked.outputs["output"], plain)
    np.testing.assert_array_equal(asked.extras[Input()], images()[:, None] / np.float32(255))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None and not p.requires_grad for p in model.parameters())
    for name in NAMES:
        free = ask(module_of(made(build)), Gradient(name)).extras[Gradient(name)]
        np.testing.assert_allclose(asked.extras[Gradient(name)], free, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_neither_batches_nor_failed_company_change_a_row(name):
    class Poisoned(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = conv_net()

        def forward(self, x):
            return torch.where(x[:, 0, :1, :1].flatten(1) > 0.99, torch.nan, self.body(x))

    request, model = Gradient(name), made(Poisoned)
    whole = ask(module_of(model), request, n=9).extras[request]
    pieces = ask(module_of(model, batch_size=2), request, n=9).extras[request]
    np.testing.assert_allclose(pieces, whole, rtol=1e-5)
    pictures = images(9)
    pictures[:, 0, 0] = 10
    sound = (
        module_of(model)
        .batch({"image": pictures}, Context([""] * 9, frozenset({request})))
        .extras[request]
    )
    pictures[4, 0, 0] = 255
    mixed = (
        module_of(model)
        .batch({"image": pictures}, Context([""] * 9, frozenset({request})))
        .extras[request]
    )
    assert np.isnan(mixed).tolist() == [i == 4 for i in range(9)]
    np.testing.assert_allclose(np.delete(mixed, 4), np.delete(sound, 4), rtol=1e-5)


def test_offers_name_the_definitions_that_there_are():
    module = module_of(made(conv_net))
    assert [module.offers(Gradient(name)) for name in NAMES] == [None] * 3
    said = module.offers(Gradient("ones_inputs"))
    assert "did you mean 'ones_input'?" in said and all(name in said for name in NAMES)
    for kind in (VECTOR, BOXES):
        assert "one of class scores" in module_of(made(conv_net), kind).offers(
            Gradient("ones_input")
        )
    bare = module_of(nn.Sequential(nn.Flatten()))
    assert "no layer with any" in bare.offers(Gradient("entropy_parameters"))
    assert "the model has no layer with weights" in bare.offers(Gradient("uniform_last_layer"))
    assert bare.offers(Gradient("ones_input")) is None
    bytes_in = TorchModule(made(conv_net), CLASS_SCORES, InputPreparation(dtype="uint8"))
    assert "uint8, which has none" in bytes_in.offers(Gradient("ones_input"))
    assert bytes_in.offers(Gradient("entropy_parameters")) is None


def test_the_published_closed_form_is_the_gradient_of_the_fashion_classifier():
    bind = get("adapters", "torch").bind
    system = bind(
        path="model.py:build",
        base=FASHION,
        task=TASKS["classification"],
        weights="weights.safetensors",
        batch=16,
    )()
    pictures = np.random.default_rng(5).integers(0, 255, (24, 28, 28), dtype=np.uint8)
    supervisor = get("supervisors", "grad_norm").bind()
    needs = frozenset({*supervisor.needs, *map(Gradient, NAMES)}) - {Output()}
    trace: ModuleTrace = system.run(
        Cases([f"c{i}" for i in range(24)], pictures), {"model": needs}
    )["model"]
    np.testing.assert_allclose(
        -supervisor.score(trace), trace.columns["gradient.uniform_last_layer"], rtol=1e-3
    )
    assert all((trace.columns[f"gradient.{name}"] > 0).all() for name in NAMES)
