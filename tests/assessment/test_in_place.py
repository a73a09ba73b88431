"""Subjects that work in place on what they are given, and chunks in which nobody answers, change nothing for anyone else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from roadworthy.assessment.assess import assess

pytestmark = pytest.mark.usefixtures("no_monitor")

MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self, in_place):
        super().__init__()
        self.in_place = in_place
        self.last = torch.nn.Linear(64, 3)
        with torch.no_grad():
            self.last.weight.copy_(torch.eye(3).repeat_interleave(torch.tensor([22, 21, 21]), dim=1) / 5)
            self.last.bias.zero_()

    def forward(self, x):
        if not torch.isfinite(x).all():
            raise ValueError("an image without light")
        x = x.sub_(0.3).relu_() if self.in_place else x.sub(0.3).relu()
        return self.last(x.flatten(1))


def in_place(): return Net(True)
def pure(): return Net(False)
"""
PYTHON = """
def in_place(image, rng):
    image -= 0.3
    image[image < 0] = 0
    image += rng.random(image.shape).astype(image.dtype) / 4
    rows = image.reshape(-1)
    return [float(rows[:22].sum()), float(rows[22:43].sum()), float(rows[43:].sum())]

def pure(image, rng): return in_place(image.copy(), rng)
"""
FILE = """name: thirds
subject: {task: classification, SUBJECT}
data: {test: {npz: test.npz}, reference: {npz: reference.npz}}
circumstances: {noise: {transform: gaussian_noise, levels: [1]}}
supervisors: [max_softmax, OTHER]
media: none
execution: {chunk: 20}
"""


def images(n: int, seed: int) -> dict[str, np.ndarray]:
    """Float images with one bright third: nothing is left to prepare, so a view of them could reach the model."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    bright = np.repeat([0, 1, 2], [22, 21, 21])[None, :] == labels[:, None]
    grey = np.clip(0.3 + 0.2 * bright + rng.normal(0, 0.25, (n, 64)), 0, 1)
    return {"images": grey.astype(np.float32).reshape(n, 8, 8), "labels": labels}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    np.savez(tmp_path / "test.npz", **images(60, 0))
    np.savez(tmp_path / "reference.npz", **images(60, 1))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "subject.py").write_text(PYTHON)
    return tmp_path


def assessed(user: Path, subject: str, other: str, workers: int = 1):
    place = user / f"{subject.split(':')[-1].strip()}-{workers}"
    file = user / "assessment.yaml"
    file.write_text(FILE.replace("SUBJECT", subject).replace("OTHER", other))
    return assess(file, runs=place, workers=workers)


def values(run) -> list:
    return [
        (f.quantity, f.about.circumstance, f.about.supervisor, f.value) for f in run.record.findings
    ]


@pytest.mark.parametrize(
    ("subject", "other"),
    [("torch: model.py:", "{knn: {k: 3}}"), ("python: subject.py:", "{vr: {kind: own, n: 3}}")],
)
def test_a_subject_that_works_in_place_finds_what_a_pure_one_does_with_any_number_of_workers(
    user, subject, other
):
    pure = assessed(user, f"{subject}pure", other)
    one, two = (assessed(user, f"{subject}in_place", other, workers) for workers in (1, 2))
    assert repr(values(one)) == repr(values(two)) == repr(values(pure))
    assert (one.folder / "findings.json").read_bytes() == (
        two.folder / "findings.json"
    ).read_bytes()
    tables = [
        pq.read_table(run.folder / "tables" / "cases.parquet").drop(["seconds"])
        for run in (one, two)
    ]
    assert repr(tables[0].to_pydict()) == repr(tables[1].to_pydict())


@pytest.mark.parametrize("role", ["reference", "test"])
def test_a_chunk_in_which_nobody_answers_leaves_the_supervisors_at_work(user, role):
    broken = images(60, 2)
    broken["images"][20:40] = np.inf if role == "test" else np.nan
    np.savez(user / f"{role}.npz", **broken)
    run = assessed(user, "torch: model.py:pure", "{knn: {k: 3}}")
    assert [
        s["applicable"] for s in run.record.plain()["sections"]["supervision"]["supervisors"]
    ] == [True, True]
