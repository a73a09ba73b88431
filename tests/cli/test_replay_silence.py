"""Why no alarm rang, as replay says it: where the alarm never looked, that is the reason, and not that it asks for more."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from roadworthy.cli.alarm_words import first_look, never_looked
from roadworthy.cli.app import run
from roadworthy.cli.commands.replay import _no_alarm
from roadworthy.monitor import Bundle, Events, Monitor, Windows

pytestmark = pytest.mark.usefixtures("quick_alarms")

SERIOUSLY = "Take that as seriously as an alarm."


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """One score: clean N(0, 1), fog N(2, 1), rain N(2.5, 1)."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "rain"], 400)
    right = rng.random(1200) < np.where(kind == "clean", 0.95, 0.5)
    energy = rng.normal(np.repeat([0.0, 2.0, 2.5], 400))
    lines = [f"{k},{int(r)},{e:.4f}" for k, r, e in zip(kind, right, energy, strict=True)]
    path = tmp_path_factory.mktemp("silence") / "scores.csv"
    path.write_text("\n".join(["kind,correct,energy", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def bundle(table, quick_alarms) -> Path:
    """Its alarm looks every 50 events, over the last 100."""
    out = table.with_name("hundred.json")
    assert (
        run(
            [
                "calibrate",
                str(table),
                "--tolerable",
                "0.12",
                "--window",
                "100",
                "--out",
                str(out),
                "--json",
            ]
        )
        == 0
    )
    return out


@pytest.fixture
def shifted(tmp_path) -> Path:
    """60 events, every one shifted."""
    path = tmp_path / "short.csv"
    path.write_text(
        "\n".join(["energy", *(f"{e:.4f}" for e in np.random.default_rng(1).normal(2.2, size=60))])
        + "\n"
    )
    return path


def found(events: int, above: float | None = 0.998) -> SimpleNamespace:
    return SimpleNamespace(above=above, whole=True, seemed_above=True, events=events)


def watching(path: Path, window: int, **rule: object) -> Bundle:
    """The bundle with another rule."""
    made = Bundle.load(path)
    assert made.alarm is not None
    return replace(
        made, windows=Windows((window,)), alarm=replace(made.alarm, window=window, **rule)
    )


def test_an_alarm_whose_window_is_longer_than_the_stream_has_not_asked_for_more(
    cli, bundle, shifted
):
    said = cli("replay", bundle, shifted, "--window", "50")
    assert (
        said.code == 1
        and "No alarm was raised although the cost of the last window is above 0.120" in said.out
    )
    assert f"%: the alarm reads the last 100 events, and there are 60. {SERIOUSLY}" in " ".join(
        said.out.split()
    )
    assert "asks for more" not in said.out


def test_an_alarm_of_a_short_window_does_not_look_before_it_knows_how_alike_events_are(
    cli, table, shifted, tmp_path
):
    assert (
        cli(
            "calibrate",
            table,
            "--tolerable",
            "0.12",
            "--window",
            "20",
            "--out",
            tmp_path / "b.json",
        ).code
        == 0
    )
    said = " ".join(cli("replay", tmp_path / "b.json", shifted).out.split())
    assert (
        f"%: the alarm looks for the first time after 70 events, and there are 60. {SERIOUSLY}"
        in said
    )
    assert "asks for more" not in said


@pytest.mark.parametrize(
    ("window", "stride"), [(20, 10), (64, 32), (50, 7), (100, 50), (101, 50), (130, 1), (90, 200)]
)
def test_the_first_look_is_that_of_the_monitor(bundle, window, stride):
    """One that has nothing to prove rings at its first look at nothing but shift, and never before."""
    free = {
        "on": -5.0,
        "off": -6.0,
        "burden": 0.0,
        "by_time": ((1.0, 0.0), (1e4, 0.0)),
        "stretch": 0,
        "by_stretch": (),
    }
    made = watching(bundle, window, stride=stride, **free)
    rule, monitor = made.alarm, Monitor(made)
    for score in np.random.default_rng(3).normal(3.0, size=220):
        monitor.update(Events(None, None, columns={"energy": np.array([score])}))
    assert monitor.alarms[0].kind == "raised" and monitor.alarms[0].event == first_look(rule)
    assert (
        never_looked(rule, first_look(rule)) is None
        and never_looked(rule, first_look(rule) - 1) is not None
    )


def test_the_same_reason_is_given_where_nothing_seems_wrong(bundle):
    made = Bundle.load(bundle)
    assert (
        _no_alarm(made, found(60, None), 0.12)
        == "No alarm: it reads the last 100 events, and there are 60."
    )
    short = watching(bundle, 20, stride=10)
    said = _no_alarm(short, found(69, None), 0.12)
    assert said == "No alarm: it looks for the first time after 70 events, and there are 69."
    assert "chance alone would do as much" in _no_alarm(short, found(70, None), 0.12)


def test_an_alarm_that_looked_asked_for_more_and_when_it_looked_last_is_said(bundle):
    made = Bundle.load(bundle)
    rate = "; it was set to ring 1 per month at most without shift, and "
    assert f"{rate}asks for more. {SERIOUSLY}" in _no_alarm(made, found(150), 0.12)
    assert f"{rate}asked for more when it looked last, at event 100. {SERIOUSLY}" in _no_alarm(
        made, found(149), 0.12
    )


def test_an_alarm_that_keeps_no_rate_is_not_said_to_be_set_for_one(bundle):
    made = Bundle.load(bundle)
    said = _no_alarm(replace(made, alarm=replace(made.alarm, burden=-math.inf)), found(150), 0.12)
    assert (
        "per month" not in said
        and "over the last 100 events, as the alarm reads them, it was never as sure" in said
    )
