"""Tables of scores: every form that is read, and every refusal with its row, its column and what is expected."""

from __future__ import annotations

import csv
import datetime
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.samples import DataError
from roadworthy.data.scores import NAMES, open_scores, read_scores

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
        read_scores(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("name", ["scores.csv", "scores.csv.gz", "scores.tsv"])
def test_text_files_of_every_kind_give_the_same_table(tmp_path, name):
    text = TEXT.replace(",", "\t") if name.endswith(".tsv") else TEXT
    table = read_scores(written(tmp_path, text, name))
    assert (table.n, table.source, table.notes) == (2, name, ())
    assert table.kind.tolist() == ["clean", "fog"] and table.correct.tolist() == [True, False]
    assert table.group.tolist() == ["p1", "p2"] and table.id.tolist() == ["a", "b"]
    assert table.time.tolist() == [0.0, 1.5]
    columns = {k: v.tolist() for k, v in table.columns.items()}
    assert columns == {"energy": [0.5, 0.9], "knn": [2.0, 7.0]}
    assert all(v.dtype == np.float64 for v in table.columns.values())


def test_parquet_gives_the_same_table_whatever_its_types(tmp_path):
    moment = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
    columns = {
        "fold": pa.array(["ind_val", "none", "fog"]).dictionary_encode(),
        "correct": pa.array([True, False, True]),
        "time": pa.array([moment] * 3, pa.timestamp("ms", "UTC")),
        "energy": pa.array([1, None, 3], pa.int32()),
        "knn": pa.array([0.5, 1.0, 2.0], pa.float32()),
        "alarm": pa.array([True, False, True]),
        "text": pa.array(["1.5", "2", ""]),
    }
    table = read_scores(as_parquet(tmp_path, columns))
    assert table.kind.tolist() == ["clean", "clean", "fog"]
    assert table.group is None and table.id is None
    assert table.time.tolist() == [moment.timestamp()] * 3
    np.testing.assert_array_equal(table.columns["energy"], [1, np.nan, 3])
    np.testing.assert_array_equal(table.columns["text"], [1.5, 2, np.nan])
    assert table.columns["alarm"].tolist() == [1.0, 0.0, 1.0]
    assert "score energy is missing in 1 of 3 rows" in table.notes


@settings(max_examples=25)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        min_size=1,
        max_size=30,
    )
)
def test_what_csv_says_is_what_parquet_says(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("same")
    values = [0.25, *values]
    cells = [["" if v is None else repr(v), i] for i, v in enumerate(values)]
    with (folder / "a.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["energy", "knn"], *cells])
    knn = list(range(len(values)))
    other = as_parquet(folder, {"energy": pa.array([*values[1:], 0.25], pa.float64()), "knn": knn})
    expected = [np.nan if v is None else v for v in values]
    for file, want in ((folder / "a.csv", expected), (other, [*expected[1:], 0.25])):
        found = open_scores(file, columns=["energy"]).whole().columns["energy"]
        np.testing.assert_array_equal(found, want)


def test_pieces_put_together_are_the_whole(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"energy": rng.normal(size=1000), "correct": rng.random(1000) < 0.5}
    file = as_parquet(tmp_path, columns)
    pieces = list(open_scores(file).pieces(rows=64))
    assert len(pieces) > 10 and max(p.n for p in pieces) <= 64
    whole = read_scores(file)
    energy = np.concatenate([p.columns["energy"] for p in pieces])
    np.testing.assert_array_equal(energy, whole.columns["energy"])
    np.testing.assert_array_equal(np.concatenate([p.correct for p in pieces]), whole.correct)


def test_what_is_skipped_is_neither_read_nor_a_score(tmp_path):
    file = written(tmp_path, TEXT.replace("fog,0", "fog,maybe"))
    opened = open_scores(file, skips=("correct", "group"))
    assert set(opened.found) == {"kind", "time", "id"} and set(opened.scores) == {"energy", "knn"}
    assert next(opened.pieces()).correct is None


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("1", "0"),
        ("TRUE", "false"),
        ("Yes", "No"),
        ("right", "wrong"),
        ("1.0", "0.0"),
        (" ok", "fail "),
    ],
)
def test_words_for_right_and_wrong(tmp_path, right, wrong):
    table = read_scores(written(tmp_path, f"correct,energy\n{right},1\n{wrong},2\n"))
    assert table.correct.tolist() == [True, False]


def test_an_outcome_that_is_neither_is_refused_by_its_row(tmp_path):
    said = refusal(written(tmp_path, "correct,energy\n1,1\n0.7,2\n"))
    assert "row 2: correct is '0.7'" in said and "1 or 0" in said


def test_rows_without_an_outcome_are_left_out_where_it_is_needed(tmp_path):
    file = written(tmp_path, "kind,correct,energy\nclean,1,1\nclean,,2\nfog,0,3\n")
    kept = read_scores(file, needs=("kind", "correct"))
    assert kept.columns["energy"].tolist() == [1.0, 3.0]
    assert any("1 of 3 rows have no outcome" in note for note in kept.notes)
    live = read_scores(file)
    assert live.n == 3 and live.labelled.tolist() == [True, False, True]
    nothing = written(tmp_path, "kind,correct,energy\nclean,,1\n", "empty.csv")
    assert "correct is empty in all 1 rows" in refusal(nothing, needs=("correct",))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("0", "2.5"), [0.0, 2.5]),
        (("1970-01-01T00:00:10Z", "1970-01-01T00:00:11.5Z"), [10.0, 11.5]),
        (("1970-01-01 00:00:10", "1970-01-02 00:00:00"), [10.0, 86400.0]),
        (("1970-01-01T02:00:00+02:00", "1970-01-01T00:00:01Z"), [0.0, 1.0]),
        (("1970-01-02", "1970-01-03"), [86400.0, 172800.0]),
    ],
)
def test_times_as_numbers_or_dates(tmp_path, cells, expected):
    file = written(tmp_path, f"time,energy\n{cells[0]},1\n{cells[1]},2\n")
    table = read_scores(file)
    assert table.time.tolist() == expected


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        (("2026-01-01T00:00:00Z", "noon"), 2),
        (("1000000000.0", "yesterday"), 2),
        (("12.5", "2026-01-01"), 2),
        (("2026-01-01", "12.5"), 2),
        (("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"), 2),
        (("02.03.2026 08:30", "02.03.2026 08:31"), 1),
        (("08:30:00", "08:31:00"), 1),
    ],
)
def test_times_in_other_forms_or_in_two_forms_are_refused_by_their_row(tmp_path, cells, row):
    said = refusal(written(tmp_path, f"time,energy\n{cells[0]},1\n{cells[1]},2\n"))
    assert f"row {row}: time is {cells[row - 1]!r}" in said and "2026-03-02T08:30:00Z" in said


def test_times_of_a_parquet_file_that_are_none_are_refused(tmp_path):
    for cell in (datetime.time(8, 30), True):
        file = as_parquet(tmp_path, {"time": [None, cell], "energy": [0.5, 0.6]})
        assert "row 2: time is" in refusal(file)
    dates = pa.array(["1970-01-01T00:00:10Z", None]).dictionary_encode()
    table = read_scores(as_parquet(tmp_path, {"time": dates, "energy": [0.5, 0.6]}))
    assert table.time[0] == 10.0 and np.isnan(table.time[1])


def test_milliseconds_are_refused(tmp_path):
    said = refusal(written(tmp_path, "time,energy\n1772409600000,1\n1772409601000,1\n"))
    assert "row 1: time is 1772409600000; expected seconds" in said


def test_times_in_two_units_are_refused_by_row(tmp_path):
    rows = "".join(f"{1772409600 + i},1\n" for i in range(1_000_000)) + "1772409600000,1\n"
    said = refusal(written(tmp_path, "time,energy\n" + rows))
    assert "row 1,000,001: time is 1772409600000" in said and "seconds" in said


@given(st.floats(-1e11, 1e11))
def test_seconds_are_left_alone(tmp_path_factory, time):
    file = written(tmp_path_factory.mktemp("t"), f"time,energy\n{time!r},1\n")
    assert read_scores(file).time.tolist() == [time]


@pytest.mark.parametrize("role", NAMES)
def test_every_synonym_is_found_in_any_case_and_noted(tmp_path, role):
    cell = {"kind": "clean", "time": "5"}.get(role, "1")
    for name in NAMES[role]:
        for header in (name, name.title()):
            table = read_scores(written(tmp_path, f"{header},energy\n{cell},1\n"))
            assert getattr(table, role) is not None and list(table.columns) == ["energy"]
            quiet = name in (role, "role", "shift", "fold")
            assert any(f"is read as {role}" in note for note in table.notes) is not quiet


@pytest.mark.parametrize("clean", ["clean", "ind", "in_distribution", "none", "Clean"])
def test_clean_goes_by_several_names(tmp_path, clean):
    assert read_scores(written(tmp_path, f"kind,energy\n{clean},1\nfog,2\n")).kind[0] == "clean"


def test_clean_may_be_called_anything(tmp_path):
    file = written(tmp_path, "kind,correct,energy\nsite A,1,1\nsite B,0,2\nsite C,0,2\n")
    assert read_scores(file, clean="site A").kind.tolist() == ["clean", "site B", "site C"]
    both = read_scores(file, clean=["site A", "site C"]).kind.tolist()
    assert both == ["clean", "site B", "clean"]
    said = refusal(file)
    assert "no clean rows" in said and "'site A', 'site B', 'site C'" in said and "--clean" in said
    assert "'site D'" in refusal(file, clean="site D")
    two = written(tmp_path, "kind,energy\nclean,1\nind,2\n", "both.csv")
    assert "row 1: kind is 'clean', and 'ind' is named as clean" in refusal(two, clean="ind")


def test_a_row_without_a_kind_is_refused_unless_that_is_said_to_be_clean(tmp_path):
    path = written(tmp_path, "kind,correct,energy\nclean,1,0.1\n,0,0.9\nfog,0,0.8\n")
    assert "row 2: kind is empty" in refusal(path)
    assert read_scores(path, clean=("clean", "")).kind.tolist() == ["clean", "clean", "fog"]


def test_training_rows_are_left_out(tmp_path):
    rows = "fold,correct,energy\ntrain,1,1\nind_val,1,2\nOoD Test,0,3\n"
    table = read_scores(written(tmp_path, rows))
    assert table.kind.tolist() == ["clean", "OoD Test"] and "trained on them" in table.notes[0]


@pytest.mark.parametrize("role", NAMES)
def test_a_missing_column_is_named_with_what_is_there_and_the_option(tmp_path, role):
    file = written(tmp_path, "energy,knn\n1,2\n")
    said = refusal(file, needs=(role,))
    assert f"'{role}'" in said and "energy, knn" in said and f"--{role} COLUMN" in said
    said = refusal(file, **{role: "enrgy"})
    assert "no column 'enrgy' (did you mean 'energy'?)" in said and f"--{role} COLUMN" in said
    misspelt = written(tmp_path, "knd,corect,groop,tme,ids,energy\nclean,1,a,2,b,1\n", "m.csv")
    assert role == "id" or "did you mean" in refusal(misspelt, needs=(role,))


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
    assert "more than one score" in refusal(file, columns={"a": "knn", "b": "knn"})
    assert "'correct' is read as correct" in refusal(file, columns=["energy", "correct"])


@pytest.mark.parametrize("column", ["label", "loss", "prediction", "TransactionID", "order-no"])
def test_labels_losses_and_ids_are_scores_only_if_they_are_named(tmp_path, column):
    file = written(tmp_path, f"{column},energy\n3,1\n4,2\n")
    table = read_scores(file)
    assert list(table.columns) == ["energy"] and f"--score {column!r}" in table.notes[0]
    assert list(read_scores(file, columns=[column]).columns) == [column]


def test_text_is_no_score_and_a_constant_is_none(tmp_path):
    rows = "".join(f"Oslo,3,{i % 7}\n" for i in range(30))
    file = written(tmp_path, f"site,floor,energy\n{rows}")
    table = read_scores(file)
    assert list(table.columns) == ["energy"]
    assert ["'site'" in n or "'floor'" in n for n in table.notes] == [True, True]
    assert "row 1: site is 'Oslo'" in refusal(file, columns=["site"])
    assert "floor has the same value" in refusal(file, columns=["floor", "energy"])
    assert "no column of scores" in refusal(written(tmp_path, "site\nOslo\n", "words.csv"))


def test_a_word_among_numbers_is_refused_by_row_and_column(tmp_path):
    assert "row 2: energy is 'oops'" in refusal(written(tmp_path, "energy\n1\noops\n3\n"))
    rows = "".join("1.5,2\n" for _ in range(1_200_000))
    late = written(tmp_path, f"energy,knn\n{rows}3,late\n", "late.csv")
    assert "late.csv, row 1,200,001: knn is 'late'" in refusal(late)


@pytest.mark.parametrize("cell", ["96.6%", '"0,96"', "1_000"])
def test_other_forms_of_numbers_are_refused(tmp_path, cell):
    said = refusal(written(tmp_path, f"energy,knn\n{cell},1\n{cell},2\n"), columns=["energy"])
    assert "row 1: energy is" in said and "expected a number such as 0.97" in said


@pytest.mark.parametrize("word", ["inf", "-inf", "Infinity"])
def test_infinite_scores_are_refused_by_row_and_column(tmp_path, word):
    said = refusal(written(tmp_path, f"energy,knn\n1,2\n3,{word}\n"))
    assert "row 2: knn is" in said and "finite" in said


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
        ("empty.csv", b"", "empty"),
        ("header.csv", b"kind,energy\n", "no rows"),
        ("ragged.csv", b'a,b\n1,"2\n3"\n\n1,2,3\n', "Expected 2 columns, got 3: 1,2,3"),
        ("twice.csv", b"energy,energy\n1,2\n", "'energy'"),
        ("semicolons.csv", b"kind;energy\nclean;0,5\n", "separate columns by commas"),
        ("scores.xlsx", b"", ".csv"),
        ("no.parquet", b"PAR", "Parquet"),
        ("broken.csv.gz", b"energy\n1\n", "cannot be read"),
        ("latin.csv", "kind,energy\ngrün,1\n".encode("latin-1"), "UTF-8"),
        ("latin_name.csv", "grün,energy\n1,1\n".encode("latin-1"), "UTF-8"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    said = refusal(tmp_path / name)
    assert says in said and name in said


def test_files_that_are_not_there_are_refused(tmp_path):
    written(tmp_path, TEXT, "today.csv")
    assert "does not exist (did you mean 'today.csv'?)" in refusal(tmp_path / "tday.csv")
    assert "is a folder" in refusal(tmp_path)
    assert "no rows" in refusal(as_parquet(tmp_path, {"energy": pa.array([], pa.float64())}))
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["energy", "energy"])
    pq.write_table(table, tmp_path / "twice.parquet")
    assert "'energy'" in refusal(tmp_path / "twice.parquet")


def test_rows_of_one_group_are_refused(tmp_path):
    rows = "".join(f"{'fog' if i % 2 else 'clean'},1,p,{i % 7}\n" for i in range(30))
    file = written(tmp_path, f"kind,correct,group,energy\n{rows}")
    assert "one group" in refusal(file, needs=("kind", "correct"))
    assert read_scores(file, group="none", needs=("kind", "correct")).group is None
