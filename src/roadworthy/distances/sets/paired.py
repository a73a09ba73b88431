"""Mean distance between the features of an image and those of its follow-up (metric M16 of Wozniak et
al. 2024): Euclidean, or one minus the cosine. Defined for pairs alone.

>>> source, target = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[0.0, 4.0], [0.0, 0.0]])
>>> paired_euclidean(source, target).value, paired_cosine(source, target).value
(2.5, 0.5)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.distances.cosine import cosine
from roadworthy.distances.sets import SetDistance, feature_pair
from roadworthy.registry import register


@register("set_distances", "paired_euclidean", paired=True, known_as="M16")
def paired_euclidean(source: Any, target: Any) -> SetDistance:
    """Mean Euclidean distance between the features of each pair."""
    one, other = feature_pair(source, target, paired=True)
    return SetDistance(float(np.linalg.norm(one - other, axis=1).mean()))


@register("set_distances", "paired_cosine", paired=True, known_as="M16")
def paired_cosine(source: Any, target: Any) -> SetDistance:
    """Mean of one minus the cosine between the features of each pair."""
    one, other = feature_pair(source, target, paired=True)
    apart: np.ndarray = cosine.ratios(other[None], one)[:, 1]  # type: ignore[attr-defined]
    return SetDistance(float(apart.mean()))
