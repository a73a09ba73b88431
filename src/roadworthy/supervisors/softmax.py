"""Supervisors that read the class scores alone (Weiss et al. 2022, section VII-B): max softmax, PCS, DeepGini, softmax entropy.

All take class probabilities; a row of scores that is no distribution is read as logits. Each is turned so that higher is riskier.

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> trace = ModuleTrace(*[np.array([0])] * 2, np.array([None]), np.zeros(1), CLASS_SCORES, np.array([[0.7, 0.2, 0.1]]))
>>> [round(float(s().score(trace)[0]), 3) for s in (MaxSoftmax, PredictionConfidence, DeepGini, SoftmaxEntropy)]
[0.3, 0.5, 0.46, 0.802]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from roadworthy.data.probabilities import entropies
from roadworthy.data.values import probabilities
from roadworthy.registry import register
from roadworthy.supervisors.plain import PlainSupervisor


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
    return entropies(p)


class _FromProbabilities(PlainSupervisor):
    """A supervisor that is a function of class probabilities alone."""

    quantify: Callable[[np.ndarray], np.ndarray]

    def risk(self, scores: np.ndarray) -> np.ndarray:
        """The function of the probabilities that the scores are, or stand for."""
        return type(self).quantify(probabilities(scores))


@register("supervisors", "max_softmax")
class MaxSoftmax(_FromProbabilities):
    """1 - highest softmax probability (Hendrycks and Gimpel 2017)."""

    quantify = staticmethod(max_softmax)


@register("supervisors", "pcs")
class PredictionConfidence(_FromProbabilities):
    """Prediction-confidence score: 1 - difference of the two highest softmax probabilities."""

    quantify = staticmethod(prediction_confidence)


@register("supervisors", "deep_gini")
class DeepGini(_FromProbabilities):
    """Complement of the squared norm of the softmax vector."""

    quantify = staticmethod(deep_gini)


@register("supervisors", "softmax_entropy")
class SoftmaxEntropy(_FromProbabilities):
    """Entropy of the softmax vector."""

    quantify = staticmethod(softmax_entropy)
