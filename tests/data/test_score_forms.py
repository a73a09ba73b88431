"""Tables as people have them: other separators and decimals, other names of columns, other clocks, columns that are no scores."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.data.samples import DataError
from roadworthy.data.score_doubts import doubts, separation
from roadworthy.data.score_tables import read_scores

PLAIN = "kind,correct,time,energy,knn\nclean,1,0.5,0.25,-7\nfog,0,1.5,-1.75,8\n"


def written(folder: Path, text: str, name: str = "scores.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_scores(path, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("mark", "said"), [(";", "';' between its cells"), ("\t", "a tab"), ("|", "'|'")]
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_other_separators_and_decimal_commas_give_the_same_table(tmp_path, mark, said, decimal):
    text = PLAIN.replace(",", mark).replace(".", decimal)
    table, plain = (
        read_scores(written(tmp_path, text)),
        read_scores(written(tmp_path, PLAIN, "plain.csv")),
    )
    for name in ("energy", "knn"):
        np.testing.assert_array_equal(table.columns[name], plain.columns[name])
    assert (
        table.time.tolist() == plain.time.tolist() == [0.5, 1.5]
        and table.kind.tolist() == plain.kind.tolist()
    )
    (note,) = table.notes
    assert (
        said in note
        and ("commas in its decimals" in note) == (decimal == ",")
        and plain.notes == ()
    )


def test_packed_files_and_quoted_decimals_are_looked_at_as_well(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as out:
        out.write("energy;knn\n0,5;1\n")
    assert read_scores(tmp_path / "a.csv.gz").columns["energy"].tolist() == [0.5]
    assert read_scores(written(tmp_path, 'energy,knn\n"0,96",1\n')).columns["energy"].tolist() == [
        0.96
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz"])
def test_a_file_in_utf_16_is_refused_with_what_to_do(tmp_path, encoding, name):
    content = PLAIN.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert refusal(tmp_path / name) == f"{name} is UTF-16: save it as UTF-8"


def test_a_file_under_the_ending_of_another_is_refused_with_its_name(tmp_path):
    pq.write_table(pa.table({"energy": [1.0]}), tmp_path / "x.csv")
    assert refusal(tmp_path / "x.csv") == "x.csv is a Parquet file: name it .parquet"
    (tmp_path / "y.csv").write_bytes(gzip.compress(PLAIN.encode()))
    assert refusal(tmp_path / "y.csv") == "y.csv is packed: add .gz to its name"
    (tmp_path / "z.csv").write_bytes(b"PK\x03\x04" + bytes(60))
    assert refusal(tmp_path / "z.csv") == "z.csv is a spreadsheet or an archive: save it as CSV"


@pytest.mark.parametrize("place", ["fog", "knn"], ids=["in a cell", "in a column's name"])
def test_a_file_in_latin_1_is_refused_with_what_to_do(tmp_path, place):
    (tmp_path / "x.csv").write_bytes(PLAIN.replace(place, "grün").encode("latin-1"))
    assert refusal(tmp_path / "x.csv") == "x.csv is not UTF-8: save it as UTF-8"


def test_a_line_of_another_length_is_named_in_a_latin_1_file_too(tmp_path):
    (tmp_path / "x.csv").write_bytes((PLAIN + "grün,1,2\n").encode("latin-1"))
    assert "x.csv, row 3 (line 4) has 3 cells, the header has 5" in refusal(tmp_path / "x.csv")


def test_commas_that_may_be_thousands_are_refused_with_row_and_value(tmp_path):
    said = refusal(written(tmp_path, 'energy,knn\n"1,234",1\n'))
    assert "row 1 (line 2): energy is '1,234', which is no number; write 1.234" in said


@pytest.mark.parametrize(
    ("cell", "advice"), [("96.6%", "write 0.966"), ("1.5x", "leave the cell empty")]
)
def test_a_column_of_no_numbers_is_refused_by_row_and_value(tmp_path, cell, advice):
    said = refusal(written(tmp_path, f"kind,correct,msp\nclean,1,{cell}\nfog,0,{cell}\n"))
    assert f"row 1 (line 2): msp is {cell!r}, which is no number" in said and advice in said
    same = refusal(
        written(tmp_path, f"kind,correct,msp\nclean,1,{cell}\nfog,0,{cell}\n"), columns=["msp"]
    )
    assert f"row 1 (line 2): msp is {cell!r}" in same and advice in same


def test_a_line_of_another_length_is_named(tmp_path):
    text = 'a,b,c\n1,2,"x\ny"\n\n1,2\n'
    assert "scores.csv, row 2 (line 5) has 2 cells, the header has 3" in refusal(
        written(tmp_path, text)
    )


@pytest.mark.parametrize(
    ("factor", "name"), [(1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")]
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_times_in_parts_of_a_second_are_read_with_a_note(tmp_path, factor, name, ending):
    seconds = np.array([1772409600.0, 1772409601.0])
    whole = (seconds.astype(np.int64) * int(factor)).tolist()
    if ending == "csv":
        file = written(tmp_path, "time,energy\n" + "".join(f"{t},1\n" for t in whole))
    else:
        file = tmp_path / "scores.parquet"
        pq.write_table(pa.table({"time": whole, "energy": [1.0, 2.0]}), file)
    table = read_scores(file)
    np.testing.assert_allclose(table.time, seconds)
    assert f"time looks like {name} since 1970, and is read so" in table.notes


def test_times_in_two_units_are_refused_by_row(tmp_path):
    rows = "".join(f"{1772409600 + i},1\n" for i in range(1_000_000)) + "1772409600000,1\n"
    said = refusal(written(tmp_path, "time,energy\n" + rows))
    assert (
        "row 1,000,001 (line 1,000,002): time 1772409600000 looks like milliseconds; seconds since 1970 are expected"
        in said
    )


@given(st.floats(-1e11, 1e11))
def test_seconds_are_left_alone(tmp_path_factory, time):
    file = written(tmp_path_factory.mktemp("t"), f"time,energy\n{time!r},1\n")
    assert read_scores(file).time.tolist() == [time]


def test_common_names_are_taken_and_said(tmp_path):
    header = "Timestamp,image_id,is_correct,condition,patient_id,energy\n"
    table = read_scores(written(tmp_path, header + "0,a,1,clean,p,1\n3,b,0,fog,q,2\n"))
    assert table.time.tolist() == [0.0, 3.0] and table.id.tolist() == ["a", "b"]
    assert table.correct.tolist() == [True, False] and table.kind.tolist() == ["clean", "fog"]
    assert table.group.tolist() == ["p", "q"] and list(table.columns) == ["energy"]
    (note,) = table.notes
    assert (
        "condition for kind, is_correct for correct" in note
        and "Timestamp for time, image_id for id" in note
    )


def test_the_plain_name_goes_first_and_others_are_suggested(tmp_path):
    table = read_scores(written(tmp_path, "timestamp,time,energy\n5,7,1\n"))
    assert table.time.tolist() == [7.0] and "timestamp" in table.columns
    file = written(tmp_path, "weather,answer_was_right,energy\nclean,1,1\nfog,0,2\n", "odd.csv")
    said = refusal(file, needs=("kind", "correct"))
    assert "did you mean --kind weather?" in said
    assert (
        "no column 'kind' (or role, shift, fold, condition, corruption, perturbation, shift_kind, shift_type, domain)"
        in said
    )
    assert "did you mean --correct answer_was_right?" in refusal(file, needs=("correct",))


def test_a_prediction_is_no_score_unless_it_is_named(tmp_path):
    text = "predicted_class,prediction_2,predicted_probability,energy\n" + "1,2,0.3,0.5\n" * 3
    assert list(read_scores(written(tmp_path, text)).columns) == ["predicted_probability", "energy"]
    assert list(read_scores(written(tmp_path, text), columns=["predicted_class"]).columns) == [
        "predicted_class"
    ]


def test_scores_that_may_be_none_are_noted_and_not_when_they_are_named(tmp_path):
    rng = np.random.default_rng(0)
    shifted = np.repeat([0, 1], 40)
    rows = [
        f"{'fog' if s else 'clean'},{rng.normal(s):.4f},{s + 1},{3 * i},{rng.normal():.4f}"
        for i, s in enumerate(shifted)
    ]
    file = written(tmp_path, "kind,energy,site,frame,latency_ms\n" + "\n".join(rows) + "\n")
    site, frame, latency = read_scores(file).notes
    assert (
        "'site' has 2 different values and alone tells clean from shifted rows (AUC 1.000)" in site
    )
    assert "'frame' rises from row to row and alone tells" in frame and "--score" in frame
    assert "'latency_ms' has the name of something else" in latency
    assert read_scores(file, columns=["energy", "site", "frame", "latency_ms"]).notes == ()


def test_a_table_sorted_by_its_score_and_a_very_good_score_are_not_doubted():
    rng = np.random.default_rng(1)
    shifted = np.repeat([False, True], 200)
    good = rng.normal(8.0 * shifted)
    assert separation(good, shifted) > 0.995 and doubts({"energy": good}, shifted) == []
    assert doubts({"energy": np.sort(rng.normal(size=400))}, rng.random(400) < 0.5) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_the_separation_is_that_of_all_pairs(rows):
    values, shifted = np.array([float(v) for v, _ in rows]), np.array([s for _, s in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a in values[shifted] for b in values[~shifted]]
    area = float(np.mean(pairs)) if pairs else 0.5
    assert separation(values, shifted) == pytest.approx(max(area, 1 - area))
