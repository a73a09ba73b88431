"""An assessment from file to verdict: plan, run what is not there yet, observe, analyse by sections, judge, record, report."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roadworthy import registry
from roadworthy.assessment.judgement import judge_claims
from roadworthy.assessment.observations import Observations, observe_all
from roadworthy.assessment.run_folder import (
    make_gallery,
    record_of,
    write_files,
    write_reports,
    write_tables,
)
from roadworthy.assessment.section import Result, plan_assessment, sections_of
from roadworthy.cases.circumstance import Condition
from roadworthy.claims import Judgement
from roadworthy.data.samples import Dataset
from roadworthy.execution.plan import Plan
from roadworthy.execution.progress import Progress, Silent
from roadworthy.execution.work import Done, Unfinished
from roadworthy.finding import Finding
from roadworthy.spec import Assessment
from roadworthy.store import ChunkCache, RunFolder
from roadworthy.store.record import Record
from roadworthy.subject.module import SubjectError
from roadworthy.subject.system import System
from roadworthy.subject.training import cores

PROBED = 2
"""Chunks that are run here before deciding whether worker processes are worth their start; the last one's time counts."""
WORTH_PROCESSES = 8.0
"""Seconds of work from which several processes finish earlier than one, their start included."""


@dataclass(frozen=True)
class Run:
    """A finished assessment."""

    folder: Path
    record: Record
    claims: Sequence[Judgement] = ()
    """The claims, judged."""

    @property
    def verdict(self) -> str:
        """met, breached, inconclusive, or "no claims"."""
        return self.record.verdict

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings."""
        return self.record.findings

    def finding(
        self, quantity: str, *, circumstance: str = "", level: float | None = None, slice: str = ""
    ) -> Finding:
        """One finding by what it is about."""
        found = self.record.find(quantity, circumstance, level, slice=slice)
        if found is None:
            raise KeyError(
                f"no finding on {quantity!r} at circumstance={circumstance!r}, level={level}, slice={slice!r}"
            )
        return found


class _Clock(dict[str, float]):
    """Seconds by stage, to milliseconds."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = self.get(name, 0.0) + time.perf_counter() - started
            self[name] = round(seconds, 3)


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
        plan = plan_assessment(spec, subject=subject, data=data)
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
        with clock.stage("observe"):
            show.stage("supervising", len(plan.conditions))
            observed = observe_all(plan, cache, show, fresh=fresh)
        return _conclude(plan, observed, folder, counts, show, clock, command)


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
        workers = cores() if left and seconds * left > WORTH_PROCESSES else 1
    if workers and workers > 1 and not in_process and len(todo) > 1:
        yield from registry.get("executors", "processes").build(plan, cache, todo, workers=workers)
    else:
        yield from inline(plan, cache, todo)


def _conclude(
    plan: Plan,
    observed: Observations,
    folder: RunFolder,
    counts: dict[str, int],
    show: Progress,
    clock: _Clock,
    command: str,
) -> Run:
    """Analyse by sections, judge the claims, and write the record with its reports."""
    sections = sections_of(plan.spec)
    results: dict[str, Result] = {}
    for name, section in sections.items():
        show.stage(f"analysing: {name}", 0)
        with clock.stage(name):
            results[name] = section.analyse(plan, observed, results)
    judgements = judge_claims(plan, observed, sections, results)
    with clock.stage("record"):
        show.stage("writing the record", 0)
        write_tables(plan, observed, folder)
        findings = [f for result in results.values() for f in result.findings]
        record = record_of(plan, observed.seen, judgements, counts, command, findings)
        for name, result in results.items():
            record.sections[name] = result.record
            write_files(name, result, folder.path)
            record.warnings += result.warnings
            record.notes += result.notes
        if plan.spec.media == "gallery":
            record.gallery = make_gallery(plan, folder, observed.seen)
        record.timings = dict(clock)
        record.write(folder.path)
    with clock.stage("report"):
        show.stage("writing the report", 0)
        write_reports(record)
    record.timings = dict(clock)
    record.write(folder.path)
    return Run(folder.path, record, judgements)


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
        full = f"the disk is full at {cache.root}; free some space"
        raise Unfinished(f"{full}; {_progress(plan, cache)}") from error


def _progress(plan: Plan, cache: ChunkCache) -> str:
    kept = sum(cache.has(c.key) for c in plan.chunks)
    return f"{kept} of {len(plan.chunks)} chunks are done and kept, and the same command goes on from there"


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.") or "run"
