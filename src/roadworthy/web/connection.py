"""Limits of one connection that uvicorn does not have: size of a head, time of a request, number.

| limit | what happens |
| --- | --- |
| a request head above 64 kB | 431, and the connection is closed; no more than that is held |
| no first byte within 10 s | closed |
| head and body not complete within 60 s | 408, and the connection is closed |
| more than 1,000 connections | 503, and the new connection is closed |

A connection has a deadline, and one task a server looks at all of them every second: a timer for
each request would cost more than the request. This builds on ``HttpToolsProtocol`` of uvicorn, of
which it uses the parser's callbacks, ``cycle``, ``connections`` and ``transport``.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from roadworthy.web.http import JSON, as_json
from roadworthy.web.log import LOG

HEAD_BYTES = 64 << 10
FIRST_BYTE_S = 10.0
REQUEST_S = 60.0
CONNECTIONS = 1000
LINGER_S = 5.0
"""How long what a refused client still sends is read and dropped, so that it finds its answer."""
SWEEP_S = 1.0


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's protocol of one connection, with limits."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.deadline = math.inf
        """When the connection is closed unless something happens before."""
        self._parsing = self._in_head = self._refused = False
        """Whether a request has begun and is not complete; whether its head is not; whether it is
        refused, so that nothing of it is read any more."""
        self._head = 0
        """Bytes of the current head."""

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        self.deadline = self.loop.time() + FIRST_BYTE_S
        if len(self.connections) > CONNECTIONS:
            self._refuse(503, f"There are {CONNECTIONS:,} connections already. Try again later.")
            transport.close()  # without lingering: it would hold a descriptor

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        if self._refused:
            return
        alone = self._in_head or not self._parsing  # not behind the body of another request
        super().data_received(data)
        if self._in_head:
            self._head += len(data) if alone else 0
            self._check_head()
        elif not self._parsing and self._is_idle() and self.deadline == math.inf:
            self.deadline = self.loop.time() + FIRST_BYTE_S  # empty lines are no request

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._parsing = self._in_head = True
        self._head = 0
        self.deadline = self.loop.time() + REQUEST_S
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a request is complete."""
        self._in_head = False
        self._head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self._check_head()
        if self._refused:
            return
        super().on_headers_complete()
        if self.parser.should_upgrade():  # what follows would be taken for the next request
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if not self._refused:
            self._parsing, self.deadline = False, math.inf
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP."""
        if not self._refused:
            super().send_400_response(msg)

    def close_if_due(self, now: float) -> None:
        """Close the connection if its deadline has passed."""
        if now < self.deadline:
            return
        if self.transport.is_closing():  # it waits for a client that does not read
            self.transport.abort()
        elif self._refused or not self._parsing or (self.cycle and self.cycle.response_started):
            self.transport.close()
        else:
            self._refuse(
                408, f"The request was not complete within {REQUEST_S:.0f} s. Send it again."
            )
            self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _check_head(self) -> None:
        if self._head > HEAD_BYTES:
            self._refuse(431, f"The request head is larger than {HEAD_BYTES:,} bytes.")

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer past the application, and read nothing more of this connection."""
        self._refused = True
        self._unset_keepalive_if_required()
        self.deadline = self.loop.time() + LINGER_S
        body = as_json({"error": sentence})
        head = b"content-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % (JSON, len(body)) + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()


async def close_overdue(connections: set[Any]) -> None:
    """Close, for ever, what is beyond its deadline."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_S)
        now = loop.time()
        for connection in list(connections):
            try:
                connection.close_if_due(now)
            except Exception as error:  # of one connection; the others are looked at all the same
                LOG.error("A connection could not be closed", exc_info=error)
