"""What the columns of a table of scores are called, what a column is for, and which one was meant where none fits.

>>> named(["Condition", "is_correct", "energy"], "kind"), named(["energy"], "kind")
('Condition', None)
>>> suggested(["knd", "correct", "energy"], "kind", {}), suggested(["kind", "energy"], "correct", {})
('knd', None)
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from roadworthy.data.samples import DataError
from roadworthy.registry import did_you_mean

CLEAN = "clean"
"""The kind of rows without shift."""
NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("kind", "role", "shift", "fold"),
    "correct": ("correct",),
    "group": ("group",),
    "time": ("time",),
    "id": ("id",),
}
"""What is in a column -> the names it is looked for under, first come first served."""
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("condition", "corruption", "perturbation", "shift_kind", "shift_type", "domain"),
    "correct": ("is_correct", "right", "is_right", "answer_correct", "prediction_correct"),
    "group": ("group_id", "patient", "patient_id", "session", "session_id", "drive", "drive_id"),
    "time": ("timestamp", "datetime", "date_time", "event_time", "created_at", "ts", "date"),
    "id": ("event_id", "image_id", "sample_id", "case_id", "request_id", "uuid"),
}
"""The same, where it is said that the column was taken."""
SOUNDS_LIKE: dict[str, tuple[str, ...]] = {
    "kind": ("kind", "shift", "condition", "corrupt", "weather", "domain"),
    "correct": ("correct", "right", "success"),
    "group": ("group", "patient", "session", "drive"),
    "time": ("time", "date"),
    "id": ("_id", "id_", "uuid"),
}
"""Parts of a column's name by which it is suggested where something is missing."""
MEANING = {
    "kind": f"the kind of shift of each row ({CLEAN!r} where there is none)",
    "correct": "whether the answer was right",
    "group": "what belongs together",
    "time": "when it happened",
    "id": "the event's name",
}
NO_GROUPS = "none"
"""What is given in place of a column of groups where rows belong to nobody; a column of that name is one all the same."""
NEAR = 0.7
"""How much of two names must be the same before one is taken for the other, misspelt."""
LEAST_LETTERS = 3
"""Letters that two names must share at their beginning to be taken for one."""


class ColumnError(DataError):
    """Refused, where an option of the command would choose otherwise; `plain` says it to those whose command has no such option.

    >>> error = ColumnError("a.csv has no column 'kind'", "choose with --kind COLUMN", "rename the one that is it")
    >>> str(error), error.plain
    ("a.csv has no column 'kind' (choose with --kind COLUMN)", "a.csv has no column 'kind'; rename the one that is it")
    """

    def __init__(self, what: str, choice: str, instead: str) -> None:
        super().__init__(f"{what} ({choice})")
        self.plain = f"{what}; {instead}"


def plainly(error: DataError) -> str:
    """What an error says where no option chooses columns."""
    return error.plain if isinstance(error, ColumnError) else str(error)


def named(header: Sequence[str], role: str) -> str | None:
    """The column that has one of the names of what is wanted."""
    lower = {h.lower(): h for h in reversed(header)}
    return next((lower[n] for n in (*NAMES[role], *OTHER_NAMES[role]) if n in lower), None)


def suggested(header: Sequence[str], role: str, given: Mapping[str, str | None]) -> str | None:
    """A column whose name sounds like it, or is spelt much like it, and that is nothing else."""
    free = [
        h
        for h in header
        if h not in given.values() and not any(named([h], other) for other in NAMES)
    ]
    known = (*NAMES[role], *OTHER_NAMES[role])
    near = [h for h in free if any(part in h.lower() for part in SOUNDS_LIKE[role])]
    near += [h for h in free if difflib.get_close_matches(h.lower(), known, n=1, cutoff=NEAR)]
    return near[0] if near else None


def lacking(
    file: str, header: Sequence[str], role: str, given: Mapping[str, str | None]
) -> ColumnError:
    """The error where a table has no column for what is needed of it."""
    names, near = ", ".join((*NAMES[role], *OTHER_NAMES[role])[1:]), suggested(header, role, given)
    what = f"{file} has no column {role!r} (or {names}) for {MEANING[role]}; it has: {', '.join(header)}"
    chosen, renamed = (
        ("", "") if near is None else (f"; did you mean --{role} {near}?", f"; {near!r}, perhaps")
    )
    return ColumnError(
        what,
        f"add it, or choose one with --{role} COLUMN{chosen}",
        f"add it, or call the one that is it {role!r}{renamed}",
    )


def absent(
    file: str, header: Sequence[str], column: str, option: str, *, free: Sequence[str] | None = None
) -> ColumnError:
    """The error where a column is not there; one of the `free` ones may be meant."""
    meant = _meant(column, header if free is None else free)
    what = f"{file} has no column {column!r}{meant}; it has: {', '.join(header)}"
    return ColumnError(what, f"choose with {option}", f"call the one that is it {column!r}")


def refuse_other_roles(file: str, columns: Sequence[str], found: Mapping[str, str]) -> None:
    """Refuse a score that is something else: above all the outcome, which nobody knows in use."""
    roles = {column: role for role, column in found.items()}
    for column in map(str.strip, columns):
        if column in roles:
            role = roles[column]
            raise ColumnError(
                f"{file}: {column!r} is read as {role}, {MEANING[role]}, and cannot be a score as well",
                f"leave out --score {column}, or choose another column with --{role} COLUMN",
                "leave it out of the scores",
            )


def refuse_shared(file: str, asked: Mapping[str, str]) -> None:
    """Refuse a column that stands for several scores: they would always agree, which those that were calibrated did not."""
    for column in asked.values():
        same = [name for name, other in asked.items() if other == column]
        if len(same) > 1:
            raise ColumnError(
                f"{file}: the column {column!r} cannot stand for {len(same)} scores, {' and '.join(same)}: what it says would "
                "count more than once",
                "name a column for each with --score NAME=COLUMN; where a score is not there, calibrate without it",
                "name a column for each",
            )


def _meant(column: str, free: Sequence[str]) -> str:
    """The free column that it may be: one that begins like it, whole (conf, confidence), or else one that is spelt much like it."""
    word = column.lower()
    whole = [
        h for h in free if min(len(word), len(h)) >= LEAST_LETTERS and _begins(h.lower(), word)
    ]
    return f" (did you mean {whole[0]!r}?)" if len(whole) == 1 else did_you_mean(column, free)


def _begins(a: str, b: str) -> bool:
    return a.startswith(b) or b.startswith(a)
