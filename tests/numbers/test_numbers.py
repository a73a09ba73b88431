"""How numbers are written: one format for one number, never rounded to none, to all, or across a limit."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy import numbers
from roadworthy.statistics import Interval


def read(text: str) -> float:
    return float(text.strip("%<>").replace(numbers.MINUS, "-"))


@given(st.floats(0.001, 0.999), st.floats(-1e-3, 1e-3))
def test_a_bound_never_reads_on_the_other_side_of_its_limit(limit: float, off: float) -> None:
    limit = round(limit, 3)
    bound = limit + off
    found = [
        read(text)
        for text in (numbers.bound(bound, limit, "percent"), numbers.limit(limit, "percent"))
    ]
    assert (found[0] - found[1]) * off >= 0
    assert abs(off) < 1e-7 or found[0] != found[1]


@given(st.floats(0, 1))
def test_a_share_has_one_decimal_and_never_reads_as_all_or_none(x: float) -> None:
    shown = numbers.value(x, "percent")
    if 0 < x < 1:
        assert shown not in ("100.0%", "0.0%")
    if 0.0005 <= x < 0.9995:
        exact = (Decimal(repr(x)) * 100).quantize(Decimal("0.1"), ROUND_HALF_UP)
        assert shown == f"{exact}%"
    assert abs(read(shown) / 100 - x) <= 0.00051


@given(st.floats(-1e6, 1e6), st.sampled_from(["percent", "points", "decimal", "plain", "change"]))
def test_an_end_of_an_interval_reads_as_the_same_number_alone(x: float, style: str) -> None:
    alone = numbers.value(x, style)  # type: ignore[arg-type]
    ends = numbers.interval(Interval(x, x, 0.95, "none"), style)  # type: ignore[arg-type]
    assert ends.endswith(f" to {alone}")
    assert numbers.estimate(x, None, 12_345, style).value == alone  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "style", "shown"),
    [
        (0.9285, "percent", "92.9%"),
        (0.0715, "percent", "7.2%"),
        (0.9995, "percent", "99.95%"),
        (0.0031, "percent", "0.3%"),
        (5.04, "percent", "504.0%"),
        (-0.0312, "points", "−3.1 pp"),
        (0.0004, "points", "+0.0 pp"),
        (0.0421, "decimal", "0.042"),
        (1.0, "decimal", "1.000"),
        (0.605, "change", "+0.605"),
        (9.87, "plain", "9.87"),
        (-12.34, "plain", "−12.3"),
        (0.0048, "plain", "0.0048"),
        (-math.inf, "plain", "−∞"),
        (math.nan, "plain", numbers.NONE),
        (None, "percent", numbers.NONE),
    ],
)
def test_numbers_are_written_as_a_reader_expects(x, style, shown) -> None:
    assert numbers.value(x, style) == shown


def test_a_bound_differs_from_its_limit_if_it_is_another_number() -> None:
    assert numbers.bound(0.8999, 0.9, "percent") == "89.99%"
    assert numbers.bound(0.9, 0.9, "percent") == "90.0%"
    assert numbers.bound(0.7164, 0.75, "percent") == numbers.value(0.7164, "percent")
