"""Names are taken all or none, however they are looked up; and an event is found by its name wherever it has gone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.monitor.recent import Recent

calls = st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=12)


def put(recent: Recent, names: list[int], at: float) -> None:
    n = len(names)
    recent.put(at + np.arange(n) / 10, None, np.zeros(n, dtype=np.int16), names, claimed=True)


@given(calls, st.integers(3, 20))
@settings(max_examples=200, deadline=None)
def test_names_are_claimed_where_all_are_new_and_else_none_is(given_names, capacity):
    recent = Recent(capacity)
    for at, names in enumerate(given_names):
        held = set(recent.names.values())
        new = len(set(names)) == len(names) and held.isdisjoint(names)
        assert recent.claim(names) == new
        assert recent.known == (held | set(names) if new else held)
        if new:
            put(recent, names, float(at))
            assert recent.known == set(recent.names.values())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.booleans()), max_size=40),
    st.integers(2, 12),
    st.integers(0, 20),
)
@settings(max_examples=200, deadline=None)
def test_an_event_is_found_by_its_name_whatever_came_and_left_since(calls, capacity, searched):
    """Times go back and are the same for many; names come again once they have left; the first search comes at any call."""
    recent, number = Recent(capacity), 0
    for at, (time, n, single) in enumerate(calls):
        names = [f"e{(number + i) % 40}" for i in range(n)]
        number += n
        if not recent.known.isdisjoint(names):
            continue
        cells = np.arange(number - n, number, dtype=np.int16)
        if single:
            for name, cell in zip(names, cells.tolist(), strict=True):
                recent.put_one(float(time), None, cell, name)
        else:
            recent.put(np.full(n, float(time)), None, cells, names)
        if at >= searched:
            order = recent.first_names(len(recent))
            asked = ["nobody", *order[::-1], "e40"]
            assert recent.find_all(asked).tolist() == [-1, *range(len(order))[::-1], -1]
            held = [(float(recent.time[i]), int(recent.cell[i])) for i in range(len(order))]
            assert recent.held(asked) == [None, *held[::-1], None]


def test_a_search_works_out_no_marks_and_what_is_kept_for_it_goes_where_nobody_searches():
    recent = Recent(100)
    for at in range(0, 100, 10):
        recent.put(
            at + np.arange(10.0),
            None,
            np.zeros(10, dtype=np.int16),
            [f"e{i}" for i in range(at, at + 10)],
        )
    assert recent._times is None, "nobody has searched yet"
    assert recent.find("e37") == 37 and recent.find("e100") is None and not recent._mark[:100].any()
    for i in range(100, 150):
        recent.put_one(float(i), None, 0, f"e{i}")
        assert recent.find(f"e{i}") == 99 and len(recent._times) == i + 1
    recent.put_one(150.0, None, 0, "e150")
    assert recent._times is None and recent.find("e60") == 9 and len(recent._times) == 100
