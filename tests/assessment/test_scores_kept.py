"""Scores are computed once: the next run of the same supervisors on the same chunks reads them, whatever happened in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.data.values import Kind
from roadworthy.registry import register, remove
from roadworthy.store import ChunkCache
from roadworthy.store.cache import KeptScores
from roadworthy.subject.needs import Input, Output
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.keeping import LearnedSupervisor

pytestmark = pytest.mark.usefixtures("no_monitor")

FILE = """name: sums
subject: {task: classification, python: model.py:answer}
data:
  test: {npz: test.npz}
  calibration: {npz: calibration.npz}
  reference: {npz: reference.npz}
  classes: [dark, light]
circumstances:
  noise: {transform: gaussian_noise, levels: [2]}
supervisors:
  - max_softmax
  - counted
  - learned
  - forgetful
  - fused
execution: {chunk: 50}
"""
MODEL = """
import numpy as np


def answer(image):
    level = float(np.mean(image)) / 255
    return np.array([1 - level, level])
"""
ASKED: list[str] = []
SHADE = [0.0]
"""What the fit adds to what was learned: another number is another fit."""


class Counted:
    """Brightness of the input; says when it is asked."""

    needs = (Input(),)
    fitted = False

    def __init__(self, *, power: float = 1.0) -> None:
        self.power = power

    def applies_to(self, kind: Kind) -> str | None:
        return None

    def score(self, trace: ModuleTrace) -> np.ndarray:
        ASKED.append("counted")
        return np.asarray(trace.columns["input"], dtype=np.float64).mean(axis=(1, 2)) ** self.power


class Learned(LearnedSupervisor):
    """Distance of the answer from the mean answer."""

    name = "learned"
    needs = (Output(),)

    def applies_to(self, kind: Kind) -> str | None:
        return None

    def fit(self, trace: ModuleTrace, truth: object) -> None:
        self._learned = {"mean": np.asarray(trace.output, dtype=np.float64).mean(axis=0) + SHADE[0]}

    def score(self, trace: ModuleTrace) -> np.ndarray:
        ASKED.append("learned")
        return np.abs(np.asarray(trace.output) - self._learned["mean"]).sum(axis=1)


class Forgetful:
    """One that keeps no fit which could be told from another's."""

    needs = (Output(),)
    fitted = True

    def applies_to(self, kind: Kind) -> str | None:
        return None

    def fit(self, trace: ModuleTrace, truth: object) -> None: ...

    def score(self, trace: ModuleTrace) -> np.ndarray:
        ASKED.append("forgetful")
        return np.asarray(trace.output, dtype=np.float64)[:, 0]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)

    def load(self, folder: Path) -> None: ...


@pytest.fixture
def file(tmp_path):
    for seed, role in enumerate(("test", "calibration", "reference")):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, 100)
        images = np.clip(
            rng.normal(100 + 60 * labels[:, None, None], 60, (100, 4, 4)), 0, 255
        ).astype(np.uint8)
        np.savez(tmp_path / f"{role}.npz", images=images, labels=labels)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "assessment.yaml").write_text(FILE)
    for name, build in (("counted", Counted), ("learned", Learned), ("forgetful", Forgetful)):
        register("supervisors", name)(build)
    ASKED.clear()
    SHADE[0] = 0.0
    yield tmp_path / "assessment.yaml"
    for name in ("counted", "learned", "forgetful"):
        remove("supervisors", name)


def asked() -> dict[str, int]:
    """How often each was asked since the last time."""
    found = {name: ASKED.count(name) for name in sorted(set(ASKED))}
    ASKED.clear()
    return found


def record_of(run, label: str) -> dict:
    return next(
        s
        for s in run.record.plain()["sections"]["supervision"]["supervisors"]
        if s["name"] == label
    )


def written(run) -> list[object]:
    """What must not depend on whether scores were kept."""
    supervisors = run.record.sections["supervision"].supervisors
    verdicts = [(s.name, s.threshold, s.verdicts, s.batches) for s in supervisors]
    return [(run.folder / "findings.json").read_bytes(), verdicts]


# Two chunks for each of four conditions: test and calibration, clean and noisy. Reference rows fit, and are not scored.
ALL = {"counted": 8, "forgetful": 8, "learned": 8}


def test_a_second_run_reads_the_scores_and_finds_the_same_bytes(file):
    first = assess(file)
    before = written(first)
    assert asked() == ALL
    again = assess(file)
    assert asked() == {"forgetful": 8} and written(again) == before
    for label in ("max_softmax", "counted", "learned"):
        one, other = record_of(first, label), record_of(again, label)
        assert other["score_seconds"] == one["score_seconds"] > 0


def test_fresh_computes_the_scores_again_and_keeps_them(file):
    before = written(assess(file))
    asked()
    fresh = assess(file, fresh=True)
    assert asked() == ALL and written(fresh) == before
    assess(file)
    assert asked() == {"forgetful": 8}


def test_scores_that_were_damaged_are_computed_again(file):
    before = written(assess(file))
    asked()
    kept = sorted((file.parent / "runs" / ".cache").glob("supervisors/*/scores/*.npz"))
    assert len(kept) == 3 * 8
    for i, path in enumerate(kept):
        content = path.read_bytes()
        path.write_bytes((b"", content[:-9], content[:130] + b"?" + content[131:])[i % 3])
    again = assess(file)
    assert asked() == ALL and written(again) == before


def test_other_parameters_and_another_fit_have_scores_of_their_own(file):
    assess(file)
    asked()
    file.write_text(FILE.replace("- counted", "- {counted: {power: 2}}"))
    assess(file)
    assert asked() == {"counted": 8, "forgetful": 8}
    # The kept fit is lost, and what is learned now is something else.
    for path in (file.parent / "runs" / ".cache").glob("supervisors/*/fit/supervisor.npz"):
        path.unlink()
    SHADE[0] = 0.5
    assess(file)
    assert asked() == {"forgetful": 8, "learned": 8}


def test_a_chunk_that_is_computed_again_is_scored_again(file):
    run = assess(file)
    asked()
    cache = ChunkCache(file.parent / "runs" / ".cache")
    damaged = next(p for p in sorted((cache.root).glob("??/*/*")) if p.suffix == ".npy")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = assess(file)
    found = asked()
    # A reference chunk is scored by nobody, and any other once.
    assert found["forgetful"] == 8 and found.get("counted", 0) == found.get("learned", 0) <= 1
    assert written(again) == written(run)


def test_scores_of_another_number_of_cases_are_not_these(tmp_path):
    cache = ChunkCache(tmp_path)
    assert cache.kept_scores("a", "b", 3) is None
    scores = np.array([1.0, np.nan, np.inf])
    cache.keep_scores("a", "b", KeptScores(scores, 2.0))
    kept = cache.kept_scores("a", "b", 3)
    assert kept.seconds == 2.0 and kept.scores.tobytes() == scores.tobytes()
    assert cache.kept_scores("a", "b", 2) is None
    assert [p.name for p in (cache.supervisor("a") / "scores").iterdir()] == ["b.npz"]
