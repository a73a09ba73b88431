"""The parts of HTTP that the service needs over ASGI: a request, its body within limits, an answer.

>>> Request({"method": "GET", "path": "/", "query_string": b"after=5", "headers": []}).query
{'after': '5'}
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

import orjson

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
DROPPED, DROPPING_S = 64 << 20, 5.0
"""Bytes of a body that is too large, and seconds, that are read before a connection is closed."""


class Refused(Exception):
    """A request that is not accepted: status, sentence, and the line of a batch."""

    def __init__(self, sentence: str, *, status: int = 400, line: int | None = None) -> None:
        super().__init__(sentence if line is None else f"line {line}: {sentence}")
        self.status, self.line = status, line


class Gone(Exception):
    """The client went away before its request was complete."""


class TooMuch(Exception):
    """There is no memory for this request now; the client should send it again."""


class Request:
    """A request without its body."""

    __slots__ = ("__dict__", "headers", "method", "path", "raw_headers", "scope")

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_headers: Headers = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(self.raw_headers)

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters behind the question mark."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))

    def number(self, name: str, otherwise: float) -> float:
        """A parameter that must be a finite number.

        >>> scope = {"method": "GET", "path": "/", "query_string": b"n=inf", "headers": []}
        >>> Request(scope).number("n", 5)
        Traceback (most recent call last):
        roadworthy.web.http.Refused: n must be a number, found 'inf'
        """
        text = self.query.get(name) or ""
        try:
            found = float(text) if text else otherwise
        except ValueError:
            found = math.nan
        if text and not math.isfinite(found):
            raise Refused(f"{name} must be a number, found {brief(text)}")
        return found

    def whole(self, name: str, otherwise: int, most: int, *, least: int = 1) -> int:
        """A parameter that must be a whole number."""
        found = self.number(name, otherwise)
        if not least <= found <= most or found != int(found):
            raise Refused(
                f"{name} must be a whole number from {least:,} to {most:,}, "
                f"found {brief(self.query[name])}"
            )
        return int(found)


async def body_of(
    request: Request, receive: Receive, limit: int, *, any_encoding: bool = False
) -> bytes:
    """The body; one beyond the limit is refused as soon as that is known."""
    headers = request.headers
    if b"content-length" in headers and int(headers[b"content-length"]) > limit:
        raise _too_large(limit)
    if not any_encoding and headers.get(b"content-encoding", b"identity") != b"identity":
        raise Refused("Compressed bodies are not supported. Send it uncompressed.", status=415)
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def drop_rest(request: Request, receive: Receive) -> None:
    """Read and drop the rest of a body that is too large, if the connection closes then.

    A client that sends everything before it reads would otherwise find a reset and no answer.
    """
    headers = request.headers
    closes = b"close" in headers.get(b"connection", b"").lower() and b"expect" not in headers
    left = DROPPED if closes and b"content-length" in headers else 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DROPPING_S):
            while left > 0:
                message = await receive()
                if not message.get("more_body"):
                    return
                left -= len(message["body"])


def _too_large(limit: int) -> Refused:
    return Refused(
        f"The body is larger than {limit:,} bytes. Send smaller batches, or raise --body-limit.",
        status=413,
    )


async def answer(
    send: Send, status: int, body: bytes, headers: Headers, *, sized: bool = True
) -> None:
    """Send an answer, with the length of its body unless it is of a type that has none."""
    length = [(b"content-length", b"%d" % len(body))] if sized else []
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


def as_json(content: Any) -> bytes:
    """JSON; numbers that are not finite become null, and numpy's are numbers."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def brief(value: Any) -> str:
    """What was found, in at most 60 characters."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or a number of thousands of digits
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= 60 else text[:57] + "..."


class InFlight:
    """How many bytes of requests may be held at the same time; any thread may use it.

    >>> memory = InFlight(100)
    >>> first, second = Share(memory), Share(memory)
    >>> first.take(80)
    >>> second.take(30)
    Traceback (most recent call last):
    roadworthy.web.http.TooMuch: 80 of 100 bytes are in use by other requests. Send it again.
    >>> first.give_back()
    >>> second.take(30)
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self.lock = threading.Lock()


class Share:
    """What one request holds."""

    def __init__(self, memory: InFlight) -> None:
        self._memory, self._held, self._over = memory, 0, False

    def take(self, size: int) -> None:
        """Hold so many bytes more."""
        memory = self._memory
        with memory.lock:
            if self._over:
                raise TooMuch("This request was given up.")
            if memory.used + size > memory.most:
                raise TooMuch(
                    f"{memory.used:,} of {memory.most:,} bytes are in use by other requests. "
                    "Send it again."
                )
            memory.used += size
            self._held += size

    def give_back(self) -> None:
        """Hold nothing any more."""
        with self._memory.lock:
            self._memory.used -= self._held
            self._held, self._over = 0, True

    def counted(self, receive: Receive) -> Receive:
        """The same messages, with their bytes held."""

        async def receive_counted() -> Mapping[str, Any]:
            message = await receive()
            self.take(len(message.get("body", b"")))
            return message

        return receive_counted
