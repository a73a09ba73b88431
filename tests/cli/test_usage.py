"""Commands that are mistyped or given the wrong file: exit code 2, what is wrong, and where to look."""

from __future__ import annotations

import json

import made_scores as scores
import pytest

from roadworthy.cli.app import run

pytestmark = pytest.mark.usefixtures("quick_alarms")


def refused(answer) -> str:
    """What is said of a mistake, which is no bug of ours."""
    assert answer.code == 2 and "bug in roadworthy" not in answer.err, answer
    return answer.err


@pytest.mark.parametrize(
    ("command", "says", "help_of"),
    [
        (("replay", "b.json", "s.csv", "--windw", "50"), "--window", "replay"),
        (("calibrate", "s.csv", "--costs", "wrong=3"), "--cost", "calibrate"),
        (("replay", "b.json", "s.csv", "--window", "3"), "found '3'", "replay"),
        (("calibrate", "s.csv", "--tolerable", "15%"), "found '15%'", "calibrate"),
        (("monitor", "b.json", "--prot", "80"), "--port", "monitor"),
        (("monitor", "b.json", "--port", "much"), "--port", "monitor"),
        (("cases", "exprt"), "exprt", "cases"),
    ],
)
def test_a_mistake_names_the_option_and_the_help_that_shows_it(cli, command, says, help_of):
    said = refused(cli(*command))
    assert says in said and f"`roadworthy {help_of} --help`" in said


def test_an_unknown_command_is_refused_with_those_there_are(cli):
    assert "calibrte" in refused(cli("calibrte", "s.csv"))
    assert "missing" in refused(cli("monitor"))


@pytest.mark.parametrize("arguments", [["monitor", "--help"], ["monitor"]])
def test_help_of_the_monitor_shows_the_options_of_the_service(arguments, capsys):
    run(arguments)
    said = capsys.readouterr().out
    assert all(part in said for part in ("bundle", "--state", "--port", "label-queue"))


def test_with_json_errors_are_json_too(cli, tmp_path):
    said = cli("replay", tmp_path / "none.json", tmp_path / "s.csv", "--json")
    found = json.loads(said.out)
    assert said.code == found["exit_code"] == 2 and found["kind"] == "BundleError"


def test_files_of_another_form_are_refused(cli, tmp_path):
    table = scores.calibration(tmp_path / "t.csv", clean=60, shifted=40)
    (tmp_path / "t.csv.gz").write_text(table.read_text())
    assert "cannot be read" in refused(cli("calibrate", tmp_path / "t.csv.gz"))
    assert "is a folder" in refused(cli("calibrate", tmp_path))
    assert cli("calibrate", table).code == 0
    bundle = tmp_path / "t.bundle.json"
    assert "expected a table" in refused(cli("calibrate", bundle))
    (tmp_path / "svc.sqlite").write_bytes(b"SQLite format 3\0\x10\0\xf8\xff" + b"\0" * 80)
    assert "not a bundle" in refused(cli("replay", tmp_path / "svc.sqlite", table))
    assert "not a bundle" in refused(cli("monitor", table))


def test_the_bundle_of_a_run_is_pointed_at(cli, tmp_path):
    within = tmp_path / "RUN" / "monitor" / "bundle.json"
    within.parent.mkdir(parents=True)
    within.write_text("{}")
    assert str(within) in refused(cli("replay", tmp_path / "RUN", tmp_path / "s.csv"))
    assert str(within) in refused(cli("monitor", tmp_path / "RUN"))
