"""Ensembles against their members, each asked alone; end to end from a recipe; what cannot be an ensemble is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.spec import Assessment
from roadworthy.subject.adapters.ensemble import EnsembleModule
from roadworthy.subject.adapters.torch_model import TorchModule
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Gradient, Input, Layer, Output, Passes
from roadworthy.subject.passes import Summary
from roadworthy.subject.system import Cases
from roadworthy.subject.training import Recipe, member_file, save_member

CLASSIFY, REGRESS = TASKS["classification"], TASKS["regression"]
MEMBERS = Passes("ensemble", 0)
NAMES = ["a.safetensors", "b.safetensors", "c.safetensors"]
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, x):
        if (x > 0.99).any(): raise RuntimeError("saturated")
        scores = self.head(torch.relu(self.conv(5 * (x - 0.5))).flatten(1))
        scores = scores.clone()
        if self.head.bias[0] > 0: scores[x[:, 0, 0, 0] == 0] = float("nan")
        return scores

def build(): return Net()

class Steering(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
    def forward(self, x): return self.gain * x.mean((1, 2, 3))
"""
RECIPE = """
import torch
from model import build

def train_member(seed):
    return build()

def same(seed):
    torch.manual_seed(0)
    return build()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ensemble")
    (place / "model.py").write_text(MODEL)
    (place / "recipe.py").write_text(RECIPE)
    for number, name in enumerate(NAMES):
        torch.manual_seed(number)
        layers = {"conv": torch.nn.Conv2d(1, 4, 3), "head": torch.nn.Linear(144, 3)}
        weights = {
            f"{key}.{k}": v.clone()
            for key, layer in layers.items()
            for k, v in layer.state_dict().items()
        }
        weights["head.bias"][0] = (
            1.0 if number == 2 else -1.0
        )  # the third has no answer where the corner is black
        weights["head.weight"] = torch.randn(3, 144) / 3
        save_file(weights, place / name)
        save_file({"gain": torch.tensor([float(number + 1)])}, place / f"gain-{number}.safetensors")
    return place


@pytest.fixture(scope="module")
def images():
    # Blocks of one grey: in pixels of noise every image looks the same to a small network.
    return (
        np.random.default_rng(1)
        .integers(1, 250, (40, 2, 2), dtype=np.uint8)
        .repeat(4, axis=1)
        .repeat(4, axis=2)
    )


def ensemble_system(folder, weights, path="model.py:build", task=CLASSIFY, **more):
    return get("adapters", "ensemble").bind(
        path=path, base=folder, task=task, weights=weights, **more
    )()


def member_system(folder, weights, path="model.py:build", task=CLASSIFY, **more):
    return get("adapters", "torch").bind(
        path=path, base=folder, task=task, weights=weights, **more
    )()


def ids(n: int) -> list[str]:
    return [f"case-{i}" for i in range(n)]


def softmax(row) -> list[float]:
    largest = max(row)
    powers = [math.exp(v - largest) for v in row]
    return [v / sum(powers) for v in powers]


def entropy(p) -> float:
    return -sum(v * math.log(v) for v in p if v > 0)


def by_hand(folder, images) -> list[list[list[float]]]:
    """Probabilities (member, case, class), from each member run as a subject of its own."""
    answers = [
        member_system(folder, n, batch=16).run(Cases(ids(len(images)), images))["system"].output
        for n in NAMES
    ]
    return [[softmax(row.astype(np.float64).tolist()) for row in answer] for answer in answers]


def test_the_answer_is_the_mean_of_the_members_probabilities(folder, images):
    trace = ensemble_system(folder, NAMES, batch=16).run(Cases(ids(40), images))["system"]
    each = by_hand(folder, images)
    expected = [[sum(m[i][c] for m in each) / 3 for c in range(3)] for i in range(40)]
    assert trace.ok.all() and trace.output.dtype == np.float32
    np.testing.assert_allclose(trace.output, expected, atol=1e-7)


def test_the_passes_are_its_members(folder, images):
    system = ensemble_system(folder, NAMES, batch=16)
    columns = system.run(Cases(ids(40), images), {"model": frozenset({MEMBERS})})["model"].columns
    found, each = Summary.unpack(columns[MEMBERS.column]), by_hand(folder, images)
    for i in range(40):
        rows = [m[i] for m in each]
        np.testing.assert_allclose(
            found.mean_probability[i], [sum(r[c] for r in rows) / 3 for c in range(3)], atol=1e-12
        )
        assert found.mean_entropy[i] == pytest.approx(sum(map(entropy, rows)) / 3, abs=1e-12)
        assert found.votes[i].tolist() == [
            sum(r.index(max(r)) == c for r in rows) for c in range(3)
        ]
    assert len({tuple(v) for v in found.votes.tolist()}) > 1, (
        "the members of this test disagree somewhere"
    )


def test_with_a_distance_the_members_are_compared_with_each_other_and_with_the_answer(
    folder, images
):
    request = Passes("ensemble", 0, distance="cosine")
    system = ensemble_system(folder, NAMES, batch=16)
    assert system.modules["model"].offers(request) is None
    columns = system.run(Cases(ids(40), images), {"model": frozenset({request, MEMBERS})})[
        "model"
    ].columns
    each = np.array(by_hand(folder, images))

    def apart(a, b):
        return 1 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    for i in range(40):
        answer = each[:, i].mean(axis=0)
        pairs = [apart(each[a, i], each[b, i]) for a, b in ((0, 1), (0, 2), (1, 2))]
        own = [apart(member, answer) for member in each[:, i]]
        np.testing.assert_allclose(
            columns[request.column][i], [np.mean(pairs), np.mean(own)], atol=1e-6
        )


def test_layers_gradients_and_dropout_are_those_of_the_first_member(folder, images):
    inside = {
        Layer("conv"),
        Layer("penultimate"),
        Gradient("entropy_parameters"),
        Passes("dropout", 3, 0.1),
    }
    requests = frozenset({*inside, Input(), MEMBERS})
    cases = Cases(ids(40), images)
    system = ensemble_system(folder, NAMES)
    assert [system.modules["model"].offers(r) for r in inside] == [None] * len(inside)
    together = system.run(cases, {"model": requests})["model"].columns
    alone = (
        member_system(folder, NAMES[0]).run(cases, {"model": requests - {MEMBERS}})["model"].columns
    )
    assert set(together) == {*alone, MEMBERS.column}
    for name, column in alone.items():
        np.testing.assert_array_equal(together[name], column)


def test_offers_are_the_members_as_passes_and_else_those_of_the_first(folder):
    module = ensemble_system(folder, NAMES).modules["model"]
    assert [module.offers(r) for r in (MEMBERS, Output(), Input(), Layer("conv"))] == [None] * 4
    assert "it has 3 members, one pass each" in module.offers(Passes("ensemble", 7))
    assert "distances that fit" in module.offers(Passes("ensemble", 0, distance="bleu"))
    assert module.offers(Layer("kopf")) == module.first.offers(Layer("kopf"))
    assert module.first.offers(MEMBERS), "one model alone has no members"


def test_a_case_that_a_member_cannot_answer_has_no_answer_and_no_others_are_touched(folder, images):
    odd = images.copy()
    odd[3, 0, 0] = 0
    odd[7] = 255
    system = ensemble_system(folder, NAMES, batch=16)
    trace = system.run(Cases(ids(40), odd), {"model": frozenset({MEMBERS})})["model"]
    assert np.flatnonzero(~trace.ok).tolist() == [3, 7]
    assert "finite" in trace.error[3] and "saturated" in trace.error[7]
    found = Summary.unpack(trace.columns[MEMBERS.column])
    assert np.isnan(found.mean_probability).any(axis=1).nonzero()[0].tolist() == [3, 7]
    sound = np.setdiff1d(np.arange(40), [3, 7])
    whole = system.run(Cases(ids(40), images))["model"].output
    np.testing.assert_allclose(trace.output[sound], whole[sound], atol=1e-6)


def test_one_case_at_a_time_gives_the_same(folder, images):
    module = ensemble_system(folder, NAMES, batch=1).modules["model"]
    whole = ensemble_system(folder, NAMES, batch=1).run(Cases(ids(4), images[:4]))["system"].output
    steps = [module.step({"image": image}, None, None)[0]["output"] for image in images[:4]]
    np.testing.assert_array_equal(np.stack(steps), whole)


def test_vectors_are_averaged_and_compared_by_a_distance(folder, images):
    names = [f"gain-{n}.safetensors" for n in range(3)]
    system = ensemble_system(folder, names, "model.py:Steering", REGRESS)
    output = system.run(Cases(ids(40), images))["system"].output
    np.testing.assert_allclose(
        output[:, 0], 2 * images.reshape(40, -1).mean(axis=1) / 255, atol=1e-6
    )
    module = system.modules["model"]
    assert "a distance" in module.offers(MEMBERS)
    assert module.offers(Passes("ensemble", 0, distance="auto")) is None


def test_the_fingerprint_covers_every_member_and_their_order(folder):
    prints = [
        ensemble_system(folder, names, **more).modules["model"].fingerprint
        for names, more in [(NAMES, {}), (NAMES[::-1], {}), (NAMES[:2], {}), ([NAMES[0], NAMES[2]], {}), (NAMES, {"batch": 7})]
    ]  # fmt: skip
    assert len(set(prints)) == len(prints)
    assert ensemble_system(folder, NAMES).modules["model"].fingerprint == prints[0]


def test_kept_members_of_the_recipe_are_loaded_and_none_is_trained(
    folder, tmp_path, images, capsys
):
    # A whole assessment that trains its members first is in tests/supervisors/test_ensembles.py.
    recipe = Recipe("recipe.py:train_member", folder, seed=5)
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    for number in (0, 1):
        save_member(recipe.member(number), member_file(tmp_path, number), recipe.note(number))
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)
    kept = ensemble_system(
        folder, str(tmp_path), recipe.path, build="model.py:build", members=2, seed=5
    )
    assert not capsys.readouterr().err
    module = kept.modules["model"]
    assert isinstance(module, EnsembleModule) and all(
        isinstance(m, TorchModule) for m in module.members
    )
    assert sorted(f.name for f in module.files) == [
        "member-0.safetensors",
        "member-1.safetensors",
        "model.py",
        "recipe.py",
    ]
    listed = ensemble_system(folder, [str(member_file(tmp_path, n)) for n in (0, 1)])
    cases = Cases(ids(40), images)
    np.testing.assert_array_equal(
        kept.run(cases)["system"].output, listed.run(cases)["system"].output
    )


@pytest.mark.parametrize(
    ("weights", "more", "said"),
    [
        (NAMES, {"members": 3}, "members says how members are trained"),
        (NAMES, {"train": {"npz": "a.npz"}}, "train says how members are trained"),
        ([NAMES[0]], {}, "two members at least, and this one has 1"),
        ([NAMES[0], NAMES[1], NAMES[0]], {}, "members 0 and 2 have the same weights"),
        ([NAMES[0], "d.safetensors"], {}, r"no weights file .*d.safetensors"),
        ([NAMES[0], "gain-1.safetensors"], {}, "do not fit the model"),
        ("members", {}, "write build: model.py:build"),
        (
            "members",
            {"build": "model.py:build", "members": 1, "path": "recipe.py:train_member"},
            "and this one has 1",
        ),
        (NAMES, {"task": TASKS["detection"]}, "mean of class scores or vectors"),
    ],
)
def test_what_is_no_ensemble_is_refused_by_a_sentence(folder, weights, more, said):
    with pytest.raises(SubjectError, match=said):
        ensemble_system(folder, weights, **more)
    assert not (folder / "members").exists()


def test_the_page_and_the_example_are_accepted():
    project = Path(__file__).parents[2]
    blocks = re.findall(
        r"```yaml\n(.*?)```", (project / "docs" / "ensembles.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 2
    for text in blocks:
        assert (
            Assessment.parse(f"{text}\ndata: {{test: {{npz: a.npz}}}}\n", "ensembles.md").adapter
            == "ensemble"
        )
    example = Assessment.read(project / "examples" / "fashion" / "ensemble.yaml")
    get("adapters", "ensemble").check(
        {**_settings(example), "path": "", "base": Path(), "task": CLASSIFY}
    )


def _settings(spec: Assessment) -> dict:
    return {k: v for k, v in spec.subject.items() if k not in ("task", "ensemble")}


@pytest.mark.slow
def test_a_recipe_that_sets_its_own_seed_is_found_out(folder, tmp_path):
    with pytest.raises(
        SubjectError, match=r"members 0 and 1 have the same weights.*seed of its own"
    ):
        ensemble_system(folder, str(tmp_path), "recipe.py:same", build="model.py:build", members=2)
