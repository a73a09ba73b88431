"""The claims of the file: checked before any work, and judged on the evidence that the sections have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.analysis import comparison
from roadworthy.assessment.observations import Observations, slice_label, slice_labels
from roadworthy.assessment.run_folder import circumstance_record
from roadworthy.assessment.section import Results, Section
from roadworthy.claims import Claim, Judgement, judge
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean
from roadworthy.spec import Assessment, ClaimSpec
from roadworthy.spec.limits import quantities
from roadworthy.store import RunFolder, StoreError
from roadworthy.store.record import Record


def judge_claims(
    plan: Plan, observed: Observations, sections: Mapping[str, Section], results: Results
) -> list[Judgement]:
    """Every claim of the file, judged."""
    spec, found = plan.spec, []
    # A measure is no quantity of its own section: performance has its evidence.
    owners = {q.name: name for name, s in sections.items() for q in s.quantities}
    owners.setdefault(spec.measure_name, "performance")
    for content in spec.claims:
        if content.no_worse_than:
            claim, evidence = _against_run(plan, content, observed)
        else:
            owner = owners[content.quantity]
            claim = _claim(spec, content, percent=_percent(spec, content.quantity, observed))
            evidence = sections[owner].evidence(content, plan, observed, results[owner])
        judgement = judge(claim, evidence)
        if _over_levels(spec, content):
            text = claim.text + _worst(claim, evidence)
            judgement = replace(judgement, claim=replace(claim, text=text))
        found.append(judgement)
    return found


def _percent(spec: Assessment, quantity: str, observed: Observations) -> bool:
    if quantity == spec.measure_name:
        return observed.clean.scored.shape == "proportion"
    return quantities()[quantity].style == "percent"


def _over_levels(spec: Assessment, content: ClaimSpec) -> bool:
    """Whether the claim names a circumstance of several levels and none of them, and so must hold at all."""
    if not content.circumstance or content.level is not None:
        return False
    return len(spec.circumstances[content.circumstance].levels) > 1


def _worst(claim: Claim, evidence: Sequence[Evidence]) -> str:
    known = [e for e in evidence if not math.isnan(e.value)]
    if not known:
        return ""
    worst = (min if claim.direction == "min" else max)(known, key=lambda e: e.value).about
    slice = f", {worst.slice}" if worst.slice else ""
    return f"; worst: {worst.circumstance} @ {worst.level:g}{slice}"


def check_claims(plan: Plan) -> None:
    """Refuse, before any work, a claim that could not be judged, or would be judged on something else than it says."""
    spec = plan.spec
    known = [spec.measure_name, *quantities()]
    for i, content in enumerate(spec.claims):
        if content.no_worse_than:
            _check_against_run(plan, i, content)
            continue
        if content.quantity not in known:
            raise spec.error(
                ("claims", i),
                f"{content.quantity!r} is not measured here{did_you_mean(content.quantity, known)}; "
                f"claims can name: {', '.join(known)}",
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
                "names every circumstance and one of them; leave one of them out",
            )
        if content.every == "circumstances" and not plan.circumstances:
            raise spec.error(("claims", i, "every"), "the file names no circumstances")
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
        record = Record.read(folder).plain()
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
    now = circumstance_record(circumstance).model_dump(mode="json")
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
        if parameters != before:
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
    record = Record.read(folder.path)
    return comparison.Recorded(record.plain(), folder.cases(), record.findings)


def _claim(spec: Assessment, content: ClaimSpec, *, percent: bool) -> Claim:
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
        _text(spec, content, direction, limit, percent=percent),
        percent,
    )


def _text(
    spec: Assessment, content: ClaimSpec, direction: str, limit: float, *, percent: bool
) -> str:
    side = "at least" if direction == "min" else "at most"
    place = _under(spec, content)
    if content.slice:
        place += " for " + ", ".join(f"{k} = {v}" for k, v in content.slice.items())
    every = {"": "", "slices": ", in every slice", "circumstances": ", under every circumstance"}
    place += every.get(content.every, f", for every {content.every}")
    of = f" of {content.supervisor}" if content.supervisor else ""
    quantity = quantities().get(content.quantity)
    part = getattr(spec, quantity.unit, None) if quantity and quantity.unit else None
    unit = f" {part.unit}" if part is not None else ""
    shown = f"{100 * limit:g}%" if percent else f"{limit:g}{unit}"
    return f"{content.quantity.replace('_', ' ')}{of} {side} {shown}{place}"


def _against_run(
    plan: Plan, content: ClaimSpec, observed: Observations
) -> tuple[Claim, list[Evidence]]:
    spec, clean = plan.spec, observed.clean
    earlier = recorded(RunFolder.open(Path(spec.base / content.no_worse_than)))
    here = [clean]
    if content.circumstance:
        here = [
            o
            for o in observed.others
            if o.circumstance == content.circumstance and content.level in (None, o.level)
        ]
    evidence = [
        comparison.change(o, earlier, record=measured_by(plan), seed=spec.seed) for o in here
    ]
    higher = clean.scored.better == "higher"
    text = (
        f"{spec.measure_name} no worse than {content.no_worse_than} by more than {content.by:g}"
        f"{_under(spec, content)}"
    )
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
