"""One unit of work, the same in every executor: run the subject on a chunk's cases and keep the trace; and the executor that
works in this process."""

from __future__ import annotations

import builtins
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from roadworthy.cases.circumstance import Condition
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.execution.searching import SEARCHES
from roadworthy.registry import register
from roadworthy.store import ChunkCache
from roadworthy.subject.identity import watching
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import SYSTEM, Trace


class Unfinished(RuntimeError):
    """The work stopped before its end; what is done is kept, and the same command goes on from there."""


PASSING = frozenset(
    [
        name
        for name, kind in vars(builtins).items()
        if isinstance(kind, type) and issubclass(kind, OSError | MemoryError)
    ]
    + ["OutOfMemoryError", "RemoteDisconnected", "ServerFailed", "URLError"]
)
"""Errors of a subject that may be gone the next time: an outage, a full memory, a file that was away."""
_RAISED = re.compile(r"(?:^|: )([A-Za-z_]\w*)(?=:|$)")


@dataclass(frozen=True)
class Done:
    """What became of a chunk."""

    index: int
    cases: int
    failed: int
    seconds: float
    first_error: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """What the subject was seen to open so far, where it was run."""
    unseen: Sequence[str] = ()
    elsewhere: bool = False
    """Whether another assessment in this store has computed it."""


def compute(plan: Plan, chunk: Chunk) -> Trace:
    """Run the subject on a chunk's cases, or search its samples."""
    data = plan.data[chunk.condition.role]
    ids = [chunk.condition.case_id(i) for i in data.ids[chunk.start : chunk.stop]]
    if chunk.condition.search is not None:
        with watching(plan.evidence):
            return SEARCHES[chunk.condition.search.name](plan, chunk, ids)
    with watching(plan.evidence):
        given, sizes = plan.given(chunk.condition, chunk.start, chunk.stop)
        cases = Cases(ids, given, plan.spec.seed)
        at, held = plan.at(chunk.condition), chunk.condition.held
        if held:
            clean = [Condition(role=chunk.condition.role).case_id(i) for i in data.ids]
            names = clean[chunk.start : chunk.stop]
            return plan.subject.run_held(cases, names, at, held)
        trace = plan.subject.run(cases, plan.wants.requests, at)
    trace[SYSTEM].columns.update(sizes)
    return trace


def may_pass(error: str) -> bool:
    """Whether a case's error may be gone the next time, so that the answer is not kept.

    >>> may_pass("TimeoutError: no answer within 3 s"), may_pass("detector, step 3: ConnectionResetError")
    (True, True)
    >>> may_pass("ValueError: the OSError module is missing"), may_pass("img.png: does not exist; restore the file")
    (False, False)
    """
    named = [
        name
        for name in _RAISED.findall(error)
        if name.endswith(("Error", "Timeout", "Failed", "Disconnected"))
    ]
    return bool(named) and (
        named[0] in PASSING or "Timeout" in named[0] or "Connection" in named[0]
    )


def work(plan: Plan, cache: ChunkCache, index: int, *, key: str | None = None) -> Done:
    """Compute a chunk and keep it under its key, or under the one that was given with the work."""
    chunk = plan.chunks[index]
    started, seen = time.perf_counter(), plan.evidence
    before = len(seen.files)
    trace = compute(plan, chunk)
    errors = [e for e in trace[SYSTEM].error if e is not None]
    cache.write(
        key or chunk.key,
        trace,
        # Answers from a file stay as they are until the file changes, and with it the key.
        passing=0 if plan.answers_by_id else sum(map(may_pass, errors)),
        files=dict(seen.states(plan.spec.base, since=before)),
        unseen=list(seen.unseen),
    )
    seconds = time.perf_counter() - started
    first = errors[0] if errors else ""
    return Done(index, len(chunk), len(errors), seconds, first, dict(seen.files), list(seen.unseen))


@register("executors", "inline")
def inline(
    plan: Plan, cache: ChunkCache, indices: Iterable[int], *, workers: int = 1
) -> Iterator[Done]:
    """One chunk after the other, in this process."""
    for index in indices:
        yield work(plan, cache, index)
