"""A subject from a file is another one when anything of the user's that it can import, or says it reads, has changed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data.values import TASKS
from roadworthy.registry import get
from roadworthy.subject.adapters.sources import reached
from roadworthy.subject.module import SubjectError
from roadworthy.subject.system import Cases

LAZY = "def predict(image):\n    from helper import shift\n    return [shift, image.mean()]\n"
BUILD = """
from roadworthy.data.values import CLASS_SCORES, IMAGE
from roadworthy.subject import System, function_module
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
    "by a name in quotes": (
        {
            "b": "shift = 0\n",
            "subject": "import importlib\ndef f():\n    return importlib.import_module('b')\n",
        },
        "b.py",
    ),
    "by a name that only running tells": (
        {
            "b": "shift = 0\n",
            "subject": "import importlib\ndef f(n):\n    return importlib.import_module(n)\n",
        },
        "b.py",
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


def test_a_helper_outside_the_folder_is_hashed_too(tmp_path, monkeypatch):
    written(
        tmp_path,
        elsewhere__far_helper="shift = 0\n",
        own__subject=LAZY.replace("helper", "far_helper"),
    )
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    first = build(tmp_path / "own").fingerprint
    written(tmp_path, elsewhere__far_helper="shift = 1\n")
    assert build(tmp_path / "own").fingerprint != first


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


def test_weights_read_at_import_are_noticed_even_if_they_are_not_named(tmp_path):
    source = "import numpy as np, pathlib\nHERE = pathlib.Path(__file__).parent\nW = np.load(HERE / 'w.npy')\n"
    written(
        tmp_path,
        subject=source
        + "def predict(image):\n    return [float(W[0]), float(len(str(HERE)) > 0)]\n",
    )
    np.save(tmp_path / "w.npy", np.array([0.0]))
    first = build(tmp_path).fingerprint
    moved = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-moved")
    assert build(moved).fingerprint == first
    np.save(tmp_path / "w.npy", np.array([1.0]))
    assert build(tmp_path).fingerprint != first


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


def test_environments_and_runs_are_not_searched(tmp_path):
    written(tmp_path, subject="__import__(input())\n", runs__a="", venv__b="", kept__c="")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pyvenv.cfg").write_text("")
    written(tmp_path, other__lib__d="")
    found = reached([tmp_path / "subject.py"], tmp_path)
    assert [f.relative_to(tmp_path.resolve()).as_posix() for f in found] == [
        "kept/c.py",
        "subject.py",
    ]
