"""Options of a calibration that will not do are refused before any work, and the same table makes the same bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.commands import calibrate
from roadworthy.monitor.bundle import Bundle

FAIL_SAFE = ("--cost", "wrong=9", "--cost", "necessary=2", "--cost", "unnecessary=3")
pytestmark = pytest.mark.usefixtures("quick_alarms")


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [("clean", rng.random() < 0.95, rng.normal()) for _ in range(150)]
    rows += [("fog", rng.random() < 0.4, rng.normal(3.0)) for _ in range(80)]
    lines = [f"{kind},{int(right)},{energy:.4f}" for kind, right, energy in rows]
    path = tmp_path / "scores.csv"
    path.write_text("kind,correct,energy\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--events-per-day", "0"), "--events-per-day 0: a number above 0"),
        (("--events-per-day", "-5"), "--events-per-day -5: a number above 0"),
        (("--events-per-day", "inf"), "--events-per-day inf: a number above 0"),
        (("--events-per-day", "nan"), "--events-per-day nan: a number above 0"),
        (("--events-per-day", "1e-300"), "between 0.001 and 1e+12 events a day"),
        (("--events-per-day", "1e300"), "between 0.001 and 1e+12 events a day"),
        (("--cost", "right=nan", "--cost", "wrong=3"), "--cost right=nan: a name and a number"),
        (("--cost", "wrong=inf"), "--cost wrong=inf: a name and a number"),
        (("--threshold", "3"), "--threshold 3: whose? Name the score with --detector"),
        (("--detector", "energy"), "--detector energy: no cost depends on an alarm"),
        ((*FAIL_SAFE, "--detector", "enrgy"), "no score 'enrgy' (did you mean 'energy'?)"),
        (
            (*FAIL_SAFE, "--detector", "energy"),
            "--detector energy: above which score does it raise an alarm?",
        ),
        (
            (*FAIL_SAFE, "--detector", "energy", "--threshold", "inf"),
            "--threshold: a number was expected, found inf",
        ),
        (("--tolerable", "nan"), "--tolerable: a tolerable cost is a number, found nan"),
        (("--out", "nowhere/b.json"), "there is no folder nowhere"),
        (("--out", "."), "is a folder; name a file"),
        (
            ("--false-alarms", "0 per month"),
            "--false-alarms: false alarms are given as '1 per month'",
        ),
        (
            ("--group-events", "0"),
            "--group-events: of one group 1 event or more come in a row, found 0",
        ),
        (("--group-events", "200"), "scores.csv has neither groups nor times"),
        (("--false-alarms", "often"), "--false-alarms: false alarms are given as '1 per month'"),
        (("--out", "scores.csv", "--force"), "is read and would be lost"),
    ],
)
def test_numbers_and_places_that_are_none_are_usage_errors(
    cli, tmp_path, monkeypatch, scores, options, says
):
    monkeypatch.chdir(tmp_path)
    said = cli("calibrate", scores, *options)
    assert said.code == 2 and says in said.err and said.out == ""
    assert "fault of roadworthy" not in said.err and said.err.count("--cost") <= 1
    assert [p.name for p in tmp_path.iterdir()] == ["scores.csv"]


@pytest.mark.parametrize("name", ["link.csv", "hard.csv", "folder/../scores.csv"])
def test_a_table_is_not_written_over_by_what_is_learnt_from_it_whatever_it_is_called(
    cli, tmp_path, scores, name
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(scores)
    (tmp_path / "hard.csv").hardlink_to(scores)
    before = scores.read_text()
    for first, second in ((scores, tmp_path / name), (tmp_path / name, scores)):
        said = cli("calibrate", first, "--out", second, "--force")
        assert (
            said.code == 2
            and f"--out {second} is {first}, which is read and would be lost" in said.err
        )
    assert scores.read_text() == before


def test_a_tree_is_not_written_over_by_the_bundle_that_it_is_in(cli, tmp_path, scores):
    tree = tmp_path / "tree.yaml"
    tree.write_text(
        "{event: a, branches: {x: {p: p_shift, then: {outcome: o, cost: 2}}, y: {then: {outcome: q, cost: 1}}}}"
    )
    before = tree.read_text()
    said = cli("calibrate", scores, "--tree", tree, "--out", tree, "--force")
    assert said.code == 2 and "is read and would be lost" in said.err and tree.read_text() == before


def test_numbers_in_a_tree_that_are_none_are_refused(cli, tmp_path, scores):
    branches = "{x: {p: p_shift, then: {outcome: o, cost: COST}}, y: {then: {outcome: q, cost: 1}}}"
    tree = f"{{event: a, branches: {branches}, constants: {{c: C}}}}"
    for cost, constant in ((".nan", "1"), ("0", ".nan"), ("0", ".inf")):
        (tmp_path / "tree.yaml").write_text(
            tree.replace("COST", cost).replace("C}", f"{constant}}}")
        )
        said = cli("calibrate", scores, "--tree", tmp_path / "tree.yaml")
        assert said.code == 2 and "tree.yaml" in said.err, (cost, constant, said.err)


def test_a_tree_without_a_value_for_a_parameter_is_told_of_the_tree_and_not_of_the_table(
    cli, tmp_path, scores
):
    branches = "{x: {p: p_attack, then: {outcome: o, cost: 2}}, y: {then: {outcome: q, cost: 1}}}"
    tree = tmp_path / "tree.yaml"
    for constants, wrong in (
        (
            "{}",
            "no stream tells the tree's p_attack; give numbers under constants, such as constants: {p_attack: 0.01}",
        ),
        ("{p_atack: 0.1}", "no stream tells the tree's p_attack"),
        (
            "{p_attack: 1.5}",
            "in the tree at a > x: p_attack must be a probability, between 0 and 1, found 1.5",
        ),
    ):
        tree.write_text(f"{{event: a, branches: {branches}, constants: {constants}}}")
        said = cli("calibrate", scores, "--tree", tree)
        assert said.code == 2 and f"tree.yaml: {wrong}" in said.err.replace("\n", " "), said.err
        assert scores.name not in said.err


def test_the_same_table_makes_the_same_bundle_whenever_that_is(cli, tmp_path, monkeypatch, scores):
    ids = []
    for name, now in (
        ("a.json", "2026-01-01T00:00:00+00:00"),
        ("b.json", "2027-01-01T00:00:00+00:00"),
    ):
        monkeypatch.setattr(calibrate, "_now", lambda now=now: now)
        said = cli("calibrate", scores, "--out", tmp_path / name, "--json")
        assert said.code == 0, said.out
        ids.append(json.loads(said.out)["bundle_id"])
        bundle = Bundle.load(tmp_path / name)
        assert bundle.id == ids[-1] and bundle.made_at == now, "when it was made is still told"
    assert ids[0] == ids[1]
    a, b = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert {key for key in a if a[key] != b[key]} == {"made_at"}


def test_how_long_groups_last_is_asked_for_where_they_differ_and_kept(cli, tmp_path):
    rng = np.random.default_rng(0)
    harder = rng.normal(0.0, 0.6, 20)
    rows = [("clean", rng.random() < 0.95, rng.normal(harder[i % 20]), i % 20) for i in range(400)]
    rows += [("fog", rng.random() < 0.4, rng.normal(3.0), i % 20) for i in range(100)]
    table = tmp_path / "drives.csv"
    table.write_text(
        "kind,correct,energy,drive\n"
        + "".join(f"{k},{int(r)},{e:.4f},d{d}\n" for k, r, e, d in rows)
    )
    given = ("calibrate", table, "--group", "drive", "--json")
    plain, asked = (
        json.loads(cli(*given, *more, "--force").out) for more in ((), ("--group-events", "80"))
    )
    (said,) = [note for note in plain["notes"] if "--group-events" in note]
    assert (
        said.startswith("clean scores differ between the 20 groups, by ")
        and plain["alarm"]["group_events"] is None
    )
    assert (
        not [note for note in asked["notes"] if "--group-events" in note]
        and asked["alarm"]["group_events"] == 80
    )
    assert asked["alarm"]["burden"] > plain["alarm"]["burden"] + 1.0, (
        "what hard groups look like is more to explain"
    )


def test_whose_alarms_call_a_person_stands_in_the_bundle_and_is_said(cli, scores):
    said = json.loads(
        cli(
            "calibrate", scores, *FAIL_SAFE, "--detector", "energy", "--threshold", "2", "--json"
        ).out
    )
    bundle = Bundle.load(Path(said["bundle"]))
    assert bundle.calibration.deployed is not None and bundle.calibration.deployed.threshold == 2.0
    assert said["notes"][0] == "the alarms that call a person are those of energy above 2"
    assert said["notes"][0] in bundle.made["notes"]


def test_where_nobody_says_whose_alarms_call_a_person_that_is_said(cli, scores):
    said = json.loads(cli("calibrate", scores, *FAIL_SAFE, "--json").out)
    assert said["notes"][0].startswith("whose alarms call a person nobody said")
    assert Bundle.load(Path(said["bundle"])).calibration.deployed is None
    assert not any(
        "alarms call" in note
        for note in json.loads(cli("calibrate", scores, "--json").out)["notes"]
    )


@pytest.mark.parametrize("threshold", ["-99", "99"])
def test_an_alarm_that_tells_nothing_is_doubted_since_it_may_be_the_other_way_round(
    cli, scores, threshold
):
    said = json.loads(
        cli(
            "calibrate",
            scores,
            *FAIL_SAFE,
            "--detector",
            "energy",
            "--threshold",
            threshold,
            "--json",
        ).out
    )
    share = "100.0%" if threshold == "-99" else "0.0%"
    assert any(
        f"raises an alarm on {share} of the clean rows and on {share} of the shifted" in w
        for w in said["warnings"]
    )
    fine = json.loads(
        cli(
            "calibrate", scores, *FAIL_SAFE, "--detector", "energy", "--threshold", "2", "--json"
        ).out
    )
    assert not any("raises an alarm on" in w for w in fine["warnings"])


def test_a_column_of_verdicts_needs_no_threshold(cli, tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        (kind, int(rng.random() < 0.8), int(rng.random() < often))
        for kind, often in (("clean", 0.1), ("fog", 0.8))
        for _ in range(150)
    ]
    table = tmp_path / "verdicts.csv"
    table.write_text(
        "kind,correct,alarm\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    )
    said = json.loads(cli("calibrate", table, *FAIL_SAFE, "--detector", "alarm", "--json").out)
    assert said["notes"][0] == "the alarms that call a person are those of alarm above 0.5"


def test_a_cost_that_is_given_twice_is_refused_and_one_that_is_not_given_is_said(
    cli, tmp_path, scores
):
    out = ("--out", tmp_path / "b.json")
    twice = cli(
        "calibrate", scores, "--cost", "wrong=40", "--cost", "right=1", "--cost", "wrong=4", *out
    )
    assert (
        twice.code == 2
        and "--cost wrong is given twice, 40 and 4; give each outcome once" in twice.err
    )
    one = cli("calibrate", scores, "--cost", "wrong=40", "--cost", "necessary=5", *out)
    assert one.code == 0, one.err
    said = (
        "nobody said what an unnecessary call of a person costs: 5 is taken, as of a necessary one"
    )
    assert (
        f"note: {said}" in one.out
        and said in json.loads((tmp_path / "b.json").read_text())["made"]["notes"]
    )
    both = cli(
        "calibrate",
        scores,
        "--cost",
        "wrong=40",
        "--cost",
        "necessary=5",
        "--cost",
        "unnecessary=6",
        *out,
    )
    assert both.code == 0 and "nobody said what an unnecessary" not in both.out
