"""The service put together: a bundle, its state file, and a server on one address."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import json
import logging
import resource
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roadworthy.monitor import Bundle
from roadworthy.registry import did_you_mean, not_installed
from roadworthy.web import ServiceError
from roadworthy.web.guard import Guard
from roadworthy.web.state_file import StateFile
from roadworthy.web.webhook import Alarm, AlarmLog, Outbox, Webhook

if TYPE_CHECKING:
    from roadworthy.web.app import App
    from roadworthy.web.sidecar import Sidecar

EXTRA = ("uvicorn", "httptools", "orjson")
"""What it cannot do without; with uvloop it is faster."""
PORT = 8321
DESCRIPTORS = 4096
"""Open files that are wanted: connections have one each."""
_MALLOPT = ((-3, 1 << 18), (-1, 1 << 20), (-8, 2))
"""Blocks from 256 kB are given back at once, the heap's end from 1 MB; see mallopt(3)."""


@dataclass(frozen=True)
class Settings:
    """The settings of `roadworthy monitor`."""

    bundle: Path
    state: Path
    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    names: tuple[str, ...] = ()
    body_limit: int = 8 << 20
    max_state_bytes: int | None = None
    webhook: str | None = None
    alarm_log: Path | None = None
    snapshot_bytes: int | None = None
    """By how much the log grows before the next snapshot; a restart replays what came after it."""
    proxy: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Supervisor -> output of the model server that is its score."""
    model: str | None = None
    """Whose answers are counted: NAME, or NAME/versions/V."""
    ids_unique: bool = False
    """Whether requests to the model server have unique ids: the same id is the same events."""


def check_extra() -> None:
    """The web extra is installed, or the error names it."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        needs = f"`roadworthy monitor` needs {' and '.join(missing)} of the extra web"
        raise ImportError(not_installed(needs, "web"))


def build(settings: Settings, *, ready: Callable[[], None] = lambda: None) -> App:
    """The application, with its state restored."""
    check_extra()
    from roadworthy.web.app import App
    from roadworthy.web.counting import SNAPSHOT_BYTES, Counting
    from roadworthy.web.keeper import Keeper

    guard = Guard(host=settings.host, names=settings.names, token=settings.token)
    bundle = Bundle.load(settings.bundle)
    sidecar = _sidecar(bundle, settings)
    log = None if settings.alarm_log is None else AlarmLog(settings.alarm_log)
    webhook = None if settings.webhook is None else Webhook(settings.webhook)
    file = StateFile(
        settings.state,
        bundle=bundle.id,
        content=text_of(bundle),
        max_bytes=settings.max_state_bytes,
    )
    outbox = Outbox(file, webhook=webhook, log=log)
    snapshot_bytes = settings.snapshot_bytes or SNAPSHOT_BYTES
    counting = Counting(bundle, file, outbox=outbox, snapshot_bytes=snapshot_bytes)
    keeper = Keeper(counting)

    def settled(alarm: Alarm, became: int) -> None:
        with contextlib.suppress(RuntimeError):  # the service has ended: it is sent again
            keeper.soon(lambda counting: outbox.settle(alarm, became))

    if webhook is not None:
        webhook.start(settled)
    return App(
        keeper,
        guard,
        body_limit=settings.body_limit,
        sidecar=sidecar,
        webhook=webhook,
        alarm_log=log,
        ready=ready,
    )


def text_of(bundle: Bundle) -> str:
    """The bundle as it goes into the state file, which then needs no other."""
    return json.dumps({"id": bundle.id, **bundle.to_dict()}, ensure_ascii=False, allow_nan=False)


def serve(settings: Settings, *, ready: Callable[[str], None] = lambda address: None) -> None:
    """Run until SIGINT or SIGTERM; `ready` is told the address."""
    check_extra()
    import uvicorn

    from roadworthy.web.connection import LimitedConnection, close_overdue

    steady_memory()
    _raise_descriptor_limit()
    listening = _bound(settings)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    app = build(settings, ready=lambda: ready(address))
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        loop="auto",
        http=LimitedConnection,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        access_log=False,
        log_level=logging.WARNING,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    app.background.append(partial(close_overdue, server.server_state.connections))
    gc.freeze()  # a search through what is here by now would make posts wait for 15 ms
    # uvicorn ends in order and then raises the signal again; to be asked to end is no failure.
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)


def steady_memory() -> bool:
    """Have the C library give large blocks back at once; False if it is not glibc.

    glibc raises the size from which a block is given back whenever one is; what a snapshot takes
    for a moment then leaves holes in the heap: over 15 million events it grew by a half.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(setting, value) for setting, value in _MALLOPT)


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bound(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server(
            (settings.host, settings.port), family=family, backlog=2048, reuse_port=False
        )
    except OSError as error:
        raise OSError(
            f"Cannot listen on {settings.host} port {settings.port} ({error.strerror or error}). "
            "Give another --port, or 0 for any free one."
        ) from error


def _sidecar(bundle: Bundle, settings: Settings) -> Sidecar | None:
    from roadworthy.web.sidecar import Sidecar

    if settings.proxy is None:
        return None
    if settings.model is None:
        raise ServiceError(
            "--proxy needs --model NAME (or NAME/versions/V): the model whose answers are counted."
        )
    names, given = bundle.calibration.names, settings.outputs
    for name in given:
        if name not in names:
            raise ServiceError(
                f"--score {name}: the bundle has no such score{did_you_mean(name, names)}. "
                f"Scores: {', '.join(names)}."
            )
    return Sidecar(
        settings.proxy,
        {name: given.get(name, name) for name in names},
        settings.model,
        ids_unique=settings.ids_unique,
        own_token=settings.token is not None,
    )
