"""DeepFool (Moosavi-Dezfooli, Fawzi and Frossard 2016): the shortest way to another answer.

The scores are taken as linear, the image steps onto the nearest boundary, and so on until the answer is
wrong. There is no epsilon: how far an image had to move is the result. `overshoot` lengthens the way
to the other side of the boundary; 0.02 is the authors' value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.registry import register
from roadworthy.search.gradient import linearised
from roadworthy.search.query import Norm, Query, Tensor


@register("attacks", "deepfool", of="image", tables={}, extra=("torch", "torch"))
def deepfool(
    images: Tensor,
    labels: Any,
    query: Query,
    rngs: Sequence[np.random.Generator],
    *,
    norm: Norm = "l2",
    overshoot: float = 0.02,
    steps: int = 50,
    classes: int = 10,
) -> Tensor:
    """Steps to the nearest boundary of the linearised scores, until the answer is wrong."""
    return linearised(
        images, labels, query, norm=norm, overshoot=overshoot, steps=steps, classes=classes
    )
