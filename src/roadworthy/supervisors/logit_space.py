"""Supervisors that know the last layer's weights: ViM (Wang et al. 2022) and ReAct (Sun, Guo and Li 2021).

Both need z = W f + b. The weights are not asked for: they are recovered from reference rows by least squares, which is exact
where the last layer is linear. How far the outputs are from linear in the activations is checked when fitting; a little is said
in `notes`, more is refused. With fewer rows than activations the solution of least norm is taken, which `notes` says too.
Probabilities have lost a constant of every row's logits; they are read as log p with mean zero, which is linear in f as well.

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> rng = np.random.default_rng(0)
>>> weights = rng.normal(size=(6, 3))
>>> def rows(f):
...     n = np.arange(len(f))
...     return ModuleTrace(n, n, np.full(len(f), None), n, CLASS_SCORES, f @ weights, {"layer.penultimate": f})
>>> usual, unusual = np.array([[1.0, 1, 1, 0, 0, 0]]), np.array([[1.0, 1, 1, 9, 9, 9]])
>>> for supervisor in (VirtualLogit(), RectifiedActivations()):
...     supervisor.fit(rows(rng.uniform(0, 2, (200, 6)) * [1, 1, 1, 0.1, 0.1, 0.1]), None)
...     found = supervisor.score(rows(np.concatenate([usual, unusual])))
...     print(supervisor.name, bool(found[1] > found[0]))
vim True
react True
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roadworthy.registry import register
from roadworthy.statistics.neighbours import chunk_rows
from roadworthy.subject.needs import PENULTIMATE, Output
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.activations import ActivationSupervisor
from roadworthy.supervisors.outputs import free_energy, logits
from roadworthy.supervisors.plain import OfClasses, column_of

CUTOFF = 1e-11
"""Directions whose variance is this much smaller than the largest are rounding: float32 has no more digits of them."""
LINEAR, NEARLY = 1e-3, 0.3
"""Residual spread, as a share of the logits': up to the first they are linear, beyond the second they are not."""


@dataclass(frozen=True)
class LinearLayer:
    """z = W f + b, recovered from rows of f and z, with the moments of f that were needed for it."""

    weights: np.ndarray
    """(classes, width)."""
    bias: np.ndarray
    mean: np.ndarray
    """Of the activations."""
    scatter: np.ndarray
    """Sum of squares and products of the activations around their mean."""
    rank: int
    residual: float
    """Root mean square of what is left of the logits, as a share of their spread."""

    @classmethod
    def fit(cls, activations: np.ndarray, z: np.ndarray, *, memory_mb: int = 512) -> LinearLayer:
        """Least squares, of least norm where the activations leave a choice.

        >>> f = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
        >>> found = LinearLayer.fit(f, f @ [[2.0, 1], [0, 3]] + [5, 6])
        >>> found.weights.round(6).tolist(), found.bias.round(6).tolist()
        ([[2.0, 0.0], [1.0, 3.0]], [5.0, 6.0])
        """
        n, width = activations.shape
        size = chunk_rows(width, memory_mb, bytes_each=16)
        blocks = [slice(i, i + size) for i in range(0, n, size)]
        mean, level = activations.mean(axis=0, dtype=np.float64), z.mean(axis=0)
        scatter, cross = np.zeros((width, width)), np.zeros((width, z.shape[1]))
        for block in blocks:
            moved = activations[block] - mean
            scatter += moved.T @ moved
            cross += moved.T @ (z[block] - level)
        variances, directions = np.linalg.eigh(scatter)
        kept = variances > CUTOFF * max(variances[-1], np.finfo(np.float64).tiny)
        basis = directions[:, kept]
        weights = ((basis / variances[kept]) @ (basis.T @ cross)).T
        bias = level - weights @ mean
        left = sum(float(np.square(z[b] - activations[b] @ weights.T - bias).sum()) for b in blocks)
        spread = float(np.square(z - level).sum())
        return cls(
            weights,
            bias,
            mean,
            scatter,
            int(kept.sum()),
            float(np.sqrt(left / spread)) if spread else 0.0,
        )


class _OfLastLayer(OfClasses, ActivationSupervisor):
    """What both share: the last layer is recovered, and a row's logits go along with its activations."""

    def _predicted(self, trace: ModuleTrace) -> np.ndarray:
        """The logits of every row, where others read the class alone."""
        return logits(column_of(trace, Output()), centred=True)

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        n, width = activations.shape
        last = LinearLayer.fit(activations, classes, memory_mb=self.memory_mb)
        if last.residual > NEARLY:
            raise ValueError(
                f"{self.name} reads the activations that go into a linear last layer, and {last.residual:.0%} of the outputs' "
                f"spread is not linear in the layer {self.layer!r}; name the layer whose output the last one takes, and "
                "give the module's logits or their softmax"
            )
        if last.residual > LINEAR:
            self.notes.append(
                f"{last.residual:.2g} of the outputs' spread is not linear in the layer {self.layer!r}"
            )
        if last.rank < width:
            self.notes.append(
                f"{n} reference rows vary in {last.rank} of {width} directions; the last layer's weights along the others "
                "are not identified and count as 0"
            )
        learned = {"width": np.array(width), "weights": last.weights, "bias": last.bias}
        return {**learned, **self._learn_more(activations, classes, last)}

    @abstractmethod
    def _learn_more(
        self, activations: np.ndarray, z: np.ndarray, last: LinearLayer
    ) -> dict[str, np.ndarray]:
        """What the method learns beside the last layer."""

    def _product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """In float64, on the device."""
        if self.device == "cpu":
            found: np.ndarray = left.astype(np.float64, copy=False) @ right
            return found
        import torch

        parts: list[Any] = [
            torch.as_tensor(a, dtype=torch.float64, device=self.device) for a in (left, right)
        ]
        on_device: np.ndarray = (parts[0] @ parts[1]).cpu().numpy()
        return on_device


@register("supervisors", "vim")
class VirtualLogit(_OfLastLayer):
    """Virtual-logit matching: the log-odds that a logit made from the residual of the activations wins the softmax.

    Around o = -W⁺ b, the residual is what lies outside the `dimension` main directions of the reference activations; its norm,
    times an alpha that gives it the mean of the largest logits, is the virtual logit (eq. 5-7). The paper scores by that
    logit's softmax probability; log-odds have the same order and do not round to 1 for all inputs that are far away. `dimension`
    is 1000 above 1500 activations and 512 from 768 on, as published, and else half of them.
    """

    name = "vim"

    def __init__(
        self,
        *,
        dimension: int | None = None,
        layer: str = PENULTIMATE,
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(layer=layer, pool=pool, device=device, memory_mb=memory_mb)
        if dimension is not None and dimension < 1:
            raise ValueError(f"dimension is {dimension}; at least 1 was expected")
        self.dimension = dimension

    def _learn_more(
        self, activations: np.ndarray, z: np.ndarray, last: LinearLayer
    ) -> dict[str, np.ndarray]:
        n, width = activations.shape
        main = principal_dimension(width) if self.dimension is None else self.dimension
        if main >= width:
            raise ValueError(
                f"vim looks outside {main} main directions, and the layer {self.layer!r} has {width} activations; "
                f"give a dimension below {width}, or name a wider layer"
            )
        # Centred logits make the rows of W sum to zero: its smallest singular value is rounding, of float32 perhaps.
        origin = -np.linalg.pinv(last.weights, rcond=1e-6) @ last.bias
        away = last.mean - origin
        _, directions = np.linalg.eigh(last.scatter + n * np.outer(away, away))
        residual = directions[:, : width - main]
        length = float(self._lengths(activations, origin, residual).mean())
        return {
            "origin": origin,
            "residual": residual,
            "alpha": np.array(self._alpha(z, length, last.scatter, n, main)),
        }

    def _alpha(self, z: np.ndarray, length: float, scatter: np.ndarray, n: int, main: int) -> float:
        """What gives the virtual logit the mean height of the largest ones (eq. 6)."""
        # A residual of nothing but rounding would be magnified to the size of the logits.
        if length <= np.sqrt(CUTOFF * np.trace(scatter) / n):
            self.notes.append(
                f"the reference activations lie in {main} directions; the residual is the virtual logit as it is"
            )
            return 1.0
        height = float(z.max(axis=1).mean())
        if height <= 0:
            # A factor below zero would call the far inputs the safe ones.
            self.notes.append(
                "the largest logits are below zero; the virtual logit has their height above the mean logit"
            )
            height = float((z.max(axis=1) - z.mean(axis=1)).mean())
        return height / length

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        virtual = self._learned["alpha"] * self._lengths(
            activations, self._learned["origin"], self._learned["residual"]
        )
        log_odds: np.ndarray = virtual + free_energy(predicted, 1.0)
        return log_odds

    def _lengths(
        self, activations: np.ndarray, origin: np.ndarray, residual: np.ndarray
    ) -> np.ndarray:
        size = chunk_rows(sum(residual.shape), self.memory_mb, bytes_each=16)
        parts = [
            np.linalg.norm(self._product(activations[i : i + size] - origin, residual), axis=1)
            for i in range(0, len(activations), size)
        ]
        return np.concatenate(parts)


@register("supervisors", "react")
class RectifiedActivations(_OfLastLayer):
    """ReAct: the energy of the logits that the last layer gives when no activation exceeds a percentile of the reference's.

    Activations are cut at the `percentile` of all reference activations taken together (eq. 2; 90 as published).
    """

    name = "react"
    far_is_riskier = False  # an activation far from the reference may add to the energy

    def __init__(
        self,
        *,
        percentile: float = 90.0,
        temperature: float = 1.0,
        layer: str = PENULTIMATE,
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(layer=layer, pool=pool, device=device, memory_mb=memory_mb)
        if not 0 < percentile <= 100:
            raise ValueError(f"percentile is {percentile}; above 0 and up to 100 was expected")
        if not (temperature > 0 and np.isfinite(temperature)):
            raise ValueError(f"temperature is {temperature}; a positive number was expected")
        self.percentile, self.temperature = percentile, temperature

    def _learn_more(
        self, activations: np.ndarray, z: np.ndarray, last: LinearLayer
    ) -> dict[str, np.ndarray]:
        return {"cut": np.array(np.percentile(activations, self.percentile), dtype=np.float64)}

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        cut = np.minimum(activations, self._learned["cut"])
        z = self._product(cut, self._learned["weights"].T) + self._learned["bias"]
        return free_energy(z, self.temperature)


def principal_dimension(width: int) -> int:
    """How many main directions there are to so many activations: as published for wide layers, half of them else.

    >>> [principal_dimension(width) for width in (2048, 768, 80, 1)]
    [1000, 512, 40, 0]
    """
    if width > 1500:
        return 1000
    return 512 if width >= 768 else width // 2
