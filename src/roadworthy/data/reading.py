"""What a user's function returned, read forgivingly: the forms that detectors, trackers and recognisers give by themselves.

What cannot be read is handed back as it is, and the kind's `problem` then says what would be right. Tensors of other packages
are read through ``__array__``, after ``detach`` and ``cpu`` where they have them.

>>> boxes({"boxes": [[0, 0, 2, 2]], "scores": [0.5]}).scores.tolist()
[0.5]
>>> tracks([[7, 0, 0, 2, 2]]).ids.tolist()
[7]
>>> described({"a": 1, "b": 2})
'is dict with the keys a, b'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.data.items import Boxes, Tracks

CORNERS = ("boxes", "xyxy")
"""Names under which a dict may hold the corners."""


def plain(item: Any) -> Any:
    """A tensor of another package as a numpy array; anything else as it is."""
    if isinstance(item, np.ndarray | np.generic) or not hasattr(item, "__array__"):
        return item
    for strip in ("detach", "cpu"):
        item = getattr(item, strip)() if hasattr(item, strip) else item
    return np.asarray(item)


def row(item: Any) -> Any:
    """One row of numbers: a row in a table of one row is that row."""
    item = plain(item)
    if isinstance(item, list | tuple):
        item = [plain(part) for part in item]
    array = _numbers(item)
    return array[0] if array is not None and array.ndim == 2 and len(array) == 1 else item


def vector(item: Any) -> Any:
    """One row of numbers; a single number is a row of one."""
    array = _numbers(row(item))
    return item if array is None else np.atleast_1d(array)


def whole(item: Any) -> Any:
    """A whole number, out of an array or tensor of one."""
    array = np.asarray(plain(item)) if hasattr(item, "__array__") else None
    return (
        int(array.reshape(-1)[0])
        if array is not None and array.size == 1 and array.dtype.kind in "iub"
        else item
    )


def boxes(item: Any) -> Any:
    """Boxes from a dict with boxes, labels and scores, or from rows of x1 y1 x2 y2 [score [label]]."""
    if isinstance(item, Boxes):
        return item
    if isinstance(item, Mapping):
        corners = next((_table(item[k], 4) for k in CORNERS if k in item), None)
        parts = [plain(item.get(k)) for k in ("labels", "scores")]
        return item if corners is None else _made(Boxes.of, item, corners, *parts)
    table = _table(item, 4, 5, 6)
    if table is None:
        return item
    labels = table[:, 5] if table.shape[1] == 6 else None
    return _made(Boxes.of, item, table[:, :4], labels, table[:, 4] if table.shape[1] > 4 else None)


def tracks(item: Any) -> Any:
    """Tracks from a dict with ids, boxes and (for a whole case) steps, or from rows of [step] id x1 y1 x2 y2."""
    if isinstance(item, Tracks):
        return item
    if isinstance(item, Mapping):
        corners = next((_table(item[k], 4) for k in CORNERS if k in item), None)
        if corners is None or "ids" not in item:
            return item
        steps = next(
            (plain(item[k]) for k in ("steps", "step") if k in item), np.zeros(len(corners))
        )
        return _made(Tracks.of, item, steps, plain(item["ids"]), corners)
    table = _table(item, 5, 6)
    if table is None:
        return item
    steps = table[:, 0] if table.shape[1] == 6 else np.zeros(len(table))
    return _made(Tracks.of, item, steps, table[:, -5], table[:, -4:])


def text(item: Any) -> Any:
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
    array = plain(item)
    if isinstance(array, np.ndarray):
        return f"is {kind} of shape {array.shape}"
    return f"is {kind} of {len(item)} items" if isinstance(item, list | tuple) else f"is {kind}"


def _numbers(item: Any) -> np.ndarray | None:
    """The item as an array of numbers, or None."""
    try:
        array = np.asarray(plain(item))
    except (ValueError, TypeError):
        return None
    return array if array.dtype.kind in "fiub" else None


def _table(item: Any, *widths: int) -> np.ndarray | None:
    """Rows of one of these widths; no rows at all are a table of the first."""
    if isinstance(item, list | tuple):
        item = [
            [plain(cell) for cell in part] if isinstance(part, list | tuple) else plain(part)
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
