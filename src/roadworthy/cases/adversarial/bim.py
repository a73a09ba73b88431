"""Basic iterative method (Kurakin, Goodfellow and Bengio 2018): small steps from the image itself.

A step is `epsilon` times `step`. Its default, a third, is that of the Adversarial Robustness Toolbox
(step 0.1 for epsilon 0.3); 20 steps are taken, whether or not the answer is wrong before the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.cases.adversarial.fgsm import TABLES
from roadworthy.registry import register
from roadworthy.search.gradient import Raised, climbed
from roadworthy.search.query import Norm, Query, Tensor


@register("attacks", "bim", of="image", tables=TABLES, extra=("torch", "torch"))
def bim(
    images: Tensor,
    labels: Any,
    query: Query,
    rngs: Sequence[np.random.Generator],
    *,
    epsilon: float,
    norm: Norm = "linf",
    loss: Raised = "cross_entropy",
    step: float = 1 / 3,
    steps: int = 20,
) -> Tensor:
    """Steps uphill that stay within epsilon, from the image itself."""
    return climbed(
        images,
        labels,
        query,
        epsilon=epsilon,
        norm=norm,
        step=epsilon * step,
        steps=steps,
        loss=loss,
    )
