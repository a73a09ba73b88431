"""Running independent cases all at once; if a batch raises, the cases are asked one by one, so that only the guilty fail."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.data.values import Kind, Unreadable
from roadworthy.subject.answers import checked, dense_if_possible, pick, sentence, spread
from roadworthy.subject.handing import copied
from roadworthy.subject.module import Answers, Context, Module, SubjectError
from roadworthy.subject.needs import Passes, Request
from roadworthy.subject.own_passes import PASS, numbers, split, summarised, without_failed
from roadworthy.subject.trace import SYSTEM, ModuleTrace, Trace

if TYPE_CHECKING:
    from roadworthy.subject.system import AtPort, Cases, System

INPUT = "input"


def run_batch(
    system: System,
    cases: Cases,
    requests: Mapping[str, frozenset[Request]],
    at: Mapping[str, AtPort],
) -> Trace:
    n = len(cases)
    error = np.full(n, None, dtype=object)
    started = time.perf_counter()
    inputs, error = _arriving(cases.inputs, at.get(INPUT), cases.ids, error)
    values: dict[str, Any] = {INPUT: inputs}
    traces: dict[str, ModuleTrace] = {}
    spent = np.full(n, (time.perf_counter() - started) / max(n, 1))
    for name, module in system.modules.items():
        began = time.perf_counter()
        given: dict[str, Any] = {}
        for port in module.inputs:
            column = values[system.wires[f"{name}.{port}"]]
            given[port], error = _arriving(column, at.get(f"{name}.{port}"), cases.ids, error)
        own, others = split(requests.get(name, frozenset()))
        asked = replace(cases, drawn=()) if name in system.unassessed else cases
        before = error.copy()
        answers, error = _answer(name, module, given, asked, others, error)
        for port, column in answers.outputs.items():
            values[f"{name}.{port}"] = column
        port = system.traced_port(name)
        extras = {request.column: array for request, array in answers.extras.items()}
        if own:
            answer = without_failed(answers.outputs[port], error)
            extras |= _own_passes(name, module, given, asked, own, port, answer, before)
        seconds = np.full(n, (time.perf_counter() - began) / max(n, 1))
        spent = spent + seconds
        traces[name] = _module_trace(
            cases, error, seconds, module.outputs[port], answers.outputs[port], extras
        )
    final = values[system.output]
    traces[SYSTEM] = _module_trace(cases, error, spent, system.output_kind, final, {})
    return Trace(traces)


def _module_trace(
    cases: Cases,
    error: np.ndarray,
    seconds: np.ndarray,
    kind: Kind,
    output: Any,
    extras: dict[str, np.ndarray],
) -> ModuleTrace:
    ids = np.array(cases.ids, dtype=object)
    return ModuleTrace(
        ids, np.zeros(len(ids), np.int32), error.copy(), seconds, kind, output, extras
    )


def _arriving(
    column: Any, change: AtPort | None, ids: Sequence[str], error: np.ndarray
) -> tuple[Any, np.ndarray]:
    """What arrives at a port after `change`; unreadable and failed rows become errors and None."""
    whole = isinstance(column, np.ndarray) and column.dtype != object
    if change is None:
        if whole:
            return column, error
        for row, item in enumerate(column):
            if isinstance(item, Unreadable) and error[row] is None:
                error[row] = item.reason
        return [None if error[row] is not None else item for row, item in enumerate(column)], error
    changed: list[Any] = [None] * len(ids)
    for row, item in enumerate(column):
        if isinstance(item, Unreadable):
            error[row] = error[row] or item.reason
        if error[row] is not None:
            continue
        try:
            changed[row] = change(item, ids[row], 0)
        except (Exception, SystemExit) as problem:
            error[row] = f"the transform failed: {sentence(problem)}"
    if whole and all(isinstance(c, np.ndarray) and c.shape == column.shape[1:] for c in changed):
        return np.stack(changed), error
    return changed, error


def _answer(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Request],
    error: np.ndarray,
) -> tuple[Answers, np.ndarray]:
    """Ask for all sound rows at once; if that raises, ask one by one, so that only the guilty rows fail."""
    n = len(cases)
    sound = np.array([e is None for e in error], dtype=bool)
    rows = np.flatnonzero(sound)
    if rows.size == 0:
        return Answers({port: spread([], rows, n) for port in module.outputs}), error
    try:
        asked = given if rows.size == n else pick(given, rows)
        answers = module.batch(copied(asked), _context(name, cases, rows.tolist(), requests))
        columns, extras, problems = checked(name, module, answers, rows.size)
    except SubjectError:
        raise
    except (Exception, SystemExit) as problem:
        if rows.size == 1:
            columns, extras, problems = (
                {p: [None] for p in module.outputs},
                {},
                {0: sentence(problem)},
            )
        else:
            return _one_by_one(name, module, given, cases, requests, error)
    for row, reason in problems.items():
        error[rows[row]] = reason
    if rows.size == n:
        return Answers(columns, extras), error
    return (
        Answers(
            {port: spread(column, rows, n) for port, column in columns.items()},
            {request: spread(np.asarray(array), rows, n) for request, array in extras.items()},
        ),
        error,
    )


def _own_passes(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Passes],
    port: str,
    answer: Any,
    error: np.ndarray,
) -> dict[str, np.ndarray]:
    """The module asked again for the same inputs, with other generators."""
    passes = []
    for i in numbers(requests):
        again = replace(cases, drawn=(*cases.drawn, PASS, i))
        answers, failed = _answer(name, module, given, again, frozenset(), error.copy())
        passes.append(without_failed(answers.outputs[port], failed))
    found = summarised(name, module.outputs[port], requests, answer, passes)
    return {request.column: array for request, array in found.items()}


def _context(name: str, cases: Cases, rows: Sequence[int], requests: frozenset[Request]) -> Context:
    return Context([cases.ids[i] for i in rows], requests, cases.seed, name, drawn=cases.drawn)


def _one_by_one(
    name: str,
    module: Module,
    given: Mapping[str, Any],
    cases: Cases,
    requests: frozenset[Request],
    error: np.ndarray,
) -> tuple[Answers, np.ndarray]:
    n = len(cases)
    rows = [i for i in range(n) if error[i] is None]
    outputs: dict[str, list[Any]] = {port: [None] * n for port in module.outputs}
    extras: dict[Request, dict[int, Any]] = {}
    for row in rows:
        one = np.array([row])
        try:
            answers = module.batch(copied(pick(given, one)), _context(name, cases, [row], requests))
            columns, found, problems = checked(name, module, answers, 1)
        except SubjectError:
            raise
        except (Exception, SystemExit) as problem:
            error[row] = sentence(problem)
            continue
        if problems:
            error[row] = problems[0]
            continue
        for port, column in columns.items():
            outputs[port][row] = column[0]
        for request, array in found.items():
            extras.setdefault(request, {})[row] = np.asarray(array)[0]
    laid: dict[Request, np.ndarray] = {}
    for request, by_row in extras.items():
        at_rows = np.array(sorted(by_row))
        laid[request] = spread(np.stack([by_row[i] for i in at_rows]), at_rows, n)
    dense = {p: dense_if_possible(module.outputs[p], column) for p, column in outputs.items()}
    return Answers(dense, laid), error
