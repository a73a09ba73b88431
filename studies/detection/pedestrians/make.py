"""Takes frames from OpenCV's pedestrian video; what the people detector finds surely in the clean
frames is the reference: ``python studies/detection/pedestrians/make.py [vtest.avi]``.

The video comes with Debian's package opencv-doc and has no ground truth."""

import sys
from pathlib import Path

import cv2
import numpy as np

from roadworthy.subject.adapters.loading import resolve_path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from dataset import Picture, write  # noqa: E402

PEOPLE = HERE.parents[1] / "systems" / "pedestrians"
VIDEO = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")
CLIPS, FRAMES, APART = 12, 4, 10
SURE = 0.5
"""The margin of the decision from which on a detection is part of the reference."""


def clips(video: Path, *, count: int = CLIPS, frames: int = FRAMES) -> list[list[Picture]]:
    """Clips spread over the video, each of some frames that follow one another."""
    detect = resolve_path("system.py:detect", PEOPLE).target
    opened = cv2.VideoCapture(str(video))
    length = int(opened.get(cv2.CAP_PROP_FRAME_COUNT))
    if not length:
        raise SystemExit(f"{video} cannot be read: apt-get install opencv-doc, or name the video")
    found: list[list[Picture]] = []
    for start in np.linspace(0, length - APART * frames, count).astype(int):
        found.append([])
        for step in range(frames):
            opened.set(cv2.CAP_PROP_POS_FRAMES, int(start) + APART * step)
            image = opened.read()[1][..., ::-1].copy()
            boxes = detect(image)
            corners = boxes.xyxy[boxes.scores >= SURE]
            area = (corners[:, 2:] - corners[:, :2]).prod(axis=1)
            found[-1].append(Picture(image, corners, np.zeros(len(corners), int), area, {}))
    return found


if __name__ == "__main__":
    given = clips(Path(sys.argv[1]) if len(sys.argv) > 1 else VIDEO)
    write(given, HERE.parent / "cache" / HERE.name, "test", "clip", ("person",))
