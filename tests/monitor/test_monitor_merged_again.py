"""Replicas that are merged again and again: after a restart from an older state, with nothing new, among peers, and long gone."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from synthetic_detectors import GAIN

from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows
from roadworthy.monitor.events import EventError, marks
from roadworthy.monitor.state import State


def seen(
    monitor: Monitor, times: np.ndarray, rng: np.random.Generator, *, rate: float = 0.0
) -> None:
    """Events of these times, so many of them shifted, named by their replica."""
    scores = rng.normal(GAIN[0.9] * (rng.random(len(times)) < rate))
    monitor.update(
        Events([f"{monitor.replica} {t}" for t in times], times, columns={"energy": scores})
    )


def one_by_one(
    name: str, numbers: range | list[int], *, capacity: int = 5, lateness: float = 1e9
) -> State:
    found = State(cells=2, capacity=capacity, lateness=lateness, bucket=10.0, name=name)
    counted_by(found, numbers)
    return found


def counted_by(state: State, numbers: range | list[int]) -> None:
    for i in numbers:
        state.add_one(float(i), int(marks([i])[0]), i % 2, i)


@pytest.mark.parametrize("since", [range(2000, 2001), range(500, 501), range(2000, 3000)])
def test_a_replica_that_went_on_from_an_older_state_is_refused_from_its_first_event_on(
    watchful, since
):
    """However few it has counted since: they are no longer lost without a word until they are more than were merged before."""
    rng = np.random.default_rng(0)
    replica, centre = Monitor(watchful, replica="r"), Monitor(watchful, replica="centre")
    seen(replica, np.arange(1000.0), rng)
    backup = replica.to_bytes()
    seen(replica, np.arange(1000.0, 2000.0), rng)
    centre.merge(replica)
    replica = Monitor.from_bytes(watchful, backup)
    centre.merge(replica)
    assert centre.state.counted == 2000, "it brings nothing yet, and takes nothing away"
    seen(replica, np.array(since) + 0.5, rng, rate=1.0)
    with pytest.raises(EventError, match="it started again from an older state"):
        centre.merge(replica)


def test_a_replica_that_counts_again_what_it_had_counted_brings_nothing_until_it_brings_more():
    centre = one_by_one("centre", [])
    centre.take_over(one_by_one("r", range(20)))
    again = one_by_one("r", range(10))
    for upto in range(11, 23):
        centre.take_over(again)
        assert centre.counted == max(20, again.counted)
        counted_by(again, range(upto - 1, upto))


def test_an_older_state_is_known_by_its_counts_where_no_event_is_held_any_more():
    centre = one_by_one("centre", [])
    centre.take_over(one_by_one("r", range(100)))
    older = one_by_one("r", range(50))
    centre.take_over(older)
    assert centre.counted == 100
    counted_by(older, range(110, 120))
    with pytest.raises(EventError, match="it started again from an older state"):
        centre.take_over(older)


def labelled(
    bundle: Bundle, name: str, times: np.ndarray, wrong: np.ndarray, rng: np.random.Generator
) -> Monitor:
    monitor, ids = Monitor(bundle, replica=name), [f"{name}{i}" for i in range(len(times))]
    monitor.update(Events(ids, times, columns={"energy": rng.normal(size=len(ids))}))
    monitor.label_all([(i, not bool(w), None, None, None) for i, w in zip(ids, wrong, strict=True)])
    return monitor


def by_labels(monitor: Monitor) -> list[tuple[str, int]]:
    return [(alarm.kind, alarm.by_labels) for alarm in monitor.alarms if alarm.by_labels]


def test_an_alarm_by_labels_that_another_replicas_labels_took_back_is_not_told_again(watchful):
    rng = np.random.default_rng(25)
    bad = labelled(watchful, "bad", np.arange(700.0), rng.random(700) < 0.4, rng)
    good = labelled(watchful, "good", 1000.0 + np.arange(1000.0), rng.random(1000) < 0.01, rng)
    assert bad.alarm_by_labels and not good.alarm_by_labels
    for order in permutations((bad, good)):
        centre = Monitor(watchful)
        for _ in range(3):
            centre.merge(*order)
            assert not centre.alarm_by_labels and not by_labels(centre), (
                "a merge is one look at all of them"
            )
    centre = Monitor(watchful)
    for replicas in ((bad,), (bad,), (good,), (bad, good), (bad,), (good,)):
        centre.merge(*replicas)
    assert by_labels(centre) == [("raised", 1), ("cleared", 2)]


def test_an_own_alarm_by_labels_that_is_over_is_not_told_again_for_a_replica_with_few_labels(
    watchful,
):
    rng = np.random.default_rng(25)
    wrong = np.concatenate([rng.random(700) < 0.4, rng.random(1000) < 0.01])
    own = labelled(watchful, "own", np.arange(1700.0), wrong, rng)
    said = by_labels(own)
    assert [kind for kind, _ in said] == ["raised", "cleared"]
    few = Monitor(watchful, replica="few")
    for start in range(2000, 2300, 10):
        ids = [f"few{i}" for i in range(start, start + 10)]
        few.update(
            Events(ids, np.arange(start, start + 10.0), columns={"energy": rng.normal(size=10)})
        )
        few.label_all([(i, bool(rng.random() > 0.05), None, None, None) for i in ids])
        own.merge(few)
    assert by_labels(own) == said


def test_a_replica_that_ended_long_ago_with_its_alarm_on_does_not_lower_the_bar(watchful):
    raised = {True: 0, False: 0}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        bad, good, centre, without = (
            Monitor(watchful, replica=name) for name in ("bad", "good", "centre", "without")
        )
        seen(bad, np.arange(600.0), rng)
        seen(bad, np.arange(600.0, 1000.0), rng, rate=1.0)
        seen(good, 1000.0 + watchful.lateness + np.arange(1000.0), rng)
        assert bad.alarm and not good.alarm
        for monitor in (centre, without):
            monitor.merge(bad, good)
            assert not monitor.alarm
        for start in range(0, 6000, 60):
            seen(good, 2000.0 + watchful.lateness + np.arange(start, start + 60.0), rng)
            centre.merge(bad, good)
            without.merge(good)
        for monitor in (centre, without):
            raised[monitor is centre] += sum(alarm.kind == "raised" for alarm in monitor.alarms)
    assert raised[True] == raised[False]


def test_what_peers_refused_is_not_multiplied_by_merging_each_other(watchful):
    rng = np.random.default_rng(0)
    a, b = (Monitor(watchful, replica=name) for name in "ab")
    for i, monitor in enumerate((a, b)):
        seen(monitor, 10_000.0 + 0.5 * i + np.arange(100.0), rng)
    seen(a, np.array([1.0]), rng)
    for _ in range(10):
        a.merge(b)
        b.merge(a)
        assert a.state.taken == b.state.taken == (200, 0, 1, 0, 0)
    seen(b, np.array([2.0, 3.0, 10_500.0]), rng)
    for _ in range(2):
        a.merge(b)
        b.merge(a)
        assert a.state.taken == b.state.taken == (201, 0, 3, 0, 0), (
            "the most that one of them knows of"
        )
    assert a.state.arrivals.time.tolist() == b.state.arrivals.time.tolist()


def test_a_state_that_was_taken_in_by_way_of_another_adds_nothing_to_what_was_refused(watchful):
    rng = np.random.default_rng(0)
    a, b, between, centre = (
        Monitor(watchful, replica=name) for name in ("a", "b", "between", "centre")
    )
    for monitor in (a, b):
        seen(monitor, 10_000.0 + np.arange(100.0), rng)
    seen(a, np.array([1.0, 10_099.0]), rng)
    between.merge(a, b)
    centre.merge(between)
    for _ in range(3):
        centre.merge(a)
        centre.merge(Monitor.from_bytes(watchful, a.to_bytes(), replica="a copy"))
        assert centre.state.taken == (200, 1, 1, 0, 0)


def test_what_is_remembered_of_replicas_that_are_long_gone_is_little():
    """A job a minute, each a replica of its own: the events of most of them have left."""
    centre, events = one_by_one("centre", [], capacity=300, lateness=100.0), 200
    for job in range(40):
        centre.take_over(
            one_by_one(
                f"job {job}", range(job * events, (job + 1) * events), capacity=300, lateness=100.0
            )
        )
    remembered = [len(before.mark) + len(before.brought) for before in centre.merged.values()]
    assert sum(remembered) <= 4 * 300 and centre.counted == 40 * events
    assert len(centre.merged) == 40, "by its name and its counts each is still known"


def test_a_replica_that_comes_back_after_its_events_have_left_brings_what_is_new():
    replica, other = (
        one_by_one("r", range(0, 200, 2), capacity=20),
        one_by_one("other", range(1, 2001, 2), capacity=20),
    )
    centre = one_by_one("centre", [], capacity=20)
    centre.take_over(replica)
    centre.take_over(other)
    assert len(centre.merged["r"].mark) == 1, "the last"
    centre.take_over(replica)
    counted_by(replica, [198, 1500, 1990, 2002, 2004])
    for _ in range(2):
        centre.take_over(replica)
        assert centre.counted == 1104 and centre.taken.repeated == 1
        assert centre.buckets.total().tolist() == [104, 1000, 0]
        assert (
            centre.recent.time.tolist() == sorted([*range(1965, 2001, 2), 2002, 2004, 1990])[-20:]
        )
    with pytest.raises(EventError, match="it started again from an older state"):
        centre.take_over(one_by_one("r", [*range(0, 180, 2), 2006], capacity=20))


@pytest.mark.parametrize(
    ("events", "copied", "since"), [(20, 15, range(31, 55)), (40, 10, range(46, 59))]
)
def test_a_replica_whose_events_have_left_is_still_known_to_go_on_from_an_older_state(
    events, copied, since
):
    """Within one bucket its counts do not tell; but it does not have the last event that it had."""

    def counting(name: str, times: list[float]) -> State:
        found = State(cells=2, capacity=50, lateness=1e9, bucket=60.0, name=name)
        for time in times:
            found.add_one(time, int(marks([f"{name} {time}"])[0]), 0, f"{name} {time}")
        return found

    centre = counting("centre", [])
    centre.take_over(counting("r", [float(i) for i in range(events)]))
    centre.take_over(counting("other", np.linspace(events + 1.0, since[0] - 1.0, 100).tolist()))
    with pytest.raises(EventError, match="it started again from an older state"):
        centre.take_over(counting("r", [float(i) for i in (*range(copied), *since)]))


def test_a_centre_of_many_jobs_is_kept_and_restored(calibration):
    bundle = Bundle.compile(
        calibration, accuracy_tree(), subject="s", windows=Windows((50,)), id_horizon=100
    )
    rng, centre, jobs = np.random.default_rng(1), Monitor(bundle, replica="centre"), []
    for job in range(12):
        jobs.append(Monitor(bundle, replica=f"job {job}"))
        seen(jobs[-1], job * 4000.0 + np.arange(3000.0), rng)
        jobs[-1].label(f"job {job} {job * 4000.0}", bool(job % 2))
        centre.merge(jobs[-1])
    again = Monitor.from_bytes(bundle, centre.to_bytes())
    assert again.to_bytes() == centre.to_bytes()
    seen(jobs[3], 48_000.0 + np.arange(50.0), rng)
    again.merge(*jobs)
    assert again.state.counted == 12 * 3000 + 50 and again.state.labels.counts.sum() == 12
