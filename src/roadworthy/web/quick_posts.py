"""A short way for small posts of events: from the bytes of a connection to the next group, without a task for each.

Whoever watches a stream posts one event at a time, and what HTTP costs is then most of what a post costs. A request that lies
whole in what a connection brought, to ``POST /v1/events``, with a head in which nothing needs a decision, goes to the keeper at
once, and its answer is written when its group is on disk. Everything else goes the long way through the application, which
alone refuses, and says why: another path, a chunked or compressed body, ``Expect``, ``Connection: close``, a foreign Host or
Origin, a wrong token, an event that cannot be read. Heads are read by the same parser either way, and those of a client that sends
the same one again, but for its length, are known from then on.

It builds on parts of uvicorn that are no promise of uvicorn's (docs/decisions/0009): `trouble` sends requests through it
before the service opens, and where it says something the service does without.

>>> head = b"POST /v1/events HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 12\\r\\n"
>>> length_of(head + b"\\r\\n", lambda headers: True), length_of(head + b"Expect: 100-continue\\r\\n\\r\\n", lambda headers: True)
(12, None)
"""

from __future__ import annotations

import asyncio
import re
from asyncio import TimerHandle
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from roadworthy.monitor import Taken
from roadworthy.web.batch import Batch, Single, why_unscored
from roadworthy.web.http_io import (
    PATIENCE_S,
    TAKEN_HEADERS,
    Headers,
    Receive,
    Send,
    answer,
    taken_words,
    unfinished,
)
from roadworthy.web.keeper import Keeper
from roadworthy.web.left_out import LeftOut

PATH = b"/v1/events"
LARGEST = 1 << 16
"""Bytes of a request that goes the short way; a larger one is worth a task."""
HEADS, LONGEST_HEAD = 1024, 4096
"""Heads that are remembered, and bytes of the longest."""
_BEGIN = b"POST " + PATH + b" HTTP/1.1\r\n"
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*+(?!\r\n[ \t])", re.IGNORECASE)
_DECISIONS = frozenset(
    {b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"trailer", b"te"}
)

Trouble = Callable[[Exception], tuple[int, bytes, Headers]]
"""What to answer where an event could not be counted: status, body, headers."""


class _Head:
    """What a parser found in the head of a request."""

    def __init__(self) -> None:
        self.url, self.headers, self.complete, self.beyond = (
            b"",
            list[tuple[bytes, bytes]](),
            False,
            False,
        )

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.complete = True

    def on_body(self, body: bytes) -> None:
        self.beyond = True

    def on_message_complete(self) -> None:
        self.beyond = True


def length_of(head: bytes, allowed: Callable[[Mapping[bytes, bytes]], bool]) -> int | None:
    """How long the body of a post of events is; None where its head needs a decision."""
    found = _Head()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(head)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    headers = dict(found.headers)
    plain = found.complete and not found.beyond and len(headers) == len(found.headers)
    if (
        not plain
        or found.url != PATH
        or not parser.should_keep_alive()
        or not _DECISIONS.isdisjoint(headers)
    ):
        return None
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 10 and allowed(headers) else None


def without_upgrade(data: bytes) -> bytes:
    """A request without the wish to go on in another protocol, which the parser would have begin where its body does.

    >>> without_upgrade(b"POST / HTTP/1.1\\r\\nUpgrade: h2c\\r\\nHost: a\\r\\n\\r\\nUpgrade: no")
    b'POST / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nUpgrade: no'
    """
    end = data.find(b"\r\n\r\n")
    return data if end < 0 else _UPGRADE.sub(b"", data[:end]) + data[end:]


class ShortWay:
    """What the connections of one service share."""

    def __init__(
        self,
        keeper: Keeper,
        read: Callable[..., Batch | Single],
        *,
        allowed: Callable[[Mapping[bytes, bytes]], bool],
        trouble: Trouble,
        body_limit: int,
    ) -> None:
        self._keeper, self._read, self._allowed, self._trouble = keeper, read, allowed, trouble
        self._limit = min(body_limit, LARGEST)
        self._lengths: dict[bytes, int] = {}
        self._dated: list[tuple[bytes, bytes]] = []
        self._answers: dict[Taken, bytes] = {}

    def place(self, content: bytes) -> tuple[int, int] | None:
        """Where the body of a request begins and where it ends; None where it goes the long way."""
        begin = content.find(b"\r\n\r\n") + 4
        head = content[:begin]
        length = self._lengths.get(head)
        if length is None:
            if not 4 <= begin <= LONGEST_HEAD or not head.startswith(_BEGIN):
                return None
            length = length_of(head, self._allowed)
            if length is None or length > self._limit:
                return None
            if len(self._lengths) >= HEADS:
                self._lengths.clear()
            self._lengths[head] = length
        return begin, begin + length

    def put(self, body: bytes, reply: Callable[[Any], None]) -> bool:
        """Hand the events of a body to the keeper; False where the application has to say why not."""
        try:
            post = self._read(body, now=self._keeper.clock.now())
            if why_unscored(post, self._keeper.bundle.calibration):  # the long way says it
                return False
            self._keeper.put(post, reply)
        except Exception:  # whatever it is: it comes again on the long way, and is answered there
            return False
        return True

    def answer(self, outcome: Any, dated: list[tuple[bytes, bytes]], *, last: bool) -> bytes:
        """The bytes of an answer; `dated` are the headers that the server adds, and `last` whether it ends the connection."""
        if not isinstance(outcome, Taken):
            return _answer(*self._trouble(outcome), dated, last=last)
        if last or type(outcome) is LeftOut:  # which says why, and is no answer for others
            why = outcome.why if isinstance(outcome, LeftOut) else None
            return _answer(200, taken_words(outcome, why), TAKEN_HEADERS, dated, last=last)
        if dated is not self._dated:
            self._dated, self._answers = dated, {}
        found = self._answers.get(outcome)
        if found is None:
            found = _answer(200, taken_words(outcome), TAKEN_HEADERS, dated, last=False)
            if outcome.total == 1:  # there are three of these
                self._answers[outcome] = found
        return found


def _answer(status: int, body: bytes, headers: Headers, dated: Headers, *, last: bool) -> bytes:
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
    lines += [
        b"%s: %s" % header for header in (*dated, *headers, (b"content-length", b"%d" % len(body)))
    ]
    lines += [b"connection: close"] if last else []
    return b"\r\n".join((*lines, b"", body))


class QuickPosts(HttpToolsProtocol):
    """uvicorn's protocol of one connection, with a short way for posts of events."""

    def __init__(self, way: ShortWay, **given: Any) -> None:
        super().__init__(**given)
        self._way = way
        self._waits = False
        """Whether a post that went the short way has no answer yet."""
        self._parsing = self._in_head = False
        """Whether uvicorn's parser is within a request, and within its head."""
        self._held = b""
        """What came of a post that is not whole, or after one that waits."""
        self._ends = False
        self._idle: TimerHandle | None = None
        self._answered = 0.0
        self._patience: TimerHandle | None = None
        self._came = 0.0
        """When the last part of a request that is not whole has come."""

    def data_received(self, data: bytes) -> None:
        """Take what a connection brought."""
        if self._waits:
            self._held += data
            if len(self._held) > LARGEST:
                self.flow.pause_reading()
            return
        if self._held:
            data, self._held = self._held + data, b""
        cycle = self.cycle
        if (
            self._parsing
            or (cycle is not None and not cycle.response_complete)
            or self.flow.write_paused
        ):
            self._go_the_long_way(data)
            return
        place = self._way.place(data)
        if place is None:
            self._go_the_long_way(data)
            return
        begin, end = place
        if end > len(data):
            self._unset_keepalive_if_required()  # the connection is not idle: the rest is on its way
            self._held = data
            self._be_patient()
            return
        self._waits = True
        if not self._way.put(data[begin:end], self._answer):
            self._waits = False
            self._go_the_long_way(data)
            return
        self._unset_keepalive_if_required()
        self._held = data[end:]

    def _go_the_long_way(self, data: bytes) -> None:
        super().data_received(data if self._parsing else without_upgrade(data))
        if self._in_head:  # uvicorn itself would wait for the rest of a head for ever
            self._be_patient()

    def on_message_begin(self) -> None:
        """uvicorn's parser begins with a request."""
        self._parsing = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """uvicorn's parser has had the head of a request; for its body the application is patient."""
        self._in_head = False
        super().on_headers_complete()
        if (
            self.parser.should_upgrade()
        ):  # a head in pieces: what comes of its body would be taken for the next request
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """uvicorn's parser has had a request whole."""
        self._parsing = False
        super().on_message_complete()

    def shutdown(self) -> None:
        """End the connection; after the answer, where one is due."""
        if self._waits:
            self._ends = True
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or was let go."""
        for timer in (self._idle, self._patience):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _answer(self, outcome: Any) -> None:
        self._waits = False
        if self.transport.is_closing():
            return
        self.transport.write(
            self._way.answer(outcome, self.server_state.default_headers, last=self._ends)
        )
        if self._ends:
            self.transport.close()
            return
        self._answered = self.loop.time()
        if self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        if self._held:
            self.flow.resume_reading()
            self.data_received(b"")

    def _close_if_idle(self) -> None:
        """Close the connection where nothing has come for a while: one timer for many posts."""
        self._idle = None
        left = self._answered + self.timeout_keep_alive - self.loop.time()
        busy = (
            self._waits
            or self._held
            or self._parsing
            or (self.cycle is not None and not self.cycle.response_complete)
        )
        if busy or left > 0.001:
            self._idle = self.loop.call_later(
                self.timeout_keep_alive if busy else left, self._close_if_idle
            )
        elif (
            self.timeout_keep_alive_task is None
        ):  # else uvicorn's own timer runs since its last answer
            self.timeout_keep_alive_handler()

    def _be_patient(self) -> None:
        self._came = self.loop.time()
        if self._patience is None:
            self._patience = self.loop.call_later(PATIENCE_S, self._close_if_unfinished)

    def _close_if_unfinished(self) -> None:
        """Give a request up whose rest does not come: one timer for many."""
        self._patience = None
        if self._waits or not (self._held or self._in_head) or self.transport.is_closing():
            return
        busy = self.cycle is not None and not self.cycle.response_complete
        left = PATIENCE_S if busy else self._came + PATIENCE_S - self.loop.time()
        if left > 0.001:
            self._patience = self.loop.call_later(left, self._close_if_unfinished)
            return
        self._held = b""
        self.transport.write(
            self._way.answer(unfinished(), self.server_state.default_headers, last=True)
        )
        self.transport.close()


class _Wire:
    """A connection that leads nowhere."""

    def __init__(self) -> None:
        self.written, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _Trial:
    """Takes the place of what connections share, and answers posts when it is told to."""

    def __init__(self) -> None:
        self.replies: list[Callable[[Any], None]] = []

    def place(self, content: bytes) -> tuple[int, int] | None:
        begin = content.find(b"\r\n\r\n") + 4
        return (begin, begin + 2) if content.startswith(_BEGIN) else None

    def put(self, body: bytes, reply: Callable[[Any], None]) -> bool:
        self.replies.append(reply)
        return True

    def answer(self, outcome: Any, dated: list[tuple[bytes, bytes]], *, last: bool) -> bytes:
        return _answer(200, b"short", [], dated, last=last)


async def _long_way(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    await answer(send, 200, b"long", [])


def trouble() -> str:
    """Why this uvicorn cannot be built upon, found out by sending requests through; empty where it can."""
    try:
        return asyncio.run(_tried())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def _tried() -> str:
    wire, way, loop = _Wire(), _Trial(), asyncio.get_running_loop()
    config = uvicorn.Config(
        _long_way, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )  # type: ignore[arg-type]
    connection = QuickPosts(way, config=config, server_state=ServerState(), app_state={})  # type: ignore[arg-type]
    connection.connection_made(wire)  # type: ignore[arg-type]
    post = _BEGIN + b"Host: a\r\nContent-Length: 2\r\n\r\n{}"
    for part in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", post[:-1], post[-1:]):
        connection.data_received(part)
        end = loop.time() + 1.0
        while connection.cycle is None or not connection.cycle.response_complete:
            if loop.time() > end:
                return "a request was not answered"
            await asyncio.sleep(0)
    if connection._parsing or connection._in_head:
        return "it is not told where a head, or a request, ends"
    if connection.timeout_keep_alive_task is not None:
        return "the timer of an idle connection goes on while a request comes"
    way.replies[0](None)
    connection._close_if_idle()
    connection.shutdown()
    connection.connection_lost(None)
    if not (
        wire.written.startswith(b"HTTP/1.1 200 OK\r\n")
        and wire.written.endswith(b"short")
        and wire.closed
    ):
        return "requests were not answered in their order"
    return ""
