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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.placement import (
    NOWHERE,
    Combination,
    Deployed,
    Placement,
    edges_between,
    fitted,
    folds_of,
    held_out,
    scored,
)
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
_NO_ROWS: Ints = np.zeros((0, 2, 0), dtype=np.int64)
_OUTCOMES = ("right", "wrong")
_MODELS = ("shift", "right_clean", "right_shifted")
_LISTS = ("names", "reach", "kinds", "notes", "gaps", "independent")


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration(Placement):
    """Models and bins, and counts by kind of shift, right or wrong, and cell."""

    kinds: tuple[str, ...]
    """Clean first."""
    table: Ints
    """Rows: kinds x (right, wrong) x cells."""
    notes: tuple[str, ...] = ()
    grouped: bool = False
    independent: tuple[float, ...] = ()
    """By kind, how many independent rows its rows are worth; without groups, all of them."""

    def __post_init__(self) -> None:
        self.table.setflags(write=False)

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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; counts as the cells that have any, since most have none."""
        found: dict[str, Any] = {name: list(getattr(self, name)) for name in _LISTS}
        found |= {name: dict(vars(getattr(self, name))) for name in _MODELS}
        found["grouped"] = self.grouped
        found["references"] = [[plain_number(v) for v in values] for values in self.references]
        found["counts"] = {
            kind: {
                word: [[int(i), int(row[i])] for i in np.flatnonzero(row)]
                for word, row in zip(_OUTCOMES, rows, strict=True)
            }
            for kind, rows in zip(self.kinds, self.table, strict=True)
        }
        if (alarms := self.deployed) is not None:
            found["deployed"] = vars(alarms) | {"threshold": plain_number(alarms.threshold)}
        return found

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_dict`."""
        given: dict[str, Any] = {name: tuple(record[name]) for name in _LISTS}
        for name in _MODELS:
            given[name] = Combination(**{k: tuple(map(float, v)) for k, v in record[name].items()})
        given["grouped"] = bool(record["grouped"])
        for name in ("references", "reach"):
            given[name] = tuple(tuple(map(float, values)) for values in record[name])
        if "deployed" in record:
            alarms = record["deployed"]
            given["deployed"] = Deployed(**alarms | {"threshold": float(alarms["threshold"])})
        made = cls(**given, table=_NO_ROWS)
        table = np.zeros((len(made.kinds), 2, made.cells), dtype=np.int64)
        for kind, rows in zip(made.kinds, table, strict=True):
            for word, row in zip(_OUTCOMES, rows, strict=True):
                for cell, count in record["counts"][kind][word]:
                    row[cell] = count
        return replace(made, table=table)


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
    rows = _labelled(columns, kind, correct, groups)
    names, scores = tuple(rows.columns), list(rows.columns.values())
    if deployed is not None and deployed.name not in names:
        raise ValueError(f"alarms of {deployed.name}, not among {', '.join(names)}")
    references = [thinned(column[rows.kind == 0]) for column in scores]
    table = completed(
        np.column_stack([ranks(c, r) for c, r in zip(scores, references, strict=True)])
    )
    # A score that stands aside has the same rank everywhere: its slopes are then 0.
    learned = np.where([name in aside for name in names], 0.0, table)
    models, bins = _models(learned, rows, len(names) - len(set(names) & set(aside)), seed)
    made = Calibration(
        names=names,
        references=tuple(tuple(map(float, reference)) for reference in references),
        reach=tuple((float(np.nanmin(c)), float(np.nanmax(c))) for c in scores),
        shift=models[0],
        right_clean=models[1],
        right_shifted=models[2],
        gaps=tuple(bool(np.isnan(column).mean() >= USUAL) for column in scores),
        deployed=deployed,
        kinds=rows.kinds,
        table=_NO_ROWS,
        notes=rows.notes,
        grouped=groups is not None,
    )
    if count_on is not None:
        given, kinds, outcomes, units = (*count_on, None)[:4]
        read = {name: given[name] for name in names if name in given}
        counted = _labelled(read, kinds, outcomes, units, expected=rows.kinds)
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


def _labelled(
    columns: Mapping[str, ArrayLike],
    kind: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike | None,
    *,
    expected: tuple[str, ...] = (),
) -> _LabelledScores:
    """The table's rows: kinds as numbers with clean 0, rows without any score left out and noted.

    `expected` are the kinds that rows which are only counted must have.
    """
    words, outcome = np.asarray(kind).astype(str), np.asarray(correct)
    if not np.isin(outcome, (0, 1)).all():
        raise ValueError("correct must be 1 or 0 in every row; leave out rows without an outcome")
    table = {name: np.asarray(columns[name], dtype=np.float64) for name in sorted(columns)}
    units = np.arange(len(words)) if groups is None else np.asarray(groups).astype(str)
    notes = []
    for name in [] if expected else list(table):  # ranks need clean scores
        if np.isnan(table[name][words == CLEAN]).all():
            del table[name]
            notes.append(f"score {name} is missing in every clean row and is left out")
    known = ~np.isnan([*table.values(), np.full(len(words), np.nan)]).all(axis=0)
    if not known.all():
        gone = int((~known).sum())
        notes.insert(0, f"{gone} of {len(words)} rows have no score at all and are left out")
    there = sorted(set(words[known].tolist()))
    kinds = expected or (CLEAN, *(word for word in there if word != CLEAN))
    if CLEAN not in there:
        found = ", ".join(sorted(set(words.tolist()))) or "none"
        raise ValueError(f"no row of kind {CLEAN!r} has a score; kinds are {found}")
    if len(kinds) < 2:
        raise ValueError(
            "all rows are clean. Add rows of shifted data, with what shifted them as their kind, or "
            "let `roadworthy assess` make some"
        )
    if set(there) != set(kinds):
        found = ", ".join(there)
        raise ValueError(f"rows to count must be of kinds {', '.join(kinds)}; found {found}")
    code = np.array([kinds.index(word) for word in words[known]], dtype=np.int64)
    numbers = zip(kinds, np.bincount(code, minlength=len(kinds)), strict=True)
    if few := [f"{k} ({n})" for k, n in numbers if n < FEW]:
        notes.append(f"few rows of {', '.join(few)}: accuracy is hardly known below {FEW} rows")
    kept = {name: column[known] for name, column in table.items()}
    right = outcome[known].astype(bool)
    return _LabelledScores(kept, code, kinds, right, units[known], tuple(notes))


def _filled(made: Calibration, rows: _LabelledScores, cells: NDArray[Any]) -> Calibration:
    """With the rows counted, and how many of each kind are independent."""
    table, placed = np.zeros((len(made.kinds), 2, made.cells), dtype=np.int64), cells != NOWHERE
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
    """Without kinds of fewer than FEW_OF_A_KIND independent rows; all if every kind is thin."""
    enough = calibration.effective >= FEW_OF_A_KIND
    enough[0] = True
    if enough.all() or not enough[1:].any():
        return calibration
    keep = np.flatnonzero(enough).tolist()
    independent = tuple(calibration.independent[k] for k in keep if calibration.independent)
    kinds = tuple(calibration.kinds[k] for k in keep)
    return replace(calibration, kinds=kinds, table=calibration.table[keep], independent=independent)
