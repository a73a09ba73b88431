"""What several passes through a module say together: a summary of class probabilities, or how far
the answers lie apart.

The summary of T passes over C classes holds the mean probability, the mean entropy and the votes of
each row: what the supervisors of Weiss et al. 2022, section VII-B, need of Monte-Carlo dropout and
of ensembles, whatever T is. Passes are added up one by one, so that only one of them is in memory.

>>> found = Summary.of([np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])])
>>> found.mean_probability.tolist(), found.mean_entropy.round(4).tolist(), found.votes.tolist()
([[0.75, 0.25]], [0.3466], [[2.0, 0.0]])
>>> Summary.unpack(found.pack()).votes.tolist()
[[2.0, 0.0]]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind, probabilities
from roadworthy.subject.needs import Passes


@dataclass(frozen=True)
class Summary:
    """Class probabilities over passes, a row a case, float64; a row that had no answer in some pass
    is NaN."""

    mean_probability: np.ndarray
    """(n, C)."""
    mean_entropy: np.ndarray
    """(n,), in nats: the mean of the entropies of the passes."""
    votes: np.ndarray
    """(n, C): in how many passes each class was the most probable one (the first of equals)."""

    @classmethod
    def of(cls, passes: Iterable[np.ndarray]) -> Summary:
        """From probabilities (T, n, C), as an array or one pass after the other."""
        total: np.ndarray | None = None
        count = 0
        for given in passes:
            p = np.asarray(given, dtype=np.float64)
            if p.ndim != 2 or (total is not None and p.shape != total.shape):
                expected = "(n, C)" if total is None else total.shape
                raise ValueError(
                    f"a pass gave probabilities of shape {p.shape}; {expected} was expected"
                )
            if total is None:
                total, entropy, votes = np.zeros(p.shape), np.zeros(len(p)), np.zeros(p.shape)
            total += p
            entropy += entropies(p)
            votes[np.arange(len(p)), p.argmax(axis=1)] += 1.0
            count += 1
        if total is None:
            raise ValueError("there is nothing to summarise without a pass; ask for one at least")
        votes[np.isnan(total).any(axis=1)] = np.nan
        return cls(total / count, entropy / count, votes)

    def pack(self) -> np.ndarray:
        """One array (n, 2C + 1): mean probability, mean entropy, votes. A column of the trace is
        one."""
        return np.hstack([self.mean_probability, self.mean_entropy[:, None], self.votes])

    @classmethod
    def unpack(cls, array: np.ndarray) -> Summary:
        """What `pack` packed."""
        array = np.asarray(array, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] % 2 == 0:
            raise ValueError(
                f"the summary of passes has the shape {array.shape}; (n, 2C + 1) was expected for C classes"
            )
        classes = array.shape[1] // 2
        return cls(array[:, :classes], array[:, classes], array[:, classes + 1 :])


def entropies(p: np.ndarray) -> np.ndarray:
    """The entropy of each row of probabilities, in nats; 0 log 0 is 0.

    >>> entropies(np.array([[0.5, 0.5], [1.0, 0.0]])).round(4).tolist()
    [0.6931, 0.0]
    """
    found: np.ndarray = -np.einsum("ij,ij->i", p, np.log(np.where(p > 0, p, 1.0)))
    return np.where(np.isnan(p).any(axis=1), np.nan, found + 0.0)


def reduced(request: Passes, kind: Kind, original: Any, passes: Iterable[Any]) -> np.ndarray:
    """What the trace keeps of the passes: the packed summary, or with a distance how far they lie
    apart, (rows, 2).

    `original` is the module's own answer; both it and the passes are columns of answers of this
    kind.

    >>> reduced(Passes("dropout", 2), CLASS_SCORES, None, [np.array([[0.0, 0.0]]), np.array([[0.0, 1.0]])])[0, 3:].tolist()
    [1.0, 1.0]
    """
    if request.distance is not None:
        from roadworthy.subject.variation import variation

        apart: np.ndarray = variation(request.distance, kind, original, passes)
        return apart
    if kind is not CLASS_SCORES:
        raise ValueError(
            f"passes of {kind.name} cannot be summarised as class probabilities; ask for them with a distance between {kind.name}"
        )
    return Summary.of(_probabilities(scores) for scores in passes).pack()


def _probabilities(scores: Any) -> np.ndarray:
    """Probabilities of the rows that are finite; NaN in the others."""
    rows = np.asarray(scores, dtype=np.float64)
    finite = np.isfinite(rows).all(axis=1)
    if finite.all():
        return probabilities(rows)
    result = np.full(rows.shape, np.nan)
    if finite.any():
        result[finite] = probabilities(rows[finite])
    return result
