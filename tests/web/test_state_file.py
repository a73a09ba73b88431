"""The state file: who may read it and use it, a full disk, and what goes from it with time."""

from __future__ import annotations

import sqlite3
import stat

import numpy as np
import pytest
from monitored import START, events, serving, state_at

from roadworthy.cli.app import run
from roadworthy.store import StoreError
from roadworthy.web import ServiceError, state_file
from roadworthy.web.state_file import EVENTS, Full, StateFile


def filled(error: int) -> type[sqlite3.Connection]:
    """A connection to a file on a full disk."""

    class Filled(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            if "journal_mode" in sql:
                found = sqlite3.OperationalError("database or disk is full")
                found.sqlite_errorcode = error
                raise found
            return super().execute(sql, *values)

    return Filled


class OnePage(sqlite3.Connection):
    """A connection to a file that may have one page, as if the disk fills when its tables are made."""

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        super().execute("pragma max_page_count = 1")
        return super().execute(sql, *values)


@pytest.mark.parametrize(
    "connection",
    [filled(sqlite3.SQLITE_FULL), filled(sqlite3.SQLITE_IOERR_SHMSIZE), OnePage],
    ids=["new", "old", "page"],
)
def test_a_full_disk_is_not_called_a_damaged_file(
    bundle_path, tmp_path, monkeypatch, capsys, connection
):
    connect = sqlite3.connect
    monkeypatch.setattr(
        state_file.sqlite3, "connect", lambda *a, **more: connect(*a, **more, factory=connection)
    )
    state = tmp_path / "s.sqlite"
    with pytest.raises(Full, match="disk is full"):
        StateFile(state, bundle="0123abcd", content="{}")
    assert run(["monitor", str(bundle_path), "--state", str(state), "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert "disk is full" in said and "damaged" not in said
    monkeypatch.undo()
    StateFile(state, bundle="0123abcd", content="{}").close()


def test_nobody_else_may_read_a_state(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(100))
        files = list(tmp_path.glob("s.sqlite*"))
        assert {f.name for f in files} >= {"s.sqlite", "s.sqlite-wal", "s.sqlite-shm"}
        assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}


def test_a_file_is_used_by_one_process_only(made, tmp_path):
    file = state_at(tmp_path / "s.sqlite", made)
    with pytest.raises(StoreError, match="running"):
        state_at(tmp_path / "s.sqlite", made)
    with pytest.raises(StoreError, match="running"):
        StateFile(tmp_path / "s.sqlite")
    StateFile(tmp_path / "s.sqlite", alone=False).close()
    file.close()
    state_at(tmp_path / "s.sqlite", made).close()
    with pytest.raises(StoreError, match="no such state file"):
        StateFile(tmp_path / "none.sqlite")


def test_the_folder_of_a_state_is_made_if_it_alone_is_missing(made, tmp_path):
    state_at(tmp_path / "states" / "s.sqlite", made).close()
    assert (tmp_path / "states" / "s.sqlite").exists()
    with pytest.raises(ServiceError, match="there is no folder"):
        state_at(tmp_path / "sattes" / "today" / "s.sqlite", made)
    assert not (tmp_path / "sattes").exists()


@pytest.mark.parametrize("sizes", [[10, 10, 10, 10, 10], [35, 1, 1], [1] * 50, [100]])
def test_the_log_is_deleted_from_its_oldest_row_on_a_portion_at_a_time(
    sizes, made, tmp_path, monkeypatch
):
    monkeypatch.setattr(state_file, "PORTION", 30)
    file = state_at(tmp_path / "s.sqlite", made)
    last = file.append([(EVENTS, b"x" * size) for size in sizes])
    file.append([(EVENTS, b"later")])
    assert not file.forget_portion(), "there is no snapshot yet"
    file.snapshot(b"kept", upto=last, forget=False)
    held = [len(body) for (body,) in file._ask("select body from log order by seq")]
    while file.forget_portion():
        left = [len(body) for (body,) in file._ask("select body from log order by seq")]
        gone = held[: len(held) - len(left)]
        assert gone and held[len(gone) :] == left and sum(gone[:-1]) < 30
        held = left
    assert held == [5] and file.restored() == (b"kept", [(last + 1, EVENTS, b"later")])


def test_old_readings_are_kept_coarsely(made, tmp_path):
    file = state_at(tmp_path / "s.sqlite", made)
    with file._transaction() as db:
        rows = [(i, START + i) for i in range(7200)]
        db.executemany("insert into points values (?, ?, '{}')", rows)
    file.thin()
    times = [t for (t,) in file._ask("select time from points order by time")]
    assert 3600 <= len(times) <= 3662 and max(np.diff(times)) <= 120 and times[-1] == START + 7199
