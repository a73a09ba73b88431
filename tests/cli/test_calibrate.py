"""From a table of scores to a bundle: what is learned, what is written, and what is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import made_scores as scores
import numpy as np
import pyarrow.parquet as pq
import pytest
from made_scores import EXAMPLE

import roadworthy
from roadworthy.analysis.risk.tree import expectation
from roadworthy.cli.commands.calibrate import alarm_in_words
from roadworthy.cli.options import chosen_tree
from roadworthy.data.scores import read_scores
from roadworthy.monitor import Bundle
from roadworthy.monitor.compile import NEEDS, summarise
from roadworthy.statistics import wilson

pytestmark = pytest.mark.usefixtures("quick_alarms")

EURO = ("--cost", "right=635", "--cost", "wrong=6735", "--unit", "EUR per patient")
TREE = """
unit: EUR per patient
event: shift
branches:
  shifted: {p: p_shift, then: {event: answer, branches: {
    right: {p: accuracy_shifted, then: {outcome: found, cost: 635}},
    wrong: {then: {outcome: missed, cost: 6735}}}}}
  clean: {then: {event: answer, branches: {
    right: {p: accuracy_clean, then: {outcome: found, cost: 635}},
    wrong: {then: {outcome: missed, cost: 6735}}}}}
constants: {spare: 0.5}
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return scores.calibration(tmp_path / "scores.csv")


def answered(cli, *arguments: object) -> dict:
    said = cli("calibrate", *arguments, "--json")
    assert said.code == 0 and said.err == "", said
    return json.loads(said.out)


def test_what_is_learned_is_what_stands_in_the_table(cli, tmp_path):
    file = EXAMPLE / "calibration.parquet"
    found = answered(cli, file, "--out", tmp_path / "b.json", "--events-per-day", 3000)
    rows = pq.read_table(file).to_pydict()
    kinds, right = np.array(rows["kind"]), np.array(rows["correct"])
    assert {k["kind"]: (k["rows"], k["accuracy"]) for k in found["kinds"]} == {
        k: (int((kinds == k).sum()), pytest.approx(right[kinds == k].mean()))
        for k in set(rows["kind"])
    }
    clean, *others = found["kinds"]
    assert clean["kind"] == "clean" and clean["auc"] is None
    assert all(0.8 < k["auc"] <= 1 and k["low"] < k["accuracy"] < k["high"] for k in others)
    assert 0.7 < found["coverage_on_kinds_left_out"]["observed"] <= 1
    assert found["alarm"]["events_per_day"] == 3000 and found["tolerable"] == pytest.approx(0.152)


def test_the_command_and_the_public_function_make_the_same_bundle(cli, table, tmp_path):
    stages: list[str] = []
    bundle = roadworthy.calibrate(table, progress=stages.append)
    assert answered(cli, table)["bundle_id"] == bundle.id and len(stages) == 3
    assert Bundle.load(tmp_path / "scores.bundle.json").id == bundle.id
    bundle.save(tmp_path / "again.json")
    assert Bundle.load(tmp_path / "again.json").id == bundle.id


def test_the_area_under_the_curve_is_that_of_two_normals(table):
    bundle = roadworthy.calibrate(table)
    found = summarise(bundle, read_scores(table, needs=NEEDS))
    assert found[1].auc == pytest.approx(0.983, abs=0.015)  # Phi(3 / sqrt 2)


def test_groups_widen_the_intervals(cli, tmp_path):
    rng = np.random.default_rng(0)
    good = rng.random(80) < 0.7
    rows = [
        f"{k},p{i % 80},{int(good[i % 80] == (rng.random() < 0.9))},{rng.normal(3 * (k == 'fog')):.4f}"
        for i, k in enumerate(["clean"] * 400 + ["fog"] * 200)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["kind,group,correct,knn", *rows]) + "\n")
    clean = answered(cli, tmp_path / "t.csv")["kinds"][0]
    plain = wilson(round(clean["accuracy"] * clean["rows"]), clean["rows"])
    assert clean["high"] - clean["low"] > 1.3 * (plain.high - plain.low)


def test_defaults_that_were_chosen_are_noted_with_their_option(cli, table):
    notes = " ".join(answered(cli, table)["notes"])
    assert "--tolerable" in notes and "--events-per-day" in notes
    notes = " ".join(answered(cli, table, "--tolerable", 0.2, "--events-per-day", 500)["notes"])
    assert "--tolerable" not in notes and "--events-per-day" not in notes


def test_events_per_day_come_from_the_times_of_the_table(cli, table, tmp_path):
    header, *rows = table.read_text().splitlines()
    timed = [f"{header},time", *(f"{row},{1.7e9 + 60 * i}" for i, row in enumerate(rows))]
    (tmp_path / "timed.csv").write_text("\n".join(timed) + "\n")
    found = answered(cli, tmp_path / "timed.csv")
    assert found["alarm"]["events_per_day"] == pytest.approx(1440, rel=0.01)
    assert not any("--events-per-day" in note for note in found["notes"])


def test_further_windows_and_a_prior_stand_in_the_bundle(cli, table, tmp_path):
    options = ("--half-life", 75, "--adaptive", "--prior", 0.05)
    found = answered(cli, table, *options)
    made = Bundle.load(tmp_path / "scores.bundle.json")
    assert [w["window"] for w in found["windows"]] == ["100", "1000", "decay", "adaptive"]
    assert made.prior == pytest.approx((0.05, 20.0)) and found["forecast"]["rate"] == 0.05
    right = {kind: made.calibration.accuracy(kind) for kind in made.calibration.kinds}
    shifted = (right["fog"] + right["snow"]) / 2
    expected = 1 - 0.95 * right["clean"] - 0.05 * shifted
    assert found["forecast"]["risk"] == pytest.approx(expected, abs=0.002)
    assert "Forecast with 5.0% of events shifted" in cli("calibrate", table, *options).out


def test_costs_price_right_and_wrong_answers(cli, table, tmp_path):
    found = answered(cli, table, *EURO, "--tolerable", 1925)
    assert (found["unit"], found["tolerable"]) == ("EUR per patient", 1925)
    said = alarm_in_words(Bundle.load(tmp_path / "scores.bundle.json"))
    assert "1,925 EUR per patient" in said and "false-alarm budget" in said


def test_a_tree_in_a_file_is_the_same_as_its_costs(tmp_path):
    (tmp_path / "tree.yaml").write_text(TREE)
    tree, constants, _ = chosen_tree([], None, tmp_path / "tree.yaml")
    plain, _, _ = chosen_tree(["right=635", "wrong=6735"], "EUR per patient", None)
    at = dict(zip(plain.parameters, np.random.default_rng(0).random((3, 50)), strict=True))
    np.testing.assert_allclose(expectation(tree, at), expectation(plain, at))
    assert tree.unit == plain.unit and constants == {"spare": 0.5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a tree"),
        ("- 1\n", "expected a tree"),
        ("event: [\n", r"tree.yaml:2: this is not valid YAML"),
        ("event: shift\nconstants: {a: b}\n", "names with numbers"),
        ("event: shift\nconstants: {p_shift: 0.1}\n", "p_shift is counted"),
        ("event: shift\nbranches: {}\n", "tree.yaml"),
        (TREE.replace("p: p_shift", "p: p_shfit"), "did you mean 'p_shift'"),
        (TREE.replace("wrong: {then", "wrong: {p: 0.9, then"), "add up to"),
    ],
)
def test_a_tree_that_cannot_be_used_is_refused(tmp_path, text, says):
    (tmp_path / "tree.yaml").write_text(text)
    with pytest.raises(ValueError, match=says):
        chosen_tree([], None, tmp_path / "tree.yaml")


def test_the_cost_that_is_assumed_for_the_other_call_is_noted():
    assert chosen_tree(["wrong=40", "necessary=5", "unnecessary=1"], None, None).notes == ()
    (note,) = chosen_tree(["wrong=40", "necessary=5"], None, None).notes
    assert "unnecessary calls" in note and "Using 5" in note


def test_the_detector_whose_alarms_call_a_person_is_counted(cli, table, tmp_path):
    costs = ("--cost", "wrong=40", "--cost", "necessary=5", "--cost", "unnecessary=1")
    assert any("--detector" in note for note in answered(cli, table, *costs)["notes"])
    answered(cli, table, *costs, "--detector", "energy", "--threshold", 2)
    deployed = Bundle.load(tmp_path / "scores.bundle.json").calibration.deployed
    assert deployed is not None and (deployed.name, deployed.threshold) == ("energy", 2.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind,correct,knn\nclean,1,1\nclean,0,2\n", "all rows are clean"),
        ("kind,correct,knn\nsite A,1,1\nsite B,0,2\n", "no clean rows"),
        ("kind,knn\nclean,1\nfog,2\n", "correct"),
        ("correct,knn\n1,1\n0,2\n", "kind"),
        ("kind,correct,knn\nclean,1,1\nfog,0,inf\n", "row 2"),
        ("kind,correct,knn\nclean,1,\nfog,0,\n", "knn"),
    ],
)
def test_tables_that_cannot_be_learned_from_are_refused(cli, tmp_path, text, says):
    (tmp_path / "t.csv").write_text(text)
    said = cli("calibrate", tmp_path / "t.csv")
    assert said.code == 2 and says in said.err and said.out == ""
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--cost", "wrong"), "a name and a number"),
        (("--cost", "wrong=inf"), "a name and a number"),
        (("--cost", "right=1"), "--cost wrong="),
        (("--cost", "wrong=1", "--cost", "wrong=2"), "given twice"),
        (("--cost", "wrong=1", "--cost", "late=2"), "unknown outcome 'late'"),
        (("--cost", "wrong=1", "--cost", "right=2"), "swap"),
        (("--tree", "tree.yaml", "--cost", "wrong=1"), "exclude each other"),
        (("--unit", "EUR"), "--cost right="),
        (("--tolerable", "1"), "tolerable must lie between"),
        (("--tolerable", "nan"), "nan"),
        (("--tolerable", "0.9"), "cannot be exceeded"),
        (("--false-alarms", "seldom"), "1 per month"),
        (("--events-per-day", "0"), "--events-per-day"),
        (("--events-per-day", "nan"), "--events-per-day"),
        (("--window", "1000000"), "--window"),
        (("--half-life", "0.5"), "half-life"),
        (("--prior", "0"), "above 0 and below 1"),
        (("--threshold", "3"), "detector"),
        (("--detector", "energy"), "no cost depends on an alarm"),
        (("--cost", "wrong=4", "--cost", "necessary=1", "--detector", "enrgy"), "did you mean"),
        (("--cost", "wrong=4", "--cost", "necessary=1", "--detector", "energy"), "threshold"),
        (("--out", "nowhere/b.json"), "no folder"),
        (("--out", "."), "is a folder"),
    ],
)
def test_options_that_cannot_be_used_are_refused(cli, table, tmp_path, options, says):
    with contextlib.chdir(tmp_path):
        said = cli("calibrate", table.name, *options)
    assert said.code == 2 and says in said.err and said.out == "", said
    assert not list(tmp_path.glob("*.json"))


def test_a_bundle_is_overwritten_and_has_an_ending(cli, table, tmp_path):
    first = answered(cli, table, "--out", tmp_path / "b.json")
    again = answered(cli, table, "--out", tmp_path / "b.json", "--tolerable", 0.2)
    assert first["bundle_id"] != again["bundle_id"]
    said = cli("calibrate", table, "--out", tmp_path / "b.onnx")
    assert said.code == 2 and ".json" in said.err


@pytest.mark.parametrize("name", ["scores.csv", "link.csv"])
def test_the_table_itself_is_not_overwritten(cli, table, tmp_path, name):
    (tmp_path / "link.csv").symlink_to(table)
    before = table.read_text()
    said = cli("calibrate", table, "--out", tmp_path / name)
    assert said.code == 2 and "is read" in said.err and table.read_text() == before


def test_outcomes_that_are_reversed_are_warned_of(cli, table, tmp_path):
    assert answered(cli, table)["warnings"] == []
    header, *rows = table.read_text().splitlines()
    turned = [r.replace(",1,", ",x,").replace(",0,", ",1,").replace(",x,", ",0,") for r in rows]
    (tmp_path / "turned.csv").write_text("\n".join([header, *turned]) + "\n")
    assert any("right less often" in w for w in answered(cli, tmp_path / "turned.csv")["warnings"])


def test_few_clean_rows_promise_no_rate_of_false_alarms(tmp_path):
    bundle = roadworthy.calibrate(scores.calibration(tmp_path / "t.csv", clean=120, shifted=80))
    assert "too few to promise" in alarm_in_words(bundle)


def test_a_batch_of_one_score_is_one_group(cli, tmp_path):
    """Rows of a batch carry the batch's score: intervals allow for it, in the table and on a stream."""
    rng, size, window, windows = np.random.default_rng(3), 16, 800, 12
    per = window // size

    def rows(shifted: np.ndarray, *, labelled: bool) -> tuple[list[str], np.ndarray]:
        score = rng.normal(np.where(shifted, 2.0, 0.0))
        right = rng.random((len(shifted), size)) < np.where(shifted, 0.5, 0.95)[:, None]
        lines = [
            f"{'fog' if of else 'clean'},{int(a)},b{n},{s:.5f}" if labelled else f"{s:.5f}"
            for n, (of, s, answers) in enumerate(zip(shifted, score, right, strict=True))
            for a in answers
        ]
        return lines, right

    learned, _ = rows(np.arange(240) >= 120, labelled=True)
    shifted = rng.random(per * windows) < np.repeat([0.0, 0.2, 0.6], per * windows // 3)
    seen, right = rows(shifted, labelled=False)
    table, stream = tmp_path / "table.csv", tmp_path / "stream.csv"
    table.write_text("\n".join(["kind,correct,group,detector", *learned]) + "\n")
    stream.write_text("\n".join(["detector", *seen]) + "\n")
    found = roadworthy.replay(roadworthy.calibrate(table, window=window), stream)
    truth = right.reshape(windows, -1).mean(axis=1)
    held = [
        w.state.accuracy_low <= t <= w.state.accuracy_high
        for w, t in zip(found.windows, truth, strict=True)
    ]
    assert sum(held) >= windows - 1
    assert found.at_end[0].autocorrelation_time == pytest.approx(size, rel=0.8)
