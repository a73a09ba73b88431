"""A perceptron that tells classes from activations: multinomial logistic regression with an L2 penalty.

With x standardised, it minimises Σ -log softmax(V x + b)_y + l2 |V|² / 2 (the bias is not penalised) by L-BFGS, which is
deterministic and needs two matrix products a step. Activations that never change are left out.

>>> x = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
>>> found = Perceptron.fit(x, np.array([4, 4, 9, 9]), l2=0.1)
>>> found.labels.tolist(), found.decide(x).argmax(axis=1).tolist(), found.weights[1].tolist()
([4, 9], [0, 0, 1, 1], [0.0, 0.0])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.statistics.neighbours import chunk_rows

Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]
STEPS, HALVINGS, KEPT = 1000, 30, 10
"""At most so many steps, halvings of a step that goes too far, and steps remembered."""
TOLERANCE = 1e-7
"""Largest slope of the mean loss at which fitting ends."""
SMALL = 2**18
"""Multiplications in a product of a processor: its block stays in the cache, and is not worth waking other threads for, which
would take longer to wake than it takes to multiply, hundreds of times over."""


@dataclass(frozen=True)
class Perceptron:
    """Logits of the classes in `labels`, as a linear function of activations as they are."""

    weights: np.ndarray
    """(width, classes)."""
    bias: np.ndarray
    labels: np.ndarray

    @classmethod
    def fit(
        cls,
        activations: np.ndarray,
        classes: np.ndarray,
        *,
        l2: float = 1.0,
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> Perceptron:
        """Learn from rows of finite activations and their classes, of which there are two at least."""
        labels, position = np.unique(classes, return_inverse=True)
        if len(labels) < 2:
            raise ValueError(
                f"a perceptron separates classes, and all {len(classes)} rows are of class {labels[0]}"
            )
        n, shape = len(activations), (activations.shape[1] + 1, len(labels))
        design = _Design(activations, columns=len(labels), device=device, memory_mb=memory_mb)

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(shape)
            likelihood, slope = design.likelihood(theta, position)
            slope[:-1] += l2 * theta[:-1]
            penalty = l2 / 2 * float(np.square(theta[:-1]).sum())
            return (likelihood + penalty) / n, slope.ravel() / n

        found = least(loss, np.zeros(shape).ravel()).reshape(shape)
        weights = found[:-1] / design.spread[:, None]
        weights[~design.varies] = 0.0
        return cls(weights, found[-1] - design.mean @ weights, labels)

    def decide(self, activations: np.ndarray) -> np.ndarray:
        """Logits, a column a class of `labels`."""
        logits: np.ndarray = activations @ self.weights + self.bias
        return logits


def least(loss: Loss, start: np.ndarray) -> np.ndarray:
    """Where a smooth convex function, which gives its value and slope, is least: L-BFGS (Liu and Nocedal 1989).

    scipy has one too; its triangular systems of ten unknowns wake all of a processor's threads at every step, which takes
    several times as long as all the rest of a step.

    >>> least(lambda x: (float(np.sum((x - 3) ** 4 + x**2)), 4 * (x - 3) ** 3 + 2 * x), np.zeros(1)).round(6).tolist()
    [2.0]
    """
    x, (value, slope) = start, loss(start)
    steps: list[np.ndarray] = []
    turns: list[np.ndarray] = []
    for _ in range(STEPS):
        if np.abs(slope).max() <= TOLERANCE:
            break
        direction = _newton_like(slope, steps, turns)
        downhill = float(direction @ slope)
        # Of a first step nobody knows the length; later ones are right as they are, nearly always.
        length = 1.0 if steps else min(1.0, 1.0 / float(np.abs(slope).sum()))
        rounding = 1e-15 * abs(value)
        for _ in range(HALVINGS):
            moved = x + length * direction
            new_value, new_slope = loss(moved)
            if new_value <= value + 1e-4 * length * downhill + rounding:
                break
            length /= 2
        else:
            break
        step, turn = moved - x, new_slope - slope
        if float(step @ turn) > 0:
            steps, turns = [*steps[1 - KEPT :], step], [*turns[1 - KEPT :], turn]
        x, value, slope = moved, new_value, new_slope
    return x


def _newton_like(slope: np.ndarray, steps: list[np.ndarray], turns: list[np.ndarray]) -> np.ndarray:
    """Minus the slope, divided by the curvature that the last steps saw (the two loops of L-BFGS)."""
    direction = -slope
    shares = []
    for step, turn in zip(reversed(steps), reversed(turns), strict=True):
        share = float(step @ direction) / float(step @ turn)
        direction = direction - share * turn
        shares.append(share)
    if steps:
        direction = direction * (float(steps[-1] @ turns[-1]) / float(turns[-1] @ turns[-1]))
    for step, turn, share in zip(steps, turns, reversed(shares), strict=True):
        direction = direction + (share - float(turn @ direction) / float(step @ turn)) * step
    return direction


class _Design:
    """Activations around their mean, in blocks: made ready once where the memory allows and else anew at every step.

    Their spread goes into the weights, and a block goes through a step whole, so that nothing is held of all rows but themselves.
    """

    def __init__(
        self, activations: np.ndarray, *, columns: int, device: str, memory_mb: int
    ) -> None:
        n, width = activations.shape
        self._activations, self._device = activations, device
        affordable = chunk_rows(width, memory_mb, bytes_each=16)
        size = min(
            affordable, max(SMALL // (width * columns), 32) if device == "cpu" else affordable
        )
        self._blocks = [slice(i, i + size) for i in range(0, n, size)]
        self.mean = activations.mean(axis=0, dtype=np.float64)
        moved = (activations[block] - self.mean for block in self._blocks)
        spread = np.sqrt(
            sum((np.einsum("ij,ij->j", m, m) for m in moved), start=np.zeros(width)) / n
        )
        # The deviation of equal numbers is rounding, not always zero.
        self.varies = np.ptp(activations, axis=0) > 0
        self.spread = np.where(self.varies & (spread > 0), spread, 1.0)
        self._ready = [self._moved(block) for block in self._blocks] if affordable >= n else None

    def likelihood(self, theta: np.ndarray, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Σ -log softmax(V x + b) at the classes' positions, and its slope; the last row of `theta` is b."""
        weights = self._place(theta[:-1] / self.spread[:, None])
        likelihood, slope = 0.0, np.zeros(theta.shape)
        for rows, block in zip(self._blocks, self._parts(), strict=True):
            z = self._fetch(block @ weights) + theta[-1]
            z -= z.max(axis=1, keepdims=True)
            true = np.arange(len(z)), position[rows]
            likelihood -= float(z[true].sum())
            excess = np.exp(z, out=z)
            sums = excess.sum(axis=1)
            likelihood += float(np.log(sums).sum())
            excess /= sums[:, None]
            excess[true] -= 1.0
            slope[:-1] += self._fetch(block.T @ self._place(excess))
            slope[-1] += excess.sum(axis=0)
        slope[:-1] /= self.spread[:, None]
        return likelihood, slope

    def _parts(self) -> Iterator[Any]:
        yield from self._ready or map(self._moved, self._blocks)

    def _moved(self, block: slice) -> Any:
        return self._place(self._activations[block] - self.mean)

    def _place(self, array: np.ndarray) -> Any:
        if self._device == "cpu":
            return array
        import torch

        return torch.as_tensor(array, dtype=torch.float64, device=self._device)

    def _fetch(self, product: Any) -> np.ndarray:
        found: np.ndarray = product if self._device == "cpu" else product.cpu().numpy()
        return found
