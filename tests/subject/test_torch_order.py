"""Which layer is the last one, whatever a model defines; and requests that cannot be met, which cost no answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sample_nets import N, ask, explicit, images, made, module_of, prepared
from scipy.special import softmax
from torch import nn

from roadworthy.data.seeds import generator
from roadworthy.data.values import IMAGE
from roadworthy.registry import get
from roadworthy.subject.needs import Gradient, Layer, Passes
from roadworthy.subject.passes import Summary
from roadworthy.subject.system import Cases, single

PENULTIMATE = Layer("penultimate")


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(64, 16), nn.Linear(16, 3)

    def features(self, x):
        return torch.relu(self.first(x.flatten(1)))

    def forward(self, x):
        return self.out(self.features(x))


class HeadFirst(Plain):
    def __init__(self):
        super().__init__()
        self.out, self.first = nn.Linear(16, 3), nn.Linear(64, 16)
        self._modules = {"out": self._modules["out"], "first": self._modules["first"]}


class Auxiliary(Plain):
    def __init__(self):
        super().__init__()
        self.auxiliary = nn.Linear(16, 3)

    def forward(self, x):
        h = self.features(x)
        return (self.out(h), self.auxiliary(h)) if self.training else self.out(h)


class AuxiliaryToo(Auxiliary):
    """It calls the other head last, and answers without it."""

    def forward(self, x):
        h = self.features(x)
        return self.out(h), self.auxiliary(h)


class Named(Plain):
    def forward(self, x):
        return self.out(input=self.features(x))


class Attending(Plain):
    """The projection inside the attention is defined last and never called."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def features(self, x):
        h = super().features(x)[:, None]
        return self.attention(h, h, h)[0][:, 0]


class Spectral(Plain):
    def __init__(self):
        super().__init__()
        nn.utils.parametrizations.spectral_norm(self.out)


class WeightNorm(Plain):
    def __init__(self):
        super().__init__()
        nn.utils.parametrizations.weight_norm(self.out)


class Scaled(Plain):
    """A scale and a bias of each class are no layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, 3) * 2)

    def forward(self, x):
        return self.out(self.features(x)) * self.scale


HEADS = (Plain, HeadFirst, Auxiliary, AuxiliaryToo, Named, Attending, Spectral, WeightNorm, Scaled)


@pytest.mark.parametrize("build", HEADS)
def test_the_penultimate_activation_is_what_goes_into_the_last_layer_that_counts(build):
    model = made(build)
    module = module_of(model)
    assert module.offers(PENULTIMATE) is None
    with torch.no_grad():
        expected = model.features(prepared()).numpy()
    np.testing.assert_allclose(ask(module, PENULTIMATE).extras[PENULTIMATE], expected, atol=1e-6)
    assert module.depths == {"early": "first", "middle": "first", "late": "out"}


@pytest.mark.parametrize("build", [HeadFirst, Auxiliary, AuxiliaryToo, Spectral])
def test_injected_dropout_lies_before_it(build):
    model, request = made(build), Passes("dropout", N, 0.1)
    found = ask(module_of(model), request).extras[request]
    with torch.no_grad():
        h = model.features(prepared())
        masks = [
            generator(11, "model", "dropout", t, "out", 0).random((1, 16), dtype=np.float32) >= 0.1
            for t in range(N)
        ]
        scores = np.stack(
            [model.out(h * torch.from_numpy(mask / np.float32(0.9))).numpy() for mask in masks]
        )
    np.testing.assert_allclose(
        found, Summary.of(softmax(scores.astype(np.float64), axis=2)).pack(), atol=1e-6
    )


@pytest.mark.parametrize("build", [HeadFirst, Auxiliary, AuxiliaryToo, Attending])
def test_the_last_gradient_is_that_of_its_weights(build):
    model, request = made(build), Gradient("uniform_last_layer")
    with torch.no_grad():
        h = model.features(prepared())
        p = model.out(h).softmax(1)
    expected = ((p - 1 / 3).abs().sum(1) * h.abs().sum(1)).numpy()
    np.testing.assert_allclose(ask(module_of(model), request).extras[request], expected, rtol=1e-4)


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.prototypes = nn.Linear(64, 16), nn.Parameter(torch.randn(3, 16))

    def forward(self, x):
        directions = nn.functional.normalize(self.prototypes)
        return nn.functional.linear(nn.functional.normalize(self.first(x.flatten(1))), directions)


def test_a_head_that_is_no_layer_is_not_mistaken_for_the_layer_before_it():
    module = module_of(made(Cosine))
    for request in (PENULTIMATE, Passes("dropout", 3, 0.1), Gradient("uniform_last_layer")):
        assert "uses weights in a function of its own" in module.offers(request)
    answers = _quiet(module, PENULTIMATE)
    assert np.isnan(answers.extras[PENULTIMATE]).all()
    assert module.offers(Layer("first")) is None


def test_layers_that_the_model_does_not_call_are_not_offered():
    module = module_of(made(Auxiliary))
    assert "does not call its layer 'auxiliary'" in module.offers(Layer("auxiliary"))
    answers = _quiet(module, Layer("auxiliary"))
    assert np.isnan(answers.extras[Layer("auxiliary")]).all()


def test_what_goes_into_the_head_is_kept_before_the_model_changes_it():
    class Later(Plain):
        def forward(self, x):
            h = self.features(x)
            scores = self.out(h)
            h.zero_()
            return scores

    model = made(Later)
    found = ask(module_of(model), PENULTIMATE).extras[PENULTIMATE]
    with torch.no_grad():
        np.testing.assert_allclose(found, model.features(prepared()).numpy(), atol=1e-6)


class Frozen(Plain):
    def forward(self, x):
        with torch.no_grad():
            h = self.features(x)
        return self.out(h)


class NoGradients(Plain):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


class Raising(Plain):
    """Under some masks it raises, and never without them."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        h = self.drop(torch.ones(len(x), 2))
        if (h[:, 0] == 0).any() and (x[:, 0, 0, 0] > 0.5).any():
            raise ValueError("not under this mask")
        return self.out(self.features(x))


def scripted():
    return torch.jit.script(Plain().eval())


def quantised():
    return torch.ao.quantization.quantize_dynamic(Plain().eval(), {nn.Linear}, dtype=torch.qint8)


REQUESTS = (
    *(
        PENULTIMATE,
        Layer("early"),
        Layer("nowhere"),
        Passes("dropout", 3),
        Passes("dropout", 3, 0.1),
    ),
    *(Gradient(name) for name in ("ones_input", "entropy_parameters", "uniform_last_layer")),
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "build", [Frozen, NoGradients, Raising, scripted, quantised, Cosine, Auxiliary]
)
def test_no_request_changes_an_answer_or_fails_a_case(build):
    model = made(build)
    cases = Cases(list("abcde"), images())
    plain = single(module_of(model), IMAGE).run(cases)["model"]
    assert plain.ok.all()
    for request in REQUESTS:
        module = module_of(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = single(module, IMAGE).run(cases, {"model": frozenset({request})})["model"]
        assert found.error.tolist() == [None] * 5
        np.testing.assert_array_equal(found.output, plain.output)
        assert len(found.columns[request.column]) == 5
        if module.offers(request) is not None:
            assert np.isnan(found.columns[request.column]).all()


@pytest.mark.parametrize(
    ("build", "name"),
    [(Frozen, "ones_input"), (NoGradients, "ones_input"), (NoGradients, "entropy_parameters")],
)
def test_a_gradient_that_does_not_exist_is_not_zero(build, name):
    module = module_of(made(build))
    with pytest.warns(UserWarning, match="cuts gradients off"):
        assert np.isnan(ask(module, Gradient(name)).extras[Gradient(name)]).all()


def test_only_the_cases_that_fail_under_a_mask_have_no_passes():
    request = Passes("dropout", 9)
    pictures = images()
    bright = pictures[:, 0, 0] > 127
    assert 0 < bright.sum() < 5
    found = _quiet(module_of(made(Raising)), request).extras[request]
    assert np.isnan(found).all(axis=1).tolist() == bright.tolist()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_quantised_model_has_a_fingerprint_and_a_last_layer():
    one, other = made(quantised), made(quantised)
    assert module_of(one).fingerprint == module_of(other).fingerprint
    torch.manual_seed(9)
    assert module_of(quantised()).fingerprint != module_of(one).fingerprint
    found = ask(module_of(one), PENULTIMATE).extras[PENULTIMATE]
    with torch.no_grad():
        np.testing.assert_allclose(found, one.features(prepared()).numpy(), atol=1e-6)


def test_the_published_closed_form_holds_of_a_parametrised_head():
    model, score = made(Spectral), get("supervisors", "grad_norm").bind()
    trace = single(module_of(model), IMAGE).run(
        Cases(list("abcde"), images()), {"model": frozenset({PENULTIMATE})}
    )
    with torch.no_grad():
        h = model.features(prepared())
    weights = model.out.weight.detach().requires_grad_()
    expected = []
    for row in h:
        loss = -(row @ weights.T + model.out.bias.detach()).log_softmax(0).mean()
        expected.append(float(torch.autograd.grad(loss, weights)[0].abs().sum()))
    np.testing.assert_allclose(-score.score(trace["model"]), expected, rtol=1e-4)


def test_explicit_masks_on_own_dropout_are_not_touched_by_the_order():
    class Dropping(HeadFirst):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.out(self.drop(self.features(x)))

    model, request = made(Dropping), Passes("dropout", N)
    expected = Summary.of(softmax(explicit(model, prepared(), N).astype(np.float64), axis=2)).pack()
    np.testing.assert_allclose(ask(module_of(model), request).extras[request], expected, atol=1e-6)


def _quiet(module, *requests):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ask(module, *requests)
