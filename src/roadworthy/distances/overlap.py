"""How much boxes and masks overlap: intersection over union (Wang et al. 2022, eq. 8), for distances and measures alike.

>>> box_iou(np.array([0.0, 0.0, 2.0, 2.0]), np.array([[0.0, 0.0, 1.0, 2.0], [3.0, 3.0, 4.0, 4.0]])).tolist()
[0.5, 0.0]
>>> found = mask_overlap(np.array([[0, 1, 1, 2]]), np.array([[0, 0, 1, 2]]))
>>> found.iou(), round(found.dice(), 4)
(0.75, 0.8333)
"""

from __future__ import annotations

from typing import NamedTuple

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


class MaskOverlap(NamedTuple):
    """Pixels by class index."""

    both: np.ndarray
    """Those that are of the class in both masks."""
    first: np.ndarray
    second: np.ndarray

    def iou(self, *, background: int | None = 0) -> float:
        """Mean over the classes in either mask of what both have over what either has."""
        return self._mean(self.both, self.first + self.second - self.both, background)

    def dice(self, *, background: int | None = 0) -> float:
        """The same of twice what both have over the sum of the two."""
        return self._mean(2 * self.both, self.first + self.second, background)

    def _mean(self, above: np.ndarray, below: np.ndarray, background: int | None) -> float:
        """The background counts only if there is nothing else; masks without a pixel are equal."""
        present = np.flatnonzero(below)
        present = present[present != background] if len(present) > 1 else present
        return float(np.mean(above[present] / below[present])) if len(present) else 1.0


def mask_overlap(
    first: np.ndarray, second: np.ndarray, counted: np.ndarray | None = None
) -> MaskOverlap:
    """The overlap of two masks of one shape, of all pixels or of those that are `counted`."""
    if first.shape != second.shape:
        sizes = " and ".join(f"{m.shape[1]} x {m.shape[0]}" for m in (first, second))
        raise ValueError(f"two masks have {sizes} pixels; answer in the size of the image")
    if counted is not None:
        first, second = first[counted], second[counted]
    classes = int(max(first.max(initial=0), second.max(initial=0))) + 1
    columns = first[first == second], first.ravel(), second.ravel()
    return MaskOverlap(*(np.bincount(pixels, minlength=classes) for pixels in columns))
