"""One unit of work: run the subject on a chunk's cases and keep the trace. The same in every executor."""

from __future__ import annotations

import time
from dataclasses import dataclass

from roadworthy.execution.plan import Chunk, Plan
from roadworthy.store import ChunkCache
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import SYSTEM, Trace


class Unfinished(RuntimeError):
    """The work stopped before its end; what is done is kept, and the same command goes on from there."""


@dataclass(frozen=True)
class Done:
    """What became of a chunk."""

    index: int
    cases: int
    failed: int
    seconds: float
    first_error: str = ""


def compute(plan: Plan, chunk: Chunk) -> Trace:
    """Run the subject on a chunk's cases."""
    data = plan.data[chunk.condition.role]
    ids = [chunk.condition.case_id(i) for i in data.ids[chunk.start : chunk.stop]]
    cases = Cases(ids, data.inputs[chunk.start : chunk.stop], plan.spec.seed)
    return plan.subject.run(cases, plan.requests, plan.at(chunk.condition))


def work(plan: Plan, cache: ChunkCache, index: int) -> Done:
    """Compute a chunk and keep it."""
    chunk = plan.chunks[index]
    started = time.perf_counter()
    trace = compute(plan, chunk)
    cache.write(chunk.key, trace)
    errors = [e for e in trace[SYSTEM].error if e is not None]
    return Done(index, len(chunk), len(errors), time.perf_counter() - started, errors[0] if errors else "")
