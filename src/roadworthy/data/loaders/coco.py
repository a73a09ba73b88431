"""Detection and segmentation in the COCO format: one JSON file of images, annotations and categories, and a folder of images.

Boxes come as x, y, width, height and leave as corners; classes stand in the order of the category ids; an image without
boxes stays in. Crowds are regions to ignore; the metadata columns `objects` and `crowds` count both. An annotation's `area`
says whether an object is small, medium or large; without it, the area of its box does.

Masks are drawn from the polygons: a pixel is of a class if its centre lies inside, and of the later annotation if several
do. Class 0 is the background, and the categories follow; crowds are ignored.

>>> corners([10, 20, 5, 6])
(10.0, 20.0, 15.0, 26.0)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.data.loaders.boxes import Corners, Size, sound_corners
from roadworthy.data.loaders.files import Files, located, read_image, read_json
from roadworthy.data.loaders.joining import Samples, class_names, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import BOXES, IGNORED, IMAGE, MASK, Boxes
from roadworthy.registry import did_you_mean, register

BACKGROUND = "background"


@register(
    "loaders",
    "coco",
    keys=("coco", "images"),
    gives={"inputs": ("image",), "targets": ("boxes", "mask")},
)
@reads
def coco(
    *,
    path: str,
    images: str,
    targets: Literal["boxes", "mask"] = "boxes",
    base: Path = Path(),
    classes: tuple[str, ...] | None = None,
) -> Samples:
    """Images with boxes, or with masks for segmentation, from a COCO annotation file; the id of a sample is its file name."""
    file = located(path, base=base, what="coco")
    folder = located(images, base=base, what="images", folder=True)
    document = _sections(file, read_json(file))
    pictures = _by_id(file, "images", document["images"], needs=("id", "file_name"))
    names, index = _categories(file, document["categories"], classes)
    found = _boxes(file, document["annotations"], pictures, index)
    truth: list[Boxes] | DrawnMasks = found
    if targets == "mask":
        if names[:1] != (BACKGROUND,):
            names = (BACKGROUND, *names)
            index = {category: label + 1 for category, label in index.items()}
        truth = _masks(file, document["annotations"], pictures, index)
    files = [str(p["file_name"]) for p in pictures.values()]
    return Samples(
        name=file.name,
        source=folder,
        input_kind=IMAGE,
        inputs=Files(tuple(folder / f for f in files), read_image),
        target_kind=BOXES if targets == "boxes" else MASK,
        targets=truth,
        ids=files,
        columns={
            "objects": np.array([int((~b.ignore).sum()) for b in found]),
            "crowds": np.array([int(b.ignore.sum()) for b in found]),
        },
        classes=names,
        notes=_without_area(document["annotations"]) if targets == "boxes" else (),
    )


def corners(bbox: Sequence[float]) -> Corners:
    """x1 y1 x2 y2 of x y width height."""
    x, y, width, height = (float(v) for v in bbox)
    return x, y, x + width, y + height


def coco_document(
    pictures: Iterable[tuple[str, Boxes, Size]], names: Sequence[str]
) -> dict[str, Any]:
    """The content of a COCO file, of file names, objects and sizes; categories are numbered from 1.

    An object to ignore of which a transform left nothing is left out.

    >>> truth = Boxes.of([[10, 20, 15, 26]], ignore=[True])
    >>> coco_document([("a.png", truth, Size(40, 30))], ["dog"])["annotations"][0]["bbox"]
    [10.0, 20.0, 5.0, 6.0]
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, (file, boxes, size) in enumerate(pictures, start=1):
        images.append({"id": number, "file_name": file, **size._asdict()})
        columns = boxes.xyxy, boxes.labels, boxes.areas, boxes.ignore
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for (x1, y1, x2, y2), label, area, ignore in rows:
            if ignore and not (x2 > x1 and y2 > y1):
                continue
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": label + 1,
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": area,
                    "iscrowd": int(ignore),
                }
            )
    categories = [{"id": i, "name": name} for i, name in enumerate(names, start=1)]
    return {"images": images, "annotations": annotations, "categories": categories}


def _sections(file: Path, document: Any) -> Mapping[str, list[Any]]:
    for section in ("images", "annotations", "categories"):
        if not isinstance(document, Mapping) or not isinstance(document.get(section), list):
            found = (
                ", ".join(map(str, document))
                if isinstance(document, Mapping)
                else type(document).__name__
            )
            raise DataError(
                f"{file}: has no list {section!r} (found: {found}); a COCO file has images, annotations and categories"
            )
    return document


def _by_id(
    file: Path, section: str, entries: list[Any], needs: tuple[str, ...]
) -> dict[Any, Mapping[str, Any]]:
    known: dict[Any, Mapping[str, Any]] = {}
    for at, entry in enumerate(entries):
        missing = [n for n in needs if not isinstance(entry, Mapping) or n not in entry]
        if missing:
            raise DataError(
                f"{file}: {section}[{at}] has no {missing[0]!r}; every one needs {' and '.join(needs)}"
            )
        if not isinstance(entry["id"], int | str):
            raise DataError(
                f"{file}: {section}[{at}] has the id {entry['id']!r}; a number or a text was expected"
            )
        if entry["id"] in known:
            raise DataError(
                f"{file}: {section}[{at}] has the id {entry['id']!r}, which occurs twice; ids must be unique"
            )
        known[entry["id"]] = entry
    return known


def _categories(
    file: Path, entries: list[Any], classes: tuple[str, ...] | None
) -> tuple[tuple[str, ...], dict[Any, int]]:
    known = _by_id(file, "categories", entries, needs=("id", "name"))
    names = {i: str(known[i]["name"]) for i in sorted(known, key=lambda i: (isinstance(i, str), i))}
    order = classes or class_names(list(names.values())) or ()
    for i, category in names.items():
        if category not in order:
            raise DataError(
                f"{file}: category {i} is {category!r}, none of the classes given{did_you_mean(category, order)}; "
                "name it under classes, or leave classes out"
            )
    return order, {i: order.index(category) for i, category in names.items()}


def _boxes(
    file: Path,
    annotations: list[Any],
    pictures: Mapping[Any, Mapping[str, Any]],
    index: Mapping[Any, int],
) -> list[Boxes]:
    found: dict[Any, list[tuple[Any, ...]]] = {i: [] for i in pictures}
    for at, entry in enumerate(annotations):
        where = f"{file}: annotations[{at}] (id {entry.get('id') if isinstance(entry, Mapping) else '?'})"
        for key, known, remedy in (
            ("image_id", pictures, "image"),
            ("category_id", index, "category"),
        ):
            if not isinstance(entry, Mapping) or key not in entry:
                raise DataError(
                    f"{where} has no {key!r}; every annotation needs image_id, category_id and bbox"
                )
            if not isinstance(entry[key], int | str) or entry[key] not in known:
                raise DataError(
                    f"{where} is of the {remedy} {entry[key]!r}, which the file does not list; add it or drop the annotation"
                )
        picture = pictures[entry["image_id"]]
        box = _checked(where, entry.get("bbox"), picture)
        area = _area(where, entry.get("area"), box)
        label = index[entry["category_id"]]
        found[entry["image_id"]].append((box, label, 1.0, bool(entry.get("iscrowd")), area))
    return [Boxes.of(*zip(*rows, strict=True)) if rows else Boxes.of([]) for rows in found.values()]


def _area(where: str, area: Any, box: Corners) -> float:
    """The annotation's area, or that of its box."""
    if area is None:
        return (box[2] - box[0]) * (box[3] - box[1])
    if isinstance(area, int | float) and 0 <= area < math.inf:
        return float(area)
    raise DataError(f"{where} has the area {area!r}; a number of pixels was expected: correct it")


def _without_area(annotations: list[Any]) -> tuple[str, ...]:
    missing = sum(entry.get("area") is None for entry in annotations)
    if not missing:
        return ()
    return (
        f"{missing} of {len(annotations)} annotations have no area. The area of the box says "
        "whether the object is small, medium or large.",
    )


def _checked(where: str, bbox: Any, picture: Mapping[str, Any]) -> Corners:
    try:
        found = corners(bbox)
    except (TypeError, ValueError):
        raise DataError(
            f"{where} has the bbox {bbox!r}; four numbers x, y, width, height were expected"
        ) from None
    width, height = (float(picture.get(side) or math.inf) for side in ("width", "height"))
    at = f"{where} of the image {picture['file_name']!r}"
    return sound_corners(at, found, Size(width, height))


class DrawnMasks(Files):
    """Masks that are drawn when asked for; in place of paths stand sizes and polygons by class."""

    def fingerprint(self) -> str:
        """A hash of what is drawn."""
        return hashlib.blake2b(repr(self.paths).encode(), digest_size=16).hexdigest()


def drawn_mask(outlines: tuple[int, int, list[tuple[int, list[Any]]]]) -> np.ndarray:
    """A mask of a height and width with polygons of classes; later ones cover earlier ones."""
    height, width, shapes = outlines
    mask = np.zeros((height, width), dtype=np.uint8)
    for label, parts in shapes:
        for polygon in (np.reshape(part, (-1, 2)) for part in parts):
            left, top = np.maximum(np.floor(polygon.min(axis=0)), 0).astype(int)
            right, bottom = np.maximum(np.ceil(polygon.max(axis=0)), 0).astype(int)
            around = mask[top:bottom, left:right]
            around[inside(polygon - (left, top), *around.shape)] = label
    return mask


def inside(polygon: np.ndarray, height: int, width: int) -> np.ndarray:
    """Which pixels have their centre in a polygon of corners x, y (even-odd rule).

    OpenCV also fills the pixels that the outline touches, and so draws small objects 15% too large.

    >>> inside(np.array([[1, 0], [3, 0], [3, 2], [1, 2]]), 2, 4).astype(int).tolist()
    [[0, 1, 1, 0], [0, 1, 1, 0]]
    """
    x, y = np.asarray(polygon, dtype=np.float64).T
    to_x, to_y = np.roll(x, -1), np.roll(y, -1)
    centre = np.arange(height) + 0.5
    edge, row = np.nonzero((y[:, None] <= centre) != (to_y[:, None] <= centre))
    crossed = x[edge] + (centre[row] - y[edge]) / (to_y - y)[edge] * (to_x - x)[edge]
    flips = np.zeros((height, width + 1), dtype=np.int32)
    np.add.at(flips, (row, np.clip(np.ceil(crossed - 0.5), 0, width).astype(np.intp)), 1)
    return np.asarray(np.cumsum(flips, axis=1)[:, :width] % 2 == 1)


def _masks(
    file: Path,
    annotations: list[Any],
    pictures: Mapping[Any, Mapping[str, Any]],
    index: Mapping[Any, int],
) -> DrawnMasks:
    """The images and categories of annotations were checked with the boxes."""
    if max(index.values(), default=0) >= IGNORED:
        raise DataError(
            f"{file}: masks hold {IGNORED - 1} categories at most, {IGNORED} is ignored"
        )
    found: dict[Any, tuple[int, int, list[Any]]] = {}
    for i, picture in pictures.items():
        if not all(isinstance(picture.get(side), int) for side in ("height", "width")):
            raise DataError(f"{file}: the image {picture['file_name']!r} needs height and width")
        found[i] = (picture["height"], picture["width"], [])
    for at, entry in enumerate(annotations):
        parts = entry.get("segmentation")
        try:
            polygons = [np.reshape(np.asarray(part, dtype=float), (-1, 2)) for part in parts]
            sound = all(len(p) > 2 and np.isfinite(p).all() for p in polygons)
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise DataError(
                f"{file}: annotations[{at}] has the segmentation {str(parts)[:60]}; polygons "
                "[[x1, y1, x2, y2, x3, y3, …]] were expected, run lengths (RLE) are not read"
            )
        label = IGNORED if entry.get("iscrowd") else index[entry["category_id"]]
        found[entry["image_id"]][2].append((label, parts))
    return DrawnMasks(tuple(found.values()), drawn_mask)
