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
roadworthy.data.samples.DataError: 3 of 3 rows of calibration have the same input as a row of test, such as '0' and '0';
give each role rows of its own
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import numpy as np

from roadworthy.data.samples import DataError, Dataset

FEW = 0.01
"""Rows of one role that may stand in another, as a share. Fashion-MNIST has none in common between its 60,000 and its 10,000."""


def check_roles(roles: Mapping[str, Dataset]) -> list[str]:
    """Refuse a group or a sample that stands in two roles, and inputs that do; notes on the few that may."""
    notes = []
    for (one, a), (other, b) in itertools.combinations(roles.items(), 2):
        _refuse_names(one, a, other, b)
        notes += _shared_inputs(one, a, other, b)
    return notes


def _shared_inputs(one: str, a: Dataset, other: str, b: Dataset) -> list[str]:
    """Refuse inputs that two roles share if they are more than an accident: over 1% of the smaller
    role, and over twice what the larger repeats by itself; one row is never. A note on fewer."""
    if len(a) > len(b):
        one, a, other, b = other, b, one, a
    if a.contents is None or b.contents is None:
        return []
    place = {c: row for row, c in reversed(list(enumerate(b.contents))) if c is not None}
    shared = [(row, place[c]) for row, c in enumerate(a.contents) if c is not None and c in place]
    if not shared:
        return []
    times = Counter(c for c in b.contents if c is not None)
    by_chance = sum(n for n in times.values() if n > 1) / len(b)
    copied = len(times) > 1 and times == Counter(a.contents)
    first, twin = shared[0]
    said = (
        f"{len(shared)} of {len(a)} rows of {one} have the same input as a row of {other}, such as "
        f"{str(a.ids[first])!r} and {str(b.ids[twin])!r}"
    )
    if copied or (len(shared) > 1 and len(shared) / len(a) > FEW + 2 * by_chance):
        raise DataError(f"{said}; give each role rows of its own")
    return [f"{said}; so few change little, but better leave them out of one of the two"]


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
