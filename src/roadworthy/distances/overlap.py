"""How much boxes overlap: intersection over union (seed 000, eq. 8), for distances and measures alike.

>>> box_iou(np.array([0.0, 0.0, 2.0, 2.0]), np.array([[0.0, 0.0, 1.0, 2.0], [3.0, 3.0, 4.0, 4.0]])).tolist()
[0.5, 0.0]
"""

from __future__ import annotations

import numpy as np


def box_iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes x1 y1 x2 y2 along the last axis, broadcast over the others; 0 for two empty boxes."""
    corner = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2])
    shared = np.prod(np.maximum(corner, 0.0), axis=-1)
    union = _area(first) + _area(second) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _area(boxes: np.ndarray) -> np.ndarray:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
