"""What replay and calibrate say of missing scores, of outcomes that do not fit, of thin tables and of files that are no bundle."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cli.app import run
from roadworthy.cli.stream_parts import Truth
from roadworthy.data.scores import open_scores, read_scores

pytestmark = pytest.mark.usefixtures("quick_alarms")

NAMES = ("conf", "knn", "recon")


def scored(shifted: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(
        2.5 * np.asarray(shifted)[:, None], size=(len(shifted), 3)
    )


def table(
    path: Path, kinds: dict[str, int], *, right: float | None = None, holes: float = 0.0
) -> Path:
    rng = np.random.default_rng(1)
    names = [k for k, n in kinds.items() for _ in range(n)]
    scores = scored(np.array([k != "clean" for k in names]), 2)
    scores[rng.random(scores.shape) < holes] = np.nan
    lines = [",".join(("kind", "correct", *NAMES))]
    for kind, row in zip(names, scores, strict=True):
        chance = right if right is not None else 0.95 if kind == "clean" else 0.5
        cells = ("" if v != v else f"{v:.4f}" for v in row)
        lines.append(",".join((kind, str(int(rng.random() < chance)), *cells)))
    path.write_text("\n".join(lines) + "\n")
    return path


def stream(
    path: Path,
    scores: np.ndarray,
    *,
    header: tuple[str, ...] = NAMES,
    times: list[str] | None = None,
) -> Path:
    lines = [",".join(("id", *(["time"] if times else []), *header))]
    for i, row in enumerate(scores):
        cells = ["" if v != v else f"{v:.4f}" for v in row]
        lines.append(",".join((f"e{i}", *([times[i]] if times else []), *cells)))
    path.write_text("\n".join(lines) + "\n")
    return path


def outcomes(path: Path, rows: list[tuple[str, int]]) -> Path:
    path.write_text("\n".join(["id,correct", *(f"{name},{right}" for name, right in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    rows = table(folder / "t.csv", {"clean": 400, "fog": 200, "rain": 200})
    with redirect_stdout(io.StringIO()):
        assert run(["calibrate", str(rows), "--events-per-day", "1000", "--json"]) == 0
    return folder / "t.bundle.json"


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> Path:
    return stream(tmp_path_factory.mktemp("stream") / "clean.csv", scored(np.zeros(400), 5))


def answered(cli, *arguments: object) -> dict:
    said = cli(*arguments, "--json")
    assert said.code in (0, 1, 3), said.err
    return json.loads(said.out)


def test_a_missing_score_is_named_and_not_called_no_score_at_all(cli, bundle, tmp_path):
    scores = scored(np.zeros(400), 6)
    scores[:, 2] = np.nan
    said = cli("replay", bundle, stream(tmp_path / "s.csv", scores))
    assert said.code == 3
    assert (
        "400 events say nothing, since they lack a score that every calibration row had: recon"
        in said.out
    )
    assert "100 of 100 events lack a score that every calibration row had: recon" in said.out
    assert "no score at all" not in said.out
    scores[1:] = 0.0
    assert (
        "1 event says nothing, since it lacks a score"
        in cli("replay", bundle, stream(tmp_path / "o.csv", scores)).out
    )


def test_a_window_of_which_more_than_a_fifth_is_missing_cannot_be_told(cli, bundle, tmp_path):
    """A detector that fails on just the shifted inputs leaves what looks clean."""
    shifted = np.random.default_rng(7).random(800) < np.repeat([0.0, 0.4], 400)
    scores = scored(shifted, 8)
    scores[shifted, 2] = np.nan
    found = answered(cli, "replay", bundle, stream(tmp_path / "s.csv", scores))
    assert [w["cannot_tell"] is None for w in found["windows"]] == [True] * 4 + [False] * 4


def test_calibrate_says_what_becomes_of_events_that_lack_a_score(cli, tmp_path):
    whole = answered(
        cli, "calibrate", table(tmp_path / "w.csv", {"clean": 100, "fog": 60, "rain": 60})
    )
    said = [n for n in whole["notes"] if n.startswith("no row lacks a score")]
    assert len(said) == 1 and "events that lack one say nothing" in said[0]
    holes = answered(
        cli,
        "calibrate",
        table(tmp_path / "h.csv", {"clean": 100, "fog": 60, "rain": 60}, holes=0.2),
    )
    assert not any("lacks" in n for n in holes["notes"])


def test_outcomes_of_other_events_are_refused(cli, bundle, clean, tmp_path):
    other = outcomes(tmp_path / "o.csv", [(f"x{i}", 1) for i in range(400)])
    said = cli("replay", bundle, clean, "--truth", other)
    assert said.code == 2 and "none of its ids is one of clean.csv" in said.err
    assert "'x0'" in said.err and "'e0'" in said.err


def test_outcomes_of_some_events_are_shown_with_their_number(cli, bundle, clean, tmp_path):
    right = {i: i % 4 != 0 for i in range(400)}
    half = outcomes(tmp_path / "h.csv", [(f"e{i}", int(right[i])) for i in range(0, 400, 2)])
    found = answered(cli, "replay", bundle, clean, "--truth", half)
    assert "the truth is known for 200 of 400 events" in found["notes"]
    assert [(w["truth_known"], w["truth"]) for w in found["windows"]] == [(50, 0.5)] * 4
    assert found["truth"] is None, "an interval of 100 answers is not held against 50 of them"
    said = cli("replay", bundle, clean, "--truth", half).out
    assert "0.50 (of 50)" in said and "in no window are nine in ten outcomes known" in said
    nearly = outcomes(tmp_path / "n.csv", [(f"e{i}", int(right[i])) for i in range(400) if i % 100])
    found = answered(cli, "replay", bundle, clean, "--truth", nearly)
    assert [w["truth_known"] for w in found["windows"]] == [99] * 4 and found["truth"][
        "windows"
    ] == 4
    assert found["windows"][0]["truth"] == pytest.approx(75 / 99)
    few = outcomes(tmp_path / "f.csv", [(f"e{i}", 1) for i in range(9)])
    found = answered(cli, "replay", bundle, clean, "--truth", few)
    assert found["windows"][0]["truth"] is None, "nine outcomes say nothing"


def test_ids_that_come_again_with_another_outcome_are_known_by_none(cli, bundle, clean, tmp_path):
    rows = [(f"e{i}", 1) for i in range(400)] + [("e0", 1), ("e1", 0), ("e1", 0)]
    twice = outcomes(tmp_path / "t.csv", rows)
    found = answered(cli, "replay", bundle, clean, "--truth", twice)
    note = "2 ids of t.csv come more than once; 1 of them with outcomes that differ, which are then not known"
    assert note in found["notes"] and "the truth is known for 399 of 400 events" in found["notes"]
    truth = Truth(read_scores(twice, columns=[], needs=("id", "correct")))
    assert truth.of(np.array(["e0", "e2"])).tolist() == [1.0, 1.0] and np.isnan(
        truth.of(np.array(["e1"]))[0]
    )


def test_the_share_of_shifted_events_stands_in_the_table(cli, bundle, tmp_path):
    path = stream(tmp_path / "s.csv", scored(np.ones(200), 9))
    rates = [w["rate"] for w in answered(cli, "replay", bundle, path)["windows"]]
    said = cli("replay", bundle, path).out
    assert "Shifted" in said and all(f"{rate:.0%}" in said for rate in rates)


@pytest.mark.parametrize(
    ("kinds", "right", "options", "expected"),
    [
        ({"clean": 100, "fog": 60}, None, (), "fog is the only kind of shift"),
        ({"clean": 100, "fog": 60, "rain": 60}, 1.0, (), "no wrong answer in 220 rows"),
        ({"clean": 100, "fog": 60, "rain": 60}, 0.0, (), "no right answer in 220 rows"),
        ({"clean": 12, "fog": 60, "rain": 60}, None, (), "12 clean rows are too few"),
        (
            {"clean": 400, "fog": 60, "rain": 60},
            0.8,
            ("--cost", "wrong=4", "--tolerable", 0.1),
            "above the tolerable 0.100",
        ),
    ],
)
def test_what_must_be_known_first_is_a_warning(cli, tmp_path, kinds, right, options, expected):
    path = table(tmp_path / "t.csv", kinds, right=right)
    found = answered(cli, "calibrate", path, *options)
    assert sum(expected in w for w in found["warnings"]) == 1
    assert not any("clean data cost" in n for n in found["notes"]), "said once, as a warning"
    lines = cli("calibrate", path, *options).out.splitlines()
    assert any(line.startswith("warning: ") and expected in line for line in lines[1:4]), (
        "before the table"
    )


def test_a_good_table_has_no_such_warning(cli, tmp_path):
    found = answered(
        cli, "calibrate", table(tmp_path / "t.csv", {"clean": 100, "fog": 60, "rain": 60})
    )
    assert not [w for w in found["warnings"] if "interval is right in" not in w]


def test_dates_without_a_zone_are_read_as_utc_and_that_is_noted(tmp_path):
    scores = scored(np.zeros(3), 1)
    for zone, said in (("", True), ("+00:00", False), ("Z", False)):
        times = [f"2026-05-0{i + 1}T06:00:00{zone}" for i in range(3)]
        file = open_scores(stream(tmp_path / "s.csv", scores, times=times))
        assert any("without a time zone" in note for note in file.notes) == said
    file = open_scores(stream(tmp_path / "s.csv", scores, times=["1.5", "2", "3"]))
    assert not any("zone" in note for note in file.notes)


def test_a_run_or_a_table_in_place_of_a_bundle_is_told_what_it_is(cli, bundle, clean, tmp_path):
    (tmp_path / "RUN" / "monitor").mkdir(parents=True)
    (tmp_path / "RUN" / "monitor" / "bundle.json").write_text(bundle.read_text())
    (tmp_path / "RUN" / "report.json").write_text('{"format": 1}')
    within = str(tmp_path / "RUN" / "monitor" / "bundle.json")
    for command in (("replay", tmp_path / "RUN", clean), ("monitor", tmp_path / "RUN")):
        said = cli(*command)
        assert (
            said.code == 2
            and f"is a folder, and a bundle is a file: that of this run is {within}" in said.err
        )
    said = cli("replay", tmp_path / "RUN" / "report.json", clean)
    assert said.code == 2 and f"report.json is no bundle: that of this run is {within}" in said.err
    said = cli("monitor", clean)
    assert (
        said.code == 2 and "is a table" in said.err and f"roadworthy calibrate {clean}" in said.err
    )


def test_one_of_a_thing_is_not_called_many(cli, bundle, tmp_path):
    said = cli("replay", bundle, stream(tmp_path / "s.csv", scored(np.zeros(100), 3))).out
    assert "100 events, 1 window of 100" in said
    said = cli("replay", bundle, stream(tmp_path / "o.csv", scored(np.zeros(1), 3)))
    assert said.code == 2 and "has 1 event," in said.err
