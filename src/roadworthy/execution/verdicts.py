"""Verdicts in a run: thresholds from the calibration cases, and counts on the test cases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roadworthy.analysis import calibration, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.tallies import supervisor_tables
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.cases.circumstance import Condition
from roadworthy.execution.observing import Seen, observe, with_scores
from roadworthy.execution.plan import Plan
from roadworthy.execution.supervising import AtWork, halves
from roadworthy.execution.supervisions import verdict_rule
from roadworthy.finding import Finding
from roadworthy.subject.trace import ModuleTrace, concatenate

FORMAT = 1
TABLE = "verdicts.json"
LEARNED = "learned from calibration cases under these same circumstances; a new kind of shift may be caught less"
"""What is to be said of a supervisor that contrasts clean with shifted calibration cases."""


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
    notes += _alone(at_work)
    seen = [
        with_scores(s, at_work.score_second(s.system, s.observed.scores), at_work.labels)
        for s in seen
    ]
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
    notes += _threshold_notes(plan, rule, seen[0], thresholds, rows)
    return Calibration(seen, rows, thresholds, notes)


def _alone(at_work: AtWork) -> list[str]:
    """Who combines one supervisor only, which then says the same by itself."""
    members = {s.label: at_work.members_of(s) for s in at_work.second}
    return [
        f"supervisor {label} has only one member, {of[0]}, and knows no more than it; it is not recommended"
        for label, of in members.items()
        if len(of) == 1
    ]


def assumed(plan: Plan, chosen: Calibration, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with what those about supervisors take for granted beyond what analyses know."""
    learned = {s.label for s in plan.supervisions if getattr(s.supervisor, "contrasts", False)}
    grouped = bool(chosen.seen) and chosen.observed[0].groups is not None
    about_groups = verdict_rule(plan.spec).assumed(grouped=grouped)
    found = []
    for f in findings:
        more = [LEARNED] if f.about.supervisor in learned else []
        if about_groups and f.quantity in (*verdicts.RATES, verdicts.WORST):
            more.append(about_groups)
        found.append(replace(f, assumptions=(*f.assumptions, *more)) if more else f)
    return found


def _threshold_notes(
    plan: Plan,
    rule: VerdictRule,
    clean: Seen,
    thresholds: Mapping[str, Threshold],
    rows: Mapping[str, np.ndarray],
) -> list[str]:
    """What is odd about thresholds: missing scores, too few rows, classes that have none of their own."""
    notes: list[str] = []
    strangers: dict[tuple[str, ...], list[str]] = {}
    observed = clean.observed
    for label, threshold in thresholds.items():
        nominal = ~observed.failure & rows.get(label, np.ones(len(observed), bool))
        missing = int(np.isnan(observed.scores[label][nominal]).sum())
        if missing:
            cannot = "; the rate cannot be kept" if threshold.overrun else ""
            have = "have" if missing > 1 else "has"
            raise_ = "raise" if missing > 1 else "raises"
            notes.append(
                f"supervisor {label}: {missing} of {int(nominal.sum())} calibration cases {have} no score and {raise_} an "
                f"alarm{cannot}"
            )
        silent = _silent(threshold)
        if silent:
            notes.append(f"supervisor {label} {silent}: {verdicts.too_few(threshold, rule)}")
        if rule.per_class:
            strangers.setdefault(_strangers(plan, clean, threshold), []).append(label)
    for names, labels in strangers.items():
        if names:
            notes.append(
                f"no clean calibration case was rightly answered with class {', '.join(names)}; there {', '.join(labels)} "
                f"{'take' if len(labels) > 1 else 'takes'} the threshold of all classes together"
            )
    return notes


def _silent(threshold: Threshold) -> str:
    """What never raises an alarm, because too few rows chose it."""
    quiet = [
        name
        for name, one in threshold.per_class.items()
        if one.value == math.inf and not one.missing
    ]
    if threshold.per_class:
        return f"never raises an alarm on the predicted classes {', '.join(quiet)}" if quiet else ""
    return "never raises an alarm" if threshold.value == math.inf and not threshold.missing else ""


def _strangers(plan: Plan, clean: Seen, threshold: Threshold) -> tuple[str, ...]:
    """The classes that could be answered and have no threshold of their own."""
    answers = (
        np.asarray(clean.system.output).reshape(len(clean.system), -1).shape[1]
        if len(clean.system)
        else 0
    )
    classes = plan.data["calibration"].classes
    names = classes if classes and len(classes) == answers else [str(i) for i in range(answers)]
    return tuple(str(name) for i, name in enumerate(names) if str(i) not in threshold.per_class)


def _without(plan: Plan, at_work: AtWork) -> list[str]:
    if not at_work.labels or "calibration" in plan.data:
        return []
    return [
        "there are scores but no verdicts, since thresholds are chosen on rows of their own; add calibration under data, with "
        "cases that are in no other role"
    ]


def _fit_second(
    plan: Plan, at_work: AtWork, seen: Sequence[Seen]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Fit those that read scores: on half of the calibration samples, else on the reference cases."""
    if not at_work.second:
        return {}, []
    if not seen:
        return {}, _fit_on_reference(plan, at_work)
    first = halves(seen[0].observed.clusters, plan.spec.seed)
    rows, notes = {}, []
    for s in list(at_work.second):
        if first.all() or not first.any():
            own = "group" if seen[0].observed.groups is not None else "sample"
            at_work.failed[s.label] = (
                f"one half of the calibration {own}s fits it and the other chooses its threshold, and there is only one {own}; "
                "give more under data: calibration"
            )
            continue
        chosen = seen if getattr(s.supervisor, "contrasts", False) else seen[:1]
        system = concatenate([_some(c.system, first) for c in chosen])
        labels = [m for m in s.members if all(m in c.observed.scores for c in chosen)]
        scores = {m: np.concatenate([c.observed.scores[m][first] for c in chosen]) for m in labels}
        shifted = np.repeat([bool(c.condition.circumstance) for c in chosen], int(first.sum()))
        at_work.fit_second(s, system, scores, shifted)
        if s.label in at_work.failed:
            continue
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
        at_work.fit_second(
            s, seen.system, seen.observed.scores, np.zeros(len(seen.observed), dtype=bool)
        )
        if s.label in at_work.failed:
            continue
        notes.append(
            f"supervisor {s.label} compares with the reference cases, which also fitted its members, so clean cases look riskier "
            "to it than they are; add calibration under data"
        )
    return notes


def _some(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    at = np.flatnonzero(rows)
    output = (
        trace.output[at] if isinstance(trace.output, np.ndarray) else [trace.output[i] for i in at]
    )
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
        "chosen_on": {
            "role": "calibration",
            "n": len(clean),
            "fingerprint": plan.data["calibration"].fingerprint,
        },
        "judged_on": {"role": "test", "kinds": {o.name: len(o) for o in judged}},
        "supervisors": {
            label: supervisor_tables(
                clean.scores[label]
                if label not in chosen.rows
                else clean.scores[label][chosen.rows[label]],
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
