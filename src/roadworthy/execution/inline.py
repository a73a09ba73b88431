"""The executor that works in this process."""

from __future__ import annotations

from collections.abc import Iterator

from roadworthy.execution.plan import Plan
from roadworthy.execution.work import Done, work
from roadworthy.registry import register
from roadworthy.store import ChunkCache


@register("executors", "inline")
def inline(
    plan: Plan, cache: ChunkCache, indices: list[int], *, workers: int = 1
) -> Iterator[Done]:
    """One chunk after the other, in this process."""
    for index in indices:
        yield work(plan, cache, index)
