"""The metadata file is joined by id, whatever its order; what is missing or too much is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.loaders.files import typed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(
        tmp_path / "set.npz",
        images=np.zeros((3, 4, 4), np.uint8),
        labels=[0, 1, 1],
        ids=["a", "b", "c"],
    )
    return tmp_path


def joined(folder: Path, text: str, **spec: object) -> Dataset:
    (folder / "extra.csv").write_text(text, encoding="utf-8")
    return load(
        {"npz": "set.npz", "ids": "ids", "metadata": "extra.csv"} | spec, base=folder, name="test"
    )


def test_rows_find_their_samples_in_any_order(folder: Path) -> None:
    data = joined(folder, "id,patient,size\nc,p2,3.5\na,01,1\nb,p2,\n", group="patient")
    assert data.groups.tolist() == ["01", "p2", "p2"]
    assert (
        data.metadata["size"][0] == 1
        and np.isnan(data.metadata["size"][1])
        and data.metadata["size"][2] == 3.5
    )
    assert "id" not in data.metadata


def test_a_byte_order_mark_is_no_part_of_the_first_name(folder: Path) -> None:
    assert joined(folder, "\ufeffid,site\na,x\nb,y\nc,z\n").metadata["site"].tolist() == [
        "x",
        "y",
        "z",
    ]


def test_the_join_comes_before_the_limit(folder: Path) -> None:
    assert joined(folder, "id,site\na,x\nb,y\nc,z\n", limit=2).metadata["site"].tolist() == [
        "x",
        "y",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,site\na,x\nb,y\n", "1 sample(s) have no row: 'c'"),
        ("id,site\na,x\nb,y\nc,z\nd,z\ne,z\n", "2 row(s) belong to no sample: 'd', 'e'"),
        (
            "id,site\na,x\nd,y\nc,z\n",
            "1 sample(s) have no row: 'b'; 1 row(s) belong to no sample: 'd'",
        ),
        ("id,site\na,x\na,y\nb,z\nc,z\n", "line 3: the id 'a' occurs twice"),
        ("name,site\na,x\n", "extra.csv has no column 'id'; it has: name, site"),
    ],
)
def test_rows_missing_or_extra_are_named(folder: Path, text: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        joined(folder, text)
    assert said in str(caught.value)


def test_a_column_in_both_places_is_refused(folder: Path) -> None:
    (folder / "cases.csv").write_text("f,label,site\n1,0,A\n2,1,B\n")
    (folder / "extra.csv").write_text("id,site\n0,A\n1,B\n")
    spec = {"csv": "cases.csv", "features": ["f"], "metadata": "extra.csv"}
    with pytest.raises(DataError, match="the column 'site' is in the data already"):
        load(spec, base=folder, name="test")


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1))
def test_whole_numbers_stay_whole(numbers: list[int]) -> None:
    column = typed([str(n) for n in numbers])
    assert column.dtype == np.int64 and column.tolist() == numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=1))
def test_real_numbers_come_back_and_empty_cells_are_nan(numbers: list[float | None]) -> None:
    column = typed(["" if n is None else repr(n) for n in numbers])
    if any(n is not None for n in numbers):
        expected = np.array([np.nan if n is None else n for n in numbers])
        np.testing.assert_array_equal(column.astype(float), expected)


@pytest.mark.parametrize(
    "cells", [["007", "12"], ["1", "x"], ["", ""], ["1-2"], ["-"], ["e5"], ["."], ["1_000"], ["+"]]
)
def test_what_only_looks_like_numbers_stays_text(cells: list[str]) -> None:
    assert typed(cells).dtype == object and typed(cells).tolist() == cells
