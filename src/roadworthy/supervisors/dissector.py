"""Dissector (Wang et al. 2020; Weiss et al. 2022, section VII-B): do a model's own layers support what it finally answers?

For every layer a perceptron is trained that predicts the label from the layer's activations alone. Its support value for the
model's final class l is p_l / (p_l + p_second) where l is the perceptron's first choice, else 1 - p_top / (p_top + p_l). Both
are p_l over the sum of p_l and the best of the other classes: the logistic function of how far l's logit stands above the best
other one, which is how it is computed here. The prediction's validity is the average of the support values, with weights that
grow with depth; the risk is 1 - validity.

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> shallow, deep = np.array([[0.0], [1], [0], [1]]), np.array([[0.0], [0], [5], [5]])
>>> def rows(scores, *layers):
...     n = np.arange(len(scores))
...     columns = {"layer.conv1": layers[0], "layer.fc1": layers[1]}
...     return ModuleTrace(n, n, np.full(len(n), None), n, CLASS_SCORES, scores, columns)
>>> supervisor = Dissector(layers=("conv1", "fc1"), l2=0.01)
>>> supervisor.fit(rows(np.eye(2)[[0, 0, 1, 1]], shallow, deep), np.array([0, 0, 1, 1]))
>>> supervisor.score(rows(np.eye(2)[[0, 0]], shallow[:2], np.array([[0.0], [5]]))).round(2).tolist()
[0.17, 0.83]
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from roadworthy.registry import register
from roadworthy.statistics.neighbours import chunk_rows
from roadworthy.subject.needs import EARLY, LATE, MIDDLE, PENULTIMATE, Layer, Output, Request
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.activations import activations_in, refuse_broken, unseen_classes
from roadworthy.supervisors.keeping import LearnedSupervisor
from roadworthy.supervisors.perceptron import Perceptron
from roadworthy.supervisors.plain import OfClasses, column_of

Growth = Literal["linear", "logarithmic", "exponential"]


@register("supervisors", "dissector")
class Dissector(OfClasses, LearnedSupervisor):
    """How little a model's own layers support its answer: a perceptron a layer, support values averaged with growing weights.

    Layers are named from first to last. What is spatial is reduced to its mean: unpooled maps ("none") are what the authors
    read, and may have a hundred thousand activations, each with a weight for every class. The perceptrons learn the labels
    where truth is one label a row, else the predicted classes. An answer whose class no reference row has is not supported.
    """

    name = "dissector"
    why = "it supports a class"

    def __init__(
        self,
        *,
        layers: tuple[str, ...] = (EARLY, MIDDLE, LATE, PENULTIMATE),
        growth: Growth = "linear",
        l2: float = 1.0,
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__()
        chunk_rows(1, memory_mb)
        if not layers or len(set(layers)) < len(layers):
            raise ValueError(
                f"layers are {list(layers)}; one or more, each once, from first to last were expected"
            )
        if not (l2 > 0 and np.isfinite(l2)):
            raise ValueError(f"l2 is {l2}; a positive number was expected")
        depth_weights(len(layers), growth)
        self.layers, self.growth, self.l2, self.pool = tuple(layers), growth, l2, pool
        self.device, self.memory_mb = device, memory_mb
        self.needs: tuple[Request, ...] = (Output(), *(Layer(name, pool) for name in self.layers))

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Train a perceptron a layer, on the rows that have an answer; NaN or infinite activations among them are refused."""
        sound = trace.ok
        self._refuse_none(np.flatnonzero(sound), trace)
        scores = column_of(trace, Output())
        self.notes = []
        classes = self._classes(scores, truth, len(trace))
        known = (
            sound & np.isfinite(scores).all(axis=1) & (classes >= 0) & (classes < scores.shape[1])
        )
        rows, left_out = np.flatnonzero(known), int((sound & ~known).sum())
        if left_out:
            self.notes.append(
                f"{left_out} rows have no class that the module answers; they are left out"
            )
        if len(np.unique(classes[rows])) < 2:
            raise ValueError(
                f"{self.name} separates classes, and the {len(rows)} reference rows are of "
                f"{len(np.unique(classes[rows]))}; give reference data of more classes"
            )
        missing = unseen_classes(scores.shape[1], classes[rows])
        if missing:
            self.notes.append(
                f"no reference row is of class {missing}; such an answer is not supported"
            )
        learned = {"classes": np.array(scores.shape[1])}
        for i, need in enumerate(self.needs[1:]):
            column = activations_in(trace, need, self.name)
            activations = column if len(rows) == len(trace) else column[rows]
            refuse_broken(activations, self.name, self.layers[i])
            found = Perceptron.fit(
                activations, classes[rows], l2=self.l2, device=self.device, memory_mb=self.memory_mb
            )
            learned |= {
                f"weights{i}": found.weights,
                f"bias{i}": found.bias,
                "labels": found.labels,
            }
        self._learned = learned

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer or some layer's activations are not finite."""
        self._refuse_unfitted()
        result = np.full(len(trace), np.nan)
        sound = trace.ok
        if not sound.any():
            return result
        scores = column_of(trace, Output())
        self._refuse_width(scores.shape[1], int(self._learned["classes"]), "classes")
        sound &= np.isfinite(scores).all(axis=1)
        predicted = scores.argmax(axis=1)
        validity = np.zeros(len(trace))
        weights = depth_weights(len(self.layers), self.growth)
        for i, need in enumerate(self.needs[1:]):
            validity += weights[i] * self._support(
                i, activations_in(trace, need, self.name), predicted, sound
            )
        result[sound] = 1.0 - validity[sound]
        return result

    def _support(
        self, i: int, column: np.ndarray, predicted: np.ndarray, sound: np.ndarray
    ) -> np.ndarray:
        """The i-th layer's support values; NaN where its activations are not finite."""
        known = self._learned
        self._refuse_width(
            column.shape[1],
            len(known[f"weights{i}"]),
            f"activations of the layer {self.layers[i]!r}",
        )
        perceptron = Perceptron(known[f"weights{i}"], known[f"bias{i}"], known["labels"])
        support = np.full(len(column), np.nan)
        size = chunk_rows(column.shape[1], self.memory_mb, bytes_each=16)
        for start in range(0, len(column), size):
            rows = start + np.flatnonzero(sound[start : start + size])
            rows = rows[np.isfinite(column[rows]).all(axis=1)]
            if len(rows):
                support[rows] = support_values(
                    perceptron.decide(column[rows]), perceptron.labels, predicted[rows]
                )
        return support

    def _classes(self, scores: np.ndarray, truth: Any, n: int) -> np.ndarray:
        """The labels, where truth is one label a row, else the predicted classes."""
        labels = np.asarray(truth) if isinstance(truth, np.ndarray | list | tuple) else np.zeros(0)
        if labels.shape == (n,) and labels.dtype.kind in "iu":
            return labels.astype(np.int64)
        self.notes.append(
            "the perceptrons learned the predicted classes: truth is not one label a row"
        )
        predicted: np.ndarray = scores.argmax(axis=1)
        return predicted

    def _refuse_width(self, found: int, expected: int, what: str) -> None:
        if found != expected:
            raise ValueError(
                f"{self.name} was fitted on {expected} {what}, and {found} were found; score the module it was fitted on"
            )


def support_values(logits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """How much a perceptron with these logits for `labels` supports the predicted classes, from 0 to 1.

    >>> p = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]])
    >>> support_values(np.log(p), np.array([0, 1, 2]), np.array([0, 2])).round(4).tolist()
    [0.6667, 0.1429]
    """
    own = labels == predicted[:, None]
    ahead = np.where(own, logits, -np.inf).max(axis=1) - np.where(own, -np.inf, logits).max(axis=1)
    # Beyond 700 the exponential is no float64; the value is 0 or 1 long before.
    support: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(ahead, -700.0, 700.0)))
    return np.where(own.any(axis=1), support, 0.0)


def depth_weights(count: int, growth: Growth) -> np.ndarray:
    """Weights of the layers from first to last, with sum 1: of the k-th, k, log(1 + k) or e^k.

    >>> depth_weights(3, "linear").round(3).tolist(), depth_weights(3, "exponential").round(3).tolist()
    ([0.167, 0.333, 0.5], [0.09, 0.245, 0.665])
    """
    k = np.arange(1.0, count + 1)
    forms = {"linear": k, "logarithmic": np.log1p(k), "exponential": np.exp(k - count)}
    if growth not in forms:
        raise ValueError(f"growth is {growth!r}; one of {', '.join(forms)} was expected")
    return forms[growth] / forms[growth].sum()
