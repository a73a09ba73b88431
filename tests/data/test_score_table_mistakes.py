"""Mistakes in a table of scores are told with what was expected, what was found, where, and what to do."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roadworthy.data.samples import DataError
from roadworthy.data.score_columns import ColumnError, plainly
from roadworthy.data.score_tables import read_scores

DATE = "neither a number of seconds nor a date like 2026-03-02T08:30:00Z; write all so"


def refused(path: Path, **options: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read_scores(path, **options)
    return caught.value


def text(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "time", ["08:30:00", "8:30", "02.03.2026 08:30", "03/02/2026 08:30 AM", "March 2nd"]
)
def test_times_in_other_forms_are_refused_with_the_form_that_is_read(tmp_path, time):
    file = text(tmp_path / "today.csv", "time,energy", f"{time},0.5", f"{time},0.6")
    error = refused(file)
    assert str(error) == (
        f"today.csv, row 1 (line 2): time is {time!r}, {DATE} (or choose another column with --time COLUMN)"
    )
    assert plainly(error).endswith(f"{DATE}; or give the column another name")


@pytest.mark.parametrize(
    "cell",
    [datetime.time(8, 30), datetime.timedelta(hours=8), True, b"08:30"],
    ids=lambda cell: type(cell).__name__,
)
def test_times_of_a_parquet_file_that_are_none_are_refused_by_their_row(tmp_path, cell):
    pq.write_table(
        pa.table({"time": [None, cell], "energy": [0.5, 0.6]}), tmp_path / "today.parquet"
    )
    assert f"today.parquet, row 2: time is {str(cell)!r}, {DATE}" in str(
        refused(tmp_path / "today.parquet")
    )
    nothing = pa.array([None, None], pa.array([cell]).type)
    pq.write_table(pa.table({"time": nothing, "energy": [0.5, 0.6]}), tmp_path / "today.parquet")
    assert np.isnan(read_scores(tmp_path / "today.parquet").time).all()


def test_times_that_are_kept_by_their_names_are_times(tmp_path):
    dates = pa.array(["1970-01-01T00:00:10Z", "1970-01-01T00:00:10Z", None]).dictionary_encode()
    pq.write_table(pa.table({"time": dates, "energy": [0.5, 0.6, 0.7]}), tmp_path / "today.parquet")
    table = read_scores(tmp_path / "today.parquet")
    assert (
        table.time is not None
        and table.time.tolist()[:2] == [10.0, 10.0]
        and table.time[2] != table.time[2]
    )


@pytest.mark.parametrize(
    ("time", "noted"),
    [("20260302T083000Z", False), ("2026-W10-1T08:30+01:00", False), ("20260302T083000", True)],
)
def test_dates_written_more_shortly_have_a_time_zone_where_they_say_so(tmp_path, time, noted):
    table = read_scores(text(tmp_path / "today.csv", "time,energy", f"{time},0.5", f"{time},0.6"))
    assert any("without a time zone" in note for note in table.notes) == noted


def test_a_column_of_outcomes_that_is_empty_is_named_with_what_belongs_there(tmp_path):
    error = refused(
        text(tmp_path / "s.csv", "kind,was_ok,knn", "clean,,1", "fog,,2"),
        correct="was_ok",
        needs=("correct",),
    )
    assert str(error).startswith(
        "s.csv: was_ok is empty in all 2 rows; whether the answers were right must be known, as 1 or 0"
    )
    assert "--correct COLUMN" in str(error) and "--" not in plainly(error)


def test_a_column_that_is_not_there_is_to_be_added_or_chosen(tmp_path):
    error = refused(
        text(tmp_path / "s.csv", "weather,correct,knn", "clean,1,1", "fog,0,2"), needs=("kind",)
    )
    assert (
        "it has: weather, correct, knn (add it, or choose one with --kind COLUMN; did you mean --kind weather?)"
        in str(error)
    )
    assert plainly(error).endswith(
        "; add it, or call the one that is it 'kind'; 'weather', perhaps"
    )
    none = refused(text(tmp_path / "n.csv", "correct,knn", "1,1", "0,2"), needs=("kind",))
    assert str(none).endswith("it has: correct, knn (add it, or choose one with --kind COLUMN)")


@pytest.mark.parametrize(
    ("lines", "needs"),
    [
        (("weather,correct,knn", "clean,1,1"), ("kind",)),
        (("kind,correct,knn", "clean,ja,1"), ()),
        (("kind,correct,knn", "clean,1,x1"), ()),
        (("kind,correct,knn", "fog,1,1"), ()),
        (("kind,correct,knn", "clean,1,1", ",1,1"), ()),
        (("time,knn", "noon,1"), ()),
    ],
)
def test_no_option_is_named_to_those_who_have_none(tmp_path, lines, needs):
    error = refused(text(tmp_path / "s.csv", *lines), needs=needs)
    assert isinstance(error, ColumnError) and "--" in str(error) and "--" not in plainly(error)


def test_a_misspelt_file_and_one_that_is_not_what_its_name_says_are_told_so(tmp_path):
    text(tmp_path / "today.csv", "energy", "1")
    assert (
        str(refused(tmp_path / "tday.csv"))
        == f"{tmp_path / 'tday.csv'}: there is no such file (did you mean 'today.csv'?)"
    )
    assert f"there is no folder {tmp_path / 'no'} either" in str(
        refused(tmp_path / "no" / "today.csv")
    )
    said = str(refused(text(tmp_path / "today.parquet", "energy", "1")))
    assert said.startswith(
        "today.parquet is no Parquet file, or not all of one: it begins like text, so name it .csv ("
    )
    pq.write_table(pa.table({"energy": [1.0] * 50}), tmp_path / "whole.parquet")
    (tmp_path / "half.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:-20])
    assert "half.parquet is no Parquet file, or not all of one: write or copy it again (" in str(
        refused(tmp_path / "half.parquet")
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_dates_that_are_written_as_one_number_are_dates(tmp_path, ending):
    file = tmp_path / f"today.{ending}"
    if ending == "csv":
        text(file, "time,energy", "20260302083000,0.5", ",0.6", "20261231235959,0.7")
    else:
        pq.write_table(
            pa.table({"time": [20260302083000, None, 20261231235959], "energy": [0.5, 0.6, 0.7]}),
            file,
        )
    table = read_scores(file)
    moments = [datetime.datetime(2026, 3, 2, 8, 30), datetime.datetime(2026, 12, 31, 23, 59, 59)]
    expected = [moment.replace(tzinfo=datetime.UTC).timestamp() for moment in moments]
    assert (
        table.time is not None
        and table.time[[0, 2]].tolist() == expected
        and np.isnan(table.time[1])
    )
    assert any("read as UTC" in note for note in table.notes) and not any(
        "milliseconds" in n for n in table.notes
    )


def test_one_that_is_no_date_is_refused_and_no_year_2612_is_made_of_it(tmp_path):
    for first, second in (
        ("20260302083000", "20261302083000"),
        ("1772440200000", "20260302083000"),
    ):
        file = text(tmp_path / "today.csv", "time,energy", f"{first},0.4", f"{second},0.5")
        assert f"today.csv, row 2 (line 3): time is '{second}', {DATE}" in str(refused(file))


def leaking(path: Path, *, wrong: int = 60) -> Path:
    rng = np.random.default_rng(0)
    lines, correct = ["kind,correct,energy,excess"], np.arange(400) >= wrong
    for at, right in enumerate(rng.permutation(correct)):
        kind = "clean" if at % 2 else "fog"
        lines.append(
            f"{kind},{int(right)},{rng.normal(0 if right else 2):.3f},{0.2 * rng.random() + (not right):.3f}"
        )
    return text(path, *lines)


def test_a_score_that_was_made_from_the_outcome_is_doubted_whether_it_was_named_or_not(tmp_path):
    file = leaking(tmp_path / "t.csv")
    for columns in (None, ["energy", "excess"]):
        notes = read_scores(file, columns=columns, needs=("kind", "correct")).notes
        (said,) = [note for note in notes if "right from wrong" in note]
        assert said.startswith(
            "score 'excess' alone tells right from wrong answers (AUC 1.000): is it known in use"
        )
    few = read_scores(leaking(tmp_path / "few.csv", wrong=8), needs=("kind", "correct")).notes
    assert not any("right from wrong" in note for note in few), (
        "of eight wrong answers it may be luck"
    )


@pytest.mark.parametrize(
    ("column", "role"), [("correct", "correct"), ("kind", "kind"), ("session", "group")]
)
def test_what_is_read_as_something_else_is_no_score(tmp_path, column, role):
    file = text(tmp_path / "t.csv", "kind,correct,session,energy", "clean,1,7,0.1", "fog,0,8,0.9")
    error = refused(file, columns=["energy", column], needs=("kind", "correct"))
    assert f"t.csv: {column!r} is read as {role}, " in str(
        error
    ) and f"leave out --score {column}" in str(error)
