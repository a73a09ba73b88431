"""How often a case is of each circumstance: what the file states, what the test data tell, and when nobody knows."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.assessment.sections.risk import weighed

ALL = ("fog", "snow", "site_a", "site_b")
SHARES = st.floats(0.0, 1.0)


@given(
    stated=st.fixed_dictionaries({name: st.none() | st.floats(0.0, 0.25) for name in ALL}),
    usual=st.fixed_dictionaries({name: st.floats(0.01, 0.99) for name in ("site_a", "site_b")}),
    rate=st.none() | SHARES,
)
def test_stated_probabilities_stand_and_all_add_up_to_the_rate_of_shift(stated, usual, rate):
    some = any(p is not None for p in stated.values())
    if not some and rate is None:
        with pytest.raises(ValueError, match="no circumstance has a probability; give them one"):
            weighed(stated, usual, rate, ALL)
        return
    found = weighed(stated, usual, rate, ALL)
    total = math.fsum(found.values())
    assert total <= 1 + 1e-9 and all(p >= 0 for p in found.values())
    if not some:
        assert found == pytest.approx(dict.fromkeys(ALL, rate / 4))
        return
    assert set(found) == {name for name, p in stated.items() if p is not None} | {
        "site_a",
        "site_b",
    }
    if rate is not None:
        assert total == pytest.approx(rate)
        assert found == pytest.approx(scaled(weighed(stated, usual, None, ALL), rate), abs=1e-9)
    else:
        assert all(found[name] == p for name, p in stated.items() if p is not None)
        assert all(found[name] <= usual[name] for name in usual if stated[name] is None)


def scaled(weights: dict[str, float], rate: float) -> dict[str, float]:
    total = math.fsum(weights.values())
    return {name: p / total * rate if total else rate / len(weights) for name, p in weights.items()}


def test_filters_take_no_more_than_what_is_stated_leaves():
    found = weighed(
        {"fog": 0.9, "site_a": None, "site_b": None}, {"site_a": 0.1, "site_b": 0.3}, None, ALL
    )
    assert found == pytest.approx({"fog": 0.9, "site_a": 0.025, "site_b": 0.075})


def test_filters_alone_tell_their_shares():
    usual = {"site_a": 0.2, "site_b": 0.3}
    assert weighed(dict.fromkeys(usual), usual, None, ALL) == usual
    assert weighed(dict.fromkeys(usual), usual, 0.1, ALL) == pytest.approx(
        {"site_a": 0.04, "site_b": 0.06}
    )


@pytest.mark.parametrize(
    ("stated", "usual", "rate"),
    [
        ({"fog": 0.1, "snow": 0.2}, {}, None),
        ({"fog": 0.1, "snow": None}, {"snow": 0.2}, None),
        ({"fog": None, "snow": None}, {}, 0.3),
    ],
    ids=["stated", "filtered", "even"],
)
def test_what_occurs_and_has_no_cases_is_refused_however_its_share_is_known(stated, usual, rate):
    with pytest.raises(
        ValueError, match="there are no cases of snow to count, and the file says that they occur"
    ):
        weighed(stated, usual, rate, {"fog"})


def test_what_never_occurs_needs_no_cases():
    assert weighed({"fog": 0.1, "snow": 0.0}, {}, None, {"fog"}) == {"fog": 0.1}
    assert weighed({"fog": 0.1, "snow": None}, {}, None, {"fog"}) == {"fog": 0.1}
    assert weighed({"fog": 0.1, "snow": 0.2}, {}, 0.0, {"fog"}) == {"fog": 0.0}
