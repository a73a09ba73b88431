"""What single items are made of where an array or a ``str`` is not enough: boxes, tracks, waves,
episodes.

>>> boxes = Boxes.of([[0, 0, 2, 2], [1, 1, 3, 3]], labels=[0, 1])
>>> len(boxes), boxes.scores.tolist()
(2, [1.0, 1.0])

What a user's function returned, read forgivingly: the forms that detectors, trackers and
recognisers give by themselves.

What cannot be read is handed back as it is, and the kind's `problem` then says what would be right.
Tensors of other packages are read through ``__array__``, after ``detach`` and ``cpu`` where they
have them.

>>> as_boxes({"boxes": [[0, 0, 2, 2]], "scores": [0.5]}).scores.tolist()
[0.5]
>>> as_tracks([[7, 0, 0, 2, 2]]).ids.tolist()
[7]
>>> described({"a": 1, "b": 2})
'is dict with the keys a, b'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Boxes:
    """Detections or true objects of one image: corners (n, 4) as x1 y1 x2 y2, class index, score."""

    xyxy: np.ndarray
    labels: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, xyxy: Any, labels: Any = None, scores: Any = None) -> Boxes:
        """Boxes from anything array-like; labels default to 0 and scores to 1."""
        corners = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
        n = len(corners)
        return cls(
            corners,
            np.zeros(n, dtype=np.int64)
            if labels is None
            else np.asarray(labels, dtype=np.int64).reshape(-1),
            np.ones(n) if scores is None else np.asarray(scores, dtype=np.float64).reshape(-1),
        )

    def __len__(self) -> int:
        return len(self.xyxy)


@dataclass(frozen=True)
class Tracks:
    """Objects with identity over the steps of one case: one row an object and step."""

    step: np.ndarray
    ids: np.ndarray
    xyxy: np.ndarray

    @classmethod
    def of(cls, step: Any, ids: Any, xyxy: Any) -> Tracks:
        """Tracks from anything array-like."""
        return cls(
            np.asarray(step, dtype=np.int64).reshape(-1),
            np.asarray(ids, dtype=np.int64).reshape(-1),
            np.asarray(xyxy, dtype=np.float64).reshape(-1, 4),
        )

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class Audio:
    """A mono wave, float32 in [-1, 1], and its sampling rate in Hz."""

    wave: np.ndarray
    rate: int


@dataclass(frozen=True)
class Episode:
    """What happened over the steps of one case: the turns, and what came of it."""

    turns: tuple[Mapping[str, Any], ...]
    outcome: Mapping[str, Any]


@dataclass(frozen=True)
class Unreadable:
    """Stands where an input could not be read; the case is recorded as failed with this reason."""

    reason: str


CORNERS = ("boxes", "xyxy")
"""Names under which a dict may hold the corners."""


def as_array(item: Any) -> Any:
    """A tensor of another package as a numpy array; anything else as it is."""
    if isinstance(item, np.ndarray | np.generic) or not hasattr(item, "__array__"):
        return item
    for strip in ("detach", "cpu"):
        item = getattr(item, strip)() if hasattr(item, strip) else item
    return np.asarray(item)


def as_row(item: Any) -> Any:
    """One row of numbers: a row in a table of one row is that row."""
    item = as_array(item)
    if isinstance(item, list | tuple):
        item = [as_array(part) for part in item]
    array = _numbers(item)
    return array[0] if array is not None and array.ndim == 2 and len(array) == 1 else item


def as_vector(item: Any) -> Any:
    """One row of numbers; a single number is a row of one."""
    array = _numbers(as_row(item))
    return item if array is None else np.atleast_1d(array)


def as_whole(item: Any) -> Any:
    """A whole number, out of an array or tensor of one."""
    array = np.asarray(as_array(item)) if hasattr(item, "__array__") else None
    return (
        int(array.reshape(-1)[0])
        if array is not None and array.size == 1 and array.dtype.kind in "iub"
        else item
    )


def as_boxes(item: Any) -> Any:
    """Boxes from a dict with boxes, labels and scores, or from rows of x1 y1 x2 y2 [score [label]]."""
    if isinstance(item, Boxes):
        return item
    if isinstance(item, Mapping):
        corners = next((_table(item[k], 4) for k in CORNERS if k in item), None)
        parts = [as_array(item.get(k)) for k in ("labels", "scores")]
        return item if corners is None else _made(Boxes.of, item, corners, *parts)
    table = _table(item, 4, 5, 6)
    if table is None:
        return item
    labels = table[:, 5] if table.shape[1] == 6 else None
    return _made(Boxes.of, item, table[:, :4], labels, table[:, 4] if table.shape[1] > 4 else None)


def as_tracks(item: Any) -> Any:
    """Tracks from a dict with ids, boxes and (for a whole case) steps, or from rows of [step] id x1
    y1 x2 y2."""
    if isinstance(item, Tracks):
        return item
    if isinstance(item, Mapping):
        corners = next((_table(item[k], 4) for k in CORNERS if k in item), None)
        if corners is None or "ids" not in item:
            return item
        steps = next(
            (as_array(item[k]) for k in ("steps", "step") if k in item), np.zeros(len(corners))
        )
        return _made(Tracks.of, item, steps, as_array(item["ids"]), corners)
    table = _table(item, 5, 6)
    if table is None:
        return item
    steps = table[:, 0] if table.shape[1] == 6 else np.zeros(len(table))
    return _made(Tracks.of, item, steps, table[:, -5], table[:, -4:])


def as_text(item: Any) -> Any:
    """A text, out of a dict with one under text."""
    return item["text"] if isinstance(item, Mapping) and isinstance(item.get("text"), str) else item


def described(item: Any) -> str:
    """What was found, as the end of a sentence."""
    kind = type(item).__name__
    if isinstance(item, Mapping):
        return (
            f"is {kind} with the keys {', '.join(map(str, item))}"
            if item
            else f"is an empty {kind}"
        )
    array = as_array(item)
    if isinstance(array, np.ndarray):
        return f"is {kind} of shape {array.shape}"
    return f"is {kind} of {len(item)} items" if isinstance(item, list | tuple) else f"is {kind}"


def _numbers(item: Any) -> np.ndarray | None:
    """The item as an array of numbers, or None."""
    try:
        array = np.asarray(as_array(item))
    except (ValueError, TypeError):
        return None
    return array if array.dtype.kind in "fiub" else None


def _table(item: Any, *widths: int) -> np.ndarray | None:
    """Rows of one of these widths; no rows at all are a table of the first."""
    if isinstance(item, list | tuple):
        item = [
            [as_array(cell) for cell in part] if isinstance(part, list | tuple) else as_array(part)
            for part in item
        ]
    array = None if isinstance(item, str) else _numbers(item)
    if array is not None and array.size == 0 and array.ndim <= 2:
        return np.zeros((0, widths[0]))
    return array if array is not None and array.ndim == 2 and array.shape[1] in widths else None


def _made(build: Any, item: Any, *parts: Any) -> Any:
    """What `build` makes of the parts; the item itself where they are no numbers."""
    try:
        return build(*parts)
    except (ValueError, TypeError):
        return item
