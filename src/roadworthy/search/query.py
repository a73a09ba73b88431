"""What a search may ask of a subject: its scores, and how a loss of them changes with the pixels.

Pixels are a torch tensor from 0 (black) to 1 (white), of shape (n, h, w) or (n, h, w, channels): images as
they are stored, divided by what white is. `subject.adapters.torch_query` is such a query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

Tensor = Any  # of torch, which is loaded where it is used
Rngs = Sequence[np.random.Generator]  # one for each row, so that a case is the same in any batch
Norm = Literal["linf", "l2"]  # of a change: its largest pixel, or its Euclidean length


class Query(Protocol):
    """A subject that answers with class scores. Everything stays on the device of `x`."""

    def scores(self, x: Tensor) -> Tensor:
        """Logits or log-probabilities, (n, classes)."""
        ...

    def gradient(self, x: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """d loss / d x, shaped as x, of one number a row; of k numbers a row, (n, k), it is (k, n, …)."""
        ...
