"""Cuts sequences from OpenCV's pedestrian video, with the system's own clean tracks as the reference:
``python studies/systems/pedestrians/make.py [vtest.avi]``.

The video comes with Debian's package opencv-doc and has no ground truth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
from system import build

from roadworthy.data.values import Tracks
from roadworthy.subject.system import Cases

CACHE = Path(__file__).parent.parent / "cache" / "pedestrians"
VIDEO = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")
SEQUENCES, FRAMES = 5, 12


def sequences(video: Path, folder: Path, *, count: int = SEQUENCES, frames: int = FRAMES) -> None:
    """Sequences spread over the video, in the layout of MOTChallenge."""
    opened = cv2.VideoCapture(str(video))
    length = int(opened.get(cv2.CAP_PROP_FRAME_COUNT))
    if not length:
        raise SystemExit(f"{video} cannot be read: apt-get install opencv-doc, or name the video")
    system = build()
    for i in range(count):
        opened.set(cv2.CAP_PROP_POS_FRAMES, i * (length - frames) // max(count - 1, 1))
        read = [opened.read() for _ in range(frames)]
        images = [image[..., ::-1].copy() for ok, image in read if ok]
        tracks = system.run(Cases(["a"], [images]))["system"].output[0]
        write(images, tracks, folder / f"vtest-{i:02d}")


def write(images: list[np.ndarray], tracks: Tracks, folder: Path) -> None:
    """The frames, and the tracks as if they were true; the file counts from 1."""
    (folder / "img1").mkdir(parents=True, exist_ok=True)
    (folder / "gt").mkdir(exist_ok=True)
    for t, image in enumerate(images, start=1):
        cv2.imwrite(str(folder / "img1" / f"{t:06d}.png"), image[..., ::-1])
    rows = zip(tracks.step, tracks.ids, tracks.xyxy, strict=True)
    lines = [
        f"{t + 1},{i},{x1 + 1:g},{y1 + 1:g},{x2 - x1:g},{y2 - y1:g},1,1,1"
        for t, i, (x1, y1, x2, y2) in rows
    ]
    (folder / "gt" / "gt.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sequences(Path(sys.argv[1]) if len(sys.argv) > 1 else VIDEO, CACHE)
