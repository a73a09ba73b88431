"""What a run leaves in its folder: the record, the table of cases, pictures, traces and reports."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy import registry
from roadworthy.analysis.classification import confidences
from roadworthy.analysis.observed import Observed
from roadworthy.assessment.observations import Observations, Seen
from roadworthy.assessment.section import Result
from roadworthy.cases.circumstance import Circumstance
from roadworthy.cases.generators import Attack, Chain, Generator, Mixture
from roadworthy.claims import Judgement, overall
from roadworthy.data.png import encode_png
from roadworthy.data.samples import Dataset
from roadworthy.data.values import (
    BOXES,
    FRAMES,
    GOAL,
    IGNORED,
    IMAGE,
    LABEL,
    MASK,
    TEXT,
    VECTOR,
    Boxes,
    Episode,
    Tracks,
    Unreadable,
)
from roadworthy.execution.plan import Plan
from roadworthy.execution.versions import code_version, installed
from roadworthy.finding import Finding
from roadworthy.measures.detection import match
from roadworthy.report.charts import palette
from roadworthy.spec import Assessment
from roadworthy.spec.document import without_passwords
from roadworthy.store import RunFolder
from roadworthy.store.record import (
    CasesRecord,
    CircumstanceRecord,
    DataRecord,
    FailedCase,
    FileRecord,
    Gallery,
    MeasureRecord,
    ModuleRecord,
    Pair,
    Record,
    SliceRecord,
    SubjectRecord,
    claim_record,
)
from roadworthy.store.runs import CALIBRATION
from roadworthy.subject.identity import state_of_file

TAKEN = ("media", "supervisors", "tables", "trace")
"""Folders of a run that belong to no section."""
MOST_FAILURES = 20
"""Cases without an answer that the record names."""
INVALID = "invalid input"
"""The truth of inputs that have no right answer."""
MOST_PAIRS = 12
"""Pictures of each list: more are not looked at."""
LARGEST_SIDE = 256
"""Of a picture, in pixels."""


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
    slices = _slice_records(plan, seen[0].observed)
    return Record(
        key=plan.key,
        name=spec.title,
        verdict=overall(judgements),  # type: ignore[arg-type]
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "roadworthy": code_version(),
            **installed(),
            "python": platform.python_version(),
        },
        seed=spec.seed,
        confidence=spec.confidence,
        command=without_passwords(command) or f"roadworthy assess {spec.document.path.name}",
        spec=spec.model_dump(mode="json"),
        spec_text=without_passwords(spec.document.text),
        intended_use=spec.intended_use,
        not_tested=[*spec.not_tested, *_not_tested(plan)],
        media=spec.media,
        subject=_subject_record(plan),
        data={role: _data_record(d, spec.group_column) for role, d in plan.data.items()},
        measure=MeasureRecord(
            name=spec.measure_name,
            parameters=spec.measure_parameters,
            better=scored.better,
            shape=scored.shape,
            failure=spec.failure or {},
        ),
        circumstances=[circumstance_record(c) for c in plan.circumstances],
        slices=slices,
        cases=CasesRecord(**counts, failed=failed, failures=_failures(seen)),
        claims=[claim_record(j) for j in judgements],
        warnings=_warnings(plan, seen, failed),
        notes=[
            *plan.notes,
            *_ignored(seen),
            *(_too_small(s, spec.smallest_slice) for s in slices if s.too_small),
        ],
        findings=list(findings),
    )


def _ignored(seen: Sequence[Seen]) -> list[str]:
    """How many boxes a moved picture shows too little of to expect that they are found."""
    found = []
    for s in (s for s in seen if getattr(s.condition.transform, "carries", False)):
        boxes = [target for target in s.targets if isinstance(target, Boxes)]
        hidden, total = sum(int(b.ignore.sum()) for b in boxes), sum(map(len, boxes))
        if hidden:
            why = "less than 30% is in the picture, or the data says so"
            found.append(f"{s.condition.name}: {hidden} of {total} boxes are ignored ({why})")
    return found


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
    unrun = [c.description or c.name for c in plan.circumstances if c.kind == "specified"]
    found += [f"{name}: specified as a circumstance of use, but not run" for name in unrun]
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


def _subject_record(plan: Plan) -> SubjectRecord:
    system, seen = plan.subject, dict(plan.evidence.files)
    for module in system.modules.values():
        for file in map(str, getattr(module, "files", ())):
            seen.setdefault(os.path.abspath(file), state_of_file(os.path.abspath(file)))
    order = plan.classes
    prepare = next((m.prepare for m in system.modules.values() if hasattr(m, "prepare")), None)
    return SubjectRecord(
        classes=list(order.names) if order else [],
        class_order=order.source if order else "",
        class_order_given=order is None or order.given,
        preparation=prepare.facts(rows=plan.data["test"].input_kind is VECTOR) if prepare else {},
        preparation_assumed=prepare is not None and _assumed(plan.spec),
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
        files=[_file_record(place, seen[place], plan.spec.base) for place in seen],
        not_identified=[f"The subject {what}. {_vouched(plan)}" for what in plan.not_identified],
    )


def _vouched(plan: Plan) -> str:
    version = plan.subject.version or plan.spec.subject.get("version")
    if version:
        return f"Not identified; vouched for by version {version}."
    return "Not identified; computed again in each run. Set `version`, or list `files`, to keep answers."


def _assumed(spec: Assessment) -> bool:
    """Whether the file leaves the preparation of inputs open, or calls it assumed."""
    if "input" not in spec.subject:
        return True
    lines = spec.document.text.splitlines()
    return "# assumed" in lines[spec.document.line_of(("subject", "input")) - 1]


def _file_record(path: str, state: str, base: Path) -> FileRecord:
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    return FileRecord(path=os.path.relpath(path, base), sha256=state, bytes=size)


def _data_record(data: Dataset, group: str) -> DataRecord:
    return DataRecord(
        name=data.name,
        n=len(data),
        groups=None if data.groups is None else len(set(data.groups.tolist())),
        group=group if data.groups is not None else "",
        classes=list(data.classes) if data.classes else None,
        fingerprint=data.fingerprint,
        source=data.source,
        licence=data.licence,
    )


def circumstance_record(c: Circumstance) -> CircumstanceRecord:
    """What a run says of one circumstance: what makes it, at which levels, and how much it matters."""
    made = c.generators()
    tables = [p.table for g in made if isinstance(g, Chain) for p in g.parts if p.table]
    about = {
        "kind": c.kind,
        "table": tables[0] if tables else None,
        "levels": [g.level for g in made if g.level is not None],
        "parameters": {("" if g.level is None else f"{g.level:g}"): _parameters(g) for g in made},
        "significance": c.significance,
    }
    if c.learned:
        about["parameters"] = {"": dict(c.own_data or {})}
    known = {k: v for k, v in vars(c).items() if k in CircumstanceRecord.model_fields}
    return CircumstanceRecord.model_validate({**known, **about})


def _parameters(made: Generator) -> dict[str, Any]:
    """The parameters of one transform, attack or source; of several by name; of a mixture the probabilities."""
    if isinstance(made, Mixture):
        return {m.name: m.probability for m in made.members}
    if isinstance(made, Chain):
        by_name = {
            part.name: {
                **part.parameters,
                **{f"{name}_sha256": content for name, content in part.contents.items()},
            }
            for part in made.parts
        }
        return by_name if len(by_name) > 1 else next(iter(by_name.values()))
    return dict(made.parameters)


def _slice_records(plan: Plan, clean: Observed) -> list[SliceRecord]:
    found = []
    for column, values in clean.slices.items():
        for content in sorted(set(values.tolist()), key=str):
            n = int((values == content).sum())
            small = n < plan.spec.smallest_slice
            found.append(SliceRecord(column=column, value=str(content), n=n, too_small=small))
    return found


def _too_small(s: SliceRecord, least: int) -> str:
    return f"slice {s.column}={s.value} has {s.n} cases, too few to be judged ({least})"


def write_tables(plan: Plan, observed: Observations, folder: RunFolder) -> None:
    """The cases, the fitted supervisors, and the traces."""
    supervisors = observed.supervisors
    folder.write_cases(case_table(plan, observed.seen))
    if observed.calibration:
        folder.write_cases(case_table(plan, observed.calibration), name=CALIBRATION)
    supervisors.save(folder.path / "supervisors")
    for chunk in plan.chunks:
        supervisors.cache.link_into(chunk.key, folder.path / "trace")


def write_files(name: str, result: Result, folder: Path) -> None:
    """What a section keeps in a folder of its name, in place of what an earlier run left there."""
    if name not in TAKEN:
        shutil.rmtree(folder / name, ignore_errors=True)
    for file, write in result.files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write(folder / file)


def write_reports(record: Record) -> None:
    """Every report that the record has the parts for."""
    folder = RunFolder(record.folder)
    for name, component in registry.components("reports").items():
        needed = component.traits.get("needs")
        part = record.sections.get(needed) if needed else None
        if needed and (part is None or getattr(part, "because", "")):
            continue
        folder.write_text(component.traits.get("file", f"report.{name}"), component.bind()(record))


def case_table(plan: Plan, seen: Sequence[Seen]) -> dict[str, Any]:
    """One row a case, for the report, for comparisons and for people's own analyses."""
    columns: dict[str, list[Any]] = {}
    for s in seen:
        for name, column in _case_columns(plan, s).items():
            columns.setdefault(name, []).append(column)
    return {name: _arrow(parts) for name, parts in columns.items()}


def _case_columns(plan: Plan, seen: Seen) -> dict[str, Any]:
    observed, condition, system = seen.observed, seen.condition, seen.system
    data, n, scored = plan.data[condition.role], len(observed), observed.scored

    def same(text: str) -> np.ndarray:
        return np.full(n, text, dtype=object)

    def numbers(column: np.ndarray | None) -> np.ndarray:
        return np.full(n, np.nan) if column is None else np.asarray(column, dtype=np.float64)

    columns: dict[str, Any] = {
        "case": system.case,
        "sample": data.ids,
        "group": same("") if data.groups is None else data.groups.astype(str).astype(object),
        "role": same(condition.role),
        "circumstance": same(condition.circumstance),
        "level": np.full(n, np.nan if condition.level is None else float(condition.level)),
        "status": np.where(system.ok, "ok", "failed").astype(object),
        "error_message": np.array(["" if e is None else e for e in system.error], dtype=object),
        "error": numbers(scored.error),
        "failure": observed.failure.astype(bool),
        "numerator": numbers(scored.numerator),
        "denominator": numbers(scored.denominator),
        "truth": np.array(_truth(seen, data), dtype=object),
        "prediction": np.array(display(_answered(seen), data.classes), dtype=object),
        **_answer_columns(seen, plan.min_score),
        "seconds": system.seconds.astype(np.float32),
    }
    if plan.spec.media == "none" and data.target_kind is not LABEL:
        # Transcripts, goals and boxes say what the inputs were; class names do not.
        columns["truth"] = columns["prediction"] = same("")
    if plan.spec.mixtures.names:
        columns["met"] = same("") if observed.met is None else observed.met
    for name, scores in observed.scores.items():
        columns[name] = scores
    for column in plan.spec.slices:
        values = np.asarray(observed.slices.get(column, same("")))
        columns[f"slice.{column}"] = values.astype(str).astype(object)
    return columns


def _truth(seen: Seen, data: Dataset, rows: Sequence[int] | None = None) -> list[str]:
    """The truth as short texts; inputs that have no right answer are invalid."""
    if seen.targets is None:
        return [INVALID] * (len(seen.observed) if rows is None else len(rows))
    return display(seen.targets, data.classes, rows)


def _answered(seen: Seen) -> Any:
    """What was answered: class indices, -1 for none, where answers are class scores."""
    predicted = seen.observed.predicted
    return seen.system.output if predicted is None else predicted


def _kept(plan: Plan, seen: Seen) -> Any:
    """What was answered; of boxes those that count for a case's error."""
    answers = _answered(seen)
    if seen.system.kind is not BOXES:
        return answers
    kept = [b.scores >= plan.min_score if isinstance(b, Boxes) else None for b in answers]
    return [
        b if rows is None else Boxes(b.xyxy[rows], b.labels[rows], b.scores[rows])
        for b, rows in zip(answers, kept, strict=True)
    ]


def _answer_columns(seen: Seen, min_score: float) -> dict[str, Any]:
    """What was answered, in types of its own: classes, boxes, words."""
    observed, system = seen.observed, seen.system
    if observed.predicted is not None:
        invalid = seen.targets is None
        right = np.zeros(len(observed), bool) if invalid else observed.predicted == seen.targets
        return {
            "prediction_index": observed.predicted,
            "confidence": confidences(observed.outputs, observed.predicted),
            "correct": right,
        }
    if system.kind is BOXES and seen.targets is not None:
        counts = match(list(system.output), list(seen.targets)).counts(min_score)
        found = {"found": counts.found, "missed": counts.objects - counts.found}
        return {k: v.astype(np.int64) for k, v in {**found, "false": counts.false}.items()}
    if system.kind is TEXT and seen.targets is not None:
        counted = (len(str(words).split()) for words in seen.targets)
        return {"words": np.fromiter(counted, dtype=np.int64)}
    return {}


def _arrow(parts: Sequence[np.ndarray]) -> Any:
    import pyarrow as pa

    joined = np.concatenate(parts)
    return pa.array(joined.tolist(), pa.string()) if joined.dtype == object else pa.array(joined)


def display(
    items: Any, classes: Sequence[str] | None, rows: Sequence[int] | None = None
) -> list[str]:
    """Outputs or targets as short texts."""
    chosen = items if rows is None else [items[i] for i in rows]
    if not isinstance(items, np.ndarray):
        return [_short(item, classes) for item in chosen]
    if items.dtype.kind not in "iu" or items.ndim != 1:
        return [_short(item) for item in chosen]
    labels = np.asarray(chosen, dtype=np.int64)
    if classes is None:
        return [str(i) if i >= 0 else "no answer" for i in labels.tolist()]
    names = dict(enumerate(classes))
    return [names.get(i, "no answer") for i in labels.tolist()]


def _short(item: Any, classes: Sequence[str] | None = None) -> str:
    if item is None:
        return "no answer"
    if isinstance(item, np.ndarray) and item.ndim == 2:
        return _shares(item, dict(enumerate(classes or ())))
    if isinstance(item, Boxes):
        return f"{len(item)} boxes"
    if isinstance(item, Tracks):
        return f"{len(set(item.ids.tolist()))} tracks, {len(item)} boxes"
    if isinstance(item, Episode):
        return f"{len(item.turns)} turns; " + ", ".join(
            f"{k}: {v}" for k, v in item.outcome.items()
        )
    if isinstance(item, Mapping):
        return ", ".join(f"{k}: {v}" for k, v in item.items())
    if isinstance(item, np.ndarray):
        return np.array2string(item, precision=4, threshold=6, separator=", ")
    return str(item)


def _shares(mask: np.ndarray, names: Mapping[int, str]) -> str:
    """The three largest classes of a mask besides the background, and their shares of the pixels."""
    pixels = np.bincount(mask.ravel(), minlength=IGNORED + 1)
    pixels[[0, IGNORED]] = 0
    largest = [c for c in np.argsort(-pixels, kind="stable")[:3].tolist() if pixels[c]]
    shown = (f"{names.get(c, f'class {c}')} {pixels[c] / mask.size:.1%}" for c in largest)
    return ", ".join(shown) or "background only"


def make_gallery(plan: Plan, folder: RunFolder, seen: Sequence[Seen]) -> Gallery:
    """Choose, make again, and keep the pictures; no sample is shown twice in a list."""

    def entries(chosen: Sequence[tuple[Seen, int]]) -> list[Pair]:
        return [_entry(plan, folder, s, seen[0], row) for s, row in chosen]

    return Gallery(pairs=entries(_spread(seen)), worst=entries(_worst(seen)))


def _spread(seen: Sequence[Seen]) -> list[tuple[Seen, int]]:
    """Circumstances in turn, the strongest level first; every other turn shows cases that failed, so that the picture is
    not only of disasters."""
    clean, *others = seen
    by: dict[str, list[Seen]] = {}
    for s in sorted(others, key=lambda s: -(s.observed.significance or 0)):
        by.setdefault(s.condition.circumstance, []).insert(0, s)
    found: list[tuple[Seen, int]] = []
    used: set[tuple[str, str]] = set()
    for turn in range(MOST_PAIRS):
        for levels in by.values():
            s = levels[turn % len(levels)]
            rows = _telling(s, clean, failed=turn % 2 == 0)
            row = next((r for r in rows if _sample(s, r) not in used), None)
            if row is not None and len(found) < MOST_PAIRS:
                used.add(_sample(s, row))
                found.append((s, row))
    return found


def _sample(seen: Seen, row: int) -> tuple[str, str]:
    return seen.condition.role, str(seen.observed.samples[row])


def _telling(here: Seen, clean: Seen, *, failed: bool) -> list[int]:
    """Cases that were right before and are wrong here, or those that are right here; then the rest."""
    failure = here.observed.failure
    paired = here.observed.paired_with(clean.observed)
    turned = failure & ~clean.observed.failure if paired else failure
    first = np.flatnonzero(turned if failed else ~failure)
    return [*first.tolist(), *np.setdiff1d(np.arange(len(failure)), first).tolist()]


def _worst(seen: Sequence[Seen]) -> list[tuple[Seen, int]]:
    """Failures that looked safe to the first supervisor come first; without one, the largest errors. Conditions
    have equal parts, of two at least."""
    found: list[tuple[float, Seen, int]] = []
    part = max(2, MOST_PAIRS // len(seen))
    for s in seen:
        rows = np.flatnonzero(s.observed.failure & ~s.observed.unanswered)
        if not rows.size:
            continue
        scores = next(iter(s.observed.scores.values()), None)
        badness = s.observed.scored.error[rows] if scores is None else -scores[rows]
        order = np.argsort(-badness, kind="stable")[:part]
        found.extend((float(badness[i]), s, int(rows[i])) for i in order)
    found.sort(key=lambda entry: -entry[0])
    distinct: dict[tuple[str, str], tuple[Seen, int]] = {}
    for _, s, row in found:
        distinct.setdefault(_sample(s, row), (s, row))
    return list(distinct.values())[:MOST_PAIRS]


def _entry(plan: Plan, folder: RunFolder, here: Seen, clean: Seen, row: int) -> Pair:
    data = plan.data[here.condition.role]
    case = here.condition.case_id(data.ids[row])
    original = data.inputs[row : row + 1][0]
    made = _made(plan, here, original, case, row)
    paired = here.observed.paired_with(clean.observed)
    before = display(_kept(plan, clean), data.classes, [row])[0] if paired else ""
    o = here.observed
    sure = confidences(o.outputs, o.predicted)[row] if o.predicted is not None else None
    entry = Pair(
        sample=str(data.ids[row]),
        case=case,
        circumstance=here.condition.circumstance,
        level=here.condition.level,
        truth=_truth(here, data, [row])[0],
        prediction=display(_kept(plan, here), data.classes, [row])[0],
        confidence=sure,
        clean_prediction=before,
        failure=None if plan.spec.never_wrong else bool(here.observed.failure[row]),
        boxes=_boxes(plan, here, clean if paired else None, row),
    )
    frames = data.input_kind is FRAMES
    if data.input_kind in (IMAGE, FRAMES) and not isinstance(original, Unreadable):
        first = original[0] if frames else original
        entry.height, entry.width = np.asarray(first).shape[:2]
        shown = made[0] if frames and made is not None else made
        entry.original = _keep(folder, first if here.condition.has_parent else shown)
        if shown is not None and here.condition.has_parent:
            entry.made = _keep(folder, shown)
        if data.target_kind is MASK:
            shown, answer = original if made is None else made, here.system.output[row]
            entry.truth_overlay = _keep(folder, overlaid(shown, here.targets[row]))
            entry.made = _keep(folder, shown if answer is None else overlaid(shown, answer))
    elif data.input_kind in (TEXT, GOAL):
        entry.original_text = str(original)
        goal = data.input_kind is GOAL
        entry.made_text = _transcript(here.system.output[row]) if goal else str(made)
    return entry


def _made(plan: Plan, here: Seen, original: Any, case: str, row: int) -> Any:
    """The case's input again: the same seed gives the same case. Inner ports cannot be shown as inputs."""
    transform = here.condition.transform
    if transform is None or isinstance(original, Unreadable):
        return None
    if here.condition.port != "input":
        return original if plan.data[here.condition.role].input_kind is not GOAL else None
    if isinstance(transform, Attack):
        original = plan.inputs(here.condition, row, row + 1)[0]
    made = plan.arriving(here.condition, case, original)
    return None if isinstance(made, Unreadable) else made


def _transcript(episode: Any) -> str | None:
    if episode is None:
        return None
    return "\n".join(" / ".join(f"{k}: {v}" for k, v in turn.items()) for turn in episode.turns)


def _boxes(plan: Plan, here: Seen, clean: Seen | None, row: int) -> dict[str, Any] | None:
    """Truth and detections of a case and of its original: those that count for its error."""
    if here.targets is None or not isinstance(here.targets[row], Boxes):
        return None

    def kept(seen: Seen) -> list[list[float]]:
        found = seen.system.output[row]
        if not isinstance(found, Boxes):
            return []
        return found.xyxy[found.scores >= plan.min_score].tolist()  # type: ignore[no-any-return]

    boxes = {"truth": here.targets[row].xyxy.tolist(), "prediction": kept(here)}
    if clean is not None:
        boxes |= {"original_truth": clean.targets[row].xyxy.tolist(), "original": kept(clean)}
    return boxes


def _keep(folder: RunFolder, image: np.ndarray) -> str:
    """Keep a picture under the hash of its content."""
    content = small_png(image)
    name = f"media/{hashlib.blake2b(content, digest_size=10).hexdigest()}.png"
    if not (folder.path / name).exists():
        folder.write_bytes(name, content)
    return name


def small_png(image: np.ndarray) -> bytes:
    """A picture as PNG; a large one is made smaller by whole steps."""
    image = _eight_bits(np.asarray(image))
    step = max(1, -(-max(image.shape[:2]) // LARGEST_SIDE))
    return encode_png(image[::step, ::step])


def _eight_bits(image: np.ndarray) -> np.ndarray:
    if image.dtype.kind == "f":
        image = np.rint(np.clip(np.nan_to_num(image), 0, 1) * 255)
    return (image >> 8 if image.dtype == np.uint16 else image).astype(np.uint8)


def overlaid(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A picture with its classes in half-transparent colours; ignored pixels are grey."""
    image = _eight_bits(np.asarray(image)).reshape(*mask.shape, -1)[..., :3]
    colours = np.array([[c >> 16, c >> 8 & 255, c & 255] for c in palette.MASKS.values()])
    colour = colours[(mask.astype(int) - 1) % len(colours)]
    colour[mask == IGNORED] = 127
    return np.where((mask > 0)[..., None], (image + colour) // 2, image).astype(np.uint8)
