"""Tables of scores: one row an event, with what supervisors said of it and, where known, the kind of shift and the outcome.

CSV, TSV (also .gz) or Parquet. Columns are found by name: `kind` (or role, shift, fold), `correct`, `group`, `time`, `id`, and what
others call them (`OTHER_NAMES`, which is noted); every other numeric column is a score, except those that are known to be none (a
label, a loss). An option of the command, or a keyword here, points at a column of another name. A file is read whole
(`read_scores`) or piece by piece (`open_scores`), so that a stream of any length fits into memory.

An empty cell or NaN is a missing score. An infinite score is refused by row and column, since nothing can be learned from it.

>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text("kind,correct,energy,knn\\nind,1,0.5,2\\nind,yes,,3\\nfog,0,0.9,7\\n")
>>> table = read_scores(file)
>>> table.kind.tolist(), table.correct.tolist(), table.columns["energy"].tolist()
(['clean', 'clean', 'fog'], [True, True, False], [0.5, nan, 0.9])
>>> read_scores(file, kind="fo")
Traceback (most recent call last):
roadworthy.data.score_columns.ColumnError: a.csv has no column 'fo'; it has: kind, correct, energy, knn (choose with --kind COLUMN)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data import score_cells
from roadworthy.data.samples import DataError
from roadworthy.data.score_cells import Where
from roadworthy.data.score_columns import (
    CLEAN,
    NAMES,
    NO_GROUPS,
    ColumnError,
    absent,
    lacking,
    named,
    refuse_other_roles,
    refuse_shared,
)
from roadworthy.data.score_doubts import doubts, is_id, is_no_score, outcome_doubts
from roadworthy.data.score_files import Opened, open_table

if TYPE_CHECKING:
    import pyarrow as pa

CLEAN_NAMES = frozenset(
    {
        CLEAN,
        "ind",
        "ind_val",
        "ind_test",
        "in_distribution",
        "in-distribution",
        "nominal",
        "none",
        "",
    }
)
"""What tables call rows without shift, in small letters."""
SOUND_CLEAN = frozenset(
    {"normal", "baseline", "regular", "original", "unperturbed", "uncorrupted"}
    | {"unshifted", "noshift", "indomain", "indistribution"}
)
"""Letters of kinds that may be without shift, too, and are not taken for it."""
TRAINING_NAMES = frozenset({"train", "training"})
"""Rows that the model was trained on: they are neither clean nor shifted, but too good to be true."""
ENOUGH = 20
"""Rows from which on whole numbers in a row are no accident."""
ROWS = 65_536
"""Of one piece."""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Rows of a table by what they mean; what the table does not have is None."""

    columns: dict[str, np.ndarray]
    """Scores by name, float64; NaN where one is missing."""
    kind: np.ndarray | None
    correct: np.ndarray | None
    group: np.ndarray | None
    time: np.ndarray | None
    """Seconds, since 1970 where the table has dates."""
    id: np.ndarray | None
    source: str
    n: int
    notes: tuple[str, ...] = ()
    labelled: np.ndarray | None = None
    """Which rows have an outcome, where not all of them do."""

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
    part: score_cells.Part | None = None
    """What times are counted in, where it is not seconds."""

    def pieces(self, *, rows: int = ROWS) -> Iterator[ScoreTable]:
        """The rows in the order of the file, so many at a time."""
        start, kinds = 0, dict[str, int]()
        for piece in self.opened.pieces(
            [*self.found.values(), *self.scores.values()], set(self.scores.values()), rows
        ):
            if len(piece):
                yield self._table(piece, start, kinds)
                start += len(piece)

    def whole(self) -> ScoreTable:
        """All rows at once."""
        parts = list(self.pieces())
        columns = {name: np.concatenate([p.columns[name] for p in parts]) for name in self.scores}
        more = {k: np.concatenate([getattr(p, k) for p in parts]) for k in self.found}
        known = [np.ones(p.n, dtype=bool) if p.labelled is None else p.labelled for p in parts]
        labelled = (
            None
            if "correct" not in self.found or all(k.all() for k in known)
            else np.concatenate(known)
        )
        given = {**dict.fromkeys(NAMES), **more}
        notes = [*self.notes, *_missing_scores(columns)]
        return ScoreTable(
            columns,
            **given,
            source=self.path.name,
            n=sum(p.n for p in parts),
            notes=tuple(notes),
            labelled=labelled,
        )

    def _table(self, piece: pa.Table, start: int, kinds: dict[str, int]) -> ScoreTable:
        """A piece; `kinds` are those up to here, with the first row of each: what they mean together is no matter of a piece."""
        where = Where(self.path.name, start, self.opened.line_of)
        columns = {name: score_cells.scores(piece[c], c, where) for name, c in self.scores.items()}
        given: dict[str, Any] = dict.fromkeys(NAMES)
        labelled = None
        for role, column in self.found.items():
            cells = self.opened.with_points(piece[column])
            if role == "correct":
                given[role], known = score_cells.outcomes(cells, column, where)
                labelled = None if known.all() else known
            elif role == "time":
                given[role] = score_cells.seconds(cells, column, where, part=self.part)
            elif role == "id":
                given[role] = score_cells.ids(cells)
            else:
                given[role] = score_cells.words(cells)
        if given["kind"] is not None:
            given["kind"] = _with_clean(given["kind"], self.clean, kinds, where)
        return ScoreTable(columns, **given, source=self.path.name, n=len(piece), labelled=labelled)


def open_scores(
    path: Path | str,
    *,
    kind: str | None = None,
    correct: str | None = None,
    clean: str | Sequence[str] | None = None,
    group: str | None = None,
    time: str | None = None,
    id: str | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    skips: Sequence[str] = (),
) -> ScoreFile:
    """Open a table and find its columns; what it `needs` must be there, what it `skips` is neither looked for nor read.

    `columns` names the scores to read; a mapping says under which column each is found, and an empty list means none. The
    `group` "none" stands for no groups, unless a column is called so.
    """
    opened = open_table(Path(path))
    given = {"kind": kind, "correct": correct, "group": group, "time": time, "id": id}
    given = {role: None if column is None else column.strip() for role, column in given.items()}
    if given["group"] == NO_GROUPS and NO_GROUPS not in opened.header:
        given["group"], skips = None, (*skips, "group")
    found, notes = _found(opened, given, needs, skips)
    taken = {
        c
        for role in NAMES
        for c in (found.get(role) or named(opened.header, role),)
        if c is not None
    }
    if columns is not None and not isinstance(columns, Mapping):
        refuse_other_roles(opened.path.name, columns, found)
    scores, more = _scores_of(opened, columns, taken)
    part = score_cells.part_of_a_second(opened.first[found["time"]]) if "time" in found else None
    if part is not None:
        notes.append(f"{found['time']} looks like {part.name} since 1970, and is read so")
    if "time" in found and score_cells.without_zone(opened.first[found["time"]]):
        notes.append(f"{found['time']} has dates without a time zone, which are read as UTC")
    cleans = () if clean is None else (clean,) if isinstance(clean, str) else tuple(clean)
    notes = [*opened.notes, *notes, *more]
    return ScoreFile(opened.path, opened.header, found, scores, tuple(notes), opened, cleans, part)


def _found(
    opened: Opened, given: Mapping[str, str | None], needs: Sequence[str], skips: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """What is in a column -> the column, and which of them were taken by another name."""
    found: dict[str, str] = {}
    taken = []
    for role, asked in given.items():
        chosen = asked if asked is not None else named(opened.header, role)
        if asked is not None and asked not in opened.header:
            raise absent(opened.path.name, opened.header, asked, f"--{role} COLUMN")
        if chosen is None and role in needs:
            raise lacking(opened.path.name, opened.header, role, given)
        if chosen is not None and (role not in skips or asked is not None):
            found[role] = chosen
            if asked is None and chosen.lower() not in NAMES[role]:
                taken.append(f"{chosen} for {role}")
    return found, [f"columns are taken by their names: {', '.join(taken)}"] if taken else []


def read_scores(
    path: Path | str,
    *,
    kind: str | None = None,
    correct: str | None = None,
    clean: str | Sequence[str] | None = None,
    group: str | None = None,
    time: str | None = None,
    id: str | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    skips: Sequence[str] = (),
) -> ScoreTable:
    """A whole table; see `open_scores`. Rows of training data, and those without a needed outcome, are left out and noted."""
    file = open_scores(
        path,
        kind=kind,
        correct=correct,
        clean=clean,
        group=group,
        time=time,
        id=id,
        columns=columns,
        needs=needs,
        skips=skips,
    )
    table = file.whole()
    if columns is None:
        table = _without_row_numbers(table)
    if "correct" in needs and table.labelled is not None:
        gone = int((~table.labelled).sum())
        if gone == table.n:
            where = "its only row" if gone == 1 else f"all {gone:,} rows"
            raise ColumnError(
                f"{table.source}: {file.found['correct']} is empty in {where}; whether the answers were right must be known, "
                "as 1 or 0, before anything can be learned from them or held against them",
                "choose another column with --correct COLUMN",
                "fill it for the rows of which it is known",
            )
        table = replace(table.take(table.labelled), labelled=None)
        said = (
            "1 row without an outcome is left out"
            if gone == 1
            else f"{gone:,} rows without an outcome are left out"
        )
        table = replace(table, notes=(*table.notes, said))
    if table.kind is not None:
        table = checked_kinds(table, clean)
    if "kind" in needs and table.group is not None:
        _refuse_one_group(table, file.found["group"])
    if columns is None:
        shifted = None if table.kind is None else table.kind != CLEAN
        table = replace(table, notes=(*table.notes, *doubts(table.columns, shifted)))
    if "correct" in needs and table.correct is not None:
        table = replace(table, notes=(*table.notes, *outcome_doubts(table.columns, table.correct)))
    return table


def checked_kinds(table: ScoreTable, clean: str | Sequence[str] | None = None) -> ScoreTable:
    """Without rows of training data; with rows that are clean."""
    assert table.kind is not None
    kinds, at, counts = np.unique(table.kind, return_inverse=True, return_counts=True)
    training = [k for k in kinds.tolist() if k.lower() in TRAINING_NAMES]
    notes = [
        f"{n:,} rows of kind {k!r} are left out: the model has seen them, and is better on them than on any other"
        for k, n in zip(kinds.tolist(), counts.tolist(), strict=True)
        if k in training
    ]
    rest = [k for k in kinds.tolist() if k not in training]
    if CLEAN not in rest:
        names = [] if clean is None else [repr(clean)] if isinstance(clean, str) else clean
        asked = f" called {' or '.join(names)}" if names else ""
        raise ColumnError(
            f"{table.source} has no clean rows{asked}; its kinds are: {', '.join(map(repr, rest))}",
            "say which of them is data without shift with --clean NAME",
            f"call those without shift {CLEAN!r}",
        )
    sounding = [
        k for k in rest if clean is None and "".join(filter(str.isalpha, k)).lower() in SOUND_CLEAN
    ]
    notes += [
        f"kind {k!r} counts as a shift, since other rows are called clean; if it is none, name every kind without shift with "
        "--clean"
        for k in sounding
    ]
    if training:
        table = table.take(~np.isin(at, np.flatnonzero(np.isin(kinds, training))))
    return replace(table, notes=(*table.notes, *notes))


def _refuse_one_group(table: ScoreTable, column: str) -> None:
    """Refuse a column that says nothing: all rows of one group are as one, and nothing could be learned from them."""
    assert table.group is not None
    if len(np.unique(table.group)) > 1 or table.n < ENOUGH:
        return
    group = str(table.group[0])
    raise ColumnError(
        f"{table.source}: all {table.n:,} rows are of one group (column {column!r} is {repr(group) if group else 'empty'} in all "
        "of them), and rows of one group count as one",
        f"name another column with --group COLUMN, or say with --group {NO_GROUPS} that rows are independent of each other",
        "give the column another name if rows are independent of each other, or write in it what belongs together",
    )


def _without_row_numbers(table: ScoreTable) -> ScoreTable:
    """Without columns that count the rows, or name them: numbers of rows that stand together would tell kinds apart, or nothing."""
    counting = [
        name for name, c in table.columns.items() if table.n >= ENOUGH and (np.diff(c) == 1.0).all()
    ]
    ids = [
        name
        for name, c in table.columns.items()
        if name not in counting and is_id(name, c, table.kind)
    ]
    if not counting and not ids:
        return table
    kept = {name: column for name, column in table.columns.items() if name not in (*counting, *ids)}
    if not kept:
        raise ColumnError(
            f"{table.source}: what numbers the rows is no score, and there is nothing else: {', '.join((*counting, *ids))}",
            "add a column of scores, or choose with --score COLUMN",
            "add a column of scores",
        )
    notes = [f"column {name!r} counts the rows and is not taken for a score" for name in counting]
    notes += [
        f"column {name!r} has the name and the whole numbers of an id, and is not taken for a score; name it with --score "
        f"{name!r} if it is one"
        for name in ids
    ]
    return replace(table, columns=kept, notes=(*table.notes, *notes))


def _with_clean(
    kinds: np.ndarray, clean: tuple[str, ...], seen: dict[str, int], where: Where
) -> np.ndarray:
    """The kinds with one name for those without shift; `seen` are all names in the file up to here, these among them."""
    found, first, at = np.unique(kinds, return_index=True, return_inverse=True)
    names = [str(k) for k in found]
    seen |= {
        k: where.start + row for k, row in zip(names, first.tolist(), strict=True) if k not in seen
    }
    file, nameless = where._replace(start=0), [row for k, row in seen.items() if not k.strip()]
    if not clean and nameless and any(k.strip() and _is_clean(k, clean) for k in seen):
        raise ColumnError(
            f"{file.row(min(nameless))}: there is no kind, while other rows are called clean: write the kind of every row",
            "or say with --clean NAME which kinds are without shift; an empty one is ''",
            f"{CLEAN!r} where there is no shift",
        )
    if clean and CLEAN in seen and CLEAN not in clean:
        raise DataError(
            f"{file.row(seen[CLEAN])}: the kind {CLEAN!r} is there beside {', '.join(map(repr, clean))}; give --clean for both if "
            "both are without shift, else rename one"
        )
    return np.array([CLEAN if _is_clean(k, clean) else k for k in names], dtype=str)[at]


def _is_clean(kind: str, clean: tuple[str, ...]) -> bool:
    return kind in clean if clean else kind.strip().lower() in CLEAN_NAMES


def _scores_of(
    opened: Opened, columns: Sequence[str] | Mapping[str, str] | None, taken: set[str]
) -> tuple[dict[str, str], list[str]]:
    """Which columns are scores, and what to remark about the others."""
    if columns is not None:
        given = columns if isinstance(columns, Mapping) else {c.strip(): c for c in columns}
        asked = {name: column.strip() for name, column in given.items()}
        refuse_shared(opened.path.name, asked)
        for name, column in asked.items():
            if column not in opened.header:
                option = (
                    f"--score {name}=COLUMN" if isinstance(columns, Mapping) else "--score COLUMN"
                )
                free = [h for h in opened.header if h not in {*taken, *asked.values()}]
                raise absent(opened.path.name, opened.header, column, option, free=free)
            silent = isinstance(columns, Mapping) and opened.empty(
                column
            )  # a stream may begin without a score
            if opened.numeric(column) is not True and not silent:
                raise DataError(opened.why_no_score(column))
        return asked, []
    scores, notes = {}, []
    for column in opened.header:
        if column in taken:
            continue
        if opened.numeric(column) is None:
            raise DataError(opened.why_no_score(column))
        if not opened.numeric(column):
            notes.append(f"column {column!r} is no score: {opened.content(column)}")
        elif is_no_score(column):
            notes.append(
                f"column {column!r} is not taken for a score; name it with --score {column!r} if it is one"
            )
        else:
            scores[column] = column
    if not scores:
        others = [c for c in opened.header if c not in taken and not opened.numeric(c)]
        why = f" ({opened.why_no_score(others[0])})" if others else ""
        raise ColumnError(
            f"{opened.path.name} has no column of scores; every numeric column beside {', '.join(NAMES)} is one{why}. It has: "
            f"{', '.join(opened.header)}",
            "choose with --score COLUMN",
            "add a column of numbers",
        )
    return scores, notes


def _missing_scores(columns: Mapping[str, np.ndarray]) -> list[str]:
    found = [(name, int(np.isnan(c).sum()), len(c)) for name, c in columns.items()]
    return [f"score {name} is missing in {gone:,} of {n:,} rows" for name, gone, n in found if gone]
