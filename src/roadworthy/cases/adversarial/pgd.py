"""Projected gradient descent (Madry et al. 2017): small steps from a random point of the ball.

A step is `epsilon` times `step`. All 20 steps are taken, even if the answer is wrong before the last.
"""

from __future__ import annotations

from roadworthy.cases.adversarial.fgsm import TABLES
from roadworthy.registry import register
from roadworthy.search.gradient import climbed
from roadworthy.search.query import Norm, Query, Rngs, Tensor


@register("attacks", "pgd", of="image", tables=TABLES, extra=("torch", "torch"))
def pgd(
    images: Tensor,
    labels: Tensor,
    query: Query,
    rngs: Rngs,
    *,
    epsilon: float,
    norm: Norm = "linf",
    step: float = 1 / 8,
    steps: int = 20,
) -> Tensor:
    """Steps that raise the loss and stay within epsilon, from a random start."""
    return climbed(images, labels, query, epsilon, norm, rngs, step=epsilon * step, steps=steps)
