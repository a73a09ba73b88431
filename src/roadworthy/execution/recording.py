"""What ``run.json`` says of a finished run: what was assessed on what, with which code, and what came of it."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from roadworthy.analysis.observed import Observed
from roadworthy.cases.circumstance import Circumstance
from roadworthy.claims import Judgement, overall
from roadworthy.data.probabilities import count_readings
from roadworthy.data.samples import Dataset
from roadworthy.data.values import CLASS_SCORES
from roadworthy.execution.observing import Seen
from roadworthy.execution.plan import Plan, Supervision, code_version
from roadworthy.execution.supervising import AtWork
from roadworthy.execution.verdicts import LEARNED, Calibration
from roadworthy.subject.needs import Gradient, Passes

FORMAT = 1
UNANSWERED, UNUSED = "gave no answer", "fit no case"
"""Words of the notes that nobody should miss."""
FORWARDS_OF_GRADIENT = 3
"""A forward pass and a backward one, which costs about two."""


def record_of(
    plan: Plan,
    seen: Sequence[Seen],
    judgements: Sequence[Judgement],
    counts: dict[str, int],
    command: str,
    at_work: AtWork,
    chosen: Calibration,
) -> dict[str, Any]:
    """The record of a finished run; timings are added by whoever measured them."""
    spec = plan.spec
    scored = seen[0].observed.scored
    failed = sum(int(s.observed.unanswered.sum()) for s in seen)
    return {
        "format": FORMAT,
        "key": plan.key,
        "name": spec.title,
        "status": "finished",
        "verdict": overall(judgements),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "seed": spec.seed,
        "confidence": spec.confidence,
        "command": command or f"roadworthy assess {spec.document.path.name}",
        "spec": spec.model_dump(mode="json"),
        "spec_text": spec.document.text,
        "intended_use": spec.intended_use,
        "not_tested": [*spec.not_tested, *_not_tested(plan)],
        "media": spec.media,
        "subject": _subject_record(plan),
        "data": {role: _data_record(d) for role, d in plan.data.items()},
        "measure": {
            "name": spec.measure_name,
            "parameters": spec.measure_parameters,
            "better": scored.better,
            "shape": scored.shape,
            "failure": spec.failure or {},
        },
        "circumstances": [circumstance_record(c) for c in plan.circumstances],
        "slices": _slice_records(plan, seen[0].observed),
        "cases": {**counts, "failed": failed},
        "supervisors": [_supervisor_record(s, plan, at_work, chosen) for s in plan.supervisions],
        "claims": [j.to_dict() for j in judgements],
        "notes": [*_notes(plan, seen, failed), *_supervisors_notes(plan, at_work, chosen)],
    }


def _supervisor_record(
    s: Supervision, plan: Plan, at_work: AtWork, chosen: Calibration
) -> dict[str, Any]:
    because = s.because or at_work.failed.get(s.label, "")
    spent, threshold = at_work.time_of(s.label), chosen.thresholds.get(s.label)
    return {
        "name": s.label,
        "module": s.module,
        "applicable": not because,
        "because": because,
        "parameters": dict(s.parameters),
        "members": list(at_work.members_of(s)),
        "fit_seconds": spent.fit_seconds,
        "fit_kept": spent.fit_kept,
        "score_seconds": spent.score_seconds,
        "score_kept": spent.score_kept,
        "subject_passes": _further_passes(s, plan, at_work),
        "kept_bytes": int(getattr(s.supervisor, "kept_bytes", 0)),
        "notes": _own_notes(s, at_work),
        "threshold": None if threshold is None else threshold.to_dict(),
    }


def _further_passes(s: Supervision, plan: Plan, at_work: AtWork) -> int:
    """About how many forward passes a case the subject makes for it beyond the one for its answer; equal requests are made once.

    They run together with the answer, so that their own time is not measured. Members of an ensemble answer anyway.
    """
    needs = set(s.supervisor.needs)
    for other in plan.supervisions:
        needs |= set(other.supervisor.needs) if other.label in at_work.members_of(s) else set()
    gradients = FORWARDS_OF_GRADIENT * sum(isinstance(n, Gradient) for n in needs)
    return gradients + sum(n.n for n in needs if isinstance(n, Passes))


def _own_notes(s: Supervision, at_work: AtWork) -> list[str]:
    learned = [LEARNED] if getattr(s.supervisor, "contrasts", False) else []
    return [*at_work.notes_of(s), *learned]


def _supervisors_notes(plan: Plan, at_work: AtWork, chosen: Calibration) -> list[str]:
    """Who does not apply and why, what the others had to do about the data, and what became of verdicts."""
    notes = []
    for s in plan.supervisions:
        because = s.because or at_work.failed.get(s.label, "")
        if because:
            notes.append(f"supervisor {s.label} is not applicable, because {because}")
        else:
            notes += [f"supervisor {s.label}: {note}" for note in _own_notes(s, at_work)]
    notes += chosen.notes
    if chosen.thresholds:
        for c in plan.circumstances:
            if c.kind == "dataset":
                notes.append(f"{c.name} has data of its own, none of which chose the thresholds")
    return notes


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


def _notes(plan: Plan, seen: Sequence[Seen], failed: int) -> list[str]:
    notes = list(plan.notes)
    if failed:
        first = next(e for s in seen for e in s.system.error if e is not None)
        notes.append(
            f"{failed} cases {UNANSWERED} and are counted as wrong; the first reason: {first}"
        )
    notes += _unused(plan, seen)
    notes += _mixed(seen)
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
        f"the class scores of {given} cases are probabilities and those of {others} are not, which are read as logits; "
        "scores of supervisors that read them are not comparable between the two. Give all as probabilities or all as logits"
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
                f"{len(found)} ids in {which} {UNUSED}, such as {found[0]!r}; cases have ids such as {cases[0]!r}"
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


def _subject_record(plan: Plan) -> dict[str, Any]:
    system = plan.subject
    files: dict[Path, None] = {}
    for module in system.modules.values():
        files.update(dict.fromkeys(getattr(module, "files", ())))
    return {
        "task": plan.spec.subject.get("task", ""),
        "adapter": plan.spec.adapter,
        "version": system.version or str(plan.spec.subject.get("version", "")),
        "fingerprint": system.fingerprint,
        "modules": [
            {
                "name": name,
                "outputs": {p: k.name for p, k in m.outputs.items()},
                "assessed": name not in system.unassessed,
                "fingerprint": m.fingerprint,
            }
            for name, m in system.modules.items()
        ],
        "files": [_file_record(Path(f), plan.spec.base) for f in files],
    }


def _file_record(path: Path, base: Path) -> dict[str, Any]:
    content = path.read_bytes() if path.is_file() else b""
    shown = os.path.relpath(path, base)
    return {"path": shown, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _data_record(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "n": len(data),
        "groups": None if data.groups is None else len(set(data.groups.tolist())),
        "classes": list(data.classes) if data.classes else None,
        "fingerprint": data.fingerprint,
        "source": data.source,
        "licence": data.licence,
    }


def circumstance_record(c: Circumstance) -> dict[str, Any]:
    """What a run says of one circumstance: what makes it, at which levels, and what it matters."""
    transforms = c.transforms() if c.kind == "transform" else []
    return {
        "name": c.name,
        "kind": c.kind,
        "transform": c.transform,
        "table": transforms[0].table if transforms else None,
        "levels": [t.level for t in transforms if t.level is not None],
        "parameters": {
            ("" if t.level is None else f"{t.level:g}"): dict(t.parameters) for t in transforms
        },
        "port": c.port,
        "where": c.where,
        "probability": c.probability,
        "exposure": c.exposure,
        "likelihood": c.likelihood,
        "severity": c.severity,
        "significance": c.significance,
        "description": c.description,
    }


def _slice_records(plan: Plan, clean: Observed) -> list[dict[str, Any]]:
    found = []
    for column, values in clean.slices.items():
        for content in sorted(set(values.tolist()), key=str):
            n = int((values == content).sum())
            found.append(
                {
                    "column": column,
                    "value": str(content),
                    "n": n,
                    "too_small": n < plan.spec.smallest_slice,
                }
            )
    return found
