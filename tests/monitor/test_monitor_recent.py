"""Names are taken all or none, whether they are looked up before or counted afterwards."""

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
