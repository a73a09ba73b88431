"""From scores to cells: what several supervisors say about one event, as one whole number that can be counted.

Three logistic combinations of the supervisors' ranks are learned from a calibration table: how shifted a case looks, how likely it
is right if it is clean, and how likely it is right if it is shifted. Each is cut into bins; together with a mark for scores that
lie outside everything calibrated, the bins make a *cell*. A calibration is then nothing but counts: rows by kind of shift, right
or wrong, and cell. Rows are counted by models that have not seen them (five folds, whole groups together), or on a table of
their own. A monitor keeps the same counts of a stream.

>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog"], 400)
>>> scores = {"energy": rng.normal(np.repeat([0.0, 2.0], 400)), "knn": rng.normal(np.repeat([0.0, 1.0], 400))}
>>> correct = rng.random(800) < np.repeat([0.9, 0.5], 400)
>>> calibration = calibrate(scores, kind, correct)
>>> calibration.kinds, calibration.rows("fog"), round(calibration.accuracy("fog"), 2)
(('clean', 'fog'), 400, 0.54)
>>> cell = calibration.place({"energy": [0.0, 4.0, np.nan], "knn": [0.0, 3.0, np.nan]})
>>> bool(cell[0] < cell[1]), int(cell[2]), calibration.place_one({"energy": 4.0, "knn": 3.0}) == int(cell[1])
(True, -1, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk import combination
from roadworthy.analysis.risk.combination import POWERS, Combination, completed
from roadworthy.analysis.risk.deployed import Deployed
from roadworthy.analysis.risk.placement import AT_ONCE, LACKING, NOWHERE, Placement
from roadworthy.registry import did_you_mean
from roadworthy.statistics.fusion import plain_number, ranks, thinned

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLEAN = "clean"
FEW = 30
"""Rows of a kind below which its accuracy is hardly known."""
FEW_OF_A_KIND = 10
"""Independent rows below which a kind of shift is left out."""
SHIFT_BINS, RIGHT_BINS = 15, 6
"""More bins tell unseen kinds a little better, and lose more by chance where rows are few (`studies/runtime-risk`)."""
USUAL = 0.01
"""The share of calibration rows from which on a score is known to be lacking at times."""
LEAST_PER_BIN, LEAST_SCARCE = 10, 20
"""Rows to a bin; and of the scarcer of clean and shifted rows, for the bins that tell the two apart. A bin that hardly a clean row
reached by chance takes every event in it for shift: with four to a bin, 95% intervals of the rate held that of clean streams in 73
to 91% of calibrations of 50 to 200 rows; with 20, in 95 to 97%, at two thirds of the error."""
FEW_BINS, LEAST_OF_FEW = 4, 12
"""So many bins need fewer rows each: two tell next to nothing."""
RIDGE_SHIFT, RIDGE_RIGHT = 1.0, 10.0
"""Being right is harder to learn than shift, and a wrong slope there costs more than a flat one."""


class Rows(NamedTuple):
    """Rows with at least one score; kinds as numbers, clean 0."""

    columns: dict[str, Floats]
    kind: Ints
    kinds: tuple[str, ...]
    correct: NDArray[np.bool_]
    groups: NDArray[Any]
    notes: tuple[str, ...]


def checked_rows(
    columns: Mapping[str, ArrayLike],
    kind: ArrayLike,
    correct: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    clean: str = CLEAN,
    expected: tuple[str, ...] = (),
) -> Rows:
    """The table's rows, checked: kinds as numbers with clean 0, rows without any score left out and noted."""
    if not columns:
        raise ValueError("a calibration needs at least one column of scores")
    names = sorted(columns)
    words, right = np.asarray(kind).astype(str), _outcomes(correct)
    table = {name: np.asarray(columns[name], dtype=np.float64) for name in names}
    units = np.arange(len(right)) if groups is None else np.asarray(groups).astype(str)
    for name, column in (*table.items(), ("kind", words), ("correct", right), ("group", units)):
        if column.shape != words.shape or column.ndim != 1:
            raise ValueError(
                f"{name} must have one entry a row, {len(words)}, found shape {column.shape}"
            )
    for name, column in table.items():
        if np.isinf(column).any():
            raise ValueError(infinite(name))
    if clean != CLEAN and (words == CLEAN).any():
        raise ValueError(
            f"the kind without shift is called {clean!r}, and yet there are rows of kind {CLEAN!r}: rename one of the two"
        )
    # Rows that are only counted need no clean scores to be ranked by.
    absent = (
        [] if expected else [name for name in names if np.isnan(table[name][words == clean]).all()]
    )
    table = {name: column for name, column in table.items() if name not in absent}
    # A row whose only scores are left out has none.
    scored = np.zeros(len(words), dtype=bool)
    for column in table.values():
        scored |= ~np.isnan(column)
    notes = (
        []
        if scored.all()
        else [f"{int((~scored).sum())} of {len(scored)} rows have no score at all and are left out"]
    )
    notes.extend(f"score {name} is missing in every clean row and is left out" for name in absent)
    named = np.where(words == clean, CLEAN, words)
    there = set(map(str, named[scored]))
    kinds = expected or (CLEAN, *sorted(there - {CLEAN}))
    _enough(named[scored] if table else named, kinds, clean, bool(table), set(words))
    if there - set(kinds):
        raise ValueError(
            f"rows to be counted are of kinds that were not learned: {', '.join(sorted(there - set(kinds)))}"
        )
    if set(kinds) - there:
        raise ValueError(
            f"no row to be counted is of kind {', '.join(sorted(set(kinds) - there))}, which was learned; "
            "count rows of every kind"
        )
    code = np.array([kinds.index(word) for word in named[scored]], dtype=np.int64)
    few = [
        f"{k} ({n})"
        for k, n in zip(kinds, np.bincount(code, minlength=len(kinds)), strict=True)
        if n < FEW
    ]
    if few:
        notes.append(
            f"few rows of {', '.join(few)}: below {FEW} of a kind its accuracy is hardly known"
        )
    kept = {name: column[scored] for name, column in table.items()}
    return Rows(kept, code, kinds, right[scored], units[scored], tuple(notes))


def _outcomes(correct: ArrayLike) -> NDArray[np.bool_]:
    found = np.asarray(correct)
    if found.dtype.kind not in "biufO" or not np.isin(found, (0, 1)).all():
        raise ValueError(
            "correct must be true or false (1 or 0) in every row; leave out rows whose outcome is not known"
        )
    return found.astype(bool)


def _enough(
    named: NDArray[Any], kinds: tuple[str, ...], clean: str, any_scores: bool, found: set[str]
) -> None:
    there = ", ".join(sorted(found)) or "none"
    if not (named == CLEAN).any():
        raise ValueError(
            f"no row is of kind {clean!r}, the kind without shift; there are {there}: say which of them is clean"
        )
    if not any_scores:
        raise ValueError("no score is there in any clean row; ranks need clean scores")
    if len(kinds) < 2:
        raise ValueError(
            "all rows are clean; to tell shift from none, a calibration needs rows of at least one kind of shift (an assessment "
            "with circumstances makes them from clean data)"
        )


def infinite(name: str) -> str:
    """What to say of an infinite score."""
    return f"{name} has an infinite score; scores must be finite, or NaN where an event has none"


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was learned before deployment: models, bins, and counts by kind of shift, right or wrong, and cell."""

    names: tuple[str, ...]
    references: tuple[tuple[float, ...], ...]
    """Of each supervisor, its sorted clean scores, thinned."""
    reach: tuple[tuple[float, float], ...]
    """Of each supervisor, the lowest and the highest score of all calibration rows."""
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
    """Of each supervisor, whether calibration rows lacked its score: counts then say what that means."""
    independent: tuple[float, ...] = ()
    """Of each kind, how many independent rows its rows are worth; without groups, all of them."""
    deployed: Deployed | None = None
    """Whose alarms call a person; rows with and without one are then counted apart."""

    def __post_init__(self) -> None:
        expected = (len(self.kinds), 2, self.cells)
        if self.table.shape != expected or self.table.dtype.kind != "i" or (self.table < 0).any():
            raise ValueError(
                f"a calibration's counts must be whole numbers of shape {expected}, found {self.table.shape}"
            )
        if not self.kinds or self.kinds[0] != CLEAN or len(set(self.kinds)) != len(self.kinds):
            raise ValueError(
                f"a calibration's kinds are {CLEAN!r} first and distinct, found {self.kinds}"
            )
        width = 1 + len(self.names) * len(POWERS)
        if any(
            len(m.coefficients) != width for m in (self.shift, self.right_clean, self.right_shifted)
        ):
            raise ValueError(f"{len(self.names)} supervisors need {width} coefficients a model")
        if not len(self.names) == len(self.references) == len(self.reach) or not (
            self.names and all(self.references)
        ):
            raise ValueError(
                "every supervisor of a calibration needs its reference scores and their reach"
            )
        if self.deployed is not None and self.deployed.name not in self.names:
            raise ValueError(
                f"alarms of {self.deployed.name} are counted, and it is not among {', '.join(self.names)}"
            )
        if self.cells > np.iinfo(np.int16).max:
            raise ValueError(
                f"a calibration has at most {np.iinfo(np.int16).max} cells, found {self.cells}"
            )
        self.table.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Bins of the shift score, of being right if clean, of being right if shifted; inside or outside what was calibrated.

        Where somebody's alarms call a person, the bins of being right stand twice: without an alarm, then with one.
        """
        times = 1 if self.deployed is None else 2
        return self.shift.bins, times * self.right_clean.bins, times * self.right_shifted.bins, 2

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape)

    @property
    def always(self) -> tuple[str, ...]:
        """Scores that every calibration row had: an event without one may be anything."""
        return tuple(name for name, gap in zip(self.names, self._gaps, strict=True) if not gap)

    def lacked_by(self, scores: Mapping[str, float]) -> list[str] | None:
        """The scores for want of which one event has no place; None if it has one."""
        gone = [name for name in self.names if math.isnan(scores.get(name, math.nan))]
        if len(gone) == len(self.names):
            return gone
        always = [name for name in gone if name in self.always]
        return always if always and len(gone) > LACKING * len(self.names) else None

    def lacks(self, columns: Mapping[str, ArrayLike]) -> dict[str, int]:
        """By score that every calibration row had, how many events without a place lack it."""
        gone = {name: np.isnan(np.asarray(columns[name], dtype=np.float64)) for name in self.names}
        nowhere = self._placement.unlike(list(gone.values()))
        return {name: n for name in self.always if (n := int((gone[name] & nowhere).sum()))}

    def why_nowhere(self, events: int = 2, *, lacking: Sequence[str] | None = None) -> str:
        """Why so many events have no place, to be read after their number."""
        verb = "lacks" if events == 1 else "lack"
        return (
            f"{verb} {', '.join(lacking) if lacking else 'scores that every calibration row had'}"
        )

    @property
    def effective(self) -> Floats:
        """How many independent rows there are of each kind."""
        rows = self.table.sum(axis=(1, 2)).astype(np.float64)
        return np.minimum(self.independent, rows) if self.independent else rows

    @property
    def worth(self) -> Floats:
        """Of each kind, how much of an independent row one row is worth."""
        return self.effective / np.maximum(self.table.sum(axis=(1, 2)), 1)

    def rows(self, kind: str) -> int:
        """How many rows of a kind were counted."""
        return int(self.table[self._at(kind)].sum())

    def accuracy(self, kind: str) -> float:
        """The share of right answers among the rows of a kind."""
        right, wrong = self.table[self._at(kind)].sum(axis=1)
        return float(right / max(right + wrong, 1))

    def shift_bin(self, cells: ArrayLike) -> Ints:
        """The bin of the shift score in which each cell lies."""
        return np.asarray(cells, dtype=np.int64) // (self.cells // self.shift.bins)

    def alarmed(self, cells: ArrayLike) -> NDArray[np.bool_]:
        """Which of these cells hold events for which the deployed supervisor raised an alarm."""
        _, clean, shifted, outside = self.shape
        return (
            np.asarray(cells, dtype=np.int64) // (shifted * outside) % clean
            >= self.right_clean.bins
        )

    def folded(self, counts: ArrayLike) -> NDArray[Any]:
        """Counts over cells (in the last axis) as a table over the four `shape` axes."""
        array = np.asarray(counts)
        return array.reshape(*array.shape[:-1], *self.shape)

    def place(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.int16]:
        """The cell of each event: for a missing score (NaN) the mean rank of the others stands in, if few are missing; else -1."""
        given = [self._column(columns, name) for name in self.names]
        n = len(given[0])
        if any(len(column) != n for column in given):
            raise ValueError(
                f"all scores must be of the same events, found {[len(column) for column in given]} scores"
            )
        if n <= AT_ONCE:
            return self._placed(given)
        # Columns of many events are put together part by part, or they would be read from far away twice.
        parts = [[column[at : at + AT_ONCE] for column in given] for at in range(0, n, AT_ONCE)]
        return np.concatenate([self._placed(part) for part in parts])

    def _placed(self, given: Sequence[Floats]) -> NDArray[np.int16]:
        scores = np.array(given)
        finite = bool(np.isfinite(scores).all())
        if not finite:
            for name, column in zip(self.names, scores, strict=True):
                if np.isinf(column).any():
                    raise ValueError(infinite(name))
        return self._placement.many(scores, whole=finite)

    def place_one(self, scores: Mapping[str, float]) -> int:
        """`place` for one event, without arrays; the same cell. A score that is not given is missing, unless one is misspelt."""
        get = scores.get
        given = [
            float(get(name, math.nan)) for name in self.names
        ]  # a float32 would be compared in its own precision
        cell = self._placement.one(given)
        if cell is None:  # a score is missing, or refused
            unknown = sorted(scores.keys() - set(self.names))
            if unknown and not scores.keys() >= set(self.names):
                near = did_you_mean(unknown[0], self.names)
                raise ValueError(
                    f"unknown score {unknown[0]!r}{near}; the calibration reads {', '.join(self.names)}"
                )
            return int(
                self.place({name: [score] for name, score in zip(self.names, given, strict=True)})[
                    0
                ]
            )
        return cell

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; counts as the cells that have any, since most have none."""
        return {
            "names": list(self.names),
            "references": [[plain_number(v) for v in reference] for reference in self.references],
            "reach": [list(pair) for pair in self.reach],
            "shift": self.shift.to_dict(),
            "right_clean": self.right_clean.to_dict(),
            "right_shifted": self.right_shifted.to_dict(),
            "kinds": list(self.kinds),
            "counts": {
                kind: {
                    word: [[int(i), int(row[i])] for i in np.flatnonzero(row)]
                    for word, row in zip(_WORDS, rows, strict=True)
                }
                for kind, rows in zip(self.kinds, self.table, strict=True)
            },
            "notes": list(self.notes),
            "grouped": self.grouped,
            "gaps": list(self.gaps),
            "independent": list(self.independent),
            **({} if self.deployed is None else {"deployed": self.deployed.to_dict()}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_dict`."""
        wanted = {
            "names",
            "references",
            "reach",
            "shift",
            "right_clean",
            "right_shifted",
            "kinds",
            "counts",
        }
        if wanted - set(record):
            raise ValueError(
                f"a calibration needs {sorted(wanted)}; missing {sorted(wanted - set(record))}"
            )
        models = [
            Combination.from_dict(record[name])
            for name in ("shift", "right_clean", "right_shifted")
        ]
        kinds = tuple(map(str, record["kinds"]))
        deployed = Deployed.from_dict(record["deployed"]) if "deployed" in record else None
        cells = _cells(models, deployed)
        table = np.zeros((len(kinds), 2, cells), dtype=np.int64)
        for i, kind in enumerate(kinds):
            for j, word in enumerate(_WORDS):
                for cell, count in record["counts"][kind][word]:
                    if not 0 <= cell < cells:
                        raise ValueError(
                            f"cell {cell} of {kind} is not among the {cells} cells of this calibration"
                        )
                    table[i, j, cell] = count
        return cls(
            tuple(map(str, record["names"])),
            tuple(tuple(map(float, reference)) for reference in record["references"]),
            tuple((float(low), float(high)) for low, high in record["reach"]),
            models[0],
            models[1],
            models[2],
            kinds,
            table,
            tuple(map(str, record.get("notes", ()))),
            bool(record.get("grouped", False)),
            tuple(map(bool, record.get("gaps", ()))),
            tuple(map(float, record.get("independent", ()))),
            deployed,
        )

    def _at(self, kind: str) -> int:
        if kind not in self.kinds:
            raise ValueError(
                f"no rows of kind {kind!r} were calibrated; there are {', '.join(self.kinds)}"
            )
        return self.kinds.index(kind)

    def _column(self, columns: Mapping[str, ArrayLike], name: str) -> Floats:
        if name not in columns:
            raise ValueError(
                f"score {name!r} is missing; the calibration reads {', '.join(self.names)}: give NaN where an event has none"
            )
        column = np.asarray(columns[name], dtype=np.float64)
        if column.ndim != 1:
            raise ValueError(
                f"{name} must be one-dimensional, one score an event, found shape {column.shape}"
            )
        return column

    @cached_property
    def _placement(self) -> Placement:
        models = self.shift, self.right_clean, self.right_shifted
        alarm = None
        if self.deployed is not None:
            alarm = self.names.index(self.deployed.name), self.deployed.threshold
        return Placement(models, self.references, self.reach, self._gaps, alarm)

    @property
    def _gaps(self) -> tuple[bool, ...]:
        return self.gaps or (False,) * len(self.names)


_WORDS = ("right", "wrong")


def calibrate(
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
    rows = checked_rows(columns, kind, correct, groups=groups, clean=clean)
    references = [thinned(column[rows.kind == 0]) for column in rows.columns.values()]
    table = _ranked(rows, references)
    weights, is_clean = combination.even(rows.kind), rows.kind == 0
    right = rows.correct.astype(np.float64)
    members = [i for i, name in enumerate(rows.columns) if name not in aside]
    learned = table[:, members]
    folds = combination.folds_of(rows.groups, rows.kind, np.random.default_rng([seed, 4]))
    # The three slopes of one supervisor have nothing to overfit, and folds would blur its bins.
    several, every = len(members) > 1, np.ones(len(right), dtype=bool)
    fits = (
        (every, (~is_clean).astype(np.float64), weights, RIDGE_SHIFT, SHIFT_BINS),
        (is_clean, right, np.ones(len(right)), RIDGE_RIGHT, RIGHT_BINS),
        (~is_clean, right, weights / weights[~is_clean].mean(), RIDGE_RIGHT, RIGHT_BINS),
    )
    models, bins = [], []
    for on, marks, w, ridge, most in fits:
        coefficients = combination.fitted(learned[on], marks[on], w[on], ridge=ridge)
        kept = combination.scored(coefficients, learned)
        scores = kept.copy()
        if several:
            scores[on] = combination.held_out(learned[on], marks[on], w[on], folds[on], ridge=ridge)
        count = min(most, max(2, int(on.sum()) // LEAST_PER_BIN))
        if on is every:
            scarce = int(min(is_clean.sum(), (~is_clean).sum()))
            count = min(
                count, max(2, min(FEW_BINS, scarce // LEAST_OF_FEW), scarce // LEAST_SCARCE)
            )
        edges = combination.edges_between(scores[on], w[on], count, kept=kept[on])
        models.append(
            Combination(combination.spread(coefficients, members, len(rows.columns)), edges)
        )
        bins.append(np.searchsorted(edges, scores, side="right"))
    reach = tuple((float(np.nanmin(c)), float(np.nanmax(c))) for c in rows.columns.values())
    chosen = tuple(tuple(map(float, reference)) for reference in references)
    empty = np.zeros((len(rows.kinds), 2, _cells(models, deployed)), dtype=np.int64)
    made = Calibration(
        tuple(rows.columns),
        chosen,
        reach,
        models[0],
        models[1],
        models[2],
        rows.kinds,
        empty,
        rows.notes,
        groups is not None,
        tuple(bool(np.isnan(column).mean() >= USUAL) for column in rows.columns.values()),
        deployed=deployed,
    )
    if count_on is not None:
        given, kinds, outcomes, units = (*count_on, None)[:4]
        read = {name: given[name] for name in made.names if name in given}
        counted = checked_rows(
            read, kinds, outcomes, groups=units, clean=clean, expected=rows.kinds
        )
        notes = tuple(dict.fromkeys((*rows.notes, *counted.notes)))
        made = replace(made, notes=notes, grouped=units is not None)
        return _filled(made, counted, made.place(counted.columns))
    if deployed is not None:
        raised = deployed.raised(rows.columns[deployed.name])
        bins[1:] = [
            some + model.bins * raised for some, model in zip(bins[1:], models[1:], strict=True)
        ]
    cells = ((bins[0] * made.shape[1] + bins[1]) * made.shape[2] + bins[2]) * 2
    return _filled(made, rows, cells)


def _filled(made: Calibration, rows: Rows, cells: NDArray[Any]) -> Calibration:
    """With the rows counted, and how many of each kind are independent."""
    table, placed = np.zeros(made.table.shape, dtype=np.int64), cells != NOWHERE
    outcome = (~rows.correct[placed]).astype(np.int64)
    np.add.at(table, (rows.kind[placed], outcome, cells[placed]), 1)
    if not made.grouped:
        return replace(made, table=table)
    from roadworthy.statistics.clusters import effective_size

    columns = made.shift_bin(cells).astype(np.float64), rows.correct.astype(np.float64)
    found = []
    for number in range(len(made.kinds)):
        on = rows.kind == number
        sizes = [
            float(effective_size(column[on], rows.groups[on])) for column in columns if on.any()
        ]
        found.append(min(sizes, default=0.0))
    return replace(made, table=table, independent=tuple(found))


def of_firm_kinds(calibration: Calibration) -> Calibration:
    """Without kinds of fewer than FEW_OF_A_KIND independent rows; all of them if every kind is thin.

    >>> rng = np.random.default_rng(0)
    >>> kind = np.repeat(["clean", "fog", "snow"], [300, 300, 3])
    >>> scores = {"energy": rng.normal(2.0 * (kind != "clean"))}
    >>> of_firm_kinds(calibrate(scores, kind, rng.random(603) < 0.8)).kinds
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


def _cells(models: Sequence[Combination], deployed: Deployed | None) -> int:
    return 2 * math.prod(m.bins for m in models) * (1 if deployed is None else 4)


def _ranked(rows: Rows, references: Sequence[Floats]) -> Floats:
    return completed(
        np.column_stack(
            [ranks(c, r) for c, r in zip(rows.columns.values(), references, strict=True)]
        )
    )
