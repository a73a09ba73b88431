"""The section `risk`: what outcomes cost, as costs or as any event tree, and what a case is then expected to cost.

A circumstance occurs in use as often as the file says. One that a filter picks out, and of which the file says nothing, occurs as
often as in the test data; if what is stated leaves less room than that, it takes what is left. Others of which nothing is said do
not count beside these. A stated rate of shift (``p_shift``) keeps the proportions. If nothing at all is stated, filters alone
still have their shares; with other circumstances among them a stated rate of shift is shared evenly by all, and without one the
rate is unknown. What occurs and has no cases is refused: left out, its share would be costed as if it were clean.

>>> risk = RiskSpec.model_validate({"unit": "EUR per patient", "costs": {"missed": 6100, "false_alarm": 180, "referred": 1290}})
>>> risk.event_tree().parameters[:2], risk.needs_alarms
(('p_shift', 'tpr'), True)
>>> weighed({"fog": 0.1, "site_b": None, "snow": None}, {"site_b": 0.25}, None, counted={"fog", "site_b", "snow"})
{'fog': 0.1, 'site_b': 0.25}
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from roadworthy import numbers
from roadworthy.analysis import verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.risk.expected_cost import (
    QUANTITY,
    AssessedRisk,
    CountedCases,
    assess_risk,
)
from roadworthy.analysis.risk.prototypes import (
    LIVE_PARAMETERS,
    Constant,
    Costs,
    asks_for_alarms,
    constants_told,
    cost_tree,
    known_probability,
    named_outcomes,
    refuse_live_constants,
    several_events,
)
from roadworthy.analysis.risk.tree import Tree, checked, refuse_out_of_reach
from roadworthy.assessment.observations import Observations
from roadworthy.assessment.section import Result, Results, Section, drawn, nothing
from roadworthy.claims import Quantity
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean, register
from roadworthy.report import charts, wording
from roadworthy.report.blocks import Block, Cell, Chart, Column, Heading, Table, Text
from roadworthy.spec import Assessment, ClaimSpec, Strict, supervisor_label
from roadworthy.store.record import Number, RecordPart, StoredInterval
from roadworthy.store.record import Record as RunRecord

FUSED = "fused"
KEY = "risk"
TOLERABLE = "TOLERABLE"
"""The id of the claim that a tolerable cost makes."""
MEANINGS = {
    "p_shift": "how often a case is shifted, by the stated probabilities",
    "tpr": "shifted cases that raise an alarm",
    "tnr": "clean cases that raise none",
    "accuracy_clean": "right answers to clean cases",
    "accuracy_shifted": "right answers to shifted cases",
    "accuracy_clean_detected": "right answers to clean cases with an alarm",
    "accuracy_clean_undetected": "right answers to clean cases without one",
    "accuracy_shifted_detected": "right answers to shifted cases with an alarm",
    "accuracy_shifted_undetected": "right answers to shifted cases without one",
}
STATED = "as the assessment file states it"


class CountedSpec(Strict):
    """A probability that was counted."""

    successes: float = Field(ge=0)
    trials: float = Field(gt=0, description="As many as successes or more")


class RiskSpec(Strict):
    """What outcomes cost: `costs` for the built-in trees, or any `tree`."""

    example: ClassVar[str] = "risk: {unit: EUR per case, costs: {right: 0, wrong: 100}}"

    unit: str = Field(min_length=1, description="Unit of the costs: EUR per patient")
    costs: dict[str, float] | None = Field(
        default=None,
        description="Costs of one case: right, wrong and, if alarms call a person, necessary (the answer was wrong) and "
        "unnecessary; also written missed (wrong), referred (necessary), false_alarm (unnecessary)",
    )
    events: list[str] | None = Field(
        None,
        min_length=1,
        description="What may happen to a case, where that is more than shift: [shift, adversarial, ambiguous, module_failure], or "
        "any others; each has p_EVENT and accuracy_EVENT (accuracy_shifted of shift, accuracy_module_failed of module_failure), of "
        "shift counted on cases, of others under constants",
    )
    successive: bool = Field(
        default=False,
        description="Whether several events may happen to the same case; without it at most one does",
    )
    tree: dict[str, Any] | None = Field(
        default=None,
        description="Instead: {event: …, branches: {NAME: {p: parameter or number, then: node or {outcome: …, cost: …}}}}; one "
        "branch of a node leaves out p and takes the rest",
    )
    constants: dict[str, float | CountedSpec] = Field(
        default_factory=dict,
        description="Parameters of the tree that cases cannot estimate: a number, or {successes: 18, trials: 20}",
    )
    tolerable: float | None = Field(
        default=None,
        description="The expected cost above which the system should not be used; claimed as TOLERABLE unless a claim is stricter",
    )
    loss_bins: list[float] | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="Costs between classes of loss, rising: [100, 1000] separates below 100, 100 to 1000, and 1000 or more",
    )
    supervisor: str = Field(
        default="",
        description="Whose alarms call a person; by default fused where there is one, else the first",
    )

    @field_validator("costs")
    @classmethod
    def _outcomes(cls, costs: dict[str, float] | None) -> dict[str, float] | None:
        if costs is None:
            return None
        found = named_outcomes(costs)
        if "wrong" not in found:
            raise ValueError("says nothing of the cost of a wrong answer; add wrong (or missed)")
        return found

    @field_validator("loss_bins")
    @classmethod
    def _rising(cls, edges: list[float] | None) -> list[float] | None:
        if edges and any(later <= earlier for earlier, later in pairwise(edges)):
            raise ValueError("is a rising list of the costs between classes; write [100, 1000]")
        return edges

    @field_validator("tree")
    @classmethod
    def _is_tree(cls, content: dict[str, Any] | None) -> dict[str, Any] | None:
        if content is not None:
            if "unit" in content:
                raise ValueError(
                    "the unit stands beside the tree: risk: {unit: EUR per patient, tree: {…}}"
                )
            try:
                Tree.from_dict(content)
            except ValueError as error:
                raise ValueError(str(error).removeprefix("tree: ").removeprefix("tree.")) from error
        return content

    @field_validator("constants", mode="wrap")
    @classmethod
    def _probabilities(cls, constants: Any, read: Any) -> Any:
        example = (
            "must be a probability, such as 0.9, or counts, such as {successes: 18, trials: 20}"
        )
        for name, value in constants.items() if isinstance(constants, Mapping) else ():
            try:
                (known,) = read({name: value}).values()
                share = known.successes / known.trials if isinstance(known, CountedSpec) else known
            except ValidationError:
                share = math.nan
            if not 0 <= share <= 1 or isinstance(value, bool):
                raise ValueError(f"{name} {example}; it is {value!r}")
        return read(constants)

    @model_validator(mode="after")
    def _one_tree(self) -> RiskSpec:
        if (self.costs is None) == (self.tree is None):
            raise ValueError(
                "needs exactly one of costs, such as {right: 0, wrong: 6100}, and tree, such as {event: …, branches: {…}}"
            )
        self._check_events()
        parameters = self.event_tree().parameters
        for name in self.constants:
            if name not in parameters:
                hint = did_you_mean(name, parameters)
                raise ValueError(
                    f"constants: the tree has no parameter {name!r}{hint}; it has: {', '.join(parameters)}"
                )
        try:
            refuse_live_constants(self.constants, but=("p_shift",))
        except ValueError as error:
            raise ValueError(f"constants: {error}") from error
        untold = [name for name in parameters if name not in (*LIVE_PARAMETERS, *self.constants)]
        if untold:
            given = ", ".join(f"{name}: …" for name in untold)
            raise ValueError(
                f"no case can estimate {', '.join(untold)}{did_you_mean(untold[0], LIVE_PARAMETERS)}; "
                f"add constants: {{{given}}}, or use: {', '.join(LIVE_PARAMETERS)}"
            )
        if self.events:
            known = self.known_constants().items()
            likely = {name: known_probability(name, p) for name, p in known}
            checked(self.event_tree(), {**dict.fromkeys(LIVE_PARAMETERS, 0.0), **likely})
        return self

    def _check_events(self) -> None:
        """Refuse events of which no tree can be made."""
        if self.events is None:
            if self.successive:
                raise ValueError("successive: is about events; add events: [shift, adversarial]")
            return
        if self.tree is not None or {"necessary", "unnecessary"} & set(self.costs or {}):
            raise ValueError(
                "events: go with costs of right and wrong alone; with alarms, write a tree whose nodes are the events"
            )
        odd = next((event for event in self.events if not event.isidentifier()), None)
        if odd is not None:
            raise ValueError(
                f"events: a name is letters, digits and _, such as module_failure; found {odd!r}"
            )
        try:
            self.event_tree()
        except ValueError as error:
            raise ValueError(f"events: {error}") from error

    def event_tree(self) -> Tree:
        """The tree: as given, of several events, or that of figure 2 of the paper where alarms cost something, else of figure 1."""
        if self.tree is not None:
            return Tree.from_dict(self.tree, unit=self.unit)
        if self.events is not None:
            costs = Costs(**self.costs or {})
            return several_events(self.events, costs, successive=self.successive, unit=self.unit)
        return cost_tree(self.costs or {}, unit=self.unit)

    def known_constants(self) -> dict[str, Constant]:
        """Numbers, and what was counted."""
        return {
            name: (value.successes, value.trials)
            if isinstance(value, CountedSpec)
            else float(value)
            for name, value in self.constants.items()
        }

    @property
    def needs_alarms(self) -> bool:
        """Whether the tree asks what a supervisor says."""
        return asks_for_alarms(self.event_tree())


def in_use(plan: Plan, counted: Collection[str] | None = None) -> dict[str, float]:
    """The probability of each circumstance that counts; ValueError if it is unknown."""
    mixed = plan.spec.mixtures
    stated = {c.name: c.probability for c in plan.circumstances if c.name not in mixed.members}
    stated |= {c.name: c.met_in_use for c in plan.circumstances if c.name in mixed.names}
    return weighed(stated, _usual(plan), _rate(plan), stated if counted is None else counted)


def shifted_in_use(plan: Plan) -> float:
    """How often a case is shifted, as far as file and test data tell; 0 if they do not."""
    rate = _rate(plan)
    try:
        return min(math.fsum(in_use(plan).values()), 1.0) if rate is None else rate
    except ValueError:
        return 0.0


def supposed(plan: Plan) -> list[str]:
    """That filtered cases count as often as in the test data, if the file does not say otherwise."""
    usual = _usual(plan)
    silent = [c.name for c in plan.circumstances if c.probability is None and c.name in usual]
    stated = any(c.probability is not None for c in plan.circumstances)
    if not silent or not (stated or len(silent) == len(plan.circumstances)):
        return []
    shares = " and ".join(f"{name} ({usual[name]:.1%})" for name in silent)
    counts = "counts" if len(silent) == 1 else "count"
    return [f"{shares} {counts} as often as in the test data; say otherwise with probability: …"]


def weighed(
    stated: Mapping[str, float | None],
    usual: Mapping[str, float],
    rate: float | None,
    counted: Collection[str],
) -> dict[str, float]:
    """The rule: `usual` are the shares of filtered test cases, `counted` what there are cases of."""
    given = {name: p for name, p in stated.items() if p is not None}
    silent = {name: usual[name] for name in stated if name not in given and name in usual}
    if given or (stated and len(silent) == len(stated)):
        room, asked = max(1.0 - math.fsum(given.values()), 0.0), math.fsum(silent.values())
        fitting = {n: p if asked <= room else p * room / asked for n, p in silent.items()}
        shares = {n: (given | fitting)[n] for n in stated if n in given or n in fitting}
    elif rate is None:
        raise ValueError(
            "no circumstance has a probability; give them one, or risk: {constants: {p_shift: 0.1}}"
        )
    else:
        shares = dict.fromkeys(stated, 1.0)
    if rate is not None:
        total = math.fsum(shares.values())
        shares = {n: rate * (p / total if total else 1.0 / len(shares)) for n, p in shares.items()}
    unseen = [name for name, p in shares.items() if p > 0 and name not in counted]
    if unseen:
        raise ValueError(
            f"there are no cases of {', '.join(unseen)} to count, and the file says that they occur"
        )
    return {name: p for name, p in shares.items() if name in counted}


def _usual(plan: Plan) -> dict[str, float]:
    """How often test cases are filtered; one that several filters pick counts for each in equal parts."""
    picked = {
        c.name: plan.data["test"].where(c.where) for c in plan.circumstances if c.where is not None
    }
    often = np.maximum(np.sum(list(picked.values()), axis=0), 1) if picked else np.ones(1)
    return {name: float((cases / often).mean()) for name, cases in picked.items()}


def _rate(plan: Plan) -> float | None:
    spec = plan.spec.part(KEY, RiskSpec)
    rate = spec.known_constants().get("p_shift") if spec else None
    return None if rate is None else known_probability("p_shift", rate)


class LeafRecord(RecordPart):
    """An outcome, and the branches that lead to it."""

    path: list[str]
    outcome: str


class LossRecord(RecordPart):
    """A class of loss: outcomes of about one cost, or cases whose score lets expect about one cost."""

    low: Number = None
    high: Number = Field(
        default=None, description="Null, as low may be, where the class has no end"
    )
    probability: float
    expected_loss: float
    adds: float = Field(description="To the expected cost; all classes together are it")
    leaves: list[LeafRecord] = Field(default_factory=list)
    wrong: Number = Field(default=None, description="The share of wrong answers")


class WorthRecord(RecordPart):
    """A point (0.01) of the detector's parameters, all together, against one of the classifier's."""

    detector: list[str]
    classifier: list[str]
    saved_by_detector: float = Field(description="Negative where it adds to the expected cost")
    saved_by_classifier: float
    points: Number = Field(
        default=None,
        description="Points of the classifier that save as much as one of the detector",
    )


class CountedRecord(RecordPart):
    """Cases of one condition, and how often they occur in use."""

    name: str
    probability: float
    n: int


class RiskRecord(RecordPart):
    """The event tree with its parameters, expected cost and interval; or why there is none."""

    because: str = ""
    unit: str = ""
    tree: dict[str, Any] = Field(default_factory=dict)
    parameters: dict[str, float] = Field(default_factory=dict)
    slopes: dict[str, Number] = Field(
        default_factory=dict, description="What one more point (0.01) of each parameter adds"
    )
    worth: WorthRecord | None = None
    value: Number = None
    interval: StoredInterval | None = None
    tolerable: Number = None
    exceedance: Number = Field(
        default=None, description="The probability that more than this is expected"
    )
    outcomes: dict[str, dict[str, float]] = Field(default_factory=dict)
    loss_bins: list[LossRecord] = Field(default_factory=list)
    loss_by_score: list[LossRecord] = Field(default_factory=list)
    kinds: list[CountedRecord] = Field(default_factory=list)
    supervisor: str = Field(default="", description="Whose alarms call a person")
    scored_by: str = Field(default="", description="Whose scores separate classes of loss")
    notes: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class RiskResult(Result):
    """With the assessed risk itself, for claims; and the supervisor whose alarms it counts."""

    assessed: AssessedRisk | None = None
    supervisor: str = ""


@register("sections", "risk")
class Risk(Section):
    """The expected cost of a case, by an event tree."""

    keys = {KEY: RiskSpec}
    after = ("supervision",)
    quantities = (
        Quantity(
            QUANTITY,
            "what a case is expected to cost: over all outcomes of the event tree, probability times cost.",
            style="plain",
            unit=KEY,
            places=(),
            one_way=True,
        ),
    )
    Record = RiskRecord

    def check_file(self, spec: Assessment) -> None:
        """The costs fit the rest of the file; a tolerable cost is a claim."""
        claims = [i for i, c in enumerate(spec.claims) if c.quantity == QUANTITY]
        risk = spec.part(KEY, RiskSpec)
        if risk is None:
            if claims:
                raise spec.error(
                    ("claims", claims[0]),
                    "claims what cases cost, and the file does not say. Add `risk: {unit: EUR per case, costs: {wrong: 100}}`",
                )
            return
        if risk.tolerable is not None:
            with spec.located((KEY, "tolerable")):
                refuse_out_of_reach(risk.event_tree(), risk.tolerable)
        labels = [supervisor_label(e, spec.supervisors) for e in spec.supervisors]
        if risk.supervisor and risk.supervisor not in labels:
            near = did_you_mean(risk.supervisor, labels)
            raise spec.error(
                (KEY, "supervisor"), f"{risk.supervisor!r} is not among the supervisors{near}"
            )
        alone = [c for name, c in spec.circumstances.items() if name not in spec.mixtures.members]
        total = sum(c.probability for c in alone if c.probability is not None)
        if total > 1 + 1e-9:
            raise spec.error(
                ("circumstances",),
                f"their probabilities add up to {total:g}; for a risk they exclude each other, at most 1. If they occur "
                "together, add a circumstance `operation: {mixture: all}`",
            )
        for i in claims:
            _check_claim(spec, risk, i)
        if risk.tolerable is not None and not claims:
            # A tolerable cost is meant to be kept.
            content = {"id": TOLERABLE, QUANTITY: {"max": risk.tolerable}}
            spec.claims.append(ClaimSpec.model_validate(content))

    def check(self, plan: Plan) -> None:
        """A risk needs answers that can be wrong."""
        if plan.spec.part(KEY, RiskSpec) is not None and plan.spec.never_wrong:
            raise plan.spec.error((KEY,), f"is about failures. {plan.spec.never_wrong}")

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> RiskResult:
        """The expected cost on what was observed, or why there is none."""
        spec = plan.spec.part(KEY, RiskSpec)
        assert spec is not None
        thresholds = alarm_thresholds(results)
        label, notes = "", []
        if spec.needs_alarms:
            label = spec.supervisor or _chosen(thresholds)
            if label not in thresholds:
                who = f"{label} has no threshold" if label else "no supervisor has a threshold"
                return _none(f"the tree asks who raises an alarm, and {who}; the notes say why")
            if not spec.supervisor and len(thresholds) > 1:
                notes.append(
                    f"risk: alarms are those of {label}. Set `risk: {{supervisor: …}}` to choose another."
                )
        scored_by = label or spec.supervisor or _chosen(observed.clean.scores)
        try:
            found = expected_cost(
                plan, observed, spec.event_tree(), thresholds.get(label), label, scored_by
            )
        except ValueError as error:
            return _none(str(error))
        confidence = plan.spec.confidence
        content = found.to_dict(confidence, spec.tolerable, loss_bins=spec.loss_bins or ())
        record = RiskRecord.model_validate({**content, "supervisor": label, "scored_by": scored_by})
        said = (*supposed(plan), *constants_told(spec.constants), *found.notes)
        notes += [f"risk: {note}" for note in said]
        return RiskResult(record, [found.finding(confidence)], notes, (), {}, found, label)

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """The expected cost; one place."""
        assert isinstance(result, RiskResult) and isinstance(result.record, RiskRecord)
        if result.assessed is not None:
            return [result.assessed.evidence()]
        return [nothing(QUANTITY, result.record.because)]

    def view(self, record: RiskRecord, run: RunRecord) -> list[Block]:
        """The tree, classes of loss, and what a point of each parameter is worth."""
        blocks: list[Block] = [Heading("Risk", id="risk")]
        if record.because:
            return [*blocks, Text(f"There is no expected cost: {record.because}.", "empty")]
        alarms = f" Alarms are those of {record.supervisor}." if record.supervisor else ""
        blocks += [Text(_summary(record) + alarms, "lead", brief=True), _picture(record)]
        if record.loss_bins:
            words = f"Outcomes by what they cost, in {record.unit}."
            blocks += [Heading("Classes of loss"), Text(words, "small")]
            blocks.append(_losses("loss-bins", "Cost", record.loss_bins))
        if record.loss_by_score:
            words = (
                f"Test cases with similar scores of {record.scored_by}, by their mean cost. The wider the classes are apart, "
                "the better the score separates costly cases from others. On new cases they are a little closer."
            )
            blocks += [Heading("Expected loss by score"), Text(words, "small")]
            blocks.append(_losses("loss-by-score", "Expected loss", record.loss_by_score))
        return [*blocks, *_points(record), _counted_on(record)]


def alarm_thresholds(results: Results) -> Mapping[str, Threshold]:
    """The thresholds of the supervisors; none if there is no section on them."""
    return getattr(results.get("supervision"), "chosen", {})


def _check_claim(spec: Assessment, risk: RiskSpec, i: int) -> None:
    given = any(c.probability is not None for c in spec.circumstances.values())
    # Filtered cases occur as often as in the test data where nothing is said of them.
    filters = [c.where is not None for c in spec.circumstances.values()]
    known = given or (bool(filters) and all(filters)) or "p_shift" in risk.constants
    if "p_shift" in risk.event_tree().parameters and not known:
        raise spec.error(
            ("claims", i),
            "how often is it shifted? Give circumstances a probability, or risk: {constants: {p_shift: 0.1}}",
        )
    if risk.needs_alarms and not (spec.supervisors and spec.data.calibration):
        lacking = "`supervisors`" if not spec.supervisors else "`data.calibration`, for thresholds"
        raise spec.error(
            ("claims", i),
            f"the tree asks who raises an alarm; add {lacking}, or give costs of right and wrong only",
        )


def _none(because: str) -> RiskResult:
    note = f"There is no expected cost: {because}"
    return RiskResult(RiskRecord(because=because), notes=(note,))


def _chosen(supervisors: Iterable[str]) -> str:
    names = list(supervisors)
    return FUSED if FUSED in names else next(iter(names), "")


def expected_cost(
    plan: Plan,
    observed: Observations,
    tree: Tree,
    threshold: Threshold | None = None,
    label: str = "",
    scored_by: str = "",
) -> AssessedRisk:
    """What a case costs by a tree; `threshold` is that of the supervisor whose alarms the tree asks for.

    ValueError with the reason if it is unknown how often something occurs.
    """

    def rows(o: Observed, probability: float) -> CountedCases:
        alarm = verdicts.alarms(threshold, o, label) if threshold is not None else None
        score = o.scores.get(scored_by)
        return CountedCases(o.name, probability, o.failure.astype(bool), alarm, o.clusters, score)

    clean, *shifted = (rows(o, p) for o, p in _kinds(plan, observed.clean, observed.others))
    spec = plan.spec.part(KEY, RiskSpec)
    constants = spec.known_constants() if spec else {}
    return assess_risk(tree, clean, shifted, constants=constants, seed=plan.spec.seed)


def _kinds(plan: Plan, clean: Observed, others: Sequence[Observed]) -> list[tuple[Observed, float]]:
    """Clean first, then every circumstance at every level, each with its probability in use."""
    each = in_use(plan, {o.circumstance for o in others if len(o)})
    found = [o.shifted() for o in others if o.circumstance in each]
    levels = Counter(o.circumstance for o in found)
    weights = [(o, each[o.circumstance] / levels[o.circumstance]) for o in found]
    # What a filter picks out is counted under its own name, not among the rest as well.
    own = {s for o in found if o.versus == "rest" for s in o.samples.tolist()}
    rest = clean.take(~np.isin(clean.samples, list(own))) if own else clean
    return [(rest, 1.0 - shifted_in_use(plan)), *weights]


def _summary(record: RiskRecord) -> str:
    shown = numbers.estimate(record.value, record.interval, None)
    words = f"The expected cost is {shown.value} {record.unit}"
    words += f" ({shown.interval} at {shown.confidence})" if record.interval else ""
    if record.tolerable is None:
        return f"{words}."
    limits = {0.0: "below 0.01%", 1.0: "above 99.99%"}
    doubt = limits.get(record.exceedance or 0.0, numbers.value(record.exceedance, "percent"))
    return f"{words}. The tolerable cost is {numbers.limit(record.tolerable)}; P(cost above it) is {doubt}."


def _picture(record: RiskRecord) -> Chart:
    caption = (
        "The event tree: events, their branches with probabilities (a line is as thick as its branch is likely, dashed if "
        "never taken), and the outcomes. Each bar starts where the one above ends: together they are the expected cost in "
        f"{record.unit}."
    )
    caption += " Dashed vertical: the tolerable cost." if record.tolerable is not None else ""
    tree = Tree.from_dict(record.tree)

    options = {"tolerable": record.tolerable, "interval": record.interval}
    title = "Expected cost by event tree"
    draw = drawn(charts.event_tree, tree, record.parameters, title=title, **options)
    return Chart("figure-risk", caption, draw)


def _losses(id: str, head: str, classes: Sequence[LossRecord]) -> Table:
    rows = []
    for c in classes:
        paths: dict[str, list[str]] = {}
        for leaf in c.leaves:
            paths.setdefault(leaf.outcome, []).append(" > ".join(leaf.path))
        under = [f"{outcome}: {'; '.join(ends)}" for outcome, ends in paths.items()]
        under += (
            [f"{numbers.value(c.wrong, 'percent')} wrong answers"] if c.wrong is not None else []
        )
        cells = [numbers.value(c.probability, "percent"), numbers.value(c.expected_loss)]
        cells.append(numbers.value(c.adds))
        rows.append([Cell(_range(c.low, c.high), under, strong=True), *map(Cell, cells)])
    columns = [Column(head, number=False), Column("Probability"), Column("Mean cost")]
    return Table([*columns, Column("Adds")], rows, id=id)


def _points(record: RiskRecord) -> list[Block]:
    words = "A point is 0.01 of a probability, all others held; what changes the cost most comes first. Negative: more of it saves."
    ordered = sorted(record.parameters, key=lambda p: -abs(record.slopes.get(p) or 0.0))
    rows = [
        [
            Cell(name, MEANINGS.get(name, STATED), strong=True),
            Cell(numbers.value(record.parameters[name], "percent")),
            Cell(numbers.value(record.slopes.get(name))),
        ]
        for name in ordered
    ]
    columns = [Column("Parameter", number=False), Column("Value")]
    columns.append(Column("One point more", sub=record.unit))
    blocks: list[Block] = [Heading("What one point more would save"), Text(words, "small")]
    blocks.append(Table(columns, rows))
    if record.worth is not None:
        blocks.append(Text(_worth(record.worth, record.unit)))
    return [*blocks, *([Text(record.notes, "list")] if record.notes else [])]


def _worth(worth: WorthRecord, unit: str) -> str:
    """
    >>> saved = {"saved_by_detector": 0.39, "saved_by_classifier": 0.78, "points": 0.5}
    >>> _worth(WorthRecord(detector=["tpr"], classifier=["accuracy_clean"], **saved), "EUR").partition(":")[0]
    "One more point of tpr saves 0.390 EUR, as much as 0.500 points of the classifier's accuracy"
    """
    of = f"the detector's balanced accuracy ({wording.listed(worth.detector)} alike)"
    of = worth.detector[0] if len(worth.detector) == 1 else of
    first = f"One more point of {of} {_saves(worth.saved_by_detector)} {unit}"
    classifier = _saves(worth.saved_by_classifier)
    if worth.points is None:
        return f"{first}; one of the classifier's accuracy, in every condition, {classifier}."
    as_much = f"as much as {numbers.value(worth.points)} points of the classifier's accuracy"
    return f"{first}, {as_much}: one of these, in every condition, {classifier}."


def _saves(cost: float) -> str:
    return f"{'saves' if cost >= 0.0 else 'adds'} {numbers.value(abs(cost))}"


def _counted_on(record: RiskRecord) -> Table:
    rows = [
        [k.name, numbers.value(k.probability, "percent"), numbers.count(k.n)] for k in record.kinds
    ]
    columns = [Column("Cases", number=False), Column("Probability in use"), Column("n")]
    return Table(columns, rows, fold="What it was counted on")


def _range(low: float | None, high: float | None) -> str:
    """
    >>> _range(None, 100.0), _range(100.0, 1000.0), _range(1000.0, None), _range(6735.0, 6735.0), _range(1 / 3, 2 / 3)
    ('below 100', '100 to 1,000', '1,000 or more', '6,735', '0.333 to 0.667')
    """
    first, last = (None if end is None else _amount(end) for end in (low, high))
    if first is None:
        return f"below {last}"
    return first if first == last else f"{first} or more" if last is None else f"{first} to {last}"


def _amount(x: float) -> str:
    """As exact as it was set, if somebody set it; three digits of what was worked out."""
    return numbers.limit(x) if float(f"{x:.6g}") == x else numbers.value(x)
