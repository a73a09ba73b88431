"""MAITE's models, data sets and augmentations, against the protocols and tasks of the real package."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import maite.protocols as protocols
import maite.protocols.object_detection as od
import numpy as np
import pytest
import torch
from faster_coco_eval import COCO, COCOeval_faster
from maite.spotcheck import SpotcheckError, spotcheck_component
from maite.tasks import evaluate, predict
from scipy import ndimage

from roadworthy import DataError, MaiteAugmentation, MaiteDataset, SubjectError, assess
from roadworthy.cases.transform import at_level
from roadworthy.data.loaders.boxes import Size
from roadworthy.data.loaders.yolo import yolo_lines
from roadworthy.data.maite import read_maite
from roadworthy.data.png import encode_png
from roadworthy.data.samples import Dataset
from roadworthy.data.values import BOXES, IMAGE, Boxes

LABELS = {3: "red", 7: "green"}
SHAPE = (3, 40, 60)


@dataclass
class Target:
    boxes: Any
    labels: Any
    scores: Any


class Scenes:
    """Red and green rectangles; none in every fourth image, whose arrays are empty as in MAITE's own examples."""

    def __init__(self, n: int = 24, floats: bool = False, seed: int = 5, **metadata: Any) -> None:
        self.metadata: Any = {"id": "scenes", "index2label": LABELS, **metadata}
        rng, self.items = np.random.default_rng(seed), []
        for i in range(n):
            image, boxes, labels = rng.integers(0, 40, SHAPE, np.uint8), [], []
            for k in range(i % 4):
                x, y = 20 * k + int(rng.integers(0, 5)), int(rng.integers(0, 25))
                channel = int(rng.integers(0, 2))
                image[channel, y : y + 12, x : x + 10] = rng.integers(90, 255)
                boxes.append([x, y, x + 10, y + 12])
                labels.append([(3, 7)[channel]])
            pixels = image.astype(np.float32) / 255 if floats else image
            target = Target(np.array(boxes), np.array(labels), np.zeros(len(boxes)))
            about = {
                "id": i,
                "hour": i % 5,
                "site": "ab"[i % 2],
                "patient": f"p{i // 2}",
                "raw": [],
            }
            self.items.append((pixels, target, about))

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, Target, Any]:
        return self.items[index]


class Finder:
    """Finds what is bright enough, two pixels too far to the right, and one false box in wide images."""

    def __init__(self, labels: dict[int, str] | None = None) -> None:
        self.metadata: Any = {"id": "finder"} | ({"index2label": labels} if labels else {})
        names = {v: k for k, v in (labels or LABELS).items()}
        self.numbers = [names["red"], names["green"]]
        self.seen: list[Any] = []

    def __call__(self, batch: Any) -> list[Target]:
        self.seen += list(batch)
        return [self.find(np.asarray(image)) for image in batch]

    def find(self, image: np.ndarray) -> Target:
        levels = image * (255.0 if image.dtype.kind == "f" else 1.0)
        rows = [(25.0, 30.0, 32.0, 38.0, self.numbers[0], 0.3)]
        for channel in range(min(2, len(levels))):
            regions, _ = ndimage.label(levels[channel] > 130)
            for y, x in ndimage.find_objects(regions):
                score = levels[channel, y, x].mean() / 255
                rows.append(
                    (x.start + 2, y.start, x.stop + 2, y.stop, self.numbers[channel], score)
                )
        found = np.array(rows)
        return Target(found[:, :4], found[:, 4].astype(int), found[:, 5])


class Ap50:
    """A MAITE metric: AP50 of faster-coco-eval."""

    def __init__(self) -> None:
        self.metadata: Any = {"id": "ap50"}
        self.reset()

    def reset(self) -> None:
        self.found: list[Any] = []
        self.truth: list[Any] = []

    def update(self, found: Any, truth: Any, abouts: Any) -> None:
        self.found += found
        self.truth += truth

    def compute(self) -> dict[str, Any]:
        rows = [
            [
                {"image_id": i, "category_id": int(label), "score": float(score),
                 "bbox": [*map(float, box[:2]), *map(float, box[2:] - box[:2])]}
                for i, t in enumerate(targets)
                for box, label, score in zip(t.boxes, np.reshape(t.labels, -1), t.scores, strict=True)
            ]
            for targets in (self.truth, self.found)
        ]  # fmt: skip
        objects = [
            {**r, "id": n, "iscrowd": 0, "area": r["bbox"][2] * r["bbox"][3]}
            for n, r in enumerate(rows[0], start=1)
        ]
        images = [{"id": i, "width": 60, "height": 40} for i in range(len(self.truth))]
        known = sorted({r["category_id"] for part in rows for r in part})
        categories = [{"id": k, "name": str(k)} for k in known]
        reference = COCO(
            {"info": {}, "images": images, "annotations": objects, "categories": categories}
        )
        evaluation = COCOeval_faster(reference, reference.loadRes(rows[1]), "bbox")
        evaluation.params.iouThrs = np.array([0.5])
        evaluation.evaluate()
        evaluation.accumulate()
        table = evaluation.eval["precision"][0, :, :, 0, -1]
        return {"ap50": float(table[table > -1].mean())}


@pytest.mark.parametrize("floats", [False, True])
def test_a_maite_model_and_data_set_are_assessed_as_maite_evaluates_them(tmp_path, floats):
    scenes, finder = Scenes(floats=floats), Finder()
    assert isinstance(finder, protocols.Model) and isinstance(scenes, protocols.Dataset)
    expected, _, _ = evaluate(model=Finder(), dataset=scenes, metric=Ap50(), batch_size=4)
    assert 0.2 < expected["ap50"] < 0.99
    keys = {"circumstances": {"dim": {"transform": "contrast", "levels": [5]}}, "slices": ["site"]}
    run = assess(finder, scenes, groups="patient", runs=tmp_path, **keys)
    found = run.finding("ap50")
    assert found.value == pytest.approx(expected["ap50"], abs=1e-6)
    assert found.groups == 12 and run.record.name == "Finder"
    assert run.record.subject.task == "detection" and run.cases.num_rows == 48
    assert run.finding("ap50", slice="site=a").n == 12
    # The model is given the images of the data set, bit by bit; the first ones are clean.
    for image, (given, _, _) in zip(finder.seen, scenes, strict=False):
        assert image.dtype == given.dtype
        np.testing.assert_array_equal(image, given)
    dim = run.finding("ap50", circumstance="dim", level=5).value
    assert dim < found.value


class Tensors(Finder):
    """Answers in tensors, with a score for each of two classes."""

    def __call__(self, batch: Any) -> list[Target]:
        found = super().__call__(batch)
        both = [np.stack([t.scores, 0.1 * t.scores], axis=1) for t in found]
        return [
            Target(*map(torch.tensor, (t.boxes, t.labels, s)))
            for t, s in zip(found, both, strict=True)
        ]


def test_tensors_and_scores_by_class_are_read(tmp_path):
    expected = assess(Finder(), Scenes(), runs=tmp_path).finding("ap50").value
    scenes = Scenes()
    scenes.items = [
        (torch.tensor(i), Target(*map(torch.tensor, (t.boxes, t.labels, t.scores))), about)
        for i, t, about in scenes.items
    ]
    assert assess(Tensors(), scenes, runs=tmp_path).finding("ap50").value == expected


def test_labels_are_joined_by_their_names(tmp_path):
    expected = assess(Finder(), Scenes(), runs=tmp_path).finding("ap50").value
    other = Finder({0: "green", 1: "blue", 2: "red"})
    run = assess(other, Scenes(), runs=tmp_path)
    assert run.finding("ap50").value == expected
    assert run.record.subject.classes == ["green", "blue", "red"]
    unnamed = Scenes(index2label={})
    assert assess(Finder(LABELS), unnamed, runs=tmp_path).finding("ap50").value == expected
    with pytest.raises(DataError, match=r"has the label [37], which index2label does not name"):
        assess(Finder({0: "green", 1: "red"}), unnamed, runs=tmp_path)


def test_data_of_other_roles_is_handed_in_with_it(tmp_path):
    reference, calibration = Scenes(40, seed=6), Scenes(60, seed=7)
    for scenes, start in ((reference, 100), (calibration, 200)):
        scenes.items = [(i, t, {"id": start + a["id"]}) for i, t, a in scenes.items]
    roles = {"reference": reference, "calibration": calibration}
    names = ["box_count", "near_threshold"]
    run = assess(Finder(), Scenes(), data=roles, supervisors=names, runs=tmp_path)
    found = run.record.sections["supervision"].supervisors
    assert [s.name for s in found if s.threshold] == names


def test_a_file_may_hold_a_maite_model(tmp_path):
    (tmp_path / "img").mkdir()
    scenes = Scenes()
    for i, (image, target, _) in enumerate(scenes.items):
        (tmp_path / "img" / f"{i}.png").write_bytes(encode_png(image.transpose(1, 2, 0)))
        labels = [(3, 7).index(k) for k in np.reshape(target.labels, -1)]
        text = yolo_lines(Boxes.of(target.boxes, labels), Size(60, 40))
        (tmp_path / "img" / f"{i}.txt").write_text(text)
    (tmp_path / "img" / "classes.txt").write_text("red\ngreen\n")
    source = "import sys\nsys.path.append({folder!r})\nfrom test_maite import Finder\n"
    text = (
        source.format(folder=str(Path(__file__).parent))
        + "model = Finder({0: 'green', 9: 'red'})\n"
    )
    (tmp_path / "mine.py").write_text(text)
    images = str(tmp_path / "img")
    run = assess(
        {
            "subject": {"task": "detection", "python": f"{tmp_path / 'mine.py'}:model"},
            "data": {"test": {"yolo": images, "images": images}},
        },
        runs=tmp_path / "runs",
    )
    expected, _, _ = evaluate(model=Finder(), dataset=scenes, metric=Ap50(), batch_size=4)
    assert run.finding("ap50").value == pytest.approx(expected["ap50"], abs=1e-6)


def ours(n: int = 6) -> Dataset:
    """Our data set: a grey image, a region to ignore, an image without boxes."""
    rng = np.random.default_rng(1)
    boxes = [
        Boxes.of([]),
        *(Boxes.of([[4, 6, 14, 20], [20, 5, 30, 25]], [0, 1]) for _ in range(n - 1)),
    ]
    boxes[2] = Boxes.of([[4, 6, 14, 20], [0, 0, 3, 3]], [1, 0], ignore=[False, True])
    images = list(rng.integers(0, 255, (n, 40, 60, 3), np.uint8))
    images[3] = images[3][:, :, 0]
    column = {"hour": np.arange(n), "site": np.array(["a", "b"] * (n // 2), dtype=object)}
    given = {"ids": np.array([f"{i}.png" for i in range(n)], object), "classes": ("cat", "dog")}
    return Dataset("ours", IMAGE, images, BOXES, boxes, metadata=column, **given)


def test_our_data_is_a_maite_data_set_and_comes_back():
    data = ours()
    theirs: od.Dataset = MaiteDataset(data)
    assert isinstance(theirs, protocols.Dataset) and len(list(theirs)) == len(theirs) == 6
    assert theirs.metadata == {"id": "ours", "index2label": {0: "cat", 1: "dog"}}
    image, target, about = theirs[0]
    assert target.boxes.shape == (0, 4) and target.labels.shape == target.scores.shape == (0,)
    assert about == {"id": "0.png", "hour": 0, "site": "a"} and type(about["hour"]) is int
    np.testing.assert_array_equal(image, np.moveaxis(data.inputs[0], -1, 0))
    assert theirs[3][0].shape == (1, 40, 60) and theirs[2][1].labels.tolist() == [1]
    with pytest.raises(IndexError):
        theirs[6]
    again = read_maite(theirs, "again")
    assert again.ids.tolist() == data.ids.tolist() and again.classes == data.classes
    assert again.metadata["hour"].tolist() == [0, 1, 2, 3, 4, 5]
    for row in range(6):
        np.testing.assert_array_equal(again.inputs[row], data.inputs[row])
        kept = ~data.targets[row].ignore
        assert again.targets[row].xyxy.tolist() == data.targets[row].xyxy[kept].tolist()
    assert again.take([4, 1]).inputs[:1][0].tolist() == data.inputs[4].tolist()


def test_every_value_of_ours_passes_the_runtime_checks_of_maite():
    data = spotcheck_component(od.Dataset, rate=1.0)(MaiteDataset(ours()))
    turn = spotcheck_component(od.Augmentation, rate=1.0)(MaiteAugmentation("rotation", level=2))
    _, _, made = evaluate(
        model=Finder(), dataset=data, augmentation=turn, batch_size=2, return_augmented_data=True
    )
    assert [len(targets) for _, targets, _ in made] == [2, 2, 2]
    scenes = Scenes(1)
    scenes.items = [(image[0], target, about) for image, target, about in scenes.items]
    with pytest.raises(SpotcheckError):
        spotcheck_component(od.Dataset, rate=1.0)(scenes)[0]


def test_our_transforms_are_maite_augmentations():
    data = ours()
    noise = MaiteAugmentation("gaussian_noise", level=3, seed=7)
    turn: od.Augmentation = MaiteAugmentation("rotation", degrees=20.0)
    assert isinstance(noise, protocols.Augmentation) and isinstance(turn, protocols.Augmentation)
    before = [image.copy() for image in data.inputs]
    theirs = MaiteDataset(data)
    _, made = predict(
        model=Finder(), dataset=theirs, augmentation=noise, batch_size=3, return_augmented_data=True
    )
    images, targets, abouts = ([x for batch in made for x in batch[part]] for part in range(3))
    for row in range(6):
        expected = at_level("gaussian_noise", 3).at_step(before[row], 7, f"{row}.png")
        np.testing.assert_array_equal(images[row], np.atleast_3d(expected).transpose(2, 0, 1))
        np.testing.assert_array_equal(data.inputs[row], before[row])
        assert targets[row].boxes.tolist() == theirs[row][1].boxes.tolist()
    assert abouts[1]["hour"] == 1
    assert abouts[1]["roadworthy"]["transform"] == "gaussian_noise"
    assert abouts[1]["roadworthy"]["level"] == 3 and abouts[1]["roadworthy"]["seed"] == 7
    _, moved, _ = turn(tuple(zip(*theirs, strict=True)))
    assert moved[0].boxes.shape == (0, 4) and not np.allclose(moved[1].boxes, theirs[1][1].boxes)
    # A box that is turned about the centre of the picture grows around its turned centre.
    before, after = theirs[1][1].boxes, moved[1].boxes
    middle = np.array([29.5, 19.5])
    arms = [np.reshape(b, (-1, 2, 2)).mean(axis=1) - middle for b in (before, after)]
    np.testing.assert_allclose(*np.linalg.norm(arms, axis=2), atol=0.8)
    assert (after[:, 2:] - after[:, :2] > before[:, 2:] - before[:, :2]).all()


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (np.zeros((40, 60, 3), np.uint8), r"shape \(40, 60, 3\); \(1, 3 or 4, height, width\)"),
        (np.full((3, 4, 4), 200.0), "floats beyond 0 to 1"),
        (np.full((3, 4, 4), -0.5), "floats beyond 0 to 1"),
    ],
)
def test_images_in_another_form_are_refused(tmp_path, image, says):
    scenes = Scenes(4)
    scenes.items = [(image, Target([], [], []), about) for _, _, about in scenes.items]
    with pytest.raises(SubjectError, match=says):
        assess(Finder(), scenes, runs=tmp_path)
    with pytest.raises(DataError, match=says):
        MaiteAugmentation("fog", level=1)(([image], [Target([], [], [])], [{"id": 0}]))


def test_what_has_not_the_form_of_maite_is_refused(tmp_path):
    scenes = Scenes(4)
    with pytest.raises(
        SubjectError, match="function is no MAITE model; a callable with `metadata`"
    ):
        assess(lambda images: images, scenes, runs=tmp_path)
    with pytest.raises(DataError, match=r"has no metadata 'patent' \(did you mean 'patient'\?\)"):
        assess(Finder(), scenes, groups="patent", runs=tmp_path)
    scenes.items[1] = (scenes.items[1][0], 4, {"id": "b"})
    with pytest.raises(DataError, match="the target of 'b' is int; boxes, labels and scores"):
        assess(Finder(), scenes, runs=tmp_path)
    with pytest.raises(DataError, match="no images with boxes"):
        MaiteDataset(replace(ours(), targets=None))
    for wrong in ({}, {"level": 1, "degrees": 2.0}):
        with pytest.raises(ValueError, match="give a level or its parameters"):
            MaiteAugmentation("rotation", **wrong)
    with pytest.raises(ValueError, match="misspell changes text, not images"):
        MaiteAugmentation("misspell", level=1)
