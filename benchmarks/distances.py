"""How fast the distances between images and data sets are, in one run.

    python benchmarks/distances.py            # needs .venv-peers/distances, see benchmarks/peers-distances.txt

Ours and the peers' run in environments of their own, on one thread, on the same images, whole calls, taking turns; the median of 15
calls counts, in processor time. The peer of `cw_ssim` is pyssim, which calculates something else (`cw_ssim_pyssim` equals
it). A second table shows how the cost grows with the image, a third compares distances between sets with scipy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / ".venv-peers" / "distances" / "bin" / "python"
ONE_THREAD = {f"{p}_NUM_THREADS": "1" for p in ("OMP", "OPENBLAS", "MKL")}
NAMES = ("mse", "ssim", "ms_ssim", "cw_ssim", "cw_ssim_pyssim")
SIZES = (256, 512, 1024, 2048)
PEERS = {"ssim": "scikit-image", "cw_ssim": "pyssim (another formula)", "cw_ssim_pyssim": "pyssim"}
WANTED = {"ssim": "3", "cw_ssim": "5"}
CALLS, FEW, SLOW_S = 15, 3, 1.0


def grey_pair(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Two scenes of bytes with smooth shapes and grain; the same on both sides."""
    y, x = np.mgrid[:side, :side] / side
    scenes = []
    for seed in (0, 1):
        grain = np.random.default_rng(seed).normal(0, 12, (side, side))
        waves = 127 + 60 * np.sin(9 * x + 5 * y) + 40 * np.sin(40 * x * y) + grain
        scenes.append(np.clip(waves, 0, 255).astype(np.uint8))
    return scenes[0], scenes[1]


def seconds(call: Callable[[], Any]) -> float:
    """The median of some calls in processor time, after one that warms up."""
    times = []
    for _ in range(CALLS + 1):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
        if len(times) > FEW and times[0] > SLOW_S:
            break
    return median(times[1:])


def ours(name: str, side: int) -> float:
    """Seconds a call of roadworthy."""
    from roadworthy.registry import get

    compare, pair = get("distances", name).bind(), grey_pair(side)
    return seconds(lambda: compare(*pair))


def peers(name: str, side: int) -> float:
    """Seconds a call of the peer."""
    first, second = grey_pair(side)
    if name == "ssim":
        from skimage.metrics import structural_similarity

        options = {"gaussian_weights": True, "use_sample_covariance": False}
        return seconds(lambda: structural_similarity(first, second, **options))
    from PIL import Image
    from ssim import SSIM

    one, other = Image.fromarray(first), Image.fromarray(second)
    return seconds(lambda: SSIM(one).cw_ssim_value(other))


def started(side: str, python: str) -> Callable[[str, int], float]:
    """A process of that side's environment that measures what it is asked."""
    command = [python, "-W", "ignore", __file__, "--side", side]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | ONE_THREAD,
    )

    def measured(name: str, size: int) -> float:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([name, size]) + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    return measured


def serve(side: str) -> None:
    """Measure what comes in, a name and a size a line."""
    if side == "ours":
        import cv2

        cv2.setNumThreads(1)
    for line in sys.stdin:
        print((ours if side == "ours" else peers)(*json.loads(line)), flush=True)


def sets() -> None:
    """Distances between sets beside scipy, here and on one thread."""
    from scipy.linalg import sqrtm
    from scipy.spatial.distance import cdist

    from roadworthy.distances.sets.frechet import frechet
    from roadworthy.distances.sets.linkage import average

    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(5000, 512)), rng.normal(0.1, 1, size=(5000, 512))

    def by_root() -> None:
        np.trace(sqrtm(np.cov(source, rowvar=False) @ np.cov(target, rowvar=False)))

    rows = {
        "frechet": (lambda: frechet(source, target), "scipy.linalg.sqrtm", by_root),
        "average": (
            lambda: average(source, target),
            "scipy cdist",
            lambda: cdist(source, target).mean(),
        ),
    }
    print("\n| sets of 5,000 x 512 | ours, s | compared with | s | ratio |")
    print("| --- | ---: | --- | ---: | ---: |")
    for name, (own, peer, other) in rows.items():
        mine, theirs = seconds(own), seconds(other)
        print(f"| {name} | {mine:.2f} | {peer} | {theirs:.2f} | {theirs / mine:.1f} |")


def main() -> int:
    """All three tables, or one side's measurements when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", choices=("ours", "peers", "sets"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        sets() if options.side == "sets" else serve(options.side)
        return 0
    if not PEER.exists():
        where = PEER.relative_to(ROOT)
        print(f"{where} is not there: see benchmarks/peers-distances.txt", file=sys.stderr)
        return 2
    mine, theirs = started("ours", sys.executable), started("peers", str(PEER))
    print("| 256 x 256 and 1024 x 1024, grey | ours, ms | peer | ms | ratio | wanted |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for size in (256, 1024):
        for name, peer in PEERS.items():
            own, other = mine(name, size) * 1e3, theirs(name, size) * 1e3
            row = f"{own:.1f} | {peer} | {other:.1f} | {other / own:.1f} | {WANTED.get(name, '')}"
            print(f"| {name}, {size} | {row} |")
    print(f"\n| ours, ms | {' | '.join(f'{size} x {size}' for size in SIZES)} | ns a pixel, last |")
    print(f"| --- | {'---: | ' * (len(SIZES) + 1)}")
    for name in NAMES:
        times = [mine(name, size) for size in SIZES]
        cells = " | ".join(f"{t * 1e3:.1f}" for t in times)
        print(f"| {name} | {cells} | {times[-1] / SIZES[-1] ** 2 * 1e9:.0f} |")
    sys.stdout.flush()
    command = [sys.executable, __file__, "--side", "sets"]
    return subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
