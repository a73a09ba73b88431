"""An assessment from file to verdict: plan, run what is not there yet, observe, analyse by sections, judge, record, report."""

from __future__ import annotations

import errno
import itertools
import math
import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import Any

import yaml
from numpy.typing import ArrayLike

from roadworthy import registry
from roadworthy.assessment.in_memory import IN_MEMORY, in_memory, of_maite
from roadworthy.assessment.judgement import judge_claims
from roadworthy.assessment.observations import (
    Observations,
    class_scores,
    observe_all,
    observe_more,
)
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
from roadworthy.data.maite import is_maite_dataset
from roadworthy.data.values import BOXES, CLASS_SCORES, TASKS
from roadworthy.execution.claims import LONG_S, PAUSE_S, Claims, unclaimed
from roadworthy.execution.class_order import check_box_classes, check_class_order
from roadworthy.execution.plan import Plan
from roadworthy.execution.progress import Progress, Silent
from roadworthy.execution.work import Done, Unfinished
from roadworthy.finding import Finding
from roadworthy.report.wording import main_measure
from roadworthy.report.workbook import FILE as WORKBOOK_FILE
from roadworthy.report.workbook import results_written
from roadworthy.spec import Assessment, SpecError
from roadworthy.spec.answers import assessment_of_answers, is_table
from roadworthy.spec.assessment import ExecutionSpec
from roadworthy.spec.document import WITHOUT_FILE, without_passwords
from roadworthy.store import ChunkCache, RunFolder, StoreUnreachable, open_cache
from roadworthy.store.index import check_index, record_in_index
from roadworthy.store.record import Record
from roadworthy.store.runs import CASES, arrow_table, run_row
from roadworthy.store.shared import publish
from roadworthy.subject.identity import LISTING, state_of_file
from roadworthy.subject.module import SubjectError
from roadworthy.subject.system import System
from roadworthy.subject.trace import SYSTEM, concatenate
from roadworthy.subject.training import cores

PROBED = 2
"""Chunks that are run here before deciding whether worker processes are worth their start; the last one's time counts."""
WORTH_PROCESSES = 8.0
"""Seconds of work from which several processes finish earlier than one, their start included."""


@dataclass(frozen=True, repr=False)
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
    def findings(self) -> Any:
        """All findings as an Arrow table; `record.findings` has them as objects."""
        return arrow_table([_flat_finding(f) for f in self.record.findings])

    def __repr__(self) -> str:
        counts = Counter(claim.status for claim in self.claims)
        claims = ", ".join(f"{n} {status}" for status, n in counts.items()) or "no claims"
        return f"<Run {self.record.name}: {claims}; {self.folder}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(c.id)}</td><td>{escape(c.text)}</td><td>{c.status}</td></tr>"
            for c in self.record.claims
        )
        head = f"<b>{escape(self.record.name)}</b>: {self.verdict}. {escape(main_measure(self.record))}"
        return f"<div>{head}<table>{rows}</table><code>{escape(str(self.folder))}</code></div>"

    @property
    def cases(self) -> Any:
        """What became of every case, as an Arrow table; `.to_pandas()` makes a data frame of it."""
        import pyarrow.parquet as pq

        return pq.read_table(self.folder / CASES)

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
    assessment: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    groups: str | Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    subject: System | None = None,
    data: Mapping[str, Any] | None = None,
    runs: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    command: str = "",
    fresh: bool = False,
    execution: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Run:
    """Assess a system, and judge its claims.

    `assessment` is the path of an assessment file or of a table of answers, or the content of such a file as a
    mapping; `subject` and `data` may be handed in instead of being loaded. Or it is a model, with inputs `X`, targets
    `y`, the `groups` of rows that belong together, and the `classes` of its outputs in their order if it has no
    `classes_`; other keys of an assessment file follow by name, such as
    ``claims=[{"id": "A", "accuracy": {"min": 0.9}}]``. Or it is a detector and `X` its test data, both in the form of
    MAITE; `groups` may name a key of their metadata, and `data` hold other roles. With `fresh` everything is computed
    again. `runs` may be the URL of a store that a team shares; `execution` replaces keys of that name in the file, such
    as ``{"executor": "ray", "index": "postgresql://team@host/runs"}``.
    """
    show = progress or Silent()
    clock = _Clock()
    with clock.stage("plan"), _stoppable():
        show.stage("loading subject and data", 0)
        if X is not None and (y is not None or is_maite_dataset(X)):
            if y is not None:
                subject, test = in_memory(assessment, X, y, groups, classes)
                data = {"test": test}
            else:
                subject, data = of_maite(assessment, {**(data or {}), "test": X}, groups, classes)
            task = next(t.name for t in TASKS.values() if t.target is data["test"].target_kind)
            name = getattr(assessment, "__name__", type(assessment).__name__)
            command = command or f"roadworthy.assess({name}, X{'' if y is None else ', y'})"
            assessment = {
                "name": name,
                "subject": {"task": task, "python": IN_MEMORY},
                "data": {role: {"npz": "memory"} for role in data},
                **keys,
            }
        spec = _spec_of(assessment)
        if execution:
            how = dict(spec.execution) | dict(execution)
            spec = spec.model_copy(update={"execution": ExecutionSpec.model_validate(how)})
        if spec.execution.index:
            check_index(spec.execution.index)
        url = str(runs) if runs is not None and "://" in str(runs) else ""
        local = Path(runs) if runs is not None else spec.base / "runs"
        cache = open_cache(url or str(local / ".cache"))
        root = cache.root.parent if url else local
        plan = plan_assessment(spec, subject=subject, data=data, keep=cache.root, progress=show)
        job = _Work(_remembered(plan, cache), cache)
    in_process = subject is not None or data is not None
    with _kept(job), _executor_closed(spec.execution.executor, in_process):
        cache.sweep()
        for chunk in job.plan.chunks if fresh else ():
            # At the start, so that after an interruption the same command without `fresh` goes on with the new ones.
            cache.drop(chunk.key)
        job.take_over()
        with clock.stage("run"):
            counts, warnings = _run_chunks(job, show, workers, in_process)
        with clock.stage("observe"):
            show.stage("supervising", len(job.plan.conditions))
            observed = observe_all(job.plan, cache, show, fresh=fresh)
        with clock.stage("probe"):
            observed = _probed(job, observed, counts, show, workers, in_process, fresh)
        plan = job.plan
        # Named when all that the answers depend on is known, so that two contents never share a folder.
        folder = RunFolder(root / f"{_slug(spec.title)}-{plan.key[:8]}")
        folder.path.mkdir(parents=True, exist_ok=True)
        cache.sweep(folder.path / "trace")
        run = _conclude(plan, observed, folder, counts, warnings, show, clock, command)
        if url:
            show.stage(f"copying the run to {url}", 0)
            publish(folder.path, cache.claimed)
        place = without_passwords(url.rstrip("/")) or str(root.resolve())
        if _waits(run, spec.execution.index, place, cache.root) and url:
            publish(folder.path, cache.claimed)
        for chunk in plan.chunks if plan.once else ():
            cache.drop(chunk.key)
        return run


def _spec_of(assessment: Any) -> Assessment:
    """What is to be assessed: as given, of an assessment file, or of a table of answers."""
    if isinstance(assessment, Assessment):
        return assessment
    if isinstance(assessment, Mapping):
        text = yaml.safe_dump(_plain(assessment), sort_keys=False, allow_unicode=True)
        return Assessment.parse(text, Path.cwd() / WITHOUT_FILE)
    if not isinstance(assessment, str | os.PathLike):
        raise SpecError(
            f"assess takes a path, a mapping, or a model with X and y; found {type(assessment).__name__}"
        )
    path = Path(assessment)
    return assessment_of_answers(path) if is_table(path) else Assessment.read(path)


def _plain(content: Any) -> Any:
    """Lists and mappings of plain values, as YAML writes them."""
    if isinstance(content, Mapping):
        return {str(k): _plain(v) for k, v in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(v) for v in content]
    return str(content) if isinstance(content, os.PathLike) else content


def _flat_finding(finding: Finding) -> dict[str, Any]:
    """A finding as a row of a table."""
    about, interval = finding.about, finding.interval
    return {
        "quantity": finding.quantity,
        **{f.name: getattr(about, f.name) for f in fields(about)},
        "value": finding.value,
        "low": interval.low if interval else math.nan,
        "high": interval.high if interval else math.nan,
        "confidence": interval.confidence if interval else math.nan,
        "n": finding.n,
        "groups": finding.groups,
        "reason": finding.reason,
    }


def _remembered(plan: Plan, cache: ChunkCache) -> Plan:
    """The plan with the files that the subject opened while it answered in earlier runs, as they are now."""
    known = cache.subject_files(plan.subject_key)
    places = [_seen_from(plan, place) for place in known["files"]]
    found = plan.identified({p: state_of_file(p) for p in places}, known["unseen"])
    found.evidence.ignored = cache.own_folders
    return found


def _seen_from(plan: Plan, place: str) -> str:
    return os.path.abspath(plan.spec.base / place) + os.sep * place.endswith(os.sep)


class _Work:
    """The chunks of a plan as they are computed; when more files are found behind the subject, all keys change."""

    def __init__(self, plan: Plan, cache: ChunkCache) -> None:
        self.plan, self.cache = plan, cache
        self._unseen = list(plan.evidence.unseen)

    def left(self) -> list[int]:
        """The chunks that are not there yet."""
        return [c.index for c in self.plan.chunks if not self.cache.has(c.key)]

    def take_over(self) -> None:
        """What the chunks that are here say of the files behind them: a run that was killed has noted them nowhere else."""
        here = [c.index for c in self.plan.chunks if self.cache.has(c.key)]
        noted = [self._noted(index) for index in here]
        files = {place: state for found, _ in noted for place, state in found.items()}
        unseen = dict.fromkeys(one for _, more in noted for one in more)
        now = {place: state_of_file(place) for place in files}
        plan = self.plan.identified(now, unseen)
        changed = any(now[place] != state for found, _ in noted for place, state in found.items())
        if changed or plan.once != self.plan.once:  # none of them holds any more
            self.plan = plan
            self._remember()
        else:
            self._note(files, unseen)

    def _noted(self, index: int) -> tuple[dict[str, str], list[str]]:
        files, unseen = self.cache.noted(self.plan.chunks[index].key)
        return {_seen_from(self.plan, place): state for place, state in files.items()}, unseen

    def run(self, indices: list[int], workers: int | None, in_process: bool) -> Iterator[Done]:
        """Compute some of the chunks."""
        found: dict[str, str] = {}
        unseen: dict[str, None] = {}
        chunks, elsewhere = self.plan.chunks, list[int]()
        waiting, pause = deque((i, chunks[i].key) for i in indices), PAUSE_S
        with Claims(self.cache.claimed) as claims:
            while waiting:
                left = [i for i, _ in waiting]
                free = unclaimed(claims, self.cache, waiting, elsewhere)
                for done in _executed(self.plan, self.cache, left, free, workers, in_process):
                    self.cache.bring(chunks[done.index].key)
                    claims.release(chunks[done.index].key)
                    self._check_alike(done, indices)
                    found.update(done.files)
                    unseen.update(dict.fromkeys(done.unseen))
                    yield done
                if waiting:  # for other assessments in this store
                    pause = PAUSE_S if len(waiting) < len(left) else min(2 * pause, LONG_S)
                    if pause == LONG_S:  # they may need the room that idle workers take
                        _give_back(self.plan.spec.execution.executor)
                    time.sleep(pause)
        for index in elsewhere:  # another assessment in this store has computed them meanwhile
            files, more = self._noted(index)
            done = Done(index, len(chunks[index]), 0, 0.0, "", files, more, elsewhere=True)
            self._check_alike(done, indices)
            found.update(files)
            unseen.update(dict.fromkeys(more))
            yield done
        self._note({k: v for k, v in found.items() if k not in self.plan.evidence.files}, unseen)

    def _check_alike(self, done: Done, indices: Sequence[int]) -> None:
        """Stop if a worker read another content under a path than was read here."""
        known = self.plan.evidence.files
        for place, state in done.files.items():
            if not state.startswith(LISTING) and known.get(place, state) != state:
                for index in indices:
                    self.cache.drop(self.plan.chunks[index].key)
                raise SubjectError(
                    f"{place} changed while the subject was run, or is another file where a worker runs. "
                    "What depends on it is not kept; make the files the same and run it again"
                )

    def _note(self, files: Mapping[str, str], unseen: Iterable[str]) -> None:
        known = {p for p, _ in self.plan._files[0]}, self._unseen, self.plan.once
        plan = self.plan.identified(files, unseen)
        self._unseen = list(plan.evidence.unseen)
        if known == ({p for p, _ in plan._files[0]}, self._unseen, plan.once):
            return
        for old, new in zip(self.plan.chunks, plan.chunks, strict=True):
            self.cache.keep_under(old.key, new.key)
        self.plan = plan
        self._remember()

    def _remember(self) -> None:
        places = [place for place, _ in self.plan.evidence.states(self.plan.spec.base)]
        self._unseen = list(self.plan.evidence.unseen)
        self.cache.keep_subject_files(self.plan.subject_key, places, self._unseen)


def _run_chunks(
    job: _Work, show: Progress, workers: int | None, in_process: bool
) -> tuple[dict[str, int], list[str]]:
    """Compute the chunks that are not there yet: how many cases there are, and warnings on the clean answers."""
    cache, chunks, todo = job.cache, job.plan.chunks, job.left()
    work, waiting = sum(len(c) for c in chunks), sum(len(chunks[i]) for i in todo)
    show.stage("running the subject", work)
    show.advance(work - waiting)
    workers = workers or job.plan.spec.execution.workers
    clean = [i for i in todo if chunks[i].condition == Condition()]
    others = [i for i in todo if i not in clean]
    # The first chunk alone: it shows which files the subject opens when it answers.
    new = 0
    for some, how_many in ((clean[:1], 1), (clean[1:], workers)):
        for done in job.run(some, how_many, in_process):
            new += 0 if done.elsewhere else done.cases
            if done.failed == done.cases and chunks[done.index].start == 0:
                # Kept, it would be taken for work that is done, and the same command would go on without a word.
                cache.drop(job.plan.chunks[done.index].key)
                raise SubjectError(
                    f"the subject gave no answer to any of the first {done.cases} cases, so it is stopped here. "
                    f"The first error: {done.first_error}"
                )
            show.advance(done.cases)
    warnings = _class_order_warnings(job.plan, cache)
    for done in job.run(others, workers, in_process):
        # Searches are work, but no cases of their own.
        counts = not done.elsewhere and chunks[done.index].condition.search is None
        new += done.cases if counts else 0
        show.advance(done.cases)
    changed = job.plan.evidence.changed() if waiting else []
    if changed:
        for i in todo:
            cache.drop(job.plan.chunks[i].key)
        raise SubjectError(
            f"{changed[0]} changed while the subject was run, so that nothing of this run is kept. Run it again"
        )
    total = sum(len(c) for c in chunks if c.condition.search is None)
    return {"total": total, "computed": new, "from_cache": total - new}, warnings


def _probed(
    job: _Work,
    observed: Observations,
    counts: dict[str, int],
    show: Progress,
    workers: int | None,
    in_process: bool,
    fresh: bool,
) -> Observations:
    """Run what sections want in view of what was observed, until none wants more."""
    sections = sections_of(job.plan.spec).values()
    while True:
        known, wants = {c.key for c in job.plan.chunks}, job.plan.wants
        for section in sections:
            wants = wants | section.wants_more(job.plan, observed)
        if wants == job.plan.wants:
            return observed
        job.plan = replace(job.plan, wants=wants)
        for chunk in job.plan.chunks if fresh else ():
            if chunk.key not in known:
                job.cache.drop(chunk.key)
        more, _ = _run_chunks(job, show, workers, in_process)
        counts["computed"] += more["computed"]
        counts["from_cache"] += more["total"] - counts["total"] - more["computed"]
        counts["total"] = more["total"]
        observed = observe_more(job.plan, job.cache, observed)


def _class_order_warnings(plan: Plan, cache: ChunkCache) -> list[str]:
    """Stop if the clean answers contradict the order of classes, before any other case is run."""
    kind = plan.subject.output_kind
    if kind is not BOXES and (plan.classes is None or kind is not CLASS_SCORES):
        return []
    clean = [cache.read(c.key)[SYSTEM] for c in plan.chunks if c.condition == Condition()]
    if kind is BOXES:
        return check_box_classes(plan.spec, list(concatenate(clean).output), plan.data["test"])
    assert plan.classes is not None
    return check_class_order(plan.spec, plan.classes, class_scores(clean), plan.data["test"])


def _executed(
    plan: Plan,
    cache: ChunkCache,
    todo: list[int],
    free: Iterator[int],
    workers: int | None,
    in_process: bool,
) -> Iterator[Done]:
    """Chunks as they are done: by the executor that the file names; else in this process, or in several where asked, or
    where two chunks show that it pays. `free` gives those of `todo` that are computed here."""
    inline = registry.get("executors", "inline").build
    asked = plan.spec.execution
    first = next(free, None)
    if first is None:
        return
    free = itertools.chain([first], free)
    if asked.executor:
        given = {"workers": workers, "address": asked.address or None}
        given = {name: value for name, value in given.items() if value is not None}
        yield from registry.get("executors", asked.executor).build(plan, cache, free, **given)
        return
    if workers is None and not in_process:
        seconds = 0.0
        for done in inline(plan, cache, itertools.islice(free, PROBED)):
            yield done
            seconds = done.seconds / done.cases
        todo = todo[PROBED:]
        left = sum(len(plan.chunks[i]) for i in todo)
        workers = cores() if left and seconds * left > WORTH_PROCESSES else 1
    if workers and workers > 1 and not in_process and len(todo) > 1:
        some = min(workers, len(todo))
        yield from registry.get("executors", "processes").build(plan, cache, free, workers=some)
    else:
        yield from inline(plan, cache, free)


@contextmanager
def _executor_closed(name: str, in_process: bool) -> Iterator[None]:
    """Give back what an executor holds between its calls, such as a cluster."""
    if in_process and name not in ("", "inline"):
        raise SpecError(
            f"the executor {name} loads the subject in other processes, and this one was handed in from Python; "
            "name its file in an assessment file"
        )
    try:
        yield
    finally:
        _give_back(name)


def _give_back(name: str) -> None:
    if name:
        getattr(registry.get("executors", name).build, "close", lambda: None)()


def _conclude(
    plan: Plan,
    observed: Observations,
    folder: RunFolder,
    counts: dict[str, int],
    warnings: Sequence[str],
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
        record.base = os.path.relpath(plan.spec.base, folder.path.resolve())
        record.warnings[:0] = warnings
        for name, result in results.items():
            record.sections[name] = result.record
            write_files(name, result, folder.path)
            record.warnings += result.warnings
            record.notes += result.notes
        record.notes += plan.spec.document.notes
        if plan.spec.media == "gallery":
            record.gallery = make_gallery(plan, folder, observed.seen)
        record.timings = dict(clock)
        record.write(folder.path)
    with clock.stage("report"):
        show.stage("writing the report", 0)
        write_reports(record)
        workbook = plan.spec.document.workbook
        if workbook:
            folder.write_bytes(WORKBOOK_FILE, results_written(workbook, record))
    record.timings = dict(clock)
    record.write(folder.path)
    return Run(folder.path, record, judgements)


@contextmanager
def _stoppable() -> Any:
    """Before there is a plan, members of an ensemble or autoencoders may be trained, for long: those that are finished
    are kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise Unfinished(
            "stopped by the keyboard while subject and data were made ready; members and autoencoders that are trained are "
            "kept, and the same command goes on from there"
        ) from None


@contextmanager
def _kept(job: _Work) -> Any:
    """Turn an interruption or a full disk into "unfinished", and say what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        raise Unfinished(f"stopped by the keyboard; {_progress(job)}") from None
    except Unfinished as error:
        raise Unfinished(f"{error}; {_progress(job)}") from error
    except StoreUnreachable as error:
        raise Unfinished(
            f"{error}; what was computed is kept on this machine, and the same command goes on from there"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        full = f"the disk is full at {job.cache.root}; free some space"
        raise Unfinished(f"{full}; {_progress(job)}") from error


def _progress(job: _Work) -> str:
    total = len(job.plan.chunks)
    return f"{total - len(job.left())} of {total} chunks are done and kept, and the same command goes on from there"


def _waits(run: Run, url: str, root: str, kept: Path) -> bool:
    """Enter a finished run into the index; whether its row has to wait, which record and reports then say."""
    said = record_in_index(url, {"root": root, **run_row(run.folder)}, kept) if url else ""
    if said:
        run.record.warnings.append(said)
        write_reports(run.record)
        run.record.write(run.folder)
    return bool(said)


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text).strip("-.") or "run"
