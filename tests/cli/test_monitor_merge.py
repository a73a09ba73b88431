"""`monitor merge` ends as `replay` does: the exit code is the verdict on what the replicas hold together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ready_made import alarm_rule
from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    rng = np.random.default_rng(0)
    kind, shift = np.repeat(["clean", "fog"], 800), np.repeat([0.0, 4.0], 800)
    calibration = fit_calibration(
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
        (0.0, 0, False, False, "accuracy 9"),
        (4.0, 1, True, False, "above 0.200 wrong answers per case"),
        (np.nan, 3, False, True, "no estimate"),
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
    assert (told.code, content["alarm"], content["no_estimate"]) == (code, alarm, untold)
    assert (tmp_path / "both.sqlite").is_file()
    said = cli("monitor", "merge", *files)
    assert said.code == code and says in said.out and ("ALARM" in said.out) is alarm


def test_one_state_named_twice_is_refused_also_by_a_link(cli, bundle, tmp_path):
    first, second = replicas(bundle, tmp_path, np.zeros(200))
    (tmp_path / "soft.sqlite").symlink_to(first)
    (tmp_path / "hard.sqlite").hardlink_to(first)
    said = cli("monitor", "merge", first, second, first)
    assert said.code == 2 and "merged before" in said.err.replace("\n", " ")
    for link in ("soft.sqlite", "hard.sqlite"):
        said = cli("monitor", "merge", first, tmp_path / link)
        assert said.code == 2 and "merged before" in " ".join(said.err.split())


def test_what_came_again_is_told_whether_to_one_replica_or_to_two(cli, bundle, tmp_path):
    from roadworthy.web.offline import kept

    for name, ids in (("a", ["x", "y", "x"]), ("b", ["y", "z"])):
        monitor = Monitor(bundle)
        monitor.update(
            Events(ids, np.full(len(ids), 1_700_000_000.0), columns={"knn": np.zeros(len(ids))})
        )
        kept(monitor, tmp_path / f"{name}.sqlite")
    said = cli("monitor", "merge", tmp_path / "a.sqlite", tmp_path / "b.sqlite").out.splitlines()[0]
    assert said.startswith("3 events of lesion-2.3.1; 2 repeated events")


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
    monitor.label_all([(f"{name}{i}", i % 2 == 0, 1.0) for i in range(n - labels, n)])
    kept(monitor, path / f"{name}.sqlite")
    return path / f"{name}.sqlite"


def test_what_labels_say_is_said_beside_what_the_scores_say(cli, bundle, tmp_path):
    files = [
        stream(bundle, tmp_path, name, shift=0.0, labels=200, first=0.5 * i)
        for i, name in enumerate("ab")
    ]
    said = cli("monitor", "merge", *files)
    assert said.code == 1 and "by 100 labels: accuracy 50.0% (50.0% to 50.0%)" in said.out
    assert "ALARM is on, by labels" in said.out
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
    assert said.code == 0 and "No alarm." in said.out and "too few for an alarm" in said.out
    proven = [
        stream(bundle, tmp_path, name, shift=0.0, labels=200, first=0.5 * i)
        for i, name in enumerate("cd")
    ]
    assert "too few" not in cli("monitor", "merge", *proven).out


def test_where_nothing_is_called_tolerable_there_is_no_alarm_and_it_is_said(cli, bundle, tmp_path):
    files = [
        stream(replace(bundle, tolerable=None, alarm=None), tmp_path, name, shift=4.0)
        for name in "ab"
    ]
    assert "no limit set" in cli("monitor", "merge", *files).out


@pytest.mark.parametrize("command", [("label-queue", "cal.csv"), ("merge", "cal.csv", "other.csv")])
def test_a_file_that_is_no_state_is_told_what_was_expected(cli, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name in ("cal.csv", "other.csv"):
        Path(name).write_text("kind,correct,knn\n" + "clean,1,0.5\n" * 100)
    said = cli("monitor", *command)
    told = " ".join(said.err.split())
    assert said.code == 2 and "cal.csv is not a state file" in told and "give another" not in told


def test_what_to_label_has_its_time_as_people_read_it(cli, bundle, tmp_path):
    state = stream(bundle, tmp_path, "a", shift=0.0)
    header, *rows = cli("monitor", "label-queue", state, "-n", "3").out.splitlines()
    assert header.split("\t") == ["id", "probability", "time"] and len(rows) == 3
    assert all(
        row.split("\t")[2].startswith("2023-11-14 22:") and row.endswith(" UTC") for row in rows
    )
