"""The service as an ASGI application: which path does what.

| path | what |
| --- | --- |
| ``POST /v1/events`` | one event, a list, or one a line; answered when they are on disk and counted |
| ``POST /v1/labels`` | what somebody found out about events later |
| ``POST /v1/label-queue`` | the events to label next (``?n=``), with the probabilities with which they were drawn |
| ``GET /v1/risk`` | now, by window (``?window=``) |
| ``GET /v1/history`` | readings (``?after=``, ``?after_event=``, ``?limit=``), or all time in spans of seconds (``?every=``) |
| ``GET /v1/alarms`` | raised and cleared |
| ``GET /v1/tree.svg`` | the event tree with the numbers of now (``?window=``, ``?width=`` in pixels) |
| ``GET /v1/bundle``, ``/v1/state``, ``/v1/live`` | what it was calibrated on; the state for merging; what the page asks for |
| ``GET /health``, ``/metrics``, ``/`` | for probes, for Prometheus, for people |
| ``/v2/…`` | passed on to the server of models, where there is one |

Whatever is asked for with ``GET`` may be asked for with ``HEAD``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar

from roadworthy.monitor import EventError
from roadworthy.report.charts.palette import css
from roadworthy.web import views
from roadworthy.web.batch import why_unscored
from roadworthy.web.delivery import AlarmLog, Webhook
from roadworthy.web.events import Reader, Refused
from roadworthy.web.guard import HEADERS, PICTURE_HEADERS, Guard, repeated
from roadworthy.web.http_io import (
    JSON,
    TAKEN_HEADERS,
    Gone,
    Headers,
    Receive,
    Request,
    Send,
    answer,
    as_json,
    body_of,
    drop_rest,
    taken_words,
)
from roadworthy.web.in_flight import InFlight, TooMuch
from roadworthy.web.keeper import Busy, Keeper
from roadworthy.web.label_posts import labels_of
from roadworthy.web.ledger import Full, Unwritable
from roadworthy.web.left_out import LeftOut
from roadworthy.web.merged_model import state_type
from roadworthy.web.metrics import CONTENT_TYPE
from roadworthy.web.metrics_page import metrics_page
from roadworthy.web.sidecar import NoServer, Sidecar
from roadworthy.web.tree_picture import NARROWEST, WIDE, WIDEST, tree_now, tree_picture

if TYPE_CHECKING:
    from roadworthy.web.quick_posts import ShortWay

BODY_LIMIT = 8 << 20
IN_FLIGHT = 64 << 20
"""Bytes of posts that are held at the same time, or four of the largest; a post beyond them is to be sent again later."""
LARGE = 1 << 17
"""Bytes of a post that is read in a thread, so that nobody waits for it."""
MOST_QUESTIONS = 10_000
MOST_READINGS = 50_000
LEAST_SPAN_S = 1.0
UNKNOWN_SHOWN = 10
UNKNOWN = (
    "no event of this id is counted yet, or it is no longer among the last ones: the label was not kept; send it again once "
    "its event is counted, or with the cell and the time of an old one"
)
"""Of labels."""
_LOG = logging.getLogger("roadworthy.monitor")
_JSON_HEADERS: Headers = [(b"content-type", JSON), *HEADERS]
SVG = b"image/svg+xml; charset=utf-8"
_TYPES = {"js": b"text/javascript", "css": b"text/css", "html": b"text/html; charset=utf-8"}

_T = TypeVar("_T")
Answer = tuple[int, bytes, bytes]
"""Status, content type, body."""


class App:
    """Routes requests; everything that takes long happens in the keeper's thread or the sidecar's."""

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
        if sidecar is not None:
            sidecar.told = lambda reason: keeper.soon(
                lambda counting: counting.hear_of_skipped(reason)
            )
        self._room = InFlight(max(IN_FLIGHT, 4 * body_limit))
        self._readers = ThreadPoolExecutor(1, "reader")
        self._reader = Reader(keeper.bundle.calibration, subject=keeper.bundle.called)
        self._routes: dict[tuple[str, str], Callable[[Request, Receive], Awaitable[Answer]]] = {
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
        }
        self._files = _files()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(Request(scope), receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._keeper.start()
        await send({"type": "lifespan.startup.complete"})
        self._ready()
        await receive()
        if self._sidecar is not None:
            await self._sidecar.close()
        if self._webhook is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._webhook.close)
        await self._keeper.close()
        self._readers.shutdown(wait=False)
        await send({"type": "lifespan.shutdown.complete"})

    async def _request(self, request: Request, receive: Receive, send: Send) -> None:
        path = request.path
        open_to_all = path in self._files or path == "/health"
        refusal = repeated(request.raw_headers) or self._guard.refusal(
            request.headers, open_to_all=open_to_all, probe=path == "/health"
        )
        if refusal is not None:
            more: Headers = [(b"www-authenticate", b"Bearer")] if refusal[0] == 401 else []
            await answer(send, refusal[0], as_json({"error": refusal[1]}), [*_JSON_HEADERS, *more])
            return
        try:
            if path == "/v1/events" and request.method == "POST":
                await answer(send, 200, await self._events(request, receive), TAKEN_HEADERS)
            elif self._sidecar is not None and (path == "/v2" or path.startswith("/v2/")):
                await self._sidecar.serve(request, receive, send, self._feed)
            else:
                status, kind, body = await self._route(request, receive)
                headers = PICTURE_HEADERS if kind == SVG else HEADERS
                await answer(send, status, body, [(b"content-type", kind), *headers])
        except Gone:
            return
        except Exception as error:
            if isinstance(error, Refused) and error.status == 413:
                await drop_rest(request, receive)
            await answer(send, *self._trouble(error, request.method, path))

    def short_way(self) -> ShortWay:
        """The way of small posts past the application, for the connections of a server."""
        from roadworthy.web.quick_posts import ShortWay

        return ShortWay(
            self._keeper,
            self._reader.read,
            allowed=lambda headers: self._guard.refusal(headers) is None,
            trouble=lambda error: self._trouble(error, "POST", "/v1/events"),
            body_limit=self._limit,
        )

    def _trouble(self, error: Exception, method: str, path: str) -> tuple[int, bytes, Headers]:
        """What to answer where something went wrong: status, body, headers."""
        status, content, headers = self._said(error, method, path)
        return status, as_json(content), [*_JSON_HEADERS, *headers]

    def _said(
        self, error: Exception, method: str, path: str
    ) -> tuple[int, dict[str, Any], Headers]:
        if isinstance(error, Refused):
            self._keeper.refused += method == "POST"
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
        _LOG.error("%s %s failed", method, path, exc_info=error)
        return 500, {"error": "this is a fault of the service; its log says where"}, []

    async def _events(self, request: Request, receive: Receive) -> bytes:
        async with self._held(request, receive) as body:
            events = await self._apart(
                body, lambda: self._reader.read(body, now=self._keeper.clock.now())
            )
            taken = await self._keeper.events(events)
            unscored = (
                why_unscored(events, self._keeper.bundle.calibration) if taken.unscored else ""
            )
            why = dict(taken.why) if isinstance(taken, LeftOut) else {}
            return taken_words(taken, {**why, "why_unscored": unscored} if unscored else why)

    @asynccontextmanager
    async def _held(self, request: Request, receive: Receive) -> AsyncIterator[bytes]:
        """The body of a post, within the room that all posts share until they are answered."""
        share = self._room.share()
        try:
            body = await body_of(request, share.counted(receive), self._limit)
            if (
                not body and b"upgrade" in request.headers
            ):  # a parser has taken it for another protocol
                raise Refused(
                    "this service speaks HTTP/1.1 alone, and reads no body after Upgrade; send it without"
                )
            yield body
        finally:
            share.give_back()

    async def _apart(self, body: bytes, read: Callable[[], _T]) -> _T:
        """What is read of a body; in a thread where that takes a while."""
        if len(body) <= LARGE:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def _feed(self, ids: list[str], columns: Mapping[str, Any]) -> None:
        """Events whose scores a server of models has answered with."""
        await self._keeper.events(self._reader.columns(ids, self._keeper.clock.now(), columns))

    async def _route(self, request: Request, receive: Receive) -> Answer:
        method = (
            "GET" if request.method == "HEAD" else request.method
        )  # the server leaves its body out
        route = self._routes.get((method, request.path))
        if route is not None:
            return await route(request, receive)
        if request.path in self._files and method == "GET":
            return 200, *self._files[request.path]
        allowed = [
            method
            for method, path in (*self._routes, ("POST", "/v1/events"))
            if path == request.path
        ]
        if allowed:
            raise Refused(
                f"{request.path} takes {' and '.join(allowed)}, not {request.method}", status=405
            )
        raise Refused(f"there is no {request.path} here; there are {self._addresses()}", status=404)

    def _addresses(self) -> str:
        """What can be asked for, in one line."""
        routes = [("POST", "/v1/events"), *self._routes, ("GET", "/ (the live page)")]
        return ", ".join(f"{method} {path}" for method, path in routes)

    async def _labels(self, request: Request, receive: Receive) -> Answer:
        bundle = self._keeper.bundle
        ours: dict[str, Any] = {
            "cells": bundle.calibration.cells,
            "subject": bundle.called,
            "bundle": bundle.id,
        }
        async with self._held(request, receive) as body:
            found = await self._keeper.labels(
                await self._apart(body, lambda: labels_of(body, **ours))
            )
        said = {
            "taken": found.taken,
            "unknown": len(found.unknown),
            "unknown_ids": found.unknown[:UNKNOWN_SHOWN],
        }
        why = {"why_unknown": UNKNOWN} if found.unknown else {}
        sure = found.without_probability
        return _json({**said, **why, **({"without_probability": sure} if sure else {})})

    async def _questions(self, request: Request, receive: Receive) -> Answer:
        n, window = request.whole("n", 100, MOST_QUESTIONS), self._window(request)
        found = await self._keeper.ask(lambda counting: counting.questions(n, window))
        return _json({"questions": [asdict(question) for question in found]})

    async def _risk(self, request: Request, receive: Receive) -> Answer:
        wanted = self._window(request)
        found = await self._keeper.ask(lambda counting: counting.windows())
        prior = views.prior_view(self._keeper.bundle)
        return _json(
            {"windows": [w for w in found if wanted in (None, w["window"])], "prior": prior}
        )

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
                raise Refused(f"every must be {LEAST_SPAN_S:g} seconds or more, found {every:g}")
            spans = await self._keeper.ask(lambda counting: counting.monitor.history(every))
            return _json({"spans": [views.risk_view(span) for span in spans]})
        since, limit = _since(request), request.whole("limit", 5000, MOST_READINGS)
        onwards = any(
            request.query.get(name) for name in since
        )  # who goes on from somewhere leaves nothing out
        await self._keeper.catch_up()
        found = await self._keeper.ask(
            lambda counting: counting.history(**since, limit=limit, oldest=onwards)
        )
        return _json(found)

    async def _alarms(self, request: Request, receive: Receive) -> Answer:
        return _json({"alarms": await self._keeper.ask(lambda counting: counting.ledger.alarms())})

    async def _tree(self, request: Request, receive: Receive) -> Answer:
        window, width = self._window(request), request.whole("width", WIDE, WIDEST)
        if width < NARROWEST:
            raise Refused(f"width must be {NARROWEST} pixels or more, found {width}")
        now = await self._keeper.ask(
            lambda counting: tree_now(counting.monitor, window, late=counting.uncounted)
        )
        return 200, SVG, tree_picture(self._keeper.bundle, now, width=width).encode()

    async def _bundle(self, request: Request, receive: Receive) -> Answer:
        return _json(views.bundle_view(self._keeper.bundle))

    async def _state(self, request: Request, receive: Receive) -> Answer:
        model, body = await self._keeper.ask(
            lambda counting: (counting.ledger.model(), counting.monitor.to_bytes())
        )
        return 200, state_type(model), body

    async def _live(self, request: Request, receive: Receive) -> Answer:
        since, keeper = _since(request), self._keeper
        said = await keeper.ask(lambda counting: counting.live(**since))
        return _json({**said, "posts_refused": keeper.refused, "trouble": keeper.trouble})

    async def _metrics(self, request: Request, receive: Receive) -> Answer:
        text = await self._keeper.ask(
            lambda counting: metrics_page(
                counting, self._keeper, self._webhook, self._sidecar, self._alarm_log
            )
        )
        return 200, CONTENT_TYPE, text.encode()

    async def _health(self, request: Request, receive: Receive) -> Answer:
        trouble = (
            "the state cannot be written"
            if self._keeper.trouble
            else self._keeper.counting.uncounted
        )
        content = {"status": trouble or "ok", "bundle": self._keeper.bundle.id}
        return (503 if trouble else 200), JSON, as_json(content)


def _since(request: Request) -> dict[str, Any]:
    """After which time and after which event readings are asked for."""
    return {
        "after": request.number("after", float("-inf")),
        "after_event": int(min(max(request.number("after_event", -1.0), -1.0), 2.0**62)),
    }


def _json(content: Any) -> Answer:
    return 200, JSON, as_json(content)


def _files() -> dict[str, tuple[bytes, bytes]]:
    """What the page is made of: path -> content type and content. It holds no data, so that anybody may read it."""
    folder = resources.files("roadworthy.web") / "assets"
    names = (
        "uplot.js",
        "uplot.css",
        "elements.js",
        "numbers.js",
        "charts.js",
        "page.js",
        "tree.js",
        "page.css",
        "uplot.LICENSE.txt",
    )
    files = {
        f"/assets/{n}": (_TYPES.get(n.rsplit(".", 1)[1], b"text/plain"), (folder / n).read_bytes())
        for n in names
    }
    files["/assets/palette.css"] = (_TYPES["css"], css().encode())
    files["/"] = (_TYPES["html"], (folder / "page.html").read_bytes())
    return files
