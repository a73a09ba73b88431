"""The service's state on disk: one SQLite file, synced before anybody is told that an event was
counted.

It holds a log of what was counted (numbered rows), a snapshot of the monitor after one of them, the
bundle, alarms, and readings for the charts (thinned as they grow old). The log up to the snapshot
is deleted, so that the file stays small and a restart replays little. One process uses a state file
at a time.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> file = StateFile(Path(folder.name) / "state.sqlite", bundle="0123abcd", content="{}")
>>> file.append([(EVENTS, b"first"), (EVENTS, b"second")])
2
>>> file.snapshot(b"the monitor after the first", upto=1)
>>> file.restored()
(b'the monitor after the first', [(2, 1, b'second')])
>>> file.close(); folder.cleanup()
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from roadworthy.store import StoreError
from roadworthy.web import ServiceError

VERSION = "3"
ENDING = ".state.sqlite"
"""Of the file beside a bundle, if no other is named."""
EVENTS, LABELS, SINGLES = 1, 2, 3
"""Rows of the log: a batch counted in one call, labels, and events counted one by one."""
WAITING, DELIVERED, NO_WEBHOOK, REFUSED = 0, 1, 2, 3
"""What became of an alarm at the webhook."""
PAGE = 8192
PATIENCE_S = 10.0
"""How long to wait for another process that holds the file."""
PORTION = 4 << 20
"""Bytes of the log that are deleted at a time: about ten milliseconds."""
ROWS = 2000
"""Rows of the log that are deleted at a time, at most."""
TRIAL = 64 << 10
"""Bytes that are written to see whether posts can be: about as many as a large one takes."""
THINNED = ((3600.0, 60.0), (14 * 86_400.0, 3600.0))
"""Readings older than this are kept one in so many seconds."""
_SCHEMA = """
create table meta (key text primary key, value text not null);
create table log (seq integer primary key autoincrement, kind integer not null, body blob not null);
create table snapshot (
    one integer primary key check (one = 1), seq integer not null, made real not null,
    body blob not null
);
create table alarms (
    key text primary key, event integer not null, body text not null, delivered integer not null,
    logged integer not null
);
create table points (event integer primary key, time real not null, body text not null);
"""


class Full(StoreError):
    """There is no space for what was to be written; nothing of it was."""


class Unwritable(StoreError):
    """The file could not be written now; nothing was."""


def beside(bundle: Path) -> Path:
    """The state file of a bundle, if no other is named.

    >>> str(beside(Path("runs/scores.bundle.json")))
    'runs/scores.bundle.state.sqlite'
    """
    return bundle.parent / f"{bundle.name.removesuffix('.json')}{ENDING}"


def make_folder(path: Path, *, called: str) -> None:
    """Make the folder of a file if it alone is missing: more than one is rather a typing error.

    >>> make_folder(Path("no/such/s.sqlite"), called="--state")
    Traceback (most recent call last):
    roadworthy.web.ServiceError: --state: there is no folder no. Make no/such first.
    """
    folder = path.parent
    if folder.exists():
        return
    if not folder.parent.is_dir():
        raise ServiceError(f"{called}: there is no folder {folder.parent}. Make {folder} first.")
    folder.mkdir(exist_ok=True)


class StateFile:
    """A state file, open. Without a bundle it must exist already."""

    def __init__(
        self,
        path: Path,
        *,
        bundle: str | None = None,
        content: str = "",
        max_bytes: int | None = None,
        alone: bool = True,
    ) -> None:
        self.path = path
        self._lock: int | None = None
        if bundle is None and not path.exists():
            raise StoreError(
                f"{path}: there is no such state file. `roadworthy monitor BUNDLE --state {path}` "
                "makes one."
            )
        if bundle is not None:
            make_folder(path, called=f"state file {path}")
        if alone:
            self._lock = _locked(path)
        try:
            # SQLite gives its journal the mode of the file.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            # One thread at a time uses it, but not always the same.
            self._db = sqlite3.connect(
                path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
            )
            self._db.execute("pragma synchronous = full")
            if bundle is not None:
                self._prepare(bundle, content)
            found = dict(self._ask("select key, value from meta"))
            self._check(found, bundle)
            self.limit(max_bytes)
        except (sqlite3.DatabaseError, OSError, Full) as error:
            self.close()
            if isinstance(error, Full) or _is_full(error):
                raise Full(
                    f"{path} cannot be opened: its disk is full. Free some space."
                ) from error
            raise StoreError(
                f"{path} is not a state file of a monitor, or it is damaged ({error})."
            ) from error
        except BaseException:
            self.close()
            raise
        self.bundle, self.content = found["bundle"], found["content"]
        self.replica = found["replica"]
        """The name under which events are counted into this file, and no other."""

    def _prepare(self, bundle: str, content: str) -> None:
        db = self._db
        db.execute(f"pragma page_size = {PAGE}")
        db.execute("pragma journal_mode = wal")
        db.execute(f"pragma journal_size_limit = {64 << 20}")
        if not self._ask("select 1 from sqlite_master where name = 'meta'"):
            with self._transaction():
                for statement in _SCHEMA.split(";")[:-1]:
                    db.execute(statement)
                meta = {"version": VERSION, "bundle": bundle, "content": content}
                meta["replica"] = uuid.uuid4().hex
                db.executemany("insert into meta values (?, ?)", meta.items())

    def _check(self, found: Mapping[str, str], bundle: str | None) -> None:
        if found.get("version") != VERSION:
            raise StoreError(
                f"{self.path} has version {found.get('version')}; this program reads {VERSION}. "
                "Give another --state."
            )
        if bundle is not None and found["bundle"] != bundle:
            raise StoreError(
                f"{self.path} belongs to bundle {found['bundle']}; this is bundle {bundle}. "
                "Give another --state."
            )

    def limit(self, max_bytes: int | None) -> None:
        """Let the file grow no further than this; None removes the limit."""
        pages = max(max_bytes // PAGE, 1) if max_bytes else 2**31
        self._db.execute(f"pragma max_page_count = {pages}")

    def append(self, rows: Sequence[tuple[int, bytes]]) -> int:
        """Add rows to the log in one synced transaction; the number of the last."""
        with self._transaction() as db:
            for row in rows:
                last = db.execute("insert into log (kind, body) values (?, ?)", row).lastrowid
        return int(last or 0)

    def try_to_write(self) -> None:
        """Write something and delete it again, without waiting; raises if that fails."""
        self._db.execute("pragma busy_timeout = 0")
        try:
            with self._transaction() as db:
                db.execute("insert or replace into meta values ('trial', zeroblob(?))", (TRIAL,))
            with self._transaction() as db:
                db.execute("delete from meta where key = 'trial'")
        finally:
            self._db.execute(f"pragma busy_timeout = {PATIENCE_S * 1000:.0f}")

    def forget(self, *, after: int) -> None:
        """Delete rows of the log that were added after one."""
        with self._transaction() as db:
            db.execute("delete from log where seq > ?", (after,))

    def snapshot(
        self, body: bytes, *, upto: int, clock: float | None = None, forget: bool = True
    ) -> None:
        """Replace the snapshot, and `forget` the log up to it; `clock` is the service's."""
        made = time.time() if clock is None else clock
        with self._transaction() as db:
            # The log goes first: if no space is left, the snapshot takes its place.
            if forget:
                db.execute("delete from log where seq <= ?", (upto,))
            db.execute("delete from snapshot")
            db.execute("insert into snapshot values (1, ?, ?, ?)", (upto, made, body))

    def forget_portion(self) -> bool:
        """Delete the oldest rows of the log up to the snapshot; whether there were any."""
        rows = self._ask(
            "select seq, length(body) from log where seq <= (select seq from snapshot) "
            "order by seq limit ?",
            (ROWS,),
        )
        if not rows:
            return False
        sizes = accumulate(size for _, size in rows)
        last = next(
            (seq for (seq, _), size in zip(rows, sizes, strict=True) if size >= PORTION),
            rows[-1][0],
        )
        with self._transaction() as db:
            db.execute("delete from log where seq <= ?", (last,))
        return True

    def has_log(self) -> bool:
        """Whether there are rows of which a snapshot would make room."""
        return bool(self._ask("select 1 from log limit 1"))

    def restored(self) -> tuple[bytes | None, list[tuple[int, int, bytes]]]:
        """The snapshot, if there is one, and the rows (number, kind, body) after it."""
        self._db.execute("begin")  # one view of both, though the service may write meanwhile
        try:
            kept = self._ask("select seq, body from snapshot")
            seq, body = kept[0] if kept else (0, None)
            query = "select seq, kind, body from log where seq > ? order by seq"
            return body, self._ask(query, (seq,))
        finally:
            self._db.execute("rollback")

    def snapshot_clock(self) -> float | None:
        """What the clock showed when the snapshot was made; None if there is none."""
        found = self._ask("select made from snapshot")
        return float(found[0][0]) if found else None

    def last(self) -> int:
        """The number of the last row that was ever written to the log."""
        found = self._ask("select seq from sqlite_sequence where name = 'log'")
        return int(found[0][0]) if found else 0

    def keep_readings(self, readings: Iterable[Mapping[str, Any]]) -> None:
        """Keep readings; one after the same event replaces the one before."""
        rows = [(reading["event"], reading["time"], json.dumps(reading)) for reading in readings]
        with self._transaction() as db:
            db.executemany("insert or replace into points values (?, ?, ?)", rows)

    def readings(
        self,
        *,
        after: float = float("-inf"),
        after_event: int = -1,
        limit: int = 5000,
        oldest: bool = False,
    ) -> list[dict[str, Any]]:
        """The latest readings after a time and an event, or the `oldest`, in their order."""
        order = "asc" if oldest else "desc"
        query = (
            f"select body from points where event > ? and time > ? order by event {order} limit ?"
        )
        found = [json.loads(body) for (body,) in self._ask(query, (after_event, after, limit))]
        return found if oldest else found[::-1]

    def thin(self) -> None:
        """Keep old readings coarsely."""
        newest = self._ask("select max(time) from points")[0][0]
        if newest is None:
            return
        with self._transaction() as db:
            for older, step in THINNED:
                db.execute(
                    "delete from points where time < ?1 and event not in (select max(event) "
                    "from points where time < ?1 group by cast(time / ?2 as integer))",
                    (newest - older, step),
                )

    def keep_alarm(self, alarm: Mapping[str, Any], *, delivered: int, logged: bool = True) -> None:
        """Keep an alarm, known by its key; `logged` is False if a line of the alarm log is due."""
        row = (alarm["key"], alarm["event"], json.dumps(alarm), delivered, logged)
        with self._transaction() as db:
            db.execute("insert or ignore into alarms values (?, ?, ?, ?, ?)", row)

    def settle_alarms(self, column: str, settled: Iterable[tuple[int, str]]) -> None:
        """Write what became of alarms (value, key) into the column ``delivered`` or ``logged``."""
        with self._transaction() as db:
            db.executemany(f"update alarms set {column} = ? where key = ?", settled)

    def undelivered(self) -> list[dict[str, Any]]:
        """Alarms that wait for the webhook, oldest first."""
        return self._alarms("delivered = 0")

    def unlogged(self) -> list[dict[str, Any]]:
        """Alarms that are not in the alarm log yet, oldest first."""
        return self._alarms("logged = 0")

    def _alarms(self, where: str) -> list[dict[str, Any]]:
        rows = self._ask(f"select body from alarms where {where} order by event, rowid")
        return [json.loads(body) for (body,) in rows]

    def alarms(self, *, limit: int = 1000) -> list[dict[str, Any]]:
        """The latest alarms, oldest first, each with what became of it at the webhook."""
        words = {WAITING: False, DELIVERED: True, NO_WEBHOOK: "no webhook", REFUSED: "refused"}
        rows = self._ask(
            "select body, delivered from alarms order by event desc, rowid desc limit ?", (limit,)
        )
        return [{**json.loads(body), "delivered": words[became]} for body, became in rows[::-1]]

    def knows_alarm(self, key: str) -> bool:
        """Whether an alarm was kept."""
        return bool(self._ask("select 1 from alarms where key = ?", (key,)))

    def size(self) -> int:
        """Bytes of the file and its journal."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(f.stat().st_size for f in files if f.exists())

    def close(self) -> None:
        """Close the file and let others have it."""
        with contextlib.suppress(sqlite3.Error, AttributeError):
            self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _ask(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._db.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        try:
            db.execute("begin immediate")
            yield db
            db.execute("commit")
        except sqlite3.Error as error:
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("rollback")
            if _is_full(error):
                raise Full(
                    f"{self.path}: no space is left. Nothing of this was counted; send it later."
                ) from error
            raise Unwritable(
                f"{self.path} cannot be written now ({error}). Nothing of this was counted; "
                "send it again."
            ) from error


def _locked(path: Path) -> int:
    """The lock of the one process that uses this file; it ends with the process."""
    lock = os.open(
        path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreError(
            f"{path} is in use by a running monitor. Stop it, give its address, or give another "
            "--state."
        ) from None
    return lock


def _is_full(error: Exception) -> bool:
    """Whether there is no space; for its shared memory SQLite calls that an I/O error."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE
