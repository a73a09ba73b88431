"""Arrays of any shapes and types in few arrays: stacked where all are alike, as bytes and offsets where not.

>>> pack_arrays([np.zeros((2, 2), np.uint8)] * 3)["values"].shape
(3, 2, 2)
>>> mixed = [np.ones((1, 2), np.uint8), None, np.full((3, 1), 0.5, np.float32)]
>>> [None if a is None else a.tolist() for a in unpack_arrays(pack_arrays(mixed))]
[[[1, 1]], None, [[0.5], [0.5], [0.5]]]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

AXES = 4
"""The most axes an image or a stack of them has."""
DTYPES = ("uint8", "uint16", "float32", "float64", "bool", "int64")


def pack_arrays(items: Sequence[Any]) -> dict[str, Any]:
    """Arrays that hold the items, None included."""
    arrays = [None if i is None else np.asarray(i) for i in items]
    if (
        arrays
        and all(a is not None for a in arrays)
        and len({(a.shape, a.dtype) for a in arrays if a is not None}) == 1
    ):
        return {"values": np.stack([a for a in arrays if a is not None])}
    pieces = [b"" if a is None else np.ascontiguousarray(a).tobytes() for a in arrays]
    shapes = np.full((len(arrays), AXES), -1, dtype=np.int64)
    for row, array in enumerate(arrays):
        if array is not None:
            shapes[row, : array.ndim] = array.shape
    return {
        "offsets": np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(np.int64),
        "bytes": np.frombuffer(b"".join(pieces), dtype=np.uint8),
        "shapes": shapes,
        "types": np.array(
            [-1 if a is None else DTYPES.index(a.dtype.name) for a in arrays], dtype=np.int64
        ),
    }


def unpack_arrays(parts: dict[str, Any]) -> Any:
    """The items again."""
    if "values" in parts:
        return parts["values"]
    data = np.asarray(parts["bytes"]).tobytes()
    offsets = parts["offsets"].tolist()
    return [
        None
        if kind < 0
        else np.frombuffer(data[start:stop], dtype=DTYPES[kind]).reshape(
            [int(n) for n in shape if n >= 0]
        )
        for start, stop, shape, kind in zip(
            offsets[:-1], offsets[1:], parts["shapes"], parts["types"].tolist(), strict=True
        )
    ]


def offsets_of(lengths: Sequence[int]) -> np.ndarray:
    """Where each of several items begins and ends among the values of all.

    >>> offsets_of([2, 0, 1]).tolist()
    [0, 2, 2, 3]
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def spans(offsets: np.ndarray) -> list[slice]:
    """Where each item lies among the values."""
    return [slice(a, b) for a, b in itertools.pairwise(np.asarray(offsets).tolist())]
