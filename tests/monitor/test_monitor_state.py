"""What a monitor holds depends on the events alone: not on their order, their calls, or the replica that saw them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.monitor.buckets import Buckets
from roadworthy.monitor.events import EventError, marks
from roadworthy.monitor.keeping import StateError, packed, unpack
from roadworthy.monitor.labels import Label
from roadworthy.monitor.state import State

CELLS = 5
events_of = st.lists(
    st.tuples(
        st.integers(0, 60),  # id
        st.floats(-500, 5000, allow_nan=False).map(lambda t: round(t, 1)),
        st.integers(-1, CELLS - 1),
    ),
    max_size=60,
)


def state(*, capacity: int = 1000, lateness: float = 1e9) -> State:
    return State(cells=CELLS, capacity=capacity, lateness=lateness, bucket=10.0, keep=8)


def give(to: State, events) -> None:
    names = [f"e{i}" for i, _, _ in events]
    to.add(
        np.array([t for _, t, _ in events], dtype=float),
        marks(names) if names else np.zeros(0, dtype=np.uint64),
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
        recent.mark.tolist(),
        recent.cell.tolist(),
        recent.names,
        of.newest,
        of.taken,
        of.labels.given,
        of.labels.asked,
        of.labels.counts.tolist(),
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
        single.add_one(time, int(marks([f"e{name}"])[0]), cell, f"e{name}")
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


@given(events_of, st.data())
@settings(max_examples=150, deadline=None)
def test_replicas_put_together_hold_what_one_holds_that_saw_all(events, data):
    events = consistent(events)
    shares = data.draw(
        st.lists(st.sampled_from(["a", "b", "both"]), min_size=len(events), max_size=len(events))
    )
    a, b, one = state(), state(), state()
    parts = {
        "a": [e for e, s in zip(events, shares, strict=True) if s != "b"],
        "b": [e for e, s in zip(events, shares, strict=True) if s != "a"],
    }
    give(a, parts["a"])
    give(b, parts["b"])
    give(one, [*parts["a"], *parts["b"]])
    a.take_over(b)
    assert held(a) == held(one)


@given(st.integers(1, 300), st.integers(2, 4), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_the_last_events_of_replicas_are_the_last_events_of_all(n, replicas, seed):
    rng = np.random.default_rng(seed)
    events = [
        (i, float(i) + rng.random(), int(c)) for i, c in enumerate(rng.integers(-1, CELLS, n))
    ]
    parts = [state(capacity=40) for _ in range(replicas)]
    one = state(capacity=40)
    for event, replica in zip(events, rng.integers(replicas, size=n), strict=True):
        give(parts[replica], [event])
        give(one, [event])
    for part in parts[1:]:
        parts[0].take_over(part)
    assert held(parts[0]) == held(one)


@given(
    events_of,
    st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.floats(0.01, 1.0)), max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_bytes_hold_everything(events, labels):
    first = state(capacity=30, lateness=300.0)
    give(first, events)
    for name, correct, probability in labels:
        first.labels.add(name, Label(1.5, name % CELLS, correct, probability))
        first.labels.ask(name + 1, probability)
    data = packed(first, bundle="b1", watch={"active": True}, alarms=[])
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
    data = packed(one, bundle="b1", watch={}, alarms=[])
    with pytest.raises(StateError, match="belongs to bundle b1, not to b2"):
        unpack(data, state(), bundle="b2")
    for wrong in (b"", data[: len(data) // 2], data[:-1], data[:100] + b"x" + data[101:]):
        with pytest.raises(StateError, match=r"not a state|cut off or was changed"):
            unpack(wrong, state(), bundle="b1")


def test_states_of_other_horizons_are_not_put_together():
    with pytest.raises(EventError, match="different bundles"):
        state().take_over(state(capacity=7))


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
        sizes.append(len(buckets))
    assert max(sizes) <= 16 + 8 * 16, "16 young ones, and 8 for every doubling"
    assert buckets.total().tolist() == [200_000, 0, 0]
    spans = [span for span, _ in buckets.spans()]
    assert all(a[1] <= b[0] for a, b in pairwise(spans)), "no two overlap"
