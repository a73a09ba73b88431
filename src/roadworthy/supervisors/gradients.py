"""GradNorm (Huang, Geng and Li 2021): how strongly a row would pull the last layer's weights towards undecided answers.

The score is the L1 norm of the gradient of KL(uniform ‖ softmax(z / T)) by the weights of the last layer. Where that layer is
linear, z = W f + b, the gradient is the outer product of (p - u) / T and f, and its norm is |p - u|₁ |f|₁ / T: no backward pass
is needed. The bias is left out, as published. In the paper the norm is large for inputs like those of training, so the risk is
*minus* the norm.

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> n = np.arange(2)
>>> scores, activations = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[3.0, -1.0], [3.0, -1.0]])
>>> columns = {"layer.penultimate": activations}
>>> GradNorm().score(ModuleTrace(n, n, np.full(2, None), n, CLASS_SCORES, scores, columns)).round(6).tolist()
[-3.2, -0.0]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from roadworthy.registry import register
from roadworthy.subject.needs import PENULTIMATE, Layer, Output, Request
from roadworthy.supervisors.outputs import log_softmax, logits
from roadworthy.supervisors.plain import PlainSupervisor


@register("supervisors", "grad_norm")
class GradNorm(PlainSupervisor):
    """Minus the L1 norm of the last layer's gradient of KL(uniform ‖ softmax), in closed form.

    The closed form holds if the last layer is linear and `layer` is its input. That is not checked: a head that normalises
    its input (cosine) gives other numbers. A last layer that is linear at every place and then averaged over places is
    linear in the mean over them, which is what pooling by the mean gives.
    """

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        layer: str = PENULTIMATE,
        pool: Literal["mean", "max", "none"] = "mean",
    ) -> None:
        if not (temperature > 0 and np.isfinite(temperature)):
            raise ValueError(f"temperature is {temperature}; a positive number was expected")
        self.temperature, self.layer, self.pool = temperature, layer, pool
        self.needs: tuple[Request, ...] = (Output(), Layer(layer, pool))

    def risk(self, scores: np.ndarray, activations: np.ndarray) -> np.ndarray:
        """-|p - u|₁ |f|₁ / T."""
        p = np.exp(log_softmax(logits(scores), self.temperature))
        from_uniform = np.abs(p - 1 / p.shape[1]).sum(axis=1)
        norms: np.ndarray = from_uniform * np.abs(activations).sum(axis=1) / self.temperature
        return -norms
