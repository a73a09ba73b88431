"""A table of answers: what its columns are taken for, and what is refused with the id and the cure."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roadworthy.data.answers import read_answers
from roadworthy.data.loaders.predictions import predictions
from roadworthy.data.samples import DataError

ROWS = [
    {"image": f"{i}.png", "label": "ant" if i % 2 else "bee", "y_pred": "ant", "site": "AB"[i % 2]}
    for i in range(10)
]


def table(folder: Path, text: str, name: str = "answers.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def csv_of(rows) -> str:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("form", ["csv", "tsv", "semicolon", "bom", "crlf", "jsonl", "parquet"])
def test_every_form_gives_the_same_table(tmp_path, form):
    text = csv_of(ROWS)
    if form == "parquet":
        path = tmp_path / "a.parquet"
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif form == "jsonl":
        path = table(tmp_path, "\n".join(map(json.dumps, ROWS)), "a.jsonl")
    elif form == "tsv":
        path = table(tmp_path, text.replace(",", "\t"), "a.tsv")
    else:
        text = {
            "semicolon": text.replace(",", ";"),
            "bom": "\ufeff" + text,
            "crlf": text.replace("\n", "\r\n"),
        }.get(form, text)
        path = tmp_path / "a.csv"
        path.write_bytes(text.encode())
    found = read_answers(path)
    assert (found.task, found.classes, found.slices, found.group) == (
        "classification",
        ("ant", "bee"),
        ("site",),
        None,
    )
    assert found.ids[:2] == ["0.png", "1.png"]
    assert found.truth.tolist() == [1, 0] * 5 and found.answers.tolist() == [0] * 10


def test_one_column_a_class_in_the_headers_order(tmp_path):
    text = "id,truth,p_dog,p_cat\na,cat,0.3,0.7\nb,dog,0.2,0.8\n"
    found = read_answers(table(tmp_path, text))
    assert found.classes == ("dog", "cat") and found.answers.tolist() == [1, 1]
    assert found.truth.tolist() == [1, 0] and found.scores.tolist() == [[0.3, 0.7], [0.2, 0.8]]


def test_scores_for_a_class_that_no_label_has_are_kept_with_their_prefix(tmp_path):
    text = "id,label,p_0,p_1,p_2,age\na,0,0.5,0.3,0.2,30\nb,1,0.1,0.8,0.1,41\n"
    found = read_answers(table(tmp_path, text))
    assert found.classes == ("0", "1", "2") and found.scores.shape == (2, 3)


def test_logits_and_probabilities_that_are_nearly_whole(tmp_path):
    found = read_answers(table(tmp_path, "id,label,a,b\nx,a,-1.5,3\ny,b,2,-4\n"))
    assert found.scores.min() == -4 and any("logits" in note for note in found.notes)
    found = read_answers(table(tmp_path, "id,label,a,b\nx,a,0.5,0.505\ny,b,0.2,0.8\n"))
    assert found.scores.sum(axis=1) == pytest.approx(1.0)


def test_the_confidence_is_that_of_the_answer(tmp_path):
    found = read_answers(
        table(tmp_path, "id,label,prediction,confidence\nx,a,b,0.9\ny,b,b,0.6\nz,c,c,0.7\n")
    )
    assert found.scores.max(axis=1).tolist() == [0.9, 0.6, 0.7]
    assert found.scores.argmax(axis=1).tolist() == found.answers.tolist() == [1, 1, 2]
    assert found.scores.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("labels", "answers", "task"),
    [
        (["1", "0"], ["1", "1"], "classification"),
        (["1.5", "0.2"], ["1", "1"], "regression"),
        ([str(i) for i in range(60)], [str(i) for i in range(60)], "regression"),
        (["yes", "no"], ["yes", "yes"], "classification"),
    ],
)
def test_the_task_is_inferred_and_an_option_decides(tmp_path, labels, answers, task):
    rows = zip(labels, answers, strict=True)
    path = table(tmp_path, "\n".join(["label,prediction", *(",".join(row) for row in rows)]))
    found = read_answers(path)
    assert found.task == task and "id: the number of the row." in found.notes[0]
    if task == "regression" and all("." not in w for w in labels):
        assert read_answers(path, task="classification").task == "classification"


def test_groups_slices_and_what_is_not_used(tmp_path):
    rows = [
        {
            "id": i,
            "label": i % 2,
            "pred": 0,
            "Patient ID": i // 4,
            "sex": "mf"[i % 2],
            "age": 20.5 + i,
            "note": f"n{i}",
        }
        for i in range(40)
    ]
    found = read_answers(table(tmp_path, csv_of(rows)))
    assert found.group == "Patient ID" and found.slices == ("sex",)
    assert "Groups: column Patient ID, 10 of them." in found.notes
    assert "Not used: age, note." in found.notes
    both = [{**row, "session": row["id"] // 2} for row in rows]
    found = read_answers(table(tmp_path, csv_of(both)))
    assert found.group is None and any("Patient ID or session could be" in n for n in found.notes)
    assert read_answers(table(tmp_path, csv_of(both)), group="session").group == "session"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,label,prediction\na,x,x\na,y,y\n", "the id 'a' stands in two rows"),
        ("id,label,prediction\na,x,x\nb,,y\n", "id 'b' has no label (1 such rows)"),
        ("id,prediction\na,x\n", "has no column of true labels"),
        ("id,label,age\na,x,3\n", "has no column of predictions"),
        (
            "id,label,p_a,p_b\nx,a,0.5,0.6\ny,b,0.5,0.5\n",
            "id 'x' has scores that sum to 1.1 (1 such rows)",
        ),
        (
            "id,label,prediction,a,b\nx,a,b,0.9,0.1\ny,b,b,0.5,0.6\n",
            "id 'y' has scores that sum to 1.1",
        ),
        (
            "id,label,prediction,a,b\nx,a,b,0.9,0.1\ny,b,b,0.4,0.6\n",
            "id 'x' has the prediction 'b', and its largest score",
        ),
        (
            "id,label,prediction,confidence\nx,a,a,93\ny,b,b,50\n",
            "has the confidence 93; 0 to 1 is expected; divide by 100",
        ),
        ("id,label,prediction,confidence\nx,a,a,0.3\ny,b,b,0.9\n", "probability is above 0.5"),
        ("id;label;prediction;confidence\nx;a;a;0,9\ny;b;b;0,8\n", "write decimals with a point"),
        (
            "label,prediction\n" + "".join(f"{i % 10 + 1},{i % 10}\n" for i in range(50)),
            "shifted by one: 0.0% are equal",
        ),
        (
            "label,prediction\ncat,Cat\ndog,Dog\ncat,cat\n",
            "predictions are none of the labels, such as 'Cat' (did you mean 'cat'?)",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_cure(tmp_path, text, says):
    with pytest.raises(DataError) as caught:
        read_answers(table(tmp_path, text))
    assert says in str(caught.value)


def test_rows_without_truth_are_left_out_if_asked(tmp_path):
    found = read_answers(
        table(tmp_path, "id,label,prediction\na,x,x\nb,,y\nc,y,y\n"), drop_unlabelled=True
    )
    assert found.ids == ["a", "c"] and any(
        "1 rows without label are left out" in n for n in found.notes
    )


def test_an_answer_that_no_label_has_is_wrong_and_named(tmp_path):
    found = read_answers(table(tmp_path, "label,prediction\na,a\nb,zebra\nb,b\n"))
    assert found.classes == ("a", "b", "zebra") and found.answers.tolist() == [0, 2, 1]
    assert any("zebra" in note for note in found.notes)


def test_the_row_numbers_that_pandas_writes_are_no_column(tmp_path):
    file = tmp_path / "answers.csv"
    file.write_text(",id,label,prediction\n0,a,cat,cat\n1,b,dog,cat\n")
    found = read_answers(file)
    assert found.ids == ["a", "b"] and not found.metadata


def test_whole_numbers_written_with_a_point_are_classes(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("y_true,y_pred\n0.0,0\n1.0,1\n2.0,1\n")
    found = read_answers(path)
    assert (found.task, found.classes) == ("classification", ("0", "1", "2"))
    assert found.answers.tolist() == [0, 1, 1]
    assert "Task: classification, as labels are numbers; --task decides." in found.notes
    path.write_text("y_true,y_pred\n0.0,0\n1.5,1\n2.0,1\n")
    assert read_answers(path).truth.tolist() == [0.0, 1.5, 2.0]


def test_one_probability_for_two_classes_is_refused_with_the_cure(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("y_true,y_pred\n0,0.1\n1,0.8\n1,0.4\n")
    with pytest.raises(DataError, match="p_0 and p_1; --task regression"):
        read_answers(path)
    assert read_answers(path, task="regression").answers.tolist() == [0.1, 0.8, 0.4]


def test_the_loader_groups_as_its_notes_say(tmp_path):
    rows = "\n".join(f"cat,cat,p{i % 2},s{i % 3}" for i in range(6))
    (tmp_path / "one.csv").write_text(f"label,prediction,patient,other\n{rows}\n")
    (tmp_path / "two.csv").write_text(f"label,prediction,patient,session\n{rows}\n")
    one = predictions(path="one.csv", base=tmp_path)
    assert one.groups.tolist() == ["p0", "p1"] * 3
    assert "Groups: column patient, 2 of them." in one.notes
    two = predictions(path="two.csv", group="session", base=tmp_path)
    assert two.groups.tolist() == ["s0", "s1", "s2"] * 2
    assert "Groups: column session, 3 of them." in two.notes
