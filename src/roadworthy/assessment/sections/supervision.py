"""The section `supervision`: how well supervisors find failures and shift, thresholds, verdicts, and a small set to run.

Thresholds are chosen on the calibration cases by the rule under `verdicts`; rates and counts come from the test cases, which
chose nothing.

>>> VerdictSpec.model_validate({"rule": "false_positive_rate", "rate": 0.01}).rate
0.01
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from roadworthy import numbers
from roadworthy.analysis import supervision, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.tallies import BatchVerdicts, tally_verdicts, verdicts_on_batches
from roadworthy.analysis.verdicts import VerdictRule
from roadworthy.assessment.observations import Observations, Seen
from roadworthy.assessment.recommendation import (
    Recommendation,
    SetRate,
    recommend,
    recommendation_blocks,
)
from roadworthy.assessment.section import (
    ClaimPlace,
    Result,
    Results,
    Section,
    drawn,
    evidence_at,
    nothing,
)
from roadworthy.assessment.supervisors import Supervisors
from roadworthy.claims import Quantity
from roadworthy.data.values import CLASS_SCORES
from roadworthy.execution.plan import Plan, Supervision
from roadworthy.finding import About, Evidence, Finding
from roadworthy.registry import register
from roadworthy.report import charts, wording
from roadworthy.report.blocks import (
    MOST_ROWS,
    Block,
    Cell,
    Chart,
    Column,
    Heading,
    Table,
    Text,
    found_cell,
    place_name,
)
from roadworthy.spec import Assessment, ClaimSpec, Strict
from roadworthy.store.record import Record as RunRecord
from roadworthy.store.record import RecordPart, as_dict
from roadworthy.store.runs import CASE_COLUMNS
from roadworthy.subject.needs import Gradient, Passes

PRICES = ("miss", "false_alarm", "prevalence")
LEARNED = "learned from calibration cases under these same circumstances; a new kind of shift may be caught less"
"""What is to be said of a supervisor that contrasts clean with shifted calibration cases."""
FORWARDS_OF_GRADIENT = 3
"""A forward pass and a backward one, which costs about two."""
MOST_LEVELS = 24
"""Rows of places up to which every level is drawn; beyond, only the highest of each circumstance."""
TOGETHER = "the set together"
NO_THRESHOLDS = "No alarm thresholds: there is no calibration data. Add `data.calibration` with cases not used elsewhere."


class VerdictSpec(Strict):
    """How scores become verdicts; by default conformal at 0.05, if there is calibration data."""

    example: ClassVar[str] = "verdicts: {rule: conformal, rate: 0.05}"

    rule: Literal["conformal", "false_positive_rate", "balanced_accuracy", "cost"] = Field(
        "conformal",
        description="conformal: at most `rate` false alarms are expected, whatever the scores' distribution, and if the "
        "data has groups, for a case of a new group; "
        "false_positive_rate: at most this share of the calibration rows; balanced_accuracy; cost: least expected cost",
    )
    rate: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="False alarms among clean cases that were answered rightly, and in batches",
    )
    per_class: bool = Field(default=False, description="A threshold for each predicted class")
    miss: float | None = Field(None, gt=0, description="cost: of a failure without an alarm")
    false_alarm: float | None = Field(None, gt=0, description="cost: of an alarm without a failure")
    prevalence: float | None = Field(
        None, gt=0, lt=1, description="cost: the share of failures to expect in use"
    )

    @model_validator(mode="after")
    def _prices(self) -> VerdictSpec:
        given = [p for p in PRICES if getattr(self, p) is not None]
        missing = [p for p in PRICES if p not in given]
        if self.rule == "cost" and missing:
            raise ValueError(
                f"the rule cost needs {', '.join(missing)}, such as {{rule: cost, miss: 100, false_alarm: 1, prevalence: 0.1}}"
            )
        if self.rule != "cost" and given:
            raise ValueError(
                f"{given[0]} belongs to the rule cost, and the rule is {self.rule}; leave it out, or write rule: cost"
            )
        return self


def verdict_rule(spec: Assessment) -> VerdictRule:
    """The rule of the file, or the default."""
    given = spec.part("verdicts", VerdictSpec)
    return VerdictRule() if given is None else VerdictRule(**given.model_dump())


if TYPE_CHECKING:
    StoredThreshold = Threshold
else:
    StoredThreshold = as_dict(Threshold, words=True)


class VerdictCounts(RecordPart):
    """Test cases by condition: right without and with an alarm, wrong without and with one."""

    kinds: list[str]
    table: list[list[list[int]]]


class SupervisorRecord(RecordPart):
    """A supervisor: what it took, and its threshold."""

    name: str
    module: str = ""
    applicable: bool = True
    because: str = Field(default="", description="Why it is not applicable")
    parameters: dict[str, Any] = Field(default_factory=dict)
    members: list[str] = Field(default_factory=list, description="Those whose scores it reads")
    fit_seconds: float = Field(0.0, description="In this run, or in the one that kept the fit")
    score_seconds: float = 0.0
    subject_passes: int = Field(
        default=0,
        description="About how many forward passes a case the subject makes for it on top",
    )
    kept_bytes: int = Field(default=0, description="What it has to keep in memory to score")
    notes: list[str] = Field(default_factory=list)
    threshold: StoredThreshold | None = Field(
        default=None,
        description="A score above the value is an alarm; null if there are no verdicts",
    )
    verdicts: VerdictCounts | None = None
    batches: list[BatchVerdicts] = Field(
        default_factory=list, description="Verdicts on batches of test cases, by size and statistic"
    )


class SupervisionRecord(RecordPart):
    """The supervisors of a run, and the set that it recommends."""

    supervisors: list[SupervisorRecord] = Field(default_factory=list)
    recommended: Recommendation | None = None


@dataclass(frozen=True)
class SupervisionResult(Result):
    """With the thresholds that were chosen."""

    chosen: Mapping[str, Threshold] = field(default_factory=dict)
    recommended: Recommendation | None = None


def _share(name: str, needs: tuple[str, ...], meaning: str, **more: Any) -> Quantity:
    places = ("circumstance", "slice", "supervisor")
    one_way = name != "alarm_rate"
    given = {"needs": needs, "places": places, "one_way": one_way, **more}
    return Quantity(name, meaning, low=0.0, high=1.0, **given)


_FAILURE, _SHIFT = ("supervisor",), ("supervisor", "circumstance")
_UNIT = {"better": "higher", "style": "decimal"}


@register("sections", "supervision")
class SupervisionSection(Section):
    """How well supervisors find failures and shift, their thresholds, and a small set to run."""

    keys = {"verdicts": VerdictSpec}
    always = True
    after = ("performance",)
    Record = SupervisionRecord
    quantities = (
        _share(
            "auc_failure",
            _FAILURE,
            "AUC for failures, the chance that a supervisor scores a failure above a success: 0.5 is guessing, 1 is perfect.",
            **_UNIT,
        ),
        _share(
            "aupr_failure",
            _FAILURE,
            "AUPR for failures, the area under the curve of precision against recall. Guessing gives the failure rate, 1 is "
            "perfect; compare it only at equal failure rates.",
            **_UNIT,
        ),
        _share(
            "fpr95_failure",
            _FAILURE,
            "FPR@95 for failures, the share of right cases with an alarm at the threshold at which 95% of the failures have "
            "one: 0% is perfect, guessing gives 95%.",
        ),
        _share(
            "auc_shift",
            _SHIFT,
            "AUC for the shift itself, the chance that a supervisor scores a case of the circumstance above a clean one; it "
            "says nothing about failures.",
            **_UNIT,
        ),
        _share(
            "aupr_shift",
            _SHIFT,
            "AUPR for the shift itself, with the cases of the circumstance to be found among the clean ones.",
            **_UNIT,
        ),
        _share("fpr95_shift", _SHIFT, "FPR@95 for the shift itself."),
        _share("miss_rate", _FAILURE, "the share of the failures that raise no alarm."),
        _share(
            "false_alarm_rate",
            _FAILURE,
            "the share of cases with a right answer that raise an alarm. A score above the supervisor's threshold is an alarm, "
            "and so is a case without a score.",
        ),
        _share("alarm_rate", _FAILURE, "the share of all cases that raise an alarm."),
    )

    def check_file(self, spec: Assessment) -> None:
        """Verdicts are those of supervisors."""
        if spec.part("verdicts", VerdictSpec) is not None and not spec.supervisors:
            raise spec.error(
                ("verdicts",), "verdicts are those of supervisors, and the file names none"
            )

    def check(self, plan: Plan) -> None:
        """Refuse, before any work, verdicts that could not be given, and claims that could not be judged."""
        spec, given = plan.spec, plan.spec.part("verdicts", VerdictSpec)
        taken = [s.label for s in plan.supervisions if s.label in CASE_COLUMNS]
        if taken:
            raise spec.error(
                ("supervisors",),
                f"{taken[0]!r} is a column of the table of cases; rename the supervisor",
            )
        if given is not None:
            self._check_verdicts(plan, given)
        for i, claim in enumerate(spec.claims):
            about_failures = claim.quantity in (*supervision.FAILURE, "miss_rate")
            if about_failures and claim.supervisor and spec.never_wrong:
                raise spec.error(
                    ("claims", i), f"{claim.quantity} is about failures. {spec.never_wrong}"
                )
            if claim.quantity in verdicts.RATES and "calibration" not in plan.data:
                raise spec.error(
                    ("claims", i), f"{claim.quantity} needs thresholds. {NO_THRESHOLDS}"
                )

    def _check_verdicts(self, plan: Plan, given: VerdictSpec) -> None:
        spec = plan.spec
        if "calibration" not in plan.data:
            raise spec.error(("verdicts",), NO_THRESHOLDS)
        if given.per_class and plan.subject.output_kind is not CLASS_SCORES:
            raise spec.error(
                ("verdicts", "per_class"),
                f"needs class scores, and the subject gives {plan.subject.output_kind.name}",
            )
        rule, data = verdict_rule(spec), plan.data["calibration"]
        grouped = rule.rule == "conformal" and data.groups is not None
        n = len(set(data.groups.tolist())) if grouped and data.groups is not None else len(data)
        if n < rule.least:
            what = ("groups with clean cases", "groups") if grouped else ("clean cases", "cases")
            raise spec.error(
                ("verdicts", "rule"),
                f"{rule.rule} at {rule.rate:g} needs at least {rule.least} {what[0]} that are answered rightly, and the "
                f"calibration data has {n} {what[1]}; give more, or accept a higher rate",
            )

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> SupervisionResult:
        """Rankings, thresholds, verdicts, and the recommended set."""
        rule, confidence = verdict_rule(plan.spec), plan.spec.confidence
        thresholds, notes = _thresholds(plan, observed, rule)
        clean, others = observed.clean, observed.others
        findings = supervision.ranking_findings(
            clean, others, observed.references, confidence=confidence
        )
        findings += verdicts.verdict_findings(clean, others, thresholds, confidence=confidence)
        findings = _assumed(plan, observed, rule, findings)
        if thresholds:
            notes += [
                f"{c.name} has data of its own, none of which chose the thresholds."
                for c in plan.circumstances
                if c.own_data is not None
            ]
        elif observed.supervisors.labels and "calibration" not in plan.data:
            notes.append(NO_THRESHOLDS)
        recommended = recommend(plan, observed, thresholds, rule)
        record = SupervisionRecord(
            supervisors=[_recorded(s, plan, observed, thresholds) for s in plan.supervisions],
            recommended=recommended,
        )
        warnings = [] if recommended is None else recommended.notes
        notes = [*observed.notes, *notes]
        return SupervisionResult(record, findings, notes, warnings, {}, thresholds, recommended)

    def evidence(
        self, claim: ClaimSpec, plan: Plan, observed: Observations, result: Result
    ) -> list[Evidence]:
        """What is known of a supervisor at each place."""
        assert isinstance(result, SupervisionResult)

        def known(place: ClaimPlace) -> Evidence:
            return _evidence(claim, plan, observed, result.chosen, place)

        compared = claim.quantity in supervision.SHIFT
        return evidence_at(claim, plan, observed, known, compared=compared)

    def view(self, record: SupervisionRecord, run: RunRecord) -> list[Block]:
        """The recommended set, what each misses and costs, and how verdicts come about."""
        heading = Heading("Supervisors", id="supervisors")
        if not record.supervisors:
            return [heading, Text("No supervisors were asked for.", "empty")]
        seen = _View.of(record, run)
        return [
            heading,
            *recommendation_blocks(record.recommended),
            *_pictures(seen),
            *_worth(seen),
            *_inapplicable(seen),
            *_how(seen),
            *_everywhere(seen),
        ]


def _thresholds(
    plan: Plan, observed: Observations, rule: VerdictRule
) -> tuple[dict[str, Threshold], list[str]]:
    """The threshold of each supervisor, and what is odd about them."""
    notes: list[str] = []
    found: dict[str, Threshold] = {}
    if not observed.calibration:
        return found, notes
    clean, *shifted = observed.calibrating
    without_own: dict[tuple[str, ...], list[str]] = {}
    for label in clean.scores:
        if label not in observed.clean.scores:
            continue
        left = observed.left.get(label)
        try:
            threshold = verdicts.choose(rule, clean, shifted, label, left)
        except ValueError as error:
            notes.append(f"supervisor {label} has no threshold: {error}")
            continue
        found[label] = threshold
        nominal = ~clean.failure if left is None else ~clean.failure & left
        missing = int(np.isnan(clean.scores[label][nominal]).sum())
        if missing:
            cannot = "; the rate cannot be kept" if threshold.overrun else ""
            notes.append(
                f"supervisor {label}: {missing} of {int(nominal.sum())} calibration cases without a score count as "
                f"alarms{cannot}"
            )
        if silent := _silent(threshold):
            notes.append(f"supervisor {label} {silent}: {verdicts.too_few(threshold, rule)}")
        if rule.per_class:
            classes = _without_own(plan, observed.calibration[0], threshold)
            without_own.setdefault(classes, []).append(label)
    notes += [
        f"no clean calibration case was rightly answered with class {', '.join(classes)}; there "
        f"{wording.listed(labels)} use the threshold of all classes together"
        for classes, labels in without_own.items()
        if classes
    ]
    return found, notes


def _silent(threshold: Threshold) -> str:
    """What never raises an alarm, because too few rows chose it."""
    parts = threshold.per_class or {"": threshold}
    quiet = [name for name, one in parts.items() if one.value == math.inf and not one.missing]
    if not quiet:
        return ""
    where = f" on the predicted classes {', '.join(quiet)}" if threshold.per_class else ""
    return f"never raises an alarm{where}"


def _without_own(plan: Plan, clean: Seen, threshold: Threshold) -> tuple[str, ...]:
    """The classes that could be answered and have no threshold of their own."""
    system = clean.system
    answers = np.asarray(system.output).reshape(len(system), -1).shape[1] if len(system) else 0
    classes = plan.data["calibration"].classes
    names = classes if classes and len(classes) == answers else [str(i) for i in range(answers)]
    return tuple(str(name) for i, name in enumerate(names) if str(i) not in threshold.per_class)


def _assumed(
    plan: Plan, observed: Observations, rule: VerdictRule, findings: Sequence[Finding]
) -> list[Finding]:
    """The findings, with what those about supervisors take for granted beyond what analyses know."""
    learned = {s.label for s in plan.supervisions if s.contrasts}
    grouped = bool(observed.calibration) and observed.calibrating[0].groups is not None
    about_groups = rule.assumed(grouped=grouped)
    found = []
    for f in findings:
        more = [LEARNED] if f.about.supervisor in learned else []
        if about_groups and f.quantity in (*verdicts.RATES, verdicts.WORST):
            more.append(about_groups)
        found.append(replace(f, assumptions=(*f.assumptions, *more)) if more else f)
    return found


def _recorded(
    s: Supervision, plan: Plan, observed: Observations, thresholds: Mapping[str, Threshold]
) -> SupervisorRecord:
    at_work = observed.supervisors
    because = s.because or at_work.failed.get(s.label, "")
    threshold = thresholds.get(s.label)
    learned = [LEARNED] if s.contrasts else []
    record = SupervisorRecord(
        name=s.label,
        module=s.module,
        applicable=not because,
        because=because,
        parameters=dict(s.parameters),
        members=list(at_work.members_of(s)),
        fit_seconds=at_work.fit_seconds.get(s.label, 0.0),
        score_seconds=at_work.score_seconds.get(s.label, 0.0),
        subject_passes=_further_passes(s, plan, at_work),
        kept_bytes=int(getattr(s.supervisor, "kept_bytes", 0)),
        notes=[] if because else [*at_work.notes_of(s), *learned],
        threshold=threshold,
    )
    if threshold is not None:
        judged = [observed.clean, *observed.others]
        clean = observed.calibrating[0].scores[s.label]
        reference = clean[observed.left[s.label]] if s.label in observed.left else clean
        tallies = {
            o.name: tally_verdicts(~o.failure, verdicts.alarms(threshold, o, s.label))
            for o in sorted(judged, key=lambda o: o.name)
        }
        record.verdicts = VerdictCounts(kinds=list(tallies), table=list(tallies.values()))
        rate, seed = verdict_rule(plan.spec).rate, plan.spec.seed
        record.batches = verdicts_on_batches(reference, judged, s.label, rate=rate, seed=seed)
    return record


def _further_passes(s: Supervision, plan: Plan, at_work: Supervisors) -> int:
    """About how many forward passes a case the subject makes for it beyond the one for its answer; equal requests are made once.

    They run together with the answer, so that their own time is not measured. Members of an ensemble answer anyway.
    """
    needs = set(s.supervisor.needs)
    for other in plan.supervisions:
        needs |= set(other.supervisor.needs) if other.label in at_work.members_of(s) else set()
    gradients = FORWARDS_OF_GRADIENT * sum(isinstance(n, Gradient) for n in needs)
    return gradients + sum(n.n for n in needs if isinstance(n, Passes))


def _evidence(
    claim: ClaimSpec,
    plan: Plan,
    observed: Observations,
    thresholds: Mapping[str, Threshold],
    place: ClaimPlace,
) -> Evidence:
    name, quantity, here = claim.supervisor, claim.quantity, place.here
    if name not in here.scores:
        because = observed.supervisors.failed.get(name, "it has no scores")
        return nothing(quantity, f"{name} is not applicable, because {because}", here)
    if quantity in supervision.FAILURE:
        return supervision.detects_failure(here, name, quantity)
    if quantity in supervision.SHIFT:
        return supervision.detects_shift(here, place.reference, name, quantity)
    if name not in thresholds:
        return nothing(quantity, f"{name} has no threshold; the notes say why", here)
    because = verdicts.mute(thresholds[name], verdict_rule(plan.spec))
    # A low rate of alarms is no merit of a supervisor that cannot raise one.
    if because and claim.max is not None and quantity != "miss_rate":
        return nothing(quantity, f"no score of {name} can ever raise an alarm: {because}", here)
    return verdicts.rate(quantity, here, verdicts.alarms(thresholds[name], here, name), name)


Where = tuple[str, float | None]
"""Circumstance and level."""


@dataclass(frozen=True)
class _View:
    """The record with its findings, in the order of the report."""

    run: RunRecord
    record: SupervisionRecord
    judged: Sequence[SupervisorRecord]
    """Applicable ones, the best AUC for failures on the clean data first."""
    places: Sequence[Where]
    """The clean data, and each circumstance at each level, or at its highest if these are too many."""

    @classmethod
    def of(cls, record: SupervisionRecord, run: RunRecord) -> _View:
        def rank(s: SupervisorRecord) -> tuple[bool, float]:
            found = run.find("auc_failure", supervisor=s.name)
            known = found is not None and math.isfinite(found.value)
            return not known, -found.value if found is not None and known else 0.0

        judged = sorted((s for s in record.supervisors if s.applicable), key=rank)
        weight = {c.name: -(c.significance or 0) for c in run.circumstances}
        ordered = sorted(weight, key=lambda name: weight[name])
        levels: dict[str, list[float | None]] = {name: [] for name in ordered}
        for f in run.findings:
            about = f.about
            found = levels.get(about.circumstance)
            if f.quantity == run.measure.name and found is not None and about.level not in found:
                found.append(about.level)
        every: list[Where] = [("", None), *((n, at) for n, some in levels.items() for at in some)]
        if len(every) > MOST_LEVELS:
            every = [("", None), *((n, some[-1]) for n, some in levels.items() if some)]
        return cls(run, record, judged, every)

    @property
    def chosen(self) -> list[str]:
        return self.record.recommended.supervisors if self.record.recommended else []

    def at(self, s: SupervisorRecord, quantity: str, place: Where = ("", None)) -> Finding | None:
        return self.run.find(quantity, *place, supervisor=s.name)

    def known(self, *quantities: str) -> bool:
        """Whether there is a finding of one of these quantities."""
        return any(f.quantity in quantities for f in self.run.findings)

    def worst(self, s: SupervisorRecord) -> Finding | None:
        """Where it misses most, with an interval for the worst of all places."""
        found = [f for f in self.run.findings if f.quantity == verdicts.WORST]
        return next((f for f in found if f.about.supervisor == s.name), None)


class Picture(NamedTuple):
    """A heat table of one quantity: places by supervisors."""

    quantity: str
    id: str
    head: str
    what: str
    ramp: charts.Ramp
    title: str
    words: str


PICTURES = (
    Picture(
        "miss_rate",
        "figure-missed",
        "Which failures each misses",
        "misses",
        charts.MISSED,
        "Share of failures that each supervisor misses",
        "Failures that raise no alarm, in percent of the failures.",
    ),
    Picture(
        "false_alarm_rate",
        "figure-alarms",
        "Alarms on right answers",
        "alarms on",
        charts.ALARMED,
        "Share of right answers on which each supervisor raises an alarm",
        "Right answers that raise an alarm, in percent of the right answers.",
    ),
    Picture(
        "auc_failure",
        "figure-supervisors",
        "How well each separates failures from successes",
        "AUC",
        charts.RANKING,
        "AUC of each supervisor for failures",
        "AUC for failures: 0.5 is chance, 1 is perfect; a marked corner: below 0.5.",
    ),
)


def _pictures(seen: _View) -> list[Block]:
    several = len(seen.places) > 1 + len(seen.run.circumstances)
    where = f"On the clean data, and under each circumstance{' at each level' if several else ''}."
    star = "★ and a frame: the recommended set, first together, then each." if seen.chosen else ""
    blocks: list[Block] = []
    for picture in PICTURES:
        cells = _cells(seen, picture)
        if not any(c.value is not None and math.isfinite(c.value) for c in cells.values()):
            reasons = [f.reason for f in seen.run.findings if f.quantity == picture.quantity]
            if any(reasons):
                why = max(set(reasons), key=reasons.count)
                blocks.append(Text(f"No picture of “{picture.head.lower()}”: {why}.", "small"))
            continue
        starred = [s.name for s in seen.judged if s.name in seen.chosen]
        first = [*([TOGETHER] if any(c == TOGETHER for _, c in cells) else []), *starred]
        columns = [s.name for s in seen.judged]
        if picture.quantity != "auc_failure":
            columns = [*first, *(name for name in columns if name not in first)]
        rows = [place_name(*p) for p in seen.places]
        rows = [r for r in rows if any((r, c) in cells for c in columns)][:MOST_ROWS]
        said = (picture.words, where if seen.run.circumstances else "", star)
        caption = " ".join([*filter(None, said), "A dash: not measurable there."])
        options = {"title": picture.title, "ramp": picture.ramp, "starred": first}
        heat = drawn(charts.heat, rows, columns, cells, **options)
        blocks += [Heading(picture.head), Chart(picture.id, caption, heat)]
    return blocks


def _cells(seen: _View, picture: Picture) -> dict[tuple[str, str], charts.HeatCell]:
    """By place and supervisor; the best member of the set at a place is framed."""
    found, quantity = seen.record.recommended, picture.quantity
    covers = found.covers if found and len(seen.chosen) > 1 and quantity == "miss_rate" else {}
    of_set: Mapping[str, SetRate] = {}
    if found and seen.chosen:
        both = {"miss_rate": found.miss_rate, "false_alarm_rate": found.false_alarms}
        of_set = both.get(quantity, {})
    style = wording.style_of(seen.run, quantity)
    cells: dict[tuple[str, str], charts.HeatCell] = {}
    for place in seen.places:
        row = place_name(*place)
        best = covers.get(place[0] or "clean")
        for s in seen.judged:
            f = seen.at(s, quantity, place)
            if f is not None:
                shown = numbers.estimate(f.value, f.interval, f.n, style)
                note = f"{row}, {s.name}: {picture.what} {shown.title}"
                note += f"; {f.reason}" if f.reason else ""
                framed = best is not None and best.by == s.name
                cells[row, s.name] = charts.HeatCell(f.value, note, framed)
        rate = of_set.get(str(About(*place)))
        if rate is not None:
            shown = numbers.estimate(rate.value, rate.interval, rate.n, "percent")
            note = f"{row}, {TOGETHER}: {picture.what} {shown.title}"
            cells[row, TOGETHER] = charts.HeatCell(rate.value, note)
    return cells


def _worth(seen: _View) -> list[Block]:
    """What each supervisor is worth and costs."""
    if not seen.judged:
        return []
    ruled, ranked = seen.known("miss_rate"), seen.known("aupr_failure")
    remarks: dict[str, list[str]] = {}
    for s in seen.judged:
        for note in wording.brief_notes(s.notes):
            remarks.setdefault(note, []).append(s.name)
    marks = {
        s.name: [i for i, who in enumerate(remarks.values(), 1) if s.name in who]
        for s in seen.judged
    }
    columns = [Column("Supervisor", number=False), Column("AUC", rank=0)]
    columns += [Column("AUPR", rank=6), Column("FPR@95", rank=2)] if ranked else []
    columns += [Column("Missed at worst", rank=1), Column("False alarms", rank=5)] if ruled else []
    columns += [Column("Fit", rank=7), Column("Score", rank=3), Column("Kept", rank=8)]
    rows = []
    for s in seen.judged:
        worst = seen.worst(s)
        place = place_name(worst.about.circumstance, worst.about.level) if worst else ""
        cells = [Cell(s.name, _unsaid(s), strong=True, marks=marks[s.name])]
        cells.append(found_cell(seen.at(s, "auc_failure"), "decimal", level=False))
        if ranked:
            cells.append(found_cell(seen.at(s, "aupr_failure"), "decimal", level=False))
            cells.append(found_cell(seen.at(s, "fpr95_failure"), "percent", level=False))
        if ruled:
            cells.append(found_cell(worst, "percent", level=False, more=place))
            cells.append(found_cell(seen.at(s, "false_alarm_rate"), "percent", level=False))
        cells += [Cell(numbers.seconds(t)) for t in (s.fit_seconds, s.score_seconds)]
        rows.append([*cells, Cell(numbers.size(s.kept_bytes))])
    chosen = [i for i, s in enumerate(seen.judged) if s.name in seen.chosen]
    sure = numbers.confidence(seen.run.confidence)
    words = ["On the clean test data, the best AUC for failures first.", f"Intervals at {sure}."]
    corrected = {f.corrected for f in seen.run.findings if f.quantity == verdicts.WORST}
    words += [f"Missed at worst: {text}." for text in sorted(corrected) if text]
    words += [t for t in (_on_top(seen),) if t]
    blocks: list[Block] = [
        Heading("What each detects, and what it costs"),
        Text(" ".join(words), "small"),
        Table(
            columns,
            rows,
            name="Supervisors",
            css="supervisors",
            chosen=chosen,
            brief=len(rows),
            caption=" ".join(words),
        ),
    ]
    if remarks:
        said = [f"{note} ({', '.join(who)})" for note, who in remarks.items()]
        blocks.append(Text(said, "notes", brief=True))
    return blocks


def _unsaid(s: SupervisorRecord) -> str:
    """The parameters, if the name does not hold them already."""
    return "" if "(" in s.name else ", ".join(f"{k} {v}" for k, v in s.parameters.items())


def _on_top(seen: _View) -> str:
    """What the times of scoring leave out."""
    by_passes: dict[int, list[str]] = {}
    for s in seen.judged:
        if s.subject_passes:
            by_passes.setdefault(s.subject_passes, []).append(s.name)
    who = [f"{k:,} for {wording.listed(names)}" for k, names in sorted(by_passes.items())]
    if not who:
        return ""
    return f"Score leaves out further forward passes of the subject itself, a case at most: {', '.join(who)}."


def _inapplicable(seen: _View) -> list[Block]:
    reasons: dict[str, list[str]] = {}
    for s in seen.record.supervisors:
        if not s.applicable:
            reasons.setdefault(s.because, []).append(s.name)
    if not reasons:
        return []
    said = [f"{', '.join(who)}: {reason}" for reason, who in reasons.items()]
    bold = "Not applicable:"
    return [Heading("Not applicable"), Text(said, "list", bold=bold, brief=True)]


def _how(seen: _View) -> list[Block]:
    """How scores became verdicts."""
    found = [(s, s.threshold) for s in seen.judged if s.threshold is not None]
    if not found:
        return []
    rules = {_ruled(t) for _, t in found}
    rule = f" Thresholds by the rule {rules.pop()}." if len(rules) == 1 else ""
    rows = [
        [
            Cell(s.name),
            Cell(numbers.value(t.value)),
            Cell(_ruled(t)),
            Cell(f"{t.chosen_on:,} rows" + (f" in {t.groups:,} groups" if t.groups else "")),
            Cell(numbers.value(t.expected_rate, "percent")),
        ]
        for s, t in found
    ]
    columns = [
        Column("Supervisor", number=False),
        Column("Threshold"),
        Column("Rule", number=False),
    ]
    columns += [Column("Chosen on", number=False), Column("False alarms expected")]
    return [
        Heading("How verdicts come about"),
        Text(f"A score above the supervisor's threshold is an alarm.{rule}", brief=True),
        Table(columns, rows, css="names", fold="Thresholds as a table"),
        *_batches(seen),
    ]


def _ruled(threshold: Threshold) -> str:
    """The rule with its parameters; the file calls its rate `rate` whatever the rule."""
    name = threshold.rule.removeprefix("at_").replace("_", " ")
    name += " per class" if threshold.per_class else ""
    given = ", ".join(
        f"{'rate' if k == 'alpha' else k.replace('_', ' ')} {v:g}"
        for k, v in threshold.parameters.items()
    )
    return f"{name} ({given})" if given else name


def _batches(seen: _View) -> list[Block]:
    """Verdicts on batches, of the recommended set or of the first."""
    rows = []
    for s in [s for s in seen.judged if s.name in seen.chosen] or seen.judged[:1]:
        for b in s.batches:
            shares = {
                k: alarms / max(clear + alarms, 1) for k, (clear, alarms) in b.batches.items()
            }
            shifted = {k: share for k, share in shares.items() if k != "clean"}
            lowest = min(shifted, key=lambda k: shifted[k], default="")
            cells = [
                Cell(s.name),
                Cell(str(b.size)),
                Cell("mean" if b.how == "mean" else "KS distance"),
            ]
            if b.reason:
                rows.append([*cells, Cell(numbers.NONE), Cell(numbers.NONE, b.reason)])
            else:
                clean = numbers.value(shares.get("clean"), "percent")
                worst = Cell(numbers.value(shifted.get(lowest), "percent"), lowest)
                rows.append([*cells, Cell(clean), worst])
    columns = [Column("Supervisor", number=False), Column("Cases"), Column("By", number=False)]
    columns += [Column("Alarms on clean batches"), Column("Lowest under a circumstance")]
    return [Table(columns, rows, css="names", fold="Verdicts on batches")] if rows else []


HEADS = {
    "auc_failure": "AUC for failures",
    "aupr_failure": "AUPR for failures",
    "fpr95_failure": "FPR@95 for failures",
    "miss_rate": "Missed",
    "false_alarm_rate": "False alarms",
    "alarm_rate": "Alarms",
    "auc_shift": "AUC for the shift itself",
    "aupr_shift": "AUPR for the shift",
    "fpr95_shift": "FPR@95 for the shift",
}


def _everywhere(seen: _View) -> list[Block]:
    """Every supervisor at every circumstance and level."""
    known = [q for q in HEADS if seen.known(q)]
    levels = dict.fromkeys(
        (f.about.circumstance, f.about.level) for f in seen.run.findings if f.about.supervisor
    )
    rows = []
    for s in seen.judged:
        for place in levels:
            found = [seen.at(s, q, place) for q in known]
            if any(found):
                n = next(f.n for f in found if f is not None)
                cells = [
                    found_cell(f, wording.style_of(seen.run, q), level=False)
                    for q, f in zip(known, found, strict=True)
                ]
                where = [Cell(place[0] or "clean"), Cell(numbers.level(place[1]))]
                rows.append([Cell(s.name), *where, *cells, Cell(numbers.count(n))])
    columns = [Column("Supervisor", number=False), Column("Circumstance", number=False)]
    columns += [Column("Level"), *(Column(HEADS[q]) for q in known), Column("n")]
    fold = "Every circumstance and level as a table"
    return [Table(columns, rows, css="names", fold=fold, most=400)] if rows else []
