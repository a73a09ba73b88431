"""Segmentation from files to the report: a function, ONNX, torch and masks made elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import shapes
from onnx import TensorProto, helper, save

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.export import export
from roadworthy.assessment.run_folder import overlaid
from roadworthy.data.png import encode_png
from roadworthy.measures.segmentation import dice, mask_iou
from roadworthy.spec import Assessment, SpecError

pytestmark = pytest.mark.usefixtures("no_monitor")

DATA = """
data:
  test: {image_folder: images, masks: masks, metadata: cases.csv, classes: [background, disc, square]}
  group: drive
"""
NOISE = "circumstances: {noise: {transform: gaussian_noise, levels: [3, 5]}}\n"


def run(folder: Path, text: str) -> Run:
    file = folder / "assessment.yaml"
    file.write_text(text)
    return assess(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shapes")
    shapes.place(place)
    return place


@pytest.fixture(scope="module")
def by_function(folder: Path) -> Run:
    text = (
        ("subject: {task: segmentation, python: 'subject.py:segment'}\n" + DATA + NOISE)
        + "claims: [{id: A, mask_iou: {min: 0.5}}, {id: B, mask_iou: {min: 0.5}, every: circumstances}]\n"
    )
    return run(folder, text)


def read(file: Path) -> np.ndarray:
    return cv2.imread(str(file), cv2.IMREAD_UNCHANGED)


def own_answers(folder: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the subject says of the images, and the truth."""
    scope: dict = {}
    exec((folder / "subject.py").read_text(), scope)
    images = sorted((folder / "images").iterdir())
    truth = [read(folder / "masks" / image.name) for image in images]
    return [scope["segment"](read(image)[..., ::-1]) for image in images], truth


def test_a_function_is_measured_with_groups_and_judged(folder: Path, by_function: Run) -> None:
    found = by_function.record.find("mask_iou")
    assert found.value == pytest.approx(mask_iou(*own_answers(folder)).value())
    assert 0.8 < found.value < 1 and found.n == 24
    assert "8 groups" in found.interval.method and found.interval.contains(found.value)
    assert [c.status for c in by_function.record.claims] == ["met", "breached"]
    measured = run(
        folder,
        "subject: {task: segmentation, python: 'subject.py:segment'}\nmeasure: dice\n" + DATA,
    )
    found = measured.record.find("dice")
    assert found.value == pytest.approx(dice(*own_answers(folder)).value())


def test_the_gallery_shows_truth_and_answer_over_the_case(folder: Path, by_function: Run) -> None:
    record = by_function.record
    gallery = record.gallery
    pairs = [*gallery.pairs, *gallery.worst]
    assert pairs and all(p.original and p.truth_overlay and p.made for p in pairs)
    assert re.fullmatch(r"(disc|square) [\d.]+%(, (disc|square) [\d.]+%)*", pairs[0].truth)
    page = (record.folder / "report.html").read_text()
    assert "Pictures: original, truth, answer. Colours: disc orange, square blue." in page
    card = re.search(r'<div class="views">.*?</div>\s*</div>', page, re.S)
    assert card and card.group().count("<img") == 3
    record = run(
        folder,
        "subject: {task: segmentation, python: 'subject.py:segment'}\n"
        "failure: {error: {above: 0.05}}\n" + DATA,
    ).record
    assert record.gallery.worst
    for pair in record.gallery.worst[:1]:
        image = read(folder / "images" / pair.sample)[..., ::-1]
        truth = read(folder / "masks" / pair.sample)
        kept = read(record.folder / pair.truth_overlay)[..., ::-1]
        np.testing.assert_array_equal(kept, overlaid(image, truth))


@pytest.mark.parametrize("form", ["grey", "rgba", "16 bit", "float"])
def test_classes_are_half_transparent_and_ignored_pixels_grey(form: str) -> None:
    grey = np.full((1, 4), 100, np.uint8)
    image = {
        "grey": grey,
        "rgba": np.dstack([grey] * 4),
        "16 bit": grey.astype(np.uint16) * 257,
        "float": (grey / 255).astype(np.float32),
    }[form]
    shown = overlaid(image, np.array([[0, 1, 5, 255]], np.uint8))
    orange = [(100 + 0xE6) // 2, (100 + 0x9F) // 2, 50]
    assert shown.tolist() == [[[100] * 3, orange, orange, [113] * 3]]


def colour_net(file: Path) -> None:
    """Scores of the nearest colour: 2 c x - c c is a convolution of one pixel."""
    colours = shapes.COLOURS / 255
    weights = [
        helper.make_tensor("w", TensorProto.FLOAT, [3, 3, 1, 1], (2 * colours).ravel()),
        helper.make_tensor("b", TensorProto.FLOAT, [3], -(colours**2).sum(axis=1)),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, "h", "w"])
        for name in ("image", "scores")
    ]
    node = helper.make_node("Conv", ["image", "w", "b"], ["scores"])
    graph = helper.make_graph([node], "colours", ends[:1], ends[1:], weights)
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        str(file),
    )


def nearest_colour(image: np.ndarray) -> np.ndarray:
    return ((image[..., None, :] - shapes.COLOURS) ** 2).sum(axis=3).argmin(axis=2)


def test_an_onnx_network_gives_masks(folder: Path) -> None:
    colour_net(folder / "net.onnx")
    found = run(
        folder, "subject: {task: segmentation, onnx: net.onnx, input: {scale: 255}}\n" + DATA
    ).record.find("mask_iou")
    images = sorted((folder / "images").iterdir())
    answers = [nearest_colour(read(image)[..., ::-1].astype(float)) for image in images]
    truth = [read(folder / "masks" / image.name) for image in images]
    assert found.value == pytest.approx(mask_iou(answers, truth).value(), abs=1e-3)


NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.drop, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Dropout(0.3), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        low = self.head(self.drop(torch.relu(self.features(x[:, :, ::2, ::2]))))
        return {"out": nn.functional.interpolate(low, x.shape[2:])}

def build():
    torch.manual_seed(0)
    return Net()
"""


def test_a_torch_network_is_supervised_by_features_and_passes_but_not_by_class_scores(
    folder: Path,
) -> None:
    (folder / "net.py").write_text(NET)
    shapes.place(folder / "more", 30, seed=9)
    text = DATA.replace(
        "  group",
        "  reference: {image_folder: more/images, masks: more/masks, metadata: more/cases.csv, "
        "classes: [background, disc, square]}\n  group",
    )
    supervisors = "supervisors: [knn, {vr: {n: 4}}, {vro: {n: 4}}, max_softmax]\n"
    found = run(
        folder,
        "subject: {task: segmentation, torch: 'net.py:build'}\n" + text + NOISE + supervisors,
    )
    record = found.record
    assert record.cases.failed == 0
    cases = found.cases
    for name in ("knn", "vr", "vro"):
        scores = cases[name].to_numpy()
        assert np.isfinite(scores).all() and len(np.unique(scores)) > 10, name
        assert name == "knn" or (scores.min() >= 0 and scores.max() <= 1)
    assert "max_softmax" not in cases.column_names
    assert (
        "it reads class scores, and the module gives mask"
        in (record.folder / "report.html").read_text()
    )


def test_vro_of_a_function_rises_with_what_it_draws(folder: Path) -> None:
    found = []
    for name in ("steady", "wavering"):
        text = f"subject: {{task: segmentation, python: 'subject.py:{name}'}}\n" + DATA
        cases = run(folder, text + "supervisors: [{vro: {kind: own, n: 3}}]\n").cases
        found.append(cases["vro"].to_numpy())
    steady, wavering = found
    assert steady.min() >= 0 and steady.max() > 0 and wavering.max() < 1
    assert (steady < wavering).all()


def test_masks_made_elsewhere_give_the_findings_of_a_run_in_process(
    folder: Path, by_function: Run
) -> None:
    spec = Assessment.read(folder / "assessment.yaml")
    text = "subject: {task: segmentation, python: 'subject.py:segment'}\n" + DATA + NOISE
    spec = Assessment.parse(text, folder / "assessment.yaml")
    written = export(spec, folder / "cases")
    assert "masks/CASE ID.png" in (written.folder / "README.txt").read_text()
    scope: dict = {}
    exec((folder / "subject.py").read_text(), scope)
    table = (written.folder / "cases.csv").read_text().splitlines()[1:]
    for line in table:
        case, file, *_ = line.split(",")
        mask = scope["segment"](read(written.folder / file)[..., ::-1]).astype(np.uint8)
        place = folder / "answers" / f"{case.replace('.png', '')}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(encode_png(mask))
    text = "subject: {task: segmentation, predictions: answers}\n" + DATA + NOISE
    found = run(folder, text).record
    assert found.cases.failed == 0 and not found.warnings
    for circumstance, level in (("", None), ("noise", 3), ("noise", 5)):
        one, other = (
            r.find("mask_iou", circumstance=circumstance, level=level)
            for r in (found, by_function.record)
        )
        assert one.value == other.value
    (folder / "answers" / "00.png").unlink()
    (folder / "answers" / "01.png").write_bytes(b"nothing")
    (folder / "answers" / "99.png").write_bytes(encode_png(np.zeros((48, 64), np.uint8)))
    found = run(folder, text).record
    messages = {f.case: f.message for f in found.cases.failures}
    assert messages["00.png"] == "no prediction for this case in answers"
    assert "01.png: 7 bytes that cannot be decoded" in messages["01.png"]
    assert any("1 ids in answers fit no case, such as '99'" in w for w in found.warnings)


def test_a_folder_without_masks_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"more holds no masks; expected a folder with a PNG"):
        (folder / "empty" / "more").mkdir(parents=True)
        run(folder, "subject: {task: segmentation, predictions: empty/more}\n" + DATA)


def test_an_answer_in_another_size_stops_the_run(folder: Path) -> None:
    (folder / "small.py").write_text("def segment(image): return image[::2, ::2, 0] > 100\n")
    with pytest.raises(
        SpecError, match=r"row 0: two masks have 32 x 24 and 64 x 48 pixels; answer in"
    ):
        run(folder, "subject: {task: segmentation, python: 'small.py:segment'}\n" + DATA)


def test_the_task_says_whether_a_coco_file_gives_boxes_or_masks(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode_png(np.full((8, 8, 3), 9, np.uint8)))
    square = {"bbox": [2, 2, 4, 4], "segmentation": [[2, 2, 6, 2, 6, 6, 2, 6]]}
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 8, "height": 8}],
        "categories": [{"id": 1, "name": "block"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, **square}],
    }
    (tmp_path / "test.json").write_text(json.dumps(document))
    (tmp_path / "subject.py").write_text(
        "import numpy as np\n"
        "def segment(image): return np.pad(np.ones((4, 4), bool), 2)\n"
        "def detect(image): return [[2, 2, 6, 6]]\n"
    )
    for task, function, measure in (
        ("segmentation", "segment", "mask_iou"),
        ("detection", "detect", "ap50"),
    ):
        subject = f"subject: {{task: {task}, python: 'subject.py:{function}'}}\n"
        record = run(tmp_path, subject + "data: {test: {coco: test.json, images: .}}\n").record
        assert record.find(measure).value == 1.0
