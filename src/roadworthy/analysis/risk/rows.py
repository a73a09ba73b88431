"""The rows of a calibration table, checked: what is missing, infinite or too little is refused or noted before anything is learned.

>>> rows = checked_rows({"energy": [0.1, 0.2, np.nan]}, ["clean", "fog", "fog"], [True, False, True])
>>> rows.kinds, rows.kind.tolist(), rows.notes[0]
(('clean', 'fog'), [0, 1], '1 of 3 rows have no score at all and are left out')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLEAN = "clean"
FEW = 30
"""Rows of a kind below which its accuracy is hardly known."""
_SEPARATORS = re.compile(r"[\s_]+|-(?!\d)")


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
    notes.extend(_alike(kinds))
    kept = {name: column[scored] for name, column in table.items()}
    return Rows(kept, code, kinds, right[scored], units[scored], tuple(notes))


def _alike(kinds: tuple[str, ...]) -> list[str]:
    """A note for kinds that may be one, written in two ways.

    A hyphen before a number may be its sign.

    >>> _alike(("clean", "Fog", "fog ", "rain", "gain -1", "gain 1"))
    ["kinds 'Fog' and 'fog ' differ only in case, spaces, hyphens or underscores: if they are one, write them alike"]
    """
    forms: dict[str, list[str]] = {}
    for kind in kinds:
        forms.setdefault(_SEPARATORS.sub("", kind).casefold(), []).append(kind)
    return [
        f"kinds {' and '.join(map(repr, same))} differ only in case, spaces, hyphens or underscores: if they are one, write them "
        "alike"
        for same in forms.values()
        if len(same) > 1
    ]


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
