"""Where numbers stand among sorted ones, by a table: the same answer as a binary search, at a fraction of its cost.

There is a row of sorted values for each supervisor. Its range is cut into many slots of equal width, and a table holds how many of
the values lie in the slots before. A larger number never has a lower slot, however it is rounded, so that only the values of its
own slot are in question: none or one is settled by one comparison, and a slot that holds more is searched. Where most would be
searched, all are. The tables of all rows stand one behind the other, so that all scores of many events are looked up at once: of
a thousand events, calls of numpy cost more than what they do.

>>> steps = Steps([np.array([1.0, 2.0, 4.0]), np.array([0.0])])
>>> steps.of(np.array([[0.5, 1.0, 3.0, 4.0, 9.0], [0.0, -1.0, 1.0, 0.0, 0.0]])).tolist()
[[0, 1, 4, 5, 6], [9, 8, 10, 9, 9]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
"""Small, so that tables stay near the processor."""

SLOTS_EACH = 8
"""Slots for each of the sorted values: of normal scores, one in some ten then lies with another."""
MOST_SEARCHED = 0.3
"""The share of the values in slots with others from which on a table saves nothing (long tails)."""

CROWDED = -1
"""Stands in the table for a slot that is searched."""


@dataclass(frozen=True, eq=False)
class _Slots:
    """The slots of one row."""

    scale: float
    low: float
    high: float
    """Numbers beyond lie where these do; a row without a width has one slot."""
    inside: NDArray[np.intp]
    """How many values each holds."""

    @classmethod
    def of(cls, values: Floats) -> _Slots:
        count = SLOTS_EACH * len(values)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            width = (values[-1] - values[0]) / count
            scale, low, high = 1.0 / width, values[0] - width, values[-1] + width
            apart = high - low
        # Values all alike, too near or too far from each other for a width: all fall into one slot.
        if not np.isfinite([scale, low, high, apart]).all():
            scale, low, high = 0.0, 0.0, 0.0
        *places, last = _places(np.append(values, high), scale, low, high).tolist()
        return cls(float(scale), float(low), float(high), np.bincount(places, minlength=last + 1))

    @property
    def useful(self) -> bool:
        """Whether few enough slots must be searched."""
        return bool(self.inside[self.inside > 1].sum() <= MOST_SEARCHED * self.inside.sum())


class Steps:
    """Rows of sorted, distinct and finite values."""

    def __init__(self, rows: Iterable[ArrayLike]) -> None:
        self._rows: list[Floats] = [np.asarray(row, dtype=np.float64) for row in rows]
        slots = [_Slots.of(row) for row in self._rows]
        self._scale = _column([s.scale for s in slots])
        self._low, self._high = _column([s.low for s in slots]), _column([s.high for s in slots])
        self._first_slot = _starts([len(s.inside) for s in slots])[:, None]
        # An infinite value, which no number reaches, stands behind the last of each row.
        self._first = _starts([len(row) + 1 for row in self._rows])
        self._values = np.concatenate([np.append(row, np.inf) for row in self._rows])
        below = [
            np.cumsum(s.inside) - s.inside + first
            for s, first in zip(slots, self._first, strict=True)
        ]
        crowded = np.concatenate([(s.inside > 1) & s.useful for s in slots])
        self._below = np.where(crowded, CROWDED, 2 * np.concatenate(below)).astype(np.int32)
        self._beside = np.repeat(self._values, 2)
        self._searched = [i for i, s in enumerate(slots) if not s.useful]
        self._ordered = _behind(
            np.repeat(np.arange(len(slots)), [len(row) + 1 for row in self._rows]), self._values
        )

    def of(self, numbers: Floats) -> Ints:
        """The step on which each finite number stands (rows x numbers); those of a row follow those of the row before.

        Below a row's first value is its first step, 0 for the first row; at the value the second, above it the third, and
        so on; one step behind the last of a row is never stood on.
        """
        slot = _places(numbers, self._scale, self._low, self._high)
        slot += self._first_slot
        found: Ints = self._below.take(slot)
        crowded = (found.ravel() == CROWDED).nonzero()[0]
        beside = self._beside.take(found)
        found += numbers > beside
        found += numbers >= beside
        for i in self._searched:
            found[i] = self._settled(
                self._first[i] + self._rows[i].searchsorted(numbers[i]), numbers[i]
            )
        if len(crowded):
            some = _behind(crowded // numbers.shape[1], numbers.ravel()[crowded])
            found.ravel()[crowded] = self._ordered.searchsorted(some) + self._ordered.searchsorted(
                some, side="right"
            )
        return found

    def _settled(self, at: NDArray[np.intp], numbers: Floats) -> Ints:
        result: Ints = (2 * at).astype(np.int32)
        result += self._values.take(at) == numbers
        return result


def _places(
    numbers: Floats, scale: float | Floats, low: float | Floats, high: float | Floats
) -> NDArray[np.intp]:
    place = np.maximum(numbers, low)
    np.minimum(place, high, out=place)
    place -= low
    place *= scale
    return place.astype(np.intp)


def _behind(row: NDArray[np.intp], value: Floats) -> NDArray[np.complex128]:
    """Values that are ordered by their row first: complex numbers are, by their real part."""
    found = np.empty(len(value), dtype=np.complex128)
    found.real, found.imag = row, value
    return found


def _column(numbers: Sequence[float]) -> Floats:
    return np.array(numbers, dtype=np.float64)[:, None]


def _starts(lengths: Sequence[int]) -> NDArray[np.intp]:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)
