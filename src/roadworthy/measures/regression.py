"""Measures of a predicted vector against the true one: root mean square error and mean absolute error.

RMSE is equation 1 of Wang et al. (Wang et al. 2022), ``sqrt(sum (y' - y)^2 / N)``; of a vector, the mean over its
components stands in place of one square. A case fails when its own error is above `tolerance`; by default no
error is too large, and only cases without answer fail. Such a case is charged `worst`: unless given, the
largest target or the span of the targets, whichever is larger; and never less than the largest error of an
answer (see `silence`).

>>> scored = rmse(np.array([1.0, 2.0, np.nan]), np.array([1.0, 4.0, 0.0]), tolerance=1.0)
>>> scored.error.tolist(), scored.failure.tolist()
([0.0, 2.0, 4.0], [False, True, True])
>>> mae(np.array([1.0, 2.0]), np.array([1.0, 4.0])).value()
1.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from roadworthy.measures.scored import (
    AnsweredRows,
    Charged,
    Scored,
    of_ratio,
    rows_of,
    same_cases,
    silent_mean,
)
from roadworthy.registry import register


@register("measures", "rmse", of=("vector", "vector"), better="lower", range=(0, math.inf))
def rmse(
    outputs: Sequence[Any] | np.ndarray,
    targets: Sequence[Any] | np.ndarray,
    *,
    tolerance: float | None = None,
    worst: float | None = None,
) -> Scored:
    """Root of the mean square error (Wang et al. 2022, eq. 1).

    No answer costs `worst` (the span or the largest of the targets), or the largest error of an answer if that is more.
    """
    found, truth = _checked(outputs, targets)
    error = np.sqrt(np.mean(_difference(found, truth) ** 2, axis=1))
    charge = partial(_squares, worst=worst)
    return of_ratio(
        (error, truth),
        found.answered,
        charge,
        better="lower",
        tolerance=_largest(tolerance),
        scale=math.sqrt,
    )


@register("measures", "mae", of=("vector", "vector"), better="lower", range=(0, math.inf))
def mae(
    outputs: Sequence[Any] | np.ndarray,
    targets: Sequence[Any] | np.ndarray,
    *,
    tolerance: float | None = None,
    worst: float | None = None,
) -> Scored:
    """Mean absolute error.

    No answer costs `worst` (the span or the largest of the targets), or the largest error of an answer if that is more.
    """
    found, truth = _checked(outputs, targets)
    error = np.mean(np.abs(_difference(found, truth)), axis=1)
    charge = partial(_charged, worst=worst)
    return of_ratio(
        (error, truth), found.answered, charge, better="lower", tolerance=_largest(tolerance)
    )


def _difference(found: AnsweredRows, truth: np.ndarray) -> np.ndarray:
    """Found minus true, 0 where there is no answer."""
    if found.values.shape[1] == 0:
        return np.zeros((len(truth), 1))
    return np.where(found.answered[:, None], found.values - truth, 0.0)


def _charged(
    error: np.ndarray,
    truth: np.ndarray,
    *,
    worst: float | None,
    answered: np.ndarray,
    weights: np.ndarray,
) -> Charged:
    if worst is None:
        counted = truth[weights > 0]
        span = float(np.max(np.ptp(counted, axis=0), initial=0.0)) if len(counted) else 0.0
        worst = max(span, float(np.abs(counted).max(initial=0.0)))
    return silent_mean(error, np.full(len(error), worst), answered=answered, weights=weights)


def _squares(
    error: np.ndarray,
    truth: np.ndarray,
    *,
    worst: float | None,
    answered: np.ndarray,
    weights: np.ndarray,
) -> Charged:
    charged = _charged(error, truth, worst=worst, answered=answered, weights=weights)
    return charged._replace(numerator=charged.error**2)


def _checked(
    outputs: Sequence[Any] | np.ndarray, targets: Sequence[Any] | np.ndarray
) -> tuple[AnsweredRows, np.ndarray]:
    same_cases(outputs, targets)
    found = rows_of(outputs, what="outputs")
    truth = rows_of(targets, what="targets")
    if not truth.answered.all():
        row = int(np.flatnonzero(~truth.answered)[0])
        raise ValueError(
            f"the target of row {row} is missing or NaN; leave cases without truth out before measuring"
        )
    if found.answered.any() and found.values.shape != truth.values.shape:
        raise ValueError(
            f"outputs have {found.values.shape[1]} number(s) a case and targets {truth.values.shape[1]}; they must agree"
        )
    values = found.values.astype(np.float64)
    if not np.isfinite(values[found.answered]).all():
        found = AnsweredRows(values, found.answered & np.isfinite(values).all(axis=1))
        values = np.where(found.answered[:, None], values, 0.0)
    return AnsweredRows(values, found.answered), truth.values.astype(np.float64)


def _largest(tolerance: float | None) -> float:
    """The largest error that is no failure; any where nothing was said."""
    return math.inf if tolerance is None else tolerance
