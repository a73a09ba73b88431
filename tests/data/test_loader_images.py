"""Image folders and tables of images: pixels as stored, broken files as failed cases, bad tables refused by line."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from roadworthy.data import DataError, load
from roadworthy.data.loaders.files import read_image
from roadworthy.data.values import LABEL, VECTOR, Unreadable


def picture(seed: int, shape: tuple[int, ...] = (8, 6, 3), dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype=dtype)


def write(file: Path, rgb: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    bgr = rgb if rgb.ndim == 2 else rgb[:, :, [2, 1, 0, 3][: rgb.shape[2]]]
    assert cv2.imwrite(str(file), bgr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for at, name in enumerate(["cat/1.png", "cat/2.png", "dog/1.png"]):
        write(tmp_path / "pets" / name, picture(at))
    return tmp_path


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 3), (8, 6, 4)])
@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_pixels_come_back_as_written_in_8_and_16_bits(
    tmp_path: Path, dtype: type, shape: tuple[int, ...], suffix: str
) -> None:
    rgb = picture(5, shape, dtype)
    write(tmp_path / f"a{suffix}", rgb)
    found = read_image(tmp_path / f"a{suffix}")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, rgb)


def test_jpeg_colours_are_red_green_blue(tmp_path: Path) -> None:
    red = np.zeros((16, 16, 3), np.uint8)
    red[:, :, 0] = 255
    write(tmp_path / "red.jpg", red)
    assert np.abs(read_image(tmp_path / "red.jpg").astype(int) - red).max() <= 3


def test_a_class_a_subfolder(folder: Path) -> None:
    data = load({"image_folder": "pets"}, base=folder, name="test")
    assert data.classes == ("cat", "dog") and data.targets.tolist() == [0, 0, 1]
    assert data.ids.tolist() == ["cat/1.png", "cat/2.png", "dog/1.png"]
    np.testing.assert_array_equal(data.sample(2).input, picture(2))
    assert load(
        {"image_folder": "pets", "classes": ["dog", "cat"]}, base=folder, name="t"
    ).targets.tolist() == [1, 1, 0]


def test_a_flat_folder_has_no_labels(folder: Path) -> None:
    assert load({"image_folder": "pets/cat"}, base=folder, name="operational").targets is None


def test_a_folder_of_no_known_class_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"dog/1\.png: the label 'dog' is none of the 2 classes"):
        load({"image_folder": "pets", "classes": ["cat", "bird"]}, base=folder, name="test")


def test_images_beside_the_class_folders_are_refused(folder: Path) -> None:
    write(folder / "pets/stray.png", picture(9))
    with pytest.raises(
        DataError, match=r"1 image\(s\) lie beside the class folders \('stray\.png'\)"
    ):
        load({"image_folder": "pets"}, base=folder, name="test")


def test_an_empty_folder_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: holds no images"):
        load({"image_folder": "empty"}, base=folder, name="test")


@pytest.mark.parametrize("keep", [0, 3, 60, -20])
def test_a_truncated_image_costs_its_own_case_only(folder: Path, keep: int) -> None:
    file = folder / "pets/cat/2.png"
    file.write_bytes(file.read_bytes()[:keep])
    read = load({"image_folder": "pets"}, base=folder, name="test").inputs[0:3]
    assert (
        isinstance(read[1], Unreadable)
        and "2.png" in read[1].reason
        and "copy it again" in read[1].reason
    )
    np.testing.assert_array_equal(read[2], picture(2))


def test_the_fingerprint_follows_the_content_and_not_the_place(folder: Path) -> None:
    before = load({"image_folder": "pets"}, base=folder, name="test")
    (folder / "pets").rename(folder / "moved")
    moved = load({"image_folder": "moved"}, base=folder, name="test")
    assert (
        moved.fingerprint == load({"image_folder": "moved"}, base=folder, name="again").fingerprint
    )
    write(folder / "moved/dog/1.png", picture(77))
    assert (
        load({"image_folder": "moved"}, base=folder, name="test").fingerprint != moved.fingerprint
    )
    with pytest.raises(AttributeError):
        before.inputs.paths = ()  # type: ignore[misc]


def test_taking_rows_keeps_them_unread_and_a_reader_travels_between_processes(folder: Path) -> None:
    data = load({"image_folder": "pets"}, base=folder, name="test")
    taken = data.take([2, 0])
    assert taken.ids.tolist() == ["dog/1.png", "cat/1.png"]
    np.testing.assert_array_equal(taken.inputs[0], picture(2))
    assert taken.fingerprint == data.take([2, 0]).fingerprint != data.fingerprint
    assert data.take(range(3)).fingerprint == data.fingerprint
    # a function of a module, unlike a closure, can be sent to another process
    assert (
        getattr(importlib.import_module(taken.inputs.read.__module__), taken.inputs.read.__name__)
        is taken.inputs.read
    )


def table(folder: Path, text: str, name: str = "cases.csv") -> None:
    (folder / name).write_text(text)


def test_a_table_of_images_labels_and_metadata(folder: Path) -> None:
    table(folder, "image,label,site,age\ncat/1.png,cat,A,3\ndog/1.png,dog,B,\n")
    data = load({"csv": "cases.csv", "images": "pets", "group": "site"}, base=folder, name="test")
    assert (
        data.targets.tolist() == [0, 1]
        and data.classes == ("cat", "dog")
        and data.target_kind is LABEL
    )
    assert data.groups.tolist() == ["A", "B"]
    assert data.where({"age": 3}).tolist() == [True, False] and np.isnan(data.metadata["age"][1])
    np.testing.assert_array_equal(data.sample(1).input, picture(2))


def test_numbers_to_predict(folder: Path) -> None:
    table(folder, "image\tsteering\tspeed\ncat/1.png\t-0.5\t10\ndog/1.png\t0.25\t12\n", "drive.tsv")
    data = load(
        {"csv": "drive.tsv", "images": "pets", "target": "steering"}, base=folder, name="test"
    )
    assert data.target_kind is VECTOR and data.targets.tolist() == [[-0.5], [0.25]]
    assert data.metadata["speed"].tolist() == [10, 12]
    both = load(
        {"csv": "drive.tsv", "images": "pets", "target": ["speed", "steering"]},
        base=folder,
        name="test",
    )
    assert both.targets.tolist() == [[10.0, -0.5], [12.0, 0.25]] and not both.metadata


def test_a_missing_image_costs_its_own_case_only(folder: Path) -> None:
    table(folder, "image,label\ncat/1.png,0\ncat/9.png,1\n")
    read = load({"csv": "cases.csv", "images": "pets"}, base=folder, name="test").inputs[:]
    assert isinstance(read[1], Unreadable) and "cat/9.png: does not exist" in read[1].reason
    np.testing.assert_array_equal(read[0], picture(0))


@pytest.mark.parametrize(
    ("text", "spec", "said"),
    [
        ("picture,label\na.png,0\n", {}, "no column 'image' of image files"),
        (
            "image,lable\na.png,0\n",
            {},
            "no column 'label' (did you mean 'lable'?); it has: image, lable",
        ),
        (
            "image,label\na.png,cat\nb.png,cow\n",
            {"classes": ["cat", "dog"]},
            "line 3: the label 'cow' is none of the 2",
        ),
        (
            "image,label\na.png,7\n",
            {"classes": ["cat", "dog"]},
            "line 2: the label '7' is none of the 2",
        ),
        ("image,label\na.png,\nb.png,x\n", {}, "sample 'a.png' has no label (1 such row(s))"),
        ("image,label\na.png,0\na.png,1\n", {}, "the id 'a.png' occurs twice"),
        ("image,label\n", {}, "has no rows"),
        ("", {}, "has no rows"),
        ("image,label\na.png\n", {}, "line 2: has 1 cells for 2 columns"),
        ("image,image\na.png,b\n", {}, "names 'image' twice"),
        (
            "image,angle\na.png,fast\n",
            {"target": "angle"},
            "line 2: column 'angle' holds 'fast', not a finite number",
        ),
        ("image,angle\na.png,nan\n", {"target": "angle"}, "line 2: column 'angle' holds 'nan'"),
        ("image,label\n,0\n", {}, "line 2: the column 'image' is empty"),
        (
            "image,label\na.png,0\n",
            {"group": "patient"},
            "no metadata column 'patient' to group by",
        ),
        (
            "image,label,patient\na.png,0,\n",
            {"group": "patient"},
            "sample 'a.png' has no 'patient'",
        ),
        ('image,label\n"a.png,0\n', {}, "line 2: unexpected end of data"),
        ("image,label\na.png,0\n", {"limit": 0}, "limit is 0"),
        ("image,label\na.png,0\n", {"classes": ["a", "a"]}, "'a' stands twice"),
    ],
)
def test_bad_tables_are_refused_by_file_and_line(
    folder: Path, text: str, spec: dict, said: str
) -> None:
    table(folder, text)
    with pytest.raises(DataError) as caught:
        load({"csv": "cases.csv", "images": "pets"} | spec, base=folder, name="test")
    assert said in str(caught.value)
    assert "data 'test'" in str(caught.value)


def test_a_table_that_is_not_text_is_refused(folder: Path) -> None:
    (folder / "cases.csv").write_bytes(b"image,label\n\xff\xfe,0\n")
    with pytest.raises(DataError, match=r"cases\.csv: is not UTF-8 text"):
        load({"csv": "cases.csv"}, base=folder, name="test")


def test_an_empty_class_folder_is_named_and_not_counted_as_a_class(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "1.png"), np.zeros((4, 4), np.uint8))
    (tmp_path / "cow").mkdir()
    with pytest.raises(
        DataError, match=r"the class folder 'cow' holds no images .*classes: \[cat, cow, dog\]"
    ):
        load({"image_folder": str(tmp_path)}, base=tmp_path, name="test")
    named = load(
        {"image_folder": str(tmp_path), "classes": ["cat", "cow", "dog"]},
        base=tmp_path,
        name="test",
    )
    assert named.targets.tolist() == [0, 2]


def test_a_truncated_image_says_so_by_its_case_and_not_on_standard_error(tmp_path, capfd):
    whole = cv2.imencode(".png", np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8))[
        1
    ].tobytes()
    file = tmp_path / "cut.png"
    for cut in (20, 60, len(whole) // 2):
        file.write_bytes(whole[:cut])
        with contextlib.suppress(DataError):
            read_image(file)
    assert capfd.readouterr().err == ""


def test_features_of_a_table_are_metadata_too(tmp_path):
    (tmp_path / "people.csv").write_text("age,height,label\n61,1.7,a\n20,1.8,b\n70,1.6,a\n")
    data = load({"csv": "people.csv", "features": ["age", "height"]}, base=tmp_path, name="test")
    assert data.where({"age": {"min": 60}}).tolist() == [True, False, True]
    assert data.column("height").tolist() == [1.7, 1.8, 1.6]
    assert data.inputs.shape == (3, 2)
