"""From one table of answers to a verdict: in one command, from a file, and from Python."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from roadworthy import assess
from roadworthy.spec import SpecError


@pytest.fixture
def answers(tmp_path) -> Path:
    rng = random.Random(0)
    lines = ["case,label,prediction,confidence,patient,site"]
    for i in range(300):
        truth = rng.choice("abc")
        said = truth if rng.random() < 0.9 else rng.choice("abc")
        lines.append(f"i{i},{truth},{said},{rng.uniform(0.5, 1):.3f},p{i // 6},{rng.choice('XY')}")
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    return tmp_path / "answers.csv"


def right(path: Path) -> float:
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return float(np.mean([row[1] == row[2] for row in rows]))


def test_a_table_is_assessed_without_a_file(answers):
    run = assess(answers)
    found = run.finding("accuracy")
    assert found.value == pytest.approx(right(answers)) and found.groups == 50
    assert run.verdict == "no claims" and run.folder.parent == answers.parent / "runs"
    assert run.folder.name.startswith("answers-")
    assert (
        run.finding("accuracy", slice="site=X").n + run.finding("accuracy", slice="site=Y").n == 300
    )
    assert any("Groups: column patient" in note for note in run.record.notes)
    held = run.cases.to_pydict()
    rows = [line.split(",") for line in answers.read_text().splitlines()[1:]]
    assert held["prediction"] == [row[2] for row in rows] and held["truth"] == [
        row[1] for row in rows
    ]
    assert held["confidence"] == pytest.approx([float(row[3]) for row in rows])
    assert held["correct"] == [row[1] == row[2] for row in rows]
    assert held["max_softmax"] == pytest.approx([1 - float(row[3]) for row in rows])


def test_the_truth_in_the_file_serves_a_file_without_data(answers):
    file = answers.parent / "assessment.yaml"
    file.write_text(
        "subject: {task: classification, predictions: answers.csv}\nclaims: [{id: A, accuracy: {min: 0.8}}]\n"
    )
    run = assess(file)
    assert run.verdict == "met" and run.finding("accuracy").value == pytest.approx(right(answers))


def test_numbers_to_predict(tmp_path):
    rng = np.random.default_rng(0)
    truth, said = rng.normal(size=(2, 80))
    rows = "\n".join(f"{t},{s}" for t, s in zip(truth, said, strict=True))
    (tmp_path / "a.csv").write_text(f"target,output\n{rows}\n")
    found = assess(tmp_path / "a.csv").finding("rmse")
    assert found.value == pytest.approx(float(np.sqrt(np.mean((truth - said) ** 2))))


def test_names_that_are_mostly_the_opposite_are_doubted_not_stopped(tmp_path):
    rows = "\n".join(f"{'ab'[i % 2]},{'ba'[i % 2]}" for i in range(200))
    (tmp_path / "a.csv").write_text(f"label,prediction\n{rows}\n")
    run = assess(tmp_path / "a.csv")
    assert (
        run.finding("accuracy").value == 0.0 and "Check the class order" in run.record.warnings[0]
    )


def test_what_is_wrong_with_a_table_is_said_as_of_a_file(tmp_path):
    (tmp_path / "a.csv").write_text("id,label,prediction\na,x,x\na,x,x\n")
    with pytest.raises(SpecError, match="the id 'a' stands in two rows"):
        assess(tmp_path / "a.csv")
