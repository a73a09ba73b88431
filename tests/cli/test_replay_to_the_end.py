"""A replay leaves no event out: not the last ones, not those without an id, and not those of which nobody can tell."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.cli import replaying
from roadworthy.cli.app import run
from roadworthy.cli.stream_parts import Counts, Known, Truth
from roadworthy.data.scores import read_scores

pytestmark = pytest.mark.usefixtures("quick_alarms")

Answered = Callable[..., tuple[int, dict]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    """One score: clean N(0, 1), fog and snow N(6, 1)."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "snow"], [600, 300, 300])
    right = rng.random(1200) < np.where(kind == "clean", 0.95, 0.4)
    energy = rng.normal(np.where(kind == "clean", 0.0, 6.0))
    folder = tmp_path_factory.mktemp("monitor")
    pq.write_table(
        pa.table({"kind": kind, "correct": right, "energy": energy}), folder / "scores.parquet"
    )
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(["calibrate", str(folder / "scores.parquet"), "--tolerable", "0.2"]) == 0
    return folder / "scores.bundle.json"


@pytest.fixture
def replayed(cli, bundle, tmp_path) -> Answered:
    """Replays scores, with ids where there are some; the exit code and what was said."""

    def call(
        energy: np.ndarray, *options: object, ids: list[str] | None = None
    ) -> tuple[int, dict]:
        names = {} if ids is None else {"id": ids}
        pq.write_table(
            pa.table({**names, "energy": pa.array(energy, from_pandas=True)}),
            tmp_path / "s.parquet",
        )
        said = cli("replay", bundle, tmp_path / "s.parquet", "--json", *options)
        return said.code, json.loads(said.out)

    return call


def clean(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


def test_events_without_an_id_are_all_counted(replayed):
    stream = np.concatenate([clean(600), clean(600, 2) + 6.0])
    code, found = replayed(stream, ids=[f"e{i}" for i in range(600)] + [""] * 600)
    assert (found["events"], found["repeated"], found["without_id"]) == (1200, 0, 600)
    assert code == 1 and found["windows"] == replayed(stream)[1]["windows"]


def test_an_empty_id_is_no_id_and_has_no_outcome(tmp_path):
    known = Known(least=3)
    assert known.fresh(np.array(["", "a", ""])).tolist() == [True, True, True]
    assert known.fresh(np.array(["", "b", "a"])).tolist() == [True, True, False]
    (tmp_path / "t.csv").write_text("id,correct\n,1\na,0\n")
    truth = Truth(read_scores(tmp_path / "t.csv", columns=[]))
    assert np.isnan(truth.of(np.array(["", "b"]))).all() and truth.of(np.array(["a"])).tolist() == [
        0.0
    ]


def test_the_last_window_ends_on_the_last_event(replayed, monkeypatch):
    code, found = replayed(clean(1050))
    assert code == 0 and [w["last_event"] for w in found["windows"]] == [
        *range(100, 1001, 100),
        1050,
    ]
    monkeypatch.setitem(replaying.replay.__kwdefaults__, "most", 3)
    code, found = replayed(np.concatenate([clean(1000), np.full(99, np.nan)]))
    last = found["windows"][-1]
    assert (code, found["every"], last["last_event"]) == (3, 400, 1099)
    assert last["cannot_tell"] == "99 of 100 events have no score at all"


def test_a_stream_longer_than_a_window_and_shorter_than_the_distance_has_one(replayed):
    code, found = replayed(clean(150), "--every", 1000)
    assert code == 0 and [(w["first_event"], w["last_event"]) for w in found["windows"]] == [
        (51, 150)
    ]


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(1, 20), st.none() | st.integers(1, 25), st.integers(2, 9))
def test_no_event_is_left_out_at_the_end(n, window, every, most):
    stream = np.random.default_rng(n).integers(-1, 3, n).astype(np.int16)
    counts = Counts(cells=3, window=window, every=every, most=most)
    for part in np.array_split(np.arange(n), 5):
        counts.add(stream[part], None, part.astype(float))
    even = list(counts.ends)
    counts.close()
    counts.close()
    assert counts.ends == ([] if n < window else even if even and even[-1] == n else [*even, n])
    if counts.ends:
        tail = stream[n - window :]
        assert counts.times[-1] == n - 1 and counts.table()[-1].tolist() == [
            int((tail == c).sum()) for c in range(3)
        ]


def test_a_part_in_the_middle_that_cannot_be_told_is_no_clean_bill(replayed, cli, bundle, tmp_path):
    stream = np.concatenate([clean(1000), np.full(500, np.nan), clean(1000, 2)])
    code, found = replayed(stream)
    assert code == 3 and found["windows"][-1]["cannot_tell"] is None
    said = cli("replay", bundle, tmp_path / "s.parquet")
    assert (
        said.code == 3
        and "Take that as seriously as an alarm" in said.out
        and "as far as it can be told" in said.out
    )


def test_what_the_monitor_could_not_tell_between_two_windows_counts(
    replayed, cli, bundle, tmp_path
):
    stream = np.concatenate([clean(1000), np.full(500, np.nan), clean(1500, 2)])
    code, found = replayed(stream, "--every", 1000)
    assert (
        code == 3
        and found["cannot_tell"] == 0
        and "cannot tell" in [a["kind"] for a in found["alarms"]]
    )
    assert (
        "Take that as seriously"
        in cli("replay", bundle, tmp_path / "s.parquet", "--every", 1000).out
    )


def test_exit_codes_are_those_that_help_promises(cli, replayed):
    shown = " ".join(cli("replay", "--help").out.replace("│", " ").split())
    assert "3 no alarm, but part of the stream cannot be told" in shown
    assert replayed(clean(1000))[0] == 0 and replayed(clean(1000) + 6.0)[0] == 1


def test_windows_are_written_as_the_ending_says(replayed, tmp_path):
    replayed(clean(1000), "--out", tmp_path / "w.CSV")
    assert pa_csv.read_csv(tmp_path / "w.CSV")["last_event"].to_pylist() == list(
        range(100, 1001, 100)
    )
    replayed(clean(1000), "--out", tmp_path / "w.PARQUET")
    assert pq.read_table(tmp_path / "w.PARQUET").num_rows == 10


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("w.xlsx", "written to .csv, .parquet, .pq"),
        ("windows", "written to .csv, .parquet, .pq"),
        ("nowhere/w.csv", "there is no folder"),
        ("a_folder.csv", "is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(replayed, tmp_path, name, says):
    (tmp_path / "a_folder.csv").mkdir()
    code, found = replayed(clean(1000), "--out", tmp_path / name)
    assert code == 2 and says in found["error"] and not (tmp_path / "w.xlsx").exists()
