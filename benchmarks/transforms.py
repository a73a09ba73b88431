"""How fast the image transforms are against imagecorruptions, measured in one run.

    python benchmarks/transforms.py                   # needs .venv-peers, see benchmarks/peers.txt
    python benchmarks/transforms.py fog frost         # only these

Each side runs in its own environment, in one process and one thread, on the same images of 224 x 224 and of 1920 x 1080 RGB
bytes, level 3, whole calls: from an image to an image, ours with a generator of the case's own. The two sides take turns, transform
by transform; the median of 20 calls counts (of 3 if a call takes more than a second). A second table shows what 100 boxes add to a
transform that moves them.
"""

from __future__ import annotations

import argparse
import itertools
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
GEOMETRY = ("rotation", "truncated_section", "elastic_transform")
SIZES = {"224 x 224": (224, 224), "1080p": (1080, 1920)}
LEVEL = 3
CALLS, FEW, SLOW_S = 20, 3, 1.0


def photo_like(shape: tuple[int, int]) -> np.ndarray:
    """A colour image with smooth shapes and some grain; the same one on both sides."""
    rng = np.random.default_rng(0)
    y, x = (grid[..., None] for grid in np.mgrid[0 : shape[0], 0 : shape[1]] / min(shape))
    waves = rng.uniform(1, 12, (2, 3))
    image = 127 + 100 * np.sin(waves[0] * x + waves[1] * y) + rng.normal(0, 8, (*shape, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def seconds(call: Callable[[], Any]) -> float:
    """The median of some calls, after one that warms up."""
    start = time.perf_counter()
    call()
    slow = time.perf_counter() - start > SLOW_S
    times = []
    for _ in range(FEW if slow else CALLS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def ours(name: str, image: np.ndarray) -> dict[str, float]:
    """Seconds a call of roadworthy as an assessment makes it, and, if it moves boxes, with 100 of them."""
    from roadworthy.cases.transform import at_level
    from roadworthy.data.values import Boxes

    made, cases = at_level(name, LEVEL), (f"case {i}" for i in itertools.count())
    found = {"image": seconds(lambda: made.at_step(image, 0, next(cases)))}
    if name in GEOMETRY:
        corner = np.random.default_rng(1).uniform(0, 0.8, (100, 2)) * image.shape[1::-1]
        boxes = Boxes.of(np.hstack([corner, corner + 0.15 * min(image.shape[:2])]))

        def both() -> None:
            warp = made.warp(image.shape, 0, next(cases))
            warp.picture(image), warp.boxes(boxes)

        found["boxes"] = seconds(both)
    return found


def peers(name: str, image: np.ndarray) -> dict[str, float]:
    """Seconds a call of imagecorruptions."""
    import imagecorruptions.corruptions as peer
    from imagecorruptions import corrupt

    if not hasattr(peer, "made_before"):
        peer.made_before = peer.gaussian
        # scikit-image for Python 3.11 calls the argument otherwise.
        peer.gaussian = lambda *a, multichannel=False, **k: peer.made_before(
            *a, channel_axis=-1 if multichannel else None, **k
        )
    return {"image": seconds(lambda: corrupt(image, severity=LEVEL, corruption_name=name))}


def serve(side: str) -> None:
    """Measure what comes in, a name and a size a line, and answer with a line of JSON."""
    import cv2

    cv2.setNumThreads(1)
    images = {size: photo_like(shape) for size, shape in SIZES.items()}
    for line in sys.stdin:
        name, size = json.loads(line)
        print(json.dumps((ours if side == "ours" else peers)(name, images[size])), flush=True)


def started(side: str, python: Path) -> Callable[[str, str], dict[str, float]]:
    """A process of that side's environment that measures what it is asked."""
    command = [str(python), "-W", "ignore", __file__, "--side", side]
    one = {f"{p}_NUM_THREADS": "1" for p in ("OMP", "OPENBLAS", "MKL")}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | one
    )

    def measured(name: str, size: str) -> dict[str, float]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([name, size]) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("{"):  # the peer prints now and then
                return json.loads(line)  # type: ignore[no-any-return]
        raise RuntimeError(f"{side}: {name} at {size} failed")

    return measured


def main() -> int:
    """Both sides in turns, or one side's measurements when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--side", choices=("ours", "peers"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        serve(options.side)
        return 0
    peer_python = ROOT / ".venv-peers" / "bin" / "python"
    if not peer_python.exists():
        print(
            f"{peer_python.relative_to(ROOT)} is not there: make it from benchmarks/peers.txt",
            file=sys.stderr,
        )
        return 2
    from roadworthy import registry

    mine, theirs = started("ours", Path(sys.executable)), started("peers", peer_python)
    known = {
        n: c for n, c in registry.components("transforms").items() if c.traits["of"] == "image"
    }
    chosen = [n for n in known if n in options.names or not options.names]
    print("| transform |" + "".join(f" {s}: ours, ms | peer, ms | ratio |" for s in SIZES))
    print("| --- |" + " ---: | ---: | ---: |" * len(SIZES))
    ratios: dict[str, list[float]] = {size: [] for size in SIZES}
    moved = []
    for name in chosen:
        cells = []
        for size in SIZES:
            a = mine(name, size)
            cells.append(f" {a['image'] * 1e3:.2f} |")
            if "boxes" in a:
                moved.append((name, size, a["boxes"] * 1e3, a["boxes"] / a["image"]))
            if "hendrycks" not in known[name].traits["tables"]:
                cells.append(" | |")
                continue
            b = theirs(name, size)["image"]
            ratios[size].append(b / a["image"])
            cells.append(f" {b * 1e3:.2f} | {ratios[size][-1]:.1f} |")
        print(f"| {name} |{''.join(cells)}", flush=True)
    for size, found in ratios.items():
        if found:
            print(f"\n{size}: median ratio {median(found):.1f}, smallest {min(found):.1f}", end="")
    print("\n\n| with 100 boxes | size | ms | times the image alone |\n| --- | --- | ---: | ---: |")
    for name, size, ms, times in moved:
        print(f"| {name} | {size} | {ms:.2f} | {times:.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
