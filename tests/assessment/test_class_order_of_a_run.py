"""The order of classes: from the subject, the file or the labels; stopped if the answers contradict an inferred one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from roadworthy import assess
from roadworthy.data.loaders.files import read_image
from roadworthy.data.png import encode_png
from roadworthy.spec import SpecError
from roadworthy.subject.module import SubjectError

NAMES = ("ant", "bee", "cat")


@pytest.fixture
def table(tmp_path) -> Path:
    """Rows whose first feature is the class that the subject answers, right in 95%."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    seen = np.where(rng.random(300) < 0.95, truth, rng.integers(0, 3, 300))
    lines = [f"{s},0,{NAMES[t]}" for s, t in zip(seen, truth, strict=True)]
    (tmp_path / "cases.csv").write_text("\n".join(["a,b,label", *lines]))
    return tmp_path


def file_of(
    folder: Path, order: tuple[int, ...], *, subject: str = "", data: str = "", more: str = ""
) -> Path:
    """A subject whose outputs stand for classes in this order, and the assessment file."""
    code = f"import numpy as np\norder = {order}\ndef predict(x):\n    return np.eye(3)[order.index(int(x[0]))]\n"
    (folder / "subject.py").write_text(code + more)
    path = folder / "assessment.yaml"
    path.write_text(
        f"subject: {{task: classification, python: subject.py:predict{subject}}}\n"
        f"data: {{test: {{csv: cases.csv, features: [a, b]}}{data}}}\n"
        "claims: [{id: A, accuracy: {min: 0.85}}]\n"
    )
    return path


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)], ids=["reversed", "cycle"])
def test_an_inferred_order_that_is_wrong_stops_the_run_and_says_which_is_right(table, order):
    named = [NAMES[i] for i in order]
    with pytest.raises(SpecError, match=f"classes: .{', '.join(named)}.") as caught:
        assess(file_of(table, order))
    assert "inferred" in str(caught.value)
    assert [p.name for p in (table / "runs").iterdir()] == [".cache"]
    again = assess(file_of(table, order, subject=f", classes: [{', '.join(named)}]"))
    assert again.verdict == "met" and again.record.cases.computed == 0
    assert again.record.subject.classes == named and again.record.subject.class_order_given


def test_the_subjects_own_order_counts(table):
    named = [NAMES[i] for i in (2, 0, 1)]
    run = assess(file_of(table, (2, 0, 1), more=f"predict.classes_ = np.array({named!r})\n"))
    assert run.verdict == "met" and "classes_" in run.record.subject.class_order
    cases = run.folder / "tables/cases.parquet"
    import pyarrow.parquet as pq

    held = pq.read_table(cases)
    right = [
        t == p
        for t, p in zip(held["truth"].to_pylist(), held["prediction"].to_pylist(), strict=True)
    ]
    assert np.mean(right) == pytest.approx(run.finding("accuracy").value)


def test_an_order_that_was_given_is_only_doubted(table):
    run = assess(file_of(table, (2, 1, 0), data=", classes: [ant, bee, cat]"))
    assert run.verdict == "breached"
    assert (
        "Check the class order" in run.record.warnings[0]
        and "[cat, bee, ant]" in run.record.warnings[0]
    )


def test_two_orders_that_contradict_each_other(table):
    stated = ", classes: [cat, bee, ant]"
    run = assess(file_of(table, (2, 1, 0), subject=stated, data=", classes: [ant, bee, cat]"))
    assert run.verdict == "met" and any("Two class orders" in n for n in run.record.notes)
    with pytest.raises(SpecError, match="'ant' is in one of two lists"):
        assess(
            file_of(
                table,
                (2, 1, 0),
                subject=", classes: [cat, bee, dog]",
                more=f"classes_ = {list(NAMES)!r}\n",
            )
        )


def test_classes_that_only_one_side_knows(table):
    run = assess(file_of(table, (0, 1, 2), more="predict.classes_ = ['ant', 'bee', 'cat']\n"))
    assert run.verdict == "met"
    with pytest.raises(SpecError, match="the label 'cat' is none of the subject's classes"):
        assess(file_of(table, (0, 1, 2), more="predict.classes_ = ['ant', 'bee', 'dog']\n"))


def test_outputs_and_classes_of_different_number_are_refused(table):
    path, code = file_of(table, (0, 1, 2)), "import numpy as np\ndef predict(x):\n    return "
    (table / "subject.py").write_text(f"{code}np.eye(4)[int(x[0])]\n")
    with pytest.raises(SpecError, match="gives 4 scores a case, and there are 3 classes"):
        assess(path)
    (table / "subject.py").write_text(f"{code}[0.5]\n")
    with pytest.raises(SubjectError, match=r"return \[1 - p, p\]"):
        assess(path)


def test_every_answer_the_same_is_said(table):
    path = file_of(table, (0, 1, 2))
    (table / "subject.py").write_text("def predict(x):\n    return [1.0, 0.0, 0.0]\n")
    assert "Every answer is ant" in assess(path).record.warnings[0]


def pictures(folder: Path, names: list[str]) -> None:
    """Grey pictures of one brightness a class, in a folder each."""
    for number, name in enumerate(names):
        (folder / "img" / name).mkdir(parents=True)
        for i in range(10):
            image = np.full((4, 4), 10 * number + i % 3, np.uint8)
            (folder / "img" / name / f"{i}.png").write_bytes(encode_png(image))


def test_folders_named_by_numbers_stand_in_their_order(tmp_path):
    pictures(tmp_path, [str(i) for i in range(12)])
    (tmp_path / "subject.py").write_text(
        "import numpy as np\ndef predict(x):\n    return np.eye(12)[int(np.asarray(x).flat[0]) // 10]\n"
    )
    path = tmp_path / "assessment.yaml"
    path.write_text(
        "subject: {task: classification, python: subject.py:predict}\ndata: {test: {image_folder: img}}\n"
    )
    run = assess(path)
    assert run.finding("accuracy").value == 1.0
    assert run.record.subject.classes == [str(i) for i in range(12)]
    assert "numeric order" in run.record.subject.class_order
    assert read_image(tmp_path / "img/3/1.png").shape == (4, 4)


def test_labels_that_start_at_one(tmp_path):
    labels = np.arange(200) % 10 + 1
    np.savez(
        tmp_path / "test.npz",
        images=np.tile(labels[:, None, None], (1, 2, 2)).astype(np.uint8),
        labels=labels,
    )
    (tmp_path / "subject.py").write_text(
        "import numpy as np\ndef predict(x):\n    return np.eye(10)[int(np.asarray(x).flat[0]) - 1]\n"
    )
    path = tmp_path / "assessment.yaml"
    text = "subject: {task: classification, python: subject.py:predict}\ndata: {test: {npz: test.npz}%s}\n"
    path.write_text(text % "")
    with pytest.raises(SpecError, match="Labels run from 1 to 10") as caught:
        assess(path)
    cure = str(caught.value).rpartition("classes: ")[2]
    assert json.loads(cure) == list(range(1, 11))
    path.write_text(text % f", classes: {cure}")
    assert assess(path).finding("accuracy").value == 1.0


def test_labels_that_are_one_number_written_twice_are_refused(tmp_path):
    pictures(tmp_path, ["1", "01"])
    (tmp_path / "subject.py").write_text("def predict(x):\n    return [1.0, 0.0]\n")
    path = tmp_path / "assessment.yaml"
    path.write_text(
        "subject: {task: classification, python: subject.py:predict}\ndata: {test: {image_folder: img}}\n"
    )
    with pytest.raises(SpecError, match="'01' and '1' are one number"):
        assess(path)


def test_labels_that_are_positions_leave_no_output_over(tmp_path):
    def saved(labels: list[int], outputs: int) -> Path:
        rows = np.repeat(labels, 20)
        np.savez(tmp_path / "test.npz", images=np.stack([rows, rows], 1) * 1.0, labels=rows)
        (tmp_path / "subject.py").write_text(
            f"import numpy as np\ndef predict(x):\n    return np.eye({outputs})[int(x[0])]\n"
        )
        path = tmp_path / "assessment.yaml"
        path.write_text(
            "subject: {task: classification, python: subject.py:predict}\n"
            "data: {test: {npz: test.npz}}\n"
        )
        return path

    with pytest.raises(SpecError, match="11 scores a case, and the 10 labels are 0 to 9"):
        assess(saved(list(range(10)), 11))
    assert assess(saved([0, 1, 3], 4)).finding("accuracy").value == 1.0
