"""Searches of a plan: loops that query the subject about each sample, chunk by chunk.

A search gives one row of numbers a sample, which is kept and resumed like any other chunk. `breaks_at` looks for the
smallest strength of a transform, or the smallest size of an attack, at which the answer is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from roadworthy.cases.circumstance import Circumstance
from roadworthy.cases.generators import Attack
from roadworthy.cases.transform import at_strength
from roadworthy.execution.cells import asked_again, unastuteness
from roadworthy.execution.pictures import PICTURES, pictures
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.measures.failure import failures
from roadworthy.measures.scored import none_if_failed
from roadworthy.search.bisection import Crossing, smallest_crossing, smallest_epsilon
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace, one_row_a_case


def breaks_at(plan: Plan, chunk: Chunk, ids: Sequence[str]) -> Trace:
    """A row a sample: the smallest strength found (NaN for none), whether any was, and whether it is wrong unchanged."""
    circumstance, started = plan.circumstance(chunk.condition.circumstance), time.perf_counter()
    search = _by_attack if circumstance.attack is not None else _by_strength
    found = search(plan, circumstance, chunk, ids)
    table = np.column_stack([found.strength, found.found, found.at_zero]).astype(np.float64)
    return one_row_a_case(ids, table, time.perf_counter() - started)


def _by_strength(
    plan: Plan, circumstance: Circumstance, chunk: Chunk, ids: Sequence[str]
) -> Crossing:
    """The strength of a transform, between the rows of its table."""
    data, seed, name = plan.data["test"], plan.spec.seed, circumstance.transform
    assert name is not None

    def fails(strengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        cases = [ids[row] for row in rows.tolist()]
        levels = dict(zip(cases, strengths.tolist(), strict=True))

        def changed(value: Any, case: str, step: int) -> Any:
            made = at_strength(
                name,
                levels[case],
                circumstance.table,
                fixed=circumstance.parameters,
                base=circumstance.base,
            )
            return made.at_step(value, seed, case, step)

        at = chunk.start + rows
        items = [data.inputs[i : i + 1][0] for i in at.tolist()]
        trace = plan.subject.run(Cases(cases, items, seed), {}, {circumstance.port: changed})
        return failed_rows(plan, trace[SYSTEM], at)

    # Every level is scanned: a case that fails at one is found there at the latest.
    highest = circumstance.strongest
    return smallest_crossing(fails, len(ids), highest=highest, scan=2 * int(highest))


def _by_attack(
    plan: Plan, circumstance: Circumstance, chunk: Chunk, ids: Sequence[str]
) -> Crossing:
    """The size of an attack; the subject is queried as in the attack itself."""
    data, attack = plan.data["test"], circumstance.generators()[0]
    assert isinstance(attack, Attack)
    images = data.inputs[chunk.start : chunk.stop]
    labels = np.asarray(data.targets)[chunk.start : chunk.stop]
    # What cannot be attacked has no right answer either.
    strength, found, at_zero = np.zeros(len(ids)), np.zeros(len(ids)), np.ones(len(ids))
    resolution = 0.0
    for rows, given, truth, rngs in attack.batches(images, labels, plan.spec.seed, ids):
        part = smallest_epsilon(
            attack.function("epsilon"),
            given,
            truth,
            plan.query,
            rngs,
            largest=circumstance.strongest,
        )
        strength[rows], found[rows], at_zero[rows] = part.strength, part.found, part.at_zero
        resolution = part.resolution
    return Crossing(strength, found, at_zero, resolution)


def failed_rows(plan: Plan, trace: ModuleTrace, rows: np.ndarray) -> np.ndarray:
    """Which answers to these test samples count as wrong."""
    data, criterion = plan.data["test"], plan.spec.failure or {"wrong": True}
    assert data.targets is not None
    targets: Any = [data.targets[i] for i in rows]
    if isinstance(data.targets, np.ndarray):
        targets = data.targets[rows]
    outputs = none_if_failed(trace.output, trace.ok)
    metadata = {name: np.asarray(column)[rows] for name, column in data.metadata.items()}
    scored = plan.measure(outputs, plan.compared("test", targets, rows))
    return failures(scored, outputs, targets, criterion, classes=data.classes, metadata=metadata)


SEARCHES: dict[str, Callable[[Plan, Chunk, Sequence[str]], Trace]] = {
    "breaks_at": breaks_at,
    "asked_again": asked_again,
    "unastuteness": unastuteness,
    PICTURES: pictures,
}
"""The searches that sections may want."""
