"""From a bundle and a stream to accuracy, cost and alarms: the monitor's own, window by window."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import made_scores as scores
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_scores import EXAMPLE, FAR, normal, stream

import roadworthy
from roadworthy.data.scores import read_scores
from roadworthy.monitor import Bundle, Events, Monitor
from roadworthy.monitor import replay as replaying

pytestmark = pytest.mark.usefixtures("quick_alarms")

SHIFT_BEGINS = 1500
FIGURES = [f"{n}{end}" for n in ("rate", "accuracy", "risk") for end in ("", "_low", "_high")]


@pytest.fixture(scope="module")
def example(tmp_path_factory, quick_alarms) -> Path:
    file = tmp_path_factory.mktemp("example") / "b.json"
    roadworthy.calibrate(EXAMPLE / "calibration.parquet", events_per_day=3000).save(file)
    return file


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    """Of one score."""
    folder = tmp_path_factory.mktemp("bundle")
    made = roadworthy.calibrate(scores.calibration(folder / "t.csv"), tolerable=0.2)
    made.save(folder / "b.json")
    return folder / "b.json"


def answered(cli, *arguments: object) -> dict:
    said = cli("replay", *arguments, "--json")
    assert said.code in (0, 1, 3), said
    return json.loads(said.out)


def test_the_shift_is_found_and_the_truth_lies_within(cli, example):
    truth = EXAMPLE / "today_truth.parquet"
    found = answered(cli, example, EXAMPLE / "today.parquet", "--truth", truth, "--all")
    raised = [a["event"] for a in found["alarms"] if a["kind"] == "raised"]
    assert SHIFT_BEGINS < raised[0] <= SHIFT_BEGINS + 200
    assert found["truth"]["windows"] == 30 and found["truth"]["covered"] >= 27
    right = np.array(pq.read_table(truth)["correct"].to_pylist()).reshape(30, 100).mean(axis=1)
    np.testing.assert_allclose([w["truth"] for w in found["windows"]], right)
    alarm = found["alarms"][0]
    times = pq.read_table(EXAMPLE / "today.parquet")["time"].to_pylist()
    when = times[alarm["event"] - 1]
    assert alarm["time"] == pytest.approx(when if isinstance(when, float) else when.timestamp())


def test_windows_and_alarms_are_those_of_a_monitor_that_is_fed_by_hand(bundle, tmp_path):
    energy = np.concatenate([normal(730), normal(320, far=FAR, seed=2)])
    found = roadworthy.replay(bundle, stream(tmp_path / "s.parquet", energy))
    monitor = Monitor(Bundle.load(bundle))
    for window in found.windows[:-1]:
        monitor.update(Events(columns={"energy": energy[window.last - 100 : window.last]}))
        said = monitor.risk()
        assert (said.rate, said.risk, said.exceedance) == (
            window.state.rate,
            window.state.risk,
            window.state.exceedance,
        )
    monitor.update(Events(columns={"energy": energy[1000:]}))
    assert [(a.event, a.kind) for a in monitor.alarms] == [(a.event, a.kind) for a in found.alarms]
    assert found.alarmed and [w.last for w in found.windows] == [*range(100, 1001, 100), 1050]


def test_the_estimates_never_see_the_truth(cli, bundle, tmp_path):
    energy = normal(600)
    hidden = answered(cli, bundle, stream(tmp_path / "a.parquet", energy))
    wrong = answered(cli, bundle, stream(tmp_path / "b.parquet", energy, correct=[False] * 600))
    assert hidden["truth"] is None and wrong["truth"]["covered"] == 0
    assert [{**w, "truth": None, "truth_known": 0} for w in wrong["windows"]] == hidden["windows"]
    assert hidden["alarms"] == wrong["alarms"]
    assert wrong["truth"]["above_tolerable_without_alarm"] == 6 and wrong["truth"]["said"]


def test_a_stream_unlike_anything_calibrated_has_no_estimate(cli, example, tmp_path):
    out = tmp_path / "windows.parquet"
    found = answered(cli, example, EXAMPLE / "strange.parquet", "--out", out)
    assert [w["no_estimate"] is None for w in found["windows"]] == [True] * 4 + [False] * 6
    assert found["no_estimate"] == 6 and pq.read_schema(out).field("truth").type == pa.float64()
    for window in (*found["windows"], *pq.read_table(out).to_pylist()):
        silent = window["no_estimate"] is not None
        assert [window[name] is None for name in (*FIGURES, "exceedance")] == [silent] * 10
        assert window["n"] is not None and window["strangeness"] is not None
    said = cli("replay", example, EXAMPLE / "strange.parquet").out
    assert "No estimate, events 401 to 1,000" in said and "████????" in said
    assert any("outside the calibrated range" in note for note in found["notes"])


def test_windows_can_be_longer_and_are_all_written(cli, example, tmp_path):
    out = tmp_path / "windows.parquet"
    found = answered(
        cli, example, EXAMPLE / "today.parquet", "--window", 500, "--all", "--out", out
    )
    assert (found["window"], found["every"], found["windows_in_all"]) == (500, 500, 6)
    assert found["bundle_id"] == Bundle.load(example).id
    assert [w["window"] for w in found["at_the_end"]] == ["100", "1000"]
    assert pq.read_table(out)["last_event"].to_pylist() == list(range(500, 3001, 500))


def test_a_terminal_sees_forty_windows_at_most_and_the_last(cli, bundle, tmp_path):
    path = stream(tmp_path / "s.parquet", normal(1000))
    said = cli("replay", bundle, path, "--window", 10)
    rows = [line for line in said.out.splitlines() if "–" in line]
    assert len(rows) == 40 and "991–1,000" in rows[-1] and "--all" in said.out
    said = cli("replay", bundle, path, "--window", 10, "--all")
    assert sum("–" in line for line in said.out.splitlines()) == 100


@settings(max_examples=20)
@given(st.integers(10, 400), st.integers(10, 60), st.none() | st.integers(1, 80), st.integers(1, 5))
def test_windows_end_at_even_distances_and_with_the_stream(bundle, n, window, every, pieces):
    energy = normal(n)
    whole = table_of(energy, correct=np.arange(n) % 3 > 0)
    parts = [whole.take(rows) for rows in np.array_split(np.arange(n), pieces)]
    if n < window:
        return
    size = every or window
    found = roadworthy.replay(bundle, Pieces(parts), window=window, every=every)
    ends = [e for e in range(size, n + 1, size) if e >= window]
    expected = ends if ends and ends[-1] == n else [*ends, n]
    assert [w.last for w in found.windows] == expected and found.events == n
    for w in found.windows:
        assert w.known == window
        assert w.right == int((np.arange(w.first - 1, w.last) % 3 > 0).sum())


class Pieces:
    """A table that is read in several pieces."""

    def __init__(self, parts):
        self.path, self.notes, self._parts = Path("s.csv"), (), parts
        self.opened = SimpleNamespace(rows=None)

    def pieces(self):
        return iter(self._parts)


def table_of(energy: np.ndarray, **columns: np.ndarray):
    from roadworthy.data.scores import ScoreTable

    given = {**dict.fromkeys(("kind", "correct", "group", "time", "id")), **columns}
    return ScoreTable({"energy": energy}, **given, source="s.csv", n=len(energy))


def test_long_streams_keep_a_bounded_number_of_windows(bundle, monkeypatch):
    monkeypatch.setattr(replaying, "MOST", 4)
    whole = table_of(normal(1730))
    for table in (whole, Pieces([whole.take(np.arange(0, 900)), whole.take(np.arange(900, 1730))])):
        found = roadworthy.replay(bundle, table)
        assert found.every == 400
        assert [w.last for w in found.windows] == [400, 800, 1200, 1600, 1730]


def test_repeated_events_are_counted_once_and_those_without_an_id_all(cli, bundle, tmp_path):
    energy = normal(600)
    plain = answered(cli, bundle, stream(tmp_path / "a.parquet", energy))
    ids = [f"e{i}" for i in range(600)]
    twice = np.concatenate([energy, energy[100:300]])
    path = stream(tmp_path / "b.parquet", twice, id=[*ids, *ids[100:300]])
    found = answered(cli, bundle, path)
    assert (found["events"], found["repeated"]) == (600, 200)
    assert found["windows"] == plain["windows"]
    found = answered(
        cli, bundle, stream(tmp_path / "c.parquet", energy, id=[*ids[:300], *[""] * 300])
    )
    assert (found["events"], found["repeated"], found["without_id"]) == (600, 0, 300)


def test_a_gap_in_the_scores_has_no_estimate_and_is_no_clean_bill(cli, bundle, tmp_path):
    energy = np.concatenate([normal(600), np.full(300, np.nan), normal(600, seed=2)])
    path = stream(tmp_path / "s.parquet", energy)
    found = answered(cli, bundle, path)
    assert found["unscored"] == 300 and found["windows"][7]["no_estimate"]
    assert any("energy is missing in 300 of 1,500" in note for note in found["notes"])
    said = cli("replay", bundle, path)
    assert said.code == 3 and "Treat missing estimates as an alarm" in said.out


def test_exit_codes(cli, bundle, tmp_path):
    assert cli("replay", bundle, stream(tmp_path / "a.parquet", normal(1000))).code == 0
    assert cli("replay", bundle, stream(tmp_path / "b.parquet", normal(1000, far=FAR))).code == 1
    assert "Exit codes" in cli("replay", "--help").out


def test_outcomes_of_a_table_are_found_by_id(cli, bundle, tmp_path):
    ids = [f"e{i}" for i in range(400)]
    path = stream(tmp_path / "s.parquet", normal(400), id=ids)

    def revealed(lines: list[str]) -> dict:
        (tmp_path / "t.csv").write_text("\n".join(["id,correct", *lines]) + "\n")
        return answered(cli, bundle, path, "--truth", tmp_path / "t.csv")

    half = revealed([f"e{i},{int(i % 4 != 0)}" for i in range(398, -1, -2)])
    assert [(w["truth_known"], w["truth"]) for w in half["windows"]] == [(50, 0.5)] * 4
    assert half["truth"] is None, "an interval of 100 answers is not compared with 50 of them"
    assert half["known_outcomes"] == {"known": 200, "right": 100}
    assert any("known for 200 of 400" in note for note in half["notes"])
    nearly = revealed([f"e{i},1" for i in range(400) if i % 100])
    assert nearly["truth"]["windows"] == 4 and nearly["windows"][0]["truth_known"] == 99
    few = revealed([f"e{i},1" for i in range(9)])
    assert few["windows"][0]["truth"] is None
    empty = revealed(["e0,1", "e1,", ",0", *(f"e{i},1" for i in range(2, 20))])
    assert empty["windows"][0]["truth_known"] == 19


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["id,correct", "x0,1"], "no id of it"),
        (["id,correct", "e0,1", "e0,0"], "a right and a wrong"),
        (["id,energy", "e0,1"], "correct"),
    ],
)
def test_outcomes_that_do_not_fit_are_refused(cli, bundle, tmp_path, lines, says):
    path = stream(tmp_path / "s.parquet", normal(200), id=[f"e{i}" for i in range(200)])
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    said = cli("replay", bundle, path, "--truth", tmp_path / "t.csv")
    assert said.code == 2 and says in said.err


def test_times_are_shown_and_noted_if_they_go_back_or_differ_in_pace(cli, bundle, tmp_path):
    times = 1.7e9 + np.arange(2000.0)
    times[700:710] -= 100.0
    found = answered(cli, bundle, stream(tmp_path / "s.parquet", normal(2000), time=times))
    assert any("goes back 1 times" in note for note in found["notes"])
    assert found["windows"][-1]["time"] == times[-1]
    slow = 1.7e9 + 600.0 * np.arange(2000.0)
    found = answered(cli, bundle, stream(tmp_path / "s.parquet", normal(2000), time=slow))
    assert any("144 events a day" in note for note in found["notes"])


def test_further_windows_are_read_at_the_end(tmp_path):
    table = scores.calibration(tmp_path / "t.csv")
    bundle = roadworthy.calibrate(table, half_life=75, adaptive=True)
    energy = np.concatenate([normal(1200), normal(300, far=FAR, seed=2)])
    found = roadworthy.replay(bundle, table_of(energy))
    ends = {state.window: state for state in found.at_end}
    assert ends["adaptive"].n == pytest.approx(300, abs=30) and ends["adaptive"].rate > 0.9
    weights = 2.0 ** (-np.arange(1500) / 75)
    independent = ends["100"].effective_n / 100
    expected = weights.sum() ** 2 / (weights**2).sum()
    assert ends["decay"].effective_n / independent == pytest.approx(expected, rel=1e-4)


def test_scores_of_another_name_can_be_pointed_at(cli, bundle, tmp_path):
    energy = normal(300)
    pq.write_table(pa.table({"nrg": energy}), tmp_path / "s.parquet")
    said = cli("replay", bundle, tmp_path / "s.parquet")
    assert said.code == 2 and "energy" in said.err
    found = answered(cli, bundle, tmp_path / "s.parquet", "--score", "energy=nrg")
    assert (
        found["windows"] == answered(cli, bundle, stream(tmp_path / "t.parquet", energy))["windows"]
    )
    for wrong in (["enrgy=nrg"], ["energy"], ["energy=a", "energy=b"]):
        options = [part for text in wrong for part in ("--score", text)]
        assert cli("replay", bundle, tmp_path / "s.parquet", *options).code == 2


def test_windows_are_written_as_the_ending_says(cli, bundle, tmp_path):
    path = stream(tmp_path / "s.parquet", normal(1000))
    answered(cli, bundle, path, "--out", tmp_path / "w.CSV")
    ends = pa_csv.read_csv(tmp_path / "w.CSV")["last_event"].to_pylist()
    assert ends == list(range(100, 1001, 100))


@pytest.mark.parametrize("name", ["w.xlsx", "nowhere/w.csv", "folder.csv", "s.parquet", "link.csv"])
def test_what_cannot_be_written_is_refused_before_any_work(cli, bundle, tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    path = stream(tmp_path / "s.parquet", normal(200))
    (tmp_path / "link.csv").symlink_to(path)
    before = path.read_bytes()
    said = cli("replay", bundle, path, "--out", tmp_path / name)
    assert said.code == 2 and "--out" in said.err and path.read_bytes() == before


@pytest.mark.parametrize("content", ["{}", "not JSON", '{"format": 1}'])
def test_what_is_no_bundle_is_refused(cli, tmp_path, content):
    (tmp_path / "b.json").write_text(content)
    said = cli("replay", tmp_path / "b.json", EXAMPLE / "today.parquet")
    assert said.code == 2 and "b.json" in said.err and len(said.err) < 600


def test_a_bundle_that_was_changed_or_cut_is_refused(cli, bundle, tmp_path):
    text = bundle.read_text()
    content = json.loads(text)
    content["tolerable"] += 1
    for broken in (json.dumps(content), text[: len(text) // 2]):
        (tmp_path / "b.json").write_text(broken)
        assert cli("replay", tmp_path / "b.json", EXAMPLE / "today.parquet").code == 2


def test_a_stream_shorter_than_a_window_is_refused(cli, bundle, tmp_path):
    path = stream(tmp_path / "s.parquet", normal(50))
    said = cli("replay", bundle, path)
    assert said.code == 2 and "50 events" in said.err
    assert cli("replay", bundle, path, "--window", 50).code in (0, 1)
    assert cli("replay", bundle, path, "--window", 9).code == 2


def test_a_table_in_place_of_the_bundle_is_refused(cli, bundle, tmp_path):
    path = stream(tmp_path / "s.parquet", normal(200))
    said = cli("replay", path, bundle)
    assert said.code == 2 and "BUNDLE STREAM" in said.err


def test_neither_torch_nor_a_web_server_is_loaded(bundle, tmp_path):
    path = stream(tmp_path / "s.parquet", normal(200))
    program = (
        "import sys, roadworthy\n"
        f"assert not roadworthy.replay({str(bundle)!r}, {str(path)!r}).alarmed\n"
        "heavy = {'torch', 'cv2', 'onnxruntime', 'fastapi', 'pandas', 'rich', 'typer'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_truth_of_a_window_without_known_outcomes_is_no_number(bundle):
    found = roadworthy.replay(bundle, table_of(normal(200)))
    assert (
        math.isnan(found.windows[0].truth) and found.compared is None and found.outcomes == (0, 0)
    )


def test_the_truth_of_a_table_may_be_a_table_itself(bundle, tmp_path):
    (tmp_path / "t.csv").write_text("id,correct\n" + "".join(f"e{i},1\n" for i in range(200)))
    truth = read_scores(tmp_path / "t.csv", columns=[], needs=("id", "correct"))
    events = table_of(normal(200), id=np.array([f"e{i}" for i in range(200)]))
    assert roadworthy.replay(bundle, events, truth=truth).outcomes == (200, 200)
