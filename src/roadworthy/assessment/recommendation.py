"""The set of supervisors that a run recommends: chosen on the calibration cases, and judged on the test cases.

At their own thresholds, the supervisor that raises most alarms would seem to catch most. So under rules that keep no rate (least
cost, best balanced accuracy) supervisors are compared at 5% false alarms on clean data; what the set misses is measured at the
real thresholds. How they are compared stands in `roadworthy.analysis.recommendation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from roadworthy import numbers
from roadworthy.analysis import verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.recommendation import (
    TOLERANCE,
    ComparedSupervisors,
    Covering,
    best_of,
    by_informedness,
    by_ranking,
    common_rate,
    cover,
    covered,
)
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.assessment.observations import Observations, filtered
from roadworthy.execution.plan import Plan
from roadworthy.finding import Finding
from roadworthy.report.blocks import Block, Text
from roadworthy.report.wording import listed
from roadworthy.store.record import Number, RecordPart, StoredInterval
from roadworthy.subject.needs import Gradient, Input, Layer, Passes, Request

OPTIMISTIC = "test (optimistic)"
CLASSES_OF_COST: tuple[tuple[type[Request], float], ...] = (
    (Gradient, 1000.0),
    (Passes, 1000.0),
    (Input, 100.0),
    (Layer, 10.0),
)
"""What a supervisor costs by what it reads: the answer (1) is there anyway, layers are read along the way, a model of the inputs
runs beside the subject, passes and gradients run the subject again. Declared and not timed, so that the same run recommends
the same set."""


class SetRate(RecordPart):
    """A share of cases."""

    value: Number = None
    interval: StoredInterval | None = None
    n: int = 0
    reason: str = ""


class WorstRate(SetRate):
    """The highest of several shares, with an interval corrected for the number of places."""

    place: str
    places: int


class Cover(RecordPart):
    """The best member of the set at a place, on the data that chose it."""

    by: str
    rate: Number = Field(
        default=None, description="Its informedness, or AUC where there are no thresholds"
    )
    best: Number = Field(default=None, description="That of the best single supervisor")
    catch_rate: Number = None
    false_alarm_rate: Number = None


class Recommendation(RecordPart):
    """A small set of supervisors; empty, with the reason, if none can be recommended."""

    supervisors: list[str] = Field(default_factory=list)
    why: str = ""
    quantity: Literal["informedness", "auc_failure"] = "informedness"
    chosen_on: str = "calibration"
    covers: dict[str, Cover] = Field(default_factory=dict, description="By circumstance")
    not_covered: dict[str, str] = Field(
        default_factory=dict, description="By circumstance: why not"
    )
    miss_rate: dict[str, SetRate] = Field(default_factory=dict, description="The set, by place")
    false_alarms: dict[str, SetRate] = Field(default_factory=dict, description="The set, by place")
    worst: WorstRate | None = Field(default=None, description="Where the set misses most")
    notes: list[str] = Field(default_factory=list)


def recommend(
    plan: Plan, observed: Observations, thresholds: Mapping[str, Threshold], rule: VerdictRule
) -> Recommendation | None:
    """The set with its reason, or no set and the reason; None if no supervisor scores."""
    at_work, clean = observed.supervisors, observed.clean
    members = {s.label: at_work.members_of(s) for s in plan.supervisions if s.reads_scores}
    # What combines one supervisor knows no more than that one.
    labels = [
        label
        for label in at_work.labels
        if label in clean.scores and len(members.get(label, ())) != 1
    ]
    if not labels:
        return None
    confidence = plan.spec.confidence
    if thresholds:
        seen = observed.calibrating
        conditions = [*seen, *(here for here, _ in filtered(plan, seen[0]))]
        compared = by_informedness(
            labels, conditions, thresholds, rule, left=observed.left, confidence=confidence
        )
        tried = {o.circumstance for o in conditions}
        never = {
            c.name: NEVER_TRIED["dataset" if c.own_data is not None else c.kind]
            for c in plan.circumstances
            if c.name not in tried and c.kind != "mixture"
        }
        record = Recommendation(not_covered=never)
    else:
        compared = by_ranking(labels, clean, observed.others, confidence)
        record = Recommendation(quantity="auc_failure", chosen_on=OPTIMISTIC)
    record.not_covered = {**compared.silent, **record.not_covered}
    record.why = _unknown(record.not_covered)
    if not covered(compared.rates):
        return record
    found = cover(compared.rates, tolerance=compared.slack, cost=_costs(plan), runs=members)
    record.supervisors = list(found.supervisors)
    record.why = _why(compared, found, rule, record.not_covered)
    record.covers = {p: _cover(compared, found, p) for p in found.by}
    if thresholds:
        _judge(record, observed, thresholds, confidence)
        record.notes = _exceeded(record, rule)
    return record


NEVER_TRIED = {
    "dataset": "it has data of its own, and no calibration case is made under it",
    "filter": "the calibration data lacks the columns of its filter; add them",
    "specified": "it is specified, and not run",
    **dict.fromkeys(("transform", "attack", "source"), "no calibration case was made under it"),
}
"""Why no calibration case is of a circumstance, by its kind."""


def _why(
    compared: ComparedSupervisors,
    found: Covering,
    rule: VerdictRule,
    not_covered: Mapping[str, str],
) -> str:
    """What the set is, by what it was compared, and where nothing is known."""
    who = "it" if len(found.supervisors) == 1 else "one of them"
    within, by, at = f"{TOLERANCE:g}", "AUC for failures", ""
    if compared.told:
        within = f"{100 * TOLERANCE:g} percentage points or one standard error"
        by = "informedness (detection rate - false-alarm rate)"
        at = f", at {100 * common_rate(rule):.3g}% false alarms on clean data"
    where = "on clean data and under every circumstance"
    if not_covered:
        places = covered(compared.rates)
        where = f"for {listed(['clean data' if p == 'clean' else p for p in places])}"
    return (
        f"The smallest set in which, {where}, {who} is within {within} of the best single supervisor, "
        f"ranked by {by}{at}; ties go to the cheapest. {_unknown(not_covered)}".strip()
    )


def _unknown(not_covered: Mapping[str, str]) -> str:
    """Where nothing is known, and why: ``Not covered: fog and snow (no failure).``"""
    by_reason: dict[str, list[str]] = {}
    for place, reason in not_covered.items():
        by_reason.setdefault(reason, []).append(place)
    said = "; ".join(f"{listed(places)} ({reason})" for reason, places in by_reason.items())
    return f"Not covered: {said}." if said else ""


def _cover(compared: ComparedSupervisors, found: Covering, place: str) -> Cover:
    by = found.by[place]
    told = compared.told.get((by, place))
    return Cover(
        by=by,
        rate=found.rates[place],
        best=best_of(compared.rates, place),
        catch_rate=told.caught if told else None,
        false_alarm_rate=told.false_alarms if told else None,
    )


def _exceeded(record: Recommendation, rule: VerdictRule) -> list[str]:
    """That the set raises more false alarms than were asked for: those of several add up."""
    false, several = record.false_alarms["clean"], len(record.supervisors) > 1
    if rule.rule not in verdicts.RATED or false.value is None:
        return []
    surely = false.value if several or false.interval is None else false.interval.low
    if surely <= rule.rate:
        return []
    adds = (
        " for each supervisor alone, and false alarms add up. Set a lower `verdicts: {rate: …}`, or run fewer of them"
        if several
        else ""
    )
    share = numbers.value(false.value, "percent")
    return [
        f"The recommended {'set' if several else 'supervisor'} raises an alarm on {share} of right answers on "
        f"clean data; the limit is {numbers.limit(rule.rate, 'percent')}{adds}."
    ]


def _judge(
    record: Recommendation,
    observed: Observations,
    thresholds: Mapping[str, Threshold],
    confidence: float,
) -> None:
    """What the set misses and raises on the test cases, at the thresholds that are used."""
    places = (observed.clean, *observed.others)
    raised = {o.name: verdicts.any_alarm(thresholds, o, record.supervisors) for o in places}
    missed = {o.name: verdicts.rate("miss_rate", o, raised[o.name]) for o in places}
    false = {o.name: verdicts.rate("false_alarm_rate", o, raised[o.name]) for o in places}
    record.miss_rate = {p: _rate(verdicts.finding(e, confidence)) for p, e in missed.items()}
    record.false_alarms = {p: _rate(verdicts.finding(e, confidence)) for p, e in false.items()}
    worst = verdicts.worst_of(list(missed.values()), confidence)
    if worst is not None:
        known = sum(not e.reason for e in missed.values())
        fields = vars(_rate(worst))
        record.worst = WorstRate(**fields, place=str(worst.about), places=known)


def _costs(plan: Plan) -> dict[str, float]:
    """The class of cost of each that reads traces: that of the most expensive thing it needs."""
    return {
        s.label: max(
            (
                price
                for kind, price in CLASSES_OF_COST
                if any(isinstance(n, kind) for n in s.supervisor.needs)
            ),
            default=1.0,
        )
        for s in plan.supervisions
        if not s.reads_scores
    }


def _rate(found: Finding) -> SetRate:
    return SetRate(value=found.value, interval=found.interval, n=found.n, reason=found.reason)


def recommendation_blocks(found: Recommendation | None) -> list[Block]:
    """The recommended set with its rates, or why there is none."""
    if found is None or not (found.supervisors or found.why):
        return []
    if not found.supervisors:
        bold = "No set of supervisors is recommended."
        return [Text(found.why, "callout", bold=bold, id="recommended", brief=True)]
    several = len(found.supervisors) > 1
    parts = []
    if found.worst is not None:
        wide = f", corrected for {found.worst.places} places" if found.worst.places > 1 else ""
        parts.append(
            f"{'miss' if several else 'misses'} {_shown(found.worst, wide)} of failures at worst "
            f"({_where(found.worst.place)})"
        )
    false = found.false_alarms.get("clean")
    if false is not None and false.value is not None:
        under = {p: r.value or 0.0 for p, r in found.false_alarms.items() if p != "clean"}
        most = max(under, key=lambda place: under[place], default="")
        highest = (
            f", at most {numbers.value(under[most], 'percent')} {_where(most)}" if most else ""
        )
        parts.append(
            f"{'raise' if several else 'raises'} an alarm on {_shown(false)} of right answers on clean data{highest}"
        )
    said = [f"{'Together they' if several else 'It'} {', and '.join(parts)}."] if parts else []
    if found.chosen_on == OPTIMISTIC:
        said.append(
            "Chosen on the test cases, which is optimistic. Add `data.calibration` to choose on."
        )
    else:
        said.append(f"Chosen on {found.chosen_on} data.")
    bold = f"★ Recommended: {listed(found.supervisors)}."
    words = [found.why, " ".join(said)]
    blocks: list[Block] = [Text(words, "callout", bold=bold, id="recommended", brief=True)]
    if several:
        who = "; ".join(f"{place}: {c.by}{_of_cover(c)}" for place, c in found.covers.items())
        blocks.append(Text(f"The best member by circumstance: {who}.", "small"))
    return blocks


def _shown(rate: SetRate, more: str = "") -> str:
    shown = numbers.estimate(rate.value, rate.interval, rate.n, "percent")
    ends = f" ({shown.interval} at {shown.confidence}{more})" if rate.interval else ""
    return f"{shown.value}{ends}"


def _of_cover(cover: Cover) -> str:
    if cover.catch_rate is None or cover.false_alarm_rate is None:
        return f" ({numbers.value(cover.rate, 'decimal')})"
    caught = numbers.value(cover.catch_rate, "percent")
    false = numbers.value(cover.false_alarm_rate, "percent")
    return f" (detects {caught}, alarms on {false} of right answers)"


def _where(place: str) -> str:
    if place == "clean":
        return "on clean data"
    name, at, level = place.rpartition("@")
    return f"under {name} @ {level}" if at else f"under {place}"
