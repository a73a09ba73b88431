"""Alarms reach a webhook that fails at first, and a log, without anybody waiting for them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from monitored import START, answering, events, serving, until

from roadworthy.cli.app import run
from roadworthy.web import ServiceError, delivery
from roadworthy.web.delivery import AlarmLog, Webhook
from roadworthy.web.events import Reader
from roadworthy.web.ledger import Full, Ledger
from roadworthy.web.service import Settings, build, text_of


@contextmanager
def receiver(
    *answers: int,
    pause: float = 0.0,
    held: threading.Event | None = None,
    refused: Callable[[dict], bool] = lambda alarm: False,
) -> Iterator[tuple[str, list[dict]]]:
    """A server that answers with these statuses one after the other, then with 200, or 422 to what is `refused`; what it took."""
    got: list[dict] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            time.sleep(pause)
            if held is not None:
                held.wait()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = left.pop(0) if left else 422 if refused(body) else 200
            if status == 200:
                got.append(
                    {
                        **body,
                        "_path": self.path,
                        "_authorization": self.headers.get("Authorization"),
                    }
                )
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with answering(Handler) as address:
        yield f"{address}/hook", got


def test_a_webhook_that_fails_is_tried_again_in_order():
    told = []
    with receiver(500, 503, 200, 429) as (address, got):
        webhook = Webhook(address, first_pause_s=0.01)
        webhook.send({"key": "before the start"})
        webhook.start(told.append, [{"key": "of last time"}])
        webhook.send({"key": "later"})
        until(lambda: len(told) == 3)  # told last, after everything is counted
        assert (
            [a["key"] for a in got]
            == ["of last time", "before the start", "later"]
            == [a["key"] for a in told]
        )
        assert (webhook.sent, webhook.failed, webhook.waiting) == (3, 3, 0)
        webhook.close()


def test_an_alarm_that_the_webhook_refuses_holds_no_other_back_and_is_sent_again():
    said, told, wanted = list[str](), list[dict](), ["b", "c", "d"]
    with receiver(refused=lambda alarm: alarm["key"] not in wanted) as (address, got):
        webhook = Webhook(address, first_pause_s=0.01, remark=said.append)
        webhook.start(told.append)
        for key, kind in (("a", "cannot tell"), ("b", "raised"), ("c", "cleared")):
            webhook.send({"key": key, "kind": kind})
        until(lambda: len(told) == 2 and webhook.failed >= 3)
        webhook.send({"key": "d"})
        until(lambda: len(told) == 3)
        assert [a["key"] for a in got] == ["b", "c", "d"] and (
            webhook.waiting,
            webhook.refused,
        ) == (1, 1)
        wanted.append("a")
        until(lambda: len(told) == 4)
        assert got[-1]["key"] == "a" and (webhook.waiting, webhook.refused) == (0, 0)
        webhook.close()
    assert said[0].startswith(
        "an alarm was refused (cannot tell, key a): the webhook answered 422; the others are sent"
    )


@pytest.mark.parametrize("status", [401, 407])
def test_a_wrong_password_says_nothing_about_an_alarm_and_keeps_their_order(status):
    told: list[dict] = []
    with receiver(200, status) as (address, got):
        webhook = Webhook(address, first_pause_s=0.01)
        webhook.start(told.append)
        for event, kind in enumerate(("raised", "cleared", "raised")):
            webhook.send({"key": str(event), "kind": kind, "event": event})
        until(lambda: len(told) == 3)
        webhook.close()
        assert [alarm["event"] for alarm in got] == [0, 1, 2] and webhook.failed == 1


@pytest.mark.parametrize("status", [403, 404, 405, 410, 422])
def test_an_alarm_that_is_not_known_to_be_open_holds_no_later_one_back(status):
    """A receiver answers so where it has no such incident; what it hears last is how it is."""
    told, said = list[dict](), list[str]()
    with receiver(200, status, 200, status, 200) as (address, got):
        webhook = Webhook(address, first_pause_s=0.3, remark=said.append)
        webhook.start(told.append)
        for event, kind in enumerate(("raised", "cleared", "raised", "cleared")):
            webhook.send({"key": str(event), "kind": kind, "event": event})
        until(lambda: len(told) == 3)
        webhook.close()
        assert [alarm["event"] for alarm in got] == [0, 2, 3] and (
            webhook.refused,
            webhook.waiting,
        ) == (0, 0)
    assert any("an alarm is not sent any more (cleared, key 1)" in line for line in said)


def test_a_receiver_that_knows_no_such_address_for_a_moment_hears_every_alarm_in_order():
    told, said = list[dict](), list[str]()
    kinds = ("raised", "cleared") * 3
    with receiver(*(404,) * 6) as (address, got):
        webhook = Webhook(address, first_pause_s=0.2, remark=said.append)
        webhook.start(
            told.append,
            [{"key": str(event), "kind": kind, "event": event} for event, kind in enumerate(kinds)],
        )
        until(lambda: len(told) == 6)
        webhook.close()
    assert [alarm["event"] for alarm in got] == [0, 1, 2, 3, 4, 5] and (
        webhook.failed,
        webhook.waiting,
    ) == (6, 0)
    assert not any("not sent any more" in line for line in said)


def test_the_log_says_of_every_alarm_that_it_is_given_up(caplog):
    told: list[dict] = []
    with receiver(*(422,) * 5) as (address, _):
        webhook = Webhook(address, first_pause_s=60.0)
        webhook.start(
            told.append,
            [{"key": f"k{event}", "kind": "raised", "event": event} for event in range(6)],
        )
        until(lambda: told)
        webhook.close()
    lines = [
        record.getMessage()
        for record in caplog.records
        if "not sent any more" in record.getMessage()
    ]
    assert [f"key k{event})" in line for event, line in enumerate(lines)] == [True] * 5


def test_an_alarm_that_could_not_be_kept_is_kept_later_and_not_told_anew_behind_later_ones(
    made, bundle_path, tmp_path, monkeypatch
):
    kept, failed = Ledger.keep_alarm, list[str]()

    def full_once(self: Ledger, alarm: dict, **more: bool) -> None:
        if alarm["kind"] == "cleared" and not failed:
            failed.append(alarm["key"])
            raise Full("the disk is full")
        kept(self, alarm, **more)

    monkeypatch.setattr(Ledger, "keep_alarm", full_once)
    with receiver() as (address, got):
        for start in (1, 2):
            app = build(Settings(bundle_path, tmp_path / "s.sqlite", webhook=address))
            keeper, counting = app._keeper, app._keeper.counting
            for first, n, shifted in (
                ((0, 300, 0.9), (300, 400, 0.0), (700, 300, 0.9)) if start == 1 else ()
            ):
                body = json.dumps(events(n, first=first, shifted=shifted)).encode()
                post = Reader(made.calibration, subject=made.subject).read(body, now=START)
                keeper._thread.submit(counting.commit, [post]).result()
            until(lambda: len(got) >= 3)
            app._webhook.close()
            keeper._thread.submit(counting.close).result()
            keeper._thread.shutdown()
    assert failed and [alarm["kind"] for alarm in got] == ["raised", "cleared", "raised"]


def test_an_alarm_that_was_taken_while_the_disk_was_full_is_not_sent_again_after_a_restart(
    made, bundle_path, tmp_path, monkeypatch
):
    kept, disk_is_full = Ledger.keep_alarm, threading.Event()

    def keep_if_there_is_room(self: Ledger, alarm: dict, **more: bool) -> None:
        if disk_is_full.is_set():
            raise Full("the disk is full")
        kept(self, alarm, **more)

    monkeypatch.setattr(Ledger, "keep_alarm", keep_if_there_is_room)
    disk_is_full.set()
    with receiver() as (address, got):
        for start in (1, 2):
            app = build(Settings(bundle_path, tmp_path / "s.sqlite", webhook=address))
            keeper, counting = app._keeper, app._keeper.counting
            if start == 1:
                body = json.dumps(events(300, shifted=0.9)).encode()
                post = Reader(made.calibration, subject=made.subject).read(body, now=START)
                keeper._thread.submit(counting.commit, [post]).result()
                until(lambda: got, seconds=10.0)
                app._webhook.close()  # after it has said what was taken
                assert keeper._thread.submit(counting.ledger.alarms).result() == []
                disk_is_full.clear()
                keeper._thread.submit(keeper._besides).result()
            assert [
                a["delivered"] for a in keeper._thread.submit(counting.ledger.alarms).result()
            ] == [True]
            assert app._webhook.waiting == 0
            app._webhook.close()
            keeper._thread.submit(counting.close).result()
            keeper._thread.shutdown()
    assert [alarm["kind"] for alarm in got] == ["raised"]


def test_the_last_that_a_receiver_hears_is_how_it_is_also_after_a_restart(bundle_path, tmp_path):
    """It refuses that an alarm is cleared, takes that it is raised again, and would then take the first."""
    state, wanted = tmp_path / "s.sqlite", ["raised"]
    with receiver(refused=lambda alarm: alarm["kind"] not in wanted) as (address, got):
        with serving(bundle_path, state, "--webhook", address) as service:
            service.post(events(300, shifted=0.9))
            service.post(events(400, first=300))
            until(
                lambda: (
                    "roadworthy_webhook_refused 1\n" in service.ask("GET", "/metrics").body.decode()
                )
            )
            service.post(events(300, first=700, shifted=0.9))
            until(lambda: [alarm["kind"] for alarm in got] == ["raised", "raised"])
            until(
                lambda: (
                    [a["delivered"] for a in service.get("/v1/alarms")["alarms"]]
                    == [True, False, True]
                )
            )
            assert "roadworthy_webhook_refused 0\n" in service.ask("GET", "/metrics").body.decode()
            service.kill()
            assert "an alarm is not sent any more (cleared, key" in service.process.stderr.read()
        wanted.append("cleared")
        with serving(bundle_path, state, "--webhook", address) as service:
            service.post(events(400, first=1000))
            until(lambda: len(got) == 3)
            assert got[-1]["event"] > got[-2]["event"] and got[-1]["kind"] == "cleared"


@pytest.mark.parametrize(
    ("before", "meanwhile", "heard"),
    [
        ("rc", "r", ["r"]),
        ("r", "c", ["c"]),
        ("r", "cr", []),
        ("rc", "rc", []),
        ("", "r", ["r"]),
        ("", "rc", []),
        ("", "ut", []),
        ("rU", "cut", ["c", "t"]),
        ("rcL", "l" * 1200 + "k", ["k"]),
    ],
)
def test_after_a_run_without_a_webhook_the_receiver_hears_how_it_is_and_no_more(
    made, bundle_path, tmp_path, before, meanwhile, heard
):
    """Raised, cleared, `u`nable to tell and able to `t`ell again; of those that are late l and k."""
    kinds = {
        "r": "raised",
        "c": "cleared",
        "u": "cannot tell",
        "t": "can tell",
        "l": "cannot tell",
        "k": "can tell",
    }
    ledger = Ledger(tmp_path / "s.sqlite", bundle=made.id, content=text_of(made))
    for event, letter in enumerate(before + meanwhile):
        late = {"late": True, "reason": "late"} if letter.lower() in "lk" else {}
        alarm = {"key": f"{event}{letter}", "event": 7, "kind": kinds[letter.lower()], **late}
        ledger.keep_alarm(alarm, delivered=True if event < len(before) else None)
    ledger.close()
    with (
        receiver() as (address, got),
        serving(bundle_path, tmp_path / "s.sqlite", "--webhook", address) as service,
    ):
        until(lambda: len(got) >= len(heard))
        until(
            lambda: (
                f'{{outcome="taken"}} {len(heard)}\n'
                in service.ask("GET", "/metrics").body.decode()
            )
        )
        assert "roadworthy_webhook_waiting 0\n" in service.ask("GET", "/metrics").body.decode()
        service.stop()
    assert [alarm["key"][-1] for alarm in got] == heard
    with (
        receiver() as (address, again),
        serving(bundle_path, tmp_path / "s.sqlite", "--webhook", address) as service,
    ):
        assert "roadworthy_webhook_waiting 0\n" in service.ask("GET", "/metrics").body.decode()
        service.stop()
    assert again == [], "what was taken is not sent again"


def test_refused_alarms_are_gone_through_in_their_order_once_a_pause():
    tried: list[str] = []
    with receiver(refused=lambda alarm: not tried.append(alarm["key"])) as (address, _):
        webhook = Webhook(address, first_pause_s=0.2)
        webhook.start()
        for key in "abc":
            webhook.send({"key": key})
        until(lambda: len(tried) >= 9)
        webhook.close()
        assert "".join(tried[:9]) == "abcabcabc" and webhook.failed <= 10, (
            "with pauses between, and none at once"
        )


def test_a_service_says_which_alarms_the_webhook_refuses(bundle_path, tmp_path):
    silent = [
        {**event, "scores": {}} for event in events(300, first=400)
    ]  # of which nobody can tell
    with (
        receiver(refused=lambda alarm: alarm["risk"] is None) as (address, got),
        serving(bundle_path, tmp_path / "s.sqlite", "--webhook", address) as service,
    ):
        service.post(events(400, shifted=0.9))
        service.post(silent)
        until(lambda: any(alarm["kind"] == "raised" for alarm in got))
        until(
            lambda: (
                "roadworthy_webhook_refused 0\n" not in service.ask("GET", "/metrics").body.decode()
            )
        )
        until(
            lambda: all(
                a["delivered"] == (a["risk"] is not None)
                for a in service.get("/v1/alarms")["alarms"]
            )
        )
        held = [alarm for alarm in service.get("/v1/alarms")["alarms"] if not alarm["delivered"]]
        assert held[0]["kind"] == "cannot tell"
        metrics = service.ask("GET", "/metrics").body.decode()
        assert f"roadworthy_webhook_refused {len(held)}\n" in metrics
        service.stop()
        assert (
            f"an alarm was refused (cannot tell, key {held[0]['key']})"
            in service.process.stderr.read()
        )


def test_however_many_alarms_were_not_delivered_they_are_sent_after_the_next_start(
    made, bundle_path, tmp_path
):
    state = tmp_path / "s.sqlite"
    ledger = Ledger(state, bundle=made.id, content=text_of(made))
    for event in range(1100):
        kind = ("raised", "cleared")[event % 2]
        ledger.keep_alarm({"key": f"k{event}", "event": event, "kind": kind}, delivered=event < 30)
    ledger.close()
    with receiver() as (address, got), serving(bundle_path, state, "--webhook", address) as service:
        until(lambda: len(got) == 1070)
        service.stop()
    assert [alarm["event"] for alarm in got] == list(range(30, 1100))


def test_a_webhook_that_is_not_there_holds_nobody_up_and_keeps_a_bounded_queue():
    webhook = Webhook("http://127.0.0.1:1/hook", first_pause_s=0.01)
    webhook.start()
    for i in range(1200):
        webhook.send({"key": i})
    until(lambda: webhook.failed >= 2)
    assert (
        webhook.waiting == 1000
        and webhook.dropped >= 199
        and "cannot be reached" in webhook.trouble
    )
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


def test_a_receiver_whose_answer_never_ends_does_not_hold_the_others_for_ever(monkeypatch):
    """A byte now and then is no silence, so that a timeout alone would wait without end."""
    monkeypatch.setattr(delivery, "ANSWER_S", 0.3)
    slow, told, said = [True], list[dict](), list[str]()

    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n")
            if slow:
                slow.clear()
                with contextlib.suppress(OSError):
                    self.wfile.write(b"X-Slow: ")
                    while True:
                        self.wfile.write(b"a")
                        time.sleep(0.02)
                return
            self.wfile.write(b"\r\n")

        def log_message(self, *arguments: object) -> None:
            pass

    with answering(Dripping) as address:
        webhook = Webhook(address, first_pause_s=0.01, remark=said.append)
        webhook.start(told.append)
        webhook.send({"key": "a"})
        until(lambda: told, seconds=10.0)
        webhook.close()
    assert (webhook.sent, webhook.failed) == (1, 1) and "no answer within 0.3 s" in said[0]


def test_a_log_that_was_cut_short_goes_on_with_a_line_of_its_own(tmp_path):
    log = AlarmLog(tmp_path / "logs" / "alarms.jsonl")
    log.write({"key": "a"})
    with (tmp_path / "logs" / "alarms.jsonl").open("a") as file:
        file.write('{"key": "cut')
    log.write({"key": "b\nc"})
    lines = (tmp_path / "logs" / "alarms.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"key": "a"} and json.loads(lines[2]) == {"key": "b\nc"}


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
    with pytest.raises(ServiceError, match="is no address of a webhook"):
        Webhook(address)
    options = ["--state", str(tmp_path / "s.sqlite"), "--port", "0", "--webhook", address]
    assert run(["monitor", str(bundle_path), *options]) == 2
    said = capsys.readouterr().err
    assert says in said and "secret" not in said and "Traceback" not in said
    if "://" in address and "[" not in address:
        assert run(["monitor", "label-queue", address]) == 2
        said = capsys.readouterr().err
        assert says in said and "secret" not in said and "a fault of roadworthy" not in said


def nobody() -> str:
    """The address of a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"127.0.0.1:{closed.getsockname()[1]}"


def test_a_webhook_that_is_down_at_the_start_is_said_once_and_does_not_end_it(
    bundle_path, tmp_path
):
    address = nobody()
    with serving(
        bundle_path, tmp_path / "s.sqlite", "--webhook", f"http://me:secret@{address}/hook"
    ) as service:
        assert select.select([service.process.stderr], [], [], 20.0)[0], "nothing is said"
        line = service.process.stderr.readline()
        assert line.startswith(f"--webhook: {address.replace(':', ' port ')} cannot be reached now")
        assert "sent again and again until it takes them" in line and "secret" not in line
        assert service.ask("GET", "/health").status == 200
        service.stop()
        assert "cannot be reached" not in service.process.stderr.read()


def test_a_webhook_is_tried_at_the_start_without_sending_anything():
    said: list[str] = []
    with receiver() as (address, got):
        webhook = Webhook(address, remark=said.append)
        webhook.start()
        webhook.send({"key": "a"})
        until(lambda: webhook.sent == 1)
        webhook.close()
    assert said == [] and [alarm["key"] for alarm in got] == ["a"]


def test_of_an_alarm_that_waits_at_the_start_only_the_delivery_is_said():
    said: list[str] = []
    webhook = Webhook(f"http://{nobody()}/hook", first_pause_s=60.0, remark=said.append)
    webhook.start(waiting=[{"key": "of last time"}])
    until(lambda: webhook.failed == 1 and said)
    webhook.close()
    assert len(said) == 1 and said[0].startswith("an alarm was not delivered")


def test_a_path_beyond_ascii_and_a_password_are_sent_as_http_has_them():
    with receiver() as (address, got):
        webhook = Webhook(
            address.replace("//", "//me:s%40cret@").replace("/hook", "/münchen?to=a b")
        )
        webhook.start()
        webhook.send({"key": "a"})
        until(lambda: got)
        webhook.close()
    assert (
        got[0]["_path"] == "/m%C3%BCnchen?to=a%20b"
        and got[0]["_authorization"] == "Basic bWU6c0BjcmV0"
    )


def test_whatever_goes_wrong_the_thread_goes_on_and_says_so(monkeypatch):
    said: list[str] = []
    real = delivery.json.dumps
    faults = [ValueError("strange"), UnicodeError("stranger"), RecursionError()]

    def dumps(alarm: object) -> str:
        if faults:
            raise faults.pop()
        return real(alarm)

    with receiver() as (address, got):
        webhook = Webhook(address, first_pause_s=0.001, remark=said.append)
        monkeypatch.setattr(delivery.json, "dumps", dumps)
        webhook.start()
        webhook.send({"key": "a"})
        until(lambda: got)
        until(lambda: webhook.sent == 1)
        assert (
            webhook.failed == 3 and len(said) == 3 and "strange" in said[-1] and "1 wait" in said[0]
        )
        webhook.close()


def test_more_alarms_than_can_wait_are_counted_and_said():
    said: list[str] = []
    webhook = Webhook("http://127.0.0.1:1/hook", remark=said.append)
    for i in range(1005):
        webhook.send({"key": i})
    assert (webhook.waiting, webhook.dropped) == (
        1000,
        5,
    ) and "more than 1,000 alarms wait" in said[0]


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
    assert f"there is no folder {tmp_path / 'lgos'}; make {log.parent} first" in said
    assert not (tmp_path / "lgos").exists() and not (tmp_path / "s.sqlite").exists()


def test_a_state_file_has_its_folder_made_as_a_log_has(made, tmp_path):
    Ledger(tmp_path / "states" / "s.sqlite", bundle=made.id, content="{}").close()
    assert (tmp_path / "states" / "s.sqlite").exists()
    state = tmp_path / "sattes" / "today" / "s.sqlite"
    with pytest.raises(
        ServiceError, match=f"there is no folder {tmp_path / 'sattes'}; make {state.parent} first"
    ):
        Ledger(state, bundle=made.id, content="{}")
    assert not (tmp_path / "sattes").exists()


def test_a_log_that_fails_later_says_so_and_catches_up(tmp_path):
    said: list[str] = []
    path = tmp_path / "alarms.jsonl"
    log = AlarmLog(path, remark=said.append)
    path.unlink()
    path.mkdir()
    log.write({"key": "a"})
    log.write({"key": "b"})
    assert (log.failed, log.waiting) == (2, 2) and "cannot be written" in said[0]
    path.rmdir()
    log.write({"key": "c"})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b", "c"]
    assert (log.failed, log.waiting) == (2, 0)


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
    assert "an alarm was not delivered: the webhook cannot be reached" in said
    assert "the alarm log" in said and "cannot be written" in said
    assert json.loads(alarms.read_text())["kind"] == "raised", "written when it could be"
