"""In front of a server that speaks the Open Inference Protocol v2: requests go through, scores are
counted.

The model server must give the supervisors' scores among its outputs, one number a row. Answers of
one model are counted: those to ``/v2/models/NAME/infer``, or with ``NAME/versions/V`` those to
``/v2/models/NAME/versions/V/infer``. All other requests pass through. Clients wait for the server
alone: events are counted after the answer has gone out, and what cannot be read is logged and
counted as such. A score that is infinite, or whose output is missing, is a missing score. A row's
event is named by the answer's ``id``, a number of the service and the row; with ``ids_unique`` the
number is left out, so that a request sent again is the same events.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import select
import uuid
from collections.abc import Awaitable, Callable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from urllib.parse import unquote

import numpy as np

from roadworthy.subject.adapters.inference_protocol import MalformedAnswer
from roadworthy.web import ServiceError
from roadworthy.web.addresses import address_of, without_password
from roadworthy.web.answer_scores import Passed, scores_of
from roadworthy.web.events import writable
from roadworthy.web.http import (
    Headers,
    InFlight,
    Receive,
    Refused,
    Request,
    Send,
    Share,
    answer,
    body_of,
)
from roadworthy.web.log import LOG, ThrottledLog

TIMEOUT_S = 60.0
BODY_LIMIT = 256 << 20
AT_ONCE = 64
"""Requests that wait for the model server at the same time."""
CHECK_S, REACH_S = 10.0, 3.0
"""How often the model server is tried to be reached, and for how long."""
IN_FLIGHT = 512 << 20
"""Bytes of requests and answers that are held at the same time; more are refused for now."""
REQUEST_BYTES = 16 << 10
"""What a request takes beside its body."""
PIECE = 1 << 20
LARGE = 1 << 18
"""Bytes of an answer that is read in a thread, so that nobody waits for it."""
LONGEST_NAME = 140
"""Characters of a request's id within that of an event."""
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade host content-length expect".split()
)
"""Headers of one connection alone (RFC 9110, 7.6.1), and those that the next one makes itself."""
_MODEL = re.compile(r"[^/?#\s]+(/versions/[^/?#\s]+)?")

Feed = Callable[[list[str], Mapping[str, np.ndarray]], Awaitable[None]]
"""Takes ids of events and columns of their scores."""


class NoServer(Exception):
    """The model server did not answer."""


@dataclass
class Sidecar:
    """The server behind, and which of its outputs are scores: supervisor -> output."""

    address: str
    outputs: Mapping[str, str]
    model: str
    """Whose answers are counted: NAME, or NAME/versions/V."""
    timeout_s: float = TIMEOUT_S
    ids_unique: bool = False
    """Whether no two requests have the same id, unless one is the other sent again."""
    own_token: bool = False
    """Whether requests carry this service's token, which is not for the server behind."""
    in_flight: int = IN_FLIGHT
    up: bool = True
    """Whether the model server answered when it was last asked."""
    unread: int = 0
    """Answers in which no scores were found."""
    lost: int = 0
    """Answers whose scores could not be written."""
    others: int = 0
    """Answers of other models."""
    _idle: SimpleQueue[http.client.HTTPConnection] = field(default_factory=SimpleQueue, repr=False)
    _feeding: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        try:
            self._place = address_of(self.address)
            if self._place.authorization:
                raise ValueError("it has a user in it; clients send Authorization themselves")
        except ValueError as error:
            raise ServiceError(
                f"--proxy {without_password(self.address)!r} is not an address: {error}. "
                "Write it as in http://127.0.0.1:8000."
            ) from None
        if not _MODEL.fullmatch(self.model):
            raise ServiceError(
                f"--model {self.model!r} is not a model: write NAME or NAME/versions/V, as in the "
                "path /v2/models/NAME/infer."
            )
        self._prefix = self._place.prefix
        self._counted = f"/v2/models/{self.model}/infer"
        self._found = False
        """Whether an answer of the model has come."""
        self._warn = ThrottledLog()
        self._threads = ThreadPoolExecutor(AT_ONCE, "sidecar")
        self._memory = InFlight(self.in_flight)
        self._kept_back = (
            HOP_BY_HOP | {b"accept-encoding"} | ({b"authorization"} if self.own_token else set())
        )
        self._start, self._numbers = uuid.uuid4().hex[:16], count()

    async def serve(self, request: Request, receive: Receive, send: Send, feed: Feed) -> None:
        """Pass a request on and its answer back, then feed the scores in it to the monitor."""
        if leaves(request.scope["raw_path"].decode("latin-1")):
            raise Refused(f"{request.path} leaves /v2; only /v2 of the model server is passed on.")
        share = Share(self._memory)
        try:
            share.take(REQUEST_BYTES)
            passed = await self._passed(request, receive, share)
            await answer(send, passed.status, passed.body, passed.headers, sized=not passed.bare)
        except BaseException:
            share.give_back()
            raise
        inferred = request.method == "POST" and request.path.endswith("/infer")
        if inferred and request.path != self._counted:
            self.others += 1
            if not self._found:
                self._warn(f"{request.path} is not counted: --model is {self.model}.")
        if inferred and request.path == self._counted and passed.status == 200:
            self._found = True
            task = asyncio.get_running_loop().create_task(self._feed(passed, feed))
            self._feeding.add(task)
            task.add_done_callback(self._feeding.discard)
            task.add_done_callback(lambda _: share.give_back())
        else:
            share.give_back()

    async def _passed(self, request: Request, receive: Receive, share: Share) -> Passed:
        body = await body_of(request, share.counted(receive), BODY_LIMIT, any_encoding=True)
        query = request.scope["query_string"].decode("latin-1")
        target = request.scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        asking = partial(self.ask, request.method, target, request.raw_headers, body, share.take)
        return await asyncio.get_running_loop().run_in_executor(self._threads, asking)

    async def watch(self) -> None:
        """Try, for ever, whether the model server can be reached."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._threads, self._place.reach, REACH_S)
            except OSError as error:
                self._note(str(error) or type(error).__name__)
            else:
                self._note("")
            await asyncio.sleep(CHECK_S)

    def _note(self, trouble: str) -> None:
        """Remember, and log, whether the model server answers."""
        if self.up and trouble:
            LOG.error("The model server %s does not answer: %s", self.address, trouble)
        elif not self.up and not trouble:
            LOG.warning("The model server %s answers again.", self.address)
        self.up = not trouble

    async def _feed(self, passed: Passed, feed: Feed) -> None:
        """Count the scores of an answer that has gone out; no client waits for this."""
        try:
            reading = partial(scores_of, passed, self.outputs)
            if len(passed.body) > LARGE:
                found = await asyncio.get_running_loop().run_in_executor(self._threads, reading)
            else:
                found = reading()
            name, rows = self._name(found.id), len(next(iter(found.columns.values())))
            if rows:
                await feed([f"{name}/{row}" for row in range(rows)], found.columns)
        except MalformedAnswer as error:
            self.unread += 1
            self._warn(f"An answer of the model server was not counted: {error}")
        except Exception as error:
            self.lost += 1
            self._warn(f"The events of an answer were not written: {error}")
        else:
            if found.lacking:
                self._warn(
                    f"An answer of the model server lacks scores: {'; '.join(found.lacking)}"
                )

    def _name(self, given: str | None) -> str:
        """The name of the events of an answer."""
        own = f"{self._start}-{next(self._numbers)}"
        if given is None or len(given) > LONGEST_NAME or not writable(given):
            if self.ids_unique:
                self._warn("An answer has no usable id: --ids-unique cannot recognise it.")
            return own
        return given if self.ids_unique else f"{given}/{own}"

    def ask(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes,
        take: Callable[[int], None] = lambda size: None,
    ) -> Passed:
        """Send a request on and wait for the answer; `take` gets its bytes as they come."""
        sent = joined(headers, self._kept_back)
        sent["Accept-Encoding"] = "identity"  # the scores are read from the answer
        try:
            connection = self._kept() or self._place.connection(self.timeout_s)
            # Once: if it fails, the server may have had it; whether to repeat it the client knows.
            return self._exchange(connection, method, target, sent, body, take)
        except (OSError, http.client.HTTPException) as error:
            trouble = self._what_happened(error)
            self._note(trouble)
            raise NoServer(trouble) from error

    def _what_happened(self, error: Exception) -> str:
        """Why there is no answer."""
        said = f"{type(error).__name__}: {error}".strip(": ")
        if isinstance(error, TimeoutError):
            return f"The model server {self.address} did not answer within {self.timeout_s:g} s."
        if isinstance(error, ConnectionResetError | BrokenPipeError | http.client.HTTPException):
            return f"The model server {self.address} gave no whole answer ({said})."
        return f"There is no model server at {self.address} ({error})."

    async def close(self) -> None:
        """Let what is being counted be counted, and threads and connections go."""
        if self._feeding:
            await asyncio.wait(tuple(self._feeding), timeout=2.0)
        self._threads.shutdown(wait=False, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _kept(self) -> http.client.HTTPConnection | None:
        """A connection that stayed open; those that the server has closed are skipped."""
        while True:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                return None
            if not _ended(connection):
                return connection
            connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        take: Callable[[int], None],
    ) -> Passed:
        path = self._prefix + target
        try:
            connection.request(
                method, path, body if body or method not in ("GET", "HEAD") else None, dict(headers)
            )
            answer = connection.getresponse()
            if answer.status < 200:  # http.client skips 100 alone; the answer itself is behind it
                raise http.client.HTTPException(f"interim answer {answer.status}")
            content = _content(answer, take)
        except BaseException:
            connection.close()
            raise
        headers_back = [
            (k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in answer.getheaders()
        ]
        # The service dates all its answers.
        own = HOP_BY_HOP | {b"date"} | of_connection(headers_back)
        found = [(name, value) for name, value in headers_back if name not in own]
        bare = method == "HEAD" or answer.status in (204, 304)
        if method == "HEAD" and (length := answer.headers.get("Content-Length", "")).isdecimal():
            found.append((b"content-length", length.encode("latin-1")))
        self._note("")
        if answer.will_close:
            connection.close()
        else:
            self._idle.put(connection)
        return Passed(answer.status, found, content, bare)


def of_connection(headers: Headers) -> set[bytes]:
    """The headers of one connection alone that its `Connection` names (RFC 9110, 7.6.1).

    >>> sorted(of_connection([(b"connection", b"close, X-Secret"), (b"x-secret", b"1")]))
    [b'close', b'x-secret']
    """
    named = (
        name for key, value in headers if key.lower() == b"connection" for name in value.split(b",")
    )
    return {name.strip().lower() for name in named} - {b""}


def joined(headers: Headers, kept_back: Set[bytes]) -> dict[str, str]:
    """Headers as they are passed on: one that came twice as one with both values (RFC 9110, 5.3).

    >>> joined([(b"Via", b"a"), (b"host", b"b"), (b"via", b"c"), (b"cookie", b"d=1")], {b"host"})
    {'via': 'a, c', 'cookie': 'd=1'}
    """
    kept_back, found = kept_back | of_connection(headers), dict[str, str]()
    for key, value in headers:
        if key.lower() not in kept_back:
            name, said = key.lower().decode("latin-1"), value.decode("latin-1")
            between = "; " if name == "cookie" else ", "
            found[name] = f"{found[name]}{between}{said}" if name in found else said
    return found


def leaves(target: str) -> bool:
    """Whether a path has segments that lead out of it, however they are written.

    >>> [leaves(t) for t in ("/v2/../a", "/v2/%2e%2E/a", "/v2/%252e./a", "/v2/a..b/c")]
    [True, True, True, False]
    """
    while (plain := unquote(target)) != target:
        target = plain
    return any(
        part.partition(";")[0] in (".", "..") for part in target.replace("\\", "/").split("/")
    )


def _ended(connection: http.client.HTTPConnection) -> bool:
    """Whether a connection on which nothing is due has something to read: its end, or garbage."""
    if connection.sock is None:
        return True
    looking = select.poll()
    looking.register(connection.sock, select.POLLIN)
    return bool(looking.poll(0))


def _content(answer: http.client.HTTPResponse, take: Callable[[int], None]) -> bytes:
    """The body of an answer, piece by piece, so that one too large is not read to its end."""
    parts = []
    while part := answer.read(PIECE):
        take(len(part))
        parts.append(part)
    content = b"".join(parts)
    if answer.length:  # read(n), unlike read(), says nothing where the connection broke off
        raise http.client.IncompleteRead(content, answer.length)
    return content
