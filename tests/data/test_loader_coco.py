"""COCO files: corners, class order, empty images and crowds; what does not fit together is refused by annotation."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.values import BOXES, Unreadable

DOCUMENT: dict[str, Any] = {
    "images": [
        {"id": 10, "file_name": "a.png", "width": 40, "height": 30},
        {"id": 11, "file_name": "b.png", "width": 40, "height": 30},
    ],
    "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
    "annotations": [
        {"id": 1, "image_id": 10, "category_id": 7, "bbox": [10, 5, 20, 10]},
        {"id": 2, "image_id": 10, "category_id": 3, "bbox": [0, 0, 40.5, 30]},
        {"id": 3, "image_id": 10, "category_id": 3, "bbox": [0, 0, 5, 5], "iscrowd": 1},
    ],
}


def loaded(folder: Path, document: Any, **spec: Any) -> Dataset:
    (folder / "img").mkdir(exist_ok=True)
    cv2.imwrite(str(folder / "img/a.png"), np.full((30, 40, 3), 9, np.uint8))
    (folder / "test.json").write_text(json.dumps(document))
    return load({"coco": "test.json", "images": "img"} | spec, base=folder, name="test")


def test_boxes_become_corners_and_classes_stand_in_the_order_of_their_ids(tmp_path: Path) -> None:
    data = loaded(tmp_path, DOCUMENT)
    assert data.classes == ("cat", "dog") and data.target_kind is BOXES
    assert data.ids.tolist() == ["a.png", "b.png"]
    # Annotation tools round: what sticks out by less than a pixel stays, as COCO counts it.
    assert data.targets[0].xyxy.tolist() == [[10, 5, 30, 15], [0, 0, 40.5, 30], [0, 0, 5, 5]]
    assert data.targets[0].labels.tolist() == [1, 0, 0]
    assert all(BOXES.problem(t) is None for t in data.targets)


def test_an_image_without_boxes_stays_and_crowds_are_counted(tmp_path: Path) -> None:
    data = loaded(tmp_path, DOCUMENT)
    assert len(data.targets[1]) == 0
    assert data.metadata["objects"].tolist() == [2, 0] and data.metadata["crowds"].tolist() == [
        1,
        0,
    ]


def test_crowds_are_regions_to_ignore_and_areas_are_those_of_the_annotations(
    tmp_path: Path,
) -> None:
    data = loaded(tmp_path, changed("annotations", 0, area=77.5))
    assert data.targets[0].ignore.tolist() == [False, False, True]
    assert data.targets[0].area is not None
    assert data.targets[0].area.tolist() == [77.5, 40.5 * 30, 25]
    assert data.notes == (
        "2 of 3 annotations have no area. The area of the box says whether the object is small, "
        "medium or large.",
    )


def test_a_missing_image_is_a_failed_case(tmp_path: Path) -> None:
    read = loaded(tmp_path, DOCUMENT).inputs[:]
    assert read[0].shape == (30, 40, 3) and isinstance(read[1], Unreadable)
    assert "b.png: does not exist; restore the file or leave the sample out" in read[1].reason


def test_classes_given_fix_the_order(tmp_path: Path) -> None:
    assert loaded(tmp_path, DOCUMENT, classes=["dog", "cat"]).targets[0].labels.tolist() == [
        0,
        1,
        1,
    ]
    with pytest.raises(DataError, match="category 7 is 'dog', none of the classes given"):
        loaded(tmp_path, DOCUMENT, classes=["cat"])


def changed(section: str, at: int, **change: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    document[section][at].update(change)
    return document


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            changed("annotations", 1, image_id=99),
            "annotations[1] (id 2) is of the image 99, which the file does not list",
        ),
        (changed("annotations", 0, category_id=5), "annotations[0] (id 1) is of the category 5"),
        (
            changed("annotations", 0, bbox=[1, 1, -4, 5]),
            "annotations[0] (id 1) of the image 'a.png' has a box from (1, 1) to (-3, 6), whose width",
        ),
        (changed("annotations", 0, bbox=[1, 1, 0, 5]), "not both above 0"),
        (
            changed("annotations", 0, bbox=[30, 5, 20, 10]),
            "of the image 'a.png' has a box from (30, 5) to (50, 15), outside its image of 40 x 30",
        ),
        (changed("annotations", 0, bbox=[-3, 5, 20, 10]), "outside its image"),
        (
            changed("annotations", 0, bbox=[1, 2, 3]),
            "four numbers x, y, width, height were expected",
        ),
        (changed("annotations", 0, bbox=None), "four numbers"),
        (changed("annotations", 0, area=-1), "annotations[0] (id 1) has the area -1; a number of"),
        (changed("annotations", 0, area="big"), "has the area 'big'"),
        (changed("annotations", 0, bbox=[1, 1, float("nan"), 2]), "not both above 0"),
        (changed("images", 1, id=10), "images[1] has the id 10, which occurs twice"),
        (
            changed("images", 1, id=[10]),
            "images[1] has the id [10]; a number or a text was expected",
        ),
        (
            changed("annotations", 0, image_id=[10]),
            "is of the image [10], which the file does not list",
        ),
        (changed("images", 1, file_name="a.png"), "the id 'a.png' occurs twice"),
        (changed("categories", 1, name="dog"), "'dog' stands twice"),
        (
            {"images": [], "annotations": []},
            "has no list 'categories' (found: images, annotations)",
        ),
        ([1, 2], "has no list 'images' (found: list)"),
        ({"images": [], "annotations": [], "categories": []}, "classes: is empty"),
        (
            {"images": [{"id": 1}], "annotations": [], "categories": []},
            "images[0] has no 'file_name'",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, document: Any, said: str) -> None:
    with pytest.raises(DataError) as caught:
        loaded(tmp_path, document)
    assert said in str(caught.value)


def test_half_a_file_is_refused_by_line(tmp_path: Path) -> None:
    loaded(tmp_path, DOCUMENT)
    (tmp_path / "test.json").write_text(json.dumps(DOCUMENT, indent=1)[:60])
    with pytest.raises(DataError, match=r"test\.json, line \d+: is not JSON"):
        load({"coco": "test.json", "images": "img"}, base=tmp_path, name="test")
