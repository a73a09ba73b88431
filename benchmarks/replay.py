"""What `roadworthy replay` takes for a million rows with seven scores, ids and times, from the command to the last line.

    python benchmarks/replay.py [--rows 1000000] [--rounds 3]

Rows are drawn from `examples/scores/today.parquet`. Three streams: without shift; half without and half with; and one that
hovers, a tenth shifted, so that every look of the alarm is worked out. By the clock, best of the rounds, the interpreter's
start included. Wanted: a million rows in under 10 s.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCORES = Path(__file__).resolve().parents[1] / "examples" / "scores"
ROADWORTHY = [sys.executable, "-c", "from roadworthy.cli import main; main()"]
BROKE_IN = 1500
"""The event of today's stream from which on most are shifted."""


def streams(rows: int) -> dict[str, np.ndarray]:
    """Row numbers of today's table, in the order of three streams."""
    rng, today = np.random.default_rng(0), pq.read_metadata(SCORES / "today.parquet").num_rows
    clean, shifted = rng.integers(0, BROKE_IN, rows), rng.integers(BROKE_IN, today, rows)
    return {
        "no shift": clean,
        "half without, half with shift": np.where(np.arange(rows) < rows // 2, clean, shifted),
        "a tenth of a shift, all along": np.where(rng.random(rows) < 0.1, shifted, clean),
    }


def written(picked: np.ndarray, path: Path) -> None:
    """These rows as a stream of their own, a second apart."""
    table = pq.read_table(SCORES / "today.parquet").take(pa.array(picked))
    table = table.set_column(
        table.schema.get_field_index("id"), "id", pa.array([f"e{i}" for i in range(len(picked))])
    )
    start = np.datetime64("2026-03-02T00:00:00", "ms")
    times = pa.array(
        start + np.arange(len(picked)) * np.timedelta64(1000, "ms"),
        type=pa.timestamp("ms", tz="UTC"),
    )
    pq.write_table(table.set_column(table.schema.get_field_index("time"), "time", times), path)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        "| stream | rows | s | us a row | alarms raised or cleared |\n| --- | ---: | ---: | ---: | ---: |",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        bundle, stream = Path(folder) / "scores.bundle.json", Path(folder) / "stream.parquet"
        calibration = SCORES / "calibration.parquet"
        subprocess.run(
            [*ROADWORTHY, "calibrate", calibration, "--out", bundle],
            check=True,
            capture_output=True,
        )
        for name, picked in streams(options.rows).items():
            written(picked, stream)
            seconds, said = np.inf, ""
            for _ in range(options.rounds):
                start = time.perf_counter()
                done = subprocess.run(
                    [*ROADWORTHY, "replay", bundle, stream], capture_output=True, text=True
                )
                if done.returncode not in (0, 1, 3):
                    raise SystemExit(done.stderr)
                seconds, said = min(seconds, time.perf_counter() - start), done.stdout
            rang = said.count("ALARM at") + said.count("cleared at")
            print(
                f"| {name} | {options.rows:,} | {seconds:.1f} | {seconds / options.rows * 1e6:.1f} | {rang} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
