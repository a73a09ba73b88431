"""A state file that cannot be opened for want of space is not called damaged."""

from __future__ import annotations

import sqlite3

import pytest

from roadworthy.cli.app import run
from roadworthy.web import ledger
from roadworthy.web.ledger import Full, Ledger


def filled(error: int) -> type[sqlite3.Connection]:
    """A connection to a file on a full disk: what SQLite says there when the file becomes one with a log of writes."""

    class Filled(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            if "journal_mode" in sql:
                found = sqlite3.OperationalError("database or disk is full")
                found.sqlite_errorcode = error
                raise found
            return super().execute(sql, *values)

    return Filled


class OnePage(sqlite3.Connection):
    """A connection to a file that may have one page, as where the disk is full when its tables are made."""

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        super().execute("pragma max_page_count = 1")
        return super().execute(sql, *values)


@pytest.mark.parametrize(
    "connection",
    [filled(sqlite3.SQLITE_FULL), filled(sqlite3.SQLITE_IOERR_SHMSIZE), OnePage],
    ids=["new", "old", "page"],
)
def test_a_full_disk_is_said_to_be_full_when_a_state_is_opened(
    bundle_path, tmp_path, monkeypatch, capsys, connection
):
    connect = sqlite3.connect
    monkeypatch.setattr(
        ledger.sqlite3, "connect", lambda *a, **more: connect(*a, **more, factory=connection)
    )
    state = tmp_path / "s.sqlite"
    with pytest.raises(Full, match="its disk is full; make room there, or give another --state"):
        Ledger(state, bundle="0123abcd", content="{}")
    assert run(["monitor", str(bundle_path), "--state", str(state), "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert (
        f"{state} cannot be opened: its disk is full" in said
        and "damaged" not in said
        and "send it" not in said
    )
    monkeypatch.undo()
    Ledger(state, bundle="0123abcd", content="{}").close()
