"""`roadworthy init`: what it writes is valid and can be planned, for every way in and form of data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from roadworthy.assessment.judgement import check_claims
from roadworthy.cli.discovery import data_at
from roadworthy.data.png import encode_png as encode
from roadworthy.data.samples import load
from roadworthy.execution.plan import Plan, resolve
from roadworthy.spec import Assessment

EXAMPLE = Path(__file__).parents[2] / "examples/fashion"
PICTURE = encode(np.zeros((8, 8), np.uint8))


def picture(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(PICTURE)


@pytest.mark.parametrize(
    ("subject", "adapter", "value"),
    [
        ("subject.py", "python", "subject.py:predict"),
        ("subject.py:predict", "python", "subject.py:predict"),
        ("fashion/model.py", "torch", "fashion/model.py:build"),
        ("fashion/weights.safetensors", "torch", "fashion/model.py:build"),
        ("fashion/model.onnx", "onnx", "fashion/model.onnx"),
        ("http://127.0.0.1:8000", "server", "http://127.0.0.1:8000"),
        ("answers.jsonl", "predictions", "answers.jsonl"),
        ("answers", "predictions", "answers"),
    ],
)
def test_every_way_in_gives_a_valid_file(tiny, cli, subject, adapter, value):
    shutil.copytree(EXAMPLE, tiny.folder / "fashion", ignore=shutil.ignore_patterns("runs"))
    (tiny.folder / "answers").mkdir()
    (tiny.folder / "answers/part.csv").write_text("id,scores_0,scores_1\n0,0,1\n")
    (tiny.folder / "answers.jsonl").write_text('{"id": "0", "scores": [0, 1]}\n')
    file = tiny.folder / "new.yaml"
    answer = cli("init", file, "--subject", subject, "--data", "test.npz")
    assert answer.code == 0, answer.err
    spec = Assessment.parse(file.read_text(), file)
    assert (spec.adapter, spec.subject[adapter], spec.task.name) == (
        adapter,
        value,
        "classification",
    )
    assert len(spec.claims) == (1 if adapter == "predictions" else 2)
    assert bool(spec.circumstances) == (adapter != "predictions")
    if adapter == "torch":
        assert spec.subject["weights"] == "fashion/weights.safetensors"
    assert f"next: roadworthy assess {file}" in answer.out


def test_what_it_wrote_is_assessed(tiny, cli):
    file = tiny.folder / "new.yaml"
    cli("init", file, "--subject", "subject.py", "--data", "test.npz")
    report = json.loads(cli("assess", file, "--json").out)
    assert report["verdict"] in ("met", "breached", "inconclusive")
    assert report["cases"]["total"] == 2000


def test_predictions_that_are_not_there_yet_lead_to_an_export(tiny, cli):
    file = tiny.folder / "new.yaml"
    answer = cli("init", file, "--subject", tiny.folder / "later.jsonl", "--data", "test.npz")
    assert "roadworthy cases export" in answer.out
    spec = Assessment.read(file)
    assert spec.subject["predictions"] == "later.jsonl"
    assert spec.circumstances
    assert cli("cases", "export", file, "--out", tiny.folder / "cases").code == 0


def test_what_is_there_is_found_when_nothing_is_said(tiny, cli):
    tiny.file.unlink()
    answer = cli("init", tiny.file)
    assert answer.code == 0, answer.err
    spec = Assessment.read(tiny.file)
    assert (spec.subject["python"], spec.data.test) == ("subject.py:predict", {"npz": "test.npz"})


def test_a_file_that_is_there_is_not_replaced(tiny, cli):
    before = tiny.file.read_text()
    answer = cli("init", tiny.file)
    assert answer.code == 2 and "exists" in answer.err
    assert tiny.file.read_text() == before


def test_nothing_to_go_by_is_said(tmp_path, cli):
    answer = cli("init", tmp_path / "a.yaml")
    assert answer.code == 2 and "--subject" in answer.err
    assert not (tmp_path / "a.yaml").exists()
    answer = cli("init", tmp_path / "a.yaml", "--subject", "model.xyz", "--data", "fashion-mnist")
    assert answer.code == 2 and "no known subject" in answer.err


def test_paths_are_those_seen_from_the_file(tiny, cli, monkeypatch):
    (tiny.folder / "deep").mkdir()
    monkeypatch.chdir(tiny.folder)
    assert cli("init", "deep/a.yaml", "--subject", "subject.py", "--data", "test.npz").code == 0
    spec = Assessment.read(Path("deep/a.yaml"))
    assert (spec.subject["python"], spec.data.test["npz"]) == (
        "../subject.py:predict",
        "../test.npz",
    )


def forms(folder: Path) -> None:
    """One small set of data of every form."""
    picture(folder / "classes/cat/1.png")
    picture(folder / "classes/dog/2.png")
    picture(folder / "img/1.png")
    picture(folder / "scenes/images/1.png")
    picture(folder / "scenes/masks/1.png")
    coco = {
        "images": [{"id": 1, "file_name": "1.png", "width": 8, "height": 8}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 3]}],
        "categories": [{"id": 1, "name": "car"}],
    }
    (folder / "test.json").write_text(json.dumps(coco))
    (folder / "drive.csv").write_text("image,target\nimg/1.png,0.5\n")
    (folder / "table.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    (folder / "clips").mkdir()
    wavfile.write(folder / "clips/a.wav", 8000, np.ones(80, np.int16))
    (folder / "clips/a.txt").write_text("hello")
    (folder / "goals.jsonl").write_text('{"id": "1", "goal": {"area": "north"}}\n')
    picture(folder / "video/one/img1/000001.png")
    (folder / "video/one/gt").mkdir()
    (folder / "video/one/gt/gt.txt").write_text("1,1,1,1,3,3,1,1,1\n")
    (folder / "idx").mkdir()
    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (2, 4, 4))
    (folder / "idx/t10k-images-idx3-ubyte").write_bytes(header + bytes(32))
    (folder / "idx/t10k-labels-idx1-ubyte").write_bytes(
        bytes([0, 0, 8, 1]) + (2).to_bytes(4, "big") + bytes([0, 1])
    )
    np.savez(folder / "rows.npz", x=np.zeros((4, 3), np.float32), y=np.arange(4) % 2)


@pytest.mark.parametrize(
    ("data", "loader", "task"),
    [
        ("classes", "image_folder", "classification"),
        ("scenes", "image_folder", "segmentation"),
        ("test.json", "coco", "detection"),
        ("drive.csv", "csv", "regression"),
        ("table.csv", "csv", "classification"),
        ("clips", "audio", "speech"),
        ("goals.jsonl", "dialogue", "dialogue"),
        ("video", "frames", "tracking"),
        ("idx", "idx", "classification"),
        ("idx/t10k-images-idx3-ubyte", "idx", "classification"),
        ("rows.npz", "npz", "classification"),
        ("fashion-mnist", "bundled", "classification"),
    ],
)
def test_every_form_of_data_gives_a_file_whose_data_can_be_read(tmp_path, cli, data, loader, task):
    forms(tmp_path)
    file = tmp_path / "assessment.yaml"
    answer = cli("init", file, "--subject", tmp_path / "later.jsonl", "--data", data)
    assert answer.code == 0, answer.err
    spec = Assessment.read(file)
    assert (next(iter(spec.data.test)), spec.task.name) == (loader, task)
    assert load(spec.data.test, base=spec.base, name="test").sample(0).input is not None


def test_data_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ValueError, match="there is no data at nowhere"):
        data_at("nowhere", tmp_path)


def planned(file: Path) -> Plan:
    plan = resolve(Assessment.read(file))
    check_claims(plan)
    return plan


@pytest.mark.parametrize(
    "data", ["classes", "scenes", "test.json", "drive.csv", "table.csv", "clips", "idx"]
)
def test_the_file_fits_together(tmp_path, cli, data):
    forms(tmp_path)
    (tmp_path / "subject.py").write_text("def predict(given):\n    return [0.0, 1.0]\n")
    file = tmp_path / "assessment.yaml"
    answer = cli("init", file, "--subject", tmp_path / "subject.py", "--data", data)
    assert answer.code == 0, answer.err
    assert len(planned(file).data["test"]) > 0


@pytest.mark.parametrize(
    ("table", "options", "section", "task"),
    [
        ("a,b,target\n1,2,0.5\n", (), {"features": ["a", "b"], "target": "target"}, "regression"),
        ("id,a,y\n1,2,0\n", (), {"features": ["a"], "label": "y"}, "classification"),
        ("a,b,class\n1,2,x\n", (), {"features": ["a", "b"], "label": "class"}, "classification"),
        (
            "a,b,c\n1,2.5,3\n",
            ("--target", "b"),
            {"features": ["a", "c"], "target": "b"},
            "regression",
        ),
    ],
)
def test_columns_go_by_name_and_what_is_a_guess_is_marked(
    tmp_path, cli, table, options, section, task
):
    (tmp_path / "subject.py").write_text("def predict(given):\n    return [0.0, 1.0]\n")
    (tmp_path / "data.csv").write_text(table)
    file = tmp_path / "assessment.yaml"
    answer = cli("init", file, *options)
    assert answer.code == 0, answer.err
    plan = planned(file)
    assert plan.spec.data.test == {"csv": "data.csv", **section} and plan.spec.task.name == task
    (line,) = [text for text in file.read_text().splitlines() if text.startswith("  test:")]
    assert "please check" in line


@pytest.mark.parametrize("table", ["a,b,price\n1,2,3.5\n", "id,site\n1,A\n"])
def test_a_column_to_predict_that_has_no_such_name_must_be_named(tmp_path, cli, table):
    (tmp_path / "data.csv").write_text(table)
    answer = cli(
        "init", tmp_path / "a.yaml", "--subject", "x.onnx", "--data", tmp_path / "data.csv"
    )
    assert answer.code == 2 and "--target" in answer.err


def test_several_sets_of_data_are_not_chosen_from(tiny, cli):
    tiny.file.unlink()
    shutil.copy(tiny.folder / "test.npz", tiny.folder / "test2.npz")
    answer = cli("init", tiny.file)
    assert answer.code == 2 and "test.npz, test2.npz" in answer.err and "--data" in answer.err
    (tiny.folder / "test2.npz").rename(tiny.folder / "train.npz")
    assert cli("init", tiny.file).code == 0


def test_the_lines_that_supervisors_need_stand_in_the_file_as_comments(tiny, cli):
    file = tiny.folder / "new.yaml"
    cli("init", file, "--subject", "subject.py", "--data", "test.npz")
    text = file.read_text()
    for line in (
        "# reference: {npz: …}",
        "# calibration: {npz: …}",
        "# verdicts: {rule: conformal",
        "docs/supervisors.md",
    ):
        assert line in text


def test_how_inputs_are_prepared_is_read_from_the_weights_or_marked_as_assumed(tmp_path, cli):
    from safetensors.numpy import save_file

    (tmp_path / "model.py").write_text("def build():\n    return None\n")
    for metadata, line in (
        (None, "input: {scale: 255, layout: nchw, colour: rgb}   # assumed"),
        (
            {"mean": "[0.5]", "std": "[0.25]", "colour": "bgr"},
            "input: {mean: [0.5], std: [0.25], colour: bgr}\n",
        ),
    ):
        save_file({"w": np.zeros(1, np.float32)}, tmp_path / "w.safetensors", metadata)
        (tmp_path / "assessment.yaml").unlink(missing_ok=True)
        answer = cli(
            "init",
            tmp_path / "assessment.yaml",
            "--subject",
            tmp_path / "model.py",
            "--data",
            "fashion-mnist",
        )
        assert answer.code == 0, answer.err
        assert line in (tmp_path / "assessment.yaml").read_text()


def test_the_order_of_classes_stands_in_the_file(tmp_path, cli):
    for name in ("2", "10"):
        (tmp_path / "img" / name).mkdir(parents=True)
        (tmp_path / "img" / name / "a.png").touch()
    (tmp_path / "model.py").write_text("def predict(x):\n    return [1, 0]\n")
    answer = cli(
        "init", tmp_path / "a.yaml", "--subject", tmp_path / "model.py", "--data", tmp_path / "img"
    )
    assert answer.code == 0, answer.err
    assert '# classes: ["2", "10"]' in (tmp_path / "a.yaml").read_text()
