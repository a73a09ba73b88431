"""Large posts are read apart from the event loop, and all together within bounds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from monitored import START, events, ndjson

from roadworthy.web.app import LARGE, App
from roadworthy.web.service import Settings, build


@pytest.fixture
def app(bundle_path, tmp_path) -> Iterator[App]:
    yield build(Settings(bundle_path, tmp_path / "s.sqlite", body_limit=1 << 20))


async def asked(
    app: App, path: str, *parts: bytes, pause: asyncio.Event | None = None
) -> tuple[int, Any]:
    """An ASGI request whose body comes in parts; the last one when `pause` is over."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if len(left) == 1 and pause is not None:
            await pause.wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
    }
    await app({**scope, "headers": [(b"host", b"localhost")]}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def running(app: App, work: Any) -> Any:
    async def run() -> Any:
        app._keeper.start()
        try:
            return await work
        finally:
            await app._keeper.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("n", "apart"), [(5, False), (2000, True)])
def test_a_large_post_is_read_in_a_thread_of_its_own(app, monkeypatch, n, apart):
    readers: list[threading.Thread] = []
    real = app._reader.read

    def read(body: bytes, *, now: float) -> Any:
        readers.append(threading.current_thread())
        return real(body, now=now)

    monkeypatch.setattr(app._reader, "read", read)
    body = ndjson([*events(n), {"id": "without a time", "scores": {"knn": 0.1, "energy": 0.2}}])
    assert (len(body) > LARGE) == apart
    status, found = running(app, asked(app, "/v1/events", body))
    assert status == 200 and found["accepted"] + found["late"] == n + 1
    assert (readers[0] is not threading.main_thread()) == apart


def test_what_is_wrong_with_a_large_post_is_said_as_of_a_small_one(app):
    body = ndjson([*events(2000), {"id": "no score"}])
    status, found = running(app, asked(app, "/v1/events", body))
    assert status == 400 and found["line"] == 2001
    assert app._keeper.refused == 1


def test_labels_are_read_apart_too(app):
    body = json.dumps([{"id": f"e{i}", "correct": True} for i in range(5000)]).encode()
    status, found = running(app, asked(app, "/v1/labels", body))
    assert status == 200 and found.pop("why_unknown")
    assert found == {"taken": 0, "unknown": 5000, "unknown_ids": [f"e{i}" for i in range(10)]}


def test_unfinished_posts_are_held_up_to_a_number_of_bytes(app):
    app._memory.most = 600_000
    small = ndjson(events(1, start=START))

    async def posts() -> list[tuple[int, Any]]:
        pause = asyncio.Event()
        held = asyncio.ensure_future(asked(app, "/v1/events", b" " * 500_000, small, pause=pause))
        await asyncio.sleep(0.01)
        refused = await asked(app, "/v1/events", b" " * 200_000, small)
        also = await asked(app, "/v1/labels", b" " * 200_000, b"[]")
        fits = await asked(app, "/v1/events", ndjson(events(1, first=5)))
        pause.set()
        return [await held, refused, also, fits]

    held, refused, also, fits = running(app, posts())
    assert (
        held[0] == fits[0] == 200
        and refused[0] == also[0] == 503
        and "Send it again" in refused[1]["error"]
    )
    assert app._memory.used == 0
