"""Predictions from files: read to the last bit, and refused by a message that names the line."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roadworthy.data.values import TASKS, Boxes, Episode, Tracks
from roadworthy.registry import get
from roadworthy.subject.module import SubjectError
from roadworthy.subject.needs import Layer, Output
from roadworthy.subject.system import Cases

RNG = np.random.default_rng(3)
ENDINGS = ["jsonl", "csv", "parquet", "npz"]


def build(folder, path, task="classification", **more):
    return get("adapters", "predictions").bind(path=path, base=folder, task=TASKS[task], **more)()


def answers(folder, path, ids, task="classification", **more):
    return build(folder, path, task, **more).run(Cases(ids, [np.zeros((1, 1))] * len(ids)))[
        "system"
    ]


def write(file, ids, numbers, *, errors=None, key="scores"):
    """A file of rows of numbers as a user's script would write it."""
    why = errors or [None] * len(ids)
    if file.suffix == ".jsonl":
        rows = [
            {
                "id": i,
                **({"error": e} if e else {key: [str(v) if not np.isfinite(v) else v for v in n]}),
            }
            for i, n, e in zip(ids, np.asarray(numbers).tolist(), why, strict=True)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".csv":
        with file.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", *(f"{key}_{k}" for k in range(np.shape(numbers)[1])), "error"])
            for i, n, e in zip(ids, np.asarray(numbers), why, strict=True):
                writer.writerow([i, *([""] * len(n) if e else n.tolist()), e or ""])
    elif file.suffix == ".parquet":
        column = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ravel(numbers)), np.shape(numbers)[1]
        )
        pq.write_table(
            pa.table({"id": ids, key: column, "error": pa.array(why, pa.string())}), file
        )
    else:
        np.savez(file, id=np.array(ids), error=np.array([e or "" for e in why]), **{key: numbers})


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_come_back_to_the_last_bit(tmp_path, ending, dtype):
    scores = RNG.normal(size=(30, 4)).astype(dtype) * np.array([1e-30, 1, 1e5, 1e30], dtype)
    ids = [f"case {i}, ä" for i in range(30)]
    write(tmp_path / f"p.{ending}", ids, scores)
    order = RNG.permutation(30)
    trace = answers(tmp_path, f"p.{ending}", [ids[i] for i in order])
    assert trace.ok.all() and trace.output.dtype == dtype
    assert trace.output.tobytes() == scores[order].tobytes()


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float32, (3, 2), elements=st.floats(allow_nan=False, allow_infinity=False, width=32))
)
def test_any_float32_comes_back_from_json_lines(tmp_path_factory, scores):
    folder = tmp_path_factory.mktemp("p")
    write(folder / "p.jsonl", ["a", "b", "c"], scores, key="vector")
    assert (
        answers(folder, "p.jsonl", ["a", "b", "c"], "regression").output.tobytes()
        == scores.tobytes()
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_failures_travel_with_their_reasons(tmp_path, ending):
    scores = np.array([[0.25, 0.75], [1, 0], [0.5, 0.5]], dtype=np.float32)
    errors = [None, "the camera was dark", None]
    write(tmp_path / f"p.{ending}", list("abc"), scores, errors=errors)
    trace = answers(tmp_path, f"p.{ending}", list("abcd"))
    missing = f"no prediction for this case in p.{ending}"
    assert trace.error.tolist() == [None, "the camera was dark", None, missing]
    np.testing.assert_array_equal(trace.output[[0, 2]], scores[[0, 2]])
    assert np.isnan(trace.output[[1, 3]]).all()


def test_numbers_that_are_not_finite_fail_their_row_alone(tmp_path):
    scores = np.array([[0.1, np.inf], [0.2, 0.8]], dtype=np.float32)
    for ending in ENDINGS:
        write(tmp_path / f"p.{ending}", ["a", "b"], scores)
        trace = answers(tmp_path, f"p.{ending}", ["a", "b"])
        assert "has 1 NaN or infinite value" in trace.error[0] and trace.error[1] is None
        np.testing.assert_array_equal(trace.output, scores)


ITEMS = {
    "detection": (
        {"boxes": [[0.0, 1.5, 2.0, 3.0]], "labels": [1], "scores": [0.25]},
        Boxes.of([[0, 1.5, 2, 3]], [1], [0.25]),
    ),
    "tracking": (
        {"tracks": [[0.0, 7.0, 0.0, 0.0, 1.0, 1.0]]},
        Tracks.of([0], [7], [[0, 0, 1, 1]]),
    ),
    "speech": ({"text": 'go left, then\n"right"'}, 'go left, then\n"right"'),
    "dialogue": (
        {"episode": json.dumps({"turns": [{"user": "hi"}], "outcome": {"area": "north"}})},
        Episode(({"user": "hi"},), {"area": "north"}),
    ),
}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("task", ITEMS)
def test_every_kind_is_read_whole(tmp_path, task, ending):
    fields, want = ITEMS[task]
    rows = [{"id": "a", **fields}, {"id": "b", "error": "there was no answer"}]
    if ending == "jsonl":
        (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows, schema=_schema(rows)), tmp_path / "p.parquet")
    trace = answers(tmp_path, f"p.{ending}", list("ab"), task)
    assert trace.error.tolist() == [None, "there was no answer"]
    kind = TASKS[task].output
    got, expected = kind.pack(trace.output), kind.pack([want, None])
    for part in expected:
        np.testing.assert_array_equal(got[part], expected[part])


def _schema(rows):
    found = pa.Table.from_pylist(rows[:1]).schema
    return found.append(pa.field("error", pa.string()))


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_boxes_are_refused_in_files_that_hold_only_numbers(tmp_path, ending):
    write(tmp_path / f"p.{ending}", ["a"], [[0.5, 0.5]])
    with pytest.raises(SubjectError, match="JSON lines"):
        build(tmp_path, f"p.{ending}", "detection")


def test_a_run_in_process_and_its_predictions_in_files_are_one(tmp_path):
    (tmp_path / "subject.py").write_text(
        "import numpy as np\n"
        "def predict(images): return np.stack([np.sin(images).sum((1, 2)), np.cos(images).sum((1, 2))], 1).astype('f4')\n"
    )
    images, ids = RNG.random((12, 5, 5)), [str(i) for i in range(12)]
    images[4] = np.nan
    system = get("adapters", "python").bind(
        path="subject.py:predict", base=tmp_path, task=TASKS["classification"], batched=True
    )()
    there = system.run(Cases(ids, images))["system"]
    for ending in ENDINGS:
        write(tmp_path / f"p.{ending}", ids, there.output, errors=there.error.tolist())
        here = build(tmp_path, f"p.{ending}").run(Cases(ids, images))["system"]
        assert here.error.tolist() == there.error.tolist()
        assert np.asarray(here.output).tobytes() == np.asarray(there.output).tobytes()


def test_bare_labels_become_one_hot(tmp_path):
    (tmp_path / "p.csv").write_text("id,label\na,2\nb,0\n")
    (tmp_path / "p.jsonl").write_text('{"id": "a", "label": 2}\n{"id": "b", "label": 0}\n')
    for name in ("p.csv", "p.jsonl"):
        assert answers(tmp_path, name, ["a", "b"]).output.tolist() == [[0, 0, 1], [1, 0, 0]]
        assert answers(tmp_path, name, ["a", "b"], classes=5).output.shape == (2, 5)
        with pytest.raises(
            SubjectError,
            match="line 2 has the label 2; with 2 classes" if name == "p.csv" else "line 1",
        ):
            build(tmp_path, name, classes=2)


def test_numbered_columns_are_taken_by_their_number(tmp_path):
    names = sorted(f"class_{i}" for i in range(12))
    (tmp_path / "p.csv").write_text(
        ",".join(["id", *names]) + "\n" + ",".join(["a", *(n[6:] for n in names)]) + "\n"
    )
    assert answers(tmp_path, "p.csv", ["a"]).output[0].tolist() == list(range(12))
    (tmp_path / "q.csv").write_text("id,shoe,bag\na,0.25,0.75\n")
    assert answers(tmp_path, "q.csv", ["a"]).output[0].tolist() == [0.25, 0.75]


def test_a_folder_is_read_as_one(tmp_path):
    folder = tmp_path / "preds"
    folder.mkdir()
    write(folder / "one.jsonl", ["a"], [[0.5, 0.5]])
    write(folder / "two.npz", ["b", "c"], np.eye(2, dtype=np.float32))
    write(folder / "three.csv", ["d"], [[0.0]], errors=["dark"])
    (folder / "README.md").write_text("made on the target")
    system = build(tmp_path, "preds")
    module = system.modules["model"]
    trace = system.run(Cases(list("dcba"), [0] * 4))["system"]
    assert trace.output[1:].tolist() == [[0, 1], [1, 0], [0.5, 0.5]] and trace.ok.tolist() == [
        False,
        True,
        True,
        True,
    ]
    assert [f.name for f in module.files] == ["one.jsonl", "three.csv", "two.npz"]
    assert module.unused(["a", "d"]) == ["b", "c"]
    write(folder / "four.jsonl", ["a"], [[0.5, 0.5]])
    with pytest.raises(
        SubjectError,
        match=r"'a' has two predictions: four\.jsonl, line 1 and one\.jsonl, line 1",
    ):
        build(tmp_path, "preds")


RESULTS = [
    {"image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4], "score": 0.5},
    {"image_id": 7, "category_id": 3, "bbox": [0, 0, 1, 1], "score": 0.25},
]


def test_coco_results_are_boxes_by_image(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    boxes = answers(tmp_path, "results.json", ["7", "8"], "detection").output
    assert boxes[0].xyxy.tolist() == [[1, 2, 4, 6], [0, 0, 1, 1]] and boxes[0].labels.tolist() == [
        90,
        3,
    ]
    assert len(boxes[1]) == 0
    images = [{"id": 7, "file_name": "seven.png"}, {"id": 8, "file_name": "eight.png"}]
    categories = [{"id": 90, "name": "bag"}, {"id": 3, "name": "car"}]
    (tmp_path / "truth.json").write_text(
        json.dumps({"images": images, "categories": categories, "annotations": []})
    )
    trace = answers(
        tmp_path,
        "results.json",
        ["seven.png", "eight.png", "x"],
        "detection",
        annotations="truth.json",
    )
    assert trace.output[0].labels.tolist() == [1, 0] and len(trace.output[1]) == 0
    assert trace.error.tolist() == [None, None, "no prediction for this case in results.json"]
    (tmp_path / "results.json").write_text(json.dumps([{**RESULTS[0], "image_id": 9}]))
    with pytest.raises(
        SubjectError, match="entry 0 is of the image 9, which the annotations do not list"
    ):
        build(tmp_path, "results.json", "detection", annotations="truth.json")
    (tmp_path / "results.json").write_text(json.dumps([{**RESULTS[0], "category_id": 4}]))
    with pytest.raises(SubjectError, match="is of the category 4, which the annotations do not"):
        build(tmp_path, "results.json", "detection", annotations="truth.json")
    (tmp_path / "results.json").write_text(
        json.dumps([RESULTS[1], {**RESULTS[0], "bbox": [5, 5, -1, 2]}])
    )
    with pytest.raises(SubjectError, match=r"entry 1 has a box whose second corner .* image 7"):
        build(tmp_path, "results.json", "detection", annotations="truth.json")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.jsonl", "", "holds no predictions"),
        (
            "p.jsonl",
            '{"id": "a", "scores": [1, 0]}\n{"id": "a", "scores": [1, 0]}\n',
            "two predictions: p.jsonl, line 1",
        ),
        (
            "p.jsonl",
            '{"id": "a", "scores": [1, 0]}\n\n{"id": "b", "scores": [1]}\n',
            "line 3 has 1 numbers; .* 2 numbers",
        ),
        ("p.jsonl", '{"id": "a", "scores": [1, 0]}\n{"id": ', "line 2: is not JSON"),
        ("p.jsonl", '{"scores": [1, 0]}\n', "line 1 has no id"),
        ("p.jsonl", '{"id": "a", "text": "x"}\n', "line 1 has no 'scores'; .* it has: id, text"),
        ("p.jsonl", '{"id": "a", "scores": ["x"]}\n', "line 1 holds scores that are not numbers"),
        ("p.csv", "id,a,b\n1,0.5,0.5\n2,0.5\n", "line 3: has 2 cells for 3 columns"),
        ("p.csv", "id,a,b\n1,0.5,half\n", "line 2 holds scores that are not numbers .*'half'"),
        ("p.csv", "id,a,b\n", "has no rows"),
        ("p.csv", "id\n1\n", "no columns beside the id"),
        ("p.csv", "case,a\n1,2\n", "no column 'id'"),
        ("p.csv", "id,label\n1,shoe\n", "line 2 has the label 'shoe'; the index of a class"),
        ("p.json", "{}", "a list of predictions was expected"),
        ("p.npz", "PK?", "cannot be read as npz"),
        ("p.parquet", "PAR1?", "cannot be read as Parquet"),
        ("p.txt", "x", "no file of predictions"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(SubjectError, match=says):
        build(tmp_path, name)


@pytest.mark.parametrize(
    ("task", "row", "says"),
    [
        (
            "detection",
            {"boxes": [[0, 0, 1]], "labels": [1], "scores": [1]},
            "the boxes is dict",
        ),
        (
            "detection",
            {"boxes": [[0, 0, 1, 1]], "labels": [1, 2], "scores": [1]},
            "1 boxes, 2 labels and 1 scores",
        ),
        ("tracking", {"tracks": [[0, 1, 0, 0, 1]]}, "tracks that are not rows"),
        ("speech", {"text": 3}, "the text is int"),
        ("dialogue", {"episode": {"turns": 3}}, "without a list of turns"),
    ],
)
def test_rows_of_other_kinds_are_checked_too(tmp_path, task, row, says):
    (tmp_path / "p.jsonl").write_text(json.dumps({"id": "a", **row}))
    with pytest.raises(SubjectError, match=f"line 1.*{says}"):
        build(tmp_path, "p.jsonl", task)


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    np.savez(tmp_path / "p.npz", id=np.array(["a", "b"]), scores=np.eye(3))
    np.savez(tmp_path / "q.npz", id=np.array(["a", "b"]), logits=np.eye(2))
    with pytest.raises(SubjectError, match="2 ids and 3 predictions"):
        build(tmp_path, "p.npz")
    with pytest.raises(SubjectError, match="no array 'scores'; it has: id, logits"):
        build(tmp_path, "q.npz")
    with pytest.raises(SubjectError, match="no file or folder of predictions"):
        build(tmp_path, "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SubjectError, match="holds no predictions"):
        build(tmp_path, "empty")


def test_the_fingerprint_is_of_the_contents(tmp_path):
    prints = []
    for name, scores in (("p", [[0.5, 0.5]]), ("q", [[0.5, 0.5]]), ("r", [[0.25, 0.75]])):
        write(tmp_path / f"{name}.jsonl", ["a"], scores)
        prints.append(build(tmp_path, f"{name}.jsonl").fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_a_file_shows_nothing_but_its_predictions(tmp_path):
    write(tmp_path / "p.jsonl", ["a"], [[0.5, 0.5]])
    module = build(tmp_path, "p.jsonl").modules["model"]
    assert module.offers(Output()) is None
    assert module.offers(Layer("fc1")) == "a file of predictions shows no layer"
    with pytest.raises(SubjectError, match="by case"):
        module.step({"input": 0}, None, None)
