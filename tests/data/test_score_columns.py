"""Columns of a table of scores as people write them: misspelt, with spaces around their names, with words for outcomes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roadworthy.data.samples import DataError
from roadworthy.data.score_tables import open_scores, read_scores


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_scores(path, needs=("kind", "correct"), **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("header", "meant"),
    [
        ("knd,correct,energy", "--kind knd"),
        ("kind,corect,energy", "--correct corect"),
        ("Kindd,correct,energy", "--kind Kindd"),
        ("kind,is_corect,energy", "--correct is_corect"),
    ],
)
def test_a_misspelt_column_is_suggested(tmp_path, header, meant):
    assert f"did you mean {meant}?)" in refusal(
        written(tmp_path / "t.csv", f"{header}\nclean,1,0.5\nfog,0,0.9\n")
    )


def test_a_score_is_not_suggested_for_what_it_does_not_resemble(tmp_path):
    assert "did you mean" not in refusal(
        written(tmp_path / "t.csv", "knn,correct,energy\n1,1,0.5\n2,0,0.9\n")
    )


def test_spaces_around_names_are_left_out_and_that_is_noted(tmp_path):
    text = "kind, correct, energy,knn \nclean,1,0.5,2\nfog,0,0.9,7\n"
    table = read_scores(written(tmp_path / "t.csv", text), needs=("kind", "correct"))
    assert {name: column.tolist() for name, column in table.columns.items()} == {
        "energy": [0.5, 0.9],
        "knn": [2, 7],
    }
    assert table.correct.tolist() == [True, False]
    assert (
        "names of columns are read without the spaces around them: ' correct', ' energy', 'knn '"
        in table.notes
    )
    pq.write_table(
        pa.table({"kind": ["clean", "fog"], " energy": [0.5, 0.9]}), tmp_path / "t.parquet"
    )
    assert read_scores(tmp_path / "t.parquet").columns["energy"].tolist() == [0.5, 0.9]


def test_a_column_may_be_named_with_its_spaces_or_without(tmp_path):
    path = written(tmp_path / "t.csv", "role , energy\nclean,0.5\nfog,0.9\n")
    for kind, score in (("role", "energy"), ("role ", " energy")):
        assert list(read_scores(path, kind=kind, columns=[score]).columns) == ["energy"]
        found = open_scores(path, columns={" energy": score}).whole()
        assert found.columns[" energy"].tolist() == [0.5, 0.9], (
            "a bundle of old may have the name with its space"
        )


def test_names_that_differ_by_their_spaces_only_are_refused(tmp_path):
    said = refusal(written(tmp_path / "t.csv", "kind,correct,energy, energy\nclean,1,1,2\n"))
    assert "names the column 'energy' twice" in said


def test_a_word_in_a_column_with_spaces_is_refused_by_its_name_row_and_line(tmp_path):
    rows = [f"clean,{i}.5" for i in range(400_000)]
    path = written(tmp_path / "late.csv", "\n".join(["kind, energy", *rows, "clean,oops"]) + "\n")
    with pytest.raises(DataError) as caught:
        open_scores(path).whole()
    assert "late.csv, row 400,001 (line 400,002): energy is 'oops'" in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong"), [("OK", "fail"), ("pass", "FAIL"), ("Passed", "failed"), (" ok", "no ")]
)
def test_outcomes_may_be_what_a_test_bench_writes(tmp_path, right, wrong):
    path = written(tmp_path / "t.csv", f"kind,correct,energy\nclean,{right},0.5\nfog,{wrong},0.9\n")
    assert read_scores(path, needs=("kind", "correct")).correct.tolist() == [True, False]


def test_an_outcome_that_is_neither_is_told_which_words_are(tmp_path):
    said = refusal(written(tmp_path / "t.csv", "kind,correct,energy\nclean,good,0.5\n"))
    assert (
        "1, true, yes, right, correct, ok or pass, and 0, false, no, wrong, incorrect or fail"
        in said
    )


def test_rows_are_counted_without_empty_lines_and_lines_with_them(tmp_path):
    text = "kind,correct,energy\n\nclean,1,0.5\n\nfog,0,{}\n"
    assert "row 2 (line 5): energy is inf" in refusal(
        written(tmp_path / "i.csv", text.format("inf"))
    )
    assert "row 2 (line 5): energy is 'x'" in refusal(
        written(tmp_path / "x.csv", text.format("x")), columns=["energy"]
    )
    assert "row 2 (line 5) has 4 cells" in refusal(written(tmp_path / "r.csv", text.format("1,2")))
    pq.write_table(
        pa.table({"kind": ["clean"], "correct": [1], "energy": [float("inf")]}),
        tmp_path / "t.parquet",
    )
    assert "t.parquet, row 1: energy is inf" in refusal(tmp_path / "t.parquet"), (
        "such a file has no lines"
    )


def numbered(path: Path, column: str, numbers: list[int]) -> Path:
    half = len(numbers) // 2
    rows = [f"{'clean' if i < half else 'fog'},1,{n},{i % 17}.5\n" for i, n in enumerate(numbers)]
    return written(path, f"kind,correct,{column},energy\n" + "".join(rows))


@pytest.mark.parametrize(
    "column", ["TransactionID", "transaction_id", "txnId", "order-no", "ROW KEY", "ID_Order"]
)
@pytest.mark.parametrize("again", [1, 2], ids=["once", "under every kind"])
def test_whole_numbers_that_are_all_different_are_no_score_where_they_have_the_name_of_an_id(
    tmp_path, column, again
):
    numbers = (
        [500_000 + i * 37 % 60 for i in range(60)]
        if again == 1
        else [i * 7 % 30 for i in range(30)] * 2
    )
    table = read_scores(numbered(tmp_path / "t.csv", column, numbers))
    assert list(table.columns) == ["energy"]
    assert (
        f"column {column!r} has the name and the whole numbers of an id, and is not taken for a score; name it with "
        f"--score {column!r} if it is one" in table.notes
    )
    assert set(read_scores(tmp_path / "t.csv", columns=[column, "energy"]).columns) == {
        column,
        "energy",
    }


@pytest.mark.parametrize(
    ("column", "numbers", "noted"),
    [
        ("centroid", [i * 37 % 60 for i in range(60)], True),
        ("amount", [i * 37 % 60 for i in range(60)], True),
        ("amount", [i * 7 % 40 for i in range(40)], False),
        ("amount", [i * 37 % 59 for i in range(60)], False),
        ("site_id", [i * 37 % 20 for i in range(60)], False),
    ],
)
def test_other_whole_numbers_stay_and_are_noted_where_they_are_all_different(
    tmp_path, column, numbers, noted
):
    table = read_scores(numbered(tmp_path / "t.csv", column, numbers))
    assert list(table.columns) == [column, "energy"]
    said = f"score {column!r} has another whole number in every row; if it is no score, name those that"
    assert any(note.startswith(said) for note in table.notes) == noted


def test_a_table_of_nothing_but_ids_has_no_scores(tmp_path):
    path = written(
        tmp_path / "t.csv",
        "kind,correct,TransactionID\n" + "".join(f"clean,1,{i * 7 % 60}\n" for i in range(60)),
    )
    assert (
        "there is nothing else: TransactionID (add a column of scores, or choose with --score COLUMN)"
        in refusal(path)
    )
