"""An assessment compiles into a monitor: the rows of a run, the costs of the file, and what is expected become a bundle.

Where they do not, the run stands, and says why there is no monitor. The same run compiles the same bundle, whoever computes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.risk.alarmed_cells import TAKEN_TO_BE, alarms_in_words
from roadworthy.analysis.risk.calibration import CLEAN, Calibration
from roadworthy.analysis.risk.deployed import Deployed
from roadworthy.analysis.risk.prototypes import LIVE_PARAMETERS, accuracy_tree, constants_told
from roadworthy.analysis.risk.tolerable import NOBODY_SAID, nobody_said
from roadworthy.analysis.risk.tree import Tree
from roadworthy.execution.forecasting import forecast_of
from roadworthy.execution.in_use import says_how_often, shifted_in_use, supposed
from roadworthy.execution.monitored_rows import Gathered, gather
from roadworthy.execution.observing import Seen
from roadworthy.execution.plan import Plan
from roadworthy.execution.risks import Risk
from roadworthy.execution.supervising import AtWork
from roadworthy.monitor.bundle import JEFFREYS, Beforehand, Bundle, BundleError
from roadworthy.monitor.compile import EVENTS_PER_DAY, LabelledRows, left_out, tolerated
from roadworthy.monitor.estimate import Forecast
from roadworthy.monitor.messages import expected_above, one_kind, warnings_of
from roadworthy.monitor.windows import Windows
from roadworthy.spec.risk import CountedSpec, MonitorSpec
from roadworthy.store import RunFolder

BUNDLE = "monitor/bundle.json"
"""Where it lies in the run folder."""


@dataclass(frozen=True)
class Compiled:
    """The bundle of a run, or why there is none."""

    bundle: Bundle | None = None
    because: str = ""
    chosen: tuple[str, ...] = ()
    """What was chosen for those who did not say."""
    warnings: tuple[str, ...] = ()
    """What makes the monitor of little use as it is, and so is for everyone who reads the run."""

    @property
    def notes(self) -> list[str]:
        """For the run; those that come first are for everyone."""
        return (
            [f"no monitor was compiled: {self.because}"]
            if self.because
            else [f"monitor: {w}" for w in self.warnings]
        )

    def record(self) -> dict[str, Any]:
        """For run.json."""
        bundle = self.bundle
        if bundle is None:
            return {"because": self.because}
        rule, calibration = bundle.alarm, bundle.calibration
        noticed = dict(rule.detects) if rule else {}
        # What was chosen is said here with where to set it.
        made = [
            note
            for note in bundle.made["notes"]
            if not any(said.startswith(note) for said in self.chosen)
        ]
        told = [
            *self.warnings,
            *made,
            *calibration.notes,
            *self.chosen,
            *(rule.notes if rule else ()),
        ]
        return {
            "bundle": BUNDLE,
            "id": bundle.id,
            "subject": bundle.title,
            "supervisors": list(calibration.names),
            "kinds": [
                {
                    "name": k,
                    "rows": calibration.rows(k),
                    "accuracy": calibration.accuracy(k),
                    "noticed": noticed.get(k),
                }
                # No alarm is ever due for what is not shifted.
                | ({} if k == CLEAN else {"due": rule is None or k not in rule.not_due})
                for k in calibration.kinds
            ],
            "unit": bundle.unit,
            "tolerable": bundle.tolerable,
            "forecast": None if bundle.forecast is None else asdict(bundle.forecast),
            "coverage": None if bundle.coverage is None else bundle.coverage.to_dict(),
            "alarm": rule
            and {
                "window": rule.window,
                "false_alarms": rule.false_alarms,
                "events_per_day": rule.events_per_day,
            },
            "chosen": list(self.chosen),
            "notes": list(dict.fromkeys(told)),
        }


def compile_monitor(
    plan: Plan,
    at_work: AtWork,
    calibrating: Sequence[Seen],
    judged: Sequence[Seen],
    recommended: Mapping[str, Any] | None,
    folder: RunFolder,
    *,
    alarms: Deployed | None = None,
    fresh: bool = False,
) -> Compiled:
    """Compile the bundle of a run into its folder; one that is there already and would come out the same is kept.

    `alarms` are those that call a person, where the event tree asks for them.
    """
    path = folder.path / BUNDLE
    try:
        rows = gather(
            plan, at_work, calibrating, judged, recommended, alarms_of=alarms.name if alarms else ""
        )
        made = _compiled(plan, rows, alarms, None if fresh else path)
    except ValueError as error:
        shutil.rmtree(path.parent, ignore_errors=True)
        return Compiled(because=str(error))
    assert made.bundle is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    made.bundle.save(path)
    return made


def _compiled(plan: Plan, rows: Gathered, alarms: Deployed | None, kept: Path | None) -> Compiled:
    spec, seed = plan.spec, plan.spec.seed
    # Cases made from one sample belong together, too; but groups are only what the data calls so.
    calibration = replace(
        rows.learned.calibrated(rows.counted, deployed=alarms, aside=rows.aside, seed=seed),
        grouped=plan.data["calibration"].groups is not None,
    )
    tree = spec.risk.event_tree() if spec.risk else accuracy_tree()
    constants, expected = _constants(plan), shifted_in_use(plan)
    limit = spec.risk.tolerable if spec.risk else None
    tolerable = (
        tolerated(calibration, tree, constants, expected_rate=expected) if limit is None else limit
    )
    watched = spec.monitor or MonitorSpec.model_validate({})
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
    return Compiled(bundle, chosen=tuple(chosen), warnings=tuple(warnings))


def _forecast(
    plan: Plan, calibration: Calibration, counted: LabelledRows, tree: Tree
) -> tuple[Forecast | None, list[str]]:
    """What the stream is expected to cost; or nothing, where the report would not say it either, and why."""
    try:
        return forecast_of(plan, calibration, counted, tree), []
    except ValueError as error:
        return None, [f"there is no forecast of what the stream will cost: {error}"]


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
    given = plan.spec.risk.constants if plan.spec.risk else {}
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
    if plan.spec.risk is None or plan.spec.risk.tolerable is None:
        return []
    forecast, tolerable = bundle.forecast, plan.spec.risk.tolerable
    above = expected_above(forecast, tolerable, tree.unit)
    if above is not None:
        return [above]
    risk, _, high = bundle.estimator.forecast(1.0)
    if high <= tolerable:
        return [
            f"a stream of nothing but shifted events is expected to cost {risk:.4g} {tree.unit}, and hardly more than "
            f"{high:.4g}: within the tolerable {tolerable:g}, so that an alarm rings by chance or never; choose a lower one"
        ]
    return []


def _chosen(plan: Plan, bundle: Bundle) -> list[str]:
    """What a person should know who did not choose it."""
    spec = plan.spec
    unsaid = [note for note in bundle.made["notes"] if note.startswith(NOBODY_SAID)]
    notes = [f"{note}; set yours with risk: {{…, tolerable: …}}" for note in unsaid]
    if bundle.alarm and (spec.monitor is None or spec.monitor.events_per_day is None):
        notes.append(
            f"false alarms are counted at {bundle.alarm.events_per_day:,.0f} events a day, for want of a better number; set yours "
            "with monitor: {events_per_day: …}"
        )
    return notes


def alarms_at_work(risk: Risk | None, thresholds: Mapping[str, Threshold]) -> Deployed | None:
    """The supervisor whose alarms the report's risk counts, and its threshold; None where the tree asks for none, and where every
    class has a threshold of its own, since events do not say their class."""
    threshold = thresholds.get(risk.supervisor) if risk is not None else None
    if risk is None or threshold is None or threshold.per_class:
        return None
    return Deployed(risk.supervisor, threshold.value, threshold.rule)


def _whose(plan: Plan, alarms: Deployed | None) -> list[str]:
    """Whose alarms call a person, where the tree asks."""
    if plan.spec.risk is None or not plan.spec.risk.needs_alarms:
        return []
    if alarms is not None:
        return [alarms_in_words(alarms)]
    return [
        f"no supervisor has one threshold for answers of every class, and events do not say theirs: {TAKEN_TO_BE}"
    ]
