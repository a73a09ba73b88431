"""Searches along the gradient against closed forms of linear classifiers and a loop written from the papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from roadworthy import registry
from roadworthy.data.values import CLASS_SCORES
from roadworthy.search.gradient import answered_right, climbed
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule

SHAPE = (4, 5)
ATTACKS = {name: registry.get("attacks", name).build for name in ("fgsm", "bim", "pgd", "deepfool")}


def query_of(model):
    prepare = InputPreparation(dtype="float64")
    return TorchModule(model.double().eval(), CLASS_SCORES, prepare).query()


def linear(classes=3):
    torch.manual_seed(7)
    return nn.Sequential(nn.Flatten(), nn.Linear(20, classes))


def curved():
    torch.manual_seed(8)
    return nn.Sequential(nn.Flatten(), nn.Linear(20, 12), nn.Tanh(), nn.Linear(12, 4))


def pictures(n=8, low=0.0, high=1.0, seed=0):
    drawn = np.random.default_rng(seed).uniform(low, high, (n, *SHAPE))
    return torch.from_numpy(drawn)


def generators(n=8):
    return [np.random.default_rng(row) for row in range(n)]


def by_cross_entropy(model, image, label, start, *, epsilon, norm, step, steps):
    """One image after the other, in numpy but for the gradient: clip, then project (Madry et al. 2017)."""
    made = start.copy()
    for _ in range(steps):
        x = torch.from_numpy(made[None]).requires_grad_()
        loss = nn.functional.cross_entropy(model(x), torch.tensor([label]))
        gradient = torch.autograd.grad(loss, x)[0][0].numpy()
        if norm == "linf":
            made = np.clip(made + step * np.sign(gradient), 0, 1)
            made = image + np.clip(made - image, -epsilon, epsilon)
        else:
            made = np.clip(made + step * gradient / np.sqrt((gradient**2).sum()), 0, 1)
            length = np.sqrt(((made - image) ** 2).sum())
            made = image + (made - image) * min(1.0, epsilon / length)
    return made


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(("steps", "share"), [(1, 1.0), (7, 0.3)])
def test_steps_are_those_of_the_cross_entropy_image_by_image(norm, steps, share):
    model, images = curved(), pictures()
    query, labels = query_of(model), [0, 1, 2, 3, 0, 1, 2, 3]
    epsilon = 0.1 if norm == "linf" else 0.5
    parameters = {"epsilon": epsilon, "norm": norm, "step": share * epsilon, "steps": steps}
    found = climbed(images, labels, query, **parameters)
    for row, label in enumerate(labels):
        image = images[row].numpy()
        wanted = by_cross_entropy(model, image, label, image, **parameters)
        np.testing.assert_allclose(found[row].numpy(), wanted, atol=1e-9)


def test_one_step_moves_every_pixel_of_a_linear_classifier_by_the_sign_of_its_weight():
    model, images = linear(2), pictures(low=0.3, high=0.7)
    made = ATTACKS["fgsm"](images, [0] * 8, query_of(model), (), epsilon=0.05)
    weights = (model[1].weight[1] - model[1].weight[0]).detach().reshape(SHAPE)
    np.testing.assert_allclose(made, images + 0.05 * weights.sign(), atol=1e-9)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_small_gradients_of_sure_answers_make_whole_steps(norm):
    """Squares of such gradients are no float32, and a constant beside the norm would swallow them."""
    images = pictures(low=0.3, high=0.7).float()
    model = linear(2)
    with torch.no_grad():
        model[1].bias += torch.tensor([60.0, 0.0])
    query = TorchModule(model.eval(), CLASS_SCORES, InputPreparation()).query()
    made = ATTACKS["fgsm"](images, [0] * 8, query, (), epsilon=0.2, norm=norm)
    moved = (made - images).flatten(1)
    size = moved.abs().amax(1) if norm == "linf" else moved.norm(dim=1)
    np.testing.assert_allclose(size, 0.2, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["fgsm", "bim", "pgd"]),
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(1e-3, 3.0),
    seed=st.integers(0, 10),
)
def test_whatever_the_size_images_stay_in_the_ball_and_in_range(name, norm, epsilon, seed):
    images = pictures(seed=seed).float()
    made = ATTACKS[name](
        images, [seed % 4] * 8, query_of(curved()), generators(), epsilon=epsilon, norm=norm
    )
    moved = (made - images).flatten(1)
    size = moved.abs().amax(1) if norm == "linf" else moved.norm(dim=1)
    assert float(size.max()) <= epsilon * (1 + 1e-5) + 1e-6
    assert float(made.min()) >= 0 and float(made.max()) <= 1


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_random_start_is_uniform_in_the_ball(norm):
    n = 2000
    images = torch.full((n, 1, 3), 0.5, dtype=torch.float64)
    start = climbed(
        images, [0] * n, None, epsilon=0.4, norm=norm, step=0, steps=0, rngs=generators(n)
    )
    moved = ((start - images) / 0.4).reshape(n, 3).numpy()
    if norm == "linf":
        assert stats.kstest(moved.ravel(), stats.uniform(-1, 2).cdf).pvalue > 1e-3
        return
    radius = np.linalg.norm(moved, axis=1)
    assert stats.kstest(radius**3, stats.uniform.cdf).pvalue > 1e-3
    # Of a uniform direction in three dimensions each coordinate is uniform.
    assert stats.kstest((moved / radius[:, None])[:, 0], stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_a_start_depends_on_its_own_generator_alone():
    images, query = pictures(), query_of(curved())
    made = ATTACKS["pgd"](images, [0] * 8, query, generators(), epsilon=0.1)
    alone = ATTACKS["pgd"](images[5:6], [0], query, generators()[5:6], epsilon=0.1)
    np.testing.assert_allclose(alone[0], made[5], atol=1e-9)
    other = ATTACKS["pgd"](images, [0] * 8, query, generators()[::-1], epsilon=0.1)
    assert not made.allclose(other)


def test_an_epsilon_for_each_row_is_as_if_it_were_alone():
    images, query = pictures(), query_of(curved())
    sizes = torch.linspace(0.02, 0.3, 8, dtype=torch.float64).reshape(8, 1, 1)
    for name in ("fgsm", "bim", "pgd"):
        for norm in ("linf", "l2"):
            made = ATTACKS[name](images, [1] * 8, query, generators(), epsilon=sizes, norm=norm)
            for row in range(8):
                alone = ATTACKS[name](
                    images[row : row + 1],
                    [1],
                    query,
                    generators()[row : row + 1],
                    epsilon=float(sizes[row, 0, 0]),
                    norm=norm,
                )
                np.testing.assert_allclose(alone[0], made[row], atol=1e-9)


@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("linf", 1)])
def test_deepfool_takes_the_shortest_way_out_of_a_linear_classifier(norm, dual):
    model, images = linear(5), pictures(low=0.4, high=0.6)
    query = query_of(model)
    scores, weights = query.scores(images).numpy(), model[1].weight.detach().numpy()
    labels = scores.argmax(1)
    made = ATTACKS["deepfool"](images, labels, query, (), norm=norm, overshoot=0.02)
    for row, label in enumerate(labels):
        others = [k for k in range(5) if k != label]
        ways = [
            (scores[row, label] - scores[row, k])
            / np.linalg.norm(weights[k] - weights[label], dual)
            for k in others
        ]
        moved = (made[row] - images[row]).numpy().ravel()
        size = np.linalg.norm(moved, 2 if norm == "l2" else np.inf)
        assert size == pytest.approx(1.02 * min(ways), rel=1e-6)
        assert int(query.scores(made[row : row + 1]).argmax()) == others[int(np.argmin(ways))]


def test_deepfool_leaves_wrong_answers_and_gives_up_after_its_steps():
    images, query = pictures(), query_of(curved())
    labels = query.scores(images).argmax(1)
    labels[:3] = (labels[:3] + 1) % 4
    made = ATTACKS["deepfool"](images, labels, query, ())
    assert made[:3].equal(images[:3]) and not answered_right(made, labels, query).any()
    assert ATTACKS["deepfool"](images, labels, query, (), steps=0).equal(images)


def test_deepfool_looks_at_as_many_classes_as_it_is_told():
    model, images = linear(5), pictures(low=0.4, high=0.6)
    query = query_of(model)
    labels = query.scores(images).argmax(1)
    runner_up = query.scores(images).topk(2, dim=1).indices[:, 1]
    made = ATTACKS["deepfool"](images, labels, query, (), classes=1)
    assert query.scores(made).argmax(1).equal(runner_up)


def test_a_row_without_a_gradient_stays():
    flat = nn.Sequential(nn.Flatten(), nn.Linear(20, 3))
    with torch.no_grad():
        flat[1].weight.zero_()
    images, query = pictures(), query_of(flat)
    labels = query.scores(images).argmax(1)
    for norm in ("linf", "l2"):
        assert ATTACKS["bim"](images, labels, query, (), epsilon=0.1, norm=norm).equal(images)
        assert ATTACKS["deepfool"](images, labels, query, (), norm=norm).equal(images)


def test_an_answer_of_nan_is_wrong():
    class Broken:
        def scores(self, x):
            return torch.tensor([[1.0, 0.0], [float("nan"), 0.0], [0.0, 1.0]])

    found = answered_right(pictures(3), torch.tensor([0, 0, 0]), Broken())
    assert found.tolist() == [True, False, False]


@pytest.mark.parametrize("name", ["fgsm", "bim", "pgd", "deepfool"])
def test_bad_arguments_are_refused_by_a_sentence(name):
    images, query = pictures(), query_of(curved())
    size = {} if name == "deepfool" else {"epsilon": 0.1}

    def attack(images=images, labels=(0,) * 8, **more):
        return ATTACKS[name](images, labels, query, generators(), **{**size, **more})

    with pytest.raises(ValueError, match="a label is 4, and the subject has the classes 0 to 3"):
        attack(labels=[4] + [0] * 7)
    for labels in ([-1] * 8, [0] * 7, [0.5] * 8):
        with pytest.raises(ValueError, match="8 class numbers from 0 were expected"):
            attack(labels=labels)
    for pixel in (float("nan"), 1.5, -0.1):
        spoilt = images.clone()
        spoilt[2, 0, 0] = pixel
        with pytest.raises(ValueError, match="pixels that are NaN or not from 0 to 1"):
            attack(spoilt)
    with pytest.raises(ValueError, match="norm must be one of"):
        attack(norm="l1")
    with pytest.raises(ValueError, match="there are no images"):
        attack(images[:0], labels=[])
    for epsilon in (0.0, -0.1, float("nan"), float("inf")) if size else ():
        with pytest.raises(ValueError, match=f"epsilon is {epsilon}; a finite number above 0"):
            attack(epsilon=epsilon)


def test_too_few_generators_are_refused():
    for few in (1, 3):
        with pytest.raises(ValueError, match="zip"):
            ATTACKS["pgd"](pictures(), [0] * 8, query_of(curved()), generators(few), epsilon=0.1)
