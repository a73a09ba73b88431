"""The index of runs: a SQLite table beside them, made again from the folders whenever it is missing, damaged or behind.

The folders are the truth: an index that another process holds, or that the disk does not take, is left as it is, and the next
reading of it catches up.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     print(RunIndex(Path(folder)).runs())
[]
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from roadworthy.store.runs import RUN

VERSION = 2
"""Of the table; an index of another version is made again."""
COLUMNS = ("folder", "key", "name", "created", "status", "verdict", "subject", "version", "cases")
_TABLE = """
create table if not exists runs (
    folder text primary key, key text, name text, created text, status text, verdict text,
    subject text, version text, cases integer
)
"""
_INSERT = (
    f"insert or replace into runs ({','.join(COLUMNS)}) values ({','.join('?' * len(COLUMNS))})"
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunIndex:
    """The runs under one root."""

    root: Path
    patience_s: float = 10.0
    """How long to wait for another process that writes."""

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return self.root / "index.sqlite"

    def put(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Add or replace a run's row; if the index cannot be written, the run is found again by its folder."""
        row = _row(folder.relative_to(self.root).as_posix(), record)
        with contextlib.suppress(sqlite3.Error, OSError):
            self._with(lambda db: db.execute(_INSERT, row))

    def runs(self) -> list[dict[str, Any]]:
        """All runs, newest first; rows of folders that are gone are dropped, folders that are new are added."""
        present = {
            p.parent.relative_to(self.root).as_posix(): p for p in self.root.glob(f"*/{RUN}")
        }
        try:
            return self._with(lambda db: _caught_up(db, present))
        except (sqlite3.Error, OSError):
            with closing(sqlite3.connect(":memory:")) as db:
                db.execute(_TABLE)
                return _caught_up(db, present)

    def _with(self, use: Callable[[sqlite3.Connection], _T]) -> _T:
        """Use the index; a damaged one, or one of another version, is made again first."""
        try:
            with self._open() as db:
                return use(db)
        except sqlite3.OperationalError as error:
            # Another process at work is no damage: its index must not be taken away from under it.
            if "no such column" not in str(error) and "no column named" not in str(error):
                raise
        except sqlite3.DatabaseError:
            pass
        self._remove()
        with self._open() as db:
            return use(db)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.root.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=self.patience_s)) as db, db:
            # The lock first, so that no other process makes the same table between looking and making.
            db.execute("begin immediate")
            if db.execute("pragma user_version").fetchone()[0] != VERSION:
                db.execute("drop table if exists runs")
                db.execute(_TABLE)
                db.execute(f"pragma user_version = {VERSION}")
            yield db

    def _remove(self) -> None:
        for suffix in ("", "-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _caught_up(db: sqlite3.Connection, present: Mapping[str, Path]) -> list[dict[str, Any]]:
    known = {row[0] for row in db.execute("select folder from runs")}
    db.executemany(
        "delete from runs where folder = ?", [(folder,) for folder in known - present.keys()]
    )
    for folder in present.keys() - known:
        try:
            db.execute(_INSERT, _row(folder, json.loads(present[folder].read_text())))
        except (OSError, ValueError, AttributeError):
            continue
    rows = db.execute(f"select {','.join(COLUMNS)} from runs order by created desc")
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _row(folder: str, record: Mapping[str, Any]) -> tuple[Any, ...]:
    subject = record.get("subject", {})
    return (
        folder,
        record.get("key", ""),
        record.get("name", ""),
        record.get("created", ""),
        record.get("status", ""),
        record.get("verdict", ""),
        subject.get("fingerprint", ""),
        subject.get("version", ""),
        record.get("cases", {}).get("total", 0),
    )
