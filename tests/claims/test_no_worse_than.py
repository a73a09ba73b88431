"""A release is gated on the run before it: compared case by case where both hold the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.analysis.comparison import change
from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.judgement import recorded
from roadworthy.assessment.observations import observe
from roadworthy.assessment.section import plan_assessment
from roadworthy.assessment.supervisors import Supervisors
from roadworthy.spec import Assessment, SpecError
from roadworthy.store import ChunkCache, RunFolder

N = 200


def predict(wrong: list[int]) -> str:
    """A subject that reads the sample's number from its first pixel, and is wrong on some of them."""
    return (
        f"WRONG = {wrong!r}\n\n\ndef predict(image):\n    i, label = int(image[0, 0]), int(image[1, 1])\n"
        "    right = label if i not in WRONG else 1 - label\n    return [1.0 - right, float(right)]\n"
    )


def assessed(folder: Path, name: str, wrong: list[int], claims: str = "") -> Run:
    labels = np.arange(N) % 2
    images = np.zeros((N, 8, 8), np.uint8)
    images[:, 0, 0], images[:, 1, 1] = np.arange(N), labels
    np.savez(folder / "test.npz", images=images, labels=labels)
    (folder / f"{name}.py").write_text(predict(wrong))
    text = f"name: {name}\nsubject: {{task: classification, python: '{name}.py:predict'}}\ndata: {{test: {{npz: test.npz}}}}\n"
    (folder / f"{name}.yaml").write_text(text + claims)
    return assess(folder / f"{name}.yaml")


def gated(folder: Path, before: Run, wrong: list[int], by: float) -> Run:
    claims = (
        f"claims:\n  - {{id: GATE, no_worse_than: {before.folder.relative_to(folder)}, by: {by}}}\n"
    )
    return assessed(folder, "second", wrong, claims)


def test_a_release_that_errs_on_the_same_cases_is_no_worse(tmp_path):
    before = assessed(tmp_path, "first", list(range(20)))
    run = gated(tmp_path, before, list(range(20)), by=0.03)
    assert run.verdict == "met"
    assert run.claims[0].members[0].value == 0.0


def test_pairing_decides_what_two_separate_intervals_could_not(tmp_path):
    before = assessed(tmp_path, "first", list(range(20)))
    run = gated(tmp_path, before, list(range(21)), by=0.05)
    member = run.claims[0].members[0]
    assert member.value == pytest.approx(-1 / N)
    assert run.verdict == "met"
    assert member.interval is not None
    # two accuracies of 0.9 on 200 cases each differ by chance by about 0.05; paired, by about 0.01
    assert member.interval.high - member.interval.low < 0.05


def test_a_release_that_is_much_worse_is_breached(tmp_path):
    before = assessed(tmp_path, "first", list(range(20)))
    assert gated(tmp_path, before, list(range(60)), by=0.05).verdict == "breached"


def test_the_paired_change_agrees_with_a_brute_force_bootstrap(tmp_path):
    before = assessed(tmp_path, "first", list(range(20)))
    after = assessed(tmp_path, "second", list(range(10, 45)))
    plan = plan_assessment(Assessment.read(tmp_path / "second.yaml"))
    seen = observe(
        plan, plan.conditions[0], Supervisors(plan, ChunkCache(tmp_path / "runs" / ".cache"))
    )
    evidence = change(seen.observed, recorded(RunFolder.open(before.folder)))
    first = ~np.isin(np.arange(N), np.arange(20))
    second = ~np.isin(np.arange(N), np.arange(10, 45))
    differences = second.astype(float) - first
    assert evidence.value == pytest.approx(differences.mean())
    rng = np.random.default_rng(0)
    means = differences[rng.integers(0, N, (4000, N))].mean(axis=1)
    interval = evidence.interval(0.95, "two")
    low, high = np.quantile(means, [0.025, 0.975])
    assert interval.low == pytest.approx(low, abs=0.015)
    assert interval.high == pytest.approx(high, abs=0.015)
    assert after.finding("accuracy").value == pytest.approx(second.mean())


def test_a_folder_that_is_no_run_is_named_with_its_line(tmp_path):
    with pytest.raises(
        SpecError,
        match=r"first\.yaml:5: claims\[0\]\.no_worse_than: .*nowhere is not a run: it has no",
    ):
        assessed(tmp_path, "first", [], "claims:\n  - {id: GATE, no_worse_than: nowhere}\n")
