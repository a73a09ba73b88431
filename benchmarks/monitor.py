"""What `update` costs an event, by the size of the call, and what a monitor holds in memory after a hundred million events.

Times are processor time, alarms included: a look at a window of 100 events every 50.

Run alone: `python benchmarks/monitor.py` (costs, and memory over 5 million events), `--events 100000000` for the long run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.monitor import Bundle, Events, Monitor, Windows

SIZES = (100, 1_000, 10_000, 100_000)
ROUNDS = 3


def bundle_of(detectors: int = 3) -> Bundle:
    """A bundle with an alarm, on several synthetic detectors of AUC 0.9."""
    rng = np.random.default_rng(0)
    kind = np.repeat(["clean", "fog", "blur"], 1000)
    shifted = kind != "clean"
    columns = {f"detector {i}": rng.normal(1.8 * shifted) for i in range(detectors)}
    right = rng.random(len(kind)) < np.where(shifted, 0.5, 0.95)
    return Bundle.compile(
        fit_calibration(columns, kind, right),
        accuracy_tree(),
        subject="benchmark",
        tolerable=0.12,
        windows=Windows((100, 1000)),
        events_per_day=86_400.0,
    )


def scores_of(bundle: Bundle, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Clean scores."""
    return {name: rng.normal(size=n) for name in bundle.calibration.names}


def per_event(bundle: Bundle, size: int, *, kind: str) -> float:
    """Microseconds an event, the best of some rounds of at least 50,000 events (5,000 singly)."""
    rng = np.random.default_rng(size)
    calls = max(1, (5_000 if size == 1 else 50_000) // size)
    best = np.inf
    for _ in range(ROUNDS):
        monitor = Monitor(bundle)
        _ = bundle.estimator
        total = calls * size
        names = [f"{i:08x}-7f3a-4c1e-9b2d-{i:012x}" for i in range(total)]
        times = np.arange(total, dtype=float)
        columns = scores_of(bundle, total, rng)
        cells = bundle.calibration.place(columns)
        rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*(c.tolist() for c in columns.values()), strict=True)
        ]
        started = time.process_time()
        if size == 1:
            for name, at, row in zip(names, times.tolist(), rows, strict=True):
                monitor.update_one(name, at, row)
        else:
            for i in range(0, total, size):
                part = slice(i, i + size)
                if kind == "cells":
                    monitor.update(Events(names[part], times[part], cells=cells[part]))
                else:
                    monitor.update(
                        Events(
                            names[part],
                            times[part],
                            columns={n: c[part] for n, c in columns.items()},
                        )
                    )
        monitor.state.buckets.total()  # what waits to be counted is counted
        best = min(best, (time.process_time() - started) / total * 1e6)
    return best


def resident() -> float:
    """MiB of memory that the process holds now."""
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * 4096 / 2**20


def over_time(bundle: Bundle, events: int, *, size: int = 10_000) -> list[tuple[int, float, float]]:
    """(events, MiB, microseconds an event) at powers of ten, one event a second."""
    rng = np.random.default_rng(1)
    pool = bundle.calibration.place(scores_of(bundle, 1_000_000, rng))
    monitor = Monitor(bundle)
    marks = {10**k for k in range(5, 10)} | {events}
    found = []
    started = time.process_time()
    for i in range(0, events, size):
        at = rng.integers(len(pool) - size)
        numbers = np.arange(i, i + size)
        monitor.update(Events(numbers, numbers.astype(float), cells=pool[at : at + size]))
        if i + size in marks:
            found.append((i + size, resident(), (time.process_time() - started) / (i + size) * 1e6))
    print(
        f"\n{monitor.state.taken}; {len(monitor.state.buckets.spans()):,} buckets; {len(monitor.alarms)} alarms raised or cleared"
    )
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    given = parser.parse_args()
    bundle = bundle_of()
    print(
        "\n| events a call | scores, us an event | cells, us an event | wanted |\n| ---: | ---: | ---: | ---: |"
    )
    print(f"| 1 (update_one) | {per_event(bundle, 1, kind='scores'):.1f} | | 20 |")
    for size in SIZES:
        scores, cells = (
            per_event(bundle, size, kind="scores"),
            per_event(bundle, size, kind="cells"),
        )
        print(f"| {size:,} | {scores:.2f} | {cells:.2f} | {'2' if size >= 1000 else ''} |")
    rows = over_time(bundle, given.events)
    print("\n| events | resident, MiB | us an event |\n| ---: | ---: | ---: |")
    for n, memory, cost in rows:
        print(f"| {n:,} | {memory:.0f} | {cost:.2f} |")


if __name__ == "__main__":
    main()
