"""The index of runs in SQLite and in a real PostgreSQL server: one contract."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.store import StoreError
from roadworthy.store import index as module
from roadworthy.store.index import RunIndex, record_in_index

sql = pytest.importorskip("sqlalchemy")
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def as_user(*command: str) -> list[str]:
    """PostgreSQL refuses to be run by root."""
    return (
        ["runuser", "-u", "postgres", "--", *command]
        if getpass.getuser() == "root"
        else list(command)
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of its own, on loopback; PORT and how to stop and start it."""
    if not SERVERS:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    place = tmp_path_factory.mktemp("postgres")
    for folder in (place, *place.parents[:3]):
        folder.chmod(0o755)
    if getpass.getuser() == "root":
        shutil.chown(place, "postgres", "postgres")
    data, log = str(place / "data"), str(place / "log")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    control = str(SERVERS[-1] / "pg_ctl")
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": place}
    initdb = str(SERVERS[-1] / "initdb")
    subprocess.run(as_user(initdb, "-D", data, "-U", "team", "-A", "trust", "--no-sync"), **quiet)
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={place} -c fsync=off"
    )

    def start() -> None:
        subprocess.run(
            as_user(control, "-D", data, "-l", log, "-w", "-o", options, "start"), **quiet
        )

    def stop() -> None:
        subprocess.run(as_user(control, "-D", data, "-m", "immediate", "-w", "stop"), **quiet)

    start()
    yield port, start, stop
    stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/index.sqlite"
    port, *_ = request.getfixturevalue("server")
    return fresh(port)


def fresh(port: int) -> str:
    name = f"runs_{time.monotonic_ns()}"
    admin = sql.create_engine(
        f"postgresql+psycopg://team@127.0.0.1:{port}/postgres", isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(sql.text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return f"postgresql://team:secret@127.0.0.1:{port}/{name}"


def row(number: int, **more) -> dict:
    rng = np.random.default_rng(number)
    return {
        "root": f"/runs/{number % 7}", "folder": f"run-{number}", "key": f"{number:08x}", "name": f"model {number % 50}",
        "created": f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}T{number % 24:02d}:00:00+00:00", "status": "complete",
        "verdict": ("met", "breached", "inconclusive")[int(rng.integers(3))], "subject": "abc", "version": f"1.{number % 9}",
        "cases": int(rng.integers(10**6)), **more,
    }  # fmt: skip


def test_rows_are_filtered_and_sorted_as_a_list_is(url: str) -> None:
    rows, index = [row(k) for k in range(300)], RunIndex(url)
    index.add(*rows)
    for where in ({}, {"verdict": "breached"}, {"verdict": "met", "name": "model 3"}):
        chosen = [r for r in rows if all(r[k] == v for k, v in where.items())]
        for sort in ("cases", "created", "name"):
            found = index.rows(where, sort=sort, reverse=False)
            assert [r[sort] for r in found] == sorted(r[sort] for r in chosen)
            assert {r["folder"] for r in found} == {r["folder"] for r in chosen}
    assert len(index.rows(limit=7)) == 7
    assert index.rows({"folder": "run-5"}) == [rows[5]]
    assert index.rows({"cases": str(rows[5]["cases"])}) == [rows[5]]
    with pytest.raises(StoreError, match="no column 'colour'; it has folder"):
        index.rows({"colour": "red"})


def test_a_run_that_is_entered_again_takes_the_place_of_its_row(url: str) -> None:
    RunIndex(url).add(row(1), row(2))
    RunIndex(url).add(row(1, verdict="met", cases=3))
    assert [(r["folder"], r["cases"]) for r in RunIndex(url).rows({"folder": "run-1"})] == [
        ("run-1", 3)
    ]
    assert len(RunIndex(url).rows()) == 2


def test_many_at_once_make_the_tables_and_enter_one_run(server) -> None:
    url = fresh(server[0])

    def enter(_: int) -> None:
        RunIndex(url).add(row(1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter, range(8)))
    assert len(RunIndex(url).rows()) == 1


def test_who_is_killed_while_making_the_tables_leaves_an_index_that_opens(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.sqlite"
    RunIndex(url).close()
    with sql.create_engine(url).begin() as connection:
        connection.execute(sql.text("DELETE FROM roadworthy_schema"))
    RunIndex(url).add(row(1))
    assert len(RunIndex(url).rows()) == 1


def test_an_older_schema_is_migrated_and_a_newer_one_refused(url: str, monkeypatch) -> None:
    RunIndex(url).add(row(1))

    def noted(sqlalchemy, connection) -> None:
        connection.execute(sqlalchemy.text("ALTER TABLE roadworthy_runs ADD COLUMN note TEXT"))

    monkeypatch.setattr(module, "MIGRATIONS", (*module.MIGRATIONS, noted))
    assert len(RunIndex(url).rows()) == 1
    monkeypatch.undo()
    with pytest.raises(StoreError, match="has schema 2, and this roadworthy knows 1") as refused:
        RunIndex(url)
    assert "secret" not in str(refused.value)


def test_listing_makes_no_index(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no index sqlite:///.*; `--add` makes one"):
        RunIndex(f"sqlite:///{tmp_path}/typo.sqlite", new=False)
    assert not list(tmp_path.iterdir())


def test_what_is_no_data_base_is_refused() -> None:
    with pytest.raises(StoreError, match="no address of an index; write sqlite"):
        RunIndex("runs")
    with pytest.raises(StoreError, match="write sqlite:///FILE or postgresql://"):
        RunIndex("postgres://team@host/runs")


def test_who_may_not_make_tables_is_told_before_the_work(server) -> None:
    url = fresh(server[0])
    admin = sql.create_engine(url.replace("postgresql", "postgresql+psycopg"))
    with admin.begin() as connection:
        connection.execute(sql.text("DROP ROLE IF EXISTS guest"))
        connection.execute(sql.text("CREATE ROLE guest LOGIN"))
    admin.dispose()
    with pytest.raises(StoreError, match="answers: permission denied for schema public"):
        module.check_index(url.replace("team:secret", "guest"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "test.npz", x=x, labels=(x.sum(axis=1) < 0.3).astype(int))
    (tmp_path / "subject.py").write_text("def predict(v):\n    return [float(v.sum()), 0.0]\n")
    (tmp_path / "assessment.yaml").write_text(
        "name: one\nsubject: {task: classification, python: subject.py:predict, version: '1', classes: [a, b]}\n"
        "data: {test: {npz: test.npz, images: x, classes: [a, b]}}\nclaims: [{id: A, accuracy: {min: 0.5}}]\n"
    )
    return tmp_path


def test_a_run_completes_while_the_data_base_is_down_and_its_row_comes_later(
    folder: Path, server
) -> None:
    port, start, stop = server
    url = fresh(port)
    with (folder / "assessment.yaml").open("a") as file:
        file.write(f"execution: {{index: '{url}'}}\n")
    stop()
    try:
        run = assess(folder / "assessment.yaml", runs=folder / "runs")
    finally:
        start()
    said = [w for w in run.record.warnings if "waits in" in w]
    assert run.verdict == "met" and len(said) == 1 and "secret" not in said[0]
    for name in ("run.json", "report.html"):
        assert "waits in" in (run.folder / name).read_text()
    kept = [p for p in (folder / "runs").rglob("*") if p.is_file()]
    assert not [p for p in kept if b"secret" in p.read_bytes()]
    (folder / "assessment.yaml").write_text(
        (folder / "assessment.yaml").read_text().replace("0.5", "0.6")
    )
    again = assess(folder / "assessment.yaml", runs=folder / "runs", execution={"workers": 1})
    assert not [w for w in again.record.warnings if "waits in" in w]
    found = RunIndex(url).rows()
    assert {r["folder"] for r in found} == {run.folder.name, again.folder.name}
    assert not list((folder / "runs" / ".cache" / module.PENDING).glob("*.json"))


def test_the_command_lists_what_the_index_has(folder: Path, url: str) -> None:
    run = assess(folder / "assessment.yaml", runs=folder / "runs")
    command = [
        sys.executable,
        "-m",
        "roadworthy.cli",
        "runs",
        str(folder / "runs"),
        "--index",
        url,
        "--json",
    ]
    added = subprocess.run(
        [*command, "--add", "--where", "verdict=met"], capture_output=True, text=True, check=True
    )
    (found,) = json.loads(added.stdout)
    assert (
        found["folder"] == f"{(folder / 'runs').resolve()}/{run.folder.name}"
        and found["cases"] == 40
    )
    none = subprocess.run(
        [*command, "--where", "verdict=breached"], capture_output=True, text=True, check=True
    )
    assert json.loads(none.stdout) == []


def test_rows_wait_for_their_own_index(server, tmp_path: Path) -> None:
    port, start, stop = server
    url, other = fresh(port), f"sqlite:///{tmp_path}/index.sqlite"
    stop()
    try:
        assert "waits in" in record_in_index(url, row(1), tmp_path)
        assert "waits in" in record_in_index(url, row(2), tmp_path)
        assert record_in_index(other, row(3), tmp_path) == ""
    finally:
        start()
    assert [r["folder"] for r in RunIndex(other).rows()] == ["run-3"]
    assert record_in_index(url, row(1), tmp_path) == ""  # the same command again
    assert record_in_index(url, row(4), tmp_path) == ""
    assert record_in_index(url, row(5), tmp_path) == ""
    assert sorted(r["folder"] for r in RunIndex(url).rows()) == [f"run-{k}" for k in (1, 2, 4, 5)]
    assert not list((tmp_path / module.PENDING).rglob("*.json"))


def test_a_password_of_a_store_is_not_entered() -> None:
    from roadworthy.cli.commands.runs import _whole

    assert _whole("sftp://team:hidden@host/runs/") == "sftp://team:***@host/runs"
