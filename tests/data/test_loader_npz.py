"""npz files: arrays by name, images or features, labels or numbers; nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.data import DataError, load
from roadworthy.data.values import IMAGE, LABEL, VECTOR


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(
        tmp_path / "set.npz",
        x=np.arange(3 * 4 * 4, dtype=np.uint16).reshape(3, 4, 4),
        y=np.array([2, 0, 1]),
        angle=np.array([0.5, -0.25, 0.0], np.float32),
        features=np.ones((3, 5), np.float32),
        name=np.array(["a", "b", "c"]),
        patient=np.array(["p1", "p1", "p2"]),
        age=np.array([61, 61, 40]),
    )
    return tmp_path


def test_images_labels_ids_groups_and_columns_by_name(folder: Path) -> None:
    spec = {
        "npz": "set.npz",
        "images": "x",
        "labels": "y",
        "ids": "name",
        "groups": "patient",
        "columns": ["age"],
    }
    data = load(spec, base=folder, name="test")
    assert (data.input_kind, data.target_kind) == (IMAGE, LABEL)
    assert data.inputs.dtype == np.uint16 and data.inputs[2, 3, 3] == 47
    assert data.ids.tolist() == ["a", "b", "c"]
    assert data.groups.tolist() == ["p1", "p1", "p2"]
    assert data.where({"age": {"min": 50}}).tolist() == [True, True, False]
    assert data.sample(1).group == "p1"


def test_features_and_numbers_to_predict(folder: Path) -> None:
    data = load(
        {"npz": "set.npz", "images": "features", "labels": "angle"}, base=folder, name="test"
    )
    assert (data.input_kind, data.target_kind) == (VECTOR, VECTOR)
    assert data.targets.tolist() == [[0.5], [-0.25], [0.0]]


def test_data_without_labels(folder: Path) -> None:
    assert (
        load({"npz": "set.npz", "images": "x", "labels": None}, base=folder, name="test").targets
        is None
    )


def test_a_missing_array_is_answered_with_those_there_are(folder: Path) -> None:
    with pytest.raises(DataError, match=r"no array 'images'.*it has: x, y, angle"):
        load({"npz": "set.npz"}, base=folder, name="test")


def test_arrays_of_different_lengths_are_refused(folder: Path) -> None:
    np.savez(folder / "odd.npz", images=np.zeros((3, 4, 4), np.uint8), labels=np.zeros(2, int))
    with pytest.raises(DataError, match=r"'labels' has the shape \(2,\) but 'images' has 3 rows"):
        load({"npz": "odd.npz"}, base=folder, name="test")


def test_an_object_array_is_refused_not_unpickled(folder: Path) -> None:
    np.savez(
        folder / "objects.npz",
        images=np.array([{"a": 1}, None], dtype=object),
        labels=np.zeros(2, int),
    )
    with pytest.raises(
        DataError, match=r"objects\.npz: cannot be read as npz .* save plain arrays"
    ):
        load({"npz": "objects.npz"}, base=folder, name="test")


def test_a_truncated_file_is_refused(folder: Path) -> None:
    whole = (folder / "set.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.npz: cannot be read as npz"):
        load({"npz": "cut.npz", "images": "x"}, base=folder, name="test")


def test_a_target_that_is_not_finite_is_refused_by_row(folder: Path) -> None:
    np.savez(
        folder / "nan.npz", images=np.zeros((2, 4, 4), np.uint8), labels=np.array([0.0, np.nan])
    )
    with pytest.raises(DataError, match=r"'labels' is not finite in row 1"):
        load({"npz": "nan.npz"}, base=folder, name="test")


def test_a_label_below_zero_is_refused_by_row(folder: Path) -> None:
    np.savez(folder / "below.npz", images=np.zeros((2, 4, 4), np.uint8), labels=[0, -1])
    with pytest.raises(DataError, match=r"below\.npz: sample 1 has no label"):
        load({"npz": "below.npz"}, base=folder, name="test")


def test_an_id_twice_is_refused(folder: Path) -> None:
    np.savez(
        folder / "twice.npz", images=np.zeros((2, 4, 4), np.uint8), labels=[0, 1], ids=["a", "a"]
    )
    with pytest.raises(DataError, match="'a' occurs twice"):
        load({"npz": "twice.npz", "ids": "ids"}, base=folder, name="test")
