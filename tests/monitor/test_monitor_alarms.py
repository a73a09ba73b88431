"""Alarms: raised on a step, cleared after it; and "no estimate" while there is no estimate."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from alarm_streams import clean_scores, watching
from synthetic_detectors import GAIN, synthetic

from roadworthy.analysis.risk.calibration import Calibration, fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import AlarmRule, Bundle, Events, Monitor, Windows
from roadworthy.monitor.alarm import alarms_per_day, counts_before, odds_before
from roadworthy.monitor.bundle import RatePrior
from roadworthy.monitor.messages import alarm_note, rule_notes
from roadworthy.monitor.threshold import (
    LOOKS,
    CleanStreams,
    clean_worlds,
    default_stride,
    extrapolated,
    peaks_above,
)


def rule(**changes) -> AlarmRule:
    given = {
        "window": 100,
        "stride": 10,
        "false_alarms": "1 per day",
        "events_per_day": 1000.0,
        "table": ((1.0, 100, 9.0),),
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
    with pytest.raises(ValueError, match="1 per month"):
        alarms_per_day(text)


def test_between_the_thresholds_nothing_changes():
    values = [1.0, 2.0, 1.0, 2.0, 0.5, 2.0, 1.9, -5.0, 2.0]
    assert peaks_above(values, 2.0) == [2.0, 2.0, 2.0], "from 1 on, what is above it is one alarm"


def test_length_and_burden_are_read_between_the_tabled_times_and_beyond_them_nothing_is():
    found = rule(table=((1.0, 100, 2.0), (4.0, 100, 4.0), (16.0, 400, 5.0), (32.0, 400, 6.0)))
    times = (1.0, 2.0, 8.0, 16.0, 20.0)
    assert [found.at(time).length for time in times] == [100, 100, 200, 400, 400]
    assert [found.at(time).burden for time in times[:4]] == pytest.approx([2.0, 3.0, 4.5, 5.0])
    assert found.burden == 2.0 and found.at(33.0) is None and found.at(math.inf) is None
    codes = [note and note.code for note in (alarm_note(found, t) for t in (1.0, 8.0, 1000.0))]
    assert codes == [None, "longer", "no alarm"]


def test_rates_of_false_alarms_and_of_events_that_are_none_are_refused(calibration):
    for wrong in ({"events_per_day": 0.0}, {"events_per_day": -1.0}, {"false_alarms": "never"}):
        with pytest.raises(ValueError, match=r"above 0|Write false alarms"):
            Bundle.compile(calibration, accuracy_tree(), subject="s", tolerable=0.1, **wrong)


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


def test_what_is_watched_is_the_estimators_odds_of_every_window(watchful):
    calibration, estimator = watchful.calibration, watchful.estimator
    rng = np.random.default_rng(1)
    cells = calibration.place({"energy": rng.normal(np.linspace(-2, 2, 400))})
    cells[rng.random(400) < 0.05] = -1
    ends = np.arange(100, 401, 25)
    everything = odds_before(estimator, cells, ends, length=100, shrink=0.5)
    for value, end in zip(np.transpose(everything), ends, strict=True):
        part = cells[end - 100 : end]
        counts = np.bincount(part[part >= 0], minlength=calibration.cells)
        assert value == pytest.approx(np.ravel(estimator.odds(counts, shrink=0.5)))
        assert (counts_before(cells, [end], 100, calibration.cells) == counts).all()


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.3, 1.0])
def test_no_window_is_passed_over_that_could_raise_an_alarm(watchful, rate):
    calibration, estimator = watchful.calibration, watchful.estimator
    cells = calibration.place({"energy": at_rate(20_000, rate, 5)})
    ends = np.arange(100, 20_001, 50)
    everything = odds_before(estimator, cells, ends, length=100)
    for least in (1.0, 3.0, 9.0):
        some = odds_before(estimator, cells, ends, length=100, least=least)
        passed = np.isneginf(some.above)
        assert (everything.evidence[passed] < least).all()
        assert some.above[~passed] == pytest.approx(everything.above[~passed])


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
    assert str(monitor.alarm_condition).startswith("alarm from 50%, with evidence above ")
    monitor.update(
        Events(None, None, columns={"energy": scores_at(4 * watchful.alarm.window, 0.4)})
    )
    risk = monitor.risk()
    assert str(monitor.alarm_condition).startswith("alarm cleared below ")
    assert risk.alarm and risk.log_odds >= watchful.alarm.off
    assert risk.exceedance == pytest.approx(1 / (1 + math.exp(-risk.log_odds)))
    assert monitor.alarms[0].log_odds >= watchful.alarm.on


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
            ([(a.kind, a.event, a.exceedance) for a in monitor.alarms], monitor._watch.time)
        )
    assert found[0] == found[1] == found[2] and found[0][1] > 5.0


def test_a_stream_of_which_nothing_that_is_read_says_enough_is_told_that_no_alarm_is_raised(
    watchful, scores_at
):
    bundle = replace(watchful, alarm=replace(watchful.alarm, table=watchful.alarm.table[:1]))
    monitor = Monitor(bundle)
    monitor.update(Events(None, None, columns={"energy": np.repeat(scores_at(300, 0.6), 100)}))
    assert [alarm.kind for alarm in monitor.alarms] == ["no estimate"] and monitor.no_estimate
    assert "100 events" in monitor.alarms[0].reason
    assert "no alarm" in {note.code for note in monitor.risk().notes}


def test_a_step_of_a_stream_whose_events_are_alike_is_noticed_by_more_events(watchful, scores_at):
    for seed in range(5):
        monitor = Monitor(watchful)
        scores = np.concatenate([scores_at(600, 0.0, seed), scores_at(400, 0.3, seed)])
        monitor.update(Events(None, None, columns={"energy": np.repeat(scores, 10)}))
        raised = [alarm for alarm in monitor.alarms if alarm.kind == "raised"]
        reads = watchful.alarm.at(monitor.autocorrelation_time).length
        assert raised and 6000 < raised[0].event <= 6000 + 4 * reads
        assert raised[0].read == pytest.approx(reads, rel=0.2)
        assert "longer" in {note.code for note in monitor.risk().notes}


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

    from roadworthy.analysis.risk.calibration import fit_calibration

    path = Path(__file__).parents[2] / "examples" / "scores" / "calibration.parquet"
    table = parquet.read_table(path)
    kind = np.array(table["kind"].to_pylist())
    names = [name for name in table.column_names if table[name].type in ("double", "float")]
    columns = {name: np.array(table[name].to_pylist(), dtype=float) for name in names}
    made = fit_calibration(columns, kind, np.array(table["correct"].to_pylist(), dtype=bool))
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
    return [note for note in monitor.risk().notes if note.code == "pace"]


def test_a_faster_stream_than_the_alarm_was_set_for_is_told_so(watchful, scores_at):
    monitor = Monitor(watchful)
    times = 1e9 + np.arange(6000) * 0.864
    monitor.update(Events(None, times, columns={"energy": scores_at(6000, 0.0)}))
    (said,) = paces(monitor)
    assert "100,000" in said and "10,000" in said


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


@pytest.mark.parametrize("window", [10, 25])
def test_the_table_reaches_from_independent_events_to_very_alike_ones(calibration, window):
    found = Bundle.compile(
        calibration, accuracy_tree(), subject="s", tolerable=0.12, windows=Windows((window,))
    ).alarm
    reads = [found.at(time) for time in np.geomspace(1.0, 300.0, 200)]
    assert all(reads) and all(one.length >= window and one.burden >= 0.0 for one in reads)


def test_a_shift_that_has_ended_raises_one_alarm(watchful, scores_at):
    monitor = Monitor(watchful)
    for n, rate in ((3000, 0.0), (400, 0.6), (6000, 0.0)):
        monitor.update(Events(None, None, columns={"energy": scores_at(n, rate)}))
    assert kinds(monitor) == ["raised", "cleared"]


def test_late_events_are_counted_in_the_windows_by_their_time(watchful, scores_at):
    clean, late = scores_at(300, 0.0), scores_at(40, 1.0)
    monitor, sorted_ = Monitor(watchful), Monitor(watchful)
    times, behind = np.arange(300.0), 230.5 + np.arange(40.0)
    monitor.update(Events(np.arange(300), times, columns={"energy": clean}))
    monitor.update(Events(np.arange(300, 340), behind, columns={"energy": late}))
    both, ids = np.concatenate([times, behind]), np.arange(340)
    order = np.argsort(both)
    scores = np.concatenate([clean, late])[order]
    sorted_.update(Events(ids[order], both[order], columns={"energy": scores}))
    assert monitor.state.recent.ids == sorted_.state.recent.ids
    assert monitor.risk().rate == sorted_.risk().rate > 0.2


@pytest.mark.parametrize("scored_every", [50, 10_000, 6, 3])
@pytest.mark.parametrize("call", [1, 200, 3000])
def test_a_stream_with_few_scores_or_none_is_counted_and_said_to_be_untold(
    watchful, call, scored_every
):
    scores = np.full(3000, np.nan)
    scores[::scored_every] = 0.1
    monitor = Monitor(watchful)
    for start in range(0, 3000, call):
        part = scores[start : start + call]
        if call == 1:
            monitor.update_one(None, float(start), {"energy": float(part[0])})
        else:
            monitor.update(Events(None, None, columns={"energy": part}))
    assert monitor.state.counted == 3000
    assert [alarm.kind for alarm in monitor.alarms] == ["no estimate"] and monitor.no_estimate
    assert " of 100 events " in monitor.alarms[0].reason
    assert monitor.risk().no_estimate is not None
    assert monitor.alarms[0].risk is None and monitor.alarms[0].exceedance is None


def test_scores_that_stop_and_come_again_are_told_again(watchful, scores_at):
    monitor = Monitor(watchful)
    for part in (np.full(700, np.nan), scores_at(1500, 0.0)):
        monitor.update(Events(None, None, columns={"energy": part}))
    assert [alarm.kind for alarm in monitor.alarms] == ["no estimate", "estimates again"]
    assert monitor.alarms[1].risk == pytest.approx(0.06, abs=0.05)


def test_an_alarm_over_events_unlike_anything_calibrated_says_why_and_no_figure(
    watchful, scores_at
):
    monitor = Monitor(watchful)
    strange = np.where(np.arange(600) % 2 == 0, 40.0, scores_at(600, 0.3))
    monitor.update(Events(None, None, columns={"energy": scores_at(1000, 0.0)}))
    monitor.update(Events(None, None, columns={"energy": strange}))
    raised = next(alarm for alarm in monitor.alarms if alarm.kind == "raised")
    assert (raised.exceedance, raised.risk, raised.log_odds) == (None, None, None)
    assert "outside" in raised.reason
    told = [alarm for alarm in monitor.alarms if alarm.kind == "no estimate"]
    assert told and told[0].risk is None and told[0].reason
    again = Monitor.from_bytes(watchful, monitor.to_bytes())
    assert again.alarms == monitor.alarms
    json.dumps([vars(alarm) for alarm in again.alarms], allow_nan=False)


def test_an_alarm_that_can_be_told_has_figures_and_no_reason(watchful, scores_at):
    monitor = Monitor(watchful)
    monitor.update(
        Events(
            None,
            None,
            columns={"energy": np.concatenate([scores_at(1000, 0.0), scores_at(400, 0.5)])},
        )
    )
    raised = next(alarm for alarm in monitor.alarms if alarm.kind == "raised")
    assert raised.reason == "" and raised.risk > 0.0 and 0.0 <= raised.exceedance <= 1.0


def test_the_figures_with_which_it_can_be_told_again_do_not_depend_on_calls(watchful):
    """What comes in the same call after it is no part of them, though it is more alike."""
    rng = np.random.default_rng(5)
    scores = np.concatenate(
        [
            rng.normal(size=1000),
            np.full(400, np.nan),
            rng.normal(size=300),
            np.repeat(rng.normal(size=80), 20),
        ]
    )
    found = []
    for call in (50, 700, 4000):
        monitor = Monitor(watchful)
        for start in range(0, len(scores), call):
            monitor.update(Events(None, None, columns={"energy": scores[start : start + call]}))
        told = [
            (a.event, a.risk, a.exceedance) for a in monitor.alarms if a.kind == "estimates again"
        ]
        assert told
        found.append(told)
    assert found[0] == found[1] == found[2]


def at_rate(n: int, rate: float | np.ndarray, seed: int) -> np.ndarray:
    """Scores of the AUC 0.9 detector at a rate of shift."""
    rng = np.random.default_rng([seed, n])
    return rng.normal(GAIN[0.9] * (rng.random(n) < rate))


def kinds(monitor: Monitor) -> list[str]:
    return [alarm.kind for alarm in monitor.alarms]


def test_a_window_without_scores_raises_nothing_but_that_nobody_can_tell(watchful):
    monitor, window = Monitor(watchful), watchful.alarm.window
    monitor.update(Events(columns={"energy": at_rate(2000, 0.0, 1)}))
    monitor.update(Events(columns={"energy": np.full(4 * window, np.nan)}))
    assert kinds(monitor) == ["no estimate"] and monitor.no_estimate and not monitor.alarm
    assert monitor.risk().no_estimate == monitor.alarms[0].reason
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    for one in (monitor, kept):
        one.update(Events(columns={"energy": at_rate(3 * window, 0.0, 2)}))
        assert kinds(one) == ["no estimate", "estimates again"] and not one.no_estimate
    assert kept.alarms == monitor.alarms


def test_what_is_watched_says_nothing_of_windows_with_few_scores(watchful):
    cells = watchful.calibration.place({"energy": np.full(200, 4.0)})
    cells[100:120] = -1
    assert np.isfinite(odds_before(watchful.estimator, cells, [100, 200], length=100)).all()
    cells[100:121] = -1
    found = odds_before(watchful.estimator, cells, [100, 200], length=100)
    assert np.isneginf(found).tolist() == [[False, True]] * 2


@pytest.fixture(scope="module")
def tolerant(calibration) -> Bundle:
    """Clean streams hardly come near its limit."""
    return Bundle.compile(
        calibration, accuracy_tree(), subject="s", tolerable=0.35, windows=Windows((300,))
    )


def test_an_alarm_means_that_the_risk_is_more_likely_than_not_above_the_tolerable(
    tolerant, watchful
):
    for bundle in (tolerant, watchful):
        assert bundle.alarm.on >= 0.0 and all(row[2] >= 0.0 for row in bundle.alarm.table)
    for rate in (0.1, 0.2, 0.4):  # the risk is 0.05 + 0.45 rate: below the limit
        monitor = Monitor(tolerant)
        monitor.update(Events(columns={"energy": at_rate(6000, rate, 3)}))
        assert not monitor.alarms
    monitor = Monitor(tolerant)
    monitor.update(Events(columns={"energy": at_rate(3000, 1.0, 4)}))
    assert monitor.alarm and monitor.alarms[0].exceedance >= 0.5


def test_an_alarm_is_not_cleared_while_nobody_can_tell(watchful):
    monitor, window = Monitor(watchful), watchful.alarm.window
    monitor.update(Events(columns={"energy": at_rate(2000, 0.0, 7)}))
    monitor.update(Events(columns={"energy": at_rate(4 * window, 0.5, 8)}))
    assert monitor.alarm
    # Scores lower than any that was calibrated: they look clean, and are not.
    monitor.update(Events(columns={"energy": np.full(4 * window, -9.0)}))
    assert (
        monitor.alarm
        and kinds(monitor)[-1] == "no estimate"
        and "outside" in monitor.alarms[-1].reason
    )
    monitor.update(Events(columns={"energy": at_rate(4 * window, 0.0, 9)}))
    assert (
        not monitor.alarm
        and not monitor.no_estimate
        and {*kinds(monitor)[-2:]} == {"estimates again", "cleared"}
    )


def test_a_strange_stretch_shorter_than_a_window_is_no_alarm(watchful):
    monitor, window = Monitor(watchful), watchful.alarm.window
    monitor.update(Events(columns={"energy": at_rate(2000, 0.0, 10)}))
    monitor.update(Events(columns={"energy": np.full(window // 2, -9.0)}))
    assert monitor.risk().no_estimate
    monitor.update(Events(columns={"energy": at_rate(3 * window, 0.0, 11)}))
    assert "no estimate" not in kinds(monitor)


def test_shift_in_bursts_is_noticed_every_time(watchful):
    burst = 3 * watchful.alarm.window
    n = 20 * burst
    monitor = Monitor(watchful)
    monitor.update(
        Events(
            columns={"energy": at_rate(n, np.where((np.arange(n) // burst) % 4 == 3, 0.6, 0.0), 12)}
        )
    )
    raised = [alarm.event for alarm in monitor.alarms if alarm.kind == "raised"]
    for start in range(3 * burst, n, 4 * burst):
        assert any(start < event <= start + burst for event in raised), f"the burst from {start}"


def test_doubts_are_those_of_the_estimates(watchful):
    rng = np.random.default_rng(14)
    windows = [
        rng.normal(size=100),
        np.full(100, 9.0),
        np.full(100, 0.1),
        rng.normal(2.0, size=100),
    ]
    counts = [
        np.bincount(watchful.calibration.place({"energy": w}), minlength=watchful.calibration.cells)
        for w in windows
    ]
    counts.append(np.zeros(watchful.calibration.cells, dtype=int))
    estimates = watchful.estimator.estimate(counts, shrink=0.5)
    table = np.array(counts, dtype=float)
    by_bin, outside = watchful.calibration.by_bin(table), table[:, 1::2].sum(axis=1)
    assert watchful.estimator.doubt(by_bin, outside, shrink=0.5) == estimates.no_estimate
    assert estimates.no_estimate[0] is None and all(estimates.no_estimate[i] for i in (1, 2, 4))


def test_past_figures_carry_the_alarm_of_their_time(watchful):
    monitor = Monitor(watchful)
    rates = np.repeat([0.0, 1.0], [1500, 900])
    times = np.arange(2400.0)
    monitor.update(Events(None, times, columns={"energy": at_rate(2400, rates, 3)}))
    raised = next(a for a in monitor.alarms if a.kind == "raised")
    assert monitor.alarm and 1500 <= raised.time < 1900
    told = monitor.history(600.0)
    assert [state.alarm for state in told] == [False, False, True, True]


@pytest.fixture(scope="module")
def compiled(of_three) -> Bundle:
    """30% rain costs about 0.116, 30% fog about 0.236."""
    return Bundle.compile(
        of_three, accuracy_tree(), subject="s", tolerable=0.15, windows=Windows((100, 1000))
    )


def test_a_kind_of_which_a_share_is_tolerable_is_not_due_and_no_reason_for_a_longer_window(
    compiled,
):
    rule = compiled.alarm
    assert rule.not_due == ("rain",) and rule.window == 100
    assert Bundle.from_dict(json.loads(json.dumps(compiled.to_dict()))).alarm == rule
    (said,) = rule.notes
    assert said.code == "not due" and "rain" in said


def test_what_is_missed_is_said_of_the_kinds_that_are_due_alone(compiled):
    def notes(*detects: tuple[str, float], not_due: tuple[str, ...]) -> tuple[str, ...]:
        return rule_notes(compiled.estimator, detects, not_due)

    both = notes(("fog", 0.5), ("rain", 0.1), not_due=("rain",))
    assert [note.code for note in both] == ["not due", "missed"]
    assert "50.0% (fog)" in both[1] and "rain" not in both[1]
    assert notes(("fog", 1.0), ("rain", 1.0), not_due=()) == ()


def test_fewer_false_alarms_need_a_higher_burden_of_the_same_simulation(compiled):
    worlds = clean_worlds(compiled.calibration, 10, np.random.default_rng(1))
    streams = CleanStreams(compiled.estimator, worlds)
    found = [streams.burden(100, 50, rate) for rate in (1e-3, 1e-4, 1e-5)]
    assert found == sorted(found) and found[0] < found[-1]
    assert CleanStreams(compiled.estimator, worlds).burden(100, 50, 1e-4) == found[1]


@pytest.fixture(scope="module")
def two_kinds() -> Calibration:
    """Clean rows cost 0.06."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "dark", "fog"], [1500, 400, 400])
    right = np.concatenate(
        [np.arange(1500) % 50 >= 3, np.arange(400) % 5 < 2, np.arange(400) % 20 < 13]
    )
    return fit_calibration({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, right)


def rule_of(calibration: Calibration, tolerable: float) -> AlarmRule:
    given = {"subject": "s", "windows": Windows((100,))}
    rule = Bundle.compile(calibration, accuracy_tree(), tolerable=tolerable, **given).alarm
    assert rule is not None
    return rule


def test_that_clean_data_cost_more_than_is_tolerable_is_said(two_kinds):
    rule = rule_of(two_kinds, 0.05)
    assert min(dict(rule.detects).values()) == 1.0 and rule.on == rule.off == 0.0
    assert [note.code for note in rule.notes] == ["clean is dear"]


def test_a_stream_of_nothing_but_shift_is_never_silent_whatever_is_tolerable(two_kinds):
    shifted = np.random.default_rng(1).normal(2.0, size=400)
    for tolerable in (0.01, 0.0595, 0.07):
        bundle = Bundle.compile(
            two_kinds, accuracy_tree(), subject="s", tolerable=tolerable, windows=Windows((100,))
        )
        monitor = Monitor(bundle)
        monitor.update(Events(None, None, columns={"energy": shifted}))
        assert monitor.alarms and monitor.alarms[0].kind == "raised", tolerable


def test_an_alarm_is_cleared_though_clean_windows_look_nearly_as_dear_as_is_tolerable(two_kinds):
    bundle = Bundle.compile(
        two_kinds, accuracy_tree(), subject="s", tolerable=0.07, windows=Windows((100,))
    )
    assert bundle.alarm is not None and -1.0 < bundle.alarm.off <= 0.0 and not bundle.alarm.notes
    rng, monitor = np.random.default_rng(2), Monitor(bundle)
    for part in (rng.normal(size=1000), rng.normal(2.0, size=500), rng.normal(size=2000)):
        monitor.update(Events(None, None, columns={"energy": part}))
    kinds = [alarm.kind for alarm in monitor.alarms]
    assert kinds[0] == "raised" and "cleared" in kinds


def test_what_is_believed_before_a_window_is_full_is_no_matter_of_the_alarm(two_kinds):
    """It reads full windows alone: however much shift somebody expects, or how little, it rings and is cleared as it would."""
    alarms = [
        Bundle.compile(
            two_kinds,
            accuracy_tree(),
            subject="s",
            tolerable=0.1,
            windows=Windows((50,)),
            prior=one,
        ).alarm
        for one in (None, RatePrior(0.5, 200.0))
    ]
    assert alarms[0] is not None and alarms[0] == alarms[1]


@pytest.mark.parametrize("alike", [1, 5])
def test_an_alarm_is_on_after_a_merge_however_alike_events_have_become(alike):
    bundle = watching(synthetic(0.9), 100, stated=10)
    rng, clean, n = np.random.default_rng(0), 20_000, 24_000
    scores = rng.normal(size=n)
    scores[clean:] = np.repeat(rng.normal(size=(n - clean) // alike), alike) + 2.0
    replicas = [Monitor(bundle, replica=name) for name in "ab"]
    for first, replica in enumerate(replicas):
        rows = np.arange(first, n, 2)
        ids, times = [f"e{i}" for i in rows.tolist()], rows.astype(float)
        replica.update(Events(ids, times, columns={"energy": scores[rows]}))
    merged = Monitor(bundle)
    merged.merge(*replicas)
    assert [m.alarm for m in (*replicas, merged)] == [True, True, True]
