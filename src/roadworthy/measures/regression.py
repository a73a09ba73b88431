"""Measures of a predicted vector against the true one: root mean square error and mean absolute error.

RMSE is equation 1 of Wang et al. (seed 000), ``sqrt(sum (y' - y)^2 / N)``; of a vector, the mean over its
components stands in place of one square. A case fails when its own error is above `tolerance`; by default no
error is too large, and only cases without answer fail. Such a case is charged `worst`: unless given, the
largest error of any answer, the span of the targets or the largest of them, whichever is largest.

>>> scored = rmse(np.array([1.0, 2.0, np.nan]), np.array([1.0, 4.0, 0.0]), tolerance=1.0)
>>> scored.error.tolist(), scored.failure.tolist()
([0.0, 2.0, 4.0], [False, True, True])
>>> mae(np.array([1.0, 2.0]), np.array([1.0, 4.0])).value()
1.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.measures.answers import Rows, rows_of, same_length
from roadworthy.measures.scored import Scored
from roadworthy.registry import register


@register("measures", "rmse", of=("vector", "vector"), better="lower")
def rmse(
    outputs: Sequence[Any] | np.ndarray,
    targets: Sequence[Any] | np.ndarray,
    *,
    tolerance: float | None = None,
    worst: float | None = None,
) -> Scored:
    """Root of the mean square error (seed 000, eq. 1)."""
    found, truth = _checked(outputs, targets)
    difference = _difference(found, truth)
    error = _charged(np.sqrt(np.mean(difference**2, axis=1)), found, truth, worst)
    return Scored.ratio(
        error**2,
        np.ones(len(error)),
        error=error,
        failure=_beyond(error, tolerance) | ~found.answered,
        better="lower",
        scale=math.sqrt,
    )


@register("measures", "mae", of=("vector", "vector"), better="lower")
def mae(
    outputs: Sequence[Any] | np.ndarray,
    targets: Sequence[Any] | np.ndarray,
    *,
    tolerance: float | None = None,
    worst: float | None = None,
) -> Scored:
    """Mean absolute error."""
    found, truth = _checked(outputs, targets)
    error = _charged(np.mean(np.abs(_difference(found, truth)), axis=1), found, truth, worst)
    failure = _beyond(error, tolerance) | ~found.answered
    return Scored.ratio(error, np.ones(len(error)), error=error, failure=failure, better="lower")


def _difference(found: Rows, truth: np.ndarray) -> np.ndarray:
    """Found minus true, 0 where there is no answer."""
    if found.values.shape[1] == 0:
        return np.zeros((len(truth), 1))
    return np.where(found.answered[:, None], found.values - truth, 0.0)


def _charged(error: np.ndarray, found: Rows, truth: np.ndarray, worst: float | None) -> np.ndarray:
    if found.answered.all():
        return error
    if worst is None:
        span = float(np.max(np.ptp(truth, axis=0), initial=0.0))
        # Where all answers are perfect and all targets 0 nothing says how bad bad is; silence still must not look perfect.
        worst = max(float(error.max(initial=0.0)), span, float(np.abs(truth).max(initial=0.0))) or 1.0
    return np.where(found.answered, error, worst)


def _checked(outputs: Sequence[Any] | np.ndarray, targets: Sequence[Any] | np.ndarray) -> tuple[Rows, np.ndarray]:
    same_length(outputs, targets)
    found = rows_of(outputs, what="outputs")
    truth = rows_of(targets, what="targets")
    if not truth.answered.all():
        row = int(np.flatnonzero(~truth.answered)[0])
        raise ValueError(f"the target of row {row} is missing or NaN; leave cases without truth out before measuring")
    if found.answered.any() and found.values.shape != truth.values.shape:
        raise ValueError(
            f"outputs have {found.values.shape[1]} number(s) a case and targets {truth.values.shape[1]}; they must agree"
        )
    values = found.values.astype(np.float64)
    if not np.isfinite(values[found.answered]).all():
        found = Rows(values, found.answered & np.isfinite(values).all(axis=1))
        values = np.where(found.answered[:, None], values, 0.0)
    return Rows(values, found.answered), truth.values.astype(np.float64)


def _beyond(error: np.ndarray, tolerance: float | None) -> np.ndarray:
    """Which errors are too large; none where nothing was said."""
    return error > (math.inf if tolerance is None else tolerance)
