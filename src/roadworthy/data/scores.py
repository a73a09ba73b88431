"""Class scores as probabilities."""

from __future__ import annotations

import numpy as np


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Class probabilities from rows of scores: a row that is one already is kept, any other is read as logits.

    >>> probabilities(np.array([[0.25, 0.75], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    scores = np.asarray(scores, dtype=np.float64)
    is_distribution = (scores >= 0).all(axis=1) & (np.abs(scores.sum(axis=1) - 1) < 1e-3)
    if is_distribution.all():
        return scores
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    softmax = shifted / shifted.sum(axis=1, keepdims=True)
    return np.where(is_distribution[:, None], scores, softmax)
