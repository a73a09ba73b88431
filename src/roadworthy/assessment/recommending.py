"""A small set of supervisors to run: chosen on the calibration cases, at one rate of false alarms, and judged on the test cases.

At their own thresholds, the supervisor that raises most alarms would seem to catch most. So under rules that keep no rate (least
cost, best balanced accuracy) supervisors are compared at 5% false alarms on clean data; what the set misses is measured at the
real thresholds. Under a shift that rate no longer holds, and raising an alarm on everything is no skill: supervisors are ranked
by informedness (detection rate - false-alarm rate). One counts for a circumstance only if its informedness is clearly above 0:
the lower end of an exact interval, corrected for the number of supervisors. If none does, nothing is recommended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from roadworthy.analysis import supervision, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.covering import Covering, cover
from roadworthy.analysis.informedness import Alarms, Informedness, informedness
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.assessment.observing import Observations, filtered
from roadworthy.execution.plan import Plan
from roadworthy.finding import Finding
from roadworthy.statistics import simultaneous
from roadworthy.store.record import Number, Part, StoredInterval
from roadworthy.subject.needs import Gradient, Input, Layer, Passes, Request

COMMON_RATE = 0.05
"""False alarms at which supervisors are compared where the rule of the verdicts keeps no rate."""
TOLERANCE = 0.02
CHANCE = 0.5
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

Rates = dict[str, dict[str, float]]
"""By supervisor and place; NaN where it is not clearly better than chance."""


class Rate(Part):
    """A share of cases."""

    value: Number = None
    interval: StoredInterval | None = None
    n: int = 0
    reason: str = ""


class WorstRate(Rate):
    """The highest of several shares, with an interval corrected for the number of places."""

    place: str
    places: int


class Cover(Part):
    """The best member of the set at a place, on the data that chose it."""

    by: str
    rate: Number = Field(
        default=None, description="Its informedness, or AUC where there are no thresholds"
    )
    best: Number = Field(default=None, description="That of the best single supervisor")
    catch_rate: Number = None
    false_alarm_rate: Number = None


class Recommendation(Part):
    """A small set of supervisors; empty, with the reason, if none can be recommended."""

    supervisors: list[str] = Field(default_factory=list)
    why: str = ""
    quantity: Literal["informedness", "auc_failure"] = "informedness"
    chosen_on: str = "calibration"
    covers: dict[str, Cover] = Field(default_factory=dict, description="By circumstance")
    not_covered: dict[str, str] = Field(
        default_factory=dict, description="By circumstance: why not"
    )
    miss_rate: dict[str, Rate] = Field(default_factory=dict, description="Of the set, by place")
    false_alarms: dict[str, Rate] = Field(default_factory=dict, description="Of the set, by place")
    worst: WorstRate | None = Field(default=None, description="Where the set misses most")
    notes: list[str] = Field(default_factory=list)


class _Compared(NamedTuple):
    """What supervisors are worth at the places, and why nothing can be said of others."""

    rates: Rates
    slack: Mapping[str, float]
    silent: Mapping[str, str]
    told: Mapping[tuple[str, str], Informedness] = MappingProxyType({})
    """By supervisor and place, if alarms are compared."""


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
    if thresholds:
        compared = _by_telling(plan, observed, thresholds, rule, labels)
        record = Recommendation()
    else:
        compared = _by_ranking(labels, clean, observed.others, plan.spec.confidence)
        record = Recommendation(quantity="auc_failure", chosen_on=OPTIMISTIC)
    record.not_covered = dict(compared.silent)
    record.why = _said_of(compared.silent)
    if not _covered(compared.rates):
        return record
    found = cover(compared.rates, tolerance=compared.slack, cost=_costs(plan), runs=members)
    record.supervisors = list(found.supervisors)
    record.why = _why(compared, found, rule, members)
    record.covers = {p: _cover(compared, found, p) for p in found.by}
    if thresholds:
        _judge(record, observed, thresholds, plan.spec.confidence)
        record.notes = _exceeded(record, rule)
    return record


def _why(
    compared: _Compared, found: Covering, rule: VerdictRule, members: Mapping[str, Sequence[str]]
) -> str:
    """What the set is, by what it was compared, what would be better somewhere, and where nothing is known."""
    who = "it" if len(found.supervisors) == 1 else "one of them"
    if compared.told:
        within = f"{100 * TOLERANCE:g} percentage points or one standard error"
        by = "informedness (detection rate - false-alarm rate)"
        at = f", at {100 * _common_rate(rule):.3g}% false alarms on clean data"
    else:
        within, by, at = f"{TOLERANCE:g}", "AUC for failures", ""
    silent = f" {_said_of(compared.silent)}" if compared.silent else ""
    return (
        f"The smallest set in which {_places(_covered(compared.rates), compared.silent)} {who} is within {within} of "
        f"the best single supervisor, ranked by {by}{at}; ties go to the cheapest."
        f"{_more_together(compared, members, found.supervisors)}{silent}"
    )


def _cover(compared: _Compared, found: Covering, place: str) -> Cover:
    by = found.by[place]
    told = compared.told.get((by, place))
    return Cover(
        by=by,
        rate=found.rates[place],
        best=_best(compared.rates, place),
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
    found, asked = f"{100 * false.value:.3g}%", f"{100 * rule.rate:.3g}%"
    said = f"raises an alarm on {found} of right answers on clean data"
    if not several:
        return [f"The recommended supervisor {said}; the limit is {asked}."]
    return [
        f"The recommended set {said}; the limit of {asked} holds for each supervisor alone, and false alarms add up. "
        "Set a lower `verdicts: {rate: …}`, or run fewer of them."
    ]


def _more_together(
    compared: _Compared, members: Mapping[str, Sequence[str]], names: Sequence[str]
) -> str:
    """Who combines more than the set runs, and is better than any single one somewhere: a choice that a reader has."""
    single = {label: r for label, r in compared.rates.items() if not members.get(label)}
    running = {part for name in names for part in members.get(name) or (name,)}
    said = ""
    for label, of in members.items():
        if label in names or label not in compared.rates or set(of) <= running:
            continue
        places = [
            p for p, r in compared.rates[label].items() if r > _best(single, p) + compared.slack[p]
        ]
        if places:
            better = "; ".join(_instead(compared, label, single, p) for p in places)
            said += f" {label}, which makes {len(of)} supervisors run, does better than any single one: it {better}."
    return said


def _instead(compared: _Compared, label: str, single: Rates, place: str) -> str:
    """``catches 100% instead of 88% under dim_light``, and what it raises for that."""
    best = max(
        (s for s, r in single.items() if not math.isnan(r[place])), key=lambda s: single[s][place]
    )  # a place where no single one has a rate is none where one is beaten
    mine, other = compared.told.get((label, place)), compared.told.get((best, place))
    if mine is None or other is None:
        return f"has an AUC of {compared.rates[label][place]:.2f} instead of {single[best][place]:.2f} {_at(place)}"
    return (
        f"catches {100 * mine.caught:.0f}% instead of {100 * other.caught:.0f}% {_at(place)} (alarms on right answers: "
        f"{100 * mine.false_alarms:.0f}% instead of {100 * other.false_alarms:.0f}%)"
    )


def _judge(
    record: Recommendation,
    observed: Observations,
    thresholds: Mapping[str, Threshold],
    confidence: float,
) -> None:
    """What the set misses and raises on the test cases, at the thresholds that are used."""
    places = (observed.clean, *observed.others)
    raised = {o.name: verdicts.together(thresholds, o, record.supervisors) for o in places}
    missed = {o.name: verdicts.rate("miss_rate", o, raised[o.name]) for o in places}
    false = {o.name: verdicts.rate("false_alarm_rate", o, raised[o.name]) for o in places}
    record.miss_rate = {p: _rate(verdicts.finding(e, confidence)) for p, e in missed.items()}
    record.false_alarms = {p: _rate(verdicts.finding(e, confidence)) for p, e in false.items()}
    worst = verdicts.worst_of(list(missed.values()), confidence)
    if worst is not None:
        known = sum(not e.reason for e in missed.values())
        fields = vars(_rate(worst))
        record.worst = WorstRate(**fields, place=str(worst.about), places=known)


def _common_rate(rule: VerdictRule) -> float:
    return rule.rate if rule.rule in verdicts.RATED else COMMON_RATE


def _by_telling(
    plan: Plan,
    observed: Observations,
    thresholds: Mapping[str, Threshold],
    rule: VerdictRule,
    labels: Sequence[str],
) -> _Compared:
    """The informedness of each supervisor's alarms on the calibration cases, under every circumstance, at a common rate."""
    seen = observed.calibrating
    places = _by_place([*seen, *(here for here, _ in filtered(plan, seen[0]))])
    limits = {
        label: limit
        for label, limit in _limits(observed, thresholds, rule).items()
        if label in labels
    }
    sure = simultaneous(plan.spec.confidence, max(len(limits), 1))
    told = {
        (label, place): informedness(
            [_alarms(label, limit, observed, o) for o in conditions], confidence=sure
        )
        for label, limit in limits.items()
        for place, conditions in places.items()
    }
    rates: Rates = {
        label: {p: told[label, p].value if told[label, p].low > 0 else math.nan for p in places}
        for label in limits
    }
    errors = {
        p: [told[s, p].standard_error for s, r in rates.items() if r[p] == _best(rates, p)]
        for p in places
    }
    slack = {p: max([TOLERANCE, *errors[p]]) for p in places}
    mute = [why for limit in limits.values() if (why := verdicts.mute(limit, rule))]
    nobody = (
        f"no supervisor ever raises an alarm: {mute[0]}; add calibration data, or set a higher `verdicts: {{rate: …}}`"
        if mute and len(mute) == len(limits)
        else "no supervisor has a detection rate clearly above its false-alarm rate; add calibration cases or supervisors"
    )
    return _Compared(rates, slack, _silent(plan, places, rates, nobody), told)


def _limits(
    observed: Observations, thresholds: Mapping[str, Threshold], rule: VerdictRule
) -> dict[str, Threshold]:
    """Thresholds at the common rate; none for a supervisor that missing scores keep from it."""
    found = dict(thresholds)
    if rule.rule not in verdicts.RATED:
        common, found = VerdictRule("false_positive_rate", rate=_common_rate(rule)), {}
        clean = observed.calibrating[0]
        for label in thresholds:
            try:
                found[label] = verdicts.choose(common, clean, [], label, observed.left.get(label))
            except ValueError:  # too few rows for this rate
                continue
    return {label: limit for label, limit in found.items() if not limit.overrun}


def _alarms(label: str, limit: Threshold, observed: Observations, here: Observed) -> Alarms:
    """On which cases an alarm is raised, which failed, and what each belongs to; without the samples that fitted the supervisor."""
    rows, clean = observed.left.get(label), observed.calibrating[0]
    own = here.clusters.astype(str)
    keep = (
        np.ones(len(here), bool) if rows is None else np.isin(own, clean.clusters[rows].astype(str))
    )
    return Alarms(verdicts.alarms(limit, here, label)[keep], here.failure[keep], own[keep])


def _by_ranking(
    labels: Sequence[str], clean: Observed, others: Sequence[Observed], confidence: float
) -> _Compared:
    """Without verdicts: by the area for failures on the test cases themselves, the mean over the levels that have one."""
    places = _by_place([clean, *others])
    rates: Rates = {label: {} for label in labels}
    for place, conditions in places.items():
        sure = simultaneous(confidence, len(labels) * len(conditions))
        for label in labels:
            known = [
                e for o in conditions if not (e := supervision.detects_failure(o, label)).reason
            ]
            mean = float(np.mean([e.value for e in known])) if known else math.nan
            clear = mean > CHANCE and any(e.interval(sure, "lower").low > CHANCE for e in known)
            rates[label][place] = mean if clear else math.nan
    silent = {
        place: _unheard(conditions, "test")
        or "no supervisor ranks failures clearly above right answers; add cases or supervisors"
        for place, conditions in places.items()
        if math.isnan(_best(rates, place))
    }
    return _Compared(rates, dict.fromkeys(places, TOLERANCE), silent)


def _silent(
    plan: Plan, places: Mapping[str, Sequence[Observed]], rates: Rates, nobody: str
) -> dict[str, str]:
    """Places of which the calibration cases say nothing, and why."""
    found = {}
    for place, conditions in places.items():
        if math.isnan(_best(rates, place)):
            found[place] = _unheard(conditions, "calibration") or nobody
    for c in plan.circumstances:
        if c.name not in places:
            found[c.name] = (
                "it has data of its own, and no calibration case is made under it"
                if c.kind == "dataset"
                else "the calibration data lacks the columns of its filter; add them"
                if c.where is not None
                else "no calibration case was made under it"
            )
    return found


def _unheard(conditions: Sequence[Observed], role: str) -> str:
    """Why the cases of a place cannot tell supervisors apart, and what to do; empty where they can."""
    n = sum(len(o) for o in conditions)
    if not n:
        return f"no {role} case meets its filter; add some that do"
    if not _failures(conditions):
        return f"none of the {n} {role} cases fails there; add harder cases or a higher level"
    if all(o.failure.all() or not o.failure.any() for o in conditions):
        return f"no level has both failures and right answers among its {role} cases; add a milder level"
    return ""


def _places(covered: Sequence[str], silent: Mapping[str, str]) -> str:
    """Where the set speaks; "every circumstance" only where nothing is left out."""
    named = [p for p in covered if p != "clean"]
    on = ["on the clean data"] if "clean" in covered else []
    if named:
        on.append("under " + ("every circumstance" if not silent else _listed(named)))
    return " and ".join(on)


def _said_of(silent: Mapping[str, str]) -> str:
    """A sentence for each reason: ``Under fog and snow: it has data of its own.``"""
    by_reason: dict[str, list[str]] = {}
    for place, reason in silent.items():
        by_reason.setdefault(reason, []).append(place)
    said = [f"{_places(places, silent)}: {reason}." for reason, places in by_reason.items()]
    return " ".join(text[0].upper() + text[1:] for text in said)


def _at(place: str) -> str:
    return "on clean data" if place == "clean" else f"under {place}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _covered(rates: Rates) -> list[str]:
    places = dict.fromkeys(p for by_place in rates.values() for p in by_place)
    return [p for p in places if not math.isnan(_best(rates, p))]


def _best(rates: Rates, place: str) -> float:
    return max((r[place] for r in rates.values() if not math.isnan(r[place])), default=math.nan)


def _by_place(observed: Sequence[Observed]) -> dict[str, list[Observed]]:
    found: dict[str, list[Observed]] = {}
    for o in observed:
        found.setdefault(o.circumstance or "clean", []).append(o)
    return found


def _failures(conditions: Sequence[Observed]) -> int:
    return sum(int(o.failure.sum()) for o in conditions)


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


def _rate(found: Finding) -> Rate:
    return Rate(value=found.value, interval=found.interval, n=found.n, reason=found.reason)
