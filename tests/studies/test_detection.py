"""Small versions of the studies of detectors: exact boxes, and detectors that lose objects in noise."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from roadworthy.cases.transform import at_level
from roadworthy.data.samples import load
from roadworthy.data.values import TASKS
from roadworthy.measures.detection import ap50, precision, recall
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.adapters.torch_model import torch_model
from roadworthy.subject.system import Cases

NEEDS = ("cv2", "skimage", "torch")
MISSING = [name for name in NEEDS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"pip install -r studies/systems/requirements.txt: {MISSING} missing"
)
STUDY = Path(__file__).resolve().parents[2] / "studies" / "detection"
VIDEO = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")
DRAWN = {"road": "crossing.py:day", "medical": "sections.py:patient"}


def module(name: str, function: str):
    return sys.modules[resolve_path(f"{name}.py:{function}", STUDY).target.__module__]


def written(study: str, folder: Path, *, count: int):
    """Some groups of pictures that no set and no training has, as the loader reads them."""
    draw = resolve_path(DRAWN[study], STUDY).target
    dataset = module("dataset", "write")
    drawn = dataset.groups(draw, count, 9)
    names = sys.modules[draw.__module__].CLASSES
    dataset.write(drawn, folder, "few", "group", names)
    spec = {"coco": "few.json", "images": "few", "metadata": "few.csv"}
    return [p for group in drawn for p in group], load(spec, base=folder, name="test")


def changed(before: np.ndarray, after: np.ndarray) -> tuple[int, int, int, int]:
    """The smallest box around the pixels that differ, by a loop over nothing but numpy."""
    differs = (before != after).reshape(*before.shape[:2], -1).any(axis=2)
    rows, columns = np.nonzero(differs)
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def test_the_box_of_a_road_user_is_where_pixels_change():
    crossing = module("crossing", "day")
    rng = np.random.default_rng(1)
    for _ in range(30):
        one = crossing.road_user(rng)
        empty = np.full((crossing.HEIGHT, crossing.WIDTH, 3), -1.0)
        canvas = empty.copy()
        mask = one.paint(canvas)
        found = crossing.picture(canvas, [mask], [mask.sum()], [one.label], {})
        assert tuple(found.boxes[0]) == changed(empty, canvas)
        assert found.areas[0] == (canvas != empty).any(axis=2).sum()


def test_the_box_of_a_lesion_is_where_pixels_change():
    sections = module("sections", "patient")
    rng = np.random.default_rng(2)
    for name in sections.CLASSES:
        before = rng.normal(100, 5, (sections.SIDE, sections.SIDE))
        after = before.copy()
        mask = sections.lesion(rng, after, np.ones(before.shape, bool), name, 1.0)
        assert tuple(sections.picture(after, [mask], [1], [0], {}).boxes[0]) == changed(
            before, after
        )


def test_what_is_hidden_is_no_truth():
    crossing = module("crossing", "day")
    mask = np.zeros((6, 6), bool)
    mask[2, 1:4] = True
    seen = crossing.picture(mask, [mask, mask], [4, 40], [5, 1], {})
    assert seen.boxes.tolist() == [[1, 2, 4, 3]] and seen.labels.tolist() == [5]


@pytest.mark.parametrize("study", DRAWN)
def test_files_hold_the_pictures_and_boxes_drawn(study, tmp_path):
    drawn, read = written(study, tmp_path, count=1)
    for picture, image, boxes in zip(drawn, read.inputs, read.targets, strict=True):
        np.testing.assert_array_equal(picture.image, image)
        np.testing.assert_array_equal(picture.boxes, boxes.xyxy)
        np.testing.assert_array_equal(picture.labels, boxes.labels)


def test_the_source_has_the_shares_of_box_3(tmp_path):
    _, read = written("medical", tmp_path, count=10)
    shares = {n: np.mean(read.metadata[n] == "yes") for n in ("density_contrast", "truncated")}
    assert shares == {"density_contrast": 0.05, "truncated": 0.1}
    assert np.mean(read.metadata["motion_blur"] == "yes") == 0.05


@pytest.mark.parametrize("study", DRAWN)
def test_the_detector_finds_most_and_noise_hides_objects(study, tmp_path):
    _, data = written(study, tmp_path, count=2 if study == "road" else 5)
    system = torch_model(
        path=f"detector.py:{study}",
        base=STUDY,
        task=TASKS["detection"],
        weights=f"{study}/detector.safetensors",
    )
    ids, noise = list(data.ids), at_level("gaussian_noise", 3)
    images = [np.asarray(image) for image in data.inputs]
    noisy = [noise.at_step(image, 0, i) for i, image in zip(ids, images, strict=True)]
    clean, hurt = (system.run(Cases(ids, x))["system"].output for x in (images, noisy))
    truth = list(data.targets)
    assert ap50(clean, truth).value() > 0.75
    assert ap50(hurt, truth).value() < ap50(clean, truth).value() - 0.2
    scores = np.concatenate([boxes.scores for boxes in clean])
    assert scores.min() < 0.1 and ((scores > 0.2) & (scores < 0.9)).mean() > 0.1


def test_two_objects_of_a_class_are_both_found_and_copies_are_not():
    apart = module("detector", "road")._apart
    corners = np.array([[0, 0, 10, 10], [30, 0, 40, 10], [1, 0, 11, 10], [1, 0, 11, 10]], float)
    assert apart(corners, np.array([0, 0, 0, 1])) == [0, 1, 3]


@pytest.mark.skipif(not VIDEO.is_file(), reason="apt-get install opencv-doc has the video")
def test_the_people_detector_agrees_with_itself_on_clean_frames(tmp_path):
    make = sys.modules[resolve_path("pedestrians/make.py:clips", STUDY).target.__module__]
    make.write(make.clips(VIDEO, count=1, frames=2), tmp_path, "few", "clip", ("person",))
    data = load({"coco": "few.json", "images": "few"}, base=tmp_path, name="test")
    detect = resolve_path("../systems/pedestrians/system.py:detect", STUDY).target
    found = [detect(np.asarray(image)) for image in data.inputs]
    truth = list(data.targets)
    assert sum(map(len, truth)) > 1
    for measure in (ap50, recall, precision):
        assert measure(found, truth).value() == 1.0
