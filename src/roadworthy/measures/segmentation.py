"""Measures of a predicted mask against the true one: intersection over union, and Dice.

The value of a case is the mean over the classes that are in its truth or its answer, and the measure
is the mean over the cases. The background (0) counts only if there is nothing else. Pixels whose
truth is 255 count nowhere. A case fails if its IoU is below 0.5 (Torpmann-Hagen et al. 2025, section
4.4), whichever the measure, unless `failure` says otherwise; one without an answer has the value 0.

>>> truth = [np.array([[0, 1, 1, 255]]), np.array([[0, 0, 2, 2]])]
>>> answers = [np.array([[0, 1, 0, 1]]), np.array([[2, 2, 2, 0]])]
>>> scored = mask_iou(answers, truth)
>>> scored.value(), scored.error.tolist(), scored.failure.tolist()
(0.375, [0.5, 0.75], [False, True])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.data.values import IGNORED, Unreadable
from roadworthy.distances.overlap import MaskOverlap, mask_overlap
from roadworthy.measures.scored import Scored, answered, same_cases
from roadworthy.registry import register

LEAST = 0.5
"""The IoU of a case below which it fails."""


@register("measures", "mask_iou", of=("mask", "mask"), better="higher", range=(0, 1))
def mask_iou(
    outputs: Sequence[Any], targets: Sequence[Any], *, background: int | None = 0
) -> Scored:
    """Mean over the cases of the IoU of their classes; `background: null` counts every class."""
    found = _overlaps(outputs, targets)
    iou = np.array([0.0 if o is None else o.iou(background=background) for o in found])
    return _mean(iou, iou)


@register("measures", "dice", of=("mask", "mask"), better="higher", range=(0, 1))
def dice(outputs: Sequence[Any], targets: Sequence[Any], *, background: int | None = 0) -> Scored:
    """Mean over the cases of the Dice coefficient of their classes; `background: null` counts every class."""
    found = _overlaps(outputs, targets)
    both = [
        (0.0, 0.0) if o is None else (o.dice(background=background), o.iou(background=background))
        for o in found
    ]
    return _mean(*np.reshape(both, (-1, 2)).T)


def _overlaps(outputs: Sequence[Any], targets: Sequence[Any]) -> list[MaskOverlap | None]:
    """Answer and truth of each case; None where there is no answer."""
    same_cases(outputs, targets)
    found: list[MaskOverlap | None] = []
    for row, known in enumerate(answered(outputs)):
        # True masks may be read or drawn when asked for, so each is asked for once.
        truth = targets[row]
        counted = truth != IGNORED if isinstance(truth, np.ndarray) else np.zeros(0)
        if not counted.any():
            why = f" ({truth.reason})" if isinstance(truth, Unreadable) else ""
            raise ValueError(f"the target of row {row} has no pixel that counts{why}; leave it out")
        try:
            found.append(mask_overlap(outputs[row], truth, counted) if known else None)
        except ValueError as error:
            raise ValueError(f"answer and target of row {row}: {error}") from None
    return found


def _mean(values: np.ndarray, iou: np.ndarray) -> Scored:
    return Scored.ratio(
        values,
        np.ones(len(values)),
        error=1.0 - values,
        failure=iou < LEAST,
        better="higher",
        limits=(0.0, 1.0),
    )
