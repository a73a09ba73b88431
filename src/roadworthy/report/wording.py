"""The sentences of a report: the verdict in one word and its reason in one sentence, and what an open claim would need.

>>> plural(1, "claim"), plural(1200, "case")
('1 claim', '1,200 cases')
"""

from __future__ import annotations

from typing import NamedTuple

from . import numbers
from .run_parts import Claim, Member
from .run_view import RunView

MARKS = {"met": "✓", "breached": "✗", "inconclusive": "?", "no claims": "–"}
"""A status is never told by colour alone."""


class Verdict(NamedTuple):
    """The head of a report."""

    status: str
    mark: str
    word: str
    reason: str


def verdict(view: RunView) -> Verdict:
    """The verdict of a run with its reason."""
    status = view.verdict
    word = {"no claims": "No claims made"}.get(status, status.capitalize())
    return Verdict(status, MARKS.get(status, "–"), word, _reason(view))


def settle(view: RunView, claim: Claim, judged: Member | None = None) -> str:
    """What it would take to decide an inconclusive claim, or one place of it."""
    found = judged or claim
    place = where(found.about, view.slice_of(claim))
    if found.cases_to_settle is not None:
        return f"needs about {plural(found.cases_to_settle, 'case')}{place}"
    if found.interval is not None:
        return "too close to the limit to say how many cases would settle it"
    if found.n is not None and found.n < view.smallest_slice and " of " in place:
        which = "" if judged else place.removeprefix(" of")
        return f"{found.n:,} of {view.smallest_slice:,} cases needed to judge{which}"
    return (judged.why if judged else "") or "cannot be judged on these cases"


def where(about: str, slice: str = "") -> str:
    """Which cases are meant, with a blank before it; empty for the clean data as a whole.

    >>> where("label=Shirt"), where("fog@2 | label=Shirt | vs clean"), where("clean | knn"), where("clean", "sex=f")
    (' of label=Shirt', ' of label=Shirt under fog@2', '', ' of sex=f')
    """
    first, *rest = about.split(" | ")
    cut = next((part for part in (first, *rest) if "=" in part), slice)
    under = "" if first in ("", "clean") or "=" in first else f" under {first}"
    return (f" of {cut}" if cut else "") + under


def bound_note(claim: Claim, judged: Claim | Member) -> str:
    """Which bound it is: its side, its confidence, and over how many places a breach was corrected."""
    sure = f" at {numbers.confidence(claim.confidence)}" if claim.confidence is not None else ""
    places = len(claim.members)
    corrected = f", over {places} places" if judged.status == "breached" and places > 1 else ""
    return f"{claim.bound_side(judged.status)} bound{sure}{corrected}"


def intervals_at(view: RunView) -> str:
    """At which confidence the measure's intervals stand, as a sentence with a blank before it."""
    found = {
        f.interval.confidence for f in view.findings if f.quantity == view.measure and f.interval
    }
    return (
        f" Intervals at {' and '.join(numbers.confidence(c) for c in sorted(found))}."
        if found
        else ""
    )


def plural(n: int, noun: str) -> str:
    """A count with its noun."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _reason(view: RunView) -> str:
    claims = view.claims
    breached = [c for c in claims if c.status == "breached"]
    open_ = [c for c in claims if c.status == "inconclusive"]
    if breached:
        verb = "is" if len(breached) == 1 else "are"
        rest = f"; {len(open_)} more cannot be decided" if open_ else ""
        return f"{_share(breached, claims)} {verb} breached: {_named(breached)}{rest}."
    if open_:
        none = "" if len(claims) == 1 else "No claim is breached, but "
        hardest = max(open_, key=lambda c: c.cases_to_settle or 0)
        more = f"; {settle(view, hardest)}" if len(open_) == 1 else ""
        if hardest.cases_to_settle:
            needed = settle(view, hardest).removeprefix("needs ")
            more = f"; {needed} would settle {'it' if len(open_) == 1 else 'the hardest one'}"
        return f"{none}{_share(open_, claims)} cannot be decided with these cases: {_named(open_)}{more}."
    if claims:
        kept = "The only claim holds" if len(claims) == 1 else f"All {len(claims)} claims hold"
        return f"{kept} at the stated confidence."
    return "The assessment makes no claims: the numbers below describe, they do not judge."


def _share(some: list[Claim], claims: tuple[Claim, ...]) -> str:
    if len(claims) == 1:
        return "The only claim"
    return (
        f"All {len(claims)} claims"
        if len(some) == len(claims)
        else f"{len(some)} of {len(claims)} claims"
    )


def _named(claims: list[Claim]) -> str:
    """Up to three by id and text, the rest by number."""
    named = ", ".join(f"{c.id} ({c.text})" if c.text else c.id for c in claims[:3])
    return named + (f" and {len(claims) - 3} more" if len(claims) > 3 else "")
