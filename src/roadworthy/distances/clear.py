"""The CLEAR-MOT counts of one sequence of tracks against another (Bernardin and Stiefelhagen 2008): what MOTA is made of.

A correspondence of the step before is kept while its IoU still suffices; the rest is assigned so that the sum of IoU is largest;
an object that comes back under another identity than its last one is a switch.

>>> still = [[0, 0, 2, 2]] * 4
>>> clear(Tracks.of([0, 1, 2, 3], [1, 1, 5, 5], still), Tracks.of([0, 1, 2, 3], [7, 7, 7, 7], still))
Clear(objects=4, missed=0, false=0, switched=1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from roadworthy.data.values import Tracks
from roadworthy.distances.overlap import box_iou

# An IoU of exactly the threshold counts; so does one that rounding put a bit below.
ROUNDING = float(np.finfo(np.float64).eps)


class Clear(NamedTuple):
    """Counts of one sequence: objects over all steps, and the three errors of MOTA."""

    objects: int = 0
    missed: int = 0
    false: int = 0
    switched: int = 0

    @property
    def errors(self) -> int:
        """Missed, false and switched together."""
        return self.missed + self.false + self.switched


class FrameOverlap(NamedTuple):
    """Objects and detections of one step, and the IoU of each object (row) with each detection (column)."""

    number: int
    truth_ids: np.ndarray
    found_ids: np.ndarray
    overlap: np.ndarray


def clear(found: Tracks, truth: Tracks, *, iou: float = 0.5) -> Clear:
    """The CLEAR-MOT counts of one sequence."""
    counts = clear_by_step(found, truth, iou=iou).values()
    return Clear(*(sum(column) for column in zip(*counts, strict=True))) if counts else Clear()


def clear_by_step(found: Tracks, truth: Tracks, *, iou: float = 0.5) -> dict[int, Clear]:
    """The CLEAR-MOT counts of each step that has an object or a detection."""
    counts = {}
    last: dict[int, int] = {}
    current: dict[int, int] = {}
    for step in steps(found, truth):
        pairs, switched = [], 0
        if len(step.truth_ids) and len(step.found_ids):
            pairs = _assign(step, current, iou)
            current = {int(step.truth_ids[i]): int(step.found_ids[j]) for i, j in pairs}
            switched = sum(last.get(o, h) != h for o, h in current.items())
            last.update(current)
        objects = len(step.truth_ids)
        missed, false = objects - len(pairs), len(step.found_ids) - len(pairs)
        counts[step.number] = Clear(objects, missed, false, switched)
    return counts


def steps(found: Tracks, truth: Tracks) -> Iterator[FrameOverlap]:
    """Objects and detections of each step that has any, with their IoU."""
    found_order, truth_order = (
        np.argsort(found.step, kind="stable"),
        np.argsort(truth.step, kind="stable"),
    )
    known = np.union1d(found.step, truth.step)
    found_at = np.searchsorted(found.step[found_order], [known, known + 1])
    truth_at = np.searchsorted(truth.step[truth_order], [known, known + 1])
    for k in range(len(known)):
        rows = truth_order[truth_at[0, k] : truth_at[1, k]]
        columns = found_order[found_at[0, k] : found_at[1, k]]
        overlap = box_iou(truth.xyxy[rows][:, None, :], found.xyxy[columns][None, :, :])
        yield FrameOverlap(int(known[k]), truth.ids[rows], found.ids[columns], overlap)


def _assign(step: FrameOverlap, current: dict[int, int], iou: float) -> list[tuple[int, int]]:
    """Pairs (object, detection) of one step, as positions: correspondences that still hold, then the best of the rest."""
    allowed = step.overlap >= iou - ROUNDING
    column = {int(h): j for j, h in enumerate(step.found_ids)}
    pairs: list[tuple[int, int]] = []
    for i, o in enumerate(step.truth_ids):
        # Taken out, since an identity that stands twice in a step must not take one detection twice.
        j = column.get(current[int(o)], -1) if int(o) in current else -1
        if j >= 0 and allowed[i, j]:
            pairs.append((i, j))
            del column[int(step.found_ids[j])]
    gain = np.where(allowed, step.overlap, 0.0)
    for i, j in pairs:
        gain[i, :] = 0.0
        gain[:, j] = 0.0
    if gain.any():
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(gain, maximize=True)
        pairs += [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if gain[i, j] > 0]
    return pairs
