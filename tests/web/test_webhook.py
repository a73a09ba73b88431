"""Alarms reach a webhook in order, and a log, without anybody waiting for them, whatever fails meanwhile."""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from monitored import Service, answering, events, serving, state_at, until

from roadworthy.cli.app import run
from roadworthy.monitor import Bundle
from roadworthy.web import ServiceError
from roadworthy.web import webhook as module
from roadworthy.web.state_file import DELIVERED, NO_WEBHOOK, REFUSED, WAITING, Full, StateFile
from roadworthy.web.webhook import AlarmLog, Outbox, Webhook


@contextmanager
def receiver(
    *answers: int, pause: float = 0.0, held: threading.Event | None = None
) -> Iterator[tuple[str, list[dict]]]:
    """A server that answers with these statuses one after the other, then with 200; what it got."""
    got: list[dict] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            time.sleep(pause)
            if held is not None:
                held.wait()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = left.pop(0) if left else 200
            if status == 200:
                given = self.headers.get("Authorization")
                got.append({**body, "_path": self.path, "_authorization": given})
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with answering(Handler) as address:
        yield f"{address}/hook", got


def nobody() -> str:
    """The address of a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"127.0.0.1:{closed.getsockname()[1]}"


def delivered(*answers: int, alarms: int = 3) -> tuple[Webhook, list[dict], list[tuple[str, int]]]:
    """What a receiver that answers so gets of some alarms, and what became of each."""
    settled: list[tuple[str, int]] = []
    with receiver(*answers) as (address, got):
        webhook = Webhook(address, first_pause_s=0.01, warn=lambda text: None)
        for i in range(alarms):
            webhook.send({"key": str(i)})
        webhook.start(lambda alarm, became: settled.append((alarm["key"], became)))
        until(lambda: len(settled) == alarms)
        webhook.close()
    return webhook, got, settled


@pytest.mark.parametrize("status", [500, 502, 503, 408, 429, 302])
def test_a_webhook_that_has_trouble_is_tried_again_in_order(status):
    webhook, got, settled = delivered(status, status, 200, status)
    assert [alarm["key"] for alarm in got] == ["0", "1", "2"]
    assert settled == [("0", DELIVERED), ("1", DELIVERED), ("2", DELIVERED)]
    assert (webhook.sent, webhook.failed, webhook.dropped, webhook.waiting) == (3, 3, 0, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_an_alarm_that_the_webhook_refuses_is_dropped_and_logged(status, caplog):
    webhook, got, settled = delivered(200, status)
    assert [alarm["key"] for alarm in got] == ["0", "2"]
    assert settled == [("0", DELIVERED), ("1", REFUSED), ("2", DELIVERED)]
    assert (webhook.sent, webhook.failed, webhook.dropped) == (2, 0, 1)
    (said,) = [r.getMessage() for r in caplog.records if "not sent again" in r.getMessage()]
    assert "Alarm 1" in said and str(status) in said


def test_time_outs_and_errors_of_any_kind_are_retried(monkeypatch):
    said: list[str] = []
    real, faults = module.json.dumps, [ValueError("strange"), TimeoutError(), RecursionError()]

    def dumps(alarm: object) -> str:
        if faults:
            raise faults.pop()
        return real(alarm)

    with receiver() as (address, got):
        webhook = Webhook(address, first_pause_s=0.001, warn=said.append)
        monkeypatch.setattr(module.json, "dumps", dumps)
        webhook.send({"key": "a"})
        webhook.start(lambda alarm, became: None)
        until(lambda: got)
        until(lambda: webhook.sent == 1)
        webhook.close()
    assert webhook.failed == 3 and len(said) == 3 and "strange" in said[-1]


def test_nobody_waits_for_a_webhook_that_does_not_answer():
    answer = threading.Event()
    with receiver(held=answer) as (address, got):
        webhook = Webhook(address)
        webhook.start(lambda alarm, became: None)
        for i in range(1200):
            webhook.send({"key": i})
        assert (webhook.sent, webhook.waiting) == (0, 1200) and not got
        answer.set()
        until(lambda: webhook.sent >= 1)
        webhook.close()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://127.0.0.1:99999/x", "its port is not a number"),
        ("http://127.0.0.1:port/x", "its port is not a number"),
        (f"http://{'a' * 70}.example/x", "none that a machine can have"),
        ("http://[::1/x", "it cannot be read"),
        ("alerts.example/hook", "does not begin with http"),
        ("http://me:secret@127.0.0.1:99999/x", "its port is not a number"),
        ("http://a b/", "none that a machine can have"),
        ("http://me:x/secret@127.0.0.1:1/", "write the / ? and # of a password as %2F %3F and %23"),
        ("http://me:secret?x@127.0.0.1:1/", "write the / ? and # of a password as %2F %3F and %23"),
        ("http://me:secret@a b/", "none that a machine can have"),
    ],
)
def test_an_address_that_can_never_be_reached_is_refused_at_the_start(
    bundle_path, tmp_path, capsys, address, says
):
    with pytest.raises(ServiceError, match="is not an address"):
        Webhook(address)
    options = ["--state", str(tmp_path / "s.sqlite"), "--port", "0", "--webhook", address]
    assert run(["monitor", str(bundle_path), *options]) == 2
    said = capsys.readouterr().err
    assert says in said and "secret" not in said and "Traceback" not in said
    if "://" in address and "[" not in address:
        assert run(["monitor", "label-queue", address]) == 2
        said = capsys.readouterr().err
        assert says in said and "secret" not in said and "a fault of roadworthy" not in said


def test_a_webhook_that_is_down_at_the_start_is_said_once_and_does_not_end_it(
    bundle_path, tmp_path
):
    address = nobody()
    with serving(
        bundle_path, tmp_path / "s.sqlite", "--webhook", f"http://me:secret@{address}/hook"
    ) as service:
        assert select.select([service.process.stderr], [], [], 20.0)[0], "nothing is said"
        line = service.process.stderr.readline()
        assert line.startswith("--webhook: ") and "secret" not in line
        assert service.ask("GET", "/health").status == 200
        service.stop()
        assert "cannot be reached" not in service.process.stderr.read()


def test_a_path_beyond_ascii_and_a_password_are_sent_as_http_has_them():
    with receiver() as (address, got):
        webhook = Webhook(
            address.replace("//", "//me:s%40cret@").replace("/hook", "/münchen?to=a b")
        )
        webhook.start(lambda alarm, became: None)
        webhook.send({"key": "a"})
        until(lambda: got)
        webhook.close()
    assert (
        got[0]["_path"] == "/m%C3%BCnchen?to=a%20b"
        and got[0]["_authorization"] == "Basic bWU6c0BjcmV0"
    )


def test_alarms_wait_in_the_file_and_are_sent_after_the_next_start_however_many(
    made, bundle_path, tmp_path
):
    state = tmp_path / "s.sqlite"
    file = state_at(state, made)
    for event in range(1100):
        became = DELIVERED if event < 30 else NO_WEBHOOK if event < 40 else WAITING
        file.keep_alarm({"key": f"k{event}", "event": event, "kind": "raised"}, delivered=became)
    file.close()
    with receiver() as (address, got), serving(bundle_path, state, "--webhook", address) as service:
        until(lambda: len(got) == 1060)
        service.stop()
    assert [alarm["event"] for alarm in got] == list(range(40, 1100))


def test_an_alarm_that_was_not_taken_is_sent_after_a_restart_and_only_then(
    bundle_path: Path, tmp_path: Path
):
    state, log = tmp_path / "state.sqlite", tmp_path / "alarms.jsonl"
    options = ("--alarm-log", str(log))
    with serving(bundle_path, state, *options, "--webhook", "http://127.0.0.1:1/hook") as service:
        assert service.post(events(300, shifted=0.9)).json["accepted"] == 300
        assert not service.get("/v1/alarms")["alarms"][0]["delivered"]
        service.kill()
    with (
        receiver(pause=0.2) as (address, got),
        serving(bundle_path, state, *options, "--webhook", address) as service,
    ):
        until(lambda: got)
        until(lambda: service.get("/v1/alarms")["alarms"][0]["delivered"])
        assert service.post(events(1, first=300)).status == 200
        service.stop()
    with (
        receiver() as (address, again),
        serving(bundle_path, state, *options, "--webhook", address) as service,
    ):
        service.post(events(300, first=400))
        until(lambda: len(again) == 1)
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert (
        [a["kind"] for a in logged] == ["raised", "cleared"] == [got[0]["kind"], again[0]["kind"]]
    )
    assert logged[0]["key"] == got[0]["key"] and got[0]["tolerable"] == 0.2 and len(got) == 1


def test_the_state_says_which_alarms_were_refused(bundle_path, tmp_path):
    with (
        receiver(422) as (address, got),
        serving(bundle_path, tmp_path / "s.sqlite", "--webhook", address) as service,
    ):
        service.post(events(300, shifted=0.9))
        until(lambda: service.get("/v1/alarms")["alarms"][0]["delivered"] == "refused")
        metrics = service.ask("GET", "/metrics").body.decode()
        assert 'roadworthy_webhook_total{outcome="dropped"} 1' in metrics and not got
        service.post(events(300, first=400))
        until(lambda: [alarm["kind"] for alarm in got] == ["cleared"])


def outbox_at(path: Path, made: Bundle, **more: object) -> tuple[StateFile, Outbox]:
    file = state_at(path, made)
    return file, Outbox(file, warn=lambda text: None, **more)  # type: ignore[arg-type]


ALARM = {"key": "a", "event": 20, "kind": "raised"}


@pytest.mark.parametrize("method", ["keep_alarm", "settle_alarms"])
def test_a_full_disk_holds_no_alarm_back_and_what_became_of_it_is_kept_later(
    made, tmp_path, monkeypatch, method
):
    webhook = Webhook("http://127.0.0.1:1/hook")
    file, outbox = outbox_at(tmp_path / "s.sqlite", made, webhook=webhook)

    def full(*_: object, **__: object) -> None:
        raise Full("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(StateFile, method, full)
        outbox.add(ALARM)
        assert webhook.waiting == 1 and outbox.knows("a")
        outbox.settle(ALARM, DELIVERED)
        assert not [a for a in file.alarms() if a["delivered"] is True]
    outbox.catch_up()
    assert file.alarms() == [{**ALARM, "delivered": True}] and file.undelivered() == []


def blocked(log: Path) -> None:
    """Have the log fail as on a full disk."""
    log.unlink()
    log.mkdir()


def lines(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_log_that_fails_later_catches_up_in_order(made, tmp_path):
    path = tmp_path / "alarms.jsonl"
    log = AlarmLog(path)
    file, outbox = outbox_at(tmp_path / "s.sqlite", made, log=log)
    blocked(path)
    for i, key in enumerate("ab"):
        outbox.add({"key": key, "event": i})
    assert (log.failed, outbox.unlogged) == (2, 2)
    assert [alarm["key"] for alarm in file.unlogged()] == ["a", "b"]
    path.rmdir()
    outbox.add({"key": "c", "event": 2})
    assert [line["key"] for line in lines(path)] == ["a", "b", "c"]
    assert (log.failed, outbox.unlogged, file.unlogged()) == (2, 0, [])


def waiting(service: Service) -> str:
    text = service.ask("GET", "/metrics").body.decode()
    return next(
        line.split()[1]
        for line in text.splitlines()
        if line.startswith("roadworthy_alarm_log_waiting ")
    )


def test_a_line_is_written_as_soon_as_it_can_be_without_another_alarm(bundle_path, tmp_path):
    log = tmp_path / "alarms.jsonl"
    with serving(bundle_path, tmp_path / "s.sqlite", "--alarm-log", str(log)) as service:
        blocked(log)
        service.post(events(300, shifted=0.9))
        assert waiting(service) == "1"
        log.rmdir()
        until(lambda: log.exists() and log.read_text(), seconds=10.0)
        assert [alarm["kind"] for alarm in lines(log)] == ["raised"] and waiting(service) == "0"
        service.kill()
    with serving(bundle_path, tmp_path / "s.sqlite", "--alarm-log", str(log)) as service:
        service.stop()
    assert len(lines(log)) == 1, "once it is there it is not written again"


def test_a_line_that_was_not_written_before_a_kill_is_written_at_the_next_start(
    bundle_path, tmp_path
):
    log, state = tmp_path / "alarms.jsonl", tmp_path / "s.sqlite"
    with serving(bundle_path, state, "--alarm-log", str(log)) as service:
        blocked(log)
        service.post(events(300, shifted=0.9))
        (rang,) = service.get("/v1/alarms")["alarms"]
        service.kill()
    log.rmdir()
    with serving(bundle_path, state) as service:  # without a log there is nothing to catch up with
        service.stop()
    for _ in range(2):
        with serving(bundle_path, state, "--alarm-log", str(log)) as service:
            assert [alarm["key"] for alarm in lines(log)] == [rang["key"]]
            service.stop()
    assert [{**alarm, "delivered": "no webhook"} for alarm in lines(log)] == [rang]


@pytest.mark.parametrize("fails", ["sync", "half a line"])
def test_a_line_that_is_tried_again_stands_there_once(tmp_path, monkeypatch, fails):
    """A file system over its quota may write and not sync; a full one writes half a line."""
    path = tmp_path / "alarms.jsonl"
    log = AlarmLog(path)
    log.write({"key": "a"})

    def over_quota(file: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patched:
        if fails == "sync":
            patched.setattr(os, "fsync", over_quota)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))
        try:
            for _ in range(3):
                with pytest.raises(OSError):
                    log.write({"key": "b"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [alarm["key"] for alarm in lines(path)] == ["a"]
    log.write({"key": "b"})
    assert [alarm["key"] for alarm in lines(path)] == ["a", "b"]


def test_a_log_that_was_cut_short_goes_on_with_a_line_of_its_own(tmp_path):
    log = AlarmLog(tmp_path / "logs" / "alarms.jsonl")
    log.write({"key": "a"})
    with (tmp_path / "logs" / "alarms.jsonl").open("a") as file:
        file.write('{"key": "cut')
    log.write({"key": "b\nc"})
    lines = (tmp_path / "logs" / "alarms.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"key": "a"} and json.loads(lines[2]) == {"key": "b\nc"}


def test_a_log_that_cannot_be_written_is_refused_at_the_start(bundle_path, tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    options = [
        "--state",
        str(tmp_path / "s.sqlite"),
        "--port",
        "0",
        "--alarm-log",
        str(tmp_path / "logs"),
    ]
    assert run(["monitor", str(bundle_path), *options]) == 2
    assert "--alarm-log" in (said := capsys.readouterr().err) and "cannot be written" in said


def test_the_folder_of_a_log_is_made_and_a_slip_of_the_pen_is_not(bundle_path, tmp_path, capsys):
    AlarmLog(tmp_path / "logs" / "alarms.jsonl")
    assert (tmp_path / "logs" / "alarms.jsonl").exists()
    log = tmp_path / "lgos" / "today" / "alarms.jsonl"
    options = ["--state", str(tmp_path / "s.sqlite"), "--port", "0", "--alarm-log", str(log)]
    assert run(["monitor", str(bundle_path), *options]) == 2
    said = capsys.readouterr().err
    assert "there is no folder" in said
    assert not (tmp_path / "lgos").exists() and not (tmp_path / "s.sqlite").exists()


def test_the_log_and_the_metrics_of_a_service_say_what_was_not_delivered(bundle_path, tmp_path):
    alarms = tmp_path / "alarms.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    options = ("--webhook", f"http://127.0.0.1:{port}/hook", "--alarm-log", str(alarms))
    with serving(bundle_path, tmp_path / "s.sqlite", *options) as service:
        alarms.unlink()
        alarms.mkdir()
        service.post(events(300, shifted=0.9))

        def numbers() -> dict[str, str]:
            text = service.ask("GET", "/metrics").body.decode()
            return dict(
                line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
            )

        until(lambda: numbers()['roadworthy_webhook_total{outcome="failed"}'] != "0")
        found = numbers()
        assert found['roadworthy_webhook_total{outcome="dropped"}'] == "0"
        assert (
            found["roadworthy_alarm_log_failed_total"]
            == found["roadworthy_alarm_log_waiting"]
            == "1"
        )
        os.rmdir(alarms)
        service.stop()
        said = service.process.stderr.read()
    assert "An alarm was not delivered" in said and "The alarm log cannot be written" in said
    assert json.loads(alarms.read_text())["kind"] == "raised", "written when it could be"
