"""What a search reads of a torch classifier against its run, closed forms and finite differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from roadworthy.data.values import BOXES, CLASS_SCORES, IMAGE
from roadworthy.subject.adapters.ensemble import EnsembleModule
from roadworthy.subject.adapters.image_models import FULL_SCALE, InputPreparation
from roadworthy.subject.adapters.predictions import PredictionsModule
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.module import Context, SubjectError, function_module
from roadworthy.subject.system import System, single


class Net(nn.Module):
    """Weights of its own for every place; it works in place on its input, as some models do."""

    def __init__(self, shape, *, softmax=False, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(3)
        self.head = nn.Linear(int(np.prod(shape)), 4).to(dtype)
        self.softmax = softmax

    def forward(self, x):
        x -= 0.25
        scores = self.head(x.flatten(1).tanh())
        return scores.softmax(1) if self.softmax else scores


def module_of(model, prepare=None, kind=CLASS_SCORES):
    return TorchModule(model.eval(), kind, prepare or InputPreparation())


def stored(dtype, shape, n=5):
    white = FULL_SCALE.get(np.dtype(dtype).name, 1.0)
    images = np.random.default_rng(1).random((n, *shape)) * white
    return (np.rint(images) if white > 1 else images).astype(dtype), white


def answered(module, images):
    made = module.batch({"image": images}, Context([str(i) for i in range(len(images))]))
    return np.asarray(made.outputs["output"])


@settings(max_examples=80, deadline=None)
@given(
    dtype=st.sampled_from([np.uint8, np.uint16, np.float32]),
    depth=st.sampled_from([None, 1, 3]),
    scale=st.sampled_from([None, 127.5]),
    mean=st.sampled_from([None, 0.3, (0.1, 0.2, 0.3)]),
    std=st.sampled_from([None, 0.5]),
    layout=st.sampled_from(["nchw", "nhwc"]),
    channels=st.sampled_from([None, 3]),
    colour=st.sampled_from(["rgb", "bgr"]),
    made=st.sampled_from(["float32", "float64"]),
)
def test_scores_of_clean_images_are_the_answers_of_a_run(
    dtype, depth, scale, mean, std, layout, channels, colour, made
):
    seen = channels or depth or 1
    if isinstance(mean, tuple) and seen == 1:
        mean = 0.3
    prepare = InputPreparation(scale, mean, std, layout, channels, colour, made)
    module = module_of(Net((6, 5, seen), dtype=getattr(torch, made)), prepare)
    images, white = stored(dtype, (6, 5) if depth is None else (6, 5, depth))
    x = torch.from_numpy((images / white).astype(np.float32))
    kept = x.clone()
    scores = module.query(white=white).scores(x)
    np.testing.assert_allclose(scores.numpy(), answered(module, images), atol=1e-5)
    assert x.equal(kept)


def test_probabilities_become_their_logarithm_and_are_not_taken_for_logits():
    module, plain = (module_of(Net((6, 5), softmax=softmax)) for softmax in (True, False))
    images, _ = stored(np.uint8, (6, 5))
    x = torch.from_numpy(images / np.float32(255))
    scores = module.query().scores(x)
    np.testing.assert_allclose(scores.exp().numpy(), answered(module, images), atol=1e-6)

    def to_class_0(scores):
        return nn.functional.cross_entropy(
            scores, torch.zeros(5, dtype=torch.long), reduction="none"
        )

    by_probabilities = module.query().gradient(x, to_class_0)
    np.testing.assert_allclose(by_probabilities, plain.query().gradient(x, to_class_0), atol=1e-6)


def test_a_probability_of_0_has_a_finite_logarithm():
    module = module_of(nn.Sequential(nn.Flatten(), nn.Softmax(1)), InputPreparation(scale=0.001))
    scores = module.query(white=1).scores(torch.tensor([[[0.0, 1.0]]]))
    assert scores[0, 1] == 0 and -100 < float(scores[0, 0]) < -80


def test_the_gradient_is_that_of_finite_differences_row_by_row():
    module = module_of(
        Net((4, 3), dtype=torch.float64), InputPreparation(mean=0.5, std=0.3, dtype="float64")
    )
    query = module.query()
    x = torch.rand((3, 4, 3), dtype=torch.float64, generator=torch.manual_seed(0))

    def loss(scores):
        return scores.logsumexp(1) - scores[:, 2] ** 2

    found = query.gradient(x, loss)
    assert found.shape == x.shape
    for row, line, column in ((0, 0, 0), (1, 3, 1), (2, 2, 2)):
        step = torch.zeros_like(x)
        step[row, line, column] = 1e-5
        change = loss(query.scores(x + step)) - loss(query.scores(x - step))
        assert float(change[row]) / 2e-5 == pytest.approx(float(found[row, line, column]), rel=1e-5)
    np.testing.assert_allclose(query.gradient(x[1:2], loss)[0], found[1], atol=1e-12)


def test_several_losses_a_row_have_a_gradient_each():
    query = module_of(Net((4, 3))).query()
    x = torch.rand((3, 4, 3), generator=torch.manual_seed(0))
    every = query.gradient(x, lambda scores: scores)
    assert every.shape == (4, 3, 4, 3)
    for number in range(4):
        alone = query.gradient(x, lambda scores, number=number: scores[:, number])
        np.testing.assert_allclose(every[number], alone, atol=1e-7)


def test_the_model_stays_as_it_is():
    model = Net((4, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    x = torch.rand((3, 4, 3), generator=torch.manual_seed(0))
    drawn = torch.get_rng_state()
    query = module_of(model).query()
    query.gradient(x, lambda scores: scores[:, 0])
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters()) and not model.training
    assert not x.requires_grad and not query.scores(x).requires_grad
    assert torch.get_rng_state().equal(drawn)


class Cut(Net):
    def forward(self, x):
        return super().forward(x.clone()).detach()


def test_a_model_that_cuts_gradients_off_is_refused_when_it_is_asked():
    x = torch.rand((3, 4, 3))
    with pytest.raises(SubjectError, match="cuts gradients off"):
        module_of(Cut((4, 3))).query().gradient(x, lambda scores: scores[:, 0])


def test_images_that_have_no_gradient_to_the_model_are_refused():
    grey = module_of(Net((4, 3)), InputPreparation(channels=1)).query()
    with pytest.raises(SubjectError, match="rounds to grey"):
        grey.scores(torch.rand(2, 4, 3, 3))
    with pytest.raises(SubjectError, match=r"the shape \(2, 4, 3, 4\)"):
        grey.scores(torch.rand(2, 4, 3, 4))


def torch_modules():
    return [module_of(Net((4, 3))) for _ in range(2)]


def predictions():
    return PredictionsModule.__new__(PredictionsModule)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (module_of(Net((4, 3)), kind=BOXES), "the module gives boxes"),
        (module_of(Net((4, 3)), InputPreparation(dtype="uint8")), "the model takes uint8"),
        (EnsembleModule(tuple(torch_modules()), CLASS_SCORES), "one torch classifier"),
        (function_module(lambda image: image, outputs={"y": CLASS_SCORES}), "no gradients"),
        (predictions(), "no gradients"),
    ],
)
def test_what_gives_no_gradients_says_so(module, reason):
    assert reason in module.offers_query()
    system = single(module, IMAGE) if not isinstance(module, PredictionsModule) else None
    if system is not None:
        assert system.offers_query() == module.offers_query()


def test_a_system_is_queried_if_it_is_one_module():
    system = single(module_of(Net((4, 3))), IMAGE)
    assert system.offers_query() is None
    first, second = torch_modules()
    wires = {"a.image": "input", "b.image": "input"}
    pair = System({"a": first, "b": second}, wires, "b.output", IMAGE)
    assert "has 2 modules" in pair.offers_query()


def test_a_module_of_ones_own_that_says_nothing_gives_no_gradients():
    class Plain:
        inputs, outputs, batched, fingerprint = ("image",), {"y": CLASS_SCORES}, True, "1"

    assert (
        "no gradients" in System({"m": Plain()}, {"m.image": "input"}, "m.y", IMAGE).offers_query()
    )


def test_the_other_adapters_give_no_gradients():
    from roadworthy.subject.adapters.onnx_model import OnnxModule
    from roadworthy.subject.adapters.server import ServerModule

    for kind in (OnnxModule, ServerModule):
        assert "torch" in kind.offers_query(kind.__new__(kind))
    with pytest.raises(
        SubjectError, match="not applicable: the model takes uint8, which has no gradient"
    ):
        module_of(Net((4, 3)), InputPreparation(dtype="uint8")).query()


def test_the_example_network_answers_a_query_as_in_a_run():
    from roadworthy.data.loaders.bundled import bundled
    from roadworthy.data.values import TASKS
    from roadworthy.registry import get
    from roadworthy.subject.system import Cases

    base = Path(__file__).parents[2] / "examples" / "fashion"
    data = bundled(path="fashion-mnist", split="test", n=100)
    system = get("adapters", "torch").build(
        path="model.py:build",
        base=base,
        task=TASKS["classification"],
        weights="weights.safetensors",
    )
    ran = system.run(Cases(data.ids, data.inputs))["system"].output
    query = system.modules["model"].query()
    scores = query.scores(torch.from_numpy(data.inputs / np.float32(255)))
    np.testing.assert_allclose(scores.numpy(), ran, atol=1e-5)
