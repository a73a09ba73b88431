"""The files in docs/functions.md run as they stand there, and the table says what functions are really given."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import yaml

from roadworthy.assessment.assess import assess
from roadworthy.spec import Assessment

sys.path.append(str(Path(__file__).parents[1] / "subjects"))
subject_data = importlib.import_module("subject_data")
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "functions.md").read_text()
WHOLE = re.compile(
    r"```python\n# (?P<file>\w+\.py)\n(?P<code>.*?)```\n```yaml\n(?P<yaml>.*?)```", re.DOTALL
)
FILES = {m["file"]: (m["code"], m["yaml"]) for m in WHOLE.finditer(PAGE)}


def placed(name: str, make: str, folder: Path) -> Path:
    """A folder with the file of the page, its assessment and data."""
    code, text = FILES[name]
    (folder / name).write_text(code)
    subject_data.MAKE[make](folder)
    (folder / "assessment.yaml").write_text(text)
    return folder / "assessment.yaml"


@pytest.mark.parametrize(
    ("name", "make", "quantity", "expected"),
    [
        ("detector.py", "box_finder", "ap50", 87 / 101),
        ("recogniser.py", "tone_words", "wer", 2 / 79),
        ("tracker.py", "box_tracker", "mota", 1 - 4 / 120),
        ("booking.py", "booking", "success_rate", 43 / 45),
    ],
)
def test_every_whole_file_runs_and_finds_what_the_data_was_made_for(
    tmp_path, name, make, quantity, expected
):
    run = assess(placed(name, make, tmp_path))
    assert run.record.cases.failed == 0
    assert run.finding(quantity).value == pytest.approx(expected, abs=1e-12)


def test_no_whole_file_is_left_untried():
    assert set(FILES) == {"detector.py", "recogniser.py", "tracker.py", "booking.py"}


GIVEN = {
    "box_finder": (
        "detection",
        "image.dtype == 'uint8' and image.ndim == 2",
        "[]",
        "{coco: scenes.json, images: scenes}",
    ),
    "nearest_mean": (
        "classification",
        "image.dtype == 'uint8' and image.shape == (8, 8)",
        "[1, 0, 0]",
        "{npz: test.npz}",
    ),
    "tone_words": (
        "speech",
        "image.wave.dtype == 'float32' and abs(image.wave).max() <= 1 and image.rate == 8000",
        "'go'",
        "{audio: clips.csv}",
    ),
    "box_tracker": (
        "tracking",
        "image.dtype == 'uint8' and image.shape == (32, 32)",
        "[]",
        "{frames: video}",
    ),
    "booking": (
        "dialogue",
        "set(image) == {'area', 'price'}",
        "{'said': 'hello', 'outcome': {}}",
        "{dialogue: goals.json}",
    ),
}


@pytest.mark.parametrize("make", GIVEN)
def test_functions_are_given_what_the_table_says(tmp_path, make):
    task, condition, answer, data = GIVEN[make]
    subject_data.MAKE[make](tmp_path)
    (tmp_path / "f.py").write_text(f"def f(image):\n    assert {condition}\n    return {answer}\n")
    file = tmp_path / "a.yaml"
    file.write_text(f"subject: {{task: {task}, python: f.py:f}}\ndata: {{test: {data}}}\n")
    assert assess(file).record.cases.failed == 0


@pytest.mark.parametrize(
    "page",
    ["ways-in.md", "functions.md", "assessment-file.md", "data.md", "claims.md", "../README.md"],
)
def test_every_assessment_on_a_page_is_accepted(page):
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        content = yaml.safe_load(block)
        text = block if "data" in content else f"{block}\ndata: {{test: {{npz: a.npz}}}}\n"
        assert Assessment.parse(text, page).subject["task"]


def test_supervisors_and_measures_that_the_page_names_are_there():
    from roadworthy import registry

    text = (DOCS / "assessment-file.md").read_text()
    named = re.search(r"supervisors: (\[.*?\])`", text)
    assert named
    for entry in yaml.safe_load(named[1]):
        name, parameters = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
        registry.get("supervisors", name).check(parameters)


def test_the_users_own_components_run_as_they_stand_there(tmp_path):
    import numpy as np

    page = (DOCS / "your-own.md").read_text()
    (code, *_), (text, *_) = (
        re.findall(rf"```{k}\n(.*?)```", page, re.DOTALL) for k in ("python", "yaml")
    )
    (tmp_path / "mine.py").write_text(code)
    labels = np.arange(40) % 4
    np.savez(
        tmp_path / "t.npz",
        images=np.tile(60 * labels[:, None, None], (1, 4, 4)).astype(np.uint8),
        labels=labels,
    )
    (tmp_path / "s.py").write_text(
        "import numpy as np\ndef f(x):\n    return np.eye(4)[int(np.max(x)) // 60]\n"
    )
    text = text.replace("onnx: model.onnx", "python: s.py:f") + "\ndata: {test: {npz: t.npz}}\n"
    (tmp_path / "a.yaml").write_text(text)
    run = assess(tmp_path / "a.yaml")
    assert (
        run.finding("same_family").value == 1.0
        and run.finding("same_family", circumstance="dim").value < 1.0
    )
