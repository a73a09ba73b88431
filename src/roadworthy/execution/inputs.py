"""Inputs by reference: what a module was given, made again from the data, the transform, the seed and the case id; never kept.

A supervisor that needs `Input` gets the column ``input``: an array with a row a row of the trace where all have one shape, else
an object array; NaN (None) where the input could not be read or made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.data.values import FRAMES, Unreadable
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.subject.system import INPUT
from roadworthy.subject.trace import ModuleTrace


def inputs_of(plan: Plan, chunk: Chunk, module: str, rows: ModuleTrace) -> np.ndarray:
    """The inputs that a module saw, for the rows of its trace."""
    condition, data = chunk.condition, plan.data[chunk.condition.role]
    items = data.inputs[chunk.start : chunk.stop]
    transform = condition.transform
    acts = condition.port in (INPUT, f"{module}.{plan.subject.modules[module].inputs[0]}")
    change = transform if transform is not None and not transform.identity and acts else None
    ids = [condition.case_id(i) for i in data.ids[chunk.start : chunk.stop]]
    one_each = len(rows) == len(ids) and rows.case.tolist() == ids
    if change is None and one_each and isinstance(items, np.ndarray) and items.dtype != object:
        return items
    position = {case: i for i, case in enumerate(ids)}
    frames = data.input_kind is FRAMES

    def seen(case: str, step: int) -> Any:
        item = items[position[case]]
        if frames and plan.subject.stepwise:
            item = item if isinstance(item, Unreadable) else item[step]
            return _changed(plan, change, item, case, step)
        if frames and not isinstance(item, Unreadable):
            return [_changed(plan, change, frame, case, t) for t, frame in enumerate(item)]
        return _changed(plan, change, item, case, step)

    return stacked([seen(case, int(step)) for case, step in zip(rows.case, rows.step, strict=True)])


def _changed(plan: Plan, change: Any, item: Any, case: str, step: int) -> Any:
    if isinstance(item, Unreadable):
        return None
    if change is None:
        return item
    try:
        return change.at_step(item, plan.spec.seed, case, step)
    except Exception:
        return None  # the case failed when it was run, and its row says why


def stacked(items: list[Any]) -> np.ndarray:
    """One array where the items have one shape, NaN for those that are missing; else an object array.

    >>> stacked([np.zeros((2, 3)), None]).shape, stacked([np.zeros(2), np.zeros(3)]).dtype
    ((2, 2, 3), dtype('O'))
    """
    arrays = [i for i in items if isinstance(i, np.ndarray) and i.dtype != object]
    missing = [n for n, i in enumerate(items) if i is None]
    alike = len({a.shape for a in arrays}) == 1 and len(arrays) + len(missing) == len(items)
    if not alike:
        column = np.empty(len(items), dtype=object)
        column[:] = items
        return column
    if not missing:
        return np.stack(arrays)
    dense = np.full((len(items), *arrays[0].shape), np.nan, dtype=np.float32)
    dense[[n for n, i in enumerate(items) if i is not None]] = arrays
    return dense
