"""What `roadworthy init` writes fits together: every file goes through the checks that an assessment makes before any case."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_init import forms, picture

from roadworthy.assessment.section import plan_assessment as plan_of
from roadworthy.execution.plan import Plan
from roadworthy.spec import Assessment

SUBJECT = "def predict(given):\n    return [0.0, 1.0]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "subject.py").write_text(SUBJECT)
    return tmp_path


def planned(file: Path) -> Plan:
    return plan_of(Assessment.read(file))


FORMS = [
    "classes",
    "test.json",
    "drive.csv",
    "table.csv",
    "clips",
    "goals.jsonl",
    "video",
    "idx",
    "rows.npz",
]


@pytest.mark.parametrize("data", [*FORMS, "fashion-mnist"])
def test_every_form_of_data_gives_a_file_that_can_be_planned(folder, cli, data):
    forms(folder)
    file = folder / "assessment.yaml"
    answer = cli("init", file, "--subject", folder / "subject.py", "--data", data, "--yes")
    assert answer.code == 0, answer.err
    plan = planned(file)
    assert len(plan.data["test"]) > 0 and plan.spec.claims


@pytest.mark.parametrize(
    ("header", "rows", "section", "task"),
    [
        (
            "a,b,target",
            ["1,2,0.5", "3,4,0.7"],
            {"features": ["a", "b"], "target": "target"},
            "regression",
        ),
        (
            "a,b,target",
            ["1,2,0", "3,4,1"],
            {"features": ["a", "b"], "label": "target"},
            "classification",
        ),
        (
            "id,rooms,price",
            ["1,2,99.5", "2,3,120.0"],
            {"features": ["rooms"], "target": "price"},
            "regression",
        ),
        (
            "a,b,class",
            ["1,2,x", "3,4,y"],
            {"features": ["a", "b"], "label": "class"},
            "classification",
        ),
        (
            "id,a,y",
            [f"{i},{i}.5,{i}" for i in range(30)],
            {"features": ["a"], "target": "y"},
            "regression",
        ),
        (
            "center,steering,speed",
            ["img/1.png,0.1,30.5"],
            {"image": "center", "target": "steering"},
            "regression",
        ),
    ],
)
def test_a_table_says_itself_whether_a_class_or_a_number_is_predicted(
    folder, cli, header, rows, section, task
):
    picture(folder / "img/1.png")
    (folder / "data.csv").write_text("\n".join([header, *rows]) + "\n")
    file = folder / "assessment.yaml"
    answer = cli("init", file, "--yes")
    assert answer.code == 0, answer.err
    plan = planned(file)
    assert plan.spec.data.test == {"csv": "data.csv", **section}
    assert plan.spec.task.name == task


def test_the_column_to_predict_can_be_named(folder, cli):
    (folder / "data.csv").write_text("a,b,c\n1,2.5,3\n4,5.5,6\n")
    file = folder / "assessment.yaml"
    assert cli("init", file, "--target", "b", "--yes").code == 0
    assert planned(file).spec.data.test == {
        "csv": "data.csv",
        "features": ["a", "c"],
        "target": "b",
    }
    assert cli("init", file, "--target", "a", "--task", "regression", "--yes", "--force").code == 0
    assert planned(file).spec.data.test["target"] == "a"
    answer = cli("init", file, "--target", "bb", "--yes", "--force")
    assert answer.code == 2 and "no column 'bb'" in answer.err and "--data" in answer.err
    np.savez(folder / "data.npz", x=np.zeros((4, 3)), price=np.ones(4), age=np.ones(4))
    assert (
        cli("init", file, "--data", "data.npz", "--target", "price", "--yes", "--force").code == 0
    )
    assert planned(file).spec.data.test == {"npz": "data.npz", "images": "x", "labels": "price"}


@pytest.mark.parametrize("form", ["npz", "coco", "image_folder"])
def test_a_table_of_metadata_is_joined_and_not_taken_for_the_data(folder, cli, form):
    forms(folder)
    for other in folder.iterdir():
        keep = {"npz": ("rows.npz",), "coco": ("test.json", "img"), "image_folder": ("classes",)}[
            form
        ]
        if other.name not in (*keep, "subject.py"):
            other.rename(folder.parent / f"{folder.name}-{other.name}")
    ids = {
        "npz": ["0", "1", "2", "3"],
        "coco": ["1.png"],
        "image_folder": ["cat/1.png", "dog/2.png"],
    }[form]
    (folder / "about.csv").write_text("id,site,age\n" + "".join(f"{i},A,61\n" for i in ids))
    file = folder / "assessment.yaml"
    answer = cli("init", file, "--yes")
    assert answer.code == 0, answer.err
    plan = planned(file)
    assert next(iter(plan.spec.data.test)) == form
    assert plan.spec.data.test["metadata"] == "about.csv"
    assert plan.data["test"].column("site").tolist() == ["A"] * len(ids)
    assert "about.csv has the columns site, age" in file.read_text()


def test_metadata_that_does_not_fit_is_a_remark_with_the_reason(folder, cli):
    np.savez(folder / "test.npz", images=np.zeros((3, 8, 8), np.uint8), labels=np.arange(3))
    (folder / "about.csv").write_text("id,site\n0,A\n1,B\n")
    file = folder / "assessment.yaml"
    assert cli("init", file, "--yes").code == 0
    assert "metadata" not in planned(file).spec.data.test
    assert "# metadata: about.csv   # does not fit yet" in file.read_text()


def test_a_wrong_guess_says_how_to_correct_it(folder, cli):
    answer = cli("init", folder / "a.yaml", "--yes")
    assert answer.code == 2 and "--data PATH" in answer.err


def test_a_recording_table_goes_before_the_folder_that_it_names(folder, cli):
    from scipy.io import wavfile

    (folder / "audio").mkdir()
    wavfile.write(folder / "audio/a.wav", 8000, np.ones(80, np.int16))
    (folder / "clips.csv").write_text("audio,transcript\naudio/a.wav,hello\n")
    file = folder / "assessment.yaml"
    assert cli("init", file, "--yes").code == 0
    assert planned(file).spec.data.test == {"audio": "clips.csv"}
    assert json.loads(cli("data", "show", file, "--json").out)["test"]["samples"] == 1
