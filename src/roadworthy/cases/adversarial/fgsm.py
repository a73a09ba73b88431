"""Fast gradient sign method (Goodfellow, Shlens and Szegedy 2014): one step uphill.

In L-inf every pixel moves by `epsilon` in the direction that raises the loss; in L2 the image moves by
`epsilon` along the gradient. Pixels are from 0 to 1: the table's levels are 2, 4 and 8 grey levels of 255.

`loss: margin` raises the lead of the other classes over the label. Its gradient has the direction of that of
the cross-entropy, which float32 rounds away where the subject is sure of its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.registry import register
from roadworthy.search.gradient import Raised, climbed
from roadworthy.search.query import Norm, Query, Tensor

TABLES = {"plain": [{"epsilon": levels / 255} for levels in (2, 4, 8)]}
"""For L-inf."""


@register("attacks", "fgsm", of="image", tables=TABLES, extra=("torch", "torch"))
def fgsm(
    images: Tensor,
    labels: Any,
    query: Query,
    rngs: Sequence[np.random.Generator],
    *,
    epsilon: float,
    norm: Norm = "linf",
    loss: Raised = "cross_entropy",
) -> Tensor:
    """One step of size epsilon along the sign of the loss gradient (L2: along the gradient)."""
    return climbed(
        images, labels, query, epsilon=epsilon, norm=norm, step=epsilon, steps=1, loss=loss
    )
