"""From kept chunks to what was observed: outputs scored by the measure, and supervisors' scores.

Supervisors that read scores are fitted on the way: on half of the calibration samples, and the other
half is left to choose their thresholds on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from roadworthy.analysis.observed import Observed
from roadworthy.assessment.supervisors import Supervisors, halves
from roadworthy.cases.circumstance import Condition
from roadworthy.cases.generators import Mixture
from roadworthy.data.values import CLASS_SCORES
from roadworthy.execution.plan import OPERATIONAL, Plan
from roadworthy.execution.progress import Progress
from roadworthy.measures.classification import predicted
from roadworthy.measures.failure import failures
from roadworthy.measures.scored import Scored, none_if_failed
from roadworthy.store import ChunkCache
from roadworthy.subject.trace import SYSTEM, ModuleTrace, concatenate


@dataclass(frozen=True)
class Seen:
    """One condition: what was observed, and the system's rows under it."""

    condition: Condition
    observed: Observed
    system: ModuleTrace
    targets: Any = None
    """The truth of its cases; None for inputs that have no right answer."""


@dataclass(frozen=True)
class Observations:
    """All that was observed: tables by condition, for the sections to analyse."""

    seen: Sequence[Seen]
    """The test cases, clean first, then every circumstance at every level."""
    supervisors: Supervisors
    calibration: Sequence[Seen] = ()
    """The calibration cases, clean first."""
    left: Mapping[str, np.ndarray] = field(default_factory=dict)
    """For supervisors that some calibration samples fitted: the samples that are left to choose on."""
    notes: Sequence[str] = ()
    """How those that read scores were fitted."""
    searched: Mapping[str, np.ndarray] = field(default_factory=dict)
    """By ``circumstance@search``: what a search found, a row of numbers a sample; of reference data
    ``reference:circumstance@search``."""
    operational: Seen | None = None
    """The answers to operational data, if a section wants them; not measured, since rows may have no label."""
    held: Mapping[tuple[str, tuple[str, ...]], Observed] = field(default_factory=dict)
    """By condition (``snow@3``) and the ports that were held clean: the same cases, without scores."""
    probes: Mapping[str, Seen] = field(default_factory=dict)
    """By condition (``snow@2.5``): the test cases at strengths between two levels, without scores."""

    @cached_property
    def clean(self) -> Observed:
        """The test cases as they are."""
        return self.seen[0].observed

    @cached_property
    def _compared(self) -> list[tuple[Observed, Observed]]:
        plan, clean = self.supervisors.plan, self.clean
        pairs = [(s.observed, clean) for s in self.seen[1:]] + filtered(plan, clean)
        order = [c.name for c in plan.circumstances]
        return sorted(pairs, key=lambda pair: order.index(pair[0].circumstance))

    @property
    def others(self) -> list[Observed]:
        """All conditions but the clean one, filters included, in the order of the file."""
        return [here for here, _ in self._compared]

    @property
    def references(self) -> list[Observed]:
        """What each of the others is compared with: the clean cases, or for a filter the rest of them."""
        return [reference for _, reference in self._compared]

    @property
    def calibrating(self) -> list[Observed]:
        """The calibration cases by condition, clean first."""
        return [s.observed for s in self.calibration]


def observe_all(
    plan: Plan, cache: ChunkCache, show: Progress, *, fresh: bool = False
) -> Observations:
    """Fit the supervisors and score every condition of the plan."""
    supervisors = Supervisors(plan, cache, fresh)
    supervisors.fit()
    calibration = []
    for condition in plan.conditions:
        if condition.role == "calibration":
            calibration.append(observe(plan, condition, supervisors))
            show.advance(1)
    left, notes = _fit_second(plan, supervisors, calibration)
    calibration = [_with_second(s, supervisors) for s in calibration]
    seen: list[Seen] = []
    searched, operational = {}, None
    held: dict[tuple[str, tuple[str, ...]], Observed] = {}
    for condition in plan.conditions:
        if condition.search is not None:
            parts = [trace[SYSTEM] for _, trace in supervisors.chunks(condition)]
            about = "reference:" * (condition.role == "reference") + condition.name
            searched[about] = np.asarray(concatenate(parts).output, dtype=np.float64)
            show.advance(1)
        elif condition.held:
            held[condition.name, condition.held] = observe(plan, condition, supervisors).observed
            show.advance(1)
        elif condition.role == OPERATIONAL:
            operational = observe(plan, condition, supervisors)
            show.advance(1)
        elif condition.role not in ("reference", "calibration"):
            seen.append(_with_second(observe(plan, condition, supervisors), supervisors))
            show.advance(1)
    # One that gave up along the way has scores for some conditions only: it is left out of all.
    labels = supervisors.labels
    seen, calibration = (
        [_with_scores(s, {}, labels) for s in some] for some in (seen, calibration)
    )
    return Observations(seen, supervisors, calibration, left, notes, searched, operational, held)


def observe_more(plan: Plan, cache: ChunkCache, observed: Observations) -> Observations:
    """With the probes and searches that the plan has beyond what was observed."""
    read = Supervisors(plan, cache)
    searched, probes = dict(observed.searched), dict(observed.probes)
    for condition in plan.conditions:
        if condition.probe and condition.name not in probes:
            probes[condition.name] = observe(plan, condition, read)
        if condition.search is not None and condition.search.level is not None:
            parts = [trace[SYSTEM] for _, trace in read.chunks(condition)]
            searched[condition.name] = np.asarray(concatenate(parts).output, dtype=np.float64)
    return replace(observed, searched=searched, probes=probes)


def observe(plan: Plan, condition: Condition, supervisors: Supervisors) -> Seen:
    """Score one condition's cases: by the measure, and by every supervisor that reads traces."""
    data = plan.data[condition.role]
    parts: list[ModuleTrace] = []
    scores: dict[str, list[np.ndarray]] = {}
    for chunk, trace in supervisors.chunks(condition):
        parts.append(trace[SYSTEM])
        asked = {} if condition.held or condition.probe else supervisors.score_chunk(chunk, trace)
        for label, column in asked.items():
            scores.setdefault(label, []).append(column)
    system = concatenate(parts)
    judged = condition.valid and condition.role != OPERATIONAL
    targets = plan.targets(condition) if judged else None
    scored, failed = _scored(plan, condition, none_if_failed(system.output, system.ok), targets)
    classes = system.kind is CLASS_SCORES
    observed = Observed(
        condition.circumstance,
        condition.level,
        data.ids,
        data.groups if condition.has_parent else None,
        scored,
        failed,
        ~system.ok,
        {label: np.concatenate(scores[label]) for label in supervisors.labels if label in scores},
        {c: slice_labels(data.column(c)) for c in plan.spec.slices if data.has_column(c)},
        next(
            (c.significance for c in plan.circumstances if c.name == condition.circumstance), None
        ),
        role=condition.role,
        predicted=predicted(class_scores([system])) if classes else None,
        truth=np.asarray(targets) if classes and targets is not None else None,
        outputs=np.asarray(system.output).reshape(len(system), -1) if classes else None,
        label_probabilities=data.probabilities if classes and targets is not None else None,
        valid=condition.valid,
        has_parent=condition.has_parent,
        met=_met(plan, condition),
    )
    return Seen(condition, observed, system, targets)


def _met(plan: Plan, condition: Condition) -> np.ndarray | None:
    """What each case of a mixture met; None for other conditions."""
    if not isinstance(condition.transform, Mixture):
        return None
    cases = [condition.case_id(i) for i in plan.data[condition.role].ids]
    drawn = [condition.transform.label(plan.spec.seed, case) for case in cases]
    return np.array(drawn, dtype=object)


def _with_second(seen: Seen, supervisors: Supervisors) -> Seen:
    scores = supervisors.score_second(seen.system, seen.observed.scores)
    return _with_scores(seen, scores, supervisors.labels)


def _with_scores(seen: Seen, scores: Mapping[str, np.ndarray], labels: Sequence[str]) -> Seen:
    """The same with more scores, in the order of the labels, and without those of other supervisors."""
    known = {**seen.observed.scores, **scores}
    kept = {label: known[label] for label in labels if label in known}
    return replace(seen, observed=replace(seen.observed, scores=kept))


def class_scores(parts: Sequence[ModuleTrace]) -> np.ndarray:
    """The scores that a subject gave, a row a case; NaN where it gave no answer."""
    system = concatenate(parts)
    scores = np.array(system.output, dtype=np.float64).reshape(len(system), -1)
    scores[~system.ok] = np.nan
    return scores


def _scored(
    plan: Plan, condition: Condition, outputs: Any, targets: Any
) -> tuple[Scored, np.ndarray]:
    """The measure, and which cases fail; truth that does not go with the outputs is an error in the file's data."""
    data, circumstance = plan.data[condition.role], condition.role.removeprefix("circumstance:")
    if targets is None:
        undefined = Scored.undefined(len(data))
        return undefined, undefined.failure
    criterion = plan.spec.failure or {"wrong": True}
    own = condition.role != circumstance
    with plan.spec.located(
        ("circumstances", circumstance, "data") if own else ("data", condition.role)
    ):
        scored = plan.measure(outputs, plan.compared(condition.role, targets))
        failed = failures(
            scored, outputs, targets, criterion, classes=data.classes, metadata=data.metadata
        )
    return scored, failed


def filtered(plan: Plan, clean: Observed) -> list[tuple[Observed, Observed]]:
    """For each metadata filter: the cases that meet it, and the rest; none where data of another role lacks its columns."""
    found, data = [], plan.data[clean.role]
    for c in plan.circumstances:
        if c.where is not None and all(data.has_column(column) for column in c.where):
            keep = data.where(c.where)
            inside = clean.take(keep)
            inside = replace(
                inside, circumstance=c.name, significance=c.significance, versus="rest"
            )
            found.append((inside, clean.take(~keep)))
    return found


def slice_labels(column: np.ndarray) -> np.ndarray:
    """A slice column as labels: 61 for 61.0, and "missing" where there is no value."""
    return np.array([slice_label(v) for v in np.asarray(column).tolist()], dtype=object)


def slice_label(content: Any) -> str:
    """One value of a slice column, as the file, the findings and the claims write it."""
    if content is None or content == "" or content != content:
        return "missing"
    return (
        str(int(content)) if isinstance(content, float) and content.is_integer() else str(content)
    )


def _fit_second(
    plan: Plan, supervisors: Supervisors, seen: Sequence[Seen]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Fit those that read scores, on half of the calibration samples; the rows left to choose on."""
    if not supervisors.second:
        return {}, []
    first = halves(seen[0].observed.clusters, plan.spec.seed)
    rows, notes = {}, []
    for s in list(supervisors.second):
        if first.all():
            own = "group" if seen[0].observed.groups is not None else "sample"
            supervisors.failed[s.label] = (
                f"one half of the calibration {own}s fits it and the other chooses its threshold, and there is only one {own}; "
                "give more under data: calibration"
            )
            continue
        chosen = seen if s.contrasts else seen[:1]
        system = concatenate([_some(c.system, first) for c in chosen])
        labels = [m for m in s.members if all(m in c.observed.scores for c in chosen)]
        scores = {m: np.concatenate([c.observed.scores[m][first] for c in chosen]) for m in labels}
        marked = np.repeat([bool(c.condition.circumstance) for c in chosen], int(first.sum()))
        if getattr(s.supervisor, "learns_failures", False):
            marked = np.concatenate([c.observed.failure[first] for c in chosen])
        supervisors.fit_second(s, system, scores, marked)
        if s.label in supervisors.failed:
            continue
        rows[s.label] = ~first
        notes.append(
            f"supervisor {s.label} was fitted on {int(first.sum())} of the {len(first)} calibration samples, and its threshold "
            "was chosen on the others"
        )
    return rows, notes


def _some(trace: ModuleTrace, rows: np.ndarray) -> ModuleTrace:
    at = np.flatnonzero(rows)
    index: dict[str, Any] = {
        name: getattr(trace, name)[at] for name in ("case", "step", "error", "seconds")
    }
    given = trace.output
    output = given[at] if isinstance(given, np.ndarray) else [given[i] for i in at]
    return replace(trace, **index, output=output, columns={})
