"""Executors: every chunk asked for is computed once, kept whole, and no other.

>>> from roadworthy.registry import get
>>> list(computes_what_is_asked_and_nothing_else(get("executors", "inline")))
[]
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from roadworthy.conformance.example import plan_in
from roadworthy.conformance.rule import Rule
from roadworthy.execution.work import Done, compute
from roadworthy.registry import Component
from roadworthy.store import ChunkCache
from roadworthy.subject.trace import SYSTEM


def takes_workers(component: Component) -> Iterator[str]:
    """`workers` is how many may work at a time, with a default."""
    if "workers" not in component.parameters:
        yield "it does not take workers; an executor is run(plan, cache, indices, *, workers) -> Iterator[Done]"


def computes_what_is_asked_and_nothing_else(component: Component) -> Iterator[str]:
    """Six chunks, four of them asked for."""
    with tempfile.TemporaryDirectory() as name:
        plan = plan_in(Path(name))
        cache = ChunkCache(Path(name) / "cache")
        asked = [0, 1, 3, 5]
        done = list(component.build(plan, cache, asked, workers=2))
        if not all(isinstance(d, Done) for d in done):
            yield "it must yield a Done for each chunk"
            return
        if sorted(d.index for d in done) != asked:
            yield f"it was asked for the chunks {asked} and reported {sorted(d.index for d in done)}"
        kept = [chunk.index for chunk in plan.chunks if cache.has(chunk.key)]
        if kept != asked:
            yield f"it was asked for the chunks {asked} and kept {kept}"
        for index in set(kept) & set(asked):
            wanted = np.asarray(compute(plan, plan.chunks[index])[SYSTEM].output)
            if not np.array_equal(
                np.asarray(cache.read(plan.chunks[index].key)[SYSTEM].output), wanted
            ):
                yield f"chunk {index} holds other answers than the subject gives"


RULES: tuple[Rule, ...] = (takes_workers, computes_what_is_asked_and_nothing_else)
