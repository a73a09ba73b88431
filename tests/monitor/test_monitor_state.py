"""What a monitor holds depends on the events alone: not on their order, their calls, or the replica that saw them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.monitor import Bundle, EventError, Events, Monitor
from roadworthy.monitor.events import id_order
from roadworthy.monitor.labels import LabelledEvent
from roadworthy.monitor.state import (
    Buckets,
    Recent,
    State,
    StateError,
    merge_states,
    packed,
    unpack,
)

CELLS = 5
events_of = st.lists(
    st.tuples(
        st.integers(0, 60),  # id
        st.floats(-500, 5000, allow_nan=False).map(lambda t: round(t, 1)),
        st.integers(-1, CELLS - 1),
    ),
    max_size=60,
)
named = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 40), st.text("ab#1", max_size=2)), st.integers(0, 12).map(float)
    ),
    max_size=60,
    unique_by=lambda event: (type(event[0]), event[0]),
)


def state(*, capacity: int = 1000, lateness: float = 1e9) -> State:
    return State(cells=CELLS, capacity=capacity, lateness=lateness, bucket=10.0, keep=8)


def give(to: State, events) -> None:
    names = [f"e{i}" for i, _, _ in events]
    to.add(
        np.array([t for _, t, _ in events], dtype=float),
        np.array([c for _, _, c in events], dtype=np.int16),
        names,
    )


def held(of: State) -> tuple:
    keys, rows, newest = of.buckets.arrays()
    table = {
        tuple(key): row.tolist() for key, row in zip(keys.tolist(), rows, strict=True) if row.any()
    }
    recent = of.recent
    return (
        table,
        newest,
        recent.time.tolist(),
        recent.cell.tolist(),
        recent.ids,
        of.newest,
        of.taken,
        of.labels.given,
        of.labels.asked,
        of.labels.counted,
    )


def consistent(events):
    """An id names one event: the first time and cell it comes with."""
    known = {}
    return [(i, *known.setdefault(i, (t, c))) for i, t, c in events]


@given(
    events_of,
    st.lists(st.integers(1, 60), max_size=5),
    st.sampled_from([3, 7, 1000]),
    st.sampled_from([0.0, 300.0, 1e9]),
)
@settings(max_examples=150, deadline=None)
def test_calls_of_any_size_are_the_same_as_one_event_after_the_other(
    events, cuts, capacity, lateness
):
    whole, single = (state(capacity=capacity, lateness=lateness) for _ in range(2))
    ends = sorted({0, *(min(c, len(events)) for c in cuts), len(events)})
    for start, end in pairwise(ends):
        give(whole, events[start:end])
    for name, time, cell in events:
        single.add_one(time, cell, f"e{name}")
    assert held(whole) == held(single)


@given(events_of, st.sampled_from([0.0, 300.0, 1e9]))
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_a_plain_list(events, lateness):
    found = state(lateness=lateness)
    give(found, events)
    kept, newest, late, repeated = {}, -math.inf, 0, 0
    for name, time, cell in events:
        if name in kept:
            repeated += 1
        elif time < newest - lateness:
            late += 1
        else:
            kept[name] = (time, cell)
            newest = max(newest, time)
    total = [sum(c == cell for _, c in kept.values()) for cell in [*range(CELLS), -1]]
    assert found.buckets.total().tolist() == total
    assert (found.taken.repeated, found.taken.late) == (repeated, late)
    assert (
        sorted(found.recent.time.tolist())
        == found.recent.time.tolist()
        == sorted(t for t, _ in kept.values())
    )


@given(
    events_of,
    st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.floats(0.01, 1.0)), max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_bytes_hold_everything(events, labels):
    first = state(capacity=30, lateness=300.0)
    give(first, events)
    for name, correct, probability in labels:
        first.labels.add_all([(name, LabelledEvent(1.5, name % CELLS, correct, probability))])
        first.labels.ask(name + 1, probability)
    data = packed(first, bundle="b1", memory={"active": True}, alarms=[])
    again = state(capacity=30, lateness=300.0)
    assert unpack(data, again, bundle="b1") == ({"active": True}, [])
    assert held(again) == held(first)
    more = [(i + 100, t + 100.0, c) for i, t, c in events]
    give(first, more)
    give(again, more)
    assert held(again) == held(first)


def test_bytes_of_another_bundle_or_cut_off_or_changed_are_refused():
    one = state()
    give(one, [(1, 2.0, 3), (2, 3.0, -1)])
    data = packed(one, bundle="b1", memory={}, alarms=[])
    with pytest.raises(StateError, match="belongs to bundle b1, not to b2"):
        unpack(data, state(), bundle="b2")
    for wrong in (b"", data[: len(data) // 2], data[:-1], data[:100] + b"x" + data[101:]):
        with pytest.raises(StateError, match=r"not a state|cut off or was changed"):
            unpack(wrong, state(), bundle="b1")


def test_an_id_is_counted_once_however_late_it_comes_again():
    one = state(capacity=10, lateness=1e9)
    events = [(i, float(i), 0) for i in range(100)]
    give(one, events)
    for event in events:
        give(one, [event])
    assert one.buckets.total()[0] == 100
    assert one.taken.repeated == 10 and one.taken.late == 90, (
        "what nobody remembers is refused, not counted again"
    )


@given(
    st.lists(st.integers(-(10**9), 10**9).map(lambda t: t / 1000), min_size=1, max_size=80),
    st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_buckets_depend_on_what_came_not_on_its_order(times, seed):
    rng = np.random.default_rng(seed)
    cells = rng.integers(-1, CELLS, len(times))
    found = []
    for _ in range(3):
        order = rng.permutation(len(times))
        buckets = Buckets(cells=CELLS, width=7.0, keep=6)
        for part in np.array_split(order, rng.integers(1, len(times) + 1)):
            buckets.add(np.array(times)[part], cells[part].astype(np.int16))
        found.append([(span, counts.tolist()) for span, counts in buckets.spans()])
    assert found[0] == found[1] == found[2]
    assert sum(sum(counts) for _, counts in found[0]) == len(times)
    for (start, end), _ in found[0]:
        assert any(start <= t < end for t in times)


def test_buckets_grow_with_the_logarithm_of_time():
    buckets = Buckets(cells=2, width=60.0, keep=16)
    sizes = []
    for day in range(400):
        buckets.add(
            np.linspace(day, day + 1, 500, endpoint=False) * 86_400.0, np.zeros(500, dtype=np.int16)
        )
        sizes.append(len(buckets.spans()))
    assert max(sizes) <= 16 + 8 * 16, "16 young ones, and 8 for every doubling"
    assert buckets.total().tolist() == [200_000, 0, 0]
    spans = [span for span, _ in buckets.spans()]
    assert all(a[1] <= b[0] for a, b in pairwise(spans)), "no two overlap"


@given(named, st.integers(1, 25), st.lists(st.integers(1, 20), max_size=6))
@settings(max_examples=150, deadline=None)
def test_events_stand_by_time_and_id(events, capacity, cuts):
    by_hand = sorted((time, id_order(name)) for name, time in events)[-capacity:]
    recent, at = Recent(capacity), 0
    while at < len(events):
        # A call brings no more than are held: a state takes more one by one.
        part = events[at : at + min(cuts[at % len(cuts)] if cuts else 7, capacity)]
        names, times = [name for name, _ in part], np.array([time for _, time in part])
        assert recent.claim(times, names)
        recent.put(times, np.zeros(len(part), dtype=np.int16), names)
        at += len(part)
    assert recent.ids == [id for _, (_, id) in by_hand] and recent.known == {*recent.ids}
    assert recent.time.tolist() == [time for time, _ in by_hand]
    assert recent.places(recent.ids).tolist() == [*range(len(by_hand))]
    assert recent.places(["not held"]).tolist() == [-1]


@given(events_of, st.data())
@settings(max_examples=150, deadline=None)
def test_replicas_merged_into_a_fresh_state_equal_one_that_saw_all(events, data):
    events = consistent(events)
    names = st.sets(st.sampled_from("abc"), min_size=1)
    seen_by = data.draw(st.lists(names, min_size=len(events), max_size=len(events)))
    replicas, one, whole = [state() for _ in "abc"], state(), state()
    for name, replica in zip("abc", replicas, strict=True):
        part = [event for event, by in zip(events, seen_by, strict=True) if name in by]
        give(replica, part)
        give(one, part)
    merge_states(whole, data.draw(st.permutations(replicas)))
    assert held(whole) == held(one)


@given(st.integers(1, 300), st.integers(2, 4), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_replicas_that_saw_different_events_are_merged_beyond_what_they_hold(n, replicas, seed):
    rng = np.random.default_rng(seed)
    parts, one, whole = (
        [state(capacity=40) for _ in range(replicas)],
        state(capacity=40),
        state(capacity=40),
    )
    for i, cell in enumerate(rng.integers(-1, CELLS, n).tolist()):
        event = (i, float(i) + rng.random(), cell)
        give(parts[rng.integers(replicas)], [event])
        give(one, [event])
    merge_states(whole, parts)
    assert held(whole) == held(one)


def test_common_events_beyond_the_ids_held_are_refused_and_nothing_is_merged():
    a, b, whole = state(capacity=40), state(capacity=40), state(capacity=40)
    for replica in (a, b):
        give(replica, [(i, float(i), 0) for i in range(100)])
    with pytest.raises(EventError, match="the same events"):
        merge_states(whole, [a, b])
    assert not whole.taken.total and not len(whole.recent)
    c = state(capacity=40)
    give(c, [*((i + 1000, float(i), 0) for i in range(100)), (99, 99.0, 0)])
    merge_states(whole, [a, c])
    assert whole.counted == 200 and whole.taken.repeated == 1, "one retry is no common past"


def test_a_replica_is_merged_once():
    a, b, whole = state(), state(), state()
    give(a, [(1, 1.0, 0)])
    give(b, [(2, 2.0, 0)])
    merge_states(whole, [a, b])
    for again in ([a], [whole], [state(), b]):
        with pytest.raises(EventError, match="was merged before"):
            merge_states(whole, again)
    with pytest.raises(EventError, match="was merged before"):
        merge_states(state(), [a, a])
    assert whole.counted == 2


def test_replicas_put_together_say_what_one_says_that_saw_all(watchful, scores_at):
    n = 6000
    scores = np.concatenate([scores_at(n // 2, 0.0), scores_at(n // 2, 0.5)])
    names, times = np.array([f"e{i}" for i in range(n)]), np.arange(float(n))
    one, a, b, whole = (Monitor(watchful) for _ in range(4))
    one.update(Events(names.tolist(), times, columns={"energy": scores}))
    mine = np.random.default_rng(6).random(n) < 0.5
    for replica, part in ((a, mine), (b, ~mine)):
        replica.update(Events(names[part].tolist(), times[part], columns={"energy": scores[part]}))
    whole.merge(a, b)
    assert whole.autocorrelation_time == one.autocorrelation_time
    for window in watchful.windows.names:
        found, wanted = whole.risk(window).to_dict(), one.risk(window).to_dict()
        # What the alarm knows of autocorrelation was read at other times.
        assert found.pop("alarm_log_odds") == pytest.approx(wanted.pop("alarm_log_odds"), abs=0.1)
        assert found == wanted
    assert whole.alarm and [(x.kind, x.event) for x in whole.alarms] == [("raised", n)]
    kept = Monitor.from_bytes(watchful, whole.to_bytes())
    assert kept.alarm and kept.alarms == whole.alarms
    with pytest.raises(EventError, match="was merged before"):
        kept.merge(a)
    other = Monitor(Bundle.from_dict({**watchful.to_dict(), "subject": "another"}))
    with pytest.raises(EventError, match="Bundles differ"):
        whole.merge(other)


def test_clean_replicas_outvote_one_whose_shift_is_over(watchful, scores_at):
    shifted, clean, whole = Monitor(watchful), Monitor(watchful), Monitor(watchful)
    shifted.update(Events(None, np.arange(1000.0), columns={"energy": scores_at(1000, 0.6)}))
    clean.update(Events(None, np.arange(2000.0), columns={"energy": scores_at(2000, 0.0)}))
    whole.merge(shifted, clean)
    assert shifted.alarm and not whole.alarm and not whole.alarms


def test_a_copy_under_another_name_shares_the_past_of_the_first(bundle):
    first = Monitor(bundle, replica="a")
    first.update(Events(["x"], [1.0], cells=[0]))
    copy = Monitor.from_bytes(bundle, first.to_bytes(), replica="b")
    copy.update(Events(["y"], [2.0], cells=[0]))
    with pytest.raises(EventError, match="'a' was merged before"):
        Monitor(bundle).merge(first, copy)


def test_the_same_stream_says_the_same_in_calls_of_any_size_with_times_alike_and_out_of_order(
    watchful,
):
    rng = np.random.default_rng(3)
    n = 3000
    names = [f"e{i}" for i in rng.permutation(n)]
    times = np.floor(np.arange(n) / 5.0) + rng.choice([0.0, 0.0, -20.0], n)
    scores = rng.normal(1.8 * (rng.random(n) < np.repeat([0.0, 0.6, 0.0], n // 3)))
    kept = []
    for size in (1, 7, 500, n):
        monitor = Monitor(watchful, replica="r")
        for at in range(0, n, size):
            part = slice(at, at + size)
            if size == 1:
                monitor.update_one(names[at], float(times[at]), {"energy": float(scores[at])})
            else:
                monitor.update(Events(names[part], times[part], columns={"energy": scores[part]}))
        kept.append(monitor)
    for other in kept[1:]:
        assert other.state.recent.ids == kept[0].state.recent.ids
        assert other.state.recent.cell.tolist() == kept[0].state.recent.cell.tolist()
        assert other.state.taken == kept[0].state.taken
        assert (other.state.buckets.total() == kept[0].state.buckets.total()).all()
