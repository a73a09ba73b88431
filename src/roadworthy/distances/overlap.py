"""How much boxes overlap: intersection over union (Wang et al. 2022, eq. 8), for distances and measures alike.

>>> box_iou(np.array([0.0, 0.0, 2.0, 2.0]), np.array([[0.0, 0.0, 1.0, 2.0], [3.0, 3.0, 4.0, 4.0]])).tolist()
[0.5, 0.0]
"""

from __future__ import annotations

import numpy as np


def box_iou(
    first: np.ndarray, second: np.ndarray, *, of_first: np.ndarray | None = None
) -> np.ndarray:
    """Intersection over union of boxes x1 y1 x2 y2 along the last axis, broadcast over the others; 0 for two empty boxes.

    Where `of_first` is true, the intersection is divided by the area of the first box instead.
    """
    # Axis by axis, since four numbers along the last one are far too few for numpy to be quick.
    shared = _shared(first, second, 0) * _shared(first, second, 1)
    union = box_area(first) + box_area(second) - shared
    if of_first is not None:
        union = np.where(of_first, box_area(first), union)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _shared(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    length = np.minimum(first[..., axis + 2], second[..., axis + 2]) - np.maximum(
        first[..., axis], second[..., axis]
    )
    return np.maximum(length, 0.0)


def box_area(boxes: np.ndarray) -> np.ndarray:
    """Width times height."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
