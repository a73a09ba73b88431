"""Pictures with exact boxes, written as COCO files, and the command that makes a study's data.

Pictures come in groups (the pictures of a day, the sections of a patient); a group stands in one
set alone. Sets of one study are drawn from the same distribution, with other random numbers.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

SEED = 2024
FAINTEST = 0.25
"""A pixel of which an object covers less is not the object's."""
LEAST_SEEN = 0.3
"""An object of which less is visible does not count in the ground truth."""
Draw = Callable[[np.random.Generator, int], "list[Picture]"]
"""Draws the group of a number."""


class Picture(NamedTuple):
    """An image, its objects (corners, class index, pixels seen), and what is known about it."""

    image: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    areas: np.ndarray
    known: Mapping[str, Any]


def picture(image: np.ndarray, masks: list, whole: list, labels: list, known: dict) -> Picture:
    """With the objects of which enough is seen, by masks of what is seen and whole areas."""
    areas = np.array([np.count_nonzero(mask) for mask in masks], int)
    kept = np.flatnonzero(areas >= LEAST_SEEN * np.array(whole))
    boxes = np.array([hull(masks[i]) for i in kept], int).reshape(-1, 4)
    return Picture(image, boxes, np.array(labels, int)[kept], areas[kept], known)


def hull(mask: np.ndarray) -> tuple[int, int, int, int]:
    """x1 y1 x2 y2 of the smallest box around the pixels of a mask.

    >>> hull(np.eye(5)[1:4] > 0)
    (1, 0, 4, 3)
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def groups(draw: Draw, count: int, stream: int) -> list[list[Picture]]:
    """So many groups; each has random numbers of its own."""
    return [draw(np.random.default_rng([SEED, stream, i]), i) for i in range(count)]


def write(
    found: Sequence[Sequence[Picture]], folder: Path, name: str, group: str, classes: Sequence[str]
) -> None:
    """`name`.json (COCO), `name`.csv (what is known about each picture) and the folder `name`."""
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir(parents=True)
    pictures = [(f"{name}-{g:03d}", one) for g, several in enumerate(found) for one in several]
    images, annotations, rows = [], [], []
    for i, (owner, one) in enumerate(pictures, start=1):
        file = f"{name}-{i:04d}.png"
        colours = one.image[..., ::-1] if one.image.ndim == 3 else one.image
        cv2.imwrite(str(folder / name / file), colours, [cv2.IMWRITE_PNG_COMPRESSION, 9])
        height, width = one.image.shape[:2]
        images.append({"id": i, "file_name": file, "width": width, "height": height})
        rows.append({"id": file, group: owner, **one.known})
        for (x1, y1, x2, y2), label, area in zip(one.boxes, one.labels, one.areas, strict=True):
            box = [v.item() for v in (x1, y1, x2 - x1, y2 - y1)]
            place = {"id": len(annotations) + 1, "image_id": i, "category_id": int(label) + 1}
            annotations.append({**place, "bbox": box, "area": area.item(), "iscrowd": 0})
    categories = [{"id": k, "name": c} for k, c in enumerate(classes, start=1)]
    whole = {"images": images, "annotations": annotations, "categories": categories}
    (folder / f"{name}.json").write_text(json.dumps(whole))
    with (folder / f"{name}.csv").open("w", newline="") as table:
        writer = csv.DictWriter(table, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main(
    draw: Draw, *, home: Path, group: str, classes: Sequence[str], sets: Mapping[str, int]
) -> None:
    """Write a study's sets of so many groups; with ``--train``, train its detector too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true", help="train the detector too")
    train = parser.parse_args().train
    for stream, (name, count) in enumerate(sets.items()):
        found = groups(draw, count, stream)
        write(found, home.parent / "cache" / home.name, name, group, classes)
    if train:
        import detector

        count = detector.TRAINED_ON // len(found[0])
        pictures = [one for several in groups(draw, count, len(sets)) for one in several]
        detector.train(getattr(detector, home.name), pictures, home / "detector.safetensors")
