"""One minus the mean IoU of two sets of boxes, matched as well as they can be (Wang et al. 2022, table 3 and eq. 8).

Boxes of one class are matched one to one so that the sum of their IoU is largest. Every box that is left over is as far as can be,
so the distance is ``1 - (sum of IoU) / max(n, m)``. That is the OSPA metric of Schuhmacher, Vo and Vo (2008) of order 1 with the
base distance 1 - IoU and cut-off 1: it obeys the triangle inequality, and it does not jump when a pair stops touching. Scores are
not read: what a detector puts out counts.

>>> iou(Boxes.of([[0, 0, 2, 2]]), Boxes.of([[0, 0, 2, 1], [5, 5, 6, 6]])), iou(Boxes.of([]), Boxes.of([]))
(0.75, 0.0)
"""

from __future__ import annotations

import numpy as np

from roadworthy.data.values import Boxes
from roadworthy.distances.overlap import box_area, box_iou
from roadworthy.registry import register


@register("distances", "iou", of=("boxes",), default=("boxes",), bounded=True)
def iou(first: Boxes, second: Boxes) -> float:
    """One minus the mean IoU of boxes matched one to one within a class; a box without partner has none."""
    largest = max(len(first), len(second))
    if not len(first) or not len(second):
        return float(largest > 0)
    if np.array_equal(first.xyxy, second.xyxy) and np.array_equal(first.labels, second.labels):
        return 0.0
    from scipy.optimize import linear_sum_assignment

    pairs = first.xyxy[:, None, :], second.xyxy[None, :, :]
    overlap = box_iou(*pairs)
    if not (box_area(first.xyxy) > 0).all():
        # Two equal boxes without area have no IoU, and are equal all the same.
        overlap[(pairs[0] == pairs[1]).all(axis=2)] = 1.0
    overlap[first.labels[:, None] != second.labels[None, :]] = 0.0
    matched = overlap[linear_sum_assignment(overlap, maximize=True)].sum()
    return float(np.clip(1.0 - matched / largest, 0.0, 1.0))
