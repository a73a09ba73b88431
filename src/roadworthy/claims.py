"""Claims and evidence -> met, breached or inconclusive.

A claim says what must hold, with an id that a hazard log can point to. It is judged on one-sided bounds at its own
confidence: *met* when even the pessimistic bound keeps the limit, *breached* when even the optimistic one does not, else
*inconclusive*, with the number of cases that would settle it.

A claim over many places (``every: slices``) is met when each place is met at the claim's confidence (an intersection-union
test, which needs no correction), and breached when some place is breached after Holm's correction over the places, since
the worst of many looks bad by chance alone. The interval shown runs from the bound that would meet the claim to the one that
would breach it, so the bound that decided is one of its ends.

>>> import numpy as np
>>> from roadworthy.finding import About
>>> from roadworthy.statistics import clustered_proportion
>>> right = np.r_[np.ones(480), np.zeros(20)]
>>> evidence = Evidence("accuracy", About(), 0.96, 500, "higher", lambda c, s: clustered_proportion(right, confidence=c, sided=s))
>>> judge(Claim("R-1", "accuracy", limit=0.9, direction="min"), [evidence]).status
'met'
>>> judge(Claim("R-2", "accuracy", limit=0.97, direction="min"), [evidence]).status
'inconclusive'
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roadworthy import numbers
from roadworthy.finding import Evidence, Sided
from roadworthy.statistics import Interval, cases_to_settle, cases_to_settle_mean, simultaneous

Status = Literal["met", "breached", "inconclusive"]


@dataclass(frozen=True)
class Quantity:
    """Something that claims may name; each section of the assessment file declares its own.

    >>> Quantity("miss_rate", "Share of failures without an alarm.", high=1.0, one_way=True).side
    'max'
    """

    name: str
    meaning: str
    """One or two sentences for the readers of a report."""
    better: Literal["higher", "lower"] = "lower"
    low: float = -math.inf
    high: float = math.inf
    style: Literal["percent", "decimal", "plain", "difference"] = "percent"
    """How values are written: as percentages, with three decimals, in their own unit, or as a difference of the measure."""
    unit: str = ""
    """Key of the file under which the unit stands, such as "risk"; empty for none."""
    places: tuple[str, ...] = ("circumstance", "slice")
    """Which of circumstance, slice, supervisor, class and threshold a claim on it may name."""
    needs: tuple[str, ...] = ()
    """Which of these it must name."""
    of: str = ""
    """What kind of outputs has it, such as "class_scores"; empty for any."""
    one_way: bool = False
    """Whether a limit from the other side would only call good what is bad."""
    is_measure: bool = False
    """Whether it is the measure of that name, for files that name another."""

    @property
    def side(self) -> Literal["min", "max"]:
        """The side from which a claim usually limits it."""
        return "min" if self.better == "higher" else "max"


@dataclass(frozen=True)
class Claim:
    """What must hold."""

    id: str
    quantity: str
    limit: float
    direction: Literal["min", "max"]
    confidence: float = 0.95
    text: str = ""
    """What is claimed, in words."""
    style: numbers.Style = "plain"
    """How values of its quantity are written."""
    unit: str = "group"
    """What a group of cases is called: patient."""


@dataclass(frozen=True)
class Member:
    """One place of a claim, judged."""

    about: str
    value: float
    interval: Interval | None
    status: Status
    n: int
    cases_to_settle: int | None = None
    """In all, those there are included."""
    why: str = ""
    bound: float = math.nan
    """The one-sided bound that decided: pessimistic for what is met, optimistic for what is breached."""
    groups: int | None = None
    groups_to_settle: int | None = None
    """The same in groups of the size seen; None if cases are independent."""


@dataclass(frozen=True)
class Judgement:
    """A claim's verdict, with the place that decided it first."""

    claim: Claim
    status: Status
    members: tuple[Member, ...]
    why: str
    corrected: str = ""
    deciding: Member | None = None


def judge(claim: Claim, evidence: Sequence[Evidence]) -> Judgement:
    """Judge a claim on the evidence for each of its places."""
    if not evidence:
        why = "no place matches the claim"
        return Judgement(claim, "inconclusive", (), why)
    breached = _breached(claim, evidence)
    judged = max(1, sum(not _undefined(e) for e in evidence))
    # What Holm's last step asked of the places that it did not call breached.
    rest = simultaneous(claim.confidence, max(1, judged - len(breached)))
    members = tuple(
        _member(claim, e, breached.get(i), rest, judged) for i, e in enumerate(evidence)
    )
    status: Status = (
        "breached"
        if breached
        else "met"
        if all(m.status == "met" for m in members)
        else "inconclusive"
    )
    deciding = _deciding(claim, members, status)
    corrected = ""
    if len(evidence) > 1:
        corrected = (
            f"over {len(evidence)} places: met needs every one (intersection-union), a breach is "
            "corrected by Holm"
        )
    return Judgement(
        claim, status, members, _why(claim, status, deciding, len(members)), corrected, deciding
    )


def overall(judgements: Sequence[Judgement]) -> str:
    """The assessment's verdict: breached beats inconclusive beats met."""
    statuses = {j.status for j in judgements}
    for status in ("breached", "inconclusive", "met"):
        if status in statuses:
            return status
    return "no claims"


def _breached(claim: Claim, evidence: Sequence[Evidence]) -> dict[int, float]:
    """Holm's step-down, by bounds: at each step the remaining places share what is left of the error rate.

    Returns the places that are breached, each with the confidence of the bound by which it was.
    """
    remaining = {i for i, e in enumerate(evidence) if not _undefined(e)}
    found: dict[int, float] = {}
    while remaining:
        confidence = simultaneous(claim.confidence, len(remaining))
        beyond = {
            i
            for i in remaining
            if _beyond(claim, _bound(claim, evidence[i], confidence, optimistic=True))
        }
        if not beyond:
            break
        found.update(dict.fromkeys(beyond, confidence))
        remaining -= beyond
    return found


def _undefined(e: Evidence) -> str:
    """Why nothing can be judged here, else empty."""
    return e.reason or ("the quantity is not defined on these cases" if math.isnan(e.value) else "")


def _bound(claim: Claim, e: Evidence, confidence: float, *, optimistic: bool) -> float:
    """The one-sided bound that is farther from the limit, or nearer to it."""
    if (claim.direction == "min") == optimistic:
        return e.interval(confidence, "upper").high
    return e.interval(confidence, "lower").low


def _beyond(claim: Claim, bound: float) -> bool:
    return bound < claim.limit if claim.direction == "min" else bound > claim.limit


def _member(claim: Claim, e: Evidence, breached: float | None, rest: float, places: int) -> Member:
    about = str(e.about)
    if _undefined(e):
        why = _undefined(e)
        return Member(about, e.value, None, "inconclusive", e.n, None, why, groups=e.groups)
    worst = _bound(claim, e, claim.confidence, optimistic=False)
    best = _bound(claim, e, rest if breached is None else breached, optimistic=True)
    status: Status = "breached" if breached is not None else "met"
    if status == "met" and _beyond(claim, worst):
        status = "inconclusive"
    method = f"one-sided bounds, {e.interval(claim.confidence, 'lower').method}"
    shown = Interval(min(worst, best), max(worst, best), claim.confidence, method)
    settle = _settle(claim, e, places) if status == "inconclusive" else None
    groups = math.ceil(settle * e.groups / e.n) if settle and e.groups else None
    bound = best if status == "breached" else worst
    return Member(about, e.value, shown, status, e.n, settle, "", bound, e.groups, groups)


def _settle(claim: Claim, e: Evidence, places: int) -> int | None:
    """Towards met at the claim's confidence; towards breached at the corrected one. None where no number of cases would."""
    if not e.by_cases:
        return None
    confidence = (
        simultaneous(claim.confidence, places) if _beyond(claim, e.value) else claim.confidence
    )
    if e.settled_by is not None:
        return e.settled_by(claim.limit, confidence)
    if e.proportion:
        return cases_to_settle(
            e.value,
            claim.limit,
            n=e.n,
            effective_n=e.effective_n,
            groups=e.groups,
            confidence=confidence,
            method="clopper_pearson",
        )
    below = e.value < claim.limit
    sided: Sided = "upper" if below else "lower"
    interval = e.interval(confidence, sided)
    half_width = abs((interval.high if below else interval.low) - e.value)
    if not math.isfinite(half_width):
        return None
    return cases_to_settle_mean(e.value, claim.limit, half_width, e.n, confidence=confidence)


def _deciding(claim: Claim, members: Sequence[Member], status: Status) -> Member:
    """The place nearest to, or farthest beyond, the limit among those that decided."""
    decided = [m for m in members if m.status == status] or list(members)
    sign = 1 if claim.direction == "min" else -1
    return min(decided, key=lambda m: (math.isnan(m.value), sign * m.value))


def _why(claim: Claim, status: Status, decided: Member, places: int) -> str:
    if decided.why:
        return f"{decided.about}: {decided.why}"
    at_least = claim.direction == "min"
    at = f" at {decided.about}" if places > 1 else ""
    near = ("lowest" if at_least else "highest") + f" of {places} places: " if at else ""
    value, limit = (
        numbers.value(decided.value, claim.style),
        numbers.limit(claim.limit, claim.style),
    )
    bound = numbers.bound(decided.bound, claim.limit, claim.style)
    end = "lower" if at_least != (status == "breached") else "upper"
    end += f" {numbers.confidence(claim.confidence)} bound"
    beyond = "below" if at_least else "above"
    negation = "not " if status == "met" else ""
    said = f"{near}{value}{at}; {end} {bound} is {negation}{beyond} the {limit} limit"
    if status != "inconclusive":
        return said
    if decided.cases_to_settle:
        return f"{said}: about {more_to_settle(decided, claim.unit)} would settle it"
    return f"{said}, and the number of cases that would settle it is unknown"


def group_noun(column: str) -> str:
    """What a group is called, by the column that names it.

    >>> group_noun("patient_id"), group_noun("PatientID"), group_noun("scene"), group_noun("")
    ('patient', 'patient', 'scene', 'group')
    """
    noun = re.sub(r"[_\W]+(id|ID|uid|name|number)$|(?<=[a-z])I[dD]$", "", column)
    return re.sub(r"[_\W]+", " ", noun).strip().lower() or "group"


def more_to_settle(judged: Any, unit: str) -> str:
    """What would settle a place of a claim, or its record: cases, or groups if these are what is independent.

    >>> of = {"groups": 60, "groups_to_settle": 85}
    >>> more_to_settle(Member("clean", 0.9, None, "inconclusive", 300, 425, **of), "patient")
    '25 more patients'
    """
    if judged.groups_to_settle is None:
        return numbers.plural(judged.cases_to_settle - judged.n, "more case")
    return numbers.plural(judged.groups_to_settle - judged.groups, f"more {unit}")
