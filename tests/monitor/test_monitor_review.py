"""What a review found: labels of several rounds, replicas that grow, events without a name, windows that say nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import numpy as np
import pytest
from synthetic_detectors import GAIN

from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Windows
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import marks
from roadworthy.monitor.looks import Watched
from roadworthy.monitor.state import State


def asked_and_told(monitor: Monitor, right: dict[str, bool], n: int) -> None:
    for question in monitor.queue(n):
        monitor.label(question.id, right[question.id])


def test_labels_of_several_rounds_are_as_unbiased_as_those_of_one(bundle):
    errors, inside, trials = [], 0, 60
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        names = [f"{seed}-{i}" for i in range(200)]
        right = dict(zip(names, (rng.random(200) < 0.6).tolist(), strict=True))
        monitor = Monitor(bundle)
        monitor.update(Events(names, np.arange(200.0), columns={"energy": rng.normal(size=200)}))
        for _ in range(4):
            asked_and_told(monitor, right, 15)
        found, truth = monitor.risk(200).audited, np.mean(list(right.values()))
        errors.append(found.accuracy - truth)
        inside += found.accuracy_low <= truth <= found.accuracy_high
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(trials) < 0.06
    assert inside >= 0.85 * trials


def test_labels_of_windows_that_slide_are_unbiased(bundle):
    errors, trials = [], 60
    for seed in range(trials):
        rng = np.random.default_rng([1, seed])
        monitor, right = Monitor(bundle), {}
        for part in range(6):
            # Rounds of different sizes over windows that share three quarters: thresholds rise and fall.
            names = [f"{seed}-{part}-{i}" for i in range(200 if part == 0 else 50)]
            right |= dict(zip(names, (rng.random(len(names)) < 0.6).tolist(), strict=True))
            times = len(right) - len(names) + np.arange(len(names))
            monitor.update(Events(names, times, columns={"energy": rng.normal(size=len(names))}))
            asked_and_told(monitor, right, (30, 5, 20)[part % 3])
        errors.append(monitor.risk(200).audited.accuracy - np.mean(list(right.values())[-200:]))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(trials) < 0.08


def test_a_probability_that_was_given_stays_and_that_of_the_queue_follows_the_questions(
    bundle, scores_at
):
    monitor = Monitor(bundle)
    monitor.update(
        Events(
            [f"e{i}" for i in range(200)], np.arange(200.0), columns={"energy": scores_at(200, 0.3)}
        )
    )
    first, second, *_ = (q for q in monitor.queue(10) if q.probability < 0.5)
    labels = monitor.state.labels
    monitor.label(first.id, True)
    monitor.label(second.id, True, 0.25)
    monitor.queue(100)
    again = Monitor.from_bytes(bundle, monitor.to_bytes()).state.labels
    for found in (labels, again):
        told = [found.weighed(mark).probability for mark in found.given]
        assert max(told) > first.probability and min(told) == 0.25 and len(told) == 2


def test_a_replica_that_grows_is_merged_again_without_counting_anything_twice(calibration):
    bundle = Bundle.compile(
        calibration,
        accuracy_tree(),
        subject="s",
        windows=Windows((50,)),
        id_horizon=100,
        lateness=1e9,
        bucket=10.0,
    )
    rng = np.random.default_rng(3)
    cells = rng.integers(-1, calibration.cells, 60_000)
    names = [f"e{i}" for i in range(len(cells))]
    centre, one = Monitor(bundle), Monitor(bundle)
    replicas = [Monitor(bundle, replica=name) for name in "ab"]
    for start in range(0, len(cells), 15_000):
        part = np.arange(start, start + 15_000)
        for number, replica in enumerate(replicas):
            # Every tenth event is seen by both, and the centre sees some of them itself.
            mine = part[(part % 2 == number) | (part % 10 == 0)]
            replica.update(Events([names[i] for i in mine], mine * 0.1, cells=cells[mine]))
            last = int(mine[-1])
            replica.label(names[last], bool(last % 4))
        one.update(Events([names[i] for i in part], part * 0.1, cells=cells[part]))
        own = part[-20:]
        centre.update(Events([names[i] for i in own], own * 0.1, cells=cells[own]))
        for number, replica in enumerate(replicas):
            centre.merge(Monitor.from_bytes(bundle, replica.to_bytes()) if number else replica)
        centre = Monitor.from_bytes(bundle, centre.to_bytes())
        for replica in replicas:
            centre.merge(replica)  # nothing new
        assert centre.state.counted == one.state.counted
        assert (centre.state.buckets.total() == one.state.buckets.total()).all()
        assert centre.state.recent.mark.tolist() == one.state.recent.mark.tolist()
        assert (
            centre.state.labels.counts.sum()
            == len(centre.state.labels.given)
            == 2 * (1 + start // 15_000)
        )


def test_an_answer_that_its_replica_changes_changes_where_it_was_merged(bundle):
    centre, replica = Monitor(bundle), Monitor(bundle)
    replica.update(Events(["a", "b"], [1.0, 2.0], cells=[3, 3]))
    replica.label("a", False)
    centre.merge(replica)
    replica.label("a", True)
    replica.label("b", True)
    centre.merge(replica)
    centre.merge(replica)
    assert centre.state.labels.counts[:, 3].tolist() == [2, 0]


def test_counts_that_nobody_can_tell_apart_are_not_put_together():
    def seen(numbers: Iterable[int], name: str) -> State:
        found = State(cells=2, capacity=3, lateness=1e9, name=name)
        for i in numbers:
            found.add_one(float(i), int(marks([i])[0]), 0, i)
        return found

    a, b, c = seen(range(10), "a"), seen(range(10, 20), "b"), seen(range(20, 30), "c")
    a.take_over(b)
    c.take_over(b)
    with pytest.raises(EventError, match="both states hold counts of replica 'b'"):
        a.take_over(c)
    with pytest.raises(EventError, match="replica 'a'"):
        a.take_over(seen(range(12), "a"))
    for other in (
        [*range(-5, 10), 16, 17, 18],
        range(1000, 1020),
    ):  # an event, or a count, of before is not there
        with pytest.raises(EventError, match="started again from an older state"):
            a.take_over(seen(other, "b"))
    small = seen(range(3), "a")
    small.take_over(seen(range(1, 3), "a"))
    assert small.counted == 3 and small.whole, "as long as every event is known, each counts once"


def test_unnamed_events_are_no_numbers_that_somebody_gave(bundle):
    monitor = Monitor(bundle)
    assert monitor.update(Events([0, 1, 2], [1.0, 2.0, 3.0], cells=[0, 0, 0])).accepted == 3
    assert monitor.update(Events(None, None, cells=[1, 1, 1])).accepted == 3
    assert monitor.update(Events([3, 4, 5], [7.0, 8.0, 9.0], cells=[2, 2, 2])).accepted == 3
    for question in monitor.queue(9):
        monitor.label(question.id, True)
    assert monitor.state.labels.counts[0, :3].tolist() == [3, 3, 3], (
        "each label went to the event that was asked for"
    )


def test_unnamed_events_of_replicas_without_a_name_are_different_events(bundle):
    a, b = Monitor(bundle), Monitor(bundle)
    for one in (a, b):
        one.update(Events(None, None, cells=np.zeros(50, dtype=int)))
    a.merge(b)
    assert a.state.taken.accepted == 100 and a.state.taken.repeated == 0
    for question in a.queue(100):
        a.label(question.id, True)
    assert a.state.labels.counts[0, 0] == 100


def test_one_event_is_held_against_the_same_latest_time_as_many(bundle):
    monitor = Monitor(bundle)
    for time in (1e300, -1e300, float("nan")):
        with pytest.raises(EventError, match="give finite seconds"):
            monitor.update_one("a", time, cell=0)
        with pytest.raises(EventError, match="give finite seconds"):
            monitor.update(Events(["a"], [time], cells=[0]))
    assert monitor.update_one("b", 1.7e9, cell=0).accepted == 1


def test_ids_that_are_numbers_of_numpy_are_kept(bundle):
    monitor = Monitor(bundle)
    monitor.update(Events([np.int64(1), np.str_("x")], [1.0, 2.0], cells=[0, 0]))
    monitor.update(Events(np.array([5, 6]), [3.0, 4.0], cells=[0, 0]))
    monitor.update_one(np.int32(7), 5.0, cell=0)
    monitor.label(np.int64(7), True)
    again = Monitor.from_bytes(bundle, monitor.to_bytes())
    assert [*again.state.recent.names.values()] == [1, "x", 5, 6, 7]
    assert again.update(Events([1, "x", 5, 6, 7], np.arange(5.0), cells=[0] * 5)).repeated == 5


def at_rate(n: int, rate: float | np.ndarray, seed: int) -> np.ndarray:
    """Scores of the AUC 0.9 detector at a rate of shift."""
    rng = np.random.default_rng([seed, n])
    return rng.normal(GAIN[0.9] * (rng.random(n) < rate))


def kinds(monitor: Monitor) -> list[str]:
    return [alarm.kind for alarm in monitor.alarms]


def test_replicas_put_together_tell_what_one_tells_that_saw_all(watchful):
    n = 6000
    scores = at_rate(n, np.where((np.arange(n) // 500) % 2 == 1, 0.6, 0.0), 5)
    names, times = np.array([f"e{i}" for i in range(n)]), np.arange(float(n))
    one, a, b = Monitor(watchful), Monitor(watchful), Monitor(watchful)
    one.update(Events(names.tolist(), times, columns={"energy": scores}))
    mine = np.random.default_rng(6).random(n) < 0.5
    for replica, part in ((a, mine), (b, ~mine)):
        replica.update(Events(names[part].tolist(), times[part], columns={"energy": scores[part]}))
    said = list(a.alarms)
    a.merge(b)
    assert a.autocorrelation_time == one.autocorrelation_time
    for window in watchful.windows.names:
        assert a.risk(window).to_dict() == {
            **one.risk(window).to_dict(),
            "alarm": a.alarm,
            "alarm_log_odds": a.risk(window).alarm_log_odds,
        }
    assert a.alarms[: len(said)] == said and len(a.alarms) <= len(said) + 1, (
        "what the other one said stays its own"
    )


def test_a_window_without_scores_raises_nothing_but_that_nobody_can_tell(watchful):
    monitor, window = Monitor(watchful), watchful.alarm.window
    monitor.update(Events(columns={"energy": at_rate(2000, 0.0, 1)}))
    monitor.update(Events(columns={"energy": np.full(4 * window, np.nan)}))
    assert kinds(monitor) == ["cannot tell"] and monitor.cannot_tell and not monitor.alarm
    assert (
        monitor.alarms[0].reason
        == f"{window} of {window} events lack a score that every calibration row had: energy"
    )
    assert monitor.risk().cannot_tell == monitor.alarms[0].reason
    assert any("more than 20% of the events say nothing" in note for note in monitor.risk().notes)
    kept = Monitor.from_bytes(watchful, monitor.to_bytes())
    for one in (monitor, kept):
        one.update(Events(columns={"energy": at_rate(3 * window, 0.0, 2)}))
        assert kinds(one) == ["cannot tell", "can tell"] and not one.cannot_tell
    assert kept.alarms == monitor.alarms


def test_what_is_watched_says_nothing_of_windows_with_few_scores(watchful):
    scores, calibration = CellScores.of(watchful.calibration), watchful.calibration
    cells = calibration.place({"energy": np.full(200, 4.0)})
    watched = Watched(watchful.watch, scores, 100, 50)
    cells[100:120] = -1
    ends = np.array([100, 200])
    assert np.isfinite(watched.odds_of([cells], ends, length=100)).all()
    cells[100:121] = -1
    assert np.isneginf(watched.odds_of([cells], ends, length=100)).tolist() == [[[False, True]]] * 2


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
        rule = bundle.alarm
        assert rule.on >= 0.0 and all(on >= 0.0 for _, on in rule.by_time)
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
        and kinds(monitor)[-1] == "cannot tell"
        and "no calibration row had" in monitor.alarms[-1].reason
    )
    monitor.update(Events(columns={"energy": at_rate(4 * window, 0.0, 9)}))
    assert (
        not monitor.alarm
        and not monitor.cannot_tell
        and {*kinds(monitor)[-2:]} == {"can tell", "cleared"}
    )


def test_a_strange_stretch_shorter_than_a_window_is_no_alarm(watchful):
    monitor, window = Monitor(watchful), watchful.alarm.window
    monitor.update(Events(columns={"energy": at_rate(2000, 0.0, 10)}))
    monitor.update(Events(columns={"energy": np.full(window // 2, -9.0)}))
    assert monitor.risk().cannot_tell
    monitor.update(Events(columns={"energy": at_rate(3 * window, 0.0, 11)}))
    assert "cannot tell" not in kinds(monitor)


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


def test_events_alike_beyond_what_a_window_can_say_are_judged_by_a_longer_stretch(watchful):
    rule, monitor = watchful.alarm, Monitor(watchful)
    monitor.update(Events(columns={"energy": np.repeat(at_rate(300, 0.0, 13), 100)}))
    (only,) = rule.passes(monitor.autocorrelation_time)
    assert only.length > 50 * rule.window and rule.burden_at(monitor.autocorrelation_time) == np.inf
    assert any("too few for an alarm of its own" in note for note in monitor.risk().notes)


def test_bundles_take_as_many_draws_as_estimators_do(watchful):
    assert watchful.draws == inspect.signature(Estimator).parameters["draws"].default
    assert len(watchful.estimator.rates) == inspect.signature(Estimator).parameters["rates"].default
    assert len(watchful.watch.rates) == 51


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
    assert watchful.estimator.doubt(counts, shrink=0.5) == estimates.cannot_tell
    assert estimates.cannot_tell[0] is None and all(estimates.cannot_tell[i] for i in (1, 2, 4))


def test_past_figures_carry_the_alarm_of_their_time(watchful):
    monitor = Monitor(watchful)
    rates = np.repeat([0.0, 1.0], [1500, 900])
    times = np.arange(2400.0)
    monitor.update(Events(None, times, columns={"energy": at_rate(2400, rates, 3)}))
    raised = next(a for a in monitor.alarms if a.kind == "raised")
    assert monitor.alarm and 1500 <= raised.time < 1900
    told = monitor.history(600.0)
    assert [state.alarm for state in told] == [False, False, True, True]
    assert [monitor.risk(at=t).alarm for t in (1000.0, 2399.0)] == [False, True]
