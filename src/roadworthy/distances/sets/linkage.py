"""Linkage: the distance between two data sets as clusters of points (metric M17 of Wozniak et al.
2024; Yim and Ramdeen 2015). Single: the nearest pair; complete: the farthest; average: the mean of
all pairs; centroid: the two means.

Each in Euclidean, Manhattan or Mahalanobis distance. Mahalanobis takes the covariance of the source
(n - 1), so that the target's spread has no effect. A singular one is inverted on the directions in
which the source varies, and a note says so.

>>> source, target = np.array([[0.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 0.0], [3.0, 2.0]])
>>> [round(f(source, target).value, 3) for f in (single, complete, average, centroid)]
[3.0, 3.606, 3.303, 3.0]
>>> single(source, target, metric="mahalanobis").notes
('the source varies in 1 of 2 directions: Mahalanobis distance by pseudo-inverse, other directions do not count',)
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from roadworthy.distances.sets import SetDistance, feature_pair
from roadworthy.registry import register
from roadworthy.statistics.neighbours import nearest
from roadworthy.statistics.row_blocks import in_blocks

Metric = Literal["euclidean", "manhattan", "mahalanobis"]
PAIRS_AT_ONCE = 2**20
"""Distances held at once, in numbers."""


@register("set_distances", "single", paired=False, known_as="M17")
def single(source: Any, target: Any, *, metric: Metric = "euclidean") -> SetDistance:
    """Distance of the nearest pair of points, one of each set."""
    points = _points(source, target, metric)
    if metric == "manhattan":
        return SetDistance(min(_by_block(points, metric, np.min)), points.notes)
    # Exact: products of matrices lose digits where points lie close together.
    return SetDistance(float(nearest(points.source, points.target).distances.min()), points.notes)


@register("set_distances", "complete", paired=False, known_as="M17")
def complete(source: Any, target: Any, *, metric: Metric = "euclidean") -> SetDistance:
    """Distance of the farthest pair of points, one of each set."""
    points = _points(source, target, metric)
    return SetDistance(max(_by_block(points, metric, np.max)), points.notes)


@register("set_distances", "average", paired=False, known_as="M17")
def average(source: Any, target: Any, *, metric: Metric = "euclidean") -> SetDistance:
    """Mean distance of all pairs of points, one of each set; above 0 even between equal sets."""
    points = _points(source, target, metric)
    total = sum(_by_block(points, metric, np.sum))
    return SetDistance(total / len(points.source) / len(points.target), points.notes)


@register("set_distances", "centroid", paired=False, known_as="M17")
def centroid(source: Any, target: Any, *, metric: Metric = "euclidean") -> SetDistance:
    """Distance of the means of the two sets."""
    points = _points(source, target, metric)
    apart = points.source.mean(axis=0) - points.target.mean(axis=0)
    order = 1 if metric == "manhattan" else 2
    return SetDistance(float(np.linalg.norm(apart, ord=order)), points.notes)


class _Points(NamedTuple):
    """The sets around the source's mean, in coordinates in which the metric is a plain one."""

    source: np.ndarray
    target: np.ndarray
    notes: tuple[str, ...]


def _points(source: Any, target: Any, metric: Metric) -> _Points:
    one, other = feature_pair(source, target, least=2 if metric == "mahalanobis" else 1)
    centre = one.mean(axis=0)
    one, other = one - centre, other - centre
    if metric != "mahalanobis":
        return _Points(one, other, ())
    _, lengths, directions = np.linalg.svd(one, full_matrices=False)
    limit = max(one.shape) * np.finfo(np.float64).eps * lengths.max()
    varying = lengths > limit
    rank, width = int(varying.sum()), one.shape[1]
    if not rank:
        raise ValueError(
            "the images of the source have equal features: no covariance, take euclidean"
        )
    white = directions[varying].T * (np.sqrt(len(one) - 1) / lengths[varying])
    note = (
        f"the source varies in {rank} of {width} directions: Mahalanobis distance by pseudo-inverse, "
        "other directions do not count"
    )
    return _Points(one @ white, other @ white, (note,) if rank < width else ())


def _by_block(points: _Points, metric: Metric, reduce: Any) -> list[float]:
    """What `reduce` makes of all distances, by block of the source's rows."""
    from scipy.spatial.distance import cdist

    source, target, _ = points
    squares = np.einsum("ij,ij->i", target, target)

    def work(rows: slice) -> float:
        block = source[rows]
        if metric == "manhattan":
            return float(reduce(cdist(block, target, "cityblock")))
        found = block @ target.T
        found *= -2
        found += squares
        found += np.einsum("ij,ij->i", block, block)[:, None]
        return float(reduce(np.sqrt(np.maximum(found, 0, out=found), out=found)))

    size = max(1, PAIRS_AT_ONCE // len(target))
    return in_blocks(work, len(source), size=size, numbers=source.size * len(target))
