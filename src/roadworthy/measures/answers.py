"""Which cases were answered, and what an answer that never came costs.

No answer is the worst answer, under one rule for every measure with an open end (WER, MOTA, RMSE): it costs
at least everything (all words missed, all objects missed), and never less than the answers that did come, so
that a subject gains nothing by keeping silent.

>>> answered([None, "yes"]).tolist()
[False, True]
>>> answered(np.array([[0.2, 0.8], [np.nan, np.nan]])).tolist()
[True, False]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Dense outputs: one row of numbers a case (whatever stands in an unanswered row), and which cases were answered."""

    values: np.ndarray
    answered: np.ndarray


def answered(outputs: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Which cases have an answer: not None, and for numbers, no NaN."""
    if isinstance(outputs, np.ndarray) and outputs.dtype != object:
        if outputs.dtype.kind != "f":
            return np.ones(len(outputs), dtype=bool)
        return _without_nan(outputs)
    return np.array([not _is_missing(item) for item in outputs], dtype=bool)


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), math.prod(values.shape[1:]))


def _without_nan(values: np.ndarray) -> np.ndarray:
    # A sum is NaN if a part of it is: one pass without a temporary of the whole size. Only infinities of
    # both signs in one row sum to NaN as well, so rows that look bad are looked at again.
    flat = _flat(values)
    with np.errstate(invalid="ignore", over="ignore"):
        suspect = np.isnan(flat.sum(axis=1))
    sound = ~suspect
    sound[suspect] = ~np.isnan(flat[suspect]).any(axis=1)
    return sound


def _is_missing(item: Any) -> bool:
    if item is None:
        return True
    if isinstance(item, float | np.ndarray):
        array = np.asarray(item)
        return array.dtype.kind == "f" and bool(np.isnan(array).any())
    return False


def rows_of(outputs: Sequence[Any] | np.ndarray, *, what: str) -> Rows:
    """Outputs as an array of one row a case; `what` names them in the error when the rows differ in length."""
    if isinstance(outputs, np.ndarray) and outputs.dtype != object:
        return Rows(_flat(outputs), answered(outputs))
    has_answer = answered(outputs)
    found = [np.atleast_1d(np.asarray(outputs[i], dtype=np.float64)) for i in np.flatnonzero(has_answer).tolist()]
    widths = {row.shape for row in found}
    if len(widths) > 1:
        raise ValueError(f"{what}: every row must have one shape, but these were found: {sorted(widths)}")
    values = np.full((len(outputs), found[0].size if found else 0), np.nan)
    if found:
        values[has_answer] = np.stack(found).reshape(len(found), -1)
    return Rows(values, has_answer)


def same_length(outputs: Any, targets: Any) -> int:
    """The number of cases; refuses outputs and targets that do not go together."""
    if len(outputs) != len(targets):
        raise ValueError(
            f"{len(outputs)} outputs but {len(targets)} targets: a measure needs one target an output, in the same order"
        )
    return len(outputs)


def refuse_unknown_truth(targets: Sequence[Any]) -> None:
    """A case without truth cannot be measured."""
    missing = [row for row, target in enumerate(targets) if target is None]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(targets)} cases have no target (the first is row {missing[0]}); "
            "leave cases without truth out before measuring"
        )


class Charged(NamedTuple):
    """Counts of errors with the unanswered cases charged for, and the error of each case."""

    errors: np.ndarray
    rate: np.ndarray


def charge(errors: np.ndarray, totals: np.ndarray, has_answer: np.ndarray) -> Charged:
    """Charge cases without answer: all of `totals`, or the pooled error rate of the answers if that is above 1.

    >>> charge(np.array([1.0, 0.0]), np.array([4.0, 5.0]), np.array([True, False])).errors.tolist()
    [1.0, 5.0]
    >>> charge(np.array([6.0, 0.0]), np.array([3.0, 5.0]), np.array([True, False])).errors.tolist()
    [6.0, 10.0]
    """
    rate = errors / np.maximum(totals, 1.0)
    answered_total = float(totals[has_answer].sum())
    pooled = float(errors[has_answer].sum()) / answered_total if answered_total > 0 else 1.0
    worst_case = float(rate[has_answer].max(initial=1.0))
    return Charged(
        np.where(has_answer, errors, max(1.0, pooled) * totals),
        np.where(has_answer, rate, worst_case),
    )
