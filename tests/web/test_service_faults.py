"""What goes wrong in operation, done to a real process: it is killed, the disk fills, bodies do not end, clients vanish."""

from __future__ import annotations

import json
import resource
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from monitored import Service, bundle, events, ndjson, serving, until

from roadworthy.cli.app import run


def resident_mb(service: Service) -> float:
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Clients:
    """Threads that post batches of new events until the service is gone, and remember what was acknowledged."""

    def __init__(self, service: Service, *, first: int, size: int = 20, threads: int = 3) -> None:
        self.sent: list[list[dict]] = []
        self.acknowledged: list[list[dict]] = []
        self._service, self._next, self._size = service, first, size
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._post) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _post(self) -> None:
        while True:
            with self._lock:
                batch = events(self._size, first=self._next, step=0.01)
                self._next += self._size
                self.sent.append(batch)
            try:
                reply = self._service.post(batch)
            except OSError:
                return
            except Exception:  # an answer that was cut off
                return
            assert reply.status == 200 and reply.json["accepted"] == self._size
            with self._lock:
                self.acknowledged.append(batch)

    def wait(self) -> None:
        for thread in self._threads:
            thread.join()


def test_whatever_was_acknowledged_is_counted_exactly_once_after_kill_9(bundle_path, tmp_path):
    state, sent, acknowledged = tmp_path / "state.sqlite", [], []
    for turn, snapshot_bytes in enumerate((None, 4000)):
        with serving(bundle_path, state, snapshot_bytes=snapshot_bytes) as service:
            clients = Clients(service, first=20_000 * turn)
            until(lambda: len(clients.acknowledged) >= 12)  # noqa: B023
            if snapshot_bytes is not None:
                time.sleep(1.1)  # a snapshot is due every second
            service.kill()
            clients.wait()
        sent += clients.sent
        acknowledged += clients.acknowledged
    with serving(bundle_path, state) as service:
        counted = service.counted()
        assert 20 * len(acknowledged) <= counted <= 20 * len(sent)
        for batch in acknowledged:
            assert service.post(batch).json == {
                "accepted": 0,
                "repeated": 20,
                "late": 0,
                "unscored": 0,
                "ahead": 0,
            }
        assert service.counted() == counted
        unsure = [e for batch in sent for e in batch]
        service.post(unsure)
        assert service.counted() == len(unsure)
    assert len(acknowledged) < len(sent) or counted == len(unsure)


def test_a_clean_stop_and_a_start_change_nothing(bundle_path, tmp_path):
    state = tmp_path / "state.sqlite"
    with serving(bundle_path, state) as service:
        service.post(events(300, shifted=0.9))
        service.post([{"id": f"e{i}", "correct": i % 2 == 0} for i in range(50)], "/v1/labels")
        before = (
            service.get("/v1/risk"),
            service.get("/v1/alarms"),
            service.ask("GET", "/v1/state").body,
        )
        assert service.stop() == 0
    with serving(bundle_path, state) as service:
        assert (
            service.get("/v1/risk"),
            service.get("/v1/alarms"),
            service.ask("GET", "/v1/state").body,
        ) == before
        assert service.get("/v1/history")["readings"][-1]["event"] == 300


def test_a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_space(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "state.sqlite") as service:
        assert service.post(events(100)).status == 200
        _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
        wal = tmp_path / "state.sqlite-wal"
        resource.prlimit(
            service.process.pid, resource.RLIMIT_FSIZE, (wal.stat().st_size + 20_000, hard)
        )
        accepted, at = 100, 100
        for _ in range(100):
            reply = service.post(events(100, first=at))
            if reply.status != 200:
                break
            accepted, at = accepted + 100, at + 100
        assert reply.status in (503, 507) and "Nothing of this was counted" in reply.json["error"]
        assert int(reply.headers["retry-after"]) >= 1
        assert service.counted() == accepted and service.ask("GET", "/health").status == 503
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert service.post(events(100, first=at)).json["accepted"] == 100
        assert service.counted() == accepted + 100 and service.ask("GET", "/health").status == 200
        service.kill()
    with serving(bundle_path, tmp_path / "state.sqlite") as service:
        assert service.counted() == accepted + 100


def test_a_state_that_can_be_written_again_is_well_before_the_next_post(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(100))
        service.get("/v1/history")
        with closing(sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)) as other:
            other.execute("begin immediate")
            assert service.post(events(1, first=100)).status == 503
            for _ in range(3):
                began = time.monotonic()
                assert service.ask("GET", "/health").status == 503 and service.counted() == 100
                assert time.monotonic() - began < 5.0, "nobody waits for what is tried meanwhile"
                time.sleep(0.7)
            other.execute("commit")
        until(lambda: service.ask("GET", "/health").status == 200, seconds=10.0)
        assert "roadworthy_write_trouble 0" in service.ask("GET", "/metrics").body.decode()
        assert service.post(events(1, first=100)).json["accepted"] == 1


def test_a_full_disk_is_not_well_until_there_is_space(bundle_path, tmp_path):
    with serving(bundle_path, tmp_path / "s.sqlite") as service:
        service.post(events(100))
        service.get("/v1/history")
        _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (20_000, hard))
        assert service.post(events(2000, first=100)).status in (503, 507)
        time.sleep(2.5)
        assert service.ask("GET", "/health").status == 503
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: service.ask("GET", "/health").status == 200, seconds=10.0)
        assert service.counted() == 100


def test_a_state_file_that_may_not_grow_makes_room_for_itself(tmp_path):
    state, bundle_path = tmp_path / "state.sqlite", tmp_path / "short memory.json"
    bundle(id_horizon=1000).save(bundle_path)
    with serving(bundle_path, state, "--max-state", "1") as service:
        for first in range(0, 60_000, 2000):
            assert service.post(events(2000, first=first, step=0.01)).status == 200
        assert service.counted() == 60_000 and state.stat().st_size <= 1 << 20
        service.kill()
    with serving(bundle_path, state) as service:
        assert service.counted() == 60_000


@pytest.fixture(scope="module")
def patient(bundle_path, tmp_path_factory) -> Iterator[Service]:
    with serving(
        bundle_path, tmp_path_factory.mktemp("bodies") / "state.sqlite", "--body-limit", "1"
    ) as service:
        yield service


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_a_gigabyte_is_refused_and_not_kept(patient, chunked):
    before, counted = resident_mb(patient), patient.counted()
    size = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (1 << 30)
    with socket.create_connection(("127.0.0.1", patient.port), timeout=30) as s:
        s.sendall(b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\n" + size + b"\r\n\r\n")
        part = b" " * (1 << 20)
        if chunked:
            part = b"%x\r\n" % len(part) + part + b"\r\n"
        for _ in range(100):  # goes on sending, as clients do that do not listen
            s.sendall(part)
        assert s.recv(4096).startswith(b"HTTP/1.1 413")
    assert resident_mb(patient) - before < 20
    assert patient.post(events(1, first=counted)).json["accepted"] == 1


def test_a_body_just_above_the_limit_is_refused(patient):
    assert patient.post(b" " * (1 << 20) + b"{}").status == 413


@pytest.mark.parametrize("path", ["/v1/events", "/v1/labels"])
def test_a_client_that_closes_after_a_body_that_is_too_large_gets_its_answer(patient, path):
    for _ in range(3):
        reply = patient.ask("POST", path, b" " * (9 << 20), Connection="close")
        assert reply.status == 413 and "smaller batches" in reply.json["error"]


def test_a_client_that_vanishes_in_the_middle_of_a_batch_has_sent_nothing(patient):
    counted, body = patient.counted(), ndjson(events(100, first=500))
    with socket.create_connection(("127.0.0.1", patient.port)) as s:
        head = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(
            body
        )
        s.sendall(head + body[: len(body) // 2])
    time.sleep(0.1)
    assert patient.counted() == counted
    assert patient.post(events(100, first=500)).json["accepted"] == 100


def told(capsys, *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    return run([str(a) for a in arguments]), capsys.readouterr().err


def test_a_bundle_whose_self_test_fails_is_refused(made, tmp_path, capsys):
    from dataclasses import replace

    expected = json.loads(json.dumps(made.self_test))
    expected["expected"]["taken"][0] += 1
    path = tmp_path / "wrong.json"
    replace(made, self_test=expected).save(path)
    code, said = told(capsys, "monitor", path, "--port", 0)
    assert code == 2 and "fails its self-test" in said and "Traceback" not in said
    path.write_text(path.read_text()[:1000])
    code, said = told(capsys, "monitor", path, "--port", 0)
    assert code == 2 and "not a whole bundle" in said


def test_a_state_of_another_bundle_or_of_a_running_service_is_refused(
    bundle_path, tmp_path, capsys
):
    other = tmp_path / "other.json"
    bundle(subject="lesion-2.4.0").save(other)
    state = tmp_path / "state.sqlite"
    with serving(bundle_path, state) as service:
        code, said = told(capsys, "monitor", bundle_path, "--state", state, "--port", 0)
        assert code == 2 and "running monitor" in said
        code, said = told(
            capsys, "monitor", other, "--state", tmp_path / "b.sqlite", "--port", service.port
        )
        assert code == 2 and "Cannot listen" in said
    code, said = told(capsys, "monitor", other, "--state", state, "--port", 0)
    assert code == 2 and "another --state" in said
    (tmp_path / "text.sqlite").write_text("no data base, but long enough to be looked at" * 50)
    code, said = told(capsys, "monitor", other, "--state", tmp_path / "text.sqlite", "--port", 0)
    assert code == 2 and "is not a state file" in said


def test_settings_that_cannot_work_are_refused_in_words(bundle_path, tmp_path, capsys):
    for options, says in (
        (("--host", "0.0.0.0"), "needs a token"),
        (("--proxy", "localhost", "--model", "m"), "is not an address"),
        (("--proxy", "http://127.0.0.1:1"), "--model"),
        (("--proxy", "http://127.0.0.1:1", "--model", "m/1"), "--model 'm/1'"),
        (("--token", "short"), "at least 16"),
        (
            ("--proxy", "http://127.0.0.1:1", "--model", "m", "--score", "kn=distance"),
            "did you mean 'knn'",
        ),
        (("--proxy", "http://127.0.0.1:1", "--score", "knn"), "SCORE=OUTPUT"),
        (("--webhook", "alerts.example"), "is not an address"),
        (("--score", "a=b"), "--score needs --proxy"),
        (("--score", "knn=b"), "--score needs --proxy"),
        (("--ids-unique",), "--ids-unique needs --proxy"),
        (("--model", "alpha"), "--model needs --proxy"),
        (("--alarm-log", str(bundle_path)), "which is read"),
    ):
        code, said = told(
            capsys, "monitor", bundle_path, "--state", tmp_path / "s.sqlite", "--port", 0, *options
        )
        assert code == 2 and says in said, said


def test_a_missing_extra_is_named(bundle_path, capsys, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "uvicorn" else real(name, *a)
    )
    code, said = told(capsys, "monitor", bundle_path)
    assert (
        code == 2
        and "needs uvicorn" in said
        and 'pip install -c constraints.txt -e ".[web]"' in said
    )
    monkeypatch.setattr(
        "roadworthy.registry._CHECKOUT", bundle_path.parent
    )  # as where it was installed by name
    assert 'pip install "roadworthy[web]"' in told(capsys, "monitor", bundle_path)[1]
