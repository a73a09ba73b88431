"""What was learned before deployment: three models of the scores, and rows counted by cell.

Three logistic combinations of the supervisors' ranks are learned from a calibration table: how
shifted a case looks, how likely it is right if it is clean, and how likely it is right if it is
shifted. Each is cut into bins; with a mark for scores outside everything calibrated, the bins make
a *cell*. A calibration is then nothing but counts: rows by kind of shift, right or wrong, and cell.
Rows are counted by models that have not seen them (five folds, whole groups together), or on a
table of their own. A monitor keeps the same counts of a stream.

>>> rng = np.random.default_rng(0)
>>> kind, shifted = np.repeat(["clean", "fog"], 400), np.repeat([0.0, 1.0], 400)
>>> scores = {"energy": rng.normal(2.0 * shifted), "knn": rng.normal(shifted)}
>>> calibration = fit_calibration(scores, kind, rng.random(800) < 0.9 - 0.4 * shifted)
>>> calibration.kinds, calibration.rows("fog"), round(calibration.accuracy("fog"), 2)
(('clean', 'fog'), 400, 0.54)
>>> cell = calibration.place({"energy": [0.0, 4.0, np.nan], "knn": [0.0, 3.0, np.nan]})
>>> bool(cell[0] < cell[1]), int(cell[2])
(True, -1)
>>> calibration.place_one({"energy": 4.0, "knn": 3.0}) == int(cell[1])
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.placement import (
    NOWHERE,
    POWERS,
    Combination,
    Placement,
    edges_between,
    fitted,
    folds_of,
    held_out,
    scored,
)
from roadworthy.registry import did_you_mean
from roadworthy.statistics.fusion import completed, plain_number, ranks, thinned

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CLEAN = "clean"
FEW = 30
"""Rows of a kind below which its accuracy is hardly known."""
FEW_OF_A_KIND = 10
"""Independent rows below which a kind of shift is left out."""
SHIFT_BINS, RIGHT_BINS = 15, 6
"""More bins tell unseen kinds a little better, and lose more by chance if rows are few."""
USUAL = 0.01
"""The share of calibration rows from which on a score is known to be lacking at times."""
LEAST_PER_BIN, LEAST_SCARCE = 10, 20
"""Rows to a bin; and of the scarcer of clean and shifted rows, for the bins that tell the two apart.
With four to a bin, 95% intervals of the rate held that of clean streams in 73 to 91% of calibrations
of 50 to 200 rows; with 20, in 95 to 97%, at two thirds of the error."""
FEW_BINS, LEAST_OF_FEW = 4, 12
"""So many bins need fewer rows each: two tell next to nothing."""
RIDGE_SHIFT, RIDGE_RIGHT = 1.0, 10.0
"""Being right is harder to learn than shift, and a wrong slope there costs more than a flat one."""
MOST_CELLS = np.iinfo(np.int16).max
_OUTCOMES = ("right", "wrong")
_MODELS = ("shift", "right_clean", "right_shifted")


@dataclass(frozen=True)
class Deployed:
    """The supervisor at work whose alarms call a person, if an event tree asks what an alarm does.

    >>> alarms = Deployed("knn", 0.7)
    >>> alarms.raised(np.array([0.7, 0.8, np.nan])).tolist()
    [False, True, True]
    """

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


@dataclass(frozen=True, eq=False)
class Calibration:
    """Models, bins, and counts by kind of shift, right or wrong, and cell."""

    names: tuple[str, ...]
    references: tuple[tuple[float, ...], ...]
    """By supervisor, its sorted clean scores, thinned."""
    reach: tuple[tuple[float, float], ...]
    """By supervisor, the lowest and the highest score of all calibration rows."""
    shift: Combination
    right_clean: Combination
    right_shifted: Combination
    kinds: tuple[str, ...]
    """Clean first."""
    table: Ints
    """Rows: kinds x (right, wrong) x cells."""
    notes: tuple[str, ...] = ()
    grouped: bool = False
    gaps: tuple[bool, ...] = ()
    """By supervisor, whether calibration rows lacked its score: counts then say what that means."""
    independent: tuple[float, ...] = ()
    """By kind, how many independent rows its rows are worth; without groups, all of them."""
    deployed: Deployed | None = None
    """Whose alarms call a person; rows with and without one are then counted apart."""

    def __post_init__(self) -> None:
        width = 1 + len(self.names) * len(POWERS)
        models = self.shift, self.right_clean, self.right_shifted
        whole = (
            self.table.shape == (len(self.kinds), 2, self.cells)
            and self.table.min(initial=0) >= 0
            and self.kinds[:1] == (CLEAN,)
            and len(set(self.kinds)) == len(self.kinds)
            and all(len(model.coefficients) == width for model in models)
            and len(self.names) == len(self.references) == len(self.reach)
            and all(self.references)
        )
        if not whole:
            raise ValueError("calibration: names, kinds, models and counts do not fit together")
        if self.deployed is not None and self.deployed.name not in self.names:
            raise ValueError(f"alarms of {self.deployed.name}, not among {', '.join(self.names)}")
        if self.cells > MOST_CELLS:
            raise ValueError(f"calibration: at most {MOST_CELLS} cells, found {self.cells}")
        self.table.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

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

    @property
    def effective(self) -> Floats:
        """How many independent rows there are of each kind."""
        rows = self.table.sum(axis=(1, 2)).astype(np.float64)
        return np.minimum(self.independent, rows) if self.independent else rows

    @property
    def worth(self) -> Floats:
        """By kind, how much of an independent row one row is worth."""
        return self.effective / np.maximum(self.table.sum(axis=(1, 2)), 1)

    def rows(self, kind: str) -> int:
        """How many rows of a kind were counted."""
        return int(self.table[self.kinds.index(kind)].sum())

    def accuracy(self, kind: str) -> float:
        """The share of right answers among the rows of a kind."""
        right, wrong = self.table[self.kinds.index(kind)].sum(axis=1)
        return float(right / max(right + wrong, 1))

    def shift_bin(self, cells: ArrayLike) -> Ints:
        """The bin of the shift score in which each cell lies."""
        return np.asarray(cells, dtype=np.int64) // (self.cells // self.shift.bins)

    def by_bin(self, counts: ArrayLike) -> Floats:
        """Counts over cells (in the last axis) summed by bin of the shift score."""
        table = np.asarray(counts, dtype=np.float64)
        return np.asarray(table.reshape(*table.shape[:-1], self.shift.bins, -1).sum(axis=-1))

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
        for name, column in zip(self.names, scores, strict=True):
            _refuse_infinite(name, column)
        return self._placement.many(scores)

    def place_one(self, scores: Mapping[str, float]) -> int:
        """`place` for one event, without arrays; the same cell. A score not given is missing."""
        # A float32 would be compared in its own precision.
        given = [float(scores.get(name, math.nan)) for name in self.names]
        cell = self._placement.one(given)
        if cell is not None:
            return cell
        unknown = sorted(scores.keys() - set(self.names))
        if unknown and not scores.keys() >= set(self.names):
            near = did_you_mean(unknown[0], self.names)
            raise ValueError(
                f"unknown score {unknown[0]!r}{near}; the calibration reads {', '.join(self.names)}"
            )
        return int(self.place({n: [score] for n, score in zip(self.names, given, strict=True)})[0])

    def lacked_by(self, scores: Mapping[str, float]) -> list[str] | None:
        """The scores for want of which one event has no place; None if it has one."""
        gone = np.array([math.isnan(scores.get(name, math.nan)) for name in self.names])
        if not self._placement.unlike(gone[:, None])[0]:
            return None
        blamed = gone if gone.all() else gone & ~np.array(self._placement.gaps)
        return [name for name, lacking in zip(self.names, blamed, strict=True) if lacking]

    def why_nowhere(self, events: int = 2, *, lacking: Sequence[str] | None = None) -> str:
        """Why so many events have no place, to be read after their number."""
        what = ", ".join(lacking) if lacking else "scores that every calibration row had"
        return f"{'lacks' if events == 1 else 'lack'} {what}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; counts as the cells that have any, since most have none."""
        deployed: dict[str, Any] = {}
        if (alarms := self.deployed) is not None:
            deployed["deployed"] = vars(alarms) | {"threshold": plain_number(alarms.threshold)}
        return {
            "names": list(self.names),
            "references": [[plain_number(v) for v in reference] for reference in self.references],
            "reach": [list(pair) for pair in self.reach],
            **{
                name: {k: list(v) for k, v in vars(getattr(self, name)).items()} for name in _MODELS
            },
            "kinds": list(self.kinds),
            "counts": {
                kind: {
                    word: [[int(i), int(row[i])] for i in np.flatnonzero(row)]
                    for word, row in zip(_OUTCOMES, rows, strict=True)
                }
                for kind, rows in zip(self.kinds, self.table, strict=True)
            },
            "notes": list(self.notes),
            "grouped": self.grouped,
            "gaps": list(self.gaps),
            "independent": list(self.independent),
            **deployed,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_dict`."""
        wanted = {"names", "references", "reach", *_MODELS, "kinds", "counts"}
        if wanted - set(record):
            raise ValueError(f"a calibration needs {', '.join(sorted(wanted - set(record)))}")
        parts = [(record[name]["coefficients"], record[name]["edges"]) for name in _MODELS]
        models = [Combination(tuple(map(float, c)), tuple(map(float, e))) for c, e in parts]
        given: dict[str, Any] = dict(zip(_MODELS, models, strict=True))
        given["grouped"] = bool(record.get("grouped", False))
        for name in ("names", "kinds", "notes", "gaps", "independent"):
            given[name] = tuple(record.get(name, ()))
        for name in ("references", "reach"):
            given[name] = tuple(tuple(map(float, values)) for values in record[name])
        if "deployed" in record:
            alarms = record["deployed"]
            given["deployed"] = Deployed(**alarms | {"threshold": float(alarms["threshold"])})
        table = _no_rows(given["kinds"], models, given.get("deployed"))
        for kind, rows in zip(given["kinds"], table, strict=True):
            for word, row in zip(_OUTCOMES, rows, strict=True):
                for cell, count in record["counts"][kind][word]:
                    if not 0 <= cell < len(row):
                        raise ValueError(f"cell {cell} of {kind} is not among {len(row)} cells")
                    row[cell] = count
        return cls(**given, table=table)

    @cached_property
    def _placement(self) -> Placement:
        models = self.shift, self.right_clean, self.right_shifted
        alarm = None
        if self.deployed is not None:
            alarm = self.names.index(self.deployed.name), self.deployed.threshold
        gaps = self.gaps or (False,) * len(self.names)
        return Placement(models, self.references, self.reach, gaps, alarm)


class _LabelledScores(NamedTuple):
    """Rows with at least one score; kinds as numbers, clean 0."""

    columns: dict[str, Floats]
    kind: Ints
    kinds: tuple[str, ...]
    correct: Bools
    groups: NDArray[Any]
    notes: tuple[str, ...]


def fit_calibration(
    columns: Mapping[str, ArrayLike],
    kind: ArrayLike,
    correct: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    clean: str = CLEAN,
    count_on: tuple[Any, ...] | None = None,
    deployed: Deployed | None = None,
    aside: Sequence[str] = (),
    seed: int = 0,
) -> Calibration:
    """Learn the three combinations from rows of known kind and outcome, and count rows.

    `count_on` is a table of its own (columns, kind, correct, and groups if there are any) to count.
    Without it every row is counted by models fitted without the row's fold (five folds, whole
    `groups` together). Rows of one group count for as many as are independent. `deployed` is the
    supervisor whose alarms call a person. Nothing is learned from scores that stand `aside`, such
    as a combination of the others: only their alarms are counted.
    """
    rows = _checked(columns, kind, correct, groups, clean)
    names, scores = tuple(rows.columns), list(rows.columns.values())
    references = [thinned(column[rows.kind == 0]) for column in scores]
    table = completed(
        np.column_stack([ranks(c, r) for c, r in zip(scores, references, strict=True)])
    )
    # A score that stands aside has the same rank everywhere: its slopes are then 0.
    learned = np.where([name in aside for name in names], 0.0, table)
    models, bins = _models(learned, rows, len(names) - len(set(names) & set(aside)), seed)
    made = Calibration(
        names,
        tuple(tuple(map(float, reference)) for reference in references),
        tuple((float(np.nanmin(c)), float(np.nanmax(c))) for c in scores),
        models[0],
        models[1],
        models[2],
        rows.kinds,
        _no_rows(rows.kinds, models, deployed),
        rows.notes,
        groups is not None,
        tuple(bool(np.isnan(column).mean() >= USUAL) for column in scores),
        deployed=deployed,
    )
    if count_on is not None:
        given, kinds, outcomes, units = (*count_on, None)[:4]
        read = {name: given[name] for name in names if name in given}
        counted = _checked(read, kinds, outcomes, units, clean, expected=rows.kinds)
        notes = tuple(dict.fromkeys((*rows.notes, *counted.notes)))
        made = replace(made, notes=notes, grouped=units is not None)
        return _filled(made, counted, made.place(counted.columns))
    if deployed is not None:
        raised = deployed.raised(rows.columns[deployed.name])
        bins[1:] = [b + m.bins * raised for b, m in zip(bins[1:], models[1:], strict=True)]
    cells = ((bins[0] * made.shape[1] + bins[1]) * made.shape[2] + bins[2]) * 2
    return _filled(made, rows, cells)


def _models(
    table: Floats, rows: _LabelledScores, members: int, seed: int
) -> tuple[list[Combination], list[Ints]]:
    """Shifted or clean; right if clean; right if shifted: each model, and the bin of every row."""
    is_clean, right = rows.kind == 0, rows.correct.astype(np.float64)
    every, ones = np.ones(len(right), dtype=bool), np.ones(len(right))
    # Clean rows weigh one half, and every kind of shift the same part of the other half.
    count = np.bincount(rows.kind, minlength=len(rows.kinds))
    share = np.array([0.5, *[0.5 / max(len(count) - 1, 1)] * (len(count) - 1)])
    even = (share / np.maximum(count, 1))[rows.kind] * len(right)
    folds = folds_of(rows.groups, rows.kind, np.random.default_rng([seed, 4]))
    models, bins = [], []
    for on, marks, w, ridge, most in (
        (every, (~is_clean).astype(np.float64), even, RIDGE_SHIFT, SHIFT_BINS),
        (is_clean, right, ones, RIDGE_RIGHT, RIGHT_BINS),
        (~is_clean, right, even / even[~is_clean].mean(), RIDGE_RIGHT, RIGHT_BINS),
    ):
        coefficients = fitted(table[on], marks[on], w[on], ridge=ridge)
        kept = scored(coefficients, table)
        scores = kept.copy()
        # The three slopes of one supervisor have nothing to overfit: folds would blur its bins.
        if members > 1:
            scores[on] = held_out(table[on], marks[on], w[on], folds[on], ridge=ridge)
        number = min(most, max(2, int(on.sum()) // LEAST_PER_BIN))
        if on is every:
            scarce = int(min(is_clean.sum(), (~is_clean).sum()))
            few = min(FEW_BINS, scarce // LEAST_OF_FEW)
            number = min(number, max(2, few, scarce // LEAST_SCARCE))
        edges = edges_between(scores[on], w[on], number, kept=kept[on])
        models.append(Combination(tuple(map(float, coefficients)), edges))
        bins.append(np.searchsorted(edges, scores, side="right"))
    return models, bins


def _checked(
    columns: Mapping[str, ArrayLike],
    kind: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike | None,
    clean: str,
    *,
    expected: tuple[str, ...] = (),
) -> _LabelledScores:
    """The table's rows: kinds as numbers with clean 0, rows without any score left out and noted.

    `expected` are the kinds that rows which are only counted must have.
    """
    words, outcome = np.asarray(kind).astype(str), np.asarray(correct)
    if outcome.dtype.kind not in "biufO" or not np.isin(outcome, (0, 1)).all():
        raise ValueError("correct must be 1 or 0 in every row; leave out rows without an outcome")
    table = {name: np.asarray(columns[name], dtype=np.float64) for name in sorted(columns)}
    units = np.arange(len(words)) if groups is None else np.asarray(groups).astype(str)
    for name, column in (*table.items(), ("correct", outcome), ("group", units)):
        if column.shape != words.shape or column.ndim != 1:
            raise ValueError(f"{name} needs one entry a row, {len(words)}; found {column.shape}")
        if name in table:
            _refuse_infinite(name, column)
    if clean != CLEAN and (words == CLEAN).any():
        raise ValueError(f"{clean!r} is the kind without shift, but there are rows of {CLEAN!r}")
    notes = []
    for name in [] if expected else list(table):  # ranks need clean scores
        if np.isnan(table[name][words == clean]).all() and (words == clean).any():
            del table[name]
            notes.append(f"score {name} is missing in every clean row and is left out")
    scored_rows = np.zeros(len(words), dtype=bool)
    for column in table.values():
        scored_rows |= ~np.isnan(column)
    if not scored_rows.all():
        gone = int((~scored_rows).sum())
        notes.insert(0, f"{gone} of {len(words)} rows have no score at all and are left out")
    named = np.where(words == clean, CLEAN, words)[scored_rows]
    there = set(named.tolist())
    kinds = expected or (CLEAN, *sorted(there - {CLEAN}))
    if clean not in words:
        found = ", ".join(sorted(set(words.tolist()))) or "none"
        raise ValueError(f"no row is of kind {clean!r}, the kind without shift; kinds are {found}")
    if CLEAN not in there:
        raise ValueError("no clean row has a score")
    if len(kinds) < 2:
        raise ValueError("all rows are clean; at least one kind of shift is needed")
    if there != set(kinds):
        found = ", ".join(sorted(there))
        raise ValueError(f"rows to count must be of kinds {', '.join(kinds)}; found {found}")
    code = np.array([kinds.index(word) for word in named], dtype=np.int64)
    numbers = zip(kinds, np.bincount(code, minlength=len(kinds)), strict=True)
    if few := [f"{k} ({n})" for k, n in numbers if n < FEW]:
        notes.append(f"few rows of {', '.join(few)}: accuracy is hardly known below {FEW} rows")
    kept = {name: column[scored_rows] for name, column in table.items()}
    right = outcome[scored_rows].astype(bool)
    return _LabelledScores(kept, code, kinds, right, units[scored_rows], tuple(notes))


def _refuse_infinite(name: str, column: Floats) -> None:
    if np.isinf(column).any():
        raise ValueError(f"{name} has an infinite score; a missing score is NaN")


def _filled(made: Calibration, rows: _LabelledScores, cells: NDArray[Any]) -> Calibration:
    """With the rows counted, and how many of each kind are independent."""
    table, placed = np.zeros(made.table.shape, dtype=np.int64), cells != NOWHERE
    outcome = (~rows.correct[placed]).astype(np.int64)
    np.add.at(table, (rows.kind[placed], outcome, cells[placed]), 1)
    if not made.grouped:
        return replace(made, table=table)
    from roadworthy.statistics.clusters import effective_size

    columns = made.shift_bin(cells).astype(np.float64), rows.correct.astype(np.float64)
    of_kinds = [rows.kind == number for number in range(len(made.kinds))]
    independent = tuple(
        min(float(effective_size(column[on], rows.groups[on])) for column in columns)
        for on in of_kinds
    )
    return replace(made, table=table, independent=independent)


def of_firm_kinds(calibration: Calibration) -> Calibration:
    """Without kinds of fewer than FEW_OF_A_KIND independent rows; all if every kind is thin.

    >>> rng = np.random.default_rng(0)
    >>> kind = np.repeat(["clean", "fog", "snow"], [300, 300, 3])
    >>> scores = {"energy": rng.normal(2.0 * (kind != "clean"))}
    >>> of_firm_kinds(fit_calibration(scores, kind, rng.random(603) < 0.8)).kinds
    ('clean', 'fog')
    """
    enough = calibration.effective >= FEW_OF_A_KIND
    enough[0] = True
    if enough.all() or not enough[1:].any():
        return calibration
    keep = np.flatnonzero(enough).tolist()
    independent = tuple(calibration.independent[k] for k in keep) if calibration.independent else ()
    kinds = tuple(calibration.kinds[k] for k in keep)
    return replace(calibration, kinds=kinds, table=calibration.table[keep], independent=independent)


def _no_rows(
    kinds: Sequence[str], models: Sequence[Combination], deployed: Deployed | None
) -> Ints:
    cells = 2 * math.prod(m.bins for m in models) * (1 if deployed is None else 4)
    return np.zeros((len(kinds), 2, cells), dtype=np.int64)
