"""Which rows play which role, and that none plays two: what chose must not judge.

A group never spans two roles, nor does a sample of one source. A copy under another name is found by its content: every input has a
hash, and inputs that stand in two roles are counted. Real data have a few (pictures that were collected twice), which stand on the
run as a note; a table of few features has many, by chance. What is more than that is refused. A picture that was saved again in
another format is not found.

>>> import numpy as np
>>> from roadworthy.data.values import VECTOR
>>> test, copied = (Dataset("d", VECTOR, np.arange(6.0).reshape(3, 2), source=s) for s in ("test.npz", "copy.npz"))
>>> check_roles({"calibration": copied, "test": test})
Traceback (most recent call last):
roadworthy.data.samples.DataError: 3 of 3 rows of calibration have the same input as a row of test, such as '0' and '0': what was
chosen or learned on the one would be judged on the other. Give each role rows of its own
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roadworthy.data.samples import DataError, Dataset

FEW = 0.01
"""Rows of one role that may stand in another, as a share. Fashion-MNIST has none in common between its 60,000 and its 10,000."""


@dataclass(frozen=True)
class Overlap:
    """Inputs of one role that stand in another as well."""

    role: str
    other: str
    count: int
    of: int
    """Rows of `role`, the smaller of the two."""
    example: tuple[str, str]
    by_chance: float
    """The share of the larger role's rows that have a twin within that role."""
    copied: bool
    """Whether the two roles hold the same inputs altogether."""

    @property
    def refused(self) -> bool:
        """More than an accident: over 1%, and over twice what such data repeat by themselves; one row is never."""
        return self.copied or (self.count > 1 and self.count / self.of > FEW + 2 * self.by_chance)

    def __str__(self) -> str:
        one, other = self.example
        rows = f"{self.count} of {self.of} rows of {self.role}"
        return f"{rows} have the same input as a row of {self.other}, such as {one!r} and {other!r}"


def check_roles(roles: Mapping[str, Dataset]) -> list[str]:
    """Refuse a group or a sample that stands in two roles, and inputs that do; notes on the few that may."""
    notes = []
    for (one, a), (other, b) in itertools.combinations(roles.items(), 2):
        _refuse_names(one, a, other, b)
        found = overlap(one, a, other, b)
        if found is not None and found.refused:
            raise DataError(
                f"{found}: what was chosen or learned on the one would be judged on the other. Give each role rows of its own"
            )
        if found is not None:
            notes.append(
                f"{found}; so few change little, but better leave them out of one of the two"
            )
    return notes


def overlap(one: str, a: Dataset, other: str, b: Dataset) -> Overlap | None:
    """The inputs that two roles share; None where there are none, or where they cannot be compared."""
    if len(a) > len(b):
        one, a, other, b = other, b, one, a
    if a.contents is None or b.contents is None:
        return None
    place = {c: row for row, c in reversed(list(enumerate(b.contents))) if c is not None}
    shared = [(row, place[c]) for row, c in enumerate(a.contents) if c is not None and c in place]
    if not shared:
        return None
    times = Counter(c for c in b.contents if c is not None)
    first, twin = shared[0]
    return Overlap(
        one,
        other,
        len(shared),
        len(a),
        (str(a.ids[first]), str(b.ids[twin])),
        sum(n for n in times.values() if n > 1) / len(b),
        copied=len(times) > 1 and times == Counter(a.contents),
    )


def _refuse_names(one: str, a: Dataset, other: str, b: Dataset) -> None:
    grouped = a.groups is not None and b.groups is not None
    if not grouped and a.source != b.source:
        return
    first, second = (np.asarray(d.groups if grouped else d.ids, dtype=str) for d in (a, b))
    shared = np.intersect1d(first, second)
    if shared.size:
        what, remedy = (
            ("group", "Split the data by group")
            if grouped
            else ("sample", "Give each role its own")
        )
        raise DataError(
            f"{what} {str(shared[0])!r} is in two roles, {one} and {other} ({shared.size} such): its cases are not "
            f"independent, so what was chosen on the one would be judged on the other. {remedy}"
        )
