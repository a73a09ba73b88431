"""`roadworthy simulate` shows what estimators bid one beware of, why they cannot tell, and what batches say."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from roadworthy.analysis.risk.rates.base import OUTSIDE

DETECTOR = """stream:
  detector: {tpr: 0.8, tnr: 0.8}
  shift: {constant: 0.0}
  events: 4000
estimators: [rogan_gladen, mean]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "simulation.yaml"
    path.write_text(DETECTOR)
    return path


def test_flags_are_shown_with_their_share_of_windows_and_their_meaning(cli, file, tmp_path):
    content = json.loads(cli("simulate", file, "--json", "--out", tmp_path / "out").out)
    flags = content["cases"][0]["flags"]
    assert list(flags) == ["rogan_gladen"] and "below the FPR" in content["flags"][OUTSIDE]
    # without shift the share of alarms is below the FPR about every other time
    assert 0.2 < flags["rogan_gladen"][OUTSIDE] < 0.8
    rows = list(csv.DictReader((tmp_path / "out" / "windows.csv").open()))
    below = [float(row["mean_rate"]) < 0.2 for row in rows]
    marked = [OUTSIDE in row["rogan_gladen_flags"] for row in rows]
    assert sum(a == b for a, b in zip(below, marked, strict=True)) >= 30 and sum(marked) / len(
        rows
    ) == pytest.approx(flags["rogan_gladen"][OUTSIDE])
    said = " ".join(cli("simulate", file).out.split())
    share = f"{flags['rogan_gladen'][OUTSIDE]:.0%}"
    assert "Flagged" in said and f"a {share}" in said
    assert (
        f"a {OUTSIDE} (Rogan-Gladen {share} of windows): the share of alarms is below the FPR"
        in said
    )


def test_a_detector_that_says_nothing_is_refused_by_all_with_the_reason(cli, file):
    file.write_text(
        DETECTOR.replace("tpr: 0.8, tnr: 0.8", "tpr: 0.3, tnr: 0.6").replace(
            "[rogan", "[event_tree, rogan"
        )
    )
    (case,) = json.loads(cli("simulate", file, "--json").out)["cases"]
    assert {name: by["rate"]["told"] for name, by in case["errors"].items()} == {
        "event_tree": 0.0,
        "rogan_gladen": 0.0,
        "mean": 0.0,
    }
    assert all("do not tell shift from none" in reason for reason in case["cannot_tell"].values())
    assert "Cannot tell: the scores do not tell shift from none" in " ".join(
        cli("simulate", file).out.split()
    )


def test_a_detector_that_is_turned_round_is_said_to_be(cli, file):
    file.write_text(DETECTOR.replace("tpr: 0.8, tnr: 0.8", "tpr: 0.1, tnr: 0.4"))
    (note,) = json.loads(cli("simulate", file, "--json").out)["notes"]
    assert (
        note.startswith("TPR + TNR = 0.50 <= 1")
        and "turns it round; a missing alarm is taken for one (TPR 0.9" in note
    )


BATCHED = """stream:
  detector: {tpr: 0.8, tnr: 0.8}
  shift: {constant: 0.25}
  events: 16000
  batches: 16
estimators: [batches, mixed_batches]
batch: 16
window: 800
"""


@pytest.mark.parametrize(
    "together, right, wrong", [(16, "batches", "mixed_batches"), (1, "mixed_batches", "batches")]
)
def test_uniform_and_mixed_batches_are_told_by_their_own_estimator(
    cli, file, together, right, wrong
):
    file.write_text(BATCHED.replace("  batches: 16", f"  batches: {together}"))
    (case,) = json.loads(cli("simulate", file, "--json").out)["cases"]
    errors = {name: by["rate"] for name, by in case["errors"].items()}
    assert errors[right]["coverage"] >= 0.9 and errors[right]["mean_absolute"] < 0.06
    assert errors[wrong]["mean_absolute"] > 1.5 * errors[right]["mean_absolute"]
    doubted = case["flags"]["batches"].get(
        "batches look mixed: it is doubtful that each is all clean or all shifted", 0.0
    )
    assert doubted == (1.0 if together == 1 else 0.0)


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            "batch: 16\n",
            "",
            "estimators[0]: batches judges events together; say how many, as in batch: 32",
        ),
        (
            "[batches, mixed_batches]",
            "[mean]",
            "batch: no estimator of this file judges batches; name batches or mixed_batches",
        ),
        (
            "window: 800",
            "window: 100",
            "batch: a window of 100 does not hold whole batches of 16; take window: 112",
        ),
        (
            "[batches,",
            "[batch,",
            "estimators[0]: no estimator is called 'batch' (did you mean 'batches'?)",
        ),
    ],
)
def test_batches_that_do_not_fit_are_refused_by_their_line(cli, file, old, new, said):
    file.write_text(BATCHED.replace(old, new))
    answer = cli("simulate", file)
    assert answer.code == 2 and said in " ".join(answer.err.split())
