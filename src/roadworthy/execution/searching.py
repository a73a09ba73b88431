"""Searches of a plan: loops that query the subject about each sample, chunk by chunk.

A search gives one row of numbers a sample, which is kept and resumed like any other chunk. `breaks_at` looks for the
smallest strength of a transform, or the smallest size of an attack, at which the answer is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from roadworthy.cases.generators import Attack, Chain
from roadworthy.cases.transform import at_strength, highest_level
from roadworthy.data.values import VECTOR
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.measures.failure import failures
from roadworthy.measures.scored import none_if_failed
from roadworthy.search.bisection import smallest_crossing
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace

EPSILON = "epsilon"
SCAN, REFINE = 8, 6
"""Strengths that are tried for every sample, and halvings of the first gap after which the answer is wrong."""


def breaks_at(plan: Plan, chunk: Chunk, ids: Sequence[str]) -> Trace:
    """A row a sample: the smallest strength found, whether any was, and whether the answer is wrong without a change."""
    circumstance = plan.circumstance(chunk.condition.circumstance)
    data, started = plan.data["test"], time.perf_counter()
    if circumstance.attack is not None:
        highest = max(a.parameters[EPSILON] for a in circumstance.generators())  # type: ignore[union-attr]
    else:
        assert circumstance.transform is not None
        highest = highest_level(circumstance.transform, circumstance.table)

    def fails(strengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
        at = chunk.start + rows
        cases = [ids[row] for row in rows.tolist()]
        items = [data.inputs[i : i + 1][0] for i in at.tolist()]
        changed: Mapping[str, Chain] = {}
        if circumstance.attack is not None:
            items = _attacked(plan, circumstance.generators()[0], items, at, strengths, cases)
        else:
            changed = {
                case: Chain((at_strength(circumstance.transform, s, circumstance.table),))
                for case, s in zip(cases, strengths.tolist(), strict=True)
            }
        ports = {}
        if changed:
            seed = plan.spec.seed
            ports[circumstance.port] = lambda value, case, step: changed[case].at_step(
                value, seed, case, step
            )
        trace = plan.subject.run(Cases(cases, items, plan.spec.seed), {}, ports)[SYSTEM]
        return failed_rows(plan, trace, at)

    found = smallest_crossing(fails, len(ids), highest=highest, scan=SCAN, refine=REFINE)
    table = np.column_stack([found.strength, found.found, found.at_zero]).astype(np.float64)
    return one_row_a_case(ids, table, time.perf_counter() - started)


def failed_rows(plan: Plan, trace: ModuleTrace, rows: np.ndarray) -> np.ndarray:
    """Which answers to these test samples count as wrong."""
    data = plan.data["test"]
    targets = (
        data.targets[rows]
        if isinstance(data.targets, np.ndarray)
        else [data.targets[i] for i in rows]
    )
    outputs = none_if_failed(trace.output, trace.ok)
    metadata = {name: np.asarray(column)[rows] for name, column in data.metadata.items()}
    criterion = plan.spec.failure or {"wrong": True}
    scored = plan.measure(outputs, targets)
    return failures(scored, outputs, targets, criterion, classes=data.classes, metadata=metadata)


def one_row_a_case(ids: Sequence[str], table: np.ndarray, seconds: float) -> Trace:
    """What a search found, as a trace."""
    n = len(ids)
    return Trace(
        {
            SYSTEM: ModuleTrace(
                np.array(ids, dtype=object),
                np.zeros(n, dtype=np.int64),
                np.full(n, None, dtype=object),
                np.full(n, seconds / max(n, 1)),
                VECTOR,
                table,
            )
        }
    )


def _attacked(plan, attack, items, rows, strengths, cases):
    """Each image attacked with a size of its own."""
    labels = np.asarray(plan.data["test"].targets)[rows]
    made = list(items)
    for size in np.unique(strengths):
        some = np.flatnonzero(strengths == size)
        if size == 0:
            continue
        one = Attack(attack.name, {**attack.parameters, EPSILON: float(size)})
        attacked = one.images(
            [items[i] for i in some],
            labels[some],
            plan.query,
            plan.spec.seed,
            [cases[i] for i in some],
        )
        for i, image in zip(some, attacked, strict=True):
            made[i] = image
    return made


SEARCHES: dict[str, Callable[[Plan, Chunk, Sequence[str]], Trace]] = {"breaks_at": breaks_at}
"""The searches that sections may want."""
