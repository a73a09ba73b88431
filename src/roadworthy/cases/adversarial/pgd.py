"""Projected gradient descent (Madry et al. 2017): small steps from a random point of the ball.

A step is `epsilon` times `step`, an eighth by default. 20 steps are taken from one start, whether or
not the answer is wrong before the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.cases.adversarial.fgsm import TABLES
from roadworthy.registry import register
from roadworthy.search.gradient import Raised, climbed
from roadworthy.search.query import Norm, Query, Tensor


@register("attacks", "pgd", of="image", tables=TABLES, extra=("torch", "torch"))
def pgd(
    images: Tensor,
    labels: Any,
    query: Query,
    rngs: Sequence[np.random.Generator],
    *,
    epsilon: float,
    norm: Norm = "linf",
    loss: Raised = "cross_entropy",
    step: float = 1 / 8,
    steps: int = 20,
) -> Tensor:
    """Steps uphill that stay within epsilon, from a random start."""
    return climbed(
        images,
        labels,
        query,
        epsilon=epsilon,
        norm=norm,
        step=epsilon * step,
        steps=steps,
        loss=loss,
        rngs=rngs,
    )
