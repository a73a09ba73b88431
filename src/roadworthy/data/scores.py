"""Tables of scores: one row per event, with the scores of supervisors and, if known, the kind of
shift and the outcome.

Columns are found by name (`NAMES`, in any case): `kind`, `correct`, `group`, `time`, `id`. Every
other numeric column is a score, except labels, losses and ids (`NO_SCORES`, `ID_WORDS`). An option
of the command, or a keyword here, points at a column of another name. A file is read whole
(`read_scores`) or piece by piece (`open_scores`), so that a stream of any length fits into memory.
An empty cell is a missing score. Forms of files and cells: `score_files`.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text("kind,correct,energy,knn\\nind,1,0.5,2\\nind,yes,,3\\nfog,0,0.9,7\\n")
>>> table = read_scores(file)
>>> table.kind.tolist(), table.correct.tolist(), table.columns["energy"].tolist()
(['clean', 'clean', 'fog'], [True, True, False], [0.5, nan, 0.9])
>>> read_scores(file, kind="fo")
Traceback (most recent call last):
roadworthy.data.scores.ColumnError: a.csv has no column 'fo'; columns: kind, correct, energy, knn (choose with --kind COLUMN)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from roadworthy.data import score_files
from roadworthy.data.samples import DataError
from roadworthy.data.score_files import Opened, RowPlace, open_table
from roadworthy.registry import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

CLEAN = "clean"
"""The kind of rows without shift."""
NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("kind", "role", "shift", "fold", "condition"),
    "correct": ("correct", "is_correct"),
    "group": ("group", "patient", "patient_id", "session", "session_id"),
    "time": ("time", "timestamp"),
    "id": ("id", "event_id", "sample_id"),
}
"""What is in a column -> the names under which it is found; the first that is there is taken."""
MEANING = {
    "kind": f"the kind of shift ({CLEAN!r} if there is none)",
    "correct": "whether the answer was right",
    "group": "which rows belong together",
    "time": "when it happened",
    "id": "the name of the event",
}
CLEAN_NAMES = frozenset({CLEAN, "ind", "ind_val", "ind_test", "in_distribution", "nominal", "none"})
"""What tables call rows without shift, in small letters."""
TRAINING_NAMES = frozenset({"train", "training"})
"""Rows that the model was trained on: they are neither clean nor shifted, but too good to be true.
"""
NO_SCORES = frozenset(
    {"label", "target", "y_true", "y_pred", "prediction", "predicted", "predicted_class", "class"}
    | {"loss", "index", "row"}
)
"""Numeric columns that are scores only if they are named: a label or a loss is not known in use."""
ID_WORDS = frozenset({"id", "uuid", "key", "idx", "index", "no", "number"})
"""The last word of a column's name by which it is an id."""
NO_GROUPS = "none"
"""Given in place of a column of groups if rows are independent; a column of that name is one all
the same."""
ENOUGH = 20
"""Rows of each kind from which on a pattern is not chance."""
PERFECT = 0.995
"""The area under the ROC curve from which on a score alone is too good to be true."""
ROWS = 65_536
"""Of one piece."""


class ColumnError(DataError):
    """A refusal that an option of the command would lift."""

    def __init__(self, what: str, option: str) -> None:
        super().__init__(f"{what} ({option})")


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Rows of a table by what they mean; what the table does not have is None."""

    columns: dict[str, np.ndarray]
    """Scores by name, float64; NaN where one is missing."""
    kind: np.ndarray | None
    correct: np.ndarray | None
    group: np.ndarray | None
    time: np.ndarray | None
    """Seconds, since 1970 if the table has dates."""
    id: np.ndarray | None
    source: str
    n: int
    notes: tuple[str, ...] = ()
    labelled: np.ndarray | None = None
    """Which rows have an outcome, if not all of them do."""

    def take(self, rows: np.ndarray) -> ScoreTable:
        """Some of the rows, by mask or index."""
        parts: dict[str, Any] = {
            k: None if (v := getattr(self, k)) is None else v[rows] for k in (*NAMES, "labelled")
        }
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, columns=columns, n=len(np.arange(self.n)[rows]), **parts)


@dataclass(frozen=True)
class ScoreFile:
    """A table that is open: what its columns are, before any row is used."""

    path: Path
    header: tuple[str, ...]
    found: Mapping[str, str]
    """What is in a column -> the column."""
    scores: Mapping[str, str]
    """Name of a score -> the column."""
    notes: tuple[str, ...]
    opened: Opened = field(repr=False)
    clean: tuple[str, ...] = ()

    def pieces(self, *, rows: int = ROWS) -> Iterator[ScoreTable]:
        """The rows in the order of the file, so many at a time."""
        start, scores = 0, set(self.scores.values())
        for piece in self.opened.pieces([*self.found.values(), *scores], scores, rows):
            if len(piece):
                yield self._table(piece, start)
                start += len(piece)

    def whole(self) -> ScoreTable:
        """All rows at once."""
        parts = list(self.pieces())
        columns = {name: np.concatenate([p.columns[name] for p in parts]) for name in self.scores}
        more = {k: np.concatenate([getattr(p, k) for p in parts]) for k in self.found}
        known = [np.ones(p.n, dtype=bool) if p.labelled is None else p.labelled for p in parts]
        labelled = np.concatenate(known)
        gone = [(name, int(np.isnan(column).sum())) for name, column in columns.items()]
        n = sum(p.n for p in parts)
        notes = [f"score {name} is missing in {k:,} of {n:,} rows" for name, k in gone if k]
        return ScoreTable(
            columns,
            **{**dict.fromkeys(NAMES), **more},
            source=self.path.name,
            n=n,
            notes=(*self.notes, *notes),
            labelled=None if labelled.all() else labelled,
        )

    def _table(self, piece: pa.Table, start: int) -> ScoreTable:
        place = RowPlace(self.path.name, start)
        columns = {
            name: score_files.score_values(piece[c], c, place) for name, c in self.scores.items()
        }
        given: dict[str, Any] = dict.fromkeys(NAMES)
        labelled = None
        for role, column in self.found.items():
            cells = piece[column]
            if role == "correct":
                given[role], known = score_files.outcomes(cells, column, place)
                labelled = None if known.all() else known
            elif role == "time":
                given[role] = score_files.times(cells, column, place)
            elif role == "id":
                given[role] = score_files.ids(cells)
            elif role == "kind":
                given[role] = _kinds(score_files.texts(cells), column, self.clean, place)
            else:
                given[role] = score_files.texts(cells)
        return ScoreTable(columns, **given, source=self.path.name, n=len(piece), labelled=labelled)


class ColumnNames(TypedDict, total=False):
    """Columns of a table that have other names than those in `NAMES`."""

    kind: str | None
    correct: str | None
    group: str | None
    """"none" stands for no groups, unless a column is called so."""
    time: str | None
    id: str | None


def open_scores(
    path: Path | str,
    *,
    clean: str | Sequence[str] | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    skips: Sequence[str] = (),
    **names: Unpack[ColumnNames],
) -> ScoreFile:
    """Open a table and find its columns; what it `needs` must be there, what it `skips` is not
    read.

    `clean` names the kinds without shift. `columns` names the scores to read; a mapping says under
    which column each is found, and an empty list means none.
    """
    opened = open_table(Path(path))
    if names.get("group") == NO_GROUPS and NO_GROUPS not in opened.header:
        names["group"], skips = None, (*skips, "group")
    found, notes = _found(opened, {role: names.get(role) for role in NAMES}, needs, skips)  # type: ignore[misc]
    scores, more = _scores_of(opened, columns, found)
    if "time" in found and score_files.without_zone(opened.first[found["time"]]):
        notes.append(f"column {found['time']!r} has dates without a time zone, read as UTC")
    cleans = () if clean is None else (clean,) if isinstance(clean, str) else tuple(clean)
    return ScoreFile(opened.path, opened.header, found, scores, (*notes, *more), opened, cleans)


def read_scores(
    path: Path | str,
    *,
    clean: str | Sequence[str] | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    skips: Sequence[str] = (),
    **names: Unpack[ColumnNames],
) -> ScoreTable:
    """A whole table; see `open_scores`. Rows of training data, and those without a needed outcome,
    are left out and noted."""
    file = open_scores(path, clean=clean, columns=columns, needs=needs, skips=skips, **names)
    table = _without_constants(file.whole(), named=columns is not None)
    if "correct" in needs and table.labelled is not None:
        gone = int((~table.labelled).sum())
        if gone == table.n:
            raise ColumnError(
                f"{table.source}: {file.found['correct']} is empty in all {gone:,} rows; expected 1 or 0",
                "choose another column with --correct COLUMN",
            )
        notes = (*table.notes, f"{gone:,} of {table.n:,} rows have no outcome and are left out")
        table = replace(table.take(table.labelled), labelled=None, notes=notes)
    if table.kind is not None:
        table = checked_kinds(table, clean)
    if "kind" in needs and table.group is not None:
        _refuse_one_group(table, file.found["group"])
    if "correct" in needs and table.correct is not None:
        table = replace(table, notes=(*table.notes, *_too_good(table.columns, table.correct)))
    return table


def checked_kinds(table: ScoreTable, clean: str | Sequence[str] | None = None) -> ScoreTable:
    """Without rows of training data; a table without clean rows is refused."""
    assert table.kind is not None
    kinds, counts = np.unique(table.kind, return_counts=True)
    training = [k for k in kinds.tolist() if k.lower() in TRAINING_NAMES]
    rest = [k for k in kinds.tolist() if k not in training]
    if CLEAN not in rest:
        names = [] if clean is None else [clean] if isinstance(clean, str) else list(clean)
        asked = f" ({' or '.join(map(repr, names))})" if names else ""
        raise ColumnError(
            f"{table.source} has no clean rows{asked}; its kinds are: {', '.join(map(repr, rest))}",
            "name the kind without shift with --clean NAME",
        )
    if not training:
        return table
    notes = [
        f"{n:,} rows of kind {k!r} are left out: the model was trained on them"
        for k, n in zip(kinds.tolist(), counts.tolist(), strict=True)
        if k in training
    ]
    kept = table.take(~np.isin(table.kind, training))
    return replace(kept, notes=(*table.notes, *notes))


def is_id(column: str) -> bool:
    """Whether a column is an id by its name: such numbers tell rows apart, and mean nothing in use.

    >>> [is_id(c) for c in ("TransactionID", "txnId", "order-no", "ROW_KEY", "centroid", "energy")]
    [True, True, True, True, False, False]
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", column)
    return bool(parts) and parts[-1].lower() in ID_WORDS


def _named(header: Sequence[str], role: str) -> str | None:
    lower = {h.lower(): h for h in reversed(header)}
    return next((lower[n] for n in NAMES[role] if n in lower), None)


def _found(
    opened: Opened, given: Mapping[str, str | None], needs: Sequence[str], skips: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """What is in a column -> the column, and notes on those that were taken by another name."""
    found, notes, header = dict[str, str](), [], opened.header
    for role, asked in given.items():
        chosen = asked if asked is not None else _named(header, role)
        if asked is not None and asked not in header:
            raise _absent(opened, asked, f"--{role} COLUMN")
        if chosen is None and role in needs:
            near = did_you_mean(role, header)
            raise ColumnError(
                f"{opened.path.name} has no column {role!r} (or {', '.join(NAMES[role][1:])}) for {MEANING[role]}{near}; "
                f"columns: {', '.join(header)}",
                f"choose with --{role} COLUMN",
            )
        if chosen is not None and (role not in skips or asked is not None):
            found[role] = chosen
            if asked is None and chosen.lower() not in (role, "role", "shift", "fold"):
                notes.append(f"column {chosen!r} is read as {role}")
    return found, notes


def _scores_of(
    opened: Opened, columns: Sequence[str] | Mapping[str, str] | None, found: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Which columns are scores, and notes on the others."""
    if columns is not None:
        return _asked_scores(opened, columns, found), []
    # What is skipped is no score either.
    taken = {c for role in NAMES for c in (found.get(role) or _named(opened.header, role),)}
    scores, notes = {}, []
    for column in opened.header:
        if column in taken:
            continue
        if opened.numeric(column) is None:
            raise DataError(opened.why_no_score(column))
        if not opened.numeric(column):
            notes.append(f"column {column!r} is not numeric and is not used")
        elif column.strip().lower() in NO_SCORES or is_id(column):
            notes.append(
                f"column {column!r} is not used as a score; name it with --score {column!r} if it is one"
            )
        else:
            scores[column] = column
    if not scores:
        raise ColumnError(
            f"{opened.path.name} has no column of scores; columns: {', '.join(opened.header)}",
            "choose with --score COLUMN",
        )
    return scores, notes


def _asked_scores(
    opened: Opened, columns: Sequence[str] | Mapping[str, str], found: Mapping[str, str]
) -> dict[str, str]:
    """The scores that were named, each under the column where it stands."""
    mapped = isinstance(columns, Mapping)
    asked = dict(columns) if isinstance(columns, Mapping) else {c: c for c in columns}
    roles = {column: role for role, column in found.items()}
    for name, column in asked.items():
        if column not in opened.header:
            raise _absent(opened, column, f"--score {name}=COLUMN" if mapped else "--score COLUMN")
        if column in roles and not mapped:
            role = roles[column]
            raise ColumnError(
                f"{opened.path.name}: {column!r} is read as {role}, {MEANING[role]}, and cannot be a score",
                f"leave out --score {column}, or choose another column with --{role} COLUMN",
            )
        if list(asked.values()).count(column) > 1:
            raise ColumnError(
                f"{opened.path.name}: the column {column!r} is named for more than one score",
                "name a column for each with --score NAME=COLUMN",
            )
        # A stream may begin without a score.
        silent = mapped and opened.empty(column)
        if opened.numeric(column) is not True and not silent:
            raise DataError(opened.why_no_score(column))
    return asked


def _absent(opened: Opened, column: str, option: str) -> ColumnError:
    near = did_you_mean(column, opened.header)
    what = f"{opened.path.name} has no column {column!r}{near}; columns: {', '.join(opened.header)}"
    return ColumnError(what, f"choose with {option}")


def _kinds(kinds: np.ndarray, column: str, clean: tuple[str, ...], place: RowPlace) -> np.ndarray:
    """The kinds, with one name for those without shift."""
    names, first, at = np.unique(kinds, return_index=True, return_inverse=True)
    for name, row in zip(names.tolist(), first.tolist(), strict=True):
        if not name.strip() and name not in clean:
            raise ColumnError(
                f"{place.row(row)}: {column} is empty; expected a kind of shift, or {CLEAN!r}",
                "or --clean '' if empty means no shift",
            )
        if clean and name == CLEAN and CLEAN not in clean:
            raise ColumnError(
                f"{place.row(row)}: {column} is {CLEAN!r}, and {' and '.join(map(repr, clean))} is named as clean; rename one",
                f"or add --clean {CLEAN}",
            )
    known = clean or CLEAN_NAMES
    same = [CLEAN if (k if clean else k.strip().lower()) in known else k for k in names.tolist()]
    return np.array(same, dtype=str)[at]


def _refuse_one_group(table: ScoreTable, column: str) -> None:
    """Rows of one group count as one, so that nothing could be learned from a table of one group."""
    assert table.group is not None
    if table.n >= ENOUGH and len(np.unique(table.group)) == 1:
        raise ColumnError(
            f"{table.source}: all {table.n:,} rows belong to one group ({column} is {str(table.group[0])!r})",
            f"choose another column with --group COLUMN, or --group {NO_GROUPS} if rows are independent",
        )


def _without_constants(table: ScoreTable, *, named: bool) -> ScoreTable:
    """Without scores that are the same in every row: they say nothing."""
    constant = [
        name
        for name, column in table.columns.items()
        if np.isfinite(column).sum() >= ENOUGH and np.nanmin(column) == np.nanmax(column)
    ]
    if not constant:
        return table
    if named or len(constant) == len(table.columns):
        raise ColumnError(
            f"{table.source}: {constant[0]} has the same value in every row, and cannot be a score",
            "choose other columns with --score COLUMN",
        )
    columns = {name: column for name, column in table.columns.items() if name not in constant}
    notes = [
        f"column {name!r} has the same value in every row and is not used" for name in constant
    ]
    return replace(table, columns=columns, notes=(*table.notes, *notes))


def _too_good(columns: Mapping[str, np.ndarray], correct: np.ndarray) -> list[str]:
    """A warning for every score that separates right from wrong answers: it may have been made from
    the outcome."""
    from roadworthy.statistics import auc

    notes = []
    for name, values in columns.items():
        known = np.isfinite(values)
        right = int(correct[known].sum())
        if min(right, int(known.sum()) - right) < ENOUGH:
            continue
        area = auc(values[known], ~correct[known])
        if max(area, 1.0 - area) > PERFECT:
            notes.append(
                f"score {name!r} separates right from wrong answers (AUC {max(area, 1.0 - area):.3f}): check that it is known "
                "before the outcome is"
            )
    return notes
