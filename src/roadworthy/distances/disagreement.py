"""Whether two answers name another class: the distance under which VR is the classical variation
ratio (Wang et al. 2022, section 3.2).

The winner of class scores is the first of the largest, as everywhere. Over passes, VR is the share
of pairs that disagree and VRO the share of passes that disagree with the answer.

>>> disagreement(np.array([0.6, 0.4]), np.array([0.9, 0.1])), disagreement(np.array([0.6, 0.4]), np.array([0.1, 0.9]))
(0.0, 1.0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.distances import closed_form
from roadworthy.registry import register


def _ratios(passes: np.ndarray, original: np.ndarray) -> np.ndarray:
    """(T, n, C) and (n, C) to VR and VRO, (n, 2), from the winners alone."""
    winners, answer = _winners(passes), _winners(original)
    count = len(winners)
    # A loop over passes: all pairs at once would hold T x T x n values.
    agreeing = np.sum([np.count_nonzero(winners == one, axis=0) for one in winners], axis=0) - count
    apart = 1.0 - agreeing / (count * (count - 1)) if count > 1 else np.zeros(len(answer))
    return np.stack([apart, np.mean(winners != answer, axis=0)], axis=1)


@register(
    "distances",
    "disagreement",
    of=("class_scores", "label"),
    default=("class_scores", "label"),
    bounded=True,
)
@closed_form(_ratios)
def disagreement(first: Any, second: Any) -> float:
    """1 where the two answers name different classes, else 0."""
    return float(_winners(np.atleast_1d(first)) != _winners(np.atleast_1d(second)))


def _winners(scores: np.ndarray) -> np.ndarray:
    """The class of each row: a row of one number is a label already."""
    found: np.ndarray = scores[..., 0] if scores.shape[-1] == 1 else scores.argmax(axis=-1)
    return found
