"""The doors of the service, over real sockets: heads without end, clients without a word, too many of them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from monitored import Service, events, serving

IMPATIENT = """
import sys
from pathlib import Path
from roadworthy.web import connection
from roadworthy.web.service import Settings, serve
connection.FIRST_BYTE_S, connection.REQUEST_S, connection.SWEEP_S = 1.0, 2.0, 0.1
connection.CONNECTIONS = 50
settings = Settings(Path(sys.argv[1]), Path(sys.argv[2]), port=0)
serve(settings, ready=lambda address: print('{"address": "%s"}' % address, flush=True))
"""


@pytest.fixture(scope="module")
def service(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(bundle_path, tmp_path_factory.mktemp("doors") / "s.sqlite") as running:
        yield running


@pytest.fixture(scope="module")
def impatient(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same with small limits of time and number."""
    state = tmp_path_factory.mktemp("impatient") / "s.sqlite"
    with serving(bundle_path, state, program=IMPATIENT) as running:
        yield running


def connected(service: Service) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def request(event: Any, *lines: str, path: str = "/v1/events", method: str = "POST") -> bytes:
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


class Answers:
    """Reads answers from a connection."""

    def __init__(self, line: socket.socket) -> None:
        self._file = line.makefile("rb")

    def next(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        return status, headers, self._file.read(int(headers["content-length"]))

    def ended(self) -> bool:
        return self._file.read(1) == b""


def resident_mb(service: Service) -> float:
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


ONE = {"accepted": 1, "repeated": 0, "late": 0, "unscored": 0, "ahead": 0}
_numbers = iter(range(10_000_000, 20_000_000))


def event() -> dict[str, Any]:
    return events(1, first=next(_numbers), start=0.0, step=1e-6)[0] | {"time": time.time()}


def test_a_head_of_a_megabyte_is_refused_and_not_kept(service):
    before = resident_mb(service)
    for _ in range(20):
        with connected(service) as line:
            line.sendall(b"GET /v1/risk HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            for _ in range(16):
                line.sendall(b"a" * (1 << 16))
            status, headers, _ = Answers(line).next()
            assert status == 431 and headers["connection"] == "close"
    assert resident_mb(service) - before < 20
    assert service.ask("GET", "/livez").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 70_000),
        b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\n"
        + b"X: %s\r\n" % (b"b" * 1000) * 70
        + b"Content-Length: 2\r\n\r\n{}",
    ],
    ids=["path", "many headers"],
)
def test_a_head_that_comes_whole_and_is_too_large_is_refused(service, head):
    with connected(service) as line:
        line.sendall(head)
        assert Answers(line).next()[0] == 431


def test_a_large_head_below_the_limit_and_a_large_body_are_taken(service):
    with connected(service) as line:
        answers = Answers(line)
        big = request(event(), f"X-Long: {'a' * 60_000}")
        line.sendall(big[:30_000])
        time.sleep(0.05)
        line.sendall(big[30_000:])
        assert answers.next()[0] == 200
        batch = request(json.dumps(events(5000, first=500)).encode())
        line.sendall(batch + request(event()))  # a head behind a body of half a megabyte
        assert [answers.next()[0] for _ in range(2)] == [200, 200]


def test_a_client_that_sends_nothing_is_closed(impatient):
    with connected(impatient) as line:
        began = time.monotonic()
        assert Answers(line).ended() and 0.5 < time.monotonic() - began < 10.0


def test_empty_lines_are_no_request(impatient):
    with connected(impatient) as line:
        line.sendall(b"\r\n")
        assert Answers(line).ended()


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"GET /v1/risk HTTP/1.1\r\nHost: loc", b"a"),
        (b"GET /v1/risk HTTP/1.1\r\nHost: localhost\r\n", b"X: 1\r\n"),
        (b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n{", b" "),
    ],
    ids=["half a header", "headers", "body"],
)
def test_a_request_that_drips_is_given_up_after_its_deadline(impatient, begin, drop):
    with connected(impatient) as line:
        line.sendall(begin)
        began, line_open = time.monotonic(), True
        while line_open and time.monotonic() - began < 20.0:
            time.sleep(0.1)
            try:
                line.sendall(drop)
            except OSError:
                line_open = False
        assert time.monotonic() - began < 10.0
    assert impatient.ask("GET", "/livez").status == 200


def test_a_request_that_stops_is_told_why(impatient):
    with connected(impatient) as line:
        line.sendall(request(event())[:-5])
        status, headers, _ = Answers(line).next()
        assert status == 408 and headers["connection"] == "close"


def test_a_connection_that_is_used_is_not_closed_by_a_deadline(impatient):
    with connected(impatient) as line:
        answers = Answers(line)
        for _ in range(8):
            line.sendall(request(event()))
            status, _, body = answers.next()
            assert status == 200 and json.loads(body) == ONE
            time.sleep(0.4)


def test_more_connections_than_allowed_get_503_and_others_go_on(impatient):
    time.sleep(1.5)  # those of other tests are closed by now
    with ExitStack() as stack:
        busy = stack.enter_context(connected(impatient))
        answers = Answers(busy)
        busy.sendall(request(event()))
        assert answers.next()[0] == 200
        idle = [stack.enter_context(connected(impatient)) for _ in range(55)]
        assert Answers(idle[-1]).next()[0] == 503
        busy.sendall(request(event()))
        assert answers.next()[0] == 200
    time.sleep(1.5)
    assert impatient.ask("GET", "/livez").status == 200


def test_a_thousand_idle_connections_take_nothing_from_others(service):
    with ExitStack() as stack:
        line = stack.enter_context(connected(service))
        answers = Answers(line)
        for _ in range(1100):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=30))
        line.sendall(request(event()))
        assert answers.next()[0] == 200
        descriptors = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
        assert descriptors <= 1050


def test_a_post_in_pieces_and_posts_without_waiting_are_answered_in_order(service):
    with connected(service) as line:
        answers = Answers(line)
        for cut in (1, 20, 60, -40, -1):
            content = request(event())
            line.sendall(content[:cut])
            time.sleep(0.02)
            line.sendall(content[cut:])
            status, _, body = answers.next()
            assert status == 200 and json.loads(body) == ONE
        posts = [event(), event(), {"id": "no score"}, event()]
        line.sendall(b"".join(map(request, posts)))
        assert [answers.next()[0] for _ in posts] == [200, 200, 400, 200]
        line.sendall(request(b"", method="GET", path="/livez") + request(event()))
        assert [answers.next()[0] for _ in range(2)] == [200, 200]


def test_a_body_behind_an_upgrade_is_refused_and_the_next_request_is_not_part_of_it(service):
    with connected(service) as line:
        line.sendall(request(event(), "Connection: Upgrade", "Upgrade: h2c"))
        status, headers, _ = Answers(line).next()
        assert status == 400 and headers["connection"] == "close"


def test_what_is_not_http_is_refused(service):
    with connected(service) as line:
        line.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10)
        assert line.recv(100).startswith(b"HTTP/1.1 400")
    assert service.ask("GET", "/livez").status == 200
