"""In front of a server that speaks the Open Inference Protocol v2: requests go through, scores in the answers are counted.

The model server must give the supervisors' scores among its outputs, one number a row. Its clients wait for nothing but the
server: events are counted after the answer has gone out, and what cannot be read or is too much is counted as such and goes
without. A score that is infinite, or whose output is not there, is a missing one: its row is an event all the same. Answers
are asked for as they are, without compression. A row's event is the answer's ``id`` where there is one (the protocol has servers
give back that of the request, which is not read itself: it may be large), a number of its own, and the number of the row: the
protocol does not ask clients for ids that differ, and rows of the same name would be one event. Where they do differ
(``ids_unique``) the number is left out, and a request that is sent again is the same events. A server may have other models and
versions: their answers are passed on, and are no events.
"""

from __future__ import annotations

import asyncio
import http.client
import select
import uuid
from collections.abc import Awaitable, Callable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import count
from queue import Empty, SimpleQueue
from urllib.parse import unquote

import numpy as np

from roadworthy.store import StoreError
from roadworthy.subject.adapters.inference_protocol import MalformedAnswer
from roadworthy.web import ServiceError
from roadworthy.web.addresses import address_of, without_password
from roadworthy.web.answer_scores import Passed, encoding_of, scores_of
from roadworthy.web.answers import Answers
from roadworthy.web.events import Refused, writable
from roadworthy.web.http_io import Headers, Receive, Request, Send, answer, body_of
from roadworthy.web.in_flight import InFlight, Share
from roadworthy.web.remarks import Remarks
from roadworthy.web.watched_model import Model, WatchedModel, asked_of

TIMEOUT_S = 60.0
BODY_LIMIT = 256 << 20
AT_ONCE = 64
"""Requests that wait for the server of models at the same time."""
IN_FLIGHT = 512 << 20
"""Bytes of requests and answers that are held at the same time; a request beyond them is to be sent again later."""
REQUEST_BYTES = 16 << 10
"""What a request takes beside its body."""
PIECE = 1 << 20
LARGE = 1 << 18
"""Bytes of an answer that is read in a thread, so that nobody waits for it."""
LONGEST_NAME = 140
"""Of a request's id within that of an event; a longer one is cut, and known by its hash."""
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade "
    b"host content-length expect".split()
)
"""Headers that concern one connection alone (RFC 9110, 7.6.1), and those that the next one makes itself."""
RESENT = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that may reach a server twice."""

Feed = Callable[[list[str], Mapping[str, np.ndarray]], Awaitable[None]]
"""Takes ids of events and columns of their scores."""


class NoServer(Exception):
    """The server of models did not answer."""


@dataclass
class Sidecar:
    """The server behind, and which of its outputs are scores: supervisor -> output."""

    address: str
    outputs: Mapping[str, str]
    timeout_s: float = TIMEOUT_S
    ids_unique: bool = False
    """Whether no two requests have the same id, unless one is the other sent again."""
    model: str | None = None
    """Whose answers are counted, NAME or NAME/VERSION; where nobody says, the first that has scores."""
    own_token: bool = False
    """Whether requests carry this service's token, which is not for the server behind."""
    in_flight: int = IN_FLIGHT
    unread: int = 0
    """Answers in which no scores were found."""
    lost: int = 0
    """Answers whose scores could not be written."""
    others: int = 0
    """Answers of models and versions that are another subject."""
    told: Callable[[str], object] = lambda reason: None
    """Hears why most answers are lately not counted, whenever that changes; empty where they are."""
    trouble: str = ""
    """What was told last; what was told before a restart holds until enough answers have come."""
    _idle: SimpleQueue[http.client.HTTPConnection] = field(default_factory=SimpleQueue, repr=False)
    _feeding: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        try:
            self._place = address_of(self.address)
            if self._place.authorization:
                raise ValueError(
                    "it has a user in it, and what clients send as Authorization goes through"
                )
        except ValueError as error:
            raise ServiceError(
                f"--proxy {without_password(self.address)!r} is no server address: {error}; write it as in http://127.0.0.1:8000"
            ) from None
        self._prefix = self._place.prefix
        self._remark, self._answers = Remarks(), Answers()
        self.watched = WatchedModel(self.model)
        self._threads = ThreadPoolExecutor(AT_ONCE, "sidecar")
        self._room = InFlight(self.in_flight)
        self._kept_back = (
            HOP_BY_HOP | {b"accept-encoding"} | ({b"authorization"} if self.own_token else set())
        )
        self._start, self._numbers = uuid.uuid4().hex[:16], count()

    async def serve(self, request: Request, receive: Receive, send: Send, feed: Feed) -> None:
        """Pass a request on and its answer back, then feed the scores in it to the monitor."""
        if leaves(request.scope["raw_path"].decode("latin-1")):
            raise Refused(
                f"{request.path} leaves /v2, and nothing else of the server of models is passed on"
            )
        share = self._room.share()
        try:
            share.take(REQUEST_BYTES)
            passed = await self._passed(request, receive, share)
            await answer(send, passed.status, passed.body, passed.headers, sized=not passed.bare)
        except BaseException:
            share.give_back()
            raise
        if request.method == "POST" and request.path.endswith("/infer") and passed.status == 200:
            feeding = self._feed(passed, asked_of(request.path), feed, share.take)
            task = asyncio.get_running_loop().create_task(feeding)
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

    async def _feed(
        self, passed: Passed, asked: Model, feed: Feed, take: Callable[[int], None]
    ) -> None:
        """Count the scores of an answer that has gone out; whatever goes wrong here concerns no client."""
        if not self.watched.may_be(asked):
            self._leave_out(asked, None)
            return
        try:
            reading = partial(scores_of, passed, self.outputs, take)
            if len(passed.body) > LARGE or encoding_of(passed):
                found = await asyncio.get_running_loop().run_in_executor(self._threads, reading)
            else:
                found = reading()
            name, rows = self._name(found.id), len(next(iter(found.columns.values())))
            if not rows:
                return
            if not self.watched.counts(asked, found.version):
                self._leave_out(asked, found.version)
                return
            await feed([f"{name}/{row}" for row in range(rows)], found.columns)
        except MalformedAnswer as error:
            self.unread += 1
            self._remark(f"an answer of the server of models was not counted: {error}")
            self._judge(str(error))
        except Exception as error:
            self.lost += 1
            self._remark(
                f"the events of an answer of the server of models were not written: {error}"
            )
            # That the state cannot be written says nothing about answers, and is said elsewhere as long as it lasts.
            if not isinstance(error, StoreError):
                self._judge(f"its events were not written ({error})")
        else:
            if found.lacking:
                self._remark(
                    f"an answer of the server of models lacks scores: {'; '.join(found.lacking)}"
                )
            self._judge("")

    def _leave_out(self, asked: Model, version: str | None) -> None:
        """An answer is another subject's, unless it is missing here."""
        self.others += 1
        if why := self.watched.lost(asked, version):
            self._judge(why)

    def _judge(self, why: str) -> None:
        """An answer was counted, or was not and why; tell whether most are."""
        self._answers.add(why)
        if self._answers.known and (trouble := self._answers.trouble) != self.trouble:
            self.trouble = trouble
            self.told(trouble)

    def _name(self, given: str | None) -> str:
        """What the events of an answer are called."""
        own = f"{self._start}-{next(self._numbers)}"
        if given is None or not writable(given):
            if self.ids_unique:
                self._remark(
                    "an answer of the server of models has no id: sent again it counts again, in spite of --ids-unique"
                )
            return own
        if len(given) > LONGEST_NAME:
            given = (
                f"{given[: LONGEST_NAME - 17]}~{blake2b(given.encode(), digest_size=8).hexdigest()}"
            )
        return given if self.ids_unique else f"{given}/{own}"

    def ask(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes,
        take: Callable[[int], None] = lambda size: None,
    ) -> Passed:
        """Send a request on; blocks until the answer is there. `take` is told of its bytes as they come."""
        sent = joined(headers, self._kept_back)
        sent["Accept-Encoding"] = "identity"  # the scores are read from the answer
        connection = self._kept()
        try:
            if connection is not None and method in RESENT:
                # Whether the server has had it, nobody can tell: a POST is its client's to repeat.
                with suppress(ConnectionResetError, BrokenPipeError):
                    return self._exchange(connection, method, target, sent, body, take)
                connection = None
            return self._exchange(connection or self._connect(), method, target, sent, body, take)
        except (OSError, http.client.HTTPException) as error:
            raise NoServer(self._what_happened(error)) from error

    def _what_happened(self, error: Exception) -> str:
        """Why there is no answer."""
        match error:
            case ConnectionResetError() | BrokenPipeError():
                return f"the server at {self.address} closed the connection ({error})"
            case TimeoutError():
                return f"the server at {self.address} did not answer within {self.timeout_s:g} s"
            case http.client.IncompleteRead():
                return f"the server at {self.address} broke off its answer"
            case http.client.HTTPException():
                said = f"{type(error).__name__}: {error}".strip()
                return f"the server at {self.address} answered with what is not HTTP ({said})"
        return f"there is no server at {self.address} ({error})"

    async def close(self) -> None:
        """Let what is being counted be counted, and threads and connections go."""
        if self._feeding:
            await asyncio.wait(tuple(self._feeding), timeout=2.0)
        self._threads.shutdown(wait=False, cancel_futures=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _connect(self) -> http.client.HTTPConnection:
        return self._place.connection(self.timeout_s)

    def _kept(self) -> http.client.HTTPConnection | None:
        """A connection that stayed open; those that the server has let go are passed over."""
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
            answer = _past_interim(connection.getresponse())
            content = _content(answer, take)
        except BaseException:
            connection.close()
            raise
        headers_back = [
            (k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in answer.getheaders()
        ]
        own = (
            HOP_BY_HOP | {b"date"} | of_connection(headers_back)
        )  # the service dates all its answers
        found = [(name, value) for name, value in headers_back if name not in own]
        bare = method == "HEAD" or answer.status in (204, 304)
        if method == "HEAD" and (length := answer.headers.get("Content-Length", "")).isdecimal():
            found.append((b"content-length", length.encode("latin-1")))
        if answer.will_close:
            connection.close()
        else:
            self._idle.put(connection)
        return Passed(answer.status, found, content, bare)


def of_connection(headers: Headers) -> set[bytes]:
    """The headers that concern one connection alone because its `Connection` names them (RFC 9110, 7.6.1).

    >>> sorted(of_connection([(b"connection", b"close, X-Secret"), (b"x-secret", b"1")]))
    [b'close', b'x-secret']
    """
    named = (
        name for key, value in headers if key.lower() == b"connection" for name in value.split(b",")
    )
    return {name.strip().lower() for name in named} - {b""}


def joined(headers: Headers, kept_back: Set[bytes]) -> dict[str, str]:
    """Headers as they are passed on: one that came more than once as one with all its values (RFC 9110, 5.3; 6265, 5.4).

    >>> joined([(b"Via", b"a"), (b"host", b"b"), (b"via", b"c"), (b"cookie", b"d=1"), (b"cookie", b"e=2")], {b"host"})
    {'via': 'a, c', 'cookie': 'd=1; e=2'}
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

    >>> [leaves(t) for t in ("/v2/../a", "/v2/%2e%2E/a", "/v2/%252e./a", "/v2/a%2f..", "/v2/..;x/a", "/v2/./a", "/v2/a..b/c.d")]
    [True, True, True, True, True, True, False]
    """
    while (plain := unquote(target)) != target:
        target = plain
    return any(
        part.partition(";")[0] in (".", "..") for part in target.replace("\\", "/").split("/")
    )


def _ended(connection: http.client.HTTPConnection) -> bool:
    """Whether something came on a connection on which nothing is due: its end, or what nobody asked for."""
    if connection.sock is None:
        return True
    looking = select.poll()
    looking.register(connection.sock, select.POLLIN)
    return bool(looking.poll(0))


def _past_interim(answer: http.client.HTTPResponse) -> http.client.HTTPResponse:
    """The answer itself, where others come before it (RFC 9110, 15.2): http.client passes over 100 alone.

    What it has read ahead may hold the beginning of the next, so that the same response is to read on.
    """
    while answer.status < 200:
        answer.headers = None  # type: ignore[assignment]  # it would take itself for begun
        answer.begin()
    return answer


def _content(answer: http.client.HTTPResponse, take: Callable[[int], None]) -> bytes:
    """The body of an answer, read piece by piece, so that one that is too large is not read to its end."""
    parts = []
    while part := answer.read(PIECE):
        take(len(part))
        parts.append(part)
    content = b"".join(parts)
    if answer.length:  # read(n), unlike read(), says nothing where the connection broke off
        raise http.client.IncompleteRead(content, answer.length)
    return content
