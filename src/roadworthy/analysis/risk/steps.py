"""Where numbers stand among sorted ones, by a table: the same answer as a binary search, at a fraction of its cost.

The range is cut into many slots of equal width, and a table holds how many of the sorted numbers lie in the slots before. A larger
number never has a lower slot, however it is rounded, so that only the numbers of its own slot are in question: none or one is
settled by one comparison, and a slot that holds more is searched. Where most would be searched, all are.

>>> steps = Steps(np.array([1.0, 2.0, 4.0]))
>>> steps.of(np.array([0.5, 1.0, 3.0, 4.0, 9.0])).tolist()
[0, 1, 4, 5, 6]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLOTS_EACH = 8
"""Slots for each of the sorted numbers: of normal scores, one in some ten then lies with another."""
FEW = 256
"""Numbers below which a table takes longer to ask than to search."""
MOST_SEARCHED = 0.3
"""The share of the sorted numbers in slots with others from which on a table saves nothing (long tails)."""


class Steps:
    """Sorted, distinct and finite numbers."""

    def __init__(self, values: ArrayLike) -> None:
        self.values: Floats = np.asarray(values, dtype=np.float64)
        self._padded = np.append(self.values, np.inf)
        slots = SLOTS_EACH * len(self.values)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            width = (self.values[-1] - self.values[0]) / slots if slots else np.nan
            scale, origin = 1.0 / width, self.values[0] - width
        # Numbers all alike, too near or too far from each other for a width: all fall into one slot, which is searched.
        usable = bool(np.isfinite(scale) and np.isfinite(origin))
        self._scale, self._origin = (float(scale), float(origin)) if usable else (0.0, 0.0)
        self._last = slots + 2.0
        inside = np.bincount(self._slot(self.values), minlength=slots + 3)
        self._below = np.cumsum(inside) - inside
        self._crowded = inside > 1
        self._useful = inside[self._crowded].sum() <= MOST_SEARCHED * len(self.values)

    def of(self, numbers: Floats) -> Ints:
        """Twice how many of the values lie below each number, and one more where it is one of them."""
        if len(numbers) < FEW or not self._useful:
            at = np.searchsorted(self.values, numbers)
            return self._settled(at, numbers)
        slot = self._slot(numbers)
        at = self._below.take(slot)
        beside = self._padded.take(at)
        found: Ints = 2 * (at + (numbers > beside))
        found += numbers == beside
        rest = np.flatnonzero(self._crowded.take(slot))
        if len(rest):
            searched = numbers[rest]
            found[rest] = self._settled(np.searchsorted(self.values, searched), searched)
        return found

    def _settled(self, at: NDArray[np.intp], numbers: Floats) -> Ints:
        result: Ints = 2 * at
        result += self._padded.take(at) == numbers
        return result

    def _slot(self, numbers: Floats) -> NDArray[np.intp]:
        with np.errstate(over="ignore"):
            place = numbers - self._origin
            place *= self._scale
        np.maximum(place, 0.0, out=place)
        np.minimum(place, self._last, out=place)
        return place.astype(np.intp)
