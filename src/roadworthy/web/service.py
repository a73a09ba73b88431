"""The service put together: a bundle, its state file, and a server on one address."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import json
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.monitor import Bundle
from roadworthy.registry import not_installed
from roadworthy.store import StoreError
from roadworthy.web import ServiceError
from roadworthy.web.delivery import AlarmLog, Webhook
from roadworthy.web.guard import Guard
from roadworthy.web.kept_alarms import KeptAlarms
from roadworthy.web.ledger import Ledger
from roadworthy.web.outgoing import still_to_send
from roadworthy.web.snapshots import SNAPSHOT_BYTES

if TYPE_CHECKING:
    from roadworthy.web.app import App

EXTRA = ("uvicorn", "orjson")
"""What it cannot do without; with httptools and uvloop it is faster."""
PORT = 8321
_LOG = logging.getLogger("roadworthy.monitor")
_MALLOPT = ((-3, 1 << 18), (-1, 1 << 20), (-8, 2))
"""Blocks from 256 kB are given back at once, the heap's end from 1 MB, and two heaps do for two threads: see mallopt(3)."""


@dataclass(frozen=True)
class Settings:
    """What `roadworthy monitor` can be told."""

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
    snapshot_bytes: int = SNAPSHOT_BYTES
    """By how much the log grows before it is folded into a snapshot; a restart replays what came after it."""
    proxy: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Supervisor -> output of the server of models that is its score."""
    model: str | None = None
    """Which model of that server is the subject: NAME or NAME/VERSION; the first that has scores where nobody says."""
    ids_unique: bool = False
    """Whether requests to the server of models have ids that differ, so that the same id is the same events."""


def check_extra() -> None:
    """The web extra is installed, or the error names it."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            not_installed(
                f"`roadworthy monitor` needs {' and '.join(missing)} of the extra web", "web"
            )
        )


def build(settings: Settings, *, ready: Callable[[], None] = lambda: None) -> App:
    """The application, with its state restored."""
    check_extra()
    from roadworthy.web.app import App
    from roadworthy.web.counting import LOOK_S, Counting
    from roadworthy.web.keeper import Keeper
    from roadworthy.web.sidecar import Sidecar

    guard = Guard(host=settings.host, names=settings.names, token=settings.token)
    bundle = Bundle.load(settings.bundle)
    sidecar = None
    if settings.proxy is not None:
        outputs, own_token = _outputs(bundle, settings.outputs), settings.token is not None
        sidecar = Sidecar(
            settings.proxy,
            outputs,
            ids_unique=settings.ids_unique,
            model=settings.model,
            own_token=own_token,
        )
    log = None if settings.alarm_log is None else AlarmLog(settings.alarm_log)
    webhook = None if settings.webhook is None else Webhook(settings.webhook)
    ledger = Ledger(
        settings.state,
        bundle=bundle.id,
        content=text_of(bundle),
        max_bytes=settings.max_state_bytes,
    )
    kept = KeptAlarms(ledger, webhook=webhook is not None)
    if log is not None:
        log.start(kept.logged, ledger.unlogged)
    restored = False

    def alarmed(alarm: Mapping[str, Any]) -> None:
        # First the log, then the file, then the world: after a crash between them an alarm comes twice rather than never.
        kept.add(alarm, logged=log is None or log.write(alarm))
        if webhook is not None and restored:
            webhook.send(alarm)

    answers, snapshot_bytes = sidecar is not None, settings.snapshot_bytes
    counting = Counting(
        bundle,
        ledger,
        alarmed=alarmed,
        snapshot_bytes=snapshot_bytes,
        look_s=LOOK_S,
        answers=answers,
    )

    # An alarm that was told anew, since it had not been kept, goes out where it stood.
    untold = [{**alarm, "delivered": False} for alarm in kept.unkept]
    later = ledger.alarms() if untold else []  # what came after those, delivered or not
    known = {alarm["key"]: alarm for alarm in (*ledger.since_undelivered(), *later)}
    waiting = still_to_send(
        sorted([*known.values(), *untold], key=lambda alarm: int(alarm["event"]))
    )
    restored = True

    def remember(counting: Counting) -> None:
        if sidecar is not None:
            with contextlib.suppress(StoreError):  # then the next second
                sidecar.watched.keep(counting.ledger.keep_model)

    def besides() -> None:
        remember(counting)
        kept.catch_up()
        if log is not None:
            log.catch_up()

    keeper = Keeper(counting, besides=besides)
    if sidecar is not None:
        sidecar.trouble = counting.skipped
        sidecar.watched.changed = lambda: keeper.soon(remember)
        sidecar.watched.recall(ledger.model())

    def delivered(alarm: Mapping[str, Any]) -> None:
        with contextlib.suppress(
            RuntimeError
        ):  # the service has ended meanwhile, and sends it again after the next start
            keeper.soon(lambda counting: kept.delivered(alarm))

    if webhook is not None:
        webhook.start(delivered, waiting)
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

    steady_memory()
    listening = _bound(settings)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    app = build(settings, ready=lambda: ready(address))
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        loop="auto",
        http=protocol(app),
        ws="none",
        lifespan="on",
        proxy_headers=False,
        access_log=False,
        log_level=logging.WARNING,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    gc.freeze()  # what is here by now stays: a search through it for what nobody holds would make posts wait 15 ms
    # uvicorn ends in order and then raises the signal again; to be asked to end is no failure.
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)


def protocol(app: App) -> Any:
    """How connections speak: with a short way for small posts, or as uvicorn does it where that does not work with this one."""
    try:
        from roadworthy.web import quick_posts

        trouble = quick_posts.trouble()
    except ImportError as error:
        trouble = str(error)
    if not trouble:
        return partial(quick_posts.QuickPosts, app.short_way())
    _LOG.warning("small posts go the long way, and cost two to three times as much: %s", trouble)
    return "auto"


def steady_memory() -> bool:
    """Have the C library give large blocks back at once; False where it is not glibc.

    glibc raises the size from which a block is given back whenever one is; what a snapshot takes for a moment then comes from the
    heap, and leaves holes in it: over 15 million events the process grew by a half.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(setting, value) for setting, value in _MALLOPT)


def _bound(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server(
            (settings.host, settings.port), family=family, backlog=2048, reuse_port=False
        )
    except OSError as error:
        raise OSError(
            f"cannot listen on {settings.host} port {settings.port} ({error.strerror or error}); give another --port, or 0 "
            "for any that is free"
        ) from error


def _outputs(bundle: Bundle, given: Mapping[str, str]) -> dict[str, str]:
    """Which output of the server is which score; by the same name where nothing else is said."""
    from roadworthy.registry import did_you_mean

    names = bundle.calibration.names
    for name in given:
        if name not in names:
            raise ServiceError(
                f"--score {name}: the bundle has no such score{did_you_mean(name, names)}; it reads {', '.join(names)}"
            )
    return {name: given.get(name, name) for name in names}
