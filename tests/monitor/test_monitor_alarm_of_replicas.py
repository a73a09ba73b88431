"""The alarm of replicas that are put together: judged by events as they came to each, up to where each of them has seen."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_detectors import GAIN

from roadworthy.monitor import Bundle, Events, Monitor
from roadworthy.monitor.arrivals import Arrivals, order_of_arrival
from roadworthy.monitor.keeping import MAGIC


def put_together(
    bundle: Bundle, replicas: Sequence[Monitor], *, into: Monitor | None = None
) -> Monitor:
    """Copies of replicas in a new state, or in a copy of one."""
    whole = Monitor(bundle) if into is None else Monitor.from_bytes(bundle, into.to_bytes())
    whole.merge(*[Monitor.from_bytes(bundle, replica.to_bytes()) for replica in replicas])
    return whole


def late_source(bundle: Bundle, name: str, *, seed: int, stuck: bool = False) -> Monitor:
    """Two sources in turn, one event a second each: one clean, the other five minutes late and, from some time on, 60% shifted.

    An event of a clock that is 50 s ahead may come near the end, so that none is newer afterwards.
    """
    monitor, rng = Monitor(bundle, replica=name), np.random.default_rng(seed)
    for start in range(0, 2000, 50):
        now = np.arange(start, start + 50.0)
        shifted = (rng.random(50) < 0.6) & (now >= 1200)
        time = np.stack([now, now - 300.0], axis=1).ravel()
        if stuck and start == 1950:
            time[0] += 50.0
        scores = np.stack([rng.normal(size=50), rng.normal(GAIN[0.9] * shifted)], axis=1).ravel()
        ids = [f"{name}{2 * start + i}" for i in range(100)]
        monitor.update(Events(ids, time, columns={"energy": scores}))
    return monitor


@pytest.mark.parametrize("stuck", [False, True])
def test_an_alarm_that_rests_on_a_late_source_outlives_a_merge(watchful, stuck):
    for seed in range(3):
        one, two = (
            late_source(watchful, name, seed=seed + ord(name), stuck=stuck) for name in "ab"
        )
        assert one.alarm and two.alarm
        for replicas, into in (
            ((one,), None),
            ((one, two), None),
            ((Monitor(watchful),), one),
            ((two,), one),
        ):
            whole = put_together(watchful, replicas, into=into)
            assert whole.alarm, (seed, len(replicas))
            assert put_together(watchful, [Monitor(watchful)], into=whole).alarm


def test_one_replica_in_a_new_state_has_arrived_as_it_did(watchful):
    one = late_source(watchful, "a", seed=0)
    new = put_together(watchful, [one])
    assert new.state.arrivals.time.tolist() == one.state.arrivals.time.tolist()
    assert new.state.arrivals.cell.tolist() == one.state.arrivals.cell.tolist()


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=30), min_size=1, max_size=4), st.integers(0, 9)
)
@settings(max_examples=150, deadline=None)
def test_events_of_replicas_keep_their_order_and_it_does_not_matter_who_is_named_first(
    streams, seed
):
    """Every event has a cell of its own, by which it is known."""
    cells, replicas = iter(np.random.default_rng(seed).permutation(200).tolist()), []
    for times in streams:
        replicas.append(Arrivals(50))
        for time in times:
            replicas[-1].add_one(float(time), next(cells))
    events = sorted(
        (t, c) for r in replicas for t, c in zip(r.time.tolist(), r.cell.tolist(), strict=True)
    )
    time, cell = np.array([t for t, _ in events]), np.array([c for _, c in events], dtype=np.int16)
    found = {
        tuple(cell[order_of_arrival(time, cell, [r.copied for r in chosen])].tolist())
        for chosen in permutations(replicas)
    }
    assert len(found) == 1
    order = list(next(iter(found)))
    assert sorted(order) == sorted(cell.tolist())
    for replica in replicas:
        mine = set(replica.cell.tolist())
        assert [c for c in order if c in mine] == replica.cell.tolist()


def test_an_event_that_came_to_two_replicas_came_with_the_first_of_them():
    one, two = Arrivals(9), Arrivals(9)
    for time, cell in ((1.0, 1), (2.0, 2), (1.5, 3), (5.0, 4)):
        one.add_one(time, cell)
    for time, cell in ((4.0, 5), (1.5, 3)):
        two.add_one(time, cell)
    time, cell = np.array([1.0, 1.5, 2.0, 4.0, 5.0]), np.array([1, 3, 2, 5, 4], dtype=np.int16)
    for replicas in ((one, two), (two, one)):
        order = order_of_arrival(time, cell, [replica.copied for replica in replicas])
        assert cell[order].tolist() == [1, 2, 3, 5, 4]


def three_ends(bundle: Bundle, seed: int) -> list[Monitor]:
    """Of three replicas, one event a second each, the second has seen half as much again as the third, and the first more still.

    What the second saw last is shifted.
    """
    rng, replicas = np.random.default_rng(seed), []
    for i, (name, last) in enumerate((("a", 3000), ("b", 2500), ("c", 2000))):
        replicas.append(Monitor(bundle, replica=name))
        shifted = (np.arange(last) >= 2200) & (rng.random(last) < 0.9) & (name == "b")
        scores = rng.normal(GAIN[0.9] * shifted)
        for start in range(0, last, 250):
            time = np.arange(start, start + 250) + 0.3 * i
            ids = [f"{name}{j}" for j in range(start, start + 250)]
            replicas[-1].update(Events(ids, time, columns={"energy": scores[start : start + 250]}))
    assert [replica.alarm for replica in replicas] == [False, True, False]
    return replicas


@pytest.mark.parametrize("seed", range(3))
def test_an_alarm_of_the_replica_that_ends_between_two_others_is_kept_whatever_their_order(
    watchful, seed
):
    replicas = three_ends(watchful, seed)
    assert all(put_together(watchful, chosen).alarm for chosen in permutations(replicas))
    assert all(
        put_together(watchful, chosen).alarm
        for chosen in permutations(replicas, 2)
        if replicas[1] in chosen
    )
    assert all(
        put_together(watchful, others, into=one).alarm for one, *others in permutations(replicas)
    )


@pytest.mark.parametrize("seed", range(3))
def test_it_is_kept_as_well_where_they_come_one_after_the_other_or_put_together_before(
    watchful, seed
):
    replicas = three_ends(watchful, seed)
    for chosen in permutations(replicas):
        centre = Monitor(watchful)
        for replica in chosen:
            centre.merge(Monitor.from_bytes(watchful, replica.to_bytes()))
        assert centre.alarm
        assert put_together(watchful, [centre]).alarm


def test_a_centre_that_merges_again_and_again_clears_with_a_state_that_merges_once(watchful):
    """What it had seen at the last merge is no end of a replica."""
    rng, n = np.random.default_rng([0, 100]), 5000
    shifted = (np.arange(n) >= 2000) & (np.arange(n) < 3000)
    scores = [rng.normal(GAIN[0.9] * (shifted & (rng.random(n) < 0.5))) for _ in range(2)]
    replicas, centre, on = (
        [Monitor(watchful, replica=name) for name in "ab"],
        Monitor(watchful, replica="c"),
        [],
    )
    for start in range(0, n, 500):
        for i, monitor in enumerate(replicas):
            ids = [f"{i}_{j}" for j in range(start, start + 500)]
            time = np.arange(start, start + 500) + 0.5 * i
            monitor.update(Events(ids, time, columns={"energy": scores[i][start : start + 500]}))
        centre.merge(*[Monitor.from_bytes(watchful, monitor.to_bytes()) for monitor in replicas])
        on.append((centre.alarm, put_together(watchful, replicas).alarm))
    assert (
        [one for one, _ in on] == [other for _, other in on]
        and on[5] == (True, True)
        and on[6] == (False, False)
    )


@pytest.mark.parametrize("at_once", [200, 1000])
def test_a_centre_knows_the_order_of_events_that_share_a_time_as_their_replica_does(
    watchful, at_once
):
    """Whole seconds, so many events each; half of them of a source that is five of these late and, from the middle on, shifted."""
    rng, n, late = np.random.default_rng(5), 6000, np.arange(6000) % 2
    scores = rng.normal(
        GAIN[0.9] * ((rng.random(n) < 0.6) & (np.arange(n) >= n // 2) & (late == 1))
    )
    time = np.floor(np.arange(n) / at_once) - 5 * late + 10.0
    replica, centre = Monitor(watchful, replica="a"), Monitor(watchful, replica="c")
    for start in range(0, n, 150):
        part = slice(start, start + 150)
        replica.update(
            Events(
                [f"e{i}" for i in range(start, start + 150)],
                time[part],
                columns={"energy": scores[part]},
            )
        )
        centre.merge(replica)
        assert centre.state.arrivals.time.tolist() == replica.state.arrivals.time.tolist()
        assert centre.state.arrivals.cell.tolist() == replica.state.arrivals.cell.tolist()
        assert centre.alarm == put_together(watchful, [replica]).alarm
    assert centre.alarm


@pytest.mark.parametrize("seed", range(3))
def test_an_alarm_is_kept_whoever_takes_in_the_others_one_after_the_other(watchful, seed):
    """The end of one that counts itself is its own, not that of what it took in; and one put together brings all that it knows."""
    replicas = three_ends(watchful, seed)
    for one, two, three in permutations(replicas):
        live = put_together(watchful, [two], into=one)
        assert put_together(watchful, [three], into=live).alarm
        centre = put_together(watchful, [put_together(watchful, [one, two])])
        assert put_together(watchful, [three], into=centre).alarm


@pytest.mark.parametrize("seed", range(3))
def test_an_alarm_that_was_cleared_is_not_raised_again_by_a_merge_that_brings_nothing(
    watchful, seed
):
    first, second, _ = three_ends(watchful, seed)
    live = put_together(watchful, [second], into=first)
    assert live.alarm
    for start in range(3000, 4500, 50):
        ids = [f"a{i}" for i in range(start, start + 50)]
        scores = np.random.default_rng([seed, start]).normal(size=50)
        live.update(Events(ids, np.arange(start, start + 50.0), columns={"energy": scores}))
    assert not live.alarm
    said = len(live.alarms)
    live.merge(Monitor(watchful))
    assert not live.alarm and len(live.alarms) == said


def test_states_kept_before_ends_were_known_end_where_all_that_they_hold_does(watchful):
    first, second, third = three_ends(watchful, 0)
    first.merge(second)
    state = Monitor.from_bytes(watchful, first.to_bytes()).state
    assert state.seen_by == {"a": 2999.0, "b": pytest.approx(2499.3)}
    kept = without_ends(first.to_bytes())
    assert Monitor.from_bytes(watchful, kept).state.seen_by == state.seen_by
    third.merge(first)
    assert third.state.seen_by["b"] == pytest.approx(2499.3)
    old = Monitor.from_bytes(watchful, without_ends(third.to_bytes())).state
    assert old.seen_by == {"a": 2999.0, "c": 2999.0}


def without_ends(kept: bytes) -> bytes:
    """A state as it was kept before it said what it had seen itself."""
    start = len(MAGIC) + 32
    with np.load(io.BytesIO(kept[start:])) as found:
        arrays = dict(found)
    head = json.loads(arrays["head"].tobytes())
    del head["newest_own"]
    for before in head["merged"]:
        del before["seen"]
    body = io.BytesIO()
    np.savez(body, **{**arrays, "head": np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)})
    return MAGIC + hashlib.sha256(body.getvalue()).digest() + body.getvalue()


def test_events_that_both_saw_stay_where_they_came_however_often_a_replica_is_merged(watchful):
    """What this state saw itself, and another one late, is not moved to where the other one got it."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=60)

    def seen(ids: list[int]) -> Events:
        return Events(
            [str(i) for i in ids], [float(i) for i in ids], columns={"energy": scores[ids]}
        )

    here, there = Monitor(watchful), Monitor(watchful)
    here.update(seen(list(range(10))))
    there.update(seen([*range(50, 55), *range(5)]))
    here.merge(there)
    once = here.state.arrivals.copied.time.tolist()
    here.merge(there)
    assert here.state.arrivals.copied.time.tolist() == once
    there.update(seen([58]))
    here.merge(there)
    assert here.state.arrivals.copied.time.tolist() == [*once, 58.0]
    kept = Monitor.from_bytes(watchful, here.to_bytes())
    there.update(seen([59]))
    kept.merge(there)
    assert kept.state.arrivals.copied.time.tolist() == [*once, 58.0, 59.0]
