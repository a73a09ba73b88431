"""The section `modules`: a system of modules, module by module (Wang et al. 2022).

How much each corruption degrades each module and the system (RQ0); whether modules' scores see it and flag the same cases (RQ1,
RQ2); how far a module's score follows the system's error, and which module is to blame (RQ3); what rejecting the riskiest
predictions gains (RQ4); what modules in parallel gain (section 5.1).

p-values are corrected by Holm over all modules and conditions of one supervisor.

Rows are cases; if the measure knows what each step of a case costs (MOTA: frames), rows are steps, and
the steps of a case are one group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from roadworthy.analysis import performance
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.systems import awareness, blame, propagation, rejection
from roadworthy.assessment.observations import Observations, Seen
from roadworthy.assessment.section import (
    ClaimPlace,
    Result,
    Results,
    Section,
    drawn,
    evidence_at,
    nothing,
)
from roadworthy.cases.circumstance import Condition
from roadworthy.cases.generators import Attack
from roadworthy.claims import Quantity
from roadworthy.data.seeds import generator
from roadworthy.data.seeds import key as seed_key
from roadworthy.data.values import FRAMES
from roadworthy.execution.plan import Extra, Plan, Supervision, Wants, output_kind
from roadworthy.finding import About, Evidence, Finding
from roadworthy.measures.scored import Scored, none_if_failed, put_together
from roadworthy.registry import register
from roadworthy.report import charts, numbers
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text, place_name
from roadworthy.spec import ClaimSpec
from roadworthy.statistics import mean as mean_interval
from roadworthy.store.record import Number, RecordPart, StoredInterval
from roadworthy.store.record import Record as RunRecord
from roadworthy.subject.needs import Input, Layer
from roadworthy.subject.passes import AUTO, resolved
from roadworthy.subject.system import INPUT, System
from roadworthy.subject.trace import SYSTEM, ModuleTrace, concatenate

QUANTITY = "rejected_error"
Share = Annotated[float, Field(gt=0, lt=1)]
Strategy = Literal["S1", "S2", "S3", "S4", "S5", "learned"]
TOGETHER = "all conditions"
TOP = (0.01, 0.05, 0.1)
"""Shares of the riskiest cases that are compared between modules."""


class ModulesSpec(BaseModel):
    """What is asked of a system module by module."""

    model_config = ConfigDict(extra="forbid")

    budgets: list[Share] = Field(
        default=[0.01, 0.03, 0.05], min_length=1, description="Shares of predictions to reject"
    )
    strategies: list[Strategy] = Field(
        default=["S1", "S2", "S3", "S4", "S5", "learned"], min_length=1
    )
    claimed: Strategy = Field("S5", description="The strategy that claims on rejected_error judge")
    uncertainty: str = Field(
        "", description="The supervisor of S1, S3 to S5; by default vro of the last module"
    )
    ood: str = Field(
        "", description="The supervisor of S2 to S5; by default kde of the last module"
    )
    measured: list[str] | None = Field(
        None,
        description="Modules that answer the question of the whole system; by default those in parallel that give "
        "the same kind of output",
    )
    blame: bool = Field(True, description="Run the system again with inputs held clean")


class _Place(RecordPart):
    circumstance: str
    level: float | None = None


class DegradationRecord(_Place):
    """A module, or the system, under one condition."""

    module: str
    quantity: str = Field(description="the measure, or distance to its own clean output")
    value: Number
    clean: Number = None
    relative: Number = Field(default=None, description="relative to clean, positive is worse")
    interval: StoredInterval | None = Field(default=None, description="of the value")
    unknown: int = Field(default=0, description="Cases without an answer to compare")


class AwarenessRecord(_Place):
    """Whether the score of a module rises."""

    supervisor: str
    module: str
    effect: Number = Field(description="Share of cases whose score rose, equal ones half")
    strict: Number = Field(description="The same, equal ones as not risen")
    p: Number = Field(description="Wilcoxon signed-rank, one-sided")
    adjusted: Number = Field(description="after Holm")
    interval: StoredInterval | None = Field(default=None, description="of the effect")
    pairs: int
    missing: int
    against: Literal["clean", "level below"] = "clean"


class OverlapRecord(_Place):
    """What two modules' riskiest cases have in common."""

    supervisor: str
    first: str
    second: str
    top: float
    size: int
    share: Number
    chance: Number


class AssociationRecord(_Place):
    """A rank correlation between modules, or of a module with the system's error."""

    supervisor: str
    first: str
    second: str
    method: Literal["spearman", "kendall"]
    of: Literal["scores", "changes", "error"]
    value: Number
    p: Number
    adjusted: Number
    interval: StoredInterval | None = None
    pairs: int
    missing: int


class BlameRecord(_Place):
    """What the input of a module costs the system."""

    module: str
    port: str = Field(description="The ports that were held clean")
    kind: Literal["shapley", "repair"]
    value: Number = Field(description="Mean error of a case that goes away")
    share: Number = Field(description="Of what the corruption costs")
    interval: StoredInterval


class RejectedRecord(_Place):
    """What a strategy gains at a budget."""

    strategy: str
    budget: float
    size: int
    value: Number
    gain: Number
    of_oracle: Number
    interval: StoredInterval
    of_oracle_interval: StoredInterval
    best: bool = Field(default=False, description="Gains most here, chosen on these cases")


class CurveRecord(_Place):
    """The measure against the number of rejected cases."""

    strategy: str
    sizes: list[int]
    values: list[Number]
    area: Number
    interval: StoredInterval | None = None
    cases: int


class RedundancyRecord(_Place):
    """Two modules in parallel."""

    first: str
    second: str
    errors: tuple[Number, Number]
    better_of_both: Number
    both_fail: Number
    if_independent: Number
    chosen: Number = Field(description="Error if the answer with the lower score is taken")
    by: str = Field(default="", description="The supervisor that chooses")


class ModulesRecord(RecordPart):
    """All that was asked of the modules."""

    rows: str = Field(default="", description="what scores, errors and rejection are counted in")
    modules: list[str] = Field(default_factory=list)
    wires: list[tuple[str, str]] = Field(default_factory=list)
    measure: str = ""
    better: str = "higher"
    uncertainty: str = ""
    ood: str = ""
    learned_on: str = ""
    claimed: str = "S5"
    unsupervised: dict[str, str] = Field(default_factory=dict)
    degradation: list[DegradationRecord] = Field(default_factory=list)
    awareness: list[AwarenessRecord] = Field(default_factory=list)
    overlaps: list[OverlapRecord] = Field(default_factory=list)
    associations: list[AssociationRecord] = Field(default_factory=list)
    blame: list[BlameRecord] = Field(default_factory=list)
    rejected: list[RejectedRecord] = Field(default_factory=list)
    curves: list[CurveRecord] = Field(default_factory=list)
    redundancy: list[RedundancyRecord] = Field(default_factory=list)


@register("sections", "modules")
class Modules(Section):
    """Degradation, awareness, propagation, blame and rejection, module by module."""

    keys = {"modules": ModulesSpec}
    after = ("performance",)
    quantities = (
        Quantity(
            QUANTITY,
            "the share of failures among the cases left when the largest budget of `modules` is rejected.",
            low=0.0,
            high=1.0,
        ),
    )
    Record = ModulesRecord

    def check(self, plan: Plan) -> None:
        """Refuse names that are no supervisor or module."""
        spec = _spec(plan)
        if spec.claimed not in spec.strategies:
            known = ", ".join(spec.strategies)
            raise plan.spec.error(
                ("modules", "claimed"), f"{spec.claimed} is not among the strategies: {known}"
            )
        labels = [s.label for s in plan.supervisions]
        for key in ("uncertainty", "ood"):
            if getattr(spec, key) and getattr(spec, key) not in labels:
                raise plan.spec.error(
                    ("modules", key),
                    f"there is no supervisor {getattr(spec, key)!r}; there are: {', '.join(labels) or 'none'}",
                )
        if spec.measured and plan.subject.stepwise:
            raise plan.spec.error(
                ("modules", "measured"),
                "modules that answer step by step have no measure of a case; leave it out",
            )
        for name in spec.measured or ():
            if name not in plan.subject.modules:
                names = ", ".join(plan.subject.modules)
                raise plan.spec.error(
                    ("modules", "measured"), f"there is no module {name!r}; there are: {names}"
                )
            if output_kind(plan.subject, name) is not plan.subject.output_kind:
                raise plan.spec.error(
                    ("modules", "measured"),
                    f"{name} gives {output_kind(plan.subject, name).name}, the system "
                    f"{plan.subject.output_kind.name}; only what answers the same question can be measured",
                )

    def wants(self, plan: Plan) -> Wants:
        """The conditions in which ports are held clean."""
        extras = [
            Extra("test", c.circumstance, c.level, held)
            for c in _corruptions(plan)
            for held in _held(plan, c)
        ]
        return Wants(conditions=tuple(extras))

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """All tables, and the blame as findings."""
        view = _Tables(plan, observed)
        record = ModulesRecord(
            rows=view.rows,
            modules=_assessed(plan.subject),
            wires=_module_wires(plan.subject),
            measure=plan.spec.measure_name,
            better=observed.clean.scored.better,
            uncertainty=view.uncertainty,
            ood=view.ood,
            claimed=view.spec.claimed,
            unsupervised=view.unsupervised(),
            degradation=view.degradation(),
            awareness=view.awareness(),
            overlaps=list(view.overlaps()),
            associations=view.associations(),
            blame=list(view.blame()),
            redundancy=list(view.redundancy()),
        )
        record.learned_on, learned = view.learned()
        for name, rejected in view.rejections(learned):
            place: dict[str, Any] = {"circumstance": name.circumstance, "level": name.level}
            for r in rejected.at:
                best = rejected.best(r.budget)
                record.rejected.append(
                    RejectedRecord(**place, **r._asdict(), best=best is not None and r == best)
                )
            for c in rejected.curves:
                fields: dict[str, Any] = {
                    **c._asdict(),
                    "sizes": list(c.sizes),
                    "values": list(c.values),
                }
                record.curves.append(CurveRecord(**place, **fields, cases=len(name)))
        return Result(record, view.findings(record), notes=view.notes(record))

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The failures that are left."""
        view = _Tables(plan, observed, steps=False)
        spec = _spec(plan)
        _, learned = view.learned()

        def known(place: ClaimPlace) -> Evidence:
            here = place.here
            order = view.orders(here, learned).get(spec.claimed)
            if order is None:
                return nothing(QUANTITY, f"the scores of {spec.claimed} are missing", here)
            size = awareness.top_size(len(here), max(spec.budgets))
            if size == 0:
                return nothing(QUANTITY, "the largest budget is less than one case", here)
            left = here.take(np.sort(order[size:]))
            return replace(performance.failure_rate(left, seed=plan.spec.seed), quantity=QUANTITY)

        return evidence_at(claim, plan, observed, known)

    def view(self, record: ModulesRecord, run: RunRecord) -> list[Block]:
        """The graph of each circumstance, tables and curves."""
        blocks: list[Block] = [Heading("Modules", id="modules")]
        if "steps" in record.rows:
            words = f"Scores, errors and rejection are counted in {record.rows}; the steps of a case are one group."
            blocks.append(Text(words, "small"))
        for module, why in record.unsupervised.items():
            blocks.append(Text(f"No supervisor scores {module}: {why}.", "small"))
        return [*blocks, *_graphs(record), *_degraded(record), *_aware(record), *_passed_on(record),
                *_blamed(record), *_rejected(record), *_redundant(record)]  # fmt: skip


def _spec(plan: Plan) -> ModulesSpec:
    return plan.spec.part("modules", ModulesSpec) or ModulesSpec.model_validate({})


def _assessed(system: System) -> list[str]:
    return [name for name in system.modules if name not in system.unassessed]


def _module_wires(system: System) -> list[tuple[str, str]]:
    names = _assessed(system)
    ends = [(s.split(".", 1)[0], t.split(".", 1)[0]) for t, s in system.wires.items()]
    return [(s, t) for s, t in dict.fromkeys(ends) if t in names and s in [INPUT, *names]]


def _corruptions(plan: Plan) -> list[Condition]:
    """Conditions in which the value at a port is changed, so that it can be held clean."""
    if all(getattr(m, "whole_case", False) for m in plan.subject.modules.values()):
        return []
    made = [c for circumstance in plan.circumstances for c in circumstance.conditions()]
    return [
        c
        for c in made
        if c.transform is not None
        and not c.transform.identity
        and not isinstance(c.transform, Attack)
        and c.valid
    ]


def _players(system: System, port: str) -> dict[str, tuple[str, ...]]:
    """The modules that read the corrupted value itself, with the ports at which they do."""
    found: dict[str, list[str]] = {}
    for entry in system.entry_ports(port):
        found.setdefault(entry.split(".", 1)[0], []).append(entry)
    return {m: tuple(p) for m, p in found.items()}


def _held(plan: Plan, condition: Condition) -> Iterator[tuple[str, ...]]:
    """The sets of ports that are held in runs of their own under a condition."""
    if not _spec(plan).blame:
        return
    players = _players(plan.subject, condition.port)
    if len(players) <= blame.MOST_PLAYERS:
        for chosen in blame.coalitions(list(players)):
            yield _ports(players, chosen)
    for port in plan.subject.inner_ports(condition.port):
        yield (port,)


def _ports(players: Mapping[str, tuple[str, ...]], chosen: frozenset[str]) -> tuple[str, ...]:
    return tuple(p for m, ports in players.items() if m in chosen for p in ports)


@dataclass(frozen=True)
class _Tables:
    """What was observed, seen module by module."""

    plan: Plan
    observed: Observations
    steps: bool = True
    """Whether steps are rows if the measure allows it; claims are on cases."""

    @property
    def spec(self) -> ModulesSpec:
        return _spec(self.plan)

    @property
    def system(self) -> System:
        return self.plan.subject

    @property
    def confidence(self) -> float:
        return self.plan.spec.confidence

    @cached_property
    def cases(self) -> list[Seen]:
        """The clean cases, and the conditions that have the same ones."""
        clean, *others = self.observed.seen
        same = [s for s in others if s.observed.valid and s.observed.paired_with(clean.observed)]
        return [clean, *same]

    @cached_property
    def by_step(self) -> bool:
        frames = self.system.stepwise and self.system.input_kind is FRAMES
        return self.steps and frames and self.observed.clean.scored.by_step is not None

    @cached_property
    def seen(self) -> list[Seen]:
        """The same, with steps as rows where that is possible."""
        return self._rows(self.cases)

    @property
    def clean(self) -> Observed:
        return self.seen[0].observed

    @property
    def shifted(self) -> list[Seen]:
        return self.seen[1:]

    @property
    def rows(self) -> str:
        """In words."""
        n = len(self.cases[0].observed)
        return f"{len(self.clean)} steps of {n} cases" if self.by_step else f"{n} cases"

    def _rows(self, some: Sequence[Seen]) -> list[Seen]:
        """Steps as rows: all frames of the data, also those after a failure."""
        if not self.by_step or not some:
            return list(some)
        videos = self.plan.data[some[0].condition.role].inputs
        frames = [len(videos[i]) for i in range(len(videos))]
        case = np.repeat(np.arange(len(frames)), frames)
        step = np.concatenate([np.arange(n) for n in frames])
        return [replace(s, observed=self._steps_of(s, case, step)) for s in some]

    def _steps_of(self, seen: Seen, case: np.ndarray, step: np.ndarray) -> Observed:
        here = seen.observed
        place = {seen.condition.case_id(s): i for i, s in enumerate(here.samples)}
        at = {key: i for i, key in enumerate(zip(case.tolist(), step.tolist(), strict=True))}
        # What scores cases alone (of the whole system, of others' scores) says the same of all steps.
        scores = {label: column[case] for label, column in here.scores.items()}
        stepped = [s.label for s in self.observed.supervisors.first if s.module != SYSTEM]
        scores |= {label: np.full(len(case), np.nan) for label in stepped}
        for label, rows, made in self.observed.supervisors.step_scores(seen.condition):
            if label not in stepped:
                continue
            keys = zip((place[c] for c in rows.case), rows.step.tolist(), strict=True)
            found = [(at[k], i) for i, k in enumerate(keys) if k in at]
            to, of = np.array(found, dtype=np.int64).reshape(-1, 2).T
            scores[label][to] = made[of]
        assert here.scored.by_step is not None
        scored = here.scored.by_step(case, step)
        names = [f"{here.samples[c]}#{s}" for c, s in zip(case, step, strict=True)]
        return replace(
            here,
            samples=np.array(names, dtype=object),
            groups=here.clusters[case],
            scored=scored,
            failure=scored.failure,
            unanswered=here.unanswered[case],
            scores=scores,
            slices={},
        )

    @cached_property
    def first(self) -> list[Supervision]:
        """Supervisors at modules that have scores, and do not combine others."""
        known = self.clean.scores
        return [s for s in self.observed.supervisors.first if s.label in known]

    @cached_property
    def families(self) -> dict[str, dict[str, str]]:
        """By supervisor and its settings: the label at each module."""
        found: dict[str, dict[str, str]] = {}
        for s in self.first:
            more = ", ".join(f"{k}={v}" for k, v in s.parameters.items())
            same = [o for o in self.first if o.name == s.name and o.module == s.module]
            name = f"{s.name}({more})" if more and len(same) > 1 else s.name
            found.setdefault(name, {})[s.module] = s.label
        return found

    @cached_property
    def uncertainty(self) -> str:
        """The label of the supervisor of uncertainty."""
        return self.spec.uncertainty or self._chosen("vro", activations=False)

    @cached_property
    def ood(self) -> str:
        """The label of the supervisor of unusual inputs."""
        return self.spec.ood or self._chosen("kde", activations=True)

    def _chosen(self, name: str, *, activations: bool) -> str:
        """As in Wang et al. 2022, of the last module that has one; else whatever reads the same."""

        def reads(s: Supervision) -> bool:
            return any(isinstance(n, Layer | Input) for n in s.supervisor.needs) == activations

        place = {m: i for i, m in enumerate(self.system.modules)}
        fitting = [s for s in self.first if reads(s)]
        best = max(fitting, key=lambda s: (s.name == name, place.get(s.module, -1)), default=None)
        return best.label if best else ""

    def unsupervised(self) -> dict[str, str]:
        """Modules without a score, and why."""
        found = {}
        scored = {s.module for s in self.first}
        for module in _assessed(self.system):
            if module in scored:
                continue
            reasons = [
                f"{s.label} is not applicable, because "
                f"{s.because or self.observed.supervisors.failed.get(s.label, 'it has no scores')}"
                for s in self.plan.supervisions
                if s.module == module
            ]
            found[module] = "; ".join(reasons) or "the file names none for it"
        return found

    def notes(self, record: ModulesRecord) -> list[str]:
        """What the run should say."""
        found = [
            f"No supervisor scores the module {m}: {why}." for m, why in self.unsupervised().items()
        ]
        many = [
            c
            for c in _corruptions(self.plan)
            if len(_players(self.system, c.port)) > blame.MOST_PLAYERS
        ]
        if self.spec.blame and many:
            found.append(
                f"Blame is not shared: more than {blame.MOST_PLAYERS} modules read the input."
            )
        if "learned" in self.spec.strategies and self.first and not record.learned_on:
            found.append(
                "No strategy `learned`: too few failures, or right answers, to learn from."
            )
        if record.rejected and self.clean.scored.numerator is None:
            found.append(f"No oracle of rejection: {record.measure} is no ratio of sums.")
        return found

    # RQ0 -------------------------------------------------------------------------------------

    def degradation(self) -> list[DegradationRecord]:
        """The system by its measure; modules by it or by the distance to their own clean output."""
        found = []
        first, *others = self.cases
        for seen in others:
            here = seen.observed
            found.append(self._measured(SYSTEM, here, here.scored, first.observed.scored))
        for module in _assessed(self.system):
            traces = {s.condition.name: self._outputs(s, module) for s in self.cases}
            before = traces[""]
            for seen in others:
                after, here = traces[seen.condition.name], seen.observed
                if module in self.measured:
                    clean = self._scores_of(first, before)
                    found.append(self._measured(module, here, self._scores_of(seen, after), clean))
                else:
                    found.append(self._distance(module, seen, before, after))
        return found

    @cached_property
    def measured(self) -> list[str]:
        """Modules that answer the question of the whole system: in parallel, or as the file says."""
        if self.spec.measured is not None:
            return self.spec.measured
        entries = [
            m
            for m in _assessed(self.system)
            if all(self.system.wires[f"{m}.{p}"] == INPUT for p in self.system.modules[m].inputs)
            and output_kind(self.system, m) is self.system.output_kind
        ]
        return entries if len(entries) > 1 and not self.system.stepwise else []

    def _outputs(self, seen: Seen, module: str) -> ModuleTrace:
        parts = [t[module] for _, t in self.observed.supervisors.chunks(seen.condition)]
        return concatenate([replace(p, columns={}) for p in parts])

    def _scores_of(self, seen: Seen, rows: ModuleTrace) -> Scored:
        """The measure of a module; a case that an earlier failure kept from it has no answer."""
        given = dict(zip(rows.case, none_if_failed(rows.output, rows.ok), strict=True))
        cases = [seen.condition.case_id(s) for s in seen.observed.samples]
        truth = self.plan.compared(seen.condition.role, seen.targets)
        found: Scored = self.plan.measure([given.get(c) for c in cases], truth)
        return found

    def _measured(
        self, module: str, here: Observed, after: Scored, before: Scored
    ) -> DegradationRecord:
        own, reference = replace(here, scored=after), replace(self.observed.clean, scored=before)
        evidence = performance.measured(own, self.plan.spec.measure_name, seed=self.plan.spec.seed)
        drop = performance.relative_drop(own, reference, seed=self.plan.spec.seed)
        return DegradationRecord(
            circumstance=here.circumstance,
            level=here.level,
            module=module,
            quantity=self.plan.spec.measure_name,
            value=evidence.value,
            clean=before.value(),
            relative=drop.value,
            interval=evidence.interval(self.confidence, "two"),
        )

    def _distance(
        self, module: str, seen: Seen, before: ModuleTrace, after: ModuleTrace
    ) -> DegradationRecord:
        here = seen.observed
        found = DegradationRecord(
            circumstance=here.circumstance,
            level=here.level,
            module=module,
            quantity="",
            value=None,
        )
        try:
            distance = resolved(AUTO, output_kind(self.system, module))
        except ValueError as error:
            found.quantity = str(error)
            return found
        aligned = _aligned(
            before, after, self.observed.seen[0].condition, seen.condition, here.samples
        )
        steps = propagation.distances_to_clean(distance, *aligned.columns)
        values = _case_means(steps, aligned.rows, len(here))
        known = ~np.isnan(values)
        found.quantity = f"distance to its own clean output ({distance.name})"
        found.unknown = int((~known).sum())
        if known.any():
            groups = None if here.groups is None else here.groups[known]
            found.value = float(values[known].mean())
            found.interval = mean_interval(values[known], groups, confidence=self.confidence)
        return found

    # RQ1, RQ2 --------------------------------------------------------------------------------

    def awareness(self) -> list[AwarenessRecord]:
        """One row a supervisor, module and condition."""
        found = []
        for supervisor, at in self.families.items():
            rows = []
            for module, label in at.items():
                for here, before, against in self._compared():
                    both = here.scores[label], before.scores[label]
                    test = awareness.signed_rank(*both, here.groups)
                    interval = awareness.effect_interval(
                        *both, here.groups, confidence=self.confidence
                    )
                    rows.append(
                        AwarenessRecord(
                            circumstance=here.circumstance,
                            level=here.level,
                            supervisor=supervisor,
                            module=module,
                            **test._asdict(),
                            adjusted=None,
                            interval=interval,
                            against=against,
                        )
                    )
            found += _holm(rows)
        return found

    def _compared(self) -> Iterator[tuple[Observed, Observed, Any]]:
        """Each condition and what its scores are compared with: clean, and the level below."""
        shifted = [s.observed for s in self.shifted]
        for here in shifted:
            yield here, self.clean, "clean"
            own = [o for o in shifted if o.circumstance == here.circumstance]
            below = [o for o in own if (o.level or 0) < (here.level or 0)]
            if below:
                yield here, max(below, key=lambda o: o.level or 0), "level below"

    def overlaps(self) -> Iterator[OverlapRecord]:
        """The riskiest cases of two modules."""
        for supervisor, at in self.families.items():
            for (one, a), (two, b) in combinations(at.items(), 2):
                for seen in self.shifted:
                    here = seen.observed
                    for top in TOP:
                        found = awareness.top_overlap(here.scores[a], here.scores[b], top)
                        yield OverlapRecord(
                            circumstance=here.circumstance,
                            level=here.level,
                            supervisor=supervisor,
                            first=one,
                            second=two,
                            top=top,
                            **found._asdict(),
                        )

    def associations(self) -> list[AssociationRecord]:
        """Spearman of scores and Kendall of changes between modules, Kendall of changes with the system's error."""
        found = []
        for supervisor, at in self.families.items():
            scores, changes, errors = [], [], []
            for seen in self.shifted:
                here = seen.observed
                moved = {
                    m: propagation.case_change(here.scores[v], self.clean.scores[v])
                    for m, v in at.items()
                }
                worse = propagation.case_change(here.scored.error, self.clean.scored.error)
                options: dict[str, Any] = {"groups": here.groups, "confidence": self.confidence}
                for one, two in combinations(at, 2):
                    alike = awareness.spearman(
                        here.scores[at[one]], here.scores[at[two]], **options
                    )
                    scores.append(
                        _associated(here, supervisor, one, two, "spearman", "scores", alike)
                    )
                    both = propagation.kendall(moved[one], moved[two], **options)
                    changes.append(
                        _associated(here, supervisor, one, two, "kendall", "changes", both)
                    )
                for module in at:
                    follows = propagation.kendall(moved[module], worse, **options)
                    errors.append(
                        _associated(here, supervisor, module, SYSTEM, "kendall", "error", follows)
                    )
            for family in (scores, changes, errors):
                found += _holm(family)
        return found

    # RQ3 -------------------------------------------------------------------------------------

    def blame(self) -> Iterator[BlameRecord]:
        """Shapley over the modules that read the corrupted value; repairs at the ports behind."""
        if not self.spec.blame:
            return
        conditions = {c.name: c for c in _corruptions(self.plan)}
        clean = self.observed.clean.scored.error
        for seen in self.cases[1:]:
            condition = conditions.get(seen.condition.name)
            if condition is None:
                continue
            here, name = seen.observed, condition.name
            cost = here.scored.error - clean
            players = _players(self.system, condition.port)
            parts: list[tuple[str, str, Any, np.ndarray]] = []
            if len(players) <= blame.MOST_PLAYERS:
                errors = {
                    frozenset(): here.scored.error,
                    frozenset(players): clean,
                }
                for chosen in blame.coalitions(list(players)):
                    errors[chosen] = self.observed.held[name, _ports(players, chosen)].scored.error
                parts += [
                    (m, ", ".join(players[m]), "shapley", b)
                    for m, b in blame.shapley(errors).items()
                ]
            for port in self.system.inner_ports(condition.port):
                left = self.observed.held[name, (port,)].scored.error
                parts.append((port.split(".", 1)[0], port, "repair", here.scored.error - left))
            for module, port, kind, values in parts:
                rng = generator(self.plan.spec.seed, "blame", name, port)
                made = blame.blamed(values, cost, here.groups, confidence=self.confidence, rng=rng)
                yield BlameRecord(
                    circumstance=here.circumstance,
                    level=here.level,
                    module=module,
                    port=port,
                    kind=kind,
                    **made._asdict(),
                )

    def findings(self, record: ModulesRecord) -> list[Finding]:
        """Blame, as findings."""
        clean = self.observed.clean
        return [
            Finding(
                "blame",
                math.nan if b.value is None else b.value,
                b.interval,
                len(clean),
                groups=clean.group_count,
                about=About(b.circumstance, b.level, module=b.port),
                better="lower",
                details={"share": b.share, "kind": b.kind},
            )
            for b in record.blame
        ]

    # RQ4 -------------------------------------------------------------------------------------

    def learned(self) -> tuple[str, dict[str, Any] | None]:
        """What the combination was learned on; one for all cases, or the scores of each condition."""
        labels = [s.label for s in self.first]
        if "learned" not in self.spec.strategies or not labels:
            return "", None
        rng = generator(self.plan.spec.seed, "learned")
        usable = [s for s in self.observed.calibration if s.observed.valid]
        pool = [s.observed for s in (self._rows(usable) if usable else self.seen)]
        columns = {m: np.concatenate([o.scores[m] for o in pool]) for m in labels}
        error = np.concatenate([o.scored.error for o in pool])
        marks = rejection.failure_marks(error, np.concatenate([o.failure for o in pool]))
        if usable:
            fusion = rejection.fitted_fusion(columns, marks, np.ones(len(marks), bool), rng=rng)
            if fusion is None:
                return "", None
            name = "steps of calibration cases" if self.by_step else "calibration cases"
            return f"{len(marks)} {name}", {"": fusion}
        clusters = np.concatenate([o.clusters for o in pool])
        scores = rejection.learned_scores(columns, marks, clusters, rng=rng)
        if np.isnan(scores).all():
            return "", None
        ends = np.cumsum([len(o) for o in pool])[:-1]
        parts = np.split(scores, ends)
        by_case = {
            o.name: dict(zip(o.samples.tolist(), p, strict=True))
            for o, p in zip(pool, parts, strict=True)
        }
        return "the test cases, each by a combination learned on other groups", by_case

    def orders(self, here: Observed, learned: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        """The order of rejection of every strategy that the scores allow."""
        # By sample, so that a tied case has the same place under every condition and in every slice.
        seed = self.plan.spec.seed
        ties = np.array([seed_key(seed, "rejection", s) >> 65 for s in here.samples.tolist()])
        u, o = here.scores.get(self.uncertainty), here.scores.get(self.ood)
        found: dict[str, np.ndarray] = {}
        if u is not None and o is not None:
            found = rejection.strategies(u, o, ties)
        elif u is not None:
            found = {"S1": np.argsort(rejection.rejection_ranks(u, ties))}
        elif o is not None:
            found = {"S2": np.argsort(rejection.rejection_ranks(o, ties))}
        scores = self._learned_scores(here, learned)
        if scores is not None:
            found["learned"] = np.argsort(rejection.rejection_ranks(scores, ties))
        return {name: order for name, order in found.items() if name in self.spec.strategies}

    @staticmethod
    def _learned_scores(here: Observed, learned: Mapping[str, Any] | None) -> np.ndarray | None:
        if learned is None or rejection.LEARNED in here.scores:
            return here.scores.get(rejection.LEARNED)
        if "" in learned:
            fusion = learned[""]
            return np.asarray(fusion.score({m: here.scores[m] for m in fusion.references}))
        known = learned.get(replace(here, slice="").name)
        if known is None:
            return None
        return np.array([known[s] for s in here.samples.tolist()])

    def rejections(
        self, learned: Mapping[str, Any] | None
    ) -> Iterator[tuple[Observed, rejection.Rejections]]:
        """Every strategy under every condition, the clean one included, and on all conditions together."""
        for here in (*(s.observed for s in self.seen), *self._together(learned)):
            orders = self.orders(here, learned)
            if not orders:
                return
            rng = generator(self.plan.spec.seed, "rejected", here.name)
            options: dict[str, Any] = {"groups": here.groups, "confidence": self.confidence}
            yield (
                here,
                rejection.rejections(
                    here.scored, orders, budgets=self.spec.budgets, rng=rng, **options
                ),
            )

    def _together(self, learned: Mapping[str, Any] | None) -> Iterator[Observed]:
        """The rows of all corruptions as one stream, those of one case as a group."""
        parts = [s.observed for s in self.shifted]
        scored = put_together([p.scored for p in parts]) if len(parts) > 1 else None
        if scored is None:
            return
        names = [np.array([f"{p.name}/{s}" for s in p.samples], dtype=object) for p in parts]
        scores = {m: np.concatenate([p.scores[m] for p in parts]) for m in parts[0].scores}
        own = [self._learned_scores(p, learned) for p in parts]
        if all(o is not None for o in own):
            scores[rejection.LEARNED] = np.concatenate([o for o in own if o is not None])
        yield replace(
            parts[0],
            circumstance=TOGETHER,
            level=None,
            samples=np.concatenate(names),
            groups=np.concatenate([p.clusters for p in parts]),
            scored=scored,
            failure=scored.failure,
            unanswered=np.concatenate([p.unanswered for p in parts]),
            scores=scores,
            slices={},
        )

    # Section 5.1 -----------------------------------------------------------------------------

    def redundancy(self) -> Iterator[RedundancyRecord]:
        """Pairs of modules that answer the question of the whole system."""
        for one, two in combinations(self.measured, 2):
            both = [(s, a[one], a[two]) for s, a in self.families.items() if one in a and two in a]
            by, first, second = both[0] if both else ("", "", "")
            for seen in self.cases:
                here = seen.observed
                scored = [self._scores_of(seen, self._outputs(seen, m)) for m in (one, two)]
                scores = (here.scores[first], here.scores[second]) if by else None
                found = propagation.redundancy(
                    (scored[0].error, scored[1].error),
                    (scored[0].failure, scored[1].failure),
                    scores,
                )
                yield RedundancyRecord(
                    circumstance=here.circumstance,
                    level=here.level,
                    first=one,
                    second=two,
                    errors=(found.first, found.second),
                    by=by,
                    **{k: v for k, v in found._asdict().items() if k not in ("first", "second")},
                )


@dataclass(frozen=True)
class _Aligned:
    """Steps of the same cases under two conditions, and the case that each is of."""

    columns: tuple[Any, Any]
    rows: np.ndarray


def _aligned(
    before: ModuleTrace, after: ModuleTrace, clean: Condition, here: Condition, samples: np.ndarray
) -> _Aligned:
    """The steps that were taken under clean conditions; None for one that was not taken here."""
    outputs = [none_if_failed(t.output, t.ok) for t in (before, after)]
    if len(before) == len(after) == len(samples):
        return _Aligned((outputs[0], outputs[1]), np.arange(len(samples)))
    place = {clean.case_id(s): i for i, s in enumerate(samples)}
    names = {here.case_id(s): i for i, s in enumerate(samples)}
    there = {
        (names[c], int(t)): i for i, (c, t) in enumerate(zip(after.case, after.step, strict=True))
    }
    rows = np.array([place[c] for c in before.case], dtype=np.int64)
    at = [there.get((int(r), int(t))) for r, t in zip(rows, before.step, strict=True)]
    other = [None if i is None else outputs[1][i] for i in at]
    return _Aligned((list(outputs[0]), other), rows)


def _case_means(steps: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    """The mean of the known steps of each case."""
    known = ~np.isnan(steps)
    count = np.bincount(rows[known], minlength=n)
    total = np.bincount(rows[known], weights=steps[known], minlength=n)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _associated(
    here: Observed, supervisor: str, first: str, second: str, method: Any, of: Any, found: Any
) -> AssociationRecord:
    return AssociationRecord(
        circumstance=here.circumstance,
        level=here.level,
        supervisor=supervisor,
        first=first,
        second=second,
        method=method,
        of=of,
        adjusted=None,
        **found._asdict(),
    )


def _holm(rows: list[Any]) -> list[Any]:
    """One family: all modules and conditions of one supervisor."""
    given = [math.nan if r.p is None else r.p for r in rows]
    for row, p in zip(rows, awareness.holm_adjusted(given), strict=True):
        row.adjusted = None if math.isnan(p) else p
    return rows


# The report ----------------------------------------------------------------------------------


def _places(rows: Sequence[Any]) -> list[tuple[str, float | None]]:
    return list(dict.fromkeys((r.circumstance, r.level) for r in rows))


def _at(rows: Sequence[Any], place: tuple[str, float | None], **known: Any) -> Any:
    """The first row of a place with these values."""
    for r in rows:
        if (r.circumstance, r.level) == place and all(getattr(r, k) == v for k, v in known.items()):
            return r
    return None


def _with_interval(value: float | None, interval: Any, style: numbers.Style = "plain") -> Cell:
    shown = numbers.estimate(value, interval, None, style) if value is not None else None
    return (
        Cell(numbers.NONE)
        if shown is None
        else Cell(shown.value, shown.interval if interval else "")
    )


def _p(row: Any) -> str:
    return numbers.NONE if row.adjusted is None else f"p {numbers.p_value(row.adjusted)}"


def _graphs(record: ModulesRecord) -> list[Block]:
    """A chart a circumstance, a panel a level."""
    places, blocks = _places(record.degradation), []
    highest: dict[str, float] = {}
    for d in record.degradation:
        size = _size(d)
        highest[d.module] = max(highest.get(d.module, 0.0), size or 0.0)
    for circumstance in dict.fromkeys(c for c, _ in places):
        panels = tuple(
            charts.GraphPanel(
                place_name(*place),
                tuple(
                    charts.ModuleBox(m, tuple(_cells(record, m, place, highest)))
                    for m in record.modules
                ),
            )
            for place in places
            if place[0] == circumstance
        )
        caption = (
            f"The system under {circumstance}. Degradation, share of cases whose score rose, and share of the blame "
            "of each module. A stronger shade is worse; of repairs, more is repaired. Each module's change has its own scale."
        )
        draw = drawn(
            charts.system_graph, panels, record.wires, title=f"Modules under {circumstance}"
        )
        blocks.append(Chart(f"figure-modules-{circumstance}", caption, draw))
    return list(blocks)


def _size(d: DegradationRecord) -> float | None:
    return d.relative if d.quantity and not d.quantity.startswith("distance") else d.value


def _cells(
    record: ModulesRecord,
    module: str,
    place: tuple[str, float | None],
    highest: Mapping[str, float],
) -> Iterator[charts.GraphCell]:
    d = _at(record.degradation, place, module=module)
    size = _size(d) if d else None
    if d is not None and size is not None:
        relative = d.relative is not None
        shade = size / highest[module] if highest.get(module) else 0.0
        shown = numbers.value(size, "percent") if relative else numbers.value(size)
        yield charts.GraphCell("worse" if relative else "moved", shown, shade, d.quantity)
    for supervisor in dict.fromkeys(a.supervisor for a in record.awareness):
        a = _at(record.awareness, place, module=module, supervisor=supervisor, against="clean")
        if a is not None and a.effect is not None:
            note = f"{supervisor}: the score of {numbers.value(a.effect, 'percent')} of the cases rose, {_p(a)}"
            shade = max(2 * a.effect - 1, 0.0)
            yield charts.GraphCell(supervisor, numbers.value(a.effect, "percent"), shade, note)
    for kind, name in (("shapley", "blame"), ("repair", "repairs")):
        b = _at(record.blame, place, module=module, kind=kind)
        if b is not None and b.share is not None and b.interval.low > 0:
            text = numbers.value(b.share, "percent")
            yield charts.GraphCell(name, text, min(max(b.share, 0.0), 1.0), f"held clean: {b.port}")


def _degraded(record: ModulesRecord) -> list[Block]:
    names = [SYSTEM, *record.modules]
    rows = []
    for place in _places(record.degradation):
        cells = []
        for m in names:
            d = _at(record.degradation, place, module=m)
            cell = _with_interval(d.value, d.interval) if d else Cell(numbers.NONE)
            if d is not None and d.relative is not None:
                cell = replace(
                    cell, sub=[*cell.lines(), f"{numbers.value(d.relative, 'percent')} worse"]
                )
            if d is not None and d.unknown:
                cell = replace(cell, sub=[*cell.lines(), f"{d.unknown} without an answer"])
            cells.append(cell)
        rows.append([Cell(place_name(*place), strong=True), *cells])
    if not rows:
        return []
    heads = [Column("Condition", number=False)]
    for m in names:
        quantity = next((d.quantity for d in record.degradation if d.module == m), "")
        heads.append(Column(m, title=quantity, sub=quantity))
    words = (
        "The system's measure. Of modules in series the distance to their own clean output: it says "
        "that a module changed, not that it is wrong."
    )
    return [
        Heading("Degradation"),
        Text(words, "small"),
        Table(heads, rows, name="Degradation by module", caption=words, brief=len(rows)),
    ]


def _matrix(
    name: str,
    rows: Sequence[Any],
    columns: Sequence[tuple[str, Mapping[str, Any]]],
    cell: Any,
    words: str,
) -> list[Block]:
    """A row a condition, a column a combination of supervisor and modules."""
    columns = [(h, k) for h, k in columns if any(_at(rows, p, **k) for p in _places(rows))]
    if not rows or not columns:
        return []
    table = []
    for place in _places(rows):
        found = [_at(rows, place, **known) for _, known in columns]
        table.append(
            [
                Cell(place_name(*place), strong=True),
                *(cell(r) if r else Cell(numbers.NONE) for r in found),
            ]
        )
    heads = [Column("Condition", number=False), *(Column(h) for h, _ in columns)]
    return [Heading(name), Text(words, "small"), Table(heads, table, name=name)]


def _aware(record: ModulesRecord) -> list[Block]:
    supervisors = list(dict.fromkeys(a.supervisor for a in record.awareness))
    columns = [
        (f"{s}, {m}", {"supervisor": s, "module": m, "against": "clean"})
        for s in supervisors
        for m in record.modules
    ]

    def effect(a: AwarenessRecord) -> Cell:
        found = _with_interval(a.effect, a.interval, "percent")
        return replace(found, sub=[*found.lines(), _p(a)])

    words = (
        "Share of cases whose score is higher than on clean data, equal ones half; one-sided Wilcoxon signed-rank test, "
        "p corrected by Holm over all modules and conditions of a supervisor."
    )
    blocks = _matrix("Awareness", record.awareness, columns, effect, words)
    below = [(h, {**k, "against": "level below"}) for h, k in columns]
    words = "The same, each level against the level below it."
    rising = [a for a in record.awareness if a.against == "level below"]
    blocks += _matrix("Awareness from level to level", rising, below, effect, words)
    pairs = list(dict.fromkeys((o.supervisor, o.first, o.second, o.top) for o in record.overlaps))
    keys = [
        (f"{s}, {a} and {b}, top {t:.0%}", {"supervisor": s, "first": a, "second": b, "top": t})
        for s, a, b, t in pairs
    ]

    def shared(o: OverlapRecord) -> Cell:
        if o.share is None:
            return Cell(numbers.NONE, f"{o.top:.0%} is less than one case")
        return Cell(
            numbers.value(o.share, "percent"), f"by chance {numbers.value(o.chance, 'percent')}"
        )

    words = "What the riskiest cases of two modules have in common, and what random sets would."
    blocks += _matrix("Overlap", record.overlaps, keys, shared, words)
    return blocks + _associations(record, "spearman", "scores", "Rank correlation of scores")


def _associations(record: ModulesRecord, method: str, of: str, name: str) -> list[Block]:
    rows = [r for r in record.associations if r.method == method and r.of == of]
    keys = list(dict.fromkeys((r.supervisor, r.first, r.second) for r in rows))
    columns = [
        (f"{s}, {a}" + f" and {b}" * (of != "error"), {"supervisor": s, "first": a, "second": b})
        for s, a, b in keys
    ]

    def shown(r: AssociationRecord) -> Cell:
        found = _with_interval(r.value, r.interval, "decimal")
        return replace(found, sub=[*found.lines(), _p(r)])

    kind = "Spearman's rho" if method == "spearman" else "Kendall's tau-b"
    words = (
        f"{kind}, two-sided p corrected by Holm over the conditions and modules of a supervisor."
    )
    return _matrix(name, rows, columns, shown, words)


def _passed_on(record: ModulesRecord) -> list[Block]:
    return [
        *_associations(record, "kendall", "changes", "Changes of two modules' scores"),
        *_associations(record, "kendall", "error", "Change of a score against change of the system's error"),
    ]  # fmt: skip


def _blamed(record: ModulesRecord) -> list[Block]:
    keys = list(dict.fromkeys((b.kind, b.module, b.port) for b in record.blame))
    columns = [
        (f"{m} (repair at {p})" if k == "repair" else m, {"kind": k, "module": m, "port": p})
        for k, m, p in keys
    ]

    def shown(b: BlameRecord) -> Cell:
        found = _with_interval(b.value, b.interval)
        clear = b.share is not None and b.interval.low > 0
        share = [f"{numbers.value(b.share, 'percent')} of the cost"] if clear else []
        return replace(found, sub=[*found.lines(), *share])

    words = (
        "Mean error of a case that goes away if the inputs of a module are held clean: shared by Shapley's value among the modules "
        "that read the corrupted value. Repairs at later modules are not added up. A share is given if the interval is above 0."
    )
    if len({b.module for b in record.blame if b.kind == "shapley"}) == 1:
        words += (
            " Here one module reads the corrupted value: all blame is its own by construction, and "
            "clean input to a later module of a chain repairs everything. Compare degradation and "
            "scores instead."
        )
    return _matrix("Blame", record.blame, columns, shown, words)


def _rejected(record: ModulesRecord) -> list[Block]:
    if not record.rejected:
        return []
    parts = [f"uncertainty: {record.uncertainty or 'none'}", f"OOD score: {record.ood or 'none'}"]
    if record.learned_on:
        parts.append(f"the combination is learned on {record.learned_on}")
    explained = (
        "S1 rejects by uncertainty, S2 by the OOD score, S3 and S4 half by each, S5 what both rank "
        "highest, learned by a combination of all scores; the oracle knows the errors. A budget of "
        "less than one row has no value."
    )
    judged = f"Claims on {QUANTITY} judge {record.claimed} at {max(r.budget for r in record.rejected):.1%}."
    words = f"{explained} {judged} {'; '.join(parts).capitalize()}."
    blocks: list[Block] = [Heading("Rejection"), Text(words, "small")]
    names = list(dict.fromkeys(r.strategy for r in record.rejected))
    for budget in dict.fromkeys(r.budget for r in record.rejected):
        rows, chosen = [], [r for r in record.rejected if r.budget == budget]
        for place in sorted(_places(chosen), key=lambda p: p[0] != TOGETHER):
            cells = []
            for name in names:
                r = _at(chosen, place, strategy=name)
                found = _with_interval(r.value, r.interval)
                lines = [] if r.of_oracle is None or name == rejection.ORACLE else [
                    f"{numbers.value(r.of_oracle, 'percent')} of the oracle's gain "
                    f"({numbers.interval(r.of_oracle_interval, 'percent')})"
                ]  # fmt: skip
                cells.append(replace(found, sub=[*found.lines(), *lines], strong=r.best))
            rows.append([Cell(place_name(*place), strong=True), *cells])
        heads = [Column("Condition", number=False), *(Column(n) for n in names)]
        title = f"{record.measure} after rejecting {budget:.1%}"
        blocks.append(Table(heads, rows, name=title, fold=title, brief=min(len(rows), 6)))
    for place in _places(record.curves):
        own = [c for c in record.curves if (c.circumstance, c.level) == place]
        curves = [
            charts.CurveLine(
                c.strategy,
                tuple(
                    (k / c.cases, v)
                    for k, v in zip(c.sizes, c.values, strict=True)
                    if v is not None
                ),
                aside=c.strategy in (rejection.ORACLE, rejection.RANDOM),
            )
            for c in own
        ]
        areas = ", ".join(f"{c.strategy} {numbers.value(c.area)}" for c in own)
        title = f"Rejection, {place_name(*place)}"
        draw = drawn(
            charts.curves_chart, curves, title=title, across="rejected", up=record.measure,
            style="plain", across_style="percent",
        )  # fmt: skip
        caption = f"{record.measure} of what is left, {place_name(*place)}. Areas: {areas}."
        blocks.append(
            Chart(f"figure-rejection-{place[0] or 'clean'}-{place[1] or 0:g}", caption, draw)
        )
    return blocks


def _redundant(record: ModulesRecord) -> list[Block]:
    if not record.redundancy:
        return []
    rows = [
        [
            Cell(place_name(r.circumstance, r.level), f"{r.first} and {r.second}", strong=True),
            Cell(numbers.value(r.errors[0])),
            Cell(numbers.value(r.errors[1])),
            Cell(numbers.value(r.chosen), r.by),
            Cell(numbers.value(r.better_of_both)),
            Cell(
                numbers.value(r.both_fail, "percent"),
                f"if independent {numbers.value(r.if_independent, 'percent')}",
            ),
        ]
        for r in record.redundancy
    ]
    heads = [
        Column("Condition", number=False),
        Column("First", title="mean error of a case"),
        Column("Second"),
        Column("Chosen by score"),
        Column("Better of both", title="if it were known"),
        Column("Both fail"),
    ]
    return [Heading("Two modules in parallel"), Table(heads, rows, name="Redundancy")]
