"""The service as an ASGI application: which path does what.

| path | what |
| --- | --- |
| ``POST /v1/events`` | one event, a list, or NDJSON; answered when they are on disk and counted |
| ``POST /v1/labels`` | whether answers were right, found out later |
| ``POST /v1/label-queue`` | the events to label next (``?n=``), with their probabilities |
| ``GET /v1/risk`` | the estimates now, by window (``?window=``) |
| ``GET /v1/history`` | readings (``?after=``, ``?after_event=``, ``?limit=``; or ``?every=``) |
| ``GET /v1/alarms`` | raised and cleared |
| ``GET /v1/tree.svg`` | the event tree now (``?window=``, ``?width=`` in pixels) |
| ``GET /v1/bundle``, ``/v1/state``, ``/v1/live`` | the bundle; the state; for the page |
| ``GET /livez``, ``/health``, ``/metrics``, ``/`` | for probes, for Prometheus, for people |
| ``/v2/…`` | passed on to the model server, if there is one |

``HEAD`` works wherever ``GET`` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, TypeVar

from roadworthy.monitor import EventError, Taken
from roadworthy.web import views
from roadworthy.web.events import Batch, Reader, Single
from roadworthy.web.guard import HEADERS, PICTURE_HEADERS, Guard, repeated
from roadworthy.web.http import (
    JSON,
    Gone,
    Headers,
    InFlight,
    Receive,
    Refused,
    Request,
    Send,
    Share,
    TooMuch,
    answer,
    as_json,
    body_of,
    drop_rest,
)
from roadworthy.web.keeper import Busy, Keeper
from roadworthy.web.lateness import LateTaken
from roadworthy.web.log import LOG
from roadworthy.web.metrics import CONTENT_TYPE, metrics_page
from roadworthy.web.pages import NARROWEST, WIDE, WIDEST, page_files, tree_picture
from roadworthy.web.sidecar import NoServer, Sidecar
from roadworthy.web.state_file import Full, Unwritable
from roadworthy.web.webhook import AlarmLog, Webhook

BODY_LIMIT = 8 << 20
IN_FLIGHT = 64 << 20
"""Bytes of posts that are held at the same time, or four of the largest; more are refused."""
LARGE = 1 << 17
"""Bytes of a post that is read in a thread, so that nobody waits for it."""
MOST_QUESTIONS = 10_000
MOST_READINGS = 50_000
LEAST_SPAN_S = 1.0
UNKNOWN_SHOWN = 10
UNKNOWN = (
    "No event with this id is known, or no longer: the label was not kept. If its event is not "
    "counted yet, send it again afterwards."
)
PROBES = ("/livez", "/health")
SVG = b"image/svg+xml; charset=utf-8"
STATE = b"application/octet-stream"
_TAKEN = b'{"accepted":%d,"repeated":%d,"late":%d,"unscored":%d,"ahead":%d}'
_TAKEN_HEADERS: Headers = [(b"content-type", JSON), (b"x-content-type-options", b"nosniff")]
"""Of answers to posts of events: many a second, and never shown by a browser."""
_JSON_HEADERS: Headers = [(b"content-type", JSON), *HEADERS]

_T = TypeVar("_T")
Answer = tuple[int, bytes, bytes]
"""Status, content type, body."""
Route = Callable[[Request, Receive], Awaitable[Answer]]


class App:
    """Routes requests; what takes long happens in the keeper's thread or the sidecar's."""

    def __init__(
        self,
        keeper: Keeper,
        guard: Guard,
        *,
        body_limit: int = BODY_LIMIT,
        sidecar: Sidecar | None = None,
        webhook: Webhook | None = None,
        alarm_log: AlarmLog | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper, self._guard, self._limit, self._ready = keeper, guard, body_limit, ready
        self._sidecar, self._webhook, self._alarm_log = sidecar, webhook, alarm_log
        self.background: list[Callable[[], Awaitable[None]]] = []
        """What runs as long as the service does."""
        if sidecar is not None:
            self.background.append(sidecar.watch)
        self._memory = InFlight(max(IN_FLIGHT, 4 * body_limit))
        self._threads = ThreadPoolExecutor(1, "reader")
        bundle = keeper.bundle
        self._reader = Reader(bundle.calibration, subject=bundle.called, bundle=bundle.id)
        self.routes: dict[tuple[str, str], Route] = {
            ("POST", "/v1/events"): self._events,
            ("POST", "/v1/labels"): self._labels,
            ("POST", "/v1/label-queue"): self._questions,
            ("GET", "/v1/risk"): self._risk,
            ("GET", "/v1/history"): self._history,
            ("GET", "/v1/alarms"): self._alarms,
            ("GET", "/v1/tree.svg"): self._tree,
            ("GET", "/v1/bundle"): self._bundle,
            ("GET", "/v1/state"): self._state,
            ("GET", "/v1/live"): self._live,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/health"): self._health,
            ("GET", "/livez"): self._livez,
        }
        self._files = page_files()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(Request(scope), receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._keeper.start()
        running = [asyncio.ensure_future(work()) for work in self.background]
        await send({"type": "lifespan.startup.complete"})
        self._ready()
        await receive()
        for work in running:
            work.cancel()
        if self._sidecar is not None:
            await self._sidecar.close()
        if self._webhook is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._webhook.close)
        await self._keeper.close()
        self._threads.shutdown(wait=False)
        await send({"type": "lifespan.shutdown.complete"})

    async def _request(self, request: Request, receive: Receive, send: Send) -> None:
        path, probe = request.path, request.path in PROBES
        refusal = repeated(request.raw_headers) or self._guard.refusal(
            request.headers, open_to_all=probe or path in self._files, probe=probe
        )
        if refusal is not None:
            more: Headers = [(b"www-authenticate", b"Bearer")] if refusal[0] == 401 else []
            await answer(send, refusal[0], as_json({"error": refusal[1]}), [*_JSON_HEADERS, *more])
            return
        try:
            if self._sidecar is not None and (path == "/v2" or path.startswith("/v2/")):
                await self._sidecar.serve(request, receive, send, self._feed)
                return
            status, kind, body = await self._route(request, receive)
            headers = PICTURE_HEADERS if kind == SVG else HEADERS
            if path == "/v1/events":
                await answer(send, status, body, _TAKEN_HEADERS)
            else:
                await answer(send, status, body, [(b"content-type", kind), *headers])
        except Gone:
            return
        except Exception as error:
            if isinstance(error, Refused) and error.status == 413:
                await drop_rest(request, receive)
            status, content, more = self._failure(error, request)
            await answer(send, status, as_json(content), [*_JSON_HEADERS, *more])

    def _failure(self, error: Exception, request: Request) -> tuple[int, dict[str, Any], Headers]:
        """Status, content and headers of the answer if something went wrong."""
        if isinstance(error, Refused):
            self._keeper.refused += request.method == "POST"
            place = {} if error.line is None else {"line": error.line}
            return error.status, {"error": str(error), **place}, []
        if isinstance(error, EventError):
            self._keeper.refused += 1
            return 400, {"error": str(error)}, []
        if isinstance(error, Full):
            return 507, {"error": str(error)}, [(b"retry-after", b"10")]
        if isinstance(error, Unwritable | Busy | TooMuch):
            return 503, {"error": str(error)}, [(b"retry-after", b"1")]
        if isinstance(error, NoServer):
            return 502, {"error": str(error)}, []
        LOG.error("%s %s failed", request.method, request.path, exc_info=error)
        return 500, {"error": "Internal error; see the log of the service."}, []

    async def _route(self, request: Request, receive: Receive) -> Answer:
        # The server leaves out the body of an answer to HEAD.
        method = "GET" if request.method == "HEAD" else request.method
        route = self.routes.get((method, request.path))
        if route is not None:
            return await route(request, receive)
        if request.path in self._files and method == "GET":
            return 200, *self._files[request.path]
        allowed = [method for method, path in self.routes if path == request.path]
        if allowed:
            message = f"{request.path} takes {' and '.join(allowed)}, not {request.method}."
            raise Refused(message, status=405)
        routes = ", ".join(f"{method} {path}" for method, path in self.routes)
        raise Refused(f"There is no {request.path}. There are {routes}, GET /.", status=404)

    @asynccontextmanager
    async def _held(self, request: Request, receive: Receive) -> AsyncIterator[bytes]:
        """The body of a post, within the memory that all posts share until they are answered."""
        share = Share(self._memory)
        try:
            body = await body_of(request, share.counted(receive), self._limit)
            if not body and b"upgrade" in request.headers:  # the parser has dropped the body
                raise Refused("Only HTTP/1.1 is supported. Send it without the header Upgrade.")
            yield body
        finally:
            share.give_back()

    async def _apart(self, body: bytes, read: Callable[[], _T]) -> _T:
        """What is read from a body; in a thread if that takes a while."""
        if len(body) <= LARGE:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    async def _events(self, request: Request, receive: Receive) -> Answer:
        now = self._keeper.clock.now()
        async with self._held(request, receive) as body:
            events = await self._apart(body, lambda: self._reader.read(body, now=now))
            taken = await self._keeper.events(events)
            return 200, JSON, self._taken(taken, events)

    def _taken(self, taken: Taken, events: Batch | Single) -> bytes:
        """What became of the events of a post, and why some were not counted with a score."""
        why = dict(taken.why) if isinstance(taken, LateTaken) else {}
        if taken.unscored:
            why["why_unscored"] = self._why_unscored(events)
        said: bytes = _TAKEN % taken
        return said if not why else said[:-1] + b"," + as_json(why)[1:]

    def _why_unscored(self, post: Batch | Single) -> str:
        calibration = self._keeper.bundle.calibration
        if isinstance(post, Single):
            return calibration.why_nowhere(1, post.scores)
        return calibration.why_nowhere(int((post.cells < 0).sum()))

    async def _feed(self, ids: Sequence[str], columns: Mapping[str, Any]) -> None:
        """Events whose scores a model server has answered with."""
        now = self._keeper.clock.now()
        await self._keeper.events(self._reader.columns(list(ids), now, columns))

    async def _labels(self, request: Request, receive: Receive) -> Answer:
        async with self._held(request, receive) as body:
            labels = await self._apart(body, lambda: self._reader.labels(body))
            found = await self._keeper.labels(labels)
        content: dict[str, Any] = {
            "taken": found.taken,
            "unknown": len(found.unknown),
            "unknown_ids": found.unknown[:UNKNOWN_SHOWN],
        }
        if found.unknown:
            content["why_unknown"] = UNKNOWN
        if found.without_probability:
            content["without_probability"] = found.without_probability
        return _json(content)

    async def _questions(self, request: Request, receive: Receive) -> Answer:
        n, window = request.whole("n", 100, MOST_QUESTIONS), self._window(request)
        found = await self._keeper.ask(lambda counting: counting.questions(n, window))
        return _json({"questions": [asdict(question) for question in found]})

    async def _risk(self, request: Request, receive: Receive) -> Answer:
        wanted = self._window(request)
        now = await self._keeper.ask(lambda counting: counting.now())
        windows = [w for w in now.windows if wanted in (None, w["window"])]
        return _json({"windows": windows, "prior": views.prior_view(self._keeper.bundle)})

    def _window(self, request: Request) -> str | None:
        wanted = request.query.get("window") or None
        try:
            return None if wanted is None else self._keeper.bundle.windows.checked(wanted)
        except ValueError as error:
            raise Refused(str(error)) from None

    async def _history(self, request: Request, receive: Receive) -> Answer:
        if request.query.get("every"):
            every = request.number("every", LEAST_SPAN_S)
            if every < LEAST_SPAN_S:
                raise Refused(f"every must be {LEAST_SPAN_S:g} seconds or more, found {every:g}.")
            spans = await self._keeper.ask(lambda counting: counting.monitor.history(every))
            return _json({"spans": [views.risk_view(span) for span in spans]})
        since, limit = _since(request), request.whole("limit", 5000, MOST_READINGS)
        # Whoever continues from somewhere gets the oldest first, and so leaves nothing out.
        onwards = any(request.query.get(name) for name in since)
        return _json(
            await self._keeper.ask(
                lambda counting: counting.history(**since, limit=limit, oldest=onwards)
            )
        )

    async def _alarms(self, request: Request, receive: Receive) -> Answer:
        return _json({"alarms": await self._keeper.ask(lambda counting: counting.file.alarms())})

    async def _tree(self, request: Request, receive: Receive) -> Answer:
        window, width = self._window(request), _width(request)
        now = await self._keeper.ask(lambda counting: counting.tree(window))
        return 200, SVG, tree_picture(self._keeper.bundle, now, width=width).encode()

    async def _bundle(self, request: Request, receive: Receive) -> Answer:
        return _json(views.bundle_view(self._keeper.bundle))

    async def _state(self, request: Request, receive: Receive) -> Answer:
        return 200, STATE, await self._keeper.ask(lambda counting: counting.monitor.to_bytes())

    async def _live(self, request: Request, receive: Receive) -> Answer:
        since, keeper = _since(request), self._keeper
        content, tree = await keeper.ask(lambda counting: counting.live(**since))
        content |= {"posts_refused": keeper.refused, "trouble": keeper.trouble}
        if request.query.get("width"):
            content["tree"] = tree_picture(keeper.bundle, tree, width=_width(request))
        return _json(content)

    async def _metrics(self, request: Request, receive: Receive) -> Answer:
        others = (self._keeper, self._webhook, self._sidecar, self._alarm_log)
        text = await self._keeper.ask(lambda counting: metrics_page(counting, *others))
        return 200, CONTENT_TYPE, text.encode()

    async def _health(self, request: Request, receive: Receive) -> Answer:
        """Whether new events reach the figures: the state is written, events are not too old."""
        keeper = self._keeper
        trouble = "The state cannot be written." if keeper.trouble else keeper.counting.late
        content = {"status": trouble or "ok", "bundle": keeper.bundle.id}
        return (503 if trouble else 200), JSON, as_json(content)

    async def _livez(self, request: Request, receive: Receive) -> Answer:
        """Whether the process works; whoever restarts it should ask this."""
        return _json({"status": "ok"})


def _since(request: Request) -> dict[str, Any]:
    """After which time and after which event readings are asked for."""
    return {
        "after": request.number("after", float("-inf")),
        "after_event": int(min(max(request.number("after_event", -1.0), -1.0), 2.0**62)),
    }


def _width(request: Request) -> int:
    return request.whole("width", WIDE, WIDEST, least=NARROWEST)


def _json(content: Any) -> Answer:
    return 200, JSON, as_json(content)
