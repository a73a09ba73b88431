"""Basic iterative method (Kurakin, Goodfellow and Bengio 2018): small steps from the image itself.

A step is `epsilon` times `step`; a third is the ratio of the defaults of the Adversarial Robustness Toolbox
(0.1 for 0.3). All 20 steps are taken, even if the answer is wrong before the last.
"""

from __future__ import annotations

from roadworthy.cases.adversarial.fgsm import TABLES
from roadworthy.registry import register
from roadworthy.search.gradient import climbed
from roadworthy.search.query import Norm, Query, Rngs, Tensor


@register("attacks", "bim", of="image", tables=TABLES, extra=("torch", "torch"))
def bim(
    images: Tensor,
    labels: Tensor,
    query: Query,
    rngs: Rngs,
    *,
    epsilon: float,
    norm: Norm = "linf",
    step: float = 1 / 3,
    steps: int = 20,
) -> Tensor:
    """Steps that raise the loss and stay within epsilon, from the image itself."""
    return climbed(images, labels, query, epsilon, norm, step=epsilon * step, steps=steps)
