"""Distances between data sets, from the features of their images (metrics M15 to M17 of Wozniak et
al. 2024). One file each.

A distance between sets is a function of two matrices of features, one row an image: the source's
(n, d) and the target's (m, d). With ``paired=True`` row i of one belongs to row i of the other;
`known_as` is its metric there. It gives a `SetDistance`: the value, and notes on what weakens it.

>>> from roadworthy.registry import components, get
>>> list(components("set_distances"))
['average', 'centroid', 'complete', 'frechet', 'paired_cosine', 'paired_euclidean', 'single']
>>> get("set_distances", "centroid").bind(metric="manhattan")(np.zeros((3, 2)), np.ones((5, 2)))
SetDistance(value=2.0, notes=())
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["SetDistance", "feature_pair"]


@dataclass(frozen=True)
class SetDistance:
    """How far two data sets lie apart, and what to know about the number."""

    value: float
    notes: tuple[str, ...] = ()


def feature_pair(
    source: Any, target: Any, *, least: int = 1, paired: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Two matrices of features in float64; refused by a sentence if they cannot be compared."""
    pair = (_features("source", source, least), _features("target", target, least))
    sizes = [features.shape for features in pair]
    if sizes[0][1] != sizes[1][1]:
        raise ValueError(
            f"the source has {sizes[0][1]} features and the target {sizes[1][1]}; "
            "use the same features for both"
        )
    if paired and sizes[0][0] != sizes[1][0]:
        raise ValueError(
            f"the source has {sizes[0][0]} rows and the target {sizes[1][0]}; pairs were expected: "
            "for unpaired sets take a linkage or frechet"
        )
    return pair


def _features(name: str, features: Any, least: int) -> np.ndarray:
    matrix = np.asarray(features, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) < least or not matrix.shape[1]:
        raise ValueError(
            f"the features of the {name} have the shape {matrix.shape}; (images, features) was "
            f"expected, with at least {least} image{'s' if least > 1 else ''}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"the features of the {name} have NaN or infinite values; leave them out")
    return matrix
