"""The section `monitor`: an assessment compiles into a monitor. The rows of a run and the costs of the file become a bundle.

The models of the monitor learn from the calibration cases, clean and under every circumstance; all levels of a circumstance are
one kind. The test cases, which chose nothing, are counted. A circumstance with data of its own has no calibration cases: half of
its samples (whole groups) is learned from, and the other half counted. What a filter picks out is a kind of its own and not among
the clean. If no monitor can be compiled, the run stands, and says why. The same run compiles the same bundle.

>>> MonitorSpec.model_validate({"window": 500, "false_alarms": "1 per month"}).windows, MonitorSpec().windows
((500,), (100, 1000))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from roadworthy import numbers
from roadworthy.analysis.observed import Observed
from roadworthy.analysis.risk.calibration import CLEAN
from roadworthy.analysis.risk.placement import Deployed
from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS, accuracy_tree, constants_told
from roadworthy.analysis.risk.tree import priced
from roadworthy.assessment.observations import Observations, Seen, filtered
from roadworthy.assessment.recommendation import Recommendation
from roadworthy.assessment.section import EVERY, Result, Results, Section
from roadworthy.assessment.sections.risk import (
    CountedSpec,
    RiskResult,
    RiskSpec,
    alarm_thresholds,
    expected_cost,
    shifted_in_use,
    supposed,
)
from roadworthy.assessment.supervisors import Supervisors, halves
from roadworthy.execution.plan import Plan
from roadworthy.monitor.alarm import alarms_per_day
from roadworthy.monitor.bundle import Bundle, Forecast, RatePrior
from roadworthy.monitor.compile import (
    EVENTS_PER_DAY,
    TOLERATED,
    LabelledRows,
    left_out,
    tolerated,
)
from roadworthy.monitor.windows import Windows
from roadworthy.registry import register
from roadworthy.report import wording
from roadworthy.report.blocks import Block, Cell, Column, Heading, Table, Text
from roadworthy.spec import Strict
from roadworthy.statistics.fusion import ranks
from roadworthy.statistics.ranking import auc
from roadworthy.store.record import Number, RecordPart
from roadworthy.store.record import Record as RunRecord

RISK = "risk"
KEY = "monitor"
BUNDLE = "monitor/bundle.json"
"""Where the bundle lies in the run folder."""
MOST = 8
"""Supervisors that a monitor reads: each must run beside the subject, and more tell little more."""
ALIKE = 0.98
"""Rank correlation from which on two supervisors say the same."""
LEAST = 20
"""Clean rows with scores, to learn from and to count."""


class PriorSpec(Strict):
    """How much shift is expected before a window is full."""

    example: ClassVar[str] = "prior: {rate: 0.05, events: 20}"

    rate: float = Field(gt=0, lt=1, description="The share of shifted events that is expected")
    events: float = Field(20.0, gt=0, description="How many events the expectation counts for")


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
        try:
            alarms_per_day(text)
        except ValueError:
            raise ValueError("is a number per time: write 1 per month, or 2 per day") from None
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
        """The bundle, or why there is none."""
        alarms = _alarms_at_work(results)
        recommended = getattr(results.get("supervision"), "recommended", None)
        try:
            rows = gather(plan, observed, recommended, alarms_of=alarms.name if alarms else "")
            bundle, chosen = _compiled(plan, observed, rows, alarms, results)
        except ValueError as error:
            note = f"No monitor was compiled: {error}"
            return Result(MonitorRecord(because=str(error)), notes=[note])
        warnings = [*_out_of_place(plan, bundle), *bundle.warnings]
        record = _record(bundle, chosen, warnings)
        said = [f"monitor: {w}" for w in warnings]
        return Result(record, warnings=said, files={BUNDLE: bundle.save})

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


def _record(bundle: Bundle, chosen: Sequence[str], warnings: Sequence[str]) -> MonitorRecord:
    rule, calibration = bundle.alarm, bundle.calibration
    noticed = dict(rule.detects) if rule else {}
    notes = [*warnings, *bundle.made["notes"], *calibration.notes, *chosen]
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
    shown = ("window", "false_alarms", "events_per_day")
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
        alarm={name: getattr(rule, name) for name in shown} if rule else None,
        chosen=list(chosen),
        notes=list(dict.fromkeys([*notes, *(rule.notes if rule else ())])),
    )


def _compiled(
    plan: Plan,
    observed: Observations,
    rows: Gathered,
    alarms: Deployed | None,
    results: Results,
) -> tuple[Bundle, list[str]]:
    """The bundle, and what was chosen for want of a setting."""
    spec, seed, risk = plan.spec, plan.spec.seed, plan.spec.part(RISK, RiskSpec)
    watched = spec.part(KEY, MonitorSpec) or MonitorSpec.model_validate({})
    # Cases made from one sample belong together, too; but groups are only what the data calls so.
    calibration = replace(
        rows.learned.calibrated(rows.counted, deployed=alarms, aside=rows.aside, seed=seed),
        grouped=plan.data["calibration"].groups is not None,
    )
    tree = risk.event_tree() if risk else accuracy_tree()
    constants, expected = _constants(risk), shifted_in_use(plan)
    tolerable, chosen = risk.tolerable if risk else None, supposed(plan)
    if tolerable is None:
        tolerable = tolerated(calibration, tree, constants, expected_rate=expected)
        share = expected + TOLERATED * (1.0 - expected)
        chosen.append(
            f"No tolerable limit set. Using {priced(tolerable, tree.unit)}, the expected cost if {share:.0%} of inputs are "
            "shifted. Set `risk: {tolerable: …}`"
        )
    if watched.events_per_day is None:
        chosen.append(
            f"False alarms are counted at {EVENTS_PER_DAY:,.0f} events a day. Set `monitor: {{events_per_day: …}}`"
        )
    forecast, why = _forecast(plan, observed, results)
    chosen += [f"There is no forecast of the cost: {why}"] if why else []
    notes = [*rows.notes, *_whose(risk, alarms), *constants_told(constants)]
    prior = watched.prior
    bundle = Bundle.compile(
        calibration,
        tree,
        subject=plan.subject.fingerprint,
        constants=constants,
        tolerable=tolerable,
        prior=RatePrior(prior.rate, prior.events) if prior else None,
        windows=Windows(tuple(dict.fromkeys(watched.windows)), watched.half_life, watched.adaptive),
        false_alarms=watched.false_alarms,
        events_per_day=watched.events_per_day or EVENTS_PER_DAY,
        forecast=forecast,
        coverage=left_out(
            rows.learned.without(rows.aside), rows.counted.without(rows.aside), seed=seed
        ),
        made={
            "source": spec.title,
            "subject": _called(plan),
            "run": plan.key,
            "notes": [*notes, *chosen],
        },
        seed=seed,
    )
    # Nor one that a bundle would make by itself, in which nothing is ever shifted.
    return bundle if forecast else replace(bundle, forecast=None), chosen


def _forecast(plan: Plan, observed: Observations, results: Results) -> tuple[Forecast | None, str]:
    """What the stream is expected to cost, as the report has it; or why it has none."""
    risk = results.get(RISK)
    if isinstance(risk, RiskResult):
        found, why = risk.assessed, getattr(risk.record, "because", "")
    else:
        try:
            found, why = expected_cost(plan, observed, accuracy_tree()), ""
        except ValueError as error:
            found, why = None, str(error)
    if found is None:
        return None, why
    sure = found.interval(0.95)
    return Forecast(shifted_in_use(plan), found.value, sure.low, sure.high), ""


def _called(plan: Plan) -> str:
    """The subject as people call it: its name, or the assessment's, and its version."""
    spec = plan.spec
    version = plan.subject.version or str(spec.subject.get("version", ""))
    return f"{spec.subject.get('name') or spec.title} {version}".strip()


def _constants(risk: RiskSpec | None) -> dict[str, float | tuple[float, float]]:
    """What no stream tells; what a stream does tell is not taken from the file."""
    return {
        name: (value.successes, value.trials) if isinstance(value, CountedSpec) else float(value)
        for name, value in (risk.constants if risk else {}).items()
        if name not in LIVE_PARAMETERS
    }


def _out_of_place(plan: Plan, bundle: Bundle) -> list[str]:
    """A stated limit that the expected stream exceeds, or that no stream comes near."""
    risk = plan.spec.part(RISK, RiskSpec)
    if risk is None or risk.tolerable is None:
        return []
    expected = bundle.forecast
    if expected is not None and expected.rate > 0.0 and expected.high > risk.tolerable:
        return [
            f"With {100 * expected.rate:.3g}% of events shifted, as expected, the expected cost is {expected.risk:.4g} "
            f"{risk.unit} (up to {expected.high:.4g}), and the limit is {risk.tolerable:g}: expect many alarms; raise the limit"
        ]
    cost, _, high = bundle.estimator.forecast(1.0)
    if high > risk.tolerable:
        return []
    return [
        f"even if all events are shifted, the expected cost is {cost:.4g} {risk.unit} (at most {high:.4g}), within the "
        f"tolerable {risk.tolerable:g}: no alarm will be due. Set a lower `risk: {{tolerable: …}}`"
    ]


def _alarms_at_work(results: Results) -> Deployed | None:
    """The supervisor whose alarms the expected cost counts, and its threshold; None if the tree asks for none, and if every
    class has a threshold of its own, since events do not say their class."""
    risk = results.get("risk")
    label = risk.supervisor if isinstance(risk, RiskResult) else ""
    threshold = alarm_thresholds(results).get(label)
    if threshold is None or threshold.per_class:
        return None
    return Deployed(label, threshold.value, threshold.rule)


def _whose(risk: RiskSpec | None, alarms: Deployed | None) -> list[str]:
    """Whose alarms call a person, if the tree asks."""
    if risk is None or not risk.needs_alarms:
        return []
    if alarms is not None:
        return [f"the alarms that call a person are those of {alarms}"]
    return [
        "no supervisor has one threshold for answers of every class, and events do not say theirs: "
        "alarms are taken to be those of the supervisors' scores combined, at the threshold that "
        "separates shifted from clean rows best"
    ]


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
    """The rows of a run, with the scores of the supervisor whose alarms call a person.

    ValueError with the reason if they do not make a monitor.
    """
    at_work = observed.supervisors
    _refuse(plan, observed)
    learned, counted = _halved(
        plan, _parts(plan, observed.calibration), _parts(plan, observed.seen)
    )
    combined = [s.label for s in at_work.second if s.label == alarms_of]
    every = [*(s.label for s in at_work.first), *combined]
    labels = [label for label in every if all(label in o.scores for _, o in (*learned, *counted))]
    tables = [_rows(learned, labels), _rows(counted, labels)]
    names = [
        n for n in labels if all(np.isfinite(t.columns[n][t.kind == CLEAN]).any() for t in tables)
    ]
    if not names:
        raise ValueError(
            "no supervisor has a score of a clean calibration case and of a clean test case"
        )
    aside = tuple(name for name in names if name in combined)
    single = [n for n in names if n not in aside]
    chosen, notes = _columns(single, tables[0], at_work, recommended, alarms_of)
    tables = [_scored(t, [*chosen, *aside]) for t in tables]
    tables, unknown = _shared_kinds(plan, tables)
    notes = [*_kinds_in_words(plan, tables[0]), *notes, *unknown]
    return Gathered(tables[0], tables[1], tuple(notes), aside)


def _refuse(plan: Plan, observed: Observations) -> None:
    """Say what is missing in the file."""
    calibrated = "calibration" in plan.data and observed.calibration
    named = any(not s.reads_scores for s in plan.supervisions)
    for there, why in (
        (not plan.spec.never_wrong, "failures are not defined. Set `failure: {error: {above: …}}`"),
        (named, "a monitor reads the scores of supervisors. Add `supervisors: [max_softmax]`"),
        (
            observed.supervisors.first,
            "a monitor reads the scores of supervisors, and none of them is applicable",
        ),
        (
            calibrated,
            "a monitor learns from calibration cases. Add `data.calibration` with cases not used elsewhere",
        ),
        (plan.circumstances, "there is no shift to learn from. Add `circumstances`"),
    ):
        if not there:
            raise ValueError(why)


def _parts(plan: Plan, seen: Sequence[Seen]) -> list[Labelled]:
    """Clean cases first, without those that a filter picks out, then every circumstance; a level that changes nothing is none."""
    clean = seen[0].observed
    picked = [inside for inside, _ in filtered(plan, clean)]
    own = {sample for o in picked for sample in o.samples.tolist()}
    rest = clean.take(~np.isin(clean.samples, list(own))) if own else clean
    shifted = [
        s.observed
        for s in seen[1:]
        # A mixture is no kind of shift of its own: its parts are calibrated by themselves.
        if s.observed.met is None and not (s.condition.transform and s.condition.transform.identity)
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
    """All rows as one table; infinite scores count as missing."""
    scores = {n: np.concatenate([o.scores[n] for _, o in parts]).astype(float) for n in labels}
    return LabelledRows(
        {n: np.where(np.isinf(column), np.nan, column) for n, column in scores.items()},
        np.concatenate([np.full(len(o), kind, dtype=object) for kind, o in parts]).astype(str),
        np.concatenate([~o.failure.astype(bool) for _, o in parts]),
        np.concatenate([o.clusters.astype(str) for _, o in parts]),
    )


def _scored(rows: LabelledRows, names: Sequence[str]) -> LabelledRows:
    """The rows that have a score, of these supervisors."""
    columns = {n: rows.columns[n] for n in names}
    scored = np.logical_or.reduce([~np.isnan(column) for column in columns.values()])
    return rows._replace(columns=columns).take(scored)


def _shared_kinds(
    plan: Plan, tables: Sequence[LabelledRows]
) -> tuple[list[LabelledRows], list[str]]:
    """Rows of kinds that can be learned and counted, and which others there are."""
    shared = set(tables[0].kind.tolist()) & set(tables[1].kind.tolist())
    notes = [
        f"nothing is known of {c.name}: there are no scores of it to learn from, or none to count"
        for c in plan.circumstances
        if c.name not in shared
    ]
    for table, role in zip(tables, ("calibration", "test"), strict=True):
        n = int((table.kind == CLEAN).sum())
        if n < LEAST:
            raise ValueError(
                f"{n} clean {role} cases have a score, and a monitor needs {LEAST} at least; add some"
            )
    if not shared - {CLEAN}:
        raise ValueError("; ".join(notes))
    return [t.take(np.isin(t.kind, sorted(shared))) for t in tables], notes


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
    at_work: Supervisors,
    recommended: Recommendation | None,
    alarms_of: str = "",
) -> tuple[list[str], list[str]]:
    """Whose scores are read: everybody's, or of many the needed and recommended ones, then by AUC.

    Combinations of others are not read: their alarms may be.
    """
    combined = [s.label for s in at_work.second if s.label != alarms_of]
    notes = [f"not read, as combinations of others: {', '.join(combined)}"] if combined else []
    if len(names) <= MOST:
        return list(names), notes
    members = {s.label: at_work.members_of(s) for s in at_work.second}
    wanted = [
        m for s in (recommended.supervisors if recommended else ()) for m in members.get(s, (s,))
    ]
    needed = [n for n in names if n == alarms_of]
    chosen = [n for n in dict.fromkeys([*needed, *wanted]) if n in names]
    chosen = chosen if len(chosen) <= MOST else needed
    table = {n: ranks(learned.columns[n], learned.columns[n][learned.kind == CLEAN]) for n in names}
    telling = {n: _telling(learned.columns[n], learned.kind) for n in names}
    # Whoever says the same as another comes last, so that they are read only if nobody else is left.
    alike: list[str] = []
    for n in sorted((n for n in names if n not in chosen), key=lambda n: -telling[n]):
        if len(chosen) < MOST:
            same = any(_correlation(table[n], table[other]) > ALIKE for other in chosen)
            (alike if same else chosen).append(n)
    read = [*chosen, *alike][:MOST]
    notes.append(
        f"{MOST} of {len(names)} supervisors are read: those needed and recommended, then those that separate shifted "
        "calibration cases from clean ones best without repeating one another"
    )
    return [n for n in names if n in read], notes


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
