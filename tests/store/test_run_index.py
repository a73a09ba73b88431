"""The index of runs is made from the folders: no state of it fails an assessment, and none loses a run."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from roadworthy.store import RunIndex

OTHER_COLUMNS = (
    "create table runs (folder text primary key, key text, name text, created text, headline text)"
)


def record(number: int) -> dict:
    return {
        "key": f"k{number}",
        "name": "a",
        "created": f"2026-01-0{number}",
        "status": "finished",
        "verdict": "met",
        "subject": {"fingerprint": "f", "version": "1"},
        "cases": {"total": number},
    }


def with_run(root: Path, number: int) -> Path:
    folder = root / f"run-{number}"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(record(number)))
    return folder


def put(root: Path, number: int) -> None:
    RunIndex(root, patience_s=0.1).put(with_run(root, number), record(number))


def folders(root: Path) -> list[str]:
    return [row["folder"] for row in RunIndex(root, patience_s=0.1).runs()]


def test_rows_come_newest_first_and_follow_the_folders(tmp_path):
    for number in (1, 2):
        put(tmp_path, number)
    with_run(tmp_path, 3)
    assert folders(tmp_path) == ["run-3", "run-2", "run-1"]
    assert RunIndex(tmp_path).runs()[0] == {
        "folder": "run-3", "key": "k3", "name": "a", "created": "2026-01-03", "status": "finished", "verdict": "met",
        "subject": "f", "version": "1", "cases": 3,
    }  # fmt: skip
    (tmp_path / "run-2" / "run.json").unlink()
    (tmp_path / "run-1" / "run.json").write_text("{")
    assert folders(tmp_path) == ["run-3", "run-1"]


@pytest.mark.parametrize(
    "damage", ["garbage", "cut", "empty", "other columns", "other version", "a text"]
)
def test_a_damaged_or_foreign_index_is_made_again(tmp_path, damage):
    put(tmp_path, 1)
    path = RunIndex(tmp_path).path
    if damage == "garbage":
        path.write_bytes(b"garbage" * 500)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:2000] + b"\xff" * 3000)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "a text":
        path.write_text("this is no database")
    else:
        path.unlink()
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(OTHER_COLUMNS)
            db.execute(f"pragma user_version = {2 if damage == 'other columns' else 9}")
    put(tmp_path, 2)
    assert folders(tmp_path) == ["run-2", "run-1"]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from runs").fetchone() == (2,)


def test_an_index_that_another_process_holds_is_neither_waited_for_without_end_nor_taken_away(
    tmp_path,
):
    put(tmp_path, 1)
    path = RunIndex(tmp_path).path
    inode = path.stat().st_ino
    with closing(sqlite3.connect(path)) as db:
        db.execute("begin exclusive")
        put(tmp_path, 2)
        assert folders(tmp_path) == ["run-2", "run-1"]
        db.rollback()
    assert path.stat().st_ino == inode
    assert folders(tmp_path) == ["run-2", "run-1"]


def test_a_folder_that_cannot_be_written_fails_nothing(tmp_path):
    (tmp_path / "index.sqlite").mkdir()
    put(tmp_path, 1)
    assert folders(tmp_path) == ["run-1"]


PUTS = """
import sys
from pathlib import Path
from roadworthy.store import RunIndex
root = Path(sys.argv[1])
for number in range(40):
    folder = root / f"{sys.argv[2]}-{number}"
    RunIndex(root, patience_s=300.0).put(folder, {"key": folder.name})
"""


def test_processes_that_put_at_once_lose_no_row(tmp_path):
    working = [
        subprocess.Popen([sys.executable, "-c", PUTS, str(tmp_path), name]) for name in "abc"
    ]
    assert [p.wait() for p in working] == [0, 0, 0]
    with closing(sqlite3.connect(RunIndex(tmp_path).path)) as db:
        assert db.execute("select count(*) from runs").fetchone() == (120,)
