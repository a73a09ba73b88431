"""Distances from the reference activations as a whole: Mahalanobis, kernel density and k nearest neighbours.

Mahalanobis (Lee et al. 2018, eq. 2) and the kernel density are the two that Wang et al. 2022 (section 3.2) uses for modules of any
output; kNN (Sun et al. 2022) stands in Torpmann-Hagen et al. 2025, table 2, there with k = 1 and without normalising.

>>> from roadworthy.data.values import VECTOR
>>> rng = np.random.default_rng(0)
>>> def rows(a):
...     n = np.arange(len(a))
...     return ModuleTrace(n, n, np.full(len(a), None), n, VECTOR, a[:, :1], {"layer.penultimate": a})
>>> near, far = np.zeros((1, 4)), np.full((1, 4), 9.0)
>>> for supervisor in (Mahalanobis(), Kernels(), Neighbourhood(k=5, normalise=False)):
...     supervisor.fit(rows(rng.normal(size=(200, 4))), None)
...     print(supervisor.name, supervisor.score(rows(np.concatenate([near, far]))).round(1).tolist())
mahalanobis [0.1, 17.5]
kde [4.0, 462.2]
knn [0.6, 16.1]
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from roadworthy.data.values import CLASS_SCORES
from roadworthy.registry import register
from roadworthy.statistics.density import Covariance, KernelDensity, has_spread, whitened
from roadworthy.statistics.neighbours import Points, nearest
from roadworthy.statistics.row_blocks import in_blocks
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.activations import ActivationSupervisor, ByClass

ROWS_AT_ONCE = 512
"""Rows brought to length 1 or added up at once, so that they stay in a processor's cache."""
ORDINARY = 1e-30, 1e30
"""Lengths by which float32 can be divided without loss."""


@register("supervisors", "mahalanobis")
class Mahalanobis(ActivationSupervisor):
    """Distance to the nearest class mean, in the covariance that all classes share (Lee et al.).

    Classes are the labels where truth is one label a row, else the predicted classes; an output that is no class gives one mean.
    A singular covariance is shrunk by Ledoit and Wolf's rule; `notes` says so.
    """

    name = "mahalanobis"

    def _classes(self, trace: ModuleTrace, truth: Any) -> np.ndarray:
        labels = np.asarray(truth) if isinstance(truth, np.ndarray | list | tuple) else np.zeros(0)
        if (
            trace.kind is CLASS_SCORES
            and labels.shape == (len(trace),)
            and labels.dtype.kind in "iu"
        ):
            return labels
        return self._predicted(trace)

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        n, width = activations.shape
        labels, which = np.unique(classes, return_inverse=True)
        means = np.zeros((len(labels), width))
        # Some rows at a time, sorted among themselves: all of them sorted would be another copy.
        for start in range(0, n, ROWS_AT_ONCE):
            some = ByClass.of(
                activations[start : start + ROWS_AT_ONCE], which[start : start + ROWS_AT_ONCE]
            )
            means[some.labels] += np.add.reduceat(
                some.points, some.starts[:-1], axis=0, dtype=np.float64
            )
        means /= np.bincount(which)[:, None]
        try:
            shared = Covariance.fit(activations, centre=means, which=which, device=self.device)
        except np.linalg.LinAlgError:
            self.notes.append(
                f"{n} rows without spread within their classes; distances are Euclidean"
            )
            shared = Covariance(np.eye(width), 0.0)
        if shared.shrinkage:
            text = f"the covariance of {width} activations from {n} rows is singular; shrunk by {shared.shrinkage:.3g}"
            self.notes.append(text)
        centre = means.mean(axis=0)
        white = whitened(means, centre, shared.factor)
        return {"width": np.array(width), "centre": centre, "means": white, "factor": shared.factor}

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        white = whitened(
            activations, self._learned["centre"], self._learned["factor"], device=self.device
        )
        return nearest(
            white, self._learned["means"], device=self.device, memory_mb=self.memory_mb
        ).distances[:, 0]


@register("supervisors", "kde")
class Kernels(ActivationSupervisor):
    """Minus the log of one kernel density of all reference activations, with their covariance and Scott's bandwidth."""

    name = "kde"
    _kernels: KernelDensity | None = None

    def _forget(self) -> None:
        self._kernels = None

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        n, width = activations.shape
        same = not has_spread(activations)
        if same:
            self.notes.append(f"{n} rows without spread; the kernels have unit variance")
        kernels = KernelDensity.fit(
            activations, factor=np.eye(width) if same else None, device=self.device
        )
        if kernels.shrinkage:
            text = f"the covariance of {width} activations from {n} rows is singular; shrunk by {kernels.shrinkage:.3g}"
            self.notes.append(text)
        return {
            "width": np.array(width),
            "points": kernels.points,
            "centre": kernels.centre,
            "factor": kernels.factor,
        }

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        if self._kernels is None:
            self._kernels = KernelDensity(
                self._learned["points"], self._learned["centre"], self._learned["factor"]
            )
        return -self._kernels.log_density(activations, memory_mb=self.memory_mb, device=self.device)


@register("supervisors", "knn")
class Neighbourhood(ActivationSupervisor):
    """Distance to the k-th nearest reference activation; activations are brought to length 1 first unless told otherwise."""

    name = "knn"

    def __init__(
        self,
        *,
        k: int = 50,
        normalise: bool = True,
        layer: str = "penultimate",
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__(layer=layer, pool=pool, device=device, memory_mb=memory_mb)
        if k < 1:
            raise ValueError(f"k is {k}; at least 1 was expected")
        self.k, self.normalise = k, normalise
        self._points: Points | None = None

    def _forget(self) -> None:
        self._points = None

    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        if self.k > len(activations):
            self.notes.append(
                f"k is {self.k}, and there are {len(activations)} reference rows; the farthest is taken"
            )
        return {"width": np.array(activations.shape[1]), "points": self._ready(activations)}

    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        points = self._points or Points(
            self._learned["points"], device=self.device, memory_mb=self.memory_mb
        )
        self._points = points
        return points.kth_distances(self._ready(activations), k=min(self.k, len(points)))

    def _ready(self, activations: np.ndarray) -> np.ndarray:
        """A copy with rows of length 1, in their own precision; a row of zeros stays one."""
        if not self.normalise:
            return activations.copy()
        scaled = np.empty_like(activations)

        def scale(rows: slice) -> None:
            block = activations[rows]
            exact = block.astype(np.float64)
            norms = np.sqrt(np.einsum("ij,ij->i", exact, exact))
            lengths = np.where(norms > 0, norms, 1.0)[:, None]
            if ORDINARY[0] < lengths.min() and lengths.max() < ORDINARY[1]:
                np.divide(block, lengths.astype(block.dtype), out=scaled[rows])
            else:
                np.divide(exact, lengths, out=scaled[rows], casting="same_kind")

        in_blocks(scale, len(activations), size=ROWS_AT_ONCE, numbers=activations.size)
        return scaled
