"""A store that two assessments share at once: over S3 (a real server on loopback) and in a folder."""

from __future__ import annotations

import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roadworthy.assessment.assess import assess
from roadworthy.execution import work
from roadworthy.execution.claims import Claims, unclaimed
from roadworthy.execution.work import Unfinished
from roadworthy.spec import Assessment
from roadworthy.store import ChunkCache, StoreError, files, open_cache
from roadworthy.store.files import Folder, Remote
from roadworthy.store.shared import MIRRORS
from roadworthy.subject.module import SubjectError

SUBJECT = """
import os, time
from pathlib import Path
def predict(vector):
    if name := os.environ.get("CALLS"):
        with open(name, "a") as calls:
            calls.write("x")
    time.sleep(float(os.environ.get("PAUSE", 0)))
    return [float(vector.sum()), 0.0]
"""
FILE = """
name: shared
subject: {task: classification, python: subject.py:predict, version: "1", files: [subject.py], classes: [a, b]}
data: {test: {npz: test.npz, images: x, classes: [a, b]}}
claims: [{id: A, accuracy: {min: 0.5}}]
execution: {chunk: 5, workers: 1}
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """A server of S3's protocol, that can be stopped and started with what it holds."""

    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        until(self.answers)

    def answers(self) -> bool:
        with socket.socket() as found:
            return found.connect_ex(("127.0.0.1", self.port)) == 0


def until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    found = Server()
    yield found
    found.process.kill()
    found.process.wait()


@pytest.fixture
def bucket(server: Server, monkeypatch, request) -> str:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "team"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}"),
    ):
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    name = f"runs-{abs(hash(request.node.name)) % 10**8}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}/team"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv(MIRRORS, str(tmp_path / "mirror"))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)).astype(np.float32)
    np.savez(tmp_path / "test.npz", x=x, labels=(x.sum(axis=1) < 0.3).astype(int))
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "assessment.yaml").write_text(FILE)
    return tmp_path


@pytest.fixture(params=["s3", "folder"])
def places(request, tmp_path: Path):
    if request.param == "folder":
        return Folder(tmp_path / "shared")
    return Remote(request.getfixturevalue("bucket"))


def test_a_file_is_created_once_and_read_by_all(places) -> None:
    assert places.read("a/b") is None
    assert places.create("a/b", b"1") and not places.create("a/b", b"2")
    assert places.read("a/b") == b"1"
    places.write("a/b", b"3")
    assert places.read("a/b") == b"3" and places.names("a") == ["a/b"]
    places.delete("a/b")
    places.delete("a/b")
    assert places.names("a") == [] and places.create("a/b", b"4")


def test_a_damaged_object_is_no_chunk(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(MIRRORS, str(tmp_path / "mirror"))
    url = f"file://{tmp_path}/store"
    for content in (b"", b"no archive"):
        Remote(url).write(".cache/chunks/ab/abcd.tar", content)
        assert not open_cache(url).has("abcd")


def test_idle_workers_are_given_back_while_others_compute(folder: Path, monkeypatch) -> None:
    module = importlib.import_module("roadworthy.assessment.assess")
    file, runs, given_back = folder / "assessment.yaml", folder / "runs", []
    with Claims(Folder(runs / ".cache")) as other:

        def give_back(name: str) -> None:
            given_back.append(name)
            for key in keys:
                other.release(key)

        monkeypatch.setattr(module, "_give_back", give_back)
        keys = [chunk.key for chunk in module.plan_assessment(Assessment.read(file)).chunks[1:4]]
        assert all(other.take(key) for key in keys)
        run = assess(file, runs=runs, execution={"executor": "inline"})
    assert given_back[0] == "inline" and run.record.cases.computed == 100


def test_of_many_at_once_one_has_the_claim(places) -> None:
    taken, start = [], threading.Barrier(8)

    def try_it() -> None:
        with Claims(places) as claims:
            start.wait()
            taken.append(claims.take("chunk"))
            start.wait()

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken.count(True) == 1


def test_the_claim_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    script = (
        "from pathlib import Path; import time\n"
        "from roadworthy.execution.claims import Claims\n"
        "from roadworthy.store.files import Folder\n"
        f"claims = Claims(Folder(Path({str(tmp_path)!r}))).__enter__()\n"
        "claims.take('chunk'); print('taken', flush=True); time.sleep(60)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None and other.stdout.readline() == "taken\n"
    with Claims(place) as claims:
        assert not claims.take("chunk")
        other.kill()
        other.wait()
        assert claims.take("chunk")


def run(folder: Path, url: str, mirror: str, **env: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "roadworthy.cli",
        "assess",
        str(folder / "assessment.yaml"),
        "--runs",
        url,
    ]
    given = {**os.environ, MIRRORS: str(folder / mirror), **env}
    return subprocess.Popen(
        command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> int:
    """How many cases it says that it has computed."""
    shown, said = process.communicate(timeout=120)
    assert process.returncode in (0, 1, 3), said
    (computed,) = re.findall(r"(\d+) computed", shown)
    return int(computed)


@pytest.mark.parametrize("where", ["s3", "folder"])
def test_two_at_once_compute_each_chunk_once_and_find_the_same(
    folder: Path, where: str, request
) -> None:
    url = request.getfixturevalue("bucket") if where == "s3" else str(folder / "shared")
    calls = folder / "calls"
    both = [run(folder, url, m, CALLS=str(calls), PAUSE="0.02") for m in ("one", "two")]
    assert sum(finished(process) for process in both) == 100
    assert len(calls.read_text()) == 100
    assess(folder / "assessment.yaml", runs=folder / "alone")
    (alone,) = (folder / "alone").glob("shared-*/findings.json")
    if where == "folder":
        (found,) = (folder / "shared").glob("shared-*/findings.json")
        assert found.read_bytes() == alone.read_bytes()
        return
    place = Remote(url)
    (name,) = [n for n in place.folders() if n.startswith("shared-")]
    assert place.read(f"{name}/findings.json") == alone.read_bytes()
    listed = [sys.executable, "-m", "roadworthy.cli", "runs", url]
    assert name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    again = subprocess.run(
        [*listed, "--fetch", name], cwd=folder, capture_output=True, text=True, check=True
    )
    assert (folder / again.stdout.strip() / "report.html").is_file()


def test_who_comes_later_computes_nothing(folder: Path, bucket: str) -> None:
    finished(run(folder, bucket, "one"))
    calls = folder / "calls"
    finished(run(folder, bucket, "two", CALLS=str(calls)))
    assert not calls.exists()


def test_a_store_that_is_away_for_ten_seconds_costs_nothing_but_time(
    folder: Path, bucket: str, server: Server
) -> None:
    calls = folder / "calls"
    process = run(folder, bucket, "one", CALLS=str(calls), PAUSE="0.02")
    until(lambda: calls.exists() and len(calls.read_text()) > 20)
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(10)
    server.process.send_signal(signal.SIGCONT)
    finished(process)
    assert len(calls.read_text()) == 100


def test_a_store_that_stays_away_and_what_is_no_store_are_said(monkeypatch, bucket: str) -> None:
    monkeypatch.setattr(files, "PATIENCE_S", 1.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(StoreError, match=r"the store s3://.* did not answer for 1 s"):
        Remote(bucket).read("a")
    with pytest.raises(StoreError, match="nosuch://team is no store"):
        Remote("nosuch://team")


def test_a_store_that_is_lost_leaves_the_work_unfinished_and_kept(
    folder: Path, bucket: str, monkeypatch
) -> None:
    import s3fs

    own, calls = Server(), folder / "calls"
    monkeypatch.setattr(files, "PATIENCE_S", 1.0)
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{own.port}"),
        ("AWS_MAX_ATTEMPTS", "1"),
        ("CALLS", str(calls)),
        ("PAUSE", "0.02"),
    ):
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir(bucket.removeprefix("s3://").partition("/")[0])

    def stop() -> None:
        until(lambda: calls.exists() and len(calls.read_text()) > 20)
        own.process.kill()

    threading.Thread(target=stop).start()
    with pytest.raises(Unfinished, match=r"did not answer for 1 s.*; what was computed is kept"):
        assess(folder / "assessment.yaml", runs=bucket)
    own.process.wait()
    assert list((folder / "mirror").rglob("chunk.json"))


def test_what_others_compute_holds_nobody_up(tmp_path: Path) -> None:
    place, cache = Folder(tmp_path), ChunkCache(tmp_path)
    with Claims(place) as one, Claims(place) as other:
        assert other.take("b")
        waiting = deque([(0, "a"), (1, "b"), (2, "c")])
        assert list(unclaimed(one, cache, waiting, [])) == [0, 2] and list(waiting) == [(1, "b")]
        other.release("b")
        assert list(unclaimed(one, cache, waiting, [])) == [1] and not waiting


def test_a_worker_that_read_another_file_stops_the_run(folder: Path, monkeypatch) -> None:
    (folder / "weights").write_text("1")
    (folder / "assessment.yaml").write_text(FILE.replace("[subject.py]", "[subject.py, weights]"))
    (folder / "subject.py").write_text(
        "from pathlib import Path\nopen(Path(__file__).parent / 'weights').read()\n" + SUBJECT
    )

    def elsewhere(*given, **more):
        done = known(*given, **more)
        return replace(done, files=dict.fromkeys(done.files, "another content"))

    known = work.work
    monkeypatch.setattr(work, "work", elsewhere)
    with pytest.raises(SubjectError, match="is another file where a worker"):
        assess(folder / "assessment.yaml", runs=folder / "runs")
    assert not list((folder / "runs" / ".cache").glob("??/*/chunk.json"))
