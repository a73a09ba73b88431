"""What a row costs the monitor and NannyML's CBPE, measured in one run: processor time, one thread, the sides in turns.

    python benchmarks/risk.py                        # needs the peers of benchmarks/peers-risk.txt
    python benchmarks/risk.py --rows 20000           # a quick look
    python benchmarks/risk.py --peers /path/to/python

CBPE estimates the accuracy of a classifier of 10 classes from its class probabilities: in chunks of 100 rows, handed to it in
calls of as many rows as ours and all at once, about its best; in chunks of 1,000; and live, on the last 100 rows of a stream,
which is what it takes to have an estimate after every row. Ours takes the scores of five detectors, with ids and times: events
into the monitor, alarm included, in calls of several sizes and one by one; the same with the state of risk asked for after every
100 events, which is as often as CBPE gives one in chunks of 100; live, with the state of risk asked for after every event; and a
whole table in windows of 100, as `replay` reads one. A fifth of the stream is shifted, so that the alarm looks closely at some
windows; one stream has no shift. Events are the first of their monitor, and none is forgotten; one monitor has seen as many before.
Ids are made right before they are sent, as those of a message that has just been read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CLASSES, DETECTORS, ROUNDS, ASKED = 10, 5, 3, 200
WANTED = 50.0
"""Times CBPE in chunks of 100, a row."""
SIZES = (100, 1000, 10_000, 100_000)
MOST_CALLS = 100
"""Calls of CBPE that are timed at most."""
CHUNKED, LIVE = "CBPE, chunks of 100, all rows in one call", "CBPE, live: the last 100 rows"
HANDED = {size: f"CBPE, chunks of 100, {size:,} rows a call" for size in SIZES}
Work = Callable[[], object]
Timed = dict[str, tuple[Callable[[], Work], int]]
"""Name -> what makes ready what is timed, right before it is, and how many rows (or answers) it is for."""


def nannyml(rows: int) -> Timed:
    """CBPE, fitted beforehand."""
    os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"
    import pandas as pd
    from nannyml import CBPE

    rng = np.random.default_rng(0)

    def frame(n: int) -> pd.DataFrame:
        scores = np.exp(2.5 * rng.normal(size=(n, CLASSES)))
        scores /= scores.sum(axis=1, keepdims=True)
        found = pd.DataFrame({f"p{i}": scores[:, i] for i in range(CLASSES)})
        found["said"] = [f"c{i}" for i in scores.argmax(axis=1)]
        found["true"] = [
            f"c{i}" for i in (scores.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        ]
        return found

    def fitted(chunk: int) -> CBPE:
        return CBPE(
            y_pred_proba={f"c{i}": f"p{i}" for i in range(CLASSES)},
            y_pred="said",
            y_true="true",
            problem_type="classification_multiclass",
            metrics=["accuracy"],
            chunk_size=chunk,
        ).fit(reference)

    reference, live = frame(4000), frame(rows).drop(columns="true")
    by_hundred, by_thousand = fitted(100), fitted(1000)

    def handed(size: int) -> tuple[Callable[[], Work], int]:
        starts = range(0, rows, size)[:MOST_CALLS]
        return lambda: lambda: [by_hundred.estimate(live[at : at + size]) for at in starts], min(
            len(starts) * size, rows
        )

    return {
        **{HANDED[size]: handed(size) for size in SIZES if size < rows},
        CHUNKED: (lambda: lambda: by_hundred.estimate(live), rows),
        "CBPE, chunks of 1,000": (lambda: lambda: by_thousand.estimate(live), rows),
        LIVE: (lambda: lambda: [by_hundred.estimate(live[at : at + 100]) for at in range(20)], 20),
    }


def ours(rows: int) -> Timed:
    """The monitor and the estimator under it."""
    from roadworthy.analysis.risk.calibration import fit_calibration
    from roadworthy.analysis.risk.estimator import Estimator
    from roadworthy.analysis.risk.prototypes import accuracy_tree
    from roadworthy.monitor import Bundle, Events, Monitor

    rng = np.random.default_rng(0)

    def scores(shifted: np.ndarray) -> dict[str, np.ndarray]:
        return {f"detector_{i}": rng.normal(shifted * (i + 1) / 2) for i in range(DETECTORS)}

    known = np.repeat([0, 1], 2000)
    right = rng.random(4000) < np.where(known, 0.5, 0.9)
    calibration = fit_calibration(scores(known), np.where(known, "fog", "clean"), right)
    bundle = Bundle.compile(calibration, accuracy_tree(), subject="benchmark", tolerable=0.3)
    columns, names, times = (
        scores(rng.random(rows) < 0.2),
        np.arange(rows),
        np.arange(rows, dtype=float),
    )
    clean = scores(np.zeros(rows))
    estimator = Estimator(calibration, accuracy_tree())

    def texts(first: int = 0) -> list[str]:
        """Ids that nobody has looked at before: Python remembers the hash of a text that it has seen."""
        return [f"{i:08x}-7f3a-4c1e-9b2d-{i:012x}" for i in range(first, first + rows)]

    text = texts()
    single = [{n: float(c[i]) for n, c in columns.items()} for i in range(min(rows, 5000))]
    full = Monitor(bundle)
    full.update(Events(names, times, columns))

    def update(
        size: int,
        *,
        numbered: bool = False,
        asking: bool = False,
        stream: dict[str, np.ndarray] = columns,
        after: int = 0,
    ) -> Work:
        ids: Any = names if numbered else texts(after)
        monitor = Monitor(bundle)
        monitor.update(
            Events(texts()[:after], times[:after], {n: c[:after] for n, c in stream.items()})
        )

        def work() -> None:
            for at in range(0, rows, size):
                part = slice(at, at + size)
                monitor.update(
                    Events(ids[part], after + times[part], {n: c[part] for n, c in stream.items()})
                )
                if asking:
                    monitor.risk(100)
            monitor.state.buckets.total()  # what waits to be counted is counted

        return work

    def update_one() -> None:
        monitor = Monitor(bundle)
        for i, row in enumerate(single):
            monitor.update_one(text[i], float(i), row)

    def live(before: int) -> Work:
        monitor = Monitor(bundle)
        monitor.update(
            Events(text[:before], times[:before], {n: c[:before] for n, c in columns.items()})
        )

        def work() -> None:
            for i in range(before, before + ASKED):
                monitor.update_one(text[i], float(i), {n: float(c[i]) for n, c in columns.items()})
                monitor.risk(100)

        return work

    def ask() -> None:
        for _ in range(ASKED):
            full.risk(100)

    def windows() -> None:
        cells = calibration.place(columns)
        places = np.arange(rows) // 100 * calibration.cells + cells
        estimator.estimate(
            np.bincount(places, minlength=rows // 100 * calibration.cells).reshape(
                -1, calibration.cells
            )
        )

    found: Timed = {
        f"update, {size:,} events a call": (partial(update, size), rows) for size in SIZES
    }
    return {
        **found,
        "update, 1,000 events a call, whole numbers as ids": (
            partial(update, 1000, numbered=True),
            rows,
        ),
        "update, 1,000 events a call, no shift in the stream": (
            partial(update, 1000, stream=clean),
            rows,
        ),
        f"update, 1,000 events a call, after {rows:,} others": (
            partial(update, 1000, after=rows),
            rows,
        ),
        "update, one event a call": (lambda: update_one, len(single)),
        "update and risk, every 100 events": (partial(update, 100, asking=True), rows),
        "a table in windows of 100": (lambda: windows, rows),
        "risk, asked again": (lambda: ask, ASKED),
        "live: update and risk, every event, after 1,000": (partial(live, 1000), ASKED),
        "live: update and risk, every event, after 10,000": (partial(live, 10_000), ASKED),
    }


def measure(side: str, rows: int) -> dict[str, float]:
    """Seconds a row, or an answer."""
    found = {}
    for name, (ready, n) in (ours if side == "ours" else nannyml)(rows).items():
        call = ready()
        start = time.process_time()
        call()
        found[name] = (time.process_time() - start) / n
    return found


def round_of(side: str, python: str, rows: int) -> dict[str, float]:
    """One round in that side's environment, on one thread."""
    command = [python, "-W", "ignore", __file__, "--side", side, "--rows", str(rows)]
    limits = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | limits
    )
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def peers_of(name: str) -> list[str]:
    """What one of ours stands beside: CBPE with as many rows a call, and CBPE with all rows in one call."""
    if name.startswith("CBPE"):
        return []
    if name.startswith(("live", "risk")):
        return [LIVE]
    return [
        *(
            peer
            for size, peer in HANDED.items()
            if name.startswith(f"update, {size:,} events a call")
        ),
        CHUNKED,
    ]


def table(times: dict[str, float], rows: int) -> str:
    """The result as Markdown: each of ours with what CBPE takes for the same."""
    lines = [
        f"{rows:,} rows, processor time on one thread, best of {ROUNDS}",
        "",
        "| what | us a row (live: an answer) | compared with | its us | times as fast | wanted |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for name, seconds in times.items():
        wanted = f"{WANTED:g}" if name.startswith("update, 1,000 events a call") else ""
        peers = [peer for peer in peers_of(name) if peer in times]
        for peer in peers:
            beside = f"{peer} | {1e6 * times[peer]:.2f} | {times[peer] / seconds:.1f} | {wanted}"
            lines.append(f"| {name} | {1e6 * seconds:.2f} | {beside} |")
        if not peers:
            lines.append(f"| {name} | {1e6 * seconds:.2f} | | | | |")
    return "\n".join(lines)


def main() -> int:
    """Both sides in turns, or one side's round when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--peers", default=str(ROOT / ".venv-peers" / "risk" / "bin" / "python"))
    parser.add_argument("--side", choices=("ours", "peers"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.rows)))
        return 0
    if not Path(options.peers).exists():
        print(
            f"{options.peers} is not there: make it from benchmarks/peers-risk.txt", file=sys.stderr
        )
        return 2
    times: dict[str, float] = {}
    for _ in range(ROUNDS):
        for side, python in (("ours", sys.executable), ("peers", options.peers)):
            for name, seconds in round_of(side, python, options.rows).items():
                times[name] = min(seconds, times.get(name, np.inf))
    print(table(times, options.rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
