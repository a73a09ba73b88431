"""What work beyond one machine costs: python benchmarks/scale.py

1. A chunk on a Ray actor beside the same chunk in this process (wanted: less than 10 ms more).
2. The scheduler with a million chunks and 1,000 workers, without subject: its memory (wanted: flat) and time a chunk.
3. An index of 100,000 runs, filtered and sorted, in SQLite and PostgreSQL (wanted: under 100 ms each).
4. Bytes of a case, a chunk, a run record; what the driver holds of a chunk.

`docs/scale.md` says what follows for 1e9 cases.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from roadworthy import registry
from roadworthy.assessment.assess import assess
from roadworthy.assessment.section import plan_assessment
from roadworthy.execution.claims import Claims
from roadworthy.execution.ray import Workforce, close
from roadworthy.spec import Assessment
from roadworthy.store import ChunkCache
from roadworthy.store.files import Folder
from roadworthy.store.index import RunIndex

SUBJECT = "def predict(v):\n    return [float(v.sum()), 0.0]\n"
FILE = """
name: scale
subject: {{task: classification, python: subject.py:predict, version: "1", files: [subject.py], classes: [a, b]}}
data: {{test: {{npz: test.npz, images: x, classes: [a, b]}}}}
claims: [{{id: A, accuracy: {{min: 0.5}}}}]
execution: {{chunk: {chunk}}}
"""


def folder_with(cases: int, chunk: int) -> Path:
    folder = Path(tempfile.mkdtemp())
    x = np.random.default_rng(0).normal(size=(cases, 8)).astype(np.float32)
    np.savez(folder / "test.npz", x=x, labels=(x.sum(axis=1) < 0).astype(int))
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "assessment.yaml").write_text(FILE.format(chunk=chunk))
    return folder


def milliseconds_a_chunk(name: str, chunks: int, cases: int, **how: Any) -> tuple[float, float]:
    """Between the first chunk that is done and the last: real time, and this process's processor time."""
    folder = folder_with(chunks * cases, cases)
    plan = plan_assessment(Assessment.read(folder / "assessment.yaml"), keep=folder)
    cache, at = ChunkCache(folder / "cache"), []
    for _ in registry.get("executors", name).build(plan, cache, range(chunks), **how):
        at.append((time.perf_counter(), time.process_time()))
    close()
    real, spent = np.subtract(at[-1], at[0]) * 1000 / (chunks - 1)
    return float(real), float(spent)


class Simulated:
    """Ray without subjects: a chunk takes a drawn time on one of many actors, and no real time."""

    exceptions = SimpleNamespace(RayError=OSError)

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds, self._rng = 0.0, seconds, np.random.default_rng(0)
        self._ready: list[tuple[float, int, int]] = []
        self._free: dict[int, float] = {}
        self._count, self._left = 0, dict[int, int]()

    def cluster_resources(self) -> dict[str, int]:
        return {"CPU": 10**6}

    def remote(self, **_: Any) -> Any:
        return lambda kind: SimpleNamespace(remote=lambda first: self._actor(len(self._free)))

    def kill(self, actor: Any) -> None:
        pass

    def _actor(self, number: int) -> Any:
        self._free[number] = 0.0
        return SimpleNamespace(
            ready=SimpleNamespace(remote=lambda: self._start(number, None)),
            compute=SimpleNamespace(remote=lambda i, key: self._start(number, i)),
        )

    def _start(self, actor: int, index: int | None) -> int:
        seconds = self._seconds * float(self._rng.lognormal(0.0, 0.5)) if index is not None else 0.0
        end = max(self.now, self._free[actor]) + seconds
        self._free[actor], self._count = end, self._count + 1
        heapq.heappush(self._ready, (end, self._count, actor))
        self._left[self._count] = -1 if index is None else index
        return self._count

    def wait(
        self, refs: list[int], num_returns: int, timeout: float | None = None
    ) -> tuple[list[int], list[int]]:
        if timeout == 0:
            return [], refs
        end, ref, _ = heapq.heappop(self._ready)
        self.now = max(self.now, end)
        return [ref], []

    def get(self, ref: int) -> str:
        index = self._left.pop(ref)
        done = {
            "index": index,
            "cases": 1000,
            "failed": 0,
            "seconds": 1.0,
            "first_error": "",
            "files": {},
            "unseen": [],
        }
        return json.dumps({} if index < 0 else done)


class Keys:
    """Chunks as the scheduler sees them, made when they are asked for."""

    def __getitem__(self, index: int) -> Any:
        return SimpleNamespace(key=f"{index:032x}")


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def simulated(chunks: int, workers: int) -> Iterator[tuple[int, float, float, float]]:
    """Chunks done, memory, processor time a chunk in microseconds, and how busy the workers were."""
    ray = Simulated(10.0)
    plan: Any = SimpleNamespace(chunks=Keys(), spec=SimpleNamespace(subject={}))
    pool = Workforce(ray, {}, plan, ChunkCache(Path(tempfile.mkdtemp())), own=False)
    pool.grow(workers)
    started = time.process_time()
    for done, _ in enumerate(pool.work(plan, iter(range(chunks))), start=1):
        if done in (chunks // 100, chunks // 10, chunks):
            spent = time.process_time() - started
            busy = done * 10.0 * np.exp(0.125) / (ray.now * workers)
            yield done, memory_mb(), 1e6 * spent / done, float(busy)


def row(number: int) -> dict[str, Any]:
    verdict = ("met", "breached", "inconclusive")[number * 7919 % 3]
    created = f"20{20 + number % 7}-{1 + number % 12:02d}-{1 + number % 28:02d}T{number % 24:02d}:{number % 60:02d}:00+00:00"
    return {
        "root": f"s3://team/{number % 20}", "folder": f"run-{number:06d}", "key": f"{number:032x}", "name": f"model {number % 500}",
        "created": created, "status": "complete", "verdict": verdict, "subject": f"{number % 3000:032x}",
        "version": f"1.{number % 40}", "cases": number * 104729 % 10**7,
    }  # fmt: skip


def index_times(url: str, rows: int) -> dict[str, float]:
    """Median milliseconds of a query; writing all rows first is in seconds."""
    index = RunIndex(url)
    started = time.perf_counter()
    index.add(*map(row, range(rows)))
    found = {"writing (s)": time.perf_counter() - started}
    asked: dict[str, dict[str, Any]] = {
        "newest 50": {}, "breached, newest 50": {"where": {"verdict": "breached"}},
        "one model, by cases": {"where": {"name": "model 7"}, "sort": "cases"},
        "met of one version, by name": {"where": {"verdict": "met", "version": "1.3"}, "sort": "name", "reverse": False},
    }  # fmt: skip
    for name, how in asked.items():
        times = []
        for _ in range(21):
            started = time.perf_counter()
            index.rows(**how, limit=50)
            times.append(1000 * (time.perf_counter() - started))
        found[name] = statistics.median(times)
    index.close()
    return found


def claim_ms(n: int = 500) -> float:
    """Of one chunk, in a folder of this machine."""
    with Claims(Folder(Path(tempfile.mkdtemp()))) as claims:
        started = time.perf_counter()
        for k in range(n):
            claims.take(str(k))
            claims.release(str(k))
        return 1000 * (time.perf_counter() - started) / n


def planned_bytes() -> float:
    """What the driver holds of a chunk before it is given out."""
    folder = folder_with(50_000, 1)
    plan = plan_assessment(Assessment.read(folder / "assessment.yaml"), keep=folder)
    tracemalloc.start()
    chunks = plan.chunks
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / len(chunks)


def sizes() -> dict[str, float]:
    """Of 100,000 cases in chunks of 500, with and without the run record."""
    folder = folder_with(100_000, 500)
    run = assess(folder / "assessment.yaml", runs=folder / "runs", workers=1)
    chunks = [p for p in (folder / "runs" / ".cache").glob("??/*") if p.is_dir()]
    held = sum(f.stat().st_size for c in chunks for f in c.iterdir())
    record = sum(
        f.stat().st_size for f in run.folder.rglob("*") if f.is_file() and "trace" not in f.parts
    )
    return {
        "chunks": len(chunks), "bytes a chunk of 500": held / len(chunks), "bytes a case, kept": held / 100_000,
        "run record, bytes a case": record / 100_000, "driver, bytes a chunk": planned_bytes(),
    }  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--postgres",
        default=os.environ.get("ROADWORTHY_POSTGRES", ""),
        help="postgresql://…, an empty data base",
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    given = parser.parse_args()
    for cases in (5, 500):
        here, _ = milliseconds_a_chunk("inline", 200, cases)
        there, driver = milliseconds_a_chunk("ray", 200, cases, workers=1)
        said = f"here {here:.2f} ms, on a Ray actor {there:.2f} ms, {there - here:+.2f}"
        say(f"a chunk of {cases}: {said}; the driver's processor {driver:.2f} ms")
    say(f"a claim and its release in a folder: {claim_ms():.2f} ms")
    for done, memory, spent, busy in simulated(given.chunks, 1000):
        say(
            f"scheduler, {done:,} chunks, 1,000 workers: {memory:.0f} MB, {spent:.0f} us a chunk, {busy:.1%} busy"
        )
    urls = {"SQLite": f"sqlite:///{tempfile.mkdtemp()}/index.sqlite", "PostgreSQL": given.postgres}
    for name, url in urls.items():
        times = index_times(url, given.rows) if url else {}
        say(f"{name}, {given.rows:,} runs: " + ", ".join(f"{k} {v:.1f}" for k, v in times.items()))
    say(", ".join(f"{name} {value:,.1f}" for name, value in sizes().items()))


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
