"""Five tiny subjects, one a task, from user files to findings: clean performance, degradation, resume, workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import subject_data

from roadworthy.assessment.assess import Run, assess
from roadworthy.store import RunFolder
from roadworthy.store.record import Record


class Expected(NamedTuple):
    quantity: str
    clean: float
    circumstance: str
    cases: int


EXPECTED = {
    "nearest_mean": Expected("accuracy", 88 / 90, "low_light", 270),
    # precision is 1 at the 87 of COCO's 101 recalls that lie at or below 26/30
    "box_finder": Expected("ap50", 87 / 101, "haze", 60),
    "box_tracker": Expected("mota", 1 - 4 / 120, "haze", 30),
    "tone_words": Expected("wer", 2 / 79, "street", 60),
    "booking": Expected("success_rate", 43 / 45, "typing", 135),
}


@pytest.fixture(scope="module", params=EXPECTED)
def subject(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Run]:
    """A subject's name, its assessment file, and its first run."""
    file = subject_data.place(request.param, tmp_path_factory.mktemp(request.param))
    return request.param, file, assess(file)


def findings_of(run: Run) -> bytes:
    return (run.folder / "findings.json").read_bytes()


def chunk_folders(root: Path) -> list[Path]:
    """Those that are whole: one that is still being written may hold all its files already."""
    found = (p.parent for p in (root / ".cache").glob("*/*/chunk.json"))
    return sorted(folder for folder in found if folder.suffix != ".partial")


def test_clean_performance_is_the_one_that_the_data_was_made_for(subject):
    name, _, run = subject
    expected = EXPECTED[name]
    cases = run.record.cases
    assert (cases.total, cases.computed) == (expected.cases, expected.cases)
    assert (cases.from_cache, cases.failed, cases.failures) == (0, 0, [])
    assert run.finding(expected.quantity).value == pytest.approx(expected.clean, abs=1e-12)


def test_the_transform_lowers_performance_and_a_stronger_level_lowers_it_more(subject):
    name, _, run = subject
    expected = EXPECTED[name]
    at = [
        run.finding(expected.quantity, circumstance=expected.circumstance, level=level).value
        for level in (1, 3)
    ]
    values = [run.finding(expected.quantity).value, *at]
    drops = [
        run.finding("relative_drop", circumstance=expected.circumstance, level=level).value
        for level in (1, 3)
    ]
    assert values == sorted(values, reverse=expected.quantity != "wer")
    assert values[0] != values[2]
    assert 0 <= drops[0] <= drops[1]
    assert drops[1] > 0.4


def test_every_finding_has_an_interval_or_a_reason(subject):
    _, _, run = subject
    recorded = Record.read(run.folder).findings
    assert len(recorded) == len(run.record.findings) > 5
    for finding in recorded:
        assert finding.interval is not None or finding.reason
        if finding.interval is not None:
            assert finding.interval.low <= finding.value <= finding.interval.high


def test_a_second_run_computes_nothing_and_finds_the_same(subject):
    name, file, run = subject
    before = findings_of(run)
    again = assess(file)
    assert again.record.cases.computed == 0
    assert again.record.cases.from_cache == EXPECTED[name].cases
    assert again.folder == run.folder
    assert findings_of(again) == before


def test_a_run_that_lost_chunks_computes_only_those_and_finds_the_same(subject):
    _, file, run = subject
    before = findings_of(run)
    folders = chunk_folders(run.folder.parent)
    for folder in folders[::2]:
        shutil.rmtree(folder)
    again = assess(file)
    assert 0 < again.record.cases.computed < again.record.cases.total
    assert findings_of(again) == before


def test_two_workers_find_exactly_what_one_finds(subject, tmp_path):
    _, file, run = subject
    shared = assess(file, runs=tmp_path / "runs", workers=2)
    assert shared.record.cases.computed == run.record.cases.total
    assert shared.folder.name == run.folder.name
    assert findings_of(shared) == findings_of(run)


def test_the_run_folder_can_be_moved_and_read_without_the_cache(subject, tmp_path):
    _, _, run = subject
    moved = Path(shutil.copytree(run.folder, tmp_path / "moved"))
    folder = RunFolder.open(moved)
    assert len(folder.cases()["case"]) == run.record.cases.total
    assert [f.to_dict() for f in Record.read(moved).findings] == [
        f.to_dict() for f in run.record.findings
    ]


def test_a_supervisor_of_class_scores_applies_where_there_are_some_and_says_why_elsewhere(subject):
    name, _, run = subject
    stands = {s["name"]: s for s in run.record.plain()["sections"]["supervision"]["supervisors"]}
    if name == "tone_words":
        assert stands == {}
    elif name == "nearest_mean":
        assert stands["max_softmax"]["applicable"]
        about = {f.quantity for f in run.record.findings if f.about.supervisor == "max_softmax"}
        assert about >= {"auc_failure", "auc_shift"}
    else:
        kind = {"box_finder": "boxes", "box_tracker": "tracks", "booking": "episode"}[name]
        reason = f"it reads class scores, and the module gives {kind}"
        assert stands["max_softmax"]["because"] == reason


def test_a_run_killed_by_the_system_goes_on_and_ends_with_the_same_findings(tmp_path):
    file = subject_data.place("nearest_mean", tmp_path / "user")
    whole = assess(file, runs=tmp_path / "whole")
    root = tmp_path / "killed"
    code = "import sys; from roadworthy.assessment.assess import assess; assess(sys.argv[1], runs=sys.argv[2])"
    environment = {
        **os.environ,
        "NEAREST_MEAN_HOLDS_AFTER": "3",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    process = subprocess.Popen([sys.executable, "-c", code, str(file), str(root)], env=environment)
    deadline = time.monotonic() + 120
    while len(chunk_folders(root)) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -9
    kept = len(chunk_folders(root))
    assert 3 <= kept < 15
    assert not list(root.glob("*/run.json"))
    resumed = assess(file, runs=root)
    assert resumed.record.cases.from_cache >= 60
    assert resumed.record.cases.computed > 0
    assert findings_of(resumed) == findings_of(whole)
    assert not list((root / ".cache").glob("*/*.partial"))


def test_the_dialogue_is_disturbed_inside_the_loop_and_the_user_is_not_assessed(tmp_path):
    run = assess(subject_data.place("booking", tmp_path))
    modules = {m["name"]: m["assessed"] for m in run.record.plain()["subject"]["modules"]}
    assert modules == {"user": False, "nlu": True, "policy": True}
    cases = RunFolder.open(run.folder).cases()
    clean = cases["circumstance"] == ""
    turns = [int(text.split(" ")[0]) for text in cases["prediction"][clean]]
    # whoever is understood is done at once; "budget" is asked for until the steps are spent
    assert sorted(set(turns)) == [1, 3]
    assert turns.count(3) == 2
