"""A perceptron that tells classes from activations: multinomial logistic regression with an L2 penalty.

With x standardised, it minimises Σ -log softmax(V x + b)_y + l2 |V|² / 2 (the bias is not penalised) by L-BFGS, which is
deterministic and needs two matrix products a step. Activations that never change are left out.

>>> x = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
>>> found = Perceptron.fit(x, np.array([4, 4, 9, 9]), l2=0.1)
>>> found.labels.tolist(), found.decide(x).argmax(axis=1).tolist(), found.weights[1].tolist()
([4, 9], [0, 0, 1, 1], [0.0, 0.0])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.statistics.neighbours import chunk_rows

STEPS = 1000
TOLERANCE = 1e-7
"""Largest slope of the mean loss at which fitting ends."""


@dataclass(frozen=True)
class Perceptron:
    """Logits of the classes in `labels`, as a linear function of activations as they are."""

    weights: np.ndarray
    """(width, classes)."""
    bias: np.ndarray
    labels: np.ndarray

    @classmethod
    def fit(
        cls, activations: np.ndarray, classes: np.ndarray, *, l2: float = 1.0, device: str = "cpu", memory_mb: int = 512
    ) -> Perceptron:
        """Learn from rows of finite activations and their classes, of which there are two at least."""
        from scipy.optimize import minimize

        labels, position = np.unique(classes, return_inverse=True)
        if len(labels) < 2:
            raise ValueError(f"a perceptron tells classes apart, and all {len(classes)} rows are of class {labels[0]}")
        design = _Design(activations, device=device, memory_mb=memory_mb)
        n, shape = len(activations), (activations.shape[1] + 1, len(labels))
        truth = np.zeros((n, len(labels)))
        truth[np.arange(n), position] = 1.0

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(shape)
            z = design.times(theta[:-1]) + theta[-1]
            z -= z.max(axis=1, keepdims=True)
            sums = np.exp(z).sum(axis=1)
            likelihood = float(np.log(sums).sum() - np.einsum("ij,ij->", z, truth))
            excess = np.exp(z) / sums[:, None] - truth
            slope = np.vstack([design.back(excess) + l2 * theta[:-1], excess.sum(axis=0)])
            penalty = l2 / 2 * float(np.square(theta[:-1]).sum())
            return (likelihood + penalty) / n, slope.ravel() / n

        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "gtol": TOLERANCE, "ftol": 1e-15}
        found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(shape)
        weights = found[:-1] / design.spread[:, None]
        weights[~design.varies] = 0.0
        return cls(weights, found[-1] - design.mean @ weights, labels)

    def decide(self, activations: np.ndarray) -> np.ndarray:
        """Logits, a column a class of `labels`."""
        logits: np.ndarray = activations @ self.weights + self.bias
        return logits


class _Design:
    """Standardised activations, made ready once where the memory allows and else anew at every step."""

    def __init__(self, activations: np.ndarray, *, device: str, memory_mb: int) -> None:
        n, width = activations.shape
        self._activations, self._device = activations, device
        self.mean = activations.mean(axis=0, dtype=np.float64)
        spread = activations.std(axis=0, dtype=np.float64)
        # The deviation of equal numbers is rounding, not always zero.
        self.varies = np.ptp(activations, axis=0) > 0
        self.spread = np.where(self.varies & (spread > 0), spread, 1.0)
        size = chunk_rows(width, memory_mb, bytes_each=16)
        self._blocks = [slice(i, i + size) for i in range(0, n, size)]
        self._ready = self._standard(self._blocks[0]) if len(self._blocks) == 1 else None

    def times(self, weights: np.ndarray) -> np.ndarray:
        """X V, a row a case."""
        right = self._place(weights)
        return np.concatenate([self._fetch(block @ right) for block in self._parts()])

    def back(self, excess: np.ndarray) -> np.ndarray:
        """Xᵀ E."""
        parts = zip(self._blocks, self._parts(), strict=True)
        return sum((self._fetch(block.T @ self._place(excess[rows])) for rows, block in parts), start=np.zeros(()))

    def _parts(self) -> Iterator[Any]:
        if self._ready is not None:
            yield self._ready
            return
        for block in self._blocks:
            yield self._standard(block)

    def _standard(self, block: slice) -> Any:
        return self._place((self._activations[block] - self.mean) / self.spread)

    def _place(self, array: np.ndarray) -> Any:
        if self._device == "cpu":
            return array
        import torch

        return torch.as_tensor(array, dtype=torch.float64, device=self._device)

    def _fetch(self, product: Any) -> np.ndarray:
        found: np.ndarray = product if self._device == "cpu" else product.cpu().numpy()
        return found
