"""A detector of which only the boxes are there: cases are exported, answered elsewhere, supervised
and compiled into a monitor."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sorter import bundle_of

from roadworthy.assessment.assess import Run, assess
from roadworthy.assessment.export import export
from roadworthy.data.png import encode_png
from roadworthy.monitor import Events, Monitor
from roadworthy.spec import Assessment
from roadworthy.store import RunFolder

FILE = """name: squares
subject: {task: detection, predictions: predictions.json}
data:
  test: {coco: test.json, images: test}
  reference: {coco: reference.json, images: reference}
  calibration: {coco: calibration.json, images: calibration}
circumstances:
  haze: {transform: contrast, levels: [2], table: wang}
supervisors: all
"""
OF_BOXES = ("box_count", "class_doubt", "lowest_kept_score", "mean_box_entropy", "near_threshold")
SIZES = {"test": 40, "reference": 30, "calibration": 40}
CATEGORIES = [{"id": 1, "name": "square"}, {"id": 2, "name": "hole"}]


def drawn(folder: Path, role: str, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A COCO set of images with one to three bright squares; their corners by image."""
    (folder / role).mkdir()
    images, annotations, corners = [], [], {}
    for i in range(n):
        name, image = f"{role}-{i:02}.png", rng.integers(20, 60, (16, 48), np.uint8)
        images.append({"id": i, "file_name": name, "width": 48, "height": 16})
        squares = [[16 * k + int(rng.integers(0, 8)), 4, 8, 8] for k in range(1 + i % 3)]
        for x, y, w, h in squares:
            image[y : y + h, x : x + w] = 220
            box = {"id": len(annotations), "image_id": i, "category_id": 1, "bbox": [x, y, w, h]}
            annotations.append(box)
        (folder / role / name).write_bytes(encode_png(image))
        corners[name] = np.array([[x, y, x + w, y + h] for x, y, w, h in squares])
    content = {"images": images, "annotations": annotations, "categories": CATEGORIES}
    (folder / f"{role}.json").write_text(json.dumps(content))
    return corners


def answer(case: dict[str, str], squares: np.ndarray, rng: np.random.Generator) -> dict:
    """Each square, and a weaker box of the other class there; haze lowers the scores."""
    sure = rng.uniform(0.1 if case["circumstance"] else 0.45, 1.0, len(squares))
    return {
        "id": case["id"],
        "boxes": np.concatenate([squares, squares]).tolist(),
        "labels": [0] * len(squares) + [1] * len(squares),
        "scores": np.concatenate([sure, np.minimum(1 - sure, 0.4)]).tolist(),
    }


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, rng = tmp_path_factory.mktemp("squares"), np.random.default_rng(0)
    places: dict[str, np.ndarray] = {}
    for role, n in SIZES.items():
        places |= drawn(folder, role, n, rng)
    file = folder / "assessment.yaml"
    file.write_text(FILE)
    export(Assessment.parse(FILE, file), folder / "cases")
    with (folder / "cases" / "cases.csv").open() as lines:
        answers = [answer(case, places[case["sample"]], rng) for case in csv.DictReader(lines)]
    (folder / "predictions.json").write_text(json.dumps(answers))
    return assess(file)


def test_all_takes_the_supervisors_of_boxes(squares: Run) -> None:
    supervisors = {s.name: s for s in squares.record.sections["supervision"].supervisors}
    for name in (*OF_BOXES, "fused"):
        assert supervisors[name].applicable and supervisors[name].threshold is not None
    left_out = next(n for n in squares.record.notes if "leaves out" in n)
    assert "max_softmax" in left_out and not any(name in left_out for name in OF_BOXES)


def test_every_case_has_the_score_of_its_own_boxes(squares: Run) -> None:
    cases = RunFolder.open(squares.folder).cases()
    rows = json.loads((squares.folder.parents[1] / "predictions.json").read_text())
    scores = {row["id"]: np.array(row["scores"]) for row in rows}
    assert len(cases["case"]) == 80 and cases["failure"].sum() > 20
    for case, found in zip(cases["case"], cases["lowest_kept_score"], strict=True):
        kept = scores[case][scores[case] >= 0.5]
        assert found == pytest.approx(1 - kept.min() if len(kept) else scores[case].max())


def test_the_run_compiles_into_a_monitor_that_reads_them(squares: Run) -> None:
    bundle = bundle_of(squares)
    names = bundle.calibration.names
    assert len({*OF_BOXES} & {*names}) > 2 and bundle.calibration.kinds == ("clean", "haze")
    cases = RunFolder.open(squares.folder).cases()
    hazy = cases["circumstance"] == "haze"
    accuracies = []
    for rows in (~hazy, hazy):
        monitor = Monitor(bundle)
        scores = {name: np.repeat(cases[name][rows], 5) for name in names}
        monitor.update(Events(columns=scores))
        accuracies.append(monitor.risk().accuracy)
    assert accuracies[0] > accuracies[1]
