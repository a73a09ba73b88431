"""One minus MOTA between two sets of tracks, within [0, 1] (Wang et al. 2022, table 3 and eq. 2).

MOTA asks which of the two is the truth, and may be negative. Here each is the truth once: 1 - MOTA is cut at 1 in either direction,
and the distance is the mean of the two.

>>> still = [[0, 0, 2, 2]] * 2
>>> one, both = Tracks.of([0], [7], still[:1]), Tracks.of([0, 1], [1, 1], still)
>>> mota(one, both), mota(both, one), mota(both, both)
(0.75, 0.75, 0.0)
"""

from __future__ import annotations

import numpy as np

from roadworthy.data.values import Tracks
from roadworthy.distances.clear import clear
from roadworthy.registry import register


@register("distances", "mota", of=("tracks",), default=("tracks",), bounded=True)
def mota(first: Tracks, second: Tracks, *, iou: float = 0.5) -> float:
    """One minus MOTA, cut at 1, with either set of tracks as the truth in turn."""
    # Objects that coincide can be confused with themselves; equal tracks are equal all the same.
    if all(
        np.array_equal(getattr(first, part), getattr(second, part))
        for part in ("step", "ids", "xyxy")
    ):
        return 0.0
    return (_errors(first, second, iou) + _errors(second, first, iou)) / 2


def _errors(found: Tracks, truth: Tracks, iou: float) -> float:
    """Errors an object, 1 at most; tracks of nothing are wholly false."""
    counts = clear(found, truth, iou=iou)
    return min(1.0, counts.errors / counts.objects) if counts.objects else float(counts.false > 0)
