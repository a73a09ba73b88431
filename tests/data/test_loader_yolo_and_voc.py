"""YOLO and Pascal VOC files: corners, classes, what is ignored, round trips; what does not fit is refused by its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.loaders import voc as voc_file
from roadworthy.data.loaders.boxes import Size
from roadworthy.data.loaders.coco import coco_document
from roadworthy.data.loaders.files import image_size
from roadworthy.data.loaders.voc import voc_document
from roadworthy.data.loaders.yolo import corners_of, yolo_lines
from roadworthy.data.values import BOXES, Boxes, Unreadable

CORNERS = "<xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax>"
OBJECT = f"<object><name>{{name}}</name>{{more}}<bndbox>{CORNERS}</bndbox></object>"


def xml(*objects: str, file: str = "a.png") -> str:
    size = "<size><width>40</width><height>30</height></size>"
    return f"<annotation><filename>{file}</filename>{size}{''.join(objects)}</annotation>"


def dog(*corners: Any, name: str = "dog", more: str = "") -> str:
    return OBJECT.format(*corners, name=name, more=more)


def loaded(folder: Path, loader: str, texts: dict[str, str], **spec: Any) -> Dataset:
    for name in ("img", "labels"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("a.png", "b.jpg"):
        cv2.imwrite(str(folder / "img" / name), np.full((30, 40, 3), 9, np.uint8))
    for name, text in texts.items():
        (folder / "labels" / name).write_text(text)
    return load({loader: "labels", "images": "img"} | spec, base=folder, name="test")


def test_yolo_centres_become_corners_and_an_image_without_a_file_has_no_objects(tmp_path) -> None:
    data = loaded(tmp_path, "yolo", {"a.txt": "1 0.5 0.5 0.25 0.5\n\n0 0.5 0.5 1 1\n"})
    assert data.ids.tolist() == ["a.png", "b.jpg"] and data.target_kind is BOXES
    assert data.targets[0].xyxy.tolist() == [[15, 7.5, 25, 22.5], [0, 0, 40, 30]]
    assert data.targets[0].labels.tolist() == [1, 0] and len(data.targets[1]) == 0
    assert data.classes == ("0", "1")
    named = loaded(tmp_path, "yolo", {"classes.txt": "cat\ndog"})
    assert named.classes == ("cat", "dog")
    assert loaded(tmp_path, "yolo", {}, classes=["x", "y", "z"]).classes == ("x", "y", "z")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.txt": "0 0.5 0.5 0.25\n"}, "a.txt, line 1 holds '0 0.5 0.5 0.25'; class, x, y, width"),
        ({"a.txt": "0 0 0 1 1 0 1\n"}, "class, x, y, width and height were expected"),
        ({"a.txt": "0 0.5 0.5 0 0.5\n"}, "not both above 0"),
        ({"a.txt": "0 0.5 0.5 nan 0.5\n"}, "not both above 0"),
        ({"a.txt": "\n0 0.9 0.5 0.5 0.5\n"}, "line 2 has a box from (26, 7.5) to (46, 22.5), outside"),
        ({"a.txt": "2 0.5 0.5 0.5 0.5\n", "classes.txt": "cat\ndog\n"}, "class '2'; classes are numbered 0 to 1"),
        ({"a.txt": "dog 0.5 0.5 0.5 0.5\n"}, "is of the class 'dog'; classes are numbered 0, 1"),
        ({"c.txt": ""}, "c.txt: no image of that name lies in"),
    ],
)  # fmt: skip
def test_yolo_files_that_do_not_fit_are_refused_by_line(tmp_path, files, said) -> None:
    with pytest.raises(DataError) as caught:
        loaded(tmp_path, "yolo", files)
    assert said in str(caught.value)


def test_yolo_needs_the_size_of_an_image_with_objects(tmp_path) -> None:
    (tmp_path / "img").mkdir()
    (tmp_path / "img/c.png").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"c\.png: 6 bytes that cannot be decoded"):
        loaded(tmp_path, "yolo", {"c.txt": "0 0.5 0.5 0.5 0.5"})


def test_voc_corners_are_counted_from_1_and_difficult_objects_are_ignored(tmp_path) -> None:
    texts = {
        "a.xml": xml(dog(1, 1, 40, 30), dog(11, 6, 20, 15, name="cat", more="<difficult>1</difficult>")),
        "c.xml": xml(file="c.png"),
    }  # fmt: skip
    data = loaded(tmp_path, "voc", texts)
    assert data.ids.tolist() == ["a.png", "c.png"] and data.classes == ("cat", "dog")
    assert data.targets[0].xyxy.tolist() == [[0, 0, 40, 30], [10, 5, 20, 15]]
    assert data.targets[0].labels.tolist() == [1, 0]
    assert data.targets[0].ignore.tolist() == [False, True] and len(data.targets[1]) == 0
    missing = data.inputs[:][1]
    assert isinstance(missing, Unreadable) and "c.png: does not exist" in missing.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (xml(dog(1, 1, 60, 30)), "a.xml, object 1 has a box from (0, 0) to (60, 30), outside its image of 40 x 30"),
        (xml(dog(20, 5, 19, 9)), "not both above 0"),
        (xml(dog(1, "x", 4, 5)), "object 1 has 'x' in <bndbox/ymin>; a number was expected"),
        (xml(dog(1, 1, 4, 5, name=" ")), "a.xml, object 1 has no <name>; add it"),
        (xml(dog(1, 1, 4, 5, name="cow")), "a.xml, object 1: the label 'cow' is none of the 2 classes"),
        (xml(dog(1, 1, 4, 5))[:-5], "a.xml: is not XML"),
        ("<annotation/>", "a.xml has no <filename>; add it"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + xml(), "a.xml: declares a document type, which is not read"),
    ],
)  # fmt: skip
def test_voc_files_that_do_not_fit_are_refused_by_object(tmp_path, text, said) -> None:
    with pytest.raises(DataError) as caught:
        loaded(tmp_path, "voc", {"a.xml": text}, classes=["cat", "dog"])
    assert said in str(caught.value)


def test_voc_needs_files_and_every_image_once(tmp_path) -> None:
    with pytest.raises(DataError, match="holds no XML files"):
        loaded(tmp_path, "voc", {})
    with pytest.raises(DataError, match=r"'a\.png' occurs twice"):
        loaded(tmp_path, "voc", {"a.xml": xml(dog(1, 1, 4, 5)), "b.xml": xml()})


sides = st.floats(1, 900)


@given(x=st.floats(0, 3000), y=st.floats(0, 2000), width=sides, height=sides)
def test_written_boxes_come_back(x: float, y: float, width: float, height: float) -> None:
    size = Size(3840, 2900)
    boxes = Boxes.of([[x, y, min(x + width, 3840), y + height]], [1])
    again = voc_file._read(voc_document("a.png", boxes, ("a", "b & c"), size), "a.xml")
    assert again.corners[0] == pytest.approx(boxes.xyxy[0].tolist(), abs=1e-4)
    assert again.names == ["b & c"]
    label, *shares = yolo_lines(boxes, size).split()
    assert label == "1"
    # Six decimals of 3,840 pixels.
    corners = corners_of([float(s) for s in shares], size)
    assert corners == pytest.approx(boxes.xyxy[0].tolist(), abs=0.01)
    entry = coco_document([("a.png", boxes, size)], ("a", "b"))["annotations"][0]
    assert [*entry["bbox"][:2], entry["area"]] == [x, y, pytest.approx(boxes.areas[0])]


def test_the_size_of_an_image_is_read_from_its_header(tmp_path) -> None:
    for name in ("a.png", "a.jpg", "a.tif"):
        cv2.imwrite(str(tmp_path / name), np.zeros((30, 41, 3), np.uint8))
        assert image_size(tmp_path / name) == (41, 30)
    progressive = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    cv2.imwrite(str(tmp_path / "p.jpg"), np.zeros((7, 9, 3), np.uint8), progressive)
    assert image_size(tmp_path / "p.jpg") == (9, 7)
