"""How many events come in a day is told from an hour of them at least; of less it is said how little it is, and what to pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.cli.app import run
from roadworthy.cli.stream_parts import Clock
from roadworthy.monitor.alarm import AlarmRule
from roadworthy.monitor.messages import other_than_set, per_day, too_short_to_say

pytestmark = pytest.mark.usefixtures("quick_alarms")

RULE = AlarmRule(
    window=100, stride=50, burden=9.0, false_alarms="1 per month", events_per_day=1000.0
)
START = 1.7e9


def table_of(path: Path, times: np.ndarray | None = None) -> Path:
    """One score: clean N(0, 1), fog N(6, 1)."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog"], [600, 300])
    right = rng.random(900) < np.where(kind == "clean", 0.95, 0.4)
    timed = {} if times is None else {"time": times}
    energy = rng.normal(np.where(kind == "clean", 0.0, 6.0))
    pq.write_table(pa.table({**timed, "kind": kind, "correct": right, "energy": energy}), path)
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, quick_alarms) -> Path:
    """Set for 1,000 events a day."""
    table = table_of(tmp_path_factory.mktemp("pace") / "scores.parquet")
    assert (
        run(["calibrate", str(table), "--tolerable", "0.2", "--events-per-day", "1000", "--json"])
        == 0
    )
    return table.with_name("scores.bundle.json")


@pytest.fixture
def noted(cli, bundle, tmp_path) -> Callable[[np.ndarray], list[str]]:
    """What is said of the pace of events at these times."""

    def call(times: np.ndarray) -> list[str]:
        energy = np.random.default_rng(1).normal(size=len(times))
        pq.write_table(pa.table({"time": times, "energy": energy}), tmp_path / "today.parquet")
        notes = json.loads(cli("replay", bundle, tmp_path / "today.parquet", "--json").out)["notes"]
        return [note for note in notes if "a day" in note]

    return call


def test_forty_seconds_are_not_multiplied_to_a_day(noted):
    (said,) = noted(START + np.linspace(0.0, 40.0, 2000))
    assert said.startswith(
        "2,000 events within 40 s are too short a stretch to say how many come in a day; "
    )
    assert "the alarm was set for 1,000" in said and said.endswith(
        "; set yours with calibrate --events-per-day"
    )
    assert "4,320,000" not in said and "times as many" not in said


def test_few_events_are_not_either(noted):
    (said,) = noted(START + np.linspace(0.0, 14_400.0, 500))
    assert said.startswith(
        "500 events within 4.0 hours are too few to say how many come in a day; "
    )


def test_an_hour_of_many_is(noted):
    (said,) = noted(START + np.arange(5000) * 2.0)
    assert said.startswith(
        "the stream brings 43,200 events a day, and the alarm was set for 1,000: expect 43.2 times "
    )


@pytest.mark.parametrize(("events", "seconds"), [(2000, 172_800.0), (300, 40_000.0), (2000, 0.0)])
def test_nothing_is_said_of_a_stream_no_faster_than_stated_or_of_one_moment(noted, events, seconds):
    assert noted(START + np.linspace(0.0, seconds, events)) == []


def test_the_span_is_that_of_the_times_in_whatever_order_they_stand(noted):
    times = START + np.arange(5000) * 2.0
    times[[0, -1]] = times[[2500, 2501]]  # two seconds lie between the first row and the last
    (said,) = [
        note for note in noted(np.random.default_rng(2).permutation(times)) if "brings" in note
    ]
    assert said.startswith("the stream brings 43,200 events a day")


@given(st.lists(st.one_of(st.floats(0, 1e6), st.just(float("nan"))), min_size=1), st.integers(1, 5))
def test_a_clock_spans_from_the_earliest_to_the_latest_by_whatever_pieces(times, pieces):
    clock = Clock()
    for part in np.array_split(np.array(times), pieces):
        clock.see(part, 0)
    known = [t for t in times if t == t]
    assert clock.span == (max(known) - min(known) if known else None)


@given(st.integers(1, 5000), st.floats(0.1, 1e5))
def test_a_day_is_told_or_it_is_said_why_not_and_never_both(events, span):
    pace = per_day(events, span)
    assert (pace is None) == (span < 3600.0 or events < 1000)
    said = too_short_to_say(RULE, events, span) if pace is None else other_than_set(RULE, pace)
    assert (said is not None) == (events / span * 86_400 > 2 * RULE.events_per_day)


@given(st.integers(1, 5000), st.floats(0.1, 1e5))
def test_of_an_alarm_that_keeps_no_rate_nothing_is_said_at_whatever_pace(events, span):
    rings_anyway = replace(RULE, burden=-math.inf)
    pace = per_day(events, span)
    assert (
        too_short_to_say(rings_anyway, events, span)
        if pace is None
        else other_than_set(rings_anyway, pace)
    ) is None


@pytest.mark.parametrize(
    ("span", "rate", "whence"),
    [
        (40.0, 10_000.0, "since the times of the table span no more than 40 s"),
        (86_400.0, 900.0, "from the times of the table"),
        (None, 10_000.0, "for want of a better number"),
    ],
)
def test_an_alarm_is_not_set_for_a_day_made_of_seconds(cli, tmp_path, span, rate, whence):
    times = None if span is None else START + np.linspace(0.0, span, 900)
    found = json.loads(cli("calibrate", table_of(tmp_path / "scores.parquet", times), "--json").out)
    assert found["alarm"]["events_per_day"] == pytest.approx(rate)
    (said,) = [note for note in found["notes"] if "--events-per-day" in note]
    assert (
        said
        == f"false alarms are counted at {rate:,.0f} events a day, {whence}; set yours with --events-per-day"
    )


def test_where_clean_data_cost_too_much_nobody_is_asked_for_events_a_day(cli, tmp_path):
    found = json.loads(
        cli(
            "calibrate",
            table_of(tmp_path / "scores.parquet", None),
            "--tolerable",
            "0.0001",
            "--json",
        ).out
    )
    assert "or with a probability of 97.5% or more" in found["alarm"]["in_words"]
    assert not [note for note in found["notes"] if "--events-per-day" in note]


def test_a_stream_far_slower_than_the_alarm_was_set_for_is_told():
    assert other_than_set(RULE, 60.0) is None
    said = other_than_set(RULE, 40.0)
    assert said is not None and said.startswith(
        "the stream brings 40 events a day, and the alarm was set for 1,000: it asks for"
    )
