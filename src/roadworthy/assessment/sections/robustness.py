"""The section `robustness`: how much performance a change of circumstances may cost, and does.

The seven tasks of Wozniak et al. 2024: target circumstances from several points of view (task 1) and
their significance (2), what the source data already show (3), the gap that follow-up cases fill (4),
performance (5), distance (6), and the relation loss <= epsilon(distance) for each circumstance and for
their mixture (7). If the file states an epsilon the relation is a claim. Source and target are resampled
together, by groups. Of a mixture only the pictures that it changed are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from roadworthy.analysis.observed import MET_NONE
from roadworthy.analysis.robustness import gap, proposal, relation
from roadworthy.analysis.robustness.circumstances import (
    TargetCircumstance,
    ranked,
    ratings_by_factor,
    specification_notes,
)
from roadworthy.analysis.robustness.estimators import (
    ESTIMATORS,
    FEWEST,
    calibrate_score,
    estimated_frequency,
)
from roadworthy.assessment.observations import Observations, Seen
from roadworthy.assessment.section import Result, Results, Section, drawn, nothing
from roadworthy.cases.circumstance import SCALES, Circumstance, Search
from roadworthy.claims import Quantity
from roadworthy.data.seeds import generator
from roadworthy.data.values import BOXES, IMAGE, Unreadable
from roadworthy.execution.pictures import PICTURES, conditions_of
from roadworthy.execution.plan import Extra, Plan, Wants
from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.measures.coco import detection_summary
from roadworthy.measures.scored import Scored, none_if_failed
from roadworthy.registry import did_you_mean, get, register
from roadworthy.report import charts, numbers
from roadworthy.report.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Heading,
    Status,
    Table,
    Text,
    place_name,
)
from roadworthy.spec import Assessment, ClaimSpec
from roadworthy.spec.assessment import Strict
from roadworthy.statistics import Interval
from roadworthy.statistics.arguments import group_codes
from roadworthy.statistics.bootstrap import Resampled
from roadworthy.store.record import Number, RecordPart, StoredInterval
from roadworthy.store.record import Record as RunRecord

KEY, QUANTITY = "robustness", "robustness_margin"
MIXTURE = "mixture"


class PieceSpec(Strict):
    """Epsilon = slope x distance + intercept, up to and including a distance."""

    example = "{up_to: 0.25, intercept: 0.01}"
    up_to: float = Field(gt=0)
    slope: float = 0.0
    intercept: float = 0.0


class SourceSpec(Strict):
    """How often the source data show a circumstance: one of the four ways to know it."""

    example = "0.05, {found: 12, of: 200}, {where: {site: B}} or {estimator: blur}"
    share: float | None = Field(None, ge=0, le=1)
    found: int | None = Field(None, ge=0, description="Of a random sample looked at by a person")
    of: int | None = Field(None, ge=1, description="Size of that sample")
    where: dict[str, Any] | None = Field(None, description="Test cases with this metadata")
    estimator: str | None = Field(None, description=f"From pixels: {', '.join(ESTIMATORS)}")

    @model_validator(mode="after")
    def _one_way(self) -> SourceSpec:
        ways = [getattr(self, way) is not None for way in ("share", "found", "where", "estimator")]
        if sum(ways) != 1 or (self.found is None) != (self.of is None):
            raise ValueError(f"takes exactly one of: {self.example}")
        if self.found is not None and self.of is not None and self.found > self.of:
            raise ValueError(f"found {self.found} is more than the {self.of} looked at")
        if self.estimator is not None and self.estimator not in ESTIMATORS:
            near = did_you_mean(self.estimator, ESTIMATORS)
            raise ValueError(f"unknown estimator {self.estimator!r}{near}: {', '.join(ESTIMATORS)}")
        return self


def _share(given: Any) -> Any:
    """A number is the share itself."""
    plain = isinstance(given, int | float) and not isinstance(given, bool)
    return {"share": given} if plain else given


Source = Annotated[SourceSpec, BeforeValidator(_share, json_schema_input_type=float | SourceSpec)]


def _listed(given: Any) -> Any:
    """Pieces of epsilon are a list, even if there is one."""
    if isinstance(given, int | float | str | dict):
        raise ValueError(f"is a list of pieces: [{PieceSpec.example}]")
    return given


class RobustnessSpec(Strict):
    """What loss of performance is tolerated at what distance."""

    model_config = ConfigDict(extra="forbid")

    goal: str = Field("", description="What is evaluated, for whom; stands in the report")
    viewpoints: dict[str, dict[str, list[str]]] = Field(
        default_factory=dict,
        description="Another point of view: {radiographer: {an old scanner is used: [lines, noise]}}",
    )
    source: dict[str, Source] = Field(
        default_factory=dict,
        description="How often the test data show a circumstance: a share, or how to find it out",
    )
    measures: list[str | dict[str, dict[str, Any]]] = Field(
        default=[], description="By default the measure of the file, and for boxes ap, ap50, "
        "precision and recall; with settings {recall: {min_score: 0.3}}",
    )  # fmt: skip
    distance: str | dict[str, dict[str, Any]] = Field(
        "ssim", description="Between a picture and its original; `roadworthy list distances`"
    )
    between_sets: list[str | dict[str, dict[str, Any]]] = Field(
        default=["frechet", "paired_euclidean", "centroid"],
        description="Distances between the features of two sets; `roadworthy list set_distances`",
    )
    features: str = Field(
        "built-in", description="For distances between sets: built-in, or a function mine.py:name"
    )
    epsilon: Annotated[list[PieceSpec], BeforeValidator(_listed)] | None = Field(
        None, description="Tolerated loss: [{up_to: 0.25, intercept: 0.01}, {up_to: 1, slope: 1}]"
    )
    significance: int | None = Field(
        None,
        ge=1,
        le=125,
        description="Epsilon shrinks for circumstances that are more significant",
    )
    loss: Literal["one-sided", "absolute"] = Field(
        "one-sided", description="absolute: an improvement counts as a loss, as in the paper"
    )
    halvings: int = Field(
        0, ge=0, le=10, description="Between the first level that breaks and the one before it, how "
        "often the gap is halved: each time the subject answers all cases once more",
    )  # fmt: skip
    reference: str | None = Field(
        None,
        description="Run of a reference model or of annotators; an epsilon is proposed from it",
    )
    resamples: int = Field(400, ge=20)

    def pieces(self) -> relation.Epsilon | None:
        """The tolerated loss as a function."""
        if self.epsilon is None:
            return None
        return relation.Epsilon.of([(p.up_to, p.slope, p.intercept) for p in self.epsilon])

    def chosen_distance(self) -> tuple[str, dict[str, Any]]:
        """The distance between pictures and its settings."""
        return _named(self.distance)


def _named(entry: str | Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Name and settings of a component, as the file writes it."""
    if isinstance(entry, str):
        return entry, {}
    if len(entry) != 1:
        raise ValueError("names several distances; write one: {cw_ssim: {levels: 4}}")
    ((name, settings),) = entry.items()
    return name, dict(settings)


class _Place(RecordPart):
    circumstance: str = ""
    level: float | None = None


class TargetRecord(RecordPart):
    """Tasks 1 and 2: a circumstance of use."""

    circumstance: str
    description: str = ""
    probability: Number = None
    exposure: int | None = None
    likelihood: int | None = None
    severity: int | None = None
    significance: int | None = None
    paired: bool = Field(default=True, description="Whether its pictures have an original")
    seen_as: dict[str, list[str]] = Field(
        default_factory=dict, description="By point of view, what it is called there"
    )


class GapRecord(RecordPart):
    """Tasks 3 and 4: what the source data lack."""

    circumstance: str
    target: Number = None
    source: Number = None
    interval: StoredInterval | None = Field(default=None, description="of the source frequency")
    origin: str = ""
    gap: Number = None
    status: str = ""


class PerformanceRecord(_Place):
    """Task 5: one metric on the source data (no circumstance) or a target set."""

    measure: str
    value: Number
    interval: StoredInterval | None = None
    cases: int


class CountRecord(_Place):
    """Task 5: what was found, missed and false at an IoU of 0.5, and figures by class."""

    label: str = Field(default="", description="The class; empty for all of them")
    found: int
    missed: int
    false: int
    precision: Number
    recall: Number
    ap: Number
    ap50: Number


class DistanceRecord(_Place):
    """Task 6: how far the target set is from the source data."""

    method: str
    metric: str = Field(description="M14 to M17")
    value: Number
    interval: StoredInterval | None = None
    pairs: int = 0
    changed: Number = Field(default=None, description="Share of pictures that differ")
    note: str = ""


class RelationRecord(_Place):
    """Task 7: the relation for one metric."""

    measure: str
    source: Number
    target: Number
    loss: Number
    interval: StoredInterval | None
    distance: Number
    distance_interval: StoredInterval | None
    epsilon: Number = None
    weight: float = 1.0
    margin: Number = None
    outcome: str = ""
    unweighted: str = ""
    cases: int = 0
    groups: int = 0


class OutcomeRecord(_Place):
    """Whether the relation holds for all metrics, corrected over circumstances."""

    outcome: str
    unadjusted: str
    holds: int
    metrics: int
    p: Number = None
    adjusted: Number = None


class ProposalRecord(RecordPart):
    """An epsilon read off the data; a proposal, not used unasked."""

    circumstance: str = Field(default="", description="Of a load test; empty if from a reference")
    measure: str
    knee: Number = None
    basis: str = ""
    pieces: list[tuple[float, float, float]]


class BreakRecord(RecordPart):
    """Where the relation breaks as the level rises."""

    circumstance: str
    holds_at: Number = Field(default=None, description="Highest level shown to hold")
    breaks_at: Number = Field(default=None, description="Lowest level shown to break")
    inconclusive_at: Number = None
    crossed_after: Number = Field(
        default=None, description="Highest level whose estimated margin is 0 or more, before the first below 0"
    )  # fmt: skip
    crossed_at: Number = Field(
        default=None, description="Lowest level whose estimated margin is below 0"
    )
    probes: dict[str, float] = Field(
        default_factory=dict, description="Margins at levels between, tried by halving"
    )


class RobustnessRecord(RecordPart):
    """All seven tasks."""

    goal: str = ""
    targets: list[TargetRecord] = Field(default_factory=list)
    ratings: dict[str, list[int]] = Field(default_factory=dict)
    gaps: list[GapRecord] = Field(default_factory=list)
    missing: int | None = None
    over_or_under: int | None = None
    covered: int | None = None
    performance: list[PerformanceRecord] = Field(default_factory=list)
    counts: list[CountRecord] = Field(default_factory=list)
    distances: list[DistanceRecord] = Field(default_factory=list)
    relation: list[RelationRecord] = Field(default_factory=list)
    outcomes: list[OutcomeRecord] = Field(default_factory=list)
    proposals: list[ProposalRecord] = Field(default_factory=list)
    breaks: list[BreakRecord] = Field(default_factory=list)
    epsilon: list[tuple[float, float, float]] | None = None
    significance: int | None = None
    loss: str = "one-sided"
    distance: str = ""
    measures: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class RobustnessResult(Result):
    """With what claims are judged on."""

    verdicts: Mapping[tuple[str, float | None], Mapping[str, JudgedMetric]] = field(
        default_factory=dict
    )


@register("sections", KEY)
class Robustness(Section):
    """Loss of performance against distance (Wozniak et al. 2024)."""

    keys = {KEY: RobustnessSpec}
    after = ("performance",)
    quantities = (
        Quantity(
            QUANTITY,
            "the tolerated loss epsilon(distance) less the loss, of the metric with the least of it.",
            better="higher",
            low=-2.0,
            high=2.0,
            style="decimal",
            places=("circumstance",),
            one_way=True,
        ),
    )
    Record = RobustnessRecord

    def check_file(self, spec: Assessment) -> None:
        """Names that are known, an epsilon that can be meant; an epsilon is a claim."""
        claimed = [i for i, c in enumerate(spec.claims) if c.quantity == QUANTITY]
        given = spec.part(KEY, RobustnessSpec)
        if given is None or given.epsilon is None:
            if claimed:
                raise spec.error(
                    ("claims", claimed[0]),
                    "claims a tolerated loss, and the file states none. Add "
                    f"`robustness: {{epsilon: [{PieceSpec.example}]}}`",
                )
            if given is None:
                return
        with spec.located((KEY, "epsilon")):
            epsilon = given.pieces()
        named = {("source", name) for name in given.source}
        linked = [n for view in given.viewpoints.values() for names in view.values() for n in names]
        named |= {("viewpoints", name) for name in linked}
        for key, name in sorted(named):
            if name not in spec.circumstances:
                near = did_you_mean(name, spec.circumstances)
                raise spec.error((KEY, key), f"{name!r} is not among the circumstances{near}")
            if key == "source" and spec.circumstances[name].mixture is not None:
                raise spec.error((KEY, key), f"{name!r} is a mixture; state its circumstances")
        for i, entry in enumerate(given.measures):
            with spec.located((KEY, "measures", i)):
                name, settings = _named(entry)
                get("measures", name).check(settings)
        _check_distance(spec, given)
        if given.reference is not None:
            with spec.located((KEY, "reference")):
                _reference(spec, given.reference)
        if given.halvings and epsilon is None:
            raise spec.error(
                (KEY, "halvings"), "halves the gap at which epsilon is crossed; state epsilon"
            )
        if epsilon is not None and not claimed:
            content = {"id": "ROBUSTNESS", QUANTITY: {"min": 0}, "every": "circumstances"}
            spec.claims.append(ClaimSpec.model_validate(content))

    def check(self, plan: Plan) -> None:
        """Pictures and labelled cases are needed; an estimator learns from reference data."""
        data, given = plan.data["test"], _given(plan)
        if data.input_kind is not IMAGE:
            raise plan.spec.error((KEY,), f"compares images; inputs are {data.input_kind.name}")
        if given.halvings and plan.answers_by_id:
            raise plan.spec.error(
                (KEY, "halvings"),
                "asks the subject at levels between those of the file; predictions in a file cannot "
                "answer. Remove it, or export more levels",
            )
        for i, name in enumerate(_measures(plan)):
            wanted = get("measures", name).traits.get("of")
            kinds = (
                plan.subject.output_kind.name,
                data.target_kind.name if data.target_kind else "",
            )
            if wanted is not None and tuple(wanted) != kinds:
                raise plan.spec.error(
                    (KEY, "measures", i),
                    f"{name} compares {wanted[0]} with {wanted[1]}, not {kinds[0]}",
                )
        _check_first_picture(plan, given)
        for name, how in given.source.items():
            learnt = "reference" in plan.data and plan.circumstance(name).kind == "transform"
            if how.estimator and not learnt:
                raise plan.spec.error(
                    (KEY, "source", name),
                    "an estimator is calibrated on transformed reference data. Add "
                    "`data.reference` and a transform, or state the share",
                )
            if how.estimator and len(plan.data["reference"]) < FEWEST:
                raise plan.spec.error(
                    (KEY, "source", name),
                    f"an estimator is calibrated on {FEWEST} reference cases or more; state the share",
                )
            if how.where is not None:
                with plan.spec.located((KEY, "source", name)):
                    data.where(how.where)

    def wants(self, plan: Plan) -> Wants:
        """Distances and features of all pictures, and what estimators say of them."""
        given = _given(plan)
        distance, settings = given.chosen_distance()
        looked = {"features": given.features}
        paired = {"distance": distance, "settings": settings, **looked}
        searches = [("", Search.of(PICTURES, looked))]
        for c in _compared(plan):
            asked = looked if c.own_data is not None else paired
            searches.append((c.name, Search.of(PICTURES, asked, c.role)))
        estimated = _estimated(given)
        if estimated:
            every = {"estimators": list(estimated.values())}
            searches[0] = ("", Search.of(PICTURES, {**looked, **every}))
            searches.append(("", Search.of(PICTURES, every, "reference")))
            for name, how in estimated.items():
                searches.append((name, Search.of(PICTURES, {"estimators": [how]}, "reference")))
        return Wants(searches=tuple(searches))

    def wants_more(self, plan: Plan, observed: Observations) -> Wants:
        """For each circumstance that breaks, the middle between the levels where it does."""
        given = _given(plan)
        if not given.halvings:
            return Wants()
        found = _Analysis(plan, observed).next_probes()
        distance, settings = given.chosen_distance()
        asked = {"distance": distance, "settings": settings}
        return Wants(
            conditions=tuple(Extra("test", name, level) for name, level in found),
            searches=tuple(
                (name, Search.of(PICTURES, asked, level=level)) for name, level in found
            ),
        )

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """All seven tasks, from tables."""
        return _Analysis(plan, observed).result()

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The least margin over the metrics, circumstance by circumstance."""
        assert isinstance(result, RobustnessResult)
        found = [
            _evidence(place, verdicts)
            for place, verdicts in result.verdicts.items()
            if claim.circumstance in ("", place[0]) and claim.level in (None, place[1])
        ]
        return found or [nothing(QUANTITY, "no circumstance has a distance to its original")]

    def view(self, record: RobustnessRecord, run: RunRecord) -> list[Block]:
        """The relation first, then the tasks that lead to it."""
        lead = [Heading("Robustness", id=KEY), *_verdict_blocks(record)]
        tasks = (_circumstance_blocks, _gap_blocks, _performance_blocks, _distance_blocks)
        rest = [block for task in tasks for block in task(record)]
        return [*lead, *rest, *_proposal_blocks(record), *_traceability(record)]


def _given(plan: Plan) -> RobustnessSpec:
    return plan.spec.part(KEY, RobustnessSpec) or RobustnessSpec.model_validate({})


def _check_distance(spec: Assessment, given: RobustnessSpec) -> None:
    """One distance between images, with settings that it takes."""
    with spec.located((KEY, "distance")):
        name, settings = given.chosen_distance()
        if name == "psnr":
            raise ValueError("psnr falls with distance and is infinite at 0; use mse")
        component = get("distances", name)
        if "image" not in component.traits.get("of", ()):
            raise ValueError(f"{name} is no distance between images; use ssim, cw_ssim or mse")
        component.check(settings)
    for i, entry in enumerate(given.between_sets):
        with spec.located((KEY, "between_sets", i)):
            name, settings = _named(entry)
            get("set_distances", name).check(settings)


def _check_first_picture(plan: Plan, given: RobustnessSpec) -> None:
    """The distance takes pictures of this size and type."""
    readable = (i for i in plan.data["test"].inputs[:20] if not isinstance(i, Unreadable))
    first = next(readable, None)
    if first is not None:
        name, settings = given.chosen_distance()
        with plan.spec.located((KEY, "distance")):
            get("distances", name).build(first, first, **settings)


def _measures(plan: Plan) -> dict[str, dict[str, Any]]:
    """The metrics and their settings; those that the file states for its own measure hold here too,
    and its `min_score` for all that take one."""
    spec, given = plan.spec, [_named(entry) for entry in _given(plan).measures]
    found: dict[str, dict[str, Any]] = {}
    for name, settings in given or [(name, {}) for name in _usual(plan)]:
        stated = dict(spec.measure_parameters)
        if name != spec.measure_name:
            taken = get("measures", name).parameters
            stated = {k: v for k, v in stated.items() if k == "min_score" and k in taken}
        found[name] = {**stated, **settings}
    return found


def _reference(spec: Assessment, path: str) -> RobustnessRecord:
    """The robustness of a reference model, from its run."""
    record = RunRecord.read(spec.base / path).sections.get(KEY)
    if not isinstance(record, RobustnessRecord):
        raise ValueError(f"{path} has no section `robustness`; add `robustness: {{}}` to its file")
    return record


def _compared(plan: Plan) -> list[Circumstance]:
    """Circumstances with pictures of their own: transforms, mixtures, data sets."""
    kinds = ("transform", "mixture", "dataset")
    return [c for c in plan.circumstances if c.kind in kinds and c.port == "input"]


def _estimated(given: RobustnessSpec) -> dict[str, str]:
    """By circumstance, the estimator of its frequency in the source data."""
    return {name: how.estimator for name, how in given.source.items() if how.estimator}


@dataclass(frozen=True)
class JudgedMetric:
    """The relation for one metric at one place, and what it was judged on."""

    source: float
    target: float
    found: relation.RelationVerdict
    n: int
    groups: int

    def margin(self, confidence: float) -> tuple[float, float]:
        """The least and the greatest margin that loss and distance leave open."""
        assert self.found.at is not None
        weighted = self.found.at(confidence).weighted
        if math.isnan(weighted.low):
            return -math.inf, math.inf
        return weighted.low, weighted.high


def _evidence(place: tuple[str, float | None], metrics: Mapping[str, JudgedMetric]) -> Evidence:
    """The least margin over the metrics."""
    margins = {name: one.found.weighted.margin for name, one in metrics.items()}
    # A metric that is not defined does not hide one that is breached.
    defined = {name: m for name, m in margins.items() if not math.isnan(m)}
    unknown = [name for name in margins if name not in defined]
    worst = min(defined or margins, key=margins.__getitem__)
    if unknown and not margins[worst] < 0:
        worst = unknown[0]
    some = metrics[worst]

    def interval(confidence: float, sided: Sided) -> Interval:
        asked = (1 + confidence) / 2 if sided == "two" else confidence
        # All metrics must hold, so each may be judged at full confidence; one that does not is
        # the worst of several, which is corrected (Bonferroni).
        low = min(one.margin(asked)[0] for one in metrics.values())
        high = min(one.margin(1 - (1 - asked) / len(metrics))[1] for one in metrics.values())
        ends = (-math.inf if sided == "upper" else low, math.inf if sided == "lower" else high)
        return Interval(*ends, confidence, "bootstrap of source and target together")

    reason = ""
    if math.isnan(some.found.loss):
        reason = f"{worst} is not defined on these cases"
    elif math.isnan(margins[worst]):
        reason = f"epsilon says nothing of distance {some.found.d:.3g}"
    return Evidence(
        QUANTITY,
        About(circumstance=place[0], level=place[1]),
        margins[worst],
        some.n,
        "higher",
        interval,
        groups=some.groups,
        effective_n=some.groups,
        proportion=False,
        reason=reason,
    )


@dataclass(frozen=True)
class TargetSet:
    """A target set beside its source: which rows are compared, and how far they are."""

    circumstance: Circumstance
    seen: Seen
    rows: np.ndarray
    """Test cases whose picture the circumstance changed."""
    d: np.ndarray | None
    """Of each of them; None if pictures have no original."""
    features: np.ndarray

    @property
    def place(self) -> tuple[str, float | None]:
        """Circumstance and level."""
        return self.circumstance.name, self.seen.condition.level


class _Analysis:
    """The seven tasks over the tables of a run."""

    def __init__(self, plan: Plan, observed: Observations) -> None:
        self.plan, self.observed, self.given = plan, observed, _given(plan)
        self.epsilon, self.notes = self.given.pieces(), list[str]()
        self.warnings = list[str]()
        self.measures = _measures(plan)
        self.names = list(self.measures)
        self.clean = observed.seen[0]
        codes, self.groups = group_codes(self.clean.observed.groups, len(self.clean.observed))
        self.codes = codes
        rng = generator(plan.spec.seed, KEY)
        drawn = rng.integers(0, self.groups, (self.given.resamples, self.groups))
        counts = np.array([np.bincount(row, minlength=self.groups) for row in drawn])
        self.weights = counts[:, codes].astype(np.float64)
        self.source: dict[str, Scored] = {}
        self.target: dict[tuple[str, float | None], dict[str, Scored]] = {}

    def result(self) -> RobustnessResult:
        """Record, findings and what claims are judged on."""
        record = RobustnessRecord(
            goal=self.given.goal, epsilon=_rows_of(self.epsilon), loss=self.given.loss,
            significance=self.given.significance, measures=self.names,
            distance=_described("distances", *self.given.chosen_distance()),
        )  # fmt: skip
        self._specification(record)
        targets = list(self._targets())
        self._performance(record, targets)
        self._distances(record, targets)
        verdicts = self._relation(record, targets)
        self._breaks(record)
        self._proposals(record, targets)
        findings = [_finding(r) for r in record.relation]
        if targets and self.epsilon is not None and self.groups < ROUGH:
            self.notes.append(
                f"Robustness is judged on {self.groups} independent groups: intervals are rough, and do not "
                "foresee a failure that none of these groups shows."
            )
        return RobustnessResult(
            record, findings, self.notes, warnings=self.warnings, verdicts=verdicts
        )

    def _specification(self, record: RobustnessRecord) -> None:
        """Tasks 1 to 4."""
        given, circumstances = self.given, [c for c in self.plan.circumstances if c.kind != MIXTURE]
        own = [
            TargetCircumstance(c.name, c.description, c.probability, c.exposure, c.likelihood, c.severity)
            for c in circumstances
        ]  # fmt: skip
        by_name = {c.name: c for c in circumstances}
        for t in ranked(own):
            c = by_name[t.id]
            seen_as = {
                view: [what for what, names in links.items() if t.id in names]
                for view, links in given.viewpoints.items()
            }
            record.targets.append(
                TargetRecord(
                    circumstance=t.id, description=c.description, probability=t.probability,
                    exposure=c.exposure, likelihood=c.likelihood, severity=c.severity,
                    significance=t.significance, paired=c.kind == "transform",
                    seen_as={view: what for view, what in seen_as.items() if what},
                )
            )  # fmt: skip
        record.ratings = {k: list(v) for k, v in ratings_by_factor(own).items()}
        self.notes += specification_notes(own)
        if given.source:
            known = {n: self._source(n, how) for n, how in given.source.items()}
            found = gap.gap_list(
                own, {n: source for n, source in known.items() if source is not None}
            )
            record.missing, record.covered = found.missing, found.covered
            record.over_or_under = found.over_or_under
            record.gaps = [
                GapRecord(
                    circumstance=row.target.id, target=row.target.probability, gap=row.gap,
                    source=row.source.value if row.source else None, status=row.status,
                    interval=row.source.interval if row.source else None,
                    origin=_origin(row.source, given.source.get(row.target.id)),
                )
                for row in found.rows
            ]  # fmt: skip

    def _source(self, name: str, how: SourceSpec) -> gap.SourceFrequency | None:
        """How often the test data show a circumstance."""
        if how.share is not None:
            return gap.known_frequency(how.share)
        if how.found is not None and how.of is not None:
            return gap.counted_frequency(how.found, how.of, confidence=self.plan.spec.confidence)
        if how.where is not None:
            return gap.known_frequency(float(self.plan.data["test"].where(how.where).mean()))
        at = list(_estimated(self.given)).index(name) - len(_estimated(self.given))
        table = self.observed.searched
        clean, test = table[f"reference:@{PICTURES}"][:, at], table[f"@{PICTURES}"][:, at]
        levels = [c.level or 0.0 for c in conditions_of(self.plan, name, "reference")]
        nearest = min(range(len(levels)), key=lambda k: abs(levels[k] - CALIBRATED_AT))
        shown = table[f"reference:{name}@{PICTURES}"][:, nearest]
        groups = {role: self.plan.data[role].groups for role in ("reference", "test")}
        known, given = ~np.isnan(clean) & ~np.isnan(shown), ~np.isnan(test)
        try:
            calibration = calibrate_score(
                clean[known], shown[known], _those(groups["reference"], known)
            )
            return estimated_frequency(
                test[given], calibration, _those(groups["test"], given),
                confidence=self.plan.spec.confidence,
            )  # fmt: skip
        except ValueError as error:
            self.notes.append(f"How often the data show {name} is not estimated: {error}.")
            return None

    def _targets(self) -> Iterator[TargetSet]:
        """Every condition with pictures of its own."""
        seen = {(s.condition.circumstance, s.condition.level): s for s in self.observed.seen}
        for c in _compared(self.plan):
            where = conditions_of(self.plan, c.name, c.role)
            table = self.observed.searched[f"{c.name}@{PICTURES}"]
            parts = table.reshape(len(table), len(where), -1)
            for k, condition in enumerate(where):
                here, numbers = seen[c.name, condition.level], parts[:, k]
                if c.own_data is not None:
                    yield TargetSet(c, here, np.arange(len(table)), None, numbers)
                    continue
                met = here.observed.met
                changed = np.ones(len(table), bool) if met is None else met != MET_NONE
                rows = np.flatnonzero(changed & ~np.isnan(numbers[:, 0]))
                if lost := int(changed.sum()) - len(rows):
                    where_ = place_name(c.name, condition.level)
                    self.notes.append(
                        f"{where_}: {lost} pictures cannot be read, made or compared and are left out "
                        "of the relation."
                    )
                yield TargetSet(c, here, rows, numbers[rows, 0], numbers[rows, 1:])

    def _probes(self) -> Iterator[TargetSet]:
        """Strengths between two levels that were tried."""
        for name, here in self.observed.probes.items():
            d = self.observed.searched[f"{name}@{PICTURES}"][:, 0]
            rows = np.flatnonzero(~np.isnan(d))
            c = self.plan.circumstance(here.condition.circumstance)
            yield TargetSet(c, here, rows, d[rows], np.empty((len(rows), 0)))

    def _scored(self, seen: Seen) -> dict[str, Scored]:
        """All metrics of one condition."""
        outputs = none_if_failed(seen.system.output, seen.system.ok)
        return {
            n: get("measures", n).bind(**settings)(outputs, seen.targets)
            for n, settings in self.measures.items()
        }

    def _performance(self, record: RobustnessRecord, targets: Sequence[TargetSet]) -> None:
        """Task 5: every metric on the source data and on each target set, whole."""
        self._measure(targets)
        for name, one in self.source.items():
            if _nothing_to_lose(one):
                self.warnings.append(
                    f"{name} is {one.value():g} on clean data: there is nothing to lose, and robustness is "
                    "not judged by it. Check boxes and classes of data and answers."
                )
        Performed = tuple[tuple[str, float | None], dict[str, Scored], tuple[np.ndarray, int]]
        sets_: list[Performed] = [(("", None), self.source, (self.weights, self.groups))]
        sets_ += [(t.place, self.target[t.place], self._own_weights(t)) for t in targets]
        if self.plan.subject.output_kind is BOXES:
            for circumstance, level, seen in [
                ("", None, self.clean),
                *((*t.place, t.seen) for t in targets),
            ]:
                record.counts += self._counts(circumstance, level, seen)
        for (circumstance, level), scored, (weights, groups) in sets_:
            for name, one in scored.items():
                value, draws = one.value(), one.values(weights)
                record.performance.append(
                    PerformanceRecord(
                        circumstance=circumstance, level=level, measure=name, value=value,
                        interval=self._interval(value, draws, groups), cases=len(one),
                    )
                )  # fmt: skip

    def _measure(self, targets: Sequence[TargetSet]) -> None:
        self.source = self._scored(self.clean)
        self.target = {t.place: self._scored(t.seen) for t in targets}

    def _counts(self, circumstance: str, level: float | None, seen: Seen) -> Iterator[CountRecord]:
        """What was found, missed and false, in all and by class."""
        outputs = none_if_failed(seen.system.output, seen.system.ok)
        whole = detection_summary(outputs, seen.targets, min_score=self.plan.min_score)
        classes = self.plan.data["test"].classes or ()
        every = {"": whole}
        if len(whole.by_class) > 1:
            every |= {_class_name(label, classes): one for label, one in whole.by_class.items()}
        for label, one in every.items():
            yield CountRecord(
                circumstance=circumstance, level=level, label=label, found=round(one.tp),
                missed=round(one.fn), false=round(one.fp), precision=one.precision,
                recall=one.recall, ap=one.ap, ap50=one.ap50,
            )  # fmt: skip

    def _own_weights(self, target: TargetSet) -> tuple[np.ndarray, int]:
        """Resamples of a target set and its groups; those of the source if its cases are the same."""
        if target.circumstance.own_data is None:
            return self.weights, self.groups
        codes, count = group_codes(target.seen.observed.groups, len(target.seen.observed))
        rng = generator(self.plan.spec.seed, KEY, target.circumstance.name)
        drawn = rng.integers(0, count, (self.given.resamples, count))
        weights = [np.bincount(row, minlength=count)[codes] for row in drawn]
        return np.array(weights, dtype=float), count

    def _interval(self, value: float, draws: np.ndarray, groups: int) -> Interval:
        known = draws[np.isfinite(draws)]
        found = Resampled(value, known, len(draws) - len(known), groups, acceleration=None)
        return found.interval(confidence=self.plan.spec.confidence)

    def _groups(self, target: TargetSet) -> int:
        """How many groups the compared pictures of a target set are of."""
        return len(np.unique(self.codes[target.rows]))

    def _distances(self, record: RobustnessRecord, targets: Sequence[TargetSet]) -> None:
        """Task 6: between pictures and their originals, and between sets of features."""
        own = self.observed.searched[f"@{PICTURES}"]
        last = len(_estimated(self.given))
        source = own[:, : own.shape[1] - last]
        for t in targets:
            place: dict[str, Any] = {"circumstance": t.place[0], "level": t.place[1]}
            if t.d is not None and len(t.d):
                weights = self.weights[:, t.rows]
                value, draws = float(t.d.mean()), _weighted_mean(weights, t.d)
                record.distances.append(
                    DistanceRecord(
                        **place, method=record.distance, metric="M14", value=value,
                        interval=self._interval(value, draws, self._groups(t)), pairs=len(t.d),
                        changed=len(t.rows) / len(self.clean.observed),
                    )
                )  # fmt: skip
            originals = source[t.rows] if t.d is not None else source
            for entry in self.given.between_sets:
                name, settings = _named(entry)
                component = get("set_distances", name)
                paired = bool(component.traits.get("paired"))
                if paired and t.d is None:
                    continue
                one, other = _finite(originals, t.features, paired)
                try:
                    found = component.build(one, other, **settings)
                except ValueError as error:
                    self.notes.append(f"{place_name(*t.place)}: no {name} distance. {error}.")
                    continue
                record.distances.append(
                    DistanceRecord(
                        **place,
                        method=_described("set_distances", name, settings),
                        metric=component.traits["known_as"],
                        value=found.value,
                        pairs=len(other) if paired else 0,
                        note="; ".join(found.notes),
                    )
                )

    def _relation(
        self, record: RobustnessRecord, targets: Sequence[TargetSet]
    ) -> dict[tuple[str, float | None], dict[str, JudgedMetric]]:
        """Task 7: loss against epsilon at the distance, metric by metric."""
        every: dict[tuple[str, float | None], dict[str, JudgedMetric]] = {}
        for t in targets:
            if t.d is None or not len(t.rows):
                continue
            weights, d = self.weights[:, t.rows], float(t.d.mean())
            weight, groups = self._weight(t.circumstance), self._groups(t)
            answered = bool(t.seen.system.ok[t.rows].any())
            if not answered:
                self.warnings.append(
                    f"{place_name(*t.place)}: no case has an answer, so its robustness is not judged."
                )
            for name in self.names:
                source = self.source[name].take(t.rows)
                target = self.target[t.place][name].take(t.rows)
                draws = relation.PairedDraws(
                    source.values(weights),
                    target.values(weights),
                    _weighted_mean(weights, t.d),
                    groups,
                )
                before, after = source.value(), target.value()
                if _nothing_to_lose(source) or not answered:
                    after = math.nan  # not defined: neither robust nor not
                found = relation.judge_draws(
                    before,
                    after,
                    d,
                    draws,
                    self.epsilon or NOT_STATED,
                    better=source.better,
                    kind=self.given.loss,
                    weight=weight,
                    confidence=self.plan.spec.confidence,
                )
                one = JudgedMetric(before, after, found, len(t.rows), groups)
                if self.epsilon is not None:
                    every.setdefault(t.place, {})[name] = one
                record.relation.append(self._row(t, name, one))
        if every:
            self._outcomes(record, every)
        return every

    def _weight(self, c: Circumstance) -> float:
        """What epsilon is multiplied by: min(1, S0 / S)."""
        if self.given.significance is None:
            return 1.0
        said = f"{c.name} has no significance: its epsilon is not weighted."
        if c.significance is None and c.kind != MIXTURE and said not in self.notes:
            self.notes.append(said)
        return relation.significance_weight(c.significance, self.given.significance)

    def _row(self, t: TargetSet, name: str, one: JudgedMetric) -> RelationRecord:
        found, stated = one.found, self.epsilon is not None
        return RelationRecord(
            circumstance=t.place[0],
            level=t.place[1],
            measure=name,
            source=one.source,
            target=one.target,
            loss=found.loss,
            interval=found.loss_interval,
            distance=found.d,
            distance_interval=found.d_interval,
            epsilon=self.epsilon(found.d) if self.epsilon is not None else None,
            weight=found.weight,
            margin=found.weighted.margin if stated else None,
            outcome=found.outcome if stated else "",
            unweighted=found.unweighted.outcome if stated else "",
            cases=one.n,
            groups=one.groups,
        )

    def _outcomes(
        self,
        record: RobustnessRecord,
        every: Mapping[tuple[str, float | None], Mapping[str, JudgedMetric]],
    ) -> None:
        """Over all metrics, corrected over places; and the first level that breaks."""
        confidence = self.plan.spec.confidence
        judged = {p: {m: one.found for m, one in ms.items()} for p, ms in every.items()}
        places = {str(About(circumstance=c, level=n)): (c, n) for c, n in judged}
        corrected = relation.over_circumstances(
            {name: judged[place] for name, place in places.items()}, confidence=confidence
        )
        for name, place in places.items():
            whole, one = relation.robust_for_all(judged[place]), corrected[name]
            record.outcomes.append(
                OutcomeRecord(
                    circumstance=place[0], level=place[1], outcome=one.outcome,
                    unadjusted=one.unadjusted, holds=whole.holds, metrics=whole.metrics,
                    p=one.p, adjusted=one.p_adjusted,
                )
            )  # fmt: skip

    def next_probes(self) -> list[tuple[str, float]]:
        """By circumstance that breaks, the next level to try; none if the gap was halved often enough."""
        targets = [*self._targets(), *self._probes()]
        self._measure(targets)
        found = []
        for c in _compared(self.plan):
            tried = [t for t in targets if t.circumstance is c and t.place[1] is not None]
            probes = sum(t.seen.condition.probe for t in tried)
            gap_ = proposal.crossing(self._margins(tried))
            if gap_.breaks is None or probes >= self.given.halvings:
                continue
            if gap_.holds > 0 or _starts_at_nothing(c):
                found.append((c.name, (gap_.holds + gap_.breaks) / 2))
        return found

    def _margins(self, targets: Sequence[TargetSet]) -> dict[float, float]:
        """By level the estimated margin: epsilon(distance) less the loss, the least over the metrics."""
        assert self.epsilon is not None
        found = {}
        for t in targets:
            assert t.d is not None and t.place[1] is not None
            if not len(t.rows):
                continue
            allowed = self.epsilon(float(t.d.mean()))
            scaled = math.nan if allowed is None else self._weight(t.circumstance) * allowed
            losses = [
                relation.performance_loss(
                    self.source[n].take(t.rows).value(), self.target[t.place][n].take(t.rows).value(),
                    self.source[n].better, self.given.loss,
                )
                for n in self.names
            ]  # fmt: skip
            found[t.place[1]] = float(scaled - np.max(losses))
        return found

    def _breaks(self, record: RobustnessRecord) -> None:
        """Where the relation breaks as the level rises."""
        if self.epsilon is None:
            return
        probes = list(self._probes())
        self.target |= {t.place: self._scored(t.seen) for t in probes}
        judged = [(o.circumstance, o.level) for o in record.outcomes]
        for c in dict.fromkeys(circumstance for circumstance, level in judged if level is not None):
            tried = self._margins([t for t in probes if t.place[0] == c])
            rows = [r for r in record.relation if r.circumstance == c]
            margins = {
                level: float(
                    np.min(
                        [
                            math.nan if r.margin is None else r.margin
                            for r in rows
                            if r.level == level
                        ]
                    )
                )
                for level in dict.fromkeys(r.level for r in rows if r.level is not None)
            }
            gap_ = proposal.crossing({**margins, **tried})
            levels = sorted(
                (o.level or 0, o.unadjusted) for o in record.outcomes if o.circumstance == c
            )
            broken = next((n for n, outcome in levels if outcome == "breached"), None)
            before = [n for n, o in levels if o == "met" and (broken is None or n < broken)]
            open_ = [n for n, o in levels if o not in ("met", "breached")]
            record.breaks.append(
                BreakRecord(
                    circumstance=c, breaks_at=broken, holds_at=max(before, default=None),
                    inconclusive_at=min(open_, default=None), crossed_at=gap_.breaks,
                    crossed_after=None if gap_.breaks is None else gap_.holds,
                    probes={f"{level:g}": margin for level, margin in sorted(tried.items())},
                )
            )  # fmt: skip

    def _proposals(self, record: RobustnessRecord, targets: Sequence[TargetSet]) -> None:
        """An epsilon from the load test of each circumstance with three levels or more."""
        if self.given.reference is not None:
            self._reference_proposals(record, self.given.reference)
        measure = self.names[0]
        for name in dict.fromkeys(t.place[0] for t in targets):
            points = [
                proposal.LoadPoint(r.level, r.distance, r.loss, r.interval.high)
                for r in record.relation
                if r.circumstance == name and r.measure == measure and r.level is not None
                and r.interval is not None and r.distance is not None and r.loss is not None
                and math.isfinite(r.interval.high) and r.distance > 0
            ]  # fmt: skip
            if len(points) < FEWEST_LEVELS:
                continue
            found = proposal.from_load_test(points)
            record.proposals.append(
                ProposalRecord(
                    circumstance=name, measure=measure, pieces=_rows_of(found.epsilon) or [],
                    knee=found.knee.level if found.knee else None, basis=found.basis,
                )
            )  # fmt: skip

    def _reference_proposals(self, record: RobustnessRecord, path: str) -> None:
        """An epsilon for each metric from what a reference model, or annotators, lose."""
        other = _reference(self.plan.spec, path)
        if other.distance != record.distance:
            self.notes.append(
                f"No epsilon is proposed from {path}: its distance is {other.distance}, here {record.distance}."
            )
            return
        for measure in self.names:
            points = [
                proposal.LoadPoint(r.level or 0.0, r.distance, r.loss, r.interval.high)
                for r in other.relation
                if r.measure == measure and r.interval is not None and r.distance and r.loss is not None
                and math.isfinite(r.interval.high)
            ]  # fmt: skip
            if not points:
                self.notes.append(
                    f"No epsilon is proposed from {path} for {measure}: not measured there."
                )
                continue
            found = proposal.from_reference(points, path)
            record.proposals.append(
                ProposalRecord(
                    measure=measure, basis=found.basis, pieces=_rows_of(found.epsilon) or []
                )
            )


ROUGH = 20
"""Groups below which intervals are called rough."""
CALIBRATED_AT = 2
"""The level at which estimators learn how a circumstance looks, or the one nearest to it."""
FEWEST_LEVELS = 3
"""Levels of which a curve has a knee."""
NOT_STATED = relation.Epsilon.of([(2.0, 0.0, 2.0)])
"""Stands where the file states no epsilon: nothing is judged by it."""


def _class_name(label: int, classes: Sequence[str]) -> str:
    return str(classes[label]) if 0 <= label < len(classes) else str(label)


def _starts_at_nothing(c: Circumstance) -> bool:
    """Whether strengths below level 1 go on towards no change, for all its transforms."""
    names = (
        [c.transform]
        if c.transform is not None
        else [p for p in c.transforms or () if isinstance(p, str)]
    )
    return all("identity" in get("transforms", n).traits for n in names if n is not None)


def _usual(plan: Plan) -> list[str]:
    """The measure of the file, and for boxes the metrics of the paper's example."""
    own = plan.spec.measure_name
    boxes = plan.subject.output_kind.name == "boxes"
    usual = ["ap", "ap50", "precision", "recall"] if boxes else []
    return list(dict.fromkeys([*usual, *([] if boxes else [own])]))


def _nothing_to_lose(scored: Scored) -> bool:
    """Whether the source is as bad as can be: 0 of what should be high."""
    return scored.better == "higher" and scored.value() == 0.0


def _those(groups: Any, rows: np.ndarray) -> Any:
    return None if groups is None else np.asarray(groups)[rows]


def _finite(one: np.ndarray, other: np.ndarray, paired: bool) -> tuple[np.ndarray, np.ndarray]:
    """Features of pictures that could be read; of pairs those of both."""
    first, second = np.isfinite(one).all(axis=1), np.isfinite(other).all(axis=1)
    if paired:
        first = second = first & second
    return one[first], other[second]


def _weighted_mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ values) / weights.sum(axis=1))


def _rows_of(epsilon: relation.Epsilon | None) -> list[tuple[float, float, float]] | None:
    return None if epsilon is None else [(p.up_to, p.slope, p.intercept) for p in epsilon.pieces]


def _described(room: str, name: str, settings: Mapping[str, Any]) -> str:
    """A distance with all its parameters, defaults included."""
    known = {n: p.default for n, p in get(room, name).parameters.items()}
    said = ", ".join(f"{k}={v}" for k, v in {**known, **settings}.items())
    return f"{name}({said})" if said else name


def _origin(source: gap.SourceFrequency | None, how: SourceSpec | None) -> str:
    if source is None or how is None:
        return ""
    if how.share is not None:
        return "stated"
    if how.found is not None:
        return f"{how.found} of {how.of} looked at"
    return "metadata" if how.where is not None else f"estimated by {how.estimator}"


def _finding(row: RelationRecord) -> Finding:
    about = About(circumstance=row.circumstance, level=row.level, versus="clean")
    value = math.nan if row.loss is None else row.loss
    details = {"distance": row.distance, "epsilon": row.epsilon, "outcome": row.outcome}
    return Finding(
        f"loss of {row.measure}", value, row.interval, n=row.cases, groups=row.groups, about=about,
        better="lower", details=details, reason="" if row.interval else "not defined",
    )  # fmt: skip


STATUS: dict[str, Status] = {
    "met": "met", "breached": "breached", "inconclusive": "inconclusive",
    "not covered": "inconclusive",
}  # fmt: skip
WORDS = {"met": "robust", "breached": "not robust"}
Row = list[Cell | str]
QUESTIONS = (
    ("Q1", "What are the circumstances of use of the system?", "M1, M2"),
    ("Q2", "What is the level of performance of the detector?", "M7 to M13"),
    ("Q3", "How significant is a circumstance in the functioning of the system?", "M3 to M6"),
    ("Q4", "What is the difference between two sets of circumstances?", "M14 to M17"),
    ("Q5", "What is the difference between two measures of performance?", "M18"),
    ("Q6", "What is the impact of a change in circumstances on performance?", "the relation"),
)
"""Wozniak et al. 2024, table 1."""


def _place(row: _Place) -> str:
    return place_name(row.circumstance, row.level)


def _whole(value: float | None) -> str:
    return numbers.NONE if value is None else f"{value:g}"


def _ranged(value: float | None, interval: StoredInterval | None, *more: str) -> Cell:
    if value is None:
        return Cell(numbers.NONE, ["not defined", *more])
    ends = [] if interval is None else [interval.low, interval.high]
    under = [" to ".join(numbers.value(end) for end in ends)] if ends else []
    return Cell(numbers.value(value), [*under, *more])


def _verdict_blocks(record: RobustnessRecord) -> list[Block]:
    """The relation: picture, verdicts by condition, what breaks first."""
    if not record.relation:
        return [Text("No circumstance has pictures with an original to compare.", "empty")]
    measures = "loss" if record.loss == "one-sided" else "absolute difference"
    weighted = f" Epsilon is multiplied by min(1, {record.significance} / significance)." * bool(
        record.significance
    )
    said = (
        f"The relation is: {measures} at most epsilon(distance), for each of "
        f"{', '.join(record.measures)}.{weighted} Distance: mean {record.distance} of the pictures "
        "that were changed. Intervals: source and target resampled together, by groups."
    )
    if record.epsilon is None:
        said = (
            "No epsilon is stated, so nothing is judged. Add `robustness: {epsilon: "
            "[{up_to: 0.25, intercept: 0.01}, {up_to: 1, slope: 1}]}`. " + said
        )
    blocks: list[Block] = [Text(said), *(_chart(record, m) for m in record.measures)]
    heads = [Column(f"Loss of {m}", rank=1) for m in record.measures]
    columns = [Column("Condition", number=False), Column("Verdict", number=False)]
    columns += [Column("Distance"), Column("Epsilon"), *heads, Column("Adjusted p", rank=2)]
    outcomes = {(o.circumstance, o.level): o for o in record.outcomes}
    rows = []
    for place in dict.fromkeys((r.circumstance, r.level) for r in record.relation):
        own = [r for r in record.relation if (r.circumstance, r.level) == place]
        first, outcome = own[0], outcomes.get(place)
        epsilon = None if first.epsilon is None else first.weight * first.epsilon
        aside = [f"unweighted {numbers.value(first.epsilon)}"] if first.weight < 1 else []
        losses = [
            replace(_ranged(r.loss, r.interval, f"{numbers.value(r.source)} → {numbers.value(r.target)}"),
                    status=STATUS.get(r.outcome, ""))
            for r in own
        ]  # fmt: skip
        verdict = Cell(numbers.NONE)
        if outcome is not None:
            word = WORDS.get(outcome.outcome, "inconclusive")
            held = [f"holds for {outcome.holds} of {outcome.metrics} metrics"]
            if outcome.outcome != outcome.unadjusted:
                held.append("robust before correction (Holm)")
            verdict = Cell(word, held, status=STATUS[outcome.outcome], strong=True)
        rows.append(
            [
                Cell(place_name(*place), strong=True),
                verdict,
                _ranged(first.distance, first.distance_interval),
                Cell(numbers.value(epsilon), aside),
                *losses,
                Cell(numbers.value(outcome.adjusted) if outcome else numbers.NONE),
            ]
        )
    blocks.append(Table(columns, rows, name="Robustness", brief=12))
    if record.breaks:
        blocks += _break_blocks(record)
    return blocks


def _chart(record: RobustnessRecord, measure: str) -> Chart:
    weight = {r.weight for r in record.relation}
    points = [
        charts.LossPoint(
            _place(r), r.distance or 0.0, r.loss or 0.0,
            r.interval.low if r.interval else None, r.interval.high if r.interval else None,
            STATUS.get(r.outcome, ""),
            f"{_place(r)}: loss {numbers.value(r.loss)} at distance {numbers.value(r.distance)}"
            + f", {r.outcome}" * bool(r.outcome),
        )
        for r in record.relation
        if r.measure == measure and r.distance is not None and r.loss is not None
    ]  # fmt: skip
    aside = " Epsilon is drawn unweighted; verdicts are weighted." if weight != {1.0} else ""
    caption = (
        f"Loss of {measure} against distance; bars are intervals. Disc: the relation holds, "
        f"diamond: it does not, ring: inconclusive.{aside}"
    )
    draw = drawn(charts.relation_chart, points, record.epsilon or (), title=f"Loss of {measure}")
    return Chart(f"figure-robustness-{measure}", caption, draw)


def _break_blocks(record: RobustnessRecord) -> list[Block]:
    """The circumstances that break first, the most significant ones first."""
    significance = {t.circumstance: t.significance for t in record.targets}
    columns = [Column("Circumstance", number=False), Column("Significance")]
    columns += [
        Column("Holds up to level"),
        Column("Margin falls below 0"),
        Column("Breaks at level"),
    ]
    ordered = sorted(
        record.breaks,
        key=lambda b: (
            b.crossed_at is None,
            b.crossed_at or 0,
            -(significance.get(b.circumstance) or 0),
        ),
    )
    rows: list[Row] = [
        [
            Cell(b.circumstance, strong=True),
            _whole(significance.get(b.circumstance)),
            _whole(b.holds_at),
            _crossing(b),
            _whole(b.breaks_at),
        ]
        for b in ordered
    ]
    said = (
        "Holds, breaks: shown with confidence, not corrected over conditions. Margin: epsilon less the "
        "loss, as estimated. `robustness: {halvings: 3}` tries levels between."
    )
    table = Table(columns, rows, name="What breaks first", brief=12)
    return [Heading("What breaks first"), Text(said, "small"), table]


def _crossing(b: BreakRecord) -> str:
    """Between which levels the estimated margin falls below 0."""
    if b.crossed_at is None:
        return "at no level tried"
    if not b.crossed_after:
        return f"at level {b.crossed_at:g} or below"
    return f"between {b.crossed_after:g} and {b.crossed_at:g}"


def _circumstance_blocks(record: RobustnessRecord) -> list[Block]:
    """Tasks 1 and 2: circumstances by significance, points of view, and how ratings are spread."""
    views = list(dict.fromkeys(view for t in record.targets for view in t.seen_as))
    columns = [Column("Circumstance", number=False), Column("Probability"), Column("Exposure")]
    columns += [Column("Likelihood"), Column("Severity"), Column("Significance")]
    columns += [Column(view, number=False) for view in views]
    rows: list[Row] = [
        [
            Cell(t.circumstance, [t.description] if t.description else [], strong=True),
            numbers.value(t.probability),
            *(_rated(factor, getattr(t, factor)) for factor in SCALES),
            Cell(_whole(t.significance), strong=True),
            *("; ".join(t.seen_as.get(view, [])) or numbers.NONE for view in views),
        ]
        for t in record.targets
    ]
    blocks: list[Block] = [
        Heading("Target circumstances by significance"), Table(columns, rows, name="Circumstances")
    ]  # fmt: skip
    most = max((n for counts in record.ratings.values() for n in counts), default=0)
    if most:
        cells = {
            (factor, str(k)): charts.HeatCell(
                float(n), f"{factor} {k} {SCALES[factor][k - 1]}: {n}"
            )
            for factor, counts in record.ratings.items()
            for k, n in enumerate(counts, start=1)
        }
        ramp = charts.Ramp("loss", 0.0, float(most), ("none", "most"), counts=True)
        draw = drawn(
            charts.heat, list(record.ratings), [str(k) for k in range(1, 6)], cells,
            title="Ratings", ramp=ramp,
        )  # fmt: skip
        blocks.append(Chart("figure-ratings", "How many circumstances have each rating.", draw))
    unpaired = [t.circumstance for t in record.targets if not t.paired]
    if unpaired:
        text = f"{', '.join(unpaired)}: pictures have no original, so only M15 and M17 apply."
        blocks.append(Text(text, "small"))
    return blocks


def _rated(factor: str, value: int | None) -> Cell:
    return Cell(numbers.NONE) if value is None else Cell(f"{value}", SCALES[factor][value - 1])


def _gap_blocks(record: RobustnessRecord) -> list[Block]:
    """Tasks 3 and 4: what follow-up cases must add to the source data."""
    if not record.gaps:
        return []
    columns = [Column("Circumstance", number=False), Column("Target"), Column("Source data")]
    columns += [Column("Gap"), Column("", number=False)]
    rows: list[Row] = [
        [
            Cell(g.circumstance, strong=True), numbers.value(g.target),
            _ranged(g.source, g.interval, *([g.origin] if g.origin else [])),
            numbers.value(g.gap), g.status,
        ]
        for g in record.gaps
    ]  # fmt: skip
    said = (
        f"{record.missing}% of the circumstances are missing in the source data, "
        f"{record.over_or_under}% are over- or under-represented, {record.covered}% are covered. "
        "`roadworthy cases make` writes pictures at the target frequencies."
    )
    return [Heading("Gap between target and source"), Text(said), Table(columns, rows, name="Gap")]


def _performance_blocks(record: RobustnessRecord) -> list[Block]:
    """Task 5."""
    names = list(dict.fromkeys(p.measure for p in record.performance))
    columns = [Column("Data", number=False), *(Column(n) for n in names), Column("Cases")]
    rows: list[Row] = []
    for place in dict.fromkeys((p.circumstance, p.level) for p in record.performance):
        own = {p.measure: p for p in record.performance if (p.circumstance, p.level) == place}
        cells = [
            _ranged(own[n].value, own[n].interval) if n in own else Cell(numbers.NONE)
            for n in names
        ]
        name = place_name(*place) if place[0] else "source"
        rows.append([Cell(name, strong=True), *cells, numbers.count(own[names[0]].cases)])
    blocks: list[Block] = [
        Heading("Performance"), Table(columns, rows, name="Performance", fold="All metrics")
    ]  # fmt: skip
    if record.counts:
        blocks.append(_count_table(record))
    return blocks


def _count_table(record: RobustnessRecord) -> Table:
    """True, missed and false detections, in all and by class."""
    heads = ("Found (TP)", "Missed (FN)", "False (FP)", "Precision", "Recall", "AP", "AP50")
    columns = [Column("Data", number=False), Column("Class", number=False)]
    columns += [Column(head) for head in heads]
    rows: list[Row] = [
        [
            Cell(_place(c) if c.circumstance else "source", strong=True), c.label or "all",
            *(numbers.count(n) for n in (c.found, c.missed, c.false)),
            *(numbers.value(v) for v in (c.precision, c.recall, c.ap, c.ap50)),
        ]
        for c in record.counts
    ]  # fmt: skip
    return Table(
        columns, rows, name="Detections", fold="Detections found, missed and false, by class"
    )


def _distance_blocks(record: RobustnessRecord) -> list[Block]:
    """Task 6."""
    methods = {d.method: d.metric for d in record.distances}
    columns = [Column("Data", number=False), Column("Changed")]
    columns += [Column(method, sub=metric) for method, metric in methods.items()]
    rows: list[Row] = []
    for place in dict.fromkeys((d.circumstance, d.level) for d in record.distances):
        own = {d.method: d for d in record.distances if (d.circumstance, d.level) == place}
        changed = next((d.changed for d in own.values() if d.changed is not None), None)
        cells = [
            _ranged(own[m].value, own[m].interval) if m in own else Cell(numbers.NONE)
            for m in methods
        ]
        share = numbers.value(changed, "percent") if changed is not None else numbers.NONE
        rows.append([Cell(place_name(*place), strong=True), share, *cells])
    notes = list(dict.fromkeys(d.note for d in record.distances if d.note))
    return [
        Heading("Distance to the source data"),
        Table(columns, rows, name="Distance", fold="All distances"),
        *(Text(note, "small") for note in notes),
    ]


def _proposal_blocks(record: RobustnessRecord) -> list[Block]:
    """What epsilon the data suggest; never used unasked."""
    if not record.proposals:
        return []
    said = (
        "Load test of this subject: flat up to the knee, then through the upper bounds of the loss. "
        "Reference: through the upper bounds of its loss. A proposal describes what was measured, not "
        "what is tolerable; it is used only if you copy it into the file."
    )
    columns = [Column(h, number=False) for h in ("Circumstance", "Basis", "Proposed epsilon")]
    rows: list[Row] = [
        [Cell(p.circumstance or "all", f"loss of {p.measure}", strong=True), p.basis,
         Cell(", ".join(_piece(piece) for piece in p.pieces), code=True)]
        for p in record.proposals
    ]  # fmt: skip
    return [Heading("Proposals for epsilon"), Text(said), Table(columns, rows, name="Proposals")]


def _piece(piece: tuple[float, float, float]) -> str:
    up_to, slope, intercept = piece
    return f"{{up_to: {up_to:.3g}, slope: {slope:.3g}, intercept: {intercept:.3g}}}"


def _traceability(record: RobustnessRecord) -> list[Block]:
    """Goal, questions, metrics and what was found."""
    broken = [o for o in record.outcomes if o.outcome == "breached"]
    held = [o for o in record.outcomes if o.outcome == "met"]
    losses = [r.loss for r in record.relation if r.loss is not None]
    far = [d.value for d in record.distances if d.metric == "M14" and d.value is not None]
    source = [p for p in record.performance if not p.circumstance]
    top = next((t for t in record.targets if t.significance), None)
    found = (
        f"{len(record.targets)} circumstances",
        ", ".join(f"{p.measure} {numbers.value(p.value)}" for p in source),
        f"highest: {top.circumstance}, {top.significance}" if top else "not stated",
        f"{record.distance.partition('(')[0]} {numbers.value(min(far))} to {numbers.value(max(far))}"
        if far else numbers.NONE,
        f"loss {numbers.value(min(losses))} to {numbers.value(max(losses))}" if losses else numbers.NONE,
        f"robust in {len(held)}, not robust in {len(broken)} of {len(record.outcomes)} conditions"
        if record.outcomes else "no epsilon stated",
    )  # fmt: skip
    columns = [Column(h, number=False) for h in ("", "Question", "Metrics", "Found")]
    rows: list[Row] = [
        [q, text, metrics, f] for (q, text, metrics), f in zip(QUESTIONS, found, strict=True)
    ]
    goal = record.goal or "Evaluate the robustness of the detector from a practitioner's viewpoint"
    return [
        Heading("Goal, questions, metrics"),
        Text(f"Goal: {goal}."),
        Table(columns, rows, name="Goal, questions, metrics"),
    ]
