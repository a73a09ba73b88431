"""A small multilayer perceptron of scikit-learn as a subject: its logits, and the last hidden layer for its detectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from detectors import Answers, Reference, columns
from scores import Fold


@dataclass(frozen=True, eq=False)
class Perceptron:
    """Standardises its inputs (or leaves them as they are), then layers of rectified units."""

    mean: np.ndarray
    scale: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray]
    seen: Reference

    @classmethod
    def fit(
        cls,
        inputs: np.ndarray,
        truth: np.ndarray,
        *,
        units: tuple[int, ...],
        rounds: int,
        seed: int = 0,
        standardised: bool = True,
    ) -> Perceptron:
        """Learns classes 0, 1, …; all of them must occur. Pixels are not standardised: some never vary in training."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        mean, scale = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
        if standardised:
            mean, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-9
        network = MLPClassifier(units, max_iter=rounds, alpha=1e-3, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # the rounds are part of the definition
            network.fit((inputs - mean) / scale, truth)
        made = cls(
            mean, scale, network.coefs_, network.intercepts_, Reference(np.empty((0, 0)), truth)
        )
        return cls(
            mean, scale, made.weights, made.biases, Reference(made.answers(inputs).hidden, truth)
        )

    def answers(self, inputs: np.ndarray) -> Answers:
        """The last hidden layer and the logits."""
        hidden = (inputs - self.mean) / self.scale
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ weights + bias, 0.0)
        return Answers(hidden, hidden @ self.weights[-1] + self.biases[-1])

    def fold(
        self, name: str, inputs: np.ndarray, truth: np.ndarray, detectors: tuple[str, ...]
    ) -> Fold:
        """What it makes of the rows of a fold."""
        answers = self.answers(inputs)
        return Fold(name, answers.told == truth, columns(detectors, answers, self.seen))
