"""A group never spans two roles, and neither does a sample of one source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.samples import check_roles
from roadworthy.data.values import IMAGE


def data(ids: str, groups: str | None = None, source: str = "folder") -> Dataset:
    return Dataset(
        "d",
        IMAGE,
        np.zeros((len(ids), 2, 2), np.uint8),
        ids=np.array(list(ids), dtype=object),
        groups=None if groups is None else np.array(list(groups), dtype=object),
        source=source,
    )


def test_a_group_in_two_roles_is_refused_even_from_different_files() -> None:
    roles = {"calibration": data("ab", "pq", "one"), "test": data("cd", "qr", "two")}
    with pytest.raises(DataError, match="group 'q' is in two roles, calibration and test"):
        check_roles(roles)


def test_a_sample_in_two_roles_is_refused_where_the_source_is_one() -> None:
    with pytest.raises(DataError, match="sample 'b' is in two roles, reference and test"):
        check_roles({"reference": data("ab"), "calibration": data("cd"), "test": data("be")})


def test_equal_row_numbers_of_two_files_are_two_samples() -> None:
    check_roles({"calibration": data("ab", source="one"), "test": data("ab", source="two")})


def test_an_id_that_spells_like_a_group_is_no_group() -> None:
    check_roles({"calibration": data("pq", source="one"), "test": data("ab", "pq", "two")})


def test_samples_are_compared_where_only_one_role_has_groups() -> None:
    with pytest.raises(DataError, match="sample 'b' is in two roles"):
        check_roles({"calibration": data("ab"), "test": data("bc", "pq")})


def test_the_bundled_roles_are_disjoint() -> None:
    splits = ("reference", "calibration", "test")
    check_roles({s: load({"bundled": "fashion-mnist", "split": s}, base=Path(), name=s) for s in splits})
