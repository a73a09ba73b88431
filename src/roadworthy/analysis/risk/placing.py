"""From scores to the cell they fall into: ranks by a table, three sums of what each rank adds, and the bins these lie in.

What a rank adds to a model's score is worked out once for every rank there is, so that an event costs one look at a table a
supervisor. `one` gives the same cell as `many`, without arrays: sums are added up in the same order.

>>> model = Model((0.0, 1.0, 0.0, 0.0), (0.5,))
>>> placing = Placing((model,) * 3, ((1.0, 2.0, 3.0),), ((0.0, 4.0),), (False,))
>>> placing.many([np.array([0.5, 3.5, 9.0, np.nan])]).tolist(), placing.one([3.5])
([0, 14, 15, -1], 14)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.learning import Model, completed, rank_steps
from roadworthy.analysis.risk.steps import FEW, Steps

Floats = NDArray[np.float64]
Cells = NDArray[np.int16]

NOWHERE = -1
"""The cell of an event that lacks too many scores."""
MOST_EDGES = 24
"""Edges beyond which a search is faster than a comparison with each."""
LACKING = 0.25
"""The share of its scores that an event may lack."""
FEW_NAMES = 3
"""Scores of which each is named where any of them may be the one that is missing: of more, an event may lack one."""


@dataclass(frozen=True, eq=False)
class Placing:
    """The three models, and of each supervisor its sorted clean scores, its reach, and whether calibration rows lacked it."""

    models: tuple[Model, Model, Model]
    references: tuple[tuple[float, ...], ...]
    reach: tuple[tuple[float, float], ...]
    gaps: tuple[bool, ...]

    def many(self, given: Sequence[Floats]) -> Cells:
        """The cell of each event, from a column of scores, finite or NaN, for each supervisor."""
        whole = np.isfinite(given[0])
        for column in given[1:]:
            whole &= np.isfinite(column)
        if whole.all():
            return self._binned(given, self._scored(given))
        cells = np.empty(len(whole), dtype=np.int16)
        known, rest = [column[whole] for column in given], np.flatnonzero(~whole)
        lacking = [column[rest] for column in given]
        cells[whole] = self._binned(known, self._scored(known))
        cells[rest] = self._binned(lacking, self._completed(lacking))
        cells[rest[self.unlike([np.isnan(column) for column in lacking])]] = NOWHERE
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
        place = bisect_right(shift, a) * (len(clean) + 1) + bisect_right(clean, b)
        return 2 * (place * (len(shifted) + 1) + bisect_right(shifted, c)) + outside

    @cached_property
    def _tables(self) -> list[tuple[Floats, list[Floats]]]:
        """Of each supervisor: its distinct reference scores, and what every rank it can have adds to each model's score."""
        found = []
        for i, reference in enumerate(self.references):
            values, steps = rank_steps(np.asarray(reference))
            found.append((values, [m.terms(i, len(self.references), steps) for m in self.models]))
        return found

    @cached_property
    def _steps(self) -> list[tuple[Steps, Floats]]:
        """The same side by side, with a fourth column of nothing: rows of four numbers are copied faster than those of three."""
        return [
            (Steps(values), np.stack([*tables, np.zeros_like(tables[0])], axis=1)) for values, tables in self._tables
        ]

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

    def _scored(self, given: Sequence[Floats]) -> Floats:
        """The models' scores of events that lack none."""
        totals = np.empty((len(given[0]), 4))
        totals[:] = self._starts
        for column, (steps, table) in zip(given, self._steps, strict=True):
            totals += table.take(steps.of(column), axis=0)
        return totals

    def _completed(self, given: Sequence[Floats]) -> Floats:
        """The models' scores of events with missing scores, whose ranks are the mean of the others."""
        table = np.full((len(given[0]), len(given)), np.nan)
        for j, (column, (steps, _), reference) in enumerate(zip(given, self._steps, self.references, strict=True)):
            seen = ~np.isnan(column)
            table[seen, j] = rank_steps(np.asarray(reference))[1][steps.of(column[seen])]
        table = completed(table)
        totals = np.tile(self._starts, (len(table), 1))
        for k, model in enumerate(self.models):
            for j in range(len(given)):
                totals[:, k] += model.terms(j, len(given), table[:, j])
        return totals

    def _binned(self, given: Sequence[Floats], totals: Floats) -> Cells:
        shift, clean, shifted = self._edges
        place = _bins(totals[:, 0], shift)
        place *= len(clean) + 1
        place += _bins(totals[:, 1], clean)
        place *= len(shifted) + 1
        place += _bins(totals[:, 2], shifted)
        place *= 2
        outside = np.zeros(len(totals), dtype=bool)
        for column, (low, high) in zip(given, self.reach, strict=True):
            outside |= column < low
            outside |= column > high
        place += outside
        return place

    def unlike(self, gone: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Which events lack all scores, or more than a few and one that no calibration row lacked: nobody can speak for those."""
        lacks = np.stack(gone)
        many = lacks.sum(axis=0) > LACKING * len(gone)
        return np.asarray(lacks.all(axis=0) | (many & lacks[~np.array(self.gaps)].any(axis=0)))


def why_nowhere(names: Sequence[str], *, events: int = 2, sure: bool = True) -> str:
    """Why so many events have no place, to be read after their number: they lack these scores.

    Where nobody is sure which of them, none is named: a wrong name sends people to the wrong supervisor.

    >>> why_nowhere(["recon"], events=1), why_nowhere([], events=2)
    ('lacks a score that every calibration row had: recon', 'have no score at all')
    >>> why_nowhere(["conf", "knn", "recon"], sure=False)
    'lack a score that every calibration row had'
    """
    if not names:
        return "has no score at all" if events == 1 else "have no score at all"
    if not sure and len(names) > FEW_NAMES:
        return f"{'lacks' if events == 1 else 'lack'} more than a quarter of the scores, some that every calibration row had"
    verb = "lacks" if events == 1 else "lack"
    if not sure and len(names) > 1:
        return f"{verb} a score that every calibration row had"
    some = "a score" if len(names) == 1 else "scores"
    said = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{verb} {some} that every calibration row had: {said}"


def _bins(scores: Floats, edges: Floats) -> Cells:
    """How many of the edges each score has reached; one comparison with each is faster than a search that nobody can foresee."""
    if len(scores) < FEW or len(edges) > MOST_EDGES:
        return np.searchsorted(edges, scores, side="right").astype(np.int16)
    scores, reached = np.ascontiguousarray(scores), np.zeros(len(scores), dtype=np.int8)
    for edge in edges.tolist():
        reached += scores >= edge
    return reached.astype(np.int16)
