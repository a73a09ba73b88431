"""`roadworthy simulate` on tables: the score that cbpe reads, rows that are in two tables, alarms that came too early."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("quick_alarms")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Clean rows, fog and rain; a score that tells them apart, and one that falls with confidence."""
    rng, rows = np.random.default_rng(0), [800, 400, 400]
    kind = np.repeat(["clean", "fog", "rain"], rows)
    energy = rng.normal(np.repeat([0.0, 2.5, 2.0], rows))
    right = rng.random(1600) < np.repeat([0.95, 0.4, 0.6], rows)
    unsure = np.clip(rng.beta(1, 8, 1600) + 0.2 * ~right, 0, 1)
    lines = [
        f"{k},{int(r)},{e:.4f},{u:.4f}"
        for k, r, e, u in zip(kind, right, energy, unsure, strict=True)
    ]
    (tmp_path / "scores.csv").write_text(
        "\n".join(["kind,correct,energy,max_softmax", *lines]) + "\n"
    )
    return tmp_path / "scores.csv"


def cited(content: dict, words: str) -> bool:
    return any(words in note for note in content["notes"])


def test_a_score_that_cbpe_would_read_and_that_nobody_named_is_explained(cli, tmp_path, table):
    table.write_text(table.read_text().replace("max_softmax", "knn"))
    file, text = (
        tmp_path / "s.yaml",
        "stream: {scores: scores.csv, kinds: [fog], shift: {constant: 0.5}, events: 400}\n",
    )
    file.write_text(text + "estimators: [event_tree, cbpe]\n")
    answer = cli("simulate", file)
    said = " ".join(answer.err.split())
    assert (
        answer.code == 2
        and "s.yaml:2: estimators[1]: cbpe reads the classifier's confidence from a score" in said
    )
    assert (
        "no score 'max_softmax'; it has energy, knn" in said
        and "confidence_from: energy, or leave cbpe out" in said
    )
    file.write_text(text.replace("fog", "fgo") + "estimators: [event_tree, cbpe]\n")
    assert (
        "stream.kinds: no row is of kind 'fgo' (did you mean 'fog'?)" in cli("simulate", file).err
    )
    file.write_text(text + "estimators: [event_tree, cbpe]\nconfidence_from: nkn\n")
    assert "s.yaml:3: confidence_from: cbpe reads" in " ".join(cli("simulate", file).err.split())
    file.write_text(text + "estimators: [event_tree, cbpe]\nconfidence_from: knn\n")
    content = json.loads(cli("simulate", file, "--json").out)
    assert content["cases"][0]["errors"]["cbpe"]["accuracy"]["told"] == 1.0


def test_a_score_that_rises_with_confidence_is_refused_with_what_to_give(cli, tmp_path, table):
    """Confidence itself, where 1 minus it was expected: cbpe would call doubtful answers right, and nobody would know why."""
    header, *lines = table.read_text().splitlines()
    turned = [
        f"{left},{1 - float(unsure):.4f}"
        for left, _, unsure in (line.rpartition(",") for line in lines)
    ]
    table.write_text("\n".join([header.replace("max_softmax", "conf"), *turned]) + "\n")
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: {scores: scores.csv, shift: {constant: 0.5}, events: 400}\nestimators: [event_tree, cbpe]\n"
        "confidence_from: conf\n"
    )
    answer = cli("simulate", file)
    said = " ".join(answer.err.split())
    assert (
        answer.code == 2
        and "s.yaml:3: confidence_from: cbpe reads confidence from a score that falls with it"
        in said
    )
    assert "right more often where conf is high: add a column of 1 - conf" in said


def test_the_score_that_cbpe_reads_may_be_missing_in_some_rows(cli, tmp_path, table):
    lines = table.read_text().splitlines()
    lines[3:90:7] = [line.rpartition(",")[0] + "," for line in lines[3:90:7]]
    table.write_text("\n".join(lines) + "\n")
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: {scores: scores.csv, shift: {constant: 0.5}, events: 400}\nestimators: [event_tree, cbpe]\n"
    )
    answer = cli("simulate", file, "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["cases"][0]["errors"]["cbpe"]["accuracy"]["told"] == 1.0


def test_rows_that_are_calibrated_on_and_drawn_from_are_told(cli, tmp_path, table):
    lines = table.read_text().splitlines()
    (tmp_path / "half.csv").write_text("\n".join([lines[0], *lines[1::2]]) + "\n")
    (tmp_path / "rest.csv").write_text("\n".join([lines[0], *lines[2::2]]) + "\n")
    (tmp_path / "link.csv").symlink_to(table)
    file, text = (
        tmp_path / "s.yaml",
        "stream: {scores: scores.csv, shift: {constant: 0.5}, events: 400}\n",
    )
    for calibration, shared in (
        ("scores: scores.csv", "1,600 of 1,600"),
        ("scores: link.csv, without: [fog]", "1,200 of 1,600"),
        ("scores: half.csv", "800 of 1,600"),
    ):
        file.write_text(f"{text}calibration: {{{calibration}}}\nestimators: [event_tree]\n")
        notes = json.loads(cli("simulate", file, "--json").out)["notes"]
        assert any(
            note.startswith(f"{shared} rows to draw from are calibrated on as well")
            for note in notes
        ), notes
    file.write_text(
        text.replace("scores.csv", "rest.csv")
        + "calibration: {scores: half.csv}\nestimators: [event_tree]\n"
    )
    assert not cited(json.loads(cli("simulate", file, "--json").out), "as well")
    file.write_text(text + "estimators: [event_tree]\n")
    assert not cited(json.loads(cli("simulate", file, "--json").out), "as well")


def test_alarms_under_a_shift_that_is_tolerable_are_no_false_ones(cli, tmp_path, table):
    """Half of the events are shifted and cost just less than is tolerable, so that many a window looks as if they cost more."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "stream: {scores: scores.csv, shift: [{constant: 0.0, events: 2000}, {constant: 0.5, events: 8000}]}\n"
        "risk: {costs: {wrong: 10}, unit: EUR per case, tolerable: 2.9}\nestimators: [event_tree]\n"
        "alarm: {false_alarms: 1 per week, events_per_day: 2000}\n"
    )
    said = " ".join(cli("simulate", file, "--out", tmp_path / "out").out.split())
    alarms = json.loads((tmp_path / "out" / "result.json").read_text())["cases"][0]["alarms"]
    assert (alarms["due"], alarms["false"], alarms["quiet_events"]) == (0, 0, 2000)
    assert alarms["under_tolerable_shift"] > 0 and alarms["tolerable_shift_events"] == 8000
    assert "Alarms: never due" in said and "Without shift: 0 false in 2,000 events." in said
    assert (
        f"Under shift that is still tolerable: {alarms['under_tolerable_shift']} in 8,000 events"
        in said
    )
    file.write_text(file.read_text().replace("{constant: 0.0, events: 2000}, ", ""))
    assert "No window is without shift" in " ".join(cli("simulate", file).out.split())
