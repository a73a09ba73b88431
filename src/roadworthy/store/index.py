"""The index of runs: a SQLite table beside them, made again from the folders whenever it is missing or behind.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     print(RunIndex(Path(folder)).runs())
[]
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roadworthy.store.runs import RUN

_TABLE = """
create table if not exists runs (
    folder text primary key, key text, name text, created text, status text, verdict text,
    subject text, version text, cases integer
)
"""


@dataclass(frozen=True)
class RunIndex:
    """The runs under one root."""

    root: Path

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return self.root / "index.sqlite"

    def put(self, folder: Path, record: dict[str, Any]) -> None:
        """Add or replace a run's row."""
        with self._open() as db:
            _put(db, folder.relative_to(self.root).as_posix(), record)

    def runs(self) -> list[dict[str, Any]]:
        """All runs, newest first; rows of folders that are gone are dropped, folders that are new are added."""
        present = {p.parent.relative_to(self.root).as_posix(): p for p in self.root.glob(f"*/{RUN}")}
        with self._open() as db:
            known = {row[0] for row in db.execute("select folder from runs")}
            for folder in known - present.keys():
                db.execute("delete from runs where folder = ?", (folder,))
            for folder in present.keys() - known:
                try:
                    _put(db, folder, json.loads(present[folder].read_text()))
                except (OSError, json.JSONDecodeError):
                    continue
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute("select * from runs order by created desc")]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.root.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=10)) as db, db:
            try:
                db.execute(_TABLE)
            except sqlite3.DatabaseError:
                # The folders are the truth and the index is made from them, so a damaged one is simply made again.
                db.close()
                self.path.unlink()
                with closing(sqlite3.connect(self.path, timeout=10)) as fresh, fresh:
                    fresh.execute(_TABLE)
                    yield fresh
                return
            yield db


def _put(db: sqlite3.Connection, folder: str, record: dict[str, Any]) -> None:
    subject = record.get("subject", {})
    row = (
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
    db.execute(f"insert or replace into runs values ({','.join('?' * len(row))})", row)
