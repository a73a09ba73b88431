"""What a review found: labels of several rounds, replicas that grow, events without a name, windows that say nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, EventError, Events, Monitor, Windows
from roadworthy.monitor.events import marks
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


def test_a_probability_that_was_given_stays_and_that_of_the_queue_follows_the_questions(bundle, scores_at):
    monitor = Monitor(bundle)
    monitor.update(Events([f"e{i}" for i in range(200)], np.arange(200.0), columns={"energy": scores_at(200, 0.3)}))
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
        calibration, accuracy_tree(), subject="s", windows=Windows((50,)), id_horizon=100, lateness=1e9, bucket=10.0
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
        assert centre.state.labels.counts.sum() == len(centre.state.labels.given) == 2 * (1 + start // 15_000)


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
    a.merge(b)
    c.merge(b)
    with pytest.raises(EventError, match="both states hold counts of replica 'b'"):
        a.merge(c)
    with pytest.raises(EventError, match="replica 'a'"):
        a.merge(seen(range(12), "a"))
    for other in ([*range(-5, 10), 16, 17, 18], range(1000, 1020)):  # an event, or a count, of before is not there
        with pytest.raises(EventError, match="started again from an older state"):
            a.merge(seen(other, "b"))
    small = seen(range(3), "a")
    small.merge(seen(range(1, 3), "a"))
    assert small.counted == 3 and small.whole, "as long as every event is known, each counts once"


def test_unnamed_events_are_no_numbers_that_somebody_gave(bundle):
    monitor = Monitor(bundle)
    assert monitor.update(Events([0, 1, 2], [1.0, 2.0, 3.0], cells=[0, 0, 0])).accepted == 3
    assert monitor.update(Events(None, None, cells=[1, 1, 1])).accepted == 3
    assert monitor.update(Events([3, 4, 5], [7.0, 8.0, 9.0], cells=[2, 2, 2])).accepted == 3
    for question in monitor.queue(9):
        monitor.label(question.id, True)
    assert monitor.state.labels.counts[0, :3].tolist() == [3, 3, 3], "each label went to the event that was asked for"


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
