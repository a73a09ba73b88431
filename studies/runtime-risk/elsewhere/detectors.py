"""What detectors say of a subject's answers, from its logits and its hidden features alone; higher is riskier.

>>> hidden, truth = np.repeat(np.eye(2), 20, axis=0), np.repeat([0, 1], 20)
>>> said = columns(("max_softmax", "knn"), Answers(hidden, 5 * hidden), Reference(hidden, truth))
>>> {name: round(float(column[0]), 3) for name, column in said.items()}
{'max_softmax': -0.993, 'knn': 0.0}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

NEIGHBOURS = 10
RIDGE = 1e-2
"""Of the variance of a hidden unit, added to all: units that never speak have none."""


class Answers(NamedTuple):
    """Of each row, the hidden features and the logits."""

    hidden: np.ndarray
    logits: np.ndarray

    @property
    def told(self) -> np.ndarray:
        """The class that is answered."""
        return np.asarray(self.logits.argmax(axis=1))

    @property
    def shares(self) -> np.ndarray:
        """Softmax."""
        raised = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Reference:
    """The training rows, which the detectors that learn have seen."""

    hidden: np.ndarray
    truth: np.ndarray

    @cached_property
    def centres(self) -> np.ndarray:
        """The mean of each class."""
        return np.array([self.hidden[self.truth == c].mean(axis=0) for c in np.unique(self.truth)])

    @cached_property
    def within(self) -> np.ndarray:
        """What whitens the scatter about the centres."""
        places = np.searchsorted(np.unique(self.truth), self.truth)
        return whitening(self.hidden - self.centres[places])

    @cached_property
    def whole(self) -> np.ndarray:
        """What whitens the scatter about the mean."""
        return whitening(self.hidden - self.hidden.mean(axis=0))


def whitening(scatter: np.ndarray) -> np.ndarray:
    """A matrix that turns Mahalanobis distances into Euclidean ones."""
    covariance = scatter.T @ scatter / len(scatter)
    ridge = RIDGE * np.trace(covariance) / len(covariance)
    return np.linalg.cholesky(np.linalg.inv(covariance + ridge * np.eye(len(covariance))))


def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Euclidean distances, as products of matrices."""
    return np.maximum((a * a).sum(axis=1)[:, None] - 2 * a @ b.T + (b * b).sum(axis=1), 0.0)


def energy(answers: Answers, _: Reference) -> np.ndarray:
    """Minus the log of the sum of exponents."""
    most = answers.logits.max(axis=1)
    return -(most + np.log(np.exp(answers.logits - most[:, None]).sum(axis=1)))


def entropy(answers: Answers, _: Reference) -> np.ndarray:
    """Of the softmax."""
    return -(answers.shares * np.log(answers.shares + 1e-12)).sum(axis=1)


def grad_magnitude(answers: Answers, _: Reference) -> np.ndarray:
    """The L1 norm of the last layer's gradient of the divergence from uniform."""
    classes = answers.logits.shape[1]
    return np.abs(answers.shares - 1 / classes).sum(axis=1) * np.abs(answers.hidden).sum(axis=1)


def knn(answers: Answers, seen: Reference) -> np.ndarray:
    """The distance to the tenth neighbour among the training rows."""
    return np.sqrt(
        np.partition(squared(answers.hidden, seen.hidden), NEIGHBOURS - 1, axis=1)[
            :, NEIGHBOURS - 1
        ]
    )


def mahalanobis(answers: Answers, seen: Reference) -> np.ndarray:
    """To the nearest centre of a class."""
    return squared(answers.hidden @ seen.within, seen.centres @ seen.within).min(axis=1)


def typicality(answers: Answers, seen: Reference) -> np.ndarray:
    """How far from the mean, by one normal for all classes."""
    mean = seen.hidden.mean(axis=0, keepdims=True)
    return squared(answers.hidden @ seen.whole, mean @ seen.whole)[:, 0]


DETECTORS: dict[str, Callable[[Answers, Reference], np.ndarray]] = {
    "max_softmax": lambda answers, _: -answers.shares.max(axis=1),
    **{f.__name__: f for f in (energy, entropy, grad_magnitude, knn, mahalanobis, typicality)},
}


def columns(names: tuple[str, ...], answers: Answers, seen: Reference) -> dict[str, np.ndarray]:
    """What the named detectors say."""
    return {name: DETECTORS[name](answers, seen) for name in names}
