"""Small posts of events take a short way past the application: the same answers, in whatever pieces a connection brings them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from monitored import Service, events, serving, until
from uvicorn.server import ServerState

from roadworthy.web import quick_posts
from roadworthy.web.quick_posts import QuickPosts, length_of
from roadworthy.web.service import Settings, build, protocol


@pytest.fixture(scope="module")
def service(bundle_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(bundle_path, tmp_path_factory.mktemp("quick") / "s.sqlite") as running:
        yield running


def request(event: Any, *lines: str, path: str = "/v1/events", method: str = "POST") -> bytes:
    """A request as a client writes it."""
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    head = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Length: {len(body)}",
        *lines,
        "",
        "",
    ]
    return "\r\n".join(head).encode() + body


class Line:
    """A connection that stays open."""

    def __init__(self, service: Service) -> None:
        self.socket = socket.create_connection(("127.0.0.1", service.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self.socket.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        for i, part in enumerate(parts):
            if i:
                time.sleep(0.02)
            self.socket.sendall(part)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        status = int(self._read.readline().split()[1])
        headers = {}
        while line := self._read.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        body = self._read.read(int(headers["content-length"]))
        return status, headers, json.loads(body)

    def ended(self) -> bool:
        return self._read.read(1) == b""


_numbers = iter(range(10_000_000, 20_000_000))


def event() -> dict[str, Any]:
    """One that was not sent before."""
    return events(1, first=next(_numbers), start=0.0, step=1e-6)[0] | {"time": time.time()}


ONE = {"accepted": 1, "repeated": 0, "late": 0, "unscored": 0, "ahead": 0}
AGAIN = {"accepted": 0, "repeated": 1, "late": 0, "unscored": 0, "ahead": 0}


def test_a_post_in_pieces_is_the_same_post(service):
    with Line(service) as line:
        for cut in (1, 20, 60, -40, -1):
            post = event()
            content = request(post)
            line.send(content[:cut], content[cut:])
            assert line.answer()[::2] == (200, ONE)
            line.send(content)
            assert line.answer()[::2] == (200, AGAIN)


def test_posts_on_one_line_without_waiting_are_answered_in_order(service):
    first, second = event(), event()
    posts = [first, second, first, {"id": "no score"}, event()]
    with Line(service) as line:
        line.send(b"".join(map(request, posts)))
        found = [line.answer() for _ in posts]
        assert [status for status, _, _ in found] == [200, 200, 200, 400, 200]
        assert [body for _, _, body in found[:3]] == [ONE, ONE, AGAIN]


def test_short_and_long_ways_take_turns_on_one_line(service):
    with Line(service) as line:
        for _ in range(3):
            content = request(event())
            line.send(
                content + request(b"", method="GET", path="/health") + content[:30], content[30:]
            )
            assert line.answer()[2] == ONE
            assert line.answer()[2]["status"] == "ok"
            assert line.answer()[2] == AGAIN


def test_both_ways_answer_with_the_same_headers(service):
    with Line(service) as line:
        line.send(request(event()))
        _, short, _ = line.answer()
        line.send(request(event(), "Content-Encoding: identity"))  # a decision: the long way
        _, long, _ = line.answer()
    assert short.keys() == long.keys() and {**short, "date": ""} == {**long, "date": ""}


@pytest.mark.parametrize(
    ("post", "lines", "status"),
    [
        (b"{", (), 400),
        (b"[]", (), 400),
        ({"id": "x", "time": 1.0, "scores": {"knn": "high", "energy": 0.5}}, (), 400),
        (b'{"id": "x", "time": 1.0, "scores": {"knn": 1e999, "energy": 0.5}}', (), 400),
        (b'{"id": "x", "time": 1.0, "scores": {"knn": NaN, "energy": 0.5}}', (), 400),
        ({"id": "x", "subject": "another", "scores": {"knn": 0.5, "energy": 0.5}}, (), 409),
        (event(), ("Origin: https://evil.example",), 403),
        (event(), ("Content-Encoding: gzip",), 415),
    ],
)
def test_what_is_refused_is_refused_with_its_reason_and_the_line_goes_on(
    service, post, lines, status
):
    before = service.counted()
    with Line(service) as line:
        for _ in range(2):
            line.send(request(post, *lines))
            found, _, body = line.answer()
            assert found == status and body["error"]
        assert service.counted() == before
        line.send(request(event()))
        assert line.answer()[::2] == (200, ONE)


def test_a_head_that_was_let_in_lets_no_other_in(bundle_path, tmp_path):
    with (
        serving(bundle_path, tmp_path / "s.sqlite", "--token", "a-secret") as running,
        Line(running) as line,
    ):
        for _ in range(2):
            line.send(request(event(), "Authorization: Bearer a-secret"))
            assert line.answer()[::2] == (200, ONE)
            for lines in (
                (),
                ("Authorization: Bearer a-secreT",),
                ("Authorization: Bearer a-secret", "Origin: http://b"),
            ):
                line.send(request(event(), *lines))
                assert line.answer()[0] in (401, 403)


def test_the_last_post_of_a_line_is_answered_before_it_ends(service):
    with Line(service) as line:
        line.send(request(event()))
        assert line.answer()[0] == 200
        line.send(request(event(), "Connection: close"))
        status, headers, body = line.answer()
        assert (status, headers["connection"], body) == (200, "close", ONE)
        assert line.ended()


def test_a_service_that_is_stopped_answers_the_posts_that_wait(bundle_path, tmp_path):
    state = tmp_path / "s.sqlite"
    acknowledged: list[str] = []
    with serving(bundle_path, state) as running:
        stopping = threading.Event()

        def posting() -> None:
            with Line(running) as line:
                while True:
                    post = event()
                    try:
                        line.send(request(post))
                        if line.answer()[2] == ONE:
                            acknowledged.append(post["id"])
                    except (OSError, IndexError, ValueError):  # the line has ended
                        assert stopping.is_set()
                        return

        threads = [threading.Thread(target=posting) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) > 100)
        stopping.set()
        assert running.stop() == 0
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
    with serving(bundle_path, state) as again:
        # One post a line may have been counted without its answer having been read.
        assert len(acknowledged) <= again.counted() <= len(acknowledged) + len(threads)
        reply = again.post([{**event(), "id": name} for name in acknowledged])
        assert reply.json["repeated"] == len(acknowledged)


def test_a_line_on_which_nothing_comes_is_closed(service):
    with Line(service) as line:
        began = time.monotonic()
        line.send(request(event()))
        assert line.answer()[0] == 200
        assert line.ended()
        assert time.monotonic() - began > 3.0


_HEAD = b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"


@pytest.mark.parametrize(
    "head",
    [
        _HEAD + b"Content-Length: 5\r\n\r\n",
        _HEAD + b"Content-Length: 7\r\n\r\n",
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        _HEAD + b"Host: b\r\n\r\n",
        _HEAD + b"Connection: close\r\n\r\n",
        _HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        _HEAD + b"Expect: 100-continue\r\n\r\n",
        _HEAD + b"Bad Name: 1\r\n\r\n",
        _HEAD + b" folded\r\n\r\n",
        _HEAD.replace(b"5", b"+5") + b"\r\n",
        _HEAD.replace(b"5", b"0x5") + b"\r\n",
        _HEAD.replace(b"5", b"-5") + b"\r\n",
        _HEAD.replace(b"5", b"99999999999") + b"\r\n",
        _HEAD.replace(b"/v1/events", b"/v1/events?a=1") + b"\r\n",
        _HEAD.replace(b"/v1/events", b"/v1/labels") + b"\r\n",
        _HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
        _HEAD.replace(b"\r\n", b"\n") + b"\n{}\r\n\r\n",
        b"POST /v1/events HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_a_head_that_needs_a_decision_goes_the_long_way(head):
    assert length_of(head, lambda headers: True) is None


@given(st.binary(max_size=60))
def test_whatever_stands_in_a_head_its_length_is_the_one_that_it_says(line):
    assert length_of(_HEAD + b"\r\n", lambda headers: True) == 5
    assert length_of(_HEAD + line + b"\r\n\r\n", lambda headers: True) in (5, None)


def test_a_head_that_is_not_allowed_goes_the_long_way():
    assert length_of(_HEAD + b"\r\n", lambda headers: headers[b"host"] == b"b") is None


def test_a_small_post_makes_no_task_and_is_answered_when_it_is_on_disk(bundle_path, tmp_path):
    app = build(Settings(bundle_path, tmp_path / "s.sqlite"))
    way, config = app.short_way(), uvicorn.Config(app, http="httptools", ws="none", lifespan="off")

    async def post() -> quick_posts._Wire:
        app._keeper.start()
        tasks, wire = len(asyncio.all_tasks()), quick_posts._Wire()
        connection = QuickPosts(way, config=config, server_state=ServerState(), app_state={})
        connection.connection_made(wire)
        connection.data_received(request(event()))
        assert (app._keeper.waiting, len(asyncio.all_tasks()), wire.written) == (1, tasks, b"")
        while not wire.written:
            await asyncio.sleep(0.001)
        assert len(app._keeper.counting.ledger.restored()[1]) == 1
        await app._keeper.close()
        return wire

    assert asyncio.run(post()).written.endswith(json.dumps(ONE, separators=(",", ":")).encode())


def test_a_post_of_which_a_part_has_come_keeps_its_line_open(bundle_path, tmp_path):
    app = build(Settings(bundle_path, tmp_path / "s.sqlite"))
    way, config = app.short_way(), uvicorn.Config(app, http="httptools", ws="none", lifespan="off")

    async def post() -> None:
        app._keeper.start()
        wire = quick_posts._Wire()
        connection = QuickPosts(way, config=config, server_state=ServerState(), app_state={})
        connection.connection_made(wire)
        connection.data_received(request(b"", method="GET", path="/health"))
        while connection.timeout_keep_alive_task is None:
            await asyncio.sleep(0.001)
        content = request(event())
        connection.data_received(content[:-10])
        assert connection.timeout_keep_alive_task is None, (
            "nobody closes it in the middle of a request"
        )
        connection._close_if_idle()
        assert not wire.closed
        connection.data_received(content[-10:])
        while not wire.written.endswith(b'"ahead":0}'):
            await asyncio.sleep(0.001)
        connection.connection_lost(None)
        await app._keeper.close()

    asyncio.run(post())


def test_half_a_post_is_waited_for_as_long_as_on_the_long_way(bundle_path, tmp_path, monkeypatch):
    monkeypatch.setattr(quick_posts, "PATIENCE_S", 0.05)
    app = build(Settings(bundle_path, tmp_path / "s.sqlite"))
    way, config = app.short_way(), uvicorn.Config(app, http="httptools", ws="none", lifespan="off")

    def opened() -> tuple[quick_posts._Wire, QuickPosts]:
        wire, connection = (
            quick_posts._Wire(),
            QuickPosts(way, config=config, server_state=ServerState(), app_state={}),
        )
        connection.connection_made(wire)
        return wire, connection

    async def post() -> None:
        app._keeper.start()
        content = request(event())
        wire, connection = opened()
        connection.data_received(content[:-10])
        end = time.monotonic() + 10.0
        while not wire.closed and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert (
            wire.closed
            and wire.written.startswith(b"HTTP/1.1 408 ")
            and b"connection: close" in wire.written
        )
        assert b"the rest of the request did not come" in wire.written and app._keeper.waiting == 0
        connection.connection_lost(None)

        wire, connection = opened()
        for part in (content[:-10], content[-10:-5], content[-5:]):
            connection.data_received(part)
        while not wire.written.endswith(b'"ahead":0}'):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.2)
        assert not wire.closed, "a post that is whole is waited for no more"
        connection.data_received(content[:-10])
        connection.connection_lost(None)
        await asyncio.sleep(0.2)
        assert wire.written.count(b"HTTP/1.1") == 1, "nobody is answered who has gone"
        await app._keeper.close()

    asyncio.run(post())


@pytest.mark.parametrize("cut", [5, 30])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_half_a_head_is_waited_for_as_long(bundle_path, tmp_path, monkeypatch, cut, method):
    """uvicorn itself would wait for ever: its one limit is for connections on which nothing comes after an answer."""
    monkeypatch.setattr(quick_posts, "PATIENCE_S", 0.05)
    app = build(Settings(bundle_path, tmp_path / "s.sqlite"))
    way, config = app.short_way(), uvicorn.Config(app, http="httptools", ws="none", lifespan="off")

    async def post() -> None:
        app._keeper.start()
        whole = request(
            event(), method=method, path="/v1/events" if method == "POST" else "/health"
        )
        for before in (b"", whole):
            wire = quick_posts._Wire()
            connection = QuickPosts(way, config=config, server_state=ServerState(), app_state={})
            connection.connection_made(wire)
            connection.data_received(before + whole[:cut])
            end = time.monotonic() + 10.0
            while not wire.closed and time.monotonic() < end:
                await asyncio.sleep(0.01)
            assert (
                wire.closed
                and b"HTTP/1.1 408 " in wire.written
                and b"connection: close" in wire.written
            )
            assert b"the rest of the request did not come" in wire.written
            assert wire.written.startswith(b"HTTP/1.1 200 ") == bool(before)
            connection.connection_lost(None)
        await app._keeper.close()

    asyncio.run(post())


def test_the_rest_of_a_head_is_not_given_up_while_an_answer_is_on_its_way(
    bundle_path, tmp_path, monkeypatch
):
    monkeypatch.setattr(quick_posts, "PATIENCE_S", 0.05)
    go_on = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        await quick_posts.answer(send, 200, b"{}", [])

    config = uvicorn.Config(slow, http="httptools", ws="none", lifespan="off")

    async def post() -> None:
        wire = quick_posts._Wire()
        connection = QuickPosts(
            quick_posts._Trial(), config=config, server_state=ServerState(), app_state={}
        )
        connection.connection_made(wire)
        connection.data_received(request(b"", method="GET", path="/health") + b"GET /hea")
        await asyncio.sleep(0.2)
        assert not wire.closed and not wire.written, "no other answer gets before the first"
        go_on.set()
        while not wire.closed:
            await asyncio.sleep(0.01)
        assert wire.written.endswith(b"short") and wire.written.count(b"HTTP/1.1 ") == 2
        connection.connection_lost(None)

    asyncio.run(post())


UPGRADE = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
)
"""What clients send that would rather speak HTTP/2; servers that do not are to take no notice."""


@pytest.mark.parametrize("path", ["/v1/events", "/v1/events?a=1"])
def test_a_post_of_a_client_that_would_change_to_another_protocol_is_taken_as_usual(service, path):
    with Line(service) as line:
        for lines in (UPGRADE, ("Connection: upgrade", "upgrade: websocket")):
            content = request(event(), *lines, path=path)
            line.send(content)
            assert line.answer()[::2] == (200, ONE)
            head = content.index(b"\r\n\r\n") + 4
            line.send(content[:head], content[head:])
            assert line.answer()[::2] == (200, AGAIN)
        line.send(request(event()))
        assert line.answer()[::2] == (200, ONE)


def test_where_that_is_not_possible_it_is_said_and_the_body_is_not_taken_for_a_request(service):
    before = service.counted()
    content = request(request(event()), *UPGRADE)
    head = content.index(b"\r\n\r\n") + 4
    for cuts in ((60,), (60, head)):
        with Line(service) as line:
            line.send(*(content[a:b] for a, b in pairwise((0, *cuts, len(content)))))
            status, headers, body = line.answer()
            assert (
                status == 400
                and "reads no body after Upgrade" in body["error"]
                and headers["connection"] == "close"
            )
            assert line.ended()
    assert service.counted() == before


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\nUpgrade: h2c\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Upgrade: h2c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade : h2c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\nUpgrade: h2c\r\n\r\n",
    ],
)
def test_nothing_else_is_taken_out_of_a_head(head):
    assert quick_posts.without_upgrade(head) == head


def test_the_uvicorn_that_is_installed_is_one_to_build_upon():
    assert quick_posts.trouble() == ""


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("_unset_keepalive_if_required", None),
        ("timeout_keep_alive_handler", None),
        ("on_message_complete", None),
        ("on_headers_complete", None),
        ("data_received", lambda self, data: None),
        ("_unset_keepalive_if_required", lambda self: None),
    ],
)
def test_with_another_uvicorn_posts_go_the_long_way_and_the_log_says_why(
    bundle_path, tmp_path, monkeypatch, caplog, name, instead
):
    if instead is None:
        monkeypatch.delattr(quick_posts.HttpToolsProtocol, name)
    else:
        monkeypatch.setattr(quick_posts.HttpToolsProtocol, name, instead)
    app = build(Settings(bundle_path, tmp_path / "s.sqlite"))
    with caplog.at_level(logging.WARNING, "roadworthy.monitor"):
        assert protocol(app) == "auto"
    assert "small posts go the long way" in caplog.text
    asyncio.run(_ended(app))


async def _ended(app: Any) -> None:
    app._keeper.start()
    await app._keeper.close()


def test_without_httptools_posts_go_the_long_way(bundle_path, tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "httptools", None)
    monkeypatch.delitem(sys.modules, "roadworthy.web.quick_posts")
    monkeypatch.delattr("roadworthy.web.quick_posts")
    app = build(Settings(bundle_path, tmp_path / "s.sqlite"))
    with caplog.at_level(logging.WARNING, "roadworthy.monitor"):
        assert protocol(app) == "auto"
    assert "httptools" in caplog.text
    asyncio.run(_ended(app))


WITHOUT = """
import sys
sys.modules["httptools"] = None
from pathlib import Path
from roadworthy.web.service import Settings, serve
settings = Settings(Path(sys.argv[1]), Path(sys.argv[2]), port=0)
serve(settings, ready=lambda address: print('{"address": "%s"}' % address, flush=True))
"""


def test_a_service_without_the_short_way_answers_the_same(bundle_path, tmp_path, monkeypatch):
    import monitored

    monkeypatch.setattr(monitored, "OFTEN", WITHOUT)
    with (
        serving(bundle_path, tmp_path / "s.sqlite", snapshot_bytes=1) as running,
        Line(running) as line,
    ):
        content = request(event())
        for expected in (ONE, AGAIN):
            line.send(content[:50], content[50:])
            assert line.answer()[::2] == (200, expected)
        line.send(request({"id": "no score"}))
        assert line.answer()[0] == 400
        assert running.stop() == 0
        assert "small posts go the long way" in running.process.stderr.read()
