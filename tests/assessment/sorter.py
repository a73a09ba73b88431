"""A subject that sorts bright from dark images, some of them hard to tell, and how it is assessed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roadworthy.assessment.assess import Run, assess
from roadworthy.monitor import Bundle
from roadworthy.spec import Assessment

SMALL = """\
name: sorter
subject: {task: classification, python: subject.py:predict}
data:
  test: {npz: test.npz, columns: [site]}
  calibration: {npz: calibration.npz, columns: [site]}
circumstances:
  noise: {transform: gaussian_noise, levels: [1, 3], table: wang}
supervisors: [max_softmax, deep_gini]
execution: {chunk: 200}
"""
SUBJECT = """\
import math


def predict(image):
    x = (float(image.mean()) - 128) / 30
    p = 1 / (1 + math.exp(-x))
    return [1 - p, p]
"""


def drawn(n: int, seed: int, *, shade: float = 0.0, **columns: np.ndarray) -> dict[str, np.ndarray]:
    """Bright and dark images, some of them hard to tell."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    level = np.where(labels == 1, 160, 96) + shade + rng.normal(0, 25, n)
    images = np.clip(level[:, None, None] + rng.normal(0, 20, (n, 8, 8)), 0, 255).astype(np.uint8)
    return {
        "images": images,
        "labels": labels,
        "site": np.where(np.arange(n) % 4 == 0, "B", "A"),
        **columns,
    }


def laid_out(folder: Path) -> Path:
    """The folder with its data and its program."""
    np.savez(folder / "test.npz", **drawn(160, 1))
    np.savez(folder / "calibration.npz", **drawn(200, 2))
    (folder / "subject.py").write_text(SUBJECT)
    return folder


def run(user: Path, text: str = SMALL, *changes: tuple[str, str], **options: object) -> Run:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return assess(Assessment.parse(text, user / "assessment.yaml"), **options)  # type: ignore[arg-type]


def bundle_of(done: Run) -> Bundle:
    return Bundle.load(done.folder / "monitor" / "bundle.json")
