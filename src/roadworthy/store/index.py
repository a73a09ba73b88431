"""The index of runs: what each run was and its verdict, in SQLite or PostgreSQL, for teams with more runs than a folder lists well.

A row says where the run lies; the run itself stays where it is. Both data bases are reached through
SQLAlchemy and have the same tables. An older schema is migrated when the index is opened, a newer one refused.

>>> import tempfile
>>> index = RunIndex(f"sqlite:///{tempfile.mkdtemp()}/index.sqlite")
>>> index.add({"folder": "a-1", "root": "runs", "name": "a", "created": "2026-01-01", "verdict": "met", "cases": 10})
>>> [row["folder"] for row in index.rows({"verdict": "met"})]
['a-1']
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roadworthy.registry import not_installed
from roadworthy.store.runs import RunFolder, StoreError

TEXTS = ("folder", "root", "key", "name", "created", "status", "verdict", "subject", "version")
COLUMNS = (*TEXTS, "cases")
"""Of a row; `root` is the folder or the URL that holds the run."""
SORTED = ("created", "name", "verdict", "version", "cases")
"""What rows can be sorted by; each has an index in the data base."""
PENDING = "index-pending"
"""Beside the chunks of a runs folder: rows that could not be written yet."""
LOCK = 7623944155202311
"""PostgreSQL's advisory lock for changes of the schema; the number means nothing."""
Step = Callable[[Any, Any], None]
"""A migration: given SQLAlchemy and a connection."""


def _first(sql: Any, connection: Any) -> None:
    # SQLite keeps a table that was made by a process which was then killed.
    _tables(sql)[1].create(connection, checkfirst=True)


MIGRATIONS: tuple[Step, ...] = (_first,)
"""In order; the schema's version is how many were applied."""


class RunIndex:
    """Runs in a data base."""

    def __init__(self, url: str, *, new: bool = True) -> None:
        """Open it, and bring its schema up to date; `url` is SQLAlchemy's, such as postgresql://team@host/runs. If `new`, a
        file that is not there is made."""
        self._sql = sql = _sqlalchemy()
        try:
            place = sql.engine.make_url(url)
        except sql.exc.ArgumentError:
            place = None
        if place is None or place.get_backend_name() not in ("sqlite", "postgresql"):
            raise StoreError(
                "this is no address of an index; write sqlite:///FILE or postgresql://USER@HOST/DATABASE"
            )
        if place.drivername == "postgresql":
            place = place.set(drivername="postgresql+psycopg")
        self.name = place.render_as_string(hide_password=True)
        """Without the password."""
        file = place.database if place.get_backend_name() == "sqlite" else None
        if file and not new and not Path(file).is_file():
            raise StoreError(f"there is no index {self.name}; `--add` makes one")
        self._versions, self._runs = _tables(sql)
        waits = {"connect_timeout": 5} if place.drivername.startswith("postgresql") else {}
        try:
            self._engine = sql.create_engine(place, connect_args=waits)
        except (ImportError, sql.exc.NoSuchModuleError) as error:
            raise StoreError(
                not_installed(f"the index {self.name} needs a driver", "postgres")
            ) from error
        self._reach(self._migrate)

    def add(self, *rows: Mapping[str, Any]) -> None:
        """Put rows in, each in place of an earlier one of the same folder under the same root."""
        if rows:
            self._reach(functools.partial(self._put, [_whole(row) for row in rows]))

    def rows(
        self,
        where: Mapping[str, str] | None = None,
        *,
        sort: str = "created",
        reverse: bool = True,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Rows whose columns are as given, sorted."""
        for name in (sort, *(where or {})):
            if name not in COLUMNS:
                raise StoreError(f"the index has no column {name!r}; it has {', '.join(COLUMNS)}")
        table, column = self._runs, self._runs.c[sort]
        chosen = self._sql.select(*(table.c[name] for name in COLUMNS))
        texts = {**table.c, "cases": self._sql.cast(table.c.cases, self._sql.Text)}
        chosen = chosen.where(*(texts[name] == value for name, value in (where or {}).items()))
        chosen = chosen.order_by(column.desc() if reverse else column, table.c.id).limit(limit)
        found = self._reach(lambda connection: connection.execute(chosen).mappings().all())
        return [dict(row) for row in found]

    def close(self) -> None:
        """Give its connections back."""
        self._engine.dispose()

    def _put(self, rows: Sequence[dict[str, Any]], connection: Any) -> None:
        dialect = importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
        insert = dialect.insert(self._runs)
        new = {name: insert.excluded[name] for name in COLUMNS}
        last = {(row["root"], row["folder"]): row for row in rows}
        put = insert.on_conflict_do_update(index_elements=("root", "folder"), set_=new)
        connection.execute(put, list(last.values()))

    def _migrate(self, connection: Any) -> None:
        sql = self._sql
        if connection.dialect.name == "postgresql":  # one process at a time
            connection.execute(sql.text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        self._versions.create(connection, checkfirst=True)
        known = connection.execute(sql.select(sql.func.max(self._versions.c.version))).scalar() or 0
        if known > len(MIGRATIONS):
            raise StoreError(
                f"the index {self.name} has schema {known}, and this roadworthy knows {len(MIGRATIONS)}; "
                "install the version that wrote it, or a later one"
            )
        for version, step in enumerate(MIGRATIONS[known:], start=known + 1):
            step(sql, connection)
            connection.execute(sql.insert(self._versions), {"version": version})

    def _reach(self, use: Callable[[Any], Any]) -> Any:
        try:
            with self._engine.begin() as connection:
                return use(connection)
        except self._sql.exc.DBAPIError as error:
            reason = str(error.orig).strip().splitlines()[0]
            away = (self._sql.exc.OperationalError, self._sql.exc.InterfaceError)
            if isinstance(error, away):
                raise IndexUnreachable(
                    f"the index {self.name} cannot be reached: {reason}"
                ) from error
            raise StoreError(f"the index {self.name} answers: {reason}") from error


class IndexUnreachable(StoreError):
    """The data base does not answer; rows wait in the runs folder."""


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError as error:
        raise StoreError(not_installed("an index of runs", "postgres")) from error
    return sqlalchemy


def _tables(sql: Any) -> tuple[Any, Any]:
    """The table of schema versions, and that of runs."""
    about = sql.MetaData()
    versions = sql.Table(
        "roadworthy_schema", about, sql.Column("version", sql.Integer, primary_key=True)
    )
    runs = sql.Table(
        "roadworthy_runs",
        about,
        sql.Column("id", sql.Integer, primary_key=True),
        *(sql.Column(name, sql.Text, nullable=False) for name in TEXTS),
        sql.Column("cases", sql.BigInteger, nullable=False),
        sql.UniqueConstraint("root", "folder"),
        *(sql.Index(f"roadworthy_runs_{name}", name) for name in SORTED),
    )
    return versions, runs


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    """Its columns; what is not known is empty."""
    return {**{name: str(row.get(name) or "") for name in TEXTS}, "cases": int(row["cases"])}


def _name_of(url: str) -> str:
    """Of a folder for the rows of this index."""
    shown = _sqlalchemy().engine.make_url(url).render_as_string(hide_password=True)
    return hashlib.blake2b(shown.encode(), digest_size=8).hexdigest()


def check_index(url: str) -> None:
    """Refuse an index that cannot take a row; one that does not answer now may do so when the run is complete."""
    with contextlib.suppress(IndexUnreachable):
        RunIndex(url).close()


def record_in_index(url: str, row: Mapping[str, Any], kept: Path) -> str:
    """Write the row of a run, and those that still wait under `kept`; if that fails, what to tell the user."""
    folder = RunFolder(kept / PENDING / _name_of(url))
    folder.write_text(f"{row['folder']}.json", json.dumps(dict(row)))
    waiting = {}
    for path in sorted(folder.path.glob("*.json")):
        with contextlib.suppress(FileNotFoundError):  # another run has just written it
            waiting[path] = json.loads(path.read_text())
    try:
        RunIndex(url).add(*waiting.values())
    except IndexUnreachable as error:
        return f"{error}. The row of this run waits in {folder.path} and is written by the next run with this index"
    for path in waiting:
        path.unlink(missing_ok=True)
    return ""
