"""What calibrate and replay say beside their figures: limits out of reach, thin tables, missing scores, files in the way."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from roadworthy.cli.alarm_words import alarm_in_words, noticed
from roadworthy.cli.cautions import coverage_warning, refuse_unreachable
from roadworthy.cli.commands.replay import _no_alarm
from roadworthy.monitor.bundle import Bundle
from roadworthy.monitor.estimate import Coverage
from roadworthy.monitor.messages import misses

pytestmark = pytest.mark.usefixtures("quick_alarms")

DAY = 86400.0


def rows_of(
    kinds: dict[str, int],
    *,
    accuracy: float = 0.5,
    apart: float = 3.0,
    seed: int = 0,
    start: float = 1.7e9,
):
    """Lines of a table, header first: id, time (one a minute), kind, correct, knn."""
    rng = np.random.default_rng(seed)
    names = [k for k, n in kinds.items() for _ in range(n)]
    lines = ["id,time,kind,correct,knn"]
    for i, kind in enumerate(names):
        clean = kind == "clean"
        right = rng.random() < (0.95 if clean else accuracy)
        lines.append(
            f"e{i},{start + 60 * i:.0f},{kind},{int(right)},{rng.normal(0.0 if clean else apart):.4f}"
        )
    return lines


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory, quick_alarms) -> Path:
    """A bundle from a CSV table."""
    from roadworthy.cli.app import run

    folder = tmp_path_factory.mktemp("cautions")
    table = written(folder / "scores.csv", rows_of({"clean": 400, "fog": 200}))
    assert (
        run(["calibrate", str(table), "--cost", "wrong=4", "--events-per-day", "1440", "--json"])
        == 0
    )
    return folder / "scores.bundle.json"


def stream(path: Path, kinds: dict[str, int], *, scale: float = 1.0, empty: int = 0) -> Path:
    """A stream without labels: id, time, knn; the first scores are missing."""
    lines = ["id,time,knn"]
    for i, line in enumerate(rows_of(kinds, seed=1)[1:]):
        name, time, _, _, score = line.split(",")
        lines.append(f"{name},{float(time) * scale:.0f},{'' if i < empty else score}")
    return written(path, lines)


def test_exit_codes_tell_quiet_from_alarm_from_cannot_tell(cli, made, tmp_path):
    assert cli("replay", made, stream(tmp_path / "quiet.csv", {"clean": 300})).code == 0
    alarm = cli("replay", made, stream(tmp_path / "fog.csv", {"clean": 200, "fog": 300}))
    assert alarm.code == 1 and "ALARM" in alarm.out
    silent = written(tmp_path / "silent.csv", ["knn,id", *(f",e{i}" for i in range(200))])
    answer = cli("replay", made, silent)
    assert (
        answer.code == 3
        and "100 of 100 events have no score at all" in answer.out
        and "has come yet" not in answer.out
    )
    said = cli("replay", "--help")
    assert "1 an alarm was raised" in " ".join(said.out.replace("│", " ").split())


def test_missing_scores_of_a_stream_are_counted(cli, made, tmp_path):
    said = cli("replay", made, stream(tmp_path / "gaps.csv", {"clean": 400}, empty=150))
    assert "note: score knn is missing in 150 of 400 events" in said.out


def test_a_clock_of_milliseconds_gives_the_same_replay(cli, made, tmp_path):
    plain = json.loads(
        cli("replay", made, stream(tmp_path / "s.csv", {"clean": 300}), "--json").out
    )
    parts = json.loads(
        cli("replay", made, stream(tmp_path / "p.csv", {"clean": 300}, scale=1e3), "--json").out
    )
    assert [w["time"] for w in parts["windows"]] == [w["time"] for w in plain["windows"]]
    assert any("milliseconds" in n for n in parts["notes"]) and parts["alarms"] == plain["alarms"]


def test_calibrate_counts_days_by_the_same_clock(cli, tmp_path):
    lines = rows_of({"clean": 300, "fog": 100})
    table = written(
        tmp_path / "ms.csv",
        [
            lines[0],
            *(",".join([a, b + "000", *c]) for a, b, *c in (x.split(",") for x in lines[1:])),
        ],
    )
    found = json.loads(cli("calibrate", table, "--json").out)
    assert found["alarm"]["events_per_day"] == pytest.approx(400 / (399 * 60) * DAY)
    assert any("milliseconds" in note for note in found["notes"])


def test_swapped_arguments_are_recognised(cli, made, tmp_path):
    table = stream(tmp_path / "today.csv", {"clean": 200})
    said = cli("replay", table, made)
    assert said.code == 2 and f"roadworthy replay {made} {table}" in said.err
    assert "is a table" in cli("replay", table, table).err


def test_the_next_command_names_a_file_of_the_same_kind(cli, made, tmp_path):
    table = written(tmp_path / "a.csv", rows_of({"clean": 300, "fog": 100}))
    assert cli("calibrate", table).out.rstrip().endswith("a.bundle.json today.csv")


def test_the_default_unit_is_said_once(cli, made, tmp_path):
    said = " ".join(cli("replay", made, stream(tmp_path / "quiet.csv", {"clean": 300})).out.split())
    assert (
        "Expected cost per case" in said
        and said.lower().count("cost per case") == 1
        and "cost (cost" not in said
    )
    said = alarm_in_words(Bundle.load(made))
    assert (
        "when the cost is more likely than not above " in said and " per case, and that is " in said
    )


def test_a_limit_that_nothing_calibrated_reaches_is_refused(cli, made, tmp_path):
    table = written(
        tmp_path / "a.csv", rows_of({"clean": 400, "fog": 200, "snow": 200}, accuracy=0.8)
    )
    said = cli("calibrate", table, "--tolerable", "0.99")
    assert said.code == 2 and "even a stream of nothing but shifted events" in said.err
    assert "within a tolerable 0.990, so that" in said.err, "a cost is written in one way"
    with pytest.raises(ValueError, match="no alarm could ring"):
        refuse_unreachable(replace(Bundle.load(made), tolerable=3.999))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            {"burden": 9.0},
            "when the cost is more likely than not above 0.500 per case, and that is 8,100 times as likely as no shift at all. ",
        ),
        ({"burden": 700.0}, "and that is over a billion times as likely as no shift at all. "),
        ({"burden": 0.0}, "more likely than not above 0.500 per case. "),
        (
            {"burden": -math.inf, "on": math.log(39.0)},
            "with a probability of 97.5% or more above 0.500 per case. ",
        ),
        (
            {"burden": 0.0, "sure": math.log(39.0)},
            "above 0.500 per case, or with a probability of 97.5% or more. ",
        ),
    ],
)
def test_when_an_alarm_rings_is_told_in_words(made, rule, words):
    bundle = Bundle.load(made)
    assert bundle.alarm is not None
    assert words in alarm_in_words(
        replace(bundle, tolerable=0.5, alarm=replace(bundle.alarm, **rule))
    )


def test_ids_that_repeat_are_noted(cli, tmp_path):
    lines = rows_of({"clean": 300, "fog": 100})
    lines[301:401] = [
        line.replace(f"e{300 + i},", f"e{i},", 1) for i, line in enumerate(lines[301:401])
    ]
    found = json.loads(cli("calibrate", written(tmp_path / "a.csv", lines), "--json").out)
    assert any(
        "100 rows repeat the id of another row" in n and "--group" in n for n in found["notes"]
    )


def test_few_rows_that_are_missed_call_for_more_rows(cli, tmp_path):
    table = written(tmp_path / "a.csv", rows_of({"clean": 60, "fog": 40}, apart=1.2, accuracy=0.2))
    found = json.loads(cli("calibrate", table, "--json").out)
    (note,) = [n for n in found["notes"] if "the alarm misses" in n]
    assert (
        "add rows of clean (there are 60) and fog (there are 40)" in note
        and "seldom" not in " ".join(found["notes"])
    )
    assert "lengthen the window" not in note
    bundle = Bundle.load(tmp_path / "a.bundle.json")
    assert bundle.alarm is not None and note in bundle.alarm.notes, (
        "every face says it in the same words"
    )


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.75, "one in four"),
        (0.5, "half"),
        (0.6, "4 in 10"),
        (0.4, "6 in 10"),
        (0.8, "one in five"),
        (0.0, "every"),
    ],
)
def test_how_many_are_missed_is_said_plainly(share, said):
    assert said in misses(share)


def test_low_coverage_of_unknown_kinds_is_a_warning(made):
    bundle = Bundle.load(made)
    assert "in 71% of windows, not in 95%" in (
        coverage_warning(replace(bundle, coverage=Coverage(0.95, 0.71, 90))) or ""
    )
    assert coverage_warning(replace(bundle, coverage=Coverage(0.95, 0.93, 90))) is None
    assert coverage_warning(replace(bundle, coverage=None)) is None


def test_what_is_in_the_way_is_not_lost(cli, made, tmp_path):
    target = tmp_path / "x.json"
    target.write_text(made.read_text())
    lines = rows_of({"clean": 100, "fog": 50})
    said = cli("calibrate", written(tmp_path / "b.csv", lines), "--out", target)
    assert said.code == 2 and "was made from scores.csv" in said.err and "--force" in said.err
    assert target.read_text() == made.read_text()
    again = cli("calibrate", written(tmp_path / "scores.csv", lines), "--out", target)
    assert (
        again.code == 0
        and f"the bundle {Bundle.load(made).id} that was there is replaced" in again.out
    )
    target.write_text("my notes")
    assert "is no bundle" in cli("calibrate", tmp_path / "b.csv", "--out", target).err
    assert target.read_text() == "my notes"
    assert cli("calibrate", tmp_path / "b.csv", "--out", target, "--force").code == 0


def test_silence_is_no_good_news_where_the_last_window_is_surely_above(cli, made, tmp_path):
    from roadworthy.monitor.self_test import expected_state

    bundle = Bundle.load(made)
    deaf = replace(
        bundle, alarm=replace(bundle.alarm, on=900.0, by_time=(), stretch=0, by_stretch=())
    )
    deaf = replace(deaf, self_test=expected_state(deaf))
    deaf.save(tmp_path / "deaf.bundle.json")
    said = cli(
        "replay",
        tmp_path / "deaf.bundle.json",
        stream(tmp_path / "fog.csv", {"clean": 200, "fog": 300}),
    )
    assert said.code == 1 and "ALARM" not in said.out and "No alarm:" not in said.out
    assert "No alarm was raised although the cost of the last window is above" in said.out
    quiet = cli("replay", made, stream(tmp_path / "quiet.csv", {"clean": 300}))
    assert (
        quiet.code == 0
        and "No alarm: at no time was it likely enough that the cost is above" in quiet.out
    )


def test_scores_that_tell_nothing_are_said_to_and_no_longer_window_is_advised(cli, tmp_path):
    table = written(tmp_path / "a.csv", rows_of({"clean": 300, "fog": 100, "snow": 100}, apart=0.0))
    said = cli("calibrate", table)
    assert said.code == 0 and "every window of every stream will be 'cannot tell'" in said.out
    assert "lengthen" not in said.out and "Without shift that is" not in said.out
    words = " ".join(said.out.split())
    assert (
        "By this table it will not ring: shift is not told from none" in words
        and "Once on" not in words
    )
    assert "'cannot tell', and no alarm will ring by them; add" in words, (
        "labels may still raise one"
    )
    again = cli("replay", tmp_path / "a.bundle.json", stream(tmp_path / "s.csv", {"clean": 200}))
    assert again.code == 3 and "warning: the scores do not tell shift from none" in again.out


def test_scores_of_a_handful_of_shifted_rows_are_said_to_be_too_few_and_not_to_tell_nothing(
    cli, tmp_path
):
    table = written(tmp_path / "a.csv", rows_of({"clean": 300, "fog": 3}, apart=6.0))
    words = " ".join(cli("calibrate", table, "--tolerable", "0.3").out.split())
    assert (
        "warning: rows are too few to say whether the scores tell shift from none (told from clean 1.00"
        in words
    )
    assert "no alarm will ring by them; add rows of fog" in words and "do not tell" not in words
    assert "By this table it will not ring: shift is not told from none" in words


@pytest.mark.parametrize(
    ("kinds", "accuracy", "expected"),
    [
        ({"clean": 15, "fog": 60, "snow": 60}, 0.5, "warning: 15 clean rows are too few"),
        ({"clean": 200, "fog": 60}, 0.5, "warning: fog is the only kind of shift: "),
        (
            {"clean": 200, "fog": 60, "snow": 60, "dark": 1},
            0.5,
            "warning: 1 row of dark is too few: ",
        ),
    ],
)
def test_what_calibrate_warned_of_stands_in_the_bundle_and_is_said_again(
    cli, tmp_path, kinds, accuracy, expected
):
    from roadworthy.monitor import Events, Monitor

    table = written(tmp_path / "a.csv", rows_of(kinds, accuracy=accuracy))
    assert expected in cli("calibrate", table).out
    bundle = Bundle.load(tmp_path / "a.bundle.json")
    assert sum(expected.removeprefix("warning: ") in said for said in bundle.made["warnings"]) == 1
    again = cli("replay", tmp_path / "a.bundle.json", stream(tmp_path / "s.csv", {"clean": 200}))
    assert again.out.count(expected) == 1
    assert not any(
        "; " in said for said in again.out.splitlines() if said.startswith("warning: ")
    ), "short: no advice"
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"knn": np.zeros(120)}))
    assert any(expected.removeprefix("warning: ") in note for note in monitor.risk().notes)


def test_a_promise_made_on_few_clean_rows_is_qualified(cli, tmp_path):
    table = written(tmp_path / "a.csv", rows_of({"clean": 15, "fog": 60, "snow": 60}))
    said = cli("calibrate", table).out
    assert (
        "Without shift that should be at most 1 per month" in said
        and "15 clean rows are too few to promise it" in said
    )


def test_a_kind_of_one_row_decides_nothing(cli, tmp_path):
    lines = rows_of({"clean": 300, "fog": 100, "snow": 100})
    without = json.loads(cli("calibrate", written(tmp_path / "a.csv", lines), "--json").out)
    one = [*lines, "z,1700040000,dark,0,2.5"]
    found = json.loads(cli("calibrate", written(tmp_path / "b.csv", one), "--json").out)
    assert found["tolerable"] == pytest.approx(without["tolerable"], abs=0.01)
    left = found["coverage_on_kinds_left_out"]
    assert left is None or left["windows"] <= 60, "windows of two kinds at the most"


def test_an_alarm_that_rings_though_none_is_due_is_not_hidden(made):
    bundle = Bundle.load(made)
    for share, said in ((0.97, "97%, though tolerable"), (0.2, "not due")):
        rule = replace(bundle.alarm, detects=(("fog", share),), not_due=("fog",))
        assert noticed(replace(bundle, alarm=rule)) == {"fog": said}


def test_tiny_costs_keep_their_digits():
    from roadworthy.analysis.risk.amounts import amount

    assert [amount(x) for x in (0.000472, 0.00123, 0.0099, 0.05, 0.0)] == [
        "0.00047",
        "0.0012",
        "0.0099",
        "0.050",
        "0.000",
    ]


def test_why_no_alarm_rang_where_the_cost_seemed_above_is_said(made):
    bundle = Bundle.load(made)
    said = {
        seemed: _no_alarm(
            bundle, SimpleNamespace(above=None, whole=True, seemed_above=seemed, events=1000), 0.5
        )
        for seemed in (True, False)
    }
    assert (
        "that is not so much likelier than no shift at all" in said[True]
        and "more often than 1 per " in said[True]
    )
    short = _no_alarm(
        bundle, SimpleNamespace(above=None, whole=True, seemed_above=True, events=60), 0.5
    )
    assert short == "No alarm: it reads the last 100 events, and there are 60."
    assert said[False].startswith(
        "No alarm: at no time was it likely enough that the cost is above 0.500"
    )
