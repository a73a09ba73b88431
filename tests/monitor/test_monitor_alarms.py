"""Alarms: raised on a step, cleared after it, and no more false ones than were accepted."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from alarm_streams import clean_scores, watching
from scipy.signal import lfilter
from synthetic_detectors import GAIN, synthetic

from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import AlarmRule, Bundle, Events, Monitor, Windows
from roadworthy.monitor.alarm import alarms_per_day, walk
from roadworthy.monitor.autocorrelation import integrated_time
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.looks import Watched
from roadworthy.monitor.tails import LOOKS, extrapolated
from roadworthy.monitor.threshold import default_stride
from roadworthy.monitor.worlds import clean_worlds


def rule(**changes) -> AlarmRule:
    given = {
        "window": 100,
        "stride": 10,
        "burden": 9.0,
        "false_alarms": "1 per day",
        "events_per_day": 1000.0,
    }
    return AlarmRule(**{**given, **changes})


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1 per month", 1 / 30.436875),
        ("2 per day", 2.0),
        ("3 a week", 3 / 7),
        ("0.5/hour", 12.0),
        ("1 Per Year", 1 / 365.2425),
    ],
)
def test_rates_are_read_in_words(text, rate):
    assert alarms_per_day(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text", ["often", "per day", "-1 per day", "0 per day", "1 per fortnight", "one per day"]
)
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match="given as '1 per month' or '2 per day'"):
        alarms_per_day(text)


def test_between_the_thresholds_nothing_changes():
    values = [1.0, 2.0, 1.0, 2.0, 0.5, -0.1, 1.9, -5.0, 2.0]
    assert walk(values, 2.0, 0.0, active=False) == ([(1, True), (5, False), (8, True)], True)
    assert walk(values[:5], 2.0, 0.0, active=True) == ([], True)


def test_the_burden_is_read_between_the_tabled_times_and_beyond_them_the_window_says_too_little():
    found = rule(by_time=((1.0, 2.0), (4.0, 4.0), (16.0, 5.0)))
    assert [found.burden_at(time) for time in (1.0, 2.0, 8.0)] == pytest.approx([2.0, 3.0, 4.5])
    assert found.burden_at(16.0) == 5.0 and not found.beyond(16.0)
    assert found.burden_at(20.0) == math.inf and found.beyond(20.0) and found.passes(20.0) == ()
    assert AlarmRule.from_dict(found.to_dict()) == found


def test_a_rule_without_a_burden_has_none_at_any_time_and_stays_so_in_a_file():
    found = rule(burden=-math.inf, on=3.7, off=0.0, by_time=((1.0, -math.inf), (100.0, -math.inf)))
    assert found.burden_at(30.0) == -math.inf
    assert AlarmRule.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found


def test_a_longer_stretch_is_read_beside_the_window_where_it_is_twice_as_long():
    found = rule(
        by_time=((1.0, 2.0), (16.0, 5.0)),
        stretch=50,
        by_stretch=((4.0, 1.0), (327.68, 2.0), (655.36, 3.0)),
    )
    assert [p.length for p in found.passes(3.9)] == [100] and found.reach(3.9) == 0
    assert found.passes(16.0) == ((100, 5.0), (800, pytest.approx(1.3147, abs=1e-4)))
    assert found.passes(327.68) == ((16_384, 2.0),), "the window alone says too little"
    assert found.passes(500.0)[0].length == 16_384 and found.beyond(700.0)
    assert AlarmRule.from_dict(found.to_dict()) == found
    assert "by_stretch" not in rule().to_dict(), "a bundle of before keeps its name"


def test_what_is_read_of_a_stream_whose_events_are_alike_is_said():
    found = rule(
        by_time=((1.0, 2.0), (16.0, 5.0)),
        stretch=50,
        by_stretch=((4.0, 1.0), (327.68, 2.0), (655.36, 3.0)),
    )
    assert found.remark(1.0) is None and found.remark(3.9) is None
    assert found.remark(8.0) == (
        "the alarm's window of 100 events says as much as 12.5 independent ones: the last 400 are read as well, and a step to 30% "
        "shift may take 800 events to be noticed"
    )
    assert "too few for an alarm of its own" in found.remark(20.0)
    assert "no alarm is raised" in found.remark(
        1000.0
    ) and "16,384 of them say as much as 16" in found.remark(1000.0)


def test_rules_that_cannot_work_are_refused():
    for wrong in (
        {"burden": math.inf},
        {"burden": math.nan},
        {"stride": 0},
        {"window": 1},
        {"events_per_day": 0.0},
        {"group_events": -1},
        {"off": 0.1},
        {"false_alarms": "never"},
    ):
        with pytest.raises(ValueError):
            rule(**wrong)


def test_the_tail_is_extrapolated_as_an_exponential():
    rng = np.random.default_rng(0)
    peaks = [list(1.0 + rng.exponential(0.5, 4)) for _ in range(2000)]
    found = extrapolated(peaks, 1.0, wanted=1e-6)
    assert found == pytest.approx(1.0 + 0.5 * math.log(4 / LOOKS / 1e-6), rel=0.05)
    assert extrapolated(peaks, 1.0, wanted=0.5) == 1.0, (
        "never below the level where the tail starts"
    )


def test_worlds_are_draws_of_the_clean_counts(calibration):
    worlds = clean_worlds(calibration, 4000, np.random.default_rng(0))
    assert worlds.sum(axis=1) == pytest.approx(1.0)
    bins = calibration.shift_bin(np.arange(calibration.cells))
    counts = np.bincount(bins, calibration.table[0].sum(axis=0)) + 0.5
    shares = np.stack([np.bincount(bins, world) for world in worlds])
    mean = counts / counts.sum()
    assert shares.mean(axis=0) == pytest.approx(mean, abs=0.002)
    assert shares.std(axis=0) == pytest.approx(
        np.sqrt(mean * (1 - mean) / (counts.sum() + 1)), rel=0.1
    )


def test_what_is_watched_is_the_estimators_odds_of_every_window_that_is_not_quiet(watchful):
    calibration = watchful.calibration
    scores = CellScores.of(calibration)
    rng = np.random.default_rng(1)
    cells = calibration.place({"energy": rng.normal(np.linspace(-2, 2, 400))})
    cells[rng.random(400) < 0.05] = -1
    ends = np.arange(100, 401, 25)
    everything = Watched(watchful.watch, scores, 100, 25).odds_of(
        [cells], ends, length=100, shrink=0.5
    )
    for value, end in zip(np.transpose(everything)[:, 0], ends, strict=True):
        part = cells[end - 100 : end]
        counts = np.bincount(part[part >= 0], minlength=calibration.cells)
        assert value == pytest.approx(np.ravel(watchful.watch.odds(counts, shrink=0.5)))
    quiet = Watched(watchful.watch, scores, 100, 25, watchful.alarm.quiet).odds_of(
        [cells], ends, length=100, shrink=0.5
    )
    for (some,), (all_of_them,) in zip(quiet, everything, strict=True):
        assert np.isneginf(some[0]) and some[-1] == pytest.approx(all_of_them[-1])
        assert (np.isclose(some, all_of_them, rtol=1e-12) | np.isneginf(some)).all()


def test_an_alarm_is_raised_within_two_windows_of_a_step_and_cleared_after_it(watchful, scores_at):
    window = watchful.alarm.window
    for seed in range(5):
        monitor = Monitor(watchful)
        monitor.update(Events(None, None, columns={"energy": scores_at(2000, 0.0, seed)}))
        monitor.update(Events(None, None, columns={"energy": scores_at(4 * window, 0.3, seed)}))
        raised = [
            alarm for alarm in monitor.alarms if alarm.kind == "raised" and alarm.event > 2000
        ]
        assert raised[0].event <= 2000 + 2 * window
        assert (
            raised[0].exceedance > 0.0
            and raised[0].risk > 0.05
            and raised[0].time == raised[0].event
        )
        monitor.update(Events(None, None, columns={"energy": scores_at(2000, 0.0, seed + 100)}))
        assert not monitor.alarm and monitor.alarms[-1].kind == "cleared"
        kinds = [alarm.kind for alarm in monitor.alarms]
        assert kinds == ["raised", "cleared"] * (len(kinds) // 2)


def test_single_events_and_calls_raise_the_same_alarms(watchful, scores_at):
    scores = np.concatenate([scores_at(1000, 0.0), scores_at(700, 0.4), scores_at(700, 0.0, 1)])
    many, single, kept = Monitor(watchful), Monitor(watchful), Monitor(watchful)
    for start in range(0, len(scores), 512):
        many.update(Events(None, None, columns={"energy": scores[start : start + 512]}))
        kept.update(Events(None, None, columns={"energy": scores[start : start + 512]}))
        kept = Monitor.from_bytes(watchful, kept.to_bytes())
    for i, score in enumerate(scores.tolist()):
        single.update_one(None, i + 1.0, {"energy": score})
    assert many.alarms == single.alarms == kept.alarms and many.alarms
    assert many.alarm == single.alarm == kept.alarm


def test_the_state_shows_what_the_alarm_watches(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(
        Events(None, None, columns={"energy": scores_at(4 * watchful.alarm.window, 0.4)})
    )
    risk = monitor.risk()
    assert risk.alarm and risk.log_odds >= watchful.alarm.off
    assert risk.exceedance == pytest.approx(1 / (1 + math.exp(-risk.log_odds)))
    assert monitor.alarms[0].log_odds >= watchful.alarm.on


def test_replicas_put_together_look_at_what_they_hold_and_each_keeps_what_it_said(
    watchful, scores_at
):
    a, b = Monitor(watchful, replica="a"), Monitor(watchful, replica="b")
    a.update(Events(None, np.arange(0, 4000, 2.0), columns={"energy": scores_at(2000, 0.0)}))
    b.update(Events(None, np.arange(1, 4001, 2.0), columns={"energy": scores_at(2000, 0.4)}))
    assert b.alarm and not a.alarm
    said = [*a.alarms]
    a.merge(b)
    assert (
        a.alarm
        and a.alarms[:-1] == said
        and (a.alarms[-1].kind, a.alarms[-1].event) == ("raised", 4000)
    )
    other = Monitor(Bundle.from_dict({**watchful.to_dict(), "subject": "another"}))
    with pytest.raises(ValueError, match="bundles differ"):
        a.merge(other)


@pytest.mark.parametrize("alike", [1, 10])
def test_what_would_raise_an_alarm_does_where_none_is_on(watchful, scores_at, alike):
    """Look by look; ten alike at a time, it is a longer stretch that rings."""
    monitor, seen = Monitor(watchful), set()
    assert watchful.alarm is not None and not monitor.would_raise()
    rates = (0.0, 0.5, 0.0, 0.5)
    scores = np.concatenate(
        [np.repeat(scores_at(4000 // alike, rate, seed), alike) for seed, rate in enumerate(rates)]
    )
    for part in np.split(scores, len(scores) // watchful.alarm.stride):
        before = monitor.alarm
        monitor.update(Events(None, None, columns={"energy": part}))
        if not before:
            assert monitor.would_raise() is monitor.alarm
            seen.add(monitor.alarm)
    assert seen == {False, True}


def test_a_stream_too_alike_for_its_window_is_told_that_an_alarm_comes_late(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(Events(None, None, columns={"energy": np.repeat(scores_at(300, 0.0), 100)}))
    assert any(
        "too few for an alarm of its own" in note and "may take" in note
        for note in monitor.risk().notes
    )


@pytest.mark.parametrize("kind", ["AR(.9)", "repeated x10"])
def test_events_that_become_alike_raise_no_more_alarms_than_stated(watchful, kind):
    """A camera that sends more frames from some time on, and no shift: five times as many where that is read seldom."""
    raised = 0
    for seed in range(3):
        rng, monitor = np.random.default_rng([seed, 6]), Monitor(watchful)
        scores = np.concatenate([rng.normal(size=34_000), clean_scores(kind, 16_000, rng)])
        monitor.update(Events(None, None, columns={"energy": scores}))
        raised += sum(alarm.kind == "raised" and alarm.event > 34_000 for alarm in monitor.alarms)
    assert raised <= 3 * 16_000 * watchful.alarm.per_event


def test_events_that_become_alike_are_judged_the_same_however_they_come(watchful):
    scores = np.concatenate(
        [
            np.random.default_rng(0).normal(size=5000),
            clean_scores("AR(.9)", 3000, np.random.default_rng(1)),
        ]
    )
    found = []
    for call in (37, 1000, 8000):
        monitor = Monitor(watchful)
        for start in range(0, len(scores), call):
            monitor.update(Events(None, None, columns={"energy": scores[start : start + call]}))
        found.append(
            ([(a.kind, a.event, a.exceedance) for a in monitor.alarms], monitor._watching.time)
        )
    assert found[0] == found[1] == found[2] and found[0][1] > 5.0


def test_a_stream_of_which_nothing_that_is_read_says_enough_is_told_that_no_alarm_is_raised(
    watchful, scores_at
):
    bundle = replace(
        watchful, alarm=replace(watchful.alarm, by_stretch=watchful.alarm.by_stretch[:1])
    )
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": np.repeat(scores_at(300, 0.6), 100)}))
    assert [alarm.kind for alarm in monitor.alarms] == ["cannot tell"] and monitor.cannot_tell
    assert (
        "events resemble each other so much that 16,384 of them say as much as"
        in monitor.alarms[0].reason
    )
    assert any(
        note.startswith("no alarm is raised: events resemble") for note in monitor.risk().notes
    )


def test_a_step_of_a_stream_whose_events_are_alike_is_noticed_by_a_longer_stretch(
    watchful, scores_at
):
    alone = replace(watchful, alarm=replace(watchful.alarm, by_time=watchful.alarm.by_time[:1]))
    for seed in range(5):
        monitor = Monitor(alone)
        scores = np.concatenate([scores_at(600, 0.0, seed), scores_at(400, 0.3, seed)])
        monitor.update(Events(None, None, columns={"energy": np.repeat(scores, 10)}))
        raised = [
            alarm for alarm in monitor.alarms if alarm.kind == "raised" and alarm.event > 6000
        ]
        reach = watchful.alarm.reach(monitor.autocorrelation_time)
        assert raised[0].event <= 6000 + 4 * reach and raised[0].read == pytest.approx(
            reach, rel=0.2
        )
        assert any(f"the last {reach:,} are read as well" in note for note in monitor.risk().notes)


@pytest.mark.parametrize("times", [2, 3, 4, 10])
def test_a_stream_of_the_examples_rings_however_often_each_event_comes(examples, times):
    """Windows of half and of a quarter as many independent events reached more by chance than any shift, and nothing was said."""
    bundle, columns, kind = examples
    rng = np.random.default_rng(times)
    for share, rings in ((0.0, False), (1.0, True)):
        rows = rng.choice(np.flatnonzero(kind == "clean"), 2000)
        after = np.flatnonzero(rng.random(800) < share) + 1200
        rows[after] = rng.choice(np.flatnonzero(kind == "snowfall"), len(after))
        monitor = Monitor(bundle)
        monitor.update(
            Events(None, None, columns={n: np.repeat(c[rows], times) for n, c in columns.items()})
        )
        assert any(alarm.kind == "raised" for alarm in monitor.alarms) == rings


@pytest.fixture(scope="module")
def examples() -> tuple[Bundle, dict[str, np.ndarray], np.ndarray]:
    """What the example's table of scores compiles into, and its rows."""
    from pathlib import Path

    import pyarrow.parquet as parquet

    from roadworthy.analysis.risk.calibration import calibrate

    path = Path(__file__).parents[2] / "examples" / "scores" / "calibration.parquet"
    table = parquet.read_table(path)
    kind = np.array(table["kind"].to_pylist())
    names = [name for name in table.column_names if table[name].type in ("double", "float")]
    columns = {name: np.array(table[name].to_pylist(), dtype=float) for name in names}
    made = calibrate(columns, kind, np.array(table["correct"].to_pylist(), dtype=bool))
    windows = Windows((100,))
    return (
        Bundle.compile(made, accuracy_tree(), subject="s", tolerable=0.15, windows=windows),
        columns,
        kind,
    )


def test_at_the_start_of_a_stream_events_that_are_alike_raise_nothing(watchful, scores_at):
    for seed in range(20):
        monitor = Monitor(watchful)
        monitor.update(
            Events(None, None, columns={"energy": np.repeat(scores_at(10, 0.0, seed), 50)})
        )
        assert not monitor.alarms


def test_a_stream_that_begins_shifted_rings_within_two_windows(watchful, scores_at):
    for seed in range(10):
        monitor = Monitor(watchful)
        monitor.update(
            Events(None, None, columns={"energy": scores_at(2 * watchful.alarm.window, 0.6, seed)})
        )
        assert monitor.alarm and monitor.alarms[0].event <= 2 * watchful.alarm.window


def paces(monitor: Monitor) -> list[str]:
    return [note for note in monitor.risk().notes if "the stream brings" in note]


def test_a_faster_stream_than_the_alarm_was_set_for_is_told_so(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(Events(None, np.arange(6000) * 0.864, columns={"energy": scores_at(6000, 0.0)}))
    (said,) = paces(monitor)
    assert "100,000 events a day, and the alarm was set for 10,000: expect 10.0 times" in said


def test_one_so_fast_that_no_hour_of_it_is_held_is_told_so_too(watchful, scores_at):
    monitor, n = Monitor(replace(watchful, id_horizon=2000)), 4000
    for first in range(0, 10 * n, n):
        monitor.update(
            Events(
                None, 1e9 + np.arange(first, first + n) / 10, columns={"energy": scores_at(n, 0.0)}
            )
        )
        assert bool(paces(monitor)) == (first >= 8 * n), first
    assert monitor.state.recent.time[-1] - monitor.state.recent.time[0] < 3600
    assert float(paces(monitor)[0].split()[3].replace(",", "")) == pytest.approx(864_000, rel=0.02)


def test_no_day_is_made_of_one_post_or_of_the_first_hour(watchful, scores_at):
    """Thousands of events within seconds of the start, and as many every day: 3,000 a day, also after the second post."""
    monitor = Monitor(replace(watchful, alarm=replace(watchful.alarm, events_per_day=2000.0)))
    for day in range(4):
        moments = 1e9 + day * 86_400 + np.sort(np.random.default_rng(day).uniform(0, 20, 3000))
        monitor.update(Events(None, moments, columns={"energy": scores_at(3000, 0.0)}))
        assert not paces(monitor), day


def test_events_that_have_no_times_say_nothing_of_how_fast_they_come(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(Events(None, None, columns={"energy": scores_at(6000, 0.0)}))
    assert not paces(monitor)


def test_looks_are_neither_rare_nor_dear():
    assert [default_stride(n) for n in (2, 10, 100, 1000, 5000)] == [1, 5, 50, 200, 1000]


def stream(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Clean scores: independent, ten alike in a row, or an autoregression."""
    if kind == "independent":
        return rng.normal(size=n)
    if kind == "repeated":
        return np.repeat(rng.normal(size=n // 10), 10)
    return lfilter([1.0], [1.0, -0.9], rng.normal(size=n) * math.sqrt(1 - 0.9**2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "window"),
    [("independent", 1000), ("repeated", 1000), ("autoregression of 0.9", 2000)],
    ids=lambda v: str(v),
)
@pytest.mark.parametrize("seed", [11, 12])
def test_a_million_events_without_shift_raise_no_more_alarms_than_stated_and_a_step_is_noticed(
    kind, window, seed
):
    # 19 events of the autoregression say as much as one: 1,000 are 53, and notice the step in 17 of 20 streams only.
    calibration = synthetic(0.9, seed=seed)
    bundle = watching(calibration, window, stated=10)
    n = 1_000_000
    cells = calibration.place({"energy": stream(kind, n, np.random.default_rng(seed))})
    monitor = Monitor(bundle)
    for start in range(0, n, 20_000):
        monitor.update(Events(None, None, cells=cells[start : start + 20_000]))
    assert sum(alarm.kind == "raised" for alarm in monitor.alarms) <= bundle.alarm.per_event * n
    noticed, step = 0, 12 * window
    for again in range(20):
        rng = np.random.default_rng([seed, again])
        scores = stream(kind, step + 2 * window, rng)
        shifted = rng.random(len(scores)) < 0.3
        if kind == "repeated":
            shifted = np.repeat(shifted[::10], 10)
        scores[step:] += GAIN[0.9] * shifted[step:]
        monitor = Monitor(bundle)
        monitor.update(Events(None, None, columns={"energy": scores}))
        noticed += monitor.alarm or any(
            alarm.kind == "raised" and alarm.event > step for alarm in monitor.alarms
        )
    assert noticed >= 18


@pytest.mark.slow
def test_one_false_alarm_a_month_leaves_a_million_events_quiet_and_a_step_is_still_noticed():
    calibration = synthetic(0.9, seed=5)
    bundle = Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="s",
        tolerable=0.12,
        windows=Windows((100, 300, 1000)),
        events_per_day=100_000.0,
    )
    cells = calibration.place({"energy": np.random.default_rng(6).normal(size=1_000_000)})
    monitor = Monitor(bundle)
    for start in range(0, len(cells), 20_000):
        monitor.update(Events(None, None, cells=cells[start : start + 20_000]))
    assert not monitor.alarms
    shifted = np.random.default_rng(7).random(2000) < 0.3
    monitor.update(
        Events(None, None, columns={"energy": np.random.default_rng(8).normal(GAIN[0.9] * shifted)})
    )
    assert monitor.alarm


@pytest.mark.slow
def test_a_hard_detector_is_told_what_is_possible():
    hard = Bundle.compile(
        synthetic(0.75),
        accuracy_tree(),
        subject="s",
        tolerable=0.12,
        windows=Windows((100,)),
        events_per_day=100_000.0,
    )
    assert dict(hard.alarm.detects)["fog"] < 0.5
    assert any("lengthen the window, accept more false alarms" in note for note in hard.alarm.notes)
    longer = Bundle.compile(
        synthetic(0.75),
        accuracy_tree(),
        subject="s",
        tolerable=0.12,
        windows=Windows((2000,)),
        events_per_day=100_000.0,
    )
    assert min(share for _, share in longer.alarm.detects) >= 0.9 and not longer.alarm.notes


@pytest.mark.slow
def test_a_tolerable_risk_that_clean_events_exceed_or_that_a_step_does_not_reach_is_named():
    low = Bundle.compile(
        synthetic(0.9), accuracy_tree(), subject="s", tolerable=0.02, windows=Windows((100,))
    )
    assert any(
        note.startswith("clean data cost") and "the alarm will be on" in note
        for note in low.alarm.notes
    )
    high = Bundle.compile(
        synthetic(0.9), accuracy_tree(), subject="s", tolerable=0.4, windows=Windows((100,))
    )
    assert any("no alarm is due for it" in note for note in high.alarm.notes)


@pytest.mark.parametrize("window", [10, 15, 19, 25])
def test_there_is_no_time_between_window_and_stretch_at_which_nothing_is_read(calibration, window):
    found = Bundle.compile(
        calibration, accuracy_tree(), subject="s", tolerable=0.12, windows=Windows((window,))
    ).alarm
    assert found.by_stretch and not any(
        found.beyond(time) for time in np.geomspace(1.0, 300.0, 200)
    )


@pytest.mark.parametrize("sources", [2, 3, 5, 8])
def test_sources_that_take_turns_are_not_taken_for_independent_events(sources):
    rng = np.random.default_rng(sources)
    rho, n = 0.9, 32_768 // sources
    noise = math.sqrt(1 - rho**2) * rng.normal(size=(n, sources))
    turns = lfilter([1.0], [1.0, -rho], noise, axis=0).ravel()
    alone = integrated_time(
        lfilter([1.0], [1.0, -rho], math.sqrt(1 - rho**2) * rng.normal(size=32_768))
    )
    assert integrated_time(turns, window=300) > 0.6 * alone > 10.0
    assert integrated_time(rng.normal(size=32_768)) < 1.3
