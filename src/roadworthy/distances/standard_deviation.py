"""The standard deviation of two vectors: the distance under which VR is the standard deviation over
passes (Wang et al. 2022, table 3).

Half the squared difference of two numbers is their variance, and the mean of that over all pairs of
T numbers is the (unbiased) variance of the T: ``sum_{i != j} |p_i - p_j|^2 / (2 T (T - 1)) = sum_i
|p_i - mean|^2 / (T - 1)``. Hence the quadratic mean: VR is exactly the standard deviation (of a
vector, the root of the sum of its variances). VRO is that of a pass and the answer around the
middle of the two, ``sqrt(sum_i |p_i - p|^2 / (2 T))``. Neither has an upper end.

>>> round(standard_deviation(np.array([1.0]), np.array([3.0])), 9), round(float(np.std([1.0, 3.0], ddof=1)), 9)
(1.414213562, 1.414213562)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.distances import closed_form
from roadworthy.registry import register


def _ratios(passes: np.ndarray, original: np.ndarray) -> np.ndarray:
    """(T, n, d) and (n, d) to VR and VRO, (n, 2)."""
    spread = np.square(passes - passes.mean(axis=0)).sum(axis=(0, 2)) / max(len(passes) - 1, 1)
    off = np.square(passes - original).sum(axis=2).mean(axis=0) / 2
    return np.sqrt(np.stack([spread, off], axis=1))


@register(
    "distances",
    "standard_deviation",
    of=("vector", "class_scores"),
    default=("vector",),
    mean="quadratic",
)
@closed_form(_ratios)
def standard_deviation(first: Any, second: Any) -> float:
    """Euclidean distance over the root of two: the standard deviation of the two values."""
    pair = np.stack([np.ravel(first), np.ravel(second)]).astype(np.float64)
    return float(np.linalg.norm(pair[0] - pair[1]) / np.sqrt(2.0))
