"""A verdict is about the model that is there: what a subject opens is hashed, and answers of other files are not used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from roadworthy import assess
from roadworthy.execution.progress import Silent
from roadworthy.execution.work import Unfinished
from roadworthy.subject.identity import (
    ABSENT,
    LISTING,
    SubjectEvidence,
    native_libraries,
    watching,
)
from roadworthy.subject.module import SubjectError

LOADED = {
    "np.load": "w = np.load(HERE / 'w.npy')",
    "np.load, mapped": "w = np.load(HERE / 'w.npy', mmap_mode='r')",
    "torch.load": "import torch; w = torch.load(HERE / 'w.pt', weights_only=True).numpy()",
    "open": "w = np.frombuffer(open(HERE / 'w.bin', 'rb').read())",
    "os.open": "import os; f = os.open(HERE / 'w.bin', os.O_RDONLY); w = np.frombuffer(os.read(f, 99)); os.close(f)",
}


def weights(folder: Path, value: float) -> None:
    np.save(folder / "w.npy", [value])
    torch.save(torch.tensor([value]), folder / "w.pt")
    (folder / "w.bin").write_bytes(np.array([value]).tobytes())


def written(folder: Path, code: str, *, when: str = "answers", subject: str = "") -> Path:
    """A subject that is right if its weights are 0; `code` reads them when it loads or when it answers."""
    head = "import numpy as np\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
    inside = f"    {code}\n" if when == "answers" else ""
    body = f"def predict(x):\n{inside}    return np.eye(3)[(int(x[0]) + int(w[0])) % 3]\n"
    (folder / "subject.py").write_text(head + ("" if inside else f"{code}\n") + body)
    (folder / "cases.csv").write_text(
        "\n".join(["a,b,label", *(f"{i % 3},0,{i % 3}" for i in range(60))])
    )
    path = folder / "assessment.yaml"
    path.write_text(
        f"subject: {{task: classification, python: subject.py:predict, classes: [0, 1, 2]{subject}}}\n"
        "data: {test: {csv: cases.csv, features: [a, b]}}\n"
        "execution: {chunk: 20}\n"
    )
    return path


def outcome(path: Path, **more) -> tuple[float, int]:
    run = assess(path, **more)
    return run.finding("accuracy").value, run.record.cases.computed


@pytest.mark.parametrize("when", ["loads", "answers"])
@pytest.mark.parametrize("how", LOADED)
def test_replaced_weights_are_another_model(tmp_path, how, when):
    weights(tmp_path, 0.0)
    path = written(tmp_path, LOADED[how], when=when)
    first = assess(path)
    assert (first.finding("accuracy").value, first.record.cases.computed) == (1.0, 60)
    assert outcome(path) == (1.0, 0)
    weights(tmp_path, 1.0)
    second = assess(path)
    assert (second.finding("accuracy").value, second.record.cases.computed) == (0.0, 60)
    assert first.folder != second.folder
    files = {f.path: f.sha256 for f in second.record.subject.files}
    assert set(files) == {
        "subject.py",
        next(n for n in ("w.npy", "w.pt", "w.bin") if n in LOADED[how]),
    }
    weights(tmp_path, 0.0)
    assert outcome(path)[0] == 1.0


def test_the_content_that_was_seen_beats_the_version(tmp_path):
    weights(tmp_path, 0.0)
    path = written(tmp_path, LOADED["np.load"], subject=', version: "1.0"')
    assert outcome(path) == (1.0, 60)
    weights(tmp_path, 1.0)
    assert outcome(path) == (0.0, 60)


def test_files_that_workers_open_are_found_too(tmp_path):
    weights(tmp_path, 0.0)
    path = written(tmp_path, LOADED["np.load"])
    assert outcome(path, workers=2) == (1.0, 60)
    assert outcome(path) == (1.0, 0)
    weights(tmp_path, 1.0)
    assert outcome(path, workers=2) == (0.0, 60)


LATE = "w = np.load(HERE / 'w.npy') if x[1] else np.zeros(1)"


def test_a_file_that_is_opened_late_is_found_and_counts_from_then_on(tmp_path):
    weights(tmp_path, 0.0)
    path = written(tmp_path, LATE)
    (tmp_path / "cases.csv").write_text(
        "\n".join(["a,b,label", *(f"{i % 3},{int(i == 55)},{i % 3}" for i in range(60))])
    )
    run = assess(path)
    assert [f.path for f in run.record.subject.files] == ["subject.py", "w.npy"]
    assert outcome(path) == (1.0, 0)
    weights(tmp_path, 1.0)
    assert outcome(path) == (pytest.approx(59 / 60), 60)


def test_what_cannot_be_seen_is_computed_again_unless_a_version_vouches_for_it(tmp_path):
    code = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', '']); w = [0]"
    path = written(tmp_path, code, when="loads")
    for _ in range(2):
        run = assess(path)
        assert run.record.cases.computed == 60
    (said,) = run.record.subject.not_identified
    assert "starts python" in said and "computed again" in said
    path = written(tmp_path, code, when="loads", subject=', version: "1.0"')
    assert outcome(path)[1] == 60 and outcome(path)[1] == 0
    assert "vouched for by version 1.0" in assess(path).record.subject.not_identified[0]


def test_a_library_that_opens_files_unseen_needs_a_list_of_files(tmp_path):
    weights(tmp_path, 0.0)
    code = "import cv2; w = [0]"
    path = written(tmp_path, code, when="loads")
    assert outcome(path)[1] == outcome(path)[1] == 60
    path = written(tmp_path, code, when="loads", subject=", files: [w.npy]")
    assert outcome(path) == (1.0, 60) and outcome(path) == (1.0, 0)
    weights(tmp_path, 1.0)
    assert outcome(path)[1] == 60


def test_torchscript_is_opened_unseen_and_computed_again(tmp_path):
    class Weight(torch.nn.Module):
        def __init__(self, value: float):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([value]))

        def forward(self):
            return self.w

    torch.jit.script(Weight(0.0)).save(tmp_path / "w.ts")
    code = "import torch; w = torch.jit.load(str(HERE / 'w.ts'))().detach().numpy()"
    path = written(tmp_path, code, when="loads")
    assert outcome(path) == (1.0, 60)
    torch.jit.script(Weight(1.0)).save(tmp_path / "w.ts")
    run = assess(path)
    assert run.finding("accuracy").value == 0.0 and run.record.cases.computed == 60
    assert "torch.jit" in run.record.subject.not_identified[0]


@pytest.mark.parametrize(
    ("code", "unseen"),
    [
        ("import torch\nm = torch.jit.load('m.ts')", ["torch.jit"]),
        ("from torch.export import load", ["torch.export"]),
        ("from onnxruntime import InferenceSession", ["onnxruntime"]),
        ("import ctypes, cv2", ["ctypes", "cv2"]),
        ("import pyarrow.parquet", ["pyarrow"]),
        ("import json, numpy as np, torch, roadworthy\nw = np.load('w.npy')", []),
        ("import yaml\nimport jinja2", []),
    ],
)
def test_native_code_that_may_open_files_is_found_in_the_source(tmp_path, code, unseen):
    (tmp_path / "subject.py").write_text(code)
    assert native_libraries([tmp_path / "subject.py"]) == unseen


def test_a_package_counts_for_the_native_code_that_it_requires(tmp_path, monkeypatch):
    about = tmp_path / "zoo-1.0.dist-info"
    about.mkdir()
    (tmp_path / "zoo.py").write_text("")
    needs = "Requires-Dist: safetensors>=0.4\nRequires-Dist: absent-package; extra == 'all'\n"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: zoo\nVersion: 1.0\n{needs}")
    (about / "RECORD").write_text("zoo.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "subject.py").write_text("import zoo")
    assert native_libraries([tmp_path / "subject.py"]) == ["zoo"]


def test_a_program_that_is_started_late_stays_named_when_answers_are_used_again(tmp_path):
    code = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', '']); w = [0]"
    path = written(tmp_path, code, subject=', version: "1.0"')
    said = [assess(path).record.subject.not_identified for _ in range(2)]
    assert said[0] == said[1] and "vouched for by version 1.0" in said[0][0]


def test_a_file_that_changes_during_the_run_leaves_nothing(tmp_path):
    weights(tmp_path, 0.0)
    path = written(tmp_path, "w = np.load(HERE / 'w.npy'); np.save(HERE / 'w.npy', w + 3)")
    with pytest.raises(SubjectError, match=r"w\.npy changed while the subject was run"):
        assess(path)
    assert [p.name for p in (tmp_path / "runs").iterdir()] == [".cache"]


def test_the_remembered_files_are_found_again_in_a_moved_folder(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    weights(old, 0.0)
    path = written(old, LOADED["np.load"])
    assert outcome(path) == (1.0, 60)
    old.rename(new)
    assert outcome(new / path.name) == (1.0, 0)


def test_an_absent_file_and_a_listed_folder_are_noted_and_what_was_written_is_not(tmp_path):
    evidence, others = SubjectEvidence(), []
    sys.addaudithook(lambda event, args: others.append(event) if event == "open" else None)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "a").touch()
    with watching(evidence):
        with pytest.raises(FileNotFoundError):
            (tmp_path / "missing").read_bytes()
        (tmp_path / "made").write_text("x")
        (tmp_path / "made").read_text()
        sorted(folder.iterdir())
    (tmp_path / "unwatched").write_text("x")
    names = {Path(p).name: state for p, state in evidence.files.items()}
    assert (
        names["missing"] == ABSENT and names["checkpoints"].startswith(LISTING) and len(names) == 2
    )
    assert others  # a hook of somebody else still hears everything
    assert evidence.changed() == []
    (folder / "b").touch()
    (tmp_path / "missing").touch()
    assert [Path(p).name for p in evidence.changed()] == ["missing"]


def test_what_is_read_and_written_is_no_identity(tmp_path):
    import sqlite3

    (tmp_path / "log").write_text("x")
    evidence = SubjectEvidence()
    with watching(evidence):
        (tmp_path / "log").open("r+").close()
        sqlite3.connect(tmp_path / "answers.db").close()
    assert evidence.files == {}
    assert list(evidence.unseen) == ["reads and writes log", "uses the database answers.db"]


def test_files_of_a_run_are_kept_as_names_alone(tmp_path):
    weights(tmp_path, 0.0)
    assess(written(tmp_path, LOADED["np.load"]))
    (kept,) = (tmp_path / "runs/.cache/subjects").iterdir()
    assert json.loads(kept.read_text()) == {"files": ["subject.py", "w.npy"], "unseen": []}


class Stops(Silent):
    """Ctrl-C after 40 cases."""

    done = 0

    def advance(self, n: int) -> None:
        self.done += n
        if self.done == 40:
            raise KeyboardInterrupt


@pytest.mark.parametrize("changed_at", ["once", "the end"])
def test_files_that_a_stopped_run_has_opened_are_not_forgotten(tmp_path, changed_at):
    weights(tmp_path, 0.0)
    path = written(tmp_path, "w = np.load(HERE / 'w.npy') if x[1] else [0]")
    rows = [
        f"{i % 3},{int(20 <= i < 40)},{i % 3}" for i in range(60)
    ]  # only these need the weights
    (tmp_path / "cases.csv").write_text("\n".join(["a,b,label", *rows]))
    with pytest.raises(Unfinished):
        assess(path, workers=1, progress=Stops())
    if changed_at == "the end":
        assert outcome(path, workers=1) == (1.0, 20)
    weights(tmp_path, 1.0)
    assert outcome(path, workers=1) == (pytest.approx(2 / 3), 60)


def test_another_size_of_chunks_reaches_the_workers(tmp_path):
    weights(tmp_path, 0.0)
    path = written(tmp_path, LOADED["np.load"])
    for chunk in (7, 20):
        assert outcome(path, workers=2, execution={"chunk": chunk}) == (1.0, 60)
        assert outcome(path, workers=1, execution={"chunk": chunk}) == (1.0, 0)
