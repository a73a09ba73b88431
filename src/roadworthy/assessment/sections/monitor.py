"""The section `monitor`: an assessment compiles into a monitor. The rows of a run and the costs of the file become a bundle.

The models of the monitor learn from the calibration cases, clean and under every circumstance; all levels of a circumstance are
one kind. The test cases, which chose nothing, are counted. A circumstance with data of its own has no calibration cases: half of
its samples (whole groups) is learned from, and the other half counted. What a filter picks out is a kind of its own and not among
the clean. If no monitor can be compiled, the run stands, and says why. The same run compiles the same bundle.

>>> MonitorSpec.model_validate({"window": 500, "false_alarms": "1 per month"}).windows, MonitorSpec().windows
((500,), (100, 1000))
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from roadworthy.analysis.observed import Observed
from roadworthy.analysis.risk.calibration import CLEAN, FEW, Calibration, Deployed
from roadworthy.analysis.risk.cells import TAKEN_TO_BE, alarms_of_rows
from roadworthy.analysis.risk.expected_cost import CountedCases, assess_risk
from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS, accuracy_tree, constants_told
from roadworthy.analysis.risk.tolerable import NOBODY_SAID, nobody_said
from roadworthy.analysis.risk.tree import Tree
from roadworthy.assessment.observing import Observations, Seen, filtered
from roadworthy.assessment.recommending import Recommendation
from roadworthy.assessment.section import EVERY, Result, Results, Section
from roadworthy.assessment.sections.risk import (
    KEY as RISK,
)
from roadworthy.assessment.sections.risk import (
    CountedSpec,
    RiskResult,
    RiskSpec,
    Strict,
    alarm_thresholds,
    in_use,
    says_how_often,
    shifted_in_use,
    supposed,
)
from roadworthy.assessment.supervising import AtWork, halves
from roadworthy.cases.circumstance import Circumstance
from roadworthy.execution.plan import Plan
from roadworthy.monitor.bundle import JEFFREYS, Beforehand, Bundle, BundleError
from roadworthy.monitor.compile import EVENTS_PER_DAY, LabelledRows, left_out, tolerated
from roadworthy.monitor.estimate import Forecast
from roadworthy.monitor.messages import expected_above, one_kind, warnings_of
from roadworthy.monitor.windows import Windows
from roadworthy.registry import register
from roadworthy.report import numbers, wording
from roadworthy.report.blocks import Block, Cell, Column, Heading, Table, Text
from roadworthy.statistics.fusion import ranks
from roadworthy.statistics.ranking import auc
from roadworthy.store.record import Number, RecordPart
from roadworthy.store.record import Record as RunRecord

KEY = "monitor"
BUNDLE = "monitor/bundle.json"
"""Where the bundle lies in the run folder."""
MOST = 8
"""Supervisors that a monitor reads: each must run beside the subject, and more tell little more."""
ALIKE = 0.98
"""Rank correlation from which on two supervisors say the same."""
LEAST = 20
"""Clean rows with scores, to learn from and to count."""
PERIODS = ("hour", "day", "week", "month", "year")
_RATE = re.compile(
    rf"\s*(\d+(?:\.\d+)?)\s*(?:per|a|an|/)\s*({'|'.join(PERIODS)})\s*", re.IGNORECASE
)


class PriorSpec(Strict):
    """How much shift is expected before a window is full."""

    example: ClassVar[str] = "prior: {rate: 0.05, events: 20}"

    rate: float = Field(gt=0, lt=1, description="The share of shifted events that is expected")
    events: float = Field(
        20.0, gt=0, description="How many events that is worth; the fuller a window, the fewer"
    )


class MonitorSpec(Strict):
    """How the system is watched in use, with the bundle that the run writes."""

    example: ClassVar[str] = "monitor: {window: 500, false_alarms: 1 per month}"

    window: int | list[int] = Field(
        [100, 1000],
        description="Events that an estimate looks back on; a list for several side by side",
    )
    half_life: float | None = Field(
        None,
        ge=1,
        le=100_000,
        description="A further window in which an event counts for half after so many others",
    )
    adaptive: bool = Field(
        default=False, description="A further window of all events since the stream last changed"
    )
    prior: PriorSpec | None = Field(
        default=None, description="How much shift is expected before a window is full"
    )
    false_alarms: str = Field(
        "1 per month", description="How many are accepted while nothing is wrong: 1 per month"
    )
    events_per_day: float | None = Field(
        None, gt=0, description="How many events the stream has; needed for a rate in time"
    )

    @field_validator("window")
    @classmethod
    def _lengths(cls, window: int | list[int]) -> int | list[int]:
        lengths = [window] if isinstance(window, int) else window
        if not lengths or min(lengths) < 10:
            raise ValueError("a window holds 10 events or more; write 500, or [100, 1000]")
        return window

    @field_validator("false_alarms", mode="before")
    @classmethod
    def _rate(cls, text: Any) -> Any:
        found = _RATE.fullmatch(str(text))
        if not found or float(found[1]) <= 0:
            raise ValueError("is a number per time: write 1 per month, or 2 per day")
        return text

    @property
    def windows(self) -> tuple[int, ...]:
        """The lengths."""
        return (self.window,) if isinstance(self.window, int) else tuple(self.window)


class KindRecord(RecordPart):
    """Clean cases, or those under a circumstance at all its levels."""

    name: str
    rows: int
    accuracy: Number = None
    noticed: Number = Field(
        default=None, description="How often a step to 30% of it raises an alarm within two windows"
    )
    due: bool = Field(True, description="Whether such a step costs more than is tolerable")


class MonitorRecord(RecordPart):
    """The bundle that the run compiled into and what it knows, or why there is none."""

    because: str = ""
    bundle: str = Field(default="", description="Its path in the run folder")
    id: str = ""
    subject: str = Field(default="", description="As people call it")
    supervisors: list[str] = Field(default_factory=list)
    kinds: list[KindRecord] = Field(default_factory=list)
    unit: str = ""
    tolerable: Number = None
    forecast: dict[str, Number] | None = Field(
        default=None, description="What a stream is expected to cost"
    )
    coverage: dict[str, Any] | None = Field(
        default=None, description="How often intervals held under kinds of shift that were left out"
    )
    alarm: dict[str, Any] | None = None
    chosen: list[str] = Field(
        default_factory=list, description="What was chosen for want of a setting"
    )
    notes: list[str] = Field(default_factory=list)


@register("sections", "monitor")
class MonitorSection(Section):
    """Compiles the run into a monitor."""

    keys = {KEY: MonitorSpec}
    always = True
    after = (EVERY,)
    Record = MonitorRecord

    def analyse(self, plan: Plan, observed: Observations, results: Results) -> Result:
        """The bundle, or why there is none; one that an earlier run of the same left is taken again."""
        alarms = _alarms_at_work(results)
        kept = observed.earlier / BUNDLE if observed.earlier else None
        try:
            recommended = getattr(results.get("supervision"), "recommended", None)
            rows = gather(plan, observed, recommended, alarms_of=alarms.name if alarms else "")
            made = _compiled(plan, rows, alarms, kept)
        except ValueError as error:
            note = f"No monitor was compiled: {error}"
            return Result(MonitorRecord(because=str(error)), notes=[note])
        warnings = [f"monitor: {w}" for w in made.warnings]
        return Result(_record(made), warnings=warnings, files={BUNDLE: made.bundle.save})

    def view(self, record: MonitorRecord, run: RunRecord) -> list[Block]:
        """What it reads and knows, when it raises an alarm, and how it is started."""
        heading = Heading("Monitor", id="monitor")
        if record.because:
            return [heading, Text(f"No monitor was compiled: {record.because}.", "empty")]
        path = record.bundle
        rows = [
            [
                Cell(k.name),
                Cell(numbers.count(k.rows)),
                Cell(numbers.value(k.accuracy, "percent")),
                Cell(numbers.value(k.noticed, "percent") if k.due else "not due"),
            ]
            for k in record.kinds
        ]
        columns = [Column("Cases", number=False), Column("Counted"), Column("Right")]
        columns.append(Column("Noticed", sub="a step to 30% of it, within two windows"))
        lead = (
            "This run compiled into a monitor that estimates, without labels, accuracy and cost in use. It reads the scores of "
            f"{wording.listed(record.supervisors)}. {_alarm(record)} {_proof(record)}"
        )
        of = f" of {record.subject}" if record.subject else ""
        said = f"In the run folder: the first serves a stream, the second replays a table. Bundle {record.id}{of}."
        blocks: list[Block] = [
            heading,
            Text(lead, "lead"),
            Text([f"roadworthy monitor {path}", f"roadworthy replay {path} today.parquet"], "code"),
            Text(said, "small"),
            Table(columns, rows),
        ]
        if record.notes:
            blocks.append(
                Text(record.notes, "list", fold="What it rests on, and what was chosen for you")
            )
        return blocks


def _alarm(record: MonitorRecord) -> str:
    if record.alarm is None:
        return "It raises no alarm: there is no tolerable cost."
    rule = record.alarm
    return (
        f"An alarm is raised if the last {rule['window']:,} events probably cost more than {numbers.limit(record.tolerable)} "
        f"{record.unit}; without shift at most {rule['false_alarms']}, at {rule['events_per_day'] or 0:,.0f} events a day."
    )


def _proof(record: MonitorRecord) -> str:
    """How its intervals fared under kinds of shift that were left out, or that this could not be tried."""
    found = record.coverage
    if not found:
        why = "there is only one kind" if len(record.kinds) == 2 else "no window could be estimated"
        return f"Coverage on unseen kinds of shift is unknown: {why}."
    rate = found.get("rate")
    rates = (
        ""
        if rate is None
        else f", and {numbers.value(rate, 'percent')} of those of the rate of shift"
    )
    return (
        f"With each kind of shift left out in turn, {numbers.value(found['observed'], 'percent')} of {found['windows']:,} "
        f"intervals of accuracy held the truth{rates} (nominal {numbers.confidence(found['nominal'])})."
    )


class Compiled(NamedTuple):
    """The bundle of a run."""

    bundle: Bundle
    chosen: tuple[str, ...] = ()
    """What was chosen for want of a setting."""
    warnings: tuple[str, ...] = ()
    """What makes the monitor of little use as it is."""


def _record(made: Compiled) -> MonitorRecord:
    bundle = made.bundle
    rule, calibration = bundle.alarm, bundle.calibration
    noticed = dict(rule.detects) if rule else {}
    # What was chosen is said here with where to set it.
    own = [n for n in bundle.made["notes"] if not any(said.startswith(n) for said in made.chosen)]
    notes = [*made.warnings, *own, *calibration.notes, *made.chosen, *(rule.notes if rule else ())]
    kinds = [
        KindRecord(
            name=k,
            rows=calibration.rows(k),
            accuracy=calibration.accuracy(k),
            noticed=noticed.get(k),
            # No alarm is ever due for what is not shifted.
            due=k == CLEAN or rule is None or k not in rule.not_due,
        )
        for k in calibration.kinds
    ]
    alarm = None
    if rule:
        alarm = {
            "window": rule.window,
            "false_alarms": rule.false_alarms,
            "events_per_day": rule.events_per_day,
        }
    return MonitorRecord(
        bundle=BUNDLE,
        id=bundle.id,
        subject=bundle.title,
        supervisors=list(calibration.names),
        kinds=kinds,
        unit=bundle.unit,
        tolerable=bundle.tolerable,
        forecast=None if bundle.forecast is None else asdict(bundle.forecast),
        coverage=None if bundle.coverage is None else asdict(bundle.coverage),
        alarm=alarm,
        chosen=list(made.chosen),
        notes=list(dict.fromkeys(notes)),
    )


def _compiled(plan: Plan, rows: Gathered, alarms: Deployed | None, kept: Path | None) -> Compiled:
    spec, seed, risk = plan.spec, plan.spec.seed, plan.spec.part(RISK, RiskSpec)
    # Cases made from one sample belong together, too; but groups are only what the data calls so.
    calibration = replace(
        rows.learned.calibrated(rows.counted, deployed=alarms, aside=rows.aside, seed=seed),
        grouped=plan.data["calibration"].groups is not None,
    )
    tree = risk.event_tree() if risk else accuracy_tree()
    constants, expected = _constants(plan), shifted_in_use(plan)
    limit = risk.tolerable if risk else None
    tolerable = (
        tolerated(calibration, tree, constants, expected_rate=expected) if limit is None else limit
    )
    watched = spec.part(KEY, MonitorSpec) or MonitorSpec.model_validate({})
    unsaid = [nobody_said(tolerable, tree.unit, expected_rate=expected)] if limit is None else []
    notes = [*rows.notes, *_whose(plan, alarms), *constants_told(constants), *unsaid]
    made = {"source": spec.title, "subject": _called(plan), "run": plan.key, "notes": notes}
    forecast, untold = _forecast(plan, calibration, rows.counted, tree)
    bundle = _same(kept, calibration, made) or Bundle.compile(
        calibration,
        tree,
        subject=plan.subject.fingerprint,
        constants=constants,
        tolerable=tolerable,
        prior=Beforehand(watched.prior.rate, watched.prior.events).pseudo_events
        if watched.prior
        else JEFFREYS,
        windows=Windows(tuple(dict.fromkeys(watched.windows)), watched.half_life, watched.adaptive),
        false_alarms=watched.false_alarms,
        events_per_day=watched.events_per_day or EVENTS_PER_DAY,
        forecast=forecast,
        coverage=left_out(
            rows.learned.without(rows.aside), rows.counted.without(rows.aside), seed=seed
        ),
        made=made,
        seed=seed,
    )
    if forecast is None:
        # Nor one that a bundle would make by itself, in which nothing is ever shifted.
        bundle = replace(bundle, forecast=None)
    warnings, chosen = _warnings(plan, bundle, tree), [*supposed(plan), *_chosen(plan, bundle)]
    # Whoever says how often something occurs expects a figure; of others nobody knows more than they said.
    (warnings if says_how_often(plan) else chosen).extend(untold)
    return Compiled(bundle, tuple(chosen), tuple(warnings))


def _forecast(
    plan: Plan, calibration: Calibration, counted: LabelledRows, tree: Tree
) -> tuple[Forecast | None, list[str]]:
    """What the stream is expected to cost; or nothing, where the report would not say it either, and why."""
    try:
        return forecast_of(plan, calibration, counted, tree), []
    except ValueError as error:
        return None, [f"there is no forecast of the cost: {error}"]


def _same(kept: Path | None, calibration: Calibration, made: Mapping[str, Any]) -> Bundle | None:
    """The bundle that an earlier run of the same code, file, subject and data left, if it counted the same."""
    if kept is None or not kept.is_file():
        return None
    try:
        bundle = Bundle.load(kept)
    except BundleError:
        return None
    same = (
        all(bundle.made.get(key) == value for key, value in made.items())
        and bundle.calibration == calibration
    )
    return bundle if same else None


def _called(plan: Plan) -> str:
    """The subject as people call it: its name, or the assessment's, and its version."""
    spec = plan.spec
    version = plan.subject.version or str(spec.subject.get("version", ""))
    return f"{spec.subject.get('name') or spec.title} {version}".strip()


def _constants(plan: Plan) -> dict[str, float | tuple[float, float]]:
    """What no stream tells; what a stream does tell is not taken from the file."""
    risk = plan.spec.part(RISK, RiskSpec)
    given = risk.constants if risk else {}
    return {
        name: (value.successes, value.trials) if isinstance(value, CountedSpec) else float(value)
        for name, value in given.items()
        if name not in LIVE_PARAMETERS
    }


def _warnings(plan: Plan, bundle: Bundle, tree: Tree) -> list[str]:
    """What makes the alarm, or any figure of the monitor, say little."""
    calibration = bundle.calibration
    alone, in_a_table = one_kind(calibration, add="circumstances"), one_kind(calibration)
    found = warnings_of(calibration, bundle.estimator.separation, bundle.coverage)
    return [
        *_out_of_place(plan, bundle, tree),
        *(alone if said == in_a_table and alone else said for said in found),
    ]


def _out_of_place(plan: Plan, bundle: Bundle, tree: Tree) -> list[str]:
    """A stated limit that the expected stream exceeds, or that no stream comes near: the alarm then says little."""
    risk = plan.spec.part(RISK, RiskSpec)
    if risk is None or risk.tolerable is None:
        return []
    forecast, tolerable = bundle.forecast, risk.tolerable
    above = expected_above(forecast, tolerable, tree.unit)
    if above is not None:
        return [above]
    cost, _, high = bundle.estimator.forecast(1.0)
    if high <= tolerable:
        return [
            f"even if all events are shifted, the expected cost is {cost:.4g} {tree.unit} (at most {high:.4g}), within the "
            f"tolerable {tolerable:g}: no alarm will be due. Set a lower `risk: {{tolerable: …}}`"
        ]
    return []


def _chosen(plan: Plan, bundle: Bundle) -> list[str]:
    """What a person should know who did not choose it."""
    watched = plan.spec.part(KEY, MonitorSpec)
    unsaid = [note for note in bundle.made["notes"] if note.startswith(NOBODY_SAID)]
    notes = [f"{note}. Set `risk: {{tolerable: …}}`" for note in unsaid]
    if bundle.alarm and (watched is None or watched.events_per_day is None):
        notes.append(
            f"false alarms are counted at {bundle.alarm.events_per_day:,.0f} events a day. Set "
            "`monitor: {events_per_day: …}`"
        )
    return notes


def _alarms_at_work(results: Results) -> Deployed | None:
    """The supervisor whose alarms the expected cost counts, and its threshold; None if the tree asks for none, and if every
    class has a threshold of its own, since events do not say their class."""
    risk = results.get("risk")
    label = risk.supervisor if isinstance(risk, RiskResult) else ""
    threshold = alarm_thresholds(results).get(label)
    if threshold is None or threshold.per_class:
        return None
    return Deployed(label, threshold.value, threshold.rule)


def _whose(plan: Plan, alarms: Deployed | None) -> list[str]:
    """Whose alarms call a person, where the tree asks."""
    risk = plan.spec.part(RISK, RiskSpec)
    if risk is None or not risk.needs_alarms:
        return []
    if alarms is not None:
        return [f"the alarms that call a person are those of {alarms}"]
    return [
        f"no supervisor has one threshold for answers of every class, and events do not say theirs: {TAKEN_TO_BE}"
    ]


def forecast_of(
    plan: Plan, calibration: Calibration, counted: LabelledRows, tree: Tree
) -> Forecast:
    """What the stream is expected to cost, as in the report but on the rows that the monitor counted."""
    each, rate = in_use(plan, set(calibration.kinds)), shifted_in_use(plan)
    alarm = alarms_of_rows(calibration, counted.columns)
    groups = counted.units

    def rows(kind: str, probability: float) -> CountedCases:
        mine = counted.kind == kind
        return CountedCases(
            kind, probability, ~counted.correct[mine].astype(bool), alarm[mine], groups[mine]
        )

    shifted = []
    for c in plan.circumstances:
        if c.name in each:
            idle = _idle(c)
            shifted.append(rows(c.name, each[c.name] * (1.0 - idle)))
            # A level that changes nothing has its share, too: its cases are the clean ones.
            shifted += [rows(CLEAN, each[c.name] * idle)] if idle else []
    risk = plan.spec.part(RISK, RiskSpec)
    constants = risk.known_constants() if risk else {}
    found = assess_risk(
        tree, rows(CLEAN, 1.0 - rate), shifted, constants=constants, seed=plan.spec.seed
    )
    sure = found.interval(0.95)
    return Forecast(rate, found.value, sure.low, sure.high)


def _idle(circumstance: Circumstance) -> float:
    """The share of levels that change nothing."""
    made = [c.transform for c in circumstance.conditions() if c.transform is not None]
    return sum(t.identity for t in made) / len(made) if made else 0.0


Labelled = tuple[str, Observed]


class Gathered(NamedTuple):
    """Rows to learn from, rows to count, and what must be said of them."""

    learned: LabelledRows
    counted: LabelledRows
    notes: tuple[str, ...]
    aside: tuple[str, ...] = ()
    """Scores that are read for their alarms alone."""


def gather(
    plan: Plan,
    observed: Observations,
    recommended: Recommendation | None,
    *,
    alarms_of: str = "",
) -> Gathered:
    """The rows of a run, with the scores of the supervisor whose alarms call a person; ValueError with the reason if they do not
    make a monitor."""
    at_work = observed.supervisors
    _refuse(plan, observed)
    learned, counted = _halved(
        plan, _parts(plan, observed.calibration), _parts(plan, observed.seen)
    )
    combined = [s.label for s in at_work.second if s.label == alarms_of]
    every = [*(s.label for s in at_work.first), *combined]
    labels = [label for label in every if all(label in o.scores for _, o in (*learned, *counted))]
    tables, notes = [], []
    for rows in (_rows(learned, labels), _rows(counted, labels)):
        table, said = _finite(rows)
        tables.append(table)
        notes += said
    names = [
        n for n in labels if all(np.isfinite(t.columns[n][t.kind == CLEAN]).any() for t in tables)
    ]
    if not names:
        raise ValueError(
            "no supervisor has a score of a clean calibration case and of a clean test case"
        )
    aside = tuple(name for name in names if name in combined)
    chosen, why = _columns(
        [n for n in names if n not in aside], tables[0], at_work, recommended, alarms_of
    )
    chosen += aside
    tables = [_scored(t, chosen) for t in tables]
    tables, silent = _shared_kinds(plan, tables)
    for table, role in zip(tables, ("calibration", "test"), strict=True):
        notes += _few(table, role)
    return Gathered(
        tables[0], tables[1], (*_kinds_in_words(plan, tables[0]), *why, *silent, *notes), aside
    )


def _refuse(plan: Plan, observed: Observations) -> None:
    """Say what is missing in the file."""
    if plan.spec.never_wrong:
        raise ValueError("failures are not defined. Set `failure: {error: {above: …}}`")
    if not any(not s.reads_scores for s in plan.supervisions):
        raise ValueError(
            "a monitor reads the scores of supervisors. Add `supervisors: [max_softmax]`"
        )
    if not observed.supervisors.first:
        raise ValueError(
            "a monitor reads the scores of supervisors, and none of them is applicable"
        )
    if "calibration" not in plan.data or not observed.calibration:
        raise ValueError(
            "a monitor learns from calibration cases. Add `data.calibration` with cases not used elsewhere"
        )
    if not plan.circumstances:
        raise ValueError("there is no shift to learn from. Add `circumstances`")


def _parts(plan: Plan, seen: Sequence[Seen]) -> list[Labelled]:
    """Clean cases first, without those that a filter picks out, then every circumstance; a level that changes nothing is none."""
    clean = seen[0].observed
    picked = [inside for inside, _ in filtered(plan, clean)]
    own = {sample for o in picked for sample in o.samples.tolist()}
    rest = clean.take(~np.isin(clean.samples, list(own))) if own else clean
    shifted = [
        s.observed
        for s in seen[1:]
        if not (s.condition.transform and s.condition.transform.identity)
    ]
    return [(CLEAN, rest), *((o.circumstance, o) for o in (*shifted, *picked))]


def _halved(
    plan: Plan, learned: list[Labelled], counted: list[Labelled]
) -> tuple[list[Labelled], list[Labelled]]:
    """With half of each circumstance's own data to learn from; nothing is learned from groups that are counted."""
    tested = {str(c) for _, o in counted if o.role == "test" for c in o.clusters}
    kept = []
    for kind, o in counted:
        if o.role != "test":
            first = halves(o.clusters, plan.spec.seed)
            learned = [*learned, (kind, o.take(first & ~_among(o, tested)))]
            o = o.take(~first)
        kept.append((kind, o))
    used = {str(c) for _, o in learned for c in o.clusters}
    return learned, [(kind, o.take(~_among(o, used))) for kind, o in kept]


def _among(o: Observed, clusters: set[str]) -> np.ndarray:
    return np.isin(o.clusters.astype(str), sorted(clusters))


def _rows(parts: Sequence[Labelled], labels: Sequence[str]) -> LabelledRows:
    return LabelledRows(
        {
            n: np.concatenate([np.asarray(o.scores[n], dtype=np.float64) for _, o in parts])
            for n in labels
        },
        np.concatenate([np.full(len(o), kind, dtype=object) for kind, o in parts]).astype(str),
        np.concatenate([~o.failure.astype(bool) for _, o in parts]),
        np.concatenate([o.clusters.astype(str) for _, o in parts]),
    )


def _finite(rows: LabelledRows) -> tuple[LabelledRows, list[str]]:
    """Infinite scores are taken for missing ones."""
    endless = {n: int(np.isinf(column).sum()) for n, column in rows.columns.items()}
    columns = {n: np.where(np.isinf(column), np.nan, column) for n, column in rows.columns.items()}
    return rows._replace(columns=columns), [
        f"{count:,} scores of {n} are infinite and count as missing"
        for n, count in endless.items()
        if count
    ]


def _scored(rows: LabelledRows, names: Sequence[str]) -> LabelledRows:
    """The rows that have a score, of these supervisors."""
    columns = {n: rows.columns[n] for n in names}
    scored = np.logical_or.reduce([~np.isnan(column) for column in columns.values()])
    return rows._replace(columns=columns).take(scored)


def _shared_kinds(
    plan: Plan, tables: Sequence[LabelledRows]
) -> tuple[list[LabelledRows], list[str]]:
    """Rows of kinds that can be learned and counted, and why others are not."""
    shared = set(tables[0].kind.tolist()) & set(tables[1].kind.tolist())
    notes = []
    for c in plan.circumstances:
        if c.name not in shared:
            notes.append(f"nothing is known of {c.name}: {_why_not(c.kind)}")
    for table, role in zip(tables, ("calibration", "test"), strict=True):
        n = int((table.kind == CLEAN).sum())
        if n < LEAST:
            raise ValueError(
                f"{n} clean {role} cases have a score, and a monitor needs {LEAST} at least; add some"
            )
    if not shared - {CLEAN}:
        raise ValueError("; ".join(notes))
    return [t.take(np.isin(t.kind, sorted(shared))) for t in tables], notes


def _why_not(kind: str) -> str:
    return {
        "transform": "none of its calibration cases, or none of its test cases, has a score",
        "filter": "no calibration case with a score meets its filter, or the calibration data lacks the columns",
        "dataset": "half of its data is learned from and half counted, and one of the halves has no scores; give it more groups, "
        "and others than those of the test data",
    }[kind]


def _few(rows: LabelledRows, role: str) -> list[str]:
    kinds, counts = np.unique(rows.kind, return_counts=True)
    few = [f"{k} ({n})" for k, n in zip(kinds.tolist(), counts.tolist(), strict=True) if n < FEW]
    return (
        [f"few {role} cases of {', '.join(few)}: below {FEW} of a kind little is known"]
        if few
        else []
    )


def _kinds_in_words(plan: Plan, rows: LabelledRows) -> list[str]:
    """Where the kinds of shift come from."""
    known = set(rows.kind.tolist())
    made = [c.name for c in plan.circumstances if c.name in known and c.kind == "transform"]
    if len(made) == len(known) - 1:
        return [
            "calibrated on synthetic augmentations only: every kind of shift was made from clean data by a transform"
        ]
    return [f"made from clean data by transforms: {', '.join(made)}"] if made else []


def _columns(
    names: Sequence[str],
    learned: LabelledRows,
    at_work: AtWork,
    recommended: Recommendation | None,
    alarms_of: str = "",
) -> tuple[list[str], list[str]]:
    """Whose scores are read: everybody's, or where there are many the needed and recommended ones and those that tell shift best.

    Combinations of others are not: their alarms may be.
    """
    combined = [s.label for s in at_work.second if s.label != alarms_of]
    without = (
        [
            f"{', '.join(combined)} {'are' if len(combined) > 1 else 'is'} not read, being a combination of others"
        ]
        if combined
        else []
    )
    if len(names) <= MOST:
        return list(names), without
    members = {s.label: at_work.members_of(s) for s in at_work.second}
    wanted = [
        m
        for label in (recommended.supervisors if recommended else ())
        for m in members.get(label, (label,))
    ]
    first = [n for n in dict.fromkeys(wanted) if n in names]
    needed = [n for n in names if n == alarms_of]
    chosen = list(dict.fromkeys([*needed, *first]))
    chosen = chosen if len(chosen) <= MOST else needed
    table = {n: ranks(learned.columns[n], learned.columns[n][learned.kind == CLEAN]) for n in names}
    telling = {n: _telling(learned.columns[n], learned.kind) for n in names}
    # Whoever says the same as another comes last, so that they are read only where nobody else is left.
    alike = []
    for n in sorted((n for n in names if n not in chosen), key=lambda n: -telling[n]):
        if len(chosen) == MOST:
            break
        if any(_correlation(table[n], table[other]) > ALIKE for other in chosen):
            alike.append(n)
        else:
            chosen = [*chosen, n]
    read = [*chosen, *alike][:MOST]
    by = f"{', '.join(first)} as recommended, then " if first and set(first) <= set(read) else ""
    by = f"{alarms_of} for its alarms, {by}" if needed else by
    return [n for n in names if n in read], [
        f"{MOST} of {len(names)} supervisors are read: {by}those that tell shifted calibration cases from clean ones best without "
        "repeating one another",
        *without,
    ]


def _telling(scores: np.ndarray, kinds: np.ndarray) -> float:
    """How well a score tells the kinds of shift from clean, on average: the AUC."""
    known = ~np.isnan(scores)
    clean = known & (kinds == CLEAN)
    found = []
    for kind in sorted(set(kinds[known].tolist()) - {CLEAN}):
        rows = clean | (known & (kinds == kind))
        found.append(auc(scores[rows], kinds[rows] == kind))
    return float(np.mean(found)) if found else 0.5


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    known = ~(np.isnan(a) | np.isnan(b))
    if known.sum() < 3 or np.ptp(a[known]) == 0 or np.ptp(b[known]) == 0:
        return 0.0
    return float(np.corrcoef(a[known], b[known])[0, 1])
