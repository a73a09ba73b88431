"""The sentences of a report: the verdict in one word and its reason in one sentence.

>>> plural(1, "claim"), plural(1200, "case")
('1 claim', '1,200 cases')
"""

from __future__ import annotations

from typing import NamedTuple

from . import numbers
from .run_parts import Claim
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


def settle(cases: int | None) -> str:
    """What it would take to decide an inconclusive claim.

    >>> settle(14200), settle(None)
    ('needs about 14,200 cases in all', 'more cases would not settle it')
    """
    return "more cases would not settle it" if cases is None else f"needs about {plural(cases, 'case')} in all"


def intervals_at(view: RunView) -> str:
    """At which confidence the measure's intervals stand, as a sentence with a blank before it."""
    found = {f.interval.confidence for f in view.findings if f.quantity == view.measure and f.interval}
    return f" Intervals at {' and '.join(numbers.confidence(c) for c in sorted(found))}." if found else ""


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
        return f"{len(breached)} of {plural(len(claims), 'claim')} {verb} breached: {_named(breached)}{rest}."
    if open_:
        most = max((c.cases_to_settle or 0 for c in open_), default=0)
        more = f"; about {plural(most, 'case')} would settle the hardest one" if most else ""
        return (
            f"No claim is breached, but {len(open_)} of {plural(len(claims), 'claim')} cannot be decided "
            f"with these cases: {_named(open_)}{more}."
        )
    if claims:
        kept = "The only claim holds" if len(claims) == 1 else f"All {len(claims)} claims hold"
        return f"{kept} at the stated confidence."
    return "The assessment makes no claims: the numbers below describe, they do not judge."


def _named(claims: list[Claim]) -> str:
    """Up to three by id and text, the rest by number."""
    named = ", ".join(f"{c.id} ({c.text})" if c.text else c.id for c in claims[:3])
    return named + (f" and {len(claims) - 3} more" if len(claims) > 3 else "")
