"""Alarms reach a webhook that fails at first, and a log, without anybody waiting for them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from monitored import events, serving, until

from roadworthy.web.delivery import AlarmLog, Webhook


@contextmanager
def receiver(
    *answers: int, pause: float = 0.0, held: threading.Event | None = None
) -> Iterator[tuple[str, list[dict]]]:
    """A server that answers with these statuses one after the other, then with 200; what it was sent."""
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
                got.append(body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_that_fails_is_tried_again_in_order():
    told = []
    with receiver(500, 503, 200, 404) as (address, got):
        webhook = Webhook(address, first_pause_s=0.01)
        webhook.send({"key": "before the start"})
        webhook.start(told.append, [{"key": "of last time"}])
        webhook.send({"key": "later"})
        until(lambda: len(told) == 3)  # told last, after everything is counted
        assert [a["key"] for a in got] == ["of last time", "before the start", "later"] == [a["key"] for a in told]
        assert (webhook.sent, webhook.failed, webhook.waiting) == (3, 3, 0)
        webhook.close()


def test_a_webhook_that_is_not_there_holds_nobody_up_and_keeps_a_bounded_queue():
    webhook = Webhook("http://127.0.0.1:1/hook", first_pause_s=0.01)
    webhook.start()
    for i in range(1200):
        webhook.send({"key": i})
    until(lambda: webhook.failed >= 2)
    assert webhook.waiting == 1000 and webhook.dropped >= 199 and "cannot be reached" in webhook.trouble
    webhook.close()


def test_nobody_waits_for_a_webhook_that_does_not_answer():
    answer = threading.Event()
    with receiver(held=answer) as (address, got):
        webhook = Webhook(address)
        webhook.start()
        for i in range(1200):
            webhook.send({"key": i})
        assert (webhook.sent, webhook.waiting) == (0, 1000) and not got
        answer.set()
        until(lambda: webhook.sent >= 1)
        webhook.close()


def test_a_log_that_was_cut_short_goes_on_with_a_line_of_its_own(tmp_path):
    log = AlarmLog(tmp_path / "logs" / "alarms.jsonl")
    log.write({"key": "a"})
    with (tmp_path / "logs" / "alarms.jsonl").open("a") as file:
        file.write('{"key": "cut')
    log.write({"key": "b\nc"})
    lines = (tmp_path / "logs" / "alarms.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"key": "a"} and json.loads(lines[2]) == {"key": "b\nc"}


def test_an_alarm_that_was_not_taken_is_sent_after_a_restart_and_only_then(bundle_path: Path, tmp_path: Path):
    state, log = tmp_path / "state.sqlite", tmp_path / "alarms.jsonl"
    options = ("--alarm-log", str(log))
    with serving(bundle_path, state, *options, "--webhook", "http://127.0.0.1:1/hook") as service:
        assert service.post(events(300, shifted=0.9)).json["accepted"] == 300
        assert not service.get("/v1/alarms")["alarms"][0]["delivered"]
        service.kill()
    with receiver(pause=0.2) as (address, got), serving(bundle_path, state, *options, "--webhook", address) as service:
        until(lambda: got)
        until(lambda: service.get("/v1/alarms")["alarms"][0]["delivered"])
        assert service.post(events(1, first=300)).status == 200
        service.stop()
    with receiver() as (address, again), serving(bundle_path, state, *options, "--webhook", address) as service:
        service.post(events(300, first=400))
        until(lambda: len(again) == 1)
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [a["kind"] for a in logged] == ["raised", "cleared"] == [got[0]["kind"], again[0]["kind"]]
    assert logged[0]["key"] == got[0]["key"] and got[0]["tolerable"] == 0.2 and len(got) == 1
