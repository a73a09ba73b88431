"""A bundle that compiles in a moment, streams of its events, and the service in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from ready_made import alarm_rule
from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Forecast, Windows
from roadworthy.monitor.bundle import expected_state
from roadworthy.web.counting import Counting
from roadworthy.web.events import Batch, Reader, Single
from roadworthy.web.service import text_of
from roadworthy.web.state_file import StateFile
from roadworthy.web.webhook import Outbox

START = 1_700_000_000.0
TOKEN = "a-secret-of-16-characters"
SUBJECT = "lesion-2.3.1"


def bundle(
    *, subject: str = SUBJECT, tolerable: float | None = 0.2, id_horizon: int = 50_000
) -> Bundle:
    """Two supervisors; an alarm whose threshold is given, since choosing it takes seconds."""
    rng = np.random.default_rng(0)
    kind, shift = np.repeat(["clean", "fog"], 800), np.repeat([0.0, 2.5], 800)
    columns = {"knn": rng.normal(shift), "energy": rng.normal(0.6 * shift)}
    calibration = fit_calibration(columns, kind, rng.random(1600) < np.repeat([0.92, 0.4], 800))
    made = Bundle(
        subject=subject,
        calibration=calibration,
        tree=accuracy_tree(),
        tolerable=tolerable,
        windows=Windows((100, 1000)),
        alarm=None if tolerable is None else alarm_rule(stride=20),
        id_horizon=id_horizon,
        lateness=3600.0,
        forecast=Forecast(0.05, 0.1, 0.07, 0.14),
        made={"notes": ["calibrated on synthetic augmentations only"]},
    )
    return replace(made, self_test=expected_state(made))


def events(
    n: int, *, first: int = 0, shifted: float = 0.0, step: float = 1.0, start: float = START
) -> list[dict[str, Any]]:
    """Events in order; `shifted` is the share drawn from fog."""
    rng = np.random.default_rng(first)
    fog = rng.random(n) < shifted
    knn, energy = rng.normal(2.5 * fog), rng.normal(1.5 * fog)
    return [
        {
            "id": f"e{first + i}",
            "time": start + step * (first + i),
            "scores": {"knn": float(knn[i]), "energy": float(energy[i])},
        }
        for i in range(n)
    ]


def state_at(path: Path, made: Bundle, **more: Any) -> StateFile:
    return StateFile(path, bundle=made.id, content=text_of(made), **more)


class Heard(Outbox):
    """An outbox that remembers what was added."""

    def __init__(self, file: StateFile) -> None:
        super().__init__(file)
        self.alarms: list[dict[str, Any]] = []

    def add(self, alarm: Any) -> None:
        self.alarms.append(dict(alarm))
        super().add(alarm)

    @property
    def kinds(self) -> list[str]:
        return [alarm["kind"] for alarm in self.alarms]


def counting_at(path: Path, made: Bundle, **more: Any) -> Counting:
    """What counts into a file; `outbox` is a `Heard`."""
    file = state_at(path, made)
    return Counting(made, file, outbox=Heard(file), **more)


def killed(counting: Counting) -> Counting:
    """The same file opened again; the one before kept no snapshot."""
    counting.file.close()
    return counting_at(counting.file.path, counting.bundle)


def batch_of(items: list[dict[str, Any]], made: Bundle, *, now: float = START) -> Batch:
    body = json.dumps(items).encode()
    found = Reader(made.calibration, subject=made.subject).read(body, now=now)
    assert isinstance(found, Batch)
    return found


def single_of(item: dict[str, Any], made: Bundle, *, now: float = START) -> Single:
    found = Reader(made.calibration, subject=made.subject).read(json.dumps(item).encode(), now=now)
    assert isinstance(found, Single)
    return found


def ndjson(items: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(item) for item in items).encode()


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Service:
    """A service that runs."""

    process: subprocess.Popen[str]
    address: str
    state: Path

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                method, path, body, {k.replace("_", "-"): v for k, v in headers.items()}
            )
            answer = connection.getresponse()
            return Reply(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        reply = self.ask("GET", path, **headers)
        assert reply.status == 200, reply.body
        return reply.json

    def post(self, items: Any, path: str = "/v1/events", **headers: str) -> Reply:
        body = (
            ndjson(items)
            if isinstance(items, list)
            else items
            if isinstance(items, bytes)
            else json.dumps(items).encode()
        )
        return self.ask("POST", path, body, **headers)

    def counted(self) -> int:
        taken = self.get("/v1/live")["total"]
        return int(taken["accepted"] + taken["unscored"])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


OFTEN = """
import sys
from pathlib import Path
from roadworthy.web.service import Settings, serve
settings = Settings(Path(sys.argv[1]), Path(sys.argv[2]), port=0, snapshot_bytes=int(sys.argv[3]))
serve(settings, ready=lambda address: print('{"address": "%s"}' % address, flush=True))
"""


def start(
    bundle_path: Path,
    state: Path,
    *options: str,
    snapshot_bytes: int | None = None,
    program: str = "",
    **environment: str,
) -> Service:
    """`roadworthy monitor`, ready; or a `program` that gets the paths of bundle and state.

    With `snapshot_bytes` it keeps snapshots far more often.
    """
    command = [
        *(
            "-m",
            "roadworthy.cli",
            "monitor",
            str(bundle_path),
            "--state",
            str(state),
            "--port",
            "0",
            "--json",
        ),
        *options,
    ]
    if snapshot_bytes is not None:
        command = ["-c", OFTEN, str(bundle_path), str(state), str(snapshot_bytes)]
    if program:
        command = ["-c", program, str(bundle_path), str(state)]
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
    )
    assert process.stdout is not None and process.stderr is not None
    text = ""
    while not text.rstrip().endswith("}"):
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the service did not start: {process.stderr.read()}")
        text += line
    return Service(process, json.loads(text)["address"], state)


@contextmanager
def serving(bundle_path: Path, state: Path, *options: str, **more: Any) -> Iterator[Service]:
    service = start(bundle_path, state, *options, **more)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()
        for stream in (service.process.stdout, service.process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on loopback whose requests are answered by this; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def until(condition: Any, *, seconds: float = 60.0) -> Any:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")
