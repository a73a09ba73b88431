"""What an answer that never came costs: at least everything, and at least as much as the worst answer that did come.

The rule, for every measure: a case without answer fails, even where its target is empty; and putting silence in
place of an answer improves neither the value nor the case's error, as long as an answer as bad remains among
the cases. No finite charge can promise more for a measure without a worst answer: whatever silence costs, one
could answer a word error rate of ten times that, and then fall silent. Where there is a worst answer (a
label, an object that is found or not) silence costs just that, and the rule holds without the condition.

A charge looks at the cases that are measured together. Weights and rows taken change what those are, so it is
made anew for them: a case of weight 0 sets no example.

>>> found = of_ratio((np.array([6.0, 0.0]), np.array([3.0, 5.0])), np.array([True, False]), edits, better="lower")
>>> found.numerator.tolist(), found.value(), found.value(np.array([0, 1]))
([6.0, 10.0], 2.0, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from roadworthy.measures.scored import Scored


class Charged(NamedTuple):
    """Parts of a ratio and the errors by case, the unanswered cases charged for."""

    numerator: np.ndarray
    denominator: np.ndarray
    error: np.ndarray


Charge = Callable[..., Charged]
"""``charge(*columns, answered=…, weights=…)``: columns have an entry a case; those of unanswered cases are not read."""


def of_ratio(
    columns: tuple[np.ndarray, ...],
    answered: np.ndarray,
    charge: Charge,
    *,
    better: Literal["higher", "lower"],
    tolerance: float = math.inf,
    scale: Callable[[float], float] | None = None,
    limits: tuple[float, float] = (0.0, math.inf),
) -> Scored:
    """A ratio whose unanswered cases are charged for; a case fails without answer or with an error above `tolerance`."""
    found = charge(*columns, answered=answered, weights=np.ones(len(answered)))

    def recount(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return charge(*columns, answered=answered, weights=weights)[:2]

    def subset(rows: np.ndarray) -> Scored:
        parts = tuple(column[rows] for column in columns)
        return of_ratio(
            parts,
            answered[rows],
            charge,
            better=better,
            tolerance=tolerance,
            scale=scale,
            limits=limits,
        )

    silent = not answered.all()
    return Scored.ratio(
        found.numerator,
        found.denominator,
        error=found.error,
        failure=(found.error > tolerance) | ~answered,
        better=better,
        scale=scale,
        limits=limits,
        recount=recount if silent else None,
        subset=subset if silent else None,
    )


def as_bad_as_any(counts: np.ndarray, totals: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """What each case would count if it were as bad as the worst of those `seen`, and no less than 1 for 1.

    Counts grow with the total, so the worst rate is carried over; a case with nothing in it has no rate and is
    compared with its like.

    >>> seen = np.array([True, True, False, False])
    >>> as_bad_as_any(np.array([4.0, 7.0, 0.0, 0.0]), np.array([2.0, 0.0, 5.0, 0.0]), seen).tolist()
    [4.0, 7.0, 10.0, 7.0]
    """
    some = totals > 0
    rate = float((counts / np.maximum(totals, 1.0))[seen & some].max(initial=1.0))
    alone = float(counts[seen & ~some].max(initial=rate))
    return np.where(some, rate * totals, alone)


def edits(
    errors: np.ndarray, totals: np.ndarray, *, answered: np.ndarray, weights: np.ndarray
) -> Charged:
    """Errors over totals (word error rate, 1 - MOTA): silence misses all, at least 1, at the worst rate of the answers.

    Nor is that rate below the one of all answers together, which errors on empty targets may lift above each
    of theirs. Where no target holds anything, the value is the mean of the cases' own errors.

    >>> edits(np.array([1.0, 0.0]), np.array([4.0, 0.0]), answered=np.array([True, False]), weights=np.ones(2))[0].tolist()
    [1.0, 1.0]
    """
    error = errors / np.maximum(totals, 1.0)
    seen, silent = answered & (weights > 0), ~answered & (weights > 0)
    if not silent.any():
        return Charged(errors, totals, np.where(answered, error, 1.0))
    error = np.where(answered, error, float(error[seen].max(initial=1.0)))
    if not totals[seen | silent].any():
        return Charged(error, np.ones(len(error)), error)
    charged = as_bad_as_any(errors, totals, seen)
    known = float(np.dot(weights, np.where(answered, totals, 0.0)))
    if known > 0:
        made = np.where(answered, errors, np.where(totals > 0, 0.0, charged))
        charged = np.maximum(charged, float(np.dot(weights, made)) / known * totals)
    return Charged(np.where(answered, errors, charged), totals, error)


def mean(
    errors: np.ndarray, least: np.ndarray, *, answered: np.ndarray, weights: np.ndarray
) -> Charged:
    """The mean of errors: silence costs the largest of them and of `least`, or 1 where all of these are 0.

    >>> mean(np.array([2.0, 0.0]), np.zeros(2), answered=np.array([True, False]), weights=np.ones(2)).error.tolist()
    [2.0, 2.0]
    """
    counted = weights > 0
    worst = max(
        float(errors[answered & counted].max(initial=0.0)), float(least[counted].max(initial=0.0))
    )
    # Where all answers are perfect nothing says how bad bad is; silence still must not look perfect.
    error = np.where(answered, errors, worst or 1.0)
    return Charged(error, np.ones(len(error)), error)
