"""The record of a finished run: what was assessed on what, with which code, and what came of it."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from roadworthy.analysis.observed import Observed
from roadworthy.assessment.observing import Seen
from roadworthy.cases.circumstance import Circumstance
from roadworthy.claims import Judgement, overall
from roadworthy.data.probabilities import count_readings
from roadworthy.data.samples import Dataset
from roadworthy.data.values import CLASS_SCORES
from roadworthy.execution.plan import Plan
from roadworthy.execution.versions import code_version
from roadworthy.finding import Finding
from roadworthy.store.record import (
    CasesRecord,
    CircumstanceRecord,
    ClaimRecord,
    DataRecord,
    FailedCase,
    FileRecord,
    MeasureRecord,
    ModuleRecord,
    Record,
    SliceRecord,
    SubjectRecord,
)

MOST_FAILURES = 20
"""Cases without an answer that the record names."""


def record_of(
    plan: Plan,
    seen: Sequence[Seen],
    judgements: Sequence[Judgement],
    counts: Mapping[str, int],
    command: str,
    findings: Sequence[Finding],
) -> Record:
    """The record of a finished run; sections and timings are added by whoever ran them."""
    spec, scored = plan.spec, seen[0].observed.scored
    failed = sum(int(s.observed.unanswered.sum()) for s in seen)
    return Record(
        key=plan.key,
        name=spec.title,
        verdict=overall(judgements),  # type: ignore[arg-type]
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
        seed=spec.seed,
        confidence=spec.confidence,
        command=command or f"roadworthy assess {spec.document.path.name}",
        spec=spec.model_dump(mode="json"),
        spec_text=spec.document.text,
        intended_use=spec.intended_use,
        not_tested=[*spec.not_tested, *_not_tested(plan)],
        media=spec.media,
        subject=_subject_record(plan),
        data={role: _data_record(d) for role, d in plan.data.items()},
        measure=MeasureRecord(
            name=spec.measure_name,
            parameters=spec.measure_parameters,
            better=scored.better,
            shape=scored.shape,
            failure=spec.failure or {},
        ),
        circumstances=[circumstance_record(c) for c in plan.circumstances],
        slices=_slice_records(plan, seen[0].observed),
        cases=CasesRecord(**counts, failed=failed, failures=_failures(seen)),
        claims=[ClaimRecord.model_validate(j.to_dict()) for j in judgements],
        warnings=_warnings(plan, seen, failed),
        notes=_notes(plan, seen),
        findings=list(findings),
    )


def _failures(seen: Sequence[Seen]) -> list[FailedCase]:
    found = [
        FailedCase(case=str(case), message=str(error))
        for s in seen
        for case, error in zip(s.system.case, s.system.error, strict=True)
        if error is not None
    ]
    return found[:MOST_FAILURES]


def _not_tested(plan: Plan) -> list[str]:
    """What follows from the plan itself."""
    found = []
    if not plan.circumstances:
        found.append("No circumstance besides the clean test data was tried")
    if plan.data["test"].groups is None:
        found.append(
            "Dependence between cases: the data names no groups, so cases are taken as independent"
        )
    if not plan.spec.slices:
        found.append("Differences between parts of the data: the file names no slices")
    return found


def _warnings(plan: Plan, seen: Sequence[Seen], failed: int) -> list[str]:
    """Cases without an answer, and answers without a case."""
    found = _unused(plan, seen)
    if failed:
        first = next(e for s in seen for e in s.system.error if e is not None)
        found.insert(
            0, f"{failed} cases gave no answer and are counted as wrong; the first reason: {first}"
        )
    return found


def _notes(plan: Plan, seen: Sequence[Seen]) -> list[str]:
    notes = [*plan.notes, *_mixed(seen)]
    observed = seen[0].observed
    for column, values in observed.slices.items():
        for content in sorted(set(values.tolist()), key=str):
            n = int((values == content).sum())
            if n < plan.spec.smallest_slice:
                notes.append(
                    f"slice {column}={content} has {n} cases, too few to be judged ({plan.spec.smallest_slice})"
                )
    return notes


def _mixed(seen: Sequence[Seen]) -> list[str]:
    """Class scores of two kinds: a row is read for itself, and the scores of the one cannot be held against those of the other."""
    answers = [
        s.system.output[s.system.ok]
        for s in seen
        if s.system.kind is CLASS_SCORES and s.system.ok.any()
    ]
    counts = [count_readings(a) for a in answers]
    given, others = sum(c[0] for c in counts), sum(c[1] for c in counts)
    if not given or not others:
        return []
    return [
        f"the class scores of {given} cases are probabilities, those of {others} are read as logits; supervisors' scores are not "
        "comparable between the two. Give all as probabilities or all as logits"
    ]


def _unused(plan: Plan, seen: Sequence[Seen]) -> list[str]:
    """Answers that were given for no case of this run: misspelt, or of other data."""
    notes = []
    cases = [case for s in seen for case in s.system.case.tolist()]
    for name, module in plan.subject.modules.items():
        found = module.unused(cases) if hasattr(module, "unused") else []
        if found:
            which = getattr(module, "name", name)
            notes.append(
                f"{len(found)} ids in {which} fit no case, such as {found[0]!r}; cases have ids such as {cases[0]!r}"
            )
    return notes


def _versions() -> dict[str, str]:
    found = {"roadworthy": code_version(), "python": platform.python_version()}
    for name in ("numpy", "scipy", "torch", "onnxruntime", "opencv-python-headless"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _subject_record(plan: Plan) -> SubjectRecord:
    system = plan.subject
    files: dict[Path, None] = {}
    for module in system.modules.values():
        files.update(dict.fromkeys(getattr(module, "files", ())))
    return SubjectRecord(
        task=plan.spec.subject.get("task", ""),
        adapter=plan.spec.adapter,
        version=system.version or str(plan.spec.subject.get("version", "")),
        fingerprint=system.fingerprint,
        modules=[
            ModuleRecord(
                name=name,
                outputs={p: k.name for p, k in m.outputs.items()},
                assessed=name not in system.unassessed,
                fingerprint=m.fingerprint,
            )
            for name, m in system.modules.items()
        ],
        files=[_file_record(Path(f), plan.spec.base) for f in files],
    )


def _file_record(path: Path, base: Path) -> FileRecord:
    content = path.read_bytes() if path.is_file() else b""
    shown = os.path.relpath(path, base)
    return FileRecord(path=shown, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def _data_record(data: Dataset) -> DataRecord:
    return DataRecord(
        name=data.name,
        n=len(data),
        groups=None if data.groups is None else len(set(data.groups.tolist())),
        classes=list(data.classes) if data.classes else None,
        fingerprint=data.fingerprint,
        source=data.source,
        licence=data.licence,
    )


def circumstance_record(c: Circumstance) -> CircumstanceRecord:
    """What a run says of one circumstance: what makes it, at which levels, and how much it matters."""
    transforms = c.transforms() if c.kind == "transform" else []
    named: dict[str, dict[str, Any]] = {
        ("" if t.level is None else f"{t.level:g}"): dict(t.parameters) for t in transforms
    }
    return CircumstanceRecord(
        name=c.name,
        kind=c.kind,
        transform=c.transform,
        table=transforms[0].table if transforms else None,
        levels=[t.level for t in transforms if t.level is not None],
        parameters=named,
        port=c.port,
        where=None if c.where is None else dict(c.where),
        probability=c.probability,
        exposure=c.exposure,
        likelihood=c.likelihood,
        severity=c.severity,
        significance=c.significance,
        description=c.description,
    )


def _slice_records(plan: Plan, clean: Observed) -> list[SliceRecord]:
    found = []
    for column, values in clean.slices.items():
        for content in sorted(set(values.tolist()), key=str):
            n = int((values == content).sum())
            small = n < plan.spec.smallest_slice
            found.append(SliceRecord(column=column, value=str(content), n=n, too_small=small))
    return found
