"""The monitor's service under load: batches, single posts against a bare endpoint, and memory over millions of events.

    python benchmarks/service.py [--seconds 20] [--rounds 5] [--million 5]

Client and service share the machine's cores; the client is a plain loop over sockets that stay open. Three tables.
*Batches*: NDJSON of 1,000 events on four connections, sent at a fixed pace of 50,000 events a second whether or not answers
have come, so that a stall counts in every answer it delays; and as fast as answers come. *Single posts*: one event each on
256 connections, in rounds that take turns with two bare ASGI endpoints under the same uvicorn settings, which read the body
and answer the same bytes: one at once, and one that has the bodies on disk first, in one SQLite transaction per 5 ms. The
service writes one synced group per 5 ms, too, and counts it. *Memory*: resident size and state file after every million
events. Wanted: 50,000 events/s with p99 under 100 ms, 5,000 single posts/s, flat memory.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

BATCH, PACE, CONNECTIONS, SINGLES = 1000, 50_000, 4, 256
SCORES = ("knn", "energy", "mahalanobis")
START = 1_700_000_000
SETTINGS = """
import asyncio, socket, sqlite3, sys, uvicorn
BODY = b'{"accepted":1,"repeated":0,"late":0,"unscored":0,"ahead":0}'
HEADERS = [(b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff")]
HEADERS.append((b"content-length", b"%d" % len(BODY)))
async def answer(send):
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})
def serve(app):
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print('{"address": "http://127.0.0.1:%d"}' % sock.getsockname()[1], flush=True)
    settings = dict(loop="uvloop", http="httptools", ws="none", lifespan="on", access_log=False, log_level="warning")
    uvicorn.Server(uvicorn.Config(app, server_header=False, **settings)).run(sockets=[sock])
"""
BARE = (
    SETTINGS
    + """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive(); await send({"type": "lifespan.startup.complete"})
        await receive(); await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await answer(send)
serve(app)
"""
)
"""Reads a body and answers."""
COMMITTING = (
    SETTINGS
    + """
db = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
for statement in ("pragma journal_mode = wal", "pragma synchronous = full", "create table log (body blob)"):
    db.execute(statement)
waiting = []
def write(bodies):
    db.execute("insert into log values (?)", (b"\\n".join(bodies),))
async def commit():
    global waiting
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        if waiting:
            group, waiting = waiting, []
            await loop.run_in_executor(None, write, [body for body, _ in group])
            for _, written in group:
                if not written.done():
                    written.set_result(None)
        await asyncio.sleep(began + 0.005 - loop.time())
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive(); await send({"type": "lifespan.startup.complete"})
        task = asyncio.ensure_future(commit())
        await receive(); await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body")
    written = asyncio.get_running_loop().create_future()
    waiting.append((body, written))
    await written
    await answer(send)
serve(app)
"""
)
"""Reads a body, and answers when SQLite has it on disk: one synced transaction of whatever has come, per 5 ms."""


class Served(NamedTuple):
    """A server that runs."""

    process: subprocess.Popen[str]
    port: int


class Load(NamedTuple):
    """What a client saw."""

    answers: int
    seconds: float
    latencies: np.ndarray
    processor: float
    """Seconds of the server's."""

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    def at(self, percent: float) -> float:
        return float(np.percentile(self.latencies, percent) * 1000)


def bundle_at(path: Path) -> None:
    """A bundle of three supervisors, calibrated on drawn scores."""
    from roadworthy.analysis.risk.calibration import fit_calibration
    from roadworthy.analysis.risk.prototypes import accuracy_tree
    from roadworthy.monitor import Bundle

    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "noise"], 2000)
    shift = np.repeat([0.0, 2.0, 1.5], 2000)
    columns = {name: rng.normal(shift * (0.6 + 0.2 * i)) for i, name in enumerate(SCORES)}
    correct = rng.random(6000) < np.repeat([0.92, 0.5, 0.6], 2000)
    calibration = fit_calibration(columns, kind, correct)
    Bundle.compile(calibration, accuracy_tree(), subject="bench-1.0", tolerable=0.15).save(path)


@contextmanager
def running(*arguments: str) -> Iterator[Served]:
    """A server in a process of its own, ended in the end."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the server did not start")
        text += line
    told = json.loads(text)
    if "address" not in told:
        raise SystemExit(f"the server did not start: {told}")
    try:
        yield Served(process, int(told["address"].rsplit(":", 1)[1]))
    finally:
        process.terminate()
        process.wait(timeout=60)


def bodies() -> Callable[[int], bytes]:
    """Batch number -> request; ids and times are new in every batch, scores repeat after eight."""
    rng = np.random.default_rng(1)
    forms = []
    for _ in range(8):
        scores = rng.normal(size=(BATCH, len(SCORES)))
        lines = (
            b'{"id":"cam3-#######-%03d","time":@@@@@@@@@@.%03d,"scores":{%s}}'
            % (
                i,
                i,
                b",".join(b'"%s":%.6f' % (n.encode(), s) for n, s in zip(SCORES, row, strict=True)),
            )
            for i, row in enumerate(scores)
        )
        forms.append(b"\n".join(lines))
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"

    def body(number: int) -> bytes:
        content = (
            forms[number % 8]
            .replace(b"#######", b"%07d" % number)
            .replace(b"@" * 10, b"%010d" % (START + number))
        )
        return head % len(content) + content

    return body


def singles() -> Callable[[int], bytes]:
    """Event number -> request; scores repeat after 997."""
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    form = b'{"id":"one-%%d","time":%%.3f,"scores":{%s}}' % b",".join(
        b'"%s":%%.6f' % n.encode() for n in SCORES
    )
    scores = np.random.default_rng(2).normal(size=(997, len(SCORES))).tolist()

    def body(number: int) -> bytes:
        content = form % (number, START + 10_000_000 + number / 1000, *scores[number % 997])
        return head % len(content) + content

    return body


def drive(
    served: Served,
    make: Callable[[int], bytes],
    *,
    first: int,
    connections: int,
    seconds: float = 1e9,
    most: int = 1 << 60,
    pace: float | None = None,
) -> Load:
    """Send on connections that stay open, each the next as soon as it has its answer; with a pace, at fixed moments."""
    sockets = {}
    poll = select.epoll()
    for _ in range(connections):
        s = socket.create_connection(("127.0.0.1", served.port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[s.fileno()] = s
        poll.register(s.fileno(), select.EPOLLIN)
    idle, due, partial = list(sockets), dict[int, float](), dict[int, bytes]()
    latencies: list[float] = []
    sent, spent, begin = 0, processor_of(served.process.pid), time.perf_counter()
    end = begin + seconds
    while len(latencies) < most:
        now = time.perf_counter()
        if now >= end:
            break
        while idle and sent < most and (pace is None or begin + sent * pace <= now):
            fd = idle.pop()
            due[fd] = now if pace is None else begin + sent * pace
            sockets[fd].sendall(make(first + sent))
            sent += 1
            now = time.perf_counter()
        wait = 1.0 if pace is None or not idle else max(0.0, begin + sent * pace - now)
        for fd, _ in poll.poll(min(wait, max(end - now, 0.0))):
            content = partial.pop(fd, b"") + sockets[fd].recv(65536)
            if not content.endswith(b"}"):
                partial[fd] = content
                continue
            if not content.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"the service answered {content!r}")
            latencies.append(time.perf_counter() - due[fd])
            idle.append(fd)
    took = time.perf_counter() - begin
    spent = processor_of(served.process.pid) - spent
    for s in sockets.values():
        s.close()
    return Load(len(latencies), took, np.array(latencies), spent)


def processor_of(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Megabytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def batches(served: Served, seconds: float) -> int:
    """The table of batches; how many were sent."""
    make = bodies()
    print(
        f"## Batches of {BATCH:,} events, {CONNECTIONS} connections, {len(make(0)):,} bytes each\n"
    )
    print(
        "| | events/s | p50, ms | p99, ms | worst, ms | server, us an event |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    drive(served, make, first=0, connections=CONNECTIONS, most=50)
    first = 50
    for name, pace in (("paced", BATCH / PACE), ("as fast as it answers", None)):
        load = drive(served, make, first=first, connections=CONNECTIONS, seconds=seconds, pace=pace)
        first += load.answers + CONNECTIONS
        print(
            f"| {name} | {load.rate * BATCH:,.0f} | {load.at(50):.1f} | {load.at(99):.1f} | {load.at(100):.1f} "
            f"| {load.processor / load.answers / BATCH * 1e6:.1f} |",
            flush=True,
        )
    print(f"\nWanted: {PACE:,} events/s, p99 < 100 ms.\n")
    return first


def single_posts(servers: dict[str, Served], seconds: float, rounds: int) -> None:
    """The table of single posts; the last of the servers is compared with the others."""
    make = singles()
    found: dict[str, list[Load]] = {name: [] for name in servers}
    first = 0
    for _ in range(rounds):
        for name, server in servers.items():
            found[name].append(
                drive(server, make, first=first, connections=SINGLES, seconds=seconds)
            )
            first += found[name][-1].answers + SINGLES
    print(
        f"## Single posts on {SINGLES} connections, {rounds} rounds of {seconds:g} s taking turns\n"
    )
    print(
        "| | posts/s, median | best | p50, ms | p99, ms | server, us a post |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    for name, loads in found.items():
        rates = [load.rate for load in loads]
        print(
            f"| {name} | {np.median(rates):,.0f} | {max(rates):,.0f} | {np.median([x.at(50) for x in loads]):.1f} "
            f"| {np.median([x.at(99) for x in loads]):.1f} | {np.median([x.processor / x.answers for x in loads]) * 1e6:.0f} |"
        )
    print(
        "\nRate of the service over that of the same round (wanted: 5,000 posts/s on one core):\n"
    )
    *others, last = found
    for name in others:
        pairs = [s.rate / b.rate for b, s in zip(found[name], found[last], strict=True)]
        print(
            f"- {name}: {np.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f} over the rounds)"
        )
    print(flush=True)


def memory(served: Served, state: Path, millions: int, first: int) -> None:
    """The table of memory."""
    make = bodies()
    print(
        "## Memory\n\n| events | resident, MB | state on disk, MB | events/s |\n| ---: | ---: | ---: | ---: |"
    )
    for million in range(millions + 1):
        rate = ""
        if million:
            load = drive(served, make, first=first, connections=CONNECTIONS, most=1000)
            first += 1000
            rate = f"{load.rate * BATCH:,.0f}"
        size = sum(f.stat().st_size for f in state.parent.glob(state.name + "*")) / 1e6
        print(
            f"| {million} million | {resident(served.process.pid):.0f} | {size:.0f} | {rate} |",
            flush=True,
        )
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of each measurement of batches"
    )
    parser.add_argument("--rounds", type=int, default=5, help="of single posts")
    parser.add_argument("--round-seconds", type=float, default=4.0)
    parser.add_argument("--million", type=int, default=5, help="events for the table of memory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundle, state = Path(folder) / "bundle.json", Path(folder) / "state.sqlite"
        bundle_at(bundle)
        service = (
            "-m",
            "roadworthy.cli",
            "monitor",
            str(bundle),
            "--state",
            str(state),
            "--port",
            "0",
            "--json",
        )
        with (
            running(*service) as served,
            running("-c", BARE) as bare,
            running("-c", COMMITTING, str(Path(folder) / "bare.sqlite")) as committing,
        ):
            first = batches(served, given.seconds)
            servers = {
                "bare endpoint": bare,
                "bare endpoint with group commit": committing,
                "service": served,
            }
            single_posts(servers, given.round_seconds, given.rounds)
        state = Path(folder) / "memory.sqlite"
        service = (
            "-m",
            "roadworthy.cli",
            "monitor",
            str(bundle),
            "--state",
            str(state),
            "--port",
            "0",
            "--json",
        )
        with running(*service) as served:
            memory(served, state, given.million, first)


if __name__ == "__main__":
    main()
