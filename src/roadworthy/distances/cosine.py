"""One minus the cosine of the angle between two vectors (Wang et al. 2022, eq. 7, which is a similarity): 0 to 2.

A vector of zeros has no direction: it equals another one of zeros, and has nothing in common with any other (distance 1).

>>> cosine([1.0, 0.0], [2.0, 0.0]), cosine([1.0, 0.0], [0.0, 3.0]), cosine([1.0, 0.0], [-1.0, 0.0]), cosine([0.0], [0.0])
(0.0, 1.0, 2.0, 0.0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.distances import closed_form
from roadworthy.registry import register


def _ratios(passes: np.ndarray, original: np.ndarray) -> np.ndarray:
    """(T, n, d) and (n, d) to VR and VRO, (n, 2): the cosines of all pairs add up to the square of the sum of directions."""
    directions, answer = _directions(passes), _directions(original)
    count = len(passes)
    empty = ~directions.any(axis=2)
    empties = empty.sum(axis=0)
    alike = np.square(directions.sum(axis=0)).sum(axis=1) - np.square(directions).sum(axis=(0, 2))
    alike += empties * (empties - 1)
    apart = 1.0 - alike / (count * (count - 1)) if count > 1 else np.zeros(len(original))
    both = empty & ~answer.any(axis=1)
    off = 1.0 - (np.einsum("tnd,nd->tn", directions, answer) + both).mean(axis=0)
    return np.clip(np.stack([apart, off], axis=1), 0.0, 2.0)


@register("distances", "cosine", of=("vector", "class_scores"))
@closed_form(_ratios)
def cosine(first: Any, second: Any) -> float:
    """One minus the cosine of the angle between two vectors; scale does not matter."""
    pair = _directions(np.stack([np.ravel(first), np.ravel(second)]).astype(np.float64))
    if not pair.any():
        return 0.0
    return float(np.clip(1.0 - pair[0] @ pair[1], 0.0, 2.0))


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, zeros where a vector is; first made of size 1, so that no square is too small or too large."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0)
    sized = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    length = np.linalg.norm(sized, axis=-1, keepdims=True)
    return np.divide(sized, length, out=sized, where=length > 0)
