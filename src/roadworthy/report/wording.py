"""The sentences of a report: verdict and reason, what an open claim needs, and notes made short.

>>> many = [f"slice site={s} has {n} cases, too few to be judged (30)" for s, n in zip("abc", "123")]
>>> brief_notes(many)
['slice site=a has 1 cases, too few to be judged (30) (and 2 more like it)']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from roadworthy import numbers
from roadworthy.claims import group_noun, more_to_settle
from roadworthy.numbers import plural
from roadworthy.registry import RegistryError, get
from roadworthy.spec.limits import number_style, quantities
from roadworthy.store.record import ClaimRecord, Judged, Record

MARKS = {"met": "✓", "breached": "✗", "inconclusive": "?", "no claims": "–"}
"""Colour is never the only sign of a status."""
MOST_NOTES = 4
"""Notes in sight, so that the claims stay on the first screen."""
LONGEST = 240
_VARYING = re.compile(r"(?<==).*?(?= has |[,;|]|$)|\d+(\.\d+)?", re.S)
"""What differs in notes of one pattern: the value of a slice, and numbers."""


class Verdict(NamedTuple):
    """The head of a report."""

    status: str
    mark: str
    word: str
    reason: str


def verdict(run: Record) -> Verdict:
    """The verdict of a run with its reason."""
    word = {"no claims": "No claims made"}.get(run.verdict, run.verdict.capitalize())
    return Verdict(run.verdict, MARKS.get(run.verdict, "–"), word, _reason(run))


def style_of(run: Record, quantity: str) -> numbers.Style:
    """How a quantity's values are written: shares as percentages, their differences in points."""
    return number_style(quantity, run.measure.name, run.measure.shape)


def main_measure(run: Record) -> str:
    """The measure on the clean test data, with its interval and the cases it rests on."""
    found = run.find(run.measure.name)
    if found is None:
        return ""
    style = style_of(run, found.quantity)
    ends = (
        "no interval"
        if found.interval is None
        else (
            f"{numbers.interval(found.interval, style)} at {numbers.confidence(found.interval.confidence)}"
        )
    )
    cases = cases_of(found.n, found.groups, unit_of(run))
    return f"{found.quantity} {numbers.value(found.value, style)} ({ends}), {cases}"


def unit_of(run: Record) -> str:
    """What a group of the test data is called: patient."""
    return group_noun(run.data["test"].group if "test" in run.data else "")


def cases_of(n: int, groups: int | None, unit: str) -> str:
    """How many cases there are, and of how many groups.

    >>> cases_of(758, 60, "patient"), cases_of(1, None, "group")
    ('758 cases of 60 patients', '1 case')
    """
    return plural(n, "case") + (f" of {plural(groups, unit)}" if groups else "")


def glossary(run: Record) -> list[tuple[str, str]]:
    """Name and meaning of each quantity in findings and claims, the measure first."""
    occurring = {f.quantity for f in run.findings} | {c.quantity for c in run.claims}
    own = _measured(run.measure.name)
    entries = (
        [(run.measure.name, f"{own} {run.measure.better.capitalize()} is better.")] if own else []
    )
    known = {name: q for name, q in quantities().items() if name in occurring}
    known.pop(run.measure.name, None)
    return entries + [(name.replace("_", " "), q.meaning) for name, q in known.items()]


def _measured(name: str) -> str:
    """What a measure says of itself; empty for one that is not installed here."""
    try:
        return get("measures", name).summary
    except RegistryError:
        return ""


def settle(run: Record, claim: ClaimRecord, judged: Judged | None = None) -> str:
    """What it would take to decide an inconclusive claim, or one place of it."""
    found = judged or claim
    if found.status != "inconclusive":
        return ""
    place = where(found.about, _slice_of(run, claim))
    smallest = int(run.spec.get("smallest_slice") or 0)
    if found.cases_to_settle is not None:
        return f"needs about {more_to_settle(found, unit_of(run))}{place}"
    if found.interval is not None:
        return "too close to the limit to say how many cases would settle it"
    if found.n is not None and found.n < smallest and " of " in place:
        which = "" if judged else place.removeprefix(" of")
        return f"{found.n:,} of {smallest:,} cases needed to judge{which}"
    return (judged.why if judged else "") or "cannot be judged on these cases"


def _slice_of(run: Record, claim: ClaimRecord) -> str:
    """The slice that a claim was made for; empty for all data or for every slice."""
    made: dict[str, Any] = next(
        (c for c in run.spec.get("claims") or () if str(c.get("id")) == claim.id), {}
    )
    return ", ".join(f"{column}={value}" for column, value in (made.get("slice") or {}).items())


def where(about: str, slice: str = "") -> str:
    """Which cases are meant, with a blank before it; empty for the clean data as a whole.

    >>> where("label=Shirt"), where("fog@2 | label=Shirt | vs clean"), where("clean | knn"), where("clean", "sex=f")
    (' of label=Shirt', ' of label=Shirt under fog@2', '', ' of sex=f')
    """
    first, *rest = about.split(" | ")
    cut = next((part for part in (first, *rest) if "=" in part), slice)
    under = "" if first in ("", "clean") or "=" in first else f" under {first}"
    return (f" of {cut}" if cut else "") + under


def bound_note(claim: ClaimRecord, judged: Judged) -> list[str]:
    """Which bound it is: its side and confidence, and over how many places a breach was corrected."""
    side = f"{claim.bound_side(judged.status)} {numbers.confidence(claim.confidence)} bound"
    places = len(claim.members)
    return [
        side,
        *([f"over {places} places"] if judged.status == "breached" and places > 1 else []),
    ]


def intervals_at(run: Record) -> str:
    """At which confidence the measure's intervals stand, as a sentence."""
    found = {
        f.interval.confidence for f in run.findings if f.quantity == run.measure.name and f.interval
    }
    return (
        f"Intervals at {' and '.join(numbers.confidence(c) for c in sorted(found))}."
        if found
        else ""
    )


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them.

    >>> listed(["knn", "max_softmax", "vim"])
    'knn, max_softmax and vim'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def brief_notes(notes: Iterable[str]) -> list[str]:
    """One line for each pattern of notes, in the order of first appearance."""
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(_VARYING.sub("#", note), []).append(note)
    return [
        cut(first) + (f" (and {len(rest):,} more like it)" if rest else "")
        for first, *rest in groups.values()
    ]


def cut(text: str, longest: int = LONGEST) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _reason(run: Record) -> str:
    claims = run.claims
    breached = [c for c in claims if c.status == "breached"]
    open_ = [c for c in claims if c.status == "inconclusive"]
    if breached:
        verb = "is" if len(breached) == 1 else "are"
        rest = f"; {len(open_)} more cannot be decided" if open_ else ""
        return f"{_share(breached, claims)} {verb} breached: {_named(breached)}{rest}."
    if open_:
        none = "" if len(claims) == 1 else "No claim is breached, but "
        hardest = max(open_, key=lambda c: c.cases_to_settle or 0)
        more = f"; {settle(run, hardest)}" if len(open_) == 1 else ""
        if hardest.cases_to_settle:
            needed = settle(run, hardest).removeprefix("needs ")
            more = f"; {needed} would settle {'it' if len(open_) == 1 else 'the hardest one'}"
        return f"{none}{_share(open_, claims)} cannot be decided with these cases: {_named(open_)}{more}."
    if claims:
        kept = "The only claim holds" if len(claims) == 1 else f"All {len(claims)} claims hold"
        return f"{kept} at the stated confidence."
    return "The assessment makes no claims: its numbers describe, they do not judge."


def _share(some: Sequence[ClaimRecord], claims: Sequence[ClaimRecord]) -> str:
    if len(claims) == 1:
        return "The only claim"
    every = len(some) == len(claims)
    return f"All {len(claims)} claims" if every else f"{len(some)} of {len(claims)} claims"


def _named(claims: Sequence[ClaimRecord]) -> str:
    """Up to three by id and text, the rest by number."""
    named = ", ".join(f"{c.id} ({c.text})" if c.text else c.id for c in claims[:3])
    return named + (f" and {len(claims) - 3} more" if len(claims) > 3 else "")
