"""Supervisors of ensembles: the quantities by loops over members, and an assessment that trains its members first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roadworthy.data.values import CLASS_SCORES, VECTOR
from roadworthy.registry import get
from roadworthy.subject.needs import Output, Passes
from roadworthy.subject.passes import Summary
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.softmax import MaxSoftmax

NAMES = ("ensemble_mi", "ensemble_pe", "ensemble_ms")
MEMBERS = Passes("ensemble", 0)
weights = arrays(
    np.float64,
    st.tuples(st.integers(2, 6), st.integers(1, 5), st.integers(2, 5)),
    elements=st.floats(1e-3, 1),
)


def rows(p: np.ndarray, failed: tuple[int, ...] = ()) -> ModuleTrace:
    """A trace of (member, row, class) probabilities."""
    summary, n = Summary.of(p), p.shape[1]
    error = np.full(n, None, dtype=object)
    error[list(failed)] = "broke"
    columns = {MEMBERS.column: summary.pack()}
    return ModuleTrace(
        np.arange(n),
        np.zeros(n),
        error,
        np.zeros(n),
        CLASS_SCORES,
        summary.mean_probability,
        columns,
    )


def scores(p: np.ndarray, failed: tuple[int, ...] = ()) -> list[np.ndarray]:
    return [get("supervisors", name).bind().score(rows(p, failed)) for name in NAMES]


def entropy(p) -> float:
    return -sum(float(v) * math.log(v) for v in p if v > 0)


@settings(max_examples=50, deadline=None)
@given(weights)
def test_the_quantities_are_those_of_loops_over_the_members(raw):
    p = raw / raw.sum(axis=2, keepdims=True)
    mutual, predictive, softmax = scores(p)
    for i in range(p.shape[1]):
        mean = [sum(member[i][c] for member in p) / len(p) for c in range(p.shape[2])]
        # The mutual information by its other definition: the mean divergence of the members from their mean.
        apart = sum(
            sum(v * math.log(v / m) for v, m in zip(member[i], mean, strict=True)) for member in p
        ) / len(p)
        assert mutual[i] == pytest.approx(apart, abs=1e-9)
        assert predictive[i] == pytest.approx(entropy(mean), abs=1e-9)
        assert softmax[i] == pytest.approx(1 - max(mean), abs=1e-12)
        assert -1e-12 <= mutual[i] <= predictive[i] + 1e-9 and mutual[i] <= math.log(len(p)) + 1e-9


def test_members_that_agree_have_nothing_mutual_whatever_they_doubt():
    p = np.repeat(np.array([[[0.5, 0.5], [0.9, 0.1]]]), 4, axis=0)
    mutual, predictive, softmax = scores(p)
    np.testing.assert_allclose(mutual, 0, atol=1e-15)
    assert predictive[0] == pytest.approx(math.log(2)) and softmax.tolist() == pytest.approx(
        [0.5, 0.1]
    )


def test_the_mean_softmax_is_the_softmax_of_the_mean_answer():
    raw = np.random.default_rng(0).random((5, 20, 4))
    p = raw / raw.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(scores(p)[2], MaxSoftmax().score(rows(p)), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_each_asks_for_the_members_and_scores_only_class_scores(name):
    supervisor = get("supervisors", name).bind()
    assert set(supervisor.needs) == {Output(), MEMBERS} and not supervisor.fitted
    assert supervisor.applies_to(CLASS_SCORES) is None and "class scores" in supervisor.applies_to(
        VECTOR
    )
    p = np.full((2, 3, 2), 0.5)
    assert np.isnan(supervisor.score(rows(p, failed=(1,)))).tolist() == [False, True, False]


MODEL = "from torch import nn\ndef build(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))\n"
RECIPE = """
import torch
from model import build

def train_member(seed, data):
    images, labels = torch.from_numpy(data.inputs).float()[:, None] / 255, torch.from_numpy(data.targets)
    model = build()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
    return model
"""
ASSESSMENT = """
subject: {task: classification, ensemble: "recipe.py:train_member", build: "model.py:build", members: 2, weights: members,
          train: {npz: train.npz}}
data: {test: {npz: test.npz}}
supervisors: [max_softmax, ensemble_mi, ensemble_pe, ensemble_ms]
claims: [{id: ACC, accuracy: {min: 0.6}}]
"""


def test_an_assessment_trains_its_members_once_and_supervises_them(tmp_path, capsys):
    from roadworthy.assessment.assess import assess

    rng = np.random.default_rng(0)
    for name, n in (("train", 200), ("test", 100)):
        labels = rng.integers(0, 2, n)
        images = np.clip(rng.normal(90 + 60 * labels[:, None, None], 60, (n, 8, 8)), 0, 255).astype(
            np.uint8
        )
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
    for name, text in (("model.py", MODEL), ("recipe.py", RECIPE), ("assessment.yaml", ASSESSMENT)):
        (tmp_path / name).write_text(text)
    first = assess(tmp_path / "assessment.yaml")
    assert "training 2 members" in capsys.readouterr().err
    again = assess(tmp_path / "assessment.yaml")
    assert "training" not in capsys.readouterr().err
    assert first.finding("accuracy").value == again.finding("accuracy").value > 0.6
    assert again.record.cases.failed == 0 and again.record.cases.computed == 0
