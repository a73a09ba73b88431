"""Data sets of MAITE's object detection, read as ours and made of ours; the package itself is not needed.

MAITE knows a data set by its form: ``dataset[i]`` is an image (channels, height, width), a target with `boxes` (n, 4) as
x1 y1 x2 y2 in pixels, `labels` and `scores`, and a dict with an `id`; ``dataset.metadata["index2label"]`` names the labels.

>>> from roadworthy.data.values import BOXES, IMAGE
>>> truth = [Boxes.of([[0, 0, 4, 2]], labels=[1]), Boxes.of([])]
>>> ours = Dataset("toy", IMAGE, np.zeros((2, 8, 6, 3), np.uint8), BOXES, truth, classes=("cat", "dog"))
>>> theirs = MaiteDataset(ours)
>>> image, target, about = theirs[0]
>>> image.shape, target.boxes.tolist(), target.labels.tolist(), about, theirs.metadata["index2label"]
((3, 8, 6), [[0.0, 0.0, 4.0, 2.0]], [1], {'id': '0'}, {0: 'cat', 1: 'dog'})
>>> read_maite(theirs, "test").targets[1].boxes.shape
(0, 4)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.data.loaders.joining import class_names
from roadworthy.data.samples import DataError, Dataset
from roadworthy.data.values import BOXES, IMAGE, Boxes, Unreadable, as_array


class MaiteDataset:
    """A data set of images with boxes for MAITE's tools; regions to ignore are left out, since MAITE has none."""

    def __init__(self, data: Dataset) -> None:
        if data.input_kind is not IMAGE or data.target_kind is not BOXES or data.targets is None:
            raise DataError(f"the data set {data.name!r} has no images with boxes")
        self.data = data
        names = dict(enumerate(data.classes or ()))
        self.metadata = {"id": data.name, **({"index2label": names} if names else {})}

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int, /) -> tuple[np.ndarray, Boxes, dict[str, Any]]:
        sample = self.data.sample(range(len(self))[index])
        if isinstance(sample.input, Unreadable):
            raise DataError(sample.input.reason)
        about = {k: v.item() if hasattr(v, "item") else v for k, v in sample.metadata.items()}
        return channels_first(sample.input), judged(sample.target), {**about, "id": sample.id}


def is_maite_dataset(found: Any) -> bool:
    """Whether it has the form of a MAITE data set."""
    items = hasattr(found, "__getitem__") and hasattr(found, "__len__")
    return items and isinstance(getattr(found, "metadata", None), Mapping)


def read_maite(
    dataset: Any,
    name: str,
    *,
    names: Mapping[int, str] | None = None,
    groups: str | Sequence[Any] | None = None,
) -> Dataset:
    """A MAITE data set as ours; `names` are those of the labels if it has none, `groups` one a row or a key of metadata."""
    names = index_to_label(dataset) or names or {}
    targets, abouts = [], []
    for row in range(len(dataset)):
        _, target, about = dataset[row]
        found = maite_boxes(target, names, where=f"the target of {about['id']!r}")
        targets.append(replace(found, scores=np.ones(len(found))))
        abouts.append(dict(about))
    data = Dataset(
        name,
        IMAGE,
        MaiteImages(dataset, tuple(range(len(dataset)))),
        BOXES,
        targets,
        ids=np.array([str(about["id"]) for about in abouts], dtype=object),
        metadata=_columns(abouts),
        classes=class_names(list(names.values())) if names else None,
    )
    if groups is None:
        return data
    of_rows = data.column(groups) if isinstance(groups, str) else groups
    return replace(data, groups=np.array([str(g) for g in of_rows], dtype=object))


def index_to_label(holder: Any) -> dict[int, str]:
    """The names of labels in the metadata of a MAITE data set or model, in the order of the numbers."""
    given = holder.metadata.get("index2label") or {}
    return {number: str(name) for number, name in sorted((int(k), v) for k, v in given.items())}


@dataclass(frozen=True)
class MaiteImages:
    """The images of a MAITE data set, read when asked for."""

    dataset: Any
    rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> Any:
        chosen = self.rows[rows]
        return self._read(chosen) if isinstance(chosen, int) else list(map(self._read, chosen))

    def pick(self, rows: Sequence[int] | np.ndarray) -> MaiteImages:
        """Some of the images, in the order given, still unread."""
        return replace(self, rows=tuple(self.rows[int(i)] for i in rows))

    def _read(self, row: int) -> Any:
        try:
            return channels_last(self.dataset[row][0])
        except Exception as error:
            return Unreadable(f"{type(error).__name__}: {error}")


def maite_boxes(target: Any, names: Mapping[int, str] | None = None, *, where: str) -> Boxes:
    """The boxes of a MAITE target; a label becomes its place among `names`, if there are any."""
    parts = [as_array(getattr(target, part, None)) for part in ("boxes", "labels", "scores")]
    if any(part is None for part in parts):
        raise DataError(
            f"{where} is {type(target).__name__}; boxes, labels and scores were expected"
        )
    corners, labels, scores = map(np.asarray, parts)
    if corners.size and corners.shape[1:] != (4,):
        raise DataError(f"{where} has boxes of shape {corners.shape}; (n, 4) was expected")
    labels = labels.reshape(-1).astype(np.int64)
    unknown = sorted(set(labels.tolist()) - set(names)) if names else []
    if unknown:
        raise DataError(f"{where} has the label {unknown[0]}, which index2label does not name")
    if names:
        labels = np.searchsorted(list(names), labels)
    # Scores may be one a class, (n, classes): that of the label is the highest.
    found = Boxes.of(corners, labels, scores.max(axis=1, initial=0) if scores.ndim == 2 else scores)
    problem = BOXES.problem(found)
    if problem:
        raise DataError(f"{where} {problem}")
    return found


def judged(boxes: Boxes) -> Boxes:
    """The boxes without regions to ignore."""
    kept = ~boxes.ignore
    return Boxes.of(boxes.xyxy[kept], boxes.labels[kept], boxes.scores[kept])


def channels_first(image: Any) -> np.ndarray:
    """An image (height, width) or (height, width, channels) as MAITE has it."""
    pixels = np.asarray(image)
    return np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def channels_last(image: Any) -> np.ndarray:
    """A MAITE image (channels, height, width) as ours; one channel is grey (height, width)."""
    pixels = np.asarray(as_array(image))
    if pixels.ndim != 3 or len(pixels) not in (1, 3, 4):
        raise DataError(
            f"an image has the shape {pixels.shape}; (1, 3 or 4, height, width) was expected"
        )
    if pixels.dtype.kind == "f" and pixels.size and not (pixels.min() >= 0 and pixels.max() <= 1):
        raise DataError("an image has floats beyond 0 to 1; give these, or uint8 from 0 to 255")
    return np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))


def _columns(abouts: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Metadata that every row has as a number or a text."""
    found = {}
    for key in abouts[0] if abouts else ():
        cells = [as_array(about.get(key)) for about in abouts]
        if key != "id" and all(isinstance(c, str | int | float | np.generic) for c in cells):
            column = np.array(cells)
            found[key] = column if column.dtype.kind in "iuf" else np.array(cells, dtype=object)
    return found
