"""Exported inputs are, value by value, what the subject gets in a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.assessment.export import export, planned
from roadworthy.data.loaders.audio import read_wav
from roadworthy.data.png import encode_png
from roadworthy.spec import Assessment

pytestmark = pytest.mark.usefixtures("no_monitor")

RECORD = '''
import numpy as np

SEEN = {{}}


def {name}({argument}):
    """Remembers what it was given."""
    SEEN[len(SEEN)] = {argument}
    return {answer}
'''


def read(folder: Path, text: str) -> Assessment:
    file = folder / "assessment.yaml"
    file.write_text(text)
    return Assessment.read(file)


def seen_by(folder: Path, spec: Assessment) -> list:
    """What a subject in this process is given, in the order of the cases."""
    import sys

    assess(spec, runs=folder / "runs")
    module = next(
        m
        for n, m in sys.modules.items()
        if n.startswith("roadworthy_subject") and str(folder) in str(m.__file__)
    )
    return list(module.SEEN.values())


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "cases.csv").open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    "images",
    [
        np.random.default_rng(0).integers(0, 256, (6, 8, 8), np.uint8),
        np.random.default_rng(0).integers(0, 256, (6, 8, 9, 3), np.uint8),
        np.random.default_rng(0).integers(0, 65536, (6, 8, 8)).astype(np.uint16),
        np.random.default_rng(0).random((6, 8, 8), np.float32),
    ],
    ids=["grey", "colour", "16 bit", "float"],
)
def test_images_are_what_the_subject_gets(tmp_path, images):
    import cv2

    np.savez(tmp_path / "test.npz", images=images, labels=np.arange(6) % 2)
    (tmp_path / "subject.py").write_text(
        RECORD.format(name="predict", argument="image", answer="[0.0, 1.0]")
    )
    spec = read(
        tmp_path,
        "subject: {task: classification, python: subject.py:predict}\ndata: {test: {npz: test.npz}}\nmedia: none\n"
        "circumstances: {noise: {transform: gaussian_noise, levels: [2]}, blur: {transform: motion_blur, levels: [0, 1]}}\n",
    )
    done = export(spec, tmp_path / "png")
    seen = seen_by(tmp_path, spec)
    assert done.cases == len(seen) == 24
    for row, given in zip(rows(tmp_path / "png"), seen, strict=True):
        file = tmp_path / "png" / row["file"]
        if file.suffix == ".npy":
            found = np.load(file)
        else:
            found = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
            found = found[..., ::-1] if found.ndim == 3 else found
        np.testing.assert_array_equal(found, given)
        assert found.dtype == np.asarray(given).dtype == images.dtype


def test_recordings_are_what_the_subject_gets(tmp_path):
    from scipy.io import wavfile

    (tmp_path / "clips").mkdir()
    for i in range(3):
        wave = np.random.default_rng(i).normal(0, 3000, 400 + i).astype(np.int16)
        wavfile.write(tmp_path / f"clips/{i}.wav", 8000, wave)
        (tmp_path / f"clips/{i}.txt").write_text("hello")
    (tmp_path / "subject.py").write_text(
        RECORD.format(name="transcribe", argument="audio", answer="'hello'")
    )
    spec = read(
        tmp_path,
        "subject: {task: speech, python: subject.py:transcribe}\ndata: {test: {audio: clips}}\nmedia: none\n"
        "circumstances: {noise: {transform: background_noise, levels: [1]}}\n",
    )
    export(spec, tmp_path / "out")
    seen = seen_by(tmp_path, spec)
    assert len(seen) == 6
    for row, given in zip(rows(tmp_path / "out"), seen, strict=True):
        found = read_wav(tmp_path / "out" / row["file"])
        assert found.rate == given.rate
        np.testing.assert_array_equal(found.wave, given.wave)


def test_frames_are_what_a_stepwise_subject_gets_and_answers_by_case_come_back(tmp_path):
    import cv2

    for name in ("a", "b"):
        (tmp_path / f"video/{name}/img1").mkdir(parents=True)
        (tmp_path / f"video/{name}/gt").mkdir()
        for t in range(3):
            frame = np.random.default_rng(t).integers(0, 256, (16, 16), np.uint8)
            (tmp_path / f"video/{name}/img1/{t + 1:06}.png").write_bytes(encode_png(frame))
        (tmp_path / f"video/{name}/gt/gt.txt").write_text(
            "".join(f"{t},1,2,2,5,5,1,1,1\n" for t in (1, 2, 3))
        )
    answer = "Tracks.of([0], [1], [[1, 1, 6, 6]])"
    source = RECORD.format(name="track", argument="frame", answer=answer)
    (tmp_path / "subject.py").write_text("from roadworthy.data.values import Tracks\n" + source)
    text = (
        "subject: {task: tracking, SUBJECT}\ndata: {test: {frames: video}}\nmedia: none\n"
        "circumstances: {noise: {transform: gaussian_noise, levels: [1]}}\n"
    )
    spec = read(tmp_path, text.replace("SUBJECT", "python: subject.py:track"))
    export(spec, tmp_path / "out")
    seen = seen_by(tmp_path, spec)
    listed = rows(tmp_path / "out")
    written = [
        cv2.imread(str(f), -1)
        for r in listed
        for f in sorted((tmp_path / "out" / r["file"]).iterdir())
    ]
    assert len(written) == len(seen) == 12
    for found, given in zip(written, seen, strict=True):
        np.testing.assert_array_equal(found, np.asarray(given).squeeze())
    tracks = [[t, 1, 1.0, 1.0, 6.0, 6.0] for t in range(3)]
    lines = [json.dumps({"id": r["id"], "tracks": tracks}) + "\n" for r in listed]
    (tmp_path / "answers.jsonl").write_text("".join(lines))
    here = json.loads((assess(spec, runs=tmp_path / "runs").folder / "findings.json").read_text())
    back = assess(
        read(tmp_path, text.replace("SUBJECT", "predictions: answers.jsonl")),
        runs=tmp_path / "back",
    )
    assert back.record.cases.failed == 0
    assert json.loads((back.folder / "findings.json").read_text()) == here


def test_goals_and_vectors_are_json_lines(tmp_path):
    goals = [
        {"id": f"g{i}", "goal": {"area": "north", "stars": i}, "metadata": {}} for i in range(3)
    ]
    (tmp_path / "goals.json").write_text(json.dumps(goals))
    spec = read(
        tmp_path,
        "subject: {task: dialogue, predictions: later.jsonl}\ndata: {test: {dialogue: goals.json}}\n",
    )
    export(spec, tmp_path / "goals")
    lines = [
        json.loads(line) for line in (tmp_path / "goals/inputs.jsonl").read_text().splitlines()
    ]
    assert lines == [{"id": g["id"], "goal": g["goal"]} for g in goals]
    (tmp_path / "table.csv").write_text("a,b,label\n0.1,2,x\n3,4,y\n")
    spec = read(
        tmp_path,
        "subject: {task: classification, predictions: later.jsonl}\ndata: {test: {csv: table.csv, features: [a, b]}}\n",
    )
    export(spec, tmp_path / "vectors")
    first = json.loads((tmp_path / "vectors/inputs.jsonl").read_text().splitlines()[0])
    np.testing.assert_allclose(first["vector"], [0.1, 2], rtol=1e-6)


def test_a_broken_image_is_left_out_and_named(tmp_path):
    for name in ("x/1.png", "x/2.png", "y/3.png"):
        (tmp_path / "img" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "img" / name).write_bytes(encode_png(np.zeros((4, 4), np.uint8)))
    (tmp_path / "img/x/2.png").write_bytes(b"no image")
    spec = read(
        tmp_path,
        "subject: {task: classification, predictions: later.jsonl}\ndata: {test: {image_folder: img}}\n",
    )
    done = export(spec, tmp_path / "out")
    assert (done.cases, list(done.failed)) == (2, ["x/2.png"])
    assert "1 cases could not be made" in (tmp_path / "out/README.txt").read_text()


def test_the_order_of_scores_is_said_with_its_source(tmp_path):
    for name in ("x/1.png", "y/2.png"):
        (tmp_path / "img" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "img" / name).write_bytes(encode_png(np.zeros((4, 4), np.uint8)))
    says = {
        "": "(inferred from the labels of the test data): x, y.",
        ", classes: [y, x]": "(from `classes` under `subject`): y, x.",
    }
    for number, (more, line) in enumerate(says.items()):
        text = f"subject: {{task: classification, predictions: later.jsonl{more}}}\ndata: {{test: {{image_folder: img}}}}\n"
        export(read(tmp_path, text), tmp_path / f"out{number}")
        assert line in (tmp_path / f"out{number}/README.txt").read_text()


def test_reference_cases_are_exported_when_a_supervisor_learns_from_answers(tmp_path):
    spec = read(
        tmp_path,
        "subject: {task: classification, predictions: later.jsonl}\n"
        "data: {test: {bundled: fashion-mnist, split: test, n: 4}, reference: {bundled: fashion-mnist, split: reference, n: 3}}\n"
        "supervisors: [max_softmax]\n",
    )
    plan = planned(spec)
    learns = any(s.applicable and s.supervisor.fitted for s in plan.supervisions)
    ids = [c.case_id(i) for c in plan.conditions for i in plan.data[c.role].ids]
    assert len(ids) == 4 + 3 * learns
    assert len(set(ids)) == len(ids)
