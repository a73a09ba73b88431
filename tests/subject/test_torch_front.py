"""What a model computes before its first dropout is computed once, and never otherwise than in whole passes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_nets import (
    NETS,
    SEED,
    Collecting,
    Counted,
    N,
    Nested,
    Residual,
    ask,
    flat_net,
    made,
    module_of,
    prepared,
)
from torch import nn

from roadworthy.subject.adapters.torch_passes import Dropout, sites
from roadworthy.subject.needs import Passes


@pytest.mark.parametrize("build", NETS)
def test_the_front_is_remembered_wherever_that_changes_nothing(build):
    model = made(build)
    dropout = Dropout(model, sites(model, None, None))
    batch = prepared() if dropout.together(prepared()) else prepared(1)
    list(dropout.passes(batch, 2, seed=SEED, module="model"))
    (front,) = dropout._fronts.values()
    assert (front is None) == (build is Collecting)


class Program(nn.Module):
    """Steps that read, make and change tensors, in any order: what a person could write in a `forward`."""

    def __init__(self, steps):
        super().__init__()
        torch.manual_seed(0)
        self.steps = steps
        self.linear = nn.ModuleList(
            [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))]
        )
        self.change = nn.ReLU(inplace=True)
        self.same = nn.Identity()
        self.drop = nn.Dropout(0.5)
        self.chain = nn.Sequential(
            nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)
        )

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
        return self.drop(torch.stack(seen, 1)).sum(1)


STEPS = st.sampled_from(
    ["linear", "relu", "same", "drop", "chain", "sum", "add", "view", "part", "tanh"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_remembering_the_front_is_running_it_whatever_the_model_does(steps):
    model = Program(steps).eval()
    dropout = Dropout(model, sites(model, None, None))
    batch = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32))
    whole = list(dropout._passes(batch, 5, None, seed=1, module="m"))
    again = list(dropout.passes(batch, 5, seed=1, module="m"))
    for one, other in zip(whole, again, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("build", "after"),
    [(flat_net, "5"), (Residual, "head"), (Nested, "block.after")],
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
    assert all(m.runs == [5, 3, 1, 1, 1, 5] for m in front), (
        "once for the answer, once on three cases, once for all passes"
    )
    assert counts["after"] == 1 + 4 + N
