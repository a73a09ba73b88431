"""From scores to the cell they fall into: ranks by a table, three sums of what each rank adds, and the bins these lie in.

What a rank adds to a model's score is worked out once for every rank there is, so that an event costs one look at a table a
supervisor. `one` gives the same cell as `many`, without arrays: sums are added up in the same order.

>>> model = Combination((0.0, 1.0, 0.0, 0.0), (0.5,))
>>> placement = Placement((model,) * 3, ((1.0, 2.0, 3.0),), ((0.0, 4.0),), (False,))
>>> placement.many([np.array([0.5, 3.5, 9.0, np.nan])]).tolist(), placement.one([3.5])
([0, 14, 15, -1], 14)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.combination import Combination, completed, rank_steps

Floats = NDArray[np.float64]
Cells = NDArray[np.int16]
Ints = NDArray[np.int32]
"""Small, so that tables stay near the processor."""

NOWHERE = -1
"""The cell of an event that lacks too many scores."""
AT_ONCE = 4096
"""Events whose scores are placed together: those of many more do not stay near the processor."""
MOST_EDGES = 24
"""Edges beyond which a search is faster than a comparison with each."""
LACKING = 0.25
"""The share of its scores that an event may lack."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The three models, and of each supervisor its sorted clean scores, its reach, and whether calibration rows lacked it."""

    models: tuple[Combination, Combination, Combination]
    references: tuple[tuple[float, ...], ...]
    reach: tuple[tuple[float, float], ...]
    gaps: tuple[bool, ...]
    alarm: tuple[int, float] | None = None
    """Which supervisor's alarms are told apart, and the threshold above which it raises one."""

    def many(self, given: Sequence[Floats] | Floats, *, whole: bool = False) -> Cells:
        """The cell of each event, from a row of scores, finite or NaN, for each supervisor; `whole` where none is NaN."""
        scores = np.asarray(given, dtype=np.float64)
        some = [scores[:, at : at + AT_ONCE] for at in range(0, max(scores.shape[1], 1), AT_ONCE)]
        parts = [self._whole(part) if whole else self._some(part) for part in some]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _whole(self, scores: Floats) -> Cells:
        return self._binned(self._scored(scores), scores)

    def _some(self, scores: Floats) -> Cells:
        gone = np.isnan(scores)
        if not gone.any():
            return self._whole(scores)
        whole: NDArray[np.bool_] = ~np.asarray(gone.any(axis=0))
        cells = np.empty(len(whole), dtype=np.int16)
        known, rest = scores[:, whole], np.flatnonzero(~whole)
        lacking = scores[:, rest]
        cells[whole] = self._whole(known)
        cells[rest] = self._binned(self._completed(lacking), lacking)
        cells[rest[self.unlike(gone[:, rest])]] = NOWHERE
        return cells

    def one(self, scores: Sequence[float]) -> int | None:
        """The cell of one event; None where a score is not finite."""
        tables, (a, b, c), (shift, clean, shifted) = self._lists
        outside = False
        for score, (values, first, second, third, low, high) in zip(scores, tables, strict=True):
            if score - score != 0.0:
                return None
            at = bisect_left(values, score)
            at = 2 * at + (values[at] == score)
            a, b, c = a + first[at], b + second[at], c + third[at]
            outside = outside or score < low or score > high
        if self.alarm is None:
            place = bisect_right(shift, a) * (len(clean) + 1) + bisect_right(clean, b)
            return 2 * (place * (len(shifted) + 1) + bisect_right(shifted, c)) + outside
        which, threshold = self.alarm
        raised = not scores[which] <= threshold
        place = (
            bisect_right(shift, a) * 2 * (len(clean) + 1)
            + bisect_right(clean, b)
            + raised * (len(clean) + 1)
        )
        rest = bisect_right(shifted, c) + raised * (len(shifted) + 1)
        return 2 * (place * 2 * (len(shifted) + 1) + rest) + outside

    @cached_property
    def _tables(self) -> list[tuple[Floats, list[Floats]]]:
        """Of each supervisor: its distinct reference scores, and what every rank it can have adds to each model's score."""
        found = []
        for i, reference in enumerate(self.references):
            values, steps = rank_steps(np.asarray(reference))
            found.append((values, [m.terms(i, len(self.references), steps) for m in self.models]))
        return found

    @cached_property
    def _values(self) -> list[Floats]:
        """Of each supervisor: its distinct reference scores, and the ends of what was calibrated."""
        ends = [[end for end in reach if math.isfinite(end)] for reach in self.reach]
        return [
            np.union1d(values, some) for (values, _), some in zip(self._tables, ends, strict=True)
        ]

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self._values)

    @cached_property
    def _ranked(self) -> list[NDArray[np.intp]]:
        """Of each supervisor: which of the ranks there are what stands on every step of its own has."""
        found = []
        for (values, _), all_of_them in zip(self._tables, self._values, strict=True):
            first, behind = (
                np.searchsorted(values, all_of_them, side) for side in ("left", "right")
            )
            found.append(np.append(0, np.column_stack([first + behind, 2 * behind]).ravel()))
        return found

    @cached_property
    def _terms(self) -> Floats:
        """What every step of `_steps` adds to the three scores, and 1 where what stands on it lies outside what was calibrated.

        The models' constants are added to the first supervisor's terms: they are the first to be added up.
        """
        rows = []
        for (_, tables), ranked, values, (low, high) in zip(
            self._tables, self._ranked, self._values, self.reach, strict=True
        ):
            twice = np.repeat(values, 2)
            outside = (np.append(twice, np.inf) <= low) | (np.append(-np.inf, twice) >= high)
            outside[1::2] = (values < low) | (values > high)
            rows.append(np.stack([*(table[ranked] for table in tables), outside], axis=1))
        rows[0] = self._starts + rows[0]
        return np.concatenate([np.vstack([row, np.zeros(4)]) for row in rows])

    @cached_property
    def _ranks(self) -> Floats:
        """The rank of every step of `_steps`."""
        ranks = [rank_steps(np.asarray(row))[1] for row in self.references]
        return np.concatenate(
            [
                np.append(rank[which], np.nan)
                for rank, which in zip(ranks, self._ranked, strict=True)
            ]
        )

    @cached_property
    def _lists(self) -> tuple[list[Any], list[float], list[list[float]]]:
        """The same without arrays; an infinite value stands behind the last, which nothing is equal to."""
        tables = [
            ([*values.tolist(), math.inf], *(t.tolist() for t in tables), *reach)
            for (values, tables), reach in zip(self._tables, self.reach, strict=True)
        ]
        return tables, self._starts[:3].tolist(), [edges.tolist() for edges in self._edges]

    @cached_property
    def _starts(self) -> Floats:
        return np.array([*(m.coefficients[0] for m in self.models), 0.0])

    @cached_property
    def _edges(self) -> list[Floats]:
        return [np.array(m.edges, dtype=np.float64) for m in self.models]

    @cached_property
    def _columns(self) -> tuple[list[Floats], Floats, Floats]:
        """Edges, lowest and highest scores, each beside a row of numbers to be compared with."""
        low, high = np.array(self.reach, dtype=np.float64).T
        return [edges[:, None] for edges in self._edges], low[:, None], high[:, None]

    def _scored(self, scores: Floats) -> Floats:
        """The models' scores of events that lack none."""
        steps = self._steps.of(scores)
        totals: Floats = self._terms.take(steps[0], axis=0)
        for more in steps[1:]:
            totals += self._terms.take(more, axis=0)
        return totals

    def _completed(self, scores: Floats) -> Floats:
        """The models' scores of events with missing scores, whose ranks are the mean of the others."""
        gone = np.isnan(scores)
        ranks = self._ranks.take(self._steps.of(np.where(gone, 0.0, scores)))
        table = completed(np.where(gone, np.nan, ranks).T)
        totals = np.tile(self._starts, (len(table), 1))
        _, low, high = self._columns
        totals[:, 3] = ((scores < low) | (scores > high)).any(axis=0)
        for k, model in enumerate(self.models):
            for j in range(len(scores)):
                totals[:, k] += model.terms(j, len(scores), table[:, j])
        return totals

    def _binned(self, totals: Floats, scores: Floats) -> Cells:
        edges, _, _ = self._columns
        *summed, outside = totals.T.copy()
        bins = [_reached(total, some) for total, some in zip(summed, edges, strict=True)]
        place: Cells = bins[0].astype(np.int16)
        times, raised = 1, None
        if self.alarm is not None:
            which, threshold = self.alarm
            times, raised = 2, ~(scores[which] <= threshold)
        for more, some in zip(bins[1:], edges[1:], strict=True):
            place *= times * (len(some) + 1)
            place += more
            if raised is not None:
                place += raised * np.int16(len(some) + 1)
        place *= 2
        place += outside > 0.0
        return place

    def unlike(self, gone: Sequence[NDArray[np.bool_]] | NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which events lack all scores, or more than a few and one that no calibration row lacked: nobody can speak for those."""
        lacks = np.asarray(gone)
        many = lacks.sum(axis=0) > LACKING * len(lacks)
        return np.asarray(lacks.all(axis=0) | (many & lacks[~np.array(self.gaps)].any(axis=0)))


def _reached(scores: Floats, edges: Floats) -> Any:
    """How many of the edges each score has reached; a comparison with each is faster than a search that nobody can foresee."""
    if len(edges) > MOST_EDGES:
        return np.searchsorted(edges[:, 0], scores, side="right")
    return np.add.reduce((scores >= edges).view(np.int8), axis=0, dtype=np.int8)


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
    """Where numbers stand among sorted ones: as a binary search, at a fraction of its cost.

    Each supervisor has a row of sorted, distinct, finite values. Its range is cut into slots of
    equal width, and a table holds how many values lie before each. Only the values of a number's
    own slot are in question: none or one is settled by a comparison, a slot with more is searched.

    >>> steps = Steps([np.array([1.0, 2.0, 4.0]), np.array([0.0])])
    >>> steps.of(np.array([[0.5, 1.0, 3.0, 4.0, 9.0], [0.0, -1.0, 1.0, 0.0, 0.0]])).tolist()
    [[0, 1, 4, 5, 6], [9, 8, 10, 9, 9]]
    """

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
