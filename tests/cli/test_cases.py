"""Cases exported, answered by a script that knows nothing of roadworthy, and assessed: the findings are those of a run here."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data import Boxes, load
from roadworthy.data.loaders.boxes import Size
from roadworthy.data.loaders.coco import coco_document
from roadworthy.data.png import encode_png

ELSEWHERE = """
import csv, json, sys, zlib
import numpy as np

folder, answers = sys.argv[1:3]


def pixels(file):
    data, at, parts = open(file, "rb").read(), 8, {}
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        parts[kind] = data[at + 8:at + 8 + size]
        at += size + 12
    width, height = np.frombuffer(parts[b"IHDR"][:8], ">u4")
    return np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)[:, 1:]


def scores(image):
    image = image.astype(np.float32)[None]
    left, right = image[:, :, :4].mean(axis=(1, 2)), image[:, :, 4:].mean(axis=(1, 2))
    return (np.stack([left, right], axis=1).astype(np.float32) / 255)[0].tolist()


rows = list(csv.DictReader(open(f"{folder}/cases.csv")))
inputs = {row["id"]: pixels(f"{folder}/{row['file']}") for row in rows}
with open(answers, "w") as out:
    for row in rows:
        out.write(json.dumps({"id": row["id"], "scores": scores(inputs[row["id"]])}) + "\\n")
"""


def answered(folder: Path, cases: Path, answers: Path) -> None:
    script = folder / "elsewhere.py"
    script.write_text(ELSEWHERE)
    subprocess.run([sys.executable, "-I", str(script), str(cases), str(answers)], check=True)


def findings(folder: Path) -> list[dict]:
    (found,) = folder.glob("*/findings.json")
    return json.loads(found.read_text())


def test_answers_from_elsewhere_give_the_findings_of_a_run_here(tiny, cli, tmp_path):
    assert cli("assess", tiny.file, "--runs", tmp_path / "here").code == 0
    absent = tiny.spec(**{"python: subject.py:predict": "predictions: answers.jsonl"})
    exported = cli("cases", "export", absent, "--out", tmp_path / "cases")
    assert exported.code == 0, exported.err
    assert "600 cases" in exported.out
    answered(tmp_path, tmp_path / "cases", tmp_path / "answers.jsonl")
    assert cli("assess", absent, "--runs", tmp_path / "back").code == 0
    assert findings(tmp_path / "here") == findings(tmp_path / "back")


def test_cases_that_are_not_answered_count_as_failed(tiny, cli, tmp_path):
    file = tiny.spec(**{"python: subject.py:predict": "predictions: answers.jsonl"})
    cli("cases", "export", file, "--out", tmp_path / "cases")
    answered(tmp_path, tmp_path / "cases", tmp_path / "answers.jsonl")
    lines = (tmp_path / "answers.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "answers.jsonl").write_text("".join(line for i, line in enumerate(lines) if i % 10))
    report = json.loads(cli("assess", file, "--json").out)
    assert report["cases"]["failed"] == 60
    assert "60 cases gave no answer" in report["warnings"][0]
    clean = next(f for f in report["findings"] if f["id"] == "accuracy | clean")
    # Every tenth of the 200 clean cases is missing: 20, two of them among the 20 that are answered wrongly anyway.
    assert (clean["failed"], clean["value"]) == (20, pytest.approx(1 - (20 + 18) / 200))


def test_the_table_names_every_case_and_the_readme_says_what_to_send_back(tiny, cli, tmp_path):
    file = tiny.spec(columns="groups: site, columns")
    assert cli("cases", "export", file, "--out", tmp_path / "cases").code == 0
    with (tmp_path / "cases/cases.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["id", "file", "sample", "circumstance", "level", "group"]
    assert [r["id"] for r in rows[199:202]] == ["199", "0~noise@1", "1~noise@1"]
    assert (rows[200]["circumstance"], rows[200]["level"], rows[200]["group"]) == (
        "noise",
        "1",
        "A",
    )
    assert all((tmp_path / "cases" / r["file"]).is_file() for r in rows)
    text = (tmp_path / "cases/README.txt").read_text()
    assert len(text.splitlines()) == 10
    assert '{"id": "CASE ID", "scores": [' in text and "roadworthy assess assessment.yaml" in text


def test_a_circumstance_inside_the_subject_is_refused_by_name(tiny, cli, tmp_path):
    file = tiny.spec(**{"levels: [1, 3]": "levels: [1, 3], port: model.images"})
    answer = cli("cases", "export", file, "--out", tmp_path / "cases")
    assert answer.code == 2
    assert (
        "circumstances.noise.port" in answer.err
        and "'noise' acts at the inner port 'model.images'" in answer.err
    )
    assert not (tmp_path / "cases").exists()


def test_a_folder_that_holds_something_is_left_alone(tiny, cli, tmp_path):
    answer = cli("cases", "export", tiny.file, "--out", tmp_path)
    assert answer.code == 2 and "not empty" in answer.err


@pytest.mark.parametrize("name", ["sheet.png", "sheet.jpg"])
def test_a_sheet_shows_every_image_transform_at_every_level(cli, tmp_path, name):
    import cv2

    image = Path(__file__).parents[1] / "cases/photos/coffee.jpg"
    said = cli("cases", "sheet", image, "--out", tmp_path / name)
    assert said.code == 0 and name in said.out
    sheet = cv2.imread(str(tmp_path / name))
    # Thumbnails are 112 pixels high: 16 rows in two blocks of 160 pixels for the name and 6 pictures.
    assert sheet.shape == (2 * 22 + 3 + 16 * 116, 2 * (160 + 6 * 116 + 4), 3)
    assert sheet[50:150, 280:900].std() > 20


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("sheet.gif", "ends in .png or .jpg"),
        ("nowhere/sheet.png", "there is no folder"),
        ("a.png", "which is read"),
    ],
)
def test_a_sheet_that_cannot_be_written_is_refused(cli, tmp_path, out, sentence):
    import cv2
    import numpy as np

    image = tmp_path / "a.png"
    cv2.imwrite(str(image), np.zeros((8, 8), np.uint8))
    answer = cli("cases", "sheet", image, "--out", tmp_path / out)
    assert answer.code == 2 and sentence in answer.err


def test_a_sheet_of_what_is_no_image_is_refused(cli, tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    answer = cli("cases", "sheet", tmp_path / "a.png", "--out", tmp_path / "sheet.png")
    assert answer.code == 2 and "cannot be decoded" in answer.err


def test_a_text_is_printed_before_and_after_every_text_transform(cli, tmp_path):
    text = tmp_path / "note.txt"
    text.write_text("Two separate rooms at 10:30", encoding="utf-8")
    shown = cli("cases", "sheet", text)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "before: Two separate rooms at 10:30" and len(lines) == 1 + 5 * 3
    assert "misspell 3: Two seperate rooms at 10:30" in lines
    assert "digits_to_words 3: Two separate rooms at ten:thirty" in lines
    text.write_bytes(b"\xff")
    assert "save it as UTF-8" in cli("cases", "sheet", text).err


def scenes(folder: Path) -> Path:
    """A COCO set of two classes, with a crowd and an image without objects, and an assessment file that moves them."""
    rng, pictures = np.random.default_rng(3), []
    (folder / "images").mkdir()
    for i in range(8):
        corners = rng.uniform(2, 20, (i % 3, 2))
        boxes = np.hstack([corners, corners + rng.uniform(4, 30, corners.shape)])
        crowd = [k == 1 for k in range(len(boxes))]
        truth = Boxes.of(boxes, rng.integers(0, 2, len(boxes)), ignore=crowd)
        pictures.append((f"{i}.png", truth, Size(60, 52)))
        image = rng.integers(0, 255, (52, 60), np.uint8)
        (folder / "images" / f"{i}.png").write_bytes(encode_png(image))
    (folder / "scenes.json").write_text(json.dumps(coco_document(pictures, ("van", "bus"))))
    (folder / "assessment.yaml").write_text(
        "subject: {task: detection, predictions: later.jsonl}\n"
        "data: {test: {coco: scenes.json, images: images}}\n"
        "circumstances:\n"
        "  turned: {transform: rotation, levels: [5], probability: 0.5}\n"
        "  cut: {transform: truncated_section, parameters: {share: 0.6}, probability: 0.5}\n"
    )
    return folder / "assessment.yaml"


def test_boxes_of_a_set_come_back_from_every_format(cli, tmp_path):
    file = scenes(tmp_path)
    places = {"coco": "annotations.json", "yolo": "labels", "voc": "annotations"}
    found = {}
    for form, place in places.items():
        out = tmp_path / form
        done = cli("cases", "make", file, "--out", out, "--n", 40, "--format", form)
        assert done.code == 0, done.err
        data = load({form: str(out / place), "images": str(out / "images")}, base=out, name=form)
        rows = zip(data.ids, data.targets, strict=True)
        found[form] = {
            name: [
                (data.classes[label], *box)
                for box, label, ignore in zip(t.xyxy, t.labels, t.ignore, strict=True)
                if not ignore
            ]
            for name, t in rows
        }
        ignored = sum(int(t.ignore.sum()) for t in data.targets)
        assert ignored == 0 if form == "yolo" else ignored > 4
    expected = found.pop("coco")
    assert len(expected) == 40 and not all(expected.values())
    assert sum(map(len, expected.values())) > 10
    for form, within in (("voc", 1e-4), ("yolo", 1e-4)):
        assert found[form].keys() == expected.keys()
        for name, objects in expected.items():
            assert [o[0] for o in found[form][name]] == [o[0] for o in objects]
            corners = [o[1:] for o in found[form][name]], [o[1:] for o in objects]
            np.testing.assert_allclose(*corners, atol=within)


def test_a_format_of_boxes_is_refused_for_labels(tiny, cli, tmp_path):
    file = tiny.spec(**{"levels: [1, 3]": "levels: [1, 3], probability: 0.5"})
    done = cli("cases", "make", file, "--out", tmp_path / "set", "--format", "voc")
    assert done.code == 2 and "no boxes to be written as voc; labels become folders" in done.err
