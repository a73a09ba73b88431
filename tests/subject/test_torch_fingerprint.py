"""What changes a torch model's answers changes its fingerprint, and nothing else does."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from sample_nets import images, made, module_of
from torch import nn

from roadworthy.data.values import IMAGE, TASKS
from roadworthy.registry import get
from roadworthy.subject.needs import Layer
from roadworthy.subject.system import Cases, single

MODEL = """
import json, pathlib
import torch
from torch import nn
HERE = pathlib.Path(__file__).parent
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.flat, self.out, self.at = nn.Flatten(), nn.Linear(64, 3), str(HERE / "x")
    def forward(self, x):
        return self.out(self.flat(x))
class Held(Net):
    def __init__(self):
        super().__init__()
        self.temperature = json.loads((HERE / "settings.json").read_text())["temperature"]
    def forward(self, x):
        return super().forward(x) / self.temperature
class Read(Net):
    def forward(self, x):
        return super().forward(x) / json.loads((HERE / "settings.json").read_text())["temperature"]
class Rich(Net):
    def __init__(self):
        super().__init__()
        self.lstm, self.layer = nn.LSTM(8, 8), nn.TransformerEncoderLayer(8, 2, 8)
        self.kinds, self.how = {"a", "b", "c"}, torch.nn.functional.relu
        nn.utils.parametrizations.spectral_norm(self.out)
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "one"
    place.mkdir()
    (place / "model.py").write_text(MODEL)
    _settings(place, 1.0)
    return place


def _settings(folder, temperature):
    (folder / "settings.json").write_text(json.dumps({"temperature": temperature}))


def load(folder, name, **more):
    return get("adapters", "torch").bind(
        path=f"model.py:{name}", base=folder, task=TASKS["classification"], **more
    )()


def test_an_attribute_that_is_read_from_a_file_counts(folder):
    before = load(folder, "Held").fingerprint
    assert load(folder, "Held").fingerprint == before
    _settings(folder, 5.0)
    assert load(folder, "Held").fingerprint != before


def test_what_the_model_reads_when_it_answers_counts_if_it_is_named(folder):
    before = load(folder, "Read", files=["settings.json"])
    assert any(f.name == "settings.json" for f in before.modules["model"].files)
    _settings(folder, 5.0)
    assert load(folder, "Read", files=["settings.json"]).fingerprint != before.fingerprint


def test_files_of_the_network_count_in_an_ensemble(folder):
    from safetensors.torch import save_file

    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        save_file(
            {"out.weight": torch.randn(3, 64), "out.bias": torch.zeros(3)},
            folder / f"{name}.safetensors",
        )

    def both():
        bind = get("adapters", "ensemble").bind
        return bind(
            path="model.py:Read",
            base=folder,
            task=TASKS["classification"],
            weights=["a.safetensors", "b.safetensors"],
            files=["settings.json"],
        )()

    before = both().fingerprint
    _settings(folder, 5.0)
    assert both().fingerprint != before


def test_buffers_that_are_not_saved_and_rates_of_dropout_count():
    class Tempered(nn.Module):
        def __init__(self, temperature):
            super().__init__()
            self.out = nn.Linear(64, 3)
            self.register_buffer("temperature", torch.tensor(temperature), persistent=False)

        def forward(self, x):
            return self.out(x.flatten(1)) / self.temperature

    for build, values in (
        (Tempered, (1.0, 5.0)),
        (lambda rate: nn.Sequential(nn.Flatten(), nn.Dropout(rate), nn.Linear(64, 3)), (0.1, 0.9)),
    ):
        one, same, other = (
            module_of(made(partial(build, v))).fingerprint for v in (values[0], *values)
        )
        assert one == same and one != other


def test_neither_a_run_nor_another_place_changes_it(folder):
    system = load(folder, "Held")
    before = system.fingerprint
    system.run(Cases(list("abcde"), images()), {"model": frozenset({Layer("penultimate")})})
    assert system.fingerprint == before
    moved = folder.rename(folder.parent / "elsewhere")
    assert load(moved, "Held").fingerprint == before


def test_another_process_finds_the_same(folder):
    code = (
        "import sys; from pathlib import Path; from roadworthy.registry import get; from roadworthy.data.values import TASKS\n"
        "bind = get('adapters', 'torch').bind\n"
        "system = bind(path='model.py:Rich', base=Path(sys.argv[1]), task=TASKS['classification'])()\n"
        "print(system.fingerprint)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(folder)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == load(folder, "Rich").fingerprint


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
