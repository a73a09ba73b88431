"""Passes through models that lay out their cases in any way, and through models that draw by themselves: each case as if alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sample_nets import SEED, N, ask, explicit, images, made, module_of, prepared
from scipy.special import softmax
from torch import nn

from roadworthy.data.values import BOXES, IMAGE
from roadworthy.subject.adapters.image_models import InputPreparation
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.adapters.torch_passes import Dropout, sites
from roadworthy.subject.module import Context
from roadworthy.subject.needs import Gradient, Layer, Passes
from roadworthy.subject.passes import Summary
from roadworthy.subject.system import Cases, single


class Mirrored(nn.Module):
    """The batch with its mirror images below it, as in augmentation at test time."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        both = torch.cat([x, x.flip(-1)]).flatten(1)
        return self.head(self.drop(torch.relu(self.first(both)))).unflatten(0, (2, -1)).mean(0)


class TokensMajor(nn.Module):
    """All cases of the first token, then all of the second: the case changes fastest."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        tokens = self.first(x[:, 0]).transpose(0, 1).reshape(-1, 16)
        return self.head(self.drop(tokens).unflatten(0, (8, -1)).mean(0))


class Looping(nn.Module):
    """One case after the other."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        return torch.stack(
            [self.head(self.drop(row)) for row in torch.relu(self.first(x.flatten(1)))]
        )


class Chosen(nn.Module):
    """As many rows of an image as its first pixel says, those of all images in one table."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        counts = [int(image[0, 0, 0] * 5.99) + 1 for image in x]
        rows = torch.cat([image[0, :count] for image, count in zip(x, counts, strict=True)])
        dropped = self.drop(torch.relu(self.first(rows))).split(counts)
        return self.head(torch.stack([d.mean(0) for d in dropped]))


LAYOUTS = (Mirrored, TokensMajor, Looping, Chosen)


@pytest.mark.parametrize("build", LAYOUTS)
def test_a_case_gets_the_masks_that_it_gets_alone(build):
    model, request = made(build), Passes("dropout", N)
    expected = np.concatenate(
        [
            explicit(model, prepared(12)[i : i + 1], N, axis=0, each=_size(model, i))
            for i in range(12)
        ],
        axis=1,
    )
    expected = Summary.of(softmax(expected.astype(np.float64), axis=2)).pack()
    for rows, size in (
        (np.arange(12), 256),
        (np.arange(12)[::-1], 5),
        (np.array([3]), 256),
        (np.array([7, 2]), 1),
    ):
        found = ask(module_of(model, batch_size=size), request, rows=rows, n=12).extras[request]
        np.testing.assert_allclose(found, expected[rows], atol=1e-6)


def _size(model, i):
    """How many rows the dropout gets for one case."""
    seen = []
    hook = model.drop.register_forward_hook(lambda layer, args, output: seen.append(len(output)))
    model(prepared(12)[i : i + 1])
    hook.remove()
    return seen[0]


@pytest.mark.parametrize("build", LAYOUTS)
def test_cases_that_do_not_lie_apart_are_not_passed_together(build):
    model = made(build)
    assert not Dropout(model, sites(model, None, None)).together(prepared(12))


class Detector(nn.Module):
    """Proposals by content, dropped in one table; some images have none."""

    def __init__(self, most=4):
        super().__init__()
        self.head, self.drop, self.most = nn.Linear(4, 4), nn.Dropout(0.3), most

    def forward(self, x):
        counts = [int(image[0, 0, 0] * self.most) for image in x]
        proposals = torch.cat(
            [image[0, :count, :4] for image, count in zip(x, counts, strict=True)]
        )
        found = self.drop(self.head(proposals)).abs().split(counts)
        boxes = [torch.cat([p[:, :2], p[:, :2] + p[:, 2:] + 0.1], 1) for p in found]
        return [
            {
                "boxes": b,
                "labels": torch.zeros(len(b), dtype=torch.long),
                "scores": torch.ones(len(b)),
            }
            for b in boxes
        ]


def test_neither_order_nor_batch_changes_the_passes_of_a_detector():
    request = Passes("dropout", 4, distance="iou")
    pictures = images(9)
    pictures[:, 0, 0] = [0, 70, 140, 200, 70, 0, 250, 140, 70]

    def asked(order, size):
        module = TorchModule(made(Detector), BOXES, InputPreparation(), batch_size=size)
        context = Context([str(i) for i in order], frozenset({request}), SEED, "model")
        return module.batch({"image": pictures[order]}, context)

    whole = asked(np.arange(9), 256)
    assert np.isfinite(whole.extras[request]).all()
    for order, size in ((np.arange(9)[::-1], 4), (np.array([6, 0, 3]), 2), (np.array([5, 1]), 256)):
        part = asked(order, size)
        np.testing.assert_allclose(part.extras[request], whole.extras[request][order], atol=1e-6)


def test_boxes_that_are_not_finite_in_a_pass_are_a_pass_that_failed():
    class Dividing(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            kept = self.drop(torch.ones(len(x), 8))
            one = {"labels": torch.zeros(1, dtype=torch.long), "scores": torch.ones(1)}
            return [{"boxes": torch.tensor([[0.0, 0, 2, 2]]) / k[0] * k[0], **one} for k in kept]

    request = Passes("dropout", 6, distance="iou")
    module = TorchModule(Dividing().eval(), BOXES, InputPreparation())
    found = ask(module, request).extras[request][0]
    failed = round(found[1] * 6)
    assert 0 < failed < 6
    np.testing.assert_allclose(found, [2 * failed * (6 - failed) / (6 * 5), failed / 6])


class Drawing(nn.Module):
    """It draws from torch's own generator, whatever its mode."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(
            self.drop(nn.functional.dropout(self.first(x.flatten(1)), 0.5, training=True))
        )


def test_a_model_that_draws_by_itself_draws_the_same_again_and_leaves_the_generator_alone():
    system = single(module_of(made(Drawing)), IMAGE)
    cases, other = (Cases(list("abcde"), images(), seed=seed) for seed in (1, 2))
    requests = {
        "model": frozenset({Passes("dropout", 5), Gradient("ones_input"), Layer("penultimate")})
    }
    before = torch.get_rng_state()
    first, again = system.run(cases, requests)["model"], system.run(cases, requests)["model"]
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.output, again.output)
    np.testing.assert_array_equal(first.output, system.run(cases)["model"].output)
    for name, column in first.columns.items():
        np.testing.assert_array_equal(column, again.columns[name])
    assert np.abs(system.run(other)["model"].output - first.output).max() > 1e-3


def test_columns_of_layers_do_not_take_each_others_names():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.max = nn.Conv2d(1, 4, 3), nn.Tanh()

        def forward(self, x):
            return self.max(self.conv(x)) * 5

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.out = Block(), nn.Linear(144, 3)

        def forward(self, x):
            return self.out(self.block(x).flatten(1))

    asked = [
        Layer("block", "max"),
        Layer("block.max"),
        Layer("block", "none"),
        Layer("block.max", "none"),
    ]
    system = single(module_of(made(Net)), IMAGE)
    cases = Cases(list("abcde"), images())
    together = system.run(cases, {"model": frozenset(asked)})["model"].columns
    assert len(together) == len({r.column for r in asked}) == 4
    for request in asked:
        alone = system.run(cases, {"model": frozenset({request})})["model"].columns[request.column]
        np.testing.assert_array_equal(together[request.column], alone)
