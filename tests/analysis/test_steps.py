"""A table says where a number stands as a binary search does, whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.placement import Steps

numbers = st.floats(allow_nan=False, allow_infinity=False)
some = st.lists(numbers, min_size=1, max_size=30)


def searched(values: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return np.searchsorted(values, asked, "left") + np.searchsorted(values, asked, "right")


@given(some, st.lists(numbers, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_table_finds_what_a_binary_search_finds(values, asked):
    values = np.unique(values)
    with np.errstate(over="ignore"):
        near = np.concatenate(
            [values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf), asked]
        )
    near = near[np.isfinite(near)]
    assert Steps([values]).of(near[None, :])[0].tolist() == searched(values, near).tolist()


@given(st.lists(some, min_size=2, max_size=4), some)
@settings(max_examples=100, deadline=None)
def test_every_row_has_steps_of_its_own(rows, asked):
    values, many = [np.unique(row) for row in rows], np.unique(np.concatenate([*rows, asked]))
    found, start = Steps(values).of(np.tile(many, (len(rows), 1))), 0
    for row, steps in zip(values, found, strict=True):
        assert (steps - start).tolist() == searched(row, many).tolist()
        start += 2 * (len(row) + 1)


@pytest.mark.parametrize(
    "shape",
    [lambda x: x, np.round, lambda x: np.exp(5 * x), lambda x: x + 1e9, lambda x: x * 1e-300],
)
def test_scores_of_any_shape_are_found(shape):
    rng = np.random.default_rng(0)
    values, asked = np.unique(shape(rng.normal(size=1001))), shape(rng.normal(size=5000))
    rows = Steps([values, np.arange(3.0), values]).of(np.stack([asked, np.zeros(5000), asked]))
    assert rows[0].tolist() == searched(values, asked).tolist()
    assert (rows[2] - rows[0]).tolist() == [2 * (len(values) + 1) + 2 * 4] * 5000


def test_no_numbers_stand_nowhere():
    assert Steps([np.arange(3.0)]).of(np.zeros((1, 0))).shape == (1, 0)


@pytest.mark.parametrize("apart", [0.3, 0.6, 1.0, 2.7])
def test_values_as_near_as_numbers_can_be_are_found(apart):
    values = np.unique(1e9 + apart * np.spacing(1e9) * 8 * np.arange(9))
    near = np.concatenate(
        [values, np.nextafter(values, 0), np.nextafter(values, 2e9), [-1e300, 0.0, 1e300]]
    )
    rows = Steps([values, values]).of(np.stack([near, near]))
    assert rows[0].tolist() == searched(values, near).tolist()
    assert (rows[1] - rows[0]).tolist() == [2 * (len(values) + 1)] * len(near)
