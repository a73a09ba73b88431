"""Tables of scores in every form they come in, and every mistake that people make in them."""

from __future__ import annotations

import csv
import datetime
import gzip
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data import score_files
from roadworthy.data.samples import DataError
from roadworthy.data.score_tables import open_scores, read_scores

TEXT = "kind,correct,group,time,id,energy,knn\nclean,1,p1,0,a,0.5,2\nfog,0,p2,1.5,b,0.9,7\n"


def written(folder: Path, text: str, name: str = "scores.csv") -> Path:
    file = folder / name
    if name.endswith(".gz"):
        with gzip.open(file, "wt") as stream:
            stream.write(text)
    else:
        file.write_text(text)
    return file


def as_parquet(folder: Path, columns: dict, name: str = "scores.parquet") -> Path:
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_scores(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", ["scores.csv", "scores.csv.gz", "scores.tsv"])
def test_text_files_of_every_kind_give_the_same_table(tmp_path, name):
    text = TEXT.replace(",", "\t") if name.endswith(".tsv") else TEXT
    table = read_scores(written(tmp_path, text, name))
    assert (table.n, table.source, table.notes) == (2, name, ())
    assert table.kind.tolist() == ["clean", "fog"] and table.correct.tolist() == [True, False]
    assert table.group.tolist() == ["p1", "p2"] and table.id.tolist() == ["a", "b"]
    assert table.time.tolist() == [0.0, 1.5]
    assert {k: v.tolist() for k, v in table.columns.items()} == {
        "energy": [0.5, 0.9],
        "knn": [2.0, 7.0],
    }
    assert all(v.dtype == np.float64 for v in table.columns.values())


def test_parquet_gives_the_same_table_whatever_its_types(tmp_path):
    moment = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
    file = as_parquet(
        tmp_path,
        {
            "fold": pa.array(["ind_val", "none", "fog"]).dictionary_encode(),
            "correct": pa.array([True, False, True]),
            "time": pa.array([moment] * 3, pa.timestamp("ms", "UTC")),
            "energy": pa.array([1, None, 3], pa.int32()),
            "knn": pa.array([0.5, 1.0, 2.0], pa.float32()),
            "alarm": pa.array([True, False, True]),
            "text": pa.array(["1.5", "2", ""]),
        },
    )
    table = read_scores(file)
    assert (
        table.kind.tolist() == ["clean", "clean", "fog"]
        and table.group is None
        and table.id is None
    )
    assert table.time.tolist() == [moment.timestamp()] * 3
    np.testing.assert_array_equal(table.columns["energy"], [1, np.nan, 3])
    np.testing.assert_array_equal(table.columns["text"], [1.5, 2, np.nan])
    assert table.columns["alarm"].tolist() == [1.0, 0.0, 1.0]
    assert "score energy is missing in 1 of 3 rows" in table.notes


scores = st.lists(
    st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=30
)


@settings(max_examples=25)
@given(scores)
def test_what_csv_says_is_what_parquet_says(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("same")
    values = [0.25, *values]
    with (folder / "a.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["energy", "knn"], *(["" if v is None else repr(v), 1] for v in values)]
        )
    other = as_parquet(folder, {"energy": pa.array(values, pa.float64()), "knn": [1] * len(values)})
    for file in (folder / "a.csv", other):
        np.testing.assert_array_equal(
            read_scores(file).columns["energy"], [np.nan if v is None else v for v in values]
        )


def test_pieces_put_together_are_the_whole(tmp_path):
    rng = np.random.default_rng(0)
    file = as_parquet(
        tmp_path, {"energy": rng.normal(size=1000), "correct": rng.random(1000) < 0.5}
    )
    pieces = list(open_scores(file).pieces(rows=64))
    assert len(pieces) > 10 and max(p.n for p in pieces) <= 64
    whole = read_scores(file)
    np.testing.assert_array_equal(
        np.concatenate([p.columns["energy"] for p in pieces]), whole.columns["energy"]
    )
    np.testing.assert_array_equal(np.concatenate([p.correct for p in pieces]), whole.correct)


def test_what_is_skipped_is_neither_read_nor_a_score(tmp_path):
    file = written(tmp_path, TEXT.replace("fog,0", "fog,maybe"))
    opened = open_scores(file, skips=("correct", "group"))
    assert set(opened.found) == {"kind", "time", "id"} and set(opened.scores) == {"energy", "knn"}
    assert next(opened.pieces()).correct is None


@pytest.mark.parametrize("word", ["1", "true", "TRUE", "Yes", "right", "1.0"])
def test_words_for_right(tmp_path, word):
    assert read_scores(written(tmp_path, f"correct,energy\n{word},1\n0,2\n")).correct.tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("word", ["0", "false", "No", "wrong", "0.0"])
def test_words_for_wrong(tmp_path, word):
    assert read_scores(
        written(tmp_path, f"correct,energy\n{word},1\nyes,2\n")
    ).correct.tolist() == [False, True]


def test_an_outcome_that_is_neither_is_refused_by_its_row(tmp_path):
    said = refusal(written(tmp_path, "correct,energy\n1,1\n0.7,2\n"))
    assert "row 2 (line 3): correct is '0.7'" in said and "--correct COLUMN" in said


def test_rows_without_an_outcome_are_left_out_where_it_is_needed(tmp_path):
    file = written(tmp_path, "kind,correct,energy\nclean,1,1\nclean,,2\nfog,0,3\n")
    kept = read_scores(file, needs=("kind", "correct"))
    assert (
        kept.columns["energy"].tolist() == [1.0, 3.0]
        and "1 row without an outcome is left out" in kept.notes
    )
    live = read_scores(file)
    assert live.n == 3 and live.labelled.tolist() == [True, False, True]
    nothing = written(tmp_path, "kind,correct,energy\nclean,,1\n", "empty.csv")
    assert "empty.csv: correct is empty in its only row" in refusal(nothing, needs=("correct",))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("0", "2.5"), [0.0, 2.5]),
        (("1970-01-01T00:00:10Z", "1970-01-01T00:00:11.5Z"), [10.0, 11.5]),
        (("1970-01-01 00:00:10", "1970-01-02 00:00:00"), [10.0, 86400.0]),
        (("1970-01-01T02:00:00+02:00", "1970-01-01T00:00:01"), [0.0, 1.0]),
        (("1970-01-02", "1970-01-03"), [86400.0, 172800.0]),
    ],
)
def test_times_as_numbers_or_dates(tmp_path, cells, expected):
    file = written(tmp_path, f"time,energy\n{cells[0]},1\n{cells[1]},2\n")
    assert read_scores(file).time.tolist() == expected


def test_a_time_that_is_none_is_refused_by_its_row(tmp_path):
    said = refusal(written(tmp_path, "time,energy\n2026-01-01T00:00:00Z,1\nnoon,2\n"))
    assert "row 2 (line 3): time is 'noon'" in said and "--time COLUMN" in said


def test_a_time_that_is_none_among_numbers_is_refused_by_its_row_and_not_by_the_first(tmp_path):
    said = refusal(
        written(
            tmp_path, "time,energy\n1000000000.0,1\n1000000010.0,2\nyesterday,3\n1000000030.0,4\n"
        )
    )
    assert (
        "row 3 (line 4): time is 'yesterday', neither a number of seconds nor a date" in said
        and "--time COLUMN" in said
    )


@pytest.mark.parametrize("cells", [("12.5", "2026-01-01"), ("2026-01-01", "12.5")])
def test_numbers_and_dates_in_one_column_of_times_are_refused_where_they_meet(tmp_path, cells):
    said = refusal(
        written(tmp_path, f"time,energy\n,0\n{cells[0]},1\n{cells[0]},2\n{cells[1]},3\n")
    )
    assert f"row 4 (line 5): time is {cells[1]!r}, and {cells[0]!r} above it" in said


@pytest.mark.parametrize("name", ["kind", "role", "shift", "fold", "Kind"])
@pytest.mark.parametrize("clean", ["clean", "ind", "in_distribution", "none", "", "Clean"])
def test_the_kind_goes_by_several_names_and_so_does_clean(tmp_path, name, clean):
    table = read_scores(written(tmp_path, f"{name},energy\n{clean},1\nfog,2\n"))
    assert table.kind.tolist() == ["clean", "fog"] and list(table.columns) == ["energy"]


def test_clean_may_be_called_anything(tmp_path):
    file = written(tmp_path, "kind,correct,energy\nsite A,1,1\nsite B,0,2\nsite C,0,2\n")
    assert read_scores(file, clean="site A").kind.tolist() == ["clean", "site B", "site C"]
    assert read_scores(file, clean=["site A", "site C"]).kind.tolist() == [
        "clean",
        "site B",
        "clean",
    ]
    said = refusal(file)
    assert (
        "no clean rows" in said
        and "'site A', 'site B', 'site C'" in said
        and "--clean NAME" in said
    )
    assert "called 'site D'" in refusal(file, clean="site D")
    both = written(tmp_path, "kind,energy\nclean,1\nind,2\n", "both.csv")
    assert "'clean' is there beside 'ind'" in refusal(both, clean="ind")


@pytest.mark.parametrize("word", ["normal", "Baseline", "no shift", "in-domain"])
def test_a_kind_that_sounds_clean_beside_clean_rows_is_a_shift_and_that_is_noted(tmp_path, word):
    rows = f"kind,correct,energy\nclean,1,0.5\n{word},1,0.4\nfog,0,0.9\n"
    table = read_scores(written(tmp_path, rows))
    assert table.kind.tolist() == ["clean", word, "fog"]
    assert (
        f"kind {word!r} counts as a shift, since other rows are called clean; if it is none, name every kind "
        "without shift with --clean" in table.notes
    )
    both = read_scores(written(tmp_path, rows), clean=("clean", word))
    assert both.kind.tolist() == ["clean", "clean", "fog"] and not any(
        "counts as a shift" in n for n in both.notes
    )
    assert not any(
        "counts as a shift" in n for n in read_scores(written(tmp_path, rows), clean="clean").notes
    )


def test_training_rows_are_left_out(tmp_path):
    table = read_scores(
        written(tmp_path, "fold,correct,energy\ntrain,1,1\nind_val,1,2\nOoD Test,0,3\n")
    )
    assert (
        table.kind.tolist() == ["clean", "OoD Test"] and "the model has seen them" in table.notes[0]
    )


@pytest.mark.parametrize("role", ["kind", "correct", "group", "time", "id"])
def test_a_missing_column_is_named_with_what_is_there_and_the_option(tmp_path, role):
    file = written(tmp_path, "energy,knn\n1,2\n")
    said = refusal(file, needs=(role,))
    assert f"'{role}'" in said and "it has: energy, knn" in said and f"--{role} COLUMN" in said
    said = refusal(file, **{role: "enrgy"})
    assert "no column 'enrgy' (did you mean 'energy'?)" in said and f"--{role} COLUMN" in said


def test_a_column_of_another_name_is_taken_when_it_is_pointed_at(tmp_path):
    file = written(tmp_path, "weather,ok,energy\nclean,1,1\nfog,0,2\n")
    table = read_scores(file, kind="weather", correct="ok")
    assert table.kind.tolist() == ["clean", "fog"] and list(table.columns) == ["energy"]


def test_scores_can_be_chosen_and_renamed(tmp_path):
    file = written(tmp_path, TEXT)
    assert list(read_scores(file, columns=["knn"]).columns) == ["knn"]
    assert read_scores(file, columns={"distance": "knn"}).columns["distance"].tolist() == [2.0, 7.0]
    assert "--score COLUMN" in refusal(file, columns=["kn"])
    assert "--score distance=COLUMN" in refusal(file, columns={"distance": "kn"})


def test_a_label_is_no_score_unless_it_is_named(tmp_path):
    file = written(tmp_path, "label,loss,site,energy\n3,0.5,Oslo,1\n4,0.1,Bergen,2\n")
    table = read_scores(file)
    assert list(table.columns) == ["energy"]
    assert [n.split(" is")[0] for n in table.notes] == [
        "column 'label'",
        "column 'loss'",
        "column 'site'",
    ]
    assert list(read_scores(file, columns=["label"]).columns) == ["label"]
    assert "row 1 (line 2): site is 'Oslo', which is no number" in refusal(file, columns=["site"])


def test_a_word_among_numbers_is_refused_by_row_and_column(tmp_path):
    assert "row 2 (line 3): energy is 'oops'" in refusal(written(tmp_path, "energy\n1\noops\n3\n"))
    rows = "".join("1.5,2\n" for _ in range(1_200_000))
    late = written(tmp_path, f"energy,knn\n{rows}3,late\n", "late.csv")
    assert "late.csv, row 1,200,001 (line 1,200,002): knn is 'late', which is no number" in refusal(
        late
    )


@pytest.mark.parametrize("word", ["inf", "-inf", "Infinity"])
def test_infinite_scores_are_refused_by_row_and_column(tmp_path, word):
    said = refusal(written(tmp_path, f"energy,knn\n1,2\n3,{word}\n"))
    assert "row 2 (line 3): knn is" in said and "inf" in said and "leave the cell empty" in said


@pytest.mark.parametrize("word", ["", "nan", "NaN", "NA", "null"])
def test_missing_scores_are_nan_and_noted(tmp_path, word):
    table = read_scores(written(tmp_path, f"energy,knn\n1,2\n{word},3\n"))
    np.testing.assert_array_equal(table.columns["energy"], [1, np.nan])
    assert table.notes == ("score energy is missing in 1 of 2 rows",)


def test_whole_numbers_may_go_on_with_fractions_far_down(tmp_path):
    rows = "".join("1\n" for _ in range(2_500_000))
    table = read_scores(written(tmp_path, f"energy\n{rows}0.5\n"))
    assert table.n == 2_500_001 and table.columns["energy"][-1] == 0.5


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.csv", "", "empty.csv is empty"),
        ("header.csv", "kind,energy\n", "no rows"),
        ("ragged.csv", "a,b\n1,2\n1,2,3\n", "row 2 (line 3) has 3 cells, the header has 2"),
        ("twice.csv", "energy,energy\n1,2\n", "'energy' twice"),
        ("words.csv", "site\nOslo\n", "no column of scores"),
        ("scores.xlsx", "", "end in .csv"),
        ("no.parquet", "PAR", "no.parquet is no Parquet file"),
        ("broken.csv.gz", None, "broken.csv.gz"),
    ],
)
def test_files_that_are_no_tables_are_refused_with_a_sentence(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(b"energy\n1\n" if content is None else content.encode())
    said = refusal(tmp_path / name)
    assert says in said and name in said


def test_files_that_are_not_there_are_refused(tmp_path):
    assert "there is no such file" in refusal(tmp_path / "none.csv")
    assert "is a folder" in refusal(tmp_path)


def test_an_empty_parquet_has_no_rows(tmp_path):
    assert "no rows" in refusal(as_parquet(tmp_path, {"energy": pa.array([], pa.float64())}))


def test_duplicated_names_in_parquet_are_refused(tmp_path):
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["energy", "energy"])
    pq.write_table(table, tmp_path / "twice.parquet")
    assert "'energy' twice" in refusal(tmp_path / "twice.parquet")


def test_rows_without_a_kind_are_not_taken_for_clean_beside_rows_that_are_called_so(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("kind,correct,energy\nclean,1,0.1\n,0,0.9\nfog,0,0.8\n")
    with pytest.raises(
        DataError,
        match=r"rows\.csv, row 2 \(line 3\): there is no kind, while other rows are called clean",
    ):
        read_scores(path)
    assert read_scores(path, clean=("clean", "")).kind.tolist() == ["clean", "clean", "fog"]


@pytest.mark.parametrize(
    ("early", "late", "clean", "says"),
    [
        ("clean", "", None, "rows.csv, row 4,001 (line 4,002): there is no kind"),
        ("", "clean", None, "rows.csv, row 1 (line 2): there is no kind"),
        ("IND", " ", None, "rows.csv, row 4,001 (line 4,002): there is no kind"),
        (
            "day",
            "clean",
            "day",
            "rows.csv, row 4,001 (line 4,002): the kind 'clean' is there beside 'day'",
        ),
    ],
)
def test_kinds_are_judged_by_the_whole_file_however_it_is_cut(
    tmp_path, monkeypatch, early, late, clean, says
):
    monkeypatch.setattr(score_files, "BLOCK", 4096)
    path = tmp_path / "rows.csv"
    rows = [f"{kind},1,{i / 7}" for kind in (early, "fog", late) for i in range(2000)]
    path.write_text("kind,correct,energy\n" + "\n".join(rows) + "\n")
    assert sum(1 for _ in open_scores(path, skips=("kind",)).pieces()) > 10
    with pytest.raises(DataError, match=re.escape(says)):
        read_scores(path, clean=clean)


def test_a_column_that_counts_the_rows_is_no_score(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "kind,correct,patient_no,energy\n" + "".join(f"clean,1,{i},{i % 3}\n" for i in range(30))
    )
    table = read_scores(path)
    assert list(table.columns) == ["energy"]
    assert any("patient_no" in note for note in table.notes)
    assert set(read_scores(path, columns=["patient_no", "energy"]).columns) == {
        "patient_no",
        "energy",
    }
