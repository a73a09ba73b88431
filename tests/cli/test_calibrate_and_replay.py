"""From a table of scores to a bundle, and from a bundle and a stream to accuracy, cost, alarms, or the reason why not."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.tree import expectation
from roadworthy.cli.app import run
from roadworthy.cli.commands.replay import shown
from roadworthy.cli.learnt import chosen_tree, learnt
from roadworthy.cli.stream_parts import Counts, Known, Truth
from roadworthy.data.samples import DataError
from roadworthy.data.scores import read_scores
from roadworthy.statistics import wilson

pytestmark = pytest.mark.usefixtures("quick_alarms")

EXAMPLE = Path(__file__).parents[2] / "examples" / "scores"
SHIFT_BEGINS = 1500
EURO = (
    "--cost",
    "right=635",
    "--cost",
    "wrong=6735",
    "--unit",
    "EUR per patient",
    "--tolerable",
    "1925",
)


@dataclass(frozen=True)
class Made:
    """A bundle, and what was said when it was made."""

    file: Path
    said: str

    def __str__(self) -> str:
        return str(self.file)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Made in a fresh interpreter, in which neither torch nor OpenCV may turn up, also while a stream is replayed."""
    file = tmp_path_factory.mktemp("bundle") / "scores.bundle.json"
    options = ["--out", str(file), "--events-per-day", "3000", "--json"]
    program = (
        "import sys\n"
        "from roadworthy.cli.app import run\n"
        f"assert run(['calibrate', {str(EXAMPLE / 'calibration.parquet')!r}, *{options!r}]) == 0\n"
        "sys.stdout = sys.stderr\n"
        f"assert run(['replay', {str(file)!r}, {str(EXAMPLE / 'today.parquet')!r}]) == 1\n"
        "heavy = {'torch', 'cv2', 'onnxruntime', 'fastapi', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Made(file, done.stdout)


@pytest.fixture(scope="module")
def euros(tmp_path_factory, quick_alarms):
    folder = tmp_path_factory.mktemp("euros")
    shutil.copy(EXAMPLE / "calibration.parquet", folder)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert (
            run(
                ["calibrate", str(folder / "calibration.parquet"), *EURO, "--events-per-day", "500"]
            )
            == 0
        )
    return Made(folder / "calibration.bundle.json", said.getvalue())


def table_of(path: Path) -> dict:
    return pq.read_table(path).to_pydict()


def answer_of(cli, *arguments: object) -> dict:
    said = cli(*arguments, "--json")
    assert said.code in ((0, 1, 3) if "replay" in arguments else (0,)), said.out + said.err
    return json.loads(said.out)


def test_calibrate_says_what_it_learnt_and_what_to_type_next(euros):
    assert euros.file.is_file() and euros.file.stat().st_size < 1_000_000
    for word in (
        "4,400 rows, 7 scores",
        "sensor_noise",
        "Told from clean",
        "1,925 EUR per patient",
        "500 events a day",
    ):
        assert word in euros.said
    assert "no tolerable limit set" not in euros.said
    assert f"roadworthy replay {euros} today.parquet" in euros.said.replace("\n", " ")


def test_what_was_learnt_is_what_stands_in_the_table(bundle):
    found = json.loads(bundle.said)
    rows = table_of(EXAMPLE / "calibration.parquet")
    kinds, right = np.array(rows["kind"]), np.array(rows["correct"])
    assert {k["kind"]: (k["rows"], k["accuracy"]) for k in found["kinds"]} == {
        k: (int((kinds == k).sum()), pytest.approx(right[kinds == k].mean()))
        for k in set(rows["kind"])
    }
    assert found["kinds"][0]["kind"] == "clean" and found["kinds"][0]["auc"] is None
    assert all(
        0.8 < k["auc"] <= 1 and k["low"] < k["accuracy"] < k["high"] for k in found["kinds"][1:]
    )
    assert any("no tolerable limit set" in note for note in found["notes"])
    assert 0.7 < found["coverage_on_kinds_left_out"]["observed"] <= 1


def test_the_area_under_the_curve_is_that_of_counts():
    rng = np.random.default_rng(5)
    kind = np.repeat(["clean", "fog"], 500)
    score, right = rng.normal(np.repeat([0.0, 1.0], 500)), rng.random(1000) < 0.8
    made = calibrate({"knn": score}, kind, right)
    bins = made.table.sum(axis=1) @ np.eye(made.shift.bins)[made.shift_bin(np.arange(made.cells))]
    clean, fog = bins / bins.sum(axis=1, keepdims=True)
    pairs = sum(
        a * b * ((i < j) + 0.5 * (i == j)) for i, a in enumerate(clean) for j, b in enumerate(fog)
    )
    assert learnt(made, kind, right)[1].auc == pytest.approx(pairs)
    assert pairs == pytest.approx(0.76, abs=0.03)  # two normals one apart: Phi(1 / sqrt 2)


def test_few_rows_of_a_kind_are_noted_and_groups_widen_the_intervals(cli, tmp_path):
    rng = np.random.default_rng(0)
    kinds = ["clean"] * 400 + ["fog"] * 200 + ["hail"] * 12
    good = rng.random(80) < 0.7
    rows = [
        f"{k},p{i % 80},{int(good[i % 80] == (rng.random() < 0.9))},{rng.normal(0 if k == 'clean' else 3):.4f}"
        for i, k in enumerate(kinds)
    ]
    (tmp_path / "scores.csv").write_text("kind,group,correct,knn\n" + "\n".join(rows) + "\n")
    found = answer_of(cli, "calibrate", tmp_path / "scores.csv", "--out", tmp_path / "b.json")
    assert any("few rows of hail (12)" in note for note in found["notes"])
    assert any("--events-per-day" in note for note in found["notes"])
    clean = found["kinds"][0]
    plain = wilson(round(clean["accuracy"] * clean["rows"]), clean["rows"])
    assert clean["high"] - clean["low"] > 1.3 * (plain.high - plain.low)


def test_replay_finds_the_shift_and_the_truth_lies_within(cli, bundle):
    said = cli(
        "replay", bundle, EXAMPLE / "today.parquet", "--truth", EXAMPLE / "today_truth.parquet"
    )
    assert said.code == 1
    for word in (
        "3,000 events, 30 windows of 100",
        "ALARM at event",
        "Truth revealed",
        "Truth  ",
        "(UTC)",
        " UTC): the cost",
    ):
        assert word in said.out
    found = answer_of(
        cli,
        "replay",
        bundle,
        EXAMPLE / "today.parquet",
        "--truth",
        EXAMPLE / "today_truth.parquet",
        "--all",
    )
    raised = [a["event"] for a in found["alarms"] if a["kind"] == "raised"]
    assert SHIFT_BEGINS < raised[0] <= SHIFT_BEGINS + 200 and not [
        e for e in raised if e <= SHIFT_BEGINS
    ]
    assert found["truth"]["windows"] == 30 and found["truth"]["covered"] >= 27
    truth = (
        np.array(table_of(EXAMPLE / "today_truth.parquet")["correct"]).reshape(30, 100).mean(axis=1)
    )
    np.testing.assert_allclose([w["truth"] for w in found["windows"]], truth)


def test_the_estimates_never_see_the_truth(cli, bundle, tmp_path):
    columns = table_of(EXAMPLE / "today.parquet")
    columns["correct"] = [
        not right for right in table_of(EXAMPLE / "today_truth.parquet")["correct"]
    ]
    pq.write_table(pa.table(columns), tmp_path / "turned.parquet")
    hidden = answer_of(cli, "replay", bundle, EXAMPLE / "today.parquet")
    turned = answer_of(cli, "replay", bundle, tmp_path / "turned.parquet")
    assert hidden["truth"] is None and turned["truth"]["covered"] < 5
    assert [{**w, "truth": None, "truth_known": 0} for w in turned["windows"]] == hidden["windows"]
    assert hidden["alarms"] == turned["alarms"]


def test_a_stream_unlike_anything_calibrated_cannot_be_told(cli, bundle):
    said = cli("replay", bundle, EXAMPLE / "strange.parquet")
    assert said.code in (1, 3)
    assert "Cannot tell, events 401 to 1,000, because" in said.out and "████????" in said.out
    found = answer_of(cli, "replay", bundle, EXAMPLE / "strange.parquet")
    assert [w["cannot_tell"] is None for w in found["windows"]] == [True] * 4 + [False] * 6
    assert found["cannot_tell"] == 6


def test_no_program_reads_figures_where_the_reason_says_that_there_are_none(cli, bundle, tmp_path):
    out, names = tmp_path / "windows.parquet", ("rate", "accuracy", "risk")
    figures = [f"{name}{end}" for name in names for end in ("", "_low", "_high")] + ["exceedance"]
    found = answer_of(cli, "replay", bundle, EXAMPLE / "strange.parquet", "--out", out)
    assert {w["cannot_tell"] is None for w in found["windows"]} == {True, False}
    assert pq.read_schema(out).field("truth").type == pa.float64(), (
        "a column without values is one of numbers all the same"
    )
    for window in (*found["windows"], *pq.read_table(out).to_pylist()):
        assert [window[name] is None for name in figures] == [
            window["cannot_tell"] is not None
        ] * len(figures)
        assert window["n"] is not None and window["strangeness"] is not None, (
            "by these one sees how strange it is"
        )


def test_costs_follow_from_right_and_wrong(cli, bundle, euros):
    plain, dear = (answer_of(cli, "replay", b, EXAMPLE / "today.parquet") for b in (bundle, euros))
    assert dear["unit"] == "EUR per patient" and dear["tolerable"] == 1925
    for one, other in zip(plain["windows"], dear["windows"], strict=True):
        assert other["risk"] == pytest.approx(635 + 6100 * one["risk"], rel=1e-6)


def test_a_tree_in_a_file_is_the_same_as_its_costs(tmp_path):
    text = """
unit: EUR per patient
event: shift
branches:
  shifted: {p: p_shift, then: {event: answer, branches: {
    right: {p: accuracy_shifted, then: {outcome: found, cost: 635}}, wrong: {then: {outcome: missed, cost: 6735}}}}}
  clean: {then: {event: answer, branches: {
    right: {p: accuracy_clean, then: {outcome: found, cost: 635}}, wrong: {then: {outcome: missed, cost: 6735}}}}}
constants: {spare: 0.5}
"""
    (tmp_path / "tree.yaml").write_text(text)
    (tree, constants), (plain, _) = (
        chosen_tree([], None, tmp_path / "tree.yaml"),
        chosen_tree(["right=635", "wrong=6735"], "EUR per patient", None),
    )
    at = dict(zip(plain.parameters, np.random.default_rng(0).random((3, 50)), strict=True))
    np.testing.assert_allclose(expectation(tree, at), expectation(plain, at))
    assert tree.unit == plain.unit and constants == {"spare": 0.5}


def test_windows_can_be_longer_closer_and_all_written(cli, bundle, tmp_path):
    out = tmp_path / "windows.parquet"
    found = answer_of(
        cli,
        "replay",
        bundle,
        EXAMPLE / "today.parquet",
        "--window",
        500,
        "--every",
        10,
        "--out",
        out,
    )
    assert (found["window"], found["every"], found["windows_in_all"], len(found["windows"])) == (
        500,
        10,
        251,
        40,
    )
    table = pq.read_table(out)
    assert table.num_rows == 251 and table["last_event"].to_pylist() == list(range(500, 3001, 10))
    assert {"accuracy_low", "risk", "exceedance", "cannot_tell", "time", "truth"} <= set(
        table.column_names
    )


@pytest.mark.parametrize("read", ["stream", "truth"])
def test_windows_are_not_written_over_what_they_are_made_of(cli, bundle, tmp_path, read):
    for name in ("stream", "truth"):
        (tmp_path / f"{name}.csv").write_text(
            "id,correct,energy\n" + "".join(f"e{i},1,0.5\n" for i in range(300))
        )
    (tmp_path / "windows.csv").symlink_to(tmp_path / f"{read}.csv")
    before = (tmp_path / f"{read}.csv").read_text()
    for out in (tmp_path / f"{read}.csv", tmp_path / "windows.csv"):
        said = cli(
            "replay",
            bundle,
            tmp_path / "stream.csv",
            "--truth",
            tmp_path / "truth.csv",
            "--out",
            out,
        )
        assert said.code == 2 and f"{read}.csv, which is read and would be lost" in said.err
        assert (tmp_path / f"{read}.csv").read_text() == before


def test_a_terminal_sees_forty_windows_at_most(cli, bundle):
    said = cli("replay", bundle, EXAMPLE / "today.parquet", "--every", 10)
    assert (
        sum("–" in line for line in said.out.splitlines()) == 40
        and "--all shows every one" in said.out
    )
    everything = cli("replay", bundle, EXAMPLE / "today.parquet", "--every", 10, "--all")
    assert sum("–" in line for line in everything.out.splitlines()) == 291


def test_repeated_events_are_counted_once_and_empty_ones_say_nothing(cli, bundle, tmp_path):
    whole = pq.read_table(EXAMPLE / "today.parquet")
    pq.write_table(pa.concat_tables([whole, whole.slice(100, 500)]), tmp_path / "twice.parquet")
    found = answer_of(cli, "replay", bundle, tmp_path / "twice.parquet")
    assert (found["events"], found["repeated"]) == (3000, 500)
    assert (
        found["windows"] == answer_of(cli, "replay", bundle, EXAMPLE / "today.parquet")["windows"]
    )
    columns = whole.to_pydict()
    for name in [c for c in columns if c not in ("time", "id")]:
        columns[name][:100] = [None] * 100
    pq.write_table(pa.table(columns), tmp_path / "gap.parquet")
    gap = answer_of(cli, "replay", bundle, tmp_path / "gap.parquet")
    assert (
        gap["unscored"] == 100
        and gap["windows"][0]["cannot_tell"] == "100 of 100 events have no score at all"
    )
    assert "score knn is missing in 100 of 3,000 events" in gap["notes"]


def test_scores_of_another_name_can_be_pointed_at(cli, bundle, tmp_path):
    table = pq.read_table(EXAMPLE / "today.parquet")
    renamed = table.rename_columns(["nrg" if c == "energy" else c for c in table.column_names])
    pq.write_table(renamed, tmp_path / "renamed.parquet")
    said = cli("replay", bundle, tmp_path / "renamed.parquet")
    assert (
        said.code == 2 and "no column 'energy'" in said.err and "--score energy=COLUMN" in said.err
    )
    found = answer_of(cli, "replay", bundle, tmp_path / "renamed.parquet", "--score", "energy=nrg")
    assert (
        found["windows"] == answer_of(cli, "replay", bundle, EXAMPLE / "today.parquet")["windows"]
    )
    wrong = cli("replay", bundle, tmp_path / "renamed.parquet", "--score", "enrgy=nrg")
    assert wrong.code == 2 and "did you mean 'energy'?" in wrong.err


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("kind,correct,knn\nclean,1,1\nclean,0,2\n", (), "all 2 rows are clean"),
        ("kind,correct,knn\nsite A,1,1\nsite B,0,2\n", (), "its kinds are: 'site A', 'site B'"),
        (
            "kind,knn\nclean,1\nfog,2\n",
            (),
            "for whether the answer was right",
        ),
        ("kind,corect,knn\nclean,1,1\nfog,0,2\n", (), "did you mean 'corect'?"),
        ("correct,knn\n1,1\n0,2\n", (), "'kind' (or role, shift, fold, condition)"),
        ("kind,correct,knn\nclean,1,1\nfog,0,inf\n", (), "row 2: knn is inf"),
        ("kind,correct,knn\nclean,1,\nfog,0,\n", (), "knn"),
        ("kind,correct,knn\nclean,1,1\nfog,0,2\n", ("--cost", "wrong"), "a name and a number"),
        ("kind,correct,knn\nclean,1,1\nfog,0,2\n", ("--cost", "right=1"), "--cost wrong="),
        (
            "kind,correct,knn\nclean,1,1\nfog,0,2\n",
            ("--cost", "wrong=1", "--cost", "late=2"),
            "unknown outcome 'late'",
        ),
        (
            "kind,correct,knn\nclean,1,1\nfog,0,2\n",
            ("--cost", "falsch=4"),
            "unknown outcome 'falsch'",
        ),
        (
            "kind,correct,knn\nclean,1,1\nfog,0,2\n",
            ("--tolerable", "1"),
            "no outcome costs more than 1",
        ),
        (
            "kind,correct,knn\nclean,1,1\nfog,0,2\n",
            ("--tolerable", "0"),
            "no outcome costs less than 0",
        ),
        (
            "kind,correct,knn\nclean,1,1\nfog,0,2\n",
            (*EURO[:-1], "635"),
            "between 635 and 6735 EUR per patient",
        ),
        ("kind,correct,knn\nclean,1,1\nfog,0,2\n", ("--unit", "EUR"), "--cost right="),
        ("kind,correct,knn\nclean,1,1\nfog,0,2\n", ("--false-alarms", "seldom"), "1 per month"),
    ],
)
def test_tables_and_options_that_will_not_do_are_refused(cli, tmp_path, text, options, says):
    (tmp_path / "scores.csv").write_text(text)
    said = cli("calibrate", tmp_path / "scores.csv", *options)
    assert said.code == 2 and says in said.err and said.out == ""
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("content", ["{}", "not JSON", '{"format": 1}'])
def test_what_is_no_bundle_is_refused(cli, tmp_path, content):
    (tmp_path / "b.json").write_text(content)
    said = cli("replay", tmp_path / "b.json", EXAMPLE / "today.parquet")
    assert said.code == 2 and "b.json" in said.err and len(said.err) < 600


def test_a_changed_bundle_is_refused(cli, bundle, tmp_path):
    text = bundle.file.read_text()
    content = json.loads(text)
    content["tolerable"] = (content.get("tolerable") or 0) + 1
    (tmp_path / "b.json").write_text(json.dumps(content))
    assert cli("replay", tmp_path / "b.json", EXAMPLE / "today.parquet").code == 2
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    assert cli("replay", tmp_path / "cut.json", EXAMPLE / "today.parquet").code == 2


def test_a_stream_shorter_than_a_window_is_refused(cli, bundle, tmp_path):
    pq.write_table(
        pq.read_table(EXAMPLE / "today.parquet").slice(0, 50), tmp_path / "short.parquet"
    )
    said = cli("replay", bundle, tmp_path / "short.parquet")
    assert said.code == 2 and "50 events" in said.err and "--window" in said.err
    assert cli("replay", bundle, tmp_path / "short.parquet", "--window", 50).code in (0, 1)


@settings(max_examples=60)
@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=120),
    st.integers(1, 20),
    st.integers(1, 25),
    st.lists(st.integers(0, 120), max_size=5),
)
def test_windows_are_the_same_however_a_stream_is_cut(cells, window, every, cuts):
    stream = np.array(cells, dtype=np.int16)
    counts = Counts(cells=4, window=window, every=every)
    for part in np.split(np.arange(len(stream)), sorted(c for c in cuts if c <= len(stream))):
        counts.add(stream[part], (stream[part] > 0).astype(float), part.astype(float))
    ends = [e for e in range(every, len(stream) + 1, every) if e >= window]
    assert counts.ends == ends and counts.times == [e - 1.0 for e in ends]
    for row, end, truth in zip(counts.table(), ends, counts.truth, strict=True):
        part = stream[end - window : end]
        assert row.tolist() == [int((part == c).sum()) for c in range(4)]
        assert truth == pytest.approx((part > 0).mean())


@settings(max_examples=30)
@given(st.integers(1, 3000), st.integers(1, 7), st.integers(2, 20))
def test_long_streams_keep_a_bounded_number_of_windows_at_even_distances(n, window, most):
    counts = Counts(cells=2, window=window, every=None, most=most)
    for part in np.array_split(np.zeros(n, dtype=np.int16), 7):
        counts.add(part, None, None)
    assert len(counts.ends) <= most
    assert counts.ends == list(range(counts.every, n + 1, counts.every))
    assert counts.every == window or len(counts.ends) >= most // 2


def test_shown_windows_end_with_the_last():
    assert shown(5, 40) == [0, 1, 2, 3, 4]
    for n in (41, 100, 1000, 4097):
        found = shown(n, 40)
        assert len(set(found)) == 40 and found[-1] == n - 1 and found == sorted(found)


def test_truth_is_found_by_id_whatever_its_order(tmp_path):
    (tmp_path / "truth.csv").write_text("id,correct\nc,1\na,0\nb,\n")
    truth = Truth(read_scores(tmp_path / "truth.csv", columns=[]))
    np.testing.assert_array_equal(
        truth.of(np.array(["a", "b", "c", "d"])), [0.0, np.nan, 1.0, np.nan]
    )


def test_ids_are_remembered_for_as_long_as_stated():
    known = Known(least=3)
    assert known.fresh(np.array(["a", "b", "a"])).tolist() == [True, True, False]
    assert known.fresh(np.array(["c", "d", "b"])).tolist() == [True, True, False]
    assert known.fresh(np.array(["e", "f", "g"])).tolist() == [True, True, True]
    assert known.fresh(np.array(["e", "h"])).tolist() == [False, True]


def test_a_tree_that_cannot_be_read_says_where(tmp_path):
    file = tmp_path / "tree.yaml"
    for text, says in [
        ("- 1\n", "a tree was expected"),
        ("event: shift\nbranches: {}\n", "tree.yaml"),
        (
            "event: shift\nbranches: {true: 1\nfalse: [\n",
            r"tree.yaml:3:\d+: this is not valid YAML: ",
        ),
        ("event: [\n", r"tree.yaml:2:1: this is not valid YAML: "),
        ("event: shift\nconstants: {a: b}\n", "constants are names with a number"),
        (
            "event: shift\nconstants: {p_shift: 0.1}\n",
            "tree.yaml: p_shift is counted, .* cannot be a constant",
        ),
    ]:
        file.write_text(text)
        with pytest.raises(DataError, match=says):
            chosen_tree([], None, file)
    with pytest.raises(DataError, match="two ways"):
        chosen_tree(["wrong=1"], None, file)
