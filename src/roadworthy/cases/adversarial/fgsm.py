"""Fast gradient sign method (Goodfellow, Shlens and Szegedy 2014): one step that raises the loss.

Pixels are from 0 to 1: the table's levels, for L-inf, are 2, 4 and 8 grey levels of 255.
"""

from __future__ import annotations

from roadworthy.registry import register
from roadworthy.search.gradient import climbed
from roadworthy.search.query import Norm, Query, Rngs, Tensor

TABLES = {"plain": [{"epsilon": levels / 255} for levels in (2, 4, 8)]}


@register("attacks", "fgsm", of="image", tables=TABLES, extra=("torch", "torch"))
def fgsm(
    images: Tensor, labels: Tensor, query: Query, rngs: Rngs, *, epsilon: float, norm: Norm = "linf"
) -> Tensor:
    """One step of size epsilon along the sign of the loss gradient (L2: along the gradient)."""
    return climbed(images, labels, query, epsilon, norm, step=epsilon, steps=1)
