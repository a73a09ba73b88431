"""A transform, a measure and a supervisor of the user's own, by ``mine.py:name`` in the assessment file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy import assess
from roadworthy.spec import SpecError

MINE = """
import numpy as np
from roadworthy.supervisors.plain import PlainSupervisor

def darken(image, rng, *, by: float):
    '''Every pixel is multiplied.'''
    return (image * by).astype(image.dtype)

def first_half(outputs, targets):
    '''Share of cases whose answer is on the right side.'''
    return (np.argmax(outputs, axis=1) < 1) == (np.asarray(targets) < 1)

class Widest(PlainSupervisor):
    '''1 minus the distance of the scores.'''
    name = "widest"
    def risk(self, scores):
        return 1 - np.ptp(scores, axis=1)
"""
FILE = """
subject: {task: classification, python: subject.py:predict}
data: {test: {npz: test.npz}}
measure: mine.py:first_half
circumstances:
  dim: {transform: "mine.py:darken", parameters: {by: 0.1}}
supervisors: ["mine.py:Widest"]
claims:
  - {id: A, first_half: {min: 0.8}}
  - {id: B, first_half: {min: 0.8}, circumstance: dim}
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    labels = np.arange(120) % 2
    images = np.tile(60 + 100 * labels[:, None, None], (1, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "test.npz", images=images, labels=labels)
    (tmp_path / "subject.py").write_text(
        "import numpy as np\ndef predict(x):\n    p = float(np.mean(x)) / 255\n    return [1 - p, p]\n"
    )
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize("workers", [1, 2])
def test_they_are_used_by_name_wherever_work_runs(folder, workers):
    run = assess(folder / "assessment.yaml", workers=workers)
    assert [c.status for c in run.claims] == ["met", "breached"]
    assert run.finding("first_half").value == 1.0
    assert run.finding("first_half", circumstance="dim").value == 0.5
    means = np.load(folder / "test.npz")["images"].mean(axis=(1, 2)) / 255
    clean = run.cases.to_pydict()["mine.py:Widest"][:120]
    assert clean == pytest.approx(1 - np.abs(1 - 2 * means), abs=1e-6)


def test_a_case_without_an_answer_is_wrong_by_a_measure_of_ones_own(folder):
    """The largest of scores that are all NaN is the first, which must not be taken for an answer."""
    (folder / "subject.py").write_text(
        "import numpy as np\ndef predict(x):\n    p = float(np.mean(x)) / 255\n"
        "    if p < 0.5:\n        raise ValueError('too dark')\n    return [1 - p, p]\n"
    )
    assert assess(folder / "assessment.yaml").finding("first_half").value == 0.5


def test_their_code_is_part_of_what_is_kept(folder):
    first = assess(folder / "assessment.yaml")
    assert assess(folder / "assessment.yaml").record.cases.computed == 0
    (folder / "mine.py").write_text(MINE.replace("image * by", "image * by + 200"))
    second = assess(folder / "assessment.yaml")
    assert second.folder != first.folder and second.record.cases.computed == 120
    assert second.finding("first_half", circumstance="dim").value == 0.5


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("mine.py:darken", "mine.py:lighten", "mine.py has no 'lighten'"),
        ("mine.py:darken", "other.py:darken", "there is no file"),
        ("by: 0.1", "bye: 0.1", "takes no parameter 'bye'"),
    ],
)
def test_what_is_wrong_with_one_is_said_with_its_place(folder, old, new, says):
    file = folder / "assessment.yaml"
    file.write_text(FILE.replace(old, new))
    with pytest.raises(SpecError) as caught:
        assess(file)
    assert says in str(caught.value) and "circumstances.dim" in str(caught.value)


def test_a_measure_that_takes_the_name_of_another_is_refused(folder):
    (folder / "mine.py").write_text(MINE.replace("first_half", "accuracy"))
    file = folder / "assessment.yaml"
    file.write_text(FILE.replace("first_half", "accuracy"))
    with pytest.raises(SpecError, match="called 'accuracy' already"):
        assess(file)
