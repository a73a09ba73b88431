"""A simulation whose truth stands in a table of its own: read as every other table, and never more than it says."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

SIMULATION = (
    "stream: {scores: s.csv, truth: t.csv, shift: {constant: 0.0}, events: 1000}\ncalibration: {scores: c.csv}\n"
    "estimators: [event_tree]\nrepeats: 1\n"
)
N = 600
KIND = np.repeat(["clean", "fog"], N)
RIGHT = np.random.default_rng(2).random(2 * N) < np.where(KIND == "clean", 0.95, 0.4)
ENERGY = np.random.default_rng(3).normal(np.where(KIND == "clean", 0.0, 3.0))


def written(path: Path, header: str, rows: Sequence[Sequence[object]]) -> None:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Scores to draw from, others to calibrate on, and a simulation of both; the truth is for tests to write."""
    written(tmp_path / "s.csv", "id,energy", [(f"e{i}", x) for i, x in enumerate(ENERGY)])
    rows = zip(
        KIND,
        RIGHT.astype(int),
        ENERGY + np.random.default_rng(4).normal(0, 0.05, 2 * N),
        strict=True,
    )
    written(tmp_path / "c.csv", "kind,correct,energy", list(rows))
    (tmp_path / "s.yaml").write_text(SIMULATION)
    return tmp_path / "s.yaml"


def truth(
    path: Path,
    *,
    outcome: Sequence[object],
    kind: Sequence[str] = KIND,
    header: str = "id,kind,correct",
) -> None:
    written(
        path, header, [(f"e{i}", k, o) for i, (k, o) in enumerate(zip(kind, outcome, strict=True))]
    )


def true_accuracy(folder: Path) -> float:
    with (folder / "windows.csv").open() as rows:
        return float(np.mean([float(row["true_accuracy"]) for row in csv.DictReader(rows)]))


def test_outcomes_that_nobody_knows_are_not_wrong_answers(cli, tmp_path, file):
    known = np.random.default_rng(5).random(2 * N) < 0.5
    truth(tmp_path / "t.csv", outcome=np.where(known, RIGHT.astype(int), ""))
    said = cli("simulate", file, "--json", "--out", tmp_path / "out")
    assert said.code == 0, said.out
    content = json.loads(said.out)
    assert true_accuracy(tmp_path / "out") == pytest.approx(
        RIGHT[known & (KIND == "clean")].mean(), abs=0.03
    )
    assert content["cases"][0]["errors"]["event_tree"]["accuracy"]["mean_absolute"] < 0.1
    assert (
        f"{int((~known).sum()):,} of 1,200 rows of s.csv have no outcome and are left out"
        in content["notes"]
    )


def test_columns_and_kinds_are_called_as_in_every_other_table(cli, tmp_path, file):
    truth(tmp_path / "t.csv", outcome=RIGHT.astype(int))
    plain = json.loads(cli("simulate", file, "--json").out)["cases"]
    kinds = np.where(KIND == "clean", "ind", KIND)
    truth(
        tmp_path / "t.csv",
        outcome=np.where(RIGHT, "yes", "no"),
        kind=kinds,
        header="ID,role,is_correct",
    )
    assert json.loads(cli("simulate", file, "--json").out)["cases"] == plain


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda t: t.replace("kind,correct", "kind,was_right"),
            "stream.truth: rows are matched by id",
        ),
        (lambda t: t.replace("clean", "sun"), "has no clean rows"),
        (lambda t: t.replace("e7,", ","), "t.csv has no row with the id 'e7'"),
        (
            lambda t: t.replace(",0\n", ",\n").replace(",1\n", ",\n"),
            "no row of t.csv says whether the answer was right",
        ),
    ],
)
def test_a_truth_that_will_not_do_is_refused_by_its_line(cli, tmp_path, file, change, says):
    truth(tmp_path / "t.csv", outcome=RIGHT.astype(int))
    (tmp_path / "t.csv").write_text(change((tmp_path / "t.csv").read_text()))
    said = cli("simulate", file)
    assert said.code == 2 and says in said.err and "s.yaml:1: stream." in said.err
