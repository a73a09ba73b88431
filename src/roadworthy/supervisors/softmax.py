"""Supervisors that read the class scores alone (seed 001, section VII-B): max softmax, PCS, DeepGini, softmax entropy.

All take class probabilities; a row of scores that is no distribution is read as logits. Each is turned so that higher is riskier.

>>> trace = ModuleTrace(*[np.array([0])] * 2, np.array([None]), np.zeros(1), CLASS_SCORES, np.array([[0.7, 0.2, 0.1]]))
>>> [round(float(s().score(trace)[0]), 3) for s in (MaxSoftmax, PredictionConfidence, DeepGini, SoftmaxEntropy)]
[0.3, 0.5, 0.46, 0.802]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind, probabilities
from roadworthy.registry import register
from roadworthy.subject.needs import Output, Request
from roadworthy.subject.trace import ModuleTrace


def max_softmax(p: np.ndarray) -> np.ndarray:
    """One minus the highest probability."""
    return 1.0 - p.max(axis=1)


def prediction_confidence(p: np.ndarray) -> np.ndarray:
    """One minus the difference of the two highest probabilities."""
    if p.shape[1] < 2:
        return np.zeros(len(p))
    top = np.partition(p, -2, axis=1)[:, -2:]
    return 1.0 - (top[:, 1] - top[:, 0])


def deep_gini(p: np.ndarray) -> np.ndarray:
    """One minus the sum of squared probabilities."""
    return 1.0 - np.einsum("ij,ij->i", p, p)


def softmax_entropy(p: np.ndarray) -> np.ndarray:
    """The entropy of the probabilities, in nats."""
    return -np.einsum("ij,ij->i", p, np.log(np.where(p > 0, p, 1.0)))


class _FromProbabilities:
    """A supervisor that is a pure function of class probabilities."""

    needs: tuple[Request, ...] = (Output(),)
    fitted = False
    quantify: Callable[[np.ndarray], np.ndarray]

    def applies_to(self, kind: Kind) -> str | None:
        """Class scores only."""
        return None if kind is CLASS_SCORES else f"it reads class scores, and the module gives {kind.name}"

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """There is nothing to learn."""

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer."""
        scores = np.asarray(trace.output, dtype=np.float64).reshape(len(trace), -1)
        sound = np.isfinite(scores).all(axis=1) & trace.ok
        result = np.full(len(trace), np.nan)
        if sound.any():
            result[sound] = type(self).quantify(probabilities(scores[sound]))
        return result

    def save(self, folder: Path) -> None:
        """There is nothing to keep."""

    def load(self, folder: Path) -> None:
        """There is nothing to read."""


@register("supervisors", "max_softmax")
class MaxSoftmax(_FromProbabilities):
    """Highest softmax value, turned (Hendrycks and Gimpel)."""

    quantify = staticmethod(max_softmax)


@register("supervisors", "pcs")
class PredictionConfidence(_FromProbabilities):
    """Prediction-confidence score: difference of the two highest softmax values, turned."""

    quantify = staticmethod(prediction_confidence)


@register("supervisors", "deep_gini")
class DeepGini(_FromProbabilities):
    """Complement of the squared norm of the softmax vector."""

    quantify = staticmethod(deep_gini)


@register("supervisors", "softmax_entropy")
class SoftmaxEntropy(_FromProbabilities):
    """Entropy of the softmax vector."""

    quantify = staticmethod(softmax_entropy)
