"""Detection in the YOLO format: a text file an image, with a line ``class x y width height`` an object.

x and y are the centre of the box; all four are shares of the image's width and height, so the
images are needed. A text file has the name of its image. An image without one has no objects.

>>> corners_of([0.5, 0.5, 0.25, 0.5], Size(40, 30))
(15.0, 7.5, 25.0, 22.5)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from roadworthy.data.loaders.boxes import Corners, Size, sound_corners
from roadworthy.data.loaders.files import (
    WHOLE,
    Files,
    image_files,
    image_size,
    located,
    read_image,
    read_text,
)
from roadworthy.data.loaders.joining import Samples, class_names, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import BOXES, IMAGE, Boxes
from roadworthy.registry import register

CLASSES_FILE = "classes.txt"
"""A file of class names that annotation tools write among the labels."""


@register(
    "loaders",
    "yolo",
    keys=("yolo", "images"),
    gives={"inputs": ("image",), "targets": ("boxes",)},
)
@reads
def yolo(
    *,
    path: str,
    images: str,
    base: Path = Path(),
    classes: tuple[str, ...] | None = None,
) -> Samples:
    """Images with boxes in YOLO text files; `path` is their folder, and classes.txt in it names the classes."""
    folder = located(images, base=base, what="images", folder=True)
    labels = located(path, base=base, what="yolo", folder=True)
    files = image_files(folder)
    if (labels / CLASSES_FILE).is_file() and classes is None:
        lines = read_text(labels / CLASSES_FILE).splitlines()
        classes = class_names([line.strip() for line in lines if line.strip()])
    texts = _texts(labels, {f.relative_to(folder).with_suffix("") for f in files}, folder)
    found = [_boxes(texts.get(f.relative_to(folder).with_suffix("")), f, classes) for f in files]
    return Samples(
        source=folder,
        input_kind=IMAGE,
        inputs=Files(tuple(files), read_image),
        target_kind=BOXES,
        targets=found,
        ids=[f.relative_to(folder).as_posix() for f in files],
        classes=classes or _numbered(found),
    )


def corners_of(box: Sequence[float], size: Size) -> Corners:
    """x1 y1 x2 y2 in pixels of a centre and sides in shares of the image."""
    x, y, width, height = box
    return (
        (x - width / 2) * size.width,
        (y - height / 2) * size.height,
        (x + width / 2) * size.width,
        (y + height / 2) * size.height,
    )


def yolo_lines(boxes: Boxes, size: Size) -> str:
    """The objects of one image as the content of a YOLO file; objects to ignore are left out.

    >>> yolo_lines(Boxes.of([[15, 7.5, 25, 22.5]], labels=[2]), Size(40, 30))
    '2 0.500000 0.500000 0.250000 0.500000\\n'
    """
    lines = []
    for (x1, y1, x2, y2), label in zip(
        boxes.xyxy[~boxes.ignore], boxes.labels[~boxes.ignore], strict=True
    ):
        centre = (x1 + x2) / 2 / size.width, (y1 + y2) / 2 / size.height
        sides = (x2 - x1) / size.width, (y2 - y1) / size.height
        lines.append(f"{label} " + " ".join(f"{v:.6f}" for v in (*centre, *sides)) + "\n")
    return "".join(lines)


def _texts(labels: Path, stems: set[Path], folder: Path) -> dict[Path, Path]:
    found = {}
    for file in sorted(labels.rglob("*.txt")):
        stem = file.relative_to(labels).with_suffix("")
        if file.name == CLASSES_FILE:
            continue
        if stem not in stems:
            raise DataError(
                f"{file}: no image of that name lies in {folder}; add the image or drop the file"
            )
        found[stem] = file
    return found


def _boxes(file: Path | None, image: Path, classes: tuple[str, ...] | None) -> Boxes:
    lines = [] if file is None else read_text(file).splitlines()
    rows = [(at, line.split()) for at, line in enumerate(lines, start=1) if line.strip()]
    if not rows:
        return Boxes.of([])
    size, most = Size(*image_size(image)), len(classes) if classes else math.inf
    corners, labels = [], []
    for at, cells in rows:
        where = f"{file}, line {at}"
        try:
            label, (x, y, width, height) = cells[0], (float(cell) for cell in cells[1:])
        except (ValueError, IndexError):
            raise DataError(
                f"{where} holds {' '.join(cells)[:60]!r}; class, x, y, width and height were expected"
            ) from None
        if not WHOLE.fullmatch(label) or int(label) < 0 or int(label) >= most:
            known = f"0 to {most - 1}" if classes else "0, 1, …"
            raise DataError(f"{where} is of the class {label!r}; classes are numbered {known}")
        corners.append(sound_corners(where, corners_of((x, y, width, height), size), size))
        labels.append(int(label))
    return Boxes.of(corners, labels)


def _numbered(found: list[Boxes]) -> tuple[str, ...] | None:
    """Numbers as names, if no names are given."""
    largest = max((int(b.labels.max(initial=-1)) for b in found), default=-1)
    return tuple(str(i) for i in range(largest + 1)) or None
