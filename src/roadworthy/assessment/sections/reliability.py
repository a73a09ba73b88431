"""The section `reliability`: the probability of misclassification per input (pmi) in operation, with a bound that holds.

After Zhao et al. 2021, whose published bound does not hold. Two lines are printed. *Without assumptions*: operational inputs
that were labelled at random, counted. *If labels are r-separated*: the smaller of that and of all operational inputs judged by
a label nearer than r, where an input without such a label counts as failing. Claims are judged by the first line unless the
file says ``assume: [r_separation]``. What a kernel density says serves the map, the next labels and the monitor, never a bound.

Training rows (`data.reference`) may label others; rows of `data.operational` are counted, if they were labelled at random
(a column `label_by` says `chosen` otherwise); the test rows enter nothing and judge the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from roadworthy import numbers
from roadworthy.analysis.reliability.assembly import (
    CONFIDENCE,
    SPLIT,
    PmiBound,
    PrintedBounds,
    conservative_bound,
    corrected,
    cost_of_failures,
    credible,
    held_out_check,
    operational_test,
    printed_bounds,
    subtypes,
)
from roadworthy.analysis.reliability.assumptions import (
    AssumptionCheck,
    check_deterministic,
    drift_check,
    independence_check,
    representative_check,
    separation_check,
    vote_check,
)
from roadworthy.analysis.reliability.budget import label_next
from roadworthy.analysis.reliability.oracle import Reached, evidence_breakdown, majority_vote, reach
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import Result, Results, Section, drawn, nothing
from roadworthy.claims import Quantity
from roadworthy.data.samples import UNLABELLED, Dataset
from roadworthy.data.values import CLASS_SCORES, IMAGE, VECTOR
from roadworthy.execution.cells import comparable, estimator_of, why_no_scores
from roadworthy.execution.plan import OPERATIONAL, Extra, Plan, Search, Wants, hash_of
from roadworthy.finding import About, Evidence, Finding, Sided
from roadworthy.registry import register
from roadworthy.report import charts
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text
from roadworthy.spec import Assessment, ClaimSpec, Strict
from roadworthy.statistics import Interval, mean
from roadworthy.statistics.partition import (
    Centres,
    Grid,
    LabelSeparation,
    label_separation,
    nearest_within,
)
from roadworthy.statistics.profile import Profile, Smoothed
from roadworthy.statistics.sequential import proportion_sequence
from roadworthy.store.record import Number, RecordPart, StoredInterval
from roadworthy.store.record import Record as RunRecord

KEY = "reliability"
PMI = "pmi"
SUPERVISOR = "profile"
AGAIN, CELLS = "asked_again", "unastuteness"
CHECKED = 64
"""Operational inputs that the subject is asked about twice."""
ANY_LOOK = "any_look"
NEXT, MARKED = 10, 200
"""Rows to label next, and failures on a map, at most."""
NOT_TESTED = {
    2: "no labelled input has a reference label within r",
    4: "no labelled input has a reference label within r",
    3: "no reference data",
    5: "no cell has inputs of one label",
    6: "no draws inside cells; `unastuteness` looks around inputs",
}
CHOSEN = "label_by"
"""The column that says `chosen` of a row that was not labelled at random."""


class ProfileSpec(Strict):
    """The density of operational inputs, for the map and the monitor."""

    example: ClassVar[str] = "profile: {bandwidth: likelihood}"

    bandwidth: Literal["likelihood", "silverman", "scott"] | float = Field(
        "likelihood", description="How it is chosen, or the bandwidth of every feature"
    )
    cells: int = Field(
        40, ge=2, le=400, description="Cells a side of the map in 2-D, else regions of the profile"
    )


class UnastutenessSpec(Strict):
    """How often inputs near labelled operational ones fail; a finding of its own, no part of pmi."""

    example: ClassVar[str] = "unastuteness: {estimator: splitting, inputs: 100}"

    estimator: str = Field("splitting", description="`roadworthy list failure_estimators`")
    inputs: int = Field(100, ge=1, description="Labelled operational inputs around which it looks")
    radius: float | None = Field(None, gt=0, description="Of the balls; by default r")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="The estimator's own arguments"
    )


class BeliefSpec(Strict):
    """What is believed of pmi before any test, for conservative Bayesian inference."""

    example: ClassVar[str] = "prior: {below: 0.0001, belief: 0.9}"

    below: float = Field(ge=0, lt=1, description="A pmi that is believed not to be exceeded")
    belief: float = Field(gt=0, lt=1, description="How strongly")


class FailureTypeSpec(Strict):
    """A type of failure: which class is taken for which."""

    example: ClassVar[str] = "critical: {pairs: [[red, green]], cost: 100}"

    pairs: list[tuple[str | int, str | int]] = Field(
        min_length=1, description="True class and answer, such as [[red, green]]"
    )
    cost: float | None = Field(None, ge=0, description="What one such failure costs")


class ReliabilitySpec(Strict):
    """The probability of misclassification in operation, and what it rests on."""

    example: ClassVar[str] = "reliability: {}"

    assume: list[Literal["r_separation"]] = Field(
        default_factory=list, description="What claims may assume; by default nothing"
    )
    norm: Literal["inf", 1, 2] = Field("inf", description="By which distances are taken")
    r: float | None = Field(
        None, gt=0, description="How far a label reaches; by default half the distance of classes"
    )
    domain: list[tuple[float, float]] | None = Field(
        None, description="Least and largest value of each feature, which become 0 and 1"
    )
    tested_share: float = Field(
        SPLIT, gt=0, lt=1, description="Part of the error spent on the plain test if r is assumed"
    )
    labels: Literal["fixed", "growing"] = Field(
        "fixed", description="growing: more labels come in until the claim is settled"
    )
    profile: ProfileSpec = Field(default_factory=lambda: ProfileSpec.model_validate({}))
    unastuteness: UnastutenessSpec | None = None
    prior: BeliefSpec | None = None
    failures: dict[str, FailureTypeSpec] = Field(
        default_factory=dict, description="Types of failure, each with a pmi of its own"
    )
    time: str | None = Field(
        None, description="A column of times: halves of the operational data are compared"
    )

    @field_validator("domain")
    @classmethod
    def _ranges(cls, domain: list[tuple[float, float]] | None) -> Any:
        if domain is not None and any(low >= high for low, high in domain):
            raise ValueError("has a range whose low end is not below its high end")
        return domain

    @property
    def p(self) -> float:
        """The norm as a number."""
        return math.inf if self.norm == "inf" else float(self.norm)


class BoundRecord(RecordPart):
    """One way to bound pmi."""

    name: str
    title: str
    value: Number = None
    lower: Number = None
    upper: Number = None
    n: int = 0
    failures: Number = None
    method: str = ""
    printed: bool = Field(
        default=False, description="One of the two lines that claims may be judged by"
    )
    guarantee: bool = Field(default=True, description="False: no coverage is claimed for it")
    note: str = ""


class SeparationRecord(RecordPart):
    """How far apart labels of different classes lie."""

    distance: float
    r: float
    given: bool = False
    norm: Number = Field(default=None, description="Null for the largest difference")
    labels: int
    pair: list[str] = Field(description="The two rows that are this near")
    chance: float = Field(description="That the next labelled row is nearer to another class")
    chance_upper: float = Field(description="Its upper 97.5% bound")
    nearly_zero: bool = False


class AssumptionRecord(RecordPart):
    """An assumption of Zhao et al. 2021, and what the rows say of it."""

    number: int
    says: str
    verdict: str
    check: str


class FailureTypeRecord(RecordPart):
    """Failures of one type."""

    name: str
    failures: int
    value: Number = None
    upper: Number = None
    cost: Number = Field(default=None, description="Upper bound of what it costs an input")


class RegionRecord(RecordPart):
    """A region of the profile, and how much is known of it."""

    name: str
    share: float = Field(description="Of the operational inputs")
    labelled: int
    failures: int
    without_label: float = Field(description="Share of its inputs that no label reaches")


class MapRecord(RecordPart):
    """Two features cut into cells: where inputs lie, and where they fail."""

    axes: list[tuple[str, float, float]]
    profile: list[list[Number]]
    failing: list[list[Number]]
    unlabelled: list[list[Number]]
    marks: list[tuple[float, float, str]] = Field(default_factory=list)


class BudgetPoint(RecordPart):
    """The bound after so many labels."""

    labels: int
    upper: float
    any_time: float = Field(description="A bound that holds at every look")


class UnastutenessRecord(RecordPart):
    """How often inputs near labelled operational ones fail."""

    estimator: str
    radius: float
    inputs: int
    value: float = Field(description="Mean over the balls of the probability to fail")
    interval: StoredInterval
    failing: int = Field(description="Balls in which a failure was found")
    queries: int


class ProfileRecord(RecordPart):
    """The density of operational inputs."""

    bandwidth: Number = Field(default=None, description="In deviations of each feature")
    rule: str = ""
    features: int = Field(description="Dimensions in which it is taken")
    encoded: bool = Field(default=False, description="By an autoencoder of the reference rows")
    limit: Number = Field(
        default=None, description="Score above which an input lies outside the profile"
    )
    left: Number = Field(default=None, description="Share of the test inputs outside")


class ReliabilityRecord(RecordPart):
    """The probability of misclassification, what it rests on, and what to do next."""

    because: str = Field(default="", description="Why there is no pmi")
    confidence: float = CONFIDENCE
    assumed: bool = Field(default=False, description="Claims are judged by the second line")
    held_out: str = Field(default="", description="What the test cases say of the bound")
    struck: str = Field(default="", description="Why the second line does not count")
    inputs: int = 0
    labelled: int = 0
    chosen: int = Field(
        default=0, description="Labelled on purpose: they label others and are not counted"
    )
    groups: int | None = None
    bounds: list[BoundRecord] = Field(default_factory=list)
    gain: Number = Field(default=None, description="The first line's bound over the second's")
    separation: SeparationRecord | None = None
    evidence: dict[str, float] = Field(
        default_factory=dict, description="What the operational inputs rest on; adds to 1"
    )
    assumptions: list[AssumptionRecord] = Field(default_factory=list)
    types: list[FailureTypeRecord] = Field(default_factory=list)
    budget: list[BudgetPoint] = Field(default_factory=list)
    regions: list[RegionRecord] = Field(default_factory=list)
    map: MapRecord | None = None
    label_next: list[str] = Field(default_factory=list, description="Rows to label next, by id")
    unastuteness: UnastutenessRecord | None = None
    profile: ProfileRecord | None = None


@dataclass(frozen=True)
class Operation:
    """Operational data as arrays: what was asked, answered and is known of it."""

    points: np.ndarray
    labels: np.ndarray
    answers: np.ndarray
    groups: np.ndarray | None
    chosen: np.ndarray
    """Rows that were labelled on purpose."""

    @property
    def tested(self) -> np.ndarray:
        """Rows that were labelled at random: they alone are counted in the plain test."""
        return (self.labels != UNLABELLED) & ~self.chosen

    @property
    def failed(self) -> np.ndarray:
        """Which of the tested rows fail; no answer does."""
        return self.answers[self.tested] != self.labels[self.tested]

    def of_tested(self) -> np.ndarray | None:
        """The groups of the tested rows."""
        return None if self.groups is None else self.groups[self.tested]


@dataclass(frozen=True)
class ReliabilityResult(Result):
    """The result with the arrays that claims are judged on."""

    operation: Operation | None = None
    reached: np.ndarray | None = None
    contradicted: int = 0
    types: Mapping[str, list[tuple[int, int]]] = field(default_factory=dict)


@register("sections", KEY)
class Reliability(Section):
    """The probability of misclassification per input, bounded."""

    keys = {KEY: ReliabilitySpec}
    after = ("performance", "supervision")
    quantities = (
        Quantity(
            PMI,
            "the probability that an input drawn like the operational data is misclassified. With `class`: in the way that "
            "`reliability: failures:` names so.",
            low=0.0,
            high=1.0,
            places=("class",),
            one_way=True,
        ),
    )
    Record = ReliabilityRecord

    def check_file(self, spec: Assessment) -> None:
        """Classes alone have misclassifications, and a claim needs operational data."""
        if KEY not in spec.model_fields_set:
            return
        given = _settings(spec)
        if spec.task.output is not CLASS_SCORES:
            raise spec.error(
                (KEY,), f"is about classification; the subject's task is {spec.task.name}"
            )
        claims = [(i, c) for i, c in enumerate(spec.claims) if c.quantity == PMI]
        for i, claim in claims:
            if OPERATIONAL not in spec.data.roles():
                raise spec.error(
                    ("claims", i),
                    "pmi is about inputs in operation. Add `data.operational`; rows may have no label",
                )
            if claim.class_ != "" and claim.class_ not in given.failures:
                known = ", ".join(given.failures) or "none"
                raise spec.error(
                    ("claims", i, "class"),
                    f"{claim.class_!r} is no type of failure (known: {known}). Add `failures: {{{claim.class_}: "
                    "{pairs: [[TRUE, ANSWER]]}}` under reliability",
                )
            if "confidence" not in claim.model_fields_set:
                claim.confidence = CONFIDENCE
        named = {s if isinstance(s, str) else next(iter(s)) for s in spec.supervisors}
        if OPERATIONAL in spec.data.roles() and not spec.every_supervisor | (SUPERVISOR in named):
            asked = {"bandwidth": given.profile.bandwidth, "domain": given.domain}
            spec.supervisors.append({SUPERVISOR: {k: v for k, v in asked.items() if v is not None}})

    def check(self, plan: Plan) -> None:
        """Labels that contradict each other, and what cannot be searched, are refused before any case runs."""
        given = _settings(plan.spec)
        if OPERATIONAL not in plan.data:
            return
        operational = plan.data[OPERATIONAL]
        if operational.input_kind not in (IMAGE, VECTOR):
            raise plan.spec.error(
                (KEY,), f"inputs are images or rows of features, not {operational.input_kind.name}"
            )
        if operational.has_column(CHOSEN):
            unknown = set(map(str, operational.column(CHOSEN))) - {"chosen", "random", ""}
            if unknown:
                raise plan.spec.error(
                    ("data", OPERATIONAL),
                    f"the column {CHOSEN} holds {sorted(unknown)[0]!r}; write `chosen` or `random`",
                )
        if given.time is not None:
            with plan.spec.located((KEY, "time")):
                operational.column(given.time)
        if given.labels == "growing" and _depends(operational.groups):
            raise plan.spec.error(
                (KEY, "labels"), "growing counts inputs one by one, and data has groups; use fixed"
            )
        if given.domain is not None:
            width = np.shape(operational.inputs[:1])[-1]
            if operational.input_kind is IMAGE or len(given.domain) != width:
                raise plan.spec.error(
                    (KEY, "domain"), f"names {len(given.domain)} features; rows have {width}"
                )
        with plan.spec.located((KEY,)):
            _types(plan)
            _separated(plan)
        if given.unastuteness is not None:
            asked = given.unastuteness
            with plan.spec.located((KEY, CELLS)):
                estimator_of(plan, asked.estimator).check(asked.parameters)
            refused = why_no_scores(plan, operational)
            if not refused and given.norm != "inf":
                refused = "balls are boxes, which norm inf has"
            if not refused and operational.targets is None:
                refused = "no operational input has a label"
            if refused:
                raise plan.spec.error((KEY, CELLS), f"not applicable: {refused}")

    def wants(self, plan: Plan) -> Wants:
        """Answers to the operational inputs, some of them twice, and what lies around labelled ones."""
        if OPERATIONAL not in plan.data:
            return Wants()
        given, searches = _settings(plan.spec), []
        if not all(getattr(m, "whole_case", False) for m in plan.subject.modules.values()):
            searches.append(Search.of(AGAIN, {"inputs": CHECKED}, OPERATIONAL))
        if given.unastuteness is not None:
            asked = given.unastuteness
            separation = _separated(plan).all
            radius = asked.radius or (separation.r if separation else None)
            if radius is None:
                raise plan.spec.error((KEY, CELLS, "radius"), "is needed: labels are of one class")
            content = {
                "estimator": asked.estimator,
                "inputs": asked.inputs,
                "radius": float(radius),
                "domain": given.domain,
                "parameters": asked.parameters,
            }
            searches.append(Search.of(CELLS, content, OPERATIONAL))
        return Wants(conditions=(Extra(OPERATIONAL),), searches=tuple(("", s) for s in searches))

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """Both lines, the rows beside them, and what they rest on."""
        if observed.operational is None:
            record = ReliabilityRecord(
                because="there is no operational data. Add `data.operational`; rows may have no label"
            )
            return ReliabilityResult(record, notes=[f"No pmi: {record.because}"])
        return _Analysis(plan, observed).result()

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The line that claims are judged by, at any confidence."""
        assert isinstance(result, ReliabilityResult) and result.operation is not None
        operation, given = result.operation, _settings(plan.spec)
        failed, of_type = operation.failed, claim.class_ != ""
        if of_type:
            given_as = zip(operation.labels, operation.answers, strict=True)
            pairs = np.array([pair in result.types[str(claim.class_)] for pair in given_as])
            failed = pairs[operation.tested]
        if not len(failed):
            return [nothing(PMI, "no operational input was labelled at random")]

        def lines(confidence: float) -> tuple[PmiBound, PmiBound]:
            """The bound that is judged, and the one that further labels add to."""
            if given.labels == "growing":
                bound = _at_any_look(failed, confidence)
                return bound, bound
            if of_type:
                bound = operational_test(
                    failed, groups=operation.of_tested(), confidence=confidence
                )
                return bound, bound
            both = _printed(result, given, confidence)
            bound = both.judged("r_separation" in given.assume)
            return bound, both.tested if bound is both.if_separated else bound

        def interval(confidence: float, sided: Sided) -> Interval:
            bound = lines((1 + confidence) / 2 if sided == "two" else confidence)[0]
            low = 0.0 if sided == "upper" else bound.lower
            high = 1.0 if sided == "lower" else bound.upper
            return Interval(low, high, confidence, bound.method)

        own = operation.of_tested()
        groups = None if own is None else len(np.unique(own))
        value, about = lines(CONFIDENCE)[0].point, About(circumstance="operation")
        assumed = not of_type and bool(given.assume) and not result.contradicted
        assuming = "labels are r-separated" if assumed else ""
        more: dict[str, Any] = {"groups": groups, "effective_n": groups, "assuming": assuming}
        return [Evidence(PMI, about, value, len(failed), "lower", interval, **more)]

    def view(self, record: ReliabilityRecord, run: RunRecord) -> list[Block]:
        """The two lines first, then what they rest on, the map, and what to label next."""
        heading = Heading("Reliability in operation", id="reliability", short="Reliability")
        if record.because:
            return [heading, Text(f"No pmi: {record.because}.", "empty")]
        return [heading, *_shown(record, run)]


def _settings(spec: Assessment) -> ReliabilitySpec:
    return spec.part(KEY, ReliabilitySpec) or ReliabilitySpec.model_validate({})


@dataclass(frozen=True)
class Separations:
    """Of all labelled rows, and of the reference rows alone, which labelled operational rows can contradict; or why none."""

    points: np.ndarray
    """Reference rows, then operational ones."""
    labels: np.ndarray
    ids: list[str]
    reference: int
    """How many are reference rows."""
    all: LabelSeparation | None
    of_reference: LabelSeparation | None
    because: str = ""


_LAST: dict[str, Separations] = {}
"""The separation of the last data; asked for when planning and when analysing, and long in many dimensions."""


def _separated(plan: Plan) -> Separations:
    given = _settings(plan.spec)
    sets = {role: plan.data[role] for role in ("reference", OPERATIONAL) if role in plan.data}
    key = hash_of([{r: d.fingerprint for r, d in sets.items()}, given.domain, given.norm, given.r])
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = _separations(sets, given)
    return _LAST[key]


def _separations(sets: Mapping[str, Dataset], given: ReliabilitySpec) -> Separations:
    points = [comparable(d, slice(None), given.domain).reshape(len(d), -1) for d in sets.values()]
    labels = [
        np.full(len(d), UNLABELLED) if d.targets is None else np.asarray(d.targets)
        for d in sets.values()
    ]
    ids = [f"{role}:{i}" for role, d in sets.items() for i in d.ids]
    known = len(points[0]) if "reference" in sets else 0
    widths = {role: part.shape[1] for role, part in zip(sets, points, strict=True)}
    if len(set(widths.values())) > 1:
        raise ValueError("; ".join(f"{role} has {n} features" for role, n in widths.items()))
    rows, truth = np.concatenate(points), np.concatenate(labels)
    if given.domain is not None:
        outside = _outside(rows[known:])
        if outside.mean() > 0.5:
            low, high = (
                f([d.inputs[:] for d in sets.values()][-1], axis=0) for f in (np.min, np.max)
            )
            ends = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
            raise ValueError(
                f"domain: {outside.mean():.0%} of the operational inputs lie outside it; they run from {ends}"
            )
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(broken):
        raise ValueError(
            f"{ids[broken[0]]} has values that are not finite ({len(broken)} such rows); fill them"
        )
    because = "labels are of one class" if len(np.unique(truth[truth >= 0])) < 2 else ""
    because = because if rows.shape[1] else "answers are known and inputs are not"
    if because:
        return Separations(rows, truth, ids, known, None, None, because)
    found = label_separation(rows, truth, norm=given.p, r=given.r, names=ids)
    own = truth[:known]
    apart = None
    if len(np.unique(own[own >= 0])) >= 2:
        apart = label_separation(rows[:known], own, norm=given.p, r=given.r)
    return Separations(rows, truth, ids, known, found, apart)


def _outside(points: np.ndarray) -> np.ndarray:
    """Which points lie outside a domain that was scaled to 0 and 1."""
    return np.asarray(((points < 0) | (points > 1)).any(axis=1))


def _types(plan: Plan) -> dict[str, list[tuple[int, int]]]:
    """The types of failure as pairs of class numbers."""
    names = plan.classes.names if plan.classes else ()
    found: dict[str, list[tuple[int, int]]] = {}
    for name, kind in _settings(plan.spec).failures.items():
        pairs = []
        for pair in kind.pairs:
            unknown = [c for c in pair if names and str(c) not in names]
            if unknown:
                raise ValueError(
                    f"failures: {name}: {unknown[0]!r} is no class; there are: {', '.join(names)}"
                )
            true, answer = (names.index(str(c)) if names else int(c) for c in pair)
            if true == answer:
                raise ValueError(f"failures: {name}: {pair[0]!r} answered rightly is no failure")
            pairs.append((true, answer))
        found[name] = pairs
    return found


class _Analysis:
    """From arrays to the record, step by step."""

    def __init__(self, plan: Plan, observed: Observations) -> None:
        assert observed.operational is not None
        self.plan, self.observed, self.given = plan, observed, _settings(plan.spec)
        self.apart = _separated(plan)
        data, seen = plan.data[OPERATIONAL], observed.operational.observed
        answers = seen.predicted if seen.predicted is not None else np.full(len(data), -2)
        first = self.apart.reference
        chosen = np.zeros(len(data), dtype=bool)
        if data.has_column(CHOSEN):
            chosen = np.array([str(c) == "chosen" for c in data.column(CHOSEN)])
        # No answer is a failure, whatever the label: it must differ from "no label", too.
        self.operation = Operation(
            self.apart.points[first:],
            self.apart.labels[first:],
            np.where(np.asarray(answers) < 0, -2, answers),
            data.groups,
            chosen & (self.apart.labels[first:] != UNLABELLED),
        )
        self.ids = data.ids

    def result(self) -> ReliabilityResult:
        """All of it."""
        self._check_deterministic()
        operation, given = self.operation, self.given
        reached = self._reached(self.apart.all, len(self.apart.labels))
        from_reference = self._reached(self.apart.of_reference, self.apart.reference)
        at_random = np.where(operation.chosen, UNLABELLED, operation.labels)
        separated = separation_check(at_random, from_reference)
        against = int(separation_check(operation.labels, from_reference)[0].against)
        against = against or self._against_each_other()
        made = ReliabilityResult(
            ReliabilityRecord(),
            operation=operation,
            reached=reached,
            contradicted=against,
            types=_types(self.plan),
        )
        lines = _printed(made, given, CONFIDENCE)
        space = _Space.of(self)
        smoothed = space.smoothed(operation, reached)
        record = ReliabilityRecord(
            assumed="r_separation" in given.assume and lines.holds,
            struck=_struck(lines, int((operation.labels != UNLABELLED).sum())),
            inputs=len(operation.labels),
            labelled=int(operation.tested.sum()),
            chosen=int(operation.chosen.sum()),
            groups=None if operation.groups is None else len(np.unique(operation.groups)),
            bounds=self._bounds(lines, reached, from_reference, space, smoothed),
            gain=lines.gain if lines.without_assumptions.n else None,
            separation=self._separation(),
            evidence=self._evidence(from_reference, reached),
            assumptions=self._assumptions(separated, space, smoothed),
            types=self._types(made.types),
            budget=_budget(operation.failed, operation.of_tested()),
            regions=space.regions(operation, reached),
            map=space.map(operation, reached),
            label_next=self._label_next(space, reached),
            unastuteness=self._unastuteness(),
            profile=_profile(space, self.observed),
        )
        warnings, notes = self._said(lines, record)
        findings = [self._finding(lines, record)]
        return replace(made, record=record, findings=findings, notes=notes, warnings=warnings)

    def _check_deterministic(self) -> None:
        """Refuse a subject that answers otherwise when it is asked again."""
        again = self.observed.searched.get(f"@{AGAIN}")
        if again is None:
            return
        second = again[:CHECKED, 0]
        asked = np.flatnonzero(np.isfinite(second))
        first = np.where(self.operation.answers < 0, -1, self.operation.answers)[asked]
        try:
            check_deterministic(first, second[asked].astype(int), self.ids[asked])
        except ValueError as error:
            raise self.plan.spec.error(("subject",), str(error)) from None

    def _reached(self, separation: LabelSeparation | None, rows: int) -> np.ndarray:
        """The label that reaches each operational input from the first so many rows; its own comes first."""
        if separation is None:
            return (
                self.operation.labels.copy()
                if rows > self.apart.reference
                else np.full(len(self.operation.labels), UNLABELLED)
            )
        known = np.flatnonzero(self.apart.labels[:rows] != UNLABELLED)
        points, labels = self.apart.points[known], self.apart.labels[known]
        found = reach(self.operation.points, points, labels, separation).labels
        if self.given.domain is not None:
            found[_outside(self.operation.points)] = UNLABELLED
        return found

    def _against_each_other(self) -> int:
        """Labelled operational inputs nearer than a given r to one of another class."""
        if self.given.r is None or self.apart.all is None:
            return 0
        known, found = self.operation.labels != UNLABELLED, 0
        points, labels = self.operation.points[known], self.operation.labels[known]
        how = {"radius": self.given.r, "norm": self.given.p}
        for label in np.unique(labels):
            near, _ = nearest_within(points[labels == label], points[labels != label], **how)
            found += int(np.isfinite(near).sum())
        return found

    def _evidence(self, from_reference: np.ndarray, reached: np.ndarray) -> dict[str, float]:
        """What the operational inputs rest on; the shares add to 1."""
        operation = self.operation
        clash = (from_reference >= 0) & (operation.labels >= 0)
        clash &= from_reference != operation.labels
        labels = np.where(clash, from_reference, reached)
        near = Reached(labels, np.zeros(0), np.zeros(0))
        inside: Any = None
        if self.given.domain is not None:
            inside = ~_outside(operation.points)
        return evidence_breakdown(
            operation.answers, near, labels=operation.labels, inside=inside
        ).shares

    def _bounds(
        self,
        lines: PrintedBounds,
        reached: np.ndarray,
        from_reference: np.ndarray,
        space: _Space,
        smoothed: Smoothed | None,
    ) -> list[BoundRecord]:
        """The two lines, and the rows beside them."""
        operation, tested = self.operation, self.operation.tested
        found = [
            _bound_record("without_assumptions", "Without assumptions", lines.without_assumptions),
            _bound_record("if_separated", "If labels are r-separated", lines.if_separated),
        ]
        found = [b.model_copy(update={"printed": True}) for b in found]
        if not lines.holds:
            found[1] = found[1].model_copy(update={"printed": False, "note": "does not count"})
        by_label = lines.propagated
        row = _bound_record("propagated", "All inputs by labels within r", by_label.bound)
        if by_label.says_nothing:
            row = BoundRecord(name=row.name, title=row.title, n=row.n, note=str(by_label))
        found.append(row)
        if (from_reference != UNLABELLED).any():
            guess = (from_reference == UNLABELLED) | (from_reference != operation.answers)
            bound = corrected(
                guess[~tested],
                operation.failed,
                guess[tested],
                groups=None if operation.groups is None else operation.groups[~tested],
                labelled_groups=operation.of_tested(),
            )
            found.append(_bound_record("corrected", "Corrected by labels", bound))
        if space.partition is not None:
            counted = credible(*space.counts(operation, reached))
            row = _bound_record("credible", "Bayesian, by cells and labels within r", counted)
            found.append(row.model_copy(update={"guarantee": False}))
        if smoothed is not None:
            made = BoundRecord(name="smoothed", title="Kernel density, by cells", guarantee=False)
            made.value, made.n = smoothed.estimate, len(operation.labels)
            made.note = f"deviation {_percent(smoothed.deviation)}"
            found.append(made)
        found.append(self._conservative())
        if self.given.labels == "growing":
            bound = _at_any_look(operation.failed, CONFIDENCE)
            row = _bound_record(ANY_LOOK, "At every look", bound)
            found.append(row.model_copy(update={"printed": True}))
        return found

    def _conservative(self) -> BoundRecord:
        """Conservative Bayesian inference, if somebody said what they believe and nothing failed."""
        prior, failed = self.given.prior, self.operation.failed
        made = BoundRecord(
            name="conservative", title="Conservative Bayesian", n=len(failed), guarantee=False
        )
        if prior is None or failed.any():
            made.note = "no prior given" if prior is None else "only if no label fails"
            return made
        made.upper = conservative_bound(len(failed), below=prior.below, belief=prior.belief)
        made.failures, made.method = 0, f"P(pmi <= {prior.below:g}) >= {prior.belief:g}"
        return made

    def _separation(self) -> SeparationRecord | None:
        found = self.apart.all
        if found is None:
            return None
        return SeparationRecord(
            distance=found.distance,
            r=found.r,
            given=found.given,
            norm=None if math.isinf(found.norm) else found.norm,
            labels=found.n,
            pair=[self.apart.ids[row] for row in found.pair],
            chance=found.chance_lower,
            chance_upper=found.chance_upper,
            nearly_zero=found.nearly_zero,
        )

    def _assumptions(
        self, separated: Sequence[AssumptionCheck], space: _Space, smoothed: Smoothed | None
    ) -> list[AssumptionRecord]:
        first = self.apart.reference
        ratio: tuple[float | None, float | None] = (None, None)
        if smoothed is not None:
            ratio = (smoothed.deviation, smoothed.independent_deviation)
        checks = [independence_check(*ratio), *separated]
        if first:
            checks.append(representative_check(space.reference, space.operational))
        else:
            checks.append(AssumptionCheck(3, "not testable here"))
        checks += [
            vote_check(*space.votes(self.operation)),
            AssumptionCheck(6, "not testable here"),
        ]
        data = self.plan.data[OPERATIONAL]
        if self.given.time is not None:
            checks.append(drift_check(space.operational, data.column(self.given.time)))
        checks.sort(key=lambda c: c.number or 7)
        return [
            AssumptionRecord(
                number=c.number, says=c.assumed, verdict=c.verdict, check=_checked_by(c)
            )
            for c in checks
        ]

    def _types(self, types: Mapping[str, list[tuple[int, int]]]) -> list[FailureTypeRecord]:
        operation, tested = self.operation, self.operation.tested
        labels, answers = operation.labels[tested], operation.answers[tested]
        if not types or not len(labels):
            return []
        groups, pairs = operation.of_tested(), list(zip(labels, answers, strict=True))
        costs = {n: k.cost for n, k in self.given.failures.items() if k.cost}
        found = []
        for kind in subtypes(labels, answers, types, groups=groups):
            each = costs.get(kind.name)
            found.append(
                FailureTypeRecord(
                    name=kind.name,
                    failures=sum(pair in types[kind.name] for pair in pairs),
                    value=kind.bound.point,
                    upper=kind.bound.upper,
                    cost=None if each is None else each * kind.bound.upper,
                )
            )
        if len(costs) > 1:
            total = cost_of_failures(labels, answers, types, costs, groups=groups)
            found.append(FailureTypeRecord(name="together", failures=0, cost=total.upper))
        return found

    def _label_next(self, space: _Space, reached: np.ndarray) -> list[str]:
        if space.partition is None:
            return []
        regions = label_next(space.operational, space.cells, reached, count=NEXT)
        return [str(self.ids[row]) for region in regions for row in region.rows]

    def _unastuteness(self) -> UnastutenessRecord | None:
        """The mean over balls, with an interval over them."""
        table = self.observed.searched.get(f"@{CELLS}")
        if table is None:
            return None
        asked = table[np.isfinite(table[:, 0])]
        interval = mean(asked[:, 0], confidence=CONFIDENCE)
        if not math.isfinite(interval.high):  # every ball alike: the means of their own bounds
            low, high = (float(asked[:, column].mean()) for column in (1, 2))
            interval = Interval(low, high, CONFIDENCE, "mean of the balls' intervals")
        assert self.given.unastuteness is not None
        return UnastutenessRecord(
            estimator=self.given.unastuteness.estimator,
            radius=float(dict(self._search(CELLS).parameters)["radius"]),
            inputs=len(asked),
            value=float(asked[:, 0].mean()),
            interval=interval,
            failing=int((asked[:, 5] > 0).sum()),
            queries=int(asked[:, 4].sum()),
        )

    def _search(self, name: str) -> Search:
        return next(s for _, s in self.plan.wants.searches if s.name == name)

    def _finding(self, lines: PrintedBounds, record: ReliabilityRecord) -> Finding:
        bound = lines.judged(record.assumed)
        assumed = ("labels are r-separated",) if record.assumed else ()
        independent = () if record.groups else ("operational inputs are independent",)
        drawn_from = "labelled inputs are drawn like operation"
        return Finding(
            PMI,
            bound.point,
            Interval(bound.lower, bound.upper, 2 * CONFIDENCE - 1, bound.method),
            n=bound.n,
            effective_n=bound.effective_n,
            groups=record.groups,
            about=About(circumstance="operation"),
            better="lower",
            assumptions=(drawn_from, *independent, *assumed),
            details={"failures": bound.k, "gain": lines.gain},
        )

    def _said(self, lines: PrintedBounds, record: ReliabilityRecord) -> tuple[list[str], list[str]]:
        """Warnings and notes."""
        warnings, notes = [], []
        if unanswered := int((self.operation.answers < 0).sum()):
            warnings.append(
                f"pmi: {unanswered} of {record.inputs} operational inputs have no answer and count as "
                f"failing. Their ids are such as {OPERATIONAL}:{self.ids[0]}."
            )
        bound = lines.judged(record.assumed)
        if self.observed.clean.truth is not None and bound.n:
            held = held_out_check(self.observed.clean.failure, bound.upper)
            record.held_out = (
                f"{held.k:,} of {held.n:,} test cases fail, which "
                f"{'contradicts' if held.contradicted else 'does not contradict'} the bound (p = {held.p:.2g})."
            )
            if held.contradicted:
                warnings.append(
                    f"pmi: {held.k} of {held.n} test cases fail, which contradicts the upper bound "
                    f"{_percent(bound.upper)} (p = {held.p:.2g}). Test and operational data differ."
                )
        if record.struck and self.given.assume:
            warnings.append(f"pmi: {record.struck}. Claims are judged without assumptions.")
        if record.separation and record.separation.nearly_zero:
            notes.append(
                f"pmi: {' and '.join(record.separation.pair)} are nearly equal. Check their labels."
            )
        if self.apart.because:
            notes.append(f"pmi: no label reaches another input: {self.apart.because}.")
        tested = self.operation.points[self.operation.tested]
        if not len(tested):
            notes.append(
                "pmi: no operational input was labelled at random: no bound without assumptions. Label some."
            )
        elif tested.shape[1]:
            copies = len(tested) - len(np.unique(tested, axis=0))
            if copies > len(tested) / 100:
                notes.append(
                    f"pmi: {copies} labelled inputs repeat others. If they are copies, leave them out or set `group`."
                )
        return warnings, notes


@dataclass(frozen=True)
class _Space:
    """Where inputs lie: as they are if they have few features, else as the profile encodes them; cut into cells."""

    operational: np.ndarray
    reference: np.ndarray
    partition: Grid | Centres | None
    cells: np.ndarray
    """The cell of each operational input."""
    density: Profile | None
    ids: np.ndarray
    names: tuple[str, str] = ("feature 1", "feature 2")

    @classmethod
    def of(cls, analysis: _Analysis) -> _Space:
        """The space of the operational data; cells of many dimensions are those of reference rows, which are not counted."""
        given, data, fitted = analysis.given, analysis.plan.data, _fitted(analysis.observed)
        if fitted is None:
            known = analysis.apart.points[: analysis.apart.reference]
            none = np.zeros(len(analysis.operation.labels), dtype=int)
            return cls(analysis.operation.points, known, None, none, None, analysis.ids)
        inputs = fitted.encode(data[OPERATIONAL].inputs[:])
        known = fitted.encode(data["reference"].inputs[:]) if "reference" in data else inputs[:0]
        if inputs.shape[1] == 2:
            ends = np.concatenate([inputs, known])
            box = list(zip(ends.min(axis=0).tolist(), ends.max(axis=0).tolist(), strict=True))
            box = given.domain or box
            side = max(high - low for low, high in box) / given.profile.cells
            grid = Grid.over(box, side)
            # The supervisor keeps some of the rows; groups are those of all.
            even = np.full(len(inputs), 1 / len(inputs))
            density = replace(fitted.density, points=inputs, weights=even)
            return cls(inputs, known, grid, grid.cell_of(inputs), density, analysis.ids)
        if not len(known):
            return cls(inputs, known, None, np.zeros(len(inputs), dtype=int), None, analysis.ids)
        count = min(given.profile.cells, max(len(known) // 10, 1))
        centres = Centres.fit(known, count, rng=np.random.default_rng(analysis.plan.spec.seed))
        return cls(inputs, known, centres, centres.cell_of(inputs), None, analysis.ids)

    def counts(
        self, operation: Operation, reached: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By cell that was met: inputs, those that a label reaches, and those of them that fail by it."""
        met, cell = np.unique(self.cells, return_inverse=True)
        known = reached != UNLABELLED
        inputs, tests = (np.bincount(c, minlength=len(met)) for c in (cell, cell[known]))
        wrong = (reached != operation.answers)[known]
        return inputs, tests, np.bincount(cell[known], weights=wrong, minlength=len(met))

    def votes(self, operation: Operation) -> tuple[np.ndarray, np.ndarray]:
        """By cell: the label that all its labelled inputs share, and what most of its inputs are answered with."""
        if self.partition is None:
            return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
        known = operation.labels != UNLABELLED
        number = self.partition.cells
        labels = majority_vote(self.cells[known], operation.labels[known], number)
        mixed = self.cells[known][labels[self.cells[known]] != operation.labels[known]]
        labels[mixed[mixed >= 0]] = UNLABELLED
        return labels, majority_vote(self.cells, operation.answers, number)

    def smoothed(self, operation: Operation, reached: np.ndarray) -> Smoothed | None:
        """The failing share of each cell weighed by the kernel density; cells without an input fail."""
        if self.density is None or self.partition is None:
            return None
        share = self._failing(operation, reached)
        rates = np.where(np.isnan(share), 1.0, share)
        return self.density.smoothed(self.partition, rates, groups=operation.groups)

    def _failing(self, operation: Operation, reached: np.ndarray) -> np.ndarray:
        """By cell, the share of inputs that fail by a label within r or have none; NaN without inputs."""
        return self._share((reached == UNLABELLED) | (reached != operation.answers))

    def _share(self, rows: np.ndarray) -> np.ndarray:
        """By cell, the share of its inputs that are among the rows; NaN without inputs."""
        assert self.partition is not None
        inside, cells = self.cells >= 0, self.partition.cells
        met = np.bincount(self.cells[inside], minlength=cells)
        found = np.bincount(self.cells[inside], weights=rows[inside], minlength=cells)
        return np.where(met > 0, found / np.maximum(met, 1), np.nan)

    def regions(self, operation: Operation, reached: np.ndarray) -> list[RegionRecord]:
        """The regions with most inputs; a map says it of two features."""
        if not isinstance(self.partition, Centres):
            return []
        tested, found = operation.tested, []
        wrong = tested & (operation.answers != operation.labels)
        for cell, n in zip(*np.unique(self.cells, return_counts=True), strict=True):
            own = self.cells == cell
            found.append(
                RegionRecord(
                    name=f"region {cell}, such as {self.ids[_middle(self.operational, own)]}",
                    share=float(n / len(own)),
                    labelled=int((own & tested).sum()),
                    failures=int((own & wrong).sum()),
                    without_label=float((reached[own] == UNLABELLED).mean()),
                )
            )
        return sorted(found, key=lambda region: (-region.failures, -region.share))

    def map(self, operation: Operation, reached: np.ndarray) -> MapRecord | None:
        """Where inputs lie and where they fail, in two dimensions."""
        grid = self.partition
        if not isinstance(grid, Grid) or self.density is None:
            return None
        mass = np.sqrt(self.density.cell_masses(grid).mass)
        bare = reached == UNLABELLED
        shares = (self._share(~bare & (reached != operation.answers)), self._share(bare))
        failing, unlabelled = (x.reshape(grid.shape).T.round(3).tolist() for x in shares)
        wrong = np.flatnonzero(operation.tested & (operation.answers != operation.labels))[:MARKED]
        axes = zip(self.names, grid.lower.tolist(), grid.upper.tolist(), strict=True)
        return MapRecord(
            axes=list(axes),
            # Cell numbers run with the last feature fastest; rows of the map are that feature, from the bottom up.
            profile=(mass / mass.max()).reshape(grid.shape).T.round(3).tolist(),
            failing=failing,
            unlabelled=unlabelled,
            marks=[(*self.operational[i].tolist(), f"input {i} fails") for i in wrong],
        )


def _middle(points: np.ndarray, own: np.ndarray) -> int:
    """The row nearest to the middle of some."""
    rows = np.flatnonzero(own)
    away = np.abs(points[rows] - np.median(points[rows], axis=0)).max(axis=1)
    return int(rows[away.argmin()])


def _fitted(observed: Observations) -> Any:
    """The fitted supervisor of the profile, if it works here."""
    working = observed.supervisors.labels
    found = [s for s in observed.supervisors.plan.supervisions if s.name == SUPERVISOR]
    return next((s.supervisor for s in found if s.label in working), None)


def _profile(space: _Space, observed: Observations) -> ProfileRecord | None:
    """What the profile is, and how much of the test data lies outside it."""
    fitted = _fitted(observed)
    if fitted is None:
        return None
    scores = observed.clean.scores.get(SUPERVISOR)
    left = None if scores is None else float((scores > fitted.limit).mean())
    return ProfileRecord(
        features=space.operational.shape[1], encoded=fitted.encodes, limit=fitted.limit, left=left
    )


def _printed(result: ReliabilityResult, given: ReliabilitySpec, confidence: float) -> PrintedBounds:
    """Both lines at a confidence."""
    operation, reached = result.operation, result.reached
    assert operation is not None and reached is not None
    return printed_bounds(
        operation.failed,
        reached,
        operation.answers,
        groups=operation.of_tested(),
        all_groups=operation.groups,
        split=given.tested_share,
        contradicted=result.contradicted,
        confidence=confidence,
    )


def _at_any_look(failed: np.ndarray, confidence: float) -> PmiBound:
    """The bound that holds however often one looks while labels come in."""
    plain = operational_test(failed, confidence=confidence)
    if not plain.n:
        return plain
    ends = [
        proportion_sequence(plain.k, plain.n, confidence=confidence, sided=s)
        for s in ("lower", "upper")
    ]
    return replace(plain, lower=ends[0].low, upper=ends[1].high, method=ends[1].method)


def _bound_record(name: str, title: str, bound: PmiBound) -> BoundRecord:
    return BoundRecord(
        name=name,
        title=title,
        value=bound.point,
        lower=bound.lower,
        upper=bound.upper,
        n=bound.n,
        failures=bound.k,
        method=bound.method,
    )


def _struck(lines: PrintedBounds, n: int) -> str:
    if lines.contradicted:
        against = lines.contradicted
        return f"r-separation is contradicted by {against} of {n} labelled operational inputs"
    return "" if lines.holds else "more labelled inputs fail than labels within r allow"


def _depends(groups: np.ndarray | None) -> bool:
    """Whether a group has two rows."""
    return groups is not None and len(np.unique(groups)) < len(groups)


def _budget(failed: np.ndarray, groups: np.ndarray | None) -> list[BudgetPoint]:
    """The bound as labels came in, in the order of the file; groups do not come in row by row."""
    if len(failed) < 10 or _depends(groups):
        return []
    sizes = np.unique(np.linspace(max(len(failed) / 20, 10), len(failed), 30).round().astype(int))
    found = []
    for n in sizes.tolist():
        part = failed[:n]
        found.append(
            BudgetPoint(
                labels=n,
                upper=operational_test(part).upper,
                any_time=_at_any_look(part, CONFIDENCE).upper,
            )
        )
    return found


def _checked_by(check: AssumptionCheck) -> str:
    """What was counted or tested, in words."""
    if check.verdict == "not testable here":
        return NOT_TESTED.get(check.number, "too few rows")
    if check.number == 1:
        if math.isnan(check.against):
            return "cells share the same rows"
        return f"deviation {check.against:.1f} times that of independent cells"
    if not math.isnan(check.p) and check.number in (0, 3):
        return f"energy test on {check.n:,} rows each, p = {check.p:.2g}"
    counted = f"{check.against:,.0f} of {check.n:,} against it"
    if check.verdict == "contradicted":
        return counted
    return f"{counted}; a rate below {_percent(check.limit)} would go unseen"


def _shown(record: ReliabilityRecord, run: RunRecord) -> list[Block]:
    """The blocks of the report."""
    blocks: list[Block] = [Text(_sentence(record), "lead", brief=True)]
    if record.struck:
        blocks.append(Text(record.struck + ": the second line does not count.", "alert"))
    blocks += [_bounds_table(record), *_gained(record)]
    blocks += [Text(record.held_out)] if record.held_out else []
    limits = [c.limit for c in run.claims if c.quantity == PMI]
    if record.budget:
        lines = [
            charts.CurveLine(
                "fixed number of labels", tuple((p.labels, p.upper) for p in record.budget)
            ),
            charts.CurveLine("at every look", tuple((p.labels, p.any_time) for p in record.budget)),
        ]
        options = {"title": "Bound against labels", "across": "labels", "up": "upper bound of pmi"}
        picture = drawn(charts.curves_chart, lines, limit=max(limits, default=None), **options)
        caption = (
            "Upper bound after so many labels, in the order of the file. The solid line holds for a number fixed beforehand, "
            "the dashed one at every look."
        )
        blocks.append(Chart("figure-pmi-labels", caption, picture))
    blocks += _rests_on(record)
    if record.map is not None:
        blocks.append(_map_chart(record.map))
    if record.regions:
        blocks.append(_regions_table(record.regions))
    if record.label_next:
        blocks += [
            Heading("Label these next"),
            Text(
                "Inputs in the regions where most operation has no label within r: "
                + ", ".join(record.label_next)
                + f". Write `chosen` in the column `{CHOSEN}`: they then label others and are not counted."
            ),
        ]
    if record.types:
        blocks.append(_types_table(record.types))
    return [*blocks, *_around(record)]


def _sentence(record: ReliabilityRecord) -> str:
    """The claim in words; safe, verified and proven are not among them."""
    first, second = record.bounds[:2]
    if not first.n:
        return "No operational input was labelled at random: there is no bound without assumptions."
    used = second if record.assumed else first
    used = next((b for b in record.bounds if b.name == ANY_LOOK), used)
    assumed = "none"
    if record.assumed:
        assumed = "r-separation, which no label contradicts"
    one_in = f", 1 in {math.floor(1 / used.upper):,}" if used.upper else ""
    what = "groups" if record.groups else "labelled" if used.n == first.n else "inputs"
    return (
        f"At most {_percent(used.upper)} of inputs drawn like the operational data are misclassified"
        f"{one_in} ({numbers.confidence(record.confidence)} confidence, {used.n:,} {what}, "
        f"{_count(first.failures)} failures; assuming: {assumed})."
    )


def _count(x: float | None) -> str:
    return numbers.NONE if x is None else f"{x:,.0f}" if float(x).is_integer() else f"{x:,.2f}"


def _table(heads: str, rows: Sequence[Sequence[Cell | str]], **options: Any) -> Table:
    """A table; heads of numbers begin with #."""
    columns = [Column(h.lstrip("#"), number=h.startswith("#")) for h in heads.split("|")]
    return Table(columns, rows, **options)


def _percent(x: float | None) -> str:
    return numbers.value(x, "percent")


def _bounds_table(record: ReliabilityRecord) -> Table:
    rows: list[list[Cell | str]] = []
    for b in record.bounds:
        how = [b.method, b.note, "" if b.guarantee else "no coverage is claimed"]
        upper = Cell(_percent(b.upper), strong=b.printed)
        words = "; ".join(part for part in how if part)
        counts = [numbers.count(b.n), _count(b.failures)]
        rows.append([Cell(b.title, strong=b.printed), _percent(b.value), upper, *counts, words])
    heads = (
        f"pmi|#Estimate|#Upper {numbers.confidence(record.confidence)} bound|#Inputs|#Failures|How"
    )
    return _table(heads, rows, name="Reliability", brief=2)


def _gained(record: ReliabilityRecord) -> list[Block]:
    if record.gain is None:
        return []
    if record.gain <= 1:
        words = "Labels within r gain nothing here: the plain count of labelled inputs is as good."
    else:
        words = f"If labels are r-separated, labels within r make the bound {record.gain:.2f} times smaller."
    return [Text(words)]


def _rests_on(record: ReliabilityRecord) -> list[Block]:
    """The breakdown of evidence, and the assumptions."""
    words = {
        "agrees": "answered as the label within r says",
        "fails": "answered otherwise",
        "contradicted": "two labels disagree",
        "no_label": "no label within r: counts as failing",
        "outside": "outside the domain: counts as failing",
    }
    rows = [[words.get(name, name), _percent(share)] for name, share in record.evidence.items()]
    blocks: list[Block] = [Heading("What it rests on"), _table("Operational inputs|#Share", rows)]
    apart = record.separation
    if apart is not None:
        r = "given" if apart.given else "half of it"
        blocks.append(
            Text(
                f"The nearest labels of different classes are {apart.distance:.4g} apart ({' and '.join(apart.pair)}); "
                f"r is {apart.r:.4g}, {r}. The next labelled input lowers the distance with probability "
                f"{_percent(apart.chance)} (at most {_percent(apart.chance_upper)}, 97.5%)."
            )
        )
    checks: list[list[Cell | str]] = [
        [f"{a.number or '–'} {a.says}", Cell(a.verdict, bad=a.verdict == "contradicted"), a.check]
        for a in record.assumptions
    ]
    caption = "The assumptions of Zhao et al. 2021. The first line needs none of them."
    table = _table("Assumption|Verdict|Check", checks, name="Assumptions")
    return [*blocks, Text(caption, "small"), table]


def _map_chart(found: MapRecord) -> Chart:
    panels = [
        charts.MapPanel("Profile", _tuples(found.profile), "ramp", ("rare", "common")),
        charts.MapPanel(
            "Failing by a label within r",
            _tuples(found.failing),
            "loss",
            ("none", "all"),
            tuple(found.marks),
            "labelled failure" if found.marks else "",
        ),
        charts.MapPanel("No label within r", _tuples(found.unlabelled), "loss", ("none", "all")),
    ]
    across, up = found.axes
    caption = (
        "The density of operational inputs (square root), and the share of operational inputs of each cell that fail by a "
        "label within r, or have none."
    )
    picture = drawn(charts.map_chart, panels, title="Profile and failures", across=across, up=up)
    return Chart("figure-pmi-map", caption, picture)


def _tuples(rows: Sequence[Sequence[float | None]]) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(row) for row in rows)


def _regions_table(regions: Sequence[RegionRecord]) -> Table:
    rows = [
        [r.name, _percent(r.share), str(r.labelled), str(r.failures), _percent(r.without_label)]
        for r in regions
    ]
    heads = "Region|#Operation|#Labelled|#Failures|#Without a label"
    return _table(heads, rows, fold="Regions of the profile")


def _types_table(types: Sequence[FailureTypeRecord]) -> Table:
    rows = []
    for t in types:
        cost = "" if t.cost is None else f"at most {numbers.amount(t.cost)}"
        rows.append([t.name, _percent(t.value), _percent(t.upper), cost])
    heads = "Failure|#pmi|#Upper bound|#Cost an input"
    return _table(heads, rows, name="Types of failure", brief=len(rows))


def _around(record: ReliabilityRecord) -> list[Block]:
    """What lies around inputs, and the profile as the monitor has it."""
    blocks: list[Block] = []
    found = record.unastuteness
    if found is not None:
        blocks.append(
            Text(
                f"Around {found.inputs:,} labelled inputs, within {found.radius:.4g}: an input fails with probability "
                f"{_percent(found.value)} on average ({numbers.interval(found.interval, 'percent')}); in "
                f"{found.failing:,} balls a failure was found. By {found.estimator}, {found.queries:,} queries. "
                "This is robustness, no part of pmi.",
                bold="Unastuteness. ",
            )
        )
    profile = record.profile
    if profile is not None:
        space = "8 numbers of an autoencoder" if profile.encoded else f"{profile.features} features"
        left = ""
        if profile.left is not None:
            left = f" {_percent(profile.left)} of the test inputs lie outside."
        blocks.append(
            Text(
                f"The supervisor `profile` scores how unlike operation an input is, by a kernel density of {space}; an input "
                f"above {numbers.amount(profile.limit or 0.0)} lies outside the profile that the bound was computed for."
                f"{left}",
                bold="Leaving the profile. ",
            )
        )
    return blocks
