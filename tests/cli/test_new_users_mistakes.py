"""What people get wrong with calibrate, replay, simulate and monitor at first: told with what was found, where, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.app import run

pytestmark = pytest.mark.usefixtures("quick_alarms")

SHIFT = "shift: [{constant: 0.0, events: 500}, {constant: 0.5, events: 500}]"


def rows_of(*, time: str = "{}", right: tuple[str, str] = ("0", "1")) -> list[str]:
    rng = np.random.default_rng(0)
    lines = ["kind,correct,energy,id,time"]
    for i, kind in enumerate(["clean"] * 300 + ["fog"] * 100 + ["snow"] * 100):
        is_right = rng.random() < (0.95 if kind == "clean" else 0.5)
        score = rng.normal(0.0 if kind == "clean" else 3.0)
        lines.append(
            f"{kind},{right[is_right]},{score:.3f},e{i},{time.format(1_700_000_000 + 60 * i)}"
        )
    return lines


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory, quick_alarms) -> Path:
    table = written(tmp_path_factory.mktemp("mistakes") / "scores.csv", rows_of())
    assert run(["calibrate", str(table), "--json"]) == 0
    return table.with_name("scores.bundle.json")


@pytest.fixture
def today(tmp_path) -> Path:
    rng = np.random.default_rng(1)
    return written(
        tmp_path / "today.csv", ["id,energy", *(f"s{i},{rng.normal():.3f}" for i in range(200))]
    )


def refused(answer) -> str:
    """What is said; of a mistake, and not of a fault of ours."""
    assert (
        answer.code == 2
        and "fault of roadworthy" not in answer.err
        and "Traceback" not in answer.err
    ), answer
    return answer.err.rpartition("error: ")[2].strip()


@pytest.mark.parametrize("command", ["calibrate", "replay", "simulate"])
def test_times_of_day_are_refused_with_the_form_that_is_read(cli, made, tmp_path, command):
    table = written(tmp_path / "clock.csv", rows_of(time="08:30:00"))
    simulation = written(tmp_path / "s.yaml", [f"stream: {{scores: clock.csv, {SHIFT}}}"])
    said = refused(
        cli(
            *{
                "calibrate": ("calibrate", table),
                "replay": ("replay", made, table),
                "simulate": ("simulate", simulation),
            }[command]
        )
    )
    assert "clock.csv, row 1: time is '08:30:00'; expected seconds, or dates such as 2026-" in said


def test_columns_of_a_table_of_truth_are_not_chosen_by_options_of_the_stream(cli, made, today):
    said = refused(cli("replay", made, today, "--truth", today))
    assert said.startswith("--truth: today.csv has no column 'correct'") and "--correct" not in said
    assert said.endswith("columns: id, energy")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (rows_of(right=("nein", "ja")), "row 1: correct is 'ja'; expected 1 or 0"),
        (
            rows_of(right=("", "")),
            "no row of t.csv says whether the answer was right; fill its column correct with 1 and 0",
        ),
        (["kind,correct,energy"], "t.csv has no rows"),
        ([""], "t.csv is empty"),
        (["kind,correct,energy", "fog,1,0.5"], "t.csv has no clean rows; its kinds are: 'fog'"),
    ],
)
def test_a_simulation_names_the_line_that_names_the_table(cli, tmp_path, lines, says):
    written(tmp_path / "t.csv", lines)
    file = written(tmp_path / "s.yaml", ["name: first try", f"stream: {{scores: t.csv, {SHIFT}}}"])
    said = refused(cli("simulate", file))
    assert said.startswith(f"{file}:2: stream.scores: ") and says in said and "--" not in said


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (
            "{detector: {tpr: 0.9, tnr: 0.8}}",
            "stream.shift: is missing (how often events are shifted; one segment such as {constant: 0.3",
        ),
        (
            "{detector: {tpr: 0.9, tnr: 0.8}, shift: 0.3}",
            "input should be a valid list (how often events are shifted; one segment",
        ),
    ],
)
def test_what_a_simulation_lacks_is_told_with_what_belongs_there(cli, tmp_path, stream, says):
    said = refused(cli("simulate", written(tmp_path / "s.yaml", [f"stream: {stream}"])))
    assert says in said


def test_a_table_is_no_simulation_file(cli, today):
    said = refused(cli("simulate", today))
    assert said.startswith(
        f"{today}: is a table; a simulation file names it, as in stream: {{scores: today.csv, shift: ["
    )


@pytest.mark.parametrize(
    ("events", "advice"),
    [(30, "choose a shorter one with --window"), (5, "the shortest is 10: wait for more")],
)
def test_a_stream_shorter_than_a_window_is_told_what_can_be_done(cli, made, today, events, advice):
    written(today, today.read_text().splitlines()[: 1 + events])
    assert (
        refused(cli("replay", made, today))
        == f"today.csv has {events} events, and a window is 100 of them; {advice}"
    )


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ("replay", "b.json", "s.csv", "--windw", "50"),
            "No such option: --windw (did you mean '--window'?)",
        ),
        (
            ("replay", "b.json", "s.csv", "--tolerable", "1"),
            "No such option: --tolerable; `roadworthy calibrate` has it",
        ),
        (
            ("calibrate", "s.csv", "--truth", "t.csv"),
            "No such option: --truth; `roadworthy replay` has it",
        ),
        (
            ("calibrate", "s.csv", "--costs", "wrong=3"),
            "No such option: --costs (did you mean '--cost'?)",
        ),
        (("monitor", "b.json", "--prot", "80"), "No such option: --prot (did you mean '--port'?)"),
        (("simulate", "s.yaml", "--nothing-like-it"), "No such option: --nothing-like-it\n"),
        (("replay", "b.json", "s.csv", "--window", "3"), "greater than or equal to 10; found '3'"),
        (
            ("calibrate", "s.csv", "--tolerable", "ten"),
            "valid number, unable to parse string as a number; found 'ten'",
        ),
    ],
)
def test_options_that_are_none_and_values_that_are_not_taken(cli, command, says):
    said = refused(cli(*command))
    assert says in said and "--help` shows what it takes" in said


def test_a_folder_is_no_bundle_and_no_address_is_told_without_what_to_do(
    cli, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert refused(cli("monitor", ".", "--port", "0")).startswith(
        ". is a folder, and a bundle is a file"
    )
    assert not list(tmp_path.iterdir()), "nothing is left behind"
    said = refused(cli("monitor", "label-queue", "http://127.0.0.1:1"))
    assert (
        said.startswith("There is no monitor at http://127.0.0.1:1 (")
        and "`roadworthy monitor BUNDLE` starts one" in said
    )


@pytest.mark.parametrize("command", ["monitor", "replay"])
def test_files_of_other_kinds_are_no_bundles(cli, today, tmp_path, command):
    file = written(tmp_path / "s.yaml", [f"stream: {{scores: t.csv, {SHIFT}}}"])
    said = refused(cli(command, file, *([today] if command == "replay" else ["--port", "0"])))
    assert said == f"{file} is no bundle; `roadworthy calibrate` and `assess` write one"


def test_calibrate_takes_neither_a_folder_nor_a_bundle_for_a_table(
    cli, made, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert refused(cli("calibrate", ".")) == ". is a folder; name a CSV or Parquet file"
    said = refused(cli("calibrate", made))
    assert (
        said.startswith(f"{made}: a table of scores was expected")
        and f"`roadworthy replay {made} STREAM`" in said
    )


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (2, "make it again: `roadworthy calibrate` with the table that it was made from"),
        (99, "a newer roadworthy has made it: update roadworthy here"),
    ],
)
def test_a_bundle_of_another_version_is_refused_with_the_way_to_one_that_is_read(
    cli, tmp_path, number, remedy, today
):
    old = written(tmp_path / "old.bundle.json", [f'{{"format": "roadworthy bundle {number}"}}'])
    said = refused(cli("replay", old, today))
    assert f"found 'roadworthy bundle {number}'; {remedy}" in said


def test_an_id_of_another_name_is_pointed_at_and_is_no_score(cli, tmp_path):
    header, *rows = rows_of()
    lines = [header.replace("id", "txn"), *(row.replace(",e", ",9") for row in rows)]
    table = written(tmp_path / "scores.csv", lines)
    found = json.loads(cli("calibrate", table, "--id", "txn", "--json").out)
    assert found["names"] == ["energy"] and "another whole number" not in " ".join(found["notes"])


def test_one_column_does_not_stand_for_two_scores(cli, tmp_path):
    rng = np.random.default_rng(0)
    kinds = ["clean"] * 300 + ["fog"] * 100
    rows = [f"{kind},1,{rng.normal():.3f},{rng.normal():.3f}" for kind in kinds]
    table = written(tmp_path / "scores.csv", ["kind,correct,anomaly,doubt", *rows])
    assert cli("calibrate", table, "--json").code == 0
    stream = written(
        tmp_path / "today.csv", ["anomaly", *(f"{rng.normal():.3f}" for _ in range(200))]
    )
    bundle = tmp_path / "scores.bundle.json"
    said = refused(cli("replay", bundle, stream, "--score", "doubt=anomaly"))
    assert "'anomaly' is named for more than one score" in said and "NAME=COLUMN" in said
    assert (
        cli("replay", bundle, table, "--score", "doubt=anomaly", "--score", "anomaly=doubt").code
        != 2
    )
    twice = refused(
        cli("replay", bundle, table, "--score", "doubt=anomaly", "--score", "doubt=doubt")
    )
    assert twice == "--score doubt is given twice, as anomaly and as doubt; give each score once"
