"""From the claims of the file to evidence: which places a claim speaks of, and what was observed there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.analysis import comparison, performance, supervision, verdicts
from roadworthy.analysis.calibration import Threshold
from roadworthy.analysis.observed import Observed
from roadworthy.claims import Claim, Judgement, judge
from roadworthy.execution.failing import never_wrong
from roadworthy.execution.observing import slice_label, slice_labels
from roadworthy.execution.plan import Plan
from roadworthy.execution.recording import circumstance_record
from roadworthy.execution.risks import QUANTITY, Risk
from roadworthy.execution.supervisions import verdict_rule
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean
from roadworthy.spec import Assessment, ClaimSpec
from roadworthy.statistics import Interval
from roadworthy.store import RunFolder, StoreError

COMPARED = ("difference", "relative_drop", *supervision.SHIFT)
OF_SUPERVISORS = (*supervision.QUANTITIES, *verdicts.RATES)
QUANTITIES = ("failure_rate", *COMPARED, *supervision.FAILURE, *verdicts.RATES, QUANTITY)


def judge_claims(
    plan: Plan,
    clean: Observed,
    others: Sequence[Observed],
    references: Sequence[Observed],
    thresholds: Mapping[str, Threshold] | None = None,
    given_up: Mapping[str, str] | None = None,
    risk: Risk | None = None,
) -> list[Judgement]:
    """Every claim of the file, judged; `given_up` says why supervisors that were planned have no scores."""
    spec, quantity = plan.spec, plan.spec.measure_name
    found = []
    for content in spec.claims:
        if content.no_worse_than:
            claim, evidence = _against_run(plan, content, clean, others)
        else:
            claim = _claim(spec, content)
            judged = _OfSupervisors(thresholds or {}, given_up or {}, verdict_rule(spec))
            evidence = _places(spec, content, quantity, clean, others, references, judged, risk)
        judgement = judge(claim, evidence)
        if _over_levels(spec, content):
            judgement = replace(
                judgement, claim=replace(claim, text=claim.text + _worst(claim, evidence))
            )
        found.append(judgement)
    return found


def _over_levels(spec: Assessment, content: ClaimSpec) -> bool:
    """Whether the claim names a circumstance of several levels and none of them, and so must hold at all."""
    return (
        bool(content.circumstance)
        and content.level is None
        and len(spec.circumstances[content.circumstance].levels) > 1
    )


def _worst(claim: Claim, evidence: Sequence[Evidence]) -> str:
    known = [e for e in evidence if not math.isnan(e.value)]
    if not known:
        return ""
    worst = (min if claim.direction == "min" else max)(known, key=lambda e: e.value).about
    return f"; worst: {worst.circumstance} @ {worst.level:g}" + (
        f", {worst.slice}" if worst.slice else ""
    )


@dataclass(frozen=True)
class _OfSupervisors:
    """Thresholds by supervisor, and who could not work."""

    thresholds: Mapping[str, Threshold]
    given_up: Mapping[str, str]
    rule: verdicts.VerdictRule

    def evidence(self, content: ClaimSpec, here: Observed, reference: Observed) -> Evidence:
        """What was observed of a supervisor at a place."""
        name, quantity = content.supervisor, content.quantity
        if name not in here.scores:
            because = self.given_up.get(name, "it has no scores")
            return _nothing(quantity, here, f"{name} is not applicable, because {because}")
        if quantity in verdicts.RATES:
            if name not in self.thresholds:
                return _nothing(quantity, here, f"{name} has no verdicts; the notes say why")
            because = verdicts.mute(self.thresholds[name], self.rule)
            # A low rate of alarms is no merit of a supervisor that cannot raise one.
            if because and content.max is not None and quantity != "miss_rate":
                return _nothing(
                    quantity, here, f"no score of {name} can ever raise an alarm: {because}"
                )
            return verdicts.rate(
                quantity, here, verdicts.alarms(self.thresholds[name], here, name), name
            )
        if quantity in supervision.FAILURE:
            return supervision.detects_failure(here, name, quantity)
        return supervision.detects_shift(here, reference, name, quantity)


def check_claims(plan: Plan) -> None:
    """Refuse, before any work, a claim that could not be judged, or would be judged on something else than it says."""
    spec = plan.spec
    known = [spec.measure_name, *QUANTITIES]
    for i, content in enumerate(spec.claims):
        if content.no_worse_than:
            _check_against_run(plan, i, content)
            continue
        if content.quantity not in known:
            raise spec.error(
                ("claims", i),
                f"claims {content.quantity!r}, which is not measured here{did_you_mean(content.quantity, known)}; "
                f"it could claim: {', '.join(known)}",
            )
        if content.every not in ("", "slices", "circumstances", *spec.slices):
            options = ["slices", "circumstances", *spec.slices]
            raise spec.error(
                ("claims", i, "every"),
                f"{content.every!r} is not known{did_you_mean(content.every, options)}; it takes: {', '.join(options)}",
            )
        if content.every == "slices" and not spec.slices:
            raise spec.error(
                ("claims", i, "every"), "the file names no slices; add slices: [label]"
            )
        if content.every == "circumstances" and content.circumstance:
            raise spec.error(
                ("claims", i, "every"),
                "says every circumstance and names one; leave one of them out",
            )
        if content.every == "circumstances" and not plan.circumstances:
            raise spec.error(("claims", i, "every"), "the file names no circumstances")
        of_supervisor = content.quantity in OF_SUPERVISORS
        if of_supervisor and not content.supervisor:
            raise spec.error(
                ("claims", i),
                f"{content.quantity} is about a supervisor; add supervisor: max_softmax",
            )
        if content.supervisor and not of_supervisor:
            raise spec.error(
                ("claims", i, "supervisor"), f"{content.quantity} is not about a supervisor"
            )
        if (
            of_supervisor
            and content.quantity in (*supervision.FAILURE, "miss_rate")
            and never_wrong(spec)
        ):
            raise spec.error(
                ("claims", i), f"{content.quantity} is about failures, and {never_wrong(spec)}"
            )
        if content.quantity in verdicts.RATES and "calibration" not in plan.data:
            raise spec.error(
                ("claims", i),
                f"{content.quantity} is about verdicts, and thresholds are chosen on calibration data; add calibration under data",
            )
        if content.quantity in COMPARED and not (
            content.circumstance or content.every == "circumstances"
        ):
            raise spec.error(
                ("claims", i),
                f"{content.quantity} compares with clean data; add circumstance: NAME or every: circumstances",
            )
        _check_place(plan, i, content)


def _check_against_run(plan: Plan, i: int, content: ClaimSpec) -> None:
    spec = plan.spec
    for key in ("slice", "every", "supervisor", "quantity"):
        if getattr(content, key):
            raise spec.error(
                ("claims", i, key),
                "does not go with no_worse_than, which takes circumstance, level and by",
            )
    folder = spec.base / content.no_worse_than
    try:
        record = RunFolder.open(folder).record()
    except StoreError as error:
        raise spec.error(("claims", i, "no_worse_than"), str(error)) from error
    refused = comparison.incomparable(record, measured_by(plan)).refused
    if refused:
        raise spec.error(
            ("claims", i, "no_worse_than"),
            f"{content.no_worse_than} cannot be compared: {'; '.join(refused)}",
        )
    _check_place(plan, i, content)
    if content.circumstance:
        then = next(
            (c for c in record.get("circumstances", []) if c["name"] == content.circumstance), None
        )
        differs = _other_circumstance(plan, content, then, record)
        if differs:
            raise spec.error(
                ("claims", i, "circumstance"),
                f"{content.no_worse_than} cannot be compared: {differs}",
            )


def _other_circumstance(
    plan: Plan, content: ClaimSpec, then: Mapping[str, Any] | None, record: Mapping[str, Any]
) -> str:
    """How a circumstance of an earlier run differs from the one of that name here; empty where it does not."""
    name = content.circumstance
    circumstance = next(c for c in plan.circumstances if c.name == name)
    now = circumstance_record(circumstance)
    if then is None:
        return f"it has no circumstance {name!r}"
    for key in ("kind", "transform", "port", "where"):
        if then.get(key) != now[key]:
            return f"its {name} has {key} {then.get(key)!r}, here {now[key]!r}"
    levels = (
        now["parameters"]
        if content.level is None
        else {f"{content.level:g}": now["parameters"][f"{content.level:g}"]}
    )
    for level, parameters in levels.items():
        before = then.get("parameters", {}).get(level)
        if json.loads(json.dumps(parameters)) != before:
            at = f" at level {level}" if level else ""
            return f"its {name}{at} has the parameters {before}, here {parameters}"
    if circumstance.kind == "dataset":
        before = record.get("data", {}).get(circumstance.role, {}).get("fingerprint")
        if before != plan.data[circumstance.role].fingerprint:
            return f"its {name} is another data set"
    return ""


def _check_place(plan: Plan, i: int, content: ClaimSpec) -> None:
    """Level, slice and supervisor of a claim are among those of the file, and its data has the slices."""
    spec = plan.spec
    if content.level is not None:
        if not content.circumstance:
            raise spec.error(
                ("claims", i, "level"), "a level is of a circumstance; add circumstance: NAME"
            )
        levels = spec.circumstances[content.circumstance].levels
        if content.level not in levels:
            known = ", ".join(map(str, levels)) or "none"
            raise spec.error(
                ("claims", i, "level"), f"{content.circumstance} is run at the levels {known}"
            )
    for column in content.slice:
        if column not in spec.slices:
            hint = did_you_mean(column, spec.slices)
            raise spec.error(
                ("claims", i, "slice"),
                f"{column!r} is not among the slices{hint}; add it to slices",
            )
    columns = {
        *content.slice,
        *(spec.slices if content.every == "slices" else {content.every} & set(spec.slices)),
    }
    for c in plan.circumstances:
        wanted = content.circumstance == c.name or content.every == "circumstances"
        missing = [
            column for column in columns if wanted and not plan.data[c.role].has_column(column)
        ]
        if missing:
            raise spec.error(
                ("claims", i),
                f"the data of {c.name} has no {missing[0]!r}, by which the claim is sliced",
            )
    if content.slice:
        _check_slice(plan, i, content)
    supervisors = {s.label: s for s in plan.supervisions}
    if content.supervisor in plan.left_out:
        because = plan.left_out[content.supervisor]
        raise spec.error(
            ("claims", i, "supervisor"),
            f"{content.supervisor} is not applicable, because {because}",
        )
    if content.supervisor and content.supervisor not in supervisors:
        raise spec.error(
            ("claims", i, "supervisor"),
            f"{content.supervisor!r} is not among the supervisors{did_you_mean(content.supervisor, supervisors)}; "
            "add it to supervisors",
        )
    if content.supervisor and not supervisors[content.supervisor].applicable:
        because = supervisors[content.supervisor].because
        raise spec.error(
            ("claims", i, "supervisor"),
            f"{content.supervisor} is not applicable, because {because}",
        )


def _check_slice(plan: Plan, i: int, content: ClaimSpec) -> None:
    """Refuse a slice that no place of the claim has any case of."""
    wanted = [
        c
        for c in plan.circumstances
        if content.circumstance == c.name or content.every == "circumstances"
    ]
    places = [(plan.data[c.role], c.where) for c in wanted] or [(plan.data["test"], None)]
    for data, where in places:
        keep = np.ones(len(data), dtype=bool) if where is None else data.where(where)
        for column, label in content.slice.items():
            keep &= slice_labels(data.column(column)) == slice_label(label)
        if keep.any():
            return
    data, where = places[0]
    column = next(iter(content.slice))
    labels = slice_labels(data.column(column))[data.where(where or {})]
    said = ", ".join(f"{k} = {v}" for k, v in content.slice.items())
    known = ", ".join(sorted(set(labels.tolist()))[:8])
    raise plan.spec.error(("claims", i, "slice"), f"no case has {said}; {column} has: {known}")


def measured_by(plan: Plan) -> dict[str, Any]:
    """What a record says of how and on what a run was measured."""
    spec = plan.spec
    return {
        "measure": {
            "name": spec.measure_name,
            "parameters": spec.measure_parameters,
            "failure": spec.failure or {},
        },
        "subject": {"task": spec.subject.get("task", "")},
        "data": {role: {"fingerprint": d.fingerprint} for role, d in plan.data.items()},
    }


def recorded(folder: RunFolder) -> comparison.Recorded:
    """An earlier run, for comparisons."""
    return comparison.Recorded(folder.record(), folder.cases(), folder.findings())


def _claim(spec: Assessment, content: ClaimSpec) -> Claim:
    direction: Literal["min", "max"] = "min" if content.min is not None else "max"
    limit = content.min if content.min is not None else content.max
    assert limit is not None
    return Claim(
        content.id,
        content.quantity,
        limit,
        direction,
        content.confidence,
        content.every,
        _text(spec, content, direction, limit),
    )


def _text(spec: Assessment, content: ClaimSpec, direction: str, limit: float) -> str:
    side = "at least" if direction == "min" else "at most"
    place = _under(spec, content)
    if content.slice:
        place += " for " + ", ".join(f"{k} = {v}" for k, v in content.slice.items())
    every = {"": "", "slices": ", in every slice", "circumstances": ", under every circumstance"}
    place += every.get(content.every, f", for every {content.every}")
    of = f" of {content.supervisor}" if content.supervisor else ""
    unit = f" {spec.risk.unit}" if spec.risk and content.quantity == QUANTITY else ""
    return f"{content.quantity.replace('_', ' ')}{of} {side} {limit:g}{unit}{place}"


def _places(
    spec: Assessment,
    content: ClaimSpec,
    quantity: str,
    clean: Observed,
    others: Sequence[Observed],
    references: Sequence[Observed],
    judged: _OfSupervisors,
    risk: Risk | None,
) -> list[Evidence]:
    """The evidence at every place that the claim speaks of, each with what it is compared with."""
    if risk and content.quantity == QUANTITY:
        return [risk.evidence()]
    pairs = [(clean, clean)]
    if content.circumstance or content.every == "circumstances":
        pairs = [
            (o, r)
            for o, r in zip(others, references, strict=True)
            if content.circumstance in ("", o.circumstance) and content.level in (None, o.level)
        ]
    for column, wanted in content.slice.items():
        label = slice_label(wanted)
        pairs = [(o.cut(column, label), r.cut(column, label)) for o, r in pairs]
    if content.every in ("", "circumstances"):
        return [_evidence(content, quantity, o, r, spec.seed, judged) for o, r in pairs]
    columns = spec.slices if content.every == "slices" else [content.every]
    parts = [
        (o.cut(column, label), r.cut(column, label))
        for o, r in pairs
        for column in columns
        for label in o.contents(column)
    ]
    smallest = spec.smallest_slice
    found = [_evidence(content, quantity, o, r, spec.seed, judged) for o, r in parts]
    return [performance.judged_if_large(e, smallest) for e in found]


def _evidence(
    content: ClaimSpec,
    quantity: str,
    here: Observed,
    reference: Observed,
    seed: int,
    judged: _OfSupervisors,
) -> Evidence:
    if len(here) == 0:
        return _nothing(content.quantity, here, "no case is in this slice")
    if content.quantity in OF_SUPERVISORS and content.quantity not in COMPARED:
        return judged.evidence(content, here, reference)
    if content.quantity == "failure_rate":
        return performance.failure_rate(here, seed=seed)
    if content.quantity == quantity:
        return performance.value(here, quantity, seed=seed)
    if len(reference) == 0:
        return _nothing(
            content.quantity,
            here,
            f"no case of {here.versus} is in this slice, so there is nothing to compare",
        )
    if content.quantity in OF_SUPERVISORS:
        return judged.evidence(content, here, reference)
    compared = {"difference": performance.difference, "relative_drop": performance.relative_drop}
    return compared[content.quantity](here, reference, seed=seed)


def _nothing(quantity: str, here: Observed, reason: str) -> Evidence:
    """A place where nothing can be judged, and why."""

    def interval(confidence: float, sided: Any) -> Interval:
        return Interval(-math.inf, math.inf, confidence, "nothing observed")

    return Evidence(
        quantity, here.about, math.nan, len(here), here.scored.better, interval, reason=reason
    )


def _against_run(
    plan: Plan, content: ClaimSpec, clean: Observed, others: Sequence[Observed]
) -> tuple[Claim, list[Evidence]]:
    spec, quantity = plan.spec, plan.spec.measure_name
    earlier = recorded(RunFolder.open(Path(spec.base / content.no_worse_than)))
    here = [clean]
    if content.circumstance:
        here = [
            o
            for o in others
            if o.circumstance == content.circumstance and content.level in (None, o.level)
        ]
    evidence = [
        comparison.change(o, earlier, record=measured_by(plan), seed=spec.seed) for o in here
    ]
    higher = clean.scored.better == "higher"
    text = f"{quantity} no worse than {content.no_worse_than} by more than {content.by:g}{_under(spec, content)}"
    limit, direction = (-content.by, "min") if higher else (content.by, "max")
    claim = Claim(content.id, "difference", limit, direction, content.confidence, "", text)  # type: ignore[arg-type]
    return claim, evidence


def _under(spec: Assessment, content: ClaimSpec) -> str:
    if not content.circumstance:
        return ""
    at = (
        " at every level"
        if _over_levels(spec, content)
        else ""
        if content.level is None
        else f" at level {content.level}"
    )
    return f" under {content.circumstance}{at}"
