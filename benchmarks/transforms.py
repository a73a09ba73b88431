"""How fast the image transforms are against imagecorruptions, measured in one run.

    python benchmarks/transforms.py                   # needs .venv-peers, see benchmarks/peers.txt
    python benchmarks/transforms.py --images 32       # a quick look

Each side runs in its own environment, on the same 256 images of 224 x 224 x 3 bytes, in one process with OpenCV's default number
of threads; the two take turns and the best of three rounds counts. A second table shows what one small grey image costs.
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
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("gaussian_noise", "motion_blur", "snow", "contrast", "pixelate")
WANTED = {"gaussian_noise": 2, "motion_blur": 2, "snow": 2, "contrast": 20, "pixelate": 1}
LEVEL = 3
ROUNDS = 3


def ours(name: str) -> Callable[[np.ndarray], Any]:
    """One call of roadworthy, as an assessment makes it: with a generator of the case's own."""
    from roadworthy.cases.transform import at_level

    made = at_level(name, LEVEL)
    cases = itertools.count()
    return lambda image: made.at_step(image, 0, f"case {next(cases)}")


def peers(name: str) -> Callable[[np.ndarray], Any]:
    """One call of imagecorruptions."""
    from imagecorruptions import corrupt

    return lambda image: corrupt(image, severity=LEVEL, corruption_name=name)


def seconds_an_image(call: Callable[[np.ndarray], Any], images: np.ndarray) -> float:
    """The mean over the images, after one call that warms up."""
    call(images[0])
    start = time.perf_counter()
    for image in images:
        call(image)
    return (time.perf_counter() - start) / len(images)


def photo_like(count: int, side: int, channels: int) -> np.ndarray:
    """Images with smooth shapes and some grain; the same ones on both sides."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side] / side
    waves = rng.uniform(1, 12, (count, 2, channels))
    flat = np.sin(waves[:, 0, None, None] * x[..., None] + waves[:, 1, None, None] * y[..., None])
    images = 127 + 100 * flat + rng.normal(0, 8, flat.shape)
    return np.clip(images, 0, 255).astype(np.uint8)


def measure(side: str, count: int) -> dict[str, Any]:
    """One round of one side."""
    import cv2

    maker = ours if side == "ours" else peers
    large = photo_like(count, 224, 3)
    times = {name: seconds_an_image(maker(name), large) for name in NAMES}
    found: dict[str, Any] = {"large": times, "threads": cv2.getNumThreads(), "cv2": cv2.__version__}
    if side == "ours":
        small = photo_like(4 * count, 28, 1)[:, :, :, 0]
        found["small"] = {name: seconds_an_image(ours(name), small) for name in NAMES}
    return found


def round_of(side: str, python: Path, count: int) -> dict[str, Any]:
    """One round in that side's environment."""
    command = [str(python), "-W", "ignore", __file__, "--side", side, "--images", str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ))
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def best(rounds: list[dict[str, Any]], size: str) -> dict[str, float]:
    """The shortest time of each transform."""
    return {name: min(r[size][name] for r in rounds) for name in NAMES}


def table(mine: list[dict[str, Any]], theirs: list[dict[str, Any]], count: int) -> str:
    """The result as Markdown."""
    ours_large, ours_small, peer = best(mine, "large"), best(mine, "small"), best(theirs, "large")
    lines = [
        f"{count} images of 224 x 224 x 3 bytes, level {LEVEL}, best of {ROUNDS}; threads of OpenCV: "
        f"{mine[0]['threads']} (ours, {mine[0]['cv2']}), {theirs[0]['threads']} (peer, {theirs[0]['cv2']})",
        "",
        "| transform | ours, ms an image | imagecorruptions, ms an image | ratio | wanted | ours at 28 x 28 grey, us an image |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in NAMES:
        a, b = ours_large[name] * 1e3, peer[name] * 1e3
        lines.append(
            f"| {name} | {a:.3f} | {b:.3f} | {b / a:.1f} | {WANTED[name]} | {ours_small[name] * 1e6:.0f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Both sides in turns, or one side's round when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--side", choices=("ours", "peers"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.images)))
        return 0
    peer_python = ROOT / ".venv-peers" / "bin" / "python"
    if not peer_python.exists():
        print(
            f"{peer_python.relative_to(ROOT)} is not there: make it from benchmarks/peers.txt",
            file=sys.stderr,
        )
        return 2
    mine, theirs = [], []
    for _ in range(ROUNDS):
        mine.append(round_of("ours", Path(sys.executable), options.images))
        theirs.append(round_of("peers", peer_python, options.images))
    print(table(mine, theirs, options.images))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
