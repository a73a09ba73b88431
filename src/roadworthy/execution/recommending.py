"""A small set of supervisors: chosen on the calibration cases, all at one rate of false alarms, and judged on the test cases.

At their own thresholds, whoever raises most alarms would seem to catch most. So under rules that keep no rate (least cost, best
balanced accuracy) supervisors are compared at 5% false alarms; what the set misses is reported at the real thresholds. A supervisor
speaks for a circumstance only where it catches clearly more failures than it raises false alarms: the lower end of an exact
interval, corrected for the number of supervisors, lies above that rate. Where nobody does, nothing is recommended, and the reason
is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roadworthy.analysis import supervision, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.covering import cover
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.execution.observing import filtered
from roadworthy.execution.plan import Plan
from roadworthy.execution.supervising import AtWork
from roadworthy.execution.supervisions import verdict_rule
from roadworthy.execution.verdicts import Calibration
from roadworthy.finding import Finding
from roadworthy.statistics import clustered_proportion, simultaneous
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


class _Compared(NamedTuple):
    """What supervisors are worth at the places, and why nothing can be said of others."""

    rates: Rates
    slack: Mapping[str, float]
    silent: Mapping[str, str]


def recommend(
    plan: Plan, at_work: AtWork, chosen: Calibration, clean: Observed, others: Sequence[Observed]
) -> dict[str, Any] | None:
    """The set with its reason, or no set and the reason; None where no supervisor scores."""
    labels = [label for label in at_work.labels if label in clean.scores]
    if not labels:
        return None
    if not chosen.thresholds:
        compared = _by_ranking(labels, clean, others, plan.spec.confidence)
        quantity, on, what, where = "auc_failure", OPTIMISTIC, "AUC for failures", "the test cases themselves"
        within = f"{TOLERANCE:g}"
    else:
        rate = _common_rate(verdict_rule(plan.spec))
        compared = _by_catching(plan, chosen, rate)
        quantity, on, where = "catch_rate", "calibration", "the calibration cases"
        what = f"share of failures caught at {100 * rate:.3g}% false alarms"
        within = f"{TOLERANCE:g}, or one standard error,"
    covered = _covered(compared.rates)
    record: dict[str, Any] = {
        "supervisors": [],
        "why": _why_none(compared),
        "quantity": quantity,
        "covers": {},
        "not_covered": dict(compared.silent),
        "miss_rate": {},
        "false_alarm_rate": None,
        "worst": None,
        "chosen_on": on,
    }
    if not covered:
        return record
    members = {s.label: at_work.members_of(s) for s in plan.supervisions if s.reads_scores}
    found = cover(compared.rates, tolerance=compared.slack, cost=_costs(plan), runs=members)
    more = _more_together(compared, members, found.supervisors)
    reach = "it comes" if len(found.supervisors) == 1 else "one of them comes"
    record |= {
        "supervisors": list(found.supervisors),
        "why": (
            f"the smallest set found: {_places(covered, compared.silent)} {reach} within {within} of the highest {what} of any "
            f"single supervisor, measured on {where}; of sets of one size the cheapest{more}{_unsaid(compared.silent)}"
        ),
        "covers": {
            p: {"by": found.by[p], quantity: found.rates[p], "best": _best(compared.rates, p)} for p in found.by
        },
    }
    return record | (
        _judged(chosen, clean, others, found.supervisors, plan.spec.confidence) if chosen.thresholds else {}
    )


def _more_together(compared: _Compared, members: Mapping[str, Sequence[str]], names: Sequence[str]) -> str:
    """Who combines more than the set runs, and is better than any single one somewhere: a choice that a reader has."""
    single = {label: r for label, r in compared.rates.items() if not members.get(label)}
    running = {part for name in names for part in members.get(name) or (name,)}
    said = ""
    for label, of in members.items():
        if label in names or label not in compared.rates or set(of) <= running:
            continue
        places = [p for p, r in compared.rates[label].items() if r > _best(single, p) + compared.slack[p]]
        if places:
            best = ", ".join(f"{p}: {compared.rates[label][p]:.2f} against {_best(single, p):.2f}" for p in places)
            said += f". {label}, which makes {len(of)} supervisors run, is better than any single one at times ({best})"
    return said


def _judged(
    chosen: Calibration, clean: Observed, others: Sequence[Observed], names: Sequence[str], confidence: float
) -> dict[str, Any]:
    """What the set misses and raises on the test cases, at the thresholds that are used."""
    raised = {o.name: verdicts.together(chosen.thresholds, o, names) for o in (clean, *others)}
    missed = {o.name: verdicts.rate("miss_rate", o, raised[o.name]) for o in (clean, *others)}
    worst = verdicts.worst_of(list(missed.values()), confidence)
    false = verdicts.rate("false_alarm_rate", clean, raised[clean.name])
    places = sum(not e.reason for e in missed.values())
    return {
        "miss_rate": {place: _rate(verdicts.finding(e, confidence)) for place, e in missed.items()},
        "false_alarm_rate": _rate(verdicts.finding(false, confidence)),
        "worst": None if worst is None else {"place": str(worst.about), **_rate(worst), "places": places},
    }


def _common_rate(rule: VerdictRule) -> float:
    return rule.rate if rule.rule in verdicts.RATED else COMMON_RATE


def _by_catching(plan: Plan, chosen: Calibration, rate: float) -> _Compared:
    """The share of failed calibration cases that each catches, all levels of a circumstance together, at a common rate."""
    seen = chosen.observed
    places = _by_place([*seen, *(here for here, _ in filtered(plan, seen[0]))])
    limits = _limits(plan, chosen, rate)
    sure = simultaneous(plan.spec.confidence, max(len(limits), 1))
    rates: Rates = {}
    for label, limit in limits.items():
        rates[label] = {}
        for place, conditions in places.items():
            caught, clusters = _caught(label, limit, chosen, conditions)
            clear = len(caught) > 0 and rate < (
                clustered_proportion(caught, clusters, confidence=sure, sided="lower", method="clopper_pearson").low
            )
            rates[label][place] = float(caught.mean()) if clear else math.nan
    slack = {p: max(TOLERANCE, _standard_error(_best(rates, p), _failures(places[p]))) for p in places}
    quiet = all(t.value == math.inf for limit in limits.values() for t in (*limit.per_class.values(), limit))
    nobody = (
        "no threshold that was chosen ever raises an alarm by its score"
        if quiet
        else f"no supervisor catches clearly more of the failures there than {100 * rate:.3g}%, the rate of false alarms"
    )
    return _Compared(rates, slack, _silent(plan, places, rates, nobody))


def _limits(plan: Plan, chosen: Calibration, rate: float) -> dict[str, Threshold]:
    """Thresholds at the common rate; none for whom missing scores keep from it."""
    rule = verdict_rule(plan.spec)
    found = dict(chosen.thresholds)
    if rule.rule not in verdicts.RATED:
        common, found = VerdictRule("false_positive_rate", rate=rate), {}
        for label in chosen.thresholds:
            try:
                found[label] = verdicts.choose(common, chosen.observed[0], [], label, chosen.rows.get(label))
            except ValueError:  # too few rows for this rate
                continue
    return {label: limit for label, limit in found.items() if not limit.overrun}


def _caught(
    label: str, limit: Threshold, chosen: Calibration, conditions: Sequence[Observed]
) -> tuple[np.ndarray, np.ndarray]:
    """Which failed cases raise an alarm, and what each belongs to; without the samples that fitted the supervisor."""
    rows, clean = chosen.rows.get(label), chosen.observed[0]
    left = None if rows is None else clean.clusters[rows].astype(str)
    caught, clusters = [], []
    for o in conditions:
        own = o.clusters.astype(str)
        failed = o.failure if left is None else o.failure & np.isin(own, left)
        caught.append(verdicts.alarms(limit, o, label)[failed])
        clusters.append(own[failed])
    return np.concatenate(caught), np.concatenate(clusters)


def _by_ranking(labels: Sequence[str], clean: Observed, others: Sequence[Observed], confidence: float) -> _Compared:
    """Without verdicts: by the area for failures on the test cases themselves, the mean over the levels that have one."""
    places = _by_place([clean, *others])
    rates: Rates = {label: {} for label in labels}
    for place, conditions in places.items():
        sure = simultaneous(confidence, len(labels) * len(conditions))
        for label in labels:
            known = [e for o in conditions if not (e := supervision.detects_failure(o, label)).reason]
            mean = float(np.mean([e.value for e in known])) if known else math.nan
            clear = mean > CHANCE and any(e.interval(sure, "lower").low > CHANCE for e in known)
            rates[label][place] = mean if clear else math.nan
    silent = {
        place: _without_failures(conditions, "test") or "no supervisor ranks failures clearly above successes there"
        for place, conditions in places.items()
        if math.isnan(_best(rates, place))
    }
    return _Compared(rates, dict.fromkeys(places, TOLERANCE), silent)


def _silent(plan: Plan, places: Mapping[str, Sequence[Observed]], rates: Rates, nobody: str) -> dict[str, str]:
    """Places of which the calibration cases say nothing, and why."""
    found = {}
    for place, conditions in places.items():
        if math.isnan(_best(rates, place)):
            found[place] = _without_failures(conditions, "calibration") or nobody
    for c in plan.circumstances:
        if c.name not in places:
            found[c.name] = (
                "it has data of its own"
                if c.kind == "dataset"
                else "the calibration data lacks the columns of its filter"
                if c.where is not None
                else "no calibration case was made under it"
            )
    return found


def _without_failures(conditions: Sequence[Observed], role: str) -> str:
    n = sum(len(o) for o in conditions)
    if not n:
        return f"no {role} case meets its filter"
    return "" if _failures(conditions) else f"none of the {n} {role} cases fails there"


def _places(covered: Sequence[str], silent: Mapping[str, str]) -> str:
    """Where the set speaks; "every circumstance" only where nothing is left out."""
    named = [p for p in covered if p != "clean"]
    on = ["on the clean data"] if "clean" in covered else []
    if named:
        on.append("under " + ("every circumstance" if not silent else _listed(named)))
    return " and ".join(on)


def _unsaid(silent: Mapping[str, str]) -> str:
    return f". Nothing can be said of {_reasons(silent)}" if silent else ""


def _why_none(compared: _Compared) -> str:
    return f"nothing speaks for any supervisor: {_reasons(compared.silent)}"


def _reasons(silent: Mapping[str, str]) -> str:
    """Places by reason: ``fog and snow (it has data of its own)``."""
    by_reason: dict[str, list[str]] = {}
    for place, reason in silent.items():
        by_reason.setdefault(reason, []).append("the clean data" if place == "clean" else place)
    return "; ".join(f"{_listed(places)} ({reason})" for reason, places in by_reason.items())


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


def _standard_error(rate: float, n: int) -> float:
    """What a repetition of the calibration would turn around anyway."""
    return math.sqrt(rate * (1 - rate) / n) if n and not math.isnan(rate) else 0.0


def _costs(plan: Plan) -> dict[str, float]:
    """The class of cost of each that reads traces: that of the most expensive thing it needs."""
    return {
        s.label: max(
            (price for kind, price in CLASSES_OF_COST if any(isinstance(n, kind) for n in s.supervisor.needs)),
            default=1.0,
        )
        for s in plan.supervisions
        if not s.reads_scores
    }


def _rate(found: Finding) -> dict[str, Any]:
    value = None if math.isnan(found.value) else found.value
    interval = None if found.interval is None else found.interval.to_dict()
    return {"value": value, "interval": interval, "n": found.n, "reason": found.reason}
