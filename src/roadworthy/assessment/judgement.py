"""The claims of the file: checked before any work, and judged on the evidence that the sections have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy import numbers
from roadworthy.analysis import comparison
from roadworthy.assessment.observations import Observations, slice_label, slice_labels
from roadworthy.assessment.run_folder import circumstance_record
from roadworthy.assessment.section import Results, Section
from roadworthy.cases.circumstance import Circumstance
from roadworthy.claims import Claim, Judgement, group_noun, judge
from roadworthy.execution.plan import Plan
from roadworthy.finding import Evidence
from roadworthy.registry import did_you_mean
from roadworthy.spec import Assessment, ClaimSpec
from roadworthy.spec.limits import installed_sections, number_style, quantities
from roadworthy.store import RunFolder
from roadworthy.store.record import Record


def judge_claims(
    plan: Plan, observed: Observations, sections: Mapping[str, Section], results: Results
) -> list[Judgement]:
    """Every claim of the file, judged."""
    spec, found = plan.spec, []
    # A measure is no quantity of its own section: performance has its evidence.
    owners = {q.name: name for name, s in sections.items() for q in s.quantities}
    owners[spec.measure_name] = "performance"
    for content in spec.claims:
        if content.no_worse_than:
            claim, evidence = _against_run(plan, content, observed)
        else:
            owner = owners[content.quantity]
            claim = _claim(spec, content, observed)
            evidence = sections[owner].evidence(content, plan, observed, results[owner])
        if evidence and evidence[0].assuming:
            claim = replace(claim, text=f"{claim.text}, assuming {evidence[0].assuming}")
        judgement = judge(claim, evidence)
        if _over_levels(spec, content):
            text = claim.text + _worst(claim, evidence)
            judgement = replace(judgement, claim=replace(claim, text=text))
        found.append(judgement)
    return found


def _over_levels(spec: Assessment, content: ClaimSpec) -> bool:
    """Whether the claim names a circumstance of several levels and none of them: it must hold at all."""
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
    """Refuse, before any work, a claim that could not be judged, or not on what it says."""
    spec = plan.spec
    known = [spec.measure_name, *quantities()]
    options = ["slices", "circumstances", *spec.slices]
    for i, content in enumerate(spec.claims):
        every = content.every
        if content.no_worse_than:
            _check_against_run(plan, i, content)
        elif content.quantity not in known:
            raise spec.error(
                ("claims", i),
                f"{content.quantity!r} is not measured here{did_you_mean(content.quantity, known)}; "
                f"claims can name: {', '.join(known)}",
            )
        _check_section(spec, i, content)
        refused = ""
        if every and every not in options:
            hint = did_you_mean(every, options)
            refused = f"{every!r} is not known{hint}; it takes: {', '.join(options)}"
        elif every == "slices" and not spec.slices:
            refused = "the file names no slices; add slices: [label]"
        elif every == "circumstances" and content.circumstance:
            refused = "names every circumstance and one of them; leave one of them out"
        elif every == "circumstances" and not plan.circumstances:
            refused = "the file names no circumstances"
        if refused:
            raise spec.error(("claims", i, "every"), refused)
        _check_place(plan, i, content)
        _check_supervisor(plan, i, content.supervisor)


def _check_section(spec: Assessment, i: int, content: ClaimSpec) -> None:
    """The section that finds a quantity is in the file."""
    for section in installed_sections().values():
        owned = any(q.name == content.quantity for q in section.quantities)
        if (
            owned
            and section.keys
            and not section.always
            and not set(section.keys) & spec.model_fields_set
        ):
            key = next(iter(section.keys))
            raise spec.error(
                ("claims", i), f"{content.quantity} needs the section {key}. Add `{key}: {{}}`"
            )


def _check_against_run(plan: Plan, i: int, content: ClaimSpec) -> None:
    """The earlier run is there, and measured the same in the same way."""
    spec = plan.spec
    for key in ("slice", "every", "supervisor", "quantity", "class", "threshold"):
        if content.model_dump()[key]:
            raise spec.error(
                ("claims", i, key),
                "does not go with no_worse_than, which takes circumstance, level and by",
            )
    with spec.located(("claims", i, "no_worse_than")):
        record = Record.read(spec.base / content.no_worse_than)
    refused = list(comparison.incomparable(record.plain(), measured_by(plan)).refused)
    refused += [
        f"its circumstance {c.name!r} is missing or another"
        for c in plan.circumstances
        if c.name == content.circumstance and not _same_circumstance(plan, c, content, record)
    ]
    if refused:
        raise spec.error(
            ("claims", i, "no_worse_than"),
            f"{content.no_worse_than} cannot be compared: {'; '.join(refused)}",
        )


def _same_circumstance(plan: Plan, c: Circumstance, content: ClaimSpec, record: Record) -> bool:
    """Whether an earlier run had a circumstance that is made in the same way, at the levels claimed."""
    now, then = (
        circumstance_record(c),
        next((x for x in record.circumstances if x.name == c.name), None),
    )
    made_by = ("kind", "transform", "transforms", "attack", "source", "mixture", "port", "where")
    if then is None or any(getattr(then, key) != getattr(now, key) for key in made_by):
        return False
    levels = [*now.parameters] if content.level is None else [f"{content.level:g}"]
    if any(now.parameters.get(level) != then.parameters.get(level) for level in levels):
        return False
    if c.own_data is None:
        return True
    data = record.data.get(c.role)
    return data is not None and data.fingerprint == plan.data[c.role].fingerprint


def _check_place(plan: Plan, i: int, content: ClaimSpec) -> None:
    """Level and slice of a claim are among those of the file, and its data has the slices."""
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
            raise spec.error(
                ("claims", i, "slice"),
                f"{column!r} is not among the slices{did_you_mean(column, spec.slices)}; add it to slices",
            )
    every = spec.slices if content.every == "slices" else {content.every} & set(spec.slices)
    named = [c for c in plan.circumstances if content.circumstance == c.name]
    if content.every == "circumstances":
        named = list(plan.circumstances)
    for c in named:
        for column in (*content.slice, *every):
            if not plan.data[c.role].has_column(column):
                raise spec.error(
                    ("claims", i),
                    f"the data of {c.name} has no {column!r}, by which the claim is sliced",
                )
    if content.slice:
        _check_slice(plan, i, content, named)


def _check_slice(plan: Plan, i: int, content: ClaimSpec, named: Sequence[Circumstance]) -> None:
    """Refuse a slice that no place of the claim has any case of."""
    places = [(plan.data[c.role], c.where) for c in named] or [(plan.data["test"], None)]
    for data, where in places:
        keep = data.where(where or {})
        for column, label in content.slice.items():
            keep = keep & (slice_labels(data.column(column)) == slice_label(label))
        if keep.any():
            return
    data, where = places[0]
    column = next(iter(content.slice))
    labels = slice_labels(data.column(column))[np.asarray(data.where(where or {}))]
    said = ", ".join(f"{k} = {v}" for k, v in content.slice.items())
    known = ", ".join(sorted(set(labels.tolist()))[:8])
    raise plan.spec.error(("claims", i, "slice"), f"no case has {said}; {column} has: {known}")


def _check_supervisor(plan: Plan, i: int, name: str) -> None:
    """A supervisor that a claim names is in the file, and applicable."""
    known = {s.label: s.because for s in plan.supervisions} | dict(plan.left_out)
    if not name or known.get(name) == "":
        return
    refused = (
        f"{name!r} is not among the supervisors{did_you_mean(name, known)}; add it to supervisors"
    )
    if name in known:
        refused = f"{name} is not applicable, because {known[name]}"
    raise plan.spec.error(("claims", i, "supervisor"), refused)


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


def _style(spec: Assessment, quantity: str, observed: Observations) -> numbers.Style:
    return number_style(quantity, spec.measure_name, observed.clean.scored.shape)


def _claim(spec: Assessment, content: ClaimSpec, observed: Observations) -> Claim:
    direction: Literal["min", "max"] = "min" if content.min is not None else "max"
    limit = content.min if content.min is not None else content.max
    assert limit is not None
    quantity = quantities().get(content.quantity)
    part = getattr(spec, quantity.unit, None) if quantity and quantity.unit else None
    unit = f" {part.unit}" if part is not None else ""
    of = "".join(f" of {name}" for name in (content.supervisor, content.class_) if name != "")
    side = "at least" if direction == "min" else "at most"
    style = _style(spec, content.quantity, observed)
    shown = f"{numbers.limit(limit, style)}{unit}"
    at = "" if content.threshold is None else f" at threshold {content.threshold:g}"
    text = f"{content.quantity.replace('_', ' ')}{of}{at} {side} {shown}{_in_words(spec, content)}"
    name, group = content.quantity, group_noun(spec.group_column)
    return Claim(content.id, name, limit, direction, content.confidence, text, style, group)


def _in_words(spec: Assessment, content: ClaimSpec) -> str:
    """Where a claim must hold."""
    place = ""
    if content.circumstance:
        at = "" if content.level is None else f" at level {content.level}"
        at = " at every level" if _over_levels(spec, content) else at
        place = f" under {content.circumstance}{at}"
    if content.slice:
        place += " for " + ", ".join(f"{k} = {v}" for k, v in content.slice.items())
    every = {"": "", "slices": ", in every slice", "circumstances": ", under every circumstance"}
    return place + every.get(content.every, f", for every {content.every}")


def _against_run(
    plan: Plan, content: ClaimSpec, observed: Observations
) -> tuple[Claim, list[Evidence]]:
    spec, here = plan.spec, [observed.clean]
    earlier = recorded(RunFolder.open(Path(spec.base / content.no_worse_than)))
    if content.circumstance:
        same = [o for o in observed.others if o.circumstance == content.circumstance]
        here = [o for o in same if content.level in (None, o.level)]
    record = measured_by(plan)
    evidence = [comparison.change(o, earlier, record=record, seed=spec.seed) for o in here]
    style = _style(spec, "difference", observed)
    by = numbers.limit(content.by, style).removeprefix("+")
    text = (
        f"{spec.measure_name} no worse than {content.no_worse_than} by more than {by}"
        f"{_in_words(spec, content)}"
    )
    direction: Literal["min", "max"] = "max"
    if observed.clean.scored.better == "higher":
        direction = "min"
    limit = -content.by if direction == "min" else content.by
    confidence, group = content.confidence, group_noun(spec.group_column)
    claim = Claim(content.id, "difference", limit, direction, confidence, text, style, group)
    return claim, evidence
