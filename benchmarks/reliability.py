"""How fast the operational profile is against scikit-learn with bootstrap refits, and paper mode.

    python benchmarks/reliability.py                     # scikit-learn of peers-supervisors.txt
    python benchmarks/reliability.py --rows 2000         # a quick look
    python benchmarks/reliability.py --peers /path/to/python

The profile: mass and variance of 250 x 250 cells from 10,000 rows, h = 0.2, best of 5, processor
time. scikit-learn fits and scores all rows once and would refit on 100 resamples: 2 are timed, and
their time is taken times 50. Paper mode: 62,500 cells x 10,000 samples, one run each, with a
network 2-16-2 in numpy and with the authors' random forest as thresholds. All on one thread:
products this thin gain nothing by a second one, and lose much if other work holds it up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "studies" / "reliability"
POINTS = ROOT.parent / "shared" / "data" / "ram-points" / "ds1.csv"
SIDE, BANDWIDTH, REFITS, TIMED = 250, 0.2, 100, 2
WANTED, LIMIT = 500, 60  # ratio to scikit-learn; seconds of paper mode with the network


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).beta(2, 3, (n, 2))


def profile(n: int) -> tuple[float, np.ndarray]:
    """Seconds for mass and variance of all cells, and the density."""
    from roadworthy.statistics.partition import Grid
    from roadworthy.statistics.profile import Profile

    grid = Grid.over([(0, 1), (0, 1)], 1 / SIDE)
    fitted = Profile.fit(rows(n), bandwidth=BANDWIDTH)
    fitted.cell_masses(grid)  # what is loaded on first use is not what is measured
    seconds = []
    for _ in range(5):
        start = time.process_time()
        cells = fitted.cell_masses(grid)
        seconds.append(time.process_time() - start)
    return min(seconds), cells.mass * SIDE**2


def peer(n: int, folder: str) -> dict[str, float]:
    """scikit-learn: one fit with scores, and what refits would take."""
    from sklearn.neighbors import KernelDensity
    from sklearn.utils import resample

    points, middles = rows(n), (np.arange(SIDE) + 0.5) / SIDE
    centres = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)

    def timed(sample: np.ndarray) -> tuple[float, np.ndarray]:
        start = time.process_time()
        density = np.exp(KernelDensity(bandwidth=BANDWIDTH).fit(sample).score_samples(centres))
        return time.process_time() - start, density

    once, density = timed(points)
    again = [timed(resample(points, random_state=b))[0] for b in range(TIMED)]
    np.save(Path(folder) / "density.npy", density)
    return {"seconds": once + sum(again) / TIMED * REFITS}


class Network:
    """An untrained 2-16-2 with rectified units, in float32 with buffers of its own."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        shapes = (16, 2), (16, 1), (2, 16), (2, 1)
        self.weights = [rng.normal(size=s).astype(np.float32) for s in shapes]
        self.buffers = [np.empty((m, 0), dtype=np.float32) for m in (16, 2)]

    def __call__(self, points: np.ndarray) -> np.ndarray:
        if self.buffers[0].shape[1] != len(points):
            self.buffers = [np.empty((m, len(points)), dtype=np.float32) for m in (16, 2)]
        (first, bias, second, last), (hidden, scores) = self.weights, self.buffers
        np.matmul(first, points.T, out=hidden)
        hidden += bias
        np.matmul(second, np.maximum(hidden, 0, out=hidden), out=scores)
        scores += last
        return (scores[1] > scores[0]).view(np.int8)


def whole_example() -> list[str]:
    """Paper mode on the published points, or on made ones if they are not beside the project."""
    sys.path.insert(0, str(STUDY))
    from make_forest import Forest

    from roadworthy.analysis.reliability.paper import paper_mode

    forest = Forest.load(STUDY / "forest_ds1.npz")
    if POINTS.exists():
        table = np.loadtxt(POINTS, delimiter=",", skiprows=1)
        points, labels = table[:, :2], table[:, 2].astype(int)
    else:
        points = np.random.default_rng(0).random((1_000, 2))
        labels = forest(points).astype(int)
    columns = ("model", "s", "ms a cell", "paper, ms a cell", "ACU", "E", "Ub")
    lines = [f"| {' | '.join(columns)} |", f"| --- {'| ---: ' * 6}|"]
    for name, model in (("network 2-16-2", Network()), ("random forest", forest)):
        start = time.perf_counter()
        found = paper_mode(points, labels, model)
        seconds = time.perf_counter() - start
        wanted = f" (wanted: below {LIMIT})" if name.startswith("network") else ""
        lines.append(
            f"| {name} | {seconds:.1f}{wanted} | {1e3 * seconds / found.grid.cells:.3f} | 30 to 40 "
            f"| {found.acu:.6f} | {found.estimate:.6f} | {found.bound:.6f} |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--peers", default=str(ROOT / ".venv-peers/supervisors/bin/python"))
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(peer(options.rows, options.folder)))
        return 0
    if not Path(options.peers).exists():
        parser.error(f"no {options.peers}: make it from benchmarks/peers-supervisors.txt")
    with tempfile.TemporaryDirectory() as folder:
        command = [options.peers, __file__, "--rows", str(options.rows), "--folder", folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        theirs = json.loads(done.stdout.splitlines()[-1])["seconds"]
        ours, density = profile(options.rows)
        apart = np.abs(np.load(f"{folder}/density.npy") / density - 1).max()
    print(
        f"| {options.rows} rows, {SIDE} x {SIDE} cells | s | ratio | wanted | densities differ by |"
    )
    print("| --- | ---: | ---: | ---: | ---: |")
    print(f"| density and closed-form variance | {ours:.3f} | | | |")
    print(f"| scikit-learn, {REFITS} refits ({TIMED} timed) | {theirs:.0f} ", end="")
    print(f"| {theirs / ours:.0f} | {WANTED} | {apart:.1e} |\n")
    print("\n".join(whole_example()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
