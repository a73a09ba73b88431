"""A subject is another one when its source, the files beside it that it imports, its weights or its version have changed."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sample_nets import images, made, module_of
from torch import nn

from roadworthy.data.values import TASKS, VECTOR
from roadworthy.registry import get
from roadworthy.subject.module import SubjectError, function_module
from roadworthy.subject.needs import Layer
from roadworthy.subject.system import Cases

LAZY = "def predict(image):\n    from helper import shift\n    return [shift, image.mean()]\n"
BUILD = """
from roadworthy.data.values import CLASS_SCORES, IMAGE
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System
def build():
    handle = object()  # nothing that could be read
    def answer(image):
        return [0.0, float(image.mean())] if handle else None
    return System({"m": function_module(answer, outputs={"y": CLASS_SCORES})}, {"m.image": "input"}, "m.y", IMAGE)
"""


def build(folder: Path, name: str = "predict", adapter: str = "python", **more):
    return get("adapters", adapter).build(
        path=f"subject.py:{name}", base=folder, task=TASKS["classification"], **more
    )


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def first_score(system):
    return float(system.run(Cases(["a"], np.zeros((1, 2, 2))))["system"].output[0][0])


REACHED = {
    "inside a function": ({"helper": "shift = 0\n", "subject": LAZY}, "helper.py"),
    "in a folder without __init__": (
        {"lib__parts": "shift = 0\n", "subject": "from lib.parts import shift\n"},
        "lib/parts.py",
    ),
    "lazily, in a folder without __init__": (
        {
            "lib__parts": "shift = 0\n",
            "subject": "def predict(image):\n    import lib.parts\n    return [lib.parts.shift, 1.0]\n",
        },
        "lib/parts.py",
    ),
    "by another helper": (
        {"b": "shift = 0\n", "a": "def f():\n    import b\n", "subject": "import a\n"},
        "b.py",
    ),
    "relative": (
        {
            "p____init__": "",
            "p__a": "def f():\n    from . import b\n",
            "p__b": "shift = 0\n",
            "subject": "import p.a\n",
        },
        "p/b.py",
    ),
}


@pytest.mark.parametrize("how", REACHED)
def test_a_helper_is_hashed_however_it_is_imported(tmp_path, how):
    files, helper = REACHED[how]
    answer = "" if "predict" in files["subject"] else "def predict(image):\n    return [0.0, 1.0]\n"
    files = {**files, "subject": files["subject"] + answer}
    written(tmp_path, **files)
    first = build(tmp_path)
    assert helper in [
        f.relative_to(tmp_path.resolve()).as_posix() for f in first.modules["model"].files
    ]
    assert build(tmp_path).fingerprint == first.fingerprint
    (tmp_path / helper).write_text("shift = 1\n")
    assert build(tmp_path).fingerprint != first.fingerprint


def test_a_file_that_nothing_imports_changes_nothing(tmp_path):
    written(tmp_path, subject=LAZY, helper="shift = 0\n", notes="a = 1\n")
    first = build(tmp_path).fingerprint
    written(tmp_path, notes="a = 2\n")
    assert build(tmp_path).fingerprint == first


def test_a_helper_that_is_imported_when_asked_is_the_one_of_today(tmp_path):
    written(tmp_path, subject=LAZY, helper="shift = 0\n")
    assert first_score(build(tmp_path)) == 0
    written(tmp_path, helper="shift = 1\n")
    assert first_score(build(tmp_path)) == 1
    assert not list(tmp_path.rglob("*.pyc"))


@pytest.mark.parametrize(("adapter", "name"), [("python", "predict"), ("system", "build")])
def test_files_that_the_subject_reads_count_where_they_are_named(tmp_path, adapter, name):
    written(tmp_path, subject=BUILD + "def predict(image):\n    return [0.0, 1.0]\n")
    (tmp_path / "w.bin").write_bytes(b"1")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("a")
    kept = build(tmp_path, name, adapter, files=["w.bin", "tables"])
    assert [f.name for f in kept.modules[next(iter(kept.modules))].files] == [
        "subject.py",
        "w.bin",
        "t.csv",
    ]
    assert kept.fingerprint == build(tmp_path, name, adapter, files=["w.bin", "tables"]).fingerprint
    assert kept.fingerprint != build(tmp_path, name, adapter).fingerprint
    for file in ("w.bin", "tables/t.csv"):
        before = build(tmp_path, name, adapter, files=["w.bin", "tables"]).fingerprint
        (tmp_path / file).write_text("2")
        assert build(tmp_path, name, adapter, files=["w.bin", "tables"]).fingerprint != before
    with pytest.raises(
        SubjectError, match=r"there is no file .*w\.bim \(did you mean 'w\.bin'\?\)"
    ):
        build(tmp_path, name, adapter, files=["w.bim"])


def test_the_version_is_part_of_the_subject(tmp_path):
    written(tmp_path, subject=BUILD + "def predict(image):\n    return [0.0, 1.0]\n")
    for adapter, name in (("python", "predict"), ("system", "build")):
        assert (
            build(tmp_path, name, adapter, version="1").fingerprint
            != build(tmp_path, name, adapter, version="2").fingerprint
        )


def test_a_folder_of_data_does_not_hide_an_installed_package(tmp_path):
    written(
        tmp_path,
        numpy__weights__note="a = 1\n",
        subject="import numpy\ndef predict(image):\n    return [0.0, 1.0]\n",
    )
    before = sys.modules["numpy"]
    system = build(tmp_path)
    assert sys.modules["numpy"] is before
    assert [f.name for f in system.modules["model"].files] == ["subject.py"]


def test_an_installed_module_counts_by_its_own_file(tmp_path):
    system = get("adapters", "python").build(
        path="statistics:mean", base=tmp_path, task=TASKS["classification"], version="3"
    )
    assert [f.name for f in system.modules["model"].files] == ["statistics.py"]


def scaled(by):
    return lambda x: by * x


def plain(x):
    return x


def fingerprint(function, mark=""):
    return function_module(function, outputs={"y": VECTOR}, mark=mark).fingerprint


def test_a_function_in_memory_is_new_each_time_unless_a_mark_names_it():
    # What it holds is not read: two models in one closure must not be taken for each other.
    held = scaled(2)
    assert fingerprint(held) != fingerprint(held) and fingerprint(plain) != fingerprint(plain)
    assert fingerprint(held, "2") == fingerprint(scaled(2), "2") != fingerprint(scaled(3), "3")
    module = function_module(held, outputs={"y": VECTOR})
    assert module.fingerprint == module.fingerprint


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
def net_folder(tmp_path):
    place = tmp_path / "one"
    place.mkdir()
    (place / "model.py").write_text(MODEL)
    _settings(place, 1.0)
    return place


def _settings(folder, temperature):
    (folder / "settings.json").write_text(json.dumps({"temperature": temperature}))


def load_torch(folder, name, **more):
    return get("adapters", "torch").bind(
        path=f"model.py:{name}", base=folder, task=TASKS["classification"], **more
    )()


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_other_weights_are_another_subject(net_folder, suffix):
    def weighted(bias):
        state = {"out.weight": torch.ones(3, 64), "out.bias": torch.full((3,), bias)}
        if suffix == "pt":
            torch.save(state, net_folder / "w.pt")
        else:
            from safetensors.torch import save_file

            save_file(state, net_folder / "w.safetensors")
        return load_torch(net_folder, "Net", weights=f"w.{suffix}").fingerprint

    assert weighted(0.0) == weighted(0.0) != weighted(1.0)


def test_another_source_or_version_is_another_subject(net_folder):
    before = load_torch(net_folder, "Net").fingerprint
    assert load_torch(net_folder, "Net", version="2").fingerprint != before
    (net_folder / "model.py").write_text(MODEL + "# another line\n")
    assert load_torch(net_folder, "Net").fingerprint != before


def test_a_number_that_is_read_from_a_file_counts(net_folder):
    before = load_torch(net_folder, "Held").fingerprint
    assert load_torch(net_folder, "Held").fingerprint == before
    _settings(net_folder, 5.0)
    assert load_torch(net_folder, "Held").fingerprint != before


def test_what_the_model_reads_when_it_answers_counts_if_it_is_named(net_folder):
    before = load_torch(net_folder, "Read", files=["settings.json"])
    assert any(f.name == "settings.json" for f in before.modules["model"].files)
    _settings(net_folder, 5.0)
    assert load_torch(net_folder, "Read", files=["settings.json"]).fingerprint != before.fingerprint


def test_files_of_the_network_count_in_an_ensemble(net_folder):
    from safetensors.torch import save_file

    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        save_file(
            {"out.weight": torch.randn(3, 64), "out.bias": torch.zeros(3)},
            net_folder / f"{name}.safetensors",
        )

    def both():
        bind = get("adapters", "ensemble").bind
        return bind(
            path="model.py:Read",
            base=net_folder,
            task=TASKS["classification"],
            weights=["a.safetensors", "b.safetensors"],
            files=["settings.json"],
        )()

    before = both().fingerprint
    _settings(net_folder, 5.0)
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


def test_neither_a_run_nor_another_place_changes_it(net_folder):
    system = load_torch(net_folder, "Held")
    before = system.fingerprint
    system.run(Cases(list("abcde"), images()), {"model": frozenset({Layer("penultimate")})})
    assert system.fingerprint == before
    moved = net_folder.rename(net_folder.parent / "elsewhere")
    assert load_torch(moved, "Held").fingerprint == before


def test_another_process_finds_the_same(net_folder):
    code = (
        "import sys; from pathlib import Path; from roadworthy.registry import get; from roadworthy.data.values import TASKS\n"
        "bind = get('adapters', 'torch').bind\n"
        "system = bind(path='model.py:Rich', base=Path(sys.argv[1]), task=TASKS['classification'])()\n"
        "print(system.fingerprint)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(net_folder)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == load_torch(net_folder, "Rich").fingerprint
