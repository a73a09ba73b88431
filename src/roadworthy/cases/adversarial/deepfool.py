"""DeepFool (Moosavi-Dezfooli, Fawzi and Frossard 2016): the shortest way to another answer.

There is no epsilon: how far an image had to move is the result. `overshoot` lengthens the way to the
other side of the boundary; 0.02 is the authors' value. Steps go on from the way before that: where
pixels are cut off they would otherwise end on this side of the boundary.
"""

from __future__ import annotations

from roadworthy.registry import register
from roadworthy.search.gradient import answered_right, checked_labels, to_boundary
from roadworthy.search.query import Norm, Query, Rngs, Tensor


@register("attacks", "deepfool", of="image", tables={}, extra=("torch", "torch"))
def deepfool(
    images: Tensor,
    labels: Tensor,
    query: Query,
    rngs: Rngs,
    *,
    norm: Norm = "l2",
    overshoot: float = 0.02,
    steps: int = 50,
    classes: int = 10,
) -> Tensor:
    """Steps to the nearest boundary of the linearised scores, until the answer is wrong."""
    truth = checked_labels(images, labels, norm)
    made, reached = images.clone(), images.clone()
    rows = (truth >= 0).nonzero().flatten()
    for _ in range(steps):
        rows = rows[answered_right(made[rows], truth[rows], query)]
        if not len(rows):
            break
        step = to_boundary(reached[rows], truth[rows], query, norm, classes)
        reached[rows] = (reached[rows] + step).clamp(0, 1)
        way = (1 + overshoot) * (reached[rows] - images[rows])
        made[rows] = (images[rows] + way).clamp(0, 1)
    return made
