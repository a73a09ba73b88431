"""The service's state on disk: one SQLite file, written ahead and synced before anybody is told that an event was counted.

A log of batches (numbered, append-only) and a snapshot of the monitor after one of them: what is in the log up to the snapshot is
not needed again and goes, at once or bit by bit, so that the file does not grow for ever and a restart replays little. Beside them
stand the bundle, alarms, readings (risk over time, thinned as they grow old) and the probabilities with which inputs were
drawn for labelling. One process counts into a ledger at a time; others may look while it does, and draw inputs.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> ledger = Ledger(Path(folder.name) / "state.sqlite", bundle="0123abcd", content="{}")
>>> ledger.append([(EVENTS, b"first"), (EVENTS, b"second")])
2
>>> ledger.snapshot(b"the monitor after the first", upto=1)
>>> ledger.restored()
(b'the monitor after the first', [(2, 1, b'second')])
>>> ledger.close(); folder.cleanup()
"""

from __future__ import annotations

import contextlib
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
from roadworthy.web.folders import make_folder
from roadworthy.web.state_files import locked

VERSION = "1"
EVENTS, LABELS, QUESTIONS, LOOK = 1, 2, 3, 4
"""Kinds of rows in the log: what was counted, with which probabilities inputs were drawn, and when labels were looked at."""
PAGE = 8192
PATIENCE_S = 10.0
"""How long to wait for another process that writes: `label-queue` while the service runs."""
ROWS = 2000
"""Rows of the log that are forgotten at a time at most: ten seconds of small ones."""
TRIAL = 64 << 10
"""Bytes that are written to see whether posts can be: about as many as a large one takes."""
THINNED = ((3600.0, 60.0), (14 * 86_400.0, 3600.0))
"""Readings older than the first are kept one in so many seconds: a minute after an hour, an hour after a fortnight."""
NO_WEBHOOK = 2
"""Stands where it would say whether an alarm was delivered: there was nobody to take it."""
ASKED = 20_000
"""Inputs drawn for labelling that are remembered."""
_SCHEMA = """
create table meta (key text primary key, value text not null);
create table log (seq integer primary key autoincrement, kind integer not null, body blob not null);
create table snapshot (
    one integer primary key check (one = 1), seq integer not null, made real not null, body blob not null
);
create table alarms (
    key text primary key, event integer not null, body text not null, delivered integer not null
);
create table points (event integer primary key, time real not null, body text not null);
create table asked (id text primary key, probability real not null, at real not null);
"""
_UNLOGGED = "create table if not exists unlogged (key text primary key)"
"""Alarms that are not in the alarm log yet; made when there is the first, so that a file without it is opened on a full disk."""


class Full(StoreError):
    """There is no space for what was to be written; nothing of it was."""


class Unwritable(StoreError):
    """The file could not be written now; nothing was."""


class Ledger:
    """A state file, open; without a bundle beside another process that counts into it, to look and to draw inputs."""

    def __init__(
        self,
        path: Path,
        *,
        bundle: str | None = None,
        content: str = "",
        max_bytes: int | None = None,
    ) -> None:
        self.path = path
        self._lock: int | None = None
        if bundle is None and not path.exists():
            raise StoreError(
                f"{path}: there is no state file; `roadworthy monitor BUNDLE --state {path}` makes one"
            )
        if bundle is not None:
            make_folder(path, called=f"state file {path}")
            self._lock = locked(path)
        try:
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
        except (sqlite3.DatabaseError, Full) as error:
            self.close()
            if isinstance(error, Full) or _is_full(error):
                raise Full(
                    f"{path} cannot be opened: its disk is full; make room there{', or give another --state' if bundle else ''}"
                ) from error
            raise StoreError(
                f"{path} is no state file of a monitor, or is damaged ({error}); {_other(bundle)}"
            ) from error
        except BaseException:
            self.close()
            raise
        self.bundle, self.content = found["bundle"], found["content"]
        self.replica = found.get("replica", "")
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
                meta = (("version", VERSION), ("bundle", bundle), ("content", content))
                db.executemany("insert into meta values (?, ?)", meta)
        if self._ask("select 1 from sqlite_master where name = 'readings'"):
            self._number_readings()
        if not self._ask("select 1 from meta where key = 'replica'"):
            with self._transaction():
                db.execute("insert into meta values ('replica', ?)", (uuid.uuid4().hex,))

    def _number_readings(self) -> None:
        """A file of before readings were known by their event has them by time."""
        with self._transaction() as db:
            db.execute(
                "create table points (event integer primary key, time real not null, body text not null)"
            )
            db.execute(
                "insert or replace into points select json_extract(body, '$.event'), time, body from readings"
            )
            db.execute("drop table readings")

    def _check(self, found: Mapping[str, str], bundle: str | None) -> None:
        if found.get("version") != VERSION:
            raise StoreError(
                f"{self.path} is of version {found.get('version')}, and this program reads {VERSION}; {_other(bundle)}"
            )
        if bundle is not None and found["bundle"] != bundle:
            raise StoreError(
                f"{self.path} holds the counts of bundle {found['bundle']}, and this is bundle {bundle}: counts of two "
                "calibrations do not add up; give another --state"
            )

    def limit(self, max_bytes: int | None) -> None:
        """Let the file grow no further than this; None takes the limit away."""
        self._db.execute(
            f"pragma max_page_count = {max(max_bytes // PAGE, 1) if max_bytes else 2**31}"
        )

    def append(self, rows: Sequence[tuple[int, bytes]]) -> int:
        """Add rows to the log in one transaction, synced when this returns; the number of the last."""
        with self._transaction() as db:
            for row in rows:
                last = db.execute("insert into log (kind, body) values (?, ?)", row).lastrowid
        return int(last or 0)

    def try_to_write(self) -> None:
        """Write something and take it away again, without waiting for anybody; raises where that cannot be done."""
        self._db.execute("pragma busy_timeout = 0")
        try:
            with self._transaction() as db:
                db.execute("insert or replace into meta values ('trial', zeroblob(?))", (TRIAL,))
            with self._transaction() as db:
                db.execute("delete from meta where key = 'trial'")
        finally:
            self._db.execute(f"pragma busy_timeout = {PATIENCE_S * 1000:.0f}")

    def forget(self, *, after: int) -> None:
        """Take rows back that were added after one."""
        with self._transaction() as db:
            db.execute("delete from log where seq > ?", (after,))

    def snapshot(
        self, body: bytes, *, upto: int, clock: float | None = None, forget: bool = True
    ) -> None:
        """Replace the snapshot, and `forget` the log up to it; `clock` is what the service's clock shows, where there is one."""
        made = time.time() if clock is None else clock
        with self._transaction() as db:
            # The log goes first: where no space is left, the snapshot takes its place.
            if forget:
                db.execute("delete from log where seq <= ?", (upto,))
            db.execute("delete from snapshot")
            db.execute("insert into snapshot values (1, ?, ?, ?)", (upto, made, body))

    def forget_before_snapshot(self, most: int) -> bool:
        """Forget the oldest rows up to the snapshot, until they are so many bytes; whether there were any."""
        rows = self._ask(
            "select seq, length(body) from log where seq <= (select seq from snapshot) order by seq limit ?",
            (ROWS,),
        )
        if not rows:
            return False
        sizes = accumulate(size for _, size in rows)
        last = next(
            (seq for (seq, _), size in zip(rows, sizes, strict=True) if size >= most), rows[-1][0]
        )
        with self._transaction() as db:
            db.execute("delete from log where seq <= ?", (last,))
        return True

    def has_log(self) -> bool:
        """Whether there are rows that a snapshot would make room of."""
        return bool(self._ask("select 1 from log limit 1"))

    def restored(self) -> tuple[bytes | None, list[tuple[int, int, bytes]]]:
        """The snapshot, if there is one, and the rows (number, kind, body) after it."""
        self._db.execute("begin")  # one view of both, though the service may write meanwhile
        try:
            kept = self._ask("select seq, body from snapshot")
            seq, body = kept[0] if kept else (0, None)
            return body, self._ask(
                "select seq, kind, body from log where seq > ? order by seq", (seq,)
            )
        finally:
            self._db.execute("rollback")

    def snapshot_clock(self) -> float | None:
        """What the clock showed when the snapshot was made; None where there is none."""
        found = self._ask("select made from snapshot")
        return float(found[0][0]) if found else None

    def last_events(self) -> bytes | None:
        """The last row of events in the log; None where it has none."""
        found = self._ask(
            "select body from log where kind = ? order by seq desc limit 1", (EVENTS,)
        )
        return found[0][0] if found else None

    def last(self) -> int:
        """The number of the last row that was ever written to the log."""
        found = self._ask("select seq from sqlite_sequence where name = 'log'")
        return int(found[0][0]) if found else 0

    def keep_readings(self, readings: Iterable[Mapping[str, Any]]) -> None:
        """Keep readings; one after the same event takes the place of the one before."""
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
        """The latest readings after a time and after an event, or the `oldest`, in the order in which they were taken."""
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
                    "delete from points where time < ?1 and event not in "
                    "(select max(event) from points where time < ?1 group by cast(time / ?2 as integer))",
                    (newest - older, step),
                )

    def keep_alarm(
        self, alarm: Mapping[str, Any], *, delivered: bool | None, logged: bool = True
    ) -> None:
        """Keep an alarm, known by its key; `delivered` is None where there is nobody to deliver it to, and `logged` is False where
        it belongs in an alarm log and is not there yet."""
        row = (
            alarm["key"],
            alarm["event"],
            json.dumps(alarm),
            NO_WEBHOOK if delivered is None else int(delivered),
        )
        with self._transaction() as db:
            db.execute("insert or ignore into alarms values (?, ?, ?, ?)", row)
            if not logged:
                db.execute(_UNLOGGED)
                db.execute("insert or ignore into unlogged values (?)", (alarm["key"],))

    def logged(self, alarms: Iterable[Mapping[str, Any]]) -> None:
        """Alarms are in the alarm log by now."""
        with self._transaction() as db:
            db.execute(_UNLOGGED)
            db.executemany(
                "delete from unlogged where key = ?", [(alarm["key"],) for alarm in alarms]
            )

    def unlogged(self, most: int = -1) -> list[dict[str, Any]]:
        """The alarms that are not, oldest first; of more than `most` these."""
        if not self._ask("select 1 from sqlite_master where name = 'unlogged'"):
            return []
        query = "select body from alarms where key in (select key from unlogged) order by event, rowid limit ?"
        rows = self._ask(query, (most,))
        return [json.loads(body) for (body,) in rows]

    def delivered(self, alarms: Iterable[Mapping[str, Any]]) -> None:
        """Alarms have reached their receiver."""
        with self._transaction() as db:
            db.executemany(
                "update alarms set delivered = 1 where key = ?",
                [(alarm["key"],) for alarm in alarms],
            )

    def alarms(self, *, limit: int = 1000) -> list[dict[str, Any]]:
        """The latest alarms, oldest first, each with whether it was delivered: true, false or "no webhook"."""
        rows = self._ask(
            "select body, delivered from alarms order by event desc, rowid desc limit ?", (limit,)
        )
        return _with_delivered(reversed(rows))

    def since_undelivered(self) -> list[dict[str, Any]]:
        """The same of the oldest that was not delivered, and of all since; of those before it the last of each kind that was, and
        that there was no webhook for."""
        oldest = "select min(event) from alarms where delivered = 0"
        kinds = "json_extract(body, '$.kind'), json_extract(body, '$.late'), delivered"
        place = f"row_number() over (partition by {kinds} order by event desc, rowid desc)"
        last = f"select number from (select rowid as number, {place} as place from alarms) where place = 1"
        where = f"event >= ({oldest}) or rowid in ({last})"
        return _with_delivered(
            self._ask(f"select body, delivered from alarms where {where} order by event, rowid")
        )

    def knows_alarm(self, key: str) -> bool:
        """Whether an alarm was kept."""
        return bool(self._ask("select 1 from alarms where key = ?", (key,)))

    def keep_model(self, model: str) -> None:
        """Remember which model of a server of models is counted into this file."""
        with self._transaction() as db:
            db.execute("insert or replace into meta values ('model', ?)", (model,))

    def model(self) -> str | None:
        """What was remembered of it."""
        found = self._ask("select value from meta where key = 'model'")
        return found[0][0] if found else None

    def ask(self, drawn: Iterable[tuple[str, float]]) -> None:
        """Write down with which probability inputs were drawn for labelling; the greater one stands."""
        now = time.time()
        with self._transaction() as db:
            db.executemany(
                "insert into asked values (?, ?, ?) on conflict do update set probability = max(probability, excluded.probability)",
                [(str(name), probability, now) for name, probability in drawn],
            )
            db.execute(
                "delete from asked where rowid not in (select rowid from asked order by at desc limit ?)",
                (ASKED,),
            )

    def asked(self, ids: Sequence[str] | None = None) -> dict[str, float]:
        """The probability with which inputs were drawn: of these, or of all."""
        if ids is None:
            return dict(self._ask("select id, probability from asked"))
        found: dict[str, float] = {}
        for at in range(0, len(ids), 500):
            part = tuple(ids[at : at + 500])
            marks = ",".join("?" * len(part))
            found.update(
                self._ask(f"select id, probability from asked where id in ({marks})", part)
            )
        return found

    def size(self) -> int:
        """Bytes of the file and its log of writes."""
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
                    f"{self.path}: no space is left for the state; nothing of this was counted, send it again later"
                ) from error
            raise Unwritable(
                f"{self.path} cannot be written now ({error}); nothing of this was counted, send it again"
            ) from error


def _with_delivered(rows: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    words = {0: False, 1: True, NO_WEBHOOK: "no webhook"}
    return [{**json.loads(body), "delivered": words[delivered]} for body, delivered in rows]


def _is_full(error: sqlite3.Error) -> bool:
    """Whether it is for want of space; for what readers and writers share, SQLite calls that an error of the disk."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


def _other(bundle: str | None) -> str:
    """What to do about a file that will not do: whoever counts into one chooses it, the others name one that is there."""
    if bundle is not None:
        return "give another --state"
    return "a file was expected that `roadworthy monitor BUNDLE --state FILE` wrote, or the address of a monitor that runs"
