"""Supervisors that read the logits: the largest one, and the energy (Torpmann-Hagen et al. 2025, table 2; Liu et al. 2020, eq. 4).

Probabilities have lost a constant of every row's logits. A row that is a distribution already is read as log p, for the energy
with that constant chosen so that the logits have mean zero: the energy of log p itself is 0 at temperature 1, whatever p.
Give a subject's logits where they can be had.

Probabilities that were rounded, to 3 decimals or 8 bits, have zeros where something was left, and the energy counts them. A row
does not say how small that was: the surest rows, 1 and zeros, look the same at any resolution. A floor by what a row shows would
make those the riskiest of all, so a zero has the one floor that keeps them the surest.

>>> from roadworthy.data.values import CLASS_SCORES
>>> from roadworthy.subject.trace import ModuleTrace
>>> trace = ModuleTrace(*[np.array([0])] * 2, np.array([None]), np.zeros(1), CLASS_SCORES, np.array([[4.0, 1.0, -2.0]]))
>>> [round(float(s.score(trace)[0]), 3) for s in (MaxLogit(), Energy(), Energy(temperature=10.0))]
[-4.0, -4.051, -12.284]
"""

from __future__ import annotations

import numpy as np

from roadworthy.data.probabilities import distributions, probabilities
from roadworthy.registry import register
from roadworthy.supervisors.plain import PlainSupervisor

SMALLEST = float(np.finfo(np.float32).tiny)
"""A probability that float32 rounded to 0 has a logarithm all the same."""


def logits(scores: np.ndarray, *, centred: bool = False) -> np.ndarray:
    """Rows of scores as logits: a row that is a distribution is read as log p, `centred` around its mean where asked.

    >>> logits(np.array([[3.0, 1.0], [0.5, 0.5]])).round(3).tolist()
    [[3.0, 1.0], [-0.693, -0.693]]
    """
    scores = np.asarray(scores, dtype=np.float64)
    given = distributions(scores)
    # A zero stays one where a rounded row is made whole: the share it would get there changes by chance from row to row.
    p = np.where(scores > 0, probabilities(scores), 0.0)
    logarithms = np.log(np.maximum(p, SMALLEST))
    if centred:
        logarithms = logarithms - logarithms.mean(axis=1, keepdims=True)
    return np.where(given[:, None], logarithms, scores)


def free_energy(z: np.ndarray, temperature: float) -> np.ndarray:
    """-T log Σ exp(z / T)."""
    largest = z.max(axis=1)
    sums = np.exp((z - largest[:, None]) / temperature).sum(axis=1)
    energies: np.ndarray = -(largest + temperature * np.log(sums))
    return energies


def log_softmax(z: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """log softmax(z / T).

    >>> log_softmax(np.array([[0.0, 1000.0]])).tolist()
    [[-1000.0, 0.0]]
    """
    logarithms: np.ndarray = (z + free_energy(z, temperature)[:, None]) / temperature
    return logarithms


@register("supervisors", "max_logit")
class MaxLogit(PlainSupervisor):
    """Minus the largest logit (Hendrycks et al. 2022); of probabilities, minus log of the largest."""

    def risk(self, scores: np.ndarray) -> np.ndarray:
        """Minus the largest."""
        largest: np.ndarray = logits(scores).max(axis=1)
        return -largest


@register("supervisors", "energy")
class Energy(PlainSupervisor):
    """Free energy of the logits; of probabilities, that of logits with mean zero."""

    def __init__(self, *, temperature: float = 1.0) -> None:
        if not (temperature > 0 and np.isfinite(temperature)):
            raise ValueError(f"temperature is {temperature}; a positive number was expected")
        self.temperature = temperature

    def risk(self, scores: np.ndarray) -> np.ndarray:
        """-T logsumexp(z / T): low where some class is strongly favoured."""
        return free_energy(logits(scores, centred=True), self.temperature)
