"""`monitor merge` ends as `replay` does: the exit code is the verdict on what the replicas hold together."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ready_made import alarm_rule
from roadworthy.analysis.risk.calibration import calibrate
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.cli.merging import alarm_line
from roadworthy.monitor import Bundle, Events, Monitor, Windows


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    rng = np.random.default_rng(0)
    kind, shift = np.repeat(["clean", "fog"], 800), np.repeat([0.0, 4.0], 800)
    calibration = calibrate(
        {"knn": rng.normal(shift)}, kind, rng.random(1600) < np.repeat([0.92, 0.4], 800)
    )
    return Bundle(
        subject="lesion-2.3.1",
        calibration=calibration,
        tree=accuracy_tree(),
        tolerable=0.2,
        windows=Windows((100,)),
        alarm=alarm_rule(),
    )


def replicas(bundle: Bundle, folder: Path, scores: np.ndarray) -> list[Path]:
    """The same stream, every second event in each of two state files."""
    from roadworthy.web.offline import kept

    made = []
    for first in (0, 1):
        monitor, numbers = Monitor(bundle), np.arange(first, len(scores), 2)
        ids, times = [f"e{i}" for i in numbers], 1_700_000_000.0 + numbers
        monitor.update(Events(ids, times, columns={"knn": scores[numbers]}))
        made.append(folder / f"{first}.sqlite")
        kept(monitor, made[-1])
    return made


@pytest.mark.parametrize(
    ("shift", "code", "alarm", "untold", "says"),
    [
        (0.0, 0, False, False, "accuracy 0.9"),
        (
            4.0,
            1,
            True,
            False,
            "ALARM is on: the cost of all together may be above 0.200 wrong answers per case (probability",
        ),
        (np.nan, 3, False, True, "cannot be told"),
    ],
)
def test_the_exit_code_is_the_verdict_and_the_state_is_written(
    cli, bundle, tmp_path, shift, code, alarm, untold, says
):
    scores = np.random.default_rng(1).normal(size=1200)
    scores[600:] += shift
    files = replicas(bundle, tmp_path, scores)
    told = cli("monitor", "merge", *files, "--into", tmp_path / "both.sqlite", "--json")
    content = json.loads(told.out)
    assert (told.code, content["alarm"], content["cannot_tell"]) == (code, alarm, untold)
    assert (tmp_path / "both.sqlite").is_file()
    said = cli("monitor", "merge", *files)
    assert said.code == code and says in said.out and ("ALARM" in said.out) is alarm
    assert said.out.splitlines()[1] == "tolerable: 0.200 wrong answers per case"
    assert said.out.splitlines()[-1].startswith(
        "ALARM is on" if alarm else "No alarm is on, but" if untold else "No alarm."
    )


def test_what_came_again_is_told_whether_to_one_replica_or_to_two(cli, bundle, tmp_path):
    from roadworthy.web.offline import kept

    for name, ids in (("a", ["x", "y", "x"]), ("b", ["y", "z"])):
        monitor = Monitor(bundle)
        monitor.update(
            Events(ids, np.full(len(ids), 1_700_000_000.0), columns={"knn": np.zeros(len(ids))})
        )
        kept(monitor, tmp_path / f"{name}.sqlite")
    said = cli("monitor", "merge", tmp_path / "a.sqlite", tmp_path / "b.sqlite").out.splitlines()[0]
    assert said.startswith("3 events of lesion-2.3.1; 2 more came with an id that was known")


def stream(
    bundle: Bundle, path: Path, name: str, *, shift: float, labels: int = 0, first: float = 0.0
) -> Path:
    """1,000 events, of which labels say, where there are any, that half are wrong."""
    from roadworthy.web.offline import kept

    rng, monitor, n = np.random.default_rng(ord(name[0])), Monitor(bundle), 1000
    scores = rng.normal(size=n)
    scores[n // 2 :] += shift
    times = 1_700_000_000.0 + first + np.arange(n)
    monitor.update(Events([f"{name}{i}" for i in range(n)], times, columns={"knn": scores}))
    for i in range(n - labels, n):
        monitor.label(f"{name}{i}", i % 2 == 0, 1.0, look=False)
    monitor.look_at_labels()
    kept(monitor, path / f"{name}.sqlite")
    return path / f"{name}.sqlite"


@pytest.mark.parametrize(("others", "on"), [("ab", True), ("abcdef", False)])
def test_an_alarm_that_one_replica_raised_is_called_its_own(cli, bundle, tmp_path, others, on):
    heavy = replace(bundle, alarm=alarm_rule(burden=250.0, by_time=((1.0, 250.0), (30.0, 250.0))))
    fog = stream(heavy, tmp_path, "fog", shift=4.0)
    quiet = [
        stream(heavy, tmp_path, name, shift=0.0, first=0.3 + 0.1 * i)
        for i, name in enumerate(others)
    ]
    told = json.loads(cli("monitor", "merge", fog, *quiet, "--json").out)
    assert told["alarm_of"] == [str(fog)] and told["alarm"] is on and not told["alarm_by_labels"]
    said = cli("monitor", "merge", fog, *quiet)
    probability = (
        float(re.findall(r"probability ([\d.]+)%", said.out)[-1]) / 100 if on else math.nan
    )
    assert not on or probability == pytest.approx(told["windows"][0]["exceedance"], abs=0.01)
    chance = f"may be above 0.200 wrong answers per case (probability {probability:.1%})"
    whole = f"ALARM is on, carried over from {fog}, where it was raised and is not cleared: the cost of all together {chance}"
    assert (
        whole
        if on
        else f"No alarm of all together, though the alarm of {fog} is on: look at it there"
    ) in said.out
    assert "is above" not in said.out


def test_the_chance_that_is_told_is_that_of_the_window_that_keeps_the_alarm_on(
    cli, bundle, tmp_path
):
    """One replica ends five minutes before the other, whose last window is clean."""
    from roadworthy.web.offline import together

    files = [
        stream(bundle, tmp_path, "fog", shift=4.0),
        stream(bundle, tmp_path, "later", shift=0.0, first=300.5),
    ]
    whole, end = together([str(file) for file in files]).monitor, 1_700_000_999.0
    there, now = whole.alarms[-1].exceedance, whole.risk().exceedance
    assert (
        there == pytest.approx(whole.risk(at=end).exceedance, abs=0.01) and there > 0.8 > 0.2 > now
    )
    said = cli("monitor", "merge", *files).out.splitlines()[-1]
    assert said.startswith(
        "ALARM is on: the cost of all together may be above 0.200 wrong answers per case"
    )
    assert (
        f"(probability {there:.1%} up to 2023-11-14 22:29 UTC, where one of them ends); the alarm of {files[0]} is on as well"
        in said
    )


def test_an_alarm_that_a_longer_stretch_raises_is_one_of_all_together(cli, bundle, tmp_path):
    """No window of 100 can reach its threshold; the last 400 events do."""
    far = alarm_rule(
        by_time=((1.0, 1e6), (30.0, 1e6)), stretch=400, by_stretch=((1.0, 3.0), (30.0, 3.0))
    )
    both = [
        stream(replace(bundle, alarm=far), tmp_path, name, shift=4.0, first=0.5 * i)
        for i, name in enumerate("ab")
    ]
    said = cli("monitor", "merge", *both)
    assert (
        "ALARM is on: the cost of all together may be above" in said.out
        and "carried over" not in said.out
    )


def test_an_alarm_is_judged_by_how_alike_events_were_when_it_was_raised(bundle):
    """Those that came while it was on are so alike that no window of theirs could raise one."""
    monitor, rng = Monitor(bundle), np.random.default_rng(4)
    alike = np.repeat(rng.normal(4.0, size=60), 50)
    for scores in (rng.normal(size=1000), rng.normal(4.0, size=200), alike):
        monitor.update(Events(columns={"knn": scores}))
    assert bundle.alarm is not None and bundle.alarm.beyond(monitor.autocorrelation_time)
    assert monitor.alarm and monitor.would_raise()
    assert "carried over" not in alarm_line(monitor, ["a.sqlite"], untold=False)


def test_what_labels_say_is_said_beside_what_the_scores_say(cli, bundle, tmp_path):
    files = [
        stream(bundle, tmp_path, name, shift=0.0, labels=200, first=0.5 * i)
        for i, name in enumerate("ab")
    ]
    said = cli("monitor", "merge", *files)
    assert said.code == 1 and "by 100 labels: accuracy 0.500 (0.500 to 0.500), risk 0.5" in said.out
    assert "(the scores do not see what goes wrong)" in said.out
    assert (
        "ALARM is on, by labels: they say that the cost of all together is above 0.200" in said.out
    )
    assert json.loads(cli("monitor", "merge", *files, "--json").out)["alarm_by_labels"]


def test_labels_that_put_the_cost_above_the_tolerable_without_proving_it_say_why_no_alarm_rings(
    cli, bundle, tmp_path
):
    """Forty-four labels, every second wrong: their interval lies above 0.2, and they are too few to prove it."""
    files = [
        stream(bundle, tmp_path, name, shift=0.0, labels=22, first=0.5 * i)
        for i, name in enumerate("ab")
    ]
    told = json.loads(cli("monitor", "merge", *files, "--json").out)
    assert (
        not told["alarm"]
        and told["windows"][0]["audited"]["risk_low"] > told["windows"][0]["tolerable"] == 0.2
    )
    said = cli("monitor", "merge", *files, "--into", tmp_path / "both.sqlite")
    lines = said.out.splitlines()
    assert said.code == 0 and lines[-1] == "No alarm." and lines[-2].startswith("state: ")
    assert lines[-3].startswith(
        "note: labels put the cost above the tolerable, and no alarm rings for it: it is not proven"
    )
    assert (
        f"the stated rate of false alarms ({bundle.alarm.false_alarms}) however often one looks"
        in lines[-3]
    )
    proven = [
        stream(bundle, tmp_path, name, shift=0.0, labels=200, first=0.5 * i)
        for i, name in enumerate("cd")
    ]
    assert "not proven" not in cli("monitor", "merge", *proven).out


def test_where_nothing_is_called_tolerable_there_is_no_alarm_and_it_is_said(cli, bundle, tmp_path):
    files = [
        stream(replace(bundle, tolerable=None, alarm=None), tmp_path, name, shift=4.0)
        for name in "ab"
    ]
    lines = cli("monitor", "merge", *files).out.splitlines()
    assert (
        lines[1] == "tolerable: nobody said what is, so that there is no alarm"
        and lines[-1] == "No alarm."
    )


@pytest.mark.parametrize("command", [("label-queue", "cal.csv"), ("merge", "cal.csv", "other.csv")])
def test_a_file_that_is_no_state_is_told_what_was_expected(cli, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name in ("cal.csv", "other.csv"):
        Path(name).write_text("kind,correct,knn\n" + "clean,1,0.5\n" * 100)
    said = cli("monitor", *command)
    told = " ".join(said.err.split())
    assert said.code == 2 and "cal.csv is not a state file of a monitor" in told


def test_what_to_label_has_its_time_as_people_read_it(cli, bundle, tmp_path):
    state = stream(bundle, tmp_path, "a", shift=0.0)
    header, *rows = cli("monitor", "label-queue", state, "-n", "3").out.splitlines()
    assert header.split("\t") == ["id", "probability", "time"] and len(rows) == 3
    assert all(
        row.split("\t")[2].startswith("2023-11-14 22:") and row.endswith(" UTC") for row in rows
    )


def test_help_says_so(cli):
    shown = " ".join(cli("monitor", "merge", "--help").out.split())
    assert "1 the alarm of all together is on" in shown and "3 no estimate" in shown
    assert "Exit codes: 0 done" in " ".join(cli("monitor", "label-queue", "--help").out.split())
