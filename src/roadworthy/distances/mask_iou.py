"""One minus the mean IoU of the classes in two masks: how far two answers of a segmentation lie apart.

The background (0) counts only if there is nothing else. No pixel is ignored: both masks are answers.

>>> mask_iou(np.array([[0, 1, 1, 2]]), np.array([[0, 0, 1, 2]]))
0.25
"""

from __future__ import annotations

import numpy as np

from roadworthy.distances.overlap import mask_overlap
from roadworthy.registry import register


@register("distances", "mask_iou", of=("mask",), default=("mask",), bounded=True)
def mask_iou(first: np.ndarray, second: np.ndarray) -> float:
    """One minus the mean IoU over the classes in either mask."""
    return 1.0 - mask_overlap(first, second).iou()
