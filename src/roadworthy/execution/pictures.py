"""What pictures look like under a circumstance, apart from any answer to them.

A row a sample, and for each condition of the circumstance its distance to the original, its
features, and what an estimator says of it (Wozniak et al. 2024, M14 to M17, task 3). Sections ask
for it as for a search, so that it is kept, resumed and shared among workers like any other chunk;
the subject is not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roadworthy.cases.circumstance import Condition
from roadworthy.data.values import Unreadable
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.registry import get
from roadworthy.spec.own import is_own
from roadworthy.subject.adapters.loading import resolve_path
from roadworthy.subject.trace import Trace, one_row_a_case

PICTURES = "pictures"
"""The name under which sections ask for it."""
Measured = Callable[[Any, Any], np.ndarray]


def conditions_of(
    plan: Plan, circumstance: str, role: str = "test", level: float | None = None
) -> list[Condition]:
    """The conditions whose pictures stand side by side in a row; the originals if none is named."""
    if not circumstance:
        return [Condition(role=role)]
    if level is not None:
        return [plan.circumstance(circumstance).probe(level)]
    found = plan.circumstance(circumstance).conditions()
    return found if role == "test" else [replace(c, role=role) for c in found]


def pictures(plan: Plan, chunk: Chunk, ids: Sequence[str]) -> Trace:
    """What is asked of each picture, condition by condition; NaN if it cannot be made."""
    started = time.perf_counter()
    assert chunk.condition.search is not None
    asked, level = dict(chunk.condition.search.parameters), chunk.condition.search.level
    role, data = chunk.condition.role, plan.data[chunk.condition.role]
    where = conditions_of(plan, chunk.condition.circumstance, role, level)
    measured = _measured(plan, asked)
    rows = []
    for at in range(chunk.start, chunk.stop):
        original, row = data.inputs[at : at + 1][0], []
        for condition in where:
            made = plan.arriving(condition, condition.case_id(data.ids[at]), original)
            row.append(_or_none(measured, original, made))
        rows.append(row)
    width = next((len(part) for row in rows for part in row if part is not None), None)
    if width is None:  # nothing could be read here; other chunks have rows of this width
        every = (_or_none(measured, i, i) for i in data.inputs[:])
        width = next((len(part) for part in every if part is not None), 1)
    empty = np.full(width, np.nan)
    table = np.array([np.concatenate([empty if p is None else p for p in row]) for row in rows])
    return one_row_a_case(ids, table, time.perf_counter() - started)


def _or_none(measured: Measured, original: Any, made: Any) -> np.ndarray | None:
    """None if the picture cannot be made or read, or not be compared with its original."""
    if isinstance(original, Unreadable) or isinstance(made, Unreadable):
        return None
    try:
        return measured(original, made)
    except ValueError:
        return None


def _measured(plan: Plan, asked: Mapping[str, Any]) -> Measured:
    """The numbers of one picture: distance, then features, then estimators, as far as asked for."""
    parts: list[Callable[[Any, Any], Any]] = []
    if asked.get("distance"):
        distance, settings = get("distances", asked["distance"]).build, dict(asked["settings"])
        parts.append(lambda original, made: distance(original, made, **settings))
    if asked.get("features"):
        features = _features(plan, asked["features"])
        parts.append(lambda original, made: features(made))
    if asked.get("estimators"):
        from roadworthy.analysis.robustness.estimators import ESTIMATORS

        scores = [ESTIMATORS[name] for name in asked["estimators"]]
        parts.append(lambda original, made: [score(made) for score in scores])
    return lambda original, made: np.concatenate(
        [np.ravel(part(original, made)).astype(np.float64) for part in parts]
    )


def _features(plan: Plan, name: str) -> Callable[[Any], Any]:
    """The built-in features, or a function of the user: ``mine.py:name``."""
    if is_own(name):
        return resolve_path(name, plan.spec.base).target
    from roadworthy.distances.features import image_features

    return image_features
