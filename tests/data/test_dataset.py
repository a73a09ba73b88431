"""Data sets: rows taken in order, conditions as plain filters, fingerprints that follow the content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.data import DataError, Dataset
from roadworthy.data.values import GOAL, IMAGE, LABEL, VECTOR

N = 7


def images(**change: Any) -> Dataset:
    rng = np.random.default_rng(3)
    whole = Dataset(
        "set",
        IMAGE,
        rng.integers(0, 256, (N, 3, 3), dtype=np.uint8),
        LABEL,
        np.arange(N) % 3,
        metadata={
            "site": np.array(list("AABBCCA"), dtype=object),
            "age": np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0, 61.0]),
            "night": np.array(["true", "false"] * 3 + ["true"], dtype=object),
        },
        groups=np.array(list("ppqqrrs"), dtype=object),
        classes=("x", "y", "z"),
    )
    return replace(whole, **change)


class Reader:
    """Inputs of somebody else's: slices and numbers, nothing more."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        return self.values[rows]


rows = st.lists(st.integers(0, N - 1), unique=True, min_size=1)


@given(rows)
def test_taking_rows_takes_everything_that_belongs_to_them(chosen: list[int]) -> None:
    data, taken = images(), images().take(chosen)
    for at, row in enumerate(chosen):
        one, other = taken.sample(at), data.sample(row)
        np.testing.assert_array_equal(one.input, other.input)
        assert (one.id, one.target, one.group, one.metadata["site"]) == (
            other.id,
            other.target,
            other.group,
            other.metadata["site"],
        )


@given(rows, st.data())
def test_taking_twice_is_taking_once(chosen: list[int], draw: st.DataObject) -> None:
    again = draw.draw(st.lists(st.integers(0, len(chosen) - 1), unique=True, min_size=1))
    for data in (
        images(),
        images(inputs=Reader(list(images().inputs))),
        images(inputs=list(images().inputs)),
    ):
        twice, once = data.take(chosen).take(again), data.take([chosen[i] for i in again])
        assert twice.ids.tolist() == once.ids.tolist()
        np.testing.assert_array_equal(np.stack(twice.inputs[:]), np.stack(once.inputs[:]))


def test_a_mask_and_its_row_numbers_take_the_same() -> None:
    mask = images().where({"site": "B"})
    assert (
        images().take(mask).ids.tolist()
        == images().take(np.flatnonzero(mask)).ids.tolist()
        == ["2", "3"]
    )
    assert len(images().take([])) == 0


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"site": "A"}, [0, 1, 6]),
        ({"site": ["A", "C"]}, [0, 1, 4, 5, 6]),
        ({"age": {"min": 2, "max": 5}}, [1, 3, 4]),
        ({"age": 61}, [6]),
        ({"age": [1, "2", "old"]}, [0, 1]),
        ({"night": True}, [0, 2, 4, 6]),
        ({"label": "y"}, [1, 4]),
        ({"site": "A", "label": ["x", "y"]}, [0, 1, 6]),
        ({}, list(range(N))),
    ],
)
def test_conditions_filter_rows(conditions: dict[str, Any], expected: list[int]) -> None:
    assert np.flatnonzero(images().where(conditions)).tolist() == expected


def test_wrong_conditions_say_what_there_is() -> None:
    with pytest.raises(
        DataError,
        match=r"no metadata 'sit' \(did you mean 'site'\?\); it has: site, age, night, label",
    ):
        images().where({"sit": "A"})
    with pytest.raises(DataError, match="a range takes min and max"):
        images().where({"age": {"above": 3}})
    with pytest.raises(DataError, match="min and max need numbers"):
        images().where({"site": {"min": 3}})


def test_the_fingerprint_is_of_the_content_not_of_the_name() -> None:
    assert images().fingerprint == images(name="another").fingerprint
    assert images().fingerprint == images().take(range(N)).fingerprint


@pytest.mark.parametrize(
    "part", ["inputs", "targets", "ids", "metadata", "groups", "classes", "order"]
)
def test_the_fingerprint_changes_with_every_part(part: str) -> None:
    data = images()
    pixels = np.array(data.inputs)
    pixels[6, 2, 2] ^= 1
    changes: dict[str, Any] = {
        "inputs": pixels,
        "targets": np.array([0, 1, 2, 0, 1, 2, 1]),
        "ids": np.array(list("abcdefg"), dtype=object),
        "metadata": {"site": np.array(list("AABBCCB"), dtype=object)},
        "groups": np.array(list("ppqqrrr"), dtype=object),
        "classes": ("x", "y", "w"),
    }
    other = data.take([1, 0, *range(2, N)]) if part == "order" else images(**{part: changes[part]})
    assert other.fingerprint != data.fingerprint


def test_rows_taken_from_somebody_elses_reader_are_told_apart_by_content() -> None:
    one, other = (
        images(inputs=Reader([np.full((2, 2), v + k, np.uint8) for v in range(N)])) for k in (0, 1)
    )
    assert one.take([0, 1]).fingerprint != other.take([0, 1]).fingerprint
    assert one.take([0, 1]).fingerprint == one.take([0, 1]).fingerprint


def test_goals_have_fingerprints_too() -> None:
    one = Dataset("d", GOAL, [{"a": 1, "b": 2}], GOAL, [{"a": 1, "b": 2}])
    same = Dataset("d", GOAL, [{"b": 2, "a": 1}], GOAL, [{"b": 2, "a": 1}])
    other = Dataset("d", GOAL, [{"a": 1, "b": 3}], GOAL, [{"a": 1, "b": 3}])
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_columns_of_another_length_and_repeated_ids_are_refused() -> None:
    with pytest.raises(DataError, match="7 inputs but 2 targets"):
        images(targets=np.array([0, 1]))
    with pytest.raises(DataError, match="the id 'a' occurs twice"):
        images(ids=np.array(list("abcdefa"), dtype=object))


def test_numbers_to_predict_have_no_classes_to_be_outside_of() -> None:
    assert len(images(target_kind=VECTOR, targets=np.full((N, 1), 9.5))) == N
