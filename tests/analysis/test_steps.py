"""A table says where a number stands as a binary search does, whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.analysis.risk.steps import FEW, Steps

numbers = st.floats(allow_nan=False, allow_infinity=False)


def searched(values: np.ndarray, asked: np.ndarray) -> list[int]:
    return (np.searchsorted(values, asked, "left") + np.searchsorted(values, asked, "right")).tolist()


@given(st.lists(numbers, min_size=1, max_size=30), st.lists(numbers, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_table_finds_what_a_binary_search_finds(values, asked):
    values = np.unique(values)
    with np.errstate(over="ignore"):
        near = np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf), asked])
    near = near[np.isfinite(near)]
    many = np.tile(near, 1 + FEW // len(near))
    assert Steps(values).of(many).tolist() == searched(values, many)
    assert Steps(values).of(near).tolist() == searched(values, near)


@pytest.mark.parametrize(
    "shape", [lambda x: x, np.round, lambda x: np.exp(5 * x), lambda x: x + 1e9, lambda x: x * 1e-300]
)
def test_scores_of_any_shape_are_found(shape):
    rng = np.random.default_rng(0)
    values, asked = np.unique(shape(rng.normal(size=1001))), shape(rng.normal(size=5000))
    assert Steps(values).of(asked).tolist() == searched(values, asked)
