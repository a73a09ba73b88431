"""The covering set against trying every set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.recommendation import LARGEST_SEARCHED, cover

tables = st.lists(st.lists(st.integers(0, 10), min_size=4, max_size=4), min_size=1, max_size=6)


def named(table) -> dict[str, dict[str, float]]:
    return {f"s{i}": {f"c{j}": x / 10 for j, x in enumerate(row)} for i, row in enumerate(table)}


def covers(rates, names, tolerance, fused=()) -> bool:
    places = next(iter(rates.values()))
    goal = {p: max(r[p] for n, r in rates.items() if n not in fused) for p in places}
    return all(max(rates[n][p] for n in names) >= goal[p] - tolerance - 1e-12 for p in places)


@settings(max_examples=80, deadline=None)
@given(tables, st.sampled_from([0.0, 0.1, 0.3]))
def test_no_smaller_set_covers_and_of_equals_none_is_cheaper(table, tolerance):
    rates = named(table)
    cost = {n: float((7 * i) % 5) for i, n in enumerate(rates)}
    found = cover(rates, tolerance=tolerance, cost=cost)
    assert covers(rates, found.supervisors, tolerance)
    size = len(found.supervisors)
    for smaller in range(1, min(size, LARGEST_SEARCHED + 1)):
        assert not any(covers(rates, names, tolerance) for names in combinations(rates, smaller))
    if size <= LARGEST_SEARCHED:
        whole = [names for names in combinations(rates, size) if covers(rates, names, tolerance)]
        assert sum(cost[n] for n in found.supervisors) == min(
            sum(cost[n] for n in names) for names in whole
        )
    for place, by in found.by.items():
        assert by in found.supervisors
        assert (
            found.rates[place]
            == rates[by][place]
            == max(rates[n][place] for n in found.supervisors)
        )


def test_beyond_three_the_set_is_grown_and_still_covers():
    rates = {f"s{i}": {f"c{j}": float(i == j) for j in range(6)} for i in range(6)}
    assert cover(rates, tolerance=0.02).supervisors == tuple(f"s{i}" for i in range(6))


def test_a_grown_set_has_no_member_that_the_others_make_needless():
    # the first covers most, yet the other four cover everything
    wide = {f"c{j}": float(j % 2 == 0) for j in range(8)}
    pairs = [{f"c{j}": float(j // 2 == i) for j in range(8)} for i in range(4)]
    found = cover(
        {"wide": wide, **{f"pair{i}": row for i, row in enumerate(pairs)}}, tolerance=0.02
    )
    assert found.supervisors == ("pair0", "pair1", "pair2", "pair3")


def test_of_equally_cheap_sets_the_better_and_then_the_first_is_taken():
    rates = {"a": {"fog": 0.80}, "b": {"fog": 0.81}, "c": {"fog": 0.81}}
    assert cover(rates, tolerance=0.02).supervisors == ("b",)
    assert cover(rates, tolerance=0.02, cost={"a": 1.0, "b": 2.0, "c": 2.0}).supervisors == ("a",)


def test_a_circumstance_without_failures_needs_no_cover_and_one_without_a_rate_covers_nothing():
    rates = {"a": {"clean": 0.5, "fog": np.nan}, "b": {"clean": np.nan, "fog": np.nan}}
    found = cover(rates)
    assert found.supervisors == ("a",) and list(found.by) == ["clean"]
    assert cover({"a": {"fog": np.nan}, "b": {}}).supervisors == ("a",)
    with pytest.raises(ValueError, match="no supervisors"):
        cover({})


def test_each_circumstance_has_its_own_tolerance():
    rates = {"a": {"clean": 0.9, "fog": 0.5}, "b": {"clean": 0.5, "fog": 0.6}}
    assert cover(rates, tolerance={"clean": 0.01, "fog": 0.2}).supervisors == ("a",)
    assert cover(rates, tolerance={"clean": 0.01, "fog": 0.05}).supervisors == ("a", "b")


@settings(max_examples=60, deadline=None)
@given(tables, st.lists(st.sets(st.integers(0, 2), min_size=1), min_size=6, max_size=6))
def test_the_size_of_a_set_is_what_it_makes_run(table, members):
    rates = named(table)
    runs = {f"s{i}": [f"s{m}" for m in sorted(members[i])] for i in range(3, len(table))}

    def size(names) -> int:
        return len({part for n in names for part in runs.get(n, (n,))})

    found = cover(rates, tolerance=0.1, runs=runs)
    assert covers(rates, found.supervisors, 0.1, runs)
    every = [
        names
        for k in (1, 2, 3)
        for names in combinations(rates, k)
        if covers(rates, names, 0.1, runs)
    ]
    assert all(size(found.supervisors) <= size(names) for names in every)


def test_fusing_everything_is_no_small_set():
    single = {f"s{i}": {f"c{j}": 0.9 if i == j else 0.1 for j in range(3)} for i in range(5)}
    rates = single | {"fused": dict.fromkeys(("c0", "c1", "c2"), 0.9)}
    assert cover(rates, runs={"fused": list(single)}).supervisors == ("s0", "s1", "s2")
    assert cover(rates, runs={"fused": ["s0", "s1", "s2"]}).supervisors == ("fused",)
    assert cover(rates).supervisors == ("fused",)


def test_a_set_of_many_is_not_fused_from_even_more():
    single = {f"s{i}": {f"c{j}": 0.9 if i == j else 0.1 for j in range(5)} for i in range(9)}
    rates = single | {"fused": {f"c{j}": 0.9 for j in range(5)}}
    assert cover(rates, runs={"fused": list(single)}).supervisors == tuple(
        f"s{i}" for i in range(5)
    )


def test_single_supervisors_need_not_match_what_all_together_catch():
    single = {"a": {"clean": 0.4, "fog": 0.3}, "b": {"clean": 0.2, "fog": 0.6}}
    rates = single | {"fused": {"clean": 0.9, "fog": 0.95}}
    assert cover(rates, runs={"fused": ["a", "b"]}).supervisors == (
        "fused",
    )  # as large as both, and one name
    more = rates | {"c": {"clean": 0.1, "fog": 0.1}}
    assert cover(more, runs={"fused": ["a", "b", "c"]}).supervisors == ("a", "b")
    nobody = {"a": {"fog": np.nan}, "fused": {"fog": 0.4}}
    assert cover(nobody, runs={"fused": ["a", "b"]}).supervisors == ("fused",)
