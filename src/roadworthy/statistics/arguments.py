"""What every interval of this room checks at the door: confidence, sides, values and groups.

>>> tail_probability(0.95, "two"), round(tail_probability(0.95, "lower"), 2)
(0.025000000000000022, 0.05)
>>> group_codes(["anna", "ben", "anna"], 3)
(array([0, 1, 0]), 2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Sided = Literal["two", "lower", "upper"]
Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_NO_LABEL = (
    "groups has missing labels; give every case a group, or a label of its own if it has none"
)


def check_confidence(confidence: float) -> float:
    """The confidence as a float strictly between 0 and 1."""
    level = float(confidence)
    if not 0.0 < level < 1.0:
        raise ValueError(
            f"confidence must lie between 0 and 1, found {confidence!r}; write 0.95 for 95%"
        )
    return level


def check_choice(name: str, value: str, choices: Sequence[str]) -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, found {value!r}")
    return value


def tail_probability(confidence: float, sided: str) -> float:
    """The error probability left in each open tail."""
    level = check_confidence(confidence)
    check_choice("sided", sided, ("two", "lower", "upper"))
    return (1.0 - level) / 2.0 if sided == "two" else 1.0 - level


def open_sides(
    low: float, high: float, sided: str, *, least: float, most: float
) -> tuple[float, float]:
    """Replace the side that was not asked for by the end of the quantity's range."""
    return (least if sided == "upper" else low), (most if sided == "lower" else high)


def real_values(values: ArrayLike, name: str) -> Floats:
    """A one-dimensional, non-empty array of finite numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be numbers or booleans, found dtype {array.dtype}; convert them first"
        )
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one entry per case, found shape {array.shape}"
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty; an interval needs at least one case")
    numbers = array.astype(np.float64)
    bad = int(np.count_nonzero(~np.isfinite(numbers)))
    if bad:
        raise ValueError(
            f"{name} has {bad} NaN or infinite entries; drop these cases or count them as failures"
        )
    return numbers


def is_binary(values: Floats) -> bool:
    """Whether every entry is 0 or 1."""
    return bool(np.all((values == 0.0) | (values == 1.0)))


def binary_values(values: ArrayLike, name: str) -> Floats:
    """Outcomes that are 0 or 1, as floats."""
    outcomes = real_values(values, name)
    if not is_binary(outcomes):
        odd = float(outcomes[(outcomes != 0.0) & (outcomes != 1.0)][0])
        raise ValueError(
            f"{name} must be 0/1 or booleans, found {odd:g}; use `mean` for other numbers"
        )
    return outcomes


def same_length(first: Any, second: Any, names: str) -> None:
    """Refuse two columns of different length."""
    if len(first) != len(second):
        raise ValueError(
            f"{names} must have one entry per case each, found {len(first)} and {len(second)}"
        )


def group_codes(groups: ArrayLike | None, n: int) -> tuple[Codes, int]:
    """Groups as integers 0..G-1, and G; without groups every case is a group of its own."""
    if groups is None:
        return np.arange(n, dtype=np.intp), n
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size != n:
        raise ValueError(
            f"groups must have one label per case: expected {n}, found shape {labels.shape}"
        )
    if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        raise ValueError(_NO_LABEL)
    if labels.dtype.kind == "O":
        if any(
            label is None or (isinstance(label, float) and math.isnan(label)) for label in labels
        ):
            raise ValueError(_NO_LABEL)
        labels = labels.astype(str)
    _, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.intp).ravel(), int(codes.max()) + 1
