"""Which cases were answered, and the refusal of cases that cannot be measured. What silence costs: `silence`.

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
    found = [
        np.atleast_1d(np.asarray(outputs[i], dtype=np.float64))
        for i in np.flatnonzero(has_answer).tolist()
    ]
    widths = {row.shape for row in found}
    if len(widths) > 1:
        raise ValueError(
            f"{what}: every row must have one shape, but these were found: {sorted(widths)}"
        )
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
