"""idx files: the array that was written comes back, and a file that is not whole is refused by name."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.data import DataError, load
from roadworthy.data.loaders.idx import decode_idx

CODES = {
    "uint8": 0x08,
    "int8": 0x09,
    "int16": 0x0B,
    "int32": 0x0C,
    "float32": 0x0D,
    "float64": 0x0E,
}


def encoded(array: np.ndarray) -> bytes:
    """An idx file as the format's description has it, written apart from the reader."""
    head = bytes([0, 0, CODES[array.dtype.name], array.ndim]) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2)
    (tmp_path / "images").write_bytes(encoded(images))
    (tmp_path / "images.gz").write_bytes(gzip.compress(encoded(images)))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(encoded(np.array([0, 1, 1, 2], np.uint8))))
    return tmp_path


@given(
    st.sampled_from(sorted(CODES)).flatmap(
        lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    )
)
def test_every_type_and_shape_comes_back(array: np.ndarray) -> None:
    found = decode_idx(encoded(array), "a file")
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("images", ["images", "images.gz"])
def test_images_and_labels_plain_or_gzipped(folder: Path, images: str) -> None:
    data = load(
        {"idx": images, "labels": "labels.gz", "classes": ["a", "b", "c"]}, base=folder, name="test"
    )
    assert data.inputs.shape == (4, 3, 2) and data.inputs.dtype == np.uint8
    assert data.targets.tolist() == [0, 1, 1, 2]
    assert data.ids.tolist() == ["0", "1", "2", "3"]
    assert data.where({"label": "b"}).tolist() == [False, True, True, False]


def test_limit_takes_the_first_rows(folder: Path) -> None:
    data = load({"idx": "images", "labels": "labels.gz", "limit": 2}, base=folder, name="test")
    assert data.inputs[:, 0, 0].tolist() == [0, 6] and data.targets.tolist() == [0, 1]


def refusal(folder: Path, **spec: object) -> str:
    with pytest.raises(DataError) as caught:
        load({"idx": "images", "labels": "labels.gz"} | spec, base=folder, name="test")
    return str(caught.value)


def test_a_missing_file_is_named_with_where_it_was_looked_for(folder: Path) -> None:
    said = refusal(folder, idx="imges.gz")
    assert str(folder / "imges.gz") in said and "does not exist" in said and "relative to" in said


def test_truncated_gzip_is_refused(folder: Path) -> None:
    whole = (folder / "images.gz").read_bytes()
    (folder / "cut.gz").write_bytes(whole[: len(whole) // 2])
    said = refusal(folder, idx="cut.gz")
    assert "cut.gz" in said and "copy the file again" in said


@pytest.mark.parametrize("keep", [2, 6, 15, 30, -1])
def test_truncated_idx_is_refused_wherever_it_is_cut(folder: Path, keep: int) -> None:
    (folder / "cut").write_bytes((folder / "images").read_bytes()[:keep])
    assert "cut" in refusal(folder, idx="cut")


def test_more_bytes_than_the_header_promises_are_refused(folder: Path) -> None:
    (folder / "long").write_bytes((folder / "images").read_bytes() + b"\0")
    assert "promises 24 values of 1 byte (shape 4 x 3 x 2), but 25 bytes follow" in refusal(
        folder, idx="long"
    )


def test_counts_of_images_and_labels_must_agree(folder: Path) -> None:
    (folder / "three").write_bytes(encoded(np.zeros(3, np.uint8)))
    said = refusal(folder, labels="three")
    assert "3 labels for the 4 images" in said


def test_exchanged_files_are_noticed(folder: Path) -> None:
    assert "shape (4,)" in refusal(folder, idx="labels.gz", labels="images")


def test_a_label_outside_the_classes_is_refused_by_row(folder: Path) -> None:
    said = refusal(folder, classes=["a", "b"])
    assert "sample '3' has the label 2" in said and "0 to 1" in said


def test_an_empty_set_is_refused(folder: Path) -> None:
    (folder / "none").write_bytes(encoded(np.zeros((0, 3, 2), np.uint8)))
    (folder / "nolabels").write_bytes(encoded(np.zeros(0, np.uint8)))
    assert "holds no samples" in refusal(folder, idx="none", labels="nolabels")
