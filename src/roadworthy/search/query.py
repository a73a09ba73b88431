"""What a search may ask of a subject: its scores, and how a loss of them changes with the pixels.

A search varies pixels and reads scores. It does not know what the subject is, how images are
prepared for it, or what varied them. Pixels are a torch tensor from 0 (black) to 1 (white), of
shape (n, h, w) or (n, h, w, channels): the images as they are stored, divided by what white is.
`roadworthy.subject.adapters.torch_query` is a query of a torch classifier.

>>> import torch
>>> class Bright:
...     def scores(self, x):
...         return torch.stack([x.mean((1, 2)), 1 - x.mean((1, 2))], dim=1)
...     def gradient(self, x, loss):
...         given = x.detach().requires_grad_()
...         return torch.autograd.grad(loss(self.scores(given)).sum(), given)[0]
>>> Bright().gradient(torch.zeros(1, 1, 2), lambda scores: scores[:, 0]).tolist()
[[[0.5, 0.5]]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

Tensor = Any
"""A torch tensor; torch is loaded where it is used."""
Loss = Callable[[Tensor], Tensor]
"""From scores (n, classes) to one number a row, (n,), or to k numbers a row, (n, k)."""
Norm = Literal["linf", "l2"]
"""How large a change is: its largest pixel, or its Euclidean length."""


class Query(Protocol):
    """A subject that answers with class scores. Everything stays on the device of `x`."""

    def scores(self, x: Tensor) -> Tensor:
        """Logits or log-probabilities, (n, classes), without a gradient."""
        ...

    def gradient(self, x: Tensor, loss: Loss) -> Tensor:
        """d loss / d x, as large as x; of k losses a row (k, \\*x.shape), from one forward pass.

        Losses are summed over the rows, which do not depend on each other.
        """
        ...
