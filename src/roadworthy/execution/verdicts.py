"""Verdicts in a run: thresholds from the calibration cases, rates and counts on the test cases, and a recommended set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roadworthy.analysis import calibration, supervision, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.covering import cover
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.tallies import supervisor_tables
from roadworthy.cases.circumstance import Condition
from roadworthy.execution.observing import Seen, filtered, observe, with_scores
from roadworthy.execution.plan import Plan
from roadworthy.execution.supervising import AtWork, halves
from roadworthy.execution.supervisions import verdict_rule
from roadworthy.subject.needs import Gradient, Passes
from roadworthy.subject.trace import ModuleTrace, concatenate

FORMAT = 1
TABLE = "verdicts.json"
TOLERANCE = 0.02
OPTIMISTIC = "test (optimistic)"
LEAST_SECONDS = 0.01
"""Below this, scoring is free, and what was measured is mostly chance."""


@dataclass(frozen=True)
class Calibration:
    """The calibration cases, clean first, and what was chosen on them."""

    seen: Sequence[Seen] = ()
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    """For supervisors that some calibration samples fitted: the samples that are left to choose on."""
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def observed(self) -> list[Observed]:
        """The cases by condition."""
        return [s.observed for s in self.seen]


def calibrate(plan: Plan, at_work: AtWork, advance: Any) -> Calibration:
    """Score the calibration cases, fit what reads scores, and choose the thresholds."""
    seen = []
    for condition in plan.calibrating:
        seen.append(observe(plan, at_work.cache, condition, at_work))
        advance(1)
    rows, notes = _fit_second(plan, at_work, seen)
    seen = [with_scores(s, at_work.score_second(s.system, s.observed.scores), at_work.labels) for s in seen]
    if not seen:
        return Calibration(notes=[*notes, *_without(plan, at_work)])
    clean, shifted = seen[0].observed, [s.observed for s in seen[1:]]
    thresholds: dict[str, Threshold] = {}
    rule = verdict_rule(plan.spec)
    for label in clean.scores:
        try:
            thresholds[label] = verdicts.choose(rule, clean, shifted, label, rows.get(label))
        except ValueError as error:
            notes.append(f"supervisor {label} has no verdicts: {error}")
            continue
        silent = _silent(thresholds[label])
        if silent:
            notes.append(
                f"supervisor {label} {silent}: {rule.rule} at {rule.rate:g} needs {rule.least} clean calibration cases"
            )
    return Calibration(seen, rows, thresholds, notes)


def _silent(threshold: Threshold) -> str:
    """What never raises an alarm, because too few rows chose it."""
    quiet = [name for name, one in threshold.per_class.items() if one.value == math.inf]
    if threshold.per_class:
        return f"never raises an alarm on the predicted classes {', '.join(quiet)}" if quiet else ""
    return "never raises an alarm" if threshold.value == math.inf else ""


def _without(plan: Plan, at_work: AtWork) -> list[str]:
    if not at_work.labels or "calibration" in plan.data:
        return []
    return [
        "there are scores but no verdicts, since thresholds are chosen on rows of their own; add calibration under data, with "
        "cases that are in no other role"
    ]


def _fit_second(plan: Plan, at_work: AtWork, seen: Sequence[Seen]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Fit those that read scores: on half of the calibration samples, else on the reference cases."""
    if not at_work.second:
        return {}, []
    if not seen:
        return {}, _fit_on_reference(plan, at_work)
    first = halves(seen[0].observed.clusters, plan.spec.seed)
    rows, notes = {}, []
    for s in list(at_work.second):
        chosen = seen if getattr(s.supervisor, "contrasts", False) else seen[:1]
        system = concatenate([_some(c.system, first) for c in chosen])
        labels = [m for m in s.members if all(m in c.observed.scores for c in chosen)]
        scores = {m: np.concatenate([c.observed.scores[m][first] for c in chosen]) for m in labels}
        shifted = np.repeat([bool(c.condition.circumstance) for c in chosen], int(first.sum()))
        at_work.fit_second(s, system, scores, shifted)
        rows[s.label] = ~first
        notes.append(
            f"supervisor {s.label} was fitted on {int(first.sum())} of the {len(first)} calibration samples, and its threshold "
            "was chosen on the others"
        )
    return rows, notes


def _fit_on_reference(plan: Plan, at_work: AtWork) -> list[str]:
    seen = observe(plan, at_work.cache, Condition(role="reference"), at_work)
    notes = []
    for s in list(at_work.second):
        at_work.fit_second(s, seen.system, seen.observed.scores, np.zeros(len(seen.observed), dtype=bool))
        notes.append(
            f"supervisor {s.label} compares with the reference cases, which also fitted its members, so clean cases look riskier "
            "to it than they are; add calibration under data"
        )
    return notes


def _some(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    at = np.flatnonzero(rows)
    output = trace.output[at] if isinstance(trace.output, np.ndarray) else [trace.output[i] for i in at]
    columns = {name: column[at] for name, column in trace.columns.items()}
    return replace(
        trace,
        case=trace.case[at],
        step=trace.step[at],
        error=trace.error[at],
        seconds=trace.seconds[at],
        output=output,
        columns=columns,
    )


def tables(plan: Plan, chosen: Calibration, judged: Sequence[Observed]) -> dict[str, Any] | None:
    """Counts on rows that chose nothing, for the monitor; None without verdicts."""
    if not chosen.thresholds:
        return None
    rule, clean = verdict_rule(plan.spec), chosen.observed[0]
    calibration.separate(_clusters(chosen.observed), _clusters(judged))
    return {
        "format": FORMAT,
        "rule": vars(rule),
        "batch_rate": rule.rate,
        "chosen_on": {"role": "calibration", "n": len(clean), "fingerprint": plan.data["calibration"].fingerprint},
        "judged_on": {"role": "test", "kinds": {o.name: len(o) for o in judged}},
        "supervisors": {
            label: supervisor_tables(
                clean.scores[label] if label not in chosen.rows else clean.scores[label][chosen.rows[label]],
                judged,
                label,
                threshold,
                rate=rule.rate,
                seed=plan.spec.seed,
            )
            for label, threshold in chosen.thresholds.items()
        },
    }


def _clusters(observed: Sequence[Observed]) -> set[str]:
    return {str(c) for o in observed for c in o.clusters}


def recommend(
    plan: Plan, at_work: AtWork, chosen: Calibration, clean: Observed, others: Sequence[Observed]
) -> dict[str, Any] | None:
    """A small set of supervisors: chosen on the calibration cases where there are verdicts, its rates those on the test cases."""
    cost = _costs(plan, at_work)
    if not chosen.thresholds:
        return _by_ranking(clean, others, cost)
    seen = chosen.observed
    places = _by_circumstance([*seen, *(here for here, _ in filtered(plan, seen[0]))])
    rates = {label: _catch_rates(label, chosen, places) for label in chosen.thresholds}
    best = {
        place: max((r[place] for r in rates.values() if not math.isnan(r[place])), default=math.nan) for place in places
    }
    # One standard error: what a repetition of the calibration would turn around anyway.
    slack = {p: max(TOLERANCE, _standard_error(best[p], sum(int(o.failure.sum()) for o in places[p]))) for p in places}
    found = cover(rates, tolerance=slack, cost=cost)
    raised = {o.name: verdicts.together(chosen.thresholds, o, found.supervisors) for o in (clean, *others)}
    confidence = plan.spec.confidence
    return {
        "supervisors": list(found.supervisors),
        "why": _why(
            found.supervisors,
            f"{TOLERANCE:g}, or one standard error,",
            "share of failures caught",
            "the calibration cases",
        ),
        "quantity": "catch_rate",
        "covers": {p: {"by": found.by[p], "catch_rate": found.rates[p], "best": best[p]} for p in found.by},
        "miss_rate": {o.name: _rate("miss_rate", o, raised[o.name], confidence) for o in (clean, *others)},
        "false_alarm_rate": _rate("false_alarm_rate", clean, raised[clean.name], confidence),
        "chosen_on": "calibration",
    }


def _by_ranking(clean: Observed, others: Sequence[Observed], cost: Mapping[str, float]) -> dict[str, Any] | None:
    """Without verdicts: by the area for failures on the test cases themselves."""
    if not clean.scores:
        return None
    rates: dict[str, dict[str, float]] = {}
    for label in clean.scores:
        found: dict[str, list[float]] = {}
        for o in (clean, *others):
            found.setdefault(o.circumstance or "clean", []).append(supervision.detects_failure(o, label).value)
        rates[label] = {p: float(np.mean(v)) if not np.isnan(v).all() else math.nan for p, v in found.items()}
    covering = cover(rates, tolerance=TOLERANCE, cost=cost)
    return {
        "supervisors": list(covering.supervisors),
        "why": _why(covering.supervisors, f"{TOLERANCE:g}", "AUC for failures", "the test cases themselves"),
        "quantity": "auc_failure",
        "covers": {p: {"by": covering.by[p], "catch_rate": covering.rates[p]} for p in covering.by},
        "miss_rate": {},
        "false_alarm_rate": None,
        "chosen_on": OPTIMISTIC,
    }


def _why(names: Sequence[str], slack: str, what: str, where: str) -> str:
    reach = "it comes" if len(names) == 1 else "one of them comes"
    return (
        f"the smallest set found: under every circumstance {reach} within {slack} of the highest {what} of any supervisor, "
        f"measured on {where}; of sets of one size the cheapest"
    )


def _by_circumstance(observed: Sequence[Observed]) -> dict[str, list[Observed]]:
    found: dict[str, list[Observed]] = {}
    for o in observed:
        found.setdefault(o.circumstance or "clean", []).append(o)
    return found


def _catch_rates(label: str, chosen: Calibration, places: Mapping[str, Sequence[Observed]]) -> dict[str, float]:
    """The share of failed calibration cases that are caught, all levels of a circumstance together."""
    threshold, rates = chosen.thresholds[label], {}
    left = {str(c) for c in chosen.observed[0].clusters[chosen.rows[label]]} if label in chosen.rows else None
    for place, conditions in places.items():
        caught, failed = 0, 0
        for o in conditions:
            counts = o.failure if left is None else o.failure & np.array([str(c) in left for c in o.clusters])
            caught += int(verdicts.alarms(threshold, o, label)[counts].sum())
            failed += int(counts.sum())
        rates[place] = caught / failed if failed else math.nan
    return rates


def _standard_error(rate: float, n: int) -> float:
    return math.sqrt(rate * (1 - rate) / n) if n and not math.isnan(rate) else 0.0


def _costs(plan: Plan, at_work: AtWork) -> dict[str, float]:
    """Seconds of scoring by order of magnitude, so that the same run recommends the same set; with those of its members.

    Passes and gradients are made while the subject runs; they count for as much as that took.
    """
    working = [s for s in plan.supervisions if s.applicable]
    own = {s.label: at_work.time_of(s.label).score_seconds for s in working}
    for s in working:
        if any(isinstance(n, Passes | Gradient) for n in s.supervisor.needs):
            own[s.label] += at_work.subject_seconds
    total = {s.label: own[s.label] + sum(own[m] for m in s.members) for s in working}
    return {label: 10.0 ** round(math.log10(max(seconds, LEAST_SECONDS))) for label, seconds in total.items()}


def _rate(quantity: str, observed: Observed, raised: np.ndarray, confidence: float) -> dict[str, Any]:
    found = verdicts.finding(verdicts.rate(quantity, observed, raised), confidence)
    value = None if math.isnan(found.value) else found.value
    interval = None if found.interval is None else found.interval.to_dict()
    return {"value": value, "interval": interval, "n": found.n, "reason": found.reason}
