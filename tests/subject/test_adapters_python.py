"""Python functions and systems as subjects, from files and modules of the user's."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from roadworthy.data.values import FRAMES, TASKS, Boxes
from roadworthy.registry import get
from roadworthy.subject.module import SubjectError
from roadworthy.subject.system import Cases, System

CLASSIFY = TASKS["classification"]
IMAGES = np.arange(3 * 4, dtype=np.float64).reshape(3, 2, 2) / 12


def build(name: str, folder, path: str, task=CLASSIFY, **more) -> System:
    return get("adapters", name).bind(path=path, base=folder, task=task, **more)()


def write(folder, text: str, name: str = "subject.py"):
    (folder / name).write_text(text)
    return folder


def test_a_function_answers_case_by_case_and_only_the_guilty_case_fails(tmp_path):
    write(
        tmp_path,
        "def predict(image):\n    if image[0, 0] > 0.6: raise ValueError('too bright')\n    return [image.mean(), 1.0]\n",
    )
    system = build("python", tmp_path, "subject.py:predict", version="2.1")
    trace = system.run(Cases(["a", "b", "c"], IMAGES))["system"]
    assert trace.error[:2].tolist() == [None, None] and "ValueError: too bright" in trace.error[2]
    np.testing.assert_allclose(
        np.asarray(trace.output)[:2, 0], IMAGES[:2].mean(axis=(1, 2)), rtol=1e-6
    )
    assert system.version == "2.1"


def test_a_batched_function_gets_all_inputs_by_setting_or_by_its_mark(tmp_path):
    source = "import numpy as np\ndef predict(images):\n    return np.stack([images.mean((1, 2)), images.max((1, 2))], 1)\n"
    write(tmp_path, source)
    write(tmp_path, source + "predict.batched = True\n", "marked.py")
    first = build("python", tmp_path, "subject.py:predict", batched=True).run(
        Cases(["a", "b", "c"], IMAGES)
    )
    second = build("python", tmp_path, "marked.py:predict").run(Cases(["a", "b", "c"], IMAGES))
    want = np.stack([IMAGES.mean((1, 2)), IMAGES.max((1, 2))], 1)
    np.testing.assert_array_equal(first["system"].output, want)
    np.testing.assert_array_equal(second["system"].output, want)


def test_a_nan_answer_fails_its_row_alone(tmp_path):
    write(tmp_path, "def predict(image): return [float('nan') if image[0, 0] == 0 else 0.5, 0.5]\n")
    trace = build("python", tmp_path, "subject.py:predict").run(Cases(["a", "b", "c"], IMAGES))[
        "system"
    ]
    assert "NaN" in trace.error[0] and trace.error[1:].tolist() == [None, None]


def test_state_is_carried_over_the_frames_of_a_case(tmp_path):
    write(
        tmp_path,
        "from roadworthy.data.values import Tracks\n"
        "def track(frame, state):\n"
        "    seen = (state or 0) + 1\n"
        "    return Tracks.of([0], [seen], [[0, 0, 1, 1]]), seen\n",
    )
    system = build("python", tmp_path, "subject.py:track", TASKS["tracking"])
    trace = system.run(Cases(["a", "b"], [np.zeros((3, 4, 4)), np.zeros((2, 4, 4))]))["system"]
    assert [t.ids.tolist() for t in trace.output] == [[1, 2, 3], [1, 2]]


def test_files_beside_the_subject_are_its_own_even_under_the_same_name(tmp_path):
    systems = []
    for name, value in (("one", 0.25), ("two", 0.75)):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, f"ANSWER = {value}\n", "answering.py")
        write(
            folder,
            "from answering import ANSWER\ndef predict(image): return [ANSWER, 1 - ANSWER]\n",
        )
        systems.append(build("python", folder, "subject.py:predict"))
    answers = [s.run(Cases(["a"], IMAGES[:1]))["system"].output[0][0] for s in systems]
    assert answers == [0.25, 0.75]
    assert {f.name for f in systems[1].modules["model"].files} == {"subject.py", "answering.py"}
    assert systems[0].fingerprint != systems[1].fingerprint


def test_the_fingerprint_follows_the_source_and_its_neighbours_and_nothing_else(tmp_path):
    write(tmp_path, "K = 1\n", "neighbour.py")
    write(tmp_path, "import neighbour\ndef predict(image): return [neighbour.K, 0]\n")
    first = build("python", tmp_path, "subject.py:predict").fingerprint
    assert build("python", tmp_path, "subject.py:predict").fingerprint == first
    write(tmp_path, "K = 2\n", "neighbour.py")
    again = build("python", tmp_path, "subject.py:predict")
    assert again.fingerprint != first
    assert again.run(Cases(["a"], IMAGES[:1]))["system"].output[0].tolist() == [2, 0]


def test_modules_of_others_are_put_back(tmp_path):
    write(tmp_path, "VALUE = 1\n", "yaml.py")
    import yaml

    write(tmp_path, "import yaml\ndef predict(image): return [yaml.VALUE, 0]\n")
    system = build("python", tmp_path, "subject.py:predict")
    assert system.run(Cases(["a"], IMAGES[:1]))["system"].output[0].tolist() == [1, 0]
    assert sys.modules["yaml"] is yaml


def test_a_dotted_module_is_found_beside_the_assessment_file(tmp_path):
    (tmp_path / "mypackage").mkdir()
    write(tmp_path / "mypackage", "", "__init__.py")
    write(tmp_path / "mypackage", "def predict(image): return [1.0, 0.0]\n", "inner.py")
    system = build("python", tmp_path, "mypackage.inner:predict")
    assert system.run(Cases(["a"], IMAGES[:1]))["system"].output[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("subjct.py:predict", r"no file .*subjct\.py \(did you mean 'subject\.py'\?\)"),
        ("subject.py:predcit", r"did you mean 'predict'\?\); it has: other, predict"),
        ("subject.py", "names no function"),
        ("not_there.at_all:predict", "no module 'not_there.at_all'"),
        (
            "broken.py:predict",
            r"broken\.py, line 3: ZeroDivisionError",
        ),
        (
            "unparsable.py:predict",
            r"unparsable\.py, line 2: SyntaxError",
        ),
        (
            "importing.py:predict",
            r"broken\.py, line 3: ZeroDivisionError",
        ),
        ("subject.py:NUMBER", "is int, not a function"),
        ("subject.py:two", "takes the inputs a, b"),
    ],
)
def test_what_cannot_be_loaded_is_told_by_file_line_and_name(tmp_path, path, says):
    write(
        tmp_path,
        "NUMBER = 3\ndef predict(image): return [1, 0]\ndef other(image): return [1, 0]\ndef two(a, b): return a\n",
    )
    if ":two" not in path:
        write(
            tmp_path,
            "NUMBER = 3\ndef predict(image): return [1, 0]\ndef other(image): return [1, 0]\n",
        )
    write(tmp_path, "import math\n\nx = 1 / 0\n", "broken.py")
    write(tmp_path, "x = 1\ndef predict(:\n", "unparsable.py")
    write(tmp_path, "import broken\n", "importing.py")
    with pytest.raises(SubjectError, match=says):
        build("python", tmp_path, path)


SYSTEM = """
from roadworthy.data.values import BOXES, IMAGE, Boxes
from roadworthy.subject.module import function_module
from roadworthy.subject.system import System

def detect(image):
    return Boxes.of([[0, 0, *image.shape[:2]]])

def halve(boxes):
    return Boxes.of(boxes.xyxy / 2, boxes.labels, boxes.scores)

def build():
    modules = {"detector": function_module(detect, outputs={"boxes": BOXES}),
               "refiner": function_module(halve, outputs={"boxes": BOXES})}
    wires = {"detector.image": "input", "refiner.boxes": "detector.boxes"}
    return System(modules, wires, "refiner.boxes", IMAGE, version="0.9")

def one(): return function_module(detect, outputs={"boxes": BOXES})
def number(): return 3
def raises(): raise OSError("no camera")
"""


def test_a_system_of_modules_is_built_by_a_function(tmp_path):
    write(tmp_path, SYSTEM)
    system = build("system", tmp_path, "subject.py:build", TASKS["detection"])
    output = system.run(Cases(["a"], IMAGES[:1]))["system"].output[0]
    assert isinstance(output, Boxes) and output.xyxy.tolist() == [[0, 0, 1, 1]]
    assert system.version == "0.9"
    assert (
        build("system", tmp_path, "subject.py:build", TASKS["detection"], version="1").version
        == "1"
    )
    assert [f.name for f in system.modules["refiner"].files] == ["subject.py"]
    assert (
        build("system", tmp_path, "subject.py:one", TASKS["detection"]).output_kind
        is TASKS["detection"].output
    )


@pytest.mark.parametrize(
    ("function", "task", "says"),
    [
        ("number", "detection", "returned int; a System or a Module was expected"),
        ("raises", "detection", "raised OSError while it built the system: no camera"),
        (
            "build",
            "classification",
            "from image to boxes; the task classification goes from image to class_scores",
        ),
    ],
)
def test_a_system_that_does_not_fit_is_refused(tmp_path, function, task, says):
    write(tmp_path, SYSTEM)
    with pytest.raises(SubjectError, match=says):
        build("system", tmp_path, f"subject.py:{function}", TASKS[task])


def test_the_tracking_task_is_stepwise(tmp_path):
    write(tmp_path, "def track(frame): return None\n")
    system = build("python", tmp_path, "subject.py:track", TASKS["tracking"])
    assert system.input_kind is FRAMES and system.stepwise
