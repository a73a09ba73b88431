"""A tiny real assessment: a Python function that names the brighter half of 8 x 8 images, wrong for a known share of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.app import run

# Tables are read by their words, which a narrow terminal, or a runner that plays one, would break.
os.environ["COLUMNS"] = "200"

SUBJECT = '''
import os
import time

import numpy as np

calls = []


def predict(images):
    """Scores of left and right: which half is brighter."""
    calls.append(len(images))
    if len(calls) > float(os.environ.get("HOLD_AFTER", "inf")):
        time.sleep(600)
    images = np.asarray(images, dtype=np.float32)
    left = images[:, :, :4].mean(axis=(1, 2))
    right = images[:, :, 4:].mean(axis=(1, 2))
    return np.stack([left, right], axis=1).astype(np.float32) / 255


predict.batched = True
'''

SPEC = """name: tiny
subject: {task: classification, python: subject.py:predict}
data:
  test: {npz: test.npz, columns: [site]}
  classes: [left, right]
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 3]}
slices: [site]
supervisors: [max_softmax]
claims:
  - {id: A-1, accuracy: {min: LIMIT}}
media: none
execution: {chunk: 20}
"""


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Tiny:
    """A folder with subject.py, test.npz and assessment.yaml."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "assessment.yaml"

    def spec(self, *, limit: float = 0.8, **replaced: str) -> Path:
        text = SPEC.replace("LIMIT", str(limit))
        for old, new in replaced.items():
            text = text.replace(old, new)
        self.file.write_text(text)
        return self.file

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """A real process; with HOLD_AFTER its subject answers that many times and then not any more.

        It leads a group, with which it is ended where a test leaves it behind; and where it is stuck, SIGABRT has it say where.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "roadworthy.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONFAULTHANDLER": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what was started and still runs, with its workers: they would hold its pipes, and whoever reads them."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def place(folder: Path, *, n: int = 200, wrong: int = 20) -> Tiny:
    """200 images; `wrong` of them carry the other label, so that the accuracy on clean images is exactly 1 - wrong / n."""
    rng = np.random.default_rng(3)
    labels = np.arange(n) % 2
    images = rng.integers(90, 110, (n, 8, 8))
    for i in range(n):
        half = slice(4) if labels[i] == 0 else slice(4, 8)
        images[i, :, half] += 30
    shown = labels.copy()
    shown[:wrong] = 1 - shown[:wrong]
    site = np.where(np.arange(n) % 4 < 2, "A", "B")
    np.savez(folder / "test.npz", images=images.astype(np.uint8), labels=shown, site=site)
    (folder / "subject.py").write_text(SUBJECT)
    tiny = Tiny(folder)
    tiny.spec()
    return tiny


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Tiny]:
    made = place(tmp_path)
    yield made
    made.end()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs a command in this process."""

    def call(*arguments: object) -> Answer:
        capsys.readouterr()
        code = run([str(a) for a in arguments])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return call
