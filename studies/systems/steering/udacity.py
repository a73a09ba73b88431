"""Udacity challenge 2 as pairs of consecutive frames: ``udacity.py TABLE IMAGES OUT``.

TABLE is ``interpolated.csv`` (columns frame_id, filename, angle; only the centre camera is read) or
``final_example.csv`` (frame_id, steering_angle; images are named after frame_id). OUT gets the
images, each frame below the one before it, and ``pairs.csv`` for ``data: {test: {csv: pairs.csv,
images: pairs, target: [steering]}}``. Frames more than `GAP` seconds apart are not consecutive.
"""

from __future__ import annotations

import csv
import itertools
import sys
from pathlib import Path

import cv2
import numpy as np
from scenes import HEIGHT, WIDTH

GAP = 0.2
NANO = 1e-9
"""Frames are named after the nanosecond in which they were taken."""


def frames(table: Path, images: Path) -> list[tuple[int, Path, float]]:
    """Time, file and angle of the centre camera's frames, in order of time."""
    found = []
    with table.open(newline="") as file:
        for line in csv.DictReader(file):
            if "filename" in line:
                if line["frame_id"] == "center_camera":
                    path = images / line["filename"]
                    found.append((int(path.stem), path, float(line["angle"])))
                continue
            (path, *_) = sorted(images.glob(f"{line['frame_id']}.*")) or [images / line["frame_id"]]
            found.append((int(line["frame_id"]), path, float(line["steering_angle"])))
    return sorted(found)


def pairs(table: Path, images: Path, out: Path) -> int:
    """Write the pairs; the number of them."""
    (out / "pairs").mkdir(parents=True, exist_ok=True)
    rows = []
    known = frames(table, images)
    for (earlier, before, _), (time, now, angle) in itertools.pairwise(known):
        if (time - earlier) * NANO <= GAP:
            both = np.concatenate([_read(before), _read(now)])
            cv2.imwrite(str(out / "pairs" / f"{now.stem}.png"), both)
            rows.append((f"{now.stem}.png", angle))
    with (out / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "steering"), *rows])
    return len(rows)


def _read(file: Path) -> np.ndarray:
    """The lower two thirds of the image (above is sky), in the size of the rendered roads."""
    image = cv2.imread(str(file))
    if image is None:
        raise SystemExit(f"{file} cannot be read as an image; restore it or drop its line")
    return cv2.resize(image[len(image) // 3 :], (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__.partition("\n")[0])
    print(f"{pairs(*map(Path, sys.argv[1:]))} pairs")
