"""An assessment from file to verdict: plan, run what is not there yet, observe, analyse, judge, record, report."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roadworthy import registry
from roadworthy.analysis import performance, supervision, verdicts
from roadworthy.analysis.observed import Observed
from roadworthy.cases.circumstance import Condition
from roadworthy.claims import Judgement
from roadworthy.data.samples import Dataset
from roadworthy.execution import gallery
from roadworthy.execution.compiling import alarms_at_work, compile_monitor
from roadworthy.execution.judging import check_claims, judge_claims
from roadworthy.execution.observing import Seen, case_table, filtered, observe, with_scores
from roadworthy.execution.plan import Plan, resolve
from roadworthy.execution.progress import Progress, Silent
from roadworthy.execution.recommending import recommend
from roadworthy.execution.recording import record_of
from roadworthy.execution.risks import check_risk, risk_of
from roadworthy.execution.supervising import AtWork
from roadworthy.execution.verdicts import TABLE, Calibration, assumed, calibrate, tables
from roadworthy.execution.work import Done, Unfinished
from roadworthy.finding import Finding
from roadworthy.spec import Assessment
from roadworthy.store import ChunkCache, RunFolder, RunIndex
from roadworthy.store.runs import CALIBRATION
from roadworthy.subject.module import SubjectError
from roadworthy.subject.system import System

PROBED = 2
"""Chunks that are run here before deciding whether worker processes are worth their start; the last one's time counts."""
WORTH_PROCESSES = 8.0
"""Seconds of work from which several processes finish earlier than one, their start included."""


@dataclass(frozen=True)
class Run:
    """A finished assessment."""

    folder: Path
    record: Mapping[str, Any]
    findings: Sequence[Finding]
    judgements: Sequence[Judgement] = ()

    @property
    def verdict(self) -> str:
        """met, breached, inconclusive, or "no claims"."""
        return str(self.record["verdict"])

    @property
    def claims(self) -> Sequence[Judgement]:
        """The claims, judged."""
        return self.judgements

    def finding(
        self, quantity: str, *, circumstance: str = "", level: float | None = None, slice: str = ""
    ) -> Finding:
        """One finding by what it is about."""
        for f in self.findings:
            about = f.about
            same = (about.circumstance, about.level, about.slice) == (circumstance, level, slice)
            if f.quantity == quantity and same and not about.supervisor:
                return f
        raise KeyError(
            f"no finding on {quantity!r} at circumstance={circumstance!r}, level={level}, slice={slice!r}"
        )


@dataclass
class _Clock:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Any:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def assess(
    assessment: str | os.PathLike[str] | Assessment,
    *,
    subject: System | None = None,
    data: Mapping[str, Dataset] | None = None,
    runs: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    command: str = "",
    fresh: bool = False,
) -> Run:
    """Assess a system as an assessment file says; `subject` and `data` may be handed in instead of being loaded.

    With `fresh` everything is computed again, and what was kept of it is replaced.
    """
    show = progress or Silent()
    clock = _Clock()
    with clock.stage("plan"), _stoppable():
        show.stage("loading subject and data", 0)
        spec = (
            assessment if isinstance(assessment, Assessment) else Assessment.read(Path(assessment))
        )
        plan = resolve(spec, subject=subject, data=data)
        plan.check_case_ids()
        check_claims(plan)
        check_risk(plan)
        root = Path(runs) if runs is not None else spec.base / "runs"
        cache = ChunkCache(root / ".cache")
        folder = RunFolder(root / f"{_slug(spec.title)}-{plan.key[:8]}")
    in_process = subject is not None or data is not None
    with _kept(plan, cache):
        folder.path.mkdir(parents=True, exist_ok=True)
        cache.sweep(folder.path / "trace")
        for chunk in plan.chunks if fresh else ():
            # At the start, so that after an interruption the same command without `fresh` goes on with the new ones.
            cache.drop(chunk.key)
        with clock.stage("run"):
            counts = _run_chunks(plan, cache, show, workers, in_process)
        return _conclude(plan, cache, folder, root, counts, show, clock, command, fresh)


def _run_chunks(
    plan: Plan, cache: ChunkCache, show: Progress, workers: int | None, in_process: bool
) -> dict[str, int]:
    """Compute the chunks that are not there yet."""
    chunks = plan.chunks
    todo = [c.index for c in chunks if not cache.has(c.key)]
    total = sum(len(c) for c in chunks)
    waiting = sum(len(chunks[i]) for i in todo)
    show.stage("running the subject", total)
    show.advance(total - waiting)
    for done in _executed(plan, cache, todo, workers or plan.spec.execution.workers, in_process):
        chunk = chunks[done.index]
        if done.failed == done.cases and chunk.start == 0 and chunk.condition == Condition():
            # Kept, it would be taken for work that is done, and the same command would go on without a word.
            cache.drop(chunk.key)
            raise SubjectError(
                f"the subject gave no answer to any of the first {done.cases} cases, so it is stopped here. "
                f"The first error: {done.first_error}"
            )
        show.advance(done.cases)
    return {"total": total, "computed": waiting, "from_cache": total - waiting}


def _executed(
    plan: Plan, cache: ChunkCache, todo: list[int], workers: int | None, in_process: bool
) -> Iterator[Done]:
    """Chunks as they are done: in this process, or in several where asked, or where two chunks show that it pays."""
    inline = registry.get("executors", "inline").build
    if workers is None and not in_process:
        for done in inline(plan, cache, todo[:PROBED]):
            yield done
            seconds = done.seconds / done.cases
        todo = todo[PROBED:]
        left = sum(len(plan.chunks[i]) for i in todo)
        workers = _cores() if left and seconds * left > WORTH_PROCESSES else 1
    if workers and workers > 1 and not in_process and len(todo) > 1:
        yield from registry.get("executors", "processes").build(plan, cache, todo, workers=workers)
    else:
        yield from inline(plan, cache, todo)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _conclude(
    plan: Plan,
    cache: ChunkCache,
    folder: RunFolder,
    root: Path,
    counts: dict[str, int],
    show: Progress,
    clock: _Clock,
    command: str,
    fresh: bool,
) -> Run:
    spec, quantity = plan.spec, plan.spec.measure_name
    with clock.stage("observe"):
        show.stage("supervising", len(plan.conditions))
        seen, chosen, at_work = _supervised(plan, cache, show, fresh)
    with clock.stage("analyse"):
        show.stage("analysing", 0)
        clean, others, references = _compared(plan, seen)
        findings = performance.findings(
            clean,
            others,
            references,
            quantity=quantity,
            confidence=spec.confidence,
            smallest_slice=spec.smallest_slice,
            seed=spec.seed,
        )
        findings += supervision.findings(clean, others, references, confidence=spec.confidence)
        findings += verdicts.findings(clean, others, chosen.thresholds, confidence=spec.confidence)
        findings = assumed(plan, chosen, findings)
        counted = tables(plan, chosen, [clean, *others])
        risk = risk_of(plan, clean, others, chosen.thresholds)
        findings += risk.findings(spec.confidence) if risk else []
        judgements = judge_claims(
            plan, clean, others, references, chosen.thresholds, at_work.failed, risk
        )
    with clock.stage("record"):
        show.stage("writing the record", 0)
        folder.write_cases(case_table(plan, seen))
        folder.write_findings(findings)
        if counted is not None:
            folder.write_text(TABLE, json.dumps(counted))
            folder.write_cases(case_table(plan, chosen.seen), name=CALIBRATION)
        at_work.save(folder.path / "supervisors")
        for chunk in plan.chunks:
            cache.link_into(chunk.key, folder.path / "trace")
        if spec.media == "gallery":
            folder.write_text(
                "media/gallery.json", json.dumps(gallery.make_gallery(plan, folder, seen))
            )
    record = record_of(plan, seen, judgements, counts, command, at_work, chosen)
    record["recommended"] = recommend(plan, at_work, chosen, clean, others)
    record["notes"] = [*(record["recommended"] or {}).get("notes", ()), *record["notes"]]
    if spec.risk and risk:
        record["risk"] = risk.record(spec.confidence, spec.risk)
        record["notes"] += risk.notes
    with clock.stage("compile"):
        show.stage("compiling the monitor", 0)
        alarms = alarms_at_work(risk, chosen.thresholds)
        made = compile_monitor(
            plan,
            at_work,
            chosen.seen,
            seen,
            record["recommended"],
            folder,
            alarms=alarms,
            fresh=fresh,
        )
    record["monitor"] = made.record()
    # What is wrong with an alarm comes before what is said of supervisors: few notes are in sight.
    record["notes"] = (
        [*made.notes, *record["notes"]] if made.warnings else [*record["notes"], *made.notes]
    )
    record["timings"] = clock.seconds
    folder.write_record(record)
    with clock.stage("report"):
        show.stage("writing the report", 0)
        _write_reports(folder)
    folder.write_record({**record, "timings": {k: round(v, 3) for k, v in clock.seconds.items()}})
    RunIndex(root).put(folder.path, record)
    return Run(folder.path, record, findings, judgements)


def _supervised(
    plan: Plan, cache: ChunkCache, show: Progress, fresh: bool
) -> tuple[list[Seen], Calibration, AtWork]:
    """What was observed, with all scores; what was chosen on calibration cases; and the supervisors that did it."""
    at_work = AtWork(plan, cache)
    at_work.fit(fresh=fresh)
    chosen = calibrate(plan, at_work, show.advance)
    seen: list[Seen] = []
    for condition in plan.conditions:
        if condition.role not in ("reference", "calibration"):
            one = observe(plan, cache, condition, at_work)
            scores = at_work.score_second(one.system, one.observed.scores)
            seen.append(with_scores(one, scores, at_work.labels))
            show.advance(1)
    # One that gave up along the way has scores for some conditions only: it is left out of all.
    kept = {label: t for label, t in chosen.thresholds.items() if label in at_work.labels}
    return (
        [with_scores(s, {}, at_work.labels) for s in seen],
        replace(chosen, thresholds=kept),
        at_work,
    )


def _compared(plan: Plan, seen: Sequence[Seen]) -> tuple[Observed, list[Observed], list[Observed]]:
    """The clean cases, all others in the order of the file, and what each of them is compared with."""
    clean = seen[0].observed
    pairs = [(s.observed, clean) for s in seen[1:]] + filtered(plan, clean)
    order = {c.name: i for i, c in enumerate(plan.circumstances)}
    pairs.sort(key=lambda pair: order[pair[0].circumstance])
    return clean, [o for o, _ in pairs], [r for _, r in pairs]


def _write_reports(folder: RunFolder) -> None:
    from roadworthy.report.run_view import RunView

    view = RunView.open(folder.path)
    for name, component in registry.components("reports").items():
        part = component.traits.get("needs")
        if part and (not view.run.get(part) or view.run[part].get("because")):
            continue
        folder.write_text(component.traits.get("file", f"report.{name}"), component.bind()(view))


@contextmanager
def _stoppable() -> Any:
    """Before there is a plan, members of an ensemble may be trained, for long: those that are finished are kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise Unfinished(
            "stopped by the keyboard while subject and data were made ready; members that are trained are kept, and the same "
            "command goes on from there"
        ) from None


@contextmanager
def _kept(plan: Plan, cache: ChunkCache) -> Any:
    """Turn an interruption or a full disk into "unfinished", and say what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise Unfinished(f"stopped by the keyboard; {_progress(plan, cache)}") from None
    except Unfinished as error:
        raise Unfinished(f"{error}; {_progress(plan, cache)}") from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise Unfinished(
            f"the disk is full at {cache.root}; free some space. {_progress(plan, cache)[0].upper()}{_progress(plan, cache)[1:]}"
        ) from error


def _progress(plan: Plan, cache: ChunkCache) -> str:
    kept = sum(cache.has(c.key) for c in plan.chunks)
    return f"{kept} of {len(plan.chunks)} chunks are done and kept, and the same command goes on from there"


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.") or "run"
