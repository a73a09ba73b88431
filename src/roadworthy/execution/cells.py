"""Searches around operational inputs: does the subject answer alike when asked again, and how often does an input of the ball
around a labelled one fail ("unastuteness", Zhao et al. 2021)?

Balls are taken in the units of `comparable`: pixels from 0 to 1, features as they are or with their domain as 0 to 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from roadworthy import registry
from roadworthy.cases.image.pixels import white
from roadworthy.data.samples import UNLABELLED, Dataset
from roadworthy.data.seeds import generator
from roadworthy.data.values import IMAGE, VECTOR, Unreadable
from roadworthy.execution.plan import Chunk, Plan
from roadworthy.measures.classification import predicted
from roadworthy.registry import Component
from roadworthy.spec.own import is_own, own_component
from roadworthy.subject.system import Cases
from roadworthy.subject.trace import SYSTEM, Trace, one_row_a_case

Domain = Sequence[tuple[float, float]] | None
AT_ONCE = 4096
"""Inputs that the subject is asked about at a time."""


def asked_again(plan: Plan, chunk: Chunk, ids: Sequence[str]) -> Trace:
    """The class that each of the first samples is answered with when they come in another order, one by one; NaN for the rest."""
    data, started = plan.data[chunk.condition.role], time.perf_counter()
    asked = range(chunk.start, min(chunk.stop, int(_settings(chunk)["inputs"])))
    again = np.full((len(ids), 1), np.nan)
    for row in reversed(asked):
        cases = Cases([ids[row - chunk.start]], data.inputs[row : row + 1], plan.spec.seed)
        output = plan.subject.run(cases, {}, {})[SYSTEM].output
        again[row - chunk.start] = predicted(np.asarray(output, dtype=np.float64).reshape(1, -1))
    return one_row_a_case(ids, again, time.perf_counter() - started)


def unastuteness(plan: Plan, chunk: Chunk, ids: Sequence[str]) -> Trace:
    """A row a sample: the probability that an input of its ball fails, low and high end, variance, queries, and whether a failure
    was found; NaN for samples without a label and beyond the first so many."""
    import torch

    from roadworthy.search.failures import margin_of
    from roadworthy.search.laws import UniformBox

    data, started, given = plan.data[chunk.condition.role], time.perf_counter(), _settings(chunk)
    table = np.full((len(ids), 6), np.nan)
    labels = np.asarray(data.targets)
    rows = np.flatnonzero(labels != UNLABELLED)[: given["inputs"]]
    rows = rows[(rows >= chunk.start) & (rows < chunk.stop)]
    if len(rows):
        points = comparable(data, rows, given["domain"])
        centre = torch.from_numpy(points.astype(np.float32))
        low, high = valid_range(data, given["domain"])
        ends = (centre - given["radius"], centre + given["radius"])
        law = UniformBox(*(end.clamp(low, high) for end in ends))
        margin = margin_of(scores_around(plan, data, given["domain"]), labels[rows], batch=AT_ONCE)
        estimator = estimator_of(plan, given["estimator"]).bind
        rng = generator(plan.spec.seed, "unastuteness", ids[0])
        found = estimator(**dict(given["parameters"]))(margin, law, rng)
        columns = (found.probability, found.low, found.high, found.variance)
        table[rows - chunk.start] = np.column_stack([*columns, found.queries, found.found])
    return one_row_a_case(ids, table, time.perf_counter() - started)


def estimator_of(plan: Plan, name: str) -> Component:
    """An estimator by its name, or as ``mine.py:name``; a process of its own has not loaded it yet."""
    if is_own(name):
        return own_component("failure_estimators", name, plan.spec.base)
    return registry.get("failure_estimators", name)


def comparable(data: Dataset, rows: np.ndarray | slice, domain: Domain = None) -> np.ndarray:
    """Inputs between which distances are taken, shaped as they are: pixels from 0 to 1, features with their domain as 0 to 1."""
    items = data.take(rows).inputs[:] if isinstance(rows, np.ndarray) else data.inputs[rows]
    broken = next((i for i in items if isinstance(i, Unreadable)), None)
    if broken is not None:
        raise ValueError(f"an input cannot be read: {broken.reason}")
    values = np.asarray(items)
    if data.input_kind is IMAGE:
        return values.astype(np.float32) / white(values.dtype)
    values = values.astype(np.float64)
    if domain is None:
        return values
    low, high = np.asarray(domain, dtype=np.float64).T
    return (values - low) / (high - low)


def valid_range(data: Dataset, domain: Domain) -> tuple[float, float]:
    """The least and the largest that a value of a comparable input can be."""
    return (0.0, 1.0) if data.input_kind is IMAGE or domain is not None else (-np.inf, np.inf)


def scores_around(plan: Plan, data: Dataset, domain: Domain) -> Callable[[Any], Any]:
    """Class scores of comparable inputs: by the network itself for images, else by running the system on rows of features."""
    if data.input_kind is IMAGE:
        return plan.query.scores  # type: ignore[no-any-return]
    low, high = (0.0, 1.0) if domain is None else np.asarray(domain, dtype=np.float64).T

    def scores(x: Any) -> Any:
        rows = low + x.cpu().numpy().astype(np.float64) * (np.asarray(high) - low)
        trace = plan.subject.run(Cases([str(i) for i in range(len(rows))], rows, plan.spec.seed))
        found = np.array(trace[SYSTEM].output, dtype=np.float64).reshape(len(rows), -1)
        found[~trace[SYSTEM].ok] = np.nan
        return found

    return scores


def why_no_scores(plan: Plan, data: Dataset) -> str:
    """Why the subject cannot be asked about inputs that are made up, or nothing."""
    if all(getattr(m, "whole_case", False) for m in plan.subject.modules.values()):
        return "answers in files are not enough: the subject is asked about new inputs"
    if data.input_kind is IMAGE:
        return plan.subject.offers_query() or ""
    return "" if data.input_kind is VECTOR else f"inputs are {data.input_kind.name}"


def _settings(chunk: Chunk) -> dict[str, Any]:
    assert chunk.condition.search is not None
    return dict(chunk.condition.search.parameters)
