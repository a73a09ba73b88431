"""What goes wrong on the way from a table to a monitor is told where it is wrong, and with what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.monitor.bundle import Bundle

pytestmark = pytest.mark.usefixtures("quick_alarms")

TREE = """unit: EUR
event: shift
branches:
  shifted: {p: p_shift, then: {event: answer, branches: {
    right: {p: accuracy_shifted, then: {outcome: a, cost: 0}}, wrong: {p: 0.9, then: {outcome: b, cost: 2}}}}}
  clean: {then: {outcome: d, cost: 0}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, quick_alarms) -> Path:
    from roadworthy.cli.app import run

    made = tmp_path_factory.mktemp("mistakes")
    table(made / "t.csv")
    assert run(["calibrate", str(made / "t.csv")]) == 0
    return made


def table(path: Path, *, right: tuple[float, float] = (0.92, 0.5)) -> Path:
    rng = np.random.default_rng(0)
    lines = ["kind,correct,energy"]
    for kind, shift, share in (
        ("clean", 0.0, right[0]),
        ("fog", 2.5, right[1]),
        ("night", 2.0, right[1]),
    ):
        lines += [f"{kind},{int(rng.random() < share)},{rng.normal(shift):.4f}" for _ in range(300)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "tree.yaml: a tree was expected, with event and branches; found nothing"),
        ("right", "tree.yaml: a tree was expected, with event and branches; found 'right'"),
        ("- 1", "tree.yaml: a tree was expected, with event and branches; found a list"),
        (
            TREE,
            "tree.yaml: in the tree at shifted > answer: the probabilities accuracy_shifted, 0.9 add up to",
        ),
    ],
)
def test_a_tree_that_will_not_do_is_named_itself(cli, folder, tmp_path, text, said):
    (tmp_path / "tree.yaml").write_text(text)
    found = cli(
        "calibrate",
        folder / "t.csv",
        "--tree",
        tmp_path / "tree.yaml",
        "--out",
        tmp_path / "b.json",
    )
    assert (
        found.code == 2
        and said in found.err
        and "t.csv" not in found.err
        and "NoneType" not in found.err
    )


def test_a_window_that_no_alarm_could_be_set_for_is_refused_at_once(cli, folder):
    found = cli("calibrate", folder / "t.csv", "--window", 1_000_000)
    assert found.code == 2 and "--window" in found.err and "100000; found '1000000'" in found.err


def test_a_state_in_place_of_a_bundle_is_told_where_it_belongs(cli, folder, tmp_path):
    (tmp_path / "svc.sqlite").write_bytes(b"SQLite format 3\0\x10\0\xf8\xff" + b"\0" * 80)
    found = cli("replay", tmp_path / "svc.sqlite", folder / "t.csv")
    assert (
        found.code == 2
        and "svc.sqlite is the state of a monitor; a bundle is expected" in found.err
    )
    assert "--state" in found.err


def test_a_group_of_commands_alone_is_told_what_is_missing(cli):
    found = cli("monitor")
    assert (
        found.code == 2
        and "error: \n" not in found.err
        and "was expected; nothing was given" in found.err
    )


def test_windows_far_apart_do_not_speak_for_what_lies_between(cli, folder, tmp_path):
    far = np.random.default_rng(1).normal(500.0, size=900)
    (tmp_path / "far.csv").write_text("\n".join(["energy", *(f"{e:.3f}" for e in far)]) + "\n")
    said = cli("replay", folder / "t.bundle.json", tmp_path / "far.csv", "--every", 300).out
    assert "Cannot tell, every window that was read, from event 201 to 900, because" in said
    whole = cli("replay", folder / "t.bundle.json", tmp_path / "far.csv").out
    assert "Cannot tell, events 1 to 900, because" in whole


def test_shift_under_which_all_is_right_is_not_said_to_look_like_clean_data(cli, tmp_path):
    cli("calibrate", table(tmp_path / "t.csv", right=(1.0, 1.0)))
    rule = Bundle.load(tmp_path / "t.bundle.json").alarm
    assert rule is not None
    assert [note for note in rule.notes if note.startswith("no shift rings")] in (
        [],
        ["no shift rings, however much it is: it costs no more than clean data do"],
    )


def test_a_stream_that_is_called_as_the_table_was_is_noted_whatever_kind_of_file_it_is(
    cli, folder, tmp_path
):
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    pq.write_table(pc.read_csv(folder / "t.csv"), tmp_path / "t.parquet")
    notes = json.loads(
        cli("replay", folder / "t.bundle.json", tmp_path / "t.parquet", "--json").out
    )["notes"]
    assert any("called as the table that was calibrated on, t.csv" in note for note in notes)
    (tmp_path / "t.parquet").rename(tmp_path / "today.parquet")
    notes = json.loads(
        cli("replay", folder / "t.bundle.json", tmp_path / "today.parquet", "--json").out
    )["notes"]
    assert not any("called as the table" in note for note in notes)
