"""A group never spans two roles, and neither does a sample of one source, nor a copy of it under another name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data import DataError, Dataset, load
from roadworthy.data.loaders.files import Files, Sequences
from roadworthy.data.roles import check_roles
from roadworthy.data.values import FRAMES, IMAGE, TEXT, VECTOR, Unreadable


def data(ids: str, groups: str | None = None, source: str = "folder") -> Dataset:
    return Dataset(
        "d",
        IMAGE,
        np.zeros((len(ids), 2, 2), np.uint8),
        ids=np.array(list(ids), dtype=object),
        groups=None if groups is None else np.array(list(groups), dtype=object),
        source=source,
    )


def test_a_group_in_two_roles_is_refused_even_from_different_files() -> None:
    roles = {"calibration": data("ab", "pq", "one"), "test": data("cd", "qr", "two")}
    with pytest.raises(DataError, match="group 'q' is in two roles, calibration and test"):
        check_roles(roles)


def test_a_sample_in_two_roles_is_refused_where_the_source_is_one() -> None:
    with pytest.raises(DataError, match="sample 'b' is in two roles, reference and test"):
        check_roles({"reference": data("ab"), "calibration": data("cd"), "test": data("be")})


def test_equal_row_numbers_of_two_files_are_two_samples() -> None:
    check_roles({"calibration": data("ab", source="one"), "test": data("ab", source="two")})


def test_an_id_that_spells_like_a_group_is_no_group() -> None:
    check_roles({"calibration": data("pq", source="one"), "test": data("ab", "pq", "two")})


def test_samples_are_compared_where_only_one_role_has_groups() -> None:
    with pytest.raises(DataError, match="sample 'b' is in two roles"):
        check_roles({"calibration": data("ab"), "test": data("bc", "pq")})


def test_the_bundled_roles_are_disjoint() -> None:
    splits = ("reference", "calibration", "test")
    assert (
        check_roles(
            {s: load({"bundled": "fashion-mnist", "split": s}, base=Path(), name=s) for s in splits}
        )
        == []
    )


def pictures(n: int, seed: int, source: str = "") -> Dataset:
    images = np.random.default_rng(seed).integers(0, 256, (n, 4, 4), dtype=np.uint8)
    ids = np.array([f"{source}-{i}" for i in range(n)], dtype=object)
    return Dataset(source, IMAGE, images, ids=ids, source=source)


def put_into(data: Dataset, rows: np.ndarray) -> Dataset:
    """The data with its first rows replaced by these."""
    images = np.concatenate([rows, np.asarray(data.inputs)[len(rows) :]])
    return Dataset(data.name, IMAGE, images, ids=data.ids, source=data.source)


def test_a_copy_under_another_name_is_refused_in_any_order():
    test = pictures(200, 0, "test.npz")
    copied = put_into(pictures(200, 1, "cal.npz"), test.inputs[::-1])
    says = r"200 of 200 rows of calibration .* a row of test, such as 'cal.npz-0' and 'test.npz-199'.*each role rows of its own"
    with pytest.raises(DataError, match=says):
        check_roles({"calibration": copied, "test": test})


def test_a_part_of_another_role_is_refused_and_counted_in_the_smaller():
    test, few = pictures(300, 0, "test"), pictures(40, 1, "reference")
    with pytest.raises(
        DataError, match="5 of 40 rows of reference have the same input as a row of test"
    ):
        check_roles({"test": test, "reference": put_into(few, test.inputs[7:12])})


@pytest.mark.parametrize(("n", "shared"), [(300, 3), (30, 1)])
def test_an_accident_is_a_note(n, shared):
    test = pictures(n, 0, "test")
    (note,) = check_roles(
        {"calibration": put_into(pictures(n, 1, "cal"), test.inputs[:shared]), "test": test}
    )
    assert note.startswith(
        f"{shared} of {n} rows of calibration have the same input as a row of test, such as 'cal-0' and 'test-0'"
    )


@pytest.mark.parametrize("values", [3, 6, 12, 40])
def test_rows_that_are_equal_by_chance_are_not_refused(values):
    """Two columns of a few whole numbers each: people of one age and height are several people."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = (
            Dataset("d", VECTOR, rng.integers(0, values, (n, 2)).astype(float), source=str(n))
            for n in (150, 400)
        )
        check_roles({"calibration": a, "test": b})


def test_a_copy_of_rows_that_repeat_is_refused_all_the_same():
    rows = np.random.default_rng(0).integers(0, 3, (150, 2)).astype(float)
    with pytest.raises(DataError, match="150 of 150 rows"):
        check_roles({r: Dataset("d", VECTOR, rows, source=r) for r in ("calibration", "test")})


def files(folder: Path, contents: list[str]) -> Files:
    folder.mkdir()
    for number, text in enumerate(contents):
        (folder / f"{number}.txt").write_text(text)
    return Files(tuple(folder / f"{number}.txt" for number in range(len(contents))), Path.read_text)


def test_files_are_compared_by_their_bytes_and_missing_ones_never_equal(tmp_path):
    a, b = files(tmp_path / "a", list("vwxyz")), files(tmp_path / "b", list("zyxkl"))
    with pytest.raises(DataError, match=r"3 of 5 rows of calibration .* such as '2' and '2'"):
        check_roles(
            {
                "calibration": Dataset("a", TEXT, a, source="a"),
                "test": Dataset("b", TEXT, b, source="b"),
            }
        )
    gone = [Files(tuple(tmp_path / f"{r}{i}" for i in range(3)), Path.read_text) for r in "cd"]
    assert (
        check_roles(
            {
                r: Dataset(r, TEXT, g, source=r)
                for r, g in zip(("test", "reference"), gone, strict=True)
            }
        )
        == []
    )
    broken = [[Unreadable("gone")] * 3] * 2
    assert (
        check_roles(
            {
                r: Dataset(r, TEXT, g, source=r)
                for r, g in zip(("test", "reference"), broken, strict=True)
            }
        )
        == []
    )


def test_the_fingerprint_of_files_is_that_of_their_names_sizes_and_bytes(tmp_path):
    lines = [
        f"{i}.txt|1|{hashlib.blake2b(t.encode(), digest_size=16).hexdigest()}\n"
        for i, t in enumerate("vw")
    ]
    wanted = hashlib.blake2b("".join(lines).encode(), digest_size=16).hexdigest()
    assert files(tmp_path / "a", list("vw")).fingerprint() == wanted


def test_sequences_are_compared_as_wholes_and_other_rows_of_a_reader_are_other_rows(tmp_path):
    clips = [files(tmp_path / name, list(name)) for name in ("abc", "abd", "xyz")]
    again = [files(tmp_path / f"{name}2", list(name)) for name in ("abc", "xyz", "abe")]
    test, other = (
        Dataset(s, FRAMES, Sequences(tuple(c)), source=s)
        for s, c in (("one", clips), ("two", again))
    )
    with pytest.raises(DataError, match="2 of 3 rows of test"):
        check_roles({"test": test, "reference": other})
    assert check_roles({"test": test.take([1]), "reference": other}) == []


def test_readers_that_do_not_say_their_rows_are_not_compared():
    class Reader(list):
        def fingerprint(self) -> str:
            return "own"

    a, b = (Dataset(s, TEXT, Reader("abc"), source=s) for s in "ab")
    assert a.contents is None
    assert check_roles({"calibration": a, "test": b}) == []
