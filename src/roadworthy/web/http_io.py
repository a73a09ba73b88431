"""The few parts of HTTP that the service needs over ASGI: a request, its body within a limit, an answer.

>>> Request({"method": "GET", "path": "/v1/history", "query_string": b"after=5", "headers": []}).query
{'after': '5'}
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson

from roadworthy.web.events import Refused, brief

if TYPE_CHECKING:
    from roadworthy.monitor import Taken

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
TAKEN_HEADERS: Headers = [(b"content-type", JSON), (b"x-content-type-options", b"nosniff")]
"""Of answers to posts of events: many a second, and never shown by a browser."""
PATIENCE_S = 60.0
"""How long the next part of a request may take: what came of it is held meanwhile."""
DROPPED, DROPPING_S = 64 << 20, 5.0
"""Bytes of a body that is too large, and seconds, that are waited for before a connection is closed."""
_TAKEN = b'{"accepted":%d,"repeated":%d,"late":%d,"unscored":%d,"ahead":%d}'


class Gone(Exception):
    """The client went away before its request was complete."""


class Request:
    """What was asked, without the body."""

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

        >>> Request({"method": "GET", "path": "/", "query_string": b"n=inf", "headers": []}).number("n", 5)
        Traceback (most recent call last):
        roadworthy.web.events.Refused: n must be a number, found 'inf'
        """
        text = self.query.get(name) or ""
        try:
            found = float(text) if text else None
        except ValueError:
            found = math.nan
        if found is not None and not math.isfinite(found):
            raise Refused(f"{name} must be a number, found {brief(text)}")
        return otherwise if found is None else found

    def whole(self, name: str, otherwise: int, most: int) -> int:
        """A parameter that must be a whole number from 1."""
        found = self.number(name, otherwise)
        if not 1 <= found <= most or found != int(found):
            raise Refused(
                f"{name} must be a whole number from 1 to {most:,}, found {brief(self.query[name])}"
            )
        return int(found)


async def body_of(
    request: Request, receive: Receive, limit: int, *, any_encoding: bool = False
) -> bytes:
    """The body; one beyond the limit is refused as soon as that is known, and what still comes is not kept."""
    headers = request.headers
    if b"content-length" in headers and int(headers[b"content-length"]) > limit:
        raise _too_large(limit)
    if not any_encoding and headers.get(b"content-encoding", b"identity") != b"identity":
        raise Refused("compressed bodies are not taken; send it plain", status=415)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Gone
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        try:
            async with asyncio.timeout(PATIENCE_S):
                message = await receive()
        except TimeoutError:
            raise unfinished() from None
        if message["type"] == "http.disconnect":
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


async def drop_rest(request: Request, receive: Receive) -> None:
    """Read and drop, for a while, a body that was too large to begin with, on a connection that closes with the answer.

    A client that sends all before it reads would else find the connection reset, and no answer.
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


def unfinished() -> Refused:
    """Why a request is refused of which only a part has come."""
    return Refused(f"the rest of the request did not come within {PATIENCE_S:.0f} s", status=408)


def _too_large(limit: int) -> Refused:
    return Refused(
        f"the body is larger than {limit:,} bytes; send smaller batches, or raise --body-limit",
        status=413,
    )


async def answer(
    send: Send, status: int, body: bytes, headers: Headers, *, sized: bool = True
) -> None:
    """Send an answer whole, with the length of its body unless it is of a kind that has none."""
    length = [(b"content-length", b"%d" % len(body))] if sized else []
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


def taken_words(taken: Taken, why: Mapping[str, str] | None = None) -> bytes:
    """What became of the events of a post, and why some of them say nothing, or were left out.

    >>> taken_words((1, 0, 0, 1, 0), {"why_unscored": "lacks knn"})
    b'{"accepted":1,"repeated":0,"late":0,"unscored":1,"ahead":0,"why_unscored":"lacks knn"}'
    """
    said = _TAKEN % taken
    return said if not why else said[:-1] + b"," + as_json(why)[1:]


def as_json(content: Any) -> bytes:
    """JSON; numbers that are not finite become null, and numpy's are numbers."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
