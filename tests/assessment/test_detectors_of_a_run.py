"""Detectors in an ONNX file and behind a server, from the assessment file to the measure."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from roadworthy import SpecError, assess
from roadworthy.assessment.assess import Run
from roadworthy.data.loaders.boxes import Size
from roadworthy.data.loaders.coco import coco_document
from roadworthy.data.png import encode_png
from roadworthy.data.values import BOXES, Boxes
from roadworthy.subject.adapters.image_models import tensor_answers

SIDE, CELL = 32, 8
NAMES = ("grey", "white")
LEVELS = (150, 240)
CORNERS = np.array(
    [[x, y, x + CELL, y + CELL] for y in range(0, SIDE, CELL) for x in range(0, SIDE, CELL)],
    np.float32,
)
FLOOR, WHITE = 0.4, 0.8


def scenes(folder: Path, names: tuple[str, ...] = NAMES) -> None:
    """A COCO set of grey and white squares on black, none in every third image; `names` orders the categories."""
    (folder / "img").mkdir()
    rng, pictures = np.random.default_rng(0), []
    for i in range(12):
        image, chosen = np.zeros((SIDE, SIDE), np.uint8), rng.permutation(16)[: i % 3]
        labels = rng.integers(0, 2, len(chosen))
        for (x1, y1, x2, y2), label in zip(CORNERS[chosen].astype(int), labels, strict=True):
            image[y1:y2, x1:x2] = LEVELS[label]
        (folder / "img" / f"{i}.png").write_bytes(encode_png(image))
        places = [names.index(NAMES[label]) for label in labels]
        pictures.append((f"{i}.png", Boxes.of(CORNERS[chosen], places), Size(SIDE, SIDE)))
    (folder / "test.json").write_text(json.dumps(coco_document(pictures, names)))


def assessed(folder: Path, **subject: object) -> Run:
    content = {
        "subject": {"task": "detection", "input": {"scale": 255}, **subject},
        "data": {"test": {"coco": folder / "test.json", "images": folder / "img"}},
        "circumstances": {"dim": {"transform": "contrast", "levels": [5]}},
    }
    return assess(content, runs=folder / "runs")


def onnx_detector(file: Path, *, fixed: bool, names: tuple[str, ...] = ()) -> Path:
    """The mean of every cell is its score, NMS inside; `fixed` pads to five rows of score 0."""
    node, floats, whole = helper.make_node, TensorProto.FLOAT, TensorProto.INT64
    constants = {
        "corners": CORNERS,
        "one_image": CORNERS[None],
        "flat": np.array([1, 1, 16]),
        "line": np.array([-1]),
        "most": np.array([5]),
        "same": np.array([0.5], np.float32),
        "floor": np.array([FLOOR], np.float32),
        "white": np.array(WHITE, np.float32),
        "two": np.array(2),
        "zero": np.array(0, np.float32),
        "first": np.array([0]),
    }
    nodes = [
        node("AveragePool", ["image"], ["cells"], kernel_shape=[CELL] * 2, strides=[CELL] * 2),
        node("Reshape", ["cells", "flat"], ["scored"]),
        node("Reshape", ["cells", "line"], ["every"]),
        node("NonMaxSuppression", ["one_image", "scored", "most", "same", "floor"], ["selected"]),
        node("Gather", ["selected", "two"], ["kept"], axis=1),
        node("Gather", ["corners", "kept"], ["b"]),
        node("Gather", ["every", "kept"], ["s"]),
        node("Greater", ["s", "white"], ["is_white"]),
        node("Cast", ["is_white"], ["l"], to=whole),
    ]
    for row, name in (("b", "boxes"), ("l", "labels"), ("s", "scores")):
        if not fixed:
            nodes.append(node("Identity", [row], [name]))
            continue
        # Five rows, those beyond the detections 0, and an axis of images.
        pad = numpy_helper.from_array(
            np.array([0, 0, 5, 0] if row == "b" else [0, 5]), f"pad_{row}"
        )
        end = numpy_helper.from_array(np.array([5]), f"end_{row}")
        constants |= {pad.name: numpy_helper.to_array(pad), end.name: numpy_helper.to_array(end)}
        nodes += [
            node("Pad", [row, pad.name], [f"{row}_padded"]),
            node("Slice", [f"{row}_padded", "first", end.name], [f"{row}_five"]),
            node("Unsqueeze", [f"{row}_five", "first"], [name]),
        ]
    rows = [1, 5] if fixed else ["m"]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("image", floats, [1, 1, SIDE, SIDE])],
        [
            helper.make_tensor_value_info("boxes", floats, [*rows, 4]),
            helper.make_tensor_value_info("labels", whole, rows),
            helper.make_tensor_value_info("scores", floats, rows),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if names:
        helper.set_model_props(model, {"names": str(dict(enumerate(names)))})
    onnx.save(model, str(file))
    return file


def right_when_clean_and_blind_when_dim(run: Run) -> None:
    assert run.finding("ap50").value == pytest.approx(1.0)
    assert run.finding("ap50", circumstance="dim", level=5).value < 0.5
    assert run.cases["status"].to_pylist() == ["ok"] * 24


@pytest.mark.parametrize("fixed", [False, True])
def test_an_onnx_detector_is_assessed(tmp_path, fixed):
    scenes(tmp_path)
    file = onnx_detector(tmp_path / "detector.onnx", fixed=fixed)
    right_when_clean_and_blind_when_dim(assessed(tmp_path, onnx=file))


def test_labels_of_boxes_are_read_by_the_names_that_the_subject_gives_them(tmp_path):
    scenes(tmp_path, names=NAMES[::-1])
    silent = onnx_detector(tmp_path / "silent.onnx", fixed=False)
    assert assessed(tmp_path, onnx=silent).finding("ap50").value < 0.1
    named = onnx_detector(tmp_path / "named.onnx", fixed=False, names=NAMES)
    run = assessed(tmp_path, onnx=named)
    assert run.finding("ap50").value == pytest.approx(1.0)
    assert run.record.subject.classes == list(NAMES)
    stated = assessed(tmp_path, onnx=silent, classes=["grey", "white", "red"])
    assert stated.finding("ap50").value == pytest.approx(1.0)
    with pytest.raises(SpecError, match="'white' is none of the subject's classes"):
        assessed(tmp_path, onnx=silent, classes=["grey", "whit"])


def detections(images: np.ndarray) -> list[np.ndarray]:
    """The same detector in numpy: boxes, labels and scores of four rows an image, padded with 0."""
    cells = images.reshape(len(images), 4, CELL, 4, CELL).mean(axis=(2, 4)).reshape(-1, 16)
    best = np.argsort(-cells, axis=1)[:, :4]
    scores = np.take_along_axis(cells, best, axis=1)
    scores[scores < FLOOR] = 0
    return [CORNERS[best] * (scores > 0)[..., None], (scores > WHITE).astype(np.int32), scores]


class Handler(BaseHTTPRequestHandler):
    """Open Inference Protocol v2, tensors as JSON; `batch` is the model's axis of images, if it has one."""

    protocol_version = "HTTP/1.1"
    batch: list[int]
    names = ("boxes", "labels", "scores")
    scale = 1.0
    asked: list[int]

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        outputs = [{"name": n, "datatype": "FP32", "shape": [*self.batch, 4]} for n in self.names]
        images = {"name": "image", "datatype": "FP32", "shape": [-1, 1, SIDE, SIDE]}
        self.answer({"name": "detector", "inputs": [images], "outputs": outputs[:1] + [
            {**o, "shape": o["shape"][:-1]} for o in outputs[1:]]})  # fmt: skip

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (tensor,) = request["inputs"]
        images = np.array(tensor["data"], np.float32).reshape(tensor["shape"])
        self.asked.append(len(images))
        boxes, labels, scores = detections(images)
        found = [boxes * self.scale, labels, scores]
        if len(self.batch) == 1:
            found = [part[0][scores[0] > 0] for part in found]
        self.answer({"outputs": [
            {"name": n, "shape": v.shape, "datatype": t, "data": v.ravel().tolist()}
            for n, v, t in zip(self.names, found, ("FP32", "INT32", "FP32"), strict=True)]})  # fmt: skip

    def answer(self, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(**settings: object) -> Iterator[dict[str, str]]:
    handler = type("Configured", (Handler,), settings)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield {"server": f"http://127.0.0.1:{server.server_address[1]}", "model": "detector"}
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("batch", "most"), [([-1, 4], 12), ([-1], 1)])
def test_a_detector_behind_a_server_is_assessed(tmp_path, batch, most):
    scenes(tmp_path)
    asked: list[int] = []
    with serving(batch=batch, asked=asked) as subject:
        right_when_clean_and_blind_when_dim(assessed(tmp_path, **subject))
    assert max(asked) == most


def test_other_layouts_are_refused_with_the_one_that_is_expected(tmp_path):
    scenes(tmp_path)
    expected = r"boxes \(n, m, 4\) as x1 y1 x2 y2 in pixels, labels \(n, m\) and scores \(n, m\)"
    named = {"names": ("dets", "labels", "scores")}
    refused = pytest.raises(SpecError, match=f"no output 'boxes'; .*{expected}")
    with serving(batch=[-1], asked=[], **named) as subject, refused:
        assessed(tmp_path, **subject)
    with serving(batch=[-1, 4], scale=1 / SIDE, asked=[]) as subject:
        run = assessed(tmp_path, **subject)
    errors = {e for e in run.cases["error_message"].to_pylist() if e}
    assert len(errors) == 1 and "boxes between 0 and 1; expected: boxes (n, m, 4)" in errors.pop()
    table = {"boxes": np.ones((1, 5, 6)), "labels": np.ones((1, 5)), "scores": np.ones((1, 5))}
    with pytest.raises(ValueError, match=rf"boxes \(1, 5, 6\), labels .* expected: {expected}"):
        tensor_answers(table, None, 1, BOXES)


def test_a_label_beyond_the_classes_is_refused_by_its_place(tmp_path):
    scenes(tmp_path)
    rows = [{"id": "0.png", "boxes": [], "labels": [], "scores": []},
            {"id": "1.png", "boxes": [[0, 0, 8, 8]], "labels": [2], "scores": [0.9]}]  # fmt: skip
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    coco = [{"image_id": "1.png", "category_id": 2, "bbox": [0, 0, 8, 8], "score": 0.9}]
    (tmp_path / "p.json").write_text(json.dumps(coco))
    content = {"data": {"test": {"coco": tmp_path / "test.json", "images": tmp_path / "img"}}}
    for file, where, more in (
        ("p.jsonl", "p.jsonl, line 2", ""),
        ("p.json", "p.json, image 1.png", "; name the COCO file of its category ids"),
    ):
        says = f"{where} has the label 2; the 2 classes are numbered 0 to 1{more}"
        with pytest.raises(SpecError) as caught:
            assess({**content, "subject": {"task": "detection", "predictions": tmp_path / file}})
        assert says in str(caught.value)
    known = {"predictions": tmp_path / "p.json", "annotations": str(tmp_path / "test.json")}
    coco[0]["image_id"] = 2
    (tmp_path / "p.json").write_text(json.dumps(coco))
    run = assess({**content, "subject": {"task": "detection", **known}}, runs=tmp_path / "runs")
    assert run.cases.num_rows == 12
