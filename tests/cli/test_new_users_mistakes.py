"""What people get wrong with calibrate, replay, simulate and monitor at first: told with what was found, where, and what to do."""

from __future__ import annotations

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
    assert "clock.csv, row 1: time is '08:30:00'; expected seconds, or dates" in said


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            rows_of(right=("nein", "ja")),
            "row 1: correct is 'ja'; expected 1 or 0",
        ),
        (
            rows_of(right=("", "")),
            "needs the columns kind and correct",
        ),
        (["kind,correct,energy"], "t.csv has no rows"),
        ([""], "t.csv is empty"),
        (
            ["kind,correct,energy", "fog,1,0.5"],
            "t.csv has no clean rows; its kinds are: 'fog'",
        ),
    ],
)
def test_a_simulation_names_the_line_that_names_the_table(cli, tmp_path, lines, says):
    written(tmp_path / "t.csv", lines)
    file = written(tmp_path / "s.yaml", ["name: first try", f"stream: {{scores: t.csv, {SHIFT}}}"])
    said = refused(cli("simulate", file))
    assert said.startswith(f"{file}:2: stream.scores: ") and says in said


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (
            "{detector: {tpr: 0.9, tnr: 0.8}}",
            "stream.shift: is missing",
        ),
        (
            "{detector: {tpr: 0.9, tnr: 0.8}, shift: 0.3}",
            "stream.shift",
        ),
    ],
)
def test_what_a_simulation_lacks_is_told_with_what_belongs_there(cli, tmp_path, stream, says):
    said = refused(cli("simulate", written(tmp_path / "s.yaml", [f"stream: {stream}"])))
    assert says in said


def test_a_table_is_no_simulation_file(cli, today):
    said = refused(cli("simulate", today))
    assert said.startswith(str(today))


@pytest.mark.parametrize("command", ["monitor", "replay"])
def test_files_of_other_kinds_are_no_bundles(cli, today, tmp_path, command):
    file = written(tmp_path / "s.yaml", [f"stream: {{scores: t.csv, {SHIFT}}}"])
    said = refused(cli(command, file, *([today] if command == "replay" else ["--port", "0"])))
    assert said.startswith(str(file)) and "not a bundle" in said


@pytest.mark.parametrize(
    ("ends", "where"), [("", "in all rows"), ("word", "where the table begins")]
)
def test_an_empty_column_is_said_to_be_empty_as_far_as_it_is(cli, tmp_path, ends, where):
    # The first piece of a text file has 4 MB: what is behind them is no longer where the table begins.
    rows = [f"clean,1,0.5,NaN,{'x' * 9000}" for _ in range(500)]
    table = written(
        tmp_path / "long.csv", ["kind,correct,knn,energy,remark", *rows, f"clean,1,0.5,{ends},x"]
    )
    said = refused(cli("calibrate", table, "--score", "energy"))
    assert "energy is empty" in said


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (2, "roadworthy calibrate"),
        (99, "roadworthy calibrate"),
    ],
)
def test_a_bundle_of_another_version_is_refused_with_the_way_to_one_that_is_read(
    cli, tmp_path, number, remedy, today
):
    old = written(tmp_path / "old.bundle.json", [f'{{"format": "roadworthy bundle {number}"}}'])
    said = refused(cli("replay", old, today))
    assert f"found 'roadworthy bundle {number}'" in said and remedy in said
