"""Fréchet distance of two data sets as Gaussians (Dowson and Landau 1982): |m1 - m2|² + tr(S1 + S2 -
2 (S1 S2)^½), with means m and covariances S (n - 1) of the features; not rooted, as in FID.

FID is this distance on features of an Inception network. On other features it is not FID.

No root of a matrix is taken: with S1 = AᵀA and S2 = BᵀB, tr (S1 S2)^½ is the sum of the singular
values of A Bᵀ. It stays exact where covariances are singular.

>>> source = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
>>> round(frechet(source, source + [3.0, 4.0]).value, 9), round(frechet(source, 2 * source).value, 6)
(25.0, 4.666667)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.distances.sets import SetDistance, feature_pair
from roadworthy.registry import register


@register("set_distances", "frechet", paired=False, known_as="M15")
def frechet(source: Any, target: Any) -> SetDistance:
    """Fréchet distance of Gaussians with the features' means and covariances; FID only on Inception's."""
    pair = feature_pair(source, target, least=2)
    means = [features.mean(axis=0) for features in pair]
    one, other = (_root_of_covariance(f, mean) for f, mean in zip(pair, means, strict=True))
    spread = float(np.square(one).sum() + np.square(other).sum())
    shared = float(np.linalg.svd(one @ other.T, compute_uv=False).sum())
    value = float(np.square(means[0] - means[1]).sum()) + spread - 2 * shared
    notes = tuple(
        f"the {name} has {len(features)} images for {features.shape[1]} features: its covariance is "
        "singular, and the distance is overestimated"
        for name, features in zip(("source", "target"), pair, strict=True)
        if len(features) <= features.shape[1]
    )
    return SetDistance(max(0.0, value), notes)


def _root_of_covariance(features: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """A with AᵀA the covariance: the moved rows, or fewer with the same product."""
    moved = (features - mean) / np.sqrt(len(features) - 1)
    if len(moved) <= moved.shape[1]:
        return moved
    reduced: np.ndarray = np.linalg.qr(moved, mode="r")  # type: ignore[assignment]
    return reduced
