"""From scores to the cell they fall into: ranks, logistic combinations of them, bins, one number.

Each score becomes its mid-rank among clean rows. A `Combination` is a logistic model of the ranks
(powers 1, 2 and 6), cut into bins. What a rank adds to a model's score is worked out once for every
rank there is, so that an event costs one search a supervisor.

>>> model = Combination((0.0, 1.0, 0.0, 0.0), (0.5,))
>>> models = dict.fromkeys(("shift", "right_clean", "right_shifted"), model)
>>> placement = Placement(names=("knn",), references=((1, 2, 3),), reach=((0, 4),), **models)
>>> placement.place({"knn": [0.5, 3.5, 9.0, np.nan]}).tolist(), placement.place_one({"knn": 3.5})
([0, 14, 15, -1], 14)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.registry import did_you_mean
from roadworthy.statistics.fusion import (
    completed,
    features,
    fit_logistic,
    rank_steps,
    ranks,
    search_in,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Cells = NDArray[np.int16]

POWERS = (1, 2, 6)
"""Of the ranks: the square bends, the sixth power sees only the top of the range."""
FOLDS = 5
FEWEST = 10
"""Rows that a bin beyond a score which many rows share must have: fewer say nothing but chance."""
NOWHERE = -1
"""The cell of an event that lacks too many scores."""
AT_ONCE = 4096
"""Events whose scores are placed together: those of many more do not stay near the processor."""
LACKING = 0.25
"""The share of its scores that an event may lack."""


@dataclass(frozen=True)
class Combination:
    """A logistic combination of ranks, cut into bins."""

    coefficients: tuple[float, ...]
    """The intercept, then the slopes power by power."""
    edges: tuple[float, ...]
    """Between the bins."""

    @property
    def bins(self) -> int:
        """How many bins the edges make."""
        return len(self.edges) + 1


def fitted(table: Floats, marks: Floats, weights: Floats, *, ridge: float) -> Floats:
    """Coefficients, intercept first; if all marks are the same, every score is 0."""
    if not (weights[marks == 1].sum() > 0 and weights[marks == 0].sum() > 0):
        return np.zeros(1 + len(POWERS) * table.shape[1])
    return fit_logistic(features(table, POWERS), marks, weights=weights, ridge=ridge)


def scored(coefficients: Sequence[float] | Floats, ranks: Floats) -> Floats:
    """The log-odds that the coefficients give each row, added up as events are placed.

    A product of matrices may round equal rows differently, and an edge between the two would tear
    them apart.
    """
    members = ranks.shape[1]
    result = np.full(len(ranks), coefficients[0])
    for member in range(members):
        result += _terms(coefficients[1 + member :: members], ranks[:, member])
    return result


def _terms(slopes: Sequence[float] | Floats, ranks: Floats) -> Floats:
    """What one member's ranks add to the score."""
    square = ranks * ranks
    result: Floats = slopes[0] * ranks + slopes[1] * square + slopes[2] * (square * square * square)
    return result


def held_out(ranks: Floats, marks: Floats, weights: Floats, folds: Ints, *, ridge: float) -> Floats:
    """Every row's score by a model that was fitted without its fold."""
    scores = np.zeros(len(marks))
    for fold in np.unique(folds):
        out = folds == fold
        model = fitted(ranks[~out], marks[~out], weights[~out], ridge=ridge)
        scores[out] = scored(model, ranks[out])
    return scores


def folds_of(groups: NDArray[Any], kinds: Ints, rng: np.random.Generator) -> Ints:
    """A fold for each row, whole groups together, rows of every kind over all folds if possible."""
    names, code = np.unique(groups, return_inverse=True)
    first = np.full(len(names), -1)
    first[code[::-1]] = kinds[::-1]
    order = np.lexsort((rng.random(len(names)), first))
    fold = np.empty(len(names), dtype=np.int64)
    fold[order] = np.arange(len(names)) % FOLDS
    return fold[code]


def edges_between(scores: Floats, weights: Floats, bins: int, *, kept: Floats) -> tuple[float, ...]:
    """Edges that give every bin the same weight of rows, as near as ties allow.

    Every edge lies midway between two scores that the kept model gives, so that scores which are
    one for it (a verdict has two) are not torn apart by what the models of the folds differ in. A
    score that fills bins by itself has one to itself, so that a rare one beyond it, such as an
    alarm, is still told from it.
    """
    order = np.argsort(scores, kind="stable")
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, total[-1] * np.arange(1, bins) / bins)
    chosen = scores[order][np.minimum(at, len(scores) - 1)]
    values = np.unique(kept)
    above, times = np.unique(np.searchsorted(values, chosen), return_counts=True)
    filling = above[(times > 1) & (above < len(values))]
    beyond = [at + 1 for at in filling.tolist() if np.count_nonzero(kept > values[at]) >= FEWEST]
    above = np.union1d(above[(above > 0) & (above < len(values))], np.array(beyond, dtype=np.int64))
    return tuple(float(e) for e in (values[above - 1] + values[above]) / 2.0)


@dataclass(frozen=True)
class Deployed:
    """The supervisor at work whose alarms call a person, if an event tree asks what an alarm does."""

    name: str
    threshold: float
    rule: str = ""
    """How the threshold was chosen."""

    def raised(self, scores: Floats) -> Bools:
        """Which events raise an alarm; one without a score does (docs/decisions/0005)."""
        return ~(scores <= self.threshold)

    def __str__(self) -> str:
        by = f", {self.rule}" if self.rule else ""
        return f"{self.name} above {self.threshold:.4g}{by}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Placement:
    """Where events fall: models, and by supervisor its clean scores and its reach."""

    names: tuple[str, ...]
    references: tuple[tuple[float, ...], ...]
    """By supervisor, its sorted clean scores, thinned."""
    reach: tuple[tuple[float, float], ...]
    """By supervisor, the lowest and the highest score of all calibration rows."""
    shift: Combination
    right_clean: Combination
    right_shifted: Combination
    gaps: tuple[bool, ...] = ()
    """By supervisor, whether calibration rows lacked its score: counts then say what that means."""
    deployed: Deployed | None = None
    """Whose alarms call a person; rows with and without one are then counted apart."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Bins of the three models, and inside or outside what was calibrated.

        If somebody's alarms call a person, the bins of being right stand twice: without an alarm,
        then with one.
        """
        times = 1 if self.deployed is None else 2
        return self.shift.bins, times * self.right_clean.bins, times * self.right_shifted.bins, 2

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape)

    def place(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.int16]:
        """The cell of each event; -1 if it lacks too many scores.

        For a missing score (NaN) the mean rank of the others stands in.
        """
        if lacking := [name for name in self.names if name not in columns]:
            raise ValueError(
                f"score {lacking[0]!r} is missing; the calibration reads {', '.join(self.names)}"
            )
        given = [np.asarray(columns[name], dtype=np.float64) for name in self.names]
        if any(column.ndim != 1 or len(column) != len(given[0]) for column in given):
            shapes = ", ".join(str(column.shape) for column in given)
            raise ValueError(f"every score needs one number an event, found shapes {shapes}")
        scores = np.array(given)
        if (infinite := np.isinf(scores).any(axis=1)).any():
            name = self.names[int(infinite.argmax())]
            raise ValueError(f"{name} has an infinite score; a missing score is NaN")
        return self._many(scores)

    def place_one(self, scores: Mapping[str, float]) -> int:
        """`place` for one event, without arrays. A score not given is missing.

        The cell is the same: sums are added up in the same order.
        """
        # A float32 would be compared in its own precision.
        given = [float(scores.get(name, math.nan)) for name in self.names]
        cell = self._one(given)
        if cell is not None:
            return cell
        unknown = sorted(scores.keys() - set(self.names))
        if unknown and not scores.keys() >= set(self.names):
            near = did_you_mean(unknown[0], self.names)
            raise ValueError(
                f"unknown score {unknown[0]!r}{near}; the calibration reads {', '.join(self.names)}"
            )
        return int(self.place({n: [score] for n, score in zip(self.names, given, strict=True)})[0])

    def why_nowhere(self, events: int = 2, scores: Mapping[str, float] | None = None) -> str:
        """Why so many events, or one with these scores, have no place; read after their number."""
        what = "scores that every calibration row had"
        if scores is not None:
            gone = np.array([math.isnan(scores.get(name, math.nan)) for name in self.names])
            blamed = gone if gone.all() else gone & ~self._gaps
            what = ", ".join(np.array(self.names)[blamed]) or what
        return f"{'lacks' if events == 1 else 'lack'} {what}"

    def _many(self, scores: Floats) -> Cells:
        """The cell of each event, from supervisors x events, finite or NaN."""
        starts = range(0, max(scores.shape[1], 1), AT_ONCE)
        return np.concatenate([self._some(scores[:, at : at + AT_ONCE]) for at in starts])

    def _some(self, scores: Floats) -> Cells:
        gone = np.isnan(scores)
        lacking: Bools = np.asarray(gone.any(axis=0))
        if not lacking.any():
            return self._binned(self._scored(scores), scores)
        cells = np.empty(len(lacking), dtype=np.int16)
        whole, rest = scores[:, ~lacking], scores[:, lacking]
        cells[~lacking] = self._binned(self._scored(whole), whole)
        cells[lacking] = self._binned(self._completed(rest), rest)
        cells[self._unlike(gone)] = NOWHERE
        return cells

    def _one(self, scores: Sequence[float]) -> int | None:
        """The cell of one event; None if a score is not finite."""
        tables, (a, b, c), (shift, clean, shifted) = self._lists
        outside = False
        for score, (values, first, second, third, low, high) in zip(scores, tables, strict=True):
            if score - score != 0.0:
                return None
            at = bisect_left(values, score)
            at = 2 * at + (values[at] == score)
            a, b, c = a + first[at], b + second[at], c + third[at]
            outside = outside or score < low or score > high
        times, raised = 1, False
        if self._alarm is not None:
            which, threshold = self._alarm
            times, raised = 2, not scores[which] <= threshold
        place = bisect_right(shift, a)
        for edges, total in ((clean, b), (shifted, c)):
            width = len(edges) + 1
            place = place * times * width + bisect_right(edges, total) + raised * width
        return 2 * place + outside

    def _unlike(self, gone: Bools) -> Bools:
        """Which events lack all scores, or too many and one that no calibration row lacked."""
        many = gone.sum(axis=0) > LACKING * len(gone)
        return np.asarray(gone.all(axis=0) | (many & gone[~self._gaps].any(axis=0)))

    @cached_property
    def _models(self) -> tuple[Combination, Combination, Combination]:
        return self.shift, self.right_clean, self.right_shifted

    @cached_property
    def _gaps(self) -> Bools:
        return np.array(self.gaps or (False,) * len(self.names))

    @cached_property
    def _alarm(self) -> tuple[int, float] | None:
        """Which supervisor's alarms are told apart, and the threshold above which it raises one."""
        alarms = self.deployed
        return None if alarms is None else (self.names.index(alarms.name), alarms.threshold)

    @cached_property
    def _tables(self) -> list[tuple[Floats, Floats, Any]]:
        """By supervisor: distinct reference scores, what a rank adds to each model, and a search."""
        found, members = [], len(self.references)
        for i, reference in enumerate(self.references):
            values, steps = rank_steps(np.asarray(reference))
            slopes = [m.coefficients[1 + i :: members] for m in self._models]
            terms = np.stack([_terms(s, steps) for s in slopes], axis=1)
            # An infinite value, which nothing is equal to, stands behind the last.
            found.append((np.append(values, np.inf), terms, search_in(values)))
        return found

    @cached_property
    def _lists(self) -> tuple[list[Any], list[float], list[list[float]]]:
        """The same without arrays."""
        tables = [
            (values.tolist(), *terms.T.tolist(), *reach)
            for (values, terms, _), reach in zip(self._tables, self.reach, strict=True)
        ]
        starts = [m.coefficients[0] for m in self._models]
        return tables, starts, [list(m.edges) for m in self._models]

    def _scored(self, scores: Floats) -> Floats:
        """The models' scores (models x events) of events that lack none."""
        totals = np.tile([m.coefficients[0] for m in self._models], (scores.shape[1], 1))
        for column, (values, terms, search) in zip(scores, self._tables, strict=True):
            at = search(column)
            totals += terms.take(2 * at + (values.take(at) == column), axis=0)
        return totals.T

    def _completed(self, scores: Floats) -> Floats:
        """The same if some lack scores: their ranks are the mean of the others."""
        table = zip(scores, self.references, strict=True)
        known = completed(np.column_stack([ranks(column, r) for column, r in table]))
        return np.stack([scored(m.coefficients, known) for m in self._models])

    def _binned(self, totals: Floats, scores: Floats) -> Cells:
        low, high = np.array(self.reach, dtype=np.float64).T[:, :, None]
        outside = ((scores < low) | (scores > high)).any(axis=0)
        times, raised = 1, np.zeros(len(outside), dtype=bool)
        if self._alarm is not None:
            which, threshold = self._alarm
            times, raised = 2, ~(scores[which] <= threshold)
        shift, *right = (
            # A comparison with each edge is faster than a search that nobody can foresee.
            np.add.reduce(total >= np.array(m.edges)[:, None], axis=0, dtype=np.int16)
            for total, m in zip(totals, self._models, strict=True)
        )
        place: Cells = shift
        for more, m in zip(right, self._models[1:], strict=True):
            place = place * np.int16(times * m.bins) + more + raised * np.int16(m.bins)
        return place * np.int16(2) + outside
