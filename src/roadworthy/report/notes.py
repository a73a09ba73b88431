"""The notes of a run, made short: notes of one pattern become one line with a count and the first few.

>>> many = [f"slice age={a} has {a} cases, too few to be judged (30)" for a in (17, 18, 19, 20, 21)]
>>> brief(many)
['5 slices of age have too few cases to be judged (fewer than 30): 17 (n = 17), 18 (n = 18), 19 (n = 19) and 2 more']
>>> brief(["file a.png cannot be read", "file b1.png cannot be read", "file b2.png cannot be read"])[1]
'file b1.png cannot be read (and 1 more like it)'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST = 4
"""Lines of notes in sight, so that the claims stay on the first screen."""
FIRST = 3
LONGEST = 240

_SMALL_SLICE = re.compile(
    r"slice (?P<column>[^=]+)=(?P<content>.*) has (?P<n>\d+) cases?, too few to be judged \((?P<smallest>\d+)\)",
    re.S,
)
_NUMBER = re.compile(r"\d+(\.\d+)?")


def brief(notes: Iterable[str]) -> list[str]:
    """One line for each pattern, in the order of first appearance."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(_pattern(note), []).append(note)
    return [_line(group) for group in groups.values()]


def folded(notes: Iterable[str]) -> list[str]:
    """All notes, whole, those that differ in nothing but numbers as one; slices stay apart, for each is a name of its own.

    >>> folded([f"class {c}: the covariance is singular" for c in range(3)] + ["slice a=1 has 2 cases"])
    ['class 0: the covariance is singular (and 2 more like it)', 'slice a=1 has 2 cases']
    """
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(note if note.startswith("slice ") else _NUMBER.sub("#", note), []).append(
            note
        )
    return [
        g[0] + (f" (and {len(g) - 1:,} more like it)" if len(g) > 1 else "")
        for g in groups.values()
    ]


def _pattern(note: str) -> str:
    """What notes of one kind share: the column of a slice that is too small, else the words without the numbers."""
    small = _SMALL_SLICE.fullmatch(note)
    return f"slice {small['column']}" if small else _NUMBER.sub("#", note)


def _line(group: Sequence[str]) -> str:
    if len(group) == 1:
        return _cut(group[0])
    small = [found for found in map(_SMALL_SLICE.fullmatch, group) if found]
    if len(small) < len(group):
        return f"{_cut(group[0])} (and {len(group) - 1:,} more like it)"
    first = ", ".join(f"{_cut(s['content'], 40)} (n = {s['n']})" for s in small[:FIRST])
    rest = f" and {len(small) - FIRST:,} more" if len(small) > FIRST else ""
    head = f"{len(small):,} slices of {small[0]['column']} have too few cases to be judged"
    return f"{head} (fewer than {small[0]['smallest']}): {first}{rest}"


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
